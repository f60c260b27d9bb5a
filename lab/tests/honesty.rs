//! Whether verdicts keep what they promise, on experiments that are made up from a seed.
//!
//! In the noise models a run's figure is a level times noise. Blocks hold a system, its twin and another
//! system, in an order that is drawn for each block.

use lab::statistics::{
    Claim, Evidence, Floor, Goal, Judgement, Kind, Observed, Rule, Schedule, Share, Spread, Tolerance,
    Verdict, judge, repetitions_for, screen,
};
use load::population::Rng;
use load::population::statistics::normal_quantile;

/// Noise of a run: by random numbers, and its place in the experiment.
type Noise = fn(&mut Rng, usize) -> f64;

fn gauss(rng: &mut Rng) -> f64 {
    normal_quantile(rng.open())
}

fn normal(rng: &mut Rng, _: usize) -> f64 {
    1.0 + 0.02 * gauss(rng)
}

/// Skewed, and every tenth run is up to twice as slow.
fn outliers(rng: &mut Rng, _: usize) -> f64 {
    let outlier = if rng.chance(0.1) { 1.0 + rng.unit() } else { 1.0 };
    (0.05 * gauss(rng)).exp() * outlier
}

/// The machine gets slower by one percent with each run.
fn drift(rng: &mut Rng, place: usize) -> f64 {
    (1.0 + 0.01 * place as f64) * normal(rng, place)
}

/// A run is in one of two modes, 15 % apart, as with huge pages or without.
fn bimodal(rng: &mut Rng, place: usize) -> f64 {
    (if rng.chance(0.4) { 1.15 } else { 1.0 }) * normal(rng, place)
}

/// What an experiment measured: of each block the system, its twin, and the other one.
#[derive(Default)]
struct Measured {
    system: Vec<Option<f64>>,
    twin: Vec<Option<f64>>,
    other: Vec<Option<f64>>,
}

impl Measured {
    /// One more block. The other system takes `factor` times as long.
    fn run_block(&mut self, rng: &mut Rng, noise: Noise, factor: f64) {
        let mut values = [100.0, 100.0, 100.0 * factor];
        let first_place = 3 * self.system.len();
        let mut order = [0, 1, 2];
        for last in (1..3).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        for (place, subject) in (first_place..).zip(order) {
            values[subject] *= noise(rng, place);
        }
        self.system.push(Some(values[0]));
        self.twin.push(Some(values[1]));
        self.other.push(Some(values[2]));
    }

    fn of(seed: u64, blocks: usize, noise: Noise, factor: f64) -> Measured {
        let (mut rng, mut out) = (Rng::new(seed, 0), Measured::default());
        (0..blocks).for_each(|_| out.run_block(&mut rng, noise, factor));
        out
    }

    /// "The other system takes no longer", judged.
    fn no_slower(&self, confidence: f64) -> Judgement {
        let floor = Floor::of(&self.system, &self.twin, confidence).ok();
        let kind = Kind::AtMostTimes { of: "system".to_owned(), times: 1.0 };
        let claim =
            Claim { metric: "p99".to_owned(), unit: "ms".to_owned(), system: "other".to_owned(), kind };
        let evidence = Evidence { own: &self.other, other: &self.system, floor: floor.as_ref() };
        judge(&claim, &evidence, &Rule::new(confidence, 6, 1))
    }
}

/// Of 100 experiments in which nothing differs: how many say so, and how many intervals hold 1.
fn of_hundred(noise: Noise) -> (usize, usize) {
    let judged: Vec<Judgement> =
        (0..100).map(|seed| Measured::of(seed, 10, noise, 1.0).no_slower(0.95)).collect();
    let silent = judged.iter().filter(|j| j.verdict == Verdict::NoDifferenceShown).count();
    let covering = judged.iter().filter(|j| j.interval.is_some_and(|i| i.contains(1.0))).count();
    (silent, covering)
}

