//! Responses of this server itself.

use crate::admitted::Admitted;
use crate::overload::{Wish, fill, take_out};
use crate::records::Recorded;
use crate::services::{Counter, Services};
use crate::shortage::Shortage;
use crate::site::domain;
use crate::step::Step;
use core::hash::Hasher;
use sip_message::{Message, Response, hex16, push_u64};
use sip_proxy::token::Role;
use sip_proxy::transport::{always_rport, repays, reply_flow};
use sip_transaction::{Payer, Prepared, ServerId};
use wire::Flow;

impl<S: Services> Step<'_, S> {
    /// Answers without keeping anything (section 8.2.7): for what is wrong, unproven or too much. The
    /// To tag is a function of the request, so that retransmissions get the same.
    pub(crate) fn refuse(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        status: u16,
        reason: &[u8],
        extra: &[u8],
    ) {
        let tag = self.stateless_tag(request);
        let source = Some((flow.remote, always_rport(flow, request)));
        let oc = self.oc_of(flow, request);
        let sent = self.out.send_with(reply_flow(flow, request), 0, |buf| {
            with_feedback(oc, buf, |buf| {
                Response { reason, tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        if !repays(flow, request, sent.len()) {
            self.out.take_back();
            self.layer.withheld();
        }
    }

    /// Answers a request that was admitted, without forwarding it. If its credentials were judged, they
    /// are used up, so that a retransmission would be challenged anew: the answer is remembered in a
    /// server transaction. Otherwise nothing is kept.
    pub(crate) fn decline(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        (status, reason): (u16, &[u8]),
        extra: &[u8],
    ) {
        // Within a dialog this says nothing of the call: the other end has heard nothing of it.
        let call = self.recorded(flow, request, a.dialog.as_ref()).and_then(Recorded::call);
        let stranger = a.caller.role == Role::Stranger;
        // A second record for each retransmission would be wrong too.
        let kept = call.filter(|_| !stranger);
        if let Some(name) = call.filter(|_| stranger) {
            self.record_stranger(flow, request, a, (name, status));
        }
        if kept.is_none() && a.caller.realm.is_none() {
            return self.refuse(flow, request, status, reason, extra);
        }
        if self.answer_once(flow, request, (status, reason), extra)
            && let Some(name) = kept
        {
            self.record_refused(flow, request, a, (name, status));
        }
    }

    /// Answers in a server transaction of its own, so that a retransmission gets the same answer. False if
    /// there was no room for one: then the answer is not remembered.
    pub(crate) fn answer_once(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        (status, reason): (u16, &[u8]),
        extra: &[u8],
    ) -> bool {
        let Ok(id) = self.layer.accept(self.now, request, reply_flow(flow, request), Payer::PROVEN) else {
            self.refuse(flow, request, status, reason, extra);
            return false;
        };
        let tag = self.server_tag(id);
        let source = Some((flow.remote, always_rport(flow, request)));
        let oc = self.oc_of(flow, request);
        self.layer.respond(self.now, id, status, self.out, |buf| {
            with_feedback(oc, buf, |buf| {
                Response { reason, tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        self.keep_response();
        true
    }

    /// Answers in a server transaction. `always_rport`: `rport` goes unasked into the Via.
    pub(crate) fn answer(
        &mut self,
        id: ServerId,
        request: &Message<'_>,
        (flow, always_rport): (Flow, bool),
        status: u16,
        extra: &[u8],
    ) {
        // A 100 has none (section 8.2.6.2).
        let tag = if status == 100 { [0; 16] } else { self.server_tag(id) };
        let source = Some((flow.remote, always_rport));
        let oc = self.oc_of(flow, request);
        self.layer.respond(self.now, id, status, self.out, |buf| {
            with_feedback(oc, buf, |buf| {
                Response { tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        self.keep_response();
    }

    /// Rejects new work because there is no time (section 21.5.4).
    #[cold]
    pub(crate) fn shed(&mut self, flow: Flow, request: &Prepared<'_>) {
        self.site.services().count(Counter::Refused);
        // A proxy would send us nothing at all for so long, of anybody (RFC 7339 section 5.10.2 asks for
        // none); a sender that adds a second Via is one.
        let proxy = request.via_count() > 1 || self.site.trunk_of(flow).is_some();
        let again = if proxy { Vec::new() } else { retry_after(self.overload.retry_after()) };
        self.refuse(flow, request, 503, b"", &again);
    }

    /// Rejects a request because there is no room.
    #[cold]
    pub(crate) fn crowded(&mut self, flow: Flow, request: &Prepared<'_>, kind: Shortage) {
        self.note_shortage(flow, request, kind);
        self.refuse(flow, request, 503, b"", RETRY_AFTER);
    }

    /// Counts and reports a request for which there is no room.
    pub(crate) fn note_shortage(&mut self, flow: Flow, request: &Message<'_>, kind: Shortage) {
        self.site.services().count(Counter::Overload);
        let source = self.site.settings().auth.source(flow.remote.ip(), request);
        if self.shortages.note(self.now, kind, source) {
            self.site.services().crowded(kind, source);
        }
    }

    /// The tag of stateless answers to this request, and of the ACK that follows: a function of what an
    /// INVITE and its ACK have in common, which the transaction layer has hashed already.
    pub(crate) fn stateless_tag(&mut self, request: &Prepared<'_>) -> [u8; 16] {
        let hash = self.layer.hash_of(request);
        let mut tag = self.site.keyed(domain::TAG);
        tag.write_u64(hash);
        // Tags of server transactions are of a number alone.
        tag.write_u8(0);
        hex16(tag.finish())
    }

    /// A To tag for the answers of a server transaction.
    pub(crate) fn server_tag(&self, id: ServerId) -> [u8; 16] {
        let mut hash = self.site.keyed(domain::TAG);
        hash.write_u64(id.as_u64());
        hex16(hash.finish())
    }
}

/// Writes a response, with our feedback if its receiver gets any.
#[inline]
pub(crate) fn with_feedback(oc: Option<Wish>, buf: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = buf.len();
    write(buf);
    if let Some(wish) = oc {
        fill(buf, start, &wish);
    }
}

/// Writes a response of another element, whose feedback is taken out where its receiver may believe it.
#[inline]
pub(crate) fn with_own_feedback_only(
    oc: Option<Wish>,
    knows: bool,
    buf: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = buf.len();
    with_feedback(oc, buf, write);
    if knows && oc.is_none() {
        take_out(buf, start);
    }
}

/// When to come back to a server that is full.
pub(crate) const RETRY_AFTER: &[u8] = b"Retry-After: 5\r\n";

/// `Retry-After: n`
pub(crate) fn retry_after(seconds: u32) -> Vec<u8> {
    let mut line = b"Retry-After: ".to_vec();
    push_u64(seconds.into(), &mut line);
    line.extend_from_slice(b"\r\n");
    line
}
