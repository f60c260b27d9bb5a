//! What a request is matched by (RFC 3261 17.2.3).
//!
//! **With the magic cookie** the section compares branch, sent-by and method. The branch is a token
//! and tokens are case-insensitive (7.3.1); so is the host of sent-by, whose port is its default if
//! absent. To these the key adds Call-ID and CSeq number. A client that follows the RFC has the same
//! ones in everything it sends with a branch (the request again, its ACK, its CANCEL: 17.1.1.3, 9.1),
//! so nothing that should match is lost; but two clients behind one private address that count their
//! branches, or one that repeats a branch in its next call or its answer to a challenge, do not hear
//! each other's responses.
//!
//! **Without it**, or with nothing after it, the request is from an RFC 2543 client and the key is
//! Request-URI, From tag, Call-ID, CSeq number and the whole top Via, and the To tag for all but ACK
//! and CANCEL. Retransmissions repeat the same bytes, so the Request-URI is compared as bytes.
//!
//! The method stands beside the key and not in it: one search finds a CANCEL's own transaction and
//! the one to be cancelled (9.2).

use crate::hash::{self, TableHash};
use core::ops::Deref;
use sip_message::{Message, Method, Via};
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// A core or a tail longer than this is kept as its 128-bit keyed hash, so that a client with an
/// enormous Call-ID does not make its transactions enormous.
const LONGEST: usize = 256;

const _: () = assert!(LONGEST <= hash::LONGEST, "a core is hashed as a whole");

/// Methods as one byte. Those without a name of their own are told apart by their text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MethodCode(u8);

impl MethodCode {
    pub(crate) const INVITE: MethodCode = MethodCode(0);
    pub(crate) const CANCEL: MethodCode = MethodCode(3);

    /// How many [groups](MethodCode::group) there are.
    pub(crate) const GROUPS: usize = 16;

    /// A group for each method that has a name here, and one for all others.
    pub(crate) const fn group(self) -> usize {
        self.0 as usize % MethodCode::GROUPS
    }

    /// The code as [`KeyReader::method_number`] gives it.
    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn of(method: Method<'_>) -> MethodCode {
        MethodCode(match method.number() {
            Some(number) => number,
            None => u8::MAX,
        })
    }
}

/// A received request and what it is matched by.
///
/// [`Layer::prepare`](crate::Layer::prepare) makes one. It is a message in all else.
pub struct Prepared<'a> {
    message: &'a Message<'a>,
    /// Not read yet if there is no transaction that the request could belong to.
    key: Option<Key>,
}

impl<'a> Prepared<'a> {
    /// A request whose key is read when it is wanted.
    pub fn unread(message: &'a Message<'a>) -> Prepared<'a> {
        Prepared { message, key: None }
    }

    /// A request with its key.
    pub(crate) fn read(message: &'a Message<'a>, key: Key) -> Prepared<'a> {
        Prepared { message, key: Some(key) }
    }

    /// The key, if it was read.
    #[inline]
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// The key, if it was read, for its memory.
    #[inline]
    pub(crate) fn into_key(self) -> Option<Key> {
        self.key
    }
}

impl<'a> Deref for Prepared<'a> {
    type Target = Message<'a>;

    #[inline]
    fn deref(&self) -> &Message<'a> {
        self.message
    }
}

/// The key of a request.
pub(crate) struct Key {
    /// The core, compared for every method, then the tail: the To tag of an RFC 2543 request and the name of
    /// an unknown method.
    bytes: Vec<u8>,
    core: usize,
    old: bool,
    hash: u64,
}

/// Reads keys of requests.
pub(crate) struct KeyReader {
    /// All bits; tests clear it to make every hash collide.
    pub(crate) mask: u64,
    table: TableHash,
    hasher: SipHasher13,
    shortener: SipHasher24,
}

impl KeyReader {
    pub(crate) fn new(seed: [u64; 2]) -> KeyReader {
        KeyReader {
            mask: u64::MAX,
            table: TableHash::new(seed),
            hasher: SipHasher13::new_with_keys(seed[0], seed[1]),
            shortener: SipHasher24::new_with_keys(seed[1], seed[0]),
        }
    }

    /// Reads the key of a request, into the memory of another one.
    pub(crate) fn read(&self, message: &Message<'_>, mut bytes: Vec<u8>) -> Key {
        let via = message.via();
        bytes.clear();
        let old = !has_cookie(via.branch);
        if old {
            core_2543(message, &via, &mut bytes);
        } else {
            core_3261(message, &via, &mut bytes);
        }
        self.shorten(&mut bytes, 0);
        let core = bytes.len();
        let hash = self.table.hash(&bytes) & self.mask;
        if old {
            bytes.extend_from_slice(message.to_tag());
            fold(&mut bytes, core);
        }
        if let Method::Other(name) = message.method() {
            bytes.push(0);
            bytes.extend_from_slice(name);
        }
        self.shorten(&mut bytes, core);
        Key { bytes, core, old, hash }
    }

