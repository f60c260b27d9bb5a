//! The calling side of a call.

use super::client::{Party, Purpose, State};
use super::{Dialog, Packet, Phone};
use crate::text::{Request, string, uri_of};
use core::time::Duration;
use sip_message::{Message, Name};
use wire::Time;

/// Nobody waits longer than this for an answer (one phone's timer C is shorter, two phones' is not).
const PATIENCE_MAX: Duration = Duration::from_secs(200);
/// A caller gives a call up for lost after this.
const GIVE_UP: Duration = Duration::from_secs(290);

/// What a call is to be.
#[derive(Clone, Debug)]
pub(crate) struct CallSpec {
    /// Number in the script.
    pub number: usize,
    pub callee: String,
    /// The caller cancels after that long without an answer.
    pub patience: Option<Duration>,
    /// Milliseconds of talk.
    pub talk: u64,
    pub callee_hangs_up: bool,
    /// The caller sends an INVITE within the dialog.
    pub reinvite: bool,
    /// Bytes of body beyond the script of the call.
    pub padding: usize,
}

/// How a transaction ended for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Final {
    Status(u16),
    /// Nothing came (timers B and F).
    Timeout,
    /// It was said to be under way and nothing more came.
    Hung,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Inviting,
    Talking,
    Over,
}

/// A call as its caller sees it.
pub(crate) struct Call {
    pub spec: CallSpec,
    pub stage: Stage,
    pub result: Option<Final>,
    /// A provisional response was seen.
    pub progress: bool,
    pub call_id: String,
    tag: String,
    tries: u32,
    cseq: u32,
    pub cancelled: bool,
    cancel_at: Time,
    give_up_at: Time,
    reinvite_at: Time,
    hang_up_at: Time,
    /// The first is the call; further ones are forks that answered too late.
    dialogs: Vec<(Dialog, Vec<Acked>)>,
    pub reinvited: Option<Final>,
    pub bye: Option<Final>,
    bye_tries: u32,
}

/// An ACK sent for a 2xx, by the INVITE's CSeq.
type Acked = (u32, Packet);

impl Call {
    pub fn deadline(&self) -> Time {
        match self.stage {
            Stage::Inviting => self.cancel_at.min(self.give_up_at),
            Stage::Talking => self.reinvite_at.min(self.hang_up_at),
            Stage::Over => Time::FAR,
        }
    }

    pub fn forks(&self) -> usize {
        self.dialogs.len()
    }
}

impl Phone {
    /// Starts a call.
    pub fn call(&mut self, now: Time, spec: CallSpec) {
        let (call_id, tag) = (self.token("c"), self.token("f"));
        let cancel_at = now + spec.patience.unwrap_or(PATIENCE_MAX);
        self.calls.push(Call {
            spec,
            stage: Stage::Inviting,
            result: None,
            progress: false,
            call_id,
            tag,
            tries: 0,
            cseq: 0,
            cancelled: false,
            cancel_at,
            give_up_at: now + GIVE_UP,
            reinvite_at: Time::FAR,
            hang_up_at: Time::FAR,
            dialogs: Vec::new(),
            reinvited: None,
            bye: None,
            bye_tries: 0,
        });
        self.invite(now, self.calls.len() - 1, false);
    }

    fn invite(&mut self, now: Time, index: usize, fresh: bool) {
        let Some(call) = self.calls.get_mut(index) else { return };
        call.tries += 1;
        call.cseq += 1;
        let (spec, cseq) = (call.spec.clone(), call.cseq);
        let (call_id, tag, home) = (call.call_id.clone(), call.tag.clone(), self.profile.home);
        self.begin(now, Purpose::Invite(index), "INVITE", cseq, home, |phone, branch| {
            let uri = format!("sip:{}", spec.callee);
            let credentials = phone.credentials("INVITE", &uri, fresh);
            let lines = format!("Contact: <{}>\r\n{credentials}", phone.profile.contact());
            let from = format!("<sip:{}>;tag={tag}", phone.profile.aor());
            let (callee, talk) = (u8::from(spec.callee_hangs_up), spec.talk);
            let body = format!("{} {callee} {talk}{}", spec.number, " ".repeat(spec.padding));
            let (method, uri, to) = ("INVITE", &*uri, &*format!("<{uri}>"));
            Request {
                method,
                uri,
                branch,
                from: &from,
                to,
                call_id: &call_id,
                cseq,
                lines: &lines,
                body: &body,
            }
            .write(&phone.profile.sender())
        });
    }

    pub(super) fn progress(&mut self, now: Time, index: usize, _status: u16) {
        let Some(call) = self.calls.get_mut(index) else { return };
        call.progress = true;
        if call.cancelled && call.cancel_at == Time::FAR {
            self.send_cancel(now, index);
        }
    }

