//! Bindings from disk at start, before the first request is answered: the table, then the log.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{OptionalExtension, params};

use crate::clock::ClockPair;
use crate::database::{Database, Patience};
use crate::error::{Kind, Result, StoreError};
use crate::location::SharedLocation;
use crate::location::fold;
use crate::location::log::index::Place;
use crate::location::log::record::Entry;
use crate::location::log::scan::{Scan, Window};
use crate::location::log::{Found, Full, Log, dispose};
use crate::location::row::{COLUMNS, KEY, Loaded, RowKey, first_key, read, read_key};
use crate::watch::NEWEST_CHANGE;

/// Rows and records between two lines of progress.
const PROGRESS: u64 = 500_000;
/// Threads that read, each with a connection of its own.
const MAX_THREADS: usize = 4;
/// Rows that a thread reads before it looks for more.
const PORTION: i64 = 4_000;
/// The rest of a statement about the rows after a key.
const AFTER: &str = "FROM location WHERE (username, domain, contact, instance, reg_id) > (?1, ?2, ?3, ?4, ?5)
    ORDER BY username, domain, contact, instance, reg_id";
/// Bindings written to the table in one transaction, where that cannot wait.
pub(crate) const STEP: usize = 8_000;

/// Seconds by which the clock may have been set back without the log being moved for it. By no more does
/// a binding then live too long.
const SLACK: i64 = 5;

/// What the loading found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LoadReport {
    /// Bindings put back.
    pub live: u64,
    /// Those whose time was over.
    pub expired: u64,
    /// Those that make no sense or found no room.
    pub bad: u64,
}

/// What was loaded, and the log to go on with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) report: LoadReport,
    pub(crate) log: Log,
    /// Files of the log that are still to be moved into the table.
    pub(crate) sealed: Vec<Full>,
    /// Up to where the log knew of removals of subscribers, the lowest number if it does not say; `None`: there was
    /// no log.
    pub(crate) seen: Option<i64>,
}

/// Reads the bindings in `dir` into `location`, which is empty, and begins a new file of the log. `key` must be
/// unguessable. `newest` is the number of the last change of a subscriber, from before anything was read.
pub(crate) fn load(
    dir: &Path,
    database: &mut Database,
    location: &SharedLocation,
    sockets: &[String],
    clock: ClockPair,
    key: [u8; 16],
    newest: i64,
) -> Result<Start> {
    location.tell_time(clock.monotonic);
    let mut found = Found::read(dir, key)?;
    found.settle(dir)?;
    // Files that do not say it any more: all that is known of removals may be news.
    let unknown = (!found.files.is_empty()).then_some(i64::MIN);
    let (seen, number, mut sealed) = (found.seen().or(unknown), found.next(dir)?, found.full(clock));
    // What was written later than now is from before the clock was set back, which is put right in the table.
    let back = found.newest() > clock.wall_seconds().saturating_add(SLACK);
    let moved = back && move_all(&found, database, location, clock);
    if let Err(error) = pull_back(database, clock) {
        tracing::warn!(
            error = %database.error("bring the bindings in line with the clock", &error),
            "the wall clock was set back; at the next start bindings may live longer than they should"
        );
    }
    // Before any other file goes: it has the number of the last removal.
    let log = Log::begin(dir, number, seen.unwrap_or(newest), clock)?;
    if moved {
        dispose_all(dir, &found, |_| true, &mut sealed);
        found = Found::nothing();
    } else {
        // One that only begins is left by each orderly end, and by each start that fails further on.
        dispose_all(dir, &found, |file| !file.speaks && file.damage.is_none(), &mut sealed);
    }
    let report = load_all(dir, &found, location, Today { sockets, clock })?;
    if report.bad != 0 {
        tracing::warn!(rows = report.bad, "bindings on disk were passed over: damaged, or no room");
    }
    Ok(Start { report, log, sealed, seen })
}

/// Moves all of the log into the table at once; answers whether that is done.
fn move_all(found: &Found, database: &mut Database, location: &SharedLocation, clock: ClockPair) -> bool {
    for places in found.index.in_order_of_rows().chunks(STEP) {
        if let Err(error) = fold::write(&found.files, places, database, location, clock) {
            tracing::error!(%error, "the log of bindings is used as it is");
            return false;
        }
    }
    true
}

