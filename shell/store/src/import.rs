//! Subscribers from a CSV file: our own export, `username,domain,password`, `username,domain,ha1`,
//! or a dump of the `subscriber` table of Kamailio or OpenSIPS with all its columns.
//!
//! The file is read twice. The first pass only checks, and finds every bad line; nothing is written
//! if there is one, unless the caller wants the good lines anyway. The second pass writes in small
//! transactions, so that a server on the same file never waits long for its turn. A crash in between
//! leaves some users imported; the same import again completes it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use csv::{ByteRecord, ReaderBuilder};
use hashbrown::HashTable;
use sip_auth::{Algorithm, Credentials, Ha1, NameForm};

use crate::error::{Kind, Result, StoreError};
use crate::names::{NameHasher, NameKey};
use crate::subscribers::{Subscribers, upsert};
use crate::user::{HASH_COLUMNS, UserName, check_password, hash_password};

/// Lines written in one transaction: some tens of milliseconds of holding the lock.
const BATCH: usize = 2_000;
/// How long the lock is left to others between two batches. Waiting connections ask every
/// millisecond.
const PAUSE: Duration = Duration::from_millis(3);
/// Lines between two reports of progress.
const PROGRESS_LINES: u64 = 4_096;
/// Bytes of one record. A quote that is never closed would otherwise take the whole file as one field.
const MAX_RECORD: u64 = 64 * 1_024;
/// Bad lines listed one by one; more are only counted.
const MAX_LISTED: usize = 1_000;
/// Domains noted.
const MAX_DOMAINS: usize = 10_000;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The domain of lines that name none, as in tables of single-domain servers.
    pub default_domain: Option<String>,
    /// Import the good lines even if there are bad ones.
    pub skip_bad_lines: bool,
}

/// A line that cannot be imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// Line number in the file, from 1, as an editor shows it.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

/// What an import did.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// Lines read, without the header.
    pub lines: u64,
    /// Subscribers written, new and replaced. 0 if there were bad lines and they were not to be skipped.
    pub written: u64,
    /// Number of bad lines.
    pub bad: u64,
    /// The first thousand of them.
    pub bad_lines: Vec<BadLine>,
    /// Lines whose `ha1` was not that of their `password` and domain, perhaps because the realm was
    /// another one. The password counted.
    pub disagreeing: u64,
    /// The domains of the subscribers written, the first ten thousand.
    pub domains: BTreeSet<String>,
}

impl ImportReport {
    fn note(&mut self, domain: &str) {
        if self.domains.len() < MAX_DOMAINS && !self.domains.contains(domain) {
            self.domains.insert(domain.to_owned());
        }
    }
}

/// Where an import stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// False in the first pass, true in the second.
    pub writing: bool,
    /// Bytes of the file behind us in this pass.
    pub bytes: u64,
    /// Bytes in the file.
    pub total: u64,
    /// Lines behind us in this pass.
    pub lines: u64,
}

impl Subscribers {
    /// Imports `file`, which must be a regular file because it is read twice.
    pub fn import(
        &mut self,
        file: &Path,
        options: &ImportOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        let open = File::open(file).map_err(|error| StoreError::io(file, "open it", &error))?;
        let regular = open.metadata().is_ok_and(|meta| meta.is_file());
        if !regular {
            let mend = "write it to a file first; it is read twice";
            return Err(StoreError::new(Kind::Input, file, "is not a regular file", mend));
        }
        self.import_from(open, file, options, progress)
    }

    /// Imports from anything that can be read twice; errors call it `name`.
    pub fn import_from(
        &mut self,
        input: impl Read + Seek,
        name: &Path,
        options: &ImportOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        Import::check(input, name, options, progress)?.write(self, progress)
    }
}

/// A file whose lines have been checked, before there need be anything to import them into.
pub struct Import<'a, R> {
    source: Source<'a, R>,
    report: ImportReport,
}

