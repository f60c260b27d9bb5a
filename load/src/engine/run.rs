//! How a call goes from step to step.

use super::begin::ladder_name;
use super::call::{Call, Doing, Resend};
use super::observe::Note;
use super::users::Callers;
use super::wheel::tick;
use super::{Engine, Origin, Settings, Stop};
use crate::metrics::{Began, CallEnd, Direction, Failure, Method};
use crate::scenario::{
    self, Branch, Brief, Desk, Facts, Op, Outcome, Outline, Outlines, Pause, Scenario, Send, Side, Step,
    Values, Vars,
};
use core::num::NonZeroU64;
use core::time::Duration;
use std::mem;
use std::sync::Arc;
use wire::{Outbox, Time, send_fresh};

/// Steps that a call may take without waiting for anything, so that a loop in a scenario does not stop
/// the worker. The call fails.
pub(super) const PATIENT_STEPS: usize = 10_000;

impl Settings {
    /// The scenario of one side.
    pub(super) fn scenario(&self, side: Side) -> Option<&Arc<Scenario>> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }
}

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

impl Engine {
    /// The scenario of one side, to be given back. Counting its users for each message would cost more than
    /// the rest of what is done to find it; only where it is at work already it is counted.
    pub(super) fn take_scenario(&mut self, side: Side) -> Option<Arc<Scenario>> {
        let kept = self.scenarios.get_mut(side as usize).and_then(Option::take);
        kept.or_else(|| self.settings.scenario(side).cloned())
    }

    /// Gives it back.
    pub(super) fn give_scenario(&mut self, side: Side, scenario: Arc<Scenario>) {
        if let Some(place) = self.scenarios.get_mut(side as usize) {
            *place = Some(scenario);
        }
    }

    /// Runs a call until it has to wait, or ends.
    pub(super) fn advance(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(side) = self.calls.get(slot).map(|call| call.side) else { return };
        let Some(scenario) = self.take_scenario(side) else { return };
        self.run_steps(now, slot, &scenario, out);
        self.give_scenario(side, scenario);
    }

    fn run_steps(&mut self, now: Time, slot: u32, scenario: &Scenario, out: &mut Outbox) {
        for _ in 0..PATIENT_STEPS {
            let Some(call) = self.calls.get(slot) else { return };
            let Some(step) = scenario.steps.get(call.step) else {
                return self.end(now, slot, CallEnd::Success);
            };
            if self.is_skipped(slot, step) {
                self.move_to(slot, |call| call.step + 1);
                continue;
            }
            match self.enter(now, slot, step, out) {
                Next::Ended => return,
                Next::Waits => return self.arm(slot),
                Next::Done => {}
            }
            if !self.finish(now, slot, scenario, out) {
                return;
            }
        }
        let why = "the scenario goes round without waiting for anything";
        self.abort(now, slot, (Failure::Test, why), None, out);
    }

    /// What the call was waiting for in its step has happened.
    pub(super) fn step_done(&mut self, now: Time, slot: u32, scenario: &Scenario, out: &mut Outbox) {
        if self.finish(now, slot, scenario, out) {
            self.run_steps(now, slot, scenario, out);
        }
    }

    /// The time that a call paused for is over.
    pub(super) fn pause_over(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(side) = self.calls.get(slot).map(|call| call.side) else { return };
        let Some(scenario) = self.take_scenario(side) else { return };
        self.step_done(now, slot, &scenario, out);
        self.give_scenario(side, scenario);
    }

    /// Goes on at another step.
    pub(super) fn go_to(&mut self, now: Time, slot: u32, to: usize, out: &mut Outbox) {
        self.move_to(slot, |_| to);
        self.advance(now, slot, out);
    }

    fn move_to(&mut self, slot: u32, to: impl FnOnce(&Call) -> usize) {
        let Some(call) = self.calls.at(slot) else { return };
        let to = to(call);
        call.round += u32::from(to <= call.step);
        call.step = to;
    }

    fn is_skipped(&mut self, slot: u32, step: &Step) -> bool {
        let Some(condition) = step.condition else { return false };
        self.is_set(slot, condition.test) == condition.inverse
    }

