//! Why a call is forwarded.

use crate::when::When;

/// Why a call is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// All calls are.
    Unconditional,
    /// The user is busy or has declined.
    Busy,
    /// Nobody has answered in time.
    NoAnswer,
    /// No phone is registered, or none can be reached.
    Unreachable,
    /// The user does not want to be disturbed.
    DoNotDisturb,
    /// A further number of the user rings at the same time.
    FollowMe,
}

impl Reason {
    /// Which setting of the user decides where the call goes.
    pub const fn when(self) -> When {
        match self {
            Reason::Unconditional | Reason::FollowMe => When::Always,
            Reason::Busy | Reason::DoNotDisturb => When::Busy,
            Reason::NoAnswer => When::NoAnswer,
            Reason::Unreachable => When::Unreachable,
        }
    }

    /// The value of `reason` in Diversion (RFC 5806 section 4).
    pub const fn diversion(self) -> &'static str {
        match self {
            Reason::Unconditional => "unconditional",
            Reason::Busy => "user-busy",
            Reason::NoAnswer => "no-answer",
            Reason::Unreachable => "unavailable",
            Reason::DoNotDisturb => "do-not-disturb",
            Reason::FollowMe => "follow-me",
        }
    }

    /// The value of `cause` in a URI (RFC 4458 section 2.2), as RFC 7544 section 6.1 maps the reasons of
    /// Diversion.
    pub const fn cause(self) -> u16 {
        match self {
            Reason::Unconditional | Reason::FollowMe => 302,
            Reason::Busy => 486,
            Reason::NoAnswer => 408,
            Reason::Unreachable => 503,
            Reason::DoNotDisturb => 480,
        }
    }

    /// Whether something that happened leads to it, rather than a setting alone: it stands as Reason in
    /// History-Info (RFC 7044 section 10.2).
    pub const fn is_response(self) -> bool {
        matches!(self, Reason::Busy | Reason::NoAnswer | Reason::Unreachable)
    }
}
