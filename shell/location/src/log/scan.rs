//! Reads one file of the log, and tells what a crash cut short from what is damaged.
//!
//! A file is begun only after all of the one before it has reached the disk, and each batch says up to where
//! its own file had. So what a power cut leaves of the last file is whole up to the end of what some batch
//! says is on the disk, and after that any batch is whole, in part or not there. From the first one that is
//! not whole the rest is dropped, so that what is left is what was there at some moment. Any other batch that
//! is not whole was whole once: it is damaged, and everything in and after it that can be read is read. So is
//! a last one of which the disk says that it cannot read it. What a killed process leaves is whole except for
//! a batch that it was writing, of which no 200 was sent.

use std::io;
use std::path::{Path, PathBuf};

use crate::clock::ClockPair;
use crate::error::{Kind, Result, StoreError};
use crate::files::{Access, File, LogDir, read_whole};
#[cfg(test)]
use crate::log::index::Place;
use crate::log::record::{
    BATCH_MAGIC, BadHeader, Entry, FRAME, HEADER, Head, Header, MAGIC, Peek, RECORD, VERSION, first_record,
    next_frame, unframe,
};
use crate::turns;

/// Bytes read in one call.
const WINDOW: usize = 1 << 20;
/// Names of listeners in one file.
pub(crate) const MAX_NAMES: usize = 65_536;
/// A file with a bad beginning that has no more bytes than this may be one that a crash hit while it was
/// made.
const BEGUN: u64 = 128;

/// A file of the log that is being or was read.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    pub(crate) header: Header,
    /// Names of listeners that its records mean by their number.
    pub(crate) names: Vec<Vec<u8>>,
    /// The latest of [`Entry::Seen`].
    pub(crate) seen: Option<i64>,
    /// It speaks of some binding.
    pub(crate) speaks: bool,
    /// The latest second in which a binding was written down.
    pub(crate) newest: i64,
    /// Records that are whole and make no sense.
    pub(crate) bad: u64,
    pub(crate) damage: Option<Damage>,
    /// Bytes at the end that are no whole batch.
    pub(crate) torn: u64,
    /// See [`Full`](crate::log::Full).
    pub(crate) loaded: Option<ClockPair>,
    /// Up to where it was read.
    pub(crate) at: u64,
    /// Of the file when it was opened.
    pub(crate) length: u64,
    /// Nothing was written after it.
    last: bool,
    /// A crash hit it while it was made: nothing is in it, not even what each file begins with.
    pub(crate) unborn: bool,
    /// Up to here there may be bytes that the disk does not give.
    unreadable: u64,
    file: Box<dyn File>,
    window: Window,
}

/// A part of a file.
#[derive(Default, Debug)]
pub(crate) struct Window {
    /// Where it begins in the file.
    begin: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Makes sure that these bytes of `file`, which has `end` bytes, are inside; answers whether what was
    /// read for it could be read.
    fn fill(&mut self, file: &dyn File, end: u64, at: u64, length: usize) -> io::Result<bool> {
        if at >= self.begin && at + length as u64 <= self.begin + self.bytes.len() as u64 {
            return Ok(true);
        }
        let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        self.bytes.resize(length.max(WINDOW.min(left)), 0);
        self.begin = at;
        read_whole(file, &mut self.bytes, at).inspect_err(|_| self.bytes.clear())
    }

    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// Bytes that are inside.
    fn inside(&self, at: u64, length: usize) -> &[u8] {
        let from = usize::try_from(at.saturating_sub(self.begin)).unwrap_or(usize::MAX);
        self.bytes.get(from..).and_then(|bytes| bytes.get(..length)).unwrap_or_default()
    }
}

/// Batches that were whole once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    /// Where the first of them begins.
    pub(crate) at: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
}

