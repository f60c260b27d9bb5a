//! Two balancers that both have one address, behind routers that deal out by addresses (ECMP): what a node
//! sends to the common address may come to either.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Flow, ListenerId, Machine, Outbox, Time, Transport};

const COMMON: &str = "192.0.2.10:5060";
const OWN: [&str; 2] = ["192.0.2.11:5060", "192.0.2.12:5060"];
const TICK: Duration = Duration::from_millis(10);
/// How long callees let it ring, and how long calls last.
const RINGS: Duration = Duration::from_secs(5);
const LASTS: Duration = Duration::from_secs(4);

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    text: String,
}

/// What a callee has of a call.
struct Ringing {
    call: String,
    packet: Packet,
}

/// Two balancers, two nodes (.1 and .2) and callers, on a network that loses nothing.
struct Net {
    balancers: [Option<Balancer>; 2],
    clusters: [Arc<Cluster>; 2],
    own_source: bool,
    now: Time,
    /// What arrives in the next tick, and what is to be done later.
    wire: VecDeque<Packet>,
    answers: VecDeque<(Time, Ringing)>,
    hang_up: VecDeque<(Time, Packet)>,
    /// INVITEs that nodes had, by Call-ID: those with another branch are others.
    invites: BTreeMap<String, BTreeSet<String>>,
    /// What each call's caller was told in the end, and how its BYE was answered.
    finals: BTreeMap<String, Vec<String>>,
    ended: BTreeMap<String, String>,
}

impl Net {
    fn new(own_source: bool) -> Net {
        let clusters = [0, 1].map(|_| Cluster::new(nodes(2), 1));
        let mut net = Net {
            balancers: [None, None],
            clusters,
            own_source,
            now: Time::from_secs(100),
            wire: VecDeque::new(),
            answers: VecDeque::new(),
            hang_up: VecDeque::new(),
            invites: BTreeMap::new(),
            finals: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        (0..2).for_each(|at| net.start(at));
        net.run(Duration::from_secs(2));
        net
    }

    fn start(&mut self, at: usize) {
        let listen = |a: &str| Listener::new(Transport::Udp, address(a), None);
        let settings = Settings {
            own_source: self.own_source,
            algorithm: Algorithm::RoundRobin,
            ..Settings::new(vec![listen(OWN[at]), listen(COMMON), listen(OWN[1 - at])])
        };
        let cluster = Arc::clone(&self.clusters[at]);
        let setup =
            Setup { worker: 0, workers: 1, cluster, keys: keys(2), calls: 1_000, seed: at as u64, life: 1 };
        self.balancers[at] = Some(Balancer::new(setup, Arc::new(settings)));
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + TICK;
            for at in 0..2 {
                let Some(mut balancer) = self.balancers[at].take() else { continue };
                let mut out = Outbox::new();
                balancer.timeout(self.now, &mut out);
                self.balancers[at] = Some(balancer);
                self.put(at, &out);
            }
            for packet in std::mem::take(&mut self.wire) {
                self.deliver(packet);
            }
            while self.answers.front().is_some_and(|(due, _)| *due <= self.now) {
                let (_, ringing) = self.answers.pop_front().expect("it");
                self.answer(&ringing.packet, "200 OK");
                assert!(!ringing.call.is_empty());
            }
            while self.hang_up.front().is_some_and(|(due, _)| *due <= self.now) {
                let (_, bye) = self.hang_up.pop_front().expect("it");
                self.wire.push_back(bye);
            }
        }
    }

    /// What a balancer sent leaves from the address of its listener.
    fn put(&mut self, at: usize, out: &Outbox) {
        let address_of =
            |listener: ListenerId| address([OWN[at], COMMON, OWN[1 - at]][usize::from(listener.0)]);
        for transmit in out.transmits() {
            let text = String::from_utf8_lossy(out.message(transmit)).into_owned();
            let (from, to) = (address_of(transmit.flow.listener), transmit.flow.remote);
            self.wire.push_back(Packet { from, to, text });
        }
    }

