//! Telephone numbers: from what is dialled somewhere to E.164 (RFC 3966 section 5.1.4), and to what a trunk
//! wants.

use crate::Wrong;
use core::ops::Deref;

#[cfg(test)]
mod tests;

/// Digits that an E.164 number has at most.
const MOST_DIGITS: usize = 15;

/// How a trunk writes numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberFormat {
    /// `+493012345`.
    E164Plus,
    /// `493012345`.
    E164,
    /// `03012345`, numbers of other countries as in `International`.
    National,
    /// `00493012345`.
    International,
}

/// How numbers are dialled in a place, and how a trunk there writes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumberPlan {
    country: Box<[u8]>,
    national: Vec<Box<[u8]>>,
    international: Box<[u8]>,
    area: Box<[u8]>,
    short: usize,
    format: Option<NumberFormat>,
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct PlanParts<'a> {
    /// Country code, such as `49`; empty: numbers within a country are not known.
    pub country: &'a str,
    /// What is dialled before an area code. An empty one stands for nothing. The first is what is written.
    pub national: &'a [String],
    /// What is dialled before a country code.
    pub international: &'a str,
    /// Area code without prefix, such as `30`; empty: numbers within an area are not known.
    pub area: &'a str,
    /// Numbers of at most this number of digits stay as they are.
    pub short: usize,
    /// How numbers are written; `None`: as they are dialled.
    pub format: Option<NumberFormat>,
}

/// A number with its plus sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct E164 {
    text: [u8; MOST_DIGITS + 1],
    len: usize,
}

impl Deref for E164 {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or(b"")
    }
}

impl E164 {
    /// A plus sign and these digits; `None` if they are no number of any country.
    fn of(parts: &[&[u8]]) -> Option<E164> {
        let mut number = E164 { text: [b'+'; MOST_DIGITS + 1], len: 1 };
        for part in parts {
            number.text.get_mut(number.len..number.len + part.len())?.copy_from_slice(part);
            number.len += part.len();
        }
        // No country code begins with a zero.
        (number.text[1] != b'0' && number.len > 1).then_some(number)
    }
}

impl NumberPlan {
    /// A plan, or why it makes no sense.
    pub fn new(parts: &PlanParts<'_>) -> Result<NumberPlan, Wrong> {
        let PlanParts { country, national, international, area, short, format } = *parts;
        if country.is_empty() && format == Some(NumberFormat::National) {
            let mend = "add the country code, such as country = \"49\"";
            return Err(Wrong::new("numbers in national format need a country", mend));
        }
        if !area.is_empty() && country.is_empty() {
            return Err(Wrong::new(
                "an area code needs a country",
                "add the country code, such as country = \"49\"",
            ));
        }
        if !area.is_empty() && national.iter().any(String::is_empty) {
            let mend = "remove `area`, or \"\" from `national_prefix`";
            return Err(Wrong::new("without a national prefix every number has an area code", mend));
        }
        Ok(NumberPlan {
            country: country.as_bytes().into(),
            national: national.iter().map(|prefix| prefix.as_bytes().into()).collect(),
            international: international.as_bytes().into(),
            area: area.as_bytes().into(),
            short,
            format,
        })
    }

    /// The number that is meant by a dialled one; `None`: it is short, it has its country code already, or it
    /// is none of this plan.
    pub fn read(&self, dialled: &[u8]) -> Option<E164> {
        if dialled.len() <= self.short || !dialled.iter().all(u8::is_ascii_digit) {
            return None;
        }
        if let Some(rest) =
            dialled.strip_prefix(&*self.international).filter(|_| !self.international.is_empty())
        {
            return E164::of(&[rest]);
        }
        if self.format == Some(NumberFormat::E164) && !dialled.starts_with(b"0") {
            return E164::of(&[dialled]);
        }
        if self.country.is_empty() {
            return None;
        }
        match self.national.iter().find_map(|prefix| dialled.strip_prefix(&**prefix)) {
            Some(rest) => E164::of(&[&*self.country, rest]),
            None if self.area.is_empty() => None,
            None => E164::of(&[&*self.country, &*self.area, dialled]),
        }
    }

    /// Appends a called user as this plan writes numbers; what is no number stays as it is.
    pub fn write(&self, user: &[u8], out: &mut Vec<u8>) {
        let Some(format) = self.format else { return out.extend_from_slice(user) };
        let read = self.read(user);
        let digits = |number: &[u8]| number.len() > 1 && number.iter().all(u8::is_ascii_digit);
        let number = match &read {
            Some(number) => number.strip_prefix(b"+"),
            None => user.strip_prefix(b"+").filter(|rest| digits(rest)),
        };
        let Some(number) = number else { return out.extend_from_slice(user) };
        let within = number.strip_prefix(&*self.country);
        let within = within.filter(|rest| format == NumberFormat::National && self.is_clear(rest));
        match (format, within) {
            (NumberFormat::E164Plus, _) => out.push(b'+'),
            (NumberFormat::E164, _) => {}
            (_, Some(rest)) => {
                out.extend_from_slice(self.trunk_prefix());
                return out.extend_from_slice(rest);
            }
            (_, None) => out.extend_from_slice(&self.international),
        }
        out.extend_from_slice(number);
    }

    /// What is written before an area code.
    fn trunk_prefix(&self) -> &[u8] {
        self.national.first().map_or(&b""[..], |prefix| prefix)
    }

    /// Whether a number within the country does not look like one of another country.
    fn is_clear(&self, rest: &[u8]) -> bool {
        let written = self.trunk_prefix().iter().chain(rest).take(self.international.len());
        self.international.is_empty() || !written.eq(self.international.iter())
    }
}
