//! One look-up of a name of nodes (RFC 3263 section 4.2, RFC 2782), as questions and answers.
//!
//! A name with a port has the addresses of its A and AAAA records. One without has those that its SRV records
//! name, of UDP first, and if there are none its own. NAPTR is not asked: how nodes are reached is said
//! beside their name. A host is one node for each of its IPv4 addresses, or of its IPv6 addresses where it
//! has no other.

use resolver::{Kind, Outcome, Srv};
use sip_balancer::{MOST_NODES, Node};
use std::net::{IpAddr, SocketAddr};
use wire::Transport;

/// Most SRV records, hosts, and addresses of one host that are looked at.
const MOST_SERVERS: usize = 256;
const MOST_HOSTS: usize = 64;
const MOST_ADDRESSES: usize = 64;
/// The highest share of a node.
const MOST_WEIGHT: u32 = 1_000;

/// What is looked up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub host: String,
    pub port: Option<u16>,
    /// How its nodes are reached, if that is said.
    pub transport: Option<Transport>,
    /// What the shares of its nodes are multiplied with.
    pub weight: u32,
    /// Whether there are listeners for IPv4 and for IPv6.
    pub families: (bool, bool),
}

/// A node that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub node: Node,
    /// Its priority, counted from zero.
    pub rank: u16,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// The nodes: never none.
    pub nodes: Vec<Found>,
    /// Nothing that was asked failed, so there are no others.
    pub whole: bool,
    /// For how long, seconds.
    pub ttl: u32,
}

#[derive(Debug)]
struct Ask {
    kind: Kind,
    name: Box<[u8]>,
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug)]
struct Server {
    priority: u16,
    weight: u32,
    port: u16,
    transport: Option<Transport>,
    host: Box<[u8]>,
}

/// A look-up under way.
#[derive(Debug)]
pub struct Lookup {
    wanted: Wanted,
    asks: Vec<Ask>,
    /// Empty while services are asked.
    servers: Vec<Server>,
    ttl: u32,
}

impl Lookup {
    /// Begins one. Its first questions are there to be put.
    pub fn new(wanted: Wanted) -> Lookup {
        let mut lookup = Lookup { wanted, asks: Vec::new(), servers: Vec::new(), ttl: u32::MAX };
        match lookup.wanted.port {
            Some(port) => lookup.itself(port),
            None => {
                let names: Vec<String> = lookup.services().iter().map(|t| lookup.service(*t)).collect();
                lookup.asks = names.into_iter().map(|name| ask(Kind::Srv, name.as_bytes())).collect();
            }
        }
        lookup
    }

