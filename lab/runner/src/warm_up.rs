//! When a warm-up is over.

use lab::statistics::{Steadiness, SteadyRule, all_steady};
use load::report::SeriesReport;

/// Samples of a window, and how far a series may drift within it as a part of its level.
const WINDOW: usize = 8;
const DRIFT: f64 = 0.05;

/// Whether processor time and memory of the system have become steady since `from`, seconds since the first
/// sample. The rate of calls needs no look: it is that of the schedule.
pub fn is_steady(samples: &SeriesReport, from: f64) -> bool {
    let since = |key: &str| -> Vec<f64> {
        let pairs = samples.time.iter().zip(samples.column(key));
        pairs.filter(|(at, _)| **at >= from).filter_map(|(_, value)| *value).collect()
    };
    let (cpu, memory) = (since("system.cpu"), since("system.memory"));
    let found = all_steady([cpu.as_slice(), memory.as_slice()], &SteadyRule::new(WINDOW, DRIFT));
    matches!(found, Steadiness::Since { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::Column;

    fn samples(memory: impl Fn(usize) -> f64) -> SeriesReport {
        let column = |key: &str, values: Vec<f64>| Column {
            key: key.to_owned(),
            unit: String::new(),
            values: values.into_iter().map(Some).collect(),
        };
        let cpu = (0..30).map(|at| if at < 10 { 1.0 } else { 20.0 + f64::from(at % 3) }).collect();
        SeriesReport {
            interval: 1.0,
            time: (0..30).map(f64::from).collect(),
            columns: vec![column("system.cpu", cpu), column("system.memory", (0..30).map(memory).collect())],
        }
    }

    #[test]
    fn warm_up_ends_when_processor_time_and_memory_are_steady() {
        assert!(is_steady(&samples(|_| 70.0), 10.0));
        assert!(!is_steady(&samples(|at| 70.0 + 5.0 * at as f64), 10.0), "memory grows");
        assert!(!is_steady(&samples(|_| 70.0), 25.0), "too few samples");
    }
}
