//! An INVITE that two nodes have: the one that was silent may wake up and answer after all.
//!
//! The caller must not learn of two. Who says yes first has the call. A node that had the INVITE before and
//! says anything but 5xx has it again if the other one has said nothing yet; where the caller has cancelled,
//! any refusal will do. Else, if it says something provisional, it is cancelled (RFC 3261 section 9.1: not
//! before it says something); if it refuses, that is acknowledged here (17.1.1.3), and it never gets that
//! INVITE again; if it accepts after another node has answered, its dialog is ended at once (ACK and BYE).
//! All of these are written as the caller would write them, and take the way that the caller's would.

use crate::failover::state::Failover;
use crate::failover::store::{KeptMessage, MessageKey};
use crate::forwarding::step::Step;
use crate::hash::fnv1a;
use crate::message::wait;
use crate::timers::{GIVE_UP, T1};
use crate::{Assigned, CallKey, Calls, MethodClass, NodeIndex, Settings};
use sip_message::{Message, Name, NameAddr, Parsed, Uri, parse};
use wire::{Flow, Time};

impl Failover {
    /// Whether a response is to something that was written here, and so of no interest to the caller.
    pub(crate) fn is_own_affair(
        &mut self,
        calls: &Calls,
        call: CallKey,
        (id, class): (u64, MethodClass),
        node: NodeIndex,
        status: u16,
    ) -> bool {
        if !matches!(class, MethodClass::Cancel | MethodClass::Bye) {
            return false;
        }
        let own = self.kept.find(id, class, KeptMessage::Own(node));
        if let Some(at) = own.filter(|_| status >= 200) {
            self.kept.forget(at);
        }
        if class == MethodClass::Cancel && status >= 200 {
            self.kept.told(id, node);
        }
        // A CANCEL of ours and one of the caller's to one node are the same to it: it answers both at once.
        let wanted = class == MethodClass::Cancel && calls.is_cancelled_at(call, id, node);
        !wanted && (own.is_some() || (class == MethodClass::Cancel && self.kept.has_left(id, node)))
    }

    /// A node that had an INVITE before answers it. Says whether it has the call by that.
    pub(crate) fn answered_late(
        &mut self,
        step: &mut Step<'_>,
        id: u64,
        node: NodeIndex,
        response: &Message<'_>,
    ) -> bool {
        let Some(at) = self.kept.find(id, MethodClass::Invite, KeptMessage::ToNode) else { return false };
        let Some(entry) = invariant::some!(self.kept.get(at), "a message that was found is stored") else {
            return false;
        };
        let alerted = entry.alerted;
        let (call, settled, status) = (entry.key.call, entry.settled, response.status());
        step.forwarder.cluster().heard(step.now, node);
        let heard = step.dispatcher.calls().waiting(call, id, MethodClass::Invite).is_some_and(|w| w.heard);
        let (barred, cancelled) = (
            step.dispatcher.calls().is_barred(call, id, node),
            step.dispatcher.calls().is_cancelled(call, id),
        );
        // Of what is over anybody along the way may have a copy.
        if status == 503 && !settled && !barred {
            step.dispatcher.overloaded(step.now, node, wait(response, MethodClass::Invite));
        }
        // One that was only a little late, where nobody else has said anything: that may never come. A server
        // that cannot do it leaves it to the other, which perhaps can.
        let wanted = match status {
            ..200 => !cancelled && !barred,
            // The end of what its caller has cancelled is all that the caller waits for.
            _ if cancelled => true,
            // A phone that rings for what it got by another node says so (section 8.2.2.2).
            482 if alerted => false,
            _ => !barred && !(500..600).contains(&status),
        };
        let late = wanted && !heard;
        if !settled
            && (late || (200..300).contains(&status))
            && let Some(before) = step.dispatcher.win_back(step.now, call, id, node)
        {
            if let Some(entry) = self.kept.get_mut(at) {
                entry.give_to(node);
            }
            // Who has said nothing yet is cancelled when it does.
            if heard {
                self.withdraw(step, at, before, None);
            }
            return true;
        }
        let owed = self.kept.get(at).is_some_and(|entry| entry.rung().next().is_some());
        self.withdraw(step, at, node, Some(response));
        if settled && !owed {
            // The first who rings only now: it is seen to that it knows.
            self.over(step, at);
        }
        false
    }

