//! The bytes of the log: a header, then batches of records. Pure; nothing here touches a file.
//!
//! All numbers of fixed size are little endian; others are LEB128, signed ones in zigzag.
//!
//! ```text
//! header  magic 8 | version u32 | salt 16 | base i64 (wall-clock seconds) | CRC32 u32
//! batch   magic 8 | bytes of its frames u64 | synced u64 | mark u64 | frames
//! frame   length u32 | CRC32 u32 (of a seed from the salt, the length, the records) | records, some 4 KiB
//! record  length u32 | kind u8 | what the kind has
//! ```
//!
//! A checksum for each record would cost more than all else that is done with it.
//!
//! A batch counts as a whole or not at all: a binding and the one it replaces stand in the same one. It says
//! up to where the file was on the disk when it was written: before that only damage can make a batch less
//! than whole, after it a power cut can. Its mark is a hash of these numbers and its place in the file, keyed
//! with the salt, so that no phone can write something into its Contact that would be taken for a batch. The
//! seed of the checksums does the same for frames, which are looked for where a file is damaged. Version 1
//! had no `synced`: each batch was on the disk before the next one was written.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use sip_registrar::{BindingView, Record};
use siphasher::sip::SipHasher13;
use wire::{Flow, Time, Transport};

use crate::clock::ClockPair;
use crate::key::{Key, listener_of};

/// The layout described above. A later program reads it or says that it does not.
pub(crate) const VERSION: u32 = 2;
/// Bytes of the header of a file.
pub const HEADER: usize = 40;
/// Bytes before the frames of a batch.
pub(crate) const HEAD: usize = 32;
/// The same in version 1.
pub(crate) const OLD_HEAD: usize = 24;
/// Bytes before the records of a frame.
pub(crate) const FRAME: usize = 8;
/// Bytes before a record.
pub(crate) const RECORD: usize = 4;
/// A frame that has so many bytes takes no more.
const ENOUGH: usize = 4_096;
/// Larger ones are not looked for in what is damaged: a record of the largest message fits.
const LARGEST: u32 = 1 << 20;

/// Begins each file.
pub(crate) const MAGIC: [u8; 8] = *b"StwgLog\n";
/// Begins each batch.
pub(crate) const BATCH_MAGIC: [u8; 8] = *b"StwgBat\n";

const PUT: u8 = 1;
const DELETE: u8 = 2;
const NAME: u8 = 3;
const SEEN: u8 = 4;

/// Flags of a put.
const FAR: u8 = 1;
const V6: u8 = 2;

const TRANSPORTS: [Transport; 6] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss, Transport::Sctp];

/// What the header of a file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Keys the marks of the batches; random.
    pub(crate) salt: [u8; 16],
    /// Wall-clock second that times in the records are relative to, to keep them short.
    pub(crate) base: i64,
    /// [`VERSION`], or an earlier one.
    pub(crate) version: u32,
}

