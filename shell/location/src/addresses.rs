//! The index of bindings by address, for all tables together: a question about one address takes one lock,
//! however many parts the location service has.

use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock};

use sip_registrar::{AddressIndex, ContactAt, MOST_CANDIDATES, Owner, SharedIndex, Spot};

/// Parts of the index, each with a lock of its own.
const PARTS: usize = 64;

/// The index by address. A part is locked for one step and nothing else is locked meanwhile, so it may be
/// asked and changed under the lock of a table.
pub(crate) struct Addresses {
    parts: Box<[Lined]>,
}

#[derive(Default)]
#[repr(align(64))]
struct Lined(RwLock<AddressIndex>);

/// Who may have a Contact at an address.
pub(crate) struct Candidates {
    owners: [Owner; MOST_CANDIDATES],
    count: usize,
    more: bool,
}

impl Candidates {
    /// Those of one table in a row.
    pub(crate) fn by_part(&self) -> impl Iterator<Item = &[Owner]> {
        self.owners[..self.count].chunk_by(|a, b| a.part == b.part)
    }

    /// Whether there are more, which are not among these.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }
}

impl Addresses {
    /// An empty index.
    pub(crate) fn new() -> Addresses {
        Addresses { parts: (0..PARTS).map(|_| Lined::default()).collect() }
    }

    /// Whether something stands at this address.
    pub(crate) fn contains(&self, address: SocketAddr) -> bool {
        self.read(address, |index| index.contains(address)).unwrap_or(false)
    }

    /// Who may have this Contact.
    pub(crate) fn candidates(&self, contact: &ContactAt<'_>) -> Candidates {
        let owners = [Owner { part: 0, hash: 0 }; MOST_CANDIDATES];
        let mut found = Candidates { owners, count: 0, more: false };
        let more = self.read(contact.address(), |index| {
            index.candidates(contact, |owner| {
                if let Some(place) = found.owners.get_mut(found.count) {
                    *place = owner;
                    found.count += 1;
                }
            })
        });
        found.more = more.unwrap_or(false);
        found
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for part in &self.parts {
            *part.0.write().unwrap_or_else(PoisonError::into_inner) = AddressIndex::default();
        }
    }

    /// Bytes of memory, estimated.
    pub(crate) fn bytes(&self) -> usize {
        let held = |part: &Lined| part.0.read().unwrap_or_else(PoisonError::into_inner).bytes();
        self.parts.iter().map(|part| size_of::<Lined>() + held(part)).sum()
    }

    fn read<R>(&self, address: SocketAddr, ask: impl FnOnce(&AddressIndex) -> R) -> Option<R> {
        #[cfg(test)]
        crate::locks::note();
        Some(ask(&self.part(address)?.0.read().unwrap_or_else(PoisonError::into_inner)))
    }

    fn change(&self, address: SocketAddr, change: impl FnOnce(&mut AddressIndex)) {
        #[cfg(test)]
        crate::locks::note();
        if let Some(part) = self.part(address) {
            change(&mut part.0.write().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The part of an address. Which one it is anybody may know: to aim at one brings waiting for short steps
    /// only.
    fn part(&self, address: SocketAddr) -> Option<&Lined> {
        let ip = match address.ip().to_canonical() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ (ip.to_bits() as u64).rotate_left(29),
        };
        let mixed = (ip ^ u64::from(address.port()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.parts.get((mixed >> 48) as usize % PARTS)
    }
}

impl SharedIndex for Addresses {
    fn add(&self, spot: &Spot) {
        self.change(spot.address(), |index| index.add(spot));
    }

    fn remove(&self, spot: &Spot) {
        self.change(spot.address(), |index| index.remove(spot));
    }
}
