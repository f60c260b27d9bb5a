//! The called side of a call.

use super::client::Party;
use super::{Dialog, Final, Manner, Packet, Phone, Source};
use crate::text::{string, uri_of};
use core::time::Duration;
use sip_message::{Message, Method, Name, Response};
use wire::Time;

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
const T1_X64: Duration = Duration::from_secs(32);
/// A phone stops ringing by itself after this.
const RING_MAX: Duration = Duration::from_secs(280);

/// The last answer to a request, kept for its retransmissions.
pub(crate) struct Answer {
    branch: String,
    sent_by: String,
    method: String,
    bytes: Vec<u8>,
    pub until: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LegState {
    Ringing,
    /// A 2xx or a failure was sent and waits for its ACK.
    Answered(u16),
    Talking,
    Over,
}

/// A call as the called phone sees it.
pub(crate) struct Leg {
    pub state: LegState,
    /// What the INVITE was answered with.
    pub status: Option<u16>,
    /// Whether the ACK of a 2xx came.
    pub confirmed: bool,
    pub bye: Option<Final>,
    pub call_id: String,
    branch: String,
    invite: Vec<u8>,
    from: Source,
    dialog: Dialog,
    callee_hangs_up: bool,
    talk: u64,
    answer: Vec<u8>,
    ring_at: Time,
    answer_at: Time,
    interval: Duration,
    resend: Time,
    end: Time,
    hang_up_at: Time,
    bye_tries: u32,
    again: Option<Again>,
}

/// The 200 to an INVITE within the dialog, until its ACK comes.
struct Again {
    cseq: u32,
    packet: Packet,
    interval: Duration,
    resend: Time,
    end: Time,
}

impl Leg {
    pub fn deadline(&self) -> Time {
        let again = self.again.as_ref().map_or(Time::FAR, |a| a.resend.min(a.end));
        again.min(match self.state {
            LegState::Ringing => self.ring_at.min(self.answer_at).min(self.end),
            LegState::Answered(_) => self.resend.min(self.end),
            LegState::Talking => self.hang_up_at,
            LegState::Over => Time::FAR,
        })
    }
}

impl Phone {
    /// Answers a retransmitted request as before; false: it is new.
    pub(super) fn repeat_answer(&mut self, from: Source, message: &Message<'_>) -> bool {
        if message.method() == Method::Ack {
            return false;
        }
        let via = message.via();
        let found = self.answers.iter().rev().find(|a| {
            a.branch.as_bytes() == via.branch
                && a.sent_by.as_bytes() == via.host
                && a.method.as_bytes() == message.method().as_bytes()
        });
        let Some(answer) = found else { return false };
        self.out.push(Packet { to: from.address, conn: from.conn, bytes: answer.bytes.clone() });
        true
    }

    /// Answers a request; what is sent last is kept for retransmissions.
    pub(super) fn answer(
        &mut self,
        now: Time,
        from: Source,
        message: &Message<'_>,
        status: u16,
        tag: &str,
        lines: &str,
    ) -> Vec<u8> {
        let own;
        let tag = match tag {
            "" => {
                own = format!("{:08x}", self.rng.next() as u32);
                &own
            }
            tag => tag,
        };
        let mut bytes = Vec::new();
        Response { tag: tag.as_bytes(), extra: lines.as_bytes(), ..Response::new(status) }
            .write(message, &mut bytes);
        self.out.push(Packet { to: from.address, conn: from.conn, bytes: bytes.clone() });
        let via = message.via();
        let (branch, sent_by) = (string(via.branch), string(via.host));
        let method = string(message.method().as_bytes());
        self.answers.retain(|a| !(a.branch == branch && a.sent_by == sent_by && a.method == method));
        let until = now + if method == "INVITE" { RING_MAX } else { T1_X64 };
        self.answers.push(Answer { branch, sent_by, method, bytes: bytes.clone(), until });
        bytes
    }

