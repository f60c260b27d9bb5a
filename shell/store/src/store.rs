//! The store of a running server: everything loaded, and the threads that keep memory and disk alike.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use location::{
    Appender, Clock, Health, INTERVAL, Keeper, Kind, LoadOptions, LoadReport, LocationLimits, LogDir, Mover,
    OnFailure, Result, Sealed, SharedLocation, Start, StoreError, Writer, WriterOptions, finish, load,
};

use crate::backend::{self, Opened};
use crate::cache::CredentialCache;
use crate::directory::{self, ServerLock};
use crate::names::NameHasher;
use crate::source::{Gone, Known, Removed, SubscriberSource, forget_removed};

/// Between two looks for changes by other processes.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// Between two rounds of expiry.
const EXPIRE_INTERVAL: Duration = Duration::from_millis(250);
/// Addresses of record that one round of expiry may look at.
const EXPIRE_BUDGET: usize = 100_000;
/// How to open a [`Store`].
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The data directory; made if it is not there.
    pub data_dir: PathBuf,
    /// Names of the listeners in the order of their [`wire::ListenerId`]s, written
    /// `transport:address:port`. Bindings keep the name, so that a changed order does no harm.
    pub sockets: Vec<String>,
    /// The clocks.
    pub clock: Clock,
    /// Sizes.
    pub limits: LocationLimits,
    /// What to do with registrations while the disk fails.
    pub on_failure: OnFailure,
    /// Called by each of its threads when it begins: they offer the processor every 100 us, and the kernel
    /// can be told so.
    pub on_thread: fn(),
}

impl StoreOptions {
    /// The usual settings.
    pub fn new(data_dir: &Path, clock: Clock) -> StoreOptions {
        StoreOptions {
            data_dir: data_dir.to_path_buf(),
            sockets: Vec::new(),
            clock,
            limits: LocationLimits::default(),
            on_failure: OnFailure::default(),
            on_thread: || {},
        }
    }
}

/// An open store. Dropping it, or [`close`](Store::close), writes what is left and ends its threads.
#[derive(Debug)]
pub struct Store {
    location: Arc<SharedLocation>,
    appender: Arc<Appender>,
    clock: Clock,
    credentials: Arc<CredentialCache>,
    loaded: LoadReport,
    path: PathBuf,
    stop: Arc<Stop>,
    on_thread: fn(),
    threads: Vec<JoinHandle<()>>,
    _lock: ServerLock,
}

impl Store {
    /// Opens the data directory for a server: takes its lock, loads subscribers and bindings, starts
    /// the threads. When this returns, requests may be answered.
    pub fn open(options: StoreOptions) -> Result<Store> {
        let on_thread = options.on_thread;
        let dir = &options.data_dir;
        directory::prepare(dir)?;
        let lock = ServerLock::take(dir)?;
        let files = LogDir::new(directory::files(), dir);
        let Opened { path, mut table, mut source } = backend::open_for_server(dir)?;
        let location = Arc::new(SharedLocation::new(files.random_key()?, options.limits, options.on_failure));
        let credentials = Arc::new(CredentialCache::new(NameHasher::new(files.random_key()?)));
        let pair = options.clock.pair();
        let newest = source.newest_change()?;
        // Subscribers and bindings are read side by side.
        let (source, start) = std::thread::scope(|scope| {
            let mut known = Known::new(Arc::clone(&credentials), forgetting(&location));
            let source = scope.spawn(move || -> Result<(Box<dyn SubscriberSource>, Known)> {
                source.load(&mut known)?;
                Ok((source, known))
            });
            let loading = LoadOptions::new(&files, &options.sockets, pair, newest);
            let start = load(loading, &mut *table, &location);
            (source.join(), start)
        });
        let fault = |_| StoreError::new(Kind::System, &path, "reading it met a fault of ours", "report it");
        let (source, Start { report: loaded, log, sealed, seen }) = (source.map_err(fault)??, start?);
        forget_removed(&*source.0, &location, seen, newest)?;
        log_events::subscribers::store_loaded(
            credentials.len(),
            loaded.live,
            loaded.expired,
            &path.display(),
        );
        let (clock, sockets) = (options.clock.clone(), options.sockets);
        let mut writer = Writer::new(WriterOptions {
            location: Arc::clone(&location),
            log,
            sealed: Arc::clone(&sealed),
            sockets,
            clock: clock.clone(),
            loaded: pair,
            table_there: table.watcher()?,
        });
        writer.follow_removals(source.0.removals());
        let expired = (loaded.expired != 0).then_some(pair);
        let mover = Mover::new(Arc::clone(&location), table, files, sealed, clock, expired);
        let stop = Arc::new(Stop::default());
        let (appender, threads) = (writer.appender(), Vec::new());
        let clock = options.clock;
        let mut store = Store {
            location,
            appender,
            clock,
            credentials,
            loaded,
            path,
            stop,
            on_thread,
            threads,
            _lock: lock,
        };
        store.start(writer, mover, source)?;
        Ok(store)
    }

