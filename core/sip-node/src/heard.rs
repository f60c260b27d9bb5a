//! Where responses have come from: a Contact of another device may name a host that never asked for calls.
//!
//! A fixed table of hashes that all workers of a server share. A new entry may overwrite an older one, which
//! is noted again with its next answer. Nothing is kept over a restart.

use crate::node::{Node, domain};
use crate::services::Services;
use crate::settings::Mode;
use crate::targets::is_same;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sip_message::Uri;
use sip_registrar::{BindingView, Registration, Table};
use std::sync::Arc;
use wire::Time;

/// Addresses and names known at a time, a power of two.
const PLACES: usize = 8_192;

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
        let mut hash = self.keyed(domain::HEARD);
        if let Ok(uri) = Uri::parse(contact) {
            hash.write(&uri.host.to_ascii_lowercase());
            hash.write(&uri.param(b"maddr").unwrap_or(b"").to_ascii_lowercase());
            hash.write_u16(uri.port.unwrap_or(0));
        }
        hash.finish()
    }

    /// Something came back from `address`, where `contact` led.
    #[cold]
    pub(crate) fn note_heard(&self, contact: &[u8], address: SocketAddr) {
        self.heard.note(self.hash_of_contact(contact));
        self.heard.note(self.hash_of_address(address));
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
        let is_silent = |contact: &[u8]| !self.heard.knows(self.hash_of_contact(contact));
        // Contacts, not hosts: each is a branch of every call.
        let mut new: Vec<&[u8]> = registration.elsewhere().filter(|contact| is_silent(contact)).collect();
        if new.is_empty() {
            return false;
        }
        let mut silent = 0;
        table.bindings(aor, now, |binding: BindingView<'_>| {
            if binding.is_elsewhere() && is_silent(binding.contact) {
                silent += 1;
                new.retain(|new| !Uri::parse(new).is_ok_and(|new| is_same(&new, binding.contact)));
            }
        });
        !new.is_empty() && silent + new.len() > 1
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
