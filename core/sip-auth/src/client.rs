//! The client's side: reading a challenge, and the credentials that answer it.

use crate::algorithm::{Algorithm, Ha1};
use crate::digest::{Question, response};
use sip_message::{AuthParams, Message, Name};

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
    /// scheme, an unknown algorithm, or protection of the body alone (auth-int).
    pub fn of(value: &'a [u8]) -> Option<Challenge<'a>> {
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
        Some(Challenge { realm: realm?, nonce: nonce?, opaque, name, algorithm, counted: qop.is_some() })
    }
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
    let question = Question { method: asked.method, uri: asked.uri, nonce: challenge.nonce, counted };
    let proof = response(secret, &question);
    let name: &[u8] = if proxy { b"Proxy-Authorization" } else { b"Authorization" };
    out.extend_from_slice(name);
    for (before, value) in [
        (&b": Digest username=\""[..], asked.user),
        (b"\",realm=\"", challenge.realm),
        (b"\",nonce=\"", challenge.nonce),
        (b"\",uri=\"", asked.uri),
        (b"\",response=\"", proof.as_bytes()),
    ] {
        out.extend_from_slice(before);
        out.extend_from_slice(value);
    }
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
    use crate::algorithm::ha1;
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
            let secret = ha1(challenge.algorithm, b"Mufasa", challenge.realm, b"Circle Of Life");
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
}
