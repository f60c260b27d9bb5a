//! How a value is written: what the parser takes, what the effective configuration shows and what the
//! reference page says. A [`One`] is a single value, a [`Many`] a list of them.
//!
//! A form of a section's own needs the methods `take`, `show` and `values`, and no more.

use crate::error::{Fault, closest};
use crate::reader::{At, Reader, Section, kind};
use crate::text::{LONGEST_TEXT, parse_duration, show_duration, shown};
use std::fmt::Display;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::de::DeValue;

/// An hour.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// A day, the longest that most lengths of time may be.
pub const DAY: Duration = Duration::from_secs(86_400);

/// What may be written, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The words.
    pub text: String,
    /// A length of time: a number means seconds.
    pub is_length: bool,
}

type Parse<T> = Box<dyn Fn(&DeValue<'_>) -> Result<T, Fault>>;
type Show<T> = Box<dyn Fn(&T) -> Option<String>>;

/// The form of a single value.
pub struct One<T> {
    parse: Parse<T>,
    show: Show<T>,
    values: Values,
}

impl<T: 'static> One<T> {
    /// `values` says in words what `parse` takes; `show` writes TOML.
    pub fn new(
        values: impl Into<String>,
        parse: impl Fn(&DeValue<'_>) -> Result<T, Fault> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> One<T> {
        let values = Values { text: values.into(), is_length: false };
        One { parse: Box::new(parse), show: Box::new(move |value| Some(show(value))), values }
    }

    /// Reads a value.
    pub fn read(&self, value: &DeValue<'_>) -> Result<T, Fault> {
        (self.parse)(value)
    }

    /// Reads the value of a key over `to`.
    pub fn take(
        &self,
        section: &mut Section<'_, '_>,
        reader: &mut Reader<'_>,
        key: &'static str,
        to: &mut T,
    ) {
        if let Some(at) = section.read(reader, key, |value| self.read(value)) {
            *to = at.value;
        }
    }

    /// The value as TOML.
    pub fn show(&self, value: &T) -> Option<String> {
        (self.show)(value)
    }

    /// What may be written for a value like this.
    pub fn values(&self, _like: &T) -> Values {
        self.values.clone()
    }

    fn within<U: 'static>(
        self,
        parse: impl Fn(&Parse<T>, &DeValue<'_>) -> Result<U, Fault> + 'static,
        show: impl Fn(&Show<T>, &U) -> Option<String> + 'static,
    ) -> One<U> {
        let (inner, inner_show) = (self.parse, self.show);
        One {
            parse: Box::new(move |value| parse(&inner, value)),
            show: Box::new(move |value| show(&inner_show, value)),
            values: self.values,
        }
    }

    /// Without the values for which `refused` has a fault of its own.
    pub fn except(self, refused: impl Fn(&DeValue<'_>) -> Option<Fault> + 'static) -> One<T> {
        self.within(
            move |parse, value| match refused(value) {
                Some(fault) => Err(fault),
                None => parse(value),
            },
            |show, value| show(value),
        )
    }

    /// A value without a default: none is shown where there is none.
    pub fn optional(self) -> One<Option<T>> {
        self.within(|parse, value| parse(value).map(Some), |show, value| value.as_ref().and_then(show))
    }

    /// Or a word that stands for no value.
    pub fn or(self, word: &'static str) -> One<Option<T>> {
        let mut one = self.within(
            move |parse, value| match value {
                DeValue::String(text) if text == word => Ok(None),
                _ => parse(value).map(Some),
            },
            move |show, value| value.as_ref().map_or_else(|| Some(quoted(word)), show),
        );
        let _ = write!(one.values.text, ", or `\"{word}\"`");
        one
    }
}

impl<T: Default + PartialEq + 'static> One<T> {
    /// A value whose default cannot be written: it is not shown.
    pub fn no_default(self) -> One<T> {
        self.within(
            |parse, value| parse(value),
            |show, value| if *value == T::default() { None } else { show(value) },
        )
    }
}

/// The form of a list; a single value counts as a list of one.
pub struct Many<T> {
    of: One<T>,
    once: Option<&'static str>,
    shows_empty: bool,
}

/// A list of such values.
pub fn list<T>(of: One<T>) -> Many<T> {
    Many { of, once: None, shows_empty: true }
}

impl<T: PartialEq + 'static> Many<T> {
    /// No value may stand in it twice; `what` names one of them.
    pub fn once(self, what: &'static str) -> Many<T> {
        Many { once: Some(what), ..self }
    }

    /// An empty list cannot be written, and is not shown.
    pub fn no_default(self) -> Many<T> {
        Many { shows_empty: false, ..self }
    }

    /// Reads the list of a key over `to`.
    pub fn take(
        &self,
        section: &mut Section<'_, '_>,
        reader: &mut Reader<'_>,
        key: &'static str,
        to: &mut Vec<T>,
    ) {
        let Some(list) = section.list(reader, key, |value| self.of.read(value)) else { return };
        if let Some(what) = self.once {
            no_twice(reader, &list, what);
        }
        *to = list.into_iter().map(|at| at.value).collect();
    }

    /// The list as TOML.
    pub fn show(&self, list: &[T]) -> Option<String> {
        if list.is_empty() && !self.shows_empty {
            return None;
        }
        let all: Vec<String> = list.iter().filter_map(|value| self.of.show(value)).collect();
        Some(format!("[{}]", all.join(", ")))
    }

    /// What may be written in it.
    pub fn values(&self, _like: &[T]) -> Values {
        Values { text: format!("list: {}", self.of.values.text), is_length: false }
    }
}

