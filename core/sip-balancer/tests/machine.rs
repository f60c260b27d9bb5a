//! The machine with bytes: what it forwards, where to, and what it refuses.

use sip_balancer::token::{Key, Keys};
use sip_balancer::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Flow, ListenerId, Machine, Outbox, Time, Transport};

const CALLER: &str = "198.51.100.7:5060";
const BALANCER: &str = "192.0.2.100:5060";

fn keys(epoch: u8) -> Keys {
    let key = |epoch: u8| Key { epoch, secret: [epoch; 16] };
    Keys { current: key(epoch), previous: Some(key(epoch - 1)), hash: [42; 16] }
}

fn nodes(count: u8) -> Vec<Node> {
    let node = |i: u8| {
        let address = SocketAddr::new([192, 0, 2, i].into(), 5060);
        Node { name: address.to_string(), address, weight: 1 }
    };
    (1..=count).map(node).collect()
}

fn settings() -> Settings {
    let probing = Probing { interval: Duration::ZERO, ..Probing::default() };
    Settings { probing, ..Settings::new(vec![Listener::new(BALANCER.parse().expect("an address"), None)]) }
}

struct World {
    balancer: Balancer,
    cluster: Arc<Cluster>,
    now: Time,
}

/// A message that was sent, and where to.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sent {
    to: String,
    text: String,
}

impl Sent {
    fn start(&self) -> &str {
        self.text.lines().next().unwrap_or("")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn branch(&self) -> &str {
        let via = self.header("Via").expect("a Via");
        via.split(";branch=").nth(1).and_then(|b| b.split(';').next()).expect("a branch")
    }
}

impl World {
    fn with(nodes: Vec<Node>, keys: Keys, settings: Settings) -> World {
        let cluster = Cluster::new(nodes, 1);
        let setup =
            Setup { worker: 0, workers: 1, cluster: Arc::clone(&cluster), keys, calls: 1_000, seed: 1 };
        World { balancer: Balancer::new(setup, Arc::new(settings)), cluster, now: Time::from_secs(100) }
    }

    fn new() -> World {
        World::with(nodes(3), keys(2), settings())
    }

    fn pass(&mut self, time: Duration) -> Vec<Sent> {
        self.now = self.now + time;
        let mut out = Outbox::new();
        self.balancer.timeout(self.now, &mut out);
        sent(&out)
    }

    fn receive(&mut self, from: &str, text: &str) -> Vec<Sent> {
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), from.parse().expect("an address"));
        self.balancer.receive(self.now, flow, text.as_bytes(), &mut out);
        sent(&out)
    }

    fn one(&mut self, from: &str, text: &str) -> Sent {
        let mut all = self.receive(from, text);
        assert_eq!(all.len(), 1, "{text}\n->\n{all:?}");
        all.remove(0)
    }

    /// The node answers what it was sent.
    fn answer(&mut self, request: &Sent, status: &str, more: &str) -> Vec<Sent> {
        let text = response(request, status, more);
        self.receive(&request.to, &text)
    }

    /// The network brings back so much of what was sent to a node.
    fn bring_back(&mut self, sent: &Sent, octets: usize) {
        let (to, quoted) = (sent.to.parse().expect("an address"), &sent.text.as_bytes()[..octets]);
        self.balancer.returned(self.now, to, quoted, &mut Outbox::new());
    }

    /// One with room for one call, which it has.
    fn full() -> World {
        let mut world = World::new();
        let cluster = Arc::clone(&world.cluster);
        let setup = Setup { worker: 0, workers: 1, cluster, keys: keys(2), calls: 1, seed: 1 };
        world.balancer = Balancer::new(setup, Arc::new(settings()));
        world.one(CALLER, &invite("full"));
        world
    }

    fn load(&self) -> (u32, u32) {
        let all = self.cluster.indexes().map(|at| self.cluster.load(at));
        all.fold((0, 0), |(calls, open), load| (calls + load.calls, open + load.transactions()))
    }
}

fn sent(out: &Outbox) -> Vec<Sent> {
    let one = |t: &wire::Transmit| Sent {
        to: t.flow.remote.to_string(),
        text: String::from_utf8(out.message(t).to_vec()).expect("text"),
    };
    assert!(out.transmits().iter().all(|t| t.flow.transport == Transport::Udp));
    out.transmits().iter().map(one).collect()
}

fn response(request: &Sent, status: &str, more: &str) -> String {
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
fn request(method: &str, call: &str, cseq: u32, branch: &str, to: &str, more: &str) -> String {
    let cseq_method = method;
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK{branch}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=caller\r\nTo: <sip:bob@example.com>{to}\r\n\
         Call-ID: {call}\r\nCSeq: {cseq} {cseq_method}\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

fn invite(call: &str) -> String {
    request("INVITE", call, 1, call, "", "")
}

/// A call that is up: the INVITE as it was forwarded, and the route of its dialog.
fn call(world: &mut World, name: &str) -> (Sent, String) {
    let forwarded = world.one(CALLER, &invite(name));
    let route = forwarded.header("Record-Route").expect("a route").to_owned();
    let back = world.answer(&forwarded, "200 OK", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].start()), (1, CALLER, "SIP/2.0 200 OK"));
    assert_eq!(back[0].text.matches("Via:").count(), 1);
    (forwarded, format!("Route: {route}\r\n"))
}

