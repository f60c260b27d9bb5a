//! DNS look-ups off the data path.
//!
//! One thread with a single-threaded runtime asks the DNS for the workers. A worker hands a
//! [`Question`] over through a bounded queue, which never blocks, and gets the [`Answer`] through the
//! function given at the start, which posts it to the worker. Every question that was accepted is
//! answered exactly once, within the time limit; one that was not accepted comes back at once as a
//! failed answer.
//!
//! The hosts file is honoured, nameservers come from the configuration or from the system. What the
//! records mean, and in which order to use them, is not decided here.

mod config;
mod convert;
mod service;
#[cfg(test)]
mod tests;
mod types;

pub use config::{HostsFile, ResolverConfig};
pub use service::Resolver;
pub use types::{Answer, Failure, Kind, Naptr, Outcome, Question, Srv};
