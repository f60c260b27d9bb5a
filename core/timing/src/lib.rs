//! A slab of reusable slots ([`Slab`]), and a timing wheel with one deadline for each slot ([`Wheel`]).
//!
//! Setting, moving and taking away a deadline costs a few writes, and so does finding what has come up. A
//! thing takes 12 bytes, whether it has a deadline or not.
#![forbid(unsafe_code)]

mod slab;

pub use slab::{Slab, Tenant};

use wire::Time;

/// log2 of a tick in microseconds: 65.5 ms.
const TICK: u32 = 16;
/// Ticks of a turn: 268 s.
const SLOTS: usize = 4_096;
const TURN: u64 = SLOTS as u64;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
    /// The slot it is linked in, or [`NIL`].
    slot: u32,
}

const UNLINKED: Link = Link { next: NIL, prev: NIL, slot: NIL };

/// A hashed timing wheel (Varghese and Lauck, 1987) of one turn.
///
/// A deadline comes up at the first tick that is not before it, so at most a tick late. One that is over when
/// it is set comes up at the tick after the one being looked at. One beyond a turn comes up too early, once a
/// turn: whoever gets it sets it again.
#[derive(Debug)]
pub struct Wheel {
    heads: Box<[u32]>,
    /// One bit for each slot with something in it, and one for each word of these.
    filled: [u64; SLOTS / 64],
    words: u64,
    links: Vec<Link>,
    /// The tick being looked at: nothing linked comes up before it.
    cursor: u64,
    linked: usize,
}

impl Wheel {
    /// A wheel that starts at `now`. It allocates nothing for places below `capacity`.
    pub fn new(now: Time, capacity: usize) -> Wheel {
        Wheel {
            heads: vec![NIL; SLOTS].into_boxed_slice(),
            filled: [0; SLOTS / 64],
            words: 0,
            links: Vec::with_capacity(capacity),
            cursor: now.as_micros() >> TICK,
            linked: 0,
        }
    }

