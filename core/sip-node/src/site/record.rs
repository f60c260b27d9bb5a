//! Our Record-Route, and how much a request grows on its way through.

use super::Site;
use crate::services::Services;
use crate::settings::Mode;
use crate::uris::is_sips;
use core::net::SocketAddr;
use sip_message::{Message, Uri};
use sip_proxy::locate::Ability;
use sip_proxy::token::{End, Ends, Role};
use sip_proxy::transport::reply_flow;
use wire::{Flow, Transport};

/// Bytes of a Session-Expires and a Min-SE that may be added (RFC 4028 section 8.1).
const TIMER: usize = 24 + 15;

/// What says that we can be told of overload.
pub(crate) const OC: &[u8] = b";oc;oc-algo=\"loss,rate\"";

impl<S: Services> Site<S> {
    /// The ends of a dialog that a request may set up, and the names that they bear in it. `keeper`: of the
    /// table of calls. `call`: an INVITE set the dialog up, or does so now.
    pub(crate) fn ends(
        &self,
        request: &Message<'_>,
        (caller, callee): (End, End),
        keeper: u16,
        call: bool,
    ) -> Ends {
        let mark = |uri| self.aor_of(uri).map_or(0, |aor| self.sealer.mark(aor.text()));
        let calling = if caller.role == Role::Local { mark(request.from_uri()) } else { 0 };
        // Without transactions there is no table of calls.
        let keeper = if self.settings.proxy.mode == Mode::Stateless { 0 } else { keeper };
        Ends { caller, callee, called: mark(request.to_uri()), calling, keeper, call, raised: 0 }
    }

    /// Our Record-Route: one value for each side where they differ (RFC 5658), both with the sealed
    /// ends of the dialog.
    pub(crate) fn push_routes(&self, ends: &Ends, request: &Message<'_>, lines: &mut Vec<u8>) {
        let (near, far) = (ends.caller.listener, ends.callee.listener);
        let sides = [Some(far), (near != far).then_some(near)];
        let secure = is_sips(request.request_uri());
        for listener in sides.into_iter().flatten().filter_map(|l| self.settings.listener(l)) {
            lines.extend_from_slice(listener.record_route_prefix(secure));
            lines.extend_from_slice(b";d=");
            self.sealer.seal(ends, request.call_id(), request.from_tag(), lines);
            lines.extend_from_slice(b">\r\n");
        }
    }

    /// About how long a request that came over `from` will be when it leaves: what tells whether a
    /// datagram may carry it (section 18.1.1). A Path and a longer Request-URI are not reckoned in.
    pub(crate) fn grown(&self, from: Flow, request: &Message<'_>) -> usize {
        request.bytes().len() + self.growth(from, request.method().creates_dialog())
    }

    /// What is added to a request that came over `from` before it leaves by datagram, bytes.
    pub(crate) fn growth(&self, from: Flow, recorded: bool) -> usize {
        let Some(near) = self.settings.listener(from.listener) else { return 0 };
        // A branch, what a trunk is told, Max-Breadth, and what a datagram's Via is completed with.
        let via =
            near.via_prefix().len() + 43 + OC.len() + 17 + if from.transport.is_reliable() { 0 } else { 40 };
        // The sealed ends of a dialog, with both addresses.
        let token = if near.address.is_ipv4() { 47 } else { 79 };
        let route = near.record_route_prefix(false).len() + token;
        let timer = if recorded && self.settings.proxy.session.is_some() { TIMER } else { 0 };
        let via = via + timer;
        // One for each side where they differ, as they may in the family of their addresses.
        let differ = from.transport.is_reliable() || !near.address.is_ipv4();
        match recorded && self.settings.proxy.record_route {
            false => via,
            true => via + route * if differ { 2 } else { 1 },
        }
    }

    /// What this server can send with.
    pub(crate) fn ability(&self) -> Ability {
        let listeners = &self.settings.listeners;
        Ability {
            transports: listeners.iter().map(|l| l.transport).collect(),
            v4: listeners.iter().any(|l| l.address.is_ipv4()),
            v6: listeners.iter().any(|l| l.address.is_ipv6()),
            v6_first: false,
        }
    }
}

/// The caller's end of a dialog, as its request shows it.
pub(crate) fn caller_end(source: Flow, request: &Message<'_>, role: Role) -> End {
    let via = request.via();
    let own = via.host_ip.map(|ip| SocketAddr::new(ip, via.port_or_default()));
    End::new(reply_flow(source, request), role).known_as(own)
}

/// The callee's end, if `routes` lead there directly. A phone of ours that is reached elsewhere than its
/// Contact says is behind address translation.
pub(crate) fn callee_end(hop: Flow, role: Role, uri: &[u8], routes: &[u8]) -> End {
    let direct = role == Role::Local && routes.is_empty() && hop.transport == Transport::Udp;
    let uri = Uri::parse(uri).ok().filter(|_| direct);
    let own = uri.and_then(|uri| Some(SocketAddr::new(uri.host_ip()?, uri.port.unwrap_or(5060))));
    End::new(hop, role).known_as(own)
}
