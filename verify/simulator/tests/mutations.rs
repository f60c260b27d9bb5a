//! A check that cannot fail checks nothing: each is shown to find the mistake that it is there for.

use simulator::{Check, Mutation, Options, Weather, run, run_twice};

/// Plays seeds with a mistake until one is found. All that are found must be of these kinds.
fn finds(mutation: Mutation, weather: Weather, checks: &[Check]) {
    let options = Options { mutation: Some(mutation), weather: Some(weather), keep: 10 };
    let mut found = 0;
    for seed in 1..=40 {
        if let Err(failure) = run(seed, &options) {
            let check = failure.violation.check;
            assert!(checks.contains(&check), "{mutation:?} should be found by {checks:?}:\n{failure}");
            assert!(
                failure.to_string().contains(&format!("SIM_SEED={seed}")),
                "it says how to play it again"
            );
            found += 1;
        }
        if found == 3 {
            return;
        }
    }
    panic!("{mutation:?} was found in {found} of 40 seeds");
}

#[test]
fn a_response_to_another_phone() {
    finds(Mutation::Misroute, Weather::Quiet, &[Check::RightPeer]);
}

#[test]
fn a_second_final_response() {
    finds(Mutation::SecondFinal, Weather::Quiet, &[Check::OneFinal]);
}

#[test]
fn a_provisional_response_after_the_final_one() {
    finds(Mutation::ForeignAnswer, Weather::Quiet, &[Check::OneFinal]);
}

/// Whatever becomes of the call: another phone may take it.
#[test]
fn translated_phone_that_is_not_called_is_found() {
    let options =
        Options { mutation: Some(Mutation::Unreached), weather: Some(Weather::Quiet), ..Options::default() };
    let found = (1..=100)
        .filter_map(|seed| run(seed, &options).err())
        .filter(|failure| failure.violation.check == Check::CallSucceeds)
        .filter(|failure| failure.violation.detail.contains("was not called"));
    assert!(found.count() >= 5);
}

#[test]
fn a_request_to_a_third_party() {
    finds(Mutation::Relay, Weather::Quiet, &[Check::NoRelay]);
}

#[test]
fn a_forbidden_request_that_is_forwarded() {
    finds(Mutation::Open, Weather::Quiet, &[Check::NoRelay]);
}

#[test]
fn a_malformed_request() {
    finds(Mutation::Garble, Weather::Quiet, &[Check::WellFormed]);
}

#[test]
fn calls_that_do_not_get_their_answer() {
    finds(Mutation::SwallowFinals, Weather::Quiet, &[Check::NoHang, Check::CallSucceeds]);
    finds(Mutation::SwallowFinals, Weather::Lossy, &[Check::NoHang]);
}

#[test]
fn a_store_that_forgets() {
    finds(Mutation::DropCommit, Weather::Stormy, &[Check::BindingKept]);
}

#[test]
fn timers_that_stand_still() {
    finds(Mutation::StopTimers, Weather::Lossy, &[Check::NoLeak]);
}

#[test]
fn bindings_that_live_for_ever() {
    finds(Mutation::KeepExpired, Weather::Quiet, &[Check::BindingEnds]);
}

#[test]
fn bindings_of_strangers() {
    finds(Mutation::Stranger, Weather::Quiet, &[Check::BindingEnds]);
}

#[test]
fn location_service_without_bindings_is_found() {
    finds(Mutation::NoBindings, Weather::Quiet, &[Check::CallSucceeds]);
}

#[test]
fn records_that_are_lost_or_late_are_found() {
    finds(Mutation::LoseRecord, Weather::Quiet, &[Check::RecordTrue]);
    finds(Mutation::LateRecord, Weather::Quiet, &[Check::RecordTrue]);
}

#[test]
fn a_run_without_end() {
    finds(Mutation::Loop, Weather::Quiet, &[Check::Terminates]);
}

#[test]
fn a_run_that_is_not_the_same_again() {
    let plain = Options::default();
    let jitter = Options { mutation: Some(Mutation::Jitter), ..plain };
    let differs = |seed: &u64| run_twice(*seed, &plain, &jitter).err().map(|f| f.violation.check);
    let found = (1..=10u64).filter_map(|seed| differs(&seed)).collect::<Vec<_>>();
    assert!(found.len() >= 5 && found.iter().all(|c| *c == Check::SameBytes), "{found:?}");
    assert!((1..=10).all(|seed| run_twice(seed, &plain, &plain).is_ok()));
}
