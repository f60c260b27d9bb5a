//! Whether a warm-up is over.

use core::fmt;

use load::population::statistics::normal_cdf;
use serde::{Deserialize, Serialize};

use super::ranks::mann_whitney;
use super::sample::{median, middle, sorted, usable};

/// The trend of a series with one value for each interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trend {
    /// Change from interval to interval: the median of the slopes between all pairs (Theil 1950, Sen 1968).
    pub slope: f64,
    /// Of the test of Mann (1945) and Kendall (1975) that there is no trend, by the normal approximation with
    /// ties.
    pub p: f64,
}

/// The trend of the usable values, each at its place; none if there are fewer than two.
pub fn trend(series: &[f64]) -> Option<Trend> {
    let points: Vec<(f64, f64)> =
        (0..).zip(series).filter_map(|(at, v)| Some((f64::from(at), usable(*v)?))).collect();
    trend_of(&points)
}

fn trend_of(points: &[(f64, f64)]) -> Option<Trend> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    let mut score = 0.0;
    for (i, (at, value)) in points.iter().enumerate() {
        for (later, other) in points.iter().skip(i + 1) {
            slopes.push((other - value) / (later - at));
            score += f64::from(i8::from(other > value) - i8::from(other < value));
        }
    }
    let slope = median(&slopes)?;
    let times = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ascending = sorted(&points.iter().map(|(_, v)| *v).collect::<Vec<_>>());
    let ties: f64 = ascending.chunk_by(|a, b| a == b).map(|tied| times(tied.len() as f64)).sum();
    let variance = (times(points.len() as f64) - ties) / 18.0;
    let away = (score.abs() - 1.0).max(0.0);
    let p = if variance > 0.0 { (2.0 * normal_cdf(-away / variance.sqrt())).min(1.0) } else { 1.0 };
    Some(Trend { slope, p })
}

/// What counts as steady.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SteadyRule {
    window: usize,
    drift: f64,
}

impl SteadyRule {
    /// With windows of this number of intervals (8 to 64), and drifts up to this part of the level, such as
    /// 0.02.
    pub fn new(window: usize, drift: f64) -> SteadyRule {
        let drift = if drift.is_nan() { 0.0 } else { drift.clamp(0.0, 1.0) };
        SteadyRule { window: window.clamp(8, 64), drift }
    }

    /// The least number of intervals for a statement: two windows.
    pub fn needs(&self) -> usize {
        2 * self.window
    }
}

/// Since when a series is steady.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "steady")]
pub enum Steadiness {
    /// From this interval on, counted from 0, to the end.
    Since {
        /// The interval.
        index: usize,
    },
    /// It still drifts at the end, or has too many gaps.
    Never {
        /// Drift over the last window, as a part of the level: 0.05 for 5 % upwards.
        drift: f64,
    },
    /// It has fewer intervals than two windows.
    TooShort {
        /// Intervals that there are.
        have: usize,
        /// The least number.
        need: usize,
    },
}

impl fmt::Display for Steadiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steadiness::Since { index } => write!(f, "steady since interval {index}"),
            Steadiness::Never { drift } => {
                write!(f, "never steady: the last window drifts by {:+.1} %", drift * 100.0)
            }
            Steadiness::TooShort { have, need } => {
                write!(f, "too short: {have} intervals, and {need} are needed")
            }
        }
    }
}

/// A drift or a difference may be chance if its p is above this. It is small because several tests are made.
const CHANCE: f64 = 0.005;
/// Longer stretches are thinned to this number of points, each the median of its neighbours.
const POINTS: usize = 64;

/// Finds since when a series is steady: the first interval from which on
///
/// - neither the whole rest nor its last window drifts (test of Mann and Kendall, slope of Theil and Sen);
/// - the first window and the last one have the level of the others (test of Mann and Whitney): a step has no
///   slope.
///
/// A drift or a difference counts only if it is larger than the rule allows and unlikely to be chance. The
/// rest must be at least two windows and a quarter of the series: the last minute of a drifting hour is not
/// steady.
///
/// Neighbouring values of a series often depend on each other, which looks like drift. Such a series may be
/// found steady too late, or never.
pub fn steady(series: &[f64], rule: &SteadyRule) -> Steadiness {
    let need = rule.needs();
    if series.len() < need {
        return Steadiness::TooShort { have: series.len(), need };
    }
    let latest = series.len() - need.max(series.len() / 4);
    let level = level_of(series);
    let last = series.get(series.len().saturating_sub(rule.window)..).unwrap_or_default();
    let drift = drift_of(last, level);
    let ends_steadily = drift.is_some_and(|(drift, p)| drift.abs() <= rule.drift || p > CHANCE);
    let is_steady = |at: &usize| series.get(*at..).is_some_and(|rest| rest_is_steady(rest, level, rule));
    match (0..=latest).find(is_steady).filter(|_| ends_steadily) {
        Some(index) => Steadiness::Since { index },
        None => Steadiness::Never { drift: drift.map_or(0.0, |(drift, _)| drift) },
    }
}

fn rest_is_steady(rest: &[f64], level: f64, rule: &SteadyRule) -> bool {
    let (first, others) = rest.split_at(rule.window.min(rest.len()));
    let (earlier, last) = rest.split_at(rest.len().saturating_sub(rule.window));
    let drifts =
        drift_of(&thinned(rest), level).is_none_or(|(drift, p)| drift.abs() > rule.drift && p <= CHANCE);
    !drifts && same_level(first, others, level, rule) && same_level(earlier, last, level, rule)
}

