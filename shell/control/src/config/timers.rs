//! `[timers]`: timers of transactions.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::values::show_duration;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::de::DeValue;

/// How long T1, T2 and T4 may be.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// The longest that a caller may wait for a 100 (RFC 3261 section 17.2.1).
const LONGEST_TRYING: Duration = Duration::from_millis(200);

section! {
    /// `[timers]`: RFC 3261 table 4.
    pub struct Timers = "timers" {
        /// Round-trip estimate (RFC 3261 table 4).
        t1: Duration = Duration::from_millis(500), length(INTERVALS), restart;
        /// Longest interval between retransmissions.
        t2: Duration = Duration::from_secs(4), length(INTERVALS), restart;
        /// Longest life of a message in the network.
        t4: Duration = Duration::from_secs(5), length(INTERVALS), restart;
        /// How long an INVITE waits for another response before its caller gets a 100 (RFC 3261 section
        /// 17.2.1). `"0s"`: every INVITE gets a 100 at once, as in an overload. With `"200ms"`, a call whose
        /// callee rings within that time has no 100.
        trying: Duration = Duration::ZERO, trying(), restart;
    }
}

/// A length of time. Earlier versions also read `"auto"`.
fn trying() -> One<Duration> {
    length(Duration::ZERO..=LONGEST_TRYING).except(|value| match value {
        DeValue::String(text) if text == "auto" => {
            Some(Fault::new("\"auto\" is not in this version", "write \"0s\" (a 100 at once) to \"200ms\""))
        }
        _ => None,
    })
}

impl Checks for Timers {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, _: &Context<'_>) {
        if self.t2 < self.t1 {
            let message = format!("t2 ({}) is below t1 ({})", show_duration(self.t2), show_duration(self.t1));
            let at = if section.has("t2") { "t2" } else { "t1" };
            let fault = Fault::new(message, "t2 is the longest interval, t1 the first");
            reader.error(&section.span_of(at), fault);
        }
    }
}
