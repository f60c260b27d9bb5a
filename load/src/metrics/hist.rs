//! A histogram of durations: three significant digits from 1 us to 1 hour, with exact moments.

use core::fmt;
use core::time::Duration;

use hdrhistogram::Histogram;

/// The largest value kept, in microseconds (one hour); longer ones count as this.
pub const MAX_MICROS: u64 = 3_600_000_000;

/// Values below this have a counter each at three digits, and nothing to be worked out.
const EXACT: usize = 2_048;

/// Durations in microseconds. Recording allocates nothing; percentiles are within 0.1 %, while count,
/// sum, sum of squares, minimum and maximum are exact (of values up to the bound).
///
/// The 190 kB of counters of one histogram are only touched where values fall, so an unused one costs
/// address space and no memory.
#[derive(Clone)]
pub struct Hist {
    /// How often each value below [`EXACT`] came: nearly all do while a server keeps up.
    small: Box<[u64]>,
    /// The others.
    counts: Histogram<u64>,
    count: u64,
    sum: u64,
    // Integers, so that merging is associative to the last bit.
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

impl fmt::Debug for Hist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hist({} values, {}..{} us)", self.count(), self.min(), self.max())
    }
}

impl PartialEq for Hist {
    fn eq(&self, other: &Hist) -> bool {
        self.sum == other.sum
            && self.sum_of_squares == other.sum_of_squares
            && self.min == other.min
            && self.max == other.max
            && self.small == other.small
            && self.counts == other.counts
    }
}

impl Default for Hist {
    fn default() -> Hist {
        Hist::new()
    }
}

impl Hist {
    /// An empty one.
    #[allow(clippy::expect_used)]
    pub fn new() -> Hist {
        let counts = Histogram::new_with_bounds(1, MAX_MICROS, 3).expect("constant bounds are valid");
        let small = vec![0; EXACT].into_boxed_slice();
        Hist { small, counts, count: 0, sum: 0, sum_of_squares: 0, min: u64::MAX, max: 0 }
    }

    /// Adds one value in microseconds.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        let v = micros.min(MAX_MICROS);
        match self.small.get_mut(v as usize) {
            Some(count) => *count += 1,
            None => self.counts.saturating_record(v),
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(v);
        self.sum_of_squares += u128::from(v) * u128::from(v);
        self.min = self.min.min(v);
        self.max = self.max.max(v);
    }

    /// Adds one value in microseconds so many times.
    pub fn record_times(&mut self, micros: u64, times: u64) {
        let v = micros.min(MAX_MICROS);
        if times == 0 {
            return;
        }
        match self.small.get_mut(v as usize) {
            Some(count) => *count += times,
            None => self.counts.saturating_record_n(v, times),
        }
        self.count += times;
        self.sum = self.sum.saturating_add(v.saturating_mul(times));
        self.sum_of_squares += u128::from(v) * u128::from(v) * u128::from(times);
        self.min = self.min.min(v);
        self.max = self.max.max(v);
    }

    /// Adds one duration.
    #[inline]
    pub fn record_duration(&mut self, d: Duration) {
        self.record(u64::try_from(d.as_micros()).unwrap_or(MAX_MICROS));
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Hist) {
        if other.is_empty() {
            return;
        }
        self.small.iter_mut().zip(&other.small).for_each(|(own, more)| *own += more);
        self.count += other.count;
        // Same bounds on both sides: adding cannot fail.
        let added = self.counts.add(&other.counts);
        debug_assert!(added.is_ok());
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// No value yet?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The smallest value in microseconds; 0 when empty.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The largest value in microseconds; 0 when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Sum of the values in microseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Sum of the squares of the values.
    pub fn sum_of_squares(&self) -> u128 {
        self.sum_of_squares
    }

    /// Arithmetic mean in microseconds; 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// Sample standard deviation (divisor n - 1) in microseconds; 0 for fewer than two values.
    pub fn deviation(&self) -> f64 {
        let n = self.count();
        if n < 2 {
            return 0.0;
        }
        // n * sum of squares - square of the sum, in integers: no cancellation.
        let n_wide = u128::from(n);
        let square = u128::from(self.sum).saturating_mul(u128::from(self.sum));
        let spread = n_wide.saturating_mul(self.sum_of_squares).saturating_sub(square);
        (spread as f64 / (n as f64 * (n - 1) as f64)).sqrt()
    }

    /// The smallest value that at least `percent` of all values do not exceed, in microseconds, rounded
    /// up by at most 0.1 %; 0 when empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut rank = rank(percent, self.count());
        for (value, &count) in (0..).zip(&self.small) {
            if rank <= count {
                return value;
            }
            rank -= count;
        }
        // In the middle of the rank's share, so that rounding cannot reach the next rank.
        let quantile = (rank as f64 - 0.5) / self.counts.len() as f64;
        // The bucket's upper end may lie above the largest value.
        self.counts.value_at_quantile(quantile).clamp(self.min, self.max)
    }

