//! What a proxied call costs in the core alone, without sockets: the SIPstone "Proxy 200" flow, driven
//! through a node in a loop. Run it under `perf stat -e instructions:u` or callgrind:
//!
//! ```text
//! cargo build --release -p sip-node --example proxy200
//! perf stat -e instructions:u target/release/examples/proxy200 200000
//! ```
//!
//! With a second argument `empty`, only the driver's own work is done; the difference is the node's.

use sip_auth::{Authenticator, Decision, Secret};
use sip_node::*;
use sip_registrar::{BindingView, Change, Reply, Table};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{Flow, ListenerId, Machine, Outbox, Time, Transport};

struct World {
    table: RefCell<Table>,
}

impl Services for World {
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) {
        self.table.borrow().bindings(aor, now, |b| each(&b));
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
    fn is_user(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
    fn is_domain(&self, _: &[u8]) -> bool {
        false
    }
    fn check(
        &self,
        _: &Authenticator,
        _: &sip_auth::Request<'_>,
        _: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision {
        Decision::Wrong
    }
    fn ask(&self, _: Question) {}
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
        auth: Auth {
            enabled: false,
            challenge: Challenge::All,
            realm: None,
            bind_from: true,
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
            timer_c_ms: 180_000,
            mtu: 1300,
        },
        voicemail: None,
        trunks: Vec::new(),
        routes: Vec::new(),
        message: sip_message::Limits::default(),
        calls: 1_000_000,
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

fn main() {
    let calls: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100_000);
    let empty = std::env::args().nth(2).is_some_and(|a| a == "empty");
    let world = World { table: RefCell::new(Table::new([1, 2], 1_000_000, false)) };
    let config = NodeConfig {
        worker: 0,
        timers: Default::default(),
        transactions: Default::default(),
        dns_cache: 100,
        keys: Keys { dialog: [3; 16], hash: [4; 16] },
        seed: [5, 6],
    };
    let mut node = Node::new(config, Arc::new(settings()), world);
    let caller = Flow::udp(ListenerId(0), "127.0.9.2:25060".parse().expect("an address"));
    let callee = Flow::udp(ListenerId(0), "127.0.9.3:25070".parse().expect("an address"));
    let mut out = Outbox::new();
    let register =
        request("REGISTER", "sip:bench.test", 0, 1, "", "", "").to_vec().into_iter().collect::<Vec<u8>>();
    let register = String::from_utf8(register)
        .expect("text")
        .replace("Contact: <sip:u1@127.0.9.2:25060>", "Contact: <sip:u1000000@127.0.9.3:25070>")
        .into_bytes();
    node.receive(Time::from_millis(1), caller, &register, &mut out);
    assert!(out.message(&out.transmits()[0]).starts_with(b"SIP/2.0 200"));
    out.clear();
    let mut now = 1_000_000u64;
    let mut sample = None;
    let mut last = Vec::new();
    for call in 0..calls {
        now += 100;
        let invite = request("INVITE", "sip:u1000000@bench.test", call, 1, "", "", SDP);
        if !(empty && sample.is_some()) {
            node.receive(Time::from_micros(now), caller, &invite, &mut out);
            let forwarded =
                out.transmits().last().map(|t| out.message(t).to_vec()).expect("a forwarded INVITE");
            assert!(forwarded.starts_with(b"INVITE"));
            sample = Some(forwarded);
        }
        let forwarded = sample.clone().expect("a forwarded INVITE");
        let routes: String = std::str::from_utf8(&forwarded)
            .expect("text")
            .split("\r\n")
            .filter(|l| l.starts_with("Record-Route:"))
            .map(|l| format!("{}\r\n", l.replace("Record-Route", "Route")))
            .collect();
        out.clear();
        let ringing = response("180 Ringing", &forwarded, ";tag=s", "");
        let ok = response("200 OK", &forwarded, ";tag=s", SDP);
        let ack = request("ACK", "sip:127.0.9.3:25070", call, 1, ";tag=s", &routes, "");
        let bye = request("BYE", "sip:127.0.9.3:25070", call, 2, ";tag=s", &routes, "");
        if !empty {
            node.receive(Time::from_micros(now), callee, &ringing, &mut out);
            node.receive(Time::from_micros(now), callee, &ok, &mut out);
            node.receive(Time::from_micros(now), caller, &ack, &mut out);
            node.receive(Time::from_micros(now), caller, &bye, &mut out);
            assert_eq!(out.transmits().len(), 4);
            last = out.transmits().last().map(|t| out.message(t).to_vec()).expect("a forwarded BYE");
            assert!(last.starts_with(b"BYE"));
        } else if last.is_empty() {
            last = bye.clone();
        }
        let done = response("200 OK", &last, ";tag=s", "");
        out.clear();
        if !empty {
            node.receive(Time::from_micros(now), callee, &done, &mut out);
            assert_eq!(out.transmits().len(), 1);
            out.clear();
            if call % 8 == 0 {
                node.timeout(Time::from_micros(now), &mut out);
            }
        }
        out.clear();
    }
    println!("{calls} calls");
}
