//! How calls begin and end.

use super::call::{Ahead, Awaited, Call, Doing, Wait};
use super::directory::Whose;
use super::ids::CallName;
use super::run::on_timeout;
use super::wheel::tick;
use super::{CallIds, Engine, LOOK, Origin, Stop};
use crate::metrics::{self, Began, CallEnd, Direction, Failure};
use crate::scenario::{Expect, Op, Optional, Scope, Side, Step};
use core::hash::BuildHasher;
use core::time::Duration;
use sip_message::Message;
use std::mem;
use wire::{ConnId, Flow, Outbox, Time};

/// Calls begun in one go before received messages get their turn.
const BURST: usize = 64;

impl Engine {
    /// Whether no further call has room.
    pub(super) fn is_full(&self) -> bool {
        self.calling >= self.settings.most_calls
    }

    /// Whether all calls have come in that were to be answered.
    pub(super) fn has_answered_all(&self) -> bool {
        self.settings.callees.is_some_and(|callees| self.answered >= callees)
    }

    /// Whether users are to begin another call, or calls of `-m` to come in.
    pub(super) fn has_more(&self) -> bool {
        let to_come = self.settings.callees.is_some() && !self.has_answered_all();
        to_come || self.callers.have_more()
    }

    /// Whether a call is due and waits for room.
    pub(super) fn is_behind(&self) -> bool {
        self.next_call.is_some() && self.is_full()
    }

    /// Asks the schedule for the next call.
    pub(super) fn schedule(&mut self) {
        let more = !self.stopping && self.settings.client.is_some();
        if self.callers.are_there() {
            self.next_call = self.callers.next().filter(|_| more);
            return;
        }
        let times = self.arrivals.as_mut().filter(|_| more);
        let start = self.settings.start;
        self.next_call = times.and_then(Iterator::next).map(|micros| start + Duration::from_micros(micros));
    }

    /// Begins the calls that are due, each with the time it was meant to begin.
    pub(super) fn begin_due(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..BURST {
            let Some(intended) = self.next_call.filter(|&at| at <= now && !self.is_full()) else { return };
            self.begun += 1;
            let user = self.callers.take().unwrap_or(0);
            self.schedule();
            self.begin(now, intended, user, out);
        }
    }

    fn begin(&mut self, now: Time, intended: Time, user: u64, out: &mut Outbox) {
        let Some(slot) = self.calls.take() else { return self.metrics.call_shed(intended) };
        self.calling += 1;
        let nth = match self.settings.origin {
            Origin::Turn | Origin::Connection | Origin::Field { .. } => self.turn,
            // No two calls under way have one slot.
            Origin::Call => slot as usize,
        };
        let listener = self.settings.own.get(nth % self.settings.own.len().max(1)).copied();
        self.turn = self.turn.wrapping_add(1);
        let flow = self.settings.flow(listener.unwrap_or(wire::ListenerId(0)));
        let began = Began { intended, sent: now };
        self.metrics.scheduled_start(now, intended);
        self.prepare(slot, Side::Client, flow, began, user);
        let named = self.listener_by_line(slot);
        let flow = named.map_or(flow, |listener| self.settings.flow(listener));
        if let Some(call) = self.calls.at(slot) {
            call.flow = flow;
        }
        let called = write_call_id(self, slot);
        self.metrics.call_begun(metrics::Side::Caller, began);
        if named.is_none() && matches!(self.settings.origin, Origin::Field { .. }) {
            let why = "the line of the call names no address of this machine";
            return self.fail(now, slot, Failure::Data, why);
        }
        if let Err(why) = called {
            return self.fail(now, slot, Failure::Data, why);
        }
        self.advance(now, slot, out);
    }

    /// The listener that the line of a call names.
    fn listener_by_line(&mut self, slot: u32) -> Option<wire::ListenerId> {
        let Origin::Field { field, listeners } = &self.settings.origin else { return None };
        let line = self.calls.get(slot)?.lines.first().copied()?;
        let mut text = Vec::new();
        self.desk.injections.write(0, line, *field, &mut text).then_some(())?;
        let address = core::str::from_utf8(&text).ok()?.trim().parse().ok()?;
        listeners.get(&address).copied()
    }

