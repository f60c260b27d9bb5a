//! Via values (RFC 3261 section 20.42, RFC 3581).

use crate::block::find;
use crate::chars::{self, HOST, blank_or_quote, is_space, trim};
use crate::number::{leading_port, parse_u32, push_u64};
use crate::params::{Params, has_open_quote};
use crate::uri::{hostport, leading_ipv4, parse_ip};
use crate::words::{begins, begins_small, word};
use core::net::{IpAddr, SocketAddr};
use wire::Transport;

/// One Via value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Via<'a> {
    /// The transport, if it is one we know of.
    pub transport: Option<Transport>,
    /// The transport as written.
    pub transport_name: &'a [u8],
    /// `sent-by` host, IPv6 with its brackets.
    pub host: &'a [u8],
    /// `sent-by` host as an address, if it is one.
    pub host_ip: Option<IpAddr>,
    /// `sent-by` port.
    pub port: Option<u16>,
    /// The branch, empty if there is none (RFC 2543).
    pub branch: &'a [u8],
    /// `received` as written; empty if it has no value, or if there are several with different values.
    pub received: Option<&'a [u8]>,
    /// `rport`: present without a value, or with one (RFC 3581).
    pub rport: Option<Option<u16>>,
    /// `maddr` as written.
    pub maddr: Option<&'a [u8]>,
    /// `ttl`.
    pub ttl: Option<u8>,
    /// The whole value.
    pub raw: &'a [u8],
}

/// A Via value that does not follow the grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViaError;

