//! What the operator decided, as the balancer needs it.

use crate::listener::tell_apart;
use crate::{Algorithm, Listener, Mark};
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::Uri;
use wire::{ListenerId, Transport};

/// Where a REGISTER goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterBy {
    /// To the home of its address-of-record, by consistent hashing.
    Aor,
    /// To any node, as the algorithm has it.
    Any,
}

/// When the balancer puts itself into the Path of a REGISTER (RFC 3327).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathBy {
    /// For phones behind address translation that say that they know of it.
    Auto,
    /// For everybody.
    Always,
    /// For nobody.
    Never,
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

/// What becomes of calls whose node has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedDialogs {
    /// Their requests go to another node, which either shares what it must know or says 481 at once.
    Move,
    /// They get 503.
    Refuse,
}

/// What an operator can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// What becomes of calls whose node has failed.
    pub failed_dialogs: FailedDialogs,
    /// A call without any message for so long is taken to be over.
    pub session_timeout: Duration,
    /// An INVITE that has had a provisional response and then nothing for so long is given up. Longer
    /// than timer C (RFC 3261 section 16.6).
    pub ring_timeout: Duration,
    /// Requests without an answer, one after the other, after which a node counts as failed.
    pub down_after: u32,
    /// Whether probes say who is down. Otherwise a failed node only rests for `rest`.
    pub probed: bool,
    /// How long a failed node rests that nobody probes.
    pub rest: Duration,
    /// An INVITE outside a dialog whose node has said nothing at all for so long, to this or anything else,
    /// goes to another one. Zero: it waits for its sender.
    pub silent_after: Duration,
    /// For how long the share of a node grows that has come up.
    pub slow_start: Duration,
    /// How many of a hundred nodes may rest because they are far worse than the others; zero: none.
    pub outlier_share: u8,
    /// How long such a one rests.
    pub outlier_rest: Duration,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            failed_dialogs: FailedDialogs::Move,
            session_timeout: Duration::from_secs(4 * 3_600),
            ring_timeout: Duration::from_secs(200),
            down_after: 3,
            probed: true,
            rest: Duration::from_secs(5),
            silent_after: Duration::from_millis(400),
            slow_start: Duration::from_secs(5),
            outlier_share: 10,
            outlier_rest: Duration::from_secs(30),
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
    /// Stay in the path of dialogs. Without it later requests must find the balancer by themselves, and after
    /// a restart it does not know where they belong.
    pub record_route: bool,
    /// What goes to nodes leaves from the first listener that fits, and in messages the balancer is called as
    /// it is where the request came in. So answers come back to the balancer that asked (RFC 3261 section
    /// 18.2.2) where several have one common address at the same time.
    pub own_source: bool,
    /// Where a REGISTER goes.
    pub register: RegisterBy,
    /// When the balancer is in the Path.
    pub path: PathBy,
    /// Probing.
    pub probing: Probing,
    /// Whether nodes may say that they want less (RFC 7339). It takes probes.
    pub overload_control: bool,
    /// When to come back to a balancer that has no node or no room, seconds.
    pub retry_after: u32,
    /// Max-Forwards of requests that carry none.
    pub max_forwards: u8,
    /// Requests longer than this go over TCP where they may (RFC 3261 section 18.1.1), bytes.
    pub mtu: usize,
    /// Caps of the message parser.
    pub message: sip_message::Limits,
}

impl Settings {
    /// Settings with these listeners, and defaults.
    pub fn new(mut listeners: Vec<Listener>) -> Settings {
        tell_apart(&mut listeners);
        Settings {
            listeners,
            algorithm: Algorithm::default(),
            rules: Rules::default(),
            record_route: true,
            own_source: false,
            register: RegisterBy::Aor,
            path: PathBy::Auto,
            probing: Probing::default(),
            overload_control: true,
            retry_after: 5,
            max_forwards: 70,
            mtu: 1_300,
            message: sip_message::Limits::default(),
        }
    }

    /// A listener.
    pub fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    /// Whether a URI names one of our listeners.
    pub fn is_self(&self, uri: &Uri<'_>) -> bool {
        let ip = uri.host_ip().map(|ip| ip.to_canonical());
        self.listeners.iter().any(|l| l.is(uri, ip))
    }

