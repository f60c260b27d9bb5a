//! What a sender may send that this server does not know.
//!
//! Phones obey what comes through their registrar. So a stranger may call, write and ask; what commands a phone (REFER,
//! NOTIFY, what makes it answer by itself: [`commands`]) is for users and trunks.
//!
//! A caller that suppresses its number (RFC 3323) may be a user of ours: its From does not say whose credentials to ask
//! for. Where a stranger would be refused, it is challenged (docs/design/anonymous.md).

use crate::admit::{Admitted, Aor, Caller, undotted};
use crate::node::Node;
use crate::services::{Refusal, Services};
use crate::targets::Plan;
use sip_auth::Status;
use sip_message::{AuthParams, Message, Method, Name, NameAddr, Uri};
use sip_proxy::commands;
use sip_proxy::token::{Dialog, Role};
use sip_transaction::Prepared;
use std::borrow::Cow;
use wire::{Flow, Outbox, Time};

/// What strangers may send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strangers {
    /// Whether they may send anything outside the dialogs that they are in.
    pub allowed: bool,
    /// Methods outside dialogs; `*` stands for all. What belongs to a call in a dialog goes with INVITE.
    pub methods: Vec<Vec<u8>>,
}

impl Default for Strangers {
    fn default() -> Strangers {
        let methods = [&b"INVITE"[..], b"MESSAGE", b"OPTIONS"].map(<[u8]>::to_vec).to_vec();
        Strangers { allowed: true, methods }
    }
}

impl Strangers {
    /// Whether they may begin something with this method.
    fn lists(&self, method: Method<'_>) -> bool {
        self.methods.iter().any(|m| m == b"*" || m == method.as_bytes())
    }

    /// Why a stranger's request is refused; `None`: it is not. `known`: an INFO without a token belongs to a known call.
    fn bars(&self, request: &Message<'_>, dialog: Option<&Dialog>, known: bool) -> Option<Refusal> {
        let method = request.method();
        if dialog.is_none() && !self.allowed {
            return Some(Refusal::Stranger);
        }
        if self.lists(method) || belongs(request, dialog, known) {
            return None;
        }
        // Its dialog is unknown here (section 12.2.2).
        let claims = dialog.is_none() && !request.to_tag().is_empty();
        Some(if claims { Refusal::NoDialog } else { Refusal::Method })
    }
}

/// The status of a refusal.
pub(crate) const fn status_of(why: Refusal) -> u16 {
    match why {
        Refusal::NoDialog => 481,
        _ => 403,
    }
}

/// Whether a request belongs to a call: outside of one it has no effect. No node knows every call, because of restarts,
/// of failover and of its limit. So a To tag is enough for a BYE, a PRACK and an UPDATE: a phone without that dialog
/// answers 481 (section 12.2.2). Some phones obey an INFO without one, so its call must be known. A request that
/// commands a phone belongs to a call only if our user began the dialog; a NOTIFY also for the REFER that our user sent
/// in it (RFC 3515 section 2.4.4).
fn belongs(request: &Message<'_>, dialog: Option<&Dialog>, known: bool) -> bool {
    match request.method() {
        Method::Ack | Method::Cancel => true,
        Method::Invite => dialog.is_some(),
        Method::Bye | Method::Prack | Method::Update => dialog.is_some() || !request.to_tag().is_empty(),
        Method::Info => dialog.is_some() || known,
        Method::Refer => dialog.is_some_and(|dialog| !dialog.by_caller),
        Method::Notify => dialog.is_some_and(|dialog| !dialog.by_caller || is_of_refer(request)),
        _ => false,
    }
}

/// Whether a phone obeys such a request. It is taken from the address only that its end of the dialog has in the token:
/// others may have seen the token.
const fn commands_a_phone(method: Method<'_>) -> bool {
    matches!(method, Method::Refer | Method::Notify)
}

/// Whether a NOTIFY is about a REFER.
fn is_of_refer(request: &Message<'_>) -> bool {
    let mut events = request.headers(Name::Event).map(|h| h.value);
    let event = events.next().unwrap_or(b"");
    let package = event.split(|&b| b == b';').next().unwrap_or(b"");
    // Of several events, or of a parameter that is not known, a phone may obey another one.
    let id = |part: &[u8]| part.trim_ascii().get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"id="));
    events.next().is_none()
        && !event.contains(&b',')
        && package.trim_ascii() == b"refer"
        && event.split(|&b| b == b';').skip(1).all(id)
}

