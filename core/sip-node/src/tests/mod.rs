//! The node seen from outside: datagrams and stream messages in, the outbox out, time as an argument.
//!
//! [`Lab`] is a node with everything it needs in memory. Its users live in `here.example`; callers are
//! strangers from `far.example` unless a test says otherwise, because those need no credentials.

mod access;
mod accounts;
mod adversary;
mod anonymous;
mod caller_identity;
mod calls;
mod cancel;
mod channels;
mod claims;
mod classes;
mod dialogs;
mod diverting;
mod emergency;
mod faults;
mod flows;
mod forking;
mod forwarding;
mod header_rules;
mod health;
mod identity;
mod location;
mod moved;
mod networks;
mod numbers;
mod overload;
mod own;
mod reach;
mod records;
mod records_within;
mod registrations;
mod relay;
mod relaying;
mod repeats;
mod routeless;
mod session_timers;
mod shares;
mod sieve;
mod sips;
mod stateless;
mod strangers;
mod tolerance;
mod transport;
mod trunk_accounts;
mod trunks;
mod unproven;
mod voicemail;
mod websocket;

use crate::call_forwarding::Rules;
use crate::*;
use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Decision, LocalLedger, NonceCounts, Secret, ha1,
};
use sip_message::{Index, Limits as MessageLimits, Parsed, parse};
use sip_proxy::locate::{Answer, Kind};
use sip_registrar::{BindingView, Change, ContactAt, Expected, PathPolicy, Registration, Reply, Table};
use sip_transaction::{Limits, Timers};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wire::{ConnId, Flow, ListenerId, Machine, Outbox, Time, Transport};

/// The server's address, on every listener of IPv4.
pub(crate) const US: &str = "198.51.100.1:5060";
/// A caller of another domain.
pub(crate) const CAROL: &str = "192.0.2.10:5060";
/// The phones of a user of ours.
pub(crate) const BOB: &str = "192.0.2.20:5060";
pub(crate) const BOB2: &str = "192.0.2.21:5060";
pub(crate) const BOB3: &str = "192.0.2.22:5060";
/// Lines that nearly every request has. A stranger gets at most three times as many bytes as it sends.
const USUAL: [&str; 3] = [
    "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, NOTIFY, REFER, MESSAGE, INFO, UPDATE, PRACK",
    "Supported: replaces, outbound, path, timer, 100rel, gruu",
    "User-Agent: Softphone 3.2.1 (Linux x86_64; build 2026-11-20)",
];
/// A user of ours who calls.
pub(crate) const ALICE: &str = "192.0.2.30:5060";

