//! `[[claim]]`: what the measurements are to show.

use crate::statistics::{self, Kind};
use std::fmt;
use toml_form::named;

named! {
    /// What a claim is about. The generator measures times from the intended start of a call. Distributions
    /// have the keys of its report.
    Measure {
        /// INVITE to its 2xx, ringing included, milliseconds.
        Setup = "setup",
        /// First request of a call to the first response other than 100, milliseconds.
        Response = "response",
        /// Session request delay (RFC 6076 section 4.3.1), milliseconds.
        SessionRequest = "srd",
        /// Session disconnect delay (RFC 6076 section 4.4), milliseconds.
        Disconnect = "sdd",
        /// Registration request delay of first registrations (RFC 6076 section 4.1), milliseconds.
        Registration = "rrd-first",
        /// Registration request delay of refreshes, milliseconds.
        Refresh = "rrd-refresh",
        /// Requests other than INVITE to their final response, milliseconds.
        Transaction = "transaction",
        /// Set-up of an association or connection, milliseconds.
        Connect = "connect",
        /// Request on an association to its answer, milliseconds.
        Exchange = "exchange",
        /// From the beginning of the set-up to the answer, milliseconds.
        FirstAnswer = "first-answer",
        /// Memory of the kernel for each association at the server, bytes.
        Slab = "slab/association",
        /// Memory of the server's process for each association, bytes.
        OwnMemory = "memory/association",
        /// Associations that were open at the end.
        Associations = "associations",
        /// Calls that succeeded in a second.
        Calls = "calls/s",
        /// Share of the calls that succeeded, percent.
        Success = "success",
        /// Calls that failed.
        Failures = "failures",
        /// Messages that the generator sent again.
        Retransmissions = "retransmissions",
        /// Processor time of the system for each call, microseconds.
        CpuPerCall = "cpu/call",
        /// Processor time of the system, percent of one processor.
        Cpu = "cpu",
        /// Memory of the system at the end of the measurement, MiB.
        Memory = "memory",
        /// The highest load that conforms, calls a second or users.
        Peak = "peak",
        /// Time from a fault until calls succeed again, seconds.
        Recovery = "recovery",
    }
}

impl Measure {
    /// Whether it is a distribution in each run, of which a claim takes one statistic.
    pub const fn is_distribution(self) -> bool {
        matches!(
            self,
            Measure::Setup
                | Measure::Response
                | Measure::SessionRequest
                | Measure::Disconnect
                | Measure::Registration
                | Measure::Refresh
                | Measure::Transaction
                | Measure::Connect
                | Measure::Exchange
                | Measure::FirstAnswer
        )
    }

    /// Whether only runs have it that open associations.
    pub const fn is_of_associations(self) -> bool {
        matches!(
            self,
            Measure::Connect
                | Measure::Exchange
                | Measure::FirstAnswer
                | Measure::Slab
                | Measure::OwnMemory
                | Measure::Associations
        )
    }

    /// The unit of its figures; empty for a count.
    pub const fn unit(self) -> &'static str {
        match self {
            distribution if distribution.is_distribution() => "ms",
            Measure::Calls => "/s",
            Measure::Success | Measure::Cpu => "%",
            Measure::CpuPerCall => "us",
            Measure::Memory => "MiB",
            Measure::Slab | Measure::OwnMemory => "B",
            Measure::Recovery => "s",
            _ => "",
        }
    }

    /// What it is, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Measure::Connect => "Set-up of an association or connection: `connect()`",
            Measure::Exchange => "Request on an association to its answer",
            Measure::FirstAnswer => "From the beginning of the set-up of an association to the answer on it",
            Measure::Slab => {
                "Slab memory of the kernel for each association at the server; only root can read it"
            }
            Measure::OwnMemory => "Memory of the server's process (PSS) for each association",
            Measure::Associations => {
                "Associations that were open at the end; with `find_peak`: before a refusal"
            }
            Measure::Calls => "Calls that succeeded in a second",
            Measure::Success => "Share of the calls that succeeded",
            Measure::Failures => "Calls that failed",
            Measure::Retransmissions => "Messages that the generator sent again",
            Measure::CpuPerCall => "Processor time of the system for each call that succeeded",
            Measure::Cpu => "Processor time of the system, of one processor",
            Measure::Memory => "Memory of the system at the end of the measurement",
            Measure::Peak => "The highest load that conforms, calls a second or users; needs `find_peak`",
            Measure::Recovery => {
                "Time from a fault until a second with half of the calls before it, and none that failed"
            }
            latency => {
                load::metrics::Measure::from_key(latency.name()).map_or("", load::metrics::Measure::text)
            }
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Measure::Calls | Measure::Success | Measure::Peak | Measure::Associations)
    }
}

