//! For how long a call has waited, and what the end of a run makes of that.

use super::call::{Call, Doing};
use super::run::on_timeout;
use super::{LOOK, Moment, SILENT};
use crate::metrics::Method;
use crate::scenario::{Expect, Op, Optional, Scenario, Side, Step};
use core::time::Duration;
use wire::Time;

/// The wait of a call in a step that receives.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// When the step gives up.
    give_up: Option<Time>,
    /// When it began to wait in its step.
    since: Time,
    /// Same, or when a message came after that which a step takes.
    quiet: Time,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { give_up: None, since: Time::ZERO, quiet: Time::ZERO }
    }
}

impl Waiting {
    /// A wait that begins now, for this long at most.
    pub fn from(now: Time, limit: Option<Duration>) -> Waiting {
        Waiting { give_up: limit.map(|limit| now + limit), since: now, quiet: now }
    }

    /// The call begins now: no step waits yet, as where nothing that came was for one.
    pub fn begin(&mut self, now: Time) {
        (self.since, self.quiet) = (now, now);
    }

    /// When it began to wait, and when it heard something last.
    #[cfg(test)]
    pub fn times(&self) -> (Time, Time) {
        (self.since, self.quiet)
    }

    /// When the step gives up.
    #[inline]
    pub fn gives_up_at(&self) -> Option<Time> {
        self.give_up
    }

    /// The step is over, or goes on without a limit.
    #[inline]
    pub fn over(&mut self) {
        self.give_up = None;
    }

    /// A message came that a step takes. Answers for how long it was waited for.
    #[inline]
    pub fn heard(&mut self, now: Time) -> Duration {
        self.quiet = now;
        now.since(self.since)
    }
}

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// It is a response.
    pub answer: bool,
    /// When the step has waited for as long as it may, it leads elsewhere, and the call has not failed.
    pub goes_on: bool,
    /// How long calls have waited there at most for what then came, if it came to any.
    pub longest: Option<Duration>,
}

/// What is ahead of a call, or of all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ahead {
    /// What it waits for is not to be expected any more.
    Nothing,
    /// It waits for the other side, and has no time of its own.
    Open,
    /// Something is to be done for it at some time.
    Something,
}

/// How long a call waits.
enum Patience {
    /// It pauses where something may come.
    Pauses,
    /// For how long it has waited, and after how long what it waits for is not to be expected any more, if
    /// that is so at any time.
    Waits(Duration, Option<Duration>),
}

/// What the end of a run makes of a call that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// What it waits for is not to be expected any more.
    Overdue,
    /// It may or may not come: what this call says of the server is open.
    Open,
    /// It has hardly begun.
    Young,
}

/// How long a call may ring where none was ever answered: proxies wait longer (timer C, RFC 3261 section
/// 16.6).
const RINGING: Duration = Duration::from_secs(180);
/// How long the other side of a session may say nothing, where it is to speak next.
const STANDING: Duration = Duration::from_secs(600);
/// How much longer than others a call may wait.
const OTHERS: Duration = Duration::from_secs(60);
/// No answer is awaited for longer than this where nothing was said of one (timers B and F, RFC 3261 section
/// 17.1).
const TRANSACTION: Duration = crate::timers::GIVE_UP;

impl Call {
    /// How its wait is to be taken if its run ends now.
    pub fn wait(&self, now: Time, at: Awaited) -> Wait {
        match self.patience(now, at) {
            Patience::Pauses => Wait::Young,
            Patience::Waits(waited, Some(limit)) if waited > limit => Wait::Overdue,
            Patience::Waits(waited, _) if waited.max(now.since(self.waiting.since)) > SILENT => Wait::Open,
            Patience::Waits(..) => Wait::Young,
        }
    }

    /// What is ahead of it if its run begins no more calls. Not to be expected any more is what would not
    /// come either if its request had been sent again until now.
    pub fn ahead(&self, now: Time, at: Awaited) -> Ahead {
        if self.deadline().is_some() || self.cursor.doing != Doing::Waiting {
            return Ahead::Something;
        }
        let left = match self.identity.side {
            // It is the callers' run, and who would end this call is gone.
            Side::Server => now.since(self.waiting.quiet) > OTHERS,
            Side::Client => match self.patience(now, at) {
                Patience::Waits(waited, Some(limit)) => waited > limit.max(self.least()),
                Patience::Waits(_, None) | Patience::Pauses => false,
            },
        };
        if left { Ahead::Nothing } else { Ahead::Open }
    }