    /// The balancer that a packet reaches, and its listener; `None`: it is for another host.
    fn way_of(&self, packet: &Packet) -> Option<(usize, ListenerId)> {
        let alive = |at: usize| if self.balancers[at].is_some() { at } else { 1 - at };
        // To the own address of one that is gone there is a way by the other.
        if let Some(own) = OWN.iter().position(|own| address(own) == packet.to) {
            return Some((alive(own), ListenerId(if alive(own) == own { 0 } else { 2 })));
        }
        // By the sender's address: neighbours take different ways, while there are two.
        let dealt = match packet.from.ip() {
            std::net::IpAddr::V4(ip) => usize::from(ip.octets()[3] % 2),
            std::net::IpAddr::V6(_) => 0,
        };
        (packet.to == address(COMMON)).then(|| (alive(dealt), ListenerId(1)))
    }

    fn deliver(&mut self, packet: Packet) {
        if let Some((at, listener)) = self.way_of(&packet) {
            let Some(mut balancer) = self.balancers[at].take() else { return };
            let mut out = Outbox::new();
            balancer.receive(
                wire::Arrival::new(self.now, Flow::udp(listener, packet.from), packet.text.as_bytes()),
                &mut out,
            );
            self.balancers[at] = Some(balancer);
            return self.put(at, &out);
        }
        match packet.to.ip().to_string().starts_with("192.0.2.") {
            true => self.at_node(packet),
            false => self.at_caller(packet),
        }
    }

    /// The answer goes to where the request came from, with the port in its Via (RFC 3261 section 18.2.2).
    fn answer(&mut self, request: &Packet, status: &str) {
        let sent = as_sent(request);
        let text = response(&sent, status, "");
        let via = sent.header("Via").expect("a Via").to_owned();
        let sent_by = via.split([' ', ';']).nth(1).expect("sent-by");
        let text = match address(sent_by).ip() == request.from.ip() {
            true => text,
            false => text.replacen(&via, &format!("{via};received={}", request.from.ip()), 1),
        };
        let to = SocketAddr::new(request.from.ip(), address(sent_by).port());
        self.wire.push_back(Packet { from: request.to, to, text });
    }

    fn at_node(&mut self, packet: Packet) {
        let sent = as_sent(&packet);
        match sent.start().split(' ').next() {
            Some("INVITE") => {
                let call = sent.header("Call-ID").expect("one").to_owned();
                if !self.invites.entry(call.clone()).or_default().insert(sent.branch().to_owned()) {
                    return;
                }
                self.answer(&packet, "180 Ringing");
                self.answers.push_back((self.now + RINGS, Ringing { call, packet }));
            }
            Some("ACK") => {}
            Some(_) => self.answer(&packet, "200 OK"),
            None => unreachable!("a message"),
        }
    }

    fn at_caller(&mut self, packet: Packet) {
        let sent = as_sent(&packet);
        let (call, start) = (sent.header("Call-ID").expect("one").to_owned(), sent.start().to_owned());
        let cseq = sent.header("CSeq").expect("one");
        if start.starts_with("SIP/2.0 1") {
            return;
        }
        if cseq.ends_with("BYE") {
            self.ended.insert(call, start);
            return;
        }
        self.finals.entry(call.clone()).or_default().push(start.clone());
        let route = sent.header("Record-Route").map(|r| format!("Route: {r}\r\n")).unwrap_or_default();
        let ok = start.starts_with("SIP/2.0 200");
        // Dialogs come by the common address, so that any balancer serves them.
        assert!(!ok || route.starts_with("Route: <sip:192.0.2.10:5060;lr;d="), "{route}");
        let branch = if ok { format!("a{call}") } else { call.clone() };
        let ack = self.request_of(packet.to, "ACK", &call, 1, &branch, &route);
        self.wire.push_back(ack);
        if ok {
            let bye = self.request_of(packet.to, "BYE", &call, 2, &format!("b{call}"), &route);
            self.hang_up.push_back((self.now + LASTS, bye));
        }
    }

    fn request_of(
        &self,
        from: SocketAddr,
        method: &str,
        call: &str,
        cseq: u32,
        branch: &str,
        route: &str,
    ) -> Packet {
        let text = request(
            method,
            call,
            cseq,
            branch,
            if cseq > 1 || method == "ACK" { ";tag=callee" } else { "" },
            route,
        );
        Packet { from, to: address(COMMON), text: text.replace("198.51.100.7", &from.ip().to_string()) }
    }

