//! The registrar: RFC 3261 section 10 with Path (RFC 3327), Service-Route (RFC 3608) and outbound
//! registrations (RFC 5626), over a compact location table.
//!
//! A [`Registration`] is read from a request and carried out in a [`Table`]; a proxy looks up with
//! [`Table::bindings`]; a store follows the [`Change`]s and puts them back with [`Table::restore`].
//!
//! A binding whose TCP connection is gone stays: its Contact may still answer a new connection.
//! Only for an outbound binding ([`BindingView::is_outbound`]) is a lost flow the end of the matter.
//! GRUU (RFC 5627) is out of scope: `pub-gruu` and `temp-gruu` parameters of a client are dropped.
#![forbid(unsafe_code)]

mod contact;
mod register;
mod reply;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use contact::parse_q;
pub use register::Registration;
pub use table::{AddressIndex, ContactAt, MOST_CANDIDATES, Owner, SharedIndex, Spot};
pub use table::{Table, TableFull, is_outside, is_public};
pub use types::{
    BindingView, Change, Config, Expected, FlowBinding, PathPolicy, Record, Reply, elsewhere, is_elsewhere,
};
