//! What the operator decided, as the node needs it: plain values, nothing left to check.

use crate::account::Account;
use call_limits::Classes;
use call_rules::{Callers, HeaderRules, NumberPlan};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use sip_auth::Authenticator;
use sip_health::{Gateways, Line, LineLimits};
use sip_message::{Message, Name, Uri, Via, host_ip, is_base64url};
use sip_proxy::context::Reroute;
use sip_proxy::session_timer::Policy as SessionPolicy;
use sip_proxy::transport::{listener_uri, secure_listener_uri};
use sip_registrar::{is_outside, is_public};
use std::sync::Arc;
use wire::{ListenerId, Transport};

/// Proxies one behind the other in front of this server that are looked beyond.
const MOST_FRONTS: usize = 4;

/// One listener: the socket at index [`ListenerId`] of the runtime.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The transport protocol.
    pub transport: Transport,
    /// The bound address; never the unspecified one, so that it can be written into messages.
    pub address: SocketAddr,
    /// `host[:port]` for Via, Record-Route and Contact instead of the address; lower case.
    pub advertise: Option<(Vec<u8>, Option<u16>)>,
    /// The address as it stands in a URI.
    host_text: Vec<u8>,
    via: Vec<u8>,
    record_route: Vec<u8>,
    /// The same as a `sips:` URI, of a listener that may be in one.
    record_route_secure: Option<Vec<u8>>,
}

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
        let via = format!("Via: SIP/2.0/{} {sent_by};branch=", transport.via_name()).into_bytes();
        let route = |uri: String| format!("Record-Route: <{uri};lr").into_bytes();
        let record_route = route(listener_uri(transport, &sent_by));
        let record_route_secure = secure_listener_uri(transport, &sent_by).map(route);
        let host_text = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let host_text = host_text.into_bytes();
        Listener { transport, address, advertise, host_text, via, record_route, record_route_secure }
    }

    /// Whether a URI or Via with this port means our port.
    fn is_port(&self, port: Option<u16>) -> bool {
        port.unwrap_or(self.transport.default_port()) == self.address.port()
    }

    /// `Via: SIP/2.0/UDP host:port;branch=`
    pub fn via_prefix(&self) -> &[u8] {
        &self.via
    }

    /// `sent-by` as it stands in our Via.
    pub fn sent_by(&self) -> &[u8] {
        let start = self.via.iter().rposition(|&b| b == b' ').map_or(0, |at| at + 1);
        &self.via[start..self.via.len() - b";branch=".len()]
    }

    /// `Record-Route: <sip:host:port;lr`, to be continued and closed. For a `secure` request it is a
    /// `sips:` URI, if that can be (RFC 3261 section 16.6 step 4).
    pub fn record_route_prefix(&self, secure: bool) -> &[u8] {
        self.record_route_secure.as_ref().filter(|_| secure).unwrap_or(&self.record_route)
    }
}

/// Which methods are challenged. ACK and CANCEL never are (RFC 3261 section 22.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Challenge {
    /// Every other method.
    All,
    /// Only these.
    Only(Vec<Vec<u8>>),
}

impl Challenge {
    /// Whether `method` is challenged.
    pub fn covers(&self, method: &[u8]) -> bool {
        match self {
            Challenge::All => true,
            Challenge::Only(list) => list.iter().any(|m| m == method),
        }
    }
}

/// Digest authentication.
#[derive(Clone)]
pub struct Auth {
    /// Whether local users are challenged at all.
    pub enabled: bool,
    /// For which methods.
    pub challenge: Challenge,
    /// One realm for all; `None`: the domain of the user.
    pub realm: Option<Vec<u8>>,
    /// The From user must be the authenticated one.
    pub bind_from: bool,
    /// Whether users are challenged within a dialog although its token and their address say who they are.
    pub in_dialog: bool,
    /// Blocks of addresses, with prefix lengths, of proxies and balancers in front of this server. They say
    /// truly, in the Via below theirs, where a request came from.
    pub fronts: Vec<(IpAddr, u8)>,
    /// Issues challenges and judges credentials; shared by all workers.
    pub authenticator: Arc<Authenticator>,
}

impl Auth {
    /// Everything is challenged, by this authenticator, in the domain of the user.
    pub fn new(authenticator: Arc<Authenticator>) -> Auth {
        Auth {
            enabled: true,
            challenge: Challenge::All,
            realm: None,
            bind_from: true,
            in_dialog: false,
            fronts: Vec::new(),
            authenticator,
        }
    }

