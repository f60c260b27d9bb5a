//! Callers that suppress their name. See docs/design/anonymous.md.

use super::Gate;
use super::credentials::Demand;
use crate::admitted::{Admitted, Caller};
use crate::ingress::may_prove;
use crate::routing::Plan;
use crate::services::{Counter, Refusal, Services};
use crate::site::{Aor, Site};
use crate::step::Step;
use crate::uris::undotted;
use sip_auth::Status;
use sip_message::{AuthParams, Message, Method, Name, NameAddr, Uri};
use sip_proxy::token::{Dialog, Role};
use sip_transaction::Prepared;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Flow;

/// What phones write for the user whose name is suppressed (RFC 3323 section 4.1.1.3).
const ANONYMOUS: &[u8] = b"anonymous";

/// Whether this is the user part of a name that is suppressed.
pub(super) const fn is_anonymous(user: &[u8]) -> bool {
    user.eq_ignore_ascii_case(ANONYMOUS)
}

/// Whether a From names nobody.
fn names_nobody(from: &[u8]) -> bool {
    Uri::parse(from).is_ok_and(|uri| {
        let host = undotted(uri.host);
        let last = host.rsplit(|&b| b == b'.').next().unwrap_or(b"");
        last.eq_ignore_ascii_case(b"invalid") || uri.user.is_some_and(is_anonymous)
    })
}

impl Gate {
    /// Challenges a caller without a name where proof may open the way, or where it brings credentials of
    /// ours. What strangers may send needs no proof. `None`: answered.
    pub(super) fn unmask<'a, S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'a>,
        mut a: Admitted<'a>,
    ) -> Option<Admitted<'a>> {
        let method = request.method();
        let asked = a.caller.role == Role::Stranger && a.dialog.is_none() && method != Method::Register;
        if !asked || !names_nobody(request.from_uri()) {
            return Some(a);
        }
        let masked = Masked { step, request, a: &a };
        let brought = masked.domain_brought();
        if brought.is_none() && !masked.is_refused(flow) {
            return Some(a);
        }
        let domain = brought.or_else(|| masked.domain_meant());
        let settings = Arc::clone(step.site.settings());
        let auth = &settings.auth;
        let local = Caller::unproven(Role::Local);
        if !auth.enabled || !auth.challenge.covers(method.as_bytes()) {
            if !auth.enabled || step.site.is_at_phone(flow, request) {
                a.caller = local;
            }
            return Some(a);
        }
        let Some(domain) = domain else { return Some(a) };
        a.caller = self.prove(step, flow, request, &domain)?;
        Some(a)
    }

    /// Judges a request from a user's end of a dialog, under a name that is not ours. If the dialog knows
    /// that end by such a name, its sender may prove itself (section 22.3): the phone may have moved. `None`:
    /// answered.
    pub(super) fn own_phone<'a, S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'a>,
        dialog: Option<&Dialog>,
    ) -> Option<Caller<'a>> {
        let settings = step.site.settings();
        let covers = settings.auth.challenge.covers(request.method().as_bytes());
        // It may have dialled in its own domain.
        let dialled = || Some(step.site.aor_of(request.to_uri())?.domain().to_vec());
        let default = || settings.domains.first().cloned();
        let meant = || preferred_domain(step.site, request).or_else(dialled).or_else(default);
        let domain = domain_brought(step.site, request, meant).or_else(meant);
        let Some(domain) = domain.filter(|_| covers && dialog.is_some_and(may_prove)) else {
            step.site.services().count(Counter::Forbidden);
            step.refuse(flow, request, 403, b"", b"");
            return None;
        };
        let caller = self.prove(step, flow, request, &domain)?;
        Some(Caller { borrowed: true, ..caller })
    }

    /// Asks for the credentials of any user of a domain. `None`: answered.
    fn prove<'a, S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'a>,
        domain: &[u8],
    ) -> Option<Caller<'a>> {
        let settings = Arc::clone(step.site.settings());
        let auth = &settings.auth;
        let realm = auth.realm.clone().unwrap_or_else(|| domain.to_vec());
        // Its domain completes the user name in the credentials.
        let aor = Aor::new(ANONYMOUS.iter().copied(), domain);
        let status = Status::ProxyAuthenticationRequired;
        let demand = Demand { settings: &settings, aor: &aor, realm: &realm, status, bound: false };
        // A user may have this name.
        let account = self.authenticate(step, flow, request, &demand)?.account.unwrap_or(aor);
        let realm = Some(Cow::Owned(realm));
        Some(Caller { realm, account: Some(account), ..Caller::unproven(Role::Local) })
    }
}

/// A stranger's request without a name.
struct Masked<'n, 'a, S> {
    step: &'n Step<'n, S>,
    request: &'n Message<'a>,
    a: &'n Admitted<'a>,
}

impl<S: Services> Masked<'_, '_, S> {
    /// Whether it gets 403 because a stranger sent it.
    fn is_refused(&self, flow: Flow) -> bool {
        let Masked { step, request, a } = self;
        if step.site.is_own_request(request.method(), &a.uri, &a.routing) {
            return false;
        }
        match step.ingress().bars(flow, request, a) {
            Some(why) => why != Refusal::NoDialog,
            None => {
                matches!(
                    step.router().plan_into(&mut Vec::new(), step.now, flow, request, a),
                    Plan::Refuse(403)
                )
            }
        }
    }

    /// The domain of ours whose credentials it brings.
    fn domain_brought(&self) -> Option<Vec<u8>> {
        domain_brought(self.step.site, self.request, || self.domain_meant())
    }

    /// The domain that the caller is most likely of: by its P-Preferred-Identity, by the one that it dialled
    /// in, or the default domain.
    fn domain_meant(&self) -> Option<Vec<u8>> {
        let Masked { step, request, a } = self;
        let dialled = || Some(step.site.called_aor(&a.uri, a.routing.request_uri)?.domain().to_vec());
        let preferred = preferred_domain(step.site, request);
        preferred.or_else(dialled).or_else(|| step.site.settings().domains.first().cloned())
    }
}

/// The domain of ours whose credentials a request brings; `meant`, if one realm serves all of them.
fn domain_brought<S: Services>(
    site: &Site<S>,
    request: &Message<'_>,
    meant: impl FnOnce() -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let realms = request.headers(Name::ProxyAuthorization);
    let realms = realms.filter_map(|h| AuthParams::parse(h.value)?.get(b"realm"));
    let realm = realms.into_iter().find(|realm| site.is_our_realm(realm))?;
    if site.settings().auth.realm.is_some() {
        return meant();
    }
    let known = site.settings().domains.iter().find(|domain| domain.eq_ignore_ascii_case(realm));
    Some(known.cloned().unwrap_or_else(|| realm.to_ascii_lowercase()))
}

/// The domain of ours that a request names in P-Preferred-Identity (RFC 3325 section 9.2).
fn preferred_domain<S: Services>(site: &Site<S>, request: &Message<'_>) -> Option<Vec<u8>> {
    request.values(Name::PPreferredIdentity).find_map(|value| {
        let uri = NameAddr::parse(value).ok()?.uri;
        Some(site.aor_of(uri)?.domain().to_vec())
    })
}
