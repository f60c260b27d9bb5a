//! Calls for help: requests for `urn:service:sos` and the services below it (RFC 5031), and for the numbers that people
//! dial instead. They go to where the operator says, before any other route, and in an overload before other new work.

use crate::admit::{Admitted, Caller};
use crate::node::Node;
use crate::services::Services;
use crate::settings::Bounds;
use crate::targets::{Plan, Wish, with_user};
use crate::watch::List;
use sip_message::{Message, Method, Name, Scheme, Uri};
use sip_proxy::routes::Routing;
use sip_proxy::token::{Dialog, Role};
use wire::{Flow, Time};

/// Where calls for help go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emergency {
    /// SIP URIs in failover order.
    pub targets: Vec<Vec<u8>>,
    /// What people dial.
    pub numbers: Vec<Vec<u8>>,
    /// Whether anybody may call for help; otherwise our users and trunks.
    pub strangers: bool,
    /// How long a target may say nothing at all, milliseconds.
    pub silent_after_ms: u32,
}

impl Emergency {
    /// Whether a Request-URI, which may be followed by a blank and more, names a service for emergencies by how it is
    /// written: whose number it is, its host would say, which is not looked at.
    pub(crate) fn is_named_by(&self, uri: &[u8]) -> bool {
        let Some((scheme, rest)) = uri.split_at_checked(4) else { return false };
        if scheme.eq_ignore_ascii_case(b"urn:") {
            return is_sos(rest);
        }
        (scheme.eq_ignore_ascii_case(b"sip:") || scheme.eq_ignore_ascii_case(b"tel:"))
            && self.numbers.iter().any(|number| {
                let behind = rest.strip_prefix(&number[..]);
                behind.is_some_and(|behind| matches!(behind.first(), None | Some(b'@' | b';' | b':' | b' ')))
            })
    }

    /// Whether a request is one for help, as far as that shows before it is known for whom it is.
    pub(crate) fn is_asked_by(&self, method: &[u8], uri: &[u8]) -> bool {
        matches!(method, b"INVITE" | b"MESSAGE") && self.is_named_by(uri)
    }
}

/// Whether this, behind `urn:`, is the service "sos" or one below it, in any case (RFC 5031 sections 3 and 4.2).
fn is_sos(name: &[u8]) -> bool {
    const SOS: &[u8] = b"service:sos";
    name.split_at_checked(SOS.len()).is_some_and(|(service, behind)| {
        service.eq_ignore_ascii_case(SOS) && matches!(behind.first(), None | Some(b'.' | b' '))
    })
}

impl<S: Services> Node<S> {
    /// Whether a Request-URI, whose text is `whole`, is one for emergencies here: of numbers those in our domains, and those
    /// that are of none.
    #[inline]
    pub(crate) fn is_for_help(&self, uri: &Uri<'_>, whole: &[u8]) -> bool {
        let Some(emergency) = &self.settings.emergency else { return false };
        emergency.is_named_by(whole) && (!uri.is_sip() || self.is_local_host(uri))
    }

