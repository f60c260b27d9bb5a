//! What a registration with digest costs in the core alone, without sockets and disk: REGISTER, 401,
//! REGISTER with credentials, 200, driven through a node in a loop. Run it under
//! `perf stat -e instructions:u` or callgrind:
//!
//! ```text
//! cargo build --release -p sip-node --example register
//! perf stat -e instructions:u target/release/examples/register 100000
//! ```
//!
//! With a second argument `empty`, only the driver's own work is done; the difference is the node's.

use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Decision, Ha1, LocalLedger, Name, NonceCounts, Question,
    Recent, Secret, ha1, response,
};
use sip_node::{
    Auth, Counter, Coverage, Keys, Listener, Node, NodeConfig, OverloadRules, Proxy, Services, Settings,
    Span, StoreDown,
};
use sip_registrar::{BindingView, Change, ContactAt, Reply, Table};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Arrival, Flow, ListenerId, Machine, Outbox, Time, Transport};

struct World {
    table: RefCell<Table>,
    changes: RefCell<Vec<Change>>,
    ledger: RefCell<LocalLedger>,
    secret: Ha1,
}

impl Services for World {
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
    fn is_user(&self, _: &[u8], _: &[u8]) -> bool {
        true
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
        let mut lookup = |_: &Name, _: Algorithm| Some(self.secret);
        authenticator.check(request, values, &mut lookup, &mut *self.ledger.borrow_mut())
    }
    fn challenged(&self, realm: &[u8], minted: sip_auth::Minted) {
        self.ledger.borrow_mut().note(realm, minted);
    }
    fn ask(&self, _: sip_node::Question) {}
    fn count(&self, _: Counter) {}
    fn count_method(&self, _: sip_message::Method<'_>) {}
    fn observe(&self, _: Span, _: u64) {}
}

fn settings() -> Settings {
    let secret = Secret { key: [1; 16], epoch: 1 };
    let address = "127.0.9.1:5060".parse().expect("an address");
    Settings {
        domains: vec![b"bench.test".to_vec()],
        aliases: Vec::new(),
        listeners: vec![Listener::new(Transport::Udp, address, None)],
        admin: None,
        auth: Auth::new(Arc::new(Authenticator::new(&secret, sip_auth::Config::default()))),
        registrar: sip_registrar::Config::default(),
        proxy: Proxy::default(),
        voicemail: None,
        emergency: None,
        trunks: Vec::new(),
        gateways: Default::default(),
        routes: Vec::new(),
        domain_rules: Vec::new(),
        message: sip_message::Limits::default(),
        calls: 1_000_000,
        overload: OverloadRules::default(),
        records: false,
    }
}

/// The digest `uri` as SIPp and some phones write it: the server's address.
const URI: &str = "sip:127.0.9.1:5060";

fn request(user: usize, cseq: u32, credentials: &str) -> Vec<u8> {
    format!(
        "REGISTER sip:bench.test SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.9.2:25060;branch=z9hG4bK-{user}-{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:u{user}@bench.test>;tag=4711r{user}\r\nTo: <sip:u{user}@bench.test>\r\n\
         Call-ID: {user}-4711@127.0.9.2\r\nCSeq: {cseq} REGISTER\r\n\
         Contact: <sip:u{user}@127.0.9.2:25060>\r\n{credentials}Expires: 3600\r\nUser-Agent: bench\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// The credentials that answer a challenge.
fn credentials(secret: &Ha1, user: usize, challenge: &[u8]) -> String {
    let text = std::str::from_utf8(challenge).expect("text");
    let nonce = text.split("nonce=\"").nth(1).and_then(|t| t.split('"').next()).expect("a nonce");
    let question =
        Question { method: b"REGISTER", uri: URI.as_bytes(), nonce: nonce.as_bytes(), counted: None };
    let sum = response(secret, &question);
    let digits = std::str::from_utf8(sum.as_bytes()).expect("text");
    format!(
        "Authorization: Digest username=\"u{user}\",realm=\"bench.test\",uri=\"{URI}\",nonce=\"{nonce}\",\
         response=\"{digits}\",algorithm=MD5\r\n"
    )
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100_000);
    run(count, std::env::args().nth(2).is_some_and(|a| a == "empty"));
    println!("{count} registrations");
}

/// Registers `count` phones; with `empty` the node sees the first request only.
fn run(count: usize, empty: bool) {
    let secret = ha1(Algorithm::Md5, b"u", b"bench.test", b"p");
    let ledger = LocalLedger {
        nonces: NonceCounts::new(1 << 16, Duration::from_secs(300)),
        backoff: Backoff::new(1 << 10, BackoffRules::default()),
        recent: Some(Recent::new()),
    };
    let world = World {
        table: RefCell::new(Table::new([1, 2], 1_000_000, true)),
        changes: RefCell::default(),
        ledger: RefCell::new(ledger),
        secret,
    };
    let config = NodeConfig {
        worker: 0,
        timers: Default::default(),
        transactions: Default::default(),
        dns_cache: 100,
        keys: Keys { dialog: [3; 16], hash: [4; 16] },
        seed: [5, 6],
    };
    let mut node = Node::new(config, Arc::new(settings()), world);
    let phone = Flow::udp(ListenerId(0), "127.0.9.2:25060".parse().expect("an address"));
    let mut out = Outbox::new();
    let mut now = 1_000_000u64;
    let mut challenge = Vec::new();
    for user in 1_000_000..1_000_000 + count {
        now += 100;
        let first = request(user, 1, "");
        if !empty || challenge.is_empty() {
            node.receive(Arrival::new(Time::from_micros(now), phone, &first), &mut out);
            challenge.clear();
            challenge.extend_from_slice(out.message(&out.transmits()[0]));
            assert!(challenge.starts_with(b"SIP/2.0 401"));
            out.clear();
        }
        let second = request(user, 2, &credentials(&secret, user, &challenge));
        if !empty {
            node.receive(Arrival::new(Time::from_micros(now), phone, &second), &mut out);
            node.round_ends(Time::from_micros(now), &mut out);
            assert!(out.message(&out.transmits()[0]).starts_with(b"SIP/2.0 200"));
            out.clear();
            if user % 8 == 0 {
                node.timeout(Time::from_micros(now), &mut out);
                out.clear();
            }
        }
    }
}

/// The flow is the node's as it is today: each step asserts what the node sends.
#[test]
fn phones_register_with_digest() {
    run(40, false);
}
