//! Open calls: events are put together until each call is over.

mod refusals;

use crate::event::{Answered, Began, Ended, Event, Failed, NO_BRANCH, NO_DIALOG, Party, Tried, What};
use crate::name::CallName;
use crate::record::{Callee, Record, Source, TARGETS_MAX};
use crate::session::{GRACE, SESSION_MAX, Session, Sessions};
use core::time::Duration;
use refusals::Refusals;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Dialogs of a call that are told apart: forks that have answered. Of further ones the last to end ends the
/// call too early.
const DIALOGS_MAX: usize = 4;
/// Attempts that [`Ledger::events`] repeats.
const TRIED_MAX: u32 = 64;
/// Repeated INVITEs that it repeats.
const JOINED_MAX: u32 = 8;
/// Open calls looked at by [`Ledger::expire`] in one go.
const WORK: usize = 256;
/// Bytes of text that open calls have together at most: what tells them again fits into a book.
const TEXT_ROOM: usize = 512 << 20;
/// Bytes that count for a call, and for each of its targets, beside the texts.
const CALL_BYTES: usize = 512;
const TARGET_BYTES: usize = 48;

/// How long calls may be open, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Calls that are open. A further one is not followed and has no record. Calls of strangers have half of
    /// the room.
    pub calls: usize,
    /// Time without an answer or anything else of a call, after which it is closed with status 408.
    pub setup: Duration,
    /// Time after the answer, or after the last that was heard of the call, after which a call without
    /// session timer is closed whose end nobody has seen. `None`: never.
    pub session: Option<Duration>,
    /// How long a call that has failed may still be answered if a callee was given up: until the transactions
    /// of its branches are over (RFC 3261 section 16.7 step 5). A CANCEL that waits for a provisional
    /// response gives them twice 64*T1 (sections 9.1 and 17.1.1.2).
    pub late: Duration,
    /// How long an INVITE that is repeated belongs to its call, and is the one that was refused: until its
    /// server transaction is over, 64*T1.
    pub repeated: Duration,
}

impl Limits {
    /// How long after its beginning a call is looked at, and again after each look.
    fn look(&self) -> Duration {
        self.session.map_or(self.setup, |session| session.min(self.setup))
    }
}

#[derive(Debug)]
struct Open {
    /// Its times are those of events until it is closed.
    record: Record,
    /// By how much the time of day was ahead of these when it began.
    ahead: i64,
    /// Of each target in the record: the branch, and the name of the trunk.
    ways: Vec<(u16, Vec<u8>)>,
    /// Dialogs that were answered and not ended.
    dialogs: Vec<u64>,
    /// The last ones that have ended: their 2xx may come again.
    ended: Vec<u64>,
    /// Their session timers.
    sessions: Sessions,
    /// When it is lost: its entry in `Ledger::timed`.
    due: Option<u64>,
    /// It began with a To tag ([`Began::within`]).
    within: bool,
    /// When nobody had answered. A callee may do so yet.
    failed: Option<u64>,
    /// When something was last heard of it.
    heard: u64,
    /// Bytes that it counts for.
    bytes: usize,
}

/// The open calls of a server.
#[derive(Debug)]
pub struct Ledger {
    /// In the order of their beginning.
    open: BTreeMap<u64, Open>,
    /// The call that has this name now.
    names: BTreeMap<CallName, u64>,
    /// Dialogs and their calls.
    dialogs: BTreeMap<u64, u64>,
    /// When open calls are looked at; also some that are over.
    queue: VecDeque<(u64, u64)>,
    /// Those that nobody has answered, in the order in which that was said; some are over.
    failed: VecDeque<(u64, u64)>,
    /// Answered calls with session timers, with when they are lost unless they are refreshed.
    timed: BTreeSet<(u64, u64)>,
    refusals: Refusals,
    limits: Limits,
    /// The number of the next call.
    next: u64,
    /// Open calls of strangers.
    strangers: usize,
    /// Bytes of all open calls.
    bytes: usize,
    untracked: u64,
    strays: u64,
}

impl Ledger {
    /// No calls.
    pub fn new(limits: Limits) -> Ledger {
        Ledger {
            open: BTreeMap::new(),
            names: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            queue: VecDeque::new(),
            failed: VecDeque::new(),
            timed: BTreeSet::new(),
            refusals: Refusals::default(),
            limits,
            next: 1,
            strangers: 0,
            bytes: 0,
            untracked: 0,
            strays: 0,
        }
    }

