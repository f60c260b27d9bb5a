//! Targets that leave requests without any response: what becomes of the branch.

use super::Forwarder;
use super::prober::target_heard;
use super::proxied::{Proxied, StoredTarget};
use crate::services::{Counter, Services, Troubled};
use crate::short::Short;
use crate::site::Site;
use crate::step::Step;
use crate::watch::Watch;
use core::time::Duration;
use sip_health::{Failure, Gateway};
use sip_proxy::context::{Action, BranchId};
use std::sync::Arc;
use wire::{Flow, Time};

/// A live server may say nothing to a request other than INVITE for T2, 4 s (RFC 4320 section 4.1).
const OTHER: Duration = Duration::from_secs(5);

/// Of a call none of whose targets answered (RFC 3261 section 20.43). It names no address.
pub(super) const NO_TARGET: &[u8] = b"Warning: 399 proxy \"No target answered\"\r\n";

/// A branch begins with the first address of its target: those that do not answer come last.
pub(super) fn sort_hops(now: Time, target: &mut StoredTarget) {
    let Some(watch) = &mut target.watch else { return };
    watch.doubted = watch.is_last();
    let gateway = &watch.gateway;
    if !gateway.has_marks() {
        return;
    }
    gateway.located(now, &target.hops);
    if target.hops.len() > 1 {
        let mut hops = target.hops.to_vec();
        hops.sort_by_key(|hop| gateway.is_marked(hop));
        target.hops = Short::None;
        hops.into_iter().for_each(|hop| target.hops.push(hop));
    }
}

/// The watched target of a branch, and the address that was tried.
fn watched(p: &Proxied, branch: BranchId) -> Option<(&Watch, Flow, usize)> {
    let target = p.target(branch)?;
    let hop = target.hop(branch)?;
    Some((target.watch.as_ref()?, *hop, target.hops.len()))
}

/// A branch's request was sent.
pub(super) fn watch_branch(now: Time, p: &mut Proxied, branch: BranchId, actions: &mut Vec<Action>) {
    let Some((watch, ..)) = watched(p, branch) else { return };
    watch.gateway.sent();
    let patience = if p.invite { watch.patience } else { watch.patience.max(OTHER) };
    p.context.watch(branch, now + patience, actions);
}

impl Forwarder {
    /// Nothing has come on a branch for as long as its target may say nothing.
    pub(super) fn branch_silent<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: BranchId,
        actions: &mut Vec<Action>,
    ) {
        if !p.context.is_silent(branch) {
            return;
        }
        let Some((watch, hop, addresses)) = watched(p, branch) else { return };
        let doubted = watch.doubted;
        step.site.services().count(Counter::TargetSilent);
        self.doubt(step, &watch.gateway, (hop, addresses), Failure::Silent);
        // Where there is nothing else, a target that has answered so far has the time of timer B.
        if p.has_more(branch) || p.replace(branch) || doubted {
            p.context.branch_silent(step.now, branch, actions);
        }
    }

    /// The network says that nobody listens where a branch's request went.
    pub(super) fn branch_unreached<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &Proxied,
        branch: BranchId,
    ) {
        let Some((watch, hop, addresses)) = watched(p, branch) else { return };
        if p.context.is_silent(branch) {
            step.site.services().count(Counter::TargetUnreachable);
            self.doubt(step, &watch.gateway, (hop, addresses), Failure::Unreachable);
        }
    }

    /// An address of a target does not answer; the target has this number of them.
    fn doubt<S: Services>(
        &mut self,
        step: &Step<'_, S>,
        gateway: &Arc<Gateway>,
        (hop, addresses): (Flow, usize),
        failure: Failure,
    ) {
        gateway.failed(step.now, failure);
        if self.prober.has_room() && gateway.mark(step.now, &hop, failure, addresses) {
            step.site.services().target_lost(gateway.uri(), &hop, failure);
            self.prober.begin(step.now, gateway, Flow { conn: None, ..hop });
        }
    }
}

/// A response came on a branch.
#[inline]
pub(super) fn branch_heard<S: Services>(site: &Site<S>, now: Time, p: &Proxied, branch: BranchId) {
    if let Some((watch, hop, _)) = watched(p, branch) {
        target_heard(site, now, &watch.gateway, &hop);
    }
}

/// A target answered with a status for which the next one is tried.
pub(super) fn branch_refused(now: Time, p: &Proxied, branch: BranchId, status: u16) {
    if let Some((watch, ..)) = watched(p, branch) {
        watch.gateway.failed(now, Failure::Status(status));
    }
}

/// Whether a request that ends with a status made here failed because no target of its list answered:
/// that is reported.
pub(super) fn is_lost<S: Services>(site: &Site<S>, p: &Proxied, status: u16) -> bool {
    let ours = p.withheld.overloaded || p.withheld.held_back;
    let dead = status == 500 || status == 503 || status == 408 && p.context.is_unheard();
    let Some(last) = p.targets().last().filter(|_| dead && !ours) else { return false };
    let Some(watch) = &last.watch else { return false };
    let name = last.trunk.as_ref().and_then(|trunk| trunk.get()).map(|trunk| &trunk.name[..]);
    let targets = p.targets().iter().filter_map(|t| Some(t.watch.as_ref()?.gateway.uri()));
    let troubled = Troubled { list: watch.list, name, targets: targets.collect(), status };
    site.services().targets_exhausted(&troubled);
    true
}
