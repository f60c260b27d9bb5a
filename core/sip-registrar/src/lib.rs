//! The registrar: RFC 3261 section 10 with Path (RFC 3327), Service-Route (RFC 3608) and outbound
//! registrations (RFC 5626), over a compact location table.
//!
//! GRUU (RFC 5627) is out of scope: `pub-gruu` and `temp-gruu` parameters of a client are dropped.
#![forbid(unsafe_code)]

mod types;

pub use types::{BindingView, Change, Config, PathPolicy, Record, Reply};
