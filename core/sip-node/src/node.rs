//! The node: one worker's whole machine.

use crate::admitted::Admitted;
use crate::bindings::Bindings;
use crate::calls::Calls;
use crate::emergency::is_urgent;
use crate::ingress::Ingress;
use crate::letters::Letters;
use crate::overload::{
    Algorithm, Change, Common, Kind as Screened, Neighbours, Overload, Standing, Verdict, Wish as OcWish,
    offer, screen,
};
use crate::prober::Prober;
use crate::promised::Promised;
use crate::prompt::Prompt;
use crate::proxied::{ProxiedId, ProxiedSlab};
use crate::returned;
use crate::routing::{Plan, Router, Wish};
use crate::services::{Counter, Services};
use crate::settings::{Mode, Settings};
use crate::shortage::{Shortage, Shortages};
use crate::site::{Heard, Keys, Site};
use crate::stateless::NOBODY;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use sip_auth::NonceSerial;
use sip_message::{Index, Message, Method, Parsed, Splices, find_call_id, parse};
use sip_proxy::context::Action;
use sip_proxy::locate::{Answer, Cache, Kind};
use sip_proxy::transport::broken_stream;
use sip_transaction::{Event, Layer, Limits, Prepared, Timers};
use std::mem;
use std::sync::Arc;
use wire::{ConnId, Flow, Frame, FrameError, Load, Machine, Outbox, Time};

/// What other threads tell a worker.
pub enum Notice {
    /// New settings, in force from here.
    Settings(Arc<Settings>),
    /// The answer to a [`Question`](crate::Question).
    Located {
        /// What was asked.
        kind: Kind,
        /// About which name.
        name: Box<[u8]>,
        /// What came back.
        answer: Answer,
        /// How long it is good, seconds.
        ttl: u32,
    },
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
    /// Forwarded requests without a final response yet.
    pub pending: usize,
    /// All forwarded requests kept: the pending ones, and accepted INVITEs whose 2xx may be repeated.
    pub held: usize,
    /// How many calls are being set up or under way.
    pub call_count: usize,
    /// Those of them that were asked for.
    pub calls: Vec<crate::Call>,
    /// Whether the worker drains.
    pub draining: bool,
    /// Whether it refuses new work for want of time.
    pub overload: Standing,
    /// Next hops that ask it for less: by so many per cent, or to so many requests a second of all workers.
    pub asking: Vec<(SocketAddr, Algorithm, u32)>,
    /// What there was too little of in the last minute, and who was refused for it last.
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
    pub(crate) site: Site<S>,
    pub(crate) layer: Layer,
    pub(crate) proxied: ProxiedSlab,
    pub(crate) calls: Calls,
    pub(crate) shortages: Shortages,
    pub(crate) dns: Cache,
    pub(crate) serial: NonceSerial,
    pub(crate) random: u64,
    pub(crate) draining: bool,
    pub(crate) overload: Overload,
    pub(crate) neighbours: Neighbours,
    pub(crate) letters: Letters,
    pub(crate) prompt: Prompt,
    pub(crate) prober: Prober,
    /// What becomes of the request at hand if it is new, in an overload; `None`: it has to be asked about if
    /// it is.
    pub(crate) verdict: Option<Verdict>,
    /// After this a request other than INVITE that has no answer yet gets a 100 (RFC 4320 section 4.1).
    pub(crate) early_trying: Duration,
    pub(crate) splices: Splices,
    pub(crate) scratch: Vec<u8>,
    /// Answers of registrations that wait for the end of the round.
    pub(crate) promised: Promised,
    pub(crate) actions: Vec<Action>,
    pub(crate) wishes: Vec<(u16, Wish)>,
    events: Vec<Event>,
    woken: Vec<u128>,
    index: Option<Box<Index>>,
    spare_index: Option<Box<Index>>,
}

