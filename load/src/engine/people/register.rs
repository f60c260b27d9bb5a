//! Registrations (RFC 3261 section 10.2).

use super::digests::Asked;
use super::words::{Kind, Place, put};
use super::{People, SILENT, may_answer};
use crate::engine::ids::push_hex;
use crate::metrics::{self, Began, Direction, Failure, Method, TransactionEnd};
use crate::timers::{Due, Repeat, T2};
use sip_message::{Message, push_u64};
use std::mem;
use timing::Tenant;
use wire::{Outbox, Time};

/// A registration under way.
pub struct Registration {
    user: u64,
    kind: metrics::Registering,
    began: Began,
    /// The transaction under way.
    asking: Began,
    cseq: u32,
    answered: u8,
    repeat: Option<Repeat>,
    sent: Vec<u8>,
}

impl Default for Registration {
    fn default() -> Registration {
        let began = Began::at(Time::ZERO);
        Registration {
            user: 0,
            kind: metrics::Registering::First,
            began,
            asking: began,
            cseq: 0,
            answered: 0,
            repeat: None,
            sent: Vec::new(),
        }
    }
}

impl Tenant for Registration {
    fn clear(&mut self) {
        let mut sent = mem::take(&mut self.sent);
        sent.clear();
        *self = Registration { sent, ..Registration::default() };
    }
}

/// Whose registrations are under way: a bit for each user of this worker.
pub struct Registering {
    users: Vec<u64>,
}

impl Registering {
    /// Nobody's, of this number of users.
    pub fn new(users: u64) -> Registering {
        Registering { users: vec![0; users.div_ceil(64) as usize] }
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.users.capacity() * size_of::<u64>()
    }

    fn has(&self, user: u32) -> bool {
        self.users.get(user as usize / 64).is_some_and(|word| word >> (user % 64) & 1 == 1)
    }

    fn set(&mut self, user: u32, on: bool) {
        if let Some(word) = self.users.get_mut(user as usize / 64) {
            *word = *word & !(1 << (user % 64)) | u64::from(on) << (user % 64);
        }
    }
}

impl People {
    /// A user is to register. If its last registration is still under way, it may not (section 10.2: "UAs
    /// MUST NOT send a new registration until they have received a final response [...] for the previous
    /// one or the previous REGISTER request has timed out").
    pub(super) fn register(&mut self, now: Time, intended: Time, user: u64, refresh: bool, out: &mut Outbox) {
        let kind = if refresh { metrics::Registering::Refresh } else { metrics::Registering::First };
        let local = self.local(user).filter(|&local| !self.registering.has(local));
        let Some((local, (slot, _))) = local.and_then(|local| Some((local, self.registrations.take()?)))
        else {
            return self.metrics.registration_skipped(intended, kind);
        };
        self.registering.set(local, true);
        let began = Began { intended, sent: now };
        self.metrics.scheduled_start(now, intended);
        self.metrics.registration_begun(began, kind);
        // Registrations of one user have one Call-ID and rising numbers (section 10.2.4): the time has such.
        let cseq = now.since(self.settings.start).as_millis() as u32 & 0x3fff_ffff;
        if let Some(r) = self.registrations.at_mut(slot) {
            (r.user, r.kind, r.began, r.cseq) = (user, kind, began, cseq + 1);
        }
        self.send_register(now, slot, began, None, out);
    }

    /// Sends the REGISTER, with an answer to `challenge` if there is one. False if that has none.
    fn send_register(
        &mut self,
        now: Time,
        slot: u32,
        asking: Began,
        challenge: Option<&Message<'_>>,
        out: &mut Outbox,
    ) -> bool {
        let place = self.place(Kind::Register, slot);
        let Some(user) = self.registrations.at_mut(slot).map(|r| r.user) else { return true };
        let local = self.local(user);
        let flow = self.settings.flow();
        let reliable = self.settings.transport.is_reliable();
        let People { registrations, words, digests, settings, scratch, .. } = self;
        let Some(r) = registrations.at_mut(slot) else { return true };
        (r.asking, r.repeat) = (asking, Some(Repeat::new(now, Some(T2), reliable)));
        let names = &settings.names;
        let text = &mut r.sent;
        text.clear();
        scratch.uri.clear();
        put(&mut scratch.uri, &[b"sip:", &words.domain]);
        put(text, &[b"REGISTER ", &scratch.uri, b" SIP/2.0\r\n"]);
        words.push_via(place, r.cseq, b'0', text);
        text.extend_from_slice(b"Max-Forwards: 70\r\nFrom: <sip:");
        names.user(user, text);
        put(text, &[b"@", &words.domain, b">;tag=u"]);
        push_u64(user, text);
        text.extend_from_slice(b"\r\nTo: <sip:");
        names.user(user, text);
        put(text, &[b"@", &words.domain, b">\r\nCall-ID: u"]);
        push_u64(user, text);
        text.push(b'-');
        push_hex(words.run, 8, text);
        put(text, &[b"@", &words.ip, b"\r\nCSeq: "]);
        push_u64(r.cseq.into(), text);
        text.extend_from_slice(b" REGISTER\r\n");
        words.push_contact(user, text);
        text.extend_from_slice(b"Expires: ");
        push_u64(settings.parameters.expires.into(), text);
        text.extend_from_slice(b"\r\n");
        let asked = Asked { method: b"REGISTER", uri: &scratch.uri };
        let proven = digests.prove(names, (user, local), (false, challenge), asked, text);
        text.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        if !proven {
            return false;
        }
        out.send(flow, place.number(), text);
        let at = r.repeat.map(|repeat| repeat.at);
        let sent = mem::take(&mut r.sent);
        self.offer(now, place, Direction::Sent, flow, &sent);
        if let Some(r) = self.registrations.at_mut(slot) {
            r.sent = sent;
        }
        self.metrics.request_sent(now, Method::Register);
        self.timers.arm(Kind::Register, slot, at);
        true
    }

