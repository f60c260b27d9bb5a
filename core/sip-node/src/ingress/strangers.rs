//! What a sender may send that this server does not know.
//!
//! Phones obey what comes through their registrar. So a stranger may call, write and ask; what commands a
//! phone (REFER, NOTIFY, what makes it answer by itself: [`commands`]) is for users and trunks.
//!
//! A caller that suppresses its number (RFC 3323) may be a user of ours: its From does not say whose
//! credentials to ask for. Where a stranger would be refused, it is challenged (docs/design/anonymous.md).

use super::Ingress;
use crate::admitted::Admitted;
use crate::routing::begins;
use crate::services::{Counter, Refusal, Services};
use crate::strangers::Strangers;
use sip_message::{Message, Method, Name};
use sip_proxy::commands;
use sip_proxy::token::{Dialog, Role};
use wire::{Flow, Time};

/// Why a stranger's request is refused; `None`: it is not. `known`: an INFO without a token belongs to a
/// known call.
fn barred(
    strangers: &Strangers,
    request: &Message<'_>,
    dialog: Option<&Dialog>,
    known: bool,
) -> Option<Refusal> {
    let method = request.method();
    // A REGISTER for a domain of ours is no stranger's: it is challenged, or accepted from any sender.
    let or_not_ours = |why| if method == Method::Register { Refusal::NotOurs } else { why };
    if dialog.is_none() && !strangers.allowed {
        return Some(or_not_ours(Refusal::Stranger));
    }
    if strangers.lists(method) || belongs(request, dialog, known) {
        return None;
    }
    // Its dialog is unknown here (section 12.2.2).
    let claims = dialog.is_none() && !request.to_tag().is_empty();
    Some(if claims { Refusal::NoDialog } else { or_not_ours(Refusal::Method) })
}

/// The status of a refusal.
pub(crate) const fn status_of(why: Refusal) -> u16 {
    match why {
        Refusal::NoDialog => 481,
        _ => 403,
    }
}

/// Whether a request belongs to a call: outside of one it has no effect. No node knows every call, because of
/// restarts, of failover and of its limit. So a To tag is enough for a BYE, a PRACK and an UPDATE: a phone
/// without that dialog answers 481 (section 12.2.2). Some phones obey an INFO without one, so its call must
/// be known. A REFER belongs to a call only if our user began the dialog, a NOTIFY to a subscription of our
/// user, or to the REFER that our user sent in a call (RFC 3515 section 2.4.4).
fn belongs(request: &Message<'_>, dialog: Option<&Dialog>, known: bool) -> bool {
    match request.method() {
        Method::Ack | Method::Cancel => true,
        Method::Invite => dialog.is_some(),
        Method::Bye | Method::Prack | Method::Update => dialog.is_some() || !request.to_tag().is_empty(),
        Method::Info => dialog.is_some() || known,
        Method::Refer => dialog.is_some_and(|dialog| !dialog.by_caller),
        Method::Notify => {
            dialog.is_some_and(|dialog| !dialog.by_caller && !dialog.call || is_of_refer(request))
        }
        _ => false,
    }
}

/// Whether a phone obeys such a request. It is taken from the address only that its end of the dialog has in
/// the token: others may have seen the token.
pub(super) const fn commands_a_phone(method: Method<'_>) -> bool {
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

impl<S: Services> Ingress<'_, S> {
    /// Why this request is refused because a stranger sent it. Emergency calls have a rule of their own.
    pub(crate) fn bars(&self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) -> Option<Refusal> {
        let emergency = || {
            a.dialog.is_none()
                && a.routing.next.is_none()
                && self.site.is_emergency_call(&a.uri, a.routing.request_uri)
        };
        if a.caller.role != Role::Stranger || emergency() {
            return None;
        }
        let claims = a.dialog.is_none() && !request.to_tag().is_empty();
        if claims && self.calls.is_forged(request) {
            return Some(Refusal::NoDialog);
        }
        let known = claims && request.method() == Method::Info && self.is_of_known_call(request, a);
        let end = a.dialog.map(|dialog| dialog.sender.remote.ip());
        let beside = end.is_some_and(|ip| ip != flow.remote.ip().to_canonical());
        let strangers = &self.site.settings().proxy.strangers;
        if commands_a_phone(request.method()) && beside && !strangers.lists(request.method()) {
            return Some(Refusal::NoDialog);
        }
        let barred = barred(strangers, request, a.dialog.as_ref(), known);
        barred.or_else(|| commands::are_demanded(request).then_some(Refusal::Commands))
    }

    /// Whether a stranger has begun too much lately: seconds after which it may try again.
    pub(crate) fn holds(
        &self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
    ) -> Option<u32> {
        let settings = self.site.settings();
        let rate = settings.proxy.strangers.rate?;
        let exempt = a.caller.role != Role::Stranger || a.dialog.is_some() || !begins(request.method());
        if exempt || self.site.is_emergency_call(&a.uri, a.routing.request_uri) {
            return None;
        }
        let network = self.site.account_of(settings.auth.source(flow.remote.ip(), request));
        let held = self.site.services().admit_stranger(network, rate, now).err()?;
        let counter = if held.by_total { Counter::StrangerTotal } else { Counter::StrangerNetwork };
        self.site.services().count(counter);
        self.site.tell(Refusal::Rate(held), request.request_uri(), flow, request);
        Some(held.seconds)
    }

    /// Whether a request without our token belongs to a call here, and goes to the other end of it. Some
    /// clients send no Route. Without Record-Route there is no token, so a tag is enough.
    fn is_of_known_call(&self, request: &Message<'_>, a: &Admitted<'_>) -> bool {
        if !self.site.settings().proxy.record_route {
            return true;
        }
        let called = self.site.local_aor(&a.uri, a.routing.request_uri);
        let other = || self.site.aor_of(request.to_uri());
        self.calls.knows(request)
            && called.is_none_or(|called| other().is_some_and(|other| called.text() == other.text()))
    }
}
