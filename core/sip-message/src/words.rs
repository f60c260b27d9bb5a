//! Eight bytes at a time: finding the few bytes that matter in a text.
//!
//! A class is a function from a word to a word whose bytes have their high bit set where a byte belongs
//! to it. Only the lowest such bit can be trusted: a borrow may set others above it.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;

/// The class of one byte.
#[inline(always)]
pub(crate) const fn eq(word: u64, byte: u8) -> u64 {
    let zero = word ^ (byte as u64 * ONES);
    zero.wrapping_sub(ONES) & !zero
}

/// The class of the bytes below `bound`, which is at most 0x80.
#[inline(always)]
pub(crate) const fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(bound as u64 * ONES) & !word
}

/// The class of white space, controls and the quote.
#[inline(always)]
pub(crate) const fn blank_or_quote(word: u64) -> u64 {
    below(word, b' ' + 1) | eq(word, b'"')
}

/// The same class, for vectors.
#[inline(always)]
pub(crate) const fn is_blank_or_quote(b: u8) -> bool {
    (b <= b' ') | (b == b'"')
}

/// The first eight bytes of `s`, the first one lowest; zeros for those it lacks.
#[inline(always)]
pub(crate) fn word(s: &[u8]) -> u64 {
    match s.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => few(s),
    }
}

/// Less than eight bytes.
#[inline]
fn few(s: &[u8]) -> u64 {
    match (s.first_chunk::<4>(), s.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            // They may overlap, and are the same where they do.
            let shift = 8 * (s.len() as u32 - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ => s.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b)),
    }
}

/// Where the first byte of the class stands in `s`, or its length.
#[inline(always)]
pub(crate) fn find(s: &[u8], class: impl Fn(u64) -> u64) -> usize {
    let Some(last) = s.last_chunk::<8>() else {
        let hits = class(few(s)) & HIGH;
        // The zeros behind a short text are no part of it.
        return place(hits).min(s.len());
    };
    let (words, _) = s.as_chunks::<8>();
    for (i, eight) in words.iter().enumerate() {
        let hits = class(u64::from_le_bytes(*eight)) & HIGH;
        if hits != 0 {
            return 8 * i + place(hits);
        }
    }
    // Overlaps the last whole word, in which there is none.
    s.len() - 8 + place(class(u64::from_le_bytes(*last)) & HIGH)
}

/// The same for texts that are mostly longer: `is` names the bytes of the class one by one, of which the
/// compiler makes comparisons of vectors.
#[inline(always)]
pub(crate) fn find_far(s: &[u8], is: impl Fn(u8) -> bool, class: impl Fn(u64) -> u64) -> usize {
    let mut at = 0;
    while let Some(chunk) = s.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        if chunk.iter().fold(false, |found, &b| found | is(b)) {
            return at + find(chunk, class);
        }
        at += 16;
    }
    at + find(s.get(at..).unwrap_or(b""), class)
}

/// Which byte the lowest hit is; 8 when there is none.
#[inline(always)]
const fn place(hits: u64) -> usize {
    (hits.trailing_zeros() / 8) as usize
}

/// Whether a byte of `s` is one of those that `is` names. Made for texts in which there is none: the
/// compiler makes comparisons of vectors of the inner loops.
#[inline(always)]
pub(crate) fn any(s: &[u8], is: impl Fn(u8) -> bool) -> bool {
    match (s.last_chunk::<16>(), s.first_chunk::<8>(), s.last_chunk::<8>()) {
        (Some(last), ..) => {
            let mut whole = s.as_chunks::<16>().0.iter();
            let among = |chunk: &[u8; 16]| chunk.iter().fold(false, |found, &b| found | is(b));
            whole.any(among) || among(last)
        }
        (None, Some(first), Some(last)) => {
            let among = |found, (&a, &b)| found | is(a) | is(b);
            first.iter().zip(last).fold(false, among)
        }
        _ => s.iter().any(|&b| is(b)),
    }
}

