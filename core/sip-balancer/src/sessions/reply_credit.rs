//! Responses to a caller on datagrams, whose address may be forged (RFC 3261 section 26.1.5).
//!
//! An address that has not shown that it receives gets three times the bytes that came from it, and the first
//! final response of each transaction. It shows it by what only a receiver knows: the To tag of a response
//! that went to it, or the nonce of a challenge that went to it, if a node accepts the credentials.

use crate::{Proof, Request};
use wire::Credit;

/// What has been sent in one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replies {
    credit: Credit,
    /// A final response has gone.
    answered: bool,
    /// The request has credentials that show that its sender receives, if a node accepts them.
    credentials: bool,
    /// The To tag is the node's choice, for the request has none.
    outside: bool,
    /// A hash of what only a receiver of the last response knows; zero: nothing.
    secret: u32,
}

/// A response as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub len: usize,
    /// A hash of what only its receiver knows; zero: nothing.
    pub secret: u32,
}

impl Replies {
    /// Nothing yet, for this number of bytes received.
    pub fn new(received: usize, proof: Proof, outside: bool) -> Replies {
        let credit = if proof == Proof::Shown { Credit::UNBOUNDED } else { Credit::of(received) };
        let credentials = proof == Proof::Credentials;
        Replies { credit, answered: false, credentials, outside, secret: 0 }
    }

    /// Nothing yet, for a request.
    pub fn of(r: &Request<'_>) -> Replies {
        Replies::new(r.bytes, r.proof, !r.inside)
    }

    /// A hash of what only a receiver of the last response knows; zero: nothing.
    pub fn secret(&self) -> u32 {
        self.secret
    }

    /// The request came once more.
    pub fn received(&mut self, bytes: usize, proof: Proof) {
        match proof {
            Proof::Shown => self.credit = Credit::UNBOUNDED,
            _ => self.credit.grant(bytes),
        }
    }

    /// Whether not all responses may go.
    pub fn is_bounded(&self) -> bool {
        self.credit != Credit::UNBOUNDED
    }

    /// Whether a response of this status shows that the sender receives.
    pub fn is_accepted(&self, status: u16) -> bool {
        self.credentials && (200..300).contains(&status)
    }

    /// Whether a response may go, which is then noted.
    pub fn pays(&mut self, reply: &Reply) -> bool {
        let last = reply.status >= 200;
        let goes = self.credit.pays(reply.len, 0) || (last && !self.answered);
        if goes {
            self.answered |= last;
            if self.outside && reply.secret != 0 {
                self.secret = reply.secret;
            }
        }
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(replies: &mut Replies, status: u16, len: usize) -> usize {
        (0..10).filter(|_| replies.pays(&Reply { status, len, secret: 0 })).count()
    }

    #[test]
    fn first_final_response_goes_and_others_are_paid_for() {
        let mut replies = Replies::new(100, Proof::None, true);
        assert_eq!((sent(&mut replies, 183, 1_000), sent(&mut replies, 180, 200)), (0, 1));
        assert_eq!((sent(&mut replies, 200, 1_000), sent(&mut replies, 200, 50)), (1, 2));
        replies.received(0, Proof::None);
        assert_eq!(sent(&mut replies, 200, 50), 0, "it was the balancer that repeated the request");
        replies.received(100, Proof::None);
        assert_eq!((sent(&mut replies, 200, 1_000), sent(&mut replies, 200, 100)), (0, 3));
    }

    #[test]
    fn proven_sender_gets_all_responses() {
        let mut replies = Replies::new(100, Proof::Shown, true);
        assert_eq!((sent(&mut replies, 183, 1_000), sent(&mut replies, 200, 1_000)), (10, 10));
        let mut replies = Replies::new(100, Proof::Credentials, true);
        assert_eq!(sent(&mut replies, 200, 1_000), 1);
        replies.received(100, Proof::Shown);
        assert_eq!(sent(&mut replies, 200, 1_000), 10);
    }
}
