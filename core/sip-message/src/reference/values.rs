//! Header values as plain walks find them.

use crate::{Malformed, NameAddr, Scheme, Uri, UriError, Via, ViaError};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Transport;

pub(crate) fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

pub(crate) fn token_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&b)
}

pub(crate) fn is_token(s: &[u8]) -> bool {
    !s.is_empty() && s.iter().all(|&b| token_char(b))
}

pub(crate) fn trim(mut s: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = s {
        s = rest;
    }
    s
}

pub(crate) fn number(s: &[u8]) -> Option<u64> {
    if s.is_empty() || !s.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(s).ok()?.parse().ok()
}

fn unreserved(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&b)
}

/// Every byte visible, and none that ends a URI or a part of it for some reader.
fn carried(s: &[u8]) -> bool {
    s.iter().all(|&b| b > b' ' && b != 0x7f && !b"<>\"@".contains(&b))
}

/// The position after the quoted string that opens at `open`.
fn skip_quoted(s: &[u8], open: usize) -> Option<usize> {
    let mut i = open + 1;
    while i < s.len() {
        match s[i] {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    None
}

fn has_open_quote(value: &[u8]) -> bool {
    let mut i = 0;
    while i < value.len() {
        if value[i] == b'"' {
            match skip_quoted(value, i) {
                Some(after) => i = after,
                None => return true,
            }
        } else {
            i += 1;
        }
    }
    false
}

/// Where the first separating comma stands.
pub(crate) fn end_of_value(s: &[u8]) -> usize {
    let (mut i, mut in_brackets) = (0, false);
    while i < s.len() {
        match s[i] {
            b',' if !in_brackets => return i,
            b'<' => in_brackets = true,
            b'>' => in_brackets = false,
            b'"' if !in_brackets => match skip_quoted(s, i) {
                Some(after) => {
                    i = after;
                    continue;
                }
                // Without a comma the answer is the same.
                None => return s.len(),
            },
            _ => {}
        }
        i += 1;
    }
    s.len()
}

pub(crate) fn values(mut s: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while !s.is_empty() {
        let end = end_of_value(s);
        all.push(trim(&s[..end]));
        s = s.get(end + 1..).unwrap_or(b"");
    }
    all.retain(|v| !v.is_empty());
    all
}

pub(crate) fn params(s: &[u8]) -> Vec<(&[u8], Option<&[u8]>)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < s.len() {
        if matches!(s[at], b';' | b' ' | b'\t') {
            at += 1;
            continue;
        }
        let start = at;
        while at < s.len() && !matches!(s[at], b'=' | b';') {
            at = match s[at] {
                b'"' => skip_quoted(s, at).unwrap_or(s.len()),
                _ => at + 1,
            };
        }
        at = at.min(s.len());
        let name = trim(&s[start..at]);
        let mut value = None;
        if s.get(at) == Some(&b'=') {
            let from = at + 1;
            at = from;
            while at < s.len() && s[at] != b';' {
                at = match s[at] {
                    b'"' => skip_quoted(s, at).unwrap_or(s.len()),
                    _ => at + 1,
                };
            }
            // A backslash may be the last byte of all.
            at = at.min(s.len());
            value = Some(trim(&s[from..at]));
        }
        if !name.is_empty() {
            all.push((name, value));
        }
    }
    all
}

pub(crate) fn param<'a>(s: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let found = params(s).into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.unwrap_or(b""))
}

pub(crate) fn parse_ip(host: &[u8]) -> Option<IpAddr> {
    match host {
        [b'[', inner @ .., b']'] => ipv6(inner),
        _ => ipv4(host).map(IpAddr::V4).or_else(|| host.contains(&b':').then(|| ipv6(host))?),
    }
}

fn ipv4(s: &[u8]) -> Option<Ipv4Addr> {
    let parts: Vec<&[u8]> = s.split(|&b| b == b'.').collect();
    if parts.len() != 4 {
        return None;
    }
    let mut octets = [0; 4];
    for (octet, part) in octets.iter_mut().zip(parts) {
        if part.len() > 1 && part[0] == b'0' {
            return None;
        }
        *octet = number(part).and_then(|n| u8::try_from(n).ok())?;
    }
    Some(Ipv4Addr::from(octets))
}

