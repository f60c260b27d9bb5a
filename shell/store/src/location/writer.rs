//! The thread that writes the journal to disk.
//!
//! A round begins every 250 ms: it takes what all stripes have waiting, and appends it to the log. That
//! returns when the data is on the disk. Nothing is lost by a failure: the changes go back to the
//! journal, and the next round tries again after a pause that doubles.
//!
//! What else there is to do is done after that, a step in a round: moving full files of the log into the
//! `location` table, and deleting rows of it that ended while nobody ran. While that fails, changes are
//! still durable, until the log has the size at which it stops.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::{Row, TransactionBehavior, params};
use sip_registrar::Change;
use wire::Time;

use crate::clock::{Clock, ClockPair};
use crate::database::{Database, Patience};
use crate::error::{Kind, Result, StoreError};
use crate::location::fold::Fold;
use crate::location::journal::Journal;
use crate::location::load::STEP;
use crate::location::log::Log;
use crate::location::row::{DELETE, Key, join_aor};
use crate::location::{Cursor, SharedLocation};

/// Changes after which a batch is closed; the stripe being taken is always finished, so that a
/// binding and the one it replaces are written together.
const BATCH: usize = 32_000;
/// Rows looked at in one step of the purge.
const PURGE_STEP: i64 = 2_000;
/// Pause after the first failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Changes that a walk over all bindings may add to the journal in one round.
const RESCAN_ROUND: usize = 20_000;
/// A difference of the clocks that counts as a jump, in microseconds. Slewing stays below it.
const JUMP: i128 = 5_000_000;

/// When a file of the log is full, and how fast it is then moved into the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    /// Bytes that a file may have in any case, and at most.
    pub(crate) bytes: (u64, u64),
    /// Age at which what a file says goes into the table, however little it is.
    pub(crate) age: Duration,
    /// Bytes of the file that are read in one round.
    pub(crate) read: u64,
    /// Bindings written in one transaction: some ten milliseconds.
    pub(crate) rows: usize,
    /// Transactions in one round, when the log grows faster than it is moved.
    pub(crate) steps: usize,
}

impl Default for LogLimits {
    fn default() -> LogLimits {
        LogLimits {
            bytes: (128 << 20, 1 << 30),
            age: Duration::from_secs(3_600),
            read: 8 << 20,
            rows: 2_000,
            steps: 10,
        }
    }
}

/// Bytes of the log for each binding that lives, in a file that is full: about one record.
const BYTES_OF_BINDING: u64 = 160;
/// Pause after the table could not be written.
const TABLE_RETRY: Duration = Duration::from_secs(5);
/// How long the last move into the table may take. What is left is moved after the next start.
const LAST_MOVE: Duration = Duration::from_secs(5);

/// The write-behind.
pub(crate) struct Writer {
    location: Arc<SharedLocation>,
    database: Database,
    /// Device and inode of the database file.
    identity: (u64, u64),
    sockets: Vec<String>,
    clock: Clock,
    /// An empty journal with room, to leave in the place of a full one.
    spare: Journal,
    log: Log,
    limits: LogLimits,
    /// Up to which number of the `subscriber_change` table removals have reached the journal.
    seen: Arc<AtomicI64>,
    fold: Option<Fold>,
    /// Since when the file that is appended to has something in it.
    began: Option<Time>,
    /// What the last attempt at the table said, and when the next one is due.
    trouble: Option<(Time, String)>,
    /// Wall clock minus monotonic time, microseconds.
    offset: i128,
    /// A walk over all bindings is under way, because the wall clock was set.
    rescan: Option<Cursor>,
    purge: Option<Purge>,
    pause: Duration,
}

/// Rows that had expired when the table was loaded are deleted in steps, unless the binding has come
/// back. Judged by the clocks as they were then: they may have been set since.
struct Purge {
    loaded: ClockPair,
    /// The last key looked at.
    after: RowKey,
}

type RowKey = (SqlBytes, SqlBytes, SqlBytes, SqlBytes, i64);
/// Text or blob, as it stands in the row.
type SqlBytes = rusqlite::types::Value;

