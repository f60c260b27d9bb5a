//! The runs of an experiment, in their order.
//!
//! Every comparison is made within a block, so that what drifts on the machine hits all systems alike. The
//! order within a block follows from the seed and the number of the block alone: more repetitions append
//! blocks.

use super::{ExperimentId, Population, Repetitions, RunId, Setup};
use load::population::Rng;
use std::fmt;
use std::time::Duration;

/// A system in the plan, or its twin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The system.
    pub system: String,
    /// Whether it is the second copy of the A/A control. It differs from the system in nothing.
    pub twin: bool,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.system, if self.twin { ".again" } else { "" })
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    id: RunId,
    block: u32,
    subject: Subject,
    setup: usize,
}

impl Run {
    /// Its name, the same whenever the experiment is planned again.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Its block, from 1.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// What is measured.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Index of its [`Setup`] in the experiment.
    pub fn setup(&self) -> usize {
        self.setup
    }
}

/// How long something takes: warm-ups end when the system is steady.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// At least.
    pub least: Duration,
    /// At most.
    pub most: Duration,
}

/// What a run takes besides warm-up and measurement: start, probe, registrations, end.
const OVERHEAD: Duration = Duration::from_secs(3);
/// How many times slower an emulated machine is, at least and at most: an idle second takes no time.
const EMULATED: (u32, u32) = (2, 60);
/// What the capture after the measurement takes.
const CAPTURE: Duration = Duration::from_secs(1);
/// The same of a run that opens associations: it waits until memory has settled.
const ASSOCIATIONS_OVERHEAD: Duration = Duration::from_secs(6);
/// Trials of a search for the peak: the fewest and the most that are usual.
const TRIALS: (u32, u32) = (15, 50);
/// The same of one that has a highest rate and is content with five percent: searches of made-up servers took
/// 4 to 16.
const FEW_TRIALS: (u32, u32) = (4, 16);
/// What is narrow no more.
const COARSE: f64 = 0.05;
/// What a trial takes beside its length: its calls end, a rest.
const BETWEEN_TRIALS: Duration = Duration::from_secs(3);
/// Blocks of a plan at most.
pub(super) const MOST_BLOCKS: u32 = 1_000;
/// Blocks of a plan at least, where a budget decides: one block shows no spread.
const FEWEST_BLOCKS: u32 = 2;

impl Estimate {
    fn of_run(setup: &Setup) -> Estimate {
        let Setup { measuring, workload, .. } = setup;
        // A run of users has all phases of their lives, and a search of them a highest number.
        let population = Population::of(setup).ok().flatten();
        if workload.find_peak {
            let highest = workload.rate_max.is_some() || population.is_some();
            let (fewest, most) = if workload.resolution >= COARSE && highest { FEW_TRIALS } else { TRIALS };
            let calls = measuring.measure.saturating_add(workload.hold).saturating_add(BETWEEN_TRIALS);
            let trial = population.as_ref().map_or(calls, Population::trial);
            let with = |trials: u32| OVERHEAD.saturating_add(trial.saturating_mul(trials));
            return Estimate { least: with(fewest), most: with(most) };
        }
        let capture = if measuring.capture && population.is_none() { CAPTURE } else { Duration::ZERO };
        let overhead = OVERHEAD + capture;
        let with = |length: Duration| overhead.saturating_add(length);
        if let Some(population) = population {
            return Estimate { least: with(population.whole()), most: with(population.whole()) };
        }
        let (least, most) = match measuring.is_long(workload.hold) {
            true => (workload.hold, workload.hold),
            false => measuring.warm_up_bounds(),
        };
        let one = measuring.measure.saturating_add(workload.hold);
        Estimate { least: with(least.saturating_add(one)), most: with(most.saturating_add(one)) }
    }

    /// They may take longer than their rate says: each waits for the one before.
    fn of_associations(seconds: f64) -> Estimate {
        let least = ASSOCIATIONS_OVERHEAD + Duration::from_secs_f64(seconds);
        Estimate { least, most: least + Duration::from_secs_f64(seconds) }
    }

    /// The same in an emulated machine.
    fn emulated(self) -> Estimate {
        let (least, most) = EMULATED;
        Estimate { least: self.least.saturating_mul(least), most: self.most.saturating_mul(most) }
    }

