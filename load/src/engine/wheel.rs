//! Timers of calls: one each, armed and cancelled in a handful of instructions.
//!
//! A hierarchical timing wheel (Varghese and Lauck, 1987): four levels of 256 lists, a tick of 1 ms, so
//! 49 days. A timer is named by the slot of its call and linked into its list through an array beside
//! it, so that arming, moving and cancelling touch no allocator. Work is done only at ticks that have
//! something: bitmaps say which.
//!
//! The wheel of `timing` is not used: its ticks of 65 ms would make what is sent late by as much, and
//! lateness is what a generator must not have.

use wire::Time;

/// Microseconds of one tick.
const TICK: u64 = 1_000;

/// The first tick that is not before `at`. What is meant to happen within a call is meant for a tick: so that
/// what is meant and what can be agree.
pub fn tick(at: Time) -> Time {
    Time::from_micros(at.as_micros().div_ceil(TICK).saturating_mul(TICK))
}

/// Ticks that a timer may fire too early. Moving one costs less than to be woken for nothing, if it is rarely
/// done.
const MOST_EARLY: u64 = 1_000;

const BITS: u32 = 8;
const LISTS: usize = 1 << BITS;
const LEVELS: usize = 4;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    next: u32,
    prev: u32,
    /// The tick it is armed for; meaningless if it is in no list.
    due: u64,
    /// Level and list, or [`NONE`] if not armed.
    list: u32,
}

const IDLE: Link = Link { next: NONE, prev: NONE, due: 0, list: NONE };

/// The timers of one worker.
pub struct Wheel {
    /// The next tick to be handled.
    now: u64,
    heads: Vec<u32>,
    occupied: [[u64; LISTS / 64]; LEVELS],
    links: Vec<Link>,
    armed: usize,
}

impl Wheel {
    /// No timers; time begins at `now` microseconds.
    pub fn new(now: u64) -> Wheel {
        Wheel {
            now: now / TICK,
            heads: vec![NONE; LISTS * LEVELS],
            occupied: [[0; LISTS / 64]; LEVELS],
            links: Vec::new(),
            armed: 0,
        }
    }

    /// Timers armed.
    #[cfg(test)]
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Arms the timer of `slot` for `at` microseconds, in place of what it was armed for. It fires at
    /// the first tick that is not earlier.
    pub fn arm(&mut self, slot: u32, at: u64) {
        let due = at.div_ceil(TICK).max(self.now);
        match self.links.get(slot as usize).copied() {
            Some(link) if link.list == NONE => self.armed += 1,
            Some(link) if link.due == due => return,
            Some(link) => self.unlink(link),
            None => {
                self.links.resize(slot as usize + 1, IDLE);
                self.armed += 1;
            }
        }
        self.link(slot, due);
    }

    /// As [`Wheel::arm`], but a timer that is armed for somewhat earlier stays as it is: it fires too early,
    /// and whoever is woken arms it again.
    #[inline]
    pub fn arm_lazily(&mut self, slot: u32, at: u64) {
        let due = at.div_ceil(TICK);
        let early = self.links.get(slot as usize).filter(|link| link.list != NONE);
        if early.is_none_or(|link| due < link.due || due - link.due > MOST_EARLY) {
            self.arm(slot, at);
        }
    }

    /// Disarms it, if it is armed.
    pub fn cancel(&mut self, slot: u32) {
        let Some(&link) = self.links.get(slot as usize) else { return };
        if link.list != NONE {
            self.disarm(slot, link);
        }
    }

    fn disarm(&mut self, slot: u32, link: Link) {
        self.unlink(link);
        self.armed -= 1;
        if let Some(own) = self.links.get_mut(slot as usize) {
            own.list = NONE;
        }
    }