    /// A call that the other side begins; `ours` is the one here that it is the other end of, if it is.
    pub(super) fn answer(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        ours: Option<u32>,
    ) -> Option<u32> {
        let room = self.directory.answering() < self.settings.most_callees && !self.has_answered_all();
        if self.settings.server.is_none() || !room {
            return None;
        }
        let slot = self.calls.take()?;
        self.answered += 1;
        self.prepare(slot, Side::Server, flow, Began::at(now), 0);
        let caller = || self.begun_here(self.name_in(request.call_id()));
        let caller = if self.prefixed { ours.or_else(caller) } else { ours };
        self.take_lines(slot, caller);
        if self.has_answered_all() {
            self.quit(now);
        }
        let hash = self.hash(request.call_id());
        if let Some(call) = self.calls.at(slot) {
            call.hash = hash;
            call.call_id.extend_from_slice(request.call_id());
            let name = (slot, call.generation);
            if let Some(ours) = ours.and_then(|ours| self.calls.at(ours)) {
                ours.other = Some(name);
            }
        }
        self.directory.insert(Whose::Theirs, hash, slot);
        self.metrics.call_begun(metrics::Side::Callee, Began::at(now));
        Some(slot)
    }

    /// Sets a call up that was just taken.
    fn prepare(&mut self, slot: u32, side: Side, flow: Flow, began: Began, user: u64) {
        let (first, stride) = self.settings.numbers;
        let number = first + self.number * stride;
        self.number += 1;
        let Engine { settings, calls, desk, rng, .. } = self;
        let Some(scenario) = settings.scenario(side) else { return };
        let Some(call) = calls.at(slot) else { return };
        call.side = side;
        call.flow = flow;
        call.began = began;
        // Where no step waits yet, as where nothing that came was for one.
        (call.since, call.quiet) = (began.sent, began.sent);
        (call.number, call.user) = (number, user);
        call.cseq = settings.base_cseq.saturating_sub(1);
        call.doing = Doing::Waiting;
        // The variables of a call that used this slot before have the same names.
        match call.side_values {
            Some(kept) if kept == side => call.values.clear(),
            _ => call.values = scenario.variables.values(Scope::Call),
        }
        call.side_values = Some(side);
        call.timers.resize(scenario.timers.len(), None);
        call.branches.resize_with(scenario.transactions.len(), Vec::new);
        if side == Side::Client {
            desk.injections.choose(side, call.user, rng, &mut call.lines);
        }
        // A timer that no step starts runs from the beginning of the call.
        for &number in &scenario.running_timers {
            if let Some(timer) = call.timers.get_mut(usize::from(number)) {
                *timer = Some(began.intended);
            }
        }
    }

    /// The lines of a call that comes in: those of the call here that it is the other end of, otherwise the
    /// next ones of the callees, who have them in an order of their own.
    fn take_lines(&mut self, slot: u32, ours: Option<u32>) {
        let Some(call) = self.calls.at(slot) else { return };
        let mut lines = mem::take(&mut call.lines);
        match ours.and_then(|ours| self.calls.get(ours)) {
            Some(ours) => lines.clone_from(&ours.lines),
            None => self.desk.injections.choose(Side::Server, 0, &mut self.rng, &mut lines),
        }
        if let Some(call) = self.calls.at(slot) {
            call.lines = lines;
        }
    }

    /// A call is over.
    pub(super) fn end(&mut self, now: Time, slot: u32, end: CallEnd) {
        let Some(call) = self.calls.get(slot) else { return };
        let (side, began, user) = (call.side, call.began, call.user);
        let lingered = matches!(call.doing, Doing::Lingering(_) | Doing::Leaving(_));
        if !lingered {
            self.note_end(now, slot);
        }
        self.release(slot);
        if lingered {
            self.lingering -= 1;
        } else {
            self.metrics.call_ended(now, side.into(), began, end);
        }
        if side == Side::Client && !lingered {
            self.over(now, user);
        }
    }

    /// Frees the slot of a call, and what leads to it.
    fn release(&mut self, slot: u32) {
        let Some(call) = self.calls.get(slot) else { return };
        if call.connected
            && let Some(conn) = call.flow.conn
        {
            self.connections.remove(&conn);
            self.closing.push(conn);
        }
        let whose = if call.side == Side::Server { Whose::Theirs } else { Whose::Ours };
        if whose == Whose::Theirs || matches!(self.settings.call_ids, CallIds::Field(_)) {
            self.directory.remove(whose, call.hash, slot);
        }
        self.calls.give(slot);
    }

