//! A whole balancer: datagrams and streams of callers and nodes, answers, ways that lead nowhere, nodes that
//! come, go, fail, wake up and ask for less, and time. A story is a whole call among all that, at the end of
//! which its caller has one final response, whatever became of the nodes.
//!
//! The input is a byte that chooses the settings and a list of chunks, each ended by a byte 0xff. The first
//! byte of a chunk is an operation, the second its argument; messages stand in them as plain text.
#![no_main]

use fuzz::{Feed, check_head, check_output};
use libfuzzer_sys::fuzz_target;
use sip_balancer::token::{Key, Keys};
use sip_balancer::*;
use sip_message::{Index, Method, Name, Parsed, Response, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{ConnId, Flow, FrameError, ListenerId, Machine, Outbox, Time, Transport};

const STATUSES: [u16; 16] = [100, 180, 183, 200, 202, 301, 302, 401, 407, 408, 480, 486, 487, 500, 503, 603];
/// Most messages that one operation may cause: the probes of all nodes, and what is due.
const BURST: usize = 400;
const NODES: u8 = 3;
/// Of the listeners, in their order.
const TRANSPORTS: [Transport; 5] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Wss, Transport::Sctp];

fn settings(choice: u8) -> Settings {
    let bit = |n: u8| choice >> n & 1 == 1;
    let address = SocketAddr::from(([192, 0, 2, 100], 5060));
    let mut listeners: Vec<Listener> =
        TRANSPORTS.into_iter().map(|transport| Listener::new(transport, address, None)).collect();
    if bit(0) {
        let name = Some((b"lb.example.com".to_vec(), None));
        listeners.push(Listener::new(Transport::Udp, ([192, 0, 2, 101], 5060).into(), name));
    }
    Settings {
        algorithm: Algorithm::ALL[usize::from(choice >> 4) % Algorithm::ALL.len()].1,
        record_route: !bit(1),
        overload_control: !bit(2),
        rules: Rules {
            failed_dialogs: if bit(2) { FailedDialogs::Refuse } else { FailedDialogs::Move },
            session_timeout: Duration::from_secs(300),
            ring_timeout: Duration::from_secs(60),
            probed: !bit(3),
            ..Rules::default()
        },
        probing: Probing {
            interval: if bit(3) { Duration::ZERO } else { Duration::from_secs(1) },
            ..Probing::default()
        },
        ..Settings::new(listeners)
    }
}

fn node(at: u8) -> Node {
    let transport = [None, Some(Transport::Tcp), Some(Transport::Tls)][usize::from(at % 3)];
    Node { transport, ..Node::new(([192, 0, 2, 1 + at % NODES], 5060).into()) }
}

/// Peers 0 to 2 are the nodes, the others callers. Each has a kind of streams of its own.
fn flow(peer: u8, stream: bool) -> Flow {
    let peer = peer & 7;
    let ip = if peer < NODES { [192, 0, 2, 1 + peer] } else { [198, 51, 100, peer] };
    let listener = if stream { [1, 1, 2, 1, 2, 3, 4, 1][usize::from(peer)] } else { 0 };
    let transport = TRANSPORTS[usize::from(listener)];
    let conn = stream.then(|| ConnId::new(0, u64::from(peer)));
    Flow { transport, listener: ListenerId(listener), remote: SocketAddr::from((ip, 5060)), conn }
}

/// What is seen of a story: who had its INVITE, with the message, and the final responses to it.
struct Story {
    call: String,
    invites: Vec<(Vec<u8>, Flow)>,
    finals: BTreeSet<String>,
    /// What each node has said for good.
    said: BTreeMap<SocketAddr, u16>,
}

struct Bench {
    balancer: Balancer,
    cluster: Arc<Cluster>,
    now: Time,
    out: Outbox,
    /// Requests that were sent, and where to.
    sent: Vec<(Vec<u8>, Flow)>,
    /// The latest success that went to a caller.
    success: (Vec<u8>, Option<Flow>),
    last: (Vec<u8>, Flow),
    tokens: Vec<u64>,
    good: bool,
    story: Option<Story>,
    stories: u32,
}

