//! The node: one worker's whole machine.

use crate::forwarding::Forwarder;
use crate::gate::Gate;
use crate::icmp;
use crate::located::Located;
use crate::overload::{Algorithm, Change, Common, Standing};
use crate::services::{Counter, Services};
use crate::settings::Settings;
use crate::shortage::Shortage;
use crate::site::{Heard, Keys};
use crate::step::{Base, Step};
use crate::transaction_users::TransactionUsers;
use core::net::{IpAddr, SocketAddr};
use number_routes::RouteTable;
use sip_message::{Flaw, Index, Message, Method, Parsed, find_call_id, parse};
use sip_proxy::stun::Binding;
use sip_proxy::transport::broken_stream;
use sip_transaction::{Event, Limits, Prepared, Timers};
use std::sync::Arc;
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Identity, Load, Machine, Outbox, Time, Transport};

/// What other threads tell a worker.
pub enum Notice {
    /// New settings, in force from here.
    Settings(Arc<Settings>),
    /// New settings and a new route table, in force from here together.
    Renewed(Arc<Settings>, Arc<RouteTable>),
    /// The answer to a [`Question`](crate::Question).
    Located(Located),
    /// Take no new calls or registrations (503 with Retry-After), finish what is under way.
    Drain,
    /// Show what is going on, by calling `show` once with the node's report. It lists at most `most`
    /// calls, from number `from` on: a list of all takes its time, and nobody is served meanwhile.
    Report {
        /// The first call listed.
        from: usize,
        /// Calls listed.
        most: usize,
        /// Takes the report.
        show: Box<dyn FnOnce(Report) + Send>,
    },
}

/// What a worker is doing.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Transactions and their counters.
    pub transactions: sip_transaction::Counts,
    /// Forwarded requests without a final response yet, those that wait for bindings, and registrations at
    /// trunks that are being ended.
    pub pending: usize,
    /// All forwarded requests kept: the pending ones, and accepted INVITEs whose 2xx may be repeated.
    pub held: usize,
    /// How many calls are being set up or under way.
    pub call_count: usize,
    /// Those of them that were asked for.
    pub calls: Vec<crate::Call>,
    /// Whether the worker drains.
    pub draining: bool,
    /// Whether it rejects new work because there is no time.
    pub overload: Standing,
    /// Next hops that ask it for less: by a percentage, or to a number of requests a second of all workers.
    pub asking: Vec<(SocketAddr, Algorithm, u32)>,
    /// What there was too little of in the last minute, and the source that was rejected for it last.
    pub shortages: Vec<(Shortage, IpAddr)>,
}

/// What a node is made from besides its settings and services.
#[derive(Clone)]
pub struct NodeConfig {
    /// Which worker this is.
    pub worker: u16,
    /// Transaction timers.
    pub timers: Timers,
    /// Transactions at one time on this worker.
    pub transactions: Limits,
    /// Names kept by the DNS cache of this worker.
    pub dns_cache: usize,
    /// Secrets of all workers.
    pub keys: Keys,
    /// A seed of this worker's own, random and secret.
    pub seed: [u64; 2],
}

/// One worker's machine.
pub struct Node<S> {
    base: Base<S>,
    users: TransactionUsers,
    /// Memory for what transactions and timers report.
    events: Vec<Event>,
}

impl<S: Services> Node<S> {
    /// A node with nothing going on.
    pub fn new(config: NodeConfig, settings: Arc<Settings>, services: S) -> Node<S> {
        let early_trying = config.timers.early_trying();
        let mut forwarder = Forwarder::new(config.worker, config.dns_cache, config.seed, early_trying);
        forwarder.settings_changed(&settings);
        let transactions = (config.timers, config.transactions);
        Node {
            base: Base::new(&config.keys, config.seed, transactions, settings, services),
            users: TransactionUsers::new(Gate::new(config.worker), forwarder),
            events: Vec::new(),
        }
    }

    /// It is one of the workers that share this, so it knows how the server is, and tells trunks also where
    /// there are several.
    pub fn join(&mut self, common: Arc<Common>, worker: u16) {
        self.base.overload_mut().join(common, worker.into());
    }

    /// It is one of the workers that share this.
    pub fn share_heard(&mut self, heard: Arc<Heard>) {
        self.base.site_mut().share_heard(heard);
    }

    /// Called numbers go by this table from now on.
    pub fn route_by(&mut self, table: Arc<RouteTable>) {
        self.base.site_mut().route_by(table);
    }

    /// New settings, in force from here.
    fn set_settings(&mut self, settings: Arc<Settings>) {
        self.users.forwarder_mut().settings_changed(&settings);
        self.base.set_settings(settings);
    }

