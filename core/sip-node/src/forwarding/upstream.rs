//! What a caller is answered: responses passed on, kept, chosen, or made here (RFC 3261 section 16.7 steps 5
//! to 9).

use super::challenged::NOT_ACCEPTED;
use super::channels::take_up;
use super::proxied::{Back, Proxied};
use super::security::Barred;
use super::silence::{NO_TARGET, is_lost};
use super::stored::with_request;
use crate::channels::warning;
use crate::replies::{RETRY_AFTER, with_feedback, with_own_feedback_only};
use crate::services::{Counter, Services, Span};
use crate::step::Step;
use call_records::Party;
use sip_message::{Limits, Message, Method, Name, Parsed, Response, Splices, parse};
use sip_proxy::context::BranchId;
use sip_proxy::{cseq, rewrite, session_timer};
use sip_transaction::Payer;
use wire::ConnId;

/// Seconds that a stream connection matters on which a caller was told that the call is answered.
const CALL_KEEPS: u32 = 7_200;
/// Longer responses are not kept whole while the bytes held are at their limit.
const LARGE: usize = 2_048;

/// Passes a response on through the server transaction, without our Via. Whether that was possible.
pub(super) fn relay<S: Services>(step: &mut Step<'_, S>, back: Back, response: &Message<'_>) -> bool {
    let status = response.status();
    let source = back.oc.and_then(|_| step.layer.reply_of(back.server));
    let oc = back.oc.zip(source).map(|(algorithm, source)| step.oc_for(source.remote, algorithm));
    let (splices, confirmed) = (&mut *step.splices, session_timer::missing(response, back.session));
    let sent = step.layer.respond(step.now, back.server, status, step.out, |buf| {
        with_own_feedback_only(oc, back.knows_oc, buf, |buf| {
            let own = (back.from.as_deref(), back.cseq);
            write_back(response, (!back.trusted, own), confirmed, splices, buf);
        });
    });
    if sent {
        step.keep_response();
        step.site.services().count(Counter::Relayed);
        if matches!(response.method(), Method::Invite | Method::Update) {
            if step.calls.responded(step.now, status, response, &back.key, back.place) {
                let source = step.layer.reply_of(back.server);
                take_up(step, &back.key, source, back.place);
            }
            step.note_answerer(response, &back.key, back.place);
            step.note_session(response, &back.key, confirmed);
        }
        // What was withheld was not queued; to streams nothing is withheld.
        let caller = step.layer.reply_of(back.server).filter(|flow| flow.transport.is_reliable());
        if let Some(conn) = caller.and_then(|caller| caller.conn)
            && (200..300).contains(&status)
            && response.method() == Method::Invite
        {
            keep_caller(step, &back, conn);
        }
    }
    sent
}

/// Appends a response without our Via. `from`, `number`: the URI in From and the number in CSeq, if it has
/// others. `confirmed`: the session interval to add to it, or 0.
fn write_back(
    response: &Message<'_>,
    (strip_identity, (from, number)): (bool, (Option<&[u8]>, Option<u32>)),
    confirmed: u16,
    splices: &mut Splices,
    out: &mut Vec<u8>,
) {
    rewrite::edit_response(response, strip_identity, splices);
    if let Some(uri) = from {
        rewrite::restore_from(response, uri, splices);
    }
    if let Some(number) = number {
        cseq::restore(response, number, splices);
    }
    if confirmed > 0 {
        session_timer::confirm(response, confirmed, splices);
    }
    splices.apply(response.bytes(), out);
}

/// The connection of a caller whose call is answered by what was queued last matters: a stranger's as
/// long as the call is known.
fn keep_caller<S: Services>(step: &mut Step<'_, S>, back: &Back, conn: ConnId) {
    if step.layer.payer_of(back.server) == Some(Payer::PROVEN) {
        step.out.keeps(conn, CALL_KEEPS);
    } else if step.calls.takes(&back.key, conn) {
        step.out.uses(conn, CALL_KEEPS);
    }
}

