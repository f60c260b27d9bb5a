//! Addresses of the operator's targets that are given by name. Each worker looks the names up regularly, with
//! or without calls, because a request to such an address must follow the rules of the target.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use sip_proxy::locate::Destination;
use std::mem;
use wire::Time;

/// From one look-up to the next.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long an answer may take until the question is put again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an address counts after the DNS has named it last: a name may have a few addresses at a time of
/// many.
const KEPT: Duration = Duration::from_secs(3_600);
/// Addresses kept of one target.
pub(crate) const MOST: usize = 32;

/// One target.
#[derive(Debug)]
struct Target {
    uri: Vec<u8>,
    seen: Vec<(SocketAddr, Time)>,
    next: Time,
    /// A question is open.
    waits: bool,
}

/// The addresses of targets, each with the number of its target.
#[derive(Debug, Default)]
pub(crate) struct NamedTargets {
    targets: Vec<Target>,
    /// In order.
    addresses: Vec<(SocketAddr, usize)>,
    wakes: Option<Time>,
}

impl NamedTargets {
    /// Another target: its number is how many there were.
    pub fn add(&mut self, uri: &[u8]) {
        self.targets.push(Target { uri: uri.to_vec(), seen: Vec::new(), next: Time::ZERO, waits: false });
        self.wakes = Some(Time::ZERO);
    }

    /// Takes over what was known of the same targets.
    pub fn keep(&mut self, mut before: NamedTargets) {
        for target in &mut self.targets {
            if let Some(known) = before.targets.iter_mut().find(|known| known.uri == target.uri) {
                target.seen = mem::take(&mut known.seen);
            }
        }
        self.sort();
    }

    /// What is at any port of an IP address.
    pub fn at(&self, ip: IpAddr) -> impl Iterator<Item = (SocketAddr, usize)> {
        let from = self.addresses.partition_point(|(address, _)| address.ip() < ip);
        let rest = self.addresses.get(from..).unwrap_or_default();
        rest.iter().take_while(move |(address, _)| address.ip() == ip).copied()
    }

    /// Where a target is.
    pub fn of(&self, number: usize) -> impl Iterator<Item = SocketAddr> {
        let seen = self.targets.get(number).map_or(&[][..], |target| &target.seen);
        seen.iter().map(|(address, _)| *address)
    }

    /// When the next target is due.
    pub fn wakes(&self) -> Option<Time> {
        self.wakes
    }

    /// An answer came: it may be to a question of ours.
    pub fn look(&mut self) {
        self.targets.iter_mut().filter(|target| target.waits).for_each(|target| target.next = Time::ZERO);
        self.plan();
    }

    /// The next target to look up, which is not due again before the answer may have come.
    pub fn due(&mut self, now: Time) -> Option<(usize, Vec<u8>)> {
        if self.wakes.is_none_or(|wakes| wakes > now) {
            return None;
        }
        let at = self.targets.iter().position(|target| target.next <= now)?;
        let target = self.targets.get_mut(at)?;
        (target.next, target.waits) = (now + PATIENCE, true);
        let uri = target.uri.clone();
        self.plan();
        Some((at, uri))
    }

    fn plan(&mut self) {
        self.wakes = self.targets.iter().map(|target| target.next).min();
    }

    /// A look-up came to an end; where it failed, what was known stays.
    pub fn note(&mut self, now: Time, at: usize, found: &[Destination]) {
        let Some(target) = self.targets.get_mut(at) else { return };
        (target.next, target.waits) = (now + INTERVAL, false);
        for d in found {
            let address = SocketAddr::new(d.address.ip().to_canonical(), d.address.port());
            target.seen.retain(|(known, _)| *known != address);
            target.seen.push((address, now + KEPT));
        }
        target.seen.retain(|(_, until)| found.is_empty() || *until > now);
        let over = target.seen.len().saturating_sub(MOST);
        target.seen.drain(..over);
        self.plan();
        self.sort();
    }

    fn sort(&mut self) {
        self.addresses.clear();
        for (at, target) in self.targets.iter().enumerate() {
            self.addresses.extend(target.seen.iter().map(|(address, _)| (*address, at)));
        }
        self.addresses.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Transport;

    fn destination(n: u8) -> Destination {
        Destination { transport: Transport::Udp, address: ([203, 0, 113, n], 5060).into() }
    }

    fn known(found: &NamedTargets) -> Vec<u8> {
        let last = |(address, _): &(SocketAddr, usize)| match address.ip() {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(_) => 0,
        };
        found.addresses.iter().map(last).collect()
    }

    #[test]
    fn addresses_of_a_target_are_kept_for_an_hour_and_bounded() {
        let mut found = NamedTargets::default();
        found.add(b"sip:carrier.example");
        let at = Time::from_secs;
        assert_eq!(found.due(at(0)), Some((0, b"sip:carrier.example".to_vec())));
        assert_eq!((found.due(at(4)), found.wakes()), (None, Some(at(5))));
        found.note(at(4), 0, &[destination(1), destination(2)]);
        assert_eq!((known(&found), found.wakes()), (vec![1, 2], Some(at(64))));
        found.note(at(64), 0, &[destination(2), destination(3)]);
        assert_eq!(known(&found), [1, 2, 3]);
        // A name that leads nowhere takes nothing back.
        found.note(at(4_000), 0, &[]);
        assert_eq!(known(&found), [1, 2, 3]);
        found.note(at(3_604), 0, &[destination(3)]);
        assert_eq!(known(&found), [2, 3], "an hour after it was named last");
        for n in 10..60 {
            found.note(at(4_000 + u64::from(n)), 0, &[destination(n)]);
        }
        assert_eq!(known(&found), (28..60).collect::<Vec<u8>>(), "the newest stay");
        // New settings begin with what is known of the same targets.
        let mut next = NamedTargets::default();
        [&b"sip:other.example"[..], b"sip:carrier.example"].iter().for_each(|uri| next.add(uri));
        next.keep(found);
        assert_eq!((next.addresses.len(), next.wakes()), (MOST, Some(Time::ZERO)));
        assert!(next.at([203, 0, 113, 40].into()).eq([(destination(40).address, 1)]));
    }
}