impl Writer {
    /// Goes on where the loading at `loaded` ended; `purge`: whether that met expired rows.
    pub(crate) fn new(
        location: Arc<SharedLocation>,
        mut database: Database,
        log: Log,
        sockets: Vec<String>,
        clock: Clock,
        loaded: ClockPair,
        purge: bool,
    ) -> Result<Writer> {
        let identity = identity(&database.path)?;
        database.set_patience(Patience::BETWEEN)?;
        let began = (!log.is_empty()).then_some(loaded.monotonic);
        let empty = || SqlBytes::Text(String::new());
        let after = (empty(), empty(), empty(), empty(), -1);
        let purge = purge.then_some(Purge { loaded, after });
        Ok(Writer {
            location,
            database,
            identity,
            sockets,
            clock,
            spare: Journal::default(),
            log,
            limits: LogLimits::default(),
            seen: Arc::new(AtomicI64::new(i64::MIN)),
            fold: None,
            began,
            trouble: None,
            offset: offset(loaded),
            rescan: None,
            purge,
            pause: RETRY.0,
        })
    }

    /// The number of the last change of a subscriber whose effect on bindings is in the journal, or was.
    pub(crate) fn follow_removals(&mut self, seen: Arc<AtomicI64>) {
        self.seen = seen;
    }

    /// One round. Answers how long to wait for the next if it failed.
    pub(crate) fn round(&mut self) -> std::result::Result<(), Duration> {
        let pair = self.clock.pair();
        self.location.round_began.store(pair.monotonic.as_micros().max(1), Ordering::Relaxed);
        self.follow_clock(pair);
        let outcome =
            self.check_identity().and_then(|()| self.check_size()).and_then(|()| self.write_all(pair));
        let now = self.clock.now();
        let outcome = match outcome {
            Ok(()) => {
                self.location.health.good(now);
                self.pause = RETRY.0;
                Ok(())
            }
            Err(error) => {
                self.location.health.failing(now, error.to_string());
                let pause = self.pause;
                self.pause = (self.pause * 2).min(RETRY.1);
                Err(pause)
            }
        };
        self.tend_table(pair);
        self.location.round_began.store(0, Ordering::Relaxed);
        outcome
    }

    /// Moves everything into the table, so that whoever reads that finds all, and ends the log.
    pub(crate) fn finish(mut self) {
        let began = self.clock.now();
        let path = self.database.path.clone();
        let outcome = self
            .move_all(|clock| clock.now().since(began) < LAST_MOVE)
            .and_then(|all| if all { self.log.finish().map(|()| true) } else { Ok(false) });
        match outcome {
            Ok(true) => {}
            Ok(false) => tracing::info!(
                path = %path.display(),
                "the location table is older than the log beside it, which the next start reads as well"
            ),
            Err(error) => {
                tracing::warn!(%error, "bindings stay in the log beside the database; the next start reads it")
            }
        }
    }

    /// Moves the whole log into the table as long as `go_on`; answers whether that is done.
    fn move_all(&mut self, go_on: impl Fn(&Clock) -> bool) -> Result<bool> {
        let pair = self.clock.pair();
        self.check_identity()?;
        self.database.set_patience(Patience::SERVER)?;
        // What a fold under way has read is read again: its files are still there.
        self.fold = None;
        if !self.log.is_empty() {
            self.log.rotate(pair)?;
        }
        if self.log.sealed().is_empty() {
            return Ok(true);
        }
        let mut fold = Fold::new(self.log.sealed(), random_key(&self.database.path)?);
        fold.read(u64::MAX)?;
        while go_on(&self.clock) {
            if fold.write(STEP, &mut self.database, &self.location, pair)? {
                return self.dispose(&fold).map(|()| true);
            }
        }
        Ok(false)
    }

    /// If the wall clock was set, all rows have to say their end in terms of the new one.
    fn follow_clock(&mut self, pair: ClockPair) {
        let moved = offset(pair) - self.offset;
        if moved.abs() > JUMP {
            let seconds = moved / 1_000_000;
            tracing::warn!(%seconds, "the wall clock was set; bindings are unaffected and written anew");
            self.offset = offset(pair);
            self.rescan = Some(Cursor::default());
        }
        let enough = self.location.pending().saturating_add(RESCAN_ROUND);
        while let Some(cursor) = self.rescan {
            if self.location.pending() >= enough {
                break;
            }
            self.rescan = self.location.rescan(cursor, pair.monotonic);
        }
    }

    /// SQLite would go on writing to a file that was deleted, and all of it would be gone at the end.
    fn check_identity(&self) -> Result<()> {
        self.log.check_identity()?;
        if identity(&self.database.path)? == self.identity {
            return Ok(());
        }
        Err(StoreError::new(
            Kind::System,
            &self.database.path,
            "was replaced by another file while the server runs",
            "restart the server to use the new file, or put the old one back",
        ))
    }

