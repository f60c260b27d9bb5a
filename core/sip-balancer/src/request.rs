//! Requests and responses as assignment sees them, and what it decides. Nothing here is read from a message.

use crate::{MethodClass, NodeIndex};
use core::net::SocketAddr;
use core::time::Duration;

/// A Call-ID under a keyed hash. 128 bits of a secret function: no two Call-IDs meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallKey(pub u64, pub u64);

/// What shows that the sender of a request receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Proof {
    /// Nothing.
    #[default]
    None,
    /// Its credentials, if a node accepts them: their nonce went to its address.
    Credentials,
    /// It came over a stream, or its address has shown that it receives.
    Shown,
}

/// What is to be known of a request. ACK is none: see [`Dispatcher::ack`](crate::Dispatcher::ack).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its call.
    pub call: CallKey,
    /// The Call-ID itself, for the algorithms that hash it.
    pub call_id: &'a [u8],
    /// The same for a request and its retransmissions, and for an INVITE and its CANCEL.
    pub id: u64,
    /// Where its responses go, if that is known.
    pub back: Option<SocketAddr>,
    /// The method.
    pub class: MethodClass,
    /// It has a To tag: it belongs to a dialog.
    pub inside: bool,
    /// The node that a token of ours in its Route names.
    pub token: Option<NodeIndex>,
    /// It shows that it is of its dialog: by a token of ours, or there are none. Nobody else's end is the
    /// call's end, but one that a node agrees to.
    pub sealed: bool,
    /// A hash by which it has a home node, of a REGISTER that is kept with its address-of-record.
    pub home: Option<u64>,
    /// It is too long for a datagram (RFC 3261 section 18.1.1).
    pub large: bool,
    /// It is for a `sips:` URI: a node that is chosen for it is one that is reached over TLS.
    pub secure: bool,
    /// Its length; 0 where it was not received just now but is sent once more.
    pub bytes: usize,
    /// What shows that its sender receives.
    pub proof: Proof,
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// The node.
    pub node: NodeIndex,
    /// It has been forwarded before, and nothing was counted.
    pub again: bool,
    /// It goes as what is too long for a datagram does: because it is, or because its INVITE went so.
    pub large: bool,
}

/// Why a request goes nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAssigned {
    /// No node takes it: 503 with Retry-After.
    NoNode,
    /// No room for another call or transaction: 503 with Retry-After.
    Full,
    /// A CANCEL of a call that nothing is known of.
    NoCall,
    /// All nodes ask for less new work: 503 without Retry-After (RFC 7339 section 5.10).
    TooMuch,
}

/// What is to be known of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Retry-After of a 503, Expires of a 2xx to a SUBSCRIBE.
    pub wait: Option<Duration>,
    /// A hash of its To tag, by which dialogs of one call are told apart; zero: none.
    pub dialog: u32,
}

impl Answer {
    /// One of which no more is known.
    pub const fn new(status: u16) -> Answer {
        Answer { status, wait: None, dialog: 0 }
    }
}

/// What a response of a node was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Of a transaction that was unfinished.
    Counted,
    /// Of one that is remembered, or was never known: it is forwarded and changes nothing.
    Stray,
    /// Of one that another node has by now.
    Replaced,
}