/// Reports every value that stands in the list twice.
pub fn no_twice<T: PartialEq>(reader: &mut Reader<'_>, list: &[At<T>], what: &str) {
    for (i, at) in list.iter().enumerate() {
        if let Some(first) = list.iter().take(i).find(|other| other.value == at.value) {
            let (line, column) = reader.place(first.span.start);
            let mend = format!("the first is at {line}:{column}; remove one");
            reader.error(&at.span, Fault::new(format!("duplicate {what}"), mend));
        }
    }
}

/// A text as a TOML basic string.
pub fn quoted(text: impl Display) -> String {
    let mut out = String::from("\"");
    for c in text.to_string().chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `true` or `false`.
pub fn flag() -> One<bool> {
    let parse = |value: &DeValue<'_>| match value {
        DeValue::Boolean(flag) => Ok(*flag),
        other => {
            let mend = match other {
                DeValue::String(text) if text == "on" => "write true",
                DeValue::String(text) if text == "off" => "write false",
                _ => "write true or false, without quotes",
            };
            Err(Fault::new(format!("expected true or false, found {}", kind(other)), mend))
        }
    };
    One::new("`true`, `false`", parse, bool::to_string)
}

/// A string, read further by `parse`; `values` says in words what it takes.
pub fn text<T: Display + 'static>(
    values: &'static str,
    parse: impl Fn(&str) -> Result<T, Fault> + 'static,
) -> One<T> {
    One::new(values, move |value| string(value).and_then(&parse), |value| quoted(value))
}

/// The string that a value is.
pub fn string<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Fault> {
    match value {
        DeValue::String(text) if text.len() > LONGEST_TEXT => {
            Err(Fault::new(format!("longer than {LONGEST_TEXT} octets"), ""))
        }
        DeValue::String(text) => Ok(text),
        other => {
            let mend = match other {
                DeValue::Array(list) if list.len() == 1 => "take the brackets away",
                DeValue::Array(_) => "it has one value: write that one, without brackets",
                DeValue::Table(_) => "write one value",
                _ => "put it in quotes",
            };
            Err(Fault::new(format!("expected a string, found {}", kind(other)), mend))
        }
    }
}

