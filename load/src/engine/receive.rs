//! What comes in: whose it is, which step it belongs to, and what is done if to none.

use super::Moment;
use super::call::{Call, Doing};
use super::ids::CallName;
use super::player::Player;
use super::unwanted;
use crate::metrics::{Direction, Failure, Method as Counted, Unexpected};
use crate::scenario::{Expect, Op, Optional, Recv, Scenario, Side};
use sip_message::{Message, Method, Response};
use wire::{Flow, Outbox};

/// Where in a scenario a message belongs.
enum Place {
    /// To this step.
    Step(usize),
    /// It is one of a transaction that is over: nothing more is to be done.
    Stale,
    /// Nowhere.
    None,
}

/// What a received message is.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    pub request: bool,
    /// 0 of a request.
    pub status: u16,
    /// Of a response, that of its request.
    pub method: Counted,
}

impl Heard {
    fn of(message: &Message<'_>) -> Heard {
        let (request, status) = (message.is_request(), message.status());
        Heard { request, status, method: message.method().into() }
    }

    /// Whether it is a final response to an INVITE, which comes until it is acknowledged.
    fn is_final_to_invite(self) -> bool {
        self.status >= 200 && self.method == Counted::Invite
    }

    /// Whether its method is one of those that a step waits for.
    fn is_one_of<'n>(
        self,
        methods: u16,
        message: &Message<'_>,
        mut names: impl Iterator<Item = &'n str>,
    ) -> bool {
        methods >> self.method as u16 & 1 != 0
            && (self.method != Counted::Other
                || names.any(|name| message.method().as_bytes() == name.as_bytes()))
    }
}

impl Player {
    /// A message without a flaw.
    pub(super) fn receive_message(
        &mut self,
        moment: Moment<'_>,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let (settings, now) = (moment.settings, moment.now);
        let heard = Heard::of(message);
        if heard.request {
            self.recorder.metrics().request_received(now, heard.method);
        } else {
            self.recorder.metrics().response_received(now, heard.status);
        }
        let Some(slot) = self.call_of(moment, flow, message) else {
            return self.stray(moment, flow, message, out);
        };
        let Some(call) = self.calls.at(slot) else { return };
        let name = call.identity.name;
        self.recorder.pass((settings, now), Direction::Received, name, flow, message.bytes());
        if let Doing::Leaving(_) = call.cursor.doing {
            return self.leaving(moment, slot, flow, message, out);
        }
        if !heard.request && heard.status < 200 && heard.method == Counted::Invite {
            call.received.provisional();
        }
        if message.bytes() == call.received.last() {
            // A retransmission: what was sent upon the first is sent again, if anything was.
            return match heard.is_final_to_invite() {
                true => self.acknowledge_again(moment, slot, message, out),
                false if call.received.is_answered() => self.send_again(moment, slot, out),
                false => {}
            };
        }
        if let Doing::Lingering(_) = call.cursor.doing {
            // It has ended, and no step waits. What answers it needs to be sent no more.
            if !heard.request || heard.method == Counted::Ack {
                call.sent.stop();
            }
            self.recorder.ladders.set_latest(name, message.bytes());
            return self.stale(moment, slot, (message, heard), out);
        }
        let side = call.identity.side;
        if side == Side::Server || heard.request {
            // Streams come and go, and a phone may move; a connection of the call's own stays.
            call.flow = Flow { conn: if call.connected { call.flow.conn } else { flow.conn }, ..flow };
        }
        let Some(scenario) = moment.scenario(side) else { return };
        match place(call, scenario, message, heard) {
            // A step may have a chance of its own.
            Place::Stale | Place::None if self.interpreter.loses(settings, None) => {
                self.recorder.ladders.set_latest(name, message.bytes())
            }
            Place::Step(step) => self.accept(moment, slot, (scenario, step), (message, heard), out),
            Place::Stale => {
                self.recorder.ladders.set_latest(name, message.bytes());
                self.stale(moment, slot, (message, heard), out);
            }
            Place::None => {
                self.recorder.ladders.set_latest(name, message.bytes());
                self.unexpected(moment, slot, (flow, scenario), (message, heard), out);
            }
        }
    }

