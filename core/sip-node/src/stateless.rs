//! Forwarding without memory: the ACK of a 2xx, and everything in stateless mode (RFC 3261 section
//! 16.11).

use crate::admitted::{Admitted, Caller, Way, carried, is_beside};
use crate::forward::{is_guarded, may_carry};
use crate::inbound::passed_on;
use crate::node::Node;
use crate::routing::{Plan, Wish, is_anothers, sources};
use crate::services::{Counter, Question, Services};
use crate::settings::{Mode, Settings};
use crate::site::{callee_end, caller_end, domain};
use crate::uris::max_breadth;
use core::hash::Hasher;
use core::mem;
use sip_message::{Message, Method, Name, Uri, has_pair};
use sip_proxy::locate::{Destinations, Located, Lookup, Step, locate};
use sip_proxy::rewrite::{self, Outgoing, write_request};
use sip_proxy::token::{Dialog, Role};
use sip_proxy::transport::always_rport;
use sip_transaction::Prepared;
use wire::{Flow, Outbox, Time};

/// What waits for an answer of the DNS and is no branch.
pub(crate) const NOBODY: u128 = u128::MAX;

impl<S: Services> Node<S> {
    /// An ACK, or a CANCEL in stateless mode. Neither can be challenged, so what stands in From proves
    /// nothing here: it goes to the other end of a dialog of ours, to our own users, or where a phone
    /// that is registered at the sender's address may send.
    pub(crate) fn forward_unproven(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        Way { read, dialog }: Way<'_>,
        out: &mut Outbox,
    ) {
        let (routing, uri) = match read {
            Ok((routing, Ok(uri))) => (routing, uri),
            Ok((routing, uri)) if dialog.is_some() => (routing, carried(uri, &routing)),
            _ => return self.site.services().count(Counter::Garbage),
        };
        let trunk = self.site.settings().trunk_of(flow.remote.ip());
        let ourselves = self.site.is_from_ourselves(request);
        let trunk = trunk.filter(|_| !ourselves);
        let phone = || self.site.is_at_phone(flow, request);
        let known = || !self.site.settings().auth.enabled || phone();
        // A token can be read by the other end, too; where the request came from cannot be both.
        let home = |d: &Dialog| !ourselves && d.sender.remote.ip() == flow.remote.ip().to_canonical();
        // A phone may send from another port than it listens at; one that is registered there is ours.
        let beside = |d: &Dialog| is_beside(d, flow) && !(d.sender.role == Role::Local && phone());
        let (role, borrowed) = match (&dialog, trunk) {
            (Some(dialog), _) if home(dialog) => (dialog.sender.role, beside(dialog)),
            (dialog, Some(trunk)) => (Role::Trunk, self.site.is_borrowed_by(trunk, dialog.as_ref())),
            (dialog, None) if self.site.claims_local(request) && known() => (Role::Local, dialog.is_some()),
            (dialog, None) => (Role::Stranger, dialog.is_some()),
        };
        let caller = Caller { role, realm: None, trunk, borrowed };
        let admitted = Admitted { uri, routing, dialog, caller };
        if self.ingress().bars(flow, request, &admitted).is_some() {
            match request.method() {
                Method::Ack => self.site.services().count(Counter::Stray),
                _ => self.refuse(flow, request, 403, b"", b"", out),
            }
            return;
        }
        self.forward_plan(now, flow, request, &admitted, out);
    }

