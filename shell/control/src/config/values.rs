//! Texts of single values: to the type meant, or a fault that says what would do.

use super::Emergency;
use super::error::Fault;
use super::types::{Cidr, HostPort, Listener, Source, Target};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
pub(super) use toml_form::text::{LONGEST_TEXT, show_duration, shown};
use wire::Transport;

/// What is said to who asks for one.
pub(super) const OTHER_DATABASES: &str = "databases other than SQLite are not in this version";

/// Whether nothing can be sent to one host at this address.
pub fn nowhere(ip: IpAddr) -> bool {
    let broadcast = matches!(ip.to_canonical(), IpAddr::V4(v4) if v4.is_broadcast());
    ip.to_canonical().is_unspecified() || ip.to_canonical().is_multicast() || broadcast
}

/// A transport that this version has.
pub(super) fn transport(name: &str) -> Result<Transport, Fault> {
    match Transport::from_name(name.as_bytes()) {
        Some(found @ (Transport::Udp | Transport::Tcp | Transport::Tls | Transport::Sctp)) => Ok(found),
        Some(found) => {
            Err(Fault::new(format!("transport {found}: not in this version"), "use udp, tcp or tls"))
        }
        None => Err(Fault::new(format!("unknown transport \"{}\"", shown(name)), "use udp, tcp or tls")),
    }
}

/// `udp:0.0.0.0:5060`.
pub(super) fn listener(written: &str) -> Result<Listener, Fault> {
    let example = "write it as \"udp:0.0.0.0:5060\" or \"tls:[::]:5061\"";
    let Some((name, address)) = written.split_once(':') else {
        return Err(Fault::new(format!("\"{}\" is not a listener", shown(written)), example));
    };
    let known = Transport::from_name(name.as_bytes()).is_some();
    if let Some(fault) = without_transport(written).filter(|_| !known) {
        return Err(fault);
    }
    let transport = match Transport::from_name(name.as_bytes()) {
        Some(web @ (Transport::Ws | Transport::Wss)) => web,
        _ => transport(name)?,
    };
    let (address, more) = match transport {
        Transport::Sctp => several(address)?,
        _ => (address.parse().map_err(|_| no_address(address, example))?, Vec::new()),
    };
    if std::iter::once(&address.ip()).chain(&more).any(IpAddr::is_multicast) {
        return Err(Fault::new("cannot listen on a multicast address", example));
    }
    Ok(Listener { transport, address, more, advertise: None, optional: false })
}

fn no_address(written: &str, example: &str) -> Fault {
    Fault::new(format!("\"{}\" is not an IP address and port", shown(written)), example)
}

/// Most addresses of a listener.
const MOST_ADDRESSES: usize = 8;

/// `192.0.2.1,198.51.100.1:5060`: addresses of one family, and the port that they share.
fn several(written: &str) -> Result<(SocketAddr, Vec<IpAddr>), Fault> {
    let example =
        "write it as \"sctp:192.0.2.1:5060\", or \"sctp:192.0.2.1,198.51.100.1:5060\" with all addresses";
    let (last, port) = written.rsplit_once(':').ok_or_else(|| no_address(written, example))?;
    let mut all = Vec::new();
    for one in last.split(',') {
        let address = format!("{}:{port}", one.trim()).parse::<SocketAddr>();
        all.push(address.map_err(|_| no_address(written, example))?);
    }
    let (first, more) = all.split_first().ok_or_else(|| no_address(written, example))?;
    let more: Vec<IpAddr> = more.iter().map(SocketAddr::ip).collect();
    if more.len() >= MOST_ADDRESSES {
        return Err(Fault::new(
            format!("more than {MOST_ADDRESSES} addresses of one listener"),
            "name fewer",
        ));
    }
    if more.iter().any(|ip| ip.is_ipv4() != first.is_ipv4()) {
        return Err(Fault::new("addresses of both families in one listener", "write one listener for each"));
    }
    if !more.is_empty() && all.iter().any(|a| a.ip().is_unspecified()) {
        return Err(Fault::new("an unspecified address has all others with it", "name it alone"));
    }
    let twice = more.iter().enumerate().find(|(nth, ip)| **ip == first.ip() || more[..*nth].contains(ip));
    if let Some((_, ip)) = twice {
        return Err(Fault::new(format!("{ip} is there twice"), "remove one"));
    }
    Ok((*first, more))
}

/// What is said of a listener that is only an address, and perhaps a port.
fn without_transport(written: &str) -> Option<Fault> {
    let ip = || written.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 5060));
    let port = |text: &str| text.parse::<u16>().is_ok();
    let mend = match written.parse::<SocketAddr>().or_else(|_| ip()) {
        Ok(address) => format!("write it as \"udp:{address}\" or \"tcp:{address}\""),
        Err(_) if written.split_once(':').is_some_and(|(_, rest)| port(rest)) => {
            "write it as \"udp:0.0.0.0:5060\" or \"tcp:[::]:5060\", with an address of this machine"
                .to_owned()
        }
        Err(_) => return None,
    };
    Some(Fault::new(format!("\"{}\" names no transport", shown(written)), mend))
}

