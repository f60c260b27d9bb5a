//! Numbers that need not be secret: choice among equal servers, tags of probes.

use core::cell::Cell;

/// A linear congruential generator.
pub(crate) struct Random(Cell<u64>);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Random {
        Random(Cell::new(seed))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let next =
            self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        next ^ (next >> 29)
    }
}
