//! MD5 (RFC 1321).
//!
//! Here because it is what a digest costs most: written so that the compiler makes a third fewer
//! instructions of it than of the usual crate. A property test compares the two.

use sha2::digest::{FixedOutput, HashMarker, Output, OutputSizeUser, Update, consts::U16};

/// A hash being computed.
#[derive(Clone)]
pub(crate) struct Md5 {
    state: [u32; 4],
    /// What does not fill a block yet is in front.
    block: [u8; 64],
    /// Bytes taken.
    len: u64,
}

/// The integer part of 2^32 times the absolute sine of 1, 2, 3 ... 64 radians (section 3.4).
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
    0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
    0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
    0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
    0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
    0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
    0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
    0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// How far the four steps of each round rotate.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

impl Default for Md5 {
    fn default() -> Md5 {
        Md5 { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], block: [0; 64], len: 0 }
    }
}

impl Md5 {
    /// Bytes in front of the block.
    fn held(&self) -> usize {
        (self.len % 64) as usize
    }
}

impl Update for Md5 {
    fn update(&mut self, mut bytes: &[u8]) {
        let held = self.held();
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if held > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(64 - held));
            self.block[held..held + now.len()].copy_from_slice(now);
            if held + now.len() < 64 {
                return;
            }
            compress(&mut self.state, &self.block);
            bytes = later;
        }
        let (blocks, rest) = bytes.as_chunks::<64>();
        for block in blocks {
            compress(&mut self.state, block);
        }
        self.block[..rest.len()].copy_from_slice(rest);
    }
}

impl FixedOutput for Md5 {
    fn finalize_into(mut self, out: &mut Output<Md5>) {
        // A one bit, zeros, and the length in bits (sections 3.1 and 3.2).
        let held = self.held();
        self.block[held] = 0x80;
        self.block[held + 1..].fill(0);
        if held >= 56 {
            compress(&mut self.state, &self.block);
            self.block.fill(0);
        }
        self.block[56..].copy_from_slice(&self.len.wrapping_mul(8).to_le_bytes());
        compress(&mut self.state, &self.block);
        for (place, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *place = word.to_le_bytes();
        }
    }
}

impl OutputSizeUser for Md5 {
    type OutputSize = U16;
}

impl HashMarker for Md5 {}

/// Takes one block (section 3.4). Loops of constant length, which the compiler unrolls.
fn compress(state: &mut [u32; 4], block: &[u8; 64]) {
    let words = block.as_chunks::<4>().0;
    let mut s = *state;
    for i in 0..16 {
        // The same as `b & c | !b & d` with one operation less.
        s = step(s, words[i % 16], 0, i, |b, c, d| d ^ (b & (c ^ d)));
    }
    for i in 0..16 {
        // No bit is set in both, so that the sum may be taken in any order.
        s = step(s, words[(5 * i + 1) % 16], 1, i, |b, c, d| (b & d).wrapping_add(c & !d));
    }
    for i in 0..16 {
        s = step(s, words[(3 * i + 5) % 16], 2, i, |b, c, d| b ^ c ^ d);
    }
    for i in 0..16 {
        s = step(s, words[(7 * i) % 16], 3, i, |b, c, d| c ^ (b | !d));
    }
    for (sum, word) in state.iter_mut().zip(s) {
        *sum = sum.wrapping_add(word);
    }
}

/// Step `i` of a round.
#[inline(always)]
fn step(
    [a, b, c, d]: [u32; 4],
    word: [u8; 4],
    round: usize,
    i: usize,
    mix: impl Fn(u32, u32, u32) -> u32,
) -> [u32; 4] {
    let known = a.wrapping_add(u32::from_le_bytes(word)).wrapping_add(SINES[16 * round + i]);
    let sum = known.wrapping_add(mix(b, c, d)).rotate_left(TURNS[round][i % 4]);
    [d, b.wrapping_add(sum), b, c]
}

#[cfg(test)]
mod tests {
    use super::*;
    use md5::Digest as _;
    use proptest::prelude::*;

    fn text(bytes: &[u8]) -> String {
        Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
    }

    /// RFC 1321, appendix A.5.
    #[test]
    fn test_suite_of_rfc_1321() {
        for (input, output) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(text(input.as_bytes()), output);
        }
    }

    proptest! {
        /// Any bytes in any pieces hash as with the crate that everybody uses.
        #[test]
        fn others_agree(bytes in proptest::collection::vec(any::<u8>(), 0..400), cuts in proptest::collection::vec(0usize..400, 0..4)) {
            let mut ours = Md5::default();
            let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts {
                md5::Digest::update(&mut ours, &bytes[from..cut]);
                from = cut;
            }
            md5::Digest::update(&mut ours, &bytes[from..]);
            prop_assert_eq!(ours.finalize(), md5::Md5::digest(&bytes));
        }
    }
}
