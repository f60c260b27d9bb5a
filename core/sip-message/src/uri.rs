//! URIs of RFC 3261 section 19.1 and, as far as a proxy needs them, RFC 3966.

use crate::Params;
use crate::block::{Block, any, find};
use crate::chars::{self, CARRIED, UNESCAPED_USER};
use crate::number::leading_port;
use crate::params::{has_open_quote, skip_quoted};
use crate::words::{begins, word};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;
use wire::Transport;

/// The scheme of a URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme<'a> {
    /// `sip`
    Sip,
    /// `sips`
    Sips,
    /// `tel` (RFC 3966)
    Tel,
    /// Any other; a request for it is answered 416 (RFC 3261 section 16.3).
    Other(&'a [u8]),
}

/// A URI in its parts. Scheme, host and port, by which a request finds its way, meet the grammar. The other
/// parts are carried along: they hold visible bytes only, and quoted strings in parameters are closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uri<'a> {
    /// The scheme.
    pub scheme: Scheme<'a>,
    /// User part with its escapes; the number of a `tel` URI.
    pub user: Option<&'a [u8]>,
    /// Password, discouraged by section 19.1.1.
    pub password: Option<&'a [u8]>,
    /// Host name or address, IPv6 with its brackets. Empty for `tel`; the opaque part of others.
    pub host: &'a [u8],
    /// Port, if one is written.
    pub port: Option<u16>,
    /// URI parameters: empty, or text that begins with `;`.
    pub params: &'a [u8],
    /// Headers: empty, or text that begins with `?`.
    pub headers: &'a [u8],
}

/// What is wrong with a URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UriError {
    /// No scheme, or one that is not a scheme.
    Scheme,
    /// The user part holds what it must not.
    User,
    /// The host is no host name and no address.
    Host,
    /// The port is no number of 1 to 65535.
    Port,
    /// A parameter or header holds what it must not.
    Params,
}

impl<'a> Uri<'a> {
    /// A URI that nothing is read of but its scheme: it can be carried along, and leads nowhere by itself.
    pub fn opaque(s: &'a [u8]) -> Uri<'a> {
        let name = &s[..s.iter().position(|&b| b == b':').unwrap_or(0)];
        let scheme = Scheme::Other(name);
        Uri { scheme, user: None, password: None, host: b"", port: None, params: b"", headers: b"" }
    }

    /// Reads and checks a URI.
    pub fn parse(s: &'a [u8]) -> Result<Uri<'a>, UriError> {
        if begins!(word(s), b"sip:") {
            return sip(Scheme::Sip, &s[4..]);
        }
        let colon = s.iter().take(32).position(|&b| b == b':').ok_or(UriError::Scheme)?;
        let (name, rest) = (&s[..colon], &s[colon + 1..]);
        let scheme = match name {
            _ if name.eq_ignore_ascii_case(b"sip") => Scheme::Sip,
            _ if name.eq_ignore_ascii_case(b"sips") => Scheme::Sips,
            _ if name.eq_ignore_ascii_case(b"tel") => return tel(rest),
            [first, ..] if first.is_ascii_alphabetic() && name.iter().all(|&b| is_scheme(b)) => {
                return other(name, rest);
            }
            _ => return Err(UriError::Scheme),
        };
        sip(scheme, rest)
    }

    /// The value of a URI parameter; `Some(b"")` for one without value.
    pub fn param(&self, name: &[u8]) -> Option<&'a [u8]> {
        if self.params.is_empty() {
            return None;
        }
        Params::new(self.params).get(name)
    }

    /// The `transport` parameter, if it names a transport we know of.
    pub fn transport(&self) -> Option<Transport> {
        match self.params {
            b"" => None,
            // As nearly everybody writes it who does.
            b";transport=udp" | b";transport=UDP" => Some(Transport::Udp),
            b";transport=tcp" | b";transport=TCP" => Some(Transport::Tcp),
            _ => self.param(b"transport").and_then(Transport::from_name),
        }
    }

    /// The host as an address, if it is one.
    pub fn host_ip(&self) -> Option<IpAddr> {
        parse_ip(self.host)
    }

    /// Whether the scheme is `sip` or `sips`.
    pub fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }

    /// Appends the address-of-record in canonical form (RFC 3261 section 10.3 step 5): `user@host`, the
    /// user as [`push_canonical_user`] writes it, host in lower case, no port, parameters or headers.
    pub fn write_aor(&self, out: &mut Vec<u8>) {
        out.reserve(self.user.map_or(0, |user| user.len() + 1) + self.host.len());
        if let Some(user) = self.user {
            push_canonical_user(user, out);
            out.push(b'@');
        }
        let start = out.len();
        out.extend_from_slice(self.host);
        out[start..].make_ascii_lowercase();
    }

    /// The user part as URIs are compared: without escapes (RFC 3261 section 19.1.4). Empty if there is none.
    pub fn unescaped_user(&self) -> impl Iterator<Item = u8> + '_ {
        unescaped(self.user.unwrap_or(b""))
    }

    /// The address-of-record of [`Uri::write_aor`] where the URI's own text, which is `text`, has it in
    /// one piece; `None`: it has to be written.
    pub fn aor_in(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let start = match self.scheme {
            Scheme::Sip => 4,
            Scheme::Sips => 5,
            Scheme::Tel | Scheme::Other(_) => return None,
        };
        let user = self.user.filter(|_| self.password.is_none())?;
        let aor = text.get(start..start + user.len() + 1 + self.host.len())?;
        let host = aor.get(user.len() + 1..)?;
        // Of another text nothing is told.
        let own = core::ptr::eq(aor.as_ptr(), user.as_ptr()) && core::ptr::eq(host, self.host);
        let clean = is_canonical_user(user) && !any(host, |b| b.within(b'A', b'Z'));
        (own && clean).then_some(aor)
    }

    /// Equality of section 19.1.4.
    pub fn equivalent(&self, other: &Uri<'_>) -> bool {
        let users = match (self.user, other.user) {
            (None, None) => true,
            (Some(a), Some(b)) => same_unescaped(a, b, false),
            _ => false,
        };
        users
            && same_scheme(self.scheme, other.scheme)
            && same_password(self.password, other.password)
            && self.host.eq_ignore_ascii_case(other.host)
            && self.port == other.port
            && same_params(self, other)
            && same_headers(self.headers, other.headers)
    }
}

/// What follows `sip:` or `sips:`.
fn sip<'a>(scheme: Scheme<'a>, rest: &'a [u8]) -> Result<Uri<'a>, UriError> {
    let (user, password, rest) = userinfo(rest)?;
    let (host, port, rest) = hostport(rest)?;
    let (mut params, mut headers) = (rest, &b""[..]);
    if !(rest.is_empty() || (rest[0] == b';' && are_plain(rest))) {
        (params, headers) = tail(rest)?;
    }
    Ok(Uri { scheme, user, password, host, port, params, headers })
}

/// Parameters and headers, whatever they hold that can be carried along.
fn tail(rest: &[u8]) -> Result<(&[u8], &[u8]), UriError> {
    let begins = matches!(rest, [b';' | b'?', ..]);
    if !(begins && rest.iter().all(|&b| b == b'"' || chars::is(b, CARRIED))) || has_open_quote(rest) {
        return Err(UriError::Params);
    }
    let mut end = 0;
    while end < rest.len() && rest[end] != b'?' {
        end = if rest[end] == b'"' { skip_quoted(rest, end).unwrap_or(rest.len()) } else { end + 1 };
    }
    Ok(rest.split_at(end))
}

/// Whether parameters consist of what needs no closer look: letters, digits and `-._:;=`.
#[inline]
fn are_plain(params: &[u8]) -> bool {
    let plain = |b: Block| {
        // The digits, the colon and the semicolon are neighbours.
        let digit = b.within(b'0', b';');
        b.small().within(b'a', b'z') | digit | b.within(b'-', b'.') | b.eq(b'=') | b.eq(b'_')
    };
    !any(params, |b| !plain(b))
}

