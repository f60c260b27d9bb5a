//! Reads the file of a route table: CSV with a header line, a row for each prefix and trunk.
//!
//! ```csv
//! prefix,trunk,priority,cost
//! # The first carrier is cheaper.
//! +4930,carrier,10,0.008
//! +4930,backup,20,0.012
//! ```
//!
//! The file is read line by line. All of it is used or nothing: [`read`] gives the table, or what is wrong.
#![forbid(unsafe_code)]

mod fields;
mod rows;

use number_routes::{Conflict, Conflicts, MAX_ROWS, MAX_WAYS, RouteTable};
use rows::{Header, Rows};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use toml_form::error::{ConfigError, Fault};

/// Findings listed. With the one that counts them all they are as many as a command shows.
const LISTED: usize = 19;

/// The longest line, bytes. A quote that is never closed would otherwise take the whole file.
const LONGEST_LINE: usize = 1_024;

/// The largest file, bytes: rows at most, as long as they usually are at most, and comments.
const LARGEST_FILE: u64 = 512 << 20;

/// U+FEFF in UTF-8, with which spreadsheets begin a file.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Why there is no table.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read.
    File(io::Error),
    /// What is in it is no table. The first finding counts them all if there is more than one.
    Rows(Vec<ConfigError>),
}

/// Reads a table from a file. `trunks` are the names that its rows may have.
///
/// # Errors
/// The file cannot be read, or some row is wrong.
pub fn read(path: &Path, trunks: Vec<Vec<u8>>) -> Result<RouteTable, Error> {
    let file = regular_file::open(path).map_err(Error::File)?;
    read_from(file, &path.display().to_string(), trunks)
}

fn read_from(file: File, name: &str, trunks: Vec<Vec<u8>>) -> Result<RouteTable, Error> {
    if file.metadata().map_err(Error::File)?.len() > LARGEST_FILE {
        let what =
            format!("larger than {} MiB; leave out rows that a shorter prefix covers", LARGEST_FILE >> 20);
        return Err(Error::File(io::Error::new(io::ErrorKind::FileTooLarge, what)));
    }
    table_of(BufReader::with_capacity(1 << 16, file.take(LARGEST_FILE)), name, trunks)
}

/// The table that the lines of `text` are; `name` stands for the file in findings.
fn table_of(mut text: impl BufRead, name: &str, mut trunks: Vec<Vec<u8>>) -> Result<RouteTable, Error> {
    let (mut findings, mut line, mut number) = (Findings::new(name), Vec::new(), 0);
    let mut rows: Option<Rows> = None;
    while next_line(&mut text, &mut line).map_err(Error::File)? {
        number += 1;
        if line.len() > LONGEST_LINE {
            let what = || {
                let mend = "a row is shorter; look for a quote that is not closed";
                Fault::new(format!("a line of more than {LONGEST_LINE} bytes"), mend)
            };
            findings.add(number, 1, what);
            continue;
        }
        let start = begin_of(&line, number);
        let content = line.get(start..).unwrap_or(b"").trim_ascii_end();
        if content.is_empty() || content.starts_with(b"#") {
            continue;
        }
        let Some(taking) = rows.as_mut() else {
            match Header::read(content) {
                Ok(header) => rows = Some(Rows::new(header, std::mem::take(&mut trunks))),
                Err((at, fault)) => {
                    findings.add(number, column(&line, start + at), || fault);
                    // Without it nothing of the rows is known.
                    return Err(findings.into_error());
                }
            }
            continue;
        };
        let room = taking.add(content, number, |at, fault| {
            findings.add(number, column(&line, start + at), fault);
        });
        if !room {
            let mend = "leave out rows that a shorter prefix covers";
            findings.add(number, 1, || Fault::new(format!("more than {MAX_ROWS} rows"), mend));
            break;
        }
    }
    match rows.filter(|rows| rows.seen() > 0) {
        Some(rows) => finish(rows, findings),
        None => {
            let mend =
                "write a header \"prefix,trunk,priority,cost\" and rows, or remove `file` from [routes]";
            findings.add(0, 0, || Fault::new("no row: no number would have a trunk", mend));
            Err(findings.into_error())
        }
    }
}

