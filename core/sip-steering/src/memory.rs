//! Where a call is in the memory of an overload: two bits of as many as a generation has.

use crate::hash::{FINISH, LOT_BITS};

/// Bytes of a generation, a power of two: two bits each for 160,000 calls are a thirteenth of it.
pub(crate) const GENERATION: i32 = 1 << 19;
/// How far a product is shifted to number a bit.
pub(crate) const BIT_SHIFT: i32 = 64 - 3 - GENERATION.trailing_zeros() as i32;

/// The bits of a call in a generation, by number. Of those that are judged alike the lowest bits of `lot`
/// ([`Ownership::lot`](crate::Ownership::lot)) are alike.
pub fn memory_bits(lot: u64) -> [u32; 2] {
    let lot = lot & ((1 << LOT_BITS) - 1);
    FINISH.map(|factor| (lot.wrapping_mul(factor) >> BIT_SHIFT) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn calls_that_are_judged_alike_are_far_from_each_other() {
        let random = |n: u64| crate::hash::finish(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Lots in a small part of all.
        let lot = |n: u64| random(n) << 16 & 0xf_ffff_0000 | random(n) >> 40 & 0xfff;
        let bits: BTreeSet<u32> = (0..160_000).flat_map(|n| memory_bits(lot(n))).collect();
        assert!(bits.len() > 300_000 && bits.iter().all(|bit| *bit < 8 * GENERATION as u32));
        let mistaken =
            (160_000..260_000).filter(|n| memory_bits(lot(*n)).iter().all(|bit| bits.contains(bit))).count();
        assert!(mistaken < 1_000, "{mistaken} of 100,000");
    }
}
