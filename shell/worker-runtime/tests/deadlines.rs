//! How exactly a machine's deadlines are kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Machine, Outbox, Time, Transport};
use worker_runtime::Runtime;

/// Between one alarm of the [`Chain`] and the next.
const STEP: Duration = Duration::from_micros(300);

/// What the [`Chain`] has seen.
#[derive(Default)]
struct Seen {
    alarms: AtomicU64,
    early: AtomicU64,
    /// From setting an alarm to acting on it, at the least; microseconds.
    shortest: AtomicU64,
}

/// A machine whose next deadline is always a fraction of a millisecond away.
struct Chain {
    /// When the alarm was set; the first one is due at once and only begins the chain.
    set: Option<Time>,
    seen: Arc<Seen>,
}

impl Machine for Chain {
    type Notice = ();

    fn frame(&self, _: Transport, buffer: &[u8], _: usize) -> Frame {
        Frame::Skip { len: buffer.len() }
    }

    fn owner(&self, _: &[u8], _: u16) -> Option<u16> {
        Some(0)
    }

    fn receive(&mut self, _: Arrival<'_>, _: &mut Outbox) -> Option<u16> {
        None
    }

    fn refuse(&mut self, _: Time, _: Flow, _: &[u8], _: FrameError, _: &mut Outbox) {}

    fn disconnected(&mut self, _: Time, _: ConnId, _: &mut Outbox) {}

    fn undeliverable(&mut self, _: Time, _: u64, _: &mut Outbox) {}

    fn notice(&mut self, _: Time, (): (), _: &mut Outbox) {}

    fn timeout(&mut self, now: Time, _: &mut Outbox) {
        if let Some(set) = self.set {
            let took = (now - set).as_micros() as u64;
            self.seen.early.fetch_add(u64::from(now < set + STEP), Ordering::Relaxed);
            self.seen.shortest.fetch_min(took, Ordering::Relaxed);
            self.seen.alarms.fetch_add(1, Ordering::Relaxed);
        }
        // The runtime's own time: what passes until the sleep begins is part of it.
        self.set = Some(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.set.map_or(Time::ZERO, |set| set + STEP))
    }
}

/// Runs a chain until `enough` is true of its number of alarms and the shortest one, and answers the latter.
fn run(exact: bool, enough: impl Fn(u64, u64) -> bool) -> u64 {
    let seen = Arc::new(Seen { shortest: AtomicU64::new(u64::MAX), ..Seen::default() });
    let mut config = config("127.0.0.1");
    config.generator.exact_deadlines = exact;
    let runtime = Runtime::start(config, vec![Chain { set: None, seen: Arc::clone(&seen) }]).unwrap();
    let handle = runtime.handle();
    let shortest = wait("the alarms", || {
        let shortest = seen.shortest.load(Ordering::Relaxed);
        enough(seen.alarms.load(Ordering::Relaxed), shortest).then_some(shortest)
    });
    handle.shutdown();
    runtime.join().unwrap();
    // A round for each and a few for the start and the end: none came early to be slept for again.
    let (alarms, rounds) = (seen.alarms.load(Ordering::Relaxed), handle.counts().rounds);
    assert!(rounds <= alarms + 5, "{rounds} rounds for {alarms} alarms");
    assert_eq!(seen.early.load(Ordering::Relaxed), 0);
    shortest
}

#[test]
fn exact_deadlines_are_kept_within_a_millisecond() {
    // However busy the machine is, once in a while it is not. Who sleeps in milliseconds never gets there.
    run(true, |alarms, shortest| alarms >= 50 && shortest < 1_000);
}

#[test]
fn other_deadlines_are_slept_for_in_milliseconds() {
    assert!(run(false, |alarms, _| alarms >= 50) >= 1_000);
}
