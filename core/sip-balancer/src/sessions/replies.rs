//! Responses to a caller on datagrams, whose address may be forged (RFC 3261 section 26.1.5).
//!
//! An address that has not shown that it receives gets three times the bytes that came from it, and the first final
//! response of each transaction. It shows it by what only a receiver knows: the To tag of a response that went to it, or
//! the nonce of a challenge that went to it, if a node accepts the credentials.

use crate::machine::requests::Checked;
use crate::message::dialog_of;
use crate::sessions::table::{Place, TxnPlace};
use crate::token::Branch;
use crate::{Balancer, CallKey, Dispatcher, Proof, Request, Tag};
use core::net::SocketAddr;
use sip_message::{AuthParams, Message, Method, Name};
use wire::{Credit, Flow};

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

    /// The request came once more.
    pub fn received(&mut self, bytes: usize, proof: Proof) {
        match proof {
            Proof::Shown => self.credit = Credit::UNBOUNDED,
            _ => self.credit.grant(bytes),
        }
    }

    fn is_bounded(&self) -> bool {
        self.credit != Credit::UNBOUNDED
    }

    /// Whether a response of this status shows that the sender receives.
    fn is_accepted(&self, status: u16) -> bool {
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

impl Dispatcher {
    /// Whether the last response to some request of a call went to this address and had this secret.
    fn has_got(&self, call: CallKey, address: SocketAddr, secret: u32) -> bool {
        let got = |at: Place| {
            let mut txns = self.sessions.of(at);
            txns.any(|(_, txn)| txn.back == Some(address) && txn.replies.secret == secret)
        };
        secret != 0 && self.sessions.find(call).is_some_and(got)
    }

    /// What has gone in a transaction for a request.
    pub(crate) fn replies(r: &Request<'_>) -> Replies {
        Replies::new(r.bytes, r.proof, !r.inside)
    }
}

impl Balancer {
    fn receives(&self, address: SocketAddr) -> bool {
        self.cluster.proven().has(self.sealer.address(address))
    }

    /// What shows that the sender of a request receives, which is noted.
    pub(crate) fn proof(&self, request: &Message<'_>, c: &Checked<'_>) -> Proof {
        let back = c.back.remote;
        if c.back.transport.is_reliable() || self.receives(back) {
            return Proof::Shown;
        }
        if self.dispatcher.has_got(c.call, back, dialog_of(request.to_tag())) {
            self.cluster.proven().note(self.sealer.address(back));
            return Proof::Shown;
        }
        match self.dispatcher.has_got(
            c.call,
            back,
            nonce(request, [Name::Authorization, Name::ProxyAuthorization]),
        ) {
            true => Proof::Credentials,
            false => Proof::None,
        }
    }

    /// Whether a response may go to the sender of a request, whose record is at `place`. Without one nothing is known.
    pub(crate) fn may_go(
        &mut self,
        place: Option<TxnPlace>,
        branch: &Branch,
        to: Flow,
        response: &Message<'_>,
    ) -> bool {
        let Some(place) = place.filter(|_| !to.transport.is_reliable()) else { return true };
        let tag = Tag::of(response.method());
        let Some(txn) =
            self.dispatcher.sessions.txn(place).filter(|txn| (txn.id, txn.tag) == (branch.id, tag))
        else {
            return true;
        };
        if !txn.replies.is_bounded() {
            return true;
        }
        self.repays(place, &Reply::of(response))
    }

    /// Whether a reply may go to an address that had not shown that it receives when the request came. It is noted then,
    /// else counted.
    pub(crate) fn repays(&mut self, place: TxnPlace, reply: &Reply) -> bool {
        let Some(txn) = self.dispatcher.sessions.txn(place) else { return true };
        let (back, accepted) = (txn.back, txn.replies.is_accepted(reply.status));
        if let Some(back) = back.filter(|_| accepted) {
            self.cluster.proven().note(self.sealer.address(back));
        }
        let mut goes = false;
        self.dispatcher.sessions.note(place, |txn| goes = txn.replies.pays(reply));
        goes = goes || back.is_some_and(|back| self.receives(back) || self.cluster.is_node_ip(back.ip()));
        self.counts.withheld += u64::from(!goes);
        goes
    }
}

impl Reply {
    fn of(response: &Message<'_>) -> Reply {
        let status = response.status();
        // The ACK of an INVITE has the tag.
        let secret = match status {
            401 | 407 if response.method() != Method::Invite => {
                nonce(response, [Name::WwwAuthenticate, Name::ProxyAuthenticate])
            }
            _ => dialog_of(response.to_tag()),
        };
        Reply { status, len: response.bytes().len(), secret }
    }
}

/// A hash of the nonce in the first of these; zero: there is none.
fn nonce(message: &Message<'_>, names: [Name; 2]) -> u32 {
    let values = names.into_iter().flat_map(|name| message.headers(name));
    let parsed = values.filter_map(|header| AuthParams::parse(header.value)?.get(b"nonce")).next();
    parsed.map_or(0, dialog_of)
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
