//! How a call goes from step to step.

use super::call::Doing;
use super::player::Player;
use super::waiting::Waiting;
use super::wheel::tick;
use super::{Moment, Origin, Stop};
use crate::metrics::{Began, CallEnd, Direction, Failure, Method};
use crate::scenario::{Fault, Op, Outcome, Pause, Recv, Scenario, Send, Side, Step};
use core::time::Duration;
use wire::{Delivery, Outbox, Time};

/// Steps that a call may take without waiting for anything, so that a loop in a scenario does not stop
/// the worker. The call fails.
pub(super) const PATIENT_STEPS: usize = 10_000;

/// Where a step goes on when it has waited in vain. A call that would come to the end of its scenario so has
/// failed, as with SIPp: it leads nowhere.
pub(super) fn on_timeout(scenario: &Scenario, step: usize) -> Option<usize> {
    let to = match &scenario.steps.get(step)?.op {
        Op::Send(send) => send.on_timeout,
        Op::Recv(recv) => recv.on_timeout,
        Op::Pause(_) | Op::Nop => None,
    };
    to.filter(|&to| to < scenario.steps.len())
}

/// What a step leaves its call in.
enum Next {
    /// The step is done.
    Done,
    /// The call waits.
    Waits,
    /// The call has ended.
    Ended,
}

impl Player {
    /// Runs a call until it has to wait, or ends.
    pub(super) fn advance(&mut self, moment: Moment<'_>, slot: u32, out: &mut Outbox) {
        let side = self.calls.get(slot).map(|call| call.identity.side);
        if let Some(scenario) = side.and_then(|side| moment.scenario(side)) {
            self.run_steps(moment, slot, scenario, out);
        }
    }

    fn run_steps(&mut self, moment: Moment<'_>, slot: u32, scenario: &Scenario, out: &mut Outbox) {
        for _ in 0..PATIENT_STEPS {
            let Some(call) = self.calls.at(slot) else { return };
            let Some(step) = scenario.steps.get(call.cursor.step) else {
                return self.end(moment, slot, CallEnd::Success);
            };
            if self.interpreter.skips(call, step) {
                call.cursor.move_to(call.cursor.step + 1);
                continue;
            }
            match self.enter(moment, slot, step, out) {
                Next::Ended => return,
                Next::Waits => return self.calls.arm(slot),
                Next::Done => {}
            }
            if !self.finish(moment, slot, scenario, out) {
                return;
            }
        }
        let why = "the scenario goes round without waiting for anything";
        self.abort(moment, slot, (Failure::Test, why), None, out);
    }

    /// What the call was waiting for in its step has happened.
    pub(super) fn step_done(&mut self, moment: Moment<'_>, slot: u32, scenario: &Scenario, out: &mut Outbox) {
        if self.finish(moment, slot, scenario, out) {
            self.run_steps(moment, slot, scenario, out);
        }
    }

    /// The time that a call paused for is over.
    pub(super) fn pause_over(&mut self, moment: Moment<'_>, slot: u32, out: &mut Outbox) {
        let side = self.calls.get(slot).map(|call| call.identity.side);
        if let Some(scenario) = side.and_then(|side| moment.scenario(side)) {
            self.step_done(moment, slot, scenario, out);
        }
    }

    /// Goes on at another step.
    pub(super) fn go_to(&mut self, moment: Moment<'_>, slot: u32, to: usize, out: &mut Outbox) {
        if let Some(call) = self.calls.at(slot) {
            call.cursor.move_to(to);
        }
        self.advance(moment, slot, out);
    }

    /// Begins a step.
    fn enter(&mut self, moment: Moment<'_>, slot: u32, step: &Step, out: &mut Outbox) -> Next {
        match &step.op {
            Op::Send(send) => self.send(moment, slot, send, out),
            Op::Nop => Next::Done,
            Op::Recv(recv) => self.await_message(moment, slot, recv),
            Op::Pause(Pause::Default) => self.pause(moment, slot, &moment.settings.conduct.pause),
            Op::Pause(pause) => self.pause(moment, slot, pause),
        }
    }

