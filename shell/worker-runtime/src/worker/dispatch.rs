//! Emptying the outbox: each transmit to the socket, connection or worker it is for.

use super::Worker;
use super::host::Host;
use crate::shared::Hop;
use crate::transport::stream::{Key, Place, Reason, Ticket};
use std::sync::Arc;
use wire::{ConnId, ListenerId, Outbox, Transmit, Transport};

/// So many datagrams are never cheaper to send together.
const FEW: usize = 2;

/// Who wants to hear of a transmit of worker `me`.
fn ticket(transmit: &Transmit, me: u16) -> Ticket {
    let Transmit { token, yields, keeps, uses, hurries, .. } = *transmit;
    Ticket { token, origin: me, yields, keeps, uses, hurries }
}

/// What the connection of a transmit is found by. `None` if its name is not text, or if it has none although
/// its transport is secure: it would go to a peer that has proven nothing. `one_server`: all connections lead
/// to one server, whose name is known.
fn key<'a>(transmit: &Transmit, out: &'a Outbox, one_server: bool) -> Option<Key<'a>> {
    let flow = &transmit.flow;
    // One that the peer opened has proven no name to us.
    let proves = flow.transport.is_secure() && !transmit.existing;
    let name = if proves { out.name(transmit) } else { &[] };
    if proves && name.is_empty() && !one_server {
        invariant::broken!("a message over TLS without a connection says which name its peer has to prove");
        return None;
    }
    Some(Place::new(flow.transport, flow.remote).proven_by(std::str::from_utf8(name).ok()?))
}

impl<H: Host> Worker<H> {
    /// As [`Worker::dispatch`], unless more of this grain is to leave with it at the end of the round.
    pub(super) fn dispatch_unless_dense(&mut self) {
        if !self.sleep.is_dense() {
            self.dispatch();
        }
    }

    /// Sends the datagrams of the outbox and queues its stream messages, which leave at the end of
    /// the round, together per connection.
    pub(super) fn dispatch(&mut self) {
        if self.driver.out().is_empty() {
            return;
        }
        if self.dispatch_few() {
            return;
        }
        // The outbox is put back below, with its memory.
        let out = self.driver.take_out();
        let origin = self.driver.rings().me();
        let (mut fresh, mut taken) = (None, true);
        for (index, transmit) in out.transmits().iter().enumerate() {
            if transmit.instead && taken {
                continue;
            }
            taken = match transmit.flow.transport {
                Transport::Udp => self.datagrams.enqueue(&transmit.flow, index as u32),
                _ => self.dispatch_stream(transmit, &out, &mut fresh),
            };
            if !taken {
                self.streams.fail(ticket(transmit, origin));
            }
        }
        let streams = &mut self.streams;
        let fail = |token| streams.fail(Ticket { token, ..Ticket::none(origin) });
        self.datagrams.send(&out, &self.poller, fail);
        for close in out.closes() {
            self.dispatch_close(close.conn);
        }
        for &conn in out.releases() {
            match conn.worker() == origin {
                true => self.streams.release(conn, self.driver.now()),
                false => self.driver.rings_mut().tell(conn.worker(), Hop::Release(conn)),
            }
        }
        self.driver.give_back(out);
    }

    /// Sends an outbox of a datagram or two, as nearly all are, without putting them in order by socket.
    /// `false`, and nothing is done, if it holds anything else.
    #[inline]
    fn dispatch_few(&mut self) -> bool {
        let out = self.driver.out();
        let transmits = out.transmits();
        let plain = |transmit: &Transmit| transmit.flow.transport == Transport::Udp && !transmit.instead;
        let others = !(out.closes().is_empty() && out.releases().is_empty());
        if transmits.len() > FEW || others || !transmits.iter().all(plain) {
            return false;
        }
        let (origin, streams) = (self.driver.rings().me(), &mut self.streams);
        for transmit in transmits {
            let fail = |token| streams.fail(Ticket { token, ..Ticket::none(origin) });
            if !self.datagrams.send_lone(out, transmit, &self.poller, fail) {
                streams.fail(ticket(transmit, origin));
            }
        }
        self.driver.clear_out();
        true
    }

