//! Many short fields hashed as one text.

use crate::Seal;
use core::hash::Hasher;
use siphasher::sip::{SipHasher13, SipHasher24};

/// A keyed hash that takes a text in one go, which costs less than to write it.
pub trait Keyed: Hasher {
    /// The hash of what was written and `bytes` after it.
    fn with(&self, bytes: &[u8]) -> u64;
}

impl Keyed for SipHasher13 {
    fn with(&self, bytes: &[u8]) -> u64 {
        self.hash(bytes)
    }
}

impl Keyed for SipHasher24 {
    fn with(&self, bytes: &[u8]) -> u64 {
        self.hash(bytes)
    }
}

/// Puts short fields together before they are hashed: a keyed hash pays for each write, whatever its
/// length, and what it hashes does not depend on how the text was cut. Fields that do not fit into the
/// `N` bytes here go to the hash in pieces, in order.
pub struct Gathered<const N: usize, H> {
    room: [u8; N],
    used: usize,
    hash: H,
}

impl<const N: usize, H: Keyed> Gathered<N, H> {
    /// Nothing gathered yet for `hash`.
    pub const fn new(hash: H) -> Self {
        Gathered { room: [0; N], used: 0, hash }
    }

    /// Appends a field. What keeps one field from running into the next is the caller's business.
    #[inline]
    pub fn add(&mut self, field: &[u8]) {
        match self.room.get_mut(self.used..self.used + field.len()) {
            Some(place) => {
                place.copy_from_slice(field);
                self.used += field.len();
            }
            None => self.spill(field),
        }
    }

    #[cold]
    fn spill(&mut self, field: &[u8]) {
        self.hash.write(self.room.get(..self.used).unwrap_or_default());
        self.hash.write(field);
        self.used = 0;
    }

    /// The hash of all fields, as a seal.
    pub fn seal(self) -> Seal {
        Seal::new(self.finish())
    }

    /// The hash of all fields.
    pub fn finish(self) -> u64 {
        self.hash.with(self.room.get(..self.used).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    proptest! {
        /// Whatever fits and whatever does not: the same as hashing one field after the other.
        #[test]
        fn the_cut_does_not_matter(fields in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..12)) {
            let mut gathered = Gathered::<64, _>::new(SipHasher13::new_with_keys(1, 2));
            let mut wide = Gathered::<512, _>::new(SipHasher24::new_with_keys(1, 2));
            let (mut plain, mut plain_24) = (SipHasher13::new_with_keys(1, 2), SipHasher24::new_with_keys(1, 2));
            for field in &fields {
                gathered.add(field);
                wide.add(field);
                plain.write(field);
                plain_24.write(field);
            }
            prop_assert_eq!(gathered.finish(), plain.finish());
            prop_assert_eq!(wide.finish(), plain_24.finish());
        }
    }
}
