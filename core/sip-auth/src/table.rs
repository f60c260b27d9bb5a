//! The bounded table behind nonce counts and back-off: fixed memory, no growth, no rehash.
//!
//! Entries live in sets of eight chosen by their key; a full set gives up the entry its owner calls
//! least worth keeping. A keyed hash makes the keys, so nobody outside can aim at a set.

/// Entries in a set.
pub(crate) const WAYS: usize = 8;

/// Which of `shards` shards serves `key`; 0 when there is only one.
///
/// Uses the upper half of the key, because a shard places entries by the lower half.
pub fn shard_of(key: u64, shards: usize) -> usize {
    let shards = u64::try_from(shards.max(1)).unwrap_or(1);
    usize::try_from((key >> 32) % shards).unwrap_or(0)
}

/// A power-of-two number of sets of type `S`.
pub(crate) struct Sets<S> {
    sets: Box<[S]>,
}

impl<S: Clone> Sets<S> {
    /// Room for about `capacity` entries (at least one set), all copies of `empty`.
    pub fn new(capacity: usize, empty: S) -> Sets<S> {
        let count = capacity.div_ceil(WAYS).max(1).checked_next_power_of_two().unwrap_or(1);
        Sets { sets: vec![empty; count].into_boxed_slice() }
    }

    /// The set of `key`.
    pub fn of(&mut self, key: u64) -> Option<&mut S> {
        let mask = self.sets.len() - 1;
        self.sets.get_mut((key & 0xffff_ffff) as usize & mask)
    }

    /// All sets.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.sets.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_and_sets_use_different_bits() {
        assert_eq!(shard_of(u64::MAX, 0), 0);
        assert_eq!(shard_of(7 << 32, 4), 3);
        assert_eq!(shard_of(7, 4), 0);
        let mut sets = Sets::new(9, 0u8);
        assert_eq!(sets.iter().count(), 2);
        *sets.of(1 | (5 << 32)).expect("a set") = 9;
        assert_eq!(sets.of(1).copied(), Some(9));
        assert_eq!(sets.of(2).copied(), Some(0));
    }
}
