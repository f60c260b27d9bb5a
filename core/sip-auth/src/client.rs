//! The client's side: reading a challenge, and the credentials that answer it.

use crate::algorithm::{Algorithm, Ha1, ha1};
use crate::challenge::quote;
use crate::digest::{Question, response};
use sip_message::{AuthParams, Message, Name};
use std::borrow::Cow;

/// Longest challenge that is answered, in bytes. Each request that answers it carries most of them.
pub const MAX_CHALLENGE: usize = 1_024;

/// The parts of a Digest challenge that an answer needs (RFC 7616 section 3.3).
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// The realm.
    pub realm: &'a [u8],
    /// The nonce.
    pub nonce: &'a [u8],
    /// What is to be sent back as it is.
    pub opaque: Option<&'a [u8]>,
    /// The name of the algorithm as the server wrote it, if it did.
    pub name: Option<&'a [u8]>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether the server offers qop at all.
    pub counted: bool,
}

impl<'a> Challenge<'a> {
    /// Reads the value of a WWW-Authenticate or Proxy-Authenticate. `None` if it cannot be answered: another
    /// scheme, an unknown algorithm, protection of the body alone (auth-int), longer than [`MAX_CHALLENGE`],
    /// or text that would not stay within its quotes.
    pub fn of(value: &'a [u8]) -> Option<Challenge<'a>> {
        if value.len() > MAX_CHALLENGE || value.iter().any(|&b| b < b' ' && b != b'\t' || b == 0x7f) {
            return None;
        }
        let (mut realm, mut nonce, mut opaque, mut name, mut qop) = (None, None, None, None, None);
        let scheme = AuthParams::each(value, |own, value| {
            let (place, long) = match own.first().map(u8::to_ascii_lowercase) {
                Some(b'r') => (&mut realm, &b"realm"[..]),
                Some(b'n') => (&mut nonce, &b"nonce"[..]),
                Some(b'o') => (&mut opaque, &b"opaque"[..]),
                Some(b'a') => (&mut name, &b"algorithm"[..]),
                Some(b'q') => (&mut qop, &b"qop"[..]),
                _ => return,
            };
            if own.eq_ignore_ascii_case(long) {
                *place = Some(value);
            }
        })?;
        if !scheme.eq_ignore_ascii_case(b"Digest") {
            return None;
        }
        let algorithm = name.map_or(Some(Algorithm::Md5), Algorithm::from_name)?;
        // Protection of the body alone (auth-int) is not offered.
        let auth = |qop: &[u8]| {
            qop.split(|&b| b == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(b"auth"))
        };
        if qop.is_some_and(|qop| !auth(qop)) {
            return None;
        }
        let quotable = [realm, nonce, opaque].into_iter().flatten().all(is_quotable);
        if !quotable {
            return None;
        }
        Some(Challenge { realm: realm?, nonce: nonce?, opaque, name, algorithm, counted: qop.is_some() })
    }

    /// The hash that answers it for this account (RFC 7616 section 3.4.2).
    pub fn secret(&self, user: &[u8], password: &[u8]) -> Ha1 {
        ha1(self.algorithm, user, &unescaped(self.realm), password)
    }
}

/// Whether text can stand between quotes as it is: no bare quote, and no backslash at its end.
fn is_quotable(text: &[u8]) -> bool {
    let mut escapes = false;
    for &byte in text {
        match byte {
            _ if escapes => escapes = false,
            b'\\' => escapes = true,
            b'"' => return false,
            _ => {}
        }
    }
    !escapes
}

/// The inside of a quoted string without its escapes: that is what is hashed.
pub(crate) fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut bytes) = (Vec::with_capacity(text.len()), text.iter());
    while let Some(&byte) = bytes.next() {
        plain.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
    }
    Cow::Owned(plain)
}

/// Of the challenges under this name the first that can be answered (RFC 8760 section 2.4), and its header
/// value.
pub fn first<'m>(message: &Message<'m>, name: Name) -> Option<(&'m [u8], Challenge<'m>)> {
    message.headers(name).find_map(|header| Some((header.value, Challenge::of(header.value)?)))
}

/// Whether a challenge says that only the nonce was too old (RFC 7616 section 3.3).
pub fn is_stale(message: &Message<'_>) -> bool {
    [Name::ProxyAuthenticate, Name::WwwAuthenticate].into_iter().any(|name| {
        message.headers(name).any(|header| {
            let params = AuthParams::parse(header.value);
            params.and_then(|p| p.get(b"stale")).is_some_and(|stale| stale.eq_ignore_ascii_case(b"true"))
        })
    })
}

/// What tells the answers to one challenge apart.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Answers given with the nonce, this one included.
    pub number: u32,
    /// The client's nonce.
    pub cnonce: u64,
}

/// The request that credentials are for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The user name.
    pub user: &'a [u8],
    /// The method.
    pub method: &'a [u8],
    /// The `uri` parameter: the Request-URI.
    pub uri: &'a [u8],
}