/// `127.0.0.1:8080` or `off`.
pub(super) fn admin_listener(written: &str) -> Result<Option<SocketAddr>, Fault> {
    if written.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    written.parse().map(Some).map_err(|_| {
        let what = format!("\"{}\" is not an IP address and port", shown(written));
        Fault::new(what, "write it as \"127.0.0.1:8080\" or \"off\"")
    })
}

/// A DNS server: an address, with port 53 unless it says otherwise.
pub(super) fn dns_server(written: &str) -> Result<SocketAddr, Fault> {
    let address = written.parse().or_else(|_| written.parse().map(|ip: IpAddr| SocketAddr::new(ip, 53)));
    address.map_err(|_| {
        Fault::new(format!("\"{}\" is not an address", shown(written)), "write it as \"192.0.2.53\"")
    })
}

/// A host name or address, made lower case, IPv6 put in brackets.
pub(super) fn host(written: &str) -> Result<String, Fault> {
    let bare = written.strip_prefix('[').and_then(|w| w.strip_suffix(']')).unwrap_or(written);
    if let Ok(ip) = bare.parse::<Ipv6Addr>() {
        return Ok(format!("[{ip}]"));
    }
    let name = written.strip_suffix('.').unwrap_or(written);
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if !name.is_ascii() {
        let what = format!("\"{}\" has letters beyond ASCII", shown(written));
        return Err(Fault::new(what, "write the name in its xn-- form"));
    }
    let looks_numeric = name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let good = name.len() <= 253 && name.split('.').all(label_ok);
    if !good || (looks_numeric && name.parse::<IpAddr>().is_err()) {
        let what = format!("\"{}\" is not a host name or address", shown(written));
        return Err(Fault::new(what, "a name such as \"example.com\", without scheme and port"));
    }
    Ok(name.to_ascii_lowercase())
}

/// The domain of an address-of-record: a host name or address, or digits alone, as cameras have them.
pub(super) fn domain(written: &str) -> Result<String, Fault> {
    if is_digits(written) { Ok(written.to_owned()) } else { host(written) }
}

/// Whether a domain is digits alone, no more than a label of a name may have.
pub(super) fn is_digits(domain: &str) -> bool {
    (1..=63).contains(&domain.len()) && domain.bytes().all(|b| b.is_ascii_digit())
}

/// `host` or `host:port`.
pub(super) fn host_port(written: &str) -> Result<HostPort, Fault> {
    // A bare IPv6 address has colons of its own.
    if written.parse::<Ipv6Addr>().is_ok() {
        return host(written).map(|host| HostPort { host, port: None });
    }
    let split = match written.rfind(':') {
        Some(colon) if !written.get(colon..).is_some_and(|rest| rest.contains(']')) => Some(colon),
        _ => None,
    };
    let Some((name, port)) = split.and_then(|colon| written.split_at_checked(colon)) else {
        return host(written).map(|host| HostPort { host, port: None });
    };
    let port = port.get(1..).and_then(|digits| digits.parse().ok()).filter(|port| *port != 0);
    match port {
        Some(port) => host(name).map(|host| HostPort { host, port: Some(port) }),
        None => {
            let what = format!("\"{}\" has no usable port", shown(written));
            Err(Fault::new(what, "a port is a number from 1 to 65535"))
        }
    }
}

/// A URI to send to: `sip:[user@]host[:port][;transport=tcp]`, or the same with `sips:`.
pub(super) fn target(written: &str) -> Result<Target, Fault> {
    let example = "write it as \"sip:192.0.2.1:5060;transport=tcp\"";
    if written.bytes().any(|b| b <= b' ' || matches!(b, b'<' | b'>' | b'"' | b'?') || b >= 0x7f) {
        let what = format!("\"{}\" is not a plain SIP URI", shown(written));
        return Err(Fault::new(what, example));
    }
    let rest = match written.split_once(':') {
        Some((scheme, rest)) if ["sip", "sips"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            rest
        }
        _ => return Err(Fault::new(format!("\"{}\" is not a SIP URI", shown(written)), example)),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) if !user.is_empty() && !user.contains('@') => (Some(user.to_owned()), rest),
        Some(_) => return Err(Fault::new("the URI has no usable user", example)),
        None => (None, rest),
    };
    // Compared with nothing but written into requests.
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;/:%".contains(&b);
    if let Some(user) = user.as_deref().filter(|user| !user.bytes().all(legal) || unescaped(user).is_none()) {
        let what = format!("\"{}\" has a user that must be escaped", shown(user));
        return Err(Fault::new(what, "write two hexadecimal digits for each such character: %23 for #"));
    }
    let (address, params) = rest.split_once(';').unwrap_or((rest, ""));
    if address.parse::<Ipv6Addr>().is_ok() {
        return Err(Fault::new("an IPv6 address in a URI needs brackets", format!("write [{address}]")));
    }
    let HostPort { host, port } = host_port(address)?;
    let mut over = None;
    for param in params.split(';') {
        if let Some((name, value)) = param.split_once('=')
            && name.eq_ignore_ascii_case("transport")
        {
            over = Some(transport(value)?);
        }
    }
    // RFC 5630 section 5.3: `transport=tcp` in a sips: URI is the transport below TLS.
    if written.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("sips:")) {
        if let Some(other) = over.filter(|over| !matches!(over, Transport::Tcp | Transport::Tls)) {
            let mend = "leave the transport out, or write sip:";
            return Err(Fault::new(format!("sips: goes over TLS, not over {other}"), mend));
        }
        over = Some(Transport::Tls);
    }
    Ok(Target { uri: written.to_owned(), user, host, port, transport: over, rank: None })
}

