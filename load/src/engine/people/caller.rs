//! The end of a call that began it: INVITE, the ringing, the talk or the message left, BYE; or CANCEL.

use super::dialog::Dialog;
use super::digests::Asked;
use super::words::{Kind, Place, put};
use super::{PATIENCE, People, SILENT, may_answer};
use crate::engine::ids::CallName;
use crate::engine::wheel::tick;
use crate::metrics::{self, Began, Bye, CallEnd, Direction, Failure, TransactionEnd, Unexpected};
use crate::population::{Kind as Course, Plan, Side};
use crate::timers::{Due, Repeat, T2};
use core::time::Duration;
use sip_message::{Message, Method, Name, Response, push_u64};
use std::mem;
use timing::Tenant;
use wire::{Delivery, Flow, Outbox, Time};

type Counted = metrics::Method;

/// What a caller is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The INVITE has no final response yet.
    Inviting,
    /// CANCEL has been sent.
    Cancelling,
    /// The session is up.
    Talking,
    /// BYE has been sent.
    Ending,
}

/// A call that a user of ours makes.
pub struct Caller {
    state: State,
    user: u64,
    callee: u64,
    plan: Plan,
    began: Began,
    /// The transaction under way; that of a CANCEL goes on beside its INVITE's.
    asking: Began,
    cancelling: Began,
    /// The first BYE.
    bye: Began,
    progress: Option<Time>,
    established: Option<Time>,
    /// Of the last request that is no ACK or CANCEL.
    cseq: u32,
    /// Of the INVITE that is not to be answered any more.
    invite: u32,
    answered: u8,
    /// CANCEL has its 200, the INVITE its 487.
    cancel: (bool, bool),
    repeat: Option<Repeat>,
    /// When the plan goes on, or patience ends.
    until: Option<Time>,
    dialog: Dialog,
    sent: Vec<u8>,
    /// The credentials of the INVITE, as a header line: those of its ACKs too, whatever was sent since.
    proof: Vec<u8>,
}

impl Default for Caller {
    fn default() -> Caller {
        let began = Began::at(Time::ZERO);
        let plan = Plan {
            kind: Course::Completed,
            ring: Duration::ZERO,
            hold: Duration::ZERO,
            hang_up: Side::Caller,
        };
        Caller {
            state: State::Inviting,
            user: 0,
            callee: 0,
            plan,
            began,
            asking: began,
            cancelling: began,
            bye: began,
            progress: None,
            established: None,
            cseq: 0,
            invite: 0,
            answered: 0,
            cancel: (false, false),
            repeat: None,
            until: None,
            dialog: Dialog::default(),
            sent: Vec::new(),
            proof: Vec::new(),
        }
    }
}

impl Tenant for Caller {
    fn clear(&mut self) {
        let (mut sent, mut proof) = (mem::take(&mut self.sent), mem::take(&mut self.proof));
        let mut dialog = mem::take(&mut self.dialog);
        sent.clear();
        proof.clear();
        dialog.clear();
        *self = Caller { sent, proof, dialog, ..Caller::default() };
    }
}

impl Caller {
    fn deadline(&self) -> Option<Time> {
        self.repeat.map(|repeat| repeat.at).into_iter().chain(self.until).min()
    }
}

/// A request of a caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Invite,
    /// Of a 2xx.
    Ack,
    Cancel,
    Bye,
}

impl Ask {
    fn name(self) -> &'static [u8] {
        match self {
            Ask::Invite => b"INVITE",
            Ask::Ack => b"ACK",
            Ask::Cancel => b"CANCEL",
            Ask::Bye => b"BYE",
        }
    }

    fn counted(self) -> Counted {
        match self {
            Ask::Invite => Counted::Invite,
            Ask::Ack => Counted::Ack,
            Ask::Cancel => Counted::Cancel,
            Ask::Bye => Counted::Bye,
        }
    }
}

impl People {
    /// A user is to call another.
    pub(super) fn begin_call(
        &mut self,
        now: Time,
        intended: Time,
        (user, callee): (u64, u64),
        plan: Plan,
        out: &mut Outbox,
    ) {
        let room = self.callers.len() < self.settings.most_calls;
        let Some((slot, _)) = room.then(|| self.callers.take()).flatten() else {
            self.metrics.call_shed(intended);
            return self.population.call_ended(user, now);
        };
        self.begun += 1;
        let began = Began { intended, sent: now };
        self.metrics.scheduled_start(now, intended);
        self.metrics.call_begun(metrics::Side::Caller, began);
        self.metrics.session_requested(began);
        if let Some(c) = self.callers.at_mut(slot) {
            (c.user, c.callee, c.plan, c.began) = (user, callee, plan, began);
        }
        self.ask(now, slot, Ask::Invite, began, None, out);
    }

