//! Files of records: one for the operator, and those that wait to be sent.

use crate::Error;
use crate::line::{Format, Id};
use call_records::Record;
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes at the end of a file in which records are looked for that a killed process may have written: more
/// than one batch has.
const TAIL: u64 = 8 << 20;
/// Bytes written in one go.
const BATCH: usize = 1 << 20;

/// Where records are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// The file. It is made, and appended to.
    pub path: PathBuf,
    /// How records are written.
    pub format: Format,
    /// Bytes after which a new file is begun. 0: never.
    pub rotate_at: u64,
    /// What becomes of the old one.
    pub rotation: Rotation,
}

/// What becomes of a file that is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rotation {
    /// It is renamed to `FILE.1`, the one of that name to `FILE.2`, and so on. The number says how many are
    /// kept.
    Renamed(u32),
    /// Files are `FILE.1`, `FILE.2` and so on from the beginning, and have this number of bytes together at
    /// most. Another thread deletes them.
    Numbered(u64),
}

/// A file that records are appended to, and those that wait for it.
#[derive(Debug)]
pub(crate) struct FileOutput {
    options: FileOptions,
    open: Option<Open>,
    /// Of the file that is appended to, where files are numbered.
    number: u64,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: u64,
    inode: (u64, u64),
}

impl FileOutput {
    /// Opens the file. A line that a killed process did not finish is taken off.
    ///
    /// # Errors
    /// It cannot be opened or written.
    pub fn new(options: FileOptions) -> Result<FileOutput, Error> {
        let mut output = FileOutput { options, open: None, number: 1, waiting: VecDeque::new(), bytes: 0 };
        if let Rotation::Numbered(_) = output.options.rotation {
            output.number = numbers(&output.options.path).last().copied().unwrap_or(1);
        }
        let opened = output.reopen();
        opened.map_err(|why| Error::new(&output.options.path, "cannot write", why))?;
        Ok(output)
    }

    /// Where records are written.
    pub fn options(&self) -> &FileOptions {
        &self.options
    }

