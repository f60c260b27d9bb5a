//! `name-addr` and `addr-spec` with header parameters: From, To, Contact, Route and their kin.

use crate::Malformed;
use crate::Params;
use crate::block::{any, find};
use crate::chars::{self, NOT_URI, blank_or_quote, is_space, trim};
use crate::params::{has_open_quote, skip_quoted};
use crate::words::{begins_small, word};

/// One value of From, To, Contact, Route, Record-Route, Path ... (RFC 3261 section 25.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameAddr<'a> {
    /// Display name as written, with its quotes; empty if there is none.
    pub display: &'a [u8],
    /// The URI, without angle brackets.
    pub uri: &'a [u8],
    /// Header parameters: empty, or text that begins with `;`.
    pub params: &'a [u8],
}

impl<'a> NameAddr<'a> {
    /// Reads one value. Without angle brackets, what follows the first `;` belongs to the header and
    /// not to the URI (section 20.10). The URI itself is not examined, save that it is not empty, holds no
    /// white space or angle bracket, and closes what it quotes.
    #[inline]
    pub fn parse(value: &'a [u8]) -> Result<NameAddr<'a>, Malformed> {
        let value = trim(value);
        let open = match value.first() {
            Some(b'<') => 0,
            Some(b'"') => {
                let after = skip_quoted(value, 0).ok_or(Malformed)?;
                let spaces = value[after..].iter().take_while(|&&b| is_space(b)).count();
                if value.get(after + spaces) != Some(&b'<') {
                    return Err(Malformed);
                }
                after + spaces
            }
            _ => {
                let at = find(value, |b| b.eq(b'<') | b.eq(b';'));
                if value.get(at) != Some(&b'<') {
                    return NameAddr::bare(value, at);
                }
                at
            }
        };
        let (uri, rest) = value[open + 1..].split_at(end_of_uri(&value[open + 1..], true));
        let mut params = rest.strip_prefix(b">").ok_or(Malformed)?;
        if !matches!(params, [] | [b';', ..]) {
            params = trim(params);
        }
        let fits = params.is_empty() || (params[0] == b';' && !has_open_quote(params));
        if uri.is_empty() || !fits || has_open_quote(uri) {
            return Err(Malformed);
        }
        Ok(NameAddr { display: trim(&value[..open]), uri, params })
    }

    /// The form without angle brackets.
    fn bare(value: &'a [u8], semicolon: usize) -> Result<NameAddr<'a>, Malformed> {
        let (uri, params) = value.split_at(semicolon);
        let uri = trim(uri);
        check_uri(uri)?;
        // A URI with a comma or a question mark must stand in brackets (section 20.10).
        if any(uri, |b| b.eq(b',') | b.eq(b'?')) || has_open_quote(params) {
            return Err(Malformed);
        }
        Ok(NameAddr { display: b"", uri, params })
    }

    /// The value of a header parameter, as [`Params::get`].
    pub fn param(&self, name: &[u8]) -> Option<&'a [u8]> {
        Params::new(self.params).get(name)
    }
}

/// URI and tag of a From or To as nearly all are: the URI in brackets, at most a quoted name before it,
/// nothing or a tag first behind it. `None` for any other, and where anything is wrong.
#[inline]
pub(crate) fn usual_with_tag(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = match value {
        [b'<', inner @ ..] => inner,
        [b'"', name @ ..] => {
            let end = find(name, |b| b.eq(b'"') | b.eq(b'\\'));
            name.get(end..)?.strip_prefix(b"\" <")?
        }
        _ => return None,
    };
    let (uri, rest) = inner.split_at(find(inner, |b| blank_or_quote(b) | b.eq(b'<') | b.eq(b'>')));
    let params = rest.strip_prefix(b">")?;
    if uri.is_empty() || params.is_empty() {
        return (!uri.is_empty()).then_some((uri, b""));
    }
    if !begins_small!(word(params), b";tag=") {
        return None;
    }
    let text = &params[5..];
    let end = chars::end_of_token(text);
    let (tag, more) = text.split_at(end);
    // A comma may begin a second value, which From and To must not have.
    let ends = more.is_empty() || (more[0] == b';' && !any(more, |b| b.eq(b'"') | b.eq(b',')));
    (ends && !tag.is_empty()).then_some((uri, tag))
}

/// The URI of a Contact that a peer will write into the start line of a request, whatever else is wrong
/// with the value; `None` if it cannot stand there.
pub(crate) fn target_of(value: &[u8]) -> Option<&[u8]> {
    let after = if value.first() == Some(&b'"') { skip_quoted(value, 0)? } else { 0 };
    let rest = &value[after..];
    let at = find(rest, |b| b.eq(b'<') | b.eq(b';'));
    let uri = match rest.get(at) {
        Some(b'<') => {
            let inner = &rest[at + 1..];
            inner.get(..memchr::memchr(b'>', inner)?)?
        }
        _ => trim(&rest[..at]),
    };
    let stands = !uri.is_empty() && !any(uri, |b| b.at_most(b' ') | b.eq(0x7f) | b.eq(b'<'));
    stands.then_some(uri)
}

fn check_uri(uri: &[u8]) -> Result<(), Malformed> {
    if uri.is_empty() || end_of_uri(uri, false) < uri.len() { Err(Malformed) } else { Ok(()) }
}

/// Where the first byte stands that cannot be part of a URI, or the end. A quote can where brackets are
/// around the URI.
fn end_of_uri(s: &[u8], bracketed: bool) -> usize {
    let mut at = find(s, |b| blank_or_quote(b) | b.eq(b'<') | b.eq(b'>'));
    // Controls other than the tab are let through.
    while s.get(at).is_some_and(|&b| !chars::is(b, NOT_URI) || (bracketed && b == b'"')) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(s: &str) -> (String, String, String) {
        let n = NameAddr::parse(s.as_bytes()).unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (text(n.display), text(n.uri), text(n.params))
    }

    #[test]
    fn every_form_is_read() {
        let own = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parts("<sip:a@b>"), own("", "sip:a@b", ""));
        assert_eq!(parts("Bob <sip:a@b;lr>;tag=1"), own("Bob", "sip:a@b;lr", ";tag=1"));
        assert_eq!(parts("\"B \\\" <x> ;\"<sip:a@b> ; tag=1"), own("\"B \\\" <x> ;\"", "sip:a@b", "; tag=1"));
        assert_eq!(parts("sip:a@b;tag=1"), own("", "sip:a@b", ";tag=1"));
        assert_eq!(parts(" sip:a@b "), own("", "sip:a@b", ""));
        assert_eq!(parts("<sip:a#@b;x=\"y\">;z"), own("", "sip:a#@b;x=\"y\"", ";z"));
    }

