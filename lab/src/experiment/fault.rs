//! `[[fault]]`: what happens to a system during the measurement.

use super::forms::{amount, name};
use super::keys::keys;
use std::time::Duration;
use toml_form::form::{HOUR, choice, length, list, number};
use toml_form::named;

named! {
    /// What happens.
    FaultKind {
        /// The process is killed (SIGKILL) and started again.
        Kill = "kill",
        /// The process is stopped (SIGSTOP), and continued after `lasts`.
        Stop = "stop",
        /// Its configuration is loaded again (SIGHUP).
        Reload = "reload",
        /// Its certificate is replaced, and loaded again.
        RenewCertificate = "renew_certificate",
        /// No packet passes between generator and system.
        Partition = "partition",
        /// Packets between generator and system are lost at random.
        Loss = "loss",
        /// The DNS server of the lab answers late.
        SlowDns = "slow_dns",
        /// The DNS server of the lab does not answer.
        WithholdDns = "withhold_dns",
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

keys! {
    /// `[[fault]]`: a fault, or several at equal distances.
    pub struct FaultStep = "[[fault]]" {
        /// Time since the start of the measurement. Required.
        at: Duration = Duration::ZERO, length(Duration::ZERO..=HOUR);
        /// Kind of the fault. Required.
        kind: FaultKind = FaultKind::Kill, choice(FaultKind::ALL);
        /// Part that it affects.
        place: FaultPlace = FaultPlace::System, choice(FaultPlace::ALL);
        /// Number of the back end, from 1.
        backend: u32 = 1, number(1..=1_000);
        /// The systems whose runs have it. Empty: all.
        systems: Vec<String> = Vec::new(), list(name()).once("system").no_default();
        /// How long it lasts. After a kill: until the process is started again.
        lasts: Duration = Duration::from_secs(1), length(Duration::ZERO..=HOUR);
        /// For the kind `loss`: packets that are lost in each direction, percent.
        share: f64 = 10.0, amount(0.0..=100.0);
        /// For the kind `slow_dns`: delay of the DNS answers.
        delay: Duration = Duration::from_secs(1), length(Duration::ZERO..=HOUR);
        /// Time between two faults. Without it there is one fault.
        every: Option<Duration> = None, length(Duration::from_millis(10)..=HOUR).optional();
    }
}

impl FaultKind {
    /// Whether it happens to the network between generator and system.
    pub fn is_of_network(self) -> bool {
        matches!(self, FaultKind::Partition | FaultKind::Loss)
    }

    /// Whether it lasts: a reload and a renewal are over at once.
    pub fn takes_time(self) -> bool {
        !matches!(self, FaultKind::Reload | FaultKind::RenewCertificate)
    }

    /// Whether it happens to the DNS server of the lab.
    pub fn is_of_names(self) -> bool {
        matches!(self, FaultKind::SlowDns | FaultKind::WithholdDns)
    }
}

impl FaultStep {
    /// Whether the runs of this system have it.
    pub fn concerns(&self, system: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|name| name == system)
    }

    /// How long it lasts each time.
    pub fn length(&self) -> Duration {
        if self.kind.takes_time() { self.lasts } else { Duration::ZERO }
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
pub(super) const MOST_TIMES: usize = 1_000;
