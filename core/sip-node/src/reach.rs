//! Where a binding is reached: the table of docs/design/reach.md, decided when a REGISTER comes and followed when a request does.

use crate::access::{self, Access, Asker, By, access};
use crate::node::Node;
use crate::services::{Counter, Services};
use crate::settings::{Bounds, Settings};
use crate::short::Short;
use crate::targets::{Wish, transport_of, without_headers};
use core::net::{IpAddr, SocketAddr};
use sip_message::{Message, Name, NameAddr, Uri, Values, Via, host_ip};
use sip_proxy::token::Role;
use sip_proxy::transport::reply_flow;
use sip_registrar::{BindingView, ContactAt, Reply, elsewhere, is_public};
use wire::{Flow, Time, Transport};

/// Where requests for a Contact go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Where the answer to the REGISTER goes.
    Source,
    /// At this port of the sender's address.
    Port(u16),
    /// At the address in the Contact, from which a proxy that we trust forwards.
    Device,
    /// Where the Contact leads (RFC 3263): it is another device than the sender.
    Contact,
    /// Nowhere: another device, at an address that nobody may register.
    Refused,
}

/// The whole decision.
fn place(flow: Flow, request: &Message<'_>, contact: &Uri<'_>, settings: &Settings) -> Place {
    let source = flow.remote.ip().to_canonical();
    let front = settings.auth.is_front(source);
    let seen = if front { sees_itself_behind(request) } else { sees_itself(flow, request) };
    let transport = transport_of(contact);
    if !seen || request.header(Name::Path).is_some() || !is_dialled(contact, transport) {
        return Place::Source;
    }
    let Some(ip) = destination(contact) else { return Place::Contact };
    let port = contact.port.unwrap_or(transport.default_port());
    let allowed = settings.may_register(SocketAddr::new(ip, port), source);
    // What a proxy forwards to us came from another device.
    if ip == source && !front {
        let udp = flow.transport == Transport::Udp && transport == Transport::Udp;
        return if udp && allowed { Place::Port(port) } else { Place::Source };
    }
    match allowed {
        true if front && ip == settings.auth.source(source, request) => Place::Device,
        true => Place::Contact,
        // It means something else to every other host, so it stands for the sender.
        false if !is_public(ip) || ip.is_loopback() => Place::Source,
        false => Place::Refused,
    }
}

/// The refusal of a REGISTER that policy forbids.
pub(crate) const fn refused(reason: &'static [u8]) -> Reply {
    Reply { status: 403, reason, headers: Vec::new() }
}

/// Whether the sender knows its own address, and asks for no answer elsewhere: only such a sender can say
/// where another device is. On a stream it does not know the port that it sends from.
fn sees_itself(flow: Flow, request: &Message<'_>) -> bool {
    let via = request.via();
    let port = flow.transport != Transport::Udp || via.port_or_default() == flow.remote.port();
    via.rport.is_none() && port && via.host_ip.is_some_and(|ip| ip == flow.remote.ip().to_canonical())
}

/// The same of a client behind a proxy that we trust, by what that wrote into its Via. On a stream the port is not looked at.
fn sees_itself_behind(request: &Message<'_>) -> bool {
    let Some(below) = request.values(Name::Via).skip(1).last() else { return true };
    let Ok(via) = Via::parse(below) else { return false };
    let address = via.received.is_none() || via.source_ip().is_some_and(|ip| Some(ip) == via.host_ip);
    let datagram = via.transport == Some(Transport::Udp);
    let port = !datagram || via.rport.flatten().is_none_or(|port| port == via.port_or_default());
    address && port
}

/// Whether a new connection or datagram can lead to a Contact at all: to a browser none does (RFC 7118 section 5).
fn is_dialled(contact: &Uri<'_>, transport: Transport) -> bool {
    let web = matches!(transport, Transport::Ws | Transport::Wss);
    let last = contact.host.rsplit(|&b| b == b'.').next().unwrap_or(b"");
    let invalid = last.eq_ignore_ascii_case(b"invalid");
    contact.is_sip() && !web && !invalid
}

