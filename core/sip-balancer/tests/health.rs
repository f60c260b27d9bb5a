//! What probes and responses say of how a node is: alive, overloaded, and by how much (RFC 7339).

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// One that probes every second.
fn probing(count: u8) -> World {
    World::with(nodes(count), keys(2), Settings { probing: Probing::default(), ..settings() })
}

/// Passes time in small steps; each probe is answered as this says of its node, or not at all.
fn watch(world: &mut World, ms: u64, answer: impl Fn(NodeIndex) -> Option<(&'static str, &'static str)>) {
    for _ in 0..ms / 50 {
        for probe in world.pass(MS(50)).iter().filter(|m| m.start().starts_with("OPTIONS")) {
            if let Some((status, more)) = answer(world.node(probe)) {
                world.answer(probe, status, more);
            }
        }
    }
}

const ONE: NodeIndex = NodeIndex(0);
const OTHER: NodeIndex = NodeIndex(1);

#[test]
fn a_node_that_answers_a_probe_with_503_keeps_its_dialogs_and_gets_nothing_new() {
    for wait in ["", "Retry-After: 30\r\n"] {
        let mut world = probing(2);
        watch(&mut world, 2_000, |_| Some(("200 OK", "")));
        let calls: Vec<(Sent, String)> = (0..4).map(|n| call(&mut world, &format!("a{n}"))).collect();
        watch(&mut world, 10_000, |at| {
            Some(if at == ONE { ("503 Service Unavailable", wait) } else { ("200 OK", "") })
        });
        assert_eq!(world.cluster.health(ONE).0, Health::Up);
        assert_eq!(world.cluster.reason(world.now, ONE), Why::Overloaded);
        assert!(!world.cluster.takes_calls(world.now, ONE) && world.cluster.is_usable(world.now, ONE));
        for n in 0..4 {
            let sent = world.one(CALLER, &invite(&format!("b{n}")));
            assert_eq!(world.node(&sent), OTHER);
        }
        let (mut moved, mut here) = (0, 0);
        for (n, (sent, route)) in calls.iter().enumerate() {
            let bye = world
                .one(CALLER, &request("BYE", &format!("a{n}"), 2, &format!("a{n}b"), ";tag=callee", route));
            moved += u32::from(bye.to != sent.to);
            here += u32::from(world.node(&bye) == ONE);
        }
        assert_eq!(moved, 0);
        assert!(here > 0, "some of the calls are there");
        assert_eq!(world.balancer.report(true).events.moved, 0);
        // It is well again, and has rested.
        watch(&mut world, 31_000, |_| Some(("200 OK", "")));
        assert!(world.cluster.takes_calls(world.now, ONE));
    }
}

/// Two probes are lost, and the node answers a call between them.
#[test]
fn node_that_answers_a_call_between_lost_probes_stays_up() {
    for (calls, up) in [(true, Health::Up), (false, Health::Down)] {
        let mut world = probing(1);
        watch(&mut world, 2_000, |_| Some(("200 OK", "")));
        // The first one is lost, and its time passes.
        watch(&mut world, 800, |_| None);
        assert_eq!(world.cluster.health(ONE).0, Health::Up);
        if calls {
            call(&mut world, "a");
        }
        watch(&mut world, 900, |_| None);
        assert_eq!(world.cluster.health(ONE).0, up, "{calls}");
        watch(&mut world, 2_000, |_| None);
        assert_eq!(world.cluster.health(ONE).0, Health::Down);
    }
}