impl Bench {
    fn new(choice: u8) -> Bench {
        let cluster = Cluster::new((0..NODES).map(node).collect(), 1);
        let names: Vec<(Node, String)> = (0..NODES).map(|at| (node(at), format!("n{at}.example"))).collect();
        cluster.names().prove(&names, |_| true);
        let keys = Keys { current: Key { epoch: 2, secret: [7; 16] }, previous: None, hash: [9; 16] };
        let setup =
            Setup { worker: 0, workers: 1, cluster: Arc::clone(&cluster), keys, calls: 24, seed: 1, life: 1 };
        Bench {
            balancer: Balancer::new(setup, Arc::new(settings(choice))),
            cluster,
            now: Time::from_secs(1_000),
            out: Outbox::new(),
            sent: Vec::new(),
            success: (Vec::new(), None),
            last: (Vec::new(), flow(3, false)),
            tokens: Vec::new(),
            good: true,
            story: None,
            stories: 0,
        }
    }

    fn receive(&mut self, from: Flow, message: &[u8]) {
        let mut index = Index::new();
        self.good &= matches!(parse(message, &mut index, &fuzz::wide()), Parsed::Good(_));
        for workers in [1, 3, 64] {
            assert!(self.balancer.owner(message, workers).is_none_or(|owner| owner < workers));
        }
        self.balancer.receive(wire::Arrival::new(self.now, from, message), &mut self.out);
    }

    fn operate(&mut self, chunk: &[u8]) {
        let mut feed = Feed::new(chunk);
        let (operation, argument) = (feed.byte(), feed.byte());
        let text = feed.rest();
        let at = NodeIndex(u16::from(argument % NODES));
        match operation % 15 {
            0 | 1 => {
                self.last = (text.to_vec(), flow(argument, operation % 15 == 1));
                self.receive(self.last.1, text);
            }
            2 => self.answer(argument, text),
            3 => self.repeat(argument),
            4 => self.in_dialog(argument),
            5 => self.pass(Duration::from_micros(1 << (argument % 30))),
            6 => {
                let token = self.tokens.len().checked_sub(1 + usize::from(argument & 7));
                if let Some(&token) = token.and_then(|at| self.tokens.get(at)) {
                    match argument & 8 {
                        0 => self.balancer.undeliverable(self.now, token, &mut self.out),
                        _ => self.balancer.cut_off(self.now, token, &mut self.out),
                    }
                }
            }
            7 => match argument >> 6 {
                0 => self.cluster.set_down(at, Why::ProbeTimeout),
                1 => self.cluster.set_up(at),
                2 => self.cluster.remove(self.now, at),
                _ => drop(self.cluster.add(self.now, &node(argument % NODES))),
            },
            8 => {
                let notice = Notice::Settings(Arc::new(settings(argument)));
                self.balancer.notice(self.now, notice, &mut self.out);
            }
            9 => {
                const ERRORS: [FrameError; 4] = [
                    FrameError::HeadTooLong,
                    FrameError::BodyTooLong,
                    FrameError::BadLength,
                    FrameError::NotAMessage,
                ];
                self.good = false;
                self.balancer.refuse(
                    self.now,
                    flow(4, true),
                    text,
                    ERRORS[usize::from(argument & 3)],
                    &mut self.out,
                );
            }
            10 => {
                if let Some((bytes, flow)) = self.sent.last().cloned() {
                    let part = &bytes[..bytes.len() * usize::from(argument) / 255];
                    self.balancer.returned(self.now, flow.remote, part, &mut self.out);
                }
            }
            13 => self.tell(argument, text),
            14 => self.cluster.set_rank(at, u16::from(argument >> 4)),
            11 => self.cluster.set_order(
                at,
                [Order::Serve, Order::Drain, Order::Maintenance][usize::from(argument >> 4) % 3],
            ),
            _ => {
                let notice = if argument == 0xfe { Notice::Drain(true) } else { Notice::Look };
                self.balancer.notice(self.now, notice, &mut self.out);
            }
        }
    }

