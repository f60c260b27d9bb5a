//! Open calls: events are put together until each call is over.

use crate::event::{ALL_DIALOGS, Event, Party, What};
use crate::name::CallName;
use crate::record::{Callee, Record, Source, TARGETS_MAX};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// Dialogs of a call that are told apart: forks that have answered. Of further ones the last to end ends the
/// call too early.
const DIALOGS_MAX: usize = 4;
/// How long a call without an answer may still be answered after its caller was told that nobody answers:
/// until its server transaction and those of its branches are over (RFC 3261 section 16.7 step 5).
const LATE: Duration = Duration::from_secs(40);
/// Attempts that [`Ledger::events`] repeats.
const TRIED_MAX: u32 = 64;
/// Open calls looked at by [`Ledger::expire`] in one go.
const WORK: usize = 256;

/// How long calls may be open, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Calls that are open. If there are more, the one that began first is closed.
    pub calls: usize,
    /// Time without an answer or anything else of a call, after which it is closed with status 408.
    pub setup: Duration,
    /// Time after the answer, after which a call whose end nobody has seen is closed. `None`: never.
    pub session: Option<Duration>,
}

#[derive(Debug)]
struct Open {
    record: Record,
    /// Dialogs that were answered and not ended.
    dialogs: Vec<u64>,
    /// INVITEs that have no final response yet.
    waiting: u32,
    /// When nobody had answered. A callee may do so yet.
    failed: Option<u64>,
    /// When something was last heard of it.
    heard: u64,
}

/// The open calls of a server.
#[derive(Debug)]
pub struct Ledger {
    open: BTreeMap<CallName, Open>,
    /// In the order of their beginning, with when they are looked at; also of calls that are over.
    queue: VecDeque<(u64, CallName, u64)>,
    /// Those that nobody has answered, in the order in which that was said; some are over.
    failed: VecDeque<(u64, CallName)>,
    limits: Limits,
    closed_early: u64,
    strays: u64,
}

impl Ledger {
    /// No calls.
    pub fn new(limits: Limits) -> Ledger {
        Ledger {
            open: BTreeMap::new(),
            queue: VecDeque::new(),
            failed: VecDeque::new(),
            limits,
            closed_early: 0,
            strays: 0,
        }
    }

