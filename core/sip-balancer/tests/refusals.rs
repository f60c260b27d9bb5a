//! Nodes that refuse: who is believed, who gets the call then, and that nobody is left without a node by it.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;
const FULL: &str = "503 Service Unavailable";
const FULL_LINE: &str = "SIP/2.0 503 Service Unavailable";
const ERROR_LINE: &str = "SIP/2.0 500 Server Internal Error";

fn probing(count: u8) -> World {
    World::with(nodes(count), keys(2), Settings { probing: Probing::default(), ..settings() })
}

fn open(world: &World) -> usize {
    world.cluster.indexes().filter(|at| world.cluster.takes_calls(world.now, *at)).count()
}

/// The ACK to who refused an INVITE, and that INVITE at another node.
fn went_on(world: &World, sent: &[Sent], from: &Sent) -> Sent {
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!((sent[0].start(), &sent[0].to), ("ACK sip:bob@example.com SIP/2.0", &from.to));
    assert_eq!((sent[0].branch(), sent[0].header("CSeq")), (from.branch(), Some("1 ACK")));
    let next = invited(sent);
    assert_ne!((world.node(&next), next.branch()), (world.node(from), from.branch()));
    next
}

#[test]
fn what_is_no_call_rests_nobody() {
    let mut world = probing(3);
    for n in 0..12 {
        for (method, to) in [("REGISTER", ""), ("MESSAGE", ""), ("OPTIONS", ""), ("INVITE", ";tag=made-up")] {
            let name = format!("{method}{n}");
            let text = request(method, &name, 1, &name, to, "");
            let sent = world.one(CALLER, &text.replace("To: <sip:bob@", &format!("To: <sip:u{n}@")));
            let back = world.answer(&sent, FULL, "Retry-After: 300\r\n");
            let told = (back[0].start(), back[0].header("Retry-After"));
            assert_eq!(told, ("SIP/2.0 500 Server Internal Error", None));
        }
    }
    assert_eq!(open(&world), 3);
}

#[test]
fn the_last_node_that_takes_calls_never_rests() {
    let mut world = World::new();
    for n in 0..6 {
        let mut last = world.one(CALLER, &invite(&format!("a{n}")));
        let back = loop {
            let sent = world.answer(&last, FULL, "Retry-After: 600\r\n");
            if sent[0].to == CALLER {
                break sent;
            }
            last = went_on(&world, &sent, &last);
        };
        let told = if n < 2 { (vec![ERROR_LINE], None) } else { (vec![FULL_LINE], Some("5")) };
        assert_eq!((finals(&back), back[0].header("Retry-After")), told, "{n}");
        // What all refuse says something of the first of them at most.
        assert_eq!(open(&world), 2 - usize::from(n > 0));
    }
    // Nor by what it says to probes.
    let mut world = probing(2);
    for _ in 0..60 {
        for probe in world.pass(MS(100)) {
            world.answer(&probe, FULL, "Retry-After: 600\r\n");
        }
        assert!(open(&world) > 0);
    }
    assert_eq!(open(&world), 1);
}

/// All refuse `call`; what its caller is told, and how many have had it.
fn refused_by_all(world: &mut World, call: &str, more: &str) -> (Sent, usize) {
    let mut last = world.one(CALLER, &invite(call));
    for had in 1.. {
        let sent = world.answer(&last, FULL, more);
        if sent[0].to == CALLER {
            return (sent[0].clone(), had);
        }
        last = went_on(world, &sent, &last);
    }
    unreachable!()
}

