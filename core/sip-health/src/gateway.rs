//! The targets that the operator names, by their URIs, and those of their addresses that do not answer.
//!
//! One object for a URI, shared by all workers and by all lists that name it, and carried over a reload: what
//! one worker finds holds for every call that begins after it. While all is well a worker reads atomics
//! alone; the lock is taken where some address of the target does not answer.

use crate::line::Lines;
use crate::vital::{Health, Vital, Why};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Flow, Time, Transport};

/// Addresses of one target that are marked at one time. Others are tried as before.
pub const MOST_MARKS: usize = 8;

/// How a request to a target failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No response of any kind came in time.
    Silent,
    /// The network says that nobody listens there.
    Unreachable,
    /// This status, for which the next target was tried.
    Status(u16),
}

impl Failure {
    const fn number(self) -> u32 {
        match self {
            Failure::Silent => 1,
            Failure::Unreachable => 2,
            Failure::Status(status) => status as u32,
        }
    }

    const fn from_number(number: u32) -> Option<Failure> {
        match number {
            0 => None,
            1 => Some(Failure::Silent),
            2 => Some(Failure::Unreachable),
            status => Some(Failure::Status(status as u16)),
        }
    }

    const fn why(self) -> Why {
        match self {
            Failure::Unreachable => Why::Unreachable,
            Failure::Silent | Failure::Status(_) => Why::Silent,
        }
    }
}

/// An address of a target that does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    transport: Transport,
    remote: SocketAddr,
}

impl Mark {
    const fn of(flow: &Flow) -> Mark {
        Mark { transport: flow.transport, remote: flow.remote }
    }
}

/// A target as it is at one time, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Whether it answers.
    pub health: Health,
    /// Why that is believed.
    pub why: Why,
    /// Since when; `None`: from the start.
    pub since: Option<Time>,
    /// Requests sent to it.
    pub calls: u64,
    /// Those of them that failed there.
    pub failures: u64,
    /// How the last of these failed, and when.
    pub last: Option<(Failure, Time)>,
    /// Its addresses that do not answer.
    pub marked: Vec<(Transport, SocketAddr)>,
}

/// One target.
#[derive(Debug)]
pub struct Gateway {
    uri: Box<[u8]>,
    vital: Vital,
    /// Microseconds since which it is as it is; zero: from the start.
    since: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
    /// How a request failed last, and when, microseconds.
    last: AtomicU32,
    last_at: AtomicU64,
    /// How many marks there are.
    marked: AtomicU32,
    marks: Mutex<Vec<Mark>>,
}

impl Gateway {
    fn new(uri: &[u8]) -> Gateway {
        Gateway {
            uri: uri.into(),
            vital: Vital::default(),
            since: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last: AtomicU32::new(0),
            last_at: AtomicU64::new(0),
            marked: AtomicU32::new(0),
            marks: Mutex::default(),
        }
    }

    /// Its URI, as the operator wrote it.
    pub fn uri(&self) -> &[u8] {
        &self.uri
    }

    /// Whether it is tried before those that do not answer.
    pub fn takes_calls(&self) -> bool {
        self.vital.takes_calls()
    }