/// From where a Contact at an address was registered.
#[derive(Default)]
struct Seen {
    /// From that address.
    here: bool,
    /// From another one.
    foreign: bool,
}

impl Seen {
    fn note(&mut self, remote: SocketAddr, binding: &BindingView<'_>) {
        let here = is_from(remote, binding);
        self.here |= here;
        self.foreign |= !here;
    }

    /// Whether the Contact is one of a phone at `remote`.
    fn counts<S: Services>(&self, services: &S, now: Time, remote: SocketAddr) -> bool {
        self.here || self.foreign && !is_taken(services, now, remote)
    }
}

fn is_from(remote: SocketAddr, binding: &BindingView<'_>) -> bool {
    !binding.is_elsewhere() && binding.flow.remote.ip().to_canonical() == remote.ip().to_canonical()
}

/// Whether a phone is registered from the address that it has.
fn is_taken<S: Services>(services: &S, now: Time, remote: SocketAddr) -> bool {
    let mut taken = false;
    let more = services.contacts(&ContactAt::any(remote, now), &mut |binding| {
        taken = is_from(remote, binding);
        taken
    });
    taken || more
}

/// Whether a Contact or Path of a user of ours leads to `remote`, where another account's phone is. That may be a gateway,
/// which the Contact of one account must not open to those who may not call it. `own`: where the user's phones are.
pub(crate) fn is_anothers<'h, S: Services>(
    services: &S,
    now: Time,
    remote: SocketAddr,
    mut own: impl Iterator<Item = &'h Flow>,
) -> bool {
    let here = |hop: &Flow| hop.remote.ip().to_canonical() == remote.ip().to_canonical();
    !own.any(here) && is_taken(services, now, remote)
}

/// Where the first value of a Path leads, if that is another host than the one that the REGISTER came from:
/// the client's claim, trusted like a Route.
pub(crate) fn foreign_edge(path: &[u8], source: IpAddr) -> Option<&[u8]> {
    let edge = NameAddr::parse(Values::new(path).next()?).ok()?.uri;
    let ip = Uri::parse(edge).ok().and_then(|uri| uri.host_ip());
    (ip != Some(source.to_canonical())).then_some(edge)
}

/// The address that a URI spells out (RFC 3263 section 4).
fn destination(uri: &Uri<'_>) -> Option<IpAddr> {
    match uri.param(b"maddr").filter(|maddr| !maddr.is_empty()) {
        Some(maddr) => host_ip(maddr).map(|ip| ip.to_canonical()),
        None => uri.host_ip(),
    }
}

impl<S: Services> Node<S> {
    /// What the binding of a Contact is filed under, or the refusal of its REGISTER. `kept`: it keeps to its flow (RFC 5626).
    pub(crate) fn placed(
        &self,
        flow: Flow,
        request: &Message<'_>,
        contact: &Uri<'_>,
        kept: bool,
    ) -> Result<Flow, Reply> {
        let here = reply_flow(flow, request);
        // A connection of a proxy is not the phone's: no call is sent on it.
        let by_front = flow.transport != Transport::Udp
            && self.settings.auth.is_front(flow.remote.ip())
            && request.header(Name::Path).is_none();
        if kept {
            return Ok(if by_front { self.beyond(flow, request, contact).unwrap_or(flow) } else { flow });
        }
        match place(flow, request, contact, &self.settings) {
            Place::Source if by_front => Ok(self.beyond(flow, request, contact).unwrap_or(here)),
            Place::Source => Ok(here),
            Place::Port(port) => Ok(Flow { remote: SocketAddr::new(flow.remote.ip(), port), ..flow }),
            // A PBX at a trunk's address. Looked up, its name would lead to the trunk, which strangers may not call.
            Place::Contact
                if destination(contact).is_none()
                    && self.places.at(&self.settings, flow.remote).is_some() =>
            {
                Ok(here)
            }
            Place::Contact => Ok(elsewhere(flow)),
            Place::Device if by_front => Ok(self.beyond(flow, request, contact).unwrap_or(elsewhere(flow))),
            Place::Device => Ok(self.device(flow, contact).unwrap_or(elsewhere(flow))),
            Place::Refused => {
                self.services.count(Counter::Forbidden);
                Err(refused(b"Contact Not Allowed"))
            }
        }
    }

