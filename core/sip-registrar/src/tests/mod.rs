//! The registrar seen from outside: requests in, answers, lookups and changes out.

mod clauses;
mod limits;
mod model;
mod outbound;

use crate::{BindingView, Change, Config, PathPolicy, Registration, Reply, Table};
use sip_message::{Index, Limits, Message, Parsed, parse};
use wire::{ConnId, Flow, ListenerId, Time, Transport};

pub(crate) const AOR: &[u8] = b"alice@example.com";

/// A registrar with one table, a clock and a client that counts its CSeq.
pub(crate) struct Fixture {
    pub table: Table,
    pub config: Config,
    pub policy: PathPolicy,
    pub now: Time,
    pub flow: Flow,
    pub changes: Vec<Change>,
    cseq: u32,
}

impl Fixture {
    pub fn new() -> Fixture {
        let remote = "198.51.100.7:40000".parse().expect("an address");
        Fixture {
            table: Table::new([1, 2], 1000, true),
            config: Config::default(),
            policy: PathPolicy::Refuse,
            now: Time::from_secs(1_000_000),
            flow: Flow {
                transport: Transport::Tcp,
                listener: ListenerId(3),
                remote,
                conn: Some(ConnId::new(1, 9)),
            },
            changes: Vec::new(),
            cseq: 0,
        }
    }

    /// A REGISTER with the next CSeq of Call-ID `one` and these further header lines.
    pub fn register(&mut self, lines: &[&str]) -> Reply {
        self.cseq += 1;
        self.register_as("one", self.cseq, lines)
    }

    pub fn register_as(&mut self, call_id: &str, cseq: u32, lines: &[&str]) -> Reply {
        let text = request("sip:example.com", call_id, cseq, lines);
        self.send(&text)
    }

    pub fn send(&mut self, text: &str) -> Reply {
        let mut index = Index::new();
        self.changes.clear();
        match parse(text.as_bytes(), &mut index, &Limits::default()) {
            Parsed::Good(message) => self.serve(&message, AOR),
            _ => panic!("not a good message: {text}"),
        }
    }

    pub fn serve(&mut self, message: &Message<'_>, aor: &[u8]) -> Reply {
        match Registration::read(message, aor, self.flow, &self.config, self.policy) {
            Ok(registration) => {
                registration.apply(self.now, &self.config, &mut self.table, &mut self.changes)
            }
            Err(refusal) => refusal,
        }
    }

    /// Registers and insists on 200.
    pub fn accept(&mut self, lines: &[&str]) -> Vec<String> {
        let reply = self.register(lines);
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(reply.reason));
        lines_of(&reply)
    }

    /// Registers and insists on this refusal, and on nothing having changed.
    pub fn refuse(&mut self, status: u16, lines: &[&str]) -> Reply {
        let before = self.contacts();
        let reply = self.register(lines);
        assert_eq!(reply.status, status, "{lines:?}: {}", String::from_utf8_lossy(&reply.headers));
        assert!(self.changes.is_empty());
        assert_eq!(self.contacts(), before);
        reply
    }

    /// Live contacts with seconds left, in forking order.
    pub fn contacts(&self) -> Vec<(String, u64)> {
        self.map(|b| (text(b.contact), b.expires.since(self.now).as_secs()))
    }

    pub fn map<T>(&self, mut f: impl FnMut(&BindingView<'_>) -> T) -> Vec<T> {
        let mut all = Vec::new();
        self.table.bindings(AOR, self.now, |b| all.push(f(&b)));
        all
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now + std::time::Duration::from_secs(seconds);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn lines_of(reply: &Reply) -> Vec<String> {
    let all = text(&reply.headers);
    assert!(all.is_empty() || all.ends_with("\r\n"));
    all.split_terminator("\r\n").map(str::to_owned).collect()
}

pub(crate) fn request(uri: &str, call_id: &str, cseq: u32, lines: &[&str]) -> String {
    let mut text = format!(
        "REGISTER {uri} SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK{cseq}\r\nMax-Forwards: 70\r\n\
         To: <sip:alice@example.com>\r\nFrom: <sip:alice@example.com>;tag=a\r\nCall-ID: {call_id}\r\n\
         CSeq: {cseq} REGISTER\r\n"
    );
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text + "Content-Length: 0\r\n\r\n"
}
