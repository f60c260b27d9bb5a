//! `[timers]`: timers of transactions.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::types::millis;
use super::values::show_duration;
use sip_node::Trying;
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
        /// When the caller of an INVITE gets a 100 (RFC 3261 section 17.2.1), unless another response came
        /// before. `"auto"`: at once, or after 200 ms if the neighbour that the INVITE goes to answers soon.
        /// It does if the first responses to its last 16 INVITEs all came within 100 ms. A call whose callee
        /// rings at once then has no 100, which saves one message in seven. A length of time, at most
        /// `"200ms"`: after this time, whatever the neighbour. `"0s"`: every INVITE gets a 100 at once, as it
        /// does in an overload.
        trying: Trying = Trying::Learned, trying(), restart;
    }
}

/// `"auto"`, or a length of time.
fn trying() -> One<Trying> {
    let wait = length(Duration::ZERO..=LONGEST_TRYING);
    let parse = move |value: &DeValue<'_>| match value {
        DeValue::String(text) if text == "auto" => Ok(Trying::Learned),
        _ => wait.read(value).map(|wait| Trying::After(millis(wait))).map_err(|fault| {
            let mend = format!("\"auto\", or: {}", fault.mend);
            Fault { mend, ..fault }
        }),
    };
    One::new("`\"auto\"`, or 0 to 200ms", parse, |trying| match *trying {
        Trying::Learned => quoted("auto"),
        Trying::After(0) => "0".to_owned(),
        Trying::After(wait) => quoted(format_args!("{wait}ms")),
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
