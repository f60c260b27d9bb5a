//! Requests as they leave: with our Via, and what brings others back by us.

use crate::cluster::probes::OFFER;
use crate::forwarding::check::Checked;
use crate::forwarding::forwarder::Forwarder;
use crate::forwarding::next_hop::{asks_for_flow, has_flows};
use crate::token::{Branch, Dialog};
use crate::{Assigned, Calls, MethodClass};
use sip_message::{Message, Method, request_target};
use sip_proxy::rewrite::{Outgoing, write_request};
use sip_proxy::transport::{always_rport, is_natted};
use wire::{Delivery, Flow, ListenerId, Outbox, Transport};

/// What is written into a request so that others come back by it.
pub(crate) enum TokenOf {
    /// Record-Route.
    Dialog(Dialog),
    /// Path. Whether the phone has flows, and we are its first hop (RFC 5626 section 5.1).
    Phone(Dialog, bool),
}

impl Forwarder {
    /// Sends to a node, if there is a way to it. A token reports its failure.
    pub fn forward(
        &mut self,
        calls: &Calls,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        (to, way, token): (Assigned, Option<Flow>, u64),
        out: &mut Outbox,
    ) {
        let Some(way) = way else { return self.unavailable(from, request, out) };
        let id = self.cluster.id(to.node);
        let mark = self.settings.mark(c.back.listener);
        let flow = |tied| Dialog {
            node: id,
            listener: mark,
            caller: c.back.remote,
            natted: tied || is_natted(from, request),
            by_node: false,
            tied,
            conn: self.held(c.back.conn),
        };
        let token_of = match request.method() {
            Method::Register if self.is_reached_by_us(from, request) => {
                let phone = Dialog { node: 0, caller: from.remote, ..flow(false) };
                Some(TokenOf::Phone(phone, has_flows(request)))
            }
            _ => self.is_recorded(request).then(|| TokenOf::Dialog(flow(asks_for_flow(request)))),
        };
        let branch = Branch {
            epoch: c.epoch,
            node: id,
            to_caller: false,
            listener: mark,
            port: self.branch_port(calls, from, request, c, to.again),
            id: c.id,
        };
        self.counts.forwarded += 1;
        let offer = self.cluster.speaks(to.node);
        self.send((from, way, token, offer), request, c, branch, token_of, out);
    }

    /// The port in our branch. The CANCEL of an INVITE and the ACK of its failure have the same one (RFC 3261
    /// sections 9.1 and 17.1.1.3), or nobody knows what they belong to; but they may come on another
    /// connection, or by another port of a translation. Of a stream it is the one in `sent-by`, which they
    /// share whatever is remembered, and where the connection is for answers is looked up; of datagrams the
    /// first that the INVITE came by, while that is known.
    pub fn branch_port(
        &self,
        calls: &Calls,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        again: bool,
    ) -> u16 {
        let class = match request.method() {
            Method::Invite | Method::Ack | Method::Cancel if from.transport.is_reliable() => {
                return request.via().port_or_default();
            }
            Method::Ack | Method::Cancel => MethodClass::Invite,
            method => MethodClass::of(method),
        };
        let known = again || request.method() == Method::Cancel;
        let first = known.then(|| calls.back(c.call, c.id, class)).flatten();
        first.unwrap_or(c.back.remote).port()
    }

    /// Sends a request with a Via that has this branch.
    pub fn send(
        &mut self,
        (from, to, token, offer): (Flow, Flow, u64, bool),
        request: &Message<'_>,
        c: &Checked<'_>,
        branch: Branch,
        token_of: Option<TokenOf>,
        out: &mut Outbox,
    ) {
        let mut lines = self.take_scratch();
        let Some(listener) = self.settings.listener(to.listener) else { return };
        lines.extend_from_slice(listener.via_prefix());
        self.sealer.push_branch(&branch, &mut lines);
        if offer {
            lines.extend_from_slice(OFFER);
        }
        lines.extend_from_slice(b"\r\n");
        let via = lines.len();
        match &token_of {
            Some(TokenOf::Dialog(dialog)) => {
                let sides = [Some(to.listener), Some(from.listener).filter(|back| *back != to.listener)];
                self.push_routes(dialog, (c, request.from_tag()), sides, &mut lines);
            }
            Some(TokenOf::Phone(phone, flows)) => {
                self.push_path((phone, *flows), (to.listener, c.is_sips()), &mut lines);
            }
            None => {}
        }
        let request_uri = request_target(c.routing.request_uri);
        let outgoing = Outgoing {
            request_uri: &request_uri,
            via: &lines[..via],
            record_routes: &lines[via..],
            routes: b"",
            drop_routes: c.routing.own,
            drop_last_route: c.routing.drop_last,
            last_route: b"",
            max_forwards: request.max_forwards().map_or(self.settings.max_forwards, |m| m.saturating_sub(1)),
            max_breadth: None,
            source: Some((from.remote, always_rport(from, request) || is_cancel_on_stream(from, request))),
            strip_identity: false,
            strip_realm: None,
            strip_commands: false,
        };
        // What it is called in the message says where a dialog's requests go; where answers go the socket
        // says.
        let to = match branch.to_caller {
            true => to,
            false => Flow { listener: self.settings.source(to.listener), ..to },
        };
        // What is too long for a datagram goes in one where no connection comes about (section 18.1.1).
        let datagram = match branch.to_caller {
            true => c.dialog.is_some_and(|(dialog, _)| dialog.listener.transport() == Some(Transport::Udp)),
            false => {
                let node = self.cluster.by_id(branch.node).and_then(|at| self.cluster.node(at));
                node.is_some_and(|node| node.transport.is_none())
            }
        };
        let delivery =
            Delivery { hurries: to.transport != Transport::Udp && datagram, ..Delivery::default() };
        let splices = &mut self.splices;
        out.deliver(to, token, delivery, |buf| write_request(request, &outgoing, splices, buf));
        if to.transport.is_secure() && to.conn.is_none() {
            out.verifies(match branch.to_caller {
                true => c.next().host,
                false => self.names.of(self.cluster.names(), branch.node),
            });
        }
        self.scratch = lines;
    }

    /// Our Record-Route; two of them if our address or transport differs between the sides (RFC 5658). For a
    /// request to a `sips:` URI both are `sips:`, because both sides use TLS (RFC 3261 section 16.6 step 4).
    fn push_routes(
        &self,
        dialog: &Dialog,
        (c, caller_tag): (&Checked<'_>, &[u8]),
        sides: [Option<ListenerId>; 2],
        out: &mut Vec<u8>,
    ) {
        for listener in sides.into_iter().flatten().filter_map(|id| self.settings.listener(id)) {
            out.extend_from_slice(listener.record_route_prefix(c.is_sips()));
            self.sealer.push_dialog(dialog, c.call, caller_tag, out);
            out.extend_from_slice(b">\r\n");
        }
    }

    /// Our Path line for a phone, as the node's side calls us.
    fn push_path(
        &self,
        (phone, flows): (&Dialog, bool),
        (side, secure): (ListenerId, bool),
        out: &mut Vec<u8>,
    ) {
        let Some(listener) = self.settings.listener(side) else { return };
        out.extend_from_slice(b"Path: ");
        out.extend_from_slice(listener.route_prefix(secure));
        self.sealer.push_path(phone, out);
        out.extend_from_slice(if flows { b";ob>\r\n" } else { b">\r\n" });
    }
}

/// Of these nobody may know the connection when the answer comes, and the branch does not say it either.
fn is_cancel_on_stream(from: Flow, request: &Message<'_>) -> bool {
    from.transport.is_reliable() && request.method() == Method::Cancel
}
