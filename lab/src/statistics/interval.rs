//! Intervals, and why there is none.

use core::fmt;

use load::population::Rng;
use serde::{Deserialize, Serialize};

use super::sample::{MOST_VALUES, middle, sorted};

/// How an interval was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Between two values of the sample, by the binomial law of how many lie below the median. Exact,
    /// whatever the law of the values.
    OrderStatistics,
    /// Between two percentiles of the statistic over samples that were drawn with replacement.
    Bootstrap,
    /// Between two averages of pairs, by the law of Wilcoxon's signed ranks. Exact for symmetric values.
    SignedRank,
    /// Between two differences, by the law of the rank sum. Exact for two laws of the same form.
    RankSum,
}

/// Where a figure lies, with a stated confidence.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Interval {
    low: f64,
    high: f64,
    confidence: f64,
    method: Method,
}

impl Interval {
    pub(super) fn new(low: f64, high: f64, confidence: f64, method: Method) -> Interval {
        Interval { low: low.min(high), high: high.max(low), confidence, method }
    }

    /// Lower end.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Upper end.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The confidence that was reached, 0 to 1: at least the one that was asked for, and at most 0.999 by
    /// the bootstrap.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// How it was made.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Half of its width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Is this value within, or at an end?
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The same interval of a rising function of the figure.
    pub(super) fn map(&self, f: impl Fn(f64) -> f64) -> Interval {
        Interval::new(f(self.low), f(self.high), self.confidence, self.method)
    }
}

/// A figure with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Where it lies.
    pub interval: Interval,
}

/// Why there is no interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum NoInterval {
    /// Too few values for this confidence.
    TooFew {
        /// Values that are there and usable.
        have: usize,
        /// The least number.
        need: usize,
    },
    /// More than [`MOST_VALUES`].
    TooMany {
        /// Values that are there.
        have: usize,
        /// The largest number.
        most: usize,
    },
}

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoInterval::TooFew { have, need } => write!(f, "{have} values are too few: {need} are needed"),
            NoInterval::TooMany { have, most } => {
                write!(f, "{have} values are too many: {most} are compared")
            }
        }
    }
}

impl core::error::Error for NoInterval {}

/// The bootstrap is refused below this number of values: its intervals are too narrow there.
pub const FEWEST_RESAMPLED: usize = 10;
/// Samples that the bootstrap draws at least. Its ends vary by about a fiftieth of the width from seed to
/// seed.
const RESAMPLES: usize = 2_000;
/// Draws that lie beyond each end at least.
const BEYOND: f64 = 10.0;
/// Up to this number of values, and above this confidence, the median has its interval by order statistics.
const FEW: usize = 30;
const SURE: f64 = 0.99;

/// A confidence that can be calculated with, and 0.95 in place of what is no number. Many claims that share a
/// probability of error come near to 1.
pub(super) fn sound(confidence: f64) -> f64 {
    if confidence.is_nan() { 0.95 } else { confidence.clamp(0.5, 1.0 - 1e-9) }
}

/// The highest confidence of a bootstrap: beyond, the ends would be those of the rarest draws.
const RESAMPLED: f64 = 0.999;

/// A confidence that the bootstrap reaches.
pub(super) fn resampled_confidence(confidence: f64) -> f64 {
    sound(confidence).min(RESAMPLED)
}

/// The least number of values for a two-sided interval from signs or ranks: the smallest n with 2 * 2^-n <=
/// alpha.
pub(super) fn least(confidence: f64) -> usize {
    let alpha = 1.0 - sound(confidence);
    (1..64).find(|n| 2.0 * 0.5_f64.powi(*n) <= alpha).unwrap_or(64) as usize
}

/// Refuses samples that are too small or too large.
pub(super) fn within_limits(have: usize, need: usize) -> Result<(), NoInterval> {
    if have < need {
        return Err(NoInterval::TooFew { have, need });
    }
    if have > MOST_VALUES {
        return Err(NoInterval::TooMany { have, most: MOST_VALUES });
    }
    Ok(())
}

/// The median and its interval: by order statistics up to 30 values or above 99 %, else by the bootstrap.
///
/// Order statistics are exact for any law, but jump from value to value, which matters in a small sample only
/// by making the interval wider than asked for. BCa is not used: its acceleration comes from the jackknife,
/// which fails for medians (Efron and Tibshirani 1993, section 11.6).
pub fn median_interval(values: &[f64], confidence: f64, seed: u64) -> Result<Estimate, NoInterval> {
    let ascending = sorted(values);
    if ascending.len() <= FEW || sound(confidence) > SURE {
        return order_statistics(&ascending, confidence);
    }
    bootstrap(&ascending, |drawn| middle(drawn).unwrap_or(0.0), confidence, seed)
}

/// The median and its interval by order statistics (David and Nagaraja 2003, section 7.1).
pub fn order_statistics(values: &[f64], confidence: f64) -> Result<Estimate, NoInterval> {
    let ascending = sorted(values);
    let n = ascending.len();
    within_limits(n, least(confidence))?;
    let alpha = 1.0 - sound(confidence);
    // The k-th smallest and the k-th largest miss the median with probability 2 P(B <= k - 1), B binomial (n,
    // 1/2).
    let (mut term, mut tail) = (0.5_f64.powi(n as i32), 0.0);
    let (mut depth, mut missed) = (0, 1.0);
    for k in 1..=n.div_ceil(2) {
        tail += term;
        term *= (n + 1 - k) as f64 / k as f64;
        if 2.0 * tail > alpha {
            break;
        }
        (depth, missed) = (k, 2.0 * tail);
    }
    let ends = depth.checked_sub(1).and_then(|k| Some((*ascending.get(k)?, *ascending.get(n - 1 - k)?)));
    let (Some((low, high)), Some(value)) = (ends, middle(&ascending)) else {
        return Err(NoInterval::TooFew { have: n, need: least(confidence) });
    };
    Ok(Estimate { value, interval: Interval::new(low, high, 1.0 - missed, Method::OrderStatistics) })
}

