//! The four state machines of RFC 3261 section 17, as changed by RFC 6026.
//!
//! Pure functions from state and input to the next state, what to do, and what happens to the two
//! timers a transaction has: the one that sends again (A, E, G) and the one that ends a state
//! (B, D, F, H, I, J, K, L, M). The layer holds the bytes, the wheel and the ids.

pub(crate) mod invite_client;
pub(crate) mod invite_server;
pub(crate) mod plain_client;
pub(crate) mod plain_server;
#[cfg(test)]
mod testing;

/// What becomes of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Set {
    /// Runs on, if it runs.
    Keep,
    /// Stops.
    Off,
    /// Starts anew, in microseconds from now. Zero ends the state in the same tick.
    After(u64),
    /// The same for a timer that only keeps a finished transaction in memory (D, I, J, K, L, M): it
    /// may fire up to T1 late, which spares the wheel most of its work.
    Loosely(u64),
}

/// The outcome of one input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step<S, A> {
    /// The next state; `None`: Terminated, the transaction is destroyed.
    pub state: Option<S>,
    /// What to do.
    pub act: A,
    /// Timer A, E or G.
    pub resend: Set,
    /// Timer B, D, F, H, I, J, K, L or M.
    pub end: Set,
}

impl<S, A> Step<S, A> {
    /// A step that changes no timer.
    pub(crate) const fn to(state: S, act: A) -> Step<S, A> {
        Step { state: Some(state), act, resend: Set::Keep, end: Set::Keep }
    }

    /// The end of the transaction.
    pub(crate) const fn terminated(act: A) -> Step<S, A> {
        Step { state: None, act, resend: Set::Off, end: Set::Off }
    }

    /// The same step, setting the timer that sends again.
    pub(crate) fn resend(self, set: Set) -> Step<S, A> {
        Step { resend: set, ..self }
    }

    /// The same step, setting the timer that ends the state.
    pub(crate) fn end(self, after: u64) -> Step<S, A> {
        Step { end: Set::After(after), ..self }
    }

    /// The same step, remembering the finished transaction for a time.
    pub(crate) fn hold(self, after: u64) -> Step<S, A> {
        Step { end: Set::Loosely(after), ..self }
    }
}

/// What can happen to a client transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientInput {
    /// A 1xx response.
    Provisional,
    /// A 2xx response.
    Success,
    /// A 300 to 699 response.
    Failure,
    /// Timer A or E, last set to `interval` microseconds.
    ResendDue {
        /// What it was set to.
        interval: u64,
    },
    /// The timer that ends the state.
    EndDue,
    /// A CANCEL for this transaction has been sent.
    Cancelled,
    /// The transport could not send (17.1.4).
    SendFailed,
}

/// What a client transaction wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientAct {
    /// Nothing.
    Nothing,
    /// Send the request again.
    Resend,
    /// Pass the response to the transaction user.
    Deliver,
    /// Pass the response to the transaction user and acknowledge it.
    DeliverAndAck,
    /// Send the ACK again.
    Ack,
    /// Tell the transaction user that no response came.
    Timeout,
    /// Tell the transaction user that the request could not be sent.
    Unreachable,
    /// Tell the transaction user that a completed transaction is gone.
    Gone,
}

/// What can happen to a server transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerInput {
    /// A retransmission of the request.
    Request,
    /// An ACK (INVITE only).
    Ack,
    /// The transaction user sends a 1xx.
    Provisional,
    /// The transaction user sends a 2xx.
    Success,
    /// The transaction user sends a 300 to 699.
    Failure,
    /// Timer G, last set to `interval` microseconds.
    ResendDue {
        /// What it was set to.
        interval: u64,
    },
    /// The timer that ends the state.
    EndDue,
    /// The transport could not send (17.2.4).
    SendFailed,
}

/// What a server transaction wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerAct {
    /// Nothing: the input is absorbed.
    Nothing,
    /// Send the transaction user's response.
    Send,
    /// Do not send the transaction user's response: it comes too late.
    Refuse,
    /// Send the last response again, if there is one.
    Resend,
    /// Hand the ACK to the transaction user.
    PassAck,
    /// Tell the transaction user that no ACK came, and that the transaction is gone.
    AckTimeout,
    /// Tell the transaction user that a response could not be sent.
    Unreachable,
    /// Tell the transaction user that the transaction is gone.
    Gone,
}

/// A timer that is zero on reliable transports (D, I, J, K).
pub(crate) const fn zero_if(reliable: bool, after: u64) -> u64 {
    if reliable { 0 } else { after }
}