    /// Takes an INVITE that is kept away from a node, as what it said asks for; `None`: it said something
    /// provisional.
    pub(crate) fn withdraw(
        &mut self,
        step: &mut Step<'_>,
        at: u32,
        node: NodeIndex,
        response: Option<&Message<'_>>,
    ) {
        let entry = invariant::some!(self.kept.get(at), "a withdrawn message is stored");
        let Some((call, id)) = entry.map(|entry| (entry.key.call, entry.key.id)) else { return };
        match response.filter(|r| r.status() >= 200) {
            None => {
                step.dispatcher.calls_mut().bar(call, id, node);
                self.with_kept(step, at, |this, step, from, invite| {
                    let cancel = as_caller(b"CANCEL", invite, None, &[], None);
                    this.send_as_caller(step, from, &cancel, node, true);
                });
            }
            Some(refusal) if refusal.status() >= 300 => {
                step.dispatcher.calls_mut().bar(call, id, node);
                self.kept.forget_by(id, MethodClass::Cancel, KeptMessage::Own(node));
                self.acknowledge(step, at, node, refusal);
            }
            Some(yes) => {
                self.with_kept(step, at, |this, step, from, invite| {
                    this.end_dialog(step, from, invite, yes, node);
                });
            }
        }
        step.forwarder.counts.withdrawn += 1;
        let rings = response.is_none_or(|r| r.status() < 200);
        if let Some(entry) = self.kept.get_mut(at) {
            entry.mark(node, rings);
        }
    }

    /// ACK for a refusal of an INVITE that is kept, of which the caller does not hear (RFC 3261 section
    /// 17.1.1.3).
    pub(crate) fn acknowledge(
        &mut self,
        step: &mut Step<'_>,
        at: u32,
        node: NodeIndex,
        refusal: &Message<'_>,
    ) {
        self.with_kept(step, at, |this, step, from, invite| {
            let ack = as_caller(b"ACK", invite, Some(refusal), &[], None);
            this.send_as_caller(step, from, &ack, node, false);
        });
    }

    /// ACK and BYE for a dialog that the caller does not know (RFC 3261 sections 13.2.2.4 and 15.1.1).
    fn end_dialog(
        &mut self,
        step: &mut Step<'_>,
        from: Flow,
        invite: &Message<'_>,
        yes: &Message<'_>,
        node: NodeIndex,
    ) {
        let routes = routes_beyond(step.forwarder.settings(), invite, yes);
        // Several dialogs of one INVITE may have to be ended, at several nodes and at one that forks.
        let mut which = step.forwarder.cluster().id(node).to_be_bytes().to_vec();
        which.extend_from_slice(yes.to_tag());
        let suffix = format!("-lb{:016x}", fnv1a(&which));
        let ack = as_caller(b"ACK", invite, Some(yes), &routes, Some(suffix.as_bytes()));
        self.send_as_caller(step, from, &ack, node, false);
        let bye = as_caller(b"BYE", invite, Some(yes), &routes, Some(suffix.as_bytes()));
        self.send_as_caller(step, from, &bye, node, true);
    }

    /// Sends a request that was written as the caller would have; one that is to be kept is repeated until
    /// answered.
    fn send_as_caller(&mut self, step: &mut Step<'_>, from: Flow, text: &[u8], node: NodeIndex, keep: bool) {
        let (mut index, limits) = (step.forwarder.take_index(), step.forwarder.settings().message);
        if let Parsed::Good(message) = parse(text, &mut index, &limits) {
            self.send_written(step, (from, &message), node, keep);
        }
        step.forwarder.return_index(index);
    }

