//! Calls that a node refuses for reasons of its own: another node may have them.
//!
//! Who gets 503 is to try another server (RFC 3261 section 21.5.4, RFC 3263 section 4.3), and of those behind
//! us only we know. An INVITE outside a dialog that is kept, and of which the caller has heard nothing but
//! 100, goes to another node, as one does whose node is silent; the refusal is acknowledged here (17.1.1.3).
//! Each node has it once, and few of them. Where all others have just refused calls as well and named a time,
//! or refuse most of what they get, none of them has it: an overload is not mended by as many attempts again.

use crate::failover::state::Failover;
use crate::failover::store::{Entry, KeptMessage, Memory};
use crate::forwarding::step::Step;
use crate::message::wait;
use crate::{CallKey, MethodClass, NodeIndex};
use sip_message::Message;

impl Failover {
    /// A node has refused an INVITE with 503. Says which INVITE is replayed, so that another one has it and
    /// the caller is not told.
    pub(crate) fn goes_on(
        &mut self,
        step: &mut Step<'_>,
        (call, id, node): (CallKey, u64, NodeIndex),
        response: &Message<'_>,
    ) -> Option<u32> {
        let at = self.kept.find(id, MethodClass::Invite, KeptMessage::ToNode)?;
        let open = self.kept.get(at).is_some_and(|e| e.fresh && !e.settled && !e.alerted && e.node == node);
        if !open
            || !self.has_other(step, at)
            || !step.dispatcher.has_willing(step.now, call, id)
            || !step.dispatcher.refused_by(step.now, call, id, node, wait(response, MethodClass::Invite))
        {
            return None;
        }
        if step.forwarder.cluster().speaks(node) {
            step.hear(node, response);
        }
        self.withdraw(step, at, node, Some(response));
        if let Some(entry) = self.kept.get_mut(at) {
            // It has said all that it will say.
            entry.rang = false;
        }
        Some(at)
    }

    /// A phone takes an INVITE that its node got once more for a copy of the one that it rings for
    /// (`Memory::Renewed`, RFC 3261 section 8.2.2.2). So that one is there, and its answer finds the way that
    /// the INVITE has shown it. Says whether that is so; then the refusal is acknowledged here (17.1.1.3),
    /// and the caller hears it ring on.
    pub(crate) fn rings_on(
        &mut self,
        step: &mut Step<'_>,
        (call, id): (CallKey, u64),
        node: NodeIndex,
        response: &Message<'_>,
    ) -> bool {
        let rings = |e: &Entry| {
            let same = e.memory == Memory::Renewed && e.alerted && !e.settled && e.node == node;
            same && !step.dispatcher.calls().is_cancelled(call, id)
        };
        let at = self.kept.find(id, MethodClass::Invite, KeptMessage::ToNode);
        let Some(at) = at.filter(|at| self.kept.get(*at).is_some_and(rings)) else { return false };
        if let Some(entry) = self.kept.get_mut(at) {
            entry.heard();
        }
        self.acknowledge(step, at, node, response);
        true
    }
}
