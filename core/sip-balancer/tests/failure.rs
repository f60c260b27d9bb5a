//! What the machine believes, which nodes it gives up, and what it does when it is full.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Machine, Outbox};

#[test]
fn a_token_or_branch_that_was_tampered_with_is_refused() {
    let mut world = World::new();
    world.hears();
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
    // A response to an address of one's own choice: it goes where the request came from, if that is
    // remembered.
    let text = response(&forwarded, "200 OK", "").replace("198.51.100.7", "203.0.113.9");
    let back = world.receive(&forwarded.to, &text);
    assert_eq!((back.len(), back[0].to.as_str()), (1, CALLER));
    // And else nowhere.
    let mut other = World::new();
    assert!(other.receive(&forwarded.to, &text).is_empty());
    assert_eq!(other.balancer.report(true).counts.stray, 1);
    // Nor does one go on that says nothing of who asked.
    let lines = response(&forwarded, "200 OK", "");
    let lines: String = lines.split_inclusive("\r\n").filter(|line| !line.contains("z9hG4bKc5")).collect();
    assert!(world.receive(&forwarded.to, &lines).is_empty());
}

#[test]
fn a_node_that_asks_for_rest_gets_it_and_the_caller_may_try_again() {
    let mut world = World::with(nodes(2), keys(2), settings());
    world.hears();
    let first = world.one(CALLER, &invite("s1"));
    world.answer(&first, "180 Ringing", "");
    let back = world.answer(&first, "503 Service Unavailable", "Retry-After: 9\r\n");
    assert_eq!((back[0].start(), back[0].header("Retry-After")), ("SIP/2.0 500 Server Internal Error", None));
    for n in 0..6 {
        assert_ne!(world.one(CALLER, &invite(&format!("s2{n}"))).to, first.to);
    }
    // With nobody else left it has calls all the same; where it does not, either, it is said as it is.
    let other = world.cluster.at(first.to.parse().unwrap()).unwrap();
    world.cluster.indexes().filter(|at| *at != other).for_each(|at| world.cluster.set_down(at, Why::Silent));
    assert_eq!(world.one(CALLER, &invite("s4")).to, first.to);
    world.cluster.set_order(other, Order::Drain);
    let again = world.answer(&first, "503 Service Unavailable", "Retry-After: 9\r\n");
    assert_eq!(
        (again[0].start(), again[0].header("Retry-After")),
        ("SIP/2.0 503 Service Unavailable", Some("5"))
    );
    world.pass(Duration::from_secs(10));
    world.cluster.set_order(other, Order::Serve);
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
    assert_eq!(world.balancer.report(true).events.retried, 1);
    // The probe comes back, and the next: that is believed, of the one that is due.
    let mut probe = probe.expect("a probe at once");
    let stale = probe.clone();
    for _ in 0..2 {
        assert!(world.cluster.is_usable(world.now, at));
        world.bring_back(&probe, probe.text.len());
        world.bring_back(&probe, probe.text.len());
        let next = world.pass(Duration::ZERO).into_iter().find(|probe| probe.to == first.to);
        probe = next.unwrap_or(stale.clone());
        // The one before it says no more.
        world.bring_back(&stale, stale.text.len());
        world.pass(Duration::ZERO);
    }
    assert_eq!(world.cluster.health(at), (Health::Down, Why::Unreachable));
    // What the first one says now would be taken for the answer of the second: it ends here.
    let ended = world.answer(&first, "486 Busy Here", "");
    assert_eq!(
        (ended.len(), ended[0].start(), &ended[0].to),
        (1, "ACK sip:bob@example.com SIP/2.0", &first.to)
    );
    assert_eq!(ended[0].branch(), first.branch());
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
    world.hears();
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
    assert_eq!((world.load(), report.events.unrecorded, report.exact), ((1, 16), 24, Some(true)));
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
    let rules = Rules { down_after: 3, ..settings().rules };
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
    let rules = Rules { probed: false, down_after: 3, ..settings().rules };
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
    let first = world.one(CALLER, &request("MESSAGE", "y1", 1, "y1", "", ""));
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
fn reload_without_probes_brings_nodes_back() {
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
    // One that was under way when its node went down, when it is repeated.
    let (forwarded, route) = call(&mut world, "f3");
    let bye = request("BYE", "f3", 2, "fb3", ";tag=callee", &route);
    assert_eq!(world.one(CALLER, &bye).to, forwarded.to);
    let at = world.cluster.at(forwarded.to.parse().unwrap()).unwrap();
    world.cluster.indexes().for_each(|at| world.cluster.set_up(at));
    world.cluster.set_down(at, Why::ProbeTimeout);
    let moved = world.one(CALLER, &bye);
    assert_ne!(moved.to, forwarded.to);
    world.answer(&moved, "481 Call/Transaction Does Not Exist", "");
    assert_eq!(world.load(), (0, 0));
    let rules = Rules { failed_dialogs: FailedDialogs::Refuse, ..settings().rules };
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
fn where_no_node_takes_calls_and_where_there_is_no_room_callers_are_told_when_to_come_back() {
    let told = |world: &mut World, what: &str| {
        let open = world.load().1;
        for (n, text) in [invite("f1"), request("MESSAGE", "f2", 1, "f2", "", "")].iter().enumerate() {
            let refused = world.one(CALLER, text);
            assert_eq!(refused.start(), "SIP/2.0 503 Service Unavailable", "{what} {n}");
            assert_eq!(refused.header("Retry-After"), Some("5"), "{what} {n}");
        }
        assert_eq!(world.load().1, open, "{what}");
    };
    for order in [Order::Drain, Order::Maintenance] {
        let mut world = World::new();
        world.cluster.indexes().for_each(|at| world.cluster.set_order(at, order));
        told(&mut world, "by order");
    }
    let mut world = World::new();
    world.cluster.indexes().for_each(|at| world.cluster.set_down(at, Why::ProbeTimeout));
    told(&mut world, "down");
    told(&mut World::full(), "no room");
    let mut world = World::new();
    world.balancer.notice(world.now, Notice::Drain(true), &mut Outbox::new());
    told(&mut world, "the balancer itself drains");
}
