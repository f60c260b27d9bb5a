//! Which nonce counts have been used (RFC 7616 section 3.4, `nc`; section 5.5 on replay).

use crate::table::{Sets, WAYS};
use core::fmt;
use core::time::Duration;
use wire::Time;

/// How far behind the highest count a late one may be: requests sent together over UDP may arrive
/// in another order.
const WINDOW: u32 = u64::BITS;

/// One nonce of one user. Empty while `seen` is zero.
#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    /// Bit n: `highest - n` was used. Bit 0 is set in every entry in use.
    seen: u64,
    /// When the nonce was issued, milliseconds.
    issued: u64,
    highest: u32,
}

#[derive(Clone)]
struct Set {
    /// Nonces issued up to this millisecond (exclusive) that are not listed here may have been
    /// evicted while alive, so they are not believed any more.
    forgotten: u64,
    entries: [Entry; WAYS],
}

/// One shard of the memory of used nonce counts.
///
/// Fixed memory: 32 bytes an entry. When a set is full the oldest nonce in it is forgotten, and
/// nonces of that set as old as it count as stale from then on, so forgetting never opens a replay;
/// the phone that held it pays one more round trip. Size it for the nonces that are used again: a
/// phone that takes a new challenge for each request loses nothing by eviction.
pub struct NonceCounts {
    sets: Sets<Set>,
    lifetime: u64,
    evictions: u64,
}

impl NonceCounts {
    /// Room for about `capacity` nonces (rounded up to eight times a power of two) that live
    /// `lifetime`, the same as in [`Config::lifetime`](crate::Config::lifetime).
    pub fn new(capacity: usize, lifetime: Duration) -> NonceCounts {
        let empty = Entry { key: 0, seen: 0, issued: 0, highest: 0 };
        let set = Set { forgotten: 0, entries: [empty; WAYS] };
        let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        NonceCounts { sets: Sets::new(capacity, set), lifetime, evictions: 0 }
    }

    /// Uses count `nc` of the nonce `key`, issued at `issued` (milliseconds). `None` as count: the
    /// client counts nothing, so the nonce is good for a single use.
    ///
    /// True if this use is new. False if it was used before, lies behind the window, or the nonce
    /// was forgotten: the answer is a challenge with `stale=true`.
    pub(crate) fn admit(&mut self, key: u64, issued: u64, nc: Option<u32>, now: Time) -> bool {
        let oldest_alive = now.as_millis().saturating_sub(self.lifetime);
        let Some(set) = self.sets.of(key) else { return false };
        if let Some(entry) = set.entries.iter_mut().find(|e| e.seen != 0 && e.key == key) {
            return match nc {
                Some(nc) => entry.advance(nc),
                None => false,
            };
        }
        if issued < set.forgotten {
            return false;
        }
        // An empty place has issue time zero and goes first; then the oldest.
        let Some(place) = set.entries.iter_mut().min_by_key(|e| e.issued) else { return false };
        if place.seen != 0 {
            self.evictions += u64::from(place.issued >= oldest_alive);
            // Also for one that expired by our clock: another worker's clock may lag a little.
            set.forgotten = set.forgotten.max(place.issued + 1);
        }
        *place = match nc {
            Some(highest) => Entry { key, seen: 1, issued, highest },
            None => Entry { key, seen: u64::MAX, issued, highest: u32::MAX },
        };
        true
    }

