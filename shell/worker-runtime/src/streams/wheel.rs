//! Deadlines of connections: one per slot, constant work to set, move and fire.

use wire::Time;

/// Ticks of a turn. A power of two.
const BUCKETS: u64 = 1024;
/// log2 of the microseconds of a tick: 65.5 ms, so a turn is 67 s.
const TICK_SHIFT: u32 = 16;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// The tick at which the slot comes up; `u64::MAX` while it is not linked.
    tick: u64,
    prev: u32,
    next: u32,
}

const UNLINKED: Node = Node { tick: u64::MAX, prev: NONE, next: NONE };

/// A hashed timing wheel of slots.
///
/// Setting a later deadline moves nothing: the slot comes up at the old one and its holder sets it
/// again. So an idle connection that is used often costs no wheel work, and one with a deadline
/// beyond a turn comes up once a turn.
pub struct Wheel {
    heads: Vec<u32>,
    occupied: [u64; (BUCKETS / 64) as usize],
    nodes: Vec<Node>,
    /// No linked slot comes up before this tick.
    cursor: u64,
    linked: usize,
}

impl Wheel {
    /// A wheel that starts at `now`.
    pub fn new(now: Time) -> Wheel {
        Wheel {
            heads: vec![NONE; BUCKETS as usize],
            occupied: [0; (BUCKETS / 64) as usize],
            nodes: Vec::new(),
            cursor: now.as_micros() >> TICK_SHIFT,
            linked: 0,
        }
    }

    /// Makes `slot` come up at `at` or up to a tick later; earlier if it is set to an earlier
    /// deadline already.
    pub fn set(&mut self, slot: u32, at: Time) {
        let index = slot as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, UNLINKED);
        }
        let wanted = at.as_micros().div_ceil(1 << TICK_SHIFT).max(self.cursor);
        if self.nodes[index].tick <= wanted {
            return;
        }
        self.unlink(slot);
        let tick = wanted.min(self.cursor + BUCKETS - 1);
        let bucket = (tick % BUCKETS) as usize;
        let head = self.heads[bucket];
        self.nodes[index] = Node { tick, prev: NONE, next: head };
        if head != NONE {
            self.nodes[head as usize].prev = slot;
        }
        self.heads[bucket] = slot;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.linked += 1;
    }

    /// Forgets `slot`.
    pub fn clear(&mut self, slot: u32) {
        if (slot as usize) < self.nodes.len() {
            self.unlink(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let node = self.nodes[slot as usize];
        if node.tick == u64::MAX {
            return;
        }
        let bucket = (node.tick % BUCKETS) as usize;
        if node.prev == NONE {
            self.heads[bucket] = node.next;
        } else {
            self.nodes[node.prev as usize].next = node.next;
        }
        if node.next != NONE {
            self.nodes[node.next as usize].prev = node.prev;
        }
        if self.heads[bucket] == NONE {
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        }
        self.nodes[slot as usize] = UNLINKED;
        self.linked -= 1;
    }

    /// Takes one slot that has come up by `now`. The caller looks whether its deadline has passed
    /// and sets it again if not.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        let target = now.as_micros() >> TICK_SHIFT;
        match self.next_tick() {
            Some(tick) if tick <= target => {
                self.cursor = tick;
                let slot = self.heads[(tick % BUCKETS) as usize];
                self.unlink(slot);
                Some(slot)
            }
            _ => {
                self.cursor = self.cursor.max(target);
                None
            }
        }
    }

    /// When [`Wheel::pop`] will next have something.
    pub fn next(&self) -> Option<Time> {
        self.next_tick().map(|tick| Time::from_micros(tick << TICK_SHIFT))
    }

    /// The first tick at or after the cursor whose bucket is not empty.
    fn next_tick(&self) -> Option<u64> {
        if self.linked == 0 {
            return None;
        }
        let start = self.cursor % BUCKETS;
        let words = self.occupied.len() as u64;
        // One word more than there are: the first is looked at twice, its upper and its lower part.
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let mut bits = self.occupied[word as usize];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let bucket = word * 64 + u64::from(bits.trailing_zeros());
                return Some(self.cursor + (bucket + BUCKETS - start) % BUCKETS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_later_deadline_is_met_at_the_second_visit() {
        let mut wheel = Wheel::new(Time::ZERO);
        wheel.set(4, Time::from_secs(1));
        wheel.set(4, Time::from_secs(5));
        assert_eq!(wheel.pop(Time::from_secs(2)), Some(4));
        wheel.set(4, Time::from_secs(5));
        assert_eq!(wheel.pop(Time::from_secs(3)), None);
        assert_eq!(wheel.pop(Time::from_secs(6)), Some(4));
        assert_eq!(wheel.next(), None);
    }

    proptest! {
        /// Against a map: whatever is set, moved and cleared, each slot comes up once, not before its
        /// deadline and at most one tick after it.
        #[test]
        fn every_slot_comes_up_on_time(
            start in 0u64..1 << 40,
            steps in prop::collection::vec((0u32..20, 0u64..400_000_000, any::<bool>(), 0u64..30_000_000), 1..120),
        ) {
            let mut wheel = Wheel::new(Time::from_micros(start));
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = start;
            for (slot, delay, clear, advance) in steps {
                if clear {
                    wheel.clear(slot);
                    model.remove(&slot);
                } else {
                    wheel.set(slot, Time::from_micros(now + delay));
                    model.insert(slot, now + delay);
                }
                now += advance;
                while let Some(slot) = wheel.pop(Time::from_micros(now)) {
                    let at = *model.get(&slot).expect("only what was set comes up");
                    if at <= now {
                        model.remove(&slot);
                    } else {
                        wheel.set(slot, Time::from_micros(at));
                    }
                }
                let tick = 1 << TICK_SHIFT;
                for at in model.values() {
                    prop_assert!(at + tick > now, "a deadline was missed");
                }
                let earliest = model.values().min();
                prop_assert_eq!(wheel.next().is_some(), earliest.is_some());
                if let (Some(next), Some(at)) = (wheel.next(), earliest) {
                    prop_assert!(next.as_micros() < at + tick, "the wheel would sleep through a deadline");
                }
            }
        }
    }
}
