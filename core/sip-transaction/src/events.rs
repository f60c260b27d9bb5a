//! What the layer says to the transaction user.

use crate::id::{ClientId, ServerId};

/// What there is too little of for another transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Short {
    /// Transactions are at their limit.
    Transactions,
    /// The bytes held are.
    Bytes,
    /// Unproven senders, or the one who asks, hold their share of either.
    Share,
}

/// What a received request is to the transaction user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inbound {
    /// A new request, neither ACK nor CANCEL.
    New(ServerId),
    /// Nothing: a retransmission (answered already if there is an answer), or an ACK for a failure.
    Absorbed,
    /// An ACK for no failure of ours, so for a 2xx: the transaction user routes it.
    AckOutside,
    /// A CANCEL, with a transaction of its own to be answered in.
    Cancel {
        /// The CANCEL's transaction.
        id: ServerId,
        /// The INVITE to be cancelled. It may have been answered meanwhile, see
        /// [`Layer::is_answered`](crate::Layer::is_answered); then the CANCEL has no effect on it (RFC 3261
        /// 9.2).
        invite: Option<ServerId>,
        /// Whether a transaction of any method matched: the answer is 200, else 481 (9.2), or a
        /// proxy forwards the CANCEL statelessly (16.10).
        matched: bool,
    },
    /// There is no room for another server transaction.
    Full(Short),
}

/// What a received response is to the transaction user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A response to act on.
    Deliver {
        /// What the transaction user gave to [`Layer::send_request`](crate::Layer::send_request).
        user: u64,
    },
    /// A retransmission, or an answer to a CANCEL.
    Absorbed,
    /// A response to nothing we sent. It must not be forwarded (RFC 6026 section 6).
    Unknown,
}

/// What time or the transport did to a transaction.
///
/// Each client transaction that was sent ends with exactly one of [`Event::ClientTimeout`],
/// [`Event::ClientUnreachable`] and [`Event::ClientGone`], each server transaction with exactly one
/// [`Event::ServerGone`], unless it was abandoned. The id is invalid from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // `id` and `user` are the same in all of them
pub enum Event {
    /// No final response: timers B and F, 64*T1 after a CANCEL (RFC 3261 9.1), or an INVITE that rang for
    /// [`Timers::lifetime`](crate::Timers::lifetime) without anything new. To be treated as a 408 (16.7),
    /// after a CANCEL as a 487.
    ClientTimeout { id: ClientId, user: u64 },
    /// The request, or the ACK of a failure, could not be sent (17.1.4). Treated as a 503 (16.9)
    /// unless a final response has been delivered.
    ClientUnreachable { id: ClientId, user: u64 },
    /// A client transaction that had its final response is over (timers D, K, M).
    ClientGone { id: ClientId, user: u64 },
    /// A server transaction is over: timers I, J, L, H, or it was not answered in time.
    ServerGone { id: ServerId, user: u64 },
    /// No ACK came for a failure (timer H, 17.2.1). [`Event::ServerGone`] follows.
    AckTimeout { id: ServerId, user: u64 },
    /// A response could not be sent (17.2.4). The transaction stays (RFC 6026 8.8).
    ServerUnreachable { id: ServerId, user: u64 },
    /// A timer of the transaction user fired.
    User { token: u64 },
}