    /// The next timer that is due at `now` microseconds, disarmed; call until there is none.
    pub fn pop(&mut self, now: u64) -> Option<u32> {
        let tick = now / TICK;
        loop {
            let list = (self.now as usize) & (LISTS - 1);
            let head = self.heads.get(list).copied().unwrap_or(NONE);
            if head != NONE && self.now <= tick {
                let link = self.links.get(head as usize).copied()?;
                self.disarm(head, link);
                return Some(head);
            }
            if self.now >= tick || self.armed == 0 {
                self.now = self.now.max(tick);
                return None;
            }
            self.step(tick);
        }
    }

    /// When [`Wheel::pop`] may have something, in microseconds. May be too early, never too late.
    pub fn next(&self) -> Option<u64> {
        if self.armed == 0 {
            return None;
        }
        let within = (self.now as usize) & (LISTS - 1);
        let ahead = next_bit(self.occupied.first()?, within).unwrap_or(LISTS);
        // Otherwise at the turn of the first level, where the upper ones are dealt out.
        Some((self.now - within as u64 + ahead as u64) * TICK)
    }

    /// Goes on to the next tick that has something, at most to `limit`.
    fn step(&mut self, limit: u64) {
        let within = (self.now as usize) & (LISTS - 1);
        let from = within + 1;
        let ahead = self.occupied.first().and_then(|bits| next_bit(bits, from)).unwrap_or(LISTS);
        let target = self.now - within as u64 + ahead as u64;
        self.now = target.min(limit);
        if self.now & (LISTS as u64 - 1) == 0 {
            self.deal();
        }
    }

    /// Deals the lists of the upper levels out that begin now.
    fn deal(&mut self) {
        for level in 1..LEVELS {
            let within = (self.now >> (BITS * level as u32)) as usize & (LISTS - 1);
            let mut slot = self.take_list(level, within);
            while slot != NONE {
                let Some(link) = self.links.get(slot as usize).copied() else { break };
                self.link(slot, link.due);
                slot = link.next;
            }
            if within != 0 {
                break;
            }
        }
    }

    fn take_list(&mut self, level: usize, within: usize) -> u32 {
        if let Some(word) = self.occupied.get_mut(level).and_then(|bits| bits.get_mut(within / 64)) {
            *word &= !(1 << (within % 64));
        }
        self.heads.get_mut(level * LISTS + within).map_or(NONE, |head| core::mem::replace(head, NONE))
    }

    fn link(&mut self, slot: u32, due: u64) {
        let ahead = due ^ self.now;
        // The level of the highest part of the time in which it differs from now.
        let level = (0..LEVELS - 1).find(|&l| ahead >> (BITS * (l as u32 + 1)) == 0).unwrap_or(LEVELS - 1);
        let within = (due >> (BITS * level as u32)) as usize & (LISTS - 1);
        let list = level * LISTS + within;
        let Some(head) = self.heads.get_mut(list) else { return };
        let next = core::mem::replace(head, slot);
        if let Some(link) = self.links.get_mut(slot as usize) {
            *link = Link { next, prev: NONE, due, list: list as u32 };
        }
        if let Some(after) = self.links.get_mut(next as usize) {
            after.prev = slot;
        }
        if let Some(word) = self.occupied.get_mut(level).and_then(|bits| bits.get_mut(within / 64)) {
            *word |= 1 << (within % 64);
        }
    }

    /// Takes a timer out of its list; its own link stays as it is.
    fn unlink(&mut self, link: Link) {
        if let Some(before) = self.links.get_mut(link.prev as usize) {
            before.next = link.next;
        } else if let Some(head) = self.heads.get_mut(link.list as usize) {
            *head = link.next;
            let (level, within) = (link.list as usize / LISTS, link.list as usize % LISTS);
            if link.next == NONE
                && let Some(word) = self.occupied.get_mut(level).and_then(|bits| bits.get_mut(within / 64))
            {
                *word &= !(1 << (within % 64));
            }
        }
        if let Some(after) = self.links.get_mut(link.next as usize) {
            after.prev = link.prev;
        }
    }
}

