//! Why a request was refused, and by which policy one is forwarded.

use super::Router;
use super::numbers::called_number;
use crate::access::{Asker, Holder};
use crate::admitted::Admitted;
use crate::services::{Counter, Refusal, Services};
use crate::settings::Voicemail;
use crate::uris::max_breadth;
use sip_message::{Message, Method, Name, Via};
use sip_proxy::breadth;
use sip_proxy::context::{Policy, Reroute};
use sip_proxy::loops::read_branch;
use wire::Flow;

impl<S: Services> Router<'_, S> {
    /// Counts and tells of a request that may not go where it wants to.
    pub(crate) fn note_refusal(&self, status: u16, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) {
        if status == 404 && a.caller.trunk.is_some() {
            let why = if self.goes_back(a) { Refusal::Loop } else { Refusal::NotFound };
            self.site.tell(why, request.request_uri(), flow, request);
        }
        if status != 403 {
            return;
        }
        self.site.services().count(Counter::Forbidden);
        let elsewhere = || a.uri.is_sip() && !self.site.is_local_host(&a.uri);
        let at_trunk =
            || matches!(self.site.places().of_uri(self.site.settings(), &a.uri), Some(Holder::Trunk(_)));
        let why = match self.asker(&a.caller) {
            Asker::Trunk if self.lacks_transit(a) => Refusal::Transit,
            Asker::Trunk if elsewhere() => Refusal::Elsewhere,
            Asker::Stranger | Asker::End if elsewhere() => Refusal::Elsewhere,
            Asker::Proven if elsewhere() && at_trunk() => Refusal::Rules,
            _ => Refusal::Target,
        };
        self.site.tell(why, request.request_uri(), flow, request);
    }

    /// Whether a trunk's request was refused that would pass if the trunk's calls might leave again.
    fn lacks_transit(&self, a: &Admitted<'_>) -> bool {
        let number = called_number(self, a);
        let over = self.trunks_of(&number).any(|at| a.caller.trunk != Some(at));
        let holder = self.site.places().of_uri(self.site.settings(), &a.uri);
        let at_home = !a.uri.is_sip() || self.site.is_local_host(&a.uri);
        let by_domain = || {
            self.site
                .settings()
                .trunks
                .iter()
                .any(|t| t.domains.iter().any(|d| d.eq_ignore_ascii_case(a.uri.host)))
        };
        let by_route = || a.routing.next.is_some();
        let routed = || at_home && !self.site.settings().routes.is_empty();
        (over && (at_home || matches!(holder, Some(Holder::Trunk(_)))))
            || routed()
            || by_domain()
            || by_route()
    }

    pub(crate) fn policy(&self, request: &Message<'_>, a: &Admitted<'_>) -> Policy {
        let proxy = &self.site.settings().proxy;
        let invite = request.method() == Method::Invite;
        let base = if invite { Policy::INVITE } else { Policy::OTHER };
        let mut policy = Policy {
            parallel: false,
            serial: !proxy.parallel,
            strict_breadth: self.has_been_here(request),
            breadth: breadth::incoming(max_breadth(request), proxy.max_breadth),
            timer_c_ms: proxy.timer_c_ms,
            ..base
        };
        if let Some(voicemail) = self.voicemail(request, a) {
            policy.voicemail = voicemail.on;
            if voicemail.on.has(Reroute::NO_ANSWER) {
                policy.no_answer_ms = voicemail.no_answer_ms;
            }
        }
        policy
    }

    /// The voicemail of the callee: only a call for one of our users has one, and only while it is being
    /// set up; no emergency call has.
    pub(crate) fn voicemail(&self, request: &Message<'_>, a: &Admitted<'_>) -> Option<&Voicemail> {
        let setup = request.method() == Method::Invite && request.to_tag().is_empty();
        let voicemail = self.site.settings().voicemail.as_ref()?;
        let subscriber =
            || self.is_for_subscriber(a) && !self.site.is_emergency_call(&a.uri, a.routing.request_uri);
        (setup && a.routing.next.is_none() && subscriber()).then_some(voicemail)
    }

    /// Whether a request has passed through this server before (a spiral). Such a one does not wait for
    /// breadth: two users with each other as contacts would keep it alive for as long as Max-Forwards
    /// lasts (RFC 5393 section 5.3.3 lets a proxy answer 440 instead).
    fn has_been_here(&self, request: &Message<'_>) -> bool {
        let ours = |value: &[u8]| {
            Via::parse(value).is_ok_and(|via| {
                let ours = read_branch(via.branch).is_some_and(|branch| self.site.guard().wrote(&branch));
                ours && self.site.settings().is_self(via.host, via.port)
            })
        };
        request.via_count() > 1 && request.values(Name::Via).any(ours)
    }

    fn is_for_subscriber(&self, a: &Admitted<'_>) -> bool {
        let called = self.site.called_aor(&a.uri, a.routing.request_uri);
        called.map(|aor| self.meant(&a.caller, aor)).is_some_and(|aor| {
            !self.site.settings().auth.enabled || self.site.services().is_user(aor.user(), aor.domain())
        })
    }

    /// Whether a trunk's call that was not found would go back to that trunk.
    fn goes_back(&self, a: &Admitted<'_>) -> bool {
        let settings = self.site.settings();
        let Some((at, trunk)) = a.caller.trunk.and_then(|at| Some((at, settings.trunks.get(at)?))) else {
            return false;
        };
        let number = called_number(self, a);
        self.site.is_emergency_call(&a.uri, a.routing.request_uri)
            || self.trunks_of(&number).next() == Some(at)
            || trunk.domains.iter().any(|domain| domain.eq_ignore_ascii_case(a.uri.host))
    }
}