    /// How long it waits at least before a run is over without it: what others have waited is a guess, and
    /// not one to call a run failed by while there is time.
    fn least(&self) -> Duration {
        match self.seen.awaits() {
            // A client has no timer once something was said to its INVITE (RFC 3261 section 17.1.1.2).
            Some(asking) if asking.method == Method::Invite && self.received.is_tried() => RINGING,
            Some(_) => TRANSACTION,
            None if self.seen.rings() => RINGING,
            None => STANDING,
        }
    }

    /// For how long it has waited, and may. SIP has timers for answers; for ringing only those of proxies,
    /// and for what the other side begins none: there the other calls are the measure. What the step says
    /// itself of how long it waits comes first.
    fn patience(&self, now: Time, at: Awaited) -> Patience {
        let quiet = now.since(self.waiting.quiet);
        let cancelled = self.seen.is_cancelled();
        let rings = self.seen.rings() && !cancelled;
        let asking = self.seen.awaits().filter(|_| !rings);
        let (waited, limit) = match asking {
            _ if rings => (quiet, Some(at.longest.map_or(RINGING, |longest| OTHERS.max(longest * 2)))),
            Some(_) if cancelled => (quiet, Some(SILENT)),
            Some(asking) => (now.since(asking.began.sent), Some(SILENT)),
            None if at.answer => (quiet, Some(OTHERS)),
            // What came once may come again or not.
            None if self.cursor.round > 0 => (quiet, None),
            None => (quiet, at.longest.map(|longest| OTHERS + longest * 2)),
        };
        let limit = match self.waiting.give_up {
            None => limit,
            // It pauses where something may come.
            Some(_) if at.goes_on && asking.is_none() => return Patience::Pauses,
            Some(_) if asking.is_some() && !at.goes_on => Some(TRANSACTION),
            Some(_) => None,
        };
        Patience::Waits(waited, limit)
    }
}

/// What is ahead of the calls under way when no more begin.
pub struct Outlook {
    /// When it was looked last, and what was seen.
    looked: Time,
    ahead: Ahead,
    /// How long callers have waited at each step at most for the request that it is for, or for the end of
    /// their ringing, and got it.
    longest: Vec<Option<Duration>>,
}

impl Outlook {
    /// Of calls that play this scenario.
    pub fn new(client: Option<&Scenario>) -> Outlook {
        let steps = client.map_or(0, |own| own.steps.len());
        Outlook { looked: Time::ZERO, ahead: Ahead::Something, longest: vec![None; steps] }
    }

    /// What was seen last.
    pub fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// What a caller waited for at a step has come after so long.
    pub fn came(&mut self, step: usize, waited: Duration) {
        let longest = self.longest.get_mut(step);
        longest.into_iter().for_each(|longest| *longest = (*longest).max(Some(waited)));
    }

    /// What a caller waits for.
    pub fn awaited(&self, client: Option<&Scenario>, call: &Call) -> Awaited {
        let at = call.cursor.step;
        let steps = client.and_then(|own| own.steps.get(at..));
        Awaited {
            answer: steps.is_some_and(are_for_an_answer),
            goes_on: client.and_then(|own| on_timeout(own, at)).is_some(),
            longest: self.longest.get(at).copied().flatten(),
        }
    }

    /// Looks at the calls under way, where none can begin any more. Calls that wait for what is not to be
    /// expected do not keep the run: nothing would end them. Of a million calls each may have to be looked
    /// at, so that is done once a second.
    pub fn look<'c>(
        &mut self,
        moment: Moment<'_>,
        more: bool,
        mut calls: impl Iterator<Item = &'c Call>,
    ) -> Ahead {
        let now = moment.now;
        let client = moment.scenario(Side::Client);
        if client.is_none() || more {
            self.ahead = Ahead::Something;
        } else if now.since(self.looked) >= LOOK {
            // The first one for which something is to be done decides.
            let most = calls.try_fold(Ahead::Nothing, |most, call| {
                match call.ahead(now, self.awaited(client, call)) {
                    Ahead::Something => Err(Ahead::Something),
                    one => Ok(most.max(one)),
                }
            });
            (self.ahead, self.looked) = (most.unwrap_or_else(|something| something), now);
        }
        self.ahead
    }
}

/// Whether what a call waits for at these steps is a response.
fn are_for_an_answer(steps: &[Step]) -> bool {
    let mut waits = steps.iter().map_while(|step| match &step.op {
        Op::Recv(recv) => Some(recv),
        _ => None,
    });
    let awaited = waits.find(|recv| recv.optional == Optional::No);
    awaited.is_some_and(|recv| matches!(recv.expect, Expect::Response { .. }))
}
