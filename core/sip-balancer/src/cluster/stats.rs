//! What one worker knows of one node.

use crate::Kind;
use core::time::Duration;
use wire::Time;

/// For so long, and up to as long again, response times count as recent.
pub const RECENT: Duration = Duration::from_secs(60);

/// Occupancies told apart; the last one stands for all above.
pub const OCCUPANCIES: usize = 65;
/// Buckets of response times: four to each power of two from 16 microseconds.
const BUCKETS: usize = 96;
const FIRST: u32 = 4;

/// Response times in buckets a fifth of their bound wide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Times {
    buckets: [u32; BUCKETS],
    /// How many.
    pub count: u64,
    /// Their sum, microseconds.
    pub sum: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { buckets: [0; BUCKETS], count: 0, sum: 0 }
    }
}

impl Times {
    /// Adds a response time, microseconds.
    pub fn add(&mut self, micros: u32) {
        let power = micros.max(1 << FIRST).ilog2();
        let quarter = (micros.max(1 << FIRST) >> (power - 2)) & 3;
        let at = ((power - FIRST) * 4 + quarter) as usize;
        if let Some(bucket) = self.buckets.get_mut(at.min(BUCKETS - 1)) {
            *bucket = bucket.saturating_add(1);
        }
        self.count += 1;
        self.sum += u64::from(micros);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Times) {
        for (mine, its) in self.buckets.iter_mut().zip(other.buckets) {
            *mine = mine.saturating_add(its);
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    /// How many are below `bound`, a power of two of microseconds from 32 on.
    pub fn below(&self, bound: u64) -> u64 {
        let first = (bound.max(1).ilog2().saturating_sub(FIRST) as usize * 4).min(BUCKETS);
        self.buckets[..first].iter().map(|count| u64::from(*count)).sum()
    }

    /// The upper bound of the bucket that the given part of all (0 to 1) does not exceed, microseconds; zero
    /// if there are none.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (part * self.count as f64).ceil() as u64;
        let mut below = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            below += u64::from(*bucket);
            if below >= wanted.max(1) {
                return (5 + at as u64 % 4) << (at / 4 + FIRST as usize - 2);
            }
        }
        0
    }

    /// The mean, microseconds.
    pub fn mean(&self) -> u64 {
        self.sum / self.count.max(1)
    }
}

/// One worker's figures of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeStats {
    /// Transactions given to it.
    pub assigned: u64,
    /// Responses by the first digit of their status, 1 to 6.
    pub responses: [u64; 6],
    /// Time to the first response that shows work (of an INVITE any but 100, of others the final one) by
    /// [`Kind`], since the start.
    pub times: [Times; Kind::COUNT],
    /// The same of the last [`RECENT`], the part that is not over and the one before.
    recent: [[Times; Kind::COUNT]; 2],
    /// When that part began.
    since: Time,
    /// Transactions by the number of unfinished ones that they found there when they came (paper VI-C).
    pub occupancy: Box<[u64; OCCUPANCIES]>,
}

impl Default for NodeStats {
    fn default() -> NodeStats {
        NodeStats {
            assigned: 0,
            responses: [0; 6],
            times: Default::default(),
            recent: Default::default(),
            since: Time::ZERO,
            occupancy: Box::new([0; OCCUPANCIES]),
        }
    }
}

impl NodeStats {
    pub(crate) fn assigned(&mut self, found: u32) {
        self.assigned += 1;
        if let Some(count) = self.occupancy.get_mut((found as usize).min(OCCUPANCIES - 1)) {
            *count += 1;
        }
    }

    pub(crate) fn answered(&mut self, status: u16) {
        if let Some(count) = self.responses.get_mut(usize::from(status / 100).wrapping_sub(1)) {
            *count += 1;
        }
    }

    pub(crate) fn took(&mut self, now: Time, kind: Kind, micros: u32) {
        self.fade(now);
        for times in [&mut self.times, &mut self.recent[0]] {
            if let Some(times) = times.get_mut(kind as usize) {
                times.add(micros);
            }
        }
    }

    /// Forgets what is no longer recent.
    pub(crate) fn fade(&mut self, now: Time) {
        let age = now.since(self.since);
        if age < RECENT {
            return;
        }
        let part = core::mem::take(&mut self.recent[0]);
        self.recent[1] = if age < RECENT * 2 { part } else { Default::default() };
        self.since = now;
    }

    /// The response times of the last minute or two.
    pub fn recent(&self, kind: Kind) -> Times {
        let mut all = Times::default();
        self.recent.iter().filter_map(|part| part.get(kind as usize)).for_each(|part| all.merge(part));
        all
    }

    /// Adds all of another worker's.
    pub fn merge(&mut self, other: &NodeStats) {
        self.assigned += other.assigned;
        self.responses.iter_mut().zip(other.responses).for_each(|(mine, its)| *mine += its);
        let parts = self.recent.iter_mut().zip(&other.recent).chain([(&mut self.times, &other.times)]);
        for (mine, its) in parts {
            mine.iter_mut().zip(its).for_each(|(mine, its)| mine.merge(its));
        }
        self.occupancy.iter_mut().zip(other.occupancy.iter()).for_each(|(mine, its)| *mine += its);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_a_quarter_away_at_most() {
        let mut times = Times::default();
        assert_eq!(times.quantile(0.5), 0);
        (1..=10_000).for_each(|n| times.add(n));
        for part in [0.1, 0.5, 0.9, 0.99, 1.0] {
            let (found, right) = (times.quantile(part) as f64, part * 10_000.0);
            assert!(found >= right && found <= right * 1.26, "{part}: {found}");
        }
        assert_eq!(times.mean(), 5_000);
        times.add(u32::MAX);
        assert!(times.quantile(1.0) > 100_000_000);
    }

    #[test]
    fn figures_of_workers_add_up() {
        let (mut a, mut b) = (NodeStats::default(), NodeStats::default());
        (0..100).for_each(|n| a.assigned(n));
        b.answered(503);
        b.took(Time::ZERO, Kind::Bye, 1_000);
        a.merge(&b);
        assert_eq!((a.assigned, a.responses[4], a.times[1].count, a.occupancy[64]), (100, 1, 1, 36));
        assert_eq!(a.recent(Kind::Bye).count, 1);
    }

    #[test]
    fn what_was_long_ago_is_not_recent() {
        let mut stats = NodeStats::default();
        let recent = |stats: &NodeStats| (stats.recent(Kind::Invite).count, stats.times[0].count);
        for second in 0..300 {
            stats.took(Time::from_secs(1_000 + second), Kind::Invite, if second < 150 { 5 } else { 5_000 });
            assert!((1..=120).contains(&recent(&stats).0), "{second}");
        }
        assert!(stats.recent(Kind::Invite).quantile(0.01) > 4_000 && stats.times[0].quantile(0.4) < 100);
        assert_eq!((stats.times[0].below(32), stats.times[0].below(1 << 20)), (150, 300));
        stats.fade(Time::from_secs(1_350));
        assert_eq!(recent(&stats), (60, 300), "the part before");
        stats.fade(Time::from_secs(1_500));
        assert_eq!(recent(&stats), (0, 300));
    }
}
