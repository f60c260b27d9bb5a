//! The certificates of TLS listeners and trunks: read at the start, with each reload, and when their files
//! change.

mod entry;
mod stamp;
mod towards;

use crate::operator::lock;
use crate::startup::Failure;
use control::admin::CertificateStatus;
use control::config as c;
use control::config::{ConfigError, Loaded};
use control::metrics::{Kind, Text};
use entry::Entry;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tls::settings::{roots_in, roots_of_system};
use tls::{
    Authorities, CertificateError, Choice, Client, ClientCertificates, ClientSettings, KeyFile, KeyLog,
    RootCertStore, Server, ServerSettings, TicketSecret,
};
use towards::Towards;
use wire::Time;
use worker_runtime::monotonic_now;

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_secs(2);

/// What clients are shown, and the files that it comes from. Clones share it.
#[derive(Clone)]
pub struct Certificates(Arc<Shelf>);

struct Shelf {
    choice: Arc<Choice>,
    client: Client,
    /// Who is believed about servers, and where the keys of sessions with them are written.
    roots: Arc<RootCertStore>,
    key_log: Option<Arc<dyn KeyLog>>,
    /// The authorities for client certificates, if clients are asked for one.
    authorities: Option<Authorities>,
    /// Held for no longer than a moment, never while a file is read: a file system may hang.
    read: Mutex<Arc<Read>>,
    next_look: Mutex<Time>,
    /// Wakes the thread that looks at the files; `None` inside if it could not be started.
    watch: OnceLock<Option<SyncSender<()>>>,
}

/// The content of the files.
#[derive(Clone)]
struct Read {
    /// Those of `[tls]`.
    entries: Vec<Entry>,
    /// Those of trunks that have some.
    trunks: Vec<Towards>,
}

/// The files of a new configuration, read.
pub struct Prepared(Read);

impl Read {
    /// Looks at the files. `true` if something else counts then.
    fn look(&mut self, asked: bool) -> bool {
        let now = wall_seconds();
        let mut changed = false;
        for entry in &mut self.entries {
            changed |= entry.look(now, asked);
        }
        for towards in &mut self.trunks {
            changed |= towards.look(now, asked);
        }
        changed
    }
}

impl Shelf {
    fn read(&self) -> Arc<Read> {
        Arc::clone(&lock(&self.read))
    }

    /// Looks at the files. What it finds is left to the next look if a reload comes in between.
    fn look(&self, asked: bool) {
        let before = self.read();
        let mut new = Read::clone(&before);
        let changed = new.look(asked);
        let mut read = lock(&self.read);
        if Arc::ptr_eq(&before, &read) {
            *read = Arc::new(new);
            if changed {
                self.show(&read);
            }
        }
    }

    /// Puts the certificates and roots that were read into use. Without a usable certificate in `[tls]`, the
    /// earlier one stays in use.
    fn show(&self, Read { entries, trunks }: &Read) {
        let Shelf { choice, client, roots, key_log, authorities, .. } = self;
        if let Some(authorities) = authorities {
            let sets: Vec<_> = trunks.iter().filter_map(Towards::roots).collect();
            authorities.replace(sets.iter().map(|(name, roots)| (&name[..], Arc::clone(roots))));
        }
        let all: Vec<_> = entries.iter().filter_map(Entry::shown).collect();
        if all.is_empty() {
            return;
        }
        choice.replace(all);
        let default = towards_servers(entries, roots, key_log.as_ref());
        let named: Vec<_> =
            trunks.iter().map(|towards| (towards, towards_trunk(towards, &default))).collect();
        let by_name = named.iter().flat_map(|(towards, settings)| {
            towards.names().iter().map(move |name| (name.as_str(), settings))
        });
        if let Err(error) = client.replace(&default, by_name) {
            log_events::certificates::client_certificate_kept(&error);
        }
    }
}

/// What is wrong with certificates of a configuration: `strowger check` says the same.
///
/// # Errors
/// A file cannot be used.
pub fn refuse_unusable(new: &Loaded) -> Result<(), Vec<ConfigError>> {
    let found = new.check_certificates(wall_seconds());
    if found.errors.is_empty() { Ok(()) } else { Err(found.errors) }
}