/// A statistic of a sample, which gets its values in ascending order, and its interval by the percentile
/// bootstrap (Efron 1979).
pub fn bootstrap(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    seed: u64,
) -> Result<Estimate, NoInterval> {
    let sample = sorted(values);
    within_limits(sample.len(), FEWEST_RESAMPLED)?;
    let mut rng = Rng::new(seed, 0);
    let (low, high) = resampled(confidence, || statistic(&drawn(&sample, &mut rng)));
    let interval = Interval::new(low, high, resampled_confidence(confidence), Method::Bootstrap);
    Ok(Estimate { value: statistic(&sample), interval })
}

/// As many values as a sample has, drawn from it with replacement, in ascending order.
pub(super) fn drawn(ascending: &[f64], rng: &mut Rng) -> Vec<f64> {
    let mut times = vec![0_usize; ascending.len()];
    for _ in ascending {
        if let Some(count) = times.get_mut(rng.below(ascending.len() as u64) as usize) {
            *count += 1;
        }
    }
    ascending.iter().zip(times).flat_map(|(value, count)| core::iter::repeat_n(*value, count)).collect()
}

/// The two percentiles of a drawn statistic between which the stated share of the draws lies.
pub(super) fn resampled(confidence: f64, mut draw: impl FnMut() -> f64) -> (f64, f64) {
    let tail = (1.0 - resampled_confidence(confidence)) / 2.0;
    let count = ((BEYOND / tail).ceil() as usize).max(RESAMPLES);
    let mut found: Vec<f64> = (0..count).map(|_| draw()).collect();
    found.sort_unstable_by(f64::total_cmp);
    let cut = (tail * count as f64) as usize;
    let at = |i: usize| found.get(i).copied().unwrap_or(0.0);
    (at(cut), at(count - 1 - cut))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hostile::{sample, value};
    use super::*;

    fn one_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    /// By hand, from the binomial coefficients. Ranks 1 and 6 of 6 leave 2 of 64 cases out, and ranks 2 and 9
    /// of 10 leave 22 of 1,024.
    #[test]
    fn order_statistics_have_the_ranks_of_the_tables() {
        for (n, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (15, 4.0, 12.0), (20, 6.0, 15.0)] {
            let found = order_statistics(&one_to(n), 0.95).unwrap();
            assert_eq!((found.interval.low(), found.interval.high()), (low, high), "{n}");
        }
        for (n, left_out, of) in
            [(6, 2.0, 64.0), (10, 22.0, 1_024.0), (15, 1_152.0, 32_768.0), (20, 43_400.0, 1_048_576.0)]
        {
            let found = order_statistics(&one_to(n), 0.95).unwrap().interval.confidence();
            assert!((found - (1.0 - left_out / of)).abs() < 1e-12, "{n}: {found}");
        }
    }

    #[test]
    fn interval_is_refused_with_the_number_needed() {
        let few = |n, confidence| median_interval(&one_to(n), confidence, 1).unwrap_err();
        assert_eq!(few(5, 0.95), NoInterval::TooFew { have: 5, need: 6 });
        assert_eq!(few(7, 0.99), NoInterval::TooFew { have: 7, need: 8 });
        assert_eq!(few(0, 0.95).to_string(), "0 values are too few: 6 are needed");
        let many = median_interval(&one_to(1_001), 0.95, 1).unwrap_err();
        assert_eq!(many, NoInterval::TooMany { have: 1_001, most: 1_000 });
    }

    #[test]
    fn bootstrap_is_near_order_statistics_and_repeats() {
        let values = one_to(100);
        let found = median_interval(&values, 0.95, 7).unwrap();
        assert_eq!(found.interval.method(), Method::Bootstrap);
        // Order statistics of 100: the 40th and the 61st.
        assert!((found.interval.low() - 40.0).abs() <= 3.0, "{found:?}");
        assert!((found.interval.high() - 61.0).abs() <= 3.0, "{found:?}");
        assert_eq!(found, median_interval(&values, 0.95, 7).unwrap());
    }

    #[test]
    fn bootstrap_of_a_high_confidence_says_what_it_reaches() {
        let middle = |drawn: &[f64]| middle(drawn).unwrap_or(0.0);
        let usual = bootstrap(&one_to(20), middle, 0.95, 1).unwrap().interval;
        let sure = bootstrap(&one_to(20), middle, 0.999_999, 1).unwrap().interval;
        assert_eq!(sure.confidence(), 0.999);
        assert!(sure.low() < usual.low() && sure.high() > usual.high());
        let exact = median_interval(&one_to(100), 0.999_999, 1).unwrap().interval;
        assert_eq!(exact.method(), Method::OrderStatistics);
        assert!(exact.confidence() >= 0.999_999);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn interval_of_anything_holds_its_median(values in sample(60),
                                                confidence in value(), seed in 0..9_u64) {
            if let Ok(found) = median_interval(&values, confidence, seed) {
                prop_assert!(found.interval.contains(found.value), "{found:?}");
                prop_assert!(found.interval.half_width().is_finite());
            }
        }
    }
}
