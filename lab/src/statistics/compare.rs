//! Two systems side by side.

use serde::{Deserialize, Serialize};

use super::interval::{Estimate, Interval, Method, NoInterval, least, sound, within_limits};
use super::ranks::{Depth, mann_whitney, signed_depth, signed_rank, sum_depth};
use super::sample::{MOST_VALUES, middle, sorted, usable};

/// The blocks in which both systems have a usable value. A run that is void has none.
pub fn pairs(own: &[Option<f64>], other: &[Option<f64>]) -> Vec<(f64, f64)> {
    let both = own.iter().zip(other);
    both.filter_map(|(a, b)| Some((a.and_then(usable)?, b.and_then(usable)?))).collect()
}

/// A system compared with another one within blocks. This is the comparison that an experiment uses.
///
/// Each block gives a difference and, where all values are positive, the logarithm of a quotient. The
/// estimate is that of Hodges and Lehmann (1963): the median of the averages of all pairs of differences
/// (Walsh averages). The interval lies between two of those averages, by the law of Wilcoxon's signed ranks
/// (Hollander and Wolfe 1999, section 3.3).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Paired {
    /// Blocks with both values.
    pub blocks: usize,
    /// Own minus other.
    pub shift: Estimate,
    /// Own divided by other; none if a value is zero or negative.
    pub ratio: Option<Estimate>,
    /// Of Wilcoxon's signed rank test, of the ratios or else of the differences.
    pub p: f64,
}

impl Paired {
    /// Compares `(own, other)` of each block.
    pub fn of(pairs: &[(f64, f64)], confidence: f64) -> Result<Paired, NoInterval> {
        let usable: Vec<(f64, f64)> =
            pairs.iter().filter_map(|(a, b)| Some((usable(*a)?, usable(*b)?))).collect();
        let shifts: Vec<f64> = usable.iter().map(|(a, b)| a - b).collect();
        let shift = centre(&shifts, confidence)?;
        let logs: Option<Vec<f64>> = usable.iter().map(|(a, b)| log_ratio(*a, *b)).collect();
        let ratio = match &logs {
            Some(logs) => Some(exponential(centre(logs, confidence)?)),
            None => None,
        };
        let p = signed_rank(logs.as_deref().unwrap_or(&shifts)).p;
        Ok(Paired { blocks: usable.len(), shift, ratio, p })
    }
}

/// The logarithm of a quotient of positive values.
fn log_ratio(own: f64, other: f64) -> Option<f64> {
    (own > 0.0 && other > 0.0).then(|| own.ln() - other.ln())
}

fn exponential(estimate: Estimate) -> Estimate {
    Estimate { value: estimate.value.exp(), interval: estimate.interval.map(f64::exp) }
}

/// The centre of symmetric values by Hodges and Lehmann, with its interval.
pub(super) fn centre(values: &[f64], confidence: f64) -> Result<Estimate, NoInterval> {
    let n = values.len();
    let need = least(confidence);
    within_limits(n, need)?;
    let averages = averages_of_pairs(values);
    let depth = signed_depth(n, 1.0 - sound(confidence));
    between(&averages, depth, Method::SignedRank).ok_or(NoInterval::TooFew { have: n, need })
}

/// The averages of all pairs, each value with itself included, in ascending order.
fn averages_of_pairs(values: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, a) in values.iter().enumerate() {
        out.extend(values.iter().skip(i).map(|b| f64::midpoint(*a, *b)));
    }
    out.sort_unstable_by(f64::total_cmp);
    out
}

/// The median of ascending candidates, and the interval between the two at this depth.
fn between(ascending: &[f64], depth: Option<Depth>, method: Method) -> Option<Estimate> {
    let depth = depth?;
    let (below, above) = (depth.k.checked_sub(1)?, ascending.len().checked_sub(depth.k)?);
    let (low, high) = (*ascending.get(below)?, *ascending.get(above)?);
    let interval = Interval::new(low, high, depth.confidence, method);
    Some(Estimate { value: middle(ascending)?, interval })
}

/// Two systems whose runs were not made in common blocks. It sees less than [`Paired`] wherever the machine
/// drifts.
///
/// The estimate is that of Hodges and Lehmann (1963): the median of all differences between a value of the
/// one and a value of the other. The interval is by the law of the rank sum, which is that of the
/// Mann-Whitney test.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Unpaired {
    /// Usable values of the own system.
    pub own: usize,
    /// Usable values of the other.
    pub other: usize,
    /// Own minus other.
    pub shift: Estimate,
    /// Own divided by other: the median of all quotients; none if a value is zero or negative.
    pub ratio: Option<Estimate>,
    /// Of the Mann-Whitney test.
    pub p: f64,
}

impl Unpaired {
    /// Compares two samples.
    pub fn of(own: &[f64], other: &[f64], confidence: f64) -> Result<Unpaired, NoInterval> {
        let (own, other) = (sorted(own), sorted(other));
        let shift = apart(&own, &other, confidence)?;
        let logs = |values: &[f64]| -> Option<Vec<f64>> {
            values.iter().map(|v| (*v > 0.0).then(|| v.ln())).collect()
        };
        let ratio = match (logs(&own), logs(&other)) {
            (Some(a), Some(b)) => Some(exponential(apart(&a, &b, confidence)?)),
            _ => None,
        };
        let p = mann_whitney(&own, &other).p;
        Ok(Unpaired { own: own.len(), other: other.len(), shift, ratio, p })
    }
}

