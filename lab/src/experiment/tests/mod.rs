//! Experiments as texts: what they mean, what is said of mistakes, and what holds for all of them.

mod claims;
mod definitions;
mod findings;
mod good;
mod layers;
mod network;
mod paper;
mod properties;
mod refused;

use super::*;

/// An experiment without files.
fn read(text: &str) -> Result<Experiment, Vec<ConfigError>> {
    Experiment::read(&Sources::new("x.toml", text))
}

/// A good experiment.
#[track_caller]
fn good(text: &str) -> Experiment {
    read(text).unwrap_or_else(|errors| panic!("{}", listed(&errors)))
}

fn listed(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