    /// Writes the Call-ID: what is to become of the call, and where its caller is.
    fn write_call_id(&mut self, slot: u32) {
        let place = self.place(Kind::Caller, slot);
        let Some(c) = self.callers.at(slot) else { return };
        let text = &mut self.scratch.call_id;
        text.clear();
        text.extend_from_slice(c.plan.token().encode().as_bytes());
        let name = CallName { worker: place.worker, slot, generation: place.generation };
        name.write(self.words.run, text);
        put(text, &[b"@", &self.words.ip]);
    }

    /// Sends a request. `challenge`: the response that asks for credentials. False if there is no answer to
    /// it.
    fn ask(
        &mut self,
        now: Time,
        slot: u32,
        ask: Ask,
        asking: Began,
        challenge: Option<&Message<'_>>,
        out: &mut Outbox,
    ) -> bool {
        let place = self.place(Kind::Caller, slot);
        self.write_call_id(slot);
        let reliable = self.settings.transport.is_reliable();
        let mut flow = self.settings.flow();
        let Some(c) = self.callers.at_mut(slot) else { return true };
        if matches!(ask, Ask::Invite | Ask::Bye) {
            c.cseq += 1;
            c.asking = asking;
        }
        if ask == Ask::Cancel {
            c.cancelling = asking;
        }
        let in_dialog = matches!(ask, Ask::Ack | Ask::Bye);
        if in_dialog {
            flow.remote = c.dialog.hop.unwrap_or(flow.remote);
        }
        if ask == Ask::Invite {
            c.invite = c.cseq;
        }
        let mut text = mem::take(&mut c.sent);
        let kept = if ask == Ask::Ack { mem::take(&mut text) } else { Vec::new() };
        text.clear();
        let proven = self.write_request(place, ask, challenge, &mut text);
        if proven {
            let yields = ask == Ask::Invite && challenge.is_none();
            let delivery = Delivery { yields, ..Delivery::default() };
            out.deliver(flow, place.number(), delivery, |buf| buf.extend_from_slice(&text));
            self.offer(now, place, Direction::Sent, flow, &text);
            self.metrics.request_sent(now, ask.counted());
        }
        let Some(c) = self.callers.at_mut(slot) else { return proven };
        c.sent = if ask == Ask::Ack { kept } else { text };
        let longest = (ask != Ask::Invite).then_some(T2);
        if ask != Ask::Ack {
            c.repeat = Some(Repeat::new(now, longest, reliable));
        }
        let deadline = c.deadline();
        self.timers.arm(Kind::Caller, slot, deadline);
        proven
    }