#[test]
fn a_call_keeps_to_its_node_and_leaves_nothing() {
    let mut world = World::new();
    let forwarded = world.one(CALLER, &invite("c1"));
    assert!(forwarded.to.starts_with("192.0.2."), "{forwarded:?}");
    assert_eq!(forwarded.start(), "INVITE sip:bob@example.com SIP/2.0");
    assert_eq!(forwarded.header("Max-Forwards"), Some("69"));
    assert!(forwarded.header("Via").unwrap().starts_with("SIP/2.0/UDP 192.0.2.100:5060;branch=z9hG4bKlb"));
    let route = format!("Route: {}\r\n", forwarded.header("Record-Route").unwrap());
    assert!(route.starts_with("Route: <sip:192.0.2.100:5060;lr;d="), "{route}");
    assert_eq!(world.load(), (1, 1));
    // Repeated, it goes the same way with the same bytes, and counts nothing.
    assert_eq!(world.one(CALLER, &invite("c1")), forwarded);
    assert_eq!(world.load(), (1, 1));
    let ringing = world.answer(&forwarded, "180 Ringing", "");
    assert_eq!(ringing[0].to, CALLER);
    assert_eq!(world.answer(&forwarded, "200 OK", "").len(), 1);
    assert_eq!(world.load(), (1, 0));
    // The 200 again, until the ACK comes.
    assert_eq!(world.answer(&forwarded, "200 OK", "").len(), 1);
    let ack = world.one(CALLER, &request("ACK", "c1", 1, "a1", ";tag=callee", &route));
    assert_eq!((&ack.to, ack.header("Route"), ack.header("Record-Route")), (&forwarded.to, None, None));
    assert_eq!(world.load(), (1, 0));
    let bye = world.one(CALLER, &request("BYE", "c1", 2, "b1", ";tag=callee", &route));
    assert_eq!((&bye.to, world.load()), (&forwarded.to, (1, 1)));
    assert_eq!(world.answer(&bye, "200 OK", "").len(), 1);
    assert_eq!(world.load(), (0, 0));
    // A late retransmission goes where the first went and counts nothing.
    assert_eq!(world.one(CALLER, &request("BYE", "c1", 2, "b1", ";tag=callee", &route)), bye);
    assert_eq!(world.load(), (0, 0));
    for _ in 0..40 {
        world.pass(Duration::from_secs(1));
    }
    let report = world.balancer.report(true);
    assert_eq!((report.alive, report.ended, report.transactions), (0, 0, 0));
    assert_eq!(report.exact, Some(true));
}

#[test]
fn cancel_and_the_ack_of_a_failure_have_the_branch_of_their_invite() {
    let mut world = World::new();
    let forwarded = world.one(CALLER, &invite("c2"));
    let cancel = world.one(CALLER, &request("CANCEL", "c2", 1, "c2", "", ""));
    assert_eq!((&cancel.to, cancel.branch()), (&forwarded.to, forwarded.branch()));
    assert_eq!(world.load(), (1, 2));
    assert_eq!(world.answer(&cancel, "200 OK", "").len(), 1);
    assert_eq!(world.answer(&forwarded, "487 Request Terminated", "").len(), 1);
    assert_eq!(world.load(), (0, 0));
    let ack = world.one(CALLER, &request("ACK", "c2", 1, "c2", ";tag=callee", ""));
    assert_eq!((&ack.to, ack.branch()), (&forwarded.to, forwarded.branch()));
    // A CANCEL of nothing.
    let refused = world.one(CALLER, &request("CANCEL", "c3", 1, "c3", "", ""));
    assert_eq!(refused.start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn another_balancer_with_the_keys_needs_no_memory() {
    let mut one = World::new();
    let (forwarded, route) = call(&mut one, "c4");
    // Its nodes stand in another order, and its key is the next one.
    let mut list = nodes(3);
    list.reverse();
    let mut other = World::with(list, keys(3), settings());
    let bye = other.one(CALLER, &request("BYE", "c4", 2, "b4", ";tag=callee", &route));
    assert_eq!(bye.to, forwarded.to);
    // A response to what the first one forwarded, too.
    let late = other.answer(&forwarded, "200 OK", "");
    assert_eq!((late.len(), late[0].to.as_str()), (1, CALLER));
    assert_eq!(other.balancer.report(true).counts.relayed, 1);
    // One whose keys are two ahead refuses.
    let mut stranger = World::with(nodes(3), keys(4), settings());
    let refused = stranger.one(CALLER, &request("BYE", "c4", 2, "b4", ";tag=callee", &route));
    assert_eq!(refused.start(), "SIP/2.0 403 Dialog Not Of This Balancer");
    assert!(stranger.answer(&forwarded, "200 OK", "").is_empty());
}

#[test]
fn a_token_or_branch_that_was_tampered_with_is_refused() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "c5");
    let at = route.find("d=").unwrap() + 4;
    let changed = if route.as_bytes()[at] == b'0' { '1' } else { '0' };
    let forged = format!("{}{changed}{}", &route[..at], &route[at + 1..]);
    let refused = world.one(CALLER, &request("BYE", "c5", 2, "b5", ";tag=callee", &forged));
    assert_eq!(refused.start(), "SIP/2.0 403 Dialog Not Of This Balancer");
    // Taken over into another call.
    let refused = world.one(CALLER, &request("BYE", "c6", 2, "b6", ";tag=callee", &route));
    assert_eq!(refused.start(), "SIP/2.0 403 Dialog Not Of This Balancer");
    assert_eq!(world.balancer.report(true).counts.forged, 2);
    // A response to an address of one's own choice.
    let text = response(&forwarded, "200 OK", "").replace("198.51.100.7", "203.0.113.9");
    assert!(world.receive(&forwarded.to, &text).is_empty());
    assert_eq!(world.balancer.report(true).counts.stray, 1);
}