    /// The transports whose services are asked for, the preferred one first.
    fn services(&self) -> &'static [Transport] {
        match self.wanted.transport {
            None => &[Transport::Udp, Transport::Tcp],
            Some(Transport::Tcp) => &[Transport::Tcp],
            Some(Transport::Tls) => &[Transport::Tls],
            Some(Transport::Sctp) => &[Transport::Sctp],
            Some(Transport::Udp | Transport::Ws | Transport::Wss) => &[Transport::Udp],
        }
    }

    fn service(&self, transport: Transport) -> String {
        let service = match transport {
            Transport::Tls => "_sips._tcp".to_owned(),
            other => format!("_sip._{other}"),
        };
        format!("{service}.{}", self.wanted.host)
    }

    /// Without SRV records: the host itself.
    fn itself(&mut self, port: u16) {
        let host = self.wanted.host.as_bytes().into();
        self.servers = vec![Server { priority: 0, weight: 1, port, transport: self.wanted.transport, host }];
        self.ask_hosts();
    }

    /// Questions with their numbers, to be put once each.
    pub fn questions(&self) -> impl Iterator<Item = (u8, Kind, &[u8])> {
        let open = self.asks.iter().enumerate().filter(|(_, ask)| ask.outcome.is_none());
        open.filter_map(|(at, ask)| Some((u8::try_from(at).ok()?, ask.kind, &*ask.name)))
    }

    /// An answer came. Says whether it was the last of these questions: then there are others, or an end, by
    /// [`Lookup::go_on`].
    pub fn answer(&mut self, number: u8, outcome: Outcome, ttl: u32) -> bool {
        let Some(ask) = self.asks.get_mut(usize::from(number)).filter(|ask| ask.outcome.is_none()) else {
            return false;
        };
        if matches!(outcome, Outcome::Srv(_) | Outcome::A(_) | Outcome::Aaaa(_)) {
            self.ttl = self.ttl.min(ttl);
        }
        ask.outcome = Some(outcome);
        self.asks.iter().all(|ask| ask.outcome.is_some())
    }

    /// Everything that was asked is answered: what comes next, `None` being more questions.
    pub fn go_on(&mut self) -> Option<Result<End, &'static str>> {
        match self.servers.is_empty() {
            true => self.choose_service().err().map(Err),
            false => Some(self.end()),
        }
    }

    /// The servers of the preferred transport that has any, or the host itself.
    fn choose_service(&mut self) -> Result<(), &'static str> {
        let (mut absent, mut chosen) = (false, None);
        for (ask, &transport) in self.asks.iter().zip(self.services()) {
            match &ask.outcome {
                // Others may not be its servers.
                Some(Outcome::Failed(_)) | None => return Err("the DNS does not answer"),
                Some(Outcome::Srv(records)) => {
                    let usable = |r: &&Srv| !r.target.is_empty() && r.port != 0;
                    let there: Vec<&Srv> = records.iter().filter(usable).collect();
                    absent |= there.is_empty();
                    if !there.is_empty() {
                        chosen = Some((transport, there.into_iter().cloned().collect::<Vec<Srv>>()));
                        break;
                    }
                }
                Some(_) => {}
            }
        }
        match chosen {
            Some((transport, records)) => {
                self.take(transport, &records);
                Ok(())
            }
            None if absent => Err("the DNS says that there is no such service"),
            None => {
                self.itself(self.wanted.transport.unwrap_or(Transport::Udp).default_port());
                Ok(())
            }
        }
    }

    fn take(&mut self, transport: Transport, records: &[Srv]) {
        // One that is found by its service over UDP may have streams as well, if nothing else is said.
        let transport = match self.wanted.transport {
            None if transport == Transport::Udp => None,
            _ => Some(transport),
        };
        let server = |r: &Srv| Server {
            priority: r.priority,
            weight: u32::from(r.weight),
            port: r.port,
            transport,
            host: r.target.to_ascii_lowercase().into(),
        };
        self.servers = records.iter().map(server).collect();
        // The same answer has the same order, whatever the DNS makes of it, and so the same first ones.
        self.servers.sort_by(|a, b| (a.priority, &a.host, a.port).cmp(&(b.priority, &b.host, b.port)));
        self.servers.truncate(MOST_SERVERS);
        self.ask_hosts();
    }

    fn ask_hosts(&mut self) {
        self.asks.clear();
        let mut hosts: Vec<Box<[u8]>> = Vec::new();
        for server in &self.servers {
            if hosts.len() < MOST_HOSTS && !hosts.contains(&server.host) {
                hosts.push(server.host.clone());
            }
        }
        let (v4, v6) = self.wanted.families;
        for host in hosts {
            let kinds = [(Kind::A, v4), (Kind::Aaaa, v6)];
            self.asks.extend(kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| ask(kind, &host)));
        }
    }

    /// The addresses of a host; an error if that cannot be said.
    fn addresses(&self, host: &[u8]) -> Result<Vec<IpAddr>, ()> {
        let mut found = Vec::new();
        for ask in self.asks.iter().filter(|ask| *ask.name == *host) {
            match &ask.outcome {
                Some(Outcome::A(list)) => found.extend(list.iter().map(|ip| IpAddr::V4(*ip))),
                Some(Outcome::Aaaa(list)) => found.extend(list.iter().map(|ip| IpAddr::V6(*ip))),
                Some(Outcome::Failed(_)) | None => return Err(()),
                Some(_) => {}
            }
            // IPv4 is asked first.
            if !found.is_empty() {
                break;
            }
        }
        found.retain(|ip| !control::config::nowhere(*ip));
        found.sort_unstable();
        found.truncate(MOST_ADDRESSES);
        Ok(found)
    }

    fn end(&self) -> Result<End, &'static str> {
        let (mut nodes, mut whole): (Vec<Found>, bool) = (Vec::new(), true);
        let mut priorities: Vec<u16> = self.servers.iter().map(|server| server.priority).collect();
        priorities.dedup();
        let weights = shares(&self.servers, self.wanted.weight);
        for (server, weight) in self.servers.iter().zip(weights) {
            let Ok(addresses) = self.addresses(&server.host) else {
                whole = false;
                continue;
            };
            let rank = priorities.iter().position(|p| *p == server.priority).unwrap_or(0) as u16;
            for ip in addresses {
                let address = SocketAddr::new(ip, server.port);
                let node = Node { address, transport: server.transport, weight };
                let known = nodes.iter().any(|found| found.node.address == address);
                if !known && nodes.len() < MOST_NODES {
                    nodes.push(Found { node, rank });
                }
            }
        }
        match nodes.is_empty() {
            false => Ok(End { nodes, whole, ttl: self.ttl }),
            true if !whole => Err("the DNS does not answer"),
            true => Err("the DNS knows no address"),
        }
    }
}