    /// A number for a method: the code of a known one, a keyed hash for others.
    pub(crate) fn method_number(&self, method: Method<'_>) -> u32 {
        match method {
            Method::Other(name) => self.hasher.hash(name) as u32 | 0x8000_0000,
            known => MethodCode::of(known).number(),
        }
    }

    /// Replaces what stands from `start` on by its hash if it is long.
    #[inline]
    fn shorten(&self, bytes: &mut Vec<u8>, start: usize) {
        if bytes.len() - start > LONGEST {
            self.replace_by_hash(bytes, start);
        }
    }

    #[cold]
    fn replace_by_hash(&self, bytes: &mut Vec<u8>, start: usize) {
        let Some(long) = bytes.get(start..) else { return };
        let mut hasher = self.shortener;
        hasher.write(long);
        let hash = hasher.finish128();
        bytes.truncate(start);
        bytes.push(b'#');
        bytes.extend_from_slice(&hash.h1.to_le_bytes());
        bytes.extend_from_slice(&hash.h2.to_le_bytes());
    }
}

impl Key {
    /// Keyed hash of the core.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// What is compared for every method.
    pub(crate) fn core(&self) -> &[u8] {
        self.bytes.get(..self.core).unwrap_or(&[])
    }

    /// What is compared besides the core, except for ACK and CANCEL.
    pub(crate) fn tail(&self) -> &[u8] {
        self.bytes.get(self.core..).unwrap_or(&[])
    }

    /// Core and tail.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is a key of an RFC 2543 client.
    pub(crate) fn is_old(&self) -> bool {
        self.old
    }

    /// Its memory, for the next one.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn core_3261(message: &Message<'_>, via: &Via<'_>, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&fixed_3261(message, via));
    bytes.extend_from_slice(message.call_id());
    let start = bytes.len();
    bytes.extend_from_slice(via.branch);
    bytes.extend_from_slice(via.host);
    fold(bytes, start);
}

fn core_2543(message: &Message<'_>, via: &Via<'_>, bytes: &mut Vec<u8>) {
    let (uri, tag) = (message.request_uri(), message.from_tag());
    bytes.extend_from_slice(&fixed(b'2', uri.len(), tag.len(), message.cseq()));
    bytes.extend_from_slice(&(message.call_id().len() as u32).to_le_bytes());
    bytes.extend_from_slice(uri);
    bytes.extend_from_slice(message.call_id());
    let start = bytes.len();
    bytes.extend_from_slice(tag);
    // Comparing the Via as one text, without its white space and case, is stricter than comparing
    // its parameters as a set. A client does not shuffle them between retransmissions.
    bytes.extend(via.raw.iter().filter(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n')));
    fold(bytes, start);
}

/// Bytes of [`fixed`].
const FIXED: usize = 13;

/// The first part of a key; lengths first, so that no two requests with other fields run together into
/// the same bytes.
fn fixed(kind: u8, first: usize, second: usize, cseq: u32) -> [u8; FIXED] {
    let mut fixed = [kind; FIXED];
    fixed[1..5].copy_from_slice(&(first as u32).to_le_bytes());
    fixed[5..9].copy_from_slice(&(second as u32).to_le_bytes());
    fixed[9..13].copy_from_slice(&cseq.to_le_bytes());
    fixed
}

/// Where the texts of a key of RFC 3261 begin.
const TEXT: usize = FIXED + 2;

/// What stands before the texts of a key of RFC 3261.
fn fixed_3261(message: &Message<'_>, via: &Via<'_>) -> [u8; TEXT] {
    let mut all = [0; TEXT];
    all[..FIXED].copy_from_slice(&fixed(b'3', via.branch.len(), via.host.len(), message.cseq()));
    all[FIXED..].copy_from_slice(&via.port_or_default().to_le_bytes());
    all
}

/// Bit 5 of eight bytes.
const FOLD: u64 = 0x2020_2020_2020_2020;

/// Whether a branch begins with the magic cookie in any case (8.1.1.7), and does not end with it.
fn has_cookie(branch: &[u8]) -> bool {
    const COOKIE: u64 = u64::from_le_bytes(*b"z9hg4bk\0");
    branch.first_chunk::<8>().is_some_and(|first| (u64::from_le_bytes(*first) | FOLD) << 8 >> 8 == COOKIE)
}

/// Takes the case out of what stands from `start` on, eight bytes at a time.
///
/// Setting bit 5 makes letters of both cases equal and, among the characters of tokens and hosts, no
/// others.
fn fold(bytes: &mut Vec<u8>, start: usize) {
    let end = bytes.len();
    // Whole words: what they reach over is cut off again.
    bytes.extend_from_slice(&[0; 8]);
    if let Some(folded) = bytes.get_mut(start..) {
        for word in folded.as_chunks_mut::<8>().0 {
            *word = (u64::from_le_bytes(*word) | FOLD).to_le_bytes();
        }
    }
    bytes.truncate(end);
}
