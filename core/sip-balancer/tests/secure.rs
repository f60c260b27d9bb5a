//! TLS, WebSocket and SCTP on both sides: our names in messages, the connections that are used, the names
//! that nodes prove, and `sips:`.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;
use wire::{ConnId, Transport};

const UDP: (Transport, u16) = (Transport::Udp, 0);
const TLS: (Transport, u16) = (Transport::Tls, 1);
const WSS: (Transport, u16) = (Transport::Wss, 2);
const WS: (Transport, u16) = (Transport::Ws, 3);
const SCTP: (Transport, u16) = (Transport::Sctp, 4);

/// Where the node that sends is.
const NODE: &str = "192.0.2.1:5060";

fn all_transports() -> Settings {
    let listen = |(transport, _), port: u16| Listener::new(transport, ([192, 0, 2, 100], port).into(), None);
    let list =
        vec![listen(UDP, 5060), listen(TLS, 5061), listen(WSS, 443), listen(WS, 80), listen(SCTP, 5060)];
    Settings { listeners: Settings::new(list).listeners, ..settings() }
}

/// Nodes over TLS, which have to prove names.
fn tls_nodes(count: u8) -> World {
    let list = nodes(count).into_iter().map(|n| Node { transport: Some(Transport::Tls), ..n }).collect();
    let world = World::with(list, keys(2), all_transports());
    world.cluster.members().for_each(|(at, node)| prove(&world, &node, &format!("n{}.example", at.0)));
    world
}

fn prove(world: &World, node: &Node, name: &str) {
    world.cluster.names().prove(&[(*node, name.into())], |id| world.cluster.by_id(id).is_some());
}

fn over(via: &str, text: &str) -> String {
    text.replace("Via: SIP/2.0/UDP", &format!("Via: SIP/2.0/{via}"))
}

fn one(sent: Vec<Sent>) -> Sent {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.into_iter().next().expect("one")
}

fn values<'a>(sent: &'a Sent, name: &str) -> Vec<&'a str> {
    let prefix = format!("{name}: ");
    sent.text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect()
}

fn conn() -> Option<ConnId> {
    Some(ConnId::new(0, 40_001))
}

