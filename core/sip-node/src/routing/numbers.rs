//! Numbers as they are dialled, and as routes, prefixes and users have them.

use super::Router;
use crate::admitted::{Admitted, Caller};
use crate::services::Services;
use crate::site::Aor;
use sip_message::canonical_user;

impl<S: Services> Router<'_, S> {
    /// The address-of-record that is meant by a dialled one: that of the number in E.164, by how numbers are
    /// dialled at the trunk or in the domain that the request came from. A user of the very name comes first.
    pub(super) fn meant<'u>(&self, caller: &Caller<'_>, aor: Aor<'u>) -> Aor<'u> {
        let plan = self.site.rules().number_plan(caller.trunk, aor.domain());
        match plan.and_then(|plan| plan.read(aor.user())) {
            Some(number) if !self.site.services().is_user(aor.user(), aor.domain()) => {
                Aor::new(number.iter().copied(), aor.domain())
            }
            _ => aor,
        }
    }
}

/// The number that a request is for.
pub(super) fn called_number<S: Services>(router: &Router<'_, S>, a: &Admitted<'_>) -> Vec<u8> {
    match router.site.called_aor(&a.uri, a.routing.request_uri) {
        Some(aor) => router.meant(&a.caller, aor).user().to_vec(),
        None => canonical_user(a.uri.user.unwrap_or(b"")).into_owned(),
    }
}
