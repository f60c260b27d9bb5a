//! CANCEL of an INVITE that nothing is known of: the balancer was started anew since, or another one had it.
//!
//! Who has no memory of the INVITE must send the CANCEL on without any (RFC 3261 section 16.10), or the
//! callee rings on for a caller that is gone. Which node has it cannot be known: a CANCEL carries no token,
//! as its INVITE had none. But the branch that its INVITE had at a node can, for it follows from the request,
//! the key and the node. So each node that is usable gets the CANCEL with the branch that the INVITE would
//! have had there, and those that do not have it say 481. While a secret is changed the INVITE may have been
//! sealed with either, and each gets two.
//!
//! Whoever sends CANCELs of nothing has no more of that than of other requests: the sender gets one refusal
//! at most, be it a false one, for those of all nodes but one are dropped, and nodes get a limited number of
//! them a second at most.

use crate::failover::state::Failover;
use crate::forwarding::check::Checked;
use crate::forwarding::step::Step;
use crate::message::origin;
use crate::token::Branch;
use crate::{Assigned, CallKey, MethodClass, NodeIndex};
use sip_message::Message;
use wire::Flow;

impl Failover {
    /// A CANCEL of a call that nothing is known of.
    pub(crate) fn cancel_unknown(
        &mut self,
        step: &mut Step<'_>,
        flow: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
    ) {
        let there = |at: &NodeIndex| step.forwarder.cluster().is_usable(step.now, *at);
        let nodes: Vec<NodeIndex> =
            step.forwarder.cluster().members().map(|(at, _)| at).filter(there).collect();
        let epochs = step.forwarder.sealer().epochs();
        if nodes.is_empty() || !self.fanout.take(step.now, nodes.len() * epochs.clone().count()) {
            return step.forwarder.refuse(flow, request, 481, b"", b"", step.out);
        }
        let origin = origin(request, c.back.remote.ip(), c.call);
        for epoch in epochs {
            let c = Checked { id: step.forwarder.sealer().id(epoch, &origin), epoch, ..*c };
            for &node in &nodes {
                let to = Assigned { node, again: false, large: false };
                if let Some(way) = step.forwarder.way(to, flow.listener) {
                    step.forwarder.forward(
                        step.dispatcher.calls(),
                        flow,
                        request,
                        &c,
                        (to, Some(way), 0),
                        step.out,
                    );
                }
            }
        }
    }
}

/// Whether a node's refusal of a CANCEL is for the caller: that of one that there is a record of is, and else
/// that of one node, where all were asked, to what the key says that seals now.
pub(crate) fn may_refuse_cancel(step: &Step<'_>, call: CallKey, b: &Branch, node: NodeIndex) -> bool {
    let cluster = step.forwarder.cluster();
    let first = || cluster.members().map(|(at, _)| at).find(|at| cluster.is_usable(step.now, *at));
    step.dispatcher.calls().back(call, b.id, MethodClass::Cancel).is_some()
        || (b.epoch == step.forwarder.sealer().epoch() && first() == Some(node))
}
