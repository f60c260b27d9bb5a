//! The option `-t`: the transport, and how calls share sockets.

use super::args::LoadArgs;
use super::target::with_port;
use clap::Args;
use wire::Transport;
use worker_runtime::WebSocketClient;

/// How calls share sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sockets {
    /// All calls share one. Over UDP each worker has one.
    One,
    /// Each call has its own.
    Call,
    /// Each local address has its own.
    Address,
}

/// A transport, and how calls share its sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    pub transport: Transport,
    pub sockets: Sockets,
}

const fn way(transport: Transport, sockets: Sockets) -> Way {
    Way { transport, sockets }
}

/// All values of `-t`. Those that SIPp has keep SIPp's names.
const WAYS: [(&str, Way); 13] = [
    ("u1", way(Transport::Udp, Sockets::One)),
    ("un", way(Transport::Udp, Sockets::Call)),
    ("ui", way(Transport::Udp, Sockets::Address)),
    ("t1", way(Transport::Tcp, Sockets::One)),
    ("tn", way(Transport::Tcp, Sockets::Call)),
    ("l1", way(Transport::Tls, Sockets::One)),
    ("ln", way(Transport::Tls, Sockets::Call)),
    ("w1", way(Transport::Ws, Sockets::One)),
    ("wn", way(Transport::Ws, Sockets::Call)),
    ("wss1", way(Transport::Wss, Sockets::One)),
    ("wssn", way(Transport::Wss, Sockets::Call)),
    ("s1", way(Transport::Sctp, Sockets::One)),
    ("sn", way(Transport::Sctp, Sockets::Call)),
];

/// The values of `-t`, for messages.
const ALL: &str = "u1, un, ui (UDP), t1, tn (TCP), l1, ln (TLS), w1, wn (WebSocket), wss1, wssn (WebSocket over TLS), \
                   s1 or sn (SCTP)";

impl Way {
    /// The value with this name.
    fn named(name: &str) -> Option<Way> {
        WAYS.iter().find(|(own, _)| *own == name).map(|(_, way)| *way)
    }

    /// The value of `-t`.
    pub fn of(args: &LoadArgs) -> Result<Way, String> {
        let name = args.transport.as_str();
        Way::named(name).ok_or_else(|| match name {
            "c1" | "cn" => format!("-t {name}: not in this version; use {ALL}"),
            "ws" => "-t ws: use w1 (one WebSocket connection) or wn (one for each call)".to_owned(),
            "wss" => {
                "-t wss: use wss1 (one WebSocket connection over TLS) or wssn (one for each call)".to_owned()
            }
            _ => format!("-t {name}: no such transport; use {ALL}"),
        })
    }
}

impl LoadArgs {
    /// The value of `-t`, or its default.
    fn way(&self) -> Way {
        Way::named(&self.transport).unwrap_or(way(Transport::Udp, Sockets::One))
    }

    /// The transport of calls.
    pub fn over(&self) -> Transport {
        self.way().transport
    }

    /// How calls share sockets.
    pub fn sockets(&self) -> Sockets {
        self.way().sockets
    }

    /// Whether each call has its own connection.
    pub fn has_connections_of_calls(&self) -> bool {
        self.over() != Transport::Udp && self.sockets() == Sockets::Call
    }
}

/// Options of a run over WebSocket.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "From where")]
pub struct WebArgs {
    /// Request this path when a WebSocket connection is opened [default: /]
    #[arg(long, value_name = "PATH", conflicts_with = "backend")]
    pub websocket_path: Option<String>,
}

/// Whether calls go over WebSocket.
pub fn is_web(transport: Transport) -> bool {
    matches!(transport, Transport::Ws | Transport::Wss)
}

/// What the requests of WebSocket connections contain, if any are opened.
pub fn websocket(args: &LoadArgs) -> Result<Option<WebSocketClient>, String> {
    let over = args.over();
    let path = args.web.websocket_path.as_deref();
    if let Some(path) = path.filter(|_| !is_web(over)) {
        return Err(format!("--websocket-path {path} needs WebSocket: add -t w1, wn, wss1 or wssn"));
    }
    let path = path.unwrap_or("/");
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("--websocket-path {path}: a path begins with / and has no spaces"));
    }
    let Some(target) = args.target.as_deref().filter(|_| is_web(over)) else { return Ok(None) };
    // The default port of the scheme is left out (RFC 6455 section 4.1).
    let host = with_port(target, over);
    let usual = format!(":{}", over.default_port());
    Ok(Some(WebSocketClient::new(host.strip_suffix(&usual).unwrap_or(&host), path)))
}

/// The host name of this side in messages, if nobody can connect to it (RFC 7118 section 5).
pub fn alias(transport: Transport, calls: bool, number: u32) -> Option<String> {
    (is_web(transport) && calls).then(|| format!("{number:08x}.invalid"))
}

/// The message that a WebSocket connection failed, with the reason and the mend.
pub fn fault(args: &LoadArgs, why: &str) -> String {
    let target = super::advice::target(args).unwrap_or_default();
    let path = args.web.websocket_path.as_deref().unwrap_or("/");
    format!(
        "{}{target} over WebSocket: {why}; is the path {path} right (--websocket-path)?",
        super::advice::UNCONNECTED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_help() {
        for (name, own) in WAYS {
            let args = LoadArgs::of(["-t", name]);
            assert_eq!(Way::of(&args), Ok(own), "{name}");
            assert!(ALL.contains(name), "{name}");
            assert_eq!(args.has_connections_of_calls(), name.ends_with('n') && name != "un", "{name}");
        }
        for (wrong, why) in [("c1", "not in this version"), ("ws", "w1"), ("wss", "wss1"), ("x", "no such")] {
            assert!(Way::of(&LoadArgs::of(["-t", wrong])).is_err_and(|said| said.contains(why)), "{wrong}");
        }
    }

    #[test]
    fn path_of_websocket_needs_websocket() {
        let said = |line: &str| websocket(&LoadArgs::of(line.split(' '))).map(|own| own.is_some());
        assert_eq!(said("-t w1 h"), Ok(true));
        assert_eq!(said("-t wssn h:443 --websocket-path /sip?a=b"), Ok(true));
        assert_eq!((said("-t w1"), said("-t t1 h")), (Ok(false), Ok(false)));
        assert!(said("-t l1 h --websocket-path /x").is_err_and(|why| why.contains("-t w1")));
        for wrong in ["x", "", "/a\tb"] {
            let args = LoadArgs::of(["-t", "w1", "h", "--websocket-path", wrong]);
            assert!(websocket(&args).is_err_and(|why| why.contains("begins with /")), "{wrong}");
        }
    }

    #[test]
    fn clients_of_websocket_have_no_address() {
        assert_eq!(alias(Transport::Wss, true, 0xbeef).as_deref(), Some("0000beef.invalid"));
        assert_eq!((alias(Transport::Ws, false, 1), alias(Transport::Tls, true, 1)), (None, None));
    }
}
