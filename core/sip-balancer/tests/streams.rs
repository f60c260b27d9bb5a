//! TCP on either side: the same calls, connections that die, and what a datagram would lose.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;
use wire::{ConnId, FrameError, ListenerId, Machine, Outbox, Transport};

fn phone() -> Option<ConnId> {
    Some(ConnId::new(0, 40_001))
}

/// An in-dialog request of the callee's side, by its node.
fn from_node(method: &str, node: &str, call: &str, cseq: u32, route: &str) -> String {
    format!(
        "{method} sip:alice@198.51.100.7:5070;transport=tcp SIP/2.0\r\n\
         Via: SIP/2.0/TCP {node};branch=z9hG4bKn{cseq}\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: {call}\r\nCSeq: {cseq} {method}\r\n{route}Content-Length: 0\r\n\r\n"
    )
}

#[test]
fn a_call_over_streams_from_end_to_end() {
    let mut world = World::with(tcp_nodes(3), keys(2), streams());
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite("a1")));
    assert_eq!((forwarded.over, forwarded.conn), (Transport::Tcp, None));
    assert!(forwarded.header("Via").unwrap().starts_with("SIP/2.0/TCP 192.0.2.100:5060;branch=z9hG4bKlb"));
    let route = forwarded.header("Record-Route").unwrap().to_owned();
    assert!(route.starts_with("<sip:192.0.2.100:5060;transport=tcp;lr;d="), "{route}");
    let route = format!("Route: {route}\r\n");
    for status in ["180 Ringing", "200 OK"] {
        let back = world.answer(&forwarded, status, "");
        // On the caller's own connection (RFC 3261 section 18.2.2).
        assert_eq!((back[0].to.as_str(), back[0].over, back[0].conn), (PHONE, Transport::Tcp, phone()));
    }
    assert_eq!(world.load(), (1, 0));
    let bye = world.one_tcp(PHONE, &over_tcp(&request("BYE", "a1", 2, "a2", ";tag=callee", &route)));
    assert_eq!((&bye.to, bye.over), (&forwarded.to, Transport::Tcp));
    assert_eq!(world.answer(&bye, "200 OK", "").len(), 1);
    (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    let report = world.balancer.report(true);
    assert_eq!((world.load(), report.transactions, report.kept, report.exact), ((0, 0), 0, 0, Some(true)));
}

#[test]
fn a_caller_on_a_stream_and_a_node_on_datagrams() {
    let mut world = World::with(nodes(1), keys(2), streams());
    let text = over_tcp(&invite("b1"));
    let forwarded = world.one_tcp(PHONE, &text);
    assert_eq!(forwarded.over, Transport::Udp);
    // Both sides have their own of our addresses (RFC 5658).
    assert_eq!(forwarded.text.matches("Record-Route: ").count(), 2);
    // Nobody repeats what came over a stream: we do (timer A).
    assert!(world.pass(Duration::from_millis(400)).is_empty());
    let mut seen = 0;
    for _ in 0..70 {
        let again = world.pass(Duration::from_millis(100));
        seen += again.len();
        assert!(again.iter().all(|m| m.text == forwarded.text && m.to == forwarded.to));
    }
    assert_eq!(seen, 3, "after 0.5, 1.5 and 3.5 s");
    assert_eq!(world.load(), (1, 1));
    world.answer(&forwarded, "180 Ringing", "");
    (0..80).for_each(|_| assert!(world.pass(Duration::from_millis(100)).is_empty()));
    let back = world.answer(&forwarded, "486 Busy Here", "");
    assert_eq!((back[0].over, back[0].conn), (Transport::Tcp, phone()));
    // Something that is no INVITE is repeated until it is answered for good (timer E).
    let sent = world.one_tcp(PHONE, &over_tcp(&request("MESSAGE", "b2", 1, "b2", "", "")));
    world.answer(&sent, "100 Trying", "");
    let again = (0..60).flat_map(|_| world.pass(Duration::from_millis(100))).count();
    assert!((1..=2).contains(&again), "{again}");
    world.answer(&sent, "200 OK", "");
    (0..60).for_each(|_| assert!(world.pass(Duration::from_millis(100)).is_empty()));
}

