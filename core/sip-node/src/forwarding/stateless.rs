//! Forwarding without memory: the ACK of a 2xx, and everything in stateless mode (RFC 3261 section
//! 16.11).

use super::Forwarder;
use super::lookups::is_guarded;
use super::security::bar;
use super::sending::is_private;
use crate::admitted::Admitted;
use crate::replies::with_own_feedback_only;
use crate::routing::{Plan, Target, is_anothers, is_recorded, sources};
use crate::services::{Counter, Services};
use crate::settings::{Bounds, Mode, Settings};
use crate::site::{Sender, callee_end, caller_end, domain};
use crate::step::Step;
use crate::uris::{is_sips, max_breadth, push_as_sip};
use core::hash::Hasher;
use core::mem;
use sip_message::{Message, Method, Name, Uri, has_pair};
use sip_proxy::cseq;
use sip_proxy::rewrite::{self, Outgoing, edit_request};
use sip_proxy::token::Role;
use sip_proxy::transport::always_rport;
use sip_transaction::Prepared;
use wire::{Delivery, Flow};

impl Forwarder {
    /// Sends to the first target: the choice must be the same for every retransmission (16.11).
    pub(crate) fn forward_stateless<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        plan: Plan,
    ) {
        let is_ack = request.method() == Method::Ack;
        if !is_ack && breadth(request, step.site.settings()) == Some(0) {
            if let Plan::Forward(targets) = plan {
                step.recycle(targets);
            }
            return step.refuse(flow, request, 440, b"", b"");
        }
        match plan {
            Plan::Forward(targets) => {
                self.forward_first(step, flow, request, admitted, &targets);
                step.recycle(targets);
            }
            // Neither ACK nor CANCEL begins anything, and in stateless mode no dialog is known.
            // Requests that can wait have a transaction.
            Plan::Ask(_) => invariant::broken!("no question is asked for a request that cannot wait"),
            Plan::NoDialog => step.site.services().count(Counter::Stray),
            Plan::Refuse(_) | Plan::Offline | Plan::Redirect(_) | Plan::Barred(_) if is_ack => {
                step.site.services().count(Counter::Stray);
            }
            Plan::Refuse(status) => {
                // A CANCEL proves nothing, so it is no sign of what its sender may do.
                if request.method() != Method::Cancel {
                    step.router().note_refusal(status, flow, request, admitted);
                }
                step.refuse(flow, request, status, b"", b"");
            }
            Plan::Barred(barred) => step.bar(flow, request, admitted, barred, None),
            Plan::Offline => step.refuse(flow, request, 480, b"", b""),
            Plan::Redirect(contacts) => {
                let extra = [b"Contact: ", &contacts[..], b"\r\n"].concat();
                step.refuse(flow, request, 302, b"", &extra);
            }
        }
    }

    fn forward_first<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        targets: &[(u16, Target)],
    ) {
        let Some((_, target)) = targets.first() else { return };
        let Some(hop) = self.first_hop(step, target, flow, request) else { return };
        let own = targets.iter().flat_map(|(_, w)| sources(&w.hops, w.elsewhere, w.registered_from));
        let closed = !target.locate.is_empty()
            && is_guarded(target.elsewhere, target.role, admitted.caller.role)
            && is_anothers(step.site.services(), step.now, hop.remote, own);
        let secure = target.secure || is_sips(&target.uri);
        let barred = bar(hop, step.site.asks_for_security(admitted), &target.uri, secure);
        if !closed && barred.is_none() {
            let delivery = Delivery { existing: target.existing, ..Delivery::default() };
            let before = step.out.transmits().len();
            self.send_stateless(step, flow, (hop, delivery), request, admitted, target);
            let is_queued = step.out.transmits().len() > before;
            if request.method() == Method::Ack {
                self.send_to_moved(step, flow, request, admitted, target);
            }
            self.send_anew(step, flow, request, admitted, (target, is_queued));
        } else if request.method() == Method::Ack {
            step.site.services().count(Counter::Stray);
        } else if let Some(barred) = barred.filter(|_| !closed) {
            step.site.tell(barred.refusal(), request.request_uri(), flow, request);
            step.refuse(flow, request, 480, b"", barred.warning());
        } else {
            step.refuse(flow, request, 403, b"", b"");
        }
    }

    /// Sends an ACK over both connections of a phone that may have [moved](crate::routing). An ACK has no
    /// response, so it does not show which connection works. A phone ignores an ACK that belongs to no call.
    fn send_to_moved<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Message<'_>,
        admitted: &Admitted<'_>,
        target: &Target,
    ) {
        let moved = target.hops.iter().any(Flow::is_only_way);
        let delivery = Delivery { existing: target.existing, ..Delivery::default() };
        for &hop in target.hops.iter().skip(1).filter(|_| moved) {
            self.send_stateless(step, flow, (hop, delivery), request, admitted, target);
        }
    }

    /// Sends a request over a new connection if the one that the peer opened is gone, such as that of a
    /// balancer that was restarted. `is_queued`: it is the last message of the outbox, to that connection.
    fn send_anew<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Message<'_>,
        admitted: &Admitted<'_>,
        (target, is_queued): (&Target, bool),
    ) {
        let hops = &target.hops;
        let only = !target.existing || !target.locate.is_empty() || hops.iter().any(Flow::is_only_way);
        let Some(&hop) = hops.get(1).filter(|_| !only) else { return };
        let secure = target.secure || is_sips(&target.uri);
        if bar(hop, step.site.asks_for_security(admitted), &target.uri, secure).is_none() {
            let delivery = Delivery { instead: is_queued, ..Delivery::default() };
            self.send_stateless(step, flow, (hop, delivery), request, admitted, target);
        }
    }

    /// The first address of a target. If a name has to be asked for, the message is dropped and the
    /// answer kept: its retransmission finds it.
    fn first_hop<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        target: &Target,
        flow: Flow,
        request: &Message<'_>,
    ) -> Option<Flow> {
        if target.locate.is_empty() {
            return target.hops.first().copied();
        }
        let located = self.located_hop(step, target, flow, request);
        let seen = target.hops.first().copied();
        match target.bounds {
            Bounds::End(_) => located.and(seen),
            _ => located.or(seen),
        }
    }

    fn located_hop<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        target: &Target,
        flow: Flow,
        request: &Message<'_>,
    ) -> Option<Flow> {
        let uri = Uri::parse(&target.locate).ok()?;
        let added = target.headers.as_ref().map_or(0, |rules| rules.growth());
        let size = step.site.grown(flow, request) + added;
        let large = target.role != Role::Local && size > step.site.settings().proxy.mtu;
        // The same seed for the same call, so that its messages meet the same server.
        let mut seed = step.site.keyed(domain::STATELESS);
        seed.write(request.call_id());
        self.resolver.locate_now(step, &uri, large, seed.finish())?.as_slice().iter().find_map(|d| {
            let allowed =
                step.site.places().let_through(step.site.settings(), target.bounds, target.role, d.address);
            let listener = step.site.settings().listener_for(d.transport, d.address, flow.listener)?;
            allowed.then_some(Flow { transport: d.transport, listener, remote: d.address, conn: None })
        })
    }

    fn send_stateless<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        from: Flow,
        (hop, delivery): (Flow, Delivery),
        request: &Message<'_>,
        a: &Admitted<'_>,
        target: &Target,
    ) {
        let settings = step.site.settings();
        let Some(listener) = settings.listener(hop.listener) else { return };
        let mut lines = mem::take(step.scratch);
        lines.clear();
        lines.extend_from_slice(listener.via_prefix());
        step.site.push_stateless_branch(from, request, &mut lines);
        lines.extend_from_slice(b"\r\n");
        let via_end = lines.len();
        let recorded = is_recorded(request, a);
        if recorded && settings.proxy.record_route && request.method() != Method::Ack {
            let ends = (
                caller_end(from, request, a.caller.role),
                callee_end(hop, target.role, &target.uri, &target.routes),
            );
            let call = a.dialog.map_or(request.method() == Method::Invite, |dialog| dialog.call);
            let ends = step.site.ends(request, ends, step.calls.keeper(), call);
            step.site.push_routes(&ends, request, &mut lines);
        }
        let mut as_sip = Vec::new();
        let request_uri = match is_sips(&target.uri) && !step.site.asks_for_security(a) {
            true => {
                push_as_sip(&target.uri, &mut as_sip);
                &as_sip[..]
            }
            false => &target.uri,
        };
        let outgoing = Outgoing {
            request_uri,
            via: &lines[..via_end],
            record_routes: &lines[via_end..],
            routes: &target.routes,
            drop_routes: a.routing.own + usize::from(!target.last_route.is_empty()),
            drop_last_route: a.routing.drop_last,
            last_route: &target.last_route,
            max_forwards: request.max_forwards().map_or(settings.proxy.max_forwards, |m| m.saturating_sub(1)),
            // All of it, as there is one branch only.
            max_breadth: breadth(request, settings),
            source: Some((from.remote, always_rport(from, request))),
            strip_identity: a.caller.role != Role::Trunk
                || !step.site.rules().believes(a.caller.trunk)
                || (target.role != Role::Trunk && is_private(request)),
            strip_realm: a.caller.realm.as_deref(),
            strip_commands: a.caller.role == Role::Stranger,
        };
        let splices = &mut *step.splices;
        edit_request(request, &outgoing, splices);
        if let Some(rules) = &target.headers {
            let (role, account) = (a.caller.role, a.caller.account.as_ref());
            let sender = Sender { source: from, role, account, forwards: false };
            step.site.rules().edit(rules, &sender, request, splices);
        }
        let raised = a.dialog.filter(|dialog| dialog.by_caller).map_or(0, |dialog| dialog.raised);
        cseq::raise(request, raised, raised, splices);
        step.out.deliver(hop, 0, delivery, |buf| splices.apply(request.bytes(), buf));
        step.out.verifies(&step.site.name_at(hop, &target.locate));
        *step.scratch = lines;
        if !delivery.instead {
            self.count_within(step.now, hop);
            step.site.services().count(Counter::Forwarded);
        }
    }

    /// A response to a request that was forwarded without memory: to the next Via, if the branch is
    /// one that we sealed (16.11, 18.2.2).
    pub(super) fn stateless_response<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        from: Flow,
        response: &Message<'_>,
    ) {
        let trusted = step.site.trunk_of(from).is_some();
        // With transactions only ACKs leave without, and nobody answers those.
        let awaited = step.site.settings().proxy.mode == Mode::Stateless;
        let Some(flow) = step.site.stateless_return(response).filter(|_| awaited) else {
            return step.site.services().count(Counter::Stray);
        };
        // In most responses the letters stand in no Via, and then there is nothing to take out.
        let named = response.headers(Name::Via).any(|line| has_pair(line.value, b"oc"));
        let token = step.responses.token();
        let splices = &mut *step.splices;
        // A peer cannot prove a name at the port that it connected from.
        let delivery = Delivery { existing: flow.transport.is_secure(), ..Delivery::default() };
        step.out.deliver(flow, token, delivery, |buf| {
            with_own_feedback_only(None, named, buf, |buf| {
                rewrite::write_response(response, !trusted, splices, buf)
            });
        });
        step.keep_response();
        step.site.services().count(Counter::Relayed);
    }
}

/// The Max-Breadth that a request goes on with (RFC 5393 section 5.3.3); in a CANCEL it means nothing
/// (5.4.1).
fn breadth(request: &Message<'_>, settings: &Settings) -> Option<u8> {
    let most = settings.proxy.max_breadth;
    (request.method() != Method::Cancel).then(|| sip_proxy::breadth::incoming(max_breadth(request), most))
}
