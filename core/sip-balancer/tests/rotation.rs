//! The secret of two balancers is changed while both serve: what one has sealed the other reads, at every
//! step.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::token::{Key, Keys};

/// What seals, and what else is read.
type Secrets = (u8, Option<u8>);

const OLD: u8 = 1;
const NEW: u8 = 2;
const ONLY_OLD: Secrets = (OLD, None);
const KNOWS_NEW: Secrets = (OLD, Some(NEW));
const SEALS_NEW: Secrets = (NEW, Some(OLD));

/// A balancer that was just started.
fn started((current, previous): Secrets) -> World {
    let key = |epoch: u8| Key { epoch, secret: [epoch; 16] };
    // As the program makes it: of the secret that seals.
    let keys = Keys { current: key(current), previous: previous.map(key), hash: [current + 40; 16] };
    World::with(nodes(2), keys, settings())
}

/// A call that is up: its name, its node and its route.
type Up = (String, String, String);

fn begin(world: &mut World, name: &str) -> Up {
    let (sent, route) = call(world, name);
    (name.to_owned(), sent.to, route)
}

/// What becomes of a request of this call.
fn goes(world: &mut World, (name, _, route): &Up) -> Sent {
    world.one(CALLER, &request("INFO", name, 2, &format!("{name}info"), ";tag=callee", route))
}

#[test]
fn a_secret_that_both_know_before_either_uses_it_loses_no_dialog() {
    let steps = [
        [ONLY_OLD, ONLY_OLD],
        [KNOWS_NEW, ONLY_OLD],
        [KNOWS_NEW, KNOWS_NEW],
        [SEALS_NEW, KNOWS_NEW],
        [SEALS_NEW, SEALS_NEW],
    ];
    let mut calls = Vec::new();
    for (step, secrets) in steps.into_iter().enumerate() {
        // Whichever was started anew has nothing but what messages say.
        let mut both = secrets.map(started);
        for (at, world) in both.iter_mut().enumerate() {
            calls.push(begin(world, &format!("s{step}-{at}")));
        }
        for (at, up) in calls.iter().flat_map(|up| [(0, up), (1, up)]) {
            assert_eq!(goes(&mut both[at], up).to, up.1, "step {step}, {} at {at}", up.0);
        }
        // What one has asked a node, the other passes back.
        for (from, to) in [(0, 1), (1, 0)] {
            let sent = both[from].one(CALLER, &invite(&format!("r{step}-{from}")));
            assert_eq!(both[to].answer(&sent, "180 Ringing", "")[0].to, CALLER, "step {step}, from {from}");
        }
    }
}

#[test]
fn a_secret_that_the_other_does_not_know_yet_is_refused_there() {
    let mut both = [SEALS_NEW, ONLY_OLD].map(started);
    let up = begin(&mut both[0], "a");
    assert_eq!(goes(&mut both[1], &up).start(), "SIP/2.0 403 Dialog Not Of This Balancer");
    let sent = both[0].one(CALLER, &invite("b"));
    assert!(both[1].answer(&sent, "180 Ringing", "").is_empty());
}

#[test]
fn a_cancel_finds_its_invite_by_the_old_secret_too() {
    let none = "481 Call/Transaction Does Not Exist";
    for (before, after) in [(KNOWS_NEW, SEALS_NEW), (SEALS_NEW, KNOWS_NEW), (ONLY_OLD, KNOWS_NEW)] {
        let forwarded = started(before).one(CALLER, &invite("c1"));
        let mut world = started(after);
        let sent = world.receive(CALLER, &request("CANCEL", "c1", 1, "c1", "", ""));
        assert_eq!(sent.len(), 4, "two nodes, two secrets: {sent:?}");
        let has_it = |m: &&Sent| m.to == forwarded.to && m.branch() == forwarded.branch();
        let mine = sent.iter().find(has_it).expect("one with the branch of the INVITE").clone();
        let refused: usize =
            sent.iter().filter(|m| **m != mine).map(|m| world.answer(m, none, "").len()).sum();
        assert!(refused <= 1, "{refused} refusals");
        assert_eq!(world.answer(&mine, "200 OK", "")[0].start(), "SIP/2.0 200 OK");
        let end = world.answer(&forwarded, "487 Request Terminated", "");
        assert_eq!((end[0].to.as_str(), end[0].start()), (CALLER, "SIP/2.0 487 Request Terminated"));
        // One of nothing has one refusal.
        let sent = world.receive(CALLER, &request("CANCEL", "c2", 1, "c2", "", ""));
        assert_eq!(sent.iter().map(|m| world.answer(m, none, "").len()).sum::<usize>(), 1);
    }
    assert_eq!(started(ONLY_OLD).receive(CALLER, &request("CANCEL", "c3", 1, "c3", "", "")).len(), 2);
}