    fn await_message(&mut self, moment: Moment<'_>, slot: u32, recv: &Recv) -> Next {
        let limit = recv.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
        let limit = limit.or(moment.settings.conduct.recv_timeout);
        let Some(call) = self.calls.at(slot) else { return Next::Ended };
        call.cursor.doing = Doing::Waiting;
        // From when what is to be answered did leave.
        call.waiting = Waiting::from(moment.left(), limit);
        Next::Waits
    }

    fn pause(&mut self, moment: Moment<'_>, slot: u32, pause: &Pause) -> Next {
        if let Pause::TimeWait(ms) = pause {
            self.linger(moment, slot, moment.now + Duration::from_millis((*ms).into()));
            return Next::Waits;
        }
        let Some(call) = self.calls.at(slot) else { return Next::Ended };
        let length = self.interpreter.pause(call, pause);
        if length.is_zero() {
            return Next::Done;
        }
        call.cursor.doing = Doing::Pausing(tick(moment.now + length));
        Next::Waits
    }

    /// Ends the step that a call is at, and goes where it leads. False if the call has ended.
    #[inline]
    fn finish(&mut self, moment: Moment<'_>, slot: u32, scenario: &Scenario, out: &mut Outbox) -> bool {
        let Some(call) = self.calls.at(slot) else { return false };
        call.cursor.doing = Doing::Waiting;
        call.waiting.over();
        let at = call.cursor.step;
        let Some(step) = scenario.steps.get(at) else { return true };
        if step.leads_on() {
            call.cursor.step = at + 1;
            return true;
        }
        self.finish_special(moment, slot, scenario, (step, at), out)
    }

    /// Same, where there is more to do.
    #[inline(never)]
    fn finish_special(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        scenario: &Scenario,
        (step, at): (&Step, usize),
        out: &mut Outbox,
    ) -> bool {
        let outcome = self.conclude(moment, slot, step);
        if outcome != Outcome::GoOn || step.next.is_some() {
            return self.follow(moment, slot, scenario, outcome, out);
        }
        if let Some(call) = self.calls.at(slot) {
            call.cursor.step = at + 1;
        }
        true
    }

    /// What is done when a step is over: its timers, its counters, its actions.
    fn conclude(&mut self, moment: Moment<'_>, slot: u32, step: &Step) -> Outcome {
        let Some(call) = self.calls.at(slot) else { return Outcome::GoOn };
        let (now, side, began) = (moment.now, call.identity.side, call.seen.began());
        let timers = &mut call.data.timers;
        // What a call does in the moment in which it begins was meant for when it was meant to begin.
        let begins = side == Side::Client && now == began.sent;
        if let Some(started) = step.start_timer.and_then(|n| timers.get_mut(usize::from(n))) {
            *started = Some(if begins { began.intended } else { now });
        }
        let running = step.stop_timer.and_then(|n| Some((n, timers.get_mut(usize::from(n))?)));
        if let Some((number, timer)) = running
            && let Some(since) = *timer
        {
            *timer = step.repeat_timer.then_some(now);
            let began = Began { intended: since, sent: since.max(began.sent) };
            self.recorder.stopped(side, number, now, began);
        }
        self.recorder.count(side, step.counter);
        if step.actions.is_empty() { Outcome::GoOn } else { self.interpreter.act(moment, call, step) }
    }

    /// Goes where a step leads. False if the call has ended.
    fn follow(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        scenario: &Scenario,
        outcome: Outcome,
        out: &mut Outbox,
    ) -> bool {
        match outcome {
            Outcome::GoOn | Outcome::StopGracefully => {
                if let Some(call) = self.calls.at(slot) {
                    let step = scenario.steps.get(call.cursor.step);
                    let to = step.and_then(|step| self.interpreter.branch(call, step));
                    call.cursor.move_to(to.unwrap_or(call.cursor.step + 1));
                }
                if outcome == Outcome::StopGracefully {
                    self.stop(moment, Stop::Gracefully);
                }
                true
            }
            Outcome::Jump(to) => {
                if let Some(call) = self.calls.at(slot) {
                    call.cursor.move_to(to);
                }
                true
            }
            Outcome::Fail(line) => {
                let why = format!("the action in line {line} did not hold");
                self.abort(moment, slot, (Failure::Check, &why), None, out);
                false
            }
            Outcome::StopCall => {
                self.end(moment, slot, CallEnd::Success);
                false
            }
            Outcome::StopNow => {
                self.stop(moment, Stop::Now);
                // It waits for nothing: what it was to do is done.
                self.end(moment, slot, CallEnd::Success);
                self.cut(moment);
                false
            }
        }
    }

