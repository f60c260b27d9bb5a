//! Which targets a request is tried at (RFC 3261 section 16.5), and whether it may go there at all.
//!
//! The rule against open relays: into a domain of ours anyone may call; out of it only its own users
//! (proven), trunks that may transit, and dialogs that this server let through before. What an
//! outsider writes into Request-URI, Route or tags opens nothing.

mod dialogs;
mod diverted;
mod emergency;
mod fixed;
mod limits;
mod moved;
mod numbers;
mod others;
mod policy;
mod reach;
mod target;
mod trunks;

pub(crate) use diverted::{Diverter, Setup};
pub(crate) use limits::{Charge, Limiter, begins};
pub(crate) use moved::is_same_end;
pub(crate) use others::{Ask, Finding, Findings, Others};
pub(crate) use reach::{is_anothers, is_dialled_never};
pub(crate) use target::{Plan, Target, TargetSet, sources};

use crate::access::{Access, Asker, By, Holder, Place, access};
use crate::admitted::{Admitted, Caller};
use crate::calls::Calls;
use crate::random::Random;
use crate::services::Services;
use crate::settings::Bounds;
use crate::site::{Aor, Site};
use crate::uris::{escape_param, is_same, push_bracketed, transport_of, undotted};
use crate::watch::List;
use core::mem;
use core::net::SocketAddr;
use sip_message::{Message, Method, Scheme, Uri, canonical_user, request_target};
use sip_proxy::token::Role;
use sip_registrar::{BindingView, FlowBinding};
use wire::{Flow, ListenerId, Time, Transport};

/// The most bytes that a datagram carries over IPv4.
const LARGEST_DATAGRAM: usize = 65_507;

/// Decides where a request goes: to which bindings, trunks, hosts, or nowhere. It reads the server and its
/// calls.
pub(crate) struct Router<'a, S> {
    site: &'a Site<S>,
    calls: &'a Calls,
    others: Others<'a>,
    random: &'a Random,
}

impl<'a, S: Services> Router<'a, S> {
    /// The routes of a server with these calls.
    pub const fn new(
        site: &'a Site<S>,
        calls: &'a Calls,
        others: Others<'a>,
        random: &'a Random,
    ) -> Router<'a, S> {
        Router { site, calls, others, random }
    }
}

