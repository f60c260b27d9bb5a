//! The end of a call that was called: it rings and answers, or its user is away, or it rings until the
//! caller gives up. Mailboxes are here too.

use super::dialog::Dialog;
use super::digests::Asked;
use super::words::{Kind, Place, put, read_call_id, read_contact};
use super::{PATIENCE, People, SILENT, may_answer};
use crate::engine::wheel::tick;
use crate::metrics::{
    self, Began, CallEnd, Direction, Failure, Method as Counted, TransactionEnd, Unexpected,
};
use crate::population::{CallToken, Kind as Course};
use crate::timers::{Due, Repeat, T2};
use core::hash::BuildHasher;
use core::time::Duration;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use sip_message::{Message, Method, Name, Response, push_u64, reason_phrase};
use std::mem;
use timing::{Slab, Tenant};
use wire::{Flow, ListenerId, Outbox, Time};

/// What a callee is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It rings.
    Ringing,
    /// A 2xx was sent and waits for its ACK.
    Answered,
    /// Another final response was sent and waits for its ACK.
    Refused,
    /// The session is up.
    Talking,
    /// BYE has been sent.
    Ending,
}

/// A call that a user of ours, or the mailbox, receives.
pub struct Callee {
    state: State,
    mailbox: bool,
    user: u64,
    token: CallToken,
    began: Began,
    flow: Flow,
    call_id: Vec<u8>,
    /// The INVITE's.
    branch: Vec<u8>,
    /// What is the same in all responses to the INVITE: all lines between the first and the last ones.
    head: Vec<u8>,
    /// The last response.
    status: u16,
    repeat: Option<Repeat>,
    until: Option<Time>,
    // What follows is for a BYE of its own.
    dialog: Dialog,
    own: Vec<u8>,
    sent: Vec<u8>,
    cseq: u32,
    answered: u8,
    bye: Began,
    asking: Began,
}

impl Default for Callee {
    fn default() -> Callee {
        let began = Began::at(Time::ZERO);
        Callee {
            state: State::Ringing,
            mailbox: false,
            user: 0,
            token: CallToken { kind: Course::Completed, ring_ms: 0, callee_hangs_up_ms: None },
            began,
            flow: Flow::udp(ListenerId(0), ([0, 0, 0, 0], 0).into()),
            call_id: Vec::new(),
            branch: Vec::new(),
            head: Vec::new(),
            status: 0,
            repeat: None,
            until: None,
            dialog: Dialog::default(),
            own: Vec::new(),
            sent: Vec::new(),
            cseq: 0,
            answered: 0,
            bye: began,
            asking: began,
        }
    }
}

impl Tenant for Callee {
    fn clear(&mut self) {
        let mut kept = Callee {
            call_id: mem::take(&mut self.call_id),
            branch: mem::take(&mut self.branch),
            head: mem::take(&mut self.head),
            dialog: mem::take(&mut self.dialog),
            own: mem::take(&mut self.own),
            sent: mem::take(&mut self.sent),
            ..Callee::default()
        };
        for text in [&mut kept.call_id, &mut kept.branch, &mut kept.head, &mut kept.own, &mut kept.sent] {
            text.clear();
        }
        kept.dialog.clear();
        *self = kept;
    }
}

impl Callee {
    fn deadline(&self) -> Option<Time> {
        self.repeat.map(|repeat| repeat.at).into_iter().chain(self.until).min()
    }
}

/// Which callee has which Call-ID.
pub struct Answering {
    /// Slots by the hash of the Call-ID.
    slots: HashTable<(u64, u32)>,
    hasher: FixedState,
}

impl Answering {
    /// None yet.
    pub fn new(hasher: FixedState) -> Answering {
        Answering { slots: HashTable::new(), hasher }
    }

    /// Whether there is none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slot of the callee of a Call-ID. A call has another one in the mailbox.
    fn find(&self, call_id: &[u8], mailbox: bool, callees: &Slab<Callee>) -> Option<u32> {
        let hash = self.hasher.hash_one(call_id);
        let same = |&(own, slot): &(u64, u32)| {
            own == hash && callees.at(slot).is_some_and(|c| c.mailbox == mailbox && c.call_id == call_id)
        };
        self.slots.find(hash, same).map(|&(_, slot)| slot)
    }

    fn insert(&mut self, call_id: &[u8], slot: u32) {
        let hash = self.hasher.hash_one(call_id);
        self.slots.insert_unique(hash, (hash, slot), |&(hash, _)| hash);
    }