/// The level that drifts are compared with; that of a series of mostly zeros is its largest magnitude.
fn level_of(series: &[f64]) -> f64 {
    let sizes = sorted(&series.iter().map(|v| v.abs()).collect::<Vec<_>>());
    let typical = middle(&sizes).unwrap_or(0.0);
    if typical > 0.0 { typical } else { sizes.last().copied().unwrap_or(0.0) }
}

/// The drift of a stretch from end to end as a part of the level, and its p; none if a quarter of it is
/// missing.
fn drift_of(stretch: &[f64], level: f64) -> Option<(f64, f64)> {
    let present = stretch.iter().filter(|v| usable(**v).is_some()).count();
    let found = trend(stretch).filter(|_| present * 4 >= stretch.len() * 3)?;
    let drift = if level > 0.0 { found.slope * stretch.len() as f64 / level } else { 0.0 };
    Some((drift, found.p))
}

/// Whether two stretches have the same level, as far as can be told.
fn same_level(one: &[f64], other: &[f64], level: f64, rule: &SteadyRule) -> bool {
    let (Some(a), Some(b)) = (median(one), median(other)) else { return false };
    (a - b).abs() <= rule.drift * level || mann_whitney(one, other).p > CHANCE
}

/// At most [`POINTS`] medians of equal stretches.
fn thinned(series: &[f64]) -> Vec<f64> {
    let each = series.len().div_ceil(POINTS).max(1);
    series.chunks(each).map(|part| median(part).unwrap_or(f64::NAN)).collect()
}

#[cfg(test)]
mod tests {
    use load::population::Rng;
    use proptest::prelude::*;

    use super::super::hostile::{sample, value};
    use super::*;

    const RULE: SteadyRule = SteadyRule { window: 10, drift: 0.02 };

    /// A series that a function of the interval and of noise in -1..1 gives.
    fn series(length: usize, of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let mut rng = Rng::new(3, 0);
        (0..length).map(|i| of(i as f64, 2.0 * rng.unit() - 1.0)).collect()
    }

    /// Kendall's score of 1, 2, ..., 5 without disorder is 10 and its variance 5 * 4 * 15 / 18; Z = 9 /
    /// sqrt(16.667).
    #[test]
    fn trend_has_its_known_values() {
        let found = trend(&[1.0, 3.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(found.slope, 2.0);
        assert!((found.p - 2.0 * normal_cdf(-9.0 / (300.0_f64 / 18.0).sqrt())).abs() < 1e-12);
        // Gaps keep their place: the slope is still 2 for each interval.
        assert_eq!(trend(&[1.0, f64::NAN, 5.0, f64::INFINITY, 9.0]).unwrap().slope, 2.0);
        assert_eq!((trend(&[1.0]), trend(&[f64::NAN; 3])), (None, None));
        assert_eq!(trend(&[4.0; 8]).unwrap(), Trend { slope: 0.0, p: 1.0 });
    }

    #[test]
    fn warm_up_ends_where_the_rise_does() {
        let rise = series(90, |at, noise| 1_000.0 * (1.0 - (-at / 8.0).exp()) + 5.0 * noise);
        let Steadiness::Since { index } = steady(&rise, &RULE) else { panic!("{}", steady(&rise, &RULE)) };
        assert!((15..45).contains(&index), "{index}");
    }

    #[test]
    fn noise_around_a_level_is_steady_from_the_start() {
        let flat = series(120, |_, noise| 500.0 + 100.0 * noise);
        assert_eq!(steady(&flat, &RULE), Steadiness::Since { index: 0 });
        assert_eq!(steady(&[0.0; 40], &RULE), Steadiness::Since { index: 0 });
    }

    #[test]
    fn slow_drift_is_never_steady() {
        // One percent in each window: every window alone would pass, two together do not.
        let leak = series(200, |at, noise| 100.0 + 0.15 * at + 0.01 * noise);
        let found = steady(&leak, &RULE);
        assert!(matches!(found, Steadiness::Never { drift } if drift > 0.0), "{found}");
        assert!(found.to_string().starts_with("never steady: the last window drifts by +"), "{found}");
    }

    #[test]
    fn end_of_a_long_drift_is_not_steady() {
        let ramp: Vec<f64> = (0..900).map(f64::from).collect();
        assert!(matches!(steady(&ramp, &RULE), Steadiness::Never { .. }), "{}", steady(&ramp, &RULE));
    }

    #[test]
    fn disturbance_moves_the_beginning_behind_it() {
        let step = series(120, |at, noise| if at < 60.0 { 100.0 } else { 150.0 } + noise);
        let Steadiness::Since { index } = steady(&step, &RULE) else { panic!() };
        assert!((51..=61).contains(&index), "{index}");
    }

    #[test]
    fn short_series_and_gaps_show_nothing() {
        let flat = series(90, |_, noise| 10.0 + noise);
        assert_eq!(steady(&flat[..19], &RULE), Steadiness::TooShort { have: 19, need: 20 });
        assert_eq!(steady(&[f64::NAN; 40], &RULE), Steadiness::Never { drift: 0.0 });
    }

    proptest! {
        #[test]
        fn steadiness_of_anything_is_within_the_series(values in sample(80),
                                                      window in 0..100_usize, drift in value()) {
            if let Steadiness::Since { index } = steady(&values, &SteadyRule::new(window, drift)) {
                prop_assert!(index < values.len());
            }
        }
    }
}
