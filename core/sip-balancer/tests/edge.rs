//! The balancer as the edge proxy of phones with several flows (RFC 5626 section 5).

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::sync::Arc;
use wire::{Flow, ListenerId, Machine, Outbox, Transport};

const NODE: &str = "192.0.2.2:5060";

/// A REGISTER for a flow (section 4.2), of a phone at the address that it sends from.
fn register(contact: &str, params: &str, tags: &str) -> String {
    let contact = format!("Contact: <sip:bob@{contact};ob>{params}\r\nSupported: {tags}\r\n");
    request("REGISTER", "reg", 1, "reg", "", &contact)
}

const FLOW: &str = ";+sip.instance=\"<urn:uuid:1>\";reg-id=1";

/// What a node sends to a phone that is reached by this route.
fn from_node(method: &str, over: &str, tag: &str, cseq: u32, route: &str) -> String {
    format!(
        "{method} sip:bob@{CALLER};ob SIP/2.0\r\nVia: SIP/2.0/{over} {NODE};branch=z9hG4bKn{cseq}\r\n\
         Max-Forwards: 69\r\nRoute: {route}\r\nFrom: <sip:carol@example.com>;tag=carol\r\n\
         To: <sip:bob@example.com>{tag}\r\nCall-ID: ring\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The same balancer as another process, which has no connection of the first.
fn restarted(nodes: Vec<Node>, settings: Settings) -> World {
    let mut world = World::with(nodes, keys(2), settings.clone());
    let cluster = Arc::clone(&world.cluster);
    let setup = Setup { worker: 0, workers: 1, cluster, keys: keys(2), calls: 1_000, seed: 1, life: 2 };
    world.balancer = Balancer::new(setup, Arc::new(settings));
    world
}

#[test]
fn path_of_a_flow_has_ob_at_the_first_hop_only() {
    let with = |path| World::with(nodes(3), keys(2), Settings { path, ..settings() });
    let path = |by, text: &str| with(by).one(CALLER, text).header("Path").map(str::to_owned);
    let (tags, own) = ("path, outbound", CALLER);
    // There is no address translation.
    let has = path(PathBy::Auto, &register(own, FLOW, tags)).expect("a Path");
    assert!(has.starts_with("<sip:192.0.2.100:5060;lr;d=p02") && has.ends_with(";ob>"), "{has}");
    for text in [register(own, "", tags), register(own, FLOW, "outbound")] {
        assert_eq!(path(PathBy::Auto, &text), None);
    }
    assert!(!path(PathBy::Always, &register(own, "", tags)).expect("a Path").contains(";ob"));
    assert_eq!(path(PathBy::Never, &register(own, FLOW, tags)), None, "the registrar says 439");
    // Another proxy is the first hop.
    let via = "Via: SIP/2.0/UDP 10.0.0.7:5062;branch=z9hG4bKfirst\r\nMax-Forwards";
    let behind = register(own, FLOW, tags).replacen("Max-Forwards", via, 1);
    assert_eq!(path(PathBy::Auto, &behind), None);
    assert!(!path(PathBy::Always, &behind).expect("a Path").contains(";ob"));
}

#[test]
fn call_comes_by_a_path_with_ob_and_its_dialog_keeps_the_flow() {
    let mut world = World::new();
    let route = world.one(CALLER, &register(CALLER, FLOW, "path, outbound"));
    let route = route.header("Path").expect("a Path").to_owned();
    let rings = world.one(NODE, &from_node("INVITE", "UDP", "", 1, &route));
    assert_eq!((rings.to.as_str(), rings.header("Route")), (CALLER, None));
    let record = rings.header("Record-Route").expect("the flow, for what follows").to_owned();
    assert!(!record.contains(";ob"), "{record}");
    assert_eq!(world.receive(CALLER, &response(&rings, "200 OK", ""))[0].to, NODE);
    let bye = world.one(NODE, &from_node("BYE", "UDP", ";tag=callee", 2, &record));
    assert_eq!(bye.to, CALLER);
}

#[test]
fn token_of_a_flow_that_was_changed_anywhere_is_refused() {
    let mut world = World::new();
    let route = world.one(CALLER, &register(CALLER, FLOW, "path, outbound"));
    let route = route.header("Path").expect("a Path").to_owned();
    let start = route.find("d=p").expect("a token") + 3;
    let end = route.find(";ob").expect("ob");
    for at in start..end {
        let mut other = route.clone().into_bytes();
        other[at] = if other[at] == b'0' { b'1' } else { b'0' };
        let other = String::from_utf8(other).expect("text");
        let back = world.receive(NODE, &from_node("INVITE", "UDP", "", at as u32, &other));
        assert_eq!(back[0].start(), "SIP/2.0 403 Path Not Of This Balancer", "{at}");
    }
}

#[test]
fn caller_with_ob_is_reached_on_its_connection_or_not_at_all() {
    // Section 5.3.2; also where the balancer is in no other path.
    for (record_route, ob) in [(true, ";ob"), (false, ";ob"), (true, "")] {
        let settings = Settings { record_route, ..streams() };
        let mut world = restarted(tcp_nodes(2), settings.clone());
        let contact = format!("Contact: <sip:alice@198.51.100.7;transport=tcp{ob}>\r\n");
        let text = over_tcp(&request("INVITE", "ring", 1, "ring", "", &contact));
        let text = text.replace("tag=caller", "tag=bob");
        let sent = world.one_tcp(PHONE, &text);
        let node = sent.to.clone();
        let route = sent.header("Record-Route").expect("a route").to_owned();
        world.receive_tcp(&node, &response(&sent, "200 OK", ""));
        let bye = from_node("BYE", "TCP", ";tag=bob", 2, &route);
        let bye = bye.replace(&format!("sip:bob@{CALLER};ob"), "sip:alice@198.51.100.7;transport=tcp");
        let bye = bye.replace(NODE, &node);
        let told = world.one_tcp(&node, &bye);
        assert_eq!((told.to.as_str(), told.conn.is_some()), (PHONE, true), "{ob}");
        // Its connection ends. Without `ob` the port in its Contact is tried.
        let next = world.lost(&told);
        assert_eq!(next.len(), 1, "{next:?}");
        match ob {
            "" => assert_eq!((next[0].to.as_str(), next[0].conn), ("198.51.100.7:5060", None)),
            _ => {
                assert_eq!((next[0].to.as_str(), next[0].start()), (node.as_str(), "SIP/2.0 430 Flow Failed"))
            }
        }
        // The same in another process.
        let mut other = World::with(tcp_nodes(2), keys(2), settings);
        let again = other.one_tcp(&node, &bye);
        let failed = again.start() == "SIP/2.0 430 Flow Failed";
        assert_eq!(failed, !ob.is_empty(), "{}", again.start());
    }
}

/// Its flow is one of the process before this one, so that the node gets 430 at once.
#[test]
fn bye_of_a_node_that_reaches_no_flow_ends_its_call() {
    for by_path in [false, true] {
        let mut world = restarted(tcp_nodes(1), streams());
        let contact = "Contact: <sip:alice@198.51.100.7;transport=tcp;ob>\r\n";
        let text = over_tcp(&request("INVITE", "ring", 1, "ring", "", contact));
        let sent = world.one_tcp(PHONE, &text.replace("tag=caller", "tag=bob"));
        let (node, record) = (sent.to.clone(), sent.header("Record-Route").expect("a route").to_owned());
        world.receive_tcp(&node, &response(&sent, "200 OK", ""));
        // The caller sends something in its call to the next process.
        let mut world = World::with(tcp_nodes(1), keys(2), streams());
        let again = request("INVITE", "ring", 2, "again", ";tag=callee", &format!("Route: {record}\r\n"));
        let again = world.one_tcp(PHONE, &over_tcp(&again).replace("tag=caller", "tag=bob"));
        world.receive_tcp(&node, &response(&again, "200 OK", ""));
        assert_eq!(world.load().0, 1);
        let path = world.one_tcp(PHONE, &over_tcp(&register(PHONE, FLOW, "path, outbound")));
        let route = if by_path { path.header("Path").expect("a Path").to_owned() } else { record };
        let bye = |cseq| from_node("BYE", "TCP", ";tag=bob", cseq, &route).replace(NODE, &node);
        let bye = bye(3).replace("tag=carol", "tag=callee");
        let told = world.one_tcp(&node, &bye);
        assert_eq!(told.start().starts_with("SIP/2.0 430 "), !by_path, "{}", told.start());
        world.seconds(31);
        assert_eq!(world.load().0, 1, "the node may try again");
        world.seconds(4);
        assert_eq!(world.load().0, 0, "{by_path}");
    }
}

#[test]
fn caller_with_ob_on_udp_is_reached_where_it_sends_from() {
    let mut world = World::new();
    let contact = "Contact: <sip:alice@198.51.100.7:5080;ob>\r\n";
    let sent = world
        .one(CALLER, &request("INVITE", "ring", 1, "ring", "", contact).replace("tag=caller", "tag=bob"));
    let route = sent.header("Record-Route").expect("a route").to_owned();
    let node = sent.to.clone();
    world.receive(&node, &response(&sent, "200 OK", ""));
    let bye = from_node("BYE", "UDP", ";tag=bob", 2, &route).replace(NODE, &node);
    assert_eq!(
        world.one(&node, &bye.replace(&format!("bob@{CALLER}"), "alice@198.51.100.7:5080")).to,
        CALLER
    );
}

#[test]
fn stun_keepalive_is_answered_over_udp_only() {
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"123456789012"].concat();
    let remote = CALLER.parse().expect("an address");
    for (transport, answers) in [(Transport::Udp, true), (Transport::Tcp, false)] {
        let mut world = World::with(nodes(2), keys(2), streams());
        let mut out = Outbox::new();
        let flow = Flow { transport, ..Flow::udp(ListenerId(0), remote) };
        assert_eq!(world.balancer.receive(wire::Arrival::new(world.now, flow, &request), &mut out), None);
        let sent: Vec<_> = out.transmits().iter().map(|t| (t.flow, out.message(t).len())).collect();
        assert_eq!(sent, if answers { vec![(flow, 32)] } else { vec![] });
        assert_eq!(world.balancer.report(false).counts.garbage, u64::from(!answers));
    }
}
