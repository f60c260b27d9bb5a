//! The location service that all workers share, and the log on disk that makes its changes durable.
//!
//! * [`SharedLocation`] has all bindings in memory, and a journal of what is not on the disk yet. It never
//!   waits for a disk.
//! * A [`Keeper`] writes what one worker changed to a [`BindingLog`], so that a 200 outlives the process.
//! * [`Log`] is such a log in files, reached through [`Files`]; [`Writer`] brings it to the disk.
//! * [`Mover`] moves full files into a [`BindingTable`], the table of a database, and [`load`] reads both at
//!   a start.
//! * [`Clock`] is the only place where wall-clock time and monotonic time meet.
//!
//! No database is named here. Threads are the caller's: each part does one step for each call.
#![forbid(unsafe_code)]

mod addresses;
mod appender;
mod clock;
mod ending;
mod error;
mod files;
mod fold;
mod hash;
mod health;
mod journal;
mod keeper;
mod key;
mod load;
#[cfg(test)]
mod locks;
mod log;
mod mover;
mod removals;
mod sealed;
mod service;
mod stage;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod turns;
mod writer;

pub use appender::Appender;
pub use clock::{Clock, ClockPair};
pub use ending::finish;
pub use error::{Kind, Result, StoreError};
pub use files::{Access, File, Files, LogDir, SystemFiles};
pub use hash::in_one_piece;
pub use health::{Health, OnFailure};
pub use keeper::{BindingLog, Keeper};
pub use key::{Key, join_aor, key_of, listener_of, split_aor};
pub use load::{Filling, LoadOptions, LoadReport, Start, load};
pub use log::record::{HEADER as LOG_HEADER, Put};
pub use log::{DAMAGED, Log, list, seen_in};
pub use mover::{Mover, Steps};
pub use removals::Removals;
pub use sealed::Sealed;
pub use service::{Cursor, LocationLimits, SharedLocation};
pub use stage::{Says, Stage};
pub use table::{BindingTable, RowSeen, TableCheck, TableRead, Word};
pub use writer::{INTERVAL, LogLimits, Writer, WriterOptions};
