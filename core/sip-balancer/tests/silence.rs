//! Nodes that say nothing: another one gets the call, and nobody learns of two.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;
use wire::Machine;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn world(count: u8) -> World {
    watched(nodes(count))
}

#[test]
fn a_silent_node_loses_its_invite_and_new_calls_within_400_ms_and_is_asked_at_once() {
    let mut world = world(3);
    let (first, second, _) = moved(&mut world, "a1");
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    assert!(!world.cluster.takes_calls(world.now, at) && world.cluster.is_usable(world.now, at));
    let probes = world.pass(Duration::ZERO);
    assert!(probes.iter().any(|p| p.to == first.to && p.start().starts_with("OPTIONS")), "{probes:?}");
    for n in 0..6 {
        assert_ne!(world.one(CALLER, &invite(&format!("a2{n}"))).to, first.to);
    }
    assert_eq!(world.answer(&second, "200 OK", "").len(), 1);
    // It was only asleep.
    let probe = probes.into_iter().find(|p| p.to == first.to).expect("the probe");
    world.answer(&probe, "200 OK", "");
    assert!(world.cluster.takes_calls(world.now, at));
}

#[test]
fn an_invite_that_there_is_no_record_of_is_not_ended() {
    let mut world = world(2);
    let (_, route) = call(&mut world, "u1");
    for n in 2..42 {
        world.one(CALLER, &request("INFO", "u1", n, &format!("u{n}"), ";tag=callee", &route));
    }
    let before = world.balancer.report(false).events.unrecorded;
    let sent = world.one(CALLER, &request("INVITE", "u1", 50, "u50", "", ""));
    assert_eq!(world.balancer.report(false).events.unrecorded, before + 1);
    let meanwhile = world.seconds(3);
    assert_eq!(finals(&meanwhile), [""; 0]);
    assert!(!meanwhile.iter().any(|m| m.start().starts_with("CANCEL")), "{meanwhile:?}");
    let rings = world.answer(&sent, "180 Ringing", "");
    assert!(rings.iter().all(|m| m.to == CALLER), "{rings:?}");
    assert_eq!(finals(&world.answer(&sent, "200 OK", "")), ["SIP/2.0 200 OK"]);
}

#[test]
fn it_is_asked_again_at_once_until_it_is_down() {
    let mut world = world(2);
    let (first, ..) = moved(&mut world, "b1");
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    let mut waited = 0;
    while world.cluster.health(at).0 != Health::Down {
        world.pass(MS(50));
        waited += 50;
        assert!(waited <= 1_100, "two probes of 500 ms");
    }
    assert_eq!(world.cluster.health(at).1, Why::ProbeTimeout);
}

#[test]
fn a_node_that_says_something_to_others_is_left_its_invites_for_longer() {
    let mut world = world(2);
    let all: Vec<Sent> = (0..2).map(|n| world.one(CALLER, &invite(&format!("c{n}")))).collect();
    let [lost, other] = &all[..] else { panic!("two") };
    world.pass(MS(300));
    // One more at the same node, which it answers.
    let mate =
        (0..4).map(|n| world.one(CALLER, &invite(&format!("c2{n}")))).find(|m| m.to == lost.to).expect("one");
    world.answer(&mate, "100 Trying", "");
    world.answer(other, "100 Trying", "");
    let sent = world.pass(MS(200));
    assert!(sent.iter().all(|m| !m.text.contains("Call-ID: c0\r\n")), "{sent:?}");
    // 400 ms after the last it was heard of it is doubted.
    let sent = world.pass(MS(210));
    assert!(sent.iter().any(|m| m.text.contains("Call-ID: c0\r\n") && m.to != lost.to), "{sent:?}");
}

#[test]
fn ignored_invite_moves_after_two_repetitions() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("ca"));
    for ms in (100..=1_500).step_by(100) {
        // In turn at the one and at the other.
        let mate = world.one(CALLER, &invite(&format!("cb{ms}")));
        world.answer(&mate, "100 Trying", "");
        let sent = world.pass(MS(100));
        let moved = sent.iter().any(|m| m.start().starts_with("INVITE ") && m.to != first.to);
        assert_eq!(moved, ms == 1_500, "{ms}: {sent:?}");
        assert!(sent.iter().all(|m| !m.start().starts_with("OPTIONS")), "it is not doubted: {sent:?}");
    }
    let at = world.node(&first);
    assert!(world.cluster.takes_calls(world.now, at));
    // It was only late, and the other one has said nothing yet.
    assert_eq!(world.answer(&first, "180 Ringing", "")[0].to, CALLER);
}

