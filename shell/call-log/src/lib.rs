//! Keeps call records.
//!
//! ```text
//! worker --event--> ring (a mapped file) --> keeper thread --> book (events on disk)
//!                                                 |
//!                                              ledger --> records --> outputs
//! ```
//!
//! A worker writes each event into its [`ring`], without a system call. The ring is a file that is mapped
//! into memory, so what was written outlives the process. One thread, the keeper, takes the events out,
//! appends them to the [`book`], and puts them together. A finished record goes to each output. After a kill
//! the book and the rings tell what was begun, and each output says which records it has: a call has one
//! record all the same.
//!
//! An output that cannot be written delays no call, and an HTTP server that is down does not hold up the
//! file. Records wait in memory, then events in the rings. When these are full, events are lost, counted and
//! reported.

mod book;
mod clock;
mod counts;
mod http;
mod keeper;
mod line;
mod output;
mod ring;
mod teller;

pub use clock::Sources;
pub use counts::Counts;
pub use http::{HttpOptions, without_query};
pub use keeper::{CallLog, Options, RING_BYTES, Remote};
pub use line::Format;
pub use output::{FileOptions, Rotation};
pub use teller::Teller;

use std::io;
use std::path::{Path, PathBuf};

/// Why call records cannot be kept.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    what: &'static str,
    why: io::Error,
}

impl Error {
    pub(crate) fn new(path: &Path, what: &'static str, why: io::Error) -> Error {
        Error { path: path.to_owned(), what, why }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "call records: {} {}: {}", self.what, self.path.display(), self.why)
    }
}

impl std::error::Error for Error {}