/// The table, if nothing was found.
fn finish(rows: Rows, mut findings: Findings) -> Result<RouteTable, Error> {
    let (builder, names) = rows.into_parts();
    match builder.finish(LISTED) {
        Ok(table) if findings.count == 0 => Ok(table),
        Ok(_) => Err(findings.into_error()),
        Err(Conflicts { listed, count }) => {
            findings.count += count - listed.len();
            for conflict in listed {
                let (line, fault) = described(conflict, &names);
                findings.add(line, 1, || fault);
            }
            Err(findings.into_error())
        }
    }
}

/// A contradiction between rows: the line of one of them, and what is said of it.
fn described(conflict: Conflict, trunks: &[Vec<u8>]) -> (u32, Fault) {
    match conflict {
        Conflict::Twice { prefix, trunk, first, line } => {
            let trunk =
                trunks.get(usize::from(trunk)).map_or("".into(), |name| String::from_utf8_lossy(name));
            let what = format!("{prefix} has trunk \"{trunk}\" already, in line {first}");
            (line, Fault::new(what, "remove one of the rows"))
        }
        Conflict::TooMany { prefix, line } => {
            let what = format!("{prefix} has more than {MAX_WAYS} rows");
            (line, Fault::new(what, "leave the dearest out: no caller waits for all of them"))
        }
    }
}

/// Reads the next line into `line`, with its end; of a long one not more than shows that it is too long.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    text.by_ref().take(LONGEST_LINE as u64 + 1).read_until(b'\n', line)?;
    if line.len() > LONGEST_LINE && !line.ends_with(b"\n") {
        let mut rest = Vec::new();
        while !rest.ends_with(b"\n") {
            rest.clear();
            if text.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut rest)? == 0 {
                break;
            }
        }
    }
    Ok(!line.is_empty())
}

/// Where the content of a line begins: behind blanks, and in the first line behind the mark that some
/// programs write there.
fn begin_of(line: &[u8], number: u32) -> usize {
    let marked = number == 1 && line.starts_with(MARK);
    let rest = if marked { line.get(MARK.len()..).unwrap_or(b"") } else { line };
    line.len() - rest.trim_ascii_start().len()
}

/// The column, in characters from 1, of the byte at a place of a line.
fn column(line: &[u8], at: usize) -> u32 {
    let before = line.get(..at).unwrap_or(line);
    String::from_utf8_lossy(before).chars().filter(|c| *c != '\u{feff}').count() as u32 + 1
}

/// What is wrong in a file: some of it in words, all of it in number.
struct Findings {
    file: String,
    listed: Vec<ConfigError>,
    count: usize,
}

impl Findings {
    fn new(file: &str) -> Findings {
        Findings { file: file.to_owned(), listed: Vec::new(), count: 0 }
    }

    /// Notes a finding. Its words are made only if it is listed.
    fn add(&mut self, line: u32, column: u32, fault: impl FnOnce() -> Fault) {
        self.count += 1;
        if self.listed.len() < LISTED {
            let Fault { message, mend } = fault();
            self.listed.push(ConfigError { file: self.file.clone(), line, column, message, mend });
        }
    }

    fn into_error(self) -> Error {
        let Findings { file, mut listed, count } = self;
        listed.sort_by_key(|finding| (finding.line, finding.column));
        if count > 1 {
            let message = match count - listed.len() {
                0 => format!("{count} findings, nothing of the file is used"),
                more => format!("{count} findings, nothing of the file is used; {more} are not shown"),
            };
            let summary = ConfigError { file, line: 0, column: 0, message, mend: String::new() };
            listed.insert(0, summary);
        }
        Error::Rows(listed)
    }
}

#[cfg(test)]
mod tests;
