//! Where calls go, as it is said on the command line.

use super::args::LoadArgs;
use super::ways::is_web;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use wire::Transport;

/// Where calls go, if any do.
pub fn remote(args: &LoadArgs, needed: bool) -> Result<SocketAddr, String> {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let Some(target) = &args.target else {
        return match needed {
            true => Err("where do the calls go? Name the target: strowger load -sn uac HOST:PORT".into()),
            false => Ok(nowhere),
        };
    };
    find(target, args.over())
}

/// Schemes that a target may have, their transports, and what to do if `-t` has another transport.
const SCHEMES: [(&str, Transport, &str); 7] = [
    ("sips:", Transport::Tls, "this is TLS: add -t l1 or -t ln"),
    ("tls:", Transport::Tls, "this is TLS: add -t l1 or -t ln"),
    ("wss://", Transport::Wss, "this is WebSocket over TLS: add -t wss1 or -t wssn"),
    ("wss:", Transport::Wss, "this is WebSocket over TLS: add -t wss1 or -t wssn"),
    ("ws://", Transport::Ws, "this is WebSocket: add -t w1 or -t wn"),
    ("ws:", Transport::Ws, "this is WebSocket: add -t w1 or -t wn"),
    ("sctp:", Transport::Sctp, "this is SCTP: add -t s1 or -t sn"),
];

/// A target without its scheme, and the transport of the scheme, if it has one.
fn parts(target: &str) -> (&str, Option<(Transport, &'static str)>) {
    let own = SCHEMES
        .into_iter()
        .find_map(|(scheme, transport, mend)| Some((target.strip_prefix(scheme)?, Some((transport, mend)))));
    own.unwrap_or((target, None))
}

/// A target without its scheme.
fn bare(target: &str) -> &str {
    parts(target).0
}

/// The address of `HOST` or `HOST:PORT`, with a scheme if it is that of the transport.
pub fn find(target: &str, over: Transport) -> Result<SocketAddr, String> {
    let (host, scheme) = parts(target);
    if let Some((_, mend)) = scheme.filter(|(transport, _)| *transport != over) {
        return Err(format!("{target}: {mend}"));
    }
    if let Some((_, path)) = host.split_once('/').filter(|_| is_web(over)) {
        return Err(format!("{target}: give the path with --websocket-path /{path}"));
    }
    let found = look_up(host, over)?;
    // Systems take these for this machine, or for nothing (RFC 1122 section 3.2.1.3).
    let nobody = match found.ip() {
        IpAddr::V4(ip) => ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    match nobody {
        true => Err(format!(
            "{target}: nobody has the address {}; name the server's own one, or its name",
            found.ip()
        )),
        false => Ok(found),
    }
}

fn look_up(target: &str, over: Transport) -> Result<SocketAddr, String> {
    if let Some(("sip" | "udp" | "tcp", rest)) = target.split_once(':')
        && !rest.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("{target}: write HOST or HOST:PORT; -t selects the transport"));
    }
    if let Ok(address) = target.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = target.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, over.default_port()));
    }
    let (host, port) = match target.rsplit_once(':') {
        Some((host, port)) => {
            (host, port.parse().map_err(|_| format!("{target}: {port} is no port (1 to 65535)"))?)
        }
        None => (target, over.default_port()),
    };
    let number = |c: char| c.is_ascii_digit() || "[].:".contains(c);
    if host.parse::<IpAddr>().is_err() && host.chars().all(number) {
        return Err(format!(
            "{target}: calls go to an address (192.0.2.1, [2001:db8::1]) or a name, perhaps with :PORT, and this is \
             neither; is the name of an option missing before it?"
        ));
    }
    let found = (host, port).to_socket_addrs().map_err(|error| format!("cannot find {host}: {error}"))?;
    found.into_iter().next().ok_or_else(|| format!("{host} has no address"))
}

