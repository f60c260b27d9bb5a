//! Requests: checked, given to a node or to the caller's side, or refused (RFC 3261 section 16).

use crate::failover::store::What;
use crate::machine::take_scratch;
use crate::message::{dialog_of, origin};
use crate::token::{Branch, Dialog, Sealer, Sender};
use crate::{Assigned, Balancer, CallKey, NoWay, NodeIndex, RegisterBy, Request, Tag};
use core::net::SocketAddr;
use sip_message::{Message, Method, Name, Scheme, Uri, push_u64, request_target, write_response};
use sip_proxy::rewrite::{Outgoing, write_request};
use sip_proxy::routes::{Routing, preprocess};
use sip_proxy::transport::{always_rport, is_natted, repays, reply_flow};
use wire::{Flow, ListenerId, Outbox, Time, Transport};

/// So often a request may come by here: a node may send it back with another Request-URI (a spiral), but one that
/// goes round is stopped long before its Max-Forwards is used up.
const MOST_VISITS: usize = 4;

/// What our own lines add to a request besides texts of known length: a branch, what a Via is completed with, and two
/// tokens.
const BRANCH_ADDED: usize = 63 + 45 + OFFER.len();
const TOKEN_ADDED: usize = 1 + 68 + 3;
const CONN_ADDED: usize = 24;

/// Offers overload control (RFC 7339 section 4), in the Via of what goes to a node that supports it.
pub(crate) const OFFER: &[u8] = b";oc;oc-algo=\"loss\"";

/// What is written into a request so that others come back by it.
pub(crate) enum TokenOf {
    /// Record-Route.
    Dialog(Dialog),
    /// Path.
    Phone(Dialog),
}

/// A request that passed the checks.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    pub routing: Routing<'a>,
    pub uri: Uri<'a>,
    /// The dialog that its token names, and who sends.
    pub dialog: Option<(Dialog, Sender)>,
    /// The phone that its token names, as it registered.
    pub phone: Option<Dialog>,
    pub back: Flow,
    pub call: CallKey,
    /// What it is known by, under the key of this epoch.
    pub id: u64,
    pub epoch: u8,
}

impl Balancer {
    /// A request without a flaw.
    pub(crate) fn request(&mut self, now: Time, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        let ack = request.method() == Method::Ack;
        let checked = match self.check(flow, request) {
            Ok(checked) => checked,
            // An ACK is never answered (section 17).
            Err(_) if ack => return,
            Err((status, reason, extra)) => return self.refuse(flow, request, status, reason, &extra, out),
        };
        match &checked.dialog {
            _ if checked.phone.is_some() => self.reach_phone(now, flow, request, &checked, out),
            Some((dialog, Sender::Callee)) => self.outward(now, flow, request, &checked, *dialog, out),
            _ if ack => self.ack(now, flow, request, &checked, out),
            _ if self.is_for_us(request, &checked) => self.options(now, flow, request, out),
            _ if request.max_forwards() == Some(0) => {
                self.counts.loops += 1;
                self.refuse(flow, request, 483, b"", b"", out);
            }
            _ => self.inward(now, flow, request, &checked, out),
        }
    }

