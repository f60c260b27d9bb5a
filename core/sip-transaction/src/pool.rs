//! Byte buffers by size class, used again instead of freed.
//!
//! A transaction keeps its matching key and the bytes it may have to send again in one buffer. Its
//! size is known when it is filled, so it is cut to fit: steps of 64 bytes up to 2 KiB, then powers
//! of two. In a steady state every buffer comes from the lists here.
//!
//! What is taken is charged to a [`Payer`] until it is given back.

use crate::share::{Payer, Share};
use std::sync::Arc;

/// Width of a small class in bytes.
const STEP: usize = 64;
/// Small classes: up to `SMALL * STEP` bytes.
const SMALL: usize = 32;
/// Doubling classes after the small ones; larger buffers are not kept.
const DOUBLING: usize = 5;
/// Bytes kept in the lists at most; beyond this, buffers go back to the allocator.
const IDLE_LIMIT: usize = 4 << 20;

/// A received request that the client transactions of its branches share.
pub type Original = Arc<Vec<u8>>;

/// Free buffers.
pub(crate) struct Pool {
    classes: [Vec<Vec<u8>>; SMALL + DOUBLING],
    idle: usize,
    /// Bytes held, by payer.
    pub(crate) held: Share,
}

impl Pool {
    /// An empty pool for about `limit` bytes; who takes some asks [`Pool::held`] first.
    pub(crate) fn new(limit: usize) -> Pool {
        Pool { classes: core::array::from_fn(|_| Vec::new()), idle: 0, held: Share::new(limit) }
    }

    /// An empty buffer with room for `len` bytes, and little more. It must not grow.
    pub(crate) fn take(&mut self, payer: Payer, len: usize) -> Vec<u8> {
        let buffer = self.fitting(len);
        self.held.take(payer, buffer.capacity());
        buffer
    }

    fn fitting(&mut self, len: usize) -> Vec<u8> {
        let Some(class) = class_of(len) else { return Vec::with_capacity(len) };
        match self.classes[class].pop() {
            Some(buffer) => {
                self.idle -= size_of(class);
                buffer
            }
            None => Vec::with_capacity(size_of(class)),
        }
    }

    /// Charges a request to `payer` until it was released as often as it was held.
    pub(crate) fn hold(&mut self, payer: Payer, original: &Original) {
        self.held.take(payer, original.capacity());
    }

    /// Gives up a request that was held. The last one gets it back, to be used again.
    pub(crate) fn release(&mut self, payer: Payer, mut original: Original) -> Option<Original> {
        let capacity = Arc::get_mut(&mut original)?.capacity();
        self.held.give(payer, capacity);
        Some(original)
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, payer: Payer, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 {
            return;
        }
        self.held.give(payer, buffer.capacity());
        let Some(class) = class_of(buffer.capacity()) else { return };
        // Only buffers of exactly a class's size: a grown one would be handed out as something else.
        if buffer.capacity() == size_of(class) && self.idle + size_of(class) <= IDLE_LIMIT {
            buffer.clear();
            self.idle += size_of(class);
            self.classes[class].push(buffer);
        }
    }

    /// Bytes in free buffers.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle
    }
}

/// Whether a buffer of `capacity` bytes is what [`Pool::take`] would choose for `len`.
pub(crate) fn fits(capacity: usize, len: usize) -> bool {
    class_of(len).is_some_and(|class| size_of(class) == capacity)
}

/// The class whose buffers hold `len` bytes.
fn class_of(len: usize) -> Option<usize> {
    if len <= SMALL * STEP {
        return Some(len.saturating_sub(1) / STEP);
    }
    let doublings = (len - 1) / (SMALL * STEP);
    let class = SMALL + doublings.ilog2() as usize;
    (class < SMALL + DOUBLING).then_some(class)
}

/// Bytes in a buffer of a class.
fn size_of(class: usize) -> usize {
    if class < SMALL { (class + 1) * STEP } else { (SMALL * STEP) << (class - SMALL + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_the_smallest_class_that_holds_it() {
        let top = size_of(SMALL + DOUBLING - 1);
        for len in 0..=top {
            let class = class_of(len).expect("a class");
            assert!(size_of(class) >= len, "{len} in class {class}");
            assert!(class == 0 || size_of(class - 1) < len, "{len} fits below class {class}");
            assert_eq!(class_of(size_of(class)), Some(class));
        }
        assert_eq!(class_of(top + 1), None);
    }

    #[test]
    fn a_buffer_given_back_is_used_again() {
        let mut pool = Pool::new(1 << 20);
        let mut first = pool.take(Payer::PROVEN, 300);
        first.extend_from_slice(b"old");
        let at = first.as_ptr();
        assert_eq!(pool.held.held(), 320);
        pool.give(Payer::PROVEN, first);
        assert_eq!((pool.idle_bytes(), pool.held.held()), (320, 0));
        let second = pool.take(Payer::PROVEN, 290);
        assert_eq!((second.as_ptr(), second.len(), pool.idle_bytes()), (at, 0, 0));
    }

    #[test]
    fn what_lies_idle_is_bounded() {
        let mut pool = Pool::new(1 << 20);
        let taken: Vec<_> = (0..2 * IDLE_LIMIT / 2048).map(|_| pool.take(Payer::PROVEN, 2048)).collect();
        for buffer in taken {
            pool.give(Payer::PROVEN, buffer);
        }
        assert!(pool.idle_bytes() <= IDLE_LIMIT);
        let large = pool.take(Payer::PROVEN, 1 << 20);
        pool.give(Payer::PROVEN, large);
        assert!(pool.idle_bytes() <= IDLE_LIMIT);
    }
}
