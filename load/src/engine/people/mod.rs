//! A population of users: each registers, is called and calls, as [`crate::population`] says.
//!
//! One [`People`] is one worker's machine, as [`Engine`](super::Engine) is for scenarios. Here the flows
//! are fixed (registration, completed call, voicemail, cancelled call), which is what lets one worker
//! serve millions of users: at rest a user is its entry in the population's calendar, and 64 bytes more if
//! its last nonce is kept.
//!
//! User n belongs to worker n modulo the number of workers and registers the address of that worker's
//! listener, with its number as the user part of its Contact. So what the server sends to a user arrives at
//! its worker. Everything else is known by names that this program itself gave: branches and tags carry
//! the place of a transaction or dialog, and the Call-ID carries what is to become of the call
//! ([`CallToken`](crate::population::CallToken)). Only an INVITE or CANCEL needs a look into a table.

mod callee;
mod caller;
mod dialog;
mod digests;
mod names;
mod owners;
mod register;
mod settings;
#[cfg(test)]
mod tests;
mod timers;
mod words;

pub use names::Names;
pub use settings::Settings;

use super::{Notice, Progress, Record};
use crate::metrics::{Began, Direction, Ladders, Metrics, Unexpected, Window};
use crate::population::{Deed, Impossible, Phase, Population};
use crate::timers::GIVE_UP;
use callee::{Answering, Callee};
use caller::Caller;
use digests::Digests;
use foldhash::fast::FixedState;
use owners::Owners;
use register::{Registering, Registration};
use sip_message::{Index, Limits, Message, Method, Parsed, Response, parse};
use std::mem;
use timers::Timers;
use timing::Slab;
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Generator, Machine, Outbox, Time, Transport};
use words::{Kind, Place, Words, read_branch, read_call_id};

/// Deeds begun in one go before received messages get their turn.
const BURST: usize = 64;

/// One worker's users.
pub struct People {
    settings: Settings,
    words: Words,
    population: Population,
    digests: Digests,
    metrics: Metrics,
    ladders: Ladders,
    registrations: Slab<Registration>,
    callers: Slab<Caller>,
    callees: Slab<Callee>,
    timers: Timers,
    answering: Answering,
    /// When the worker woke for what is being handled, which may have come before.
    woken: Time,
    registering: Registering,
    owners: Owners,
    begun: u64,
    /// Messages sent in rounds that did not come to the end of what is due.
    backlog: usize,
    stopping: bool,
    index: Option<Box<Index>>,
    scratch: Scratch,
}

/// Texts that are made for a message and forgotten.
#[derive(Default)]
struct Scratch {
    uri: Vec<u8>,
    peer: Vec<u8>,
    call_id: Vec<u8>,
}

impl People {
    /// The users of one worker, none of them registered.
    ///
    /// # Errors
    /// The parameters are not possible.
    pub fn new(settings: Settings) -> Result<People, Impossible> {
        let (worker, workers) = (u32::from(settings.worker), u32::from(settings.workers));
        let population =
            Population::new(&settings.parameters, settings.seed, worker, workers, settings.start)?;
        let users = population.users();
        let seed = settings.seed.wrapping_add(u64::from(worker));
        let mut rng = crate::population::Rng::new(seed, 0x006b_6579);
        let hasher = FixedState::with_seed(rng.next_u64());
        Ok(People {
            words: Words::new(&settings),
            population,
            digests: Digests::new(seed, users, settings.reuse_nonces),
            metrics: Metrics::new(&settings.metrics),
            ladders: Ladders::new(settings.ladders, 4 << 20).placed(Place::of_marks),
            registrations: Slab::default(),
            callers: Slab::default(),
            callees: Slab::default(),
            timers: Timers::new(settings.start),
            answering: Answering::new(hasher),
            woken: Time::ZERO,
            registering: Registering::new(users),
            owners: Owners::new(&settings),
            begun: 0,
            backlog: 0,
            stopping: false,
            index: None,
            scratch: Scratch::default(),
            settings,
        })
    }

    /// Bytes allocated for users at rest.
    pub fn bytes_at_rest(&self) -> usize {
        self.population.bytes() + self.digests.bytes() + self.registering.bytes()
    }

