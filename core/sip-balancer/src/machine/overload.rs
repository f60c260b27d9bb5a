//! What nodes say of their overload (RFC 7339).
//!
//! Only a node that has shown in its answer to a probe that it fills in `oc` is asked for more of that, and believed: a
//! probe reaches nobody beyond it. One that does not know of it would pass on what whoever it calls wrote into our Via.

use crate::{Balancer, NodeIndex};
use sip_message::Message;
use sip_proxy::feedback::{Algorithm, oc};
use wire::Time;

impl Balancer {
    /// A node has answered a probe: whether it speaks of its overload, and what it says.
    pub(crate) fn hear_probe(&mut self, now: Time, node: NodeIndex, answer: &Message<'_>) {
        let wish = self.settings.overload_control.then(|| oc::wish(answer.via().raw)).flatten();
        self.cluster.set_speaks(node, wish.is_some_and(|wish| wish.algorithm == Algorithm::Loss));
        if self.cluster.speaks(node) {
            self.hear(now, node, answer);
        }
    }

    /// What a node that speaks of its overload says with a response.
    #[inline(never)]
    pub(crate) fn hear(&mut self, now: Time, node: NodeIndex, response: &Message<'_>) {
        if let Some(wish) = oc::wish(response.via().raw) {
            self.dispatcher.told(now, node, &wish);
        }
    }
}
