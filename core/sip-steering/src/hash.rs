//! The owner of a message, computed in user space.

use core::hash::Hasher;
use core::net::IpAddr;
use sip_message::find_call_id;
use siphasher::sip::SipHasher13;

/// Everything up to this byte ends a Call-ID: white space, line ends, control characters.
pub(crate) const LAST_END: u8 = b' ';

/// Words of eight bytes of a Call-ID that the kernel's programs read; the last holds its end.
pub(crate) const WORDS: usize = 16;
/// Longest Call-ID that the kernel's programs read, in bytes.
pub const LONGEST: usize = 8 * WORDS - 1;
/// Bits of the number of a call ([`Ownership::lot`]) that count.
pub(crate) const LOT_BITS: u32 = 36;

/// The multipliers of the finish: those of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) const FINISH: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// The shifts of the finish, before, between and after the multiplications.
pub(crate) const SHIFTS: [i32; 3] = [30, 27, 31];

/// The functions that name the owner of a message, under one key.
///
/// A short Call-ID is hashed by the NH sum of UMAC (Black and others, CRYPTO 1999; RFC 4418 section 5.2):
/// each eight bytes are two numbers, a number of the key is added to each, and the products are summed
/// up. It costs one multiplication for eight bytes, needs no wider product than 64 bits (eBPF has
/// none), and two texts that were chosen without knowledge of the key have the same sum with a
/// probability of 2 to the -32 at most, so nobody outside can aim calls at one worker. A long
/// Call-ID, which the kernel does not read, takes SipHash.
#[derive(Clone)]
pub struct Ownership {
    /// Two numbers for each eight bytes.
    pub(crate) sums: [[u32; 2]; WORDS],
    /// The same for what a datagram's sender is known by.
    pub(crate) source: [u32; 2],
    /// For long ones.
    long: SipHasher13,
}

impl core::fmt::Debug for Ownership {
    /// The key is nobody's business.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ownership")
    }
}

impl Ownership {
    /// The functions under this key. The same key makes the same functions, on every worker and after
    /// a restart.
    pub fn new(key: &[u8; 16]) -> Ownership {
        let number = |n: usize| {
            let mut hash = SipHasher13::new_with_key(key);
            hash.write_u64(n as u64);
            hash.finish()
        };
        let pair = |n| {
            let key = number(n);
            [key as u32, (key >> 32) as u32]
        };
        let mut long = SipHasher13::new_with_key(key);
        long.write_u64(u64::MAX);
        Ownership { sums: core::array::from_fn(pair), source: pair(WORDS), long }
    }

    /// Which of `workers` workers owns this whole message; `None` for what has no Call-ID, such as a
    /// keepalive, which belongs to whoever gets it. Total; the same bytes have the same owner.
    pub fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        self.owner_of(find_call_id(message)?, workers)
    }

    /// The same of a message whose first Call-ID has this value, in whatever is left of white space around
    /// it.
    pub fn owner_of(&self, value: &[u8], workers: u16) -> Option<u16> {
        let call_id = Some(deciding(value)).filter(|id| !id.is_empty())?;
        Some(choose(self.hash(call_id), workers))
    }

    /// A number of 36 bits that goes by the Call-ID with this value; the lower 32 have nothing to do with the
    /// owner.
    pub fn lot(&self, value: &[u8]) -> u64 {
        // The owner goes by the upper bits.
        self.hash(deciding(value)) & ((1 << LOT_BITS) - 1)
    }

    /// A number for whoever sends from here: an IPv4 address, or an IPv6 /64. Two have the same by chance
    /// only.
    pub fn source(&self, from: IpAddr) -> u64 {
        // As the octets lie in the header of a packet.
        let word = match from.to_canonical() {
            IpAddr::V4(ip) => u64::from(u32::from_le_bytes(ip.octets())),
            IpAddr::V6(ip) => ip.octets().first_chunk().map_or(0, |half| u64::from_le_bytes(*half)),
        };
        product(word, self.source)
    }

    fn hash(&self, call_id: &[u8]) -> u64 {
        if call_id.len() > LONGEST {
            let mut hash = self.long;
            hash.write(call_id);
            return finish(hash.finish());
        }
        let mut keys = self.sums.iter();
        let mut sum = 0u64;
        let mut add = |word: u64| {
            if let Some(key) = keys.next() {
                sum = sum.wrapping_add(product(word, *key));
            }
        };
        let (words, rest) = call_id.as_chunks::<8>();
        words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        // Always one more, of zeros if nothing is left: no Call-ID is another one's beginning.
        add(rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        finish(sum)
    }
}

/// What of the value of a Call-ID decides: all up to white space or a control character (RFC 3261 section
/// 25.1: it has none inside). The programs in the kernel read no further.
fn deciding(value: &[u8]) -> &[u8] {
    let (words, rest) = value.as_chunks::<8>();
    let ends = |word: &[u8; 8]| first_end(u64::from_le_bytes(*word));
    let end = match words.iter().enumerate().find_map(|(n, word)| Some((n, ends(word)?))) {
        Some((n, at)) => 8 * n + at,
        None => 8 * words.len() + rest.iter().position(|&byte| byte <= LAST_END).unwrap_or(rest.len()),
    };
    value.get(..end).unwrap_or_default()
}

/// Which byte of a word, from the lowest, is the first that ends a Call-ID.
fn first_end(word: u64) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // The highest bit of each byte that is less, and perhaps of some above the first of them, which have lent
    // to it.
    let less = word.wrapping_sub(ONES * (LAST_END as u64 + 1)) & !word & (ONES << 7);
    (less != 0).then(|| less.trailing_zeros() as usize / 8)
}

/// The product of two halves, each with its part of the key.
fn product(word: u64, [low, high]: [u32; 2]) -> u64 {
    let low = u64::from((word as u32).wrapping_add(low));
    let high = u64::from(((word >> 32) as u32).wrapping_add(high));
    low.wrapping_mul(high)
}

/// Spreads what is in any bits of the sum over the upper ones, which choose.
pub(crate) fn finish(mut hash: u64) -> u64 {
    let [before, between, after] = SHIFTS;
    hash ^= hash >> before;
    hash = hash.wrapping_mul(FINISH[0]);
    hash ^= hash >> between;
    hash = hash.wrapping_mul(FINISH[1]);
    hash ^ hash >> after
}

/// The upper half of the hash, scaled to the number of workers: even, and without a division.
fn choose(hash: u64, workers: u16) -> u16 {
    (((hash >> 32) * u64::from(workers.max(1))) >> 32) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Eight bytes at a time or one by one.
        #[test]
        fn a_call_id_ends_at_the_first_byte_that_ends_one(
            value in prop::collection::vec(prop_oneof![9 => 0x1f..=0x23u8, 1 => any::<u8>(), 30 => 0x7e..=0x82u8], 0..40)
        ) {
            let end = value.iter().position(|&byte| byte <= LAST_END).unwrap_or(value.len());
            prop_assert_eq!(deciding(&value), &value[..end]);
        }
    }
}