    fn remove(&mut self, call_id: &[u8], slot: u32) {
        let hash = self.hasher.hash_one(call_id);
        if let Ok(entry) = self.slots.find_entry(hash, |&(_, other)| other == slot) {
            entry.remove();
        }
    }
}

/// The end of what [`Response::write`] writes, which a session description takes the place of.
const NO_BODY: &[u8] = b"Content-Length: 0\r\n\r\n";

impl People {
    /// An INVITE without a tag in To: a new call, or one again. False if it is for nobody here.
    pub(super) fn invited(&mut self, now: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) -> bool {
        let Some((token, _)) = read_call_id(message.call_id(), self.settings.run_id) else { return false };
        let mailbox = self.settings.mailbox == Some(flow.listener);
        if let Some(slot) = self.answering.find(message.call_id(), mailbox, &self.callees) {
            let same = self.callees.at(slot).is_some_and(|c| c.branch == message.via_branch());
            if same {
                self.metrics.response_repeated(now);
                self.respond_again(slot, out);
            } else {
                // RFC 3261 section 8.2.2.2: the same request by another way.
                self.metrics.unexpected(now, Unexpected::Method);
                self.plain(now, flow, message, 482, out);
            }
            return true;
        }
        let user = match mailbox {
            true => 0,
            false => match read_contact(message.request_uri()) {
                Some((user, _)) if self.local(user).is_some() => user,
                _ => return false,
            },
        };
        // Every call of ours has two ends at most, beside the mailbox.
        let room = self.callees.len() < self.settings.most_calls.saturating_mul(2);
        let Some((slot, _)) = room.then(|| self.callees.take()).flatten() else {
            self.metrics.callee_shed(now);
            self.plain(now, flow, message, 503, out);
            return true;
        };
        self.set_up(now, slot, flow, message);
        if let Some(c) = self.callees.at_mut(slot) {
            (c.user, c.mailbox, c.token) = (user, mailbox, token);
        }
        self.answering.insert(message.call_id(), slot);
        let place = self.place(Kind::Callee, slot);
        self.offer(now, place, Direction::Received, flow, message.bytes());
        self.metrics.call_begun(metrics::Side::Callee, Began::at(now));
        self.react(now, slot, out);
        true
    }

    /// Keeps of an INVITE what its responses, and a BYE of the callee's own, need.
    fn set_up(&mut self, now: Time, slot: u32, flow: Flow, message: &Message<'_>) {
        let mut tag = Vec::new();
        self.place(Kind::Callee, slot).write(&mut tag);
        let Some(c) = self.callees.at_mut(slot) else { return };
        (c.state, c.began, c.flow) = (State::Ringing, Began::at(now), flow);
        c.call_id.extend_from_slice(message.call_id());
        c.branch.extend_from_slice(message.via_branch());
        let mut routes = Vec::new();
        for header in message.headers(Name::RecordRoute) {
            put(&mut routes, &[b"Record-Route: ", header.value, b"\r\n"]);
        }
        let source = Some((flow.remote, false));
        Response { tag: &tag, source, extra: &routes, ..Response::new(180) }.write(message, &mut c.head);
        let line = memchr::memchr(b'\n', &c.head).map_or(0, |end| end + 1);
        c.head.truncate(c.head.len() - NO_BODY.len());
        c.head.drain(..line);
        c.dialog.of_request(message);
        let to = message.header(Name::To).map_or(&b""[..], |header| header.value);
        put(&mut c.own, &[to, b";tag=", &tag]);
    }

    /// What a callee does at once.
    fn react(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(c) = self.callees.at(slot) else { return };
        let ring = Duration::from_millis(c.token.ring_ms.into());
        let away = self.settings.away;
        match c.token.kind {
            _ if c.mailbox => self.respond(now, slot, 200, out),
            Course::Voicemail if self.settings.mailbox.is_some() && ring.is_zero() => {
                self.respond(now, slot, away, out);
            }
            Course::Completed | Course::Voicemail if ring.is_zero() => self.respond(now, slot, 200, out),
            kind => {
                self.respond(now, slot, 180, out);
                let patience = if kind == Course::Cancelled { PATIENCE } else { Duration::ZERO };
                self.wait(slot, Some(tick(now + ring + patience)));
            }
        }
    }

