//! Which transport addresses bindings stand at: that of their Contact, and that of the REGISTER's source.
//!
//! An ordered map: no rehash, so no long step, and no hash to attack. Beside the address the key of a Contact
//! has a tag of its user part and the hash of the address of record, so that a URI finds the few bindings
//! that it may name.

use super::binding::Binding;
use core::cmp::Ordering;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::RangeInclusive;
use sip_message::{Scheme, Uri};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Time, Transport};

/// Bytes of an IPv4 or IPv6 address, then port, tag of the Contact's user part, table and hash of the address
/// of record.
type KeyV4 = Key<{ 4 + REST }>;
type KeyV6 = Key<{ 16 + REST }>;
/// Bytes of a key behind its IP address.
const REST: usize = 10;
/// Those of them behind the port.
const BEHIND_PORT: usize = 8;
/// Those of them behind the tag.
const BEHIND_TAG: usize = 6;

/// Bytes in the order of a dictionary, compared a word at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key<const N: usize>([u8; N]);

impl<const N: usize> Key<N> {
    /// The eight bytes from `at` on.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().map_or(0, u64::from_be_bytes)
    }
}

impl<const N: usize> Ord for Key<N> {
    #[inline]
    fn cmp(&self, other: &Key<N>) -> Ordering {
        // The last word begins within the one before it, whose bytes are equal then.
        let words = (0..N - 8).step_by(8).chain([N - 8]);
        let differ = words.map(|at| self.word(at).cmp(&other.word(at)));
        differ.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl<const N: usize> PartialOrd for Key<N> {
    fn partial_cmp(&self, other: &Key<N>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Addresses of record that one look-up of a Contact reads at most: those of one address whose user parts
/// have one tag.
pub const MOST_CANDIDATES: usize = 64;
/// The tag of a source, which no user part has.
const OF_SOURCE: u16 = 0;

/// An address of record by its hash, and the table that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Number of the table among those that share an index.
    pub part: u16,
    /// Hash of the address of record in that table.
    pub hash: u32,
}

/// A transport address at which a binding stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    address: SocketAddr,
    tag: u16,
    owner: Owner,
}

impl Spot {
    /// The transport address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// That of a source: one for all bindings, because only their number counts.
    fn of_source(address: SocketAddr) -> Spot {
        Spot { address, tag: OF_SOURCE, owner: Owner { part: 0, hash: 0 } }
    }
}

/// A Contact that is looked for by its address.
#[derive(Clone, Copy, Debug)]
pub struct ContactAt<'a> {
    address: SocketAddr,
    /// `None`: any.
    uri: Option<&'a Uri<'a>>,
    now: Time,
}

impl<'a> ContactAt<'a> {
    /// A live one at `address` that is equivalent to `uri` (RFC 3261 section 19.1.4).
    pub fn new(address: SocketAddr, uri: &'a Uri<'a>, now: Time) -> ContactAt<'a> {
        ContactAt { address, uri: Some(uri), now }
    }

    /// Any live one at `address`, which may be visited more than once. One whose REGISTER came from there,
    /// with a Contact elsewhere, is not visited but reported as one that was not looked at.
    pub fn any(address: SocketAddr, now: Time) -> ContactAt<'a> {
        ContactAt { address, uri: None, now }
    }

    /// The transport address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a binding is one.
    pub(crate) fn is(&self, binding: &Binding<'_>) -> bool {
        let contact = Uri::parse(binding.contact).ok();
        binding.expires > self.now
            && contact.is_some_and(|c| {
                address_of(&c) == Some(self.address) && self.uri.is_none_or(|uri| c.equivalent(uri))
            })
    }
}

/// Index of bindings by transport address: for one table, or for a share of the addresses of several.
#[derive(Default, Debug)]
pub struct AddressIndex {
    v4: BTreeMap<KeyV4, u32>,
    v6: BTreeMap<KeyV6, u32>,
}

/// An index that several tables share, under locks of its own. It is called with the table borrowed.
pub trait SharedIndex: Send + Sync {
    /// As [`AddressIndex::add`].
    fn add(&self, spot: &Spot);
    /// As [`AddressIndex::remove`].
    fn remove(&self, spot: &Spot);
}

