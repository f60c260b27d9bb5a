//! A transaction's two timers in virtual time, for the machines' tests.

use super::{ClientInput, ServerInput, Set, Step};
use crate::Timers;
use crate::timers::Clock;

/// The default timer values.
pub(crate) fn clock() -> Clock {
    Clock::new(&Timers::default())
}

/// State, clock and timers of one transaction.
pub(crate) struct Virtual<S> {
    pub now: u64,
    pub state: Option<S>,
    resend: Option<(u64, u64)>,
    end: Option<u64>,
}

impl<S: Copy> Virtual<S> {
    pub(crate) fn new<A>(first: Step<S, A>) -> Virtual<S> {
        let mut v = Virtual { now: 0, state: None, resend: None, end: None };
        v.apply(first);
        v
    }

    /// Takes a step at the present time and says what it wants done.
    pub(crate) fn apply<A>(&mut self, step: Step<S, A>) -> A {
        self.state = step.state;
        match step.resend {
            Set::Keep => {}
            Set::Off => self.resend = None,
            Set::After(d) | Set::Loosely(d) => self.resend = Some((self.now + d, d)),
        }
        match step.end {
            Set::Keep => {}
            Set::Off => self.end = None,
            Set::After(d) | Set::Loosely(d) => self.end = Some(self.now + d),
        }
        step.act
    }

    /// Lets timers fire until the transaction ends; what they made it do, and when.
    pub(crate) fn run_client<A>(&mut self, step: impl Fn(S, ClientInput) -> Step<S, A>) -> Vec<(u64, A)> {
        self.run(|s, again| {
            step(s, again.map_or(ClientInput::EndDue, |interval| ClientInput::ResendDue { interval }))
        })
    }

    /// The same for a server transaction.
    pub(crate) fn run_server<A>(&mut self, step: impl Fn(S, ServerInput) -> Step<S, A>) -> Vec<(u64, A)> {
        self.run(|s, again| {
            step(s, again.map_or(ServerInput::EndDue, |interval| ServerInput::ResendDue { interval }))
        })
    }

    fn run<A>(&mut self, step: impl Fn(S, Option<u64>) -> Step<S, A>) -> Vec<(u64, A)> {
        let mut acts = Vec::new();
        while let Some(state) = self.state {
            let end = self.end.expect("every state is bounded by a timer");
            let resend = self.resend.filter(|(at, _)| *at < end);
            self.now = resend.map_or(end, |(at, _)| at);
            let act = self.apply(step(state, resend.map(|(_, interval)| interval)));
            acts.push((self.now, act));
        }
        acts
    }
}
