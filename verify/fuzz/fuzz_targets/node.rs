//! A whole node: datagrams, stream messages, answers, credentials, names, failures and time.
//!
//! The input is a byte that chooses the settings and a list of chunks, each ended by a byte 0xff. The
//! first byte of a chunk is an operation, the second its argument; messages stand in them as plain
//! text, so that a corpus can be written by hand and a dictionary helps.
#![no_main]

use fuzz::world::{self, DOMAIN, PASSWORD, World};
use fuzz::{Feed, check_head, check_output};
use libfuzzer_sys::fuzz_target;
use sip_auth::{Algorithm, ha1, response};
use sip_message::{Index, Name, Parsed, Response, parse};
use sip_node::{BindingSet, Located, Node, Notice, Question, Settings, StoreDown};
use sip_proxy::locate::{Answer, Kind, Naptr, Srv};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::{ConnId, Flow, FrameError, ListenerId, Machine, Outbox, Time, Transport};

/// Most messages that one input may cause: the widest fork, each branch cancelled or acknowledged.
const BURST: usize = 300;
const STATUSES: [u16; 16] = [100, 180, 183, 200, 202, 301, 302, 401, 407, 408, 480, 486, 487, 500, 503, 603];

struct Bench {
    node: Node<World>,
    world: World,
    settings: Arc<Settings>,
    now: Time,
    out: Outbox,
    /// Requests that the node sent, and where to.
    sent: Vec<(Vec<u8>, Flow)>,
    /// The latest challenge and the latest success that went to a client.
    challenge: Vec<u8>,
    success: (Vec<u8>, Option<Flow>),
    /// The latest message of a client.
    last: Vec<u8>,
    tokens: Vec<u64>,
    /// Whether the message just received was one that parses.
    good: bool,
}

impl Bench {
    fn new(choice: u8) -> Bench {
        let world = World::new();
        let settings = Arc::new(world::settings(choice));
        Bench {
            node: Node::new(world::config(), Arc::clone(&settings), world.clone()),
            world,
            settings,
            now: Time::from_secs(1000),
            out: Outbox::new(),
            sent: Vec::new(),
            challenge: Vec::new(),
            success: (Vec::new(), None),
            last: Vec::new(),
            tokens: Vec::new(),
            good: true,
        }
    }

    fn receive(&mut self, from: Flow, message: &[u8]) {
        let mut index = Index::new();
        self.good = matches!(parse(message, &mut index, &self.settings.message), Parsed::Good(_));
        for workers in [1, 3, 64] {
            assert!(self.node.owner(message, workers).is_none_or(|owner| owner < workers));
        }
        self.node.receive(wire::Arrival::new(self.now, from, message), &mut self.out);
        self.node.round_ends(self.now, &mut self.out);
    }

    fn operate(&mut self, chunk: &[u8]) {
        let mut feed = Feed::new(chunk);
        let (operation, argument) = (feed.byte(), feed.byte());
        let text = feed.rest();
        match operation % 12 {
            0 => self.from_client(flow(argument, false), text),
            1 => self.from_client(flow(argument, true), text),
            2 => self.answer(argument, text),
            3 => self.authenticate(argument),
            4 => self.in_dialog(argument),
            5 => self.pass(Duration::from_micros(1 << (argument % 30))),
            6 => {
                let token = self.tokens.len().checked_sub(1 + usize::from(argument & 7));
                if let Some(&token) = token.and_then(|at| self.tokens.get(at)) {
                    self.node.undeliverable(self.now, token, &mut self.out);
                }
            }
            7 => self.name_service(argument),
            8 => {
                self.settings = Arc::new(world::settings(argument));
                self.node.notice(self.now, Notice::Settings(Arc::clone(&self.settings)), &mut self.out);
            }
            9 => {
                const ERRORS: [FrameError; 4] = [
                    FrameError::HeadTooLong,
                    FrameError::BodyTooLong,
                    FrameError::BadLength,
                    FrameError::NotAMessage,
                ];
                self.good = false;
                let error = ERRORS[usize::from(argument & 3)];
                self.node.refuse(self.now, flow(1, true), text, error, &mut self.out);
            }
            10 => self.node.disconnected(self.now, ConnId::new(0, u64::from(argument)), &mut self.out),
            _ if argument == 0xfe => self.node.notice(self.now, Notice::Drain, &mut self.out),
            _ => self.repeat(argument),
        }
    }

    fn from_client(&mut self, from: Flow, text: &[u8]) {
        self.last = text.to_vec();
        self.receive(from, text);
    }

    /// The latest message of a client again: a retransmission, or with another transaction or method.
    fn repeat(&mut self, argument: u8) {
        let mut text = String::from_utf8_lossy(&self.last).into_owned();
        if argument & 1 == 1 {
            text = text.replacen("z9hG4bK", "z9hG4bKr", 1);
        }
        if argument & 2 == 2 {
            text = text.replace("INVITE", if argument & 4 == 4 { "ACK" } else { "CANCEL" });
        }
        self.receive(flow(argument >> 4, false), text.as_bytes());
    }

