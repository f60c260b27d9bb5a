//! Tests of the layer against hand-written peers in virtual time.

mod client;
mod matching;
mod property;
mod server;

use super::*;
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::{Message, Method, Parsed, Response};
use wire::{Flow, ListenerId, Transport};

/// A layer, what it wants sent, and the time.
pub(super) struct Bench {
    pub layer: Layer,
    pub now: Time,
    pub out: Outbox,
    pub events: Vec<Event>,
}

/// One request as a peer would send it.
#[derive(Clone)]
pub(super) struct Request {
    pub method: &'static str,
    pub uri: &'static str,
    pub via: String,
    pub to_tag: &'static str,
    pub call_id: String,
    pub cseq: u32,
}

impl Request {
    pub fn new(method: &'static str, branch: &str) -> Request {
        Request {
            method,
            uri: "sip:bob@example.com",
            via: format!("SIP/2.0/UDP pc33.example.com:5062;branch={branch}"),
            to_tag: "",
            call_id: "call-1@pc33".to_owned(),
            cseq: 7,
        }
    }

    /// The same with another method: an ACK or a CANCEL of it.
    pub fn method(&self, method: &'static str) -> Request {
        Request { method, ..self.clone() }
    }

    pub fn text(&self) -> String {
        let tag = if self.to_tag.is_empty() { String::new() } else { format!(";tag={}", self.to_tag) };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=from1\r\n\
             To: <sip:bob@example.com>{tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
            method = self.method,
            uri = self.uri,
            via = self.via,
            call_id = self.call_id,
            cseq = self.cseq,
        )
    }
}

pub(super) fn parsed<R>(text: &[u8], with: impl FnOnce(&Message<'_>) -> R) -> R {
    let mut index = sip_message::Index::new();
    match sip_message::parse(text, &mut index, &sip_message::Limits::default()) {
        Parsed::Good(message) => with(&message),
        other => panic!("{other:?} from {}", String::from_utf8_lossy(text)),
    }
}

pub(super) fn flow(transport: Transport, remote: &str) -> Flow {
    let remote: SocketAddr = remote.parse().expect("an address");
    Flow { transport, listener: ListenerId(0), remote, conn: None }
}

pub(super) fn udp(last: u8) -> Flow {
    flow(Transport::Udp, &format!("192.0.2.{last}:5060"))
}

pub(super) fn tcp(last: u8) -> Flow {
    flow(Transport::Tcp, &format!("192.0.2.{last}:5060"))
}

/// A response text, as the transaction user would write it.
pub(super) fn answer(request: &Request, status: u16, to_tag: &str) -> Vec<u8> {
    let mut out = Vec::new();
    parsed(request.text().as_bytes(), |message| {
        Response { tag: to_tag.as_bytes(), ..Response::new(status) }.write(message, &mut out);
    });
    out
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(Timers::default(), Limits { server: 100, client: 100, bytes: 1 << 20 })
    }

    pub fn with(timers: Timers, limits: Limits) -> Bench {
        let layer = Layer::new(timers, limits, [0x0123_4567, 0x89ab_cdef]);
        Bench { layer, now: Time::from_secs(1_000), out: Outbox::new(), events: Vec::new() }
    }

    pub fn receive(&mut self, request: &Request, reply: Flow) -> Inbound {
        parsed(request.text().as_bytes(), |message| {
            self.layer.receive_request(self.now, message, reply, &mut self.out)
        })
    }

    pub fn new_server(&mut self, request: &Request, reply: Flow) -> ServerId {
        match self.receive(request, reply) {
            Inbound::New(id) | Inbound::Cancel { id, .. } => id,
            other => panic!("{other:?} for {}", request.text()),
        }
    }

    pub fn respond(&mut self, id: ServerId, request: &Request, status: u16) -> bool {
        let text = answer(request, status, "to1");
        self.layer.respond(self.now, id, status, &mut self.out, |out| out.extend_from_slice(&text))
    }

    /// Sends a request as a proxy would; answers the id and the text.
    pub fn send(&mut self, method: Method<'_>, to: Flow, user: u64) -> (ClientId, String) {
        self.deliver(method, to, user, (wire::Delivery::default(), b""))
    }

    /// The same in this way, to a peer that has to prove this name.
    pub fn deliver(
        &mut self,
        method: Method<'_>,
        to: Flow,
        user: u64,
        (delivery, peer): (wire::Delivery, &[u8]),
    ) -> (ClientId, String) {
        let id = self.layer.reserve_client(Payer::PROVEN).expect("room");
        let name = String::from_utf8_lossy(method.as_bytes()).into_owned();
        let text = format!(
            "{name} sip:bob@192.0.2.9 SIP/2.0\r\nVia: SIP/2.0/UDP proxy.example.com;branch=z9hG4bK{branch}\r\n\
             Via: SIP/2.0/UDP pc33.example.com;branch=z9hG4bKup\r\nMax-Forwards: 69\r\n\
             Route: <sip:one.example.com;lr>\r\nRoute: <sip:two.example.com;lr>\r\n\
             From: <sip:alice@example.com>;tag=from1\r\nTo: <sip:bob@example.com>\r\nCall-ID: call-1@pc33\r\n\
             CSeq: 7 {name}\r\nRequire: something\r\nContent-Length: 4\r\n\r\nbody",
            branch = String::from_utf8_lossy(&id.encode()),
        );
        let write = |out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        assert!(self.layer.send_request(
            self.now,
            &ClientRequest { id, method, flow: to, user, delivery, name: peer },
            &mut self.out,
            write
        ));
        (id, text)
    }

    /// A response to a request text of [`Bench::send`].
    pub fn hear(&mut self, id: ClientId, request: &str, status: u16, method: &str, to_tag: &str) -> Outcome {
        let mut text = Vec::new();
        parsed(request.as_bytes(), |message| {
            Response { tag: to_tag.as_bytes(), ..Response::new(status) }.write(message, &mut text);
        });
        let text = String::from_utf8(text).expect("text");
        let (head, rest) = text.split_once("CSeq: 7 ").expect("a CSeq");
        let (_, tail) = rest.split_once("\r\n").expect("its end");
        let text = format!("{head}CSeq: 7 {method}\r\n{tail}");
        parsed(text.as_bytes(), |message| self.layer.receive_response(self.now, id, message, &mut self.out))
    }

    /// Lets time pass, following the layer's deadlines.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(next) = self.layer.next_deadline().filter(|next| *next < end) {
            self.now = self.now.max(next);
            self.layer.handle_timeout(self.now, &mut self.out, &mut self.events);
        }
        self.now = end;
        self.layer.handle_timeout(self.now, &mut self.out, &mut self.events);
    }

    /// What was sent since last asked: start line without the version, and where to.
    pub fn sent(&mut self) -> Vec<(String, Flow)> {
        let sent = self.messages().into_iter().map(|(text, flow)| {
            let line = text.lines().next().unwrap_or_default();
            let words: Vec<&str> = line.split(' ').filter(|word| *word != "SIP/2.0").collect();
            (words.first().copied().unwrap_or_default().to_owned(), flow)
        });
        sent.collect()
    }

    /// What was sent since last asked, whole.
    pub fn messages(&mut self) -> Vec<(String, Flow)> {
        let text = |t| String::from_utf8_lossy(self.out.message(t)).into_owned();
        let messages = self.out.transmits().iter().map(|t| (text(t), t.flow)).collect();
        self.out.clear();
        messages
    }

    /// The events since last asked.
    pub fn happened(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// The token of the last message sent.
    pub fn last_token(&self) -> u64 {
        self.out.transmits().last().expect("something was sent").token
    }

    /// Checks that nothing is left.
    pub fn assert_empty(&self) {
        let counts = self.layer.counts();
        assert_eq!((counts.server, counts.client, counts.cancels, counts.timers), (0, 0, 0, 0));
    }
}

