//! The table from hash to server transaction: linear hashing with chains through the transactions.
//!
//! A flat table rehashes all it holds when it grows, a pause of milliseconds at a million entries.
//! This one splits a few buckets for each entry added, so that no insertion costs more than the
//! others, and an entry needs only one link and its own hash. It never shrinks: at most 16 bytes for
//! each entry there has ever been at a time.
//!
//! Nearly every search is for a request that is new. It should end in the bucket: an entry is mostly not in the
//! processor's cache, and to look at one costs more than the search. So there are many buckets, and one says three
//! bits of its first entry's hash and whether there is another one.

/// Bucket heads in one segment.
const SEGMENT: usize = 4096;
/// Buckets for each entry.
const SPARSE: u64 = 4;
const NIL: u32 = u32::MAX;
/// Bits of a bucket: the slot, of the hash, and whether there is more than one.
const SLOT_BITS: u32 = 28;
const SLOT: u32 = (1 << SLOT_BITS) - 1;
const TAG: u32 = 7 << SLOT_BITS;
const MORE: u32 = 1 << 31;
/// Slots are below this: the last one would make an empty bucket.
pub(crate) const SLOTS: usize = SLOT as usize;

/// The entries, as the table sees them.
pub(crate) trait Links {
    /// The keyed hash of the entry in a slot.
    fn hash(&self, slot: u32) -> u64;
    /// The next entry in its chain.
    fn next(&self, slot: u32) -> u32;
    /// Sets the next entry in its chain.
    fn set_next(&mut self, slot: u32, next: u32);
}

/// Bucket heads.
pub(crate) struct Index {
    segments: Vec<Box<[u32]>>,
    /// Buckets in use: `mask + 1 + split`.
    mask: u64,
    /// Buckets below this one have been split in this round.
    split: u64,
    len: u64,
}

impl Index {
    /// An empty table.
    pub(crate) fn new() -> Index {
        Index { segments: vec![segment()], mask: SEGMENT as u64 - 1, split: 0, len: 0 }
    }

    /// The first entry to look at in search of one with this hash; see [`Index::is_end`].
    pub(crate) fn find(&self, hash: u64) -> u32 {
        let bucket = self.get(self.bucket(hash));
        if bucket & MORE == 0 && bucket & TAG != tag(hash) {
            return NIL;
        }
        slot_in(bucket)
    }

    /// The first entry of the chain where `hash` belongs, for the link of one that is added.
    pub(crate) fn head(&self, hash: u64) -> u32 {
        slot_in(self.get(self.bucket(hash)))
    }

    /// Whether a link is the end of a chain.
    pub(crate) const fn is_end(link: u32) -> bool {
        link == NIL
    }

    /// Adds an entry whose link already is what [`Index::head`] answers for its hash.
    pub(crate) fn insert(&mut self, links: &mut impl Links, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        let more = self.get(bucket) != NIL;
        self.set(bucket, word(slot, hash, more));
        self.len += 1;
        for _ in 0..SPARSE {
            if self.len * SPARSE > self.mask + 1 + self.split {
                self.split_next(links);
            }
        }
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, links: &mut impl Links, slot: u32) {
        let bucket = self.bucket(links.hash(slot));
        let first = slot_in(self.get(bucket));
        let (mut at, mut before) = (first, NIL);
        while at != slot {
            if at == NIL {
                return;
            }
            before = at;
            at = links.next(at);
        }
        let next = links.next(slot);
        if before != NIL {
            links.set_next(before, next);
        }
        self.set_chain(links, bucket, if before == NIL { next } else { first });
        self.len -= 1;
    }

    /// Splits the next bucket in turn.
    fn split_next(&mut self, links: &mut impl Links) {
        let (from, to) = (self.split, self.mask + 1 + self.split);
        if to as usize / SEGMENT == self.segments.len() {
            self.segments.push(segment());
        }
        let mut chain = slot_in(self.get(from));
        let (mut stay, mut go) = (NIL, NIL);
        while chain != NIL {
            let next = links.next(chain);
            let side = if links.hash(chain) & (self.mask + 1) == 0 { &mut stay } else { &mut go };
            links.set_next(chain, *side);
            *side = chain;
            chain = next;
        }
        self.set_chain(links, from, stay);
        self.set_chain(links, to, go);
        self.split += 1;
        if self.split > self.mask {
            self.mask = self.mask * 2 + 1;
            self.split = 0;
        }
    }

    /// A chain that begins with `first`.
    fn set_chain(&mut self, links: &impl Links, bucket: u64, first: u32) {
        let word = match first {
            NIL => NIL,
            _ => word(first, links.hash(first), links.next(first) != NIL),
        };
        self.set(bucket, word);
    }

