//! When to look at which cell: one turn of a timing wheel, cells linked to its slots.
//!
//! A cell is put under the earliest expiry of its bindings and stays there when a refresh moves that
//! later: the usual REGISTER touches no list. When its slot comes, a cell that has time left is put
//! where it now belongs. Expiries beyond one turn (71 minutes) wait at the end of the turn.
//!
//! The wheel of `timing` is not used: its links are in an array by slot, 12 bytes for each, and cells have
//! handles that are no index of an array. Here the links take 10 bytes of the cell.

use super::bytes::{put_u16, put_u32, u16_at, u32_at};
use super::cell::{NEXT, PREV, SLOT};
use super::slab::{NONE, Slab};
use wire::Time;

const SLOTS: u64 = 4096;
/// A tick is 2^20 microseconds, so that finding it is a shift.
const TICK_BITS: u32 = 20;

pub(crate) struct Wheel {
    heads: Vec<u32>,
    /// The tick whose slot is looked at next.
    next: u64,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { heads: vec![NONE; SLOTS as usize], next: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.heads.len() * size_of::<u32>()
    }

    /// The time from which [`Wheel::due`] has something to look at.
    pub(crate) fn next_due(&self) -> Time {
        Time::from_micros(self.next.saturating_mul(1 << TICK_BITS))
    }

    /// Puts a new cell under `expiry`.
    pub(crate) fn insert(&mut self, slab: &mut Slab, handle: u32, expiry: Time) {
        let slot = ((self.next + self.distance(expiry)) % SLOTS) as usize;
        let head = std::mem::replace(&mut self.heads[slot], handle);
        if head != NONE {
            put_u32(slab.get_mut(head), PREV, handle);
        }
        let cell = slab.get_mut(handle);
        put_u32(cell, PREV, NONE);
        put_u32(cell, NEXT, head);
        put_u16(cell, SLOT, slot as u16);
    }

    pub(crate) fn remove(&mut self, slab: &mut Slab, handle: u32) {
        let cell = slab.get(handle);
        let (prev, next, slot) = (u32_at(cell, PREV), u32_at(cell, NEXT), u16_at(cell, SLOT));
        self.point_from(slab, prev, slot, next);
        if next != NONE {
            put_u32(slab.get_mut(next), PREV, prev);
        }
    }

    /// The expiry of a cell changed: moves it if it would be looked at too late.
    pub(crate) fn adjust(&mut self, slab: &mut Slab, handle: u32, expiry: Time) {
        let slot = u64::from(u16_at(slab.get(handle), SLOT));
        let planned = slot.wrapping_sub(self.next) % SLOTS;
        if planned > self.distance(expiry) {
            self.remove(slab, handle);
            self.insert(slab, handle, expiry);
        }
    }

    /// A cell moved from `old` to `new`; its links were copied with it.
    pub(crate) fn moved(&mut self, slab: &mut Slab, old: u32, new: u32) {
        let cell = slab.get(old);
        let (prev, next, slot) = (u32_at(cell, PREV), u32_at(cell, NEXT), u16_at(cell, SLOT));
        self.point_from(slab, prev, slot, new);
        if next != NONE {
            put_u32(slab.get_mut(next), PREV, new);
        }
    }

    /// Takes the next cell to look at out of the wheel; `None`: nothing more is due by `now`.
    /// At most one turn of empty slots is passed in one call.
    pub(crate) fn due(&mut self, slab: &mut Slab, now: Time) -> Option<u32> {
        let last = now.as_micros() >> TICK_BITS;
        // After a long silence every slot is due, and one turn sees them all.
        self.next = self.next.max((last + 1).saturating_sub(SLOTS));
        while self.next <= last {
            let head = self.heads[(self.next % SLOTS) as usize];
            if head != NONE {
                self.remove(slab, head);
                return Some(head);
            }
            self.next += 1;
        }
        None
    }

    /// The same while no cell is in the wheel: all slots up to `now` are passed in one step.
    pub(crate) fn skip_to(&mut self, now: Time) {
        self.next = self.next.max((now.as_micros() >> TICK_BITS) + 1);
    }

    fn point_from(&mut self, slab: &mut Slab, prev: u32, slot: u16, to: u32) {
        if prev == NONE {
            self.heads[usize::from(slot)] = to;
        } else {
            put_u32(slab.get_mut(prev), NEXT, to);
        }
    }

    /// Ticks from `next` to the first one at which everything of this expiry is over.
    fn distance(&self, expiry: Time) -> u64 {
        let tick = (expiry.as_micros() >> TICK_BITS) + 1;
        tick.saturating_sub(self.next).min(SLOTS - 1)
    }
}
