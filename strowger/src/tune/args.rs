//! The command line of `strowger tune`.

use crate::cli::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tune::{JournalPlace, Machine};
use tune_rules::Expected;

/// Examples of `strowger tune --help`.
pub const EXAMPLES: &str = "Examples:
  strowger tune
      reports what limits or harms a SIP server; changes nothing
  strowger tune --connections 50000 --rate 3000
  strowger tune --config /etc/strowger/strowger.toml
  strowger tune explain udp_buffers
  strowger tune apply                        the changes of all problems, lasting
  strowger tune apply --until-reboot coalescing
  strowger tune verify                       a minute later: is everything still as applied?
  strowger tune undo
  strowger tune --script > tune.sh

Exit codes: 0 nothing matters, 1 a problem was found or something failed, 2 the command line is wrong.";

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
    /// The server's configuration file: its ports, workers, steering and limits count
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub output: Output,
    /// Where old values are kept [default: /var/lib/strowger-tune/journal below --root]
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
    /// Explain an item: what it is, what is wanted and why, what is left alone
    Explain {
        /// The item; without it, all items are listed
        name: Option<String>,
    },
    /// Make the changes of all problems, or of the named items
    Apply {
        /// Items; advice is followed by name only
        names: Vec<String>,
        /// Write no file that would set the values at boot
        #[arg(long)]
        until_reboot: bool,
    },
    /// Write settings of cards again that a boot has lost; the unit of the server does it at its start
    Restore,
    /// Check that everything is still as applied, and say what changed it
    Verify,
    /// Write back every old value, and remove the files that `apply` made
    Undo,
}
