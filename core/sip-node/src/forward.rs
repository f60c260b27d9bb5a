//! Sending a request to one address of one target (RFC 3261 section 16.6).

use crate::dispatch::TRYING;
use crate::emergency::is_urgent;
use crate::held::SHARED;
use crate::node::Node;
use crate::outcome::has_more;
use crate::overload::Category;
use crate::prompt::Group;
use crate::proxied::{Pending, Proxied, ProxiedId, Reach, Target};
use crate::routing::{is_anothers, sources};
use crate::services::{Counter, Question, Services};
use crate::settings::{Trying, is_secure};
use crate::short::Short;
use crate::silence::sort_hops;
use crate::site::{OC, callee_end, caller_end};
use crate::uris::is_sips;
use core::mem;
use core::net::IpAddr;
use sip_message::{Message, Method, Name, Uri};
use sip_proxy::context::{Action, BranchId};
use sip_proxy::locate::{Answer, AskId, Destination, Error, Located, Lookup, Step, Want, locate};
use sip_proxy::loops::write_branch;
use sip_proxy::rewrite::{Outgoing, edit_request};
use sip_proxy::token::{End, Role};
use sip_transaction::ClientRequest;
use wire::{Flow, Outbox, Time, Transport};

/// Whether a request begins something, which is better refused at once than late. One without To tag may
/// still belong to something that goes on, with a peer of RFC 2543 (RFC 3261 section 12.2.1.1).
fn begins(request: &Message<'_>) -> bool {
    let method = request.method();
    let new = matches!(
        method,
        Method::Invite | Method::Register | Method::Subscribe | Method::Publish | Method::Message
    );
    new && request.to_tag().is_empty()
}

impl<S: Services> Node<S> {
    /// Starts a branch: looks its target up if need be, and sends.
    pub(crate) fn start_branch(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        breadth: u8,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        if p.invite && !p.clients.is_empty() {
            // Another way is being tried, so the caller's transaction must last as long as that may. There
            // are 64 targets at most, and each has timer C at most.
            self.layer.renew(now, p.server);
        }
        let Some(target) = p.targets.get_mut(usize::from(branch.target())) else {
            return p.context.branch_failed(now, branch, 500, actions);
        };
        if let Reach::Locate(uri) = mem::replace(&mut target.reach, Reach::Known) {
            return self.look_up(now, p, branch, breadth, &uri, request, actions, out);
        }
        if branch.attempt() == 0 {
            sort_hops(now, target);
        }
        let hops = target.hops.len();
        let Some(&flow) = target.hops.get(usize::from(branch.attempt())) else {
            return p.context.branch_failed(now, branch, 503, actions);
        };
        if branch.attempt() == 0 && hops > 1 {
            p.context.branch_located(branch, hops);
        }
        self.send_branch(now, p, branch, breadth, flow, request, actions, out);
    }