#[test]
fn a_good_answer_to_a_probe_ends_what_was_asked_for_before() {
    // What a call was told before a probe was, and after it.
    for (before, after) in [(0, 0), (0, 610), (60, 0)] {
        let mut world = probing(2);
        let told = |world: &World, seconds| {
            world.cluster.rest(world.now, ONE, Duration::from_secs(seconds), Why::Overloaded);
        };
        watch(&mut world, 2_000, |_| Some(("200 OK", "")));
        told(&world, before);
        // It stops, and says so: to probes, and perhaps to a call as well.
        let wait = "Retry-After: 600\r\n";
        watch(&mut world, 5_000, |at| {
            Some(if at == ONE { ("503 Service Unavailable", wait) } else { ("200 OK", "") })
        });
        assert!(!world.cluster.takes_calls(world.now, ONE), "nobody ends that");
        told(&world, after);
        watch(&mut world, 1_100, |_| Some(("200 OK", "")));
        assert_eq!(
            world.cluster.takes_calls(world.now, ONE),
            after == 0,
            "what a call was told holds a little"
        );
        watch(&mut world, 2_000, |_| Some(("200 OK", "")));
        assert!(world.cluster.takes_calls(world.now, ONE), "and no longer");
    }
}

#[test]
fn who_is_well_only_when_it_is_asked_is_tried_more_and_more_seldom() {
    let mut world = probing(2);
    watch(&mut world, 2_000, |_| Some(("200 OK", "")));
    let mut rests = Vec::new();
    for _ in 0..7 {
        world.cluster.rest(world.now, ONE, Duration::from_secs(600), Why::Overloaded);
        let begin = world.now;
        while !world.cluster.takes_calls(world.now, ONE) {
            watch(&mut world, 50, |_| Some(("200 OK", "")));
        }
        rests.push(world.now.since(begin).as_millis().div_ceil(1_000));
    }
    assert_eq!(rests, [2, 4, 8, 16, 32, 32, 32]);
    // After a longer time without it is as at first.
    watch(&mut world, 200_000, |_| Some(("200 OK", "")));
    world.cluster.rest(world.now, ONE, Duration::from_secs(600), Why::Overloaded);
    watch(&mut world, 2_100, |_| Some(("200 OK", "")));
    assert!(world.cluster.takes_calls(world.now, ONE));
    // Not longer than it has said.
    world.cluster.rest(world.now, ONE, Duration::from_secs(1), Why::Overloaded);
    watch(&mut world, 1_000, |_| None);
    assert!(world.cluster.takes_calls(world.now, ONE));
}

#[test]
fn a_node_that_was_down_and_is_overloaded_is_there() {
    let mut world = probing(2);
    watch(&mut world, 2_000, |_| Some(("200 OK", "")));
    let (sent, route) = call(&mut world, "c1");
    let at = world.node(&sent);
    watch(&mut world, 10_000, |other| (other != at).then_some(("200 OK", "")));
    assert_eq!(world.cluster.health(at).0, Health::Down);
    watch(&mut world, 4_000, |other| {
        Some(if other == at { ("503 Service Unavailable", "") } else { ("200 OK", "") })
    });
    assert_eq!(world.cluster.health(at).0, Health::Up);
    assert!(!world.cluster.takes_calls(world.now, at));
    let bye = world.one(CALLER, &request("BYE", "c1", 2, "c1b", ";tag=callee", &route));
    assert_eq!(bye.to, sent.to);
}

#[test]
fn a_node_that_answers_everything_but_probes_is_not_down() {
    let mut world = probing(2);
    watch(&mut world, 2_000, |_| Some(("200 OK", "")));
    for n in 0..40 {
        // It has something to say after each probe, and before that is given up.
        for k in 0..4 {
            let sent = world.one(CALLER, &invite(&format!("d{n}-{k}")));
            world.answer(&sent, "486 Busy Here", "");
        }
        watch(&mut world, 250, |at| (at == OTHER).then_some(("200 OK", "")));
    }
    assert_eq!(world.cluster.health(ONE).0, Health::Up);
    // Nothing is heard any more.
    watch(&mut world, 5_000, |at| (at == OTHER).then_some(("200 OK", "")));
    assert_eq!(world.cluster.health(ONE), (Health::Down, Why::ProbeTimeout));
}

#[test]
fn a_probe_that_is_refused_otherwise_still_says_that_a_node_is_not_well() {
    let mut world = probing(2);
    watch(&mut world, 6_000, |at| Some(if at == ONE { ("500 Broken", "") } else { ("200 OK", "") }));
    assert_eq!(world.cluster.health(ONE), (Health::Down, Why::ProbeRefused));
}

