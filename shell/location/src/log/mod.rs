//! The log that makes changes of bindings durable, in front of the database.
//!
//! A row of the database is one of some twenty in a page, and a changed row costs a whole page, twice. A
//! record of the log costs its own bytes. So changes are appended here, a batch at a time, and reach the
//! `location` table much later, in the order of its rows, each binding once ([`Mover`](crate::Mover)).
//!
//! The log is files `location.N.log`. A process appends to one that it began itself; all others are *sealed*,
//! wait to be moved into the table, and are deleted. What holds at any moment, and so after any crash:
//!
//! * The bindings are the table, then the files in the order of their numbers; a later word about a binding
//!   takes the place of an earlier one. Saying a word twice changes nothing.
//! * What is appended outlives the process, and the machine once it is brought to the disk, which the writer
//!   does some times a second. Until then memory has its bytes, so that they can be written again where that
//!   fails.
//! * A file is begun when all of the one before it is on the disk, and deleted when the table has all that it
//!   says, never before a file with a lower number.
//! * There is always a file, and each begins with the number of the last subscriber whose removal is in the
//!   log.

pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod scan;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sip_registrar::Change;

use crate::clock::ClockPair;
use crate::error::{Kind, Result, StoreError};
use crate::files::{File, LogDir};
use crate::key::key_of;
use index::{Index, Place};
use record::{Entry, Frames, HEAD, HEADER, Head, Header, Put, VERSION};
use scan::{MAX_NAMES, Scan};

/// Room for a batch that is kept from one to the next.
const BUFFER: usize = 4 << 20;
/// A file that is being made.
const NEXT: &str = "location.next";
/// Where the last damaged file is kept.
pub const DAMAGED: &str = "location.log.damaged";
/// Where the last end that was cut off is kept.
pub(crate) const TORN: &str = "location.log.torn";

/// The log of a running server.
#[derive(Debug)]
pub struct Log {
    dir: LogDir,
    current: Current,
    buffer: Vec<u8>,
}

/// A file that nothing is appended to any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Full {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    /// Its length.
    pub(crate) bytes: u64,
    /// The time of the start that found it: what was over then is over, however the clock is set later.
    pub(crate) loaded: Option<ClockPair>,
    /// Of its header: no other file has it.
    pub(crate) salt: [u8; 16],
}

/// The file that is appended to.
#[derive(Debug)]
struct Current {
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Device and inode.
    identity: (u64, u64),
    header: Header,
    /// Bytes that it began with.
    begin: u64,
    /// Up to here it was written.
    length: u64,
    /// There may be bytes after that, of a batch that failed.
    dirty: bool,
    /// Up to here all has reached the disk.
    synced: u64,
    /// What was written since.
    tail: Vec<u8>,
    /// Changes in it.
    changes: usize,
    /// Bringing that to the disk failed: the system may have given up on it, so it is written again.
    suspect: bool,
    /// Its name has reached the disk.
    named: bool,
    /// Names that its records can mean by a number.
    names: Vec<Vec<u8>>,
    /// The number of each listener's name.
    listeners: Vec<Option<usize>>,
    /// The first of [`Entry::Seen`], which is what the files before it say.
    seen_before: i64,
    /// The last.
    seen: i64,
}

/// What is on its way to the disk.
#[derive(Debug)]
pub(crate) struct Syncing {
    file: Arc<dyn File>,
    /// Where its name is to be brought to the disk.
    dir: Option<LogDir>,
    number: u64,
    upto: u64,
    changes: usize,
}

impl Syncing {
    /// Takes as long as the disk likes.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.dir.as_ref().map_or(Ok(()), LogDir::sync_names)?;
        self.file.sync()
    }
}

/// All files of the log in `dir` as they were found, and where the latest about each binding stands.
pub(crate) struct Found {
    pub(crate) files: Vec<Scan>,
    pub(crate) index: Index,
}