    /// Whether a proxy or balancer in front of this server has this address.
    pub fn is_front(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.fronts.iter().any(|&(net, length)| in_block(net, length, ip))
    }

    /// Where a request came from, for what is remembered of wrong credentials: the sender, or who sent it to
    /// the proxy in front of this server, which has checked that Via (RFC 3261 section 18.2.1). Of several
    /// proxies in front, one behind the other, the first one is asked.
    pub fn source(&self, sender: IpAddr, request: &Message<'_>) -> IpAddr {
        let mut source = sender.to_canonical();
        if !self.is_front(source) {
            return source;
        }
        for below in request.values(Name::Via).skip(1).take(MOST_FRONTS) {
            let Ok(via) = Via::parse(below) else { break };
            let Some(ip) = via.source_ip() else { break };
            source = ip.to_canonical();
            if !self.is_front(source) {
                break;
            }
        }
        source
    }
}

/// How requests are handled that are not for the server itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// With transactions (RFC 3261 section 16).
    Stateful,
    /// Without (section 16.11).
    Stateless,
    /// Answered with the target set in Contact (section 8.3).
    Redirect,
}

/// Forwarding.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// How.
    pub mode: Mode,
    /// Targets of equal q at once, or one after the other.
    pub parallel: bool,
    /// Stay in the path of dialogs.
    pub record_route: bool,
    /// Follow 3xx responses.
    pub recurse: bool,
    /// Largest Max-Breadth (RFC 5393).
    pub max_breadth: u8,
    /// Max-Forwards of requests that carry none.
    pub max_forwards: u8,
    /// Timer C, milliseconds.
    pub timer_c_ms: u32,
    /// How long an INVITE waits for another response before it gets a 100, milliseconds; at most 200 (section
    /// 17.2.1). 0: every INVITE gets one at once, as in an overload.
    pub trying_ms: u32,
    /// Requests over UDP longer than this go over TCP where possible (section 18.1.1); bytes.
    pub mtu: usize,
    /// What senders may send that this server does not know.
    pub strangers: crate::Strangers,
    /// What limits the calls of users and trunks that leave.
    pub classes: Classes,
    /// The session timers that are asked for (RFC 4028). `None`: none are.
    pub session: Option<SessionPolicy>,
    /// A call without INVITE or UPDATE for so long is no longer known.
    pub session_timeout: Duration,
    /// Forwarding by the rules of users.
    pub forwarding: crate::CallForwarding,
}

impl Default for Proxy {
    fn default() -> Proxy {
        Proxy {
            mode: Mode::Stateful,
            parallel: true,
            record_route: true,
            recurse: false,
            max_breadth: 60,
            max_forwards: 70,
            timer_c_ms: 185_000,
            trying_ms: 0,
            mtu: 1_300,
            strangers: crate::Strangers::default(),
            classes: Classes::default(),
            session: None,
            session_timeout: Duration::from_secs(86_400),
            forwarding: crate::CallForwarding::default(),
        }
    }
}

/// Where unanswered calls go (RFC 4458).
#[derive(Clone, Debug)]
pub struct Voicemail {
    /// A SIP URI.
    pub uri: Vec<u8>,
    /// For which reasons.
    pub on: Reroute,
    /// How long a callee may ring first, milliseconds; 0: until timer C.
    pub no_answer_ms: u32,
    /// How long it may say nothing at all, milliseconds.
    pub silent_after_ms: u32,
}

impl Default for Voicemail {
    fn default() -> Voicemail {
        Voicemail { uri: Vec::new(), on: Reroute::ALWAYS, no_answer_ms: 20_000, silent_after_ms: 2_000 }
    }
}

