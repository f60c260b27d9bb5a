//! Responses: back by what our Via says (RFC 3261 section 16.11).

use crate::failover::cancel_fanout::may_refuse_cancel;
use crate::failover::store::KeptMessage;
use crate::forwarding::respond::RelayAs;
use crate::message::{answer_of, dialog_of, otherwise, wait};
use crate::sessions::place::TxnPlace;
use crate::token::{Branch, Origin};
use crate::{Balancer, CallKey, MethodClass, NodeIndex, Seen};
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::{Message, Method, Name, Via};
use wire::{Flow, Outbox, Time, Transport};

impl Balancer {
    /// A response with a Via of ours on top goes to the next one; any other goes nowhere.
    pub(crate) fn relay(&mut self, now: Time, from: Flow, response: &Message<'_>, out: &mut Outbox) {
        // Only of what we asked is the Call-ID hashed, which may be as long as its sender likes.
        let Some(branch) = self.forwarder.sealer().open_branch(response.via_branch()) else {
            self.forwarder.counts.stray += 1;
            return;
        };
        let call = self.forwarder.sealer().call(response.call_id());
        let Some((to, port, place)) = self.way_back(&branch, response, call) else {
            self.forwarder.counts.stray += 1;
            return;
        };
        if self.failover.is_replaying() {
            // A refusal once more, which whoever has got the first one leaves aside.
            let relay_as = self.passes(now, &branch, response);
            if self.may_go((now, place), &branch, to, response, out) {
                self.send_back(now, &branch, response, (to, port), relay_as, out);
            }
            return;
        }
        let (class, status) = (MethodClass::of(response.method()), response.status());
        // Decided first, because noting a final response forgets the state of its INVITE.
        let repeats = class == MethodClass::Invite
            && status >= 300
            && !to.transport.is_reliable()
            && (from.transport.is_reliable()
                || self.failover.repeats_refusal(self.dispatcher.calls(), call, &branch));
        let mut relay_as = RelayAs::Unchanged;
        if branch.to_caller {
            let (failover, mut step) = self.parts(now, out);
            failover.heard_of(&mut step, branch.id, class, KeptMessage::ToCaller, status);
            self.dispatcher.calls_mut().answered_by_caller(
                now,
                call,
                class,
                status,
                dialog_of(response.from_tag()),
            );
        } else if let Some(node) = self.cluster.by_id(branch.node) {
            match self.of_node(now, from, (call, &branch, node), response, out) {
                Some(of_node) => relay_as = of_node,
                None => return,
            }
        }
        if !self.may_go((now, place), &branch, to, response, out) {
            return;
        }
        self.forwarder.counts.relayed += 1;
        self.forwarder.counts.softened += u64::from(relay_as == RelayAs::ServerError);
        if repeats {
            let (failover, mut step) = self.parts(now, out);
            failover.keep_refusal(&mut step, from, response, branch.id);
        }
        self.send_back(now, &branch, response, (to, port), relay_as, out);
    }