    /// The call of a user is over, as far as he is concerned: he may begin the next.
    pub(super) fn over(&mut self, now: Time, user: u64) {
        self.calling = self.calling.saturating_sub(1);
        if self.callers.are_there() {
            self.callers.give(user, now);
            self.schedule();
        }
    }

    /// A call failed: its flow is kept for people to see.
    pub(super) fn fail(&mut self, now: Time, slot: u32, failure: Failure, why: &str) {
        let Some(call) = self.calls.get(slot) else { return };
        let began = call.began.sent.min(call.began.intended);
        self.ladders.failed(
            now,
            ladder_name(slot, call),
            began,
            &call.call_id,
            (&call.sent, &call.last),
            why,
        );
        self.end(now, slot, CallEnd::Failed(failure));
    }

    /// The run is over. A caller who waits for what is not to be expected any more has failed; what pauses,
    /// waits for what may yet come or answers a call is left unfinished: it is counted as begun, and no more,
    /// but for callers whose wait leaves open what the server would have done
    /// ([`metrics::Metrics::call_open`]).
    pub(super) fn cut(&mut self, now: Time) {
        for slot in self.calls.slots() {
            let Some(call) = self.calls.get(slot) else { continue };
            let wait = match (call.doing, call.side) {
                (Doing::Lingering(_) | Doing::Leaving(_), _) => {
                    self.end(now, slot, CallEnd::Success);
                    continue;
                }
                (Doing::Waiting, Side::Client) => call.wait(now, self.awaited(call)),
                // What a callee has asked itself, such as its BYE; who calls it has its own record of all
                // else.
                (Doing::Waiting, Side::Server) if call.seen.awaits().is_some() => {
                    let goes_on =
                        self.settings.server.as_ref().and_then(|own| on_timeout(own, call.step)).is_some();
                    match call.wait(now, Awaited { answer: true, goes_on, longest: None }) {
                        Wait::Open => Wait::Young,
                        wait => wait,
                    }
                }
                _ => Wait::Young,
            };
            match wait {
                Wait::Overdue => {
                    self.note_silence(now, slot);
                    let why = "what it waited for had not come at the end of the run";
                    self.fail(now, slot, Failure::ReceiveTimeout, why);
                    continue;
                }
                Wait::Open => self.metrics.call_open(call.side.into(), call.began),
                Wait::Young => {}
            }
            self.release(slot);
        }
    }

    /// What a caller waits for.
    fn awaited(&self, call: &Call) -> Awaited {
        let own = self.settings.client.as_ref();
        let steps = own.and_then(|own| own.steps.get(call.step..));
        Awaited {
            answer: steps.is_some_and(are_for_an_answer),
            goes_on: own.and_then(|own| on_timeout(own, call.step)).is_some(),
            longest: self.longest.get(call.step).copied().flatten(),
        }
    }

    /// What is ahead where no call can begin any more. Calls that wait for what is not to be expected do not
    /// keep the run: nothing would end them. Of a million calls each may have to be looked at, so that is
    /// done once a second.
    pub(super) fn look(&mut self, now: Time) -> Ahead {
        let begins = self.next_call.is_some() && !self.is_full();
        if self.settings.client.is_none() || begins || self.calls.len() == 0 {
            self.ahead = Ahead::Something;
        } else if now.since(self.looked) >= LOOK {
            let mut all = self.calls.under_way().map(|call| call.ahead(now, self.awaited(call)));
            // The first one for which something is to be done decides.
            let most = all.try_fold(Ahead::Nothing, |most, one| match one {
                Ahead::Something => Err(one),
                one => Ok(most.max(one)),
            });
            (self.ahead, self.looked) = (most.unwrap_or_else(|something| something), now);
        }
        self.ahead
    }

    /// No more calls. Those that are due and had no room ([`super::Settings::most_calls`]) are never begun:
    /// that is said, and their wait is lateness.
    pub(super) fn quit(&mut self, now: Time) {
        while let Some(first) = self.next_call.filter(|&at| at <= now && self.is_full()) {
            // There may be millions: those of one millisecond are taken together.
            let window = self.metrics.window();
            let alike = |at: Time| {
                tick(at) == tick(first) && window.contains(at) == window.contains(first) && at <= now
            };
            let (mut last, mut calls) = (first, 0);
            while let Some(next) = self.next_call.filter(|&at| alike(at)) {
                (last, calls) = (next, calls + 1);
                self.callers.take();
                self.schedule();
            }
            self.metrics.calls_left_out(now, (first, last), calls);
        }
        self.stopping = true;
        self.next_call = None;
    }

