//! From a URI to transports, addresses and ports (RFC 3263) as a question-and-answer machine.
//!
//! A numeric host is settled at once. For a name, [`locate`] returns a [`Locate`] that says what to ask
//! the DNS; the caller puts the questions (to a [`Cache`], and beyond it to a resolver), feeds the
//! answers back, and in the end gets an ordered list of [`Destination`]s, to be tried in turn
//! (section 4.3). Nothing here waits, and everything is bounded, whatever the zone contains.

mod cache;
mod dns;
mod error;
mod naptr;
mod srv;
#[cfg(test)]
mod tests;
mod want;

pub use cache::{Cache, Lookup};
pub use dns::{Answer, Kind, Naptr, Srv};
pub use error::Error;
pub use srv::order_of;
pub use want::{Ability, Transports, Want};

use crate::context::Few;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use want::Target;
use wire::Transport;

/// Most servers taken from SRV records.
pub const MAX_SERVERS: usize = 32;
/// Most host names of one URI whose addresses are asked.
pub const MAX_HOSTS: usize = 16;
/// Most destinations of one URI. Trying them all already takes minutes.
pub const MAX_DESTINATIONS: usize = 16;
/// Most questions of one URI that are under way at a time.
pub const MAX_IN_FLIGHT: usize = 8;

/// One place to send a request to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// With what.
    pub transport: Transport,
    /// Where to.
    pub address: SocketAddr,
}

impl Default for Destination {
    /// A place holder; no list ever yields it.
    fn default() -> Destination {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Destination { transport: Transport::Udp, address }
    }
}

/// Destinations in the order in which to try them. One of them needs no allocation.
pub type Destinations = Few<Destination, 1>;

/// A URI is settled, or a question of names.
#[derive(Debug)]
pub enum Located {
    /// The host was numeric.
    Now(Destinations),
    /// The DNS must be asked: call [`Locate::poll`].
    Ask(Box<Locate>),
}

/// Number of a question within one [`Locate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskId(pub u8);

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Put this question ([`Locate::question`]); feed the answer to [`Locate::answer`], now or later;
    /// then poll again.
    Ask(AskId),
    /// Answers are outstanding.
    Wait,
    /// The end; [`Locate::poll`] is not called again.
    Done(Result<Destinations, Error>),
}

/// Looks a URI up. `seed` makes the choice among equal servers; give a new one for each request.
pub fn locate(want: &Want<'_>, able: &Ability, seed: u64) -> Result<Located, Error> {
    let demanded = want.demanded(able)?;
    match want.target()? {
        Target::Address(ip) => {
            let mut found = Destinations::new();
            if !(ip.is_ipv4() && able.v4 || ip.is_ipv6() && able.v6) {
                return Err(Error::NoTransport);
            }
            for &transport in variants(demanded.map_or_else(|| want.default_transport(able), Ok)?, want, able)
            {
                let port = want.port.unwrap_or(transport.default_port());
                found.push(Destination { transport, address: SocketAddr::new(ip, port) });
            }
            Ok(Located::Now(found))
        }
        Target::Name(name) => {
            Locate::new(want, name, demanded, able, seed).map(|l| Located::Ask(Box::new(l)))
        }
    }
}

