//! Where a call is forwarded to, as a user writes it.

use sip_message::{Scheme, Uri};

/// Longest target, bytes.
pub const TARGET_MAX: usize = 128;

/// The domain that stands for the user's own while a target is checked.
const ANY_DOMAIN: &[u8] = b"x.invalid";

/// Whether a text can be a target: a number or user name of the user's domain, `user@domain`, or a URI with
/// the scheme `sip`, `sips` or `tel`.
///
/// # Errors
/// What is wrong with it, to be read behind "the target".
pub fn check_target(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.len() > TARGET_MAX {
        return Err("is longer than 128 bytes");
    }
    // A list of targets has spaces between them, and a URI stands in angle brackets.
    if !text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b',' | b'\\')) {
        return Err("holds a space, a comma, a quote or a character that is not ASCII");
    }
    let uri = uri_of(text, ANY_DOMAIN);
    let Ok(uri) = Uri::parse(&uri) else {
        return Err("is no number, no user@domain and no SIP URI");
    };
    match uri.scheme {
        Scheme::Sip | Scheme::Sips if uri.user.is_none_or(<[u8]>::is_empty) => Err("has no user part"),
        Scheme::Sip | Scheme::Sips | Scheme::Tel if uri.headers.is_empty() && uri.password.is_none() => {
            Ok(())
        }
        Scheme::Sip | Scheme::Sips | Scheme::Tel => Err("has a password or header fields in its URI"),
        Scheme::Other(_) => Err("has another scheme than sip, sips or tel"),
    }
}

/// The Request-URI of a call to a target of a user of `domain`.
pub fn uri_of(text: &str, domain: &[u8]) -> Vec<u8> {
    let is_uri = ["sip:", "sips:", "tel:"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    if is_uri {
        return text.as_bytes().to_vec();
    }
    let mut uri = b"sip:".to_vec();
    // `#` of a feature code has to be escaped in a URI (RFC 3261 section 25.1).
    for byte in text.bytes() {
        match byte {
            b'#' => uri.extend_from_slice(b"%23"),
            _ => uri.push(byte),
        }
    }
    if !text.contains('@') {
        uri.push(b'@');
        uri.extend_from_slice(domain);
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_request_uris() {
        for (text, uri) in [
            ("+4930123", "sip:+4930123@here.example"),
            ("200", "sip:200@here.example"),
            ("bob@there.example", "sip:bob@there.example"),
            ("*21#5", "sip:*21%235@here.example"),
            ("tel:+49-30", "tel:+49-30"),
            ("SIP:x@192.0.2.1:5070;transport=tcp", "SIP:x@192.0.2.1:5070;transport=tcp"),
        ] {
            assert_eq!(check_target(text), Ok(()), "{text}");
            assert_eq!(uri_of(text, b"here.example"), uri.as_bytes());
        }
    }

    #[test]
    fn unusable_targets_are_refused() {
        let long = "1".repeat(TARGET_MAX + 1);
        for text in [
            "",
            "a b",
            "a,b",
            "<sip:a@b>",
            "sip:host",
            "http://x",
            "a@b@c",
            "sip:a:b@c",
            "sip:a@b?c=d",
            "\u{e9}",
            &long,
        ] {
            assert!(check_target(text).is_err(), "{text}");
        }
    }
}
