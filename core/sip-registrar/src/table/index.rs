//! From key to cell: linear hashing (Litwin 1980, Larson 1988) with chains through the cells.
//!
//! There is one bucket, a 4-byte handle, for each address of record. When an insertion makes the
//! addresses outnumber the buckets, one bucket is added and the cells of one other bucket are shared
//! between the two: that is all an insertion ever pays for growth. The full hash lies in each cell,
//! so that sharing reads no keys. Buckets are not given back when the table empties.

use super::bytes::{put_u32, u32_at};
use super::cell::{self, CHAIN, HASH};
use super::segments::Segments;
use super::slab::{NONE, Slab};
use core::slice;
use prefetch_index::prefetch_index;
use siphasher::sip::SipHasher13;

/// The order is that of [`Table`](super::Table).
#[repr(C)]
pub(crate) struct Index {
    key: [u64; 2],
    buckets: Segments<u32, 12>,
    len: usize,
    /// Most cells looked at by one step of growth so far.
    pub(crate) longest_step: usize,
}

impl Index {
    pub(crate) fn new(key: [u64; 2]) -> Index {
        let mut buckets = Segments::new();
        buckets.push(NONE);
        Index { key, buckets, len: 0, longest_step: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    #[cfg(test)]
    pub(crate) fn leads(&self) -> usize {
        self.buckets.leads()
    }

    /// Keyed, so that nobody outside can choose names that fall into one bucket.
    pub(crate) fn hash(&self, aor: &[u8]) -> u32 {
        SipHasher13::new_with_keys(self.key[0], self.key[1]).hash(aor) as u32
    }

    /// Asks the processor for the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch_index(slice::from_ref(self.buckets.at(self.bucket_of(hash))), 0);
    }

    /// First cell of the bucket of a hash.
    #[inline]
    pub(crate) fn first_of(&self, hash: u32) -> Option<u32> {
        self.first(self.bucket_of(hash))
    }

    pub(crate) fn find(&self, slab: &Slab, hash: u32, aor: &[u8]) -> Option<u32> {
        let mut at = self.first_of(hash);
        while let Some(handle) = at {
            let c = slab.get(handle);
            if u32_at(c, HASH) == hash && cell::open(c).0 == aor {
                return Some(handle);
            }
            at = following(slab, handle);
        }
        None
    }

    /// First cell of a bucket.
    pub(crate) fn first(&self, bucket: usize) -> Option<u32> {
        some(*self.buckets.at(bucket))
    }

    /// Puts a cell, its hash already in it, into its bucket.
    pub(crate) fn insert(&mut self, slab: &mut Slab, handle: u32) {
        self.link(slab, handle);
        self.len += 1;
        if self.len > self.buckets.len() {
            self.grow(slab);
        }
    }

    pub(crate) fn remove(&mut self, slab: &mut Slab, handle: u32) {
        let next = u32_at(slab.get(handle), CHAIN);
        self.repoint(slab, handle, next);
        self.len -= 1;
    }

    /// A cell moved from `old` to `new`; its links were copied with it.
    pub(crate) fn moved(&mut self, slab: &mut Slab, old: u32, new: u32) {
        self.repoint(slab, old, new);
    }

    /// Makes whatever leads to cell `old` lead to `new`.
    fn repoint(&mut self, slab: &mut Slab, old: u32, new: u32) {
        let bucket = self.bucket_of(u32_at(slab.get(old), HASH));
        let mut at = *self.buckets.at(bucket);
        if at == old {
            *self.buckets.at_mut(bucket) = new;
            return;
        }
        while at != NONE {
            let next = u32_at(slab.get(at), CHAIN);
            if next == old {
                put_u32(slab.get_mut(at), CHAIN, new);
                return;
            }
            at = next;
        }
    }

    fn link(&mut self, slab: &mut Slab, handle: u32) {
        let c = slab.get_mut(handle);
        let bucket = self.bucket_of(u32_at(c, HASH));
        let head = self.buckets.at_mut(bucket);
        put_u32(c, CHAIN, *head);
        *head = handle;
    }

    fn bucket_of(&self, hash: u32) -> usize {
        let n = self.buckets.len();
        let wide = n.next_power_of_two();
        let bucket = hash as usize & (wide - 1);
        if bucket < n { bucket } else { bucket & (wide / 2 - 1) }
    }

    /// One bucket more: takes its share of the cells of the bucket it splits off from.
    fn grow(&mut self, slab: &mut Slab) {
        let new = self.buckets.len();
        let source = new - (1 << new.ilog2());
        let mut at = std::mem::replace(self.buckets.at_mut(source), NONE);
        self.buckets.push(NONE);
        let mut step = 0;
        while at != NONE {
            let next = u32_at(slab.get(at), CHAIN);
            self.link(slab, at);
            at = next;
            step += 1;
        }
        self.longest_step = self.longest_step.max(step);
    }
}

/// The cell after `handle` in its bucket.
pub(crate) fn following(slab: &Slab, handle: u32) -> Option<u32> {
    some(u32_at(slab.get(handle), CHAIN))
}

fn some(handle: u32) -> Option<u32> {
    (handle != NONE).then_some(handle)
}
