//! Calls that a node refuses for reasons of its own: another node may have them.
//!
//! Who gets 503 is to try another server (RFC 3261 section 21.5.4, RFC 3263 section 4.3), and of those behind us only we
//! know. An INVITE outside a dialog that is kept, and of which the caller has heard nothing but 100, goes to another
//! node, as one does whose node is silent; the refusal is acknowledged here (17.1.1.3). Each node has it once, and few
//! of them. Where all others have just refused calls as well and named a time, or refuse most of what they get, none of
//! them has it: an overload is not mended by as many attempts again.

use crate::failover::store::What;
use crate::message::wait;
use crate::{Balancer, CallKey, NodeIndex, Tag};
use sip_message::Message;
use wire::{Outbox, Time};

impl Balancer {
    /// A node has refused an INVITE with 503. Says whether another one has it now, so that the caller is not told.
    pub(crate) fn goes_on(
        &mut self,
        now: Time,
        (call, id, node): (CallKey, u64, NodeIndex),
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let Some(at) = self.kept.find(id, Tag::Invite, What::ToNode) else { return false };
        let open = self.kept.get(at).is_some_and(|e| e.fresh && !e.settled && !e.alerted && e.node == node);
        if !open
            || !self.has_other(now, at)
            || !self.dispatcher.has_willing(now, call, id)
            || !self.dispatcher.refused_by(now, call, id, node, wait(response, Tag::Invite))
        {
            return false;
        }
        if self.cluster.speaks(node) {
            self.hear(now, node, response);
        }
        self.withdraw(now, at, node, Some(response), out);
        if let Some(entry) = self.kept.get_mut(at) {
            // It has said all that it will say.
            entry.rang = false;
        }
        self.feed(now, at, out);
        true
    }

    /// Whether an INVITE has been at another node before, so that both may have sent it to the same phone. That takes
    /// the second one for a copy that came by another way and says 482 (RFC 3261 section 8.2.2.2). To the caller this
    /// is no loop of its own, and it may well try again.
    pub(crate) fn is_merged(&self, id: u64) -> bool {
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        at.and_then(|at| self.kept.get(at)).is_some_and(|entry| entry.fresh && entry.has_rivals())
    }
}