    /// A whole call: one step for each octet.
    fn tell(&mut self, argument: u8, steps: &[u8]) {
        self.stories += 1;
        let (call, from) =
            (format!("story{}-8f3a61", self.stories), flow(3 + argument % 4, argument & 4 == 4));
        let spare = |report: Report| {
            let (events, counts) = (report.events, report.counts);
            (report.unkept, events.full, events.unrecorded, counts.malformed)
        };
        let before = spare(self.balancer.report(false));
        let request = |method: &str| {
            format!(
                "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/{} {};branch=z9hG4bK{call}\r\nMax-Forwards: 70\r\n\
                 From: <sip:a@example.com>;tag=a\r\nTo: <sip:bob@example.com>\r\nCall-ID: {call}\r\n\
                 CSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n",
                from.transport.via_name(),
                from.remote,
            )
        };
        let all: Vec<NodeIndex> = self.cluster.indexes().collect();
        self.story = Some(Story {
            call: call.clone(),
            invites: Vec::new(),
            finals: BTreeSet::new(),
            said: BTreeMap::new(),
        });
        self.receive(from, request("INVITE").as_bytes());
        self.check();
        for &step in steps.iter().take(24) {
            let (what, which) = (step % 8, usize::from(step >> 3));
            match what {
                // Not longer in all than a call that is over is remembered.
                0 => self.pass(Duration::from_millis(50 << (which % 5))),
                1 | 2 => {
                    let invites = self.story.as_ref().map_or(&[][..], |story| &story.invites[..]);
                    // The latest one, or an earlier one.
                    let at = invites.len().checked_sub(1 + if what == 1 { 0 } else { which >> 3 });
                    if let Some((invite, to)) = at.and_then(|at| invites.get(at)).cloned() {
                        self.say([180, 200, 486, 503, 487, 100, 500, 603][which % 8], &invite, to);
                    }
                }
                3 => {
                    let latest = self.story.as_ref().and_then(|story| story.invites.last());
                    if let Some(at) = latest.and_then(|(_, to)| self.cluster.at(to.remote)) {
                        self.cluster.set_down(at, Why::ProbeTimeout);
                    }
                    self.balancer.notice(self.now, Notice::Look, &mut self.out);
                }
                4 => all.iter().skip(which % 3).take(1).for_each(|at| self.cluster.set_up(*at)),
                5 => self.receive(from, request("CANCEL").as_bytes()),
                6 if from.transport == Transport::Udp => self.receive(from, request("INVITE").as_bytes()),
                6 => {
                    if let Some(&token) = self.tokens.last() {
                        self.balancer.undeliverable(self.now, token, &mut self.out);
                    }
                }
                _ => {
                    let at = NodeIndex(which as u16 % u16::from(NODES));
                    self.cluster.set_order(at, [Order::Serve, Order::Drain][which / 16]);
                }
            }
            self.check();
        }
        self.pass(Duration::from_secs(300));
        self.check();
        let same = spare(self.balancer.report(false)) == before;
        let Some(story) = self.story.take() else { return };
        // Where there is no room, it is the caller's and the nodes' affair.
        if same && !story.invites.is_empty() {
            assert_eq!(story.finals.len(), 1, "{call} {steps:?}: {:?}", story.finals);
        }
    }

