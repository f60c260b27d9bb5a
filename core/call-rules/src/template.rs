//! Values of header fields with named values in them: `"{name}" <sip:{user}@{domain}>`.

use crate::Wrong;
use core::net::IpAddr;
use sip_message::{Message, Name, NameAddr, Uri};
use std::io::Write;

/// The longest template, bytes.
pub const LONGEST_TEMPLATE: usize = 512;
/// The longest value that is put into one, bytes. A field with a longer one is not written.
pub const LONGEST_VALUE: usize = 256;

/// Bytes that few values are longer than.
const USUAL_VALUE: usize = 32;

/// What a template may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Named {
    User,
    Domain,
    Number,
    Trunk,
    Source,
    CallId,
    Display,
}

/// The names, as templates have them.
const NAMES: [(&str, Named); 7] = [
    ("user", Named::User),
    ("domain", Named::Domain),
    ("number", Named::Number),
    ("trunk", Named::Trunk),
    ("source", Named::Source),
    ("call-id", Named::CallId),
    ("display-name", Named::Display),
];

/// Where a value stands, which decides how it is escaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Outside of quotes and angle brackets.
    Bare,
    /// In a quoted string.
    Quoted,
    /// In angle brackets.
    Uri,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Box<[u8]>),
    Value(Named, Place),
}

/// The values of one request.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    user: &'a [u8],
    domain: &'a [u8],
    number: &'a [u8],
    trunk: &'a [u8],
    source: IpAddr,
    call_id: &'a [u8],
    display: &'a [u8],
}

impl<'a> Values<'a> {
    /// Those of a request that came from `source`, over this trunk; empty: over none.
    pub fn of(request: &Message<'a>, source: IpAddr, trunk: &'a [u8]) -> Values<'a> {
        let from = request.header(Name::From).and_then(|from| NameAddr::parse(from.value).ok());
        let uri = Uri::parse(request.from_uri()).ok();
        let called = Uri::parse(request.request_uri()).ok();
        Values {
            user: uri.and_then(|uri| uri.user).unwrap_or(b""),
            domain: uri.map_or(b"", |uri| uri.host),
            number: called.and_then(|uri| uri.user).unwrap_or(b""),
            trunk,
            source,
            call_id: request.call_id(),
            display: from.map_or(b"", |from| from.display),
        }
    }

    /// The same with another trunk.
    pub(crate) fn with_trunk<'b>(&self, trunk: &'b [u8]) -> Values<'b>
    where
        'a: 'b,
    {
        Values { trunk, ..*self }
    }

    /// The text of a value; `None` for the address.
    fn text(&self, named: Named) -> Option<&'a [u8]> {
        match named {
            Named::User => Some(self.user),
            Named::Domain => Some(self.domain),
            Named::Number => Some(self.number),
            Named::Trunk => Some(self.trunk),
            Named::Source => None,
            Named::CallId => Some(self.call_id),
            Named::Display => Some(self.display),
        }
    }
}

/// A value of a header field, with places for named values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template(Vec<Part>);

impl Template {
    /// Reads one.
    pub fn parse(written: &str) -> Result<Template, Wrong> {
        let written = written.trim_matches(' ');
        if written.is_empty() {
            return Err(Wrong::new("the header field has no value", "write it as \"Name: value\""));
        }
        if written.len() > LONGEST_TEMPLATE {
            let what = format!("the value has more than {LONGEST_TEMPLATE} bytes");
            return Err(Wrong::new(what, "shorten it"));
        }
        if written.chars().any(char::is_control) {
            let mend = "remove it; a header field is one line";
            return Err(Wrong::new("the value has a line break or another control character", mend));
        }
        let mut reader = Reading { parts: Vec::new(), text: Vec::new(), place: Place::Bare };
        reader.read(written)?;
        match reader.place {
            Place::Quoted => Err(Wrong::new("a quotation mark is not closed", "add one at its end")),
            Place::Uri => Err(Wrong::new("a \"<\" is not closed", "add \">\" behind the URI")),
            Place::Bare => Ok(Template(reader.finish())),
        }
    }

    /// Whether all that it names is there and no longer than [`LONGEST_VALUE`].
    pub fn is_full(&self, values: &Values<'_>) -> bool {
        self.0.iter().all(|part| match part {
            Part::Text(_) => true,
            Part::Value(named, _) => {
                values.text(*named).is_none_or(|text| (1..=LONGEST_VALUE).contains(&bare(text).len()))
            }
        })
    }

