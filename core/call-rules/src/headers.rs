//! Header fields that are removed, set and added.

use crate::Wrong;
use crate::identity::Identity;
use crate::numbers::NumberPlan;
use crate::owned::{is_of_the_ends, is_owned, says_who_calls};
use crate::template::{Template, Values};
use sip_message::{Header, Message, Name, Splices};

#[cfg(test)]
mod tests;

/// The longest name of a header field in a rule, bytes.
pub const LONGEST_NAME: usize = 64;
/// Rules of each kind that a trunk or domain may have.
pub const MOST_RULES: usize = 32;

/// What to do with the header fields of each request.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HeaderRules {
    removed: Vec<Pattern>,
    set: Vec<Field>,
    added: Vec<Field>,
    /// The trunk that they are of; empty: of none.
    trunk: Box<[u8]>,
    /// Where the trunk learns who calls, and how it writes numbers.
    identity: Option<(Identity, Option<NumberPlan>)>,
}

/// Header fields by their name.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    Known(Name),
    Other(Box<[u8]>),
    /// Those whose name begins so.
    Beginning(Box<[u8]>),
}

/// A header field that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Field {
    name: Box<[u8]>,
    pattern: Pattern,
    value: Template,
}

/// Whether this names header fields that may be removed: `X-Internal`, or `P-*` for all that begin so.
pub fn check_pattern(written: &str) -> Result<(), Wrong> {
    Pattern::parse(written).map(drop)
}

/// Whether this is a header field that may be set or added: `X-Customer: {user}`.
pub fn check_field(written: &str) -> Result<(), Wrong> {
    Field::parse(written).map(drop)
}

impl HeaderRules {
    /// The rules as the operator wrote them. First the fields of `remove` are removed. One in `set` takes the
    /// place of all of its name, and one in `add` comes after those that are there.
    pub fn parse(
        remove: &[impl AsRef<str>],
        set: &[impl AsRef<str>],
        add: &[impl AsRef<str>],
    ) -> Result<HeaderRules, Wrong> {
        let removed = remove.iter().map(|name| Pattern::parse(name.as_ref()));
        let removed = removed.collect::<Result<_, _>>()?;
        Ok(HeaderRules { removed, set: fields(set)?, added: fields(add)?, ..HeaderRules::default() })
    }

    /// The rules for requests to this trunk, which `{trunk}` names. Otherwise it names the trunk that a
    /// request came from.
    pub fn of_trunk(self, name: &[u8]) -> HeaderRules {
        HeaderRules { trunk: name.into(), ..self }
    }

    /// The rules for a trunk that learns who calls in this way, with numbers written by its plan.
    pub fn with_identity(self, identity: Identity, numbers: Option<NumberPlan>) -> HeaderRules {
        HeaderRules { identity: Some((identity, numbers)), ..self }
    }

    /// Where the trunk learns who calls; `None`: what the request says passes as it is.
    pub fn identity(&self) -> Option<Identity> {
        self.identity.as_ref().map(|(identity, _)| *identity)
    }

    /// How the trunk writes numbers.
    pub fn numbers(&self) -> Option<&NumberPlan> {
        self.identity.as_ref()?.1.as_ref()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        let none = self.removed.is_empty() && self.set.is_empty() && self.added.is_empty();
        none && self.identity.is_none()
    }

    /// Adds the edits to those that a request leaves with. A field with a value that is missing or too long
    /// is not written; one in `set` is removed all the same.
    pub fn edit(&self, request: &Message<'_>, values: &Values<'_>, splices: &mut Splices) {
        for header in request.all_headers().filter(|header| self.takes_off(header)) {
            splices.remove(header.line);
        }
        let values = &if self.trunk.is_empty() { *values } else { values.with_trunk(&self.trunk) };
        let end = request.head_len().saturating_sub(2);
        for field in self.set.iter().chain(&self.added).filter(|field| field.value.is_full(values)) {
            splices.replace_with(end..end, |text| field.write(values, text));
        }
    }

