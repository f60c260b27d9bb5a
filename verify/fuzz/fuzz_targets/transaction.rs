//! Operation sequences on the transaction layer, checked against what must hold whatever peers,
//! transport and transaction user do: one final response, every message to its transaction's own
//! flow, one end for each transaction, the caps, and emptiness once traffic stops.
#![no_main]

use fuzz::{Feed, flow};
use libfuzzer_sys::fuzz_target;
use sip_message::{Index, Message, Method, Parsed, Response, parse};
use sip_transaction::{
    ClientId, ClientRequest, Event, Inbound, Layer, Limits, Outcome, Payer, ServerId, Timers,
};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Flow, Outbox, Time};

const CAP: usize = 8;
const METHODS: [&str; 6] = ["INVITE", "BYE", "OPTIONS", "MESSAGE", "ACK", "CANCEL"];
const STATUSES: [u16; 10] = [100, 180, 183, 200, 202, 302, 407, 408, 487, 603];

struct Server {
    request: Vec<u8>,
    flow: Flow,
    invite: bool,
    failures: u32,
    successes: u32,
    over: bool,
}

struct Client {
    request: Vec<u8>,
    flow: Flow,
    invite: bool,
    cancelled: bool,
    failures: u32,
    successes: u32,
    over: bool,
}

struct Bench {
    layer: Layer,
    now: Time,
    out: Outbox,
    events: Vec<Event>,
    servers: BTreeMap<ServerId, Server>,
    clients: BTreeMap<ClientId, Client>,
    tokens: Vec<u64>,
}

fn with<R>(bytes: &[u8], then: impl FnOnce(&Message<'_>) -> R) -> R {
    let mut index = Index::new();
    match parse(bytes, &mut index, &fuzz::wide()) {
        Parsed::Good(message) => then(&message),
        other => panic!("{other:?} from {}", bytes.escape_ascii()),
    }
}

/// A header value that is text and has no line end.
fn line_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split("\r\n").find_map(|line| line.strip_prefix(name))
}

impl Bench {
    fn receive(&mut self, feed: &mut Feed<'_>) {
        let method = METHODS[feed.below(METHODS.len())];
        let shape = feed.byte();
        // No cookie at all is RFC 2543; the others differ in branch, in nothing else, or in tags.
        let branch = match shape & 7 {
            0 => "branch=old".to_owned(),
            1 => "rport".to_owned(),
            n => format!("branch=z9hG4bK{n}"),
        };
        let host = ["a.example.com", "b.example.com:5062"][usize::from(shape >> 3 & 1)];
        let to_tag = if shape >> 4 & 1 == 1 { ";tag=to" } else { "" };
        let (call, cseq) = (shape >> 5 & 1, shape >> 6 & 1);
        let from = flow(feed.byte() & 3, shape >> 7 == 1);
        let text = format!(
            "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {host};{branch}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@example.com>;tag=from\r\nTo: <sip:bob@example.com>{to_tag}\r\nCall-ID: {call}\r\n\
             CSeq: {cseq} {method}\r\n\r\n"
        );
        let inbound = with(text.as_bytes(), |m| self.layer.receive_request(self.now, m, from, &mut self.out));
        let (Inbound::New(id) | Inbound::Cancel { id, .. }) = inbound else { return };
        if let Inbound::Cancel { invite: Some(invite), .. } = inbound {
            assert!(self.servers[&invite].invite && !self.servers[&invite].over);
        }
        let server = Server {
            request: text.into_bytes(),
            flow: from,
            invite: method == "INVITE",
            failures: 0,
            successes: 0,
            over: false,
        };
        assert!(self.servers.insert(id, server).is_none(), "an id given twice");
    }