impl Scan {
    /// Opens a file; `last`: the one with the highest number, to which a crash may have done something.
    pub(crate) fn open(dir: &LogDir, path: &Path, number: u64, last: bool) -> Result<Scan> {
        let fail = |error: io::Error| StoreError::io(path, "read the log of bindings", &error);
        let file = dir.files().open(path, Access::Read).map_err(fail)?;
        let length = file.length().map_err(fail)?;
        let (mut bytes, filled) = ([0; HEADER], HEADER.min(usize::try_from(length).unwrap_or(HEADER)));
        read_whole(&*file, bytes.get_mut(..filled).unwrap_or_default(), 0).map_err(fail)?;
        let header = match Header::decode(&bytes) {
            Ok(header) if filled == HEADER => Some(header),
            Err(why @ BadHeader::Newer(_)) => return Err(unusable(path, why)),
            Ok(_) => None,
            // Written by halves while it was made, and no more.
            Err(_) if length < HEADER as u64 || (length <= BEGUN && is_begun(&bytes)) => None,
            Err(why) => return Err(unusable(path, why)),
        };
        let nothing = Damage { at: 0, bytes: length };
        Ok(Scan {
            path: path.to_path_buf(),
            number,
            header: header.unwrap_or(Header { salt: [0; 16], base: 0, version: VERSION }),
            names: Vec::new(),
            seen: None,
            speaks: false,
            newest: i64::MIN,
            bad: 0,
            damage: (header.is_none() && !last).then_some(nothing),
            torn: 0,
            loaded: None,
            at: if header.is_none() { length } else { HEADER as u64 },
            length,
            last,
            unborn: header.is_none() && last,
            unreadable: 0,
            file,
            window: Window::default(),
        })
    }

    /// Reads the next batch, and tells `visit` for each record about a binding its key, its address of
    /// record, and offset and length of the record. False at the end.
    pub(crate) fn step(&mut self, visit: &mut impl FnMut(&[u8], &[u8], u64, u32)) -> Result<bool> {
        self.try_step(visit).map_err(|error| StoreError::io(&self.path, "read the log of bindings", &error))
    }

    fn try_step(&mut self, visit: &mut impl FnMut(&[u8], &[u8], u64, u32)) -> io::Result<bool> {
        if self.at >= self.length {
            return Ok(false);
        }
        let at = self.at;
        let head_length = self.header.head_length() as u64;
        if let Some(end) = self.batch_end(at)? {
            let (frames, whole) = self.frames(at + head_length, end)?;
            if whole {
                self.tell(&frames, visit)?;
                self.at = end;
                return Ok(true);
            }
        }
        let headless = self.head(at)?.is_none();
        let next = self.find_batch(at + 1)?;
        let promised = !self.last || self.was_synced(at, next)?;
        let end = next.unwrap_or(self.length);
        // Its place is known, whatever its own first bytes are.
        let (frames, whole) = match at + head_length {
            records if records < end => self.frames(records, end)?,
            _ => (Vec::new(), false),
        };
        // With nothing but its first bytes bad, nothing was cut off.
        if !promised && self.unreadable <= at && !(next.is_none() && headless && whole) {
            self.torn = self.length - at;
            self.length = at;
            return Ok(false);
        }
        self.damage.get_or_insert(Damage { at, bytes: 0 }).bytes += end - at;
        self.tell(&frames, visit)?;
        self.at = end;
        Ok(next.is_some())
    }

    /// Whether some batch, from the one at `next` on, says that what is at `at` was on the disk.
    fn was_synced(&mut self, at: u64, mut next: Option<u64>) -> io::Result<bool> {
        while let Some(offset) = next {
            if self.head(offset)?.is_some_and(|head| head.synced > at) {
                return Ok(true);
            }
            next = self.find_batch(offset + 1)?;
        }
        Ok(false)
    }