/// What is taken of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// A percentile, in thousandths of a percent: 99,000 is p99.
    Percentile(u32),
    /// The arithmetic mean.
    Mean,
    /// The largest value.
    Max,
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::Percentile(at) => write!(f, "p{}", f64::from(*at) / 1_000.0),
            Statistic::Mean => f.write_str("mean"),
            Statistic::Max => f.write_str("max"),
        }
    }
}

/// One figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// What is measured.
    pub measure: Measure,
    /// What is taken of it; `None` unless it is a distribution.
    pub statistic: Option<Statistic>,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(statistic) = self.statistic {
            write!(f, "{statistic} of ")?;
        }
        f.write_str(self.measure.name())
    }
}

named! {
    /// The direction of a limit.
    Bound {
        /// The figure is no larger.
        AtMost = "at most",
        /// The figure is no smaller.
        AtLeast = "at least",
        /// The figure differs from that of another system by no more than a factor above 1, in either
        /// direction.
        Within = "within",
    }
}

/// What a figure is held against.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// A value in [`Measure::unit`].
    Value(f64),
    /// A multiple of the same figure of another system, within the same block.
    Ratio {
        /// The factor.
        times: f64,
        /// The other system.
        of: String,
    },
}

/// What the measurements are to show. [`Claim`] is displayed as a sentence that reads as the same claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The figure.
    pub quantity: Quantity,
    /// The system that it is of.
    pub system: String,
    /// On which side of the limit it is to be.
    pub bound: Bound,
    /// The limit.
    pub limit: Limit,
    /// Factors and values at which it is judged; empty: at every combination.
    pub at: Vec<super::Level>,
}

impl Claim {
    /// Whether it is judged at this combination of factors.
    pub fn concerns(&self, combination: &super::Combination) -> bool {
        self.at.iter().all(|level| combination.value(&level.factor) == Some(level.value.as_str()))
    }
}

impl From<&Claim> for statistics::Claim {
    fn from(claim: &Claim) -> statistics::Claim {
        let kind = match (&claim.limit, claim.bound) {
            (Limit::Value(limit), Bound::AtLeast) => Kind::AtLeast { limit: *limit },
            (Limit::Value(limit), _) => Kind::AtMost { limit: *limit },
            (Limit::Ratio { times, of }, Bound::AtMost) => {
                Kind::AtMostTimes { of: of.clone(), times: *times }
            }
            (Limit::Ratio { times, of }, Bound::AtLeast) => {
                Kind::AtLeastTimes { of: of.clone(), times: *times }
            }
            (Limit::Ratio { times, of }, Bound::Within) => Kind::Same { of: of.clone(), within: *times },
        };
        statistics::Claim {
            metric: claim.quantity.to_string(),
            unit: claim.quantity.measure.unit().to_owned(),
            system: claim.system.clone(),
            kind,
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {} ", self.quantity, self.system, self.bound.name())?;
        match &self.limit {
            Limit::Value(value) => match self.quantity.measure.unit() {
                "" => write!(f, "{value}")?,
                unit if unit.starts_with(char::is_alphabetic) => write!(f, "{value} {unit}")?,
                unit => write!(f, "{value}{unit}")?,
            },
            Limit::Ratio { times, of } => write!(f, "{times} of {of}")?,
        }
        for (nth, level) in self.at.iter().enumerate() {
            let word = if nth == 0 { "where" } else { "and" };
            write!(f, " {word} {} = {}", level.factor, level.value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_latencies_of_the_generator() {
        for (name, measure) in Measure::ALL {
            let latency = load::metrics::Measure::from_key(name).filter(|m| !m.is_duration());
            let own = measure.is_of_associations();
            assert_eq!(measure.is_distribution() && !own, latency.is_some(), "{name}");
            assert!(!measure.meaning().is_empty(), "{name}");
        }
    }
}