    /// A response to a request that the node sent.
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
        self.receive(flow, &text);
    }

    /// The client's message again, now with the answer to the challenge.
    fn authenticate(&mut self, argument: u8) {
        let challenge = String::from_utf8_lossy(&self.challenge).into_owned();
        let last = String::from_utf8_lossy(&self.last).into_owned();
        let Some((_, nonce)) = challenge.split_once("nonce=\"") else { return };
        let nonce = nonce.split('"').next().unwrap_or_default();
        let mut words = last.split(' ');
        let (Some(method), Some(uri)) = (words.next(), words.next()) else { return };
        let user = world::USERS[usize::from(argument & 3)];
        let secret = ha1(Algorithm::Md5, user.as_bytes(), DOMAIN.as_bytes(), PASSWORD);
        let question = sip_auth::Question {
            method: method.as_bytes(),
            uri: uri.as_bytes(),
            nonce: nonce.as_bytes(),
            counted: Some((b"00000001", b"c", b"auth")),
        };
        let proof = response(&secret, &question);
        let proof = String::from_utf8_lossy(proof.as_bytes());
        let name = if challenge.contains("Proxy-Auth") { "Proxy-Authorization" } else { "Authorization" };
        let Some((line, rest)) = last.split_once("\r\n") else { return };
        let text = format!(
            "{line}\r\n{name}: Digest username=\"{user}\", realm=\"{DOMAIN}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{proof}\", qop=auth, nc=00000001, cnonce=\"c\"\r\n{}",
            rest.replacen("z9hG4bK", "z9hG4bKa", 1)
        );
        self.receive(flow(argument >> 4, argument >> 3 & 1 == 1), text.as_bytes());
    }

    /// A request within the latest dialog, from the caller's or the callee's side.
    fn in_dialog(&mut self, argument: u8) {
        const METHODS: [&str; 4] = ["ACK", "BYE", "INVITE", "MESSAGE"];
        let (text, Some(caller)) = self.success.clone() else { return };
        let mut index = Index::new();
        let Parsed::Good(m) = parse(&text, &mut index, &fuzz::wide()) else { return };
        let method = METHODS[usize::from(argument & 3)];
        let line =
            |name| m.header(name).map_or(String::new(), |h| String::from_utf8_lossy(h.value).into_owned());
        let (mut from, mut to) = (line(Name::From), line(Name::To));
        let mut routes: Vec<String> = m
            .values(Name::RecordRoute)
            .map(|r| format!("Route: {}\r\n", String::from_utf8_lossy(r)))
            .collect();
        let callee = argument >> 2 & 1 == 1;
        let source = if callee { flow(argument >> 4, false) } else { caller };
        if callee {
            std::mem::swap(&mut from, &mut to);
        } else {
            routes.reverse();
        }
        let text = format!(
            "{method} sip:peer@192.0.2.2{} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKd{argument}\r\n\
             Max-Forwards: 70\r\n{}From: {from}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {} {method}\r\n\
             Contact: <sip:x@192.0.2.9>\r\n\r\n",
            argument >> 4,
            routes.concat(),
            String::from_utf8_lossy(m.call_id()),
            m.cseq(),
        );
        self.receive(source, text.as_bytes());
    }

    fn name_service(&mut self, argument: u8) {
        let question = self.world.0.borrow_mut().questions.pop();
        let Some(question) = question else { return };
        let (kind, asked) = match question {
            Question::Name { kind, name } => (kind, name),
            Question::Bindings { aor } => return self.location_service(argument, &aor),
        };
        let name = |text: &[u8]| -> Box<[u8]> { text.into() };
        let answer = match (argument & 7, kind) {
            (0, _) => Answer::Nothing,
            (1, _) => Answer::Failed,
            (n, Kind::A) => Answer::A([Ipv4Addr::new(198, 51, 100, n), Ipv4Addr::LOCALHOST].into()),
            (_, Kind::Aaaa) => Answer::Aaaa([Ipv6Addr::LOCALHOST].into()),
            (n, Kind::Srv) => Answer::Srv(
                (0..n)
                    .map(|i| Srv {
                        priority: u16::from(i / 2),
                        weight: u16::from(argument),
                        port: 5060,
                        target: name(b"host.example.net"),
                    })
                    .collect(),
            ),
            (_, Kind::Naptr) => Answer::Naptr(
                [Naptr {
                    order: 1,
                    preference: 1,
                    flags: name(b"s"),
                    service: name(b"SIP+D2U"),
                    replacement: name(b"_sip._udp.example.net"),
                }]
                .into(),
            ),
        };
        let located = Located::Name { kind, name: asked, answer, ttl: u32::from(argument) };
        self.node.notice(self.now, Notice::Located(located), &mut self.out);
    }

    /// An answer about bindings; repeated if the argument says so.
    fn location_service(&mut self, argument: u8, aor: &[u8]) {
        let mut records = Vec::new();
        self.world.0.borrow().table.bindings(aor, self.now, |b| records.push(b.to_record(aor)));
        for _ in 0..=argument >> 2 & 1 {
            let found = match argument & 3 {
                0 => Err(StoreDown { retry_after: 5 }),
                1 => Ok(BindingSet::default()),
                _ => Ok(BindingSet::new(records.clone(), Vec::new())),
            };
            let located = Located::Bindings { aor: aor.into(), found };
            self.node.notice(self.now, Notice::Located(located), &mut self.out);
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while let Some(next) = self.node.next_deadline().filter(|next| *next < end) {
            self.now = self.now.max(next);
            self.node.timeout(self.now, &mut self.out);
            self.check();
            steps += 1;
            assert!(steps < 100_000, "deadlines without end");
        }
        self.now = end;
        self.node.timeout(end, &mut self.out);
    }

    fn check(&mut self) {
        assert!(self.out.transmits().len() <= BURST, "{} messages at once", self.out.transmits().len());
        for transmit in self.out.transmits() {
            let bytes = self.out.message(transmit);
            if show() {
                eprintln!("to {:?}: {}", transmit.flow, String::from_utf8_lossy(bytes));
            }
            let listener = self.settings.listener(transmit.flow.listener).expect("one of the listeners");
            assert_eq!(listener.transport, transmit.flow.transport);
            if bytes.starts_with(b"SIP/2.0 ") {
                if self.good {
                    check_output(bytes, |_| {});
                } else {
                    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
                    check_head(&bytes[..end.map_or(bytes.len(), |at| at + 4)]);
                }
                match &bytes[8..11] {
                    b"401" | b"407" => self.challenge = bytes.to_vec(),
                    b"200" => self.success = (bytes.to_vec(), Some(transmit.flow)),
                    _ => {}
                }
            } else {
                check_output(bytes, |_| {});
                // Responses go back to where requests came from; requests only where they may.
                let remote = transmit.flow.remote;
                let known = self.world.0.borrow().contacts.contains(&remote);
                // What the operator configured may lead anywhere, its names included.
                let trunk = bytes.windows(20).take(200).any(|w| w == b"@carrier.example.net");
                let probe = bytes.starts_with(b"OPTIONS sip:carrier.example.net ");
                let allowed = known || trunk || probe || self.settings.may_reach(remote);
                assert!(allowed, "{} sent to {remote}", bytes.escape_ascii());
                self.sent.push((bytes.to_vec(), transmit.flow));
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
    }
}

/// With FUZZ_SHOW set, what the node sends is printed: for looking at one input.
fn show() -> bool {
    static SHOW: OnceLock<bool> = OnceLock::new();
    *SHOW.get_or_init(|| std::env::var_os("FUZZ_SHOW").is_some())
}

/// Peers 0 to 11 are strangers or phones, 12 to 15 are in the trunk's network.
fn flow(peer: u8, stream: bool) -> Flow {
    let peer = peer & 15;
    let ip = if peer < 12 { [192, 0, 2, 10 + peer] } else { [198, 51, 100, peer] };
    let (transport, listener) = if stream { (Transport::Tcp, 1) } else { (Transport::Udp, 0) };
    let conn = stream.then(|| ConnId::new(0, u64::from(peer)));
    Flow { transport, listener: ListenerId(listener), remote: SocketAddr::from((ip, 5060)), conn }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut bench = Bench::new(choice);
    for chunk in rest.split(|&b| b == 0xff).take(60) {
        bench.operate(chunk);
        bench.check();
    }
    // Every question gets its answer, and then nothing more happens.
    for _ in 0..1000 {
        let question = bench.world.0.borrow_mut().questions.pop();
        let Some(question) = question else { break };
        let located = match question {
            Question::Name { kind, name } => Located::Name { kind, name, answer: Answer::Failed, ttl: 1 },
            Question::Bindings { aor } => Located::Bindings { aor, found: Ok(BindingSet::default()) },
        };
        bench.node.notice(bench.now, Notice::Located(located), &mut bench.out);
        bench.check();
    }
    bench.pass(Duration::from_secs(1000));
    bench.check();
    let report = bench.node.report(bench.now, 0, usize::MAX);
    assert_eq!(report.transactions.server, 0, "server transactions are left");
    // Targets that do not answer are probed on: one transaction for each address of a target.
    assert!(report.transactions.client <= 8, "{} client transactions are left", report.transactions.client);
    assert_eq!(report.pending, 0, "forwarded requests are left");
});
