//! Bindings from disk at start, before the first request is answered: the table and the log side by side.
//!
//! One thread reads the log in its order, others read the table ([`BindingTable::read`]). If both have a
//! binding, the log's record counts, in whatever order they are read. It replaces the table's row, and a row
//! is used only if the log has no record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::ClockPair;
use crate::error::{Kind, Result, StoreError};
use crate::files::LogDir;
use crate::fold;
use crate::log::record::Entry;
use crate::log::scan::Scan;
use crate::log::{Found, Full, Log, dispose};
use crate::sealed::Sealed;
use crate::service::SharedLocation;
use crate::stage::{Loading, ROOM, Says, Stage};
use crate::table::{BindingTable, TableRead};

/// Rows and records between two lines of progress.
const PROGRESS: u64 = 500_000;
/// Threads that read.
const THREADS: usize = 3;
/// Records that are read before they are counted.
const PORTION: u64 = 4_000;
/// Bindings written to the table in one transaction, where that cannot wait.
const STEP: usize = 8_000;

/// Seconds by which the clock may have been set back without the log being moved for it. By no more does
/// a binding then live too long.
const SLACK: i64 = 5;

/// How to load bindings.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions<'a> {
    /// The directory of the log.
    pub dir: &'a LogDir,
    /// The names of the listeners.
    pub sockets: &'a [String],
    /// Now.
    pub clock: ClockPair,
    /// The number of the last change of a subscriber, from before anything was read.
    pub newest: i64,
    /// Whether log and table are read at the same time. One after the other, equal disks make equal tables.
    pub side_by_side: bool,
    /// Bindings that may wait before they are put into the tables.
    pub room: usize,
}

impl LoadOptions<'_> {
    /// The usual way.
    pub fn new<'a>(dir: &'a LogDir, sockets: &'a [String], clock: ClockPair, newest: i64) -> LoadOptions<'a> {
        LoadOptions { dir, sockets, clock, newest, side_by_side: true, room: ROOM }
    }
}

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
pub struct Start {
    /// The numbers.
    pub report: LoadReport,
    /// A log that was just begun.
    pub log: Log,
    /// Files of the log that are still to be moved into the table.
    pub sealed: Arc<Sealed>,
    /// Up to where the log knew of removals of subscribers, the lowest number if it does not say; `None`:
    /// there was no log.
    pub seen: Option<i64>,
}

/// Reads the bindings of the table and the log into `location`, which is empty, and begins a new file of the
/// log.
///
/// # Errors
/// Something cannot be read, or the new file cannot be begun.
pub fn load(
    options: LoadOptions<'_>,
    table: &mut dyn BindingTable,
    location: &SharedLocation,
) -> Result<Start> {
    let LoadOptions { dir, clock, newest, .. } = options;
    let key = dir.random_key()?;
    let (mut found, mut report, mut ahead) = load_all(options, table, location, key)?;
    found.settle(dir)?;
    // Files that do not say it any more: all that is known of removals may be news.
    let unknown = (!found.files.is_empty()).then_some(i64::MIN);
    let (seen, number, mut sealed) = (found.seen().or(unknown), found.next(dir)?, found.full(clock));
    // What was written later than now is from before the clock was set back, which is put right in the table.
    let back = found.newest() > clock.wall_seconds().saturating_add(SLACK);
    let moved = back && move_all(&Found::read(dir, key)?, table, location, clock);
    if (ahead || moved)
        && let Err(error) = table.pull_back(clock)
    {
        ahead = false;
        log_events::bindings::wall_clock_behind(&error);
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
        report = load_all(options, table, location, key)?.1;
    }
    if report.bad != 0 {
        log_events::bindings::bindings_passed_over(report.bad);
    }
    Ok(Start { report, log, sealed: Arc::new(Sealed::new(sealed)), seen })
}

/// Moves all of the log into the table at once; answers whether that is done.
fn move_all(
    found: &Found,
    table: &mut dyn BindingTable,
    location: &SharedLocation,
    clock: ClockPair,
) -> bool {
    for places in found.index.in_order_of_rows().chunks(STEP) {
        if let Err(error) = fold::write(&found.files, places, table, location, clock) {
            log_events::bindings::log_not_moved(&error);
            return false;
        }
    }
    true
}

