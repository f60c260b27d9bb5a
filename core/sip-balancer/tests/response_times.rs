//! What is learnt of nodes from how long they take.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A call that is set up in `millis` milliseconds, rings, and is hung up in a fifth of that.
fn rings(world: &mut World, name: &str, millis: u64) {
    let invite = world.one(CALLER, &invite(name));
    world.answer(&invite, "100 Trying", "");
    world.pass(MS(millis));
    world.answer(&invite, "180 Ringing", "");
    world.pass(Duration::from_secs(3));
    world.answer(&invite, "200 OK", "");
    let route = format!("Route: {}\r\n", invite.header("Record-Route").expect("a route"));
    let bye = world.one(CALLER, &request("BYE", name, 2, &format!("{name}b"), ";tag=callee", &route));
    world.pass(MS(millis / 5));
    world.answer(&bye, "200 OK", "");
}

#[test]
fn a_response_time_is_that_of_the_first_answer_that_shows_work() {
    let mut world = World::with(nodes(1), keys(2), settings());
    (0..50).for_each(|n| rings(&mut world, &format!("a{n}"), 20));
    let stats = &world.balancer.report(true).nodes[0];
    let [invite, bye] = [Kind::Invite, Kind::Bye].map(|kind| stats.times[kind as usize].clone());
    assert_eq!((invite.count, bye.count), (50, 50));
    assert!((20_000..25_001).contains(&invite.quantile(1.0)) && bye.quantile(1.0) < 6_000);
}
