//! Sends records to an HTTP server, in order and in batches.
//!
//! Records wait in numbered files. A batch that the server has answered with 2xx is not sent again, but for
//! one that was under way when the process was killed: a record has an id by which the server knows it.
//! If the server says that the batch itself is wrong (400 and others, see [`Answer`]), a smaller one is sent,
//! until the record that it does not accept is alone. That one is set aside in a file. After any other answer
//! the same batch is sent again later.

use crate::Error;
use crate::counts::Counts;
use crate::line::Format;
use crate::output::{FileOptions, Rotation, id_of, numbered, numbers};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Bytes of a batch.
const BATCH: u64 = 256 << 10;
/// Records of a batch.
const LINES: usize = 4_096;
/// Bytes of records that are set aside. Further ones are not: then all wait.
const ASIDE: u64 = 16 << 20;
/// Records that are set aside one after the other. If the server accepts none of these, the fault may be its
/// own: each further one takes a pause.
const ROW: u32 = 8;
/// Bytes of a file of records that wait.
const FILE: u64 = 8 << 20;
/// Between two looks for new records.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two attempts: doubled each time.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MOST: Duration = Duration::from_secs(60);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where records are sent.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// `http://HOST/PATH` or `https://HOST/PATH`.
    pub url: String,
    /// Sent as `Authorization: Bearer TOKEN`.
    pub token: Option<String>,
    /// Bytes of records that may wait on disk.
    pub spool: u64,
}

impl HttpOptions {
    /// The files of records that wait.
    pub(crate) fn spool(&self, folder: &Path) -> FileOptions {
        FileOptions {
            path: folder.join("spool"),
            format: Format::Json,
            rotate_at: FILE.min(self.spool / 4).max(1),
            rotation: Rotation::Numbered(self.spool),
        }
    }
}

/// Sends what is in the spool.
pub(crate) struct Poster {
    spool: PathBuf,
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
    counts: Arc<Counts>,
    /// The file that is being sent, and how far it was.
    number: u64,
    offset: u64,
    /// Records of the next batch at most.
    lines: usize,
    /// Records set aside since the server has accepted one.
    row: u32,
    troubled: bool,
}

/// What a server says of a batch.
enum Answer {
    Accepted,
    /// With this status: what was sent is wrong.
    Unfit(u16),
    /// What was sent is not to blame: the address, the token, the load, or the server.
    Later(String),
}

impl Answer {
    fn of(status: u16) -> Answer {
        match status {
            200..=299 => Answer::Accepted,
            401..=405 | 407 | 408 | 410 | 421 | 423 | 425 | 426 | 428 | 429 => Answer::Later(said(status)),
            400..=499 => Answer::Unfit(status),
            _ => Answer::Later(said(status)),
        }
    }
}

fn said(status: u16) -> String {
    format!("it answers {status}")
}

impl Poster {
    /// Goes on where the last process was.
    ///
    /// # Errors
    /// There are no authorities to verify an `https:` server with.
    pub fn new(options: &HttpOptions, spool: PathBuf, counts: Arc<Counts>) -> Result<Poster, Error> {
        let agent =
            agent(&options.url).map_err(|why| Error::new(Path::new(&options.url), "cannot send to", why))?;
        let text = fs::read_to_string(position_file(&spool)).unwrap_or_default();
        let mut words = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (number, offset) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let (url, token) = (options.url.clone(), options.token.clone());
        let (lines, row, troubled) = (LINES, 0, false);
        Ok(Poster { spool, url, token, agent, counts, number, offset, lines, row, troubled })
    }

    /// Sends until `over` says that this is the end.
    pub fn run(mut self, over: &dyn Fn() -> bool) {
        let mut again = AGAIN;
        while !over() {
            let pause = match self.round() {
                Ok(true) => {
                    again = AGAIN;
                    continue;
                }
                Ok(false) => PAUSE,
                Err(why) => {
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    self.counts.unsent.store(true, Ordering::Relaxed);
                    if !std::mem::replace(&mut self.troubled, true) {
                        log_events::records::call_records_unsent(without_query(&self.url), &why);
                    }
                    let pause = again;
                    again = (2 * again).min(AGAIN_MOST);
                    pause
                }
            };
            thread::park_timeout(pause);
        }
    }