impl Found {
    /// Reads the log, and hands each record about a binding to `visit`, the oldest first; one that makes no
    /// sense is counted with its file.
    pub(crate) fn read_to(dir: &LogDir, mut visit: impl FnMut(&Scan, &Entry<'_>)) -> Result<Found> {
        let mut found = Found { files: Vec::new(), index: Index::new([0; 16]) };
        let files = list(dir)?;
        // Names that records use are known when all of their batch is read.
        let mut places = Vec::new();
        for (at, (number, path)) in files.iter().enumerate() {
            let mut scan = Scan::open(dir, path, *number, at + 1 == files.len())?;
            let mut more = true;
            while more {
                more = scan.step(&mut |_, _, at, length| places.push((at, length)))?;
                let mut bad = 0;
                for (at, length) in places.drain(..) {
                    match Entry::decode(scan.header.base, scan.of_last(at, length)) {
                        Some(entry) => visit(&scan, &entry),
                        None => bad += 1,
                    }
                }
                scan.bad += bad;
            }
            report(&scan);
            scan.rest();
            found.files.push(scan);
        }
        Ok(found)
    }

    /// Reads the log for where the latest about each binding stands. `key` for the index must be unguessable.
    pub(crate) fn read(dir: &LogDir, key: [u8; 16]) -> Result<Found> {
        let mut found = Found { files: Vec::new(), index: Index::new(key) };
        let files = list(dir)?;
        for (at, (number, path)) in files.iter().enumerate() {
            found.files.push(Scan::open(dir, path, *number, at + 1 == files.len())?);
            while found.step()? {}
        }
        Ok(found)
    }

    /// Reads the next batch of the last file; false at its end.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let file = u32::try_from(self.files.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let (Some(scan), index) = (self.files.last_mut(), &mut self.index) else { return Ok(false) };
        let mut note = |key: &[u8], aor: &[u8], at, length| index.note(key, aor, Place { at, length, file });
        let more = scan.step(&mut note)?;
        if !more {
            report(scan);
        }
        Ok(more)
    }

    /// Makes all that was found lasting, see [`Scan::settle`].
    pub(crate) fn settle(&mut self, dir: &LogDir) -> Result<()> {
        if let Some(unborn) = self.files.pop_if(|last| last.unborn) {
            dispose(dir, &unborn.path, false)?;
        }
        self.files.iter_mut().try_for_each(|file| file.settle(dir, &dir.join(TORN)))?;
        dir.sync_names().map_err(|error| StoreError::io(dir.path(), "bring its names to the disk", &error))
    }

    /// The latest second in which something was written.
    pub(crate) fn newest(&self) -> i64 {
        self.files.iter().map(|file| file.newest).max().unwrap_or(i64::MIN)
    }

    /// Up to where removals of subscribers are in the log; `None` if it does not say. The last word counts
    /// and not the highest number: they begin again when somebody empties the table that has them.
    pub(crate) fn seen(&self) -> Option<i64> {
        self.files.iter().rev().find_map(|file| file.seen)
    }

    /// The number of the next file.
    pub(crate) fn next(&self, dir: &LogDir) -> Result<u64> {
        next_number(dir, self.files.last().map_or(0, |file| file.number))
    }

    /// What is to be moved into the table, found by a start at `loaded`.
    pub(crate) fn full(&self, loaded: ClockPair) -> Vec<Full> {
        let full = |scan: &Scan| Full {
            number: scan.number,
            path: scan.path.clone(),
            bytes: scan.length,
            loaded: Some(loaded),
            salt: scan.header.salt,
        };
        self.files.iter().map(full).collect()
    }
}

fn next_number(dir: &LogDir, number: u64) -> Result<u64> {
    number.checked_add(1).ok_or_else(|| {
        StoreError::new(
            Kind::Input,
            &dir.join(&file_name(number)),
            "has the highest number that there is",
            "move it away: no server of ours named it so",
        )
    })
}

fn file_name(number: u64) -> String {
    format!("location.{number}.log")
}

/// Says what of a file is not there.
fn report(scan: &Scan) {
    let path = scan.path.display();
    if scan.unborn {
        log_events::bindings::log_file_unborn(&path, scan.length);
    }
    if scan.torn != 0 {
        log_events::bindings::log_end_torn(&path, scan.at, scan.torn);
    }
    if let Some(damage) = scan.damage {
        log_events::bindings::log_damaged(&path, damage.at, damage.bytes);
    }
    if scan.bad != 0 {
        log_events::bindings::log_records_senseless(&path, scan.bad);
    }
}

impl Log {
    /// Begins file `number`. `seen`: up to where removals of subscribers are in the files before it, or were
    /// in force before there was one.
    pub(crate) fn begin(dir: &LogDir, number: u64, seen: i64, clock: ClockPair) -> Result<Log> {
        let mut current = Current::create(dir, number, seen, clock)?;
        let named = current.take_name(dir).and_then(|()| dir.sync_names());
        named.map_err(|error| StoreError::io(&current.path, "make the log of bindings", &error))?;
        current.named = true;
        Ok(Log { dir: dir.clone(), current, buffer: Vec::new() })
    }