impl<S: Services> Node<S> {
    /// A node with nothing going on.
    pub fn new(config: NodeConfig, settings: Arc<Settings>, services: S) -> Node<S> {
        let [a, b] = config.seed;
        let mut neighbours = Neighbours::default();
        neighbours.set_workers(settings.overload.workers);
        let mut overload = Overload::new(settings.overload, a.rotate_left(32) ^ b);
        overload.set_numbers(settings.emergency.as_ref());
        Node {
            calls: Calls::new(settings.calls, config.seed),
            shortages: Shortages::default(),
            overload,
            neighbours,
            letters: Letters::default(),
            prompt: Prompt::default(),
            prober: Prober::new(config.worker),
            verdict: None,
            site: Site::new(&config.keys, settings, services),
            layer: Layer::new(config.timers, config.transactions, config.seed),
            proxied: ProxiedSlab::default(),
            dns: Cache::new(config.dns_cache, [b, a]),
            serial: NonceSerial::new(config.worker),
            random: a ^ b.rotate_left(17),
            draining: false,
            early_trying: config.timers.early_trying(),
            splices: Splices::new(),
            scratch: Vec::new(),
            promised: Promised::default(),
            actions: Vec::new(),
            wishes: Vec::new(),
            events: Vec::new(),
            woken: Vec::new(),
            index: Some(Box::new(Index::with_memory())),
            spare_index: None,
        }
    }

    /// It is one of the workers that share this, so it knows how the server is, and tells trunks also where
    /// there are several.
    pub fn join(&mut self, common: Arc<Common>, worker: u16) {
        self.overload.join(common, worker.into());
    }

    /// It is one of the workers that share this.
    pub fn share_heard(&mut self, heard: Arc<Heard>) {
        self.site.share_heard(heard);
    }

