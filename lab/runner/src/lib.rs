//! Runs experiments: starts the systems and the generator, samples the machine, keeps an archive of each run.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "it waits for programs and reads the clock beside them")]

pub mod addresses;
pub mod archive;
pub mod args;
pub mod certificates;
pub mod cli;
pub mod generator;
pub mod history;
pub mod machine;
pub mod process;
pub mod relay;
pub mod reproduce;
pub mod run;
pub mod sampler;
pub mod screening;
pub mod session;
pub mod sip;
pub mod systems;
pub mod warm_up;
