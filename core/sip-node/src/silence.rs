//! Targets that leave requests without any response: what becomes of the branch.

use crate::node::Node;
use crate::outcome::{has_more, replace};
use crate::proxied::{Proxied, Target};
use crate::services::{Counter, Services, Troubled};
use crate::short::Short;
use crate::watch::Watch;
use core::time::Duration;
use sip_health::{Failure, Gateway};
use sip_proxy::context::{Action, BranchId};
use std::sync::Arc;
use wire::{Flow, Time};

/// A live server may say nothing to a request other than INVITE for T2, 4 s (RFC 4320 section 4.1).
const OTHER: Duration = Duration::from_secs(5);

/// Of a call none of whose targets answered (RFC 3261 section 20.43). It names no address.
pub(crate) const NO_TARGET: &[u8] = b"Warning: 399 proxy \"No target answered\"\r\n";

/// A branch begins with the first address of its target: those that do not answer come last.
pub(crate) fn sort_hops(now: Time, target: &mut Target) {
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
    let target = p.targets.get(usize::from(branch.target()))?;
    let hop = target.hops.get(usize::from(branch.attempt()))?;
    Some((target.watch.as_ref()?, *hop, target.hops.len()))
}

impl<S: Services> Node<S> {
    /// A branch's request was sent.
    pub(crate) fn watch_branch(
        &self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        actions: &mut Vec<Action>,
    ) {
        let Some((watch, ..)) = watched(p, branch) else { return };
        watch.gateway.sent();
        let patience = if p.invite { watch.patience } else { watch.patience.max(OTHER) };
        p.context.watch(branch, now + patience, actions);
    }

    /// Nothing has come on a branch for as long as its target may say nothing.
    pub(crate) fn branch_silent(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        actions: &mut Vec<Action>,
    ) {
        if !p.context.is_silent(branch) {
            return;
        }
        let Some((watch, hop, addresses)) = watched(p, branch) else { return };
        let (gateway, doubted) = (Arc::clone(&watch.gateway), watch.doubted);
        self.site.services().count(Counter::TargetSilent);
        self.doubt(now, &gateway, hop, Failure::Silent, addresses);
        // Where there is nothing else, a target that has answered so far has the time of timer B.
        if has_more(p, branch) || replace(p, branch) || doubted {
            p.context.branch_silent(now, branch, actions);
        }
    }

    /// The network says that nobody listens where a branch's request went.
    pub(crate) fn branch_unreached(&mut self, now: Time, p: &Proxied, branch: BranchId) {
        let Some((watch, hop, addresses)) = watched(p, branch) else { return };
        if p.context.is_silent(branch) {
            let gateway = Arc::clone(&watch.gateway);
            self.site.services().count(Counter::TargetUnreachable);
            self.doubt(now, &gateway, hop, Failure::Unreachable, addresses);
        }
    }

    /// An address of a target does not answer.
    fn doubt(&mut self, now: Time, gateway: &Arc<Gateway>, hop: Flow, failure: Failure, addresses: usize) {
        gateway.failed(now, failure);
        if self.prober.has_room() && gateway.mark(now, &hop, failure, addresses) {
            self.site.services().target_lost(gateway.uri(), &hop, failure);
            self.prober.begin(now, gateway, Flow { conn: None, ..hop });
        }
    }

    /// A response came on a branch.
    #[inline]
    pub(crate) fn branch_heard(&self, now: Time, p: &Proxied, branch: BranchId) {
        if let Some((watch, hop, _)) = watched(p, branch) {
            self.target_heard(now, &watch.gateway, &hop);
        }
    }

    /// Something came from an address of a target.
    pub(crate) fn target_heard(&self, now: Time, gateway: &Gateway, hop: &Flow) {
        if gateway.heard(now, hop) {
            self.site.services().target_back(gateway.uri(), hop);
        }
    }

    /// A target answered with a status for which the next one is tried.
    pub(crate) fn branch_refused(&self, now: Time, p: &Proxied, branch: BranchId, status: u16) {
        if let Some((watch, ..)) = watched(p, branch) {
            watch.gateway.failed(now, Failure::Status(status));
        }
    }

    /// Whether a request that ends with a status made here failed because no target of its list answered:
    /// that is reported.
    pub(crate) fn is_lost(&self, p: &Proxied, status: u16) -> bool {
        let ours = p.overloaded || p.held_back;
        let dead = status == 500 || status == 503 || status == 408 && p.context.is_unheard();
        let Some(last) = p.targets.last().filter(|_| dead && !ours) else { return false };
        let Some(watch) = &last.watch else { return false };
        let name = last.trunk.as_ref().and_then(|trunk| trunk.get()).map(|trunk| &trunk.name[..]);
        let targets = p.targets.iter().filter_map(|t| Some(t.watch.as_ref()?.gateway.uri()));
        let troubled = Troubled { list: watch.list, name, targets: targets.collect(), status };
        self.site.services().targets_exhausted(&troubled);
        true
    }
}