#[test]
fn the_other_end_hangs_up_through_us_and_nobody_else_can() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "c7");
    let bye = format!(
        "BYE sip:alice@198.51.100.7 SIP/2.0\r\nVia: SIP/2.0/UDP {0};branch=z9hG4bKn1\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: c7\r\nCSeq: 9 BYE\r\n{route}Content-Length: 0\r\n\r\n",
        forwarded.to
    );
    let refused = world.one("203.0.113.9:5060", &bye);
    assert_eq!(refused.start(), "SIP/2.0 403 Forbidden");
    let onward = world.one(&forwarded.to, &bye);
    assert_eq!((onward.to.as_str(), onward.header("Route")), (CALLER, None));
    let back = world.answer(&onward, "200 OK", "");
    assert_eq!((back.len(), &back[0].to), (1, &forwarded.to));
    assert_eq!(world.load(), (0, 0));
}

#[test]
fn callers_behind_translation_are_reached_where_they_come_from() {
    let mut world = World::new();
    let text = invite("c8").replace("UDP 198.51.100.7;", "UDP 10.0.0.5:5060;rport;");
    let mut all = world.receive("198.51.100.7:31000", &text);
    let forwarded = all.remove(0);
    assert!(forwarded.text.contains("received=198.51.100.7;rport=31000"), "{forwarded:?}");
    let route = forwarded.header("Record-Route").unwrap().to_owned();
    let back = world.answer(&forwarded, "200 OK", "");
    assert_eq!(back[0].to, "198.51.100.7:31000");
    let bye = format!(
        "BYE sip:alice@10.0.0.5 SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKn2\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: c8\r\nCSeq: 9 BYE\r\nRoute: {route}\r\nContent-Length: 0\r\n\r\n",
        forwarded.to
    );
    assert_eq!(world.one(&forwarded.to, &bye).to, "198.51.100.7:31000");
}

#[test]
fn what_cannot_be_forwarded_is_refused_as_the_rfc_says() {
    let mut world = World::new();
    let mut refused = |text: String| world.one(CALLER, &text);
    assert_eq!(
        refused(invite("r1").replace("Max-Forwards: 70", "Max-Forwards: 0")).start(),
        "SIP/2.0 483 Too Many Hops"
    );
    let extension = refused(request("INVITE", "r2", 1, "r2", "", "Proxy-Require: privacy\r\n"));
    assert_eq!(extension.start(), "SIP/2.0 420 Bad Extension");
    assert_eq!(extension.header("Unsupported"), Some("privacy"));
    for scheme in ["sips:bob@example.com", "h323:bob@example.com"] {
        let text = invite("r3").replace("sip:bob@example.com SIP", &format!("{scheme} SIP"));
        assert_eq!(refused(text).start(), "SIP/2.0 416 Unsupported URI Scheme", "{scheme}");
    }
    assert_eq!(
        refused(invite("r4").replace("CSeq: 1 INVITE", "CSeq: 1 BYE")).start().split(' ').nth(1),
        Some("400")
    );
    // The ACK of such a refusal ends here.
    let tag = refused(invite("r5").replace("Max-Forwards: 70", "Max-Forwards: 0"));
    let tag = tag.header("To").unwrap().split(";tag=").nth(1).unwrap().to_owned();
    let ack = request("ACK", "r5", 1, "r5", &format!(";tag={tag}"), "");
    assert!(world.receive(CALLER, &ack).is_empty());
    assert_eq!(world.balancer.report(true).counts.stray, 0);
    assert!(world.receive(CALLER, "GET / HTTP/1.1\r\n\r\n").is_empty());
}

#[test]
fn what_goes_round_is_stopped() {
    let mut world = World::new();
    let mut text = invite("l1");
    for _ in 0..4 {
        // A node that sends everything back to us.
        text = world.one(CALLER, &text).text;
    }
    let stopped = world.one("192.0.2.1:5060", &text);
    assert_eq!(stopped.start(), "SIP/2.0 482 Loop Detected");
}

#[test]
fn somebody_before_us_learns_how_we_are() {
    let mut world = World::new();
    let ask =
        request("OPTIONS", "o1", 1, "o1", "", "").replace("sip:bob@example.com SIP", "sip:192.0.2.100 SIP");
    assert_eq!(world.one(CALLER, &ask).start(), "SIP/2.0 200 OK");
    // One for a user goes to a node.
    assert!(
        world.one(CALLER, &request("OPTIONS", "o2", 1, "o2", "", "")).start().starts_with("OPTIONS sip:bob")
    );
    for at in world.cluster.indexes() {
        world.cluster.set_down(at, Why::ProbeTimeout);
    }
    for text in [ask, invite("o3"), request("REGISTER", "o4", 1, "o4", "", "")] {
        let refused = world.one(CALLER, &text);
        assert_eq!(refused.start(), "SIP/2.0 503 Service Unavailable");
        assert_eq!(refused.header("Retry-After"), Some("5"));
    }
}

