//! `strowger tune`: kernel and network card settings for a SIP server.
//!
//! [`Machine`] reads files and settings of cards into a [`tune_rules::Snapshot`], and writes values. The
//! rules are in `tune-rules`. [`apply`] writes a [`Journal`] of every old value before it changes anything,
//! so that [`undo`] is exact; [`verify`] compares the machine with that journal.

#![deny(unsafe_code)]

mod apply;
mod ethtool;
mod journal;
mod json;
mod latest;
mod machine;
mod own_files;
mod plan;
mod restore;
mod root;
mod script;
#[cfg(test)]
mod tests;
mod text;
mod undo;
mod unit_line;
mod verify;

pub use apply::{Applied, Lasting, Outcome, apply, refused};
pub use journal::{Entry, Journal, JournalError, JournalPlace};
pub use machine::{INSTALLED, Machine};
pub use plan::{Plan, lost_at_boot, select, steps};
pub use restore::restore;
pub use script::script;
pub use undo::{Undone, undo};
pub use unit_line::unit_command;
pub use verify::{Verified, verify};

/// Texts for people.
pub mod say {
    pub use crate::text::{applied, explanation, here, items, report, steps, undone, verified};
}

/// The same for programs.
pub mod as_json {
    pub use crate::json::{applied, applied_then, explained, report, undone, verified};
}