    /// About how long it is with usual values, bytes.
    pub fn usual_len(&self) -> usize {
        let len = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Value(..) => USUAL_VALUE,
        };
        self.0.iter().map(len).sum()
    }

    /// Appends it with these values.
    pub fn write(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Value(named, place) => match values.text(*named) {
                    Some(text) => push_escaped(text, *place, out),
                    None => push_address(values.source, *place, out),
                },
            }
        }
    }
}

/// A template that is being read.
struct Reading {
    parts: Vec<Part>,
    text: Vec<u8>,
    place: Place,
}

impl Reading {
    fn read(&mut self, written: &str) -> Result<(), Wrong> {
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            rest = match (c, after.chars().next()) {
                ('{', Some('{')) | ('}', Some('}')) => {
                    self.text.push(c as u8);
                    &after[1..]
                }
                ('{', _) => self.named(after)?,
                ('}', _) => {
                    let mend = "write \"}}\" for the character itself";
                    return Err(Wrong::new("a \"}\" closes nothing", mend));
                }
                ('\\', Some(escaped)) if self.place == Place::Quoted => {
                    self.text.push(b'\\');
                    if !matches!(escaped, '"' | '\\') {
                        let mend = "write \"\\\\\" for the character itself";
                        return Err(Wrong::new("a backslash stands before nothing that it escapes", mend));
                    }
                    self.text.push(escaped as u8);
                    &after[1..]
                }
                _ => {
                    self.place = placed(self.place, c)?;
                    self.text.extend_from_slice(&rest.as_bytes()[..c.len_utf8()]);
                    after
                }
            };
        }
        Ok(())
    }

    /// Reads a name and its closing brace; what follows.
    fn named<'a>(&mut self, after: &'a str) -> Result<&'a str, Wrong> {
        let all = || NAMES.map(|(name, _)| format!("{{{name}}}")).join(", ");
        let Some((name, rest)) = after.split_once('}') else {
            let mend =
                format!("close it, as in {{user}}; write \"{{{{\" for the character itself; {}", all());
            return Err(Wrong::new("a \"{\" is not closed", mend));
        };
        let Some((_, named)) = NAMES.iter().find(|(known, _)| *known == name) else {
            let shown: String = name.chars().take(32).collect();
            return Err(Wrong::new(format!("there is no value {{{shown}}}"), format!("known are {}", all())));
        };
        self.end_text();
        self.parts.push(Part::Value(*named, self.place));
        Ok(rest)
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Text(core::mem::take(&mut self.text).into()));
        }
    }

    fn finish(mut self) -> Vec<Part> {
        self.end_text();
        self.parts
    }
}

/// Where what follows this character stands.
fn placed(place: Place, c: char) -> Result<Place, Wrong> {
    match (place, c) {
        (Place::Bare, '"') => Ok(Place::Quoted),
        (Place::Quoted, '"') | (Place::Uri, '>') => Ok(Place::Bare),
        (Place::Bare, '<') => Ok(Place::Uri),
        (Place::Bare, '>') => Err(Wrong::new("a \">\" closes nothing", "write \"<\" before the URI")),
        (Place::Uri, '<' | '"' | ' ') => {
            let mend = "write the URI alone between \"<\" and \">\"";
            Err(Wrong::new(format!("a URI cannot have {c:?}"), mend))
        }
        (place, _) => Ok(place),
    }
}

/// A display name without its quotes.
fn bare(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    }
}

/// Appends a value so that it neither ends nor begins anything where it stands. A display name stands in a
/// request with its quotes and escapes; other values have none.
fn push_escaped(value: &[u8], place: Place, out: &mut Vec<u8>) {
    let is_quoted = value.len() > 1 && value.starts_with(b"\"") && value.ends_with(b"\"");
    let mut bytes = bare(value).iter().copied();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'\\' if is_quoted => bytes.next().unwrap_or(byte),
            other => other,
        };
        match place {
            Place::Quoted => match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..b' ' | 0x7f => out.push(b' '),
                other => out.push(other),
            },
            Place::Bare | Place::Uri if is_plain(byte) => out.push(byte),
            Place::Bare | Place::Uri => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
                out.extend_from_slice(&[b'%', high, low]);
            }
        }
    }
}

/// What separates nothing in a header value or in a URI. The percent sign is kept: users in URIs have their
/// escapes, and brackets and colons are those of an IPv6 host.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'+' | b'%' | b':' | b'[' | b']')
}

/// Appends an address, within a URI as a host.
fn push_address(address: IpAddr, place: Place, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = match address.to_canonical() {
        IpAddr::V6(ip) if place == Place::Uri => write!(out, "[{ip}]"),
        ip => write!(out, "{ip}"),
    };
}
