//! Which connection leads to a peer, whichever worker owns it.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Mutex;
use wire::ConnId;

const STRIPES: usize = 16;

/// An address in 24 bytes; a `SocketAddr` takes 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Peer {
    ip: [u8; 16],
    scope: u32,
    port: u16,
}

impl Peer {
    fn new(address: SocketAddr) -> Peer {
        let (ip, scope) = match address {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().octets(), 0),
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        Peer { ip, scope, port: address.port() }
    }
}

/// Open TCP connections by the peer's address and port, in both directions.
///
/// Looked at only for a message that names no connection. The newest connection to a peer is found.
pub struct Directory {
    hasher: RandomState,
    stripes: [Mutex<HashMap<Peer, ConnId, RandomState>>; STRIPES],
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Directory {
        let hasher = RandomState::new();
        let stripes = std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hasher.clone())));
        Directory { hasher, stripes }
    }

    fn with<R>(
        &self,
        remote: SocketAddr,
        act: impl FnOnce(Peer, &mut HashMap<Peer, ConnId, RandomState>) -> R,
    ) -> R {
        let peer = Peer::new(remote);
        let stripe = &self.stripes[(self.hasher.hash_one(peer) >> 60) as usize % STRIPES];
        // A poisoned lock holds a map that is still good: nothing in here can panic half way.
        act(peer, &mut stripe.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// The connection to `remote`, if there is one.
    pub fn find(&self, remote: SocketAddr) -> Option<ConnId> {
        self.with(remote, |peer, map| map.get(&peer).copied())
    }

    /// Names `conn` as the connection to `remote`.
    pub fn insert(&self, remote: SocketAddr, conn: ConnId) {
        self.with(remote, |peer, map| map.insert(peer, conn));
    }

    /// Forgets `conn`, unless another has taken its place.
    pub fn remove(&self, remote: SocketAddr, conn: ConnId) {
        self.with(remote, |peer, map| {
            if let Entry::Occupied(entry) = map.entry(peer)
                && *entry.get() == conn
            {
                entry.remove();
            }
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.stripes.iter().map(|s| s.lock().map_or(0, |m| m.len())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_is_found_until_it_goes() {
        let directory = Directory::new();
        let remote: SocketAddr = "10.0.0.1:5060".parse().expect("an address");
        let (old, new) = (ConnId::new(0, 1), ConnId::new(1, 1));
        directory.insert(remote, old);
        directory.insert(remote, new);
        directory.remove(remote, old);
        assert_eq!(directory.find(remote), Some(new));
        directory.remove(remote, new);
        assert_eq!(directory.find(remote), None);
        assert_eq!(directory.len(), 0);
    }
}