    /// A final response to the INVITE; a 2xx may come several times, and from several phones.
    pub(super) fn concluded(&mut self, now: Time, index: usize, message: &Message<'_>) {
        let status = message.status();
        let Some(call) = self.calls.get_mut(index) else { return };
        if status < 300 {
            return self.answered(now, index, message);
        }
        if call.stage != Stage::Inviting {
            return;
        }
        let again = matches!(status, 401 | 407) && call.tries < 4 && !call.cancelled;
        if again && self.learn(message) {
            return self.invite(now, index, true);
        }
        if let Some(call) = self.calls.get_mut(index) {
            call.result = Some(Final::Status(status));
            call.stage = Stage::Over;
        }
    }

    fn answered(&mut self, now: Time, index: usize, message: &Message<'_>) {
        let own = self.profile.aor();
        let Some(call) = self.calls.get_mut(index) else { return };
        let cseq = message.cseq();
        let tag = string(message.to_tag());
        if let Some((_, acks)) = call.dialogs.iter().find(|(d, _)| d.remote_tag == tag) {
            // A retransmission: its ACK was lost (13.2.2.4).
            self.out.extend(acks.iter().filter(|(n, _)| *n == cseq).map(|(_, p)| p.clone()));
            return;
        }
        let mut routes: Vec<String> = message.values(Name::RecordRoute).map(string).collect();
        routes.reverse();
        let dialog = Dialog {
            call_id: call.call_id.clone(),
            local: format!("<sip:{own}>;tag={}", call.tag),
            remote: message.header(Name::To).map_or(String::new(), |h| string(h.value)),
            local_tag: call.tag.clone(),
            remote_tag: tag,
            target: message.header(Name::Contact).map_or(String::new(), |h| uri_of(h.value)),
            routes,
            cseq,
        };
        call.dialogs.push((dialog.clone(), Vec::new()));
        let number = call.dialogs.len() - 1;
        self.send_ack(index, number, cseq);
        let Some(call) = self.calls.get_mut(index) else { return };
        if number > 0 || call.stage == Stage::Over {
            // Two phones answered, or the caller is gone: one call is enough.
            if let Some((d, _)) = call.dialogs.get_mut(number) {
                d.cseq += 1;
            }
            let cseq = dialog.cseq + 1;
            return self.within(now, Party::Stray(index, number), &dialog, "BYE", cseq, false);
        }
        call.result = Some(Final::Status(message.status()));
        call.stage = Stage::Talking;
        let talk = Duration::from_millis(call.spec.talk);
        if call.spec.reinvite && !call.cancelled {
            call.reinvite_at = now + talk / 3;
        }
        // If it is for the other end to hang up, this one does it much later, in case that got lost.
        let grace = if call.spec.callee_hangs_up { Duration::from_secs(60) } else { Duration::ZERO };
        call.hang_up_at = if call.cancelled { now } else { now + talk + grace };
    }

    fn send_ack(&mut self, index: usize, number: usize, cseq: u32) {
        let Some((dialog, _)) = self.calls.get(index).and_then(|c| c.dialogs.get(number)) else { return };
        let dialog = dialog.clone();
        let (branch, to) = (self.token("z9hG4bK"), self.next_hop(&dialog));
        let bytes = self.write_within(&dialog, "ACK", cseq, &branch, false);
        let packet = Packet { to, conn: None, bytes };
        self.out.push(packet.clone());
        if let Some((_, acks)) = self.calls.get_mut(index).and_then(|c| c.dialogs.get_mut(number)) {
            acks.push((cseq, packet));
        }
    }

    /// The INVITE got no final response.
    pub(super) fn no_answer(&mut self, index: usize, cseq: u32) {
        let Some(call) = self.calls.get_mut(index) else { return };
        if call.stage == Stage::Inviting && call.cseq == cseq {
            call.result = Some(Final::Timeout);
            call.stage = Stage::Over;
        }
    }

    fn send_cancel(&mut self, now: Time, index: usize) {
        let Some(call) = self.calls.get(index) else { return };
        let cseq = call.cseq;
        let invite = self.clients.iter().find(|c| c.purpose == Purpose::Invite(index) && c.cseq == cseq);
        let Some(invite) = invite.filter(|c| c.state == State::Proceeding) else { return };
        let (branch, to) = (invite.branch.clone(), invite.to);
        if self.clients.iter().any(|c| c.branch == branch && c.method == "CANCEL") {
            return;
        }
        let uri = format!("sip:{}", call.spec.callee);
        let from = format!("<sip:{}>;tag={}", self.profile.aor(), call.tag);
        let (aor, call_id) = (format!("<{uri}>"), call.call_id.clone());
        self.begin(now, Purpose::Cancel, "CANCEL", cseq, to, |phone, _| {
            let (method, uri, branch, from, to) = ("CANCEL", &*uri, &*branch, &*from, &*aor);
            Request { method, uri, branch, from, to, call_id: &call_id, cseq, lines: "", body: "" }
                .write(&phone.profile.sender())
        });
        if let Some(cancel) = self.clients.last_mut() {
            // The branch of the INVITE (9.1).
            cancel.branch = branch;
        }
    }

