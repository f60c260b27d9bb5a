//! What the caller tells the answering side of the load generator.
//!
//! Whether a callee answers, and when, is decided with the call. The answering side may be another worker
//! or another process, so the decision travels in the INVITE, as a few characters of its Call-ID or of
//! a parameter, and nothing need be looked up. Servers pass both on unchanged; a load balancer in front
//! hashes Call-IDs, which stay random behind the token.

use core::fmt;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The callee answers.
    Completed,
    /// The callee is unavailable; voicemail answers.
    Voicemail,
    /// The caller gives up while it rings.
    Cancelled,
}

/// Who sends BYE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The caller.
    Caller,
    /// The callee.
    Callee,
}

/// The instructions of one call for its answering side.
///
/// Text: `q`, a letter, six hexadecimal digits; if the callee hangs up eight more. All are characters of
/// a token (RFC 3261 section 25.1) and of a Call-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallToken {
    /// What becomes of the call.
    pub kind: Kind,
    /// Milliseconds of ringing before the callee answers or, for voicemail, declares itself unavailable.
    /// A callee whose caller cancels rings until it does; this is then when that will be, for information.
    pub ring_ms: u32,
    /// If the callee ends the call: milliseconds from its answer to its BYE.
    pub callee_hangs_up_ms: Option<u32>,
}

/// The longest ringing that a token carries, in milliseconds; longer times are cut to it.
pub const LONGEST_RING_MS: u32 = 0x00ff_ffff;
/// Characters of the longest token.
pub const LONGEST_TOKEN: usize = 16;

/// A token as text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenText {
    bytes: [u8; LONGEST_TOKEN],
    length: u8,
}

impl TokenText {
    /// The characters, all ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl CallToken {
    /// The token as text, without allocating.
    pub fn encode(&self) -> TokenText {
        let letter = match (self.kind, self.callee_hangs_up_ms) {
            (Kind::Completed, None) => b'c',
            (Kind::Completed, Some(_)) => b'd',
            (Kind::Voicemail, _) => b'v',
            (Kind::Cancelled, _) => b'x',
        };
        let mut bytes = [0; LONGEST_TOKEN];
        let mut out = bytes.iter_mut();
        let mut length = 0;
        let mut put = |byte: u8| {
            if let Some(at) = out.next() {
                *at = byte;
                length += 1;
            }
        };
        put(b'q');
        put(letter);
        hex(&mut put, self.ring_ms.min(LONGEST_RING_MS), 6);
        if letter == b'd' {
            hex(&mut put, self.callee_hangs_up_ms.unwrap_or(0), 8);
        }
        TokenText { bytes, length }
    }

    /// Reads the token with which `text` begins; none if it begins with something else. What follows the
    /// token does not matter.
    pub fn decode(text: &[u8]) -> Option<CallToken> {
        let (letter, rest) = match text {
            [b'q', letter, rest @ ..] => (*letter, rest),
            _ => return None,
        };
        let ring_ms = unhex(rest.get(..6)?)?;
        let (kind, callee_hangs_up_ms) = match letter {
            b'c' => (Kind::Completed, None),
            b'd' => (Kind::Completed, Some(unhex(rest.get(6..14)?)?)),
            b'v' => (Kind::Voicemail, None),
            b'x' => (Kind::Cancelled, None),
            _ => return None,
        };
        Some(CallToken { kind, ring_ms, callee_hangs_up_ms })
    }

    /// Characters of the text.
    pub fn text_length(&self) -> usize {
        if self.kind == Kind::Completed && self.callee_hangs_up_ms.is_some() { 16 } else { 8 }
    }
}

fn hex(put: &mut impl FnMut(u8), value: u32, digits: u32) {
    for i in (0..digits).rev() {
        let digit = (value >> (4 * i) & 15) as u8;
        put(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

fn unhex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_are_short_and_plain() {
        let token = CallToken { kind: Kind::Completed, ring_ms: 8_500, callee_hangs_up_ms: None };
        assert_eq!(token.encode().as_bytes(), b"qc002134");
        assert_eq!(CallToken::decode(b"qc002134.17-5@198.51.100.1"), Some(token));
        let token = CallToken { callee_hangs_up_ms: Some(300_000), ..token };
        assert_eq!(token.encode().as_bytes(), b"qd002134000493e0");
    }

    #[test]
    fn what_is_no_token_is_not_taken_for_one() {
        for text in
            ["", "q", "qc", "qc00213", "qz002134", "xc002134", "qc00213g", "qd002134000493e", "1-77@h"]
        {
            assert_eq!(CallToken::decode(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(kind in 0..3, ring_ms in 0..=LONGEST_RING_MS, hold in any::<Option<u32>>()) {
            let (kind, callee_hangs_up_ms) = match kind {
                0 => (Kind::Completed, hold),
                1 => (Kind::Voicemail, None),
                _ => (Kind::Cancelled, None),
            };
            let token = CallToken { kind, ring_ms, callee_hangs_up_ms };
            let text = token.encode();
            prop_assert_eq!(text.as_bytes().len(), token.text_length());
            prop_assert_eq!(CallToken::decode(text.as_bytes()), Some(token));
        }

        #[test]
        fn any_bytes_can_be_read(text in proptest::collection::vec(any::<u8>(), 0..20)) {
            CallToken::decode(&text);
        }
    }
}
