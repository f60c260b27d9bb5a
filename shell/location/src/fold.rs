//! Moves full files of the log into the table of bindings.
//!
//! In two stages, each in steps that the caller paces: the files are read for the latest word about each
//! binding, and these words are written in the order of the table's rows, some thousand in a transaction.
//! A binding that was refreshed many times is written once, and a page of the database is changed once for
//! all its rows. Nothing is lost by stopping anywhere: the files stay until all of it is done, and doing a
//! step twice changes nothing.

use std::collections::VecDeque;

use crate::clock::ClockPair;
use crate::error::{Kind, Result, StoreError};
use crate::files::LogDir;
use crate::log::index::{Index, Place};
use crate::log::record::{Entry, Put};
use crate::log::scan::Scan;
use crate::log::{Found, Full};
use crate::service::SharedLocation;
use crate::table::{BindingTable, Word};
use crate::turns;

/// Full files on their way into the table.
pub(crate) struct Fold {
    /// Where they are.
    dir: LogDir,
    /// All of them.
    files: Vec<Full>,
    waiting: VecDeque<Full>,
    found: Found,
    /// Bytes that are read, and of all files.
    read: (u64, u64),
    /// Set when all files are read.
    order: Option<Vec<Place>>,
    done: usize,
    /// Numbers of files of which something is not there any more.
    hurt: Vec<u64>,
    /// Some of that was still read as the latest word about a binding: an earlier word is not in the table.
    hurt_late: bool,
}

impl Fold {
    /// Of files that are still to be read; `key` as for [`Index::new`].
    pub(crate) fn new(dir: LogDir, files: Vec<Full>, key: [u8; 16]) -> Fold {
        Fold {
            dir,
            waiting: files.iter().cloned().collect(),
            found: Found { files: Vec::new(), index: Index::new(key) },
            read: (0, files.iter().map(|file| file.bytes).sum()),
            order: None,
            done: 0,
            hurt: Vec::new(),
            hurt_late: false,
            files,
        }
    }

    /// The files it is about.
    pub(crate) fn files(&self) -> &[Full] {
        &self.files
    }

