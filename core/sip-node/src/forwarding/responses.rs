//! Responses to forwarded requests (RFC 3261 section 16.7).

use super::Forwarder;
use super::channels::hold_late;
use super::prober::is_probe;
use super::proxied::{Proxied, ProxiedId};
use super::redirection::recurse;
use super::registering::is_registration;
use super::sending::listens_to;
use super::silence::{branch_heard, branch_refused};
use super::upstream::{relay, relay_late};
use crate::bindings::Bindings;
use crate::overload::wish;
use crate::records::Sent;
use crate::services::{Counter, Services};
use crate::site::OC;
use crate::step::Step;
use core::mem;
use sip_message::Message;
use sip_proxy::context::BranchId;
use sip_proxy::loops::read_branch;
use sip_proxy::session_timer::missing;
use sip_proxy::token::Role;
use sip_transaction::{ClientId, Outcome};
use wire::Flow;

impl Forwarder {
    /// A response without a flaw (RFC 3261 section 16.7).
    pub(crate) fn response<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        response: &Message<'_>,
    ) {
        if !step.site.is_our_via(response) {
            return step.site.services().count(Counter::Stray);
        }
        let client = read_branch(response.via_branch()).and_then(|b| ClientId::decode(b.client));
        let Some(client) = client else { return self.stateless_response(step, flow, response) };
        // A registration is answered whatever Via it has. Of others, without a second Via there is nobody to
        // pass it on to; a well-behaved peer never drops one.
        match step.layer.receive_response(step.now, client, response, step.out) {
            Outcome::Deliver { user } if is_registration(user) => {
                self.registering.answered(step, user, response);
                self.registering.run(step, &mut self.resolver);
            }
            Outcome::Deliver { user } if response.via_count() > 1 => {
                let (id, branch) = ProxiedId::split(user);
                self.branch_response(step, flow, (id, branch, client), response);
            }
            Outcome::Deliver { user } if is_probe(user) => self.prober.answered(step, user),
            Outcome::Deliver { .. } | Outcome::Unknown => step.site.services().count(Counter::Stray),
            Outcome::Absorbed => {}
        }
    }

    fn branch_response<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        (id, branch, client): (ProxiedId, BranchId, ClientId),
        response: &Message<'_>,
    ) {
        let Some(mut proxied) = self.proxied.take(id) else {
            return self.further_response(step, (id, branch, client), response);
        };
        let status = response.status();
        if proxied.invite && status >= 300 {
            // Its ACK goes back to where it came from.
            self.count_within(step.now, flow);
            step.calls.refused(response, &proxied.upstream.key);
        }
        self.hear(step, (&proxied, branch), flow, response);
        branch_heard(step.site, step.now, &proxied, branch);
        if proxied.over {
            // A 2xx to an INVITE of which a branch was given up.
            if proxied.invite
                && (200..300).contains(&status)
                && let Some(asked) = step.layer.flow_of_client(client)
            {
                self.late_answer(step, &mut proxied, (branch, asked), response);
            }
            return self.proxied.put_back(step.layer, proxied);
        }
        if let Some(flow) = proxied.lost_flow(branch, status) {
            Bindings::new(step.site).flow_is_gone(&flow);
        }
        let mut actions = mem::take(&mut self.actions);
        if (300..400).contains(&status) && recurse(step, &mut proxied, branch, response) {
            proxied.context.branch_redirected(step.now, branch, &mut actions);
        } else if self.challenged(step, &mut proxied, branch, response, &mut actions) {
            // It leaves again, or its next target is tried.
        } else if proxied.gives_way(branch, status) {
            branch_refused(step.now, &proxied, branch, status);
            proxied.branch_gave_way(step.now, branch, status, &mut actions);
        } else {
            proxied.context.branch_response(step.now, branch, status, &mut actions);
        }
        self.perform(step, proxied, actions, None, Some(response));
    }

    /// A 2xx to an INVITE of which this branch was given up.
    fn late_answer<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        proxied: &mut Proxied,
        (branch, asked): (BranchId, Flow),
        response: &Message<'_>,
    ) {
        // Its target is forgotten.
        let (to, source) = (asked.remote, proxied.upstream.source.remote);
        let sent = Sent { branch, to, source, uri: b"", trunk: b"" };
        let to_confirm = proxied.edits.session.to_confirm();
        if relay(step, proxied.back(branch, asked.remote), response) {
            let upstream = &proxied.upstream;
            step.record_response(response, &upstream.key, upstream.recorded, &sent);
            return step.record_session(response, &upstream.key, upstream.recorded, (&sent, to_confirm));
        }
        if relay_late(step, proxied, branch, response) {
            let callee = proxied.back(branch, asked.remote).place;
            let first = !mem::replace(&mut proxied.accepted, true);
            let upstream = &proxied.upstream;
            if proxied.recorded {
                if step.calls.answered_late(step.now, response, &upstream.key, callee, first) {
                    hold_late(step, proxied, callee);
                }
                step.note_answerer(response, &upstream.key, callee);
            }
            step.record_response(response, &upstream.key, upstream.recorded, &sent);
            step.note_session(response, &upstream.key, missing(response, to_confirm));
            step.record_session(response, &upstream.key, upstream.recorded, (&sent, to_confirm));
        }
    }

    /// A response to an INVITE that was accepted: a repeated or second 2xx goes back (RFC 6026 section 7),
    /// and nothing else.
    fn further_response<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        (id, branch, client): (ProxiedId, BranchId, ClientId),
        response: &Message<'_>,
    ) {
        let Some(asked) = step.layer.flow_of_client(client) else { return };
        let key = |half| step.calls.key_of_further(half, response);
        if (200..300).contains(&response.status())
            && let Some(back) = self.proxied.back(id, branch, asked.remote, key)
        {
            let (key, to_confirm) = (back.key, back.session);
            if relay(step, back, response) {
                // Where the INVITE came from is forgotten, too. Only one within a call had to know it.
                let sent = Sent { branch, to: asked.remote, source: asked.remote, uri: b"", trunk: b"" };
                let recorded = step.recorded_of_further(response);
                step.record_response(response, &key, recorded, &sent);
                step.record_session(response, &key, recorded, (&sent, to_confirm));
            }
        }
    }

    /// Notes that something came back, and what a trunk says of its load (RFC 7339 section 5.3), if it was
    /// asked to, and said it from where the request went.
    #[inline]
    fn hear<S: Services>(
        &mut self,
        step: &Step<'_, S>,
        (p, branch): (&Proxied, BranchId),
        flow: Flow,
        response: &Message<'_>,
    ) {
        let Some(target) = p.target(branch) else { return };
        let hop = target.hop(branch);
        let unproven = (target.elsewhere || target.role == Role::Stranger) && accepts(response.status());
        if let Some(hop) = hop.filter(|hop| unproven && hop.remote.ip() == flow.remote.ip()) {
            // Of a stranger the Request-URI may be anything.
            let contact = (target.role != Role::Stranger).then(|| p.text(&target.uri));
            step.site.note_heard(contact, p.text(&target.routes), hop.remote);
        }
        if !listens_to(step, target) {
            return;
        }
        let Some(&hop) = hop else { return };
        let via = response.via().raw;
        // As it was written: a trunk that knows nothing of this.
        if hop.remote != flow.remote || via.ends_with(OC) {
            return;
        }
        if let Some(wish) = wish(via) {
            self.neighbours.told(step.now, hop.remote, &wish);
        }
    }
}

/// Whether a response shows that calls are meant to come to its sender. Any SIP server rejects requests that
/// it knows nothing of (404, 403, 481 and others).
const fn accepts(status: u16) -> bool {
    matches!(status, 101..300 | 401 | 407 | 480 | 486..=488 | 600 | 603)
}
