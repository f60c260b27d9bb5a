//! A balancer in a world of bytes.

use sip_balancer::token::{Key, Keys};
use sip_balancer::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{ConnId, Flow, ListenerId, Machine, Outbox, Time, Transport};

pub const CALLER: &str = "198.51.100.7:5060";
/// A caller over TCP.
pub const PHONE: &str = "198.51.100.7:40001";
pub const BALANCER: &str = "192.0.2.100:5060";

pub fn keys(epoch: u8) -> Keys {
    let key = |epoch: u8| Key { epoch, secret: [epoch; 16] };
    Keys { current: key(epoch), previous: Some(key(epoch - 1)), hash: [42; 16] }
}

pub fn nodes(count: u8) -> Vec<Node> {
    let node = |i: u8| {
        let address = SocketAddr::new([192, 0, 2, i].into(), 5060);
        Node::new(address)
    };
    (1..=count).map(node).collect()
}

pub fn settings() -> Settings {
    let probing = Probing { interval: Duration::ZERO, ..Probing::default() };
    // Silence has tests of its own.
    let rules = Rules { silent_after: Duration::ZERO, ..Rules::default() };
    let address = BALANCER.parse().expect("an address");
    Settings { probing, rules, ..Settings::new(vec![Listener::new(Transport::Udp, address, None)]) }
}

/// With a stream listener, too.
pub fn streams() -> Settings {
    let address = BALANCER.parse().expect("an address");
    let listen = |transport| Listener::new(transport, address, None);
    let listeners = Settings::new(vec![listen(Transport::Udp), listen(Transport::Tcp)]).listeners;
    Settings { listeners, ..settings() }
}

/// Nodes over TCP.
pub fn tcp_nodes(count: u8) -> Vec<Node> {
    nodes(count).into_iter().map(|node| Node { transport: Some(Transport::Tcp), ..node }).collect()
}

pub struct World {
    pub balancer: Balancer,
    pub cluster: Arc<Cluster>,
    pub now: Time,
    /// Connections that are not in use any more.
    pub released: Vec<ConnId>,
}

/// A message that was sent, and where to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    pub to: String,
    pub text: String,
    /// How, and what it is known by if it cannot be sent.
    pub over: Transport,
    pub conn: Option<ConnId>,
    pub token: u64,
    pub hurries: bool,
    /// For how long its connection matters, and whether it is in use from now on.
    pub keeps: u32,
    pub uses: bool,
    /// The name that its peer must prove, and whether a new connection is forbidden.
    pub name: String,
    pub existing: bool,
}

impl Sent {
    pub fn start(&self) -> &str {
        self.text.lines().next().unwrap_or("")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub fn branch(&self) -> &str {
        let via = self.header("Via").expect("a Via");
        via.split(";branch=").nth(1).and_then(|b| b.split(';').next()).expect("a branch")
    }
}

impl World {
    pub fn with(nodes: Vec<Node>, keys: Keys, settings: Settings) -> World {
        let cluster = Cluster::new(nodes, 1);
        let setup = Setup {
            worker: 0,
            workers: 1,
            cluster: Arc::clone(&cluster),
            keys,
            calls: 1_000,
            seed: 1,
            life: 1,
        };
        World {
            balancer: Balancer::new(setup, Arc::new(settings)),
            cluster,
            now: Time::from_secs(100),
            released: Vec::new(),
        }
    }

    pub fn new() -> World {
        World::with(nodes(3), keys(2), settings())
    }

    pub fn pass(&mut self, time: Duration) -> Vec<Sent> {
        self.now = self.now + time;
        let mut out = Outbox::new();
        self.balancer.timeout(self.now, &mut out);
        self.released.extend(out.releases());
        sent(&out)
    }

