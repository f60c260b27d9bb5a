//! A small histogram for one interval of a time series.
//!
//! Thousands of intervals are kept, so a full histogram for each is out of the question. This one has 32
//! buckets to the octave (values are right within 3.2 %), 3.5 kB while it fills and a handful of bytes
//! for each bucket in use afterwards.

use super::hist::rank;

/// Buckets to an octave, as a power of two.
const BITS: u32 = 5;
const SUB: usize = 1 << BITS;
/// Values up to 2^32 - 1 us (71 minutes) have buckets of their own; longer ones count as that.
const BUCKETS: usize = (32 - BITS as usize + 1) * SUB;

#[inline]
fn bucket(micros: u64) -> usize {
    let v = micros.min(u64::from(u32::MAX));
    if v < SUB as u64 {
        return v as usize;
    }
    let shift = 63 - v.leading_zeros() - BITS;
    (shift as usize + 1) * SUB + ((v >> shift) as usize - SUB)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let top = (bucket % SUB + SUB + 1) as u64;
    (top << shift) - 1
}

/// The one that fills. Recording allocates nothing.
#[derive(Clone, Debug)]
pub struct Sketch {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
    sum: u64,
    max: u32,
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch { counts: Box::new([0; BUCKETS]), count: 0, sum: 0, max: 0 }
    }
}

impl Sketch {
    /// Adds one value in microseconds.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        self.record_times(micros, 1);
    }

    /// Adds one value in microseconds so many times.
    #[inline]
    pub fn record_times(&mut self, micros: u64, times: u64) {
        if times == 0 {
            return;
        }
        let v = micros.min(u64::from(u32::MAX));
        if let Some(n) = self.counts.get_mut(bucket(v)) {
            *n = n.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
        }
        self.count += times;
        self.sum = self.sum.saturating_add(v.saturating_mul(times));
        self.max = self.max.max(v as u32);
    }

    /// No value yet?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What is in it, small.
    pub fn sparse(&self) -> Sparse {
        if self.is_empty() {
            return Sparse::default();
        }
        let used = self.counts.iter().filter(|n| **n > 0).count();
        let mut buckets = Vec::with_capacity(used);
        buckets.extend(self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (i as u16, *n)));
        Sparse { buckets: buckets.into_boxed_slice(), count: self.count, sum: self.sum, max: self.max }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.counts.fill(0);
            (self.count, self.sum, self.max) = (0, 0, 0);
        }
    }
}

/// A finished [`Sketch`]: only the buckets in use, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparse {
    buckets: Box<[(u16, u32)]>,
    count: u64,
    sum: u64,
    max: u32,
}

impl Sparse {
    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value in microseconds, exact; 0 when empty.
    pub fn max(&self) -> u64 {
        u64::from(self.max)
    }

    /// Mean in microseconds; 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The value in microseconds that `percent` of the values do not exceed, rounded up by at most
    /// 3.2 %; 0 when empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = rank(percent, self.count);
        let mut seen = 0;
        for (b, n) in &self.buckets {
            seen += u64::from(*n);
            if seen >= wanted {
                return upper(usize::from(*b)).min(self.max());
            }
        }
        self.max()
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Sparse) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        let mut out = Vec::with_capacity(self.buckets.len() + other.buckets.len());
        let (mut a, mut b) = (self.buckets.iter().peekable(), other.buckets.iter().peekable());
        loop {
            match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    out.push((x.0, x.1.saturating_add(y.1)));
                    a.next();
                    b.next();
                }
                (Some(x), Some(y)) if x.0 > y.0 => out.extend(b.next()),
                (Some(_), _) => out.extend(a.next()),
                (None, Some(_)) => out.extend(b.next()),
                (None, None) => break,
            }
        }
        self.buckets = out.into_boxed_slice();
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Sparse {
        let mut s = Sketch::default();
        values.iter().for_each(|v| s.record(*v));
        s.sparse()
    }

    #[test]
    fn every_bucket_ends_where_the_next_begins() {
        for b in 0..BUCKETS {
            assert_eq!(bucket(upper(b)), b, "bucket {b}");
            if b + 1 < BUCKETS {
                assert_eq!(bucket(upper(b) + 1), b + 1, "after bucket {b}");
            }
        }
        assert_eq!(upper(BUCKETS - 1), u64::from(u32::MAX));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn an_empty_one_says_zero() {
        let s = Sketch::default().sparse();
        assert_eq!((s.count(), s.max(), s.percentile(99.0)), (0, 0, 0));
        assert_eq!(s.mean(), 0.0);
    }

    #[test]
    fn a_cleared_one_is_as_new() {
        let mut s = Sketch::default();
        s.record(77);
        s.clear();
        assert_eq!(s.sparse(), Sparse::default());
    }

    #[test]
    fn many_of_one_value_are_as_many_as_one_by_one() {
        let mut s = Sketch::default();
        s.record_times(77, 3);
        s.record_times(5_000_000_000, 2);
        s.record_times(9, 0);
        assert_eq!(s.sparse(), of(&[77, 77, 77, 5_000_000_000, 5_000_000_000]));
    }

    proptest! {
        #[test]
        fn percentiles_are_close(mut values in prop::collection::vec(0..3_600_000_000_u64, 1..200),
                                 percent in 0.1..100.0_f64) {
            let s = of(&values);
            values.sort_unstable();
            let exact = values[rank(percent, values.len() as u64) as usize - 1];
            let got = s.percentile(percent);
            prop_assert!(got >= exact && got as f64 <= exact as f64 * 1.032 + 1.0, "exact {exact}, got {got}");
        }

        #[test]
        fn merging_is_as_if_recorded_together(a in prop::collection::vec(0..1_000_000_u64, 0..60),
                                              b in prop::collection::vec(0..1_000_000_u64, 0..60)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged, of(&all));
        }
    }
}
