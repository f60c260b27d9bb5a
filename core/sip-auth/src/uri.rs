//! Whether the `uri` parameter names what the Request-URI names.
//!
//! RFC 7616 section 3.4.6 wants the two to name the same resource; RFC 3261 section 22.4 point 6 and
//! RFC 8760 section 2.6 point 6 allow them to differ, because proxies in between rewrite Request-URIs.
//! We take what rewriting causes in practice and refuse the rest, because a credential for one callee
//! must not be usable for another.

use crate::hex;

/// How strictly the `uri` parameter is compared with the Request-URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UriRule {
    /// Byte for byte.
    Exact,
    /// Same scheme, host and port, and same user after removing escapes. Host in any case, default
    /// ports equal to none, parameters and headers ignored (phones and proxies add and drop
    /// `transport`, `ob`, `lr`, `alias` and others). A Request-URI without a user, as in REGISTER, is
    /// matched by any user at that host, because some phones put their own address of record there.
    #[default]
    Equivalent,
    /// Anything: for servers behind a proxy that replaces Request-URIs altogether. The digest still
    /// covers the parameter, and nonce counts still stop replays.
    Any,
}

impl UriRule {
    /// Whether `digest_uri` may stand in credentials for a request to `request_uri`.
    pub fn allows(self, digest_uri: &[u8], request_uri: &[u8]) -> bool {
        match self {
            UriRule::Any => true,
            _ if digest_uri == request_uri => true,
            UriRule::Exact => false,
            UriRule::Equivalent => equivalent(digest_uri, request_uri),
        }
    }
}

fn equivalent(digest_uri: &[u8], request_uri: &[u8]) -> bool {
    let (Some((a_scheme, a)), Some((b_scheme, b))) = (scheme(digest_uri), scheme(request_uri)) else {
        return false;
    };
    if !a_scheme.eq_ignore_ascii_case(b_scheme) {
        return false;
    }
    let is = |name: &[u8]| a_scheme.eq_ignore_ascii_case(name);
    if is(b"tel") {
        return same_number(a, b);
    }
    if !is(b"sip") && !is(b"sips") {
        return a == b;
    }
    let default_port = if is(b"sip") { 5060 } else { 5061 };
    let (a, b) = (Address::read(a), Address::read(b));
    let same_user = match (a.user, b.user) {
        (Some(a), Some(b)) => unescaped(a).eq(unescaped(b)),
        (None, Some(_)) => false,
        (_, None) => true,
    };
    let port = |address: &Address<'_>| address.port.map_or(Some(default_port), number);
    same_user && a.host.eq_ignore_ascii_case(b.host) && port(&a).is_some() && port(&a) == port(&b)
}

/// Splits `scheme:rest`.
fn scheme(uri: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = uri.iter().position(|&b| b == b':')?;
    Some((uri.get(..colon)?, uri.get(colon + 1..)?))
}

/// The parts of a SIP URI that are compared.
struct Address<'a> {
    user: Option<&'a [u8]>,
    host: &'a [u8],
    port: Option<&'a [u8]>,
}

impl<'a> Address<'a> {
    /// Reads what follows the scheme. Only the user part may hold an `@`-free `;` or `?`, so the last
    /// `@` ends it; a password after a colon is dropped.
    fn read(rest: &'a [u8]) -> Address<'a> {
        let at = rest.iter().rposition(|&b| b == b'@');
        let user = at.and_then(|at| rest.get(..at)).map(|u| before(u, |b| b == b':'));
        let tail = rest.get(at.map_or(0, |at| at + 1)..).unwrap_or_default();
        let place = before(tail, |b| b == b';' || b == b'?');
        // An IPv6 reference holds colons of its own.
        let host_end = match place.iter().position(|&b| b == b']') {
            Some(bracket) => bracket + 1,
            None => place.iter().position(|&b| b == b':').unwrap_or(place.len()),
        };
        let (host, port) = place.split_at_checked(host_end).unwrap_or((place, &[]));
        Address { user, host, port: port.get(1..) }
    }
}

fn before(text: &[u8], stop: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|&b| stop(b)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn number(text: &[u8]) -> Option<u16> {
    if text.is_empty() || text.len() > 5 {
        return None;
    }
    let digits =
        text.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))?;
    u16::try_from(digits).ok()
}

