//! From lines to rows of the table.

use crate::fields::{Field, split};
use number_routes::{BadDigit, Builder, Digits, MAX_DIGITS, Way};
use std::borrow::Cow;
use std::collections::BTreeMap;
use toml_form::error::{Fault, closest};
use toml_form::text::shown;

/// The columns that there may be.
static COLUMNS: [&str; 4] = ["prefix", "trunk", "priority", "cost"];

/// Decimals of a cost.
const DECIMALS: usize = 6;

/// Where each column stands.
pub struct Header {
    prefix: usize,
    trunk: usize,
    priority: Option<usize>,
    cost: Option<usize>,
    /// Fields of each row.
    count: usize,
}

impl Header {
    /// Reads the first line.
    ///
    /// # Errors
    /// Where and why it is no header.
    pub fn read(line: &[u8]) -> Result<Header, (usize, Fault)> {
        let mut fields = Vec::new();
        split(line, &mut fields)?;
        let mut places = [None; 4];
        for (place, field) in fields.iter().enumerate() {
            let name = String::from_utf8_lossy(&field.text).to_ascii_lowercase();
            let mut columns = COLUMNS.iter().zip(&mut places);
            let Some((_, column)) = columns.find(|(known, _)| **known == name) else {
                return Err((field.at, unknown_column(&name)));
            };
            if column.replace(place).is_some() {
                return Err((
                    field.at,
                    Fault::new(format!("column \"{name}\" is there twice"), "remove one"),
                ));
            }
        }
        let [prefix, trunk, priority, cost] = places;
        let missing = |name: &str| {
            let mend =
                "begin the file with a line \"prefix,trunk,priority,cost\"; the last two may be left out";
            (0, Fault::new(format!("no column \"{name}\""), mend))
        };
        Ok(Header {
            prefix: prefix.ok_or_else(|| missing("prefix"))?,
            trunk: trunk.ok_or_else(|| missing("trunk"))?,
            priority,
            cost,
            count: fields.len(),
        })
    }
}

fn unknown_column(name: &str) -> Fault {
    let mend = match closest(name, COLUMNS) {
        _ if name.contains([';', '\t']) => "separate the columns by commas".to_owned(),
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => "begin the file with a line \"prefix,trunk,priority,cost\"; the last two may be left out"
            .to_owned(),
    };
    Fault::new(format!("unknown column \"{}\"", shown(name)), mend)
}

/// Takes the rows.
pub struct Rows {
    header: Header,
    builder: Builder,
    names: Vec<Vec<u8>>,
    /// The place of each trunk.
    trunks: BTreeMap<Vec<u8>, u16>,
    /// Rows that were given, good or bad.
    seen: usize,
}

impl Rows {
    /// None yet; they may name these trunks.
    pub fn new(header: Header, names: Vec<Vec<u8>>) -> Rows {
        let trunks = names.iter().cloned().zip(0..).collect();
        Rows { header, builder: Builder::new(names.clone()), names, trunks, seen: 0 }
    }

    /// How many rows were given.
    pub const fn seen(&self) -> usize {
        self.seen
    }

    /// What the table is made by, and the names of the trunks.
    pub fn into_parts(self) -> (Builder, Vec<Vec<u8>>) {
        (self.builder, self.names)
    }

