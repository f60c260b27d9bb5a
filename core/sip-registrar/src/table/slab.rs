//! Cells of many sizes in pages of 8 KiB, named by 32-bit handles.
//!
//! A general allocator costs a 16-byte pointer to each cell and about 16 bytes of its own; here a
//! handle is 4 bytes, rounding wastes 4 on average and a page's bookkeeping less than half a percent.
//! Every page holds cells of one size, so that freed room is found by size and an empty page goes
//! back to the allocator for another size.

use super::segments::Segments;
use prefetch_index::prefetch_index;

/// Names no cell.
pub(crate) const NONE: u32 = u32::MAX;

const PAGE: usize = 8192;
/// Bytes of a line of the processor's cache, and of what one binding takes.
const LINE: usize = 64;
const USUAL: usize = 4 * LINE;
/// Low bits of a handle: the cell within its page. 512 cells of 16 bytes fill a page.
const CELL_BITS: u32 = 9;
const MAX_PAGES: usize = (1 << (32 - CELL_BITS)) - 1;
/// Up to here sizes step by 8 bytes, up to `LARGE` by 64; longer cells get a page of their own.
const FINE: usize = 512;
const LARGE: usize = 2048;
const CLASSES: usize = FINE / 8 + (LARGE - FINE) / 64;
/// Class of a page that holds one long cell.
const OWN_PAGE: u8 = u8::MAX;

struct Page {
    /// Room for the whole page, filled as far as cells were handed out: memory that no cell needed yet
    /// is not touched. Without room: the page is vacant and waits in the `vacant` list.
    data: Vec<u8>,
    /// Bytes per cell.
    cell: u32,
    class: u8,
    used: u16,
    /// First freed cell plus one; 0: none. A freed cell's first two bytes name the next likewise.
    free: u16,
    /// Cells handed out from the start of the page; those after were never used.
    fresh: u16,
    /// Neighbours among the pages of this class with room, or the next vacant page.
    prev: u32,
    next: u32,
}

/// The cells. Pages come first: a look-up needs no more.
#[repr(C)]
pub(crate) struct Slab {
    pages: Segments<Page, 8>,
    /// First page with room, by class.
    partial: [u32; CLASSES],
    vacant: u32,
    bytes: usize,
}