fn ipv6(s: &[u8]) -> Option<IpAddr> {
    if s.len() > 45 {
        return None;
    }
    let text = core::str::from_utf8(s).ok()?;
    let ip: Result<Ipv6Addr, _> = text.parse().or_else(|_| text.replacen(":::", "::", 1).parse());
    Some(IpAddr::V6(ip.ok()?).to_canonical())
}

type HostPort<'a> = (&'a [u8], Option<u16>, &'a [u8]);

fn port(digits: &[u8]) -> Option<u16> {
    number(digits).and_then(|p| u16::try_from(p).ok()).filter(|&p| p != 0)
}

fn hostport(s: &[u8]) -> Result<HostPort<'_>, UriError> {
    let end = if s.first() == Some(&b'[') {
        let close = s.iter().position(|&b| b == b']').ok_or(UriError::Host)?;
        ipv6(&s[1..close]).ok_or(UriError::Host)?;
        close + 1
    } else {
        let in_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let end = s.iter().take_while(|&&b| in_host(b)).count();
        if end == 0 || end > 255 {
            return Err(UriError::Host);
        }
        end
    };
    let (host, rest) = s.split_at(end);
    let [b':', digits @ ..] = rest else { return Ok((host, None, rest)) };
    let end = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    Ok((host, Some(port(&digits[..end]).ok_or(UriError::Port)?), &digits[end..]))
}

pub(crate) fn via(raw: &[u8]) -> Result<Via<'_>, ViaError> {
    let mut parts = raw.splitn(3, |&b| b == b'/');
    let mut next = || parts.next().map(trim).ok_or(ViaError);
    if !next()?.eq_ignore_ascii_case(b"SIP") || !is_token(next()?) {
        return Err(ViaError);
    }
    let rest = next()?;
    let end = rest.iter().position(|&b| is_space(b)).ok_or(ViaError)?;
    let transport_name = &rest[..end];
    if !is_token(transport_name) {
        return Err(ViaError);
    }
    let (host, port, rest) = sent_by(trim(&rest[end..]))?;
    let tail = trim(rest);
    if !(tail.is_empty() || tail[0] == b';') || has_open_quote(tail) {
        return Err(ViaError);
    }
    let transport = Transport::from_name(transport_name);
    let mut via =
        Via { transport, transport_name, host, host_ip: parse_ip(host), port, raw, ..Via::default() };
    for (name, value) in params(tail) {
        if !is_token(name) {
            return Err(ViaError);
        }
        via_param(&mut via, name, value)?;
    }
    Ok(via)
}

fn via_param<'a>(via: &mut Via<'a>, name: &[u8], value: Option<&'a [u8]>) -> Result<(), ViaError> {
    match name.to_ascii_lowercase().as_slice() {
        b"branch" if via.branch.is_empty() => {
            via.branch = value.unwrap_or(b"");
            if via.branch.iter().any(|&b| b <= b' ' || b == b'"') {
                return Err(ViaError);
            }
        }
        b"rport" => {
            let port = match value {
                None | Some(b"") => None,
                Some(digits) => Some(port(digits).ok_or(ViaError)?),
            };
            via.rport = match (via.rport.flatten(), port) {
                (Some(a), Some(b)) if a != b => return Err(ViaError),
                (a, b) => Some(a.or(b)),
            };
        }
        b"maddr" if via.maddr.is_none() => via.maddr = value,
        b"received" => {
            let value = value.unwrap_or(b"");
            let alike = via.received.is_none_or(|before| before == value);
            via.received = Some(if alike { value } else { b"" });
        }
        b"ttl" => via.ttl = value.and_then(number).and_then(|t| u8::try_from(t).ok()),
        _ => {}
    }
    Ok(())
}