impl<'a, R: Read + Seek> Import<'a, R> {
    /// Reads it once; errors call it `name`.
    pub fn check(
        mut input: R,
        name: &'a Path,
        options: &'a ImportOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Import<'a, R>> {
        let fail = |error| StoreError::io(name, "read it", &error);
        let total = input.seek(io::SeekFrom::End(0)).map_err(fail)?;
        let mut import =
            Import { source: Source { input, name, total, options }, report: ImportReport::default() };
        import.source.check(&mut import.report, progress)?;
        Ok(import)
    }

    /// What was found, if lines are bad and not to be skipped: nothing of it would be written.
    pub fn refused(&self) -> Option<&ImportReport> {
        (self.report.bad > 0 && !self.source.options.skip_bad_lines).then_some(&self.report)
    }

    /// Reads it again and writes it, if it is not refused.
    pub fn write(
        mut self,
        subscribers: &mut Subscribers,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        if self.refused().is_none() {
            self.source.write(subscribers, &mut self.report, progress)?;
        }
        Ok(self.report)
    }
}

/// The file to import, and what errors about it need.
struct Source<'a, R> {
    input: R,
    name: &'a Path,
    total: u64,
    options: &'a ImportOptions,
}

impl<R: Read + Seek> Source<'_, R> {
    /// First pass: finds all bad lines.
    fn check(&mut self, report: &mut ImportReport, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let hasher = NameHasher::random().unwrap_or_else(|| NameHasher::new([0; 16]));
        let mut seen: HashTable<NameKey> = HashTable::new();
        self.each(false, progress, |line, entry| {
            report.lines += 1;
            let outcome = entry.and_then(|entry| {
                let key = hasher.key(entry.name.user().as_bytes(), entry.name.domain().as_bytes());
                if seen.find(key.0, |other| *other == key).is_some() {
                    return Err("names a user that stands on an earlier line too".to_owned());
                }
                seen.insert_unique(key.0, key, |other| other.0);
                Ok(())
            });
            if let Err(problem) = outcome {
                report.bad += 1;
                if report.bad_lines.len() < MAX_LISTED {
                    report.bad_lines.push(BadLine { line, problem });
                }
            }
            Ok(())
        })
    }

    /// Second pass: hashes and writes.
    fn write(
        &mut self,
        subscribers: &mut Subscribers,
        report: &mut ImportReport,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let (name, skip) = (self.name.to_path_buf(), self.options.skip_bad_lines);
        let mut batch = Vec::with_capacity(BATCH);
        self.each(true, progress, |_, entry| {
            match entry {
                Ok(entry) => batch.push(entry),
                Err(_) if skip => return Ok(()),
                Err(problem) => {
                    let mend = "import a file that nothing writes to";
                    return Err(StoreError::new(
                        Kind::Input,
                        &name,
                        format!("changed while it was imported: {problem}"),
                        mend,
                    ));
                }
            }
            if batch.len() < BATCH {
                return Ok(());
            }
            let written = write_batch(subscribers, &mut batch, report);
            pause();
            written
        })?;
        write_batch(subscribers, &mut batch, report)
    }

    /// Calls `f` with the line number and the content of every record after the header.
    fn each(
        &mut self,
        writing: bool,
        progress: &mut dyn FnMut(Progress),
        mut f: impl FnMut(u64, std::result::Result<Entry, String>) -> Result<()>,
    ) -> Result<()> {
        let name = self.name;
        let fail = |error: csv::Error| StoreError::io(name, "read it", &io::Error::other(error.to_string()));
        let delimiter = self.delimiter().map_err(|error| StoreError::io(name, "read it", &error))?;
        let left = Rc::new(Cell::new(MAX_RECORD));
        let bounded = Bounded { inner: BufReader::new(&mut self.input), left: Rc::clone(&left) };
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .quoting(delimiter != b'\t')
            .from_reader(bounded);
        let mut record = ByteRecord::new();
        if !reader.read_byte_record(&mut record).map_err(fail)? {
            return Err(StoreError::new(Kind::Input, name, "is empty", HEADER_MEND));
        }
        let columns = Columns::read(&record, delimiter == b'\t')
            .map_err(|problem| StoreError::new(Kind::Input, name, problem, HEADER_MEND))?;
        let mut lines = 0;
        loop {
            // The reader fetches blocks, so what is left is restored to a block more than a record.
            left.set(MAX_RECORD);
            if !reader.read_byte_record(&mut record).map_err(fail)? {
                break;
            }
            let position = record.position().map_or((0, 0), |p| (p.line(), p.byte()));
            f(position.0, columns.entry(&record, self.options))?;
            lines += 1;
            if lines % PROGRESS_LINES == 0 {
                progress(Progress { writing, bytes: position.1, total: self.total, lines });
            }
        }
        progress(Progress { writing, bytes: self.total, total: self.total, lines });
        Ok(())
    }

    /// What separates the fields: the most frequent of comma, semicolon and tab in the first line.
    /// Leaves the input at its start.
    fn delimiter(&mut self) -> io::Result<u8> {
        self.input.rewind()?;
        let mut start = Vec::new();
        self.input.by_ref().take(4_096).read_to_end(&mut start)?;
        self.input.rewind()?;
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |wanted: &u8| line.iter().filter(|byte| *byte == wanted).count();
        // The last of equals wins, so the comma stands last.
        Ok([b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b','))
    }
}

