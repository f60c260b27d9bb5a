//! Why a call is refused: the class, and its rule.

use core::fmt;
use core::ops::Deref;
use number_routes::Digits;

/// Longest name of a class, bytes.
pub const LONGEST_NAME: usize = 31;

/// The name of a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassName {
    text: [u8; LONGEST_NAME],
    len: u8,
}

impl ClassName {
    /// A name; what is beyond [`LONGEST_NAME`] bytes is cut off. A character that no name of a class has
    /// becomes `?`, so that the name can stand in a header field.
    pub fn new(name: &[u8]) -> ClassName {
        let mut text = [0; LONGEST_NAME];
        let len = name.len().min(LONGEST_NAME);
        text.iter_mut().zip(name).for_each(|(to, from)| *to = if is_of_name(*from) { *from } else { b'?' });
        // It is at most 31.
        ClassName { text, len: len as u8 }
    }
}

/// Whether a character may be in the name of a class.
pub const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

impl Deref for ClassName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.text.get(..usize::from(self.len)).unwrap_or(b"")
    }
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(self))
    }
}

impl fmt::Debug for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The rule of a class that refuses a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Numbers with this beginning are denied.
    Denied(Digits),
    /// The number begins with none that is allowed.
    Unlisted,
    /// Its calls may not leave over this trunk.
    Trunk,
    /// Its calls may leave over trunks only.
    Elsewhere,
    /// Not at this time.
    Hours,
    /// This number of calls is under way.
    Channels(u32),
    /// This number of calls has begun in the hour.
    Hour(u32),
    /// This number of calls has begun on the day.
    Day(u32),
    /// There is no class of this name.
    Unknown,
    /// The calls of too many accounts are counted.
    Room,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Denied(prefix) => write!(f, "numbers that begin with {prefix} are denied"),
            Rule::Unlisted => f.write_str("the number begins with none of the allowed prefixes"),
            Rule::Trunk => f.write_str("its calls may not leave over this trunk"),
            Rule::Elsewhere => f.write_str("its calls may leave over trunks only"),
            Rule::Hours => f.write_str("no calls at this time"),
            Rule::Channels(most) => write!(f, "the limit of calls at a time is {most}"),
            Rule::Hour(most) => write!(f, "the limit of calls an hour is {most}"),
            Rule::Day(most) => write!(f, "the limit of calls a day is {most}"),
            Rule::Unknown => f.write_str("there is no such class"),
            Rule::Room => f.write_str("there is no room to count its calls"),
        }
    }
}

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barred {
    /// The class.
    pub class: ClassName,
    /// Its rule.
    pub rule: Rule,
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}: {}", self.class, self.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_class_and_rule() {
        let class = ClassName::new(b"guest");
        let prefix = Digits::parse(b"+44900").unwrap();
        for (rule, text) in [
            (Rule::Denied(prefix), "class guest: numbers that begin with +44900 are denied"),
            (Rule::Channels(2), "class guest: the limit of calls at a time is 2"),
            (Rule::Day(50), "class guest: the limit of calls a day is 50"),
        ] {
            assert_eq!(Barred { class, rule }.to_string(), text);
        }
        assert_eq!(ClassName::new(&[b'x'; 90]).len(), LONGEST_NAME);
        assert_eq!(ClassName::new(b"a\r\nb\"").to_string(), "a??b?");
    }
}
