//! The transport rules that proxies share (RFC 3261 section 18, RFC 3581): where responses go, and what
//! is said of a stream that cannot be followed.

use core::net::SocketAddr;
use sip_message::{Message, Scheme, Uri};
use wire::{Credit, Flow, FrameError, Transport};

/// The transport that a URI means. For `sips:` it is TLS, whatever the transport below (RFC 5630 section
/// 5.3), with WebSocket above it if the parameter says so (RFC 7118 section 5.2).
pub fn transport_of(uri: &Uri<'_>) -> Transport {
    match (uri.scheme, uri.transport()) {
        (Scheme::Sips, Some(Transport::Ws | Transport::Wss)) => Transport::Wss,
        (Scheme::Sips, _) => Transport::Tls,
        (_, named) => named.unwrap_or(Transport::Udp),
    }
}

/// The Warning line of a 480 for a request to a `sips:` URI that could only be forwarded unencrypted (RFC
/// 5630 section 5.3).
pub const SIPS_NOT_ALLOWED: &[u8] = b"Warning: 380 proxy \"SIPS Not Allowed\"\r\n";

/// `sip:HOST:PORT;transport=…`, the URI of a listener with this `sent-by`. In URIs WebSocket has one name,
/// with and without TLS (RFC 7118 section 5.2).
pub fn listener_uri(transport: Transport, sent_by: &str) -> String {
    match transport {
        Transport::Udp => format!("sip:{sent_by}"),
        Transport::Wss => format!("sip:{sent_by};transport={}", Transport::Ws),
        other => format!("sip:{sent_by};transport={other}"),
    }
}

/// The same as a `sips:` URI, if the listener may be in one. The scheme means TLS, and the parameter names
/// what is above it (RFC 5630 section 5.3, RFC 7118 section 5.2).
pub fn secure_listener_uri(transport: Transport, sent_by: &str) -> Option<String> {
    match transport {
        Transport::Tls => Some(format!("sips:{sent_by}")),
        Transport::Wss => Some(format!("sips:{sent_by};transport={}", Transport::Ws)),
        Transport::Udp | Transport::Tcp | Transport::Ws | Transport::Sctp => None,
    }
}

/// Where the responses to a request go (RFC 3261 section 18.2.2, RFC 3581 section 4): always to the
/// address it came from, never to one it names, so that nobody can point answers at others. Over UDP
/// the port is the source's if the client asked for that with `rport`, or if it is behind address
/// translation (its `sent-by` is not its address) and would hear nothing else; otherwise the one in
/// `sent-by`. On a stream it is the connection that the request came on.
pub fn reply_flow(flow: Flow, request: &Message<'_>) -> Flow {
    if flow.transport != Transport::Udp {
        return flow;
    }
    let via = request.via();
    if via.rport.is_some() || is_natted(flow, request) {
        return flow;
    }
    Flow { remote: SocketAddr::new(flow.remote.ip(), via.port_or_default()), ..flow }
}

/// Whether a response of `len` bytes may go to an address that may be forged: at most three times what came
/// from there (RFC 3261 section 26.1.5).
pub fn repays(flow: Flow, request: &Message<'_>, len: usize) -> bool {
    flow.transport.is_reliable() || Credit::of(request.bytes().len()).pays(len, 0)
}

/// Whether the sender's own idea of its address is not the one we see.
pub fn is_natted(flow: Flow, request: &Message<'_>) -> bool {
    request.via_host_ip().is_some_and(|ip| ip != flow.remote.ip().to_canonical())
}

/// Whether `rport` goes into the received Via unasked: where the response will need the source port.
pub fn always_rport(flow: Flow, request: &Message<'_>) -> bool {
    flow.transport == Transport::Udp && is_natted(flow, request)
}

/// Status and reason of the answer to the head of a message that broke a stream.
pub fn broken_stream(error: FrameError) -> (u16, &'static [u8]) {
    match error {
        FrameError::HeadTooLong => (513, b"Message Too Large"),
        FrameError::BodyTooLong => (413, b"Request Entity Too Large"),
        FrameError::BadLength => (400, b"Missing Or Malformed Content-Length"),
        FrameError::NotAMessage => (400, b"Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};
    use wire::{ConnId, ListenerId};

    fn reply(via: &str, stream: bool) -> (Flow, bool) {
        let text = format!(
            "OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP {via};branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:a>\r\nCall-ID: x\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        let remote = "192.0.2.9:4444".parse().expect("an address");
        let mut flow = Flow::udp(ListenerId(0), remote);
        if stream {
            flow = Flow { transport: Transport::Tcp, conn: Some(ConnId::new(0, 7)), ..flow };
        }
        let mut index = Index::new();
        match parse(text.as_bytes(), &mut index, &Limits::default()) {
            Parsed::Good(m) => (reply_flow(flow, &m), always_rport(flow, &m)),
            _ => panic!("it parses"),
        }
    }

    #[test]
    fn answers_go_to_the_address_they_are_for() {
        let port = |via: &str| reply(via, false).0.remote.port();
        assert_eq!(
            [port("192.0.2.9:5070"), port("192.0.2.9"), port("192.0.2.9:5070;rport")],
            [5070, 5060, 4444]
        );
        // Behind a translation, asked or not.
        assert_eq!((port("10.0.0.1:5070"), reply("10.0.0.1", false).1), (4444, true));
        // On a stream back on the same connection.
        let (flow, rport) = reply("10.0.0.1:5070", true);
        assert_eq!((flow.remote.port(), flow.conn, rport), (4444, Some(ConnId::new(0, 7)), false));
    }
}
