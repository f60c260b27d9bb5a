//! The thread that moves full files of the log into the `location` table, and deletes rows of it that are
//! over.
//!
//! The writer never waits for it: it has a connection of its own, and what it does not get done stays in the
//! log, where it is as durable. It works in steps of some ten milliseconds, so that it can be stopped, and
//! faster when the next file of the log fills faster.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Row, TransactionBehavior, params};
use wire::Time;

use crate::clock::{Clock, ClockPair};
use crate::database::Database;
use crate::error::{Kind, Result, StoreError};
use crate::location::SharedLocation;
use crate::location::fold::Fold;
use crate::location::log::{Full, dispose};
use crate::location::row::{DELETE, Key, RowKey, first_key, join_aor, read_key};
use crate::turns;

/// Between two looks for something to do, and between two steps when there is time.
const REST: Duration = Duration::from_millis(250);
/// Pause after the table could not be written.
const RETRY: Duration = Duration::from_secs(5);
/// How long another program may keep the database locked before that is said.
const PATIENT: Duration = Duration::from_secs(10);
/// From so many thousandths of the next file on the purge takes no rest.
const BUSY: u64 = 250;
/// Rows looked at in one step of the purge.
const PURGE_STEP: i64 = 2_000;

/// How much is done in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// Bytes of the log that are read.
    pub(crate) read: u64,
    /// Bindings written, in one transaction.
    pub(crate) rows: usize,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { read: 8 << 20, rows: 2_000 }
    }
}

/// The full files, and what the writer and the mover have to know of each other.
#[derive(Default, Debug)]
pub(crate) struct Sealed {
    /// Oldest first.
    files: Mutex<Vec<Full>>,
    /// Why they cannot be moved.
    trouble: Mutex<Option<String>>,
    /// How full the file is that is appended to, in thousandths.
    filled: AtomicU64,
    repair: Mutex<Repair>,
}

/// How far all bindings are written anew, because something of a file is lost that memory has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Repair {
    #[default]
    Unneeded,
    /// The mover asks for it.
    Wanted,
    /// The writer is at it.
    UnderWay,
    /// All that lived are in files after those that are hurt, and on the disk.
    Done,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sealed {
    /// Of the files that were found at start.
    pub(crate) fn new(files: Vec<Full>) -> Sealed {
        Sealed { files: Mutex::new(files), ..Sealed::default() }
    }

    pub(crate) fn push(&self, file: Full) {
        lock(&self.files).push(file);
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.files).is_empty()
    }

    /// Of all files together.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.files).iter().map(|file| file.bytes).sum()
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// The files cannot be moved. Answers whether that is news.
    pub(crate) fn fail(&self, why: String) -> bool {
        lock(&self.trouble).replace(why).is_none()
    }

    pub(crate) fn set_filled(&self, thousandths: u64) {
        self.filled.store(thousandths, Ordering::Relaxed);
    }

    /// Whether every binding is to be written anew; answers so once for each time.
    pub(crate) fn take_wanted(&self) -> bool {
        let mut repair = lock(&self.repair);
        let wanted = *repair == Repair::Wanted;
        if wanted {
            *repair = Repair::UnderWay;
        }
        wanted
    }

    /// Every binding was written anew. Says nothing if that is wanted once more.
    pub(crate) fn repaired(&self) {
        let mut repair = lock(&self.repair);
        if *repair == Repair::UnderWay {
            *repair = Repair::Done;
        }
    }

    /// Whether a file is hurt and stays until all bindings are written anew.
    pub(crate) fn needs_repair(&self) -> bool {
        *lock(&self.repair) != Repair::Unneeded
    }

    fn set_repair(&self, repair: Repair) {
        *lock(&self.repair) = repair;
    }
}

/// What moves the log into the table.
pub(crate) struct Mover {
    location: Arc<SharedLocation>,
    database: Database,
    dir: PathBuf,
    identity: Identity,
    clock: Clock,
    sealed: Arc<Sealed>,
    steps: Steps,
    fold: Option<Fold>,
    /// All of it is in the table.
    written: bool,
    purge: Option<Purge>,
    /// Since when somebody else has the database locked.
    locked: Option<Time>,
}