    /// The last records that are in the file, and in the one before it.
    pub fn last_ids(&self) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        let path = &self.options.path;
        let last = match self.options.rotation {
            Rotation::Renamed(_) => [path.clone(), numbered(path, 1)],
            Rotation::Numbered(_) => [0, 1].map(|back| numbered(path, self.number.saturating_sub(back))),
        };
        for path in last {
            let text = tail(&path).unwrap_or_default();
            ids.extend(text.split(|byte| *byte == b'\n').filter_map(id_of));
        }
        ids
    }

    /// Adds a record. It is written by the next [`FileOutput::flush`].
    pub fn push(&mut self, record: &Record) {
        let mut line = Vec::new();
        self.options.format.write(record, &mut line);
        self.bytes += line.len();
        self.waiting.push_back(line);
    }

    /// How many records wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Forgets the records that wait. Returns how many these were.
    pub fn forget(&mut self) -> u64 {
        let count = self.waiting();
        self.waiting.clear();
        self.bytes = 0;
        count
    }

    /// Bytes of records that wait.
    pub fn backlog(&self) -> usize {
        self.bytes
    }

    /// Writes a batch of what waits. Returns how many records were written.
    ///
    /// # Errors
    /// Not all could be written. What was not waits further.
    pub fn flush(&mut self) -> io::Result<u64> {
        if self.waiting.is_empty() {
            return Ok(0);
        }
        self.follow()?;
        let (mut batch, mut lines) = (Vec::new(), 0);
        for line in &self.waiting {
            if lines > 0 && batch.len() + line.len() > BATCH {
                break;
            }
            batch.extend_from_slice(line);
            lines += 1;
        }
        self.check_room(batch.len() as u64)?;
        self.write(&batch)?;
        self.bytes = self.bytes.saturating_sub(batch.len());
        self.waiting.drain(..lines);
        self.rotate()?;
        Ok(lines as u64)
    }

    /// Where is appended now.
    fn path(&self) -> PathBuf {
        match self.options.rotation {
            Rotation::Renamed(_) => self.options.path.clone(),
            Rotation::Numbered(_) => numbered(&self.options.path, self.number),
        }
    }

    /// Whether numbered files may get `more` bytes.
    fn check_room(&self, more: u64) -> io::Result<()> {
        let Rotation::Numbered(most) = self.options.rotation else { return Ok(()) };
        let sizes =
            numbers(&self.options.path).into_iter().map(|number| numbered(&self.options.path, number));
        let used: u64 = sizes.filter_map(|path| fs::metadata(path).ok()).map(|data| data.len()).sum();
        match used.saturating_add(more) > most {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "no more records may wait to be sent")),
            false => Ok(()),
        }
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        if self.open.is_none() {
            self.reopen()?;
        }
        let Some(open) = self.open.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        if let Err(error) = open.file.write_all(batch) {
            // No half of a record stays.
            let _ = open.file.set_len(open.size);
            return Err(error);
        }
        open.size += batch.len() as u64;
        Ok(())
    }

    /// Opens the file anew if another program has moved it away.
    fn follow(&mut self) -> io::Result<()> {
        let there = fs::metadata(self.path()).ok().map(|data| (data.dev(), data.ino()));
        match &self.open {
            Some(open) if there == Some(open.inode) => Ok(()),
            _ => self.reopen(),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.open = None;
        let path = self.path();
        let mut file = regular_file::append(&path)?;
        let mut size = whole_lines(&path, file.metadata()?.len())?;
        file.set_len(size)?;
        if size == 0 {
            let head = self.options.format.head();
            file.write_all(&head)?;
            size = head.len() as u64;
        }
        let data = file.metadata()?;
        self.open = Some(Open { file, size, inode: (data.dev(), data.ino()) });
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let size = self.open.as_ref().map_or(0, |open| open.size);
        let limit = self.options.rotate_at;
        if limit == 0 || size < limit {
            return Ok(());
        }
        let path = &self.options.path;
        let keep = match self.options.rotation {
            Rotation::Renamed(keep) => u64::from(keep),
            Rotation::Numbered(_) => {
                self.number += 1;
                return self.reopen();
            }
        };
        for number in (1..=keep).rev() {
            let from = if number == 1 { path.clone() } else { numbered(path, number - 1) };
            match fs::rename(&from, numbered(path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if keep == 0 {
            fs::remove_file(path)?;
        }
        self.reopen()
    }
}

/// `FILE.1`
pub(crate) fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// The numbers of the files `FILE.N`, in order.
pub(crate) fn numbers(path: &Path) -> Vec<u64> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let other = entry.file_name();
        let rest =
            other.to_str().and_then(|other| other.strip_prefix(name)).and_then(|rest| rest.strip_prefix('.'));
        numbers.extend(rest.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    numbers
}

/// The end of a file.
fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = regular_file::open(path)?;
    let from = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.take(TAIL).read_to_end(&mut text)?;
    Ok(text)
}

/// How many bytes of a file are whole lines.
fn whole_lines(path: &Path, size: u64) -> io::Result<u64> {
    let end = tail(path)?;
    let after = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(size - (end.len() - after) as u64)
}

/// The id at the beginning of a line.
pub(crate) fn id_of(line: &[u8]) -> Option<String> {
    let rest = line.strip_prefix(b"{\"id\":\"").unwrap_or(line);
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b','))?;
    let id = std::str::from_utf8(rest.get(..end)?).ok()?;
    Some(id.to_owned()).filter(|id| id.len() > 32)
}