    /// `count` calls, one every 50 ms, from neighbouring addresses.
    fn calls(&mut self, names: &str, count: u8) {
        for n in 0..count {
            let from = SocketAddr::new([198, 51, 100, 50 + n].into(), 5060);
            let call = format!("{names}{n}");
            let invite = self.request_of(from, "INVITE", &call, 1, &call, "");
            self.wire.push_back(invite);
            self.run(Duration::from_millis(50));
        }
    }

    /// Of both: INVITEs given to another node, transactions given up, and what is still counted.
    fn harm(&self) -> (u64, u64, u32) {
        let mut harm = (0, 0, 0);
        for balancer in self.balancers.iter().flatten() {
            let report = balancer.report(true);
            assert_eq!(report.exact, Some(true));
            harm.0 += report.events.retried;
            harm.1 += report.events.timed_out;
            harm.2 += report.loads.iter().map(|load| load.calls + load.transactions()).sum::<u32>();
        }
        harm
    }
}

fn as_sent(packet: &Packet) -> Sent {
    let (to, text) = (packet.to.to_string(), packet.text.clone());
    Sent { to, text, ..Sent::default() }
}

#[test]
fn who_asked_a_node_gets_its_answer_though_both_have_the_address() {
    let mut net = Net::new(true);
    net.calls("c", 24);
    net.run(Duration::from_secs(45));
    assert_eq!((net.invites.len(), net.finals.len(), net.ended.len()), (24, 24, 24));
    for (call, invites) in &net.invites {
        assert_eq!(
            (invites.len(), net.finals[call].as_slice()),
            (1, &["SIP/2.0 200 OK".to_owned()][..]),
            "{call}"
        );
        assert_eq!(net.ended[call], "SIP/2.0 200 OK");
    }
    assert_eq!(net.harm(), (0, 0, 0));
    for balancer in net.balancers.iter().flatten() {
        assert!(balancer.report(false).events.assigned >= 20, "both have calls");
    }
    // What it is good for: from the common address the same calls ring at several nodes, and nothing is
    // counted right.
    let mut without = Net::new(false);
    without.calls("c", 24);
    without.run(Duration::from_secs(45));
    let (retried, timed_out, _) = without.harm();
    assert!(retried > 0 && timed_out > 0, "{:?}", without.harm());
    assert!(without.invites.values().any(|invites| invites.len() > 1));
}

#[test]
fn dialogs_of_one_that_is_gone_go_on_at_the_other() {
    let mut net = Net::new(true);
    net.calls("u", 12);
    net.run(RINGS + Duration::from_millis(500));
    let up = net.finals.len();
    assert_eq!((up, net.ended.len()), (12, 0), "all of them are up");
    net.balancers[0] = None;
    net.run(Duration::from_secs(10));
    assert_eq!(net.ended.len(), up);
    assert!(net.ended.values().all(|said| said == "SIP/2.0 200 OK"), "{:?}", net.ended);
    // What rings is answered by way of the other, to which the address of the one that is gone leads.
    let mut net = Net::new(true);
    net.calls("r", 12);
    assert!(net.finals.is_empty());
    net.balancers[0] = None;
    net.run(Duration::from_secs(15));
    assert_eq!((net.finals.len(), net.ended.len()), (12, 12));
    assert!(net.finals.values().flatten().all(|said| said == "SIP/2.0 200 OK"));
}

#[test]
fn answers_that_come_to_one_that_was_started_again_reach_their_callers() {
    let mut net = Net::new(true);
    net.calls("r", 12);
    assert!(net.finals.is_empty(), "all of them ring");
    for at in 0..2 {
        net.balancers[at] = None;
        net.start(at);
    }
    net.run(Duration::from_secs(15));
    assert_eq!((net.finals.len(), net.ended.len()), (12, 12));
    assert!(net.finals.values().flatten().all(|said| said == "SIP/2.0 200 OK"), "{:?}", net.finals);
}
