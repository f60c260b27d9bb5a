//! What messages of users look like: the texts that are the same in all, and the names by which what comes
//! back is known.

use super::Settings;
use crate::engine::ids::{CallName, hex, push_hex};
use crate::population::CallToken;
use core::net::SocketAddr;
use sip_message::push_u64;

/// Whose transaction or dialog it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A registration.
    Register,
    /// The end of a call that began it.
    Caller,
    /// The end that was called.
    Callee,
}

impl Kind {
    fn letter(self) -> u8 {
        match self {
            Kind::Register => b'r',
            Kind::Caller => b'c',
            Kind::Callee => b's',
        }
    }

    fn of(letter: u8) -> Option<Kind> {
        [Kind::Register, Kind::Caller, Kind::Callee].into_iter().find(|kind| kind.letter() == letter)
    }
}

/// A place at a worker, as it stands in branches and tags of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub kind: Kind,
    pub worker: u16,
    pub slot: u32,
    pub generation: u32,
}

impl Place {
    /// A number for the record of flows and for messages that cannot be sent; never 0.
    pub fn number(self) -> u64 {
        let kind = match self.kind {
            Kind::Register => 1,
            Kind::Caller => 2,
            Kind::Callee => 3,
        };
        kind << 62 | u64::from(self.slot) << 32 | u64::from(self.generation)
    }

    /// Where the marks of a number's flow are: kinds have slots of their own.
    pub fn of_marks(number: u64) -> usize {
        let slot = (number >> 32) as usize & 0x3fff_ffff;
        slot * 3 + (number >> 62).saturating_sub(1) as usize
    }

    /// Back from [`Place::number`].
    pub fn of_number(number: u64, worker: u16) -> Option<Place> {
        let kind = match number >> 62 {
            1 => Kind::Register,
            2 => Kind::Caller,
            3 => Kind::Callee,
            _ => return None,
        };
        Some(Place { kind, worker, slot: (number >> 32) as u32 & 0x3fff_ffff, generation: number as u32 })
    }

    /// Appends it: a tag of a dialog.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(self.kind.letter());
        push_hex(self.worker.into(), 4, out);
        push_hex(self.slot, 8, out);
        push_hex(self.generation, 8, out);
    }

    /// Reads a tag.
    pub fn read(text: &[u8]) -> Option<Place> {
        let (&letter, rest) = text.split_first()?;
        Some(Place {
            kind: Kind::of(letter)?,
            // The worker and the upper half of the slot.
            worker: (hex(rest)? >> 16) as u16,
            slot: hex(rest.get(4..)?)?,
            generation: hex(rest.get(12..)?)?,
        })
    }
}

const COOKIE: &[u8] = b"z9hG4bK";

/// Appends the branch of the transaction `cseq` of a place (RFC 3261 section 8.1.1.7). `letter` tells apart
/// what has the same number: the ACK of a 2xx.
pub fn push_branch(place: Place, cseq: u32, letter: u8, run: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(COOKIE);
    place.write(out);
    push_hex(cseq, 8, out);
    out.push(letter);
    push_hex(run, 8, out);
}

/// Reads a branch of this run: whose, and of which request.
pub fn read_branch(branch: &[u8], run: u32) -> Option<(Place, u32)> {
    let rest = branch.strip_prefix(COOKIE)?;
    let place = Place::read(rest)?;
    let cseq = hex(rest.get(21..)?)?;
    (hex(rest.get(30..)?)? == run).then_some((place, cseq))
}

/// The token and the place of the caller in a Call-ID of this program; the place only if it is of this run.
pub fn read_call_id(call_id: &[u8], run: u32) -> Option<(CallToken, Option<CallName>)> {
    let token = CallToken::decode(call_id)?;
    let name = call_id.get(token.text_length()..).and_then(|rest| CallName::read(rest, run));
    Some((token, name))
}

