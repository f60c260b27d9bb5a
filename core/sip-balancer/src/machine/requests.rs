//! Requests: given to a node or to the caller's side, or refused (RFC 3261 section 16).

use crate::failover::store::KeptMessage;
use crate::forwarding::check::Checked;
use crate::message::dialog_of;
use crate::policy::candidates::has_secure;
use crate::token::{Branch, Dialog, Sender};
use crate::{Balancer, MethodClass, NotAssigned, RegisterBy, Request};
use sip_message::{Message, Method};
use wire::{Flow, Outbox, Time};

impl Balancer {
    /// A request without a flaw.
    pub(crate) fn request(&mut self, now: Time, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        let ack = request.method() == Method::Ack;
        let checked = match self.forwarder.check(flow, request) {
            Ok(checked) => checked,
            // An ACK is never answered (section 17).
            Err(_) if ack => return,
            Err((status, reason, extra)) => {
                return self.forwarder.refuse(flow, request, status, reason, &extra, out);
            }
        };
        match &checked.dialog {
            _ if checked.phone.is_some() => self.reach_phone(now, flow, request, &checked, out),
            Some((dialog, Sender::Callee)) => self.outward(now, flow, request, &checked, *dialog, out),
            _ if ack => self.ack(now, flow, request, &checked, out),
            _ if self.forwarder.is_for_us(request, &checked) => self.options(now, flow, request, out),
            _ if request.max_forwards() == Some(0) => {
                self.forwarder.counts.loops += 1;
                self.forwarder.refuse(flow, request, 483, b"", b"", out);
            }
            _ => self.inward(now, flow, request, &checked, out),
        }
    }

    /// Whoever is before us asks whether calls may come.
    fn options(&mut self, now: Time, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        let open = self.cluster.is_open(now);
        if open && !self.draining {
            return self.forwarder.refuse(flow, request, 200, b"", b"", out);
        }
        self.forwarder.unavailable(flow, request, out);
    }

    /// A request as assignment sees it.
    fn wanted<'a>(&mut self, flow: Flow, request: &Message<'a>, c: &Checked<'_>) -> Request<'a> {
        let class = MethodClass::of(request.method());
        let by_aor = class == MethodClass::Register && self.forwarder.settings().register == RegisterBy::Aor;
        Request {
            call: c.call,
            call_id: request.call_id(),
            id: c.id,
            back: Some(c.back.remote),
            class,
            inside: !request.to_tag().is_empty(),
            token: self.forwarder.node_of(c),
            sealed: self.forwarder.is_sealed(c),
            home: by_aor.then(|| self.forwarder.home(request)).flatten(),
            large: self.forwarder.is_large(flow, request),
            secure: c.is_sips() && is_secure(flow, request, c),
            bytes: if self.failover.is_replaying() { 0 } else { request.bytes().len() },
            proof: self.proof(request, c),
        }
    }

    /// To a node.
    fn inward(&mut self, now: Time, flow: Flow, request: &Message<'_>, c: &Checked<'_>, out: &mut Outbox) {
        let (class, wanted) = (MethodClass::of(request.method()), self.wanted(flow, request, c));
        // A CANCEL is the end of something, which another balancer may know.
        if self.draining
            && !wanted.inside
            && class != MethodClass::Cancel
            && !self.dispatcher.calls().knows(wanted.call)
        {
            return self.forwarder.unavailable(flow, request, out);
        }
        match self.dispatcher.request(now, &wanted) {
            Ok(assigned) => {
                let before = || self.refused_before(class, c.id);
                if let Some(status) = assigned.again.then(before).flatten() {
                    // Its sender has not got the refusal.
                    return self.forwarder.refuse_again(flow, request, status, out);
                }
                let Some(way) = self.forwarder.way(assigned, flow.listener) else {
                    return self.goes_nowhere(now, flow, request, c, out);
                };
                if c.bars(&way) {
                    return self.is_barred(now, flow, request, c, out);
                }
                let (failover, mut step) = self.parts(now, out);
                let token = match failover.keep_inward(&mut step, flow, request, &wanted, (assigned, way)) {
                    Ok(token) => token,
                    Err(status) => {
                        self.dispatcher.calls_mut().abandon(now, c.call, c.id, class, wanted.sealed);
                        return self.forwarder.refuse_again(flow, request, status, out);
                    }
                };
                self.forwarder.forward(
                    self.dispatcher.calls(),
                    flow,
                    request,
                    c,
                    (assigned, Some(way), token),
                    out,
                );
                if class == MethodClass::Cancel && !assigned.again {
                    let (failover, mut step) = self.parts(now, out);
                    failover.cancelled(&mut step, c.id);
                }
            }
            Err(NotAssigned::NoCall) => {
                let (failover, mut step) = self.parts(now, out);
                failover.cancel_unknown(&mut step, flow, request, c);
            }
            Err(NotAssigned::TooMuch) => {
                if let Some(status) = self.refused_before(class, c.id) {
                    return self.forwarder.refuse_again(flow, request, status, out);
                }
                // Without Retry-After: for a moment, and not for all that its sender may have (RFC 7339
                // section 5.10).
                self.forwarder.counts.unavailable += 1;
                self.forwarder.refuse(flow, request, 503, b"", b"", out);
            }
            // There is none at all that may have it.
            Err(NotAssigned::NoNode) if wanted.secure && c.dialog.is_none() && !has_secure(&self.cluster) => {
                self.is_barred(now, flow, request, c, out);
            }
            Err(NotAssigned::NoNode | NotAssigned::Full) => {
                self.goes_nowhere(now, flow, request, c, out);
            }
        }
    }

