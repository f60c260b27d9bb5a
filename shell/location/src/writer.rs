//! The thread that writes the journal to disk.
//!
//! A round begins every 250 ms: it takes what all stripes have waiting, appends it to the log, and brings to
//! the disk what it and the workers have appended. Nothing is lost by a failure: changes that could not be
//! written go back to the journal, those that may not have reached the disk are written again, and the next
//! round tries again after a pause that doubles.
//!
//! A file of the log that is full, or old, is left to the [`Mover`](crate::Mover), and the next one begun,
//! once those before it are moved. Until then the file grows: beyond some length registrations are refused,
//! so that what was accepted before has room still.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wire::Time;

use crate::appender::Appender;
use crate::clock::{Clock, ClockPair};
use crate::error::{Kind, Result, StoreError};
use crate::log::Log;
use crate::removals::Removals;
use crate::sealed::Sealed;
use crate::service::{Cursor, SharedLocation};
use crate::table::TableCheck;
use crate::turns;

/// Between two rounds. With the writing itself, a change is on disk well within a second.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// Changes after which a batch is closed: workers wait for some tenth of a millisecond at most. The stripe
/// being taken is always finished, so that a binding and the one it replaces are written together.
const BATCH: usize = 256;
/// Bytes after which what is written is brought to the disk, in the midst of a round.
const UNSYNCED: usize = 4 << 20;
/// Pause after the first failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Changes that a walk over all bindings may add to the journal in one round.
const RESCAN_ROUND: usize = 20_000;
/// A difference of the clocks that counts as a jump, in microseconds. Slewing stays below it.
const JUMP: i128 = 5_000_000;
/// Bytes of the log for each binding that lives, in a file that is full: about one record.
const BYTES_OF_BINDING: u64 = 160;
/// Times that the journals are taken in one round, if subscribers are removed meanwhile.
const PASSES: usize = 8;
/// So many full files together are too many: registrations are refused.
const REFUSE: u64 = 3;
/// With so many nothing is written any more.
const STOP: u64 = 4;

/// When a file of the log is full.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Bytes that a file may have in any case, and at most.
    pub bytes: (u64, u64),
    /// Age at which what a file says goes into the table, however little it is.
    pub age: Duration,
    /// Changes in a batch.
    pub batch: usize,
}

impl Default for LogLimits {
    fn default() -> LogLimits {
        LogLimits { bytes: (128 << 20, 1 << 30), age: Duration::from_secs(3_600), batch: BATCH }
    }
}

/// What a [`Writer`] begins with.
pub struct WriterOptions {
    /// Whose changes it writes.
    pub location: Arc<SharedLocation>,
    /// A log that was just begun.
    pub log: Log,
    /// The full files of before.
    pub sealed: Arc<Sealed>,
    /// The names of the listeners.
    pub sockets: Vec<String>,
    /// The clocks.
    pub clock: Clock,
    /// When the bindings were loaded.
    pub loaded: ClockPair,
    /// Whether the table that full files are moved into is where the next start looks for it.
    pub table_there: TableCheck,
}

/// The write-behind.
pub struct Writer {
    location: Arc<SharedLocation>,
    /// Of the database: what it says belongs to the log.
    table_there: TableCheck,
    clock: Clock,
    appender: Arc<Appender>,
    sealed: Arc<Sealed>,
    limits: LogLimits,
    removals: Removals,
    /// Bytes at which the file is full, as that was when it was begun.
    full: u64,
    /// Since when it has something in it.
    began: Option<Time>,
    /// The same, or more by now.
    limit: u64,
    /// When to try again to begin the next file, and why that failed.
    trouble: Option<(Time, String)>,
    /// Wall clock minus monotonic time, microseconds.
    offset: i128,
    /// A walk over all bindings is under way, because they are to be written anew.
    rescan: Option<Cursor>,
    pause: Duration,
}

impl Writer {
    /// Goes on where a start ended, with the log that this began.
    pub fn new(options: WriterOptions) -> Writer {
        let WriterOptions { location, log, sealed, sockets, clock, loaded, table_there } = options;
        let removals = Removals::new(log.seen(), log.seen());
        let appender = Appender::new(Arc::clone(&location), log, sockets, clock.clone(), removals.clone());
        let mut writer = Writer {
            location,
            table_there,
            clock,
            appender: Arc::new(appender),
            sealed,
            limits: LogLimits::default(),
            removals,
            full: 0,
            limit: 0,
            began: None,
            trouble: None,
            offset: offset(loaded),
            rescan: None,
            pause: RETRY.0,
        };
        // A log that was full for the bindings of before is none that is too long now.
        writer.full = writer.sealed.bytes().min(writer.limits.bytes.1);
        writer.measure();
        writer
    }

