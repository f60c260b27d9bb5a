//! From a file and the command line to a [`Config`].

use super::error::ConfigError;
use super::reader::{NO_FILE, Place, Reader, Section};
use super::schema::ELSEWHERE;
use super::trunk::each_path;
use super::{Config, Server, Tls, sections, syntax};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Larger files are refused; octets.
const LARGEST_FILE: u64 = 4 << 20;

/// Octets of the secret of a cluster.
const SECRET_BYTES: u64 = 32;

/// What the command line says; it wins over the file. Texts are as typed: they are checked here, so
/// that their errors come together with those of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen`: replaces the whole list.
    pub listen: Vec<String>,
    /// `--tls-cert`: the first certificate.
    pub tls_cert: Option<PathBuf>,
    /// `--tls-key`: its key.
    pub tls_key: Option<PathBuf>,
    /// `--domain`: replaces the whole list.
    pub domains: Vec<String>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--workers`.
    pub workers: Option<usize>,
    /// `--steering`.
    pub steering: Option<String>,
    /// `--admin`.
    pub admin: Option<String>,
    /// `--auth on|off`.
    pub auth: Option<bool>,
    /// `--node`: replaces the whole list.
    pub nodes: Vec<String>,
    /// `--algorithm`.
    pub algorithm: Option<String>,
}

/// A good configuration, and its warnings.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Findings that do not keep it from working.
    pub warnings: Vec<ConfigError>,
    /// The file it came from; `None` if there was none.
    pub file: Option<PathBuf>,
    /// Where each section starts, for messages of a refused reload.
    pub(super) places: BTreeMap<String, Place>,
}

/// The keys that name a file which must exist at the start.
const FILES: [(&str, &str); 5] = [
    ("admin", "token_file"),
    ("balance", "previous_secret"),
    ("tls", "ticket_keys"),
    ("websocket", "token_secret"),
    ("records", "token_file"),
];

/// Where `[balance]` lists its nodes, each by its number.
const NODES: &str = "balance.nodes";

/// The keys that name certificates, which are checked apart.
const CERTIFICATES: [(&str, &str); 2] = [("tls", "certificates"), ("tls", "roots")];

/// The key that names the route table, whose rows are checked apart.
const ROUTE_TABLE: (&str, &str) = ("routes", "file");

/// What only `strowger serve` reads.
const OF_SERVE: &[&str] = &[
    "domains",
    "aliases",
    "auth",
    "registrar",
    "voicemail",
    "forwarding",
    "emergency",
    "trunk",
    "route",
    "class",
    "domain",
    "caller",
    "routes",
    "timers",
    "overload",
    "store",
    "records",
];

impl Loaded {
    /// Its paths made whole, so that it means the same in a file elsewhere.
    pub fn with_whole_paths(mut self) -> Loaded {
        let Config { server, tls, admin, balance, websocket, trunks, route_file, records, .. } =
            &mut self.config;
        let whole = |path: &mut PathBuf| {
            if let Ok(whole) = std::path::absolute(&*path) {
                *path = whole;
            }
        };
        let others = [
            &mut admin.token_file,
            &mut balance.previous_secret,
            &mut websocket.token_secret,
            &mut route_file.file,
            &mut records.file,
            &mut records.token_file,
        ];
        others.into_iter().flatten().chain([&mut server.data_dir]).for_each(whole);
        tls.each_path(whole);
        trunks.iter_mut().for_each(|trunk| each_path(trunk, whole));
        self
    }

    /// What is wrong with the files that the configuration names: a start would fail for it.
    pub fn check_files(&self) -> Vec<ConfigError> {
        let Config { admin, balance, tls: section, websocket, records, .. } = &self.config;
        let text =
            |file: &Option<PathBuf>| file.as_deref().and_then(|file| crate::admin::read_secret(file).err());
        let (token, connecting) = (text(&admin.token_file), text(&websocket.token_secret));
        let secret = balance.previous_secret.as_deref().and_then(|file| read_secret(file).err());
        let tickets = section.ticket_keys.as_deref().and_then(|file| tls::TicketSecret::read(file).err());
        let tickets = tickets.map(std::io::Error::other);
        let found = FILES.into_iter().zip([token, secret, tickets, connecting, text(&records.token_file)]);
        let findings = found.filter_map(|((section, key), error)| Some((section, key, error?)));
        let finding = |(section, key, error): (&str, &str, std::io::Error)| {
            let what = format!("{key} cannot be used: {error}");
            self.at(&format!("{section}.{key}"), what, mend_of(&error))
        };
        let passwords = self.read_passwords().err().unwrap_or_default();
        findings.map(finding).chain(passwords).collect()
    }

    /// A finding about the file of the route table, which cannot be read.
    pub fn at_route_file(&self, file: &Path, error: &std::io::Error) -> ConfigError {
        let (section, key) = ROUTE_TABLE;
        let what = format!("{key} cannot be used: {}: {error}", file.display());
        self.at(&format!("{section}.{key}"), what, mend_of(error))
    }

    /// A finding about the node with this number in the list.
    pub fn at_node(&self, number: usize, message: String) -> ConfigError {
        self.at(&format!("{NODES}.{number}"), message, "")
    }

    /// A finding at the place of a section or key, if this is known.
    pub(super) fn at(&self, place: &str, message: String, mend: &str) -> ConfigError {
        let (line, column) = self.places.get(place).copied().unwrap_or((0, 0));
        let file = self.file.as_deref().map_or_else(String::new, |file| file.display().to_string());
        ConfigError { file, line, column, message, mend: mend.to_owned() }
    }

    /// The configuration as TOML with every default, without what a balancer does not read if the file is
    /// one's: it has `[balance]`, and nothing of `strowger serve`.
    pub fn render_effective(&self) -> String {
        let whole = self.config.render_effective();
        if !self.places.contains_key("balance") || OF_SERVE.iter().any(|name| self.places.contains_key(*name))
        {
            return whole;
        }
        let unread = |part: &&str| {
            let header = part.lines().next().unwrap_or_default();
            OF_SERVE.contains(&header.trim_matches(['[', ']']))
        };
        let parts: Vec<&str> = whole.split("\n\n").filter(|part| !unread(part)).collect();
        parts.join("\n\n")
    }
}

/// What a single run over a configuration is given besides the text.
#[derive(Clone, Copy)]
pub(super) struct Context<'o> {
    pub overrides: &'o Overrides,
    /// Method names the rest of the server knows. The shell knows none by itself; these only serve
    /// to catch spelling mistakes.
    pub methods: &'o [&'o str],
    /// The top of the file, once it is read.
    pub server: &'o Server,
    /// `[tls]`, once it is read.
    pub tls: &'o Tls,
    /// Names of classes, once they are read.
    pub classes: &'o [String],
}

impl Config {
    /// Reads the file, if there is one, and applies the command line. `methods` are the method
    /// names that `auth.challenge` is expected to use; others are allowed with a warning.
    pub fn load(
        file: Option<&Path>,
        overrides: &Overrides,
        methods: &[&str],
    ) -> Result<Loaded, Vec<ConfigError>> {
        let Some(path) = file else { return Config::parse(NO_FILE, "", overrides, methods) };
        let name = path.display().to_string();
        let text = read_file(path).map_err(|fault| {
            let ConfigFault(message, mend) = fault;
            vec![ConfigError { file: name.clone(), line: 0, column: 0, message, mend }]
        })?;
        let mut loaded = Config::parse(&name, &text, overrides, methods)?;
        resolve_paths(&mut loaded.config, path, overrides);
        loaded.file = Some(path.to_owned());
        Ok(loaded)
    }

    /// The same for a text already in memory; `name` stands in messages where a file name would.
    pub fn parse(
        name: &str,
        text: &str,
        overrides: &Overrides,
        methods: &[&str],
    ) -> Result<Loaded, Vec<ConfigError>> {
        let mut reader = Reader::new(name, text).with(ELSEWHERE);
        let (document, syntax) = DeTable::parse_recoverable(text);
        if let Some((span, fault)) = syntax::first(text, &syntax) {
            // What is left of a broken document is not what was meant: findings in it would only mislead.
            reader.error(&span, fault);
            return Err(reader.errors);
        }
        let table = document.get_ref();
        for (key, _) in table.iter() {
            let place = reader.place(key.span().start);
            reader.places.insert(key.get_ref().to_string(), place);
        }
        for (section, key) in FILES.into_iter().chain(CERTIFICATES).chain([ROUTE_TABLE]) {
            if let Some(DeValue::Table(inside)) = table.get(section).map(|value| value.get_ref())
                && let Some(value) = inside.get(key)
            {
                let place = reader.place(value.span().start);
                reader.places.insert(format!("{section}.{key}"), place);
            }
        }
        if let Some(DeValue::Table(inside)) = table.get("balance").map(|value| value.get_ref())
            && let Some(DeValue::Array(nodes)) = inside.get("nodes").map(|value| value.get_ref())
        {
            for (number, node) in nodes.iter().enumerate() {
                let place = reader.place(node.span().start);
                reader.places.insert(format!("{NODES}.{number}"), place);
            }
        }
        let (server, tls) = (&Server::default(), &Tls::default());
        let context = Context { overrides, methods, server, tls, classes: &[] };
        let config = sections::read(&mut reader, Section::new("", 0..0, Some(table)), &context);
        if !reader.errors.is_empty() {
            reader.errors.sort_by_key(|e| (e.line == 0, e.line, e.column));
            reader.errors.dedup();
            return Err(reader.errors);
        }
        reader.warnings.sort_by_key(|w| (w.line, w.column));
        Ok(Loaded { config, warnings: reader.warnings, file: None, places: reader.places })
    }
}

/// Paths in a file are meant from where the file is, not from where the server was started.
fn resolve_paths(config: &mut Config, file: &Path, overrides: &Overrides) {
    let Some(base) = file.parent() else { return };
    if overrides.data_dir.is_none() {
        config.server.data_dir = base.join(&config.server.data_dir);
    }
    let records = &mut config.records;
    let named = [
        &mut config.admin.token_file,
        &mut config.websocket.token_secret,
        &mut config.route_file.file,
        &mut records.file,
        &mut records.token_file,
    ];
    for path in named.into_iter().flatten() {
        *path = base.join(&*path);
    }
    config.tls.resolve_paths(base, overrides);
    config.trunks.iter_mut().for_each(|trunk| each_path(trunk, |path| *path = base.join(&*path)));
    if let Some(secret) = &mut config.balance.previous_secret {
        *secret = base.join(&*secret);
    }
}

/// The secret that a cluster of balancers had before.
fn read_secret(path: &Path) -> std::io::Result<()> {
    let named = |e: std::io::Error| std::io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    let file = regular_file::open(path).map_err(named)?;
    file.take(SECRET_BYTES + 1).read_to_end(&mut bytes).map_err(named)?;
    if bytes.len() as u64 != SECRET_BYTES {
        let what = format!("{}: not {SECRET_BYTES} octets", path.display());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    }
    Ok(())
}

/// What to do about a file that cannot be read.
fn mend_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "make the file, or correct the path",
        std::io::ErrorKind::PermissionDenied => "give the user of the server the right to read it",
        _ => "",
    }
}

/// Message and mend.
struct ConfigFault(String, String);

fn read_file(path: &Path) -> Result<String, ConfigFault> {
    let cannot = |e: std::io::Error| {
        let mend = match e.kind() {
            std::io::ErrorKind::NotFound => "check the path: a relative one starts where the command is run",
            std::io::ErrorKind::PermissionDenied => "give this user the right to read it",
            std::io::ErrorKind::IsADirectory => "name the file in it",
            _ => "",
        };
        ConfigFault(format!("cannot read: {e}"), mend.into())
    };
    let bytes = regular_file::read(path, LARGEST_FILE).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        ConfigFault(format!("not UTF-8 at octet {at}"), "save it as UTF-8".into())
    })
}
