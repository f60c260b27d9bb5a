//! What an engine is told.

use super::trace::Traced;
use crate::metrics::{Figures, Ladder, Metrics, Pulse, Setup, Table};
use crate::scenario::{Level, Pause, Run, Scenario, Scope, Side, Values};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use sip_message::{Message, Method};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Flow, ListenerId, Time, Transport};

/// How often and for how long a message over UDP is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Retransmission {
    /// Whether at all (`-nr`).
    pub on: bool,
    /// The longest interval of requests other than INVITE.
    pub t2: Duration,
    /// How often an INVITE is repeated at most.
    pub invite: u32,
    /// How often any other message is.
    pub other: u32,
}

impl Default for Retransmission {
    /// SIPp's numbers, which give 32 s at T1 = 500 ms.
    fn default() -> Retransmission {
        Retransmission { on: true, t2: Duration::from_secs(4), invite: 5, other: 7 }
    }
}

/// What is done unasked (`-default_behaviors`, `-aa`).
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// An unexpected BYE or CANCEL is answered with 200 before the call ends as failed, and a call that
    /// fails otherwise takes its leave with ACK, CANCEL or BYE, whichever is due (`bye`).
    pub bye: bool,
    /// A call fails at a message that it does not expect; otherwise it goes on (`abortunexp`).
    pub abort: bool,
    /// A PING is answered with 200 and changes nothing; so is an OPTIONS or NOTIFY that belongs to no call
    /// (`pingreply`).
    pub ping: bool,
    /// INFO, NOTIFY, OPTIONS and UPDATE that no step waits for are answered with 200 and change nothing
    /// (`-aa`).
    pub auto_answer: bool,
}

impl Defaults {
    /// Whether a request is answered unasked wherever a call stands.
    pub(super) fn answer(&self, message: &Message<'_>) -> bool {
        let method = message.method();
        let ping = self.ping && method.as_bytes() == b"PING";
        let asked = matches!(method, Method::Info | Method::Notify | Method::Options | Method::Update);
        message.is_request() && (ping || (self.auto_answer && asked))
    }
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { bye: true, abort: true, ping: true, auto_answer: false }
    }
}

/// Which socket a call that begins here has.
#[derive(Clone, Debug, Default)]
pub enum Origin {
    /// Those of [`Addresses::own`] in turn.
    #[default]
    Turn,
    /// One of [`Addresses::own`] that no other call under way has, as long as there are enough (`-t un`).
    Call,
    /// Those of [`Addresses::own`] in turn, over a stream connection for each call (`-t tn`).
    Connection,
    /// That of the address in a field of the call's line in the first injection file (`-t ui`, `-ip_field`).
    Field {
        /// Its number.
        field: usize,
        /// The listener of each address.
        listeners: BTreeMap<IpAddr, ListenerId>,
    },
}

/// What a call that begins here has for a Call-ID.
#[derive(Clone, Debug)]
pub enum CallIds {
    /// Its name, and these texts behind it, parted where the local address comes (`-cid_str`); none: `@` and
    /// the address.
    Named(Vec<Vec<u8>>),
    /// The text in this field of its line in the first injection file, whatever its shape (`-cid_field`). It
    /// names no worker, so there is one.
    Field(usize),
}

impl Default for CallIds {
    fn default() -> CallIds {
        CallIds::Named(Vec::new())
    }
}

/// Calls by users, each of whom begins the next when the last is over (`-users`).
#[derive(Clone, Copy, Debug)]
pub struct Users {
    /// This worker's first one, from 0, and the step to the next.
    pub numbers: (u64, u64),
    /// How many this worker has.
    pub count: u64,
    /// Calls of this worker altogether (`-m`).
    pub calls: Option<u64>,
}

/// Where calls of a worker begin, and where they go.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// The transport of calls that begin here.
    pub transport: Transport,
    /// Where their first message goes.
    pub remote: SocketAddr,
    /// All listeners' addresses in the order of their ids.
    pub listeners: Vec<SocketAddr>,
    /// Where calls of this worker begin, in turn.
    pub own: Vec<ListenerId>,
    /// What this side calls itself in place of an address, where nobody can connect to it (RFC 7118 section
    /// 5).
    pub alias: Option<String>,
    /// Which of them a call has.
    pub origin: Origin,
}

