//! `[system.NAME]`: what is measured.

use super::named::named;
use std::path::PathBuf;
use std::time::Duration;

named! {
    /// What a system is.
    SystemKind {
        /// `strowger serve`.
        Strowger = "strowger",
        /// `strowger balance` in front of back ends of the generator.
        Balance = "balance",
        /// Kamailio, started with a configuration file.
        Kamailio = "kamailio",
        /// Any server that a command starts.
        Command = "command",
        /// A relay that forwards datagrams without reading them: what the network path costs.
        Relay = "relay",
        /// No server: the generator calls its own answering side (RFC 7502 section 6.1).
        None = "none",
    }
}

/// A system under test.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// What it is.
    pub kind: SystemKind,
    /// The program; without it the one that runs the experiment, or the rival in the search path.
    pub binary: Option<PathBuf>,
    /// Program and arguments, for the kind `command`.
    pub command: Vec<String>,
    /// The configuration, a template: appended to the one made for the workload, or the whole file of a
    /// rival.
    pub config: String,
    /// `NAME=value` of its environment.
    pub environment: Vec<String>,
    /// Worker threads or processes.
    pub workers: u32,
    /// Processors that it may use; empty: the runner decides.
    pub cpus: Vec<u32>,
    /// How long it may take until it answers.
    pub start_limit: Duration,
}

impl Default for System {
    fn default() -> System {
        System {
            kind: SystemKind::Strowger,
            binary: None,
            command: Vec::new(),
            config: String::new(),
            environment: Vec::new(),
            workers: 1,
            cpus: Vec::new(),
            start_limit: Duration::from_secs(10),
        }
    }
}