/// Another server that calls are exchanged with.
#[derive(Clone, Debug)]
pub struct Trunk {
    /// Its name.
    pub name: Vec<u8>,
    /// SIP URIs in failover order.
    pub targets: Vec<Vec<u8>>,
    /// Priority and weight of each target (RFC 2782). Empty: they are tried in their order.
    pub weights: Vec<(u16, u16)>,
    /// What it may have.
    pub limits: LineLimits,
    /// The calls that it carries; see [`Settings::watching`].
    pub line: Option<Arc<Line>>,
    /// Blocks of addresses, with prefix lengths, whose requests are trusted as this trunk's.
    pub sources: Vec<(IpAddr, u8)>,
    /// Names in certificates. A peer that proves one of them is this trunk.
    pub source_names: Vec<Vec<u8>>,
    /// The authorities that vouch for these names; empty: those of the whole server.
    pub authority: Vec<u8>,
    /// The name that its servers must prove, if it is not the host of the target.
    pub verify: Option<Vec<u8>>,
    /// Beginnings of the called numbers it serves.
    pub prefixes: Vec<Vec<u8>>,
    /// Domains it serves, lower case.
    pub domains: Vec<Vec<u8>>,
    /// Characters taken from the front of the called user.
    pub strip: usize,
    /// Characters then put in front.
    pub prepend: Vec<u8>,
    /// Its calls may leave over another trunk.
    pub may_transit: bool,
    /// It is offered to ask for less, and believed when it does (RFC 7339, RFC 7415).
    pub overload_control: bool,
    /// Statuses after which the next target is tried (503, timeouts and transport errors always are).
    pub retry_on: Vec<u16>,
    /// How long a target may say nothing at all, milliseconds.
    pub silent_after_ms: u32,
    /// What is changed in the header fields of requests to it.
    pub headers: Option<Arc<HeaderRules>>,
    /// How numbers are dialled there, and how they are written for it.
    pub numbers: Option<NumberPlan>,
    /// What proves this server there.
    pub account: Option<Arc<Account>>,
}

impl Default for Trunk {
    fn default() -> Trunk {
        Trunk {
            name: Vec::new(),
            targets: Vec::new(),
            weights: Vec::new(),
            limits: LineLimits::default(),
            line: None,
            sources: Vec::new(),
            source_names: Vec::new(),
            authority: Vec::new(),
            verify: None,
            prefixes: Vec::new(),
            domains: Vec::new(),
            strip: 0,
            prepend: Vec::new(),
            may_transit: false,
            overload_control: false,
            retry_on: Vec::new(),
            silent_after_ms: 2_000,
            headers: None,
            numbers: None,
            account: None,
        }
    }
}

impl Trunk {
    /// Whether this server has registered with it at this address, and the registration is in force.
    pub(crate) fn is_registered_at(&self, ip: IpAddr) -> bool {
        self.account.as_ref().is_some_and(|account| account.standing.is_at(ip))
    }
}

/// What is particular to a domain of ours.
#[derive(Clone, Default, Debug)]
pub struct Domain {
    /// The domain, lower case.
    pub name: Vec<u8>,
    /// What is changed in the header fields of requests to the phones of its users.
    pub headers: Option<Arc<HeaderRules>>,
    /// How its users dial numbers.
    pub numbers: Option<NumberPlan>,
    /// Which numbers its users may present.
    pub callers: Callers,
}

/// What a static route does.
#[derive(Clone, Debug)]
pub enum RouteAction {
    /// Forward to these SIP URIs, in failover order.
    Forward(Vec<Vec<u8>>),
    /// Answer 302 with these Contacts.
    Redirect(Vec<Vec<u8>>),
}

/// A static route; what it matches on is and-ed.
#[derive(Clone, Debug)]
pub struct Route {
    /// Host of the Request-URI, lower case.
    pub domain: Option<Vec<u8>>,
    /// Beginning of the user part.
    pub prefix: Option<Vec<u8>>,
    /// The whole user part.
    pub user: Option<Vec<u8>>,
    /// How long a target may say nothing at all, milliseconds.
    pub silent_after_ms: u32,
    /// What to do.
    pub action: RouteAction,
}

/// Everything that can change while the server runs.
#[derive(Clone)]
pub struct Settings {
    /// Domains that this server is responsible for, lower case; the first one is the default. Empty:
    /// those of its subscribers, and its own addresses.
    pub domains: Vec<Vec<u8>>,
    /// Further names of this server, lower case.
    pub aliases: Vec<Vec<u8>>,
    /// The listeners, in the order of their [`ListenerId`]s.
    pub listeners: Vec<Listener>,
    /// Where the admin API listens: never a place to send SIP to.
    pub admin: Option<SocketAddr>,
    /// Authentication.
    pub auth: Auth,
    /// Registrar.
    pub registrar: sip_registrar::Config,
    /// Forwarding.
    pub proxy: Proxy,
    /// Voicemail.
    pub voicemail: Option<Voicemail>,
    /// Where emergency calls go; without it they are like any other.
    pub emergency: Option<crate::Emergency>,
    /// Trunks.
    pub trunks: Vec<Trunk>,
    /// Static routes, first match wins.
    pub routes: Vec<Route>,
    /// Domains of ours of which something is particular.
    pub domain_rules: Vec<Domain>,
    /// What is known of the targets of all these; see [`Settings::watching`].
    pub gateways: Gateways,
    /// Caps of the message parser.
    pub message: sip_message::Limits,
    /// Calls at one time on this worker.
    pub calls: usize,
    /// What is done in an overload.
    pub overload: crate::OverloadRules,
    /// Whether calls are reported to [`Services::record`](crate::Services::record).
    pub records: bool,
}