    /// What is recorded.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn is_idle(&self) -> bool {
        self.callers.len() + self.registrations.len() + self.callees.len() == 0
    }

    /// Whether nothing more will happen by itself.
    fn is_done(&self, now: Time) -> bool {
        match self.population.phases().phase_at(now) {
            Phase::Over => true,
            Phase::CoolDown => self.is_idle(),
            _ => self.stopping && self.is_idle(),
        }
    }

    fn progress(&mut self, now: Time) -> Progress {
        Progress {
            pulse: self.metrics.pulse(),
            calls: self.callers.len(),
            begun: self.begun,
            waiting: false,
            idle: false,
            beginning: !self.stopping && self.population.phases().phase_at(now) < Phase::CoolDown,
            done: self.is_done(now),
            stop: None,
            lines: Vec::new(),
            messages: Default::default(),
            figures: None,
        }
    }

    /// No more calls and registrations begin. What was to be measured ends here, if it has not ended.
    fn quit(&mut self, now: Time) {
        if !self.stopping {
            let window = self.metrics.window();
            self.metrics.set_window(Window { until: window.until.min(now), ..window });
        }
        self.stopping = true;
    }

    /// What was recorded. The run is over: requests that nobody has answered for a while failed, whatever
    /// else is under way is left unfinished, and counted so.
    fn record(&mut self, now: Time) -> Record {
        self.stopping = true;
        self.cut_registrations(now);
        self.cut_callers(now);
        self.cut_callees(now);
        Record { metrics: Box::new(self.metrics.clone()), ladders: self.ladders.kept().to_vec() }
    }

    /// Begins what is due.
    fn begin_due(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..BURST {
            if self.stopping {
                return;
            }
            match self.population.pop(now) {
                Some((intended, Deed::Register { user, refresh })) => {
                    self.register(now, intended, user, refresh, out);
                }
                Some((intended, Deed::Call { caller, callee, plan })) => {
                    self.begin_call(now, intended, (caller, callee), plan, out);
                }
                None => return,
            }
        }
    }

    fn place(&self, kind: Kind, slot: u32) -> Place {
        let generation = match kind {
            Kind::Register => self.registrations.generation(slot),
            Kind::Caller => self.callers.generation(slot),
            Kind::Callee => self.callees.generation(slot),
        };
        Place { kind, worker: self.settings.worker, slot, generation: generation.unwrap_or(0) }
    }

    /// The number at this worker of a user, if it is one of ours.
    fn local(&self, user: u64) -> Option<u32> {
        let workers = u64::from(self.settings.workers.max(1));
        let local = user / workers;
        let ours = user % workers == u64::from(self.settings.worker) && local < self.population.users();
        ours.then_some(local as u32)
    }

    /// The beginning of what is sent upon a message that came at `now`.
    fn upon(&self, now: Time) -> Began {
        Began { intended: now, sent: now.max(self.woken) }
    }

    /// Notes a message for the drawings of flows.
    fn offer(&mut self, now: Time, place: Place, direction: Direction, flow: Flow, bytes: &[u8]) {
        let local = self.settings.local(flow.listener);
        self.ladders.offer(place.number(), now, direction, local, flow.remote, bytes);
    }

    fn message(&mut self, now: Time, flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let mut index = self.index.take().unwrap_or_default();
        match parse(bytes, &mut index, &Limits::default()) {
            Parsed::Good(message) if message.is_request() => {
                self.metrics.request_received(now, message.method().into());
                self.request(now, flow, &message, out);
            }
            Parsed::Good(message) => {
                self.metrics.response_received(now, message.status());
                self.response(now, flow, &message, out);
            }
            Parsed::Bad(..) | Parsed::Garbage(_) => {
                self.metrics.unexpected(now, Unexpected::Malformed);
                let local = self.settings.local(flow.listener);
                self.ladders.stray(now, local, flow.remote, bytes, Unexpected::Malformed.text());
            }
        }
        self.index = Some(index);
    }

    fn response(&mut self, now: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let own = read_branch(message.via_branch(), self.settings.run_id);
        let Some((place, cseq)) = own.filter(|(place, _)| place.worker == self.settings.worker) else {
            return self.stray(now, flow, message, out);
        };
        self.offer(now, place, Direction::Received, flow, message.bytes());
        let known = match place.kind {
            Kind::Register => self.register_response(now, place, cseq, message, out),
            Kind::Caller => self.caller_response(now, place, cseq, message, out),
            Kind::Callee => self.callee_response(now, place, cseq, message, out),
        };
        if !known {
            // Whoever repeats a refusal wants the ACK, even if nobody here remembers the call.
            if message.method() == Method::Invite && message.status() >= 300 {
                self.ack_refusal(now, place, cseq, message, out);
            }
            self.metrics.dead_call(now);
        }
    }

    fn request(&mut self, now: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let known = match message.method() {
            Method::Invite if message.to_tag().is_empty() => self.invited(now, flow, message, out),
            Method::Cancel => self.cancelled(now, flow, message, out),
            Method::Ack | Method::Bye => {
                let own = Place::read(message.to_tag());
                match own.filter(|place| place.worker == self.settings.worker) {
                    Some(place) if place.kind == Kind::Callee => {
                        self.in_dialog(now, place, flow, message, out)
                    }
                    Some(place) if place.kind == Kind::Caller => {
                        self.hung_up_on(now, place, flow, message, out)
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        if !known {
            self.stray(now, flow, message, out);
        }
    }

    /// A message that belongs to nothing.
    fn stray(&mut self, now: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let ours = read_call_id(message.call_id(), self.settings.run_id).is_some();
        let method = message.method();
        if message.is_request() && method != Method::Ack {
            // A BYE that comes again because its answer was lost is answered again.
            let status = match method {
                Method::Options => 200,
                Method::Bye if ours => 200,
                Method::Invite => 404,
                _ => 481,
            };
            self.metrics.response_sent(now);
            out.send_with(flow, 0, |buf| {
                Response { tag: b"load", source: Some((flow.remote, false)), ..Response::new(status) }
                    .write(message, buf);
            });
        }
        if ours && method != Method::Invite {
            return self.metrics.dead_call(now);
        }
        if method != Method::Options {
            self.metrics.unexpected(now, Unexpected::NoCall);
            let local = self.settings.local(flow.listener);
            self.ladders.stray(now, local, flow.remote, message.bytes(), Unexpected::NoCall.text());
        }
    }
}

impl Machine for People {
    type Notice = Notice;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &Limits::default())
    }

    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        if workers <= 1 {
            return Some(0);
        }
        Some(self.owners.of(message).unwrap_or(0) % workers)
    }

    /// Everything is counted from the arrival, and what is sent upon it was meant to leave then: the
    /// wait is lateness of ours.
    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        if let Some(other) = arrival.other_owner(self) {
            return Some(other);
        }
        let Arrival { now, at, flow, message, .. } = arrival;
        self.woken = now;
        if let Some(at) = at {
            self.metrics.scheduled_send(now, at);
        }
        self.message(at.unwrap_or(now), flow, message, out);
        None
    }

    fn refuse(&mut self, now: Time, _flow: Flow, _head: &[u8], _error: FrameError, _out: &mut Outbox) {
        self.metrics.unexpected(now, Unexpected::Malformed);
    }

    fn disconnected(&mut self, _now: Time, _conn: ConnId, _out: &mut Outbox) {}

    fn undeliverable(&mut self, now: Time, token: u64, _out: &mut Outbox) {
        let Some(place) = Place::of_number(token, self.settings.worker) else { return };
        self.metrics.send_failed(now);
        match place.kind {
            Kind::Register => self.register_unreachable(now, place),
            Kind::Caller => self.caller_unreachable(now, place),
            // The transaction's own timer decides.
            Kind::Callee => {}
        }
    }

    fn notice(&mut self, now: Time, notice: Notice, out: &mut Outbox) {
        match notice {
            Notice::Progress(show) => {
                self.metrics.tick(now);
                show(self.progress(now));
            }
            Notice::Record(take) => take(self.record(now)),
            Notice::Quit => self.quit(now),
            // How much there is to do follows from the users.
            Notice::Rate(_) => self.timeout(now, out),
        }
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        let before = out.transmits().len();
        self.woken = now;
        while let Some(slot) = self.timers.due(Kind::Register, now) {
            self.register_due(now, slot, out);
        }
        while let Some(slot) = self.timers.due(Kind::Caller, now) {
            self.caller_due(now, slot, out);
        }
        while let Some(slot) = self.timers.due(Kind::Callee, now) {
            self.callee_due(now, slot, out);
        }
        self.begin_due(now, out);
        self.backlog += out.transmits().len().saturating_sub(before);
        // What is due still comes in the next round: it has waited with these.
        let more = !self.stopping && self.population.next_due().is_some_and(|at| at <= now);
        if self.backlog > 0 && !more {
            self.metrics.queue_depth(now, mem::take(&mut self.backlog));
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let begin = self.population.next_due().filter(|_| !self.stopping);
        self.timers.next().into_iter().chain(begin).min()
    }
}

impl Generator for People {}

/// Whether another answer to a challenge is worth the try: the first one is, and one more if only the nonce
/// was too old.
fn may_answer(answered: u8, challenge: &Message<'_>) -> bool {
    answered == 0 || (answered < 3 && sip_auth::client::is_stale(challenge))
}

/// A request that nobody has answered for so long at the end of a run has failed. What is younger may yet be
/// answered.
const SILENT: core::time::Duration = super::SILENT;

/// Longer than any message of a call that rings or talks as planned can take.
const PATIENCE: core::time::Duration = GIVE_UP;