/// Passes on a 2xx to an INVITE that was answered with a failure meanwhile, because a branch had been
/// silent for too long. The caller has to know of the call, to end it (16.7 step 5).
pub(super) fn relay_late<S: Services>(
    step: &mut Step<'_, S>,
    p: &Proxied,
    branch: BranchId,
    response: &Message<'_>,
) -> bool {
    let token = step.responses.token();
    let (trusted, splices) = (p.trusts(branch), &mut *step.splices);
    let (own, session) = ((p.edits.from.as_deref(), p.edits.cseq), p.edits.session.to_confirm());
    let confirmed = session_timer::missing(response, session);
    let sent = step.out.send_with(p.upstream.source, token, |buf| {
        with_own_feedback_only(None, p.upstream.knows_oc, buf, |buf| {
            write_back(response, (!trusted, own), confirmed, splices, buf);
        });
    });
    if p.upstream.bounded && !step.layer.pays(p.upstream.server, sent.len()) {
        step.out.take_back();
        return false;
    }
    step.keep_response();
    step.site.services().count(Counter::Relayed);
    true
}

/// Notes what a final response means for calls.
pub(super) fn concluded<S: Services>(step: &mut Step<'_, S>, p: &Proxied, status: u16) {
    if status < 200 {
        return;
    }
    step.record_concluded(p.upstream.recorded, status, (concluder(p, status), p.context.gave_up()));
    if p.invite {
        let counter = if status < 300 { Counter::CallsAnswered } else { Counter::CallsFailed };
        step.site.services().count(counter);
    }
    if !p.invite || status < 300 {
        let what = if p.invite { Span::CallSetup } else { Span::Answer };
        let micros = step.now.since(p.timing.started).as_micros();
        step.site.services().observe(what, u64::try_from(micros).unwrap_or(u64::MAX));
    }
    step.calls.concluded(status, &p.upstream.key);
    if p.invite && status < 300 && !p.recorded && !p.upstream.key.is_within() {
        // Its BYE goes from phone to phone; nobody here will see the call end.
        step.calls.left(&p.upstream.key);
        step.record_left(p.upstream.recorded);
    }
}

/// Whose decision the final response of another element was.
fn concluder(p: &Proxied, status: u16) -> Party {
    match status {
        487 if p.context.is_cancelled() => Party::Caller,
        // It answers our CANCEL.
        487 if p.context.is_expired() => Party::Timeout,
        _ => Party::Callee,
    }
}

/// Appends a response of this branch as its caller gets it.
fn write_own(
    response: &Message<'_>,
    p: &Proxied,
    branch: BranchId,
    splices: &mut Splices,
    bytes: &mut Vec<u8>,
) {
    let own = (p.edits.from.as_deref(), p.edits.cseq);
    write_back(response, (!p.trusts(branch), own), 0, splices, bytes);
}

/// Keeps a final response, without our Via.
pub(super) fn keep<S: Services>(
    step: &mut Step<'_, S>,
    p: &mut Proxied,
    branch: BranchId,
    response: &Message<'_>,
) {
    let len = response.bytes().len();
    let mut bytes = Vec::with_capacity(len.min(LARGE));
    if len <= LARGE || step.layer.has_room(len) {
        write_own(response, p, branch, step.splices, &mut bytes);
    } else {
        // What it means is kept all the same.
        let (source, tag) = (p.upstream.seen_as(), step.server_tag(p.upstream.server));
        let status = response.status();
        with_request(step, p, None, |_, _, request| {
            Response { tag: &tag, source, ..Response::new(status) }.write(request, &mut bytes);
        });
    }
    bytes.shrink_to_fit();
    p.kept.retain(|(b, _)| *b != branch);
    p.kept.push((branch, bytes));
}

