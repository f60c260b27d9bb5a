//! The decisions of a proxy (RFC 3261 section 16): which Route values are ours, which targets a request
//! is tried at and in which order, which response goes back, and what a forwarded message looks like.
//!
//! Everything here is a pure function or a pure state machine. `sip-node` puts the pieces together.
#![forbid(unsafe_code)]

pub mod breadth;
pub mod commands;
pub mod context;
pub mod cseq;
pub mod feedback;
pub mod locate;
pub mod loops;
pub mod rewrite;
pub mod routes;
pub mod session_timer;
pub mod stun;
pub mod token;
pub mod transport;
