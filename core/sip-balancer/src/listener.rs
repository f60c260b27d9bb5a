//! Listeners, and their names in messages and tokens.

use core::net::{IpAddr, SocketAddr};
use sip_message::Uri;
use sip_proxy::transport::{listener_uri, secure_listener_uri, transport_of};
use wire::Transport;

/// The id of a listener in tokens: its transport, and twelve bits of a hash of its name in messages. So it
/// is found again at any place in the list, and at another balancer, as long as its name is the same.
///
/// Earlier builds, which had only UDP and TCP, wrote 0 and 1 for these, as this one does: their tokens are
/// accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mark(pub u16);

/// Bits of a mark that tell listeners of one transport apart. Those above are the transport; a branch has
/// room for three of them.
const APART: u16 = 0x0fff;
const KIND: u32 = APART.count_ones();

impl Mark {
    /// Of a listener with this name in messages.
    fn new(transport: Transport, sent_by: &str) -> Mark {
        let kind: u16 = match transport {
            Transport::Udp => 0,
            Transport::Tcp => 1,
            Transport::Tls => 2,
            Transport::Ws => 3,
            Transport::Wss => 4,
            Transport::Sctp => 5,
        };
        let hash = crate::hash::scramble(crate::hash::fnv1a(sent_by.to_ascii_lowercase().as_bytes()));
        Mark(kind << KIND | hash as u16 & APART)
    }

    /// The transport; `None`: one that only later builds have.
    pub fn transport(self) -> Option<Transport> {
        match self.0 >> KIND {
            0 => Some(Transport::Udp),
            1 => Some(Transport::Tcp),
            2 => Some(Transport::Tls),
            3 => Some(Transport::Ws),
            4 => Some(Transport::Wss),
            5 => Some(Transport::Sctp),
            _ => None,
        }
    }
}

/// One listener: the socket at index [`ListenerId`](wire::ListenerId) of the runtime.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The transport on which requests come in.
    pub transport: Transport,
    /// The bound address; never the unspecified one.
    pub address: SocketAddr,
    /// `host[:port]` to write into messages instead; lower case.
    pub advertise: Option<(Vec<u8>, Option<u16>)>,
    via: Vec<u8>,
    record_route: Vec<u8>,
    /// The same as a `sips:` URI, if the listener may be in one.
    secure: Option<Vec<u8>>,
    sent_by: Vec<u8>,
    mark: Mark,
}

/// The beginning of a Record-Route line.
const RECORD_ROUTE: &[u8] = b"Record-Route: ";

impl Listener {
    /// A listener; the texts that every message needs are made here, once.
    pub fn new(
        transport: Transport,
        address: SocketAddr,
        advertise: Option<(Vec<u8>, Option<u16>)>,
    ) -> Listener {
        let sent_by = match &advertise {
            Some((host, Some(port))) => format!("{}:{port}", String::from_utf8_lossy(host)),
            Some((host, None)) => String::from_utf8_lossy(host).into_owned(),
            None => address.to_string(),
        };
        let route = |uri: String| [RECORD_ROUTE, b"<", uri.as_bytes(), b";lr;d="].concat();
        Listener {
            transport,
            address,
            advertise,
            via: format!("Via: SIP/2.0/{} {sent_by};branch=", transport.via_name()).into_bytes(),
            record_route: route(listener_uri(transport, &sent_by)),
            secure: secure_listener_uri(transport, &sent_by).map(route),
            mark: Mark::new(transport, &sent_by),
            sent_by: sent_by.into_bytes(),
        }
    }

    /// Its id in tokens, within its list.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// `Via: SIP/2.0/UDP host:port;branch=`
    pub fn via_prefix(&self) -> &[u8] {
        &self.via
    }

    /// `Record-Route: <sip:host:port;lr;d=`, with the transport if it is not UDP, to be continued and closed.
    /// For a `secure` request it is a `sips:` URI, if that can be (RFC 3261 section 16.6 step 4).
    pub fn record_route_prefix(&self, secure: bool) -> &[u8] {
        self.secure.as_ref().filter(|_| secure).unwrap_or(&self.record_route)
    }

    /// The beginning of a Route value that was our Record-Route.
    pub(crate) fn route_prefix(&self, secure: bool) -> &[u8] {
        self.record_route_prefix(secure).get(RECORD_ROUTE.len()..).unwrap_or_default()
    }

    /// The part of a Route value after [`Listener::route_prefix`].
    pub(crate) fn strip_route<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let secure = || value.strip_prefix(self.secure.as_deref()?.get(RECORD_ROUTE.len()..)?);
        value.strip_prefix(self.route_prefix(false)).or_else(secure)
    }

    /// `host:port`
    pub fn sent_by(&self) -> &[u8] {
        &self.sent_by
    }

    /// Whether a URI names it. The host of the URI is given as an address, if it is one.
    pub(crate) fn is(&self, uri: &Uri<'_>, ip: Option<IpAddr>) -> bool {
        let named = self.advertise.as_ref().is_some_and(|(name, at)| {
            let own = || at.unwrap_or(self.transport.default_port());
            name.eq_ignore_ascii_case(uri.host) && uri.port.is_none_or(|port| port == own())
        });
        let port = || uri.port.unwrap_or_else(|| transport_of(uri).default_port());
        named || (ip == Some(self.address.ip().to_canonical()) && port() == self.address.port())
    }
}

