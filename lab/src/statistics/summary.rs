//! What is in a sample.

use serde::{Deserialize, Serialize};

use super::sample::{middle, sorted};
use load::metrics::rank;
use load::report::moments;

/// The percentiles of a [`Summary`].
pub(super) const PERCENTS: [f64; 5] = [50.0, 95.0, 99.0, 99.9, 99.99];

/// One percentile.
///
/// The value is the nearest rank: the smallest value of the sample that at least `percent` of all values do
/// not exceed. The 50th is the median, halfway between the two middle values where their number is even.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Percentile {
    /// Which, 0 to 100.
    pub percent: f64,
    /// The value; none if the sample is smaller than `needs`.
    pub value: Option<f64>,
    /// The least number of values whose nearest rank differs from the largest value.
    pub needs: u64,
}

/// The least number of values that tells a percentile from the maximum: 100 for the 99th.
pub(crate) fn needs(percent: f64) -> u64 {
    // The quotient may be a little more than the whole number that it stands for.
    let exact = 100.0 / (100.0 - percent.clamp(0.0, 99.999_999));
    (exact - exact * 1e-9).ceil() as u64
}

/// The statistics of a sample that paper 003 (Hrischuk and DeVal 2006, section 2.4) asks for, and higher
/// percentiles.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Values that were left out: not finite, or beyond [`super::LARGEST`].
    pub unusable: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); none of a single value.
    pub deviation: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Sum of the squares of the values.
    pub sum_of_squares: f64,
    /// The 50th, 95th, 99th, 99.9th and 99.99th.
    pub percentiles: Vec<Percentile>,
}

impl Summary {
    /// Sums up the usable values; none if there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let ascending = sorted(values);
        let (min, max) = (*ascending.first()?, *ascending.last()?);
        let (mean, variance) = moments(&ascending);
        Some(Summary {
            count: ascending.len() as u64,
            unusable: (values.len() - ascending.len()) as u64,
            mean,
            deviation: (ascending.len() > 1).then(|| variance.sqrt()),
            min,
            max,
            sum_of_squares: ascending.iter().map(|v| v * v).sum(),
            percentiles: PERCENTS.map(|p| percentile(&ascending, p)).into(),
        })
    }

    /// One of its percentiles; none if it is not among them, or the sample is too small for it.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        self.percentiles.iter().find(|p| p.percent == percent)?.value
    }
}

/// A percentile of ascending values.
fn percentile(ascending: &[f64], percent: f64) -> Percentile {
    let count = ascending.len() as u64;
    let needs = needs(percent);
    let value = if percent == 50.0 {
        middle(ascending)
    } else {
        let at = rank(percent, count).saturating_sub(1) as usize;
        ascending.get(at).copied().filter(|_| count >= needs)
    };
    Percentile { percent, value, needs: if percent == 50.0 { 1 } else { needs } }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hostile::sample;
    use super::*;

    /// Sums of 1..=n: n (n + 1) / 2 and n (n + 1) (2 n + 1) / 6; the variance is n (n + 1) / 12.
    #[test]
    fn summary_has_the_known_values_of_one_to_thousand() {
        let s = Summary::of(&(1..=1_000).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((s.count, s.min, s.max, s.mean), (1_000, 1.0, 1_000.0, 500.5));
        assert_eq!(s.sum_of_squares, 333_833_500.0);
        assert!((s.deviation.unwrap().powi(2) - 83_416.666_666).abs() < 1e-3);
        let found: Vec<_> = s.percentiles.iter().map(|p| p.value).collect();
        assert_eq!(found, [Some(500.5), Some(950.0), Some(990.0), Some(999.0), None]);
        assert_eq!(s.percentiles[4].needs, 10_000);
    }

    #[test]
    fn percentile_is_refused_below_the_least_sample() {
        for (percent, least) in [(95.0, 20), (99.0, 100), (99.9, 1_000), (99.99, 10_000)] {
            assert_eq!(needs(percent), least);
            let of = |n: u64| Summary::of(&(0..n).map(|v| v as f64).collect::<Vec<_>>()).unwrap();
            assert_eq!(of(least - 1).percentile(percent), None);
            assert_eq!(of(least).percentile(percent), Some(least as f64 - 2.0));
        }
    }

    #[test]
    fn single_value_has_a_median_and_no_deviation() {
        let s = Summary::of(&[7.0, f64::NAN]).unwrap();
        assert_eq!((s.count, s.unusable, s.percentile(50.0), s.deviation), (1, 1, Some(7.0), None));
        assert_eq!(s.percentile(95.0), None);
        assert_eq!(Summary::of(&[f64::INFINITY]), None);
    }

    proptest! {
        #[test]
        fn summary_of_anything_is_finite_and_ordered(values in sample(200)) {
            if let Some(s) = Summary::of(&values) {
                prop_assert_eq!((s.count + s.unusable) as usize, values.len());
                prop_assert!(s.mean.is_finite() && s.sum_of_squares.is_finite());
                prop_assert!(s.deviation.is_none_or(|d| d.is_finite() && d >= 0.0));
                let found: Vec<f64> = s.percentiles.iter().filter_map(|p| p.value).collect();
                prop_assert!(found.iter().all(|v| (s.min..=s.max).contains(v)));
                prop_assert!(found.is_sorted());
            }
        }
    }
}
