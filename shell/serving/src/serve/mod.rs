//! The server: everything put together, from the configuration to the last goodbye.

mod admin;
mod build;
mod carriers;
mod courier;
mod limits;
mod lines;
mod live;
mod records;
mod refusals;
mod routes;
mod searches;
mod trunks;
mod unserved;
mod users;
mod world;

pub use build::METHODS;
pub use routes::check_routes;

use self::admin::{Control, Running};
use self::courier::Courier;
use self::limits::Limited;
use self::refusals::Refusals;
use self::unserved::Unserved;
use self::world::{Ask, SharedLedger, World};

use crate::absolute;
use crate::bugs::Bugs;
use crate::keys::derive;
use crate::memory::Room;
use crate::startup::{self, Failure, Startup, say_ready};
use call_log::{CallLog, Teller};
use control::config::{self as c, Config, Loaded, Overrides};
use control::metrics::Registry;
use control::signals::Signal;
use control::systemd::Notifier;
use number_routes::RouteTable;
use resolver::{Resolver, ResolverConfig};
use sip_auth::Secret;
use sip_node::{Keys, Node, NodeConfig, Notice, Standings};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use store::{Clock, LocationLimits, OnFailure, Store, StoreOptions, load_or_create_secret};
use wire::Transport;
use worker_runtime::{Bound, Runtime, RuntimeHandle, monotonic_now};

/// Longest wait for requests under way after the first SIGTERM, beyond timers B and F.
const DRAIN_MARGIN: Duration = Duration::from_secs(8);

/// Serves until it is told to end.
///
/// # Errors
/// What keeps it from starting, or that a worker has failed.
pub fn serve(loaded: Loaded, overrides: Overrides) -> Result<(), Failure> {
    let startup = Startup::begin(&loaded, "starting")?;
    let (config, workers) = (&loaded.config, startup.workers);
    let table = routes::at_start(&loaded)?;
    let passwords = carriers::at_start(&loaded)?;
    // Every address first: a start that fails because one is taken leaves nothing behind.
    let sockets = startup.bind(config)?;
    let listeners = actual(&sockets.bound, &startup.listeners);
    warn_if_open(&loaded, &listeners);
    let list_of_domains = list_of_domains(&loaded, &overrides);
    let secret_bytes = load_or_create_secret(&absolute(&config.server.data_dir))?;
    let keys = keys(&secret_bytes);
    // The kernel checks its program while the store is loaded.
    let steering = startup.helmsman.steer(
        sockets.bound,
        keys.ownership(),
        (config.server.steering, wants_sieve(config)),
        workers,
    )?;
    let clock = Clock::new(monotonic_now, wall_micros);
    let store = open_store(config, &listeners, clock, workers)?;
    if let Some(tokens) = &sockets.tokens {
        tokens.are_for(store.credentials());
    }
    let parts = Parts::new(&loaded, workers, listeners, secret_bytes, keys, &store);
    let parts = parts.with_accounts(&loaded.config, &passwords);
    let (bound, grade) = steering.finish()?;
    let courier = Arc::new(Courier::default());
    let resolver = start_resolver(config, &courier)?;
    let (records, tellers) = records::start(config, workers)?;
    let (handle, runtime) = start_workers(&parts, (&store, tellers, &table), bound, resolver, &courier)?;
    let dir = absolute(&config.server.data_dir);
    let admin = sockets.admin.map(|socket| socket.with_tokens(dir.join(control::admin::TOKENS_FILE)));
    let users = users::UserBook { dir, location: store.location() };
    let control = Arc::new(Control::new(Running {
        loaded,
        overrides,
        handle: handle.clone(),
        location: store.location(),
        registry: Arc::clone(&parts.registry),
        listeners: parts.listeners.clone(),
        secret: parts.secret,
        gateways: parts.settings.gateways.clone(),
        standings: parts.standings.clone(),
        routes: routes::Routes::new(table),
        workers,
        grade,
        log: startup.log,
        certificates: sockets.certificates,
        records: records.as_ref().map(CallLog::remote),
        refusals: Arc::clone(&parts.refusals),
        users,
        credentials: Arc::clone(&parts.credentials),
    }));
    let admin = startup::start_admin(admin, control.clone())?;
    control.ready();
    let notifier = Notifier::from_env();
    say_if_idle(&control.config(), &parts.credentials);
    limits::say_findings(&control.config(), &parts.credentials);
    let unserved = Unserved::new(&parts.credentials, control.config(), list_of_domains);
    announce(&control, &notifier, workers);
    wait(&startup.signals, &control, &notifier, &handle, (unserved, courier));
    startup::end(admin, runtime, || {
        // No worker reports anything any more.
        drop(records);
        Ok(store.close()?)
    })
}