#[test]
fn a_node_that_asks_for_rest_gets_it_and_the_caller_may_try_again() {
    let mut world = World::with(nodes(2), keys(2), settings());
    let first = world.one(CALLER, &invite("s1"));
    let back = world.answer(&first, "503 Service Unavailable", "Retry-After: 9\r\n");
    assert_eq!((back[0].start(), back[0].header("Retry-After")), ("SIP/2.0 500 Server Internal Error", None));
    for n in 0..6 {
        assert_ne!(world.one(CALLER, &invite(&format!("s2{n}"))).to, first.to);
    }
    // With nobody else to serve, it is said as it is.
    let other = world.cluster.at(first.to.parse().unwrap()).unwrap();
    world.cluster.indexes().filter(|at| *at != other).for_each(|at| world.cluster.set_down(at, Why::Silent));
    let again = world.answer(&first, "503 Service Unavailable", "Retry-After: 9\r\n");
    assert_eq!(
        (again[0].start(), again[0].header("Retry-After")),
        ("SIP/2.0 503 Service Unavailable", Some("9"))
    );
    world.pass(Duration::from_secs(10));
    assert_eq!(world.one(CALLER, &invite("s3")).to, first.to);
}

#[test]
fn a_call_whose_node_is_gone_is_tried_elsewhere_when_it_is_repeated() {
    let settings = Settings { probing: Probing::default(), ..settings() };
    let mut world = World::with(nodes(2), keys(2), settings);
    // Whoever kept one of our branches says that what it was for came back.
    let old = world.one(CALLER, &invite("d0"));
    assert_eq!(world.answer(&old, "486 Busy Here", "").len(), 1);
    (0..9).for_each(|_| world.bring_back(&old, old.text.len()));
    assert!(world.cluster.indexes().all(|at| world.cluster.takes_calls(world.now, at)));
    for probe in world.pass(Duration::ZERO) {
        world.answer(&probe, "200 OK", "");
    }
    let first = world.one(CALLER, &invite("d1"));
    let node: SocketAddr = first.to.parse().unwrap();
    // The network says that nobody is there, to whoever believes it: only what we sent counts.
    let forged = Sent { text: first.text.replace("branch=z9hG4bKlb", "branch=z9hG4bKxx"), ..first.clone() };
    world.bring_back(&forged, forged.text.len());
    assert_eq!(world.one(CALLER, &invite("d1")).to, first.to);
    let at = world.cluster.at(node).unwrap();
    (0..9).for_each(|_| world.bring_back(&first, first.text.len()));
    // One request came back: one failure, a probe at once, and another node for this one.
    assert!(world.cluster.takes_calls(world.now, at));
    let probe = world.pass(Duration::ZERO).into_iter().find(|probe| probe.to == first.to);
    let second = world.one(CALLER, &invite("d1"));
    assert_ne!((&second.to, second.branch()), (&first.to, first.branch()));
    assert_eq!(world.load(), (1, 1));
    assert_eq!(world.answer(&second, "486 Busy Here", "").len(), 1);
    assert_eq!(world.load(), (0, 0));
    assert_eq!(world.balancer.report(true).happened.retried, 1);
    // The probe comes back, and the next: that is believed, of the one that is due.
    let mut probe = probe.expect("a probe at once");
    let stale = probe.clone();
    for _ in 0..2 {
        assert!(world.cluster.is_usable(world.now, at));
        world.bring_back(&probe, probe.text.len());
        world.bring_back(&probe, probe.text.len());
        let next = world.pass(Duration::ZERO).into_iter().find(|probe| probe.to == first.to);
        probe = next.unwrap_or(stale.clone());
    }
    assert_eq!(world.cluster.health(at), (Health::Down, Why::Unreachable));
    // What the first one says now would be taken for the answer of the second; a 2xx made a dialog.
    assert!(world.answer(&first, "486 Busy Here", "").is_empty());
    assert_eq!(world.answer(&first, "200 OK", "").len(), 1);
}

#[test]
fn an_invite_in_a_dialog_is_no_call_until_a_node_says_so() {
    let mut world = World::new();
    for (n, status) in ["404 Not Found", "407 Proxy Authentication Required", ""].into_iter().enumerate() {
        let name = format!("i{n}");
        let sent = world.one(CALLER, &request("INVITE", &name, 1, &name, ";tag=made-up", ""));
        assert_eq!(world.load(), (0, 1), "{status}");
        if status.is_empty() {
            (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
        } else {
            world.answer(&sent, status, "");
        }
        assert_eq!(world.load(), (0, 0), "{status}");
    }
    (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    assert_eq!(world.balancer.report(true).alive, 0);
    let sent = world.one(CALLER, &request("INVITE", "i9", 1, "i9", ";tag=real", ""));
    world.answer(&sent, "200 OK", "");
    assert_eq!(world.load(), (1, 0));
}

#[test]
fn an_answer_is_believed_from_its_node_alone_and_while_it_is_owed() {
    let mut world = World::new();
    let first = world.one(CALLER, &invite("v1"));
    let refusal = response(&first, "503 Service Unavailable", "Retry-After: 600\r\n");
    for from in ["203.0.113.9:5060", CALLER] {
        assert!(world.receive(from, &refusal).is_empty());
    }
    assert_eq!((world.load(), world.balancer.report(true).counts.stray), ((1, 1), 2));
    world.answer(&first, "486 Busy Here", "");
    // From the node's address, but long answered: it goes back and rests nobody.
    assert_eq!(world.receive(&first.to, &refusal).len(), 1);
    assert!(world.cluster.indexes().all(|at| world.cluster.takes_calls(world.now, at)));
}

#[test]
fn the_other_end_cannot_send_us_anywhere() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "p1");
    let reach = |world: &mut World, n: u8, uri: &str, more: &str| {
        let text = format!(
            "INFO {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKp{n}\r\nMax-Forwards: 70\r\n\
             From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
             Call-ID: p1\r\nCSeq: {n} INFO\r\n{route}{more}Content-Length: 0\r\n\r\n",
            forwarded.to
        );
        world.one(&forwarded.to, &text).to
    };
    assert_eq!(reach(&mut world, 1, "sip:alice@203.0.113.9:25", ""), CALLER);
    assert_eq!(reach(&mut world, 2, "sip:alice@198.51.100.7", "Route: <sip:127.0.0.1:8080;lr>\r\n"), CALLER);
    // Another port of the caller's own address it may be.
    assert_eq!(reach(&mut world, 3, "sip:alice@198.51.100.7:5070", ""), "198.51.100.7:5070");
}

