//! `[workload]`: what is asked of the systems.

use super::forms::{amount, path, word};
use super::keys::keys;
use load::scenario::builtin_names;
use std::path::PathBuf;
use std::time::Duration;
use toml_form::error::{Fault, closest};
use toml_form::form::{HOUR, One, choice, flag, length, list, number, text};
use toml_form::named;
use toml_form::text::shown;

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

keys! {
    /// `[workload]`: what `strowger load` does in a run.
    pub struct Workload = "[workload]" {
        /// A built-in scenario of `strowger load`, or a scenario file (with `/` or `.` in its name).
        scenario: String = "proxy200".to_owned(), scenario();
        /// The scenario of the answering side. Without it: `"uas"` if the scenario is a built-in one that
        /// calls.
        answer: Option<String> = Some("uas".to_owned()), scenario().or("none");
        /// The injection file of a scenario: a line for each call. Without it: callers that call the callees.
        rows: Option<PathBuf> = None, path().optional();
        /// An injection file with which the scenario is played before the calls, once for each line, from
        /// where calls are answered: callees register so. Without it: `callees` users register.
        registrations: Option<PathBuf> = None, path().optional();
        /// Users of a population in place of the scenario. Not in this version: a plan with it is refused.
        users: u64 = 0, number(0..=100_000_000);
        /// How many times faster than in life the population acts. Needs `users`.
        compress: f64 = 1.0, amount(0.001..=100_000.0);
        /// Calls a second. With `find_peak`: where the search begins.
        rate: f64 = 1_000.0, amount(0.001..=10_000_000.0);
        /// When calls begin: at random times of the mean rate, or evenly spaced.
        arrivals: ArrivalTimes = ArrivalTimes::Poisson, choice(ArrivalTimes::ALL);
        /// Whether each run searches for the highest load that conforms. `measure` is the length of a trial.
        find_peak: bool = false, flag();
        /// The highest rate that a search tries. Without it: none.
        rate_max: Option<f64> = None, amount(0.001..=10_000_000.0).optional();
        /// How narrow the result of a search is, as a share of the load.
        resolution: f64 = 0.02, amount(0.001..=0.5);
        /// The transport between generator and system.
        transport: Transport = Transport::Udp, choice(Transport::ALL);
        /// One connection for all calls of a worker, or one for each call.
        connections: Connections = Connections::Shared, choice(Connections::ALL);
        /// Registered users that are called.
        callees: u32 = 1_000, number(0..=1_000_000);
        /// Back ends behind a balancer: systems of the kind `balance`, and those that have `${backends}`.
        backends: u32 = 2, number(1..=1_000);
        /// Calls a second that a back end can do; its processor is modelled. One number for all, or one for
        /// each. Without it, or 0: back ends answer at once.
        capacity: Vec<f64> = Vec::new(), list(amount(0.0..=1_000_000.0)).no_default();
        /// Requests that share the modelled processor of a back end at a time. 1: one after the other.
        sharing: u32 = 4, number(1..=10_000);
        /// Requests that may wait at a back end with a capacity; what comes beyond gets 503.
        room: u32 = 1_000, number(0..=100_000);
        /// How much the modelled cost of a request varies: its coefficient of variation.
        variation: f64 = 0.5, amount(0.0..=10.0);
        /// What a repeated request costs a back end with a capacity, beside a BYE.
        repeat_cost: f64 = 0.0, amount(0.0..=10.0);
        /// How long a back end with a capacity stands still at random times. 0: never.
        stall: Duration = Duration::ZERO, length(Duration::ZERO..=HOUR);
        /// How far apart the stalls of a back end are on average.
        stall_every: Duration = Duration::from_secs(40), length(Duration::from_millis(100)..=HOUR);
        /// How long a call lasts after it was answered. A plan with more than 50 s is refused.
        hold: Duration = Duration::ZERO, length(Duration::ZERO..=HOUR);
        /// Whether the server challenges requests.
        authenticate: bool = false, flag();
        /// Worker threads of the generator.
        workers: u32 = 1, number(1..=1_024);
        /// Further options of `strowger load`, each word for itself.
        options: Vec<String> = Vec::new(), list(word()).no_default();
    }
}

impl Workload {
    /// Whether back ends have a modelled capacity. One process is all of them then.
    pub fn has_capacity(&self) -> bool {
        self.capacity.iter().any(|calls| *calls > 0.0)
    }
}

/// A built-in scenario, or a file.
fn scenario() -> One<String> {
    text("scenario", |written| {
        let names = || builtin_names().iter().map(|(name, _)| *name);
        if written.contains(['/', '.']) || names().any(|name| name == written) {
            return Ok(written.to_owned());
        }
        let mend = match closest(written, names()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => {
                format!("a file such as \"calls.xml\", or one of {}", names().collect::<Vec<_>>().join(", "))
            }
        };
        Err(Fault::new(format!("no scenario \"{}\"", shown(written)), mend))
    })
}
