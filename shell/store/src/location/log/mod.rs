//! The log that makes changes of bindings durable, in front of the database.
//!
//! A row of the database is one of some twenty in a page, and a changed row costs a whole page, twice. A
//! record of the log costs its own bytes. So changes are appended here, a batch at a time, and reach the
//! `location` table much later, in the order of its rows, each binding once ([`fold`](super::fold)).
//!
//! The log is one file, `location.N.log`, or two while the older one is moved into the table: a file that is
//! full is *sealed* and the next number begins. What holds at any moment, and so after any crash:
//!
//! * The bindings are the table, then the files in the order of their numbers; a later word about a binding
//!   takes the place of an earlier one. Saying a word twice changes nothing.
//! * A file is deleted when the table has all that it says, and never before a file with a lower number.

pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod scan;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sip_registrar::Change;

use crate::clock::ClockPair;
use crate::error::{Kind, Result, StoreError};
use crate::location::row::key_of;
use index::{Index, Place};
use record::{Entry, Frames, HEAD, HEADER, Header, Put};
use scan::{MAX_NAMES, Scan};

/// Room for a batch that is kept from one to the next.
const BUFFER: usize = 4 << 20;

/// The log of a running server.
#[derive(Debug)]
pub(crate) struct Log {
    dir: PathBuf,
    current: Current,
    /// Full files, oldest first.
    sealed: Vec<(u64, PathBuf)>,
    buffer: Vec<u8>,
}

/// The file that is appended to.
#[derive(Debug)]
struct Current {
    number: u64,
    path: PathBuf,
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    header: Header,
    /// Up to here all has reached the disk.
    length: u64,
    /// There may be bytes after that, of a batch that failed.
    dirty: bool,
    /// Names that its records can mean by a number.
    names: Vec<Vec<u8>>,
    /// The number of each listener's name.
    listeners: Vec<Option<usize>>,
    /// The last of [`Entry::Seen`].
    seen: Option<i64>,
}

/// All files of the log in `dir` as they were found, and where the latest about each binding stands.
pub(crate) struct Found {
    pub(crate) files: Vec<Scan>,
    pub(crate) index: Index,
}

impl Found {
    /// Reads the log. `key` for the index must be unguessable.
    pub(crate) fn read(dir: &Path, key: [u8; 16]) -> Result<Found> {
        let mut found = Found { files: Vec::new(), index: Index::new(key) };
        for (number, path) in list(dir)? {
            match Scan::open(&path, number)? {
                Some(scan) => {
                    let file = u32::try_from(found.files.len()).unwrap_or(u32::MAX);
                    found.files.push(scan);
                    let (Some(scan), index) = (found.files.last_mut(), &mut found.index) else { continue };
                    let mut note =
                        |key: &[u8], aor: &[u8], at, length| index.note(key, aor, Place { at, length, file });
                    while scan.step(&mut note)? {}
                    report(scan);
                }
                None => remove(dir, &path)?,
            }
        }
        Ok(found)
    }

    /// Whether a part of it that was whole once cannot be read.
    pub(crate) fn damaged(&self) -> bool {
        self.files.iter().any(|file| file.damage.is_some())
    }

    /// The latest second in which something was written.
    pub(crate) fn newest(&self) -> i64 {
        self.files.iter().map(|file| file.newest).max().unwrap_or(i64::MIN)
    }

    /// Up to where removals of subscribers are in the log; `None` if there is no log.
    pub(crate) fn seen(&self) -> Option<i64> {
        let any = self.files.iter().any(|file| file.at > HEADER as u64);
        any.then(|| self.files.iter().filter_map(|file| file.seen).max().unwrap_or(i64::MIN))
    }
}

/// Says what of a file is not there.
pub(crate) fn report(scan: &Scan) {
    let path = scan.path.display();
    if scan.torn != 0 {
        tracing::warn!(
            %path, offset = scan.at, bytes = scan.torn,
            "the end of the log of bindings is no whole batch: a crash cut it short; it is dropped, and nothing \
             in it had been promised"
        );
    }
    if let Some(damage) = scan.damage {
        tracing::error!(
            %path, offset = damage.at, bytes = damage.bytes,
            "the log of bindings is damaged there; what can be read is kept, and phones whose registration \
             is lost come back when they register again; check the disk"
        );
    }
    if scan.bad != 0 {
        tracing::warn!(%path, records = scan.bad, "records of the log of bindings make no sense");
    }
}

