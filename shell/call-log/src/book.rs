//! Events on disk: what the open calls are made from after a kill.
//!
//! A folder has one file `events.N`. It begins with the events of the calls that were open when it was begun,
//! and grows by what the rings had. When it is large, `events.N+1` takes its place. A file consists of
//! blocks:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of what follows the check |
//! | 4 | CRC-32 of it |
//! | 1 | kind |
//! | 2 + 8 | ring and the position in it after the events; of a look at the clock 0 and the time |
//! | rest | of events: frames; of limits: four numbers; of outputs: their names, with a space between |
//!
//! Reading it again gives the same records in the same order. `delivered` says how many of them an output
//! has. An output gets the records since it was named first, or named again.

use crate::Error;
use call_records::{Event, Ledger, Limits, Record, frame};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EVENTS: u8 = 1;
const LOOK: u8 = 2;
const LIMITS: u8 = 3;
const OUTPUTS: u8 = 4;
/// Bytes of a block before its content.
const HEAD: usize = 4 + 4 + 1 + 2 + 8;
/// Bytes that a file has at most. What would make it longer is not written.
const MOST: u64 = 1 << 30;
/// Bytes of the file that are read at most: more than it ever gets.
const READ_MAX: u64 = MOST + (1 << 20);
/// Bytes at which the next file takes the place of this one.
const FULL: u64 = 64 << 20;
/// The same where many calls are open: their events at the beginning of a file are shorter.
const LARGE: u64 = 832 << 20;
/// Until a repeated INVITE is one of its own, where a file of an earlier version does not say.
const LATE: Duration = Duration::from_secs(40);
/// The number of a ring that there is none of: for the events of open calls at the beginning of a file.
const NO_RING: u16 = u16::MAX;

/// The file of events that is appended to.
#[derive(Debug)]
pub(crate) struct Book {
    folder: PathBuf,
    number: u64,
    file: File,
    size: u64,
    /// Records that reading this file gives.
    records: u64,
    /// Size that it had when it was begun.
    began: u64,
    /// The outputs that it names, with a space between.
    outputs: String,
}

/// What a book says.
#[derive(Debug)]
pub(crate) struct Reread {
    /// The calls that are open.
    pub ledger: Ledger,
    /// Records that the events of this file give: outputs may not have all of them.
    pub records: Vec<Record>,
    /// How far the events of each ring are in the book.
    pub positions: BTreeMap<u16, u64>,
    /// The outputs that the book named last, each with the number of records before it was named.
    outputs: BTreeMap<String, u64>,
}

impl Reread {
    fn empty(limits: Limits) -> Reread {
        let (records, positions, outputs) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Reread { ledger: Ledger::new(limits), records, positions, outputs }
    }

    /// The records that were made since this output was named.
    pub fn since(&self, output: &str) -> usize {
        let all = self.records.len();
        self.outputs.get(output).map_or(all, |before| usize::try_from(*before).unwrap_or(all).min(all))
    }

    fn name_outputs(&mut self, names: &str) {
        let before = self.records.len() as u64;
        let since = |name: &str| self.outputs.get(name).copied().unwrap_or(before);
        self.outputs = names.split_whitespace().map(|name| (name.to_owned(), since(name))).collect();
    }
}

impl Book {
    /// Reads what there is, and goes on with it.
    ///
    /// # Errors
    /// The folder or a file cannot be read or written.
    pub fn open(folder: &Path, limits: Limits) -> Result<(Book, Reread), Error> {
        let failed = |why| Error::new(folder, "cannot use", why);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut numbers = numbers(folder).map_err(failed)?;
        let Some(number) = numbers.pop() else {
            let book = Book::begin((folder, 1), limits, "", &mut |_| {}).map_err(failed)?;
            return Ok((book, Reread::empty(limits)));
        };
        for old in numbers {
            let _ = fs::remove_file(path(folder, old));
        }
        let at = path(folder, number);
        let failed = |why| Error::new(&at, "cannot read", why);
        let bytes = regular_file::read(&at, READ_MAX).map_err(failed)?;
        let (mut reread, size) = replay(&bytes, limits);
        let records = reread.records.len() as u64;
        let file = regular_file::append(&at).map_err(failed)?;
        // A block that was not written to its end.
        file.set_len(size as u64).map_err(failed)?;
        let (folder, size) = (folder.to_owned(), size as u64);
        let outputs = reread.outputs.keys().cloned().collect::<Vec<_>>().join(" ");
        let mut book = Book { folder, number, file, size, records, began: 0, outputs };
        book.set_limits(&mut reread.ledger, limits).map_err(failed)?;
        Ok((book, reread))
    }