    /// A scenario wants the run to end. That of other workers ends when they are told
    /// ([`super::Progress::stop`]).
    pub(super) fn stop(&mut self, now: Time, stop: Stop) {
        self.stop = self.stop.max(Some(stop));
        self.quit(now);
    }

    /// The timer of a call is due.
    pub(super) fn due(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(call) = self.calls.at(slot) else { return };
        if call.resend.is_some_and(|resend| resend.at <= now) {
            return self.resend(now, slot, out);
        }
        match call.doing {
            // What follows was meant to be then; the wait since is lateness of ours.
            Doing::Pausing(until) if until <= now => {
                self.metrics.scheduled_send(now, until);
                self.pause_over(until, slot, out);
            }
            Doing::Lingering(until) | Doing::Leaving(until) if until <= now => {
                self.end(now, slot, CallEnd::Success)
            }
            Doing::Waiting if call.give_up.is_some_and(|at| at <= now) => self.gave_up(now, slot, out),
            _ => self.arm(slot),
        }
    }

    /// Arms the timer of a call for whatever comes first. One that is armed for somewhat too early is left as
    /// it is, and so is that of a call that has ended, whose place the next one takes: [`Engine::due`] looks
    /// again.
    #[inline]
    pub(super) fn arm(&mut self, slot: u32) {
        match self.calls.get(slot).and_then(Call::deadline) {
            Some(at) => self.wheel.arm_lazily(slot, at.as_micros()),
            // To wait for the other side may take long, and nobody is to be woken for nothing.
            None => self.wheel.cancel(slot),
        }
    }

    fn resend(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(call) = self.calls.at(slot) else { return };
        let Some(resend) = &mut call.resend else { return };
        if resend.left == 0 && matches!(call.doing, Doing::Lingering(_) | Doing::Leaving(_)) {
            call.resend = None;
            return self.arm(slot);
        }
        if resend.left == 0 {
            let to = self.settings.scenario(call.side).and_then(|s| on_timeout(s, resend.step));
            call.resend = None;
            if to.is_some() {
                call.give_up_asking(now);
            }
            return match to {
                Some(to) => self.go_to(now, slot, to, out),
                None => {
                    self.note_silence(now, slot);
                    let why = (Failure::Retransmissions, Failure::Retransmissions.text());
                    self.abort(now, slot, why, None, out);
                }
            };
        }
        let meant = resend.at;
        resend.left -= 1;
        resend.interval = (resend.interval * 2).min(resend.longest);
        resend.at = tick(now + Duration::from_micros(resend.interval));
        self.metrics.scheduled_send(now, meant);
        self.send_again(now, slot, out);
        self.arm(slot);
    }

    /// Sends the last message of a call again. That may be lost on purpose as the first was.
    pub(super) fn send_again(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(call) = self.calls.get(slot).filter(|call| !call.sent.is_empty()) else { return };
        let sender = call.sent_at.and_then(|at| self.settings.scenario(call.side)?.steps.get(at));
        let lost = match sender.map(|step| &step.op) {
            Some(Op::Send(send)) => self.is_lost(send.lost),
            // What is said at last is no step's to lose.
            _ => false,
        };
        let Some(call) = self.calls.at(slot) else { return };
        let sent = mem::take(&mut call.sent);
        let flow = call.flow;
        let name = ladder_name(slot, call);
        if !lost {
            out.send(flow, name + 1, &sent);
        }
        let local = self.settings.local(flow.listener);
        self.ladders.pass(name, now, Direction::Sent, (local, &flow.remote), &sent);
        self.note_repeated(now, slot, &sent);
        if let Some(call) = self.calls.at(slot) {
            call.sent = sent;
        }
    }

