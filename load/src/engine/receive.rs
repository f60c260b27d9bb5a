//! What comes in: whose it is, which step it belongs to, and what is done if to none.

use super::begin::ladder_name;
use super::call::{Call, Doing};
use super::directory::Whose;
use super::ids::{self, CallName, is_same_name, slot_named};
use super::observe::Note;
use super::unwanted;
use super::{CallIds, Engine};
use crate::metrics::{Direction, Failure, Method as Counted, Unexpected};
use crate::scenario::{self, Expect, Op, Optional, Outline, Outlines, Recv, Scenario, Side, Vars};
use sip_message::{Message, Method, Response};
use wire::{Flow, Outbox, Time};

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

impl Engine {
    /// A message without a flaw.
    pub(super) fn receive_message(&mut self, now: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let heard = Heard::of(message);
        if heard.request {
            self.metrics.request_received(now, heard.method);
        } else {
            self.metrics.response_received(now, heard.status);
        }
        let Some(slot) = self.call_of(now, flow, message) else {
            return self.stray(now, flow, message, out);
        };
        let Engine { calls, settings, ladders, .. } = self;
        let Some(call) = calls.at(slot) else { return };
        let name = ladder_name(slot, call);
        let pair = (settings.local(flow.listener), &flow.remote);
        ladders.pass(name, now, Direction::Received, pair, message.bytes());
        if let Doing::Leaving(_) = call.doing {
            return self.leaving(now, slot, flow, message, out);
        }
        call.tried |= !heard.request && heard.status < 200 && heard.method == Counted::Invite;
        if message.bytes() == call.last {
            // A retransmission: what was sent upon the first is sent again, if anything was.
            return match heard.is_final_to_invite() {
                true => self.acknowledge_again(now, slot, message, out),
                false if call.answered => self.send_again(now, slot, out),
                false => {}
            };
        }
        if let Doing::Lingering(_) = call.doing {
            // It has ended, and no step waits. What answers it needs to be sent no more.
            if !heard.request || heard.method == Counted::Ack {
                call.resend = None;
            }
            ladders.set_latest(name, message.bytes());
            return self.stale(now, slot, (message, heard), out);
        }
        let side = call.side;
        if side == Side::Server || heard.request {
            // Streams come and go, and a phone may move; a connection of the call's own stays.
            call.flow = Flow { conn: if call.connected { call.flow.conn } else { flow.conn }, ..flow };
        }
        let Some(scenario) = self.take_scenario(side) else { return };
        match self.place_like(slot, &scenario, message, heard) {
            // A step may have a chance of its own.
            Place::Stale | Place::None if self.is_lost(None) => {
                self.ladders.set_latest(name, message.bytes())
            }
            Place::Step(step) => self.accept(now, slot, (&scenario, step), (message, heard), out),
            Place::Stale => {
                self.ladders.set_latest(name, message.bytes());
                self.stale(now, slot, (message, heard), out);
            }
            Place::None => {
                self.ladders.set_latest(name, message.bytes());
                self.unexpected(now, slot, flow, &scenario, (message, heard), out);
            }
        }
        self.give_scenario(side, scenario);
    }

    /// Whether a message is lost on purpose, with the chance of its step if that has one.
    #[inline]
    pub(super) fn is_lost(&mut self, own: Option<f64>) -> bool {
        let lost = own.unwrap_or(self.settings.lost);
        lost > 0.0 && self.rng.chance(lost)
    }

    /// The call that a message belongs to; one is begun for a request that begins one.
    fn call_of(&mut self, now: Time, flow: Flow, message: &Message<'_>) -> Option<u32> {
        let call_id = message.call_id();
        // A call that began here has the Call-ID that names its slot.
        let ours = self.begun_here(call_id);
        if !message.is_request() {
            // Both ends of a call may be here, and it is the caller who asks.
            let other = || self.prefixed_call(call_id).or_else(|| self.answering_call(call_id));
            return ours.or_else(other);
        }
        // Both ends of a call may be here. A request that a caller here receives answers to its own tag.
        // One that answers a call of ours does so since that one began.
        let answering = match ours.and_then(|slot| self.calls.get(slot)) {
            Some(call) => call.other.filter(|other| self.calls.find(other.0, other.1).is_some()).map(|o| o.0),
            None => self.answering_call(call_id),
        };
        if answering.is_some() {
            return answering;
        }
        let begins = message.to_tag().is_empty() && message.method() != Method::Ack;
        if begins && self.settings.server.as_deref().is_some_and(|server| self.is_for(server, message)) {
            return self.answer(now, flow, message, ours);
        }
        ours.or_else(|| self.prefixed_call(call_id))
    }

