//! What a REGISTER binds: where each Contact is reached (the table of docs/design/reach.md), and what may not
//! be bound.

use crate::services::{Counter, Services, StoreDown};
use crate::settings::{Mode, Settings};
use crate::site::Site;
use crate::uris::{destination, foreign_edge, is_same, transport_of};
use core::net::SocketAddr;
use sip_message::{Message, Name, NameAddr, Uri, Via};
use sip_proxy::transport::reply_flow;
use sip_registrar::{
    BindingView, FlowBinding, PathPolicy, Registration, Reply, Table, elsewhere, is_elsewhere, is_public,
};
use wire::{Flow, Time, Transport};

/// The bindings of a server.
pub(crate) struct Bindings<'a, S> {
    site: &'a Site<S>,
}

impl<'a, S: Services> Bindings<'a, S> {
    /// Those of a server.
    pub const fn new(site: &'a Site<S>) -> Bindings<'a, S> {
        Bindings { site }
    }
}

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

/// The same of a client behind a proxy that we trust, by what that wrote into its Via. On a stream the port
/// is not looked at.
fn sees_itself_behind(request: &Message<'_>) -> bool {
    let Some(below) = request.values(Name::Via).skip(1).last() else { return true };
    let Ok(via) = Via::parse(below) else { return false };
    let address = via.received.is_none() || via.source_ip().is_some_and(|ip| Some(ip) == via.host_ip);
    let datagram = via.transport == Some(Transport::Udp);
    let port = !datagram || via.rport.flatten().is_none_or(|port| port == via.port_or_default());
    address && port
}

/// Whether a new connection or datagram can lead to a Contact at all: to a browser none does (RFC 7118
/// section 5).
fn is_dialled(contact: &Uri<'_>, transport: Transport) -> bool {
    let web = matches!(transport, Transport::Ws | Transport::Wss);
    let last = contact.host.rsplit(|&b| b == b'.').next().unwrap_or(b"");
    let invalid = last.eq_ignore_ascii_case(b"invalid");
    contact.is_sip() && !web && !invalid
}

/// Why a REGISTER has no reply of the registrar.
pub(crate) enum Unserved {
    /// A Contact or Path names the place of a trunk or of an emergency or voicemail target.
    Claimed,
    Store(StoreDown),
}

impl<S: Services> Bindings<'_, S> {
    /// Reads a REGISTER, decides where each Contact is reached, and carries it out.
    pub(crate) fn carry_out(
        &self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        aor: &[u8],
    ) -> Result<Reply, Unserved> {
        let config = &self.site.settings().registrar;
        let policy = self.path_policy(flow, request);
        let mut registration = match Registration::read(request, aor, flow, config, policy) {
            Ok(registration) => registration,
            Err(refusal) => return Ok(refusal),
        };
        if self.path_claims_a_place(flow, request) {
            return Err(Unserved::Claimed);
        }
        let placed = registration.place(|contact, kept| {
            let claimed = self.site.places().claimed(self.site.settings(), contact, flow.remote).is_some();
            if claimed { Err(None) } else { self.placed(flow, request, contact, kept).map_err(Some) }
        });
        match placed {
            Ok(()) => {}
            Err(Some(refusal)) => return Ok(refusal),
            Err(None) => return Err(Unserved::Claimed),
        }
        let changes = request.header(Name::Contact).is_some();
        self.note_edge(flow, request);
        let carried = self.site.services().register(aor, changes, &mut |table, changes| {
            if self.is_one_too_many(now, aor, &registration, table) {
                return refused(b"Too Many Contacts Elsewhere");
            }
            registration.apply(now, config, table, changes)
        });
        carried.map_err(Unserved::Store)
    }

    /// Removes the binding of a flow that the edge proxy of the phone has lost (RFC 5626 section 7). If the
    /// store fails, the binding stays, and the next request gets 430 again.
    pub(crate) fn flow_is_gone(&self, flow: &FlowBinding) {
        let _ = self.site.services().register(&flow.aor, true, &mut |table, changes| {
            table.remove_flow(flow, changes);
            Reply { status: 200, reason: b"", headers: Vec::new() }
        });
    }

    /// Adds a Date line, by which phones without a clock set theirs (section 10.3 step 8).
    pub(crate) fn push_date(&self, headers: &mut Vec<u8>) {
        const NAME: &[u8] = b"Date: ";
        let start = headers.len();
        headers.extend_from_slice(NAME);
        self.site.services().date(headers);
        match headers.len() == start + NAME.len() {
            true => headers.truncate(start),
            false => headers.extend_from_slice(b"\r\n"),
        }
    }

    /// Whether a Path is accepted although the phone does not support it: only from a trusted proxy in front
    /// of this server, which added the Path (RFC 3327 section 5.3).
    fn path_policy(&self, flow: Flow, request: &Message<'_>) -> PathPolicy {
        let trusted =
            request.header(Name::Path).is_some() && self.site.settings().auth.is_front(flow.remote.ip());
        if trusted { PathPolicy::Accept } else { PathPolicy::Refuse }
    }

    /// Whether a Path names the place of a trunk or of an emergency or voicemail target and the REGISTER did
    /// not come from there: otherwise all callers could reach that place through it.
    fn path_claims_a_place(&self, flow: Flow, request: &Message<'_>) -> bool {
        let read = |value| Uri::parse(NameAddr::parse(value).ok()?.uri).ok().filter(Uri::is_sip);
        let mut path = request.values(Name::Path).filter_map(read);
        path.any(|uri| self.site.places().claimed(self.site.settings(), &uri, flow.remote).is_some())
    }
}

