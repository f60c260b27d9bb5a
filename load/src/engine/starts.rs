//! Which call begins when, and how many there are: by a schedule, by users, or by the other side.

use super::users::Callers;
use super::{Moment, Settings};
use crate::population::Times;
use core::time::Duration;
use wire::Time;

/// The beginnings of a worker's calls.
pub struct Starts {
    callers: Callers,
    times: Option<Times>,
    /// When the next call is meant to begin.
    next: Option<Time>,
    begun: u64,
    /// Calls begun here that are under way.
    under_way: usize,
    /// Calls answered so far.
    answered: u64,
    /// Calls that have a number.
    numbered: u64,
    turn: usize,
    stopping: bool,
}

/// Calls that are left out together: when the first and the last were meant to begin, and how many there are.
pub struct LeftOut {
    pub first: Time,
    pub last: Time,
    pub calls: u64,
}

impl Starts {
    /// Calls begin when `times` says, or when users are to call. None: they are only answered.
    pub fn new(settings: &Settings, times: Option<Times>) -> Starts {
        Starts {
            callers: Callers::new(settings.users, settings.start),
            times,
            next: None,
            begun: 0,
            under_way: 0,
            answered: 0,
            numbered: 0,
            turn: 0,
            stopping: false,
        }
    }

    /// Calls begun here.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Calls begun here that are under way.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether no more are to begin.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether calls are made by users.
    pub fn by_users(&self) -> bool {
        self.callers.are_there()
    }

    /// Whether no further call has room.
    #[inline]
    pub fn is_full(&self, settings: &Settings) -> bool {
        self.under_way >= settings.most_calls
    }

    /// Whether all calls have come in that were to be answered.
    pub fn has_answered_all(&self, settings: &Settings) -> bool {
        settings.callees.is_some_and(|callees| self.answered >= callees)
    }

    /// Whether there is a next call.
    pub fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Whether a call is due and waits for room.
    pub fn is_behind(&self, settings: &Settings) -> bool {
        self.has_next() && self.is_full(settings)
    }

    /// Whether calls are yet to begin, or to come in.
    pub fn is_beginning(&self, settings: &Settings) -> bool {
        let to_come = settings.callees.is_some() && !self.has_answered_all(settings);
        self.has_next() || (!self.stopping && (to_come || self.callers.have_more()))
    }

    /// When the next call begins. One that waits for room begins when another ends.
    #[inline]
    pub fn deadline(&self, settings: &Settings) -> Option<Time> {
        self.next.filter(|_| !self.is_full(settings))
    }

    /// Whether a call is due that has room.
    #[inline]
    pub fn is_due(&self, moment: Moment<'_>) -> bool {
        self.deadline(moment.settings).is_some_and(|at| at <= moment.now)
    }

    /// Asks the schedule for the next call.
    pub fn schedule(&mut self, settings: &Settings) {
        let more = !self.stopping && settings.client.is_some();
        if self.callers.are_there() {
            self.next = self.callers.next().filter(|_| more);
            return;
        }
        let times = self.times.as_mut().filter(|_| more);
        self.next =
            times.and_then(Iterator::next).map(|micros| settings.start + Duration::from_micros(micros));
    }

    /// Changes the rate: calls a second, on all workers together.
    pub fn set_rate(&mut self, moment: Moment<'_>, rate: f64) {
        let since = moment.now.since(moment.settings.start).as_micros() as u64;
        if self.times.as_mut().is_some_and(|times| times.set_rate(since, rate)) {
            self.schedule(moment.settings);
        }
    }

    /// The next call that is due and has room: when it was meant to begin, and whose it is.
    pub fn take(&mut self, moment: Moment<'_>) -> Option<(Time, u64)> {
        let intended = self.deadline(moment.settings).filter(|&at| at <= moment.now)?;
        self.begun += 1;
        let user = self.callers.take().unwrap_or(0);
        self.schedule(moment.settings);
        Some((intended, user))
    }

    /// A call begins here. Answers whose turn it is among the listeners.
    pub fn begin(&mut self) -> usize {
        self.under_way += 1;
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        turn
    }

    /// A call of the other side's is answered.
    pub fn answer(&mut self) {
        self.answered += 1;
    }

    /// The number of a call.
    pub fn number(&mut self, settings: &Settings) -> u64 {
        let (first, stride) = settings.numbers;
        let number = first + self.numbered * stride;
        self.numbered += 1;
        number
    }

    /// The call of a user is over, as far as he is concerned: he may begin the next.
    pub fn over(&mut self, moment: Moment<'_>, user: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.callers.are_there() {
            self.callers.give(user, moment.now);
            self.schedule(moment.settings);
        }
    }

    /// Takes calls out that are due and have no room: those that are `alike` the first one.
    pub fn leave_out(&mut self, moment: Moment<'_>, alike: impl Fn(Time, Time) -> bool) -> Option<LeftOut> {
        let settings = moment.settings;
        let first = self.next.filter(|&at| at <= moment.now && self.is_full(settings))?;
        let mut out = LeftOut { first, last: first, calls: 0 };
        while let Some(next) = self.next.filter(|&at| at <= moment.now && alike(first, at)) {
            (out.last, out.calls) = (next, out.calls + 1);
            self.callers.take();
            self.schedule(settings);
        }
        Some(out)
    }

    /// No more calls begin.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.next = None;
    }
}
