//! Phones whose connection is not the one on which their dialog began: after a restart of this server, or a
//! change of their network. Under RFC 5626 such dialogs fail. Here they continue over the connection on
//! which the phone has registered since.

use super::reach::is_dialled_never;
use super::{Router, Target};
use crate::admitted::Admitted;
use crate::services::Services;
use crate::site::Aor;
use core::net::SocketAddr;
use sip_message::{Message, Method, Uri};
use sip_proxy::token::{Dialog, End, Role};
use sip_registrar::BindingView;
use wire::{Flow, Time, Transport};

/// A connection of the other end of a dialog that is not the one in the token.
pub(super) struct Moved {
    pub flow: Flow,
    /// The one in the token is certainly gone.
    pub only: bool,
    /// It is certainly that of the phone, so it is tried first: a lost connection shows only by a timeout.
    pub first: bool,
}

/// The registration on the connection that the dialog began on.
struct Earlier {
    call_id: Vec<u8>,
    instance: Vec<u8>,
    reg_id: u32,
    expires: Time,
}

impl Earlier {
    fn of(binding: &BindingView<'_>) -> Earlier {
        let (call_id, instance) = (binding.call_id.to_vec(), binding.instance.to_vec());
        Earlier { call_id, instance, reg_id: binding.reg_id, expires: binding.expires }
    }

    /// Whether the same phone has registered again, with another Contact. Without a reg-id this makes a
    /// second binding (RFC 5626 section 6). A phone keeps its Call-ID until it reboots (RFC 3261 section
    /// 10.2).
    fn is_followed_by(&self, binding: &BindingView<'_>) -> bool {
        if self.is_flow_beside(binding) {
            return false;
        }
        let same = match (&*self.instance, binding.instance) {
            (b"", b"") => self.call_id == binding.call_id,
            (earlier, instance) => earlier == instance,
        };
        same && binding.expires >= self.expires
    }

    /// Whether it is another flow of the same phone. A phone uses all its flows at a time (RFC 5626 section
    /// 4.2), so this says nothing of the one that the dialog began on.
    fn is_flow_beside(&self, binding: &BindingView<'_>) -> bool {
        let flows = self.reg_id != 0 && binding.is_outbound();
        flows && self.reg_id != binding.reg_id && self.instance == binding.instance
    }
}

/// A connection, if there is only one.
#[derive(Default)]
struct Only {
    flow: Option<Flow>,
    many: bool,
}

impl Only {
    fn note(&mut self, flow: Flow) {
        self.many |= self.flow.replace(flow).is_some();
    }

    fn found(self) -> Option<Flow> {
        self.flow.filter(|_| !self.many)
    }
}

/// Finds the connection of a user that leads to the phone of a dialog. It is the one that registered the
/// Contact; else the only one with the user name of the Contact; else the only one of these at the address.
/// If none has this user name, it is the only one of all. While a phone is registered on the connection of
/// the dialog, it is the one on which the same phone has registered again, else that of its last other flow.
#[derive(Default)]
struct Search {
    exact: Option<Flow>,
    named: Only,
    near: Only,
    all: Only,
    earlier: Option<Earlier>,
    follows: Option<Flow>,
    beside: Option<(Time, Flow)>,
}

impl Search {
    fn note(&mut self, end: &End, uri: &Uri<'_>, binding: &BindingView<'_>) {
        let flow = binding.flow;
        if !flow.is_only_way() || !binding.path.is_empty() {
            return;
        }
        if began_on(end, binding) {
            self.earlier = Some(Earlier::of(binding));
        }
        let Ok(contact) = Uri::parse(binding.contact) else { return };
        if contact.equivalent(uri) {
            self.exact.get_or_insert(flow);
        }
        if contact.user == uri.user {
            self.named.note(flow);
            if flow.remote.ip().to_canonical() == end.remote.ip().to_canonical() {
                self.near.note(flow);
            }
        }
        self.all.note(flow);
    }

    /// Looks at a binding again, now that the earlier one is known.
    fn note_again(&mut self, end: &End, binding: &BindingView<'_>) {
        let Some(earlier) = &self.earlier else { return };
        if !binding.flow.is_only_way() || !binding.path.is_empty() || began_on(end, binding) {
            return;
        }
        if earlier.is_followed_by(binding) {
            self.follows = Some(binding.flow);
        } else if earlier.is_flow_beside(binding)
            && self.beside.is_none_or(|(last, _)| last <= binding.expires)
        {
            self.beside = Some((binding.expires, binding.flow));
        }
    }

    /// The connection, and whether it is certain.
    fn found(self) -> Option<(Flow, bool)> {
        let all = self.all.found().filter(|_| self.named.flow.is_none());
        let likely = self.named.found().or(self.near.found()).or(all);
        match self.earlier {
            Some(_) => {
                let beside = self.beside.map(|(_, flow)| (flow, false));
                self.follows.map(|flow| (flow, true)).or(beside)
            }
            None => self.exact.map(|flow| (flow, true)).or(likely.map(|flow| (flow, false))),
        }
    }
}

/// Whether a binding is on the connection that a dialog began on.
fn began_on(end: &End, binding: &BindingView<'_>) -> bool {
    is_same_end(binding.flow.remote, end.remote) && binding.flow.transport == end.transport
}