/// Deletes these files of the log, the oldest first; what is left of them stays in `sealed`.
fn dispose_all(dir: &Path, found: &Found, which: impl Fn(&Scan) -> bool, sealed: &mut Vec<Full>) {
    for file in found.files.iter().filter(|file| which(file)) {
        if let Err(error) = dispose(dir, &file.path, file.damage.is_some()) {
            tracing::warn!(%error, "a file of the log stays, and is moved into the table again");
            break;
        }
        sealed.retain(|full| full.number != file.number);
    }
}

/// The table and the log side by side, by several threads: no two of them speak of the same binding.
fn load_all(dir: &Path, found: &Found, location: &SharedLocation, to: Today<'_>) -> Result<LoadReport> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
    let parts: Vec<Vec<Place>> = (0..)
        .zip(&found.files)
        .flat_map(|(number, _)| {
            let places = found.index.in_order_of_file(number);
            let part = places.len().div_ceil(threads).max(STEP);
            places.chunks(part).map(<[Place]>::to_vec).collect::<Vec<_>>()
        })
        .collect();
    let work = Work {
        dir,
        found,
        parts,
        next: AtomicUsize::new(0),
        rest: Mutex::new(Some(first_key())),
        location,
        to,
        live: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| work.run())).collect();
        let mut report = work.run()?;
        for thread in others {
            let fault = |_| {
                StoreError::new(Kind::System, dir, "reading the bindings met a fault of ours", "report it")
            };
            let part: LoadReport = thread.join().map_err(fault)??;
            report.live += part.live;
            report.expired += part.expired;
            report.bad += part.bad;
        }
        report.bad += found.files.iter().map(|file| file.bad).sum::<u64>();
        Ok(report)
    })
}

/// What records mean today.
#[derive(Clone, Copy)]
struct Today<'a> {
    sockets: &'a [String],
    clock: ClockPair,
}

/// What the threads of a start share.
struct Work<'a> {
    dir: &'a Path,
    found: &'a Found,
    /// Of the log.
    parts: Vec<Vec<Place>>,
    /// The next of them.
    next: AtomicUsize,
    /// After which key rows are still to be read; `None`: nothing is left.
    rest: Mutex<Option<RowKey>>,
    location: &'a SharedLocation,
    to: Today<'a>,
    live: AtomicU64,
}

impl Work<'_> {
    /// Does what is left until nothing is.
    fn run(&self) -> Result<LoadReport> {
        let mut report = LoadReport::default();
        let outcome = self.read_log(&mut report).and_then(|()| {
            let database = Database::open_existing(self.dir, Patience::SERVER)?;
            self.read_table(&database, &mut report)
                .map_err(|error| database.error("read the bindings", &error))
        });
        // Where one fails, the others need not go on.
        *self.lock() = None;
        outcome.map(|()| report)
    }

    fn lock(&self) -> MutexGuard<'_, Option<RowKey>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_log(&self, report: &mut LoadReport) -> Result<()> {
        while let Some(part) = self.parts.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            load_log(self.found, part, self.location, self.to, report)?;
            self.count(part.len() as u64);
        }
        Ok(())
    }

    /// Rows of which the log says nothing, a portion after the other. All of one thread are of one snapshot: a
    /// portion is the rows between two keys, whoever looks.
    fn read_table(&self, database: &Database, report: &mut LoadReport) -> rusqlite::Result<()> {
        let snapshot = database.connection.unchecked_transaction()?;
        let mut end = snapshot.prepare(&format!("SELECT {KEY} {AFTER} LIMIT 1 OFFSET ?6"))?;
        let mut select = snapshot.prepare(&format!("SELECT {COLUMNS} {AFTER} LIMIT ?6"))?;
        loop {
            let mut rest = self.lock();
            let Some(from) = rest.clone() else { return Ok(()) };
            let (a, b, c, d, e) = &from;
            *rest = end.query_row(params![a, b, c, d, e, PORTION - 1], read_key).optional()?;
            let limit = if rest.is_some() { PORTION } else { -1 };
            drop(rest);
            let mut rows = select.query(params![a, b, c, d, e, limit])?;
            while let Some(row) = rows.next()? {
                match read(row, self.to.sockets, self.to.clock, &self.found.index)? {
                    Loaded::Live(record) if self.location.restore(&record).is_ok() => report.live += 1,
                    Loaded::Live(_) | Loaded::Bad => report.bad += 1,
                    Loaded::Expired => report.expired += 1,
                    Loaded::Older => {}
                }
            }
            self.count(PORTION.unsigned_abs());
        }
    }

    fn count(&self, more: u64) {
        let before = self.live.fetch_add(more, Ordering::Relaxed);
        if before / PROGRESS != (before + more) / PROGRESS {
            tracing::info!(records = before + more, "reading bindings");
        }
    }
}

