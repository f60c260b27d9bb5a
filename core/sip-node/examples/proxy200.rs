//! What a proxied call costs in the core alone, without sockets: the SIPstone "Proxy 200" flow, driven
//! through a node in a loop. Run it under `perf stat -e instructions:u` or callgrind:
//!
//! ```text
//! cargo build --release -p sip-node --example proxy200
//! perf stat -e instructions:u target/release/examples/proxy200 200000
//! ```
//!
//! With a second argument `digest`, INVITE and BYE are challenged, as in the second workload of verify/bench,
//! and with `stateless` nothing is remembered of a request, as in the fourth. With `empty` at its end
//! (`empty`, `digest-empty`, `stateless-empty`) only the driver's own work is done; the difference is the
//! node's.

use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Decision, Ha1, LocalLedger, Name, NonceCounts, Recent,
    Secret,
};
use sip_node::*;
use sip_registrar::{BindingView, Change, ContactAt, Reply, Table};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Arrival, Flow, ListenerId, Machine, Outbox, Time, Transport};

struct World {
    table: RefCell<Table>,
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
        Ok(work(&mut self.table.borrow_mut(), &mut Vec::new()))
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
    fn ask(&self, _: Question) {}
    fn count(&self, _: Counter) {}
    fn count_method(&self, _: sip_message::Method<'_>) {}
    fn observe(&self, _: Span, _: u64) {}
}

fn settings(digest: bool, mode: Mode) -> Settings {
    let secret = Secret { key: [1; 16], epoch: 1 };
    let address = "127.0.9.1:5060".parse().expect("an address");
    Settings {
        domains: vec![b"bench.test".to_vec()],
        aliases: Vec::new(),
        listeners: vec![Listener::new(Transport::Udp, address, None)],
        admin: None,
        auth: Auth {
            enabled: digest,
            challenge: Challenge::Only(vec![b"INVITE".to_vec(), b"BYE".to_vec()]),
            in_dialog: true,
            ..Auth::new(Arc::new(Authenticator::new(&secret, sip_auth::Config::default())))
        },
        registrar: sip_registrar::Config::default(),
        proxy: Proxy { mode, ..Proxy::default() },
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

const SDP: &str = "v=0\r\no=- 4711 4711 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 40000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

fn request(
    method: &str,
    uri: &str,
    call: usize,
    cseq: u32,
    to_tag: &str,
    extra: &str,
    body: &str,
) -> Vec<u8> {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.9.2:25060;branch=z9hG4bK-{call}-{cseq}{method}\r\n\
         {extra}Max-Forwards: 70\r\nFrom: \"Caller\" <sip:u1@bench.test>;tag=c{call}\r\n\
         To: <sip:u1000000@bench.test>{to_tag}\r\nCall-ID: L{call}-abc@127.0.9.2\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:u1@127.0.9.2:25060>\r\nUser-Agent: bench\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A response to a forwarded request: its Via and Record-Route lines and the dialog's headers.
fn response(line: &str, of: &[u8], tag: &str, body: &str) -> Vec<u8> {
    let text = std::str::from_utf8(of).expect("text");
    let mut out = format!("SIP/2.0 {line}\r\n");
    for l in text.split("\r\n").skip(1).take_while(|l| !l.is_empty()) {
        let copied = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"].iter().any(|n| l.starts_with(n));
        if copied {
            out.push_str(l);
            out.push_str("\r\n");
        } else if l.starts_with("To:") {
            out.push_str(l);
            if !l.contains("tag=") {
                out.push_str(tag);
            }
            out.push_str("\r\n");
        }
    }
    out.push_str(&format!("Contact: <sip:127.0.9.3:25070>\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    out.into_bytes()
}

/// The credentials that answer a challenge, as SIPp writes them.
fn credentials(secret: &Ha1, method: &str, uri: &str, challenge: &[u8]) -> String {
    let text = std::str::from_utf8(challenge).expect("text");
    assert!(text.starts_with("SIP/2.0 407"), "{text}");
    let nonce = text.split("nonce=\"").nth(1).and_then(|t| t.split('"').next()).expect("a nonce");
    let question = sip_auth::Question {
        method: method.as_bytes(),
        uri: uri.as_bytes(),
        nonce: nonce.as_bytes(),
        counted: None,
    };
    let sum = sip_auth::response(secret, &question);
    let digits = std::str::from_utf8(sum.as_bytes()).expect("text");
    format!(
        "Proxy-Authorization: Digest username=\"u1\",realm=\"bench.test\",uri=\"{uri}\",nonce=\"{nonce}\",\
         response=\"{digits}\",algorithm=MD5\r\n"
    )
}

/// The ACK of a refused INVITE: with its branch and the tag of the answer (RFC 3261 section 17.1.1.3).
fn refused_ack(uri: &str, call: usize, cseq: u32, answer: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(answer).expect("text");
    let to = text.split("\r\n").find(|l| l.starts_with("To:")).expect("a To");
    let tag = &to[to.find(";tag=").expect("a tag")..];
    let ack = String::from_utf8(request("INVITE", uri, call, cseq, tag, "", "")).expect("text");
    ack.replace("INVITE sip", "ACK sip")
        .replace(&format!("CSeq: {cseq} INVITE"), &format!("CSeq: {cseq} ACK"))
        .into_bytes()
}

/// A node between two phones, and the time.
struct Driver {
    node: Node<World>,
    out: Outbox,
    now: u64,
    /// Nothing is given to the node any more: what it said to the first call is said again.
    mute: bool,
}

impl Driver {
    /// Gives a message to the node; what it sent, of `sent` messages. A 100 does not count: a callee that
    /// answers soon gets none.
    fn give(&mut self, from: Flow, message: &[u8], sent: usize, said: &mut Vec<u8>) {
        if self.mute {
            return;
        }
        self.node.receive(Arrival::new(Time::from_micros(self.now), from, message), &mut self.out);
        self.node.round_ends(Time::from_micros(self.now), &mut self.out);
        let mut count = 0;
        for message in self.out.transmits().iter().map(|t| self.out.message(t)) {
            if !message.starts_with(b"SIP/2.0 100") {
                count += 1;
                said.clear();
                said.extend_from_slice(message);
            }
        }
        assert_eq!(count, sent);
        self.out.clear();
    }
}

/// What the node said to each step, kept to be said again.
#[derive(Default)]
struct Said {
    challenge: Vec<u8>,
    invite: Vec<u8>,
    bye_challenge: Vec<u8>,
    bye: Vec<u8>,
    rest: Vec<u8>,
}

fn call(d: &mut Driver, said: &mut Said, call: usize, (caller, callee): (Flow, Flow), secret: Option<&Ha1>) {
    const CALLEE: &str = "sip:u1000000@bench.test";
    const CONTACT: &str = "sip:127.0.9.3:25070";
    let mut cseq = 1;
    let mut extra = String::new();
    if let Some(secret) = secret {
        d.give(caller, &request("INVITE", CALLEE, call, cseq, "", "", SDP), 1, &mut said.challenge);
        d.give(caller, &refused_ack(CALLEE, call, cseq, &said.challenge), 0, &mut said.rest);
        extra = credentials(secret, "INVITE", CALLEE, &said.challenge);
        cseq += 1;
    }
    d.give(caller, &request("INVITE", CALLEE, call, cseq, "", &extra, SDP), 1, &mut said.invite);
    assert!(said.invite.starts_with(b"INVITE"), "{}", said.invite.escape_ascii());
    let routes: String = std::str::from_utf8(&said.invite)
        .expect("text")
        .split("\r\n")
        .filter(|l| l.starts_with("Record-Route:"))
        .map(|l| format!("{}\r\n", l.replace("Record-Route", "Route")))
        .collect();
    d.give(callee, &response("180 Ringing", &said.invite, ";tag=s", ""), 1, &mut said.rest);
    d.give(callee, &response("200 OK", &said.invite, ";tag=s", SDP), 1, &mut said.rest);
    d.give(caller, &request("ACK", CONTACT, call, cseq, ";tag=s", &routes, ""), 1, &mut said.rest);
    cseq += 1;
    let mut lines = routes.clone();
    if let Some(secret) = secret {
        let bye = request("BYE", CONTACT, call, cseq, ";tag=s", &routes, "");
        d.give(caller, &bye, 1, &mut said.bye_challenge);
        lines += &credentials(secret, "BYE", CONTACT, &said.bye_challenge);
        cseq += 1;
    }
    d.give(caller, &request("BYE", CONTACT, call, cseq, ";tag=s", &lines, ""), 1, &mut said.bye);
    assert!(said.bye.starts_with(b"BYE"));
    d.give(callee, &response("200 OK", &said.bye, ";tag=s", ""), 1, &mut said.rest);
}

fn main() {
    let calls: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100_000);
    let mode = std::env::args().nth(2).unwrap_or_default();
    let kind = if mode.starts_with("stateless") { Mode::Stateless } else { Mode::Stateful };
    run(calls, mode.starts_with("digest"), kind, mode.ends_with("empty"));
    println!("{calls} calls");
}

/// Makes `calls` calls, with or without digest; with `empty` the node sees the first of them only.
fn run(calls: usize, digest: bool, mode: Mode, empty: bool) {
    let secret = sip_auth::ha1(Algorithm::Md5, b"u1", b"bench.test", b"p");
    let ledger = LocalLedger {
        nonces: NonceCounts::new(1 << 16, Duration::from_secs(300)),
        backoff: Backoff::new(1 << 10, BackoffRules::default()),
        recent: Some(Recent::new()),
    };
    let world = World {
        table: RefCell::new(Table::new([1, 2], 1_000_000, false)),
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
    let node = Node::new(config, Arc::new(settings(digest, mode)), world);
    let mut d = Driver { node, out: Outbox::new(), now: 1_000_000, mute: false };
    let caller = Flow::udp(ListenerId(0), "127.0.9.2:25060".parse().expect("an address"));
    let callee = Flow::udp(ListenerId(0), "127.0.9.3:25070".parse().expect("an address"));
    let mut said = Said::default();
    let register = String::from_utf8(request("REGISTER", "sip:bench.test", 0, 1, "", "", ""))
        .expect("text")
        .replace("sip:u1@127.0.9.2:25060", "sip:u1000000@127.0.9.3:25070")
        .replace("sip:u1@bench.test", "sip:u1000000@bench.test");
    d.give(callee, register.as_bytes(), 1, &mut said.rest);
    assert!(said.rest.starts_with(b"SIP/2.0 200"));
    for n in 0..calls {
        // A hundred calls a second: after the first 3,200 as many transactions end as begin.
        d.now += 10_000;
        call(&mut d, &mut said, n, (caller, callee), digest.then_some(&secret));
        d.mute = empty;
        let now = Time::from_micros(d.now);
        if d.node.next_deadline().is_some_and(|deadline| deadline <= now) {
            d.node.timeout(now, &mut d.out);
            d.out.clear();
        }
    }
}

/// The flow is the node's as it is today: each step asserts what the node sends.
#[test]
fn calls_go_through_with_digest_without_and_without_memory() {
    run(40, false, Mode::Stateful, false);
    run(40, true, Mode::Stateful, false);
    run(40, false, Mode::Stateless, false);
}