    /// About how many bytes a request grows by at most.
    pub fn growth(&self) -> usize {
        let fields = self.set.iter().chain(&self.added);
        let fields: usize = fields.map(|field| field.name.len() + 4 + field.value.usual_len()).sum();
        // P-Asserted-Identity and Privacy.
        fields + if self.identity.is_some() { 100 } else { 0 }
    }

    fn takes_off(&self, header: &Header<'_>) -> bool {
        let mut patterns = self.removed.iter().chain(self.set.iter().map(|field| &field.pattern));
        patterns.any(|pattern| pattern.matches(header)) && !is_owned(header.name, header.raw_name)
    }
}

impl Pattern {
    fn parse(written: &str) -> Result<Pattern, Wrong> {
        match written.strip_suffix('*') {
            Some("") => {
                let mend = "write how their names begin, such as \"P-*\"";
                Err(Wrong::new("\"*\" would remove all header fields", mend))
            }
            Some(beginning) => {
                let beginning = name(beginning)?;
                // One letter is no compact form here.
                if beginning.len() > 1 {
                    checked(beginning, true)?;
                }
                Ok(Pattern::Beginning(beginning.as_bytes().into()))
            }
            None => checked(name(written)?, true),
        }
    }

    fn matches(&self, header: &Header<'_>) -> bool {
        match self {
            Pattern::Known(name) => *name == header.name,
            Pattern::Other(name) => header.name == Name::Other && name.eq_ignore_ascii_case(header.raw_name),
            Pattern::Beginning(beginning) => {
                // A compact form stands for the long one.
                let long = header.name.as_str().as_bytes();
                let name = if long.is_empty() { header.raw_name } else { long };
                name.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
            }
        }
    }
}

impl Field {
    fn parse(written: &str) -> Result<Field, Wrong> {
        let Some((before, value)) = written.split_once(':') else {
            return Err(Wrong::new("the header field has no value", "write it as \"Name: value\""));
        };
        let before = name(before.trim_end_matches(' '))?;
        let pattern = checked(before, false)?;
        Ok(Field { name: before.as_bytes().into(), pattern, value: Template::parse(value)? })
    }

    fn write(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        out.extend_from_slice(b": ");
        self.value.write(values, out);
        out.extend_from_slice(b"\r\n");
    }
}

fn fields(list: &[impl AsRef<str>]) -> Result<Vec<Field>, Wrong> {
    list.iter().map(|line| Field::parse(line.as_ref())).collect()
}

/// A text that is the name of a header field (RFC 3261 section 25.1, `token`).
fn name(written: &str) -> Result<&str, Wrong> {
    // A star is a letter of tokens; here it would look as if it stood for others.
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-.!%_+`'~".contains(&b);
    if written.is_empty() || written.len() > LONGEST_NAME || !written.bytes().all(good) {
        let shown: String = written.chars().take(LONGEST_NAME).flat_map(char::escape_debug).collect();
        let mend = "letters, digits and hyphens, such as \"X-Customer\"; \"*\" may stand at the end in \
                    `remove_headers`";
        return Err(Wrong::new(format!("\"{shown}\" is not the name of a header field"), mend));
    }
    Ok(written)
}

/// A name that rules may have.
fn checked(written: &str, is_removed: bool) -> Result<Pattern, Wrong> {
    let known = Name::from_bytes(written.as_bytes());
    if is_owned(known, written.as_bytes()) {
        let mend = "remove the rule; calls would fail without this header field as it is";
        return Err(Wrong::new(format!("{written} belongs to the protocol"), mend));
    }
    if !is_removed && says_who_calls(known) {
        let mend = "remove the rule; `identity` of the [[trunk]] tells who calls";
        return Err(Wrong::new(format!("{written} would assert what nobody has proven"), mend));
    }
    if !is_removed && is_of_the_ends(known) {
        let mend = "remove the rule; the phones say what they can do";
        return Err(Wrong::new(format!("{written} belongs to the ends of a call"), mend));
    }
    Ok(match known {
        Name::Other => Pattern::Other(written.as_bytes().into()),
        known => Pattern::Known(known),
    })
}
