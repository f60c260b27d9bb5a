//! Each INVITE of a caller has one final response (RFC 3261 sections 16.7 and 16.8), whatever fails and in
//! which order, and what its caller has cancelled is sent to nobody any more.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::{NodeIndex, Order, Why};
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;
const CONTACT: &str = "Contact: <sip:bob@192.0.2.50>\r\n";

/// An INVITE of a caller over TCP that rings at a node, which goes down, and that goes to another one then.
fn rescued(world: &mut World, call: &str) -> (Sent, Sent) {
    let first = world.one_tcp(PHONE, &over_tcp(&invite(call)));
    world.answer(&first, "180 Ringing", "");
    let second = invited(&world.down(&first));
    assert_ne!(second.to, first.to);
    (first, second)
}

fn cancel(world: &mut World, call: &str) -> Sent {
    world.one_tcp(PHONE, &over_tcp(&request("CANCEL", call, 1, call, "", "")))
}

/// Nothing is left of any call, and every counter is what the records say.
fn nothing_is_left(world: &mut World) {
    // Who rang and is not there any more is waited for as long as it may ring.
    world.seconds(270);
    let report = world.balancer.report(true);
    assert_eq!((world.load(), report.kept, report.exact), ((0, 0), 0, Some(true)));
    assert_eq!((report.alive, report.ended, report.transactions), (0, 0, 0));
}

#[test]
fn what_rang_and_is_answered_by_nobody_gets_408() {
    let mut world = watched(nodes(2));
    let (_, second) = rescued(&mut world, "a1");
    assert!(finals(&world.down(&second)).is_empty());
    // As long as it may ring, a node may come back.
    assert!(finals(&world.seconds(190)).is_empty());
    let sent = world.seconds(40);
    assert_eq!(finals(&sent), ["SIP/2.0 408 Request Timeout"]);
    // Who wakes up now has nobody to talk to.
    let ended = world.answer(&second, "200 OK", CONTACT);
    assert!(ended.len() == 2 && ended[1].start().starts_with("BYE "), "{ended:?}");
    nothing_is_left(&mut world);
}

#[test]
fn what_nobody_answers_at_all_gets_408_too() {
    for tcp in [false, true] {
        let mut world = World::with(nodes(1), keys(2), streams());
        let first = match tcp {
            false => world.one(CALLER, &invite("b1")),
            true => world.one_tcp(PHONE, &over_tcp(&invite("b1"))),
        };
        let mut sent = world.seconds(33);
        sent.extend(world.pass(MS(0)));
        assert_eq!(finals(&sent), ["SIP/2.0 408 Request Timeout"]);
        // What comes after that is acknowledged here.
        let ack = world.answer(&first, "486 Busy Here", "");
        assert_eq!((ack.len(), &ack[0].to), (1, &first.to));
        assert!(ack[0].start().starts_with("ACK "));
        nothing_is_left(&mut world);
    }
}

#[test]
fn a_node_that_rings_beyond_all_time_is_cancelled() {
    let mut world = watched(nodes(1));
    world.hears();
    let first = world.one(CALLER, &invite("c1"));
    world.answer(&first, "180 Ringing", "");
    world.pass(MS(199_000));
    let sent = world.pass(MS(1_000));
    assert_eq!(finals(&sent), ["SIP/2.0 408 Request Timeout"]);
    let cancel = sent.iter().find(|m| m.start().starts_with("CANCEL ")).expect("the CANCEL");
    assert_eq!((&cancel.to, cancel.branch()), (&first.to, first.branch()));
    assert!(world.answer(cancel, "200 OK", "").is_empty());
    assert_eq!(world.answer(&first, "487 Request Terminated", "").len(), 1, "its ACK");
    // The caller repeats nothing, and the refusal may be lost (section 17.2.1).
    assert_eq!(finals(&world.pass(MS(510))), ["SIP/2.0 408 Request Timeout"]);
    let tag = sent.iter().find_map(|m| m.header("To")?.split(";tag=").nth(1)).expect("a tag");
    assert!(world.receive(CALLER, &request("ACK", "c1", 1, "c1", &format!(";tag={tag}"), "")).is_empty());
    assert!(finals(&world.seconds(40)).is_empty());
    nothing_is_left(&mut world);
}

