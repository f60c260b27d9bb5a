//! What operates the server rather than serves calls: configuration, the admin HTTP API and its
//! client, metrics, logging, and the word to the service manager.
//!
//! Nothing here knows what a SIP method means; method names in the configuration are words.
#![forbid(unsafe_code)]

pub mod admin;
pub mod client;
pub mod config;
pub mod log;
pub mod memory;
pub mod metrics;
mod outlet;
pub mod say;
pub mod signals;
pub mod systemd;
