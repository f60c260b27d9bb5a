//! Performance experiments as data: the file that describes one, the plan of its runs, the statistics and
//! verdicts of what was measured, the archive and the report.
//!
//! Nothing here starts a process, opens a file or reads a clock: seeds and samples are arguments. So every
//! verdict can be tested on made-up measurements.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod associations;
pub mod beside;
pub mod checks;
pub mod costs;
pub mod experiment;
pub mod judgement;
mod occupancy;
pub mod outcome;
pub mod record;
pub mod report;
/// Samples, intervals, comparisons and verdicts.
pub mod statistics;
pub mod times;