fn assert_honest(noise: Noise) {
    let (silent, covering) = of_hundred(noise);
    assert!(silent >= 95, "{silent} of 100 say that no difference is shown");
    // 95 are expected; 88 or fewer come in one of 500 such tests.
    assert!(covering > 88, "{covering} of 100 intervals hold the truth");
}

#[test]
fn same_system_shows_no_difference_in_normal_noise() {
    assert_honest(normal);
}

#[test]
fn same_system_shows_no_difference_among_outliers() {
    assert_honest(outliers);
}

#[test]
fn same_system_shows_no_difference_under_drift() {
    assert_honest(drift);
}

#[test]
fn same_system_shows_no_difference_in_two_modes() {
    assert_honest(bimodal);
}

#[test]
fn slower_system_is_found_in_the_promised_share() {
    let plan = repetitions_for(1.05, Spread::Assumed { relative: 0.02 }, Goal::new(0.95, 0.8)).unwrap();
    let found = |seed| Measured::of(seed, plan.blocks, normal, 1.05).no_slower(0.95).verdict == Verdict::Fail;
    let share = (0..200).filter(|seed| found(*seed)).count();
    assert!(share >= 160, "{share} of 200 with {} blocks", plan.blocks);
    // The plan is not generous either.
    assert!((6..=9).contains(&plan.blocks), "{}", plan.blocks);
}

#[test]
fn drift_of_the_machine_does_not_hide_a_slower_system() {
    let found = |seed| Measured::of(seed, 14, drift, 1.05).no_slower(0.95).verdict == Verdict::Fail;
    assert!((0..50).filter(|seed| found(*seed)).count() >= 40);
}

/// Runs blocks until the schedule says stop; answers the verdict and the blocks.
fn sequential(seed: u64, factor: f64) -> (Verdict, usize) {
    let schedule = Schedule::new(24, 3, 0.95);
    let (mut rng, mut measured) = (Rng::new(seed, 1), Measured::default());
    loop {
        measured.run_block(&mut rng, normal, factor);
        let blocks = measured.system.len();
        let Some(look) = schedule.looks().iter().find(|look| look.blocks == blocks) else { continue };
        let verdict = measured.no_slower(look.confidence).verdict;
        if look.last || matches!(verdict, Verdict::Pass | Verdict::Fail) {
            return (verdict, blocks);
        }
    }
}

#[test]
fn stopping_early_finds_no_difference_where_none_is() {
    let silent = (0..100).filter(|seed| sequential(*seed, 1.0) == (Verdict::NoDifferenceShown, 24)).count();
    assert!(silent >= 95, "{silent}");
}

#[test]
fn stopping_early_saves_blocks_where_a_difference_is_large() {
    let ends: Vec<_> = (0..50).map(|seed| sequential(seed, 1.1)).collect();
    assert!(ends.iter().all(|(verdict, _)| *verdict == Verdict::Fail));
    assert!(ends.iter().filter(|(_, blocks)| *blocks == 12).count() >= 45, "{ends:?}");
}

#[test]
fn void_runs_make_the_experiment_void() {
    let mut measured = Measured::of(1, 10, normal, 1.2);
    assert_eq!(measured.no_slower(0.95).verdict, Verdict::Fail);
    let failed = Observed { errors: Some(Share { count: 5, of: 1_000 }), ..Observed::default() };
    let fine = Observed { errors: Some(Share { count: 0, of: 1_000 }), ..Observed::default() };
    for (block, value) in measured.other.iter_mut().enumerate() {
        let seen = if block < 5 { &failed } else { &fine };
        *value = value.filter(|_| screen(seen, &Tolerance::default()).is_valid());
    }
    let judged = measured.no_slower(0.95);
    assert_eq!((judged.verdict, judged.blocks), (Verdict::Void, 5));
    assert_eq!(judged.reason, "5 blocks are valid, and 6 are needed for a verdict");
}

#[test]
fn experiment_without_its_twin_is_void() {
    let mut measured = Measured::of(1, 10, normal, 1.2);
    measured.twin.fill(None);
    assert_eq!(measured.no_slower(0.95).verdict, Verdict::Void);
}