    /// A response to a REGISTER. False if nobody waits for it.
    pub(super) fn register_response(
        &mut self,
        now: Time,
        place: Place,
        cseq: u32,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let slot = place.slot;
        let Some(r) = self.registrations.get_mut(slot, place.generation).filter(|r| r.cseq == cseq) else {
            return false;
        };
        let (asking, status) = (r.asking, message.status());
        match status {
            ..200 => {}
            200..300 => {
                self.metrics.transaction_ended(now, Method::Register, asking, TransactionEnd::Success);
                self.registration_over(now, slot, None);
            }
            401 | 407 if may_answer(r.answered, message) => {
                r.answered += 1;
                r.cseq += 1;
                self.metrics.challenged(now);
                self.metrics.transaction_ended(now, Method::Register, asking, TransactionEnd::Success);
                if !self.send_register(now, slot, self.upon(now), Some(message), out) {
                    self.registration_over(now, slot, Some((0, "a challenge that cannot be answered")));
                }
            }
            _ => {
                self.metrics.transaction_ended(now, Method::Register, asking, TransactionEnd::Failed);
                let why = match status {
                    401 | 407 => "the credentials were refused".to_owned(),
                    _ => format!("REGISTER was answered with {status}"),
                };
                self.registration_over(now, slot, Some((status, &why)));
            }
        }
        true
    }

    /// It has ended: well, or for a reason, with the response that says so if one does.
    fn registration_over(&mut self, now: Time, slot: u32, why: Option<(u16, &str)>) {
        let number = self.place(Kind::Register, slot).number();
        let Some(r) = self.registrations.at_mut(slot) else { return };
        let (user, began, kind) = (r.user, r.began, r.kind);
        match why {
            None => self.metrics.registered(now, began, kind),
            Some((status, why)) => {
                self.metrics.registration_refused(now, began, kind, status);
                let name = format!("registration of user {user}");
                self.ladders.failed(now, number, began.intended, name.as_bytes(), (&r.sent, b""), why);
            }
        }
        self.registrations.give(slot);
        self.timers.arm(Kind::Register, slot, None);
        if let Some(local) = self.local(user) {
            self.registering.set(local, false);
        }
        self.population.registered(user, why.is_none(), now);
    }

    /// The time of a registration has come.
    pub(super) fn register_due(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let place = self.place(Kind::Register, slot);
        let flow = self.settings.flow();
        let Some(r) = self.registrations.at_mut(slot) else { return };
        match r.repeat.as_mut().and_then(|repeat| repeat.due(now)) {
            Some(Due::Again) => {
                out.send(flow, place.number(), &r.sent);
                let local = self.settings.local(flow.listener);
                self.ladders.offer(place.number(), now, Direction::Sent, local, flow.remote, &r.sent);
                self.metrics.request_repeated(now, Method::Register);
            }
            Some(Due::Over) => {
                let asking = r.asking;
                self.metrics.transaction_ended(now, Method::Register, asking, TransactionEnd::Timeout);
                return self.registration_over(now, slot, Some((0, Failure::Retransmissions.text())));
            }
            None => {}
        }
        let at = self.registrations.at_mut(slot).and_then(|r| r.repeat).map(|repeat| repeat.at);
        self.timers.arm(Kind::Register, slot, at);
    }

    pub(super) fn register_unreachable(&mut self, now: Time, place: Place) {
        let Some(r) = self.registrations.get_mut(place.slot, place.generation) else { return };
        let asking = r.asking;
        self.metrics.transaction_ended(now, Method::Register, asking, TransactionEnd::Timeout);
        self.registration_over(now, place.slot, Some((0, Failure::Unreachable.text())));
    }

    /// The run is over.
    pub(super) fn cut_registrations(&mut self, now: Time) {
        for slot in self.registrations.taken() {
            let Some(asking) = self.registrations.at_mut(slot).map(|r| r.asking) else { continue };
            if now.since(asking.sent) > SILENT {
                self.metrics.transaction_ended(now, Method::Register, asking, TransactionEnd::Timeout);
                self.registration_over(now, slot, Some((0, "no answer until the end of the run")));
            }
        }
    }
}