/// The first set bit at `from` or above.
fn next_bit(bits: &[u64; LISTS / 64], from: usize) -> Option<usize> {
    let mut at = from;
    while at < LISTS {
        let word = bits.get(at / 64)? >> (at % 64);
        if word != 0 {
            return Some(at + word.trailing_zeros() as usize);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn nothing_is_due_where_nothing_is_armed() {
        let mut wheel = Wheel::new(5_000_000);
        assert_eq!(wheel.next(), None);
        assert_eq!(wheel.pop(9_000_000), None);
        wheel.arm(3, 9_000_500);
        assert_eq!(wheel.pop(9_000_999), None, "it fires at the first tick that is not earlier");
        assert_eq!(wheel.pop(9_001_000), Some(3));
        assert_eq!((wheel.pop(u64::MAX / 2), wheel.armed()), (None, 0));
    }

    #[test]
    fn a_timer_of_the_past_fires_at_once() {
        let mut wheel = Wheel::new(5_000_000);
        wheel.arm(0, 1);
        assert!(wheel.next().is_some_and(|at| at <= 5_000_000));
        assert_eq!(wheel.pop(5_000_000), Some(0));
    }

    #[test]
    fn one_that_is_armed_for_somewhat_earlier_stays() {
        let mut wheel = Wheel::new(0);
        wheel.arm_lazily(0, 500_000);
        wheel.arm_lazily(0, 900_000);
        wheel.arm_lazily(1, 500_000);
        wheel.arm_lazily(1, 4_000_000);
        wheel.arm_lazily(2, 900_000);
        wheel.arm_lazily(2, 400_000);
        assert_eq!(
            (wheel.pop(400_000), wheel.pop(400_000)),
            (Some(2), None),
            "what is sooner is armed for then"
        );
        assert_eq!((wheel.pop(500_000), wheel.pop(3_999_999)), (Some(0), None));
        assert_eq!((wheel.pop(4_000_000), wheel.armed()), (Some(1), 0), "what is far too early is moved");
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Arm(u32, u64),
        Cancel(u32),
        Pass(u64),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        // Delays of all levels.
        let delay = prop_oneof![0..3_000u64, 0..400_000u64, 0..100_000_000u64, 0..40_000_000_000u64];
        prop_oneof![
            4 => (0..40u32, delay.clone()).prop_map(|(slot, delay)| Deed::Arm(slot, delay)),
            1 => (0..40u32).prop_map(Deed::Cancel),
            3 => delay.prop_map(Deed::Pass),
        ]
    }

    proptest! {
        /// Against a plain map of deadlines: what is due fires, once, at its tick, and nothing else does;
        /// `next` never oversleeps.
        #[test]
        fn it_does_what_a_map_would_do(start in 0..10_000_000_000u64, deeds in proptest::collection::vec(deed(), 1..80)) {
            let mut wheel = Wheel::new(start);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = start;
            for deed in deeds {
                match deed {
                    Deed::Arm(slot, delay) => {
                        wheel.arm(slot, now + delay);
                        model.insert(slot, (now + delay).div_ceil(TICK));
                    }
                    Deed::Cancel(slot) => {
                        wheel.cancel(slot);
                        model.remove(&slot);
                    }
                    Deed::Pass(delay) => {
                        let earliest = model.values().min().map(|tick| tick * TICK);
                        if let Some(earliest) = earliest {
                            prop_assert!(wheel.next().is_some_and(|at| at <= earliest.max(now)));
                        }
                        now += delay;
                        while let Some(slot) = wheel.pop(now) {
                            let due = model.remove(&slot);
                            prop_assert!(due.is_some_and(|due| due <= now / TICK), "{slot} {due:?} {now}");
                        }
                        prop_assert!(model.values().all(|&due| due > now / TICK), "{model:?} {now}");
                    }
                }
                prop_assert_eq!(wheel.armed(), model.len());
            }
        }
    }
}