impl Log {
    /// Goes on with what was found, or begins.
    pub(crate) fn resume(dir: &Path, mut found: Vec<Scan>, clock: ClockPair) -> Result<Log> {
        let last = found.pop_if(|last| last.damage.is_none());
        let current = match last {
            Some(last) => Current::resume(last)?,
            None => Current::create(dir, found.last().map_or(1, |last| last.number + 1), clock)?,
        };
        let sealed = found.into_iter().map(|scan| (scan.number, scan.path)).collect();
        Ok(Log { dir: dir.to_path_buf(), current, sealed, buffer: Vec::new() })
    }

    /// Appends one batch; when this returns it is on the disk. `sockets` are the names of the listeners,
    /// `seen` is the number of the last removed subscriber whose bindings' ends are in it or before it.
    pub(crate) fn append(
        &mut self,
        changes: &[Change],
        sockets: &[String],
        clock: ClockPair,
        seen: i64,
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
        outcome.map(|()| self.current.seen = Some(seen)).map_err(|error| {
            self.current.names.truncate(names);
            self.current.listeners.clear();
            // What cannot be taken back now is taken back before the next batch.
            let _ = self.current.mend();
            StoreError::io(&self.current.path, "write the bindings", &error)
        })
    }

    /// Ends the file and begins the next one.
    pub(crate) fn rotate(&mut self, clock: ClockPair) -> Result<()> {
        let fail = |path: &Path, error| StoreError::io(path, "write the bindings", &error);
        self.current.mend().map_err(|error| fail(&self.current.path, error))?;
        let next = Current::create(&self.dir, self.current.number + 1, clock)?;
        let full = std::mem::replace(&mut self.current, next);
        self.sealed.push((full.number, full.path));
        Ok(())
    }

    /// Full files, oldest first.
    pub(crate) fn sealed(&self) -> &[(u64, PathBuf)] {
        &self.sealed
    }

    /// Deletes the oldest full file, or puts it aside if it is damaged.
    pub(crate) fn dispose_oldest(&mut self, damaged: bool) -> Result<()> {
        if let Some((_, path)) = self.sealed.first() {
            dispose(&self.dir, path, damaged)?;
            self.sealed.remove(0);
        }
        Ok(())
    }

    /// Deletes the file that is appended to, if nothing is in it and none is before it. Nothing can be
    /// appended afterwards.
    pub(crate) fn finish(self) -> Result<()> {
        if self.sealed.is_empty() && self.is_empty() { remove(&self.dir, &self.current.path) } else { Ok(()) }
    }

    /// Bytes of the file that is appended to.
    pub(crate) fn length(&self) -> u64 {
        self.current.length
    }