    /// Sends to the first target: the choice must be the same for every retransmission (16.11).
    pub(crate) fn forward_plan(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        out: &mut Outbox,
    ) {
        let is_ack = request.method() == Method::Ack;
        if !is_ack && breadth(request, self.site.settings()) == Some(0) {
            return self.refuse(flow, request, 440, b"", b"", out);
        }
        match self.plan(now, flow, request, admitted) {
            Plan::Forward(wishes) => {
                self.forward_first(now, flow, request, admitted, &wishes, out);
                self.take_back(wishes);
            }
            // Neither ACK nor CANCEL begins anything, and in stateless mode no dialog is known.
            Plan::NoDialog => self.site.services().count(Counter::Stray),
            Plan::Refuse(_) | Plan::Offline | Plan::Redirect(_) if is_ack => {
                self.site.services().count(Counter::Stray);
            }
            Plan::Refuse(status) => {
                // A CANCEL proves nothing, so it is no sign of what its sender may do.
                if request.method() != Method::Cancel {
                    self.router().note_refusal(status, flow, request, admitted);
                }
                self.refuse(flow, request, status, b"", b"", out);
            }
            Plan::Offline => self.refuse(flow, request, 480, b"", b"", out),
            Plan::Redirect(contacts) => {
                let extra = [b"Contact: ", &contacts[..], b"\r\n"].concat();
                self.refuse(flow, request, 302, b"", &extra, out);
            }
        }
    }

    fn forward_first(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        wishes: &[(u16, Wish)],
        out: &mut Outbox,
    ) {
        let Some((_, wish)) = wishes.first() else { return };
        let Some(hop) = self.first_hop(now, wish, flow, request) else { return };
        let own = wishes.iter().flat_map(|(_, w)| sources(&w.hops, w.elsewhere, w.registered_from));
        let closed = !wish.locate.is_empty()
            && is_guarded(wish.elsewhere, wish.role, admitted.caller.role)
            && is_anothers(self.site.services(), now, hop.remote, own);
        if !closed && may_carry(hop, request, &wish.uri) {
            self.send_stateless(now, flow, hop, request, admitted, wish, out);
        } else if request.method() == Method::Ack {
            self.site.services().count(Counter::Stray);
        } else {
            self.refuse(flow, request, if closed { 403 } else { 480 }, b"", b"", out);
        }
    }

    /// The first address of a target. If a name has to be asked for, the message is dropped and the
    /// answer kept: its retransmission finds it.
    fn first_hop(&mut self, now: Time, wish: &Wish, flow: Flow, request: &Message<'_>) -> Option<Flow> {
        if wish.locate.is_empty() {
            return wish.hops.first().copied();
        }
        self.located_hop(now, wish, flow, request).or(wish.hops.first().copied())
    }

    fn located_hop(&mut self, now: Time, wish: &Wish, flow: Flow, request: &Message<'_>) -> Option<Flow> {
        let uri = Uri::parse(&wish.locate).ok()?;
        let large =
            wish.role != Role::Local && self.site.grown(flow, request) > self.site.settings().proxy.mtu;
        // The same seed for the same call, so that its messages meet the same server.
        let mut seed = self.site.keyed(domain::STATELESS);
        seed.write(request.call_id());
        self.locate_now(now, &uri, large, seed.finish())?.as_slice().iter().find_map(|d| {
            let allowed =
                self.site.places().let_through(self.site.settings(), wish.bounds, wish.role, d.address);
            let listener = self.site.settings().listener_for(d.transport, d.address, flow.listener)?;
            allowed.then_some(Flow { transport: d.transport, listener, remote: d.address, conn: None })
        })
    }

    /// The destinations of a URI, if all DNS answers are cached. Otherwise asks for the missing ones and
    /// returns `None`.
    pub(crate) fn locate_now(
        &mut self,
        now: Time,
        uri: &Uri<'_>,
        large: bool,
        seed: u64,
    ) -> Option<Destinations> {
        let able = self.site.ability();
        let mut locate = match locate(&crate::forward::want(uri, large), &able, seed) {
            Ok(Located::Now(found)) => return Some(found),
            Ok(Located::Ask(locate)) => locate,
            Err(_) => return Some(Destinations::new()),
        };
        loop {
            match locate.poll() {
                Step::Done(found) => return Some(found.unwrap_or_default()),
                Step::Wait => return None,
                Step::Ask(ask) => {
                    let (kind, name) = locate.question(ask)?;
                    match self.dns.ask(now, kind, name, NOBODY) {
                        Lookup::Hit(answer) => {
                            let answer = answer.clone();
                            locate.answer(ask, &answer);
                        }
                        Lookup::Ask => {
                            self.site.services().count(Counter::Lookups);
                            self.site.services().ask(Question { kind, name: name.into() });
                        }
                        Lookup::Joined => {}
                        Lookup::Full => return None,
                    }
                }
            }
        }
    }

