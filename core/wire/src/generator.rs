//! What the machines of a load generator do beyond those of a server.

use crate::{ConnId, Flow, Machine, Outbox, Time};

/// A machine that generates load, or models who answers it: it measures, and opens connections as it likes.
pub trait Generator: Machine {
    /// As [`Machine::receive`], for a message that came at `arrived` and had to wait until `now`. What is
    /// measured counts from when it came.
    fn receive_late(&mut self, now: Time, arrived: Time, flow: Flow, message: &[u8], out: &mut Outbox);

    /// The connection that was begun for the message sent with this token by [`send_fresh`]. Whether it comes
    /// about is seen by what becomes of the message.
    fn connected(&mut self, now: Time, token: u64, conn: ConnId) {
        let _ = (now, token, conn);
    }
}

/// As [`Outbox::send`], but on a new stream connection, which [`Generator::connected`] reports. Consecutive
/// messages with the same token in an outbox share the connection.
pub fn send_fresh(out: &mut Outbox, flow: Flow, token: u64, message: &[u8]) {
    out.send(flow, token, message);
    out.freshens();
}
