//! `[[fault]]`: what happens to a system during the measurement.

use super::named::named;
use std::time::Duration;

named! {
    /// What happens.
    FaultKind {
        /// The process is killed (SIGKILL) and started again.
        Kill = "kill",
        /// The process is stopped (SIGSTOP), and continued after `lasts`.
        Stop = "stop",
        /// Its network namespace is cut off, and joined again after `lasts`.
        Partition = "partition",
        /// DNS answers come late by `delay`, until `lasts` is over.
        SlowDns = "slow_dns",
        /// Its configuration is loaded again (SIGHUP).
        Reload = "reload",
        /// Its certificate is replaced, and loaded again.
        RenewCertificate = "renew_certificate",
    }
}

named! {
    /// Which part it happens to.
    FaultPlace {
        /// The system under test.
        System = "system",
        /// A back end behind a balancer.
        Backend = "backend",
    }
}

/// One fault, or several of a kind at equal distances.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultStep {
    /// Time since the start of the measurement.
    pub at: Duration,
    /// What happens.
    pub kind: FaultKind,
    /// To which part.
    pub place: FaultPlace,
    /// The back end, from 1.
    pub backend: u32,
    /// The systems whose runs have it; empty: all.
    pub systems: Vec<String>,
    /// How long it lasts. After a kill: until the process is started again.
    pub lasts: Duration,
    /// Time between two of them; `None`: it happens once.
    pub every: Option<Duration>,
    /// How late DNS answers are.
    pub delay: Duration,
}

impl Default for FaultStep {
    fn default() -> FaultStep {
        FaultStep {
            at: Duration::ZERO,
            kind: FaultKind::Kill,
            place: FaultPlace::System,
            backend: 1,
            systems: Vec::new(),
            lasts: Duration::from_secs(1),
            every: None,
            delay: Duration::from_secs(1),
        }
    }
}

impl FaultStep {
    /// Whether the runs of this system have it.
    pub fn concerns(&self, system: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|name| name == system)
    }

    /// When it happens in a measurement of this length, since its start.
    pub fn times(&self, measure: Duration) -> Vec<Duration> {
        let Some(every) = self.every.filter(|every| !every.is_zero()) else {
            return Some(self.at).filter(|at| *at < measure).into_iter().collect();
        };
        let mut times = Vec::new();
        let mut at = self.at;
        while at < measure && times.len() < MOST_TIMES {
            times.push(at);
            at = at.saturating_add(every);
        }
        times
    }
}

/// How often a fault happens in one run at most.
const MOST_TIMES: usize = 1_000;
