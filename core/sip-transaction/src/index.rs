//! The table from hash to server transaction: linear hashing over buckets of one line of the processor's
//! cache.
//!
//! A flat table rehashes all it holds when it grows, a pause of milliseconds at a million entries. This one
//! splits one bucket for every third entry added, so that no insertion costs more than one split. It never
//! shrinks: about 22 bytes for each entry there has ever been at a time.
//!
//! A bucket says half of the hash of each of its entries and where it is. So whoever searches, adds, removes
//! or splits reads buckets only, one line each time: the transactions themselves are mostly of half a minute
//! ago and in no cache, and nearly every search is for a request that is new.

use prefetch_index::prefetch_index;

/// Entries of one bucket.
const PLACES: usize = 7;
/// Entries for each bucket, when the table grows. Seven of a hundred are behind a full bucket then, where
/// there is half of a round of splitting left.
const FILL: usize = 3;
/// Buckets in one segment: so many that where the segments are is in a few lines of the processor's cache, in
/// use all the time.
const SEGMENT: usize = 4096;
const NIL: u32 = u32::MAX;
/// Slots are below this: ids have no more bits for them.
pub(crate) const SLOTS: usize = (1 << 28) - 1;

/// Entries whose hashes end alike, as far as the number of buckets asks for.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// The lower half of the hash of each entry, and its slot.
    hashes: [u32; PLACES],
    slots: [u32; PLACES],
    len: u32,
    /// The next bucket, among those `beyond`, for what does not fit; of a free one, the next free one.
    more: u32,
}

const EMPTY: Bucket = Bucket { hashes: [0; PLACES], slots: [NIL; PLACES], len: 0, more: NIL };
const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    fn has_room(&self) -> bool {
        self.len < PLACES as u32
    }

    fn push(&mut self, hash: u32, slot: u32) {
        let at = self.len as usize % PLACES;
        (self.hashes[at], self.slots[at]) = (hash, slot);
        self.len += 1;
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        self.hashes.iter().copied().zip(self.slots.iter().copied()).take(self.len as usize)
    }

    /// Bit n: entry n has this word in `column`. All places are compared, whatever the length: what follows
    /// depends on one branch, which the processor foresees, and need not wait for the bucket.
    #[inline]
    fn alike(&self, column: &[u32; PLACES], word: u32) -> u32 {
        let equal = column.iter().zip(0..).map(|(there, n)| u32::from(*there == word) << n);
        equal.fold(0, |bits, bit| bits | bit) & ((1 << self.len) - 1)
    }

    /// Takes an entry out; `false` if it is not here.
    #[inline]
    fn remove(&mut self, slot: u32) -> bool {
        let there = self.alike(&self.slots, slot);
        if there == 0 {
            return false;
        }
        self.len -= 1;
        let (at, last) = (there.trailing_zeros() as usize % PLACES, self.len as usize % PLACES);
        (self.hashes[at], self.slots[at]) = (self.hashes[last], self.slots[last]);
        true
    }
}

/// Buckets in segments, so that more of them never copies what is there. A segment has its room from the
/// beginning; what is not used of it takes no memory.
struct Buckets {
    segments: Vec<Vec<Bucket>>,
    len: usize,
}

impl Buckets {
    fn new() -> Buckets {
        Buckets { segments: Vec::new(), len: 0 }
    }

    /// Adds an empty one; its number.
    fn add(&mut self) -> usize {
        if self.len == self.segments.len() * SEGMENT {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        if let Some(last) = self.segments.last_mut() {
            last.push(EMPTY);
        }
        self.len += 1;
        self.len - 1
    }

    #[inline]
    fn at(&self, number: usize) -> &Bucket {
        &self.segments[number / SEGMENT][number % SEGMENT]
    }

    #[inline]
    fn at_mut(&mut self, number: usize) -> &mut Bucket {
        &mut self.segments[number / SEGMENT][number % SEGMENT]
    }
}

/// The table.
pub(crate) struct Index {
    /// By hash; a power of two of them, `mask + 1`, and those that were split off in this round.
    buckets: Buckets,
    mask: usize,
    /// What does not fit there, and the first free one of these.
    beyond: Buckets,
    free: u32,
    len: usize,
}

impl Index {
    /// An empty table.
    pub(crate) fn new() -> Index {
        let mut buckets = Buckets::new();
        buckets.add();
        Index { buckets, mask: 0, beyond: Buckets::new(), free: NIL, len: 0 }
    }

