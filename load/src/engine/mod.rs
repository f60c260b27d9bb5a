//! Calls under way: what they send, wait for and time.
//!
//! One [`Engine`] is one worker's machine; the worker runtime drives it as it drives a proxy's node. A
//! call runs a scenario step by step until it has to wait, for a message or for time; then its slot and
//! its one timer are all there is of it. Calls begin when the schedule says so, whatever has become of
//! those before (open loop), and everything is counted from the time that the schedule meant.

mod abort;
mod acks;
mod begin;
mod call;
mod directory;
mod ids;
mod init;
mod observe;
pub mod people;
mod receive;
mod registered;
mod run;
mod settings;
#[cfg(test)]
mod tests;
mod trace;
mod unwanted;
mod users;
pub(crate) mod wheel;

pub use settings::{CallIds, Defaults, Origin, Progress, Record, Retransmission, Settings, Stop, Users};
pub use trace::Traced;

use crate::metrics::{Ladders, Metrics, Unexpected};
use crate::population::{Rng, Times};
use crate::scenario::{Desk, Effects, Level, Model, Outlines, Scenario, Scope, Side, Values};
use call::{Ahead, Calls};
use core::hash::BuildHasher;
use core::time::Duration;
use directory::Directory;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ids::CallName;
use registered::Registered;
use sip_message::{Index, Limits, Parsed, find_call_id, parse};
use std::sync::Arc;
use trace::Trace;
use users::Callers;
use wheel::Wheel;
use wire::{ConnId, Flow, Frame, FrameError, Generator, Machine, Outbox, Time, Transport};

/// A request that nobody has answered for so long when the run is over has failed. What is younger may yet be
/// answered.
const SILENT: Duration = Duration::from_secs(2);

/// How often it is looked whether the calls under way are left by the other side.
const LOOK: Duration = Duration::from_secs(1);

/// What other threads tell an engine.
pub enum Notice {
    /// Show what is going on, by calling this once.
    Progress(Box<dyn FnOnce(Progress) + Send>),
    /// Hand over what was recorded. The run is over: what waits for an answer has failed, whatever else is
    /// under way is unfinished.
    Record(Box<dyn FnOnce(Record) + Send>),
    /// Begin no more calls; end those under way as they come to their end.
    Quit,
    /// So many calls a second from now on, on all workers together; 0 for a pause.
    Rate(f64),
}

/// One worker's machine.
pub struct Engine {
    settings: Settings,
    /// Addresses of listeners as messages show them.
    locals: Vec<(Vec<u8>, u16)>,
    calls: Calls,
    wheel: Wheel,
    /// Which calls have Call-IDs that do not name them.
    directory: Directory,
    hasher: FixedState,
    /// When the worker woke for what is being handled, which may have come, or been due, before.
    woken: Time,
    desk: Desk,
    rng: Rng,
    callers: Callers,
    /// Variables of the run: the caller's scenario's and the callee's.
    global: [Values; 2],
    /// What was wrong with an `<init>`.
    trouble: Option<String>,
    effects: Effects,
    lines: Vec<(Level, Vec<u8>)>,
    metrics: Metrics,
    registered: Registered,
    ladders: Ladders,
    /// Where the callee's stopwatches and counters stand among those of the record.
    firsts: [(usize, usize); 2],
    arrivals: Option<Times>,
    /// When the next call is meant to begin.
    next_call: Option<Time>,
    begun: u64,
    /// Calls begun here that are under way.
    calling: usize,
    /// Calls answered so far.
    answered: u64,
    number: u64,
    turn: usize,
    /// Messages sent in rounds that did not come to the end of what is due.
    backlog: usize,
    /// Calls that have ended well and answer retransmissions.
    lingering: usize,
    stopping: bool,
    /// What a scenario has asked for.
    stop: Option<Stop>,
    /// When it was looked last what is ahead of the calls under way, and what was.
    looked: Time,
    ahead: Ahead,
    /// The calls that have a connection of their own, by it: slot and generation.
    connections: HashMap<ConnId, (u32, u32), FixedState>,
    /// Connections of calls that have ended.
    closing: Vec<ConnId>,
    index: Option<Box<Index>>,
    /// What the caller's and the callee's scenario ask of messages like others.
    outlines: [Outlines; 2],
    /// A scenario writes something before the Call-IDs of its calls.
    prefixed: bool,
    /// Both scenarios, but for that of a call that is at work.
    scenarios: [Option<Arc<Scenario>>; 2],
    /// What the steps of the caller's and of the callee's scenario have sent last.
    models: [Vec<Model>; 2],
    /// How long callers have waited at each step at most for the request that it is for, or for the end of
    /// their ringing, and got it.
    longest: Vec<Option<Duration>>,
    /// All messages, if somebody wants them.
    trace: Option<Box<Trace>>,
}

