//! The key of a binding, and names that stand for parts of one.

use sip_registrar::Change;
use wire::{ListenerId, Transport};

/// The key of a binding, borrowed from a change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key<'a> {
    /// Whose it is.
    pub aor: &'a [u8],
    /// Its Contact.
    pub contact: &'a [u8],
    /// The instance of an outbound registration (RFC 5626), or nothing.
    pub instance: &'a [u8],
    /// Its flow among those of the instance.
    pub reg_id: u32,
}

/// The key that a change is about.
pub fn key_of(change: &Change) -> Key<'_> {
    match change {
        Change::Put(r) => Key { aor: &r.aor, contact: &r.contact, instance: &r.instance, reg_id: r.reg_id },
        Change::Delete { aor, contact, instance, reg_id } => Key { aor, contact, instance, reg_id: *reg_id },
    }
}

/// User name and domain of an address of record; one without `@` is all domain.
pub fn split_aor(aor: &[u8]) -> (&[u8], &[u8]) {
    match aor.iter().rposition(|byte| *byte == b'@') {
        Some(at) => (aor.get(..at).unwrap_or_default(), aor.get(at + 1..).unwrap_or_default()),
        None => (&[], aor),
    }
}

/// The address of record that [`split_aor`] took apart.
pub fn join_aor(user: &[u8], domain: &[u8]) -> Box<[u8]> {
    if user.is_empty() { domain.into() } else { [user, b"@", domain].concat().into() }
}

/// The listener of this name. One that is not configured any more becomes the first of the same transport.
pub fn listener_of(name: &[u8], transport: Transport, sockets: &[String]) -> ListenerId {
    let of_transport = |name: &String| name.split(':').next() == Some(transport.uri_name());
    let index = sockets
        .iter()
        .position(|socket| socket.as_bytes() == name)
        .or_else(|| sockets.iter().position(of_transport));
    ListenerId(index.and_then(|index| u16::try_from(index).ok()).unwrap_or(0))
}
