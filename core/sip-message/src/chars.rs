//! Character classes of RFC 3261 section 25.1 as one table of bits.

use crate::block::{Block, Hits, find};

pub(crate) const TOKEN: u8 = 1;
/// A user part in which nothing needs an escape.
pub(crate) const UNESCAPED_USER: u8 = 2;
pub(crate) const HOST: u8 = 8;
/// What a part of a URI may hold that is passed on as it is: every visible byte but those that end a URI
/// for some reader. See docs/design/uri-tolerance.md.
pub(crate) const CARRIED: u8 = 4;
/// What ends or breaks a URI inside a header value.
pub(crate) const NOT_URI: u8 = 64;

const fn has(set: &[u8], b: u8) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == b {
            return true;
        }
        i += 1;
    }
    false
}

const fn classes(b: u8) -> u8 {
    let alnum = b.is_ascii_alphanumeric();
    let unreserved = alnum || has(b"-_.!~*'()", b);
    let mut c = 0;
    if has(b" \t<>\"", b) {
        c |= NOT_URI;
    }
    if alnum || has(b"-.!%*_+`'~", b) {
        c |= TOKEN;
    }
    if unreserved || has(b"&=+$,;?/", b) {
        c |= UNESCAPED_USER;
    }
    // The at sign is left out, so that one always ends a userinfo.
    if b > b' ' && b != 0x7f && !has(b"<>\"@", b) {
        c |= CARRIED;
    }
    // The underscore is not in the grammar, but it is in real host names.
    if alnum || has(b"-._", b) {
        c |= HOST;
    }
    c
}

const TABLE: [u8; 256] = {
    let mut t = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        t[i] = classes(i as u8);
        i += 1;
    }
    t
};

/// Whether `b` is in one of the classes of `mask`.
#[inline]
pub(crate) const fn is(b: u8, mask: u8) -> bool {
    TABLE[b as usize] & mask != 0
}

/// The class of white space, controls and the quote.
#[inline(always)]
pub(crate) fn blank_or_quote(b: Block) -> Hits {
    b.at_most(b' ') | b.eq(b'"')
}

/// The class [`HOST`].
#[inline(always)]
pub(crate) fn host(b: Block) -> Hits {
    b.small().within(b'a', b'z') | b.within(b'0', b'9') | b.within(b'-', b'.') | b.eq(b'_')
}

/// Where the first byte that is not in [`HOST`] stands, or the length.
#[inline(always)]
pub(crate) fn end_of_host(s: &[u8]) -> usize {
    find(s, |b| !host(b))
}

/// Where the first byte that is not in [`TOKEN`] stands, or the length. Few tokens hold bytes that a host
/// does not.
#[inline(always)]
pub(crate) fn end_of_token(s: &[u8]) -> usize {
    let mut at = end_of_host(s);
    while s.get(at).is_some_and(|&b| is(b, TOKEN)) {
        at += 1;
    }
    at
}

/// Whether every byte of `s` is in `mask`.
#[inline]
pub(crate) fn all(s: &[u8], mask: u8) -> bool {
    s.iter().all(|&b| is(b, mask))
}

/// The byte that the escape at `s[at..]` stands for.
pub(crate) fn unhex(s: &[u8], at: usize) -> Option<u8> {
    let digit = |b: u8| (b as char).to_digit(16);
    let high = digit(*s.get(at + 1)?)?;
    let low = digit(*s.get(at + 2)?)?;
    u8::try_from(high * 16 + low).ok()
}

/// A non-empty token.
#[inline]
pub(crate) fn is_token(s: &[u8]) -> bool {
    !s.is_empty() && all(s, TOKEN)
}

/// Linear white space inside one unfolded line.
#[inline]
pub(crate) const fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// `s` without white space at either end. Most values have none, or one space in front.
#[inline]
pub(crate) fn trim(s: &[u8]) -> &[u8] {
    match s {
        [first, .., last] if *first > b' ' && *last > b' ' => s,
        [b' ', s @ ..] if matches!(s, [first, .., last] if *first > b' ' && *last > b' ') => s,
        _ => trim_slowly(s),
    }
}

fn trim_slowly(mut s: &[u8]) -> &[u8] {
    while let [b, rest @ ..] = s {
        if !is_space(*b) {
            break;
        }
        s = rest;
    }
    while let [rest @ .., b] = s {
        if !is_space(*b) {
            break;
        }
        s = rest;
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_table_agree() {
        for b in 0..=255u8 {
            for len in [1, 3, 7, 15, 16, 40] {
                let mut text = vec![b'a'; len];
                text[len - 1] = b;
                let place = |mask| if is(b, mask) { len } else { len - 1 };
                assert_eq!(end_of_host(&text), place(HOST), "{b:#x}");
                assert_eq!(end_of_token(&text), place(TOKEN), "{b:#x}");
                let blank = b <= b' ' || b == b'"';
                assert_eq!(find(&text, blank_or_quote), if blank { len - 1 } else { len });
            }
        }
        assert_eq!(end_of_token(b"a!b~c-1<x"), 7);
    }
}