    /// Brings to the disk what a crash of the process alone may have left on the way, and cuts off what is
    /// torn. That is copied to `aside` before: it could be a batch that was whole once, and the disk lost a
    /// part of it.
    pub(crate) fn settle(&mut self, dir: &LogDir, aside: &Path) -> Result<()> {
        let fail =
            |error: io::Error| StoreError::io(&self.path, "bring the log of bindings to the disk", &error);
        if self.torn == 0 {
            return self.file.sync().map_err(fail);
        }
        match self.copy_torn(dir, aside) {
            Ok(()) => log_events::bindings::log_torn_kept(&aside.display()),
            Err(error) => log_events::bindings::log_torn_lost(&error, &aside.display()),
        }
        let file = dir.files().open(&self.path, Access::Cut).map_err(fail)?;
        file.set_length(self.at).and_then(|()| file.sync()).map_err(fail)
    }

    fn copy_torn(&self, dir: &LogDir, aside: &Path) -> io::Result<()> {
        let copy = dir.files().create(aside, aside)?;
        let mut done = 0;
        while done < self.torn {
            let mut bytes = vec![0; usize::try_from(self.torn - done).unwrap_or(WINDOW).min(WINDOW)];
            read_whole(&*self.file, &mut bytes, self.at + done)?;
            copy.write(&bytes, done)?;
            done += bytes.len() as u64;
        }
        copy.sync()
    }

    /// The first bytes of the batch at `at`, if one begins there.
    fn head(&mut self, at: u64) -> io::Result<Option<Head>> {
        let header = self.header;
        if self.length - at < header.head_length() as u64 {
            return Ok(None);
        }
        Ok(header.read_head(at, self.bytes(at, header.head_length())?))
    }

    /// The end of the batch at `at`, if there is one and all of it can be in the file.
    fn batch_end(&mut self, at: u64) -> io::Result<Option<u64>> {
        let head = self.head(at)?;
        let first = at.saturating_add(self.header.head_length() as u64);
        let end = head.and_then(|head| first.checked_add(head.length));
        Ok(end.filter(|end| *end <= self.length))
    }

    /// The frames from `at` to `end`, as offset and length of what is in them, and whether all of them are
    /// whole. One that is not is passed over.
    fn frames(&mut self, at: u64, end: u64) -> io::Result<(Vec<(u64, usize)>, bool)> {
        let (seed, length) = (self.header.seed(), usize::try_from(end - at).map_err(io::Error::other)?);
        let mut rest = self.bytes(at, length)?;
        let (mut found, mut whole) = (Vec::new(), true);
        while !rest.is_empty() {
            match unframe(seed, rest) {
                Some((records, after)) => {
                    let offset = end - rest.len() as u64 + FRAME as u64;
                    found.push((offset, records.len()));
                    rest = after;
                }
                None => {
                    whole = false;
                    rest = next_frame(seed, rest).unwrap_or_default();
                }
            }
        }
        Ok((found, whole))
    }

    /// Where the next batch begins, from `from` on.
    fn find_batch(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut at = from;
        while at + self.header.head_length() as u64 <= self.length {
            let length = usize::try_from(self.length - at).unwrap_or(WINDOW).min(WINDOW);
            let bytes = self.bytes(at, length)?;
            match bytes.windows(BATCH_MAGIC.len()).position(|bytes| *bytes == BATCH_MAGIC) {
                Some(found) => {
                    at += found as u64;
                    if self.head(at)?.is_some() {
                        return Ok(Some(at));
                    }
                    at += 1;
                }
                None => at += (length - BATCH_MAGIC.len() + 1) as u64,
            }
        }
        Ok(None)
    }

    fn tell(
        &mut self,
        frames: &[(u64, usize)],
        visit: &mut impl FnMut(&[u8], &[u8], u64, u32),
    ) -> io::Result<()> {
        // Records that are not about bindings: few.
        let mut others = Vec::new();
        for (at, length) in frames {
            self.fill(*at, *length)?;
            let end = at + *length as u64;
            let (mut rest, base) = (self.window.inside(*at, *length), self.header.base);
            let (mut newest, mut bad) = (self.newest, 0);
            while let Some((record, after)) = first_record(rest) {
                turns::offer_often();
                let at = end - rest.len() as u64 + RECORD as u64;
                match Entry::peek(base, record) {
                    Some(Peek::Binding { key, aor, written }) => {
                        newest = written.map_or(newest, |written| newest.max(written));
                        self.speaks = true;
                        visit(key, aor, at, record.len() as u32);
                    }
                    Some(Peek::Other) => others.push(record.to_vec()),
                    None => bad += 1,
                }
                rest = after;
            }
            bad += u64::from(!rest.is_empty());
            self.newest = newest;
            self.speaks |= bad != 0;
            self.bad += bad;
        }
        others.iter().for_each(|record| self.learn(record));
        Ok(())
    }