/// Which files the database was when it was opened, by device and inode. SQLite would go on writing to files
/// that were deleted, and all of it would be gone at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    database: (u64, u64),
    /// Of its write-ahead log, once there is one: it stays as long as we have the database open.
    wal: Option<(u64, u64)>,
}

impl Identity {
    pub(crate) fn of(database: &Database) -> Result<Identity> {
        let path = database.path.clone();
        let wal = inode(&wal_of(&path)).ok();
        Ok(Identity { database: inode(&path)?, wal, path })
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wal = wal_of(&self.path);
        let (path, same) = match self.wal {
            Some(of_wal) if inode(&wal)? != of_wal => (&wal, false),
            _ => (&self.path, inode(&self.path)? == self.database),
        };
        if same {
            return Ok(());
        }
        Err(StoreError::new(
            Kind::System,
            path,
            "was replaced by another file while the server runs",
            "restart the server to use the new file, or put the old one back",
        ))
    }
}

fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn inode(path: &Path) -> Result<(u64, u64)> {
    let meta = std::fs::metadata(path).map_err(|error| StoreError::io(path, "look at it", &error))?;
    Ok((meta.dev(), meta.ino()))
}

impl Mover {
    /// Of the files in `sealed`, which are in `dir`. `expired`: the loading at that moment met rows that were
    /// over.
    pub(crate) fn new(
        location: Arc<SharedLocation>,
        database: Database,
        dir: &Path,
        sealed: Arc<Sealed>,
        clock: Clock,
        expired: Option<ClockPair>,
    ) -> Result<Mover> {
        let identity = Identity::of(&database)?;
        Ok(Mover {
            location,
            database,
            dir: dir.to_path_buf(),
            identity,
            clock,
            sealed,
            steps: Steps::default(),
            fold: None,
            written: false,
            purge: expired.map(|loaded| Purge::new(Some(loaded))),
            locked: None,
        })
    }

    pub(crate) fn sealed(&self) -> Arc<Sealed> {
        Arc::clone(&self.sealed)
    }

    /// One step. Answers how long to wait for the next.
    pub(crate) fn step(&mut self) -> Duration {
        match self.try_step() {
            Ok(more) => {
                self.locked = None;
                if lock(&self.sealed.trouble).take().is_some() {
                    tracing::info!("the location table is written again");
                }
                if more && self.is_behind() { Duration::ZERO } else { REST }
            }
            Err(error) => self.say(&error),
        }
    }

    /// Steps without a pause until all is moved, the writer is needed, a step fails or `until`; answers
    /// whether all is moved.
    pub(crate) fn run(&mut self, until: Time) -> Result<bool> {
        while self.clock.now() < until {
            if !self.try_step()? {
                return Ok(self.sealed.is_empty());
            }
        }
        Ok(false)
    }

    fn say(&mut self, error: &StoreError) -> Duration {
        let now = self.clock.now();
        if error.kind == Kind::Busy {
            let since = *self.locked.get_or_insert(now);
            if now.since(since) >= PATIENT && self.sealed.fail(error.to_string()) {
                tracing::warn!(%error, "the location table cannot be written; bindings stay in the log");
            }
            return REST;
        }
        if self.sealed.fail(error.to_string()) {
            tracing::error!(%error, "the location table cannot be written; bindings stay in the log");
        }
        RETRY
    }

    /// Whether the log grows faster than it is moved: it is to be done when the next file is half full. The
    /// purge has the time after that.
    fn is_behind(&self) -> bool {
        let filled = self.sealed.filled.load(Ordering::Relaxed);
        match &self.fold {
            // What waits for the purge alone waits with all its words.
            Some(_) if self.written => self.purge.is_some(),
            Some(fold) => fold.progress() < filled.saturating_mul(2),
            // Later there is no time for it.
            None => self.purge.is_some() && filled >= BUSY,
        }
    }