/// The bytes of a user part with `%XX` escapes replaced by what they stand for.
fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    core::iter::from_fn(move || {
        if let [b'%', high, low, tail @ ..] = rest
            && let (Some(high), Some(low)) = (hex::digit(*high), hex::digit(*low))
        {
            rest = tail;
            return Some((high << 4) | low);
        }
        let (&first, tail) = rest.split_first()?;
        rest = tail;
        Some(first)
    })
}

/// Telephone numbers without parameters and visual separators (RFC 3966 section 4).
fn same_number(a: &[u8], b: &[u8]) -> bool {
    let digits =
        |text| before(text, |b| b == b';').iter().filter(|b| !matches!(b, b'-' | b'.' | b'(' | b')'));
    digits(a).eq(digits(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(digest_uri: &str, request_uri: &str) -> bool {
        UriRule::Equivalent.allows(digest_uri.as_bytes(), request_uri.as_bytes())
    }

    #[test]
    fn what_phones_and_proxies_change_is_equivalent() {
        for (digest_uri, request_uri) in [
            ("sip:bob@example.com", "sip:bob@example.com"),
            ("sip:bob@example.com", "SIP:bob@EXAMPLE.com:5060;transport=tcp"),
            ("sip:bob@example.com;user=phone?Subject=x", "sip:bob@example.com"),
            ("sip:%62o%42@example.com", "sip:boB@example.com"),
            ("sip:bob:secret@example.com", "sip:bob@example.com"),
            ("sips:example.com:5061", "sips:example.com"),
            ("sip:bob@example.com", "sip:example.com"),
            ("sip:bob@[2001:db8::1]:5070", "sip:bob@[2001:DB8::1]:5070;ob"),
            ("sip:+1;x=y@h", "sip:+1;x=y@h;z"),
            ("tel:+1-201-555", "tel:+1(201)555;phone-context=x"),
            ("urn:service:sos", "URN:service:sos"),
        ] {
            assert!(same(digest_uri, request_uri), "{digest_uri} {request_uri}");
        }
    }

    #[test]
    fn another_callee_is_not() {
        for (digest_uri, request_uri) in [
            ("sip:bob@example.com", "sip:carol@example.com"),
            ("sip:bob@example.com", "sip:Bob@example.com"),
            ("sip:bob@example.com", "sip:bob@example.net"),
            ("sip:bob@example.com", "sips:bob@example.com"),
            ("sip:bob@example.com", "sip:bob@example.com:5070"),
            ("sip:bob@example.com:", "sip:bob@example.com"),
            ("sip:bob@example.com:x", "sip:bob@example.com:y"),
            ("sip:bob@example.com:65536", "sip:bob@example.com:0"),
            ("sip:example.com", "sip:bob@example.com"),
            ("sip:bob@[2001:db8::1]", "sip:bob@[2001:db8::2]"),
            ("tel:+1201", "tel:+1202"),
            ("*", "sip:bob@example.com"),
            ("", "sip:example.com"),
        ] {
            assert!(!same(digest_uri, request_uri), "{digest_uri} {request_uri}");
        }
        assert!(!UriRule::Exact.allows(b"sip:A", b"sip:a"));
        assert!(UriRule::Any.allows(b"", b"sip:a"));
    }

    proptest! {
        /// Total, and every URI is equivalent to itself.
        #[test]
        fn total(a in "(sip|sips|tel)?[:@;?%\\[\\]a-c0-9]{0,30}", b in "(sip|sips|tel)?[:@;?%\\[\\]a-c0-9]{0,30}") {
            let _ = same(&a, &b);
            prop_assert!(same(&a, &a));
        }
    }
}
