//! The thread that writes the journal to disk.
//!
//! A round begins every 250 ms: it takes what all stripes have waiting, and commits it in
//! transactions of some thousand rows. A commit returns when the data is on the disk. Nothing is
//! lost by a failed commit: its changes go back to the journal, and the next round tries again after
//! a pause that doubles.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Row, TransactionBehavior, params};
use sip_registrar::Change;
use wire::Time;

use crate::clock::{Clock, ClockPair};
use crate::database::Database;
use crate::error::{Kind, Result, StoreError};
use crate::location::journal::Journal;
use crate::location::row::{DELETE, PUT, Rows, join_aor, key_of};
use crate::location::{Cursor, SharedLocation};

/// Rows after which a transaction is closed; the stripe being taken is always finished, so that a
/// binding and the one it replaces are written together.
const BATCH: usize = 8_000;
/// Rows looked at in one step of the purge.
const PURGE_STEP: i64 = 2_000;
/// Pause after the first failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Changes that a walk over all bindings may add to the journal in one round.
const RESCAN_ROUND: usize = 20_000;
/// A difference of the clocks that counts as a jump, in microseconds. Slewing stays below it.
const JUMP: i128 = 5_000_000;

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
    /// The changes of a batch in the order of their keys: beginning of the key, place in the batch.
    order: Vec<(u128, usize)>,
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
    /// `purge`: whether the loading at `loaded` met expired rows.
    pub(crate) fn new(
        location: Arc<SharedLocation>,
        database: Database,
        sockets: Vec<String>,
        clock: Clock,
        loaded: ClockPair,
        purge: bool,
    ) -> Result<Writer> {
        let identity = identity(&database.path)?;
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
            order: Vec::new(),
            offset: offset(loaded),
            rescan: None,
            purge,
            pause: RETRY.0,
        })
    }

    /// One round. Answers how long to wait for the next if it failed.
    pub(crate) fn round(&mut self) -> std::result::Result<(), Duration> {
        let pair = self.clock.pair();
        self.location.round_began.store(pair.monotonic.as_micros().max(1), Ordering::Relaxed);
        self.follow_clock(pair);
        let outcome = self.check_identity().and_then(|()| self.write_all(pair)).and_then(|()| self.purge());
        self.location.round_began.store(0, Ordering::Relaxed);
        let now = self.clock.now();
        match outcome {
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
        }
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

    /// Writes all that waits.
    fn write_all(&mut self, pair: ClockPair) -> Result<()> {
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
                self.commit(&mut batch, pair)?;
            }
        }
        self.commit(&mut batch, pair)
    }

    /// Commits `batch` and empties it, or gives it back to the journal.
    fn commit(&mut self, batch: &mut Vec<Change>, pair: ClockPair) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.put_in_order(batch);
        match self.try_commit(batch, pair) {
            Ok(()) => {
                self.location.written(batch.len());
                // It goes forward: what takes long may be the processor that it shares, and no disk.
                let now = self.clock.now().as_micros().max(1);
                self.location.round_began.store(now, Ordering::Relaxed);
                batch.clear();
                Ok(())
            }
            Err(error) => {
                self.location.put_back(std::mem::take(batch));
                Err(self.database.error("write the bindings", &error))
            }
        }
    }

    /// In the order of the key, rows that are neighbours on disk are written together. There is one
    /// change for each key, so any order is right. Sorted are the beginnings of the keys: one
    /// comparison of numbers, and what is moved is small.
    fn put_in_order(&mut self, batch: &[Change]) {
        self.order.clear();
        self.order.extend(batch.iter().enumerate().map(|(at, change)| (beginning(key_of(change).aor), at)));
        self.order.sort_unstable();
    }

    fn try_commit(&mut self, batch: &[Change], pair: ClockPair) -> rusqlite::Result<()> {
        let transaction =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put = transaction.prepare_cached(PUT)?;
            let mut delete = transaction.prepare_cached(DELETE)?;
            let mut rows = Rows::new(&mut put, &mut delete, &self.sockets, pair);
            for change in self.order.iter().filter_map(|(_, at)| batch.get(*at)) {
                rows.write(change)?;
            }
        }
        transaction.commit()
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

/// The first bytes of a name as a number of the same order.
fn beginning(name: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    u128::from_be_bytes(bytes)
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    Ok(row.get_ref(column)?.as_i64().unwrap_or(-1))
}

/// Whether memory holds the binding whose key the first five columns are.
fn is_live(row: &Row<'_>, location: &SharedLocation, now: Time) -> rusqlite::Result<bool> {
    let bytes = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_bytes().unwrap_or_default());
    let (contact, instance, reg_id) = (bytes(2)?, bytes(3)?, number(row, 4)?);
    let mut live = false;
    location.lookup(&join_aor(bytes(0)?, bytes(1)?), now, |view| {
        live |= view.contact == contact && view.instance == instance && i64::from(view.reg_id) == reg_id;
    });
    Ok(live)
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
    pub(crate) fn pragma(&self, name: &str) -> i64 {
        self.database.connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
    }

    pub(crate) fn set_pragma(&self, name: &str, value: i64) {
        self.database.connection.pragma_update(None, name, value).unwrap();
    }
}