    #[expect(clippy::too_many_arguments, reason = "as start_branch, with the flow")]
    fn send_branch(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        breadth: u8,
        flow: Flow,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        let settings = self.site.settings().clone();
        let Some(listener) = settings.listener(flow.listener) else {
            return self.branch_lost(now, p, branch, actions);
        };
        let target = p.targets.get(usize::from(branch.target())).map_or(&b""[..], |t| p.text(&t.uri));
        if !may_carry(flow, request, target) {
            return match has_more(p, branch) {
                true => p.context.branch_unreachable(now, branch, actions),
                false => self.branch_useless(now, p, branch, 480, actions),
            };
        }
        let listens = p.targets.get(usize::from(branch.target())).is_some_and(|t| self.listens_to(t));
        if !self.may_send(now, flow, request, listens) {
            p.held_back = true;
            return match has_more(p, branch) {
                true => p.context.branch_unreachable(now, branch, actions),
                false => self.branch_useless(now, p, branch, 503, actions),
            };
        }
        let Some(client) = self.layer.reserve_client(p.payer) else {
            self.site.services().count(Counter::Overload);
            p.overloaded = true;
            return p.context.branch_failed(now, branch, 503, actions);
        };
        let mut lines = mem::take(&mut self.scratch);
        lines.clear();
        lines.extend_from_slice(listener.via_prefix());
        write_branch(&client.encode(), p.loop_hash, &mut lines);
        if listens {
            // RFC 7339 section 5.1, RFC 7415 section 3.3.
            lines.extend_from_slice(OC);
        }
        lines.extend_from_slice(b"\r\n");
        let via_end = lines.len();
        if p.record_route {
            let role = p.targets.get(usize::from(branch.target())).map_or(Role::Stranger, |t| t.role);
            let caller = caller_end(p.source, request, p.role);
            let callee = p
                .targets
                .get(usize::from(branch.target()))
                .map_or(End::new(flow, role), |t| callee_end(flow, role, p.text(&t.uri), p.text(&t.routes)));
            let ends = self.site.ends(request, caller, callee, self.calls.keeper());
            self.site.push_routes(&ends, request, &mut lines);
        }
        let Some(target) = p.targets.get(usize::from(branch.target())) else { return };
        let outgoing = Outgoing {
            request_uri: p.text(&target.uri),
            via: &lines[..via_end],
            record_routes: &lines[via_end..],
            routes: p.text(&target.routes),
            // A strict router has become the Request-URI (section 16.6 step 6).
            drop_routes: p.drop_routes.0 + usize::from(!target.last_route.is_empty()),
            drop_last_route: p.drop_routes.1,
            last_route: p.text(&target.last_route),
            max_forwards: request.max_forwards().map_or(settings.proxy.max_forwards, |m| m.saturating_sub(1)),
            max_breadth: Some(breadth),
            source: Some((p.source.remote, p.always_rport)),
            strip_identity: p.role != Role::Trunk || (!p.trusts(branch) && is_private(request)),
            strip_realm: p.realm.as_ref().map(|r| p.text(r)),
            strip_commands: p.role == Role::Stranger,
        };
        let splices = &mut self.splices;
        let user = p.id.with_branch(branch);
        let sent = ClientRequest { id: client, method: request.method(), flow, user };
        edit_request(request, &outgoing, splices);
        match p.request.as_ref().filter(|original| original.len() >= SHARED) {
            Some(original) => {
                self.layer.send_edited(now, &sent, (original, splices), out);
            }
            None => {
                self.layer.send_request(now, &sent, out, |buf| {
                    splices.apply(request.bytes(), buf);
                });
            }
        }
        if begins(request) && !is_urgent(settings.emergency.as_ref(), request) {
            out.yields();
        }
        let elsewhere = p.targets.get(usize::from(branch.target())).is_some_and(|t| t.elsewhere);
        if elsewhere && !self.site.has_heard(flow.remote) {
            self.layer.spare(client);
        }
        if has_datagram(p, branch, flow) {
            out.hurries();
        }
        self.scratch = lines;
        p.clients.push((branch, client));
        self.site.services().count(Counter::Forwarded);
        self.watch_branch(now, p, branch, actions);
        if p.invite && settings.proxy.trying == Trying::Learned {
            self.expect(now, p, flow);
        }
    }

    /// An INVITE goes to `flow`: its caller's 100 may wait if who is there answers soon.
    fn expect(&mut self, now: Time, p: &mut Proxied, flow: Flow) {
        let neighbour = Group::of(flow.remote);
        if p.clients.len() == 1 {
            p.asked = Some(neighbour);
        }
        if p.trying == now && self.prompt.knows(neighbour) {
            p.trying = now + TRYING;
        }
    }

    /// Whether requests to a target of this trunk say that we can be told of overload, and what it tells is
    /// believed: only where the operator says so. A trunk that knows nothing of `oc` passes on what those
    /// behind it write.
    pub(crate) fn listens_to(&self, target: &Target) -> bool {
        let trunk = target.trunk.as_ref().and_then(|trunk| trunk.get());
        trunk.is_some_and(|trunk| trunk.overload_control) && self.overload.speaks()
    }

    /// Whether a next hop that may have asked for less gets this request (RFC 7339 section 5.10.1). What is
    /// within a dialog goes, and counts whatever way it goes there; `listens`: to the trunk by which
    /// something new does.
    fn may_send(&mut self, now: Time, flow: Flow, request: &Message<'_>, listens: bool) -> bool {
        let category = match request.to_tag().is_empty() {
            true if !listens => return true,
            true => Category::New,
            false => {
                self.count_within(now, flow);
                return true;
            }
        };
        let dice = self.next_random();
        let goes = self.neighbours.lets(now, flow.remote, category, dice >> 16);
        if !goes {
            self.site.services().count(Counter::HeldBack);
        }
        goes
    }

    /// What goes to a next hop in any case counts where it asked for less (RFC 7415 section 3.4: a rate is
    /// one of all requests).
    pub(crate) fn count_within(&mut self, now: Time, flow: Flow) {
        if !self.neighbours.is_empty() {
            self.neighbours.lets(now, flow.remote, Category::Within, 0);
        }
    }

