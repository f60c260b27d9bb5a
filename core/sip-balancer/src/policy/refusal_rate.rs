//! How much of what nodes got lately they refused with 5xx.
//!
//! A node that refuses every call at once never has anything to do, and who looks at that alone gives it all
//! calls. So what it refused counts, by its part of what it answered: a node that is well is not hurt by a
//! call that none can place. Old answers count for less and less, and so one that was avoided is tried again.

use crate::{MOST_NODES, NodeIndex};
use core::time::Duration;
use wire::Time;

/// An answer, and what is added to all of them: one refusal alone says little.
const ONE: u32 = 1 << 10;
const DOUBT: u32 = 3 * ONE;
/// Most answers that count; beyond that all count for half.
const MOST: u32 = 16 * ONE;
/// Fewer thousandths than this are usual at any node.
const FEW: u64 = 100;
/// After so long an answer counts for half.
const HALF: Duration = Duration::from_secs(10);
/// After this number of half-lives nothing is left of an answer.
const HALVES: u32 = 20;

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    refused: u32,
    good: u32,
    /// Since when they count for that.
    at: Time,
}

impl Record {
    fn fade(&mut self, now: Time) {
        let age = now.as_micros().saturating_sub(self.at.as_micros());
        let halves = (age / HALF.as_micros() as u64).min(u64::from(HALVES)) as u32;
        if halves > 0 {
            (self.refused, self.good) = (self.refused >> halves, self.good >> halves);
            self.at = if halves < HALVES { self.at + HALF * halves } else { now };
        }
    }
}

/// What one worker has seen.
#[derive(Debug)]
pub(crate) struct RefusalRates {
    records: Vec<Record>,
    /// When nothing will be left of any refusal.
    until: Time,
}

impl Default for RefusalRates {
    fn default() -> RefusalRates {
        RefusalRates { records: vec![Record::default(); MOST_NODES], until: Time::ZERO }
    }
}

impl RefusalRates {
    /// A node has answered a call, and refused it or not.
    pub fn answered(&mut self, now: Time, at: NodeIndex, refused: bool) {
        let record = invariant::some!(self.records.get_mut(usize::from(at.0)), "a node has a record");
        let Some(record) = record else { return };
        record.fade(now);
        if refused {
            record.refused += ONE;
            self.until = now + HALF * HALVES;
        } else {
            record.good += ONE;
        }
        if record.refused + record.good > MOST {
            (record.refused, record.good) = (record.refused / 2, record.good / 2);
        }
    }

    /// What was known of a node is of another one.
    pub fn forget(&mut self, at: NodeIndex) {
        if let Some(record) = self.records.get_mut(usize::from(at.0)) {
            *record = Record::default();
        }
    }

    /// Whether anybody has refused anything lately.
    pub fn is_any(&self, now: Time) -> bool {
        now < self.until
    }

    /// How much of what it answered a node refused, in thousandths; zero where that is little.
    pub fn part(&self, now: Time, at: NodeIndex) -> u64 {
        let record = invariant::some!(self.records.get(usize::from(at.0)), "a node has a record");
        let Some(&(mut record)) = record else { return 0 };
        record.fade(now);
        let part = u64::from(record.refused) * 1_000 / u64::from(record.refused + record.good + DOUBT);
        if part < FEW { 0 } else { part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_by_its_part_and_for_a_while() {
        let (mut rates, node, now) = (RefusalRates::default(), NodeIndex(1), Time::from_secs(100));
        let part = |rates: &RefusalRates, seconds| rates.part(now + Duration::from_secs(seconds), node);
        rates.answered(now, NodeIndex(0), false);
        assert!(!rates.is_any(now));
        rates.answered(now, node, true);
        assert_eq!([0, 9, 10, 20].map(|seconds| part(&rates, seconds)), [250, 250, 142, 0]);
        assert_eq!(rates.part(now, NodeIndex(0)), 0);
        (0..5).for_each(|_| rates.answered(now, node, false));
        assert_eq!(part(&rates, 0), 111);
        (0..5).for_each(|_| rates.answered(now, node, false));
        assert_eq!(part(&rates, 0), 0, "one of eleven");
        (0..100_000).for_each(|_| rates.answered(now, node, true));
        assert!(part(&rates, 0) > 700 && part(&rates, 200) == 0);
        let later = now + Duration::from_secs(200);
        assert!(!rates.is_any(later));
        rates.answered(later, node, true);
        assert_eq!(part(&rates, 200), 250);
    }
}
