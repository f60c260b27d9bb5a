//! Who calls whom, and when: laws of random durations, arrival processes, a population of users, and
//! the search for the largest load that a server carries.
//!
//! Everything is a pure function of parameters, seed and the times it is told.
//!
//! | to know | look at |
//! |---|---|
//! | what users do, and the defaults with their sources | [`Parameters`] |
//! | when they do it | [`Population`] |
//! | how the answering side learns what to do | [`CallToken`] |
//! | when calls of a scenario begin | [`Arrivals`] |
//! | which load to try next | [`search::Search`] |
//! | whether all that is so | [`statistics`], and the tests beside it |
//!
//! An engine that owns worker 0 of 2 goes on like this:
//!
//! ```
//! use load::population::{Deed, Parameters, Population};
//! use wire::Time;
//!
//! let parameters = Parameters { users: 1_000, compression: 60.0, ..Parameters::default() };
//! let mut population = Population::new(&parameters, 42, 0, 2, Time::ZERO)?;
//! let mut registrations = 0;
//! while let Some(due) = population.next_due() {
//!     // Sleep until `due`; `now` may be later. Latency counts from `intended`.
//!     let now = due;
//!     while let Some((intended, deed)) = population.pop(now) {
//!         match deed {
//!             Deed::Register { user, .. } => {
//!                 registrations += 1;
//!                 population.registered(user, true, intended);
//!             }
//!             Deed::Call { caller, plan, .. } => {
//!                 assert_eq!(plan.token().encode().as_bytes().len(), 8);
//!                 population.call_ended(caller, intended + plan.ring + plan.hold);
//!             }
//!         }
//!     }
//! }
//! // 500 users, every ten minutes for 140 minutes.
//! assert_eq!(registrations, 500 * 14);
//! # Ok::<(), load::population::Impossible>(())
//! ```

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
pub use search::{Options as SearchOptions, Outcome, Peak, Search, Trial, Verdict};
pub use token::{CallToken, Kind, LONGEST_RING_MS, LONGEST_TOKEN, Side, TokenText};
