//! Targets that are trunks.

use super::{Plan, Target};
use crate::access::{Access, Asker, By, Holder, Place, access};
use crate::admitted::{Admitted, Caller};
use crate::numbers::plain;
use crate::random::Random;
use crate::routing::Router;
use crate::services::Services;
use crate::settings::{Bounds, Trunk};
use crate::trunk_ref::TrunkRef;
use crate::uris::{leads_to, with_user};
use crate::watch::List;
use sip_message::{Message, Name, Uri, canonical_user, user_after};
use sip_proxy::locate::order_of;
use sip_proxy::token::Role;

/// Targets of a request. As many as a response context has.
const MOST_TARGETS: usize = 64;

impl<S: Services> Router<'_, S> {
    /// A Route that names a trunk's address: what the trunk's rules allow for the number in the Request-URI,
    /// at the target that the Route names, and no further.
    pub(super) fn routed_over_trunk(
        &self,
        request: &Message<'_>,
        a: &Admitted<'_>,
        route: Option<&Uri<'_>>,
    ) -> Plan {
        let last =
            request.values(Name::Route).count() == a.routing.own + 1 + usize::from(a.routing.drop_last);
        let number = canonical_user(a.uri.user.unwrap_or(b""));
        let number = plain(is_phone(&a.uri), &number);
        let at = self.trunk_for(&a.caller, &number).filter(|_| last && a.routing.next_is_loose);
        let trunk = at.and_then(|at| Some((at, self.site.settings().trunks.get(at)?)));
        let Some((at, trunk)) = trunk else { return Plan::Refuse(403) };
        let route = route.map(leads_to);
        let named = |uri: &&Vec<u8>| Uri::parse(uri).ok().as_ref().map(leads_to) == route;
        let Some(uri) = trunk.targets.iter().find(named) else { return Plan::Refuse(403) };
        let target =
            Target::located(&with_user(uri, &rewritten(trunk, &number)), Role::Trunk, Bounds::Anywhere);
        Plan::Forward(vec![(1000, self.by_trunk(at, trunk, uri, target))])
    }

    /// A trunk's address in the Request-URI: as if the number was dialled here, if it would go over that
    /// trunk.
    pub(super) fn over_named_trunk(&self, a: &Admitted<'_>) -> Plan {
        let number = canonical_user(a.uri.user.unwrap_or(b""));
        let number = plain(is_phone(&a.uri), &number);
        let named = self.site.places().of_uri(self.site.settings(), &a.uri);
        match self.trunk_for(&a.caller, &number) {
            Some(at) if named == Some(Holder::Trunk(at)) => self.over_trunks([at].into_iter(), &number),
            _ => Plan::Refuse(403),
        }
    }

    /// By way of the trunks that a called number is for, if there are any.
    pub(super) fn by_prefix(&self, a: &Admitted<'_>, number: &[u8]) -> Option<Plan> {
        let number = plain(is_phone(&a.uri), number);
        // Back over the trunk that it came from would be a loop: without others the number is nobody's.
        let mut trunks = self.trunks_of(&number).filter(|at| a.caller.trunk != Some(*at)).peekable();
        trunks.peek()?;
        Some(match may_use_trunks(self.asker(&a.caller)) {
            true => self.over_trunks(trunks, &number),
            false => Plan::Refuse(403),
        })
    }

    /// The trunk that a called number goes over first, if this caller may use it.
    pub(super) fn trunk_for(&self, caller: &Caller<'_>, number: &[u8]) -> Option<usize> {
        let may = may_use_trunks(self.asker(caller));
        self.trunks_of(number).next().filter(|at| may && caller.trunk != Some(*at))
    }

    /// The trunks that a called number goes over, in the order in which they are tried.
    pub(crate) fn trunks_of<'n>(&'n self, number: &'n [u8]) -> impl Iterator<Item = usize> + 'n {
        let (numbers, trunks) = (&self.site.numbers, &self.site.settings().trunks);
        numbers.decisive(trunks, number).into_iter().flat_map(move |decisive| numbers.trunks(decisive))
    }

    /// The targets of trunks, in failover order.
    pub(super) fn over_trunks(&self, trunks: impl Iterator<Item = usize>, number: &[u8]) -> Plan {
        let mut targets = Vec::new();
        for at in trunks {
            let Some(trunk) = self.site.settings().trunks.get(at) else { continue };
            let user = rewritten(trunk, number);
            targets.extend(in_order(trunk, self.random).map(|uri| {
                let target = Target::located(&with_user(uri, &user), Role::Trunk, Bounds::Anywhere);
                self.by_trunk(at, trunk, uri, target)
            }));
        }
        targets.truncate(MOST_TARGETS);
        match Target::chain(targets.into_iter()) {
            Some(target) => Plan::Forward(vec![(1000, target)]),
            None => Plan::Refuse(404),
        }
    }

    /// A target that is reached at this URI of a trunk.
    fn by_trunk(&self, at: usize, trunk: &Trunk, uri: &[u8], target: Target) -> Target {
        let watch = self.site.settings().watch(uri, List::Trunk, trunk.silent_after_ms);
        let trunk_ref = Some(TrunkRef::new(self.site.settings(), at));
        Target { locate: uri.to_vec(), trunk: trunk_ref, headers: trunk.headers.clone(), watch, ..target }
    }

    /// The targets of a trunk that serves a domain. They are next hops, not the callee, so the Request-URI
    /// keeps the domain (section 16.5); digits are changed as the trunk requires.
    pub(super) fn over_domain_trunk(&self, at: usize, a: &Admitted<'_>) -> Plan {
        let trunk = self.site.settings().trunks.get(at).filter(|_| a.caller.trunk != Some(at));
        let Some(trunk) = trunk else { return Plan::Refuse(404) };
        let mut uri = a.routing.request_uri.to_vec();
        if let Some(user) = a.uri.user
            && (trunk.strip > 0 || !trunk.prepend.is_empty() || trunk.numbers.is_some())
            && let Some(colon) = uri.iter().position(|&b| b == b':')
            && uri[colon + 1..].starts_with(user)
        {
            // The user always follows the scheme.
            let start = colon + 1;
            uri.splice(start..start + user.len(), rewritten(trunk, user));
        }
        let targets = in_order(trunk, self.random).map(|next_hop| {
            let target = Target::located(&uri, Role::Trunk, Bounds::Anywhere);
            self.by_trunk(at, trunk, next_hop, target)
        });
        Plan::Forward(Target::chain(targets).map(|target| (1000, target)).into_iter().collect())
    }
}