/// Appends the header that answers a challenge, without a line end. `proxy`: a proxy has made it.
pub fn write_credentials(
    challenge: &Challenge<'_>,
    secret: &Ha1,
    proxy: bool,
    count: Count,
    asked: &Asked<'_>,
    out: &mut Vec<u8>,
) {
    let cnonce = sip_message::hex16(count.cnonce);
    let count = sip_message::hex16(u64::from(count.number));
    let count = count.get(8..).unwrap_or_default();
    let counted = challenge.counted.then_some((count, &cnonce[..], &b"auth"[..]));
    let nonce = unescaped(challenge.nonce);
    let question = Question { method: asked.method, uri: asked.uri, nonce: &nonce, counted };
    let proof = response(secret, &question);
    let name: &[u8] = if proxy { b"Proxy-Authorization" } else { b"Authorization" };
    out.extend_from_slice(name);
    out.extend_from_slice(b": Digest username=\"");
    quote(asked.user, out);
    for (before, value) in [(&b"\",realm=\""[..], challenge.realm), (b"\",nonce=\"", challenge.nonce)] {
        out.extend_from_slice(before);
        out.extend_from_slice(value);
    }
    out.extend_from_slice(b"\",uri=\"");
    quote(asked.uri, out);
    out.extend_from_slice(b"\",response=\"");
    out.extend_from_slice(proof.as_bytes());
    out.push(b'"');
    let cnonce: Option<&[u8]> = challenge.counted.then_some(&cnonce);
    for (before, value, after) in [
        (&b",algorithm="[..], challenge.name, &b""[..]),
        (b",cnonce=\"", cnonce, b"\""),
        (b",nc=", cnonce.map(|_| count), b""),
        (b",qop=", cnonce.map(|_| &b"auth"[..]), b""),
        (b",opaque=\"", challenge.opaque, b"\""),
    ] {
        if let Some(value) = value {
            out.extend_from_slice(before);
            out.extend_from_slice(value);
            out.extend_from_slice(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    fn with<R>(header: &str, f: impl FnOnce(&Message<'_>) -> R) -> R {
        let text = format!(
            "SIP/2.0 401 No\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:a@b>;tag=2\r\nCall-ID: i\r\nCSeq: 1 REGISTER\r\n\
             {header}\r\nContent-Length: 0\r\n\r\n"
        );
        let mut index = Box::<Index>::default();
        match parse(text.as_bytes(), &mut index, &Limits::default()) {
            Parsed::Good(message) => f(&message),
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn stale_is_read() {
        let plain = "WWW-Authenticate: Digest realm=\"r\", nonce=\"abc\", qop=\"auth\"";
        assert!(with(&format!("{plain}, stale=TRUE"), is_stale));
        assert!(!with(&format!("{plain}, stale=false"), is_stale));
        assert!(!with(plain, is_stale));
    }

    /// The example of RFC 2617 section 3.5, without qop.
    #[test]
    fn the_first_challenge_that_can_be_answered_is_answered() {
        let header = "WWW-Authenticate: Digest realm=\"x\", nonce=\"n\", algorithm=AKAv1-MD5\r\n\
            WWW-Authenticate: Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"";
        with(header, |message| {
            let (_, challenge) = first(message, Name::WwwAuthenticate).unwrap();
            let secret = challenge.secret(b"Mufasa", b"Circle Of Life");
            let asked = Asked { user: b"Mufasa", method: b"GET", uri: b"/dir/index.html" };
            let mut out = Vec::new();
            write_credentials(&challenge, &secret, false, Count { number: 1, cnonce: 7 }, &asked, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(
                text.starts_with("Authorization: Digest username=\"Mufasa\",realm=\"testrealm@"),
                "{text}"
            );
            assert!(text.contains("response=\"670fd8c2df070c60b045671b8b24ff02\""), "{text}");
        });
    }

    #[test]
    fn challenge_that_cannot_be_answered_is_none() {
        let long = format!("Digest realm=\"r\", nonce=\"{}\"", "n".repeat(MAX_CHALLENGE));
        for value in [
            "",
            "Digest",
            "Basic realm=\"r\"",
            "Digest realm=\"r\"",
            "Digest nonce=\"n\"",
            "Digest realm=\"r\", nonce=\"n\", algorithm=MD5-sess",
            "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\"",
            "Digest realm=\"r\", nonce=\"n",
            "Digest realm=\"r\", nonce=a\"b",
            "Digest realm=\"r\", nonce=ab\\",
            "Digest realm=\"r\", nonce=\"a\r\nX: y\"",
            "Digest realm=\"r\", nonce=\"a\0\"",
            &long,
        ] {
            assert!(Challenge::of(value.as_bytes()).is_none(), "{value:?}");
        }
        for value in
            ["digest REALM=r, nonce=n", "Digest realm=\"a\\\"b\", nonce=\"n\", qop=\"auth-int, auth\""]
        {
            assert!(Challenge::of(value.as_bytes()).is_some(), "{value:?}");
        }
    }

    /// RFC 7616 section 3.9.1 and, for the third algorithm, what OpenSSL says (RFC 8760 section 2.1).
    #[test]
    fn answers_are_those_of_rfc_7616_for_each_algorithm() {
        for (name, expected) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
            ("SHA-512-256", "430d05014cecc49cab6fbe03176d41a1da86cbfe24a16580e22aaad928d960d0"),
        ] {
            let value = format!(
                "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={name}, \
                 nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                 opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
            );
            let challenge = Challenge::of(value.as_bytes()).expect("it can be answered");
            let secret = challenge.secret(b"Mufasa", b"Circle of Life");
            let cnonce = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
            let question = Question {
                method: b"GET",
                uri: b"/dir/index.html",
                nonce: challenge.nonce,
                counted: Some((b"00000001", cnonce, b"auth")),
            };
            assert_eq!(response(&secret, &question).as_bytes(), expected.as_bytes(), "{name}");
        }
    }
}
