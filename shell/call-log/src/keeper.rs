//! The thread between workers and outputs.

use crate::Error;
use crate::book::{Book, Reread, apply, whole_frames};
use crate::clock::{Clock, Sources};
use crate::counts::Counts;
use crate::http::{HttpOptions, Poster};
use crate::output::{FileOptions, FileOutput, is_among};
use crate::ring::{self, Reader, Writer};
use crate::teller::Teller;
use call_records::{Ledger, Limits, Record};
use std::collections::BTreeMap;
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
    /// Where the time comes from.
    pub clock: Sources,
    /// Called on the thread when it begins.
    pub on_thread: fn(),
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
        let (mut book, mut reread) = Book::open(&options.folder, options.limits)?;
        let unusable = |why| Error::new(&options.folder, "cannot use", why);
        let clock = Clock::open(&options.folder, &options.clock).map_err(unusable)?;
        let spool = options.http.as_ref().map(|http| http.spool(&options.folder));
        let wanted = [(FILE, options.file.as_ref()), (HTTP, spool.as_ref())];
        let outputs = outputs(wanted, &mut book, &mut reread)?;
        let (rings, writers) = rings(options, &mut book, &reread.positions)?;
        let tellers = writers.into_iter().map(|ring| Teller::new(ring, clock, Arc::clone(&counts))).collect();
        let shared = Arc::new(Shared { counts, over: AtomicBool::new(false), limits: Mutex::new(None) });
        let keeper = Keeper {
            book,
            ledger: reread.ledger,
            outputs,
            rings,
            shared: Arc::clone(&shared),
            clock,
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

    /// For those who look at it or change its limits.
    pub fn remote(&self) -> Remote {
        Remote { shared: Arc::clone(&self.shared) }
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

/// Looks at a [`CallLog`], and changes its limits, from elsewhere.
#[derive(Clone, Debug)]
pub struct Remote {
    shared: Arc<Shared>,
}

impl Remote {
    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Sets new limits.
    pub fn set_limits(&self, limits: Limits) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(limits);
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        self.end();
    }
}

/// The outputs, each with the records that it does not have yet.
fn outputs(
    wanted: [(&'static str, Option<&FileOptions>); 2],
    book: &mut Book,
    reread: &mut Reread,
) -> Result<Vec<Output>, Error> {
    let wanted: Vec<_> = wanted.into_iter().filter_map(|(name, file)| Some((name, file?))).collect();
    let names: Vec<_> = wanted.iter().map(|(name, _)| *name).collect();
    let named = book.name_outputs(&names, reread);
    named.map_err(|why| Error::new(book.folder(), "cannot use", why))?;
    let mut outputs = Vec::new();
    for (name, file) in wanted {
        let mut output = FileOutput::new(file.clone())?;
        let first = book.delivered(name).max(reread.since(name));
        let new = reread.records.get(first..).unwrap_or_default();
        let known = if new.is_empty() { Default::default() } else { output.last_ids() };
        new.iter().filter(|record| !is_among(record, &known)).for_each(|record| output.push(record));
        outputs.push(Output { name, file: output, troubled: false });
    }
    Ok(outputs)
}

/// The rings, and their writing ends for the workers. `positions`: how far the book has the events of each.
fn rings(
    options: &Options,
    book: &mut Book,
    positions: &BTreeMap<u16, u64>,
) -> Result<(Vec<Ring>, Vec<Writer>), Error> {
    let (mut rings, mut writers) = (Vec::new(), Vec::new());
    for number in ring_numbers(&options.folder, options.workers) {
        let path = options.folder.join(format!("ring.{number}"));
        let failed = |why| Error::new(&path, "cannot use", why);
        let (writer, reader, made) = ring::open(&path, options.ring_bytes).map_err(failed)?;
        // What the book has is not taken again. Of a ring that was made anew it has nothing.
        match positions.get(&number).filter(|position| **position > 0) {
            Some(position) if made || *position > reader.written() => {
                book.append(number, 0, b"").map_err(failed)?;
            }
            Some(position) => reader.release(*position),
            None => {}
        }
        // After a power cut a ring may hold bytes that are no events: some of its pages are on the disk.
        let (position, mut waiting) = (reader.position(), Vec::new());
        let end = reader.read(position, usize::MAX, &mut waiting);
        let whole = position + whole_frames(&waiting) as u64;
        let gap = (whole < end).then_some((whole, end));
        if number < options.workers {
            writers.push(writer);
        }
        let left = (number >= options.workers).then_some(path);
        rings.push(Ring { number, reader, left, gap });
    }
    Ok((rings, writers))
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
    /// From where to where there are no events.
    gap: Option<(u64, u64)>,
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
    clock: Clock,
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
        self.turn()?;
        let mut busy = false;
        for at in 0..self.rings.len() {
            busy |= self.take(at)?;
        }
        let now = self.clock.now();
        if self.ledger.is_due(now) {
            self.book.look(now)?;
            let mut done = Vec::new();
            while self.ledger.expire(now, &mut done) {}
            self.add(&done);
        }
        self.write()?;
        self.turn()?;
        Ok(busy)
    }

    /// Begins the next book if this one is full. Records that wait are in this one only, so it waits for
    /// them, but not for ever for an HTTP server.
    fn turn(&mut self) -> io::Result<()> {
        if self.book.is_at_its_end() && self.outputs.iter().all(|o| o.name == HTTP || o.file.waiting() == 0) {
            let dropped: u64 = self.outputs.iter_mut().map(|output| output.file.forget()).sum();
            self.shared.counts.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        if self.book.is_full() && self.backlog() == 0 {
            self.ledger = self.book.turn(&self.ledger)?;
        }
        Ok(())
    }

    /// Takes events from a ring into book and ledger. Whether there were any.
    fn take(&mut self, at: usize) -> io::Result<bool> {
        let Some(ring) = self.rings.get_mut(at) else { return Ok(false) };
        let (from, mut bytes) = (ring.reader.position(), Vec::new());
        let most = match ring.gap {
            Some((gap, end)) if gap == from => {
                ring.reader.release(end);
                ring.gap = None;
                self.shared.counts.lost.fetch_add(1, Ordering::Relaxed);
                return Ok(true);
            }
            Some((gap, _)) => usize::try_from(gap - from).unwrap_or(TAKEN).min(TAKEN),
            None => TAKEN,
        };
        ring.reader.read(from, most, &mut bytes);
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
        set(&counts.untracked, self.ledger.untracked());
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