    /// A node's response to an INVITE, with a tag of its own.
    fn say(&mut self, mut status: u16, invite: &[u8], to: Flow) {
        let Some(story) = &mut self.story else { return };
        match story.said.get(&to.remote) {
            Some(_) if status < 200 => return,
            Some(said) => status = *said,
            None if status >= 200 => drop(story.said.insert(to.remote, status)),
            None => {}
        }
        let (mut text, mut index) = (Vec::new(), Index::new());
        let Parsed::Good(m) = parse(invite, &mut index, &fuzz::wide()) else { return };
        let mut lines = b"Contact: <sip:callee@192.0.2.20:5064>\r\n".to_vec();
        for header in m.headers(Name::RecordRoute) {
            lines.extend_from_slice(&m.bytes()[header.line]);
        }
        let tag = format!("node{}", to.remote.ip());
        Response { tag: tag.as_bytes(), extra: &lines, ..Response::new(status) }.write(&m, &mut text);
        self.receive(to, &text);
    }

    /// What is to be seen of a story in a message.
    fn follow(story: &mut Story, bytes: &[u8], flow: Flow) {
        let mut index = Index::new();
        let Parsed::Good(m) = parse(bytes, &mut index, &fuzz::wide()) else { return };
        if m.call_id() != story.call.as_bytes() || m.method() != Method::Invite {
            return;
        }
        if m.is_request() {
            story.invites.push((bytes.to_vec(), flow));
        } else if m.status() >= 200 && !story.invites.is_empty() {
            // A node's 503 may be passed on as 500, and is the same.
            let tag = String::from_utf8_lossy(m.to_tag()).into_owned();
            let own = !tag.starts_with("node");
            story.finals.insert(if own { format!("{} {tag}", m.status()) } else { tag });
        }
    }

    /// The latest message of a caller again: a retransmission, or with another transaction or method.
    fn repeat(&mut self, argument: u8) {
        let (bytes, from) = self.last.clone();
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if argument & 1 == 1 {
            text = text.replacen("z9hG4bK", "z9hG4bKr", 1);
        }
        if argument & 2 == 2 {
            text = text.replace("INVITE", if argument & 4 == 4 { "ACK" } else { "CANCEL" });
        }
        self.receive(from, text.as_bytes());
    }

    /// A response to a request that the balancer sent.
    fn answer(&mut self, argument: u8, extra: &[u8]) {
        let Some(at) = self.sent.len().checked_sub(1 + usize::from(argument & 15)) else { return };
        let Some((request, flow)) = self.sent.get(at).cloned() else { return };
        let status = STATUSES[usize::from(argument >> 4)];
        let mut text = Vec::new();
        let mut index = Index::new();
        let Parsed::Good(m) = parse(&request, &mut index, &fuzz::wide()) else { return };
        let mut lines = extra.to_vec();
        if lines.is_empty() || !lines.ends_with(b"\r\n") {
            lines = b"Contact: <sip:callee@192.0.2.20:5064>\r\n".to_vec();
        }
        for header in m.headers(Name::RecordRoute) {
            lines.extend_from_slice(&m.bytes()[header.line]);
        }
        Response { tag: b"callee", extra: &lines, ..Response::new(status) }.write(&m, &mut text);
        let offer = b";oc;oc-algo=\"loss\"";
        if let Some(at) = text.windows(offer.len()).position(|w| w == offer).filter(|_| argument & 3 != 3) {
            let wish = format!(";oc={};oc-algo=\"loss\";oc-validity=5000", 30 * u32::from(argument & 3));
            text.splice(at..at + offer.len(), wish.into_bytes());
        }
        self.receive(flow, &text);
    }