    #[test]
    fn broken_forms_are_refused() {
        for s in [
            "sip:a@b?x=y",
            "",
            "<>",
            "<sip:a@b",
            "\"open <sip:a@b>",
            "\"x\" y <sip:a@b>",
            "<sip:a@b> x",
            "<sip:a@b;x=\"y>",
            "<sip:a@b;x=\"y z\">",
            "a b",
            "\"x\" sip:a@b",
            "sip:a@b;x=\"y",
            "<sip:a@b>;x=\"y\\\"",
        ] {
            assert_eq!(NameAddr::parse(s.as_bytes()), Err(Malformed), "{s}");
        }
    }

    proptest! {
        /// The short way to a URI and its tag gives what the long one does, or nothing.
        #[test]
        fn a_tag_is_the_same_whatever_the_way(
            name in "|\"[a<;\\\\]{0,3}\" ?|a ",
            uri in "<?[a:@;,<\"]{0,4}>?",
            params in "(;tag=[a-cA-C%.]{0,3}|;TAG=x|;[a;= \"]{0,3}|[ ,>]){0,3}",
        ) {
            let text = format!("{name}{uri}{params}");
            if let Some(usual) = usual_with_tag(text.as_bytes()) {
                let read = NameAddr::parse(text.as_bytes()).ok();
                let read = read.map(|addr| (addr.uri, addr.param(b"tag").unwrap_or(b"")));
                prop_assert_eq!(Some(usual), read);
            }
        }
    }
}