    /// Takes in a record that is not about a binding.
    fn learn(&mut self, record: &[u8]) {
        match Entry::decode(self.header.base, record) {
            Some(Entry::Name { index, text }) if index < MAX_NAMES => {
                self.names.resize(self.names.len().max(index + 1), Vec::new());
                if let Some(known) = self.names.get_mut(index) {
                    *known = text.to_vec();
                }
            }
            Some(Entry::Seen(id)) => self.seen = Some(id),
            _ => self.bad += 1,
        }
    }

    /// Bytes of the batch that the last [`step`](Scan::step) read.
    pub(crate) fn of_last(&self, at: u64, length: u32) -> &[u8] {
        self.window.inside(at, length as usize)
    }

    /// The record at `place`. Cheap if they are asked for in their order, with the same window. Where the
    /// disk does not give it any more it is zeros, which make no sense.
    #[cfg(test)]
    pub(crate) fn record<'w>(&self, place: Place, window: &'w mut Window) -> Result<&'w [u8]> {
        let length = place.length as usize;
        match window.fill(&*self.file, self.length, place.at, length) {
            Ok(_) => Ok(window.inside(place.at, length)),
            Err(error) => Err(StoreError::io(&self.path, "read the log of bindings", &error)),
        }
    }

    /// Bytes of the file.
    fn bytes(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        self.fill(at, length)?;
        Ok(self.window.inside(at, length))
    }

    fn fill(&mut self, at: u64, length: usize) -> io::Result<()> {
        if !self.window.fill(&*self.file, self.length, at, length)? {
            self.unreadable = self.window.end();
        }
        Ok(())
    }

    /// Appends bytes of the file to `out`, past the window; zeros as for [`record`](Scan::record).
    pub(crate) fn copy(&self, at: u64, length: u32, out: &mut Vec<u8>) -> io::Result<()> {
        let begin = out.len();
        out.resize(begin + length as usize, 0);
        read_whole(&*self.file, out.get_mut(begin..).unwrap_or_default(), at).map(|_| ())
    }

    /// The name that records of this file mean by `socket`.
    pub(crate) fn name(&self, socket: usize) -> &[u8] {
        self.names.get(socket).map_or(&[], Vec::as_slice)
    }

    /// Gives the memory back that only reading needs.
    pub(crate) fn rest(&mut self) {
        self.window = Window::default();
    }
}

/// Whether this can be the beginning of a file that was being made: ours, or not there yet.
fn is_begun(bytes: &[u8; HEADER]) -> bool {
    bytes.starts_with(&MAGIC) || bytes.iter().all(|byte| *byte == 0)
}

fn unusable(path: &Path, why: BadHeader) -> StoreError {
    let away = "move it away: phones that registered since the last orderly stop are known again when they \
                register again";
    match why {
        BadHeader::Newer(version) => StoreError::new(
            Kind::Version,
            path,
            format!("is a log of version {version}; this program knows versions up to {VERSION}"),
            "run the newer Strowger that wrote it: when it is stopped, it moves the log into the database",
        ),
        BadHeader::Foreign => StoreError::new(Kind::Corrupt, path, "is no log of bindings", away),
        BadHeader::Damaged => StoreError::new(
            Kind::Corrupt,
            path,
            format!("is damaged at offset 0: its first {HEADER} bytes are needed to read it"),
            away,
        ),
    }
}
