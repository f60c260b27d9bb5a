//! The `strowger` program: command line and wiring.
#![forbid(unsafe_code)]

mod admin;
mod balance;
mod build;
mod check;
mod cli;
mod counters;
mod courier;
mod ctl;
mod file;
mod interfaces;
mod keys;
mod memory;
mod process;
mod room;
mod segmentation;
mod serve;
mod startup;
mod steering;
mod throttle;
mod trunks;
mod unserved;
mod user;
mod world;

/// For the small allocations that remain on the data path: fewer instructions each than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser;
use control::config::ConfigError;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    // A kernel that has no larger ones gives none.
    let _ = worker_runtime::small_pages();
    match cli::Cli::parse_from(load_runner::translate(std::env::args_os())).command {
        cli::Command::Serve(args) => serve::run(&args),
        cli::Command::User { command } => user::run(&command),
        cli::Command::Ctl(args) => ctl::run(&args),
        cli::Command::Check(file) => check::run(&file),
        cli::Command::Balance(args) => balance::run(&args),
        cli::Command::Load(args) => load_runner::run(&args),
        cli::Command::LoadCompare(args) => load_runner::compare(&args),
        cli::Command::Lab { .. } => missing("lab"),
        cli::Command::Tune { .. } => missing("tune"),
    }
}

/// A job of the suite that does not exist yet.
fn missing(job: &str) -> ExitCode {
    eprintln!("strowger {job}: not in this version; the README's status table says what is");
    ExitCode::from(2)
}

/// Reports an error of a command and the exit code that goes with it.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("strowger: {error}");
    ExitCode::FAILURE
}

/// Findings of a configuration that are shown one by one. A file that is no configuration at all has
/// thousands, and the first ones say so.
const SHOWN_ERRORS: usize = 20;

/// Writes what is wrong with a configuration, one finding on each line.
fn say_errors(errors: &[ConfigError]) {
    for error in errors.iter().take(SHOWN_ERRORS) {
        eprintln!("{error}");
    }
    if let more @ 1.. = errors.len().saturating_sub(SHOWN_ERRORS) {
        eprintln!("and {more} more");
    }
}

/// The whole path, for people: a relative one means little without the folder it starts from.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