    fn send_written(
        &mut self,
        step: &mut Step<'_>,
        (from, message): (Flow, &Message<'_>),
        node: NodeIndex,
        keep: bool,
    ) {
        let Ok(checked) = step.forwarder.check(from, message) else { return };
        if keep {
            let (class, what) = (MethodClass::of(message.method()), KeptMessage::Own(node));
            if self.kept.find(checked.id, class, what).is_some() {
                // It is repeated until it is answered.
                return;
            }
            let key = MessageKey { what, call: checked.call, id: checked.id, class };
            if let Some(at) = self.kept.keep(key, from, message.bytes(), step.now + GIVE_UP) {
                return self.begin_own(step, (from, message), node, at);
            }
            // Without room to keep it, it is sent once.
        }
        let assigned = Assigned { node, again: false, large: false };
        let way = step.forwarder.way(assigned, from.listener);
        step.forwarder.forward(
            step.dispatcher.calls(),
            from,
            message,
            &checked,
            (assigned, way, 0),
            step.out,
        );
    }

    /// Sends a request of our own that is kept at `at` for the first time.
    fn begin_own(
        &mut self,
        step: &mut Step<'_>,
        (from, message): (Flow, &Message<'_>),
        node: NodeIndex,
        at: u32,
    ) {
        let lossy =
            step.forwarder.cluster().node(node).is_some_and(|n| n.transport.is_none_or(|t| !t.is_reliable()));
        if let Some(entry) = self.kept.get_mut(at) {
            entry.repeat = if lossy { step.now + T1 } else { Time::FAR };
        }
        self.kept.arm(at, step.now + if lossy { T1 } else { GIVE_UP });
        self.send_own(step, from, message, node, at);
    }

    /// Sends a request of our own that is kept at `at`.
    pub(crate) fn send_own(
        &mut self,
        step: &mut Step<'_>,
        from: Flow,
        message: &Message<'_>,
        node: NodeIndex,
        at: u32,
    ) {
        let Ok(checked) = step.forwarder.check(from, message) else { return };
        let assigned = Assigned { node, again: false, large: false };
        let way = step.forwarder.way(assigned, from.listener);
        let token = way.filter(|way| way.transport.is_reliable()).map_or(0, |_| self.kept.token(at));
        step.forwarder.forward(
            step.dispatcher.calls(),
            from,
            message,
            &checked,
            (assigned, way, token),
            step.out,
        );
    }
}

/// The route set of the dialog beyond us, nearest first (12.1.2): what was written into the response's
/// Record-Route after our own.
fn routes_beyond<'a>(settings: &Settings, invite: &Message<'_>, yes: &Message<'a>) -> Vec<&'a [u8]> {
    let ours = |value: &&[u8]| {
        let uri = NameAddr::parse(value).ok().and_then(|addr| Uri::parse(addr.uri).ok());
        uri.is_some_and(|uri| settings.is_self(&uri))
    };
    let all: Vec<&[u8]> = yes.values(Name::RecordRoute).collect();
    let before = invite.values(Name::RecordRoute).count();
    let beyond = all.iter().position(ours).unwrap_or(all.len().saturating_sub(before));
    all.into_iter().take(beyond).rev().collect()
}

/// A request of the caller of `invite`: within its transaction (CANCEL, ACK of a refusal) with the same Via,
/// Request-URI and routes, or `beyond` it, in the dialog that `response` made, with this at the end of the
/// branch.
fn as_caller(
    method: &[u8],
    invite: &Message<'_>,
    response: Option<&Message<'_>>,
    routes: &[&[u8]],
    beyond: Option<&[u8]>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| text.extend_from_slice(part));
    let contact = response.filter(|_| beyond.is_some()).and_then(|r| r.values(Name::Contact).next());
    let contact = contact.and_then(|value| NameAddr::parse(value).ok()).map(|addr| addr.uri);
    put(&[method, b" ", contact.unwrap_or(invite.request_uri()), b" SIP/2.0\r\nVia: "]);
    let via = invite.via();
    let end = invite.range_of(via.branch).end.saturating_sub(invite.range_of(via.raw).start);
    match (via.raw.split_at_checked(end).filter(|_| !via.branch.is_empty()), beyond) {
        (Some((head, tail)), Some(suffix)) => put(&[head, suffix, method, tail]),
        _ => put(&[via.raw]),
    }
    put(&[b"\r\nMax-Forwards: 70\r\n"]);
    match beyond.is_some() {
        true => routes.iter().for_each(|route| put(&[b"Route: ", route, b"\r\n"])),
        false => invite.values(Name::Route).for_each(|route| put(&[b"Route: ", route, b"\r\n"])),
    }
    let line = |message: &Message<'_>, name| message.header(name).map_or(&b""[..], |h| h.value).to_vec();
    let to = line(response.unwrap_or(invite), Name::To);
    put(&[b"From: ", &line(invite, Name::From), b"\r\nTo: ", &to, b"\r\nCall-ID: ", invite.call_id()]);
    let mut number = Vec::with_capacity(10);
    let cseq = u64::from(invite.cseq()) + u64::from(method == b"BYE");
    sip_message::push_u64(cseq, &mut number);
    put(&[b"\r\nCSeq: ", &number, b" ", method, b"\r\nContent-Length: 0\r\n\r\n"]);
    text
}
