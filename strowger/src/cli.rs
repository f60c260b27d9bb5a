//! The command line.

use crate::file::{self, ConfigFile};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use load_runner::Switch;
use std::path::{Path, PathBuf};

/// A SIP server suite: proxy, registrar and redirect server.
#[derive(Parser)]
#[command(name = "strowger", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run the proxy, registrar and redirect server
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Add, list, remove, import and export subscribers
    #[command(after_help = USER_HELP)]
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Add, list and remove tokens for programs that use the admin API
    #[command(after_help = TOKEN_HELP)]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Query or control a running server
    #[command(after_help = CTL_EXAMPLES)]
    Ctl(CtlArgs),
    /// Copy subscribers, registrations and secret into one file; the server may run
    #[command(after_help = BACKUP_HELP)]
    Backup {
        /// File to write, `-` for standard output
        file: PathBuf,
        #[command(flatten)]
        data: DataDir,
    },
    /// Restore a data directory from a backup
    #[command(after_help = RESTORE_HELP)]
    Restore {
        /// File that `strowger backup` wrote
        file: PathBuf,
        /// Move existing files into a new folder in the data directory
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        data: DataDir,
    },
    /// Check a configuration file without starting anything
    #[command(after_help = CHECK_EXAMPLES, group(ArgGroup::new("which").args(["file", "config"]).required(true)))]
    Check(ConfigFile),
    /// Run the session-aware load balancer in front of a cluster
    #[command(after_help = balance_examples())]
    Balance(BalanceArgs),
    /// Generate load: scenarios in SIPp's language, at any rate, with honest latencies
    #[command(after_help = load_runner::EXAMPLES)]
    Load(Box<load_runner::LoadArgs>),
    /// Compare reports of `load`
    #[command(hide = true, override_usage = "strowger load compare [OPTIONS] <A.json[,..]> <B.json[,..]>")]
    LoadCompare(load_runner::CompareArgs),
    /// Run performance experiments: plan, run, judge, report, compare, reproduce
    #[command(after_help = lab_runner::EXAMPLES)]
    Lab {
        #[command(subcommand)]
        command: lab_runner::LabCommand,
    },
    /// Find, explain, apply, verify and undo kernel and network card settings for SIP
    #[command(after_help = crate::tune::EXAMPLES)]
    Tune(Box<crate::tune::TuneArgs>),
    /// Print a completion script for bash, zsh or fish
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Name of the shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages: strowger.1 and one for each command
    Manual {
        /// Folder for the pages
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

const FORWARD_HELP: &str = "Examples:
  strowger user forward alice@example.com --busy +493012345 --no-answer bob --ring-time 25
  strowger user forward alice@example.com --do-not-disturb on
  strowger user forward alice@example.com --clear

`strowger user show` prints what is set.";

const TOKEN_HELP: &str = "Example:
  strowger token add portal --rights users --config /etc/strowger/strowger.toml
  curl -H \"Authorization: Bearer TOKEN\" http://127.0.0.1:8080/v1/users

The token is printed once; the data directory has its hash. A running server follows at once.";

/// What is done with tokens.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Add a token and print it
    Add {
        /// What it is for
        name: String,
        /// What it may do: read, users, operate, with commas between
        #[arg(long, value_name = "RIGHTS")]
        rights: String,
        #[command(flatten)]
        data: DataDir,
    },
    /// List tokens and their rights
    List {
        #[command(flatten)]
        data: DataDir,
        #[command(flatten)]
        output: OutputArg,
    },
    /// Remove a token
    #[command(visible_alias = "del")]
    Remove {
        /// What it is for
        name: String,
        #[command(flatten)]
        data: DataDir,
    },
}

const BACKUP_HELP: &str = "Examples:
  strowger backup /var/backups/strowger-$(date +%F).tar.gz
  strowger backup --data-dir data - | ssh backup@example.com 'cat > strowger.tar.gz'

The file contains password hashes and the secret; only its owner can read it. An existing file is replaced when the new
one is complete. Registrations of the last minutes may be missing. Configuration and call records are not included.";

const RESTORE_HELP: &str = "Example:
  systemctl stop strowger
  strowger restore --replace /var/backups/strowger-2026-11-30.tar.gz
  systemctl start strowger

Without --replace, a data directory with a database is not changed.";

const COMPLETIONS_EXAMPLES: &str = "Examples:
  strowger completions bash > /etc/bash_completion.d/strowger
  strowger completions zsh > /usr/local/share/zsh/site-functions/_strowger
  strowger completions fish > ~/.config/fish/completions/strowger.fish

