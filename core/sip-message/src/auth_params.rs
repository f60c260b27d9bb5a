//! The `auth-param` lists of Authorization and WWW-Authenticate headers.

use crate::chars::{self, TOKEN, is_space, trim};
use crate::params::skip_quoted;

/// `Scheme name="value", name=value, ...` (RFC 3261 section 25.1, `credentials` and `challenge`).
#[derive(Clone, Copy, Debug)]
pub struct AuthParams<'a> {
    /// The scheme, `Digest` for all that SIP uses.
    pub scheme: &'a [u8],
    rest: &'a [u8],
}

impl<'a> AuthParams<'a> {
    /// Reads the scheme and checks the form of the whole list; `None` if it is malformed.
    pub fn parse(value: &'a [u8]) -> Option<AuthParams<'a>> {
        let list = AuthParams::begin(value)?;
        let mut rest = list.rest;
        while !rest.is_empty() {
            rest = take(rest)?.2;
        }
        Some(list)
    }

    /// The scheme, and the list unchecked.
    fn begin(value: &'a [u8]) -> Option<AuthParams<'a>> {
        let value = trim(value);
        let end = value.iter().position(|&b| is_space(b))?;
        let scheme = &value[..end];
        chars::is_token(scheme).then(|| AuthParams { scheme, rest: trim(&value[end..]) })
    }

    /// As [`AuthParams::parse`], calling `f` with each parameter on the way, as [`AuthParams::iter`] gives
    /// them; answers the scheme. What `f` was told counts for nothing if the answer is `None`.
    pub fn each(value: &'a [u8], mut f: impl FnMut(&'a [u8], &'a [u8])) -> Option<&'a [u8]> {
        let AuthParams { scheme, mut rest } = AuthParams::begin(value)?;
        while !rest.is_empty() {
            let (name, value, after) = take(rest)?;
            f(name, value);
            rest = after;
        }
        Some(scheme)
    }

    /// The parameters: name as written, value without its quotes (escapes inside are kept).
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.rest;
        core::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (name, value, after) = take(rest)?;
            rest = after;
            Some((name, value))
        })
    }

    /// The value of the first parameter called `name`, in any case.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }
}

/// The first parameter of a non-empty list, and what follows its comma.
fn take(s: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let name_len = s.iter().position(|&b| !chars::is(b, TOKEN))?;
    let name = &s[..name_len];
    let after_name = skip_space(&s[name_len..]);
    let [b'=', after_eq @ ..] = after_name else { return None };
    if name.is_empty() {
        return None;
    }
    let v = skip_space(after_eq);
    let (value, end) = if v.first() == Some(&b'"') {
        let end = skip_quoted(v, 0)?;
        (&v[1..end - 1], end)
    } else {
        let end = v.iter().position(|&b| b == b',' || is_space(b)).unwrap_or(v.len());
        if end == 0
            || !v[..end].iter().all(|&b| chars::is(b, TOKEN) || matches!(b, b'/' | b':' | b'@' | b'=' | b'?'))
        {
            return None;
        }
        (&v[..end], end)
    };
    // White space at the end of the whole list is gone already.
    match skip_space(&v[end..]) {
        [] => Some((name, value, b"")),
        [b',', rest @ ..] => Some((name, value, skip_space(rest))),
        _ => None,
    }
}

fn skip_space(mut s: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = s {
        s = rest;
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let a =
            AuthParams::parse(br#"Digest username="bo\"b", realm = "a,b" ,nc=00000001,qop=auth"#).unwrap();
        assert_eq!(a.scheme, b"Digest");
        assert_eq!(a.get(b"USERNAME"), Some(&br#"bo\"b"#[..]));
        assert_eq!(a.get(b"realm"), Some(&b"a,b"[..]));
        assert_eq!(a.get(b"nc"), Some(&b"00000001"[..]));
        assert_eq!(a.iter().count(), 4);
        let mut told = Vec::new();
        let each = AuthParams::each(b"Digest a=1, b=\"2\"", |name, value| told.push((name, value)));
        assert_eq!(each, Some(&b"Digest"[..]));
        assert_eq!(told, [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    }

    #[test]
    fn broken_lists_are_refused() {
        for s in
            ["Digest", "", "Digest realm", "Digest realm=\"x", "Digest a=1 b=2", "Dig est", "Digest a=, b=1"]
        {
            assert!(AuthParams::parse(s.as_bytes()).is_none(), "{s}");
            assert!(AuthParams::each(s.as_bytes(), |_, _| {}).is_none(), "{s}");
        }
    }
}