/// What the first bytes of a batch say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Bytes of its frames.
    pub(crate) length: u64,
    /// Up to here the file was on the disk when it was written.
    pub(crate) synced: u64,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadHeader {
    /// It is none of ours.
    Foreign,
    /// A newer program wrote it.
    Newer(u32),
    /// It is damaged.
    Damaged,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut out = Vec::with_capacity(HEADER);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        let mut bytes = [0; HEADER];
        bytes.iter_mut().zip(out).for_each(|(to, from)| *to = from);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Header, BadHeader> {
        let mut reader = Reader(bytes);
        let damaged = BadHeader::Damaged;
        if reader.array::<8>().ok_or(damaged)? != MAGIC {
            return Err(BadHeader::Foreign);
        }
        let version = u32::from_le_bytes(reader.array().ok_or(damaged)?);
        if version > VERSION {
            return Err(BadHeader::Newer(version));
        }
        let salt = reader.array().ok_or(damaged)?;
        let base = i64::from_le_bytes(reader.array().ok_or(damaged)?);
        let crc = u32::from_le_bytes(reader.array().ok_or(damaged)?);
        let checked = bytes.get(..HEADER - 4).ok_or(damaged)?;
        (version >= 1 && crc32fast::hash(checked) == crc)
            .then_some(Header { salt, base, version })
            .ok_or(damaged)
    }

    /// Bytes before the frames of a batch.
    pub(crate) const fn head_length(&self) -> usize {
        if self.version == 1 { OLD_HEAD } else { HEAD }
    }

    /// The first bytes of a batch at `offset`.
    pub(crate) fn head(&self, offset: u64, head: Head) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        let [length, synced] = [head.length, head.synced].map(u64::to_le_bytes);
        let parts = [BATCH_MAGIC, length, synced, self.mark(offset, head).to_le_bytes()];
        out.iter_mut().zip(parts.as_flattened()).for_each(|(to, from)| *to = *from);
        out
    }

    /// What the first bytes of a batch, at `offset`, say.
    pub(crate) fn read_head(&self, offset: u64, bytes: &[u8]) -> Option<Head> {
        let mut reader = Reader(bytes);
        if reader.array()? != BATCH_MAGIC {
            return None;
        }
        let length = u64::from_le_bytes(reader.array()?);
        let synced = if self.version == 1 { offset } else { u64::from_le_bytes(reader.array()?) };
        let head = Head { length, synced };
        (u64::from_le_bytes(reader.array()?) == self.mark(offset, head)).then_some(head)
    }

    /// Begins the checksums of frames.
    pub(crate) fn seed(&self) -> u32 {
        (SipHasher13::new_with_key(&self.salt).hash(b"frame") >> 32) as u32
    }

    fn mark(&self, offset: u64, head: Head) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.salt);
        hasher.write_u64(offset);
        hasher.write_u64(head.length);
        if self.version != 1 {
            hasher.write_u64(head.synced);
        }
        hasher.finish()
    }
}

/// A binding with the times that disks hold, borrowed: between a [`Record`], a record of the log and a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Put<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// Wall-clock second in which it was written down.
    pub written: i64,
    /// Wall-clock second in which it ends; `i64::MAX`: never.
    pub expires: i64,
    /// Its preference in thousandths.
    pub q: u16,
    /// Of the REGISTER that made it.
    pub cseq: u32,
    /// How its REGISTER came.
    pub transport: Transport,
    /// From where that came.
    pub remote: SocketAddr,
    /// Which of the names that the file holds its listener has.
    pub socket: usize,
    /// Parameters of its Contact.
    pub params: &'a [u8],
    /// Of the REGISTER that made it.
    pub call_id: &'a [u8],
    /// Its Path (RFC 3327).
    pub path: &'a [u8],
    /// Of the phone.
    pub user_agent: &'a [u8],
}