/// The address-of-record of [`Uri::write_aor`] in a URI that is `sip:`, a user of letters, digits and their
/// like, `@` and `domain` (lower case), and nothing else. `None` says nothing.
pub fn plain_aor<'a>(uri: &'a [u8], domain: &[u8]) -> Option<&'a [u8]> {
    let aor = uri.strip_prefix(b"sip:")?;
    let at = aor.len().checked_sub(domain.len() + 1)?;
    let is_domain = aor.get(at) == Some(&b'@') && aor.get(at + 1..) == Some(domain);
    // The same checks as of the parts one by one.
    let fits = at > 0 && chars::end_of_host(aor) == at;
    let is_host = (1..=255).contains(&domain.len()) && chars::end_of_host(domain) == domain.len();
    (is_domain && fits && is_host).then_some(aor)
}

/// Whether a text consists of letters, digits, `-` and `_` (RFC 4648 section 5) and is not empty.
pub fn is_base64url(text: &[u8]) -> bool {
    let of_alphabet =
        |b: Block| b.small().within(b'a', b'z') | b.within(b'0', b'9') | b.eq(b'-') | b.eq(b'_');
    !text.is_empty() && !any(text, |b| !of_alphabet(b))
}

const fn is_scheme(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')
}

fn tel(rest: &[u8]) -> Result<Uri<'_>, UriError> {
    let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
    let (number, params) = rest.split_at(end);
    let is_number =
        |b: u8| b.is_ascii_hexdigit() || matches!(b, b'+' | b'-' | b'.' | b'(' | b')' | b'*' | b'#');
    if number.is_empty() || !number.iter().all(|&b| is_number(b)) {
        return Err(UriError::User);
    }
    let (params, headers) = if params.is_empty() { (params, params) } else { tail(params)? };
    let (scheme, user) = (Scheme::Tel, Some(number));
    Ok(Uri { scheme, user, password: None, host: b"", port: None, params, headers })
}

fn other<'a>(name: &'a [u8], opaque: &'a [u8]) -> Result<Uri<'a>, UriError> {
    if opaque.is_empty() || opaque.iter().any(|&b| b <= b' ' || matches!(b, b'<' | b'>' | b'"' | 0x7f)) {
        return Err(UriError::Host);
    }
    let scheme = Scheme::Other(name);
    Ok(Uri { scheme, user: None, password: None, host: opaque, port: None, params: b"", headers: b"" })
}

type Userinfo<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8]);

/// Splits `user[:password]@` off. An `@` can stand nowhere else in a valid URI.
#[inline]
fn userinfo(s: &[u8]) -> Result<Userinfo<'_>, UriError> {
    // Letters, digits and their like up to the `@` need no closer look.
    let plain = chars::end_of_host(s);
    if plain > 0 && s.get(plain) == Some(&b'@') {
        return Ok((Some(&s[..plain]), None, &s[plain + 1..]));
    }
    if !any(&s[plain..], |b| b.eq(b'@')) {
        return Ok((None, None, s));
    }
    let at = plain + find(&s[plain..], |b| b.eq(b'@'));
    let (info, rest) = (&s[..at], &s[at + 1..]);
    let (user, password) = match info.iter().position(|&b| b == b':') {
        Some(colon) => (&info[..colon], Some(&info[colon + 1..])),
        None => (info, None),
    };
    match !user.is_empty() && chars::all(info, CARRIED) {
        true => Ok((Some(user), password, rest)),
        false => Err(UriError::User),
    }
}

type HostPort<'a> = (&'a [u8], Option<u16>, &'a [u8]);

/// Splits `host[:port]` off the front of `s`. Shared with Via's `sent-by`.
pub(crate) fn hostport(s: &[u8]) -> Result<HostPort<'_>, UriError> {
    let end = if s.first() == Some(&b'[') {
        let close = memchr::memchr(b']', s).ok_or(UriError::Host)?;
        parse_ipv6(&s[1..close]).ok_or(UriError::Host)?;
        close + 1
    } else {
        let end = chars::end_of_host(s);
        if end == 0 || end > 255 {
            return Err(UriError::Host);
        }
        end
    };
    let (host, rest) = s.split_at(end);
    let [b':', digits @ ..] = rest else { return Ok((host, None, rest)) };
    let (port, len) = leading_port(digits).ok_or(UriError::Port)?;
    Ok((host, Some(port), &digits[len..]))
}

