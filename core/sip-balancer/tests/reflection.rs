//! How many bytes go to the address of a datagram, which may be forged (RFC 3261 section 26.1.5).

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use std::time::Duration;
use wire::Transport;

/// Bytes that went to the caller.
fn to_caller(sent: &[Sent]) -> usize {
    sent.iter().filter(|s| s.to == CALLER).map(|s| s.text.len()).sum()
}

/// A response of a node to an INVITE, with a body.
fn long(forwarded: &Sent, status: &str) -> String {
    let text = response(forwarded, status, "Contact: <sip:bob@192.0.2.1>\r\n");
    text.replace("Content-Length: 0\r\n\r\n", &format!("Content-Length: 900\r\n\r\n{}", "x".repeat(900)))
}

/// How many of ten equal responses of a node go to the caller.
fn of_ten(world: &mut World, forwarded: &Sent, status: &str) -> usize {
    (0..10).map(|_| world.receive(&forwarded.to, &long(forwarded, status)).len()).sum()
}

/// A REGISTER of the caller, with the credentials that it has.
fn register(cseq: u32, nonce: &str) -> String {
    let credentials = match nonce {
        "" => String::new(),
        nonce => format!(
            "Authorization: Digest username=\"a\", realm=\"r\", nonce=\"{nonce}\", response=\"0\"\r\n"
        ),
    };
    request("REGISTER", "reg", cseq, &format!("reg{cseq}"), "", &credentials)
}

/// An in-dialog request of the caller that got a response with this tag.
fn inside(method: &str, call: &str, cseq: u32, tag: &str) -> String {
    request(method, call, cseq, &format!("in{cseq}"), &format!(";tag={tag}"), "")
}

#[test]
fn node_responses_to_a_silent_caller_are_bounded() {
    let mut world = World::new();
    let text = invite("s1");
    let forwarded = world.one(CALLER, &text);
    let (mut bytes, mut most, mut received) = (0, 0, text.len());
    for status in ["183 Session Progress", "200 OK"] {
        for n in 0..30 {
            let sent = world.receive(&forwarded.to, &long(&forwarded, status));
            most = most.max(to_caller(&sent));
            bytes += to_caller(&sent);
            let due = world.pass(Duration::from_millis(900));
            bytes += to_caller(&due);
            if n % 10 == 0 {
                world.receive(CALLER, &text);
                received += text.len();
            }
            assert!(bytes <= 3 * received + most, "{bytes} bytes for {received}");
        }
    }
    assert!(bytes > 2 * most, "what is paid for goes");
    assert!(world.balancer.report(false).counts.withheld > 50);
}

#[test]
fn first_final_response_goes_whatever_its_length() {
    let mut world = World::new();
    for (n, status) in ["200 OK", "486 Busy Here", "302 Moved Temporarily"].into_iter().enumerate() {
        let forwarded = world.one(CALLER, &invite(&format!("f{n}")));
        assert_eq!(of_ten(&mut world, &forwarded, "183 Session Progress"), 0);
        assert_eq!(of_ten(&mut world, &forwarded, status), 1);
    }
    // A stream shows that its sender receives.
    let mut world = World::with(nodes(1), keys(2), streams());
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite("g2")));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 10);
}

#[test]
fn ack_with_the_tag_of_a_response_lifts_the_bound() {
    let mut world = World::new();
    let forwarded = world.one(CALLER, &invite("a1"));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 1);
    world.receive(CALLER, &inside("ACK", "a1", 1, "callee"));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 10);
    // Also of its later calls.
    let forwarded = world.one(CALLER, &invite("a2"));
    assert_eq!(of_ten(&mut world, &forwarded, "183 Session Progress"), 10);
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 10);
    // Nobody else's.
    let forwarded =
        world.one("198.51.100.7:5062", &invite("a3").replace("198.51.100.7;", "198.51.100.7:5062;"));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 1);
}

#[test]
fn prack_with_the_tag_of_a_response_lifts_the_bound() {
    let mut world = World::new();
    let forwarded = world.one(CALLER, &invite("p1"));
    assert_eq!(world.answer(&forwarded, "180 Ringing", "").len(), 1);
    world.one(CALLER, &inside("PRACK", "p1", 2, "callee"));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 10);
}

