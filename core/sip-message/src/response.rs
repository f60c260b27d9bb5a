//! Responses made from a request.

use crate::number::push_u64;
use crate::spans::{HeaderSpan, Span};
use crate::via::push_received;
use crate::{Message, Name};
use core::net::SocketAddr;

/// A response made from a request: what is not taken from that.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The reason phrase; the usual one if empty.
    pub reason: &'a [u8],
    /// Added to a To without tag, except in a 100 (RFC 3261 section 8.2.6.2); empty adds none.
    pub tag: &'a [u8],
    /// Where the request came from, with whether to add an `rport` unasked; `None` leaves the Via alone (the
    /// bytes at hand have been through this already).
    pub source: Option<(SocketAddr, bool)>,
    /// Whole header lines to add.
    pub extra: &'a [u8],
}

impl Response<'_> {
    /// One with the usual reason phrase and nothing else.
    pub const fn new(status: u16) -> Response<'static> {
        Response { status, reason: b"", tag: b"", source: None, extra: b"" }
    }

    /// Appends the response to `request` (section 8.2.6.2): status line, every Via with the topmost one
    /// completed from the source, From, To, Call-ID and CSeq as received, the extra lines, then
    /// `Content-Length: 0`. A 100 repeats the Timestamp (section 8.2.6.1).
    pub fn write(&self, request: &Message<'_>, out: &mut Vec<u8>) {
        let status = self.status;
        out.reserve(512);
        push_status_line(status, self.reason, out);
        push_vias(request, self.source, out);
        let tag = if status > 100 && request.to_tag().is_empty() { self.tag } else { b"" };
        let mut lines = Lines::new(request, out);
        for name in [Name::From, Name::To, Name::CallId, Name::CSeq] {
            if let Some(span) = request.first_span(name) {
                lines.push(span, if name == Name::To { tag } else { b"" });
            }
        }
        if status == 100
            && let Some(span) = request.first_span(Name::Timestamp)
        {
            lines.push(span, b"");
        }
        lines.flush();
        out.extend_from_slice(self.extra);
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }
}

fn push_status_line(status: u16, reason: &[u8], out: &mut Vec<u8>) {
    let digit = |n: u16| b'0' + (n % 10) as u8;
    let digits = [digit(status / 100), digit(status / 10), digit(status)];
    out.extend_from_slice(b"SIP/2.0 ");
    match status {
        100..1000 => out.extend_from_slice(&digits),
        _ => push_u64(u64::from(status), out),
    }
    out.push(b' ');
    out.extend_from_slice(if reason.is_empty() { reason_phrase(status) } else { reason });
    out.extend_from_slice(b"\r\n");
}

fn push_vias(request: &Message<'_>, source: Option<(SocketAddr, bool)>, out: &mut Vec<u8>) {
    let mut spans = request.spans_of(Name::Via);
    if let Some((source, always_rport)) = source
        && let Some(first) = spans.next()
    {
        let top = request.via();
        out.extend_from_slice(b"Via: ");
        push_received(&top, source, always_rport, out);
        out.extend_from_slice(request.text(first.value).get(top.raw.len()..).unwrap_or(b""));
        out.extend_from_slice(b"\r\n");
    }
    let mut lines = Lines::new(request, out);
    for span in spans {
        lines.push(span, b"");
    }
    lines.flush();
}

/// Writes header lines of a request. Those that are written as this server writes them, and stand
/// together, are copied at once.
struct Lines<'a, 'o> {
    request: &'a Message<'a>,
    out: &'o mut Vec<u8>,
    /// What is to be copied next.
    from: u32,
    to: u32,
}

impl<'a, 'o> Lines<'a, 'o> {
    fn new(request: &'a Message<'a>, out: &'o mut Vec<u8>) -> Lines<'a, 'o> {
        Lines { request, out, from: 0, to: 0 }
    }

    /// Adds the line, with a tag unless that is empty.
    fn push(&mut self, span: &HeaderSpan, tag: &[u8]) {
        let value = span.value;
        if span.usual {
            if span.line != self.to {
                self.flush();
                self.from = span.line;
            }
            if tag.is_empty() {
                self.to = span.line_end;
                return;
            }
        } else {
            self.flush();
            self.out.extend_from_slice(span.name.as_str().as_bytes());
            self.out.extend_from_slice(b": ");
            self.from = value.start;
        }
        self.to = value.end;
        if !tag.is_empty() {
            self.flush();
            self.out.extend_from_slice(b";tag=");
            self.out.extend_from_slice(tag);
            (self.from, self.to) = (value.end, value.end);
        }
        if span.line_end == value.end + 2 {
            self.to = span.line_end;
        } else {
            // White space is left out.
            self.flush();
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn flush(&mut self) {
        self.out.extend_from_slice(self.request.text(Span { start: self.from, end: self.to }));
        (self.from, self.to) = (0, 0);
    }
}

/// The usual reason phrase of a status code (RFC 3261 section 21 and later RFCs).
pub const fn reason_phrase(status: u16) -> &'static [u8] {
    match status {
        100 => b"Trying",
        180 => b"Ringing",
        181 => b"Call Is Being Forwarded",
        182 => b"Queued",
        183 => b"Session Progress",
        200 => b"OK",
        202 => b"Accepted",
        300 => b"Multiple Choices",
        301 => b"Moved Permanently",
        302 => b"Moved Temporarily",
        305 => b"Use Proxy",
        400 => b"Bad Request",
        401 => b"Unauthorized",
        403 => b"Forbidden",
        404 => b"Not Found",
        405 => b"Method Not Allowed",
        406 => b"Not Acceptable",
        407 => b"Proxy Authentication Required",
        408 => b"Request Timeout",
        410 => b"Gone",
        413 => b"Request Entity Too Large",
        414 => b"Request-URI Too Long",
        415 => b"Unsupported Media Type",
        416 => b"Unsupported URI Scheme",
        420 => b"Bad Extension",
        421 => b"Extension Required",
        422 => b"Session Interval Too Small",
        423 => b"Interval Too Brief",
        430 => b"Flow Failed",
        439 => b"First Hop Lacks Outbound Support",
        440 => b"Max-Breadth Exceeded",
        480 => b"Temporarily Unavailable",
        481 => b"Call/Transaction Does Not Exist",
        482 => b"Loop Detected",
        483 => b"Too Many Hops",
        484 => b"Address Incomplete",
        485 => b"Ambiguous",
        486 => b"Busy Here",
        487 => b"Request Terminated",
        488 => b"Not Acceptable Here",
        491 => b"Request Pending",
        500 => b"Server Internal Error",
        501 => b"Not Implemented",
        502 => b"Bad Gateway",
        503 => b"Service Unavailable",
        504 => b"Server Time-out",
        505 => b"Version Not Supported",
        513 => b"Message Too Large",
        600 => b"Busy Everywhere",
        603 => b"Decline",
        604 => b"Does Not Exist Anywhere",
        606 => b"Not Acceptable",
        other => match other / 100 {
            1 => b"Progress",
            2 => b"Success",
            3 => b"Redirection",
            4 => b"Request Failure",
            5 => b"Server Failure",
            _ => b"Global Failure",
        },
    }
}