/// An address as it stands in a URI or Via: IPv6 with brackets, or (as `received` has it) without.
pub fn parse_ip(host: &[u8]) -> Option<IpAddr> {
    match host {
        [b'[', inner @ .., b']'] => parse_ipv6(inner),
        [b'0'..=b'9', ..] => match parse_ipv4(host) {
            Some(ip) => Some(IpAddr::V4(ip)),
            None if any(host, |b| b.eq(b':')) => parse_ipv6(host),
            None => None,
        },
        _ if any(host, |b| b.eq(b':')) => parse_ipv6(host),
        _ => None,
    }
}

/// Dotted quad.
fn parse_ipv4(s: &[u8]) -> Option<Ipv4Addr> {
    leading_ipv4(s).filter(|&(_, len)| len == s.len()).map(|(ip, _)| ip)
}

/// The dotted quad that `s` begins with, and its length. What follows it may make it a name. Written
/// out because it runs for every message and the standard library's parser wants a `str` and costs
/// several times as much.
#[inline]
pub(crate) fn leading_ipv4(s: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let (mut ip, mut len) = leading_octet(s, 0)?;
    for _ in 0..3 {
        if s.get(len) != Some(&b'.') {
            return None;
        }
        let (octet, end) = leading_octet(s, len + 1)?;
        (ip, len) = (ip << 8 | octet, end);
    }
    Some((Ipv4Addr::from(ip), len))
}

/// The number up to 255 that begins at `s[at]`, and where it ends.
#[inline(always)]
fn leading_octet(s: &[u8], at: usize) -> Option<(u32, usize)> {
    let digit = |at: usize| s.get(at).map_or(10, |b| u32::from(b.wrapping_sub(b'0')));
    let (first, second) = (digit(at), digit(at + 1));
    if first > 9 {
        return None;
    }
    if second > 9 {
        return Some((first, at + 1));
    }
    // No leading zeros: some readers take them for octal.
    if first == 0 {
        return None;
    }
    let third = digit(at + 2);
    if third > 9 {
        return Some((first * 10 + second, at + 2));
    }
    let octet = (first * 10 + second) * 10 + third;
    (octet <= 255 && digit(at + 3) > 9).then_some((octet, at + 3))
}

/// An IPv4 address in the clothes of an IPv6 one is the IPv4 address: rules about addresses see through it.
fn parse_ipv6(s: &[u8]) -> Option<IpAddr> {
    if s.len() > 45 {
        return None;
    }
    let text = core::str::from_utf8(s).ok()?;
    let read = |text: &str| text.parse::<Ipv6Addr>().ok();
    // Three colons come from an error in the grammar of RFC 3261 and mean two (RFC 5118 section 4.10).
    let ip = read(text).or_else(|| text.contains(":::").then(|| read(&text.replacen(":::", "::", 1)))?);
    ip.map(|ip| ip.to_canonical())
}

/// Whether a user part is as [`push_canonical_user`] writes it, and holds no escape.
fn is_canonical_user(user: &[u8]) -> bool {
    chars::end_of_host(user) == user.len() || chars::all(user, UNESCAPED_USER)
}

/// A URI as it may stand in a request line (RFC 3261 section 16.6 step 2): without the `method` parameter
/// and without headers, which table 1 of section 19.1.1 does not allow there.
pub fn request_target(text: &[u8]) -> Cow<'_, [u8]> {
    // As nearly all are. A host is passed over, for many have an `m`.
    let rest = &text[find(text, |b| b.eq(b';') | b.eq(b'?'))..];
    if !any(rest, |b| b.eq(b'?') | b.small().eq(b'm')) {
        return Cow::Borrowed(text);
    }
    let Ok(uri) = Uri::parse(text) else { return Cow::Borrowed(text) };
    let whole = text.get(..text.len() - uri.headers.len()).unwrap_or(text);
    if uri.param(b"method").is_none() {
        return Cow::Borrowed(whole);
    }
    let mut out = whole.get(..whole.len() - uri.params.len()).unwrap_or(whole).to_vec();
    for (name, value) in Params::new(uri.params).filter(|(name, _)| !name.eq_ignore_ascii_case(b"method")) {
        out.push(b';');
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    Cow::Owned(out)
}

