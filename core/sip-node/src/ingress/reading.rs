//! How a request is addressed.

use super::Ingress;
use crate::admitted::Addressing;
use crate::services::Services;
use sip_message::{Malformed, Message, Method, Name, Uri, UriError, plain_aor};
use sip_proxy::routes::{Routing, preprocess};
use sip_proxy::token::{Dialog, End, Role};
use sip_registrar::Expected;
use wire::Flow;

impl<S: Services> Ingress<'_, S> {
    /// Whether a request without credentials speaks for a user of ours in a dialog, from another address than
    /// that user's: its sender has overheard the token.
    pub(crate) fn is_overheard(&self, flow: Flow, dialog: Option<&Dialog>) -> bool {
        let elsewhere = |end: &End| end.remote.ip() != flow.remote.ip().to_canonical();
        let ours = dialog.map(|dialog| dialog.sender).filter(|end| end.role == Role::Local);
        self.site.settings().auth.enabled && ours.is_some_and(|end| elsewhere(&end))
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

    /// Says whose bindings are going to be asked for if this request is a new call for one of our users, as
    /// nearly every one is that looks so.
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
