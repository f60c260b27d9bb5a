//! How a call that fails takes leave of the other side.
//!
//! As SIPp's default behaviours have it: an unanswered INVITE is cancelled once a provisional response has
//! come, an answered one is acknowledged and ended with BYE, a refused one is acknowledged. Beyond SIPp,
//! the request is repeated until it is answered and the final response to a cancelled INVITE is
//! acknowledged, so that nobody at the other end is left waiting for it. The call has been counted as
//! failed by then.

use super::call::{Call, Doing};
use super::peer::LAST_CSEQ;
use super::player::Player;
use super::receive::plain_answer;
use super::{Moment, Retransmission};
use crate::metrics::{CallEnd, Failure};
use crate::scenario::{self, Lines, Side};
use crate::timers::{GIVE_UP, T4};
use sip_message::{Index, Limits, Message, Method, Name, NameAddr, Parsed, Response, parse, push_u64};
use wire::{Flow, Outbox, Time};

impl Player {
    /// A call failed. Tells the other side, if it waits for something; `unexpected` is the message that
    /// made it fail, if one did.
    pub(super) fn abort(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        (failure, why): (Failure, &str),
        unexpected: Option<&Message<'_>>,
        out: &mut Outbox,
    ) {
        let conduct = &moment.settings.conduct;
        let mut farewell = Vec::new();
        if conduct.defaults.bye
            && let Some(call) = self.calls.get(slot)
        {
            match call.identity.side {
                Side::Client => part(call, unexpected, &mut farewell, out),
                Side::Server => refuse(call, unexpected, &mut farewell),
            }
        }
        if farewell.is_empty() {
            return self.fail(moment, slot, failure, why);
        }
        let Some(call) = self.calls.at(slot) else { return };
        out.send(call.flow, 0, &farewell);
        let sent = call.sent.part(farewell);
        call.waiting.over();
        insist(call, moment.now, conduct.retransmission);
        self.recorder.failed(moment.now, call, &sent, why);
        self.calls.lingers();
        self.calls.arm(slot);
        self.ended(moment, slot, CallEnd::Failed(failure));
    }

    /// A message for a call that takes its leave.
    #[inline(never)]
    pub(super) fn leaving(
        &mut self,
        moment: Moment<'_>,
        slot: u32,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let (now, rules) = (moment.now, moment.settings.conduct.retransmission);
        let Some(call) = self.calls.at(slot) else { return };
        if message.is_request() {
            return match message.method() {
                Method::Ack if call.identity.side == Side::Server => self.end(moment, slot, CallEnd::Success),
                Method::Invite => self.send_again(moment, slot, out),
                _ => plain_answer(flow, message, out),
            };
        }
        match (message.method(), message.status()) {
            (_, ..200) => return,
            (Method::Invite, 200..300) => {
                // It was answered before the CANCEL came there.
                let mut bye = Vec::new();
                end_answered(call, message, &mut bye, out);
                out.send(call.flow, 0, &bye);
                call.sent.part(bye);
            }
            // It was refused within a session, and acknowledged; the BYE is under way.
            (Method::Invite, _) if call.sent.is(b"BYE") => return,
            (Method::Invite, _) => {
                acknowledge(call, message, out);
                call.sent.stop();
                call.cursor.doing = Doing::Leaving(now + T4);
                let mut bye = Vec::new();
                hang_up(call, &mut bye);
                if !bye.is_empty() {
                    out.send(call.flow, 0, &bye);
                    call.sent.part(bye);
                    insist(call, now, rules);
                }
            }
            // The CANCEL has arrived; what becomes of the INVITE is still to come.
            (Method::Cancel, 200..300) => call.sent.stop(),
            _ => return self.end(moment, slot, CallEnd::Success),
        }
        self.calls.arm(slot);
    }
}

/// What a caller has to say at the end: written to `farewell` if it is to be repeated until it is answered.
fn part(call: &Call, unexpected: Option<&Message<'_>>, farewell: &mut Vec<u8>, out: &mut Outbox) {
    let inviting = call.sent.is(b"INVITE");
    let answer = unexpected.filter(|m| inviting && !m.is_request() && m.method() == Method::Invite);
    if let Some(answer) = answer.filter(|answer| answer.status() >= 200) {
        if answer.status() < 300 {
            return end_answered(call, answer, farewell, out);
        }
        acknowledge(call, answer, out);
    } else if inviting && call.received.is_tried() {
        // Without a provisional response a CANCEL must not be sent (RFC 3261 section 9.1).
        return derive(call.sent.last(), &Derived { method: "CANCEL", ..Derived::default() }, farewell);
    }
    hang_up(call, farewell);
}

/// The message sent last is repeated until it is answered, for 64 T1 at most: so long is a request repeated,
/// or an answer to a cancelled INVITE awaited (RFC 3261 sections 17.1.2.2 and 9.1).
fn insist(call: &mut Call, now: Time, rules: Retransmission) {
    call.cursor.doing = Doing::Leaving(now + GIVE_UP);
    call.sent.insist(now, rules, call.flow.transport.is_reliable());
}

/// The BYE of a session that is up, also where an INVITE within it was refused: it goes on as it was (RFC
/// 3261 section 14.1).
fn hang_up(call: &Call, farewell: &mut Vec<u8>) {
    let ack = call.sent.acks().last();
    if call.seen.is_up() && !ack.is_empty() && !call.sent.is(b"BYE") {
        // The ACK has route set, target and tags.
        let last = scenario::request_cseq(call.sent.last()).max(scenario::request_cseq(ack));
        let cseq = last.map(|number| number.saturating_add(1));
        derive(ack, &Derived { method: "BYE", cseq, branch: b"-b", ..Derived::default() }, farewell);
    }
}