    pub fn receive(&mut self, from: &str, text: &str) -> Vec<Sent> {
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), from.parse().expect("an address"));
        self.balancer.receive(wire::Arrival::new(self.now, flow, text.as_bytes()), &mut out);
        self.released.extend(out.releases());
        sent(&out)
    }

    /// Over a stream, on a connection that has the port's number.
    pub fn receive_tcp(&mut self, from: &str, text: &str) -> Vec<Sent> {
        self.receive_over((Transport::Tcp, 1), from, text)
    }

    /// The same over this transport, to the listener in this place.
    pub fn receive_over(
        &mut self,
        (transport, listener): (Transport, u16),
        from: &str,
        text: &str,
    ) -> Vec<Sent> {
        let mut out = Outbox::new();
        let remote: SocketAddr = from.parse().expect("an address");
        let conn = Some(ConnId::new(0, remote.port().into()));
        let flow = Flow { transport, listener: ListenerId(listener), remote, conn };
        self.balancer.receive(wire::Arrival::new(self.now, flow, text.as_bytes()), &mut out);
        self.released.extend(out.releases());
        sent(&out)
    }

    pub fn one_tcp(&mut self, from: &str, text: &str) -> Sent {
        let mut all = self.receive_tcp(from, text);
        assert_eq!(all.len(), 1, "{text}\n->\n{all:?}");
        all.remove(0)
    }

    /// `count` seconds pass, each looked at twice.
    pub fn seconds(&mut self, count: u32) -> Vec<Sent> {
        (0..2 * count).flat_map(|_| self.pass(Duration::from_millis(500))).collect()
    }

    /// Where a request was sent to.
    pub fn node(&self, sent: &Sent) -> NodeIndex {
        self.cluster.at(sent.to.parse().expect("an address")).expect("a node")
    }

    /// The node that got it goes down.
    pub fn down(&mut self, sent: &Sent) -> Vec<Sent> {
        self.cluster.set_down(self.node(sent), Why::ProbeTimeout);
        self.pass(Duration::ZERO)
    }

    /// It could not be sent.
    pub fn lost(&mut self, message: &Sent) -> Vec<Sent> {
        assert_ne!(message.token, 0, "nobody wants to know: {message:?}");
        let mut out = Outbox::new();
        self.balancer.undeliverable(self.now, message.token, &mut out);
        sent(&out)
    }

    /// It had left when its connection ended.
    pub fn cut_off(&mut self, message: &Sent) -> Vec<Sent> {
        assert_ne!(message.token, 0, "nobody wants to know: {message:?}");
        let mut out = Outbox::new();
        self.balancer.cut_off(self.now, message.token, &mut out);
        sent(&out)
    }

    pub fn one(&mut self, from: &str, text: &str) -> Sent {
        let mut all = self.receive(from, text);
        assert_eq!(all.len(), 1, "{text}\n->\n{all:?}");
        all.remove(0)
    }

    /// The node answers what it was sent.
    pub fn answer(&mut self, request: &Sent, status: &str, more: &str) -> Vec<Sent> {
        let text = response(request, status, more);
        match request.over {
            Transport::Udp => self.receive(&request.to, &text),
            _ => self.receive_tcp(&request.to, &text),
        }
    }

    /// The network brings back so much of what was sent to a node.
    pub fn bring_back(&mut self, sent: &Sent, octets: usize) {
        let (to, quoted) = (sent.to.parse().expect("an address"), &sent.text.as_bytes()[..octets]);
        self.balancer.returned(self.now, to, quoted, &mut Outbox::new());
    }

    /// One with room for one call, which it has.
    pub fn full() -> World {
        let mut world = World::new();
        let cluster = Arc::clone(&world.cluster);
        let setup = Setup { worker: 0, workers: 1, cluster, keys: keys(2), calls: 1, seed: 1, life: 1 };
        world.balancer = Balancer::new(setup, Arc::new(settings()));
        world.one(CALLER, &invite("full"));
        world
    }

    /// The caller acknowledges a refusal, which shows that it receives what is sent to it.
    pub fn hears(&mut self) {
        let forwarded = self.one(CALLER, &invite("heard"));
        self.answer(&forwarded, "486 Busy Here", "");
        self.one(CALLER, &request("ACK", "heard", 1, "heard", ";tag=callee", ""));
    }

    pub fn load(&self) -> (u32, u32) {
        let all = self.cluster.indexes().map(|at| self.cluster.load(at));
        all.fold((0, 0), |(calls, open), load| (calls + load.calls, open + load.transactions()))
    }
}

pub fn sent(out: &Outbox) -> Vec<Sent> {
    out.transmits().iter().map(|transmit| one_sent(out, transmit)).collect()
}