/// What the services remember.
pub(crate) struct Shared {
    pub table: RefCell<Table>,
    pub users: RefCell<Vec<(&'static str, &'static str, &'static str)>>,
    pub questions: RefCell<Vec<Question>>,
    /// How often was asked what is bound at an address.
    pub looked: Cell<usize>,
    pub counted: RefCell<Vec<Counter>>,
    pub observed: RefCell<Vec<Span>>,
    /// Why which name was refused.
    pub refused: RefCell<Vec<(Refusal, String)>>,
    pub refused_from: Cell<Option<IpAddr>>,
    pub store_down: Cell<bool>,
    /// Users whose bindings others may hold.
    pub elsewhere: RefCell<Vec<&'static str>>,
    /// How long a request may wait for those, milliseconds.
    pub patience: Cell<u64>,
    /// Seconds since 1970.
    pub wall_clock: Cell<Option<u64>>,
    /// Writing fails from now on.
    pub keeping_fails: Cell<bool>,
    /// How often changes were written.
    pub kept: Cell<usize>,
    /// Beginnings and ends of overloads.
    pub overloads: RefCell<Vec<bool>>,
    /// What was reported about targets.
    pub news: RefCell<Vec<String>>,
    /// What was said of calls, as frames.
    pub said: RefCell<Vec<u8>>,
    /// The classes of users at here.example that have their own.
    pub classes: RefCell<Vec<(&'static str, &'static str)>>,
    usage: RefCell<call_limits::Usage>,
    strangers: RefCell<(call_limits::Buckets, call_limits::Pace)>,
    /// What users have set for calls to them.
    pub rules: RefCell<Vec<(&'static str, Arc<Rules>)>>,
    ledger: RefCell<LocalLedger>,
}

/// A question to the resolver.
pub(crate) struct NameAsked {
    pub kind: Kind,
    pub name: Box<[u8]>,
}

/// Services in memory.
#[derive(Clone)]
pub(crate) struct World(Rc<Shared>);

impl Services for World {
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) -> Coverage {
        self.0.table.borrow().bindings(aor, now, |b| each(&b));
        let elsewhere = self.0.elsewhere.borrow();
        match elsewhere.iter().any(|user| aor == format!("{user}@here.example").as_bytes()) {
            true => Coverage::Partial { until: now + Duration::from_millis(self.0.patience.get()) },
            false => Coverage::Complete,
        }
    }

    fn expect(&self, aor: &[u8]) -> Option<Expected> {
        Some(Expected { part: 0, hash: self.0.table.borrow().expect(aor) })
    }

    fn fetch(&self, expected: Expected) {
        self.0.table.borrow().fetch(expected.hash);
    }

    fn register(
        &self,
        _aor: &[u8],
        changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown> {
        if changes && self.0.store_down.get() {
            return Err(StoreDown { retry_after: 7 });
        }
        Ok(work(&mut self.0.table.borrow_mut(), &mut Vec::new()))
    }

    fn keep(&self) -> Result<(), StoreDown> {
        self.0.kept.set(self.0.kept.get() + 1);
        if self.0.keeping_fails.get() { Err(StoreDown { retry_after: 7 }) } else { Ok(()) }
    }

    fn has_contact(&self, address: SocketAddr) -> bool {
        self.0.looked.set(self.0.looked.get() + 1);
        self.0.table.borrow().has_contact_address(address)
    }

    fn contacts(&self, contact: &ContactAt<'_>, each: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        self.0.looked.set(self.0.looked.get() + 1);
        self.0.table.borrow().contacts(contact, each)
    }

    fn is_user(&self, user: &[u8], domain: &[u8]) -> bool {
        self.0.users.borrow().iter().any(|u| u.0.as_bytes() == user && u.1.as_bytes() == domain)
    }

    fn has_rules(&self) -> bool {
        !self.0.rules.borrow().is_empty()
    }

    fn rules(&self, user: &[u8], domain: &[u8]) -> Option<Arc<Rules>> {
        let rules = self.0.rules.borrow();
        let found = rules.iter().find(|(name, _)| name.as_bytes() == user && domain == b"here.example")?;
        Some(Arc::clone(&found.1))
    }

    fn is_domain(&self, domain: &[u8]) -> bool {
        self.0.users.borrow().iter().any(|u| u.1.as_bytes() == domain)
    }

    fn class_of(&self, user: &[u8], _domain: &[u8]) -> Option<call_limits::ClassName> {
        let classes = self.0.classes.borrow();
        let own = classes.iter().find(|(name, _)| name.as_bytes() == user)?;
        Some(call_limits::ClassName::new(own.1.as_bytes()))
    }

    fn begin_call(
        &self,
        account: u64,
        limits: &call_limits::Limits,
        now: call_limits::Moment,
    ) -> Result<(), call_limits::Rule> {
        self.0.usage.borrow_mut().begin(account, limits, now)
    }

    fn end_call(&self, account: u64) {
        self.0.usage.borrow_mut().end(account);
    }

    fn admit_stranger(
        &self,
        network: u64,
        rate: call_limits::StrangerRate,
        now: Time,
    ) -> Result<(), call_limits::Held> {
        let micros = u64::try_from(now.since(Time::ZERO).as_micros()).unwrap();
        let (buckets, total) = &mut *self.0.strangers.borrow_mut();
        let held = |by_total| move |seconds| call_limits::Held { seconds, by_total };
        buckets.take(network, rate.of_network, micros).map_err(held(false))?;
        total.take(rate.total, micros).map_err(held(true))
    }

    fn unix_seconds(&self) -> i64 {
        self.0.wall_clock.get().map_or(0, |second| i64::try_from(second).unwrap())
    }

    fn check(
        &self,
        authenticator: &Authenticator,
        request: &sip_auth::Request<'_>,
        values: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision {
        let users = self.0.users.borrow();
        let mut secrets = |name: &sip_auth::Name, algorithm: Algorithm| {
            let domain = name.domain().unwrap_or(request.home);
            let found = users.iter().find(|u| u.0.as_bytes() == name.user() && u.1.as_bytes() == domain)?;
            Some(ha1(algorithm, found.0.as_bytes(), request.realm, found.2.as_bytes()))
        };
        authenticator.check(request, values, &mut secrets, &mut *self.0.ledger.borrow_mut())
    }

    fn ask(&self, question: Question) {
        self.0.questions.borrow_mut().push(question);
    }

    fn overloaded(&self, begins: bool, _behind: Duration) {
        self.0.overloads.borrow_mut().push(begins);
    }

    fn count(&self, counter: Counter) {
        self.0.counted.borrow_mut().push(counter);
    }

    fn count_method(&self, _method: sip_message::Method<'_>) {}

    fn refused(&self, why: Refusal, about: &[u8], source: IpAddr) {
        self.0.refused_from.set(Some(source));
        self.0.refused.borrow_mut().push((why, String::from_utf8_lossy(about).into_owned()));
    }

    fn date(&self, out: &mut Vec<u8>) {
        let mut text = sip_message::DateText::default();
        out.extend_from_slice(self.0.wall_clock.get().map_or(b"", |second| text.at(second)));
    }

    fn target_lost(&self, uri: &[u8], address: &Flow, failure: Failure) {
        let uri = String::from_utf8_lossy(uri);
        self.0.news.borrow_mut().push(format!("lost {uri} {} {failure:?}", address.remote));
    }

    fn unresolved(&self, name: &[u8], why: sip_proxy::locate::Error) {
        self.0.news.borrow_mut().push(format!("unresolved {} {why:?}", String::from_utf8_lossy(name)));
    }

    fn target_back(&self, uri: &[u8], address: &Flow) {
        self.0.news.borrow_mut().push(format!("back {} {}", String::from_utf8_lossy(uri), address.remote));
    }

    fn unproven(&self, source: SocketAddr, wanted: &[&[u8]], found: Option<&wire::Identity>) {
        let wanted: Vec<_> = wanted.iter().map(|name| String::from_utf8_lossy(name)).collect();
        let found = found.map_or("-".to_owned(), |found| found.names().collect::<Vec<_>>().join(" "));
        let told = format!("unproven {source} wanted {} found {found}", wanted.join(" "));
        self.0.news.borrow_mut().push(told);
    }

    fn targets_exhausted(&self, troubled: &Troubled<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let targets: Vec<String> = troubled.targets.iter().map(|t| text(t)).collect();
        let (list, name) = (troubled.list.name(), troubled.name.map_or("-".to_owned(), text));
        self.0.news.borrow_mut().push(format!("{list} {name} {}: {}", troubled.status, targets.join(" ")));
    }

    fn account_refused(&self, trunk: &[u8], address: &Flow, status: u16, why: &'static str) {
        let trunk = String::from_utf8_lossy(trunk);
        self.0.news.borrow_mut().push(format!("{trunk} at {} {status}: {why}", address.remote));
    }

    fn registration(&self, trunk: &[u8], news: &RegistrationNews) {
        let trunk = String::from_utf8_lossy(trunk);
        let told = match news {
            RegistrationNews::Registered { at, seconds } => format!("registered at {} {seconds}", at.remote),
            RegistrationNews::Refused { at, status, why } => {
                format!("refused by {} {status}: {why}", at.remote)
            }
            RegistrationNews::Failing { why } => format!("failing: {why}"),
            RegistrationNews::Ended => "ended".to_owned(),
        };
        self.0.news.borrow_mut().push(format!("{trunk} {told}"));
    }

    fn trunk_full(&self, trunk: &[u8], why: LineFull, limits: LineLimits) {
        let LineLimits { channels, calls_per_second } = limits;
        let trunk = String::from_utf8_lossy(trunk);
        self.0.news.borrow_mut().push(format!("full {trunk} {why:?} {channels} {calls_per_second}"));
    }

    fn record(&self, now: Time, name: CallName, what: What<'_>) {
        let at = u64::try_from(now.since(Time::ZERO).as_micros()).expect("a time of a test");
        let event = call_records::Event { name, at, ahead: 0, what };
        call_records::frame::write(&event, &mut self.0.said.borrow_mut());
    }

    fn observe(&self, what: Span, _micros: u64) {
        self.0.observed.borrow_mut().push(what);
    }
}

/// Settings of an ordinary server: UDP and TCP over IPv4 and IPv6, digest required.
pub(crate) fn settings() -> Settings {
    let secret = Secret { key: [1; 16], epoch: 1 };
    let listener = |transport, address: &str| Listener::new(transport, address.parse().unwrap(), None);
    Settings {
        domains: vec![b"here.example".to_vec()],
        aliases: Vec::new(),
        listeners: vec![
            listener(Transport::Udp, US),
            listener(Transport::Tcp, US),
            listener(Transport::Udp, "[2001:db8::1]:5060"),
            listener(Transport::Tcp, "[2001:db8::1]:5060"),
        ],
        admin: Some("127.0.0.1:8080".parse().unwrap()),
        auth: Auth {
            in_dialog: true,
            ..Auth::new(Arc::new(Authenticator::new(&secret, sip_auth::Config::default())))
        },
        registrar: sip_registrar::Config::default(),
        proxy: Proxy { timer_c_ms: sip_proxy::context::Policy::TIMER_C_MS, ..Proxy::default() },
        voicemail: None,
        emergency: None,
        trunks: Vec::new(),
        routes: Vec::new(),
        domain_rules: Vec::new(),
        gateways: Gateways::default(),
        message: MessageLimits::default(),
        calls: 10_000,
        overload: OverloadRules::default(),
        records: false,
    }
}

/// A trunk that serves numbers that begin with `prefix`.
pub(crate) fn trunk(targets: &[&str], prefix: &str) -> Trunk {
    Trunk {
        name: b"carrier".to_vec(),
        targets: targets.iter().map(|t| t.as_bytes().to_vec()).collect(),
        sources: vec![("203.0.113.0".parse().unwrap(), 24)],
        prefixes: vec![prefix.as_bytes().to_vec()],
        ..Trunk::default()
    }
}

/// A node and its surroundings.
pub(crate) struct Lab {
    pub node: Node<World>,
    pub world: Rc<Shared>,
    pub now: Time,
    pub settings: Settings,
    out: Outbox,
}

/// A message that left.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub flow: Flow,
    pub text: String,
    pub token: u64,
    pub hurries: bool,
    pub existing: bool,
    pub instead: bool,
    /// The name that the peer has to prove.
    pub name: String,
}

impl Lab {
    /// A node with these settings.
    pub fn with(change: impl FnOnce(&mut Settings)) -> Lab {
        Lab::limited(Limits { server: 1_000, client: 1_000, bytes: 64 << 20 }, change)
    }

    /// An ordinary server.
    pub fn new() -> Lab {
        Lab::with(|_| {})
    }

    /// A server that challenges nobody.
    pub fn open() -> Lab {
        Lab::with(|s| s.auth.enabled = false)
    }

    /// With room for so many transactions.
    pub fn limited(transactions: Limits, change: impl FnOnce(&mut Settings)) -> Lab {
        Lab::make(transactions, [6; 16], change)
    }

    /// Another server, with a key of its own.
    pub fn keyed(key: [u8; 16], change: impl FnOnce(&mut Settings)) -> Lab {
        Lab::make(Limits { server: 1_000, client: 1_000, bytes: 64 << 20 }, key, change)
    }

    fn make(transactions: Limits, hash: [u8; 16], change: impl FnOnce(&mut Settings)) -> Lab {
        let mut settings = settings();
        change(&mut settings);
        let settings = settings.watching(&Gateways::default());
        let world = Rc::new(Shared {
            table: RefCell::new(Table::new([3, 4], 10_000, false)),
            users: RefCell::new(vec![
                ("alice", "here.example", "secret-a"),
                ("bob", "here.example", "secret-b"),
                ("dave", "here.example", "secret-d"),
            ]),
            questions: RefCell::default(),
            looked: Cell::default(),
            counted: RefCell::default(),
            observed: RefCell::default(),
            refused: RefCell::default(),
            refused_from: Cell::default(),
            store_down: Cell::new(false),
            elsewhere: RefCell::default(),
            patience: Cell::new(20),
            wall_clock: Cell::new(Some(1_289_690_940)),
            keeping_fails: Cell::new(false),
            kept: Cell::new(0),
            overloads: RefCell::default(),
            news: RefCell::default(),
            said: RefCell::default(),
            classes: RefCell::default(),
            usage: RefCell::new(call_limits::Usage::new(1_000)),
            strangers: RefCell::new((call_limits::Buckets::new(1_000), call_limits::Pace::default())),
            rules: RefCell::default(),
            ledger: RefCell::new(LocalLedger {
                nonces: NonceCounts::new(1_000, Duration::from_secs(300)),
                backoff: Backoff::new(1_000, BackoffRules::default()),
                recent: None,
            }),
        });
        let config = NodeConfig {
            worker: 0,
            timers: Timers::default(),
            transactions,
            dns_cache: 100,
            keys: Keys { dialog: [5; 16], hash },
            seed: [7, 8],
        };
        let node = Node::new(config, Arc::new(settings.clone()), World(world.clone()));
        Lab { node, world, now: Time::from_secs(1_000), settings, out: Outbox::new() }
    }

    /// Another process with the same keys, settings and store.
    pub fn restart(&mut self) {
        let config = NodeConfig {
            worker: 0,
            timers: Timers::default(),
            transactions: Limits { server: 1_000, client: 1_000, bytes: 64 << 20 },
            dns_cache: 100,
            keys: Keys { dialog: [5; 16], hash: [6; 16] },
            seed: [9, 10],
        };
        self.node = Node::new(config, Arc::new(self.settings.clone()), World(self.world.clone()));
    }

    /// Changes the settings while it runs.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        let before = self.settings.gateways.clone();
        self.settings = self.settings.clone().watching(&before);
        self.notice(Notice::Settings(Arc::new(self.settings.clone())));
    }

    pub fn notice(&mut self, notice: Notice) {
        self.node.notice(self.now, notice, &mut self.out);
    }

    /// A datagram from `from`.
    pub fn send(&mut self, from: &str, text: impl AsRef<str>) {
        self.send_on(udp(from), text);
    }

    /// A message over any flow.
    pub fn send_on(&mut self, flow: Flow, text: impl AsRef<str>) {
        self.hand_over(flow, text);
        self.node.round_ends(self.now, &mut self.out);
    }

    /// A message of a round that goes on.
    pub fn hand_over(&mut self, flow: Flow, text: impl AsRef<str>) {
        let arrival = wire::Arrival::new(self.now, flow, text.as_ref().as_bytes());
        self.node.receive(arrival, &mut self.out);
    }

    /// Everything that left since this was last called.
    pub fn sent(&mut self) -> Vec<Sent> {
        let show = |t: &wire::Transmit| Sent {
            flow: t.flow,
            text: String::from_utf8(self.out.message(t).to_vec()).unwrap(),
            token: t.token,
            hurries: t.hurries,
            existing: t.existing,
            instead: t.instead,
            name: String::from_utf8(self.out.name(t).to_vec()).unwrap(),
        };
        let sent = self.out.transmits().iter().map(show).collect();
        self.out.clear();
        sent
    }

    /// For how many seconds the connections of what left matter, in order.
    pub fn kept(&self) -> Vec<u32> {
        self.out.transmits().iter().map(|t| t.keeps).collect()
    }

    /// Whether the connections of what left are in use from now on, in order.
    pub fn used(&self) -> Vec<bool> {
        self.out.transmits().iter().map(|t| t.uses).collect()
    }

    /// The one message that left.
    #[track_caller]
    pub fn one(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{:#?}", sent.iter().map(|s| &s.text).collect::<Vec<_>>());
        sent.remove(0)
    }

    /// Nothing left.
    #[track_caller]
    pub fn silent(&mut self) {
        let sent = self.sent();
        assert!(sent.is_empty(), "{:#?}", sent.iter().map(|s| &s.text).collect::<Vec<_>>());
    }

    /// A datagram and the one message it led to.
    #[track_caller]
    pub fn ask(&mut self, from: &str, text: impl AsRef<str>) -> Sent {
        self.send(from, text);
        self.one()
    }

    /// A new INVITE: expects the 100, returns the requests that left.
    #[track_caller]
    pub fn invite(&mut self, from: &str, text: impl AsRef<str>) -> Vec<Sent> {
        self.send(from, text);
        let mut sent = self.sent();
        assert!(!sent.is_empty() && sent[0].status() == 100, "{sent:#?}");
        sent.remove(0);
        sent
    }

    /// Lets time pass, with all timers at their times.
    pub fn pass(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        while let Some(due) = self.node.next_deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.node.timeout(self.now, &mut self.out);
            // The layer asks again at once when it has more to do; otherwise time goes on.
            self.now = self.now + Duration::from_micros(1);
        }
        self.now = end.max(self.now);
        self.node.timeout(self.now, &mut self.out);
    }

    /// What the transport could not deliver.
    pub fn undeliverable(&mut self, sent: &Sent) {
        assert_ne!(sent.token, 0);
        self.node.undeliverable(self.now, sent.token, &mut self.out);
    }

    /// The network gives a datagram back, with so much of it.
    pub fn give_back(&mut self, sent: &Sent, len: usize) {
        let quoted = &sent.text.as_bytes()[..len.min(sent.text.len())];
        self.node.returned(self.now, sent.flow.remote, quoted, &mut self.out);
    }

    /// Answers the questions to the resolver: an address for each A question, nothing for others.
    pub fn resolve(&mut self, address: &str) {
        self.resolve_with(|question| match question.kind {
            Kind::A => Answer::A(Box::new([address.parse().unwrap()])),
            _ => Answer::Nothing,
        });
    }

    /// Answers the questions to the resolver, and those that follow.
    pub fn resolve_with(&mut self, answer: impl Fn(&NameAsked) -> Answer) {
        loop {
            let questions = std::mem::take(&mut *self.world.questions.borrow_mut());
            if questions.is_empty() {
                return;
            }
            for q in questions {
                let Question::Name { kind, name } = q else { panic!("no name: {q:?}") };
                let asked = NameAsked { kind, name };
                let (answer, NameAsked { kind, name }) = (answer(&asked), asked);
                self.notice(Notice::Located(Located::Name { kind, name, answer, ttl: 60 }));
            }
        }
    }

    /// Registers a contact behind the node's back.
    pub fn bind(&mut self, user: &str, contact: &str, flow: Flow) {
        self.bind_with(user, contact, flow, "");
    }

    /// With further header lines.
    pub fn bind_with(&mut self, user: &str, contact: &str, flow: Flow, lines: &str) {
        let n = number();
        // Only a sips request registers a sips contact.
        let scheme = if contact.contains("sips:") { "sips" } else { "sip" };
        let text = format!(
            "REGISTER {scheme}:here.example SIP/2.0\r\nVia: SIP/2.0/UDP x;branch=z9hG4bKr{n}\r\nFrom: \
             <sip:{user}@here.example>;tag=r\r\nTo: <sip:{user}@here.example>\r\nCall-ID: reg{n}\r\n\
             CSeq: 1 REGISTER\r\nContact: {contact}\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Index::new();
        let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &MessageLimits::default()) else {
            panic!("{text}")
        };
        let aor = format!("{user}@here.example");
        let mut table = self.world.table.borrow_mut();
        let config = &self.settings.registrar;
        let registration = Registration::read(&message, aor.as_bytes(), flow, config, PathPolicy::Refuse)
            .expect("a good REGISTER");
        let reply = registration.apply(self.now, config, &mut table, &mut Vec::new());
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(reply.reason));
    }

    /// Registers phones of bob's at these addresses, over UDP, with equal q.
    pub fn phones(&mut self, addresses: &[&str]) {
        // The one registered last comes first in the target set.
        for address in addresses.iter().rev() {
            self.bind("bob", &format!("<sip:bob@{address}>"), udp(address));
        }
    }

    /// Where the bindings of a user are.
    pub fn bindings_of(&self, user: &str) -> Vec<String> {
        let mut places = Vec::new();
        let aor = format!("{user}@here.example");
        let table = self.world.table.borrow();
        table.bindings(aor.as_bytes(), self.now, |b| places.push(b.flow.remote.to_string()));
        places
    }

    /// How often something was counted.
    pub fn count(&self, counter: Counter) -> usize {
        self.world.counted.borrow().iter().filter(|c| **c == counter).count()
    }

    /// What the node holds.
    pub fn report(&self) -> Report {
        self.node.report(self.now, 0, usize::MAX)
    }

    /// Lets every transaction run out, then nothing may be left.
    #[track_caller]
    pub fn rest(&mut self) {
        // What does not answer would be probed for ever.
        let unwatched = Settings { gateways: Gateways::default(), ..self.settings.clone() };
        self.notice(Notice::Settings(Arc::new(unwatched)));
        self.pass(300_000);
        let report = self.report();
        let counts = &report.transactions;
        assert_eq!((counts.server, counts.client, counts.timers), (0, 0, 0), "{report:?}");
        assert_eq!((report.pending, counts.held_bytes), (0, 0), "{report:?}");
        assert_eq!(self.node.users().forwarder().proxied().len(), 0);
        let lines = self.settings.trunks.iter().filter_map(|trunk| trunk.line.as_ref());
        let channels: u32 = lines.map(|line| line.standing(self.now).calls).sum();
        assert!(channels as usize <= 2 * report.call_count, "{channels} channels: {report:?}");
        self.out.clear();
    }

    /// Sends a request of a local user, answers the challenge, returns what the second attempt led to.
    pub fn as_user(&mut self, from: &str, user: &str, request: &Req) -> Vec<Sent> {
        let challenge = self.ask(from, request.text());
        let again = request.answer(user, &challenge);
        self.send(from, again.text());
        self.sent()
    }
}

/// A UDP flow from an address to the listener of its family.
pub(crate) fn udp(from: &str) -> Flow {
    let remote: SocketAddr = from.parse().unwrap();
    Flow::udp(ListenerId(if remote.is_ipv4() { 0 } else { 2 }), remote)
}

/// A TCP connection from an address.
pub(crate) fn tcp(from: &str, conn: u64) -> Flow {
    let remote: SocketAddr = from.parse().unwrap();
    let listener = ListenerId(if remote.is_ipv4() { 1 } else { 3 });
    Flow { transport: Transport::Tcp, listener, remote, conn: Some(ConnId::new(0, conn)) }
}

/// Numbers that make branches, tags and Call-IDs differ.
pub(crate) fn number() -> u32 {
    thread_local!(static NEXT: Cell<u32> = const { Cell::new(1) });
    NEXT.with(|n| n.replace(n.get() + 1))
}

/// A request as a test writes it.
#[derive(Clone, Debug)]
pub(crate) struct Req {
    pub method: String,
    pub uri: String,
    pub via: String,
    pub max_forwards: String,
    pub from: String,
    pub to: String,
    pub call_id: String,
    pub cseq: u32,
    pub lines: Vec<String>,
    pub body: String,
}

impl Req {
    /// A request of carol's, from [`CAROL`].
    pub fn new(method: &str, uri: &str) -> Req {
        let n = number();
        Req {
            method: method.to_owned(),
            uri: uri.to_owned(),
            via: format!("SIP/2.0/UDP {CAROL};branch=z9hG4bKc{n}"),
            max_forwards: "70".to_owned(),
            from: format!("<sip:carol@far.example>;tag=f{n}"),
            to: format!("<{}>", uri.split([';', '?']).next().unwrap()),
            call_id: format!("call{n}"),
            cseq: 1,
            lines: [format!("Contact: <sip:carol@{CAROL}>")]
                .into_iter()
                .chain(USUAL.map(str::to_owned))
                .collect(),
            body: String::new(),
        }
    }

