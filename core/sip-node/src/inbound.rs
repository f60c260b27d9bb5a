//! Requests as they come in: what is refused without memory of it, ACK and CANCEL.

use crate::admitted::{Admitted, Way};
use crate::node::Node;
use crate::overload::{Verdict, Wish, fill, take_out};
use crate::proxied::ProxiedId;
use crate::services::{Counter, Services};
use crate::site::domain;
use core::hash::Hasher;
use core::net::SocketAddr;
use sip_message::{Message, Method, Response, hex16, push_u64};
use sip_proxy::transport::{always_rport, repays, reply_flow};
use sip_transaction::{Inbound, Payer, Prepared, ServerId};
use wire::{Flow, Outbox, Time};

impl<S: Services> Node<S> {
    /// A request without a flaw.
    pub(crate) fn request(&mut self, now: Time, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        if self.overload.sheds() && matches!(self.verdict, Some(Verdict::Refuse | Verdict::Drop)) {
            return self.unwanted(now, flow, request, out);
        }
        // Whether it is new, and who is called, is to be read where nobody has looked for long. All else that
        // can be done before is done while that is fetched.
        let callee = self.ingress().expect_callee(request);
        let request = self.layer.prepare(request);
        let way = self.ingress().way(&request);
        if let Some(callee) = callee {
            self.site.services().fetch(callee);
        }
        let found = self.layer.absorb(now, &request, reply_of(flow, &request), out);
        match found {
            None => self.new_request(now, flow, &request, way, out),
            Some(found) => self.found(now, flow, &request, found, way, out),
        }
        self.layer.finish(request);
    }

    /// A request that is not taken on in an overload, unless it belongs to one that was. Which way it would
    /// go is not read.
    #[cold]
    fn unwanted(&mut self, now: Time, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        let request = self.layer.prepare(request);
        match self.layer.absorb(now, &request, reply_of(flow, &request), out) {
            None if self.verdict == Some(Verdict::Refuse) => self.shed(flow, &request, out),
            None => self.site.services().count(Counter::Unanswered),
            Some(found) => self.found(now, flow, &request, found, self.ingress().way(&request), out),
        }
        self.layer.finish(request);
    }

    /// A request that belongs to something, or could.
    fn found(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        found: Inbound,
        way: Way<'_>,
        out: &mut Outbox,
    ) {
        match found {
            Inbound::AckOutside => self.ack(now, flow, request, way, out),
            Inbound::Cancel { id, invite, matched } => {
                self.cancel(now, flow, request, (id, invite, matched), way, out);
            }
            Inbound::Full(short) => self.crowded(now, flow, request, short.into(), out),
            Inbound::Absorbed | Inbound::New(_) => {}
        }
    }

