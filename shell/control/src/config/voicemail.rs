//! `[voicemail]`: where calls go that the callee does not take.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::types::{SILENT_AFTER, Target, millis, silence};
use super::values::target;
use sip_proxy::context::Reroute;
use std::time::Duration;

/// Names of the reasons for which a call goes to voicemail.
const REASONS: &[(&str, Reroute)] = &[
    ("busy", Reroute::BUSY),
    ("no-answer", Reroute::NO_ANSWER),
    ("rejected", Reroute::REJECTED),
    ("unregistered", Reroute::UNREGISTERED),
    ("unreachable", Reroute::UNREACHABLE),
];

section! {
    /// `[voicemail]`: where calls go that the callee does not take (RFC 4458).
    pub struct Voicemail = "voicemail" {
        /// The voicemail server. Required in this section.
        target: Target = Target::default(), text("SIP URI", target).no_default(), live;
        /// For which reasons a call goes there.
        on: Vec<Reroute> =
            REASONS.iter().map(|(_, reason)| *reason).collect(), list(choice(REASONS)).once("reason"), live;
        /// How long a callee may ring first. 1 s to 1 h.
        no_answer_timeout: Duration = Duration::from_secs(20), length(Duration::from_secs(1)..=HOUR), live;
        /// As in `[[trunk]]`: a voicemail server that sends nothing for this time is marked and probed.
        silent_after: Duration = SILENT_AFTER, silence(), live;
    }
}

impl Checks for Voicemail {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, _: &Context<'_>) {
        if section.is_written() && !section.has("target") {
            let mend = "add target = \"sip:voicemail@192.0.2.1\", or remove the section";
            reader.error(section.span(), Fault::new("voicemail without target", mend));
        }
    }
}

impl Voicemail {
    /// What the core needs of it.
    pub fn settings(&self) -> sip_node::Voicemail {
        sip_node::Voicemail {
            uri: self.target.uri.clone().into_bytes(),
            on: self.on.iter().copied().fold(Reroute::NEVER, Reroute::and),
            no_answer_ms: millis(self.no_answer_timeout),
            silent_after_ms: millis(self.silent_after),
        }
    }
}