    /// Sends a batch. Whether there was one.
    fn round(&mut self) -> Result<bool, String> {
        let there = numbers(&self.spool);
        if there.last().is_some_and(|last| *last < self.number) {
            // The files were deleted, and begin anew.
            (self.number, self.offset) = (0, 0);
        }
        let Some(first) = there.iter().copied().find(|number| *number >= self.number) else {
            return Ok(false);
        };
        if first != self.number {
            (self.number, self.offset) = (first, 0);
        }
        let path = numbered(&self.spool, self.number);
        let read = batch(&path, &mut self.offset, self.lines);
        let (batch, records) = read.map_err(|error| format!("{}: {error}", path.display()))?;
        if batch.is_empty() {
            // The last one may still grow.
            if there.last() == Some(&self.number) {
                return Ok(false);
            }
            let _ = fs::remove_file(&path);
            (self.number, self.offset) = (self.number + 1, 0);
            return Ok(true);
        }
        match self.send(&batch) {
            Answer::Accepted => {
                self.counts.sent.fetch_add(records as u64, Ordering::Relaxed);
                self.counts.unsent.store(false, Ordering::Relaxed);
                if std::mem::replace(&mut self.troubled, false) {
                    log_events::records::call_records_sent_again(without_query(&self.url));
                }
                (self.lines, self.row) = ((2 * self.lines).min(LINES), 0);
                self.advance(batch.len())?;
            }
            Answer::Unfit(_) if records > 1 => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.lines = records / 2;
            }
            Answer::Unfit(status) => self.set_aside(&batch, status)?,
            Answer::Later(why) => return Err(why),
        }
        Ok(true)
    }

    /// Keeps a record that the server does not accept in a file, and goes on.
    fn set_aside(&mut self, line: &[u8], status: u16) -> Result<(), String> {
        let path = self.spool.with_file_name("refused.jsonl");
        let id = id_of(line).unwrap_or_default();
        let append = || -> io::Result<()> {
            let mut file = regular_file::append(&path)?;
            if file.metadata()?.len() + line.len() as u64 > ASIDE {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "too many records were refused"));
            }
            file.write_all(line)
        };
        append().map_err(|error| {
            format!(
                "it answers {status} to record {id}, which cannot be set aside in {}: {error}",
                path.display()
            )
        })?;
        self.counts.set_aside.fetch_add(1, Ordering::Relaxed);
        log_events::records::call_record_set_aside(&id, &path.display(), status.into());
        self.advance(line.len())?;
        self.row += 1;
        match self.row > ROW {
            true => Err(format!("it answers {status} to every record")),
            false => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Notes that this number of bytes need not be sent again.
    fn advance(&mut self, bytes: usize) -> Result<(), String> {
        self.offset += bytes as u64;
        self.note().map_err(|error| format!("{}: {error}", position_file(&self.spool).display()))
    }

    fn send(&self, batch: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/x-ndjson");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        match request.send(batch) {
            Ok(answer) => Answer::of(answer.status().as_u16()),
            Err(error) => Answer::Later(error.to_string()),
        }
    }

    fn note(&self) -> io::Result<()> {
        let at = position_file(&self.spool);
        let new = at.with_extension("new");
        fs::write(&new, format!("{} {}\n", self.number, self.offset))?;
        fs::rename(new, at)
    }
}

fn position_file(spool: &Path) -> PathBuf {
    spool.with_file_name("sent")
}

/// Whole lines of a file from `offset` on, and how many there are: `most` at most.
fn batch(path: &Path, offset: &mut u64, most: usize) -> io::Result<(Vec<u8>, usize)> {
    let mut file = regular_file::open(path)?;
    if *offset > file.metadata()?.len() {
        // Another file of this number.
        *offset = 0;
    }
    file.seek(SeekFrom::Start(*offset))?;
    let mut bytes = Vec::new();
    file.take(BATCH).read_to_end(&mut bytes)?;
    let ends = || bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').take(most);
    let (whole, lines) = (ends().last().map_or(0, |(at, _)| at + 1), ends().count());
    bytes.truncate(whole);
    Ok((bytes, lines))
}

/// A client that verifies servers with the authorities of the system.
fn agent(url: &str) -> io::Result<ureq::Agent> {
    let mut config = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent("strowger");
    if url.starts_with("https:") {
        let found = rustls_native_certs::load_native_certs();
        let roots: Vec<_> =
            found.certs.iter().map(|root| ureq::tls::Certificate::from_der(root).to_owned()).collect();
        if roots.is_empty() {
            return Err(io::Error::other("there are no authorities: install `ca-certificates`"));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ureq::tls::TlsConfig::builder()
            .provider(ureq::tls::TlsProvider::Rustls)
            .root_certs(ureq::tls::RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        config = config.tls_config(tls);
    }
    Ok(config.build().into())
}

/// A URL as logs show it: its query may hold a key.
pub fn without_query(url: &str) -> &str {
    url.split_once(['?', '#']).map_or(url, |(place, _)| place)
}

#[cfg(test)]
mod tests;
