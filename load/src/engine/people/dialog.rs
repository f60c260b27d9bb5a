//! What one end of a call remembers of its dialog (RFC 3261 section 12).

use core::net::SocketAddr;
use sip_message::{Message, Name, NameAddr, Uri};

/// The other end, and the way to it.
#[derive(Default, Debug)]
pub struct Dialog {
    /// The other end's From or To with its tag.
    pub peer: Vec<u8>,
    /// The remote target.
    pub target: Vec<u8>,
    /// Route lines.
    pub routes: Vec<u8>,
    /// Where requests go if there is no route: to the target itself. None: to the server.
    pub hop: Option<SocketAddr>,
}

impl Dialog {
    /// Learns from the 2xx that made it, at the caller's end (section 12.1.2).
    pub fn of_response(&mut self, message: &Message<'_>) {
        let to = message.header(Name::To).map_or(&b""[..], |header| header.value);
        let routes: Vec<&[u8]> = message.values(Name::RecordRoute).collect();
        self.learn(message, to, routes.into_iter().rev());
    }

    /// Learns from the INVITE, at the callee's end (section 12.1.1).
    pub fn of_request(&mut self, message: &Message<'_>) {
        let from = message.header(Name::From).map_or(&b""[..], |header| header.value);
        self.learn(message, from, message.values(Name::RecordRoute));
    }

    fn learn<'m>(&mut self, message: &Message<'m>, peer: &[u8], routes: impl Iterator<Item = &'m [u8]>) {
        self.clear();
        self.peer.extend_from_slice(peer);
        let contact = message.values(Name::Contact).next().and_then(|value| NameAddr::parse(value).ok());
        let target = contact.map_or(&b""[..], |contact| contact.uri);
        self.target.extend_from_slice(target);
        for route in routes {
            self.routes.extend_from_slice(b"Route: ");
            self.routes.extend_from_slice(route);
            self.routes.extend_from_slice(b"\r\n");
        }
        if self.routes.is_empty()
            && let Ok(uri) = Uri::parse(target)
            && let Some(ip) = uri.host_ip()
        {
            self.hop = Some(SocketAddr::new(ip, uri.port.unwrap_or(5060)));
        }
    }

    /// Whether requests can be sent in it.
    pub fn is_known(&self) -> bool {
        !self.target.is_empty()
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.peer.clear();
        self.target.clear();
        self.routes.clear();
        self.hop = None;
    }
}