/// A user part as [`push_canonical_user`] writes it.
pub fn canonical_user(user: &[u8]) -> Cow<'_, [u8]> {
    if is_canonical_user(user) {
        return Cow::Borrowed(user);
    }
    let mut out = Vec::with_capacity(user.len() + 8);
    push_canonical_user(user, &mut out);
    Cow::Owned(out)
}

/// Whether two user parts mean the same (RFC 3261 section 19.1.4).
pub fn same_user(a: &[u8], b: &[u8]) -> bool {
    same_unescaped(a, b, false)
}

/// What is left of a user part without its first `count` characters, of which an escape is one.
pub fn user_after(mut user: &[u8], count: usize) -> &[u8] {
    for _ in 0..count {
        let len = if user.first() == Some(&b'%') && chars::unhex(user, 0).is_some() { 3 } else { 1 };
        user = user.get(len..).unwrap_or(b"");
    }
    user
}

/// Appends a user part so that two that mean the same are the same bytes (RFC 3261 section 19.1.4): no
/// escapes where none are needed, and all others there, with capitals.
pub fn push_canonical_user(user: &[u8], out: &mut Vec<u8>) {
    if is_canonical_user(user) {
        return out.extend_from_slice(user);
    }
    for b in unescaped(user) {
        match chars::is(b, UNESCAPED_USER) {
            true => out.push(b),
            false => {
                let digit = |n: u8| b"0123456789ABCDEF"[usize::from(n & 15)];
                out.extend_from_slice(&[b'%', digit(b >> 4), digit(b)]);
            }
        }
    }
}

/// The unescaped bytes of `s`.
fn unescaped(s: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut i = 0;
    core::iter::from_fn(move || {
        let b = *s.get(i)?;
        match (b, chars::unhex(s, i)) {
            (b'%', Some(escaped)) => {
                i += 3;
                Some(escaped)
            }
            _ => {
                i += 1;
                Some(b)
            }
        }
    })
}

fn same_unescaped(a: &[u8], b: &[u8], fold_case: bool) -> bool {
    if a == b {
        return true;
    }
    if fold_case {
        unescaped(a).map(|b| b.to_ascii_lowercase()).eq(unescaped(b).map(|b| b.to_ascii_lowercase()))
    } else {
        unescaped(a).eq(unescaped(b))
    }
}

fn same_scheme(a: Scheme<'_>, b: Scheme<'_>) -> bool {
    match (a, b) {
        (Scheme::Other(a), Scheme::Other(b)) => a.eq_ignore_ascii_case(b),
        _ => a == b,
    }
}

fn same_password(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same_unescaped(a, b, false),
        (None, None) => true,
        _ => false,
    }
}

/// A parameter in both must match; `user`, `ttl`, `method`, `maddr` and `transport` must match even
/// when one lacks it (19.1.4 names the first four and treats transport alike in its examples).
fn same_params(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    if a.params == b.params {
        return true;
    }
    let one_way = |x: &Uri<'_>, y: &Uri<'_>| {
        Params::new(x.params).all(|(name, value)| match y.param(name) {
            Some(other) => same_unescaped(value.unwrap_or(b""), other, true),
            None => ![&b"user"[..], b"ttl", b"method", b"maddr", b"transport"]
                .iter()
                .any(|n| n.eq_ignore_ascii_case(name)),
        })
    };
    one_way(a, b) && one_way(b, a)
}

