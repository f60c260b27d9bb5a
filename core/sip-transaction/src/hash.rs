//! A keyed hash for texts that a table finds its entries by.
//!
//! Requests are full of text that strangers choose, and nobody may be able to choose texts that share a
//! chain. A universal hash sees to that with a third of a SipHash's instructions: NH of UMAC (RFC 4418
//! section 5.2) brings the text down to 128 bits, a multilinear hash with keys of 128 bits these and the
//! length to 64. Over the choice of the key, two different texts have the same hash with a probability of
//! less than 2^-62, whoever made them up. That holds for as long as no hash is shown to anybody; those of a
//! table are not.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Longest text that is hashed, in bytes.
pub(crate) const LONGEST: usize = 512;

/// Words of a text.
const WORDS: usize = LONGEST / 8;

/// A keyed hash of texts for tables within one worker (see above): a third of the work of a SipHash. Nobody
/// may be shown what comes out.
#[derive(Clone)]
pub struct TableHash {
    words: Box<[[u64; 2]; WORDS / 2]>,
    last: [u128; 4],
}

impl TableHash {
    /// The hash with a key made from `seed`, which is secret and random.
    pub fn new(seed: [u64; 2]) -> TableHash {
        let mut count = 0u64;
        let mut word = || {
            let mut hasher = SipHasher13::new_with_keys(seed[0], seed[1]);
            hasher.write_u64(count);
            count += 1;
            hasher.finish()
        };
        let words = Box::new([(); WORDS / 2].map(|()| [word(), word()]));
        let last = [(); 4].map(|()| u128::from(word()) << 64 | u128::from(word()));
        TableHash { words, last }
    }

    /// The hash of a text of at most 512 bytes; what is beyond does not count.
    #[inline]
    pub fn hash(&self, text: &[u8]) -> u64 {
        let (blocks, rest) = text.as_chunks::<16>();
        let mut sum = 0u128;
        let mut keys = self.words.iter();
        for (block, key) in blocks.iter().zip(&mut keys) {
            sum = sum.wrapping_add(product(block, key));
        }
        if !rest.is_empty()
            && let Some(key) = keys.next()
        {
            let mut block = [0; 16];
            if let Some(place) = block.get_mut(..rest.len()) {
                place.copy_from_slice(rest);
            }
            sum = sum.wrapping_add(product(&block, key));
        }
        let [high, low, length, offset] = self.last;
        let sum = high
            .wrapping_mul(sum >> 64)
            .wrapping_add(low.wrapping_mul(sum & u128::from(u64::MAX)))
            .wrapping_add(length.wrapping_mul(text.len() as u128))
            .wrapping_add(offset);
        (sum >> 64) as u64
    }
}

/// One product of NH.
#[inline(always)]
fn product(block: &[u8; 16], [a, b]: &[u64; 2]) -> u128 {
    let text = u128::from_le_bytes(*block);
    let (low, high) = (text as u64, (text >> 64) as u64);
    u128::from(low.wrapping_add(*a)) * u128::from(high.wrapping_add(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn texts_that_differ_little_have_other_hashes() {
        let hash = TableHash::new([1, 2]);
        let mut seen = BTreeMap::new();
        // Every length, and at every length every bit of a text turned: zeros too, which padding is made of.
        for len in 0..=LONGEST {
            let mut text = vec![0u8; len];
            assert_eq!(seen.insert(hash.hash(&text), (len, 0)), None, "{len}");
            for bit in 0..len * 8 {
                text[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(seen.insert(hash.hash(&text), (len, bit + 1)), None, "{len}, bit {bit}");
                text[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn another_key_is_another_hash() {
        let (a, b) = (TableHash::new([1, 2]), TableHash::new([1, 3]));
        assert_eq!(a.hash(b"text"), TableHash::new([1, 2]).hash(b"text"));
        for text in [&b""[..], b"a", b"z9hG4bK-1-1-1", &[0; LONGEST]] {
            assert_ne!(a.hash(text), b.hash(text));
        }
    }

    /// Texts that count, as branches and Call-IDs do, spread over the low bits as chance would.
    #[test]
    fn low_bits_are_even() {
        let hash = TableHash::new([5, 6]);
        let mut buckets = vec![0u32; 4096];
        for n in 0..65_536 {
            buckets[hash.hash(format!("z9hG4bK-{n}-call@host").as_bytes()) as usize & 4095] += 1;
        }
        // 16 on average; of 4,096 buckets by chance none has 45.
        assert!(buckets.iter().all(|&n| n < 45), "{:?}", buckets.iter().max());
    }
}