The Debian package contains these files.";

const CHECK_EXAMPLES: &str = "Examples:
  strowger check /etc/strowger/strowger.toml
  strowger check --config /etc/strowger/strowger.toml      the same

Prints the configuration with all defaults, or every error with its line.";

const SERVE_EXAMPLES: &str = "Examples:
  strowger serve
      UDP and TCP on port 5060 of every address, subscribers in ./data, digest required
  strowger serve --domain example.com --listen udp:192.0.2.1:5060 --listen tcp:192.0.2.1:5060
  strowger serve --config /etc/strowger/strowger.toml --workers 4
  strowger serve /etc/strowger/strowger.toml --workers 4     the same
  strowger serve --listen udp:127.0.0.1:5070 --auth off      for a test bench only

SIGTERM or Ctrl-C drains and stops, a second one stops at once; SIGHUP reloads the file.";

/// Options of `serve`; they override the file.
#[derive(Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigFile,
    /// Where to listen: udp:ADDR:PORT, or tcp, tls, ws, wss; may be repeated [default: UDP and TCP, port 5060
    /// of every address]
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT")]
    pub listen: Vec<String>,
    /// The certificate chain for TLS, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// A domain this server is responsible for; may be repeated
    #[arg(long, value_name = "NAME")]
    pub domain: Vec<String>,
    /// Where the database and the server's secret are kept [default: data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Worker threads [default: 0, one for each core]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// How datagrams come to their worker: auto, kernel or ring [default: auto, the kernel if it is
    /// available]
    #[arg(long, value_name = "GRADE")]
    pub steering: Option<String>,
    /// Where the admin API listens, or `off` [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub admin: Option<String>,
    /// Whether local users must prove who they are [default: on]
    #[arg(long, value_name = "on|off")]
    pub auth: Option<Switch>,
}

fn balance_examples() -> String {
    BALANCE_EXAMPLES.replace("ALGORITHMS", &serving::balancing_algorithms())
}

const BALANCE_EXAMPLES: &str = "Examples:
  strowger balance --node sip:192.0.2.11:5060 --node sip:192.0.2.12:5060
      UDP and TCP on port 5060 of every address; new calls go to the node with the least unfinished work
  strowger balance --listen udp:192.0.2.1:5060 --node 'sip:192.0.2.11;weight=2' --node sip:192.0.2.12 \\
      --algorithm tjsq
  strowger balance --config /etc/strowger/strowger.toml
  strowger balance /etc/strowger/strowger.toml               the same
  strowger ctl nodes; strowger ctl drain 192.0.2.12:5060; strowger ctl add-node sip:192.0.2.13:5060

Algorithms: ALGORITHMS.
A node is an address or a name; a name stands for all servers that the DNS has for it (SRV, A, AAAA).
The certificate of a node over TLS must have its address or name, or NAME in `;verify=NAME`. Nodes can call only
phones that registered through the balancer.
SIGTERM ends it after `stop_delay` (3 s), until when it serves as ever, new calls too; a second one, or Ctrl-C, ends it
at once. SIGHUP reloads the file.";