#[test]
fn where_all_nodes_drop_most_of_what_comes_few_of_it_is_sent_to_another_one() {
    let mut world = world(3);
    let probing = Probing { interval: Duration::from_secs(3_600), ..Probing::default() };
    let turns = Settings { algorithm: Algorithm::RoundRobin, probing, rules: Rules::default(), ..streams() };
    world.balancer.notice(world.now, Notice::Settings(turns.into()), &mut wire::Outbox::new());
    let (mut calls, mut moved) = (0, 0);
    for step in 0..90 {
        // Ten calls in 100 ms, of which each node answers one.
        let mut answered = [false; 3];
        for n in 0..10 {
            let sent = world.one(CALLER, &invite(&format!("cm{step}-{n}")));
            calls += 1;
            if !std::mem::replace(&mut answered[usize::from(world.node(&sent).0)], true) {
                world.answer(&sent, "100 Trying", "");
            }
        }
        // So few are looked at at a time that it takes several looks.
        for ms in [100].into_iter().chain([0; 50]) {
            let sent = world.pass(MS(ms));
            moved += sent.iter().filter(|m| m.start().starts_with("INVITE ")).count();
        }
    }
    assert!((calls / 5..calls * 3 / 10).contains(&moved), "{moved} of {calls}");
    let open = world.cluster.indexes().filter(|at| world.cluster.takes_calls(world.now, *at)).count();
    assert_eq!(open, 3, "a node that answers others is not held to be silent");
}

#[test]
fn a_node_that_is_slow_for_all_keeps_what_it_has() {
    let mut world = world(2);
    let mates: Vec<Sent> = (0..40).map(|n| world.one(CALLER, &invite(&format!("cd{n}")))).collect();
    world.pass(MS(10));
    let first = world.one(CALLER, &invite("ce"));
    // It comes to them one after the other, and to this one last.
    for mate in mates.iter() {
        world.answer(mate, "100 Trying", "");
        let sent = world.pass(MS(100));
        assert!(sent.iter().all(|m| !m.text.contains("Call-ID: ce\r\n")), "{sent:?}");
    }
    world.answer(&first, "100 Trying", "");
}

#[test]
fn without_silent_after_an_invite_waits_for_its_sender_alone() {
    let rules = Rules { silent_after: Duration::ZERO, ..Rules::default() };
    let mut world = World::with(nodes(2), keys(2), Settings { rules, ..settings() });
    world.one(CALLER, &invite("cc"));
    assert!(world.seconds(10).iter().all(|m| !m.start().starts_with("INVITE ")));
}

#[test]
fn once_silence_says_nothing_what_waits_stays_where_it_is() {
    let mut world = world(2);
    world.one(CALLER, &invite("cf"));
    // As a balancer is told whose address another one may have by now, and the answers with it.
    let rules = Rules { silent_after: Duration::ZERO, ..Rules::default() };
    let settings = std::sync::Arc::new(Settings { rules, ..streams() });
    world.balancer.notice(world.now, Notice::Settings(settings), &mut wire::Outbox::new());
    assert!(world.seconds(3).iter().all(|m| !m.start().starts_with("INVITE ")));
}