/// Whether two addresses are the same one, however they are written.
pub(crate) fn is_same_end(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

impl<S: Services> Router<'_, S> {
    /// The connection on which a user's phone has registered since the dialog began. Only for phones that
    /// can be reached only over their own connection; over TCP only after a restart, so that calls need no
    /// further look-up.
    pub(super) fn moved(
        &self,
        now: Time,
        request: &Message<'_>,
        uri: &Uri<'_>,
        dialog: &Dialog,
    ) -> Option<Moved> {
        let end = &dialog.peer;
        let earlier = dialog.keeper != 0 && dialog.keeper != self.calls.keeper();
        let looks = is_dialled_never(end.transport) || earlier && end.transport == Transport::Tcp;
        if end.role != Role::Local || !end.opened || !looks {
            return None;
        }
        let aor = self.aor_of_peer(request, dialog)?;
        let mut search = Search::default();
        // The connections of this node are known here.
        let _ = self.site.services().bindings(aor.text(), now, &mut |b| search.note(end, uri, b));
        if search.earlier.is_some() {
            let _ = self.site.services().bindings(aor.text(), now, &mut |b| search.note_again(end, b));
        }
        search.found().map(|(flow, first)| Moved { flow, only: earlier, first })
    }

    /// The address-of-record in To, if it is that of the other end of a dialog.
    fn aor_of_peer<'r>(&self, request: &Message<'r>, dialog: &Dialog) -> Option<Aor<'r>> {
        let mark = if dialog.by_caller { dialog.called } else { dialog.calling };
        let aor = self.site.aor_of(request.to_uri())?;
        (mark == self.site.sealer().mark(aor.text())).then_some(aor)
    }

    /// Whether a phone of the other end of a dialog has registered by a Path that leads to this port of the
    /// proxy that the dialog came by.
    pub(super) fn is_path_of_peer(
        &self,
        now: Time,
        request: &Message<'_>,
        dialog: &Dialog,
        remote: SocketAddr,
    ) -> bool {
        let end = &dialog.peer;
        let Some(aor) = self.aor_of_peer(request, dialog).filter(|_| end.role == Role::Local) else {
            return false;
        };
        let mut found = false;
        let _ = self.site.services().bindings(aor.text(), now, &mut |binding| {
            let (flow, path) = (binding.flow, binding.path);
            let by_it = !path.is_empty() && !binding.is_elsewhere() && flow.transport == end.transport;
            found |= by_it && self.edge_anew(path, flow).is_some_and(|anew| is_same_end(anew.remote, remote));
        });
        found
    }

    /// The Paths of a phone in a dialog that is behind a proxy in front of this server, the last registered
    /// first. They stand in for the Route of the dialog if the proxy answers 430 (RFC 5626 section 5.3.1), is
    /// silent, or is not there. Not for INVITE, whose ACK would follow the Route of the dialog.
    pub(super) fn beyond_front(
        &self,
        now: Time,
        near: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        dialog: &Dialog,
    ) -> Option<Box<Target>> {
        let follows = !matches!(request.method(), Method::Invite | Method::Ack);
        let front =
            dialog.peer.role == Role::Local && self.site.settings().auth.is_front(dialog.peer.remote.ip());
        if !follows || !front {
            return None;
        }
        let aor = self.aor_of_peer(request, dialog)?;
        let uri = Target::new(a.routing.request_uri, Role::Local).uri;
        let mut paths = Paths::default();
        let _ = self.site.services().bindings(aor.text(), now, &mut |binding| {
            if !binding.path.is_empty() && !binding.is_elsewhere() {
                let target = self.binding_target(near, binding);
                paths.note(&a.uri, binding, Target { uri: uri.clone(), reroutes: true, ..target });
            }
        });
        Target::chain(paths.of_phone().into_iter()).map(Box::new)
    }
}

/// How many Paths of a phone stand in for a Route.
const MAX_PATHS: usize = 3;

/// The Paths of a user's phones with one user name in their Contacts.
#[derive(Default)]
struct Paths(Vec<Beyond>);

struct Beyond {
    expires: Time,
    /// Its Contact is the one in the dialog.
    exact: bool,
    target: Target,
}

impl Paths {
    fn note(&mut self, uri: &Uri<'_>, binding: &BindingView<'_>, target: Target) {
        if let Some(contact) = Uri::parse(binding.contact).ok().filter(|contact| contact.user == uri.user) {
            self.0.push(Beyond { expires: binding.expires, exact: contact.equivalent(uri), target });
        }
    }

    /// Those of the phone that has registered the Contact, else those of the only phone there is. None if
    /// several phones have that Contact, as in two networks behind address translation: a 481 of the wrong
    /// one would end the request.
    fn of_phone(mut self) -> Vec<Target> {
        self.0.sort_by_key(|path| core::cmp::Reverse(path.expires));
        let known = self.0.iter().find(|path| path.exact);
        let Some(first) = known.or(self.0.first()) else { return Vec::new() };
        let (known, instance) = (known.is_some(), first.target.instance.clone());
        let is_same = |path: &Beyond| !instance.is_empty() && path.target.instance == instance;
        let mut alike = self.0.iter().filter(|path| path.exact || !known);
        if alike.clone().count() > 1 && !alike.all(is_same) {
            return Vec::new();
        }
        self.0.retain(|path| path.exact || !known || is_same(path));
        self.0.into_iter().map(|path| path.target).take(MAX_PATHS).collect()
    }
}