/// Options of `balance`; they override the file.
#[derive(Args)]
pub struct BalanceArgs {
    #[command(flatten)]
    pub config: ConfigFile,
    /// Listen here: udp:ADDR:PORT, or with tcp, tls, ws, wss or sctp; may be repeated [default: UDP and TCP,
    /// port 5060 of every address]
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT")]
    pub listen: Vec<String>,
    /// The certificate chain for TLS, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// A node: sip:HOST:PORT[;weight=N][;transport=udp|tcp|tls|sctp][;verify=NAME]; may be repeated
    #[arg(long, value_name = "URI")]
    pub node: Vec<String>,
    /// Who gets a new call [default: tlwl]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Worker threads [default: 0, one for each core]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Where the admin API listens, or `off` [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub admin: Option<String>,
    /// Where the balancer's secret is kept; balancers of one cluster have the same [default: data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum UserCommand {
    /// Add a subscriber, or change the password of one
    #[command(
        after_help = "Examples:\n  strowger user add alice@example.com --password secret --data-dir data\n  strowger user add alice@example.com --config /etc/strowger/strowger.toml\n      asks for the password"
    )]
    Add {
        /// The subscriber; phones have the domain as their server
        #[arg(value_name = "USER@DOMAIN")]
        name: String,
        /// The password; other users of this machine may see it [default: ask twice, or read standard input
        /// if it is not a terminal]
        #[arg(long, value_name = "P")]
        password: Option<String>,
        #[command(flatten)]
        data: DataDir,
    },
    /// List subscribers
    List {
        /// Only those of this domain
        #[arg(long)]
        domain: Option<String>,
        #[command(flatten)]
        data: DataDir,
        #[command(flatten)]
        output: OutputArg,
    },
    /// Remove a subscriber and its bindings
    #[command(visible_alias = "del")]
    Remove {
        /// The subscriber
        #[arg(value_name = "USER@DOMAIN")]
        name: String,
        #[command(flatten)]
        data: DataDir,
    },
    /// Show or set the class that limits the calls of a subscriber; a running server knows within a second
    Class {
        /// The subscriber
        #[arg(value_name = "USER@DOMAIN")]
        name: String,
        /// The name of a [[class]]; `none`: that of the domain
        class: Option<String>,
        #[command(flatten)]
        data: DataDir,
    },
    /// Import subscribers from a CSV file
    #[command(after_help = IMPORT_HELP)]
    Import {
        /// The CSV file
        file: PathBuf,
        /// The domain of lines that name none
        #[arg(long)]
        domain: Option<String>,
        /// Import the good lines even if there are bad ones
        #[arg(long)]
        skip_bad_lines: bool,
        /// What counts where the ha1 of a line is not that of its password [default: such a line is bad]
        #[arg(long, value_name = "COLUMN")]
        prefer: Option<Preferred>,
        #[command(flatten)]
        data: DataDir,
    },
    /// Set where calls to a subscriber go; a running server knows within a second
    #[command(after_help = FORWARD_HELP)]
    Forward {
        /// The subscriber
        #[arg(value_name = "USER@DOMAIN")]
        name: String,
        #[command(flatten)]
        wishes: Box<ForwardArgs>,
        #[command(flatten)]
        data: DataDir,
    },
    /// Show what is set for a subscriber
    Show {
        /// The subscriber
        #[arg(value_name = "USER@DOMAIN")]
        name: String,
        #[command(flatten)]
        data: DataDir,
        #[command(flatten)]
        output: OutputArg,
    },
    /// Write all subscribers as CSV to standard output
    Export {
        #[command(flatten)]
        data: DataDir,
    },
}

/// What is to be set for calls to a subscriber. What is not given stays.
#[derive(Args)]
pub struct ForwardArgs {
    /// Forward all calls there: a number, a user, `user@domain` or a URI; `off`: none
    #[arg(long, value_name = "TARGET")]
    pub always: Option<String>,
    /// Forward calls while the subscriber is busy, or declines
    #[arg(long, value_name = "TARGET")]
    pub busy: Option<String>,
    /// Forward calls that nobody answers
    #[arg(long, value_name = "TARGET")]
    pub no_answer: Option<String>,
    /// Forward calls if no phone is registered or can be reached
    #[arg(long, value_name = "TARGET")]
    pub unreachable: Option<String>,
    /// Ring these at the same time, at most 4; `off`: none
    #[arg(long, value_name = "TARGET")]
    pub also: Vec<String>,
    /// Ring for so long, at most 600 s; 0: as `[forwarding]` says
    #[arg(long, value_name = "SECONDS")]
    pub ring_time: Option<u16>,
    /// Let no phone ring
    #[arg(long, value_name = "WHETHER")]
    pub do_not_disturb: Option<Switch>,
    /// Remove all that is set first
    #[arg(long)]
    pub clear: bool,
}

/// Which of two columns counts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preferred {
    /// The hash
    Ha1,
    /// The password
    Password,
}

const IMPORT_HELP: &str = "The first line names the columns: username,domain,password or \
username,domain,ha1. A dump of a
Kamailio or OpenSIPS subscriber table works as it is. Fields are separated by commas, semicolons or tabs; the
escapes of MySQL's SELECT ... INTO OUTFILE are understood. All lines are imported or none. Further columns, such as
forward_always, set what `strowger user forward` does; `strowger user export` has all of them.

Example:
  strowger user import users.csv --data-dir data";

const USER_HELP: &str = "Subscribers are in the server's data directory. Name it with --data-dir, or name the
server's configuration file with --config; `strowger serve` logs which one it uses. A running
server follows within a second. If root runs the command, it works as the owner of the directory.";

