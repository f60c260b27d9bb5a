//! The `strowger` program: the command line.
#![forbid(unsafe_code)]
// A reader may close the pipe: `say` handles that, `println!` panics.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod backup;
mod balance;
mod check;
mod cli;
mod ctl;
mod file;
mod owner;
mod pages;
mod serve;
mod terminal;
mod token;
mod tune;
mod user;

/// For the small allocations that remain on the data path: fewer instructions each than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser;
use control::config::ConfigError;
use control::say;
use serving::SHOWN_ERRORS;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A kernel that has no larger ones gives none.
    let _ = worker_runtime::small_pages();
    match cli::Cli::parse_from(load_runner::translate(std::env::args_os())).command {
        cli::Command::Serve(args) => serve::run(&args),
        cli::Command::User { command } => user::run(&command),
        cli::Command::Token { command } => token::run(&command),
        cli::Command::Ctl(args) => ctl::run(&args),
        cli::Command::Backup { file, data } => backup::write(&file, &data),
        cli::Command::Restore { file, replace, data } => backup::read(&file, &data, replace),
        cli::Command::Check(file) => check::run(&file),
        cli::Command::Balance(args) => balance::run(&args),
        cli::Command::Load(args) => load_runner::run(&args),
        cli::Command::LoadCompare(args) => load_runner::compare(&args),
        cli::Command::Lab { command } => lab_runner::run(&command),
        cli::Command::Tune(args) => tune::run(&args),
        cli::Command::Completions { shell } => pages::completions(shell),
        cli::Command::Manual { folder } => pages::manual(&folder),
    }
}

/// Reports an error of a command and the exit code that goes with it.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    say::err(format_args!("strowger: {error}"));
    ExitCode::FAILURE
}

/// Writes what is wrong with a configuration, one finding on each line.
fn say_errors(errors: &[ConfigError]) {
    for error in errors.iter().take(SHOWN_ERRORS) {
        say::err(format_args!("{error}"));
    }
    if let more @ 1.. = errors.len().saturating_sub(SHOWN_ERRORS) {
        say::err(format_args!("and {more} more"));
    }
}