/// How far two samples are apart, by Hodges and Lehmann.
fn apart(own: &[f64], other: &[f64], confidence: f64) -> Result<Estimate, NoInterval> {
    let alpha = 1.0 - sound(confidence);
    let smaller = own.len().min(other.len());
    if own.len().max(other.len()) > MOST_VALUES {
        return Err(NoInterval::TooMany { have: own.len().max(other.len()), most: MOST_VALUES });
    }
    let mut differences = Vec::with_capacity(own.len() * other.len());
    for a in own {
        differences.extend(other.iter().map(|b| a - b));
    }
    differences.sort_unstable_by(f64::total_cmp);
    between(&differences, sum_depth(own.len(), other.len(), alpha), Method::RankSum).ok_or_else(|| {
        // Two samples of n have an interval where 2 n! n! / (2 n)! is at most alpha.
        let need = (1..=20).find(|n| sum_depth(*n, *n, alpha).is_some()).unwrap_or(20);
        NoInterval::TooFew { have: smaller, need: need.max(smaller + 1) }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hostile::{sample, value};
    use super::*;

    /// The interval of all shifts that the test does not reject is the interval of Hodges and Lehmann. Here
    /// every shift of a fine grid is tested.
    #[test]
    fn intervals_are_the_shifts_that_tests_accept() {
        let own = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let other = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.07, 3.06 + 0.08, 1.28];
        let both: Vec<_> = own.into_iter().zip(other).collect();
        let paired = Paired::of(&both, 0.95).unwrap().shift;
        let unpaired = Unpaired::of(&own, &other, 0.95).unwrap().shift;
        // R's conf.int of this example of its help page is -0.07 to 0.92 (paired, two-sided): recomputed
        // below.
        for step in -2_000..2_000 {
            let by = f64::from(step) / 1_000.0 + 0.000_51;
            let moved: Vec<f64> = both.iter().map(|(a, b)| a - b - by).collect();
            assert_eq!(paired.interval.contains(by), signed_rank(&moved).p > 0.05, "paired {by}");
            let moved: Vec<f64> = own.iter().map(|a| a - by).collect();
            assert_eq!(
                unpaired.interval.contains(by),
                mann_whitney(&moved, &other).p > 0.05,
                "unpaired {by}"
            );
        }
    }

    #[test]
    fn ratio_is_found_where_blocks_drift() {
        // Each block is slower than the one before; the own system takes 5 % more in all of them.
        let blocks: Vec<(f64, f64)> =
            (1..=8).map(|block| (105.0 * f64::from(block), 100.0 * f64::from(block))).collect();
        let paired = Paired::of(&blocks, 0.95).unwrap();
        let ratio = paired.ratio.unwrap();
        assert!((ratio.value - 1.05).abs() < 1e-9 && ratio.interval.half_width() < 1e-9, "{ratio:?}");
        let (own, other): (Vec<f64>, Vec<f64>) = blocks.into_iter().unzip();
        let unpaired = Unpaired::of(&own, &other, 0.95).unwrap();
        assert!(unpaired.ratio.unwrap().interval.contains(1.0));
        assert!(paired.p < 0.01 && unpaired.p > 0.5);
    }

    #[test]
    fn comparison_is_refused_with_the_number_needed() {
        let pairs = [(1.0, 2.0); 5];
        assert_eq!(Paired::of(&pairs, 0.95), Err(NoInterval::TooFew { have: 5, need: 6 }));
        let found = Unpaired::of(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 0.95);
        assert_eq!(found, Err(NoInterval::TooFew { have: 3, need: 4 }));
        let many = vec![1.0; 1_001];
        assert_eq!(Unpaired::of(&many, &[1.0], 0.95), Err(NoInterval::TooMany { have: 1_001, most: 1_000 }));
    }

    #[test]
    fn zero_has_a_shift_and_no_ratio() {
        let found = Paired::of(&[(0.0, 1.0); 6], 0.95).unwrap();
        assert_eq!((found.shift.value, found.ratio), (-1.0, None));
        assert_eq!(
            pairs(&[Some(1.0), None, Some(f64::NAN)], &[Some(2.0), Some(2.0), Some(2.0)]),
            [(1.0, 2.0)]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn comparison_of_anything_is_finite(own in sample(30), other in sample(30),
                                           confidence in value()) {
            let pairs: Vec<(f64, f64)> = own.iter().copied().zip(other.iter().copied()).collect();
            if let Ok(found) = Paired::of(&pairs, confidence) {
                prop_assert!(found.shift.interval.contains(found.shift.value));
                prop_assert!(found.ratio.is_none_or(|r| r.value.is_finite() && r.interval.contains(r.value)));
            }
            if let Ok(found) = Unpaired::of(&own, &other, confidence) {
                prop_assert!(found.shift.interval.contains(found.shift.value));
                prop_assert!(found.ratio.is_none_or(|r| r.value.is_finite() && r.interval.contains(r.value)));
            }
        }
    }
}