    /// A log that cannot be moved into the table does not grow for ever.
    fn check_size(&self) -> Result<()> {
        if self.log.length() < self.full().saturating_mul(2) {
            return Ok(());
        }
        let why = self.trouble.as_ref().map_or("the disk is too slow", |(_, error)| error);
        Err(StoreError::new(
            Kind::Full,
            self.log.path(),
            format!("is {} bytes long and cannot be moved into the database: {why}", self.log.length()),
            "repair that; registrations are taken again as soon as it is moved",
        ))
    }

    /// Bytes at which a file of the log is full. In proportion to the bindings, because the more of them
    /// a file says something about, and the more often, the fewer pages of the table are changed for each.
    fn full(&self) -> u64 {
        let (least, most) = self.limits.bytes;
        if self.log.length() < least {
            return least;
        }
        let bindings = self.location.size().1 as u64;
        bindings.saturating_mul(BYTES_OF_BINDING).clamp(least, most)
    }

    /// Writes all that waits.
    fn write_all(&mut self, pair: ClockPair) -> Result<()> {
        // Read before the journals are taken: what it stands for is in them.
        let seen = self.seen.load(Ordering::Acquire);
        let mut batch = Vec::new();
        for index in 0..self.location.stripes.len() {
            match self.location.take_journal(index, std::mem::take(&mut self.spare)) {
                Ok(mut journal) => {
                    journal.drain_into(&mut batch);
                    self.spare = journal;
                }
                Err(empty) => self.spare = empty,
            }
            if batch.len() >= BATCH {
                self.commit(&mut batch, pair, seen)?;
            }
        }
        self.commit(&mut batch, pair, seen)
    }

    /// Appends `batch` to the log and empties it, or gives it back to the journal.
    fn commit(&mut self, batch: &mut Vec<Change>, pair: ClockPair, seen: i64) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        match self.log.append(batch, &self.sockets, pair, seen) {
            Ok(()) => {
                self.location.written(batch.len());
                batch.clear();
                self.began.get_or_insert(pair.monotonic);
                Ok(())
            }
            Err(error) => {
                self.location.put_back(std::mem::take(batch));
                Err(error)
            }
        }
    }

    /// A step of what the table needs. Failing does no harm yet, so it is only said and tried again.
    fn tend_table(&mut self, pair: ClockPair) {
        if self.trouble.as_ref().is_some_and(|(again, _)| pair.monotonic < *again) {
            return;
        }
        let again = pair.monotonic + TABLE_RETRY;
        match self.purge().and_then(|()| self.fold(pair)) {
            Ok(()) if self.trouble.take().is_some() => {
                tracing::info!("the location table is written again");
            }
            Ok(()) => {}
            // Somebody else holds the lock: the next round asks again.
            Err(error) if error.kind == Kind::Busy => {}
            Err(error) => {
                let text = error.to_string();
                if self.trouble.replace((again, text)).is_none() {
                    tracing::error!(%error, "the location table cannot be written; bindings stay in the log");
                }
            }
        }
    }

    /// A step of moving the log into the table, or the beginning, if it is time.
    fn fold(&mut self, pair: ClockPair) -> Result<()> {
        if self.fold.is_none() {
            if self.log.sealed().is_empty() {
                let old = self.began.is_some_and(|began| pair.monotonic.since(began) >= self.limits.age);
                if !old && self.log.length() < self.full() {
                    return Ok(());
                }
                self.check_identity()?;
                self.log.rotate(pair)?;
                self.began = None;
            }
            self.fold = Some(Fold::new(self.log.sealed(), random_key(&self.database.path)?));
        }
        let full = self.full();
        let Some(mut fold) = self.fold.take() else { return Ok(()) };
        match self.fold_step(&mut fold, full, pair) {
            Ok(true) => self.dispose(&fold),
            Ok(false) => {
                self.fold = Some(fold);
                Ok(())
            }
            // A step that failed is done again; it may also have to read files anew.
            Err(error) => {
                if error.kind == Kind::Busy {
                    self.fold = Some(fold);
                }
                Err(error)
            }
        }
    }

    /// Answers whether all of it is in the table. It has to be before the next file is full.
    fn fold_step(&mut self, fold: &mut Fold, full: u64, pair: ClockPair) -> Result<bool> {
        if !fold.read(self.limits.read)? {
            return Ok(false);
        }
        for _ in 0..self.limits.steps.max(1) {
            if fold.write(self.limits.rows, &mut self.database, &self.location, pair)? {
                return Ok(true);
            }
            let (all, done) = fold.progress();
            let due = self.log.length().saturating_mul(2).saturating_mul(all as u64) / full.max(1);
            if done as u64 >= due {
                break;
            }
        }
        Ok(false)
    }

    /// Deletes the files that are in the table, the oldest first.
    fn dispose(&mut self, fold: &Fold) -> Result<()> {
        let damaged = fold.damaged();
        while let Some((number, _)) = self.log.sealed().first() {
            let damaged = damaged.contains(number);
            self.log.dispose_oldest(damaged)?;
        }
        Ok(())
    }

    /// One step of the purge.
    fn purge(&mut self) -> Result<()> {
        let Some(purge) = &mut self.purge else { return Ok(()) };
        let now = self.clock.now();
        match purge.step(&mut self.database.connection, &self.location, now) {
            Ok(true) => {}
            Ok(false) => self.purge = None,
            Err(error) => return Err(self.database.error("delete expired bindings", &error)),
        }
        Ok(())
    }
}

