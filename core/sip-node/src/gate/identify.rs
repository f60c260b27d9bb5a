//! Who sent a request (RFC 3261 section 22).

use super::Gate;
use super::anonymous::is_anonymous;
use super::credentials::{Demand, Proven};
use crate::admitted::{Caller, is_beside};
use crate::services::Services;
use crate::site::{Aor, trunk_of_line};
use crate::step::Step;
use sip_auth::Status;
use sip_message::{Method, Uri};
use sip_proxy::token::{Dialog, End, Role};
use sip_transaction::Prepared;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Flow;

impl Gate {
    /// Finds out who sent the request; challenges local users. `None`: answered.
    pub(super) fn identify<'a, S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'a>,
        uri: &Uri<'_>,
        dialog: Option<&Dialog>,
    ) -> Option<(Caller<'a>, Option<Aor<'a>>)> {
        let stranger = Caller::unproven(Role::Stranger);
        let is_register = request.method() == Method::Register;
        if let Some(trunk) = trunk(step, flow, request, uri, dialog).filter(|_| !is_register) {
            return Some((trunk, None));
        }
        // A registration is about the user in To (section 10.2), any other request from the one in From.
        let about = if is_register { request.to_uri() } else { request.from_uri() };
        let aor = step.site.aor_of(about);
        if dialog.is_none() && !is_register {
            step.site.note_unproven(flow, aor.is_some());
        }
        // What answered in place of a user of ours (a mailbox, say) bears the name that was called in the
        // dialog and cannot know that user's password. The token says who it is, and which name that was.
        let called =
            |d: &Dialog| aor.as_ref().is_none_or(|aor| step.site.sealer().mark(aor.text()) == d.called);
        let answerer = dialog.filter(|d| !d.by_caller && called(d)).map(|d| d.sender);
        let here = |s: &End| s.role != Role::Local && s.remote.ip() == flow.remote.ip().to_canonical();
        if let Some(sender) = answerer.filter(here).filter(|_| !step.site.is_from_ourselves(request)) {
            let borrowed = dialog.is_some_and(|d| is_beside(d, flow));
            return Some((Caller { role: sender.role, borrowed, ..stranger }, None));
        }
        let Some(aor) = aor else {
            // A phone of ours that took a call for another server's name bears that name, which has no
            // password here.
            let phone = dialog.filter(|d| !d.by_caller && d.called == 0).map(|d| d.sender);
            let known = phone.is_some_and(|end| {
                end.role == Role::Local && end.remote.ip() == flow.remote.ip().to_canonical()
            });
            let role = if known { Role::Local } else { Role::Stranger };
            return Some((Caller { borrowed: known, ..Caller::unproven(role) }, None));
        };
        let settings = Arc::clone(step.site.settings());
        let auth = &settings.auth;
        let local = Caller::unproven(Role::Local);
        if !auth.enabled {
            return Some((local, Some(aor)));
        }
        if !auth.challenge.covers(request.method().as_bytes()) {
            // Unproven. Nobody gets out of our domain by writing one of our names into From; a phone that
            // is registered at this address has proven enough.
            let known = is_register || step.site.is_at_phone(flow, request);
            return Some((if known { local } else { stranger }, Some(aor)));
        }
        // The callee bears the name that was called, and the call may have been meant for another user.
        let nobody = is_anonymous(aor.user()) && !step.site.services().is_user(aor.user(), aor.domain());
        let bound = is_register || (auth.bind_from && answerer.is_none() && !nobody);
        let realm = auth.realm.as_deref().unwrap_or(aor.domain());
        // A registrar is the user's server and answers 401, a proxy 407 (section 22).
        let status = match is_register && step.site.is_local_host(uri) {
            true => Status::Unauthorized,
            false => Status::ProxyAuthenticationRequired,
        };
        let demand = Demand { settings: &settings, aor: &aor, realm, status, bound };
        let Proven { own, account } = self.authenticate(step, flow, request, &demand)?;
        let account = account.unwrap_or_else(|| aor.clone());
        let realm = auth.realm.clone().map_or_else(|| aor.kept_domain(), Cow::Owned);
        let borrowed = !own && auth.bind_from && (dialog.is_some() || !nobody);
        let caller = Caller { realm: Some(realm), account: Some(account), borrowed, ..local };
        Some((caller, Some(aor)))
    }
}

/// The trunk that sent a request, if one did: by the Contact that this server has registered there, by a name
/// that it has proven, or by its address. Phones may share an address with a trunk; they must prove their
/// registrations like others.
fn trunk<S: Services>(
    step: &Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    uri: &Uri<'_>,
    dialog: Option<&Dialog>,
) -> Option<Caller<'static>> {
    let line = || trunk_of_line(step.site, uri).filter(|_| dialog.is_none());
    let trunk =
        line().or_else(|| step.site.trunk_of(flow)).filter(|_| !step.site.is_from_ourselves(request))?;
    let borrowed = step.site.is_borrowed_by(trunk, flow, dialog);
    Some(Caller { trunk: Some(trunk), borrowed, ..Caller::unproven(Role::Trunk) })
}
