//! Call records: one record for each attempt to call, whatever becomes of it.
//!
//! A worker says what happens to a call as [`Event`]s, when it happens. An event is short, names its call by
//! a keyed hash of its server transaction ([`Namer`]), and is written into a journal as a frame
//! ([`frame`]). So a worker remembers nothing, and the events outlive the process. The reader of the journal
//! puts the events together ([`Ledger`]) and gets a [`Record`] when a call is over.
//!
//! The name of a call does not change with a restart: an INVITE that is repeated after it finds the record
//! that was begun before. A BYE hours later finds it by its dialog.
#![forbid(unsafe_code)]

mod event;
pub mod frame;
mod ledger;
mod name;
mod record;
mod session;

pub use event::{
    Answered, Began, Ended, Event, Failed, NO_BRANCH, NO_DIALOG, Party, TEXT_MAX, Tried, What, cut,
};
pub use ledger::{Ledger, Limits};
pub use name::{CallName, Invite, Namer};
pub use record::{Callee, Record, Source};
pub use session::SESSION_MAX;
