use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PLENTY: u32 = 1_000_000;
const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

fn fired(wheel: &mut Wheel, now: u64) -> Vec<u64> {
    let mut budget = PLENTY;
    let mut tokens = Vec::new();
    while let Some(owner) = wheel.poll(now, &mut budget) {
        match owner {
            Owner::User(token) => tokens.push(token),
            other => panic!("nobody armed {other:?}"),
        }
    }
    tokens
}

#[test]
fn a_timer_fires_at_its_time_and_not_before() {
    for at in [1, 4_095, 4_096, 500 * MS, 32 * SECOND, 33 * SECOND + 554_431, 34 * SECOND, 240 * SECOND] {
        let mut wheel = Wheel::new();
        wheel.schedule(at, 7);
        assert_eq!(fired(&mut wheel, at - 1), [], "one microsecond early, {at}");
        assert_eq!(fired(&mut wheel, at), [7], "{at}");
        assert_eq!(fired(&mut wheel, at + SECOND), [], "again, {at}");
    }
}

#[test]
fn timers_of_days_and_years_come_too() {
    let day = 86_400 * SECOND;
    let times = [day / 24, day, 24 * day, 26 * day, 60 * day, 800 * day];
    let mut wheel = Wheel::new();
    for at in times {
        wheel.schedule(at, at);
    }
    for at in times {
        assert_eq!(fired(&mut wheel, at - 1), []);
        assert_eq!(fired(&mut wheel, at), [at]);
    }
}

#[test]
fn following_the_deadline_needs_few_polls_and_is_late_by_a_tick_at_most() {
    for at in [3, 500 * MS, 32 * SECOND, 240 * SECOND, 7_200 * SECOND] {
        let mut wheel = Wheel::new();
        wheel.schedule(at, 1);
        let mut polls = 0;
        loop {
            let now = wheel.next_deadline();
            polls += 1;
            assert!(now <= at + (1 << TICK) && polls < 5, "{at} at {now}");
            if fired(&mut wheel, now) == [1] {
                assert!(now >= at);
                break;
            }
        }
        assert_eq!(wheel.next_deadline(), NEVER);
    }
}

#[test]
fn cancelled_and_rearmed_timers_do_not_fire() {
    let mut wheel = Wheel::new();
    let gone = wheel.schedule(10 * MS, 1);
    wheel.schedule(10 * MS, 2);
    assert!(wheel.unschedule(gone) && !wheel.unschedule(gone));
    let node = wheel.reserve(Owner::Server(9));
    wheel.arm(node, 10 * MS);
    wheel.arm(node, 50 * MS);
    assert_eq!(fired(&mut wheel, 20 * MS), [2]);
    let mut budget = PLENTY;
    assert_eq!(wheel.poll(60 * MS, &mut budget), Some(Owner::Server(9)));
    wheel.arm(node, 70 * MS);
    wheel.disarm(node);
    assert_eq!((wheel.poll(90 * MS, &mut budget), wheel.armed()), (None, 0));
    assert!(!wheel.unschedule(TimerId::NONE));
}

#[test]
fn a_handle_of_a_fired_timer_does_not_cancel_its_successor() {
    let mut wheel = Wheel::new();
    let old = wheel.schedule(MS, 1);
    assert_eq!(fired(&mut wheel, MS), [1]);
    let new = wheel.schedule(2 * MS, 2);
    assert_eq!(old.node, new.node, "the node is used again");
    assert!(!wheel.unschedule(old));
    assert_eq!(fired(&mut wheel, 2 * MS), [2]);
}

#[test]
fn a_crowd_is_worked_off_in_bounded_portions_and_none_is_lost() {
    for at in [SECOND, 100 * SECOND, 10_000 * SECOND] {
        let mut wheel = Wheel::new();
        let crowd = 5_000;
        for token in 0..crowd {
            wheel.schedule(at, token);
        }
        let (mut count, mut calls) = (0, 0);
        while wheel.next_deadline() <= at {
            let mut budget = 256;
            while wheel.poll(at, &mut budget).is_some() {
                count += 1;
            }
            calls += 1;
            assert!(calls < 100, "no progress");
        }
        // What of the current tick was not looked at is due at its end.
        let mut budget = PLENTY;
        while wheel.poll(at + (1 << TICK), &mut budget).is_some() {
            count += 1;
        }
        assert_eq!(count, crowd);
        assert!(calls >= crowd / 256 || at < 10 * SECOND);
    }
}

