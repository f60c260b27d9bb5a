//! The machine with bytes: what it forwards, where to, and what it refuses.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::sync::Arc;
use std::time::Duration;
use wire::{Flow, ListenerId, Machine, Outbox, Time};

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
fn a_method_parameter_stays_out_of_the_request_uri() {
    // RFC 3261 section 16.6 step 2 with table 1 of 19.1.1.
    let mut world = World::new();
    let odd =
        invite("m1").replace("sip:bob@example.com SIP", "sip:bob@example.com;method=BYE;x=y?Route=z SIP");
    assert_eq!(world.one(CALLER, &odd).start(), "INVITE sip:bob@example.com;x=y SIP/2.0");
}

#[test]
fn the_version_leaves_in_capitals() {
    // RFC 3261 section 7.1.
    let mut world = World::new();
    let forwarded = world.one(CALLER, &invite("v1").replacen(" SIP/2.0\r\n", " sip/2.0\r\n", 1));
    assert_eq!(forwarded.start(), "INVITE sip:bob@example.com SIP/2.0");
    let ringing = world.answer(&forwarded, "180 Ringing", "");
    assert_eq!(ringing[0].start(), "SIP/2.0 180 Ringing");
    let answer = response(&forwarded, "200 OK", "").replacen("SIP/2.0", "sip/2.0", 1);
    assert_eq!(world.receive(&forwarded.to, &answer)[0].start(), "SIP/2.0 200 OK");
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
fn upstream_probe_learns_the_state_of_the_cluster() {
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
fn every_message_of_a_call_and_every_probe_comes_to_its_worker() {
    let cluster = Cluster::new(nodes(2), 3);
    let settings = Arc::new(Settings { probing: Probing::default(), ..settings() });
    let make = |worker| {
        let setup = Setup {
            worker,
            workers: 3,
            cluster: Arc::clone(&cluster),
            keys: keys(2),
            calls: 10,
            seed: 5,
            life: 1,
        };
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
    let flow = Flow::udp(ListenerId(0), CALLER.parse().unwrap());
    two.receive(wire::Arrival::new(Time::from_secs(3), flow, text.as_bytes()), &mut out);
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
                world.balancer.receive(wire::Arrival::new(world.now, flow, &bytes), &mut out);
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
                        let request = one_sent(&out, t);
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
