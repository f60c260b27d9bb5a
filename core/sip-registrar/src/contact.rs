//! One Contact value of a REGISTER, checked and taken apart.

use crate::reply::refuse;
use crate::types::{Config, Reply};
use sip_message::{NameAddr, Params, Scheme, Uri, parse_u32};
use std::borrow::Cow;

/// What a malformed interval counts as, seconds (RFC 3261 sections 10.2.1.1 and 20.10, RFC 4475
/// section 3.1.2.4).
pub(crate) const MALFORMED_EXPIRES: u32 = 3600;

/// URI parameters, and URI headers, that a contact may have. Comparing two URIs takes a step for each
/// pair of them, and a request compares each of its contacts with each binding.
const MAX_URI_PARTS: usize = 16;

/// The largest `reg-id` (RFC 5626 section 10, `c-p-reg`).
const MAX_REG_ID: u32 = (1 << 31) - 1;

/// One binding as the client wants it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) uri: Uri<'a>,
    pub(crate) params: Cow<'a, [u8]>,
    /// Thousandths.
    pub(crate) q: u16,
    /// The interval the client asks for in this value, if it does.
    pub(crate) requested: Option<u32>,
    /// Without quotes.
    pub(crate) instance: &'a [u8],
    /// 0: none, or one that must be ignored.
    pub(crate) reg_id: u32,
}

/// Reads one value, `aor` being the address of record it is for.
pub(crate) fn read<'a>(value: &'a [u8], aor: &[u8], config: &Config) -> Result<Wanted<'a>, Reply> {
    const BAD: Reply = refuse(400, b"Bad Contact");
    let addr = NameAddr::parse(value).map_err(|_| BAD)?;
    if addr.uri.len() > config.max_contact_len || addr.params.len() > 2 * config.max_params_len {
        return Err(refuse(513, b"Contact Too Long"));
    }
    let uri = Uri::parse(addr.uri).map_err(|_| BAD)?;
    let parts = |text: &[u8], separator| text.iter().filter(|b| **b == separator).count();
    if parts(uri.params, b';') > MAX_URI_PARTS || parts(uri.headers, b'&') >= MAX_URI_PARTS {
        return Err(refuse(513, b"Too Many Contact URI Parameters"));
    }
    check_target(&uri, aor, config)?;
    // Most contacts have no parameters to look through.
    let param = |name: &[u8]| if addr.params.is_empty() { None } else { addr.param(name) };
    let instance = param(b"+sip.instance").and_then(instance_of).unwrap_or_default();
    let reg_id = param(b"reg-id").and_then(parse_u32).filter(|id| *id <= MAX_REG_ID).unwrap_or(0);
    let params = kept_params(addr.params).ok_or(BAD)?;
    if params.len() > config.max_params_len || instance.len() > config.max_params_len {
        return Err(refuse(513, b"Contact Too Long"));
    }
    Ok(Wanted {
        text: addr.uri,
        uri,
        params,
        q: param(b"q").and_then(parse_q).unwrap_or(1000),
        requested: param(b"expires").map(parse_expires),
        instance,
        // A reg-id means nothing without an instance (RFC 5626 section 6).
        reg_id: if instance.is_empty() { 0 } else { reg_id },
    })
}

/// Refuses contacts that this server could not use, or that would lead back to where they started.
fn check_target(uri: &Uri<'_>, aor: &[u8], config: &Config) -> Result<(), Reply> {
    match uri.scheme {
        Scheme::Sip | Scheme::Sips => {}
        Scheme::Tel if config.allow_tel => return Ok(()),
        _ => return Err(refuse(400, b"Unsupported Contact Scheme")),
    }
    // With a port or an maddr it names a host, not a domain: phones on the server's own host do.
    // With header components it asks for something else than the address of record does.
    if uri.port.is_none() && uri.param(b"maddr").is_none() && uri.headers.is_empty() {
        let mut own = Vec::with_capacity(aor.len());
        uri.write_aor(&mut own);
        if own == aor {
            return Err(refuse(403, b"Contact Is the Address of Record"));
        }
    }
    Ok(())
}

/// The value of an interval; anything but a number of 32 bits is malformed.
pub(crate) fn parse_expires(value: &[u8]) -> u32 {
    parse_u32(value).unwrap_or(MALFORMED_EXPIRES)
}

