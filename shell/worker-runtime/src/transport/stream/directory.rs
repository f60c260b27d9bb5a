//! Which connection leads to a peer, whichever worker owns it.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Mutex;
use wire::{ConnId, Transport};

const STRIPES: usize = 16;

/// What a connection is found by: its transport and the peer's address. In 24 bytes; a `SocketAddr` alone
/// takes 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    ip: [u8; 16],
    scope: u32,
    port: u16,
    transport: Transport,
}

const _: () = assert!(size_of::<Key>() == 24);

impl Key {
    /// Of connections over this transport to this address.
    pub fn new(transport: Transport, remote: SocketAddr) -> Key {
        let (ip, scope) = match remote {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().octets(), 0),
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        Key { ip, scope, port: remote.port(), transport }
    }

    /// The transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The peer's address. No peer over IPv6 has an address that stands for one of IPv4: the sockets of
    /// IPv6 take no IPv4 traffic.
    pub fn remote(&self) -> SocketAddr {
        let ip = Ipv6Addr::from(self.ip);
        match ip.to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, self.port)),
            None => SocketAddrV6::new(ip, self.port, 0, self.scope).into(),
        }
    }
}

/// Open connections by transport and peer, in both directions.
///
/// Looked at only for a message that names no connection. The newest connection to a peer is found.
pub struct Directory {
    hasher: RandomState,
    stripes: [Mutex<HashMap<Key, ConnId, RandomState>>; STRIPES],
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Directory {
        let hasher = RandomState::new();
        let stripes = std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hasher.clone())));
        Directory { hasher, stripes }
    }

    fn with<R>(&self, key: &Key, act: impl FnOnce(&mut HashMap<Key, ConnId, RandomState>) -> R) -> R {
        let stripe = &self.stripes[(self.hasher.hash_one(key) >> 60) as usize % STRIPES];
        // A poisoned lock holds a map that is still good: nothing in here can panic half way.
        act(&mut stripe.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// The connection with this key, if there is one.
    pub fn find(&self, key: &Key) -> Option<ConnId> {
        self.with(key, |map| map.get(key).copied())
    }

    /// Names `conn` as the connection with this key.
    pub fn insert(&self, key: Key, conn: ConnId) {
        self.with(&key, |map| map.insert(key, conn));
    }

    /// Forgets `conn`, unless another has taken its place.
    pub fn remove(&self, key: &Key, conn: ConnId) {
        self.with(key, |map| {
            if let Entry::Occupied(entry) = map.entry(*key)
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
        let key = Key::new(Transport::Tcp, remote);
        let (old, new) = (ConnId::new(0, 1), ConnId::new(1, 1));
        directory.insert(key, old);
        directory.insert(key, new);
        directory.remove(&key, old);
        assert_eq!(directory.find(&key), Some(new));
        assert_eq!(directory.find(&Key::new(Transport::Tls, remote)), None, "another transport");
        directory.remove(&key, new);
        assert_eq!(directory.find(&key), None);
        assert_eq!(directory.len(), 0);
    }
}