    /// Appends one batch: when this returns it outlives the process. `sockets` are the names of the
    /// listeners; `seen` is the number of the last removed subscriber whose bindings' ends are in it or
    /// before it, if it is the last of the batches that are about them.
    pub(crate) fn append(
        &mut self,
        changes: &[Change],
        sockets: &[String],
        clock: ClockPair,
        seen: Option<i64>,
    ) -> Result<()> {
        let names = self.current.names.len();
        let outcome = self.current.mend().and_then(|()| {
            self.buffer.clear();
            self.current.encode(changes, sockets, clock, seen, &mut self.buffer);
            self.current.write(&self.buffer)
        });
        if self.buffer.capacity() > BUFFER {
            self.buffer = Vec::new();
        }
        match outcome {
            Ok(()) => {
                self.current.changes += changes.len();
                self.current.seen = seen.unwrap_or(self.current.seen);
                Ok(())
            }
            Err(error) => {
                self.current.names.truncate(names);
                self.current.listeners.clear();
                // What cannot be taken back now is taken back before the next batch.
                let _ = self.current.mend();
                Err(StoreError::io(&self.current.path, "write the bindings", &error))
            }
        }
    }

    /// What has to be brought to the disk, if anything has.
    pub(crate) fn begin_sync(&mut self) -> Result<Option<Syncing>> {
        let current = &mut self.current;
        let fail = |error: io::Error| StoreError::io(&current.path, "write the bindings", &error);
        if current.suspect {
            current.file.write(&current.tail, current.synced).map_err(fail)?;
            current.suspect = false;
        }
        let Current { number, length, changes, .. } = *current;
        let dir = (!current.named).then(|| self.dir.clone());
        let due = length != current.synced || dir.is_some();
        let file = Arc::clone(&current.file);
        Ok(due.then_some(Syncing { file, dir, number, upto: length, changes }))
    }

    /// What became of it. Answers how many changes are on the disk that were not before.
    pub(crate) fn end_sync(&mut self, syncing: &Syncing, outcome: io::Result<()>) -> Result<usize> {
        let current = &mut self.current;
        if current.number != syncing.number {
            return Ok(0);
        }
        if let Err(error) = outcome {
            current.suspect = true;
            return Err(StoreError::io(&current.path, "bring the bindings to the disk", &error));
        }
        let done = usize::try_from(syncing.upto - current.synced).unwrap_or(usize::MAX);
        current.tail.drain(..done.min(current.tail.len()));
        if current.tail.capacity() > BUFFER {
            current.tail.shrink_to(BUFFER);
        }
        (current.synced, current.named) = (syncing.upto, true);
        current.changes -= syncing.changes;
        Ok(syncing.changes)
    }

    /// The next file, whole and on the disk but without its name. Takes as long as the disk likes, and needs
    /// no lock: a [`Plan`] has all that matters of the log.
    pub(crate) fn plan(&self) -> Result<Plan> {
        let number = next_number(&self.dir, self.current.number)?;
        Ok(Plan { dir: self.dir.clone(), number, seen: self.current.seen })
    }

    /// Goes on in the next file; answers the one that is full, with the number of its changes that are on the
    /// disk by this. All of that is.
    pub(crate) fn rotate(&mut self, next: Next, clock: ClockPair) -> Result<(Full, usize)> {
        let current = &mut self.current;
        // What a failed batch left has to be gone for good, and what came since the last time has to be
        // there: nothing is torn but in a last file. Mostly it is nothing.
        let mended = current.mend();
        mended.map_err(|error| StoreError::io(&current.path, "bring the bindings to the disk", &error))?;
        let changes = match self.begin_sync()? {
            Some(syncing) => {
                let outcome = syncing.run();
                self.end_sync(&syncing, outcome)?
            }
            None => 0,
        };
        let seen = self.current.seen;
        let full = match self.go_on(next) {
            Ok(full) => full,
            Err(error) => {
                // They are reported with the next sync of this file.
                self.current.changes += changes;
                return Err(error);
            }
        };
        if seen != self.current.seen {
            // Where that fails it is news once more.
            let _ = self.append(&[], &[], clock, Some(seen));
        }
        Ok((full, changes))
    }