    /// A request is sent to it.
    pub fn sent(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// A request to it failed.
    pub fn failed(&self, now: Time, failure: Failure) {
        self.failures.fetch_add(1, Relaxed);
        self.last.store(failure.number(), Relaxed);
        self.last_at.store(now.as_micros(), Relaxed);
    }

    /// Whether some address of it does not answer.
    pub fn has_marks(&self) -> bool {
        self.marked.load(Relaxed) != 0
    }

    /// Whether this address of it does not answer.
    pub fn is_marked(&self, flow: &Flow) -> bool {
        self.has_marks() && self.lock().contains(&Mark::of(flow))
    }

    /// One of its `addresses` addresses does not answer. `true`: that was not known, and whoever asks is to
    /// probe it. With its last address the target gets no calls that another could have.
    pub fn mark(&self, now: Time, flow: &Flow, failure: Failure, addresses: usize) -> bool {
        let mut marks = self.lock();
        let mark = Mark::of(flow);
        if marks.contains(&mark) || marks.len() == MOST_MARKS {
            return false;
        }
        marks.push(mark);
        self.marked.store(marks.len() as u32, Relaxed);
        if marks.len() >= addresses && self.vital.set_silent(failure.why()) {
            self.changed(now);
        }
        true
    }

    /// Something came from an address of it. `true`: that one did not answer before.
    pub fn heard(&self, now: Time, flow: &Flow) -> bool {
        if !self.has_marks() {
            if self.vital.heard(now) {
                self.changed(now);
            }
            return false;
        }
        let mut marks = self.lock();
        let before = marks.len();
        marks.retain(|mark| *mark != Mark::of(flow));
        self.marked.store(marks.len() as u32, Relaxed);
        if self.vital.set_up() {
            self.changed(now);
        }
        marks.len() < before
    }

    /// A probe of a marked address was not answered.
    pub fn probe_failed(&self, why: Why) {
        // Under the lock by which an answer takes the marks away: one that came meanwhile counts.
        let marks = self.lock();
        if !marks.is_empty() && self.vital.is_silent() {
            self.vital.set_down(why);
        }
    }

    /// Its URI leads to these addresses now: what is known of others no longer counts.
    pub fn located(&self, now: Time, flows: &[Flow]) {
        let mut marks = self.lock();
        let before = marks.len();
        // Whatever the transport: a large request has other ways there than a small one.
        marks.retain(|mark| flows.iter().any(|flow| flow.remote == mark.remote));
        self.marked.store(marks.len() as u32, Relaxed);
        if marks.len() < before && marks.len() < flows.len() && !self.takes_calls() {
            self.vital.reset();
            self.changed(now);
        }
    }

    /// How it is.
    pub fn standing(&self) -> Standing {
        let time = |of: &AtomicU64| Time::from_micros(of.load(Relaxed));
        let (health, why) = self.vital.health();
        // Doubted by a call, before a probe has said so: it gets no calls that another could have.
        let health = if self.takes_calls() { health } else { Health::Down };
        let last = Failure::from_number(self.last.load(Relaxed));
        Standing {
            health,
            why,
            since: Some(time(&self.since)).filter(|since| *since != Time::ZERO),
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
            last: last.map(|last| (last, time(&self.last_at))),
            marked: self.lock().iter().map(|mark| (mark.transport, mark.remote)).collect(),
        }
    }

    fn changed(&self, now: Time) {
        self.since.store(now.as_micros(), Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All targets of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Gateways {
    by_uri: BTreeMap<Box<[u8]>, Arc<Gateway>>,
    lines: Lines,
}

impl Gateways {
    /// Those with these URIs. What `before` knows of them goes on.
    pub fn new<'a>(uris: impl IntoIterator<Item = &'a [u8]>, before: &Gateways) -> Gateways {
        let known = |uri| before.get(uri).cloned().unwrap_or_else(|| Arc::new(Gateway::new(uri)));
        let by_uri = uris.into_iter().map(|uri| (uri.into(), known(uri))).collect();
        Gateways { by_uri, lines: Lines::default() }
    }

    /// The same with the trunks that they are targets of.
    #[must_use]
    pub fn with_lines(self, lines: Lines) -> Gateways {
        Gateways { lines, ..self }
    }

    /// The trunks that they are targets of.
    pub const fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The target of this URI.
    pub fn get(&self, uri: &[u8]) -> Option<&Arc<Gateway>> {
        self.by_uri.get(uri)
    }

    /// Whether this very target is among them.
    pub fn has(&self, gateway: &Arc<Gateway>) -> bool {
        self.get(&gateway.uri).is_some_and(|own| Arc::ptr_eq(own, gateway))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Gateway>> {
        self.by_uri.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ListenerId;

    const NOW: Time = Time::from_secs(100);

    fn flow(transport: Transport, last: u8) -> Flow {
        let remote = SocketAddr::from(([192, 0, 2, last], 5060));
        Flow { transport, listener: ListenerId(0), remote, conn: None }
    }

    fn one() -> Arc<Gateway> {
        let all = Gateways::new([&b"sip:gw"[..]], &Gateways::default());
        all.get(b"sip:gw").unwrap().clone()
    }

    #[test]
    fn a_target_is_down_when_all_its_addresses_are_marked() {
        let (gateway, a, b) = (one(), flow(Transport::Udp, 1), flow(Transport::Udp, 2));
        assert!(gateway.mark(NOW, &a, Failure::Silent, 2) && !gateway.mark(NOW, &a, Failure::Silent, 2));
        assert!(gateway.takes_calls() && gateway.is_marked(&a) && !gateway.is_marked(&b));
        assert!(!gateway.is_marked(&flow(Transport::Tcp, 1)), "another transport may work");
        assert!(gateway.mark(NOW, &b, Failure::Unreachable, 2) && !gateway.takes_calls());
        let standing = gateway.standing();
        assert_eq!((standing.health, standing.why), (Health::Down, Why::Unreachable));
        assert_eq!((standing.since, standing.marked.len()), (Some(NOW), 2));
    }

    #[test]
    fn an_answer_of_a_marked_address_brings_the_target_up() {
        let (gateway, a) = (one(), flow(Transport::Udp, 1));
        assert!(!gateway.heard(NOW, &a) && gateway.standing().health == Health::Up);
        gateway.mark(NOW, &a, Failure::Silent, 1);
        gateway.probe_failed(Why::ProbeTimeout);
        assert_eq!(gateway.standing().why, Why::ProbeTimeout);
        assert!(gateway.heard(NOW, &a) && !gateway.heard(NOW, &a));
        assert!(gateway.takes_calls() && !gateway.has_marks());
        gateway.probe_failed(Why::ProbeTimeout);
        assert!(gateway.takes_calls(), "it was asked before it answered");
    }

    #[test]
    fn marks_of_addresses_that_a_name_lost_are_forgotten() {
        let (gateway, a, b) = (one(), flow(Transport::Udp, 1), flow(Transport::Udp, 2));
        gateway.mark(NOW, &a, Failure::Silent, 1);
        gateway.located(NOW, &[a]);
        assert!(!gateway.takes_calls());
        gateway.located(NOW, &[b]);
        assert!(gateway.takes_calls() && !gateway.has_marks());
    }

    #[test]
    fn marks_are_bounded() {
        let gateway = one();
        let marked =
            (0..20).filter(|n| gateway.mark(NOW, &flow(Transport::Udp, *n), Failure::Silent, 20)).count();
        assert_eq!(marked, MOST_MARKS);
    }

    #[test]
    fn failures_are_counted_with_the_last_one() {
        let gateway = one();
        (0..3).for_each(|_| gateway.sent());
        gateway.failed(NOW, Failure::Silent);
        gateway.failed(NOW, Failure::Status(503));
        let standing = gateway.standing();
        assert_eq!((standing.calls, standing.failures), (3, 2));
        assert_eq!(standing.last, Some((Failure::Status(503), NOW)));
    }

    #[test]
    fn a_reload_keeps_what_is_known_of_a_target() {
        let before = Gateways::new([&b"sip:a"[..], b"sip:b"], &Gateways::default());
        let after = Gateways::new([&b"sip:b"[..], b"sip:c"], &before);
        let (a, b) = (before.get(b"sip:a").unwrap(), before.get(b"sip:b").unwrap());
        assert!(after.has(b) && !after.has(a) && after.iter().count() == 2);
    }
}