/// Section 16.7 steps 6 to 9: the best response, with the challenges of the others.
pub(super) fn forward_best<S: Services>(
    step: &mut Step<'_, S>,
    p: &mut Proxied,
    branch: BranchId,
    response: Option<&Message<'_>>,
) {
    let mut bytes = Vec::new();
    // The current response is not kept yet; if it is not the best one, it may still hold challenges.
    let mut current = None;
    match p.kept.iter().position(|(b, _)| *b == branch) {
        Some(at) => {
            bytes = p.kept.swap_remove(at).1;
            current = response.filter(|r| matches!(r.status(), 401 | 407));
        }
        None => match response {
            Some(response) => {
                write_own(response, p, branch, step.splices, &mut bytes);
            }
            None => return,
        },
    }
    let mut lines = Vec::new();
    let others: Vec<BranchId> = p.context.challenges().filter(|b| *b != branch).collect();
    for (_, kept) in p.kept.iter().filter(|(b, _)| others.contains(b)) {
        step.with_index(|_, index| {
            if let Parsed::Good(m) | Parsed::Bad(m, _) = parse(kept, index, &Limits::READ_BEFORE) {
                challenge_lines(&m, &mut lines);
            }
        });
    }
    if let Some(current) = current.filter(|_| !others.is_empty()) {
        challenge_lines(current, &mut lines);
    }
    step.with_index(|step, index| {
        let (Parsed::Good(best) | Parsed::Bad(best, _)) = parse(&bytes, index, &Limits::READ_BEFORE) else {
            return;
        };
        let head = best.head_len().saturating_sub(2);
        let oc = p.upstream.oc.map(|algorithm| step.oc_for(p.upstream.source.remote, algorithm));
        let parts = [best.bytes().get(..head), Some(&lines), best.bytes().get(head..)];
        let sent = step.layer.respond(step.now, p.upstream.server, best.status(), step.out, |buf| {
            with_own_feedback_only(oc, p.upstream.knows_oc, buf, |buf| {
                parts.into_iter().flatten().for_each(|part| buf.extend_from_slice(part));
            });
        });
        if sent {
            step.keep_response();
            step.site.services().count(Counter::Relayed);
            concluded(step, p, best.status());
        }
    });
}

/// A final response of our own.
pub(super) fn generate<S: Services>(
    step: &mut Step<'_, S>,
    p: &mut Proxied,
    status: u16,
    request: Option<&Message<'_>>,
) {
    let source = p.upstream.seen_as();
    // A 503 would say that this server is out of service (16.7 step 6), which is then the truth.
    let (status, extra): (u16, &[u8]) = match status {
        500 if p.withheld.overloaded => (503, RETRY_AFTER),
        // RFC 7339 section 5.10: without Retry-After.
        500 if p.withheld.held_back => (503, b""),
        // Without Retry-After: this server takes other calls (RFC 3261 section 21.5.4). Gateways to ISDN say
        // the same of a trunk group without a free circuit (RFC 3398 section 7.2.4.1, cause 34).
        500 if p.withheld.full.is_some() => (503, p.withheld.full.map_or(&b""[..], warning)),
        // Not a fault of this server (RFC 3261 section 21.4.18).
        500 if p.is_gone() => (480, b""),
        480 => (480, p.withheld.barred.map_or(&b""[..], Barred::warning)),
        403 if p.withheld.not_accepted => (403, NOT_ACCEPTED),
        status if is_lost(step.site, p, status) => (status, NO_TARGET),
        status => (status, b""),
    };
    let oc = p.upstream.oc.map(|algorithm| step.oc_for(p.upstream.source.remote, algorithm));
    with_request(step, p, request, |step, p, request| {
        if let Some(barred) = p.withheld.barred.filter(|_| status == 480) {
            step.site.tell(barred.refusal(), request.request_uri(), p.upstream.source, request);
        }
        let tag = step.server_tag(p.upstream.server);
        step.layer.respond(step.now, p.upstream.server, status, step.out, |buf| {
            with_feedback(oc, buf, |buf| {
                Response { tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
            });
        });
        step.keep_response();
        if p.invite {
            step.site.services().count(Counter::CallsFailed);
        }
        step.calls.concluded(status, &p.upstream.key);
        let withheld = p.withheld.overloaded || p.withheld.held_back || p.withheld.barred.is_some();
        let withheld = withheld || p.withheld.full.is_some();
        match p.context.is_unheard() && !withheld {
            true => step.record_unreached(p.upstream.recorded, status, p.context.gave_up()),
            false => step.record_failed(p.upstream.recorded, status, p.context.gave_up()),
        }
    });
}

/// A 100, once the client's retransmissions have come to T2 (RFC 4320 section 4.1) or, of an INVITE,
/// before they begin (RFC 3261 section 17.2.1).
pub(super) fn still_trying<S: Services>(step: &mut Step<'_, S>, p: &mut Proxied) {
    let source = (p.upstream.source, p.upstream.always_rport);
    with_request(step, p, None, |step, p, request| {
        step.answer(p.upstream.server, request, source, 100, b"");
    });
}

/// The WWW-Authenticate and Proxy-Authenticate lines of a response.
fn challenge_lines(response: &Message<'_>, lines: &mut Vec<u8>) {
    for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
        for header in response.headers(name) {
            lines.extend_from_slice(response.bytes().get(header.line).unwrap_or(b""));
        }
    }
}
