//! Who makes an emergency call.

use super::Ingress;
use crate::admitted::Caller;
use crate::services::{Coverage, Services};
use sip_message::{Message, Name, Uri};
use sip_proxy::routes::Routing;
use sip_proxy::token::{Dialog, Role};
use wire::{Flow, Time};

impl<S: Services> Ingress<'_, S> {
    /// The caller of an emergency call that needs no credentials. It is a phone registered at this address,
    /// under its own name or one that is not ours. With `emergency.strangers` it may be a stranger. `None` if
    /// the request has another target or brings credentials: these are checked, and not forwarded.
    pub(crate) fn emergency_caller(
        &self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        (uri, routing): (&Uri<'_>, &Routing<'_>),
        dialog: Option<&Dialog>,
    ) -> Option<Caller<'static>> {
        let emergency = self.site.settings().emergency.as_ref()?;
        let asks = emergency.is_asked_by(request.method().as_bytes(), routing.request_uri);
        if !asks
            || dialog.is_some()
            || routing.next.is_some()
            || !self.site.is_emergency_call(uri, routing.request_uri)
        {
            return None;
        }
        if self.site.trunk_of(flow).is_some() || self.site.is_from_ourselves(request) {
            return None;
        }
        if request.header(Name::ProxyAuthorization).is_some() {
            return None;
        }
        let at_phone = self.site.is_at_phone(flow, request) && self.is_at(now, flow, request.from_uri());
        let role = match at_phone || self.is_host_of(now, flow, request) {
            true => Role::Local,
            false if emergency.strangers => Role::Stranger,
            false => return None,
        };
        Some(Caller::unproven(role))
    }

    /// Whether a user of ours is registered at this address; others may be.
    fn is_at(&self, now: Time, flow: Flow, uri: &[u8]) -> bool {
        let Some(aor) =
            self.site.aor_of(uri).filter(|aor| self.site.services().is_user(aor.user(), aor.domain()))
        else {
            return true;
        };
        let mut here = false;
        // A binding at another node does not count here.
        let _: Coverage = self
            .site
            .services()
            .bindings(aor.text(), now, &mut |binding| here |= binding.flow.remote == flow.remote);
        here
    }

    /// Whether a user of ours is registered from the host that this comes from, at another port of it: one
    /// whose Via and Contact have the address that is seen. With STUN that is the address of an address
    /// translation, and another host behind it may make an emergency call under this name. A registered phone
    /// that makes an emergency call must not be refused.
    fn is_host_of(&self, now: Time, flow: Flow, request: &Message<'_>) -> bool {
        let ip = flow.remote.ip().to_canonical();
        let alone = request.via_count() == 1 && request.via_host_ip() == Some(ip);
        if !alone || self.site.settings().auth.is_front(ip) {
            return false;
        }
        let Some(aor) = self.site.aor_of(request.from_uri()) else { return false };
        let mut here = false;
        let _: Coverage = self.site.services().bindings(aor.text(), now, &mut |binding| {
            let seen = binding.flow.remote.ip().to_canonical() == ip && !binding.is_elsewhere();
            here |= seen && Uri::parse(binding.contact).is_ok_and(|contact| contact.host_ip() == Some(ip));
        });
        here
    }
}
