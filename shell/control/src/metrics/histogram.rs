//! Distributions in log-linear buckets: eight steps to each doubling, so that a reading is at most
//! an eighth too high at any size, in 2 kB and without a division.

use super::bump;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps to a doubling, as a power of two.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// Values of 2^37 us (38 hours) and more share the last bucket.
const TOP_BITS: u32 = 37;
/// How many buckets that makes.
pub(super) const BUCKETS: usize = (TOP_BITS - STEP_BITS + 1) as usize * STEPS;

/// The bucket of a value. Bucket i holds the values above `upper(i - 1)`, up to `upper(i)`.
pub(super) fn bucket(micros: u64) -> usize {
    // One less, so that upper bounds belong to the bucket below, as Prometheus has it.
    let below = micros.saturating_sub(1).min((1 << TOP_BITS) - 1);
    if below < STEPS as u64 {
        return below as usize;
    }
    let exponent = below.ilog2();
    let step = (below >> (exponent - STEP_BITS)) as usize & (STEPS - 1);
    (exponent - STEP_BITS + 1) as usize * STEPS + step
}

/// The largest value of a bucket, microseconds.
pub(super) fn upper(bucket: usize) -> u64 {
    match bucket / STEPS {
        0 => bucket as u64 + 1,
        row => ((STEPS + bucket % STEPS + 1) as u64) << (row - 1),
    }
}

/// The buckets of one writer.
pub(super) struct Buckets {
    sum: AtomicU64,
    counts: [AtomicU64; BUCKETS],
}

impl Buckets {
    pub const fn new() -> Buckets {
        Buckets { sum: AtomicU64::new(0), counts: [const { AtomicU64::new(0) }; BUCKETS] }
    }

    /// Notes a value; only the owner may.
    #[inline]
    pub fn observe(&self, micros: u64) {
        bump(&self.counts[bucket(micros)], 1);
        bump(&self.sum, micros);
    }

    /// Adds what is here to a sum.
    pub fn add_to(&self, all: &mut Distribution) {
        for (sum, count) in all.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Relaxed);
        }
        all.sum = all.sum.wrapping_add(self.sum.load(Relaxed));
    }
}

/// A histogram as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    counts: [u64; BUCKETS],
    sum: u64,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution { counts: [0; BUCKETS], sum: 0 }
    }
}

impl Distribution {
    /// How many values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values, microseconds.
    pub fn sum_micros(&self) -> u64 {
        self.sum
    }

    /// How many values are at most `micros`, which must be a bucket's bound to be exact; between
    /// bounds the count of the bound below is given.
    pub fn at_most(&self, micros: u64) -> u64 {
        let whole = self.counts.iter().enumerate().take_while(|(i, _)| upper(*i) <= micros);
        whole.map(|(_, count)| count).sum()
    }

    /// The buckets that hold values: upper bound, microseconds, and how many are in it.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(at, count)| (upper(at), *count))
    }

    /// The value that the share `part` (0.0 to 1.0) of all values does not exceed, microseconds, at
    /// most an eighth too high. `None` without values.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((count as f64 * part).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(i, here)| {
            seen += here;
            (seen >= rank && count > 0).then(|| upper(i))
        })
    }
}
