//! How calls begin and end.

use super::call::{Call, Doing};
use super::connections::named;
use super::directory::Whose;
use super::player::Player;
use super::run::on_timeout;
use super::sent::Again;
use super::waiting::{Awaited, Wait};
use super::{Moment, Origin};
use crate::metrics::{self, Began, CallEnd, Direction, Failure};
use crate::scenario::{Op, Side};
use sip_message::Message;
use std::mem;
use wire::{ConnId, Flow, Outbox, Time};

impl Player {
    /// Begins a call of a user, which was meant to begin at `intended`.
    pub(super) fn begin(&mut self, moment: Moment<'_>, intended: Time, user: u64, out: &mut Outbox) {
        let Moment { settings, now, .. } = moment;
        let addresses = &settings.addresses;
        let Some(slot) = self.calls.take() else { return self.recorder.metrics().call_shed(intended) };
        let turn = self.starts.begin();
        let nth = match addresses.origin {
            Origin::Turn | Origin::Connection | Origin::Field { .. } => turn,
            // No two calls under way have one slot.
            Origin::Call => slot as usize,
        };
        let began = Began { intended, sent: now };
        self.recorder.metrics().scheduled_start(now, intended);
        self.set_up(moment, slot, (Side::Client, addresses.flow(addresses.turn(nth))), began, user);
        let Some(call) = self.calls.at(slot) else { return };
        let listed = self.interpreter.listener(call, &addresses.origin);
        if let Some(listener) = listed {
            call.flow = addresses.flow(listener);
        }
        let called = self.name(moment, slot);
        self.recorder.metrics().call_begun(metrics::Side::Caller, began);
        if listed.is_none() && matches!(addresses.origin, Origin::Field { .. }) {
            let why = "the line of the call names no address of this machine";
            return self.fail(moment, slot, Failure::Data, why);
        }
        if let Err(why) = called {
            return self.fail(moment, slot, Failure::Data, why);
        }
        self.advance(moment, slot, out);
    }

