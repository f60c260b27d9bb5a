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
    /// As [`Delivery::fresh`].
    pub fresh: bool,
    /// As [`Delivery::yields`].
    pub yields: bool,
    /// Seconds for which its stream connection matters: it is not a stranger's connection, which is closed
    /// after a short silence, and first when connections run out. Zero: as it was.
    pub keeps: u32,
    /// Whether its stream connection is in use from now on, until it is [released](Outbox::release).
    pub uses: bool,
    /// As [`Delivery::hurries`].
    pub hurries: bool,
    /// Which bytes of [`Outbox::bytes`] are the name that its peer has to prove, see [`Outbox::verifies`].
    pub name: Range<u32>,
    /// As [`Delivery::existing`].
    pub existing: bool,
    /// As [`Delivery::instead`].
    pub instead: bool,
}

/// How a message goes over a stream. By default: over any connection to its address, without a time limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Delivery {
    /// A connection is made for it even where there is one to the same address, and reported by
    /// [`Generator::connected`](crate::Generator::connected). Consecutive messages with the same token in an
    /// outbox share it.
    pub fresh: bool,
    /// It is undeliverable if its connection is congested: it accepts no bytes and much is queued (Shen and
    /// Schulzrinne, CUCS-048-09: a request that starts new work is better refused at once than late).
    pub yields: bool,
    /// It has another way to go: a connection that must be made for it is given up soon (RFC 3261 section
    /// 18.1.1: where TCP fails, the request goes by UDP).
    pub hurries: bool,
    /// It is undeliverable if there is no connection to its address: the peer opened the one that was there,
    /// and need not accept any (RFC 5626 section 5.3.1).
    pub existing: bool,
    /// It goes only if the message before it in the outbox could not be queued. It is for a message that
    /// nothing answers and nothing repeats.
    pub instead: bool,
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
    releases: Vec<ConnId>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Writes one message: `write` appends its bytes to the arena, and nothing else.
    pub fn send_with(&mut self, flow: Flow, token: u64, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        self.deliver(flow, token, Delivery::default(), write)
    }

    /// As [`Outbox::send_with`], over a stream in this way.
    pub fn deliver(
        &mut self,
        flow: Flow,
        token: u64,
        Delivery { fresh, yields, hurries, existing, instead }: Delivery,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Range<usize> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        self.transmits.push(Transmit {
            flow,
            range: range.clone(),
            token,
            fresh,
            yields,
            keeps: 0,
            uses: false,
            hurries,
            name: 0..0,
            existing,
            instead,
        });
        range
    }

    /// Queues a message whose bytes are at hand.
    pub fn send(&mut self, flow: Flow, token: u64, message: &[u8]) -> Range<usize> {
        self.send_with(flow, token, |out| out.extend_from_slice(message))
    }

    /// The message queued last, if it goes over this connection.
    fn last_on(&mut self, conn: ConnId) -> Option<&mut Transmit> {
        self.transmits.last_mut().filter(|transmit| transmit.flow.conn == Some(conn))
    }

    /// This connection matters for this number of seconds after the last queued message leaves, if that
    /// message goes over it. A message that could not be queued changes nothing.
    pub fn keeps(&mut self, conn: ConnId, seconds: u32) {
        if let Some(transmit) = self.last_on(conn) {
            transmit.keeps = seconds;
        }
    }

    /// This connection is in use, for example by a call of a stranger. Each such mark ends with one
    /// [release](Outbox::release). The connection may be silent as long as one that [matters](Outbox::keeps),
    /// and is not closed to make room, but does not count among those. If it matters already, it does so for
    /// `seconds` at least. The last queued message must go over it, as for [`Outbox::keeps`].
    pub fn uses(&mut self, conn: ConnId, seconds: u32) {
        if let Some(transmit) = self.last_on(conn) {
            (transmit.keeps, transmit.uses) = (seconds, true);
        }
    }

    /// The peer of the message queued last has to prove this name, a domain or an address as the host of a
    /// SIP URI has it, where the transport is secure (RFC 5922 section 4). The message goes over a connection
    /// whose peer has, which is made if there is none. A message over a secure transport must have a name,
    /// unless it goes over a connection that it names or one that [exists](Delivery::existing). Otherwise it
    /// is a bug, and the message is undeliverable.
    pub fn verifies(&mut self, name: &[u8]) {
        let (start, end) = (self.bytes.len(), self.bytes.len() + name.len());
        if let Some(transmit) = self.transmits.last_mut()
            && let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end))
        {
            transmit.name = start..end;
            self.bytes.extend_from_slice(name);
        }
    }

    /// A stream connection is not in use any more for one of the reasons for which it was.
    pub fn release(&mut self, conn: ConnId) {
        self.releases.push(conn);
    }

    /// Takes back what was queued last: it is not sent. Its bytes stay until the outbox is emptied.
    pub fn take_back(&mut self) {
        self.transmits.pop();
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

    /// The name that the peer of one transmit has to prove; empty: none.
    pub fn name(&self, transmit: &Transmit) -> &[u8] {
        let Range { start, end } = transmit.name;
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The messages to send, in order.
    pub fn transmits(&self) -> &[Transmit] {
        &self.transmits
    }

    /// The connections to close.
    pub fn closes(&self) -> &[Close] {
        &self.closes
    }

    /// The connections that are not in use any more.
    pub fn releases(&self) -> &[ConnId] {
        &self.releases
    }

    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty() && self.closes.is_empty() && self.releases.is_empty()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.closes.clear();
        self.releases.clear();
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
    fn name_to_prove_belongs_to_the_message_queued_last() {
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), "127.0.0.1:5061".parse().expect("an address"));
        out.send(flow, 0, b"one");
        out.send(flow, 0, b"two");
        out.verifies(b"example.org");
        out.send(flow, 0, b"three");
        let all: Vec<_> = out.transmits().iter().map(|t| (out.message(t), out.name(t))).collect();
        assert_eq!(all, [(&b"one"[..], &b""[..]), (b"two", b"example.org"), (b"three", b"")]);
    }

    #[test]
    fn message_that_was_not_queued_marks_no_other() {
        let mut out = Outbox::new();
        let [conn, other] = [ConnId::new(0, 1), ConnId::new(0, 2)];
        let remote = "127.0.0.1:5060".parse().expect("an address");
        let flow =
            Flow { conn: Some(conn), transport: crate::Transport::Tcp, ..Flow::udp(ListenerId(0), remote) };
        out.keeps(conn, 9);
        out.send(flow, 0, b"one");
        out.keeps(other, 9);
        out.uses(other, 9);
        assert_eq!((out.transmits()[0].keeps, out.transmits()[0].uses), (0, false));
        out.keeps(conn, 9);
        assert_eq!(out.transmits()[0].keeps, 9);
    }
}