#[test]
fn where_all_nodes_refuse_the_caller_is_told_so_and_only_one_of_them_is_asked() {
    let mut world = World::with(nodes(3), keys(2), settings());
    let told = |(back, had): &(Sent, usize)| {
        let after = back.header("Retry-After").map(str::to_owned);
        (back.start().to_owned(), after, *had)
    };
    let busy = |after: &str, had| (FULL_LINE.to_owned(), Some(after.to_owned()), had);
    // What all refuse may be for a reason of its own: each call says something of the first node that has it.
    for (n, had) in [3, 2].into_iter().enumerate() {
        let (back, found) = refused_by_all(&mut world, &format!("ka{n}"), "Retry-After: 60\r\n");
        assert_eq!((back.start(), back.header("Retry-After"), found), (ERROR_LINE, None, had));
    }
    // Of how long they will be busy we say no more than of ourselves.
    assert_eq!(told(&refused_by_all(&mut world, "k0", "Retry-After: 60\r\n")), busy("5", 1));
    assert_eq!(told(&refused_by_all(&mut world, "k1", "Retry-After: 3\r\n")), busy("3", 1));
    assert_eq!(world.balancer.report(true).counts.softened, 2);
    // Whatever else they refuse is told so as well.
    let register = world.one(CALLER, &request("REGISTER", "k2", 1, "k2", "", ""));
    assert_eq!(world.answer(&register, FULL, "Retry-After: 3\r\n")[0].start(), FULL_LINE);
    // One takes a call: it has room for others, and what others refuse goes there.
    world.pass(MS(1));
    let taken = world.one(CALLER, &invite("k3"));
    let willing = world.node(&taken);
    assert_eq!(world.answer(&taken, "180 Ringing", "").len(), 1);
    let register = world.one(CALLER, &request("REGISTER", "k4", 1, "k4", "", ""));
    let back = world.answer(&register, FULL, "Retry-After: 3\r\n");
    assert_eq!((back[0].start(), back[0].header("Retry-After")), (ERROR_LINE, None));
    let others: Vec<NodeIndex> = world.cluster.indexes().filter(|at| *at != willing).collect();
    world.cluster.set_order(willing, Order::Drain);
    let next = world.one(CALLER, &invite("k5"));
    assert!(others.contains(&world.node(&next)));
    world.cluster.set_order(willing, Order::Serve);
    let sent = world.answer(&next, FULL, "Retry-After: 3\r\n");
    let again = went_on(&world, &sent, &next);
    assert_eq!(world.node(&again), willing);
    assert_eq!(finals(&world.answer(&again, "200 OK", "")), ["SIP/2.0 200 OK"]);
    // After the time that they have named they are asked again.
    world.seconds(70);
    assert_eq!(refused_by_all(&mut world, "k6", "Retry-After: 3\r\n").1, 3);
    assert_eq!(world.balancer.report(true).exact, Some(true));
}

#[test]
fn a_probe_ends_what_a_node_has_refused_before_it_and_not_at_once() {
    let mut world = probing(1);
    let before = world.pass(Duration::ZERO);
    world.pass(MS(1));
    let call = world.one(CALLER, &invite("p1"));
    assert_eq!(world.answer(&call, FULL, "Retry-After: 60\r\n")[0].start(), FULL_LINE);
    let mut registers = 0;
    let mut told = |world: &mut World| {
        registers += 1;
        let name = format!("pr{registers}");
        let register = world.one(CALLER, &request("REGISTER", &name, 1, &name, "", ""));
        world.answer(&register, FULL, "")[0].start().to_owned()
    };
    // One that was sent before says nothing of it.
    before.iter().for_each(|probe| drop(world.answer(probe, "200 OK", "")));
    assert_eq!(told(&mut world), FULL_LINE);
    let pass = |world: &mut World, steps: u32| {
        for _ in 0..steps {
            let sent = world.pass(MS(100));
            let probes = sent.iter().filter(|m| m.start().starts_with("OPTIONS "));
            probes.for_each(|probe| drop(world.answer(probe, "200 OK", "")));
        }
    };
    pass(&mut world, 15);
    assert_eq!(told(&mut world), FULL_LINE, "two seconds at least");
    pass(&mut world, 30);
    assert_eq!(told(&mut world), ERROR_LINE);
}

#[test]
fn where_all_nodes_refuse_most_of_what_they_get_they_do_not_get_it_twice() {
    let mut world = World::with(nodes(3), keys(2), settings());
    let (mut calls, mut attempts) = (0, 0);
    for n in 0..600 {
        world.pass(MS(20));
        let mut last = world.one(CALLER, &invite(&format!("m{n}")));
        calls += 1;
        loop {
            attempts += 1;
            // One of four is taken on, and nobody says for how long the others should wait.
            let taken = (n * 7 + attempts) % 4 == 0;
            let sent = world.answer(&last, if taken { "486 Busy Here" } else { FULL }, "");
            if sent[0].to == CALLER {
                break;
            }
            last = went_on(&world, &sent, &last);
        }
    }
    assert!(attempts < calls * 5 / 4, "{attempts} for {calls}");
}