    /// The device that registered through the connection of a proxy, at the address that its Contact spells out, by the
    /// transport of the Contact or else of the device's own Via.
    fn beyond(&self, flow: Flow, request: &Message<'_>, contact: &Uri<'_>) -> Option<Flow> {
        let ip = contact.host_ip().filter(|ip| *ip != flow.remote.ip().to_canonical())?;
        let own = request.values(Name::Via).skip(1).last().and_then(|v| Via::parse(v).ok()?.transport);
        let transport = contact.transport().or(own).unwrap_or(Transport::Udp);
        let remote = SocketAddr::new(ip, contact.port.unwrap_or(transport.default_port()));
        let listener = self.settings.listener_for(transport, remote, flow.listener)?;
        let allowed = self.settings.may_register(remote, flow.remote.ip());
        allowed.then_some(Flow { transport, listener, remote, conn: None })
    }

    /// The device at the address that a Contact spells out.
    fn device(&self, flow: Flow, contact: &Uri<'_>) -> Option<Flow> {
        let transport = transport_of(contact);
        let remote = SocketAddr::new(destination(contact)?, contact.port.unwrap_or(transport.default_port()));
        let listener = self.settings.listener_for(transport, remote, flow.listener)?;
        Some(Flow { transport, listener, remote, conn: None })
    }

    /// A binding as a target.
    pub(crate) fn binding_wish(&self, near: Flow, binding: &BindingView<'_>) -> Wish {
        // Header components of a Contact are for new requests, not for this one (section 19.1.5). Copied,
        // they would smuggle in a Route or credentials.
        let contact = Uri::parse(binding.contact).ok();
        let uri = match &contact {
            Some(uri) if uri.is_sip() => {
                let len = binding.contact.len().saturating_sub(uri.headers.len());
                binding.contact.get(..len).unwrap_or(binding.contact)
            }
            _ => without_headers(binding.contact),
        };
        let mut wish = Wish::new(uri, Role::Local);
        wish.instance.extend_from_slice(binding.instance);
        if binding.is_elsewhere() {
            (wish.locate, wish.bounds) = (uri.to_vec(), Bounds::of(binding.flow.remote));
            wish.elsewhere = true;
            return wish;
        }
        let flow = self.valid_flow(binding.flow, near.listener);
        if !binding.path.is_empty() {
            wish.routes.extend_from_slice(b"Route: ");
            wish.routes.extend_from_slice(binding.path);
            wish.routes.extend_from_slice(b"\r\n");
            match foreign_edge(binding.path, flow.remote.ip()) {
                Some(edge) => {
                    (wish.locate, wish.bounds) = (edge.to_vec(), Bounds::of(flow.remote));
                    wish.elsewhere = true;
                }
                None => wish.hops.push(flow),
            }
            return wish;
        }
        wish.flow_only = binding.is_outbound();
        match wish.flow_only {
            true => wish.hops.push(flow),
            false => self.source_hops(flow, contact.as_ref(), &mut wish.hops),
        }
        wish
    }

