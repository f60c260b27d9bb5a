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
        /// Session request delay of requests that failed (RFC 6076 section 4.3.2), milliseconds.
        FailedRequest = "srd-failed",
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
        /// Processor time of the system for each message that the generator sent or received, microseconds.
        CpuPerMessage = "cpu/message",
        /// Processor time of the system for each registration, refreshes included, microseconds.
        CpuPerRegistration = "cpu/registration",
        /// Instructions of the system for each call, those of the kernel included.
        InstructionsPerCall = "instructions/call",
        /// Cycles of the system for each call, those of the kernel included.
        CyclesPerCall = "cycles/call",
        /// Processor time of the system, percent of one processor.
        Cpu = "cpu",
        /// Memory of the system at the end of the measurement, MiB.
        Memory = "memory",
        /// Requests at a back end with a capacity when another one came.
        Occupancy = "occupancy",
        /// The highest load that conforms, calls a second or users.
        Peak = "peak",
        /// The highest number of users that conforms.
        Users = "users",
        /// Users of a population for each processor that the system used.
        UsersPerCore = "users/core",
        /// Share of the registrations that succeeded, percent.
        Registered = "registered",
        /// Share of the transactions that succeeded, percent.
        Transacted = "transacted",
        /// The least of the shares that a run is judged by, percent.
        Conformance = "conformance",
        /// Session establishment ratio (RFC 6076 section 4.6), percent.
        Ser = "ser",
        /// Session establishment effectiveness ratio (RFC 6076 section 4.7), percent.
        Seer = "seer",
        /// Ineffective session attempts (RFC 6076 section 4.8), percent.
        Isa = "isa",
        /// Session completion ratio (RFC 6076 section 4.9), percent.
        Scr = "scr",
        /// Ineffective registration attempts (RFC 6076 section 4.2), percent.
        Ira = "ira",
        /// Sessions established in a second (RFC 7501).
        Sessions = "sessions/s",
        /// Registrations refreshed in a second (RFC 7502 section 6.8).
        Refreshes = "refreshes/s",
        /// Time from a fault until calls succeed again, seconds.
        Recovery = "recovery",
        /// Share of the datagrams between generator and system that were lost, percent.
        Lost = "lost",
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
                | Measure::FailedRequest
                | Measure::Disconnect
                | Measure::Registration
                | Measure::Refresh
                | Measure::Transaction
                | Measure::Occupancy
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
            Measure::Occupancy => "",
            distribution if distribution.is_distribution() => "ms",
            Measure::Calls | Measure::Sessions | Measure::Refreshes => "/s",
            Measure::Success | Measure::Cpu | Measure::Lost => "%",
            share if share.share().is_some() => "%",
            Measure::Conformance => "%",
            Measure::CpuPerCall | Measure::CpuPerMessage | Measure::CpuPerRegistration => "us",
            Measure::Memory => "MiB",
            Measure::Slab | Measure::OwnMemory => "B",
            Measure::Recovery => "s",
            _ => "",
        }
    }

    /// The figure of the generator's report that is this share; nothing for other figures.
    pub const fn share(self) -> Option<&'static str> {
        match self {
            Measure::Success => Some("calls.success"),
            Measure::Registered => Some("registrations.success"),
            Measure::Transacted => Some("transactions.success"),
            Measure::Ser => Some("ser"),
            Measure::Seer => Some("seer"),
            Measure::Isa => Some("isa"),
            Measure::Scr => Some("scr"),
            Measure::Ira => Some("ira"),
            _ => None,
        }
    }

    /// Those that are about what may fail: a run counts for them though something did.
    pub const ABOUT_FAILURES: &[Measure] = &[
        Measure::Success,
        Measure::Failures,
        Measure::Calls,
        Measure::Peak,
        Measure::Users,
        Measure::Conformance,
        Measure::Registered,
        Measure::Transacted,
        Measure::Ser,
        Measure::Seer,
        Measure::Isa,
        Measure::Scr,
        Measure::Ira,
        Measure::Sessions,
        Measure::Refreshes,
    ];

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
            Measure::CpuPerMessage => {
                "Processor time of the system for each message that the generator sent or received"
            }
            Measure::CpuPerRegistration => "Processor time of the system for each registration or refresh",
            Measure::InstructionsPerCall => {
                "Instructions of the system and of the kernel for it, for each call that succeeded; where the processor \
                 shows its counters"
            }
            Measure::CyclesPerCall => "Cycles, counted in the same way",
            Measure::Cpu => "Processor time of the system, of one processor",
            Measure::Memory => "Memory of the system at the end of the measurement",
            Measure::Occupancy => {
                "Requests at a back end when a further one arrived, the warm-up included; needs `capacity`"
            }
            Measure::Peak => "The highest load that conforms, calls a second or users; needs `find_peak`",
            Measure::Users => "The highest number of users that conforms; needs `users` and `find_peak`",
            Measure::UsersPerCore => "Users of a population for each processor that the system used",
            Measure::Registered => "Share of the registrations that succeeded, refreshes too",
            Measure::Transacted => "Share of the transactions that succeeded",
            Measure::Conformance => {
                "The smallest share that a run is judged by: calls of both sides, registrations, transactions"
            }
            Measure::Ser => "Session establishment ratio (RFC 6076 section 4.6)",
            Measure::Seer => "Session establishment effectiveness ratio (RFC 6076 section 4.7)",
            Measure::Isa => "Ineffective session attempts (RFC 6076 section 4.8)",
            Measure::Scr => "Session completion ratio (RFC 6076 section 4.9)",
            Measure::Ira => "Ineffective registration attempts (RFC 6076 section 4.2)",
            Measure::Sessions => "Sessions established in a second (RFC 7501 section 3.4.1)",
            Measure::Refreshes => "Registrations refreshed in a second (RFC 7502 section 6.8)",
            Measure::Recovery => {
                "Time from a fault until a second with half of the calls before it, and none that failed"
            }
            Measure::Lost => {
                "Share of the datagrams between generator and system that no program read; needs namespaces and UDP"
            }
            latency => {
                load::metrics::Measure::from_key(latency.name()).map_or("", load::metrics::Measure::text)
            }
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        match self {
            Measure::Isa | Measure::Ira => false,
            share if share.share().is_some() => true,
            other => matches!(
                other,
                Measure::Calls
                    | Measure::Peak
                    | Measure::Associations
                    | Measure::Users
                    | Measure::UsersPerCore
                    | Measure::Conformance
                    | Measure::Sessions
                    | Measure::Refreshes
            ),
        }
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
    /// A multiple of the same figure of another system, or at other values of factors, within the same block.
    Ratio {
        /// The factor.
        times: f64,
        /// The other system.
        of: String,
        /// Values of factors that the other side has in place of the claim's own; empty: the same ones.
        at: Vec<super::Level>,
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

impl Claim {
    /// The other side of a comparison at a combination of factors: its system and its combination.
    pub fn other_side(&self, own: &super::Combination) -> Option<(&str, super::Combination)> {
        match &self.limit {
            Limit::Ratio { of, at, .. } => Some((of, own.with(at))),
            Limit::Value(_) => None,
        }
    }

    /// The systems that are compared; none if the claim is about a value.
    pub fn compared(&self) -> impl Iterator<Item = &str> {
        let other = match &self.limit {
            Limit::Ratio { of, .. } => Some(of.as_str()),
            Limit::Value(_) => None,
        };
        other.into_iter().chain(other.map(|_| self.system.as_str()))
    }
}

/// ` where transport = tls and rate = 1000`; nothing without levels.
fn places(levels: &[super::Level]) -> String {
    let place = |(nth, level): (usize, &super::Level)| {
        let word = if nth == 0 { "where" } else { "and" };
        format!(" {word} {} = {}", level.factor, level.value)
    };
    levels.iter().enumerate().map(place).collect()
}

impl From<&Claim> for statistics::Claim {
    fn from(claim: &Claim) -> statistics::Claim {
        let kind = match (&claim.limit, claim.bound) {
            (Limit::Value(limit), Bound::AtLeast) => Kind::AtLeast { limit: *limit },
            (Limit::Value(limit), _) => Kind::AtMost { limit: *limit },
            (Limit::Ratio { times, of, at }, bound) => {
                let (of, times) = (format!("{of}{}", places(at)), *times);
                match bound {
                    Bound::AtMost => Kind::AtMostTimes { of, times },
                    Bound::AtLeast => Kind::AtLeastTimes { of, times },
                    Bound::Within => Kind::Same { of, within: times },
                }
            }
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
        let own = places(&self.at);
        let compares_levels = matches!(&self.limit, Limit::Ratio { at, .. } if !at.is_empty());
        // Values of factors stand beside the side that they are of, where the sides differ in them.
        let (before, after) = if compares_levels { (own.as_str(), "") } else { ("", own.as_str()) };
        write!(f, "{} of {}{before} {} ", self.quantity, self.system, self.bound.name())?;
        match &self.limit {
            Limit::Value(value) => match self.quantity.measure.unit() {
                "" => write!(f, "{value}")?,
                unit if unit.starts_with(char::is_alphabetic) => write!(f, "{value} {unit}")?,
                unit => write!(f, "{value}{unit}")?,
            },
            Limit::Ratio { times, of, at } => write!(f, "{times} of {of}{}", places(at))?,
        }
        f.write_str(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_latencies_of_the_generator() {
        for (name, measure) in Measure::ALL {
            let latency = load::metrics::Measure::from_key(name).filter(|m| !m.is_duration());
            let is_time = measure.is_distribution() && *measure != Measure::Occupancy;
            assert_eq!(is_time && !measure.is_of_associations(), latency.is_some(), "{name}");
            assert!(!measure.meaning().is_empty(), "{name}");
        }
    }
}
