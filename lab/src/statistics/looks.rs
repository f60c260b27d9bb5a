//! Stopping before all planned blocks are run.

use load::population::statistics::{normal_cdf, normal_quantile};
use serde::{Deserialize, Serialize};

use super::interval::{least, sound};

/// A moment at which claims are judged.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Look {
    /// After this number of blocks.
    pub blocks: usize,
    /// With intervals of this confidence, which is higher than that of the experiment.
    pub confidence: f64,
    /// No block follows.
    pub last: bool,
}

/// When an experiment may stop. It is fixed before the first run.
///
/// Who looks after each block and stops at the first difference finds one too often. So the looks are few and
/// planned, and they share the probability of error: each spends what the function of Lan and DeMets (1983)
/// allows by then, in the form of O'Brien and Fleming, which spends little early. The intervals of all looks
/// then hold together (repeated confidence intervals, Jennison and Turnbull 1989). The sum of the shares is
/// the bound, so the reason for stopping does not matter: a claim that is decided, an interval that is narrow
/// enough, or an operator in a hurry.
///
/// The price is a last interval that is wider by an eighth with three looks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    looks: Vec<Look>,
    alpha: f64,
}

/// Looks at most. Each further one makes the last interval wider.
pub const MOST_LOOKS: usize = 5;

/// Blocks that an earlier look has beyond the fewest of its interval: with fewer, the interval is the whole
/// range.
const BEYOND_FEWEST: usize = 3;

impl Schedule {
    /// This number of looks (1 to [`MOST_LOOKS`]): the earlier ones evenly spaced from half to three quarters
    /// of the blocks, and one at the end. A look is left out where its interval could show little, so that an
    /// experiment of few blocks has one look only and loses nothing.
    pub fn new(most_blocks: usize, looks: usize, confidence: f64) -> Schedule {
        let alpha = 1.0 - sound(confidence);
        let (earlier, most) = (looks.clamp(1, MOST_LOOKS) - 1, most_blocks.max(1));
        let mut out: Vec<Look> = Vec::new();
        let mut spent = 0.0;
        for look in 0..earlier {
            let part = 0.5 + 0.25 * look as f64 / earlier.saturating_sub(1).max(1) as f64;
            let blocks = (most as f64 * part) as usize;
            let by_now = spending(blocks as f64 / most as f64, alpha);
            let confidence = 1.0 - (by_now - spent);
            let seen = out.last().is_some_and(|earlier| earlier.blocks >= blocks);
            if !seen && blocks >= least(confidence) + BEYOND_FEWEST {
                spent = by_now;
                out.push(Look { blocks, confidence, last: false });
            }
        }
        out.push(Look { blocks: most, confidence: 1.0 - (alpha - spent), last: true });
        Schedule { looks: out, alpha }
    }

    /// The schedule of an experiment that was judged before under this number of shorter plans, and goes on.
    /// `seen` blocks were looked at.
    ///
    /// To extend an experiment after its verdict is to look again, which the schedule before did not plan: it
    /// spent all of its error. So each extension adds half of the error of the one before, and all plans
    /// together err at most twice as often as the first one alone ([`Schedule::error_of_all`]).
    pub fn extended(most_blocks: usize, looks: usize, confidence: f64, plans: u32, seen: usize) -> Schedule {
        let alpha = (1.0 - sound(confidence)) / 2_f64.powi(i32::try_from(plans).unwrap_or(i32::MAX));
        let mut schedule = Schedule::new(most_blocks, looks, 1.0 - alpha);
        schedule.looks.retain(|look| look.last || look.blocks > seen);
        schedule
    }

    /// The probability that a verdict of an experiment is wrong which was extended this number of times.
    pub fn error_of_all(confidence: f64, extensions: u32) -> f64 {
        let first = 1.0 - sound(confidence);
        first * (2.0 - 0.5_f64.powi(i32::try_from(extensions).unwrap_or(i32::MAX)))
    }

    /// The confidence of the last look. A plan that is to keep its power calculates with it
    /// ([`super::detectable`]).
    pub fn last_confidence(&self) -> f64 {
        self.looks.last().map_or(1.0 - self.alpha, |look| look.confidence)
    }

