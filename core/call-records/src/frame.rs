//! Events as bytes: what a journal holds.
//!
//! A frame is its length (u16), a check (u32), and the event. Numbers are little-endian, texts have their
//! length before them (u8). A reader that meets bytes which are no frame knows that the writer got no
//! further.

use crate::event::{Answered, Began, Ended, Event, Failed, Party, Tried, What, cut};
use crate::name::CallName;
use core::hash::Hasher;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use siphasher::sip::SipHasher13;

/// Bytes before the event: its length, and the check.
pub const HEAD: usize = 6;
/// Bytes of the longest frame.
pub const FRAME_MAX: usize = HEAD + 1 + 16 + 8 + 8 + 10 * 256 + 32;

const BEGAN: u8 = 1;
const TRIED: u8 = 2;
const RANG: u8 = 3;
const ANSWERED: u8 = 4;
const FAILED: u8 = 5;
const ENDED: u8 = 6;
const REFUSED: u8 = 7;
const LEFT: u8 = 8;
const LIVES: u8 = 9;
const DETACHED: u8 = 10;
const REFRESHED: u8 = 11;
const FORWARDED: u8 = 12;

/// Why no event could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// The bytes end before the frame does, or a length of zero says that none was written.
    Short,
    /// The check does not fit: the frame was not written to its end, or is damaged.
    Torn,
    /// The check fits, and the event has a form that this version does not know.
    Unknown,
}

/// Appends an event. Texts are cut to [`TEXT_MAX`](crate::TEXT_MAX) bytes.
pub fn write(event: &Event<'_>, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&[0; HEAD]);
    let kind = match event.what {
        What::Began(_) => BEGAN,
        What::Tried(_) => TRIED,
        What::Rang => RANG,
        What::Answered(_) => ANSWERED,
        What::Failed(_) => FAILED,
        What::Ended(_) => ENDED,
        What::Refused(..) => REFUSED,
        What::Left => LEFT,
        What::Lives(_) => LIVES,
        What::Detached => DETACHED,
        What::Refreshed(..) => REFRESHED,
        What::Forwarded(_) => FORWARDED,
    };
    out.push(kind);
    out.extend_from_slice(&event.name.number().to_le_bytes());
    out.extend_from_slice(&event.at.to_le_bytes());
    out.extend_from_slice(&event.ahead.to_le_bytes());
    push_what(&event.what, out);
    let Some((head, body)) = out.get_mut(from..).and_then(|frame| frame.split_at_mut_checked(HEAD)) else {
        return;
    };
    let length = u16::try_from(body.len()).unwrap_or(0);
    let (first, second) = head.split_at_mut(2);
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(&check(body).to_le_bytes());
}

fn push_what(what: &What<'_>, out: &mut Vec<u8>) {
    match *what {
        What::Began(began) => push_began(&began, out),
        What::Refused(began, status) => {
            out.extend_from_slice(&status.to_le_bytes());
            push_began(&began, out);
        }
        What::Tried(tried) => {
            out.extend_from_slice(&tried.branch.to_le_bytes());
            push_text(tried.target, out);
            push_text(tried.trunk, out);
        }
        What::Rang | What::Left | What::Detached => {}
        What::Forwarded(cause) => out.extend_from_slice(&cause.to_le_bytes()),
        What::Answered(answered) => {
            out.extend_from_slice(&answered.status.to_le_bytes());
            out.extend_from_slice(&answered.dialog.to_le_bytes());
            out.extend_from_slice(&answered.branch.to_le_bytes());
            let texts = [answered.callee_tag, answered.target, answered.trunk, answered.codec];
            texts.into_iter().for_each(|text| push_text(text, out));
        }
        What::Failed(failed) => {
            out.extend_from_slice(&failed.status.to_le_bytes());
            out.extend_from_slice(&[party_number(failed.by), u8::from(failed.late)]);
        }
        What::Lives(dialog) => out.extend_from_slice(&dialog.to_le_bytes()),
        What::Refreshed(dialog, seconds) => {
            out.extend_from_slice(&dialog.to_le_bytes());
            out.extend_from_slice(&seconds.to_le_bytes());
        }
        What::Ended(ended) => {
            out.push(party_number(ended.by));
            out.extend_from_slice(&ended.dialog.to_le_bytes());
            out.extend_from_slice(&ended.ago.to_le_bytes());
        }
    }
}

