//! The command line of `strowger tune`.

use crate::cli::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tune::{JournalPlace, Machine};
use tune_rules::Expected;

/// Examples of `strowger tune --help`.
pub const EXAMPLES: &str = "Examples:
  strowger tune
      report settings that limit or harm a SIP server; changes nothing
  strowger tune --connections 50000 --rate 3000
  strowger tune --config /etc/strowger/strowger.toml
  strowger tune explain udp_buffers
  strowger tune apply                        change all problems, also after a reboot
  strowger tune apply --until-reboot coalescing
  strowger tune verify                       a minute later: check that nothing was changed back
  strowger tune undo
  strowger tune --script > tune.sh

Exit codes: 0 no problem, 1 a problem was found or the command failed, 2 the command line is wrong.";

/// `tune`.
#[derive(Args)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub command: Option<TuneCommand>,
    /// Print the changes as a shell script in place of the report
    #[arg(long)]
    pub script: bool,
    /// Expected stream connections (TCP, TLS, WebSocket) at one time [default: that of --config, else 10000]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=Expected::MOST))]
    pub connections: Option<u64>,
    /// Expected new calls a second [default: 1000]
    #[arg(long, global = true, value_name = "CALLS/S", value_parser = clap::value_parser!(u64).range(1..=Expected::MOST))]
    pub rate: Option<u64>,
    /// Take ports, workers, steering and limits from this configuration file of the server
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub output: Output,
    /// File with the old values [default: /var/lib/strowger-tune/journal below --root]
    #[arg(long, global = true, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Read and write the tree below DIR in place of this machine, such as an image
    #[arg(long, global = true, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

impl TuneArgs {
    /// Where old values are kept.
    pub fn journal(&self) -> JournalPlace {
        match &self.journal {
            Some(path) => JournalPlace::from(path),
            None => JournalPlace::of(&Machine::new(&self.root)),
        }
    }
}

#[derive(Subcommand)]
pub enum TuneCommand {
    /// Explain an item: its purpose, wanted values with reasons, what is not changed
    Explain {
        /// Name of the item [default: list all items]
        name: Option<String>,
    },
    /// Make the changes of all problems, or of the named items
    Apply {
        /// Names of items; advice is applied only by name [default: all problems]
        names: Vec<String>,
        /// Do not write files that set the values at boot
        #[arg(long)]
        until_reboot: bool,
    },
    /// Restore settings of cards after a boot; the unit of the server does this at its start
    Restore,
    /// Check that all settings are as applied, and name the cause of changes
    Verify,
    /// Restore all old values, and remove the files that `apply` created
    Undo,
}
