//! What could not be told to other workers yet, because their rings were full.
//!
//! News of connections is [never dropped](Hop::must_arrive). While as much waits as may, the worker takes no
//! new connection and begins none, so the number of its connections bounds what is added.

use crate::shared::Hop;
use std::collections::VecDeque;

/// Hops that are kept for all workers together, for each place of a ring.
const FOR_EACH_PLACE: usize = 32;

/// Hops that wait for room, in order for each worker.
#[derive(Default)]
pub struct Deferred {
    by_worker: Vec<VecDeque<Hop>>,
    count: usize,
    most: usize,
}

impl Deferred {
    /// None, for this number of workers whose rings have `places` each.
    pub fn new(workers: usize, places: usize) -> Deferred {
        let by_worker = (0..workers).map(|_| VecDeque::new()).collect();
        Deferred { by_worker, count: 0, most: places.saturating_mul(FOR_EACH_PLACE) }
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one for this worker waits.
    pub fn waits_for(&self, worker: u16) -> bool {
        self.by_worker.get(usize::from(worker)).is_some_and(|hops| !hops.is_empty())
    }

    /// Whether as many wait as may.
    pub fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// Keeps a hop; `false` if there are too many and it need not arrive, or if there is no such worker.
    pub fn keep(&mut self, worker: u16, hop: Hop) -> bool {
        let keeps = !self.is_full() || hop.must_arrive();
        match self.by_worker.get_mut(usize::from(worker)) {
            Some(hops) if keeps => {
                hops.push_back(hop);
                self.count += 1;
                true
            }
            _ => false,
        }
    }

    /// Gives each worker what waits for it, until its ring is full again.
    pub fn retry(&mut self, mut give: impl FnMut(u16, Hop) -> Result<(), Hop>) {
        for (worker, hops) in (0..).zip(&mut self.by_worker) {
            while let Some(hop) = hops.pop_front() {
                if let Err(hop) = give(worker, hop) {
                    hops.push_front(hop);
                    break;
                }
                self.count -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use wire::{ConnId, Identity};

    fn number(hop: &Hop) -> u64 {
        match hop {
            Hop::Failed(number) => *number,
            _ => unreachable!("only these are kept here"),
        }
    }

    #[test]
    fn full_ring_keeps_its_order_and_holds_up_no_other() {
        let mut deferred = Deferred::new(3, 1);
        for (worker, n) in [(1, 1), (1, 2), (2, 3), (1, 4)] {
            assert!(deferred.keep(worker, Hop::Failed(n)));
        }
        assert!(deferred.waits_for(1) && deferred.waits_for(2) && !deferred.waits_for(0));
        let mut given = Vec::new();
        let mut room = 1;
        deferred.retry(|worker, hop| {
            if worker == 1 && room == 0 {
                return Err(hop);
            }
            room -= u64::from(worker == 1);
            given.push((worker, number(&hop)));
            Ok(())
        });
        assert_eq!(given, [(1, 1), (2, 3)]);
        assert!(deferred.waits_for(1) && !deferred.waits_for(2) && !deferred.is_empty());
        deferred.retry(|worker, hop| {
            given.push((worker, number(&hop)));
            Ok(())
        });
        assert_eq!(given, [(1, 1), (2, 3), (1, 2), (1, 4)]);
        assert!(deferred.is_empty());
    }

    #[test]
    fn number_of_hops_is_limited() {
        let mut deferred = Deferred::new(1, 1);
        assert!(!deferred.keep(1, Hop::Failed(0)), "there is no such worker");
        assert!((0..FOR_EACH_PLACE).all(|_| !deferred.is_full() && deferred.keep(0, Hop::Failed(0))));
        assert!(deferred.is_full() && !deferred.keep(0, Hop::Failed(0)));
    }

    #[test]
    fn news_of_connections_is_kept_beyond_the_limit() {
        let (conn, identity) = (ConnId::accepted(0, 1), Arc::new(Identity::new(Vec::new(), Vec::new())));
        let mut deferred = Deferred::new(1, 0);
        assert!(deferred.is_full() && !deferred.keep(0, Hop::Failed(0)));
        assert!(deferred.keep(0, Hop::Identified(conn, identity)) && deferred.keep(0, Hop::Gone(conn)));
        let mut given = Vec::new();
        deferred.retry(|_, hop| {
            given.push(hop);
            Ok(())
        });
        assert!(matches!(given[..], [Hop::Identified(..), Hop::Gone(_)]) && deferred.is_empty());
    }
}