    /// New limits, in force from here. Calls that are open stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The limits in force.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Events from which [`Ledger::adopt`] makes the calls that are open here.
    pub fn events(&self, each: &mut dyn FnMut(&Event<'_>)) {
        let live = || self.queue.iter().filter_map(|(_, id)| Some((*id, self.open.get(id)?)));
        let owns = |id: u64, open: &Open| self.names.get(&open.record.name) == Some(&id);
        // A name is of the call that is told last with it.
        let is_over = |dialog: u64| !self.dialogs.contains_key(&dialog);
        for (_, open) in live().filter(|(id, open)| !owns(*id, open)) {
            open.events(is_over, each);
            let (name, at, ahead) = (open.record.name, open.heard, open.ahead);
            each(&Event { name, at, ahead, what: What::Detached });
        }
        live().filter(|(id, open)| owns(*id, open)).for_each(|(_, open)| open.events(is_over, each));
    }

    /// Whether [`Ledger::expire`] would close a call at `now`, or look at one.
    pub fn is_due(&self, now: u64) -> bool {
        let late = |at: u64, time: Duration| now >= at.saturating_add(micros(time));
        self.failed.front().is_some_and(|(at, _)| late(*at, self.limits.late))
            || self.has_lost(now)
            || self.queue.front().is_some_and(|(at, _)| late(*at, self.limits.look()))
    }

    /// How many calls are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no call is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a call with this name is open.
    pub fn is_open(&self, name: CallName) -> bool {
        self.names.contains_key(&name)
    }

    /// This ledger as another one has it that adopted [`Ledger::events`] of it: it will look at the same
    /// calls at the same times.
    pub fn retold(&self) -> Ledger {
        let mut ledger = Ledger::new(self.limits);
        self.events(&mut |event| ledger.adopt(event));
        (ledger.untracked, ledger.strays) = (self.untracked, self.strays);
        ledger
    }

    /// Calls that were not followed because there was no room. They have no record.
    pub const fn untracked(&self) -> u64 {
        self.untracked
    }

    /// Events of calls that are not open: their beginning was lost, or they were closed before.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// What happened. Records of calls that are over through it are appended to `done`.
    pub fn apply(&mut self, event: &Event<'_>, done: &mut Vec<Record>) {
        let Event { name, at, ahead, what } = *event;
        match what {
            What::Began(began) => self.begin(name, (at, ahead), &began, done),
            What::Refused(began, status) => {
                let kept = micros(self.limits.repeated);
                if self.refusals.is_new(name, at, kept) {
                    let record =
                        Record { status, ended_by: Party::Server, ..fresh(name, at, Source::of(&began)) };
                    done.push(set_to_day(record, ahead));
                }
            }
            What::Ended(ended) => match self.of_dialog(ended.dialog) {
                Some(id) => self.end(id, ended.dialog, at.saturating_sub(ended.ago), ended.by, done),
                None => self.strays += 1,
            },
            What::Lives(dialog) => {
                let id =
                    if dialog == NO_DIALOG { self.names.get(&name).copied() } else { self.of_dialog(dialog) };
                if let Some(open) = id.and_then(|id| self.open.get_mut(&id)) {
                    open.heard = open.heard.max(at);
                }
            }
            What::Refreshed(dialog, seconds) => self.refresh(Session { dialog, at, seconds }),
            What::Detached => {
                self.names.remove(&name);
            }
            What::Tried(_)
            | What::Rang
            | What::Forwarded(_)
            | What::Answered(_)
            | What::Failed(_)
            | What::Left => {
                self.of_call(name, at, &what, done);
            }
        }
    }

    /// The same for an event of [`Ledger::events`]: an open call stays open whatever there is room for.
    pub fn adopt(&mut self, event: &Event<'_>) {
        let Event { name, at, ahead, what } = *event;
        let What::Began(began) = what else { return self.apply(event, &mut Vec::new()) };
        let repeated = self.names.get(&name).and_then(|id| self.open.get_mut(id));
        match repeated.filter(|open| open.record.started == at && open.ahead == ahead) {
            Some(open) => open.record.joined = open.record.joined.saturating_add(1),
            None => self.insert(fresh(name, at, Source::of(&began)), ahead, began.within),
        }
    }

    /// Something happened to the call that has a name.
    fn of_call(&mut self, name: CallName, at: u64, what: &What<'_>, done: &mut Vec<Record>) {
        let id = self.names.get(&name).copied();
        let Some((id, open)) = id.and_then(|id| Some((id, self.open.get_mut(&id)?))) else {
            self.strays += 1;
            return;
        };
        open.heard = open.heard.max(at);
        match what {
            What::Tried(tried) => {
                let room = self.bytes < TEXT_ROOM;
                self.bytes += open.try_target(tried, room);
            }
            What::Rang => {
                open.record.ringing.get_or_insert(at);
            }
            What::Forwarded(_) => open.record.forwardings = open.record.forwardings.saturating_add(1),
            What::Answered(answered) => self.answer(id, answered, at),
            What::Failed(failed) if open.record.answered.is_none() => {
                (open.record.status, open.record.ended_by) = (failed.status, failed.by);
                if failed.late {
                    open.failed = Some(at);
                    self.failed.push_back((at, id));
                } else {
                    self.close(id, at, done);
                }
            }
            What::Left => {
                open.record.ended_by = Party::Timeout;
                self.close(id, at, done);
            }
            _ => {}
        }
    }

    fn answer(&mut self, id: u64, answered: &Answered<'_>, at: u64) {
        let other = self.of_dialog(answered.dialog).filter(|other| *other != id);
        let Some(open) = self.open.get_mut(&id) else { return };
        match other {
            None => {
                let before = open.bytes;
                let new = open.answer(answered, at);
                self.bytes += open.bytes - before;
                if let Some(dialog) = new {
                    self.dialogs.insert(dialog, id);
                    self.set_due(id);
                }
            }
            Some(_) if open.record.answered.is_some() => {}
            // It was within that dialog, of a phone that ignores Record-Route: no call of its own.
            Some(other) => {
                self.remove(id);
                if let Some(open) = self.open.get_mut(&other) {
                    open.heard = open.heard.max(at);
                }
            }
        }
    }

    /// A session timer was set, or taken away.
    fn refresh(&mut self, session: Session) {
        let session = Session { seconds: session.seconds.min(SESSION_MAX), ..session };
        // A dialog that is not answered yet gets its session timer with the answer.
        let Some(id) = self.of_dialog(session.dialog) else { return };
        if let Some(open) = self.open.get_mut(&id) {
            open.heard = open.heard.max(session.at);
            open.sessions.set(session);
        }
        self.set_due(id);
    }

    /// Notes when a call with session timers is lost.
    fn set_due(&mut self, id: u64) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let end = open.sessions.end(&open.dialogs);
        let due = end.map(|end| end.saturating_add(micros(GRACE)));
        if due == open.due {
            return;
        }
        if let Some(old) = core::mem::replace(&mut open.due, due) {
            self.timed.remove(&(old, id));
        }
        self.timed.extend(due.map(|due| (due, id)));
    }

