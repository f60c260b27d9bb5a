//! How calls end where something is missing: room, an answer, a record, a token.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::token::Keys;
use sip_balancer::*;
use std::time::Duration;
use wire::{Machine, Outbox};

/// A request of the callee, which its node sends.
fn by_node(forwarded: &Sent, route: &str, method: &str, cseq: u32) -> String {
    format!(
        "{method} sip:alice@198.51.100.7 SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKn{cseq}{method}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: {}\r\nCSeq: {cseq} {method}\r\n{route}Content-Length: 0\r\n\r\n",
        forwarded.to,
        forwarded.header("Call-ID").expect("one"),
    )
}

#[test]
fn a_bye_without_room_for_a_record_ends_its_call() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "r1");
    for n in 2..20 {
        world.one(CALLER, &request("INFO", "r1", n, &format!("r{n}"), ";tag=callee", &route));
    }
    assert_eq!(world.load(), (1, 16));
    let bye = world.one(CALLER, &request("BYE", "r1", 20, "rb", ";tag=callee", &route));
    assert_eq!((bye.to.as_str(), world.load()), (forwarded.to.as_str(), (0, 16)));
    assert_eq!(world.answer(&bye, "200 OK", "").len(), 1);
    world.seconds(80);
    let report = world.balancer.report(true);
    assert_eq!((report.alive, report.ended, report.transactions, report.exact), (0, 0, 0, Some(true)));
}

#[test]
fn a_bye_of_the_nodes_side_that_nobody_answers_ends_the_call() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "n1");
    let bye = world.one(&forwarded.to, &by_node(&forwarded, &route, "BYE", 1));
    assert_eq!((bye.to.as_str(), world.load()), (CALLER, (1, 0)));
    world.seconds(32);
    assert_eq!(world.load(), (1, 0), "it may still be answered");
    world.seconds(2);
    assert_eq!(world.load(), (0, 0));
    // Whoever sends something later, or asks for credentials, is still there.
    let (forwarded, route) = call(&mut world, "n2");
    world.one(&forwarded.to, &by_node(&forwarded, &route, "BYE", 1));
    world.seconds(5);
    let info = world.one(CALLER, &request("INFO", "n2", 2, "n2i", ";tag=callee", &route));
    world.answer(&info, "200 OK", "");
    let bye = world.one(&forwarded.to, &by_node(&forwarded, &route, "BYE", 2));
    world.receive(CALLER, &response(&bye, "407 Proxy Authentication Required", ""));
    world.seconds(60);
    assert_eq!(world.load(), (1, 0));
    let bye = world.one(&forwarded.to, &by_node(&forwarded, &route, "BYE", 3));
    world.receive(CALLER, &response(&bye, "200 OK", ""));
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
}

#[test]
fn a_call_lasts_as_long_as_one_side_says_something() {
    let mut world = World::new();
    let (forwarded, route) = call(&mut world, "s1");
    let long = settings().rules.session_timeout;
    // Session timers of the called side (RFC 4028), for more than a session lasts; and then nothing more.
    for n in 1..6 {
        world.pass(long / 2);
        let update = world.one(&forwarded.to, &by_node(&forwarded, &route, "UPDATE", n));
        assert_eq!((update.to.as_str(), world.load()), (CALLER, (1, 0)));
        world.receive(CALLER, &response(&update, "200 OK", ""));
    }
    // What comes once it has hung up does not prolong that.
    world.one(&forwarded.to, &by_node(&forwarded, &route, "BYE", 6));
    world.one(&forwarded.to, &by_node(&forwarded, &route, "INFO", 5));
    world.seconds(34);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
    let (_, _) = call(&mut world, "s2");
    world.pass(long + Duration::from_secs(1));
    assert_eq!((world.load(), world.balancer.report(true).events.lost_calls), ((0, 0), 2));
}