    /// New limits, in force from here.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The limits in force.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Events from which another ledger gets the calls that are open here. Of a call that several INVITEs
    /// joined, those count that have no final response.
    pub fn events(&self, each: &mut dyn FnMut(&Event<'_>)) {
        let live =
            |name: &CallName, started: u64| self.open.get(name).filter(|open| open.record.started == started);
        // In the order of their beginning, in which they are closed if there are too many.
        for (_, name, started) in &self.queue {
            if let Some(open) = live(name, *started) {
                open.events(*name, each);
            }
        }
    }

    /// Whether [`Ledger::expire`] would close a call at `now`, or look at one.
    pub fn is_due(&self, now: u64) -> bool {
        let late = |at: u64, time: Duration| now >= at.saturating_add(micros(time));
        self.failed.front().is_some_and(|(at, _)| late(*at, LATE))
            || self.queue.front().is_some_and(|(at, ..)| late(*at, self.limits.setup))
    }

    /// How many calls are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no call is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether this call is open.
    pub fn is_open(&self, name: CallName) -> bool {
        self.open.contains_key(&name)
    }

    /// This ledger as another one has it that heard [`Ledger::events`] of it: it will look at the same calls
    /// at the same times.
    pub fn retold(&self) -> Ledger {
        let mut ledger = Ledger::new(self.limits);
        self.events(&mut |event| ledger.apply(event, &mut Vec::new()));
        (ledger.closed_early, ledger.strays) = (self.closed_early, self.strays);
        ledger
    }

    /// Calls that were closed because there were too many.
    pub const fn closed_early(&self) -> u64 {
        self.closed_early
    }

    /// Events of calls that are not open: their beginning was lost, or they were closed before.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// What happened. Records of calls that are over through it are appended to `done`.
    pub fn apply(&mut self, event: &Event<'_>, done: &mut Vec<Record>) {
        let Event { name, at, what } = *event;
        if let What::Began(began) = what {
            return self.begin(name, at, Source::of(&began), done);
        }
        let Some(open) = self.open.get_mut(&name) else {
            self.strays += 1;
            return;
        };
        open.heard = open.heard.max(at);
        let record = &mut open.record;
        let over = match what {
            What::Began(_) => false,
            What::Tried(target) => {
                record.tried = record.tried.saturating_add(1);
                if record.targets.len() < TARGETS_MAX {
                    record.targets.push(target.to_vec());
                }
                false
            }
            What::Rang => {
                record.ringing.get_or_insert(at);
                false
            }
            What::Answered(answered) => {
                open.waiting = open.waiting.saturating_sub(1);
                if open.dialogs.len() < DIALOGS_MAX && !open.dialogs.contains(&answered.dialog) {
                    open.dialogs.push(answered.dialog);
                }
                if record.answered.is_none() {
                    record.answered = Some(at);
                    open.failed = None;
                    (record.status, record.callee) = (answered.status, Callee::of(&answered));
                }
                false
            }
            What::Failed(status, by) => {
                open.waiting = open.waiting.saturating_sub(1);
                let over = open.waiting == 0 && record.answered.is_none();
                if over {
                    (record.status, record.ended_by) = (status, by);
                }
                if over && by == Party::Timeout {
                    open.failed = Some(at);
                    self.failed.push_back((at, name));
                }
                over && by != Party::Timeout
            }
            What::Ended(by, dialog) => {
                open.dialogs.retain(|other| *other != dialog && dialog != ALL_DIALOGS);
                record.ended_by = by;
                open.dialogs.is_empty() && record.answered.is_some()
            }
        };
        if over {
            self.close(name, at, done);
        }
    }

    fn begin(&mut self, name: CallName, at: u64, source: Source, done: &mut Vec<Record>) {
        if let Some(failed) = self.open.get(&name).and_then(|open| open.failed) {
            // The caller tries again.
            self.close(name, failed, done);
        }
        if let Some(open) = self.open.get_mut(&name) {
            open.record.joined = open.record.joined.saturating_add(1);
            open.waiting = open.waiting.saturating_add(1);
            return;
        }
        while self.open.len() >= self.limits.calls.max(1) {
            let Some((_, first, started)) = self.queue.pop_front() else { break };
            if self.open.get(&first).is_some_and(|open| open.record.started == started) {
                self.closed_early += 1;
                self.give_up(first, at, done);
            }
        }
        let record = Record {
            name,
            source,
            started: at,
            ringing: None,
            answered: None,
            ended: at,
            status: 408,
            ended_by: Party::Timeout,
            callee: Callee::default(),
            targets: Vec::new(),
            tried: 0,
            joined: 0,
        };
        self.open.insert(name, Open { record, dialogs: Vec::new(), waiting: 1, failed: None, heard: at });
        self.queue.push_back((at, name, at));
        // One long call keeps the entries behind it, of calls that are over, from being dropped at the front.
        if self.queue.len() > 2 * self.open.len() + 64 {
            let open = &self.open;
            self.queue.retain(|(_, name, started)| {
                open.get(name).is_some_and(|open| open.record.started == *started)
            });
        }
    }

    fn close(&mut self, name: CallName, at: u64, done: &mut Vec<Record>) {
        if let Some(mut open) = self.open.remove(&name) {
            // Clocks are set back, too.
            open.record.ended = at.max(open.record.started);
            done.push(open.record);
        }
    }

    /// Closes a call whose end nobody has seen.
    fn give_up(&mut self, name: CallName, at: u64, done: &mut Vec<Record>) {
        if let Some(open) = self.open.get_mut(&name) {
            open.record.ended_by = Party::Timeout;
        }
        self.close(name, at, done);
    }

    /// Closes calls whose time is over at `now`, a bounded number. Answers whether there may be more.
    pub fn expire(&mut self, now: u64, done: &mut Vec<Record>) -> bool {
        for _ in 0..WORK {
            let Some(&(failed, name)) = self.failed.front() else { break };
            if now < failed.saturating_add(micros(LATE)) {
                break;
            }
            self.failed.pop_front();
            if self.open.get(&name).is_some_and(|open| open.failed == Some(failed)) {
                self.close(name, failed, done);
            }
        }
        for _ in 0..WORK.min(self.queue.len()) {
            let Some(&(looked, name, started)) = self.queue.front() else { return false };
            let Some(open) = self.open.get(&name).filter(|open| open.record.started == started) else {
                self.queue.pop_front();
                continue;
            };
            if now < looked.saturating_add(micros(self.limits.setup)) {
                return false;
            }
            self.queue.pop_front();
            let until = match (open.record.answered, self.limits.session) {
                (None, _) => Some(open.heard.saturating_add(micros(self.limits.setup))),
                (Some(answered), Some(session)) => Some(answered.saturating_add(micros(session))),
                (Some(_), None) => None,
            };
            match until {
                Some(until) if until <= now => self.give_up(name, now, done),
                _ => self.queue.push_back((now, name, started)),
            }
        }
        self.queue.len() > WORK
    }
}

impl Open {
    fn events(&self, name: CallName, each: &mut dyn FnMut(&Event<'_>)) {
        let record = &self.record;
        let mut say = |at: u64, what: What<'_>| each(&Event { name, at, what });
        let answered = self.dialogs.len().max(usize::from(record.answered.is_some()));
        for _ in 0..(self.waiting as usize + answered).clamp(1, DIALOGS_MAX) {
            say(record.started, What::Began(record.source.began()));
        }
        let targets = record.targets.iter().map(Vec::as_slice).chain(std::iter::repeat(&b""[..]));
        targets
            .take(record.tried.min(TRIED_MAX) as usize)
            .for_each(|target| say(record.started, What::Tried(target)));
        if let Some(at) = record.ringing {
            say(at, What::Rang);
        }
        if let Some(at) = record.answered {
            let dialogs = if self.dialogs.is_empty() { &[ALL_DIALOGS][..] } else { &self.dialogs };
            for dialog in dialogs {
                say(at, What::Answered(record.callee.answered(record.status, *dialog)));
            }
        }
        if let Some(at) = self.failed {
            say(at, What::Failed(record.status, record.ended_by));
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