impl<S: Services> Bindings<'_, S> {
    /// What the binding of a Contact is filed under, or the refusal of its REGISTER. `kept`: it keeps to its
    /// flow (RFC 5626).
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
            && self.site.settings().auth.is_front(flow.remote.ip())
            && request.header(Name::Path).is_none();
        if kept {
            return Ok(if by_front { self.beyond(flow, request, contact).unwrap_or(flow) } else { flow });
        }
        match place(flow, request, contact, self.site.settings()) {
            Place::Source if by_front => Ok(self.beyond(flow, request, contact).unwrap_or(here)),
            Place::Source => Ok(here),
            Place::Port(port) => Ok(Flow { remote: SocketAddr::new(flow.remote.ip(), port), ..flow }),
            // A PBX at a trunk's address. Looked up, its name would lead to the trunk, which strangers may
            // not call.
            Place::Contact
                if destination(contact).is_none()
                    && self.site.places().at(self.site.settings(), flow.remote).is_some() =>
            {
                Ok(here)
            }
            Place::Contact => Ok(elsewhere(flow)),
            Place::Device if by_front => Ok(self.beyond(flow, request, contact).unwrap_or(elsewhere(flow))),
            Place::Device => Ok(self.device(flow, contact).unwrap_or(elsewhere(flow))),
            Place::Refused => {
                self.site.services().count(Counter::Forbidden);
                Err(refused(b"Contact Not Allowed"))
            }
        }
    }

    /// The device that registered through the connection of a proxy, at the address that its Contact spells
    /// out, by the transport of the Contact or else of the device's own Via.
    fn beyond(&self, flow: Flow, request: &Message<'_>, contact: &Uri<'_>) -> Option<Flow> {
        let ip = contact.host_ip().filter(|ip| *ip != flow.remote.ip().to_canonical())?;
        let own = request.values(Name::Via).skip(1).last().and_then(|v| Via::parse(v).ok()?.transport);
        let transport = contact.transport().or(own).unwrap_or(Transport::Udp);
        let remote = SocketAddr::new(ip, contact.port.unwrap_or(transport.default_port()));
        let listener = self.site.settings().listener_for(transport, remote, flow.listener)?;
        let allowed = self.site.settings().may_register(remote, flow.remote.ip());
        allowed.then_some(Flow { transport, listener, remote, conn: None })
    }

    /// The device at the address that a Contact spells out.
    fn device(&self, flow: Flow, contact: &Uri<'_>) -> Option<Flow> {
        let transport = transport_of(contact);
        let remote = SocketAddr::new(destination(contact)?, contact.port.unwrap_or(transport.default_port()));
        let listener = self.site.settings().listener_for(transport, remote, flow.listener)?;
        Some(Flow { transport, listener, remote, conn: None })
    }
}

impl<S: Services> Bindings<'_, S> {
    /// A trusted proxy that names itself in Path counts as heard from. Where its Path leads is compared with
    /// host and port of its Via, because the Path may be the client's.
    pub(crate) fn note_edge(&self, flow: Flow, request: &Message<'_>) {
        let Some(first) = request.values(Name::Path).next() else { return };
        let Some(edge) = NameAddr::parse(first).ok().and_then(|value| Uri::parse(value.uri).ok()) else {
            return;
        };
        let via = request.via();
        let port = edge.port.unwrap_or(transport_of(&edge).default_port());
        let itself = edge.param(b"maddr").is_none()
            && edge.host.eq_ignore_ascii_case(via.host)
            && (edge.port == via.port || port == via.port_or_default());
        if itself && self.site.settings().auth.is_front(flow.remote.ip()) {
            self.site.heard().note(self.site.hash_of_uri(&edge));
        }
    }

    /// Whether a REGISTER would add a Contact of another device while nothing has come from another such one
    /// yet: one account must not direct the calls of all callers to a host that never asked for any.
    pub(crate) fn is_one_too_many(
        &self,
        now: Time,
        aor: &[u8],
        registration: &Registration<'_>,
        table: &Table,
    ) -> bool {
        // A redirect server sends nothing there.
        if self.site.settings().proxy.mode == Mode::Redirect {
            return false;
        }
        let is_silent = |contact: &[u8], path: &[u8], flow: Flow| {
            leads_elsewhere(contact, path, flow)
                .is_some_and(|to| !self.site.heard().knows(self.site.hash_of_contact(to)))
        };
        // Contacts, not hosts: each is a branch of every call.
        let lasting = registration.lasting();
        let silent = lasting.filter(|(contact, flow)| is_silent(contact, registration.path(), *flow));
        let mut new: Vec<&[u8]> = silent.map(|(contact, _)| contact).collect();
        if new.is_empty() {
            return false;
        }
        let mut silent = 0;
        table.bindings(aor, now, |binding: BindingView<'_>| {
            if is_silent(binding.contact, binding.path, binding.flow) {
                silent += 1;
                new.retain(|new| !Uri::parse(new).is_ok_and(|new| is_same(&new, binding.contact)));
            }
        });
        !new.is_empty() && silent + new.len() > 1
    }
}

/// Where a binding leads, if that is another host than the one that registered it.
fn leads_elsewhere<'a>(contact: &'a [u8], path: &'a [u8], flow: Flow) -> Option<&'a [u8]> {
    if is_elsewhere(flow) { Some(contact) } else { foreign_edge(path, flow.remote.ip()) }
}