/// The user's number in a Contact of ours, and the port behind it.
pub fn read_contact(uri: &[u8]) -> Option<(u64, u16)> {
    let uri = sip_message::Uri::parse(uri).ok()?;
    let user = sip_message::parse_u64(uri.user?)?;
    Some((user, uri.port?))
}

/// Texts of one worker's messages.
pub struct Words {
    pub run: u32,
    /// The address as in messages.
    pub ip: Vec<u8>,
    pub domain: Vec<u8>,
    /// Up to the branch.
    via: Vec<u8>,
    /// Behind the user's number.
    contact: Vec<u8>,
    /// Session description, with the header lines before it.
    body: Vec<u8>,
}

fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(a) => a.ip().to_string(),
        SocketAddr::V6(a) => format!("[{}]", a.ip()),
    }
}

impl Words {
    /// The texts of a worker.
    pub fn new(settings: &Settings) -> Words {
        let local = settings.local(settings.own());
        let ip = settings.alias.clone().unwrap_or_else(|| host(local));
        let transport = match settings.transport {
            wire::Transport::Udp => String::new(),
            // Over TLS as well (RFC 7118 section 5).
            wire::Transport::Wss => ";transport=ws".to_owned(),
            other => format!(";transport={}", other.uri_name()),
        };
        let family = if local.is_ipv4() { "IP4" } else { "IP6" };
        let bare = local.ip();
        let sdp = format!(
            "v=0\r\no=- 1 1 IN {family} {bare}\r\ns=-\r\nc=IN {family} {bare}\r\nt=0 0\r\n\
             m=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:101 telephone-event/8000\r\n"
        );
        let body = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}", sdp.len());
        Words {
            run: settings.run_id,
            via: format!("Via: SIP/2.0/{} {ip}:{};branch=", settings.transport.via_name(), local.port())
                .into_bytes(),
            contact: format!("@{ip}:{}{transport}>\r\n", local.port()).into_bytes(),
            ip: ip.into_bytes(),
            domain: settings.domain.clone().into_bytes(),
            body: body.into_bytes(),
        }
    }

    /// Appends a Via line.
    pub fn push_via(&self, place: Place, cseq: u32, letter: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.via);
        push_branch(place, cseq, letter, self.run, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the Contact line of a user. Its user part is the number, which the name need not have.
    pub fn push_contact(&self, user: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Contact: <sip:");
        push_u64(user, out);
        out.extend_from_slice(&self.contact);
    }

    /// Appends the end of a message that has a session description.
    pub fn push_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.body);
    }
}

/// Appends several pieces.
pub fn put(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Place> {
        let kind = prop_oneof![Just(Kind::Register), Just(Kind::Caller), Just(Kind::Callee)];
        (kind, any::<u16>(), 0..1_u32 << 29, any::<u32>())
            .prop_map(|(kind, worker, slot, generation)| Place { kind, worker, slot, generation })
    }

    proptest! {
        #[test]
        fn names_are_read_as_they_were_written(place in place(), cseq: u32, run: u32) {
            let mut text = Vec::new();
            push_branch(place, cseq, b'a', run, &mut text);
            prop_assert_eq!(read_branch(&text, run), Some((place, cseq)));
            prop_assert_eq!(read_branch(&text, run.wrapping_add(1)), None);
            prop_assert_eq!(Place::of_number(place.number(), place.worker), Some(place));
            prop_assert!(place.number() != 0);
        }

        #[test]
        fn anything_can_be_read(text: Vec<u8>, run: u32) {
            read_branch(&text, run);
            read_call_id(&text, run);
            read_contact(&text);
            Place::read(&text);
        }
    }

    #[test]
    fn a_contact_names_user_and_port() {
        assert_eq!(read_contact(b"sip:1234@127.0.0.1:6060;transport=tcp"), Some((1234, 6060)));
        assert_eq!(read_contact(b"sip:1234@[::1]:6060"), Some((1234, 6060)));
        assert_eq!(read_contact(b"sip:u1234@127.0.0.1:6060"), None);
        assert_eq!(read_contact(b"sip:1234@127.0.0.1"), None);
    }
}
