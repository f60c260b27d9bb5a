//! What is learnt of nodes from how long they take.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A call that is set up in `millis` milliseconds, rings, and is hung up in a fifth of that.
fn rings(world: &mut World, name: &str, millis: u64, goes_on: bool) {
    let invite = world.one(CALLER, &invite(name));
    world.answer(&invite, "100 Trying", "");
    world.pass(MS(millis));
    world.answer(&invite, "180 Ringing", "");
    if goes_on {
        return;
    }
    world.pass(Duration::from_secs(3));
    world.answer(&invite, "200 OK", "");
    let route = format!("Route: {}\r\n", invite.header("Record-Route").expect("a route"));
    let bye = world.one(CALLER, &request("BYE", name, 2, &format!("{name}b"), ";tag=callee", &route));
    world.pass(MS(millis / 5));
    world.answer(&bye, "200 OK", "");
}

#[test]
fn costs_are_learnt_while_calls_ring() {
    let algorithm = Algorithm::TlwlAdaptive;
    let mut world = World::with(nodes(2), keys(2), Settings { algorithm, ..settings() });
    // There is none of the two at which nothing rings.
    (0..10).for_each(|n| rings(&mut world, &format!("a{n}"), 20, true));
    assert!(world.cluster.indexes().all(|at| world.cluster.load(at).transactions() > 2));
    assert_eq!(world.balancer.report(true).costs[..2], [1_750, 1_000]);
    (0..80).for_each(|n| rings(&mut world, &format!("b{n}"), 20, false));
    let costs = world.balancer.report(true).costs;
    assert!((4_500..5_500).contains(&costs[0]) && costs[1] == 1_000, "{costs:?}");
    // What comes while another one is worked on says nothing.
    let before = world.balancer.report(true).costs;
    for n in 0..40 {
        let sent: Vec<Sent> = (0..6).map(|m| world.one(CALLER, &invite(&format!("c{n}-{m}")))).collect();
        world.pass(MS(900));
        sent.iter().for_each(|invite| drop(world.answer(invite, "486 Busy Here", "")));
    }
    assert_eq!(world.balancer.report(true).costs, before);
    assert_eq!(world.balancer.report(true).exact, Some(true));
}

#[test]
fn a_response_time_is_that_of_the_first_answer_that_shows_work() {
    let mut world = World::with(nodes(1), keys(2), settings());
    (0..50).for_each(|n| rings(&mut world, &format!("a{n}"), 20, false));
    let stats = &world.balancer.report(true).nodes[0];
    let [invite, bye] = [Kind::Invite, Kind::Bye].map(|kind| stats.times[kind as usize].clone());
    assert_eq!((invite.count, bye.count), (50, 50));
    assert!((20_000..25_001).contains(&invite.quantile(1.0)) && bye.quantile(1.0) < 6_000);
}
