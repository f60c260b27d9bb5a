//! Phones that are called through the balancer: Path in REGISTER (RFC 3327), and what comes back by it.
//!
//! A phone behind address translation can be reached only where it sends from, and by who it sends to, which is the
//! balancer. So the balancer puts itself into the Path of its registration, with a token that says where it came from; the
//! node that calls it writes that into Route. Only who is a node may use it: a Path is known to more than the two, and it is
//! a way to a phone. On a stream it is a way to that one connection, for to the port that it came from nobody else ever
//! answers: where it has ended the node hears 430 (RFC 5626 section 5.3.1) and knows that the phone must come again.
//!
//! A dialog that is begun so is no call in the counters, as any that a node begins. It has our Record-Route, whatever
//! `record_route` says, or nothing that follows would reach the phone.

use crate::failover::store::What;
use crate::machine::requests::{Checked, TokenOf};
use crate::token::{Branch, Dialog, Held};
use crate::{Balancer, NodeIndex, PathBy, Tag};
use core::net::SocketAddr;
use sip_message::{Message, Method, Name, NameAddr, Uri};
use sip_proxy::transport::is_natted;
use wire::{ConnId, Flow, ListenerId, Outbox, Time};

impl Balancer {
    /// Whether the sender of a REGISTER is to be called through us.
    pub(crate) fn is_reached_by_us(&self, from: Flow, request: &Message<'_>) -> bool {
        if request.method() != Method::Register || self.cluster.is_node_ip(from.remote.ip()) {
            return false;
        }
        match self.settings.path {
            PathBy::Never => false,
            PathBy::Always => true,
            // Whoever does not say that it knows of it may be refused with 420 (section 5.3); and who can be reached without
            // is, whatever becomes of us. A proxy before us stands for its phones itself.
            PathBy::Auto => {
                let knows = request.values(Name::Supported).any(|tag| tag.eq_ignore_ascii_case(b"path"));
                knows
                    && request.via_count() == 1
                    && (is_natted(from, request) || has_other_contact(from, request))
            }
        }
    }

    /// A connection as tokens have it.
    pub(crate) fn held(&self, conn: Option<ConnId>) -> Option<Held> {
        conn.map(|conn| Held { conn, life: self.life })
    }

    /// The connection that a token names, if it was one of this process.
    pub(crate) fn alive(&self, held: Option<Held>) -> Option<ConnId> {
        held.filter(|held| held.life == self.life).map(|held| held.conn)
    }

    /// Our Path line for a phone, as the node's side calls us.
    pub(crate) fn push_path(&self, phone: &Dialog, side: ListenerId, out: &mut Vec<u8>) {
        let Some(listener) = self.settings.listener(side) else { return };
        out.extend_from_slice(b"Path: ");
        out.extend_from_slice(listener.route_prefix());
        self.sealer.push_path(phone, out);
        out.extend_from_slice(b">\r\n");
    }

    /// A request of a node to a phone that has registered through us.
    pub(crate) fn reach_phone(
        &mut self,
        now: Time,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        out: &mut Outbox,
    ) {
        let Some(phone) = c.phone else { return };
        let Some(node) = self.sending_node(from, request) else {
            self.counts.forbidden += 1;
            return self.refuse(from, request, 403, b"", b"", out);
        };
        if request.max_forwards() == Some(0) {
            self.counts.loops += 1;
            return self.refuse(from, request, 483, b"", b"", out);
        }
        let tag = Tag::of(request.method());
        // What has been tried on that connection is not tried on another.
        let failed = self.tries(c.id, tag, What::ToCaller) > 0;
        let Some(way) = self.way_to_phone(&phone).filter(|_| !failed) else {
            self.forget(c.id, tag, What::ToCaller);
            return self.refuse(from, request, 430, b"", b"", out);
        };
        let id = self.cluster.id(node);
        let branch = Branch {
            epoch: c.epoch,
            node: id,
            to_caller: true,
            listener: self.settings.mark(c.back.listener),
            port: self.branch_port(from, request, c, false),
            id: c.id,
        };
        let begins = request.to_tag().is_empty()
            && matches!(request.method(), Method::Invite | Method::Subscribe | Method::Refer);
        let dialog = Dialog { node: id, natted: true, by_node: true, ..phone };
        let token = match request.method() {
            Method::Ack => 0,
            _ => self.keep_outward(now, from, request, c, way),
        };
        self.counts.outward += 1;
        let token_of = begins.then_some(TokenOf::Dialog(dialog));
        self.send((from, way, token, false), request, c, branch, token_of, out);
    }

    /// The way that a phone's REGISTER came.
    fn way_to_phone(&self, phone: &Dialog) -> Option<Flow> {
        let listener = self.settings.marked(phone.listener, phone.caller)?;
        let transport = self.settings.listener(listener)?.transport;
        let conn = self.alive(phone.conn);
        let there = !transport.is_reliable() || conn.is_some();
        there.then_some(Flow { transport, listener, remote: phone.caller, conn })
    }

    /// Which node has sent a request: several may have one IP address, and a connection has a port of its own.
    fn sending_node(&self, from: Flow, request: &Message<'_>) -> Option<NodeIndex> {
        let via = request.via();
        let called = SocketAddr::new(from.remote.ip(), via.port_or_default());
        let same_ip = || {
            let ip = from.remote.ip().to_canonical();
            self.cluster.members().find(|(_, node)| node.address.ip().to_canonical() == ip).map(|(at, _)| at)
        };
        self.cluster.at(from.remote).or_else(|| self.cluster.at(called)).or_else(same_ip)
    }
}

/// Whether a Contact names another address than the one that the request came from.
fn has_other_contact(from: Flow, request: &Message<'_>) -> bool {
    let other = |value| {
        let uri = NameAddr::parse(value).ok().and_then(|addr| Uri::parse(addr.uri).ok());
        uri.and_then(|uri| uri.host_ip())
            .is_some_and(|ip| ip.to_canonical() != from.remote.ip().to_canonical())
    };
    request.values(Name::Contact).any(other)
}
