//! Subscribers from a CSV file: our own export, `username,domain,password`, `username,domain,ha1`,
//! or a dump of the `subscriber` table of Kamailio or OpenSIPS with all its columns.
//!
//! The file is read several times. The first passes find out how it is written ([`dialect`]) and check it;
//! they find every bad line, and nothing is written if there is one, unless the caller wants the good lines
//! anyway. The last pass writes in small transactions, so that a server on the same file never waits long for
//! its turn. A crash in between leaves some users imported; the same import again completes it.

mod dialect;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use call_forwarding::Rules;
use csv::ByteRecord;
use hashbrown::HashTable;
use location::{Kind, Result, StoreError};
use sip_auth::{Algorithm, Credentials, Ha1, NameForm, ha1};

use crate::import::dialect::{Dialect, Escapes, signs};
use crate::names::{NameHasher, NameKey};
use crate::rules::{RULE_COLUMNS, read_rules};
use crate::subscribers::Subscribers;
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
/// Names noted of those whose password and hash disagree.
const MAX_DISAGREED: usize = 100;
/// Domains noted.
const MAX_DOMAINS: usize = 10_000;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The domain of lines that name none, as in tables of single-domain servers.
    pub default_domain: Option<String>,
    /// Import the good lines even if there are bad ones.
    pub skip_bad_lines: bool,
    /// What counts where the hash of a line is not that of its password; without it such a line is bad.
    pub prefer: Option<Prefer>,
}

/// Which of a password and a hash that contradict each other counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// The hash: the password was mangled on its way, or is an old one.
    Ha1,
    /// The password: the hash is for another realm, or an old one.
    Password,
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
    /// Lines whose `ha1` was not that of their `password` and domain, where the options say which counts.
    pub disagreeing: u64,
    /// The names of the first hundred of them.
    pub disagreed: Vec<String>,
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
        let open = regular_file::open(file).map_err(|error| StoreError::io(file, "open it", &error))?;
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
        let total = input.seek(SeekFrom::End(0)).map_err(fail)?;
        let dialect = dialect_of(&mut input, name, options)?;
        let source = Source { input, name, total, dialect, options };
        let mut import = Import { source, report: ImportReport::default() };
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
    dialect: Dialect,
    options: &'a ImportOptions,
}

/// How the file is written.
fn dialect_of(input: &mut (impl Read + Seek), name: &Path, options: &ImportOptions) -> Result<Dialect> {
    let fail = |error| StoreError::io(name, "read it", &error);
    let plain = Dialect::of_start(input)
        .map_err(fail)?
        .map_err(|problem| StoreError::new(Kind::Input, name, problem, HEADER_MEND))?;
    if !plain.is_quoted() {
        return Ok(plain);
    }
    let signs = signs(input, plain).map_err(fail)?;
    if !signs.backslashes {
        return Ok(plain);
    }
    let escaped = plain.escaped(signs.quotes);
    let fitting = |dialect, input: &mut _| fitting(input, name, dialect, options).unwrap_or(0);
    let (as_it_is, unescaped) = (fitting(plain, input), fitting(escaped, input));
    let mysql = unescaped > as_it_is || (unescaped == as_it_is && signs.mysql);
    Ok(if mysql { escaped } else { plain })
}

