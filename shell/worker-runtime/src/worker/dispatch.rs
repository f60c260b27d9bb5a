//! Emptying the outbox: each transmit to the socket, connection or worker it is for.

use super::Worker;
use crate::shared::Hop;
use crate::streams::{Reason, Ticket};
use wire::{ConnId, Machine, Outbox, Transmit, Transport};

/// So many datagrams are never cheaper to send together.
const FEW: usize = 2;

/// Who wants to hear of a transmit of worker `me`.
fn ticket(transmit: &Transmit, me: u16) -> Ticket {
    let Transmit { token, yields, keeps, uses, hurries, .. } = *transmit;
    Ticket { token, origin: me, yields, keeps, uses, hurries }
}

impl<M: Machine> Worker<M> {
    /// As [`Worker::dispatch`], unless more of this grain is to leave with it at the end of the round.
    pub(super) fn dispatch_unless_dense(&mut self) {
        if !self.grain.is_dense() {
            self.dispatch();
        }
    }

    /// Sends the datagrams of the outbox and queues its stream messages, which leave at the end of
    /// the round, together per connection.
    pub(super) fn dispatch(&mut self) {
        if self.out.is_empty() {
            return;
        }
        if self.dispatch_few() {
            return;
        }
        // The outbox is put back below, with its memory.
        let mut out = std::mem::take(&mut self.out);
        for (index, transmit) in out.transmits().iter().enumerate() {
            let taken = match transmit.flow.transport {
                Transport::Udp => self.datagrams.enqueue(&transmit.flow, index as u32),
                Transport::Tcp => self.dispatch_stream(transmit, &out),
                Transport::Tls | Transport::Ws | Transport::Wss | Transport::Sctp => false,
            };
            if !taken {
                self.streams.fail(ticket(transmit, self.links.me()));
            }
        }
        let (streams, origin) = (&mut self.streams, self.links.me());
        let fail = |token| streams.fail(Ticket { token, ..Ticket::none(origin) });
        self.datagrams.send(&out, &mut self.send, &self.poller, fail);
        for close in out.closes() {
            self.dispatch_close(close.conn);
        }
        for &conn in out.releases() {
            match conn.worker() == origin {
                true => self.streams.release(conn, self.now),
                false => self.links.tell(conn.worker(), Hop::Release(conn)),
            }
        }
        out.clear();
        self.out = out;
        self.fresh = None;
    }

    /// Sends an outbox of a datagram or two, as nearly all are, without putting them in order by socket.
    /// `false`, and nothing is done, if it holds anything else.
    #[inline]
    fn dispatch_few(&mut self) -> bool {
        let Worker { out, datagrams, streams, links, poller, .. } = self;
        let transmits = out.transmits();
        let plain = |transmit: &Transmit| transmit.flow.transport == Transport::Udp;
        let others = !(out.closes().is_empty() && out.releases().is_empty());
        if transmits.len() > FEW || others || !transmits.iter().all(plain) {
            return false;
        }
        let origin = links.me();
        for transmit in transmits {
            let fail = |token| streams.fail(Ticket { token, ..Ticket::none(origin) });
            if !datagrams.send_lone(out, transmit, poller, fail) {
                streams.fail(ticket(transmit, origin));
            }
        }
        out.clear();
        self.fresh = None;
        true
    }

    /// Queues a stream message; `false` if it cannot be sent.
    fn dispatch_stream(&mut self, transmit: &Transmit, out: &Outbox) -> bool {
        let flow = &transmit.flow;
        // Messages with one token in a row share a connection.
        let last = self.fresh.filter(|(token, _)| transmit.fresh && *token == transmit.token);
        let known = flow.conn.or(last.map(|(_, conn)| conn));
        let known = known.or_else(|| if transmit.fresh { None } else { self.streams.find(flow.remote) });
        let conn = match known {
            Some(conn) => conn,
            None => match self.connect(transmit) {
                Some(conn) => conn,
                None => return false,
            },
        };
        if transmit.fresh && known.is_none() {
            self.fresh = Some((transmit.token, conn));
            self.machine.connected(self.now, transmit.token, conn);
        }
        let message = out.message(transmit);
        let ticket = ticket(transmit, self.links.me());
        if conn.worker() == self.links.me() {
            // It reports a failure itself.
            self.streams.write(conn, message, ticket, &self.poller, self.now);
            return true;
        }
        self.links.hand_to_send(conn, message, ticket)
    }

    /// Begins a connection for a transmit, from the address of its listener.
    fn connect(&mut self, transmit: &Transmit) -> Option<ConnId> {
        let flow = &transmit.flow;
        let listener = self.links.shared().listeners.get(usize::from(flow.listener.0))?;
        let local = listener.address.ip();
        match self.streams.connect(local, flow.listener, flow.remote, &self.poller, self.now) {
            Ok(conn) => Some(conn),
            Err(error) => {
                tracing::debug!(remote = %flow.remote, %error, "cannot connect");
                None
            }
        }
    }

    fn dispatch_close(&mut self, conn: ConnId) {
        if conn.worker() == self.links.me() {
            self.streams.close_gently(conn, Reason::Asked, &self.poller, self.now);
        } else {
            self.links.tell(conn.worker(), Hop::Close(conn));
        }
    }
}
