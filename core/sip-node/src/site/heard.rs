//! Where responses have come from: a Contact of another device, or of a stranger in a dialog, may name a host
//! that never asked for anything.
//!
//! A fixed table of hashes that all workers of a server share. A new entry may overwrite an older one, which
//! is noted again with its next answer. Nothing is kept over a restart.

use super::{Site, domain};
use crate::services::Services;
use crate::uris::foreign_edge;
use core::hash::Hasher;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sip_message::Uri;

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

    pub(crate) fn note(&self, hash: u64) {
        if let Some(place) = self.place(hash) {
            place.store(hash.max(1), Relaxed);
        }
    }

    pub(crate) fn knows(&self, hash: u64) -> bool {
        self.place(hash).is_some_and(|place| place.load(Relaxed) == hash.max(1))
    }
}

impl<S: Services> Site<S> {
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
    pub(crate) fn hash_of_contact(&self, contact: &[u8]) -> u64 {
        Uri::parse(contact).map_or(0, |uri| self.hash_of_uri(&uri))
    }

    pub(crate) fn hash_of_uri(&self, uri: &Uri<'_>) -> u64 {
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

    /// Whether something has come back from there.
    pub(crate) fn has_heard(&self, address: SocketAddr) -> bool {
        self.heard.knows(self.hash_of_address(address))
    }
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
