//! Questions to URIs and lines that name one.

use core::net::IpAddr;
use sip_message::{Message, Name, NameAddr, Uri, Values, host_ip};
use wire::Transport;

pub(crate) use sip_proxy::transport::transport_of;

/// A host without the dot that may stand at its end (RFC 3261 section 25.1, `hostname`): the same name.
pub(crate) fn undotted(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

/// A target URI with this user, unless it has one of its own.
pub(crate) fn with_user(target: &[u8], user: &[u8]) -> Vec<u8> {
    let has_user = Uri::parse(target).is_ok_and(|u| u.user.is_some());
    let Some(colon) = target.iter().position(|&b| b == b':').filter(|_| !has_user && !user.is_empty()) else {
        return target.to_vec();
    };
    [&target[..=colon], user, b"@", &target[colon + 1..]].concat()
}

/// A URI without its header components.
pub(crate) fn without_headers(uri: &[u8]) -> &[u8] {
    uri.split(|&b| b == b'?').next().unwrap_or(uri)
}

/// Appends a URI so that it can be the value of a URI parameter (RFC 4458 section 3, `target`).
pub(crate) fn escape_param(uri: &[u8], out: &mut Vec<u8>) {
    for &b in uri {
        if b.is_ascii_alphanumeric() || b"-_.!~*'():+$[]/&".contains(&b) {
            out.push(b);
        } else {
            out.push(b'%');
            out.push(b"0123456789ABCDEF"[usize::from(b >> 4)]);
            out.push(b"0123456789ABCDEF"[usize::from(b & 15)]);
        }
    }
}

/// Whether a Contact is the URI that was asked for: to it nobody is redirected (section 8.3).
pub(crate) fn is_same(asked: &Uri<'_>, contact: &[u8]) -> bool {
    Uri::parse(contact).is_ok_and(|contact| contact.equivalent(asked))
}

/// Appends a URI as a further Contact value.
pub(crate) fn push_bracketed(uri: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(if out.is_empty() { b"<" } else { b", <" });
    out.extend_from_slice(uri);
    out.push(b'>');
}

/// The value of Max-Breadth, if there is one.
pub(crate) fn max_breadth(request: &Message<'_>) -> Option<u32> {
    request.header(Name::MaxBreadth).map(|h| sip_message::parse_u32(h.value).unwrap_or(0))
}

/// The host and port that a URI leads to (RFC 3263 section 4).
pub(crate) fn leads_to<'a>(uri: &Uri<'a>) -> (&'a [u8], u16) {
    let host = uri.param(b"maddr").filter(|maddr| !maddr.is_empty()).unwrap_or(uri.host);
    let transport = transport_of(uri);
    (host, uri.port.unwrap_or(Transport::default_port(transport)))
}

/// Whether a URI asks for security all the way.
pub(crate) fn is_sips(uri: &[u8]) -> bool {
    // The colon first: most URIs have another byte there.
    uri.get(4) == Some(&b':') && uri.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips"))
}

/// Appends a target URI as a request has it that does not ask for security all the way: what is registered as
/// `sips:` is `sip:` for it, and nothing else of it changes (RFC 5630 section 5.3).
pub(crate) fn push_as_sip(uri: &[u8], out: &mut Vec<u8>) {
    match uri.get(4..).filter(|_| is_sips(uri)) {
        Some(rest) => {
            out.extend_from_slice(b"sip");
            out.extend_from_slice(rest);
        }
        None => out.extend_from_slice(uri),
    }
}

/// Where the first value of a Path leads, if that is another host than the one that the REGISTER came from:
/// the client's claim, trusted like a Route.
pub(crate) fn foreign_edge(path: &[u8], source: IpAddr) -> Option<&[u8]> {
    let edge = NameAddr::parse(Values::new(path).next()?).ok()?.uri;
    let ip = Uri::parse(edge).ok().and_then(|uri| uri.host_ip());
    (ip != Some(source.to_canonical())).then_some(edge)
}

/// The address that a URI spells out (RFC 3263 section 4).
pub(crate) fn destination(uri: &Uri<'_>) -> Option<IpAddr> {
    match uri.param(b"maddr").filter(|maddr| !maddr.is_empty()) {
        Some(maddr) => host_ip(maddr).map(|ip| ip.to_canonical()),
        None => uri.host_ip(),
    }
}