    /// Answers whether there is more to do.
    fn try_step(&mut self) -> Result<bool> {
        let fold = match &mut self.fold {
            Some(fold) => fold,
            None => {
                let files = lock(&self.sealed.files).clone();
                if files.is_empty() {
                    // Rows that are over hurt nobody; a log that is not moved does.
                    return self.purge();
                }
                self.fold.insert(Fold::new(files, random_key(&self.database.path)?))
            }
        };
        if !self.written {
            if fold.read(self.steps.read)? {
                self.identity.check()?;
                let pair = self.clock.pair();
                self.written = fold.write(self.steps.rows, &mut self.database, &self.location, pair)?;
            }
            return Ok(true);
        }
        self.dispose()
    }

    /// Deletes the files that are in the table, the oldest first.
    fn dispose(&mut self) -> Result<bool> {
        let Some(fold) = &self.fold else { return Ok(true) };
        // What was committed must be where the next start looks for it.
        self.identity.check()?;
        if !fold.hurt().is_empty() {
            if !self.sealed.needs_repair() {
                tracing::warn!("all bindings are written anew, because a part of the log is lost");
                self.purge = Some(Purge::new(None));
                self.sealed.set_repair(Repair::Wanted);
            }
            self.delete(fold.whole(), &[])?;
            // Until then the file stays: what it still says, or says again, is better than nothing.
            if self.purge.is_some() {
                return self.purge();
            }
            if *lock(&self.sealed.repair) != Repair::Done {
                return Ok(false);
            }
        }
        self.delete(fold.files(), fold.hurt())?;
        self.sealed.set_repair(Repair::Unneeded);
        (self.fold, self.written) = (None, false);
        Ok(true)
    }

    /// Deletes those of `files` that are still there, in their order; those with the numbers `hurt` are kept
    /// aside.
    fn delete(&self, files: &[Full], hurt: &[u64]) -> Result<()> {
        for file in files {
            if lock(&self.sealed.files).iter().any(|sealed| sealed.number == file.number) {
                dispose(&self.dir, &file.path, hurt.contains(&file.number))?;
                lock(&self.sealed.files).retain(|sealed| sealed.number != file.number);
            }
        }
        Ok(())
    }

    /// A step of the purge.
    fn purge(&mut self) -> Result<bool> {
        let Some(purge) = &mut self.purge else { return Ok(false) };
        self.identity.check()?;
        let step = purge.step(&mut self.database.connection, &self.location, self.clock.now());
        if !step.map_err(|error| self.database.error("delete expired bindings", &error))? {
            self.purge = None;
        }
        Ok(true)
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

/// Rows are deleted in steps, unless memory holds the binding.
struct Purge {
    /// Only rows that had expired when the table was loaded, judged by the clocks as they were then: they may
    /// have been set since. `None`: all, because words about them were lost.
    loaded: Option<ClockPair>,
    /// The last key looked at.
    after: RowKey,
}

impl Purge {
    fn new(loaded: Option<ClockPair>) -> Purge {
        Purge { loaded, after: first_key() }
    }

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
                turns::offer();
                let key = read_key(row)?;
                let (written, expires) = (number(row, 5)?, number(row, 6)?);
                let ended = self.loaded.is_none_or(|loaded| loaded.revive(written, expires).is_none());
                if ended && !is_live(row, location, now)? {
                    gone.push(key.clone());
                }
                last = Some(key);
            }
            for (a, b, c, d, e) in &gone {
                turns::offer();
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

#[cfg(test)]
impl Mover {
    pub(crate) fn set_pragma(&self, name: &str, value: i64) {
        self.database.connection.pragma_update(None, name, value).unwrap();
    }

    pub(crate) fn steps(&mut self) -> &mut Steps {
        &mut self.steps
    }

    /// What a step says, without the pause.
    pub(crate) fn one_step(&mut self) -> Result<bool> {
        self.try_step()
    }

    /// Whether a file is on its way, and whether all of it is in the table.
    pub(crate) fn moving(&self) -> (bool, bool) {
        (self.fold.is_some(), self.written)
    }
}