/// `host [COLON port]`, where white space may surround the colon.
fn sent_by(s: &[u8]) -> Result<HostPort<'_>, ViaError> {
    let spaced_port = |s: &'_ [u8]| {
        let lead = s.len() - trim(s).len();
        let _ = lead;
        let digits = trim(s).iter().take_while(|b| b.is_ascii_digit()).count();
        port(&trim(s)[..digits]).map(|p| (p, digits)).ok_or(ViaError)
    };
    let (host, found, rest) = match hostport(s) {
        Ok(read) => read,
        Err(_) => {
            // No digit follows the colon: `host: port`.
            let colon = s.iter().rposition(|&b| b == b':').ok_or(ViaError)?;
            if !s.get(colon + 1).is_some_and(|&b| is_space(b)) {
                return Err(ViaError);
            }
            let (host, none, rest) = hostport(trim(&s[..colon])).map_err(|_| ViaError)?;
            if none.is_some() || !rest.is_empty() {
                return Err(ViaError);
            }
            let after = &s[colon + 1..];
            let (port, digits) = spaced_port(after)?;
            return Ok((host, Some(port), &trim(after)[digits..]));
        }
    };
    if found.is_none()
        && rest.first().is_some_and(|&b| is_space(b))
        && let [b':', after @ ..] = trim(rest)
    {
        let (port, digits) = spaced_port(after)?;
        return Ok((host, Some(port), &trim(after)[digits..]));
    }
    Ok((host, found, rest))
}

pub(crate) fn name_addr(value: &[u8]) -> Result<NameAddr<'_>, Malformed> {
    let value = trim(value);
    let in_uri = |b: u8| !matches!(b, b' ' | b'\t' | b'<' | b'>' | b'"');
    let open = if value.first() == Some(&b'"') {
        let after = skip_quoted(value, 0).ok_or(Malformed)?;
        let gap = value[after..].iter().position(|&b| b == b'<').ok_or(Malformed)?;
        if !trim(&value[after..after + gap]).is_empty() {
            return Err(Malformed);
        }
        after + gap
    } else {
        match value.iter().position(|&b| b == b'<' || b == b';') {
            Some(at) if value[at] == b'<' => at,
            semicolon => {
                let (uri, params) = value.split_at(semicolon.unwrap_or(value.len()));
                let uri = trim(uri);
                let whole = !uri.is_empty() && uri.iter().all(|&b| in_uri(b));
                if !whole || uri.iter().any(|&b| matches!(b, b',' | b'?')) || has_open_quote(params) {
                    return Err(Malformed);
                }
                return Ok(NameAddr { display: b"", uri, params });
            }
        }
    };
    let inner = &value[open + 1..];
    let (uri, rest) = inner.split_at(inner.iter().take_while(|&&b| in_uri(b) || b == b'"').count());
    let params = trim(rest.strip_prefix(b">").ok_or(Malformed)?);
    if uri.is_empty()
        || has_open_quote(uri)
        || !(params.is_empty() || params[0] == b';')
        || has_open_quote(params)
    {
        return Err(Malformed);
    }
    Ok(NameAddr { display: trim(&value[..open]), uri, params })
}

pub(crate) fn uri(s: &[u8]) -> Result<Uri<'_>, UriError> {
    let colon = s.iter().take(32).position(|&b| b == b':').ok_or(UriError::Scheme)?;
    let (name, rest) = (&s[..colon], &s[colon + 1..]);
    let in_scheme = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    match name.to_ascii_lowercase().as_slice() {
        b"sip" => sip(Scheme::Sip, rest),
        b"sips" => sip(Scheme::Sips, rest),
        b"tel" => tel(rest),
        [b'a'..=b'z', ..] if name.iter().all(in_scheme) => {
            if rest.is_empty() || rest.iter().any(|&b| b <= b' ' || matches!(b, b'<' | b'>' | b'"' | 0x7f)) {
                return Err(UriError::Host);
            }
            let scheme = Scheme::Other(name);
            Ok(Uri { scheme, user: None, password: None, host: rest, port: None, params: b"", headers: b"" })
        }
        _ => Err(UriError::Scheme),
    }
}

fn tel(rest: &[u8]) -> Result<Uri<'_>, UriError> {
    let end = rest.iter().position(|&b| b == b';').unwrap_or(rest.len());
    let (number, params) = rest.split_at(end);
    let in_number =
        |b: &u8| b.is_ascii_hexdigit() || matches!(b, b'+' | b'-' | b'.' | b'(' | b')' | b'*' | b'#');
    if number.is_empty() || !number.iter().all(in_number) {
        return Err(UriError::User);
    }
    let (params, headers) = tail(params)?;
    let (scheme, user) = (Scheme::Tel, Some(number));
    Ok(Uri { scheme, user, password: None, host: b"", port: None, params, headers })
}

