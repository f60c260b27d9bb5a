//! Reusable slots in blocks, so that growing never copies or moves the values.

use core::mem::offset_of;
use core::slice;
use prefetch_index::prefetch_index;

/// Cells in one block. Adding a block takes little time, and the list of blocks stays in the processor's
/// cache.
const BLOCK: usize = 512;
/// [`Cell::next`] of the last free cell.
const NIL: u32 = u32::MAX;
/// [`Cell::next`] of a cell that is taken.
const TAKEN: u32 = u32::MAX - 1;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// A value whose memory stays in its slot for the next value.
pub trait Tenant: Default {
    /// Forgets everything but the memory.
    fn clear(&mut self);
}

impl<T: Tenant> Tenant for Box<T> {
    fn clear(&mut self) {
        (**self).clear();
    }
}

struct Cell<T> {
    /// Distinguishes the successive values of this slot.
    generation: u32,
    /// The next free slot, or [`TAKEN`].
    next: u32,
    value: Option<T>,
}

impl<T> Cell<T> {
    #[inline]
    fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.next == TAKEN)
    }

    #[inline]
    fn get_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut().filter(|_| self.next == TAKEN)
    }
}

/// A bounded collection of values found by slot, each with the generation it was stored under. A slot and its
/// generation name one value for good. The slot that was freed last is used first.
///
/// Values are moved in and out ([`Slab::insert`], [`Slab::remove`]), or reuse the memory of earlier values in
/// their slot ([`Slab::take`], [`Slab::give`]).
pub struct Slab<T> {
    blocks: Vec<Box<[Cell<T>; BLOCK]>>,
    free: u32,
    len: usize,
    limit: usize,
}

impl<T> Slab<T> {
    /// Most slots, so that a name made of slot and generation has two spare bits.
    const MOST: usize = 1 << 29;
    /// Bytes of one slot.
    pub const SLOT_BYTES: usize = size_of::<Cell<T>>();

    /// An empty slab for at most `limit` values, and at most 2^29.
    pub const fn new(limit: usize) -> Slab<T> {
        let limit = if limit < Self::MOST { limit } else { Self::MOST };
        Slab { blocks: Vec::new(), free: NIL, len: 0, limit }
    }

    /// Values stored.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no slot is taken.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether nothing more may be stored.
    pub const fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// All slots, taken or free: every slot number is below this.
    pub const fn slots(&self) -> u32 {
        (self.blocks.len() * BLOCK) as u32
    }

    /// Stores a value; `None` if the slab is full. `generation` is made from that of the last value in the
    /// same slot, 0 if there was none.
    pub fn insert(&mut self, value: T, generation: impl FnOnce(u32) -> u32) -> Option<u32> {
        let (slot, cell) = self.occupy()?;
        cell.generation = generation(cell.generation);
        cell.value = Some(value);
        Some(slot)
    }

    /// Takes a value out.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let cell = self.cell_mut(slot).filter(|cell| cell.next == TAKEN)?;
        let value = cell.value.take();
        self.vacate(slot);
        value
    }

    /// The value in a slot, whatever its generation.
    #[inline]
    pub fn at(&self, slot: u32) -> Option<&T> {
        self.cell(slot)?.get()
    }

    /// The value in a slot, whatever its generation.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.cell_mut(slot)?.get_mut()
    }

    /// The value that was stored in `slot` under `generation`, if it is still there.
    #[inline]
    pub fn get(&self, slot: u32, generation: u32) -> Option<&T> {
        self.cell(slot).filter(|cell| cell.generation == generation)?.get()
    }

    /// The value that was stored in `slot` under `generation`, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        self.cell_mut(slot).filter(|cell| cell.generation == generation)?.get_mut()
    }

    /// The generation of the value in a slot.
    pub fn generation(&self, slot: u32) -> Option<u32> {
        let cell = self.cell(slot)?;
        cell.get().map(|_| cell.generation)
    }

    /// All values, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let cells = self.blocks.iter().flat_map(|block| block.iter());
        (0..).zip(cells).filter_map(|(slot, cell)| Some((slot, cell.get()?)))
    }

    /// The slots of all values.
    pub fn taken(&self) -> Vec<u32> {
        self.iter().map(|(slot, _)| slot).collect()
    }

    /// Prefetches all of a slot, which is needed soon.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        let Some(cell) = self.cell(slot) else { return };
        // From the cell's beginning, in words; nothing is read.
        let word = slice::from_ref(&cell.generation);
        let begin = offset_of!(Cell<T>, generation) / size_of::<u32>();
        for at in (0..size_of::<Cell<T>>()).step_by(LINE).chain([size_of::<Cell<T>>() - 1]) {
            prefetch_index(word, (at / size_of::<u32>()).wrapping_sub(begin));
        }
    }

    #[inline]
    fn cell(&self, slot: u32) -> Option<&Cell<T>> {
        Some(&self.blocks.get(slot as usize / BLOCK)?[slot as usize % BLOCK])
    }

    #[inline]
    fn cell_mut(&mut self, slot: u32) -> Option<&mut Cell<T>> {
        Some(&mut self.blocks.get_mut(slot as usize / BLOCK)?[slot as usize % BLOCK])
    }

    /// Takes the first free cell, which keeps the generation of its last value.
    #[inline]
    fn occupy(&mut self) -> Option<(u32, &mut Cell<T>)> {
        if self.is_full() {
            return None;
        }
        if self.free == NIL {
            self.grow();
        }
        let slot = self.free;
        let cell = &mut self.blocks.get_mut(slot as usize / BLOCK)?[slot as usize % BLOCK];
        self.free = core::mem::replace(&mut cell.next, TAKEN);
        self.len += 1;
        Some((slot, cell))
    }

    /// Frees a cell that is taken.
    #[inline]
    fn vacate(&mut self, slot: u32) {
        let free = self.free;
        if let Some(cell) = self.cell_mut(slot) {
            cell.next = free;
            self.free = slot;
            self.len -= 1;
        }
    }

    /// Adds one block of free cells.
    #[cold]
    fn grow(&mut self) {
        let base = self.slots();
        let cells = (1..=BLOCK).map(|i| {
            let next = if i == BLOCK { NIL } else { base + i as u32 };
            Cell { generation: 0, next, value: None }
        });
        let block = cells.collect::<Box<[Cell<T>]>>().try_into().ok();
        // Without it the slab would be full.
        if let Some(block) = invariant::some!(block, "BLOCK cells make one block") {
            self.blocks.push(block);
            self.free = base;
        }
    }
}