impl<S: Services> Router<'_, S> {
    /// Where a request goes. Targets are put into the memory of `room`; it keeps what is not used.
    pub(crate) fn plan_into(
        &self,
        room: &mut Vec<(u16, Target)>,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
    ) -> Plan {
        if let Some(dialog) = &a.dialog {
            if self.is_of_no_dialog(now, request, a, dialog) {
                return Plan::NoDialog;
            }
            return self.within_dialog(room, now, flow, request, a, dialog);
        }
        if let Some(next) = a.routing.next {
            return self.preloaded_route(flow, request, a, next);
        }
        if let Some(plan) = self.emergency_targets(a) {
            return plan;
        }
        let uri = &a.uri;
        if uri.scheme == Scheme::Tel {
            return self.number(room, now, flow, request, a);
        }
        match self.site.local_aor(uri, a.routing.request_uri) {
            Some(aor) => self.inward(room, now, flow, request, a, &self.meant(&a.caller, aor)),
            None => self.outward(now, flow, request, a),
        }
    }

    /// Who asks, for [`access`].
    pub(crate) fn asker(&self, caller: &Caller<'_>) -> Asker {
        match caller.role {
            _ if caller.borrowed => Asker::End,
            Role::Local => Asker::Proven,
            Role::Trunk if self.may_transit(caller) => Asker::Transit,
            Role::Trunk => Asker::Trunk,
            Role::Stranger => Asker::Stranger,
        }
    }

    /// What to send a request of `size` bytes with where a URI chose `transport`: instead of UDP TCP if it
    /// is large, and then UDP after all for those who have no TCP (section 18.1.1).
    fn by_size(&self, transport: Transport, uri: &Uri<'_>, size: usize) -> &'static [Transport] {
        let large = size > self.site.settings().proxy.mtu && uri.param(b"transport").is_none();
        match transport {
            Transport::Udp if large => &[Transport::Tcp, Transport::Udp],
            Transport::Udp => &[Transport::Udp],
            Transport::Tcp => &[Transport::Tcp],
            Transport::Tls => &[Transport::Tls],
            Transport::Ws => &[Transport::Ws],
            Transport::Wss => &[Transport::Wss],
            Transport::Sctp => &[Transport::Sctp],
        }
    }

    /// A flow whose listener may be from before a restart with other listeners.
    pub(crate) fn valid_flow(&self, flow: Flow, near: ListenerId) -> Flow {
        let fits =
            self.site.settings().listener(flow.listener).is_some_and(|l| l.transport == flow.transport);
        if fits {
            return flow;
        }
        let listener = self.site.settings().listener_for(flow.transport, flow.remote, near).unwrap_or(near);
        Flow { listener, ..flow }
    }

    /// A Route that is not ours and that no dialog of ours put there: an outbound proxy's business, for those
    /// who may relay.
    fn preloaded_route(&self, near: Flow, request: &Message<'_>, a: &Admitted<'_>, next: &[u8]) -> Plan {
        let bounds = Bounds::of(near.remote);
        let uri = Uri::parse(next).ok();
        let holder = uri.as_ref().and_then(|uri| self.site.places().of_uri(self.site.settings(), uri));
        match access(self.asker(&a.caller), By::Route, place_of(holder)) {
            Access::Open if uri.as_ref().is_none_or(|uri| self.site.may_name(uri, bounds)) => {}
            Access::Rules => return self.routed_over_trunk(request, a, uri.as_ref()),
            _ => return Plan::Refuse(403),
        }
        let mut target = Target::new(a.routing.request_uri, Role::Stranger);
        if !a.routing.next_is_loose {
            make_strict(&mut target, next);
        }
        (target.locate, target.bounds, target.elsewhere) = (next.to_vec(), bounds, has_begun(request));
        Plan::Forward(vec![(1000, target)])
    }

    pub(crate) fn may_transit(&self, caller: &Caller<'_>) -> bool {
        caller.trunk.and_then(|t| self.site.settings().trunks.get(t)).is_some_and(|t| t.may_transit)
    }

    /// For a user of one of our domains, or what looks like one.
    fn inward(
        &self,
        room: &mut Vec<(u16, Target)>,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        aor: &Aor<'_>,
    ) -> Plan {
        if let Some(plan) = self.static_route(now, flow, request, a, (aor.domain(), aor.user())) {
            return plan;
        }
        if aor.user().is_empty() {
            return Plan::Refuse(404);
        }
        if self.site.settings().proxy.mode == crate::settings::Mode::Redirect {
            let (mut contacts, mut some) = (Vec::new(), false);
            let all = self.bindings(aor, now, &mut |binding| {
                some = true;
                if !is_same(&a.uri, binding.contact) {
                    push_contact(binding, &mut contacts);
                }
            });
            match all {
                Err(ask) => return Plan::Ask(ask),
                Ok(()) if some => return redirection(contacts),
                Ok(()) => {}
            }
        }
        if let Err(ask) = self.bound_into(room, now, flow, self.site.grown(flow, request), aor) {
            room.clear();
            return Plan::Ask(ask);
        }
        if !room.is_empty() {
            return Plan::Forward(mem::take(room));
        }
        if self.site.services().is_user(aor.user(), aor.domain()) {
            return Plan::Offline;
        }
        match self.by_prefix(a, aor.user()) {
            Some(plan) => plan,
            // The holder of the bindings may know the user, but has not answered.
            None if !self.site.settings().auth.enabled && self.is_unsure(aor) => Plan::Offline,
            // With authentication off nobody is known, so nobody can be unknown.
            None if !self.site.settings().auth.enabled => Plan::Refuse(404),
            // Strangers learn nothing about who exists.
            None if a.caller.role == Role::Stranger => Plan::Refuse(480),
            None => Plan::Refuse(404),
        }
    }

    /// The bindings of an address-of-record as targets, for a request of `size` bytes. Flows of one phone
    /// are one target (RFC 5626 section 7).
    pub(crate) fn bound(
        &self,
        now: Time,
        near: Flow,
        size: usize,
        aor: &Aor<'_>,
    ) -> Result<Vec<(u16, Target)>, Ask> {
        let mut targets = Vec::new();
        self.bound_into(&mut targets, now, near, size, aor)?;
        Ok(targets)
    }

    /// The same, added to an empty list.
    fn bound_into(
        &self,
        targets: &mut Vec<(u16, Target)>,
        now: Time,
        near: Flow,
        size: usize,
        aor: &Aor<'_>,
    ) -> Result<(), Ask> {
        let large = size > self.site.settings().proxy.mtu;
        let rules = self.site.rules().of_domain(aor.domain());
        self.bindings(aor, now, &mut |binding| {
            let mut target = self.binding_target(near, binding);
            target.headers.clone_from(&rules);
            if !binding.path.is_empty() {
                target.flow = FlowBinding::of(aor.text(), binding).map(Box::new);
            }
            if size > LARGEST_DATAGRAM {
                self.add_stream(&mut target);
            }
            let same = |(_, w): &&mut (u16, Target)| !w.instance.is_empty() && w.instance == binding.instance;
            match targets.iter_mut().find(same) {
                Some((_, first)) => first.join(target, large),
                None => targets.push((binding.q, target)),
            }
        })
    }

    /// For somebody outside our domains.
    fn outward(&self, now: Time, near: Flow, request: &Message<'_>, a: &Admitted<'_>) -> Plan {
        let host = undotted(a.uri.host).to_ascii_lowercase();
        let user = canonical_user(a.uri.user.unwrap_or(b""));
        if let Some(plan) = self.static_route(now, near, request, a, (&host, &user)) {
            return plan;
        }
        let size = self.site.grown(near, request);
        let asker = self.asker(&a.caller);
        let outbound = matches!(asker, Asker::Proven | Asker::Transit);
        if outbound
            && let Some(at) = self.site.settings().trunks.iter().position(|t| t.domains.contains(&host))
        {
            return self.over_domain_trunk(at, a);
        }
        let bounds = Bounds::of(near.remote);
        let (place, remote, phone) = self.place_at(now, near, &a.uri, asker);
        match (access(asker, By::Address, place), remote) {
            (Access::Open, _) if phone.is_some() => {
                let ways = phone.into_iter().map(|phone| (1000, self.spelled_phone(size, a, phone)));
                Plan::Forward(ways.collect())
            }
            (Access::Open, Some(remote)) if place != Place::Elsewhere => {
                Plan::Forward(vec![(1000, self.spelled_out(near, size, a, remote))])
            }
            (Access::Open, _) if self.site.may_name(&a.uri, bounds) => {
                let target = Target::located(a.routing.request_uri, Role::Stranger, bounds);
                Plan::Forward(vec![(1000, Target { elsewhere: has_begun(request), ..target })])
            }
            (Access::Exact, _) if self.is_service(a) && self.site.may_name(&a.uri, bounds) => {
                Plan::Forward(vec![(1000, Target::located(a.routing.request_uri, Role::Trunk, bounds))])
            }
            (Access::Rules, _) => self.over_named_trunk(a),
            _ => Plan::Refuse(403),
        }
    }

    /// What is where a URI of none of our domains leads, as far as it shows without being looked up; the
    /// address that it spells out, and the way to the phone whose Contact it is.
    fn place_at(
        &self,
        now: Time,
        near: Flow,
        uri: &Uri<'_>,
        asker: Asker,
    ) -> (Place, Option<SocketAddr>, Option<Target>) {
        let spelled = uri.host_ip().filter(|_| uri.param(b"maddr").is_none());
        let remote = spelled
            .map(|ip| SocketAddr::new(ip, uri.port.unwrap_or_else(|| transport_of(uri).default_port())));
        let holder = self.site.places().of_uri(self.site.settings(), uri);
        let Some(remote) = remote else { return (place_of(holder), None, None) };
        if self.site.settings().is_admin(remote) {
            return (Place::Own, Some(remote), None);
        }
        let place = match self.phone_at(now, near, uri, remote, asker) {
            (true, phone) => return (Place::Phone, Some(remote), phone),
            _ if holder.is_none() && self.site.services().has_contact(remote) => Place::Gateway,
            _ => place_of(holder),
        };
        (place, Some(remote), None)
    }

    /// Whether the Request-URI is an emergency or voicemail target as the operator wrote it.
    fn is_service(&self, a: &Admitted<'_>) -> bool {
        let emergency = self.site.settings().emergency.iter().flat_map(|emergency| &emergency.targets);
        let voicemail = self.site.settings().voicemail.iter().map(|voicemail| &voicemail.uri);
        emergency.chain(voicemail).any(|target| is_same(&a.uri, target))
    }

    /// A phone by its Contact in the Request-URI, which stays as it is.
    fn spelled_phone(&self, size: usize, a: &Admitted<'_>, mut phone: Target) -> Target {
        phone.uri = Target::new(a.routing.request_uri, Role::Local).uri;
        if size > LARGEST_DATAGRAM {
            self.add_stream(&mut phone);
        }
        phone
    }

    /// What is at the address that the Request-URI spells out: there is nothing to look up.
    fn spelled_out(&self, near: Flow, size: usize, a: &Admitted<'_>, remote: SocketAddr) -> Target {
        let mut target = Target::new(a.routing.request_uri, Role::Local);
        // The Contact may be of a device that has never answered.
        target.elsewhere = true;
        for &transport in self.by_size(transport_of(&a.uri), &a.uri, size) {
            if let Some(listener) = self.site.settings().listener_for(transport, remote, near.listener) {
                target.hops.push(Flow { transport, listener, remote, conn: None });
            }
        }
        if target.hops.is_empty() {
            // What there is to say about it is said where addresses are looked up.
            target.locate.extend_from_slice(a.routing.request_uri);
        }
        target
    }

    /// A telephone number (RFC 3966): the user of that name in the default domain, or over a trunk.
    fn number(
        &self,
        room: &mut Vec<(u16, Target)>,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
    ) -> Plan {
        let aor = self.meant(&a.caller, self.site.number_aor(&a.uri));
        match aor.domain().is_empty() {
            true => self.by_prefix(a, aor.user()).unwrap_or(Plan::Refuse(404)),
            false => self.inward(room, now, flow, request, a, &aor),
        }
    }

    /// The voicemail target for a call to `request_uri`, with the parameters of RFC 4458.
    pub(crate) fn voicemail_target(
        &self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        cause: u16,
    ) -> Option<Target> {
        let voicemail = self.site.settings().voicemail.as_ref()?;
        let mut uri = voicemail.uri.clone();
        let parsed = Uri::parse(&voicemail.uri).ok()?;
        let mut target = Target::located(&voicemail.uri, Role::Trunk, Bounds::Anywhere);
        target.watch = self.site.settings().watch(&voicemail.uri, List::Voicemail, voicemail.silent_after_ms);
        // Where the domain is an address, another port of it is another program, not a user of ours.
        let beside = parsed.port.is_some()
            && sip_message::host_ip(parsed.host).is_some()
            && !self.site.settings().is_self(parsed.host, parsed.port);
        // A mailbox system that registers like a phone.
        if !beside && let Some(aor) = self.site.local_aor(&parsed, &voicemail.uri) {
            let phones = self.bound(now, flow, self.site.grown(flow, request), &aor).ok()?;
            let (_, first) = phones.into_iter().next()?;
            uri = first.uri.to_vec();
            target = first;
        }
        let mut text = request_target(&uri).into_owned();
        text.extend_from_slice(b";target=");
        escape_param(request.request_uri(), &mut text);
        text.extend_from_slice(b";cause=");
        sip_message::push_u64(cause.into(), &mut text);
        target.uri = text.into();
        Some(target)
    }
}