/// What a node that speaks of its overload writes into our Via.
fn with_wish(text: &str, wish: &str) -> String {
    text.replacen(";oc;oc-algo=\"loss\"", wish, 1)
}

/// Answers as [`World::answer`], with a wish.
fn says(world: &mut World, sent: &Sent, status: &str, wish: &str) -> Vec<Sent> {
    let text = with_wish(&response(sent, status, ""), wish);
    world.receive(&sent.to, &text)
}

/// All probes of two seconds are answered, by those nodes with a wish.
fn speak(world: &mut World, who: &[NodeIndex], wish: &str) {
    for _ in 0..40 {
        for probe in world.pass(MS(50)) {
            if who.contains(&world.node(&probe)) {
                assert!(probe.header("Via").expect("a Via").contains(";oc;oc-algo=\"loss\""), "{probe:?}");
                says(world, &probe, "200 OK", wish);
            } else {
                world.answer(&probe, "200 OK", "");
            }
        }
    }
}

const WELL: &str = ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=1.1";

fn loss(percent: u32, sequence: u32) -> String {
    format!(";oc={percent};oc-algo=\"loss\";oc-validity=5000;oc-seq=1.{sequence:05}")
}

/// `count` new calls, each refused by its node: how many went to each of two nodes, and how many to none.
fn spread(world: &mut World, name: &str, count: u32) -> [u32; 3] {
    let mut all = [0; 3];
    for n in 0..count {
        let sent = world.one(CALLER, &invite(&format!("{name}{n}")));
        if sent.to == CALLER {
            assert_eq!((sent.start(), sent.header("Retry-After")), ("SIP/2.0 503 Service Unavailable", None));
            all[2] += 1;
            continue;
        }
        all[usize::from(world.node(&sent).0)] += 1;
        world.answer(&sent, "486 Busy Here", "");
    }
    all
}

fn fair(count: u8) -> World {
    let settings = Settings {
        probing: Probing::default(),
        algorithm: Algorithm::RoundRobin,
        rules: Rules { slow_start: Duration::ZERO, outlier_share: 0, ..settings().rules },
        ..settings()
    };
    World::with(nodes(count), keys(2), settings)
}

#[test]
fn only_who_has_shown_that_it_knows_is_asked() {
    let mut world = fair(2);
    speak(&mut world, &[ONE], WELL);
    assert!(world.cluster.speaks(ONE) && !world.cluster.speaks(OTHER));
    for n in 0..4 {
        let sent = world.one(CALLER, &invite(&format!("e{n}")));
        let via = sent.header("Via").unwrap();
        assert_eq!(via.ends_with(";oc;oc-algo=\"loss\""), world.node(&sent) == ONE, "{via}");
        // Whoever is behind the other one has no say here.
        if world.node(&sent) == OTHER {
            let text = response(&sent, "486 Busy Here", "");
            let branch = sent.branch();
            let text = text.replacen(branch, &format!("{branch}{}", loss(100, 9)), 1);
            world.receive(&sent.to, &text);
        }
    }
    assert_eq!(spread(&mut world, "f", 100), [50, 50, 0]);
    // It is another one by now, which does not.
    watch(&mut world, 2_000, |_| Some(("200 OK", "")));
    assert!(!world.cluster.speaks(ONE));
}

