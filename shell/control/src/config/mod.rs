//! `strowger.toml`: read, checked and turned into a typed, immutable [`Config`].
//!
//! Everything wrong is reported at once, each finding with its line, its column and a mend. A
//! configuration that is not right is not half used: [`Config::load`] gives one or the other.

mod balance;
mod defaults;
mod diff;
mod error;
mod keys;
mod load;
mod reader;
mod render;
mod sections;
mod syntax;
#[cfg(test)]
mod tests;
mod trunks;
mod types;
mod values;

pub use balance::{Balance, BalanceBy, BalanceNode, FailedDialogs, NodePlace, PathBy, RegisterBy};
pub use diff::{Changes, ReloadReport, diff, plan_reload};
pub use error::ConfigError;
pub use load::{Loaded, Overrides};
pub use types::*;
