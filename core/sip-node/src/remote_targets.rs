//! Where the ends of a call want requests within it sent (RFC 3261 section 12.1), noted for records of calls:
//! a request that its sender leads elsewhere says nothing of the call.

use crate::access::Holder;
use crate::admitted::Admitted;
use crate::callees::Named;
use crate::calls::{Calls, DialogKey};
use crate::routing::is_same_end;
use crate::services::Services;
use crate::site::Site;
use crate::step::Step;
use core::net::SocketAddr;
use sip_message::{Message, Method, Name, NameAddr, Uri};
use sip_proxy::routes::TOKEN_PARAM;
use sip_proxy::token::Role;
use wire::Flow;

/// How near to the other end of a dialog a request within it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// It went there.
    End,
    /// Its sender has changed where it goes, but it went to the same host, or to another one of the same
    /// trunk. Only if it is accepted, it has reached the end.
    Near,
    /// It went elsewhere.
    Astray,
}

/// How near to the other end of its dialog a request went whose sender has changed where it goes.
pub(crate) fn reached<S: Services>(site: &Site<S>, end: SocketAddr, to: SocketAddr) -> Reached {
    let trunk = |at: SocketAddr| match site.places().at(site.settings(), at) {
        Some(Holder::Trunk(trunk)) => Some(trunk),
        Some(Holder::Service) | None => None,
    };
    let same = end.ip().to_canonical() == to.ip().to_canonical();
    match same || trunk(end).is_some_and(|trunk_of_end| trunk(to) == Some(trunk_of_end)) {
        true => Reached::Near,
        false => Reached::Astray,
    }
}

impl<S: Services> Step<'_, S> {
    /// The other end of the dialog of a request that does not go where this end wants requests sent. Only
    /// records of calls depend on it.
    pub(crate) fn led_from(&self, request: &Message<'_>, a: &Admitted<'_>) -> Option<SocketAddr> {
        let (settings, dialog) = (self.site.settings(), a.dialog.as_ref()?);
        let tells = matches!(request.method(), Method::Invite | Method::Update | Method::Bye);
        // To a phone on its own connection there is only one way.
        let own = dialog.peer.role == Role::Local && dialog.peer.opened && a.routing.next.is_none();
        if !settings.records || !tells || own {
            return None;
        }
        let route = a.routing.next.and_then(|next| Uri::parse(next).ok());
        let goes = self.calls.named_by(route.as_ref(), Some(&a.uri));
        let others = !settings.auth.fronts.is_empty();
        let follows = self.calls.is_as_named(self.now, request, dialog, others, goes);
        (!follows).then_some(dialog.peer.remote)
    }

    /// An INVITE with this key has begun a call.
    pub(crate) fn note_caller(&mut self, flow: Flow, invite: &Message<'_>, key: &DialogKey) {
        if self.site.settings().records {
            let [route, contact] = [Name::RecordRoute, Name::Contact].map(|name| first(invite, name));
            let named = self.calls.named_by(route.as_ref(), contact.as_ref());
            self.calls.caller_is(key, flow.remote.ip(), named);
        }
    }

    /// A request with this key went to the other end of its dialog.
    pub(crate) fn note_sender(&mut self, request: &Message<'_>, key: &DialogKey) {
        if self.site.settings().records && matches!(request.method(), Method::Invite | Method::Update) {
            let contact = contact(self.calls, request);
            self.calls.end_is(key, true, contact);
        }
    }

    /// A 2xx to an INVITE or UPDATE with this key, which went to `place`, went back.
    pub(crate) fn note_answerer(&mut self, response: &Message<'_>, key: &DialogKey, place: SocketAddr) {
        let accepts = matches!(response.status(), 200..=299);
        if !accepts || !self.site.settings().records || !self.calls.is_of(response, key) {
            return;
        }
        if key.is_within() {
            let contact = contact(self.calls, response);
            return self.calls.end_is(key, false, contact);
        }
        if self.calls.is_back_to_caller(key, place, b"") {
            return self.calls.came_back(self.now, key);
        }
        if let Some(route) = route_beyond(self.site, response, place) {
            let contact = first(response, Name::Contact);
            let named = self.calls.named_by(route.as_ref(), contact.as_ref());
            self.calls.callee_is(response, key, place, named);
        }
    }
}

fn contact(calls: &Calls, message: &Message<'_>) -> Named {
    calls.named_by(None, first(message, Name::Contact).as_ref())
}

/// The Record-Route before ours in a response to a request that went to `place`: the next hop of what its
/// receiver sends, if there is one. `None`: ours is missing, so nothing is known.
fn route_beyond<'m, S: Services>(
    site: &Site<S>,
    response: &Message<'m>,
    place: SocketAddr,
) -> Option<Option<Uri<'m>>> {
    let tags = (response.from_tag(), response.to_tag());
    let mut beyond = None;
    for value in response.values(Name::RecordRoute) {
        let uri = uri_of(value)?;
        let token =
            uri.param(TOKEN_PARAM).and_then(|d| site.sealer().open(d, response.call_id(), tags.0, tags.1));
        // A call may pass this server twice.
        if token.is_some_and(|dialog| is_same_end(dialog.callee().remote, place)) {
            return Some(beyond);
        }
        beyond = Some(uri);
    }
    None
}

/// The URI of the first value of a header field.
fn first<'m>(message: &Message<'m>, name: Name) -> Option<Uri<'m>> {
    message.values(name).next().and_then(uri_of)
}

fn uri_of(value: &[u8]) -> Option<Uri<'_>> {
    Uri::parse(NameAddr::parse(value).ok()?.uri).ok()
}
