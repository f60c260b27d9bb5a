//! Names of this server: its domains, its addresses, and the addresses-of-record of its users.

use super::Site;
use crate::access::Holder;
use crate::admitted::Admitted;
use crate::aor::Aor;
use crate::services::Services;
use crate::uris::{is_sips, undotted};
use sip_message::{Message, Method, Name, Scheme, Uri, plain_aor};
use sip_proxy::routes::Routing;
use std::borrow::Cow;
use wire::Flow;

impl<S: Services> Site<S> {
    /// The name that the peer of a flow has to prove where its transport is secure: the host of the next
    /// hop, which was looked up (RFC 5922 section 4), or its address, if that is all that is known. Within a
    /// dialog that may be the address of a target that has a name in the configuration and in its
    /// certificate. The configuration may give the servers of a trunk another name (`verify`).
    pub(crate) fn name_at<'a>(&'a self, flow: Flow, next_hop: &'a [u8]) -> Cow<'a, [u8]> {
        if !flow.transport.is_secure() || flow.conn.is_some() {
            return Cow::Borrowed(b"");
        }
        let named = Uri::parse(next_hop).ok().filter(|uri| uri.host_ip().is_none()).map(|uri| uri.host);
        let holder = match named {
            Some(host) => self.places.named(host),
            None => self.places.target_at(&self.settings, flow.remote),
        };
        if let Some(Holder::Trunk(at)) = holder
            && let Some(name) = self.settings.trunks.get(at).and_then(|trunk| trunk.verify.as_ref())
        {
            return name.into();
        }
        match named.or_else(|| self.places.name_at(flow.remote)) {
            Some(name) => name.into(),
            None => flow.remote.ip().to_canonical().to_string().into_bytes().into(),
        }
    }

    /// Whether a request is for this server itself: the host is us, and there is no user. A REGISTER must
    /// not have one (section 10.2); if it has, the registrar is meant all the same.
    pub(crate) fn is_own_request(&self, method: Method<'_>, uri: &Uri<'_>, routing: &Routing<'_>) -> bool {
        let bare = uri.user.is_none_or(<[u8]>::is_empty) || method == Method::Register;
        routing.next.is_none() && bare && uri.is_sip() && self.is_local_host(uri)
    }

    /// Whether requests for such URIs can be sent on. Without TLS a sips request could only go on in the
    /// clear, which it must not (section 26.2.2, RFC 5630 section 5.3).
    pub(crate) fn knows_scheme(&self, uri: &Uri<'_>) -> bool {
        match uri.scheme {
            Scheme::Sip | Scheme::Tel => true,
            Scheme::Sips => {
                let mut all = self.settings.listeners.iter().map(|l| l.transport);
                all.any(|t| matches!(t, wire::Transport::Tls | wire::Transport::Wss))
            }
            Scheme::Other(_) => false,
        }
    }

    /// Whether a URI of a Route, or a strict router's Request-URI, names this server.
    pub(crate) fn is_own_route(&self, uri: &Uri<'_>) -> bool {
        self.settings.is_own_route(uri) || self.is_local_host(uri)
    }

    /// Whether the host of a URI is a domain of ours or this server.
    pub(crate) fn is_local_host(&self, uri: &Uri<'_>) -> bool {
        let s = &self.settings;
        if !uri.is_sip() {
            return false;
        }
        let host = undotted(uri.host);
        // Where the domain is an address, at a port that is none of ours somebody else is.
        let elsewhere = uri.port.is_some() && uri.host_ip().is_some() && !s.has_port(uri.port);
        (!elsewhere && self.is_own_domain(host))
            || s.is_self(host, uri.port)
            || (s.domains.is_empty() && uri.host_ip().is_none() && self.is_subscriber_domain(host))
    }

    fn is_own_domain(&self, host: &[u8]) -> bool {
        // As configured, nearly always.
        let mut domains = self.settings.domains.iter();
        domains.any(|d| d.len() == host.len() && (d == host || d.eq_ignore_ascii_case(host)))
    }

    pub(crate) fn is_subscriber_domain(&self, host: &[u8]) -> bool {
        host.len() <= 255 && self.services.is_domain(&host.to_ascii_lowercase())
    }

    /// Whether credentials for this realm are of users of ours.
    pub(crate) fn is_our_realm(&self, realm: &[u8]) -> bool {
        match &self.settings.auth.realm {
            // It serves all domains.
            Some(ours) => realm == ours,
            None => {
                self.is_own_domain(realm)
                    || self.settings.domains.is_empty() && self.is_subscriber_domain(realm)
            }
        }
    }