/// Whether the kernel is to be made ready to drop datagrams in an overload.
fn wants_sieve(config: &Config) -> bool {
    config.overload.enabled && config.overload.kernel
}

/// What workers and control side are made from.
struct Parts {
    settings: Arc<sip_node::Settings>,
    listeners: Vec<(Transport, SocketAddr, Option<c::HostPort>)>,
    secret: Secret,
    keys: Keys,
    seed: [u64; 2],
    ledger: Arc<SharedLedger>,
    registry: Arc<Registry>,
    location: Arc<store::SharedLocation>,
    credentials: Arc<store::CredentialCache>,
    node: (sip_transaction::Timers, sip_transaction::Limits, usize),
    common: Arc<sip_node::Common>,
    heard: Arc<sip_node::Heard>,
    limited: Arc<Limited>,
    refusals: Arc<Refusals>,
    standings: Standings,
}

impl Parts {
    fn new(
        loaded: &Loaded,
        workers: usize,
        listeners: Vec<(Transport, SocketAddr, Option<c::HostPort>)>,
        secret_bytes: [u8; 32],
        keys: Keys,
        store: &Store,
    ) -> Parts {
        let config = &loaded.config;
        let credentials = store.credentials();
        // Milliseconds: two starts, however close, have not the same.
        let epoch = (wall_micros() / 1_000) as u16;
        let secret = Secret { key: derive(&secret_bytes, "nonce"), epoch };
        let settings = build::settings(
            config,
            &listeners,
            config.admin.listen,
            &secret,
            workers,
            &sip_node::Gateways::default(),
        );
        // Transaction ids must not be the same after a restart.
        let run = derive(&secret_bytes, &format!("seed {} {:?}", wall_micros(), monotonic_now()));
        let (low, high) = run.split_at(8);
        let word = |b: &[u8]| b.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let room = Room::of(&config.limits);
        log_events::process::room(room.transactions, room.calls, room.held, room.streams);
        let limit = room.transactions.div_ceil(workers);
        Parts {
            settings: Arc::new(settings),
            listeners,
            secret,
            keys,
            seed: [word(low), word(high)],
            ledger: Arc::new(SharedLedger::new(config.auth.nonce_lifetime)),
            registry: Registry::new(workers, METHODS),
            location: store.location(),
            credentials: store.credentials(),
            node: (
                sip_transaction::Timers {
                    t1: config.timers.t1,
                    t2: config.timers.t2,
                    t4: config.timers.t4,
                    // Longer than timer C, which ends what rings for too long.
                    lifetime: config.proxy.timer_c + Duration::from_secs(60),
                },
                sip_transaction::Limits { server: limit, client: limit, bytes: room.held / workers.max(1) },
                config.dns.cache,
            ),
            common: Arc::new(sip_node::Common::new(workers)),
            heard: Arc::default(),
            limited: Arc::default(),
            refusals: Arc::new(Refusals::new(
                workers,
                Box::new(move |user, domain| credentials.is_local_user(user, domain)),
            )),
            standings: Standings::default(),
        }
    }

    /// With the accounts at trunks.
    fn with_accounts(mut self, config: &Config, passwords: &c::Passwords) -> Parts {
        self.standings = carriers::standings(config, &Standings::default());
        let settings = Arc::unwrap_or_clone(self.settings);
        self.settings = Arc::new(carriers::with_accounts(settings, config, passwords, &self.standings));
        self
    }

    fn node(
        &self,
        worker: u16,
        ask: Ask,
        keeper: store::Keeper,
        teller: Option<Teller>,
    ) -> Result<Node<World>, Failure> {
        let recorder =
            self.registry.recorder(usize::from(worker)).ok_or("no block for the worker's counters")?;
        let world = World {
            worker,
            location: Arc::clone(&self.location),
            keeper,
            credentials: Arc::clone(&self.credentials),
            ledger: Arc::clone(&self.ledger),
            recent: Default::default(),
            date: Default::default(),
            ask,
            recorder,
            refusals: Arc::clone(&self.refusals),
            limited: Arc::clone(&self.limited),
            teller: teller.map(RefCell::new),
        };
        let (timers, transactions, dns_cache) = self.node;
        let seed = [self.seed[0] ^ u64::from(worker).wrapping_mul(0x9e37_79b9_7f4a_7c15), self.seed[1]];
        let config = NodeConfig { worker, timers, transactions, dns_cache, keys: self.keys.clone(), seed };
        let mut node = Node::new(config, Arc::clone(&self.settings), world);
        node.join(Arc::clone(&self.common), worker);
        node.share_heard(Arc::clone(&self.heard));
        Ok(node)
    }
}

