//! What a step of the machine works with.

use crate::forwarding::forwarder::Forwarder;
use crate::sessions::place::TxnPlace;
use crate::sessions::reply_credit::Reply;
use crate::{Dispatcher, NodeIndex};
use core::net::SocketAddr;
use sip_message::Message;
use sip_proxy::feedback::oc;
use wire::{Outbox, Time};

/// What is at hand while a message or a deadline is worked on.
pub(crate) struct Step<'a> {
    pub now: Time,
    pub dispatcher: &'a mut Dispatcher,
    pub forwarder: &'a mut Forwarder,
    pub out: &'a mut Outbox,
}

impl Step<'_> {
    /// Whether an address has shown that it receives.
    pub fn receives(&self, address: SocketAddr) -> bool {
        self.forwarder.cluster().proven().has(self.forwarder.sealer().address(address))
    }

    /// Whether a reply may go to an address that had not shown that it receives when the request came. It is
    /// noted then, else counted.
    pub fn repays(&mut self, place: TxnPlace, reply: &Reply) -> bool {
        let Some(txn) = self.dispatcher.calls().txn(place) else { return true };
        let (back, accepted) = (txn.back, txn.replies.is_accepted(reply.status));
        let forwarder = &*self.forwarder;
        if let Some(back) = back.filter(|_| accepted) {
            forwarder.cluster().proven().note(forwarder.sealer().address(back));
        }
        let goes = self.dispatcher.calls_mut().pays(place, reply)
            || back.is_some_and(|back| self.receives(back) || self.forwarder.cluster().is_node_ip(back.ip()));
        self.forwarder.counts.withheld += u64::from(!goes);
        goes
    }

    /// What a node that speaks of its overload says with a response.
    #[inline(never)]
    pub fn hear(&mut self, node: NodeIndex, response: &Message<'_>) {
        if let Some(wish) = oc::wish(response.via().raw) {
            self.dispatcher.told(self.now, node, &wish);
        }
    }
}
