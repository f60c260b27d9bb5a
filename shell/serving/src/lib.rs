//! A server and a load balancer, put together from the core, the shell and a configuration.
//!
//! Here the core meets the shell: [`serve()`] and [`balance()`] open the sockets, start a machine of the core
//! on each worker, answer the admin API, and end when they are told to.
#![forbid(unsafe_code)]

mod balance;
mod bugs;
mod certificates;
mod connecting;
mod connections;
mod counters;
mod interfaces;
mod keys;
mod memory;
mod operator;
mod process;
mod room;
mod serve;
mod startup;
mod steering;
mod throttle;

pub use balance::{balance, balancing_algorithms, check_nodes};
pub use serve::{METHODS, check_routes, serve};
pub use startup::Failure;

use std::path::{Path, PathBuf};

/// Findings of a configuration that are shown one by one. A file that is no configuration at all has
/// thousands, and the first ones say so.
pub const SHOWN_ERRORS: usize = 20;

/// The whole path, for people: a relative one means little without the folder it starts from.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
