//! Comma-separated header values.

use crate::block::{any, find};
use crate::chars::trim;
use crate::params::skip_quoted;

/// The elements of one comma-separated value, trimmed, empty ones left out. Commas inside quoted
/// strings and angle brackets do not separate (RFC 3261 section 7.3.1).
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    /// The elements of `value`.
    pub fn new(value: &'a [u8]) -> Values<'a> {
        Values { rest: value }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = end_of_value(self.rest);
            let value = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or(b"");
            if !value.is_empty() {
                return Some(value);
            }
        }
        None
    }
}

/// Where the first separating comma of `s` stands, or its length.
pub(crate) fn end_of_value(s: &[u8]) -> usize {
    let mut at = find(s, |b| b.eq(b',') | b.eq(b'<') | b.eq(b'"'));
    // Almost every value has no comma at all, or one that nothing comes before, and no more matters.
    if s.get(at).is_none_or(|&b| b == b',') {
        return at;
    }
    if !any(&s[at..], |b| b.eq(b',')) {
        return s.len();
    }
    loop {
        match s.get(at) {
            None | Some(b',') => return at,
            Some(b'<') => at += find(&s[at..], |b| b.eq(b'>')),
            // After a quote that never closes no comma can be trusted to separate.
            Some(_) => at = skip_quoted(s, at).unwrap_or(s.len()),
        }
        at += find(&s[at..], |b| b.eq(b',') | b.eq(b'<') | b.eq(b'"'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(s: &str) -> Vec<&str> {
        Values::new(s.as_bytes()).map(|v| std::str::from_utf8(v).unwrap()).collect()
    }

    #[test]
    fn commas_in_quotes_and_brackets_do_not_separate() {
        assert_eq!(split("a, b ,c"), ["a", "b", "c"]);
        assert_eq!(split("\"x, y\" <sip:a@b>, <sip:c,d@e>;q=1"), ["\"x, y\" <sip:a@b>", "<sip:c,d@e>;q=1"]);
        assert_eq!(split(" , ,a,,"), ["a"]);
        assert_eq!(split("a \"<\" b, <c,d, e"), ["a \"<\" b", "<c,d, e"]);
        assert_eq!(split("<a>, \"b,\\\",\", c>, d"), ["<a>", "\"b,\\\",\"", "c>", "d"]);
        assert_eq!(split("<a\"b,>, <\"c>, d"), ["<a\"b,>", "<\"c>", "d"]);
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split("\"open, never"), ["\"open, never"]);
    }
}