    /// How far removals of subscribers are.
    pub fn follow_removals(&mut self, removals: Removals) {
        let mut open = self.appender.open();
        // A number from before they began again says nothing about those of now.
        let said = Some(open.log.seen()).filter(|seen| *seen <= removals.applied.load(Ordering::Acquire));
        removals.durable.store(said.unwrap_or(i64::MIN), Ordering::Release);
        open.removals = removals.clone();
        self.removals = removals;
    }

    /// What workers write to.
    pub fn appender(&self) -> Arc<Appender> {
        Arc::clone(&self.appender)
    }

    /// One round. Answers how long to wait for the next.
    pub fn round(&mut self) -> Duration {
        let pair = self.clock.pair();
        self.goes_forward();
        let there = self.replace_lost(pair);
        self.follow_clock(pair);
        self.rotate_if_due(pair);
        // What the walk found is in the journal by now.
        let walked = self.rescan.is_none();
        let there = there.and_then(|()| self.appender.open().log.check_identity());
        let written = there.and_then(|()| self.write_all(pair));
        self.goes_forward();
        // What could be written is brought to the disk also where not all could.
        let synced = self.appender.sync();
        let outcome = written.and_then(|room| synced.map(|()| room));
        if walked && matches!(outcome, Ok(true)) {
            self.sealed.repaired();
        }
        self.measure();
        self.location.round_began.store(0, Ordering::Relaxed);
        self.sealed.set_filled(self.length().saturating_mul(1_000) / self.limit.max(1));
        let now = self.clock.now();
        match outcome {
            Ok(_) => {
                self.pause = RETRY.0;
                // Judged after writing: what was accepted before is written in any case.
                match (self.table_there)().and_then(|()| self.check_size()) {
                    Ok(()) => self.location.health.good(now),
                    Err(error) => self.location.health.failing(now, error.to_string()),
                }
                INTERVAL
            }
            Err(error) => {
                self.location.health.failing(now, error.to_string());
                let pause = self.pause;
                self.pause = (self.pause * 2).min(RETRY.1);
                pause
            }
        }
    }

    /// Whether all bindings are to be written anew, and not all of them are.
    pub fn rescanning(&self) -> bool {
        self.rescan.is_some()
    }

    /// Leaves everything to the mover.
    ///
    /// # Errors
    /// The next file cannot be begun.
    pub fn seal(&mut self) -> Result<()> {
        if self.appender.open().log.is_empty() {
            return Ok(());
        }
        self.appender.open().log.check_identity()?;
        self.rotate(self.clock.pair())
    }

    /// What takes long may be the processor that it shares, and no disk: a stall is a round without progress.
    fn goes_forward(&self) {
        let now = self.clock.now().as_micros().max(1);
        self.location.round_began.store(now, Ordering::Relaxed);
    }

    /// If the wall clock was set, all records have to say their end in terms of the new one.
    fn follow_clock(&mut self, pair: ClockPair) {
        let moved = offset(pair) - self.offset;
        if moved.abs() > JUMP {
            let seconds = moved / 1_000_000;
            log_events::bindings::wall_clock_set(&seconds);
            self.offset = offset(pair);
            self.rescan = Some(Cursor::default());
        }
        if self.sealed.take_wanted() {
            self.rescan = Some(Cursor::default());
        }
        let enough = self.location.pending().saturating_add(RESCAN_ROUND);
        while let Some(cursor) = self.rescan {
            if self.location.pending() >= enough {
                break;
            }
            turns::offer();
            self.rescan = self.location.rescan(cursor, pair.monotonic);
        }
    }

    /// Somebody deleted or replaced the file that is appended to: memory has all that was in it, and writes
    /// it to the next one. The mover finds it gone, and deletes rows of bindings whose ends were in it.
    fn replace_lost(&mut self, pair: ClockPair) -> Result<()> {
        {
            let mut open = self.appender.open();
            open.lost &= !self.sealed.is_empty();
            if !open.log.is_lost()? {
                return Ok(());
            }
        }
        // With the database elsewhere too, this is not the directory that we know.
        (self.table_there)()?;
        let lost = self.appender.step_over(pair)?;
        log_events::bindings::log_deleted(&lost.path.display());
        self.sealed.push(lost);
        (self.began, self.trouble) = (None, None);
        self.rescan = Some(Cursor::default());
        Ok(())
    }

    /// A log that cannot be moved into the table does not grow for ever.
    fn check_size(&self) -> Result<()> {
        if self.bytes() < self.limit.saturating_mul(REFUSE) {
            return Ok(());
        }
        let ours = self.trouble.as_ref().map(|(_, error)| error.clone());
        let why = ours.or_else(|| self.sealed.trouble()).unwrap_or_else(|| "the disk is too slow".to_owned());
        let path = self.appender.open().log.path().to_path_buf();
        Err(StoreError::new(
            Kind::Full,
            &path,
            format!("and those before it are {} bytes long and not in the database: {why}", self.bytes()),
            "repair that; registrations are taken again as soon as they are moved",
        ))
    }

