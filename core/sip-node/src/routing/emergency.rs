//! Targets of emergency calls.

use super::{Plan, Router, Target};
use crate::admitted::Admitted;
use crate::services::Services;
use crate::settings::Bounds;
use crate::uris::with_user;
use crate::watch::List;
use sip_message::Scheme;
use sip_proxy::token::Role;

impl<S: Services> Router<'_, S> {
    /// The targets of an emergency call; `None` if the request is not one. A service URN stays in the
    /// Request-URI (RFC 5031 section 4.1); a number is called at the target. The targets do not count as a
    /// trunk, so no trunk's overload feedback reduces these calls. A call from a trunk does not go back to
    /// it.
    pub(crate) fn emergency_targets(&self, a: &Admitted<'_>) -> Option<Plan> {
        let emergency = self.site.settings().emergency.as_ref()?;
        if !self.site.is_emergency_call(&a.uri, a.routing.request_uri) {
            return None;
        }
        if a.caller.role == Role::Stranger && !emergency.strangers {
            return Some(Plan::Refuse(403));
        }
        let number = a.uri.user.and_then(|user| user.split(|&b| b == b';').next()).unwrap_or(b"");
        let silent_after = emergency.silent_after_ms;
        let back = |uri: &&Vec<u8>| {
            let trunk = a.caller.trunk;
            trunk.is_some_and(|at| self.site.places().leads_to_trunk(self.site.settings(), uri, at))
        };
        let targets = emergency.targets.iter().filter(|uri| !back(uri)).map(|uri| {
            let target = match a.uri.scheme {
                Scheme::Other(_) => Target::located(a.routing.request_uri, Role::Trunk, Bounds::Anywhere),
                _ => Target::located(&with_user(uri, number), Role::Trunk, Bounds::Anywhere),
            };
            let watch = self.site.settings().watch(uri, List::Emergency, silent_after);
            Target { locate: uri.clone(), watch, ..target }
        });
        Some(Target::chain(targets).map_or(Plan::Refuse(404), |target| Plan::Forward(vec![(1000, target)])))
    }
}