fn sip<'a>(scheme: Scheme<'a>, s: &'a [u8]) -> Result<Uri<'a>, UriError> {
    let (mut user, mut password, mut rest) = (None, None, s);
    if let Some(at) = s.iter().position(|&b| b == b'@') {
        let info = &s[..at];
        rest = &s[at + 1..];
        let colon = info.iter().position(|&b| b == b':');
        let name = &info[..colon.unwrap_or(at)];
        password = colon.map(|c| &info[c + 1..]);
        if name.is_empty() || !carried(info) {
            return Err(UriError::User);
        }
        user = Some(name);
    }
    let (host, port, rest) = hostport(rest)?;
    let (params, headers) = tail(rest)?;
    Ok(Uri { scheme, user, password, host, port, params, headers })
}

/// Parameters, and headers from the first `?` that is not in quotes.
fn tail(s: &[u8]) -> Result<(&[u8], &[u8]), UriError> {
    let unquoted: Vec<u8> = s.iter().copied().filter(|&b| b != b'"').collect();
    if !(s.is_empty() || matches!(s[0], b';' | b'?')) || !carried(&unquoted) || has_open_quote(s) {
        return Err(UriError::Params);
    }
    let mut i = 0;
    while i < s.len() && s[i] != b'?' {
        i = if s[i] == b'"' { skip_quoted(s, i).unwrap() } else { i + 1 };
    }
    Ok(s.split_at(i))
}

/// What a Contact would put into a request line, if it can stand there.
pub(crate) fn target(value: &[u8]) -> Option<&[u8]> {
    let after = if value.first() == Some(&b'"') { skip_quoted(value, 0)? } else { 0 };
    let rest = &value[after..];
    let uri = match rest.iter().position(|&b| b == b'<' || b == b';') {
        Some(at) if rest[at] == b'<' => {
            let inner = &rest[at + 1..];
            &inner[..inner.iter().position(|&b| b == b'>')?]
        }
        Some(at) => trim(&rest[..at]),
        None => trim(rest),
    };
    let stands = |&b: &u8| b > b' ' && b != 0x7f && b != b'<';
    (!uri.is_empty() && uri.iter().all(stands)).then_some(uri)
}

/// The address-of-record in canonical form.
pub(crate) fn aor(uri: &Uri<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(user) = uri.user {
        let mut i = 0;
        while i < user.len() {
            let mut byte = user[i];
            i += 1;
            if let Some(digits) =
                user.get(i..i + 2).filter(|d| byte == b'%' && d.iter().all(u8::is_ascii_hexdigit))
            {
                byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
                i += 2;
            }
            match unreserved(byte) || b"&=+$,;?/".contains(&byte) {
                true => out.push(byte),
                false => out.extend(format!("%{byte:02X}").into_bytes()),
            }
        }
        out.push(b'@');
    }
    out.extend(uri.host.to_ascii_lowercase());
    out
}

pub(crate) type Auth<'a> = (&'a [u8], Vec<(&'a [u8], &'a [u8])>);

pub(crate) fn auth(value: &[u8]) -> Option<Auth<'_>> {
    let value = trim(value);
    let end = value.iter().position(|&b| is_space(b))?;
    let scheme = &value[..end];
    if !is_token(scheme) {
        return None;
    }
    let mut rest = trim(&value[end..]);
    let mut all = Vec::new();
    while !rest.is_empty() {
        let eq = rest.iter().position(|&b| b == b'=')?;
        let name = trim(&rest[..eq]);
        if !is_token(name) {
            return None;
        }
        let v = &rest[eq + 1..];
        let v = &v[v.iter().take_while(|&&b| is_space(b)).count()..];
        let (found, end) = if v.first() == Some(&b'"') {
            let end = skip_quoted(v, 0)?;
            (&v[1..end - 1], end)
        } else {
            let end = v.iter().position(|&b| b == b',' || is_space(b)).unwrap_or(v.len());
            if end == 0 || !v[..end].iter().all(|&b| token_char(b) || b"/:@=?".contains(&b)) {
                return None;
            }
            (&v[..end], end)
        };
        all.push((name, found));
        rest = match trim(&v[end..]) {
            [] => b"",
            [b',', more @ ..] => trim(more),
            _ => return None,
        };
    }
    Some((scheme, all))
}
