//! Messages checked and written, without a memory of calls.

pub(crate) mod check;
pub(crate) mod forwarder;
pub(crate) mod next_hop;
pub(crate) mod respond;
pub(crate) mod send;
pub(crate) mod step;
