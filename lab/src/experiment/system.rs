//! `[system.NAME]`: what is measured.

use super::claims::levels;
use super::forms::{path, template, variable, word};
use super::keys::keys;
use super::{Combination, Level};
use std::path::PathBuf;
use std::time::Duration;
use toml_form::form::{HOUR, choice, length, list, number};
use toml_form::named;

named! {
    /// What a system is.
    SystemKind {
        /// `strowger serve`.
        Strowger = "strowger",
        /// `strowger balance` in front of back ends of the generator.
        Balance = "balance",
        /// Kamailio, started with a configuration file.
        Kamailio = "kamailio",
        /// Any server that a command starts.
        Command = "command",
        /// A relay that forwards datagrams without reading them: what the network path costs.
        Relay = "relay",
        /// No server: the generator calls its own answering side (RFC 7502 section 6.1).
        None = "none",
    }
}

/// What stands for something of a run in `config`, `command` and `environment`: `${NAME}`, and its meaning.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("ip", "the address of the system"),
    ("port", "its port for UDP and TCP"),
    ("tls_port", "its port for TLS"),
    ("workers", "its number of workers"),
    ("folder", "a folder that it may fill"),
    ("config", "the file that has `config`"),
    ("domain", "the domain of the users"),
    ("generator", "address and port of the answering side"),
    ("backends", "the back ends, `ADDRESS:PORT`, with commas between"),
    ("backend_list", "a file with a line `1 sip:ADDRESS:PORT` for each back end: Kamailio's dispatcher list"),
    ("certificate", "the file of its certificate, with TLS"),
    ("key", "the file of the key, with TLS"),
];

keys! {
    /// `[system.NAME]`: a system under test.
    pub struct System = "[system.NAME]" {
        /// What it is. `command` is any server; `relay` forwards datagrams unread; `none` is no server.
        kind: SystemKind = SystemKind::Strowger, choice(SystemKind::ALL);
        /// The program. Without it: the one that runs the experiment; for Kamailio the one in the search
        /// path. A name without `/` is looked up in the search path.
        binary: Option<PathBuf> = None, path().optional();
        /// Program and arguments, for the kind `command`.
        command: Vec<String> = Vec::new(), list(word()).no_default();
        /// The configuration, a template. For Strowger it is added to what the workload needs; a rival has
        /// nothing else.
        config: String = String::new(), template().no_default();
        /// A file that holds the template, or the rest of it: it follows `config`.
        config_file: Option<PathBuf> = None, path().optional();
        /// Variables of its environment.
        environment: Vec<String> = Vec::new(), list(variable()).no_default();
        /// Worker threads or processes.
        workers: u32 = 1, number(1..=1_024);
        /// Processors that it may use. Without it: the first one, if system and generator have one worker
        /// each.
        cpus: Vec<u32> = Vec::new(), list(number(0..=4_095)).once("processor").no_default();
        /// How long it may take until it answers.
        start_limit: Duration = Duration::from_secs(10), length(Duration::from_millis(100)..=HOUR);
        /// Values of factors at which it runs: `{ transport = "udp" }`. Without it: at every combination.
        at: Vec<Level> = Vec::new(), levels().no_default();
        /// A file with keys of this section, which those written here override.
        file: Option<PathBuf> = None, path().optional();
    }
}

impl System {
    /// Whether it runs at this combination of factors.
    pub fn runs_at(&self, combination: &Combination) -> bool {
        self.at.iter().all(|level| combination.value(&level.factor) == Some(level.value.as_str()))
    }

    /// Whether it is there for comparison alone: no server, or a bare relay.
    pub fn is_baseline(&self) -> bool {
        matches!(self.kind, SystemKind::None | SystemKind::Relay)
    }

    /// Whether there are back ends behind it: it is a balancer of this build, or names them.
    pub fn has_backends(&self) -> bool {
        let names = |text: &String| ["${backends}", "${backend_list}"].iter().any(|name| text.contains(name));
        let texts = || std::iter::once(&self.config).chain(&self.command).chain(&self.environment);
        self.kind == SystemKind::Balance || texts().any(names)
    }
}
