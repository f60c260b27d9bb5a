//! The two requests this layer makes itself, from the INVITE it sent.

use sip_message::{Message, Name, push_u64};

/// The ACK of a failure (RFC 3261 17.1.1.3): Request-URI, top Via, Route, From, Call-ID and CSeq number
/// of the INVITE, To of the response.
pub(super) fn ack(invite: &Message<'_>, response: &Message<'_>, out: &mut Vec<u8>) {
    start(b"ACK", invite, out);
    let to = response.header(Name::To).or_else(|| invite.header(Name::To));
    line(b"To: ", to.map_or(b"", |header| header.value), out);
    end(b"ACK", invite, b"", out);
}

/// The CANCEL of an INVITE (9.1): Request-URI, top Via, Route, From, To, Call-ID and CSeq number of the
/// INVITE; no Require and no Proxy-Require.
pub(super) fn cancel(invite: &Message<'_>, extra: &[u8], out: &mut Vec<u8>) {
    start(b"CANCEL", invite, out);
    line(b"To: ", invite.header(Name::To).map_or(b"", |header| header.value), out);
    end(b"CANCEL", invite, extra, out);
}

/// Start line, the single Via, Routes, Max-Forwards (16.6: this hop is the request's first) and From.
fn start(method: &[u8], invite: &Message<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(invite.request_uri());
    out.extend_from_slice(b" SIP/2.0\r\n");
    line(b"Via: ", invite.via().raw, out);
    for route in invite.headers(Name::Route) {
        line(b"Route: ", route.value, out);
    }
    out.extend_from_slice(b"Max-Forwards: 70\r\n");
    line(b"From: ", invite.header(Name::From).map_or(b"", |header| header.value), out);
}

/// Call-ID, CSeq, extra lines and the end of the message.
fn end(method: &[u8], invite: &Message<'_>, extra: &[u8], out: &mut Vec<u8>) {
    line(b"Call-ID: ", invite.call_id(), out);
    out.extend_from_slice(b"CSeq: ");
    push_u64(u64::from(invite.cseq()), out);
    out.push(b' ');
    out.extend_from_slice(method);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(extra);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

fn line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