    /// Whether a call is lost at `now`.
    fn has_lost(&self, now: u64) -> bool {
        self.timed.first().is_some_and(|(due, _)| *due <= now)
    }

    /// The call that has this dialog.
    fn of_dialog(&self, dialog: u64) -> Option<u64> {
        self.dialogs.get(&dialog).copied()
    }

    fn end(&mut self, id: u64, dialog: u64, at: u64, by: Party, done: &mut Vec<Record>) {
        self.dialogs.remove(&dialog);
        let Some(open) = self.open.get_mut(&id) else { return };
        open.dialogs.retain(|other| *other != dialog);
        open.note_ended(dialog);
        open.sessions.remove(dialog);
        open.record.ended_by = by;
        open.heard = open.heard.max(at);
        match open.dialogs.is_empty() {
            true => self.close(id, at, done),
            false => self.set_due(id),
        }
    }

    fn begin(&mut self, name: CallName, (at, ahead): (u64, i64), began: &Began<'_>, done: &mut Vec<Record>) {
        let source = Source::of(began);
        if let Some(id) = self.names.get(&name).copied()
            && let Some(open) = self.open.get_mut(&id)
        {
            if let Some(failed) = open.failed {
                // The caller tries again.
                self.close(id, failed, done);
            } else if open.is_repeated(at, &source, self.limits.repeated) {
                open.record.joined = open.record.joined.saturating_add(1);
                return;
            }
        }
        // If one with this name is open nevertheless, nothing but its BYE concerns it any more.
        self.names.remove(&name);
        let most = self.limits.calls.max(1);
        let full = self.open.len() >= most || self.bytes >= TEXT_ROOM;
        if full || source.is_stranger() && self.strangers >= most.div_ceil(2) {
            self.untracked += 1;
            return;
        }
        self.insert(fresh(name, at, source), ahead, began.within);
    }