/// The keys of a server: one secret on disk, one key for each use.
fn keys(secret: &[u8; 32]) -> Keys {
    Keys { dialog: derive(secret, "dialog"), hash: derive(secret, "hash") }
}

#[allow(clippy::disallowed_methods, reason = "the program's wall clock, for the store and for keys")]
pub(crate) fn wall_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
}

/// The listeners as they are bound, with the names to advertise.
fn actual(bound: &Bound, wanted: &[c::Listener]) -> Vec<(Transport, SocketAddr, Option<c::HostPort>)> {
    let pairs = bound.listeners().iter().zip(wanted);
    pairs.map(|(b, w)| (b.transport, b.address, w.advertise.clone())).collect()
}

fn open_store(
    config: &Config,
    listeners: &[(Transport, SocketAddr, Option<c::HostPort>)],
    clock: Clock,
    workers: usize,
) -> Result<Store, Failure> {
    let mut options = StoreOptions::new(&absolute(&config.server.data_dir), clock);
    options.limits = LocationLimits::for_threads(workers);
    options.sockets = listeners.iter().map(|(t, a, _)| format!("{t}:{a}")).collect();
    options.on_thread = worker_runtime::take_turns_beside_workers;
    options.on_failure = match config.store.on_failure {
        c::OnStoreFailure::Refuse => OnFailure::Refuse,
        c::OnStoreFailure::Accept => OnFailure::Accept,
    };
    Ok(Store::open(options)?)
}

/// Starts the workers. The resolver is there before the first of them asks; its answers wait for the workers'
/// handle.
fn start_workers(
    parts: &Parts,
    (store, tellers, table): (&Store, Vec<Option<Teller>>, &Arc<RouteTable>),
    bound: Bound,
    resolver: Resolver,
    courier: &Arc<Courier>,
) -> Result<(RuntimeHandle<Notice>, Runtime<Notice>), Failure> {
    let resolver = Arc::new(resolver);
    let mut nodes = Vec::with_capacity(tellers.len());
    for (worker, teller) in tellers.into_iter().enumerate() {
        let (resolver, courier) = (Arc::clone(&resolver), Arc::clone(courier));
        let ask: Ask = Arc::new(move |worker, question: sip_node::Question| {
            let sip_node::Question::Name { kind, name } = question else {
                invariant::broken!("nobody asks for bindings, as all are here");
                return;
            };
            let asked = resolver::Question { worker, id: 0, kind: world::kind_of(kind), name };
            // What cannot be asked has failed, at once.
            if let Err(answer) = resolver.ask(asked) {
                courier.bring(answer);
            }
        });
        let mut node = parts.node(worker as u16, ask, store.keeper(), teller)?;
        node.route_by(Arc::clone(table));
        nodes.push(node);
    }
    let runtime = bound.start(nodes)?;
    let handle = runtime.handle();
    let poster = handle.clone();
    courier.start(move |worker, notice| poster.post(worker, notice));
    Ok((handle, runtime))
}

fn start_resolver(config: &Config, courier: &Arc<Courier>) -> Result<Resolver, Failure> {
    let courier = Arc::clone(courier);
    let settings = ResolverConfig {
        nameservers: config.dns.servers.clone(),
        timeout: config.dns.timeout,
        ..ResolverConfig::default()
    };
    Ok(Resolver::start(&settings, move |answer| courier.bring(answer))?)
}

fn announce(control: &Control, notifier: &Notifier, workers: usize) {
    let list: Vec<String> = control.listeners();
    let plural = if workers == 1 { "" } else { "s" };
    let status = format!("ready: {} with {workers} worker{plural}", list.join(", "));
    notifier.ready(&status);
    say_ready(&status, control.config().log.format);
}

/// Warns if any sender on the Internet may call our users.
fn warn_if_open(loaded: &Loaded, listeners: &[(Transport, SocketAddr, Option<c::HostPort>)]) {
    if is_open(&loaded.config, listeners.iter().map(|(_, address, _)| *address)) {
        log_events::server::open_to_strangers(&configured_in(loaded.file.as_deref()));
    }
}

