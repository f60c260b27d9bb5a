//! Values that several sections have.

use super::error::Fault;
use super::form::*;
use super::reader::{Reader, Section};
use super::values::target;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
pub(super) use toml_form::named;
use wire::Transport;

/// How long a target may say nothing at all, where the file does not say.
pub(super) const SILENT_AFTER: Duration = Duration::from_secs(2);

/// One listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The transport protocol.
    pub transport: Transport,
    /// The address to bind; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Further addresses of the same family, of SCTP alone: each association has all of them.
    pub more: Vec<IpAddr>,
    /// The name and port to write into messages instead of the address.
    pub advertise: Option<HostPort>,
    /// Only in the default list: do without this listener when the system lacks the address family.
    pub optional: bool,
}

/// `host` or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or address, lower case, IPv6 in brackets.
    pub host: String,
    /// The port, if given.
    pub port: Option<u16>,
}

/// A `sip:` or `sips:` URI that requests are sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The URI as written.
    pub uri: String,
    /// Its user part.
    pub user: Option<String>,
    /// Its host, lower case, IPv6 in brackets.
    pub host: String,
    /// Its port.
    pub port: Option<u16>,
    /// Its `transport` parameter; TLS where the scheme is `sips:`.
    pub transport: Option<Transport>,
    /// Its place among those of its list, where that is not their order.
    pub rank: Option<Rank>,
}

/// The place of a target among others (RFC 2782).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Those with the lowest number are tried first.
    pub priority: u16,
    /// Its part of the calls among those of one priority.
    pub weight: u16,
}

/// A block of addresses, `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The first address of the block.
    pub address: IpAddr,
    /// Leading bits that count.
    pub length: u8,
}

/// Where the requests of a trunk come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// These addresses.
    Block(Cidr),
    /// A peer whose certificate has this name: a domain in lower case, or an address.
    Name(String),
}

impl Target {
    /// The host as an address, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl Target {
    /// Whether the other one is at the same host and port.
    pub(super) fn is_server_of(&self, other: &Target) -> bool {
        let port = |target: &Target| target.port.or(target.transport.map(|t| t.default_port()));
        self.host == other.host && port(self).unwrap_or(5060) == port(other).unwrap_or(5060)
    }

    /// Whether it may be reached over TLS. For a host name without transport the DNS decides.
    pub fn may_be_secure(&self) -> bool {
        self.transport.map_or(self.ip().is_none(), Transport::is_secure)
    }
}

impl Cidr {
    /// The block of one address.
    pub fn single(address: IpAddr) -> Cidr {
        let address = address.to_canonical();
        Cidr { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether `address` is in the block. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.transport)?;
        let all = || std::iter::once(self.address.ip()).chain(self.more.iter().copied());
        for (nth, ip) in all().enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            match ip {
                IpAddr::V4(ip) => write!(f, "{comma}{ip}")?,
                IpAddr::V6(ip) => write!(f, "{comma}[{ip}]")?,
            }
        }
        write!(f, ":{}", self.address.port())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Block(block) => write!(f, "{block}"),
            Source::Name(name) => write!(f, "tls:{name}"),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// How long a target may say nothing at all.
pub(super) fn silence() -> One<Duration> {
    length(Duration::from_millis(100)..=Duration::from_secs(30))
}

/// URIs to send to. An empty list is an error, which [`check_targets`] reports.
pub(super) fn targets() -> Many<Target> {
    list(text("SIP URI", target)).once("target").no_default()
}

/// Reports an empty list of URIs.
pub(super) fn check_targets(section: &Section<'_, '_>, reader: &mut Reader<'_>, key: &str) {
    if section.is_empty_list(key) {
        let mend = "name at least one, such as \"sip:192.0.2.1:5060\"";
        reader.error(&section.span_of(key), Fault::new(format!("`{key}` is empty"), mend));
    }
}

/// Texts as the core has them.
pub(super) fn bytes_of(list: &[String]) -> Vec<Vec<u8>> {
    list.iter().map(|text| text.clone().into_bytes()).collect()
}

/// URIs as the core has them.
pub(super) fn uris(targets: &[Target]) -> Vec<Vec<u8>> {
    targets.iter().map(|target| target.uri.clone().into_bytes()).collect()
}

/// What the operator wrote of a called user, as it is compared with one and written into a URI.
pub(super) fn user_bytes(written: &str) -> Vec<u8> {
    sip_message::canonical_user(written.as_bytes()).into_owned()
}

/// Whole milliseconds.
pub(super) fn millis(length: Duration) -> u32 {
    u32::try_from(length.as_millis()).unwrap_or(u32::MAX)
}