    /// The call that began here and has this Call-ID.
    #[inline]
    pub(super) fn begun_here(&self, call_id: &[u8]) -> Option<u32> {
        if matches!(self.settings.call_ids, CallIds::Field(_)) {
            let same = |slot: u32| self.calls.get(slot).is_some_and(|call| call.call_id == call_id);
            return self.directory.find(Whose::Ours, self.hash(call_id), same);
        }
        let is_its = |&slot: &u32| {
            let call = self.calls.get(slot);
            call.is_some_and(|call| call.side == Side::Client && is_same_name(&call.call_id, call_id))
        };
        slot_named(call_id).filter(is_its)
    }

    /// The call whose scenario has written something before its Call-ID.
    fn prefixed_call(&self, call_id: &[u8]) -> Option<u32> {
        if !self.prefixed {
            return None;
        }
        let name = ids::behind(call_id)?;
        self.begun_here(name).or_else(|| self.answering_call(name))
    }

    /// Whether a request that belongs to no call begins one: not what is answered by default and no call
    /// begins with.
    fn is_for(&self, server: &Scenario, message: &Message<'_>) -> bool {
        !self.is_answered_by_default(message) || opens(server, message)
    }

    fn answering_call(&self, call_id: &[u8]) -> Option<u32> {
        if self.directory.answering() == 0 {
            return None;
        }
        let same = |slot: u32| self.calls.get(slot).is_some_and(|call| call.call_id == call_id);
        self.directory.find(Whose::Theirs, self.hash(call_id), same)
    }

    /// As [`Engine::place`], with the help of the messages before. Which step takes one depends on the step
    /// that the call is at and on method and status, where no step asks for a branch.
    #[inline]
    fn place_like(&mut self, slot: u32, scenario: &Scenario, message: &Message<'_>, heard: Heard) -> Place {
        let Some(call) = self.calls.get(slot) else { return Place::None };
        let (side, at) = (call.side as usize, call.step);
        let likeness = message.likeness().filter(|_| scenario.transactions.is_empty());
        let outlines = self.outlines.get(side);
        let known = likeness.and_then(|likeness| outlines?.get(likeness)?.taken(at));
        if let Some(step) = known {
            let place = || self.place(slot, scenario, message, heard);
            debug_assert!(matches!(place(), Place::Step(own) if own == step), "what is alike has one place");
            return Place::Step(step);
        }
        let place = self.place(slot, scenario, message, heard);
        if let (Place::Step(step), Some(likeness)) = (&place, likeness)
            && let Some(outlines) = self.outlines.get_mut(side)
        {
            outlines.set_taken(likeness, at, *step);
        }
        place
    }