    /// Where requests go.
    pub(crate) const fn router(&self) -> Router<'_, S> {
        Router::new(&self.site, &self.calls)
    }

    /// What requests show.
    pub(crate) const fn ingress(&self) -> Ingress<'_, S> {
        Ingress::new(&self.site, &self.calls)
    }

    /// What is bound.
    pub(crate) const fn bindings(&self) -> Bindings<'_, S> {
        Bindings::new(&self.site)
    }

    /// Decides where a request goes.
    pub(crate) fn plan(&mut self, now: Time, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) -> Plan {
        // Its memory comes back with `Node::take_back`.
        let room = mem::take(&mut self.wishes);
        self.router().plan_into(room, now, flow, request, a)
    }

    /// Keeps the memory of a plan's targets.
    pub(crate) fn take_back(&mut self, mut wishes: Vec<(u16, Wish)>) {
        wishes.clear();
        if wishes.capacity() <= 16 {
            self.wishes = wishes;
        }
    }

    /// Runs `work` with an index to parse with. Nested uses get an index of their own.
    pub(crate) fn with_index<R>(&mut self, work: impl FnOnce(&mut Node<S>, &mut Index) -> R) -> R {
        let mut index = self.index.take().or_else(|| self.spare_index.take()).unwrap_or_default();
        let result = work(self, &mut index);
        if index.has_memory() {
            self.index = Some(index);
        } else {
            self.spare_index = Some(index);
        }
        result
    }

    /// The next number of a generator that need not be secret (choice among equal servers).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random ^ (self.random >> 29)
    }

    /// What is going on, with at most `most` calls, from number `from` on.
    pub fn report(&self, now: Time, from: usize, most: usize) -> Report {
        Report {
            transactions: self.layer.counts(),
            pending: self.proxied.pending(),
            held: self.proxied.len(),
            call_count: self.calls.len(),
            calls: self.calls.list(now, from, most),
            draining: self.draining,
            overload: self.overload.standing(),
            asking: self.neighbours.asking(now).collect(),
            shortages: self.shortages.recent(now),
        }
    }

    /// Looks at a message that comes in an overload, before it is read. `false`: it gets no answer.
    #[cold]
    fn passes(&mut self, flow: Flow, bytes: &[u8]) -> bool {
        let mut unread = false;
        self.verdict = match screen(bytes, self.site.settings().emergency.as_ref()) {
            Screened::First => Some(Verdict::Take),
            Screened::Unsure => None,
            // What this server sent itself was taken on before.
            Screened::New(..) | Screened::Probe(_) | Screened::Emergency(..)
                if self.site.settings().listeners.iter().any(|l| l.address == flow.remote) =>
            {
                Some(Verdict::Take)
            }
            kind @ (Screened::New(call_id, _)
            | Screened::Emergency(call_id, _)
            | Screened::Probe(call_id)) => {
                let invite = matches!(kind, Screened::New(_, true) | Screened::Emergency(_, true));
                let (source, call) = (self.site.source(flow.remote), self.site.ownership().lot(call_id));
                let stream = flow.transport.is_reliable();
                let verdict = match kind {
                    Screened::Probe(_) => {
                        let known = self.site.settings().is_neighbour(flow.remote.ip());
                        self.overload.judge_probe(source, call, stream, known)
                    }
                    Screened::Emergency(..) => self.overload.judge_emergency(source, call, invite, stream),
                    _ => self.overload.judge(source, call, invite, stream),
                };
                // What repeats an accepted request is found out by its transaction; without transactions it
                // goes the way that it went before, for to refuse it now would end a call that rings. On a
                // stream nothing is repeated but by a hop in front that keeps no transactions.
                let stateless = self.site.settings().proxy.mode == Mode::Stateless;
                let repeats = !stream || self.site.settings().auth.is_front(flow.remote.ip());
                let asks = verdict != Verdict::Take && (stateless || verdict == Verdict::Drop && repeats);
                let known = asks && self.overload.knows(call);
                unread = verdict == Verdict::Drop && !known;
                if known && stateless {
                    self.overload.goes_on(invite);
                    Some(Verdict::Take)
                } else {
                    Some(verdict)
                }
            }
        };
        if unread {
            self.site.services().count(Counter::Unanswered);
        }
        !unread
    }

    /// Notes some of the requests that have no final answer yet, so that what repeats them is read in the
    /// overload that has begun. Until all are noted a repetition may be dropped; the next one is read.
    #[cold]
    fn remember_pending(&mut self) {
        let Node { proxied, site, overload, .. } = self;
        proxied.walk(|p| {
            if let Some(call_id) = find_call_id(p.request()) {
                overload.remember(site.ownership().lot(call_id));
            }
        });
    }

    /// What becomes of new work in an overload.
    pub(crate) fn judge(&mut self, flow: Flow, request: &Message<'_>) -> Verdict {
        let (source, call) = (self.site.source(flow.remote), self.site.ownership().lot(request.call_id()));
        let (invite, stream) = (request.method() == Method::Invite, flow.transport.is_reliable());
        match is_urgent(self.site.settings().emergency.as_ref(), request) {
            true => self.overload.judge_emergency(source, call, invite, stream),
            false => self.overload.judge(source, call, invite, stream),
        }
    }

    /// A request of this call is asked for its credentials in an overload.
    #[cold]
    pub(crate) fn challenges(&mut self, flow: Flow, call_id: &[u8]) {
        self.overload.challenges(self.site.source(flow.remote), self.site.ownership().lot(call_id));
    }

    /// What the sender of a request is to be told of our load with each response, if it asks for it (RFC 7339
    /// section 5.1) and is a trunk or in front of us: nobody else learns how we are.
    pub(crate) fn oc_of(&mut self, remote: SocketAddr, request: &Message<'_>) -> Option<OcWish> {
        let nobody = self.site.settings().trunks.is_empty() && self.site.settings().auth.fronts.is_empty();
        if nobody || !self.overload.tells() {
            return None;
        }
        let algorithm = offer(request.via().raw)?;
        if !self.site.settings().is_neighbour(remote.ip()) {
            return None;
        }
        let room = self.overload.has_room_for(self.site.source(remote));
        room.then(|| self.oc_for(remote, algorithm))
    }

    /// The same of one that asked before.
    pub(crate) fn oc_for(&mut self, remote: SocketAddr, algorithm: Algorithm) -> OcWish {
        let source = self.site.source(remote);
        self.overload.wish(source, algorithm)
    }

    /// A message for this worker. If it is worker `me` of so many who asks whether it is, and it is not, the
    /// answer is the owner.
    fn message(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        asks: Option<(u16, u16)>,
        out: &mut Outbox,
    ) -> Option<u16> {
        // A message of another worker is that one's to judge.
        let mine = |node: &Node<S>| {
            asks.is_none_or(|(me, workers)| {
                node.site.ownership().owner(bytes, workers).is_none_or(|owner| owner == me)
            })
        };
        if self.overload.sheds() && mine(self) && !self.passes(flow, bytes) {
            return None;
        }
        let limits = self.site.settings().message;
        self.with_index(|node, index| {
            let parsed = parse(bytes, index, &limits);
            let other = asks.and_then(|(me, workers)| {
                let owner = match &parsed {
                    Parsed::Good(message) => node.site.ownership().owner_of(message.call_id(), workers),
                    // What the index says of these is not all that is in them.
                    Parsed::Bad(..) | Parsed::Garbage(_) => node.site.ownership().owner(bytes, workers),
                };
                owner.filter(|owner| *owner != me)
            });
            if other.is_some() {
                return other;
            }
            match parsed {
                Parsed::Garbage(_) => node.site.services().count(Counter::Garbage),
                Parsed::Good(message) if message.is_request() => {
                    node.site.services().count_method(message.method());
                    node.request(now, flow, &message, out);
                }
                Parsed::Good(message) => {
                    node.site.services().count(Counter::Responses);
                    node.response(now, flow, &message, out);
                }
                Parsed::Bad(message, flaw) => node.flawed(flow, &message, flaw, out),
            }
            None
        })
    }

    fn flawed(&mut self, flow: Flow, message: &Message<'_>, flaw: sip_message::Flaw, out: &mut Outbox) {
        // Responses with a fault are dropped (RFC 3261 section 18.1.2), ACKs never answered.
        if message.is_request() && message.method() != Method::Ack {
            self.site.services().count(Counter::Malformed);
            self.refuse(flow, &Prepared::unread(message), flaw.status, flaw.reason.as_bytes(), b"", out);
        } else {
            self.site.services().count(Counter::Garbage);
        }
    }

    /// Acts on what transactions and timers reported.
    fn digest_events(&mut self, now: Time, out: &mut Outbox) {
        let mut events = mem::take(&mut self.events);
        // Acting on an event may bring further ones.
        let mut at = 0;
        while let Some(&event) = events.get(at) {
            // Of calls of half a minute ago: it comes from far away.
            if let Some(&Event::ServerGone { user, .. }) = events.get(at + 4) {
                self.proxied.prefetch(ProxiedId::split(user).0);
            }
            self.event(now, event, out);
            events.append(&mut self.events);
            at += 1;
        }
        events.clear();
        self.events = events;
    }

    /// What is done after each message.
    #[inline]
    fn wind_up(&mut self, now: Time, out: &mut Outbox) {
        if !self.events.is_empty() {
            self.digest_events(now, out);
        }
        self.letters.give_way(&mut self.layer);
        self.calls.release(out);
    }

    fn located(&mut self, now: Time, kind: Kind, name: &[u8], answer: Answer, ttl: u32, out: &mut Outbox) {
        let mut woken = mem::take(&mut self.woken);
        let told = self.dns.fill(now, kind, name, answer, ttl, &mut woken).cloned();
        let further = woken.contains(&NOBODY);
        if let Some(answer) = told {
            for waiter in woken.drain(..) {
                self.answered(now, waiter, &answer, out);
            }
        }
        woken.clear();
        self.woken = woken;
        if further {
            self.find_further(now);
        }
    }
}