    /// Calls `f` with (largest value of the bucket in microseconds, count) of every bucket that has
    /// values, in ascending order.
    pub fn for_each(&self, mut f: impl FnMut(u64, u64)) {
        (0..).zip(&self.small).filter(|(_, count)| **count > 0).for_each(|(value, count)| f(value, *count));
        for bucket in self.counts.iter_recorded() {
            f(bucket.value_iterated_to().min(MAX_MICROS), bucket.count_at_value());
        }
    }
}

/// Which of `count` ascending values is the percentile: the first of at least `percent` of all; 1 to
/// `count`. 99.9 % of 1,000 is the 999th, although the quotient in floating point is a little more.
pub fn rank(percent: f64, count: u64) -> u64 {
    let exact = percent * count as f64 / 100.0;
    ((exact - exact * 1e-12).ceil() as u64).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Hist {
        let mut h = Hist::new();
        values.iter().for_each(|v| h.record(*v));
        h
    }

    #[test]
    fn known_values() {
        let h = of(&(1..=1_000).collect::<Vec<_>>());
        assert_eq!(h.count(), 1_000);
        assert_eq!((h.min(), h.max()), (1, 1_000));
        assert_eq!(h.percentile(50.0), 500);
        assert_eq!(h.percentile(99.0), 990);
        assert_eq!(h.percentile(99.9), 999);
        assert_eq!(h.percentile(100.0), 1_000);
        assert!((h.mean() - 500.5).abs() < 1e-9);
        // Variance of 1..n with divisor n - 1 is n (n + 1) / 12.
        assert!((h.deviation() - (1_000.0_f64 * 1_001.0 / 12.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn an_empty_one_says_zero_and_a_single_value_is_all_percentiles() {
        let h = Hist::new();
        assert_eq!((h.count(), h.min(), h.max(), h.percentile(99.0)), (0, 0, 0, 0));
        assert_eq!((h.mean(), h.deviation()), (0.0, 0.0));
        let h = of(&[123_457]);
        assert_eq!(h.percentile(0.0), 123_457);
        assert_eq!(h.percentile(99.99), 123_457);
        assert_eq!(h.deviation(), 0.0);
    }

    #[test]
    fn zero_counts_and_more_than_an_hour_counts_as_an_hour() {
        let h = of(&[0, u64::MAX]);
        assert_eq!((h.count(), h.min(), h.max()), (2, 0, MAX_MICROS));
        let mut h = Hist::new();
        h.record_duration(Duration::MAX);
        assert_eq!(h.max(), MAX_MICROS);
    }

    #[test]
    fn buckets_hold_every_value_once() {
        let h = of(&[5, 5, 70_000, 3_000_000]);
        let mut seen = Vec::new();
        h.for_each(|v, n| seen.push((v, n)));
        assert_eq!(seen.iter().map(|b| b.1).sum::<u64>(), 4);
        assert_eq!(seen[0], (5, 2));
        assert!(seen[1].0 >= 70_000 && seen[1].0 <= 70_070);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(mut values in prop::collection::vec(1..MAX_MICROS, 1..300),
                                               percent in 0.1..100.0_f64) {
            let h = of(&values);
            values.sort_unstable();
            let exact = values[rank(percent, values.len() as u64) as usize - 1];
            let got = h.percentile(percent);
            prop_assert!(got as f64 >= exact as f64 * 0.999 && got as f64 <= exact as f64 * 1.001 + 1.0,
                         "exact {exact}, got {got}");
        }

        #[test]
        fn merging_is_associative_and_commutative(a in prop::collection::vec(0..MAX_MICROS, 0..40),
                                                  b in prop::collection::vec(0..MAX_MICROS, 0..40),
                                                  c in prop::collection::vec(0..MAX_MICROS, 0..40)) {
            let (a, b, c) = (of(&a), of(&b), of(&c));
            let mut left = a.clone();
            left.merge(&b);
            left.merge(&c);
            let mut right = c.clone();
            right.merge(&b);
            let mut right_all = a.clone();
            right_all.merge(&right);
            prop_assert_eq!(&left, &right_all);
            let mut other = c;
            other.merge(&a);
            other.merge(&b);
            prop_assert_eq!(&left, &other);
        }
    }
}
