//! Latencies of whole runs: histograms that merge.
//!
//! The percentile of several runs together is that of their merged histogram. A mean of percentiles is no
//! percentile of anything, so there is no function for it.

use load::metrics::Hist;
use load::report::Distribution;

use super::interval::{
    Estimate, FEWEST_RESAMPLED, Interval, Method, NoInterval, resampled, resampled_confidence,
};
use super::summary::{PERCENTS, Percentile, Summary, needs};
use load::metrics::rank;
use load::population::Rng;

/// The latencies of one run or of several, in microseconds; percentiles are within 0.1 % of the values that
/// went in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    hist: Hist,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Latencies {
        Latencies::default()
    }

    /// Those of a report of the generator. Its buckets are at most 2 % wide, so percentiles and moments are,
    /// too.
    pub fn from_report(distribution: &Distribution) -> Latencies {
        let mut hist = Hist::new();
        for (upper, count) in &distribution.buckets {
            hist.record_times((*upper).min(distribution.max).max(distribution.min), *count);
        }
        Latencies { hist }
    }

    /// Adds one, in microseconds; more than an hour counts as an hour.
    pub fn record(&mut self, micros: u64) {
        self.hist.record(micros);
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Latencies) {
        self.hist.merge(&other.hist);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.hist.count()
    }

    /// A percentile in microseconds, without a value if too few latencies were recorded for it.
    pub fn percentile(&self, percent: f64) -> Percentile {
        let needs = needs(percent);
        let value = (self.count() >= needs).then(|| self.hist.percentile(percent) as f64);
        Percentile { percent, value, needs }
    }

    /// Their summary in microseconds; none if there are none.
    pub fn summary(&self) -> Option<Summary> {
        (self.count() > 0).then(|| Summary {
            count: self.count(),
            unusable: 0,
            mean: self.hist.mean(),
            deviation: (self.count() > 1).then(|| self.hist.deviation()),
            min: self.hist.min() as f64,
            max: self.hist.max() as f64,
            sum_of_squares: self.hist.sum_of_squares() as f64,
            percentiles: PERCENTS.map(|p| self.percentile(p)).into(),
        })
    }

    /// A percentile of all runs together, in microseconds, and its interval.
    ///
    /// The bootstrap draws whole runs, because latencies within a run depend on each other.
    pub fn pooled(
        runs: &[Latencies],
        percent: f64,
        confidence: f64,
        seed: u64,
    ) -> Result<Estimate, NoInterval> {
        if runs.len() < FEWEST_RESAMPLED {
            return Err(NoInterval::TooFew { have: runs.len(), need: FEWEST_RESAMPLED });
        }
        let mut all = Latencies::new();
        runs.iter().for_each(|run| all.merge(run));
        let Some(value) = all.percentile(percent).value else {
            return Err(NoInterval::TooFew { have: all.count() as usize, need: needs(percent) as usize });
        };
        let table = Cumulated::of(&all, runs);
        let mut rng = Rng::new(seed, 0);
        let (low, high) = resampled(confidence, || {
            let mut drawn = vec![0_usize; runs.len()];
            for _ in runs {
                if let Some(times) = drawn.get_mut(rng.below(runs.len() as u64) as usize) {
                    *times += 1;
                }
            }
            table.percentile(percent, &drawn)
        });
        Ok(Estimate {
            value,
            interval: Interval::new(low, high, resampled_confidence(confidence), Method::Bootstrap),
        })
    }
}

/// For each value that occurs, how many latencies of each run do not exceed it.
struct Cumulated {
    values: Vec<u64>,
    runs: Vec<Vec<u64>>,
}

impl Cumulated {
    fn of(all: &Latencies, runs: &[Latencies]) -> Cumulated {
        let mut values = Vec::new();
        all.hist.for_each(|value, _| values.push(value));
        let of_run = |run: &Latencies| {
            let mut counts = vec![0_u64; values.len()];
            run.hist.for_each(|value, count| {
                if let Some(own) = counts.get_mut(values.partition_point(|v| *v < value)) {
                    *own += count;
                }
            });
            let mut sum = 0;
            counts.iter_mut().for_each(|count| {
                sum += *count;
                *count = sum;
            });
            counts
        };
        Cumulated { runs: runs.iter().map(of_run).collect(), values }
    }