#[test]
fn a_caller_on_datagrams_and_a_node_on_a_stream() {
    let mut world = World::with(tcp_nodes(1), keys(2), streams());
    world.hears();
    let forwarded = world.one(CALLER, &invite("c1"));
    assert_eq!(forwarded.over, Transport::Tcp);
    world.answer(&forwarded, "180 Ringing", "");
    let refused = world.answer(&forwarded, "486 Busy Here", "");
    assert_eq!((refused[0].over, refused[0].to.as_str()), (Transport::Udp, CALLER));
    // The node sends it once; the datagram may be lost (timer G).
    let again = world.pass(Duration::from_millis(510));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].text, refused[0].text);
    let ack = world.one(CALLER, &request("ACK", "c1", 1, "c1", ";tag=callee", ""));
    assert_eq!((ack.over, ack.branch(), &ack.to), (Transport::Tcp, forwarded.branch(), &forwarded.to));
    (0..50).for_each(|_| assert!(world.pass(Duration::from_millis(100)).is_empty()));
    assert_eq!(world.balancer.report(true).counts.relayed, 3, "with the one that it heard before");
}

#[test]
fn a_response_whose_connection_is_gone_goes_to_where_the_caller_listens() {
    let mut world = World::with(nodes(1), keys(2), streams());
    let text = over_tcp(&invite("d1")).replace("TCP 198.51.100.7;", "TCP 198.51.100.7:5070;");
    let forwarded = world.one_tcp(PHONE, &text);
    let back = world.answer(&forwarded, "200 OK", "");
    // The same once more, of which nothing is kept: by the address, as long as that is remembered.
    let again = world.answer(&forwarded, "200 OK", "");
    assert_eq!((again[0].to.as_str(), again[0].conn), (PHONE, None));
    let other = world.lost(&back[0]);
    assert_eq!((other[0].to.as_str(), other[0].over), ("198.51.100.7:5070", Transport::Tcp));
    assert_eq!((other[0].conn, &other[0].text), (None, &back[0].text));
    // After a restart nobody knows the connection, which has ended with the one who had it.
    let mut world = World::with(nodes(1), keys(2), streams());
    let back = world.answer(&forwarded, "200 OK", "");
    assert_eq!((back[0].to.as_str(), back[0].conn), ("198.51.100.7:5070", None));
}

#[test]
fn a_dead_connection_to_a_node_is_a_failure_and_the_call_goes_elsewhere() {
    let mut world = World::with(tcp_nodes(2), keys(2), Settings { probing: Probing::default(), ..streams() });
    let mut lost = 0;
    for n in 0..3 {
        let first = world.one_tcp(PHONE, &over_tcp(&invite(&format!("e{n}"))));
        if !first.to.starts_with("192.0.2.1:") {
            world.answer(&first, "200 OK", "");
            continue;
        }
        lost += 1;
        let second = world.lost(&first);
        assert_eq!(second.len(), 1);
        assert_ne!((&second[0].to, second[0].branch()), (&first.to, first.branch()));
        let back = world.answer(&second[0], "200 OK", "");
        assert_eq!((back[0].start(), back[0].conn), ("SIP/2.0 200 OK", phone()));
    }
    assert!(lost > 0);
    assert_eq!(world.balancer.report(true).events.retried, lost);
    // The failure had it probed at once, over a stream: its connection says at once that nobody is there.
    let probe =
        world.pass(Duration::ZERO).into_iter().find(|p| p.to.starts_with("192.0.2.1:")).expect("a probe");
    assert_eq!(probe.over, Transport::Tcp);
    let mut probe = Some(probe);
    while let Some(one) = probe.take() {
        assert!(world.lost(&one).is_empty());
        probe = world.pass(Duration::ZERO).into_iter().find(|p| p.to == one.to);
    }
    assert_eq!(world.cluster.health(NodeIndex(0)), (Health::Down, Why::Unreachable));
}

#[test]
fn in_dialog_request_reports_a_missing_connection() {
    let mut world = World::with(tcp_nodes(1), keys(2), streams());
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite("f1")));
    let route = format!("Route: {}\r\n", forwarded.header("Record-Route").unwrap());
    world.answer(&forwarded, "200 OK", "");
    let bye = world.one_tcp(PHONE, &over_tcp(&request("BYE", "f1", 2, "f2", ";tag=callee", &route)));
    let again = world.lost(&bye);
    assert_eq!((&again[0].to, &again[0].text, again[0].conn), (&bye.to, &bye.text, None));
    let again = world.lost(&again[0]);
    let told = world.lost(&again[0]);
    assert_eq!((told[0].start(), told[0].conn), ("SIP/2.0 503 Service Unavailable", phone()));
    assert_eq!(world.balancer.report(true).exact, Some(true));
    assert_eq!(world.load().1, 0);
}