/// The class of cells that `len` bytes fit into, and its cell size.
fn class_of(len: usize) -> (u8, usize) {
    if len <= FINE {
        let size = len.max(16).next_multiple_of(8);
        ((size / 8 - 1) as u8, size)
    } else if len <= LARGE {
        let size = len.next_multiple_of(64);
        ((FINE / 8 + (size - FINE) / 64 - 1) as u8, size)
    } else {
        (OWN_PAGE, len)
    }
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab { pages: Segments::new(), partial: [NONE; CLASSES], vacant: NONE, bytes: 0 }
    }

    /// Whether one more cell of any size can be had.
    pub(crate) fn has_room(&self) -> bool {
        self.pages.len() < MAX_PAGES || self.vacant != NONE
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.pages.bytes()
    }

    /// A cell of at least `len` bytes with unspecified content; `None` when all handles are in use.
    pub(crate) fn alloc(&mut self, len: usize) -> Option<u32> {
        let (class, size) = class_of(len);
        let listed = self.partial.get(usize::from(class)).copied().unwrap_or(NONE);
        let page = if listed == NONE { self.open_page(class, size)? } else { listed };
        let p = self.pages.at_mut(page as usize);
        let cell = if p.free == 0 {
            p.fresh += 1;
            p.data.resize(usize::from(p.fresh) * p.cell as usize, 0);
            p.fresh - 1
        } else {
            let cell = p.free - 1;
            let at = usize::from(cell) * p.cell as usize;
            p.free = u16::from_le_bytes([p.data[at], p.data[at + 1]]);
            cell
        };
        p.used += 1;
        if class != OWN_PAGE && Self::is_full(self.pages.at(page as usize)) {
            self.unlist(page);
        }
        Some((page << CELL_BITS) | u32::from(cell))
    }

    /// Gives a cell back.
    pub(crate) fn free(&mut self, handle: u32) {
        let (page, cell) = (handle >> CELL_BITS, (handle & ((1 << CELL_BITS) - 1)) as u16);
        let p = self.pages.at_mut(page as usize);
        let was_full = Self::is_full(p);
        p.used -= 1;
        if p.used == 0 {
            if p.class != OWN_PAGE && !was_full {
                self.unlist(page);
            }
            self.close_page(page);
            return;
        }
        let at = usize::from(cell) * p.cell as usize;
        p.data[at..at + 2].copy_from_slice(&p.free.to_le_bytes());
        p.free = cell + 1;
        if was_full {
            self.list(page);
        }
    }

    /// Whether a cell of this handle holds `len` bytes without waste, so that it need not move.
    pub(crate) fn fits(&self, handle: u32, len: usize) -> bool {
        let p = self.pages.at((handle >> CELL_BITS) as usize);
        class_of(len) == (p.class, p.cell as usize)
    }

    pub(crate) fn get(&self, handle: u32) -> &[u8] {
        let p = self.pages.at((handle >> CELL_BITS) as usize);
        let at = (handle & ((1 << CELL_BITS) - 1)) as usize * p.cell as usize;
        &p.data[at..at + p.cell as usize]
    }

    /// Asks the processor for a cell as far as bindings of usual length go.
    #[inline]
    pub(crate) fn prefetch(&self, handle: u32) {
        let p = self.pages.at((handle >> CELL_BITS) as usize);
        let at = (handle & ((1 << CELL_BITS) - 1)) as usize * p.cell as usize;
        for line in (at..at + (p.cell as usize).min(USUAL)).step_by(LINE) {
            prefetch_index(&p.data, line);
        }
    }

    pub(crate) fn get_mut(&mut self, handle: u32) -> &mut [u8] {
        let p = self.pages.at_mut((handle >> CELL_BITS) as usize);
        let at = (handle & ((1 << CELL_BITS) - 1)) as usize * p.cell as usize;
        &mut p.data[at..at + p.cell as usize]
    }

    fn is_full(p: &Page) -> bool {
        p.free == 0 && (usize::from(p.fresh) + 1) * p.cell as usize > PAGE
    }

    /// A page for cells of this class, listed as having room unless it is a long cell's own.
    fn open_page(&mut self, class: u8, size: usize) -> Option<u32> {
        let cell = u32::try_from(size).ok()?;
        let len = if class == OWN_PAGE { size } else { PAGE };
        let data = Vec::with_capacity(len);
        let held = data.capacity();
        let fresh = Page { data, cell, class, used: 0, free: 0, fresh: 0, prev: NONE, next: NONE };
        let page = if self.vacant != NONE {
            let page = self.vacant;
            let p = self.pages.at_mut(page as usize);
            self.vacant = p.next;
            *p = fresh;
            page
        } else if self.pages.len() < MAX_PAGES {
            self.pages.push(fresh);
            (self.pages.len() - 1) as u32
        } else {
            return None;
        };
        self.bytes += held;
        if class != OWN_PAGE {
            self.list(page);
        }
        Some(page)
    }

    fn close_page(&mut self, page: u32) {
        let vacant = self.vacant;
        let p = self.pages.at_mut(page as usize);
        self.bytes -= p.data.capacity();
        p.data = Vec::new();
        p.next = vacant;
        self.vacant = page;
    }

    /// Puts a page at the head of its class's list of pages with room.
    fn list(&mut self, page: u32) {
        let p = self.pages.at_mut(page as usize);
        let head = &mut self.partial[usize::from(p.class)];
        let next = *head;
        *head = page;
        p.prev = NONE;
        p.next = next;
        if next != NONE {
            self.pages.at_mut(next as usize).prev = page;
        }
    }

    fn unlist(&mut self, page: u32) {
        let p = self.pages.at(page as usize);
        let (prev, next, class) = (p.prev, p.next, usize::from(p.class));
        if prev == NONE {
            self.partial[class] = next;
        } else {
            self.pages.at_mut(prev as usize).next = next;
        }
        if next != NONE {
            self.pages.at_mut(next as usize).prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Cells keep their bytes whatever happens around them, and no two overlap.
        #[test]
        fn cells_keep_their_bytes(steps in prop::collection::vec((0usize..5000, any::<bool>()), 1..400)) {
            let mut slab = Slab::new();
            let mut held: Vec<(u32, u8, usize)> = Vec::new();
            for (n, (size, drop)) in steps.into_iter().enumerate() {
                if drop && !held.is_empty() {
                    let (handle, _, _) = held.swap_remove(size % held.len());
                    slab.free(handle);
                } else {
                    let handle = slab.alloc(size).expect("room");
                    let mark = n as u8;
                    prop_assert!(slab.get(handle).len() >= size);
                    slab.get_mut(handle)[..size].fill(mark);
                    held.push((handle, mark, size));
                }
                for (handle, mark, size) in &held {
                    prop_assert!(slab.get(*handle)[..*size].iter().all(|b| b == mark));
                }
            }
            for (handle, _, _) in held {
                slab.free(handle);
            }
            prop_assert_eq!(slab.bytes, 0, "pages of freed cells stay behind");
        }
    }

    #[test]
    fn classes_are_dense_and_hold_what_they_promise() {
        let mut last = 0;
        for len in 0..=LARGE {
            let (class, size) = class_of(len);
            assert!(size >= len && usize::from(class) < CLASSES && class >= last && PAGE / size <= 512);
            assert!(size - len < if len <= FINE { 17 } else { 64 });
            last = class;
        }
        assert_eq!(class_of(LARGE + 1), (OWN_PAGE, LARGE + 1));
    }

    #[test]
    fn room_in_a_page_that_was_full_is_used_again() {
        let mut slab = Slab::new();
        let held: Vec<u32> = (0..1000).map(|_| slab.alloc(100).expect("room")).collect();
        let full = slab.bytes;
        for handle in held.iter().step_by(3) {
            slab.free(*handle);
        }
        for _ in held.iter().step_by(3) {
            slab.alloc(100).expect("room");
        }
        assert_eq!(slab.bytes, full);
    }

    #[test]
    fn a_refused_size_change_is_seen() {
        let mut slab = Slab::new();
        let handle = slab.alloc(100).expect("room");
        assert!(slab.fits(handle, 104) && slab.fits(handle, 97));
        assert!(!slab.fits(handle, 105) && !slab.fits(handle, 96));
    }
}
