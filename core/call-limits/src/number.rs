//! Called numbers as the prefixes of a class are compared with them.

use core::ops::Deref;
use number_routes::{Digits, MAX_DIGITS};

/// What a user part dials, without the ways to disguise it.
///
/// Escapes are read, visual separators (RFC 3966 section 3) and other characters that cannot be dialled are
/// left out, parameters are cut off. Several plus signs count as one, and so do zeros behind it, because no
/// country code begins with a zero. A user part that begins with a letter is a name and dials nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    text: [u8; MAX_DIGITS],
    len: usize,
}

impl Deref for Number {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or(b"")
    }
}

impl Number {
    const NONE: Number = Number { text: [0; MAX_DIGITS], len: 0 };

    /// Of the user part of a URI, with its escapes.
    pub fn of(user: &[u8]) -> Number {
        let mut number = Number::NONE;
        let mut rest = user;
        while let [byte, behind @ ..] = rest {
            let (byte, behind) = unescaped(*byte, behind);
            rest = behind;
            if byte == b';' || (number.len == 0 && byte.is_ascii_alphabetic()) {
                break;
            }
            number.push(byte);
        }
        number
    }

    /// A local number behind its context (RFC 3966 section 5.1.5), if that is a global number. `None`: the
    /// number is global itself, or its context is a domain.
    pub fn within(context: &[u8], user: &[u8]) -> Option<Number> {
        let (mut joined, local) = (Number::of(context), Number::of(user));
        if joined.first() != Some(&b'+') || local.is_empty() || local.first() == Some(&b'+') {
            return None;
        }
        local.iter().for_each(|byte| joined.push(*byte));
        Some(joined)
    }

    /// Packed, as prefixes are. Empty if it dials nothing.
    pub fn digits(&self) -> Digits {
        Digits::dialled(self)
    }

    /// Adds a character if it can be dialled at this place.
    fn push(&mut self, byte: u8) {
        let fits = match byte {
            b'+' => self.len == 0,
            b'0' => **self != *b"+",
            b'1'..=b'9' | b'*' | b'#' => true,
            _ => false,
        };
        if fits && let Some(place) = self.text.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }
}

/// The first character of a text, and what is behind it.
fn unescaped(byte: u8, behind: &[u8]) -> (u8, &[u8]) {
    let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    match behind {
        [high, low, rest @ ..] if byte == b'%' => match (hex(*high), hex(*low)) {
            (Some(high), Some(low)) => (high << 4 | low, rest),
            _ => (byte, behind),
        },
        _ => (byte, behind),
    }
}

/// Everything that a called number may mean: as it leaves, and as it was dialled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readings {
    sent: [Digits; 2],
    dialled: [Digits; 4],
}

impl Readings {
    /// Adds a reading of the number as it leaves.
    pub fn sent(&mut self, digits: Digits) {
        add(&mut self.sent, digits);
    }

    /// Adds a reading of the number as it was dialled.
    pub fn dialled(&mut self, digits: Digits) {
        add(&mut self.dialled, digits);
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Digits> {
        self.leaving().chain(self.dialled.into_iter().filter(|digits| !digits.is_empty()))
    }

    /// Those of the number as it leaves.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = Digits> + use<> {
        self.sent.into_iter().filter(|digits| !digits.is_empty())
    }
}

/// Puts a reading into the first free place.
fn add(readings: &mut [Digits], digits: Digits) {
    let free = readings.iter_mut().find(|reading| reading.is_empty());
    if let Some(free) = free.filter(|_| !digits.is_empty()) {
        *free = digits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(user: &str) -> String {
        String::from_utf8(Number::of(user.as_bytes()).to_vec()).unwrap()
    }

    #[test]
    fn disguised_numbers_read_as_what_they_dial() {
        for (user, number) in [
            ("+44900123", "+44900123"),
            ("+44-900-(12).3", "+44900123"),
            ("%2B44%39%30%30123", "+44900123"),
            ("%2b44900123", "+44900123"),
            ("++44900123", "+44900123"),
            ("+%2B44900123", "+44900123"),
            ("+0044900123", "+44900123"),
            ("+44%20900%20123", "+44900123"),
            ("+44x900y123", "+44900123"),
            ("+44+900123", "+44900123"),
            ("(+44)900123", "+44900123"),
            ("+44900123;phone-context=+1", "+44900123"),
            ("+44900123%3Bisub=1", "+44900123"),
            ("0044900123", "0044900123"),
            ("*21%23123", "*21#123"),
            ("alice", ""),
            ("alice2", ""),
            ("", ""),
            (";phone-context=+44", ""),
            ("%", ""),
            ("1%2", "12"),
        ] {
            assert_eq!(read(user), number, "{user}");
        }
    }

    #[test]
    fn local_number_is_read_behind_its_global_context() {
        let within = |context: &str, user: &str| {
            Number::within(context.as_bytes(), user.as_bytes())
                .map(|n| String::from_utf8(n.to_vec()).unwrap())
        };
        assert_eq!(within("+44", "900-123").as_deref(), Some("+44900123"));
        assert_eq!(within("%2B44", "900123").as_deref(), Some("+44900123"));
        assert_eq!(within("+1-914-555", "1234;x=y").as_deref(), Some("+19145551234"));
        assert_eq!(within("example.com", "900123"), None);
        assert_eq!(within("+44", "+900123"), None);
        assert_eq!(within("+44", "alice"), None);
    }

    proptest! {
        #[test]
        fn noise_between_digits_changes_nothing(
            number in "[1-9][0-9]{0,14}",
            noise in prop::collection::vec(prop::sample::select(b"-.()/ _~',".to_vec()), 20),
            escaped in prop::collection::vec(any::<bool>(), 20),
            pluses in 1..4_usize,
        ) {
            let mut user = "+".repeat(pluses);
            for (at, digit) in number.bytes().enumerate() {
                user.push(char::from(noise[at]));
                match escaped[at] {
                    true => user += &format!("%{digit:02X}"),
                    false => user.push(char::from(digit)),
                }
            }
            prop_assert_eq!(read(&user), format!("+{number}"));
        }

        #[test]
        fn any_bytes_are_read(user in prop::collection::vec(any::<u8>(), 0..80)) {
            let number = Number::of(&user);
            prop_assert!(number.iter().all(|byte| b"0123456789*#+".contains(byte)));
            prop_assert_eq!(number.digits().len(), number.len());
        }
    }
}