impl<S: Services> Machine for Node<S> {
    type Notice = Notice;

    fn frame(&self, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &self.site.settings().message)
    }

    /// By the Call-ID, which every message of a call carries: requests, responses, ACK, CANCEL and BYE, on
    /// datagrams and streams alike. What has none begins nothing.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        self.site.ownership().owner(message, workers)
    }

    fn receive(&mut self, now: Time, flow: Flow, message: &[u8], out: &mut Outbox) {
        self.message(now, flow, message, None, out);
        self.wind_up(now, out);
    }

    /// The Call-ID is looked for once only, with everything else.
    fn receive_steered(
        &mut self,
        now: Time,
        flow: Flow,
        message: &[u8],
        asks: (u16, u16),
        out: &mut Outbox,
    ) -> Option<u16> {
        let other = self.message(now, flow, message, Some(asks), out);
        self.wind_up(now, out);
        other
    }

    fn refuse(&mut self, _now: Time, flow: Flow, head: &[u8], error: FrameError, out: &mut Outbox) {
        if head.is_empty() {
            return self.site.services().count(Counter::Garbage);
        }
        let limits = self.site.settings().message;
        let (status, reason) = broken_stream(error);
        self.with_index(|node, index| match parse(head, index, &limits) {
            Parsed::Good(message) | Parsed::Bad(message, _)
                if message.is_request() && message.method() != Method::Ack =>
            {
                node.site.services().count(Counter::Malformed);
                node.refuse(flow, &Prepared::unread(&message), status, reason, b"", out);
            }
            _ => node.site.services().count(Counter::Garbage),
        });
    }

    fn disconnected(&mut self, _now: Time, _conn: ConnId, _out: &mut Outbox) {
        // Bindings stay: their phones are tried at their Contacts' addresses (see `reach`).
    }

    fn undeliverable(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.letters.send_again(token, self.site.settings(), out);
        self.cut_off(now, token, out);
    }

    /// Whoever has read a response may end its connection.
    fn cut_off(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.layer.undeliverable(token, &mut self.events);
        self.digest_events(now, out);
    }

    fn returned(&mut self, now: Time, _to: SocketAddr, quoted: &[u8], out: &mut Outbox) {
        if let Some(id) = returned::client_of(quoted) {
            self.layer.lost(id, &mut self.events);
            self.digest_events(now, out);
        }
    }

    fn notice(&mut self, now: Time, notice: Notice, out: &mut Outbox) {
        match notice {
            Notice::Settings(settings) => {
                self.calls.set_limit(settings.calls);
                if self.overload.set_rules(settings.overload).is_some() {
                    self.site.services().overloaded(false, Duration::ZERO);
                }
                self.overload.set_numbers(settings.emergency.as_ref());
                self.neighbours.set_workers(settings.overload.workers);
                self.site.set_settings(settings);
                self.prober.look();
            }
            Notice::Located { kind, name, answer, ttl } => self.located(now, kind, &name, answer, ttl, out),
            Notice::Drain => self.draining = true,
            Notice::Report { from, most, show } => show(self.report(now, from, most)),
        }
    }

    fn pace(&mut self, now: Time, load: &Load) {
        self.neighbours.tidy(now);
        if let Some(change) = self.overload.pace(now, load) {
            if change == Change::Entered {
                self.proxied.begin_walk();
            }
            self.site.services().overloaded(change == Change::Entered, load.behind);
        }
        if self.overload.sheds() {
            self.remember_pending();
        }
    }

    fn sieve(&self) -> Option<wire::Sieve<'_>> {
        self.overload.sieve()
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        let mut events = mem::take(&mut self.events);
        self.layer.handle_timeout(now, out, &mut events);
        self.events = events;
        self.digest_events(now, out);
        self.probe_on(now, out);
        self.find_targets(now);
        self.calls.expire(now);
        self.calls.release(out);
    }

    fn round_ends(&mut self, now: Time, out: &mut Outbox) {
        if !self.promised.is_empty() {
            self.answer_promised(now, out);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let probe = Some(self.prober.wakes()).filter(|wakes| *wakes != Time::FAR);
        self.layer.next_deadline().into_iter().chain(probe).chain(self.site.places().found.wakes()).min()
    }
}