    /// Adds the row of a line. `report` gets each fault with the place of its byte, and makes its words only
    /// if it needs them. Returns whether there is room for more.
    pub fn add(
        &mut self,
        line: &[u8],
        number: u32,
        mut report: impl FnMut(usize, &dyn Fn() -> Fault),
    ) -> bool {
        self.seen += 1;
        let mut fields = Vec::with_capacity(self.header.count);
        if let Err((at, fault)) = split(line, &mut fields) {
            report(at, &|| fault.clone());
            return true;
        }
        if fields.len() != self.header.count {
            let (found, wanted) = (fields.len(), self.header.count);
            let at = fields.get(wanted).map_or(0, |surplus| surplus.at);
            report(at, &|| {
                let mend = "write a cost with a point, and a field with a comma in quotes";
                Fault::new(format!("{wanted} fields expected, found {found}"), mend)
            });
            return true;
        }
        let empty = Field { at: 0, text: Cow::Borrowed(b"") };
        let field = |place: usize| fields.get(place).unwrap_or(&empty);
        let (prefix, trunk) = (field(self.header.prefix), field(self.header.trunk));
        let digits = Digits::parse(&prefix.text);
        if let Err(bad) = digits {
            let at = if let BadDigit::At(at) = bad { prefix.at + at } else { prefix.at };
            report(at, &|| bad_prefix(&prefix.text, bad));
        }
        let known = self.trunks.get(&*trunk.text).copied();
        if known.is_none() {
            report(trunk.at, &|| self.unknown_trunk(&trunk.text));
        }
        let priority = self.header.priority.map(field);
        let read = priority.map_or(Some(0), |field| number_of(&field.text));
        if let (Some(field), None) = (priority, read) {
            report(field.at, &|| {
                let what = format!("\"{}\" is no priority", text(&field.text));
                Fault::new(what, "write a whole number from 0 to 65535; the lowest is tried first")
            });
        }
        let cost = self.header.cost.map(field);
        let millionths = cost.map_or(Some(0), |field| cost_of(&field.text));
        if let (Some(field), None) = (cost, millionths) {
            report(field.at, &|| {
                let what = format!("\"{}\" is no cost", text(&field.text));
                Fault::new(what, "write a number from 0 to 4294 with at most six decimals, such as 0.0125")
            });
        }
        let (Ok(digits), Some(trunk), Some(priority), Some(cost)) = (digits, known, read, millionths) else {
            return true;
        };
        self.builder.add(digits, Way { trunk, priority, cost, line: number }).is_ok()
    }

    fn unknown_trunk(&self, written: &[u8]) -> Fault {
        if written.is_empty() {
            return Fault::new("a row without a trunk", "write the `name` of a [[trunk]]");
        }
        let (written, names) =
            (text(written), self.names.iter().filter_map(|name| str::from_utf8(name).ok()));
        let mend = match closest(&written, names) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => "write the `name` of a [[trunk]], or add that trunk to the configuration".to_owned(),
        };
        Fault::new(format!("there is no trunk \"{written}\""), mend)
    }
}

fn bad_prefix(written: &[u8], bad: BadDigit) -> Fault {
    match bad {
        BadDigit::Empty => Fault::new(
            "a row without a prefix",
            "write the first digits of the numbers; rows for 0 to 9 and + take every number",
        ),
        BadDigit::TooLong => Fault::new(
            format!("a prefix of more than {MAX_DIGITS} characters"),
            "write the first digits only",
        ),
        BadDigit::At(at) => {
            let rest = String::from_utf8_lossy(written.get(at..).unwrap_or(b"")).into_owned();
            let found: String = rest.chars().take(1).collect();
            let what = format!("'{found}' cannot be in a prefix");
            Fault::new(what, "write digits, * or #, and a + only in front, without blanks")
        }
    }
}

/// A field in words of a finding.
fn text(field: &[u8]) -> String {
    shown(&String::from_utf8_lossy(field))
}

/// A whole number; an empty field is 0.
fn number_of(text: &[u8]) -> Option<u16> {
    match text {
        [] => Some(0),
        _ if text.iter().all(u8::is_ascii_digit) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Millionths of a decimal number; an empty field is 0.
fn cost_of(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, decimals) = match point {
        Some(point) => (text.get(..point)?, text.get(point + 1..)?),
        None => (text, &b""[..]),
    };
    let good = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    if whole.is_empty() && decimals.is_empty() || !good(whole) || !good(decimals) || decimals.len() > DECIMALS
    {
        return None;
    }
    let padded = decimals.iter().copied().chain(std::iter::repeat(b'0')).take(DECIMALS);
    let mut digits = whole.iter().copied().chain(padded);
    digits.try_fold(0_u32, |sum, digit| sum.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_read_in_millionths() {
        for (text, cost) in [
            ("", Some(0)),
            ("0", Some(0)),
            ("0.008", Some(8_000)),
            (".5", Some(500_000)),
            ("12.", Some(12_000_000)),
            ("0.000001", Some(1)),
            ("4294.967295", Some(u32::MAX)),
            ("4294.967296", None),
            ("0.0000001", None),
            ("-1", None),
            (".", None),
            ("1e3", None),
            ("0,5", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(cost_of(text.as_bytes()), cost, "{text}");
        }
        for (text, priority) in [
            ("", Some(0)),
            ("10", Some(10)),
            ("65535", Some(65_535)),
            ("65536", None),
            ("+1", None),
            ("1.0", None),
        ] {
            assert_eq!(number_of(text.as_bytes()), priority, "{text}");
        }
    }
}