    /// An INVITE of carol's for bob.
    pub fn invite() -> Req {
        Req::new("INVITE", "sip:bob@here.example")
    }

    /// The same from alice, at [`ALICE`].
    pub fn alice(self) -> Req {
        let tag = tag_of(&self.from).to_owned();
        let mut req = self.sent_by("UDP", ALICE);
        req.from = format!("<sip:alice@here.example>;tag={tag}");
        req.lines = vec![format!("Contact: <sip:alice@{ALICE}>")];
        req
    }

    pub fn sent_by(mut self, transport: &str, sent_by: &str) -> Req {
        self.via = format!("SIP/2.0/{transport} {sent_by};branch=z9hG4bKv{}", number());
        self
    }

    pub fn line(mut self, line: &str) -> Req {
        self.lines.push(line.to_owned());
        self
    }

    pub fn text(&self) -> String {
        let mut text = format!("{} {} SIP/2.0\r\nVia: {}\r\n", self.method, self.uri, self.via);
        if !self.max_forwards.is_empty() {
            text += &format!("Max-Forwards: {}\r\n", self.max_forwards);
        }
        text += &format!(
            "From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} {}\r\n",
            self.from, self.to, self.call_id, self.cseq, self.method
        );
        for line in &self.lines {
            text += &format!("{line}\r\n");
        }
        text + &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body)
    }

