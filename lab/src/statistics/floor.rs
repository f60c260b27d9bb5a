//! The A/A control.

use serde::{Deserialize, Serialize};

use super::compare::{Paired, pairs};
use super::interval::NoInterval;

/// What the same system shows against itself: the least difference that may be claimed.
///
/// One system is measured twice in every block, as if it were two. The floor is the end of the interval of
/// that difference that lies furthest from zero. So it contains the noise of runs, and whatever else makes
/// one build differ from itself, such as its place within the block.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Floor {
    shift: f64,
    log_ratio: Option<f64>,
    control: Paired,
}

impl Floor {
    /// Of a system and its twin, one value for each block; `None` where a run is void.
    pub fn of(system: &[Option<f64>], twin: &[Option<f64>], confidence: f64) -> Result<Floor, NoInterval> {
        let control = Paired::of(&pairs(system, twin), confidence)?;
        let interval = control.shift.interval;
        let log_ratio = control.ratio.map(|r| furthest(r.interval.low().ln(), r.interval.high().ln()));
        Ok(Floor { shift: furthest(interval.low(), interval.high()), log_ratio, control })
    }

    /// The larger of two floors: that of a comparison whose sides have a control each.
    #[must_use]
    pub fn larger(self, other: Floor) -> Floor {
        let log_ratio = self.log_ratio.zip(other.log_ratio).map(|(one, other)| one.max(other));
        let control = if other.log_ratio > self.log_ratio { other.control } else { self.control };
        Floor { shift: self.shift.max(other.shift), log_ratio, control }
    }

    /// The least difference that may be claimed, in the unit of the metric.
    pub fn shift(&self) -> f64 {
        self.shift
    }

    /// The least quotient above 1 that may be claimed; none if a value is zero or negative.
    pub fn ratio(&self) -> Option<f64> {
        self.log_ratio.map(f64::exp)
    }

    /// Its logarithm.
    pub(super) fn log_ratio(&self) -> Option<f64> {
        self.log_ratio
    }

    /// The comparison of the system with itself.
    pub fn control(&self) -> &Paired {
        &self.control
    }
}

impl Floor {
    /// A warning, if the system differs from itself by more than chance explains. The probability is small,
    /// because every metric has a floor.
    pub fn bias(&self) -> Option<String> {
        let ratio = self.control.ratio.map(|r| 100.0 * (r.value - 1.0));
        (self.control.p < BIASED).then(|| match ratio {
            Some(percent) => format!(
                "the same build differs from itself by {percent:+.1} %: the experiment favours one of its runs in each block"
            ),
            None => "the same build differs from itself: the experiment favours one of its runs in each block".to_owned(),
        })
    }
}

/// A control with a smaller p is biased.
const BIASED: f64 = 0.002;

fn furthest(low: f64, high: f64) -> f64 {
    low.abs().max(high.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_the_furthest_end_of_the_control() {
        // Of six differences the interval is from the smallest to the largest.
        let system = [101.0, 99.0, 100.0, 102.0, 100.0, 100.0].map(Some);
        let twin = [100.0; 6].map(Some);
        let floor = Floor::of(&system, &twin, 0.95).unwrap();
        assert_eq!(floor.shift(), 2.0);
        assert!((floor.ratio().unwrap() - 1.02).abs() < 1e-9);
        assert_eq!(floor.control().blocks, 6);
    }

    #[test]
    fn bias_between_twins_raises_the_floor() {
        let system: Vec<_> = (0..8).map(|i| Some(100.0 + f64::from(i % 2))).collect();
        let twin: Vec<_> = (0..8).map(|i| Some(110.0 + f64::from(i % 3))).collect();
        assert!(Floor::of(&system, &twin, 0.95).unwrap().shift() >= 10.0);
    }

    #[test]
    fn bias_is_named_where_chance_does_not_explain_it() {
        let of = |factor: f64| {
            let system: Vec<_> = (0..12).map(|i| Some(100.0 + f64::from(i % 5))).collect();
            let twin: Vec<_> = (0..12).map(|i| Some(factor * (100.0 + f64::from((i * 2 + 1) % 5)))).collect();
            Floor::of(&system, &twin, 0.95).unwrap().bias()
        };
        assert_eq!(of(1.0), None);
        assert!(
            of(1.2).is_some_and(|said| said.starts_with("the same build differs from itself by -16.")),
            "{:?}",
            of(1.2)
        );
    }

    #[test]
    fn larger_of_two_floors_has_the_larger_of_each() {
        let of = |noise: f64| {
            let system: Vec<_> = (0..8).map(|i| Some(100.0 + noise * f64::from(i % 3))).collect();
            Floor::of(&system, &[Some(100.0); 8], 0.95).unwrap()
        };
        assert_eq!(of(1.0).larger(of(4.0)), of(4.0));
        assert_eq!(of(4.0).larger(of(1.0)), of(4.0));
    }

    #[test]
    fn floor_of_few_blocks_is_refused() {
        let found = Floor::of(&[Some(1.0), None], &[Some(1.0), Some(1.0)], 0.95);
        assert_eq!(found, Err(NoInterval::TooFew { have: 1, need: 6 }));
    }
}