#[test]
fn one_node_after_the_other_may_be_started_anew() {
    let mut world = probing(2);
    // What each of them says, by the tenth of a second: that it stops for two seconds, and then that it is
    // there.
    let stops = |at: NodeIndex, step: u32| {
        let begin = if at.0 == 0 { 20 } else { 120 };
        (begin..begin + 20).contains(&step)
    };
    let mut placed = [0, 0];
    for step in 0..400 {
        let mut sent = world.pass(MS(100));
        sent.extend(world.receive(CALLER, &invite(&format!("b{step}"))));
        let mut answered = false;
        while let Some(one) = sent.pop() {
            let at = one.to.starts_with("192.0.2.").then(|| world.node(&one));
            match (one.start().split(' ').next().unwrap_or(""), at) {
                ("OPTIONS" | "INVITE", Some(at)) if stops(at, step) => {
                    sent.extend(world.answer(&one, FULL, "Retry-After: 30\r\n"));
                }
                ("INVITE", Some(at)) => {
                    placed[usize::from(at.0)] += 1;
                    answered |= finals(&world.answer(&one, "486 Busy Here", "")).len() == 1;
                }
                ("OPTIONS", _) => drop(world.answer(&one, "200 OK", "")),
                ("ACK", _) => {}
                other => panic!("{step}: {other:?} {one:?}"),
            }
        }
        assert!(answered, "{step}");
        // Both have their part again soon.
        if step == 200 {
            assert_eq!(open(&world), 2);
        }
    }
    assert!(placed[0] > 100 && placed[1] > 100, "{placed:?}");
    assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
}

#[test]
fn what_one_node_refuses_another_one_gets() {
    for more in ["Retry-After: 9\r\n", ""] {
        let mut world = World::new();
        let first = world.one(CALLER, &invite("c1"));
        // That it has it is nothing that a caller hears.
        world.answer(&first, "100 Trying", "");
        let sent = world.answer(&first, FULL, more);
        let second = went_on(&world, &sent, &first);
        assert_eq!(world.load(), (1, 1));
        // Its refusal comes again, because the ACK was lost, and the INVITE of the caller.
        let again = world.answer(&first, FULL, more);
        assert_eq!((again.len(), again[0].start(), &again[0].to), (1, sent[0].start(), &first.to));
        assert_eq!(world.one(CALLER, &invite("c1")).to, second.to);
        assert_eq!(finals(&world.answer(&second, "200 OK", "")), ["SIP/2.0 200 OK"]);
        let report = world.balancer.report(true);
        assert_eq!((world.load(), report.exact, report.events.retried), ((1, 0), Some(true), 1));
        assert_eq!((report.kept, report.counts.softened), (1, 0), "who has refused it may say so again");
        world.seconds(60);
        assert_eq!(world.balancer.report(true).kept, 0);
    }
}

