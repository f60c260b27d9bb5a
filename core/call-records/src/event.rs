//! What a worker says of a call.

use crate::name::CallName;
use core::net::SocketAddr;

/// No dialog: in [`What::Lives`], the call of the event's name.
pub const NO_DIALOG: u64 = 0;
/// The branch of an answer whose target is not known.
pub const NO_BRANCH: u16 = u16::MAX;
/// Bytes kept of a text, such as a URI. What is longer is cut.
pub const TEXT_MAX: usize = 255;

/// What happened to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The call; [`CallName::NONE`] where a dialog names it.
    pub name: CallName,
    /// When, in microseconds of a clock that nobody sets.
    pub at: u64,
    /// By how many microseconds the time of day since 1970 was ahead of `at` then.
    pub ahead: i64,
    /// What.
    pub what: What<'a>,
}

/// What can happen to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// An INVITE outside of any dialog was accepted for handling.
    Began(Began<'a>),
    /// An INVITE of a stranger was refused with this status, and nothing of it is kept.
    Refused(Began<'a>, u16),
    /// The INVITE was sent to a further target: another fork, the next gateway, or where a call is forwarded.
    Tried(Tried<'a>),
    /// A callee rings: there is a provisional response of 180 to 189 for the caller. A stranger may have to
    /// repeat its INVITE to get it.
    Rang,
    /// A 2xx response went to the caller.
    Answered(Answered<'a>),
    /// A user has forwarded the call, with this `cause` (RFC 4458).
    Forwarded(u16),
    /// The INVITE got a final response other than 2xx.
    Failed(Failed),
    /// The call goes on without this server.
    Left,
    /// Something within this dialog ([`Answered::dialog`]) was answered other than a BYE, or [`NO_DIALOG`].
    Lives(u64),
    /// A 2xx has set the session interval of this dialog, seconds, or taken its session timer away: 0 (RFC
    /// 4028).
    Refreshed(u64, u32),
    /// A dialog is over.
    Ended(Ended),
    /// Nothing but the end of its dialogs concerns the call any more: its name is another one's.
    Detached,
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
    /// It has a To tag, so it may be within a call: of a phone that ignores Record-Route. Unless it is
    /// answered in a dialog of its own, it begins no call and has no record.
    pub within: bool,
}

/// A target of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried<'a> {
    /// The Request-URI that was sent.
    pub target: &'a [u8],
    /// The name of the trunk that it was sent to; else empty.
    pub trunk: &'a [u8],
    /// Tells the branches of an INVITE apart.
    pub branch: u16,
}

/// A failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The status that the caller was told, 300 or above.
    pub status: u16,
    /// Whose decision it was.
    pub by: Party,
    /// A callee that was given up may answer yet (RFC 3261 section 16.7 step 5).
    pub late: bool,
}

/// The end of a dialog: its BYE was answered, or nobody answered it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Who sent the BYE.
    pub by: Party,
    /// The dialog ([`Answered::dialog`]).
    pub dialog: u64,
    /// Microseconds since the BYE came.
    pub ago: u64,
}

/// The answer of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered<'a> {
    /// The status, 200 to 299.
    pub status: u16,
    /// Names the dialog ([`Namer::dialog`](crate::Namer)).
    pub dialog: u64,
    /// The branch that was answered ([`Tried::branch`]), or [`NO_BRANCH`].
    pub branch: u16,
    /// The tag in To.
    pub callee_tag: &'a [u8],
    /// The Request-URI that was sent to who has answered. If it is empty, that of the branch counts.
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
