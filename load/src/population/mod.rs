//! Who calls whom, and when: laws of random durations, arrival processes, a population of users, and
//! the search for the largest load that a server carries.
//!
//! Everything is a pure function of parameters, seed and the times it is told.

pub mod arrivals;
mod calendar;
mod distribution;
#[cfg(test)]
mod long_run;
mod model;
#[cfg(test)]
mod model_tests;
mod parameters;
mod phases;
mod rng;
pub mod search;
mod special;
pub mod statistics;
mod token;
mod zipf;

pub use arrivals::{Arrivals, Profile, RateOptions, Spacing, Times};
pub use distribution::{Distribution, Impossible};
pub use model::{Deed, Plan, Population};
pub use parameters::{Callees, Expected, LONGEST_RUN, Parameters, USERS_PER_WORKER};
pub use phases::{Phase, Phases};
pub use rng::Rng;
pub use search::{Outcome, Peak, Search, Trial, Verdict};
pub use token::{CallToken, Kind, LONGEST_RING_MS, LONGEST_TOKEN, Side, TokenText};