fn push_began(began: &Began<'_>, out: &mut Vec<u8>) {
    out.push(u8::from(began.within));
    push_address(began.source, out);
    let texts = [
        began.call_id,
        began.from,
        began.caller_tag,
        began.to,
        began.request_uri,
        began.asserted,
        began.user,
        began.trunk,
        began.transport,
    ];
    texts.into_iter().for_each(|text| push_text(text, out));
}

/// The first event of these bytes, and how many of them it has.
///
/// # Errors
/// If there is no event.
pub fn read(bytes: &[u8]) -> Result<(Event<'_>, usize), Unreadable> {
    let (length, rest) = bytes.split_first_chunk::<2>().ok_or(Unreadable::Short)?;
    let (sum, rest) = rest.split_first_chunk::<4>().ok_or(Unreadable::Short)?;
    let length = usize::from(u16::from_le_bytes(*length));
    let body = rest.get(..length).filter(|body| !body.is_empty()).ok_or(Unreadable::Short)?;
    if check(body) != u32::from_le_bytes(*sum) {
        return Err(Unreadable::Torn);
    }
    let event = event_of(&mut Reader(body)).ok_or(Unreadable::Unknown)?;
    Ok((event, HEAD + length))
}

/// Bytes of the frame at the start of these bytes, without a look at what it holds.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let length = usize::from(u16::from_le_bytes(*bytes.first_chunk::<2>()?));
    Some(HEAD + length).filter(|length| *length > HEAD && *length <= bytes.len())
}

fn event_of<'a>(reader: &mut Reader<'a>) -> Option<Event<'a>> {
    let kind = reader.byte()?;
    let name = CallName::new(u128::from_le_bytes(reader.array()?));
    let at = u64::from_le_bytes(reader.array()?);
    let ahead = i64::from_le_bytes(reader.array()?);
    let what = match kind {
        BEGAN => What::Began(reader.began()?),
        REFUSED => {
            let status = u16::from_le_bytes(reader.array()?);
            What::Refused(reader.began()?, status)
        }
        TRIED => What::Tried(Tried {
            branch: u16::from_le_bytes(reader.array()?),
            target: reader.text()?,
            trunk: reader.text()?,
        }),
        RANG => What::Rang,
        FORWARDED => What::Forwarded(u16::from_le_bytes(reader.array()?)),
        ANSWERED => What::Answered(Answered {
            status: u16::from_le_bytes(reader.array()?),
            dialog: u64::from_le_bytes(reader.array()?),
            branch: u16::from_le_bytes(reader.array()?),
            callee_tag: reader.text()?,
            target: reader.text()?,
            trunk: reader.text()?,
            codec: reader.text()?,
        }),
        FAILED => What::Failed(Failed {
            status: u16::from_le_bytes(reader.array()?),
            by: reader.party()?,
            late: reader.byte()? != 0,
        }),
        LEFT => What::Left,
        DETACHED => What::Detached,
        LIVES => What::Lives(u64::from_le_bytes(reader.array()?)),
        REFRESHED => {
            let dialog = u64::from_le_bytes(reader.array()?);
            What::Refreshed(dialog, u32::from_le_bytes(reader.array()?))
        }
        ENDED => What::Ended(Ended {
            by: reader.party()?,
            dialog: u64::from_le_bytes(reader.array()?),
            ago: u64::from_le_bytes(reader.array()?),
        }),
        _ => return None,
    };
    reader.0.is_empty().then_some(Event { name, at, ahead, what })
}

/// Not a defence against anybody who can write the file.
fn check(body: &[u8]) -> u32 {
    let mut hasher = SipHasher13::new();
    hasher.write(body);
    hasher.finish() as u32
}

const fn party_number(party: Party) -> u8 {
    match party {
        Party::Caller => 0,
        Party::Callee => 1,
        Party::Server => 2,
        Party::Timeout => 3,
    }
}

fn push_text(text: &[u8], out: &mut Vec<u8>) {
    let text = cut(text);
    out.push(u8::try_from(text.len()).unwrap_or(0));
    out.extend_from_slice(text);
}

