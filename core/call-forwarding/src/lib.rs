//! What users have set for calls to them, and how a forwarded call says so.
//!
//! [`Rules`] has the settings of one user: where its calls are forwarded to, and when; which numbers ring
//! besides; how long; whether anything rings at all. [`Rules::first`] and [`Rules::forwards`] decide.
//!
//! [`Chain`] holds the forwardings of one call, those of earlier servers included, and stops a loop.
//! [`write_diversion`] (RFC 5806) and [`write_history`] (RFC 7044) report them.
#![forbid(unsafe_code)]

mod chain;
mod lines;
mod reason;
mod rules;
mod target;
mod when;

pub use chain::{Chain, Hop, received};
pub use lines::{Disclosure, write_diversion, write_history};
pub use reason::Reason;
pub use rules::{ALSO_MAX, First, RING_MAX, Rules};
pub use target::{TARGET_MAX, check_target, uri_of};
pub use when::When;
