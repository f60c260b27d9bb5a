//! The command line of `strowger lab`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::serve::ServeArgs;

/// What follows the help of `strowger lab`.
pub const EXAMPLES: &str = "Examples:
  strowger lab plan lab/quick.toml
      show the runs, their order, their duration, and the smallest difference that they can show
  strowger lab run lab/quick.toml
      run it; results are in quick.lab/, the report is quick.lab/report.html
  strowger lab run lab/quick.toml --set workload.rate=2000 --set repetitions=12 --out fast.lab
      run it with other values
  strowger lab report quick.lab
      judge the runs again and rewrite the report
  strowger lab compare old.lab quick.lab
      show two results side by side
  strowger lab reproduce quick.lab/NAME.run.tgz
      repeat one run and compare it with the archived one
  strowger lab history quick-*.lab
      find where figures changed over many results

Ctrl-C keeps complete blocks. The same command continues after them.
Exit codes of run: 0 PASS, or no claim; 1 FAIL; 2 wrong usage, or a part did not start; 3 VOID or STOPPED;
4 NO DIFFERENCE SHOWN.";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Show the runs of an experiment, their order and duration, and the smallest difference they can show
    Plan(PlanArgs),
    /// Run an experiment, or its missing runs, and judge it
    Run(RunArgs),
    /// Judge the runs in a folder again and rewrite the report
    Report(ReportArgs),
    /// Show two results side by side
    Compare(CompareArgs),
    /// Repeat one archived run and show both results
    Reproduce(ReproduceArgs),
    /// Find where figures changed over many results
    History(HistoryArgs),
    /// Run a small server that experiments measure
    Serve {
        /// The server.
        #[command(subcommand)]
        server: LabServer,
    },
}

/// Servers that experiments measure.
#[derive(Subcommand, Debug)]
pub enum LabServer {
    /// Read datagrams and answer none
    Sink {
        /// Listen on this address
        own: SocketAddr,
        /// Set the receive buffer of the socket, octets [default: that of the kernel]
        #[arg(long, value_name = "OCTETS")]
        receive_buffer: Option<usize>,
    },
    /// Relay datagrams between two addresses without reading them: the lower bound for a proxy
    Relay {
        /// Listen on this address
        own: SocketAddr,
        /// Address of one side
        caller: SocketAddr,
        /// Address of the other side
        callee: SocketAddr,
    },
    /// Send received data back
    Echo(ServeArgs),
    /// Read SIP requests and answer 200, without keeping state
    FrontEnd(ServeArgs),
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// An experiment file with settings over it.
#[derive(Args, Debug)]
pub struct ExperimentArgs {
    /// The experiment
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Set this value, such as workload.rate=2000; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Use this seed for all random choices [default: that of the file]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Read this personal file [default: ~/.config/strowger/lab.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub personal: Option<PathBuf>,
}

/// `lab plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The experiment.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Show where each setting comes from
    #[arg(long)]
    pub show_origin: bool,
    /// Print text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// `lab run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The experiment.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Write the runs and the report into this folder [default: NAME.lab]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run even if another experiment runs on this machine: each disturbs the other
    #[arg(long)]
    pub share_machine: bool,
    /// Print text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// `lab report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The folder of `lab run`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// `lab compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// The folder of the first result
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// The folder of the second result
    #[arg(value_name = "B")]
    pub second: PathBuf,
    /// Write an HTML page as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `lab reproduce`.
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// The archive of a run
    #[arg(value_name = "ARCHIVE")]
    pub archive: PathBuf,
    /// Repeat it N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub times: u32,
    /// Start the programs that the archive names, with its arguments and configuration
    #[arg(long)]
    pub trust: bool,
    /// Run even if another experiment runs on this machine: each disturbs the other
    #[arg(long)]
    pub share_machine: bool,
    /// Print text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// `lab history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// Folders of results, the oldest first
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,
    /// Print text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}