#[test]
fn what_a_node_asks_to_leave_away_others_get() {
    let mut world = fair(2);
    speak(&mut world, &[ONE, OTHER], WELL);
    assert_eq!(spread(&mut world, "g", 100), [50, 50, 0]);
    let sent = loop {
        let sent = world.one(CALLER, &invite(&format!("g-{}", world.now.as_micros())));
        world.now = world.now + MS(1);
        if world.node(&sent) == ONE {
            break sent;
        }
    };
    assert_eq!(says(&mut world, &sent, "486 Busy Here", &loss(40, 1)).len(), 1);
    let all = spread(&mut world, "h", 1_000);
    // Of 500 it gets 300.
    assert!((260..=340).contains(&all[0]) && all[2] == 0, "{all:?}");
    assert_eq!(u64::from(500 - all[0]), world.balancer.report(true).events.held_back);
    // A REGISTER leaves its home in the same way, and nothing that was begun does.
    let homes: Vec<NodeIndex> = (0..200)
        .map(|n| {
            let text = request("REGISTER", &format!("r{n}"), 1, &format!("r{n}"), "", "");
            let text = text.replace("To: <sip:bob@", &format!("To: <sip:u{n}@"));
            let sent = world.one(CALLER, &text);
            world.answer(&sent, "200 OK", "");
            world.node(&sent)
        })
        .collect();
    let here = homes.iter().filter(|at| **at == ONE).count();
    assert!((35..=85).contains(&here), "{here} of about a hundred");
    // It is over by itself.
    for _ in 0..60 {
        world.pass(MS(100));
    }
    world.cluster.set_up(ONE);
    world.cluster.set_up(OTHER);
    assert_eq!(spread(&mut world, "i", 100), [50, 50, 0]);
}

#[test]
fn where_all_ask_for_less_callers_are_refused_and_calls_go_on() {
    let mut world = fair(2);
    speak(&mut world, &[ONE, OTHER], WELL);
    let (sent, route) = call(&mut world, "j0");
    for (n, at) in [ONE, OTHER].into_iter().enumerate() {
        let sent = loop {
            let sent = world.one(CALLER, &invite(&format!("j-{}", world.now.as_micros())));
            world.now = world.now + MS(1);
            if world.node(&sent) == at {
                break sent;
            }
        };
        says(&mut world, &sent, "486 Busy Here", &loss(50, 1 + n as u32));
    }
    let all = spread(&mut world, "k", 1_000);
    assert!((440..=560).contains(&all[2]), "{all:?}");
    for n in 0..20 {
        let info = world.one(CALLER, &request("INFO", "j0", 2 + n, &format!("j{n}i"), ";tag=callee", &route));
        assert_eq!(info.to, sent.to);
        world.answer(&info, "200 OK", "");
    }
    // A late word of theirs changes nothing.
    assert_eq!(world.balancer.report(true).exact, Some(true));
    // Credentials go where they were asked for.
    let first =
        (0..50).map(|n| world.one(CALLER, &invite(&format!("l{n}")))).find(|m| m.to != CALLER).unwrap();
    world.answer(&first, "407 Proxy Authentication Required", "");
    let name = first.header("Call-ID").unwrap().to_owned();
    let again = world.one(CALLER, &request("INVITE", &name, 2, &format!("{name}a"), "", ""));
    assert_eq!(again.to, first.to);
}

#[test]
fn a_refused_call_stays_refused() {
    let mut world = fair(2);
    speak(&mut world, &[ONE, OTHER], WELL);
    for (n, at) in [ONE, OTHER].into_iter().enumerate() {
        let sent = loop {
            let sent = world.one(CALLER, &invite(&format!("m-{}", world.now.as_micros())));
            world.now = world.now + MS(1);
            if world.node(&sent) == at {
                break sent;
            }
        };
        says(&mut world, &sent, "486 Busy Here", &loss(50, 1 + n as u32));
    }
    // A caller may have had the 503 when another copy of its INVITE comes.
    for n in 0..100 {
        let text = invite(&format!("n{n}"));
        if world.one(CALLER, &text).to == CALLER {
            for _ in 0..8 {
                world.now = world.now + MS(10);
                let sent = world.one(CALLER, &text);
                assert_eq!(
                    (sent.to == CALLER, sent.start()),
                    (true, "SIP/2.0 503 Service Unavailable"),
                    "n{n}"
                );
            }
        }
    }
}

