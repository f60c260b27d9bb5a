//! Answers of registrations that wait for the end of the round, so that one write keeps the changes of all of
//! them.

use crate::replies::{retry_after, with_feedback};
use crate::services::{Counter, Services, StoreDown};
use crate::step::Step;
use sip_message::Response;
use sip_proxy::transport::{always_rport, reply_flow};
use sip_registrar::Reply;
use sip_transaction::{Payer, Prepared, ServerId};
use std::ops::Range;
use wire::Flow;

/// Answers of one round beyond which no room is kept for the next.
const ROOM: usize = 256;
/// The same in bytes.
const BYTES: usize = 256 << 10;
/// The end of each answer.
const TAIL: &[u8] = b"Content-Length: 0\r\n\r\n";

/// What waits. A round has an end, so there is never more than one round takes in.
#[derive(Default)]
pub(super) struct Promised {
    answers: Vec<Answer>,
    /// All of them, one after the other.
    bytes: Vec<u8>,
}

/// One 200.
struct Answer {
    to: Receiver,
    /// Its place in the bytes.
    at: Range<usize>,
    /// Bytes of the header fields of the registrar, which stand before [`TAIL`].
    extra: usize,
    /// How long its connection matters, seconds; 0: not for it.
    keeps: u32,
}

/// The receiver of an answer.
#[derive(Clone, Copy)]
enum Receiver {
    /// A server transaction, which repeats it.
    Transaction(ServerId),
    /// There was no room for one.
    Flow(Flow),
}

impl Promised {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Keeps the 200 of a registration for the end of the round.
    pub(super) fn add<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        reply: &Reply,
        keeps: u32,
    ) {
        if self.bytes.len() >= BYTES {
            self.answer(step);
        }
        let back = reply_flow(flow, request);
        let (to, tag) = match step.layer.accept(step.now, request, back, Payer::PROVEN) {
            Ok(id) => (Receiver::Transaction(id), step.server_tag(id)),
            Err(_) => (Receiver::Flow(back), step.stateless_tag(request)),
        };
        let source = Some((flow.remote, always_rport(flow, request)));
        let oc = step.oc_of(flow, request);
        let Promised { answers, bytes } = self;
        let start = bytes.len();
        with_feedback(oc, bytes, |buf| {
            Response {
                reason: reply.reason,
                tag: &tag,
                source,
                extra: &reply.headers,
                ..Response::new(reply.status)
            }
            .write(request, buf);
        });
        answers.push(Answer { to, at: start..bytes.len(), extra: reply.headers.len(), keeps });
    }

    /// Has the changes of the round written, then answers: 200, or 503 if they could not be written and that
    /// matters.
    pub(super) fn answer<S: Services>(&mut self, step: &mut Step<'_, S>) {
        let kept = step.site.services().keep();
        for Answer { to, at, extra, keeps } in &self.answers {
            let Some(answer) = self.bytes.get(at.clone()) else { continue };
            let (status, counter) = match kept {
                Ok(()) => (200, Counter::Registered),
                Err(_) => (503, Counter::RegisterStore),
            };
            step.site.services().count(counter);
            let write = |buf: &mut Vec<u8>| match kept {
                Ok(()) => buf.extend_from_slice(answer),
                Err(StoreDown { retry_after }) => refuse(answer, *extra, retry_after, buf),
            };
            let back = match *to {
                Receiver::Transaction(id) if *keeps != 0 => step.layer.reply_of(id),
                Receiver::Transaction(_) => None,
                Receiver::Flow(flow) => Some(flow),
            };
            let sent = match *to {
                Receiver::Transaction(id) => step.layer.respond(step.now, id, status, step.out, write),
                Receiver::Flow(flow) => !step.out.send_with(flow, 0, write).is_empty(),
            };
            if !sent {
                continue;
            }
            step.keep_response();
            if let Some(conn) = back.and_then(|flow| flow.conn)
                && kept.is_ok()
                && *keeps != 0
            {
                step.out.keeps(conn, *keeps);
            }
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.answers.clear();
        self.answers.shrink_to(ROOM);
        self.bytes.clear();
        self.bytes.shrink_to(BYTES);
    }
}

/// Makes a 503 of an answer that ends with this number of bytes of the registrar's header fields and
/// [`TAIL`].
fn refuse(answer: &[u8], extra: usize, seconds: u32, buf: &mut Vec<u8>) {
    let status = answer.windows(2).position(|end| end == b"\r\n").unwrap_or(0);
    let end = answer.len().saturating_sub(extra + TAIL.len());
    buf.extend_from_slice(b"SIP/2.0 503 Service Unavailable");
    buf.extend_from_slice(answer.get(status..end).unwrap_or(b"\r\n"));
    buf.extend_from_slice(&retry_after(seconds));
    buf.extend_from_slice(TAIL);
}
