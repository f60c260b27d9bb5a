//! `[records]`: call records.

use super::Proxy;
use super::error::Fault;
use super::form::*;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::types::named;
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
    /// `[records]`: call records. Each attempt to call that was admitted has one, also over a crash
    /// ([call records](../guide/call-records.md)).
    pub struct Records = "records" {
        /// The file that records are appended to. It is for its owner alone; a program that reads it runs as
        /// the same user. Without it no records are kept.
        file: Option<PathBuf> = None, path().optional(), restart;
        /// How records are written: `"json"`, one object in each line, or `"csv"`.
        format: RecordFormat = RecordFormat::Json, choice(RecordFormat::ALL), restart;
        /// Megabytes at which the file is renamed to `FILE.1` and a new one begun. 0: never. Another program
        /// may rename it as well, at any time.
        rotate_mb: u64 = 1_000, number(0..=1_000_000), restart;
        /// How many renamed files are kept.
        keep: u32 = 10, number(0..=10_000), restart;
    }
}

impl Checks for Records {}

impl Records {
    /// Finds what keeps records from being true.
    pub(super) fn check_proxy(&self, reader: &mut Reader<'_>, top: &Section<'_, '_>, proxy: &Proxy) {
        if self.file.is_none() {
            return;
        }
        let fault = match (proxy.mode, proxy.record_route) {
            (Mode::Stateless, _) => Fault::new(
                "a stateless server keeps no call records",
                "remove `file` in [records], or `mode = \"stateless\"` in [proxy]",
            ),
            (_, false) => Fault::new(
                "without Record-Route no BYE comes by here, so call records would not know when calls end",
                "remove `file` in [records], or `record_route = false` in [proxy]",
            ),
            _ => return,
        };
        reader.error(&top.span_of("records"), fault);
    }
}
