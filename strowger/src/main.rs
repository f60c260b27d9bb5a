//! The `strowger` program: command line and wiring.
#![forbid(unsafe_code)]

mod admin;
mod build;
mod check;
mod cli;
mod ctl;
mod interfaces;
mod load;
mod serve;
mod signals;
mod user;
mod world;

/// For the small allocations that remain on the data path: fewer instructions each than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse_from(load::args::translate(std::env::args_os())).command {
        cli::Command::Serve(args) => serve::run(&args),
        cli::Command::User { command } => user::run(&command),
        cli::Command::Ctl(args) => ctl::run(&args),
        cli::Command::Check { file } => check::run(&file),
        cli::Command::Balance { .. } => missing("balance"),
        cli::Command::Load(args) => load::run(&args),
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
