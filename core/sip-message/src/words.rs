//! Eight bytes at a time: what a text begins with.

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
    fn words_hold_what_there_is() {
        for len in 0..12 {
            let text: Vec<u8> = (1..=len).collect();
            let have = text.len().min(8);
            assert_eq!(word(&text).to_le_bytes()[..have], text[..have]);
            assert_eq!(word(&text).to_le_bytes()[have..], [0; 8][have..]);
        }
    }

    #[test]
    fn beginnings_are_told_apart() {
        assert!(begins!(word(b"Via: x"), b"Via:") && !begins!(word(b"via: x"), b"Via:"));
        assert!(begins_small!(word(b"RPort=1"), b"rport=") && !begins_small!(word(b"rport;1"), b"rport="));
        assert!(
            !begins_small!(word(b"rport\x1d1"), b"rport=") && !begins_small!(word(b"rpo2t=1"), b"rport=")
        );
    }
}
