//! What a call knows of the other side: the state of its dialog (RFC 3261 section 12) and the challenge that
//! it answers.

use super::call;
use crate::scenario::{self, Challenge};
use sip_message::Message;

/// The largest number of a CSeq.
pub(super) const LAST_CSEQ: u32 = (1 << 31) - 1;

/// The other side of a call, as its texts show it.
#[derive(Debug, Default)]
pub struct Peer {
    /// The number of the CSeq of the request sent or received last.
    cseq: u32,
    /// The tag of the To of the last response.
    tag: Vec<u8>,
    /// The value of Route.
    routes: Vec<u8>,
    /// The remote target.
    target: Vec<u8>,
    challenge: Option<Box<Challenge>>,
    challenged: bool,
}

impl Peer {
    /// Of a call whose first request has the number behind this.
    pub fn begin(&mut self, cseq: u32) {
        self.cseq = cseq;
    }

    #[inline]
    pub fn cseq(&self) -> u32 {
        self.cseq
    }

    #[inline]
    pub fn tag(&self) -> &[u8] {
        &self.tag
    }

    #[inline]
    pub fn routes(&self) -> &[u8] {
        &self.routes
    }

    #[inline]
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// All that texts show, with the challenge that they may answer.
    #[inline(always)]
    pub fn parts(&mut self) -> ([&[u8]; 3], Option<&mut Challenge>) {
        let challenge = self.challenge.as_deref_mut().filter(|_| self.challenged);
        ([&self.tag, &self.routes, &self.target], challenge)
    }

    /// A request goes out that is no ACK or CANCEL.
    #[inline]
    pub fn next_cseq(&mut self) {
        // 2**31 is no number of a CSeq (RFC 3261 section 8.1.1.5), and a peer may have used the last one.
        self.cseq = self.cseq.saturating_add(1).min(LAST_CSEQ);
    }

    /// A message came for a step; `routes`: its route set and target are to be used, `challenge`: its
    /// challenge is to be answered.
    #[inline]
    pub fn learn(&mut self, message: &Message<'_>, routes: bool, challenge: bool) {
        if message.is_request() {
            self.cseq = message.cseq();
        } else {
            scenario::learn_peer_tag(message, &mut self.tag);
        }
        if routes {
            scenario::learn_routes(message, &mut self.routes);
            scenario::learn_next_url(message, &mut self.target);
        }
        if challenge {
            self.challenged = self.challenge.get_or_insert_default().learn(message);
        }
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        for text in [&mut self.tag, &mut self.routes, &mut self.target] {
            call::clear(text);
        }
        (self.cseq, self.challenged) = (0, false);
    }
}
