//! Who calls, as a trunk learns it (RFC 3325), and the numbers that a user may present.

use crate::Wrong;
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// Where a trunk learns who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// From has the number.
    From,
    /// P-Asserted-Identity has it (RFC 3325 section 9.1). The trunk is trusted.
    Asserted,
    /// Nowhere: it is outside of the trust domain (RFC 3325 section 2.3), and its own word is not believed.
    Withheld,
}

/// The numbers that users may present. The first one is presented if the user asks for no other, or for one
/// that is not among them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbers {
    main: Box<[u8]>,
    others: Vec<Range>,
}

/// One number, or all that begin so.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    text: Box<[u8]>,
    is_beginning: bool,
}

impl Numbers {
    /// Reads a list: numbers in E.164, and beginnings of numbers that end with `*`.
    pub fn parse(list: &[impl AsRef<str>]) -> Result<Numbers, Wrong> {
        let mut ranges = list.iter().map(|written| Range::parse(written.as_ref()));
        let Some(first) = ranges.next().transpose()? else {
            return Err(Wrong::new(
                "there is no number",
                "write the main number first, such as \"+493012345\"",
            ));
        };
        if first.is_beginning {
            let mend = "write one number first: it is presented for what is not allowed";
            return Err(Wrong::new("the first of the numbers ends with \"*\"", mend));
        }
        Ok(Numbers { main: first.text, others: ranges.collect::<Result<_, _>>()? })
    }

    /// The number to present if the user asks for `wanted`.
    pub fn presented<'a>(&'a self, wanted: Option<&'a [u8]>) -> &'a [u8] {
        wanted.filter(|wanted| self.others.iter().any(|range| range.has(wanted))).unwrap_or(&self.main)
    }
}

/// Whether this is a number, or the beginning of numbers, that users may present.
pub fn check_number(written: &str) -> Result<(), Wrong> {
    Range::parse(written).map(drop)
}

impl Range {
    fn parse(written: &str) -> Result<Range, Wrong> {
        let (text, is_beginning) = written.strip_suffix('*').map_or((written, false), |text| (text, true));
        let digits = text.strip_prefix('+').unwrap_or("");
        let is_number = (1..=15).contains(&digits.len()) && !digits.starts_with('0');
        if !is_number || !digits.bytes().all(|b| b.is_ascii_digit()) {
            let shown: String = written.chars().take(32).flat_map(char::escape_debug).collect();
            let mend = "write \"+\", the country code and the rest, such as \"+493012345\"; \"*\" may stand at the end";
            return Err(Wrong::new(format!("\"{shown}\" is not a number"), mend));
        }
        Ok(Range { text: text.as_bytes().into(), is_beginning })
    }

    fn has(&self, number: &[u8]) -> bool {
        // What follows a beginning is the caller's choice, and goes into a header field.
        let is_number = number.len() <= 16 && number.iter().skip(1).all(u8::is_ascii_digit);
        match self.is_beginning {
            true => is_number && number.starts_with(&self.text),
            false => *number == *self.text,
        }
    }
}

/// The numbers of the users of a domain.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Callers {
    users: BTreeMap<Box<[u8]>, Numbers>,
    others: Option<Numbers>,
}

impl Callers {
    /// Those of a domain in which users without numbers of their own have these.
    pub fn new(others: Option<Numbers>) -> Callers {
        Callers { users: BTreeMap::new(), others }
    }

    /// Gives a user numbers; the name is in canonical form.
    pub fn add(&mut self, user: &[u8], numbers: Numbers) {
        self.users.insert(user.into(), numbers);
    }

    /// The numbers of a user.
    pub fn of(&self, user: &[u8]) -> Option<&Numbers> {
        self.users.get(user).or(self.others.as_ref())
    }
}