    /// A call has got its connection.
    pub(super) fn has_connection(&mut self, token: u64, conn: ConnId) {
        let Some(name) = token.checked_sub(1) else { return };
        let (slot, generation) = (name as u32, (name >> 32) as u32);
        if self.calls.find(slot, generation).is_none() {
            return self.closing.push(conn);
        }
        if let Some(call) = self.calls.at(slot) {
            let earlier = call.flow.conn.replace(conn).filter(|_| call.connected);
            if let Some(earlier) = earlier {
                self.connections.remove(&earlier);
                self.closing.push(earlier);
            }
            call.connected = true;
            self.connections.insert(conn, (slot, generation));
        }
    }

    /// The connection of a call is gone.
    pub(super) fn lost_connection(&mut self, now: Time, conn: ConnId) {
        let Some((slot, generation)) = self.connections.remove(&conn) else { return };
        if self.calls.find(slot, generation).is_none() {
            return;
        }
        let Some(call) = self.calls.at(slot) else { return };
        call.connected = false;
        if !matches!(call.doing, Doing::Lingering(_) | Doing::Leaving(_)) {
            self.note_silence(now, slot);
            self.fail(now, slot, Failure::Unreachable, "the other side closed the connection of the call");
        }
    }

    /// A message could not be sent.
    pub(super) fn unreachable(&mut self, now: Time, token: u64, _out: &mut Outbox) {
        let Some(name) = token.checked_sub(1) else { return };
        let (slot, generation) = (name as u32, (name >> 32) as u32);
        let Some(call) = self.calls.find(slot, generation) else { return };
        if !matches!(call.doing, Doing::Lingering(_) | Doing::Leaving(_)) {
            let to = call.flow;
            let why =
                format!("{}: {} over {}", Failure::Unreachable.text(), to.remote, to.transport.via_name());
            self.note_silence(now, slot);
            self.metrics.send_failed(now);
            self.fail(now, slot, Failure::Unreachable, &why);
        }
    }

    /// A step waited for a message that did not come.
    fn gave_up(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(call) = self.calls.at(slot) else { return };
        call.give_up = None;
        let to = self.settings.scenario(call.side).and_then(|s| on_timeout(s, call.step));
        if to.is_some() {
            call.give_up_asking(now);
        }
        match to {
            Some(to) => self.go_to(now, slot, to, out),
            None => {
                self.note_silence(now, slot);
                let why = (Failure::ReceiveTimeout, Failure::ReceiveTimeout.text());
                self.abort(now, slot, why, None, out);
            }
        }
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

/// Gives a call that begins here its Call-ID.
fn write_call_id(engine: &mut Engine, slot: u32) -> Result<(), &'static str> {
    let Engine { settings, locals, calls, desk, hasher, directory, .. } = engine;
    let Some(call) = calls.at(slot) else { return Ok(()) };
    let field = match &settings.call_ids {
        CallIds::Named(end) => {
            let host = locals.get(usize::from(call.flow.listener.0));
            let name = CallName { worker: settings.worker, slot, generation: call.generation };
            name.write(settings.run_id, &mut call.call_id);
            write_end(end, host.map_or(&b"localhost"[..], |(ip, _)| ip), &mut call.call_id);
            return Ok(());
        }
        CallIds::Field(field) => *field,
    };
    let line = call.lines.first().copied().unwrap_or(0);
    if !desk.injections.write(0, line, field, &mut call.call_id) || call.call_id.is_empty() {
        return Err("the line of the call has no Call-ID (-cid_field)");
    }
    call.hash = hasher.hash_one(call.call_id.as_slice());
    let (hash, call_id) = (call.hash, call.call_id.clone());
    let same = |other: u32| calls.get(other).is_some_and(|other| other.call_id == call_id);
    let twice = directory.find(Whose::Ours, hash, same).is_some();
    directory.insert(Whose::Ours, hash, slot);
    if twice { Err("another call under way has its Call-ID (-cid_field)") } else { Ok(()) }
}

/// What stands behind the name of a call in its Call-ID.
fn write_end(parts: &[Vec<u8>], host: &[u8], out: &mut Vec<u8>) {
    let Some((first, rest)) = parts.split_first() else {
        out.push(b'@');
        return out.extend_from_slice(host);
    };
    out.extend_from_slice(first);
    for part in rest {
        out.extend_from_slice(host);
        out.extend_from_slice(part);
    }
}

/// A number that names a call in the record of flows.
pub(super) fn ladder_name(slot: u32, call: &Call) -> u64 {
    u64::from(call.generation) << 32 | u64::from(slot)
}
