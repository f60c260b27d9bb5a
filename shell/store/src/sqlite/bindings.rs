//! The `location` table as the log is moved into it, and as a start reads it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use location::{
    BindingTable, ClockPair, Filling, Kind, Result, RowSeen, Says, Stage, StoreError, TableCheck, TableRead,
    Word, turns,
};
use rusqlite::{Row, Statement, TransactionBehavior, params};

use crate::backend::ServerTable;
use crate::sqlite::database::{Database, Patience};
use crate::sqlite::error::sql_error;
use crate::sqlite::row::{
    COLUMNS, DELETE, KEY, Loaded, PUT, RowKey, Rows, first_key, is_ahead, read, read_key,
};

/// Rows that a thread reads before it tells the other how far it is.
const PORTION: i64 = 4_000;
/// Rows looked at in one step of the purge.
const PURGE_STEP: i64 = 2_000;

/// The `location` table of the database in a directory, for its only writer.
pub(crate) struct LocationTable {
    database: Database,
    dir: PathBuf,
    identity: Identity,
    /// The last key that the purge has looked at.
    purged: RowKey,
}

impl LocationTable {
    /// Of a database in `dir`.
    pub(crate) fn new(database: Database, dir: &Path) -> Result<LocationTable> {
        let identity = Identity::of(&database)?;
        Ok(LocationTable { database, dir: dir.to_path_buf(), identity, purged: first_key() })
    }

