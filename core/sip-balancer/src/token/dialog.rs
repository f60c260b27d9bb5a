//! What a token says of a dialog or a phone, and how that is read.

use crate::Mark;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use seal::{Fields, Seal};
use wire::{ConnId, Transport};

/// What our Record-Route says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialog {
    /// The node, by its id.
    pub node: u32,
    /// The listener that the caller is reached from, and so how.
    pub listener: Mark,
    /// Where the caller's requests come from.
    pub caller: SocketAddr,
    /// The caller's own idea of its address is another one.
    pub natted: bool,
    /// The node's side began the dialog: it is the one whose tag is sealed, and the caller is who was called.
    pub by_node: bool,
    /// Its Contact has `ob`: it is reached only over the flow of its request (RFC 5626 section 5.3.2).
    pub tied: bool,
    /// The connection that the caller's requests come on.
    pub conn: Option<Held>,
}

impl Dialog {
    /// Whether it is reached over a flow that may end (RFC 5626 section 5.3.1): that of a phone, or a
    /// connection.
    pub(crate) fn is_flow(&self) -> bool {
        self.by_node || self.listener.transport().is_none_or(Transport::is_reliable)
    }

    /// Whether it can be reached only over the connection in the token: a phone that was called on it (RFC
    /// 5626 section 5.3.1) or asks for it, or a WebSocket client (RFC 7118 section 5).
    pub(crate) fn is_bound(&self) -> bool {
        match self.listener.transport() {
            Some(Transport::Ws | Transport::Wss) => true,
            Some(transport) => (self.by_node || self.tied) && transport.is_reliable(),
            None => true,
        }
    }
}

/// A connection, and the life of the process that has it: in another one its number is another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The connection.
    pub conn: ConnId,
    /// The process.
    pub life: u32,
}

/// Reads what `Sealer::push_flow` wrote, and the seal after it: epoch, flags, what it says, and the seal.
pub(super) fn read_flow(token: &[u8]) -> Option<(u8, u8, Dialog, Seal)> {
    let mut read = Fields::new(token);
    let (epoch, flags) = (read.octet()?, read.octet()?);
    let head = read.number(16)?;
    // Only in the form that is written here: the address in the form that is hashed, and no flags but these
    // five.
    let ip = match flags {
        32.. => return None,
        _ if flags & 1 == 0 => IpAddr::V4(Ipv4Addr::from_bits(read.number(8)? as u32)),
        _ => {
            let (high, low) = (read.number(16)?, read.number(16)?);
            if high == 0 && low >> 32 == 0xffff {
                return None;
            }
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
        }
    };
    let conn = match flags & 8 {
        0 => None,
        _ => Some(Held { conn: ConnId::from_u64(read.number(16)?), life: read.number(8)? as u32 }),
    };
    let seal = read.seal()?;
    let dialog = Dialog {
        node: (head >> 32) as u32,
        listener: Mark((head >> 16) as u16),
        caller: SocketAddr::new(ip, head as u16),
        natted: flags & 2 != 0,
        by_node: flags & 4 != 0,
        tied: flags & 16 != 0,
        conn,
    };
    Some((epoch, flags, dialog, seal))
}

/// What stands after a prefix. A branch is a token, and some elements change its case.
pub(super) fn strip<'a>(text: &'a [u8], prefix: &[u8; 9]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_first_chunk::<9>()?;
    // The last octet tells ours apart.
    (start[8] | 0x20 == prefix[8] && (start == prefix || start.eq_ignore_ascii_case(prefix))).then_some(rest)
}
