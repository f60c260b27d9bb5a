//! What a worker says of a call.

use crate::name::CallName;
use core::net::SocketAddr;

/// Ends all dialogs of a call, in [`What::Ended`].
pub const ALL_DIALOGS: u64 = 0;
/// Bytes kept of a text, such as a URI. What is longer is cut.
pub const TEXT_MAX: usize = 255;

/// What happened to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The call.
    pub name: CallName,
    /// When, in microseconds since 1970.
    pub at: u64,
    /// What.
    pub what: What<'a>,
}

/// What can happen to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// An INVITE outside of any dialog was accepted for handling.
    Began(Began<'a>),
    /// The INVITE was sent to a further target: another fork, the next gateway, or where a call is forwarded.
    Tried(&'a [u8]),
    /// The caller was told that a callee rings: a provisional response of 180 to 189.
    Rang,
    /// A 2xx response went to the caller.
    Answered(Answered<'a>),
    /// The INVITE got a final response other than 2xx.
    Failed(u16, Party),
    /// A BYE was answered, or nobody answered it. The number is that of the dialog ([`Answered::dialog`]), or
    /// [`ALL_DIALOGS`].
    Ended(Party, u64),
}

/// The beginning of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Began<'a> {
    /// Call-ID.
    pub call_id: &'a [u8],
    /// The URI in From.
    pub from: &'a [u8],
    /// The tag in From.
    pub caller_tag: &'a [u8],
    /// The URI in To.
    pub to: &'a [u8],
    /// The Request-URI as it was received.
    pub request_uri: &'a [u8],
    /// P-Asserted-Identity of a sender whose word counts (RFC 3325); empty if there is none.
    pub asserted: &'a [u8],
    /// The address-of-record of the caller, if the caller has proven to be one of our users; else empty.
    pub user: &'a [u8],
    /// The name of the trunk that the call came from; else empty.
    pub trunk: &'a [u8],
    /// Where the INVITE came from.
    pub source: SocketAddr,
    /// Over which transport, as in Via: `UDP`.
    pub transport: &'a [u8],
}

/// The answer of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered<'a> {
    /// The status, 200 to 299.
    pub status: u16,
    /// Tells the dialogs of a call apart: a hash of Call-ID and callee's tag
    /// ([`Namer::dialog`](crate::Namer)).
    pub dialog: u64,
    /// The tag in To.
    pub callee_tag: &'a [u8],
    /// The Request-URI that was sent to who has answered.
    pub target: &'a [u8],
    /// The name of the trunk that it was sent to; else empty.
    pub trunk: &'a [u8],
    /// The first `m=` line of the answer, and the `a=rtpmap` line of its first format if there is one, with a
    /// space between; empty if the answer was not in this response.
    pub codec: &'a [u8],
}

/// Who did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// The caller.
    Caller,
    /// The callee, or a server on the way to it.
    Callee,
    /// This server.
    Server,
    /// Nobody: a time was over.
    Timeout,
}

impl Party {
    /// All of them.
    pub const ALL: [Party; 4] = [Party::Caller, Party::Callee, Party::Server, Party::Timeout];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Party::Caller => "caller",
            Party::Callee => "callee",
            Party::Server => "server",
            Party::Timeout => "timeout",
        }
    }
}

/// A text as long as one may be.
pub fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_MAX)]
}