#[test]
fn the_other_end_reaches_a_caller_on_its_connection_or_where_it_listens() {
    let mut world = World::with(tcp_nodes(1), keys(2), streams());
    let text = over_tcp(&invite("g1"));
    let forwarded = world.one_tcp(PHONE, &text);
    let route = format!("Route: {}\r\n", forwarded.header("Record-Route").unwrap());
    world.answer(&forwarded, "200 OK", "");
    let node = forwarded.to.clone();
    let out = world.one_tcp(&node, &from_node("INFO", &node, "g1", 9, &route));
    assert_eq!((out.to.as_str(), out.over), (PHONE, Transport::Tcp));
    let other = world.lost(&out);
    assert_eq!((other[0].to.as_str(), other[0].over), ("198.51.100.7:5070", Transport::Tcp));
    let back = world.answer(&other[0], "200 OK", "");
    assert_eq!((&back[0].to, back[0].over), (&node, Transport::Tcp));
    assert_eq!(world.balancer.report(true).kept, 0);
}

#[test]
fn what_is_too_long_for_a_datagram_goes_over_a_stream_and_as_a_datagram_after_all() {
    let long = |call: &str| {
        let more = format!("Subject: {}\r\n", "x".repeat(900));
        request("INVITE", call, 1, call, "", &more)
    };
    let mut world = World::with(nodes(1), keys(2), streams());
    let first = world.one(CALLER, &long("h1"));
    assert_eq!(first.over, Transport::Tcp);
    assert!(first.header("Via").unwrap().starts_with("SIP/2.0/TCP "));
    // Its CANCEL goes the same way (RFC 3261 section 9.1), short as it is.
    let cancel = world.one(CALLER, &request("CANCEL", "h1", 1, "h1", "", ""));
    assert_eq!((cancel.over, cancel.branch()), (Transport::Tcp, first.branch()));
    // Who listens to no stream gets it all the same (18.1.1).
    let first = world.one(CALLER, &long("h2"));
    let second = world.lost(&first);
    assert_eq!((second[0].over, &second[0].to), (Transport::Udp, &first.to));
    assert!(first.hurries && !second[0].hurries, "a connection is not waited for long");
    assert!(second[0].header("Via").unwrap().starts_with("SIP/2.0/UDP "));
    assert_eq!(world.one(CALLER, &long("h2")).over, Transport::Udp);
    // Nor does it matter if nobody says so: silence will do.
    let rules = Rules { silent_after: Duration::from_millis(400), ..Rules::default() };
    let mut quiet = World::with(nodes(2), keys(2), Settings { rules, ..streams() });
    let first = quiet.one(CALLER, &long("h5"));
    let second = quiet.pass(Duration::from_millis(400));
    assert_eq!((second[0].over, &second[0].to), (Transport::Udp, &first.to));
    assert_ne!(quiet.pass(Duration::from_millis(400))[0].to, first.to, "and then another node");
    // Nothing that is sent in a datagram is longer.
    for size in 600..1_400 {
        let text = request(
            "INVITE",
            &format!("i{size}"),
            1,
            &format!("i{size}"),
            "",
            &format!("X: {}\r\n", "y".repeat(size)),
        );
        let sent = world.one(CALLER, &text);
        assert!(sent.over == Transport::Tcp || sent.text.len() <= 1_300, "{} bytes", sent.text.len());
    }
    // Where the operator says so, or there is no stream listener, it is a datagram.
    let udp = nodes(1).into_iter().map(|n| Node { transport: Some(Transport::Udp), ..n }).collect();
    assert_eq!(World::with(udp, keys(2), streams()).one(CALLER, &long("h3")).over, Transport::Udp);
    assert_eq!(World::new().one(CALLER, &long("h4")).over, Transport::Udp);
}

#[test]
fn dialogs_outlive_a_changed_list_of_listeners() {
    let mut world = World::with(tcp_nodes(2), keys(2), streams());
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite("j1")));
    let route = format!("Route: {}\r\n", forwarded.header("Record-Route").unwrap());
    // Restarted with another listener before the others.
    let mut list = streams().listeners;
    list.insert(0, Listener::new(Transport::Udp, "192.0.2.101:5060".parse().unwrap(), None));
    let listeners = Settings::new(list).listeners;
    let mut world = World::with(tcp_nodes(2), keys(2), Settings { listeners, ..streams() });
    let back = world.answer(&forwarded, "200 OK", "");
    assert_eq!((back[0].to.as_str(), back[0].over), ("198.51.100.7:5060", Transport::Tcp));
    let node = forwarded.to.clone();
    let out = world.one_tcp(&node, &from_node("BYE", &node, "j1", 9, &route));
    assert_eq!((out.to.as_str(), out.over), (PHONE, Transport::Tcp));
}