    /// Whether a Contact that is equivalent to `uri` is bound at `remote`, the address that it spells out, and the
    /// way to its phone if that is reached in another way. `None` also where that is in doubt, or where more are bound
    /// than are looked at: a registration must not take over calls to another phone's Contact, or to an address outside
    /// that the caller may call.
    pub(crate) fn phone_at(
        &self,
        now: Time,
        near: Flow,
        uri: &Uri<'_>,
        remote: SocketAddr,
        asker: Asker,
    ) -> (bool, Option<Wish>) {
        let outbound = access(asker, By::Address, access::Place::Elsewhere) == Access::Open;
        let (mut seen, mut doubtful, mut way) = (Seen::default(), false, None::<Wish>);
        let more = self.services.contacts(&ContactAt::new(remote, uri, now), &mut |binding| {
            if self.is_claim(remote, binding) {
                return false;
            }
            seen.note(remote, binding);
            let wish = self.binding_wish(near, binding);
            let (flow, named) = (binding.flow, (remote, transport_of(uri)));
            let there = binding.path.is_empty() && (flow.remote, flow.transport) == named;
            let foreign = flow.remote.ip() != remote.ip();
            doubtful |= there || binding.is_elsewhere() || outbound && foreign;
            doubtful |= way.as_ref().is_some_and(|way| !way.leads_where(&wish));
            way.get_or_insert(wish);
            doubtful && seen.here
        });
        (seen.foreign && more || seen.counts(&self.services, now, remote), way.filter(|_| !doubtful && !more))
    }

    /// Whether a binding claims the address of a trunk or service from elsewhere. It may be older than the settings or
    /// the answer of the DNS that make the address theirs.
    fn is_claim(&self, remote: SocketAddr, binding: &BindingView<'_>) -> bool {
        self.places.claimed_at(&self.settings, remote, binding.flow.remote).is_some()
    }

    /// Whether a Contact that is equivalent to `uri` is bound at `remote`, by a phone that may be there.
    pub(crate) fn is_contact(&self, now: Time, uri: &Uri<'_>, remote: SocketAddr) -> bool {
        let mut seen = Seen::default();
        let more = self.services.contacts(&ContactAt::new(remote, uri, now), &mut |binding| {
            if !self.is_claim(remote, binding) {
                seen.note(remote, binding);
            }
            seen.here
        });
        seen.foreign && more || seen.counts(&self.services, now, remote)
    }

    /// A connection as the last way of what no datagram can carry.
    pub(crate) fn add_stream(&self, wish: &mut Wish) {
        let Some(seen) = wish.hops.last().filter(|hop| hop.transport == Transport::Udp).copied() else {
            return;
        };
        if let Some(listener) = self.settings.listener_for(Transport::Tcp, seen.remote, seen.listener) {
            wish.hops.push(Flow { transport: Transport::Tcp, listener, conn: None, ..seen });
        }
    }

    /// The ways to a phone that is reached where it registered from, best first. By datagram a request of any
    /// size is sent: it is not known whether connections are accepted there.
    fn source_hops(&self, flow: Flow, contact: Option<&Uri<'_>>, hops: &mut Short<Flow>) {
        let stream = flow.transport != Transport::Udp;
        if stream {
            hops.push(flow);
        }
        // The phone's own address, so that nothing translates it on the way: its Contact may name a transport, or take a new
        // connection when the one that it registered over is gone (a restart, say).
        let own = contact.filter(|c| destination(c) == Some(flow.remote.ip().to_canonical()));
        if let Some(c) = own {
            let transport = if stream { flow.transport } else { transport_of(c) };
            let remote = SocketAddr::new(flow.remote.ip(), c.port.unwrap_or(transport.default_port()));
            let listener = self.settings.listener_for(transport, remote, flow.listener);
            if let Some(listener) = listener
                && transport != Transport::Udp
                && (!stream || remote != flow.remote)
                && !self.settings.is_admin(remote)
            {
                let listener = if stream { flow.listener } else { listener };
                hops.push(Flow { transport, listener, remote, conn: None });
            }
        }
        if !stream {
            hops.push(flow);
        }
    }
}