    /// Starts the branch to voicemail.
    #[expect(clippy::too_many_arguments, reason = "an action's fields, what it acts on, and the usual three")]
    pub(crate) fn start_voicemail(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        cause: u16,
        breadth: u8,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        let Some(wish) = self.router().voicemail_wish(now, p.source, request, cause) else {
            return p.context.branch_failed(now, branch, 480, actions);
        };
        let target = wish.store(p);
        p.targets.push(target);
        self.start_branch(now, p, branch, breadth, request, actions, out);
    }

    /// From a URI to addresses (RFC 3263); the branch goes on at once if none has to be asked for.
    #[expect(clippy::too_many_arguments, reason = "as start_branch, with the URI")]
    fn look_up(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        breadth: u8,
        uri: &core::ops::Range<u32>,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        let able = self.site.ability();
        let seed = self.next_random();
        // Of a phone it is not known whether it accepts connections.
        let phone = p.targets.get(usize::from(branch.target())).is_some_and(|t| t.role == Role::Local);
        let large = !phone && self.site.grown(p.source, request) > self.site.settings().proxy.mtu;
        let located = match Uri::parse(p.text(uri)) {
            Ok(uri) => locate(&want(&uri, large), &able, seed),
            Err(_) => Err(Error::BadHost),
        };
        match located {
            Ok(Located::Now(found)) => {
                self.settle(now, p, branch, breadth, Ok(found.as_slice()), Some(request), actions, out);
            }
            Ok(Located::Ask(locate)) => {
                p.lookups.push(Pending { branch, breadth, locate });
                self.pursue(now, p, branch, Some(request), actions, out);
            }
            Err(error) => self.settle(now, p, branch, breadth, Err(error), Some(request), actions, out),
        }
    }

    /// Puts the questions of a look-up, as far as they can be put now.
    fn pursue(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        request: Option<&Message<'_>>,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        let Some(at) = p.lookups.iter().position(|l| l.branch == branch) else { return };
        loop {
            let id = p.id;
            let Some(pending) = p.lookups.get_mut(at) else { return };
            match pending.locate.poll() {
                Step::Wait => return,
                Step::Done(result) => {
                    let breadth = pending.breadth;
                    p.lookups.swap_remove(at);
                    let found = result.as_ref().map(|f| f.as_slice()).map_err(|e| *e);
                    return self.settle(now, p, branch, breadth, found, request, actions, out);
                }
                Step::Ask(ask) => {
                    let Some((kind, name)) = pending.locate.question(ask) else { return };
                    let waiter = waiter(id, branch, ask);
                    let answer = match self.dns.ask(now, kind, name, waiter) {
                        Lookup::Hit(answer) => Some(answer.clone()),
                        Lookup::Full => Some(Answer::Failed),
                        Lookup::Joined => None,
                        Lookup::Ask => {
                            self.site.services().count(Counter::Lookups);
                            self.site.services().ask(Question { kind, name: name.into() });
                            None
                        }
                    };
                    if let Some(answer) = answer {
                        pending.locate.answer(ask, &answer);
                    }
                }
            }
        }
    }

    /// A question that a branch waits for was answered.
    pub(crate) fn answered(&mut self, now: Time, waiter: u128, answer: &Answer, out: &mut Outbox) {
        let (id, branch, ask) = unwaiter(waiter);
        let Some(mut p) = self.proxied.take(id) else { return };
        let mut actions = mem::take(&mut self.actions);
        if let Some(pending) = p.lookups.iter_mut().find(|l| l.branch.as_u16() == branch) {
            let branch = pending.branch;
            pending.locate.answer(ask, answer);
            self.pursue(now, &mut p, branch, None, &mut actions, out);
        }
        self.perform(now, p, actions, None, None, out);
    }

    /// The addresses of a target are known, or there are none.
    #[expect(clippy::too_many_arguments, reason = "as start_branch, with the result")]
    fn settle(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        breadth: u8,
        found: Result<&[Destination], Error>,
        request: Option<&Message<'_>>,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        let near = p.source.listener;
        let Some(target) = p.targets.get(usize::from(branch.target())) else { return };
        let mut hops = Short::None;
        for d in found.unwrap_or(&[]) {
            let allowed =
                self.site.places().let_through(self.site.settings(), target.bounds, target.role, d.address)
                    && !(is_guarded(target.elsewhere, target.role, p.role)
                        && is_anothers(self.site.services(), now, d.address, sources_of(p)));
            let listener = self.site.settings().listener_for(d.transport, d.address, near);
            if let Some(listener) = listener.filter(|_| allowed) {
                let (transport, remote) = (d.transport, d.address);
                hops.push(Flow { transport, listener, remote, conn: None });
            }
        }
        let Some(target) = p.targets.get_mut(usize::from(branch.target())) else { return };
        // What is known besides counts where nothing is found.
        if !hops.is_empty() {
            target.hops = hops;
        }
        if target.hops.is_empty() {
            let status = match found {
                Err(error) => status_of(error),
                // Found, but nowhere that a request may go.
                Ok(_) => {
                    self.site.services().count(Counter::Forbidden);
                    403
                }
            };
            return self.branch_useless(now, p, branch, status, actions);
        }
        self.with_request(p, request, |node, p, request| {
            node.start_branch(now, p, branch, breadth, request, actions, out);
        });
    }
}

