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

#[test]
fn node_responses_to_a_silent_caller_are_bounded() {
    let mut world = World::new();
    let text = invite("s1");
    let forwarded = world.one(CALLER, &text);
    let (mut bytes, mut finals) = (0, 0);
    for _ in 0..30 {
        let sent = world.receive(&forwarded.to, &long(&forwarded, "183 Session Progress"));
        bytes += to_caller(&sent);
        world.pass(Duration::from_millis(500));
    }
    for _ in 0..30 {
        let sent = world.receive(&forwarded.to, &long(&forwarded, "200 OK"));
        (bytes, finals) = (bytes + to_caller(&sent), finals + sent.len());
        world.pass(Duration::from_millis(900));
    }
    assert_eq!(finals, 3, "more than one may be lost");
    assert!(bytes < 6 * 1_400, "{bytes} bytes for {}", text.len());
    assert_eq!(world.balancer.report(false).counts.withheld, 60 - 4);
}

#[test]
fn node_response_goes_again_when_the_request_does() {
    let mut world = World::new();
    let text = invite("g1");
    let forwarded = world.one(CALLER, &text);
    for _ in 0..3 {
        let sent = (0..10).filter(|_| !world.receive(&forwarded.to, &long(&forwarded, "200 OK")).is_empty());
        assert_eq!(sent.count(), 3);
        world.receive(CALLER, &text);
    }
    // A stream shows that its sender receives.
    let mut world = World::with(nodes(1), keys(2), streams());
    let forwarded = world.one_tcp(PHONE, &over_tcp(&invite("g2")));
    assert!((0..10).all(|_| world.receive(&forwarded.to, &long(&forwarded, "200 OK")).len() == 1));
}

#[test]
fn refusal_to_a_silent_caller_is_repeated_twice() {
    // The node never answers.
    let mut world = World::new();
    let text = invite("r1");
    world.one(CALLER, &text);
    let sent: Vec<Sent> = world.seconds(300);
    let refusals: Vec<&Sent> =
        sent.iter().filter(|s| s.to == CALLER && s.header("Call-ID") == Some("r1")).collect();
    assert!((1..=4).contains(&refusals.len()), "{refusals:#?}");
    assert!(refusals.iter().map(|s| s.text.len()).sum::<usize>() <= 4 * text.len());
    assert!(refusals.iter().all(|s| s.start().starts_with("SIP/2.0 408")));
}

#[test]
fn refusal_over_a_stream_is_repeated_twice_to_a_silent_caller() {
    let mut world = World::with(tcp_nodes(1), keys(2), streams());
    let forwarded = world.one(CALLER, &invite("t1"));
    assert_eq!(forwarded.over, Transport::Tcp);
    let mut sent = world.receive_tcp(&forwarded.to, &long(&forwarded, "486 Busy Here"));
    sent.extend(world.seconds(40));
    assert_eq!(sent.iter().filter(|s| s.to == CALLER).count(), 3);
}

#[test]
fn answer_longer_than_three_requests_is_not_sent() {
    let mut world = World::new();
    // Compact names, and a Via that the answer spells out.
    let ask = "OPTIONS sip:192.0.2.100 SIP/2.0\nv:SIP/2.0/UDP h;branch=z9hG4bKo;rport\nf:<sip:a@h>;tag=1\n\
               t:<sip:a@h>\ni:1\nCSeq:1 OPTIONS\nMax-Forwards:9\n\n";
    let sent = world.receive(CALLER, ask);
    assert!(to_caller(&sent) <= 3 * ask.len(), "{sent:?}");
}