impl Engine {
    /// An engine with nothing going on. `arrivals` says when calls begin; none: it only answers.
    pub fn new(mut settings: Settings, desk: Desk, arrivals: Option<Times>) -> Engine {
        let mut rng = Rng::new(settings.seed, u64::from(settings.worker));
        let hasher = FixedState::with_seed(rng.next_u64());
        settings.measured();
        let users = settings.values(Scope::User);
        let global = settings.given();
        let prefixes = |own: &Option<Arc<Scenario>>| own.as_ref().is_some_and(|own| own.prefixes_call_ids);
        let mut engine = Engine {
            calls: Calls::default(),
            wheel: Wheel::new(settings.start.as_micros()),
            directory: Directory::default(),
            hasher: hasher.clone(),
            woken: settings.start,
            desk,
            rng,
            callers: Callers::new(settings.users, users, settings.start),
            global,
            trouble: None,
            effects: Effects::default(),
            lines: Vec::new(),
            metrics: Metrics::new(&settings.metrics),
            registered: Registered::new(hasher.clone()),
            ladders: Ladders::new(settings.ladders, 1 << 20),
            firsts: [Side::Client, Side::Server]
                .map(|side| (settings.first(side, |s| &s.timers), settings.first(side, |s| &s.counters))),
            arrivals,
            next_call: None,
            begun: 0,
            calling: 0,
            answered: 0,
            number: 0,
            turn: 0,
            backlog: 0,
            lingering: 0,
            stopping: false,
            stop: None,
            looked: Time::ZERO,
            ahead: Ahead::Something,
            connections: HashMap::with_hasher(hasher),
            closing: Vec::new(),
            index: Some(index()),
            outlines: [Outlines::new(), Outlines::new()],
            prefixed: prefixes(&settings.client) || prefixes(&settings.server),
            scenarios: [settings.client.clone(), settings.server.clone()],
            models: [&settings.client, &settings.server].map(|scenario| {
                let steps = scenario.as_ref().map_or(0, |scenario| scenario.steps.len());
                core::iter::repeat_with(Model::default).take(steps).collect()
            }),
            longest: vec![None; settings.client.as_ref().map_or(0, |own| own.steps.len())],
            locals: Settings::locals(&settings.listeners),
            trace: settings.traces.then(Box::default),
            settings,
        };
        engine.prelude();
        engine.schedule();
        engine
    }

    /// What was wrong with the `<init>` of a scenario. Such an engine begins no call.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The part of a Call-ID that names the call where scenarios write something before it.
    #[inline]
    pub(super) fn name_in<'m>(&self, call_id: &'m [u8]) -> &'m [u8] {
        if self.prefixed { ids::behind(call_id).unwrap_or(call_id) } else { call_id }
    }

    /// What is going on.
    fn progress(&mut self, now: Time) -> Progress {
        Progress {
            pulse: self.metrics.pulse(),
            calls: self.calls.len() - self.lingering,
            begun: self.begun,
            waiting: self.is_behind(),
            beginning: self.next_call.is_some() || (!self.stopping && self.has_more()),
            idle: self.look(now) == Ahead::Open,
            done: self.is_done() || self.ahead == Ahead::Nothing,
            stop: self.stop,
            lines: core::mem::take(&mut self.lines),
            messages: self.trace.as_mut().map(|trace| trace.take()).unwrap_or_default(),
            figures: self.metrics.figures(),
        }
    }

    /// What was recorded.
    fn record(&mut self, now: Time) -> Record {
        self.quit(now);
        self.cut(now);
        Record { metrics: Box::new(self.metrics.clone()), ladders: self.ladders.kept().to_vec() }
    }

    /// Whether nothing more will happen by itself.
    fn is_done(&self) -> bool {
        let more = self.next_call.is_some() && !self.stopping;
        // The last call of `-m` that was answered may still be asked again.
        let rest = if self.has_answered_all() { 0 } else { self.lingering };
        self.stop == Some(Stop::Now)
            || (!more && self.calls.len() == rest && (self.settings.client.is_some() || self.stopping))
    }

    fn hash(&self, call_id: &[u8]) -> u64 {
        self.hasher.hash_one(call_id)
    }

    /// Closes the connections of calls that have ended.
    fn close_ended(&mut self, out: &mut Outbox) {
        if !self.closing.is_empty() {
            self.closing.drain(..).for_each(|conn| out.close(conn));
        }
    }

    fn message(&mut self, now: Time, flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let mut index = self.index.take().unwrap_or_else(index);
        match parse(bytes, &mut index, &Limits::DEFAULT) {
            Parsed::Good(message) => self.receive_message(now, flow, &message, out),
            Parsed::Bad(..) | Parsed::Garbage(_) => self.malformed(now, flow, bytes),
        }
        self.index = Some(index);
    }

    /// Keeps what came, and what was sent upon it, if that is wanted.
    #[inline]
    fn trace(&mut self, now: Time, came: Option<(Time, Flow, &[u8])>, first: usize, out: &Outbox) {
        if let Some(trace) = &mut self.trace {
            if let Some((at, flow, message)) = came {
                trace.received(at, flow.transport, message);
            }
            trace.sent(now, first, out);
        }
    }

    #[cold]
    fn malformed(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        self.metrics.unexpected(now, Unexpected::Malformed);
        let local = self.settings.local(flow.listener);
        self.ladders.stray(now, *local, flow.remote, bytes, Unexpected::Malformed.text());
    }
}

