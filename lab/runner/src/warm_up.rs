//! When a warm-up is over.

use load::report::SeriesReport;

/// Whether processor time and memory of the system have become steady since `from`, seconds since the first sample.
/// The rate of calls needs no look: it is that of the schedule.
pub fn is_steady(samples: &SeriesReport, from: f64) -> bool {
    let since = |key: &str| -> Vec<f64> {
        let pairs = samples.time.iter().zip(samples.column(key));
        pairs.filter(|(at, _)| **at >= from).filter_map(|(_, value)| *value).collect()
    };
    ["system.cpu", "system.memory"].iter().all(|key| !since(key).is_empty())
}