#[test]
fn many_transactions_of_one_call_are_forwarded() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "t1");
    for n in 2..42 {
        let text = request("INFO", "t1", n, &format!("t{n}"), ";tag=callee", &route);
        let sent = world.one(CALLER, &text);
        assert_eq!(sent.to, forwarded.to, "{n}");
        world.answer(&sent, "200 OK", "");
    }
    assert_eq!(world.load(), (1, 0));
    // None of them answered.
    for n in 42..82 {
        let sent = world.one(CALLER, &request("INFO", "t1", n, &format!("t{n}"), ";tag=callee", &route));
        assert_eq!(sent.to, forwarded.to, "{n}");
    }
    let report = world.balancer.report(true);
    assert_eq!((world.load(), report.happened.unrecorded, report.exact), ((1, 16), 24, Some(true)));
}

#[test]
fn a_full_table_refuses_new_calls_and_no_dialog_that_is_there() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "e1");
    // As after a restart: nothing is known but what the token says.
    let mut other = World::full();
    assert_eq!(other.one(CALLER, &invite("e9")).start(), "SIP/2.0 503 Service Unavailable");
    let bye = other.one(CALLER, &request("BYE", "e1", 2, "e2", ";tag=callee", &route));
    assert_eq!((bye.to.as_str(), bye.start()), (forwarded.to.as_str(), "BYE sip:bob@example.com SIP/2.0"));
    assert_eq!(other.answer(&bye, "200 OK", "").len(), 1);
    // Without a token it may be anybody's.
    let refused = other.one(CALLER, &request("BYE", "e3", 2, "e3", ";tag=callee", ""));
    assert_eq!(refused.start(), "SIP/2.0 503 Service Unavailable");
    assert_eq!(other.balancer.report(true).exact, Some(true));
}

#[test]
fn a_node_that_stalls_keeps_its_dialogs_and_gets_no_new_calls() {
    let rules = Rules { down_after: 3, ..Rules::default() };
    let mut world = World::with(nodes(2), keys(2), Settings { rules, ..settings() });
    let (forwarded, route) = call(&mut world, "w1");
    let at = world.cluster.at(forwarded.to.parse().unwrap()).unwrap();
    // What is unanswered in a dialog, or is no INVITE, says nothing.
    for n in 2..9 {
        let text = request("INFO", "w1", n, &format!("w{n}"), ";tag=callee", &route);
        world.one(CALLER, &text);
        world.pass(Duration::from_millis(600));
        world.one(CALLER, &text);
    }
    assert!(world.cluster.takes_calls(world.now, at));
    let texts: Vec<String> = (0..12).map(|n| invite(&format!("wi{n}"))).collect();
    let sent: Vec<Sent> = texts.iter().map(|text| world.one(CALLER, text)).collect();
    world.pass(Duration::from_millis(600));
    for (text, _) in texts.iter().zip(&sent).filter(|(_, sent)| sent.to == forwarded.to) {
        world.one(CALLER, text);
    }
    assert!(!world.cluster.takes_calls(world.now, at) && world.cluster.is_usable(world.now, at));
    let bye = request("BYE", "w1", 20, "wb", ";tag=callee", &route);
    let bye = world.one(CALLER, &bye);
    assert_eq!(bye.to, forwarded.to);
    // The other one is all there is, however silent it is.
    let other = world.cluster.indexes().find(|other| *other != at).unwrap();
    for n in 0..12 {
        let text = invite(&format!("wj{n}"));
        assert_ne!(world.one(CALLER, &text).to, forwarded.to);
        world.pass(Duration::from_millis(600));
        world.one(CALLER, &text);
    }
    assert!(world.cluster.takes_calls(world.now, other));
    world.answer(&bye, "200 OK", "");
    assert!(world.cluster.takes_calls(world.now, at));
}