/// Whether a binding of another device is followed for a caller who may not call every gateway.
pub(crate) const fn is_guarded(elsewhere: bool, role: Role, caller: Role) -> bool {
    elsewhere && matches!(role, Role::Local) && !matches!(caller, Role::Local)
}

/// Where the phones of the called user have registered from.
fn sources_of(p: &Proxied) -> impl Iterator<Item = IpAddr> {
    p.targets.iter().flat_map(|t| sources(&t.hops, t.elsewhere, t.registered_from))
}

/// Whether the caller wants the identity that a trusted element asserted kept among trusted ones (RFC 3325
/// section 5 and 9.3, RFC 3323 section 4.2).
pub(crate) fn is_private(request: &Message<'_>) -> bool {
    if request.header(Name::PAssertedIdentity).is_none() && request.header(Name::RemotePartyId).is_none() {
        return false;
    }
    let mut wishes = request.headers(Name::Privacy).flat_map(|h| h.value.split(|&b| b == b';'));
    wishes.any(|wish| wish.trim_ascii().eq_ignore_ascii_case(b"id"))
}

/// Whether the same host is tried by datagram if a connection to it does not come about.
fn has_datagram(p: &Proxied, branch: BranchId, flow: Flow) -> bool {
    let target = p.targets.get(usize::from(branch.target()));
    let later = target.map_or(&[][..], |t| t.hops.get(usize::from(branch.attempt()) + 1..).unwrap_or(&[]));
    flow.transport != Transport::Udp
        && later.iter().any(|hop| hop.transport == Transport::Udp && hop.remote.ip() == flow.remote.ip())
}

/// Whether a request may go this way: not in the clear if it came with a `sips:` Request-URI, or leaves
/// with one (RFC 3261 section 26.2.2, RFC 5630 section 5.3).
pub(crate) fn may_carry(flow: Flow, request: &Message<'_>, target: &[u8]) -> bool {
    is_secure(flow.transport) || !(is_sips(target) || is_sips(request.request_uri()))
}

/// The parts of a URI that say where it leads.
pub(crate) fn want<'a>(uri: &Uri<'a>, large: bool) -> Want<'a> {
    let maddr = uri.param(b"maddr").filter(|m| !m.is_empty());
    Want {
        secure: uri.scheme == sip_message::Scheme::Sips,
        host: maddr.unwrap_or(uri.host),
        port: uri.port,
        transport: uri.param(b"transport"),
        large,
    }
}

/// What a look-up that led nowhere means to the caller (RFC 3263 section 4.3, RFC 3261 16.7).
fn status_of(error: Error) -> u16 {
    match error {
        Error::BadHost => 400,
        Error::NoTransport => 503,
        Error::NotFound | Error::NoService => 404,
        Error::Unavailable => 503,
    }
}

/// Names what waits for an answer: 32 bits of slot, 16 of generation, 16 of branch, 8 of question.
fn waiter(id: ProxiedId, branch: BranchId, ask: AskId) -> u128 {
    u128::from(id.slot) << 40
        | u128::from(id.generation) << 24
        | u128::from(branch.as_u16()) << 8
        | u128::from(ask.0)
}

fn unwaiter(waiter: u128) -> (ProxiedId, u16, AskId) {
    let id = ProxiedId { slot: (waiter >> 40) as u32, generation: (waiter >> 24) as u16 };
    (id, (waiter >> 8) as u16, AskId(waiter as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiter_keeps_every_bit_of_what_it_names() {
        for slot in [0, 1, (1 << 24) - 1, 1 << 24, (1 << 30) - 1, u32::MAX] {
            for (generation, branch, ask) in [(1, 0, 0), (u16::MAX, u16::MAX, u8::MAX), (0x1234, 0x5678, 7)] {
                let id = ProxiedId { slot, generation };
                let named = waiter(id, BranchId::from_u16(branch), AskId(ask));
                assert_eq!(unwaiter(named), (id, branch, AskId(ask)));
            }
        }
    }
}
