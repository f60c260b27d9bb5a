//! How a request is addressed.

use super::Ingress;
use super::strangers::commands_a_phone;
use crate::admitted::{Addressing, Caller};
use crate::services::Services;
use sip_message::{AuthParams, Malformed, Message, Method, Name, Uri, UriError, plain_aor};
use sip_proxy::routes::{Routing, preprocess};
use sip_proxy::token::{Dialog, Role};
use sip_registrar::Expected;
use wire::Flow;

/// Whether the dialog knows the sender's end by a name that is none of ours. If it is a user of ours all the
/// same, that can be proven.
pub(crate) const fn may_prove(dialog: &Dialog) -> bool {
    (if dialog.by_caller { dialog.calling } else { dialog.called }) == 0
}

impl<S: Services> Ingress<'_, S> {
    /// Whether a sender at a user's end of a dialog, under a name that is not ours, must prove that it is a
    /// user. From another address the token may have been overheard. A request that commands a phone needs
    /// more than the right address. Credentials are always checked.
    pub(crate) fn must_prove(
        &self,
        flow: Flow,
        request: &Message<'_>,
        dialog: Option<&Dialog>,
        caller: &Caller<'_>,
    ) -> bool {
        let auth = &self.site.settings().auth;
        let stranger = caller.role == Role::Stranger;
        let unproven = stranger || caller.role == Role::Local && caller.realm.is_none();
        let Some(dialog) = dialog.filter(|d| auth.enabled && unproven && d.sender.role == Role::Local) else {
            return false;
        };
        if stranger && dialog.sender.remote.ip() != flow.remote.ip().to_canonical() {
            return true;
        }
        may_prove(dialog)
            && auth.challenge.covers(request.method().as_bytes())
            && (stranger && commands_a_phone(request.method()) || self.brings_credentials(request))
    }

    /// Whether a request brings credentials of one of our domains.
    fn brings_credentials(&self, request: &Message<'_>) -> bool {
        let realms = request.headers(Name::ProxyAuthorization);
        let mut realms = realms.filter_map(|h| AuthParams::parse(h.value)?.get(b"realm"));
        realms.any(|realm| self.site.is_our_realm(realm))
    }

    /// Reads how a request is addressed.
    #[inline]
    pub(crate) fn addressing<'a>(&self, request: &Message<'a>) -> Addressing<'a> {
        let read = self.routing(request);
        let token = read.as_ref().ok().and_then(|(routing, _)| routing.token);
        let dialog = token.and_then(|token| {
            self.site.sealer().open(token, request.call_id(), request.from_tag(), request.to_tag())
        });
        Addressing { read, dialog }
    }

    /// Guesses the callee's AOR so that its bindings can be prefetched.
    #[inline]
    pub(crate) fn expect_callee(&self, request: &Message<'_>) -> Option<Expected> {
        if request.method() != Method::Invite || !request.to_tag().is_empty() {
            return None;
        }
        // It is likely to be challenged first.
        if self.site.settings().auth.enabled && request.header(Name::ProxyAuthorization).is_none() {
            return None;
        }
        let mut domains = self.site.settings().domains.iter();
        let aor = domains.find_map(|domain| plain_aor(request.request_uri(), domain))?;
        self.site.services().expect(aor)
    }

    /// What the Route set and the Request-URI mean here (section 16.4), and the Request-URI that is meant.
    #[inline]
    fn routing<'a>(
        &self,
        request: &Message<'a>,
    ) -> Result<(Routing<'a>, Result<Uri<'a>, UriError>), Malformed> {
        let uri = Uri::parse(request.request_uri());
        let as_written = |value: &'a [u8]| self.site.settings().own_token(value);
        let routing = preprocess(request, uri.as_ref().ok(), as_written, |uri| self.site.is_own_route(uri))?;
        let uri = if routing.drop_last { Uri::parse(routing.request_uri) } else { uri };
        Ok((routing, uri))
    }
}