impl<'a> Put<'a> {
    /// `record` at the moment `clock`.
    pub fn new(record: &'a Record, socket: usize, clock: ClockPair) -> Put<'a> {
        let r = record;
        Put {
            key: Key { aor: &r.aor, contact: &r.contact, instance: &r.instance, reg_id: r.reg_id },
            written: clock.wall_seconds(),
            expires: clock.to_wall_seconds(r.expires),
            q: r.q,
            cseq: r.cseq,
            transport: r.flow.transport,
            remote: r.flow.remote,
            socket,
            params: &r.params,
            call_id: &r.call_id,
            path: &r.path,
            user_agent: &r.user_agent,
        }
    }

    /// The binding, to end at `expires`, borrowed. `socket` is the name of its listener, `sockets` are those
    /// of today.
    pub(crate) fn view(&self, expires: Time, socket: &[u8], sockets: &[String]) -> BindingView<'a> {
        let listener = listener_of(socket, self.transport, sockets);
        BindingView {
            contact: self.key.contact,
            params: self.params,
            q: self.q,
            expires,
            call_id: self.call_id,
            cseq: self.cseq,
            flow: Flow { transport: self.transport, listener, remote: self.remote, conn: None },
            path: self.path,
            instance: self.key.instance,
            reg_id: self.key.reg_id,
            user_agent: self.user_agent,
        }
    }
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry<'a> {
    /// The binding is like this now.
    Put(Put<'a>),
    /// There is none with this key any more.
    Delete(Key<'a>),
    /// Puts that say this number mean the listener of this name.
    Name { index: usize, text: &'a [u8] },
    /// Removals of subscribers up to this number of the `subscriber_change` table are in the log, here or
    /// before.
    Seen(i64),
}

/// What of a record tells whose word it is, found at a fraction of the price of reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peek<'a> {
    /// About a binding: its key as it stands in the log, which no other key is written like, its address of
    /// record, and when it was written down, if there is a binding.
    Binding { key: &'a [u8], aor: &'a [u8], written: Option<i64> },
    /// Anything else.
    Other,
}

impl<'a> Entry<'a> {
    /// Reads a record without its length; `None` if it makes no sense.
    pub(crate) fn decode(base: i64, record: &'a [u8]) -> Option<Entry<'a>> {
        let mut reader = Reader(record);
        let entry = match reader.byte()? {
            PUT => Entry::Put(decode_put(base, &mut reader)?),
            DELETE => Entry::Delete(reader.key()?),
            NAME => Entry::Name { index: usize::try_from(reader.number()?).ok()?, text: reader.text()? },
            SEEN => Entry::Seen(unzigzag(reader.number()?)),
            _ => return None,
        };
        reader.0.is_empty().then_some(entry)
    }

    /// As [`decode`](Entry::decode), looking at the beginning only.
    pub(crate) fn peek(base: i64, record: &'a [u8]) -> Option<Peek<'a>> {
        let (kind, rest) = record.split_first()?;
        if !matches!(*kind, PUT | DELETE) {
            return Some(Peek::Other);
        }
        let mut reader = Reader(rest);
        let Key { aor, .. } = reader.key()?;
        let key = rest.get(..rest.len() - reader.0.len())?;
        let written = match *kind {
            PUT => {
                reader.byte()?;
                Some(base.wrapping_add(unzigzag(reader.number()?)))
            }
            _ => None,
        };
        Some(Peek::Binding { key, aor, written })
    }
}

/// Writes records in frames to the end of a batch.
pub(crate) struct Frames<'o> {
    out: &'o mut Vec<u8>,
    base: i64,
    seed: u32,
    /// Where the frame begins that takes records.
    begin: Option<usize>,
}

impl<'o> Frames<'o> {
    /// For a file with this header.
    pub(crate) fn new(header: &Header, out: &'o mut Vec<u8>) -> Frames<'o> {
        Frames { out, base: header.base, seed: header.seed(), begin: None }
    }

    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        let begin = *self.begin.get_or_insert_with(|| {
            self.out.extend_from_slice(&[0; FRAME]);
            self.out.len() - FRAME
        });
        let (at, out) = (self.out.len(), &mut *self.out);
        out.extend_from_slice(&[0; RECORD]);
        match entry {
            Entry::Put(put) => encode_put(put, self.base, out),
            Entry::Delete(key) => {
                out.push(DELETE);
                push_key(key, out);
            }
            Entry::Name { index, text } => {
                out.push(NAME);
                push_number(*index as u64, out);
                push_text(text, out);
            }
            Entry::Seen(id) => {
                out.push(SEEN);
                push_number(zigzag(*id), out);
            }
        }
        let length = length(out.len() - at - RECORD);
        patch(out, at, length);
        if self.out.len() - begin >= ENOUGH {
            self.close();
        }
    }

    /// Ends the frame. Dropped without, the last one does not count.
    pub(crate) fn close(&mut self) {
        let Some(begin) = self.begin.take() else { return };
        let length = length(self.out.len() - begin - FRAME);
        let crc = checksum(self.seed, length, self.out.get(begin + FRAME..).unwrap_or_default());
        patch(self.out, begin, length);
        patch(self.out, begin + 4, crc.to_le_bytes());
    }
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

fn patch(out: &mut [u8], at: usize, bytes: [u8; 4]) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&bytes);
    }
}

/// The first frame of `bytes`: its records and what comes after it; `None` if it is not whole. `seed` as the
/// header of the file has it.
pub(crate) fn unframe(seed: u32, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader(bytes);
    let (length, crc) = (reader.array()?, u32::from_le_bytes(reader.array()?));
    let records = reader.take(usize::try_from(u32::from_le_bytes(length)).ok()?)?;
    (checksum(seed, length, records) == crc).then_some((records, reader.0))
}

/// Bytes from the first place on where a frame is whole again, for one that is not.
pub(crate) fn next_frame(seed: u32, bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.get(1..)?;
    while let Some(length) = rest.first_chunk::<4>() {
        // Text and zeros, which is most of what is here, read as no such length.
        if (1..=LARGEST).contains(&u32::from_le_bytes(*length)) && unframe(seed, rest).is_some() {
            return Some(rest);
        }
        rest = rest.get(1..)?;
    }
    None
}

/// The first of the records of a frame and those after it.
pub(crate) fn first_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader(records);
    let length = u32::from_le_bytes(reader.array()?);
    let record = reader.take(usize::try_from(length).ok()?)?;
    Some((record, reader.0))
}

