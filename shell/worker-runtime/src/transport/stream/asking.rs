//! WebSocket connections that we open: the client's side of the handshake (RFC 6455 section 4.1), and masks.

use super::Streams;
use super::input::{Begun, Input};
use super::reading::Read;
use super::web::Web;
use crate::sys::{Interest, Poller};
use std::hash::{BuildHasher, RandomState};
use websocket::{Key, Received, read_response};
use wire::{ConnId, Time, Transport};

/// Masks of frames, and the keys of requests. No peer can predict them (RFC 6455 section 10.3), because they
/// are derived from a random secret.
pub struct Masks {
    secret: RandomState,
    count: u64,
}

impl Masks {
    /// With a new secret.
    pub fn new() -> Masks {
        Masks { secret: RandomState::new(), count: 0 }
    }

    fn word(&mut self) -> u64 {
        self.count += 1;
        self.secret.hash_one(self.count)
    }

    /// The mask of one frame.
    pub fn mask(&mut self) -> [u8; 4] {
        (self.word() as u32).to_ne_bytes()
    }

    /// The bytes of one request's key.
    fn nonce(&mut self) -> [u8; 16] {
        (u128::from(self.word()) << 64 | u128::from(self.word())).to_ne_bytes()
    }
}

/// The WebSocket layer at the start of a connection that we open.
pub fn layer(streams: &mut Streams, transport: Transport) -> Option<Web> {
    matches!(transport, Transport::Ws | Transport::Wss).then(|| Web::due(streams.masks.nonce()))
}

/// The mask of a frame, if we are the client.
pub fn mask(streams: &mut Streams, is_client: bool) -> Option<[u8; 4]> {
    is_client.then(|| streams.masks.mask())
}

/// Sends the WebSocket request on a connection, if it is due.
pub fn ask(streams: &mut Streams, id: ConnId, poller: &Poller, now: Time) {
    let Some(conn) = streams.table.get_mut(id) else { return };
    let Some(key) = conn.link_mut().asks() else { return };
    let mut request = Vec::new();
    let possible = streams.shared.websocket_client.as_ref().is_some_and(|own| own.ask(key, &mut request));
    // Only a handshake was written to the socket so far, so it has room for some hundred bytes.
    let sent = conn.link_mut().write(&request, &mut streams.reading.sealed);
    streams.counters.syscalls.one();
    match sent {
        Ok(n) if possible && n == request.len() => {
            conn.queue_owed(|| streams.buffers.output());
            conn.watch(Interest::READ, id, poller);
            streams.send(id, poller, now);
        }
        Ok(_) => streams.give_up(id, &"the request of WebSocket cannot be sent", now),
        Err(error) => streams.give_up(id, &error, now),
    }
}

/// `input` is the response as far as it was received. Returns the frames after it, if there are any.
pub fn answered(
    streams: &mut Streams,
    (id, key): (ConnId, &Key),
    mut input: Box<Input>,
    poller: &Poller,
    now: Time,
) -> Read {
    match read_response(input.unread(), input.resume(), key) {
        Ok(Received::Partial { resume }) => {
            input.consume(0, Begun { resume, message: true }, now);
            if !streams.park(id, input) {
                streams.give_up(id, &"no room for its response", now);
            }
            return Read::Nothing;
        }
        Ok(Received::Whole(len)) => {
            streams.counters.websocket_handshakes.one();
            streams.shared.becomes_web(id, streams.table.get_mut(id), Web::opens);
            let more = input.consume(len, Begun { resume: 0, message: false }, now);
            streams.opened(id, poller, now);
            if more {
                return Read::Input(input);
            }
        }
        Err(fault) => streams.give_up(id, &fault, now),
    }
    streams.buffers.recycle_input(input);
    Read::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_keys_differ() {
        let (mut masks, mut others) = (Masks::new(), Masks::new());
        let all: std::collections::BTreeSet<[u8; 4]> = (0..100).map(|_| masks.mask()).collect();
        assert!(all.len() > 95, "{}", all.len());
        assert_ne!(masks.nonce(), masks.nonce());
        assert_ne!(masks.nonce(), others.nonce());
    }
}