const HEADER_MEND: &str =
    "the first line must name the columns: `username,domain,password` or `username,domain,ha1`";

/// Fails once more than the allowed bytes were read without a record coming to its end.
struct Bounded<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other("a record is longer than 64 KiB; is a quote not closed?"));
        }
        let count = self.inner.read(buffer)?;
        self.left.set(left.saturating_sub(count as u64));
        Ok(count)
    }
}

/// Which column holds what.
struct Columns {
    username: usize,
    domain: Option<usize>,
    password: Option<usize>,
    hashes: [Option<usize>; HASH_COLUMNS.len()],
    /// Columns in the header; shorter records are bad.
    count: usize,
    /// Fields are separated by tabs, not quoted, and have backslash escapes: what `mysql --batch` and
    /// PostgreSQL's COPY write.
    escaped: bool,
}

/// A line found good.
struct Entry {
    name: UserName,
    password: Option<String>,
    hashes: Credentials,
}

impl Columns {
    fn read(header: &ByteRecord, escaped: bool) -> std::result::Result<Columns, String> {
        let names: Vec<String> = header.iter().map(column_name).collect();
        let find = |wanted: &str| -> std::result::Result<Option<usize>, String> {
            let mut places =
                names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(place, _)| place);
            let place = places.next();
            if places.next().is_some() { Err(format!("has two columns `{wanted}`")) } else { Ok(place) }
        };
        let mut hashes = [None; HASH_COLUMNS.len()];
        for (place, (column, ..)) in hashes.iter_mut().zip(HASH_COLUMNS) {
            *place = find(column)?;
        }
        let columns = Columns {
            username: find("username")?.ok_or("has no column `username` in its first line")?,
            domain: find("domain")?,
            password: find("password")?,
            hashes,
            count: names.len(),
            escaped,
        };
        if columns.password.is_none() && columns.hashes.iter().all(Option::is_none) {
            return Err("has neither a column `password` nor a column `ha1`".to_owned());
        }
        Ok(columns)
    }

    fn entry(&self, record: &ByteRecord, options: &ImportOptions) -> std::result::Result<Entry, String> {
        if record.len() != self.count {
            return Err(format!("has {} fields where the first line has {}", record.len(), self.count));
        }
        let text = |place: Option<usize>| -> std::result::Result<&str, String> {
            let bytes = place.and_then(|place| record.get(place)).unwrap_or_default();
            std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
        };
        let mut domain = nothing(text(self.domain)?);
        if domain.is_empty() {
            domain = options.default_domain.as_deref().unwrap_or_default();
        }
        let name = UserName::new(text(Some(self.username))?, domain)?;
        let hashes = self.hashes(record)?;
        let mut password = text(self.password)?;
        if password == "\\N" || (password == "NULL" && !hashes.is_empty()) {
            password = "";
        }
        if password.is_empty() {
            if hashes.is_empty() {
                return Err("has no password and no hash".to_owned());
            }
            if name.domain() != domain {
                return Err("has a hash and a domain not in lower case: the hash covers the domain as \
                            written, so give the password instead"
                    .to_owned());
            }
            return Ok(Entry { name, password: None, hashes });
        }
        let password = if self.escaped { unescape(password) } else { password.to_owned() };
        check_password(&password)?;
        Ok(Entry { name, password: Some(password), hashes })
    }

    fn hashes(&self, record: &ByteRecord) -> std::result::Result<Credentials, String> {
        let mut hashes = Credentials::new();
        for (place, (column, form, algorithm)) in self.hashes.iter().zip(HASH_COLUMNS) {
            let field = place.and_then(|place| record.get(place)).unwrap_or_default();
            if field.is_empty() || field == b"NULL" || field == b"\\N" {
                continue;
            }
            let digits = if algorithm == Algorithm::Md5 { 32 } else { 64 };
            let ha1 = Ha1::from_hex(algorithm, field)
                .ok_or_else(|| format!("has a {column} that is not {digits} hexadecimal digits"))?;
            hashes.set(form, ha1);
        }
        Ok(hashes)
    }
}