    pub(super) fn invited(&mut self, now: Time, from: Source, message: &Message<'_>) {
        if !message.to_tag().is_empty() {
            return self.reinvited(now, from, message);
        }
        let branch = string(message.via().branch);
        if self.legs.iter().any(|l| l.branch == branch && l.state == LegState::Ringing) {
            // A retransmission, and there is no answer to repeat yet.
            return;
        }
        let body = string(message.body());
        let mut words = body.split_whitespace().map(|w| w.parse::<u64>().ok());
        let mut word = || words.next().flatten();
        let (_number, hangs_up, talk) = (word(), word() == Some(1), word().unwrap_or(1_000));
        let tag = self.token("l");
        let header = |name| message.header(name).map_or(String::new(), |h| string(h.value));
        let dialog = Dialog {
            call_id: string(message.call_id()),
            local: format!("{};tag={tag}", header(Name::To)),
            remote: header(Name::From),
            local_tag: tag,
            remote_tag: string(message.from_tag()),
            target: message.header(Name::Contact).map_or(String::new(), |h| uri_of(h.value)),
            routes: message.values(Name::RecordRoute).map(string).collect(),
            cseq: 0,
        };
        let ring_at = now + self.rng.millis(10, 200);
        let (answer_at, end) = match self.profile.manner {
            Manner::Answers(after) => (ring_at + Duration::from_millis(after), now + RING_MAX),
            Manner::Declines => (ring_at + Duration::from_millis(2_000), now + RING_MAX),
            Manner::Busy | Manner::Away => (ring_at, now + RING_MAX),
            Manner::Rings | Manner::Silent => (Time::FAR, now + RING_MAX),
        };
        let rings = !matches!(self.profile.manner, Manner::Busy | Manner::Away);
        self.legs.push(Leg {
            state: LegState::Ringing,
            status: None,
            confirmed: false,
            bye: None,
            call_id: string(message.call_id()),
            branch,
            invite: message.bytes().to_vec(),
            from,
            dialog,
            callee_hangs_up: hangs_up,
            talk,
            answer: Vec::new(),
            ring_at: if rings { ring_at } else { Time::FAR },
            answer_at,
            interval: T1,
            resend: Time::FAR,
            end,
            hang_up_at: Time::FAR,
            bye_tries: 0,
            again: None,
        });
    }

    /// An INVITE within a dialog: 200 at once, repeated until its ACK comes.
    fn reinvited(&mut self, now: Time, from: Source, message: &Message<'_>) {
        let (id, tag) = (message.call_id(), message.to_tag());
        let known = self.legs.iter().position(|l| {
            l.dialog.call_id.as_bytes() == id
                && l.dialog.local_tag.as_bytes() == tag
                && l.state != LegState::Over
        });
        let status = if known.is_some() { 200 } else { 481 };
        let lines = format!("Contact: <{}>\r\n", self.profile.contact());
        let bytes = self.answer(now, from, message, status, "", &lines);
        if let Some(leg) = known.and_then(|i| self.legs.get_mut(i)) {
            let packet = Packet { to: from.address, conn: from.conn, bytes };
            let (cseq, end) = (message.cseq(), now + T1_X64);
            leg.again = Some(Again { cseq, packet, interval: T1, resend: now + T1, end });
        }
    }

    /// Answers the INVITE of a leg.
    fn answer_leg(&mut self, now: Time, index: usize, status: u16) {
        let Some(leg) = self.legs.get(index) else { return };
        let (invite, from, tag) = (leg.invite.clone(), leg.from, leg.dialog.local_tag.clone());
        let mut reader = crate::text::Reader::default();
        let Some(message) = reader.read(&invite) else { return };
        let mut lines = String::new();
        if (101..300).contains(&status) {
            for header in message.headers(Name::RecordRoute) {
                lines.push_str(&format!("Record-Route: {}\r\n", string(header.value)));
            }
            lines.push_str(&format!("Contact: <{}>\r\n", self.profile.contact()));
        }
        let bytes = self.answer(now, from, &message, status, &tag, &lines);
        let reliable = from.conn.is_some();
        let Some(leg) = self.legs.get_mut(index) else { return };
        if status < 200 {
            return;
        }
        leg.status = Some(status);
        leg.state = LegState::Answered(status);
        leg.answer = bytes;
        leg.interval = T1;
        // A 2xx is repeated on every transport (13.3.1.4), a failure over UDP (17.2.1).
        leg.resend = if reliable && status >= 300 { Time::FAR } else { now + T1 };
        leg.end = now + T1_X64;
    }

    pub(super) fn acknowledged(&mut self, now: Time, message: &Message<'_>) {
        let (id, tag) = (message.call_id(), message.to_tag());
        let leg = self
            .legs
            .iter_mut()
            .find(|l| l.dialog.call_id.as_bytes() == id && l.dialog.local_tag.as_bytes() == tag);
        let Some(leg) = leg else { return };
        if leg.again.as_ref().is_some_and(|a| a.cseq == message.cseq()) {
            leg.again = None;
        }
        match leg.state {
            LegState::Answered(status) if status >= 300 => leg.state = LegState::Over,
            LegState::Answered(_) => {
                leg.state = LegState::Talking;
                leg.confirmed = true;
                if leg.callee_hangs_up {
                    leg.hang_up_at = now + Duration::from_millis(leg.talk);
                }
            }
            _ => {}
        }
    }