    /// A response that claims to be a node's: how it is forwarded to the caller, if at all.
    fn of_node(
        &mut self,
        now: Time,
        from: Flow,
        (call, branch, node): (CallKey, &Branch, NodeIndex),
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> Option<RelayAs> {
        let (class, status) = (MethodClass::of(response.method()), response.status());
        let (failover, mut step) = self.parts(now, out);
        // Branches are seen by everybody a node forwards to: an answer is the node's if it comes from there.
        let ip = step.forwarder.cluster().node(node).map(|node| node.address.ip().to_canonical());
        if ip != Some(from.remote.ip().to_canonical()) {
            step.forwarder.counts.stray += 1;
            return None;
        }
        if failover.is_own_affair(step.dispatcher.calls(), call, (branch.id, class), node, status) {
            return None;
        }
        step.dispatcher.count(node, status);
        if class == MethodClass::Invite
            && status == 503
            && let Some(at) = failover.goes_on(&mut step, (call, branch.id, node), response)
        {
            self.replay(now, at, out);
            return None;
        }
        if class == MethodClass::Invite
            && status == 482
            && failover.rings_on(&mut step, (call, branch.id), node, response)
        {
            return None;
        }
        let answer = answer_of(response, class);
        let mut seen = step.dispatcher.response(now, call, branch.id, class, node, &answer);
        // Of what is over, anybody along the way may have a copy.
        if seen == Seen::Counted && step.forwarder.cluster().speaks(node) {
            step.hear(node, response);
        }
        if class == MethodClass::Invite
            && seen != Seen::Counted
            && failover.messages().has_left(branch.id, node)
        {
            if !failover.answered_late(&mut step, branch.id, node, response) {
                return None;
            }
            // It was the first to say yes, or anything: it has the call.
            seen = step.dispatcher.response(now, call, branch.id, class, node, &answer);
        }
        // Who has been replaced may still have made a dialog, which the caller must learn of (section 16.7
        // step 5); whatever else it says would be taken for the answer of the other.
        if seen == Seen::Replaced && !(200..300).contains(&status) {
            step.forwarder.counts.stray += 1;
            return None;
        }
        if class == MethodClass::Cancel && status >= 300 && !may_refuse_cancel(&step, call, branch, node) {
            return None;
        }
        if seen != Seen::Counted && class == MethodClass::Invite && (200..300).contains(&status) {
            step.dispatcher.calls_mut().another_dialog(call, answer.dialog);
            // No token will say where it is.
            if seen == Seen::Stray && !step.forwarder.settings().record_route {
                step.dispatcher.calls_mut().adopt(now, call, node, answer.dialog);
            }
        }
        let relay_as = self.passes(now, branch, response);
        let (failover, mut step) = self.parts(now, out);
        failover.heard_of(&mut step, branch.id, class, KeptMessage::ToNode, status);
        Some(relay_as)
    }

    /// How a node's response is forwarded to its caller.
    fn passes(&self, now: Time, branch: &Branch, response: &Message<'_>) -> RelayAs {
        match response.status() {
            _ if branch.to_caller => RelayAs::Unchanged,
            // Whoever is before us would send nothing at all to us for that time (section 21.5.4), where only
            // one node wants to be left alone (16.7 step 6).
            503 if self.cluster.willing(now).next().is_some() => RelayAs::ServerError,
            // All do. A probe may end that sooner than the node said, so it is for no longer than we say
            // ourselves.
            503 => match wait(response, MethodClass::Other) {
                Some(time) if time > Duration::from_secs(self.forwarder.settings().retry_after.into()) => {
                    RelayAs::OwnRetryAfter
                }
                _ => RelayAs::Unchanged,
            },
            482 if MethodClass::of(response.method()) == MethodClass::Invite
                && self.failover.messages().is_merged(branch.id) =>
            {
                RelayAs::ServerError
            }
            // RFC 5626 section 5.3.1 defines 430 between edge and home; callers know 480 (RFC 3261 section
            // 21.4.18).
            430 => RelayAs::TemporarilyUnavailable,
            _ => RelayAs::Unchanged,
        }
    }

    /// The response without our Via, or with another status line and without its Retry-After.
    fn send_back(
        &mut self,
        now: Time,
        branch: &Branch,
        response: &Message<'_>,
        (to, port): (Flow, u16),
        relay_as: RelayAs,
        out: &mut Outbox,
    ) {
        let call = (response.method() == Method::Invite && to.transport != Transport::Udp)
            .then(|| self.forwarder.sealer().call(response.call_id()));
        let forwarder = &mut self.forwarder;
        let write = |buf: &mut Vec<u8>| forwarder.write_back(response, relay_as, buf);
        if to.transport == Transport::Udp {
            out.send_with(to, 0, write);
            return;
        }
        let node = branch.to_caller.then_some(branch.node);
        self.failover.responses().write((now, call, node), to, otherwise(to, port), out, write);
        self.mark_conn(to, response, out);
    }

    /// What our Via says, if we sealed it for the request whose Via is the next, and the port that this
    /// names. A stream is the one that the request came on, if it is known or there is one to that port. Of
    /// datagrams also the record, if there is one.
    fn way_back(
        &self,
        branch: &Branch,
        response: &Message<'_>,
        call: CallKey,
    ) -> Option<(Flow, u16, Option<TxnPlace>)> {
        if let Some((to, place)) = self.way_known(branch, response, call) {
            return Some((to, 0, Some(place)));
        }
        let via = Via::parse(response.values(Name::Via).nth(1)?).ok()?;
        let ip = via.source_ip()?;
        let origin = Origin {
            branch: via.branch,
            host: via.host,
            port: via.port_or_default(),
            reply: ip,
            call_id: response.call_id(),
            call,
            cseq: response.cseq(),
        };
        if self.forwarder.sealer().id(branch.epoch, &origin) != branch.id {
            return None;
        }
        let mut remote = SocketAddr::new(ip, branch.port);
        let listener = self.forwarder.settings().marked(branch.listener, remote)?;
        let transport = self.forwarder.settings().listener(listener)?.transport;
        let mut conn = None;
        if transport.is_reliable() {
            let class = MethodClass::of(response.method());
            let what = if branch.to_caller { KeptMessage::ToCaller } else { KeptMessage::ToNode };
            conn = self.failover.messages().conn_of(branch.id, class, what);
            remote.set_port(self.peer_port(branch, &via, call, class));
        }
        Some((Flow { transport, listener, remote, conn }, via.port_or_default(), None))
    }

    /// The port that the connection of a request has at its other end, as far as it is known; else the one in
    /// our branch.
    fn peer_port(&self, branch: &Branch, via: &Via<'_>, call: CallKey, class: MethodClass) -> u16 {
        if branch.to_caller {
            return branch.port;
        }
        let known = self.dispatcher.calls().back(call, branch.id, class);
        // Whoever answers a CANCEL is the node itself, and has this from us.
        let written = || via.rport.flatten().filter(|_| class == MethodClass::Cancel);
        known.map(|back| back.port()).or_else(written).unwrap_or(branch.port)
    }

    /// The same of a request whose record is there, which knows as much as its Via: that was hashed into the
    /// id that we sealed. Of datagrams only, for streams need the port in that Via.
    fn way_known(&self, branch: &Branch, response: &Message<'_>, call: CallKey) -> Option<(Flow, TxnPlace)> {
        let transport = branch.listener.transport();
        if branch.to_caller || transport != Some(Transport::Udp) || response.via_count() < 2 {
            return None;
        }
        let (remote, place) =
            self.dispatcher.calls().way_back(call, branch.id, MethodClass::of(response.method()))?;
        let listener = self.forwarder.settings().marked(branch.listener, remote)?;
        Some((Flow::udp(listener, remote), place))
    }
}
