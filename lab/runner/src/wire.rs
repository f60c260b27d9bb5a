//! The wire between generator and system: a witness that counts packets, captures, and whether hosts reach
//! each other.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lab::checks::Checks;
use lab::experiment::{Setup, System, Transport};
use load::report::Report;

use crate::addresses::PORT;
use crate::emulated::is_inside;
use crate::witness::{Witness, compared};
use crate::{capture, ping};

/// Why something is not observed in an emulated machine.
const EMULATED: &str = "its instructions would count in an emulated machine";

/// What is seen on the wire of one run.
#[derive(Debug)]
pub struct Wire {
    system: SocketAddr,
    witness: Option<Arc<Witness>>,
    /// The witness's count when the measuring generator began.
    before: u64,
    captures: bool,
    /// Why the generator's messages cannot be compared with packets; empty if they can.
    incomparable: &'static str,
    checks: Checks,
    files: Vec<(String, Vec<u8>)>,
}

impl Wire {
    /// Looks at the wire of a run from now on.
    pub fn new(setup: &Setup, system: &System, target: SocketAddr, generator: SocketAddr) -> Wire {
        let workload = &setup.workload;
        let mut checks = Checks::default();
        let mut unobserved = |what: &str, why: &str| checks.unobserved.push(format!("{what}: {why}"));
        let inside = is_inside();
        let witness = if inside {
            unobserved("packets, by a witness", EMULATED);
            None
        } else if setup.network.is_apart() {
            unobserved("packets, by a witness", "each side of the network sees what arrives there");
            None
        } else if setup.measuring.witness {
            let made = Witness::new(workload.transport, target, generator);
            made.map_err(|why| unobserved("packets, by a witness", &why)).ok()
        } else {
            unobserved("packets, by a witness", "witness = false");
            None
        };
        if inside {
            unobserved("captures", EMULATED);
        } else if !setup.measuring.capture {
            unobserved("captures", "capture = false");
        }
        let incomparable = if workload.transport != Transport::Udp {
            "messages over streams are no packets"
        } else if workload.find_peak {
            "a search makes many runs"
        } else if workload.options.iter().any(|option| option.trim_start_matches('-').starts_with("lost")) {
            "the generator drops messages on purpose (--lost)"
        } else if system.config.contains("udp_segmentation = true") {
            "the system sends messages together (udp_segmentation)"
        } else {
            ""
        };
        if witness.is_some() && !incomparable.is_empty() {
            unobserved("lost packets, by the witness", incomparable);
        }
        // A search has no one measurement.
        let captures = setup.measuring.capture && !workload.find_peak && !inside;
        Wire {
            system: target,
            witness: witness.map(Arc::new),
            before: 0,
            captures,
            incomparable,
            checks,
            files: Vec::new(),
        }
    }

    /// The witness, for the samples of each second.
    pub fn witness(&self) -> Option<Arc<Witness>> {
        self.witness.clone()
    }

    /// Whether captures are taken.
    pub fn captures(&self) -> bool {
        self.captures
    }

    /// Asks the system's host whether it answers.
    pub fn ask(&mut self, when: &str) {
        let sip = SocketAddr::new(self.system.ip(), PORT);
        self.checks.connectivity.push(ping::ask(when, self.system.ip(), sip));
    }

    /// Captures packets for this time, or fewer if there are many.
    pub fn capture(&mut self, when: &str, length: Duration) {
        if !self.captures {
            return;
        }
        match capture::take(self.system.ip(), &format!("{when}.pcap"), length) {
            Ok((summary, file)) => {
                self.files.push((summary.file.clone(), file));
                self.checks.captures.push(summary);
            }
            Err(why) => self.unobserved(&format!("capture {when} the measurement"), why),
        }
    }

    /// The measuring generator begins.
    pub fn begins(&mut self) {
        self.before = self.witness.as_ref().map_or(0, |witness| witness.total());
    }

    /// It ended with this report.
    pub fn ended(&mut self, load: &Report) {
        let Some(witness) = self.witness.as_ref().filter(|_| self.incomparable.is_empty()) else { return };
        self.checks.witness = Some(compared(witness.total() - self.before, load));
    }

    fn unobserved(&mut self, what: &str, why: impl fmt::Display) {
        self.checks.unobserved.push(format!("{what}: {why}"));
    }

    /// What was seen, and the files for the archive.
    pub fn seen(self) -> (Checks, Vec<(String, Vec<u8>)>) {
        (self.checks, self.files)
    }
}
