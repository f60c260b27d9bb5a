//! How many bindings each transport address stands in, as Contact or as source of the REGISTER.
//!
//! An ordered map: no rehash, so no long step, and no hash to attack.

use super::binding::Binding;
use core::net::{IpAddr, SocketAddr};
use sip_message::{Scheme, Uri};
use std::collections::BTreeMap;
use wire::Transport;

#[derive(Default)]
pub(crate) struct Addresses {
    /// Address and port in one integer.
    v4: BTreeMap<u64, u32>,
    v6: BTreeMap<(u128, u16), u32>,
}

impl Addresses {
    pub(crate) fn contains(&self, address: SocketAddr) -> bool {
        match key(address) {
            Key::V4(k) => self.v4.contains_key(&k),
            Key::V6(k) => self.v6.contains_key(&k),
        }
    }

    /// Counts the addresses of a binding in.
    pub(crate) fn add(&mut self, binding: &Binding<'_>) {
        self.add_both(binding.flow.remote, contact_address(binding.contact));
    }

    /// The same for a binding whose contact was taken apart already.
    pub(crate) fn add_read(&mut self, binding: &Binding<'_>, contact: &Uri<'_>) {
        self.add_both(binding.flow.remote, address_of(contact));
    }

    fn add_both(&mut self, received: SocketAddr, contact: Option<SocketAddr>) {
        for address in both(received, contact) {
            let count = match key(address) {
                Key::V4(k) => self.v4.entry(k).or_insert(0),
                Key::V6(k) => self.v6.entry(k).or_insert(0),
            };
            *count = count.saturating_add(1);
        }
    }

    /// Counts the addresses of a binding out.
    pub(crate) fn remove(&mut self, binding: &Binding<'_>) {
        for address in addresses_of(binding) {
            match key(address) {
                Key::V4(k) => count_down(&mut self.v4, k),
                Key::V6(k) => count_down(&mut self.v6, k),
            }
        }
    }

    /// Bytes held, estimated: B-tree leaves of random keys are about two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.len() * (size_of::<u64>() + size_of::<u32>() + 4) * 3 / 2
            + self.v6.len() * (size_of::<(u128, u16)>() + size_of::<u32>() + 4) * 3 / 2
    }
}

enum Key {
    V4(u64),
    V6((u128, u16)),
}

fn key(address: SocketAddr) -> Key {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => Key::V4(u64::from(u32::from(ip)) << 16 | u64::from(address.port())),
        IpAddr::V6(ip) => Key::V6((u128::from(ip), address.port())),
    }
}

fn count_down<K: Ord>(map: &mut BTreeMap<K, u32>, key: K) {
    if let Some(count) = map.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            map.remove(&key);
        }
    }
}

/// The received address, and the Contact's if it is another one.
fn addresses_of(binding: &Binding<'_>) -> impl Iterator<Item = SocketAddr> {
    both(binding.flow.remote, contact_address(binding.contact))
}

fn both(received: SocketAddr, contact: Option<SocketAddr>) -> impl Iterator<Item = SocketAddr> {
    let contact = contact.filter(move |a| *a != received && !is_elsewhere(a.ip(), received.ip()));
    core::iter::once(received).chain(contact)
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
pub(crate) fn contact_address(contact: &[u8]) -> Option<SocketAddr> {
    address_of(&Uri::parse(contact).ok()?)
}

fn address_of(uri: &Uri<'_>) -> Option<SocketAddr> {
    let ip = uri.host_ip()?;
    let transport = match uri.scheme {
        Scheme::Sips => Transport::Tls,
        _ => uri.transport().unwrap_or(Transport::Udp),
    };
    Some(SocketAddr::new(ip, uri.port.unwrap_or(transport.default_port())))
}