#[test]
fn what_is_kept_only_when_it_is_repeated_is_forgotten_too() {
    let mut world = World::with(nodes(1), keys(2), streams());
    let text = request("MESSAGE", "l1", 1, "l1", "", "");
    assert_eq!(world.one(CALLER, &text).over, Transport::Udp);
    // A reload in between: its node is reached over a stream now.
    let node = Node { transport: Some(Transport::Tcp), ..nodes(1)[0] };
    world.cluster.change(NodeIndex(0), &node);
    assert_eq!(world.one(CALLER, &text).over, Transport::Tcp);
    assert_eq!(world.balancer.report(false).kept, 1);
    (0..80).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    assert_eq!(world.balancer.report(false).kept, 0);
}

#[test]
fn what_breaks_a_stream_is_answered_once() {
    let mut world = World::with(nodes(1), keys(2), streams());
    let flow = wire::Flow {
        transport: Transport::Tcp,
        listener: ListenerId(1),
        remote: PHONE.parse().unwrap(),
        conn: phone(),
    };
    let mut out = Outbox::new();
    world.balancer.refuse(
        world.now,
        flow,
        over_tcp(&invite("k1")).as_bytes(),
        FrameError::BodyTooLong,
        &mut out,
    );
    let sent = sent(&out);
    assert_eq!((sent[0].start(), sent[0].conn), ("SIP/2.0 413 Request Entity Too Large", phone()));
    world.balancer.refuse(world.now, flow, b"", FrameError::NotAMessage, &mut Outbox::new());
}

#[test]
fn what_is_no_invite_goes_to_another_node_where_its_connection_is_refused_and_it_was_not_read_before() {
    for method in ["MESSAGE", "REGISTER"] {
        let mut world = World::with(tcp_nodes(2), keys(2), streams());
        let first = world.one_tcp(PHONE, &over_tcp(&request(method, "m1", 1, "m1", "", "")));
        // It may have been read there: the same node gets it, on another connection.
        let again = world.cut_off(&first);
        assert_eq!((again.len(), &again[0].to, &again[0].text), (1, &first.to, &first.text), "{method}");
        let second = world.lost(&again[0]);
        assert_eq!(second.len(), 1);
        if method == "MESSAGE" {
            // That one was not read, but the first one may have been.
            assert_eq!(second[0].to, first.to);
            let told = world.lost(&second[0]);
            assert_eq!((told[0].start(), told[0].conn), ("SIP/2.0 503 Service Unavailable", phone()));
            assert_eq!((world.balancer.report(true).kept, world.load()), (0, (0, 0)));
            continue;
        }
        assert_ne!((&second[0].to, second[0].branch()), (&first.to, first.branch()), "{method}");
        let back = world.answer(&second[0], "200 OK", "");
        assert_eq!((back[0].start(), back[0].conn), ("SIP/2.0 200 OK", phone()));
        let report = world.balancer.report(true);
        assert_eq!((report.kept, report.exact, world.load()), (0, Some(true), (0, 0)));
    }
}

#[test]
fn what_rang_is_tried_again_where_no_connection_comes_about() {
    let mut world = World::with(tcp_nodes(2), keys(2), streams());
    let first = world.one_tcp(PHONE, &over_tcp(&invite("n1")));
    world.answer(&first, "180 Ringing", "");
    world.cluster.set_down(world.cluster.at(first.to.parse().unwrap()).unwrap(), Why::ProbeTimeout);
    let mut second = world.pass(Duration::ZERO).remove(0);
    for _ in 0..70 {
        assert!(world.lost(&second).is_empty(), "its caller hears nothing of that");
        let all = world.pass(Duration::from_secs(1));
        assert_eq!(all.len(), 1);
        second = invited(&all);
        assert_ne!(second.to, first.to);
    }
    // Once there is a connection it is not repeated.
    (0..9).for_each(|_| assert!(world.pass(Duration::from_secs(1)).is_empty()));
    assert_eq!(world.answer(&second, "200 OK", "")[0].conn, phone());
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}
