//! `strowger check`: a configuration and its consequences, without starting.

use crate::file::ConfigFile;
use crate::{fail, say_errors};
use control::config::{Config, Overrides};
use serving::METHODS;
use std::process::ExitCode;

pub fn run(file: &ConfigFile) -> ExitCode {
    let Some(file) = file.path() else { return fail(&"no configuration file; name it") };
    match Config::load(Some(file), &Overrides::default(), METHODS) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                eprintln!("warning: {warning}");
            }
            println!("# {} is good; this is what it means", file.display());
            print!("{}", loaded.with_whole_paths().render_effective());
            ExitCode::SUCCESS
        }
        Err(errors) => {
            say_errors(&errors);
            let count = errors.len();
            eprintln!("{count} {} in {}", if count == 1 { "error" } else { "errors" }, file.display());
            ExitCode::FAILURE
        }
    }
}
