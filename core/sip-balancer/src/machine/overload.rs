//! What nodes say of their overload (RFC 7339).
//!
//! Only a node that has shown in its answer to a probe that it fills in `oc` is asked for more of that, and
//! believed: a probe reaches nobody beyond it. One that does not know of it would pass on what whoever it
//! calls wrote into our Via.

use crate::{Balancer, NodeIndex};
use sip_message::Message;
use sip_proxy::feedback::{Algorithm, oc};
use wire::{Outbox, Time};

impl Balancer {
    /// A node has answered a probe: whether it speaks of its overload, and what it says.
    pub(crate) fn hear_probe(&mut self, now: Time, node: NodeIndex, answer: &Message<'_>, out: &mut Outbox) {
        let wish = self.forwarder.settings().overload_control.then(|| oc::wish(answer.via().raw)).flatten();
        self.cluster.set_speaks(node, wish.is_some_and(|wish| wish.algorithm == Algorithm::Loss));
        if self.cluster.speaks(node) {
            self.parts(now, out).1.hear(node, answer);
        }
    }
}
