//! `[emergency]`: where emergency calls go.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::server::Server;
use super::types::{Target, bytes_of, check_targets, millis, silence, targets, uris};
use super::values::dialled;
use std::time::Duration;

/// How long an emergency target may say nothing at all, where the file does not say.
const SILENT_AFTER_EMERGENCY: Duration = Duration::from_secs(1);

section! {
    /// `[emergency]`: where emergency calls go (RFC 5031).
    pub struct Emergency = "emergency" {
        /// SIP URIs in failover order, not in our own domains. Required in this section. If a trunk at the
        /// same address asks for less traffic, emergency calls are not reduced.
        targets: Vec<Target> = Vec::new(), targets(), live;
        /// Dialled numbers: `["112", "911"]`, at most 100, of 2 to 32 digits, `+` and `*`. They match the
        /// user part of a URI in one of our domains, or a `tel:` number; parameters may follow.
        numbers: Vec<String> = Vec::new(), list(text("number", dialled)).once("number"), live;
        /// Whether callers without an account may make emergency calls.
        strangers: bool = false, flag(), live;
        /// As in `[[trunk]]`.
        silent_after: Duration = SILENT_AFTER_EMERGENCY, silence(), live;
    }
}

impl Emergency {
    /// Numbers that may be named: each is compared with the target of each new call.
    pub const MOST_NUMBERS: usize = 100;
    /// The longest of them, characters: E.164 has 15 digits, to which prefixes may come.
    pub const LONGEST_NUMBER: usize = 32;

    /// What the core needs of it.
    pub fn settings(&self) -> sip_node::Emergency {
        sip_node::Emergency {
            targets: uris(&self.targets),
            numbers: bytes_of(&self.numbers),
            strangers: self.strangers,
            silent_after_ms: millis(self.silent_after),
        }
    }
}

impl Checks for Emergency {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        check_targets(section, reader, "targets");
        not_ourselves(reader, section, &self.targets, context.server);
        if section.is_written() && !section.has("targets") {
            let mend = "add targets = [\"sip:192.0.2.1:5060\"], or remove the section";
            reader.error(section.span(), Fault::new("emergency calls without target", mend));
        }
        let own = &context.server.domains;
        for target in self.targets.iter().filter(|target| own.contains(&target.host)) {
            let message =
                format!("emergency calls to \"{}\", our own domain, would come back here", target.host);
            let mend = "name the server that takes them";
            reader.error(&section.span_of("targets"), Fault::new(message, mend));
        }
        if self.numbers.len() > Emergency::MOST_NUMBERS {
            let message = format!("more than {} numbers for emergencies", Emergency::MOST_NUMBERS);
            let mend = "remove some of them; others can have a [[route]]";
            reader.error(&section.span_of("numbers"), Fault::new(message, mend));
        }
    }
}

/// Reports emergency targets that are this server itself: a call to one would come back.
fn not_ourselves(reader: &mut Reader<'_>, section: &Section<'_, '_>, targets: &[Target], server: &Server) {
    for target in targets {
        let port = target.port.unwrap_or(5060);
        let listens = server.listen.iter().any(|listener| {
            let (address, name) = (listener.address, listener.advertise.as_ref());
            let named =
                name.is_some_and(|name| name.host == target.host && name.port.unwrap_or(5060) == port);
            named || (target.ip() == Some(address.ip()) && port == address.port())
        });
        let alias = server.aliases.contains(&target.host)
            && (target.port.is_none()
                || server.listen.iter().any(|listener| listener.address.port() == port));
        if listens || alias {
            let message = format!("the target \"{}\" is this server, calls would come back here", target.uri);
            reader.error(&section.span_of("targets"), Fault::new(message, "name another server"));
        }
    }
}
