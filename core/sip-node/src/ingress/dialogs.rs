//! Requests within a dialog that need no credentials: our Record-Route proves their sender.

use super::Ingress;
use crate::admitted::Caller;
use crate::routing::is_same_end;
use crate::services::Services;
use crate::site::Aor;
use sip_message::{Message, Method, Name, Uri};
use sip_proxy::routes::Routing;
use sip_proxy::token::{Dialog, Role};
use sip_registrar::is_public;
use wire::{Flow, Time};

/// Whether a request goes to the other end of its dialog whoever sent it: the URI that decides has the other
/// end's address, or a private one where the other end is behind address translation.
fn leads_to_peer(uri: &Uri<'_>, routing: &Routing<'_>, dialog: &Dialog) -> bool {
    let peer = dialog.peer.remote.ip();
    let next = routing.next.map(Uri::parse);
    let ip = match &next {
        Some(Ok(route)) => route.host_ip(),
        Some(Err(_)) => return false,
        None if dialog.peer.role == Role::Local => return true,
        None => uri.host_ip(),
    };
    ip.is_some_and(|ip| ip == peer || (!is_public(ip) && is_public(peer)))
}

impl<S: Services> Ingress<'_, S> {
    /// The sender of a request within a dialog, if it is our user with its name in the dialog, and the
    /// request goes to the other end. It must come from the address in our token, or on the connection on
    /// which its phone has registered since. Many gateways cannot answer a challenge there, and their calls
    /// would never end. The token and a source address may be known to the other end, so they give no choice
    /// of the next hop: such a request is [borrowed](Caller::borrowed). One that leads elsewhere is
    /// challenged.
    ///
    /// Credentials are always checked: they are valid once, and an eavesdropper could use unchecked ones.
    pub(crate) fn caller_within(
        &self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        (uri, routing): (&Uri<'_>, &Routing<'_>),
        dialog: Option<&Dialog>,
    ) -> Option<Caller<'static>> {
        let auth = &self.site.settings().auth;
        let dialog = dialog.filter(|dialog| dialog.sender.role == Role::Local)?;
        let (end, seen) = (dialog.sender, flow.remote);
        let same = is_same_end(end.remote, seen) && end.transport == flow.transport;
        // A NOTIFY may get a new token.
        let fits = !matches!(request.method(), Method::Register | Method::Notify);
        let brings =
            [Name::ProxyAuthorization, Name::Authorization].iter().any(|n| request.header(*n).is_some());
        let asked = !auth.enabled || auth.in_dialog || !fits || brings;
        if asked
            || !(same || flow.is_only_way())
            || self.site.trunk_of(flow).is_some()
            || self.site.is_from_ourselves(request)
        {
            return None;
        }
        // Under its own name: also in its own dialog no user may use another's name.
        let aor = self.site.aor_of(request.from_uri());
        let name = aor.as_ref().map_or(0, |aor| self.site.sealer().mark(aor.text()));
        let bears = if dialog.by_caller { dialog.calling } else { dialog.called };
        if name != bears || (name == 0 && !dialog.by_caller) {
            return None;
        }
        let direct = request.via_count() == 1 && !auth.is_front(seen.ip());
        if !(same || direct && aor.is_some_and(|aor| self.is_registered_on(now, flow, &aor))) {
            return None;
        }
        leads_to_peer(uri, routing, dialog)
            .then_some(Caller { borrowed: true, ..Caller::unproven(Role::Local) })
    }

    /// Whether a phone of this user has registered on this connection. A connection of a trusted proxy has
    /// many phones.
    fn is_registered_on(&self, now: Time, flow: Flow, aor: &Aor<'_>) -> bool {
        let mut found = false;
        // The connections of this node are known here.
        let _ = self.site.services().bindings(aor.text(), now, &mut |binding| {
            found |= binding.flow.conn == flow.conn && binding.path.is_empty() && !binding.is_elsewhere();
        });
        found
    }
}
