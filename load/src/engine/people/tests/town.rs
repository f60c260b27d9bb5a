//! A server and two workers full of users, without a socket: a node of this suite's own core, and virtual
//! time.

use super::super::{Names, People, Settings};
use crate::metrics::{Counters, Metrics, Setup, Side, Window};
use crate::population::{Parameters, Phase, Phases};
use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Decision, LocalLedger, Name, NonceCounts, Secret, ha1,
};
use sip_node::{
    Auth, Challenge, Counter, Coverage, Keys, Listener, Mode, Node, NodeConfig, Proxy, Services, Span,
    StoreDown, Voicemail,
};
use sip_proxy::context::Reroute;
use sip_registrar::{BindingView, Change, ContactAt, Reply, Table};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Flow, ListenerId, Machine, Outbox, Time, Transport};

pub const SERVER: &str = "192.0.2.1:5060";
const MAILBOX: &str = "192.0.2.9:5090";
const USERS: [&str; 2] = ["192.0.2.2:6060", "192.0.2.2:6061"];
/// When the server and the run begin; a node wants to be some time after zero.
const START: Time = Time::from_secs(1_000);

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// What the server knows: users `u1000000` and so on of `town.test`, with passwords `p1000000` and so on.
pub struct Office {
    table: RefCell<Table>,
    changes: RefCell<Vec<Change>>,
    ledger: RefCell<LocalLedger>,
}

