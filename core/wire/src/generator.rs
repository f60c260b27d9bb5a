//! What the machines of a load generator do beyond those of a server.

use crate::{ConnId, Machine, Time};

/// A machine that generates load, or models who answers it: it measures from when messages came
/// ([`Arrival::at`](crate::Arrival::at)), and opens connections as it likes.
pub trait Generator: Machine {
    /// The connection that was begun for the message sent with this token as
    /// [`fresh`](crate::Delivery::fresh). Whether it comes about is seen by what becomes of the message.
    fn connected(&mut self, now: Time, token: u64, conn: ConnId) {
        let _ = (now, token, conn);
    }
}