impl Certificates {
    /// Reads them, and what TLS listeners serve with; `None` if the configuration has no certificate. A
    /// server that connections are opened to is shown the default certificate, if it asks for one.
    pub fn start(whole: &c::Config) -> Result<Option<(Certificates, Server)>, Failure> {
        let config = &whole.tls;
        if config.certificates.is_empty() {
            return Ok(None);
        }
        let now = wall_seconds();
        let mut entries: Vec<Entry> = config.certificates.iter().cloned().map(Entry::new).collect();
        for entry in &mut entries {
            entry.read_first(now)?;
        }
        let mut trunks = Towards::all(&whole.trunks, &[]);
        for towards in &mut trunks {
            towards.read_first(now)?;
        }
        let choice = Arc::new(Choice::default());
        let roots = authorities(config)?;
        let clients = config.client_certificates;
        let key_log = key_log(config)?;
        let read = Read { entries, trunks };
        let client = Client::new(&towards_servers(&read.entries, &roots, key_log.as_ref()), [])?;
        let settings = ServerSettings {
            choice: Arc::clone(&choice),
            clients,
            roots: Arc::clone(&roots),
            key_log: key_log.clone(),
        };
        let server = settings.shared_server(ticket_secret(config)?);
        let server = server.map_err(|error| format!("TLS cannot be served: {error}"))?;
        let authorities = server.authorities().cloned();
        let next_look = Mutex::new(monotonic_now() + LOOK);
        let read = Mutex::new(Arc::new(read));
        let watch = OnceLock::new();
        let shelf = Shelf { choice, client, roots, key_log, authorities, read, next_look, watch };
        shelf.show(&lock(&shelf.read));
        let certificates = Certificates(Arc::new(shelf));
        Ok(Some((certificates, server)))
    }

    /// Reads the files of a new configuration, for [`Certificates::follow`]. Files that were there before
    /// keep their certificate until they give another.
    pub fn prepare(&self, config: &c::Config) -> Prepared {
        let before = self.0.read();
        let known = |files: &c::CertificateFiles| {
            let same = before.entries.iter().find(|entry| entry.has_files(files));
            same.map_or_else(|| Entry::new(files.clone()), |entry| entry.with_domains(files))
        };
        let mut new = Read {
            entries: config.tls.certificates.iter().map(known).collect(),
            trunks: Towards::all(&config.trunks, &before.trunks),
        };
        new.look(true);
        Prepared(new)
    }

    /// Takes what was read of a reloaded configuration.
    pub fn follow(&self, Prepared(new): Prepared) {
        let mut read = lock(&self.0.read);
        *read = Arc::new(new);
        self.0.show(&read);
    }

    /// What TLS connections begin with that this server opens.
    pub fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// Looks at the files as a reload does: what is wrong is logged at once.
    pub fn look_now(&self) {
        self.0.look(true);
    }

    /// Has a thread look at the files, if that was not done a moment ago. The caller waits for none.
    pub fn look(&self) {
        let now = monotonic_now();
        let mut next = lock(&self.0.next_look);
        if now < *next {
            return;
        }
        *next = now + LOOK;
        match self.0.watch.get_or_init(|| watcher(Arc::downgrade(&self.0)).ok()) {
            // It is full while the thread still waits for a file.
            Some(watch) => drop(watch.try_send(())),
            None => self.0.look(false),
        }
    }

    /// All of them, for people.
    pub fn list(&self) -> Vec<CertificateStatus> {
        let read = self.0.read();
        let (now, mut taken) = (wall_seconds(), Vec::new());
        let mut is_default = true;
        let mut all = Vec::with_capacity(read.entries.len());
        for entry in &read.entries {
            let mut status = entry.status(now);
            // Of two for one domain the earlier is shown.
            status.serves.retain(|name| !taken.contains(name));
            taken.extend(status.serves.iter().cloned());
            status.default = status.days_left.is_some() && std::mem::take(&mut is_default);
            all.push(status);
        }
        all.extend(read.trunks.iter().filter_map(|towards| towards.status(now)));
        all
    }

