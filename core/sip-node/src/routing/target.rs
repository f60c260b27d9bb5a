//! Where a request may go: what routing decides.

use super::others::Ask;
use crate::admitted::Admitted;
use crate::diverting::Diverting;
use crate::settings::Bounds;
use crate::short::{Short, Text};
use crate::trunk_ref::TrunkRef;
use crate::uris::{is_same, push_bracketed};
use crate::watch::Watch;
use call_limits::Barred;
use call_rules::HeaderRules;
use core::mem;
use core::net::IpAddr;
use sip_message::request_target;
use sip_proxy::token::Role;
use sip_registrar::FlowBinding;
use std::sync::Arc;
use wire::Flow;

/// What is to be done with a request that is not for the server itself.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Try these, in groups of falling q.
    Forward(Vec<(u16, Target)>),
    /// Answer 302 with these Contact values.
    Redirect(Vec<u8>),
    /// Answer with this status.
    Refuse(u16),
    /// Answer 403: its dialog is none that this server knows, and it should.
    NoDialog,
    /// Answer 403: the class of the caller does not let it leave.
    Barred(Barred),
    /// The callee exists but has no binding: voicemail or 480.
    Offline,
    /// Wait for the bindings that others hold.
    Ask(Ask),
}

impl Plan {
    /// The same as a redirect server does it: the caller is told where to go (section 8.3). It goes on as
    /// a proxy where that would be the very URI that was asked for, and within dialogs.
    pub fn redirected(self, a: &Admitted<'_>) -> Plan {
        let Plan::Forward(targets) = self else { return self };
        let setup = a.dialog.is_none() && a.routing.next.is_none();
        let mut contacts = Vec::new();
        for (_, first) in targets.iter().filter(|_| setup) {
            let mut next = Some(first);
            while let Some(target) = next.filter(|w| !is_same(&a.uri, &w.uri)) {
                push_bracketed(&target.uri, &mut contacts);
                next = target.next.as_deref();
            }
        }
        if contacts.is_empty() { Plan::Forward(targets) } else { Plan::Redirect(contacts) }
    }
}

/// Where a request goes.
#[derive(Default)]
pub(crate) struct TargetSet {
    /// With their q; none: to voicemail.
    pub targets: Vec<(u16, Target)>,
    /// The call is to a user who has rules for it.
    pub diverting: Option<Box<Diverting>>,
}

/// A target as routing sees it, in owned text.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub uri: Text,
    /// Whole Route lines.
    pub routes: Vec<u8>,
    /// Addresses, if they are known.
    pub hops: Short<Flow>,
    /// The URI to look up if they are not.
    pub locate: Vec<u8>,
    /// Where what `locate` leads to may be.
    pub bounds: Bounds,
    pub role: Role,
    pub trunk: Option<TrunkRef>,
    /// What is changed in the header fields of its request.
    pub headers: Option<Arc<HeaderRules>>,
    pub watch: Option<Watch>,
    /// `routes` takes the place of all Route lines of the request.
    pub reroutes: bool,
    /// Strict routing: the Route line to put last.
    pub last_route: Vec<u8>,
    /// The instance that the binding belongs to (RFC 5626); empty: none.
    pub instance: Vec<u8>,
    /// The binding of one flow of a phone behind another proxy. It is removed if that proxy has lost the
    /// flow (RFC 5626 section 7).
    pub flow: Option<Box<FlowBinding>>,
    /// Only the flow of the registration leads there (RFC 5626).
    pub flow_only: bool,
    /// Its first address is the far end of a connection that the peer opened: if that is gone, none is made.
    pub existing: bool,
    /// Its addresses are connections to the one proxy that its phone is behind: an old one and a new one.
    pub behind_edge: bool,
    /// Only an encrypted transport may be used. Where its own URI is `sips:` that goes without saying.
    pub secure: bool,
    /// Chosen by a sender that has not proven that it is there: the device of a Contact, the other end of a
    /// dialog.
    pub elsewhere: bool,
    /// Where a binding was registered from, if its target is elsewhere.
    pub registered_from: Option<IpAddr>,
    /// What is tried in its place if it cannot be reached.
    pub next: Option<Box<Target>>,
}

impl Target {
    pub fn new(uri: &[u8], role: Role) -> Target {
        Target {
            uri: request_target(uri)[..].into(),
            routes: Vec::new(),
            hops: Short::None,
            locate: Vec::new(),
            bounds: Bounds::Outside,
            role,
            trunk: None,
            headers: None,
            watch: None,
            reroutes: false,
            last_route: Vec::new(),
            instance: Vec::new(),
            flow: None,
            flow_only: false,
            existing: false,
            behind_edge: false,
            secure: false,
            elsewhere: false,
            registered_from: None,
            next: None,
        }
    }

    /// One target out of several that stand for each other, in failover order; those that do not answer come
    /// last.
    pub fn chain(targets: impl DoubleEndedIterator<Item = Target>) -> Option<Target> {
        let (mut first, mut last) = (None, None);
        for target in targets.rev() {
            let list: &mut Option<Target> = if target.is_last() { &mut last } else { &mut first };
            *list = Some(Target { next: list.take().map(Box::new), ..target });
        }
        match (first, last) {
            (Some(mut first), Some(last)) => {
                first.append(last);
                Some(first)
            }
            (first, last) => first.or(last),
        }
    }

    /// Whether others are tried before it, because it does not answer.
    pub fn is_last(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_last)
    }

    /// Puts another at the end of the chain.
    pub fn append(&mut self, target: Target) {
        let mut last = &mut self.next;
        while let Some(next) = last {
            last = &mut next.next;
        }
        *last = Some(Box::new(target));
    }

    /// Takes in another flow of the same phone: after its others, but before them if the request is too
    /// `large` for a datagram and only the new one is a stream.
    pub fn join(&mut self, target: Target, large: bool) {
        let by_stream = |w: &Target| w.hops.first().is_some_and(|hop| hop.transport.is_reliable());
        if large && by_stream(&target) && !by_stream(self) {
            let others = mem::replace(self, target);
            self.next = Some(Box::new(others));
        } else {
            self.append(target);
        }
    }

    /// To be looked up by its own URI.
    pub fn located(uri: &[u8], role: Role, bounds: Bounds) -> Target {
        Target { locate: uri.to_vec(), bounds, ..Target::new(uri, role) }
    }

    /// Whether a request goes the same way to both.
    pub fn leads_where(&self, other: &Target) -> bool {
        (&self.hops, &self.routes, &self.locate) == (&other.hops, &other.routes, &other.locate)
    }
}

/// Where the phones of the called user have registered from: their hops, and the sources of bindings that
/// lead elsewhere.
pub(crate) fn sources<'a>(
    hops: &'a [Flow],
    elsewhere: bool,
    registered_from: Option<IpAddr>,
) -> impl Iterator<Item = IpAddr> + 'a {
    let hops = if elsewhere { &[] } else { hops };
    hops.iter().map(|hop| hop.remote.ip()).chain(registered_from)
}