/// Deletes these files of the log, the oldest first; what is left of them stays in `sealed`.
fn dispose_all(dir: &LogDir, found: &Found, which: impl Fn(&Scan) -> bool, sealed: &mut Vec<Full>) {
    for file in found.files.iter().filter(|file| which(file)) {
        if let Err(error) = dispose(dir, &file.path, file.damage.is_some()) {
            log_events::bindings::log_file_stays(&error);
            break;
        }
        sealed.retain(|full| full.number != file.number);
    }
}

/// Puts what the table and the log say into `location`, which is empty. Answers also whether some row was
/// written later than now.
fn load_all(
    options: LoadOptions<'_>,
    table: &mut dyn BindingTable,
    location: &SharedLocation,
    key: [u8; 16],
) -> Result<(Found, LoadReport, bool)> {
    let LoadOptions { dir, sockets, clock, side_by_side, room, .. } = options;
    location.tell_time(clock.monotonic);
    let loading = Loading::new(location, key, THREADS, room);
    let filling = Filling {
        loading: &loading,
        half: location.stripes.len() / 2,
        sockets,
        clock,
        stopped: AtomicBool::new(false),
        count: AtomicU64::new(0),
    };
    let (log, table) = if side_by_side {
        std::thread::scope(|scope| {
            let log = scope.spawn(|| filling.read_log(dir));
            let table = table.read(&filling);
            let fault = |_| {
                let problem = "reading the bindings met a fault of ours";
                StoreError::new(Kind::System, dir.path(), problem, "report it")
            };
            (log.join().map_err(fault).flatten(), table)
        })
    } else {
        let log = filling.read_log(dir);
        (log, table.read(&filling))
    };
    let ((found, refused), TableRead { bad, ahead }) = (log?, table?);
    let report = LoadReport {
        live: location.size().1 as u64,
        expired: loading.expired(),
        bad: bad + refused + found.files.iter().map(|file| file.bad).sum::<u64>(),
    };
    Ok((found, report, ahead))
}

/// What the threads of a start share.
pub struct Filling<'a> {
    loading: &'a Loading<'a>,
    /// The number of parts of the location service, halved.
    half: usize,
    sockets: &'a [String],
    clock: ClockPair,
    /// What is read need not be read further.
    stopped: AtomicBool,
    count: AtomicU64,
}

impl Filling<'_> {
    /// Room for what one thread reads of the table.
    pub fn stage(&self) -> Stage<'_> {
        Stage::new(self.loading, true)
    }

    /// The number of parts of the location service, halved: with which one the second of two threads begins
    /// its [`Stage::finish`].
    pub fn half(&self) -> usize {
        self.half
    }

    /// The names of the listeners.
    pub fn sockets(&self) -> &[String] {
        self.sockets
    }

    /// Now.
    pub fn clock(&self) -> ClockPair {
        self.clock
    }

    /// Whether the start fails, and nothing more need be read.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// So many rows more are read.
    pub fn count(&self, more: u64) {
        let before = self.count.fetch_add(more, Ordering::Relaxed);
        if before / PROGRESS != (before + more) / PROGRESS {
            log_events::bindings::bindings_being_read(before + more);
        }
    }

    /// Reads all of the log; answers also of how many bindings there was no room for.
    fn read_log(&self, dir: &LogDir) -> Result<(Found, u64)> {
        let (mut stage, mut count) = (Stage::new(self.loading, false), 0);
        let found = Found::read_to(dir, |file, entry| {
            self.put(&mut stage, file, entry);
            count += 1;
            if count == PORTION {
                self.count(std::mem::take(&mut count));
            }
        });
        if found.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        stage.finish(self.half / 2);
        Ok((found?, stage.refused()))
    }

    fn put(&self, stage: &mut Stage<'_>, file: &Scan, entry: &Entry<'_>) {
        match entry {
            Entry::Put(put) => match self.clock.revive(put.written, put.expires) {
                Some(expires) => {
                    stage.put(put.key.aor, &put.view(expires, file.name(put.socket), self.sockets));
                }
                None => stage.end(Says::Over, &put.key),
            },
            Entry::Delete(key) => stage.end(Says::Removed, key),
            Entry::Name { .. } | Entry::Seen(_) => {}
        }
    }
}