    /// Appends a request; the Call-ID is at hand. False if a challenge has no answer.
    fn write_request(
        &mut self,
        place: Place,
        ask: Ask,
        challenge: Option<&Message<'_>>,
        text: &mut Vec<u8>,
    ) -> bool {
        let Some(user) = self.callers.at(place.slot).map(|c| c.user) else { return false };
        let local = self.local(user);
        let People { callers, words, digests, settings, scratch, .. } = self;
        let Some(c) = callers.at_mut(place.slot) else { return false };
        let names = &settings.names;
        let in_dialog = matches!(ask, Ask::Ack | Ask::Bye);
        scratch.uri.clear();
        scratch.peer.clear();
        if in_dialog {
            scratch.uri.extend_from_slice(&c.dialog.target);
            scratch.peer.extend_from_slice(&c.dialog.peer);
        } else {
            scratch.uri.extend_from_slice(b"sip:");
            names.user(c.callee, &mut scratch.uri);
            put(&mut scratch.uri, &[b"@", &words.domain]);
            put(&mut scratch.peer, &[b"<", &scratch.uri, b">"]);
        }
        let (cseq, letter) = match ask {
            // An ACK and a CANCEL have the number of their INVITE; the ACK of a 2xx is a transaction of its
            // own.
            Ask::Ack => (c.invite, b'a'),
            Ask::Cancel => (c.invite, b'0'),
            Ask::Invite | Ask::Bye => (c.cseq, b'0'),
        };
        put(text, &[ask.name(), b" ", &scratch.uri, b" SIP/2.0\r\n"]);
        words.push_via(place, cseq, letter, text);
        if in_dialog {
            text.extend_from_slice(&c.dialog.routes);
        }
        text.extend_from_slice(b"Max-Forwards: 70\r\nFrom: <sip:");
        names.user(user, text);
        put(text, &[b"@", &words.domain, b">;tag="]);
        place.write(text);
        put(text, &[b"\r\nTo: ", &scratch.peer, b"\r\nCall-ID: ", &scratch.call_id, b"\r\nCSeq: "]);
        push_u64(cseq.into(), text);
        put(text, &[b" ", ask.name(), b"\r\n"]);
        if ask == Ask::Invite {
            words.push_contact(user, text);
        }
        let start = text.len();
        let asked = Asked { method: ask.name(), uri: &scratch.uri };
        let proven = match ask {
            // Section 13.2.2.4.
            Ask::Ack => {
                text.extend_from_slice(&c.proof);
                true
            }
            Ask::Cancel => true,
            Ask::Invite | Ask::Bye => digests.prove(names, (user, local), (true, challenge), asked, text),
        };
        if ask == Ask::Invite {
            c.proof.clear();
            c.proof.extend_from_slice(text.get(start..).unwrap_or_default());
            words.push_body(text);
        } else {
            text.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        }
        proven
    }

    /// Acknowledges a final response other than 2xx (RFC 3261 section 17.1.1.3).
    pub(super) fn ack_refusal(
        &mut self,
        now: Time,
        place: Place,
        cseq: u32,
        refusal: &Message<'_>,
        out: &mut Outbox,
    ) {
        let flow = self.settings.flow();
        let value = |name| refusal.header(name).map_or(&b""[..], |header| header.value);
        let words = &self.words;
        let range = out.send_with(flow, 0, |text| {
            // Outside of a dialog the Request-URI of an INVITE is the URI of its To.
            put(text, &[b"ACK ", refusal.to_uri(), b" SIP/2.0\r\n"]);
            words.push_via(place, cseq, b'0', text);
            put(text, &[b"Max-Forwards: 70\r\nFrom: ", value(Name::From), b"\r\nTo: ", value(Name::To)]);
            put(text, &[b"\r\nCall-ID: ", refusal.call_id(), b"\r\nCSeq: "]);
            push_u64(cseq.into(), text);
            text.extend_from_slice(b" ACK\r\nContent-Length: 0\r\n\r\n");
        });
        let (local, bytes) = (self.settings.local(flow.listener), out.bytes().get(range).unwrap_or_default());
        self.ladders.offer(place.number(), now, Direction::Sent, local, flow.remote, bytes);
        self.metrics.request_sent(now, Counted::Ack);
    }

    /// A response to a caller. False if nobody waits for it.
    pub(super) fn caller_response(
        &mut self,
        now: Time,
        place: Place,
        cseq: u32,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let slot = place.slot;
        let Some(c) = self.callers.get_mut(slot, place.generation) else { return false };
        match message.method() {
            Method::Invite if cseq != c.invite => false,
            Method::Invite => match message.status() {
                ..200 => self.provisional(now, slot, message.status()),
                200..300 => self.accepted(now, slot, message, out),
                _ if !matches!(c.state, State::Inviting | State::Cancelling) || c.cancel.1 => false,
                _ => self.refused(now, place, cseq, message, out),
            },
            Method::Cancel if c.state == State::Cancelling && !c.cancel.0 => {
                self.cancel_answered(now, slot, message)
            }
            Method::Bye if cseq == c.cseq && c.state == State::Ending => {
                self.bye_answered(now, slot, message, out)
            }
            _ => false,
        }
    }

    fn provisional(&mut self, now: Time, slot: u32, status: u16) -> bool {
        let Some(c) = self.callers.at_mut(slot).filter(|c| c.state == State::Inviting) else { return false };
        let rings = status > 100 && c.progress.is_none();
        // Timer A stops; how long it may ring follows from the plan. Who means to give up does so too if the
        // news of the ringing is lost, which nobody repeats: any provisional response permits CANCEL.
        c.repeat = None;
        if c.until.is_none() || rings {
            c.until = Some(match c.plan.kind {
                Course::Cancelled => tick(now + c.plan.ring),
                _ => now + c.plan.ring + PATIENCE,
            });
        }
        if rings {
            c.progress = Some(now);
            let began = c.began;
            self.metrics.session_progress(now, began);
        }
        let deadline = self.callers.at(slot).and_then(Caller::deadline);
        self.timers.arm(Kind::Caller, slot, deadline);
        true
    }