/// A header field as compared: lower case, no spaces around it, no byte order mark.
fn column_name(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    text.trim_start_matches('\u{feff}').trim().trim_matches('"').to_ascii_lowercase()
}

/// Resolves the escapes of a tab-separated dump. An escaped tab or line end becomes one, and is
/// refused as a control character later.
fn unescape(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('0') => '\0',
                Some(other) => other,
                None => '\\',
            },
            plain => plain,
        });
    }
    out
}

/// An exported NULL is an empty field.
fn nothing(field: &str) -> &str {
    if field == "NULL" || field == "\\N" { "" } else { field }
}

/// Writes and empties `batch` in one transaction.
fn write_batch(
    subscribers: &mut Subscribers,
    batch: &mut Vec<Entry>,
    report: &mut ImportReport,
) -> Result<()> {
    let path = subscribers.database.path.clone();
    let fail = |error| {
        let mut error = StoreError::sql(&path, "write the subscribers", &error);
        error.problem.push_str(&format!(" ({} were written before)", report.written));
        error
    };
    let mut disagreeing = 0;
    let behavior = rusqlite::TransactionBehavior::Immediate;
    // Hashed before the lock is taken.
    let mut hashed = Vec::with_capacity(batch.len());
    for entry in batch.drain(..) {
        let credentials = match &entry.password {
            None => entry.hashes,
            Some(password) => {
                let made = hash_password(&entry.name, password)
                    .map_err(|problem| StoreError::new(Kind::Input, &path, problem, "correct the line"))?;
                let given = entry.hashes.get(NameForm::Bare, Algorithm::Md5);
                disagreeing +=
                    u64::from(given.is_some_and(|ha1| made.get(NameForm::Bare, Algorithm::Md5) != Some(ha1)));
                made
            }
        };
        hashed.push((entry.name, credentials));
    }
    let transaction = subscribers.database.connection.transaction_with_behavior(behavior).map_err(fail)?;
    for (name, credentials) in &hashed {
        upsert(&transaction, name, credentials).map_err(fail)?;
    }
    transaction.commit().map_err(fail)?;
    report.written += hashed.len() as u64;
    hashed.iter().for_each(|(name, _)| report.note(name.domain()));
    report.disagreeing += disagreeing;
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "leaves the lock to a server's connection; only commands import"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests;