/// What the log says at `places`, which are of one file and in its order.
fn load_log(
    found: &Found,
    places: &[Place],
    location: &SharedLocation,
    to: Today<'_>,
    report: &mut LoadReport,
) -> Result<()> {
    let mut window = Window::default();
    for place in places {
        let Some(file) = found.files.get(place.file as usize) else { continue };
        match Entry::decode(file.header.base, file.record(*place, &mut window)?) {
            Some(Entry::Put(put)) => match to.clock.revive(put.written, put.expires) {
                Some(expires) => {
                    match location.restore(&put.to_record(expires, file.name(put.socket), to.sockets)) {
                        Ok(()) => report.live += 1,
                        Err(_) => report.bad += 1,
                    }
                }
                None => report.expired += 1,
            },
            Some(_) => {}
            None => report.bad += 1,
        }
    }
    Ok(())
}

/// The number of the last change of a subscriber.
pub(crate) fn newest_change(database: &Database) -> Result<i64> {
    let newest = database.connection.query_row(NEWEST_CHANGE, [], |row| row.get(0));
    newest.map_err(|error| database.error("look for removed subscribers", &error))
}

/// Removes the bindings of subscribers that somebody removed after change number `seen` of the log: while no
/// server ran, or so shortly before the last one ended that the log does not know of it. Or, without a log, after
/// `newest`, when the loading began.
pub(crate) fn forget_removed(
    database: &Database,
    location: &SharedLocation,
    seen: Option<i64>,
    newest: i64,
) -> Result<()> {
    let since = match seen {
        // The numbers have begun again: any of them may be news.
        Some(seen) if seen > newest => i64::MIN,
        Some(seen) => seen,
        None => newest,
    };
    let fail = |error| database.error("look for removed subscribers", &error);
    let first: Option<i64> = database
        .connection
        .query_row("SELECT min(id) FROM subscriber_change", [], |row| row.get(0))
        .map_err(fail)?;
    if since < newest && first.is_none_or(|first| first > since.saturating_add(1)) {
        tracing::warn!(
            path = %database.path.display(),
            "more subscribers changed than the change log holds: bindings of some that were removed may be in force \
             until they end; `strowger ctl bindings` shows them"
        );
    }
    let removed = removed_since(database, since).map_err(fail)?;
    removed.iter().for_each(|aor| _ = location.remove(aor));
    Ok(())
}

fn removed_since(database: &Database, seen: i64) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut statement = database.connection.prepare(
        "SELECT DISTINCT c.username, c.domain FROM subscriber_change c
         LEFT JOIN subscriber s ON s.username = c.username AND s.domain = c.domain
         WHERE c.id > ?1 AND (s.id IS NULL OR c.unbound <> 0)",
    )?;
    let mut rows = statement.query([seen])?;
    let mut removed = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_bytes().unwrap_or_default());
        removed.push([text(0)?, b"@", &text(1)?.to_ascii_lowercase()].concat());
    }
    Ok(removed)
}

/// Rows written later than now are from before the clock was set back. They get what was granted, as
/// if it had been granted now, once: left as they are they would get it anew at every start.
fn pull_back(database: &Database, clock: ClockPair) -> rusqlite::Result<()> {
    let (now, connection) = (clock.wall_seconds(), &database.connection);
    // Looked for first, so that an ordinary start takes no lock.
    let mut ahead = connection.prepare("SELECT 1 FROM location WHERE last_modified > ?1 LIMIT 1")?;
    if !ahead.exists([now])? {
        return Ok(());
    }
    let rows = connection.execute(
        "UPDATE location SET last_modified = ?1,
             expires = CASE expires WHEN ?2 THEN expires ELSE expires - last_modified + ?1 END
         WHERE last_modified > ?1",
        [now, i64::MAX],
    )?;
    tracing::warn!(rows, "the wall clock was set back since bindings were written; they are written anew");
    Ok(())
}
