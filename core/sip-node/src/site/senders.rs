//! Who a message may come from: this server itself, a registered phone, a trunk.

use super::Site;
use crate::access::Holder;
use crate::services::{Counter, Refusal, Services};
use crate::settings::Bounds;
use crate::uris::transport_of;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use sip_message::{Message, Method, Uri};
use sip_proxy::loops::read_branch;
use sip_proxy::token::{Dialog, End, Role};
use wire::Flow;

/// The largest number of wanted names in one report.
const NAMES_TOLD: usize = 8;

impl<S: Services> Site<S> {
    /// Whether a request was sent by this server to itself (a spiral: one of our addresses stood in a
    /// Contact or Route). It comes from our own address then, and a trunk or mailbox on the same machine
    /// is not who sent it. The branch tells, for another server may go by our name.
    pub(crate) fn is_from_ourselves(&self, request: &Message<'_>) -> bool {
        let via = request.via();
        let ours = match read_branch(via.branch) {
            Some(branch) => self.guard.wrote(&branch),
            None => self.stateless_return(request).is_some(),
        };
        ours && self.settings.is_self(via.host, via.port)
    }

    /// Whether a request comes from where a phone is registered. What comes through a proxy comes from the
    /// proxy's address, whoever sent it: so with one Via only, and never from a proxy in front of this
    /// server.
    pub(crate) fn is_at_phone(&self, flow: Flow, request: &Message<'_>) -> bool {
        request.via_count() == 1
            && !self.settings.auth.is_front(flow.remote.ip())
            && self.services.has_contact(flow.remote)
            && !self.is_from_ourselves(request)
    }

    /// Whether a trunk speaks in a dialog in which it is not the end that it says it is. Whoever has the
    /// token can write his own tag where the other end's belongs, and be alice for whom the way is open.
    pub(crate) fn is_borrowed_by(&self, trunk: usize, flow: Flow, dialog: Option<&Dialog>) -> bool {
        let settings = &self.settings;
        let may_transit = settings.trunks.get(trunk).is_some_and(|t| t.may_transit);
        // The token has an address, which is not a source of a trunk that is known by its certificate.
        let is_own = |end: End| match settings.trunk_of(end.remote.ip()) {
            Some(at) => at == trunk,
            None => {
                let here = end.remote.ip().to_canonical() == flow.remote.ip().to_canonical();
                end.role == Role::Trunk && here && self.peers.trunk_of(flow) == Some(trunk)
            }
        };
        dialog.is_some_and(|d| !may_transit && !is_own(d.sender))
    }

    /// Reports that a request outside a dialog, over TLS, belongs to no trunk, if trunks are known by names
    /// in certificates. A request of our own user (`ours`) is reported only from the address of a trunk.
    #[inline]
    pub(crate) fn note_unproven(&self, flow: Flow, ours: bool) {
        if flow.transport.is_secure() && self.settings.trunks.iter().any(|t| !t.source_names.is_empty()) {
            self.tell_unproven(flow, ours);
        }
    }

    #[cold]
    fn tell_unproven(&self, flow: Flow, ours: bool) {
        let there = match self.places.target_at(&self.settings, flow.remote) {
            Some(Holder::Trunk(at)) => self.settings.trunks.get(at),
            _ => None,
        };
        if ours && there.is_none() {
            return;
        }
        let trunks = self.settings.trunks.iter().filter(|trunk| there.is_none_or(|t| t.name == trunk.name));
        let wanted = trunks.flat_map(|trunk| &trunk.source_names).map(|name| &name[..]);
        let wanted: Vec<&[u8]> = wanted.take(NAMES_TOLD).collect();
        if wanted.is_empty() {
            return;
        }
        let found = self.peers.of(flow);
        self.services.count(if found.is_some() { Counter::PeerOther } else { Counter::PeerUnknown });
        self.services.unproven(flow.remote, &wanted, found);
    }

    /// Counts a request that is refused, if it is a REGISTER.
    pub(crate) fn count_unregistered(&self, request: &Message<'_>, refused: Counter) {
        if request.method() == Method::Register {
            self.services.count(refused);
        }
    }

    /// Tells why a request was refused that is about somebody.
    pub(crate) fn tell(&self, why: Refusal, about: &[u8], flow: Flow, request: &Message<'_>) {
        self.services.refused(why, about, self.settings.auth.source(flow.remote.ip(), request));
    }

    /// A number for the network of an unproven sender: an address, of IPv6 what one customer usually has.
    pub(crate) fn account_of(&self, source: IpAddr) -> u64 {
        let mut hash = self.keyed(super::domain::ACCOUNT);
        match source.to_canonical() {
            IpAddr::V4(v4) => hash.write(&v4.octets()),
            IpAddr::V6(v6) => hash.write(&v6.octets()[..7]),
        }
        hash.finish()
    }

    /// Whether a URI that somebody else wrote names a place that a request may go to, as far as it shows
    /// without being looked up; the addresses that a name leads to are checked when they are known.
    pub(crate) fn may_name(&self, uri: &Uri<'_>, bounds: Bounds) -> bool {
        let maddr = uri.param(b"maddr").and_then(sip_message::host_ip);
        let port = uri.port.unwrap_or(transport_of(uri).default_port());
        [uri.host_ip(), maddr]
            .into_iter()
            .flatten()
            .all(|ip| self.settings.allows(bounds, SocketAddr::new(ip, port)))
    }
}
