//! The log as workers and the writer share it.
//!
//! A worker writes what its registrations of a round changed, with one call, before their answers leave. The
//! writer writes everything else, and brings all of it to the disk some times a second. The journals are
//! taken and their content is written under one lock, so that the log has the changes of a binding in their
//! order, whoever made them. That lock is not held while the disk works, but where a file is full: what came
//! while the next one was made is brought to the disk under it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sip_registrar::Change;

use crate::clock::{Clock, ClockPair};
use crate::error::{Kind, Result, StoreError};
use crate::journal::Journal;
use crate::keeper::BindingLog;
use crate::log::{Full, Log};
use crate::removals::Removals;
use crate::service::SharedLocation;

/// Bytes that may be on their way to the disk before workers write no more: memory keeps them meanwhile.
const UNSYNCED: usize = 64 << 20;

/// The log, and who writes it.
pub struct Appender {
    location: Arc<SharedLocation>,
    sockets: Vec<String>,
    clock: Clock,
    open: Mutex<Open>,
}

/// What is used under the lock.
pub(crate) struct Open {
    pub(crate) log: Log,
    pub(crate) removals: Removals,
    /// A file that was appended to was lost, and what stood there is not made good yet: of removals nothing
    /// is said.
    pub(crate) lost: bool,
    /// Bytes at which the file takes no more from workers.
    pub(crate) most: u64,
    /// The last word about removals that is written and not on the disk yet.
    said: Option<i64>,
    batch: Vec<Change>,
    /// An empty journal, with the room that the last one needed, to leave in the place of a full one.
    spare: Journal,
}

impl Open {
    /// A word about removals that the log has not said.
    pub(crate) fn news(&self, seen: i64) -> Option<i64> {
        // Of ends that were in a lost file the log says nothing: the table must do without those rows before.
        (seen != self.log.seen() && !self.lost).then_some(seen)
    }

    /// Changes that are taken and not written.
    pub(crate) fn taken(&self) -> usize {
        self.batch.len()
    }
}

impl Appender {
    pub(crate) fn new(
        location: Arc<SharedLocation>,
        log: Log,
        sockets: Vec<String>,
        clock: Clock,
        removals: Removals,
    ) -> Appender {
        let (batch, spare) = (Vec::new(), Journal::default());
        let open = Open { log, removals, lost: false, most: u64::MAX, said: None, batch, spare };
        Appender { location, sockets, clock, open: Mutex::new(open) }
    }

    /// The log. Not to be held while the disk works.
    pub(crate) fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the journal of a stripe.
    pub(crate) fn take(&self, open: &mut Open, stripe: usize) {
        match self.location.take_journal(stripe, std::mem::take(&mut open.spare)) {
            Ok(mut journal) => {
                journal.drain_into(&mut open.batch);
                open.spare = journal;
            }
            Err(empty) => open.spare = empty,
        }
    }

    /// Writes what was taken, and the word about removals; or gives it back to the journals.
    pub(crate) fn write(&self, open: &mut Open, clock: ClockPair, seen: Option<i64>) -> Result<()> {
        if open.batch.is_empty() && seen.is_none() {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut open.batch);
        let written = open.log.append(&batch, &self.sockets, clock, seen);
        match written {
            Ok(()) => open.said = seen.or(open.said),
            Err(_) => self.location.put_back(&mut batch),
        }
        batch.clear();
        open.batch = batch;
        written
    }

    /// Brings to the disk what is written.
    pub(crate) fn sync(&self) -> Result<()> {
        let (syncing, said) = {
            let mut open = self.open();
            (open.log.begin_sync()?, open.said)
        };
        let Some(syncing) = syncing else { return Ok(()) };
        let outcome = syncing.run();
        let mut open = self.open();
        let changes = open.log.end_sync(&syncing, outcome)?;
        self.location.written(changes);
        if let Some(seen) = said {
            open.removals.durable.store(seen, Ordering::Release);
            open.said = open.said.filter(|later| *later != seen);
        }
        Ok(())
    }

    /// Begins the next file; answers the one that is full. All of that is on the disk.
    pub(crate) fn rotate(&self, clock: ClockPair) -> Result<Full> {
        self.sync()?;
        let plan = self.open().log.plan()?;
        let next = plan.make(clock)?;
        let mut open = self.open();
        let (full, changes) = open.log.rotate(next, clock)?;
        self.location.written(changes);
        Ok(full)
    }

    /// Goes on in the next file, in the place of one that is lost; answers that.
    pub(crate) fn step_over(&self, clock: ClockPair) -> Result<Full> {
        let plan = self.open().log.plan_over()?;
        let next = plan.make(clock)?;
        let mut open = self.open();
        let (lost, changes) = open.log.step_over(next)?;
        // Memory writes all of it anew.
        self.location.written(changes);
        (open.lost, open.said) = (true, None);
        Ok(lost)
    }
}

impl BindingLog for Appender {
    fn keep(&self, parts: &[u32]) -> Result<()> {
        let clock = self.clock.pair();
        let mut open = self.open();
        // A user that was removed, created again and registered must not be removed by the next start because
        // of the earlier removal. So the start has to read that the removal is done, which is written with
        // the ends of all removed bindings.
        let seen = open.news(open.removals.applied.load(Ordering::Acquire));
        match seen {
            Some(_) => (0..self.location.parts()).for_each(|stripe| self.take(&mut open, stripe)),
            None => parts.iter().for_each(|stripe| self.take(&mut open, *stripe as usize)),
        }
        if open.taken() != 0 && (open.log.length() >= open.most || open.log.unsynced() >= UNSYNCED) {
            let mut batch = std::mem::take(&mut open.batch);
            self.location.put_back(&mut batch);
            let path = open.log.path();
            return Err(StoreError::new(Kind::Full, path, "takes no more", "see why the disk is slow"));
        }
        self.write(&mut open, clock, seen)
    }
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Appender")
    }
}