/// Lines whose hash is that of their password, if the file is written so.
fn fitting(
    input: &mut (impl Read + Seek),
    name: &Path,
    dialect: Dialect,
    options: &ImportOptions,
) -> Result<u64> {
    let options = ImportOptions { prefer: Some(Prefer::Ha1), ..options.clone() };
    let mut fit = 0;
    let mut source = Source { input, name, total: 0, dialect, options: &options };
    source.each(false, &mut |_| {}, |_, entry| {
        fit += u64::from(entry.is_ok_and(|entry| entry.agrees == Some(true)));
        Ok(())
    })?;
    Ok(fit)
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
                if entry.agrees == Some(false) {
                    report.disagreeing += 1;
                    if report.disagreed.len() < MAX_DISAGREED {
                        report.disagreed.push(format!("{}@{}", entry.name.user(), entry.name.domain()));
                    }
                }
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
        let dialect = self.dialect;
        let left = Rc::new(Cell::new(MAX_RECORD));
        let bounded = Bounded { inner: BufReader::new(&mut self.input), left: Rc::clone(&left) };
        let mut reader = dialect.reader(bounded).map_err(|error| StoreError::io(name, "read it", &error))?;
        let mut record = ByteRecord::new();
        if !reader.read_byte_record(&mut record).map_err(fail)? {
            return Err(StoreError::new(Kind::Input, name, "is empty", HEADER_MEND));
        }
        let columns = Columns::read(&record, dialect.escapes == Escapes::Everywhere)
            .map_err(|problem| StoreError::new(Kind::Input, name, problem, HEADER_MEND))?;
        let mut lines = 0;
        loop {
            // The reader fetches blocks, so what is left is restored to a block more than a record.
            left.set(MAX_RECORD);
            if !reader.read_byte_record(&mut record).map_err(fail)? {
                break;
            }
            let position = record.position().map_or((0, 0), |p| (p.line(), p.byte()));
            f(position.0 + dialect.lines, columns.entry(&record, self.options))?;
            lines += 1;
            if lines % PROGRESS_LINES == 0 {
                progress(Progress { writing, bytes: position.1, total: self.total, lines });
            }
        }
        progress(Progress { writing, bytes: self.total, total: self.total, lines });
        Ok(())
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

impl<R: Seek> Seek for Bounded<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Which column holds what.
struct Columns {
    username: usize,
    domain: Option<usize>,
    password: Option<usize>,
    hashes: [Option<usize>; HASH_COLUMNS.len()],
    rules: [Option<usize>; RULE_COLUMNS.len()],
    /// Columns in the header; shorter records are bad.
    count: usize,
    /// Fields are not quoted, and have backslash escapes.
    escaped: bool,
}

/// A line found good.
struct Entry {
    name: UserName,
    /// If it counts.
    password: Option<String>,
    hashes: Credentials,
    /// Whether the hash is that of the password, if there are both.
    agrees: Option<bool>,
    /// What it has set for calls to it, if the file has a column of that.
    rules: Option<Rules>,
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
        let mut rules = [None; RULE_COLUMNS.len()];
        for (place, column) in rules.iter_mut().zip(RULE_COLUMNS) {
            *place = find(column)?;
        }
        let columns = Columns {
            username: find("username")?.ok_or_else(|| no_username(&names))?,
            domain: find("domain")?,
            password: find("password")?,
            hashes,
            rules,
            count: names.len(),
            escaped,
        };
        if columns.password.is_none() && columns.hashes.iter().all(Option::is_none) {
            return Err("has neither a column `password` nor a column `ha1`".to_owned());
        }
        Ok(columns)
    }

    fn entry(&self, record: &ByteRecord, options: &ImportOptions) -> std::result::Result<Entry, String> {
        let entry = self.account(record, options)?;
        Ok(Entry { rules: self.rules(record)?, ..entry })
    }

    /// What a user has set for calls to it; `None`: no column says anything of that.
    fn rules(&self, record: &ByteRecord) -> std::result::Result<Option<Rules>, String> {
        if self.rules.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut texts = [""; RULE_COLUMNS.len()];
        for (text, place) in texts.iter_mut().zip(self.rules) {
            let field = place.and_then(|place| record.get(place)).unwrap_or_default();
            *text = nothing(std::str::from_utf8(field).map_err(|_| "is not UTF-8".to_owned())?);
        }
        read_rules(texts).map(Some)
    }

    fn account(&self, record: &ByteRecord, options: &ImportOptions) -> std::result::Result<Entry, String> {
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
            return of_hashes(name, domain, hashes, None);
        }
        let password = if self.escaped { unescape(password) } else { password.to_owned() };
        check_password(&password)?;
        let agrees = hashes.get(NameForm::Bare, Algorithm::Md5).map(|given| {
            // The hash covers the domain as it was written.
            [domain, name.domain()].iter().any(|realm| {
                ha1(Algorithm::Md5, name.user().as_bytes(), realm.as_bytes(), password.as_bytes()) == given
            })
        });
        match (agrees, options.prefer) {
            (Some(false), None) => Err(format!(
                "has for {}@{} an ha1 that is not that of the password: say which counts with --prefer ha1 or \
                 --prefer password",
                name.user(),
                name.domain()
            )),
            (Some(false), Some(Prefer::Ha1)) => of_hashes(name, domain, hashes, agrees),
            _ => Ok(Entry { name, password: Some(password), hashes, agrees, rules: None }),
        }
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

/// An entry without a password.
fn of_hashes(
    name: UserName,
    domain: &str,
    hashes: Credentials,
    agrees: Option<bool>,
) -> std::result::Result<Entry, String> {
    if name.domain() != domain {
        return Err(
            "has a hash and a domain not in lower case: the hash covers the domain as written, so give the \
                    password instead"
                .to_owned(),
        );
    }
    Ok(Entry { name, password: None, hashes, agrees, rules: None })
}

fn no_username(names: &[String]) -> String {
    let mut list: String = names.iter().take(8).map(|name| format!("`{name}` ")).collect();
    list.truncate(list.floor_char_boundary(200));
    format!("has no column `username` in its first line, which has {}", list.trim_end())
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
    // Hashed before the lock is taken.
    let mut hashed = Vec::with_capacity(batch.len());
    let mut rules = Vec::new();
    for mut entry in batch.drain(..) {
        let credentials = match &entry.password {
            None => entry.hashes,
            Some(password) => hash_password(&entry.name, password).map_err(|problem| {
                StoreError::new(Kind::Input, subscribers.path(), problem, "correct the line")
            })?,
        };
        if let Some(set) = entry.rules.take() {
            rules.push((entry.name.clone(), set));
        }
        hashed.push((entry.name, credentials));
    }
    subscribers.write_all(&hashed).map_err(|mut error| {
        error.problem.push_str(&format!(" ({} were written before)", report.written));
        error
    })?;
    if !rules.is_empty() {
        subscribers.write_rules(&rules)?;
    }
    report.written += hashed.len() as u64;
    hashed.iter().for_each(|(name, _)| report.note(name.domain()));
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
