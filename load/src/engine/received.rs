//! What a call has received.

use super::call;
use crate::scenario::{Outline, Seeker};
use sip_message::Message;

/// The last message received that was no retransmission.
#[derive(Debug, Default)]
pub struct Received {
    last: Vec<u8>,
    /// Where the headers stand in it that texts ask for.
    outline: Outline,
    /// Something was sent since.
    answered: bool,
    /// A provisional response to the INVITE sent last has come.
    tried: bool,
}

impl Received {
    /// The message; empty if there was none.
    #[inline]
    pub fn last(&self) -> &[u8] {
        &self.last
    }

    /// Where headers stand in it.
    #[inline]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Whether something was sent since.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Whether a provisional response to the INVITE sent last has come.
    pub fn is_tried(&self) -> bool {
        self.tried
    }

    /// Keeps a message, and where these headers stand in it.
    #[inline]
    pub fn keep(&mut self, headers: &Seeker, message: &Message<'_>) {
        self.last.clear();
        self.last.extend_from_slice(message.bytes());
        self.outline.learn(headers, message);
        self.answered = false;
    }

    /// A message goes out; `invite`: it is an INVITE.
    #[inline]
    pub fn answer(&mut self, invite: bool) {
        self.answered = true;
        self.tried &= !invite;
    }

    /// A provisional response to an INVITE came.
    #[inline]
    pub fn provisional(&mut self) {
        self.tried = true;
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        call::clear(&mut self.last);
        self.outline.clear();
        (self.answered, self.tried) = (false, false);
    }
}
