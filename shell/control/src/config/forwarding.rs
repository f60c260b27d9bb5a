//! `[forwarding]`: calls that users have forwarded.

use super::form::*;
use super::schema::{Checks, section};
use super::types::millis;
use std::time::Duration;

/// Names of the answers for users who do not want to be disturbed.
const ANSWERS: &[(&str, u16)] = &[("busy", 486), ("unavailable", 480)];
const LONGEST: Duration = Duration::from_secs(600);

section! {
    /// `[forwarding]`: calls that users have forwarded. See [forwarding](../guide/forwarding.md).
    pub struct Forwarding = "forwarding" {
        /// How often one call may be forwarded, forwardings by other servers included. 1 to 20.
        limit: u32 = 5, number(1..=20), live;
        /// How long the phones of a user ring whose calls are forwarded when nobody answers, unless the user
        /// or `no_answer_timeout` in `[voicemail]` says so. 1 s to 10 min.
        ring_time: Duration = Duration::from_secs(20), length(Duration::from_secs(1)..=LONGEST), live;
        /// The answer for a user who does not want to be disturbed, if the call goes nowhere else: `"busy"`
        /// (486) or `"unavailable"` (480).
        do_not_disturb: u16 = 486, choice(ANSWERS), live;
        /// Requests to trunks report forwardings in Diversion (RFC 5806).
        diversion: bool = true, flag(), live;
        /// All requests report them in History-Info (RFC 7044).
        history_info: bool = true, flag(), live;
    }
}

impl Checks for Forwarding {}

impl Forwarding {
    /// What the core needs of it.
    pub fn settings(&self) -> sip_node::CallForwarding {
        sip_node::CallForwarding {
            limit: self.limit,
            ring_ms: millis(self.ring_time),
            quiet_status: self.do_not_disturb,
            diversion: self.diversion,
            history: self.history_info,
        }
    }
}
