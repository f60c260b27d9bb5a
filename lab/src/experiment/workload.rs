//! `[workload]`: what is asked of the systems.

use super::named::named;
use std::time::Duration;

named! {
    /// The transport between generator and system.
    Transport {
        /// UDP.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
        /// TLS over TCP.
        Tls = "tls",
        /// WebSocket (RFC 7118).
        Ws = "ws",
        /// WebSocket over TLS.
        Wss = "wss",
        /// SCTP (RFC 4168).
        Sctp = "sctp",
    }
}

named! {
    /// How calls share sockets and connections.
    Connections {
        /// One for all calls of a worker.
        Shared = "shared",
        /// One for each call.
        Each = "each",
    }
}

named! {
    /// When calls begin.
    ArrivalTimes {
        /// At random times of a mean rate (a Poisson process).
        Poisson = "poisson",
        /// Evenly spaced.
        Even = "even",
    }
}

/// What `strowger load` does in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// A built-in scenario of `strowger load`, or a scenario file.
    pub scenario: String,
    /// The scenario of the answering side; `None` where nobody answers.
    pub answer: Option<String>,
    /// Users of a population in place of the scenario; 0: no population.
    pub users: u64,
    /// How many times faster than in life the population acts.
    pub compress: f64,
    /// Calls a second; with `find_peak` where the search begins.
    pub rate: f64,
    /// When they begin.
    pub arrivals: ArrivalTimes,
    /// Whether each run searches for the highest load that conforms.
    pub find_peak: bool,
    /// The transport.
    pub transport: Transport,
    /// How calls share connections.
    pub connections: Connections,
    /// Registered users that are called.
    pub callees: u32,
    /// Back ends behind a balancer.
    pub backends: u32,
    /// How long a call lasts after it was answered.
    pub hold: Duration,
    /// Whether the server challenges requests.
    pub authenticate: bool,
    /// Worker threads of the generator.
    pub workers: u32,
    /// Further options of `strowger load`.
    pub options: Vec<String>,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            scenario: "uac".to_owned(),
            answer: Some("uas".to_owned()),
            users: 0,
            compress: 1.0,
            rate: 1_000.0,
            arrivals: ArrivalTimes::Poisson,
            find_peak: false,
            transport: Transport::Udp,
            connections: Connections::Shared,
            callees: 1_000,
            backends: 2,
            hold: Duration::ZERO,
            authenticate: false,
            workers: 1,
            options: Vec::new(),
        }
    }
}