/// What lists the domains that are served.
fn list_of_domains(loaded: &Loaded, overrides: &Overrides) -> String {
    match overrides.domains.is_empty() {
        true => format!("`domains` in {}", configured_in(loaded.file.as_deref())),
        false => "--domain of the server".to_owned(),
    }
}

/// The configuration file, for warnings that say what to set in it.
fn configured_in(file: Option<&Path>) -> String {
    match file {
        Some(file) => absolute(file).display().to_string(),
        None => "a configuration file, and start the server with --config FILE".to_owned(),
    }
}

/// Whether strangers are let in and some listener has a public address, or all of them.
fn is_open(config: &Config, mut addresses: impl Iterator<Item = SocketAddr>) -> bool {
    let wildcard = config.server.listen.iter().any(|l| l.address.ip().is_unspecified());
    let mut public = || addresses.any(|address| sip_registrar::is_outside(address.ip()));
    config.proxy.strangers == c::Strangers::Allow && (wildcard || public())
}

/// Says so if no phone can register yet: each has to log in, and there is nobody who could. A server between
/// trunks needs nobody.
fn say_if_idle(config: &Config, credentials: &store::CredentialCache) {
    let asks = config.auth.enabled && config.auth.challenge.covers(b"REGISTER");
    if asks && config.trunks.is_empty() && credentials.is_empty() {
        log_events::server::no_subscribers(&absolute(&config.server.data_dir).display());
    }
}

/// How often free memory is given back.
const TIDY: Duration = Duration::from_secs(1);

/// Waits for the end: a first stop drains, a second one, or nothing left to wait for, ends.
fn wait(
    signals: &Receiver<Signal>,
    control: &Control,
    notifier: &Notifier,
    handle: &RuntimeHandle<Notice>,
    (mut unserved, courier): (Unserved, Arc<Courier>),
) {
    let mut bugs = Bugs::default();
    loop {
        match signals.recv_timeout(TIDY) {
            Ok(Signal::Reload) => {
                notifier.reloading(monotonic_now().as_micros());
                // It logs what came of it.
                let _ = control::admin::Admin::reload(control);
                notifier.ready("ready");
            }
            Err(RecvTimeoutError::Timeout) => {
                worker_runtime::give_back_memory();
                courier.retry();
                unserved.look(control.config());
                control.look_at_certificates();
                bugs.look();
            }
            Ok(Signal::Stop | Signal::Interrupt) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    notifier.stopping("finishing requests under way");
    log_events::process::draining();
    control.begin_drain();
    handle.stop_accepting();
    let most = control.patience() + DRAIN_MARGIN;
    wait_for_the_rest(signals, most, || {
        courier.retry();
        control.pending() as u64
    });
}

/// Waits until nothing is pending, but not for longer than `most`; a second stop ends it at once.
fn wait_for_the_rest(signals: &Receiver<Signal>, most: Duration, pending: impl Fn() -> u64) {
    let began = monotonic_now();
    while pending() > 0 && monotonic_now().since(began) < most {
        match signals.recv_timeout(Duration::from_millis(50)) {
            Ok(Signal::Stop | Signal::Interrupt) | Err(RecvTimeoutError::Disconnected) => {
                log_events::process::stopping_at_once(pending());
                return;
            }
            Ok(Signal::Reload) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_warns_where_strangers_may_come_from_outside() {
        let mut config = Config::default();
        let at = |text: &str| [text.parse().unwrap()].into_iter();
        let listen = |config: &mut Config, text: &str| {
            config.server.listen.truncate(1);
            config.server.listen[0].address = text.parse().unwrap();
        };
        assert!(is_open(&config, at("10.0.0.1:5060")), "all addresses, by default");
        for (address, open) in [
            ("192.0.2.1:5060", true),
            ("[2001:db8::1]:5060", true),
            ("10.0.0.1:5060", false),
            ("127.0.0.1:5060", false),
        ] {
            listen(&mut config, address);
            assert_eq!(is_open(&config, at(address)), open, "{address}");
        }
        config.proxy.strangers = c::Strangers::Refuse;
        listen(&mut config, "0.0.0.0:5060");
        assert!(!is_open(&config, at("192.0.2.1:5060")));
    }

    #[test]
    fn start_warning_names_only_a_file_that_exists() {
        assert_eq!(configured_in(Some(Path::new("/etc/s.toml"))), "/etc/s.toml");
        assert_eq!(configured_in(None), "a configuration file, and start the server with --config FILE");
    }
}