impl<T: Tenant> Slab<T> {
    /// A slot for something new and its generation; `None` if the slab is full.
    pub fn take(&mut self) -> Option<(u32, u32)> {
        let (slot, cell) = self.occupy()?;
        cell.generation = cell.generation.wrapping_add(1);
        cell.value.get_or_insert_with(T::default);
        Some((slot, cell.generation))
    }

    /// Frees a slot, which keeps the memory of its value. False if it was free.
    pub fn give(&mut self, slot: u32) -> bool {
        let Some(value) = self.at_mut(slot) else { return false };
        value.clear();
        self.vacate(slot);
        true
    }
}

impl<T> Default for Slab<T> {
    /// For as many values as possible.
    fn default() -> Slab<T> {
        Slab::new(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Text(Vec<u8>);

    impl Tenant for Text {
        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[test]
    fn slots_are_used_again_under_another_generation() {
        let mut slab = Slab::<Text>::default();
        let (slot, first) = slab.take().unwrap();
        slab.at_mut(slot).unwrap().0.extend_from_slice(b"text");
        assert!(slab.give(slot) && !slab.give(slot), "it is free");
        assert!(slab.at(slot).is_none() && slab.get(slot, first).is_none() && slab.is_empty());
        let (again, second) = slab.take().unwrap();
        assert_eq!(again, slot);
        assert!(second != first && slab.get_mut(slot, first).is_none());
        let text = &slab.get(slot, second).unwrap().0;
        assert!(text.is_empty() && text.capacity() > 0, "its memory is kept");
        assert_eq!((slab.len(), slab.taken()), (1, vec![slot]));
    }

    #[test]
    fn stale_generation_finds_nothing() {
        let mut slab = Slab::new(10);
        let slot = slab.insert("first", |_| 7).expect("room");
        assert_eq!(slab.get(slot, 7), Some(&"first"));
        assert_eq!(slab.get(slot, 8), None);
        assert_eq!(slab.remove(slot), Some("first"));
        assert_eq!(slab.get(slot, 7), None);
        assert_eq!(slab.remove(slot), None);
        let again = slab.insert("second", |last| last + 2).expect("room");
        assert_eq!(again, slot, "the hottest slot is used first");
        assert_eq!(slab.get(again, 7), None);
        assert_eq!(slab.get_mut(again, 9), Some(&mut "second"));
    }

    #[test]
    fn limit_holds_and_slots_are_distinct() {
        const COUNT: u32 = BLOCK as u32 + 100;
        let mut slab = Slab::new(COUNT as usize);
        let slots: Vec<u32> = (0..COUNT).map(|i| slab.insert(i, |_| i).expect("room")).collect();
        assert_eq!(slab.insert(0, |_| 0), None);
        assert!(slots.iter().enumerate().all(|(i, slot)| slab.at(*slot) == Some(&(i as u32))));
        assert_eq!(slab.remove(slots[5]), Some(5));
        assert!(!slab.is_full() && slab.insert(0, |_| 0) == Some(slots[5]));
        assert_eq!((slab.get(9_999_999, 0), slab.generation(9_999_999)), (None, None));
        assert_eq!(slab.iter().count(), slab.len());
    }
}
