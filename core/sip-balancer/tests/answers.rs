//! Each INVITE of a caller has one final response (RFC 3261 sections 16.7 and 16.8), whatever fails and in which order,
//! and what its caller has cancelled is sent to nobody any more.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
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
    world.seconds(70);
    let report = world.balancer.report(true);
    assert_eq!((world.load(), report.kept, report.exact), ((0, 0), 0, Some(true)));
    assert_eq!((report.alive, report.ended, report.transactions), (0, 0, 0));
}

#[test]
fn what_rang_and_is_answered_by_nobody_gets_408() {
    let mut world = watched(nodes(2));
    let (_, second) = rescued(&mut world, "a1");
    assert!(finals(&world.down(&second)).is_empty());
    // As long as it may ring somebody may come back.
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
        let sent = world.seconds(34);
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
fn who_has_found_three_nodes_dead_is_told() {
    let mut world = watched(nodes(5));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("d1")));
    world.answer(&first, "180 Ringing", "");
    invited(&world.down(&first));
    invited(&world.pass(MS(400)));
    let last = invited(&world.pass(MS(400)));
    world.answer(&last, "180 Ringing", "");
    let mut sent = world.down(&last);
    sent.extend(world.seconds(10));
    assert_eq!(finals(&sent), ["SIP/2.0 503 Service Unavailable"]);
    nothing_is_left(&mut world);
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