    pub(super) fn cancelled(&mut self, now: Time, from: Source, message: &Message<'_>) {
        let branch = message.via().branch;
        let found = self.legs.iter().position(|l| l.branch.as_bytes() == branch);
        let tag = found.and_then(|i| self.legs.get(i)).map_or(String::new(), |l| l.dialog.local_tag.clone());
        self.answer(now, from, message, if found.is_some() { 200 } else { 481 }, &tag, "");
        if let Some(index) = found
            && self.legs.get(index).is_some_and(|l| l.state == LegState::Ringing)
        {
            self.answer_leg(now, index, 487);
        }
    }

    pub(super) fn hung_up(&mut self, now: Time, from: Source, message: &Message<'_>) {
        let (id, to, remote) = (message.call_id(), message.to_tag(), message.from_tag());
        let leg = self.legs.iter_mut().find(|l| {
            l.dialog.call_id.as_bytes() == id
                && l.dialog.local_tag.as_bytes() == to
                && l.dialog.remote_tag.as_bytes() == remote
        });
        let known = match leg {
            Some(leg) => {
                // A BYE that overtook the ACK says as much.
                leg.confirmed |= matches!(leg.state, LegState::Answered(200));
                leg.state = LegState::Over;
                leg.bye = leg.bye.or(Some(Final::Status(200)));
                true
            }
            None => self.caller_hung_up(message),
        };
        self.answer(now, from, message, if known { 200 } else { 481 }, "", "");
    }

    pub(super) fn legs_timeout(&mut self, now: Time) {
        for index in 0..self.legs.len() {
            let Some(leg) = self.legs.get_mut(index) else { return };
            if leg.again.as_ref().is_some_and(|a| a.end <= now) {
                leg.again = None;
            }
            if let Some(again) = leg.again.as_mut().filter(|a| a.resend <= now) {
                again.interval = (again.interval * 2).min(T2);
                again.resend = now + again.interval;
                self.out.push(again.packet.clone());
            }
            match leg.state {
                LegState::Ringing if leg.end <= now => leg.state = LegState::Over,
                LegState::Ringing if leg.ring_at <= now => {
                    leg.ring_at = Time::FAR;
                    self.answer_leg(now, index, 180);
                }
                LegState::Ringing if leg.answer_at <= now => {
                    let status = match self.profile.manner {
                        Manner::Answers(_) => 200,
                        Manner::Declines => 603,
                        Manner::Busy => 486,
                        _ => 480,
                    };
                    self.answer_leg(now, index, status);
                }
                LegState::Answered(status) if leg.end <= now => {
                    leg.state = LegState::Over;
                    if status < 300 {
                        // 13.3.1.4: no ACK came; the session is ended.
                        self.leg_bye(now, index, false);
                    }
                }
                LegState::Answered(_) if leg.resend <= now => {
                    leg.interval = (leg.interval * 2).min(T2);
                    leg.resend = now + leg.interval;
                    let (to, conn, bytes) = (leg.from.address, leg.from.conn, leg.answer.clone());
                    self.out.push(Packet { to, conn, bytes });
                }
                LegState::Talking if leg.hang_up_at <= now => {
                    leg.hang_up_at = Time::FAR;
                    self.leg_bye(now, index, false);
                }
                _ => {}
            }
        }
    }

    fn leg_bye(&mut self, now: Time, index: usize, fresh: bool) {
        let Some(leg) = self.legs.get_mut(index) else { return };
        leg.bye_tries += 1;
        leg.dialog.cseq += 1;
        let (dialog, cseq) = (leg.dialog.clone(), leg.dialog.cseq);
        self.within(now, Party::Callee(index), &dialog, "BYE", cseq, fresh);
    }

    pub(super) fn leg_bye_answered(&mut self, now: Time, index: usize, status: u16, challenged: bool) {
        let Some(leg) = self.legs.get_mut(index) else { return };
        if challenged && leg.bye_tries < 4 {
            return self.leg_bye(now, index, true);
        }
        leg.state = LegState::Over;
        leg.bye = leg.bye.or(Some(Final::Status(status)));
    }

    pub(super) fn leg_bye_lost(&mut self, index: usize) {
        if let Some(leg) = self.legs.get_mut(index) {
            leg.state = LegState::Over;
            leg.bye = leg.bye.or(Some(Final::Timeout));
        }
    }
}
