//! Sixteen bytes at a time: which of them belong to a class, one bit each.
//!
//! On x86-64 this is SSE2, which every such processor has; elsewhere two words stand for a vector.

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::{Block, Hits};
#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::{Block, Hits};

/// The bytes of a text that is shorter than sixteen, as they stand in a [`Block`]: its first and its last
/// bytes, which overlap.
#[derive(Clone, Copy)]
struct Short {
    low: u64,
    high: u64,
    /// How many bytes of `low` count.
    width: usize,
}

impl Short {
    #[inline(always)]
    fn of(s: &[u8]) -> Short {
        if let (Some(first), Some(last)) = (s.first_chunk::<8>(), s.last_chunk::<8>()) {
            return Short { low: u64::from_le_bytes(*first), high: u64::from_le_bytes(*last), width: 8 };
        }
        if let (Some(first), Some(last)) = (s.first_chunk::<4>(), s.last_chunk::<4>()) {
            let (low, high) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            return Short { low: low.into(), high: high.into(), width: 4 };
        }
        match *s {
            [a] => Short { low: a.into(), high: a.into(), width: 1 },
            [a, b] => Short { low: a.into(), high: b.into(), width: 1 },
            [a, b, c] => Short {
                low: u64::from(u16::from_le_bytes([a, b])),
                high: u64::from(u16::from_le_bytes([b, c])),
                width: 2,
            },
            _ => Short { low: 0, high: 0, width: 0 },
        }
    }

    /// One bit for each byte of the text, of `hits` with one bit for each byte of both words.
    #[inline(always)]
    fn place(self, hits: u32, len: usize) -> u32 {
        let mask = (1 << self.width) - 1;
        (hits & mask) | ((hits >> 8) & mask) << (len - self.width)
    }
}

/// Where the first byte of the class stands in `s`, or its length.
#[inline(always)]
pub(crate) fn find(s: &[u8], class: impl Fn(Block) -> Hits) -> usize {
    let Some(last) = s.last_chunk::<16>() else {
        let short = Short::of(s);
        let hits = short.place(class(Block::of_words(short.low, short.high)).bits(), s.len());
        // A bit behind the text, where the count stops.
        return (hits | 1 << s.len()).trailing_zeros() as usize;
    };
    let (blocks, _) = s.as_chunks::<16>();
    for (i, block) in blocks.iter().enumerate() {
        let hits = class(Block::of(block)).bits();
        if hits != 0 {
            return 16 * i + hits.trailing_zeros() as usize;
        }
    }
    // Overlaps the last whole block, in which there is none.
    s.len() - 16 + (class(Block::of(last)).bits() | 1 << 16).trailing_zeros() as usize
}

/// Whether a byte of `s` is in the class.
#[inline(always)]
pub(crate) fn any(s: &[u8], class: impl Fn(Block) -> Hits) -> bool {
    let Some(last) = s.last_chunk::<16>() else {
        let short = Short::of(s);
        let hits = class(Block::of_words(short.low, short.high)).bits();
        return short.place(hits, s.len()) != 0;
    };
    let (blocks, _) = s.as_chunks::<16>();
    blocks.iter().any(|block| class(Block::of(block)).bits() != 0) || class(Block::of(last)).bits() != 0
}

/// How many bytes of `s` are in the class.
pub(crate) fn count(s: &[u8], class: impl Fn(Block) -> Hits) -> usize {
    let (blocks, rest) = s.as_chunks::<16>();
    let whole: u32 = blocks.iter().map(|block| class(Block::of(block)).bits().count_ones()).sum();
    let short = Short::of(rest);
    let hits = short.place(class(Block::of_words(short.low, short.high)).bits(), rest.len());
    (whole + hits.count_ones()) as usize
}

/// Whether two small letters stand in `text` one after the other, in any case.
pub fn has_pair(text: &[u8], [first, second]: &[u8; 2]) -> bool {
    let both = |bytes: &[u8; 16]| {
        let block = Block::of(bytes).small();
        block.eq(*first).bits() & block.eq(*second).bits() >> 1 != 0
    };
    let Some(last) = text.last_chunk::<16>() else {
        return text.windows(2).any(|two| two.eq_ignore_ascii_case(&[*first, *second]));
    };
    let mut rest = text;
    while let Some(block) = rest.first_chunk::<16>() {
        if both(block) {
            return true;
        }
        // The last byte may be the first of two.
        rest = rest.get(15..).unwrap_or_default();
    }
    both(last)
}

