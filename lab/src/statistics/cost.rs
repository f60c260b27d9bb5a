//! Costs: what a call, a message or a registration takes.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A counter over the measured part of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counter {
    /// What is counted: "cpu", "instructions", "call", "message", "registration".
    pub name: String,
    /// Its unit; empty for events.
    pub unit: String,
    /// At the beginning.
    pub before: f64,
    /// At the end.
    pub after: f64,
}

/// A quotient of two counters (Hrischuk and DeVal 2006, section 2.4: "a transactional cost, such as the CPU
/// cost per SIP dialog").
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Such as "cpu/call".
    pub metric: String,
    /// Such as "us".
    pub unit: String,
    /// The quotient.
    pub value: f64,
}

/// Why there is no quotient.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum NoCost {
    /// A counter went down: what counts was started again.
    WentBack {
        /// Its name.
        counter: String,
    },
    /// A counter has no value.
    NoNumber {
        /// Its name.
        counter: String,
    },
    /// There was no event.
    NoEvent {
        /// Their name.
        counter: String,
    },
}

impl fmt::Display for NoCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCost::WentBack { counter } => {
                write!(f, "counter {counter} went back: its program was started again")
            }
            NoCost::NoNumber { counter } => write!(f, "counter {counter} has no value"),
            NoCost::NoEvent { counter } => write!(f, "there was no {counter}"),
        }
    }
}

impl core::error::Error for NoCost {}

impl Counter {
    /// How far it went.
    pub fn span(&self) -> Result<f64, NoCost> {
        let span = self.after - self.before;
        let counter = self.name.clone();
        if !span.is_finite() {
            Err(NoCost::NoNumber { counter })
        } else if span < 0.0 {
            Err(NoCost::WentBack { counter })
        } else {
            Ok(span)
        }
    }
}

/// What one event takes.
///
/// A run has one cost: the quotient of its sums, not the mean of quotients of its seconds.
pub fn cost(used: &Counter, events: &Counter) -> Result<Cost, NoCost> {
    let (used_span, count) = (used.span()?, events.span()?);
    if count <= 0.0 {
        return Err(NoCost::NoEvent { counter: events.name.clone() });
    }
    let value = used_span / count;
    if !value.is_finite() {
        return Err(NoCost::NoNumber { counter: used.name.clone() });
    }
    Ok(Cost { metric: format!("{}/{}", used.name, events.name), unit: used.unit.clone(), value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counter(name: &str, before: f64, after: f64) -> Counter {
        Counter { name: name.to_owned(), unit: "us".to_owned(), before, after }
    }

    #[test]
    fn cost_is_the_quotient_of_both_spans() {
        let found = cost(&counter("cpu", 1_000.0, 61_000.0), &counter("call", 10.0, 1_010.0)).unwrap();
        assert_eq!((found.metric.as_str(), found.unit.as_str(), found.value), ("cpu/call", "us", 60.0));
    }

    #[test]
    fn cost_is_refused_with_the_counter_at_fault() {
        let (cpu, call) = (counter("cpu", 0.0, 10.0), counter("call", 0.0, 10.0));
        let said = |used: &Counter, events: &Counter| cost(used, events).unwrap_err().to_string();
        assert_eq!(
            said(&counter("cpu", 9.0, 1.0), &call),
            "counter cpu went back: its program was started again"
        );
        assert_eq!(said(&counter("cpu", f64::NAN, 1.0), &call), "counter cpu has no value");
        assert_eq!(said(&cpu, &counter("call", 5.0, 5.0)), "there was no call");
    }

    proptest! {
        #[test]
        fn cost_of_anything_is_finite(used in (prop::num::f64::ANY, prop::num::f64::ANY),
                                      events in (prop::num::f64::ANY, prop::num::f64::ANY)) {
            if let Ok(found) = cost(&counter("cpu", used.0, used.1), &counter("call", events.0, events.1)) {
                prop_assert!(found.value.is_finite() && found.value >= 0.0);
            }
        }
    }
}