/// `10.0.0.0/8`, or one address.
pub(super) fn cidr(written: &str) -> Result<Cidr, Fault> {
    let not = || {
        let what = format!("\"{}\" is not a block of addresses", shown(written));
        Fault::new(what, "write it as \"192.0.2.0/24\" or \"192.0.2.1\"")
    };
    let (address, length) = written.split_once('/').map_or((written, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().map_err(|_| not())?;
    let Some(length) = length else { return Ok(Cidr::single(address)) };
    let widest = if address.is_ipv4() { 32 } else { 128 };
    let length: u8 = length.parse().ok().filter(|l| *l <= widest).ok_or_else(not)?;
    let first = first_of(address, length);
    if first != address {
        let what = format!("{} has bits set beyond /{length}", shown(written));
        return Err(Fault::new(what, format!("write \"{first}/{length}\"")));
    }
    Ok(Cidr { address, length })
}

/// A block of addresses, or `tls:NAME`: the name in a certificate.
pub(super) fn source(written: &str) -> Result<Source, Fault> {
    let Some(name) = written.strip_prefix("tls:") else {
        let is_name = host(written).is_ok_and(|name| name.contains(|c: char| c.is_ascii_lowercase()));
        return cidr(written).map(Source::Block).map_err(|fault| match is_name && !written.contains(':') {
            true => Fault::new(
                format!("\"{}\" is a host name, which cannot be a source", shown(written)),
                format!("list its addresses, or write \"tls:{written}\" if its certificate has this name"),
            ),
            false => fault,
        });
    };
    if name.starts_with("*.") {
        let mend = "write each host name; a wildcard in a certificate does not count (RFC 5922)";
        return Err(Fault::new(format!("\"{}\" is not the name of one host", shown(name)), mend));
    }
    let name = host(name)?;
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    Ok(Source::Name(bare.parse::<IpAddr>().map_or(name.clone(), |ip| ip.to_string())))
}

/// The first address of the block that `address` is in.
fn first_of(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}

/// A token (RFC 3261 section 25.1), such as a method name.
pub(super) fn token(written: &str) -> Result<String, Fault> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&b);
    if written.is_empty() || written.len() > 64 || !written.bytes().all(good) {
        return Err(Fault::new(format!("\"{}\" is not a token", shown(written)), ""));
    }
    Ok(written.to_owned())
}

/// Part of the user of a URI, such as a number prefix, without escapes that it can do without. It is compared
/// and sent with those that a URI needs.
pub(super) fn user_part(written: &str) -> Result<String, Fault> {
    let good = |c: char| !(c.is_control() || c.is_whitespace() || ":;@\"\\<>".contains(c));
    if written.is_empty() || written.len() > 64 || !written.chars().all(good) {
        let what = format!("\"{}\" cannot be in the user part of a URI", shown(written));
        return Err(Fault::new(what, "digits such as \"+44\" or \"00\", without blanks"));
    }
    let no_escape = || {
        let what = format!("\"{}\" has a % that begins no escape of a character", shown(written));
        Fault::new(what, "write the character itself; \"%25\" stands for %")
    };
    let plain = String::from_utf8(unescaped(written).ok_or_else(no_escape)?);
    Ok(plain.ok().filter(|plain| plain.chars().all(good)).unwrap_or_else(|| written.to_owned()))
}

/// The bytes that a text with escapes of two hexadecimal digits stands for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let (first, others) = text.split_once('%').map_or((text, None), |(first, rest)| (first, Some(rest)));
    let mut bytes = first.as_bytes().to_vec();
    for part in others.into_iter().flat_map(|rest| rest.split('%')) {
        let (digits, rest) = part.split_at_checked(2)?;
        let digits = Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

/// A number that is dialled for emergency calls.
pub(super) fn dialled(written: &str) -> Result<String, Fault> {
    let good = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'*');
    if !(2..=Emergency::LONGEST_NUMBER).contains(&written.len()) || !written.bytes().all(good) {
        let what = format!("\"{}\" is no number for emergencies", shown(written));
        return Err(Fault::new(what, "2 to 32 digits, `+` or `*`, such as \"112\""));
    }
    Ok(written.to_owned())
}

/// A word for names and realms: printable ASCII without quotes and backslashes.
pub(super) fn plain(written: &str) -> Result<String, Fault> {
    let good = |b: u8| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\';
    if written.trim().is_empty() || written.len() > 128 || !written.bytes().all(good) {
        let what = format!("\"{}\" does not do here", shown(written));
        return Err(Fault::new(what, "1 to 128 printable characters without quotes"));
    }
    Ok(written.to_owned())
}