    /// Reads up to about `budget` bytes, a whole batch at least; answers whether all is read.
    pub(crate) fn read(&mut self, budget: u64) -> Result<bool> {
        let mut left = budget;
        while let Some(full) = self.waiting.front() {
            if self.found.files.last().is_none_or(|file| file.number != full.number) {
                match Scan::open(&self.dir, &full.path, full.number, false) {
                    Ok(file) if file.header.salt != full.salt => {
                        log_events::bindings::log_file_replaced(&file.path.display());
                        self.hurt.push(full.number);
                        self.waiting.pop_front();
                        continue;
                    }
                    Ok(mut file) => {
                        file.loaded = full.loaded;
                        if file.length < full.bytes {
                            log_events::bindings::log_file_cut(
                                &file.path.display(),
                                full.bytes - file.length,
                            );
                            self.hurt.push(full.number);
                        }
                        self.found.files.push(file);
                    }
                    // Whatever happened to it will not be undone; memory has all that was in it.
                    Err(error) if matches!(error.kind, Kind::Missing | Kind::Corrupt | Kind::Version) => {
                        log_events::bindings::log_file_lost(&error);
                        self.hurt.push(full.number);
                        self.waiting.pop_front();
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let begin = self.found.files.last().map_or(0, |file| file.at);
            let mut more = true;
            while more && left != 0 {
                more = self.found.step()?;
                let at = self.found.files.last().map_or(0, |file| file.at);
                left = budget.saturating_sub(at - begin);
            }
            let at = self.found.files.last().map_or(0, |file| file.at);
            self.read.0 += at - begin;
            if more {
                return Ok(false);
            }
            if self.found.files.last().is_some_and(|file| file.damage.is_some()) {
                self.hurt.extend(self.found.files.last().map(|file| file.number));
            }
            self.found.files.iter_mut().for_each(Scan::rest);
            self.waiting.pop_front();
        }
        if self.order.is_none() {
            self.order = Some(self.found.index.in_order_of_rows());
            self.found.index = Index::new([0; 16]);
        }
        Ok(true)
    }

    /// How far it is, in thousandths. Reading is about a quarter of it.
    pub(crate) fn progress(&self) -> u64 {
        let part = |whole: u64, done: u64, all: u64| whole.saturating_mul(done) / all.max(1);
        match &self.order {
            Some(order) => 250 + part(750, self.done as u64, order.len() as u64),
            None => part(250, self.read.0, self.read.1).min(250),
        }
    }

    /// Writes up to `rows` bindings in one transaction; answers whether all of them are written.
    pub(crate) fn write(
        &mut self,
        rows: usize,
        table: &mut dyn BindingTable,
        location: &SharedLocation,
        clock: ClockPair,
    ) -> Result<bool> {
        let Some(order) = &self.order else { return Ok(false) };
        let places = order.get(self.done..order.len().min(self.done + rows)).unwrap_or_default();
        let hurt = write(&self.found.files, places, table, location, clock)?;
        self.done += places.len();
        let done = self.done == order.len();
        self.hurt_late |= !hurt.is_empty();
        self.hurt.extend(hurt);
        Ok(done)
    }

    /// The files whose words are all in the table: those before the first one that is hurt.
    pub(crate) fn whole(&self) -> &[Full] {
        let first = self.files.iter().position(|file| self.hurt_late || self.hurt.contains(&file.number));
        self.files.get(..first.unwrap_or(self.files.len())).unwrap_or_default()
    }

    /// The numbers of the files of which something is not there any more.
    pub(crate) fn hurt(&self) -> &[u64] {
        &self.hurt
    }
}

/// Writes what stands at `places` to the table in one transaction. Answers the numbers of files in which
/// something cannot be read.
pub(crate) fn write(
    files: &[Scan],
    places: &[Place],
    table: &mut dyn BindingTable,
    location: &SharedLocation,
    clock: ClockPair,
) -> Result<Vec<u64>> {
    let mut hurt = Vec::new();
    if places.is_empty() {
        return Ok(hurt);
    }
    let mut bytes = Vec::new();
    let mut ranges = Vec::with_capacity(places.len());
    for place in places {
        turns::offer_often();
        let Some(file) = files.get(place.file as usize) else { continue };
        let begin = bytes.len();
        let copied = file.copy(place.at, place.length, &mut bytes);
        copied.map_err(|error| StoreError::io(&file.path, "read the log of bindings", &error))?;
        ranges.push((file, begin..bytes.len()));
    }
    let mut entries = Vec::with_capacity(ranges.len());
    for (file, range) in ranges {
        turns::offer_often();
        match bytes.get(range).and_then(|record| Entry::decode(file.header.base, record)) {
            Some(entry) => entries.push((file, entry)),
            None => hurt.push(file.number),
        }
    }
    let mut words = entries.into_iter().filter_map(|(file, entry)| {
        turns::offer();
        Some(match entry {
            // It ended while nobody ran, so that nobody will say so.
            Entry::Put(binding) if is_over(&binding, location, clock, file.loaded) => {
                Word::Delete(binding.key)
            }
            Entry::Put(binding) => Word::Put(binding, file.name(binding.socket)),
            Entry::Delete(key) => Word::Delete(key),
            Entry::Name { .. } | Entry::Seen(_) => return None,
        })
    });
    table.write(&mut words)?;
    Ok(hurt)
}

/// Whether a binding has ended and not come back. The wall clock alone does not tell: it may have been set.
/// So what a start found is judged by its clock.
fn is_over(
    binding: &Put<'_>,
    location: &SharedLocation,
    clock: ClockPair,
    loaded: Option<ClockPair>,
) -> bool {
    loaded.unwrap_or(clock).revive(binding.written, binding.expires).is_none()
        && !location.has_binding(&binding.key, clock.monotonic)
}