    /// It has rung as long as it was to.
    fn rung(&mut self, now: Time, intended: Time, slot: u32, out: &mut Outbox) {
        let Some(c) = self.callees.at(slot) else { return };
        let status = match c.token.kind {
            Course::Completed => 200,
            Course::Voicemail if self.settings.mailbox.is_some() => self.settings.away,
            Course::Voicemail => 200,
            Course::Cancelled => 480,
        };
        self.metrics.scheduled_send(now, intended);
        self.respond(now, slot, status, out);
    }

    fn wait(&mut self, slot: u32, until: Option<Time>) {
        let Some(c) = self.callees.at_mut(slot) else { return };
        c.until = until;
        let deadline = c.deadline();
        self.timers.arm(Kind::Callee, slot, deadline);
    }

    /// Sends a response to the INVITE; a final one is repeated until its ACK comes.
    fn respond(&mut self, now: Time, slot: u32, status: u16, out: &mut Outbox) {
        let reliable = self.settings.transport.is_reliable();
        let Some(c) = self.callees.at_mut(slot) else { return };
        c.status = status;
        c.until = None;
        if status >= 200 {
            let good = status < 300;
            c.state = if good { State::Answered } else { State::Refused };
            // A 2xx is repeated on streams too (section 13.3.1.4).
            c.repeat = Some(Repeat::new(now, Some(T2), reliable && !good));
        }
        if (200..300).contains(&status)
            && let Some(ms) = c.token.callee_hangs_up_ms.filter(|_| !c.mailbox)
        {
            c.until = Some(tick(now + Duration::from_millis(ms.into())));
        }
        let deadline = c.deadline();
        self.timers.arm(Kind::Callee, slot, deadline);
        self.metrics.response_sent(now);
        let place = self.place(Kind::Callee, slot);
        let range = self.respond_again(slot, out);
        let Some(flow) = self.callees.at(slot).map(|c| c.flow) else { return };
        let local = self.settings.local(flow.listener);
        let bytes = out.bytes().get(range).unwrap_or_default();
        self.ladders.offer(place.number(), now, Direction::Sent, local, flow.remote, bytes);
    }

    /// Sends the last response.
    fn respond_again(&mut self, slot: u32, out: &mut Outbox) -> core::ops::Range<usize> {
        let number = self.place(Kind::Callee, slot).number();
        let Some(c) = self.callees.at(slot) else { return 0..0 };
        let words = &self.words;
        out.send_with(c.flow, number, |text| {
            text.extend_from_slice(b"SIP/2.0 ");
            push_u64(c.status.into(), text);
            put(text, &[b" ", reason_phrase(c.status), b"\r\n", &c.head]);
            if c.status < 300 {
                words.push_contact(c.user, text);
            }
            match c.status {
                200..300 => words.push_body(text),
                _ => text.extend_from_slice(NO_BODY),
            }
        })
    }

    /// Answers a request that begins nothing.
    fn plain(&mut self, now: Time, flow: Flow, message: &Message<'_>, status: u16, out: &mut Outbox) {
        self.metrics.response_sent(now);
        out.send_with(flow, 0, |text| {
            Response { tag: b"load", source: Some((flow.remote, false)), ..Response::new(status) }
                .write(message, text);
        });
    }

    /// A CANCEL (section 9.2). False if it is for no call here.
    pub(super) fn cancelled(
        &mut self,
        now: Time,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let mailbox = self.settings.mailbox == Some(flow.listener);
        let Some(slot) = self.answering.find(message.call_id(), mailbox, &self.callees) else { return false };
        if self.callees.at(slot).is_none_or(|c| c.branch != message.via_branch()) {
            return false;
        }
        let place = self.place(Kind::Callee, slot);
        self.offer(now, place, Direction::Received, flow, message.bytes());
        self.plain(now, flow, message, 200, out);
        if self.callees.at(slot).is_some_and(|c| c.state == State::Ringing) {
            self.respond(now, slot, 487, out);
        }
        true
    }

