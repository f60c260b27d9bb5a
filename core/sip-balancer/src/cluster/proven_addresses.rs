//! Addresses of datagrams that have shown that they receive what is sent to them.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// Addresses known at a time: 512 KiB, allocated with the first.
const PLACES: usize = 65_536;

/// A fixed table of keyed hashes that all workers share. A new one may overwrite an older one, whose address
/// then shows it again. Nothing is kept over a restart.
#[derive(Debug, Default)]
pub(crate) struct Proven(OnceLock<Box<[AtomicU64]>>);

impl Proven {
    pub fn note(&self, hash: u64) {
        let places = self.0.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(0)).collect());
        if let Some(place) = places.get(hash as usize % PLACES) {
            place.store(hash.max(1), Relaxed);
        }
    }

    pub fn has(&self, hash: u64) -> bool {
        let place = self.0.get().and_then(|places| places.get(hash as usize % PLACES));
        place.is_some_and(|place| place.load(Relaxed) == hash.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proven_address_is_known_until_its_place_is_taken() {
        let proven = Proven::default();
        assert!(!proven.has(0) && !proven.has(7));
        proven.note(7);
        assert!(proven.has(7) && !proven.has(7 + PLACES as u64));
        proven.note(7 + PLACES as u64);
        assert!(!proven.has(7) && proven.has(7 + PLACES as u64));
        proven.note(0);
        assert!(proven.has(0));
    }
}
