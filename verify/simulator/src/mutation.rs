//! Deliberate mistakes, put between the servers and the network, to see that each check can fail.

use crate::text::string;
use crate::world::{World, address};
use sip_message::Index;
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
}

impl World {
    /// Whether this mistake is to be made now.
    pub(crate) fn mutates(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
            && (mutation != Mutation::StopTimers || self.now > Time::from_secs(60))
    }

    /// Changes a message that a server sends; false: it is not sent at all.
    pub(crate) fn mutate(&mut self, site: usize, flow: &mut Flow, bytes: &mut Vec<u8>) -> bool {
        let mut index = Index::new();
        let mut reader = crate::text::Reader::default();
        let Some(message) = reader.read(bytes) else { return true };
        let _ = &mut index;
        let (request, status) = (message.is_request(), message.status());
        let invite = message.method() == sip_message::Method::Invite;
        let once = self.mutated == 0 && self.now > Time::from_secs(16);
        match self.mutation {
            Some(Mutation::Misroute) if once && status >= 200 => {
                let other = self.phones.iter().map(|p| p.profile.network).find(|a| a.ip() != flow.remote.ip());
                flow.remote = other.unwrap_or(flow.remote);
            }
            Some(Mutation::SecondFinal) if once && status >= 300 => {
                let who = crate::check::Who { site, life: self.sites[site].life, epoch: self.sites[site].epoch };
                self.monitor.sent(self.now, who, flow.transport, flow.remote, bytes);
                let text = string(bytes);
                let rest = text.get(11..).unwrap_or("").to_string();
                *bytes = format!("SIP/2.0 599{rest}").into_bytes();
            }
            Some(Mutation::Relay) if once && request => flow.remote = address("203.0.113.66:5060"),
            Some(Mutation::Garble) if once && request => {
                let at = bytes.windows(2).position(|w| w == b"\r\n").unwrap_or(0);
                bytes.splice(at + 2..at + 2, *b"X: a\nb\r\n");
            }
            Some(Mutation::SwallowFinals) if invite && status >= 200 => return false,
            _ => return true,
        }
        self.mutated += 1;
        true
    }
}