/// Gives other marks to listeners whose marks are equal by chance, in an order that does not depend on the
/// list.
pub(crate) fn tell_apart(listeners: &mut [Listener]) {
    let mut order: Vec<usize> = (0..listeners.len()).collect();
    order.sort_by(|a, b| listeners[*a].via.cmp(&listeners[*b].via));
    let mut taken: Vec<Mark> = Vec::with_capacity(listeners.len());
    for at in order {
        let Mark(mut mark) = listeners[at].mark;
        // There are at most as many steps as listeners, and far more marks than listeners.
        for _ in 0..listeners.len() {
            if !taken.contains(&Mark(mark)) {
                break;
            }
            mark = mark & !APART | mark.wrapping_add(1) & APART;
        }
        listeners[at].mark = Mark(mark);
        taken.push(Mark(mark));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(transport: Transport, address: &str, name: Option<(&str, Option<u16>)>) -> Listener {
        let name = name.map(|(name, port)| (name.as_bytes().to_vec(), port));
        Listener::new(transport, address.parse().unwrap(), name)
    }

    #[test]
    fn transports_are_named_as_uris_and_vias_name_them() {
        use Transport::{Sctp, Tcp, Tls, Udp, Ws, Wss};
        for (transport, via, route, secure) in [
            (Udp, "UDP", "sip:192.0.2.1:5060", "sip:192.0.2.1:5060"),
            (Tcp, "TCP", "sip:192.0.2.1:5060;transport=tcp", "sip:192.0.2.1:5060;transport=tcp"),
            (Tls, "TLS", "sip:192.0.2.1:5060;transport=tls", "sips:192.0.2.1:5060"),
            (Ws, "WS", "sip:192.0.2.1:5060;transport=ws", "sip:192.0.2.1:5060;transport=ws"),
            (Wss, "WSS", "sip:192.0.2.1:5060;transport=ws", "sips:192.0.2.1:5060;transport=ws"),
            (Sctp, "SCTP", "sip:192.0.2.1:5060;transport=sctp", "sip:192.0.2.1:5060;transport=sctp"),
        ] {
            let listener = listen(transport, "192.0.2.1:5060", None);
            let texts = [listener.via_prefix(), listener.route_prefix(false), listener.route_prefix(true)];
            let wanted = [
                format!("Via: SIP/2.0/{via} 192.0.2.1:5060;branch="),
                format!("<{route};lr;d="),
                format!("<{secure};lr;d="),
            ];
            assert_eq!(texts, wanted.each_ref().map(String::as_bytes));
            assert_eq!(listener.mark().transport(), Some(transport));
            for route in [route, secure] {
                let value = format!("<{route};lr;d=02>");
                assert_eq!(listener.strip_route(value.as_bytes()), Some(&b"02>"[..]), "{value}");
            }
            assert_eq!(listener.strip_route(b"<sips:192.0.2.2:5060;lr;d=02>"), None);
        }
    }

    #[test]
    fn marks_of_earlier_builds_mean_what_they_meant() {
        // The marks of builds that had only UDP and TCP.
        let hash =
            |sent_by: &str| crate::hash::scramble(crate::hash::fnv1a(sent_by.as_bytes())) as u16 & APART;
        for (transport, kind) in [(Transport::Udp, 0), (Transport::Tcp, 1 << 12)] {
            let mark = listen(transport, "192.0.2.1:5060", None).mark();
            assert_eq!(mark, Mark(kind | hash("192.0.2.1:5060")));
        }
        assert_eq!([Mark(0x6001), Mark(0xf001)].map(Mark::transport), [None, None]);
    }

    #[test]
    fn uri_without_a_port_means_that_of_its_transport() {
        let named = |at: &str, transport, address, name| {
            let uri = Uri::parse(at.as_bytes()).unwrap();
            listen(transport, address, name).is(&uri, uri.host_ip())
        };
        for (at, ours) in [
            ("sips:192.0.2.1", true),
            ("sip:192.0.2.1;transport=tls", true),
            ("sip:192.0.2.1:5061", true),
            ("sip:192.0.2.1", false),
            ("sips:192.0.2.1;transport=ws", false),
        ] {
            assert_eq!(named(at, Transport::Tls, "192.0.2.1:5061", None), ours, "{at}");
        }
        assert!(named("sips:192.0.2.1;transport=ws", Transport::Wss, "192.0.2.1:443", None));
        let name = Some(("lb.example.com", None));
        for (at, ours) in [
            ("sips:lb.example.com", true),
            ("sip:LB.example.com:5061;transport=tls", true),
            ("sip:lb.example.com:5060", false),
        ] {
            assert_eq!(named(at, Transport::Tls, "192.0.2.1:5061", name), ours, "{at}");
        }
    }
}
