//! What the fuzz targets share: drawing choices from the input, and checks of what was written.
#![forbid(unsafe_code)]

pub mod world;

use sip_message::{Index, Limits, Message, Parsed};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{Flow, ListenerId, Transport};

/// Draws choices from the front of the input. An exhausted one yields zeros.
pub struct Feed<'a> {
    rest: &'a [u8],
}

impl<'a> Feed<'a> {
    /// All choices come from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Feed<'a> {
        Feed { rest: bytes }
    }

    /// Whether everything is used up.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// A choice from a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        if list.is_empty() {
            return None;
        }
        list.get(self.below(list.len())).copied()
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

/// Caps wide enough for whatever a message becomes on its way through.
pub fn wide() -> Limits {
    Limits {
        message: 1 << 20,
        head: 1 << 20,
        body: 1 << 20,
        headers: 1024,
        vias: 1024,
        header: 1 << 17,
        ..Limits::default()
    }
}

/// A flow of peer number `peer` over UDP, or TCP if `stream`.
pub fn flow(peer: u8, stream: bool) -> Flow {
    let remote = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, peer)), 5060);
    let (transport, listener) = if stream { (Transport::Tcp, 1) } else { (Transport::Udp, 0) };
    let conn = stream.then(|| wire::ConnId::new(0, u64::from(peer)));
    Flow { transport, listener: ListenerId(listener), remote, conn }
}

/// What every message that leaves must be: well formed, and with no byte in its head by which it could
/// be cut differently by the next reader.
pub fn check_output(bytes: &[u8], check: impl FnOnce(&Message<'_>)) {
    let mut index = Index::new();
    match sip_message::parse(bytes, &mut index, &wide()) {
        Parsed::Good(message) => {
            check_head(&bytes[..message.head_len().min(bytes.len())]);
            check(&message);
        }
        other => panic!("{other:?} from {}", bytes.escape_ascii()),
    }
}

/// NUL only as a quoted pair, and CR and LF only as line ends followed by a header, never by a fold.
pub fn check_head(head: &[u8]) {
    for (at, &byte) in head.iter().enumerate() {
        let next = head.get(at + 1).copied();
        let fine = match byte {
            0 => at > 0 && head[at - 1] == b'\\',
            b'\r' => next == Some(b'\n'),
            b'\n' => at > 0 && head[at - 1] == b'\r' && !matches!(next, Some(b' ' | b'\t')),
            _ => true,
        };
        assert!(fine, "byte {byte:#x} at {at} of a head: {}", head.escape_ascii());
    }
}