#[test]
fn without_probes_a_silent_node_fails_after_as_many_requests() {
    let rules = Rules { probed: false, down_after: 3, ..Rules::default() };
    let algorithm = Algorithm::RoundRobin;
    let mut world = World::with(nodes(2), keys(2), Settings { rules, algorithm, ..settings() });
    let (forwarded, route) = call(&mut world, "n1");
    let at = world.cluster.at(forwarded.to.parse().unwrap()).unwrap();
    let mut missed = 0;
    for n in 0..40 {
        let text = invite(&format!("n2{n}"));
        let sent = world.one(CALLER, &text);
        if sent.to != forwarded.to {
            world.answer(&sent, "486 Busy Here", "");
            continue;
        }
        assert!(missed < 3 && world.cluster.takes_calls(world.now, at));
        world.pass(Duration::from_millis(600));
        missed += 1;
        let again = world.one(CALLER, &text);
        assert_eq!(again.to == forwarded.to, missed < 3);
        if missed == 3 {
            let moved = world.one(CALLER, &request("BYE", "n1", 2, "nb", ";tag=callee", &route));
            assert_ne!(moved.to, forwarded.to);
        }
    }
    assert_eq!(missed, 3);
    assert_eq!(world.cluster.health(at).1, Why::Silent);
    world.pass(Duration::from_secs(5));
    assert!(world.cluster.takes_calls(world.now, at));
}

#[test]
fn a_dialog_that_had_to_move_goes_home_and_a_call_that_is_up_stays() {
    let mut world = World::with(nodes(2), keys(2), settings());
    let (forwarded, route) = call(&mut world, "k1");
    let at = world.cluster.at(forwarded.to.parse().unwrap()).unwrap();
    world.cluster.set_down(at, Why::ProbeTimeout);
    let info = |n: u32| request("INFO", "k1", n, &format!("k{n}"), ";tag=callee", &route);
    assert_ne!(world.one(CALLER, &info(2)).to, forwarded.to);
    world.cluster.set_up(at);
    assert_eq!(world.one(CALLER, &info(3)).to, forwarded.to);
    let ack = request("ACK", "k1", 1, "ka", ";tag=callee", &route);
    assert_eq!(world.one(CALLER, &ack).to, forwarded.to);
    // A request outside the dialog while its node is down takes nothing with it.
    let (forwarded, _) = call(&mut world, "k5");
    let at = world.cluster.at(forwarded.to.parse().unwrap()).unwrap();
    let before = world.cluster.load(at).calls;
    world.cluster.set_down(at, Why::ProbeTimeout);
    assert_ne!(world.one(CALLER, &request("MESSAGE", "k5", 7, "k7", "", "")).to, forwarded.to);
    world.cluster.set_up(at);
    assert_eq!(world.cluster.load(at).calls, before);
    assert_eq!(world.one(CALLER, &request("INFO", "k5", 8, "k8", ";tag=callee", "")).to, forwarded.to);
}

#[test]
fn another_attempt_goes_back_only_to_a_node_that_takes_calls_or_asked_for_credentials() {
    for (status, more, back) in [
        ("503 Service Unavailable", "Retry-After: 9\r\n", false),
        ("486 Busy Here", "", false),
        ("407 Proxy Authentication Required", "", true),
    ] {
        let mut world = World::with(nodes(2), keys(2), settings());
        let first = world.one(CALLER, &invite("q1"));
        world.answer(&first, status, more);
        world.cluster.set_order(world.cluster.at(first.to.parse().unwrap()).unwrap(), Order::Drain);
        let second = world.one(CALLER, &request("INVITE", "q1", 2, "q2", "", ""));
        assert_eq!(second.to == first.to, back, "{status}");
    }
}

#[test]
fn a_folded_retry_after_is_taken_out_whole() {
    let mut world = World::with(nodes(2), keys(2), settings());
    let first = world.one(CALLER, &invite("y1"));
    let more = "Retry-After: 9\r\n (in a meeting)\r\nServer: x\r\n";
    let back = world.answer(&first, "503 Service Unavailable", more);
    assert_eq!(back[0].start(), "SIP/2.0 500 Server Internal Error");
    assert_eq!(back[0].text.matches("meeting").count(), 0, "{}", back[0].text);
    assert_eq!((back[0].header("Server"), back[0].text.matches("Via:").count()), (Some("x"), 1));
}

#[test]
fn a_subscription_lasts_as_long_as_its_node_says() {
    let mut world = World::new();
    let alive = |world: &World| world.balancer.report(true).alive;
    let sent = world.one(CALLER, &request("SUBSCRIBE", "b1", 1, "b1", "", "Event: presence\r\n"));
    let route = format!("Route: {}\r\n", sent.header("Record-Route").unwrap());
    world.answer(&sent, "200 OK", "Expires: 600\r\n");
    (0..60).for_each(|_| drop(world.pass(Duration::from_secs(10))));
    assert_eq!(alive(&world), 1);
    (0..60).for_each(|_| drop(world.pass(Duration::from_secs(10))));
    assert_eq!(alive(&world), 0);
    let sent = world.one(CALLER, &request("SUBSCRIBE", "b2", 1, "b2", "", "Event: presence\r\n"));
    world.answer(&sent, "200 OK", "Expires: 600\r\n");
    let end = request("SUBSCRIBE", "b2", 2, "b3", ";tag=callee", "Event: presence\r\nExpires: 0\r\n");
    let sent = world.one(CALLER, &end);
    world.answer(&sent, "200 OK", "Expires: 0\r\n");
    assert_eq!((alive(&world), route.is_empty()), (0, false));
}

