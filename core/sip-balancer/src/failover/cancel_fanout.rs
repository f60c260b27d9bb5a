//! CANCEL of an INVITE that nothing is known of: the balancer was started anew since, or another one had it.
//!
//! Who has no memory of the INVITE must send the CANCEL on without any (RFC 3261 section 16.10), or the callee rings on for
//! a caller that is gone. Which node has it cannot be known: a CANCEL carries no token, as its INVITE had none. But the
//! branch that its INVITE had at a node can, for it follows from the request, the key and the node. So each node that is
//! usable gets the CANCEL with the branch that the INVITE would have had there, and those that do not have it say 481.
//! While a secret is changed the INVITE may have been sealed with either, and each gets two.
//!
//! Whoever sends CANCELs of nothing has no more of that than of other requests: the sender gets one refusal at most, be it
//! a false one, for those of all nodes but one are dropped, and nodes get [`MOST`] of them a second at most.

use crate::machine::requests::Checked;
use crate::message::origin;
use crate::token::Branch;
use crate::{Assigned, Balancer, CallKey, NodeIndex, Tag};
use core::time::Duration;
use sip_message::Message;
use wire::{Flow, Outbox, Time};

/// CANCELs of unknown INVITEs that a worker sends to nodes in a second. More are refused with 481.
const MOST: usize = 1_024;
const WINDOW: Duration = Duration::from_secs(1);

/// How many have been sent to nodes in this window.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Scattered {
    since: Time,
    count: usize,
}

impl Scattered {
    /// Whether `more` of them may be sent now. If so they are counted.
    fn take(&mut self, now: Time, more: usize) -> bool {
        if now.since(self.since) >= WINDOW {
            *self = Scattered { since: now, count: 0 };
        }
        let fits = self.count + more <= MOST;
        self.count += if fits { more } else { 0 };
        fits
    }
}

impl Balancer {
    /// A CANCEL of a call that nothing is known of.
    pub(crate) fn cancel_unknown(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        out: &mut Outbox,
    ) {
        let there = |at: &NodeIndex| self.cluster.is_usable(now, *at);
        let nodes: Vec<NodeIndex> = self.cluster.members().map(|(at, _)| at).filter(there).collect();
        let epochs = self.sealer.epochs();
        if nodes.is_empty() || !self.scattered.take(now, nodes.len() * epochs.clone().count()) {
            return self.refuse(flow, request, 481, b"", b"", out);
        }
        let origin = origin(request, c.back.remote.ip(), c.call);
        for epoch in epochs {
            let c = Checked { id: self.sealer.id(epoch, &origin), epoch, ..*c };
            for &node in &nodes {
                let to = Assigned { node, again: false, large: false };
                if let Some(way) = self.way(to, flow.listener) {
                    self.forward(flow, request, &c, (to, Some(way), 0), out);
                }
            }
        }
    }

    /// Whether a node's refusal of a CANCEL is for the caller: that of one that there is a record of is, and else that of
    /// one node, where all were asked, to what the key says that seals now.
    pub(crate) fn may_refuse_cancel(&self, now: Time, call: CallKey, b: &Branch, node: NodeIndex) -> bool {
        let first = || self.cluster.members().map(|(at, _)| at).find(|at| self.cluster.is_usable(now, *at));
        self.dispatcher.calls().back(call, b.id, Tag::Cancel).is_some()
            || (b.epoch == self.sealer.epoch() && first() == Some(node))
    }
}
