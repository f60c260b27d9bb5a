//! What a scenario itself asks to be counted and told.

use super::build::{OURS, Rows};
use super::model::Better;
use crate::metrics::{Hist, Measure, Metrics};

/// Its counters.
pub(super) fn counter_rows(rows: &mut Rows, m: &Metrics) {
    for (name, count) in m.custom().tallies() {
        rows.count(
            &format!("counter-{name}"),
            &format!("Counter {name} of the scenario"),
            *count,
            Better::Neither,
        )
        .says("How often calls came by the steps that name it (counter=), in the whole run.", OURS);
    }
}

/// Its tables of times, a line each. What nothing fell into is left out.
pub(super) fn tables(m: &Metrics) -> Vec<String> {
    let mut out = Vec::new();
    for table in m.custom().tables() {
        let stopwatch = table.stopwatch.and_then(|at| m.custom().stopwatches().get(at));
        let (name, times) = match (table.stopwatch, stopwatch) {
            (Some(_), None) => continue,
            (Some(_), Some((name, times))) => {
                (format!("ResponseTimeRepartition, rtd {name}"), &times.intended)
            }
            (None, _) => ("CallLengthRepartition".to_owned(), &m.latency(Measure::CallLength).sent),
        };
        if !times.is_empty() {
            out.push(format!("{name}, calls of the measured window: {}.", sorted(times, &table.bounds_ms)));
        }
    }
    out
}

/// How many times are below each bound and not below the one before.
fn sorted(times: &Hist, bounds_ms: &[u32]) -> String {
    let mut counts = vec![0; bounds_ms.len() + 1];
    times.for_each(|micros, count| {
        let at = bounds_ms.partition_point(|&bound| u64::from(bound) * 1_000 <= micros);
        if let Some(own) = counts.get_mut(at) {
            *own += count;
        }
    });
    let lows = [0].iter().chain(bounds_ms);
    let highs = bounds_ms.iter().map(Some).chain([None]);
    let rows = lows.zip(highs).zip(counts).filter(|(_, count)| *count > 0);
    let parts = rows.map(|((low, high), count)| match high {
        Some(high) => format!("{count} from {low} to {high} ms"),
        None => format!("{count} of {low} ms and more"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_sorted_by_the_bounds() {
        let mut times = Hist::new();
        [1_000, 9_900, 10_000, 60_000, 60_000, 200_000, 900_000]
            .into_iter()
            .for_each(|micros| times.record(micros));
        let text = sorted(&times, &[10, 20, 50, 100, 200]);
        assert_eq!(text, "2 from 0 to 10 ms, 1 from 10 to 20 ms, 2 from 50 to 100 ms, 2 of 200 ms and more");
        assert_eq!(sorted(&times, &[]), "7 of 0 ms and more");
    }
}