fn push_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(6);
            out.extend_from_slice(&v6.octets());
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn began(&mut self) -> Option<Began<'a>> {
        Some(Began {
            within: self.byte()? != 0,
            source: self.address()?,
            call_id: self.text()?,
            from: self.text()?,
            caller_tag: self.text()?,
            to: self.text()?,
            request_uri: self.text()?,
            asserted: self.text()?,
            user: self.text()?,
            trunk: self.text()?,
            transport: self.text()?,
        })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.byte()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn party(&mut self) -> Option<Party> {
        Party::ALL.get(usize::from(self.byte()?)).copied()
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let ip: IpAddr = match self.byte()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, u16::from_le_bytes(self.array()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TEXT_MAX;
    use proptest::prelude::*;

    fn began<'a>(text: &'a [u8], source: SocketAddr) -> Began<'a> {
        Began {
            call_id: text,
            from: b"sip:ann@example.com",
            caller_tag: b"t1",
            to: b"sip:bob@example.com",
            request_uri: b"sip:bob@example.com",
            asserted: b"",
            user: b"ann@example.com",
            trunk: b"",
            source,
            transport: b"UDP",
            within: false,
        }
    }

    fn event(kind: u8, text: &[u8], at: u64) -> Event<'_> {
        let source = if at & 1 == 0 { "192.0.2.1:5060" } else { "[2001:db8::1]:5062" };
        let by = Party::ALL[usize::from(kind) / 11 % 4];
        let what = match kind % 12 {
            0 => What::Began(began(text, source.parse().expect("an address"))),
            1 => What::Tried(Tried { target: text, trunk: b"carrier", branch: 258 }),
            2 => What::Rang,
            5 => What::Refused(began(text, source.parse().expect("an address")), 403),
            6 => What::Left,
            7 => What::Lives(at),
            8 => What::Detached,
            9 => What::Refreshed(at, 1_800),
            11 => What::Forwarded(486),
            3 => What::Answered(Answered {
                status: 200,
                dialog: at,
                branch: 513,
                callee_tag: b"t2",
                target: text,
                trunk: b"carrier",
                codec: b"m=audio 4000 RTP/AVP 0",
            }),
            4 => What::Failed(Failed { status: 486, by, late: at & 1 == 0 }),
            _ => What::Ended(Ended { by, dialog: at, ago: 7 }),
        };
        Event { name: CallName::new(u128::from(at) << 64 | 7), at, ahead: -5, what }
    }

    #[test]
    fn longest_frame_is_within_its_limit() {
        let text = [b'x'; 300];
        let mut all =
            Began { source: "[::1]:5060".parse().expect("an address"), ..began(&text, ([0; 4], 0).into()) };
        for field in
            [&mut all.from, &mut all.caller_tag, &mut all.to, &mut all.request_uri, &mut all.asserted]
        {
            *field = &text;
        }
        (all.user, all.trunk, all.transport) = (&text, &text, &text);
        let mut out = Vec::new();
        let what = What::Refused(all, 403);
        write(&Event { name: CallName::new(1), at: 2, ahead: 0, what }, &mut out);
        assert!(out.len() <= FRAME_MAX, "{}", out.len());
        let (event, length) = read(&out).expect("a frame");
        assert_eq!(length, out.len());
        assert!(matches!(event.what, What::Refused(began, 403) if began.trunk.len() == TEXT_MAX));
    }

    #[test]
    fn zeros_are_no_frame() {
        assert_eq!(read(&[0; 64]), Err(Unreadable::Short));
        assert_eq!(length(&[0; 64]), None);
    }

    proptest! {
        #[test]
        fn events_come_back(kinds in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..TEXT_MAX), any::<u64>()), 1..8)) {
            let mut out = Vec::new();
            let events: Vec<_> = kinds.iter().map(|(kind, text, at)| event(*kind, text, *at)).collect();
            events.iter().for_each(|event| write(event, &mut out));
            let mut rest = out.as_slice();
            for event in events {
                let (read, length) = read(rest).expect("a frame");
                prop_assert_eq!(read, event);
                prop_assert_eq!(super::length(rest), Some(length));
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_read_safely(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (read(&bytes), length(&bytes));
        }

        #[test]
        fn damage_is_noticed(at in 2usize..120, with in 1u8..) {
            let mut out = Vec::new();
            write(&event(0, b"call@host", 4), &mut out);
            let at = at % out.len();
            prop_assume!(at >= 2);
            out[at] ^= with;
            prop_assert!(read(&out).is_err());
        }
    }
}