/// An index that remembers messages.
#[cold]
fn index() -> Box<Index> {
    Box::new(Index::with_memory())
}

impl Machine for Engine {
    type Notice = Notice;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &Limits::default())
    }

    /// Calls of ours name their worker in the Call-ID; those of others are dealt out by its hash.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        let call_id = self.name_in(find_call_id(message).unwrap_or(b""));
        if let Some(name) = CallName::read(call_id, self.settings.run_id) {
            return Some(name.worker % workers.max(1));
        }
        // The same on every worker.
        let hasher = FixedState::with_seed(self.settings.seed ^ u64::from(self.settings.run_id));
        Some((((hasher.hash_one(call_id) >> 32) * u64::from(workers.max(1))) >> 32) as u16)
    }

    fn receive(&mut self, now: Time, flow: Flow, message: &[u8], out: &mut Outbox) {
        self.woken = now;
        let first = out.transmits().len();
        self.message(now, flow, message, out);
        self.trace(now, Some((now, flow, message)), first, out);
        self.close_ended(out);
    }

    fn refuse(&mut self, now: Time, _flow: Flow, _head: &[u8], _error: FrameError, _out: &mut Outbox) {
        self.metrics.unexpected(now, Unexpected::Malformed);
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, _out: &mut Outbox) {
        self.lost_connection(now, conn);
    }

    fn undeliverable(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.unreachable(now, token, out);
    }

    fn notice(&mut self, now: Time, notice: Notice, out: &mut Outbox) {
        match notice {
            Notice::Progress(show) => {
                self.metrics.tick(now);
                show(self.progress(now));
            }
            Notice::Record(take) => take(self.record(now)),
            Notice::Quit => {
                let first = out.transmits().len();
                // What is due and has room begins; then what is due has none. A user whose call ends at once
                // is due again at once, and for ever.
                let users = self.callers.are_there();
                if users {
                    self.begin_due(now, out);
                }
                while !users && self.next_call.is_some_and(|at| at <= now) && !self.is_full() {
                    self.begin_due(now, out);
                }
                self.trace(now, None, first, out);
                self.quit(now);
            }
            Notice::Rate(rate) => {
                let since = now.since(self.settings.start).as_micros() as u64;
                if self.arrivals.as_mut().is_some_and(|times| times.set_rate(since, rate)) {
                    self.schedule();
                }
                self.timeout(now, out);
            }
        }
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        let before = out.transmits().len();
        self.woken = now;
        while let Some(slot) = self.wheel.pop(now.as_micros()) {
            self.due(now, slot, out);
        }
        self.begin_due(now, out);
        self.trace(now, None, before, out);
        self.backlog += out.transmits().len().saturating_sub(before);
        // What is due still comes in the next round: it has waited with these.
        let more = self.next_call.is_some_and(|at| at <= now && !self.is_full());
        if self.backlog > 0 && !more {
            self.metrics.queue_depth(now, core::mem::take(&mut self.backlog));
        }
        self.close_ended(out);
    }

    fn next_deadline(&self) -> Option<Time> {
        let timers = self.wheel.next().map(Time::from_micros);
        // A call that waits for room begins when another ends.
        let begin = self.next_call.filter(|_| !self.is_full());
        timers.into_iter().chain(begin).min()
    }
}

impl Generator for Engine {
    /// Everything is counted from the arrival, and what is sent upon it was meant to leave then: the
    /// wait is lateness of ours.
    fn receive_late(&mut self, now: Time, arrived: Time, flow: Flow, message: &[u8], out: &mut Outbox) {
        self.woken = now;
        self.metrics.scheduled_send(now, arrived);
        let first = out.transmits().len();
        self.message(arrived, flow, message, out);
        self.trace(now, Some((arrived, flow, message)), first, out);
        self.close_ended(out);
    }

    fn connected(&mut self, _now: Time, token: u64, conn: ConnId) {
        self.has_connection(token, conn);
    }
}