#[test]
fn a_bye_without_an_answer_ends_the_call() {
    let mut world = World::new();
    let (_, route) = call(&mut world, "z1");
    world.one(CALLER, &request("BYE", "z1", 2, "z2", ";tag=callee", &route));
    assert_eq!(world.load(), (1, 1));
    (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    assert_eq!(world.load(), (0, 0));
}

#[test]
fn who_refuses_at_once_is_not_the_quickest() {
    let mut world = World::with(nodes(2), keys(2), Settings { algorithm: Algorithm::Rwma, ..settings() });
    let mut counts = [0, 0];
    for n in 0..40 {
        let sent = world.one(CALLER, &invite(&format!("u{n}")));
        let good = sent.to.starts_with("192.0.2.1:");
        counts[usize::from(good)] += 1;
        world.pass(Duration::from_millis(if good { 20 } else { 1 }));
        world.answer(&sent, if good { "200 OK" } else { "500 Server Internal Error" }, "");
    }
    assert!(counts[0] < 5, "{counts:?}");
}

#[test]
fn a_reload_that_turns_probes_off_brings_back_whom_they_took() {
    let mut world = World::with(nodes(2), keys(2), Settings { probing: Probing::default(), ..settings() });
    world.cluster.indexes().for_each(|at| world.cluster.set_down(at, Why::ProbeTimeout));
    world.balancer.notice(world.now, Notice::Settings(Arc::new(settings())), &mut Outbox::new());
    assert!(world.one(CALLER, &invite("g1")).start().starts_with("INVITE "));
}

#[test]
fn dialogs_of_a_failed_node_follow_the_policy() {
    let mut world = World::with(nodes(2), keys(2), settings());
    let (forwarded, route) = call(&mut world, "f1");
    world.cluster.set_down(world.cluster.at(forwarded.to.parse().unwrap()).unwrap(), Why::Silent);
    let bye = request("BYE", "f1", 2, "fb1", ";tag=callee", &route);
    let moved = world.one(CALLER, &bye);
    assert_ne!(moved.to, forwarded.to);
    world.answer(&moved, "481 Call/Transaction Does Not Exist", "");
    assert_eq!(world.load(), (0, 0));
    let rules = Rules { failed_dialogs: FailedDialogs::Refuse, ..Rules::default() };
    let mut world = World::with(nodes(2), keys(2), Settings { rules, ..settings() });
    let (forwarded, route) = call(&mut world, "f2");
    world.cluster.set_down(world.cluster.at(forwarded.to.parse().unwrap()).unwrap(), Why::Silent);
    let refused = world.one(CALLER, &request("BYE", "f2", 2, "fb2", ";tag=callee", &route));
    assert_eq!(refused.start(), "SIP/2.0 503 Service Unavailable");
}

#[test]
fn probes_find_who_is_there() {
    let settings = Settings { probing: Probing::default(), ..settings() };
    let mut world = World::with(nodes(2), keys(2), settings);
    let dead = NodeIndex(1);
    for step in 0..80 {
        for probe in world.pass(Duration::from_millis(100)) {
            assert_eq!(probe.start(), format!("OPTIONS sip:{} SIP/2.0", probe.to));
            if probe.to.starts_with("192.0.2.1:") || step > 40 {
                assert!(world.answer(&probe, "200 OK", "").is_empty());
            }
        }
        if step == 30 {
            assert_eq!(world.cluster.health(dead), (Health::Down, Why::ProbeTimeout));
        }
    }
    assert_eq!(world.cluster.health(NodeIndex(0)), (Health::Up, Why::Answered));
    assert_eq!((world.cluster.health(dead), world.cluster.falls(dead)), ((Health::Up, Why::Answered), 1));
    assert!(world.balancer.next_deadline().is_some());
}

#[test]
fn every_message_of_a_call_and_every_probe_comes_to_its_worker() {
    let cluster = Cluster::new(nodes(2), 3);
    let settings = Arc::new(Settings { probing: Probing::default(), ..settings() });
    let make = |worker| {
        let setup =
            Setup { worker, workers: 3, cluster: Arc::clone(&cluster), keys: keys(2), calls: 10, seed: 5 };
        Balancer::new(setup, Arc::clone(&settings))
    };
    let (mut zero, mut two) = (make(0), make(2));
    let mut out = Outbox::new();
    zero.timeout(Time::from_secs(1), &mut out);
    zero.timeout(Time::from_secs(3), &mut out);
    assert!(out.transmits().len() >= 2);
    for t in out.transmits() {
        assert_eq!(two.owner(out.message(t), 3), Some(0));
    }
    let mut out = Outbox::new();
    two.timeout(Time::from_secs(3), &mut out);
    assert!(out.is_empty(), "one worker probes");
    // Everybody sees what every one of them has given.
    let text = invite("w1");
    two.receive(
        Time::from_secs(3),
        Flow::udp(ListenerId(0), CALLER.parse().unwrap()),
        text.as_bytes(),
        &mut out,
    );
    assert_eq!(two.owner(text.as_bytes(), 3), zero.owner(out.message(&out.transmits()[0]), 3));
    let sum: u32 = cluster.indexes().map(|at| cluster.load(at).calls).sum();
    assert_eq!(sum, 1);
}

#[test]
fn registrations_of_one_address_meet_at_one_node() {
    let mut world = World::with(nodes(8), keys(2), settings());
    let register = |user: &str, call: &str| {
        request("REGISTER", call, 1, call, "", "").replace("To: <sip:bob@", &format!("To: <sip:{user}@"))
    };
    let mut homes = std::collections::BTreeSet::new();
    for user in 0..40 {
        let user = format!("u{user}");
        let one = world.one(CALLER, &register(&user, &format!("{user}-a")));
        let other = world.one(CALLER, &register(&user, &format!("{user}-b")));
        assert_eq!(one.to, other.to);
        assert_eq!(one.header("Record-Route"), None);
        homes.insert(one.to);
    }
    assert!(homes.len() >= 7, "{homes:?}");
}

#[test]
fn a_balancer_that_drains_finishes_what_it_has() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "x1");
    world.balancer.notice(world.now, Notice::Drain(true), &mut Outbox::new());
    assert_eq!(world.one(CALLER, &invite("x2")).start(), "SIP/2.0 503 Service Unavailable");
    let bye = world.one(CALLER, &request("BYE", "x1", 2, "xb", ";tag=callee", &route));
    assert_eq!(bye.to, forwarded.to);
    // What it took before, repeated or with credentials.
    let mut world = World::new();
    let first = world.one(CALLER, &invite("x3"));
    world.answer(&first, "407 Proxy Authentication Required", "");
    world.balancer.notice(world.now, Notice::Drain(true), &mut Outbox::new());
    assert_eq!(world.one(CALLER, &invite("x3")), first);
    assert_eq!(world.one(CALLER, &request("INVITE", "x3", 2, "x4", "", "")).to, first.to);
}