    /// The address-of-record that a URI of one of our domains names, whose own text is `whole`. An address or
    /// alias of this server stands for the default domain, if there is one.
    pub(crate) fn local_aor<'u>(&self, uri: &Uri<'u>, whole: &'u [u8]) -> Option<Aor<'u>> {
        let host = undotted(uri.host);
        let is_domain = uri.is_sip() && self.is_own_domain(host);
        if !is_domain && !self.is_local_host(uri) {
            return None;
        }
        if is_domain
            && host.len() == uri.host.len()
            && let Some(aor) = uri.aor_in(whole)
        {
            return Some(Aor::in_parts(aor.into(), aor.len() - host.len()));
        }
        let mut text = Vec::with_capacity(48);
        let domains = &self.settings.domains;
        uri.write_aor(&mut text);
        let start = text.len() - uri.host.len();
        text.truncate(start + host.len());
        if !is_domain && let Some(default) = domains.first() {
            text.truncate(start);
            text.extend_from_slice(default);
        }
        Some(Aor::in_parts(text.into(), start))
    }

    /// The address-of-record of ours that a URI names, if it can be read.
    pub(crate) fn aor_of<'u>(&self, uri: &'u [u8]) -> Option<Aor<'u>> {
        // As nearly all are.
        let plain = |d: &Vec<u8>| Some((plain_aor(uri, d)?, d.len()));
        if let Some((aor, domain_len)) = self.settings.domains.iter().find_map(plain) {
            return Some(Aor::in_parts(aor.into(), aor.len() - domain_len));
        }
        self.local_aor(&Uri::parse(uri).ok()?, uri)
    }

    /// The domain that a user name without one is of. Where the domains are those of the subscribers, an
    /// address of this server may stand for any of them, and the realm tells which is meant.
    pub(crate) fn home<'a>(&self, aor: &'a Aor<'_>, realm: &'a [u8]) -> &'a [u8] {
        let by_address = self.settings.domains.is_empty() && aor.domain() != realm;
        if by_address && !self.is_subscriber_domain(aor.domain()) { realm } else { aor.domain() }
    }

    /// A telephone number as a user of the default domain; if there is none, of no domain.
    pub(crate) fn number_aor<'u>(&self, uri: &Uri<'u>) -> Aor<'u> {
        let domain = self.settings.domains.first().map_or(&b""[..], |d| d);
        let separator = |b: &u8| matches!(b, b'-' | b'.' | b'(' | b')');
        Aor::new(uri.user.unwrap_or(b"").iter().copied().filter(|b| !separator(b)), domain)
    }

    /// The address-of-record of ours that a request is for, by name or by number.
    pub(crate) fn called_aor<'u>(&self, uri: &Uri<'u>, whole: &'u [u8]) -> Option<Aor<'u>> {
        match uri.scheme {
            Scheme::Tel => Some(self.number_aor(uri)).filter(|aor| !aor.domain().is_empty()),
            _ => self.local_aor(uri, whole),
        }
    }

    pub(crate) fn claims_local(&self, request: &Message<'_>) -> bool {
        Uri::parse(request.from_uri()).is_ok_and(|uri| self.is_local_host(&uri))
    }

    /// Whether a Request-URI, whose text is `whole`, is one for emergencies here: of numbers those in our
    /// domains, and those that are of none.
    #[inline]
    pub(crate) fn is_emergency_call(&self, uri: &Uri<'_>, whole: &[u8]) -> bool {
        let Some(emergency) = &self.settings.emergency else { return false };
        emergency.is_named_by(whole) && (!uri.is_sip() || self.is_local_host(uri))
    }

    /// Whether a request asks for security all the way. An emergency call does not: it goes on in the clear
    /// where there is nothing else (RFC 6881).
    pub(crate) fn asks_for_security(&self, a: &Admitted<'_>) -> bool {
        let uri = a.routing.request_uri;
        is_sips(uri) && (a.dialog.is_some() || !self.is_emergency_call(&a.uri, uri))
    }

    /// Whether this server wrote the topmost Via, as far as `sent-by` says (RFC 3261 section 18.1.2).
    pub(crate) fn is_our_via(&self, response: &Message<'_>) -> bool {
        let value = response.header(Name::Via).map_or(&b""[..], |via| via.value);
        // Nearly always it comes back as it was written.
        let as_written = |prefix: &[u8]| prefix.strip_prefix(b"Via: ").is_some_and(|p| value.starts_with(p));
        if self.settings.listeners.iter().any(|l| as_written(l.via_prefix())) {
            return true;
        }
        let via = response.via();
        self.settings.is_self(via.host, via.port)
    }
}
