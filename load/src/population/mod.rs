//! Who calls whom, and when: laws of random durations, arrival processes, a population of users, and
//! the search for the largest load that a server carries.
//!
//! Everything is a pure function of parameters, seed and the times it is told.

mod distribution;
mod rng;
mod special;
pub mod statistics;

pub use distribution::{Distribution, Impossible};
pub use rng::Rng;
