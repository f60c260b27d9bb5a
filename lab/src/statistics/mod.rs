//! What measurements show, and how surely.
//!
//! One run of a system gives one value of each metric. Values within a run depend on each other, so the
//! number of runs counts, not that of calls. An experiment is a list of blocks; each block holds one run of
//! every system, in an order that is drawn anew. Systems are compared within blocks, so a machine that drifts
//! from block to block moves both sides alike.
//!
//! No law of the noise is assumed. In a block whose order is random, two systems of equal speed are
//! exchangeable. Therefore the differences within blocks are symmetric around zero, which is all that
//! [`Paired`] needs.
//!
//! | question | answer |
//! |---|---|
//! | what is in this sample | [`Summary`], [`Latencies`] |
//! | where is its median | [`median_interval`] |
//! | does a system differ from another | [`Paired`], [`Unpaired`] without blocks |
//! | what does the same build show against itself | [`Floor`] |
//! | is a claim kept | [`judge`] |
//! | how many blocks does it take | [`detectable`], [`repetitions_for`] |
//! | may the experiment stop | [`Schedule`] |
//! | is the warm-up over | [`steady`] |
//! | does a run count | [`screen`] |
//! | when did a figure change | [`changes`] |
//!
//! Every function is total: NaN, infinities, empty and constant samples give an answer or a named refusal.

mod changes;
mod claim;
mod compare;
mod floor;
#[cfg(test)]
mod hostile;
mod interval;
mod judge;
mod latencies;
mod looks;
mod power;
mod ranks;
mod sample;
mod screening;
mod steady;
mod summary;

pub use changes::{Change, ChangeRule, LONGEST_HISTORY, changes};
pub use claim::{Claim, Kind};
pub use compare::{Paired, Unpaired, pairs};
pub use floor::Floor;
pub use interval::{
    Estimate, FEWEST_RESAMPLED, Interval, Method, NoInterval, bootstrap, median_interval, order_statistics,
};
pub use judge::{Evidence, Judgement, Rule, Verdict, judge};
pub use latencies::Latencies;
pub use looks::{Look, MOST_LOOKS, Schedule};
pub use power::{Detectable, Goal, Spread, detectable, repetitions_for};
pub use ranks::{RankTest, mann_whitney, signed_rank};
pub use sample::{LARGEST, MOST_VALUES, SMALLEST, median};
pub use screening::{Fact, Failures, Observed, Screened, Share, Tolerance, screen, unequal};
pub use steady::{Steadiness, SteadyRule, Trend, steady, trend};
pub(crate) use summary::needs;
pub use summary::{Percentile, Summary};