#[test]
fn what_rang_is_repeated_to_its_next_node_until_that_says_something() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("ab"));
    // Its caller repeats it no more.
    world.answer(&first, "100 Trying", "");
    let lost = invited(&world.down(&first));
    assert_ne!(lost.to, first.to);
    let again = invited(&world.pass(MS(500)));
    assert_eq!((&again.to, again.branch()), (&lost.to, lost.branch()));
    let again = invited(&world.pass(MS(1_000)));
    world.answer(&again, "100 Trying", "");
    let later = world.seconds(10);
    assert!(later.iter().all(|m| !m.start().starts_with("INVITE ")), "{later:?}");
    assert_eq!(world.answer(&again, "200 OK", "")[0].to, CALLER);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn many_that_lose_their_node_go_to_another_some_at_a_time() {
    let mut world = world(2);
    world.cluster.set_order(NodeIndex(1), Order::Drain);
    for n in 0..100 {
        let sent = world.one(CALLER, &invite(&format!("ac{n}")));
        world.answer(&sent, "180 Ringing", "");
    }
    world.cluster.set_order(NodeIndex(1), Order::Serve);
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    let mut moved = 0;
    while moved < 100 {
        let sent = world.pass(Duration::ZERO);
        let some = sent.iter().filter(|m| m.start().starts_with("INVITE ")).count();
        assert!((1..=32).contains(&some), "{some} after {moved}");
        moved += some;
        // In between whoever waits is served, and then it goes on at once.
        assert!(moved == 100 || world.balancer.next_deadline().is_some_and(|due| due <= world.now));
    }
    assert!(world.pass(Duration::ZERO).is_empty());
    assert!(world.balancer.next_deadline().is_none_or(|due| due > world.now));
    assert_eq!((world.load(), world.balancer.report(true).exact), ((100, 100), Some(true)));
}

#[test]
fn the_only_node_keeps_what_it_has() {
    let mut world = world(1);
    let sent = world.one(CALLER, &invite("d1"));
    (0..60).for_each(|_| assert!(world.pass(MS(100)).iter().all(|m| m.start().starts_with("OPTIONS"))));
    assert!(
        world.cluster.is_usable(world.now, NodeIndex(0))
            || world.cluster.health(NodeIndex(0)).0 == Health::Down
    );
    assert_eq!(world.answer(&sent, "200 OK", "").len(), 1);
}

#[test]
fn a_node_that_wakes_up_late_is_cancelled_and_its_refusal_ends_here() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "e1");
    assert_eq!(world.answer(&second, "180 Ringing", "").len(), 1);
    let cancel = world.answer(&first, "100 Trying", "");
    assert_eq!((cancel.len(), cancel[0].start()), (1, "CANCEL sip:bob@example.com SIP/2.0"));
    assert_eq!((&cancel[0].to, cancel[0].branch()), (&first.to, first.branch()));
    assert_eq!(cancel[0].header("CSeq"), Some("1 CANCEL"));
    // It may be lost, too (RFC 3261 section 17.1.2.2).
    let again = world.pass(MS(510));
    assert!(again.iter().any(|m| m.text == cancel[0].text && m.to == first.to), "{again:?}");
    assert!(world.answer(&cancel[0], "200 OK", "").is_empty(), "the caller has cancelled nothing");
    let later = world.pass(MS(4_100));
    assert!(later.iter().all(|m| !m.start().starts_with("CANCEL")), "{later:?}");
    let ack = world.answer(&first, "487 Request Terminated", "");
    assert_eq!(
        (ack.len(), ack[0].start(), ack[0].branch()),
        (1, "ACK sip:bob@example.com SIP/2.0", first.branch())
    );
    assert!(ack[0].header("To").unwrap().ends_with(";tag=callee"));
    assert_eq!(world.answer(&second, "200 OK", "")[0].start(), "SIP/2.0 200 OK");
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn of_two_that_say_yes_the_later_one_is_thanked_and_sent_away() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "f1");
    assert_eq!(world.answer(&second, "200 OK", "").len(), 1);
    // A server of its own behind the first one, with its own place in the dialog.
    let ours: String =
        first.text.lines().filter(|l| l.starts_with("Record-Route")).map(|l| format!("{l}\r\n")).collect();
    let text = response(&first, "200 OK", "Contact: <sip:bob@192.0.2.50:5062>\r\n");
    let own = format!("Record-Route: <sip:{};lr>\r\n{ours}", first.to);
    let text = text.replace(&ours, &own);
    let ended = world.receive(&first.to, &text);
    let [ack, bye] = &ended[..] else { panic!("{ended:?}") };
    for (message, method, cseq) in [(ack, "ACK", "1 ACK"), (bye, "BYE", "2 BYE")] {
        assert_eq!(message.start(), format!("{method} sip:bob@192.0.2.50:5062 SIP/2.0"));
        assert_eq!((&message.to, message.header("CSeq")), (&first.to, Some(cseq)));
        assert_eq!(message.header("Route"), Some(format!("<sip:{};lr>", first.to).as_str()));
        assert!(message.header("To").unwrap().ends_with(";tag=callee"));
        assert_ne!(message.branch(), first.branch());
    }
    assert_ne!(ack.branch(), bye.branch());
    // Without an answer the BYE is repeated, and the ACK with every 200.
    let again = world.pass(MS(510));
    assert!(again.iter().any(|m| m.text == bye.text), "{again:?}");
    assert!(world.receive(&first.to, &text)[0].start().starts_with("ACK "));
    assert!(world.answer(bye, "200 OK", "").is_empty(), "the caller has hung up on nobody");
    let later = world.pass(MS(4_100));
    assert!(later.iter().all(|m| !m.start().starts_with("BYE")), "{later:?}");
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
    (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    assert_eq!(world.balancer.report(true).kept, 0);
}