/// A 503 to a BYE has Retry-After, so its sender may come again: with a token, or in transparent mode with
/// nothing but the Call-ID.
#[test]
fn refused_bye_reaches_the_node_of_its_call_later() {
    let rules = Rules { failed_dialogs: FailedDialogs::Refuse, ..settings().rules };
    for record_route in [true, false] {
        let mut world = World::with(nodes(8), keys(2), Settings { record_route, rules, ..settings() });
        let forwarded = world.one(CALLER, &invite("b1"));
        let route = forwarded.header("Record-Route").map_or(String::new(), |r| format!("Route: {r}\r\n"));
        world.answer(&forwarded, "200 OK", "");
        world.down(&forwarded);
        // The sender of a BYE has left the call (RFC 3261 section 15.1.1): it counts no more.
        for n in 2..20 {
            let bye = request("BYE", "b1", n, &format!("b1-{n}"), ";tag=callee", &route);
            assert_eq!(world.one(CALLER, &bye).start(), "SIP/2.0 503 Service Unavailable");
            assert_eq!(world.load(), (0, 0));
            world.seconds(5);
        }
        world.cluster.set_up(world.node(&forwarded));
        let bye = world.one(CALLER, &request("BYE", "b1", 20, "b1-20", ";tag=callee", &route));
        assert_eq!(bye.to, forwarded.to, "Record-Route: {record_route}");
        assert_eq!(world.answer(&bye, "200 OK", "")[0].start(), "SIP/2.0 200 OK");
        world.seconds(80);
        let report = world.balancer.report(true);
        assert_eq!((report.ended, report.transactions, report.exact), (0, 0, Some(true)));
    }
}

/// Two who were called answer before one of them could be cancelled (RFC 3261 section 13.2.2.4).
#[test]
fn a_forked_call_ends_with_its_last_dialog() {
    let mut world = World::new();
    world.hears();
    for by_caller in [true, false] {
        let name = format!("d{by_caller}");
        let (forwarded, route) = call(&mut world, &name);
        let other = |text: String| text.replace("tag=callee", "tag=other");
        for _ in 0..3 {
            let back = world.receive(&forwarded.to, &other(response(&forwarded, "200 OK", "")));
            assert_eq!(back.len(), 1, "both answers reach the caller");
        }
        let mut hangs_up = |cseq: u32, of: &dyn Fn(String) -> String| {
            if by_caller {
                let branch = format!("{name}{cseq}");
                let bye = request("BYE", &name, cseq, &branch, ";tag=callee", &route);
                let bye = world.one(CALLER, &of(bye));
                world.answer(&bye, "200 OK", "");
            } else {
                // Its answer is lost on the way to the node, so that both come once more.
                for _ in 0..3 {
                    let bye = world.one(&forwarded.to, &of(by_node(&forwarded, &route, "BYE", cseq)));
                    world.receive(CALLER, &response(&bye, "200 OK", ""));
                }
            }
            world.load()
        };
        assert_eq!(hangs_up(2, &other), (1, 0), "by the caller: {by_caller}");
        assert_eq!(hangs_up(3, &|text| text), (0, 0), "by the caller: {by_caller}");
        assert_eq!(world.balancer.report(true).exact, Some(true));
    }
}

/// What a node says too late made a dialog, too, but that is ended here and the caller never hears of it.
#[test]
fn a_call_ends_with_what_its_caller_knows_of() {
    for in_time in [0, 1] {
        let mut world = watched(nodes(2));
        let (first, second, _) = moved(&mut world, "e1");
        let both = [first, second];
        let (winner, late) = (&both[in_time], &both[1 - in_time]);
        assert_eq!(finals(&world.answer(winner, "200 OK", "")), ["SIP/2.0 200 OK"]);
        let other = response(late, "200 OK", "").replace("tag=callee", "tag=other");
        let rings = other.replace("200 OK", "180 Ringing");
        world.receive(&late.to, &rings);
        for _ in 0..2 {
            let ended = world.receive(&late.to, &other);
            assert!(ended.iter().all(|m| m.to == late.to), "{ended:?}");
            for bye in ended.iter().filter(|m| m.start().starts_with("BYE ")) {
                assert!(world.answer(bye, "481 Call/Transaction Does Not Exist", "").is_empty());
            }
        }
        let route = format!("Route: {}\r\n", winner.header("Record-Route").expect("a route"));
        let bye = world.one(CALLER, &request("BYE", "e1", 2, "e2", ";tag=callee", &route));
        assert_eq!((&bye.to, world.load().0), (&winner.to, 1));
        world.answer(&bye, "200 OK", "");
        assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)), "{in_time}");
    }
}

/// One whose secret is not being changed.
fn one_secret() -> World {
    World::with(nodes(3), Keys { previous: None, ..keys(2) }, settings())
}