    /// A 2xx to the INVITE.
    fn accepted(&mut self, now: Time, slot: u32, message: &Message<'_>, out: &mut Outbox) -> bool {
        let Some(c) = self.callers.at_mut(slot) else { return false };
        if !matches!(c.state, State::Inviting | State::Cancelling) {
            // It comes again because the ACK did not arrive.
            self.ask(now, slot, Ask::Ack, self.upon(now), None, out);
            return true;
        }
        let cancelling = c.state == State::Cancelling;
        let (asking, began, progress, kind) = (c.asking, c.began, c.progress, c.plan.kind);
        c.state = State::Talking;
        c.repeat = None;
        c.established = Some(now);
        c.dialog.of_response(message);
        c.until = Some(match c.plan.hang_up {
            Side::Caller => tick(now + c.plan.hold),
            // The callee's clock begins with its answer, ours with the news of it.
            Side::Callee => now + c.plan.hold + PATIENCE,
        });
        let usable = c.dialog.is_known();
        self.metrics.transaction_ended(now, Counted::Invite, asking, TransactionEnd::Success);
        self.metrics.session_established(now, began, progress, message.status());
        if kind == Course::Voicemail {
            self.metrics.voicemail(began);
        }
        if !usable {
            self.fail_call(now, slot, Failure::UnexpectedMessage, "a 2xx to the INVITE without Contact");
            return true;
        }
        self.ask(now, slot, Ask::Ack, self.upon(now), None, out);
        if cancelling || kind == Course::Cancelled {
            // Nobody was to answer. The session is ended, and the call has failed.
            self.ask(now, slot, Ask::Bye, self.upon(now), None, out);
            let why = "answered, although nobody was to answer before the caller gave up";
            self.fail_call(now, slot, Failure::UnexpectedMessage, why);
        }
        true
    }

    /// A final response of 300 or more to the INVITE.
    fn refused(
        &mut self,
        now: Time,
        place: Place,
        cseq: u32,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        self.ack_refusal(now, place, cseq, message, out);
        let slot = place.slot;
        let Some(c) = self.callers.at_mut(slot) else { return true };
        let (asking, began, progress, status) = (c.asking, c.began, c.progress, message.status());
        let challenge = matches!(status, 401 | 407);
        if challenge && c.state == State::Inviting && may_answer(c.answered, message) {
            c.answered += 1;
            self.metrics.challenged(now);
            self.metrics.transaction_ended(now, Counted::Invite, asking, TransactionEnd::Success);
            if !self.ask(now, slot, Ask::Invite, self.upon(now), Some(message), out) {
                self.metrics.session_refused(now, began, progress, status);
                self.fail_call(now, slot, Failure::Authentication, "a challenge that cannot be answered");
            }
            return true;
        }
        let planned = c.state == State::Cancelling && status == 487;
        let end = if planned { TransactionEnd::Success } else { TransactionEnd::Failed };
        self.metrics.transaction_ended(now, Counted::Invite, asking, end);
        match status {
            300..400 => self.metrics.session_redirected(began),
            _ => self.metrics.session_refused(now, began, progress, status),
        }
        if planned {
            if let Some(c) = self.callers.at_mut(slot) {
                c.cancel.1 = true;
            }
            self.cancel_over(now, slot);
        } else {
            let failure = if challenge { Failure::Authentication } else { Failure::Refused };
            self.fail_call(now, slot, failure, &format!("INVITE was answered with {status}"));
        }
        true
    }

    fn cancel_answered(&mut self, now: Time, slot: u32, message: &Message<'_>) -> bool {
        let Some(c) = self.callers.at_mut(slot) else { return true };
        if message.status() < 200 {
            return true;
        }
        c.cancel.0 = true;
        c.repeat = None;
        c.until = Some(now + PATIENCE);
        let asking = c.cancelling;
        let deadline = c.deadline();
        self.timers.arm(Kind::Caller, slot, deadline);
        let good = message.status() < 300;
        let end = if good { TransactionEnd::Success } else { TransactionEnd::Failed };
        self.metrics.transaction_ended(now, Counted::Cancel, asking, end);
        self.cancel_over(now, slot);
        true
    }