#[test]
fn who_says_yes_first_has_the_call_and_the_other_is_cancelled() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "g1");
    world.answer(&second, "180 Ringing", "");
    let all = world.answer(&first, "200 OK", "");
    let cancel = all.iter().find(|m| m.start().starts_with("CANCEL")).expect("the CANCEL");
    assert_eq!((&cancel.to, cancel.branch()), (&second.to, second.branch()));
    assert!(all.iter().any(|m| m.start() == "SIP/2.0 200 OK" && m.to == CALLER));
    assert!(world.answer(cancel, "200 OK", "").is_empty());
    let ack = world.answer(&second, "487 Request Terminated", "");
    assert_eq!((ack.len(), &ack[0].to), (1, &second.to));
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    assert_eq!((world.cluster.load(at).calls, world.load()), (1, (1, 0)));
    assert_eq!(world.balancer.report(true).exact, Some(true));
}

#[test]
fn a_caller_that_gives_up_cancels_who_has_it_and_the_other_when_it_wakes_up() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "h1");
    world.answer(&second, "180 Ringing", "");
    let cancel = world.one(CALLER, &request("CANCEL", "h1", 1, "h1", "", ""));
    assert_eq!((&cancel.to, cancel.branch()), (&second.to, second.branch()));
    assert_eq!(world.answer(&cancel, "200 OK", "").len(), 1, "this one is the caller's");
    assert_eq!(world.answer(&second, "487 Request Terminated", "").len(), 1);
    let own = world.answer(&first, "180 Ringing", "");
    assert!(own[0].start().starts_with("CANCEL ") && own[0].to == first.to);
    let ended = world.answer(&first, "200 OK", "Contact: <sip:bob@192.0.2.50>\r\n");
    assert_eq!(ended.len(), 2, "ACK and BYE: {ended:?}");
    assert_eq!(world.load(), (0, 0));
}

#[test]
fn an_invite_that_was_cancelled_goes_nowhere_else() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("k1"));
    world.one(CALLER, &request("CANCEL", "k1", 1, "k1", "", ""));
    let later = world.pass(MS(450));
    assert!(later.iter().all(|m| !m.start().starts_with("INVITE")), "{later:?}");
    world.cluster.set_down(world.cluster.at(first.to.parse().unwrap()).unwrap(), Why::ProbeTimeout);
    assert!(world.pass(MS(10)).iter().all(|m| !m.start().starts_with("INVITE")));
}

#[test]
fn what_rang_at_a_node_that_went_down_rings_at_another() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("i1"));
    world.answer(&first, "180 Ringing", "");
    world.cluster.set_down(world.cluster.at(first.to.parse().unwrap()).unwrap(), Why::ProbeTimeout);
    let all = world.pass(Duration::ZERO);
    let second = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert_ne!(second.to, first.to);
    assert_eq!(world.answer(&second, "200 OK", "").len(), 1);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
    assert_eq!(world.balancer.report(false).events.retried, 1);
}

#[test]
fn without_probes_an_invite_moves_all_the_same() {
    let rules = Rules { probed: false, ..Rules::default() };
    let mut world = World::with(nodes(2), keys(2), Settings { rules, ..settings() });
    let first = world.one(CALLER, &invite("j1"));
    let second = world.pass(MS(400));
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].to, first.to);
    // One silence takes nobody out.
    assert!(world.cluster.indexes().all(|at| world.cluster.takes_calls(world.now, at)));
}

