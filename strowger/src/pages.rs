//! Manual pages and completions of shells, from the definition of the command line.

use crate::cli::Cli;
use crate::fail;
use clap::CommandFactory;
use clap_complete::Shell;
use control::say;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Writes what a shell needs to complete options and subcommands.
pub fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "strowger", &mut script);
    say::out(format_args!("{}", String::from_utf8_lossy(&script)));
    ExitCode::SUCCESS
}

/// Writes a page for each command into a folder, which is made if it is not there.
pub fn manual(folder: &Path) -> ExitCode {
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format_args!("cannot write manual pages into {}: {error}", folder.display())),
    }
}
