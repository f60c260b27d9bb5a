//! The thread between workers and outputs.

use crate::Error;
use crate::book::{Book, Reread, apply, whole_frames};
use crate::http::{HttpOptions, Poster};
use crate::output::{FileOptions, FileOutput, is_among};
use crate::ring::{self, Reader, Writer};
use call_records::{CallName, Event, Ledger, Limits, Record, What, frame};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of a ring: about 10,000 calls.
pub const RING_BYTES: usize = 8 << 20;
/// Bytes taken from a ring in one go.
const TAKEN: usize = 1 << 20;
/// Between two looks at the rings while calls come, and while none do.
const BUSY: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_millis(200);
/// Between two attempts to write to a disk that refused.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of records that may wait in memory for an output. Beyond, events stay in the rings.
const BACKLOG: usize = 64 << 20;

/// What is kept, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder for rings and book.
    pub folder: PathBuf,
    /// Worker threads.
    pub workers: u16,
    /// A file for records.
    pub file: Option<FileOptions>,
    /// A server for records.
    pub http: Option<HttpOptions>,
    /// How long calls may be open, and how many.
    pub limits: Limits,
    /// Bytes of the ring of each worker.
    pub ring_bytes: usize,
    /// Microseconds since 1970.
    pub clock: fn() -> u64,
    /// Called on the thread when it begins.
    pub on_thread: fn(),
}

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Counts {
    records: AtomicU64,
    lost: AtomicU64,
    failures: AtomicU64,
    closed_early: AtomicU64,
    open: AtomicU64,
    backlog: AtomicU64,
    dropped: AtomicU64,
    failing: AtomicBool,
    pub(crate) sent: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Counts {
    /// Records that were written.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Events for which there was no room in a ring.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Attempts to write that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Calls that were closed because there were too many.
    pub fn closed_early(&self) -> u64 {
        self.closed_early.load(Ordering::Relaxed)
    }

    /// Records that there was no room for until the HTTP server takes some again.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the last attempt to write failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Records that the HTTP server has accepted.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Attempts to send records by HTTP that failed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Calls that have begun and have no record yet.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes of records that wait for an output.
    pub fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }
}

/// Reports the events of one worker.
#[derive(Debug)]
pub struct Teller {
    ring: Writer,
    bytes: Vec<u8>,
    clock: fn() -> u64,
    counts: Arc<Counts>,
}