#[test]
fn what_rings_at_the_only_node_rings_on_when_that_is_down() {
    let mut world = world(1);
    let first = world.one(CALLER, &invite("l1"));
    world.answer(&first, "180 Ringing", "");
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    for _ in 0..30 {
        let sent = world.pass(MS(100));
        assert!(sent.iter().all(|m| m.start().starts_with("OPTIONS")), "{sent:?}");
    }
    assert!(world.receive(CALLER, &invite("l1")).iter().all(|m| m.to == first.to));
    let back = world.answer(&first, "200 OK", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].start()), (1, CALLER, "SIP/2.0 200 OK"));
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn a_node_that_was_only_late_keeps_its_call_while_the_other_says_nothing() {
    let mut world = world(3);
    let (first, second, _) = moved(&mut world, "m1");
    world.pass(MS(50));
    let back = world.answer(&first, "180 Ringing", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].start()), (1, CALLER, "SIP/2.0 180 Ringing"));
    // The other one is told when it says something (RFC 3261 section 9.1).
    let cancel = world.answer(&second, "100 Trying", "");
    assert_eq!((cancel.len(), cancel[0].start()), (1, "CANCEL sip:bob@example.com SIP/2.0"));
    assert_eq!(cancel[0].to, second.to);
    assert!(world.answer(&cancel[0], "200 OK", "").is_empty());
    // Who has been cancelled never gets it again.
    world.cluster.set_down(world.cluster.at(first.to.parse().unwrap()).unwrap(), Why::ProbeTimeout);
    let all = world.pass(Duration::ZERO);
    let third = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert!(third.to != first.to && third.to != second.to);
    world.answer(&third, "180 Ringing", "");
    world.cluster.set_down(world.cluster.at(third.to.parse().unwrap()).unwrap(), Why::ProbeTimeout);
    assert!(world.pass(MS(10)).iter().all(|m| m.start().starts_with("OPTIONS")));
    let ack = world.answer(&second, "487 Request Terminated", "");
    assert_eq!((ack.len(), ack[0].start().starts_with("ACK "), &ack[0].to), (1, true, &second.to));
    assert_eq!(world.answer(&third, "200 OK", "")[0].to, CALLER);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

/// The ACK and the BYE that a 2xx brings that comes too late.
fn sent_away(world: &mut World, text: &str, node: &str) -> Sent {
    let mut all = world.receive(node, text);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|m| m.to == node), "{all:?}");
    assert!(all[0].start().starts_with("ACK ") && all[1].start().starts_with("BYE "), "{all:?}");
    all.remove(1)
}

#[test]
fn each_of_several_late_dialogs_is_ended() {
    let mut world = world(3);
    let (first, second, _) = moved(&mut world, "n1");
    let all = world.pass(MS(400));
    let third = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert_eq!(world.answer(&third, "200 OK", "")[0].to, CALLER);
    // One of them forks.
    let yes = response(&first, "200 OK", "Contact: <sip:bob@192.0.2.50>\r\n");
    let fork = yes.replace(";tag=callee", ";tag=fork");
    let other = response(&second, "200 OK", "Contact: <sip:bob@192.0.2.51>\r\n");
    let byes = [
        sent_away(&mut world, &yes, &first.to),
        sent_away(&mut world, &fork, &first.to),
        sent_away(&mut world, &other, &second.to),
    ];
    assert!(byes[0].branch() != byes[1].branch() && byes[1].branch() != byes[2].branch());
    // One of them answers; the others are asked again.
    assert!(world.answer(&byes[1], "200 OK", "").is_empty());
    let again = world.pass(MS(510));
    let repeated: Vec<bool> = byes.iter().map(|bye| again.iter().any(|m| m.text == bye.text)).collect();
    assert_eq!(repeated, [true, false, true]);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn where_nothing_can_be_kept_a_late_dialog_is_ended_once() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "o1");
    assert_eq!(world.answer(&second, "200 OK", "").len(), 1);
    for n in 0..1_100 {
        world.receive(CALLER, &invite(&format!("o2{n}")));
    }
    assert_eq!(world.balancer.report(false).kept, 1_000);
    let yes = response(&first, "200 OK", "Contact: <sip:bob@192.0.2.50>\r\n");
    sent_away(&mut world, &yes, &first.to);
}