impl Addresses {
    /// What the listeners are called in messages: address (IPv6 in brackets) and port.
    pub fn texts(&self) -> Vec<(Vec<u8>, u16)> {
        let text = |a: &SocketAddr| match (&self.alias, a) {
            (Some(alias), _) => alias.clone(),
            (None, SocketAddr::V4(a)) => a.ip().to_string(),
            (None, SocketAddr::V6(a)) => format!("[{}]", a.ip()),
        };
        self.listeners.iter().map(|a| (text(a).into_bytes(), a.port())).collect()
    }

    /// The address of a listener.
    pub fn local(&self, listener: ListenerId) -> &SocketAddr {
        const ANY: &SocketAddr = &SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        self.listeners.get(usize::from(listener.0)).unwrap_or(ANY)
    }

    /// The flow of a new call from this listener.
    pub fn flow(&self, listener: ListenerId) -> Flow {
        Flow { transport: self.transport, listener, remote: self.remote, conn: None }
    }

    /// The listener of a call that begins here, by its number.
    pub(super) fn turn(&self, nth: usize) -> ListenerId {
        self.own.get(nth % self.own.len().max(1)).copied().unwrap_or(ListenerId(0))
    }
}

/// How calls behave where their scenario says nothing else.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// `[cseq]` of the first request of a call (`-base_cseq`).
    pub base_cseq: u32,
    /// The Call-IDs of calls that begin here.
    pub call_ids: CallIds,
    /// The length of a pause without one (`-d`).
    pub pause: Pause,
    /// How long a step waits for its message if it does not say (`-recv_timeout`).
    pub recv_timeout: Option<Duration>,
    /// Retransmission over UDP.
    pub retransmission: Retransmission,
    /// What is done with messages nobody expects.
    pub defaults: Defaults,
    /// The chance that a message is lost on purpose, sent or received (`-lost`), 0 to 1.
    pub lost: f64,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct {
            base_cseq: 1,
            call_ids: CallIds::default(),
            pause: Pause::Fixed(0),
            recv_timeout: None,
            retransmission: Retransmission::default(),
            defaults: Defaults::default(),
            lost: 0.0,
        }
    }
}

/// What one engine is told at its beginning.
pub struct Settings {
    /// Which worker this is.
    pub worker: u16,
    /// What is the same for all calls.
    pub run: Arc<Run>,
    /// Tells this run's Call-IDs from those of others.
    pub run_id: u32,
    /// What calls that begin here do.
    pub client: Option<Arc<Scenario>>,
    /// What calls do that the other side begins.
    pub server: Option<Arc<Scenario>>,
    /// Where calls begin, and go.
    pub addresses: Addresses,
    /// How they behave.
    pub conduct: Conduct,
    /// Calls by users in place of a schedule.
    pub users: Option<Users>,
    /// Variables of the run and what they are at its beginning (`-set`).
    pub set: Vec<(String, Vec<u8>)>,
    /// Calls under way at a time that begin on this worker (`-l`).
    pub most_calls: usize,
    /// Calls at a time that this worker answers, those that have ended and still answer repetitions among
    /// them. One beyond it is refused with 503 and makes the run void.
    pub most_callees: usize,
    /// Calls that this worker answers altogether (`-m` where none begin here); then the run is over.
    pub callees: Option<u64>,
    /// The number of this worker's first call, and the step to the next.
    pub numbers: (u64, u64),
    /// Everything random comes from it.
    pub seed: u64,
    /// When the run begins.
    pub start: Time,
    /// Microseconds since 1970 at [`Time::ZERO`].
    pub wall_origin: u64,
    /// What is measured; stopwatches, counters and tables are those of the scenarios.
    pub metrics: Setup,
    /// How many failing call flows are kept.
    pub ladders: usize,
    /// Whether every message is kept until it is asked for ([`Progress::messages`]).
    pub traces: bool,
}

impl Settings {
    /// The scenario of one side.
    #[inline]
    pub(super) fn scenario(&self, side: Side) -> Option<&Scenario> {
        match side {
            Side::Client => self.client.as_deref(),
            Side::Server => self.server.as_deref(),
        }
    }