    /// The database.
    #[cfg(test)]
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Looks at the next rows; answers the last key among them, and deletes those that are gone.
    fn purge_rows(
        &mut self,
        is_gone: &mut dyn FnMut(&RowSeen<'_>) -> bool,
    ) -> rusqlite::Result<Option<RowKey>> {
        let connection = &mut self.database.connection;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut last = None;
        {
            let mut select = transaction.prepare_cached(
                "SELECT username, domain, contact, instance, reg_id, last_modified, expires FROM location
                 WHERE (username, domain, contact, instance, reg_id) > (?1, ?2, ?3, ?4, ?5)
                 ORDER BY username, domain, contact, instance, reg_id LIMIT ?6",
            )?;
            let mut delete = transaction.prepare_cached(DELETE)?;
            let (a, b, c, d, e) = &self.purged;
            let mut rows = select.query(params![a, b, c, d, e, PURGE_STEP])?;
            let mut gone: Vec<RowKey> = Vec::new();
            while let Some(row) = rows.next()? {
                turns::offer();
                let key = read_key(row)?;
                if is_gone(&seen(row)?) {
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
        Ok(last)
    }
}

impl ServerTable for LocationTable {
    fn watcher(&mut self) -> Result<TableCheck> {
        self.identity = Identity::of(&self.database)?;
        let identity = self.identity.clone();
        Ok(Box::new(move || identity.check()))
    }
}

impl BindingTable for LocationTable {
    fn check(&self) -> Result<()> {
        self.identity.check()
    }

    /// Two threads read, from both ends until they meet.
    fn read(&mut self, to: &Filling<'_>) -> Result<TableRead> {
        let reading =
            Reading { dir: &self.dir, to, frontier: Mutex::default(), ahead: AtomicBool::new(false) };
        let (low, high) = std::thread::scope(|scope| {
            let high = scope.spawn(|| reading.read_table(false));
            let low = reading.read_table(true);
            (low, high.join())
        });
        let fault = |_| {
            let problem = "reading the bindings met a fault of ours";
            StoreError::new(Kind::System, &self.dir, problem, "report it")
        };
        let bad = low? + high.map_err(fault)??;
        Ok(TableRead { bad, ahead: reading.ahead.into_inner() })
    }

    fn write<'w>(&mut self, words: &mut dyn Iterator<Item = Word<'w>>) -> Result<()> {
        let Database { connection, path } = &mut self.database;
        let fail = |error| sql_error(path, "move the bindings into the table", &error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        {
            let mut put = transaction.prepare_cached(PUT).map_err(fail)?;
            let mut delete = transaction.prepare_cached(DELETE).map_err(fail)?;
            let mut rows = Rows::new(&mut put, &mut delete);
            for word in words {
                match word {
                    Word::Put(binding, socket) => rows.put(binding, socket),
                    Word::Delete(key) => rows.delete(&key),
                }
                .map_err(fail)?;
            }
        }
        transaction.commit().map_err(fail)
    }

    fn pull_back(&mut self, clock: ClockPair) -> Result<()> {
        pull_back(&self.database, clock)
            .map_err(|error| self.database.error("bring the bindings in line with the clock", &error))
    }

    fn begin_purge(&mut self) {
        self.purged = first_key();
    }

    fn purge(&mut self, is_gone: &mut dyn FnMut(&RowSeen<'_>) -> bool) -> Result<bool> {
        let last = self.purge_rows(is_gone);
        match last.map_err(|error| self.database.error("delete expired bindings", &error))? {
            Some(last) => {
                self.purged = last;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// What the purge selects of a row.
fn seen<'r>(row: &'r Row<'_>) -> rusqlite::Result<RowSeen<'r>> {
    let bytes = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_bytes().unwrap_or_default());
    let number = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_i64().unwrap_or(-1));
    Ok(RowSeen {
        user: bytes(0)?,
        domain: bytes(1)?,
        contact: bytes(2)?,
        instance: bytes(3)?,
        reg_id: u32::try_from(number(4)?).ok(),
        written: number(5)?,
        expires: number(6)?,
    })
}

/// Which files the database was when it was opened, by device and inode. SQLite would go on writing to files
/// that were deleted, and all of it would be gone at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    path: PathBuf,
    database: (u64, u64),
    /// Of its write-ahead log, once there is one: it stays as long as we have the database open.
    wal: Option<(u64, u64)>,
}

impl Identity {
    fn of(database: &Database) -> Result<Identity> {
        let path = database.path.clone();
        let wal = inode(&wal_of(&path)).ok();
        Ok(Identity { database: inode(&path)?, wal, path })
    }

    fn check(&self) -> Result<()> {
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

/// What the threads share that read the table at a start.
struct Reading<'a> {
    dir: &'a Path,
    to: &'a Filling<'a>,
    frontier: Mutex<Frontier>,
    /// A row was written later than now.
    ahead: AtomicBool,
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

impl Reading<'_> {
    fn frontier(&self) -> MutexGuard<'_, Frontier> {
        self.frontier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads rows, `up` from the first or down from the last, until all are read. Answers how many make no
    /// sense or found no room.
    fn read_table(&self, up: bool) -> Result<u64> {
        let mut bad = 0;
        let mut stage = self.to.stage();
        let outcome = Database::open_existing(self.dir, Patience::SERVER).and_then(|database| {
            self.read_rows(&database, up, &mut stage, &mut bad)
                .map_err(|error| database.error("read the bindings", &error))
        });
        if outcome.is_err() {
            // Where one fails, the others need not go on.
            self.frontier().done = true;
        }
        stage.finish(if up { 0 } else { self.to.half() });
        outcome.map(|()| bad + stage.refused())
    }

    /// All rows that one thread reads are of one snapshot: a portion is the rows between two keys,
    /// whichever thread reads it.
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
            if from.done || self.to.is_stopped() {
                return Ok(());
            }
            let select = if from.ends[1].is_some() { &mut between } else { &mut to_the_end };
            let portion = self.read_portion(select, &from.ends, stage)?;
            let mut now = self.frontier();
            if now.done || self.to.is_stopped() {
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
            self.to.count(PORTION.unsigned_abs());
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
            match read(row, self.to.sockets(), self.to.clock(), &mut aor)? {
                Loaded::Live(aor, view) => stage.put(aor, &view),
                Loaded::Expired(key) => stage.end(Says::Over, &key),
                Loaded::Bad => portion.bad += 1,
            }
            if is_ahead(row, self.to.clock())? {
                self.ahead.store(true, Ordering::Relaxed);
            }
            count += 1;
            if count == PORTION {
                portion.last = Some(read_key(row)?);
            }
        }
        Ok(portion)
    }
}

/// Whether key `one` comes before `other`, as the table has them.
fn is_less(statement: &mut Statement<'_>, one: &RowKey, other: &RowKey) -> rusqlite::Result<bool> {
    let ((a, b, c, d, e), (f, g, h, i, j)) = (one, other);
    let less: Option<bool> = statement.query_row(params![a, b, c, d, e, f, g, h, i, j], |row| row.get(0))?;
    Ok(less.unwrap_or(false))
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
    log_events::bindings::rows_ahead_of_clock(rows);
    Ok(())
}
