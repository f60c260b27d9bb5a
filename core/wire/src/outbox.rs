//! What a machine wants sent: one arena of bytes and a list of transmits into it.

use crate::{ConnId, Flow};
use core::ops::Range;

/// One message to send: a range of the outbox's bytes and the flow it goes to.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// Where it goes.
    pub flow: Flow,
    /// Which bytes of [`Outbox::bytes`].
    pub range: Range<usize>,
    /// If it cannot be sent, [`Machine::undeliverable`](crate::Machine::undeliverable) is called
    /// with this token on the worker that asked. Zero: nobody wants to know.
    pub token: u64,
    /// Whether a stream connection is made for it even where there is one to the same address.
    pub fresh: bool,
    /// Whether it is not sent, as if it could not be, where its stream connection takes nothing and much is queued for it
    /// already: so that what is under way is not held up by what is new.
    pub yields: bool,
    /// What it is about ([`Outbox::about`]): with another of one number it keeps its order. Zero: with all others.
    pub about: u32,
}

/// A request to close a stream connection once what was queued on it has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close {
    /// The connection.
    pub conn: ConnId,
}

/// Caller-owned buffer for a machine's output. It is emptied by the shell after each batch and keeps
/// its memory, so that a steady state allocates nothing.
#[derive(Default, Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    transmits: Vec<Transmit>,
    closes: Vec<Close>,
    about: u32,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// What follows is about the call with this Call-ID, until another is named; empty: about no call in particular. Datagrams
    /// about different calls may leave in another order than they were queued in; those about one call, or about none, do not.
    #[inline]
    pub fn about(&mut self, call_id: &[u8]) {
        let ends = match (call_id.first_chunk(), call_id.last_chunk()) {
            (Some(first), Some(last)) => {
                u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29)
            }
            _ => call_id.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        // Two calls may have one number, which costs them nothing but the leave to overtake each other.
        let mixed = (ends ^ call_id.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.about = if call_id.is_empty() { 0 } else { mixed as u32 | 1 };
    }

    /// Writes one message: `write` appends its bytes to the arena, and nothing else.
    pub fn send_with(&mut self, flow: Flow, token: u64, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        let (of, about) = (range.clone(), self.about);
        self.transmits.push(Transmit { flow, range: of, token, fresh: false, yields: false, about });
        range
    }

    /// Queues a message whose bytes are at hand.
    pub fn send(&mut self, flow: Flow, token: u64, message: &[u8]) -> Range<usize> {
        self.send_with(flow, token, |out| out.extend_from_slice(message))
    }

    /// As [`Outbox::send`], on a stream connection of its own, of which
    /// [`Machine::connected`](crate::Machine::connected) is told. Such messages with one token, one after the other
    /// in an outbox, share it.
    pub fn send_fresh(&mut self, flow: Flow, token: u64, message: &[u8]) {
        self.send(flow, token, message);
        if let Some(transmit) = self.transmits.last_mut() {
            transmit.fresh = true;
        }
    }

    /// What was queued last yields where its stream is congested (Shen and Schulzrinne, CUCS-048-09: a request that would begin
    /// something is better refused at once than late).
    pub fn yields(&mut self) {
        if let Some(transmit) = self.transmits.last_mut() {
            transmit.yields = true;
        }
    }

    /// Asks for a stream connection to be closed after what is queued on it has left.
    pub fn close(&mut self, conn: ConnId) {
        self.closes.push(Close { conn });
    }

    /// The bytes that transmits point into.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of one transmit.
    pub fn message(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[transmit.range.clone()]
    }

    /// The messages to send, in order.
    pub fn transmits(&self) -> &[Transmit] {
        &self.transmits
    }

    /// The connections to close.
    pub fn closes(&self) -> &[Close] {
        &self.closes
    }

    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty() && self.closes.is_empty()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.closes.clear();
        self.about = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListenerId;

    #[test]
    fn transmits_point_at_their_own_bytes() {
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().expect("an address"));
        out.send(flow, 0, b"one");
        out.send_with(flow, 7, |b| b.extend_from_slice(b"three"));
        let messages: Vec<&[u8]> = out.transmits().iter().map(|t| out.message(t)).collect();
        assert_eq!(messages, [&b"one"[..], b"three"]);
        assert_eq!(out.transmits()[1].token, 7);
        out.clear();
        assert!(out.is_empty() && out.bytes().is_empty());
    }

    #[test]
    fn what_it_is_about_is_kept_with_each() {
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().expect("an address"));
        let ids: [&[u8]; 6] = [b"", b"1", b"2", b"a84b4c76e66710@pc33", b"a84b4c76e66711@pc33", b"1"];
        for id in ids {
            out.about(id);
            out.send(flow, 0, b"x");
        }
        let numbers: Vec<u32> = out.transmits().iter().map(|transmit| transmit.about).collect();
        assert_eq!(numbers[0], 0);
        assert_eq!(numbers[1], numbers[5]);
        let mut others = numbers[1..5].to_vec();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 4, "{numbers:?}");
        out.clear();
        out.send(flow, 0, b"x");
        assert_eq!(out.transmits()[0].about, 0);
    }
}