#[test]
fn the_cancel_of_an_unknown_invite_goes_to_all_who_may_have_it_and_one_of_them_may_refuse() {
    let mut before = one_secret();
    let forwarded = before.one(CALLER, &invite("u1"));
    // As after a crash, or at another balancer.
    let mut world = one_secret();
    let sent = world.receive(CALLER, &request("CANCEL", "u1", 1, "u1", "", ""));
    assert_eq!(sent.len(), 3, "{sent:?}");
    let (mine, others): (Vec<&Sent>, Vec<&Sent>) = sent.iter().partition(|m| m.to == forwarded.to);
    assert_eq!((mine.len(), mine[0].branch()), (1, forwarded.branch()));
    assert!(others.iter().all(|m| m.branch() != forwarded.branch() && m.start().starts_with("CANCEL ")));
    let none = "481 Call/Transaction Does Not Exist";
    let refused: usize = others.iter().map(|m| world.answer(m, none, "").len()).sum();
    assert!(refused <= 1, "{refused} refusals");
    let told = world.answer(mine[0], "200 OK", "");
    assert_eq!((told.len(), told[0].to.as_str(), told[0].start()), (1, CALLER, "SIP/2.0 200 OK"));
    assert_eq!(
        finals(&world.answer(&forwarded, "487 Request Terminated", "")),
        ["SIP/2.0 487 Request Terminated"]
    );
    // Nobody has it: one refusal, and no more.
    let sent = world.receive(CALLER, &request("CANCEL", "u2", 1, "u2", "", ""));
    let refusals: Vec<Sent> = sent.iter().flat_map(|m| world.answer(m, none, "")).collect();
    assert_eq!((refusals.len(), refusals[0].start()), (1, "SIP/2.0 481 Call/Transaction Does Not Exist"));
    // Who is down gets none, and of a call that is known its node alone.
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    assert_eq!(world.receive(CALLER, &request("CANCEL", "u3", 1, "u3", "", "")).len(), 2);
    let (forwarded, route) = call(&mut world, "u4");
    let cancel = world.one(CALLER, &request("CANCEL", "u4", 2, "u4c", ";tag=callee", &route));
    assert_eq!(cancel.to, forwarded.to);
    assert_eq!(world.answer(&cancel, none, "").len(), 1);
    world.seconds(80);
    assert_eq!(world.load(), (1, 0));
}