    /// Gives the next file its name, and everything to it from now on.
    fn go_on(&mut self, Next(next): Next) -> Result<Full> {
        let named = next.take_name(&self.dir);
        named.map_err(|error| StoreError::io(&next.path, "make the log of bindings", &error))?;
        let old = std::mem::replace(&mut self.current, next);
        Ok(Full {
            number: old.number,
            path: old.path,
            bytes: old.length,
            loaded: None,
            salt: old.header.salt,
        })
    }

    /// Whether the file that is appended to is gone, or another one has its name.
    pub(crate) fn is_lost(&self) -> Result<bool> {
        match self.dir.files().identity(&self.current.path) {
            Ok(identity) => Ok(identity != self.current.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(StoreError::io(&self.current.path, "look at it", &error)),
        }
    }

    /// As [`plan`](Log::plan), for one in the place of one that [is lost](Log::is_lost). Of removals of
    /// subscribers it says no more than those before do. A stranger that has the name of the lost one is kept
    /// under another one: a start would take its words for later ones than the table's.
    pub(crate) fn plan_over(&self) -> Result<Plan> {
        let current = &self.current;
        if self.dir.files().exists(&current.path) {
            dispose(&self.dir, &current.path, true)?;
        }
        Ok(Plan { seen: current.seen_before, ..self.plan()? })
    }

    /// Goes on in the next file in the place of the lost one; answers that, and how many changes were in it
    /// that were not on the disk.
    pub(crate) fn step_over(&mut self, next: Next) -> Result<(Full, usize)> {
        let changes = self.current.changes;
        Ok((self.go_on(next)?, changes))
    }

    /// The last word about removals of subscribers.
    pub(crate) fn seen(&self) -> i64 {
        self.current.seen
    }

    /// Bytes of the file that is appended to.
    pub(crate) fn length(&self) -> u64 {
        self.current.length
    }

    /// Bytes on their way to the disk, which memory keeps meanwhile.
    pub(crate) fn unsynced(&self) -> usize {
        self.current.tail.len()
    }

    /// Whether nothing was appended to it.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.length <= self.current.begin
    }

    /// The file that is appended to.
    pub(crate) fn path(&self) -> &Path {
        &self.current.path
    }

    /// What was written to a deleted file would be gone at the end.
    pub(crate) fn check_identity(&self) -> Result<()> {
        let path = &self.current.path;
        let identity = self.dir.files().identity(path);
        if identity.map_err(|error| StoreError::io(path, "look at it", &error))? == self.current.identity {
            return Ok(());
        }
        Err(StoreError::new(
            Kind::System,
            path,
            "was replaced by another file while the server runs",
            "put the old one back, or restart the server",
        ))
    }
}

/// What the next file begins with.
#[derive(Debug)]
pub(crate) struct Plan {
    dir: LogDir,
    number: u64,
    seen: i64,
}

/// A file without its name.
#[derive(Debug)]
pub(crate) struct Next(Current);

impl Plan {
    pub(crate) fn make(&self, clock: ClockPair) -> Result<Next> {
        Current::create(&self.dir, self.number, self.seen, clock).map(Next)
    }
}

impl Current {
    /// Makes a file that is there as a whole when this returns, but for its name: none of another name is
    /// read.
    fn create(dir: &LogDir, number: u64, seen: i64, clock: ClockPair) -> Result<Current> {
        let path = dir.join(&file_name(number));
        let fail = |error: io::Error| StoreError::io(&path, "make the log of bindings", &error);
        let mut salt = [0; 16];
        dir.files().random(&mut salt).map_err(fail)?;
        let header = Header { salt, base: clock.wall_seconds(), version: VERSION };
        // One that a failed attempt left has nothing in it.
        let aside = dir.join(NEXT);
        let file: Arc<dyn File> = dir.files().create(&aside, &path).map_err(fail)?.into();
        let mut current = Current {
            number,
            path: path.clone(),
            identity: file.identity().map_err(fail)?,
            file,
            header,
            begin: 0,
            length: HEADER as u64,
            dirty: false,
            synced: HEADER as u64,
            tail: Vec::new(),
            changes: 0,
            suspect: false,
            named: false,
            names: Vec::new(),
            listeners: Vec::new(),
            seen_before: seen,
            seen,
        };
        let mut bytes = Vec::new();
        current.encode(&[], &[], clock, Some(seen), &mut bytes);
        let bytes = [&header.encode()[..], &bytes].concat();
        if let Err(error) = current.file.write(&bytes, 0).and_then(|()| current.file.sync()) {
            let _ = dir.files().remove(&aside);
            return Err(fail(error));
        }
        current.length = bytes.len() as u64;
        (current.begin, current.synced) = (current.length, current.length);
        Ok(current)
    }