    fn begin(
        (folder, number): (&Path, u64),
        limits: Limits,
        outputs: &str,
        fill: &mut dyn FnMut(&mut Vec<u8>),
    ) -> io::Result<Book> {
        let mut bytes = Vec::new();
        block(LIMITS, (0, 0), &limits_bytes(limits), &mut bytes);
        block(OUTPUTS, (0, 0), outputs.as_bytes(), &mut bytes);
        let mut frames = Vec::new();
        fill(&mut frames);
        block(EVENTS, (NO_RING, 0), &frames, &mut bytes);
        let (new, at) = (folder.join("events.new"), path(folder, number));
        let _ = fs::remove_file(&new);
        let mut file = regular_file::append(&new)?;
        file.write_all(&bytes)?;
        // Calls that are open are in this file only: it must be on the disk before the one before it goes.
        file.sync_data()?;
        fs::rename(&new, &at)?;
        File::open(folder)?.sync_all()?;
        let (folder, size, outputs) = (folder.to_owned(), bytes.len() as u64, outputs.to_owned());
        Ok(Book { folder, number, file, size, records: 0, began: size, outputs })
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names the outputs that get records from now on. `reread` is what the book says so far.
    ///
    /// # Errors
    /// It could not be written; the book is as before.
    pub fn name_outputs(&mut self, names: &[&str], reread: &mut Reread) -> io::Result<()> {
        let mut names = names.to_vec();
        names.sort_unstable();
        let names = names.join(" ");
        if names != self.outputs {
            self.write(OUTPUTS, (0, 0), names.as_bytes())?;
            reread.name_outputs(&names);
            self.outputs = names;
        }
        Ok(())
    }

    /// Appends events that a ring had until this position.
    ///
    /// # Errors
    /// They could not be written; the book is as before.
    pub fn append(&mut self, ring: u16, position: u64, frames: &[u8]) -> io::Result<()> {
        self.check_room(frames.len())?;
        self.write(EVENTS, (ring, position), frames)
    }

    /// Notes that the clock was looked at, which closes calls.
    ///
    /// # Errors
    /// It could not be written; the book is as before.
    pub fn look(&mut self, now: u64) -> io::Result<()> {
        self.check_room(0)?;
        self.write(LOOK, (0, now), b"")
    }

    fn check_room(&self, more: usize) -> io::Result<()> {
        match self.size + (HEAD + more) as u64 > MOST {
            true => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the list of events is full until the records can be written",
            )),
            false => Ok(()),
        }
    }

    /// Sets new limits.
    ///
    /// # Errors
    /// They could not be written; the book is as before.
    pub fn set_limits(&mut self, ledger: &mut Ledger, limits: Limits) -> io::Result<()> {
        self.write(LIMITS, (0, 0), &limits_bytes(limits))?;
        ledger.set_limits(limits);
        Ok(())
    }

    fn write(&mut self, kind: u8, numbers: (u16, u64), content: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD + content.len());
        block(kind, numbers, content, &mut bytes);
        if let Err(error) = self.file.write_all(&bytes) {
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Counts records that what was appended has given.
    pub fn count(&mut self, records: u64) {
        self.records += records;
    }

    /// Notes how many of the records so far each output does not have, by the names of the outputs.
    ///
    /// # Errors
    /// It could not be written: after a kill, records are looked for in the output.
    pub fn deliver(&self, waiting: &[(&str, u64)]) -> io::Result<()> {
        let line = |(name, waiting): &(&str, u64)| {
            format!("{} {name} {}\n", self.number, self.records.saturating_sub(*waiting))
        };
        let text: String = waiting.iter().map(line).collect();
        let (new, at) = (self.folder.join("delivered.new"), self.folder.join("delivered"));
        fs::write(&new, text)?;
        fs::rename(&new, &at)
    }

    /// How many records of this file an output has, as far as that was noted.
    pub fn delivered(&self, output: &str) -> usize {
        let text = fs::read_to_string(self.folder.join("delivered")).unwrap_or_default();
        let of = |line: &str| {
            let mut words = line.split_whitespace();
            let number: u64 = words.next()?.parse().ok()?;
            let name = words.next()?;
            (number == self.number && name == output).then(|| words.next()?.parse::<usize>().ok())?
        };
        text.lines().find_map(of).unwrap_or(0)
    }

    /// Whether the next file is due.
    pub fn is_full(&self) -> bool {
        self.size > FULL.max(2 * self.began).min(LARGE)
    }

    /// Whether it is so long that it must not wait for an output.
    pub fn is_at_its_end(&self) -> bool {
        self.size > LARGE
    }

    /// Begins the next file with the calls that are open. Returns the ledger to go on with: reading the file
    /// again makes the same one. All records of this one must have been delivered.
    ///
    /// # Errors
    /// It could not be written; this file goes on.
    pub fn turn(&mut self, ledger: &Ledger) -> io::Result<Ledger> {
        let mut fill = |frames: &mut Vec<u8>| ledger.events(&mut |event| frame::write(event, frames));
        let place = (&*self.folder, self.number + 1);
        let next = Book::begin(place, ledger.limits(), &self.outputs, &mut fill)?;
        let old = path(&self.folder, self.number);
        *self = next;
        // One that is not removed now is removed at the next start.
        let _ = fs::remove_file(old);
        Ok(ledger.retold())
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("events.{number}"))
}

