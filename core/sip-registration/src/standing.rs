//! How a registration is. One object for a trunk, shared by all workers, and carried over a reload.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Time, Transport};

/// How a registration is, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// No answer yet.
    #[default]
    Trying,
    /// It is in force.
    Registered,
    /// The registrar has refused it with this status. It is tried again, seldom.
    Refused(u16),
    /// Nobody answers, or what answers cannot do it now.
    Failing,
}

/// A registration as it is at one time, for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    /// In one word.
    pub state: State,
    /// Since when it is so.
    pub since: Option<Time>,
    /// When it ends if it is not refreshed.
    pub until: Option<Time>,
    /// When the next REGISTER leaves; `None`: one is under way.
    pub next: Option<Time>,
    /// Where the registrar was reached last.
    pub at: Option<(Transport, SocketAddr)>,
    /// What went wrong last, in words.
    pub trouble: String,
    /// When that was.
    pub trouble_at: Option<Time>,
    /// The realm of the challenge that was answered.
    pub realm: Vec<u8>,
    /// REGISTERs that were sent, and attempts that failed.
    pub sent: u64,
    /// See above.
    pub failed: u64,
}

/// The shared state of one registration.
#[derive(Debug, Default)]
pub struct Standing {
    shown: Mutex<Shown>,
    /// The address that the registration is in force at, as IPv6 in two halves; zero: none. Read for each
    /// request, so it is apart from the lock.
    high: AtomicU64,
    low: AtomicU64,
}

impl Standing {
    /// How it is.
    pub fn shown(&self) -> Shown {
        self.lock().clone()
    }

    /// Changes what is shown. Requests come from `reached` while the registration is in force.
    pub fn set(&self, reached: Option<IpAddr>, change: impl FnOnce(&mut Shown)) {
        let mut shown = self.lock();
        change(&mut shown);
        let [high, low] = reached.map_or([0; 2], halves);
        // In between no address counts: half of one and half of the other is nobody's.
        self.high.store(0, Relaxed);
        self.low.store(low, Relaxed);
        self.high.store(high, Relaxed);
    }

    /// Whether the registration is in force at this address.
    pub fn is_at(&self, ip: IpAddr) -> bool {
        let there = [self.high.load(Relaxed), self.low.load(Relaxed)];
        there != [0; 2] && there == halves(ip)
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn halves(ip: IpAddr) -> [u64; 2] {
    let v6: Ipv6Addr = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let bits = v6.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

/// The registrations of a configuration, by the names of their trunks.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    by_name: BTreeMap<Box<[u8]>, Arc<Standing>>,
}

impl Standings {
    /// Those of these trunks. What `before` knows of them goes on.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a [u8]>, before: &Standings) -> Standings {
        let known = |name: &[u8]| before.get(name).cloned().unwrap_or_default();
        Standings { by_name: names.into_iter().map(|name| (name.into(), known(name))).collect() }
    }

    /// That of the trunk with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Standing>> {
        self.by_name.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_counts_while_it_is_set() {
        let (standing, v4) = (Standing::default(), IpAddr::from([203, 0, 113, 5]));
        let v6: IpAddr = "2001:db8::5".parse().unwrap();
        assert!(!standing.is_at(v4) && !standing.is_at("::".parse().unwrap()));
        standing.set(Some(v4), |shown| shown.state = State::Registered);
        assert!(standing.is_at(v4) && !standing.is_at([203, 0, 113, 6].into()));
        assert!(standing.is_at("::ffff:203.0.113.5".parse().unwrap()));
        standing.set(Some(v6), |_| {});
        assert!(standing.is_at(v6) && !standing.is_at(v4));
        standing.set(None, |shown| shown.state = State::Failing);
        assert!(!standing.is_at(v6));
        assert_eq!(standing.shown().state, State::Failing);
    }

    #[test]
    fn reload_keeps_the_registration_of_a_trunk() {
        let before = Standings::new([&b"a"[..], b"b"], &Standings::default());
        let after = Standings::new([&b"b"[..], b"c"], &before);
        let same = |one: &Standings, other: &Standings, name| {
            one.get(name).zip(other.get(name)).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
        };
        assert!(same(&before, &after, b"b") && after.get(b"a").is_none() && after.get(b"c").is_some());
    }
}
