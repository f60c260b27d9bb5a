//! IPv6, both families at once, and the mode without Record-Route.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::net::SocketAddr;
use wire::{Flow, ListenerId, Machine, Outbox, Transport};

const PHONE_6: &str = "[2001:db8:7::7]:5062";
const FRONT_6: &str = "[2001:db8::100]:5060";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn listening(addresses: &[&str]) -> Settings {
    let listen = |a: &&str| Listener::new(Transport::Udp, address(a), None);
    let listeners = Settings::new(addresses.iter().map(listen).collect()).listeners;
    Settings { listeners, ..settings() }
}

fn nodes_6() -> Vec<Node> {
    ["[2001:db8::1]:5060", "[2001:db8::2]:5070"].map(|a| Node::new(address(a))).to_vec()
}

/// A message that comes to a listener, and the one that leaves because of it, with the listener that it
/// leaves from.
fn one_at(world: &mut World, listener: u16, from: &str, text: &str) -> (Sent, u16) {
    let mut out = Outbox::new();
    let flow = Flow::udp(ListenerId(listener), address(from));
    world.balancer.receive(wire::Arrival::new(world.now, flow, text.as_bytes()), &mut out);
    let all = sent(&out);
    assert_eq!(all.len(), 1, "{text}\n->\n{all:?}");
    (all[0].clone(), out.transmits()[0].flow.listener.0)
}

/// As [`request`], of a phone that has this address and port.
fn request_6(method: &str, call: &str, cseq: u32, branch: &str, to: &str, more: &str) -> String {
    request(method, call, cseq, branch, to, more).replace("UDP 198.51.100.7;", &format!("UDP {PHONE_6};"))
}