    /// The bindings.
    pub fn location(&self) -> Arc<SharedLocation> {
        Arc::clone(&self.location)
    }

    /// For one thread that changes bindings and tells others that they are changed.
    pub fn keeper(&self) -> Keeper {
        Keeper::new(Arc::clone(&self.location), self.appender.clone(), self.clock.clone())
    }

    /// The hashes of the subscribers.
    pub fn credentials(&self) -> Arc<CredentialCache> {
        Arc::clone(&self.credentials)
    }

    /// What was found at start.
    pub fn loaded(&self) -> LoadReport {
        self.loaded
    }

    /// Writes what is left and ends the threads. An error says how many changes could not be written.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn start(
        &mut self,
        writer: Writer,
        mover: Mover,
        (source, known): (Box<dyn SubscriberSource>, Known),
    ) -> Result<()> {
        let clock = self.clock.clone();
        let mover = Arc::new(Mutex::new(mover));
        let (moving, stop) = (Arc::clone(&mover), Arc::clone(&self.stop));
        self.spawn("store-move", MOVER_STEPS_BACK, move || move_loop(&moving, &stop))?;
        let (location, stop) = (Arc::clone(&self.location), Arc::clone(&self.stop));
        let guard = WriterGuard { location: Arc::clone(&location), clock: clock.clone() };
        let ends = clock.clone();
        self.spawn("store-write", STEPS_BACK, move || {
            let _guard = guard;
            write_loop(writer, &mover, &location, &ends, &stop);
        })?;
        let stop = Arc::clone(&self.stop);
        self.spawn("store-watch", STEPS_BACK, move || watch_loop(source, known, &stop))?;
        let (location, stop) = (Arc::clone(&self.location), Arc::clone(&self.stop));
        self.spawn("store-expire", STEPS_BACK, move || expire_loop(&location, &clock, &stop))
    }

    fn spawn(&mut self, name: &str, back: i32, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let on_thread = self.on_thread;
        let run = move || {
            step_back(back);
            on_thread();
            run();
        };
        let thread = Builder::new().name(name.to_owned()).spawn(run).map_err(|error| {
            StoreError::new(
                Kind::System,
                &self.path,
                format!("cannot start a thread for it: {error}"),
                "raise the limit of threads (ulimit -u)",
            )
        })?;
        self.threads.push(thread);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.stop.set();
        let mut panicked = false;
        for thread in self.threads.drain(..) {
            panicked |= thread.join().is_err();
        }
        let left = self.location.pending();
        if left == 0 && !panicked {
            return Ok(());
        }
        let why = match self.location.health() {
            Health::Failing { error, .. } => error,
            Health::Good => "a thread of the store ended early".to_owned(),
        };
        Err(StoreError::new(
            Kind::System,
            &self.path,
            format!("{left} changes of bindings could not be written: {why}"),
            "phones that do not register again by themselves must be made to",
        ))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.threads.is_empty()
            && let Err(error) = self.finish()
        {
            log_events::subscribers::store_not_closed(&error);
        }
    }
}

