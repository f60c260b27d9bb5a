//! What an experiment is to show.

use core::fmt;

use load::report::{number, with_unit};
use serde::{Deserialize, Serialize};

/// What is claimed of a figure of a system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Kind {
    /// At most this value, in the unit of the metric.
    AtMost {
        /// The limit.
        limit: f64,
    },
    /// At least this value.
    AtLeast {
        /// The limit.
        limit: f64,
    },
    /// At most this multiple of the same figure of another system.
    AtMostTimes {
        /// The other system.
        of: String,
        /// The factor.
        times: f64,
    },
    /// At least this multiple.
    AtLeastTimes {
        /// The other system.
        of: String,
        /// The factor.
        times: f64,
    },
    /// No different from another system by more than a factor. "No difference" without a margin cannot be
    /// shown: no number of runs makes an interval of no width (Schuirmann 1987, two one-sided tests).
    Same {
        /// The other system.
        of: String,
        /// The factor above 1 up to which a difference does not matter, such as 1.05.
        within: f64,
    },
}

impl Kind {
    /// The other system, if the claim compares.
    pub fn other(&self) -> Option<&str> {
        match self {
            Kind::AtMost { .. } | Kind::AtLeast { .. } => None,
            Kind::AtMostTimes { of, .. } | Kind::AtLeastTimes { of, .. } | Kind::Same { of, .. } => Some(of),
        }
    }

    /// The limit: a value, or a factor.
    pub fn limit(&self) -> f64 {
        match self {
            Kind::AtMost { limit } | Kind::AtLeast { limit } => *limit,
            Kind::AtMostTimes { times, .. } | Kind::AtLeastTimes { times, .. } => *times,
            Kind::Same { within, .. } => *within,
        }
    }
}

/// A statement about a figure of a system, to be judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The figure, such as "p99 of response".
    pub metric: String,
    /// Its unit, such as "ms"; empty for a count.
    pub unit: String,
    /// The system.
    pub system: String,
    /// What is claimed.
    pub kind: Kind,
}

impl Claim {
    /// A range on the scale of the limit: "19.8 to 20.31 ms", or factors as "1.012 to 1.037".
    pub(super) fn range(&self, low: f64, high: f64) -> String {
        format!("{} to {}", written(low), self.value(high))
    }

    /// A value on the scale of the limit: "20 ms", or a factor as "1.05".
    pub(super) fn value(&self, value: f64) -> String {
        match self.kind {
            Kind::AtMost { .. } | Kind::AtLeast { .. } if !self.unit.is_empty() => {
                format!("{} {}", written(value), self.unit)
            }
            _ => written(value),
        }
    }
}

/// Four significant digits, and thousands apart.
pub(super) fn written(value: f64) -> String {
    let rounded = significant(value);
    let size = rounded.abs();
    if (1e-4..1e3).contains(&size) { rounded.to_string() } else { number(rounded) }
}

/// Four significant digits: what an interval needs to be told from its limit.
fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    // A factor that is not finite belongs to a value so small or large that rounding does not matter.
    let factor = 10_f64.powi(digits);
    let rounded = (value * factor).round() / factor;
    if rounded.is_finite() { rounded } else { value }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} ", self.metric, self.system)?;
        match &self.kind {
            Kind::AtMost { limit } => write!(f, "at most {}", with_unit(*limit, &self.unit)),
            Kind::AtLeast { limit } => write!(f, "at least {}", with_unit(*limit, &self.unit)),
            Kind::AtMostTimes { of, times } => write!(f, "at most {times} of {of}"),
            Kind::AtLeastTimes { of, times } => write!(f, "at least {times} of {of}"),
            Kind::Same { of, within } => write!(f, "no different from {of} by a factor of {within}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_reads_as_a_sentence() {
        let claim = |kind| Claim { metric: "p99".into(), unit: "ms".into(), system: "new".into(), kind };
        assert_eq!(claim(Kind::AtMost { limit: 20.0 }).to_string(), "p99 of new at most 20 ms");
        let times = Kind::AtMostTimes { of: "old".into(), times: 1.05 };
        assert_eq!(claim(times).to_string(), "p99 of new at most 1.05 of old");
        let same = claim(Kind::Same { of: "old".into(), within: 1.05 });
        assert_eq!(same.to_string(), "p99 of new no different from old by a factor of 1.05");
        assert_eq!((same.kind.other(), same.kind.limit()), (Some("old"), 1.05));
    }

    #[test]
    fn range_has_the_digits_that_tell_it_from_the_limit() {
        let claim = |kind| Claim { metric: "p99".into(), unit: "ms".into(), system: "new".into(), kind };
        assert_eq!(claim(Kind::AtMost { limit: 1.0 }).range(19.80, 20.313), "19.8 to 20.31 ms");
        let times = Kind::AtMostTimes { of: "old".into(), times: 1.05 };
        assert_eq!(claim(times).range(1.012_34, 1.037), "1.012 to 1.037");
        assert_eq!([0.0, 123_456.0, 0.05].map(written), ["0", "123,500", "0.05"]);
    }

    #[test]
    fn significant_digits_of_anything_are_near() {
        assert_eq!(significant(1.012_345), 1.012);
        assert_eq!(significant(-123_456.0), -123_500.0);
        for value in [0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e-310] {
            assert!((significant(value) - value).abs() <= value * 1e-3, "{value}");
        }
    }
}
