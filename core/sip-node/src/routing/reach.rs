//! Where a binding is reached: the table of docs/design/reach.md, decided when a REGISTER comes and followed
//! when a request does.

use crate::access;
use crate::access::{Access, Asker, By, access};
use crate::routing::{Router, Target};
use crate::services::Services;
use crate::settings::Bounds;
use crate::short::Short;
use crate::uris::{destination, foreign_edge, transport_of, without_headers};
use core::net::{IpAddr, SocketAddr};
use sip_message::{NameAddr, Uri, Values};
use sip_proxy::token::Role;
use sip_registrar::{BindingView, ContactAt};
use wire::{Flow, Time, Transport};

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

/// Whether a Contact or Path of a user of ours leads to `remote`, where another account's phone is. That may
/// be a gateway, which the Contact of one account must not open to those who may not call it. `own`: where
/// the user's phones are.
pub(crate) fn is_anothers<S: Services>(
    services: &S,
    now: Time,
    remote: SocketAddr,
    mut own: impl Iterator<Item = IpAddr>,
) -> bool {
    let here = |ip: IpAddr| ip.to_canonical() == remote.ip().to_canonical();
    !own.any(here) && is_taken(services, now, remote)
}

impl<S: Services> Router<'_, S> {
    /// A binding as a target.
    pub(crate) fn binding_target(&self, near: Flow, binding: &BindingView<'_>) -> Target {
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
        let mut target = Target::new(uri, Role::Local);
        target.instance.extend_from_slice(binding.instance);
        if binding.is_elsewhere() {
            (target.locate, target.bounds) = (uri.to_vec(), Bounds::of(binding.flow.remote));
            (target.elsewhere, target.registered_from) = (true, Some(binding.flow.remote.ip()));
            return target;
        }
        let flow = self.valid_flow(binding.flow, near.listener);
        if !binding.path.is_empty() {
            target.routes.extend_from_slice(b"Route: ");
            target.routes.extend_from_slice(binding.path);
            target.routes.extend_from_slice(b"\r\n");
            match foreign_edge(binding.path, flow.remote.ip()) {
                Some(edge) => {
                    (target.locate, target.bounds) = (edge.to_vec(), Bounds::of(flow.remote));
                    (target.elsewhere, target.registered_from) = (true, Some(flow.remote.ip()));
                }
                None => {
                    target.hops.push(flow);
                    if let Some(anew) = self.edge_anew(binding.path, flow) {
                        (target.existing, target.behind_edge) = (true, true);
                        target.hops.push(anew);
                    }
                }
            }
            return target;
        }
        target.flow_only = binding.is_outbound();
        if target.flow_only {
            target.existing = true;
            target.hops.push(flow);
        } else {
            target.existing = self.source_hops(flow, contact.as_ref(), &mut target.hops);
        }
        target
    }

    /// A new connection to the proxy whose Path this is, if the one of the REGISTER has ended: to the port in
    /// the Path. Over TLS only to a trusted proxy: nobody else proves to be the one that was there.
    pub(super) fn edge_anew(&self, path: &[u8], flow: Flow) -> Option<Flow> {
        let settings = self.site.settings();
        let edge = Uri::parse(NameAddr::parse(Values::new(path).next()?).ok()?.uri).ok()?;
        let transport = transport_of(&edge);
        let dialled = match transport {
            Transport::Tls => settings.auth.is_front(flow.remote.ip()),
            Transport::Tcp | Transport::Sctp => true,
            _ => false,
        };
        let remote = SocketAddr::new(flow.remote.ip(), edge.port.unwrap_or(transport.default_port()));
        let own = settings.listeners.iter().any(|listener| listener.address == remote);
        if !dialled
            || transport != flow.transport
            || remote == flow.remote
            || own
            || settings.is_admin(remote)
        {
            return None;
        }
        Some(Flow { conn: None, remote, ..flow })
    }

    /// Whether a Contact that is equivalent to `uri` is bound at `remote`, the address that it spells out,
    /// and the way to its phone if that is reached in another way. `None` also where that is in doubt, or
    /// where more are bound than are looked at: a registration must not take over calls to another phone's
    /// Contact, or to an address outside that the caller may call.
    pub(crate) fn phone_at(
        &self,
        now: Time,
        near: Flow,
        uri: &Uri<'_>,
        remote: SocketAddr,
        asker: Asker,
    ) -> (bool, Option<Target>) {
        let outbound = access(asker, By::Address, access::Place::Elsewhere) == Access::Open;
        let (mut seen, mut doubtful, mut way) = (Seen::default(), false, None::<Target>);
        let more = self.site.services().contacts(&ContactAt::new(remote, uri, now), &mut |binding| {
            if self.is_claim(remote, binding) {
                return false;
            }
            seen.note(remote, binding);
            let target = self.binding_target(near, binding);
            let (flow, named) = (binding.flow, (remote, transport_of(uri)));
            let there = binding.path.is_empty() && (flow.remote, flow.transport) == named;
            let foreign = flow.remote.ip() != remote.ip();
            doubtful |= there || binding.is_elsewhere() || outbound && foreign;
            doubtful |= way.as_ref().is_some_and(|way| !way.leads_where(&target));
            way.get_or_insert(target);
            doubtful && seen.here
        });
        (
            seen.foreign && more || seen.counts(self.site.services(), now, remote),
            way.filter(|_| !doubtful && !more),
        )
    }

    /// Whether a binding claims the address of a trunk or service from elsewhere. It may be older than the
    /// settings or the answer of the DNS that make the address theirs.
    fn is_claim(&self, remote: SocketAddr, binding: &BindingView<'_>) -> bool {
        self.site.places().claimed_at(self.site.settings(), remote, binding.flow.remote).is_some()
    }

    /// Whether a Contact that is equivalent to `uri` is bound at `remote`, by a phone that may be there.
    pub(crate) fn is_contact(&self, now: Time, uri: &Uri<'_>, remote: SocketAddr) -> bool {
        let mut seen = Seen::default();
        let more = self.site.services().contacts(&ContactAt::new(remote, uri, now), &mut |binding| {
            if !self.is_claim(remote, binding) {
                seen.note(remote, binding);
            }
            seen.here
        });
        seen.foreign && more || seen.counts(self.site.services(), now, remote)
    }

    /// A connection as the last way of what no datagram can carry.
    pub(crate) fn add_stream(&self, target: &mut Target) {
        let Some(seen) = target.hops.last().filter(|hop| hop.transport == Transport::Udp).copied() else {
            return;
        };
        if let Some(listener) = self.site.settings().listener_for(Transport::Tcp, seen.remote, seen.listener)
        {
            target.hops.push(Flow { transport: Transport::Tcp, listener, conn: None, ..seen });
        }
    }

    /// The ways to a phone that is reached where it registered from, best first. By datagram a request of any
    /// size is sent: it is not known whether connections are accepted there. Whether the first way is the far
    /// end of the phone's own connection, at which nobody need listen.
    fn source_hops(&self, flow: Flow, contact: Option<&Uri<'_>>, hops: &mut Short<Flow>) -> bool {
        let stream = flow.transport != Transport::Udp;
        if stream {
            hops.push(flow);
        }
        // The phone's own address, so that nothing translates it on the way: its Contact may name a
        // transport, or take a new connection when the one that it registered over is gone (a restart, say).
        let own = contact.filter(|c| destination(c) == Some(flow.remote.ip().to_canonical()));
        let mut existing = stream;
        if let Some(c) = own {
            let transport = if stream { flow.transport } else { transport_of(c) };
            let remote = SocketAddr::new(flow.remote.ip(), c.port.unwrap_or(transport.default_port()));
            let listener = self.site.settings().listener_for(transport, remote, flow.listener);
            existing &= remote != flow.remote;
            if let Some(listener) = listener
                && transport != Transport::Udp
                && !(stream && (remote == flow.remote || is_dialled_never(transport)))
                && !self.site.settings().is_admin(remote)
            {
                let listener = if stream { flow.listener } else { listener };
                hops.push(Flow { transport, listener, remote, conn: None });
            }
        }
        if !stream {
            hops.push(flow);
        }
        existing
    }
}

/// Whether a phone that registered over this transport is reached by its own connection only. Phones have no
/// certificate to be known by, and browsers accept no connections (RFC 5626 section 3.1, RFC 7118 section
/// 5). A new connection would cost the caller time and lead nowhere.
pub(crate) const fn is_dialled_never(transport: Transport) -> bool {
    matches!(transport, Transport::Tls | Transport::Ws | Transport::Wss)
}