    /// Says what time it is. A wheel without deadlines may not have been asked for long.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        if self.linked == 0 {
            self.cursor = self.cursor.max(now.as_micros() >> TICK);
        }
    }

    /// Sets the deadline of `place`, in place of any other that it has.
    pub fn set(&mut self, place: u32, at: Time) {
        self.clear(place);
        let tick = self.tick_for(at);
        self.link(place, tick);
    }

    /// Sets the deadline of `place`, unless it comes up earlier already: then it is to be set again when it
    /// comes up. So a deadline that is put off often costs nothing each time.
    pub fn set_lazily(&mut self, place: u32, at: Time) {
        let tick = self.tick_for(at);
        if self.planned(place).is_none_or(|planned| planned > tick) {
            self.clear(place);
            self.link(place, tick);
        }
    }

    /// Takes the deadline of `place` away, if it has one.
    pub fn clear(&mut self, place: u32) {
        let Some(link) = self.links.get_mut(place as usize).filter(|link| link.slot != NIL) else { return };
        let Link { next, prev, slot } = core::mem::replace(link, UNLINKED);
        let slot = slot as usize % SLOTS;
        if let Some(before) = self.links.get_mut(prev as usize) {
            before.next = next;
        } else {
            self.heads[slot] = next;
        }
        if let Some(after) = self.links.get_mut(next as usize) {
            after.prev = prev;
        }
        if self.heads[slot] == NIL {
            self.filled[slot / 64] &= !(1 << (slot % 64));
            if self.filled[slot / 64] == 0 {
                self.words &= !(1 << (slot / 64));
            }
        }
        self.linked -= 1;
    }

    /// Takes out a place that has come up by `now`; call until there is none. Its deadline may not be over,
    /// see [`Wheel`].
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        let last = now.as_micros() >> TICK;
        match self.next_tick().filter(|tick| *tick <= last) {
            Some(tick) => {
                self.cursor = tick;
                let place = self.heads[tick as usize % SLOTS];
                self.clear(place);
                Some(place)
            }
            None => {
                self.cursor = self.cursor.max(last);
                None
            }
        }
    }

    /// When [`Wheel::pop`] has something next.
    pub fn next(&self) -> Option<Time> {
        self.next_tick().map(|tick| Time::from_micros(tick << TICK))
    }

    /// The tick for a deadline: after the one being looked at, so that calls of [`Wheel::pop`] come to an
    /// end.
    fn tick_for(&self, at: Time) -> u64 {
        at.as_micros().div_ceil(1 << TICK).clamp(self.cursor + 1, self.cursor + TURN - 1)
    }

    /// When `place` comes up.
    fn planned(&self, place: u32) -> Option<u64> {
        let slot = self.links.get(place as usize)?.slot;
        let ahead = u64::from(slot).wrapping_sub(self.cursor) % TURN;
        (slot != NIL).then_some(self.cursor + ahead)
    }

    /// Links a place that is not linked.
    fn link(&mut self, place: u32, tick: u64) {
        let slot = tick as usize % SLOTS;
        let head = core::mem::replace(&mut self.heads[slot], place);
        if place as usize >= self.links.len() {
            self.links.resize(place as usize + 1, UNLINKED);
        }
        if let Some(link) = self.links.get_mut(place as usize) {
            *link = Link { next: head, prev: NIL, slot: slot as u32 };
        }
        if let Some(link) = self.links.get_mut(head as usize) {
            link.prev = place;
        }
        self.filled[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
        self.linked += 1;
    }

    /// The first tick, from the cursor on, with something in its slot.
    fn next_tick(&self) -> Option<u64> {
        if self.linked == 0 {
            return None;
        }
        let here = self.cursor as usize % SLOTS;
        let slot = self.first_from(here).or_else(|| self.first_from(0))?;
        Some(self.cursor + ((slot + SLOTS - here) % SLOTS) as u64)
    }

    /// The first slot from this one on with something in it.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A tick in microseconds.
    const SPAN: u64 = 1 << TICK;

    #[test]
    fn later_deadline_is_met_at_the_second_visit() {
        let mut wheel = Wheel::new(Time::ZERO, 0);
        wheel.set_lazily(4, Time::from_secs(1));
        wheel.set_lazily(4, Time::from_secs(5));
        assert_eq!(wheel.pop(Time::from_secs(2)), Some(4));
        wheel.set_lazily(4, Time::from_secs(5));
        assert_eq!(wheel.pop(Time::from_secs(3)), None);
        assert_eq!(wheel.pop(Time::from_secs(6)), Some(4));
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn deadline_of_the_past_comes_up_a_tick_later() {
        let mut wheel = Wheel::new(Time::from_secs(10), 1);
        wheel.set(0, Time::from_secs(11));
        let first = wheel.next().expect("it is set");
        assert_eq!(wheel.pop(first), Some(0));
        wheel.set(0, Time::from_secs(11));
        let again = wheel.next().expect("it is set");
        assert_eq!(again.as_micros(), first.as_micros() + SPAN);
        assert_eq!((wheel.pop(first), wheel.pop(again)), (None, Some(0)));
    }

    #[test]
    fn wheel_that_was_empty_for_long_reaches_a_whole_turn() {
        let mut wheel = Wheel::new(Time::ZERO, 1);
        let now = Time::from_secs(100_000);
        wheel.advance(now);
        wheel.set(0, Time::from_secs(100_200));
        assert_eq!(
            (wheel.pop(Time::from_secs(100_199)), wheel.pop(Time::from_secs(100_201))),
            (None, Some(0))
        );
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Set(u32, u64),
        SetLazily(u32, u64),
        Clear(u32),
        Pass(u64),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        // Beyond a turn, too.
        let ahead = || prop_oneof![0..SPAN * 2, 0..400_000_000u64];
        prop_oneof![
            3 => (0..20u32, ahead()).prop_map(|(place, ahead)| Deed::Set(place, ahead)),
            3 => (0..20u32, ahead()).prop_map(|(place, ahead)| Deed::SetLazily(place, ahead)),
            1 => (0..20u32).prop_map(Deed::Clear),
            4 => (0..30_000_000u64).prop_map(Deed::Pass),
        ]
    }

    proptest! {
        /// Against a map: each place comes up once, not before its deadline and at most a tick after it.
        #[test]
        fn every_deadline_is_met(
            start in 0u64..1 << 40,
            deeds in proptest::collection::vec(deed(), 1..150),
        ) {
            let mut wheel = Wheel::new(Time::from_micros(start), 4);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = start;
            for deed in deeds {
                match deed {
                    Deed::Set(place, ahead) => {
                        wheel.set(place, Time::from_micros(now + ahead));
                        model.insert(place, now + ahead);
                    }
                    Deed::SetLazily(place, ahead) => {
                        wheel.set_lazily(place, Time::from_micros(now + ahead));
                        model.insert(place, now + ahead);
                    }
                    Deed::Clear(place) => {
                        wheel.clear(place);
                        model.remove(&place);
                    }
                    Deed::Pass(span) => now += span,
                }
                while let Some(place) = wheel.pop(Time::from_micros(now)) {
                    let at = model.remove(&place).expect("only what was set comes up");
                    if at > now {
                        wheel.set(place, Time::from_micros(at));
                        model.insert(place, at);
                    }
                }
                prop_assert!(model.values().all(|at| at + SPAN > now), "a deadline was missed");
                let first = model.values().min();
                prop_assert_eq!(wheel.next().is_some(), first.is_some());
                if let (Some(next), Some(first)) = (wheel.next(), first) {
                    prop_assert!(next.as_micros() < first + SPAN, "the wheel would sleep through a deadline");
                }
            }
        }
    }
}