#[test]
fn tag_that_did_not_go_to_an_address_lifts_nothing() {
    let mut world = World::new();
    let forwarded = world.one(CALLER, &invite("n1"));
    // It was withheld.
    assert_eq!(of_ten(&mut world, &forwarded, "183 Session Progress"), 0);
    world.receive(CALLER, &inside("PRACK", "n1", 2, "callee"));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 1);
    // It is guessed, or went to another address.
    let other = "203.0.113.9:5060";
    for tag in ["guessed", "caller", "callee"] {
        let ack = inside("ACK", "n1", 1, tag).replace("198.51.100.7;", "203.0.113.9;");
        world.receive(if tag == "callee" { other } else { CALLER }, &ack);
    }
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 0);
    let theirs = invite("n2").replace("198.51.100.7;", "203.0.113.9;");
    let forwarded = world.one(other, &theirs);
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 1);
    // Whoever knows a dialog may send its tag from anywhere: that a response repeats it shows nothing.
    let again = inside("INVITE", "n1", 3, "callee").replace("198.51.100.7;", "203.0.113.9;");
    let forwarded = world.one(other, &again);
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 1);
    world.receive(other, &inside("ACK", "n1", 3, "callee").replace("198.51.100.7;", "203.0.113.9;"));
    assert_eq!(of_ten(&mut world, &forwarded, "200 OK"), 0);
}

#[test]
fn accepted_credentials_lift_the_bound() {
    let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n1\"\r\n";
    for (nonce, status, lifted) in [
        ("n1", "200 OK", true),
        ("n1", "401 Unauthorized", false),
        ("n1", "403 Forbidden", false),
        ("n1", "420 Bad Extension", false),
        ("made-up", "200 OK", false),
        ("", "200 OK", false),
    ] {
        let mut world = World::new();
        let asked = world.one(CALLER, &register(1, ""));
        assert_eq!(world.answer(&asked, "401 Unauthorized", challenge).len(), 1);
        let known = world.one(CALLER, &register(2, nonce));
        assert_eq!(world.answer(&known, status, "").len(), 1);
        let forwarded = world.one(CALLER, &invite("c1"));
        let gone = of_ten(&mut world, &forwarded, "200 OK");
        assert_eq!(gone, if lifted { 10 } else { 1 }, "{nonce} {status}");
    }
}

#[test]
fn own_refusal_to_a_silent_caller_is_repeated_as_paid_for() {
    // The node never answers.
    let mut world = World::new();
    let text = invite("r1");
    world.one(CALLER, &text);
    let sent: Vec<Sent> = world.seconds(300);
    let refusals: Vec<&Sent> =
        sent.iter().filter(|s| s.to == CALLER && s.header("Call-ID") == Some("r1")).collect();
    assert!(refusals.len() > 1, "{refusals:#?}");
    assert!(refusals.iter().map(|s| s.text.len()).sum::<usize>() <= 3 * text.len());
    assert!(refusals.iter().all(|s| s.start().starts_with("SIP/2.0 408")));
}

#[test]
fn refusal_over_a_stream_goes_once_to_a_silent_caller() {
    let mut world = World::with(tcp_nodes(1), keys(2), streams());
    let forwarded = world.one(CALLER, &invite("t1"));
    assert_eq!(forwarded.over, Transport::Tcp);
    let mut sent = world.receive_tcp(&forwarded.to, &long(&forwarded, "486 Busy Here"));
    sent.extend(world.seconds(40));
    assert_eq!(sent.iter().filter(|s| s.to == CALLER).count(), 1);
}

#[test]
fn answer_longer_than_three_requests_is_not_sent() {
    let mut world = World::new();
    // Compact names, and an address that the answer spells out.
    let from = "[2001:db8:1111:2222:3333:4444:5555:6666]:5060";
    let ask = "X s: SIP/2.0\r\nv:SIP/2.0/UDP h;rport\r\n\r\n";
    let sent = world.receive(from, ask);
    assert_eq!((sent.len(), world.balancer.report(false).counts.withheld), (0, 1), "{sent:?}");
    // Not for another reason: with more bytes of its own it is answered.
    let longer = ask.replace(";rport", &format!(";rport\r\nSubject:{}", "x".repeat(200)));
    assert_eq!(world.one(from, &longer).start().split(' ').nth(1), Some("400"));
}