/// A target without its port.
pub fn host_of(target: &str) -> String {
    let target = bare(target);
    match target.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') || host.ends_with(']') => host.to_owned(),
        _ => target.to_owned(),
    }
}

/// A target with the port that it has if it names none.
pub fn with_port(target: &str, over: Transport) -> String {
    let (target, port) = (bare(target), over.default_port());
    match target.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) if host_of(target) == target => format!("{target}:{port}"),
        Err(_) => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(target: &str) -> Result<SocketAddr, String> {
        super::find(target, Transport::Udp)
    }

    #[test]
    fn schemes_of_tls_are_for_tls() {
        for (target, want) in [
            ("sips:127.0.0.1", "127.0.0.1:5061"),
            ("tls:127.0.0.1:5071", "127.0.0.1:5071"),
            ("tls:[::1]", "[::1]:5061"),
            ("127.0.0.1", "127.0.0.1:5061"),
        ] {
            let want = want.parse().expect("an address");
            assert_eq!(super::find(target, Transport::Tls), Ok(want), "{target}");
            assert!(target.starts_with("127") || find(target).is_err_and(|why| why.contains("-t l1")));
        }
        assert!(super::find("sip:127.0.0.1", Transport::Tls).is_err_and(|why| why.contains("write HOST")));
        assert_eq!((&*host_of("sips:x.test:5071"), &*host_of("tls:[::1]")), ("x.test", "[::1]"));
    }

    #[test]
    fn schemes_of_websocket_and_sctp_are_for_their_transports() {
        for (target, over, want) in [
            ("ws://127.0.0.1", Transport::Ws, "127.0.0.1:80"),
            ("wss:127.0.0.1", Transport::Wss, "127.0.0.1:443"),
            ("wss://[::1]:5443", Transport::Wss, "[::1]:5443"),
            ("sctp:127.0.0.1", Transport::Sctp, "127.0.0.1:5060"),
        ] {
            assert_eq!(super::find(target, over), Ok(want.parse().expect("an address")), "{target}");
            assert!(super::find(target, Transport::Tls).is_err_and(|why| why.contains("add -t")), "{target}");
        }
        let path = super::find("ws://127.0.0.1/sip", Transport::Ws);
        assert!(path.is_err_and(|why| why.contains("--websocket-path /sip")));
    }

    #[test]
    fn a_number_is_no_target() {
        for number in ["10", "10:5060", "127.1", "1.2.3", "", "[127]", "1.2.3.4.5:5060"] {
            assert!(
                find(number).is_err_and(|why| why.contains("this is neither")),
                "{number}: {:?}",
                find(number)
            );
        }
        assert!(find("10-0-0-1.invalid").is_err_and(|why| why.starts_with("cannot find")), "a name");
        for nobody in ["0.0.0.0", "0.0.0.10:5060", "[::]:5060", "::"] {
            assert!(find(nobody).is_err_and(|why| why.contains("nobody has the address")), "{nobody}");
        }
        for (good, want) in [
            ("127.0.0.1", "127.0.0.1:5060"),
            ("10.0.0.1:5070", "10.0.0.1:5070"),
            ("[::1]:5070", "[::1]:5070"),
            ("[::1]", "[::1]:5060"),
            ("::1", "[::1]:5060"),
        ] {
            assert_eq!(find(good), Ok(want.parse().expect("an address")), "{good}");
        }
    }

    #[test]
    fn the_port_is_shown() {
        for (target, want) in [
            ("192.0.2.1", "192.0.2.1:5060"),
            ("192.0.2.1:5070", "192.0.2.1:5070"),
            ("::1", "[::1]:5060"),
            ("[::1]", "[::1]:5060"),
            ("[::1]:5070", "[::1]:5070"),
            ("x.test", "x.test:5060"),
        ] {
            assert_eq!(with_port(target, Transport::Tcp), want);
        }
        assert_eq!(with_port("sips:x.test", Transport::Tls), "x.test:5061");
    }
}
