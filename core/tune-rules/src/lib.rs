//! The rules of `strowger tune`: which kernel and network card settings limit or harm a SIP server.
//!
//! A [`Snapshot`] holds what was read from a machine, and [`Expected`] the load that the server is to carry.
//! [`check`] compares them and answers with [`Finding`]s, each with evidence and the [`Change`]s that mend
//! it. Nothing here reads or writes a machine: the crate `tune` does.

#![forbid(unsafe_code)]

mod expected;
mod finding;
mod item;
mod items;
mod look;
mod parse;
mod paths;
mod rights;
mod snapshot;
mod sysctl;
#[cfg(test)]
mod tests;

pub use expected::Expected;
pub use finding::{Change, Finding, Level};
pub use item::Item;
pub use items::{ITEMS, check, item};
pub use parse::same_value;
pub use paths::{CARD_SETTINGS, OWN_SYSCTL_FILE, OWN_UNIT_FILE, PATHS};
pub use rights::Rights;
pub use snapshot::{Reading, Seen, Snapshot};
pub use sysctl::{SysctlLine, lines_for, name_of, path_of, shown, sysctl_lines};