#[test]
fn what_is_no_invite_leaves_no_node_that_is_only_doubted() {
    let mut world = world(3);
    for method in ["MESSAGE", "REGISTER"] {
        let text = request(method, &format!("p1{method}"), 1, &format!("p1{method}"), "", "");
        let first = world.one(CALLER, &text);
        let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
        world.pass(MS(500));
        assert!(world.cluster.suspect(world.now, at));
        assert_eq!(world.one(CALLER, &text).to, first.to, "{method}: it may have it");
        world.cluster.set_down(at, Why::ProbeTimeout);
        let second = world.one(CALLER, &text);
        assert_ne!(second.to, first.to);
        if method == "REGISTER" {
            // The home of its address-of-record by now.
            let other = world.one(CALLER, &request(method, "p2", 1, "p2", "", ""));
            assert_eq!(other.to, second.to);
        }
        world.cluster.set_up(at);
    }
}

#[test]
fn who_says_yes_after_the_caller_was_refused_is_sent_away() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "q1");
    for node in world.cluster.indexes() {
        world.cluster.set_down(node, Why::ProbeTimeout);
    }
    for _ in 0..2 {
        // Twice, for the first may be lost.
        let refused = world.one(CALLER, &invite("q1"));
        assert_eq!((refused.start(), refused.to.as_str()), ("SIP/2.0 503 Service Unavailable", CALLER));
    }
    for node in [&first, &second] {
        let yes = response(node, "200 OK", "Contact: <sip:bob@192.0.2.50>\r\n");
        sent_away(&mut world, &yes, &node.to);
    }
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
    (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    assert_eq!(world.balancer.report(true).kept, 0);
}

#[test]
fn who_hangs_up_where_no_node_is_left_is_gone() {
    let mut world = world(1);
    let (_, route) = call(&mut world, "r1");
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    assert_eq!(world.load(), (1, 0));
    let refused = world.one(CALLER, &request("BYE", "r1", 2, "r2", ";tag=callee", &route));
    assert_eq!(refused.start(), "SIP/2.0 503 Service Unavailable");
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
}

#[test]
fn an_invite_that_was_cancelled_is_not_repeated() {
    let mut world = World::with(nodes(2), keys(2), Settings { rules: Rules::default(), ..streams() });
    let first = world.one_tcp(PHONE, &over_tcp(&invite("s1")));
    world.one_tcp(PHONE, &over_tcp(&request("CANCEL", "s1", 1, "s1", "", "")));
    assert!(world.cluster.suspect(world.now, world.node(&first)));
    let again = world.seconds(60);
    assert!(again.iter().all(|m| !m.start().starts_with("INVITE ")), "{again:?}");
    assert!(again.iter().any(|m| m.start().starts_with("CANCEL ") && m.to == first.to), "{again:?}");
    assert_eq!(finals(&again), ["SIP/2.0 487 Request Terminated"]);
}

#[test]
fn an_invite_waits_for_another_node_as_long_as_it_has_to() {
    let mut world = World::with(nodes(2), keys(2), Settings { rules: Rules::default(), ..settings() });
    let first = world.one(CALLER, &invite("t1"));
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    let other = NodeIndex(1 - at.0);
    world.cluster.set_order(other, Order::Drain);
    (0..8).for_each(|_| assert!(world.pass(MS(400)).is_empty()));
    world.cluster.set_order(other, Order::Serve);
    let sent = world.pass(MS(400));
    assert!(sent.iter().any(|m| m.start().starts_with("INVITE") && m.to != first.to), "{sent:?}");
}

