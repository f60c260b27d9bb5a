//! Which trunks a called number goes over: a table of prefixes, made once from rows and then only read.
//!
//! The longest prefix of a number decides. Its ways are tried by priority, then by cost, both ascending, then
//! in the order in which they were added.
//!
//! [`Builder`] takes the rows and finds those that contradict each other. [`RouteTable`] is the result:
//! sorted prefixes below a small index, so that a look-up reads a few cache lines, whatever the prefixes are.
//!
//! ```
//! use number_routes::{Builder, Digits, Way};
//!
//! let mut builder = Builder::new(vec![b"near".to_vec(), b"far".to_vec()]);
//! for (prefix, trunk) in [("+49", 1), ("+4930", 0)] {
//!     let prefix = Digits::parse(prefix.as_bytes()).unwrap();
//!     builder.add(prefix, Way { trunk, priority: 1, cost: 0, line: 1 }).unwrap();
//! }
//! let table = builder.finish(10).unwrap();
//! let found = table.find(Digits::dialled(b"+49-30-555")).unwrap();
//! assert_eq!((found.prefix.to_string(), found.ways[0].trunk), ("+4930".to_owned(), 0));
//! ```
#![forbid(unsafe_code)]

mod builder;
mod digits;
mod index;
mod table;
#[cfg(test)]
mod tests;

pub use builder::{Builder, Conflict, Conflicts, Full};
pub use digits::{BadDigit, Digits, MAX_DIGITS, is_separator};
pub use table::{Match, RouteTable, Way};

/// Rows of a table at most. Such a table takes 160 MB, and up to 260 MB more while it is made.
pub const MAX_ROWS: usize = 4_000_000;

/// Ways of one prefix at most. A call that tries them all has taken longer than a caller waits.
pub const MAX_WAYS: usize = 16;
