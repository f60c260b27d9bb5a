//! Dialled characters, packed so that their order is that of numbers.

use core::fmt;

/// Characters of a prefix at most. Those of a called number beyond are not looked at. A number of E.164 has
/// 15 digits; the rest is for what is dialled before it.
pub const MAX_DIGITS: usize = 32;

/// Bits of a character.
const BITS: u32 = 4;

/// What may be dialled, in the order of bytes. The place of a character, from 1, is its code.
const ALPHABET: &[u8; 13] = b"#*+0123456789";

/// Up to [`MAX_DIGITS`] dialled characters: `0` to `9`, `*`, `#`, and `+` in front.
///
/// Each takes four bits, the first one the highest; what is not used is 0. So a prefix is less than each of
/// its continuations, and these follow it without a gap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digits(u128);

/// A character that cannot be in a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDigit {
    /// There is none at all.
    Empty,
    /// The byte at this place, from 0.
    At(usize),
    /// There are more than [`MAX_DIGITS`].
    TooLong,
}

impl Digits {
    /// Of a prefix as it is written in a table.
    ///
    /// # Errors
    /// It is empty, too long, or has another character than those that can be dialled.
    pub fn parse(text: &[u8]) -> Result<Digits, BadDigit> {
        if text.is_empty() {
            return Err(BadDigit::Empty);
        }
        let mut digits = Digits::default();
        for (at, &byte) in text.iter().enumerate() {
            let code = code_of(byte).filter(|_| byte != b'+' || at == 0).ok_or(BadDigit::At(at))?;
            if at == MAX_DIGITS {
                return Err(BadDigit::TooLong);
            }
            digits.set(at, code);
        }
        Ok(digits)
    }

    /// The beginning of a called number, from the user part of a URI: without the visual separators of RFC
    /// 3966 section 3, escapes (RFC 3261 section 19.1.2) read as what they stand for. It ends before the
    /// first character that cannot be dialled.
    pub fn dialled(user: &[u8]) -> Digits {
        let (mut digits, mut length, mut rest) = (Digits::default(), 0, user);
        while let [byte, behind @ ..] = rest {
            let (byte, behind) = match (*byte, behind) {
                (b'%', [high, low, behind @ ..]) => match (hex(*high), hex(*low)) {
                    (Some(high), Some(low)) => (high << 4 | low, behind),
                    _ => break,
                },
                (byte, behind) => (byte, behind),
            };
            rest = behind;
            if is_separator(byte) {
                continue;
            }
            let code = code_of(byte).filter(|_| byte != b'+' || length == 0);
            let Some(code) = code.filter(|_| length < MAX_DIGITS) else { break };
            digits.set(length, code);
            length += 1;
        }
        digits
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        MAX_DIGITS - (self.0.trailing_zeros() / BITS) as usize
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether these begin with all of `prefix`.
    pub const fn starts_with(self, prefix: Digits) -> bool {
        let behind = (MAX_DIGITS - prefix.len()) as u32 * BITS;
        // Of an empty prefix everything is shifted out.
        match (self.0 ^ prefix.0).checked_shr(behind) {
            Some(differs) => differs == 0,
            None => true,
        }
    }

    /// Writes a character at a place that is empty yet.
    const fn set(&mut self, at: usize, code: u8) {
        self.0 |= (code as u128) << ((MAX_DIGITS - 1 - at) as u32 * BITS);
    }
}

/// Whether a character only makes a number easier to read (RFC 3966 section 3, `visual-separator`).
pub const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'(' | b')')
}

/// The code of a character, from 1.
fn code_of(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0' + 4),
        b'+' => Some(3),
        b'*' => Some(2),
        b'#' => Some(1),
        _ => None,
    }
}

/// The value of a hexadecimal digit.
const fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for at in 0..self.len() {
            let code = (self.0 >> ((MAX_DIGITS - 1 - at) as u32 * BITS)) as usize & 15;
            let byte = code.checked_sub(1).and_then(|place| ALPHABET.get(place)).copied().unwrap_or(b'?');
            write!(f, "{}", char::from(byte))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digits({self})")
    }
}

impl fmt::Display for BadDigit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDigit::Empty => f.write_str("empty prefix"),
            BadDigit::At(at) => write!(f, "character {} of the prefix cannot be dialled", at + 1),
            BadDigit::TooLong => write!(f, "a prefix of more than {MAX_DIGITS} characters"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_order_of_the_alphabet() {
        for (place, byte) in ALPHABET.iter().enumerate() {
            assert_eq!(code_of(*byte).map(usize::from), Some(place + 1), "{}", char::from(*byte));
        }
        assert!(ALPHABET.is_sorted());
    }

    #[test]
    fn prefix_is_parsed_and_shown_as_written() {
        for text in ["0", "+", "+4930", "*21#", "#31#", "00123456789", "+123456789012345"] {
            let digits = Digits::parse(text.as_bytes()).unwrap();
            assert_eq!((digits.to_string().as_str(), digits.len()), (text, text.len()));
        }
        let longest = "9".repeat(MAX_DIGITS);
        assert_eq!(Digits::parse(longest.as_bytes()).unwrap().len(), MAX_DIGITS);
        assert_eq!(Digits::parse(&[longest.as_bytes(), b"9"].concat()), Err(BadDigit::TooLong));
        assert_eq!(Digits::parse(b""), Err(BadDigit::Empty));
        for (text, at) in [("4+9", 1), ("++49", 1), ("49 30", 2), ("a", 0), ("+49x", 3), ("4-9", 1)] {
            assert_eq!(Digits::parse(text.as_bytes()), Err(BadDigit::At(at)), "{text}");
        }
    }

    #[test]
    fn called_number_is_read_up_to_what_cannot_be_dialled() {
        for (user, read) in [
            ("+4930555", "+4930555"),
            ("+49-30-(555).1", "+49305551"),
            ("030555;phone-context=+49", "030555"),
            ("*21%23123", "*21#123"),
            ("%2B49%2d30", "+4930"),
            ("alice", ""),
            ("12alice34", "12"),
            ("", ""),
            ("%", ""),
            ("1%2", "1"),
            ("1%zz2", "1"),
            ("1+2", "1"),
        ] {
            assert_eq!(Digits::dialled(user.as_bytes()).to_string(), read, "{user}");
        }
        let long = "123".repeat(40);
        assert_eq!(Digits::dialled(long.as_bytes()).to_string(), long[..MAX_DIGITS]);
    }

    #[test]
    fn prefixes_sort_before_their_continuations() {
        let digits = |text: &str| Digits::parse(text.as_bytes()).unwrap();
        let sorted = ["#1", "*", "*2", "+", "+4", "+49", "+490", "+5", "0", "00", "01", "9"];
        assert!(sorted.map(digits).is_sorted());
        assert!(digits("+4930").starts_with(digits("+49")) && digits("+49").starts_with(digits("+49")));
        assert!(!digits("+49").starts_with(digits("+4930")) && !digits("049").starts_with(digits("49")));
        assert!(digits("1").starts_with(Digits::default()));
        let long = digits(&"7".repeat(MAX_DIGITS));
        assert!(long.starts_with(long) && !long.starts_with(digits(&"78".repeat(16))));
    }
}