/// The targets of a trunk in the order in which a call tries them: as they are listed, or drawn by priority
/// and weight (RFC 2782).
fn in_order<'t>(trunk: &'t Trunk, random: &Random) -> impl DoubleEndedIterator<Item = &'t Vec<u8>> + use<'t> {
    let (listed, drawn) = match trunk.weights.is_empty() {
        true => (&trunk.targets[..], Vec::new()),
        false => (&[][..], order_of(&trunk.weights, random.next())),
    };
    listed.iter().chain(drawn.into_iter().filter_map(move |at| trunk.targets.get(at)))
}

/// Whether calls of an asker may go over trunks.
fn may_use_trunks(asker: Asker) -> bool {
    access(asker, By::Aor, Place::Trunk) == Access::Rules
}

/// Whether a URI says that its user is a telephone number (RFC 3261 section 19.1.1).
fn is_phone(uri: &Uri<'_>) -> bool {
    uri.param(b"user").is_some_and(|user| user.eq_ignore_ascii_case(b"phone"))
}

/// The called number as a trunk wants it.
fn rewritten(trunk: &Trunk, number: &[u8]) -> Vec<u8> {
    let user = [&trunk.prepend[..], user_after(number, trunk.strip)].concat();
    let Some(plan) = &trunk.numbers else { return user };
    let mut written = Vec::with_capacity(user.len() + 4);
    plan.write(&user, &mut written);
    written
}