    /// Looks for the step that waits for a message, as SIPp does: forward over steps that are optional,
    /// then back over optional ones that may still come.
    fn place(&self, slot: u32, scenario: &Scenario, message: &Message<'_>, heard: Heard) -> Place {
        let Some(call) = self.calls.get(slot) else { return Place::None };
        let waits = |step: usize| match scenario.steps.get(step).map(|s| &s.op) {
            Some(Op::Recv(recv)) => Some(recv),
            _ => None,
        };
        for step in call.step..scenario.steps.len() {
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
            !heard.request
                && message.cseq() == call.cseq
                && call.sent.split(|&byte| byte == b' ').next() == Some(message.method().as_bytes())
        };
        let mut contiguous = true;
        for step in (0..call.step.min(scenario.steps.len())).rev() {
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

    /// Takes a message that a step waits for.
    fn accept(
        &mut self,
        now: Time,
        slot: u32,
        (scenario, step): (&Scenario, usize),
        (message, heard): (&Message<'_>, Heard),
        out: &mut Outbox,
    ) {
        let Some(here) = scenario.steps.get(step) else { return };
        let Op::Recv(recv) = &here.op else { return };
        let lost = self.is_lost(recv.lost);
        let Engine { calls, outlines, ladders, metrics, registered, longest, .. } = self;
        let Some(call) = calls.at(slot) else { return };
        if lost {
            return ladders.set_latest(ladder_name(slot, call), message.bytes());
        }
        ladders.forget_latest(ladder_name(slot, call));
        let mandatory = recv.optional == Optional::No;
        let comes = if heard.request { mandatory } else { heard.is_final_to_invite() && call.seen.rings() };
        if comes && call.side == Side::Client {
            let longest = longest.get_mut(call.step);
            longest.into_iter().for_each(|longest| *longest = (*longest).max(Some(now.since(call.since))));
        }
        call.quiet = now;
        call.answered = false;
        call.resend = None;
        let known = outlines.get_mut(call.side as usize);
        let outline = keep(call, message, scenario, known);
        if heard.request {
            call.cseq = message.cseq();
        } else {
            match outline.and_then(|outline| outline.to_tag(message)) {
                Some(tag) => replace(&mut call.peer_tag, tag),
                None => scenario::learn_peer_tag(message, &mut call.peer_tag),
            }
        }
        if recv.rrs {
            scenario::learn_routes(message, &mut call.routes);
            match outline.and_then(|outline| outline.next_url(message)) {
                Some(url) => replace(&mut call.next_url, url),
                None => scenario::learn_next_url(message, &mut call.next_url),
            }
        }
        if recv.auth {
            call.challenged = call.challenge.get_or_insert_default().learn(message);
        }
        Note { metrics, registered, call }.received(now, heard);
        if !mandatory {
            return self.aside(now, slot, scenario, (here, step), recv.advance, out);
        }
        if let Some(call) = self.calls.at(slot) {
            call.step = step;
        }
        self.step_done(now, slot, scenario, out);
    }

    /// A message of a transaction that is over: nothing is to be done but the ACK that stops its coming.
    #[inline(never)]
    fn stale(&mut self, now: Time, slot: u32, (message, heard): (&Message<'_>, Heard), out: &mut Outbox) {
        if heard.is_final_to_invite() {
            self.acknowledge_again(now, slot, message, out);
        }
    }

    fn acknowledge_again(&mut self, now: Time, slot: u32, answer: &Message<'_>, out: &mut Outbox) {
        let Some(call) = self.calls.get(slot) else { return };
        let transaction = match call.branches.is_empty() {
            true => None,
            false => call.branches.iter().position(|branch| branch == answer.via_branch()),
        };
        let transaction = transaction.and_then(|n| u16::try_from(n).ok());
        let Some(ack) = call.acks.of(transaction, answer.cseq()) else { return };
        out.send(call.flow, 0, ack);
        self.metrics.request_repeated(now, crate::metrics::Method::Ack);
    }

    /// A message that the scenario does not expect here.
    #[inline(never)]
    fn unexpected(
        &mut self,
        now: Time,
        slot: u32,
        flow: Flow,
        scenario: &Scenario,
        (message, heard): (&Message<'_>, Heard),
        out: &mut Outbox,
    ) {
        // The 100 that any proxy may send says nothing.
        if !message.is_request() && message.status() == 100 {
            return;
        }
        if self.answers_by_default(flow, message, out) {
            return;
        }
        let kind = if message.is_request() { Unexpected::Method } else { Unexpected::Status };
        self.metrics.unexpected(now, kind);
        if let Some(note) = self.note(slot) {
            note.refused(now, heard);
        }
        if let Some(unexpected) = scenario.unexpected {
            let Some(call) = self.calls.at(slot) else { return };
            call.answered = false;
            // What was answered needs to be sent no more, whatever the answer.
            if !heard.request
                && call.sent.split(|&byte| byte == b' ').next() == Some(message.method().as_bytes())
            {
                call.resend = None;
            }
            let known = self.outlines.get_mut(call.side as usize);
            keep(call, message, scenario, known);
            let from = call.step;
            if let Some(variable) = unexpected.return_to {
                let user = self.callers.values(call.side, call.user);
                let global = &mut self.global[call.side as usize];
                let mut vars = Vars { call: &mut call.values, user, global };
                if let Some(value) = vars.get_mut(variable) {
                    value.set_number(from as f64);
                }
            }
            return self.go_to(now, slot, unexpected.to, out);
        }
        let defaults = self.settings.defaults;
        if !defaults.abort {
            return;
        }
        let refused = !message.is_request() && message.status() >= 300;
        let ends = message.is_request() && matches!(message.method(), Method::Bye | Method::Cancel);
        if message.is_request() && defaults.bye {
            match ends {
                true => plain_answer(flow, message, out),
                false => answer(flow, message, 481, out),
            }
        }
        let sent = self.calls.get(slot).map_or(&b""[..], |call| &call.sent);
        let said = unwanted::what(message, sent, &self.settings.run.service);
        let step = scenario.steps.get(self.calls.get(slot).map_or(0, |c| c.step)).map_or(0, |s| s.line);
        let why = format!("unexpected at line {step} of the scenario: {said}");
        let failure = if refused { Failure::Refused } else { Failure::UnexpectedMessage };
        if message.is_request() && message.method() == Method::Bye {
            // The other side has taken leave already.
            return self.fail(now, slot, failure, &why);
        }
        self.abort(now, slot, (failure, &why), Some(message), out);
    }

    /// Answers what the defaults say is to be answered wherever a call stands. False if it is not of that
    /// kind.
    fn answers_by_default(&mut self, flow: Flow, message: &Message<'_>, out: &mut Outbox) -> bool {
        let answers = self.is_answered_by_default(message);
        if answers {
            plain_answer(flow, message, out);
        }
        answers
    }

    fn is_answered_by_default(&self, message: &Message<'_>) -> bool {
        let defaults = self.settings.defaults;
        let method = message.method();
        let ping = defaults.ping && method.as_bytes() == b"PING";
        let asked = matches!(method, Method::Info | Method::Notify | Method::Options | Method::Update);
        message.is_request() && (ping || (defaults.auto_answer && asked))
    }

    /// A message that belongs to no call.
    #[inline(never)]
    fn stray(&mut self, now: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let begins = message.is_request() && message.to_tag().is_empty();
        let begins = begins && !matches!(message.method(), Method::Ack | Method::Cancel);
        if begins && self.settings.server.as_deref().is_some_and(|server| self.is_for(server, message)) {
            // With room it would have its call (RFC 3261 section 21.5.4). Without, nothing is known of the
            // server.
            if !self.has_answered_all() {
                self.metrics.callee_shed(now);
            }
            return answer(flow, message, 503, out);
        }
        // A Call-ID from a file does not tell whose it was.
        let late = matches!(self.settings.call_ids, CallIds::Field(_))
            || CallName::read(self.name_in(message.call_id()), self.settings.run_id).is_some();
        if late {
            // Of a call that has ended: a retransmission, mostly.
            self.metrics.dead_call(now);
            if message.is_request() {
                // Nobody would acknowledge, or end, what a 2xx to an INVITE begins.
                let status = if message.method() == Method::Invite { 481 } else { 200 };
                answer(flow, message, status, out);
            }
            return;
        }
        if message.method() == Method::Ack && message.is_request() {
            return self.metrics.dead_call(now);
        }
        if self.answers_by_default(flow, message, out) {
            return;
        }
        let ping = message.is_request() && matches!(message.method(), Method::Options | Method::Notify);
        if ping && self.settings.defaults.ping {
            return plain_answer(flow, message, out);
        }
        self.metrics.unexpected(now, Unexpected::NoCall);
        let local = *self.settings.local(flow.listener);
        self.ladders.stray(now, local, flow.remote, message.bytes(), Unexpected::NoCall.text());
        if message.is_request() {
            answer(flow, message, 481, out);
        }
    }
}

/// Puts a text in place of another.
#[inline]
fn replace(text: &mut Vec<u8>, with: &[u8]) {
    if text != with {
        text.clear();
        text.extend_from_slice(with);
    }
}

/// Keeps the message that a call received last, and answers where things stand in it if that is known of
/// others like it.
#[inline]
fn keep<'o>(
    call: &mut Call,
    message: &Message<'_>,
    scenario: &Scenario,
    known: Option<&'o mut Outlines>,
) -> Option<&'o Outline> {
    call.last.clear();
    call.last.extend_from_slice(message.bytes());
    let outline = known.and_then(|known| known.of(&scenario.headers, message));
    call.likeness = outline.and_then(Outline::likeness);
    if outline.is_none() {
        call.outline.get_or_insert_default().learn(&scenario.headers, message);
    }
    outline
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
            if let Some(branch) = transaction.and_then(|t| call.branches.get(usize::from(t))) {
                return message.via_branch() == branch;
            }
            let names = methods.iter().map(AsRef::as_ref);
            methods.is_empty() || heard.is_one_of(recv.methods, message, names)
        }
    }
}