/// The numbers of the files in a folder, in order.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("events."));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn block(kind: u8, (ring, number): (u16, u64), content: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&[0; 8]);
    out.push(kind);
    out.extend_from_slice(&ring.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(content);
    let body = out.get(from + 8..).unwrap_or_default();
    let (length, check) = (u32::try_from(body.len()).unwrap_or(0), crc32fast::hash(body));
    if let Some(head) = out.get_mut(from..from + 8) {
        let (first, second) = head.split_at_mut(4);
        first.copy_from_slice(&length.to_le_bytes());
        second.copy_from_slice(&check.to_le_bytes());
    }
}

fn limits_bytes(limits: Limits) -> Vec<u8> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let session = limits.session.map_or(u64::MAX, micros);
    let (late, repeated) = (micros(limits.late), micros(limits.repeated));
    let numbers = [limits.calls as u64, micros(limits.setup), session, late, repeated];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn limits_of(bytes: &[u8]) -> Option<Limits> {
    let (calls, rest) = bytes.split_first_chunk::<8>()?;
    let (setup, rest) = rest.split_first_chunk::<8>()?;
    let (session, rest) = rest.split_first_chunk::<8>()?;
    let session = u64::from_le_bytes(*session);
    // Older versions have written less.
    let mut times =
        rest.as_chunks::<8>().0.iter().map(|time| Duration::from_micros(u64::from_le_bytes(*time)));
    let late = times.next().unwrap_or(LATE);
    Some(Limits {
        calls: usize::try_from(u64::from_le_bytes(*calls)).unwrap_or(usize::MAX),
        setup: Duration::from_micros(u64::from_le_bytes(*setup)),
        session: (session != u64::MAX).then(|| Duration::from_micros(session)),
        late,
        repeated: times.next().unwrap_or(late),
    })
}

/// Reads blocks until one is not whole. Returns what they say, and how many bytes they have.
fn replay(bytes: &[u8], limits: Limits) -> (Reread, usize) {
    let (mut said, mut at) = (Reread::empty(limits), 0);
    while let Some((kind, (ring, number), content, length)) = bytes.get(at..).and_then(first_block) {
        at += length;
        match kind {
            EVENTS if ring == NO_RING => frames(content, &mut |event| said.ledger.adopt(event)),
            EVENTS => {
                apply(content, &mut said.ledger, &mut said.records);
                said.positions.insert(ring, number);
            }
            LOOK => while said.ledger.expire(number, &mut said.records) {},
            LIMITS => {
                if let Some(limits) = limits_of(content) {
                    said.ledger.set_limits(limits);
                }
            }
            OUTPUTS => said.name_outputs(&String::from_utf8_lossy(content)),
            _ => {}
        }
    }
    (said, at)
}

type Block<'a> = (u8, (u16, u64), &'a [u8], usize);

fn first_block(bytes: &[u8]) -> Option<Block<'_>> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let body = rest.get(..length)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*check) {
        return None;
    }
    let (kind, rest) = body.split_first()?;
    let (ring, rest) = rest.split_first_chunk::<2>()?;
    let (number, content) = rest.split_first_chunk::<8>()?;
    Some((*kind, (u16::from_le_bytes(*ring), u64::from_le_bytes(*number)), content, length + 8))
}

/// Applies frames. What is no frame ends it.
pub(crate) fn apply(bytes: &[u8], ledger: &mut Ledger, done: &mut Vec<Record>) {
    frames(bytes, &mut |event| ledger.apply(event, done));
}

fn frames(bytes: &[u8], each: &mut dyn FnMut(&Event<'_>)) {
    let mut rest = bytes;
    while let Some(length) = frame::length(rest) {
        // A form that this version does not know, of a newer one, is passed over.
        if let Ok((event, _)) = frame::read(rest) {
            each(&event);
        }
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// How many of these bytes are whole frames.
pub(crate) fn whole_frames(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..).and_then(frame::length) {
        at += length;
    }
    at
}