    fn respond(&mut self, feed: &mut Feed<'_>) {
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        let Some(id) = feed.pick(&ids) else { return };
        let status = STATUSES[feed.below(STATUSES.len())];
        let server = self.servers.get_mut(&id).expect("it was picked");
        let mark = format!("X-Id: {}\r\n", id.as_u64());
        let mut text = Vec::new();
        with(&server.request, |m| {
            Response { tag: b"tag", extra: mark.as_bytes(), ..Response::new(status) }.write(m, &mut text);
        });
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&text);
        let sent = self.layer.respond(self.now, id, status, &mut self.out, write);
        assert!(!(sent && server.over), "a response of a transaction that is over");
        if sent && status >= 200 {
            *(if status < 300 { &mut server.successes } else { &mut server.failures }) += 1;
        }
        assert!(server.failures <= 1 && (server.failures == 0 || server.successes == 0));
        assert!(server.invite || server.failures + server.successes <= 1, "two final responses");
    }

    fn send(&mut self, feed: &mut Feed<'_>) {
        let full = self.layer.counts().client - self.layer.counts().cancels >= CAP;
        let Some(id) = self.layer.reserve_client(Payer::PROVEN) else {
            return assert!(full, "refused with room left");
        };
        assert!(!full, "more than the cap");
        let choice = feed.byte();
        if choice & 0xf == 0xf {
            return;
        }
        let method = if choice & 1 == 0 { Method::Invite } else { Method::Message };
        let name = String::from_utf8_lossy(method.as_bytes()).into_owned();
        let to = flow(choice >> 1 & 3, choice >> 3 & 1 == 1);
        let text = format!(
            "{name} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP us;branch=z9hG4bK{}\r\n\
             Via: SIP/2.0/UDP them;branch=z9hG4bKup\r\nMax-Forwards: 70\r\nRoute: <sip:r;lr>\r\n\
             From: <sip:a@example.com>;tag=from\r\nTo: <sip:bob@example.com>\r\nCall-ID: 9\r\nCSeq: 5 {name}\r\n\r\n",
            String::from_utf8_lossy(&id.encode())
        );
        let write = |out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        let request = ClientRequest { id, method, flow: to, user: id.as_u64(), delivery: wire::Delivery::default(), name: b"" };
        assert!(self.layer.send_request(self.now, &request, &mut self.out, write));
        let client = Client {
            request: text.into_bytes(),
            flow: to,
            invite: method == Method::Invite,
            cancelled: false,
            failures: 0,
            successes: 0,
            over: false,
        };
        assert!(self.clients.insert(id, client).is_none(), "an id given twice");
    }

    fn hear(&mut self, feed: &mut Feed<'_>) {
        let ids: Vec<ClientId> = self.clients.keys().copied().collect();
        let Some(id) = feed.pick(&ids) else { return };
        let status = STATUSES[feed.below(STATUSES.len())];
        let choice = feed.byte();
        let client = self.clients.get_mut(&id).expect("it was picked");
        let mut text = Vec::new();
        let tag: &[u8] = if choice & 1 == 0 { b"one" } else { b"two" };
        with(&client.request, |m| Response { tag, ..Response::new(status) }.write(m, &mut text));
        let mut text = String::from_utf8(text).expect("text");
        if choice & 6 == 6 {
            // The answer to a CANCEL, or of a peer that confuses methods.
            text = text.replace("CSeq: 5 INVITE", "CSeq: 5 CANCEL");
        }
        let same = text.contains(if client.invite { "5 INVITE" } else { "5 MESSAGE" });
        let outcome = with(text.as_bytes(), |m| self.layer.receive_response(self.now, id, m, &mut self.out));
        let Outcome::Deliver { user } = outcome else { return };
        assert_eq!(user, id.as_u64());
        assert!(same && !client.over, "delivered what is not its own");
        match status {
            100..=199 => {}
            200..=299 => client.successes += 1,
            _ => client.failures += 1,
        }
        assert!(client.failures <= 1 && (client.failures == 0 || client.successes == 0));
        assert!(client.invite || client.failures + client.successes <= 1);
    }

    fn disturb(&mut self, feed: &mut Feed<'_>) {
        let servers: Vec<ServerId> = self.servers.keys().copied().collect();
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        match feed.byte() % 4 {
            0 => {
                let Some(id) = feed.pick(&clients) else { return };
                let reason = b"Reason: SIP;cause=200\r\n";
                self.layer.cancel(self.now, id, reason, &mut self.out);
                self.clients.entry(id).and_modify(|c| c.cancelled = true);
            }
            1 => {
                let Some(token) = feed.pick(&self.tokens) else { return };
                self.layer.undeliverable(token, &mut self.events);
            }
            2 => {
                let Some(id) = feed.pick(&clients) else { return };
                self.layer.abandon(id);
                self.clients.entry(id).and_modify(|c| c.over = true);
            }
            _ => {
                let Some(id) = feed.pick(&servers) else { return };
                self.layer.abandon_server(id);
                self.servers.entry(id).and_modify(|s| s.over = true);
            }
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while let Some(next) = self.layer.next_deadline().filter(|next| *next < end) {
            self.now = self.now.max(next);
            self.layer.handle_timeout(self.now, &mut self.out, &mut self.events);
            steps += 1;
            assert!(steps < 100_000, "deadlines without end");
        }
        self.now = end;
        self.layer.handle_timeout(end, &mut self.out, &mut self.events);
    }

    fn check_transmits(&mut self) {
        for transmit in self.out.transmits() {
            let text = String::from_utf8_lossy(self.out.message(transmit));
            if let Some(mark) = line_of(&text, "X-Id: ") {
                let server = self.servers.iter().find(|(id, _)| id.as_u64().to_string() == mark);
                let (_, server) = server.expect("a response of a transaction");
                assert_eq!(transmit.flow, server.flow, "{text}");
            } else {
                let (_, branch) = text.split_once("branch=z9hG4bK").expect("a branch");
                let id = ClientId::decode(&branch.as_bytes()[..16]).expect("our branch");
                let client = &self.clients[&id];
                assert_eq!(transmit.flow, client.flow, "{text}");
                assert!(!text.starts_with("CANCEL") || (client.cancelled && client.invite), "{text}");
                assert!(!text.starts_with("ACK") || (client.invite && client.successes == 0), "{text}");
            }
            assert!(Layer::owns(transmit.token));
            self.tokens.push(transmit.token);
        }
        let spare = self.tokens.len().saturating_sub(32);
        self.tokens.drain(..spare);
        self.out.clear();
    }

    fn check_events(&mut self) {
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::ServerGone { id, .. } => {
                    let server = self.servers.get_mut(&id).expect("a server transaction");
                    assert!(!std::mem::replace(&mut server.over, true), "{event:?} twice");
                }
                Event::AckTimeout { id, .. } | Event::ServerUnreachable { id, .. } => {
                    assert!(!self.servers[&id].over);
                }
                Event::ClientTimeout { id, user }
                | Event::ClientUnreachable { id, user }
                | Event::ClientGone { id, user } => {
                    assert_eq!(user, id.as_u64());
                    let client = self.clients.get_mut(&id).expect("a client transaction");
                    assert!(!std::mem::replace(&mut client.over, true), "{event:?} twice");
                    let answered = client.failures + client.successes > 0;
                    assert!(!(answered && matches!(event, Event::ClientTimeout { .. })));
                    assert!(answered || !matches!(event, Event::ClientGone { .. }));
                }
                Event::User { .. } => panic!("no timer was scheduled"),
            }
        }
        let counts = self.layer.counts();
        assert!(counts.server <= CAP && counts.client - counts.cancels <= CAP);
        assert_eq!(counts.server, self.servers.values().filter(|s| !s.over).count());
        assert!(counts.timers == 0 || self.layer.next_deadline().is_some());
    }
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    let limits = Limits { server: CAP, client: CAP, bytes: 64 << 20 };
    let mut bench = Bench {
        layer: Layer::new(Timers::default(), limits, [11, 12]),
        now: Time::from_secs(100),
        out: Outbox::new(),
        events: Vec::new(),
        servers: BTreeMap::new(),
        clients: BTreeMap::new(),
        tokens: Vec::new(),
    };
    let mut operations = 0;
    while !feed.is_empty() && operations < 500 {
        operations += 1;
        match feed.byte() % 8 {
            0 | 1 => bench.receive(&mut feed),
            2 => bench.respond(&mut feed),
            3 => bench.send(&mut feed),
            4 => bench.hear(&mut feed),
            5 => bench.disturb(&mut feed),
            // From 256 microseconds to six minutes.
            _ => bench.pass(Duration::from_micros(256 << (feed.byte() % 21))),
        }
        bench.check_transmits();
        bench.check_events();
    }
    bench.pass(Timers::default().lifetime * 2);
    bench.check_transmits();
    bench.check_events();
    let counts = bench.layer.counts();
    assert_eq!((counts.server, counts.client, counts.timers), (0, 0, 0), "something is left");
    assert!(bench.servers.values().all(|s| s.over) && bench.clients.values().all(|c| c.over));
});