pub fn one_sent(out: &Outbox, t: &wire::Transmit) -> Sent {
    Sent {
        to: t.flow.remote.to_string(),
        text: String::from_utf8_lossy(out.message(t)).into_owned(),
        over: t.flow.transport,
        conn: t.flow.conn,
        token: t.token,
        hurries: t.hurries,
        keeps: t.keeps,
        uses: t.uses,
        name: String::from_utf8_lossy(out.name(t)).into_owned(),
        existing: t.existing,
    }
}

/// Over UDP, without a report of failure.
impl Default for Sent {
    fn default() -> Sent {
        let flow = Flow::udp(ListenerId(0), ([0, 0, 0, 0], 0).into());
        let mut out = Outbox::new();
        out.send(flow, 0, b"");
        one_sent(&out, &out.transmits()[0])
    }
}

pub fn response(request: &Sent, status: &str, more: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for line in request.text.lines().skip(1) {
        let name = line.split(':').next().unwrap_or("");
        match name {
            "To" if !line.contains(";tag=") && !status.starts_with("100") => {
                text += &format!("{line};tag=callee\r\n")
            }
            "Via" | "From" | "To" | "Call-ID" | "CSeq" | "Record-Route" => text += &format!("{line}\r\n"),
            _ => {}
        }
    }
    text + more + "Content-Length: 0\r\n\r\n"
}

/// A request of the caller. `to`: its tag, if any; `more`: further header lines.
pub fn request(method: &str, call: &str, cseq: u32, branch: &str, to: &str, more: &str) -> String {
    let cseq_method = method;
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK{branch}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=caller\r\nTo: <sip:bob@example.com>{to}\r\n\
         Call-ID: {call}\r\nCSeq: {cseq} {cseq_method}\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

pub fn invite(call: &str) -> String {
    request("INVITE", call, 1, call, "", "")
}

pub fn over_tcp(text: &str) -> String {
    text.replace("Via: SIP/2.0/UDP", "Via: SIP/2.0/TCP")
}

/// One that gives silent nodes up at once, and has heard of all of them.
pub fn watched(nodes: Vec<Node>) -> World {
    let probing = Probing { interval: Duration::from_secs(3_600), ..Probing::default() };
    let mut world = World::with(nodes, keys(2), Settings { probing, rules: Rules::default(), ..streams() });
    // The first probes, which are not what is looked at.
    for probe in world.pass(Duration::ZERO) {
        world.answer(&probe, "200 OK", "");
    }
    world.pass(Duration::from_secs(1));
    world
}

/// An INVITE, and the same at another node after its first was silent; and what else was sent then.
pub fn moved(world: &mut World, call: &str) -> (Sent, Sent, Vec<Sent>) {
    let first = world.one(CALLER, &invite(call));
    assert!(world.pass(Duration::from_millis(399)).is_empty());
    let mut all = world.pass(Duration::from_millis(1));
    let second = invited(&all);
    assert_ne!((&second.to, second.branch()), (&first.to, first.branch()));
    all.retain(|m| *m != second);
    (first, second, all)
}

/// The one INVITE among what was sent.
pub fn invited(sent: &[Sent]) -> Sent {
    let all: Vec<&Sent> = sent.iter().filter(|m| m.start().starts_with("INVITE ")).collect();
    assert_eq!(all.len(), 1, "{sent:?}");
    all[0].clone()
}

/// Final responses to INVITEs.
pub fn finals(sent: &[Sent]) -> Vec<&str> {
    let of = |m: &&Sent| m.header("CSeq").is_some_and(|cseq| cseq.ends_with(" INVITE"));
    let all = sent.iter().filter(of).map(Sent::start).filter(|s| s.starts_with("SIP/2.0 "));
    all.filter(|s| !s.starts_with("SIP/2.0 1")).collect()
}

/// A call that is up: the INVITE as it was forwarded, and the route of its dialog.
pub fn call(world: &mut World, name: &str) -> (Sent, String) {
    let forwarded = world.one(CALLER, &invite(name));
    let route = forwarded.header("Record-Route").expect("a route").to_owned();
    let back = world.answer(&forwarded, "200 OK", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].start()), (1, CALLER, "SIP/2.0 200 OK"));
    assert_eq!(back[0].text.matches("Via:").count(), 1);
    (forwarded, format!("Route: {route}\r\n"))
}