impl AddressIndex {
    /// Whether something stands at this address.
    pub fn contains(&self, address: SocketAddr) -> bool {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => self.v4.range(below(key_v4(ip, address.port()), BEHIND_PORT)).next().is_some(),
            IpAddr::V6(ip) => self.v6.range(below(key_v6(ip, address.port()), BEHIND_PORT)).next().is_some(),
        }
    }

    /// Who may have this Contact: [`MOST_CANDIDATES`] at most, those of one table in a row. Answers whether
    /// there are more, or, of any Contact, a source at that address.
    pub fn candidates(&self, contact: &ContactAt<'_>, each: impl FnMut(Owner)) -> bool {
        let address = contact.address;
        let (tag, open) = contact.uri.map_or((OF_SOURCE, BEHIND_PORT), |uri| (tag_of(uri), BEHIND_TAG));
        let spot = Spot { tag, ..Spot::of_source(address) };
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => owners(&self.v4, below(spot.key(key_v4(ip, address.port())), open), each),
            IpAddr::V6(ip) => owners(&self.v6, below(spot.key(key_v6(ip, address.port())), open), each),
        }
    }

    /// Counts a binding in.
    pub fn add(&mut self, spot: &Spot) {
        let port = spot.address.port();
        let count = match spot.address.ip().to_canonical() {
            IpAddr::V4(ip) => self.v4.entry(spot.key(key_v4(ip, port))).or_insert(0),
            IpAddr::V6(ip) => self.v6.entry(spot.key(key_v6(ip, port))).or_insert(0),
        };
        *count = count.saturating_add(1);
    }

    /// Counts a binding out.
    pub fn remove(&mut self, spot: &Spot) {
        let port = spot.address.port();
        match spot.address.ip().to_canonical() {
            IpAddr::V4(ip) => count_down(&mut self.v4, spot.key(key_v4(ip, port))),
            IpAddr::V6(ip) => count_down(&mut self.v6, spot.key(key_v6(ip, port))),
        }
    }

    /// Bytes held, estimated: B-tree leaves of random keys are about two thirds full.
    pub fn bytes(&self) -> usize {
        self.v4.len() * (size_of::<KeyV4>() + size_of::<u32>()) * 3 / 2
            + self.v6.len() * (size_of::<KeyV6>() + size_of::<u32>()) * 3 / 2
    }
}

impl Spot {
    /// Writes what is behind the port into a key.
    fn key<const N: usize>(&self, mut key: Key<N>) -> Key<N> {
        let [t0, t1] = self.tag.to_be_bytes();
        let [p0, p1] = self.owner.part.to_be_bytes();
        let [a, b, c, d] = self.owner.hash.to_be_bytes();
        key.0[N - BEHIND_PORT..].copy_from_slice(&[t0, t1, p0, p1, a, b, c, d]);
        key
    }
}

fn key_v4(ip: Ipv4Addr, port: u16) -> KeyV4 {
    let mut key = [0; 4 + REST];
    key[..4].copy_from_slice(&ip.octets());
    key[4..6].copy_from_slice(&port.to_be_bytes());
    Key(key)
}

fn key_v6(ip: Ipv6Addr, port: u16) -> KeyV6 {
    let mut key = [0; 16 + REST];
    key[..16].copy_from_slice(&ip.octets());
    key[16..18].copy_from_slice(&port.to_be_bytes());
    Key(key)
}

/// All keys that differ in their last `open` bytes only.
fn below<const N: usize>(key: Key<N>, open: usize) -> RangeInclusive<Key<N>> {
    let (mut first, mut last) = (key, key);
    first.0[N - open..].fill(0);
    last.0[N - open..].fill(u8::MAX);
    first..=last
}

/// Tells the first owners in a range, and answers whether there are more.
fn owners<const N: usize>(
    map: &BTreeMap<Key<N>, u32>,
    range: RangeInclusive<Key<N>>,
    mut each: impl FnMut(Owner),
) -> bool {
    let mut found = map.range(range).peekable();
    // A source, which has no owner here, comes first.
    let source = found.next_if(|(key, _)| is_source(key)).is_some();
    found.by_ref().take(MOST_CANDIDATES).for_each(|(key, _)| each(owner_in(key)));
    source || found.next().is_some()
}