    fn is_set(&mut self, slot: u32, test: scenario::Slot) -> bool {
        let Some(call) = self.calls.at(slot) else { return false };
        let (user, global) =
            (self.callers.values(call.side, call.user), &mut self.global[call.side as usize]);
        let vars = Vars { call: &mut call.values, user, global };
        vars.is_set(test)
    }

    /// Begins a step.
    fn enter(&mut self, now: Time, slot: u32, step: &Step, out: &mut Outbox) -> Next {
        let micros = |ms: f64| Duration::from_micros((ms.max(0.0) * 1_000.0) as u64);
        let pause = match &step.op {
            Op::Send(send) => return self.send(now, slot, send, out),
            Op::Nop => return Next::Done,
            Op::Recv(recv) => {
                let limit = recv.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
                let limit = limit.or(self.settings.recv_timeout);
                let Some(call) = self.calls.at(slot) else { return Next::Ended };
                call.doing = Doing::Waiting;
                // From when what is to be answered did leave.
                call.since = now.max(self.woken);
                call.quiet = call.since;
                call.give_up = limit.map(|limit| call.since + limit);
                return Next::Waits;
            }
            Op::Pause(Pause::Default) => &self.settings.pause,
            Op::Pause(pause) => pause,
        };
        let Some(call) = self.calls.at(slot) else { return Next::Ended };
        let length = match pause {
            Pause::Default => Duration::ZERO,
            Pause::Fixed(ms) => Duration::from_millis((*ms).into()),
            Pause::Random(distribution) => micros(distribution.sample(&mut self.rng)),
            Pause::Variable(variable) => {
                let user = self.callers.values(call.side, call.user);
                let global = &mut self.global[call.side as usize];
                let vars = Vars { call: &mut call.values, user, global };
                micros(vars.get(*variable).and_then(scenario::Value::number).unwrap_or(0.0))
            }
            Pause::TimeWait(ms) => {
                let until = now + Duration::from_millis((*ms).into());
                self.linger(now, slot, until);
                return Next::Waits;
            }
        };
        if length.is_zero() {
            return Next::Done;
        }
        call.doing = Doing::Pausing(tick(now + length));
        Next::Waits
    }

    /// Ends the step that a call is at, and goes where it leads. False if the call has ended.
    #[inline]
    fn finish(&mut self, now: Time, slot: u32, scenario: &Scenario, out: &mut Outbox) -> bool {
        let Some(call) = self.calls.at(slot) else { return false };
        call.doing = Doing::Waiting;
        call.give_up = None;
        let at = call.step;
        let Some(step) = scenario.steps.get(at) else { return true };
        if step.leads_on() {
            call.step = at + 1;
            return true;
        }
        self.finish_special(now, slot, scenario, (step, at), out)
    }

    /// Same, where there is more to do.
    #[inline(never)]
    fn finish_special(
        &mut self,
        now: Time,
        slot: u32,
        scenario: &Scenario,
        (step, at): (&Step, usize),
        out: &mut Outbox,
    ) -> bool {
        let outcome = self.conclude(now, slot, scenario, at);
        if outcome != Outcome::GoOn || step.next.is_some() {
            return self.follow(now, slot, scenario, outcome, out);
        }
        if let Some(call) = self.calls.at(slot) {
            call.step = at + 1;
        }
        true
    }

    /// What is done when a step is over: its timers, its counters, its actions.
    pub(super) fn conclude(&mut self, now: Time, slot: u32, scenario: &Scenario, at: usize) -> Outcome {
        let Some(call) = self.calls.at(slot) else { return Outcome::GoOn };
        let Some(step) = scenario.steps.get(at) else { return Outcome::GoOn };
        // What a call does in the moment in which it begins was meant for when it was meant to begin.
        let begins = call.side == Side::Client && now == call.began.sent;
        if let Some(started) = step.start_timer.and_then(|n| call.timers.get_mut(usize::from(n))) {
            *started = Some(if begins { call.began.intended } else { now });
        }
        let running = step.stop_timer.and_then(|n| Some((n, call.timers.get_mut(usize::from(n))?)));
        if let Some((number, timer)) = running
            && let Some(since) = *timer
        {
            *timer = step.repeat_timer.then_some(now);
            let began = Began { intended: since, sent: since.max(call.began.sent) };
            let first = self.firsts[call.side as usize].0;
            self.metrics.stopwatch(first + usize::from(number), now, began);
        }
        let side = call.side;
        self.count(side, step.counter);
        if step.actions.is_empty() { Outcome::GoOn } else { self.run_actions(now, slot, step) }
    }