/// What a callee has to say: the final response to an INVITE that has none.
fn refuse(call: &Call, unexpected: Option<&Message<'_>>, farewell: &mut Vec<u8>) {
    let (invite, sent) = (call.received.last(), call.sent.last());
    if !invite.starts_with(b"INVITE ") || !(sent.is_empty() || sent.starts_with(b"SIP/2.0 1")) {
        return;
    }
    let cancelled = unexpected.is_some_and(|m| m.is_request() && m.method() == Method::Cancel);
    let status = if cancelled { 487 } else { 500 };
    let mut index = Index::new();
    let Parsed::Good(invite) = parse(invite, &mut index, &Limits::default()) else { return };
    // The tag that the caller has seen.
    let mut tag = Vec::new();
    if let Some(to) = Lines::of(sent).find(|line| Name::from_bytes(line.name()) == Name::To)
        && let Ok(to) = NameAddr::parse(to.value())
    {
        tag.extend_from_slice(to.param(b"tag").unwrap_or_default());
    }
    let tag = if tag.is_empty() { b"load" } else { tag.as_slice() };
    Response { tag, ..Response::new(status) }.write(&invite, farewell);
}

/// Acknowledges a 2xx and ends the call that it began.
fn end_answered(call: &Call, answer: &Message<'_>, bye: &mut Vec<u8>, out: &mut Outbox) {
    let (mut routes, mut uri) = (Vec::new(), Vec::new());
    scenario::learn_routes(answer, &mut routes);
    scenario::learn_next_url(answer, &mut uri);
    let to = answer.header(Name::To).map(|to| to.value);
    let number = answer.cseq();
    let mut derived = Derived {
        method: "ACK",
        uri: (!uri.is_empty()).then_some(&uri),
        to,
        routes: Some(&routes),
        branch: b"-a",
        cseq: Some(number),
    };
    let mut ack = Vec::new();
    derive(call.sent.last(), &derived, &mut ack);
    out.send(call.flow, 0, &ack);
    (derived.method, derived.branch, derived.cseq) = ("BYE", b"-b", Some(number.saturating_add(1)));
    derive(call.sent.last(), &derived, bye);
}

/// Acknowledges a final response other than 2xx: in the transaction of the INVITE or its CANCEL, whichever
/// was sent last (RFC 3261 section 17.1.1.3).
fn acknowledge(call: &Call, answer: &Message<'_>, out: &mut Outbox) {
    let mut ack = Vec::new();
    let to = answer.header(Name::To).map(|to| to.value);
    derive(call.sent.last(), &Derived { method: "ACK", to, ..Derived::default() }, &mut ack);
    out.send(call.flow, 0, &ack);
}

/// What is different in a request made from another one.
#[derive(Clone, Copy, Default)]
struct Derived<'a> {
    method: &'a str,
    /// Otherwise that of the request.
    uri: Option<&'a Vec<u8>>,
    to: Option<&'a [u8]>,
    /// The value of the Route; without it, those of the request.
    routes: Option<&'a Vec<u8>>,
    /// Added to the branch; empty in the transaction of the request.
    branch: &'a [u8],
    cseq: Option<u32>,
}

/// Writes a request without body, made from one that was sent.
fn derive(base: &[u8], with: &Derived<'_>, out: &mut Vec<u8>) {
    let line = base.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
    let uri = line.split(|&b| b == b' ').nth(1).unwrap_or_default();
    for text in [with.method.as_bytes(), b" ", with.uri.map_or(uri, |uri| uri), b" SIP/2.0\r\n"] {
        out.extend_from_slice(text);
    }
    let mut header = |name: &str, value: &[u8]| {
        for text in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(text);
        }
    };
    if let Some(routes) = with.routes.filter(|routes| !routes.is_empty()) {
        header("Route", routes);
    }
    for line in Lines::of(base) {
        let value = line.value();
        match Name::from_bytes(line.name()) {
            Name::Via => {
                let at = memchr::memmem::find(value, b";branch=").map_or(value.len(), |at| at + 8);
                let (before, branch) = value.split_at(at);
                let end = branch.iter().position(|b| matches!(b, b';' | b',' | b' ')).unwrap_or(branch.len());
                let (branch, after) = branch.split_at(end);
                header("Via", &[before, branch, with.branch, after].concat());
            }
            Name::To => header("To", with.to.unwrap_or(value)),
            Name::From => header("From", value),
            Name::CallId => header("Call-ID", value),
            Name::MaxForwards => header("Max-Forwards", value),
            Name::Route if with.routes.is_none() => header("Route", value),
            Name::CSeq => {
                let number = with.cseq.or_else(|| scenario::request_cseq(base)).unwrap_or(1);
                let mut cseq = Vec::new();
                push_u64(number.min(LAST_CSEQ).into(), &mut cseq);
                header("CSeq", &[&cseq, b" ".as_slice(), with.method.as_bytes()].concat());
            }
            // Whoever was believed the INVITE is believed its ACK and CANCEL (RFC 3261 section 22.1).
            Name::Authorization if with.method != "BYE" => header("Authorization", value),
            Name::ProxyAuthorization if with.method != "BYE" => header("Proxy-Authorization", value),
            _ => {}
        }
    }
    header("Content-Length", b"0");
    out.extend_from_slice(b"\r\n");
}
