//! How requests get to nodes, to callers and to phones.

use crate::cluster::probes::OFFER;
use crate::forwarding::check::Checked;
use crate::forwarding::forwarder::Forwarder;
use crate::token::{Dialog, Held};
use crate::{Assigned, NodeIndex, PathBy};
use core::net::SocketAddr;
use sip_message::{Message, Method, Name, NameAddr, Uri};
use sip_proxy::transport::{is_natted, transport_of};
use wire::{ConnId, Flow, ListenerId, Transport};

/// What our own lines add to a request besides texts of known length: a branch, what a Via is completed with,
/// and two tokens.
const BRANCH_ADDED: usize = 63 + 45 + OFFER.len();
const TOKEN_ADDED: usize = 1 + 68 + b";ob".len() + 3;
const CONN_ADDED: usize = 24;

impl Forwarder {
    /// Whether a request is too long for a datagram, with what is added to it (section 18.1.1).
    pub fn is_large(&self, from: Flow, request: &Message<'_>) -> bool {
        let length = request.bytes().len();
        // Most are far from it.
        if length + 600 < self.settings.mtu {
            return false;
        }
        let Some(near) = self.settings.listener(from.listener) else { return false };
        let via = near.via_prefix().len() + BRANCH_ADDED;
        let conn = from.conn.map_or(0, |_| CONN_ADDED);
        let token = near.record_route_prefix(false).len() + TOKEN_ADDED + conn;
        let routes = match self.is_recorded(request) {
            true => 2 * token,
            false if self.is_reached_by_us(from, request) => token,
            false => 0,
        };
        length + via + routes > self.settings.mtu
    }

    /// Whether the balancer stays in the path of the dialog that a request begins.
    pub fn is_recorded(&self, request: &Message<'_>) -> bool {
        (self.settings.record_route || asks_for_flow(request))
            && request.to_tag().is_empty()
            && matches!(request.method(), Method::Invite | Method::Subscribe | Method::Refer)
    }