/// A user who is gone must not be called any more.
fn forgetting(location: &Arc<SharedLocation>) -> Removed {
    let location = Arc::clone(location);
    Box::new(move |gone: Gone<'_>| {
        _ = match gone {
            Gone::One(aor) => location.remove(aor),
            Gone::Those(gone) => location.remove_where(gone),
        };
    })
}

/// How far the threads of the store step back for the workers, in steps of nice(2). Where they share a
/// processor the kernel gives a worker four times as much of it: with equal shares a burst of the writer kept
/// calls waiting for hundreds of milliseconds. A fifth is left for the writer, far more than it takes: what
/// it has is to be on the disk within a second. (By nice(2) it is a third; offering the processor every 100
/// us, in turns of 200 us, costs the rest.)
const STEPS_BACK: i32 = 3;

/// The thread that moves the log into the table has time: what waits for it is durable already, and files
/// that fill meanwhile are moved together, each binding once. It gets a twelfth of a full processor, and what
/// workers leave of others.
const MOVER_STEPS_BACK: i32 = 8;

/// Lets workers go before the calling thread. A system that does not know it goes on as it was.
fn step_back(steps: i32) {
    if let Err(error) = rustix::process::nice(steps) {
        tracing::debug!(%error, "the store shares processors evenly with the workers");
    }
}

/// Without its writer the store must not promise anything any more.
struct WriterGuard {
    location: Arc<SharedLocation>,
    clock: Clock,
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.location.writer_died(self.clock.now());
        }
    }
}

fn write_loop(
    mut writer: Writer,
    mover: &Mutex<Mover>,
    location: &SharedLocation,
    clock: &Clock,
    stop: &Stop,
) {
    let mut pause = INTERVAL;
    while !stop.wait(pause) {
        pause = writer.round();
    }
    // Before waiting for the mover, which may be in the midst of a step.
    writer.round();
    // The mover's own thread does not take it again.
    finish(&mut writer, &mut mover.lock().unwrap_or_else(PoisonError::into_inner), location, clock);
}

/// Without the mover the log grows until it is too long; then this says why.
struct MoverGuard(Arc<Sealed>);

impl Drop for MoverGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the thread that moves it has failed; restart the server".to_owned());
        }
    }
}

fn move_loop(mover: &Mutex<Mover>, stop: &Stop) {
    let _guard = MoverGuard(mover.lock().unwrap_or_else(PoisonError::into_inner).sealed());
    let mut pause = INTERVAL;
    while !stop.wait(pause) {
        pause = mover.lock().unwrap_or_else(PoisonError::into_inner).step();
    }
}

fn watch_loop(mut source: Box<dyn SubscriberSource>, mut known: Known, stop: &Stop) {
    let mut failing = false;
    while !stop.wait(WATCH_INTERVAL) {
        match source.changes(&mut known) {
            Ok(()) if failing => {
                log_events::subscribers::subscribers_followed_again();
                failing = false;
            }
            // A lock held by someone else is nothing to report: the next look finds the changes.
            Err(error) if !failing && error.kind != Kind::Busy => {
                log_events::subscribers::subscribers_not_followed(&error);
                failing = true;
            }
            _ => {}
        }
    }
}

fn expire_loop(location: &SharedLocation, clock: &Clock, stop: &Stop) {
    while !stop.wait(EXPIRE_INTERVAL) {
        let now = clock.now();
        location.check_stall(now);
        location.expire(now, EXPIRE_BUDGET);
    }
}

/// A bell that rings once.
#[derive(Default, Debug)]
struct Stop {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Stop {
    fn set(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Waits for the bell, at most `time`; answers whether it rang.
    fn wait(&self, time: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.bell.wait_timeout_while(rung, time, |rung| !*rung);
        *wait.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests;
