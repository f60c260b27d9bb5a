//! What the machines of a load generator do beyond those of a server.

use crate::{ConnId, Machine, Time};

/// A machine that generates load, or answers it. It measures from the arrival of messages
/// ([`Arrival::at`](crate::Arrival::at)), and may open further connections.
pub trait Generator: Machine {
    /// The connection that was begun for the [`fresh`](crate::Delivery::fresh) message sent with this token.
    /// Whether it succeeds shows in the fate of the message.
    fn connected(&mut self, now: Time, token: u64, conn: ConnId) {
        let _ = (now, token, conn);
    }
}
