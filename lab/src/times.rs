//! Statistics of the times of a system: all its runs that count, merged.

use std::collections::BTreeMap;

use load::report::Fact;
use serde::{Deserialize, Serialize};

use crate::record::RunRecord;
use crate::statistics::Latencies;

/// The times that are summed up, where a run has them.
const KEYS: [&str; 6] = ["setup", "response", "sdd", "rrd-first", "rrd-refresh", "transaction"];

/// The statistics of paper 003 (Hrischuk and DeVal 2006, section 2.4) of one kind of times, milliseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// The system, with ".again" for the second copy of the A/A control.
    pub subject: String,
    /// The factors and their values.
    pub factors: Vec<Fact>,
    /// What is timed, as "setup".
    pub quantity: String,
    /// Runs that were merged.
    pub runs: usize,
    /// Values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; nothing of a single value.
    pub deviation: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Sum of the squares, square milliseconds.
    pub sum_of_squares: f64,
    /// The 50th, 95th, 99th, 99.9th and 99.99th percentile, each with its value; nothing where there are too
    /// few values for it.
    pub percentiles: Vec<(f64, Option<f64>)>,
}

/// Those of all systems at all combinations of factors, in order of the first run of each.
pub fn times<'a>(records: impl IntoIterator<Item = &'a RunRecord>) -> Vec<Times> {
    let mut places: Vec<(String, &[Fact])> = Vec::new();
    let mut merged: BTreeMap<(usize, usize), (Latencies, usize)> = BTreeMap::new();
    for record in records
        .into_iter()
        .filter(|record| record.screened.void.is_empty() && record.screened.reserved.is_empty())
    {
        let place = (record.subject(), record.run.factors.as_slice());
        let at = places.iter().position(|known| *known == place).unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        });
        for (nth, key) in KEYS.iter().enumerate() {
            let Some(values) = record.load.latency(key).map(|latency| latency.main()) else { continue };
            if values.count > 0 {
                let (sum, runs) = merged.entry((at, nth)).or_insert_with(|| (Latencies::new(), 0));
                sum.merge(&Latencies::from_report(values));
                *runs += 1;
            }
        }
    }
    let of = |((at, nth), (values, runs)): ((usize, usize), (Latencies, usize))| {
        let (subject, factors) = places.get(at)?;
        let summary = values.summary()?;
        let ms = |micros: f64| micros / 1e3;
        Some(Times {
            subject: subject.clone(),
            factors: factors.to_vec(),
            quantity: (*KEYS.get(nth)?).to_owned(),
            runs,
            count: summary.count,
            mean: ms(summary.mean),
            deviation: summary.deviation.map(ms),
            min: ms(summary.min),
            max: ms(summary.max),
            sum_of_squares: summary.sum_of_squares / 1e6,
            percentiles: summary.percentiles.iter().map(|p| (p.percent, p.value.map(ms))).collect(),
        })
    };
    merged.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::{Distribution, Latency};

    fn record(system: &str, micros: u64) -> RunRecord {
        let mut record = RunRecord::default();
        record.run.system = system.to_owned();
        let intended = Distribution {
            count: 2,
            min: micros,
            mean: micros as f64,
            sum_of_squares: 2.0 * (micros as f64).powi(2),
            max: micros,
            buckets: vec![(micros, 2)],
            ..Distribution::default()
        };
        record.load.latencies.push(Latency { key: "setup".to_owned(), intended, ..Latency::default() });
        record
    }

    #[test]
    fn times_of_runs_that_count_are_merged() {
        let void = {
            let mut record = record("a", 9_000);
            record.screened.void = vec!["late".to_owned()];
            record
        };
        let found = times(&[record("a", 1_000), record("b", 5_000), record("a", 3_000), void]);
        let of = |at: usize| (found[at].subject.as_str(), found[at].runs, found[at].count);
        assert_eq!((found.len(), of(0), of(1)), (2, ("a", 2, 4), ("b", 1, 2)));
        assert_eq!((found[0].min, found[0].max), (1.0, 3.0));
        assert!((found[0].mean - 2.0).abs() < 0.01 && (found[0].sum_of_squares - 20.0).abs() < 0.1);
        // Four values have no 95th percentile.
        assert_eq!(found[0].percentiles.iter().filter(|(_, value)| value.is_some()).count(), 1);
    }
}