impl Teller {
    /// Something happens to a call now. Without a system call; if the ring is full, it is lost and counted.
    pub fn tell(&mut self, name: CallName, what: What<'_>) {
        self.bytes.clear();
        frame::write(&Event { name, at: (self.clock)(), what }, &mut self.bytes);
        if !self.ring.append(&self.bytes) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Call records being kept.
#[derive(Debug)]
pub struct CallLog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    counts: Arc<Counts>,
    over: AtomicBool,
    /// Limits that the keeper has not taken over yet.
    limits: Mutex<Option<Limits>>,
}

impl CallLog {
    /// Reads what an earlier process left, writes the records that it could not, and begins to keep records.
    /// One [`Teller`] for each worker.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn start(options: &Options) -> Result<(CallLog, Vec<Teller>), Error> {
        let counts = Arc::new(Counts::default());
        let (book, reread) = Book::open(&options.folder, options.limits)?;
        let Reread { ledger, records, positions } = reread;
        let spool = options.http.as_ref().map(|http| http.spool(&options.folder));
        let mut outputs = Vec::new();
        for (name, file) in [(FILE, &options.file), (HTTP, &spool)] {
            let Some(file) = file else { continue };
            let mut output = FileOutput::new(file.clone())?;
            let new = records.get(book.delivered(name)..).unwrap_or_default();
            let known = if new.is_empty() { Default::default() } else { output.last_ids() };
            new.iter().filter(|record| !is_among(record, &known)).for_each(|record| output.push(record));
            outputs.push(Output { name, file: output, troubled: false });
        }
        let (mut rings, mut tellers) = (Vec::new(), Vec::new());
        for number in ring_numbers(&options.folder, options.workers) {
            let path = options.folder.join(format!("ring.{number}"));
            let opened = ring::open(&path, options.ring_bytes);
            let (writer, reader) = opened.map_err(|why| Error::new(&path, "cannot use", why))?;
            // What the book has is not taken again.
            if let Some(position) = positions.get(&number) {
                reader.release(*position);
            }
            // After a power cut a ring may hold bytes that are no events.
            let mut waiting = Vec::new();
            reader.read(reader.position(), TAKEN, &mut waiting);
            if whole_frames(&waiting) == 0 {
                reader.release(u64::MAX);
            }
            let left = (number >= options.workers).then_some(path);
            rings.push(Ring { number, reader, left });
            if number < options.workers {
                let (bytes, clock, counts) = (Vec::new(), options.clock, Arc::clone(&counts));
                tellers.push(Teller { ring: writer, bytes, clock, counts });
            }
        }
        let shared = Arc::new(Shared { counts, over: AtomicBool::new(false), limits: Mutex::new(None) });
        let keeper = Keeper {
            book,
            ledger,
            outputs,
            rings,
            shared: Arc::clone(&shared),
            clock: options.clock,
            troubled: false,
            lost: 0,
        };
        let on_thread = options.on_thread;
        let thread = thread::Builder::new().name("records".to_owned());
        let spawned = thread.spawn(move || {
            on_thread();
            keeper.run();
        });
        let thread = spawned.map_err(|why| Error::new(&options.folder, "cannot start a thread for", why))?;
        if let (Some(http), Some(spool)) = (&options.http, spool) {
            let poster = Poster::new(http, spool.path, Arc::clone(&shared.counts))?;
            let (told, on_thread) = (Arc::clone(&shared), options.on_thread);
            let spawned = thread::Builder::new().name("records-http".to_owned()).spawn(move || {
                on_thread();
                poster.run(&|| told.over.load(Ordering::Acquire));
            });
            let failed = |why| Error::new(&options.folder, "cannot start a thread for", why);
            // Nobody waits for its end: a server that does not answer must not hold up this one. What was not
            // sent is sent by the next process.
            spawned.map_err(failed)?;
        }
        Ok((CallLog { shared, thread: Some(thread) }, tellers))
    }

    /// What was counted.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.shared.counts)
    }

    /// Sets new limits.
    pub fn set_limits(&self, limits: Limits) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(limits);
    }

    /// Writes what was reported until now, and ends. The next start goes on with open calls, and with what
    /// could not be written.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        self.end();
    }
}

/// The rings of the workers, and of those that an earlier process had more.
fn ring_numbers(folder: &Path, workers: u16) -> Vec<u16> {
    let mut numbers: Vec<u16> = (0..workers).collect();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("ring."));
        numbers
            .extend(number.and_then(|number| number.parse::<u16>().ok()).filter(|number| *number >= workers));
    }
    numbers
}

#[derive(Debug)]
struct Ring {
    number: u16,
    reader: Reader,
    /// The file of a worker that there is no more.
    left: Option<PathBuf>,
}

/// The names of outputs in the book.
const FILE: &str = "file";
const HTTP: &str = "http";

/// Files that records are written to.
struct Output {
    name: &'static str,
    file: FileOutput,
    /// The last attempt to write failed.
    troubled: bool,
}

struct Keeper {
    book: Book,
    ledger: Ledger,
    outputs: Vec<Output>,
    rings: Vec<Ring>,
    shared: Arc<Shared>,
    clock: fn() -> u64,
    /// The last attempt to write failed.
    troubled: bool,
    /// Lost events that were reported.
    lost: u64,
}

impl Keeper {
    fn run(mut self) {
        loop {
            // Whatever was reported before the end is taken.
            let over = self.shared.over.load(Ordering::Acquire);
            let result = self.round();
            let busy = *result.as_ref().unwrap_or(&false);
            self.report(&result);
            if over && !busy {
                return;
            }
            let pause = match result {
                Err(_) => AGAIN,
                Ok(true) => BUSY,
                Ok(false) => IDLE,
            };
            thread::park_timeout(pause);
        }
    }

