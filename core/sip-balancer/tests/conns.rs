//! Which stream connections matter, and which are in use.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;
use wire::{ConnId, Transport};

fn phone() -> ConnId {
    ConnId::new(0, 40_001)
}

fn world() -> World {
    World::with(nodes(1), keys(2), streams())
}

/// A call over a stream that is answered: the INVITE as it was forwarded, and the route of its dialog.
fn call_over_tcp(world: &mut World, name: &str) -> (Sent, String) {
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite(name)));
    let routes = forwarded.text.lines().filter(|line| line.starts_with("Record-Route: "));
    let routes: String = routes.map(|line| format!("{}\r\n", &line["Record-".len()..])).collect();
    let ringing = world.answer(&forwarded, "180 Ringing", "");
    assert!(!ringing[0].uses, "it only rings");
    let back = world.answer(&forwarded, "200 OK", "");
    assert_eq!((back[0].over, back[0].conn, back[0].uses), (Transport::Tcp, Some(phone()), true));
    (forwarded, routes)
}

#[test]
fn phone_connection_matters_while_it_is_registered() {
    let lists = [
        ("401 Unauthorized", "", 0),
        ("200 OK", "Contact: <sip:bob@10.0.0.7>;expires=600, <sip:bob@10.0.0.8>;expires=900\r\n", 960),
        ("200 OK", "Contact: <sip:bob@10.0.0.7>\r\nExpires: 300\r\n", 360),
        ("200 OK", "Contact: <sip:bob@10.0.0.7>;expires=4294967295\r\n", 86_460),
        ("200 OK", "Expires: 300\r\n", 0),
        ("200 OK", "", 0),
    ];
    for (n, (status, lines, keeps)) in lists.into_iter().enumerate() {
        let mut world = world();
        let name = format!("r{n}");
        let register = world.one_tcp(PHONE, &over_tcp(&request("REGISTER", &name, 1, &name, "", "")));
        let back = world.answer(&register, status, lines);
        assert_eq!((back[0].conn, back[0].keeps, back[0].uses), (Some(phone()), keeps, false), "{lines}");
    }
}

#[test]
fn caller_connection_is_in_use_while_its_call_lasts() {
    let mut world = world();
    let (forwarded, route) = call_over_tcp(&mut world, "c1");
    let again = world.answer(&forwarded, "200 OK", "");
    assert_eq!((again.len(), again[0].uses), (1, false), "once for a call");
    world.seconds(600);
    assert_eq!(world.released, []);
    let bye = world.one_tcp(PHONE, &over_tcp(&request("BYE", "c1", 2, "c2", ";tag=callee", &route)));
    assert_eq!(world.released, []);
    world.answer(&bye, "200 OK", "");
    assert_eq!(world.released, [phone()]);
    world.seconds(40);
    assert_eq!((world.released.len(), world.load()), (1, (0, 0)));
}

#[test]
fn caller_connection_is_released_when_its_call_ends_unseen() {
    let mut world = world();
    call_over_tcp(&mut world, "d1");
    // Nobody hangs up.
    world.pass(Rules::default().session_timeout + Duration::from_secs(1));
    world.seconds(40);
    assert_eq!(world.released, [phone()]);
    // The node hangs up, and the caller has gone.
    let (forwarded, route) = call_over_tcp(&mut world, "d2");
    let bye = format!(
        "BYE sip:alice@198.51.100.7 SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKn1\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: d2\r\nCSeq: 1 BYE\r\n{route}Content-Length: 0\r\n\r\n",
        forwarded.to
    );
    assert_eq!(world.receive(&forwarded.to, &bye).len(), 1);
    world.seconds(40);
    assert_eq!(world.released, [phone(), phone()]);
}

#[test]
fn node_connection_matters() {
    let mut world = World::with(tcp_nodes(1), keys(2), streams());
    let options = "OPTIONS sip:192.0.2.100 SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bKo1\r\n\
                   Max-Forwards: 70\r\nFrom: <sip:n@192.0.2.1>;tag=n\r\nTo: <sip:192.0.2.100>\r\n\
                   Call-ID: o1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(world.one_tcp("192.0.2.1:33333", options).keeps, 7_200);
    let stranger = options.replace("192.0.2.1;", "198.51.100.7;");
    assert_eq!(world.one_tcp(PHONE, &stranger).keeps, 0);
    // What a phone answers to a request of the node.
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite("n1")));
    world.answer(&forwarded, "200 OK", "");
    let route = forwarded.header("Record-Route").expect("a route").to_owned();
    let info = format!(
        "INFO sip:alice@198.51.100.7 SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bKn2\r\n\
         Max-Forwards: 70\r\nRoute: {route}\r\nFrom: <sip:bob@example.com>;tag=callee\r\n\
         To: <sip:alice@example.com>;tag=caller\r\nCall-ID: n1\r\nCSeq: 1 INFO\r\nContent-Length: 0\r\n\r\n"
    );
    let got = world.one_tcp("192.0.2.1:33333", &info);
    assert_eq!((got.to.as_str(), got.keeps), (PHONE, 0));
    let back = world.receive_tcp(PHONE, &response(&got, "200 OK", ""));
    assert_eq!((back[0].to.as_str(), back[0].keeps), ("192.0.2.1:33333", 7_200));
}