    /// Who calls for help, if that is not to be proven: a phone that is registered at this address, under its own name or
    /// one that is none of ours, and strangers where anybody may. Only for a request that goes nowhere else. Who brings
    /// credentials is judged by them, and they go no further.
    pub(crate) fn caller_for_help(
        &self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        (uri, routing): (&Uri<'_>, &Routing<'_>),
        dialog: Option<&Dialog>,
    ) -> Option<Caller<'static>> {
        let emergency = self.settings.emergency.as_ref()?;
        let asks = emergency.is_asked_by(request.method().as_bytes(), routing.request_uri);
        if !asks || dialog.is_some() || routing.next.is_some() || !self.is_for_help(uri, routing.request_uri)
        {
            return None;
        }
        if self.settings.trunk_of(flow.remote.ip()).is_some() || self.is_from_ourselves(request) {
            return None;
        }
        if request.header(Name::ProxyAuthorization).is_some() {
            return None;
        }
        let at_phone = self.is_at_phone(flow, request) && self.is_at(now, flow, request.from_uri());
        let role = match at_phone || self.is_host_of(now, flow, request) {
            true => Role::Local,
            false if emergency.strangers => Role::Stranger,
            false => return None,
        };
        Some(Caller { role, realm: None, trunk: None, borrowed: false })
    }

    /// Whether a user of ours is registered at this address; others may be.
    fn is_at(&self, now: Time, flow: Flow, uri: &[u8]) -> bool {
        let Some(aor) = self.aor_of(uri).filter(|aor| self.services.is_user(aor.user(), aor.domain())) else {
            return true;
        };
        let mut here = false;
        self.services.bindings(aor.text(), now, &mut |binding| here |= binding.flow.remote == flow.remote);
        here
    }

    /// Whether a user of ours is registered from the host that this comes from, at another port of it: one whose Via and
    /// Contact have the address that is seen. With STUN that is the address of an address translation, and another host
    /// behind it may call for help under this name. A registered phone that calls for help must not be refused.
    fn is_host_of(&self, now: Time, flow: Flow, request: &Message<'_>) -> bool {
        let ip = flow.remote.ip().to_canonical();
        let alone = request.via_count() == 1 && request.via_host_ip() == Some(ip);
        if !alone || self.settings.auth.is_front(ip) {
            return false;
        }
        let Some(aor) = self.aor_of(request.from_uri()) else { return false };
        let mut here = false;
        self.services.bindings(aor.text(), now, &mut |binding| {
            let seen = binding.flow.remote.ip().to_canonical() == ip && !binding.is_elsewhere();
            here |= seen && Uri::parse(binding.contact).is_ok_and(|contact| contact.host_ip() == Some(ip));
        });
        here
    }

    /// Where a call for help goes; `None`: it is none. A service keeps its name on the way (RFC 5031 section 4.1), and a
    /// number is called at the target. No trunk is meant by it, so none holds it back by asking for less. What came from a trunk
    /// does not go back there.
    pub(crate) fn way_to_help(&self, a: &Admitted<'_>) -> Option<Plan> {
        let emergency = self.settings.emergency.as_ref()?;
        if !self.is_for_help(&a.uri, a.routing.request_uri) {
            return None;
        }
        if a.caller.role == Role::Stranger && !emergency.strangers {
            return Some(Plan::Refuse(403));
        }
        let number = a.uri.user.and_then(|user| user.split(|&b| b == b';').next()).unwrap_or(b"");
        let silent_after = emergency.silent_after_ms;
        let back = |target: &&Vec<u8>| {
            let trunk = a.caller.trunk;
            trunk.is_some_and(|at| self.places.leads_to_trunk(&self.settings, target, at))
        };
        let wishes = emergency.targets.iter().filter(|target| !back(target)).map(|target| {
            let wish = match a.uri.scheme {
                Scheme::Other(_) => Wish::located(a.routing.request_uri, Role::Trunk, Bounds::Anywhere),
                _ => Wish::located(&with_user(target, number), Role::Trunk, Bounds::Anywhere),
            };
            let watch = self.settings.watch(target, List::Emergency, silent_after);
            Wish { locate: target.clone(), watch, ..wish }
        });
        Some(Wish::chain(wishes).map_or(Plan::Refuse(404), |wish| Plan::Forward(vec![(1000, wish)])))
    }
}

/// Whether a request begins a call for help, for the rules of an overload.
pub(crate) fn is_urgent(emergency: Option<&Emergency>, request: &Message<'_>) -> bool {
    let method: Method<'_> = request.method();
    emergency.is_some_and(|emergency| emergency.is_asked_by(method.as_bytes(), request.request_uri()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emergency() -> Emergency {
        let numbers = [&b"112"[..], b"15", b"+112"].map(<[u8]>::to_vec).to_vec();
        Emergency {
            targets: vec![b"sip:192.0.2.1".to_vec()],
            numbers,
            strangers: false,
            silent_after_ms: 1_000,
        }
    }

    #[test]
    fn services_are_known_by_name_and_numbers_as_configured() {
        for uri in [
            "urn:service:sos",
            "URN:SERVICE:SOS",
            "urn:service:sos.fire",
            "urn:Service:Sos.police.x",
            "sip:112@here",
            "SIP:112@here",
            "sip:112;phone-context=+49@here;user=dialstring",
            "sip:112:x@here",
            "tel:112",
            "TEL:15",
            "tel:112;phone-context=+49",
            "sip:+112@here",
            "sip:15@here SIP/2.0",
            "urn:service:sos SIP/2.0",
        ] {
            assert!(emergency().is_named_by(uri.as_bytes()), "{uri}");
        }
        for uri in [
            "urn:service:sosx",
            "urn:service:so",
            "urn:service:counseling",
            "urn:service:test.sos",
            "urn:services:sos",
            "urn:",
            "",
            "sip",
            "sip:1123@here",
            "sip:11@here",
            "sips:112@here",
            "sip:bob@112",
            "tel:1-1-2",
            "tel:0112",
            "http:112",
            "urn:service:sos-x",
        ] {
            assert!(!emergency().is_named_by(uri.as_bytes()), "{uri}");
        }
        for (method, asks) in
            [("INVITE", true), ("MESSAGE", true), ("invite", false), ("REGISTER", false), ("OPTIONS", false)]
        {
            assert_eq!(emergency().is_asked_by(method.as_bytes(), b"urn:service:sos"), asks, "{method}");
        }
    }
}
