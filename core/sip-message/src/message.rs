//! A message as its index shows it.

use crate::block::any;
use crate::name_addr::usual_with_tag;
use crate::spans::{HeaderSpan, NONE, Span, Spans, Start};
use crate::values::Values;
use crate::via::Via;
use crate::{Method, Name, NameAddr};
use core::net::IpAddr;
use core::ops::Range;

/// An indexed message. Cheap to copy; borrows the bytes and the index.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    spans: &'a Spans,
}

/// One header field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header<'a> {
    /// Which one it is.
    pub name: Name,
    /// The name as written.
    pub raw_name: &'a [u8],
    /// The value without white space at its ends.
    pub value: &'a [u8],
    /// The whole line in [`Message::bytes`], CRLF included.
    pub line: Range<usize>,
}

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8], spans: &'a Spans) -> Message<'a> {
        Message { bytes, spans }
    }

    /// The message: as received, unfolded, and without what followed Content-Length.
    pub fn bytes(&self) -> &'a [u8] {
        let whole = self.bytes.get(..self.spans.body.end as usize);
        invariant::some!(whole, "the body ends within the bytes that were read").unwrap_or(self.bytes)
    }

    /// Whether it is a request.
    #[inline]
    pub fn is_request(&self) -> bool {
        matches!(self.spans.start, Start::Request { .. })
    }

    /// The method of a request; of a response, the one in its CSeq.
    pub fn method(&self) -> Method<'a> {
        match (self.spans.method, self.spans.start) {
            (Some(known), _) => known,
            (None, Start::Request { method, .. }) => Method::Other(method.of(self.bytes)),
            (None, Start::Response { .. }) => Method::Other(self.spans.cseq_method.of(self.bytes)),
        }
    }

    /// The Request-URI as written; empty for a response.
    pub fn request_uri(&self) -> &'a [u8] {
        match self.spans.start {
            Start::Request { uri, .. } => uri.of(self.bytes),
            Start::Response { .. } => b"",
        }
    }

    /// The status code of a response; 0 for a request.
    pub fn status(&self) -> u16 {
        match self.spans.start {
            Start::Request { .. } => 0,
            Start::Response { status, .. } => status,
        }
    }

    /// The reason phrase of a response.
    pub fn reason(&self) -> &'a [u8] {
        match self.spans.start {
            Start::Request { .. } => b"",
            Start::Response { reason, .. } => reason.of(self.bytes),
        }
    }

    /// The Call-ID; empty only in a message with a flaw.
    pub fn call_id(&self) -> &'a [u8] {
        self.spans.call_id.of(self.bytes)
    }

    /// The URI in From; empty only in a message with a flaw.
    pub fn from_uri(&self) -> &'a [u8] {
        match self.is_request() {
            true => self.spans.from_uri.of(self.bytes),
            false => self.address(Name::From).map_or(b"", |(uri, _)| uri),
        }
    }

    /// The URI in To; empty only in a message with a flaw.
    pub fn to_uri(&self) -> &'a [u8] {
        match self.is_request() {
            true => self.spans.to_uri.of(self.bytes),
            false => self.address(Name::To).map_or(b"", |(uri, _)| uri),
        }
    }

    /// The tag of From; empty if there is none.
    pub fn from_tag(&self) -> &'a [u8] {
        match self.is_request() {
            true => self.spans.from_tag.of(self.bytes),
            false => self.address(Name::From).map_or(b"", |(_, tag)| tag),
        }
    }

    /// The tag of To; empty if there is none.
    pub fn to_tag(&self) -> &'a [u8] {
        match self.is_request() {
            true => self.spans.to_tag.of(self.bytes),
            false => self.address(Name::To).map_or(b"", |(_, tag)| tag),
        }
    }

    /// URI and tag of a From or To.
    fn address(&self, name: Name) -> Option<(&'a [u8], &'a [u8])> {
        let value = self.text(self.first_span(name)?.value);
        let any_form = || {
            let addr = NameAddr::parse(value).ok()?;
            Some((addr.uri, addr.param(b"tag").unwrap_or(b"")))
        };
        usual_with_tag(value).or_else(any_form)
    }

    /// The number in CSeq.
    pub fn cseq(&self) -> u32 {
        self.spans.cseq
    }

    /// Max-Forwards, if present.
    pub fn max_forwards(&self) -> Option<u8> {
        self.spans.max_forwards
    }

    /// The topmost Via.
    #[inline(always)]
    pub fn via(&self) -> Via<'a> {
        self.spans.via.of(self.bytes)
    }

    /// The branch of the topmost Via; empty if it has none.
    pub fn via_branch(&self) -> &'a [u8] {
        self.spans.via.branch.of(self.bytes)
    }

    /// The `sent-by` host of a request's topmost Via as an address, if it is one; `None` for a response.
    pub fn via_host_ip(&self) -> Option<IpAddr> {
        self.spans.via.host_ip
    }

    /// How many Via values the message carries: those of the first line (commas inside quoted parameters
    /// counted too), and one for each further line.
    pub fn via_count(&self) -> usize {
        self.spans.vias
    }

    /// The first header field of this name.
    pub fn header(&self, name: Name) -> Option<Header<'a>> {
        self.headers(name).next()
    }

    /// Every header field of this name, in order. [`Name::Other`] gives all the unknown ones.
    pub fn headers(&self, name: Name) -> Headers<'a> {
        Headers { message: *self, next: self.spans.first[name as usize] }
    }

    /// The first header field of this name, as offsets.
    #[inline]
    pub(crate) fn first_span(&self, name: Name) -> Option<&'a HeaderSpan> {
        self.spans.headers.get(usize::from(self.spans.first[name as usize]))
    }

    /// Every header field of this name, as offsets.
    pub(crate) fn spans_of(&self, name: Name) -> impl Iterator<Item = &'a HeaderSpan> + use<'a> {
        let spans = self.spans;
        let first = self.first_span(name);
        core::iter::successors(first, |span| spans.headers.get(usize::from(span.next)))
    }

    /// The bytes of a span.
    #[inline]
    pub(crate) fn text(&self, span: Span) -> &'a [u8] {
        span.of(self.bytes)
    }

    /// Every header field in order.
    pub fn all_headers(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let message = *self;
        message.spans.headers.iter().map(move |span| message.show(span))
    }

    /// The only header field of this name, if it has but one value: no comma stands in it, not even in
    /// quotes. `None` says nothing.
    pub fn lone_value(&self, name: Name) -> Option<Header<'a>> {
        let span = self.first_span(name).filter(|span| span.next == NONE)?;
        let value = self.text(span.value);
        let lone = !value.is_empty() && !any(value, |b| b.eq(b','));
        lone.then(|| self.show(span))
    }

    /// The first Via line, if it has but one value.
    pub fn lone_via(&self) -> Option<Header<'a>> {
        let span = self.first_span(Name::Via).filter(|_| self.spans.via_alone)?;
        (!self.text(span.value).is_empty()).then(|| self.show(span))
    }

    /// The comma-separated elements of every header field of this name, in order.
    pub fn values(&self, name: Name) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.headers(name).flat_map(|h| Values::new(h.value))
    }

    /// Whether a header field of this name lists `token`, in any case.
    pub fn lists(&self, name: Name, token: &[u8]) -> bool {
        self.values(name).any(|v| v.eq_ignore_ascii_case(token))
    }

    /// The body, bytes without meaning here.
    pub fn body(&self) -> &'a [u8] {
        self.spans.body.of(self.bytes)
    }

    /// Where the body starts: after the empty line.
    pub fn head_len(&self) -> usize {
        self.spans.body.start as usize
    }

    /// Where the first header line starts: after the start line.
    pub fn headers_start(&self) -> usize {
        match self.spans.headers.first() {
            Some(first) => first.line as usize,
            None => self.head_len(),
        }
    }

    /// Where `part`, a slice obtained from this message, stands in [`Message::bytes`].
    pub fn offset_of(&self, part: &'a [u8]) -> usize {
        Span::locate(self.bytes, part).start as usize
    }

    /// The range of `part`, a slice obtained from this message, in [`Message::bytes`].
    pub fn range_of(&self, part: &'a [u8]) -> Range<usize> {
        Span::locate(self.bytes, part).range()
    }

    #[inline]
    fn show(&self, span: &HeaderSpan) -> Header<'a> {
        let line = span.line as usize;
        Header {
            name: span.name,
            raw_name: self.bytes.get(line..line + usize::from(span.name_len)).unwrap_or(b""),
            value: span.value.of(self.bytes),
            line: line..span.line_end as usize,
        }
    }
}

/// Iterator over the header fields of one name.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    message: Message<'a>,
    next: u16,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.next == NONE {
            return None;
        }
        let span = self.message.spans.headers.get(usize::from(self.next))?;
        self.next = span.next;
        Some(self.message.show(span))
    }
}
