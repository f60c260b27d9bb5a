//! Responses to a caller on datagrams, whose address may be forged (RFC 3261 section 26.1.5): see
//! [`Replies`](crate::sessions::reply_credit::Replies).

use crate::forwarding::check::Checked;
use crate::message::dialog_of;
use crate::sessions::place::TxnPlace;
use crate::sessions::reply_credit::Reply;
use crate::token::Branch;
use crate::{Balancer, MethodClass, Proof};
use core::net::SocketAddr;
use sip_message::{AuthParams, Message, Method, Name};
use wire::{Flow, Outbox, Time};

impl Balancer {
    fn receives(&self, address: SocketAddr) -> bool {
        self.cluster.proven().has(self.forwarder.sealer().address(address))
    }

    /// What shows that the sender of a request receives, which is noted.
    pub(crate) fn proof(&self, request: &Message<'_>, c: &Checked<'_>) -> Proof {
        let back = c.back.remote;
        if c.back.transport.is_reliable() || self.receives(back) {
            return Proof::Shown;
        }
        if self.dispatcher.calls().has_got(c.call, back, dialog_of(request.to_tag())) {
            self.cluster.proven().note(self.forwarder.sealer().address(back));
            return Proof::Shown;
        }
        match self.dispatcher.calls().has_got(
            c.call,
            back,
            nonce(request, [Name::Authorization, Name::ProxyAuthorization]),
        ) {
            true => Proof::Credentials,
            false => Proof::None,
        }
    }

    /// Whether a response may go to the sender of a request, whose record is at `place`. Without one nothing
    /// is known.
    pub(crate) fn may_go(
        &mut self,
        (now, place): (Time, Option<TxnPlace>),
        branch: &Branch,
        to: Flow,
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let Some(place) = place.filter(|_| !to.transport.is_reliable()) else { return true };
        let class = MethodClass::of(response.method());
        let Some(txn) =
            self.dispatcher.calls().txn(place).filter(|txn| (txn.id, txn.class) == (branch.id, class))
        else {
            return true;
        };
        if !txn.replies.is_bounded() {
            return true;
        }
        self.parts(now, out).1.repays(place, &reply_of(response))
    }
}

/// A response as far as it matters here.
fn reply_of(response: &Message<'_>) -> Reply {
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

/// A hash of the nonce in the first of these; zero: there is none.
fn nonce(message: &Message<'_>, names: [Name; 2]) -> u32 {
    let values = names.into_iter().flat_map(|name| message.headers(name));
    let parsed = values.filter_map(|header| AuthParams::parse(header.value)?.get(b"nonce")).next();
    parsed.map_or(0, dialog_of)
}
