//! What theory promises of the algorithms, in the testbed of the paper.

#[path = "../examples/paper/model.rs"]
#[allow(dead_code, reason = "the example shows more than the tests ask for")]
mod model;

use model::{Outcome, Setup, run};
use sip_balancer::Algorithm;

fn short(algorithm: Algorithm, count: usize, load: f64) -> Setup {
    Setup { warm: 12.0, seconds: 15.0, hold: (4.0, 2.0), ..Setup::new(algorithm, count, load) }
}

fn at(algorithm: Algorithm, load: f64) -> Outcome {
    run(&short(algorithm, 8, load))
}

#[test]
fn who_looks_at_the_work_answers_much_faster_than_who_does_not() {
    let [tlwl, tjsq, hash, turns] =
        [Algorithm::Tlwl, Algorithm::Tjsq, Algorithm::FnvHash, Algorithm::RoundRobin]
            .map(|a| at(a, 0.8).invite);
    assert!(tlwl * 2.0 < hash && tjsq * 2.0 < hash, "{tlwl} {tjsq} {hash}");
    assert!(tlwl * 1.3 < turns && turns < hash, "{tlwl} {turns} {hash}");
    // At rest they are all the same: the time of service.
    let [tlwl, hash] = [Algorithm::Tlwl, Algorithm::FnvHash].map(|a| at(a, 0.05).invite);
    assert!((tlwl - hash).abs() < tlwl * 0.15 && (0.0018..0.0028).contains(&tlwl), "{tlwl} {hash}");
}

#[test]
fn a_server_that_stalls_is_passed_by() {
    let stalls = Some((20.0, 1.0));
    let [tlwl, hash] = [Algorithm::Tlwl, Algorithm::FnvHash]
        .map(|a| run(&Setup { stalls, seconds: 40.0, ..short(a, 8, 0.3) }).invite);
    assert!(tlwl * 4.0 < hash, "{tlwl} {hash}");
}

#[test]
fn unequal_servers_get_what_they_can_do_without_being_told() {
    // 405 calls/s of 450: half of it is more than the smaller one can do.
    let share = |algorithm| {
        let outcome = run(&Setup { speeds: vec![1.0, 0.5], rate: 405.0, ..short(algorithm, 2, 0.5) });
        (outcome.shares[0] as f64 / outcome.shares.iter().sum::<u64>() as f64, outcome.invite)
    };
    let (tlwl, quick) = share(Algorithm::Tlwl);
    assert!((0.6..0.72).contains(&tlwl), "{tlwl}");
    let (turns, slow) = share(Algorithm::RoundRobin);
    assert!((0.49..0.51).contains(&turns) && quick * 5.0 < slow, "{turns} {quick} {slow}");
}

#[test]
fn unequal_servers_are_used_up_to_what_they_have() {
    // 94 % of what both can do together, and two thirds, at which the smaller one has all it can do.
    let at = |algorithm, part: f64| {
        let setup = Setup { speeds: vec![1.0, 0.5], rate: 450.0 * part, ..short(algorithm, 2, 0.5) };
        run(&Setup { seconds: 30.0, ..setup }).failed
    };
    assert!(at(Algorithm::Tlwl, 0.94) <= 1e-4);
    assert!(at(Algorithm::RoundRobin, 0.72) > 0.01);
}

#[test]
fn one_seed_is_one_result() {
    let one = || at(Algorithm::RoundRobin, 0.6).invite.to_bits();
    assert_eq!(one(), one());
}

#[test]
fn who_repeats_what_a_stalled_server_does_not_answer_gives_it_more_to_do() {
    let at = |algorithm, repeats| {
        let setup = Setup { stalls: Some((20.0, 1.0)), repeats, seconds: 40.0, ..short(algorithm, 8, 0.7) };
        run(&setup)
    };
    let [quiet, loud] = [None, Some(0.5)].map(|repeats| at(Algorithm::FnvHash, repeats));
    assert!(quiet.repeated == 0 && loud.repeated > 100, "{}", loud.repeated);
    assert!(loud.invite > quiet.invite, "{} {}", loud.invite, quiet.invite);
    // Who is given nothing new meanwhile is asked again for less.
    let tlwl = at(Algorithm::Tlwl, Some(0.5));
    assert!(tlwl.repeated * 2 < loud.repeated, "{} {}", tlwl.repeated, loud.repeated);
}