    fn take_name(&self, dir: &LogDir) -> io::Result<()> {
        dir.files().rename(&dir.join(NEXT), &self.path)
    }

    /// Takes back what a failed batch left.
    fn mend(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.set_length(self.length)?;
            self.dirty = false;
        }
        Ok(())
    }

    /// One batch, for the end of the file.
    fn encode(
        &mut self,
        changes: &[Change],
        sockets: &[String],
        clock: ClockPair,
        seen: Option<i64>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&[0; HEAD]);
        let mut frames = Frames::new(&self.header, out);
        for change in changes {
            match change {
                Change::Put(record) => {
                    let socket = self.name(usize::from(record.flow.listener.0), sockets, &mut frames);
                    frames.push(&Entry::Put(Put::new(record, socket, clock)));
                }
                Change::Delete { .. } => frames.push(&Entry::Delete(key_of(change))),
            }
        }
        if let Some(seen) = seen {
            frames.push(&Entry::Seen(seen));
        }
        frames.close();
        let length = (out.len() - HEAD) as u64;
        let head = self.header.head(self.length, Head { length, synced: self.synced });
        out.iter_mut().zip(head).for_each(|(to, from)| *to = from);
    }

    /// The number that means a listener's name, which is written if the file does not know it yet.
    fn name(&mut self, listener: usize, sockets: &[String], frames: &mut Frames<'_>) -> usize {
        if let Some(Some(known)) = self.listeners.get(listener) {
            return *known;
        }
        let text = sockets.get(listener).map_or(&b""[..], |name| name.as_bytes());
        let index = match self.names.iter().position(|name| name == text) {
            Some(index) => index,
            None if self.names.len() < MAX_NAMES => {
                let index = self.names.len();
                frames.push(&Entry::Name { index, text });
                self.names.push(text.to_vec());
                index
            }
            // Means no name; the reader takes a listener of the same transport.
            None => MAX_NAMES,
        };
        self.listeners.resize(self.listeners.len().max(listener + 1), None);
        if let Some(known) = self.listeners.get_mut(listener) {
            *known = Some(index);
        }
        index
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        self.dirty = true;
        self.file.write(batch, self.length)?;
        self.tail.extend_from_slice(batch);
        self.length += batch.len() as u64;
        self.dirty = false;
        Ok(())
    }
}

/// The files of the log in `dir` with their numbers, oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn list(dir: &LogDir) -> Result<Vec<(u64, PathBuf)>> {
    let fail = |error: io::Error| StoreError::io(dir.path(), "list it", &error);
    let mut files = Vec::new();
    for name in dir.files().list(dir.path()).map_err(fail)? {
        let path = dir.path().join(&name);
        let number = name.to_str().and_then(|name| name.strip_prefix("location.")?.strip_suffix(".log"));
        match number.map(str::parse::<u64>) {
            // One spelling for each number, or two files would be the same one.
            Some(Ok(number)) if name == *file_name(number) => files.push((number, path)),
            Some(_) => {
                log_events::bindings::log_file_ignored(&path.display());
            }
            None => {}
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Deletes a file whose content is in the table. One that is damaged is kept under another name, the last
/// one only. One that is not there any more is done.
pub(crate) fn dispose(dir: &LogDir, path: &Path, damaged: bool) -> Result<()> {
    let fail = |error: io::Error| StoreError::io(path, "delete it", &error);
    if !damaged {
        return dir.remove(path).map_err(fail);
    }
    let aside = dir.join(DAMAGED);
    dir.rename(path, &aside).map_err(fail)?;
    log_events::bindings::log_damaged_kept(&aside.display());
    Ok(())
}

/// Up to where removals of subscribers are in the log in `dir`; `None` if it does not say.
///
/// # Errors
/// The log cannot be read.
pub fn seen_in(dir: &LogDir) -> Result<Option<i64>> {
    Ok(Found::read(dir, [0; 16])?.seen())
}