    /// Takes what the rings have, and writes the records that it gives. Whether there was anything.
    fn round(&mut self) -> io::Result<bool> {
        let limits = self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(limits) = limits {
            self.book.set_limits(&mut self.ledger, limits)?;
        }
        self.write()?;
        let mut busy = false;
        for at in 0..self.rings.len() {
            busy |= self.take(at)?;
        }
        let now = (self.clock)();
        if self.ledger.is_due(now) {
            self.book.look(now)?;
            let mut done = Vec::new();
            while self.ledger.expire(now, &mut done) {}
            self.add(&done);
        }
        self.write()?;
        if self.book.is_full() && self.backlog() == 0 {
            self.ledger = self.book.turn(&self.ledger)?;
        }
        Ok(busy)
    }

    /// Takes events from a ring into book and ledger. Whether there were any.
    fn take(&mut self, at: usize) -> io::Result<bool> {
        let Some(ring) = self.rings.get(at) else { return Ok(false) };
        let (from, mut bytes) = (ring.reader.position(), Vec::new());
        ring.reader.read(from, TAKEN, &mut bytes);
        bytes.truncate(whole_frames(&bytes));
        if bytes.is_empty() {
            if let Some(path) = &ring.left {
                let _ = fs::remove_file(path);
                self.rings.remove(at);
            }
            return Ok(false);
        }
        let position = from + bytes.len() as u64;
        self.book.append(ring.number, position, &bytes)?;
        ring.reader.release(position);
        let mut done = Vec::new();
        apply(&bytes, &mut self.ledger, &mut done);
        self.add(&done);
        Ok(true)
    }

    fn add(&mut self, done: &[Record]) {
        self.book.count(done.len() as u64);
        for output in &mut self.outputs {
            for record in done {
                // A server that takes nothing for so long must not keep the file from being written.
                if output.name == HTTP && output.file.backlog() >= BACKLOG {
                    self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
                } else {
                    output.file.push(record);
                }
            }
        }
    }

    fn backlog(&self) -> usize {
        self.outputs.iter().map(|output| output.file.backlog()).sum()
    }

    /// Writes the records that wait. While that fails, events are taken all the same as long as records have
    /// room in memory.
    fn write(&mut self) -> io::Result<()> {
        let mut full = Ok(());
        for at in 0..self.outputs.len() {
            // One batch at a time: a kill in between leaves no more than one to be looked for.
            while let Some(output) = self.outputs.get_mut(at).filter(|output| output.file.backlog() > 0) {
                let path = output.file.options().path.clone();
                match output.file.flush() {
                    Ok(records) => {
                        if std::mem::replace(&mut output.troubled, false) {
                            log_events::records::call_records_written_again(&path.display());
                        }
                        self.shared.counts.records.fetch_add(records, Ordering::Relaxed);
                        let waiting: Vec<_> =
                            self.outputs.iter().map(|output| (output.name, output.file.waiting())).collect();
                        self.book.deliver(&waiting)?;
                    }
                    Err(error) => {
                        self.shared.counts.failures.fetch_add(1, Ordering::Relaxed);
                        if !std::mem::replace(&mut output.troubled, true) {
                            log_events::records::call_records_unwritten(&path.display(), &error);
                        }
                        if output.name == FILE && output.file.backlog() >= BACKLOG {
                            full = Err(error);
                        }
                        break;
                    }
                }
            }
        }
        full
    }

    /// Notes what happened in a round, for operators.
    fn report(&mut self, result: &io::Result<bool>) {
        let counts = Arc::clone(&self.shared.counts);
        let set = |count: &AtomicU64, value: u64| count.store(value, Ordering::Relaxed);
        set(&counts.open, self.ledger.len() as u64);
        set(&counts.closed_early, self.ledger.closed_early());
        set(&counts.backlog, self.backlog() as u64);
        match result {
            Err(error) => {
                counts.failures.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.troubled, true) {
                    log_events::records::call_records_unwritten(&self.book.folder().display(), error);
                }
            }
            Ok(_) => self.troubled = false,
        }
        let failing = self.troubled || self.outputs.iter().any(|output| output.troubled);
        counts.failing.store(failing, Ordering::Relaxed);
        let lost = counts.lost() + counts.dropped();
        if lost > self.lost {
            log_events::records::call_records_lost(lost - self.lost);
            self.lost = lost;
        }
    }
}

#[cfg(test)]
mod tests;