#[test]
fn what_got_408_gets_nothing_else_while_nodes_ask_for_less() {
    let mut world = fair(1);
    speak(&mut world, &[ONE], WELL);
    let first = world.one(CALLER, &invite("q0"));
    world.answer(&first, "180 Ringing", "");
    let mut ends = Vec::new();
    for _ in 0..20 * 200 {
        let sent = world.pass(MS(50));
        for probe in sent.iter().filter(|m| m.start().starts_with("OPTIONS")) {
            says(&mut world, probe, "200 OK", WELL);
        }
        ends.extend(finals(&sent).into_iter().map(str::to_owned));
    }
    assert_eq!(ends, ["SIP/2.0 408 Request Timeout"]);
    // Its transaction is forgotten, and then its node wants nothing new.
    for n in 0..20 {
        let text = request("INFO", "q0", 10 + n, &format!("q0{n}"), ";tag=callee", "");
        let info = world.one(CALLER, &text);
        says(&mut world, &info, "200 OK", &loss(100, 1 + n));
    }
    assert!(spread(&mut world, "s", 100)[2] > 80);
    for _ in 0..20 {
        world.now = world.now + MS(10);
        let again = world.one(CALLER, &invite("q0"));
        assert_eq!((again.start(), again.to.as_str()), ("SIP/2.0 408 Request Timeout", CALLER));
    }
}

#[test]
fn a_copy_of_what_was_answered_says_nothing_of_its_node() {
    let mut world = fair(2);
    speak(&mut world, &[ONE, OTHER], WELL);
    let sent = world.one(CALLER, &invite("o0"));
    says(&mut world, &sent, "486 Busy Here", WELL);
    says(&mut world, &sent, "486 Busy Here", &loss(95, 9));
    let all = spread(&mut world, "p", 100);
    assert!(all[0].abs_diff(all[1]) <= 2 && all[2] == 0, "{all:?}");
}

#[test]
fn a_registration_with_credentials_goes_to_who_asked_for_them() {
    let mut world = fair(2);
    speak(&mut world, &[ONE, OTHER], WELL);
    let sent = loop {
        let sent = world.one(CALLER, &invite(&format!("q-{}", world.now.as_micros())));
        world.now = world.now + MS(1);
        if world.node(&sent) == ONE {
            break sent;
        }
    };
    says(&mut world, &sent, "486 Busy Here", &loss(90, 1));
    for n in 0..100 {
        let text = |cseq| {
            let text = request("REGISTER", &format!("s{n}"), cseq, &format!("s{n}-{cseq}"), "", "");
            text.replace("To: <sip:bob@", &format!("To: <sip:v{n}@"))
        };
        let first = world.one(CALLER, &text(1));
        world.answer(&first, "401 Unauthorized", "");
        let second = world.one(CALLER, &text(2));
        assert_eq!(second.to, first.to, "s{n}");
        world.answer(&second, "200 OK", "");
    }
}

/// How many of 100 REGISTERs of different users go to one of three nodes, which refuses each with 500 while
/// the others accept, before and after the nodes are judged.
fn failing_registrations(outlier_share: u8) -> [usize; 2] {
    let rules = Rules { outlier_share, ..settings().rules };
    let mut world = World::with(nodes(3), keys(2), Settings { rules, ..settings() });
    [0, 1].map(|round| {
        let mut failing = 0;
        for n in 0..100 {
            let call = format!("r{round}-{n}");
            let text = request("REGISTER", &call, 1, &call, "", "");
            let sent = world.one(CALLER, &text.replace("sip:bob@", &format!("sip:user{n}@")));
            let fails = world.node(&sent) == ONE;
            failing += usize::from(fails);
            world.answer(&sent, if fails { "500 Server Internal Error" } else { "200 OK" }, "");
        }
        world.seconds(11);
        let last = world.one(CALLER, &request("REGISTER", &format!("s{round}"), 1, "s", "", ""));
        world.answer(&last, "200 OK", "");
        failing
    })
}

#[test]
fn node_that_fails_registrations_loses_them_as_an_outlier() {
    let [before, after] = failing_registrations(Rules::default().outlier_share);
    assert!((25..45).contains(&before) && after == 0, "{before} {after}");
    assert_eq!(failing_registrations(0), [before; 2]);
}

