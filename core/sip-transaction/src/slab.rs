//! Slots with generations, in blocks, so that growing never copies what is there.

use crate::index::SLOTS;
use core::mem::offset_of;
use core::slice;
use prefetch_index::prefetch_index;

/// Cells in one block: so few that adding one is no pause, and so many that the list of blocks stays in the
/// processor's cache.
const BLOCK: usize = 512;
const NIL: u32 = u32::MAX;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

struct Cell<T> {
    generation: u32,
    /// The next free slot, if this one is free.
    next: u32,
    value: Option<T>,
}

/// A bounded collection of values found by slot, each with the generation it was stored under.
pub(crate) struct Slab<T> {
    blocks: Vec<Box<[Cell<T>; BLOCK]>>,
    cells: u32,
    free: u32,
    len: usize,
    limit: usize,
}

impl<T> Slab<T> {
    /// An empty slab for at most `limit` values.
    pub(crate) fn new(limit: usize) -> Slab<T> {
        // Slots must stay clear of the bits that ids and the index use for other things.
        Slab { blocks: Vec::new(), cells: 0, free: NIL, len: 0, limit: limit.min(SLOTS) }
    }

    /// Values stored.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing more may be stored.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// Stores a value; `None` if the slab is full. `generation` is what its id will have to show.
    pub(crate) fn insert(&mut self, generation: u32, value: T) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        if self.free == NIL {
            self.grow();
        }
        let slot = self.free;
        let cell = self.cell_mut(slot)?;
        cell.generation = generation;
        cell.value = Some(value);
        self.free = cell.next;
        self.len += 1;
        Some(slot)
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let free = self.free;
        let cell = self.cell_mut(slot)?;
        let value = cell.value.take()?;
        cell.next = free;
        self.free = slot;
        self.len -= 1;
        Some(value)
    }

    /// The value in a slot, whatever its generation.
    pub(crate) fn at(&self, slot: u32) -> Option<&T> {
        self.cell(slot)?.value.as_ref()
    }

    /// The value in a slot, whatever its generation.
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.cell_mut(slot)?.value.as_mut()
    }

    /// The value that was stored in `slot` under `generation`, if it is still there.
    pub(crate) fn get(&self, slot: u32, generation: u32) -> Option<&T> {
        let cell = self.cell(slot)?;
        if cell.generation == generation { cell.value.as_ref() } else { None }
    }

    /// The value that was stored in `slot` under `generation`, if it is still there.
    pub(crate) fn get_mut(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        let cell = self.cell_mut(slot)?;
        if cell.generation == generation { cell.value.as_mut() } else { None }
    }

    /// The generation of the value in a slot.
    pub(crate) fn generation(&self, slot: u32) -> Option<u32> {
        let cell = self.cell(slot)?;
        cell.value.as_ref().map(|_| cell.generation)
    }

    /// Asks the processor for all of a slot: somebody will look at it soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
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

    /// Adds one block of free cells.
    #[cold]
    fn grow(&mut self) {
        let base = self.cells;
        let cells = (1..=BLOCK).map(|i| {
            let next = if i == BLOCK { NIL } else { base + i as u32 };
            Cell { generation: 0, next, value: None }
        });
        let block = cells.collect::<Box<[Cell<T>]>>().try_into().ok();
        // Without it the slab would be full.
        if let Some(block) = invariant::some!(block, "BLOCK cells make one block") {
            self.blocks.push(block);
            self.cells = base + BLOCK as u32;
            self.free = base;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_generation_finds_nothing() {
        let mut slab = Slab::new(10);
        let slot = slab.insert(7, "first").expect("room");
        assert_eq!(slab.get(slot, 7), Some(&"first"));
        assert_eq!(slab.get(slot, 8), None);
        assert_eq!(slab.remove(slot), Some("first"));
        assert_eq!(slab.get(slot, 7), None);
        assert_eq!(slab.remove(slot), None);
        let again = slab.insert(9, "second").expect("room");
        assert_eq!(again, slot, "the hottest slot is used first");
        assert_eq!(slab.get(again, 7), None);
        assert_eq!(slab.get_mut(again, 9), Some(&mut "second"));
    }

    #[test]
    fn the_limit_holds_and_slots_are_distinct() {
        let mut slab = Slab::new(300);
        let slots: Vec<u32> = (0..300).map(|i| slab.insert(i, i).expect("room")).collect();
        assert_eq!(slab.insert(0, 0), None);
        assert!(slots.iter().enumerate().all(|(i, slot)| slab.at(*slot) == Some(&(i as u32))));
        assert_eq!(slab.remove(slots[5]), Some(5));
        assert!(!slab.is_full() && slab.insert(0, 0) == Some(slots[5]));
        assert_eq!((slab.get(9_999_999, 0), slab.generation(9_999_999)), (None, None));
    }
}
