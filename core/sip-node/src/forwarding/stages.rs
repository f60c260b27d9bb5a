//! The target set of a forwarded request, one callee after the other.

use super::proxied::Proxied;
use crate::diverting::{Diverting, Trail};
use crate::routing::Target;
use crate::services::Services;
use crate::step::Step;

/// Adds targets to the target set, with the forwardings that led to each of them.
pub(super) fn add_targets<S: Services>(
    step: &mut Step<'_, S>,
    proxied: &mut Proxied,
    mut targets: Vec<(u16, Target)>,
    trails: &[Option<Trail>],
) {
    let parallel = step.site.settings().proxy.parallel;
    for (rank, (q, target)) in targets.drain(..).enumerate() {
        // One after the other: they come in order of falling q, so each gets a group of its own.
        let q = if parallel { q } else { 1000u16.saturating_sub(u16::try_from(rank).unwrap_or(1000)) };
        if proxied.context.add_target(q).is_some() {
            proxied.push_target(target);
            proxied.set_trail(trails.get(rank).cloned().flatten());
        }
    }
    step.recycle(targets);
}

/// The targets that are added next are those of the present callee.
pub(super) fn enter<S: Services>(step: &Step<'_, S>, p: &mut Proxied, call: &Diverting) {
    p.context.enter(call.ring_ms(step.site.settings().proxy.forwarding.ring_ms), call.reasons());
    if call.is_at_mailbox() {
        p.context.forgo_voicemail();
    }
}