    /// Queues a stream message; `false` if it cannot be sent. `fresh` is the token of the last message on a
    /// connection of its own, and that connection: messages with one token in a row share it.
    fn dispatch_stream(
        &mut self,
        transmit: &Transmit,
        out: &Outbox,
        fresh: &mut Option<(u64, ConnId)>,
    ) -> bool {
        let flow = &transmit.flow;
        let last = fresh.filter(|(token, _)| transmit.fresh && *token == transmit.token);
        let known = flow.conn.or(last.map(|(_, conn)| conn));
        let Some(conn) = known.or_else(|| self.lead(transmit, out)) else { return false };
        if transmit.fresh && known.is_none() {
            *fresh = Some((transmit.token, conn));
            self.driver.connected(transmit.token, conn);
        }
        let message = out.message(transmit);
        let ticket = ticket(transmit, self.driver.rings().me());
        if conn.worker() == self.driver.rings().me() {
            // It reports a failure itself.
            self.streams.write(conn, message, ticket, &self.poller, self.driver.now());
            return true;
        }
        self.driver.rings_mut().hand_to_send(conn, message, ticket)
    }

    /// A connection that leads where a transmit has to go.
    fn lead(&mut self, transmit: &Transmit, out: &Outbox) -> Option<ConnId> {
        let streams = &self.driver.rings().shared().streams;
        let one_server = streams.tls_client.as_ref().is_some_and(|client| client.only().is_some());
        let key = key(transmit, out, one_server)?;
        let there = if transmit.fresh { None } else { streams.directory.find(&key) };
        if there.is_some() || transmit.existing {
            return there;
        }
        let streams = Arc::clone(streams);
        let _dialing = (!transmit.fresh).then(|| streams.directory.dialing(&key.place()));
        let there = if transmit.fresh { None } else { streams.directory.find(&key) };
        there.or_else(|| self.connect(transmit.flow.listener, &key))
    }

    /// Begins a connection with this key, from the address of a listener. To a client of WebSocket no
    /// connection leads but its own (RFC 7118 section 5); only a load generator is a client itself.
    fn connect(&mut self, listener: ListenerId, key: &Key<'_>) -> Option<ConnId> {
        let shared = self.driver.rings().shared();
        let is_web = matches!(key.place().transport(), Transport::Ws | Transport::Wss);
        if is_web && shared.streams.websocket_client.is_none() {
            return None;
        }
        let local = shared.listeners.get(usize::from(listener.0))?.address.ip();
        match self.streams.connect((local, listener), key, &self.poller, self.driver.now()) {
            Ok(conn) => Some(conn),
            Err(error) => {
                tracing::debug!(remote = %key.place().remote(), %error, "cannot connect");
                None
            }
        }
    }

    fn dispatch_close(&mut self, conn: ConnId) {
        if conn.worker() == self.driver.rings().me() {
            self.streams.close_gently(conn, Reason::Asked, &self.poller, self.driver.now());
        } else {
            self.driver.rings_mut().tell(conn.worker(), Hop::Close(conn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Delivery, Flow};

    /// An outbox with one message over TLS to a peer that has to prove this name.
    fn outbox(name: &[u8], existing: bool) -> Outbox {
        let remote = "192.0.2.1:5061".parse().expect("an address");
        let flow = Flow { transport: Transport::Tls, listener: ListenerId(0), remote, conn: None };
        let mut out = Outbox::new();
        out.deliver(flow, 1, Delivery { existing, ..Delivery::default() }, |buf| buf.extend_from_slice(b"x"));
        out.verifies(name);
        out
    }

    fn name(name: &[u8], existing: bool, one_server: bool) -> Option<String> {
        let out = outbox(name, existing);
        let key = key(out.transmits().first().expect("a transmit"), &out, one_server);
        key.map(|key| key.name().to_owned())
    }

    #[test]
    fn secure_message_needs_a_name_unless_the_peer_opened() {
        assert_eq!(name(b"example.org", false, false).as_deref(), Some("example.org"));
        assert_eq!(name(b"example.org", true, false).as_deref(), Some(""));
        assert_eq!(name(b"", true, false).as_deref(), Some(""));
        assert_eq!(name(b"", false, true).as_deref(), Some(""), "of a load generator");
        assert_eq!(name(b"\xff", false, false), None);
    }

    /// An inbound connection of that address is found by no name.
    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "which name its peer has to prove"))]
    fn secure_message_without_a_name_finds_no_connection() {
        assert_eq!(name(b"", false, false), None);
    }
}