#[test]
fn what_has_brought_three_nodes_down_is_given_to_no_other() {
    let mut world = watched(nodes(5));
    let mut last = world.one_tcp(PHONE, &over_tcp(&invite("d1")));
    for _ in 0..2 {
        last = invited(&world.down(&last));
    }
    let mut sent = world.down(&last);
    sent.extend(world.seconds(10));
    assert_eq!(finals(&sent), ["SIP/2.0 503 Service Unavailable"]);
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    nothing_is_left(&mut world);
    // One of them rings, and may be back.
    let mut world = watched(nodes(5));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("d2")));
    world.answer(&first, "180 Ringing", "");
    let mut last = first.clone();
    for _ in 0..2 {
        last = invited(&world.down(&last));
    }
    world.down(&last);
    let sent = world.seconds(100);
    assert!(finals(&sent).is_empty(), "{sent:?}");
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ") || m.to == last.to), "{sent:?}");
    // Nor by its caller, whose repetitions are its own.
    let mut world = watched(nodes(5));
    world.one(CALLER, &invite("d5"));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..8 {
        for sent in world.receive(CALLER, &invite("d5")).iter().filter(|m| m.start().starts_with("INVITE ")) {
            seen.insert(sent.to.clone());
            world.cluster.set_down(world.node(sent), Why::ProbeTimeout);
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    let mut world = watched(nodes(5));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("d6")));
    world.answer(&first, "180 Ringing", "");
    world.down(&first);
    assert_eq!(finals(&world.answer(&first, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
}

#[test]
fn nodes_that_were_silent_do_not_count_against_one_that_rang() {
    let mut world = watched(nodes(5));
    world.one_tcp(PHONE, &over_tcp(&invite("d3")));
    let mut last = invited(&world.pass(MS(400)));
    for _ in 0..2 {
        last = invited(&world.pass(MS(400)));
    }
    world.answer(&last, "180 Ringing", "");
    let fifth = invited(&world.down(&last));
    assert_eq!(finals(&world.answer(&fifth, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
}

#[test]
fn what_has_silenced_servers_that_are_down_by_now_is_given_to_no_other() {
    // Who has the INVITE is dead from then on, and says nothing to probes either.
    let mut world = watched(nodes(7));
    let mut last = world.one_tcp(PHONE, &over_tcp(&invite("d7")));
    let mut seen = std::collections::BTreeSet::from([last.to.clone()]);
    for _ in 0..3 {
        last = invited(&world.pass(MS(400)));
        seen.insert(last.to.clone());
    }
    let mut sent = world.seconds(3);
    sent.extend(world.down(&last));
    sent.extend(world.seconds(3));
    seen.extend(sent.iter().filter(|m| m.start().starts_with("INVITE ")).map(|m| m.to.clone()));
    // The fourth had it before anybody knew of the first three.
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(finals(&sent), ["SIP/2.0 503 Service Unavailable"]);
    nothing_is_left(&mut world);
    // One that was silent and is alive after all is no reason.
    let mut world = watched(nodes(7));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("d8")));
    let second = invited(&world.pass(MS(400)));
    let third = invited(&world.pass(MS(400)));
    for late in [&first, &second] {
        world.cluster.set_down(world.node(late), Why::ProbeTimeout);
        world.cluster.set_up(world.node(late));
    }
    let fourth = invited(&world.down(&third));
    assert_eq!(finals(&world.answer(&fourth, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
}

#[test]
fn who_rings_for_the_first_time_when_all_is_over_is_cancelled_until_it_knows() {
    let mut world = watched(tcp_nodes(2));
    let first = world.one(CALLER, &invite("r1"));
    let second = invited(&world.pass(MS(400)));
    assert_eq!(finals(&world.answer(&second, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
    // It rings, and is away before it has the CANCEL.
    let mut lost: Vec<Sent> = world.answer(&first, "180 Ringing", "");
    assert!(lost[0].start().starts_with("CANCEL ") && lost[0].to == first.to, "{lost:?}");
    for _ in 0..3 {
        lost = lost.iter().filter(|m| m.start().starts_with("CANCEL ")).flat_map(|m| world.lost(m)).collect();
    }
    assert!(lost.is_empty(), "{lost:?}");
    // It is back.
    let sent = world.seconds(5);
    let cancel = sent.iter().find(|m| m.start().starts_with("CANCEL ")).expect("another CANCEL");
    assert_eq!(cancel.to, first.to);
    assert!(world.answer(cancel, "200 OK", "").is_empty());
    assert_eq!(world.answer(&first, "487 Request Terminated", "").len(), 1, "its ACK");
    assert!(world.seconds(5).iter().all(|m| !m.start().starts_with("CANCEL ")));
}

#[test]
fn who_never_takes_its_cancel_is_asked_less_and_less_often() {
    let mut world = watched(tcp_nodes(2));
    let first = world.one(CALLER, &invite("r2"));
    let second = invited(&world.pass(MS(400)));
    let mut sent = world.answer(&first, "180 Ringing", "");
    sent.extend(world.answer(&second, "200 OK", CONTACT));
    let mut series = 0;
    for _ in 0..2 * 190 {
        let mut cancels: Vec<Sent> =
            sent.iter().filter(|m| m.start().starts_with("CANCEL ") && m.token != 0).cloned().collect();
        series += usize::from(!cancels.is_empty());
        while let Some(cancel) = cancels.pop() {
            cancels.extend(world.lost(&cancel).into_iter().filter(|m| m.start().starts_with("CANCEL ")));
        }
        sent = world.pass(MS(500));
    }
    assert!((5..40).contains(&series), "{series}");
}

#[test]
fn an_invite_that_was_refused_keeps_its_refusal_when_no_node_is_left() {
    let mut world = watched(nodes(1));
    world.one(CALLER, &invite("s1"));
    let sent = world.seconds(34);
    assert_eq!(finals(&sent).first(), Some(&"SIP/2.0 408 Request Timeout"));
    // Others push its record out: a call has sixteen.
    world.cluster.set_up(NodeIndex(0));
    for n in 0..20 {
        world.receive(CALLER, &request("MESSAGE", "s1", 2 + n, &format!("s1m{n}"), "", ""));
    }
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    assert_eq!(finals(&world.receive(CALLER, &invite("s1"))), ["SIP/2.0 408 Request Timeout"]);
}

#[test]
fn a_way_that_leads_nowhere_ends_nothing_that_rings() {
    let mut world = watched(tcp_nodes(6));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("d4")));
    world.answer(&first, "180 Ringing", "");
    let mut last = invited(&world.down(&first));
    for _ in 0..2 {
        last = invited(&world.lost(&last));
    }
    let mut sent = world.lost(&last);
    sent.extend(world.seconds(10));
    assert!(finals(&sent).is_empty(), "{sent:?}");
    assert_eq!(finals(&world.answer(&first, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
}

#[test]
fn when_the_last_that_could_answer_refuses_the_caller_is_told() {
    // The other one is down by then, or goes down after that.
    for before in [true, false] {
        let mut world = watched(nodes(2));
        let (first, second) = rescued(&mut world, "e1");
        let mut sent = Vec::new();
        if before {
            sent.extend(world.down(&second));
        }
        sent.extend(world.answer(&first, "500 Server Internal Error", ""));
        if !before {
            sent.extend(world.down(&second));
        }
        sent.extend(world.seconds(3));
        assert_eq!(finals(&sent), ["SIP/2.0 503 Service Unavailable"], "{before}");
        nothing_is_left(&mut world);
    }
}

#[test]
fn what_was_cancelled_is_not_tried_again_where_no_connection_comes_about() {
    let mut world = watched(tcp_nodes(2));
    let (_, second) = rescued(&mut world, "f1");
    assert!(world.lost(&second).is_empty());
    let cancel = cancel(&mut world, "f1");
    let (mut sent, mut lost) = (world.seconds(3), vec![cancel]);
    for _ in 0..9 {
        for one in std::mem::take(&mut lost) {
            sent.extend(world.lost(&one));
        }
        sent.extend(world.seconds(1));
        lost.extend(sent.iter().filter(|m| m.start().starts_with("CANCEL ") && m.token != 0).cloned());
    }
    assert_eq!(finals(&sent), ["SIP/2.0 487 Request Terminated"]);
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    nothing_is_left(&mut world);
}

#[test]
fn what_was_cancelled_while_all_were_down_rings_nowhere_when_they_come_back() {
    let mut world = watched(nodes(2));
    let (first, second) = rescued(&mut world, "g1");
    world.down(&second);
    cancel(&mut world, "g1");
    let mut sent = world.seconds(40);
    for node in [&first, &second] {
        world.cluster.set_up(world.node(node));
        sent.extend(world.seconds(10));
    }
    assert_eq!(finals(&sent), ["SIP/2.0 487 Request Terminated"]);
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    nothing_is_left(&mut world);
}

/// All nodes fall and are back, and this is the INVITE that they get then.
fn reminded(world: &mut World, first: &Sent) -> Vec<Sent> {
    for at in world.cluster.indexes().collect::<Vec<_>>() {
        world.cluster.set_down(at, Why::ProbeTimeout);
    }
    let sent = world.seconds(8);
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    // The others are back a little later.
    world.cluster.set_up(world.node(first));
    let sent = world.seconds(2);
    for at in world.cluster.indexes().collect::<Vec<_>>() {
        world.cluster.set_up(at);
    }
    sent
}

#[test]
fn what_rang_when_all_fell_rings_once_more_at_who_is_back() {
    for (tcp, streams) in [(false, false), (true, false), (true, true)] {
        let mut world = watched(if streams { tcp_nodes(3) } else { nodes(3) });
        let first = match tcp {
            true => world.one_tcp(PHONE, &over_tcp(&invite("s1"))),
            false => world.one(CALLER, &invite("s1")),
        };
        world.answer(&first, "180 Ringing", "");
        // It has forgotten all that it knew; and in a datagram it may be lost.
        let sent = reminded(&mut world, &first);
        let again: Vec<&Sent> = sent.iter().filter(|m| m.start().starts_with("INVITE ")).collect();
        // Now, after 500 ms and after another second (RFC 3261 section 17.1.1.2).
        assert_eq!(again.len(), if streams { 1 } else { 3 }, "{sent:?}");
        assert!(again.iter().all(|m| m.to == first.to && m.branch() == first.branch()), "{again:?}");
        world.answer(again[0], "100 Trying", "");
        let later = world.seconds(20);
        assert!(later.iter().all(|m| !m.start().starts_with("INVITE ")), "{later:?}");
        assert_eq!(finals(&world.answer(again[0], "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
        assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
    }
}

const CHALLENGE: &str = "407 Proxy Authentication Required";

/// A node challenges an INVITE. Its caller does not repeat it, because it has had a provisional response.
fn is_repeated_until_its_ack(world: &mut World, at: &Sent, call: &str) {
    let challenge = format!("SIP/2.0 {CHALLENGE}");
    assert_eq!(finals(&world.answer(at, CHALLENGE, "")), [challenge.as_str()]);
    // After T1, twice as long, and so on (RFC 3261 section 17.2.1).
    let sent = world.seconds(4);
    assert_eq!(finals(&sent), [challenge.as_str(); 3], "{sent:?}");
    let ack = world.one(CALLER, &request("ACK", call, 1, call, ";tag=callee", ""));
    assert_eq!((ack.to.as_str(), ack.branch()), (at.to.as_str(), at.branch()));
    let sent = world.seconds(40);
    assert!(finals(&sent).is_empty(), "{sent:?}");
    nothing_is_left(world);
}

#[test]
fn challenge_of_the_next_node_is_repeated_until_its_ack() {
    let mut world = watched(nodes(2));
    world.hears();
    let first = world.one(CALLER, &invite("t1"));
    world.answer(&first, "100 Trying", "");
    let second = invited(&world.down(&first));
    is_repeated_until_its_ack(&mut world, &second, "t1");
}

#[test]
fn challenge_after_a_refusal_is_repeated_until_its_ack() {
    let mut world = watched(nodes(2));
    world.hears();
    let first = world.one(CALLER, &invite("t2"));
    world.answer(&first, "100 Trying", "");
    let second = invited(&world.answer(&first, "503 Service Unavailable", ""));
    is_repeated_until_its_ack(&mut world, &second, "t2");
}

#[test]
fn challenge_of_a_restarted_node_is_repeated_until_its_ack() {
    let mut world = watched(nodes(3));
    world.hears();
    let first = world.one(CALLER, &invite("t3"));
    world.answer(&first, "180 Ringing", "");
    let again = reminded(&mut world, &first);
    let again = again.iter().find(|m| m.start().starts_with("INVITE ")).expect("an INVITE").clone();
    is_repeated_until_its_ack(&mut world, &again, "t3");
}

#[test]
fn challenge_is_not_repeated_while_its_caller_repeats() {
    // The caller has had no response: it repeats the INVITE and gets another challenge.
    let mut world = watched(nodes(2));
    world.hears();
    let (_, second, _) = moved(&mut world, "t4");
    assert_eq!(finals(&world.answer(&second, CHALLENGE, "")).len(), 1);
    assert!(finals(&world.seconds(40)).is_empty());
    // The INVITE was not sent again: its node has a transaction and repeats the challenge.
    let first = world.one(CALLER, &invite("t5"));
    world.answer(&first, "100 Trying", "");
    assert_eq!(finals(&world.answer(&first, CHALLENGE, "")).len(), 1);
    assert!(finals(&world.seconds(40)).is_empty());
}

#[test]
fn a_phone_that_rings_on_is_waited_for() {
    let mut world = watched(nodes(3));
    let first = world.one(CALLER, &invite("s2"));
    world.answer(&first, "180 Ringing", "");
    let again = reminded(&mut world, &first);
    // To the phone that is a copy of what it rings for, as often as it comes.
    for _ in 0..2 {
        let ack = world.answer(&again[0], "482 Request Merged", "");
        assert_eq!((ack.len(), &ack[0].to, ack[0].branch()), (1, &first.to, first.branch()));
        assert!(ack[0].start().starts_with("ACK "));
    }
    assert!(world.seconds(20).is_empty());
    assert_eq!(finals(&world.answer(&first, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
    // Where nobody has been rung before, that is the answer.
    let first = world.one(CALLER, &invite("s3"));
    world.answer(&first, "100 Trying", "");
    reminded(&mut world, &first);
    assert_eq!(finals(&world.answer(&first, "482 Loop Detected", "")), ["SIP/2.0 482 Loop Detected"]);
    // And where its caller does not wait for it any more.
    let first = world.one(CALLER, &invite("s4"));
    world.answer(&first, "180 Ringing", "");
    reminded(&mut world, &first);
    world.receive(CALLER, &request("CANCEL", "s4", 1, "s4", "", ""));
    assert_eq!(finals(&world.answer(&first, "482 Request Merged", "")), ["SIP/2.0 482 Request Merged"]);
}

#[test]
fn what_brings_its_node_down_each_time_is_not_given_to_it_for_ever() {
    let mut world = watched(nodes(1));
    let first = world.one(CALLER, &invite("s5"));
    let mut had = 0;
    for _ in 0..10 {
        world.answer(&first, "180 Ringing", "");
        had += reminded(&mut world, &first).iter().filter(|m| m.start().starts_with("INVITE ")).count();
    }
    // Three times, each with its two repetitions, as none of it is answered meanwhile.
    assert_eq!(had, 9);
    world.seconds(250);
    nothing_is_left(&mut world);
    // Nor where it says nothing any more.
    let first = world.one(CALLER, &invite("s6"));
    world.answer(&first, "180 Ringing", "");
    let mut had = 0;
    for _ in 0..10 {
        had += reminded(&mut world, &first).iter().filter(|m| m.start().starts_with("INVITE ")).count();
    }
    assert_eq!(had, 9);
    world.seconds(250);
    nothing_is_left(&mut world);
}

#[test]
fn a_reminder_whose_connection_ends_is_sent_once_more() {
    let mut world = watched(tcp_nodes(1));
    let first = world.one(CALLER, &invite("s7"));
    world.answer(&first, "180 Ringing", "");
    let mut again = invited(&reminded(&mut world, &first));
    for _ in 0..2 {
        assert!(finals(&world.cut_off(&again)).is_empty());
        // It is asked at once how it is.
        for probe in world.pass(MS(0)) {
            world.answer(&probe, "200 OK", "");
        }
        again = invited(&world.seconds(2));
    }
    world.cut_off(&again);
    let later = world.seconds(20);
    assert!(later.iter().all(|m| !m.start().starts_with("INVITE ")), "{later:?}");
    assert_eq!(finals(&world.answer(&again, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
}

#[test]
fn a_phone_that_rings_is_waited_for_also_where_another_node_had_its_call_meanwhile() {
    let mut world = watched(nodes(2));
    let (first, second) = rescued(&mut world, "s8");
    world.down(&second);
    world.cluster.set_up(world.node(&first));
    let again = invited(&world.seconds(2)[..1]);
    assert_eq!(again.to, first.to);
    assert_eq!(world.answer(&again, "482 Request Merged", "")[0].start(), "ACK sip:bob@example.com SIP/2.0");
    assert_eq!(finals(&world.answer(&again, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
    // One that is late with that does not take it away from who has it by now.
    let mut world = watched(nodes(2));
    let (first, second) = rescued(&mut world, "s9");
    assert!(finals(&world.answer(&first, "482 Request Merged", "")).is_empty());
    assert_eq!(finals(&world.answer(&second, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
}

#[test]
fn the_end_of_what_was_cancelled_is_the_callers_whoever_says_it() {
    let mut world = watched(nodes(2));
    let (first, second, _) = moved(&mut world, "h1");
    assert_eq!(world.one(CALLER, &request("CANCEL", "h1", 1, "h1", "", "")).to, second.to);
    let cancel = world.answer(&first, "180 Ringing", "");
    assert_eq!((cancel.len(), &cancel[0].to), (1, &first.to));
    let back = world.answer(&first, "487 Request Terminated", "");
    assert_eq!((finals(&back), back[0].to.as_str()), (vec!["SIP/2.0 487 Request Terminated"], CALLER));
    let later = world.seconds(60);
    assert!(finals(&later).is_empty(), "{later:?}");
    nothing_is_left(&mut world);
}

#[test]
fn a_caller_that_gives_up_cancels_all_that_ring() {
    let mut world = watched(nodes(2));
    let (first, second) = rescued(&mut world, "i1");
    world.cluster.set_up(world.node(&first));
    let all = world.receive_tcp(PHONE, &over_tcp(&request("CANCEL", "i1", 1, "i1", "", "")));
    let to: Vec<&str> =
        all.iter().filter(|m| m.start().starts_with("CANCEL ")).map(|m| m.to.as_str()).collect();
    assert_eq!(to, [second.to.as_str(), first.to.as_str()]);
    assert_eq!(world.answer(&all[0], "200 OK", "").len(), 1, "the caller's");
    assert!(world.answer(&all[1], "200 OK", "").is_empty(), "ours");
    assert_eq!(finals(&world.answer(&second, "487 Request Terminated", "")).len(), 1);
    assert!(finals(&world.answer(&first, "487 Request Terminated", "")).is_empty());
    nothing_is_left(&mut world);
}

#[test]
fn who_rings_besides_is_cancelled_when_another_one_answers() {
    for status in ["200 OK", "486 Busy Here"] {
        let mut world = watched(nodes(2));
        let (first, second) = rescued(&mut world, "j1");
        world.cluster.set_up(world.node(&first));
        let all = world.answer(&second, status, CONTACT);
        assert_eq!(finals(&all).len(), 1);
        assert!(all.iter().any(|m| m.start().starts_with("CANCEL ") && m.to == first.to), "{all:?}");
        assert!(finals(&world.answer(&first, "487 Request Terminated", "")).is_empty());
        assert_eq!(world.balancer.report(true).exact, Some(true));
    }
}

#[test]
fn a_stream_that_hangs_with_its_node_is_told_when_that_is_down() {
    let mut world = watched(tcp_nodes(1));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("k1")));
    assert!(finals(&world.pass(MS(900))).is_empty());
    assert_eq!(finals(&world.down(&first)), ["SIP/2.0 503 Service Unavailable"]);
    nothing_is_left(&mut world);
}

#[test]
fn a_node_that_is_down_does_not_keep_what_it_wins_back() {
    let mut world = watched(nodes(3));
    let (first, ..) = moved(&mut world, "l1");
    world.down(&first);
    let back = world.answer(&first, "180 Ringing", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].start()), (1, CALLER, "SIP/2.0 180 Ringing"));
    let third = invited(&world.seconds(1));
    assert_ne!(third.to, first.to);
    assert_eq!(finals(&world.answer(&third, "200 OK", CONTACT)), ["SIP/2.0 200 OK"]);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn what_a_late_node_says_is_counted_once_and_believed_while_it_matters() {
    let mut world = watched(nodes(2));
    let (first, second, _) = moved(&mut world, "m1");
    let at = world.node(&first);
    world.answer(&first, "486 Busy Here", "");
    let stats = world.balancer.report(true).nodes;
    assert_eq!(stats[usize::from(at.0)].responses, [0, 0, 0, 1, 0, 0]);
    // Of what is over anybody along the way may have a copy.
    world.answer(&second, "503 Service Unavailable", "Retry-After: 600\r\n");
    world.cluster.set_up(world.node(&second));
    assert!(world.cluster.takes_calls(world.now, world.node(&second)));
}

/// The CANCELs that went to a node.
fn cancels<'a>(sent: &'a [Sent], node: &Sent) -> Vec<&'a Sent> {
    sent.iter().filter(|m| m.start().starts_with("CANCEL ") && m.to == node.to).collect()
}

#[test]
fn who_rings_on_while_it_cannot_be_reached_is_cancelled_when_it_is_back() {
    for status in ["200 OK", "486 Busy Here"] {
        let mut world = watched(nodes(2));
        let (first, second) = rescued(&mut world, "n1");
        assert_eq!(finals(&world.answer(&second, status, CONTACT)).len(), 1);
        // Longer than anything else is remembered of it.
        assert!(cancels(&world.seconds(50), &first).is_empty());
        world.cluster.set_up(world.node(&first));
        let sent = world.seconds(1);
        let cancel = cancels(&sent, &first)[0].clone();
        assert_eq!(cancel.branch(), first.branch());
        // It is gone once more before that comes.
        world.down(&first);
        world.seconds(40);
        world.cluster.set_up(world.node(&first));
        assert!(!cancels(&world.seconds(2), &first).is_empty());
        assert!(world.answer(&cancel, "200 OK", "").is_empty());
        assert!(cancels(&world.seconds(20), &first).is_empty());
        // Whoever answered its phone at that moment is thanked and sent away.
        let ended = world.answer(&first, "200 OK", CONTACT);
        assert!(ended.len() == 2 && ended[1].start().starts_with("BYE "), "{ended:?}");
        assert!(ended.iter().all(|m| m.to == first.to));
        world.answer(&ended[1], "200 OK", "");
        world.seconds(70);
        let report = world.balancer.report(true);
        assert_eq!((report.kept, report.exact), (0, Some(true)));
    }
}

#[test]
fn who_rings_on_for_ever_and_is_never_back_is_forgotten() {
    let mut world = watched(nodes(2));
    let (_, second) = rescued(&mut world, "n2");
    world.answer(&second, "486 Busy Here", "");
    world.seconds(140);
    assert_eq!(world.balancer.report(true).kept, 1);
    nothing_is_left(&mut world);
}

#[test]
fn who_comes_back_is_cancelled_at_once_however_seldom_another_is() {
    let mut world = watched(nodes(3));
    let (first, second) = rescued(&mut world, "n4");
    world.answer(&second, "180 Ringing", "");
    let third = invited(&world.down(&second));
    assert_eq!(finals(&world.answer(&third, "200 OK", CONTACT)).len(), 1);
    assert!(cancels(&world.seconds(120), &second).is_empty());
    world.cluster.set_up(world.node(&second));
    assert!(!cancels(&world.seconds(2), &second).is_empty());
    world.cluster.set_up(world.node(&first));
    assert!(!cancels(&world.seconds(2), &first).is_empty());
}

#[test]
fn who_rings_again_after_each_cancel_is_forgotten_when_it_may_ring_no_longer() {
    let mut world = watched(nodes(2));
    let (first, second) = rescued(&mut world, "n5");
    world.answer(&second, "486 Busy Here", "");
    world.cluster.set_up(world.node(&first));
    let mut sent = world.seconds(2);
    for _ in 0..19 {
        let cancel = cancels(&sent, &first)[0].clone();
        world.answer(&cancel, "200 OK", "");
        world.seconds(10);
        sent = world.answer(&first, "180 Ringing", "");
    }
    // 192 s have gone by of 200.
    let cancel = cancels(&sent, &first)[0].clone();
    world.answer(&cancel, "200 OK", "");
    assert_eq!(world.balancer.report(true).kept, 1);
    world.seconds(10);
    assert_eq!(world.balancer.report(true).kept, 0);
}

#[test]
fn what_its_caller_cancelled_is_cancelled_at_who_comes_back() {
    let mut world = watched(nodes(2));
    let (first, second) = rescued(&mut world, "n3");
    assert_eq!(cancel(&mut world, "n3").to, second.to);
    assert_eq!(world.answer(&second, "180 Ringing", "").len(), 1);
    assert!(cancels(&world.seconds(5), &first).is_empty());
    world.cluster.set_up(world.node(&first));
    assert!(!cancels(&world.seconds(2), &first).is_empty());
    assert_eq!(world.answer(&first, "487 Request Terminated", "").len(), 1, "its ACK");
    assert_eq!(
        finals(&world.answer(&second, "487 Request Terminated", "")),
        ["SIP/2.0 487 Request Terminated"]
    );
    nothing_is_left(&mut world);
}

#[test]
fn who_rang_first_of_many_is_cancelled_when_nobody_is_left() {
    let mut world = watched(nodes(4));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("o1")));
    world.answer(&first, "180 Ringing", "");
    invited(&world.down(&first));
    invited(&world.pass(MS(400)));
    let last = invited(&world.pass(MS(400)));
    world.down(&last);
    assert!(finals(&world.seconds(190)).is_empty());
    // It is back, and takes no calls.
    world.cluster.set_order(world.node(&first), Order::Drain);
    world.cluster.set_up(world.node(&first));
    let sent = world.seconds(12);
    assert_eq!(finals(&sent), ["SIP/2.0 408 Request Timeout"]);
    assert!(!cancels(&sent, &first).is_empty(), "{sent:?}");
    assert!(!sent.iter().any(|m| m.start().starts_with("CANCEL ") && m.to == last.to), "it has said nothing");
}

#[test]
fn a_refusal_of_what_a_node_had_is_repeated_until_its_ack() {
    // Nobody has said anything, so the caller repeats its INVITE; and gives up before that.
    let mut world = World::with(nodes(1), keys(2), streams());
    world.hears();
    world.one(CALLER, &invite("p1"));
    let sent = world.seconds(33);
    let tag = sent.iter().find_map(|m| m.header("To")?.split(";tag=").nth(1)).expect("a tag").to_owned();
    assert_eq!(finals(&sent), ["SIP/2.0 408 Request Timeout"]);
    for wait in [500, 1_000, 2_000, 4_000, 4_000] {
        assert!(finals(&world.pass(MS(wait - 1))).is_empty());
        assert_eq!(finals(&world.pass(MS(1))), ["SIP/2.0 408 Request Timeout"]);
    }
    assert!(world.receive(CALLER, &request("ACK", "p1", 1, "p1", &format!(";tag={tag}"), "")).is_empty());
    assert!(finals(&world.seconds(40)).is_empty());
    // Without an ACK for 64*T1.
    let mut world = World::with(nodes(1), keys(2), streams());
    world.hears();
    world.one(CALLER, &invite("p2"));
    world.seconds(33);
    assert_eq!(finals(&world.seconds(32)).len(), 10);
    assert!(finals(&world.seconds(40)).is_empty());
    nothing_is_left(&mut world);
}

#[test]
fn a_refusal_is_repeated_though_its_transaction_is_forgotten() {
    let mut world = watched(nodes(2));
    let first = world.one(CALLER, &invite("q1"));
    world.answer(&first, "180 Ringing", "");
    world.pass(MS(199_000));
    assert_eq!(finals(&world.pass(MS(1_000))), ["SIP/2.0 408 Request Timeout"]);
    for n in 0..20 {
        let text = request("INFO", "q1", 10 + n, &format!("q1{n}"), ";tag=callee", "");
        let info = world.one(CALLER, &text);
        world.answer(&info, "200 OK", "");
    }
    let sent = world.pass(MS(500));
    assert_eq!(finals(&sent), ["SIP/2.0 408 Request Timeout"]);
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    // Nor does its caller bring it back to life.
    let refused = world.one(CALLER, &invite("q1"));
    assert_eq!((refused.start(), refused.to.as_str()), ("SIP/2.0 408 Request Timeout", CALLER));
    nothing_is_left(&mut world);
}
