//! What a number of blocks can show, before they are run.

use core::fmt;

use load::population::Rng;
use load::population::statistics::{normal_cdf, normal_quantile};
use serde::{Deserialize, Serialize};

use super::compare::centre;
use super::interval::{NoInterval, least, sound, within_limits};
use super::sample::{MOST_VALUES, usable};

/// How much the runs of one system differ within a block: their relative standard deviation, 0.02 for 2 %.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Spread {
    /// Not measured: a plan before any run.
    Assumed {
        /// The deviation.
        relative: f64,
    },
    /// From runs of the same system within the same blocks.
    Measured {
        /// The deviation.
        relative: f64,
        /// How many blocks it is from.
        blocks: usize,
    },
}

impl Spread {
    /// From the A/A control: `(system, twin)` of each block. None if there is no block with two positive
    /// values.
    ///
    /// The difference of two runs has twice the variance of one, and its mean is zero.
    pub fn measured(control: &[(f64, f64)]) -> Option<Spread> {
        let positive = |v: f64| usable(v).filter(|v| *v > 0.0);
        let logs = control.iter().filter_map(|(a, b)| Some(positive(*a)?.ln() - positive(*b)?.ln()));
        let squares: Vec<f64> = logs.map(|d| d * d).collect();
        let blocks = squares.len();
        let relative = (squares.iter().sum::<f64>() / (2.0 * blocks as f64)).sqrt();
        (blocks > 0).then_some(Spread::Measured { relative, blocks })
    }

    /// The deviation, 0 to 10; 10 for what is no number.
    pub fn relative(&self) -> f64 {
        let (Spread::Assumed { relative } | Spread::Measured { relative, .. }) = self;
        if relative.is_nan() { 10.0 } else { relative.clamp(0.0, 10.0) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.relative();
        match self {
            Spread::Assumed { .. } => write!(f, "{percent:.2} %, which is assumed"),
            Spread::Measured { blocks, .. } => write!(f, "{percent:.2} %, measured in {blocks} blocks"),
        }
    }
}

/// How sure a verdict is to be.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Goal {
    confidence: f64,
    power: f64,
}

impl Goal {
    /// `confidence` of the intervals, and `power`: the share of experiments that find a difference which is
    /// there, 0.5 to 0.99.
    pub fn new(confidence: f64, power: f64) -> Goal {
        let power = if power.is_nan() { 0.8 } else { power.clamp(0.5, 0.99) };
        Goal { confidence: sound(confidence), power }
    }
}

/// The least difference that a number of blocks shows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Detectable {
    /// As a factor above 1. A system that is faster by it is found as often.
    pub factor: f64,
    /// Number of blocks.
    pub blocks: usize,
    /// The spread that it holds for.
    pub spread: Spread,
    /// How sure.
    pub goal: Goal,
}

impl fmt::Display for Detectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} blocks show a difference of {:.2} % in {:.0} of 100 experiments, if runs spread by {}",
            self.blocks,
            100.0 * (self.factor - 1.0),
            100.0 * self.goal.power,
            self.spread
        )
    }
}

/// Up to this number of blocks experiments are simulated; beyond, the normal law is near enough.
const SIMULATED: usize = 20;
/// Simulated experiments.
const EXPERIMENTS: u64 = 2_000;

/// The least difference that this number of blocks shows with an A/A control, for noise that is about normal.
///
/// Outliers make it larger. The rule is that of [`super::judge`]: the interval excludes the limit, and the
/// estimate is at least the floor. With few blocks 2,000 experiments without a difference are simulated from
/// a fixed seed. Each gives the least shift that would have been found.
pub fn detectable(spread: Spread, blocks: usize, goal: Goal) -> Result<Detectable, NoInterval> {
    within_limits(blocks, least(goal.confidence))?;
    let deviations = if blocks <= SIMULATED { simulated(blocks, goal) } else { approximated(blocks, goal) };
    let factor = (deviations * spread.relative()).exp();
    Ok(Detectable { factor, blocks, spread, goal })
}

/// The least number of blocks that shows a difference by this factor.
///
/// A factor below 1 is the same as its inverse. If [`MOST_VALUES`] blocks do not suffice, that is the
/// refusal.
pub fn repetitions_for(factor: f64, spread: Spread, goal: Goal) -> Result<Detectable, NoInterval> {
    let refused = NoInterval::TooMany { have: MOST_VALUES + 1, most: MOST_VALUES };
    let Some(factor) = usable(factor).filter(|f| *f > 0.0).map(|f| f.max(1.0 / f)) else {
        return Err(refused);
    };
    let shows = |blocks| detectable(spread, blocks, goal).ok().filter(|found| found.factor <= factor);
    // The normal law is a little too hopeful with few blocks, so that the search may begin there.
    let hopeful = |blocks: &usize| (approximated(*blocks, goal) * spread.relative()).exp() <= factor;
    let first = (least(goal.confidence)..=MOST_VALUES).find(hopeful).ok_or(refused)?;
    (first..=MOST_VALUES).find_map(shows).ok_or(refused)
}

