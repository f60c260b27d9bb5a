//! `[dns]`: name resolution.

use super::form::*;
use super::schema::{Checks, section};
use super::values::dns_server;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long one question may take.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);

section! {
    /// `[dns]`: name resolution.
    pub struct Dns = "dns" {
        /// Name servers, port 53 unless they name another. Empty: those of the system.
        servers: Vec<SocketAddr> = Vec::new(), list(text("address", dns_server)).once("server"), restart;
        /// How long one look-up may take.
        timeout: Duration = Duration::from_secs(2), length(TIMEOUTS), restart;
        /// Names each worker keeps.
        cache: usize = 10_000, number(0..=10_000_000), restart;
    }
}

impl Checks for Dns {}
