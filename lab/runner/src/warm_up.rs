//! When a warm-up is over.

use lab::experiment::STEADY_WINDOW;
use lab::statistics::{Steadiness, SteadyRule, steady};
use load::report::SeriesReport;

/// How far a series may drift within a window, as a part of its level.
const DRIFT: f64 = 0.05;

/// What of the system is not steady since `from`, seconds since the first sample, and how: its processor time
/// or its memory. Nothing if both are. The rate of calls needs no look: it is that of the schedule.
pub fn unsteady(samples: &SeriesReport, from: f64) -> Option<String> {
    let rule = SteadyRule::new(STEADY_WINDOW, DRIFT);
    [("system.cpu", "processor time"), ("system.memory", "memory")].into_iter().find_map(|(key, name)| {
        let pairs = samples.time.iter().zip(samples.column(key));
        let since: Vec<f64> = pairs.filter(|(at, _)| **at >= from).filter_map(|(_, value)| *value).collect();
        match steady(&since, &rule) {
            Steadiness::Since { .. } => None,
            other => Some(format!("{name}: {other}")),
        }
    })
}

/// The same of a warm-up that is over: whether it was steady, and what was not. Nothing if it was too short
/// to tell.
pub fn was_steady(samples: &SeriesReport, (from, until): (f64, f64)) -> Option<(bool, Option<String>)> {
    let count = samples.time.iter().take_while(|at| **at + samples.interval <= until).count();
    let mut samples = samples.clone();
    samples.time.truncate(count);
    let seconds = samples.time.iter().filter(|at| **at >= from).count();
    let left = unsteady(&samples, from);
    (seconds >= SteadyRule::new(STEADY_WINDOW, DRIFT).needs()).then(|| (left.is_none(), left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::LEAST_WARM_UP;
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
        assert_eq!(unsteady(&samples(|_| 70.0), 10.0), None);
        let grows = unsteady(&samples(|at| 70.0 + 5.0 * at as f64), 10.0).expect("memory grows");
        assert!(grows.starts_with("memory: never steady: the last window drifts by +"), "{grows}");
    }

    #[test]
    fn least_warm_up_of_a_plan_is_what_a_series_needs() {
        let until = |seconds: u64| {
            let mut samples = samples(|_| 70.0);
            // A sample is there when its second is over; the first begins within a second.
            samples.time.retain(|at| *at + 2.0 <= 10.0 + seconds as f64);
            unsteady(&samples, 10.0)
        };
        let least = LEAST_WARM_UP.as_secs();
        assert_eq!(until(least), None);
        assert_eq!(
            until(least - 1).as_deref(),
            Some("processor time: too short: 15 intervals, and 16 are needed")
        );
    }

    #[test]
    fn warm_up_that_is_over_is_judged_up_to_its_end() {
        let grows_later = samples(|at| if at < 26 { 70.0 } else { 70.0 * at as f64 });
        assert_eq!(was_steady(&grows_later, (10.0, 26.0)), Some((true, None)));
        let grows = samples(|at| 70.0 + 5.0 * at as f64);
        let found = was_steady(&grows, (10.0, 30.0)).expect("long enough");
        assert!(!found.0 && found.1.is_some_and(|why| why.starts_with("memory: ")));
        assert_eq!(was_steady(&grows_later, (10.0, 12.0)), None);
    }
}
