//! Emptying the outbox: each transmit to the socket, connection or worker it is for.

use super::Worker;
use super::host::Host;
use crate::shared::Hop;
use crate::transport::stream::{Key, Reason, Ticket};
use wire::{ConnId, Outbox, Transmit, Transport};

/// So many datagrams are never cheaper to send together.
const FEW: usize = 2;

/// Who wants to hear of a transmit of worker `me`.
fn ticket(transmit: &Transmit, me: u16) -> Ticket {
    let Transmit { token, yields, keeps, uses, hurries, .. } = *transmit;
    Ticket { token, origin: me, yields, keeps, uses, hurries }
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
        let mut fresh = None;
        for (index, transmit) in out.transmits().iter().enumerate() {
            let taken = match transmit.flow.transport {
                Transport::Udp => self.datagrams.enqueue(&transmit.flow, index as u32),
                Transport::Tcp | Transport::Tls => self.dispatch_stream(transmit, &out, &mut fresh),
                Transport::Ws | Transport::Wss | Transport::Sctp => false,
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
        let plain = |transmit: &Transmit| transmit.flow.transport == Transport::Udp;
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
        let find = || self.streams.find(&Key::new(flow.transport, flow.remote));
        let known = known.or_else(|| if transmit.fresh { None } else { find() });
        let conn = match known {
            Some(conn) => conn,
            None => match self.connect(transmit) {
                Some(conn) => conn,
                None => return false,
            },
        };
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

    /// Begins a connection for a transmit, from the address of its listener.
    fn connect(&mut self, transmit: &Transmit) -> Option<ConnId> {
        let flow = &transmit.flow;
        // Whose certificate would have to be seen nobody says.
        if flow.transport != Transport::Tcp {
            return None;
        }
        let listener = self.driver.rings().shared().listeners.get(usize::from(flow.listener.0))?;
        let (local, now) = (listener.address.ip(), self.driver.now());
        match self.streams.connect(local, flow.listener, flow.remote, &self.poller, now) {
            Ok(conn) => Some(conn),
            Err(error) => {
                tracing::debug!(remote = %flow.remote, %error, "cannot connect");
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