    /// Whether the log may grow at all. In any case by all bindings once, where a file waits for just that.
    fn has_room(&self) -> bool {
        self.sealed.needs_repair() || self.bytes() < self.limit.saturating_mul(STOP)
    }

    /// Of the whole log.
    fn bytes(&self) -> u64 {
        self.sealed.bytes().saturating_add(self.length())
    }

    /// Sets at how many bytes a file of the log is full. In proportion to the bindings, because the more of
    /// them a file says something about, and the more often, the fewer pages of the table are changed for
    /// each.
    fn measure(&mut self) {
        let (least, most) = self.limits.bytes;
        self.limit = self.full.max(least);
        if self.bytes() >= least {
            let bindings = self.location.size().1 as u64;
            self.limit = self.limit.max(bindings.saturating_mul(BYTES_OF_BINDING).min(most));
        }
        self.appender.open().most = self.limit.saturating_mul(STOP).saturating_sub(self.sealed.bytes());
    }

    /// Begins the next file if it is time and those before are moved. Failing does no harm yet.
    fn rotate_if_due(&mut self, pair: ClockPair) {
        let old = self.began.is_some_and(|began| pair.monotonic.since(began) >= self.limits.age);
        let due = (old || self.length() >= self.limit) && self.sealed.is_empty();
        if !due || self.trouble.as_ref().is_some_and(|(again, _)| pair.monotonic < *again) {
            return;
        }
        let there = self.appender.open().log.check_identity();
        if let Err(error) = there.and_then(|()| self.rotate(pair)) {
            let text = error.to_string();
            if self.trouble.replace((pair.monotonic + RETRY.1, text)).is_none() {
                log_events::bindings::log_not_continued(&error);
            }
        }
    }

    fn rotate(&mut self, pair: ClockPair) -> Result<()> {
        let full = self.appender.rotate(pair)?;
        self.sealed.push(full);
        (self.began, self.trouble, self.full) = (None, None, 0);
        self.measure();
        self.full = self.limit;
        Ok(())
    }

    /// Writes all that waits; answers whether there was room for it.
    fn write_all(&mut self, pair: ClockPair) -> Result<bool> {
        if !self.has_room() {
            return Ok(false);
        }
        // Read before the journals are taken: what it stands for is in them.
        let mut seen = self.removals.applied.load(Ordering::Acquire);
        for pass in 1..=PASSES {
            // A user that was removed meanwhile may be back by now and in a batch. A start that does not know
            // that the removal came before would remove it again. With what else is in the journals it does.
            let last = |seen: i64| pass == PASSES || self.removals.applied.load(Ordering::Acquire) == seen;
            if !self.write_journals(pair, seen, last)? {
                return Ok(false);
            }
            let now = self.removals.applied.load(Ordering::Acquire);
            if now == seen {
                break;
            }
            seen = now;
        }
        if !self.appender.open().log.is_empty() {
            self.began.get_or_insert(pair.monotonic);
        }
        Ok(true)
    }

    /// Writes the journals of all stripes, and at the end up to where removals are in the log, if that is
    /// `last`. Answers whether there was room.
    fn write_journals(&self, pair: ClockPair, seen: i64, last: impl Fn(i64) -> bool) -> Result<bool> {
        let mut from = 0;
        while from < self.location.parts() {
            // What is taken is written before another thread takes anything.
            let mut open = self.appender.open();
            while from < self.location.parts() && open.taken() < self.limits.batch {
                self.appender.take(&mut open, from);
                from += 1;
            }
            let news = (from == self.location.parts() && last(seen)).then(|| open.news(seen)).flatten();
            self.appender.write(&mut open, pair, news)?;
            let much = open.log.unsynced() >= UNSYNCED;
            drop(open);
            self.goes_forward();
            if much {
                self.appender.sync()?;
            }
            turns::offer();
            if from < self.location.parts() && !self.has_room() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn offset(pair: ClockPair) -> i128 {
    i128::from(pair.wall) - i128::from(pair.monotonic.as_micros())
}

/// For simulations and tests: what the log is like, and steps that a round has in one.
impl Writer {
    /// The path of the file that is appended to.
    pub fn path(&self) -> PathBuf {
        self.appender.open().log.path().to_path_buf()
    }

    /// Bytes of the file that is appended to.
    pub fn length(&self) -> u64 {
        self.appender.open().log.length()
    }

    /// The last word about removals that it has.
    pub fn seen(&self) -> i64 {
        self.appender.open().log.seen()
    }

    /// From now on files are full at other sizes.
    pub fn set_limits(&mut self, limits: LogLimits) {
        (self.limits, self.full) = (limits, 0);
        self.measure();
    }

    /// How far removals of subscribers are.
    pub fn removals(&self) -> Removals {
        self.removals.clone()
    }

    /// Only what makes changes durable.
    ///
    /// # Errors
    /// They may not be.
    pub fn append_only(&mut self) -> Result<()> {
        self.write_all(self.clock.pair())?;
        self.appender.sync()
    }
}
