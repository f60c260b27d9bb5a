//! How a worker waits for what comes next.

use super::alarm::Alarm;
use super::busy_poll::BusyPoll;
use super::grain::Grain;
use super::pressure::Pressure;
use crate::config::RuntimeConfig;
use crate::counters::Counters;
use crate::monotonic_now;
use crate::shared::Mailbox;
use crate::sys::{self, Poller};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::{Load, Time};

/// When a worker looks again whether another one has room in its ring, in milliseconds.
const LOOK_AGAIN: i32 = 1;

/// How long a worker may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Not at all: there is something to do.
    No,
    /// Another worker is behind, and will not tell when it has room.
    Shortly,
    /// Until something comes, or until then.
    Until(Time),
}

/// What ended a worker's sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// This number of reports of epoll.
    Events(usize),
    /// The end of a grain: any socket may have something.
    Grain,
}

/// How long epoll may wait.
enum Timeout {
    /// Until it reports something, or this number of milliseconds; -1 for ever.
    Milliseconds(i32),
    /// The worker has slept already.
    Over,
}

/// The sleep of one worker, and what it tells of the load.
pub(super) struct Sleep {
    alarm: Alarm,
    grain: Grain,
    busy_poll: BusyPoll,
    pressure: Pressure,
    counters: Arc<Counters>,
}

impl Sleep {
    /// Of a worker with datagram sockets or without. `poller` reports the alarm as `data`.
    pub fn new(
        config: &RuntimeConfig,
        datagrams: bool,
        (poller, data): (&Poller, u64),
        counters: Arc<Counters>,
        now: Time,
    ) -> io::Result<Sleep> {
        // Of a message on a stream nobody knows when it came: its wait would count as the peer's.
        let grain = if datagrams { config.generator.grain } else { Duration::ZERO };
        Ok(Sleep {
            alarm: Alarm::new(config.generator.exact_deadlines, poller, data)?,
            grain: Grain::new(grain, now),
            busy_poll: BusyPoll::new(config.busy_poll),
            pressure: Pressure::new(now),
            counters,
        })
    }

    /// The calling thread begins to work.
    pub fn begin(&self) {
        if self.grain.is_there() {
            sys::sleep_exactly();
        }
    }

    /// Whether the worker sleeps in grains now.
    #[inline]
    pub fn is_dense(&self) -> bool {
        self.grain.is_dense()
    }

    /// This number of messages came, or deadlines, each of which would have woken the worker.
    #[inline]
    pub fn note(&mut self, events: usize) {
        self.grain.note(events);
    }

    /// The round that ends spent this on handshakes, after everything else.
    pub fn spent_on_handshakes(&mut self, spent: Duration, rest: Duration) {
        self.pressure.spent_aside(spent, rest);
    }

    /// Not all that has come was taken.
    pub fn more(&mut self) {
        self.grain.more();
    }

    /// Waits for the next report or deadline. What ended that, what time it is, and how the worker kept up,
    /// once in a window. `few` says whether all sockets may be looked at without asking epoll.
    pub fn sleep<N>(
        &mut self,
        wait: Wait,
        now: Time,
        poller: &mut Poller,
        mailbox: &Mailbox<N>,
        few: impl FnOnce() -> bool,
    ) -> io::Result<(Woken, Time, Option<Load>)> {
        let mut timeout = match self.timeout(wait, now, few)? {
            Timeout::Milliseconds(timeout) => timeout,
            Timeout::Over => {
                self.counters.rounds.one();
                return Ok((Woken::Grain, monotonic_now(), None));
            }
        };
        let idle = timeout < 0 && self.busy_poll.is_there();
        let matters = self.pressure.waits(self.counters.taken());
        let before = (idle || matters).then(monotonic_now);
        let mut events = 0;
        if let Some(until) = before.filter(|_| idle).and_then(|now| self.busy_poll.until(now)) {
            events = self.look(until, poller, mailbox)?;
            timeout = if events > 0 || !mailbox.is_empty() { 0 } else { timeout };
        }
        if timeout != 0 {
            mailbox.fall_asleep();
            if !mailbox.is_empty() {
                timeout = 0;
            }
        }
        if events == 0 {
            events = poller.wait(timeout)?;
            self.counters.syscalls.one();
        }
        mailbox.wake_up();
        self.counters.rounds.one();
        let now = monotonic_now();
        if let Some(before) = before.filter(|_| idle) {
            self.busy_poll.waited(now.since(before));
        }
        let load = self.pressure.woke(before.filter(|_| matters), now);
        Ok((Woken::Events(events), now, load))
    }

    /// Looks for reports and for what other workers give, until there is something or the time is up. How
    /// many reports there are.
    fn look<N>(&self, until: Time, poller: &mut Poller, mailbox: &Mailbox<N>) -> io::Result<usize> {
        let began = monotonic_now();
        loop {
            let events = poller.wait(0)?;
            let now = monotonic_now();
            if events > 0 || now >= until || !mailbox.is_empty() {
                self.counters.busy_polled_us.add(now.since(began).as_micros() as u64);
                return Ok(events);
            }
        }
    }

    /// How long epoll may wait. The alarm is set to the next deadline.
    fn timeout(&mut self, wait: Wait, now: Time, few: impl FnOnce() -> bool) -> io::Result<Timeout> {
        let deadline = match wait {
            Wait::No => return Ok(Timeout::Milliseconds(0)),
            Wait::Shortly => return Ok(Timeout::Milliseconds(LOOK_AGAIN)),
            Wait::Until(deadline) => deadline,
        };
        if self.grain.sleep(now) {
            self.counters.syscalls.one();
            // Sockets that have something in nearly every grain are looked at without asking epoll which.
            let asks = self.grain.asks() || !few();
            return Ok(if asks { Timeout::Milliseconds(0) } else { Timeout::Over });
        }
        if deadline != Time::FAR && self.alarm.cover(now, deadline)? {
            self.counters.syscalls.one();
        }
        Ok(Timeout::Milliseconds(-1))
    }
}