    /// The first entry with this hash, or nearly, that `wanted` accepts: it has to look whether it is the
    /// one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut bucket = self.buckets.at(self.number(hash as u32));
        loop {
            let mut alike = bucket.alike(&bucket.hashes, hash as u32);
            while alike != 0 {
                let slot = bucket.slots[alike.trailing_zeros() as usize % PLACES];
                if wanted(slot) {
                    return Some(slot);
                }
                alike &= alike - 1;
            }
            if bucket.more == NIL {
                return None;
            }
            bucket = self.beyond.at(bucket.more as usize);
        }
    }

    /// Asks the processor for the bucket of a hash: somebody will look at it soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let number = self.number(hash as u32);
        prefetch_index(&self.buckets.segments[number / SEGMENT], number % SEGMENT);
    }

    /// Adds an entry.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        self.put(self.number(hash as u32), hash as u32, slot);
        self.len += 1;
        if self.len > self.buckets.len * FILL {
            self.split();
        }
    }

    /// Takes an entry out. One that is not there is none.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let number = self.number(hash as u32);
        let bucket = self.buckets.at_mut(number);
        let mut removed = bucket.remove(slot);
        let (mut before, mut at) = (NIL, bucket.more);
        while !removed && at != NIL {
            let bucket = self.beyond.at_mut(at as usize);
            let (more, empty) = (bucket.more, bucket.len <= 1);
            removed = bucket.remove(slot);
            if removed && empty {
                match before {
                    NIL => self.buckets.at_mut(number).more = more,
                    before => self.beyond.at_mut(before as usize).more = more,
                }
                self.give_back(at);
            }
            (before, at) = (at, more);
        }
        self.len -= usize::from(removed);
    }

    /// One bucket more, for those of another one whose hashes have the next bit set.
    fn split(&mut self) {
        let to = self.buckets.add();
        let from = to & self.mask;
        // The last one of a round makes room for the next.
        if from == self.mask {
            self.mask = self.mask * 2 + 1;
        }
        let mut old = core::mem::replace(self.buckets.at_mut(from), EMPTY);
        loop {
            for (hash, slot) in old.entries() {
                self.put(self.number(hash), hash, slot);
            }
            if old.more == NIL {
                break;
            }
            let at = old.more;
            old = *self.beyond.at(at as usize);
            self.give_back(at);
        }
    }

    /// Puts an entry into this bucket, or into the first one behind it: no further, so that entries of one
    /// hash, of which a sender can make many, take no longer to be split than others.
    fn put(&mut self, number: usize, hash: u32, slot: u32) {
        let bucket = self.buckets.at_mut(number);
        if bucket.has_room() {
            return bucket.push(hash, slot);
        }
        let first = bucket.more;
        if first != NIL && self.beyond.at(first as usize).has_room() {
            return self.beyond.at_mut(first as usize).push(hash, slot);
        }
        let new = self.take_free();
        let bucket = self.beyond.at_mut(new as usize);
        *bucket = Bucket { more: first, ..EMPTY };
        bucket.push(hash, slot);
        self.buckets.at_mut(number).more = new;
    }

    fn take_free(&mut self) -> u32 {
        match self.free {
            NIL => self.beyond.add() as u32,
            free => {
                self.free = self.beyond.at(free as usize).more;
                free
            }
        }
    }

    fn give_back(&mut self, beyond: u32) {
        *self.beyond.at_mut(beyond as usize) = Bucket { more: self.free, ..EMPTY };
        self.free = beyond;
    }

    /// The bucket of a hash.
    #[inline]
    fn number(&self, hash: u32) -> usize {
        let number = hash as usize & (self.mask * 2 + 1);
        if number < self.buckets.len { number } else { number & self.mask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn mixed(i: u64) -> u64 {
        let i = (i ^ i >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let i = (i ^ i >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        i ^ i >> 31
    }

    fn has(index: &Index, hash: u64, slot: u32) -> bool {
        index.find(hash, |found| found == slot) == Some(slot)
    }

    #[test]
    fn entries_stay_found_while_the_table_grows_and_empties() {
        let mut index = Index::new();
        for slot in 0..50_000 {
            index.insert(mixed(u64::from(slot)), slot);
            assert!(has(&index, mixed(u64::from(slot / 2)), slot / 2), "{} lost after {slot}", slot / 2);
        }
        for slot in (0..50_000).step_by(2) {
            index.remove(mixed(u64::from(slot)), slot);
        }
        for slot in 0..50_000 {
            assert_eq!(has(&index, mixed(u64::from(slot)), slot), slot % 2 == 1, "{slot}");
        }
        assert_eq!(index.len, 25_000);
    }

    /// Few buckets are full, wherever in a round of splitting the table is, and what is new is mostly seen to
    /// be new by the first one.
    #[test]
    fn what_is_new_looks_at_one_bucket_and_no_entry() {
        let mut index = Index::new();
        for slot in 0..200_000u32 {
            index.insert(mixed(u64::from(slot)), slot);
            if slot % 20_000 == 19_999 {
                let new = (300_000..310_000).map(mixed);
                let beyond = new
                    .clone()
                    .filter(|hash| index.buckets.at(index.number(*hash as u32)).more != NIL)
                    .count();
                assert!(beyond < 900, "{beyond} of 10,000 with {slot}");
                let mut looked_at = 0;
                for hash in new {
                    assert_eq!(
                        index.find(hash, |_| {
                            looked_at += 1;
                            false
                        }),
                        None
                    );
                }
                assert!(looked_at < 20, "{looked_at} of 10,000 with {slot}");
            }
        }
        let bytes = (index.buckets.len + index.beyond.len) * 64;
        assert!(bytes / 200_000 < 26, "{} bytes an entry", bytes / 200_000);
    }

    /// What is behind full buckets is used again.
    #[test]
    fn a_table_in_use_does_not_grow() {
        let mut index = Index::new();
        for slot in 0..100_000u32 {
            index.insert(mixed(u64::from(slot)), slot % 5_000);
            if slot >= 5_000 {
                index.remove(mixed(u64::from(slot - 5_000)), slot % 5_000);
            }
        }
        assert_eq!(index.len, 5_000);
        assert!(index.buckets.len < 9 * 256 && index.beyond.len < 3 * 256);
    }

    #[test]
    fn equal_hashes_are_all_found_and_removing_twice_is_harmless() {
        let mut index = Index::new();
        (0..100).for_each(|slot| index.insert(42, slot));
        for slot in [5, 5, 99, 0] {
            index.remove(42, slot);
        }
        assert!((0..100).all(|slot| has(&index, 42, slot) != [5, 99, 0].contains(&slot)));
        assert_eq!(index.len, 97);
        (0..100).for_each(|slot| index.remove(42, slot));
        assert_eq!((index.len, index.find(42, |_| true)), (0, None));
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_a_map(steps in prop::collection::vec((0..300u32, any::<bool>(), 0..4u32), 1..800)) {
            // Few bits, many bits or none that differ.
            let hash = |slot: u32, how: u32| match how {
                0 => 7,
                1 => u64::from(slot % 8) << 3,
                2 => u64::from(slot) << 20,
                _ => mixed(u64::from(slot)),
            };
            let mut index = Index::new();
            let mut model = BTreeMap::new();
            for (slot, add, how) in steps {
                match model.get(&slot).copied() {
                    None if add => {
                        index.insert(hash(slot, how), slot);
                        model.insert(slot, hash(slot, how));
                    }
                    Some(hash) if !add => {
                        index.remove(hash, slot);
                        model.remove(&slot);
                    }
                    there => prop_assert_eq!(there.is_some_and(|hash| has(&index, hash, slot)), there.is_some()),
                }
                prop_assert_eq!(index.len, model.len());
            }
            for slot in 0..300 {
                let found = (0..4).any(|how| has(&index, hash(slot, how), slot));
                prop_assert_eq!(found, model.contains_key(&slot), "{}", slot);
            }
        }
    }
}
