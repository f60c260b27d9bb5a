//! Which transport addresses bindings stand at: that of their Contact, and that of the REGISTER's source.
//!
//! An ordered map: no rehash, so no long step, and no hash to attack. Beside the address the key of a Contact has a tag
//! of its user part and the hash of the address of record, so that a URI finds the few bindings that it may name.

use super::binding::Binding;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use sip_message::{Scheme, Uri};
use std::collections::BTreeMap;
use wire::Transport;

/// Address, port, tag of the Contact's user part, hash of the address of record.
type Key<A> = (A, u16, u16, u32);

/// Bindings that one look-up of a Contact reads at most: those of one address whose user parts have one tag.
const MOST_CANDIDATES: usize = 64;

#[derive(Default)]
pub(crate) struct Addresses {
    v4: BTreeMap<Key<u32>, u32>,
    v6: BTreeMap<Key<u128>, u32>,
}

impl Addresses {
    pub(crate) fn contains(&self, address: SocketAddr) -> bool {
        let port = address.port();
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => self.v4.range(every(ip.to_bits(), port)).next().is_some(),
            IpAddr::V6(ip) => self.v6.range(every(ip.to_bits(), port)).next().is_some(),
        }
    }

    /// The hashes of the addresses of record of which some Contact at `address` may be `uri`.
    pub(crate) fn candidates(&self, address: SocketAddr, uri: &Uri<'_>, mut each: impl FnMut(u32)) {
        let (port, tag) = (address.port(), tag_of(uri));
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => {
                let found = self.v4.range(tagged(ip.to_bits(), port, tag)).take(MOST_CANDIDATES);
                found.for_each(|(key, _)| each(key.3));
            }
            IpAddr::V6(ip) => {
                let found = self.v6.range(tagged(ip.to_bits(), port, tag)).take(MOST_CANDIDATES);
                found.for_each(|(key, _)| each(key.3));
            }
        }
    }

    /// Counts the addresses of a binding in. `aor`: the hash of its address of record.
    pub(crate) fn add(&mut self, aor: u32, binding: &Binding<'_>) {
        self.add_places(places(aor, binding.flow.remote, Uri::parse(binding.contact).ok().as_ref()));
    }

    /// The same for a binding whose contact was taken apart already.
    pub(crate) fn add_read(&mut self, aor: u32, binding: &Binding<'_>, contact: &Uri<'_>) {
        self.add_places(places(aor, binding.flow.remote, Some(contact)));
    }

    fn add_places(&mut self, places: [Option<Place>; 2]) {
        for (address, tag, aor) in places.into_iter().flatten() {
            let port = address.port();
            let count = match address.ip().to_canonical() {
                IpAddr::V4(ip) => self.v4.entry((ip.to_bits(), port, tag, aor)).or_insert(0),
                IpAddr::V6(ip) => self.v6.entry((ip.to_bits(), port, tag, aor)).or_insert(0),
            };
            *count = count.saturating_add(1);
        }
    }

    /// Counts the addresses of a binding out.
    pub(crate) fn remove(&mut self, aor: u32, binding: &Binding<'_>) {
        let contact = Uri::parse(binding.contact).ok();
        let places = places(aor, binding.flow.remote, contact.as_ref());
        for (address, tag, aor) in places.into_iter().flatten() {
            let port = address.port();
            match address.ip().to_canonical() {
                IpAddr::V4(ip) => count_down(&mut self.v4, (ip.to_bits(), port, tag, aor)),
                IpAddr::V6(ip) => count_down(&mut self.v6, (ip.to_bits(), port, tag, aor)),
            }
        }
    }

    /// Bytes held, estimated: B-tree leaves of random keys are about two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.len() * (size_of::<Key<u32>>() + size_of::<u32>()) * 3 / 2
            + self.v6.len() * (size_of::<Key<u128>>() + size_of::<u32>()) * 3 / 2
    }
}

/// All keys of an address.
const fn every<A: Copy>(ip: A, port: u16) -> RangeInclusive<Key<A>> {
    RangeInclusive::new((ip, port, 0, 0), (ip, port, u16::MAX, u32::MAX))
}

/// All keys of Contacts at an address whose user parts have this tag.
const fn tagged<A: Copy>(ip: A, port: u16, tag: u16) -> RangeInclusive<Key<A>> {
    RangeInclusive::new((ip, port, tag, 0), (ip, port, tag, u32::MAX))
}

/// A tag of the user part, equal for URIs that are equivalent (FNV-1a; who makes others collide gains nothing).
fn tag_of(uri: &Uri<'_>) -> u16 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = uri.unescaped_user().fold(0x811c_9dc5, step);
    (hash ^ hash >> 16) as u16
}

/// An address with what else the key has.
type Place = (SocketAddr, u16, u32);

/// Where a binding stands: at its Contact's address, and at that of the source if it is another one. Of sources only
/// their number counts.
fn places(aor: u32, received: SocketAddr, contact: Option<&Uri<'_>>) -> [Option<Place>; 2] {
    let named = contact.and_then(|uri| Some((address_of(uri)?, tag_of(uri), aor)));
    let named = named.filter(|(address, ..)| !is_elsewhere(address.ip(), received.ip()));
    let seen = named.is_none_or(|(address, ..)| address != received);
    [named, seen.then_some((received, 0, 0))]
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

/// Whether a stored Contact is at `address` and equivalent to `uri`.
pub(crate) fn is_contact(contact: &[u8], address: SocketAddr, uri: &Uri<'_>) -> bool {
    let contact = Uri::parse(contact).ok();
    contact.is_some_and(|contact| address_of(&contact) == Some(address) && contact.equivalent(uri))
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