/// Whether a record is among those with these ids.
pub(crate) fn is_among(record: &Record, ids: &BTreeSet<String>) -> bool {
    ids.contains(&Id::of(record).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::record;

    fn options(folder: &Path, format: Format) -> FileOptions {
        FileOptions { path: folder.join("calls"), format, rotate_at: 0, rotation: Rotation::Renamed(2) }
    }

    #[test]
    fn records_are_appended_and_found_again() {
        for format in [Format::Json, Format::Csv] {
            let folder = tempfile::tempdir().expect("a folder");
            let options = options(folder.path(), format);
            let mut output = FileOutput::new(options.clone()).expect("it opens");
            (1..=3).for_each(|number| output.push(&record(number)));
            assert!(output.backlog() > 0);
            assert_eq!(output.flush().expect("it is written"), 3);
            assert_eq!(output.backlog(), 0);
            // A killed process has left half a line.
            let mut text = fs::read(&options.path).expect("the file");
            let whole = text.len();
            text.extend_from_slice(b"{\"id\":\"abc");
            fs::write(&options.path, &text).expect("it is written");
            let mut output = FileOutput::new(options.clone()).expect("it opens");
            assert_eq!(fs::metadata(&options.path).expect("the file").len(), whole as u64);
            let ids = output.last_ids();
            assert_eq!(ids.len(), 3);
            assert!(is_among(&record(2), &ids) && !is_among(&record(4), &ids));
            output.push(&record(4));
            output.flush().expect("it is written");
            let lines = fs::read_to_string(&options.path).expect("the file").lines().count();
            assert_eq!(lines, if format == Format::Csv { 5 } else { 4 });
        }
    }

    #[test]
    fn file_is_renamed_at_its_size_and_old_ones_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = FileOptions { rotate_at: 1, ..options(folder.path(), Format::Json) };
        let mut output = FileOutput::new(options.clone()).expect("it opens");
        for number in 1..=4 {
            output.push(&record(number));
            output.flush().expect("it is written");
        }
        assert!(is_among(&record(4), &output.last_ids()), "the file before counts too");
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .expect("the folder")
            .map(|entry| entry.expect("a file").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["calls", "calls.1", "calls.2"]);
    }

    #[test]
    fn numbered_files_have_a_limit_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = FileOptions {
            rotate_at: 1,
            rotation: Rotation::Numbered(2_000),
            ..options(folder.path(), Format::Json)
        };
        let mut output = FileOutput::new(options.clone()).expect("it opens");
        for number in 1..=2 {
            output.push(&record(number));
            output.flush().expect("it is written");
        }
        assert_eq!(numbers(&options.path), [1, 2, 3]);
        output.push(&record(3));
        output.push(&record(4));
        assert!(output.flush().is_err(), "there is no room");
        assert_eq!(output.waiting(), 2);
        // The next process goes on where this one was.
        drop(output);
        let mut output = FileOutput::new(options.clone()).expect("it opens");
        assert!(is_among(&record(2), &output.last_ids()));
        fs::remove_file(numbered(&options.path, 1)).expect("it goes");
        output.push(&record(3));
        output.flush().expect("there is room now");
        assert_eq!(numbers(&options.path), [2, 3, 4]);
    }

    #[test]
    fn file_that_was_moved_away_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(folder.path(), Format::Json);
        let mut output = FileOutput::new(options.clone()).expect("it opens");
        fs::rename(&options.path, folder.path().join("old")).expect("it moves");
        output.push(&record(1));
        output.flush().expect("it is written");
        assert_eq!(fs::read_to_string(&options.path).expect("the file").lines().count(), 1);
    }

    #[test]
    fn records_wait_for_a_disk_that_is_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(folder.path(), Format::Json);
        let mut output = FileOutput::new(options.clone()).expect("it opens");
        fs::remove_file(&options.path).expect("it goes");
        fs::create_dir(&options.path).expect("a folder in its place");
        output.push(&record(1));
        assert!(output.flush().is_err());
        assert!(output.backlog() > 0);
        fs::remove_dir(&options.path).expect("it goes");
        assert_eq!(output.flush().expect("it is written"), 1);
    }
}