    /// The CANCEL of this INVITE.
    pub fn cancel(&self) -> Req {
        Req { method: "CANCEL".to_owned(), lines: Vec::new(), body: String::new(), ..self.clone() }
    }

    /// The ACK for a failure (17.1.1.3).
    pub fn ack(&self, response: &Sent) -> Req {
        let to = response.get("To").unwrap().to_owned();
        Req { method: "ACK".to_owned(), to, lines: Vec::new(), body: String::new(), ..self.clone() }
    }

    /// A request within the dialog that `response` set up, from the caller (12.2.1.1).
    pub fn within(&self, method: &str, response: &Sent) -> Req {
        let n = number();
        let contact = response.get("Contact").map_or(self.uri.clone(), |c| inside(c).to_owned());
        let mut req = self.clone();
        let via = req.via.split(";branch").next().unwrap().to_owned();
        req.via = format!("{via};branch=z9hG4bKd{n}");
        (req.method, req.uri, req.body) = (method.to_owned(), contact, String::new());
        req.to = response.get("To").unwrap().to_owned();
        req.cseq += u32::from(method != "ACK");
        req.lines = response.all("Record-Route").into_iter().rev().map(|r| format!("Route: {r}")).collect();
        req
    }

    /// With the credentials that a challenge asks for.
    pub fn answer(&self, user: &str, challenge: &Sent) -> Req {
        let passwords = [("alice", "secret-a"), ("bob", "secret-b"), ("dave", "secret-d")];
        let password = passwords.iter().find(|p| p.0 == user).map_or("wrong", |p| p.1);
        self.answer_with(user, password, challenge)
    }

