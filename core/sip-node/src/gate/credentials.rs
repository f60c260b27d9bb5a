//! Credentials: what is demanded, what comes of them, and challenges (RFC 3261 section 22).

use super::{Gate, malformed};
use crate::replies::retry_after;
use crate::services::{Counter, Refusal, Services};
use crate::settings::Settings;
use crate::site::Aor;
use crate::step::Step;
use core::mem;
use sip_auth::{Decision, Status};
use sip_message::{Method, Name, Uri, same_user};
use sip_transaction::Prepared;
use wire::Flow;

/// The credentials that a request needs.
pub(super) struct Demand<'d> {
    pub settings: &'d Settings,
    /// The user that the request is about.
    pub aor: &'d Aor<'d>,
    pub realm: &'d [u8],
    /// How the challenge is sent: 401 or 407.
    pub status: Status,
    /// They must be those of the user in `aor`.
    pub bound: bool,
}

/// The user whose credentials were accepted.
pub(super) struct Proven {
    /// The request is about this user.
    pub own: bool,
    /// Its address-of-record, if it is not the one that the request was said to be about.
    pub account: Option<Aor<'static>>,
}

impl Proven {
    /// Of a request about `aor`. A name without a domain is of the domain `home`.
    fn of(user: &sip_auth::Name, aor: &Aor<'_>, home: &[u8]) -> Proven {
        let is = |domain: &[u8]| domain.eq_ignore_ascii_case(aor.domain());
        let own = same_user(user.user(), aor.user()) && user.domain().is_none_or(is);
        let domain = user.domain().unwrap_or(home);
        if own && is(domain) {
            return Proven { own, account: None };
        }
        let account = Aor::new(user.user().iter().copied(), &domain.to_ascii_lowercase());
        Proven { own, account: Some(account) }
    }
}

impl Gate {
    /// Checks the credentials of a request. `None`: answered.
    pub(super) fn authenticate<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        demand: &Demand<'_>,
    ) -> Option<Proven> {
        let &Demand { settings, aor, realm, status, bound } = demand;
        // The digest `uri` of several clients (SIPp among them) is the address they send to.
        let names_server = |uri: &[u8]| {
            let is_self = |uri: Uri<'_>| uri.user.is_none() && settings.is_self(uri.host, uri.port);
            settings.is_own_text(uri) || Uri::parse(uri).is_ok_and(is_self)
        };
        let source = settings.auth.source(flow.remote.ip(), request);
        let about = sip_auth::Request {
            method: request.method().as_bytes(),
            uri: request.request_uri(),
            realm,
            home: step.site.home(aor, realm),
            source,
            // Behind a front the port is the front's.
            peer: Some(flow.remote).filter(|peer| peer.ip().to_canonical() == source),
            now: step.now,
            names_server: &names_server,
        };
        let name = match status {
            Status::Unauthorized => Name::Authorization,
            Status::ProxyAuthenticationRequired => Name::ProxyAuthorization,
        };
        let mut values = request.headers(name).map(|h| h.value);
        let decision = step.site.services().check(&settings.auth.authenticator, &about, &mut values);
        let stale = match decision {
            Decision::Accepted { user } => {
                let proven = Proven::of(&user, aor, about.home);
                if proven.own || !bound {
                    step.site.services().count(Counter::Authenticated);
                    return Some(proven);
                }
                return other_user(step, flow, request, aor, &about);
            }
            Decision::Bad(reason) => {
                step.site.services().refused(Refusal::Unreadable(reason), aor.text(), source);
                return malformed(step, flow, request, reason.as_bytes());
            }
            Decision::Throttled { retry_after } => {
                step.site.services().refused(Refusal::Throttled, aor.text(), source);
                step.site.services().count(Counter::Throttled);
                step.site.count_unregistered(request, Counter::RegisterHeldOff);
                return hold_off(step, flow, request, retry_after);
            }
            Decision::Wrong { retry_after } => {
                step.site.services().count(Counter::WrongCredentials);
                step.site.count_unregistered(request, Counter::RegisterCredentials);
                step.site.services().refused(Refusal::WrongCredentials, aor.text(), source);
                if retry_after > 0 {
                    return hold_off(step, flow, request, retry_after);
                }
                false
            }
            Decision::Challenge { stale } => {
                if stale {
                    step.site.services().refused(Refusal::Stale, aor.text(), source);
                }
                stale
            }
        };
        self.challenge(step, flow, request, demand, (&about, stale));
        None
    }

    fn challenge<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        demand: &Demand<'_>,
        (about, stale): (&sip_auth::Request<'_>, bool),
    ) {
        step.site.services().count(Counter::Challenged);
        if step.overload.sheds() && request.method() != Method::Invite {
            step.challenges(flow, request.call_id());
        }
        let mut lines = mem::take(step.scratch);
        lines.clear();
        let authenticator = &demand.settings.auth.authenticator;
        let minted = authenticator.challenge(demand.status, about, stale, self.serial.next(), &mut lines);
        step.site.services().challenged(demand.realm, minted);
        step.refuse(flow, request, demand.status.code(), b"", &lines);
        *step.scratch = lines;
    }
}

/// Answers that the credentials are another user's.
fn other_user<S: Services, T>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    aor: &Aor<'_>,
    about: &sip_auth::Request<'_>,
) -> Option<T> {
    step.site.services().count(Counter::Forbidden);
    step.site.services().refused(Refusal::OtherUser, aor.text(), about.source);
    step.site.count_unregistered(request, Counter::RegisterForbidden);
    step.answer_once(flow, request, (403, b"Credentials Of Another User"), b"");
    None
}

/// Refuses a request whose sender answered wrongly too often. Phones show 403 and stop. 500 or 503 would
/// mean a failure of this server: a proxy on the way would try another one, or after 503 send this one
/// nothing at all for that time (section 21.5.4).
fn hold_off<S: Services, T>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    seconds: u32,
) -> Option<T> {
    step.refuse(flow, request, 403, b"Too Many Wrong Credentials", &retry_after(seconds));
    None
}