    /// A counter of a scenario goes up, if a step has one.
    #[inline]
    pub(super) fn count(&mut self, side: Side, counter: Option<u16>) {
        if let Some(number) = counter {
            self.metrics.tally(self.firsts[side as usize].1 + usize::from(number));
        }
    }

    /// Whether the `next` of a step is to be followed, and where to.
    pub(super) fn branch(&mut self, slot: u32, step: &Step) -> Option<usize> {
        let branch = step.next?;
        let goes = branch.test.is_none_or(|test| self.is_set(slot, test)) && self.draws(branch);
        goes.then_some(branch.to)
    }

    /// Whether the `chance` of a `next` lets it be followed.
    fn draws(&mut self, branch: Branch) -> bool {
        branch.chance >= 1.0 || self.rng.chance(branch.chance)
    }

    /// Where an optional message leads its call, once its actions are done; without a `next`, or where its
    /// `test` does not hold, nowhere. As in SIPp, a `chance` that is not drawn leads to the step behind.
    fn led(&mut self, slot: u32, (step, at): (&Step, usize)) -> Option<usize> {
        let branch = step.next?;
        let holds = branch.test.is_none_or(|test| self.is_set(slot, test));
        holds.then(|| if self.draws(branch) { branch.to } else { at + 1 })
    }

    /// Goes where a step leads. False if the call has ended.
    fn follow(
        &mut self,
        now: Time,
        slot: u32,
        scenario: &Scenario,
        outcome: Outcome,
        out: &mut Outbox,
    ) -> bool {
        match outcome {
            Outcome::GoOn | Outcome::StopGracefully => {
                let step = self.calls.get(slot).and_then(|call| scenario.steps.get(call.step));
                let to = step.and_then(|step| self.branch(slot, step));
                self.move_to(slot, |call| to.unwrap_or(call.step + 1));
                if outcome == Outcome::StopGracefully {
                    self.stop(now, Stop::Gracefully);
                }
                true
            }
            Outcome::Jump(to) => {
                self.move_to(slot, |_| to);
                true
            }
            Outcome::Fail(line) => {
                let why = format!("the action in line {line} did not hold");
                self.abort(now, slot, (Failure::Check, &why), None, out);
                false
            }
            Outcome::StopCall => {
                self.end(now, slot, CallEnd::Success);
                false
            }
            Outcome::StopNow => {
                self.stop(now, Stop::Now);
                // It waits for nothing: what it was to do is done.
                self.end(now, slot, CallEnd::Success);
                self.cut(now);
                false
            }
        }
    }

    /// An optional message was taken at a step. Its actions come before its `test`, as in SIPp; without a
    /// `next` to follow, or where it does not `advance`, the call stays where it is.
    pub(super) fn aside(
        &mut self,
        now: Time,
        slot: u32,
        scenario: &Scenario,
        (step, at): (&Step, usize),
        advance: bool,
        out: &mut Outbox,
    ) {
        let outcome = self.conclude(now, slot, scenario, at);
        if !matches!(outcome, Outcome::GoOn | Outcome::StopGracefully) {
            if self.follow(now, slot, scenario, outcome, out) {
                self.run_steps(now, slot, scenario, out);
            }
            return;
        }
        if outcome == Outcome::StopGracefully {
            self.stop(now, Stop::Gracefully);
        }
        let led = if advance { self.led(slot, (step, at)) } else { None };
        let Some(call) = self.calls.at(slot) else { return };
        let Some(to) = led else { return self.arm(slot) };
        call.doing = Doing::Waiting;
        call.give_up = None;
        self.move_to(slot, |_| to);
        self.run_steps(now, slot, scenario, out);
    }

    fn run_actions(&mut self, now: Time, slot: u32, step: &Step) -> Outcome {
        let Engine { calls, settings, locals, desk, callers, global, outlines, rng, effects, .. } = self;
        let Some(call) = calls.at(slot) else { return Outcome::GoOn };
        let lender = Lender { settings, locals, desk, callers, global, outlines };
        let Some((mut facts, mut vars)) = lender.lend(now, call) else { return Outcome::GoOn };
        let outcome = scenario::run(&step.actions, &mut vars, &mut facts, rng, effects);
        let room = LINES.saturating_sub(self.lines.len());
        self.lines.extend(self.effects.lines.drain(..).take(room));
        self.effects.clear();
        outcome
    }

