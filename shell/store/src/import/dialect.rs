//! How a file of subscribers is written: what separates its fields, and what a backslash means in them.
//!
//! CSV knows no escapes, and `SELECT ... INTO OUTFILE` of MySQL puts a backslash before a quotation mark and
//! before a backslash. No line says which of the two it is. `\N` for nothing does, so does a quotation mark
//! after a backslash in the midst of a field, and so do hashes beside passwords: they fit one reading and not
//! the other.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use csv::{Reader, ReaderBuilder};

/// Bytes looked at for what separates the fields.
const START: u64 = 4_096;

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dialect {
    /// Between two fields.
    pub(super) delimiter: u8,
    pub(super) escapes: Escapes,
    /// Where the line with the names of the columns begins.
    pub(super) begin: u64,
    /// Lines before it.
    pub(super) lines: u64,
}

/// What a backslash means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Escapes {
    /// Itself.
    No,
    /// In a quoted field, that the next character is itself.
    Quoted,
    /// The same everywhere, and there are no quoted fields.
    Everywhere,
}

impl Dialect {
    /// What the first line says: a line `sep=;`, which Excel reads and writes, or the most frequent of comma,
    /// semicolon and tab. Files of tabs have no quotes but escapes: so `mysql --batch` and PostgreSQL's COPY
    /// write them.
    pub(super) fn of_start(input: &mut (impl Read + Seek)) -> io::Result<Result<Dialect, String>> {
        input.rewind()?;
        let mut start = Vec::new();
        input.by_ref().take(START).read_to_end(&mut start)?;
        // With a byte order mark or without.
        if matches!(*start, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, ..] | [_, 0, ..]) {
            return Ok(Err("is no text in UTF-8: save it as CSV in UTF-8".to_owned()));
        }
        let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Some(delimiter) = told(first) {
            let begin = (first.len() + 1).min(start.len()) as u64;
            return Ok(Ok(Dialect { begin, lines: 1, ..Dialect::with(delimiter) }));
        }
        let count = |wanted: &u8| first.iter().filter(|byte| *byte == wanted).count();
        // The last of equals wins, so the comma stands last.
        let delimiter = [b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b',');
        Ok(Ok(Dialect::with(delimiter)))
    }

    fn with(delimiter: u8) -> Dialect {
        let escapes = if delimiter == b'\t' { Escapes::Everywhere } else { Escapes::No };
        Dialect { delimiter, escapes, begin: 0, lines: 0 }
    }

    /// The same with MySQL's escapes.
    pub(super) fn escaped(self, quotes: bool) -> Dialect {
        Dialect { escapes: if quotes { Escapes::Quoted } else { Escapes::Everywhere }, ..self }
    }

    /// Whether fields may be quoted.
    pub(super) fn is_quoted(&self) -> bool {
        self.escapes != Escapes::Everywhere
    }

    /// A reader of the records, the one with the names of the columns first.
    pub(super) fn reader<R: Read + Seek>(&self, mut input: R) -> io::Result<Reader<R>> {
        input.seek(SeekFrom::Start(self.begin))?;
        Ok(ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(self.delimiter)
            .quoting(self.is_quoted())
            .escape((self.escapes == Escapes::Quoted).then_some(b'\\'))
            .from_reader(input))
    }
}

/// What a line `sep=;` says.
fn told(line: &[u8]) -> Option<u8> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii_end();
    let line = line.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(line);
    let (name, delimiter) = line.split_at_checked(4)?;
    match delimiter {
        [one] if name.eq_ignore_ascii_case(b"sep=") => Some(*one),
        // Trimmed away above.
        [] if name.eq_ignore_ascii_case(b"sep=") => Some(b'\t'),
        _ => None,
    }
}

/// What the backslashes of a file say.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Signs {
    /// There are some.
    pub(super) backslashes: bool,
    /// There are quoted fields.
    pub(super) quotes: bool,
    /// Some can only be MySQL's.
    pub(super) mysql: bool,
}

/// Reads all of a file that is written in `dialect` for them.
pub(super) fn signs(input: &mut (impl Read + Seek), dialect: Dialect) -> io::Result<Signs> {
    input.seek(SeekFrom::Start(dialect.begin))?;
    let mut signs = Signs::default();
    let ends = |byte: u8| byte == dialect.delimiter || byte == b'\n' || byte == b'\r';
    let mut bytes = BufReader::new(input).bytes();
    let mut next = || bytes.next().transpose();
    // A window of three; the end reads as the end of a line.
    let [mut a, mut b, mut c] = [next()?, next()?, next()?];
    let (mut begins, mut inside) = (true, false);
    while let Some(byte) = a {
        let (second, third) = (b.unwrap_or(b'\n'), c.unwrap_or(b'\n'));
        let mut passed = 1;
        signs.backslashes |= byte == b'\\';
        if inside {
            match (byte, second) {
                (b'\\', b'"') if !ends(third) && third != b'"' => signs.mysql = true,
                (b'"', b'"') => passed = 2,
                (b'"', _) => inside = false,
                _ => {}
            }
        } else if begins && byte == b'"' {
            (inside, signs.quotes) = (true, true);
        } else if begins && (byte, second) == (b'\\', b'N') && ends(third) {
            signs.mysql = true;
        }
        begins = !inside && ends(byte);
        for _ in 0..passed {
            (a, b, c) = (b, c, next()?);
        }
    }
    Ok(signs)
}
