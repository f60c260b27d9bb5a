//! From the key of a call to its place: open addressing in a table of fixed size.
//!
//! It is made once for as many calls as there may be, so that no insert ever pays for a larger table, and
//! a removal closes the gap at once, so that nothing has to be swept.

use crate::CallKey;

const EMPTY: u32 = u32::MAX;

/// The table. Places are checked by the caller's `key_of`.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Box<[u32]>,
    mask: usize,
}

impl Index {
    /// A table that stays at most half full with `most` entries.
    pub fn new(most: usize) -> Index {
        let size = (most.max(8) * 2).next_power_of_two();
        Index { slots: vec![EMPTY; size].into_boxed_slice(), mask: size - 1 }
    }

    fn start(&self, key: CallKey) -> usize {
        key.0 as usize & self.mask
    }

    fn slot(&self, at: usize) -> u32 {
        self.slots.get(at).copied().unwrap_or(EMPTY)
    }

    fn position(&self, key: CallKey, key_of: impl Fn(u32) -> CallKey) -> Option<usize> {
        let mut at = self.start(key);
        loop {
            match self.slot(at) {
                EMPTY => return None,
                place if key_of(place) == key => return Some(at),
                _ => at = (at + 1) & self.mask,
            }
        }
    }

    /// The place of a key.
    pub fn find(&self, key: CallKey, key_of: impl Fn(u32) -> CallKey) -> Option<u32> {
        self.position(key, key_of).map(|at| self.slot(at))
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, key: CallKey, place: u32) {
        let mut at = self.start(key);
        // At most half of the table is ever full: the caller's limit sees to it.
        while self.slot(at) != EMPTY {
            at = (at + 1) & self.mask;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = place;
        }
    }

    /// Takes a key out and moves up those that had to go past it.
    pub fn remove(&mut self, key: CallKey, key_of: impl Fn(u32) -> CallKey) {
        let Some(mut hole) = self.position(key, &key_of) else { return };
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let place = self.slot(at);
            if place == EMPTY {
                break;
            }
            // It may move into the hole unless its own start lies behind the hole.
            let start = self.start(key_of(place));
            if (at.wrapping_sub(start) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.slots[hole] = place;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_finds_what_a_map_finds(steps in proptest::collection::vec((0u64..24, any::<bool>()), 0..200)) {
            let mut index = Index::new(24);
            let mut map: BTreeMap<u64, u32> = BTreeMap::new();
            // Keys that crowd into three neighbouring slots.
            let key = |n: u64| CallKey(n % 3 + 61, n);
            let mut keys: Vec<u64> = Vec::new();
            for (n, add) in steps {
                let of = |keys: &Vec<u64>, place: u32| key(keys[place as usize]);
                if add && !map.contains_key(&n) {
                    keys.push(n);
                    index.insert(key(n), keys.len() as u32 - 1);
                    map.insert(n, keys.len() as u32 - 1);
                } else if !add {
                    index.remove(key(n), |place| of(&keys, place));
                    map.remove(&n);
                }
                for n in 0..24 {
                    prop_assert_eq!(index.find(key(n), |place| of(&keys, place)), map.get(&n).copied());
                }
            }
        }
    }
}