    fn insert(&mut self, record: Record, ahead: i64, within: bool) {
        let (id, name, at) = (self.next, record.name, record.started);
        self.next += 1;
        self.strangers += usize::from(record.source.is_stranger());
        let bytes = record.source.length() + CALL_BYTES;
        self.bytes += bytes;
        let open = Open {
            record,
            ahead,
            ways: Vec::new(),
            dialogs: Vec::new(),
            ended: Vec::new(),
            sessions: Sessions::default(),
            due: None,
            within,
            failed: None,
            heard: at,
            bytes,
        };
        self.open.insert(id, open);
        self.names.insert(name, id);
        self.queue.push_back((at, id));
        // One long call keeps the entries behind it, of calls that are over, from being dropped at the front.
        if self.queue.len() > 2 * self.open.len() + 64 {
            let open = &self.open;
            self.queue.retain(|(_, id)| open.contains_key(id));
        }
    }

    fn close(&mut self, id: u64, at: u64, done: &mut Vec<Record>) {
        let Some(mut open) = self.remove(id) else { return };
        if open.within && open.record.answered.is_none() {
            return;
        }
        open.record.ended = at.max(open.record.answered.unwrap_or(open.record.started));
        done.push(set_to_day(open.record, open.ahead));
    }

    fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if let Some(due) = open.due {
            self.timed.remove(&(due, id));
        }
        for dialog in &open.dialogs {
            self.dialogs.remove(dialog);
        }
        if self.names.get(&open.record.name) == Some(&id) {
            self.names.remove(&open.record.name);
        }
        self.strangers = self.strangers.saturating_sub(usize::from(open.record.source.is_stranger()));
        self.bytes = self.bytes.saturating_sub(open.bytes);
        Some(open)
    }

    /// Closes a call whose end nobody has seen.
    fn give_up(&mut self, id: u64, at: u64, done: &mut Vec<Record>) {
        if let Some(open) = self.open.get_mut(&id) {
            open.record.ended_by = Party::Timeout;
        }
        self.close(id, at, done);
    }

    /// Closes calls whose time is over at `now`, a bounded number. Answers whether there may be more.
    pub fn expire(&mut self, now: u64, done: &mut Vec<Record>) -> bool {
        for _ in 0..WORK {
            let Some(&(failed, id)) = self.failed.front() else { break };
            if now < failed.saturating_add(micros(self.limits.late)) {
                break;
            }
            self.failed.pop_front();
            if self.open.get(&id).is_some_and(|open| open.failed == Some(failed)) {
                self.close(id, failed, done);
            }
        }
        for _ in 0..WORK {
            let Some(&(due, id)) = self.timed.first().filter(|(due, _)| *due <= now) else { break };
            // The session ended before, and nobody has told.
            self.give_up(id, due.saturating_sub(micros(GRACE)), done);
        }
        for _ in 0..WORK.min(self.queue.len()) {
            let Some(&(looked, id)) = self.queue.front() else { return self.has_lost(now) };
            let Some(open) = self.open.get(&id) else {
                self.queue.pop_front();
                continue;
            };
            if now < looked.saturating_add(micros(self.limits.look())) {
                return self.has_lost(now);
            }
            self.queue.pop_front();
            let until = match (open.record.answered, self.limits.session) {
                (None, _) => Some(open.heard.saturating_add(micros(self.limits.setup))),
                (Some(_), Some(session)) if open.due.is_none() => {
                    Some(open.heard.saturating_add(micros(session)))
                }
                (Some(_), _) => None,
            };
            match until {
                Some(until) if until <= now => self.give_up(id, now, done),
                _ => self.queue.push_back((now, id)),
            }
        }
        self.queue.len() > WORK || self.has_lost(now)
    }
}

impl Open {
    /// Whether an INVITE with the name of this call is the one that began it: its sender knows of no response
    /// yet, because this server was restarted.
    fn is_repeated(&self, at: u64, source: &Source, within: Duration) -> bool {
        let since = at.saturating_sub(self.record.started);
        since <= micros(within) && self.record.source.repeats(source)
    }