    /// An ACK or BYE to a callee. False if it is for no call here.
    pub(super) fn in_dialog(
        &mut self,
        now: Time,
        place: Place,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let slot = place.slot;
        let Some(c) = self.callees.get_mut(slot, place.generation) else { return false };
        let state = c.state;
        let planned = c.token.callee_hangs_up_ms.is_none() || c.mailbox;
        self.offer(now, place, Direction::Received, flow, message.bytes());
        let Some(c) = self.callees.at_mut(slot) else { return true };
        match (message.method(), state) {
            (Method::Ack, State::Answered) => {
                (c.state, c.repeat) = (State::Talking, None);
                // If its time to hang up is over, that was the wait for the ACK, which is not ours: it may
                // only now.
                c.until = c.until.map(|until| until.max(tick(now)));
                c.head.clear();
                let deadline = c.deadline();
                self.timers.arm(Kind::Callee, slot, deadline);
            }
            (Method::Ack, State::Refused) => {
                let asked = c.token.kind == Course::Cancelled && c.status == 487;
                let away = c.token.kind == Course::Voicemail;
                match (asked, away) {
                    (true, _) => self.callee_over(now, slot, CallEnd::Cancelled),
                    (_, true) => self.callee_over(now, slot, CallEnd::Success),
                    _ => {
                        let why = format!("the call ended with {}", c.status);
                        self.callee_failed(now, slot, Failure::UnexpectedMessage, &why);
                    }
                }
            }
            (Method::Ack, _) => {}
            (_, State::Answered | State::Talking) => {
                self.plain(now, flow, message, 200, out);
                match planned {
                    true => self.callee_over(now, slot, CallEnd::Success),
                    false => {
                        self.metrics.unexpected(now, Unexpected::Method);
                        let why = "BYE from the caller, although the callee was to hang up";
                        self.callee_failed(now, slot, Failure::UnexpectedMessage, why);
                    }
                }
            }
            // Both have hung up: ours is answered too.
            (_, State::Ending) => self.plain(now, flow, message, 200, out),
            (_, State::Ringing | State::Refused) => self.plain(now, flow, message, 481, out),
        }
        true
    }

    /// The time of a callee has come.
    pub(super) fn callee_due(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let number = self.place(Kind::Callee, slot).number();
        let Some(c) = self.callees.at_mut(slot) else { return };
        match (c.repeat.as_mut().and_then(|repeat| repeat.due(now)), c.state) {
            (Some(Due::Again), State::Ending) => {
                let flow = bye_flow(c, self.settings.flow());
                out.send(flow, number, &c.sent);
                let local = self.settings.local(flow.listener);
                self.ladders.offer(number, now, Direction::Sent, local, flow.remote, &c.sent);
                self.metrics.request_repeated(now, Counted::Bye);
            }
            (Some(Due::Again), _) => {
                self.metrics.response_repeated(now);
                self.respond_again(slot, out);
            }
            (Some(Due::Over), state) => {
                if state == State::Ending {
                    let asking = c.asking;
                    self.metrics.transaction_ended(now, Counted::Bye, asking, TransactionEnd::Timeout);
                }
                let why = if state == State::Ending { "no answer to the BYE" } else { "no ACK" };
                return self.callee_failed(now, slot, Failure::Retransmissions, why);
            }
            (None, _) => {}
        }
        let Some(c) = self.callees.at_mut(slot) else { return };
        let due = c.until.filter(|&until| until <= now);
        let state = c.state;
        match (due, state) {
            (Some(until), State::Ringing) => return self.rung(now, until, slot, out),
            (Some(until), State::Talking) => {
                let began = Began { intended: until, sent: now };
                (c.state, c.until, c.bye) = (State::Ending, None, began);
                self.metrics.scheduled_send(now, until);
                self.hang_up(now, slot, began, None, out);
                return;
            }
            // Hanging up has to wait for the ACK (section 15): it is due again when that is here.
            (Some(_), State::Answered) => {
                let at = c.repeat.map(|repeat| repeat.at);
                return self.timers.arm(Kind::Callee, slot, at);
            }
            _ => {}
        }
        let deadline = c.deadline();
        self.timers.arm(Kind::Callee, slot, deadline);
    }

