//! Subscribers and bindings in a database, and the caches that the data path reads. The database is an
//! embedded SQLite file; `backend.rs` has the interface for another one.
//!
//! * [`Subscribers`] is for commands: add, remove, list, import, export. It works on the file while
//!   a server runs on it.
//! * [`Store`] is for the server. It loads everything at start and keeps memory and disk alike with
//!   four threads: one writes changed bindings to a log, one moves that into the table, one follows the
//!   subscriber table, one expires.
//! * [`CredentialCache`] and the [`SharedLocation`] of crate `location` are what workers read; neither ever
//!   waits for the disk.
//!
//! The tables are those that operators of Kamailio and OpenSIPS know (`sqlite/schema/0001.sql`). No clear
//! password is ever stored. Every error names the file, the problem and the mend.
#![forbid(unsafe_code)]

mod backend;
mod backup;
#[cfg(test)]
mod bindings;
mod cache;
mod classes;
mod directory;
mod import;
mod names;
mod rules;
mod source;
mod sqlite;
mod store;
mod subscribers;
mod user;

pub use backup::{Restored, backup, restore};
pub use cache::CredentialCache;
pub use call_forwarding::{ALSO_MAX, RING_MAX, Rules, TARGET_MAX, When};
pub use classes::{MAX_CLASS, check_class};
pub use directory::{DATABASE_FILE, SECRET_FILE, load_or_create_secret};
pub use import::{BadLine, Import, ImportOptions, ImportReport, Prefer, Progress};
pub use location::{
    Clock, Cursor, Health, Keeper, Kind, LoadReport, LocationLimits, OnFailure, Result, SharedLocation,
    StoreError,
};
pub use rules::{RULE_COLUMNS, read_rules, rule_texts};
pub use store::{Store, StoreOptions};
pub use subscribers::{Added, Subscriber, Subscribers, Wanted};
pub use user::{MAX_DOMAIN, MAX_PASSWORD, MAX_USER, UserName, hash_password};