/// What to send with where `transport` was chosen: UDP for a request too large for a datagram becomes
/// TCP, and then UDP after all for those who have no TCP (RFC 3261 18.1.1).
fn variants(transport: Transport, want: &Want<'_>, able: &Ability) -> &'static [Transport] {
    match transport {
        Transport::Udp if want.large && able.transports.has(Transport::Tcp) => {
            &[Transport::Tcp, Transport::Udp]
        }
        Transport::Udp => &[Transport::Udp],
        Transport::Tcp if want.large && want.transport.is_none() && able.transports.has(Transport::Udp) => {
            &[Transport::Tcp, Transport::Udp]
        }
        Transport::Tcp => &[Transport::Tcp],
        Transport::Tls => &[Transport::Tls],
        Transport::Ws => &[Transport::Ws],
        Transport::Wss => &[Transport::Wss],
        Transport::Sctp => &[Transport::Sctp],
    }
}

/// A look-up under way.
#[derive(Debug)]
pub struct Locate {
    able: Ability,
    secure: bool,
    large: bool,
    demanded: Option<Transport>,
    name: Box<[u8]>,
    seed: u64,
    stage: Stage,
    asks: Vec<Ask>,
    /// What the questions before `stage`'s led to, best first.
    servers: Vec<Server>,
    /// Some question got no answer at all.
    failed: bool,
    /// Some SRV answer consisted of a `.` record.
    absent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Naptr,
    Srv,
    Hosts,
}

#[derive(Debug)]
struct Ask {
    kind: Kind,
    name: Box<[u8]>,
    /// What an SRV question is about.
    transport: Transport,
    state: AskState,
}

#[derive(Debug)]
enum AskState {
    New,
    Sent,
    /// For NAPTR: SRV names. For SRV: hosts.
    Names(Vec<Server>),
    Addresses(Vec<IpAddr>),
}

/// A name to go on with. `port` is 0 where the name is that of SRV records.
#[derive(Clone, Debug)]
struct Server {
    transport: Transport,
    name: Box<[u8]>,
    port: u16,
}

impl Locate {
    fn new(
        want: &Want<'_>,
        name: &[u8],
        demanded: Option<Transport>,
        able: &Ability,
        seed: u64,
    ) -> Result<Locate, Error> {
        let mut locate = Locate {
            able: *able,
            secure: want.secure,
            large: want.large,
            demanded,
            name: dns::canonical(name),
            seed,
            stage: Stage::Naptr,
            asks: Vec::new(),
            servers: Vec::new(),
            failed: false,
            absent: false,
        };
        // Without any transport for this URI there is nothing to ask.
        let transport = demanded.map_or_else(|| want.default_transport(able), Ok)?;
        if let Some(port) = want.port {
            // Section 4.2: with a port, addresses are asked at once.
            locate.expect_host(transport, Some(port));
            locate.ask_hosts();
        } else if let Some(transport) = demanded {
            let names = variants(transport, want, able).iter();
            locate.servers = names.filter_map(|t| service_name(*t, &locate.name)).collect();
            locate.ask_srv();
        } else {
            let name = locate.name.clone();
            locate.asks.push(Ask { kind: Kind::Naptr, name, transport, state: AskState::New });
        }
        Ok(locate)
    }

    /// The name that is looked up (lower case, no dot at the end).
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What to do next. Bounded work.
    pub fn poll(&mut self) -> Step {
        loop {
            let under_way = self.asks.iter().filter(|ask| matches!(ask.state, AskState::Sent)).count();
            if self.stage == Stage::Hosts
                && let Some(found) = self.enough()
            {
                return Step::Done(Ok(found));
            }
            let new = self.asks.iter_mut().enumerate().find(|(_, ask)| matches!(ask.state, AskState::New));
            match new {
                Some((index, ask)) if under_way < MAX_IN_FLIGHT => {
                    ask.state = AskState::Sent;
                    return Step::Ask(AskId(u8::try_from(index).unwrap_or(u8::MAX)));
                }
                _ if under_way > 0 => return Step::Wait,
                _ => {}
            }
            if let Some(end) = self.next_stage() {
                return Step::Done(end);
            }
        }
    }

    /// The kind and name of a question (lower case, no dot at the end).
    pub fn question(&self, id: AskId) -> Option<(Kind, &[u8])> {
        self.asks.get(usize::from(id.0)).map(|ask| (ask.kind, &*ask.name))
    }

    /// An answer to a question. An answer of another kind counts as none; one to a question that was
    /// not put, or was answered, is ignored.
    pub fn answer(&mut self, id: AskId, answer: &Answer) {
        let seed = self.seed.wrapping_add(id.0.into());
        let Some(ask) = self.asks.get(usize::from(id.0)) else { return };
        if !matches!(ask.state, AskState::Sent) {
            return;
        }
        self.failed |= *answer == Answer::Failed;
        let state = match (ask.kind, answer) {
            (Kind::Naptr, Answer::Naptr(records)) => {
                let found = naptr::choose(records, &self.want(), &self.able);
                AskState::Names(
                    found.into_iter().map(|(transport, name)| Server { transport, name, port: 0 }).collect(),
                )
            }
            (Kind::Srv, Answer::Srv(records)) => {
                self.absent |= !records.is_empty() && records.iter().all(srv::is_absent);
                AskState::Names(servers_of(records, ask.transport, seed))
            }
            (Kind::A, Answer::A(list)) => AskState::Addresses(unicast(list.iter().copied().map(IpAddr::V4))),
            (Kind::Aaaa, Answer::Aaaa(list)) => {
                AskState::Addresses(unicast(list.iter().copied().map(IpAddr::V6)))
            }
            _ => AskState::Names(Vec::new()),
        };
        if let Some(ask) = self.asks.get_mut(usize::from(id.0)) {
            ask.state = state;
        }
    }

    /// All questions of this stage are answered: prepare the next, or end.
    fn next_stage(&mut self) -> Option<Result<Destinations, Error>> {
        match self.stage {
            Stage::Naptr => {
                self.servers = self.answered_names();
                if self.servers.is_empty() {
                    self.servers = self.services();
                }
                self.ask_srv();
                None
            }
            Stage::Srv => {
                self.servers = self.answered_names();
                self.servers.truncate(MAX_SERVERS);
                if self.servers.is_empty() {
                    if self.absent {
                        return Some(Err(Error::NoService));
                    }
                    let want = self.want();
                    match self.demanded.map_or_else(|| want.default_transport(&self.able), Ok) {
                        Ok(transport) => self.expect_host(transport, None),
                        Err(error) => return Some(Err(error)),
                    }
                }
                self.ask_hosts();
                None
            }
            Stage::Hosts => Some(self.assemble()),
        }
    }

    /// Section 4.1: without NAPTR records, SRV records of each transport that the server has.
    fn services(&self) -> Vec<Server> {
        let want = self.want();
        let (last, usual) = match want.order() {
            [usual @ .., last] if !usual.is_empty() => (*last, usual),
            other => (Transport::Tls, other),
        };
        let able: Vec<Transport> = usual.iter().copied().filter(|t| self.able.transports.has(*t)).collect();
        let chosen = if able.is_empty() { vec![last] } else { able };
        chosen.into_iter().filter_map(|t| service_name(t, &self.name)).collect()
    }

    /// The host itself, where no SRV record leads elsewhere.
    fn expect_host(&mut self, transport: Transport, port: Option<u16>) {
        for &transport in variants(transport, &self.want(), &self.able) {
            let port = port.unwrap_or(transport.default_port());
            self.servers.push(Server { transport, name: self.name.clone(), port });
        }
    }

    fn ask_srv(&mut self) {
        self.stage = Stage::Srv;
        let ask = |server: &Server| Ask {
            kind: Kind::Srv,
            name: server.name.clone(),
            transport: server.transport,
            state: AskState::New,
        };
        self.asks = self.servers.iter().map(ask).collect();
    }

    /// Questions for the addresses of each server's host, each host once.
    fn ask_hosts(&mut self) {
        self.stage = Stage::Hosts;
        self.asks = Vec::new();
        let kinds = if self.able.v6_first { [Kind::Aaaa, Kind::A] } else { [Kind::A, Kind::Aaaa] };
        let mut hosts: Vec<&[u8]> = Vec::new();
        for server in &self.servers {
            if hosts.len() >= MAX_HOSTS || hosts.contains(&&*server.name) {
                continue;
            }
            hosts.push(&server.name);
            for kind in kinds {
                if kind == Kind::A && self.able.v4 || kind == Kind::Aaaa && self.able.v6 {
                    let (name, transport) = (server.name.clone(), server.transport);
                    self.asks.push(Ask { kind, name, transport, state: AskState::New });
                }
            }
        }
    }

    /// What the answers of this stage named, in the order of the questions.
    fn answered_names(&mut self) -> Vec<Server> {
        let mut names = Vec::new();
        for ask in &mut self.asks {
            if let AskState::Names(found) = &mut ask.state {
                names.append(found);
            }
        }
        names
    }

    /// The list, if it is full already: what is still to come would be cut off.
    fn enough(&self) -> Option<Destinations> {
        let found = self.collect();
        (found.len() >= MAX_DESTINATIONS).then_some(found)
    }

    fn assemble(&self) -> Result<Destinations, Error> {
        let found = self.collect();
        match found.is_empty() {
            false => Ok(found),
            true if self.failed => Err(Error::Unavailable),
            true => Err(Error::NotFound),
        }
    }

    /// Destinations in order, up to the first server whose addresses are not known yet.
    fn collect(&self) -> Destinations {
        let mut found = Destinations::new();
        for server in &self.servers {
            for ask in self.asks.iter().filter(|ask| ask.name == server.name) {
                match &ask.state {
                    AskState::New | AskState::Sent => return found,
                    AskState::Names(_) => {}
                    AskState::Addresses(list) => {
                        for &ip in list {
                            let address = SocketAddr::new(ip, server.port);
                            let next = Destination { transport: server.transport, address };
                            if found.len() >= MAX_DESTINATIONS {
                                return found;
                            }
                            if !found.as_slice().contains(&next) {
                                found.push(next);
                            }
                        }
                    }
                }
            }
        }
        found
    }

    /// The question as far as the later stages need it.
    fn want(&self) -> Want<'static> {
        Want { secure: self.secure, host: b"", port: None, transport: None, large: self.large }
    }
}

/// The name of the SRV records of a transport (section 4.2). `None`: there are none (RFC 7118
/// section 4.1 leaves WebSocket out), or the name would be too long.
fn service_name(transport: Transport, domain: &[u8]) -> Option<Server> {
    let prefix: &[u8] = match transport {
        Transport::Udp => b"_sip._udp.",
        Transport::Tcp => b"_sip._tcp.",
        Transport::Sctp => b"_sip._sctp.",
        Transport::Tls => b"_sips._tcp.",
        Transport::Ws | Transport::Wss => return None,
    };
    let name = [prefix, domain].concat();
    dns::is_host_name(&name).then(|| Server { transport, name: name.into(), port: 0 })
}

fn servers_of(records: &[Srv], transport: Transport, seed: u64) -> Vec<Server> {
    let order = srv::order(records, MAX_SERVERS, &mut srv::Dice::new(seed));
    let chosen = order.into_iter().filter_map(|index| records.get(index));
    let servers = chosen.map(|r| Server { transport, name: dns::canonical(&r.target), port: r.port });
    servers.filter(|server| dns::is_host_name(&server.name)).collect()
}

fn unicast(list: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    list.filter(|ip| want::is_unicast(*ip)).take(MAX_DESTINATIONS).collect()
}
