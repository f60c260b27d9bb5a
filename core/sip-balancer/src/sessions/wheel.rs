//! One deadline for each record, in a wheel of 4,096 slots of 65.5 ms.
//!
//! Setting a deadline is a few writes. One that lies further away than the wheel reaches (268 s) waits in
//! the last slot and is set again from there. A deadline never comes early; it comes at most a slot late.

use wire::Time;

/// log2 of a slot in microseconds.
const SLOT: u32 = 16;
const SLOTS: usize = 4_096;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
    slot: u32,
}

const FREE: Link = Link { next: NIL, prev: NIL, slot: NIL };

/// Deadlines of records, which are named by their place.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    /// One bit for each slot with something in it, and one for each word of these.
    filled: [u64; SLOTS / 64],
    words: u64,
    links: Vec<Link>,
    /// The slot that is looked at next, counted from the origin of time.
    now: u64,
    armed: usize,
}

impl Wheel {
    /// A wheel for places below `most`.
    pub fn new(most: usize) -> Wheel {
        Wheel {
            heads: vec![NIL; SLOTS].into_boxed_slice(),
            filled: [0; SLOTS / 64],
            words: 0,
            links: Vec::with_capacity(most),
            now: 0,
            armed: 0,
        }
    }

    fn link(&mut self, place: u32) -> Option<&mut Link> {
        let at = place as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, FREE);
        }
        self.links.get_mut(at)
    }

    /// Sets the deadline of `place`, in the place of any other it had.
    pub fn set(&mut self, now: Time, place: u32, due: Time) {
        self.cancel(place);
        if self.armed == 0 {
            self.now = now.as_micros() >> SLOT;
        }
        // The slot after the one it falls into: by then it is over.
        let wanted = (due.as_micros() >> SLOT) + 1;
        let slot = wanted.clamp(self.now + 1, self.now + SLOTS as u64 - 1) as usize % SLOTS;
        let head = self.heads.get(slot).copied().unwrap_or(NIL);
        if let Some(link) = self.link(place) {
            *link = Link { next: head, prev: NIL, slot: slot as u32 };
        }
        if head != NIL
            && let Some(link) = self.link(head)
        {
            link.prev = place;
        }
        self.heads[slot] = place;
        self.filled[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
        self.armed += 1;
    }

    /// Takes the deadline of `place` away, if it has one.
    pub fn cancel(&mut self, place: u32) {
        let Some(&link) = self.links.get(place as usize).filter(|link| link.slot != NIL) else { return };
        match link.prev {
            NIL => self.heads[link.slot as usize] = link.next,
            prev => self.links[prev as usize].next = link.next,
        }
        if link.next != NIL {
            self.links[link.next as usize].prev = link.prev;
        }
        self.links[place as usize] = FREE;
        self.armed -= 1;
        let slot = link.slot as usize;
        if self.heads[slot] == NIL {
            self.filled[slot / 64] &= !(1 << (slot % 64));
            if self.filled[slot / 64] == 0 {
                self.words &= !(1 << (slot / 64));
            }
        }
    }

    /// Takes out one place whose slot has come; `None`: there is no more.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        let until = now.as_micros() >> SLOT;
        while self.armed > 0 && self.now <= until {
            match self.heads[self.now as usize % SLOTS] {
                NIL => self.now += 1,
                place => {
                    self.cancel(place);
                    return Some(place);
                }
            }
        }
        None
    }

    /// The first slot at or after this one with something in it.
    fn first_from(&self, slot: usize) -> Option<usize> {
        let here = self.filled[slot / 64] & (!0 << (slot % 64));
        if here != 0 {
            return Some(slot / 64 * 64 + here.trailing_zeros() as usize);
        }
        let later = self.words & (!1u64).checked_shl((slot / 64) as u32).unwrap_or(0);
        let word = later.trailing_zeros() as usize;
        let bits = self.filled.get(word)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// When the first slot with something in it comes.
    pub fn next(&self) -> Option<Time> {
        if self.armed == 0 {
            return None;
        }
        let here = self.now as usize % SLOTS;
        let slot = self.first_from(here).or_else(|| self.first_from(0))?;
        let ahead = (slot + SLOTS - here) % SLOTS;
        Some(Time::from_micros((self.now + ahead as u64) << SLOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn nothing_is_early_nothing_late_and_nothing_lost(
            steps in proptest::collection::vec((0u32..16, 0u64..600_000, 0u64..9_000, any::<bool>()), 1..60),
        ) {
            let mut wheel = Wheel::new(16);
            let mut now = Time::from_secs(77);
            let mut due: BTreeMap<u32, Time> = BTreeMap::new();
            for (place, ahead, pass, cancel) in steps {
                if cancel {
                    wheel.cancel(place);
                    due.remove(&place);
                } else {
                    let at = now + Duration::from_millis(ahead);
                    wheel.set(now, place, at);
                    due.insert(place, at);
                }
                now = now + Duration::from_millis(pass);
                while let Some(place) = wheel.pop(now) {
                    let at = due.remove(&place).expect("one that was set");
                    if at > now {
                        // It lies beyond the wheel's reach.
                        prop_assert!(at > now + Duration::from_secs(1));
                        wheel.set(now, place, at);
                        due.insert(place, at);
                    }
                }
                prop_assert!(due.values().all(|at| *at + Duration::from_micros(1 << 17) > now));
                prop_assert_eq!(wheel.next().is_some(), !due.is_empty());
                if let (Some(next), Some(first)) = (wheel.next(), due.values().min()) {
                    prop_assert!(next <= *first + Duration::from_micros(1 << 17));
                }
            }
        }
    }
}