pub(super) fn lines(n: usize, line: &str, flow: Flow) -> Vec<(String, Flow)> {
    vec![(line.to_owned(), flow); n]
}

pub(super) const T1_X64: Duration = Duration::from_secs(32);

/// How late a timer may be that only keeps a finished transaction in memory.
pub(super) const SLACK: Duration = Duration::from_millis(510);

/// A tick of the wheel: deadlines are late by this much at most.
pub(super) const TICK: Duration = Duration::from_micros(4_096);

#[test]
fn timers_of_the_transaction_user_run_on_the_same_wheel() {
    let mut b = Bench::new();
    let timer = b.layer.schedule(b.now + Duration::from_secs(180), 1);
    b.layer.schedule(b.now + Duration::from_secs(60), 2);
    b.pass(Duration::from_secs(60));
    assert_eq!(b.happened(), [Event::User { token: 2 }]);
    b.layer.unschedule(timer);
    b.layer.unschedule(TimerId::NONE);
    b.pass(Duration::from_secs(200));
    assert_eq!(b.happened(), []);
    assert_eq!(b.layer.next_deadline(), None);
}

/// Those of one tick are looked at together, when it is over, and not each when it is due.
#[test]
fn what_is_long_waits_for_the_end_of_its_tick() {
    let mut b = Bench::new();
    b.send(Method::Options, udp(1), 5);
    b.sent();
    let due = b.now + Duration::from_millis(500);
    let over = Time::from_micros(due.as_micros() | (TICK.as_micros() as u64 - 1));
    assert!(over > due);
    for (now, sent) in [(due, 0), (over, 1)] {
        b.now = now;
        b.layer.handle_timeout(b.now, &mut b.out, &mut b.events);
        assert_eq!(b.sent().len(), sent, "{now:?}");
    }
}

#[test]
fn tokens_of_others_and_of_the_dead_are_ignored() {
    let mut b = Bench::new();
    let (id, _) = b.send(Method::Options, udp(1), 5);
    let token = b.last_token();
    assert!(Layer::owns(token) && !Layer::owns(0) && !Layer::owns(id.as_u64()));
    b.layer.undeliverable(id.as_u64(), &mut b.events);
    assert_eq!(b.happened(), []);
    b.layer.undeliverable(token, &mut b.events);
    assert_eq!(b.happened(), [Event::ClientUnreachable { id, user: 5 }]);
    b.layer.undeliverable(token, &mut b.events);
    assert_eq!(b.happened(), []);
    b.assert_empty();
}
