//! Which connection leads to a peer, whichever worker owns it.
//!
//! Connections whose peer has proven a name, or is going to, are found for that name only: it was the
//! certificate for that name which was verified (RFC 5922 section 7). Names cost nothing where there are
//! none: the place of a connection has 24 bytes, and its name is with its layer of TLS.

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashTable};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::{Mutex, MutexGuard};
use wire::{ConnId, Transport};

const STRIPES: usize = 16;
/// The largest name that is hashed in one piece, in bytes.
const NAME_PART: usize = 64;

/// How a connection leads to a peer, and to which address. In 24 bytes; a `SocketAddr` alone takes 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    ip: [u8; 16],
    scope: u32,
    port: u16,
    transport: Transport,
}

const _: () = assert!(size_of::<Place>() == 24);

impl Place {
    /// Of connections over this transport to this address.
    pub fn new(transport: Transport, remote: SocketAddr) -> Place {
        let (ip, scope) = match remote {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().octets(), 0),
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        Place { ip, scope, port: remote.port(), transport }
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

    /// What connections are found by that lead there, to a peer that has proven `name`; empty: none.
    pub fn proven_by(self, name: &str) -> Key<'_> {
        Key { place: self, name }
    }
}

/// What a connection is found by.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    place: Place,
    /// The name that the peer has proven, in any case; empty: none.
    name: &'a str,
}

impl<'a> Key<'a> {
    /// The place.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Whether it is the same as another.
    fn is(&self, place: &Place, name: &str) -> bool {
        self.place == *place && self.name.eq_ignore_ascii_case(name)
    }
}

/// Names are found in any case.
impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place.hash(state);
        // In one piece where it is short, as most are: each piece costs as much as eight bytes.
        for part in self.name.as_bytes().chunks(NAME_PART) {
            let mut lower = [0; NAME_PART];
            let lower = lower.get_mut(..part.len()).unwrap_or_default();
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            state.write(lower);
        }
    }
}

/// A key that is kept.
struct Proven {
    place: Place,
    name: Box<str>,
    conn: ConnId,
}

/// The connections of one stripe.
#[derive(Default)]
struct Stripe {
    /// Those without a name.
    plain: HashMap<Place, ConnId, RandomState>,
    proven: HashTable<Proven>,
}

/// Open connections, and those that are being opened, by transport, peer and proven name.
///
/// Looked at only for a message that names no connection. The newest connection to a peer is found.
pub struct Directory {
    hasher: RandomState,
    stripes: [Mutex<Stripe>; STRIPES],
    /// Held while a worker opens a connection to a place of that stripe.
    dialing: [Mutex<()>; STRIPES],
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Directory {
        let hasher = RandomState::new();
        let stripe = || Stripe { plain: HashMap::with_hasher(hasher.clone()), proven: HashTable::new() };
        let stripes = std::array::from_fn(|_| Mutex::new(stripe()));
        Directory { hasher, stripes, dialing: Default::default() }
    }

    fn stripe(&self, place: &Place) -> usize {
        (self.hasher.hash_one(place) >> 60) as usize % STRIPES
    }

    /// Hold this from the look-up of a connection to this place until one is [inserted](Directory::insert).
    /// So two workers do not open two connections at the same time.
    pub fn dialing(&self, place: &Place) -> MutexGuard<'_, ()> {
        self.dialing[self.stripe(place)].lock().unwrap_or_else(|e| e.into_inner())
    }

    fn with<R>(&self, place: &Place, act: impl FnOnce(&mut Stripe) -> R) -> R {
        let stripe = &self.stripes[self.stripe(place)];
        // A poisoned lock holds a map that is still good: nothing in here can panic half way.
        act(&mut stripe.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// The connection with this key, if there is one.
    pub fn find(&self, key: &Key<'_>) -> Option<ConnId> {
        self.with(&key.place, |stripe| match key.name {
            "" => stripe.plain.get(&key.place).copied(),
            _ => {
                let hash = self.hasher.hash_one(key);
                stripe.proven.find(hash, |there| key.is(&there.place, &there.name)).map(|there| there.conn)
            }
        })
    }

    /// Names `conn` as the connection with this key.
    pub fn insert(&self, key: &Key<'_>, conn: ConnId) {
        self.with(&key.place, |stripe| match key.name {
            "" => {
                stripe.plain.insert(key.place, conn);
            }
            name => {
                let hash = self.hasher.hash_one(key);
                let hash_of = |there: &Proven| self.hasher.hash_one(there.place.proven_by(&there.name));
                let is = |there: &Proven| key.is(&there.place, &there.name);
                let place = key.place;
                let fresh = || Proven { place, name: name.into(), conn };
                stripe.proven.entry(hash, is, hash_of).or_insert_with(fresh).get_mut().conn = conn;
            }
        });
    }

    /// Forgets `conn`, unless another has taken its place.
    pub fn remove(&self, key: &Key<'_>, conn: ConnId) {
        self.with(&key.place, |stripe| match key.name {
            "" => {
                if let Entry::Occupied(entry) = stripe.plain.entry(key.place)
                    && *entry.get() == conn
                {
                    entry.remove();
                }
            }
            _ => {
                let hash = self.hasher.hash_one(key);
                let is = |there: &Proven| there.conn == conn && key.is(&there.place, &there.name);
                if let Ok(entry) = stripe.proven.find_entry(hash, is) {
                    entry.remove();
                }
            }
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.stripes.iter().map(|s| s.lock().map_or(0, |s| s.plain.len() + s.proven.len())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_is_found_until_it_goes() {
        let directory = Directory::new();
        let remote: SocketAddr = "10.0.0.1:5060".parse().expect("an address");
        for name in ["", "example.org"] {
            let key = Place::new(Transport::Tls, remote).proven_by(name);
            let (old, new) = (ConnId::new(0, 1), ConnId::new(1, 1));
            directory.insert(&key, old);
            directory.insert(&key, new);
            directory.remove(&key, old);
            assert_eq!(directory.find(&key), Some(new));
            let other = Place::new(Transport::Tcp, remote).proven_by(name);
            assert_eq!(directory.find(&other), None, "another transport");
            directory.remove(&key, new);
            assert_eq!(directory.find(&key), None);
            assert_eq!(directory.len(), 0);
        }
    }

    #[test]
    fn connection_is_found_for_the_name_that_it_proved() {
        let directory = Directory::new();
        let place = Place::new(Transport::Tls, "[2001:db8::1]:5061".parse().expect("an address"));
        let names = ["", "one.example.org", "two.example.org"];
        for (number, name) in names.into_iter().enumerate() {
            directory.insert(&place.proven_by(name), ConnId::new(0, number as u64));
        }
        for (number, name) in ["", "ONE.example.ORG", "two.example.org"].into_iter().enumerate() {
            assert_eq!(directory.find(&place.proven_by(name)), Some(ConnId::new(0, number as u64)), "{name}");
        }
        assert_eq!(directory.find(&place.proven_by("three.example.org")), None);
        directory.remove(&place.proven_by("one.example.org"), ConnId::new(0, 1));
        assert_eq!(directory.find(&place.proven_by("one.example.org")), None);
        assert_eq!(directory.len(), 2);
    }
}
