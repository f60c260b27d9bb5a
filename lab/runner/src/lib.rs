//! Runs experiments: starts the systems and the generator, samples the machine, keeps an archive of each run,
//! and has
//! `lab` judge and report what was measured.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "it waits for programs and reads the clock beside them")]

mod addresses;
mod archive;
mod args;
mod associations;
mod backends;
mod capture;
mod certificates;
mod cli;
mod database;
mod emulated;
mod explained;
mod generator;
mod hardware;
mod history;
mod injection;
mod leftovers;
mod lock;
mod machine;
mod names;
mod network;
mod network_faults;
mod owner;
mod phases;
mod ping;
mod process;
mod processors;
mod programs;
mod quota;
mod registrations;
mod relay;
mod reproduce;
mod run;
mod sampler;
mod screening;
mod serve;
mod session;
mod signs;
mod sink;
mod sip;
mod systems;
mod trust;
mod wall;
mod warm_up;
mod wire;
mod witness;

pub use args::{EXAMPLES, LabCommand};
pub use cli::run;
