//! Limits of received messages.

use crate::output::{MAX_CONTROL_PAYLOAD, MAX_HEADER};

/// Limits of what is received.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a message, all of its fragments together.
    pub message: u32,
    /// Frames of a message. Bounds what empty fragments cost.
    pub fragments: u16,
}

impl Limits {
    /// The most bytes that [`crate::Reader::finish`] keeps, unless the caller left events unread: a message
    /// without its end, and a frame without its end.
    pub const fn held(&self) -> usize {
        self.message as usize + MAX_HEADER + MAX_CONTROL_PAYLOAD
    }
}

impl Default for Limits {
    /// 64 KiB, which no accepted SIP message exceeds, and 256 frames.
    fn default() -> Limits {
        Limits { message: 65_536, fragments: 256 }
    }
}