impl Settings {
    /// Whether `host` with `port` is one of our listeners' addresses, advertised names or aliases.
    pub fn is_self(&self, host: &[u8], port: Option<u16>) -> bool {
        // Nearly everyone writes an address as we do; reading it as one is the dearer way.
        let as_text = self.listeners.iter().any(|l| l.host_text == host && l.is_port(port));
        if as_text {
            return true;
        }
        let ip = host_ip(host).map(|ip| ip.to_canonical());
        let listener = self.listeners.iter().any(|l| {
            let by_name = l.advertise.as_ref().is_some_and(|(name, advertised)| {
                let expected = advertised.unwrap_or(l.transport.default_port());
                name.eq_ignore_ascii_case(host) && port.is_none_or(|p| p == expected)
            });
            (ip == Some(l.address.ip()) && l.is_port(port)) || by_name
        });
        listener || self.aliases.iter().any(|a| a.eq_ignore_ascii_case(host))
    }

    /// Whether a URI of a Route or a strict router's Request-URI names this server.
    pub fn is_own_route(&self, uri: &Uri<'_>) -> bool {
        uri.is_sip()
            && (self.is_self(uri.host, uri.port)
                || self.domains.iter().any(|d| d.eq_ignore_ascii_case(uri.host)))
    }

    /// Whether anything is changed in header fields of requests that leave.
    pub(crate) fn has_rules(&self) -> bool {
        let trunks = self.trunks.iter().any(|trunk| trunk.headers.is_some());
        trunks || self.domain_rules.iter().any(|domain| domain.headers.is_some())
    }

    /// Whether a URI is the one that a listener writes of itself.
    pub(crate) fn is_own_text(&self, uri: &[u8]) -> bool {
        self.listeners.iter().any(|l| {
            let own = l.record_route.strip_prefix(b"Record-Route: <");
            own.and_then(|own| own.strip_suffix(b";lr")) == Some(uri)
        })
    }