    pub fn answer_with(&self, user: &str, password: &str, challenge: &Sent) -> Req {
        let (line, name) = match challenge.status() {
            401 => (challenge.get("WWW-Authenticate").unwrap(), "Authorization"),
            407 => (challenge.get("Proxy-Authenticate").unwrap(), "Proxy-Authorization"),
            _ => panic!("no challenge: {}", challenge.text),
        };
        let part = |name: &str| line.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
        let (realm, nonce) = (part("realm"), part("nonce"));
        let secret = ha1(Algorithm::Md5, user.as_bytes(), realm.as_bytes(), password.as_bytes());
        let question = sip_auth::Question {
            method: self.method.as_bytes(),
            uri: self.uri.as_bytes(),
            nonce: nonce.as_bytes(),
            counted: Some((b"00000001", b"abc", b"auth")),
        };
        let response = sip_auth::response(&secret, &question);
        let response = std::str::from_utf8(response.as_bytes()).unwrap();
        let mut req = self.clone();
        let via = req.via.split(";branch").next().unwrap().to_owned();
        req.via = format!("{via};branch=z9hG4bKa{}", number());
        req.cseq += 1;
        req.line(&format!(
            "{name}: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{}\", \
             response=\"{response}\", qop=auth, nc=00000001, cnonce=\"abc\"",
            self.uri
        ))
    }
}