    /// What is going on, with at most `most` calls, from number `from` on.
    pub fn report(&self, now: Time, from: usize, most: usize) -> Report {
        let (forwarder, calls) = (self.users.forwarder(), self.base.calls());
        Report {
            transactions: self.base.layer().counts(),
            pending: forwarder.proxied().pending() + forwarder.leaving() + self.users.waiting(),
            held: forwarder.proxied().len(),
            call_count: calls.len(),
            calls: calls.list(now, from, most),
            draining: self.users.gate().is_draining(),
            overload: self.base.overload().standing(),
            asking: forwarder.asking(now).collect(),
            shortages: self.base.shortages().recent(now),
        }
    }

    /// What the server is, for tests.
    #[cfg(test)]
    pub(crate) const fn site(&self) -> &crate::site::Site<S> {
        self.base.site()
    }

    /// The transaction users, for tests.
    #[cfg(test)]
    pub(crate) const fn users(&mut self) -> &mut TransactionUsers {
        &mut self.users
    }

    /// A message for this worker. `asks`: the runtime's worker, and how many there are; if another one owns
    /// the message, that is the answer.
    fn message(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        asks: Option<(u16, u16)>,
        out: &mut Outbox,
    ) -> Option<u16> {
        let Node { base, users, .. } = self;
        let mut step = base.step(now, out);
        // A message of another worker is that one's to judge.
        let mine = |step: &Step<'_, S>| {
            asks.is_none_or(|(me, workers)| {
                step.site.ownership().owner(bytes, workers).is_none_or(|owner| owner == me)
            })
        };
        if step.overload.sheds() && mine(&step) && !step.passes(flow, bytes) {
            return None;
        }
        step.with_index(|step, index| read(step, users, flow, (bytes, index), asks))
    }

    /// Acts on what transactions and timers reported.
    fn digest_events(&mut self, now: Time, out: &mut Outbox) {
        let mut step = self.base.step(now, out);
        for at in 0..self.events.len() {
            // Of calls of half a minute ago: it comes from far away.
            if let Some(&Event::ServerGone { user, .. }) = self.events.get(at + 4) {
                self.users.forwarder().prefetch(user);
            }
            if let Some(&event) = self.events.get(at) {
                self.users.event(&mut step, event);
            }
        }
        self.events.clear();
    }

    /// What is done after each message.
    #[inline]
    fn wind_up(&mut self, now: Time, out: &mut Outbox) {
        let step = self.base.step(now, out);
        step.responses.give_way(step.layer);
        step.calls.release(step.out);
        step.calls.freed().for_each(|account| step.site.services().end_call(account));
    }
}

/// Reads a message and hands it on, unless another worker owns it.
fn read<S: Services>(
    step: &mut Step<'_, S>,
    users: &mut TransactionUsers,
    flow: Flow,
    (bytes, index): (&[u8], &mut Index),
    asks: Option<(u16, u16)>,
) -> Option<u16> {
    let parsed = parse(bytes, index, &step.site.settings().message);
    let other = asks.and_then(|(me, workers)| {
        let owner = match &parsed {
            Parsed::Good(message) => step.site.ownership().owner_of(message.call_id(), workers),
            // What the index says of these is not all that is in them.
            Parsed::Bad(..) | Parsed::Garbage(_) => step.site.ownership().owner(bytes, workers),
        };
        owner.filter(|owner| *owner != me)
    });
    if other.is_some() {
        return other;
    }
    match parsed {
        Parsed::Garbage(_) => match Binding::read(bytes) {
            Some(keepalive) if flow.transport == Transport::Udp => {
                step.out.send_with(flow, 0, |buf| keepalive.answer(flow.remote, buf));
            }
            _ => step.site.services().count(Counter::Garbage),
        },
        Parsed::Good(message) if message.is_request() => {
            step.site.services().count_method(message.method());
            users.request(step, flow, &message);
        }
        Parsed::Good(message) => {
            step.site.services().count(Counter::Responses);
            users.forwarder_mut().response(step, flow, &message);
        }
        Parsed::Bad(message, flaw) => flawed(step, flow, &message, flaw),
    }
    None
}

fn flawed<S: Services>(step: &mut Step<'_, S>, flow: Flow, message: &Message<'_>, flaw: Flaw) {
    // Responses with a fault are dropped (RFC 3261 section 18.1.2), ACKs never answered.
    if message.is_request() && message.method() != Method::Ack {
        step.site.services().count(Counter::Malformed);
        step.refuse(flow, &Prepared::unread(message), flaw.status, flaw.reason.as_bytes(), b"");
    } else {
        step.site.services().count(Counter::Garbage);
    }
}

