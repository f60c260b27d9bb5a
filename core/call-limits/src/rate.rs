//! How often senders may call that are not known: a bucket of tokens for each network, and one for all.

use hashbrown::HashTable;

/// Microseconds of a minute.
const MINUTE: u64 = 60_000_000;

/// How often strangers may begin something, a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrangerRate {
    /// Of one network.
    pub of_network: u32,
    /// All together.
    pub total: u32,
}

/// A request of a stranger that has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Until it may come again, seconds; at least 1.
    pub seconds: u32,
    /// The limit of all strangers together holds it, not that of its network.
    pub by_total: bool,
}

/// A bucket: the time at which it is full again, microseconds. As many may come at once as in a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    full: u64,
}

impl Pace {
    /// Takes one token of `per_minute` at `now`, microseconds.
    ///
    /// # Errors
    /// There is none: seconds until there is one, at least 1.
    pub fn take(&mut self, per_minute: u32, now: u64) -> Result<(), u32> {
        let step = MINUTE / u64::from(per_minute.max(1));
        let full = self.full.max(now) + step;
        let early = full.saturating_sub(now + MINUTE);
        if early > 0 {
            return Err(u32::try_from(early.div_ceil(1_000_000)).unwrap_or(u32::MAX));
        }
        self.full = full;
        Ok(())
    }

    /// Whether all tokens are there.
    const fn is_full(self, now: u64) -> bool {
        self.full <= now
    }
}

/// The buckets of networks, in bounded memory.
#[derive(Debug)]
pub struct Buckets {
    table: HashTable<(u64, Pace)>,
    most: usize,
    /// When room was made last, microseconds.
    swept: u64,
}

impl Buckets {
    /// With room for `most` networks that have called lately.
    pub fn new(most: usize) -> Buckets {
        Buckets { table: HashTable::new(), most, swept: 0 }
    }

    /// Takes one token of a network, which is a keyed hash. A network that there is no room for is not
    /// limited by itself: its requests count with all others.
    ///
    /// # Errors
    /// There is none: seconds until there is one, at least 1.
    pub fn take(&mut self, network: u64, per_minute: u32, now: u64) -> Result<(), u32> {
        if let Some((_, pace)) = self.table.find_mut(network, |(known, _)| *known == network) {
            return pace.take(per_minute, now);
        }
        if self.table.len() >= self.most && now >= self.swept + MINUTE / 60 {
            self.swept = now;
            self.table.retain(|(_, pace)| !pace.is_full(now));
        }
        let mut pace = Pace::default();
        pace.take(per_minute, now)?;
        if self.table.len() < self.most {
            self.table.insert_unique(network, (network, pace), |(known, _)| *known);
        }
        Ok(())
    }

    /// How many networks are kept.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn burst_of_a_minute_passes_and_then_one_after_the_other() {
        let mut pace = Pace::default();
        for _ in 0..6 {
            assert_eq!(pace.take(6, 100 * SECOND), Ok(()));
        }
        assert_eq!(pace.take(6, 100 * SECOND), Err(10));
        assert_eq!(pace.take(6, 109 * SECOND), Err(1));
        assert_eq!(pace.take(6, 110 * SECOND), Ok(()));
        assert_eq!(pace.take(6, 110 * SECOND), Err(10));
    }

    #[test]
    fn networks_are_apart_and_their_memory_is_bounded() {
        let mut buckets = Buckets::new(2);
        for network in [1, 2] {
            assert_eq!(buckets.take(network, 1, 0), Ok(()));
            assert_eq!(buckets.take(network, 1, 0), Err(60));
        }
        assert_eq!(
            (buckets.take(3, 1, 0), buckets.take(3, 1, 0)),
            (Ok(()), Ok(())),
            "there is no room for it"
        );
        assert_eq!(buckets.len(), 2);
        assert_eq!((buckets.take(3, 1, 60 * SECOND), buckets.take(3, 1, 60 * SECOND)), (Ok(()), Err(60)));
        assert_eq!(buckets.len(), 1);
    }

    proptest! {
        #[test]
        fn no_minute_has_more_than_twice_the_rate(
            rate in 1..100_u32,
            gaps in prop::collection::vec(0..5_000_000_u64, 1..300),
        ) {
            let (mut pace, mut now, mut taken) = (Pace::default(), 0, Vec::new());
            for gap in gaps {
                now += gap;
                if pace.take(rate, now).is_ok() {
                    taken.push(now);
                }
            }
            for from in &taken {
                let within = taken.iter().filter(|at| (*from..from + 60 * SECOND).contains(at)).count();
                prop_assert!(within <= 2 * rate as usize, "{within} of {rate}");
            }
        }
    }
}