    /// Notes a target, if there is room for its text. Returns the bytes that it takes.
    fn try_target(&mut self, tried: &Tried<'_>, room: bool) -> usize {
        self.record.tried = self.record.tried.saturating_add(1);
        let mut bytes = TARGET_BYTES;
        if self.record.targets.len() < TARGETS_MAX && room {
            self.record.targets.push(tried.target.to_vec());
            self.ways.push((tried.branch, tried.trunk.to_vec()));
            bytes += tried.target.len() + tried.trunk.len();
        }
        self.bytes += bytes;
        bytes
    }

    /// A callee has answered. Returns its dialog if it is a new one.
    fn answer(&mut self, answered: &Answered<'_>, at: u64) -> Option<u64> {
        let record = &mut self.record;
        if record.answered.is_none() {
            (record.answered, self.failed) = (Some(at), None);
            (record.status, record.callee) = (answered.status, Callee::of(answered));
            // What forwards an INVITE forgets its targets before the last of them can answer.
            let branch = self.ways.iter().rposition(|(branch, _)| *branch == answered.branch);
            if let Some(branch) = branch.filter(|_| answered.target.is_empty())
                && let (Some(target), Some((_, trunk))) = (record.targets.get(branch), self.ways.get(branch))
            {
                (record.callee.target, record.callee.trunk) = (target.clone(), trunk.clone());
            }
            self.bytes += record.callee.length();
        }
        let known = self.dialogs.contains(&answered.dialog) || self.ended.contains(&answered.dialog);
        let new = self.dialogs.len() < DIALOGS_MAX && !known;
        if new {
            self.dialogs.push(answered.dialog);
        }
        new.then_some(answered.dialog)
    }

    /// Keeps a dialog in mind that has ended.
    fn note_ended(&mut self, dialog: u64) {
        if self.ended.len() >= DIALOGS_MAX {
            self.ended.remove(0);
        }
        self.ended.push(dialog);
    }

    /// Tells of the call. `is_over`: whether no call has this dialog.
    fn events(&self, is_over: impl Fn(u64) -> bool, each: &mut dyn FnMut(&Event<'_>)) {
        let record = &self.record;
        let mut say =
            |at: u64, what: What<'_>| each(&Event { name: record.name, at, ahead: self.ahead, what });
        for _ in 0..=record.joined.min(JOINED_MAX) {
            say(record.started, What::Began(record.source.began(self.within)));
        }
        let ways = record.targets.iter().zip(&self.ways);
        let named = ways.map(|(target, (branch, trunk))| (&target[..], &trunk[..], *branch));
        let further = std::iter::repeat((&b""[..], &b""[..], NO_BRANCH));
        for (target, trunk, branch) in named.chain(further).take(record.tried.min(TRIED_MAX) as usize) {
            say(record.started, What::Tried(Tried { target, trunk, branch }));
        }
        for _ in 0..record.forwardings.min(TRIED_MAX) {
            say(record.started, What::Forwarded(0));
        }
        if let Some(at) = record.ringing {
            say(at, What::Rang);
        }
        if let Some(at) = record.answered {
            let none = Callee::default();
            let mut dialogs = self.dialogs.iter();
            // The first one says who has answered, and keeps the call open until the ended ones are told.
            if let Some(dialog) = dialogs.next() {
                say(at, What::Answered(record.callee.answered(record.status, *dialog)));
            }
            for dialog in self.ended.iter().copied().filter(|dialog| is_over(*dialog)) {
                say(at, What::Answered(none.answered(record.status, dialog)));
                say(at, What::Ended(Ended { by: record.ended_by, dialog, ago: 0 }));
            }
            for dialog in dialogs {
                say(at, What::Answered(none.answered(record.status, *dialog)));
            }
        }
        for Session { dialog, at, seconds } in self.sessions.all() {
            say(*at, What::Refreshed(*dialog, *seconds));
        }
        if let Some(at) = self.failed {
            say(at, What::Failed(Failed { status: record.status, by: record.ended_by, late: true }));
        }
        say(self.heard, What::Lives(NO_DIALOG));
    }
}

/// The record of a call that begins.
fn fresh(name: CallName, at: u64, source: Source) -> Record {
    Record {
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
        forwardings: 0,
    }
}

/// A record with the times of the day. They are as far from each other as they were on the clock that nobody
/// sets.
fn set_to_day(mut record: Record, ahead: i64) -> Record {
    let day = |at: u64| at.saturating_add_signed(ahead);
    (record.started, record.ended) = (day(record.started), day(record.ended));
    (record.ringing, record.answered) = (record.ringing.map(day), record.answered.map(day));
    record
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
