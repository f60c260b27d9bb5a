//! Faults of a peer.

use crate::CloseCode;
use core::fmt;

/// Why a connection is failed (RFC 6455 section 7.1.7). Shows itself as a text for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A reserved bit is set, and no extension was negotiated (section 5.2).
    ReservedBits,
    /// An undefined opcode (section 5.2).
    ReservedOpcode,
    /// A frame of a client without a mask (section 5.1).
    NotMasked,
    /// A frame of a server with a mask (section 5.1).
    Masked,
    /// A length in more bytes than it needs (section 5.2).
    LengthNotMinimal,
    /// A length of 2^63 or more (section 5.2).
    LengthTooLarge,
    /// A control frame in fragments (section 5.5).
    FragmentedControl,
    /// A control frame with more than 125 bytes (section 5.5).
    ControlTooLong,
    /// A continuation frame, and no message has begun (section 5.4).
    NothingToContinue,
    /// A new message before the end of the last one (section 5.4).
    MessageNotFinished,
    /// A message that is longer than [`crate::Limits::message`].
    TooBig,
    /// A message in more frames than [`crate::Limits::fragments`].
    TooManyFragments,
    /// A text message that is not UTF-8 (section 8.1).
    InvalidText,
    /// A Close frame with half a status code, or with one that no frame may carry (section 7.4).
    InvalidCloseCode,
    /// A Close frame whose reason is not UTF-8 (section 5.5.1).
    InvalidCloseReason,
}

impl Fault {
    /// The status code that the Close frame tells the peer.
    pub const fn code(self) -> CloseCode {
        match self {
            Fault::TooBig => CloseCode::TOO_BIG,
            Fault::TooManyFragments => CloseCode::POLICY_VIOLATION,
            Fault::InvalidText | Fault::InvalidCloseReason => CloseCode::INVALID_DATA,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }

    /// The text for the log, and the reason in the Close frame.
    pub const fn reason(self) -> &'static str {
        match self {
            Fault::ReservedBits => "reserved bits set",
            Fault::ReservedOpcode => "reserved opcode",
            Fault::NotMasked => "frame not masked",
            Fault::Masked => "frame masked",
            Fault::LengthNotMinimal => "length not in its shortest form",
            Fault::LengthTooLarge => "length of 2^63 or more",
            Fault::FragmentedControl => "control frame fragmented",
            Fault::ControlTooLong => "control frame too long",
            Fault::NothingToContinue => "continuation without a message",
            Fault::MessageNotFinished => "new message inside a fragmented one",
            Fault::TooBig => "message too long",
            Fault::TooManyFragments => "message in too many fragments",
            Fault::InvalidText => "text is not UTF-8",
            Fault::InvalidCloseCode => "invalid status code in Close",
            Fault::InvalidCloseReason => "reason in Close is not UTF-8",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}
