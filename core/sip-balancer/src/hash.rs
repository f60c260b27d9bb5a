//! Hash functions without a key: for what must come out the same at every balancer, and need not be secret.

/// The string hash of OpenSER's dispatcher module: four octets at a time, each word mixed with itself.
pub(crate) fn openser_hash(text: &[u8]) -> u32 {
    let mix = |hash: u32, word: u32| hash.wrapping_add(word ^ (word >> 3));
    let words = text.chunks_exact(4);
    let rest = words.remainder().iter().fold(0u32, |word, &b| (word << 8).wrapping_add(b.into()));
    let whole = words.fold(0, |hash, c| mix(hash, c.iter().fold(0u32, |word, &b| word << 8 | u32::from(b))));
    let hash = mix(whole, rest);
    hash.wrapping_add(hash >> 11).wrapping_add((hash >> 13).wrapping_add(hash >> 23))
}

/// FNV-1a of 64 bits.
pub(crate) fn fnv1a(text: &[u8]) -> u64 {
    text.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A well mixed function of a number (the finalizer of MurmurHash3).
pub(crate) const fn scramble(mut n: u64) -> u64 {
    n ^= n >> 33;
    n = n.wrapping_mul(0xff51_afd7_ed55_8ccd);
    n ^= n >> 33;
    n = n.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    n ^ (n >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_1a_is_the_published_one() {
        // Test vectors of the FNV reference.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn every_octet_counts_in_the_string_hash() {
        let base = openser_hash(b"abcdefg@192.0.2.1");
        for at in 0..17 {
            let mut other = *b"abcdefg@192.0.2.1";
            other[at] ^= 1;
            assert_ne!(openser_hash(&other), base, "{at}");
        }
    }
}