    /// Sends the callee's BYE. False if a challenge has no answer.
    fn hang_up(
        &mut self,
        now: Time,
        slot: u32,
        asking: Began,
        challenge: Option<&Message<'_>>,
        out: &mut Outbox,
    ) -> bool {
        let place = self.place(Kind::Callee, slot);
        let reliable = self.settings.transport.is_reliable();
        let Some(user) = self.callees.at(slot).map(|c| c.user) else { return true };
        let local = self.local(user);
        let People { callees, words, digests, settings, .. } = self;
        let Some(c) = callees.at_mut(slot) else { return true };
        c.cseq += 1;
        c.asking = asking;
        c.repeat = Some(Repeat::new(now, Some(T2), reliable));
        let text = &mut c.sent;
        text.clear();
        put(text, &[b"BYE ", &c.dialog.target, b" SIP/2.0\r\n"]);
        words.push_via(place, c.cseq, b'0', text);
        put(text, &[&c.dialog.routes, b"Max-Forwards: 70\r\nFrom: ", &c.own, b"\r\nTo: ", &c.dialog.peer]);
        put(text, &[b"\r\nCall-ID: ", &c.call_id, b"\r\nCSeq: "]);
        push_u64(c.cseq.into(), text);
        text.extend_from_slice(b" BYE\r\n");
        let asked = Asked { method: b"BYE", uri: &c.dialog.target };
        let proven = digests.prove(&settings.names, (user, local), (true, challenge), asked, text);
        text.extend_from_slice(NO_BODY);
        if !proven {
            return false;
        }
        let flow = bye_flow(c, settings.flow());
        out.send(flow, place.number(), &c.sent);
        let (deadline, sent) = (c.deadline(), mem::take(&mut c.sent));
        self.offer(now, place, Direction::Sent, flow, &sent);
        if let Some(c) = self.callees.at_mut(slot) {
            c.sent = sent;
        }
        self.metrics.request_sent(now, Counted::Bye);
        self.timers.arm(Kind::Callee, slot, deadline);
        true
    }

    /// A response to a callee's BYE. False if nobody waits for it.
    pub(super) fn callee_response(
        &mut self,
        now: Time,
        place: Place,
        cseq: u32,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let slot = place.slot;
        let waits = |c: &&mut Callee| c.cseq == cseq && c.state == State::Ending;
        let Some(c) = self.callees.get_mut(slot, place.generation).filter(waits) else { return false };
        let (asking, bye, status) = (c.asking, c.bye, message.status());
        match status {
            ..200 => {}
            401 | 407 if may_answer(c.answered, message) => {
                c.answered += 1;
                self.metrics.challenged(now);
                self.metrics.transaction_ended(now, Counted::Bye, asking, TransactionEnd::Success);
                if !self.hang_up(now, slot, self.upon(now), Some(message), out) {
                    let why = "a challenge that cannot be answered";
                    self.callee_failed(now, slot, Failure::Authentication, why);
                }
            }
            _ => {
                let good = status < 300;
                let end = if good { TransactionEnd::Success } else { TransactionEnd::Failed };
                self.metrics.transaction_ended(now, Counted::Bye, asking, end);
                self.metrics.callee_bye(now, bye, good);
                match good {
                    true => self.callee_over(now, slot, CallEnd::Success),
                    false => {
                        let why = format!("BYE was answered with {status}");
                        self.callee_failed(now, slot, Failure::Refused, &why);
                    }
                }
            }
        }
        true
    }

    /// The run is over: a BYE without an answer has failed.
    pub(super) fn cut_callees(&mut self, now: Time) {
        for slot in self.callees.taken() {
            let Some(c) = self.callees.at(slot).filter(|c| c.state == State::Ending) else { continue };
            let asking = c.asking;
            if now.since(asking.sent) > SILENT {
                self.metrics.transaction_ended(now, Counted::Bye, asking, TransactionEnd::Timeout);
                let why = "no answer to the BYE until the end of the run";
                self.callee_failed(now, slot, Failure::ReceiveTimeout, why);
            }
        }
    }

    fn callee_over(&mut self, now: Time, slot: u32, end: CallEnd) {
        let Some(c) = self.callees.at(slot) else { return };
        let began = c.began;
        self.answering.remove(&c.call_id, slot);
        self.callees.give(slot);
        self.timers.arm(Kind::Callee, slot, None);
        self.metrics.call_ended(now, metrics::Side::Callee, began, end);
    }

    fn callee_failed(&mut self, now: Time, slot: u32, failure: Failure, why: &str) {
        let number = self.place(Kind::Callee, slot).number();
        let Some(c) = self.callees.at(slot) else { return };
        let why = format!("at the callee: {why}");
        self.ladders.failed(now, number, c.began.intended, &c.call_id, (&c.sent, b""), &why);
        self.callee_over(now, slot, CallEnd::Failed(failure));
    }
}

/// Where a callee's BYE goes: to the target if there is no route, otherwise to the server.
fn bye_flow(c: &Callee, mut flow: Flow) -> Flow {
    flow.remote = c.dialog.hop.unwrap_or(flow.remote);
    flow
}