/// Where the first control character (a byte below 0x20) stands at or after `from`; past the last byte
/// when there is none. Lines are longer
/// than a word, so that it pays to pass over sixteen bytes at a time first: the compiler makes one
/// comparison of vectors of the inner loop.
#[inline(always)]
pub(crate) fn control(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        if chunk.iter().fold(false, |found, &b| found | (b < b' ')) {
            let (low, high) = chunk.split_at(8);
            let hits = below(word(low), b' ') & HIGH;
            return match hits {
                0 => at + 8 + place(below(word(high), b' ') & HIGH),
                _ => at + place(hits),
            };
        }
        at += 16;
    }
    at + control_in_tail(bytes.get(at..).unwrap_or(b""))
}

#[inline(never)]
fn control_in_tail(rest: &[u8]) -> usize {
    rest.iter().position(|&b| b < b' ').unwrap_or(rest.len())
}

/// The first up to eight bytes of `text` as a word, and a mask of as many bytes.
pub(crate) const fn text_word(text: &[u8]) -> (u64, u64) {
    let (mut word, mut mask, mut i) = (0, 0, 0);
    while i < text.len() && i < 8 {
        word |= (text[i] as u64) << (8 * i);
        mask |= 0xff << (8 * i);
        i += 1;
    }
    (word, mask)
}

/// Whether `word` begins with the first eight bytes of `text`. Constant texts cost two instructions.
macro_rules! begins {
    ($word:expr, $text:literal) => {{
        const TEXT: (u64, u64) = $crate::words::text_word($text);
        $word & TEXT.1 == TEXT.0
    }};
}

/// Bit 5 of those bytes of `text` that are small letters.
pub(crate) const fn letters(text: &[u8]) -> u64 {
    let (mut mask, mut i) = (0, 0);
    while i < text.len() && i < 8 {
        if text[i].is_ascii_lowercase() {
            mask |= 0x20 << (8 * i);
        }
        i += 1;
    }
    mask
}

/// The same in any case, for a text in small letters.
macro_rules! begins_small {
    ($word:expr, $text:literal) => {{
        const LETTERS: u64 = $crate::words::letters($text);
        $crate::words::begins!($word | LETTERS, $text)
    }};
}

pub(crate) use {begins, begins_small};

#[cfg(test)]
mod tests {
    use super::*;

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
                    assert_eq!(find(text, |w| eq(w, b';')), at, "{len}");
                    assert_eq!(find_far(text, |b| b == b';', |w| eq(w, b';')), at, "{len}");
                    assert_eq!(find(text, |w| eq(w, 0) | below(w, 2)), len);
                    assert_eq!(word(text).to_le_bytes()[..len.min(8)], text[..len.min(8)]);
                    assert_eq!(control(text, 0), len);
                }
            }
        }
    }

    #[test]
    fn every_byte_is_in_its_classes() {
        for b in 0..=255u8 {
            for before in [b'a', 0x21, 0x80, 0xff] {
                for len in 1..20 {
                    let mut text = vec![before; len];
                    text[len - 1] = b;
                    let place = |is: bool| if is { len - 1 } else { len };
                    assert_eq!(find(&text, |w| eq(w, b'"')), place(b == b'"'));
                    assert_eq!(find(&text, |w| below(w, 0x21)), place(b < 0x21));
                    assert_eq!(
                        find_far(&text, is_blank_or_quote, blank_or_quote),
                        find(&text, blank_or_quote)
                    );
                    assert_eq!(find(&text, blank_or_quote), place(b <= b' ' || b == b'"'));
                    assert!(any(&text, |x| x == b));
                    assert_eq!(any(&text, |x| x < 0x20), b < 0x20);
                    assert!(!any(&text[..len - 1], |x| x != before));
                    assert_eq!(control(&text, 0), place(b < 0x20));
                    assert_eq!(control(&text, len - 1), place(b < 0x20));
                }
            }
        }
        assert!(begins!(word(b"Via: x"), b"Via:") && !begins!(word(b"via: x"), b"Via:"));
        assert!(begins_small!(word(b"RPort=1"), b"rport=") && !begins_small!(word(b"rport;1"), b"rport="));
        assert!(
            !begins_small!(word(b"rport\x1d1"), b"rport=") && !begins_small!(word(b"rpo2t=1"), b"rport=")
        );
    }
}