    /// The call counts as ended well, and answers retransmissions for a while.
    fn linger(&mut self, now: Time, slot: u32, until: Time) {
        let Some(call) = self.calls.at(slot) else { return };
        call.doing = Doing::Lingering(until);
        self.lingering += 1;
        let (side, user, began) = (call.side, call.user, call.began);
        self.note_end(now, slot);
        self.metrics.call_ended(now, side.into(), began, CallEnd::Success);
        if side == Side::Client {
            self.over(now, user);
        }
    }

    /// Sends the message of a step.
    #[inline]
    fn send(&mut self, now: Time, slot: u32, send: &Send, out: &mut Outbox) -> Next {
        let Some(call) = self.calls.at(slot) else { return Next::Ended };
        if send.method.is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel)) {
            // 2**31 is no number of a CSeq (RFC 3261 section 8.1.1.5), and a peer may have used the last one.
            call.cseq = call.cseq.saturating_add(1).min(LAST_CSEQ);
        }
        if send.method == Some(Method::Invite) {
            call.tried = false;
            call.acks.invite();
        }
        call.answered = true;
        call.resend = None;
        // Users who wait for the end of one call before the next would only be refused again, and at once.
        let open = !self.callers.are_there();
        let begins = call.sent_at.replace(call.step).is_none() && send.method.is_some() && open;
        let rendered = if self.render_again(slot) { Ok(true) } else { self.render(now, slot, send) };
        if rendered == Ok(false) {
            return Next::Ended;
        }
        if let Err(fault) = rendered {
            let failure = match fault {
                scenario::Fault::NoField => Failure::Data,
                _ => Failure::Authentication,
            };
            // What was begun is no message to take leave with.
            if let Some(call) = self.calls.at(slot) {
                call.sent.clear();
            }
            self.fail(now, slot, failure, fault.reason());
            return Next::Ended;
        }
        self.send_rendered(now, slot, send, begins, out)
    }

    /// Makes the message of a step as the last one of that step was made. False if it is to be made anew.
    #[inline(always)]
    fn render_again(&mut self, slot: u32) -> bool {
        let Engine { calls, locals, desk, outlines, models, .. } = self;
        let Some(call) = calls.at(slot) else { return false };
        let Some(local) = locals.get(usize::from(call.flow.listener.0)) else { return false };
        let Some(model) = models.get_mut(call.side as usize).and_then(|own| own.get_mut(call.step)) else {
            return false;
        };
        let outline = outline_of(&call.outline, (call.side, call.likeness, &call.last), outlines);
        let brief = Brief {
            desk,
            call_number: call.number,
            call_id: &call.call_id,
            local_ip: &local.0,
            next_url: &call.next_url,
            peer_tag: &call.peer_tag,
            routes: &call.routes,
            step: call.step,
            round: call.round,
            last: &call.last,
            outline,
        };
        call.sent.clear();
        model.again(brief, &mut call.sent)
    }

    /// Makes the message of a step. False if there is no call, or no address for it.
    #[inline(never)]
    fn render(&mut self, now: Time, slot: u32, send: &Send) -> Result<bool, scenario::Fault> {
        let Engine { calls, settings, locals, desk, callers, global, outlines, models, .. } = self;
        let Some(call) = calls.at(slot) else { return Ok(false) };
        let model = models.get_mut(call.side as usize).and_then(|own| own.get_mut(call.step));
        let mut bytes = mem::take(&mut call.sent);
        bytes.clear();
        let lender = Lender { settings, locals, desk, callers, global, outlines };
        let Some((mut facts, vars)) = lender.lend(now, call) else { return Ok(false) };
        let rendered = match model {
            Some(model) => send.template.render_unlike(model, &mut facts, &vars, &mut bytes),
            None => send.template.render(&mut facts, &vars, &mut bytes),
        };
        call.sent = bytes;
        rendered.map(|()| true)
    }

    /// Sends the message that was made.
    #[inline(always)]
    fn send_rendered(&mut self, now: Time, slot: u32, send: &Send, begins: bool, out: &mut Outbox) -> Next {
        let lost = self.is_lost(send.lost);
        let Engine { calls, settings, ladders, metrics, registered, woken, .. } = self;
        let Some(call) = calls.at(slot) else { return Next::Ended };
        let own = matches!(settings.origin, Origin::Connection) && call.side == Side::Client;
        let name = ladder_name(slot, call);
        match own && call.flow.conn.is_none() {
            _ if lost => {}
            true => send_fresh(out, call.flow, name + 1, &call.sent),
            false => drop(out.send(call.flow, name + 1, &call.sent)),
        }
        if begins && !lost {
            out.yields();
        }
        // When it did leave.
        let left = now.max(*woken);
        let pair = (settings.local(call.flow.listener), &call.flow.remote);
        ladders.pass(name, left, Direction::Sent, pair, &call.sent);
        if let Some(branch) = send.start_txn.and_then(|n| call.branches.get_mut(usize::from(n))) {
            branch.clear();
            branch.extend_from_slice(scenario::top_branch(&call.sent));
        }
        if send.method == Some(Method::Ack) {
            call.acks.keep(send.ack_txn, &call.sent);
        }
        let rules = settings.retransmission;
        if let Some(t1) = send.retrans_ms.filter(|_| rules.on && !call.flow.transport.is_reliable()) {
            let (interval, invite) = (u64::from(t1) * 1_000, send.method == Some(Method::Invite));
            call.resend = Some(Resend {
                at: tick(left + Duration::from_micros(interval)),
                interval,
                left: if invite { rules.invite } else { rules.other },
                longest: if invite { u64::MAX } else { rules.t2.as_micros() as u64 },
                step: call.step,
            });
        }
        Note { metrics, registered, call }.sent(now, *woken, send.method);
        Next::Done
    }
}

