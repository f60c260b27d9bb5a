//! A 3xx whose Contacts become targets (RFC 3261 section 16.7 step 4).

use super::proxied::{Proxied, Recording};
use crate::routing::{Limiter, Target};
use crate::services::Services;
use crate::settings::Bounds;
use crate::site::Aor;
use crate::step::Step;
use crate::uris::is_sips;
use sip_message::{Index, Limits, Message, Name, NameAddr, Parsed, Uri, parse};
use sip_proxy::context::BranchId;
use sip_proxy::token::Role;
use sip_registrar::parse_q;

/// Takes the Contacts of a 3xx over as targets (section 16.7 step 4); `false`: pass it on. Only for
/// callers who might have called those targets themselves.
pub(super) fn recurse<S: Services>(
    step: &Step<'_, S>,
    proxied: &mut Proxied,
    branch: BranchId,
    response: &Message<'_>,
) -> bool {
    let recurses = step.site.settings().proxy.recurse && proxied.upstream.role == Role::Local;
    // The sender of a request within a dialog may not be known well enough to choose a target.
    if !recurses || proxied.upstream.key.is_within() || proxied.context.is_answered() {
        return false;
    }
    // A 3xx from one of the schemes sip and sips to the other is passed on: the caller decides (RFC 5630
    // section 5.3).
    let mut contacts = response.values(Name::Contact).filter_map(|value| NameAddr::parse(value).ok());
    if contacts.any(|contact| is_sips(contact.uri) != proxied.edits.sips) {
        return false;
    }
    let from = proxied.target(branch);
    let from = from.and_then(|target| target.hop(branch));
    let bounds = from.map_or(Bounds::Outside, |hop| Bounds::of(hop.remote));
    let at_home = from.and_then(|hop| step.site.places().at(step.site.settings(), hop.remote));
    let mut targets = Vec::new();
    for value in response.values(Name::Contact).take(16) {
        let Ok(contact) = NameAddr::parse(value) else { continue };
        let Ok(uri) = Uri::parse(contact.uri) else { continue };
        if !uri.is_sip() || !uri.headers.is_empty() {
            continue;
        }
        let q = contact.param(b"q").and_then(parse_q).unwrap_or(1000);
        match step.site.local_aor(&uri, contact.uri) {
            Some(aor) => {
                let size = proxied.request().len()
                    + step
                        .site
                        .growth(proxied.upstream.source, proxied.edits.record_route == Recording::Always);
                let bound = step.router().bound(step.now, proxied.upstream.source, size, &aor);
                targets.extend(bound.into_iter().flatten().map(|(_, target)| (q, target)));
            }
            // A trunk may redirect to another host of its own.
            None => {
                let same =
                    at_home.is_some() && step.site.places().of_uri(step.site.settings(), &uri) == at_home;
                if !follows(step, proxied, &uri, same) {
                    continue;
                }
                let role = if same { Role::Trunk } else { Role::Stranger };
                // Who is no target of the operator's may name a host that never asked for calls.
                let elsewhere = at_home.is_none();
                targets.push((q, Target { elsewhere, ..Target::located(contact.uri, role, bounds) }));
            }
        }
    }
    // In the order that the 3xx prefers; equal ones as they stand.
    targets.sort_by_key(|(q, _)| core::cmp::Reverse(*q));
    // What led to who redirects led to these.
    let trail = proxied.target(branch).and_then(|target| target.trail.clone());
    let mut added = false;
    for (q, target) in targets {
        let known = proxied.targets().iter().any(|t| *proxied.text(&t.uri) == *target.uri);
        // One after the other: before what waits, in the order of their q.
        let q = if step.site.settings().proxy.parallel { q } else { 1000 };
        if !known && proxied.context.add_target(q).is_some() {
            proxied.push_target(target);
            proxied.set_trail(trail.clone());
            added = true;
        }
    }
    added
}

/// Whether the class of the caller lets its call follow a 3xx to this URI.
fn follows<S: Services>(step: &Step<'_, S>, proxied: &Proxied, uri: &Uri<'_>, same: bool) -> bool {
    let Some(limiter) = Limiter::new(step.site, step.now) else { return true };
    let account = proxied.edits.account.as_ref().map(|account| Aor::of_text(proxied.text(account)));
    match parse(proxied.request(), &mut Index::new(), &Limits::READ_BEFORE) {
        Parsed::Good(request) | Parsed::Bad(request, _) => limiter.may_follow(&request, account, uri, same),
        Parsed::Garbage(_) => false,
    }
}