    /// The percentile where run `i` was drawn `drawn[i]` times.
    fn percentile(&self, percent: f64, drawn: &[usize]) -> f64 {
        let below = |at: usize| -> u64 {
            let each = self.runs.iter().zip(drawn);
            each.map(|(run, times)| run.get(at).copied().unwrap_or(0) * *times as u64).sum()
        };
        let last = self.values.len().saturating_sub(1);
        let wanted = rank(percent, below(last));
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = usize::midpoint(low, high);
            if below(middle) >= wanted {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.values.get(low).copied().unwrap_or(0) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut out = Latencies::new();
        values.into_iter().for_each(|v| out.record(v));
        out
    }

    #[test]
    fn merged_percentile_is_no_mean_of_percentiles() {
        // 100 of 1,000 are slow, all of them in one run: the runs' own p95 are 10 and 900, their mean 455.
        let mut all = of((0..900).map(|_| 10));
        all.merge(&of((0..100).map(|_| 900)));
        assert_eq!(all.percentile(95.0).value, Some(900.0));
        assert_eq!(all.percentile(50.0).value, Some(10.0));
        assert_eq!(all.percentile(99.99).value, None);
        assert_eq!(all.summary().unwrap().mean, 99.0);
    }

    #[test]
    fn report_of_the_generator_gives_its_percentiles() {
        let buckets = vec![(10, 90), (100, 10)];
        let report = Distribution { count: 100, min: 9, max: 99, buckets, ..Distribution::default() };
        let found = Latencies::from_report(&report);
        assert_eq!((found.count(), found.percentile(99.0).value), (100, Some(99.0)));
    }

    #[test]
    fn pooled_interval_is_wide_where_runs_differ() {
        let same: Vec<_> = (0..10).map(|_| of((0..200).map(|v| 100 + v % 20))).collect();
        let found = Latencies::pooled(&same, 95.0, 0.95, 1).unwrap();
        assert_eq!((found.interval.low(), found.interval.high()), (found.value, found.value));
        let unlike: Vec<_> = (0..10).map(|run| of((0..200).map(|v| 100 * (run + 1) + v % 20))).collect();
        let found = Latencies::pooled(&unlike, 50.0, 0.95, 1).unwrap();
        assert!(found.interval.low() < 500.0 && found.interval.high() > 600.0, "{found:?}");
        let few = Latencies::pooled(&unlike[..9], 50.0, 0.95, 1);
        assert_eq!(few, Err(NoInterval::TooFew { have: 9, need: 10 }));
        let short: Vec<_> = (0..10).map(|_| of([5])).collect();
        let found = Latencies::pooled(&short, 99.0, 0.95, 1);
        assert_eq!(found, Err(NoInterval::TooFew { have: 10, need: 100 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn latencies_of_anything_give_an_answer(values in prop::collection::vec(0..u64::MAX, 0..30),
                                                percent in prop::num::f64::ANY, confidence in prop::num::f64::ANY) {
            let run = of(values);
            prop_assert!(run.percentile(percent).value.is_none_or(f64::is_finite));
            prop_assert!(run.summary().is_none_or(|s| s.mean.is_finite()));
            let runs = vec![run; 10];
            if let Ok(found) = Latencies::pooled(&runs, percent, confidence.min(0.99), 1) {
                prop_assert!(found.interval.low() <= found.interval.high());
            }
        }

        #[test]
        fn percentile_of_drawn_runs_is_that_of_their_merge(
            runs in prop::collection::vec(prop::collection::vec(0..5_000_u64, 1..40), 1..6),
            times in prop::collection::vec(0..3_usize, 6),
            percent in 1.0..99.0_f64,
        ) {
            let runs: Vec<_> = runs.into_iter().map(of).collect();
            let (mut all, mut drawn) = (Latencies::new(), Latencies::new());
            for (run, times) in runs.iter().zip(&times) {
                all.merge(run);
                (0..*times).for_each(|_| drawn.merge(run));
            }
            if drawn.count() > 0 {
                let found = Cumulated::of(&all, &runs).percentile(percent, &times[..runs.len()]);
                let want = drawn.hist.percentile(percent) as f64;
                // The last bucket ends above the largest value.
                prop_assert!((found - want).abs() <= want * 0.001, "{found}, {want}");
            }
        }
    }
}