    /// An optional message was taken at a step. Its actions come before its `test`, as in SIPp; without a
    /// `next` to follow, or where it does not `advance`, the call stays where it is.
    pub(super) fn aside(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        scenario: &Scenario,
        (step, at): (&Step, usize),
        advance: bool,
        out: &mut Outbox,
    ) {
        let outcome = self.conclude(moment, slot, step);
        if !matches!(outcome, Outcome::GoOn | Outcome::StopGracefully) {
            if self.follow(moment, slot, scenario, outcome, out) {
                self.run_steps(moment, slot, scenario, out);
            }
            return;
        }
        if outcome == Outcome::StopGracefully {
            self.stop(moment, Stop::Gracefully);
        }
        let Some(call) = self.calls.at(slot) else { return };
        let led = if advance { self.interpreter.led(call, (step, at)) } else { None };
        let Some(to) = led else { return self.calls.arm(slot) };
        call.cursor.doing = Doing::Waiting;
        call.waiting.over();
        call.cursor.move_to(to);
        self.run_steps(moment, slot, scenario, out);
    }

    /// The call counts as ended well, and answers retransmissions for a while.
    fn linger(&mut self, moment: Moment<'_>, slot: u32, until: Time) {
        let Some(call) = self.calls.at(slot) else { return };
        call.cursor.doing = Doing::Lingering(until);
        self.calls.lingers();
        self.ended(moment, slot, CallEnd::Success);
    }

    /// Sends the message of a step.
    #[inline]
    fn send(&mut self, moment: Moment<'_>, slot: u32, send: &Send, out: &mut Outbox) -> Next {
        let Some(call) = self.calls.at(slot) else { return Next::Ended };
        if send.method.is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel)) {
            call.peer.next_cseq();
        }
        let invite = send.method == Some(Method::Invite);
        call.received.answer(invite);
        let first = call.sent.prepare(call.cursor.step, invite);
        // Users who wait for the end of one call before the next would only be refused again, and at once.
        let begins = first && send.method.is_some() && !self.starts.by_users();
        let rendered = match self.interpreter.render_again(call) {
            true => Ok(true),
            false => self.interpreter.render(moment, call, send),
        };
        match rendered {
            Ok(true) => self.send_rendered(moment, slot, send, begins, out),
            Ok(false) => Next::Ended,
            Err(fault) => {
                // What was begun is no message to take leave with.
                call.sent.last_mut().clear();
                let failure = match fault {
                    Fault::NoField => Failure::Data,
                    Fault::NoChallenge | Fault::UnknownChallenge => Failure::Authentication,
                };
                self.fail(moment, slot, failure, fault.reason());
                Next::Ended
            }
        }
    }

    /// Sends the message that was made.
    #[inline(always)]
    fn send_rendered(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        send: &Send,
        begins: bool,
        out: &mut Outbox,
    ) -> Next {
        let settings = moment.settings;
        let lost = self.interpreter.loses(settings, send.lost);
        let Some(call) = self.calls.at(slot) else { return Next::Ended };
        let own =
            matches!(settings.addresses.origin, Origin::Connection) && call.identity.side == Side::Client;
        let (name, flow, bytes) = (call.identity.name, call.flow, call.sent.last());
        if !lost {
            let fresh = own && flow.conn.is_none();
            let delivery = Delivery { fresh, yields: begins, ..Delivery::default() };
            out.deliver(flow, name + 1, delivery, |buf| buf.extend_from_slice(bytes));
        }
        let left = moment.left();
        self.recorder.pass((settings, left), Direction::Sent, name, flow, bytes);
        call.seen.sent(moment, (send.method, bytes), &mut self.recorder.statistics);
        call.sent.left(left, send, settings.conduct.retransmission, flow.transport.is_reliable());
        Next::Done
    }
}