fn is_source<const N: usize>(key: &Key<N>) -> bool {
    key.0[N - BEHIND_PORT..N - BEHIND_TAG] == OF_SOURCE.to_be_bytes()
}

fn owner_in<const N: usize>(key: &Key<N>) -> Owner {
    let [.., p0, p1, a, b, c, d] = key.0[..] else { return Owner { part: 0, hash: 0 } };
    Owner { part: u16::from_be_bytes([p0, p1]), hash: u32::from_be_bytes([a, b, c, d]) }
}

/// The index of a table.
pub(crate) enum Addresses {
    /// Its own.
    Own(AddressIndex),
    /// One that it shares with others, and its number among them.
    Shared(u16, Arc<dyn SharedIndex>),
}

impl Addresses {
    /// What this table holds of it.
    pub(crate) fn own(&self) -> Option<&AddressIndex> {
        match self {
            Addresses::Own(index) => Some(index),
            Addresses::Shared(..) => None,
        }
    }

    /// Counts the addresses of a binding in. `aor`: the hash of its address of record.
    pub(crate) fn add(&mut self, aor: u32, binding: &Binding<'_>) {
        self.add_read(aor, binding, Uri::parse(binding.contact).ok().as_ref());
    }

    /// The same for a binding whose contact was taken apart already.
    pub(crate) fn add_read(&mut self, aor: u32, binding: &Binding<'_>, contact: Option<&Uri<'_>>) {
        for spot in self.spots(aor, binding, contact).into_iter().flatten() {
            match self {
                Addresses::Own(index) => index.add(&spot),
                Addresses::Shared(_, index) => index.add(&spot),
            }
        }
    }

    /// Counts the addresses of a binding out.
    pub(crate) fn remove(&mut self, aor: u32, binding: &Binding<'_>) {
        for spot in self.spots(aor, binding, Uri::parse(binding.contact).ok().as_ref()).into_iter().flatten()
        {
            match self {
                Addresses::Own(index) => index.remove(&spot),
                Addresses::Shared(_, index) => index.remove(&spot),
            }
        }
    }

    /// Where a binding stands: at its Contact's address, and at that of the source if it is another one.
    fn spots(&self, hash: u32, binding: &Binding<'_>, contact: Option<&Uri<'_>>) -> [Option<Spot>; 2] {
        let part = if let Addresses::Shared(part, _) = self { *part } else { 0 };
        let (owner, received) = (Owner { part, hash }, binding.flow.remote);
        let named = contact.and_then(|uri| Some(Spot { address: address_of(uri)?, tag: tag_of(uri), owner }));
        let named = named.filter(|spot| !is_elsewhere(spot.address.ip(), received.ip()));
        let seen = named.is_none_or(|spot| spot.address != received);
        [named, seen.then_some(Spot::of_source(received))]
    }
}

/// A tag of the user part, equal for URIs that are equivalent (FNV-1a; who makes others collide gains
/// nothing).
fn tag_of(uri: &Uri<'_>) -> u16 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let user = uri.user.unwrap_or(b"");
    let hash = match user.contains(&b'%') {
        true => uri.unescaped_user().fold(0x811c_9dc5, step),
        false => user.iter().copied().fold(0x811c_9dc5, step),
    };
    ((hash ^ hash >> 16) as u16).max(OF_SOURCE + 1)
}

fn count_down<K: Ord>(map: &mut BTreeMap<K, u32>, key: K) {
    if let Some(count) = map.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            map.remove(&key);
        }
    }
}

/// Whether a contact names a loopback, link-local or private address and whoever registered it is at none:
/// it is on another machine, link or network then, and what is at that address here is no phone.
fn is_elsewhere(contact: IpAddr, source: IpAddr) -> bool {
    let near = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => (ip.is_loopback(), ip.is_link_local()),
        IpAddr::V6(ip) => (ip.is_loopback(), ip.is_unicast_link_local()),
    };
    let ((loopback, link), (from_loopback, from_link)) = (near(contact), near(source));
    (loopback && !from_loopback) || (link && !from_link) || (!is_public(contact) && is_outside(source))
}

/// Whether somebody at this address is outside of private networks: at a public one. Who is at a loopback
/// address is on our own machine.
pub fn is_outside(ip: IpAddr) -> bool {
    is_public(ip) && !ip.to_canonical().is_loopback()
}