impl Sent {
    pub fn start(&self) -> &str {
        self.text.lines().next().unwrap_or("")
    }

    /// 0 for a request.
    pub fn status(&self) -> u16 {
        self.start().strip_prefix("SIP/2.0 ").map_or(0, |rest| rest[..3].parse().unwrap())
    }

    /// Of a request, or in the CSeq of a response.
    pub fn method(&self) -> &str {
        self.get("CSeq").and_then(|c| c.split(' ').nth(1)).unwrap_or("")
    }

    pub fn uri(&self) -> &str {
        self.start().split(' ').nth(1).unwrap_or("")
    }

    pub fn to(&self) -> String {
        self.flow.remote.to_string()
    }

    /// The values of all lines of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let head = self.text.split("\r\n\r\n").next().unwrap();
        let lines = head.split("\r\n").skip(1);
        let fits = |l: &&str| l.split(':').next().is_some_and(|n| n.trim().eq_ignore_ascii_case(name));
        lines.filter(fits).map(|l| l.split_once(':').unwrap().1.trim()).collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// The answer of whoever got this request. `tag` goes to To unless there is one or it is empty.
    pub fn reply(&self, status: u16, tag: &str, lines: &str) -> String {
        let mut text = format!("SIP/2.0 {status} Answer\r\n");
        for via in self.all("Via") {
            text += &format!("Via: {via}\r\n");
        }
        for route in self.all("Record-Route") {
            text += &format!("Record-Route: {route}\r\n");
        }
        let to = self.get("To").unwrap();
        let tag = if tag.is_empty() || to.contains("tag=") { String::new() } else { format!(";tag={tag}") };
        text += &format!(
            "From: {}\r\nTo: {to}{tag}\r\nCall-ID: {}\r\nCSeq: {}\r\n{lines}Content-Length: 0\r\n\r\n",
            self.get("From").unwrap(),
            self.get("Call-ID").unwrap(),
            self.get("CSeq").unwrap()
        );
        text
    }

