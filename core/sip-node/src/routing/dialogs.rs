//! Targets of requests within a dialog that this server record-routed.

use super::reach::is_dialled_never;
use super::{Plan, Target, make_strict, place_of};
use crate::access::{Access, Asker, By, Place, access};
use crate::admitted::{Admitted, Caller};
use crate::routing::Router;
use crate::services::Services;
use crate::settings::{Bounds, Mode};
use crate::short::Short;
use crate::uris::transport_of;
use core::mem;
use core::net::SocketAddr;
use sip_message::{Message, Method, Scheme, Uri};
use sip_proxy::token::{Dialog, End, Role};
use sip_registrar::{is_outside, is_public};
use wire::{Flow, Time, Transport};

impl<S: Services> Router<'_, S> {
    /// A request of a dialog that this server record-routed: to the other end, whose address is in the
    /// token, unless the sender is trusted and names another.
    pub(super) fn within_dialog(
        &self,
        room: &mut Vec<(u16, Target)>,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        dialog: &Dialog,
    ) -> Plan {
        if let Some(next) = a.routing.next {
            return self.routed_dialog(room, now, flow, request, a, (dialog, next));
        }
        let mut target = target_within(a, dialog, &a.uri);
        target.headers = self.site.rules().within(&dialog.peer, request);
        let (uri, peer) = (&a.uri, dialog.peer);
        let asker = self.asker_within(dialog, &a.caller);
        let moved = self.moved(now, request, uri, dialog);
        match uri.host_ip().filter(|_| uri.is_sip()) {
            // It can only be reached where it was seen.
            _ if peer.translated => target.hops.push(self.valid_flow(peer.flow(), flow.listener)),
            _ if moved.as_ref().is_some_and(|moved| moved.only) => {}
            // The other end's address with another port: its Contact is right about that.
            Some(ip) if ip == peer.remote.ip() => {
                let size = self.site.grown(flow, request);
                target.hops = self.dialog_hops(now, uri, &peer, flow, size, asker);
            }
            // The other end is behind address translation: at its private address there is no host, or
            // another one of our own network.
            Some(ip) if !is_public(ip) && is_public(peer.remote.ip()) => {
                target.hops.push(self.valid_flow(peer.flow(), flow.listener));
            }
            // A local user behind address translation, or another sender's choice of target.
            _ if peer.role == Role::Local || !uri.is_sip() || !self.may_choose(asker, uri, &peer) => {
                target.hops.push(self.valid_flow(peer.flow(), flow.listener));
            }
            // It may name any host, if that is one to be found and to be sent to; else where it was.
            _ => {
                target.hops.push(self.valid_flow(peer.flow(), flow.listener));
                target.locate = a.routing.request_uri.to_vec();
                target.bounds = Bounds::of(peer.remote);
            }
        }
        if let Some(moved) = moved {
            match moved.first {
                true => target.hops.push_front(moved.flow),
                false => target.hops.push(moved.flow),
            }
        }
        room.push((1000, target));
        Plan::Forward(mem::take(room))
    }

    /// The same with a Route behind ours. The request must go to its host or nowhere (section 16.6 steps 6
    /// and 7): it is the other end's, or one that the sender might relay by.
    fn routed_dialog(
        &self,
        room: &mut Vec<(u16, Target)>,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        (dialog, next): (&Dialog, &[u8]),
    ) -> Plan {
        let Ok(uri) = Uri::parse(next) else { return Plan::Refuse(400) };
        let peer = dialog.peer;
        let mut target = target_within(a, dialog, &uri);
        target.headers = self.site.rules().within(&peer, request);
        target.secure = uri.scheme == Scheme::Sips;
        if !a.routing.next_is_loose {
            make_strict(&mut target, next);
        }
        let asker = self.asker_within(dialog, &a.caller);
        // A sender outside may not name an address inside.
        let outside = [peer.remote, flow.remote].into_iter().find(|end| is_outside(end.ip()));
        let bounds = Bounds::of(outside.unwrap_or(peer.remote));
        match uri.host_ip() {
            Some(ip) if ip == peer.remote.ip() => {
                let size = self.site.grown(flow, request);
                target.hops = self.dialog_hops(now, &uri, &peer, flow, size, asker);
                let anew = self.front_anew(now, request, &uri, dialog);
                if let Some(hop) = anew.filter(|hop| !target.hops.contains(hop)) {
                    target.hops.push(hop);
                }
            }
            // The other end's, which is behind address translation.
            Some(ip) if !is_public(ip) && is_outside(peer.remote.ip()) => {
                target.hops.push(self.valid_flow(peer.flow(), flow.listener));
            }
            _ if self.may_choose(asker, &uri, &peer) && self.site.may_name(&uri, bounds) => {
                (target.locate, target.bounds) = (next.to_vec(), bounds);
            }
            Some(_) => return Plan::Refuse(403),
            // A name may be the other end's.
            None => {
                target.hops.push(self.valid_flow(peer.flow(), flow.listener));
                (target.locate, target.bounds) = (next.to_vec(), Bounds::End(peer.remote.ip()));
            }
        }
        target.next = self.beyond_front(now, flow, request, a, dialog);
        target.behind_edge |= target.next.is_some();
        room.push((1000, target));
        Plan::Forward(mem::take(room))
    }

    /// Whether a request with our token belongs to no dialog, and the other end may take it for a new one: a
    /// proxy, gateway or trunk that does not mind an unknown To tag opens any number so. In stateless mode
    /// nobody knows.
    pub(super) fn is_of_no_dialog(
        &self,
        now: Time,
        request: &Message<'_>,
        a: &Admitted<'_>,
        dialog: &Dialog,
    ) -> bool {
        let begins =
            matches!(request.method(), Method::Invite | Method::Message | Method::Refer | Method::Info);
        let known = self.site.settings().proxy.mode != Mode::Stateless;
        let others = !self.site.settings().auth.fronts.is_empty();
        begins
            && known
            && self.asker_within(dialog, &a.caller) != Asker::Transit
            && self.calls.denies(now, request, dialog, others)
    }

    /// Who asks within a dialog. That its sender is one of ours proves nothing about who sent this request.
    fn asker_within(&self, dialog: &Dialog, caller: &Caller<'_>) -> Asker {
        match self.asker(caller) {
            asker @ (Asker::Proven | Asker::Transit) if dialog.sender.role != Role::Stranger => asker,
            _ => Asker::End,
        }
    }

    /// Whether the sender may direct a request of a dialog to another place than the other end, as by a
    /// Route.
    fn may_choose(&self, asker: Asker, uri: &Uri<'_>, peer: &End) -> bool {
        let place = match self.site.places().of_uri(self.site.settings(), uri) {
            // One of the same trunk.
            Some(holder) if Some(holder) == self.site.places().at(self.site.settings(), peer.remote) => {
                Place::Elsewhere
            }
            holder => place_of(holder),
        };
        access(asker, By::Route, place) == Access::Open
    }

    /// The ways to the other end of a dialog, at the port and transport that `uri` names, best first.
    fn dialog_hops(
        &self,
        now: Time,
        uri: &Uri<'_>,
        peer: &End,
        near: Flow,
        size: usize,
        asker: Asker,
    ) -> Short<Flow> {
        let mut hops = Short::None;
        let mut transport = peer.transport;
        if transport == Transport::Udp {
            transport = uri.transport().unwrap_or(transport);
        } else {
            // The connection it is on; if that is gone, a new one may be had.
            hops.push(self.valid_flow(peer.flow(), near.listener));
        }
        if peer.role == Role::Local && peer.opened && is_dialled_never(transport) {
            return hops;
        }
        let remote = SocketAddr::new(peer.remote.ip(), uri.port.unwrap_or(transport.default_port()));
        let named = remote == peer.remote || self.is_port_of(now, peer, (uri, remote), asker);
        // A phone that may have no TCP gets what is large by datagram.
        let size = if peer.role == Role::Local { 0 } else { size };
        for &transport in self.by_size(transport, uri, size).iter().filter(|_| named) {
            let listener = if transport == peer.transport { peer.listener } else { near.listener };
            if let Some(listener) = self.site.settings().listener_for(transport, remote, listener) {
                let hop = Flow { transport, listener, remote, conn: None };
                if !hops.contains(&hop) {
                    hops.push(hop);
                }
            }
        }
        let seen = self.valid_flow(peer.flow(), near.listener);
        // Where it names another transport than the one that it was reached by, that one is left.
        if hops.is_empty() || (peer.transport == Transport::Udp && transport != Transport::Udp) {
            hops.push(seen);
        }
        hops
    }

    /// A new connection to a trusted proxy in front of this server, if its old one is gone: to the port in
    /// its Record-Route. Over TLS another program at that port cannot prove the name of the proxy, so it
    /// receives nothing. Over TCP the port must be that of a Path, which the proxy wrote itself.
    fn front_anew(&self, now: Time, request: &Message<'_>, uri: &Uri<'_>, dialog: &Dialog) -> Option<Flow> {
        let (settings, peer) = (self.site.settings(), &dialog.peer);
        let transport = transport_of(uri);
        if !peer.opened || transport != peer.transport || !settings.auth.is_front(peer.remote.ip()) {
            return None;
        }
        let remote = SocketAddr::new(peer.remote.ip(), uri.port.unwrap_or(transport.default_port()));
        let ours = settings.listeners.iter().any(|l| l.address == remote) || settings.is_admin(remote);
        let is_front = match transport {
            Transport::Tls => true,
            Transport::Tcp => self.is_path_of_peer(now, request, dialog, remote),
            _ => false,
        };
        if ours || !is_front {
            return None;
        }
        let listener = settings.listener_for(transport, remote, peer.listener)?;
        Some(Flow { transport, listener, remote, conn: None })
    }

    /// Whether a request to `peer` may go to another port of the same host, which is its sender's word.
    /// It must be neither our admin API nor this server again, where the other end is on our own machine.
    /// A sender that has only the token may go where any sender may, to a Contact of a phone. Otherwise the
    /// element that the dialog was set up with routes by the Request-URI.
    fn is_port_of(&self, now: Time, peer: &End, (uri, remote): (&Uri<'_>, SocketAddr), asker: Asker) -> bool {
        if self.site.settings().listeners.iter().any(|l| l.address == remote) {
            return false;
        }
        match asker {
            Asker::Proven | Asker::Transit => self.site.settings().may_reach(remote),
            _ => {
                peer.role == Role::Local
                    && !self.site.settings().is_admin(remote)
                    && self.is_contact(now, uri, remote)
            }
        }
    }
}

/// The other end of a dialog. A stranger's address is not proven: its INVITE may have a forged source, and
/// its Contact or Record-Route may name another host. `uri` decides where the request goes.
fn target_within(a: &Admitted<'_>, dialog: &Dialog, uri: &Uri<'_>) -> Target {
    let End { role, opened, remote, .. } = dialog.peer;
    // A server that connects from the port that it listens at accepts a new connection there.
    let port = uri.port.unwrap_or_else(|| transport_of(uri).default_port());
    let existing = opened && (role == Role::Local || port != remote.port());
    Target { elsewhere: role == Role::Stranger, existing, ..Target::new(a.routing.request_uri, role) }
}