fn ask(kind: Kind, name: &[u8]) -> Ask {
    Ask { kind, name: name.into(), outcome: None }
}

/// The shares that weights of SRV records stand for, in the smallest numbers of the same proportions. Zero is
/// the smallest there is (RFC 2782).
fn shares(servers: &[Server], factor: u32) -> Vec<u32> {
    let weights: Vec<u32> = servers.iter().map(|server| server.weight.max(1)).collect();
    let common = weights.iter().copied().fold(0, gcd).max(1);
    let least: Vec<u32> = weights.iter().map(|weight| weight / common * factor).collect();
    let most = least.iter().copied().max().unwrap_or(1);
    let share = |weight: u32| match most > MOST_WEIGHT {
        true => (u64::from(weight) * u64::from(MOST_WEIGHT) / u64::from(most)) as u32,
        false => weight,
    };
    least.into_iter().map(|weight| share(weight).max(1)).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resolver::Failure;

    fn wanted(host: &str, port: Option<u16>, transport: Option<Transport>) -> Wanted {
        Wanted { host: host.into(), port, transport, weight: 1, families: (true, true) }
    }

    fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Srv {
        Srv { priority, weight, port, target: target.as_bytes().into() }
    }

    fn a(last: u8) -> Outcome {
        Outcome::A(Box::new([[192, 0, 2, last].into()]))
    }

    /// Asks this zone until the end.
    fn find(wanted: Wanted, zone: impl Fn(Kind, &str) -> Outcome) -> Result<End, &'static str> {
        let mut lookup = Lookup::new(wanted);
        for _ in 0..3 {
            let questions: Vec<(u8, Kind, String)> = lookup
                .questions()
                .map(|(number, kind, name)| (number, kind, String::from_utf8_lossy(name).into_owned()))
                .collect();
            assert!(!questions.is_empty());
            let count = questions.len();
            // The last ones first: the order of answers must not matter.
            for (n, (number, kind, name)) in questions.into_iter().rev().enumerate() {
                let last = lookup.answer(number, zone(kind, &name), 60 + n as u32);
                assert_eq!(last, n + 1 == count);
                assert!(!lookup.answer(number, Outcome::Nothing, 1), "it is answered");
            }
            if let Some(end) = lookup.go_on() {
                return end;
            }
        }
        panic!("no end")
    }

    /// Address, share and rank of each.
    fn shown(end: &End) -> Vec<(String, u32, u16)> {
        end.nodes.iter().map(|f| (f.node.address.to_string(), f.node.weight, f.rank)).collect()
    }

    #[test]
    fn a_name_with_a_port_has_its_addresses() {
        let zone = |kind, name: &str| match (kind, name) {
            (Kind::A, "app.test") => Outcome::A(Box::new([[192, 0, 2, 9].into(), [192, 0, 2, 3].into()])),
            (Kind::Aaaa, "app.test") => Outcome::Aaaa(Box::new(["2001:db8::1".parse().unwrap()])),
            _ => panic!("{name} is not asked"),
        };
        let end = find(wanted("app.test", Some(5070), None), zone).unwrap();
        assert_eq!(shown(&end), [("192.0.2.3:5070".into(), 1, 0), ("192.0.2.9:5070".into(), 1, 0)]);
        assert_eq!((end.whole, end.ttl), (true, 60));
        let v6 = Wanted { families: (false, true), ..wanted("app.test", Some(5070), None) };
        assert_eq!(shown(&find(v6, zone).unwrap()), [("[2001:db8::1]:5070".into(), 1, 0)]);
    }

    #[test]
    fn services_have_priorities_and_weights() {
        let zone = |kind, name: &str| match (kind, name) {
            (Kind::Srv, "_sip._udp.test") => Outcome::Srv(Box::new([
                srv(20, 0, 5060, "c.test"),
                srv(10, 40, 5061, "B.test"),
                srv(10, 20, 5060, "a.test"),
                srv(10, 20, 0, "nowhere.test"),
            ])),
            (Kind::Srv, "_sip._tcp.test") => Outcome::Srv(Box::new([srv(1, 1, 5060, "t.test")])),
            (Kind::A, "a.test") => a(1),
            (Kind::A, "b.test") => a(2),
            (Kind::A, "c.test") => a(3),
            (Kind::A, "t.test") => a(4),
            _ => Outcome::Nothing,
        };
        let end = find(wanted("test", None, None), zone).unwrap();
        let list = [("192.0.2.1:5060", 20, 0), ("192.0.2.2:5061", 40, 0), ("192.0.2.3:5060", 1, 1)];
        assert_eq!(shown(&end), list.map(|(at, weight, rank)| (at.to_owned(), weight, rank)));
        assert!(end.nodes.iter().all(|found| found.node.transport.is_none()));
        let end = find(wanted("test", None, Some(Transport::Tcp)), zone).unwrap();
        assert_eq!(shown(&end), [("192.0.2.4:5060".into(), 1, 0)]);
        assert_eq!(end.nodes[0].node.transport, Some(Transport::Tcp));
    }

    #[test]
    fn services_of_tls_and_sctp_have_names_of_their_own() {
        for (transport, service, port) in
            [(Transport::Tls, "_sips._tcp.test", 5061), (Transport::Sctp, "_sip._sctp.test", 5060)]
        {
            let there = |kind, name: &str| match (kind, name) {
                (Kind::Srv, asked) if asked == service => Outcome::Srv(Box::new([srv(0, 0, 7, "n.test")])),
                (Kind::A, _) => a(4),
                _ => Outcome::Nothing,
            };
            let end = find(wanted("test", None, Some(transport)), there).unwrap();
            assert_eq!(shown(&end), [("192.0.2.4:7".into(), 1, 0)]);
            assert_eq!(end.nodes[0].node.transport, Some(transport));
            let none = |kind, _: &str| if kind == Kind::A { a(5) } else { Outcome::Nothing };
            let end = find(wanted("test", None, Some(transport)), none);
            let end = end.unwrap().nodes[0].node.address;
            assert_eq!(end, SocketAddr::from(([192, 0, 2, 5], port)));
        }
    }

    #[test]
    fn of_too_many_the_same_are_looked_at_in_whatever_order_they_come() {
        let find = |turn: u16| {
            let records = (0..300).map(|n| (n * 7 + turn) % 300);
            let of = |n: u16| srv(n / 100, 1, 5060 + n, "a.test");
            let records: Box<[Srv]> = records.map(of).collect();
            let zone = |kind, name: &str| match (kind, name) {
                (Kind::Srv, "_sip._udp.test") => Outcome::Srv(records.clone()),
                (Kind::A, "a.test") => a(1),
                _ => Outcome::Nothing,
            };
            shown(&find(wanted("test", None, None), zone).unwrap())
        };
        let all = find(0);
        assert_eq!((all.len(), &all), (256, &find(150)));
        // Of those that are left out none comes before one that is not.
        assert_eq!(all.iter().filter(|(_, _, rank)| *rank < 2).count(), 200);
    }

    #[test]
    fn weights_become_shares() {
        let of = |weights: &[u32], factor| {
            let one = |weight: &u32| Server {
                priority: 0,
                weight: *weight,
                port: 1,
                transport: None,
                host: Box::new([]),
            };
            shares(&weights.iter().map(one).collect::<Vec<_>>(), factor)
        };
        assert_eq!(of(&[50, 50], 1), [1, 1]);
        assert_eq!(of(&[0, 0], 3), [3, 3]);
        assert_eq!(of(&[10, 20], 5), [5, 10]);
        assert_eq!(of(&[65_535, 1], 1), [1_000, 1]);
        assert_eq!(of(&[65_535, 65_534], 1_000), [1_000, 999]);
    }

    #[test]
    fn without_services_it_is_the_host_itself() {
        let zone = |kind, name: &str| match (kind, name) {
            (Kind::A, "plain.test") => a(7),
            _ => Outcome::Nothing,
        };
        let end = find(wanted("plain.test", None, None), zone).unwrap();
        assert_eq!(shown(&end), [("192.0.2.7:5060".into(), 1, 0)]);
        let tcp = find(wanted("plain.test", None, Some(Transport::Tcp)), zone).unwrap();
        assert_eq!(tcp.nodes[0].node.transport, Some(Transport::Tcp));
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_nothing() {
        let failed = || Outcome::Failed(Failure::Timeout);
        let error = |zone: fn(Kind, &str) -> Outcome| find(wanted("test", None, None), zone).unwrap_err();
        assert_eq!(error(|_, _| Outcome::Failed(Failure::Server)), "the DNS does not answer");
        assert_eq!(error(|_, _| Outcome::Nothing), "the DNS knows no address");
        let absent = error(|kind, _| match kind {
            Kind::Srv => Outcome::Srv(Box::new([srv(0, 0, 0, "")])),
            _ => panic!("there is no such service"),
        });
        assert!(absent.contains("no such service"));
        // The preferred service may be there: others are not taken for it.
        let zone = |_, name: &str| match name {
            "_sip._udp.test" => failed(),
            "_sip._tcp.test" => Outcome::Srv(Box::new([srv(0, 0, 5060, "t.test")])),
            _ => a(1),
        };
        assert!(find(wanted("test", None, None), zone).is_err());
        // Of one host nothing is known, and there may be more.
        let zone = |kind, name: &str| match (kind, name) {
            (Kind::Srv, "_sip._udp.test") => {
                Outcome::Srv(Box::new([srv(0, 0, 5060, "a.test"), srv(0, 0, 5060, "b.test")]))
            }
            (Kind::A, "a.test") => a(1),
            (_, "b.test") => failed(),
            _ => Outcome::Nothing,
        };
        let end = find(wanted("test", None, None), zone).unwrap();
        assert_eq!((shown(&end).len(), end.whole), (1, false));
    }

    #[test]
    fn a_zone_of_any_size_is_looked_at_in_part() {
        let zone = |kind, _: &str| match kind {
            Kind::Srv => Outcome::Srv((0..2_000).map(|n| srv(n, n, 5060, &format!("h{n}.test"))).collect()),
            Kind::A => Outcome::A((0..300).map(|n: u32| n.into()).collect()),
            _ => Outcome::Nothing,
        };
        let end = find(wanted("test", None, None), zone).unwrap();
        assert_eq!(end.nodes.len(), 64, "each host has the same ones");
    }
}
