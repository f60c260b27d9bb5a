//! Where responses have come from: a Contact of another device, or of a stranger in a dialog, may name a host that never
//! asked for anything.
//!
//! A fixed table of hashes that all workers of a server share. A new entry may overwrite an older one, which
//! is noted again with its next answer. Nothing is kept over a restart.

use crate::node::{Node, domain};
use crate::reach::foreign_edge;
use crate::services::Services;
use crate::settings::Mode;
use crate::targets::{is_same, transport_of};
use core::hash::Hasher;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sip_message::{Message, Name, NameAddr, Uri};
use sip_registrar::{BindingView, Registration, Table, is_elsewhere};
use std::sync::Arc;
use wire::{Flow, Time};

/// Addresses and names known at a time, a power of two.
const PLACES: usize = 8_192;
/// The address of no host.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Where answers have come from.
pub struct Heard {
    places: Box<[AtomicU64]>,
}

impl Default for Heard {
    fn default() -> Heard {
        Heard { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Heard {
    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        self.places.get(hash as usize % PLACES)
    }

    fn note(&self, hash: u64) {
        if let Some(place) = self.place(hash) {
            place.store(hash.max(1), Relaxed);
        }
    }

    fn knows(&self, hash: u64) -> bool {
        self.place(hash).is_some_and(|place| place.load(Relaxed) == hash.max(1))
    }
}

impl<S: Services> Node<S> {
    /// It is one of the workers that share this.
    pub fn share_heard(&mut self, heard: Arc<Heard>) {
        self.heard = heard;
    }

    fn hash_of_address(&self, address: SocketAddr) -> u64 {
        let mut hash = self.keyed(domain::HEARD);
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => hash.write(&ip.octets()),
            IpAddr::V6(ip) => hash.write(&ip.octets()),
        }
        hash.write_u16(address.port());
        hash.finish()
    }

    /// Of what a Contact names, whoever is there.
    fn hash_of_contact(&self, contact: &[u8]) -> u64 {
        Uri::parse(contact).map_or(0, |uri| self.hash_of_uri(&uri))
    }

    fn hash_of_uri(&self, uri: &Uri<'_>) -> u64 {
        let mut hash = self.keyed(domain::HEARD);
        hash.write(&uri.host.to_ascii_lowercase());
        hash.write(&uri.param(b"maddr").unwrap_or(b"").to_ascii_lowercase());
        hash.write_u16(uri.port.unwrap_or(0));
        hash.finish()
    }

    /// Something came back from `address`, where a Contact led, or the Route lines that its Path made.
    #[cold]
    pub(crate) fn note_heard(&self, contact: Option<&[u8]>, routes: &[u8], address: SocketAddr) {
        if let Some(contact) = contact {
            let path = routes.strip_prefix(b"Route: ").unwrap_or_default().trim_ascii_end();
            self.heard.note(self.hash_of_contact(foreign_edge(path, NOWHERE).unwrap_or(contact)));
        }
        self.heard.note(self.hash_of_address(address));
    }

    /// A trusted proxy that names itself in Path counts as heard from. Where its Path leads is compared with host and
    /// port of its Via, because the Path may be the client's.
    pub(crate) fn note_edge(&self, flow: Flow, request: &Message<'_>) {
        let Some(first) = request.values(Name::Path).next() else { return };
        let Some(edge) = NameAddr::parse(first).ok().and_then(|value| Uri::parse(value.uri).ok()) else {
            return;
        };
        let via = request.via();
        let port = edge.port.unwrap_or(transport_of(&edge).default_port());
        let itself = edge.param(b"maddr").is_none()
            && edge.host.eq_ignore_ascii_case(via.host)
            && (edge.port == via.port || port == via.port_or_default());
        if itself && self.settings.auth.is_front(flow.remote.ip()) {
            self.heard.note(self.hash_of_uri(&edge));
        }
    }

    /// Whether something has come back from there.
    pub(crate) fn has_heard(&self, address: SocketAddr) -> bool {
        self.heard.knows(self.hash_of_address(address))
    }

    /// Whether a REGISTER would add a Contact of another device while nothing has come from another such one
    /// yet: one account must not direct the calls of all callers to a host that never asked for any.
    pub(crate) fn is_one_too_many(
        &self,
        now: Time,
        aor: &[u8],
        registration: &Registration<'_>,
        table: &Table,
    ) -> bool {
        // A redirect server sends nothing there.
        if self.settings.proxy.mode == Mode::Redirect {
            return false;
        }
        let is_silent = |contact: &[u8], path: &[u8], flow: Flow| {
            leads_elsewhere(contact, path, flow).is_some_and(|to| !self.heard.knows(self.hash_of_contact(to)))
        };
        // Contacts, not hosts: each is a branch of every call.
        let lasting = registration.lasting();
        let silent = lasting.filter(|(contact, flow)| is_silent(contact, registration.path(), *flow));
        let mut new: Vec<&[u8]> = silent.map(|(contact, _)| contact).collect();
        if new.is_empty() {
            return false;
        }
        let mut silent = 0;
        table.bindings(aor, now, |binding: BindingView<'_>| {
            if is_silent(binding.contact, binding.path, binding.flow) {
                silent += 1;
                new.retain(|new| !Uri::parse(new).is_ok_and(|new| is_same(&new, binding.contact)));
            }
        });
        !new.is_empty() && silent + new.len() > 1
    }
}

/// Where a binding leads, if that is another host than the one that registered it.
fn leads_elsewhere<'a>(contact: &'a [u8], path: &'a [u8], flow: Flow) -> Option<&'a [u8]> {
    if is_elsewhere(flow) { Some(contact) } else { foreign_edge(path, flow.remote.ip()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heard_forgets_the_older_of_two_in_one_place() {
        let heard = Heard::default();
        assert!(!heard.knows(0) && !heard.knows(7));
        heard.note(7);
        assert!(heard.knows(7) && !heard.knows(7 + PLACES as u64));
        heard.note(7 + PLACES as u64);
        assert!(!heard.knows(7) && heard.knows(7 + PLACES as u64));
        heard.note(0);
        assert!(heard.knows(0));
    }
}
