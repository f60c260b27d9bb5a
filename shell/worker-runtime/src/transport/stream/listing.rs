//! The connections of a worker as an operator is shown them, a bounded part at a time.

use super::Streams;
use super::conn::Conn;
use super::phase::State;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tls::Identities;
use wire::{Time, Transport};

/// Places of the table looked at for one question, whether a connection is there and asked for or not. So a
/// worker answers within a fraction of a millisecond.
const PLACES: u32 = 2_048;

/// Which connections are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wanted {
    /// Those of this transport.
    pub transport: Option<Transport>,
    /// Those to this address.
    pub ip: Option<IpAddr>,
    /// Those to this port.
    pub port: Option<u16>,
}

/// A part of a worker's connections.
#[derive(Debug)]
pub struct Portion {
    /// Those that were asked for.
    pub items: Vec<ConnectionView>,
    /// From where to go on; `None`: there are no more.
    pub next: Option<u32>,
}

/// A connection as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionView {
    /// How.
    pub transport: Transport,
    /// Where to.
    pub remote: SocketAddr,
    /// Whether the peer opened it.
    pub inbound: bool,
    /// Where it stands, in a word.
    pub state: &'static str,
    /// Since it was accepted or begun.
    pub age: Duration,
    /// Since bytes went either way.
    pub idle: Duration,
    /// Bytes that the kernel received.
    pub bytes_in: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_out: u64,
    /// Bytes that wait to be sent.
    pub queued: usize,
    /// What TLS has agreed on.
    pub tls: Option<Agreed>,
}

/// What a handshake has agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The version: `1.3`.
    pub version: &'static str,
    /// The cipher suite.
    pub suite: &'static str,
    /// Who the peer has proven to be.
    pub peer: Option<Identities>,
}

/// A question for some of a worker's connections.
pub struct Question {
    /// Which.
    pub wanted: Wanted,
    /// From which place of the table on.
    pub from: u32,
    /// How many at most.
    pub most: usize,
    /// Takes the answer, on the worker's thread.
    pub show: Box<dyn FnOnce(Portion) + Send>,
}

impl Wanted {
    fn includes(&self, conn: &Conn) -> bool {
        let (remote, transport) = (conn.remote(), conn.key().place().transport());
        self.transport.is_none_or(|wanted| wanted == transport)
            && self.ip.is_none_or(|ip| ip.to_canonical() == remote.ip().to_canonical())
            && self.port.is_none_or(|port| port == remote.port())
    }
}

/// Answers a question.
pub fn answer(streams: &Streams, question: Question, now: Time) {
    let Question { wanted, from, most, show } = question;
    let table = &streams.table;
    let end = from.saturating_add(PLACES).min(table.slots());
    let (mut items, mut next) = (Vec::new(), None);
    for slot in from..end {
        if items.len() >= most {
            next = Some(slot);
            break;
        }
        let conn = table.at_slot(slot).and_then(|id| table.get(id));
        items.extend(conn.filter(|conn| wanted.includes(conn)).map(|conn| conn.view(now)));
    }
    let rest = (end < table.slots()).then_some(end);
    show(Portion { items, next: next.or(rest) });
}

impl Conn {
    /// What an operator is shown of it.
    fn view(&self, now: Time) -> ConnectionView {
        let traffic = self.link().traffic();
        ConnectionView {
            transport: self.key().place().transport(),
            remote: self.remote(),
            inbound: self.is_inbound(),
            state: match self.state() {
                State::Handshake => "handshake",
                State::Connecting => "connecting",
                State::Open => "open",
                State::HalfClosed => "half-closed",
                State::Ending | State::Closing | State::Lingering => "closing",
            },
            age: self.age(now),
            idle: traffic.idle,
            bytes_in: traffic.received,
            bytes_out: traffic.acknowledged,
            queued: self.pending(),
            tls: self.link().agreed(),
        }
    }
}