    /// A cancelled call is over when CANCEL and INVITE both have their answers.
    fn cancel_over(&mut self, now: Time, slot: u32) {
        if self.callers.at(slot).is_some_and(|c| c.cancel == (true, true)) {
            self.end_call(now, slot, CallEnd::Cancelled);
        }
    }

    fn bye_answered(&mut self, now: Time, slot: u32, message: &Message<'_>, out: &mut Outbox) -> bool {
        let Some(c) = self.callers.at_mut(slot) else { return true };
        let (asking, status) = (c.asking, message.status());
        let (began, bye, established) = (c.began, c.bye, c.established.unwrap_or(now));
        match status {
            ..200 => {}
            200..300 => {
                self.metrics.transaction_ended(now, Counted::Bye, asking, TransactionEnd::Success);
                self.metrics.session_ended(now, began, established, Bye::Answered(bye));
                self.end_call(now, slot, CallEnd::Success);
            }
            401 | 407 if may_answer(c.answered, message) => {
                c.answered += 1;
                self.metrics.challenged(now);
                self.metrics.transaction_ended(now, Counted::Bye, asking, TransactionEnd::Success);
                if !self.ask(now, slot, Ask::Bye, self.upon(now), Some(message), out) {
                    self.metrics.session_ended(now, began, established, Bye::Refused(bye));
                    self.fail_call(now, slot, Failure::Authentication, "a challenge that cannot be answered");
                }
            }
            _ => {
                self.metrics.transaction_ended(now, Counted::Bye, asking, TransactionEnd::Failed);
                self.metrics.session_ended(now, began, established, Bye::Refused(bye));
                let challenge = matches!(status, 401 | 407);
                let failure = if challenge { Failure::Authentication } else { Failure::Refused };
                self.fail_call(now, slot, failure, &format!("BYE was answered with {status}"));
            }
        }
        true
    }

    /// A request to the caller: the callee's BYE, and the ACKs that nothing here waits for.
    pub(super) fn hung_up_on(
        &mut self,
        now: Time,
        place: Place,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        if message.method() != Method::Bye {
            return false;
        }
        self.offer(now, place, Direction::Received, flow, message.bytes());
        let Some(c) = self.callers.get_mut(place.slot, place.generation) else { return false };
        let (state, began, established) = (c.state, c.began, c.established);
        let planned = c.plan.hang_up == Side::Callee;
        self.metrics.response_sent(now);
        out.send_with(flow, 0, |text| {
            Response { source: Some((flow.remote, false)), ..Response::new(200) }.write(message, text);
        });
        // If both have hung up, ours is answered too.
        if let Some(established) = established.filter(|_| state == State::Talking) {
            self.metrics.session_ended(now, began, established, Bye::Received);
            match planned {
                true => self.end_call(now, place.slot, CallEnd::Success),
                false => {
                    self.metrics.unexpected(now, Unexpected::Method);
                    let why = "BYE from the callee, although the caller was to hang up";
                    self.fail_call(now, place.slot, Failure::UnexpectedMessage, why);
                }
            }
        }
        true
    }

    /// The time of a call has come.
    pub(super) fn caller_due(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let place = self.place(Kind::Caller, slot);
        let mut flow = self.settings.flow();
        let Some(c) = self.callers.at_mut(slot) else { return };
        if c.state == State::Ending {
            flow.remote = c.dialog.hop.unwrap_or(flow.remote);
        }
        match c.repeat.as_mut().and_then(|repeat| repeat.due(now)) {
            Some(Due::Again) => {
                out.send(flow, place.number(), &c.sent);
                let local = self.settings.local(flow.listener);
                self.ladders.offer(place.number(), now, Direction::Sent, local, flow.remote, &c.sent);
                let method = match c.state {
                    State::Inviting => Counted::Invite,
                    State::Cancelling => Counted::Cancel,
                    State::Talking | State::Ending => Counted::Bye,
                };
                self.metrics.request_repeated(now, method);
            }
            Some(Due::Over) => {
                self.note_silence(now, slot);
                let why = Failure::Retransmissions;
                return self.fail_call(now, slot, why, why.text());
            }
            None => {}
        }
        let Some(c) = self.callers.at_mut(slot) else { return };
        if let Some(until) = c.until.filter(|&until| until <= now) {
            c.until = None;
            return self.plan_goes_on(now, until, slot, out);
        }
        let deadline = c.deadline();
        self.timers.arm(Kind::Caller, slot, deadline);
    }