    /// What is measured, with what the scenarios want: the caller's things, then the callee's, which are
    /// called so if there are both.
    pub(super) fn measured(&self) -> Setup {
        let both = self.client.is_some() && self.server.is_some();
        let sides = [(&self.client, ""), (&self.server, if both { "callee-" } else { "" })];
        let named = |of: fn(&Scenario) -> &Vec<String>| -> Vec<String> {
            let own = |(scenario, before): (&Option<Arc<Scenario>>, &'static str)| {
                let names = scenario.as_ref().map_or_else(Vec::new, |own| of(own).clone());
                names.into_iter().map(move |name| format!("{before}{name}"))
            };
            sides.into_iter().flat_map(own).collect()
        };
        let mut tables = Vec::new();
        for side in [Side::Client, Side::Server] {
            let Some(own) = self.scenario(side) else { continue };
            let first = self.first(side, |own| &own.timers);
            let responses =
                (first..first + own.timers.len()).map(Some).map(|at| (at, &own.response_times_ms));
            // Of lengths there is one distribution.
            let lengths = (side == Side::Client || !both).then_some((None, &own.call_lengths_ms));
            for (stopwatch, bounds) in responses.chain(lengths).filter(|(_, bounds)| !bounds.is_empty()) {
                tables.push(Table { stopwatch, bounds_ms: bounds.clone() });
            }
        }
        Setup {
            stopwatches: named(|own| &own.timers),
            tallies: named(|own| &own.counters),
            tables,
            ..self.metrics.clone()
        }
    }

    /// Where the names of a side begin in [`Settings::measured`].
    pub(super) fn first(&self, side: Side, of: fn(&Scenario) -> &Vec<String>) -> usize {
        let before = self.client.as_ref().filter(|_| side == Side::Server);
        before.map_or(0, |own| of(own).len())
    }

    /// Unset variables of one scope: the caller's scenario's and the callee's.
    pub(super) fn values(&self, scope: Scope) -> [Values; 2] {
        [&self.client, &self.server]
            .map(|own| own.as_ref().map_or_else(Values::default, |own| own.variables.values(scope)))
    }

    /// The variables of the run as `-set` has them. Those of the two scenarios are apart, as if two programs
    /// played them; a name that both have is set in both.
    pub(super) fn given(&self) -> [Values; 2] {
        let mut values = self.values(Scope::Global);
        for (own, scenario) in values.iter_mut().zip([&self.client, &self.server]) {
            for (name, text) in &self.set {
                let slot = scenario.as_ref().and_then(|s| s.variables.find(name));
                if let Some(value) = slot.filter(|slot| slot.scope == Scope::Global).and_then(|s| own.at(s)) {
                    value.set_text(text);
                }
            }
        }
        values
    }

    /// Microseconds since 1970.
    pub(super) fn wall(&self, now: Time) -> u64 {
        self.wall_origin + now.as_micros()
    }
}

/// The end of a run that a scenario asks for (`exec int_cmd`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stop {
    /// No more calls begin, those under way come to their end (`stop_gracefully`).
    Gracefully,
    /// At once (`stop_now`).
    Now,
}

/// What a worker is doing: small enough to be asked for every second.
pub struct Progress {
    /// What a live view shows.
    pub pulse: Pulse,
    /// Calls under way.
    pub calls: usize,
    /// Calls begun here.
    pub begun: u64,
    /// A call is due and waits for room.
    pub waiting: bool,
    /// There are calls to begin yet.
    pub beginning: bool,
    /// No call can begin, and all under way wait for the other side without a time.
    pub idle: bool,
    /// Nothing more will happen by itself, nor is it to be expected of the other side.
    pub done: bool,
    /// A scenario has asked for the end of the run, which is that of all its workers: the others are to be
    /// told.
    pub stop: Option<Stop>,
    /// What scenarios logged since they were last asked.
    pub lines: Vec<(Level, Vec<u8>)>,
    /// Messages since then, and how many there was no room for ([`Settings::traces`]).
    pub messages: (Vec<Traced>, u64),
    /// What SIPp's statistics want ([`crate::metrics::Setup::figures`]).
    pub figures: Option<Figures>,
}

/// What a worker leaves behind.
pub struct Record {
    /// Everything counted.
    pub metrics: Box<Metrics>,
    /// The first failing call flows.
    pub ladders: Vec<Ladder>,
}
