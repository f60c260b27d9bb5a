//! The keys at the top that no factor may vary: the question, the seed, how often blocks are repeated.

use super::Repetitions;
use super::forms::{name, sentence};
use super::keys::keys;
use super::plan::MOST_BLOCKS;
use std::time::Duration;
use toml_form::form::{DAY, length, number};

keys! {
    /// The keys at the top that no factor may vary.
    pub struct Design = "" {
        /// The question that the experiment answers, in words.
        question: String = String::new(), sentence().no_default();
        /// The paper whose figures `[[reference]]` has: authors, title, year.
        paper: String = String::new(), sentence().no_default();
        /// Number of blocks. Each has every system at every combination of factors once. Without it and
        /// `budget`: one more than the fewest that can decide all claims, 7 or more.
        repetitions: Option<u32> = None, number(1..=MOST_BLOCKS.into()).optional();
        /// As many blocks as fit into this time, two at least, in place of `repetitions`.
        budget: Option<Duration> = None, length(Duration::from_secs(60)..=DAY.saturating_mul(7)).optional();
        /// Seed of all random choices: the order of runs, the times of calls.
        seed: u64 = 1, number(0..=i64::MAX.unsigned_abs());
        /// A system that runs twice in each block, the A/A control. Without it: the one that most claims
        /// compare, or else the first. More systems run twice where a claim compares none of these.
        control: Option<String> = None, name().optional();
    }
}

impl Design {
    /// How often blocks are repeated: `usual` if nothing is written.
    pub fn repeated(&self, usual: u32) -> Repetitions {
        match (self.repetitions, self.budget) {
            (Some(blocks), _) => Repetitions::Blocks(blocks),
            (None, Some(budget)) => Repetitions::Within(budget),
            (None, None) => Repetitions::Blocks(usual),
        }
    }
}
