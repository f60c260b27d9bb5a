//! What a population does when things go wrong, and at its edges.

use super::*;
use core::time::Duration;
use wire::Time;

fn population(change: impl Fn(&mut Parameters)) -> Population {
    let mut parameters = Parameters { users: 50, ..Parameters::default() };
    change(&mut parameters);
    Population::new(&parameters, 1, 0, 1, Time::ZERO).expect("possible")
}

/// Everything until `now`; registrations end with `ok`, calls after a second.
fn until(population: &mut Population, now: Time, ok: bool) -> Vec<(Time, Deed)> {
    let mut deeds = Vec::new();
    while let Some(due) = population.next_due().filter(|due| *due <= now) {
        while let Some((at, deed)) = population.pop(due) {
            match deed {
                Deed::Register { user, .. } => population.registered(user, ok, at),
                Deed::Call { caller, .. } => population.call_ended(caller, at + Duration::from_secs(1)),
            }
            deeds.push((at, deed));
        }
    }
    deeds
}

#[test]
fn who_cannot_register_tries_again_and_does_not_call() {
    let mut population = population(|_| {});
    let deeds = until(&mut population, Time::from_secs(3_600), false);
    assert!(deeds.iter().all(|(_, deed)| matches!(deed, Deed::Register { refresh: false, .. })));
    let of_one = |deeds: &[(Time, Deed)], one: u64| {
        let mut times = Vec::new();
        for (at, deed) in deeds {
            match deed {
                Deed::Register { user, .. } if *user == one => times.push(at.as_secs()),
                _ => {}
            }
        }
        times
    };
    let times = of_one(&deeds, 7);
    // Each minute, and when the ordinary refresh is due.
    assert!((50..=66).contains(&times.len()), "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 61), "{times:?}");
    assert_eq!(population.users_registered(), 0);

    let before = Time::from_secs(3_600);
    until(&mut population, before + Duration::from_secs(61), true);
    assert_eq!(population.users_registered(), 50, "the next attempt succeeded");
    let later = until(&mut population, before + Duration::from_secs(4_000), true);
    assert!(later.iter().any(|(_, deed)| matches!(deed, Deed::Call { .. })));
    // Back to one each ten minutes.
    let times = of_one(&later, 7);
    assert!((6..=7).contains(&times.len()), "{times:?}");
    assert!(later.iter().all(|(_, deed)| !matches!(deed, Deed::Register { refresh: false, .. })));
}

#[test]
fn a_lost_refresh_is_tried_again_once_at_a_time() {
    let mut population = population(|p| p.users = 2);
    until(&mut population, Time::from_secs(600), true);
    let now = Time::from_secs(600);
    population.registered(0, false, now);
    population.registered(0, false, now);
    assert_eq!((population.users_registered(), population.is_registered(0)), (1, false));
    // It succeeds by itself before the retry, which is dropped then.
    population.registered(0, true, now);
    assert_eq!(population.users_registered(), 2);
    let deeds = until(&mut population, now + Duration::from_secs(61), true);
    let registrations = deeds.iter().filter(|(_, deed)| matches!(deed, Deed::Register { .. })).count();
    assert!(registrations <= 2, "only the ordinary ones: {deeds:?}");
}

#[test]
fn calls_begin_after_the_ramp_and_nothing_after_the_window() {
    let mut population = population(|p| {
        p.think = Distribution::fixed(10e3);
        p.measure = 100.0;
    });
    let deeds = until(&mut population, Time::from_secs(1_000_000), true);
    let call = |(at, deed): &(Time, Deed)| matches!(deed, Deed::Call { .. }).then_some(*at);
    let first = deeds.iter().filter_map(call).next().expect("calls");
    assert_eq!(first, Time::from_secs(610), "everybody thinks from the end of the ramp on");
    let (last, _) = deeds.last().expect("deeds");
    assert!((Time::from_secs(1_289)..Time::from_secs(1_300)).contains(last), "{last:?}");
    assert_eq!((population.next_due(), population.pop(Time::FAR)), (None, None));
}

#[test]
fn what_is_told_twice_or_of_strangers_changes_nothing() {
    let mut population = population(|_| {});
    until(&mut population, Time::from_secs(600), true);
    population.call_ended(3, Time::from_secs(600));
    population.call_ended(1_000_000, Time::from_secs(600));
    population.registered(1_000_000, true, Time::from_secs(600));
    population.registered(3, true, Time::from_secs(600));
    assert_eq!((population.users_registered(), population.users_in_call()), (50, 0));
}

#[test]
fn a_late_engine_gets_everything_with_the_intended_times() {
    let (mut late, mut punctual) = (population(|p| p.users = 500), population(|p| p.users = 500));
    let mut want = Vec::new();
    while let Some(due) = punctual.next_due().filter(|due| *due < Time::from_secs(600)) {
        want.extend(punctual.pop(due));
    }
    assert_eq!(want.len(), 500);
    assert_eq!(late.pop(Time::ZERO), None);
    let got: Vec<_> = core::iter::from_fn(|| late.pop(Time::from_micros(599_999_999))).collect();
    assert_eq!(got, want);
}

#[test]
fn the_callee_may_hang_up() {
    let mut population = population(|p| {
        p.callee_hangs_up = 1.0;
        p.think = Distribution::exponential(60e3);
    });
    let deeds = until(&mut population, Time::from_secs(2_000), true);
    let mut kinds = [0; 3];
    for (_, deed) in deeds {
        let Deed::Call { plan, .. } = deed else { continue };
        let token = plan.token();
        kinds[plan.kind as usize] += 1;
        assert_eq!(u128::from(token.ring_ms), plan.ring.as_millis());
        match plan.kind {
            Kind::Completed => {
                assert_eq!(plan.hang_up, Side::Callee);
                assert_eq!(token.callee_hangs_up_ms.map(u128::from), Some(plan.hold.as_millis()));
            }
            _ => assert_eq!((plan.hang_up, token.callee_hangs_up_ms), (Side::Caller, None)),
        }
        assert_eq!(CallToken::decode(token.encode().as_bytes()), Some(token));
    }
    assert!(kinds.iter().all(|&count| count > 0));
}

#[test]
fn impossible_populations_are_refused() {
    let refused = |users, worker, workers| {
        let parameters = Parameters { users, ..Parameters::default() };
        Population::new(&parameters, 1, worker, workers, Time::ZERO).err().map(|why| why.to_string())
    };
    assert!(refused(1, 0, 1).is_some_and(|why| why.contains("at least 2")));
    assert!(refused(10, 2, 2).is_some_and(|why| why.contains("worker 2 of 2")));
    assert!(refused(10, 0, 0).is_some_and(|why| why.contains("numbers begin at 0")));
    assert!(refused(3_000_000_000, 0, 2).is_some_and(|why| why.contains("one can have 1073741824")));
    // More workers than users: some have none.
    let parameters = Parameters { users: 2, ..Parameters::default() };
    let idle = Population::new(&parameters, 1, 5, 8, Time::ZERO).expect("possible");
    assert_eq!((idle.users(), idle.next_due()), (0, None));
    assert_eq!((idle.worker_of(13), idle.is_registered(5)), (5, false));
}

/// What 10 million users for each machine ask for.
#[test]
fn a_user_takes_few_bytes_and_no_allocation_later() {
    let parameters = Parameters { users: 200_000, ramp: 60.0, compression: 60.0, ..Parameters::default() };
    let mut population = Population::new(&parameters, 1, 0, 1, Time::ZERO).expect("possible");
    let before = population.bytes();
    // Lists that are not full cost up to 3 MB for each worker.
    assert!(before < 200_000 * 29 + 3_000_000, "{before}");
    until(&mut population, Time::from_secs(40), true);
    assert_eq!(population.bytes(), before);
}