#[derive(Args)]
pub struct DataDir {
    /// The server's data directory [default: that of --config, else data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The server's configuration file: its data_dir counts, from where the file is
    /// [default: /etc/strowger/strowger.toml, if it exists and ./data does not]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DataDir {
    /// The configuration file that is meant: the one named, or that of an installed server if none is named
    /// and there is no data directory here.
    pub fn config(&self) -> Option<&Path> {
        match (&self.config, &self.data_dir) {
            (Some(file), _) => Some(file),
            (None, None) if !Path::new("data").exists() => file::installed(),
            (None, _) => None,
        }
    }
}

#[derive(Args)]
pub struct OutputArg {
    /// Form of the answer
    #[arg(long, value_enum, default_value = "table")]
    pub output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

const CTL_EXAMPLES: &str =
    "[serve]: of `strowger serve` only; [balance]: of `strowger balance` only; the others: of either.

Examples:
  strowger ctl status
  strowger ctl bindings --aor alice@example.com --output json
  strowger ctl status --config /etc/strowger/strowger.toml    at the admin address of that file
  strowger ctl reload --admin 127.0.0.1:8080
  strowger ctl refused --about alice
  strowger ctl nodes
  strowger ctl drain 192.0.2.11:5060";

/// `ctl`.
#[derive(Args)]
pub struct CtlArgs {
    #[command(subcommand)]
    pub command: CtlCommand,
    /// Where the server's admin API listens [default: that of --config, else 127.0.0.1:8080]
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    pub admin: Option<String>,
    /// The server's configuration file: its [admin] says where the API listens and which token it asks for
    /// [default: /etc/strowger/strowger.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with the bearer token, if the server asks for one [default: that of --config]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub output: Output,
}

impl CtlArgs {
    /// The configuration file that is meant: the one named, or that of an installed server if no address is
    /// named.
    pub fn config(&self) -> Option<&Path> {
        match (&self.config, &self.admin) {
            (Some(file), _) => Some(file),
            (None, None) => file::installed(),
            (None, Some(_)) => None,
        }
    }
}

#[derive(Subcommand)]
pub enum CtlCommand {
    /// The state of the server; exits with 1 if nobody answers, or a balancer is about to end
    Status,
    /// Read the configuration file again: all of it comes into force, or nothing
    Reload,
    /// Take no new calls or registrations, finish what is under way; of a balancer one node alone
    Drain {
        /// The node of a balancer, HOST:PORT
        node: Option<String>,
        /// The balancer itself refuses all new calls, until its next restart
        #[arg(long, conflicts_with = "node")]
        all: bool,
    },
    /// [serve] Who is registered where
    Bindings {
        /// Only this address-of-record
        #[arg(long, value_name = "USER@DOMAIN")]
        aor: Option<String>,
    },
    /// [serve] Calls being set up or under way
    Calls,
    /// [serve] Targets of trunks, routes, voicemail, emergency calls; registrations: state, calls, last error
    Trunks,
    /// [serve] Show the prefix and the trunks that are used for a number
    Route {
        /// The number, as `+4930555`, `tel:+49-30-555` or `sip:+4930555@example.com`
        number: String,
    },
    /// Stream connections: peer, verified name, age, bytes, TLS
    Connections {
        /// Only those of tcp, tls, ws or wss
        #[arg(long)]
        transport: Option<String>,
        /// Only those to this address, with a port or without
        #[arg(long, value_name = "ADDR[:PORT]")]
        peer: Option<String>,
        /// Show at most N
        #[arg(long, value_name = "N", default_value_t = 1000)]
        limit: usize,
    },
    /// [serve] List the latest requests that were refused because of their sender or target
    Refused {
        /// Show only requests from this address
        #[arg(long, value_name = "ADDR")]
        source: Option<String>,
        /// Show only requests whose address-of-record or target contains TEXT
        #[arg(long, value_name = "TEXT")]
        about: Option<String>,
        /// Show at most N
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Certificates of TLS listeners: names, expiry, kind of key, which domains each is for
    Certificates,
    /// [balance] The nodes
    Nodes,
    /// [balance] Give a node calls again
    Undrain {
        /// The node, HOST:PORT
        node: String,
    },
    /// [balance] Give a node nothing at all
    Maintain {
        /// The node, HOST:PORT
        node: String,
    },
    /// [balance] Add a node, until the next restart
    AddNode {
        /// The node, sip:HOST:PORT[;weight=N][;transport=udp|tcp]
        node: String,
    },
    /// [balance] Take a node out of the list: its calls go on, and it gets no new ones
    RemoveNode {
        /// The node, HOST:PORT
        node: String,
    },
    /// [balance] Count anew what the counters count
    Audit,
    /// [balance] Change the algorithm, until the next restart or reload
    Algorithm {
        /// Its name
        name: String,
    },
}