    /// Gives a call that begins here its Call-ID.
    fn name(&mut self, moment: Moment<'_>, slot: u32) -> Result<(), &'static str> {
        let Some(call) = self.calls.at(slot) else { return Ok(()) };
        if !self.interpreter.write_call_id(moment.settings, slot, call) {
            return Err("the line of the call has no Call-ID (-cid_field)");
        }
        if !self.directory.is_listed() {
            return Ok(());
        }
        let call_id = call.identity.call_id.clone();
        let hash = self.directory.hash(&call_id);
        call.identity.hash = hash;
        let twice = self.directory.begun_here(&call_id, &self.calls).is_some();
        self.directory.insert(Whose::Ours, hash, slot);
        if twice { Err("another call under way has its Call-ID (-cid_field)") } else { Ok(()) }
    }

    /// A call that the other side begins; `ours` is the one here that it is the other end of, if it is.
    pub(super) fn answer(
        &mut self,
        moment: Moment<'_>,
        flow: Flow,
        request: &Message<'_>,
        ours: Option<u32>,
    ) -> Option<u32> {
        let settings = moment.settings;
        let room = self.directory.answering() < settings.most_callees;
        if settings.server.is_none() || !room || self.starts.has_answered_all(settings) {
            return None;
        }
        let slot = self.calls.take()?;
        self.starts.answer();
        let began = Began::at(moment.now);
        self.set_up(moment, slot, (Side::Server, flow), began, 0);
        let call_id = request.call_id();
        let caller = || self.directory.begun_here(self.directory.name_in(call_id), &self.calls);
        let caller = if self.directory.is_prefixed() { ours.or_else(caller) } else { ours };
        self.take_lines(slot, caller);
        if self.starts.has_answered_all(settings) {
            self.quit(moment);
        }
        let hash = self.directory.hash(call_id);
        if let Some(call) = self.calls.at(slot) {
            call.identity.hash = hash;
            call.identity.call_id.extend_from_slice(call_id);
            let name = (slot, (call.identity.name >> 32) as u32);
            if let Some(ours) = ours.and_then(|ours| self.calls.at(ours)) {
                ours.identity.other = Some(name);
            }
        }
        self.directory.insert(Whose::Theirs, hash, slot);
        self.recorder.metrics().call_begun(metrics::Side::Callee, began);
        Some(slot)
    }

    /// Sets a call up that was just taken.
    fn set_up(&mut self, moment: Moment<'_>, slot: u32, (side, flow): (Side, Flow), began: Began, user: u64) {
        let number = self.starts.number(moment.settings);
        let Some(scenario) = moment.scenario(side) else { return };
        let Some(call) = self.calls.at(slot) else { return };
        (call.identity.side, call.identity.number, call.identity.user) = (side, number, user);
        call.flow = flow;
        call.waiting.begin(began.sent);
        call.peer.begin(moment.settings.conduct.base_cseq.saturating_sub(1));
        call.sent.begin(scenario.transactions.len());
        call.data.begin(side, scenario, began.intended);
        call.seen.begin(side, began);
        if side == Side::Client {
            self.interpreter.choose_lines(call);
        }
    }

    /// The lines of a call that comes in: those of the call here that it is the other end of, otherwise the
    /// next ones of the callees.
    fn take_lines(&mut self, slot: u32, ours: Option<u32>) {
        let Some(call) = self.calls.at(slot) else { return };
        let mut lines = mem::take(&mut call.data.lines);
        match ours.and_then(|ours| self.calls.get(ours)) {
            Some(ours) => lines.clone_from(&ours.data.lines),
            None => self.interpreter.choose_callee_lines(&mut lines),
        }
        if let Some(call) = self.calls.at(slot) {
            call.data.lines = lines;
        }
    }

    /// A call is over.
    pub(super) fn end(&mut self, moment: Moment<'_>, slot: u32, end: CallEnd) {
        if self.calls.get(slot).is_some_and(|call| call.cursor.doing.is_over()) {
            self.calls.lingered();
        } else {
            self.ended(moment, slot, end);
        }
        self.release(slot);
    }

    /// A call counts as ended, and its user may begin the next. It may stay to answer retransmissions.
    pub(super) fn ended(&mut self, moment: Moment<'_>, slot: u32, end: CallEnd) {
        let Some(call) = self.calls.at(slot) else { return };
        let all = &mut self.recorder.statistics;
        call.seen.ended(moment.now, all);
        let side = call.identity.side;
        all.metrics.call_ended(moment.now, side.into(), call.seen.began(), end);
        if side == Side::Client {
            self.starts.over(moment, call.identity.user);
        }
    }

    /// Frees the slot of a call, and what leads to it.
    fn release(&mut self, slot: u32) {
        let Some(call) = self.calls.get(slot) else { return };
        if let Some(conn) = call.flow.conn.filter(|_| call.connected) {
            self.connections.release(conn);
        }
        self.directory.forget(slot, call);
        self.calls.give(slot);
    }

    /// A call failed: its flow is kept for people to see.
    pub(super) fn fail(&mut self, moment: Moment<'_>, slot: u32, failure: Failure, why: &str) {
        let Some(call) = self.calls.get(slot) else { return };
        self.recorder.failed(moment.now, call, call.sent.last(), why);
        self.end(moment, slot, CallEnd::Failed(failure));
    }

    /// What a call waited for will not come.
    pub(super) fn silent(&mut self, moment: Moment<'_>, slot: u32) {
        if let Some(call) = self.calls.at(slot) {
            call.seen.silent(moment.now, &mut self.recorder.statistics);
        }
    }

    /// The run is over. A caller who waits for what is not to be expected any more has failed; what pauses,
    /// waits for what may yet come or answers a call is left unfinished: it is counted as begun, and no more,
    /// but for callers whose wait leaves open what the server would have done
    /// ([`metrics::Metrics::call_open`]).
    pub(super) fn cut(&mut self, moment: Moment<'_>) {
        for slot in self.calls.slots() {
            let Some(call) = self.calls.get(slot) else { continue };
            if call.cursor.doing.is_over() {
                self.end(moment, slot, CallEnd::Success);
                continue;
            }
            match self.wait(moment, call) {
                Wait::Overdue => {
                    self.silent(moment, slot);
                    let why = "what it waited for had not come at the end of the run";
                    self.fail(moment, slot, Failure::ReceiveTimeout, why);
                    continue;
                }
                Wait::Open => {
                    let (side, began) = (call.identity.side, call.seen.began());
                    self.recorder.metrics().call_open(side.into(), began);
                }
                Wait::Young => {}
            }
            self.release(slot);
        }
    }

    /// How the wait of a call is to be taken at the end of the run.
    fn wait(&self, moment: Moment<'_>, call: &Call) -> Wait {
        if call.cursor.doing != Doing::Waiting {
            return Wait::Young;
        }
        let scenario = moment.scenario(call.identity.side);
        match call.identity.side {
            Side::Client => call.wait(moment.now, self.outlook.awaited(scenario, call)),
            // What a callee has asked itself, such as its BYE; who calls it has its own record of all else.
            Side::Server if call.seen.awaits().is_some() => {
                let goes_on = scenario.and_then(|own| on_timeout(own, call.cursor.step)).is_some();
                match call.wait(moment.now, Awaited { answer: true, goes_on, longest: None }) {
                    Wait::Open => Wait::Young,
                    wait => wait,
                }
            }
            Side::Server => Wait::Young,
        }
    }

    /// The timer of a call is due.
    pub(super) fn due(&mut self, moment: Moment<'_>, slot: u32, out: &mut Outbox) {
        let now = moment.now;
        let Some(call) = self.calls.at(slot) else { return };
        if let Some(again) = call.sent.again(now) {
            return self.resend(moment, slot, again, out);
        }
        match call.cursor.doing {
            // What follows was meant to be then; the wait since is lateness of ours.
            Doing::Pausing(until) if until <= now => {
                self.recorder.metrics().scheduled_send(now, until);
                self.pause_over(moment.meant_for(until), slot, out);
            }
            Doing::Lingering(until) | Doing::Leaving(until) if until <= now => {
                self.end(moment, slot, CallEnd::Success)
            }
            Doing::Waiting if call.waiting.gives_up_at().is_some_and(|at| at <= now) => {
                self.gave_up(moment, slot, out)
            }
            _ => self.calls.arm(slot),
        }
    }

    /// The time of the message sent last has come.
    fn resend(&mut self, moment: Moment<'_>, slot: u32, again: Again, out: &mut Outbox) {
        let Some(call) = self.calls.at(slot) else { return };
        match again {
            Again::Send(meant) => {
                self.recorder.metrics().scheduled_send(moment.now, meant);
                self.send_again(moment, slot, out);
                self.calls.arm(slot);
            }
            Again::Over(_) if call.cursor.doing.is_over() => self.calls.arm(slot),
            Again::Over(step) => {
                let scenario = moment.scenario(call.identity.side);
                let to = scenario.zip(step).and_then(|(own, step)| on_timeout(own, step));
                self.in_vain(moment, slot, to, Failure::Retransmissions, out);
            }
        }
    }

    /// A step waited for a message that did not come.
    fn gave_up(&mut self, moment: Moment<'_>, slot: u32, out: &mut Outbox) {
        let Some(call) = self.calls.at(slot) else { return };
        call.waiting.over();
        let to = moment.scenario(call.identity.side).and_then(|own| on_timeout(own, call.cursor.step));
        self.in_vain(moment, slot, to, Failure::ReceiveTimeout, out);
    }

    /// A call waited in vain. It goes on at another step, if there is one for that.
    fn in_vain(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        to: Option<usize>,
        failure: Failure,
        out: &mut Outbox,
    ) {
        let Some(to) = to else {
            self.silent(moment, slot);
            return self.abort(moment, slot, (failure, failure.text()), None, out);
        };
        if let Some(call) = self.calls.at(slot) {
            call.seen.give_up_asking(moment.now);
        }
        self.go_to(moment, slot, to, out);
    }

    /// Sends the last message of a call again. That may be lost on purpose as the first was.
    pub(super) fn send_again(&mut self, moment: Moment<'_>, slot: u32, out: &mut Outbox) {
        let Some(call) = self.calls.get(slot).filter(|call| !call.sent.last().is_empty()) else { return };
        let scenario = moment.scenario(call.identity.side);
        let sender = call.sent.step().and_then(|at| scenario?.steps.get(at));
        let lost = match sender.map(|step| &step.op) {
            Some(Op::Send(send)) => self.interpreter.loses(moment.settings, send.lost),
            // What is said at last is no step's to lose.
            _ => false,
        };
        let (name, sent) = (call.identity.name, call.sent.last());
        if !lost {
            out.send(call.flow, name + 1, sent);
        }
        self.recorder.pass((moment.settings, moment.now), Direction::Sent, name, call.flow, sent);
        self.recorder.repeated(moment.now, sent);
    }

    /// The connection of a call is gone.
    pub(super) fn lost_connection(&mut self, moment: Moment<'_>, conn: ConnId) {
        let Some((slot, generation)) = self.connections.closed(conn) else { return };
        let Some(call) = self.calls.find_mut(slot, generation) else { return };
        call.connected = false;
        if !call.cursor.doing.is_over() {
            self.silent(moment, slot);
            let why = "the other side closed the connection of the call";
            self.fail(moment, slot, Failure::Unreachable, why);
        }
    }

    /// A message could not be sent.
    pub(super) fn unreachable(&mut self, moment: Moment<'_>, token: u64) {
        let Some((slot, generation)) = named(token) else { return };
        let Some(call) = self.calls.find_mut(slot, generation) else { return };
        if !call.cursor.doing.is_over() {
            let (failure, to) = (Failure::Unreachable, call.flow);
            let why = format!("{}: {} over {}", failure.text(), to.remote, to.transport.via_name());
            self.silent(moment, slot);
            self.recorder.metrics().send_failed(moment.now);
            self.fail(moment, slot, failure, &why);
        }
    }
}
