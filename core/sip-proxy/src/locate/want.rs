//! What is asked: the parts of a URI that say where a request goes, and what this server can do.

use super::dns::is_host_name;
use super::error::Error;
use core::net::{IpAddr, Ipv4Addr};
use wire::Transport;

/// A set of transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transports(u8);

impl Transports {
    /// None at all.
    pub const NONE: Transports = Transports(0);

    /// This set and one more.
    pub const fn with(self, transport: Transport) -> Transports {
        Transports(self.0 | 1 << transport as u8)
    }

    /// Whether `transport` is in it.
    pub const fn has(self, transport: Transport) -> bool {
        self.0 & 1 << transport as u8 != 0
    }
}

impl FromIterator<Transport> for Transports {
    fn from_iter<I: IntoIterator<Item = Transport>>(transports: I) -> Transports {
        transports.into_iter().fold(Transports::NONE, Transports::with)
    }
}

/// What this server can send with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ability {
    /// Transports it has listeners for, or can open connections with.
    pub transports: Transports,
    /// Whether it has IPv4 and IPv6.
    pub v4: bool,
    /// See `v4`.
    pub v6: bool,
    /// Which family is tried first where a host has both.
    pub v6_first: bool,
}

/// The next hop: a SIP or SIPS URI (of the top Route, or the Request-URI).
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// A `sips:` URI: TLS only.
    pub secure: bool,
    /// The `maddr` parameter if there is one, else the host; RFC 3263 calls it TARGET. An IPv6 address
    /// in brackets.
    pub host: &'a [u8],
    /// The port of the URI.
    pub port: Option<u16>,
    /// The value of the `transport` parameter, in any case.
    pub transport: Option<&'a [u8]>,
    /// The request is too large for a datagram (RFC 3261 18.1.1: over 1300 bytes).
    pub large: bool,
}

/// What is known before any look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target<'a> {
    Address(IpAddr),
    Name(&'a [u8]),
}

impl<'a> Want<'a> {
    /// The numeric address, or the name, of the host.
    pub(super) fn target(&self) -> Result<Target<'a>, Error> {
        if let Some(address) = numeric(self.host) {
            return if is_unicast(address) { Ok(Target::Address(address)) } else { Err(Error::BadHost) };
        }
        // A trailing dot marks an absolute name; all our names are.
        let name = self.host.strip_suffix(b".").unwrap_or(self.host);
        if is_host_name(name) { Ok(Target::Name(name)) } else { Err(Error::BadHost) }
    }

    /// The transport that the URI demands, `None` if it leaves the choice.
    pub(super) fn demanded(&self, able: &Ability) -> Result<Option<Transport>, Error> {
        let Some(name) = self.transport else { return Ok(None) };
        let named = Transport::from_name(name).ok_or(Error::NoTransport)?;
        let demanded = if self.secure { secured(named)? } else { named };
        if able.transports.has(demanded) { Ok(Some(demanded)) } else { Err(Error::NoTransport) }
    }

    /// The transports to look for where the URI leaves the choice, best first. The last one is only for
    /// a server that has nothing else.
    pub(super) fn order(&self) -> &'static [Transport] {
        if self.secure {
            &[Transport::Tls]
        } else if self.large {
            &[Transport::Tcp, Transport::Sctp, Transport::Udp, Transport::Tls]
        } else {
            &[Transport::Udp, Transport::Tcp, Transport::Sctp, Transport::Tls]
        }
    }

    /// The transport where neither URI nor DNS chose one (RFC 3263 section 4.1): UDP, or what comes
    /// nearest among those that the server has.
    pub(super) fn default_transport(&self, able: &Ability) -> Result<Transport, Error> {
        self.order().iter().copied().find(|t| able.transports.has(*t)).ok_or(Error::NoTransport)
    }
}

/// The transport of a SIPS URI: TLS over what the parameter names (RFC 3261 26.2.2; `tls` itself is an
/// old spelling). There is no TLS over UDP, and this server has none over SCTP.
fn secured(named: Transport) -> Result<Transport, Error> {
    match named {
        Transport::Tcp | Transport::Tls => Ok(Transport::Tls),
        Transport::Ws | Transport::Wss => Ok(Transport::Wss),
        Transport::Udp | Transport::Sctp => Err(Error::NoTransport),
    }
}

/// A numeric address; IPv6 with or without brackets.
pub(super) fn numeric(host: &[u8]) -> Option<IpAddr> {
    sip_message::host_ip(host)
}

/// Whether one host can have this address. A request is never sent to a group or to "any".
pub(super) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_unicast_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_unicast_v4(v4),
            None => !v6.is_unspecified() && !v6.is_multicast(),
        },
    }
}

fn is_unicast_v4(v4: Ipv4Addr) -> bool {
    !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast()
}
