//! Bindings from disk at start, before the first request is answered: the table and the log side by side.
//!
//! Three threads read: one all of the log in its order, two the table from both ends until they meet. Of a
//! binding that both speak of the log has the last word, whoever comes first: it takes the place of what the
//! table said, and what the table says is taken only where the log said nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Statement, params};

use crate::clock::ClockPair;
use crate::database::{Database, Patience};
use crate::error::{Kind, Result, StoreError};
use crate::location::SharedLocation;
use crate::location::fold;
use crate::location::log::record::Entry;
use crate::location::log::scan::Scan;
use crate::location::log::{Found, Full, Log, dispose};
use crate::location::row::{COLUMNS, KEY, Loaded, RowKey, first_key, is_ahead, read, read_key};
use crate::location::stage::{Loading, Says, Stage};
use crate::watch::NEWEST_CHANGE;

/// Rows and records between two lines of progress.
const PROGRESS: u64 = 500_000;
/// Threads that read.
const THREADS: usize = 3;
/// Rows that a thread reads before it tells the other how far it is.
const PORTION: i64 = 4_000;
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
    /// Up to where the log knew of removals of subscribers, the lowest number if it does not say; `None`:
    /// there was no log.
    pub(crate) seen: Option<i64>,
}

/// Reads the bindings in `dir` into `location`, which is empty, and begins a new file of the log. `key` must
/// be unguessable. `newest` is the number of the last change of a subscriber, from before anything was read.
pub(crate) fn load(
    dir: &Path,
    database: &mut Database,
    location: &SharedLocation,
    sockets: &[String],
    clock: ClockPair,
    key: [u8; 16],
    newest: i64,
) -> Result<Start> {
    let to = Today { sockets, clock };
    let (mut found, mut report, mut ahead) = load_all(dir, location, to, key)?;
    found.settle(dir)?;
    // Files that do not say it any more: all that is known of removals may be news.
    let unknown = (!found.files.is_empty()).then_some(i64::MIN);
    let (seen, number, mut sealed) = (found.seen().or(unknown), found.next(dir)?, found.full(clock));
    // What was written later than now is from before the clock was set back, which is put right in the table.
    let back = found.newest() > clock.wall_seconds().saturating_add(SLACK);
    let moved = back && move_all(&Found::read(dir, key)?, database, location, clock);
    if (ahead || moved)
        && let Err(error) = pull_back(database, clock)
    {
        ahead = false;
        tracing::warn!(
            error = %database.error("bring the bindings in line with the clock", &error),
            "the wall clock was set back; at the next start bindings may live longer than they should"
        );
    }
    // Before any other file goes: it has the number of the last removal.
    let log = Log::begin(dir, number, seen.unwrap_or(newest), clock)?;
    if moved {
        dispose_all(dir, &found, |_| true, &mut sealed);
    } else {
        // One that only begins is left by each orderly end, and by each start that fails further on.
        dispose_all(dir, &found, |file| !file.speaks && file.damage.is_none(), &mut sealed);
    }
    if ahead || moved {
        location.clear();
        report = load_all(dir, location, to, key)?.1;
    }
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

/// Puts what the table and the log say into `location`, which is empty. Answers also whether some row was
/// written later than now.
fn load_all(
    dir: &Path,
    location: &SharedLocation,
    to: Today<'_>,
    key: [u8; 16],
) -> Result<(Found, LoadReport, bool)> {
    location.tell_time(to.clock.monotonic);
    let loading = Loading::new(location, key, THREADS);
    let work = Work {
        dir,
        loading: &loading,
        half: location.stripes.len() / 2,
        to,
        frontier: Mutex::default(),
        ahead: AtomicBool::new(false),
        count: AtomicU64::new(0),
    };
    let (found, low, high) = std::thread::scope(|scope| {
        let high = scope.spawn(|| work.read_table(false));
        let log = scope.spawn(|| work.read_log());
        let low = work.read_table(true);
        (log.join(), low, high.join())
    });
    let fault =
        |_| StoreError::new(Kind::System, dir, "reading the bindings met a fault of ours", "report it");
    let ((found, refused), low, high) = (found.map_err(fault)??, low?, high.map_err(fault)??);
    let report = LoadReport {
        live: location.size().1 as u64,
        expired: loading.expired(),
        bad: low + high + refused + found.files.iter().map(|file| file.bad).sum::<u64>(),
    };
    Ok((found, report, work.ahead.into_inner()))
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
    loading: &'a Loading<'a>,
    /// The number of stripes, halved.
    half: usize,
    to: Today<'a>,
    frontier: Mutex<Frontier>,
    /// A row was written later than now.
    ahead: AtomicBool,
    count: AtomicU64,
}

/// What of the table is still to be read.
#[derive(Clone, Default)]
struct Frontier {
    /// The last keys that were read from below and from above.
    ends: [Option<RowKey>; 2],
    done: bool,
}

/// Some rows in a row.
#[derive(Default)]
struct Portion {
    /// The key of the last one, unless there are no more before the other end.
    last: Option<RowKey>,
    bad: u64,
}

impl Work<'_> {
    fn frontier(&self) -> MutexGuard<'_, Frontier> {
        self.frontier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all of the log; answers also of how many bindings there was no room for.
    fn read_log(&self) -> Result<(Found, u64)> {
        let (mut stage, mut count) = (Stage::new(self.loading, false), 0);
        let found = Found::read_to(self.dir, |file, entry| {
            self.stage(&mut stage, file, entry);
            count += 1;
            if count == PORTION {
                self.count(std::mem::take(&mut count).unsigned_abs());
            }
        });
        if found.is_err() {
            self.frontier().done = true;
        }
        stage.finish(self.half / 2);
        Ok((found?, stage.refused))
    }

    fn stage(&self, stage: &mut Stage<'_>, file: &Scan, entry: &Entry<'_>) {
        match entry {
            Entry::Put(put) => match self.to.clock.revive(put.written, put.expires) {
                Some(expires) => {
                    stage.put(put.key.aor, &put.view(expires, file.name(put.socket), self.to.sockets));
                }
                None => stage.end(Says::Over, &put.key),
            },
            Entry::Delete(key) => stage.end(Says::Removed, key),
            Entry::Name { .. } | Entry::Seen(_) => {}
        }
    }

    /// Reads rows, `up` from the first or down from the last, until all are read. Answers how many make no
    /// sense or found no room.
    fn read_table(&self, up: bool) -> Result<u64> {
        let mut bad = 0;
        let mut stage = Stage::new(self.loading, true);
        let outcome = Database::open_existing(self.dir, Patience::SERVER).and_then(|database| {
            self.read_rows(&database, up, &mut stage, &mut bad)
                .map_err(|error| database.error("read the bindings", &error))
        });
        if outcome.is_err() {
            // Where one fails, the others need not go on.
            self.frontier().done = true;
        }
        stage.finish(if up { 0 } else { self.half });
        outcome.map(|()| bad + stage.refused)
    }

    /// All rows that one thread reads are of one snapshot: a portion is the rows between two keys, whoever
    /// looks.
    fn read_rows(
        &self,
        database: &Database,
        up: bool,
        stage: &mut Stage<'_>,
        bad: &mut u64,
    ) -> rusqlite::Result<()> {
        let snapshot = database.connection.unchecked_transaction()?;
        let order = KEY.replace(", ", if up { ", " } else { " DESC, " }) + if up { "" } else { " DESC" };
        let select = |and: &str| {
            format!(
                "SELECT {COLUMNS} FROM location WHERE ({KEY}) > (?1, ?2, ?3, ?4, ?5) {and} ORDER BY {order} LIMIT ?6"
            )
        };
        let mut to_the_end = snapshot.prepare(&select(""))?;
        let mut between = snapshot.prepare(&select(&format!("AND ({KEY}) < (?7, ?8, ?9, ?10, ?11)")))?;
        let mut comes_before = snapshot.prepare("SELECT (?1, ?2, ?3, ?4, ?5) < (?6, ?7, ?8, ?9, ?10)")?;
        let (mine, others) = (usize::from(!up), usize::from(up));
        loop {
            let from = self.frontier().clone();
            if from.done {
                return Ok(());
            }
            let select = if from.ends[1].is_some() { &mut between } else { &mut to_the_end };
            let portion = self.read_portion(select, &from.ends, stage)?;
            let mut now = self.frontier();
            if now.done {
                return Ok(());
            }
            // What the other has read meanwhile must not be counted twice. Reading it twice does no harm.
            let met = now.ends[others] != from.ends[others]
                && match (&portion.last, &now.ends[others]) {
                    (Some(last), Some(end)) if up => !is_less(&mut comes_before, last, end)?,
                    (Some(last), Some(end)) => !is_less(&mut comes_before, end, last)?,
                    _ => true,
                };
            if met {
                continue;
            }
            now.done = portion.last.is_none();
            now.ends[mine] = portion.last.or(now.ends[mine].take());
            drop(now);
            *bad += portion.bad;
            self.count(PORTION.unsigned_abs());
        }
    }

    /// Reads rows between `ends`.
    fn read_portion(
        &self,
        select: &mut Statement<'_>,
        ends: &[Option<RowKey>; 2],
        stage: &mut Stage<'_>,
    ) -> rusqlite::Result<Portion> {
        let (a, b, c, d, e) = &ends[0].clone().unwrap_or_else(first_key);
        let mut rows = match &ends[1] {
            Some((f, g, h, i, j)) => select.query(params![a, b, c, d, e, PORTION, f, g, h, i, j])?,
            None => select.query(params![a, b, c, d, e, PORTION])?,
        };
        let (mut portion, mut count, mut aor) = (Portion::default(), 0, Vec::new());
        while let Some(row) = rows.next()? {
            match read(row, self.to.sockets, self.to.clock, &mut aor)? {
                Loaded::Live(aor, view) => stage.put(aor, &view),
                Loaded::Expired(key) => stage.end(Says::Over, &key),
                Loaded::Bad => portion.bad += 1,
            }
            if is_ahead(row, self.to.clock)? {
                self.ahead.store(true, Ordering::Relaxed);
            }
            count += 1;
            if count == PORTION {
                portion.last = Some(read_key(row)?);
            }
        }
        Ok(portion)
    }

    fn count(&self, more: u64) {
        let before = self.count.fetch_add(more, Ordering::Relaxed);
        if before / PROGRESS != (before + more) / PROGRESS {
            tracing::info!(records = before + more, "reading bindings");
        }
    }
}

/// Whether key `one` comes before `other`, as the table has them.
fn is_less(statement: &mut Statement<'_>, one: &RowKey, other: &RowKey) -> rusqlite::Result<bool> {
    let ((a, b, c, d, e), (f, g, h, i, j)) = (one, other);
    let less: Option<bool> = statement.query_row(params![a, b, c, d, e, f, g, h, i, j], |row| row.get(0))?;
    Ok(less.unwrap_or(false))
}

/// The number of the last change of a subscriber.
pub(crate) fn newest_change(database: &Database) -> Result<i64> {
    let newest = database.connection.query_row(NEWEST_CHANGE, [], |row| row.get(0));
    newest.map_err(|error| database.error("look for removed subscribers", &error))
}

/// Removes the bindings of subscribers that somebody removed after change number `seen` of the log: while no
/// server ran, or so shortly before the last one ended that the log does not know of it. Or, without a log,
/// after `newest`, when the loading began.
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
        removed.push(crate::user::aor(text(0)?, text(1)?));
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