/// Where things stand in the message that a call received last, if that is known.
#[inline]
fn outline_of<'o>(
    own: &'o Option<Box<Outline>>,
    (side, likeness, last): (Side, Option<NonZeroU64>, &[u8]),
    known: &'o [Outlines; 2],
) -> Option<&'o Outline> {
    match likeness {
        Some(likeness) => known.get(side as usize).and_then(|known| known.get(likeness)),
        None => own.as_deref().filter(|_| !last.is_empty()),
    }
}

/// What of an engine rendering and actions may see.
struct Lender<'e> {
    settings: &'e Settings,
    locals: &'e [(Vec<u8>, u16)],
    desk: &'e mut Desk,
    callers: &'e mut Callers,
    global: &'e mut [Values; 2],
    outlines: &'e [Outlines; 2],
}

impl<'e> Lender<'e> {
    /// With what they may see of a call. Inlined, for it is large.
    #[inline(always)]
    fn lend(self, now: Time, call: &'e mut Call) -> Option<(Facts<'e>, Vars<'e>)> {
        let Lender { settings, locals, desk, callers, global, outlines } = self;
        let local = locals.get(usize::from(call.flow.listener.0))?;
        let outline = outline_of(&call.outline, (call.side, call.likeness, &call.last), outlines);
        let facts = Facts {
            run: &settings.run,
            desk,
            call_number: call.number,
            call_id: &call.call_id,
            local_ip: &local.0,
            local_port: local.1,
            step: call.step,
            round: call.round,
            cseq: call.cseq,
            last: &call.last,
            outline,
            peer_tag: &call.peer_tag,
            routes: &call.routes,
            next_url: &call.next_url,
            challenge: call.challenge.as_deref_mut().filter(|_| call.challenged),
            lines: &call.lines,
            user: if callers.are_there() { call.user + 1 } else { 0 },
            wall_micros: settings.wall_origin + now.as_micros(),
            tick_ms: now.as_micros().saturating_sub(settings.start.as_micros()) / 1_000,
        };
        let (user, global) = (callers.values(call.side, call.user), &mut global[call.side as usize]);
        Some((facts, Vars { call: &mut call.values, user, global }))
    }
}

/// The largest number of a CSeq.
pub(super) const LAST_CSEQ: u32 = (1 << 31) - 1;

/// Lines of scenarios' logs kept until they are asked for.
const LINES: usize = 10_000;
