//! `[overload]`: what is done when there is more to do than time.

use super::form::*;
use super::schema::{Checks, section};
use sip_node::OverloadRules;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What may count as an overload: one round of a worker takes 50 ms at most, and is none.
const DELAYS: RangeInclusive<Duration> = Duration::from_millis(60)..=Duration::from_secs(10);

section! {
    /// `[overload]`: what is done when there is more to do than time.
    pub struct Overload = "overload" {
        /// Whether new work is refused then. Without it everybody waits, repeats, and nobody is served.
        enabled: bool = true, flag(), live;
        /// A worker that has had more to do than time for so long is overloaded. From `"60ms"` to `"10s"`.
        delay: Duration = Duration::from_millis(200), length(DELAYS), live;
        /// Retry-After of the refusals, seconds. Trunks and what came through another proxy get none: a proxy
        /// would send nothing at all for so long (RFC 7339 section 5.10.2).
        retry_after: Duration = Duration::from_secs(5), seconds(1..=3_600), live;
        /// Load control by RFC 7339 and RFC 7415: trunks and `auth.fronts` that ask for it are told in Via
        /// how much they may bring, and trunks with `overload_control` get no more than they ask for. `false`
        /// turns off both.
        feedback: bool = true, flag(), live;
        /// In an overload the kernel drops datagrams that would be left unanswered, before the server has to
        /// read them (Linux 6.1 or later, CAP_BPF and CAP_PERFMON as for steering; it needs them at the start
        /// only). Where that is not available the log says so. `false` takes effect with a reload, `true`
        /// with a restart, and so does `enabled = true` where the server was started without. The kernel's
        /// check of the program takes most of a second of the start.
        kernel: bool = true, flag(), live;
    }
}

impl Checks for Overload {}

impl Overload {
    /// What the core needs of it.
    pub fn settings(&self, workers: usize) -> OverloadRules {
        OverloadRules {
            enabled: self.enabled,
            patience: self.delay,
            retry_after: u32::try_from(self.retry_after.as_secs()).unwrap_or(u32::MAX),
            feedback: self.feedback,
            kernel: self.kernel,
            workers: u16::try_from(workers).unwrap_or(u16::MAX),
        }
    }
}