impl<S: Services> Node<S> {
    /// Why this request is refused because a stranger sent it. Emergency calls have a rule of their own.
    pub(crate) fn bars(&self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) -> Option<Refusal> {
        let for_help = || {
            a.dialog.is_none() && a.routing.next.is_none() && self.is_for_help(&a.uri, a.routing.request_uri)
        };
        if a.caller.role != Role::Stranger || for_help() {
            return None;
        }
        let claims = a.dialog.is_none() && !request.to_tag().is_empty();
        let known = claims && request.method() == Method::Info && self.is_of_known_call(request, a);
        let end = a.dialog.map(|dialog| dialog.sender.remote.ip());
        let beside = end.is_some_and(|ip| ip != flow.remote.ip().to_canonical());
        let strangers = &self.settings.proxy.strangers;
        if commands_a_phone(request.method()) && beside && !strangers.lists(request.method()) {
            return Some(Refusal::NoDialog);
        }
        let barred = strangers.bars(request, a.dialog.as_ref(), known);
        barred.or_else(|| commands::are_demanded(request).then_some(Refusal::Commands))
    }

    /// Whether a request without our token belongs to a call here, and goes to the other end of it. Some clients send no
    /// Route. Without Record-Route there is no token, so a tag is enough.
    fn is_of_known_call(&self, request: &Message<'_>, a: &Admitted<'_>) -> bool {
        if !self.settings.proxy.record_route {
            return true;
        }
        let called = self.local_aor(&a.uri, a.routing.request_uri);
        let other = || self.aor_of(request.to_uri());
        self.calls.knows(request)
            && called.is_none_or(|called| other().is_some_and(|other| called.text() == other.text()))
    }
}

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

/// Challenges a caller without a name where proof may open the way, or where it brings credentials of ours. What
/// strangers may send needs no proof. `None`: answered.
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
    let settings = node.settings.clone();
    let auth = &settings.auth;
    let local = Caller { role: Role::Local, realm: None, trunk: None, borrowed: false };
    if !auth.enabled || !auth.challenge.covers(method.as_bytes()) {
        if !auth.enabled || node.is_at_phone(flow, request) {
            a.caller = local;
        }
        return Some(a);
    }
    let Some(domain) = domain else { return Some(a) };
    let realm = auth.realm.clone().unwrap_or_else(|| domain.clone());
    // Its domain completes the user name in the credentials.
    let aor = Aor::new(ANONYMOUS.iter().copied(), &domain);
    let status = Status::ProxyAuthenticationRequired;
    node.authenticate(now, flow, request, &aor, (auth, &realm), status, false, out)?;
    a.caller = Caller { realm: Some(Cow::Owned(realm)), ..local };
    Some(a)
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
        if node.is_own_request(request.method(), &a.uri, &a.routing) {
            return false;
        }
        match node.bars(flow, request, a) {
            Some(why) => why != Refusal::NoDialog,
            None => matches!(node.plan_into(Vec::new(), now, flow, request, a), Plan::Refuse(403)),
        }
    }

    /// The domain of ours whose credentials it brings.
    fn domain_brought(&self) -> Option<Vec<u8>> {
        let realms = self.request.headers(Name::ProxyAuthorization);
        let mut realms = realms.filter_map(|h| AuthParams::parse(h.value)?.get(b"realm"));
        match &self.node.settings.auth.realm {
            // It serves all domains.
            Some(ours) if realms.any(|realm| realm == ours) => self.domain_meant(),
            Some(_) => None,
            None => realms.find_map(|realm| self.domain_of_ours(realm)),
        }
    }

    /// The domain that the caller is most likely of: by its P-Preferred-Identity (RFC 3325 section 9.2), by the one that it
    /// dialled in, or the default domain.
    fn domain_meant(&self) -> Option<Vec<u8>> {
        let Masked { node, request, a } = self;
        let preferred = request.values(Name::PPreferredIdentity).find_map(|value| {
            let uri = NameAddr::parse(value).ok()?.uri;
            Some(node.aor_of(uri)?.domain().to_vec())
        });
        let dialled = || Some(node.called_aor(&a.uri, a.routing.request_uri)?.domain().to_vec());
        preferred.or_else(dialled).or_else(|| node.settings.domains.first().cloned())
    }

    fn domain_of_ours(&self, realm: &[u8]) -> Option<Vec<u8>> {
        let domains = &self.node.settings.domains;
        let subscribers = || domains.is_empty() && self.node.is_subscriber_domain(realm);
        let known = domains.iter().find(|domain| domain.eq_ignore_ascii_case(realm)).cloned();
        known.or_else(|| subscribers().then(|| realm.to_ascii_lowercase()))
    }
}
