//! The configuration file that a command names, and reading it.

use crate::say_errors;
use clap::Args;
use control::config::{Config, Loaded, Overrides};
use serving::METHODS;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Both spellings: `COMMAND FILE` and `COMMAND --config FILE`.
#[derive(Args, Default)]
pub struct ConfigFile {
    /// Configuration file; a relative path in it starts from where the file is
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file, if one is named.
    pub fn path(&self) -> Option<&Path> {
        self.config.as_deref().or(self.file.as_deref())
    }
}

/// The configuration of an installed server, which `user` and `ctl` mean where they are not told otherwise.
const INSTALLED: &str = "/etc/strowger/strowger.toml";

/// [`INSTALLED`], if it is there.
pub fn installed() -> Option<&'static Path> {
    Some(Path::new(INSTALLED)).filter(|file| file.exists())
}

/// Reads the file, if there is one, and applies the options. Errors are written out, and the exit code is
/// returned.
pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Loaded, ExitCode> {
    Config::load(file, overrides, METHODS).map_err(|errors| {
        say_errors(&errors);
        ExitCode::FAILURE
    })
}
