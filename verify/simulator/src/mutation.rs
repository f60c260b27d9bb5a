//! Deliberate mistakes, put between the servers and the network, to see that each check can fail.

use crate::phone::Phone;
use crate::text::string;
use crate::world::{World, address};
use location::Cursor;
use sip_registrar::Record;
use wire::{Flow, Time};

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A final response goes to another phone.
    Misroute,
    /// A final response is followed by another one.
    SecondFinal,
    /// A forwarded request goes to somebody who has nothing to do with it.
    Relay,
    /// A request is forwarded that no stranger may have forwarded.
    Open,
    /// A forwarded request has a bare line feed in it.
    Garble,
    /// No final response to an INVITE leaves a server.
    SwallowFinals,
    /// The store forgets what it was to write.
    DropCommit,
    /// Workers are not woken any more after a minute.
    StopTimers,
    /// Bindings live for ever.
    KeepExpired,
    /// A stranger's binding is in the table.
    Stranger,
    /// One message comes a microsecond later than the seed says.
    Jitter,
    /// A ringing phone's caller is told that the call failed, and then goes on hearing it ring.
    ForeignAnswer,
    /// A message makes another one at the same moment, without end.
    Loop,
    /// Some translated phones are never called.
    Unreached,
    /// The location service answers without bindings.
    NoBindings,
    /// A record is lost.
    LoseRecord,
    /// A record says that its call ended later than it did.
    LateRecord,
}

impl World {
    /// Whether this mistake is to be made now.
    pub(crate) fn mutates(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
            && (mutation != Mutation::StopTimers || self.now > Time::from_secs(60))
    }

    /// Puts bindings into a server's table that should not be there.
    pub(crate) fn plant(&mut self, site: usize) {
        let ending = self.mutates(Mutation::KeepExpired);
        if !(ending || self.mutates(Mutation::Stranger) && self.now > Time::from_secs(20)) {
            return;
        }
        let location = &self.sites[site].shared.location;
        let (mut found, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(from) = cursor {
            cursor = location.list(from, 100, self.now, |aor, view| found.push(view.to_record(aor)));
        }
        for record in found {
            let contact = if ending { record.contact.clone() } else { Box::from(&b"sip:x@203.0.113.66"[..]) };
            let planted = Record { contact, expires: Time::FAR, ..record };
            // A run has room for all of them.
            let _ = location.register(&planted.aor, |table, _| table.restore(&planted));
        }
    }

    /// Closes the records that are due, and does one of them harm.
    pub(crate) fn spoil_records(&mut self, site: usize) {
        let mut book = self.sites[site].book.borrow_mut();
        book.expire(self.now);
        let once = self.mutated == 0;
        let done = match self.mutation {
            Some(Mutation::LoseRecord) if once => book.forget(),
            Some(Mutation::LateRecord) if once => book.delay(),
            _ => false,
        };
        self.mutated += u32::from(done);
    }

    /// Changes a message that a server sends; false: it is not sent at all.
    pub(crate) fn mutate(&mut self, site: usize, flow: &mut Flow, bytes: &mut Vec<u8>) -> bool {
        let mut reader = crate::text::Reader::default();
        let Some(message) = reader.read(bytes) else { return true };
        let (request, status) = (message.is_request(), message.status());
        let invite = message.method() == sip_message::Method::Invite;
        let once = self.mutated == 0 && self.now > Time::from_secs(16);
        match self.mutation {
            Some(Mutation::Jitter) if once => {
                self.now = self.now + core::time::Duration::from_micros(1);
            }
            Some(Mutation::ForeignAnswer) if once && status == 180 => {
                let text = string(bytes).replace("SIP/2.0 180 Ringing", "SIP/2.0 480 Gone").into_bytes();
                self.monitor.sent(self.now, self.who(site), flow.transport, flow.remote, &text);
            }
            Some(Mutation::Misroute) if once && status >= 200 => {
                let other =
                    self.phones.iter().map(|p| p.profile.network).find(|a| a.ip() != flow.remote.ip());
                flow.remote = other.unwrap_or(flow.remote);
            }
            Some(Mutation::SecondFinal) if once && status >= 300 => {
                self.monitor.sent(self.now, self.who(site), flow.transport, flow.remote, bytes);
                let text = string(bytes);
                let rest = text.get(11..).unwrap_or("").to_string();
                *bytes = format!("SIP/2.0 599{rest}").into_bytes();
            }
            Some(Mutation::Relay) if once && request => flow.remote = address("203.0.113.66:5060"),
            Some(Mutation::Open) if once && request => {
                let at = bytes.windows(2).position(|w| w == b"\r\n").unwrap_or(0);
                bytes.splice(at + 2..at + 2, format!("{}: 1\r\n", crate::attack::CLOSED).into_bytes());
            }
            Some(Mutation::Garble) if once && request => {
                let at = bytes.windows(2).position(|w| w == b"\r\n").unwrap_or(0);
                bytes.splice(at + 2..at + 2, *b"X: a\nb\r\n");
            }
            Some(Mutation::Unreached) if invite && request && message.to_tag().is_empty() => {
                let at = |phone: &Phone| phone.profile.network.ip() == flow.remote.ip();
                let phone = self.phones.iter().find(|phone| at(phone));
                return phone.is_none_or(|phone| phone.profile.translation.is_none());
            }
            Some(Mutation::SwallowFinals) if invite && status >= 200 => return false,
            _ => return true,
        }
        self.mutated += 1;
        true
    }
}
