//! Messages that wait for each other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Generator, Machine, Outbox, Time, Transport};
use worker_runtime::{Bound, Runtime, RuntimeConfig, monotonic_now};

const GRAIN: Duration = Duration::from_millis(1);

/// What the [`Echo`] has seen.
#[derive(Default)]
struct Seen {
    messages: AtomicU64,
    /// Those that came with their time of arrival.
    late: AtomicU64,
    /// Times of arrival before the message was sent, or after it was handled.
    impossible: AtomicU64,
}

/// A machine that returns what it gets. A message is the time at which it was sent.
struct Echo(Arc<Seen>);

impl Machine for Echo {
    type Notice = ();

    fn frame(&self, _: Transport, buffer: &[u8], _: usize) -> Frame {
        Frame::Skip { len: buffer.len() }
    }

    fn owner(&self, _: &[u8], _: u16) -> Option<u16> {
        Some(0)
    }

    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        let Arrival { now, at, flow, message, .. } = arrival;
        if let Some(at) = at {
            let sent = Time::from_micros(u64::from_ne_bytes(message.try_into().unwrap()));
            // Two clocks are read one after the other, each to the microsecond. A message that came after
            // the start of the round counts from that start.
            let possible = at == now || (sent <= at + Duration::from_micros(50) && at < now);
            self.0.impossible.fetch_add(u64::from(!possible), Ordering::Relaxed);
            self.0.late.fetch_add(1, Ordering::Relaxed);
        }
        self.0.messages.fetch_add(1, Ordering::Relaxed);
        out.send(flow, 0, message);
        None
    }

    fn refuse(&mut self, _: Time, _: Flow, _: &[u8], _: FrameError, _: &mut Outbox) {}

    fn disconnected(&mut self, _: Time, _: ConnId, _: &mut Outbox) {}

    fn undeliverable(&mut self, _: Time, _: u64, _: &mut Outbox) {}

    fn notice(&mut self, _: Time, (): (), _: &mut Outbox) {}

    fn timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

impl Generator for Echo {}

/// Sends messages until as many as are wanted have come to the machine late, and answers what it has seen and
/// how often its worker woke.
fn run(grain: Duration, peer: bool, enough: impl Fn(&Seen) -> bool) -> (Arc<Seen>, u64) {
    run_with(|config| config.generator.grain = grain, peer, enough)
}

/// The same with a runtime of other settings.
fn run_with(
    change: impl Fn(&mut RuntimeConfig),
    peer: bool,
    enough: impl Fn(&Seen) -> bool,
) -> (Arc<Seen>, u64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let seen = Arc::new(Seen::default());
    let mut config = config("127.0.0.1");
    change(&mut config);
    config.generator.peer = peer.then(|| socket.local_addr().unwrap());
    let runtime = Bound::new(config, 1).unwrap().start_generator(vec![Echo(Arc::clone(&seen))]).unwrap();
    let handle = runtime.handle();
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 64];
    let mut answers = 0;
    wait("enough messages", || {
        for _ in 0..500 {
            let now = monotonic_now().as_micros().to_ne_bytes();
            socket.send_to(&now, handle.listeners()[0].address).unwrap();
        }
        while socket.recv(&mut buffer).is_ok() {
            answers += 1;
        }
        (enough(&seen) && answers > 0).then_some(())
    });
    handle.shutdown();
    runtime.join().unwrap();
    (seen, handle.counts().rounds)
}

/// The same where another worker than the one that owns the messages takes them in.
#[test]
fn the_time_of_arrival_goes_with_a_message_from_worker_to_worker() {
    let seen = Arc::new(Seen::default());
    let mut config = config("127.0.0.1");
    config.generator.grain = GRAIN;
    let machines = vec![Echo(Arc::clone(&seen)), Echo(Arc::clone(&seen))];
    let runtime = Bound::new(config, 2).unwrap().start_generator(machines).unwrap();
    let handle = runtime.handle();
    let to = handle.listeners()[0].address;
    let tell = |socket: &UdpSocket| socket.send_to(&monotonic_now().as_micros().to_ne_bytes(), to).unwrap();
    // The kernel gives what one socket sends to one worker; one whose messages worker 1 gets.
    let socket = wait("a socket of worker 1", || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = handle.counts();
        tell(&socket);
        let counts = wait("the message", || {
            let counts = handle.counts();
            (counts.udp_out > before.udp_out).then_some(counts)
        });
        (counts.hops_in > before.hops_in).then_some(socket)
    });
    wait("late messages", || {
        for _ in 0..500 {
            tell(&socket);
        }
        (seen.late.load(Ordering::Relaxed) >= 2_000).then_some(())
    });
    assert_eq!(seen.impossible.load(Ordering::Relaxed), 0);
    handle.shutdown();
    runtime.join().unwrap();
}

#[test]
fn frequent_messages_come_with_their_time_of_arrival() {
    for peer in [false, true] {
        let (seen, _) = run(GRAIN, peer, |seen| seen.late.load(Ordering::Relaxed) >= 2_000);
        assert_eq!(seen.impossible.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn without_a_grain_no_message_is_late() {
    let (seen, _) = run(Duration::ZERO, false, |seen| seen.messages.load(Ordering::Relaxed) >= 2_000);
    assert_eq!(seen.late.load(Ordering::Relaxed), 0);
}

#[test]
fn stamps_without_a_grain_come_with_every_message() {
    for peer in [false, true] {
        let stamped = |config: &mut RuntimeConfig| config.generator.stamps = true;
        let (seen, _) = run_with(stamped, peer, |seen| seen.late.load(Ordering::Relaxed) >= 2_000);
        assert_eq!(seen.impossible.load(Ordering::Relaxed), 0);
        let late = seen.late.load(Ordering::Relaxed);
        assert_eq!(seen.messages.load(Ordering::Relaxed), late, "those that come alone, too");
    }
}

/// A machine that wants to be called each millisecond, and when it was.
struct Clockwork(Arc<Mutex<Vec<Time>>>);

impl Machine for Clockwork {
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
        self.0.lock().unwrap().push(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.0.lock().unwrap().last().map_or(Time::ZERO, |last| *last + GRAIN))
    }
}

/// How often the machine is called in ten grains of 40 ms, once the first ones have been judged.
fn calls_in_ten_grains(transport: Transport) -> usize {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let mut config = config("127.0.0.1");
    config.listeners.retain(|listener| listener.transport == transport);
    config.generator.grain = Duration::from_millis(40);
    let runtime = Runtime::start(config, vec![Clockwork(Arc::clone(&calls))]).unwrap();
    let judged = monotonic_now() + Duration::from_secs(1);
    let end = judged + Duration::from_millis(400);
    wait("calls", || calls.lock().unwrap().last().is_some_and(|&at| at > end).then_some(()));
    runtime.handle().shutdown();
    runtime.join().unwrap();
    calls.lock().unwrap().iter().filter(|&&at| judged < at && at <= end).count()
}

/// A message on a stream has no time of arrival, so it must not wait.
#[test]
fn where_there_are_only_streams_nothing_waits() {
    assert!(calls_in_ten_grains(Transport::Udp) <= 11);
    assert!(calls_in_ten_grains(Transport::Tcp) > 20);
}
