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

/// Associations of a run at most.
const MOST_ASSOCIATIONS: u64 = 2_000_000;
/// The shortest request has all headers.
const LEAST_REQUEST: u64 = 400;

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

named! {
    /// What the Contacts of callees have.
    Contacts {
        /// The address of the answering side.
        Address = "address",
        /// A host name, which the DNS server of the lab knows.
        Name = "name",
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
        /// An injection file that registers callees: before the calls, the answering side plays the scenario
        /// once for each line. Without it: `callees` users register.
        registrations: Option<PathBuf> = None, path().optional();
        /// Users of a population in place of the scenario: they register, refresh, call each other, answer.
        /// With `find_peak`: where the search begins.
        users: u64 = 0, number(0..=100_000_000);
        /// The most users that a search tries; systems know this number. 0: ten times `users`.
        most_users: u64 = 0, number(0..=100_000_000);
        /// Factor by which the time of the population is compressed. Needs `users`.
        compress: f64 = 1.0, amount(1.0..=10_000.0);
        /// Other numbers of the population, each `KEY=VALUE` in the users' own time, such as
        /// `"register_every=300"` or `"think=30m"`: those of [`strowger load`](load.md#users) except
        /// `measure` and `warm_up`, which are keys at the top.
        with: Vec<String> = Vec::new(), list(word()).no_default();
        /// Whether the generator is the mailbox of the population too. The phone of a user who is away then
        /// answers 486, and the system sends the call to `sip:voicemail@${mailbox}`. Strowger is configured
        /// so; a rival needs it in its configuration. Without it phones take messages themselves.
        mailbox: bool = false, flag();
        /// Associations or connections that a run opens, in place of calls. Each has one request, and is held
        /// to the end. For systems of the kinds `echo` and `front-end`. With `find_peak`: the most that a
        /// search opens; the client keeps none of them.
        associations: u32 = 0, number(0..=MOST_ASSOCIATIONS);
        /// Octets of the request on each association.
        request: u32 = 1_550, number(LEAST_REQUEST..=60_000);
        /// Calls a second, or associations. With `find_peak`: where the search begins.
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
        /// What their Contacts have: the address of the answering side, or a name for each callee, which
        /// the system must look up at `${resolver}`.
        contacts: Contacts = Contacts::Address, choice(Contacts::ALL);
        /// Lifetime of the answers of the lab's DNS server. 0: no caching; Strowger keeps an answer for a
        /// second even then.
        name_ttl: Duration = HOUR, length(Duration::ZERO..=HOUR);
        /// Back ends behind a balancer: systems of the kind `balance`, and those that have `${backends}`.
        backends: u32 = 2, number(1..=1_000);
        /// Calls a second that a back end can handle; its processor is modelled. One number for all, or one
        /// for each. Without it, or 0: back ends answer at once.
        capacity: Vec<f64> = Vec::new(), list(amount(0.0..=1_000_000.0)).no_default();
        /// Requests that share the modelled processor of a back end at a time. 1: one after the other.
        sharing: u32 = 4, number(1..=10_000);
        /// Requests that may wait at a back end with a capacity; further ones get 503.
        room: u32 = 1_000, number(0..=100_000);
        /// Coefficient of variation of the modelled cost of a request.
        variation: f64 = 0.5, amount(0.0..=10.0);
        /// Cost of a repeated request at a back end with a capacity, relative to a BYE.
        repeat_cost: f64 = 0.0, amount(0.0..=10.0);
        /// Length of the random stalls of a back end with a capacity. 0: no stalls.
        stall: Duration = Duration::ZERO, length(Duration::ZERO..=HOUR);
        /// Mean time between the stalls of a back end.
        stall_every: Duration = Duration::from_secs(40), length(Duration::from_millis(100)..=HOUR);
        /// How long a call lasts after it was answered; in a population the mean of a log-normal law, in the
        /// users' own time. A search for a peak of calls takes 50 s at most.
        hold: Duration = Duration::ZERO, length(Duration::ZERO..=HOUR);
        /// Whether the server challenges requests.
        authenticate: bool = false, flag();
        /// Worker threads of the generator.
        workers: u32 = 1, number(1..=1_024);
        /// Further options of `strowger load`, one word in each element.
        options: Vec<String> = Vec::new(), list(word()).no_default();
    }
}

impl Workload {
    /// How many users a system must know.
    pub fn known_users(&self) -> u64 {
        match (self.users, self.find_peak) {
            (0, _) => 2 * u64::from(self.callees),
            (users, false) => users,
            (users, true) if self.most_users == 0 => users.saturating_mul(10),
            (users, true) => self.most_users.max(users),
        }
    }

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
