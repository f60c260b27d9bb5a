//! Moves full files of the log into the `location` table.
//!
//! In two stages, each in steps that the caller paces: the files are read for the latest word about each
//! binding, and these words are written in the order of the table's rows, some thousand in a transaction.
//! A binding that was refreshed many times is written once, and a page of the database is changed once for
//! all its rows. Nothing is lost by stopping anywhere: the files stay until all of it is done, and doing a
//! step twice changes nothing.

use std::collections::VecDeque;
use std::path::PathBuf;

use rusqlite::{Transaction, TransactionBehavior};

use crate::clock::ClockPair;
use crate::database::Database;
use crate::error::{Result, StoreError};
use crate::location::SharedLocation;
use crate::location::log::index::{Index, Place};
use crate::location::log::record::{Entry, Put};
use crate::location::log::scan::Scan;
use crate::location::log::{Found, report};
use crate::location::row::{DELETE, PUT, Rows};

/// Full files on their way into the table.
pub(crate) struct Fold {
    waiting: VecDeque<(u64, PathBuf)>,
    found: Found,
    /// Set when all files are read.
    order: Option<Vec<Place>>,
    done: usize,
}

impl Fold {
    /// Of files that are still to be read; `key` as for [`Index::new`].
    pub(crate) fn new(files: &[(u64, PathBuf)], key: [u8; 16]) -> Fold {
        let found = Found { files: Vec::new(), index: Index::new(key) };
        Fold { waiting: files.iter().cloned().collect(), found, order: None, done: 0 }
    }

    /// Reads up to about `budget` bytes; answers whether all is read.
    pub(crate) fn read(&mut self, budget: u64) -> Result<bool> {
        let mut left = budget;
        while let Some((number, path)) = self.waiting.front() {
            if self.found.files.last().is_none_or(|file| file.number != *number) {
                match Scan::open(path, *number)? {
                    Some(file) => self.found.files.push(file),
                    None => {
                        self.waiting.pop_front();
                        continue;
                    }
                }
            }
            let file = u32::try_from(self.found.files.len() - 1).unwrap_or(u32::MAX);
            let (Some(scan), index) = (self.found.files.last_mut(), &mut self.found.index) else { break };
            let begin = scan.at;
            let mut note =
                |key: &[u8], aor: &[u8], at, length| index.note(key, aor, Place { at, length, file });
            let mut more = true;
            while more && scan.at - begin < left {
                more = scan.step(&mut note)?;
            }
            left = left.saturating_sub(scan.at - begin);
            if more {
                return Ok(false);
            }
            scan.rest();
            report(scan);
            self.waiting.pop_front();
        }
        if self.order.is_none() {
            self.order = Some(self.found.index.in_order_of_rows());
            self.found.index = Index::new([0; 16]);
        }
        Ok(true)
    }

    /// Bindings to write, and how many of them are written.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.order.as_ref().map_or(0, Vec::len), self.done)
    }

    /// Writes up to `rows` bindings in one transaction; answers whether all of them are written.
    pub(crate) fn write(
        &mut self,
        rows: usize,
        database: &mut Database,
        location: &SharedLocation,
        clock: ClockPair,
    ) -> Result<bool> {
        let Some(order) = &self.order else { return Ok(false) };
        let places = order.get(self.done..order.len().min(self.done + rows)).unwrap_or_default();
        write(&self.found.files, places, database, location, clock)?;
        self.done += places.len();
        Ok(self.done == order.len())
    }

    /// The numbers of the files that are damaged.
    pub(crate) fn damaged(&self) -> Vec<u64> {
        self.found.files.iter().filter(|file| file.damage.is_some()).map(|file| file.number).collect()
    }
}

/// Writes what stands at `places` to the table in one transaction.
pub(crate) fn write(
    files: &[Scan],
    places: &[Place],
    database: &mut Database,
    location: &SharedLocation,
    clock: ClockPair,
) -> Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut ranges = Vec::with_capacity(places.len());
    for place in places {
        let Some(file) = files.get(place.file as usize) else { continue };
        let begin = bytes.len();
        let copied = file.copy(place.at, place.length, &mut bytes);
        copied.map_err(|error| StoreError::io(&file.path, "read the log of bindings", &error))?;
        ranges.push((file, begin..bytes.len()));
    }
    let entries = ranges
        .into_iter()
        .filter_map(|(file, range)| Some((file, Entry::decode(file.header.base, bytes.get(range)?)?)));
    let fail = |error| StoreError::sql(&database.path, "move the bindings into the table", &error);
    let transaction =
        database.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    execute(&transaction, entries, location, clock).map_err(fail)?;
    transaction.commit().map_err(fail)
}

fn execute<'s>(
    transaction: &Transaction<'_>,
    entries: impl Iterator<Item = (&'s Scan, Entry<'s>)>,
    location: &SharedLocation,
    clock: ClockPair,
) -> rusqlite::Result<()> {
    let mut put = transaction.prepare_cached(PUT)?;
    let mut delete = transaction.prepare_cached(DELETE)?;
    let mut rows = Rows::new(&mut put, &mut delete);
    for (file, entry) in entries {
        match entry {
            // It ended while nobody ran, so that nobody will say so.
            Entry::Put(binding) if is_over(&binding, location, clock) => rows.delete(&binding.key)?,
            Entry::Put(binding) => rows.put(binding, file.name(binding.socket))?,
            Entry::Delete(key) => rows.delete(&key)?,
            Entry::Name { .. } | Entry::Seen(_) => {}
        }
    }
    Ok(())
}

/// Whether a binding has ended and not come back. The wall clock alone does not tell: it may have been set.
fn is_over(binding: &Put<'_>, location: &SharedLocation, clock: ClockPair) -> bool {
    clock.revive(binding.written, binding.expires).is_none()
        && !location.has_binding(&binding.key, clock.monotonic)
}
