//! `[records]`: call records.

use super::Proxy;
use super::error::Fault;
use super::form::*;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::types::named;
use super::values::{host_port, shown};
use sip_node::Mode;
use std::path::PathBuf;

named! {
    /// How call records are written.
    RecordFormat {
        /// One JSON object in each line.
        Json = "json",
        /// Comma-separated values, the names in the first line.
        Csv = "csv",
    }
}

section! {
    /// `[records]`: call records. Each admitted call attempt has one, even after a crash ([call
    /// records](../guide/call-records.md)).
    pub struct Records = "records" {
        /// File to which records are appended. Only its owner can read it, so a program that reads it must
        /// run as the same user. Without `file` and `url`, no records are written.
        file: Option<PathBuf> = None, path().optional(), restart;
        /// How records are written: `"json"`, one object in each line, or `"csv"`.
        format: RecordFormat = RecordFormat::Json, choice(RecordFormat::ALL), restart;
        /// Size in megabytes at which the file is renamed to `FILE.1` and a new one begins. 0: never. Another
        /// program may also rename it at any time.
        rotate_mb: u64 = 1_000, number(0..=1_000_000), restart;
        /// Number of renamed files that are kept.
        keep: u32 = 10, number(0..=10_000), restart;
        /// Server to which records are sent, in order: `"https://HOST/PATH"` or `"http://HOST/PATH"`. Each
        /// request is a POST with one JSON object in each line. Without a 2xx response, the records are sent
        /// again.
        url: Option<String> = None, text("URL", url).optional(), restart;
        /// A file with a secret of at least 16 characters, which is sent as `Authorization: Bearer SECRET`.
        token_file: Option<PathBuf> = None, path().optional(), restart;
        /// Megabytes of records that may wait on disk for the server at `url`.
        spool_mb: u64 = 1_000, number(1..=1_000_000), restart;
    }
}

impl Checks for Records {}

/// `https://host/path`.
fn url(written: &str) -> Result<String, Fault> {
    let wrong =
        || Fault::new(format!("\"{}\" is not a URL of HTTP", shown(written)), "write \"https://HOST/PATH\"");
    let rest =
        written.strip_prefix("https://").or_else(|| written.strip_prefix("http://")).ok_or_else(wrong)?;
    let place = rest.split_once('/').map_or(rest, |(place, _)| place);
    let printable = written.bytes().all(|byte| byte.is_ascii_graphic());
    match printable && !place.contains('@') && host_port(place).is_ok() {
        true => Ok(written.to_owned()),
        false => Err(wrong()),
    }
}

impl Records {
    /// Whether records are kept.
    pub fn are_kept(&self) -> bool {
        self.file.is_some() || self.url.is_some()
    }

    /// Finds what keeps records from being true.
    pub(super) fn check_proxy(&self, reader: &mut Reader<'_>, top: &Section<'_, '_>, proxy: &Proxy) {
        if !self.are_kept() {
            return;
        }
        let fault = match (proxy.mode, proxy.record_route) {
            (Mode::Stateless, _) => Fault::new(
                "a stateless server keeps no call records",
                "remove [records], or `mode = \"stateless\"` in [proxy]",
            ),
            (_, false) => Fault::new(
                "without Record-Route no BYE comes by here, so call records would not know when calls end",
                "remove [records], or `record_route = false` in [proxy]",
            ),
            _ => return,
        };
        reader.error(&top.span_of("records"), fault);
    }
}