    fn plus(self, other: Estimate) -> Estimate {
        let (least, most) = (self.least.saturating_add(other.least), self.most.saturating_add(other.most));
        Estimate { least, most }
    }

    fn times(self, count: u32) -> Estimate {
        Estimate { least: self.least.saturating_mul(count), most: self.most.saturating_mul(count) }
    }
}

/// The runs of an experiment, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    experiment: ExperimentId,
    subjects: Vec<Subject>,
    blocks: u32,
    runs: Vec<Run>,
    estimate: Estimate,
}

impl Plan {
    /// Plans `repetitions` of each subject at each setup.
    pub fn new(
        experiment: ExperimentId,
        seed: u64,
        repetitions: Repetitions,
        subjects: &[Subject],
        setups: &[Setup],
    ) -> Plan {
        let one = |setup: &Setup| {
            let count = subjects.iter().filter(|subject| runs_at(subject, setup)).count();
            let each = match setup.workload.associations {
                0 if setup.measuring.emulated => Estimate::of_run(setup).emulated(),
                0 => Estimate::of_run(setup),
                count => Estimate::of_associations(f64::from(count) / setup.workload.rate),
            };
            each.times(u32::try_from(count).unwrap_or(u32::MAX))
        };
        let block = setups.iter().map(one).fold(Estimate::default(), Estimate::plus);
        let blocks = match repetitions {
            Repetitions::Blocks(blocks) => blocks.min(MOST_BLOCKS),
            Repetitions::Within(budget) => fitting(budget, block.most),
        };
        let mut runs = Vec::new();
        for number in 1..=blocks {
            let mut all = complete(experiment, number, subjects, setups);
            shuffle(&mut all, &mut Rng::new(seed, u64::from(number)));
            runs.append(&mut all);
        }
        Plan { experiment, subjects: subjects.to_vec(), blocks, runs, estimate: block.times(blocks) }
    }

    /// The experiment.
    pub fn experiment(&self) -> ExperimentId {
        self.experiment
    }

    /// What is measured in each block at each combination.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The runs in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How long all of them take.
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }
}

/// How many blocks of this length fit.
fn fitting(budget: Duration, block: Duration) -> u32 {
    let fit = budget.as_millis().checked_div(block.as_millis()).unwrap_or(0);
    u32::try_from(fit).unwrap_or(u32::MAX).clamp(FEWEST_BLOCKS, MOST_BLOCKS)
}

/// Whether a subject has a run at a setup.
fn runs_at(subject: &Subject, setup: &Setup) -> bool {
    setup.systems.get(&subject.system).is_none_or(|system| system.runs_at(&setup.combination))
}

/// Every subject at every setup at which it runs, once.
fn complete(experiment: ExperimentId, block: u32, subjects: &[Subject], setups: &[Setup]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (nth, setup) in setups.iter().enumerate() {
        let combination = u32::try_from(nth).map_or(u32::MAX, |nth| nth.saturating_add(1));
        for subject in subjects.iter().filter(|subject| runs_at(subject, setup)) {
            let id = RunId::new(experiment, block, subject, combination);
            runs.push(Run { id, block, subject: subject.clone(), setup: nth });
        }
    }
    runs
}