    /// The dialog token in a Route value that is our own Record-Route as we wrote it; `None` says nothing.
    pub(crate) fn own_token<'a>(&self, route: &'a [u8]) -> Option<&'a [u8]> {
        let token = self.listeners.iter().find_map(|l| {
            let prefix = l.record_route.strip_prefix(b"Record-Route: ")?;
            route.strip_prefix(prefix)?.strip_prefix(b";d=")?.strip_suffix(b">")
        })?;
        is_base64url(token).then_some(token)
    }

    /// The trunk whose requests come from the address `source`: it is among its sources, or the registration
    /// at the trunk is in force there.
    pub fn trunk_of(&self, source: IpAddr) -> Option<usize> {
        let source = source.to_canonical();
        let listed = |t: &Trunk| t.sources.iter().any(|&(net, length)| in_block(net, length, source));
        let registered = || self.trunks.iter().position(|t| t.is_registered_at(source));
        self.trunks.iter().position(listed).or_else(registered)
    }

    /// Whether some listener has this port, or is known by it.
    pub(crate) fn has_port(&self, port: Option<u16>) -> bool {
        let known = |l: &Listener| l.advertise.as_ref().and_then(|(_, port)| *port);
        self.listeners.iter().any(|l| l.is_port(port) || (port.is_some() && known(l) == port))
    }

    /// The listener for a flow to `remote` over `transport`: the one that `near` names if it fits, so
    /// that what came in on one socket goes out on the same; else the first that fits. What goes outside does
    /// not leave from a private address if there is another one, for nobody there could answer it.
    pub fn listener_for(
        &self,
        transport: Transport,
        remote: SocketAddr,
        near: ListenerId,
    ) -> Option<ListenerId> {
        let ip = remote.ip().to_canonical();
        let family = |l: &Listener| l.transport == transport && l.address.is_ipv4() == ip.is_ipv4();
        let fits = |l: &Listener| family(l) && l.address.ip().is_loopback() == ip.is_loopback();
        let known = |l: &Listener| is_public(l.address.ip()) || l.advertise.is_some();
        let best = |l: &Listener| fits(l) && (known(l) || !is_outside(ip));
        self.near_or_first(near, best)
            .or_else(|| self.near_or_first(near, fits))
            .or_else(|| self.near_or_first(near, family))
    }

    /// Of the listeners that fit the one that `near` names; else one with the same address, before any other.
    fn near_or_first(&self, near: ListenerId, fits: impl Fn(&Listener) -> bool) -> Option<ListenerId> {
        let near_ip = match self.listener(near) {
            Some(l) if fits(l) => return Some(near),
            other => other.map(|l| l.address.ip()),
        };
        let by_ip = self.listeners.iter().position(|l| Some(l.address.ip()) == near_ip && fits(l));
        let at = by_ip.or_else(|| self.listeners.iter().position(fits))?;
        u16::try_from(at).ok().map(ListenerId)
    }

    /// The listener of a flow.
    pub fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    /// Whether a request may be sent to an address that somebody else chose: a Request-URI, a Route, a
    /// name's DNS records. Never to the admin API, to no address, or to many; to loopback and link-local
    /// addresses only from a server that listens on loopback alone, for which loopback is the network.
    pub fn may_reach(&self, remote: SocketAddr) -> bool {
        let ip = remote.ip().to_canonical();
        let admin = self.is_admin(remote);
        let link_local = match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        let loopback = ip.is_loopback() && !self.on_loopback_only();
        !(admin || link_local || broadcast || loopback || ip.is_unspecified() || ip.is_multicast())
    }

    /// Whether the admin API is at this address. No SIP ever goes there, whoever names it.
    pub fn is_admin(&self, remote: SocketAddr) -> bool {
        let ip = remote.ip().to_canonical();
        self.admin.is_some_and(|a| {
            a.port() == remote.port() && (a.ip() == ip || a.ip().is_unspecified() || ip.is_unspecified())
        })
    }

    /// Whether a phone that registers from `source` may say that it is to be reached at `remote`: at its
    /// own address, or where anybody there may send.
    pub fn may_register(&self, remote: SocketAddr, source: IpAddr) -> bool {
        let own = remote.ip() == source.to_canonical();
        match own {
            true => !self.is_admin(remote),
            false => self.may_reach(remote) && (is_public(remote.ip()) || !is_outside(source)),
        }
    }

    /// Whether a target may be at `remote`, as far as the kind of address goes.
    pub(crate) fn allows(&self, bounds: Bounds, remote: SocketAddr) -> bool {
        match bounds {
            Bounds::Anywhere => true,
            Bounds::End(ip) => remote.ip().to_canonical() == ip.to_canonical(),
            Bounds::Inside => self.may_reach(remote),
            Bounds::Outside => self.may_reach(remote) && is_public(remote.ip()),
        }
    }

    /// Whether every listener is on loopback.
    pub fn on_loopback_only(&self) -> bool {
        self.listeners.iter().all(|l| l.address.ip().is_loopback())
    }
}

/// Where a target may be, by who named its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bounds {
    /// The operator, or nobody: it was seen there.
    Anywhere,
    /// Somebody in a private network or on our own machine: wherever [`Settings::may_reach`] lets him.
    Inside,
    /// Somebody at a public address: likewise, but nowhere private, which would be in his own network or
    /// in ours.
    Outside,
    /// The other end of a dialog, and nobody else. A name that leads there names no port: the request goes to
    /// where that end was seen.
    End(IpAddr),
}

impl Bounds {
    /// For what somebody at this address named.
    pub(crate) fn of(namer: SocketAddr) -> Bounds {
        if is_outside(namer.ip()) { Bounds::Outside } else { Bounds::Inside }
    }
}