impl Services for Office {
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) -> Coverage {
        self.table.borrow().bindings(aor, now, |b| each(&b));
        Coverage::Complete
    }
    fn register(
        &self,
        _aor: &[u8],
        _changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown> {
        let changes = &mut *self.changes.borrow_mut();
        let reply = work(&mut self.table.borrow_mut(), changes);
        changes.clear();
        Ok(reply)
    }
    fn has_contact(&self, _: SocketAddr) -> bool {
        false
    }
    fn contacts(&self, _: &ContactAt<'_>, _: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        false
    }
    fn is_user(&self, user: &[u8], domain: &[u8]) -> bool {
        user.starts_with(b"u1") && domain == b"town.test"
    }
    fn is_domain(&self, _: &[u8]) -> bool {
        false
    }
    fn check(
        &self,
        authenticator: &Authenticator,
        request: &sip_auth::Request<'_>,
        values: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision {
        let mut lookup = |name: &Name, algorithm: Algorithm| {
            let name = name.as_bytes();
            let password = [b"p", name.strip_prefix(b"u")?].concat();
            Some(ha1(algorithm, name, b"town.test", &password))
        };
        authenticator.check(request, values, &mut lookup, &mut *self.ledger.borrow_mut())
    }
    fn ask(&self, _: sip_node::Question) {}
    fn count(&self, _: Counter) {}
    fn count_method(&self, _: sip_message::Method<'_>) {}
    fn observe(&self, _: Span, _: u64) {}
}

fn server(mailbox: bool) -> Node<Office> {
    let office = Office {
        table: RefCell::new(Table::new([1, 2], 1_000_000, true)),
        changes: RefCell::default(),
        ledger: RefCell::new(LocalLedger {
            nonces: NonceCounts::new(1 << 16, Duration::from_secs(300)),
            backoff: Backoff::new(1 << 10, BackoffRules::default()),
            recent: None,
        }),
    };
    let secret = Secret { key: [1; 16], epoch: 1 };
    let settings = sip_node::Settings {
        domains: vec![b"town.test".to_vec()],
        aliases: Vec::new(),
        listeners: vec![Listener::new(Transport::Udp, address(SERVER), None)],
        admin: None,
        records: false,
        auth: Auth {
            enabled: true,
            challenge: Challenge::All,
            realm: None,
            bind_from: true,
            in_dialog: true,
            fronts: Vec::new(),
            authenticator: Arc::new(Authenticator::new(&secret, sip_auth::Config::default())),
        },
        registrar: sip_registrar::Config::default(),
        proxy: Proxy {
            mode: Mode::Stateful,
            parallel: true,
            record_route: true,
            recurse: false,
            max_breadth: 60,
            max_forwards: 70,
            timer_c_ms: 185_000,
            trying_ms: 0,
            mtu: 1300,
            strangers: sip_node::Strangers::default(),
            ..Proxy::default()
        },
        voicemail: mailbox.then(|| Voicemail {
            uri: format!("sip:voicemail@{MAILBOX}").into_bytes(),
            on: Reroute::BUSY,
            no_answer_ms: 0,
            silent_after_ms: 2_000,
        }),
        emergency: None,
        trunks: Vec::new(),
        routes: Vec::new(),
        domain_rules: Vec::new(),
        gateways: Default::default(),
        message: sip_message::Limits::default(),
        calls: 1_000_000,
        overload: sip_node::OverloadRules::default(),
    };
    let config = NodeConfig {
        worker: 0,
        timers: Default::default(),
        transactions: Default::default(),
        dns_cache: 100,
        keys: Keys { dialog: [3; 16], hash: [4; 16] },
        seed: [5, 6],
    };
    Node::new(config, Arc::new(settings), office)
}

/// A town of users, and its exchange.
pub struct Town {
    pub now: Time,
    pub people: Vec<People>,
    server: Node<Office>,
    mailbox: bool,
    /// Whether the n-th message is lost.
    pub lost: fn(u64) -> bool,
    /// Whether a message of the server's to a user, of this first line, is lost.
    pub kept: fn(&str) -> bool,
    pub passed: u64,
    parameters: Parameters,
    /// Calls of which a BYE was seen, and ACKs of theirs that came after it.
    byes: BTreeSet<String>,
    /// The credentials of each call's last INVITE.
    proofs: BTreeMap<String, String>,
    pub late: usize,
    /// First lines of the messages of one Call-ID.
    pub log: Vec<String>,
}

impl Town {
    pub fn new(parameters: &Parameters, mailbox: bool, change: impl Fn(&mut Settings)) -> Town {
        let phases = Phases::of(parameters, START);
        let (from, until) = phases.window();
        let mut listeners: Vec<SocketAddr> = Vec::new();
        listeners.extend(mailbox.then(|| address(MAILBOX)));
        let own_from = listeners.len() as u16;
        listeners.extend(USERS.map(address));
        let person = |worker| {
            let mut settings = Settings {
                worker,
                workers: 2,
                run_id: 0x1234_5678,
                parameters: parameters.clone(),
                names: Arc::new(Names::counted("u1000000", "p1000000").unwrap()),
                domain: "town.test".to_owned(),
                transport: Transport::Udp,
                remote: address(SERVER),
                listeners: listeners.clone(),
                alias: None,
                own_from,
                mailbox: mailbox.then_some(ListenerId(0)),
                away: 486,
                reuse_nonces: false,
                most_calls: 1_000,
                seed: 7,
                start: START,
                metrics: Setup {
                    origin: START,
                    window: Window { from, until },
                    ramp: Some(Window { from: START, until: phases.start_of(Phase::WarmUp) }),
                    ..Setup::default()
                },
                ladders: 5,
            };
            change(&mut settings);
            People::new(settings).unwrap()
        };
        Town {
            now: START,
            people: vec![person(0), person(1)],
            server: server(mailbox),
            mailbox,
            lost: |_| false,
            kept: |_| false,
            passed: 0,
            parameters: parameters.clone(),
            byes: BTreeSet::new(),
            proofs: BTreeMap::new(),
            late: 0,
            log: Vec::new(),
        }
    }

    /// Checks that the ACK of a 2xx has the credentials of its INVITE (RFC 3261 section 13.2.2.4).
    fn look_at_proof(&mut self, text: &str) {
        let line =
            |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        let (call, proof) = (line("Call-ID: "), line("Proxy-Authorization: "));
        match text.split(' ').next() {
            Some("INVITE") => drop(self.proofs.insert(call, proof)),
            Some("BYE") => drop(self.byes.insert(call)),
            Some("ACK") if text.contains("\r\nRoute: ") => {
                assert_eq!(Some(&proof), self.proofs.get(&call), "{text}");
                self.late += usize::from(self.byes.contains(&call));
            }
            _ => {}
        }
    }

    /// Delivers what is in `out` of a worker (or the server: none), and what follows from it.
    fn deliver(&mut self, from: Option<usize>, out: &Outbox) {
        type Letter = (SocketAddr, SocketAddr, Vec<u8>);
        let own_from = usize::from(self.mailbox);
        let mut listeners: Vec<SocketAddr> = Vec::new();
        listeners.extend(self.mailbox.then(|| address(MAILBOX)));
        listeners.extend(USERS.map(address));
        let letters = |from: Option<usize>, out: &Outbox| -> Vec<Letter> {
            let source = |flow: &Flow| match from {
                Some(_) => listeners[usize::from(flow.listener.0)],
                None => address(SERVER),
            };
            let mut all = Vec::new();
            for transmit in out.transmits() {
                all.push((source(&transmit.flow), transmit.flow.remote, out.message(transmit).to_vec()));
            }
            all
        };
        let mut waiting: VecDeque<Letter> = letters(from, out).into();
        while let Some((source, to, bytes)) = waiting.pop_front() {
            self.passed += 1;
            if (self.lost)(self.passed) {
                continue;
            }
            let text = String::from_utf8_lossy(&bytes);
            if to == address(SERVER) {
                self.look_at_proof(&text);
            }
            self.log.push(format!("{source} {to} {}", text.lines().next().unwrap_or_default()));
            let mut out = Outbox::new();
            if to == address(SERVER) {
                self.server.receive(
                    wire::Arrival::new(self.now, Flow::udp(ListenerId(0), source), &bytes),
                    &mut out,
                );
                self.server.round_ends(self.now, &mut out);
                waiting.extend(letters(None, &out));
                continue;
            }
            if (self.kept)(text.lines().next().unwrap_or_default()) {
                continue;
            }
            let Some(listener) = listeners.iter().position(|own| *own == to) else { panic!("{to}: {text}") };
            let owner = usize::from(self.people[0].owner(&bytes, 2).unwrap_or(0));
            assert!(listener < own_from || owner == listener - own_from, "{to} is not of {owner}: {text}");
            let flow = Flow::udp(ListenerId(listener as u16), source);
            self.people[owner].receive(wire::Arrival::new(self.now, flow, &bytes), &mut out);
            waiting.extend(letters(Some(owner), &out));
        }
    }

    /// Lets time pass until `until`, event by event.
    pub fn pass(&mut self, until: Time) {
        loop {
            let people = self.people.iter().filter_map(Machine::next_deadline);
            let next = people.chain(self.server.next_deadline()).min();
            let Some(next) = next.map(|at| at.max(self.now)).filter(|&at| at <= until) else { break };
            self.now = next;
            for worker in 0..self.people.len() {
                let mut out = Outbox::new();
                self.people[worker].timeout(self.now, &mut out);
                self.deliver(Some(worker), &out);
            }
            let mut out = Outbox::new();
            self.server.timeout(self.now, &mut out);
            self.deliver(None, &out);
        }
        self.now = until;
    }

    /// The whole run; the record of all.
    pub fn run(mut self) -> (Metrics, Town) {
        let phases = Phases::of(&self.parameters, START);
        self.pass(phases.start_of(Phase::Over));
        let now = self.now;
        let mut all: Option<Metrics> = None;
        for people in &mut self.people {
            assert!(people.is_done(now));
            let record = people.record(now);
            match &mut all {
                Some(all) => all.merge(&record.metrics),
                None => all = Some(*record.metrics),
            }
        }
        (all.unwrap(), self)
    }

    /// The first failing flow, for a test that fails.
    pub fn ladder(&self) -> String {
        let all = self.people.iter().flat_map(|people| people.ladders.kept());
        all.map(crate::metrics::Ladder::text).next().unwrap_or_default()
    }
}

/// Ended well, cancelled, failed and unfinished calls of one side.
pub fn ends(counters: &Counters, side: Side) -> [u64; 4] {
    let side = &counters.sides[side as usize];
    [side.succeeded, side.cancelled, side.failures(), side.unfinished()]
}
