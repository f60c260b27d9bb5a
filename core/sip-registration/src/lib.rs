//! Registering at another server, such as a carrier (RFC 3261 section 10.2, RFC 6140).
//!
//! | file | what |
//! |---|---|
//! | `plan` | one registration: when a REGISTER is due, what its answers mean, how long to rest |
//! | `reply` | what a response says of intervals and Contacts |
//! | `request` | the text of a REGISTER |
//! | `standing` | how a registration is, shared with all workers and shown to people |
//!
//! Nothing here sends, looks up a name, or reads a clock: the time and random numbers are arguments.
#![forbid(unsafe_code)]

mod plan;
mod reply;
mod request;
mod standing;

pub use plan::{FLOOR, Plan, Sent, Verdict};
pub use request::{Identity, Register, Rules};
pub use standing::{Shown, Standing, Standings, State};