/// A request of the node's side to `uri`.
fn from_node(method: &str, uri: &str, (from, to): (&str, &str), cseq: u32, routes: &[&str]) -> String {
    let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {NODE};branch=z9hG4bKn{cseq}{method}\r\n\
         Max-Forwards: 69\r\n{routes}From: <sip:n@example.com>;tag={from}\r\nTo: <sip:p@example.com>{to}\r\n\
         Call-ID: x\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn call_over_tls_goes_to_a_node_over_udp_and_both_hang_up() {
    for (way, via, route) in [
        (TLS, "TLS", "<sip:192.0.2.100:5061;transport=tls;lr;d="),
        (WSS, "WSS", "<sip:192.0.2.100:443;transport=ws;lr;d="),
        (WS, "WS", "<sip:192.0.2.100:80;transport=ws;lr;d="),
        (SCTP, "SCTP", "<sip:192.0.2.100:5060;transport=sctp;lr;d="),
    ] {
        let mut world = World::with(nodes(1), keys(2), all_transports());
        let sent = one(world.receive_over(way, PHONE, &over(via, &invite("x"))));
        assert_eq!((sent.over, sent.name.as_str()), (Transport::Udp, ""));
        // Each side has an address of ours that it can use (RFC 5658).
        let routes = values(&sent, "Record-Route");
        assert!(routes[0].starts_with("<sip:192.0.2.100:5060;lr;d="), "{routes:?}");
        assert!(routes[1].starts_with(route) && routes.len() == 2, "{routes:?}");
        let back = one(world.answer(&sent, "200 OK", ""));
        assert_eq!((back.over, back.conn, back.to.as_str()), (way.0, conn(), PHONE));
        let mine: String = routes.iter().rev().map(|route| format!("Route: {route}\r\n")).collect();
        let ack = over(via, &request("ACK", "x", 1, "ack", ";tag=callee", &mine));
        let ack = one(world.receive_over(way, PHONE, &ack));
        assert_eq!((ack.to.as_str(), ack.header("Route")), (NODE, None));
        // The node hangs up.
        let uri = "sip:alice@10.0.0.7:55555;transport=tls";
        let ends = ("callee", ";tag=caller");
        let bye = one(world.receive(NODE, &from_node("BYE", uri, ends, 1, &routes)));
        assert_eq!((bye.over, bye.conn, bye.to.as_str()), (way.0, conn(), PHONE), "{bye:?}");
        let back = one(world.receive_over(way, PHONE, &response(&bye, "200 OK", "")));
        assert_eq!((back.over, back.to.as_str(), world.load()), (Transport::Udp, NODE, (0, 0)));
        // And the caller, in another call.
        let bye = over(via, &request("BYE", "x", 2, "bye", ";tag=callee", &mine));
        assert_eq!(one(world.receive_over(way, PHONE, &bye)).to, NODE);
    }
}

/// A phone registers; the Path of that, and where the node's INVITE by it goes.
fn registered(world: &mut World, way: (Transport, u16), via: &str, contact: &str) -> (String, Sent) {
    let more = format!("Contact: <{contact}>\r\nSupported: path, outbound\r\n");
    let register = over(via, &request("REGISTER", "reg", 1, "reg", "", &more));
    let register = one(world.receive_over(way, PHONE, &register));
    let path = values(&register, "Path").first().copied().expect("a Path").to_owned();
    assert_eq!(one(world.answer(&register, "200 OK", "")).conn, conn());
    let invite = from_node("INVITE", contact, ("node", ""), 1, &[&path]);
    (path, one(world.receive(NODE, &invite)))
}

#[test]
fn phone_on_any_connection_is_called_on_it_and_on_no_other() {
    for (way, via, contact) in [
        // The phone's own address: no server there could prove a name.
        (TLS, "TLS", "sip:p@198.51.100.7:40001;transport=tls"),
        (WSS, "WSS", "sip:p@df7jal23ls0d.invalid;transport=ws"),
        (WS, "WS", "sip:p@df7jal23ls0d.invalid;transport=ws"),
        (SCTP, "SCTP", "sip:p@198.51.100.7:40001;transport=sctp"),
    ] {
        let mut world = World::with(nodes(1), keys(2), all_transports());
        let (path, rings) = registered(&mut world, way, via, contact);
        assert!(path.starts_with("<sip:192.0.2.100:5060;lr;d=p02"), "{path}");
        assert_eq!((rings.over, rings.conn, rings.to.as_str()), (way.0, conn(), PHONE));
        assert!(rings.header("Via").unwrap().starts_with(&format!("SIP/2.0/{via} 192.0.2.100:")));
        let back = one(world.receive_over(way, PHONE, &response(&rings, "200 OK", "")));
        assert_eq!((back.over, back.to.as_str()), (Transport::Udp, NODE));
        let routes = values(&rings, "Record-Route");
        assert_eq!(routes.len(), 2);
        let ack = from_node("ACK", contact, ("node", ";tag=callee"), 1, &[routes[1], routes[0]]);
        let ack = one(world.receive(NODE, &ack));
        assert_eq!((ack.over, ack.conn), (way.0, conn()));
        // The phone hangs up.
        let mine: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
        let bye = over(via, &request("BYE", "x", 5, "pbye", ";tag=node", &mine));
        let bye = bye.replace("tag=caller", "tag=callee");
        assert_eq!(one(world.receive_over(way, PHONE, &bye)).to, NODE);
        // Its connection ends: the node gets 430, and nothing is sent to its source port.
        let again =
            from_node("INVITE", contact, ("node", ""), 7, &[&path]).replace("Call-ID: x", "Call-ID: y");
        let rings = one(world.receive(NODE, &again));
        let told = one(world.lost(&rings));
        assert_eq!((told.start(), told.to.as_str()), ("SIP/2.0 430 Flow Failed", NODE), "{via}");
        world.seconds(80);
        assert_eq!(world.balancer.report(true).kept, 0);
    }
}

#[test]
fn caller_without_its_connection_has_to_prove_a_name() {
    let reach = |way: (Transport, u16), via: &str, uri: &str| {
        let mut world = World::with(nodes(1), keys(2), all_transports());
        let sent = one(world.receive_over(way, PHONE, &over(via, &invite("x"))));
        let routes = values(&sent, "Record-Route");
        world.answer(&sent, "200 OK", "");
        let bye = one(world.receive(NODE, &from_node("BYE", uri, ("callee", ";tag=caller"), 1, &routes)));
        assert_eq!(bye.conn, conn());
        one(world.lost(&bye))
    };
    let other = reach(TLS, "TLS", "sip:a@sbc.example;transport=tls");
    let shown = (other.to.as_str(), other.over, other.conn, other.name.as_str());
    assert_eq!(shown, ("198.51.100.7:5061", Transport::Tls, None, "sbc.example"));
    let other = reach(TLS, "TLS", "sips:a@198.51.100.7:5071");
    assert_eq!((other.to.as_str(), other.name.as_str()), ("198.51.100.7:5071", "198.51.100.7"));
    for (way, via, uri) in [
        (TLS, "TLS", "sip:a@203.0.113.9;transport=tls"),
        (TLS, "TLS", "sip:a@sbc.example;transport=udp"),
        (WSS, "WSS", "sip:a@198.51.100.7;transport=ws"),
    ] {
        let told = reach(way, via, uri);
        assert_eq!((told.start(), told.to.as_str()), ("SIP/2.0 430 Flow Failed", NODE), "{uri}");
    }
}

#[test]
fn response_without_its_connection_goes_to_the_via() {
    let mut world = World::with(nodes(1), keys(2), all_transports());
    let text = over("TLS", &invite("d1")).replace("TLS 198.51.100.7;", "TLS sbc.example:5071;");
    let sent = one(world.receive_over(TLS, PHONE, &text));
    let back = one(world.answer(&sent, "200 OK", ""));
    assert_eq!((back.conn, back.existing), (conn(), false));
    let other = one(world.lost(&back));
    let shown = (other.to.as_str(), other.over, other.conn, other.name.as_str());
    assert_eq!(shown, ("198.51.100.7:5071", Transport::Tls, None, "sbc.example"));
    // If the connection is no longer known, only an existing one is used.
    let again = one(world.answer(&sent, "200 OK", ""));
    assert_eq!((again.to.as_str(), again.conn, again.existing), (PHONE, None, true));
    // A browser cannot be reached in another way.
    let sent = one(world.receive_over(WSS, PHONE, &over("WSS", &invite("d2"))));
    let back = one(world.answer(&sent, "200 OK", ""));
    assert_eq!((back.conn, back.token), (conn(), 0));
    let again = one(world.answer(&sent, "200 OK", ""));
    assert_eq!((again.conn, again.existing, again.token), (None, true, 0));
}

#[test]
fn node_over_tls_proves_its_name_and_its_death_loses_no_call() {
    let mut world = tls_nodes(2);
    let first = one(world.receive(CALLER, &invite("x")));
    let name = |sent: &Sent, world: &World| format!("n{}.example", world.node(sent).0);
    assert_eq!((first.over, &first.name), (Transport::Tls, &name(&first, &world)));
    assert!(first.header("Via").unwrap().starts_with("SIP/2.0/TLS 192.0.2.100:5061;"));
    let routes = values(&first, "Record-Route");
    assert!(routes[0].starts_with("<sip:192.0.2.100:5061;transport=tls;lr;d="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:192.0.2.100:5060;lr;d="), "{routes:?}");
    let second = invited(&world.lost(&first));
    assert_ne!(second.to, first.to);
    assert_eq!(second.name, name(&second, &world), "the other's own name");
    let back = world.receive_over(TLS, &second.to, &response(&second, "200 OK", ""));
    assert_eq!(finals(&back), ["SIP/2.0 200 OK"]);
    // Its new name is that of the next message.
    let node = world.cluster.node(world.node(&second)).unwrap();
    prove(&world, &node, "new.example");
    let more: String =
        values(&second, "Record-Route").iter().rev().map(|r| format!("Route: {r}\r\n")).collect();
    let bye = one(world.receive(CALLER, &request("BYE", "x", 2, "bye", ";tag=callee", &more)));
    assert_eq!((&bye.to, bye.name.as_str()), (&second.to, "new.example"));
}

#[test]
fn probes_go_over_the_transport_of_their_node() {
    for (transport, name, via) in [
        (Transport::Tls, "n.example", "TLS 192.0.2.100:5061"),
        (Transport::Sctp, "", "SCTP 192.0.2.100:5060"),
    ] {
        let list = nodes(1).into_iter().map(|n| Node { transport: Some(transport), ..n }).collect();
        let probing = Probing { interval: Duration::from_secs(1), ..Probing::default() };
        let mut world = World::with(list, keys(2), Settings { probing, ..all_transports() });
        world.cluster.members().for_each(|(_, node)| prove(&world, &node, name));
        let probe = one(world.pass(Duration::ZERO));
        assert_eq!((probe.over, probe.name.as_str()), (transport, name));
        assert!(probe.header("Via").unwrap().starts_with(&format!("SIP/2.0/{via};branch=z9hG4bKlp")));
        world.lost(&probe);
        for _ in 0..8 {
            for probe in world.pass(Duration::from_millis(500)) {
                world.lost(&probe);
            }
        }
        assert_eq!(world.cluster.health(NodeIndex(0)), (Health::Down, Why::Unreachable));
    }
}

#[test]
fn sips_is_secure_on_both_sides_or_refused() {
    let sips = |text: &str| text.replace("INVITE sip:", "INVITE sips:");
    let mut world = tls_nodes(1);
    let sent = one(world.receive_over(TLS, PHONE, &sips(&over("TLS", &invite("x")))));
    assert_eq!(sent.start(), "INVITE sips:bob@example.com SIP/2.0");
    let routes = values(&sent, "Record-Route");
    assert!(routes.len() == 1 && routes[0].starts_with("<sips:192.0.2.100:5061;lr;d="), "{routes:?}");
    let back = world.receive_over(TLS, &sent.to, &response(&sent, "200 OK", ""));
    assert_eq!((back[0].conn, finals(&back)), (conn(), vec!["SIP/2.0 200 OK"]));
    let route = format!("Route: {}\r\n", routes[0]);
    let bye =
        over("TLS", &request("BYE", "x", 2, "b", ";tag=callee", &route)).replace("BYE sip:", "BYE sips:");
    assert_eq!(one(world.receive_over(TLS, PHONE, &bye)).to, sent.to, "its token is found");
    // From a browser to a node over TLS: two addresses of ours, both `sips:` (RFC 5630).
    let sent = one(world.receive_over(WSS, PHONE, &sips(&over("WSS", &invite("w")))));
    let routes = values(&sent, "Record-Route");
    assert!(routes[0].starts_with("<sips:192.0.2.100:5061;lr;d="), "{routes:?}");
    assert!(routes[1].starts_with("<sips:192.0.2.100:443;transport=ws;lr;d="), "{routes:?}");
    // It came unencrypted, or would be forwarded unencrypted.
    assert_eq!(
        one(world.receive(CALLER, &sips(&invite("c")))).start(),
        "SIP/2.0 400 SIPS Over Insecure Transport"
    );
    let mut world = World::with(nodes(2), keys(2), all_transports());
    let text = sips(&over("TLS", &invite("n")));
    for _ in 0..2 {
        let told = one(world.receive_over(TLS, PHONE, &text));
        assert_eq!(told.start(), "SIP/2.0 480 Temporarily Unavailable");
        assert_eq!(told.header("Warning"), Some("380 proxy \"SIPS Not Allowed\""));
    }
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
    // The same for a phone, and if there is no TLS at all.
    let (_, path) = (0, registered(&mut world, WS, "WS", "sip:p@a.invalid;transport=ws").0);
    let invite = from_node("INVITE", "sips:p@a.invalid;transport=ws", ("node", ""), 9, &[&path]);
    assert_eq!(one(world.receive(NODE, &invite)).start(), "SIP/2.0 400 SIPS Over Insecure Transport");
    let told = one(World::new().receive(CALLER, &sips(&common::invite("u"))));
    assert_eq!(told.start(), "SIP/2.0 416 Unsupported URI Scheme");
}

/// A call from UDP to a node over UDP whose phone has a `sips:` Contact; the Route of each side.
fn call_to_sips_contact() -> (World, String, Vec<String>) {
    let mut world = World::with(nodes(1), keys(2), all_transports());
    let sent = one(world.receive(CALLER, &invite("x")));
    let routes: Vec<String> = values(&sent, "Record-Route").into_iter().map(str::to_owned).collect();
    world.answer(&sent, "200 OK", "Contact: <sips:bob@192.0.2.77>\r\n");
    let mine = routes.iter().rev().map(|route| format!("Route: {route}\r\n")).collect();
    (world, mine, routes)
}

#[test]
fn sips_contact_does_not_keep_a_dialog_from_ending() {
    let to_sips = |text: String| text.replacen(" sip:", " sips:", 1);
    let (mut world, mine, _) = call_to_sips_contact();
    for (cseq, method) in [(1, "ACK"), (2, "PRACK"), (3, "INVITE"), (4, "UPDATE"), (5, "BYE")] {
        let text = to_sips(request(method, "x", cseq, &format!("b{method}"), ";tag=callee", &mine));
        let there = world.receive(CALLER, &text);
        let there = there.iter().find(|sent| sent.start().starts_with(method));
        assert_eq!(there.map(|sent| sent.to.as_str()), Some(NODE), "{method}");
        if method == "INVITE" {
            let cancel = to_sips(request("CANCEL", "x", cseq, "bINVITE", ";tag=callee", &mine));
            let sent = world.receive(CALLER, &cancel);
            assert!(sent.iter().any(|sent| sent.start().starts_with("CANCEL")), "{sent:?}");
        }
    }
    // And the node hangs up, towards a caller who has such a Contact.
    let (mut world, _, routes) = call_to_sips_contact();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let bye = from_node("BYE", "sips:alice@198.51.100.7", ("callee", ";tag=caller"), 1, &routes);
    let bye = one(world.receive(NODE, &bye));
    assert_eq!((bye.start(), bye.to.as_str()), ("BYE sips:alice@198.51.100.7 SIP/2.0", CALLER));
}

#[test]
fn request_refused_for_sips_does_not_end_its_call() {
    let transparent = Settings { record_route: false, ..all_transports() };
    let mut world = World::with(nodes(1), keys(2), transparent);
    let sent = one(world.receive_over(TLS, PHONE, &over("TLS", &invite("x"))));
    one(world.answer(&sent, "200 OK", ""));
    assert_eq!(world.load(), (1, 0));
    let bye = over("TLS", &request("BYE", "x", 2, "b", ";tag=callee", "")).replace("BYE sip:", "BYE sips:");
    let told = one(world.receive_over(TLS, PHONE, &bye));
    assert_eq!(told.start(), "SIP/2.0 480 Temporarily Unavailable");
    assert_eq!(world.load(), (1, 0), "the node has the call still");
}

#[test]
fn response_sent_again_to_a_node_proves_the_name_of_the_node() {
    let mut world = tls_nodes(1);
    let sent = one(world.receive(CALLER, &invite("x")));
    let routes = values(&sent, "Record-Route");
    world.receive_over(TLS, &sent.to, &response(&sent, "200 OK", ""));
    // The node hangs up on a connection of its own, which is gone before the answer.
    let bye = from_node("BYE", "sip:alice@198.51.100.7", ("callee", ";tag=caller"), 1, &routes);
    let bye = one(world.receive_over(TLS, "192.0.2.1:40001", &over("TLS", &bye)));
    assert_eq!((bye.over, bye.to.as_str()), (Transport::Udp, CALLER));
    let back = one(world.receive(CALLER, &response(&bye, "200 OK", "")));
    assert_eq!((back.over, back.conn), (Transport::Tls, conn()));
    let other = one(world.lost(&back));
    let shown = (other.to.as_str(), other.over, other.conn, other.name.as_str());
    assert_eq!(shown, (NODE, Transport::Tls, None, "n0.example"));
}

/// The first node over TLS, the others over UDP.
fn mixed(count: u8, settings: Settings) -> World {
    let mut list = nodes(count);
    list[0].transport = Some(Transport::Tls);
    let world = World::with(list, keys(2), settings);
    let node = world.cluster.node(NodeIndex(0)).expect("a node");
    prove(&world, &node, "n0.example");
    world
}

#[test]
fn sips_goes_to_nodes_over_tls_alone_in_a_mixed_cluster() {
    let to_sips = |text: &str| text.replacen(" sip:", " sips:", 1);
    for algorithm in [Algorithm::Cjsq, Algorithm::RoundRobin, Algorithm::Hash, Algorithm::Maglev] {
        let mut world = mixed(4, Settings { algorithm, ..all_transports() });
        for call in 0..40 {
            let text = to_sips(&over("TLS", &invite(&format!("s{call}"))));
            let sent = one(world.receive_over(TLS, PHONE, &text));
            assert_eq!((sent.to.as_str(), sent.over), (NODE, Transport::Tls), "{algorithm:?}");
        }
        let plain = (0..40).map(|call| one(world.receive(CALLER, &invite(&format!("p{call}")))));
        assert!(plain.filter(|sent| sent.to != NODE).count() > 15, "{algorithm:?}");
        // A wish of its node for rest is not a reason to send it in the clear.
        let text = to_sips(&over("TLS", &invite("r")));
        let sent = one(world.receive_over(TLS, PHONE, &text));
        let back = world.receive_over(TLS, NODE, &response(&sent, "503 Busy", "Retry-After: 5\r\n"));
        assert!(back.iter().all(|sent| !sent.start().starts_with("INVITE")), "{back:?}");
        assert_eq!(finals(&back).len(), 1, "{back:?}");
        // The node is down: others come back some time, so that is no 480.
        world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
        let text = to_sips(&over("TLS", &invite("d")));
        let told = one(world.receive_over(TLS, PHONE, &text));
        assert_eq!(told.start(), "SIP/2.0 503 Service Unavailable", "{algorithm:?}");
    }
}

#[test]
fn sips_register_has_its_home_at_a_node_over_tls() {
    let mut world = mixed(4, Settings { register: RegisterBy::Aor, ..all_transports() });
    for call in 0..20 {
        let text = request("REGISTER", &format!("r{call}"), 1, &format!("r{call}"), "", "");
        let text = text.replace("bob@", &format!("bob{call}@")).replacen(" sip:", " sips:", 1);
        let sent = one(world.receive_over(TLS, PHONE, &over("TLS", &text)));
        assert_eq!((sent.to.as_str(), sent.over), (NODE, Transport::Tls));
    }
}
