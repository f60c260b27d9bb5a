//! What a response to a REGISTER says of intervals and Contacts (RFC 3261 section 10.3).

use core::time::Duration;
use sip_message::{Message, Name, NameAddr, Uri, parse_u32};

/// Longest URI of a redirection that is followed, bytes.
const MAX_URI: usize = 512;
/// Contacts of a response that are read.
const MAX_CONTACTS: usize = 64;
/// Longest interval that is believed, and longest time to wait that is kept to.
const DAY: u32 = 86_400;

/// The interval that a 2xx grants to our `contact`, seconds: its `expires`, else Expires, else what was
/// asked for. `None`: it is zero.
pub(crate) fn granted(response: &Message<'_>, contact: &[u8], asked: u32) -> Option<u32> {
    let ours = Uri::parse(contact).ok();
    let is_ours = |uri: &[u8]| {
        uri == contact || ours.zip(Uri::parse(uri).ok()).is_some_and(|(ours, uri)| is_same(&ours, &uri))
    };
    let general = response.header(Name::Expires).and_then(|header| parse_u32(header.value.trim_ascii()));
    let mut values = response.values(Name::Contact).take(MAX_CONTACTS);
    let own = values.find_map(|value| NameAddr::parse(value).ok().filter(|value| is_ours(value.uri)));
    let seconds = own.and_then(|own| own.param(b"expires")).and_then(parse_u32).or(general).unwrap_or(asked);
    Some(seconds.min(DAY)).filter(|seconds| *seconds > 0)
}

/// Whether a registrar means our Contact: it may have changed parameters and the writing of the host.
fn is_same(ours: &Uri<'_>, other: &Uri<'_>) -> bool {
    let host = ours.host.eq_ignore_ascii_case(other.host);
    let user = ours.user.unwrap_or(b"") == other.user.unwrap_or(b"");
    host && user && ours.port == other.port
}

/// The interval that a 423 demands, seconds.
pub(crate) fn least(response: &Message<'_>) -> Option<u32> {
    let least = parse_u32(response.header(Name::MinExpires)?.value.trim_ascii())?;
    Some(least).filter(|least| *least <= DAY)
}

/// How long to wait, as a response says (section 20.33).
pub(crate) fn retry_after(response: &Message<'_>) -> Duration {
    let value = response.header(Name::RetryAfter).map_or(&b""[..], |header| header.value);
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let seconds = value.get(..digits).and_then(parse_u32).unwrap_or(0);
    Duration::from_secs(seconds.min(DAY).into())
}

/// Where a 3xx sends us: the first Contact that is a SIP URI. `secure`: not to one in the clear.
pub(crate) fn moved(response: &Message<'_>, secure: bool) -> Option<Vec<u8>> {
    let mut uris = response.values(Name::Contact).take(MAX_CONTACTS).filter_map(|value| {
        let uri = NameAddr::parse(value).ok()?.uri;
        let read = Uri::parse(uri).ok()?;
        let is_tls = read.scheme == sip_message::Scheme::Sips
            || read.param(b"transport").is_some_and(|t| t.eq_ignore_ascii_case(b"tls"));
        (read.is_sip() && uri.len() <= MAX_URI && (is_tls || !secure)).then(|| uri.to_vec())
    });
    uris.next()
}