/// A whole number in a range.
pub fn number<N: TryFrom<u64> + Display + 'static>(range: RangeInclusive<u64>) -> One<N> {
    let values = format!("{} to {}", grouped(*range.start()), grouped(*range.end()));
    let parse = move |value: &DeValue<'_>| {
        let DeValue::Integer(written) = value else {
            return Err(Fault::new(format!("expected a number, found {}", kind(value)), ""));
        };
        let number = u64::from_str_radix(written.as_str(), written.radix()).ok();
        let fits = number.filter(|n| range.contains(n)).and_then(|n| N::try_from(n).ok());
        fits.ok_or_else(|| {
            let mend = format!("from {} to {}", range.start(), range.end());
            Fault::new(format!("{written} is out of range"), mend)
        })
    };
    One::new(values, parse, N::to_string)
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One of a table of names.
pub fn choice<T: Copy + PartialEq + 'static>(table: &'static [(&'static str, T)]) -> One<T> {
    let names = move || table.iter().map(|(name, _)| *name);
    let quoted_names: Vec<String> = names().map(|name| format!("`\"{name}\"`")).collect();
    let parse = move |value: &DeValue<'_>| {
        let written = string(value)?;
        if let Some((_, meant)) = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(written)) {
            return Ok(*meant);
        }
        let mend = match closest(written, names()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => format!("one of {}", names().map(quoted).collect::<Vec<_>>().join(", ")),
        };
        Err(Fault::new(format!("unknown value \"{}\"", shown(written)), mend))
    };
    let show = move |value: &T| {
        let name = table.iter().find(|(_, meant)| meant == value).map_or("", |(name, _)| *name);
        debug_assert!(!name.is_empty(), "a value without a name");
        quoted(name)
    };
    One::new(quoted_names.join(", "), parse, show)
}

/// A length of time between two bounds: a number of seconds, or text such as "500ms".
pub fn length(range: RangeInclusive<Duration>) -> One<Duration> {
    let bounds = [*range.start(), *range.end()].map(coarse);
    let mut one = One::new(
        format!("{} to {}", bounds[0], bounds[1]),
        move |value| duration(value, &range),
        |value| match value.subsec_micros() {
            0 => value.as_secs().to_string(),
            _ => quoted(show_duration(*value)),
        },
    );
    one.values.is_length = true;
    one
}

/// Whole seconds between two bounds, for what SIP carries in seconds.
pub fn seconds(range: RangeInclusive<u64>) -> One<Duration> {
    let inner = length(Duration::from_secs(*range.start())..=Duration::from_secs(*range.end()));
    inner.within(
        |parse, value| match parse(value)? {
            read if read.subsec_nanos() == 0 => Ok(read),
            _ => Err(Fault::new("not a whole number of seconds", "SIP carries it in seconds")),
        },
        |show, value| show(value),
    )
}

fn duration(value: &DeValue<'_>, range: &RangeInclusive<Duration>) -> Result<Duration, Fault> {
    let read = match value {
        DeValue::Integer(written) => {
            u64::from_str_radix(written.as_str(), written.radix()).ok().map(Duration::from_secs)
        }
        DeValue::String(written) => parse_duration(written),
        _ => None,
    };
    let Some(duration) = read else {
        let mend = "write seconds as a number, or a text such as \"500ms\", \"20s\", \"5m\", \"2h\"";
        return Err(Fault::new("not a length of time", mend));
    };
    // Microseconds mean something where no more than some milliseconds do.
    if *range.end() > Duration::from_millis(10) && duration.subsec_micros() % 1_000 != 0 {
        return Err(Fault::new("not a whole number of milliseconds", "write \"1ms\" or more"));
    }
    if range.contains(&duration) {
        return Ok(duration);
    }
    let mend = format!("from {} to {}", show_duration(*range.start()), show_duration(*range.end()));
    Err(Fault::new(format!("{} is out of range", show_duration(duration)), mend))
}

/// A length of time in the largest unit that it is a whole number of.
pub fn coarse(length: Duration) -> String {
    match length.as_secs() {
        0 if length.is_zero() => "0".to_owned(),
        days if length.subsec_nanos() == 0 && days.is_multiple_of(86_400) => format!("{}d", days / 86_400),
        hours if length.subsec_nanos() == 0 && hours.is_multiple_of(3_600) => format!("{}h", hours / 3_600),
        _ => show_duration(length),
    }
}
