//! `[registrar]`: registrations.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::values::{show_duration, target};
use std::time::Duration;

/// The longest expiry the protocol can carry (RFC 3261 20.19), seconds.
const FOREVER: u64 = u32::MAX as u64;

section! {
    /// `[registrar]`: registrations (RFC 3261 section 10). Durations are whole seconds.
    pub struct Registrar = "registrar" {
        /// Shorter registrations are refused with 423 and Min-Expires. Values over 3600 count as 3600 (RFC
        /// 3261 section 10.3).
        min_expires: Duration = Duration::from_secs(60), seconds(1..=FOREVER), live;
        /// Longer ones are shortened to this.
        max_expires: Duration = Duration::from_secs(7_200), seconds(1..=FOREVER), live;
        /// Where a request names none.
        default_expires: Duration = Duration::from_secs(3_600), seconds(1..=FOREVER), live;
        /// Bindings of one address-of-record; more are refused with 403.
        max_bindings: usize = 10, number(1..=1_000), live;
        /// URIs for Service-Route in the 200 (RFC 3608), in order.
        service_route: Vec<String> = Vec::new(), list(text("SIP URI", uri)), live;
    }
}

/// A SIP URI as written.
fn uri(written: &str) -> Result<String, Fault> {
    target(written).map(|target| target.uri)
}

impl Checks for Registrar {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, _: &Context<'_>) {
        let Registrar { min_expires, max_expires, default_expires, .. } = *self;
        if min_expires > max_expires {
            let at = if section.has("min_expires") { "min_expires" } else { "max_expires" };
            let message = format!(
                "min_expires ({}) is above max_expires ({})",
                show_duration(min_expires),
                show_duration(max_expires)
            );
            reader.error(&section.span_of(at), Fault::new(message, "swap them or move one"));
        } else if section.has("default_expires") && !(min_expires..=max_expires).contains(&default_expires) {
            let message =
                format!("default_expires ({}) is outside the limits", show_duration(default_expires));
            let mend = format!("from {} to {}", show_duration(min_expires), show_duration(max_expires));
            reader.error(&section.span_of("default_expires"), Fault::new(message, mend));
        } else {
            // Limits moved without the default: the default follows.
            self.default_expires = default_expires.clamp(min_expires, max_expires);
        }
    }
}

impl Registrar {
    /// What the core needs of it.
    pub fn settings(&self) -> sip_registrar::Config {
        let seconds = |length: Duration| u32::try_from(length.as_secs()).unwrap_or(u32::MAX);
        let service_route: Vec<String> = self.service_route.iter().map(|uri| format!("<{uri}>")).collect();
        sip_registrar::Config {
            min_expires: seconds(self.min_expires),
            max_expires: seconds(self.max_expires),
            default_expires: seconds(self.default_expires),
            max_bindings: self.max_bindings,
            service_route: service_route.join(", ").into_bytes(),
            ..sip_registrar::Config::default()
        }
    }
}