#[test]
fn what_rings_at_a_node_that_is_down_goes_to_another_as_soon_as_that_takes_calls() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("u1"));
    world.answer(&first, "180 Ringing", "");
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    let other = NodeIndex(1 - at.0);
    // It counts as failed, and nobody says when that is over.
    world.cluster.failed(world.now, other, Why::Silent, 1, Some(Duration::from_secs(3)));
    world.cluster.set_down(at, Why::ProbeTimeout);
    for _ in 0..29 {
        let sent = world.pass(MS(100));
        assert!(sent.iter().all(|m| m.start().starts_with("OPTIONS")), "{sent:?}");
    }
    let sent: Vec<Sent> = (0..12).flat_map(|_| world.pass(MS(100))).collect();
    let second = sent.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert_ne!(second.to, first.to);
    assert_eq!(world.answer(&second, "200 OK", "")[0].to, CALLER);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn what_rings_at_a_node_that_is_down_goes_to_one_that_only_rests_where_nobody_else_is_left() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("u2"));
    world.answer(&first, "180 Ringing", "");
    let other = NodeIndex(1 - world.node(&first).0);
    world.cluster.rest(world.now, other, Duration::from_secs(3_600), Why::Outlier);
    let second = invited(&world.down(&first));
    assert_eq!(world.node(&second), other);
    assert_eq!(world.answer(&second, "200 OK", "")[0].to, CALLER);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn a_refusal_that_comes_late_is_the_answer_while_the_other_says_nothing() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "v1");
    let back = world.answer(&first, "486 Busy Here", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].start()), (1, CALLER, "SIP/2.0 486 Busy Here"));
    let ack = world.one(CALLER, &request("ACK", "v1", 1, "v1", ";tag=callee", ""));
    assert_eq!((&ack.to, ack.branch()), (&first.to, first.branch()));
    // The other one wakes up after that.
    let cancel = world.answer(&second, "180 Ringing", "");
    assert_eq!((cancel.len(), &cancel[0].to), (1, &second.to));
    assert!(cancel[0].start().starts_with("CANCEL "));
    sent_away(&mut world, &response(&second, "200 OK", "Contact: <sip:bob@192.0.2.50>\r\n"), &second.to);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
    (0..40).for_each(|_| drop(world.pass(Duration::from_secs(1))));
    assert_eq!(world.balancer.report(true).kept, 0);
}

#[test]
fn a_caller_that_gave_up_hears_of_the_late_refusal_if_that_is_all_there_is() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "v2");
    assert_eq!(world.one(CALLER, &request("CANCEL", "v2", 1, "v2", "", "")).to, second.to);
    assert_eq!(world.answer(&first, "486 Busy Here", "")[0].to, CALLER);
}

#[test]
fn a_node_that_refused_an_invite_never_gets_it_again() {
    // For reasons of its own, so that another one may do better.
    let mut world = world(3);
    let (first, second, _) = moved(&mut world, "w1");
    let ack = world.answer(&first, "500 Server Internal Error", "");
    assert_eq!((ack.len(), ack[0].start(), &ack[0].to), (1, "ACK sip:bob@example.com SIP/2.0", &first.to));
    let all = world.pass(MS(400));
    let third = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert!(third.to != first.to && third.to != second.to);
    let later: Vec<Sent> = (0..30).flat_map(|_| world.pass(MS(100))).collect();
    assert!(later.iter().all(|m| !m.start().starts_with("INVITE")), "{later:?}");
    assert_eq!(world.answer(&third, "200 OK", "")[0].to, CALLER);
    // After another one has said something.
    let mut world = self::world(3);
    let (first, second, _) = moved(&mut world, "w2");
    world.answer(&second, "180 Ringing", "");
    assert!(world.answer(&first, "486 Busy Here", "")[0].start().starts_with("ACK "));
    world.cluster.set_down(world.cluster.at(second.to.parse().unwrap()).unwrap(), Why::ProbeTimeout);
    let all = world.pass(Duration::ZERO);
    let third = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert_ne!(third.to, first.to);
    // Who asks for rest gets it, late as it is.
    let mut world = self::world(2);
    let (first, ..) = moved(&mut world, "w3");
    world.answer(&first, "503 Service Unavailable", "Retry-After: 9\r\n");
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    assert!(!world.cluster.takes_calls(world.now, at));
}

#[test]
fn what_rang_is_not_refused_when_the_next_node_fails_too() {
    let mut world = world(2);
    let first = world.one(CALLER, &invite("x1"));
    world.answer(&first, "180 Ringing", "");
    let at = world.cluster.at(first.to.parse().unwrap()).unwrap();
    world.cluster.set_down(at, Why::ProbeTimeout);
    let all = world.pass(Duration::ZERO);
    let second = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    world.cluster.set_down(NodeIndex(1 - at.0), Why::ProbeTimeout);
    // Longer than an INVITE lasts of which nobody has said anything.
    for _ in 0..40 {
        let sent = world.pass(Duration::from_secs(1));
        assert!(sent.iter().all(|m| m.start().starts_with("OPTIONS")), "{sent:?}");
    }
    assert_eq!(world.one(CALLER, &invite("x1")).to, second.to);
    assert_eq!(world.load(), (1, 1));
    // The first one is there again.
    world.cluster.set_up(at);
    let all = world.pass(MS(1_000));
    let again = all.iter().find(|m| m.start().starts_with("INVITE")).expect("the INVITE").clone();
    assert_eq!((&again.to, again.branch()), (&first.to, first.branch()));
    assert_eq!(world.answer(&again, "200 OK", "")[0].to, CALLER);
    assert_eq!((world.load(), world.balancer.report(true).exact), ((1, 0), Some(true)));
}

