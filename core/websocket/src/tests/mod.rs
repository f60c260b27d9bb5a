//! What both sides do with bytes, as a peer sees it.

mod closing;
mod examples;
mod faults;
mod handshake;
mod properties;
mod response;

use crate::*;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// What a test sees of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, Vec<u8>),
    Fault(Fault),
}

fn text(bytes: &[u8]) -> Seen {
    Seen::Message(Kind::Text, bytes.to_vec())
}

fn binary(bytes: &[u8]) -> Seen {
    Seen::Message(Kind::Binary, bytes.to_vec())
}

/// A reader as the stream layer is one: a buffer that holds what is not done with.
struct Endpoint {
    connection: Connection,
    limits: Limits,
    buffer: Vec<u8>,
}

impl Endpoint {
    fn new(role: Role) -> Endpoint {
        Endpoint::with(role, Limits::default())
    }

    fn with(role: Role, limits: Limits) -> Endpoint {
        Endpoint { connection: Connection::new(role), limits, buffer: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<Seen> {
        self.buffer.extend_from_slice(bytes);
        let mut seen = Vec::new();
        let mut reader = self.connection.read(&mut self.buffer, &self.limits);
        loop {
            match reader.next_event() {
                Ok(Some(event)) => seen.push(look(&reader, event)),
                Ok(None) => break,
                Err(fault) => {
                    seen.push(Seen::Fault(fault));
                    assert_eq!(reader.next_event(), Ok(None), "nothing is read after a fault");
                    break;
                }
            }
        }
        let kept = reader.finish();
        self.buffer.truncate(kept.end);
        self.buffer.drain(..kept.start);
        assert!(self.buffer.len() <= self.limits.held(), "{} bytes held", self.buffer.len());
        seen
    }
}

fn look(reader: &Reader<'_>, event: Event) -> Seen {
    let bytes = |range| reader.bytes(range).to_vec();
    match event {
        Event::Message { kind, payload } => Seen::Message(kind, bytes(payload)),
        Event::Ping(payload) => Seen::Ping(bytes(payload)),
        Event::Pong(payload) => Seen::Pong(bytes(payload)),
        Event::Close { code, reason } => Seen::Close(code.map(CloseCode::get), bytes(reason)),
    }
}

/// What a server sees of these bytes of a client.
fn server(bytes: &[u8]) -> Vec<Seen> {
    Endpoint::new(Role::Server).take(bytes)
}

/// What a client sees of these bytes of a server.
fn client(bytes: &[u8]) -> Vec<Seen> {
    Endpoint::new(Role::Client).take(bytes)
}

/// A frame with any first byte, masked as by a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    raw(first, payload, Some(KEY))
}

/// A frame with any first byte, its length in the shortest form.
fn raw(first: u8, payload: &[u8], key: Option<[u8; 4]>) -> Vec<u8> {
    let header = MessageHeader::new(Kind::Text, payload.len(), key);
    let mut frame = header.as_bytes().to_vec();
    frame[0] = first;
    let start = frame.len();
    frame.extend_from_slice(payload);
    mask(&mut frame[start..], key.unwrap_or_default());
    frame
}