/// Whether `ip` is in `net/length`.
fn in_block(net: IpAddr, length: u8, ip: IpAddr) -> bool {
    match (net.to_canonical(), ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            net.to_bits() & mask == ip.to_bits() & mask
        }
        (IpAddr::V6(net), IpAddr::V6(ip)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            net.to_bits() & mask == ip.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_carry_their_texts() {
        let l = Listener::new(Transport::Tcp, "[::1]:5060".parse().unwrap(), None);
        assert_eq!(l.via_prefix(), b"Via: SIP/2.0/TCP [::1]:5060;branch=");
        assert_eq!(l.sent_by(), b"[::1]:5060");
        assert_eq!(l.record_route_prefix(false), b"Record-Route: <sip:[::1]:5060;transport=tcp;lr");
        assert_eq!(l.record_route_prefix(true), l.record_route_prefix(false), "it cannot be had here");
        let l = Listener::new(Transport::Tls, "10.0.0.1:5061".parse().unwrap(), None);
        assert_eq!(l.record_route_prefix(false), b"Record-Route: <sip:10.0.0.1:5061;transport=tls;lr");
        assert_eq!(l.record_route_prefix(true), b"Record-Route: <sips:10.0.0.1:5061;lr");
        let l = Listener::new(Transport::Wss, "10.0.0.1:443".parse().unwrap(), None);
        assert_eq!(l.record_route_prefix(false), b"Record-Route: <sip:10.0.0.1:443;transport=ws;lr");
        assert_eq!(l.record_route_prefix(true), b"Record-Route: <sips:10.0.0.1:443;transport=ws;lr");
        let named = Some((b"sip.example.com".to_vec(), None));
        let l = Listener::new(Transport::Udp, "10.0.0.1:5060".parse().unwrap(), named);
        assert_eq!(l.sent_by(), b"sip.example.com");
        assert_eq!(l.record_route_prefix(false), b"Record-Route: <sip:sip.example.com;lr");
    }

    /// What is taken for ours as text is ours when it is read as well, with the same token.
    #[test]
    fn our_own_texts_are_our_own_uris() {
        let mut settings = crate::tests::settings();
        let name = |port| Some((b"sip.example.com".to_vec(), port));
        for (transport, address, advertise) in [
            (Transport::Udp, "10.0.0.1:5070", None),
            (Transport::Tcp, "10.0.0.1:5070", name(None)),
            (Transport::Tls, "[2001:db8::2]:5061", None),
            (Transport::Udp, "10.0.0.2:5060", name(Some(5090))),
            (Transport::Udp, "10.0.0.3:5060", Some((b"[2001:db8::3]".to_vec(), None))),
        ] {
            settings.listeners.push(Listener::new(transport, address.parse().unwrap(), advertise));
        }
        for l in &settings.listeners {
            let route = l.record_route_prefix(false).strip_prefix(b"Record-Route: ").unwrap();
            let value = [route, b";d=aZ09-_>"].concat();
            assert_eq!(settings.own_token(&value), Some(&b"aZ09-_"[..]));
            let addr = sip_message::NameAddr::parse(&value).unwrap();
            let uri = Uri::parse(addr.uri).unwrap();
            assert!(settings.is_own_route(&uri) && addr.params.is_empty());
            assert_eq!(uri.param(b"d"), Some(&b"aZ09-_"[..]));
            let own = route.strip_prefix(b"<").unwrap().strip_suffix(b";lr").unwrap();
            let uri = Uri::parse(own).unwrap();
            assert!(settings.is_own_text(own) && uri.user.is_none() && settings.is_self(uri.host, uri.port));
            for other in [&b";d=>"[..], b";d=a;x>", b";d=a>;x", b";d=a?x=y>", b";x=y;d=a>", b";d=a", b">"] {
                assert_eq!(settings.own_token(&[route, other].concat()), None);
            }
        }
        let other = b"<sip:198.51.100.2:5060;lr;d=a>";
        assert_eq!(
            (settings.own_token(other), settings.is_own_text(b"sip:198.51.100.2:5060")),
            (None, false)
        );
    }

    #[test]
    fn blocks_of_addresses() {
        let ip = |s: &str| s.parse().unwrap();
        assert!(in_block(ip("10.0.0.0"), 8, ip("10.200.1.1")));
        assert!(!in_block(ip("10.0.0.0"), 8, ip("11.0.0.1")));
        assert!(in_block(ip("0.0.0.0"), 0, ip("11.0.0.1")));
        assert!(in_block(ip("2001:db8::"), 32, ip("2001:db8:1::1")));
        assert!(!in_block(ip("::"), 0, ip("1.1.1.1")));
    }
}
