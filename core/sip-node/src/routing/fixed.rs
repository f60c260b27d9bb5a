//! Static routes: what the operator decided about a domain, a prefix or a number.

use crate::access::{Access, By, Place, access};
use crate::admitted::Admitted;
use crate::routing::{Ask, Plan, Router, Target, redirection};
use crate::services::Services;
use crate::settings::{Bounds, Route, RouteAction};
use crate::uris::{is_same, push_bracketed, with_user};
use crate::watch::{List, Watch};
use sip_message::{Message, Uri};
use sip_proxy::token::Role;
use wire::{Flow, Time};

impl<S: Services> Router<'_, S> {
    /// The first static route that matches. Those that lead out are for who may go out: to a fixed URI or
    /// into our own domains a trunk may call, with the called number to another host only our own users and
    /// trunks that may transit.
    pub(crate) fn static_route(
        &self,
        now: Time,
        near: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        (domain, user): (&[u8], &[u8]),
    ) -> Option<Plan> {
        let route = self.site.settings().routes.iter().find(|r| {
            r.domain.as_deref().is_none_or(|d| d == domain)
                && r.prefix.as_deref().is_none_or(|p| user.starts_with(p))
                && r.user.as_deref().is_none_or(|u| u == user)
        })?;
        Some(match &route.action {
            RouteAction::Redirect(contacts) => {
                let mut list = Vec::new();
                for contact in contacts.iter().filter(|c| !is_same(&a.uri, c)) {
                    push_bracketed(contact, &mut list);
                }
                redirection(list)
            }
            RouteAction::Forward(uris) => {
                // A static route leads out of the domain, wherever the called user seems to be.
                let open = access(self.asker(&a.caller), By::Aor, Place::Elsewhere) == Access::Open;
                let closed = !open && (a.caller.role != Role::Trunk || self.leads_out(route, uris));
                if closed {
                    return Some(Plan::Refuse(403));
                }
                let mut uris: Vec<_> = uris
                    .iter()
                    .map(|uri| (uri, self.site.settings().watch(uri, List::Route, route.silent_after_ms)))
                    .collect();
                uris.sort_by_key(|(_, watch)| watch.as_ref().is_some_and(Watch::is_last));
                // Each in the place of the one before; the phones of one of our users all at once.
                let mut all: Vec<(u16, Target)> = Vec::new();
                for (uri, watch) in uris {
                    let dialled = with_user(uri, user);
                    let phones = match self.of_user(now, near, request, &dialled) {
                        Ok(phones) => phones,
                        Err(ask) => return Some(Plan::Ask(ask)),
                    };
                    let targets = phones.unwrap_or_else(|| {
                        let target = Target::located(&dialled, Role::Trunk, Bounds::Anywhere);
                        let headers = self.site.rules().of_place(uri);
                        vec![(1000, Target { locate: uri.clone(), headers, watch, ..target })]
                    });
                    match all.last_mut() {
                        None => all = targets,
                        Some((_, last)) => targets.into_iter().for_each(|(_, target)| last.append(target)),
                    }
                }
                if all.is_empty() { Plan::Offline } else { Plan::Forward(all) }
            }
        })
    }

    /// The phones of one of our users whom a URI of the operator names. Sent by way of this server's own
    /// address, a call would come without the credentials that it came with. `None`: it names no user
    /// of ours. An error: the bindings must be asked for.
    fn of_user(
        &self,
        now: Time,
        near: Flow,
        request: &Message<'_>,
        uri: &[u8],
    ) -> Result<Option<Vec<(u16, Target)>>, Ask> {
        let Some(aor) = self.site.aor_of(uri) else { return Ok(None) };
        let phones = self.bound(now, near, self.site.grown(near, request), &aor)?;
        let known = !phones.is_empty() || self.site.services().is_user(aor.user(), aor.domain());
        Ok(known.then_some(phones))
    }

    /// Whether a static route takes whatever number was called to another host.
    fn leads_out(&self, route: &Route, targets: &[Vec<u8>]) -> bool {
        let open = |uri: Uri<'_>| uri.user.is_none() && !self.site.is_local_host(&uri);
        route.user.is_none() && targets.iter().any(|target| Uri::parse(target).is_ok_and(open))
    }
}