    /// The token in a Route value that is one of ours as we wrote it, octet for octet.
    pub(crate) fn token_as_written<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let token = self.listeners.iter().find_map(|l| l.strip_route(value))?;
        let token = token.strip_suffix(b">")?;
        token.iter().all(u8::is_ascii_hexdigit).then_some(token)
    }

    /// What tokens call a listener.
    pub fn mark(&self, id: ListenerId) -> Mark {
        self.listener(id).map_or(Mark(0), Listener::mark)
    }

    /// The listener that a token names, for what goes to `remote`; where it is no more, one that can be used
    /// instead.
    pub fn marked(&self, mark: Mark, remote: SocketAddr) -> Option<ListenerId> {
        match self.listeners.iter().position(|l| l.mark() == mark) {
            Some(at) => Some(ListenerId(at as u16)),
            None => self.listener_for(mark.transport()?, remote, ListenerId(u16::MAX)),
        }
    }

    /// The listener for what goes to `remote` over `transport`: the one that `near` names if it fits, so that
    /// what came in on one socket goes out on the same; else the one with the same address; else the first
    /// that fits.
    pub fn listener_for(
        &self,
        transport: Transport,
        remote: SocketAddr,
        near: ListenerId,
    ) -> Option<ListenerId> {
        let ip = remote.ip().to_canonical();
        let family = |l: &Listener| l.transport == transport && l.address.is_ipv4() == ip.is_ipv4();
        let fits = |l: &Listener| family(l) && l.address.ip().is_loopback() == ip.is_loopback();
        let near_ip = match self.listener(near) {
            Some(l) if fits(l) => return Some(near),
            other => other.map(|l| l.address.ip()),
        };
        let all = || self.listeners.iter();
        let beside = all().position(|l| Some(l.address.ip()) == near_ip && fits(l));
        let at = beside.or_else(|| all().position(fits)).or_else(|| all().position(family))?;
        Some(ListenerId(at as u16))
    }

    /// The listener whose socket sends to a node what `named` is called in: the first that could be it, and
    /// that has its port, for answers go to the address that a request came from, and to the port in its Via
    /// (RFC 3261 section 18.2.2).
    pub(crate) fn source(&self, named: ListenerId) -> ListenerId {
        if !self.own_source {
            return named;
        }
        let Some(it) = self.listener(named) else { return named };
        let place = |l: &Listener| {
            let ip = l.address.ip();
            (l.transport, ip.is_ipv4(), ip.is_loopback(), l.address.port())
        };
        let first = self.listeners.iter().position(|l| place(l) == place(it));
        first.map_or(named, |at| ListenerId(at as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_know_themselves() {
        let listen = |a: &str, name: Option<(&str, Option<u16>)>| {
            Listener::new(Transport::Udp, a.parse().unwrap(), name.map(|(n, p)| (n.as_bytes().to_vec(), p)))
        };
        let settings = Settings::new(vec![
            listen("127.0.0.1:5070", None),
            listen("192.0.2.1:5060", Some(("lb.example.com", None))),
            listen("[2001:db8::1]:5060", None),
        ]);
        for (host, ours) in [
            ("127.0.0.1:5070", true),
            ("127.0.0.1", false),
            ("192.0.2.1", true),
            ("LB.example.com", true),
            ("lb.example.com:5070", false),
            ("[2001:db8::1]:5060", true),
            ("example.com", false),
        ] {
            let uri = format!("sip:{host}");
            assert_eq!(settings.is_self(&Uri::parse(uri.as_bytes()).unwrap()), ours, "{host}");
        }
        assert_eq!(settings.listeners[1].via_prefix(), b"Via: SIP/2.0/UDP lb.example.com;branch=");
        assert_eq!(
            settings.listeners[2].record_route_prefix(false),
            b"Record-Route: <sip:[2001:db8::1]:5060;lr;d="
        );
        let to = |a: &str, near| {
            settings.listener_for(Transport::Udp, a.parse().unwrap(), ListenerId(near)).map(|l| l.0)
        };
        assert_eq!(to("127.0.0.9:5060", 1), Some(0));
        assert_eq!(to("198.51.100.1:5060", 0), Some(1));
        assert_eq!(to("198.51.100.1:5060", 1), Some(1));
        assert_eq!(to("[2001:db8::2]:5060", 0), Some(2));
    }

    #[test]
    fn the_source_of_what_goes_to_nodes_is_the_first_that_answers_can_come_back_to() {
        let listen = |t, a: &str| Listener::new(t, a.parse().unwrap(), None);
        let mut settings = Settings::new(vec![
            listen(Transport::Udp, "192.0.2.11:5060"),
            listen(Transport::Udp, "192.0.2.10:5060"),
            listen(Transport::Tcp, "192.0.2.10:5060"),
            listen(Transport::Udp, "192.0.2.10:5070"),
            listen(Transport::Udp, "[2001:db8::10]:5060"),
        ]);
        let sources =
            |settings: &Settings| (0..5).map(|at| settings.source(ListenerId(at)).0).collect::<Vec<_>>();
        assert_eq!(sources(&settings), [0, 1, 2, 3, 4]);
        settings.own_source = true;
        assert_eq!(sources(&settings), [0, 0, 2, 3, 4]);
    }
    #[test]
    fn a_listener_is_found_by_its_mark_wherever_it_stands() {
        let listen = |t, a: &str| Listener::new(t, a.parse().unwrap(), None);
        let list = vec![
            listen(Transport::Udp, "192.0.2.1:5060"),
            listen(Transport::Tcp, "192.0.2.1:5060"),
            listen(Transport::Udp, "192.0.2.1:5070"),
        ];
        let before = Settings::new(list.clone());
        let mut more = list;
        more.reverse();
        more.insert(0, listen(Transport::Udp, "192.0.2.2:5060"));
        let after = Settings::new(more);
        let remote = "198.51.100.1:5060".parse().unwrap();
        for (at, moved) in [(0, 3), (1, 2), (2, 1)] {
            let mark = before.mark(ListenerId(at));
            assert_eq!(after.marked(mark, remote), Some(ListenerId(moved)));
            assert_eq!(Some(after.listeners[usize::from(moved)].transport), mark.transport());
        }
        // One that is gone: what is left of its transport.
        let gone = Settings::new(vec![
            listen(Transport::Udp, "192.0.2.9:5060"),
            listen(Transport::Tcp, "192.0.2.9:5060"),
        ]);
        assert_eq!(gone.marked(before.mark(ListenerId(1)), remote), Some(ListenerId(1)));
        // Two that are called the same.
        let name = || Some((b"lb.example.com".to_vec(), None));
        let twins = ["192.0.2.1:5060", "192.0.2.2:5060"]
            .map(|a| Listener::new(Transport::Udp, a.parse().unwrap(), name()));
        let twins = Settings::new(twins.to_vec());
        assert_ne!(twins.mark(ListenerId(0)), twins.mark(ListenerId(1)));
    }
}