/// RFC 3261 section 16.6 step 6: the next hop is a strict router, so its URI becomes the Request-URI
/// and the real one goes to the end of the Route set.
fn make_strict(target: &mut Target, next: &[u8]) {
    target.last_route.extend_from_slice(b"Route: <");
    target.last_route.extend_from_slice(&target.uri);
    target.last_route.extend_from_slice(b">\r\n");
    target.uri = request_target(next)[..].into();
}

/// What an address of the operator's is to [`access`].
fn place_of(holder: Option<Holder>) -> Place {
    match holder {
        Some(Holder::Trunk(_)) => Place::Trunk,
        Some(Holder::Service) => Place::Service,
        None => Place::Elsewhere,
    }
}

/// Whether a request belongs to a dialog, so that the other end chose its Request-URI and Route.
fn has_begun(request: &Message<'_>) -> bool {
    !request.to_tag().is_empty()
}

/// A 302 with these Contacts. Where there are none but what was asked for, nobody is to be found (8.3).
pub(crate) fn redirection(contacts: Vec<u8>) -> Plan {
    if contacts.is_empty() { Plan::Refuse(404) } else { Plan::Redirect(contacts) }
}

fn push_contact(binding: &BindingView<'_>, out: &mut Vec<u8>) {
    push_bracketed(binding.contact, out);
    if binding.q < 1000 {
        out.extend_from_slice(b";q=0.");
        let digits = [binding.q / 100, binding.q / 10 % 10, binding.q % 10];
        out.extend(digits.iter().map(|d| b'0' + *d as u8));
    }
}

/// Whether a request gets our Record-Route: it may set a dialog up (16.6 step 4). Within a dialog of ours
/// a NOTIFY may: it can come before the 2xx to the SUBSCRIBE, or of another fork (RFC 6665 section 4.3).
/// It brings a token with it that calls its sender what the old one does, so it must be the old one's
/// sender for certain.
pub(crate) fn is_recorded(request: &Message<'_>, a: &Admitted<'_>) -> bool {
    let method: Method<'_> = request.method();
    match a.dialog {
        None => method.creates_dialog(),
        Some(_) => method == Method::Notify && !a.caller.borrowed,
    }
}