impl<S: Services> Machine for Node<S> {
    type Notice = Notice;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &self.base.site().settings().message)
    }

    /// By the Call-ID, which every message of a call carries: requests, responses, ACK, CANCEL and BYE, on
    /// datagrams and streams alike. What has none begins nothing.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        self.base.site().ownership().owner(message, workers)
    }

    /// The Call-ID is looked for once only, with everything else.
    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        let Arrival { now, flow, message, steered, .. } = arrival;
        let other = self.message(now, flow, message, steered, out);
        self.wind_up(now, out);
        other
    }

    fn refuse(&mut self, now: Time, flow: Flow, head: &[u8], error: FrameError, out: &mut Outbox) {
        let mut step = self.base.step(now, out);
        if head.is_empty() {
            return step.site.services().count(Counter::Garbage);
        }
        let limits = step.site.settings().message;
        let (status, reason) = broken_stream(error);
        step.with_index(|step, index| match parse(head, index, &limits) {
            Parsed::Good(message) | Parsed::Bad(message, _)
                if message.is_request() && message.method() != Method::Ack =>
            {
                step.site.services().count(Counter::Malformed);
                step.refuse(flow, &Prepared::unread(&message), status, reason, b"");
            }
            _ => step.site.services().count(Counter::Garbage),
        });
    }

    fn identified(&mut self, _now: Time, conn: ConnId, identity: &Arc<Identity>) {
        self.base.site_mut().identified(conn, identity);
    }

    /// Bindings stay: their phones are tried at the addresses of their Contacts (see `reach`).
    fn disconnected(&mut self, _now: Time, conn: ConnId, _out: &mut Outbox) {
        self.base.site_mut().disconnected(conn);
    }

    fn undeliverable(&mut self, now: Time, token: u64, out: &mut Outbox) {
        let step = self.base.step(now, out);
        step.responses.send_again(token, step.site.settings(), step.out);
        self.cut_off(now, token, out);
    }

    /// The receiver of a response may end its connection.
    fn cut_off(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.base.step(now, out).layer.undeliverable(token, &mut self.events);
        self.digest_events(now, out);
    }

    fn returned(&mut self, now: Time, _to: SocketAddr, quoted: &[u8], out: &mut Outbox) {
        if let Some(id) = icmp::client_of(quoted) {
            self.base.step(now, out).layer.lost(id, &mut self.events);
            self.digest_events(now, out);
        }
    }

    fn notice(&mut self, now: Time, notice: Notice, out: &mut Outbox) {
        match notice {
            Notice::Settings(settings) => self.set_settings(settings),
            Notice::Renewed(settings, table) => {
                self.route_by(table);
                self.set_settings(settings);
            }
            Notice::Located(located) => {
                let mut step = self.base.step(now, out);
                self.users.located(&mut step, located);
                self.wind_up(now, out);
            }
            Notice::Drain => {
                self.users.gate_mut().drain();
                self.users.forwarder_mut().leave(&mut self.base.step(now, out));
            }
            Notice::Report { from, most, show } => show(self.report(now, from, most)),
        }
    }

    fn pace(&mut self, now: Time, load: &Load) {
        let Node { base, users, .. } = self;
        users.forwarder_mut().tidy(now);
        if let Some(change) = base.overload_mut().pace(now, load) {
            if change == Change::Entered {
                users.begin_walk();
            }
            base.site().services().overloaded(change == Change::Entered, load.behind);
        }
        if base.overload().sheds() {
            // Some of the requests that have no final answer yet are noted, so that what repeats them is read
            // in the overload that has begun. Until all are noted a repetition may be dropped; the next one
            // is read.
            users.walk_pending(|request| {
                if let Some(call_id) = find_call_id(request) {
                    base.remember(call_id);
                }
            });
        }
    }

    fn sieve(&self) -> Option<wire::Sieve<'_>> {
        self.base.overload().sieve()
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        let step = self.base.step(now, out);
        step.layer.handle_timeout(now, step.out, &mut self.events);
        self.digest_events(now, out);
        let mut step = self.base.step(now, out);
        self.users.forwarder_mut().timeout(&mut step);
        step.calls.expire(now);
        step.calls.release(step.out);
        step.calls.freed().for_each(|account| step.site.services().end_call(account));
    }

    fn round_ends(&mut self, now: Time, out: &mut Outbox) {
        let mut step = self.base.step(now, out);
        self.users.registrar_mut().round_ends(&mut step);
    }

    fn next_deadline(&self) -> Option<Time> {
        let probe = self.users.forwarder().wakes();
        let base = &self.base;
        base.layer()
            .next_deadline()
            .into_iter()
            .chain(probe)
            .chain(base.site().places().by_name.wakes())
            .min()
    }
}
