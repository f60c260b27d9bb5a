//! Subscribers and bindings in an embedded SQLite file, and the caches that the data path reads.
//!
//! * [`Subscribers`] is for commands: add, remove, list, import, export. It works on the file while
//!   a server runs on it.
//! * [`Store`] is for the server. It loads everything at start and keeps memory and disk alike with
//!   four threads: one writes changed bindings to a log, one moves that into the table, one follows the
//!   subscriber table, one expires.
//! * [`CredentialCache`] and [`SharedLocation`] are what workers read; neither ever waits for the
//!   disk.
//! * [`Clock`] is the only place where wall-clock time and monotonic time meet.
//!
//! The tables are those that operators of Kamailio and OpenSIPS know (`schema/0001.sql`). No clear
//! password is ever stored. Every error names the file, the problem and the mend.
#![forbid(unsafe_code)]

mod cache;
mod clock;
mod database;
mod directory;
mod error;
mod health;
mod import;
mod location;
mod names;
mod store;
mod subscribers;
#[cfg(test)]
mod testing;
mod turns;
mod user;
mod watch;

pub use cache::CredentialCache;
pub use clock::{Clock, ClockPair};
pub use directory::{DATABASE_FILE, SECRET_FILE, load_or_create_secret};
pub use error::{Kind, Result, StoreError};
pub use health::{Health, OnFailure};
pub use import::{BadLine, Import, ImportOptions, ImportReport, Prefer, Progress};
pub use location::appender::Keeper;
pub use location::load::LoadReport;
pub use location::{Cursor, LocationLimits, SharedLocation};
pub use store::{Store, StoreOptions};
pub use subscribers::{Added, Subscriber, Subscribers};
pub use user::{MAX_DOMAIN, MAX_PASSWORD, MAX_USER, UserName, hash_password};