/// Header components count, in any order.
fn same_headers(a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    let parts = |s: &[u8]| s.get(1..).unwrap_or(b"").split(|&b| b == b'&').filter(|p| !p.is_empty()).count();
    let subset = |x: &[u8], y: &[u8]| {
        x.get(1..)
            .unwrap_or(b"")
            .split(|&b| b == b'&')
            .filter(|p| !p.is_empty())
            .all(|p| y.get(1..).unwrap_or(b"").split(|&b| b == b'&').any(|q| same_unescaped(p, q, true)))
    };
    // Quadratic in the number of headers, so bounded.
    parts(a) == parts(b) && parts(a) <= 32 && subset(a, b) && subset(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uri(s: &str) -> Uri<'_> {
        Uri::parse(s.as_bytes()).unwrap_or_else(|e| panic!("{s}: {e:?}"))
    }

    #[test]
    fn parts_are_found() {
        let u = uri("sip:alice:pw@Example.com:5070;transport=TCP;lr?Subject=x&a=b");
        assert_eq!((u.user, u.password), (Some(&b"alice"[..]), Some(&b"pw"[..])));
        assert_eq!((u.host, u.port), (&b"Example.com"[..], Some(5070)));
        assert_eq!(u.transport(), Some(Transport::Tcp));
        assert_eq!(u.param(b"lr"), Some(&b""[..]));
        assert_eq!(u.headers, b"?Subject=x&a=b");
        let u = uri("sips:[2001:db8::10]:5070");
        assert_eq!((u.scheme, u.user, u.host_ip()), (Scheme::Sips, None, "2001:db8::10".parse().ok()));
        let u = uri("sip:user;par=u%40example.net@example.com");
        assert_eq!(u.user, Some(&b"user;par=u%40example.net"[..]));
        assert_eq!(uri("tel:+1-972-555-2222;isub=1").user, Some(&b"+1-972-555-2222"[..]));
        assert_eq!(uri("nobodyKnowsThisScheme:totallyopaque").host, b"totallyopaque");
        assert_eq!(uri("sip:10.0.0.1").host_ip(), "10.0.0.1".parse().ok());
        assert_eq!(uri("sip:010.0.0.1").host_ip(), None);
    }

    #[test]
    fn broken_uris_are_refused() {
        use UriError::*;
        for (s, e) in [
            ("", Scheme),
            ("alice@example.com", Scheme),
            ("<sip:a@b>", Scheme),
            ("sip:", Host),
            ("sip:@b", User),
            ("sip:a b@c", User),
            ("sip:a\"@c", User),
            ("sip:a\x7f@c", User),
            ("sip:a@b@c", Params),
            ("sip:a@b:0", Port),
            ("sip:a@b:99999", Port),
            ("sip:a@b:", Port),
            ("sip:[::g]", Host),
            ("sip:[::1", Host),
            ("sip:a@b;x=\"y", Params),
            ("sip:a@b;x=\"y z\"", Params),
            ("sip:a@b;x=c@d", Params),
            ("sip:a@b#c", Params),
            ("sip:a@b; lr", Params),
            ("sip:a@b;x=<y>", Params),
            ("tel:", User),
        ] {
            assert_eq!(Uri::parse(s.as_bytes()), Err(e), "{s}");
        }
    }

    #[test]
    fn aor_is_canonical() {
        let aor = |s: &str| {
            let mut out = Vec::new();
            uri(s).write_aor(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(aor("sip:%61lice@EXAMPLE.com:5060;x=y"), "alice@example.com");
        assert_eq!(aor("sips:a%20b%2fc@x"), "a%20b/c@x");
        assert_eq!(aor("sip:null-%00@x"), "null-%00@x");
        assert_eq!(aor("sip:Example.com"), "example.com");
        assert_eq!(aor("sip:a%25b@x"), "a%25b@x");
        for same in ["sip:jörg#@x", "sip:j%c3%b6rg%23@x", "sip:%6A%C3%B6rg#@x"] {
            assert_eq!(aor(same), "j%C3%B6rg%23@x", "{same}");
        }
        assert_eq!(aor("sip:50%@x"), "50%25@x");
        assert_eq!(aor("sip:a{b}%zz|^@x"), "a%7Bb%7D%25zz%7C%5E@x");
    }

    #[test]
    fn request_targets_have_no_method_and_no_headers() {
        for (text, target) in [
            ("sip:a@b.com;transport=tcp;lr", "sip:a@b.com;transport=tcp;lr"),
            ("sip:a@b;method=BYE", "sip:a@b"),
            ("sip:a@b:5070;x=\"y;method=1\";METHOD=INVITE;lr?Route=x", "sip:a@b:5070;x=\"y;method=1\";lr"),
            ("sip:a;method=x@b;maddr=1.2.3.4", "sip:a;method=x@b;maddr=1.2.3.4"),
            ("sip:a?m@b?X=1", "sip:a?m@b"),
            ("tel:+49;method=BYE", "tel:+49"),
            ("sip:a@b@c;method=BYE", "sip:a@b@c;method=BYE"),
        ] {
            assert_eq!(
                request_target(text.as_bytes()).escape_ascii().to_string(),
                target.as_bytes().escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn users_lose_characters_and_not_halves_of_escapes() {
        for (user, count, left) in
            [("*21%23123", 4, "123"), ("%2A21%23", 3, "%23"), ("12", 3, ""), ("1%2", 2, "2"), ("49", 0, "49")]
        {
            assert_eq!(user_after(user.as_bytes(), count), left.as_bytes(), "{user}");
        }
        assert!(same_user(b"j%c3%b6rg", "j\u{f6}rg".as_bytes()) && !same_user(b"a", b"A"));
    }

    #[test]
    fn illegal_bytes_are_carried_where_they_mislead_nobody() {
        let u = uri("sip:*21#:p#w@h.example:5070;x=\"a?b;c\";lr;t={1}?h=\"i\"&j=^");
        assert_eq!((u.user, u.password), (Some(&b"*21#"[..]), Some(&b"p#w"[..])));
        assert_eq!((u.host, u.port), (&b"h.example"[..], Some(5070)));
        assert_eq!((u.param(b"lr"), u.param(b"x")), (Some(&b""[..]), Some(&b"\"a?b;c\""[..])));
        assert_eq!(u.headers, b"?h=\"i\"&j=^");
        assert!(uri("sip:*21#@h").equivalent(&uri("sip:*21%23@H")));
    }

    /// The examples of RFC 3261 section 19.1.4.
    #[test]
    fn equality_follows_the_rfc() {
        let equal = [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
            (
                "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
                "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
            ),
            (
                "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
                "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
            ),
        ];
        for (a, b) in equal {
            assert!(uri(a).equivalent(&uri(b)) && uri(b).equivalent(&uri(a)), "{a} {b}");
        }
        let different = [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
            ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        ];
        for (a, b) in different {
            assert!(!uri(a).equivalent(&uri(b)) && !uri(b).equivalent(&uri(a)), "{a} {b}");
        }
    }

    proptest! {
        /// The short ways to an address-of-record give what the long one does, or nothing.
        #[test]
        fn an_address_of_record_is_the_same_whatever_the_way(
            scheme in "sips?:|SIP:|tel:|",
            user in "([a-zA-Z0-9._-]{1,4}|[a-c%14@:;,/#\u{e9}]{0,6})(:p)?@?",
            host in "here[.]example|Here[.]example|here[.]example[.]|\\[::1\\]|192[.]0[.]2[.]1|[a-z.:;]{0,4}",
            rest in "|:5060|;x=y|[?]a=b",
        ) {
            let text = format!("{scheme}{user}{host}{rest}").into_bytes();
            let read = Uri::parse(&text).ok();
            let mut aor = Vec::new();
            if let Some(uri) = &read {
                uri.write_aor(&mut aor);
                prop_assert_eq!(uri.aor_in(&text).unwrap_or(&aor), &aor);
                prop_assert_eq!(uri.aor_in(b"sip:another.and@longer.example"), None);
            }
            for domain in [&b"here.example"[..], b"example", b"[::1]", b"192.0.2.1", b".", b""] {
                if let Some(plain) = plain_aor(&text, domain) {
                    prop_assert_eq!(plain, &aor);
                    prop_assert_eq!(read.map(|uri| uri.host), Some(domain));
                }
            }
        }

        /// Addresses are those that the standard library takes, which takes no leading zeros either.
        #[test]
        fn dotted_quads_are_read_as_elsewhere(text in "([0-9]{1,4}[.]){2,4}[0-9]{0,4}|[0-9.]{0,12}") {
            prop_assert_eq!(parse_ipv4(text.as_bytes()), text.parse().ok());
        }
    }
}
