//! What the operator decided, as the balancer needs it.

use crate::{Algorithm, Rules};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use wire::{ListenerId, Transport};

/// One listener, which is a datagram socket: the one at index [`ListenerId`] of the runtime.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The bound address; never the unspecified one.
    pub address: SocketAddr,
    /// `host[:port]` to write into messages instead; lower case.
    pub advertise: Option<(Vec<u8>, Option<u16>)>,
    via: Vec<u8>,
    record_route: Vec<u8>,
    sent_by: Vec<u8>,
}

impl Listener {
    /// A listener; the texts that every message needs are made here, once.
    pub fn new(address: SocketAddr, advertise: Option<(Vec<u8>, Option<u16>)>) -> Listener {
        let sent_by = match &advertise {
            Some((host, Some(port))) => format!("{}:{port}", String::from_utf8_lossy(host)),
            Some((host, None)) => String::from_utf8_lossy(host).into_owned(),
            None => address.to_string(),
        };
        Listener {
            address,
            advertise,
            via: format!("Via: SIP/2.0/UDP {sent_by};branch=").into_bytes(),
            record_route: format!("Record-Route: <sip:{sent_by};lr;d=").into_bytes(),
            sent_by: sent_by.into_bytes(),
        }
    }

    /// `Via: SIP/2.0/UDP host:port;branch=`
    pub fn via_prefix(&self) -> &[u8] {
        &self.via
    }

    /// `Record-Route: <sip:host:port;lr;d=`, to be continued and closed.
    pub fn record_route_prefix(&self) -> &[u8] {
        &self.record_route
    }

    /// `host:port`
    pub fn sent_by(&self) -> &[u8] {
        &self.sent_by
    }

    fn is(&self, host: &[u8], ip: Option<IpAddr>, port: Option<u16>) -> bool {
        let given = port.unwrap_or(Transport::Udp.default_port());
        let named = self.advertise.as_ref().is_some_and(|(name, at)| {
            name.eq_ignore_ascii_case(host)
                && port.is_none_or(|p| p == at.unwrap_or(Transport::Udp.default_port()))
        });
        named || (ip == Some(self.address.ip().to_canonical()) && given == self.address.port())
    }
}

/// Where a REGISTER goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterBy {
    /// To the home of its address-of-record, by consistent hashing.
    Aor,
    /// To any node, as the algorithm has it.
    Any,
}

/// Probing by OPTIONS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probing {
    /// From one probe of a node to the next; zero: no probes.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Failures, one after the other, after which a node is down.
    pub down_after: u32,
    /// Good answers, one after the other, after which a node that was down is up.
    pub up_after: u32,
    /// Statuses that count as good. Empty: every one below 500 but 408, for whoever says no still answers.
    pub good: Vec<u16>,
}

impl Default for Probing {
    fn default() -> Probing {
        Probing {
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(500),
            down_after: 2,
            up_after: 2,
            good: Vec::new(),
        }
    }
}

impl Probing {
    /// Whether this status counts as good.
    pub fn is_good(&self, status: u16) -> bool {
        match self.good.is_empty() {
            true => (200..500).contains(&status) && status != 408,
            false => self.good.contains(&status),
        }
    }
}

/// Everything that a reload may change, and the listeners.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The listeners.
    pub listeners: Vec<Listener>,
    /// Who gets new calls.
    pub algorithm: Algorithm,
    /// How calls are kept.
    pub rules: Rules,
    /// Stay in the path of dialogs. Without it later requests must find the balancer by themselves, and after a
    /// restart it does not know where they belong.
    pub record_route: bool,
    /// Where a REGISTER goes.
    pub register: RegisterBy,
    /// Probing.
    pub probing: Probing,
    /// When to come back to a balancer that has no node or no room, seconds.
    pub retry_after: u32,
    /// Max-Forwards of requests that carry none.
    pub max_forwards: u8,
    /// Caps of the message parser.
    pub message: sip_message::Limits,
}

impl Settings {
    /// Settings with these listeners, and defaults.
    pub fn new(listeners: Vec<Listener>) -> Settings {
        Settings {
            listeners,
            algorithm: Algorithm::default(),
            rules: Rules::default(),
            record_route: true,
            register: RegisterBy::Aor,
            probing: Probing::default(),
            retry_after: 5,
            max_forwards: 70,
            message: sip_message::Limits::default(),
        }
    }

    /// A listener.
    pub fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    /// Whether `host` with `port` is one of our listeners.
    pub fn is_self(&self, host: &[u8], port: Option<u16>) -> bool {
        let ip = sip_message::host_ip(host).map(|ip| ip.to_canonical());
        self.listeners.iter().any(|l| l.is(host, ip, port))
    }

    /// The listener for what goes to `remote`: the one that `near` names if it fits, so that what came in on one
    /// socket goes out on the same; else the first that fits.
    pub fn listener_for(&self, remote: SocketAddr, near: ListenerId) -> Option<ListenerId> {
        let ip = remote.ip().to_canonical();
        let fits = |l: &Listener| {
            l.address.is_ipv4() == ip.is_ipv4() && l.address.ip().is_loopback() == ip.is_loopback()
        };
        let family = |l: &Listener| l.address.is_ipv4() == ip.is_ipv4();
        if self.listener(near).is_some_and(fits) {
            return Some(near);
        }
        let all = || self.listeners.iter();
        let at = all().position(fits).or_else(|| all().position(family))?;
        Some(ListenerId(at as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_know_themselves() {
        let listen = |a: &str, name: Option<(&str, Option<u16>)>| {
            Listener::new(a.parse().unwrap(), name.map(|(n, p)| (n.as_bytes().to_vec(), p)))
        };
        let settings = Settings::new(vec![
            listen("127.0.0.1:5070", None),
            listen("192.0.2.1:5060", Some(("lb.example.com", None))),
            listen("[2001:db8::1]:5060", None),
        ]);
        for (host, port, ours) in [
            ("127.0.0.1", Some(5070), true),
            ("127.0.0.1", None, false),
            ("192.0.2.1", None, true),
            ("LB.example.com", None, true),
            ("lb.example.com", Some(5070), false),
            ("[2001:db8::1]", Some(5060), true),
            ("example.com", None, false),
        ] {
            assert_eq!(settings.is_self(host.as_bytes(), port), ours, "{host} {port:?}");
        }
        assert_eq!(settings.listeners[1].via_prefix(), b"Via: SIP/2.0/UDP lb.example.com;branch=");
        assert_eq!(
            settings.listeners[2].record_route_prefix(),
            b"Record-Route: <sip:[2001:db8::1]:5060;lr;d="
        );
        let to = |a: &str, near| settings.listener_for(a.parse().unwrap(), ListenerId(near)).map(|l| l.0);
        assert_eq!(to("127.0.0.9:5060", 1), Some(0));
        assert_eq!(to("198.51.100.1:5060", 0), Some(1));
        assert_eq!(to("198.51.100.1:5060", 1), Some(1));
        assert_eq!(to("[2001:db8::2]:5060", 0), Some(2));
    }
}