/// Where the first control character (a byte below 0x20) stands at or after `from`; past the last byte
/// when there is none.
#[inline(always)]
pub(crate) fn control(bytes: &[u8], from: usize) -> usize {
    let (blocks, tail) = bytes.get(from..).unwrap_or(b"").as_chunks::<16>();
    let mut at = from;
    for block in blocks {
        let hits = Block::of(block).at_most(b' ' - 1).bits();
        if hits != 0 {
            return at + hits.trailing_zeros() as usize;
        }
        at += 16;
    }
    at + control_in_tail(tail)
}

#[inline(never)]
fn control_in_tail(rest: &[u8]) -> usize {
    find(rest, |b| b.at_most(b' ' - 1))
}

/// Where the line feeds stand at or after `from`, in order.
#[inline]
pub(crate) fn line_feeds(bytes: &[u8], from: usize) -> impl Iterator<Item = usize> {
    let (blocks, tail) = bytes.get(from..).unwrap_or(b"").as_chunks::<16>();
    let (mut blocks, mut tail) = (blocks.iter(), Some(tail));
    // Of the block that ends at `end`.
    let (mut hits, mut start, mut end) = (0u32, from, from);
    core::iter::from_fn(move || {
        while hits == 0 {
            start = end;
            let mut last = [0; 16];
            let block = match blocks.next() {
                Some(block) => block,
                None => {
                    let tail = tail.take()?;
                    last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
                    &last
                }
            };
            hits = Block::of(block).eq(b'\n').bits();
            end = start + 16;
        }
        let at = start + hits.trailing_zeros() as usize;
        hits &= hits - 1;
        Some(at)
    })
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use core::ops::{BitOr, Not};
    use safe_arch::{
        bitor_m128i, cmp_eq_mask_i8_m128i, load_unaligned_m128i, m128i, min_u8_m128i, move_mask_i8_m128i,
        set_splat_i8_m128i, sub_i8_m128i,
    };

    /// Sixteen bytes.
    #[derive(Clone, Copy)]
    pub(crate) struct Block(m128i);

    /// Which of sixteen bytes belong to a class.
    #[derive(Clone, Copy)]
    pub(crate) struct Hits(m128i);

    impl Block {
        /// The first byte lowest.
        #[inline(always)]
        pub fn of(bytes: &[u8; 16]) -> Block {
            Block(load_unaligned_m128i(bytes))
        }

        /// Two words.
        #[inline(always)]
        pub fn of_words(low: u64, high: u64) -> Block {
            Block(m128i::from([low, high]))
        }

        /// Those that are `byte`.
        #[inline(always)]
        pub fn eq(self, byte: u8) -> Hits {
            Hits(cmp_eq_mask_i8_m128i(self.0, splat(byte)))
        }

        /// Those that are `bound` or less.
        #[inline(always)]
        pub fn at_most(self, bound: u8) -> Hits {
            Hits(cmp_eq_mask_i8_m128i(min_u8_m128i(self.0, splat(bound)), self.0))
        }

        /// Those from `first` to `last`.
        #[inline(always)]
        pub fn within(self, first: u8, last: u8) -> Hits {
            Block(sub_i8_m128i(self.0, splat(first))).at_most(last - first)
        }

        /// With capital letters made small. Changes other bytes too, but none into a letter.
        #[inline(always)]
        pub fn small(self) -> Block {
            Block(bitor_m128i(self.0, splat(0x20)))
        }
    }

    #[inline(always)]
    fn splat(byte: u8) -> m128i {
        set_splat_i8_m128i(byte.cast_signed())
    }

    impl Hits {
        /// One bit for each byte, the lowest for the first.
        #[inline(always)]
        pub fn bits(self) -> u32 {
            move_mask_i8_m128i(self.0).cast_unsigned()
        }
    }

    impl BitOr for Hits {
        type Output = Hits;

        #[inline(always)]
        fn bitor(self, other: Hits) -> Hits {
            Hits(bitor_m128i(self.0, other.0))
        }
    }

    impl Not for Hits {
        type Output = Hits;

        #[inline(always)]
        fn not(self) -> Hits {
            Block(self.0).eq(0)
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use core::ops::{BitOr, Not};

    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;

    /// Sixteen bytes.
    #[derive(Clone, Copy)]
    pub(crate) struct Block([u64; 2]);

    /// Which of sixteen bytes belong to a class: the high bit of each.
    #[derive(Clone, Copy)]
    pub(crate) struct Hits([u64; 2]);

    impl Block {
        /// The first byte lowest.
        #[inline(always)]
        pub fn of(bytes: &[u8; 16]) -> Block {
            let all = u128::from_le_bytes(*bytes);
            Block::of_words(all as u64, (all >> 64) as u64)
        }

        /// Two words.
        #[inline(always)]
        pub fn of_words(low: u64, high: u64) -> Block {
            Block([low, high])
        }

        /// Those that are `byte`.
        #[inline(always)]
        pub fn eq(self, byte: u8) -> Hits {
            // Zero bytes get their high bit; nothing is carried from one byte to the next.
            let is_zero = |word: u64| !(((word & !HIGH) + !HIGH) | word);
            Hits(self.0.map(|word| is_zero(word ^ (u64::from(byte) * ONES)) & HIGH))
        }

        /// Those that are `bound` or less.
        #[inline(always)]
        pub fn at_most(self, bound: u8) -> Hits {
            Hits(self.0.map(|word| at_most(word, bound)))
        }

        /// Those from `first` to `last`.
        #[inline(always)]
        pub fn within(self, first: u8, last: u8) -> Hits {
            let below = if first == 0 { [0; 2] } else { self.at_most(first - 1).0 };
            let Hits([low, high]) = self.at_most(last);
            Hits([low & !below[0], high & !below[1]])
        }

        /// With capital letters made small. Changes other bytes too, but none into a letter.
        #[inline(always)]
        pub fn small(self) -> Block {
            Block(self.0.map(|word| word | (0x20 * ONES)))
        }
    }

    /// The high bit of the bytes that are `bound` or less.
    #[inline(always)]
    fn at_most(word: u64, bound: u8) -> u64 {
        // The lower seven bits are compared by a difference that cannot borrow from the next byte.
        let (bound, low) = (u64::from(bound) * ONES, word & !HIGH);
        let seven = ((bound & !HIGH) | HIGH) - low;
        let (same, less) = (!(word ^ bound), bound & !word);
        (less | (same & seven)) & HIGH
    }

    impl Hits {
        /// One bit for each byte, the lowest for the first.
        #[inline(always)]
        pub fn bits(self) -> u32 {
            // The product gathers the low bit of each byte in its highest byte.
            let [low, high] =
                self.0.map(|hits| ((hits >> 7) & ONES).wrapping_mul(0x0102_0408_1020_4080) >> 56);
            (low | high << 8) as u32
        }
    }

    impl BitOr for Hits {
        type Output = Hits;

        #[inline(always)]
        fn bitor(self, other: Hits) -> Hits {
            Hits([self.0[0] | other.0[0], self.0[1] | other.0[1]])
        }
    }

    impl Not for Hits {
        type Output = Hits;

        #[inline(always)]
        fn not(self) -> Hits {
            Hits(self.0.map(|hits| !hits & HIGH))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn places_are_found_in_texts_of_every_length() {
        for len in 0..70 {
            for at in 0..=len {
                for filler in [b'a', b'=', b'<', 0xbb, 0x80, 0xff, b' '] {
                    let mut text = vec![filler; len + 5];
                    // What stands behind the text must not be seen.
                    text[len..].fill(b';');
                    text[at..len].fill(b';');
                    let text = &text[..len];
                    assert_eq!(find(text, |b| b.eq(b';')), at, "{len}");
                    assert_eq!(find(text, |b| b.eq(0) | b.at_most(1)), len);
                    assert_eq!(any(text, |b| b.eq(b';')), at < len);
                    assert_eq!(count(text, |b| b.eq(b';')), len - at);
                    assert!(!any(text, |b| b.eq(0)));
                    assert_eq!(control(text, 0), len);
                }
            }
        }
    }

    #[test]
    fn line_feeds_are_found_wherever_they_stand() {
        let text: Vec<u8> = (0..90usize).map(|at| if at * at % 7 == 2 { b'\n' } else { b'\r' }).collect();
        for (len, from) in (0..=text.len()).flat_map(|len| (0..=len + 2).map(move |from| (len, from))) {
            let bytes = &text[..len];
            let wanted: Vec<usize> = (from..len).filter(|&at| bytes[at] == b'\n').collect();
            assert_eq!(line_feeds(bytes, from).collect::<Vec<_>>(), wanted, "{len} from {from}");
        }
    }

    #[test]
    fn every_byte_is_in_its_classes() {
        for b in 0..=255u8 {
            for before in [b'a', 0x21, 0x80, 0xff] {
                for len in 1..40 {
                    let mut text = vec![before; len];
                    text[len - 1] = b;
                    let place = |is: bool| if is { len - 1 } else { len };
                    assert_eq!(find(&text, |x| x.eq(b'"')), place(b == b'"'));
                    assert_eq!(find(&text, |x| x.at_most(b' ')), place(b <= b' '));
                    assert_eq!(any(&text, |x| x.at_most(31)), b < 0x20);
                    assert!(any(&text, |x| x.eq(b)));
                    assert_eq!(control(&text, 0), place(b < 0x20));
                    assert_eq!(control(&text, len - 1), place(b < 0x20));
                }
            }
        }
    }

    #[test]
    fn pairs_are_found_wherever_they_stand() {
        for len in 0..70 {
            for at in 0..len {
                for pair in [b"oc", b"Oc", b"oC", b"OC"] {
                    for filler in [b'o', b'c', b'-', b'/', 0x0f, 0xcf] {
                        let mut text = vec![filler; len];
                        let clean = !text.windows(2).any(|two| two.eq_ignore_ascii_case(b"oc"));
                        assert!(clean && !has_pair(&text, b"oc"));
                        text[at] = pair[0];
                        // Half of it only, unless the filler is the other half.
                        let wanted = text.windows(2).any(|two| two.eq_ignore_ascii_case(b"oc"));
                        assert_eq!(has_pair(&text, b"oc"), wanted, "{len} {at}");
                        if let Some(next) = text.get_mut(at + 1) {
                            *next = pair[1];
                            assert!(has_pair(&text, b"oc"), "{len} {at}");
                        }
                    }
                }
            }
        }
    }

    /// The class of bytes that a predicate names, one by one.
    fn bits_of(bytes: &[u8; 16], is: impl Fn(u8) -> bool) -> u32 {
        bytes.iter().rev().fold(0, |bits, &b| bits << 1 | u32::from(is(b)))
    }

    proptest! {
        /// Both kinds of block put every byte into the class that the bytes one by one are in.
        #[test]
        fn blocks_agree_with_bytes(bytes: [u8; 16], a: u8, b: u8, at in 0usize..16) {
            let mut bytes = bytes;
            bytes[at] = a;
            let (first, last) = (a.min(b), a.max(b));
            let want = [
                bits_of(&bytes, |x| x == a),
                bits_of(&bytes, |x| x <= a),
                bits_of(&bytes, |x| (first..=last).contains(&x)),
                bits_of(&bytes, |x| x == a || x <= b),
                bits_of(&bytes, |x| (x | 0x20) == a),
                bits_of(&bytes, |x| x > a),
            ];
            let x = Block::of(&bytes);
            let native = [x.eq(a), x.at_most(a), x.within(first, last), x.eq(a) | x.at_most(b), x.small().eq(a), !x.at_most(a)];
            prop_assert_eq!(native.map(|hits| hits.bits()), want);
            let x = portable::Block::of(&bytes);
            let other = [x.eq(a), x.at_most(a), x.within(first, last), x.eq(a) | x.at_most(b), x.small().eq(a), !x.at_most(a)];
            prop_assert_eq!(other.map(|hits| hits.bits()), want);
        }
    }
}