    /// Whether nothing is in the file that is appended to.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.length <= HEADER as u64
    }

    /// The file that is appended to.
    pub(crate) fn path(&self) -> &Path {
        &self.current.path
    }

    /// What was written to a deleted file would be gone at the end.
    pub(crate) fn check_identity(&self) -> Result<()> {
        let path = &self.current.path;
        let meta = fs::metadata(path).map_err(|error| StoreError::io(path, "look at it", &error))?;
        if (meta.dev(), meta.ino()) == self.current.identity {
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

impl Current {
    /// Makes a file that is there as a whole when this returns.
    fn create(dir: &Path, number: u64, clock: ClockPair) -> Result<Current> {
        let path = dir.join(format!("location.{number}.log"));
        let fail = |error: io::Error| StoreError::io(&path, "make the log of bindings", &error);
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|error| fail(io::Error::other(error)))?;
        let header = Header { salt, base: clock.wall_seconds() };
        // One that a failed attempt left has nothing in it.
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = made.map_err(fail)?;
        let outcome = file
            .write_all_at(&header.encode(), 0)
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(dir)?.sync_all());
        if let Err(error) = outcome {
            let _ = fs::remove_file(&path);
            return Err(fail(error));
        }
        Current::new(number, path.clone(), file, header).map_err(fail)
    }

    /// Opens a file that was read, without what is torn of it.
    fn resume(scan: Scan) -> Result<Current> {
        let fail = |error: io::Error| StoreError::io(&scan.path, "open the log of bindings", &error);
        let file = OpenOptions::new().write(true).open(&scan.path).map_err(fail)?;
        if scan.torn != 0 {
            file.set_len(scan.at).and_then(|()| file.sync_all()).map_err(fail)?;
        }
        let mut current = Current::new(scan.number, scan.path.clone(), file, scan.header).map_err(fail)?;
        current.length = scan.at;
        current.names = scan.names;
        current.seen = scan.seen;
        Ok(current)
    }

    fn new(number: u64, path: PathBuf, file: File, header: Header) -> io::Result<Current> {
        let meta = file.metadata()?;
        let (identity, length) = ((meta.dev(), meta.ino()), HEADER as u64);
        let (names, listeners) = (Vec::new(), Vec::new());
        Ok(Current {
            number,
            path,
            file,
            identity,
            header,
            length,
            dirty: false,
            names,
            listeners,
            seen: None,
        })
    }

    /// Takes back what a failed batch left.
    fn mend(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.set_len(self.length)?;
            self.dirty = false;
        }
        Ok(())
    }

    fn encode(
        &mut self,
        changes: &[Change],
        sockets: &[String],
        clock: ClockPair,
        seen: i64,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&[0; HEAD]);
        let mut frames = Frames::new(self.header.base, out);
        if self.seen != Some(seen) {
            frames.push(&Entry::Seen(seen));
        }
        for change in changes {
            match change {
                Change::Put(record) => {
                    let socket = self.name(usize::from(record.flow.listener.0), sockets, &mut frames);
                    frames.push(&Entry::Put(Put::new(record, socket, clock)));
                }
                Change::Delete { .. } => frames.push(&Entry::Delete(key_of(change))),
            }
        }
        frames.close();
        let length = (out.len() - HEAD) as u64;
        let head = self.header.head(self.length, length);
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
        self.file.write_all_at(batch, self.length)?;
        // The length of the file is brought to the disk with the data.
        self.file.sync_data()?;
        self.length += batch.len() as u64;
        self.dirty = false;
        Ok(())
    }
}

#[cfg(test)]
impl Log {
    /// Writes to `path` from now on, and answers what to give to [`repair`](Log::repair).
    pub(crate) fn divert(&mut self, path: &Path) -> File {
        let other = OpenOptions::new().write(true).open(path).unwrap();
        std::mem::replace(&mut self.current.file, other)
    }

    pub(crate) fn repair(&mut self, file: File) {
        self.current.file = file;
    }
}

/// The files of the log in `dir`, oldest first.
pub(crate) fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let fail = |error: io::Error| StoreError::io(dir, "list it", &error);
    let mut files = Vec::new();
    for file in fs::read_dir(dir).map_err(fail)? {
        let file = file.map_err(fail)?;
        let name = file.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("location.")?.strip_suffix(".log"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            files.push((number, file.path()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Deletes a file whose content is in the table. One that is damaged is kept under another name, the last
/// one only.
pub(crate) fn dispose(dir: &Path, path: &Path, damaged: bool) -> Result<()> {
    if !damaged {
        return remove(dir, path);
    }
    let aside = dir.join("location.log.damaged");
    tracing::warn!(path = %aside.display(), "the damaged log of bindings is kept there; delete it when it is of no use");
    let fail = |error: io::Error| StoreError::io(path, "move it aside", &error);
    fs::rename(path, &aside).and_then(|()| File::open(dir)?.sync_all()).map_err(fail)
}

fn remove(dir: &Path, path: &Path) -> Result<()> {
    let fail = |error: io::Error| StoreError::io(path, "delete it", &error);
    fs::remove_file(path).and_then(|()| File::open(dir)?.sync_all()).map_err(fail)
}