#[test]
fn unknown_cancels_are_limited_and_leave_nothing() {
    let mut world = one_secret();
    let mut forwarded = 0;
    for n in 0..1_000 {
        let sent = world.receive(CALLER, &request("CANCEL", &format!("f{n}"), 1, "f", "", ""));
        if sent[0].start().starts_with("SIP/2.0 481 ") {
            assert_eq!(sent.len(), 1);
            continue;
        }
        forwarded += sent.len();
    }
    assert_eq!(forwarded, 1_023);
    let report = world.balancer.report(true);
    assert_eq!((report.alive, report.ended, report.transactions, report.kept), (0, 0, 0, 0));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.receive(CALLER, &request("CANCEL", "g", 1, "g", "", "")).len(), 3);
    // With nobody there is nobody to ask.
    world.cluster.indexes().for_each(|at| world.cluster.set_down(at, Why::ProbeTimeout));
    let refused = world.one(CALLER, &request("CANCEL", "h", 1, "h", "", ""));
    assert_eq!(refused.start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn what_is_forgotten_at_one_moment_is_forgotten_a_little_at_a_time() {
    let mut world = World::new();
    for n in 0..200 {
        let sent = world.one(CALLER, &invite(&format!("w{n}")));
        world.answer(&sent, "486 Busy Here", "");
    }
    let records = |world: &World| world.balancer.report(false).ended;
    assert_eq!(records(&world), 200);
    world.now = world.now + Duration::from_secs(33);
    let (mut left, mut steps) = (200, 0);
    while left > 0 {
        assert!(
            world.balancer.next_deadline().is_some_and(|due| due <= world.now),
            "the rest is due at once"
        );
        world.balancer.timeout(world.now, &mut Outbox::new());
        assert!(left - records(&world) <= 32, "{} of {left} in one go", left - records(&world));
        (left, steps) = (records(&world), steps + 1);
        assert!(steps <= 20, "{left} are left");
    }
    // INVITEs that nobody answers the same.
    (0..200).for_each(|n| drop(world.one(CALLER, &invite(&format!("v{n}")))));
    world.now = world.now + Duration::from_secs(34);
    let mut told = 0;
    for _ in 0..20 {
        let refused = finals(&world.pass(Duration::ZERO)).len();
        assert!(refused <= 32, "{refused} in one go");
        told += refused;
    }
    assert_eq!(told, 200);
}

#[test]
fn whoever_knows_a_call_id_and_no_more_does_not_end_the_call_in_the_counters() {
    let mut world = World::new();
    call(&mut world, "s1");
    let stranger = |world: &mut World, method: &str, n: u32| {
        world.one("203.0.113.9:5060", &request(method, "s1", n, &format!("s{n}"), ";tag=guessed", ""))
    };
    for (n, method) in ["BYE", "INFO"].into_iter().enumerate() {
        let sent = stranger(&mut world, method, 2 + n as u32);
        world.answer(&sent, "481 Call/Transaction Does Not Exist", "");
        assert_eq!(world.load(), (1, 0), "{method}");
    }
    let sent = stranger(&mut world, "BYE", 8);
    world.answer(&sent, "403 Forbidden", "");
    assert_eq!(world.load(), (1, 0));
    // Nor one that is not answered at all.
    stranger(&mut world, "BYE", 9);
    world.seconds(40);
    assert_eq!(world.load(), (1, 0));
    // A node that agrees knows better.
    let sent = stranger(&mut world, "BYE", 10);
    world.answer(&sent, "200 OK", "");
    assert_eq!(world.load(), (0, 0));
    // Without tokens all are alike.
    let mut world = World::with(nodes(3), keys(2), Settings { record_route: false, ..settings() });
    let sent = world.one(CALLER, &invite("s1"));
    world.answer(&sent, "200 OK", "");
    let sent = world.one(CALLER, &request("BYE", "s1", 2, "s2", ";tag=callee", ""));
    world.answer(&sent, "481 Call/Transaction Does Not Exist", "");
    assert_eq!(world.load(), (0, 0));
}

/// What is over must not take the room of what is new where there is more to do than time.
#[test]
fn what_is_long_due_is_forgotten_in_larger_steps() {
    let mut world = World::new();
    for n in 0..8 {
        let call = format!("late{n}");
        for m in 0..10 {
            let sent = world.one(CALLER, &request("MESSAGE", &call, m + 1, &format!("{call}-{m}"), "", ""));
            world.answer(&sent, "200 OK", "");
        }
    }
    let before = world.balancer.report(false).transactions;
    world.now = world.now + Duration::from_secs(120);
    let (now, mut out) = (world.now, Outbox::new());
    world.balancer.timeout(now, &mut out);
    assert!(before >= 64 && world.balancer.report(false).transactions == 0, "{before}");
}

/// A CANCEL or ACK as it leaves for the node that has the INVITE.
fn goes_to(sent: &[Sent], invite: &Sent) -> Sent {
    sent.iter().find(|m| m.to == invite.to).expect("one for the node that has the INVITE").clone()
}

#[test]
fn what_ends_an_invite_has_its_branch_whatever_port_it_comes_from() {
    const OTHER: &str = "198.51.100.7:40002";
    let via = |text: String| text.replace("UDP 198.51.100.7;", "UDP 198.51.100.7:5070;rport;");
    for tcp in [false, true] {
        let mut world = World::with(nodes(3), keys(2), streams());
        let come = |world: &mut World, from: &str, method: &str, to: &str| match tcp {
            true => world.receive_tcp(from, &over_tcp(&via(request(method, "p1", 1, "p1", to, "")))),
            false => world.receive(from, &via(request(method, "p1", 1, "p1", to, ""))),
        };
        let invite = come(&mut world, PHONE, "INVITE", "").remove(0);
        // A translation may give it another port, and a connection may be another one.
        if !tcp {
            let again = come(&mut world, OTHER, "INVITE", "");
            assert_eq!((&again[0].to, again[0].branch()), (&invite.to, invite.branch()));
        }
        world.answer(&invite, "180 Ringing", "");
        let cancel = come(&mut world, OTHER, "CANCEL", "").remove(0);
        assert_eq!((&cancel.to, cancel.branch()), (&invite.to, invite.branch()), "tcp: {tcp}");
        // Each of the two is answered where it came from.
        assert_eq!(world.answer(&cancel, "200 OK", "")[0].to, OTHER);
        assert_eq!(world.answer(&invite, "487 Request Terminated", "")[0].to, PHONE);
        let ack = goes_to(&come(&mut world, OTHER, "ACK", ";tag=callee"), &invite);
        assert_eq!(ack.branch(), invite.branch(), "tcp: {tcp}");
        assert_eq!(world.balancer.report(true).exact, Some(true));
    }
}

#[test]
fn a_cancel_on_another_connection_finds_its_invite_after_a_restart() {
    let start = || World::with(nodes(3), keys(2), streams());
    let invite = start().one_tcp(PHONE, &over_tcp(&invite("q1")));
    let mut world = start();
    let text = over_tcp(&request("CANCEL", "q1", 1, "q1", "", ""));
    let cancel = goes_to(&world.receive_tcp("198.51.100.7:40002", &text), &invite);
    assert_eq!(cancel.branch(), invite.branch());
    let back = world.answer(&cancel, "200 OK", "");
    assert_eq!((back[0].start(), back[0].to.as_str()), ("SIP/2.0 200 OK", "198.51.100.7:40002"));
}