    /// Answers without keeping anything (section 8.2.7): for what is wrong, unproven or too much. The
    /// To tag is a function of the request, so that retransmissions get the same.
    pub(crate) fn refuse(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        status: u16,
        reason: &[u8],
        extra: &[u8],
        out: &mut Outbox,
    ) {
        let tag = self.stateless_tag(request);
        let source = Some((flow.remote, always_rport(flow, request)));
        let oc = self.oc_of(flow.remote, request);
        let sent = out.send_with(reply_flow(flow, request), 0, |buf| {
            told(oc, buf, |buf| {
                Response { reason, tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        if !repays(flow, request, sent.len()) {
            out.take_back();
            self.layer.withheld();
        }
    }

    /// Answers a request that was admitted, without forwarding it. If its credentials were judged, they
    /// are used up, so that a retransmission would be challenged anew: the answer is remembered in a
    /// server transaction. Otherwise nothing is kept.
    pub(crate) fn decline(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        (status, reason): (u16, &[u8]),
        extra: &[u8],
        out: &mut Outbox,
    ) {
        match a.caller.realm {
            Some(_) => self.answer_once(now, flow, request, (status, reason), extra, out),
            None => self.refuse(flow, request, status, reason, extra, out),
        }
    }

    /// Answers in a server transaction of its own, so that a retransmission gets the same answer.
    pub(crate) fn answer_once(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        (status, reason): (u16, &[u8]),
        extra: &[u8],
        out: &mut Outbox,
    ) {
        let Ok(id) = self.layer.accept(now, request, reply_flow(flow, request), Payer::PROVEN) else {
            return self.refuse(flow, request, status, reason, extra, out);
        };
        let tag = self.server_tag(id);
        let source = Some((flow.remote, always_rport(flow, request)));
        let oc = self.oc_of(flow.remote, request);
        self.layer.respond(now, id, status, out, |buf| {
            told(oc, buf, |buf| {
                Response { reason, tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        self.letters.keep(&mut self.layer, out);
    }

    /// Refuses new work for want of time (section 21.5.4).
    #[cold]
    pub(crate) fn shed(&mut self, flow: Flow, request: &Prepared<'_>, out: &mut Outbox) {
        self.site.services().count(Counter::Refused);
        // A proxy would send us nothing at all for so long, of anybody (RFC 7339 section 5.10.2 asks for
        // none); whoever adds a second Via is one.
        let proxy = request.via_count() > 1 || self.site.settings().trunk_of(flow.remote.ip()).is_some();
        let again = if proxy { Vec::new() } else { retry_after(self.overload.retry_after()) };
        self.refuse(flow, request, 503, b"", &again, out);
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

    /// Answers in a server transaction.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        id: ServerId,
        request: &Message<'_>,
        source: Option<(SocketAddr, bool)>,
        status: u16,
        extra: &[u8],
        out: &mut Outbox,
    ) {
        // A 100 has none (section 8.2.6.2).
        let tag = if status == 100 { [0; 16] } else { self.server_tag(id) };
        let oc = source.and_then(|(remote, _)| self.oc_of(remote, request));
        self.layer.respond(now, id, status, out, |buf| {
            told(oc, buf, |buf| {
                Response { tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        self.letters.keep(&mut self.layer, out);
    }

    /// An ACK that belongs to no failed INVITE of ours: for a 2xx, to be routed; or for a failure that
    /// was answered without memory, which ends here.
    fn ack(&mut self, now: Time, flow: Flow, request: &Prepared<'_>, way: Way<'_>, out: &mut Outbox) {
        if request.to_tag().len() == 16 && request.to_tag() == self.stateless_tag(request) {
            return;
        }
        if request.max_forwards() == Some(0) {
            return self.site.services().count(Counter::Garbage);
        }
        self.forward_unproven(now, flow, request, way, out);
    }

    /// RFC 3261 sections 9.2 and 16.10.
    fn cancel(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        (id, invite, matched): (ServerId, Option<ServerId>, bool),
        way: Way<'_>,
        out: &mut Outbox,
    ) {
        let source = Some((flow.remote, always_rport(flow, request)));
        // Only who sent a request may cancel it: a CANCEL cannot be challenged (section 22.1).
        let same_peer = |f: Flow| f.remote.ip().to_canonical() == flow.remote.ip().to_canonical();
        let matched = matched && invite.and_then(|i| self.layer.reply_of(i)).is_none_or(same_peer);
        if !matched {
            // Anybody can send these; they are worth no memory.
            self.layer.abandon_server(id);
            if self.site.settings().proxy.mode == crate::settings::Mode::Stateless {
                // It has not passed the checks that other requests pass (section 16.3 step 3).
                if request.max_forwards() == Some(0) {
                    return self.refuse(flow, request, 483, b"", b"", out);
                }
                return self.forward_unproven(now, flow, request, way, out);
            }
            return self.refuse(flow, request, 481, b"", b"", out);
        }
        // The tag of what we may answer the cancelled request with (9.2).
        let tag = self.server_tag(invite.unwrap_or(id));
        self.layer.respond(now, id, 200, out, |buf| {
            Response { tag: &tag, source, ..Response::new(200) }.write(request, buf);
        });
        let Some(invite) = invite.filter(|&i| self.layer.is_answered(i) == Some(false)) else { return };
        let Some(user) = self.layer.user_of(invite) else { return };
        let (proxied, _) = ProxiedId::split(user);
        self.cancel_proxied(now, proxied, request, out);
    }
}

/// Where answers go, as far as that matters to transactions here: only if they answer a CANCEL themselves.
fn reply_of(flow: Flow, request: &Message<'_>) -> Flow {
    if request.method() == Method::Cancel { reply_flow(flow, request) } else { flow }
}

/// Writes a response and, where its receiver is to be told of our load, tells it.
#[inline]
pub(crate) fn told(oc: Option<Wish>, buf: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = buf.len();
    write(buf);
    if let Some(wish) = oc {
        fill(buf, start, &wish);
    }
}

/// The same with a response of somebody else, whose word on load is taken out where its receiver may believe
/// it.
#[inline]
pub(crate) fn passed_on(oc: Option<Wish>, knows: bool, buf: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = buf.len();
    told(oc, buf, write);
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