    /// The checks of section 16.3, and the route of 16.4. An error is status, reason and further header lines.
    pub(crate) fn check<'a>(
        &mut self,
        flow: Flow,
        request: &Message<'a>,
    ) -> Result<Checked<'a>, (u16, &'static [u8], Vec<u8>)> {
        let malformed = |this: &mut Balancer, reason: &'static [u8]| {
            this.counts.malformed += 1;
            Err((400, reason, Vec::new()))
        };
        let uri = Uri::parse(request.request_uri()).ok();
        let settings = &self.settings;
        let ours = |uri: &Uri<'_>| uri.is_sip() && settings.is_self(uri.host, uri.port);
        let as_written = |value| settings.token_as_written(value);
        let Ok(routing) = preprocess(request, uri.as_ref(), as_written, ours) else {
            return malformed(self, b"Malformed Route");
        };
        // Only a strict router before us changes it.
        let uri = if routing.drop_last { Uri::parse(routing.request_uri).ok() } else { uri };
        // Within a dialog it is the Contact of the other end, and leads nowhere here.
        let inside = !request.to_tag().is_empty();
        let Some(uri) = uri.or_else(|| inside.then(|| Uri::opaque(routing.request_uri))) else {
            return malformed(self, b"Malformed Request-URI");
        };
        // `sips:` asks for TLS on every hop, which this version has not.
        let known = match uri.scheme {
            Scheme::Sip | Scheme::Tel => true,
            Scheme::Sips => false,
            Scheme::Other(_) => inside,
        };
        if !known {
            return Err((416, b"", Vec::new()));
        }
        if self.visits(request) >= MOST_VISITS {
            self.counts.loops += 1;
            return Err((482, b"", Vec::new()));
        }
        if let Some(line) = required(request) {
            return Err((420, b"", line));
        }
        let call = self.sealer.call(request.call_id());
        let dialog = routing.token.and_then(|token| {
            let of = (call, request.call_id());
            self.sealer.open_dialog(token, of, request.from_tag(), request.to_tag())
        });
        let mut phone = None;
        if let Some(token) = routing.token.filter(|_| dialog.is_none()) {
            phone = self.sealer.open_path(token);
            if phone.is_none() {
                self.counts.forged += 1;
                let whose: &[u8] = match Sealer::is_path(token) {
                    true => b"Path Not Of This Balancer",
                    false => b"Dialog Not Of This Balancer",
                };
                return Err((403, whose, Vec::new()));
            }
        }
        let back = reply_flow(flow, request);
        let epoch = self.sealer.epoch();
        let id = self.sealer.id(epoch, &origin(request, back.remote.ip(), call));
        Ok(Checked { routing, uri, dialog, phone, back, call, id, epoch })
    }

    /// How often the request has been here.
    fn visits(&self, request: &Message<'_>) -> usize {
        if request.via_count() < MOST_VISITS {
            return 0;
        }
        let branches = request.values(Name::Via).filter_map(|value| sip_message::Via::parse(value).ok());
        branches.filter(|via| self.sealer.open_branch(via.branch).is_some()).count()
    }

    /// Whether the balancer itself is asked how it is.
    fn is_for_us(&self, request: &Message<'_>, checked: &Checked<'_>) -> bool {
        request.method() == Method::Options
            && checked.uri.user.is_none()
            && checked.routing.next.is_none()
            && self.settings.is_self(checked.uri.host, checked.uri.port)
    }

    /// Whoever is before us asks whether calls may come.
    fn options(&mut self, now: Time, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        let open = self.cluster.is_open(now);
        if open && !self.draining {
            return self.refuse(flow, request, 200, b"", b"", out);
        }
        self.unavailable(flow, request, out);
    }

    /// To a node.
    fn inward(&mut self, now: Time, flow: Flow, request: &Message<'_>, c: &Checked<'_>, out: &mut Outbox) {
        let tag = Tag::of(request.method());
        let by_aor = tag == Tag::Register && self.settings.register == RegisterBy::Aor;
        let wanted = Request {
            call: c.call,
            call_id: request.call_id(),
            id: c.id,
            back: Some(c.back.remote),
            tag,
            inside: !request.to_tag().is_empty(),
            token: self.node_of(c),
            sealed: self.is_sealed(c),
            home: by_aor.then(|| self.home(request)).flatten(),
            large: self.is_large(flow, request),
            bytes: if self.feeding { 0 } else { request.bytes().len() },
            proof: self.proof(request, c),
        };
        // A CANCEL is the end of something, which another balancer may know.
        if self.draining
            && !wanted.inside
            && tag != Tag::Cancel
            && !self.dispatcher.calls().knows(wanted.call)
        {
            return self.unavailable(flow, request, out);
        }
        match self.dispatcher.request(now, &wanted) {
            Ok(assigned) => {
                let before = || self.refused_before(tag, c.id);
                if let Some(status) = assigned.again.then(before).flatten() {
                    // Its sender has not got the refusal.
                    return self.refuse_again(flow, request, status, out);
                }
                let Some(way) = self.way(assigned, flow.listener) else {
                    return self.goes_nowhere(now, flow, request, c, out);
                };
                let token = match self.keep_inward(now, flow, request, &wanted, assigned, way) {
                    Ok(token) => token,
                    Err(status) => {
                        self.dispatcher.calls_mut().abandon(now, c.call, c.id, tag, wanted.sealed);
                        return self.refuse_again(flow, request, status, out);
                    }
                };
                self.forward(flow, request, c, (assigned, Some(way), token), out);
                if tag == Tag::Cancel && !assigned.again {
                    self.cancelled(now, c.id, out);
                }
            }
            Err(NoWay::NoCall) => self.cancel_unknown(now, flow, request, c, out),
            Err(NoWay::TooMuch) => {
                if let Some(status) = self.refused_before(tag, c.id) {
                    return self.refuse_again(flow, request, status, out);
                }
                // Without Retry-After: for a moment, and not for all that its sender may have (RFC 7339 section 5.10).
                self.counts.unavailable += 1;
                self.refuse(flow, request, 503, b"", b"", out);
            }
            Err(NoWay::NoNode | NoWay::Full) => {
                self.goes_nowhere(now, flow, request, c, out);
            }
        }
    }

    /// No node can have a request: 503. An INVITE, and what is sent once more, has had its node, and will have no other;
    /// and whoever hangs up is gone.
    fn goes_nowhere(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        out: &mut Outbox,
    ) {
        let (tag, id) = (Tag::of(request.method()), c.id);
        match self.refused_before(tag, id) {
            Some(status) => self.refuse_again(flow, request, status, out),
            None => self.unavailable(flow, request, out),
        }
        if self.feeding || matches!(tag, Tag::Invite | Tag::Bye) {
            let sealed = self.is_sealed(c);
            self.dispatcher.calls_mut().abandon(now, c.call, id, tag, sealed);
            self.refused_here(now, id, tag, 503, out);
        }
    }

    /// With which status a request was refused here before, if it is an INVITE: it has one final response.
    fn refused_before(&self, tag: Tag, id: u64) -> Option<u16> {
        (tag == Tag::Invite).then(|| self.refusal(id)).flatten()
    }

    /// Whether a request is too long for a datagram, with what is added to it (section 18.1.1).
    fn is_large(&self, from: Flow, request: &Message<'_>) -> bool {
        let length = request.bytes().len();
        // Most are far from it.
        if length + 600 < self.settings.mtu {
            return false;
        }
        let Some(near) = self.settings.listener(from.listener) else { return false };
        let via = near.via_prefix().len() + BRANCH_ADDED;
        let conn = from.conn.map_or(0, |_| CONN_ADDED);
        let token = near.record_route_prefix().len() + TOKEN_ADDED + conn;
        let routes = match self.is_recorded(request) {
            true => 2 * token,
            false if self.is_reached_by_us(from, request) => token,
            false => 0,
        };
        length + via + routes > self.settings.mtu
    }

    fn is_recorded(&self, request: &Message<'_>) -> bool {
        self.settings.record_route
            && request.to_tag().is_empty()
            && matches!(request.method(), Method::Invite | Method::Subscribe | Method::Refer)
    }

    /// How a request gets to its node: over what the node asks for, else in a datagram, unless it is too long for one
    /// and we have streams.
    pub(crate) fn way(&self, to: Assigned, near: ListenerId) -> Option<Flow> {
        let node = self.cluster.node(to.node)?;
        let by = |transport| {
            let listener = self.settings.listener_for(transport, node.address, near)?;
            Some(Flow { transport, listener, remote: node.address, conn: None })
        };
        match node.transport {
            Some(transport) => by(transport),
            None if to.large => by(Transport::Tcp).or_else(|| by(Transport::Udp)),
            None => by(Transport::Udp).or_else(|| by(Transport::Tcp)),
        }
    }

    pub(crate) fn node_of(&self, c: &Checked<'_>) -> Option<NodeIndex> {
        c.dialog.and_then(|(dialog, _)| self.cluster.by_id(dialog.node))
    }

    /// Whether a request shows that it is of its dialog, as far as one can.
    fn is_sealed(&self, c: &Checked<'_>) -> bool {
        c.dialog.is_some() || !self.settings.record_route
    }

    /// The home of a REGISTER's address-of-record.
    fn home(&mut self, request: &Message<'_>) -> Option<u64> {
        let uri = Uri::parse(request.to_uri()).ok()?;
        let mut aor = take_scratch(&mut self.scratch);
        uri.write_aor(&mut aor);
        let home = Sealer::home(&aor);
        self.scratch = aor;
        Some(home)
    }

    fn ack(&mut self, now: Time, flow: Flow, request: &Message<'_>, c: &Checked<'_>, out: &mut Outbox) {
        // The end of a refusal of ours, or one that has been forwarded too often.
        if self.sealer.is_tag(request.to_tag(), c.id) || request.max_forwards() == Some(0) {
            return self.refusal_acknowledged(c.id);
        }
        self.forget(c.id, Tag::Invite, What::Refusal);
        self.proof(request, c);
        if flow.transport.is_reliable() {
            self.kept.acknowledged(c.call);
        }
        let large = self.is_large(flow, request);
        let in_dialog = !self.settings.record_route && !request.to_tag().is_empty();
        let lost = in_dialog.then(|| request.call_id());
        match self.dispatcher.ack(now, c.call, c.id, self.node_of(c), (large, lost)) {
            Some(assigned) => {
                let way = self.way(assigned, flow.listener);
                self.forward(flow, request, c, (assigned, way, 0), out);
            }
            None => self.counts.stray += 1,
        }
    }

    /// Sends to a node, if there is a way to it. A token reports its failure.
    pub(crate) fn forward(
        &mut self,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        (to, way, token): (Assigned, Option<Flow>, u64),
        out: &mut Outbox,
    ) {
        let Some(way) = way else { return self.unavailable(from, request, out) };
        let id = self.cluster.id(to.node);
        let mark = self.settings.mark(c.back.listener);
        let flow = || Dialog {
            node: id,
            listener: mark,
            caller: c.back.remote,
            natted: is_natted(from, request),
            by_node: false,
            conn: self.held(c.back.conn),
        };
        let token_of = match request.method() {
            Method::Register if self.is_reached_by_us(from, request) => {
                Some(TokenOf::Phone(Dialog { node: 0, caller: from.remote, ..flow() }))
            }
            _ => self.is_recorded(request).then(|| TokenOf::Dialog(flow())),
        };
        let branch = Branch {
            epoch: c.epoch,
            node: id,
            to_caller: false,
            listener: mark,
            port: self.branch_port(from, request, c, to.again),
            id: c.id,
        };
        self.counts.forwarded += 1;
        let offer = self.cluster.speaks(to.node);
        self.send((from, way, token, offer), request, c, branch, token_of, out);
    }

    /// The port in our branch. The CANCEL of an INVITE and the ACK of its failure have the same one (RFC 3261 sections
    /// 9.1 and 17.1.1.3), or nobody knows what they belong to; but they may come on another connection, or by another
    /// port of a translation. Of a stream it is the one in `sent-by`, which they share whatever is remembered, and where
    /// the connection is for answers is looked up; of datagrams the first that the INVITE came by, while that is known.
    pub(crate) fn branch_port(&self, from: Flow, request: &Message<'_>, c: &Checked<'_>, again: bool) -> u16 {
        let tag = match request.method() {
            Method::Invite | Method::Ack | Method::Cancel if from.transport.is_reliable() => {
                return request.via().port_or_default();
            }
            Method::Ack | Method::Cancel => Tag::Invite,
            method => Tag::of(method),
        };
        let known = again || request.method() == Method::Cancel;
        let first = known.then(|| self.dispatcher.calls().back(c.call, c.id, tag)).flatten();
        first.unwrap_or(c.back.remote).port()
    }

    /// A request of the node's side, to the caller's. Only who is a node may send it: the token is known to both
    /// ends, and this is a way to any address.
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
            self.counts.loops += 1;
            return if ack {
            } else {
                self.refuse(from, request, 483, b"", b"", out)
            };
        }
        let node = self.cluster.is_node_ip(from.remote.ip());
        let way = self.way_out(from, request, c, &dialog).filter(|_| node);
        let Some(way) = way else {
            // A phone that was called on its connection has no other way.
            if node && dialog.by_node {
                self.forget(c.id, Tag::of(request.method()), What::ToCaller);
                return self.refuse(from, request, 430, b"", b"", out);
            }
            self.counts.forbidden += 1;
            return self.refuse(from, request, 403, b"", b"", out);
        };
        let branch = Branch {
            epoch: c.epoch,
            node: dialog.node,
            to_caller: true,
            listener: self.settings.mark(c.back.listener),
            port: self.branch_port(from, request, c, false),
            id: c.id,
        };
        let token = if ack { 0 } else { self.keep_outward(now, from, request, c, way) };
        match request.method() {
            Method::Ack => {}
            Method::Bye => {
                self.dispatcher.calls_mut().hung_up_by_node(now, c.call, dialog_of(request.from_tag()))
            }
            _ => self.dispatcher.calls_mut().renewed_by_node(now, c.call),
        }
        self.counts.outward += 1;
        self.send((from, way, token, false), request, c, branch, None, out);
    }

    /// The way to the caller's side: where its requests came from. The route or Request-URI may name another port
    /// there, and no other address: the peer of the node writes both, and this must not be a way to
    /// anywhere. On a stream the caller's own connection comes first, and what is named there if that is gone; what
    /// is too long for a datagram goes over a stream first.
    fn way_out(&self, from: Flow, request: &Message<'_>, c: &Checked<'_>, dialog: &Dialog) -> Option<Flow> {
        let next = c.routing.next.and_then(|next| Uri::parse(next).ok()).unwrap_or(c.uri);
        let own = dialog.listener.transport();
        let alike = next.transport().is_none_or(|t| t == own);
        let same = next.is_sip()
            && next.host_ip().is_some_and(|ip| ip.to_canonical() == dialog.caller.ip().to_canonical());
        let named = (alike && same && !dialog.natted && next.param(b"maddr").is_none())
            .then(|| SocketAddr::new(dialog.caller.ip(), next.port.unwrap_or(own.default_port())));
        let failed = self.tries(c.id, Tag::of(request.method()), What::ToCaller) > 0;
        let (transport, remote) = match own {
            Transport::Udp => {
                let remote = named.unwrap_or(dialog.caller);
                let asked = next.transport() == Some(Transport::Udp);
                let large = !failed && !asked && !dialog.natted && self.is_large(from, request);
                let stream =
                    large && self.settings.listener_for(Transport::Tcp, remote, ListenerId(0)).is_some();
                (if stream { Transport::Tcp } else { Transport::Udp }, remote)
            }
            _ => (own, named.filter(|_| failed).unwrap_or(dialog.caller)),
        };
        let own_conn = (transport == own && !failed).then(|| self.alive(dialog.conn)).flatten();
        if dialog.by_node && own.is_reliable() && own_conn.is_none() {
            return None;
        }
        let near = self.settings.marked(dialog.listener, remote)?;
        let listener = self.settings.listener_for(transport, remote, near)?;
        Some(Flow { transport, listener, remote, conn: own_conn })
    }

    pub(crate) fn send(
        &mut self,
        (from, to, token, offer): (Flow, Flow, u64, bool),
        request: &Message<'_>,
        c: &Checked<'_>,
        branch: Branch,
        token_of: Option<TokenOf>,
        out: &mut Outbox,
    ) {
        let mut lines = take_scratch(&mut self.scratch);
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
                self.push_routes(dialog, c.call, request.from_tag(), sides, &mut lines);
            }
            Some(TokenOf::Phone(phone)) => self.push_path(phone, to.listener, &mut lines),
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
        // What it is called in the message says where a dialog's requests go; where answers go the socket says.
        let to = match branch.to_caller {
            true => to,
            false => Flow { listener: self.settings.source(to.listener), ..to },
        };
        let splices = &mut self.splices;
        out.send_with(to, token, |buf| write_request(request, &outgoing, splices, buf));
        self.scratch = lines;
        // What is too long for a datagram goes in one where no connection comes about (section 18.1.1).
        let datagram = match branch.to_caller {
            true => c.dialog.is_some_and(|(dialog, _)| dialog.listener.transport() == Transport::Udp),
            false => {
                let node = self.cluster.by_id(branch.node).and_then(|at| self.cluster.node(at));
                node.is_some_and(|node| node.transport.is_none())
            }
        };
        if to.transport != Transport::Udp && datagram {
            out.hurries();
        }
    }

    /// Our Record-Route; two of them where the sides have different addresses of ours (RFC 5658).
    fn push_routes(
        &self,
        dialog: &Dialog,
        call: CallKey,
        caller_tag: &[u8],
        sides: [Option<ListenerId>; 2],
        out: &mut Vec<u8>,
    ) {
        for listener in sides.into_iter().flatten().filter_map(|id| self.settings.listener(id)) {
            out.extend_from_slice(listener.record_route_prefix());
            self.sealer.push_dialog(dialog, call, caller_tag, out);
            out.extend_from_slice(b">\r\n");
        }
    }

    /// Refuses a request with a status of our own, which is not counted: it may be a repetition.
    pub(crate) fn refuse_again(&mut self, flow: Flow, request: &Message<'_>, status: u16, out: &mut Outbox) {
        let mut line = Vec::new();
        if status == 503 {
            line.extend_from_slice(b"Retry-After: ");
            push_u64(self.settings.retry_after.into(), &mut line);
            line.extend_from_slice(b"\r\n");
        }
        self.refuse(flow, request, status, b"", &line, out);
    }

    pub(crate) fn unavailable(&mut self, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        self.counts.unavailable += 1;
        self.refuse_again(flow, request, 503, out);
    }

    /// Answers without keeping anything (section 8.2.7).
    pub(crate) fn refuse(
        &mut self,
        flow: Flow,
        request: &Message<'_>,
        status: u16,
        reason: &[u8],
        extra: &[u8],
        out: &mut Outbox,
    ) {
        if request.method() == Method::Ack {
            return;
        }
        let back = reply_flow(flow, request);
        let call = self.sealer.call(request.call_id());
        let tag =
            self.sealer.tag(self.sealer.id(self.sealer.epoch(), &origin(request, back.remote.ip(), call)));
        let source = Some((flow.remote, always_rport(flow, request)));
        let write = |buf: &mut Vec<u8>| write_response(request, status, reason, &tag, source, extra, buf);
        let sent = out.send_with(back, 0, write);
        if !repays(flow, request, sent.len()) {
            self.counts.withheld += 1;
            return out.take_back();
        }
        self.mark_asking(back, out);
    }
}

/// Of these nobody may know the connection when the answer comes, and the branch does not say it either.
fn is_cancel_on_stream(from: Flow, request: &Message<'_>) -> bool {
    from.transport.is_reliable() && request.method() == Method::Cancel
}

/// `Unsupported` with what a Proxy-Require asks for; nothing is supported.
fn required(request: &Message<'_>) -> Option<Vec<u8>> {
    request.header(Name::ProxyRequire)?;
    let mut line = Vec::new();
    for value in request.values(Name::ProxyRequire) {
        line.extend_from_slice(if line.is_empty() { b"Unsupported: " } else { b", " });
        line.extend_from_slice(value);
    }
    line.extend_from_slice(b"\r\n");
    (line.len() > 2).then_some(line)
}
