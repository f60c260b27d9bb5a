//! How many requests a back end had when another one came, and how long that one took.

use load::backend::{Found, NodeReport};

use crate::experiment::Statistic;
use crate::statistics::needs;

/// The counts of all back ends together: entry n is of requests that found n others.
pub(crate) fn merged<'a>(nodes: impl IntoIterator<Item = &'a NodeReport>) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for found in nodes.into_iter().map(|node| &node.found) {
        if all.len() < found.len() {
            all.resize(found.len(), Found::default());
        }
        for (sum, one) in all.iter_mut().zip(found) {
            sum.requests = sum.requests.saturating_add(one.requests);
            sum.seconds += one.seconds;
        }
    }
    all
}

/// How many requests there were.
pub(crate) fn requests(found: &[Found]) -> u64 {
    found.iter().fold(0_u64, |sum, one| sum.saturating_add(one.requests))
}

/// A figure of the distribution; nothing without requests, or where a percentile would be the largest value
/// of a small sample.
pub(crate) fn statistic(found: &[Found], statistic: Statistic) -> Option<f64> {
    let all = requests(found);
    if all == 0 {
        return None;
    }
    match statistic {
        Statistic::Mean => {
            let sum: f64 = found.iter().enumerate().map(|(n, one)| n as f64 * one.requests as f64).sum();
            Some(sum / all as f64)
        }
        Statistic::Max => found.iter().rposition(|one| one.requests > 0).map(|n| n as f64),
        // The median is no extreme of any sample.
        Statistic::Percentile(at) if at != 50_000 && all < needs(f64::from(at) / 1e3) => None,
        Statistic::Percentile(thousandths) => {
            let wanted = (u128::from(all) * u128::from(thousandths)).div_ceil(100_000).max(1);
            let mut seen = 0_u128;
            let at = found.iter().position(|one| {
                seen += u128::from(one.requests);
                seen >= wanted
            });
            at.map(|n| n as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(requests: &[u64]) -> NodeReport {
        let found = requests.iter().map(|requests| Found { requests: *requests, seconds: 1.0 }).collect();
        NodeReport { found, ..NodeReport::default() }
    }

    #[test]
    fn back_ends_count_together() {
        let all = merged(&[node(&[600, 100]), node(&[200, 0, 90, 0, 10, 0])]);
        assert_eq!(requests(&all), 1_000);
        assert!((all[0].seconds - 2.0).abs() < 1e-9 && all.len() == 6);
        assert_eq!(statistic(&all, Statistic::Mean), Some((100.0 + 180.0 + 40.0) / 1_000.0));
        assert_eq!(statistic(&all, Statistic::Max), Some(4.0));
        for (at, value) in [(50_000, 0.0), (80_000, 0.0), (90_000, 1.0), (99_000, 2.0)] {
            assert_eq!(statistic(&all, Statistic::Percentile(at)), Some(value), "{at}");
        }
        // The largest of a thousand.
        assert_eq!(statistic(&all, Statistic::Percentile(99_990)), None);
    }

    #[test]
    fn nothing_is_known_without_requests() {
        for what in [Statistic::Mean, Statistic::Max, Statistic::Percentile(50_000)] {
            assert_eq!(statistic(&merged(&[]), what), None);
            assert_eq!(statistic(&merged(&[node(&[0, 0])]), what), None);
        }
    }
}