#[test]
fn nobody_is_asked_where_that_is_off() {
    let mut world = World::with(
        nodes(1),
        keys(2),
        Settings { overload_control: false, probing: Probing::default(), ..settings() },
    );
    let probe = world.pass(MS(0)).remove(0);
    assert!(!probe.text.contains(";oc"));
    let text = response(&probe, "200 OK", "");
    let text = text.replacen(";rport", &format!(";rport{}", loss(100, 1)), 1);
    world.receive(&probe.to, &text);
    assert!(!world.cluster.speaks(ONE));
    assert_eq!(spread(&mut world, "m", 20), [20, 0, 0]);
}

#[test]
fn a_removed_node_that_was_down_has_its_dialogs_when_it_is_back() {
    let mut world = probing(2);
    let (first, route) = call(&mut world, "ra");
    // One that knows the call by its token alone.
    let mut world = probing(2);
    let at = world.node(&first);
    world.cluster.set_down(at, Why::ProbeTimeout);
    world.cluster.remove(world.now, at);
    let mut sent = Vec::new();
    for _ in 0..5 {
        for probe in sent.iter().filter(|m: &&Sent| m.start().starts_with("OPTIONS")) {
            world.answer(probe, "200 OK", "");
        }
        sent = world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.cluster.health(at).0, Health::Up);
    let bye = world.one(CALLER, &request("BYE", "ra", 2, "rb", ";tag=callee", &route));
    assert_eq!(bye.to, first.to);
    world.answer(&bye, "200 OK", "");
    // What is forgotten is not asked how it is.
    let long = Duration::from_secs(4 * 3_600);
    world.pass(long);
    world.cluster.forget_removed(world.now, long);
    assert!(world.seconds(5).iter().all(|m| m.to != first.to));
}

/// The node that gets a new call.
fn goes(world: &mut World, call: &str) -> NodeIndex {
    let sent = world.one(CALLER, &invite(call));
    world.node(&sent)
}

#[test]
fn the_only_node_that_is_left_gets_calls_though_it_was_ejected() {
    for algorithm in Algorithm::ALL.map(|(_, algorithm)| algorithm) {
        let mut world = World::with(nodes(3), keys(2), Settings { algorithm, ..settings() });
        world.cluster.rest(world.now, ONE, Duration::from_secs(3_600), Why::Outlier);
        world.cluster.set_order(OTHER, Order::Drain);
        assert_eq!(goes(&mut world, "a1"), NodeIndex(2));
        world.cluster.set_down(NodeIndex(2), Why::ProbeTimeout);
        assert_eq!(goes(&mut world, "a2"), ONE, "{algorithm:?}");
        let register = world.one(CALLER, &request("REGISTER", "r1", 1, "r1", "", ""));
        assert_eq!(world.node(&register), ONE);
        let options =
            request("OPTIONS", "o1", 1, "o1", "", "").replace("bob@example.com SIP", "192.0.2.100 SIP");
        assert_eq!(world.one(CALLER, &options).start(), "SIP/2.0 200 OK");
        // What it refuses nobody else takes, for as long as we say ourselves.
        let refused = world.one(CALLER, &invite("a3"));
        let back = world.answer(&refused, "503 Service Unavailable", "Retry-After: 60\r\n");
        assert_eq!(
            (finals(&back), back[0].header("Retry-After")),
            (vec!["SIP/2.0 503 Service Unavailable"], Some("5"))
        );
        // A node is back: it rests again.
        world.cluster.set_order(OTHER, Order::Serve);
        assert_eq!(goes(&mut world, "a4"), OTHER, "{algorithm:?}");
    }
}

#[test]
fn a_node_is_up_after_as_many_good_probes_whichever_worker_found_it_down() {
    let mut world = probing(1);
    watch(&mut world, 10_000, |_| Some(("200 OK", "")));
    // Another worker than the one that goes on asking.
    world.cluster.set_down(ONE, Why::Unreachable);
    let up_after = Probing::default().up_after;
    let mut good = 0;
    while world.cluster.health(ONE).0 == Health::Down {
        for probe in world.pass(MS(50)).iter().filter(|m| m.start().starts_with("OPTIONS")) {
            world.answer(probe, "200 OK", "");
            good += 1;
        }
    }
    assert_eq!(good, up_after);
}