/// A key as it stands in the log.
pub(crate) fn encoded_key(key: &Key<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    push_key(key, &mut out);
    out
}

fn checksum(seed: u32, length: [u8; 4], records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed ^ !u32::from_le_bytes(length));
    hasher.update(records);
    hasher.finalize()
}

fn encode_put(put: &Put<'_>, base: i64, out: &mut Vec<u8>) {
    let (far, v6) = (put.expires == i64::MAX, put.remote.is_ipv6());
    out.push(PUT);
    push_key(&put.key, out);
    out.push(if far { FAR } else { 0 } | if v6 { V6 } else { 0 });
    push_number(zigzag(put.written.wrapping_sub(base)), out);
    if !far {
        push_number(zigzag(put.expires.wrapping_sub(put.written)), out);
    }
    push_number(put.q.into(), out);
    push_number(put.cseq.into(), out);
    out.push(TRANSPORTS.iter().position(|t| *t == put.transport).map_or(0, |at| at as u8));
    push_number(put.socket as u64, out);
    match put.remote {
        SocketAddr::V4(remote) => out.extend_from_slice(&remote.ip().octets()),
        SocketAddr::V6(remote) => {
            out.extend_from_slice(&remote.ip().octets());
            push_number(remote.scope_id().into(), out);
        }
    }
    out.extend_from_slice(&put.remote.port().to_le_bytes());
    for text in [put.params, put.call_id, put.path, put.user_agent] {
        push_text(text, out);
    }
}

fn decode_put<'a>(base: i64, reader: &mut Reader<'a>) -> Option<Put<'a>> {
    let key = reader.key()?;
    let flags = reader.byte()?;
    let written = base.wrapping_add(unzigzag(reader.number()?));
    let expires = match flags & FAR {
        0 => written.wrapping_add(unzigzag(reader.number()?)),
        _ => i64::MAX,
    };
    let q = u16::try_from(reader.number()?).ok().filter(|q| *q <= 1_000)?;
    let cseq = u32::try_from(reader.number()?).ok()?;
    let transport = *TRANSPORTS.get(usize::from(reader.byte()?))?;
    let socket = usize::try_from(reader.number()?).ok()?;
    let remote = match flags & V6 {
        0 => {
            let address = IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?));
            SocketAddr::new(address, u16::from_le_bytes(reader.array()?))
        }
        _ => {
            let address = Ipv6Addr::from(reader.array::<16>()?);
            let scope = u32::try_from(reader.number()?).ok()?;
            SocketAddr::V6(SocketAddrV6::new(address, u16::from_le_bytes(reader.array()?), 0, scope))
        }
    };
    let (params, call_id, path, user_agent) =
        (reader.text()?, reader.text()?, reader.text()?, reader.text()?);
    // As for rows: without these it is no binding.
    (!key.aor.is_empty() && !key.contact.is_empty()).then_some(())?;
    Some(Put { key, written, expires, q, cseq, transport, remote, socket, params, call_id, path, user_agent })
}

fn push_key(key: &Key<'_>, out: &mut Vec<u8>) {
    for text in [key.aor, key.contact, key.instance] {
        push_text(text, out);
    }
    push_number(key.reg_id.into(), out);
}

fn push_text(text: &[u8], out: &mut Vec<u8>) {
    push_number(text.len() as u64, out);
    out.extend_from_slice(text);
}

fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Small numbers of either sign as small numbers.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Takes bytes apart, never beyond their end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn key(&mut self) -> Option<Key<'a>> {
        let (aor, contact, instance) = (self.text()?, self.text()?, self.text()?);
        Some(Key { aor, contact, instance, reg_id: u32::try_from(self.number()?).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_record;

    const CLOCK: ClockPair = ClockPair { monotonic: Time::from_secs(50), wall: 1_700_000_000_000_000 };
    const HEADER_OF_FILE: Header = Header { salt: [3; 16], base: 1_699_999_000, version: VERSION };

    fn seed() -> u32 {
        HEADER_OF_FILE.seed()
    }

    fn framed(entries: &[Entry<'_>], base: i64) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let mut frames = Frames::new(&Header { base, ..HEADER_OF_FILE }, &mut out);
        entries.iter().for_each(|entry| frames.push(entry));
        frames.close();
        out.split_off(6)
    }

    fn encoded(entry: &Entry<'_>, base: i64) -> Vec<u8> {
        let frame = framed(&[*entry], base);
        let (records, rest) = unframe(seed(), &frame).unwrap();
        let (record, more) = first_record(records).unwrap();
        assert!(rest.is_empty() && more.is_empty());
        record.to_vec()
    }

    #[test]
    fn records_share_frames_of_some_size() {
        let key = Key { aor: b"someone@example.com", contact: b"sip:x", instance: b"", reg_id: 0 };
        let entries = vec![Entry::Delete(key); 1_000];
        let bytes = framed(&entries, 0);
        let (mut rest, mut frames, mut records) = (&bytes[..], 0, 0);
        while let Some((mut inside, after)) = unframe(seed(), rest) {
            assert!(inside.len() < ENOUGH + 100);
            while let Some((record, more)) = first_record(inside) {
                assert_eq!(Entry::decode(0, record), Some(Entry::Delete(key)));
                (inside, records) = (more, records + 1);
            }
            (rest, frames) = (after, frames + 1);
        }
        assert!(rest.is_empty() && records == 1_000 && (8..12).contains(&frames), "{frames}");
        assert!(framed(&[], 0).is_empty());
    }

    /// Those that a phone wrote into a record have no seed of ours.
    #[test]
    fn frames_after_a_bad_one_are_found_and_forged_ones_are_not() {
        let key = |aor| Key { aor, contact: b"sip:x", instance: b"", reg_id: 0 };
        let other = Header { salt: [4; 16], ..HEADER_OF_FILE };
        let mut forged = Vec::new();
        let mut frames = Frames::new(&other, &mut forged);
        frames.push(&Entry::Delete(key(b"victim@example.com")));
        frames.close();
        assert!(unframe(other.seed(), &forged).is_some() && unframe(seed(), &forged).is_none());
        let first = framed(&[Entry::Delete(Key { instance: &forged, ..key(b"a") })], 0);
        let second = framed(&[Entry::Delete(key(b"b"))], 0);
        for at in 0..8 {
            let mut bytes = [&first[..], &second].concat();
            bytes[at] ^= 0x40;
            assert_eq!(unframe(seed(), &bytes), None);
            assert_eq!(next_frame(seed(), &bytes), Some(&second[..]), "byte {at}");
        }
        assert_eq!(next_frame(seed(), &second), None);
    }

    #[test]
    fn headers_say_what_is_wrong_with_them() {
        let good = HEADER_OF_FILE.encode();
        assert_eq!(Header::decode(&good), Ok(HEADER_OF_FILE));
        for (at, expected) in [
            (0, BadHeader::Foreign),
            (9, BadHeader::Newer(VERSION + 256)),
            (12, BadHeader::Damaged),
            (35, BadHeader::Damaged),
            (39, BadHeader::Damaged),
        ] {
            let mut bad = good;
            bad[at] += 1;
            assert_eq!(Header::decode(&bad), Err(expected), "byte {at}");
        }
        assert_eq!(Header::decode(&[0; HEADER]), Err(BadHeader::Foreign));
    }

    #[test]
    fn a_head_counts_only_where_it_was_written() {
        let said = Head { length: 77, synced: 3_000 };
        let head = HEADER_OF_FILE.head(4_000, said);
        assert_eq!(HEADER_OF_FILE.read_head(4_000, &head), Some(said));
        assert_eq!(HEADER_OF_FILE.read_head(4_001, &head), None);
        assert_eq!(Header { salt: [4; 16], ..HEADER_OF_FILE }.read_head(4_000, &head), None);
        assert_eq!(HEADER_OF_FILE.read_head(4_000, &head[..HEAD - 1]), None);
        for at in 0..HEAD {
            let mut bad = head;
            bad[at] ^= 1;
            assert_eq!(HEADER_OF_FILE.read_head(4_000, &bad), None, "byte {at}");
        }
    }

    #[test]
    fn zeros_and_nothing_are_no_record() {
        assert_eq!(unframe(seed(), &[]), None);
        assert_eq!(unframe(seed(), &[0; 64]), None);
        assert_eq!(unframe(seed(), &[0; 7]), None);
    }

    #[test]
    fn numbers_of_any_size_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            push_number(number, &mut out);
            assert_eq!(Reader(&out).number(), Some(number));
            assert_eq!(unzigzag(zigzag(number.cast_signed())), number.cast_signed());
        }
        assert_eq!(Reader(&[0xff; 10]).number(), None, "more than 64 bits");
        assert_eq!(zigzag(-1), 1);
    }

    proptest! {
        #[test]
        fn bindings_come_back(record in any_record(), base in any::<i64>(), far in any::<bool>(), socket in 0usize..900) {
            let mut record = record;
            record.flow.conn = None;
            if far {
                record.expires = Time::FAR;
            }
            let put = Put::new(&record, socket, CLOCK);
            let bytes = encoded(&Entry::Put(put), base);
            prop_assert_eq!(Entry::decode(base, &bytes), Some(Entry::Put(put)));
            let key = encoded_key(&put.key);
            let peek = Peek::Binding { key: &key, aor: put.key.aor, written: Some(put.written) };
            prop_assert_eq!(Entry::peek(base, &bytes), Some(peek));
            prop_assert_eq!(put.written, 1_700_000_000);
            let sockets = ["udp:a", "tcp:b", "tcp:c"].map(str::to_owned);
            let back = put.view(record.expires, b"tcp:c", &sockets).to_record(put.key.aor);
            prop_assert_eq!(&back, &record);
            let delete = Entry::Delete(put.key);
            let bytes = encoded(&delete, base);
            prop_assert_eq!(Entry::decode(base, &bytes), Some(delete));
            let peek = Peek::Binding { key: &key, aor: put.key.aor, written: None };
            prop_assert_eq!(Entry::peek(base, &bytes), Some(peek));
        }

        #[test]
        fn names_and_positions_come_back(index in any::<usize>(), text in proptest::collection::vec(any::<u8>(), 0..300), id in any::<i64>()) {
            for entry in [Entry::Name { index, text: &text }, Entry::Seen(id)] {
                let bytes = encoded(&entry, 0);
                prop_assert_eq!(Entry::decode(0, &bytes), Some(entry));
                prop_assert_eq!(Entry::peek(0, &bytes), Some(Peek::Other));
            }
        }

        /// No byte can change, and none be missing, unnoticed.
        #[test]
        fn damage_is_seen(record in any_record(), at in any::<prop::sample::Index>(), by in 1u8.., cut in any::<prop::sample::Index>()) {
            let bytes = framed(&[Entry::Put(Put::new(&record, 0, CLOCK))], 0);
            let mut bad = bytes.clone();
            bad[at.index(bytes.len())] ^= by;
            prop_assert!(unframe(seed(), &bad).is_none());
            prop_assert!(unframe(seed(), &bytes[..cut.index(bytes.len())]).is_none());
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), base in any::<i64>()) {
            let _ = (unframe(7, &bytes), first_record(&bytes), next_frame(7, &bytes));
            for kind in 0..6 {
                let payload = [&[kind], &bytes[..]].concat();
                let _ = (Entry::decode(base, &payload), Entry::peek(base, &payload));
            }
        }
    }
}