#[test]
fn a_call_over_ipv6_from_end_to_end_and_after_a_restart() {
    let mut world = World::with(nodes_6(), keys(2), listening(&[FRONT_6]));
    let mut seen = [0, 0];
    for n in 0..4 {
        let call = format!("v6-{n}");
        let forwarded = world.one(PHONE_6, &request_6("INVITE", &call, 1, &call, "", ""));
        let node = address(&forwarded.to);
        seen[usize::from(node.port() == 5070)] += 1;
        assert!(
            forwarded.header("Via").unwrap().starts_with("SIP/2.0/UDP [2001:db8::100]:5060;branch=z9hG4bKlb")
        );
        let route = forwarded.header("Record-Route").expect("a route").to_owned();
        assert!(route.starts_with("<sip:[2001:db8::100]:5060;lr;d="), "{route}");
        let ok = world.answer(&forwarded, "200 OK", "");
        assert_eq!((ok.len(), ok[0].to.as_str()), (1, PHONE_6));
        // Started anew in the middle: what it knows of the call, addresses included, is in its token.
        if n % 2 == 1 {
            world = World::with(nodes_6(), keys(2), listening(&[FRONT_6]));
        }
        let route = format!("Route: {route}\r\n");
        let ack = world.one(PHONE_6, &request_6("ACK", &call, 1, &format!("a{n}"), ";tag=callee", &route));
        assert_eq!((ack.to.as_str(), ack.header("Route")), (forwarded.to.as_str(), None));
        let info = format!(
            "INFO sip:alice@{PHONE_6} SIP/2.0\r\nVia: SIP/2.0/UDP {node};branch=z9hG4bKi{n}\r\nMax-Forwards: 70\r\n\
             From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
             Call-ID: {call}\r\nCSeq: 1 INFO\r\n{route}Content-Length: 0\r\n\r\n"
        );
        // Only who is a node reaches the caller's side.
        let stranger = world.one("[2001:db8:9::9]:5060", &info);
        assert_eq!(stranger.start(), "SIP/2.0 403 Forbidden");
        let info = world.one(&forwarded.to, &info);
        assert_eq!(info.to, PHONE_6);
        assert_eq!(world.receive(PHONE_6, &response(&info, "200 OK", ""))[0].to, forwarded.to);
        let bye = world.one(PHONE_6, &request_6("BYE", &call, 2, &format!("b{n}"), ";tag=callee", &route));
        assert_eq!(bye.to, forwarded.to);
        assert_eq!(world.answer(&bye, "200 OK", "")[0].to, PHONE_6);
        // ICMP that quotes it is read, too.
        world.bring_back(&forwarded, forwarded.text.len());
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
    assert_eq!(world.balancer.report(true).exact, Some(true));
}

#[test]
fn callers_of_one_family_reach_nodes_of_the_other_by_a_route_for_each_side() {
    let mut world = World::with(nodes_6(), keys(2), listening(&[BALANCER, FRONT_6]));
    let (forwarded, left_by) = one_at(&mut world, 0, CALLER, &invite("x1"));
    assert_eq!(left_by, 1);
    let routes: Vec<&str> =
        forwarded.text.lines().filter_map(|line| line.strip_prefix("Record-Route: ")).collect();
    assert_eq!(routes.len(), 2, "{routes:?}");
    // The node's side comes first (RFC 5658): each meets an address of its own family.
    assert!(routes[0].starts_with("<sip:[2001:db8::100]:5060;lr;d="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:192.0.2.100:5060;lr;d="), "{routes:?}");
    let (ok, left_by) = one_at(&mut world, 1, &forwarded.to, &response(&forwarded, "200 OK", ""));
    assert_eq!((ok.to.as_str(), left_by), (CALLER, 0));
    let from_caller = format!("Route: {}\r\nRoute: {}\r\n", routes[1], routes[0]);
    let bye = request("BYE", "x1", 2, "xb", ";tag=callee", &from_caller);
    let (bye, left_by) = one_at(&mut world, 0, CALLER, &bye);
    assert_eq!((bye.to.as_str(), bye.header("Route"), left_by), (forwarded.to.as_str(), None, 1));
    let from_node = format!("Route: {}\r\nRoute: {}\r\n", routes[0], routes[1]);
    let info = format!(
        "INFO sip:alice@198.51.100.7 SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKxi\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: x1\r\nCSeq: 1 INFO\r\n{from_node}Content-Length: 0\r\n\r\n",
        forwarded.to
    );
    let (info, left_by) = one_at(&mut world, 1, &forwarded.to, &info);
    assert_eq!((info.to.as_str(), info.header("Route"), left_by), (CALLER, None, 0));
}

#[test]
fn without_record_route_a_dialog_is_found_by_its_record() {
    let transparent = || Settings { record_route: false, ..settings() };
    let mut world = World::with(nodes(3), keys(2), transparent());
    for n in 0..6 {
        let call = format!("t{n}");
        let forwarded = world.one(CALLER, &invite(&call));
        assert_eq!(forwarded.header("Record-Route"), None);
        assert_eq!(world.answer(&forwarded, "200 OK", "").len(), 1);
        let ack = world.one(CALLER, &request("ACK", &call, 1, &format!("a{n}"), ";tag=callee", ""));
        assert_eq!(ack.to, forwarded.to);
        let info = world.one(CALLER, &request("INFO", &call, 2, &format!("i{n}"), ";tag=callee", ""));
        assert_eq!(info.to, forwarded.to);
        world.answer(&info, "200 OK", "");
        assert_eq!(world.load(), (1, 0));
        let bye = world.one(CALLER, &request("BYE", &call, 3, &format!("b{n}"), ";tag=callee", ""));
        assert_eq!(bye.to, forwarded.to);
        assert_eq!(world.answer(&bye, "200 OK", "").len(), 1);
        assert_eq!(world.load(), (0, 0));
    }
    // What was begun before a restart is known by its answer; without any, a call goes where its Call-ID is
    // hashed to.
    let forwarded = world.one(CALLER, &invite("t9"));
    let mut other = World::with(nodes(3), keys(2), transparent());
    assert_eq!(other.answer(&forwarded, "200 OK", "")[0].to, CALLER);
    let bye = other.one(CALLER, &request("BYE", "t9", 2, "b9", ";tag=callee", ""));
    assert!(bye.start().starts_with("BYE ") && other.cluster.at(address(&bye.to)).is_some());
    other.answer(&bye, "481 Call/Transaction Does Not Exist", "");
    other.seconds(80);
    let report = other.balancer.report(true);
    assert_eq!((report.alive, report.ended, report.transactions, report.exact), (0, 0, 0, Some(true)));
}

#[test]
fn without_record_route_calls_that_ring_over_a_restart_are_answered_and_ended_where_they_are() {
    let transparent = || World::with(nodes(3), keys(2), Settings { record_route: false, ..settings() });
    let mut before = transparent();
    let ringing: Vec<Sent> = (0..9).map(|n| before.one(CALLER, &invite(&format!("r{n}")))).collect();
    let mut world = transparent();
    for (n, invite) in ringing.iter().enumerate() {
        let call = format!("r{n}");
        // Whoever else has a copy of the answer makes no call of it.
        let text = response(invite, "200 OK", "");
        assert!(world.receive("192.0.2.77:5060", &text).is_empty());
        assert_eq!(world.balancer.report(true).alive, 0);
        assert_eq!(world.answer(invite, "200 OK", "")[0].to, CALLER);
        assert_eq!((world.answer(invite, "200 OK", "").len(), world.load()), (1, (1, 0)));
        let ack = world.one(CALLER, &request("ACK", &call, 1, &format!("a{n}"), ";tag=callee", ""));
        assert_eq!(ack.to, invite.to);
        let bye = world.one(CALLER, &request("BYE", &call, 2, &format!("b{n}"), ";tag=callee", ""));
        assert_eq!(bye.to, invite.to);
        world.answer(&bye, "200 OK", "");
        let report = world.balancer.report(true);
        assert_eq!((world.load(), report.alive, report.exact), ((0, 0), 0, Some(true)));
    }
    // Where the tokens say it, a call is none before its caller comes again.
    let mut world = World::new();
    let invite = World::new().one(CALLER, &invite("r20"));
    assert_eq!((world.answer(&invite, "200 OK", "").len(), world.balancer.report(true).alive), (1, 0));
}

#[test]
fn without_record_route_an_ack_of_which_nothing_is_known_goes_where_a_bye_would() {
    let settings = Settings { record_route: false, algorithm: Algorithm::FnvHash, ..settings() };
    for n in 0..9 {
        let mut world = World::with(nodes(3), keys(2), settings.clone());
        let call = format!("k{n}");
        let ack = world.one(CALLER, &request("ACK", &call, 1, "a", ";tag=callee", ""));
        let bye = world.one(CALLER, &request("BYE", &call, 2, "b", ";tag=callee", ""));
        let first = World::with(nodes(3), keys(2), settings.clone()).one(CALLER, &invite(&call));
        assert_eq!((&ack.to, &bye.to), (&first.to, &first.to));
        // One of nothing at all goes nowhere.
        assert!(world.receive(CALLER, &request("ACK", "none", 1, "n", "", "")).is_empty());
    }
    let mut world = World::new();
    assert!(world.receive(CALLER, &request("ACK", "k", 1, "a", ";tag=callee", "")).is_empty());
}