/// The shift, in deviations of one run, that a share `power` of simulated experiments would have found.
fn simulated(blocks: usize, goal: Goal) -> f64 {
    let mut rng = Rng::new(0x0074_6f73_6f6d_6965, blocks as u64);
    let mut normal = || normal_quantile(rng.open());
    let mut needed: Vec<f64> = (0..EXPERIMENTS)
        .map(|_| {
            let runs: Vec<[f64; 3]> = (0..blocks).map(|_| [normal(), normal(), normal()]).collect();
            let of = |differences: Vec<f64>| centre(&differences, goal.confidence);
            let shown = of(runs.iter().map(|[own, other, _]| own - other).collect());
            let control = of(runs.iter().map(|[_, other, twin]| other - twin).collect());
            let (Ok(shown), Ok(control)) = (shown, control) else { return f64::INFINITY };
            let floor = control.interval.low().abs().max(control.interval.high().abs());
            // A shift moves the interval and its centre alike.
            (-shown.interval.low()).max(floor - shown.value)
        })
        .collect();
    needed.sort_unstable_by(f64::total_cmp);
    let at = (goal.power * needed.len() as f64).ceil() as usize;
    needed.get(at.min(needed.len() - 1)).copied().unwrap_or(f64::INFINITY)
}

/// The same for many blocks.
///
/// Let D be the estimate and E that of the control, both with deviation s, which share one system, so that
/// their correlation is 1/2. A shift is found if D - E and D + E both exceed half of the interval's width.
/// These two are independent, with deviations s and s times the root of 3.
fn approximated(blocks: usize, goal: Goal) -> f64 {
    // The estimate of Hodges and Lehmann has the efficiency 3 / pi for normal values.
    let error = (2.0 * core::f64::consts::PI / 3.0 / blocks.max(1) as f64).sqrt();
    let half = -normal_quantile((1.0 - goal.confidence) / 2.0);
    let (mut low, mut high) = (-10.0, 20.0);
    for _ in 0..80 {
        let margin = f64::midpoint(low, high);
        if normal_cdf(margin) * normal_cdf(margin / 3.0_f64.sqrt()) < goal.power {
            low = margin;
        } else {
            high = margin;
        }
    }
    (half + high) * error
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ASSUMED: Spread = Spread::Assumed { relative: 0.02 };

    #[test]
    fn more_blocks_show_smaller_differences() {
        let goal = Goal::new(0.95, 0.8);
        let factors: Vec<f64> =
            [6, 10, 16, 30, 100].map(|blocks| detectable(ASSUMED, blocks, goal).unwrap().factor).into();
        assert!(factors.is_sorted_by(|a, b| a > b), "{factors:?}");
        assert!(factors[0] < 1.15 && factors[4] > 1.005, "{factors:?}");
    }

    #[test]
    fn simulation_meets_the_normal_law_where_it_ends() {
        for power in [0.5, 0.8, 0.95] {
            let goal = Goal::new(0.95, power);
            let (near, exact) = (approximated(SIMULATED, goal), simulated(SIMULATED, goal));
            assert!((near / exact - 1.0).abs() < 0.08, "{power}: {near}, {exact}");
        }
    }

    #[test]
    fn repetitions_are_the_least_that_suffice() {
        let goal = Goal::new(0.95, 0.8);
        for factor in [1.05, 1.02, 1.01] {
            let found = repetitions_for(factor, ASSUMED, goal).unwrap();
            assert!(found.factor <= factor, "{found}");
            assert!(detectable(ASSUMED, found.blocks - 1, goal).map_or(true, |fewer| fewer.factor > factor));
        }
        assert!(repetitions_for(1.000_01, ASSUMED, goal).is_err());
        assert_eq!(repetitions_for(1.0 / 1.05, ASSUMED, goal), repetitions_for(1.05, ASSUMED, goal));
    }

    #[test]
    fn plan_says_that_its_spread_is_assumed() {
        let found = detectable(ASSUMED, 10, Goal::new(0.95, 0.8)).unwrap().to_string();
        assert!(found.starts_with("10 blocks show a difference of "), "{found}");
        assert!(
            found.ends_with("in 80 of 100 experiments, if runs spread by 2.00 %, which is assumed"),
            "{found}"
        );
        let few = detectable(ASSUMED, 5, Goal::new(0.95, 0.8));
        assert_eq!(few, Err(NoInterval::TooFew { have: 5, need: 6 }));
    }

    #[test]
    fn spread_is_measured_by_the_control() {
        // Logarithms differ by 0.02 and -0.02: the variance of one run is half of 0.0004.
        let pairs = [(1.0_f64.exp(), 0.98_f64.exp()), (0.98_f64.exp(), 1.0_f64.exp()), (0.0, 1.0)];
        let Some(Spread::Measured { relative, blocks: 2 }) = Spread::measured(&pairs) else { panic!() };
        assert!((relative - 0.02 / 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Spread::measured(&[]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn power_of_anything_is_a_factor(relative in prop::num::f64::ANY, blocks in 21..2_000_usize,
                                         factor in prop::num::f64::ANY, power in prop::num::f64::ANY) {
            let spread = Spread::Assumed { relative };
            if let Ok(found) = detectable(spread, blocks, Goal::new(0.95, power)) {
                prop_assert!(found.factor >= 1.0);
            }
            if let Ok(found) = repetitions_for(factor, spread, Goal::new(0.95, power)) {
                prop_assert!(found.blocks <= MOST_VALUES);
            }
        }
    }
}