    fn send_stateless(
        &mut self,
        now: Time,
        from: Flow,
        hop: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        wish: &Wish,
        out: &mut Outbox,
    ) {
        let settings = self.site.settings().clone();
        let Some(listener) = settings.listener(hop.listener) else { return };
        let mut lines = mem::take(&mut self.scratch);
        lines.clear();
        lines.extend_from_slice(listener.via_prefix());
        self.site.push_stateless_branch(from, request, &mut lines);
        lines.extend_from_slice(b"\r\n");
        let via_end = lines.len();
        let recorded = crate::routing::is_recorded(request, a);
        if recorded && settings.proxy.record_route && request.method() != Method::Ack {
            let ends = self.site.ends(
                request,
                caller_end(from, request, a.caller.role),
                callee_end(hop, wish.role, &wish.uri, &wish.routes),
                self.calls.keeper(),
            );
            self.site.push_routes(&ends, request, &mut lines);
        }
        let outgoing = Outgoing {
            request_uri: &wish.uri,
            via: &lines[..via_end],
            record_routes: &lines[via_end..],
            routes: &wish.routes,
            drop_routes: a.routing.own + usize::from(!wish.last_route.is_empty()),
            drop_last_route: a.routing.drop_last,
            last_route: &wish.last_route,
            max_forwards: request.max_forwards().map_or(settings.proxy.max_forwards, |m| m.saturating_sub(1)),
            // All of it, as there is one branch only.
            max_breadth: breadth(request, &settings),
            source: Some((from.remote, always_rport(from, request))),
            strip_identity: a.caller.role != Role::Trunk
                || (wish.role != Role::Trunk && crate::forward::is_private(request)),
            strip_realm: a.caller.realm.as_deref(),
            strip_commands: a.caller.role == Role::Stranger,
        };
        let splices = &mut self.splices;
        out.send_with(hop, 0, |buf| write_request(request, &outgoing, splices, buf));
        self.scratch = lines;
        self.count_within(now, hop);
        self.site.services().count(Counter::Forwarded);
    }

    /// A response to a request that was forwarded without memory: to the next Via, if the branch is
    /// one that we sealed (16.11, 18.2.2).
    pub(crate) fn stateless_response(&mut self, from: Flow, response: &Message<'_>, out: &mut Outbox) {
        let trusted = self.site.settings().trunk_of(from.remote.ip()).is_some();
        // With transactions only ACKs leave without, and nobody answers those.
        let awaited = self.site.settings().proxy.mode == Mode::Stateless;
        let Some(flow) = self.site.stateless_return(response).filter(|_| awaited) else {
            return self.site.services().count(Counter::Stray);
        };
        // In most responses the letters stand in no Via, and then there is nothing to take out.
        let named = response.headers(Name::Via).any(|line| has_pair(line.value, b"oc"));
        let token = self.letters.token();
        let splices = &mut self.splices;
        out.send_with(flow, token, |buf| {
            passed_on(None, named, buf, |buf| rewrite::write_response(response, !trusted, splices, buf));
        });
        self.letters.keep(&mut self.layer, out);
        self.site.services().count(Counter::Relayed);
    }
}

/// The Max-Breadth that a request goes on with (RFC 5393 section 5.3.3); in a CANCEL it means nothing
/// (5.4.1).
fn breadth(request: &Message<'_>, settings: &Settings) -> Option<u8> {
    let most = settings.proxy.max_breadth;
    (request.method() != Method::Cancel).then(|| sip_proxy::breadth::incoming(max_breadth(request), most))
}
