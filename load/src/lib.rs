//! The load generator's engine: what is sent, when, and what is made of what comes back.
//!
//! Like the protocol core this crate owns no socket, thread or clock: it is a machine that the worker
//! runtime drives, and everything random comes from a seed.
#![forbid(unsafe_code)]

pub mod backend;
pub mod engine;
pub mod metrics;
mod nearest;
pub mod population;
pub mod report;
pub mod scenario;
mod timers;

pub use nearest::nearest;