#[test]
fn each_node_has_it_once_and_no_more_than_three() {
    for (count, most) in [(2, 2), (6, 3)] {
        let mut world = World::with(nodes(count), keys(2), settings());
        let mut had = vec![world.one(CALLER, &invite("d1"))];
        let back = loop {
            let last = had.last().expect("one").clone();
            let sent = world.answer(&last, FULL, "");
            if sent[0].to == CALLER {
                break sent;
            }
            had.push(went_on(&world, &sent, &last));
        };
        assert_eq!(finals(&back), ["SIP/2.0 500 Server Internal Error"]);
        let mut nodes: Vec<&str> = had.iter().map(|m| m.to.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!((nodes.len(), had.len()), (most, most));
        assert_eq!((world.load(), world.balancer.report(true).exact), ((0, 0), Some(true)));
        world.seconds(60);
        assert_eq!(world.balancer.report(true).kept, 0);
    }
}

#[test]
fn refusal_is_final_after_ringing_or_cancel() {
    for rang in [true, false] {
        let mut world = World::new();
        let first = world.one(CALLER, &invite("e1"));
        match rang {
            true => drop(world.answer(&first, "180 Ringing", "")),
            false => drop(world.one(CALLER, &request("CANCEL", "e1", 1, "e1", "", ""))),
        }
        let back = world.answer(&first, FULL, "Retry-After: 9\r\n");
        assert_eq!((back.len(), finals(&back)), (1, vec!["SIP/2.0 500 Server Internal Error"]), "{rang}");
        assert_eq!(world.load(), (0, u32::from(!rang)), "the CANCEL");
    }
}

#[test]
fn a_refusal_over_a_stream_goes_on_as_well() {
    let mut world = watched(tcp_nodes(2));
    let first = world.one_tcp(PHONE, &over_tcp(&invite("f1")));
    let sent = world.answer(&first, FULL, "");
    let second = went_on(&world, &sent, &first);
    assert_eq!(finals(&world.answer(&second, "200 OK", "")), ["SIP/2.0 200 OK"]);
}

#[test]
fn who_refuses_without_a_word_of_when_is_asked_at_once() {
    let mut world = watched(nodes(2));
    let first = world.one(CALLER, &invite("g1"));
    world.answer(&first, FULL, "");
    let sent = world.pass(Duration::ZERO);
    assert!(sent.iter().any(|m| m.start().starts_with("OPTIONS ") && m.to == first.to), "{sent:?}");
}

#[test]
fn who_refuses_at_once_does_not_draw_the_calls() {
    for algorithm in [Algorithm::Tlwl, Algorithm::Tjsq, Algorithm::Cjsq] {
        for status in ["500 Server Internal Error", FULL] {
            let rules = Rules { outlier_share: 0, ..settings().rules };
            let mut world = World::with(nodes(3), keys(2), Settings { algorithm, rules, ..settings() });
            let (mut bad, mut lost, mut up) = (0, 0, Vec::new());
            for n in 0..400 {
                // Five calls a second, which ring for four and go on for ten.
                world.pass(MS(200));
                let mut sent = world.one(CALLER, &invite(&format!("h{n}")));
                if world.node(&sent).0 == 0 {
                    bad += 1;
                    let back = world.answer(&sent, status, "");
                    lost += finals(&back).len();
                    match status == FULL {
                        true => sent = went_on(&world, &back, &sent),
                        false => continue,
                    }
                }
                world.answer(&sent, "180 Ringing", "");
                up.push(sent);
                if up.len() > 20 {
                    world.answer(&up[up.len() - 20].clone(), "200 OK", "");
                }
            }
            assert!(bad <= 30 && (lost == 0 || status != FULL), "{algorithm:?}, {status}: {bad}, {lost}");
            assert!(bad >= 4, "{algorithm:?}: it is tried again: {bad}");
        }
    }
}

#[test]
fn a_refusal_now_and_then_changes_little() {
    let mut world = World::with(nodes(2), keys(2), settings());
    let mut counts = [0, 0];
    for n in 0..1_000 {
        world.pass(MS(20));
        let sent = world.one(CALLER, &invite(&format!("i{n}")));
        let at = usize::from(world.node(&sent).0);
        counts[at] += 1;
        let refused = at == 0 && counts[0] % 50 == 0;
        world.answer(&sent, if refused { "500 Server Internal Error" } else { "486 Busy Here" }, "");
    }
    assert!(counts[0] > 200, "{counts:?}");
}

#[test]
fn a_copy_that_a_phone_takes_for_one_that_came_by_another_way_is_no_loop_of_the_callers() {
    let mut world = watched(nodes(2));
    world.hears();
    let first = world.one(CALLER, &invite("j1"));
    world.answer(&first, "180 Ringing", "");
    let second = invited(&world.down(&first));
    for _ in 0..2 {
        // Also when it comes again.
        let back = world.answer(&second, "482 Loop Detected", "Retry-After: 9\r\n");
        assert_eq!(finals(&back), ["SIP/2.0 500 Server Internal Error"]);
        assert_eq!(back[0].header("Retry-After"), None);
    }
    // Of one node alone it is what it says.
    let sent = world.one(CALLER, &invite("j2"));
    assert_eq!(finals(&world.answer(&sent, "482 Loop Detected", "")), ["SIP/2.0 482 Loop Detected"]);
}
