//! Phones behind address translation: they register through the balancer, and are called through it (RFC
//! 3327).

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::token::{Key, Keys};
use sip_balancer::*;
use std::sync::Arc;
use wire::{ConnId, Transport};

/// Where the translation has the phone, and what the phone takes for its address.
const OUTSIDE: &str = "198.51.100.7:40001";
const INSIDE: &str = "10.0.0.7:5062";
const KNOWS: &str = "Supported: gruu, path\r\n";

/// A REGISTER of the phone.
fn register(via: &str, more: &str) -> String {
    let contact = format!("Contact: <sip:bob@{INSIDE}>\r\n{more}");
    let text = request("REGISTER", "reg", 1, "reg", "", &contact);
    text.replace("198.51.100.7;", &format!("{via};"))
}

/// The Path of a REGISTER as it left.
fn path(sent: &Sent) -> &str {
    sent.header("Path").expect("a Path")
}

/// A request of a node to the phone.
fn from_node(method: &str, node: &str, over: &str, ends: (&str, &str), cseq: u32, route: &str) -> String {
    let (from, to) = ends;
    format!(
        "{method} sip:bob@{INSIDE} SIP/2.0\r\nVia: SIP/2.0/{over} {node};branch=z9hG4bKn{cseq}\r\n\
         Max-Forwards: 69\r\nRoute: {route}\r\nFrom: <sip:alice@example.com>;tag={from}\r\n\
         To: <sip:bob@example.com>{to}\r\nCall-ID: ring\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// A request of the phone within the dialog.
fn from_phone(method: &str, over: &str, cseq: u32, route: &str) -> String {
    format!(
        "{method} sip:alice@192.0.2.50 SIP/2.0\r\nVia: SIP/2.0/{over} {INSIDE};branch=z9hG4bKp{cseq};rport\r\n\
         Max-Forwards: 70\r\nRoute: {route}\r\nFrom: <sip:bob@example.com>;tag=callee\r\n\
         To: <sip:alice@example.com>;tag=alice\r\nCall-ID: ring\r\nCSeq: {cseq} {method}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// As [`World::with`], in another life than that.
fn in_life(life: u32, nodes: Vec<Node>, settings: Settings) -> World {
    let mut world = World::with(nodes.clone(), keys(2), settings.clone());
    let setup = Setup {
        worker: 0,
        workers: 1,
        cluster: Arc::clone(&world.cluster),
        keys: keys(2),
        calls: 1_000,
        seed: 1,
        life,
    };
    world.balancer = Balancer::new(setup, Arc::new(settings));
    world
}

#[test]
fn a_phone_behind_a_translation_is_called_where_it_registered_from() {
    let mut world = World::new();
    let registered = world.one(OUTSIDE, &register(INSIDE, KNOWS));
    let route = path(&registered).to_owned();
    assert!(route.starts_with("<sip:192.0.2.100:5060;lr;d=p02"), "{route}");
    assert_eq!(world.answer(&registered, "200 OK", "").len(), 1);
    // Who is called has its node from whoever sends, and nothing else is remembered.
    world = World::new();
    let node = "192.0.2.2:5060";
    let ends = ("alice", "");
    let rings = world.one(node, &from_node("INVITE", node, "UDP", ends, 1, &route));
    assert_eq!((rings.to.as_str(), rings.over), (OUTSIDE, Transport::Udp));
    assert_eq!((rings.start(), rings.header("Route")), ("INVITE sip:bob@10.0.0.7:5062 SIP/2.0", None));
    assert_eq!(world.load(), (0, 0), "no call of ours");
    let records = rings.header("Record-Route").expect("a route").to_owned();
    for status in ["180 Ringing", "200 OK"] {
        let back = world.receive(OUTSIDE, &response(&rings, status, ""));
        assert_eq!((back.len(), back[0].to.as_str()), (1, node), "{status}");
    }
    // Both ends follow, also after a restart.
    world = World::new();
    let ack = world.one(node, &from_node("ACK", node, "UDP", ("alice", ";tag=callee"), 2, &records));
    assert_eq!((ack.to.as_str(), ack.header("Route")), (OUTSIDE, None));
    let info = world.one(OUTSIDE, &from_phone("INFO", "UDP", 7, &records));
    assert_eq!((info.to.as_str(), info.header("Route")), (node, None));
    assert_eq!(world.answer(&info, "200 OK", "")[0].to, OUTSIDE);
    let bye = world.one(node, &from_node("BYE", node, "UDP", ("alice", ";tag=callee"), 3, &records));
    assert_eq!(bye.to, OUTSIDE);
    assert_eq!(world.receive(OUTSIDE, &response(&bye, "200 OK", ""))[0].to, node);
    // An INVITE that is given up, and one that is refused: all with its branch.
    let rings = world.one(node, &from_node("INVITE", node, "UDP", ends, 4, &route));
    let cancel = world.one(node, &from_node("CANCEL", node, "UDP", ends, 4, &route));
    assert_eq!((cancel.to.as_str(), cancel.branch()), (OUTSIDE, rings.branch()));
    world.receive(OUTSIDE, &response(&rings, "487 Request Terminated", ""));
    let ack = world.one(node, &from_node("ACK", node, "UDP", ("alice", ";tag=callee"), 4, &route));
    assert_eq!((ack.to.as_str(), ack.branch()), (OUTSIDE, rings.branch()));
    world.seconds(80);
    let report = world.balancer.report(true);
    assert_eq!((report.alive, report.ended, report.kept, report.exact), (0, 0, 0, Some(true)));
}

#[test]
fn a_call_of_two_phones_comes_by_twice() {
    let mut world = World::new();
    let registered = world.one(OUTSIDE, &register(INSIDE, KNOWS));
    let route = path(&registered).to_owned();
    world.answer(&registered, "200 OK", "");
    let first = world.one(CALLER, &invite("both"));
    let node = first.to.clone();
    // As a proxy sends it on.
    let lines = first.text.split_once("\r\n").expect("lines").1;
    let on = format!(
        "INVITE sip:bob@{INSIDE} SIP/2.0\r\nVia: SIP/2.0/UDP {node};branch=z9hG4bKon\r\nRoute: {route}\r\n{lines}"
    );
    let rings = world.one(&node, &on);
    assert_eq!(rings.to, OUTSIDE);
    let records: Vec<&str> = rings.text.lines().filter_map(|l| l.strip_prefix("Record-Route: ")).collect();
    assert_eq!(records.len(), 2);
    let back = world.receive(OUTSIDE, &response(&rings, "200 OK", ""));
    assert_eq!(back[0].to, node);
    let onward: String =
        back[0].text.split_inclusive("\r\n").filter(|line| !line.contains("branch=z9hG4bKon")).collect();
    let back = world.receive(&node, &onward);
    assert_eq!((back[0].to.as_str(), world.load()), (CALLER, (1, 0)));
    // The phone hangs up, which ends it here as well.
    let bye = from_phone("BYE", "UDP", 9, records[0]);
    let bye = bye.replace("Call-ID: ring", "Call-ID: both").replace("tag=alice", "tag=caller");
    let sent = world.one(OUTSIDE, &bye);
    assert_eq!(sent.to, node);
    world.answer(&sent, "200 OK", "");
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
}

#[test]
fn caller_gets_480_when_the_node_answers_430() {
    for over in [Transport::Udp, Transport::Tcp] {
        let mut world = World::with(nodes(2), keys(2), streams());
        let (from, text) = match over {
            Transport::Udp => (CALLER, invite("gone")),
            _ => (PHONE, over_tcp(&invite("gone"))),
        };
        let sent = match over {
            Transport::Udp => world.one(from, &text),
            _ => world.one_tcp(from, &text),
        };
        let back = world.answer(&sent, "430 Flow Failed", "");
        assert_eq!(finals(&back), ["SIP/2.0 480 Temporarily Unavailable"], "{over:?}");
        assert_eq!(back.iter().find(|m| m.start().contains("480")).map(|m| m.to.as_str()), Some(from));
    }
}

#[test]
fn a_phone_on_a_stream_is_called_on_its_connection_and_on_no_other() {
    let begin = || in_life(1, tcp_nodes(2), streams());
    let mut world = begin();
    let text = over_tcp(&register(INSIDE, KNOWS)).replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    let registered = world.one_tcp(PHONE, &text);
    let route = path(&registered).to_owned();
    assert!(route.starts_with("<sip:192.0.2.100:5060;transport=tcp;lr;d=p02"), "{route}");
    let node = "192.0.2.1:5060";
    let invite = from_node("INVITE", node, "TCP", ("alice", ""), 1, &route);
    let rings = world.one_tcp(node, &invite);
    let conn = Some(ConnId::new(0, 40_001));
    assert_eq!((rings.to.as_str(), rings.over, rings.conn), (PHONE, Transport::Tcp, conn));
    assert_eq!(world.receive_tcp(PHONE, &response(&rings, "200 OK", ""))[0].to, node);
    let records = rings.header("Record-Route").unwrap().to_owned();
    let bye = world.one_tcp(node, &from_node("BYE", node, "TCP", ("alice", ";tag=callee"), 2, &records));
    assert_eq!((bye.to.as_str(), bye.conn), (PHONE, conn));
    let info = world.one_tcp(PHONE, &from_phone("INFO", "TCP", 7, &records));
    assert_eq!((info.to.as_str(), info.over), (node, Transport::Tcp));
    // It has ended: nothing is sent to a port that nobody listens to.
    let text = invite.replace("z9hG4bKn1", "z9hG4bKx").replace("1 INVITE", "5 INVITE");
    let rings = world.one_tcp(node, &text);
    let told = world.lost(&rings);
    assert_eq!((told.len(), told[0].start(), told[0].to.as_str()), (1, "SIP/2.0 430 Flow Failed", node));
    let info = from_node("INFO", node, "TCP", ("alice", ";tag=callee"), 6, &records);
    let told = world.one_tcp(node, &info);
    let told = world.lost(&told);
    assert_eq!((told.len(), told[0].start(), told[0].to.as_str()), (1, "SIP/2.0 430 Flow Failed", node));
    // In another process its number is another's.
    let mut other = in_life(2, tcp_nodes(2), streams());
    assert_eq!(other.one_tcp(node, &invite).start(), "SIP/2.0 430 Flow Failed");
    assert_eq!(other.one_tcp(node, &info).start(), "SIP/2.0 430 Flow Failed");
    assert_eq!(other.one_tcp(PHONE, &from_phone("INFO", "TCP", 8, &records)).to, node);
    let ack = from_node("ACK", node, "TCP", ("alice", ";tag=callee"), 1, &route);
    assert!(other.receive_tcp(node, &ack).is_empty());
    for world in [&mut world, &mut other] {
        world.seconds(80);
        assert_eq!(world.balancer.report(true).kept, 0);
    }
}

#[test]
fn a_path_is_used_by_nodes_alone_and_as_it_was_sealed() {
    let mut world = World::new();
    let route = path(&world.one(OUTSIDE, &register(INSIDE, KNOWS))).to_owned();
    let invite = |node: &str, route: &str| from_node("INVITE", node, "UDP", ("alice", ""), 1, route);
    for stranger in ["203.0.113.9:5060", CALLER, OUTSIDE] {
        assert_eq!(world.one(stranger, &invite(stranger, &route)).start(), "SIP/2.0 403 Forbidden");
        let ack = from_node("ACK", stranger, "UDP", ("alice", ";tag=callee"), 1, &route);
        assert!(world.receive(stranger, &ack).is_empty());
    }
    let at = route.find("d=p").unwrap() + 20;
    let changed = if route.as_bytes()[at] == b'0' { "1" } else { "0" };
    let forged = format!("{}{changed}{}", &route[..at], &route[at + 1..]);
    let node = "192.0.2.2:5060";
    assert_eq!(world.one(node, &invite(node, &forged)).start(), "SIP/2.0 403 Path Not Of This Balancer");
    assert_eq!(world.balancer.report(false).counts.forged, 1);
    let last = invite(node, &route).replace("Max-Forwards: 69", "Max-Forwards: 0");
    assert_eq!(world.one(node, &last).start(), "SIP/2.0 483 Too Many Hops");
    // While the secret is changed either is read.
    let key = |epoch: u8| Key { epoch, secret: [epoch; 16] };
    let with = |current, previous: Option<u8>| {
        let keys = Keys { current: key(current), previous: previous.map(key), hash: [current; 16] };
        World::with(nodes(3), keys, settings())
    };
    assert_eq!(with(3, Some(2)).one(node, &invite(node, &route)).to, OUTSIDE);
    assert_eq!(
        with(3, None).one(node, &invite(node, &route)).start(),
        "SIP/2.0 403 Path Not Of This Balancer"
    );
}

#[test]
fn path_is_for_who_needs_it_and_knows_it_or_as_the_operator_says() {
    let with = |path: PathBy| World::with(nodes(3), keys(2), Settings { path, ..settings() });
    let has = |world: &mut World, text: &str| world.one(OUTSIDE, text).header("Path").is_some();
    // An address of its own in the Via, and another one in the Contact alone.
    let natted = [register(INSIDE, KNOWS), register("198.51.100.7", KNOWS)];
    let plain = natted[1].replace(INSIDE, "198.51.100.7:5062");
    let silent = register(INSIDE, "");
    for text in &natted {
        assert!(has(&mut with(PathBy::Auto), text));
    }
    for text in [&plain, &silent] {
        assert!(!has(&mut with(PathBy::Auto), text));
        assert!(has(&mut with(PathBy::Always), text));
        assert!(!has(&mut with(PathBy::Never), &natted[0]));
    }
    // A proxy before us, and a node.
    let proxied =
        natted[0].replace("Max-Forwards", "Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKo\r\nMax-Forwards");
    assert!(!has(&mut with(PathBy::Auto), &proxied));
    let sent = with(PathBy::Always).one("192.0.2.1:5060", &natted[0]);
    assert_eq!(sent.header("Path"), None);
    // Ours is the first of several.
    let more = silent.replace("Max-Forwards", "Path: <sip:edge.example;lr>\r\nMax-Forwards");
    let sent = with(PathBy::Always).one(OUTSIDE, &more);
    let all: Vec<&str> = sent.text.lines().filter_map(|line| line.strip_prefix("Path: ")).collect();
    assert!(
        all[0].starts_with("<sip:192.0.2.100:5060;lr;d=p") && all[1] == "<sip:edge.example;lr>",
        "{all:?}"
    );
    let none = with(PathBy::Always).one(OUTSIDE, &request("MESSAGE", "m", 1, "m", "", KNOWS));
    assert_eq!(none.header("Path"), None);
}

#[test]
fn a_phone_is_called_over_ipv6_and_without_record_route_too() {
    let listen = |a: &str| Listener::new(Transport::Udp, a.parse().unwrap(), None);
    let listeners = Settings::new(vec![listen("[2001:db8::100]:5060")]).listeners;
    let node = "[2001:db8::1]:5060";
    let settings = Settings { listeners, record_route: false, ..settings() };
    let start = || World::with(vec![Node::new(node.parse().unwrap())], keys(2), settings.clone());
    let phone = "[2001:db8:7::7]:40001";
    let mut world = start();
    let route = path(&world.one(phone, &register("[fd00::7]:5062", KNOWS))).to_owned();
    let mut world2 = start();
    let rings = world2.one(node, &from_node("INVITE", node, "UDP", ("alice", ""), 1, &route));
    assert_eq!(rings.to, phone);
    let records = rings.header("Record-Route").expect("one all the same").to_owned();
    assert_eq!(world2.receive(phone, &response(&rings, "200 OK", ""))[0].to, node);
    let bye = world2.one(phone, &from_phone("BYE", "UDP", 2, &records));
    assert_eq!(bye.to, node);
}