#[test]
fn a_look_at_the_current_tick_that_was_cut_short_is_taken_again() {
    let mut wheel = Wheel::new();
    wheel.schedule(30, 1);
    wheel.schedule(20, 2);
    let mut little = 1;
    assert_eq!(wheel.poll(10, &mut little), None);
    assert_eq!(fired(&mut wheel, 20), [2]);
}

/// The tick was looked at already, and what is left in it is due later.
#[test]
fn a_timer_for_a_time_that_is_over_fires_at_once() {
    let mut wheel = Wheel::new();
    let now = 10 * MS;
    wheel.schedule(now + MS, 1);
    assert_eq!(fired(&mut wheel, now), []);
    wheel.schedule(3 * MS, 2);
    assert_eq!(fired(&mut wheel, now), [2]);
    assert_eq!(fired(&mut wheel, now + MS), [1]);
}

#[test]
fn one_tick_fires_in_the_order_of_arming() {
    let mut wheel = Wheel::new();
    for token in 0..10 {
        wheel.schedule(100 * MS + token % 3, token);
    }
    assert_eq!(fired(&mut wheel, SECOND), (0..10).collect::<Vec<u64>>());
}

#[test]
fn a_long_sleep_loses_nothing() {
    let mut wheel = Wheel::new();
    let times: Vec<u64> = (0..2_000).map(|i| i * 987 * MS).collect();
    for &at in &times {
        wheel.schedule(at, at);
    }
    assert_eq!(fired(&mut wheel, 3_000 * SECOND), times, "each tick in its turn");
}

#[derive(Clone, Debug)]
enum Op {
    Arm { slot: usize, after: u64 },
    Disarm { slot: usize },
    Pass { time: u64, budget: u32 },
}

fn spans() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_000u64, 0..40 * SECOND, 0..600 * SECOND, 0..86_400 * SECOND, 0..90 * 86_400 * SECOND]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..40usize, spans()).prop_map(|(slot, after)| Op::Arm { slot, after }),
        1 => (0..40usize).prop_map(|slot| Op::Disarm { slot }),
        3 => (spans(), prop_oneof![Just(PLENTY), 1..4u32])
            .prop_map(|(time, budget)| Op::Pass { time, budget }),
    ]
}

/// The wheel, and a sorted map that must agree with it.
struct Both {
    wheel: Wheel,
    model: BTreeMap<u32, u64>,
    nodes: Vec<u32>,
    now: u64,
}

impl Both {
    fn new() -> Both {
        let mut wheel = Wheel::new();
        let nodes = (0..40).map(|slot| wheel.reserve(Owner::Client(slot))).collect();
        Both { wheel, model: BTreeMap::new(), nodes, now: 0 }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Arm { slot, after } => {
                self.wheel.arm(self.nodes[slot], self.now + after);
                self.model.insert(slot as u32, self.now + after);
            }
            Op::Disarm { slot } => {
                self.wheel.disarm(self.nodes[slot]);
                self.model.remove(&(slot as u32));
            }
            Op::Pass { time, budget } => {
                self.now += time;
                // Several calls, as the deadline asks, with little budget or much.
                for _ in 0..200 {
                    let mut left = budget;
                    while let Some(owner) = self.wheel.poll(self.now, &mut left) {
                        let Owner::Client(slot) = owner else { panic!("{owner:?}") };
                        let at = self.model.remove(&slot);
                        prop_assert!(at.is_some_and(|at| at <= self.now), "{slot} armed for {at:?}");
                    }
                    if self.wheel.next_deadline() > self.now {
                        break;
                    }
                }
                if budget == PLENTY {
                    let late = self.model.values().find(|at| **at <= self.now);
                    prop_assert_eq!(late, None, "lost at {}", self.now);
                }
            }
        }
        let earliest = self.model.values().min().copied();
        let latest = earliest.map_or(NEVER, |at| at.max(self.now) + (1 << TICK));
        prop_assert!(self.wheel.next_deadline() <= latest, "sleeps through {:?}", earliest);
        prop_assert_eq!(self.wheel.armed(), self.model.len());
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_wheel_agrees_with_a_sorted_map(ops in prop::collection::vec(ops(), 1..120)) {
        let mut both = Both::new();
        for op in &ops {
            both.apply(op)?;
        }
    }
}
