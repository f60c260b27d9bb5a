//! Carrying out what a response context asks for.

use super::Forwarder;
use super::channels::hold_channels;
use super::proxied::{Branch, Proxied};
use super::stored::with_request;
use super::upstream::{concluded, forward_best, generate, keep, relay};
use crate::services::{Counter, Services};
use crate::step::Step;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sip_message::Message;
use sip_proxy::context::{Action, BranchId};
use sip_transaction::{Layer, TimerId};
use wire::Time;

/// Stands where a branch has an address.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Forwarder {
    /// Carries out what the context asked for, and what it asks for on the way. Takes the proxied
    /// request, puts it back or ends it.
    pub(super) fn perform<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        mut proxied: Box<Proxied>,
        mut actions: Vec<Action>,
        request: Option<&Message<'_>>,
        response: Option<&Message<'_>>,
    ) {
        let mut at = 0;
        while let Some(&action) = actions.get(at) {
            at += 1;
            self.act(step, &mut proxied, action, &mut actions, request, response);
        }
        actions.clear();
        self.actions = actions;
        if !proxied.over {
            if proxied.timing.trying != Time::FAR && proxied.timing.timer == TimerId::NONE {
                arm(step.layer, &mut proxied);
            }
            return self.proxied.put_back(step.layer, proxied);
        }
        step.layer.unschedule(mem::replace(&mut proxied.timing.timer, TimerId::NONE));
        let gave_up = proxied.context.gave_up();
        if proxied.invite && proxied.accepted && !gave_up {
            self.proxied.keep_accepted(step.layer, proxied);
        } else if proxied.invite && gave_up {
            // Where the caller is, for when his transaction is over.
            proxied.upstream.source =
                step.layer.reply_of(proxied.upstream.server).unwrap_or(proxied.upstream.source);
            self.proxied.put_shrunk(step.layer, proxied);
        } else {
            step.layer.set_user(proxied.upstream.server, 0);
            self.proxied.end(step.layer, proxied);
        }
    }

    fn act<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        action: Action,
        actions: &mut Vec<Action>,
        request: Option<&Message<'_>>,
        response: Option<&Message<'_>>,
    ) {
        match action {
            Action::StartBranch { branch, breadth } => {
                with_request(step, p, request, |step, p, request| {
                    self.start_branch(step, p, Branch { id: branch, breadth }, request, actions);
                });
            }
            Action::StartVoicemail { branch, cause, breadth } => {
                step.site.services().count(Counter::Voicemail);
                with_request(step, p, request, |step, p, request| {
                    self.start_voicemail(step, p, Branch { id: branch, breadth }, cause, request, actions);
                });
            }
            Action::Divert { reason, cause } => {
                self.divert_or_stay(step, p, (reason, cause), request, actions);
            }
            Action::Silent(branch) => self.branch_silent(step, p, branch, actions),
            Action::CancelBranch(branch) => self.cancel_branch(step, p, branch, actions),
            Action::ForwardProvisional(branch) => {
                p.timing.trying = Time::FAR;
                if let Some(response) = response {
                    pass_back(step, p, branch, response);
                }
            }
            Action::ForwardFinal(branch) => {
                p.timing.trying = Time::FAR;
                pass_final(step, p, branch, response);
            }
            Action::ForwardBest(branch) => {
                p.timing.trying = Time::FAR;
                forward_best(step, p, branch, response);
            }
            Action::Generate(status) => {
                p.timing.trying = Time::FAR;
                generate(step, p, status, request);
            }
            // The transaction stays unanswered until it ends by itself, so that late retransmissions are
            // absorbed and are no new requests.
            Action::Silence => {
                step.calls.concluded(408, &p.upstream.key);
                step.record_failed(p.upstream.recorded, 408, true);
            }
            Action::Keep(branch) => {
                if let Some(response) = response {
                    keep(step, p, branch, response);
                }
            }
            Action::Forget(branch) => p.kept.retain(|(b, _)| *b != branch),
            Action::SetTimer(time) => {
                p.timing.wakes = time;
                arm(step.layer, p);
            }
            Action::ClearTimer => {
                p.timing.wakes = Time::FAR;
                step.layer.unschedule(mem::replace(&mut p.timing.timer, TimerId::NONE));
            }
            Action::Finished => p.over = true,
        }
    }
}

/// Passes the first 2xx of a request on, or another one.
fn pass_final<S: Services>(
    step: &mut Step<'_, S>,
    p: &mut Proxied,
    branch: BranchId,
    response: Option<&Message<'_>>,
) {
    let first = !mem::replace(&mut p.accepted, true);
    if let Some(response) = response
        && pass_back(step, p, branch, response)
        && first
    {
        hold_channels(step, p, branch);
        let to = p.back(branch, NOWHERE).place;
        p.upstream.recorded = step.recorded_at(p.upstream.recorded, response, to);
        concluded(step, p, response.status());
    }
}

/// Passes the response of a branch on, and notes it for the record of the call. Whether that was possible.
fn pass_back<S: Services>(
    step: &mut Step<'_, S>,
    p: &Proxied,
    branch: BranchId,
    response: &Message<'_>,
) -> bool {
    let back = p.back(branch, NOWHERE);
    let (to, to_confirm) = (back.place, back.session);
    if !relay(step, back, response) {
        return false;
    }
    let (key, recorded, sent) = (&p.upstream.key, p.upstream.recorded, p.sent(branch, to));
    step.record_response(response, key, recorded, &sent);
    step.record_session(response, key, recorded, (&sent, to_confirm));
    true
}

/// Sets the timer for what is due first.
pub(super) fn arm(layer: &mut Layer, p: &mut Proxied) {
    layer.unschedule(mem::replace(&mut p.timing.timer, TimerId::NONE));
    let next = p.timing.wakes.min(p.timing.trying);
    if next != Time::FAR {
        p.timing.timer = layer.schedule(next, p.id.as_u64());
    }
}