    /// The call that a message belongs to; one is begun for a request that begins one.
    fn call_of(&mut self, moment: Moment<'_>, flow: Flow, message: &Message<'_>) -> Option<u32> {
        let (call_id, calls, directory) = (message.call_id(), &self.calls, &self.directory);
        // A call that began here has the Call-ID that names its slot.
        let ours = directory.begun_here(call_id, calls);
        if !message.is_request() {
            // Both ends of a call may be here, and it is the caller who asks.
            let other =
                || directory.prefixed(call_id, calls).or_else(|| directory.answered_here(call_id, calls));
            return ours.or_else(other);
        }
        // Both ends of a call may be here. A request that a caller here receives answers to its own tag.
        // One that answers a call of ours does so since that one began.
        let answering = match ours.and_then(|slot| calls.get(slot)) {
            Some(call) => call
                .identity
                .other
                .filter(|other| calls.find(other.0, other.1).is_some())
                .map(|other| other.0),
            None => directory.answered_here(call_id, calls),
        };
        if answering.is_some() {
            return answering;
        }
        if message.method() != Method::Ack && begins(moment, message) {
            return self.answer(moment, flow, message, ours);
        }
        ours.or_else(|| directory.prefixed(call_id, calls))
    }

    /// Takes a message that a step waits for.
    fn accept(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        (scenario, step): (&Scenario, usize),
        (message, heard): (&Message<'_>, Heard),
        out: &mut Outbox,
    ) {
        let Some(here) = scenario.steps.get(step) else { return };
        let Op::Recv(recv) = &here.op else { return };
        let lost = self.interpreter.loses(moment.settings, recv.lost);
        let Some(call) = self.calls.at(slot) else { return };
        if lost {
            return self.recorder.ladders.set_latest(call.identity.name, message.bytes());
        }
        self.recorder.ladders.forget_latest(call.identity.name);
        let mandatory = recv.optional == Optional::No;
        let waited = call.waiting.heard(moment.now);
        let comes = if heard.request { mandatory } else { heard.is_final_to_invite() && call.seen.rings() };
        if comes && call.identity.side == Side::Client {
            self.outlook.came(call.cursor.step, waited);
        }
        call.sent.stop();
        call.received.keep(&scenario.headers, message);
        call.peer.learn(message, recv.rrs, recv.auth);
        call.seen.received(moment.now, heard, &mut self.recorder.statistics);
        if !mandatory {
            return self.aside(moment, slot, scenario, (here, step), recv.advance, out);
        }
        call.cursor.step = step;
        self.step_done(moment, slot, scenario, out);
    }

    /// A message of a transaction that is over: nothing is to be done but the ACK that stops its coming.
    #[inline(never)]
    fn stale(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        (message, heard): (&Message<'_>, Heard),
        out: &mut Outbox,
    ) {
        if heard.is_final_to_invite() {
            self.acknowledge_again(moment, slot, message, out);
        }
    }

    fn acknowledge_again(&mut self, moment: Moment<'_>, slot: u32, answer: &Message<'_>, out: &mut Outbox) {
        let Some(call) = self.calls.get(slot) else { return };
        let Some(ack) = call.sent.ack_of(answer) else { return };
        out.send(call.flow, 0, ack);
        self.recorder.metrics().request_repeated(moment.now, Counted::Ack);
    }

    /// A message that the scenario does not expect here.
    #[inline(never)]
    fn unexpected(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        (flow, scenario): (Flow, &Scenario),
        (message, heard): (&Message<'_>, Heard),
        out: &mut Outbox,
    ) {
        // The 100 that any proxy may send says nothing.
        if !heard.request && heard.status == 100 {
            return;
        }
        if moment.settings.conduct.defaults.answer(message) {
            return plain_answer(flow, message, out);
        }
        let kind = if heard.request { Unexpected::Method } else { Unexpected::Status };
        self.recorder.metrics().unexpected(moment.now, kind);
        let Some(call) = self.calls.at(slot) else { return };
        call.seen.refused(moment.now, heard, &mut self.recorder.statistics);
        let Some(unexpected) = scenario.unexpected else {
            return self.fail_unexpected(moment, slot, (flow, scenario), message, out);
        };
        // What was answered needs to be sent no more, whatever the answer.
        if !heard.request && call.sent.is(message.method().as_bytes()) {
            call.sent.stop();
        }
        call.received.keep(&scenario.headers, message);
        if let Some(variable) = unexpected.return_to {
            let from = call.cursor.step;
            self.interpreter.set_number(call, variable, from);
        }
        self.go_to(moment, slot, unexpected.to, out);
    }

    /// A call fails by a message that its scenario does not expect, if that is wanted.
    fn fail_unexpected(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        (flow, scenario): (Flow, &Scenario),
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let defaults = moment.settings.conduct.defaults;
        if !defaults.abort {
            return;
        }
        let ends = matches!(message.method(), Method::Bye | Method::Cancel);
        if message.is_request() && defaults.bye {
            match ends {
                true => plain_answer(flow, message, out),
                false => answer(flow, message, 481, out),
            }
        }
        let Some(call) = self.calls.get(slot) else { return };
        let said = unwanted::what(message, call.sent.last(), &moment.settings.run.service);
        let line = scenario.steps.get(call.cursor.step).map_or(0, |step| step.line);
        let why = format!("unexpected at line {line} of the scenario: {said}");
        let refused = !message.is_request() && message.status() >= 300;
        let failure = if refused { Failure::Refused } else { Failure::UnexpectedMessage };
        if message.is_request() && message.method() == Method::Bye {
            // The other side has taken leave already.
            return self.fail(moment, slot, failure, &why);
        }
        self.abort(moment, slot, (failure, &why), Some(message), out);
    }

    /// A message that belongs to no call.
    #[inline(never)]
    fn stray(&mut self, moment: Moment<'_>, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let settings = moment.settings;
        let begins = message.is_request()
            && !matches!(message.method(), Method::Ack | Method::Cancel)
            && begins(moment, message);
        if begins {
            // With room it would have its call (RFC 3261 section 21.5.4). Without, nothing is known of the
            // server.
            if !self.starts.has_answered_all(settings) {
                self.recorder.metrics().callee_shed(moment.now);
            }
            return answer(flow, message, 503, out);
        }
        // A Call-ID from a file does not tell whose it was.
        let late = self.directory.is_listed()
            || CallName::read(self.directory.name_in(message.call_id()), settings.run_id).is_some();
        if late {
            // Of a call that has ended: a retransmission, mostly.
            self.recorder.metrics().dead_call(moment.now);
            if message.is_request() {
                // Nobody would acknowledge, or end, what a 2xx to an INVITE begins.
                let status = if message.method() == Method::Invite { 481 } else { 200 };
                answer(flow, message, status, out);
            }
            return;
        }
        if message.method() == Method::Ack && message.is_request() {
            return self.recorder.metrics().dead_call(moment.now);
        }
        let defaults = settings.conduct.defaults;
        let ping = message.is_request() && matches!(message.method(), Method::Options | Method::Notify);
        if defaults.answer(message) || (ping && defaults.ping) {
            return plain_answer(flow, message, out);
        }
        self.recorder.stray(moment, flow, message.bytes(), Unexpected::NoCall);
        if message.is_request() {
            answer(flow, message, 481, out);
        }
    }
}

/// Whether a request that belongs to no call begins one: not what is answered by default and no call begins
/// with.
fn begins(moment: Moment<'_>, message: &Message<'_>) -> bool {
    let is_for =
        |server: &Scenario| !moment.settings.conduct.defaults.answer(message) || opens(server, message);
    message.to_tag().is_empty() && moment.scenario(Side::Server).is_some_and(is_for)
}

/// Looks for the step that waits for a message, as SIPp does: forward over steps that are optional, then back
/// over optional ones that may still come.
fn place(call: &Call, scenario: &Scenario, message: &Message<'_>, heard: Heard) -> Place {
    let at = call.cursor.step;
    let waits = |step: usize| match scenario.steps.get(step).map(|s| &s.op) {
        Some(Op::Recv(recv)) => Some(recv),
        _ => None,
    };
    for step in at..scenario.steps.len() {
        let Some(recv) = waits(step) else { break };
        if fits(recv, message, heard, call) {
            return Place::Step(step);
        }
        if recv.optional == Optional::No {
            break;
        }
    }
    // What answers the request that the call waits on now belongs to no transaction before.
    let is_current = || {
        let own = !heard.request && message.cseq() == call.peer.cseq();
        own && call.sent.is(message.method().as_bytes())
    };
    let mut contiguous = true;
    for step in (0..at.min(scenario.steps.len())).rev() {
        let Some(recv) = waits(step) else {
            contiguous = false;
            continue;
        };
        contiguous &= recv.optional != Optional::No;
        if fits(recv, message, heard, call) {
            return match recv.optional {
                Optional::Global => Place::Step(step),
                Optional::Yes if contiguous => Place::Step(step),
                _ if recv.auth && is_current() => Place::None,
                _ => Place::Stale,
            };
        }
    }
    Place::None
}

/// A 200 to a request that no scenario answers, so that the other side can end.
pub(super) fn plain_answer(flow: Flow, request: &Message<'_>, out: &mut Outbox) {
    answer(flow, request, 200, out);
}

/// A response to a request that no scenario answers. An ACK has none.
fn answer(flow: Flow, request: &Message<'_>, status: u16, out: &mut Outbox) {
    if request.method() != Method::Ack {
        out.send_with(flow, 0, |buf| {
            Response { tag: b"load", source: Some((flow.remote, false)), ..Response::new(status) }
                .write(request, buf);
        });
    }
}

/// Whether calls of a scenario begin with this request.
fn opens(scenario: &Scenario, message: &Message<'_>) -> bool {
    let waits = scenario.steps.iter().map_while(|step| match &step.op {
        Op::Recv(recv) => Some(recv),
        _ => None,
    });
    let mut over = false;
    let mut first = waits.take_while(|recv| !core::mem::replace(&mut over, recv.optional == Optional::No));
    first.any(|recv| is_asked_for(recv, message, Heard::of(message)))
}

/// Whether a step waits for this request.
fn is_asked_for(recv: &Recv, message: &Message<'_>, heard: Heard) -> bool {
    match &recv.expect {
        Expect::Request(name) => {
            heard.request && heard.is_one_of(recv.methods, message, core::iter::once(name.as_ref()))
        }
        Expect::Matching(pattern) => heard.request && pattern.matches(message.method().as_bytes()),
        Expect::Response { .. } => false,
    }
}

/// Whether a step waits for this message.
fn fits(recv: &Recv, message: &Message<'_>, heard: Heard, call: &Call) -> bool {
    match &recv.expect {
        Expect::Request(_) | Expect::Matching(_) => is_asked_for(recv, message, heard),
        Expect::Response { code, transaction, methods } => {
            // The status of a request is none.
            if !code.fits(heard.status) {
                return false;
            }
            if let Some(branch) = transaction.and_then(|t| call.sent.branch(t)) {
                return message.via_branch() == branch;
            }
            let names = methods.iter().map(AsRef::as_ref);
            methods.is_empty() || heard.is_one_of(recv.methods, message, names)
        }
    }
}
