//! MD5 (RFC 1321), the one digest that every SIP device knows.
//!
//! Most of what a check of credentials costs, so it is here in a form that takes few operations: of the four
//! mixing functions two have one less than in the RFC, words are read where they stand, and nothing is
//! buffered. 640 instructions a block, where the crate `md-5` takes 680 and those of its buffer. Tests hold
//! the two together.

use crate::hash::{Hash, ROOM};

const BLOCK: usize = 64;

/// The sines that RFC 1321 section 3.4 calls T.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// A digest begun.
#[derive(Clone, Copy)]
pub(crate) struct Md5([u32; 4]);

impl Hash for Md5 {
    type Sum = [u8; 16];

    fn begin() -> Md5 {
        Md5([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476])
    }

    fn take(&mut self, whole: &[u8; ROOM]) {
        whole.as_chunks().0.iter().for_each(|block| self.block(block));
    }

    fn end(&mut self, before: u64, room: &mut [u8; ROOM], len: usize) -> [u8; 16] {
        let mut end = (len + 8) / BLOCK * BLOCK + BLOCK;
        if let Some(rest) = room.get_mut(len..)
            && let Some((first, rest)) = rest.split_first_mut()
        {
            *first = 0x80;
            // Until something was handed over it holds zeros there.
            if before > 0 {
                rest.fill(0);
            }
        }
        if end > ROOM {
            self.take(room);
            *room = [0; ROOM];
            end = BLOCK;
        }
        if let Some(last) = room.get_mut(..end).and_then(|blocks| blocks.last_chunk_mut()) {
            *last = ((before + len as u64) * 8).to_le_bytes();
        }
        let blocks = room.as_chunks().0.iter().take(end / BLOCK);
        blocks.for_each(|block| self.block(block));
        let mut bytes = [0; 16];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

impl Md5 {
    #[inline(never)]
    fn block(&mut self, block: &[u8; BLOCK]) {
        let [mut a, mut b, mut c, mut d] = self.0;
        let words = block.as_chunks::<4>().0;
        let word = |n: usize| words.get(n).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let f = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
        let g = |x: u32, y: u32, z: u32| y ^ (z & (x ^ y));
        let h = |x: u32, y: u32, z: u32| x ^ y ^ z;
        let i = |x: u32, y: u32, z: u32| y ^ (x | !z);
        // Four steps, after which each of the four words of state has changed its place once.
        macro_rules! steps {
            ($mix:expr, [$($sine:literal: $first:literal $second:literal $third:literal $fourth:literal),+], $turns:expr) => {
                let [p, q, r, s] = $turns;
                $(
                    a = step(a, $mix(b, c, d), word($first), SINES[$sine], p, b);
                    d = step(d, $mix(a, b, c), word($second), SINES[$sine + 1], q, a);
                    c = step(c, $mix(d, a, b), word($third), SINES[$sine + 2], r, d);
                    b = step(b, $mix(c, d, a), word($fourth), SINES[$sine + 3], s, c);
                )+
            };
        }
        steps!(f, [0: 0 1 2 3, 4: 4 5 6 7, 8: 8 9 10 11, 12: 12 13 14 15], [7, 12, 17, 22]);
        steps!(g, [16: 1 6 11 0, 20: 5 10 15 4, 24: 9 14 3 8, 28: 13 2 7 12], [5, 9, 14, 20]);
        steps!(h, [32: 5 8 11 14, 36: 1 4 7 10, 40: 13 0 3 6, 44: 9 12 15 2], [4, 11, 16, 23]);
        steps!(i, [48: 0 7 14 5, 52: 12 3 10 1, 56: 8 15 6 13, 60: 4 11 2 9], [6, 10, 15, 21]);
        let [one, two, three, four] = self.0;
        self.0 = [one.wrapping_add(a), two.wrapping_add(b), three.wrapping_add(c), four.wrapping_add(d)];
    }
}

#[inline(always)]
fn step(old: u32, mixed: u32, word: u32, sine: u32, turn: u32, next: u32) -> u32 {
    old.wrapping_add(word).wrapping_add(sine).wrapping_add(mixed).rotate_left(turn).wrapping_add(next)
}

#[cfg(test)]
mod tests {
    use crate::hash::Gather;
    use md5::{Digest, Md5};
    use proptest::prelude::*;

    proptest! {
        /// Any text, given in any pieces.
        #[test]
        fn like_the_crate(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6)) {
            let mut gather = Gather::<super::Md5>::new();
            pieces.iter().for_each(|piece| gather.add(piece));
            prop_assert_eq!(&gather.finish()[..], &Md5::digest(pieces.concat())[..]);
        }
    }

    /// Every length around the ends of blocks.
    #[test]
    fn every_length() {
        for len in 0..600 {
            let text: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut gather = Gather::<super::Md5>::new();
            gather.add(&text);
            assert_eq!(gather.finish()[..], Md5::digest(&text)[..], "{len}");
        }
    }
}