    pub(super) fn calls_timeout(&mut self, now: Time) {
        for index in 0..self.calls.len() {
            let Some(call) = self.calls.get_mut(index) else { return };
            match call.stage {
                Stage::Inviting if call.give_up_at <= now => {
                    call.result = Some(if call.progress { Final::Hung } else { Final::Timeout });
                    call.stage = Stage::Over;
                    if !call.cancelled {
                        self.send_cancel(now, index);
                    }
                    self.forget_invite(index);
                }
                Stage::Inviting if call.cancel_at <= now => {
                    call.cancel_at = Time::FAR;
                    call.cancelled = true;
                    self.send_cancel(now, index);
                }
                Stage::Talking if call.reinvite_at <= now => {
                    call.reinvite_at = Time::FAR;
                    self.next_within(now, index, "INVITE", false);
                }
                Stage::Talking if call.hang_up_at <= now => {
                    call.hang_up_at = Time::FAR;
                    call.reinvite_at = Time::FAR;
                    self.next_within(now, index, "BYE", false);
                }
                _ => {}
            }
        }
    }

    fn forget_invite(&mut self, index: usize) {
        self.clients.retain(|c| c.purpose != Purpose::Invite(index));
    }

    /// The next request of the call's first dialog.
    fn next_within(&mut self, now: Time, index: usize, method: &'static str, fresh: bool) {
        let Some(call) = self.calls.get_mut(index) else { return };
        if method == "BYE" {
            call.bye_tries += 1;
        }
        let Some((dialog, _)) = call.dialogs.first_mut() else { return };
        dialog.cseq += 1;
        let (dialog, cseq) = (dialog.clone(), dialog.cseq);
        self.within(now, Party::Caller(index), &dialog, method, cseq, fresh);
    }

    /// A final response within a dialog.
    pub(super) fn within_answered(
        &mut self,
        now: Time,
        party: Party,
        cseq: u32,
        is_invite: bool,
        repeated: bool,
        message: &Message<'_>,
    ) {
        let status = message.status();
        let challenged = matches!(status, 401 | 407) && !repeated && self.learn(message);
        match party {
            Party::Caller(index) if is_invite => {
                if challenged {
                    return self.next_within(now, index, "INVITE", true);
                }
                if status < 300 {
                    self.send_ack(index, 0, cseq);
                }
                if let Some(call) = self.calls.get_mut(index) {
                    call.reinvited = Some(Final::Status(status));
                }
            }
            Party::Caller(index) => {
                let Some(call) = self.calls.get_mut(index) else { return };
                if challenged && call.bye_tries < 4 {
                    return self.next_within(now, index, "BYE", true);
                }
                call.bye = Some(Final::Status(status));
                call.stage = Stage::Over;
            }
            Party::Stray(index, number) => {
                let dialog = self.calls.get_mut(index).and_then(|c| c.dialogs.get_mut(number));
                let Some((dialog, _)) = dialog.filter(|_| challenged && cseq < 4) else { return };
                dialog.cseq += 1;
                let (dialog, cseq) = (dialog.clone(), dialog.cseq);
                self.within(now, party, &dialog, "BYE", cseq, true);
            }
            Party::Callee(index) => self.leg_bye_answered(now, index, status, challenged),
        }
    }

    /// A request within a dialog got no answer.
    pub(super) fn within_lost(&mut self, party: Party) {
        match party {
            Party::Caller(index) => {
                if let Some(call) = self.calls.get_mut(index).filter(|c| c.hang_up_at == Time::FAR) {
                    call.bye = Some(Final::Timeout);
                    call.stage = Stage::Over;
                }
            }
            Party::Stray(..) => {}
            Party::Callee(index) => self.leg_bye_lost(index),
        }
    }

    /// A BYE from the other end; false: no such dialog of this phone as a caller.
    pub(super) fn caller_hung_up(&mut self, message: &Message<'_>) -> bool {
        let (id, to, from) = (message.call_id(), message.to_tag(), message.from_tag());
        let found = self.calls.iter_mut().find_map(|c| {
            let d = c.dialogs.iter().position(|(d, _)| {
                d.call_id.as_bytes() == id && d.local_tag.as_bytes() == to && d.remote_tag.as_bytes() == from
            })?;
            Some((c, d))
        });
        let Some((call, number)) = found else { return false };
        if number == 0 {
            call.stage = Stage::Over;
            call.bye = call.bye.or(Some(Final::Status(200)));
        }
        true
    }
}
