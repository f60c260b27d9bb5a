//! `[system.NAME]`: what is measured.

use super::claims::levels;
use super::forms::{amount, path, template, variable, word};
use super::keys::keys;
use super::{Combination, Level};
use std::path::PathBuf;
use std::time::Duration;
use toml_form::form::{HOUR, choice, flag, length, list, number};
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
        /// `strowger lab serve echo`: it sends back what comes.
        Echo = "echo",
        /// `strowger lab serve front-end`: it reads SIP requests and answers 200, without memory of them.
        FrontEnd = "front-end",
        /// A relay that forwards datagrams without reading them: what the network path costs.
        Relay = "relay",
        /// A receiver of datagrams that answers none: what the path to a socket loses.
        Sink = "sink",
        /// No server: the generator calls its own answering side (RFC 7502 section 6.1).
        None = "none",
    }
}

named! {
    /// The sockets of an echo server or a front end.
    Sockets {
        /// UDP.
        Udp = "udp",
        /// TCP: a socket for each connection.
        Tcp = "tcp",
        /// SCTP: a socket for each association (RFC 6458 section 4).
        OneToOne = "one-to-one",
        /// SCTP: one socket for all associations (RFC 6458 section 3).
        OneToMany = "one-to-many",
    }
}

impl Sockets {
    /// Whether the kernel must have SCTP.
    pub const fn need_sctp(self) -> bool {
        matches!(self, Sockets::OneToOne | Sockets::OneToMany)
    }
}

named! {
    /// A database server beside a system.
    Beside {
        /// None.
        None = "none",
        /// MariaDB with Kamailio's tables.
        MariaDb = "mariadb",
    }
}

/// What stands for something of a run in `config`, `command` and `environment`: `${NAME}`, and its meaning.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("ip", "the address of the system"),
    ("port", "its port for UDP and TCP"),
    ("tls_port", "its port for TLS"),
    ("workers", "its number of workers"),
    ("folder", "a folder that it may write to"),
    ("config", "the file with `config`"),
    ("domain", "the domain of the users"),
    (
        "users",
        "number of users that the system must know: `u1000000` and so on, with the passwords `p1000000` and so on",
    ),
    ("mailbox", "address and port of the mailbox of a population"),
    ("generator", "address and port of the answering side"),
    ("backends", "the back ends, `ADDRESS:PORT`, with commas between"),
    ("backend_list", "a file with a line `1 sip:ADDRESS:PORT` for each back end: Kamailio's dispatcher list"),
    ("database", "the URL of its database for MySQL's client library, with `database` in its section"),
    ("database_address", "address and port of its database"),
    ("database_socket", "the Unix socket of its database"),
    (
        "resolver",
        "address and port of the lab's DNS server, which resolves every name to the address of the answering side",
    ),
    ("certificate", "the file of its certificate, with TLS"),
    ("key", "the file of the key, with TLS"),
];

keys! {
    /// `[system.NAME]`: a system under test.
    pub struct System = "[system.NAME]" {
        /// Kind of the system. `command` is any server; `relay` forwards datagrams unread; `sink` reads
        /// datagrams and answers none; `none` is no server.
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
        /// Its sockets, for the kinds `echo` and `front-end`.
        sockets: Sockets = Sockets::Udp, choice(Sockets::ALL);
        /// Whether clients send their request together with the third packet of the handshake of SCTP,
        /// without a separate set-up. For the kinds `echo` and `front-end`.
        piggyback: bool = false, flag();
        /// A database server of its own, with Kamailio's tables (`subscriber`, `location`, `version`) and all
        /// users. It runs on the processors of the system, and its cost is added to that of the system. Its
        /// own samples are `database.cpu` and `database.memory`.
        database: Beside = Beside::None, choice(Beside::ALL);
        /// Further options of the database server, such as `"--innodb-buffer-pool-size=2G"`.
        database_options: Vec<String> = Vec::new(), list(word()).no_default();
        /// Whether the data of Strowger is in memory (`/dev/shm`) in place of the disk.
        data_in_memory: bool = false, flag();
        /// Worker threads or processes.
        workers: u32 = 1, number(1..=1_024);
        /// Processors that it may use. Without it: the first one, if system and generator have one worker
        /// each.
        cpus: Vec<u32> = Vec::new(), list(number(0..=4_095)).once("processor").no_default();
        /// The share of one processor that all its processes have together: 0.06 for 6 %, so that a generator
        /// can overload it. Needs a control group, so root. 1: no limit.
        processor_share: f64 = 1.0, amount(0.001..=1.0);
        /// The receive buffer of a sink's socket, octets. Without it: that of the kernel,
        /// net.core.rmem_default.
        receive_buffer: Option<u64> = None, number(2_048..=1 << 30).optional();
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

    /// Whether its clients open associations: it is an echo server or a front end.
    pub fn serves_associations(&self) -> bool {
        matches!(self.kind, SystemKind::Echo | SystemKind::FrontEnd)
    }

    /// Whether it has names of a database in what is filled in.
    pub(super) fn names_database(&self) -> bool {
        let texts = || std::iter::once(&self.config).chain(&self.command).chain(&self.environment);
        texts().any(|text| text.contains("${database"))
    }

    /// Whether it is told where its configuration is.
    pub(super) fn names_config(&self) -> bool {
        let mut texts = self.command.iter().chain(&self.environment);
        texts.any(|text| text.contains("${config}") || text.contains("${folder}"))
    }

    /// Whether there are back ends behind it: it is a balancer of this build, or names them.
    pub fn has_backends(&self) -> bool {
        self.kind == SystemKind::Balance || self.names("${backends}") || self.names("${backend_list}")
    }

    /// Whether it asks the DNS server of the lab.
    pub fn asks_names(&self) -> bool {
        self.names("${resolver}")
    }

    /// Whether this stands in a text that is filled in for each run.
    fn names(&self, placeholder: &str) -> bool {
        let mut texts = std::iter::once(&self.config).chain(&self.command).chain(&self.environment);
        texts.any(|text| text.contains(placeholder))
    }
}