/// `qvalue` of RFC 3261 section 25.1 in thousandths; `None` if it is malformed, which is as if it
/// were absent.
pub fn parse_q(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value.iter().position(|b| *b == b'.') {
        Some(dot) => (&value[..dot], &value[dot + 1..]),
        None => (value, &[][..]),
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| fraction.get(at).map_or(0, |b| u16::from(b - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        b"0" | b"" if whole.len() + fraction.len() > 0 => Some(thousandths),
        b"1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// The inside of a quoted instance identifier; `None` if it is not one.
fn instance_of(value: &[u8]) -> Option<&[u8]> {
    let inside = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inside.iter().any(|b| matches!(b, b'"' | b'\\'))).then_some(inside)
}

/// Parameters that have a field of their own in a binding, and GRUUs, which a client must not set
/// (RFC 5627 section 5.1).
fn has_own_field(name: &[u8]) -> bool {
    [&b"q"[..], b"expires", b"+sip.instance", b"reg-id", b"pub-gruu", b"temp-gruu"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(name))
}

/// The other parameters, as written where possible; `None` if one of them could not be shown to
/// others without harm.
fn kept_params(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if text.is_empty() {
        return Some(Cow::Borrowed(b""));
    }
    let (mut kept, mut dropped) = (0, 0);
    for (name, value) in Params::new(text) {
        if has_own_field(name) {
            dropped += 1;
        } else if is_token(name) && value.is_none_or(is_plain_value) {
            kept += 1;
        } else {
            return None;
        }
    }
    if kept == 0 {
        return Some(Cow::Borrowed(b""));
    }
    if dropped == 0 {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    for (name, value) in Params::new(text).filter(|(name, _)| !has_own_field(name)) {
        out.push(b';');
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    Some(Cow::Owned(out))
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(b))
}

/// A token or host, or a quoted string that ends where it seems to.
fn is_plain_value(value: &[u8]) -> bool {
    let Some(inside) = value.strip_prefix(b"\"") else {
        return value.iter().all(|b| b.is_ascii_graphic() && !b"\"<>,;\\".contains(b));
    };
    let mut escaped = false;
    for (at, b) in inside.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1 == inside.len(),
            _ => {}
        }
    }
    false
}

/// Whether two instance identifiers name one instance: UUIDs in any case, others byte for byte
/// (RFC 5626 section 4.1).
pub(crate) fn same_instance(a: &[u8], b: &[u8]) -> bool {
    const UUID: &[u8] = b"<urn:uuid:";
    a == b || (a.get(..UUID.len()).is_some_and(|p| p.eq_ignore_ascii_case(UUID)) && a.eq_ignore_ascii_case(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_values_of_the_grammar_and_no_others() {
        let cases: [(&[u8], Option<u16>); 14] = [
            (b"1", Some(1000)),
            (b"1.000", Some(1000)),
            (b"0", Some(0)),
            (b"0.", Some(0)),
            (b"0.5", Some(500)),
            (b"0.05", Some(50)),
            (b".7", Some(700)),
            (b"0.1234", None),
            (b"1.001", None),
            (b"2", None),
            (b"-1", None),
            (b"", None),
            (b".", None),
            (b"0.x", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse_q(text), want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn parameters_keep_what_is_not_ours() {
        let kept = |text: &'static str| kept_params(text.as_bytes()).map(Cow::into_owned);
        assert_eq!(kept(""), Some(Vec::new()));
        assert_eq!(kept(";q=0.1;expires=7"), Some(Vec::new()));
        assert_eq!(kept(";audio;a=b"), Some(b";audio;a=b".to_vec()));
        assert_eq!(kept(";audio;Expires=7;m=\"a;,b\""), Some(b";audio;m=\"a;,b\"".to_vec()));
        assert_eq!(kept(";pub-gruu=\"sip:x\";a"), Some(b";a".to_vec()));
        assert_eq!(kept(";a=b\"c"), None);
        assert_eq!(kept(";a=\"b"), None);
        assert_eq!(kept(";a=\"b\"c\""), None);
        assert_eq!(kept(";a b=c"), None);
    }

    #[test]
    fn instances_compare_as_urns() {
        assert!(same_instance(b"<urn:uuid:AB>", b"<URN:UUID:ab>"));
        assert!(!same_instance(b"<urn:imei:AB>", b"<urn:imei:ab>"));
        assert!(!same_instance(b"", b"<urn:uuid:ab>"));
        assert_eq!(instance_of(b"<urn:uuid:ab>"), None);
        assert_eq!(instance_of(b"\"<urn:uuid:ab>\""), Some(&b"<urn:uuid:ab>"[..]));
        assert_eq!(instance_of(b"\"a\\\"b\""), None);
    }
}
