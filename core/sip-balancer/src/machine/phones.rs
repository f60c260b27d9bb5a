//! Phones that are called through the balancer: Path in REGISTER (RFC 3327), and what comes back by it.
//!
//! A phone behind address translation can be reached only where it sends from, and by who it sends to, which
//! is the balancer. So the balancer puts itself into the Path of its registration, with a token that says
//! where it came from; the node that calls it writes that into Route. Only who is a node may use it: a Path
//! is known to more than the two, and it is a way to a phone. On a stream it is a way to that one connection,
//! for to the port that it came from nobody else ever answers: where it has ended the node hears 430 (RFC
//! 5626 section 5.3.1) and knows that the phone must come again.
//!
//! A dialog that is begun so is no call in the counters, as any that a node begins. It has our Record-Route,
//! whatever `record_route` says, or nothing that follows would reach the phone.

use crate::failover::store::KeptMessage;
use crate::forwarding::check::Checked;
use crate::forwarding::send::TokenOf;
use crate::token::{Branch, Dialog};
use crate::{Balancer, MethodClass};
use sip_message::{Message, Method};
use wire::{Flow, Outbox, Time};

impl Balancer {
    /// A request of a node to a phone that has registered through us.
    pub(crate) fn reach_phone(
        &mut self,
        now: Time,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        out: &mut Outbox,
    ) {
        let Some(phone) = invariant::some!(c.phone, "a request to a phone names the phone") else { return };
        let Some(node) = self.forwarder.sending_node(from, request) else {
            self.forwarder.counts.forbidden += 1;
            return self.forwarder.refuse(from, request, 403, b"", b"", out);
        };
        if request.max_forwards() == Some(0) {
            self.forwarder.counts.loops += 1;
            return self.forwarder.refuse(from, request, 483, b"", b"", out);
        }
        if !request.to_tag().is_empty() {
            // A request of a call that a phone began may come by the Path of the phone.
            self.note_of_node(now, request, c);
        }
        let class = MethodClass::of(request.method());
        // What has been tried on that connection is not tried on another.
        let failed = self.failover.messages().tries(c.id, class, KeptMessage::ToCaller) > 0;
        let Some(way) = self.forwarder.way_to_phone(&phone).filter(|_| !failed) else {
            self.failover.messages_mut().forget_by(c.id, class, KeptMessage::ToCaller);
            return self.forwarder.refuse(from, request, 430, b"", b"", out);
        };
        if c.bars(&way) {
            self.forwarder.counts.forbidden += 1;
            return self.forwarder.refuse_again(from, request, 480, out);
        }
        let id = self.cluster.id(node);
        let branch = Branch {
            epoch: c.epoch,
            node: id,
            to_caller: true,
            listener: self.forwarder.settings().mark(c.back.listener),
            port: self.forwarder.branch_port(self.dispatcher.calls(), from, request, c, false),
            id: c.id,
        };
        let begins = request.to_tag().is_empty()
            && matches!(request.method(), Method::Invite | Method::Subscribe | Method::Refer);
        let dialog = Dialog { node: id, natted: true, by_node: true, ..phone };
        let token = match request.method() {
            Method::Ack => 0,
            _ => self.failover.keep_outward(now, from, request, c, way),
        };
        self.forwarder.counts.outward += 1;
        let token_of = begins.then_some(TokenOf::Dialog(dialog));
        self.forwarder.send((from, way, token, false), request, c, branch, token_of, out);
    }
}