    /// The caller hangs up or gives up, as planned; or it has waited long enough.
    fn plan_goes_on(&mut self, now: Time, intended: Time, slot: u32, out: &mut Outbox) {
        let Some(c) = self.callers.at_mut(slot) else { return };
        let began = Began { intended, sent: now };
        match c.state {
            State::Talking if c.plan.hang_up == Side::Caller => {
                (c.state, c.bye, c.answered) = (State::Ending, began, 0);
                self.metrics.scheduled_send(now, intended);
                self.ask(now, slot, Ask::Bye, began, None, out);
            }
            State::Inviting if c.plan.kind == Course::Cancelled => {
                (c.state, c.until) = (State::Cancelling, Some(now + PATIENCE * 2));
                // The INVITE's own transaction is judged when it ends.
                self.metrics.scheduled_send(now, intended);
                self.ask(now, slot, Ask::Cancel, began, None, out);
            }
            _ => {
                let asking = c.asking;
                if c.established.is_none() {
                    self.metrics.transaction_ended(now, Counted::Invite, asking, TransactionEnd::Timeout);
                    let began = self.callers.at(slot).map_or(began, |c| c.began);
                    self.metrics.session_timed_out(began);
                }
                let why = Failure::ReceiveTimeout;
                self.fail_call(now, slot, why, why.text());
            }
        }
    }

    /// The request under way got no answer at all.
    fn note_silence(&mut self, now: Time, slot: u32) {
        let Some(c) = self.callers.at_mut(slot) else { return };
        let (state, asking, began) = (c.state, c.asking, c.began);
        let established = c.established;
        let method = match state {
            State::Inviting => Counted::Invite,
            State::Cancelling => Counted::Cancel,
            State::Talking | State::Ending => Counted::Bye,
        };
        self.metrics.transaction_ended(now, method, asking, TransactionEnd::Timeout);
        match established {
            Some(established) => self.metrics.session_ended(now, began, established, Bye::Timeout),
            None => self.metrics.session_timed_out(began),
        }
    }

    fn end_call(&mut self, now: Time, slot: u32, end: CallEnd) {
        let Some(c) = self.callers.at_mut(slot) else { return };
        let (user, began) = (c.user, c.began);
        self.callers.give(slot);
        self.timers.arm(Kind::Caller, slot, None);
        self.metrics.call_ended(now, metrics::Side::Caller, began, end);
        self.population.call_ended(user, now);
    }

    fn fail_call(&mut self, now: Time, slot: u32, failure: Failure, why: &str) {
        self.write_call_id(slot);
        let number = self.place(Kind::Caller, slot).number();
        let Some(c) = self.callers.at(slot) else { return };
        self.ladders.failed(now, number, c.began.intended, &self.scratch.call_id, (&c.sent, b""), why);
        self.end_call(now, slot, CallEnd::Failed(failure));
    }

    pub(super) fn caller_unreachable(&mut self, now: Time, place: Place) {
        if self.callers.get_mut(place.slot, place.generation).is_some() {
            self.note_silence(now, place.slot);
            let why = Failure::Unreachable;
            self.fail_call(now, place.slot, why, why.text());
        }
    }

    /// The run is over. A request without an answer has failed, and so has an INVITE that a proxy took (100)
    /// and nobody has heard of since, or that rings for longer than its callee lets it; who rings or talks
    /// has not.
    pub(super) fn cut_callers(&mut self, now: Time) {
        for slot in self.callers.taken() {
            let Some(c) = self.callers.at(slot) else { continue };
            let silent = |asked: Began| now.since(asked.sent) > SILENT;
            let fails = match c.state {
                State::Inviting if c.progress.is_none() || c.repeat.is_some() => silent(c.asking),
                // With the news of the ringing it is known when the callee answers.
                State::Inviting if c.plan.kind != Course::Cancelled => {
                    c.until.is_some_and(|until| now + PATIENCE > until + SILENT)
                }
                State::Cancelling => silent(c.cancelling),
                State::Ending => silent(c.asking),
                State::Inviting | State::Talking => false,
            };
            if fails {
                self.note_silence(now, slot);
                self.fail_call(now, slot, Failure::ReceiveTimeout, "no answer until the end of the run");
            }
        }
    }
}