/// For an [`Index`](crate::location::log::index::Index).
pub(crate) fn random_key(path: &Path) -> Result<[u8; 16]> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| {
        let problem = format!("the system gave no random bytes for its keys: {error}");
        StoreError::new(Kind::System, path, problem, "check that /dev/urandom exists")
    })?;
    Ok(key)
}

impl Purge {
    /// Looks at the next rows; answers whether there may be more.
    fn step(
        &mut self,
        connection: &mut rusqlite::Connection,
        location: &SharedLocation,
        now: Time,
    ) -> rusqlite::Result<bool> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut last = None;
        {
            let mut select = transaction.prepare_cached(
                "SELECT username, domain, contact, instance, reg_id, last_modified, expires FROM location
                 WHERE (username, domain, contact, instance, reg_id) > (?1, ?2, ?3, ?4, ?5)
                 ORDER BY username, domain, contact, instance, reg_id LIMIT ?6",
            )?;
            let mut delete = transaction.prepare_cached(DELETE)?;
            let (a, b, c, d, e) = &self.after;
            let mut rows = select.query(params![a, b, c, d, e, PURGE_STEP])?;
            let mut gone: Vec<RowKey> = Vec::new();
            while let Some(row) = rows.next()? {
                let key: RowKey = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
                let ended = self.loaded.revive(number(row, 5)?, number(row, 6)?).is_none();
                if ended && !is_live(row, location, now)? {
                    gone.push(key.clone());
                }
                last = Some(key);
            }
            for (a, b, c, d, e) in &gone {
                delete.execute(params![a, b, c, d, e])?;
            }
        }
        transaction.commit()?;
        let more = last.is_some();
        if let Some(last) = last {
            self.after = last;
        }
        Ok(more)
    }
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    Ok(row.get_ref(column)?.as_i64().unwrap_or(-1))
}

/// Whether memory holds the binding whose key the first five columns are.
fn is_live(row: &Row<'_>, location: &SharedLocation, now: Time) -> rusqlite::Result<bool> {
    let bytes = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_bytes().unwrap_or_default());
    let aor = join_aor(bytes(0)?, bytes(1)?);
    let Ok(reg_id) = u32::try_from(number(row, 4)?) else { return Ok(false) };
    Ok(location.has_binding(&Key { aor: &aor, contact: bytes(2)?, instance: bytes(3)?, reg_id }, now))
}

fn offset(pair: ClockPair) -> i128 {
    i128::from(pair.wall) - i128::from(pair.monotonic.as_micros())
}

fn identity(path: &PathBuf) -> Result<(u64, u64)> {
    let meta =
        std::fs::metadata(path).map_err(|error| StoreError::io(Path::new(path), "look at it", &error))?;
    Ok((meta.dev(), meta.ino()))
}

#[cfg(test)]
impl Writer {
    pub(crate) fn set_pragma(&self, name: &str, value: i64) {
        self.database.connection.pragma_update(None, name, value).unwrap();
    }

    pub(crate) fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    pub(crate) fn limits(&mut self) -> &mut LogLimits {
        &mut self.limits
    }

    /// Only what makes changes durable.
    pub(crate) fn append_only(&mut self) {
        self.write_all(self.clock.pair()).unwrap();
    }

    /// Everything in the table and the log empty.
    pub(crate) fn move_all_now(&mut self) {
        assert!(self.move_all(|_| true).unwrap());
    }

    /// Whether a walk over all bindings is under way.
    pub(crate) fn rescanning(&self) -> bool {
        self.rescan.is_some()
    }

    /// Whether full files wait, and whether they are being moved.
    pub(crate) fn moving(&self) -> (usize, bool) {
        (self.log.sealed().len(), self.fold.is_some())
    }
}