impl<'a> Via<'a> {
    /// Reads one value: no comma, no white space at its ends.
    pub fn parse(raw: &'a [u8]) -> Result<Via<'a>, ViaError> {
        match Via::usual(raw) {
            Some(via) => Ok(via),
            None => Via::any(raw),
        }
    }

    /// Reads a value without white space but the one space that must be, and without quotes; `None` for
    /// others and where anything is wrong.
    #[inline(always)]
    pub(crate) fn usual(raw: &'a [u8]) -> Option<Via<'a>> {
        if !begins!(word(raw), b"SIP/2.0/") {
            return None;
        }
        let after = &raw[8..];
        let (transport, name_len) = match word(after) {
            name if begins!(name, b"UDP ") => (Some(Transport::Udp), 3),
            name if begins!(name, b"TCP ") => (Some(Transport::Tcp), 3),
            name if begins!(name, b"TLS ") => (Some(Transport::Tls), 3),
            name if begins!(name, b"WSS ") => (Some(Transport::Wss), 3),
            _ => return None,
        };
        let (transport_name, sent_by) = (&after[..name_len], &after[name_len + 1..]);
        let (host, host_ip, port, mut rest) = usual_sent_by(sent_by)?;
        let mut via = Via { transport, transport_name, host, host_ip, port, raw, ..Via::default() };
        while let [b';', params @ ..] = rest {
            let end = find(params, |b| blank_or_quote(b) | b.eq(b';'));
            let param;
            (param, rest) = params.split_at(end);
            via.usual_param(param)?;
        }
        rest.is_empty().then_some(via)
    }

    /// Takes a parameter without white space and quotes.
    #[inline(always)]
    fn usual_param(&mut self, param: &'a [u8]) -> Option<()> {
        let head = word(param);
        if begins_small!(head, b"branch=") && self.branch.is_empty() {
            self.branch = &param[7..];
            return Some(());
        }
        if begins_small!(head, b"rport") && param.len() == 5 && self.rport.is_none() {
            self.rport = Some(None);
            return Some(());
        }
        self.other_param(param)
    }

    #[inline(never)]
    fn other_param(&mut self, param: &'a [u8]) -> Option<()> {
        let name_len = find(param, |b| b.eq(b'='));
        match name_len {
            // No parameter at all, as Params has it.
            0 => Some(()),
            _ => self.param(&param[..name_len], param.get(name_len + 1..)).ok(),
        }
    }

    /// Reads a value of any form.
    fn any(raw: &'a [u8]) -> Result<Via<'a>, ViaError> {
        let (transport_name, sent_by) = protocol(raw)?;
        let (host, port, rest) = hostport_spaced(sent_by)?;
        let params = trim(rest);
        // After an open quote nothing could be appended that others would read as a parameter.
        if !(params.is_empty() || params[0] == b';') || has_open_quote(params) {
            return Err(ViaError);
        }
        let transport = Transport::from_name(transport_name);
        let host_ip = parse_ip(host);
        let mut via = Via { transport, transport_name, host, host_ip, port, raw, ..Via::default() };
        for (name, value) in Params::new(params) {
            via.param(name, value)?;
        }
        Ok(via)
    }

    fn param(&mut self, name: &'a [u8], value: Option<&'a [u8]>) -> Result<(), ViaError> {
        if !chars::is_token(name) {
            return Err(ViaError);
        }
        match name.len() {
            6 if self.branch.is_empty() && name.eq_ignore_ascii_case(b"branch") => {
                self.branch = value.unwrap_or(b"");
                if !self.branch.iter().all(|&b| b > b' ' && b != b'"') {
                    return Err(ViaError);
                }
            }
            5 if name.eq_ignore_ascii_case(b"rport") => {
                let port = value.filter(|v| !v.is_empty()).map(|v| {
                    parse_u32(v).and_then(|p| u16::try_from(p).ok()).filter(|&p| p != 0).ok_or(ViaError)
                });
                let (before, port) = (self.rport.flatten(), port.transpose()?);
                // One of them is the client's own, and nothing says which.
                if before.is_some() && port.is_some() && before != port {
                    return Err(ViaError);
                }
                self.rport = Some(before.or(port));
            }
            5 if self.maddr.is_none() && name.eq_ignore_ascii_case(b"maddr") => self.maddr = value,
            8 if name.eq_ignore_ascii_case(b"received") => {
                let value = value.unwrap_or(&name[..0]);
                self.received = match self.received {
                    Some(before) if before != value => Some(&name[..0]),
                    _ => Some(value),
                };
            }
            3 if name.eq_ignore_ascii_case(b"ttl") => {
                self.ttl = value.and_then(parse_u32).and_then(|t| u8::try_from(t).ok());
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the request came from, by what its receiver wrote: `received`, or `sent-by` if there is none.
    /// `None` if `received` is no address, or there are several: one of them is the client's own, and nothing
    /// says which.
    pub fn source_ip(&self) -> Option<IpAddr> {
        match self.received {
            Some(received) => parse_ip(received),
            None => self.host_ip,
        }
    }

    /// Whether the branch begins with the magic cookie of RFC 3261 section 8.1.1.7.
    pub fn has_cookie(&self) -> bool {
        self.branch.len() > 7 && self.branch[..7].eq_ignore_ascii_case(b"z9hG4bK")
    }

    /// The port that responses go to when no `rport` says otherwise (section 18.2.2).
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or_else(|| self.transport.map_or(5060, Transport::default_port))
    }
}

/// `SIP / 2.0 / transport LWS`: the transport's name and what follows.
fn protocol(raw: &[u8]) -> Result<(&[u8], &[u8]), ViaError> {
    let mut parts = raw.splitn(3, |&b| b == b'/');
    let mut next = || parts.next().map(trim).ok_or(ViaError);
    // Another version is the start line's fault, and is answered as such (RFC 4475 section 3.1.2.16).
    if !next()?.eq_ignore_ascii_case(b"SIP") || !chars::is_token(next()?) {
        return Err(ViaError);
    }
    let rest = next()?;
    let end = rest.iter().position(|&b| is_space(b)).ok_or(ViaError)?;
    let name = &rest[..end];
    if !chars::is_token(name) {
        return Err(ViaError);
    }
    Ok((name, trim(&rest[end..])))
}

type UsualSentBy<'a> = (&'a [u8], Option<IpAddr>, Option<u16>, &'a [u8]);

/// A name or an IPv4 address with its port, if there is one, directly before the parameters or the end.
#[inline(always)]
pub(crate) fn usual_sent_by(s: &[u8]) -> Option<UsualSentBy<'_>> {
    let (host_ip, len) = match leading_ipv4(s) {
        Some((ip, len)) if s.get(len).is_none_or(|&b| !chars::is(b, HOST)) => (Some(IpAddr::V4(ip)), len),
        _ => (None, chars::end_of_host(s)),
    };
    let (host, rest) = s.split_at(len);
    if host.is_empty() || len > 255 {
        return None;
    }
    match rest {
        [b':', digits @ ..] => {
            let (port, len) = leading_port(digits)?;
            Some((host, host_ip, Some(port), &digits[len..]))
        }
        _ => Some((host, host_ip, None, rest)),
    }
}

type HostPort<'a> = (&'a [u8], Option<u16>, &'a [u8]);

/// `host [COLON port]`, where white space may surround the colon.
fn hostport_spaced(s: &[u8]) -> Result<HostPort<'_>, ViaError> {
    let (host, port, rest) = hostport(s).or_else(|_| split_spaced(s))?;
    if port.is_none()
        && rest.first().is_some_and(|&b| is_space(b))
        && let [b':', digits @ ..] = trim(rest)
    {
        let (port, rest) = spaced_port(digits)?;
        return Ok((host, Some(port), rest));
    }
    Ok((host, port, rest))
}

/// The host of `host: port`, which `hostport` refuses because no digit follows the colon.
fn split_spaced(s: &[u8]) -> Result<HostPort<'_>, ViaError> {
    let colon = s.iter().rposition(|&b| b == b':').filter(|&c| s.get(c + 1).is_some_and(|&b| is_space(b)));
    let colon = colon.ok_or(ViaError)?;
    let (host, none, rest) = hostport(trim(&s[..colon])).map_err(|_| ViaError)?;
    if none.is_some() || !rest.is_empty() {
        return Err(ViaError);
    }
    let (port, rest) = spaced_port(&s[colon + 1..])?;
    Ok((host, Some(port), rest))
}

fn spaced_port(s: &[u8]) -> Result<(u16, &[u8]), ViaError> {
    let digits = trim(s);
    let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    let port = parse_u32(&digits[..end]).and_then(|p| u16::try_from(p).ok()).filter(|&p| p != 0);
    Ok((port.ok_or(ViaError)?, &digits[end..]))
}

/// Appends `via` with `received` and `rport` set to what the packet's source says: the value that a
/// server adds to the topmost Via of a request (RFC 3261 section 18.2.1, RFC 3581 section 4).
/// `received` is written when `sent-by` is not the source address, or an `rport` asks for it; what a
/// client wrote in either of them itself is dropped. `always_rport` adds an `rport` unasked, for
/// clients behind address translation that know nothing of RFC 3581.
pub fn push_received(via: &Via<'_>, source: SocketAddr, always_rport: bool, out: &mut Vec<u8>) {
    if via.rport.is_none() && via.received.is_none() {
        out.extend_from_slice(via.raw);
    } else {
        let params_start = memchr::memchr(b';', via.raw).unwrap_or(via.raw.len());
        let (head, params) = via.raw.split_at(params_start);
        out.extend_from_slice(trim(head));
        for (name, value) in Params::new(params) {
            if name.eq_ignore_ascii_case(b"rport") || name.eq_ignore_ascii_case(b"received") {
                continue;
            }
            out.push(b';');
            out.extend_from_slice(name);
            if let Some(value) = value {
                out.push(b'=');
                out.extend_from_slice(value);
            }
        }
    }
    let with_rport = via.rport.is_some() || always_rport;
    if with_rport || via.host_ip != Some(source.ip().to_canonical()) {
        out.extend_from_slice(b";received=");
        push_ip(source.ip(), out);
    }
    if with_rport {
        out.extend_from_slice(b";rport=");
        push_u64(u64::from(source.port()), out);
    }
}

/// Appends an address without brackets, IPv4-mapped ones as IPv4.
pub(crate) fn push_ip(ip: IpAddr, out: &mut Vec<u8>) {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            // Four times three digits and a dot, of which the last is left out.
            let (mut text, mut len) = ([b'.'; 16], 0);
            for octet in v4.octets() {
                let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
                let skip = usize::from(octet < 100) + usize::from(octet < 10);
                for &digit in &digits[skip..] {
                    text[len] = digit;
                    len += 1;
                }
                text[len] = b'.';
                len += 1;
            }
            out.extend_from_slice(&text[..len - 1]);
        }
        IpAddr::V6(v6) => {
            use std::io::Write;
            // Writing to a Vec cannot fail.
            let _ = write!(out, "{v6}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let v =
            Via::parse(b"SIP/2.0/UDP pc33.atlanta.com:5070;branch=z9hG4bK776;rport;maddr=224.2.0.1;ttl=16")
                .unwrap();
        assert_eq!(
            (v.transport, v.host, v.port),
            (Some(Transport::Udp), &b"pc33.atlanta.com"[..], Some(5070))
        );
        assert_eq!((v.branch, v.rport, v.ttl), (&b"z9hG4bK776"[..], Some(None), Some(16)));
        assert!(v.has_cookie());
        let v = Via::parse(b"SIP  / 2.0  / TCP   192.0.2.2 : 5061 ; branch = z9hG4bKkdjuw").unwrap();
        assert_eq!((v.transport, v.host, v.port), (Some(Transport::Tcp), &b"192.0.2.2"[..], Some(5061)));
        let v = Via::parse(b"SIP/2.0/UDP 192.0.2.2: 5061;branch=z9hG4bKkdjuw").unwrap();
        assert_eq!((v.host, v.port), (&b"192.0.2.2"[..], Some(5061)));
        let v = Via::parse(b"SIP/2.0/TLS [2001:db8::9:1];received=2001:db8:0:0:0:0:9:255;branch=z9hG4bKas3")
            .unwrap();
        assert_eq!(v.source_ip(), "2001:db8::9:255".parse().ok());
        let v = Via::parse(b"SIP/2.0/UNKNOWN host;branch=x").unwrap();
        assert_eq!((v.transport, v.transport_name), (None, &b"UNKNOWN"[..]));
    }

    #[test]
    fn broken_values_are_refused() {
        for s in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ",
            "SIP/2.0/UDP a b",
            "SIP/2.0/UDP a;rport=x",
            "SIP/2.0/ a",
            "SIP/2.0/UDP a:70000",
            "SIP/2.0/UDP a;x=\"y",
            "SIP/2.0/UDP a;maddr=\"y\"\"",
            "SIP/2.0/UDP a;=\"y",
        ] {
            assert_eq!(Via::parse(s.as_bytes()), Err(ViaError), "{s}");
        }
    }

    #[test]
    fn the_source_is_recorded() {
        let show = |via: &str, from: &str, always: bool| {
            let mut out = Vec::new();
            push_received(&Via::parse(via.as_bytes()).unwrap(), from.parse().unwrap(), always, &mut out);
            String::from_utf8(out).unwrap()
        };
        let same = "SIP/2.0/UDP 10.1.1.1:4540;branch=z9hG4bKk";
        assert_eq!(show(same, "10.1.1.1:4540", false), same);
        assert_eq!(show(same, "[::ffff:10.1.1.1]:4540", false), same);
        assert_eq!(show(same, "192.0.2.1:9988", false), format!("{same};received=192.0.2.1"));
        assert_eq!(
            show("SIP/2.0/UDP 10.1.1.1:4540;rport;branch=z9hG4bKk", "192.0.2.1:9988", false),
            "SIP/2.0/UDP 10.1.1.1:4540;branch=z9hG4bKk;received=192.0.2.1;rport=9988"
        );
        assert_eq!(
            show("SIP/2.0/UDP h;received=1.2.3.4;rport=1;branch=z9hG4bKk", "[2001:db8::1]:5", false),
            "SIP/2.0/UDP h;branch=z9hG4bKk;received=2001:db8::1;rport=5"
        );
        assert_eq!(show(same, "10.1.1.1:1", true), format!("{same};received=10.1.1.1;rport=1"));
        // However many a client has written.
        for more in [";received=1.2.3.4;Received=10.1.1.1", ";received", ";received=;RECEIVED=1.2.3.4"] {
            assert_eq!(show(&format!("{same}{more}"), "10.1.1.1:4540", false), same, "{more}");
            let natted = format!("{same};received=192.0.2.1;rport=5");
            assert_eq!(show(&format!("{same};rport{more};rport"), "192.0.2.1:5", false), natted, "{more}");
        }
    }

    #[test]
    fn several_received_parameters_name_no_source() {
        let source = |params: &str| {
            let text = format!("SIP/2.0/UDP 10.1.1.1;branch=z9hG4bKk{params}");
            let via = Via::parse(text.as_bytes()).expect("a Via");
            via.source_ip().map(|ip| ip.to_string())
        };
        let some = |ip: &str| Some(ip.to_owned());
        assert_eq!(source(""), some("10.1.1.1"));
        assert_eq!(source(";received=192.0.2.1"), some("192.0.2.1"));
        assert_eq!(source(";received=192.0.2.1;x;Received=192.0.2.1"), some("192.0.2.1"));
        for params in [
            ";received=1.2.3.4;received=192.0.2.1",
            ";received",
            ";received=;received=192.0.2.1",
            ";received=x",
        ] {
            assert_eq!(source(params), None, "{params}");
            assert_eq!(source(&params.replace(';', " ; ")), None, "{params}");
        }
    }

    #[test]
    fn several_rport_parameters_agree_or_are_refused() {
        let rport =
            |params: &str| Via::parse(format!("SIP/2.0/UDP h{params}").as_bytes()).map(|via| via.rport);
        assert_eq!(rport(";rport;rport=5;rport"), Ok(Some(Some(5))));
        assert_eq!(rport(";rport=5;RPORT=5"), Ok(Some(Some(5))));
        assert_eq!(rport(";rport=5;rport=6"), Err(ViaError));
        assert_eq!(rport(";rport=5;rport=x"), Err(ViaError));
    }
}
