//! Final responses whose connection may be gone: they go to the port in Via over a new one (RFC 3261 section
//! 18.2.2).
//!
//! That a connection is gone is reported for what was sent on it, soon after. So the latest responses are
//! kept, not all, and a response that its caller had a while to read is forgotten. When memory is short they
//! are the first to go.

use crate::settings::Settings;
use core::net::SocketAddr;
use sip_message::{Index, Limits, Parsed, parse};
use sip_transaction::Layer;
use wire::{Flow, Outbox, Transport};

/// Responses kept at a time, a power of two.
const RESPONSES: usize = 256;
/// Memory that a place keeps from one response to the next, bytes.
const KEEP_CAPACITY: usize = 2_048;

/// The latest final responses of one worker that left on connections.
#[derive(Default)]
pub(crate) struct RecentResponses {
    ring: Vec<Kept>,
    next: usize,
    tokens: u64,
    index: Index,
    /// Bytes allocated for them.
    held: usize,
}

struct Kept {
    /// Of its transmit; 0: there is none.
    token: u64,
    flow: Flow,
    bytes: Vec<u8>,
}

impl RecentResponses {
    /// A token for a response that belongs to no transaction. The transaction layer's have bit 63 set.
    pub fn token(&mut self) -> u64 {
        self.tokens = self.tokens % (u64::MAX >> 1) + 1;
        self.tokens
    }

    /// Keeps what was queued last, if it is a final response over a connection. The layer has the account of
    /// all bytes held.
    pub fn keep(&mut self, layer: &mut Layer, out: &Outbox) {
        let Some(transmit) = out.transmits().last() else { return };
        let bytes = out.message(transmit);
        let dialled = matches!(transmit.flow.transport, Transport::Tcp | Transport::Tls | Transport::Sctp);
        // `SIP/2.0 200`
        if !dialled
            || transmit.token == 0
            || !bytes.starts_with(b"SIP/2.0 ")
            || !matches!(bytes.get(8), Some(b'2'..=b'6'))
        {
            return;
        }
        if self.ring.len() < RESPONSES {
            self.ring.push(Kept { token: 0, flow: transmit.flow, bytes: Vec::new() });
        }
        let at = self.next % RESPONSES;
        self.next = at + 1;
        if let Some(kept) = self.ring.get_mut(at) {
            (kept.token, kept.flow) = (transmit.token, transmit.flow);
            self.held -= kept.bytes.capacity();
            kept.bytes.clear();
            kept.bytes.shrink_to(KEEP_CAPACITY);
            kept.bytes.extend_from_slice(bytes);
            self.held += kept.bytes.capacity();
        }
        layer.set_yielding(self.held);
        self.give_way(layer);
    }

    /// Forgets as many as there is no room for, the oldest first.
    #[inline]
    pub fn give_way(&mut self, layer: &mut Layer) {
        if layer.excess() > 0 {
            self.forget(layer);
        }
    }

    #[cold]
    fn forget(&mut self, layer: &mut Layer) {
        for n in 0..RESPONSES {
            if layer.excess() == 0 {
                return;
            }
            let Some(kept) = self.ring.get_mut((self.next + n) % RESPONSES) else { continue };
            self.held -= kept.bytes.capacity();
            (kept.token, kept.bytes) = (0, Vec::new());
            layer.set_yielding(self.held);
        }
    }

    /// Sends the response with this token again, now that its connection is gone: once, to the address that
    /// the request came from, at the port that its Via names. Never to our own ports or the admin API. Its
    /// Via was returned by the callee: one that names no host says nothing of the caller.
    pub fn send_again(&mut self, token: u64, settings: &Settings, out: &mut Outbox) {
        let RecentResponses { ring, index, .. } = self;
        let Some(kept) = ring.iter_mut().find(|kept| token != 0 && kept.token == token) else { return };
        kept.token = 0;
        let (Parsed::Good(response) | Parsed::Bad(response, _)) =
            parse(&kept.bytes, index, &Limits::READ_BEFORE)
        else {
            return;
        };
        let via = response.via();
        if via.host.is_empty() {
            return;
        }
        let remote = SocketAddr::new(kept.flow.remote.ip(), via.port_or_default());
        let ours = settings.listeners.iter().any(|l| l.address == remote);
        let tried = kept.flow.conn.is_none() && kept.flow.remote == remote;
        if !tried && !ours && !settings.is_admin(remote) {
            out.send(Flow { remote, conn: None, ..kept.flow }, token, &kept.bytes);
            out.verifies(via.host);
        }
    }
}