    /// No node can have a request: 503. An INVITE, and what is sent once more, has had its node, and will
    /// have no other; and whoever hangs up is gone.
    fn goes_nowhere(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        out: &mut Outbox,
    ) {
        let (class, id) = (MethodClass::of(request.method()), c.id);
        match self.refused_before(class, id) {
            Some(status) => self.forwarder.refuse_again(flow, request, status, out),
            None => self.forwarder.unavailable(flow, request, out),
        }
        if self.failover.is_replaying() || matches!(class, MethodClass::Invite | MethodClass::Bye) {
            let sealed = self.forwarder.is_sealed(c);
            self.dispatcher.calls_mut().abandon(now, c.call, id, class, sealed);
            let (failover, mut step) = self.parts(now, out);
            failover.refused_here(&mut step, id, class, 503);
        }
    }

    /// A request for a `sips:` URI is not forwarded unencrypted (RFC 5630 section 5.3): 480. The node and
    /// the record keep their call, if there is one.
    fn is_barred(&mut self, now: Time, flow: Flow, request: &Message<'_>, c: &Checked<'_>, out: &mut Outbox) {
        let class = MethodClass::of(request.method());
        self.forwarder.counts.forbidden += 1;
        self.forwarder.refuse_again(flow, request, 480, out);
        self.dispatcher.calls_mut().refused_here(now, c.call, c.id, class);
        let (failover, mut step) = self.parts(now, out);
        failover.refused_here(&mut step, c.id, class, 480);
    }

    /// With which status a request was refused here before, if it is an INVITE: it has one final response.
    fn refused_before(&self, class: MethodClass, id: u64) -> Option<u16> {
        (class == MethodClass::Invite).then(|| self.failover.messages().refusal(id)).flatten()
    }

    fn ack(&mut self, now: Time, flow: Flow, request: &Message<'_>, c: &Checked<'_>, out: &mut Outbox) {
        // The end of a refusal of ours, or one that has been forwarded too often.
        if self.forwarder.sealer().is_tag(request.to_tag(), c.id) || request.max_forwards() == Some(0) {
            return self.failover.messages_mut().refusal_acknowledged(c.id);
        }
        self.failover.messages_mut().forget_by(c.id, MethodClass::Invite, KeptMessage::Refusal);
        self.proof(request, c);
        if flow.transport.is_reliable() {
            self.failover.responses().acknowledged(c.call);
        }
        let large = self.forwarder.is_large(flow, request);
        let in_dialog = !self.forwarder.settings().record_route && !request.to_tag().is_empty();
        let lost = in_dialog.then(|| request.call_id());
        match self.dispatcher.ack(now, c.call, c.id, self.forwarder.node_of(c), (large, lost)) {
            Some(assigned) => {
                let way = self.forwarder.way(assigned, flow.listener);
                self.forwarder.forward(self.dispatcher.calls(), flow, request, c, (assigned, way, 0), out);
            }
            None => self.forwarder.counts.stray += 1,
        }
    }

    /// A request of the node's side, to the caller's. Only who is a node may send it: the token is known to
    /// both ends, and this is a way to any address.
    fn outward(
        &mut self,
        now: Time,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        dialog: Dialog,
        out: &mut Outbox,
    ) {
        let ack = request.method() == Method::Ack;
        if request.max_forwards() == Some(0) {
            self.forwarder.counts.loops += 1;
            return if ack {
            } else {
                self.forwarder.refuse(from, request, 483, b"", b"", out)
            };
        }
        let node = self.cluster.is_node_ip(from.remote.ip());
        let failed =
            self.failover.messages().tries(c.id, MethodClass::of(request.method()), KeptMessage::ToCaller)
                > 0;
        let way = self.forwarder.way_out(from, request, c, &dialog, failed).filter(|_| node);
        let Some(way) = way else {
            // It could be reached only over its connection.
            if node && dialog.is_flow() {
                self.note_of_node(now, request, c);
                self.failover.messages_mut().forget_by(
                    c.id,
                    MethodClass::of(request.method()),
                    KeptMessage::ToCaller,
                );
                return self.forwarder.refuse(from, request, 430, b"", b"", out);
            }
            self.forwarder.counts.forbidden += 1;
            return self.forwarder.refuse(from, request, 403, b"", b"", out);
        };
        let branch = Branch {
            epoch: c.epoch,
            node: dialog.node,
            to_caller: true,
            listener: self.forwarder.settings().mark(c.back.listener),
            port: self.forwarder.branch_port(self.dispatcher.calls(), from, request, c, false),
            id: c.id,
        };
        let token = if ack { 0 } else { self.failover.keep_outward(now, from, request, c, way) };
        self.note_of_node(now, request, c);
        self.forwarder.counts.outward += 1;
        self.forwarder.send((from, way, token, false), request, c, branch, None, out);
    }

    /// Notes what a request of the node's side within a call says of that call, whether it reaches the other
    /// end or not.
    pub(crate) fn note_of_node(&mut self, now: Time, request: &Message<'_>, c: &Checked<'_>) {
        let calls = self.dispatcher.calls_mut();
        match request.method() {
            Method::Ack => {}
            Method::Bye => calls.hung_up_by_node(now, c.call, dialog_of(request.from_tag())),
            _ => calls.renewed_by_node(now, c.call),
        }
    }
}

/// Whether a request for a `sips:` URI may go to nodes over TLS alone. A dialog that came in the clear never
/// was secure, and no dialog is kept from ending for that.
fn is_secure(flow: Flow, request: &Message<'_>, c: &Checked<'_>) -> bool {
    let ends = matches!(request.method(), Method::Bye | Method::Cancel | Method::Prack);
    c.dialog.is_none() || (flow.transport.is_secure() && !ends)
}