    fn bucket(&self, hash: u64) -> u64 {
        let bucket = hash & self.mask;
        if bucket < self.split { hash & (self.mask * 2 + 1) } else { bucket }
    }

    fn get(&self, bucket: u64) -> u32 {
        self.segments[bucket as usize / SEGMENT][bucket as usize % SEGMENT]
    }

    fn set(&mut self, bucket: u64, word: u32) {
        self.segments[bucket as usize / SEGMENT][bucket as usize % SEGMENT] = word;
    }
}

/// What a bucket says of its first entry, and whether there is more.
fn word(slot: u32, hash: u64, more: bool) -> u32 {
    slot | tag(hash) | if more { MORE } else { 0 }
}

/// Those bits of a hash that choose no bucket, where a bucket has them.
fn tag(hash: u64) -> u32 {
    (hash >> 61) as u32 * (1 << SLOT_BITS)
}

/// The link that a bucket is.
fn slot_in(bucket: u32) -> u32 {
    if bucket == NIL { NIL } else { bucket & SLOT }
}

fn segment() -> Box<[u32]> {
    vec![NIL; SEGMENT].into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Entries(Vec<(u64, u32)>);

    impl Links for Entries {
        fn hash(&self, slot: u32) -> u64 {
            self.0[slot as usize].0
        }
        fn next(&self, slot: u32) -> u32 {
            self.0[slot as usize].1
        }
        fn set_next(&mut self, slot: u32, next: u32) {
            self.0[slot as usize].1 = next;
        }
    }

    fn insert(index: &mut Index, entries: &mut Entries, slot: u32) {
        let hash = entries.hash(slot);
        entries.set_next(slot, index.head(hash));
        index.insert(entries, hash, slot);
    }

    fn found(index: &Index, entries: &Entries, slot: u32) -> (bool, usize) {
        let (mut at, mut steps) = (index.find(entries.hash(slot)), 0);
        while !Index::is_end(at) && at != slot {
            at = entries.next(at);
            steps += 1;
        }
        (at == slot, steps)
    }

    #[test]
    fn entries_stay_found_while_the_table_grows_and_shrinks() {
        let hash = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i << 7;
        let mut entries = Entries((0..50_000).map(|i| (hash(i), NIL)).collect());
        let mut index = Index::new();
        let mut longest = 0;
        for slot in 0..50_000 {
            insert(&mut index, &mut entries, slot);
            let (there, steps) = found(&index, &entries, slot / 2);
            assert!(there, "{} lost after {slot}", slot / 2);
            longest = longest.max(steps);
        }
        assert!(longest < 16, "a chain of {longest}");
        for slot in (0..50_000).step_by(2) {
            index.remove(&mut entries, slot);
        }
        for slot in 0..50_000 {
            assert_eq!(found(&index, &entries, slot).0, slot % 2 == 1, "{slot}");
        }
    }

    /// A bucket says enough that a search for what is not there mostly ends in it, and nothing that is not so.
    #[test]
    fn what_is_new_touches_few_entries() {
        let hash = |i: u64| {
            let i = (i ^ i >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let i = (i ^ i >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            i ^ i >> 31
        };
        let mut entries = Entries((0..100_000).map(|i| (hash(i), NIL)).collect());
        let mut index = Index::new();
        let touched =
            |index: &Index| (200_000..300_000).filter(|i| !Index::is_end(index.find(hash(*i)))).count();
        (0..100_000).for_each(|slot| insert(&mut index, &mut entries, slot));
        all_buckets_are_true(&index, &entries);
        assert!(touched(&index) < 7_000, "{} of 100,000", touched(&index));
        // From all places of a chain.
        (0..100_000).filter(|slot| slot % 5 != 0).for_each(|slot| index.remove(&mut entries, slot));
        all_buckets_are_true(&index, &entries);
        assert!(touched(&index) < 1_200, "{} of 100,000", touched(&index));
    }

    fn all_buckets_are_true(index: &Index, entries: &Entries) {
        for bucket in 0..=index.mask + index.split {
            let said = index.get(bucket);
            let first = slot_in(said);
            let is = match first {
                NIL => NIL,
                _ => word(first, entries.hash(first), entries.next(first) != NIL),
            };
            assert_eq!(said, is, "bucket {bucket}");
        }
    }

    #[test]
    fn equal_hashes_share_a_chain_and_removing_twice_is_harmless() {
        let mut entries = Entries(vec![(42, NIL); 10]);
        let mut index = Index::new();
        (0..10).for_each(|slot| insert(&mut index, &mut entries, slot));
        index.remove(&mut entries, 5);
        index.remove(&mut entries, 5);
        assert!((0..10).all(|slot| found(&index, &entries, slot).0 == (slot != 5)));
    }
}