/// Whether an address means the same to everybody who may reach it: a public one, or loopback, which is
/// known by other rules. A private one may be behind address translation, or in our own network.
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            !(v4.is_private() || v4.is_link_local() || v4.is_unspecified() || (a == 100 && b & 0xc0 == 64))
        }
        IpAddr::V6(v6) => !(v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_unspecified()),
    }
}

/// The transport address that a contact URI spells out; `None` if its host is a name.
pub(crate) fn address_of(uri: &Uri<'_>) -> Option<SocketAddr> {
    let ip = uri.host_ip()?;
    let transport = match uri.scheme {
        Scheme::Sips => Transport::Tls,
        _ => uri.transport().unwrap_or(Transport::Udp),
    };
    Some(SocketAddr::new(ip, uri.port.unwrap_or(transport.default_port())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOBODY: Owner = Owner { part: 0, hash: 0 };

    /// Candidates for a Contact at `address`, and whether some were left out.
    fn candidates(index: &AddressIndex, address: SocketAddr, uri: &str) -> (usize, bool) {
        let uri = Uri::parse(uri.as_bytes()).expect("a URI");
        let mut count = 0;
        let cut = index.candidates(&ContactAt::new(address, &uri, Time::ZERO), |_| count += 1);
        (count, cut)
    }

    #[test]
    fn sources_are_one_counted_key_and_no_candidates() {
        let (mut index, source) = (AddressIndex::default(), SocketAddr::from(([192, 0, 2, 9], 40_000)));
        let seen = Spot::of_source(source);
        // More than the phones behind one proxy.
        (0..70_000).for_each(|_| index.add(&seen));
        assert_eq!(index.v4.len(), 1);
        for user in 0..400_000 {
            let uri = format!("sip:{user}@192.0.2.9:40000");
            let tag = tag_of(&Uri::parse(uri.as_bytes()).expect("a URI"));
            assert_ne!(tag, OF_SOURCE, "{user}");
        }
        assert_eq!(candidates(&index, source, "sip:0@192.0.2.9:40000"), (0, false));
        (1..70_000).for_each(|_| index.remove(&seen));
        assert!(index.contains(source));
        index.remove(&seen);
        assert!(!index.contains(source) && index.v4.is_empty());
    }

    #[test]
    fn candidates_tell_that_some_were_left_out() {
        for ip in ["192.0.2.9", "2001:db8::9"] {
            let (mut index, address) =
                (AddressIndex::default(), SocketAddr::new(ip.parse().expect("an IP"), 5060));
            let uri = match ip.contains(':') {
                true => format!("sip:s@[{ip}]"),
                false => format!("sip:s@{ip}"),
            };
            let tag = tag_of(&Uri::parse(uri.as_bytes()).expect("a URI"));
            for hash in 0..MOST_CANDIDATES as u32 {
                index.add(&Spot { address, tag, owner: Owner { hash, ..NOBODY } });
            }
            assert_eq!(candidates(&index, address, &uri), (MOST_CANDIDATES, false));
            index.add(&Spot { address, tag, owner: Owner { part: 1, hash: 0 } });
            assert_eq!(candidates(&index, address, &uri), (MOST_CANDIDATES, true));
        }
    }

    #[test]
    fn tags_of_equivalent_user_parts_are_equal() {
        let tag = |uri: &str| tag_of(&Uri::parse(uri.as_bytes()).expect("a URI"));
        for (a, b) in [("sip:alice@h", "sip:%61l%69ce@h"), ("sip:a%41b@h", "sip:aAb@h"), ("sip:h", "sip:h")] {
            assert_eq!(tag(a), tag(b), "{a} {b}");
        }
        assert_ne!(tag("sip:alice@h"), tag("sip:Alice@h"));
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_their_bytes(a: [u8; 26], b: [u8; 26], same in 0..=26_usize) {
            let mut b = b;
            b[..same].copy_from_slice(&a[..same]);
            prop_assert_eq!(Key(a).cmp(&Key(b)), a.cmp(&b));
            let (a, b): ([u8; 14], [u8; 14]) = (a[..14].try_into().expect("14"), b[..14].try_into().expect("14"));
            prop_assert_eq!(Key(a).cmp(&Key(b)), a.cmp(&b));
        }
    }
}