    /// A 2xx with the Contact of a phone.
    pub fn accept(&self, tag: &str) -> String {
        self.reply(200, tag, &format!("Contact: <sip:bob@{}>\r\n", self.to()))
    }
}

/// The URI in angle brackets.
pub(crate) fn inside(value: &str) -> &str {
    value.split(['<', '>']).nth(1).unwrap_or(value)
}

pub(crate) fn tag_of(value: &str) -> &str {
    value.split("tag=").nth(1).unwrap_or("")
}

/// The statuses of the responses among what left.
pub(crate) fn statuses(sent: &[Sent]) -> Vec<u16> {
    sent.iter().map(Sent::status).filter(|s| *s > 0).collect()
}

/// The methods of the requests among what left, with where they went.
pub(crate) fn requests(sent: &[Sent]) -> Vec<(String, String)> {
    sent.iter().filter(|s| s.status() == 0).map(|s| (s.method().to_owned(), s.to())).collect()
}

/// A request within the dialog from the one who was called, with a From that he chooses: `got` is the
/// INVITE as he has it.
fn from_callee(got: &Sent, method: &str, address: &str, from: &str) -> Req {
    let mut req = Req::new(method, inside(got.get("Contact").unwrap())).sent_by("UDP", address);
    req.from = format!("{from};tag=b");
    req.to = got.get("From").unwrap().to_owned();
    req.call_id = got.get("Call-ID").unwrap().to_owned();
    req.lines = got.all("Record-Route").into_iter().map(|r| format!("Route: {r}")).collect();
    req
}