    /// What an operator should look at.
    pub fn alarms(&self) -> Vec<String> {
        let now = wall_seconds();
        let read = self.0.read();
        let own = read.entries.iter().filter_map(|entry| entry.alarm(now));
        own.chain(read.trunks.iter().flat_map(|towards| towards.alarms(now))).collect()
    }
}

/// Starts the thread that looks at the files each time it is woken, until they are gone.
fn watcher(shelf: Weak<Shelf>) -> std::io::Result<SyncSender<()>> {
    let (sender, receiver) = sync_channel(1);
    let watch = move || {
        while let (Ok(()), Some(shelf)) = (receiver.recv(), shelf.upgrade()) {
            shelf.look(false);
        }
    };
    std::thread::Builder::new().name("certificates".to_owned()).spawn(watch)?;
    Ok(sender)
}

/// When they expire, for `/metrics`.
pub fn metrics(certificates: Option<&Certificates>, text: &mut Text<'_>) {
    const NAME: &str = "strowger_tls_certificate_expiry_seconds";
    const HELP: &str = "When the certificate of this file expires, in seconds since 1970.";
    text.family(NAME, HELP, Kind::Gauge);
    let Some(Certificates(shelf)) = certificates else { return };
    let read = shelf.read();
    let own = read.entries.iter().filter_map(|entry| Some((entry.chain(), entry.facts()?)));
    // A file may be named more than once.
    let mut files: Vec<_> = own.chain(read.trunks.iter().filter_map(Towards::facts)).collect();
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    files.dedup_by(|(one, _), (other, _)| one == other);
    for (chain, facts) in files {
        text.sample(NAME, &[("chain", &chain)], facts.not_after);
    }
}

/// Where keys of sessions are written, which the log says.
fn key_log(config: &c::Tls) -> Result<Option<Arc<dyn KeyLog>>, CertificateError> {
    let Some(file) = &config.key_log else { return Ok(None) };
    let opened = KeyFile::open(file)?;
    log_events::certificates::key_log_on(&file.display());
    Ok(Some(Arc::new(opened)))
}

/// What keys of session tickets follow from.
fn ticket_secret(config: &c::Tls) -> Result<TicketSecret, Failure> {
    let Some(file) = &config.ticket_keys else { return Ok(TicketSecret::random()?) };
    let secret = TicketSecret::read(file)?;
    if file.metadata().is_ok_and(|meta| meta.mode() & 0o077 != 0) {
        log_events::certificates::ticket_keys_open(&file.display());
    }
    Ok(secret)
}

/// Who is believed.
fn authorities(config: &c::Tls) -> Result<Arc<RootCertStore>, Failure> {
    if let Some(file) = &config.roots {
        return Ok(roots_in(file)?);
    }
    match roots_of_system() {
        Ok(roots) => Ok(roots),
        // Clients could not be judged, but servers may never be connected to.
        Err(error) if config.client_certificates == ClientCertificates::Off => {
            log_events::certificates::no_authorities(&error);
            Ok(Arc::new(RootCertStore::empty()))
        }
        Err(error) => Err(error.into()),
    }
}

/// What decides about connections to servers. They are shown the first certificate.
fn towards_servers(
    entries: &[Entry],
    roots: &Arc<RootCertStore>,
    key_log: Option<&Arc<dyn KeyLog>>,
) -> ClientSettings {
    ClientSettings {
        roots: Arc::clone(roots),
        wildcards: false,
        certificate: entries.iter().find_map(Entry::shown).map(|(certificate, _)| certificate.clone()),
        resume: true,
        key_log: key_log.cloned(),
    }
}

/// The same for the servers of a trunk. If the certificate of the trunk cannot be used, they get none.
fn towards_trunk(towards: &Towards, default: &ClientSettings) -> ClientSettings {
    let shown = |entry: &Entry| entry.shown().map(|(certificate, _)| certificate.clone());
    ClientSettings {
        roots: towards.roots().map_or_else(|| Arc::clone(&default.roots), |(_, roots)| roots),
        wildcards: default.wildcards,
        certificate: towards.certificate().map_or_else(|| default.certificate.clone(), shown),
        resume: default.resume,
        key_log: default.key_log.clone(),
    }
}

fn wall_seconds() -> i64 {
    crate::serve::wall_micros() / 1_000_000
}
