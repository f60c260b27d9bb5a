//! Callers that suppress their name. See docs/design/anonymous.md.

use crate::admitted::{Admitted, Caller};
use crate::node::Node;
use crate::routing::Plan;
use crate::services::{Counter, Refusal, Services};
use crate::site::Aor;
use crate::uris::undotted;
use sip_auth::Status;
use sip_message::{AuthParams, Message, Method, Name, NameAddr, Uri};
use sip_proxy::token::{Dialog, Role};
use sip_transaction::Prepared;
use std::borrow::Cow;
use wire::{Flow, Outbox, Time};

/// What phones write for the user whose name is suppressed (RFC 3323 section 4.1.1.3).
const ANONYMOUS: &[u8] = b"anonymous";

/// Whether this is the user part of a name that is suppressed.
pub(crate) const fn is_anonymous(user: &[u8]) -> bool {
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

/// Challenges a caller without a name where proof may open the way, or where it brings credentials of ours.
/// What strangers may send needs no proof. `None`: answered.
pub(crate) fn unmask<'a, S: Services>(
    node: &mut Node<S>,
    now: Time,
    flow: Flow,
    request: &Prepared<'a>,
    mut a: Admitted<'a>,
    out: &mut Outbox,
) -> Option<Admitted<'a>> {
    let method = request.method();
    let asked = a.caller.role == Role::Stranger && a.dialog.is_none() && method != Method::Register;
    if !asked || !names_nobody(request.from_uri()) {
        return Some(a);
    }
    let masked = Masked { node, request, a: &a };
    let brought = masked.domain_brought();
    if brought.is_none() && !masked.is_refused(now, flow) {
        return Some(a);
    }
    let domain = brought.or_else(|| masked.domain_meant());
    let settings = node.site.settings().clone();
    let auth = &settings.auth;
    let local = Caller { role: Role::Local, realm: None, trunk: None, borrowed: false };
    if !auth.enabled || !auth.challenge.covers(method.as_bytes()) {
        if !auth.enabled || node.site.is_at_phone(flow, request) {
            a.caller = local;
        }
        return Some(a);
    }
    let Some(domain) = domain else { return Some(a) };
    a.caller = prove(node, now, flow, request, &domain, out)?;
    Some(a)
}

/// A request that speaks for a user of ours from another address, under a name that is none of ours. If the
/// dialog knows its end by such a name, the phone may have moved, so it can prove itself (section 22.3).
/// `None`: answered.
pub(crate) fn own_phone<'a, S: Services>(
    node: &mut Node<S>,
    now: Time,
    flow: Flow,
    request: &Prepared<'a>,
    dialog: Option<&Dialog>,
    out: &mut Outbox,
) -> Option<Caller<'a>> {
    let settings = node.site.settings().clone();
    let foreign = dialog.is_some_and(|d| if d.by_caller { d.calling == 0 } else { d.called == 0 });
    let covered = foreign && settings.auth.challenge.covers(request.method().as_bytes());
    let Some(domain) = settings.domains.first().filter(|_| covered) else {
        node.site.services().count(Counter::Forbidden);
        node.refuse(flow, request, 403, b"", b"", out);
        return None;
    };
    let caller = prove(node, now, flow, request, domain, out)?;
    Some(Caller { borrowed: true, ..caller })
}

/// Asks for the credentials of any user of a domain. `None`: answered.
fn prove<'a, S: Services>(
    node: &mut Node<S>,
    now: Time,
    flow: Flow,
    request: &Prepared<'a>,
    domain: &[u8],
    out: &mut Outbox,
) -> Option<Caller<'a>> {
    let settings = node.site.settings().clone();
    let auth = &settings.auth;
    let realm = auth.realm.clone().unwrap_or_else(|| domain.to_vec());
    // Its domain completes the user name in the credentials.
    let aor = Aor::new(ANONYMOUS.iter().copied(), domain);
    let status = Status::ProxyAuthenticationRequired;
    node.authenticate(now, flow, request, &aor, (auth, &realm), status, false, out)?;
    Some(Caller { role: Role::Local, realm: Some(Cow::Owned(realm)), trunk: None, borrowed: false })
}

/// A stranger's request without a name.
struct Masked<'n, 'a, S> {
    node: &'n Node<S>,
    request: &'n Message<'a>,
    a: &'n Admitted<'a>,
}

impl<S: Services> Masked<'_, '_, S> {
    /// Whether it gets 403 because a stranger sent it.
    fn is_refused(&self, now: Time, flow: Flow) -> bool {
        let Masked { node, request, a } = self;
        if node.site.is_own_request(request.method(), &a.uri, &a.routing) {
            return false;
        }
        match node.ingress().bars(flow, request, a) {
            Some(why) => why != Refusal::NoDialog,
            None => matches!(node.router().plan_into(Vec::new(), now, flow, request, a), Plan::Refuse(403)),
        }
    }

    /// The domain of ours whose credentials it brings.
    fn domain_brought(&self) -> Option<Vec<u8>> {
        let realms = self.request.headers(Name::ProxyAuthorization);
        let mut realms = realms.filter_map(|h| AuthParams::parse(h.value)?.get(b"realm"));
        match &self.node.site.settings().auth.realm {
            // It serves all domains.
            Some(ours) if realms.any(|realm| realm == ours) => self.domain_meant(),
            Some(_) => None,
            None => realms.find_map(|realm| self.domain_of_ours(realm)),
        }
    }

    /// The domain that the caller is most likely of: by its P-Preferred-Identity (RFC 3325 section 9.2), by
    /// the one that it dialled in, or the default domain.
    fn domain_meant(&self) -> Option<Vec<u8>> {
        let Masked { node, request, a } = self;
        let preferred = request.values(Name::PPreferredIdentity).find_map(|value| {
            let uri = NameAddr::parse(value).ok()?.uri;
            Some(node.site.aor_of(uri)?.domain().to_vec())
        });
        let dialled = || Some(node.site.called_aor(&a.uri, a.routing.request_uri)?.domain().to_vec());
        preferred.or_else(dialled).or_else(|| node.site.settings().domains.first().cloned())
    }

    fn domain_of_ours(&self, realm: &[u8]) -> Option<Vec<u8>> {
        let domains = &self.node.site.settings().domains;
        let subscribers = || domains.is_empty() && self.node.site.is_subscriber_domain(realm);
        let known = domains.iter().find(|domain| domain.eq_ignore_ascii_case(realm)).cloned();
        known.or_else(|| subscribers().then(|| realm.to_ascii_lowercase()))
    }
}
