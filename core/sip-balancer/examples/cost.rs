//! Calls through the machine alone, without sockets: what to count the instructions of.
//!
//! ```text
//! cargo build --release -p sip-balancer --example cost
//! valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/cost 3000
//! ```
//!
//! The call is that of `make bench` (INVITE 180 200 ACK BYE 200): one every millisecond, each lasting 40 ms,
//! so that about 40 are up at one time. The first thousand come before what is counted, as `warm`.

use sip_balancer::token::{Key, Keys};
use sip_balancer::{Balancer, Cluster, Listener, Node, Probing, Settings, Setup};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Arrival, Flow, ListenerId, Machine, Outbox, Time, Transport};

const CALLER: &str = "127.9.1.2:5061";
const BODY: &str = "v=0\r\no=sipp 1 1 IN IP4 127.9.1.2\r\ns=call\r\nc=IN IP4 127.9.1.2\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n";

/// A call that is up: its number, the node, the INVITE as the node got it, and how often it has been looked
/// at.
struct Call {
    number: u32,
    node: SocketAddr,
    invite: String,
}

struct World {
    balancer: Balancer,
    now: Time,
    out: Outbox,
    warm: bool,
    messages: u64,
}

/// What is counted.
#[inline(never)]
fn measured(balancer: &mut Balancer, now: Time, flow: Flow, bytes: &[u8], out: &mut Outbox) {
    if balancer.next_deadline().is_some_and(|at| at <= now) {
        balancer.timeout(now, out);
    }
    balancer.receive(Arrival::new(now, flow, bytes), out);
}

#[inline(never)]
fn warm(balancer: &mut Balancer, now: Time, flow: Flow, bytes: &[u8], out: &mut Outbox) {
    balancer.timeout(now, out);
    balancer.receive(Arrival::new(now, flow, bytes), out);
}

impl World {
    /// Receives a message, and says what was sent, which is one.
    fn one(&mut self, from: SocketAddr, text: &str) -> (SocketAddr, String) {
        let flow = Flow::udp(ListenerId(0), from);
        self.out.clear();
        match self.warm {
            true => warm(&mut self.balancer, self.now, flow, text.as_bytes(), &mut self.out),
            false => measured(&mut self.balancer, self.now, flow, text.as_bytes(), &mut self.out),
        }
        self.messages += 1;
        let sent = &self.out.transmits()[0];
        assert_eq!(self.out.transmits().len(), 1, "{text}");
        (sent.flow.remote, String::from_utf8_lossy(self.out.message(sent)).into_owned())
    }
}

/// A request of the caller. `step`: its place in the scenario.
fn request(method: &str, uri: &str, number: u32, (cseq, step): (u32, u32), to: &str, routes: &str) -> String {
    let mut text = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK-12345-{number}-{step}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:u00001@example.test>;tag=12345-{number}\r\n\
         To: <sip:u00002@example.test>{to}\r\nCall-ID: {number}-12345@127.9.1.2\r\nCSeq: {cseq} {method}\r\n{routes}"
    );
    let end = match method {
        "INVITE" => write!(
            text,
            "Contact: <sip:u00001@{CALLER};transport=UDP>\r\nContent-Type: application/sdp\r\n\
             Content-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        ),
        _ => write!(text, "Content-Length: 0\r\n\r\n"),
    };
    end.expect("room");
    text
}

/// What a node says to a request.
fn response(request: &str, node: SocketAddr, status: &str, tag: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    let invite = request.starts_with("INVITE");
    for name in ["Via: ", "Record-Route: ", "From: ", "To: ", "Call-ID: ", "CSeq: "] {
        for line in request.lines().filter(|line| line.starts_with(name)) {
            let tag = if name == "To: " && !line.contains(";tag=") { tag } else { "" };
            write!(text, "{line}{tag}\r\n").expect("room");
        }
    }
    let end = match (invite, status) {
        (true, "200 OK") => write!(
            text,
            "Contact: <sip:{node};transport=UDP>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        ),
        (true, _) => write!(text, "Contact: <sip:{node};transport=UDP>\r\nContent-Length: 0\r\n\r\n"),
        _ => write!(text, "Content-Length: 0\r\n\r\n"),
    };
    end.expect("room");
    text
}

fn main() {
    let wanted: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let nodes: Vec<SocketAddr> =
        ["127.9.2.1:5060", "127.9.2.2:5060"].map(|a| a.parse().expect("it")).to_vec();
    let cluster = Cluster::new(nodes.into_iter().map(Node::new).collect(), 1);
    let keys = Keys { current: Key { epoch: 1, secret: [7; 16] }, previous: None, hash: [9; 16] };
    let setup = Setup { worker: 0, workers: 1, cluster, keys, calls: 100_000, seed: 1, life: 1 };
    let listener = Listener::new(Transport::Udp, "127.9.3.1:5060".parse().expect("an address"), None);
    let probing = Probing { interval: Duration::ZERO, ..Probing::default() };
    let settings = Settings { probing, ..Settings::new(vec![listener]) };
    let caller: SocketAddr = CALLER.parse().expect("an address");
    let mut world = World {
        balancer: Balancer::new(setup, Arc::new(settings)),
        now: Time::from_secs(100),
        out: Outbox::new(),
        warm: true,
        messages: 0,
    };
    let (mut ringing, mut up) = (VecDeque::new(), VecDeque::new());
    for number in 10_000..10_000 + 1_000 + wanted {
        world.warm = number < 11_000;
        world.now = world.now + Duration::from_millis(1);
        let tag = format!(";tag=23456-{number}");
        let text = request("INVITE", "sip:u00002@example.test", number, (1, 0), "", "");
        let (node, invite) = world.one(caller, &text);
        world.one(node, &response(&invite, node, "180 Ringing", &tag));
        ringing.push_back(Call { number, node, invite });
        if ringing.len() > 20
            && let Some(call) = ringing.pop_front()
        {
            let (uri, tag) =
                (format!("sip:{};transport=UDP", call.node), format!(";tag=23456-{}", call.number));
            world.one(call.node, &response(&call.invite, call.node, "200 OK", &tag));
            let routes = routes(&call.invite);
            world.one(caller, &request("ACK", &uri, call.number, (1, 5), &tag, &routes));
            up.push_back(call);
        }
        if up.len() > 20
            && let Some(call) = up.pop_front()
        {
            let (uri, tag) =
                (format!("sip:{};transport=UDP", call.node), format!(";tag=23456-{}", call.number));
            let text = request("BYE", &uri, call.number, (2, 7), &tag, &routes(&call.invite));
            let (node, bye) = world.one(caller, &text);
            world.one(node, &response(&bye, node, "200 OK", ""));
        }
    }
    println!("{} messages, {:?}", world.messages, world.balancer.report(true).exact);
}

/// The route set that the caller learns (RFC 3261 section 12.1.2).
fn routes(invite: &str) -> String {
    let lines = invite.lines().filter_map(|line| line.strip_prefix("Record-"));
    lines.map(|line| format!("{line}\r\n")).collect()
}