    /// All looks, in order.
    pub fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// The last look of an experiment that ends earlier than planned, because its time is over. It spends all
    /// that earlier looks have left.
    pub fn ended(&self, blocks: usize) -> Look {
        let spent: f64 =
            self.looks.iter().filter(|look| look.blocks < blocks).map(|look| 1.0 - look.confidence).sum();
        Look { blocks, confidence: 1.0 - (self.alpha - spent).max(0.0), last: true }
    }
}

/// The probability of error that may be spent when this part of the blocks is done: 2 (1 - Phi(z / sqrt(t))).
fn spending(part: f64, alpha: f64) -> f64 {
    2.0 * normal_cdf(normal_quantile(alpha / 2.0) / part.max(1e-9).sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// At half of the blocks: 2 (1 - Phi(1.96 / sqrt(1/2))) = 2 (1 - Phi(2.7718)), by a table of the normal
    /// law 0.0056.
    #[test]
    fn spending_has_its_known_values() {
        assert!((spending(0.5, 0.05) - 0.005_57).abs() < 1e-4, "{}", spending(0.5, 0.05));
        assert!((spending(1.0, 0.05) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn looks_are_planned_from_half_of_the_blocks() {
        let looks = Schedule::new(24, 3, 0.95);
        let at: Vec<(usize, bool)> = looks.looks().iter().map(|l| (l.blocks, l.last)).collect();
        assert_eq!(at, [(12, false), (18, false), (24, true)]);
        let single = Schedule::new(10, 1, 0.95);
        assert_eq!(single.looks().len(), 1);
        assert!((single.looks()[0].confidence - 0.95).abs() < 1e-12);
    }

    #[test]
    fn experiment_of_few_blocks_has_one_look_and_loses_nothing() {
        for blocks in 1..13 {
            let looks = Schedule::new(blocks, 3, 0.95);
            assert_eq!(looks.looks().len(), 1, "{blocks}");
            assert!((looks.last_confidence() - 0.95).abs() < 1e-12);
        }
        let looks = Schedule::new(16, 3, 0.95);
        assert_eq!(looks.looks().iter().map(|look| look.blocks).collect::<Vec<_>>(), [12, 16]);
        assert!(looks.last_confidence() > 0.97);
    }

    #[test]
    fn extension_after_a_verdict_has_half_of_the_error() {
        let first = Schedule::new(20, 3, 0.95);
        let longer = Schedule::extended(40, 3, 0.95, 1, 20);
        let spent =
            |schedule: &Schedule| schedule.looks().iter().map(|look| 1.0 - look.confidence).sum::<f64>();
        assert!((spent(&first) - 0.05).abs() < 1e-9);
        assert!(spent(&longer) <= 0.025 + 1e-9 && longer.last_confidence() > 0.975);
        // What was seen is not looked at again.
        assert!(longer.looks().iter().all(|look| look.blocks > 20), "{longer:?}");
        assert_eq!(Schedule::extended(20, 3, 0.95, 0, 0), first);
        let of_all = [0, 1, 2].map(|extensions| Schedule::error_of_all(0.95, extensions));
        assert!(of_all.iter().zip([0.05, 0.075, 0.0875]).all(|(found, want)| (found - want).abs() < 1e-12));
    }

    #[test]
    fn experiment_that_ends_early_spends_what_is_left() {
        let looks = Schedule::new(24, 3, 0.95);
        assert!((looks.ended(11).confidence - 0.95).abs() < 1e-12);
        let spent = 1.0 - looks.looks()[0].confidence;
        assert!((looks.ended(13).confidence - (1.0 - (0.05 - spent))).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn looks_never_spend_more_than_the_error(most in 0..2_000_usize, looks in 0..9_usize,
                                                 confidence in prop::num::f64::ANY, ended in 0..2_000_usize) {
            let schedule = Schedule::new(most, looks, confidence);
            let spent: f64 = schedule.looks().iter().map(|look| 1.0 - look.confidence).sum();
            prop_assert!(spent <= 1.0 - sound(confidence) + 1e-9);
            prop_assert!(schedule.looks().iter().all(|look| (0.0..=1.0).contains(&look.confidence)));
            prop_assert!(schedule.looks().is_sorted_by(|a, b| a.blocks < b.blocks));
            prop_assert!(schedule.ended(ended).confidence >= sound(confidence) - 1e-9);
        }
    }
}