    /// Nonces forgotten while alive since the start; a growing number asks for more room.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Nonces remembered now, expired ones that nobody has overwritten included. Walks the shard.
    pub fn len(&self) -> usize {
        self.sets.iter().map(|s| s.entries.iter().filter(|e| e.seen != 0).count()).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Entry {
    /// Marks `nc` used; false if it was, or if it is too far behind.
    fn advance(&mut self, nc: u32) -> bool {
        if nc > self.highest {
            let shift = nc - self.highest;
            self.seen = if shift < WINDOW { self.seen << shift } else { 0 } | 1;
            self.highest = nc;
            return true;
        }
        let behind = self.highest - nc;
        if behind >= WINDOW || self.seen & (1 << behind) != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

impl fmt::Debug for NonceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NonceCounts({} evictions)", self.evictions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: Time = Time::from_secs(1_000);
    const ISSUED: u64 = 999_000;

    fn counts(capacity: usize) -> NonceCounts {
        NonceCounts::new(capacity, Duration::from_secs(300))
    }

    #[test]
    fn entries_stay_small() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn a_count_is_good_once_and_late_ones_pass_within_the_window() {
        let mut c = counts(8);
        for (nc, new) in [
            (5, true),
            (5, false),
            (7, true),
            (6, true),
            (6, false),
            (4, true),
            (80, true),
            (17, true),
            (16, false),
            (7, false),
        ] {
            assert_eq!(c.admit(1, ISSUED, Some(nc), NOW), new, "{nc}");
        }
        assert!(c.admit(1, ISSUED, Some(u32::MAX), NOW));
        assert!(!c.admit(1, ISSUED, Some(u32::MAX), NOW));
        for (nc, new) in [(1, true), (64, true), (1, false), (65, true), (1, false)] {
            assert_eq!(c.admit(2, ISSUED, Some(nc), NOW), new, "{nc}");
        }
        assert_eq!(c.len(), 2);
    }

    #[test]
    fn without_counting_a_nonce_is_good_once() {
        let mut c = counts(8);
        assert!(c.admit(1, ISSUED, None, NOW));
        assert!(!c.admit(1, ISSUED, None, NOW));
        assert!(!c.admit(1, ISSUED, Some(9), NOW));
        assert!(!c.admit(1, ISSUED, Some(u32::MAX - 5), NOW));
        assert!(c.admit(2, ISSUED, Some(9), NOW));
        assert!(!c.admit(2, ISSUED, None, NOW));
    }

    #[test]
    fn a_forgotten_nonce_cannot_be_replayed_and_newer_ones_still_enter() {
        let mut c = counts(8);
        for i in 0..9 {
            assert!(c.admit(i, ISSUED + i, Some(1), NOW), "{i}");
        }
        assert_eq!((c.len(), c.evictions()), (8, 1));
        assert!(!c.admit(0, ISSUED, Some(1), NOW));
        assert!(!c.admit(0, ISSUED, Some(2), NOW));
        // As old as what was forgotten: it could be anything.
        assert!(!c.admit(77, ISSUED, Some(1), NOW));
        assert!(c.admit(78, ISSUED + 50, Some(1), NOW));
    }

    #[test]
    fn expired_nonces_make_room_without_being_missed() {
        let mut c = counts(8);
        for i in 0..8 {
            assert!(c.admit(i, ISSUED, Some(1), NOW));
        }
        let later = NOW + Duration::from_secs(301);
        assert!(c.admit(100, later.as_millis(), Some(1), later));
        assert_eq!(c.evictions(), 0);
        // A worker whose clock lags still takes the overwritten nonce for alive.
        assert!((0..8).filter(|&i| c.admit(i, ISSUED, Some(1), NOW)).count() == 0);
    }

    proptest! {
        /// No use is ever admitted twice, whatever the order, the number of nonces and the evictions.
        #[test]
        fn never_twice(uses in proptest::collection::vec((0u64..40, 0u32..200, any::<bool>()), 0..400)) {
            let mut c = counts(16);
            let mut done = BTreeSet::new();
            for (nonce, nc, counted) in uses {
                let nc = counted.then_some(nc);
                if c.admit(nonce, ISSUED + nonce, nc, NOW) {
                    prop_assert!(done.insert((nonce, nc)));
                }
            }
        }

        /// Counts that never fall behind the window all pass, once each.
        #[test]
        fn reordering_within_the_window_passes(mut order in proptest::collection::vec(0u32..8, 1..100)) {
            let mut c = counts(8);
            // Swap neighbours up to eight apart.
            let mut ncs: Vec<u32> = (1..=order.len() as u32).collect();
            for (i, by) in order.drain(..).enumerate() {
                let j = (i + by as usize).min(ncs.len() - 1);
                ncs.swap(i, j);
            }
            let mut highest = 0;
            for nc in ncs {
                let late = highest > nc && highest - nc >= WINDOW;
                prop_assert_eq!(c.admit(1, ISSUED, Some(nc), NOW), !late);
                highest = highest.max(nc);
            }
        }
    }
}
