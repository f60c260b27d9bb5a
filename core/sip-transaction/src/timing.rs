//! Time as the transactions of a layer see it: what time it is, how long things take, and which timers run.

use crate::machine::{ClientInput, ServerInput, Set, Step};
use crate::timers::{Clock, Timers};
use crate::wheel::{NEVER, Owner, TimerId, Wheel};
use wire::Time;

/// The latest time seen, the intervals of timers, and the wheel that they run on.
pub(crate) struct Timing {
    clock: Clock,
    wheel: Wheel,
    now: u64,
}

impl Timing {
    /// Without timers, at time zero.
    pub(crate) fn new(timers: &Timers) -> Timing {
        Timing { clock: Clock::new(timers), wheel: Wheel::new(), now: 0 }
    }

    /// It is `now` from here on.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now.as_micros();
    }

    /// The latest time seen, in microseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The intervals.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A timer that is due, see [`Wheel::poll`].
    pub(crate) fn poll(&mut self, budget: &mut u32) -> Option<Owner> {
        self.wheel.poll(self.now, budget)
    }

    /// Who may be next, see [`Wheel::upcoming`].
    pub(crate) fn upcoming(&self) -> [Option<Owner>; 5] {
        self.wheel.upcoming()
    }

    /// When [`Timing::poll`] should be called next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let at = self.wheel.next_deadline();
        (at != NEVER).then(|| Time::from_micros(at))
    }

    /// Timers running.
    pub(crate) fn armed(&self) -> usize {
        self.wheel.armed()
    }

    /// Arms a timer of the transaction user.
    pub(crate) fn schedule(&mut self, at: Time, token: u64) -> TimerId {
        self.wheel.schedule(at.as_micros(), token)
    }

    /// Cancels a timer of the transaction user.
    pub(crate) fn unschedule(&mut self, timer: TimerId) {
        self.wheel.unschedule(timer);
    }
}

/// The two timers of a transaction, on one node of the wheel.
pub(crate) struct Deadlines {
    node: u32,
    /// What the timer that sends again was last set to, in microseconds.
    interval: u32,
    resend: u64,
    end: u64,
    /// When the node fires. Often before the earlier of the two, so that putting a timer off costs
    /// nothing (the node is armed anew when it has fired too early); never after it by more than a tick, and
    /// by T1 as well if it merely keeps a finished transaction in memory.
    armed: u64,
}

impl Deadlines {
    /// Of a transaction that has no node yet.
    pub(crate) const NONE: Deadlines =
        Deadlines { node: 0, interval: 0, resend: NEVER, end: NEVER, armed: NEVER };

    /// Takes a node for `owner`.
    pub(crate) fn reserve(&mut self, owner: Owner, timing: &mut Timing) {
        self.node = timing.wheel.reserve(owner);
    }

    /// Gives the node back: the transaction is over.
    pub(crate) fn release(&self, timing: &mut Timing) {
        timing.wheel.release(self.node);
    }

    /// A request is to be sent: the node is armed for what that will ask for, and there is an end if it is
    /// not sent.
    pub(crate) fn expect_request(&mut self, timing: &mut Timing) {
        self.end = timing.now.saturating_add(timing.clock.t1_x64);
        self.armed = Wheel::end_of_tick(timing.now.saturating_add(timing.clock.t1));
        timing.wheel.arm(self.node, self.armed);
    }

    /// When the transaction ends if nothing happens.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Gives it a whole lifetime again.
    pub(crate) fn renew(&mut self, timing: &Timing) {
        self.end = timing.now.saturating_add(timing.clock.lifetime);
    }

    /// Does to the timers what a step says.
    pub(crate) fn follow<S, A>(&mut self, step: &Step<S, A>, timing: &mut Timing) {
        let now = timing.now;
        if (step.resend, step.end) == (Set::Keep, Set::Keep) {
            return;
        }
        match step.resend {
            Set::Keep => {}
            Set::Off => self.resend = NEVER,
            Set::After(interval) | Set::Loosely(interval) => {
                self.interval = u32::try_from(interval).unwrap_or(u32::MAX);
                self.resend = now.saturating_add(interval);
            }
        }
        let (delay, late) = match step.end {
            Set::Keep | Set::Off => (NEVER, 0),
            Set::After(delay) => (delay, 0),
            Set::Loosely(delay) => (delay, timing.clock.t1),
        };
        if delay != NEVER {
            self.end = now.saturating_add(delay);
        }
        self.arm(late, timing);
    }

    /// Sees to it that the node fires in time, at most `late` after the first timer.
    ///
    /// A node that fires far too early is moved now; one that fires a little early, or too early in a
    /// good while, is left. New transactions are armed for 64*T1 and T1, so that nothing needs to be
    /// moved when their final response comes within T1 and they are then to be kept for 64*T1.
    fn arm(&mut self, late: u64, timing: &mut Timing) {
        let Timing { clock, wheel, now } = timing;
        let now = *now;
        let first = self.resend.min(self.end);
        let target = first.min(now.saturating_add(clock.t1_x64 + clock.t1));
        let soon = 8 * clock.t1;
        // What is long may be a tick longer.
        let long = now.saturating_add(clock.t1 / 2);
        let tick = |at: u64| if at > long { Wheel::end_of_tick(at) } else { at };
        let too_late = tick(first.saturating_add(late)) < self.armed;
        let too_early = self.armed < now.saturating_add(soon) && self.armed.saturating_add(soon) < target;
        if too_late || too_early {
            self.armed = tick(target);
            wheel.arm(self.node, self.armed);
        }
    }

    /// Whether one of the timers is due, now that the node has fired; if not, it is armed again.
    pub(crate) fn fired(&mut self, timing: &mut Timing) -> bool {
        self.armed = NEVER;
        let due = self.resend.min(self.end) <= timing.now;
        if !due {
            self.arm(0, timing);
        }
        due
    }

    /// What a client transaction is told when its node fires.
    pub(crate) fn client_input(&self, now: u64) -> ClientInput {
        if self.end <= now {
            ClientInput::EndDue
        } else {
            ClientInput::ResendDue { interval: u64::from(self.interval) }
        }
    }

    /// What a server transaction is told when its node fires.
    pub(crate) fn server_input(&self, now: u64) -> ServerInput {
        if self.end <= now {
            ServerInput::EndDue
        } else {
            ServerInput::ResendDue { interval: u64::from(self.interval) }
        }
    }
}
