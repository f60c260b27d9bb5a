//! Everything that is written for SQLite: no other part of the crate names it.

pub(crate) mod bindings;
pub(crate) mod database;
mod error;
pub(crate) mod removed;
mod row;
pub(crate) mod subscribers;
pub(crate) mod watch;
