//! The state of a connection.

use crate::output::ControlFrame;
use crate::{CloseCode, Fault, Kind, Role};

/// The state of a connection after the opening handshake (RFC 6455 section 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Messages may be sent and received.
    Open,
    /// A Close frame was sent or received, or the peer broke a rule. The caller sends the Close frame that is
    /// missing ([`Connection::close`]), or waits a bounded time for that of the peer.
    Closing,
    /// Nothing more is sent or received. A server closes the TCP connection now; a client waits a bounded
    /// time for the server to do it.
    Closed,
}

/// A connection after the opening handshake: the state from one read to the next. It holds no bytes;
/// unfinished ones stay in the caller's buffer (see [`Connection::read`]).
#[derive(Debug)]
pub struct Connection {
    role: Role,
    pub(crate) message: Assembly,
    pings: u32,
    sent_close: bool,
    received_close: bool,
    failed: bool,
}

// Thousands of idle phones each have one.
const _: () = assert!(size_of::<Connection>() <= 24);

/// The message that has begun. Its bytes, unmasked and together, are the first ones in the caller's buffer.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Assembly {
    /// Its kind, or `None` if none has begun.
    pub kind: Option<Kind>,
    /// Whether its last fragment is there: it was offered to the caller, which had no room for it.
    pub whole: bool,
    /// Frames so far.
    pub fragments: u16,
    /// Bytes so far.
    pub len: u32,
}

impl Connection {
    /// A connection whose opening handshake is done.
    pub const fn new(role: Role) -> Connection {
        let message = Assembly { kind: None, whole: false, fragments: 0, len: 0 };
        Connection { role, message, pings: 0, sent_close: false, received_close: false, failed: false }
    }

    /// Which side this is.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// How far the closing handshake is.
    pub const fn state(&self) -> State {
        match (self.sent_close, self.received_close || self.failed) {
            (false, false) => State::Open,
            (true, true) => State::Closed,
            _ => State::Closing,
        }
    }

    /// Whether messages may be sent: not after our Close frame (section 5.5.1), and not to a peer that no
    /// longer reads them.
    pub const fn may_send(&self) -> bool {
        matches!(self.state(), State::Open)
    }

    /// Whether a message has begun and not ended. A caller that gives messages a deadline starts it here.
    pub const fn has_begun(&self) -> bool {
        self.message.kind.is_some()
    }

    /// Ping frames received since the connection began, modulo 2^32. A caller with a clock limits them by it.
    pub const fn pings(&self) -> u32 {
        self.pings
    }

    /// The one Close frame of this side (section 5.5.1), to begin the closing handshake or to answer that of
    /// the peer, usually with its code. `None` if it was sent before. Clients give a `key`, as for a message.
    pub fn close(
        &mut self,
        code: Option<CloseCode>,
        reason: &str,
        key: Option<[u8; 4]>,
    ) -> Option<ControlFrame> {
        debug_assert_eq!(key.is_some(), self.role == Role::Client, "clients mask, servers do not");
        let first = !core::mem::replace(&mut self.sent_close, true);
        first.then(|| ControlFrame::close(code, reason, key))
    }

    /// The Close frame that tells the peer of its fault; see [`Connection::close`].
    pub fn close_for(&mut self, fault: Fault, key: Option<[u8; 4]>) -> Option<ControlFrame> {
        self.close(Some(fault.code()), fault.reason(), key)
    }

    /// Whether everything that still comes is discarded: after the Close frame of the peer (section 1.4), or
    /// a fault (section 7.1.7).
    pub(crate) const fn discards(&self) -> bool {
        self.received_close || self.failed
    }

    pub(crate) fn count_ping(&mut self) {
        self.pings = self.pings.wrapping_add(1);
    }

    pub(crate) fn close_received(&mut self) {
        self.received_close = true;
    }

    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }
}