    /// A request within the latest dialog, from the caller's or the callee's side.
    fn in_dialog(&mut self, argument: u8) {
        const METHODS: [&str; 4] = ["ACK", "BYE", "INVITE", "INFO"];
        let (text, Some(caller)) = self.success.clone() else { return };
        let mut index = Index::new();
        let Parsed::Good(m) = parse(&text, &mut index, &fuzz::wide()) else { return };
        let method = METHODS[usize::from(argument & 3)];
        let line =
            |name| m.header(name).map_or(String::new(), |h| String::from_utf8_lossy(h.value).into_owned());
        let (mut from, mut to) = (line(Name::From), line(Name::To));
        let routes: Vec<String> = m
            .values(Name::RecordRoute)
            .map(|r| format!("Route: {}\r\n", String::from_utf8_lossy(r)))
            .collect();
        let callee = argument >> 2 & 1 == 1;
        let source = if callee { flow(argument >> 4 & 3, argument >> 3 & 1 == 1) } else { caller };
        if callee {
            std::mem::swap(&mut from, &mut to);
        }
        let text = format!(
            "{method} sip:peer@198.51.100.3 SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKd{argument}\r\n\
             Max-Forwards: 70\r\n{}From: {from}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {} {method}\r\n\
             Content-Length: 0\r\n\r\n",
            source.remote,
            routes.concat(),
            String::from_utf8_lossy(m.call_id()),
            m.cseq().saturating_add(1),
        );
        self.receive(source, text.as_bytes());
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while let Some(next) = self.balancer.next_deadline().filter(|next| *next < end) {
            // A deadline that has passed already is looked at a moment later.
            self.now = next.max(self.now + Duration::from_millis(1));
            self.balancer.timeout(self.now, &mut self.out);
            self.check();
            steps += 1;
            assert!(steps < 100_000, "deadlines without end");
        }
        self.now = end.max(self.now);
        self.balancer.timeout(self.now, &mut self.out);
    }

    fn check(&mut self) {
        assert!(self.out.transmits().len() <= BURST, "{} messages at once", self.out.transmits().len());
        for transmit in self.out.transmits() {
            let bytes = self.out.message(transmit);
            if let Some(story) = &mut self.story {
                Bench::follow(story, bytes, transmit.flow);
            }
            match self.good {
                true => check_output(bytes, |_| {}),
                // What had a fault is passed on with it, or answered.
                false => {
                    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
                    check_head(&bytes[..end.map_or(bytes.len(), |at| at + 4)]);
                }
            }
            if bytes.starts_with(b"SIP/2.0 200") {
                self.success = (bytes.to_vec(), Some(transmit.flow));
            } else if !bytes.starts_with(b"SIP/2.0 ") {
                // A datagram holds what it may, or there was no other way.
                self.sent.push((bytes.to_vec(), transmit.flow));
            }
            // No connection is made without a name to prove, and none to a client of WebSocket.
            let Flow { transport, conn, .. } = transmit.flow;
            if transport.is_secure() && conn.is_none() && !transmit.existing {
                assert!(transport == Transport::Tls && !self.out.name(transmit).is_empty());
            }
            if transmit.token != 0 {
                self.tokens.push(transmit.token);
            }
        }
        let spare = self.sent.len().saturating_sub(16);
        self.sent.drain(..spare);
        let spare = self.tokens.len().saturating_sub(16);
        self.tokens.drain(..spare);
        self.out.clear();
        assert_eq!(self.balancer.report(true).exact, Some(true), "a counter is not what the records say");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut bench = Bench::new(choice);
    for chunk in rest.split(|&b| b == 0xff).take(60) {
        bench.operate(chunk);
        bench.check();
    }
    // Nobody speaks any more: everything is given up and forgotten. Without probes, which would never end.
    let quiet =
        Settings { probing: Probing { interval: Duration::ZERO, ..Probing::default() }, ..settings(choice) };
    bench.balancer.notice(bench.now, Notice::Settings(Arc::new(quiet)), &mut bench.out);
    bench.check();
    bench.pass(Duration::from_secs(2_000));
    bench.check();
    let report = bench.balancer.report(true);
    let left = (report.alive, report.ended, report.transactions, report.kept);
    assert_eq!(left, (0, 0, 0, 0), "records are left");
    let held: u32 = bench.cluster.indexes().map(|at| bench.cluster.held(at)).sum();
    assert_eq!(held, 0, "nodes are named by nothing");
});