#[test]
fn the_answer_to_the_callers_own_cancel_is_the_callers() {
    let mut world = world(2);
    let (first, second, _) = moved(&mut world, "y1");
    world.answer(&second, "180 Ringing", "");
    let cancel = world.one(CALLER, &request("CANCEL", "y1", 1, "y1", "", ""));
    assert_eq!(cancel.to, second.to);
    // The other one says yes meanwhile, and is the first to do so. What the caller cancelled is cancelled by
    // us, too.
    let all = world.answer(&first, "200 OK", "");
    assert!(all.iter().any(|m| m.to == CALLER && m.start() == "SIP/2.0 200 OK"), "{all:?}");
    assert!(all.iter().any(|m| m.to == second.to && m.start().starts_with("CANCEL ")), "{all:?}");
    let back = world.answer(&cancel, "200 OK", "");
    assert_eq!((back.len(), back[0].to.as_str(), back[0].header("CSeq")), (1, CALLER, Some("1 CANCEL")));
    let later: Vec<Sent> = (0..20).flat_map(|_| world.pass(MS(100))).collect();
    assert!(later.iter().all(|m| !m.start().starts_with("CANCEL")), "{later:?}");
}

#[test]
fn what_rings_waits_for_a_node_to_which_there_is_a_way() {
    let mut list = nodes(2);
    list[1].transport = Some(wire::Transport::Tcp);
    let rules = Rules::default();
    let probing = Probing { interval: Duration::from_secs(3_600), ..Probing::default() };
    let mut world = World::with(list, keys(2), Settings { rules, probing, ..settings() });
    world.cluster.set_order(NodeIndex(1), Order::Drain);
    let first = world.one(CALLER, &invite("z1"));
    world.answer(&first, "180 Ringing", "");
    world.cluster.set_order(NodeIndex(1), Order::Serve);
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    for _ in 0..30 {
        assert!(world.pass(MS(100)).iter().all(|m| m.start().starts_with("OPTIONS")), "nobody is refused");
    }
    assert_eq!((world.load(), world.balancer.report(true).kept), ((1, 1), 1));
    let sent = world.seconds(300);
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    // Repeated until its ACK, which does not come.
    assert!(!finals(&sent).is_empty());
    assert!(finals(&sent).iter().all(|start| *start == "SIP/2.0 408 Request Timeout"), "{sent:?}");
    // Who rang may be back, and is waited for.
    assert_eq!((world.load(), world.balancer.report(true).kept), ((0, 0), 1));
    world.seconds(200);
    assert_eq!(world.balancer.report(true).kept, 0);
}

#[test]
fn what_could_not_be_sent_once_more_is_forgotten_all_the_same() {
    // The heaviest node is one that cannot be reached from here.
    let mut list = nodes(3);
    (list[1].transport, list[1].weight) = (Some(wire::Transport::Tcp), 1_000);
    let mut world = World::with(list, keys(2), Settings { rules: Rules::default(), ..settings() });
    let others = [NodeIndex(1), NodeIndex(2)];
    others.iter().for_each(|at| world.cluster.set_order(*at, Order::Drain));
    let first = world.one(CALLER, &invite("aa"));
    world.answer(&first, "180 Ringing", "");
    others.iter().for_each(|at| world.cluster.set_order(*at, Order::Serve));
    // It is looked at again and again until the others take calls.
    for at in others {
        world.cluster.rest(world.now, at, Duration::from_secs(3), Why::Overloaded);
    }
    world.cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    let sent = world.seconds(300);
    // It was tried, and nobody else has it after that.
    assert!(!finals(&sent).is_empty());
    assert!(finals(&sent).iter().all(|start| *start == "SIP/2.0 503 Service Unavailable"), "{sent:?}");
    assert!(sent.iter().all(|m| !m.start().starts_with("INVITE ")), "{sent:?}");
    assert_eq!(world.balancer.report(true).kept, 0);
}