#[test]
fn the_algorithm_changes_while_it_runs() {
    let mut world = World::with(nodes(4), keys(2), settings());
    let maglev = Settings { algorithm: Algorithm::Maglev, ..settings() };
    world.balancer.notice(world.now, Notice::Settings(Arc::new(maglev)), &mut Outbox::new());
    let first = world.one(CALLER, &invite("m1"));
    let mut other = World::with(nodes(4), keys(2), Settings { algorithm: Algorithm::Maglev, ..settings() });
    for n in 0..5 {
        let text = invite(&format!("m{n}"));
        assert_eq!(world.one(CALLER, &text).to, other.one(CALLER, &text).to);
    }
    assert_eq!(world.one(CALLER, &invite("m1")), first);
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    /// Changes some octets of a message, cuts it, or repeats a part.
    fn spoiled(text: &str, edits: &[(usize, u8)], cut: usize) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for (at, by) in edits {
            let at = at % bytes.len();
            bytes[at] = bytes[at].wrapping_add(*by);
        }
        bytes.truncate(bytes.len().saturating_sub(cut % (4 * bytes.len())).max(1));
        bytes
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_breaks_and_what_leaves_can_be_read(
            steps in proptest::collection::vec(
                (0usize..7, proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4), any::<usize>(), any::<bool>()),
                1..30,
            ),
        ) {
            let rules = Rules { ring_timeout: Duration::from_secs(30), ..Rules::default() };
            let mut world =
                World::with(nodes(2), keys(2), Settings { probing: Probing::default(), rules, ..settings() });
            let mut agreed = 0;
            let mut last = Vec::new();
            for (what, edits, cut, from_node) in steps {
                let whole = match what {
                    0 => invite("h1"),
                    1 => request("ACK", "h1", 1, "h1", ";tag=callee", ""),
                    2 => request("CANCEL", "h1", 1, "h1", "", ""),
                    3 => request("BYE", "h1", 2, "h2", ";tag=callee", "Route: <sip:192.0.2.100;lr;d=02>\r\n"),
                    4 => request("REGISTER", "h2", 1, "h3", "", "Proxy-Require: \r\n"),
                    _ => last.pop().unwrap_or_else(|| invite("h4")),
                };
                let bytes = spoiled(&whole, &edits, if what < 6 { 0 } else { cut });
                let from = if from_node { "192.0.2.1:5060" } else { CALLER };
                let mut out = Outbox::new();
                let flow = Flow::udp(ListenerId(0), from.parse().expect("an address"));
                world.balancer.receive(world.now, flow, &bytes, &mut out);
                world.balancer.returned(world.now, from.parse().expect("an address"), &bytes, &mut out);
                for t in out.transmits() {
                    let sent = out.message(t);
                    let mut index = sip_message::Index::new();
                    let read = sip_message::parse(sent, &mut index, &sip_message::Limits::default());
                    let readable = matches!(read, sip_message::Parsed::Good(_) | sip_message::Parsed::Bad(..));
                    prop_assert!(readable, "{:?}", String::from_utf8_lossy(sent));
                    agreed += usize::from(sent.starts_with(b"SIP/2.0 2"));
                    if let Ok(text) = String::from_utf8(sent.to_vec()) {
                        // What a node would say to it comes next, or the same once more.
                        let request = Sent { to: t.flow.remote.to_string(), text: text.clone() };
                        last.push(if text.starts_with("SIP/2.0") { text } else { response(&request, "200 OK", "") });
                    }
                }
                world.pass(Duration::from_millis(700));
                prop_assert_eq!(world.balancer.report(true).exact, Some(true));
            }
            // A minute later nothing is left but what a node agreed to.
            (0..15).for_each(|_| { world.pass(Duration::from_secs(5)); });
            let report = world.balancer.report(true);
            prop_assert!(report.alive + report.ended <= agreed, "{} {} {agreed}", report.alive, report.ended);
            (0..900).for_each(|_| { world.pass(Duration::from_secs(20)); });
            let report = world.balancer.report(true);
            prop_assert_eq!((report.alive, report.ended, report.transactions), (0, 0, 0));
        }
    }
}