    /// How a request gets to its node: over what the node asks for, else in a datagram, unless it is too long
    /// for one and we have streams.
    pub fn way(&self, to: Assigned, near: ListenerId) -> Option<Flow> {
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

    /// The way to the caller's side: where its requests came from. The route or Request-URI may name another
    /// port there, and no other address: the peer of the node writes both, and this must not be a way to
    /// anywhere. On a stream the caller's own connection comes first, and what is named there if that is
    /// gone; what is too long for a datagram goes over a stream first. `failed`: it was tried, and its
    /// connection is gone.
    pub fn way_out(
        &self,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        dialog: &Dialog,
        failed: bool,
    ) -> Option<Flow> {
        let own = dialog.listener.transport()?;
        let named = named_place(&c.next(), own, dialog);
        let (transport, remote) = match own {
            Transport::Udp => {
                let remote = named.unwrap_or(dialog.caller);
                let asked = c.next().transport() == Some(Transport::Udp);
                let large = !failed && !asked && !dialog.natted && self.is_large(from, request);
                let stream =
                    large && self.settings.listener_for(Transport::Tcp, remote, ListenerId(0)).is_some();
                (if stream { Transport::Tcp } else { Transport::Udp }, remote)
            }
            _ => (own, named.filter(|_| failed).unwrap_or(dialog.caller)),
        };
        let own_conn = (transport == own && !failed).then(|| self.alive(dialog.conn)).flatten();
        let remote = match own_conn {
            None if dialog.is_bound() => return None,
            // A peer cannot prove a name at its source port.
            None if own == Transport::Tls => named?,
            _ => remote,
        };
        let near = self.settings.marked(dialog.listener, remote)?;
        let listener = self.settings.listener_for(transport, remote, near)?;
        Some(Flow { transport, listener, remote, conn: own_conn })
    }

    /// The way that a phone's REGISTER came.
    pub fn way_to_phone(&self, phone: &Dialog) -> Option<Flow> {
        let listener = self.settings.marked(phone.listener, phone.caller)?;
        let transport = self.settings.listener(listener)?.transport;
        let conn = self.alive(phone.conn);
        let there = !transport.is_reliable() || conn.is_some();
        there.then_some(Flow { transport, listener, remote: phone.caller, conn })
    }

    /// Whether the sender of a REGISTER is to be called through us.
    pub fn is_reached_by_us(&self, from: Flow, request: &Message<'_>) -> bool {
        if request.method() != Method::Register || self.cluster.is_node_ip(from.remote.ip()) {
            return false;
        }
        match self.settings.path {
            PathBy::Never => false,
            PathBy::Always => true,
            // Whoever does not say that it knows of it may be refused with 420 (section 5.3); and who can be
            // reached without is, whatever becomes of us. A proxy before us stands for its phones itself.
            PathBy::Auto => {
                let knows = request.values(Name::Supported).any(|tag| tag.eq_ignore_ascii_case(b"path"));
                let only_so = || {
                    is_tied(from)
                        || has_flows(request)
                        || is_natted(from, request)
                        || has_other_contact(from, request)
                };
                knows && request.via_count() == 1 && only_so()
            }
        }
    }

    /// A connection as tokens have it.
    pub fn held(&self, conn: Option<ConnId>) -> Option<Held> {
        conn.map(|conn| Held { conn, life: self.life })
    }

    /// The connection that a token names, if it was one of this process.
    pub fn alive(&self, held: Option<Held>) -> Option<ConnId> {
        held.filter(|held| held.life == self.life).map(|held| held.conn)
    }

    /// Which node has sent a request: several may have one IP address, and a connection has a port of its
    /// own.
    pub fn sending_node(&self, from: Flow, request: &Message<'_>) -> Option<NodeIndex> {
        let via = request.via();
        let called = SocketAddr::new(from.remote.ip(), via.port_or_default());
        let same_ip = || {
            let ip = from.remote.ip().to_canonical();
            self.cluster.members().find(|(_, node)| node.address.ip().to_canonical() == ip).map(|(at, _)| at)
        };
        self.cluster.at(from.remote).or_else(|| self.cluster.at(called)).or_else(same_ip)
    }
}

/// Whether a phone can be reached only over its own connection: at its address there is no server that could
/// prove a name, or that accepts WebSocket (RFC 7118 section 5).
fn is_tied(from: Flow) -> bool {
    !matches!(from.transport, Transport::Udp | Transport::Tcp)
}

/// Whether a REGISTER comes from a phone itself, for one of its flows (RFC 5626 section 5.1).
pub(super) fn has_flows(request: &Message<'_>) -> bool {
    let flow = |value| NameAddr::parse(value).is_ok_and(|contact| contact.param(b"reg-id").is_some());
    request.via_count() == 1 && request.values(Name::Contact).any(flow)
}

/// Whether a Contact asks for later requests of the dialog to use the flow of this request (RFC 5626 section
/// 5.3.2).
pub(super) fn asks_for_flow(request: &Message<'_>) -> bool {
    let asks = |value: &[u8]| {
        // Few do.
        value.windows(3).any(|part| part.eq_ignore_ascii_case(b";ob"))
            && NameAddr::parse(value)
                .ok()
                .and_then(|contact| Uri::parse(contact.uri).ok())
                .is_some_and(|uri| uri.param(b"ob").is_some())
    };
    request.values(Name::Contact).any(asks)
}

/// The next hop of a request, if it is on the caller's own host. A host name is the caller's if the caller
/// proves it over TLS.
fn named_place(next: &Uri<'_>, own: Transport, dialog: &Dialog) -> Option<SocketAddr> {
    let alike = next.transport().is_none_or(|t| t == own) || transport_of(next) == own;
    let same = match next.host_ip() {
        Some(ip) => ip.to_canonical() == dialog.caller.ip().to_canonical(),
        None => own == Transport::Tls,
    };
    let there = alike && same && next.is_sip() && !dialog.natted && next.param(b"maddr").is_none();
    there.then(|| SocketAddr::new(dialog.caller.ip(), next.port.unwrap_or(own.default_port())))
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
