//! Calls that users forward: their next targets, and what their requests say of it.

use super::Forwarder;
use super::proxied::Proxied;
use super::stages::{add_targets, enter};
use super::stored::with_request;
use crate::diverting::reason_of;
use crate::routing::{Diverter, Plan, Setup};
use crate::services::Services;
use crate::site::Site;
use crate::step::Step;
use call_forwarding::{Disclosure, write_diversion, write_history};
use call_rules::Identity;
use sip_message::{Message, Splices};
use sip_proxy::context::{Action, BranchId, Reroute};
use sip_proxy::token::Role;

impl Forwarder {
    /// The targets of a user are exhausted for a reason that the user's rules name.
    pub(super) fn divert_or_stay<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        why: (Reroute, u16),
        request: Option<&Message<'_>>,
        actions: &mut Vec<Action>,
    ) {
        let mut decided = false;
        with_request(step, p, request, |step, p, request| {
            self.divert(step, p, why, request, actions);
            decided = true;
        });
        if !decided {
            p.context.stay();
            p.context.start(step.now, actions);
        }
    }

    fn divert<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        (reason, cause): (Reroute, u16),
        request: &Message<'_>,
        actions: &mut Vec<Action>,
    ) {
        let mut targets = None;
        if let Some(mut call) = p.edits.diverting.take() {
            let setup = Setup { now: step.now, flow: p.upstream.source, request, called: None };
            let before = call.chain().hops().len();
            let plan =
                Diverter::new(step.router()).advance(&mut call, Some((reason_of(reason), cause)), &setup);
            if let Plan::Forward(found) = plan {
                enter(step, p, &call);
                step.record_forwardings(
                    p.upstream.recorded,
                    call.chain().hops().get(before..).unwrap_or(&[]),
                );
                targets = Some((found, call.take_trails()));
            }
            p.edits.diverting = Some(call);
        }
        match targets {
            Some((targets, trails)) => add_targets(step, p, targets, &trails),
            None => p.context.stay(),
        }
        p.context.start(step.now, actions);
    }
}

/// Adds the edits by which the request of a branch says that it was forwarded.
pub(super) fn edit_forwarded<S: Services>(
    site: &Site<S>,
    p: &Proxied,
    branch: BranchId,
    request: &Message<'_>,
    splices: &mut Splices,
) {
    let Some(target) = p.target(branch) else { return };
    let Some(trail) = &target.trail else { return };
    let rules = site.settings().proxy.forwarding;
    let how = Disclosure::of(request, target.role == Role::Local || p.trusts(branch));
    if rules.diversion && target.role == Role::Trunk {
        write_diversion(request, trail, how, splices);
    }
    if rules.history {
        write_history(request, trail, how, splices);
    }
}

/// Whether the identity of who forwards takes the place of the caller's, which the request may assert.
pub(super) fn is_renamed(p: &Proxied, branch: BranchId) -> bool {
    p.target(branch).is_some_and(|target| {
        let identity = target.headers.as_ref().and_then(|rules| rules.identity());
        target.trail.is_some() && identity == Some(Identity::Asserted)
    })
}