/// Fisher and Yates: each order is equally likely.
fn shuffle<T>(list: &mut [T], rng: &mut Rng) {
    for last in (1..list.len()).rev() {
        let other = usize::try_from(rng.below(last as u64 + 1)).unwrap_or(last);
        list.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Combination, Level};
    use super::*;
    use load::population::Rng;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn subjects(count: usize) -> Vec<Subject> {
        let name = |nth: usize| Subject { system: format!("s{}", nth / 2), twin: nth % 2 == 1 };
        (0..count).map(name).collect()
    }

    fn setups(count: usize) -> Vec<Setup> {
        let level = |nth: usize| Level { factor: "rate".to_owned(), value: nth.to_string() };
        let setup = |nth| Setup { combination: Combination::new(vec![level(nth)]), ..Setup::default() };
        (0..count).map(setup).collect()
    }

    fn plan(seed: u64, blocks: u32, subject_count: usize, setup_count: usize) -> Plan {
        let (subjects, setups) = (subjects(subject_count), setups(setup_count));
        Plan::new(ExperimentId::of("x"), seed, Repetitions::Blocks(blocks), &subjects, &setups)
    }

    proptest! {
        #[test]
        fn every_block_has_each_subject_at_each_setup_once(
            seed: u64, blocks in 1u32..6, subject_count in 1usize..5, setup_count in 1usize..5
        ) {
            let plan = plan(seed, blocks, subject_count, setup_count);
            let each = subject_count * setup_count;
            prop_assert_eq!(plan.runs().len(), each * blocks as usize);
            for (nth, block) in plan.runs().chunks(each).enumerate() {
                prop_assert!(block.iter().all(|run| run.block() as usize == nth + 1));
                let parts: BTreeSet<_> = block.iter().map(|run| (run.subject().clone(), run.setup())).collect();
                prop_assert_eq!(parts.len(), each);
            }
            let ids: BTreeSet<_> = plan.runs().iter().map(Run::id).collect();
            prop_assert_eq!(ids.len(), plan.runs().len());
        }

        #[test]
        fn shuffle_is_a_permutation(seed: u64, length in 0usize..50) {
            let mut list: Vec<usize> = (0..length).collect();
            shuffle(&mut list, &mut Rng::new(seed, 1));
            list.sort_unstable();
            prop_assert_eq!(list, (0..length).collect::<Vec<_>>());
        }

        #[test]
        fn more_repetitions_append_blocks(seed: u64, fewer in 1u32..4, more in 0u32..4) {
            let (short, long) = (plan(seed, fewer, 3, 2), plan(seed, fewer + more, 3, 2));
            prop_assert!(long.runs().starts_with(short.runs()));
        }
    }

    #[test]
    fn order_differs_between_blocks_and_seeds() {
        let order = |plan: &Plan, block: u32| {
            let of = plan.runs().iter().filter(|run| run.block() == block);
            of.map(|run| (run.subject().clone(), run.setup())).collect::<Vec<_>>()
        };
        let (one, other) = (plan(1, 2, 4, 4), plan(2, 2, 4, 4));
        assert_ne!(order(&one, 1), order(&one, 2));
        assert_ne!(order(&one, 1), order(&other, 1));
    }

    #[test]
    fn shuffle_puts_each_value_first_equally_often() {
        let mut first = [0u32; 4];
        for seed in 0..4_000 {
            let mut list = [0usize, 1, 2, 3];
            shuffle(&mut list, &mut Rng::new(seed, 7));
            first[list[0]] += 1;
        }
        // Five standard deviations of a binomial of 4,000 and 1/4 are 137.
        assert!(first.iter().all(|count| count.abs_diff(1_000) < 137), "{first:?}");
    }

    #[test]
    fn budget_decides_the_number_of_blocks() {
        let plan = |budget| {
            let within = Repetitions::Within(Duration::from_secs(budget));
            Plan::new(ExperimentId::of("x"), 1, within, &subjects(2), &setups(1))
        };
        // A run takes up to 4 + 30 + 1 + 10 seconds, a block of two 90.
        assert_eq!(plan(0).blocks(), 2);
        assert_eq!(plan(600).blocks(), 6);
        assert_eq!(plan(u64::MAX).blocks(), MOST_BLOCKS);
        assert_eq!(plan(600).estimate().most, Duration::from_secs(540));
        assert_eq!(plan(600).estimate().least, Duration::from_secs(6 * 2 * 32));
    }

    #[test]
    fn search_for_the_peak_takes_many_trials() {
        let mut setups = setups(1);
        setups[0].workload.find_peak = true;
        let plan = Plan::new(ExperimentId::of("x"), 1, Repetitions::Blocks(1), &subjects(1), &setups);
        assert_eq!(plan.estimate().least, Duration::from_secs(3 + 15 * 13));
        assert_eq!(plan.estimate().most, Duration::from_secs(3 + 50 * 13));
        setups[0].workload.rate_max = Some(2_400.0);
        setups[0].workload.resolution = 0.05;
        let plan = Plan::new(ExperimentId::of("x"), 1, Repetitions::Blocks(1), &subjects(1), &setups);
        assert_eq!(plan.estimate().least, Duration::from_secs(3 + 4 * 13));
        assert_eq!(plan.estimate().most, Duration::from_secs(3 + 16 * 13));
    }
}
