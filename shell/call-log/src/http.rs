//! Sends records to an HTTP server, in order and in batches.
//!
//! Records wait in numbered files. A batch that the server has answered with 2xx is not sent again, but for
//! one that was under way when the process was killed: a record has an id by which the server knows it.
//! Whatever else the server answers, the same batch is sent again later.

use crate::Error;
use crate::keeper::Counts;
use crate::line::Format;
use crate::output::{FileOptions, Rotation, numbered, numbers};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Bytes of a batch.
const BATCH: u64 = 256 << 10;
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
    troubled: bool,
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
        Ok(Poster { spool, url, token, agent, counts, number, offset, troubled: false })
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
                    if !std::mem::replace(&mut self.troubled, true) {
                        log_events::records::call_records_unsent(&self.url, &why);
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
        let Some(first) = there.iter().copied().find(|number| *number >= self.number) else {
            return Ok(false);
        };
        if first != self.number {
            (self.number, self.offset) = (first, 0);
        }
        let path = numbered(&self.spool, self.number);
        let (batch, records) =
            batch(&path, self.offset).map_err(|error| format!("{}: {error}", path.display()))?;
        if batch.is_empty() {
            // The last one may still grow.
            if there.last() == Some(&self.number) {
                return Ok(false);
            }
            let _ = fs::remove_file(&path);
            (self.number, self.offset) = (self.number + 1, 0);
            return Ok(true);
        }
        self.send(&batch)?;
        self.offset += batch.len() as u64;
        self.counts.sent.fetch_add(records, Ordering::Relaxed);
        if std::mem::replace(&mut self.troubled, false) {
            log_events::records::call_records_sent_again(&self.url);
        }
        self.note().map_err(|error| format!("{}: {error}", position_file(&self.spool).display()))?;
        Ok(true)
    }

    fn send(&self, batch: &[u8]) -> Result<(), String> {
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/x-ndjson");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = request.send(batch).map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(format!("it answers {status}")),
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

/// Whole lines of a file from `offset` on, and how many there are.
fn batch(path: &Path, offset: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut file = regular_file::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(BATCH).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(whole);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
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

#[cfg(test)]
mod tests;
