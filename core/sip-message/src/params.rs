//! Lists of `;name=value` parameters.

use crate::block::{any, find};
use crate::chars::trim;

/// The parameters of a header value or URI: iterates over `(name, value)`, names as written, values
/// trimmed and with their quotes. A quoted value may hold `;`. Total: odd input gives odd
/// parameters, never a failure.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    rest: &'a [u8],
}

impl<'a> Params<'a> {
    /// Reads from text that is empty or begins with `;` (a missing first `;` is forgiven).
    pub fn new(text: &'a [u8]) -> Params<'a> {
        Params { rest: text }
    }

    /// The value of the first parameter called `name` (any case); `Some(b"")` for one without value.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        for (n, v) in self {
            if n.eq_ignore_ascii_case(name) {
                return Some(v.unwrap_or(b""));
            }
        }
        None
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let s = self.rest;
        let mut at = 0;
        loop {
            while let Some(b';' | b' ' | b'\t') = s.get(at) {
                at += 1;
            }
            let start = at;
            loop {
                at += find(s.get(at..).unwrap_or(b""), |b| b.eq(b'=') | b.eq(b';') | b.eq(b'"'));
                // No name has quotes; but where one begins must not depend on who reads it.
                match s.get(at) {
                    Some(b'"') => at = skip_quoted(s, at).unwrap_or(s.len()),
                    _ => break,
                }
            }
            let name = trim(&s[start..at]);
            let mut value = None;
            if s.get(at) == Some(&b'=') {
                let end = end_of_param(s, at + 1);
                value = Some(trim(&s[at + 1..end]));
                at = end;
            }
            self.rest = &s[at..];
            if !name.is_empty() {
                return Some((name, value));
            }
            if at >= s.len() {
                return None;
            }
        }
    }
}

/// Where the `;` that ends the value which starts at `s[at]` stands, quotes respected.
fn end_of_param(s: &[u8], mut at: usize) -> usize {
    while let Some(rest) = s.get(at..).filter(|rest| !rest.is_empty()) {
        at += find(rest, |b| b.eq(b';') | b.eq(b'"'));
        match s.get(at) {
            Some(b'"') => match skip_quoted(s, at) {
                Some(after) => at = after,
                None => return s.len(),
            },
            _ => return at,
        }
    }
    s.len()
}

/// The position after the quoted string that opens at `s[open]`; `None` if it never closes.
pub(crate) fn skip_quoted(s: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        let rest = s.get(at..)?;
        at += find(rest, |b| b.eq(b'"') | b.eq(b'\\'));
        match s.get(at)? {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Where the first quote or backslash of `text` stands; its length if there is none.
#[inline]
pub fn find_quote(text: &[u8]) -> usize {
    find(text, |b| b.eq(b'"') | b.eq(b'\\'))
}

/// Whether a quoted string begins in `value` that does not end. What is appended after it would be read
/// as part of the string by others.
#[inline]
pub(crate) fn has_open_quote(value: &[u8]) -> bool {
    any(value, |b| b.eq(b'"')) && quote_stays_open(value)
}

fn quote_stays_open(mut value: &[u8]) -> bool {
    loop {
        let open = find(value, |b| b.eq(b'"'));
        if open == value.len() {
            return false;
        }
        match skip_quoted(value, open) {
            Some(after) => value = &value[after..],
            None => return true,
        }
    }
}

/// Appends `value` without its quotes and with its `\` escapes resolved (RFC 3261 section 25.1,
/// `quoted-string`); a value that is not quoted is appended as it is.
pub fn unquote(value: &[u8], out: &mut Vec<u8>) {
    let [b'"', inner @ .., b'"'] = value else {
        out.extend_from_slice(value);
        return;
    };
    let mut bytes = inner.iter();
    while let Some(&b) = bytes.next() {
        if b == b'\\' {
            out.extend(bytes.next());
        } else {
            out.push(b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_a_name_are_closed_where_everybody_else_closes_them() {
        // What is appended to a To must be read as its tag.
        let text = b";na\\\"me=\"=x;tag=t";
        assert!(!has_open_quote(text));
        assert_eq!(Params::new(text).get(b"tag"), Some(&b"t"[..]));
        assert_eq!(Params::new(b";a\";b=\"=c").next(), Some((&b"a\";b=\""[..], Some(&b"c"[..]))));
    }

    #[test]
    fn values_keep_quotes_and_semicolons_inside_them() {
        let p = Params::new(b";a=1 ; flag;q=\"x;y\\\";z\" ;;last = 2");
        let all: Vec<_> = p.collect();
        assert_eq!(
            all,
            [
                (&b"a"[..], Some(&b"1"[..])),
                (b"flag", None),
                (b"q", Some(b"\"x;y\\\";z\"")),
                (b"last", Some(b"2")),
            ]
        );
        assert_eq!(p.get(b"FLAG"), Some(&b""[..]));
        assert_eq!(p.get(b"none"), None);
    }

    #[test]
    fn an_open_quote_ends_with_the_text() {
        let all: Vec<_> = Params::new(b";a=\"never;closed").collect();
        assert_eq!(all, [(&b"a"[..], Some(&b"\"never;closed"[..]))]);
    }

    #[test]
    fn quoted_strings_are_resolved() {
        let mut out = Vec::new();
        unquote(br#""a\"b\\c""#, &mut out);
        assert_eq!(out, br#"a"b\c"#);
    }
}
