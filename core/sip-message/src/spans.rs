//! Where the parts of one message stand: offsets only.

use crate::block::find;
use crate::chars::blank_or_quote;
use crate::name::COUNT;
use crate::via::Via;
use crate::words::{begins_small, word};
use crate::{Malformed, Method, Name, Params};
use core::net::IpAddr;
use core::ops::Range;
use wire::Transport;

/// No header of that name.
pub(crate) const NONE: u16 = u16::MAX;

/// A range of the message's bytes; empty when what it names is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Where `part`, a slice of `whole`, stands. Address arithmetic on slices is safe; a slice from
    /// elsewhere would only give an empty or out-of-range span, which [`Span::of`] reads as empty.
    #[inline]
    pub fn locate(whole: &[u8], part: &[u8]) -> Span {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        match u32::try_from(start) {
            Ok(start) => Span { start, end: start.saturating_add(part.len() as u32) },
            Err(_) => Span { start: u32::MAX, end: u32::MAX },
        }
    }

    /// The bytes of the span.
    #[inline]
    pub fn of(self, whole: &[u8]) -> &[u8] {
        whole.get(self.range()).unwrap_or(b"")
    }

    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One header field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderSpan {
    pub name: Name,
    /// The line is written as this server writes it: the canonical long name, its colon, one space, the
    /// value, CRLF. Not known of all that are so.
    pub usual: bool,
    /// The next header field of the same name.
    pub next: u16,
    /// Start of the line; the raw name is `line..line + name_len`.
    pub line: u32,
    pub name_len: u16,
    pub value: Span,
    /// After the line's CRLF.
    pub line_end: u32,
}

/// The start line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Request { method: Span, uri: Span },
    Response { status: u16, reason: Span },
}

/// The topmost Via as offsets.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ViaSpans {
    /// Only `raw`, `branch` and `host_ip` (to nothing) are of this message.
    lazy: bool,
    raw: Span,
    transport_name: Span,
    pub host: Span,
    pub branch: Span,
    received: Option<Span>,
    maddr: Option<Span>,
    transport: Option<Transport>,
    pub host_ip: Option<IpAddr>,
    pub port: Option<u16>,
    pub rport: Option<Option<u16>>,
    ttl: Option<u8>,
}

impl ViaSpans {
    pub fn new(whole: &[u8], via: &Via<'_>) -> ViaSpans {
        let locate = |part| Span::locate(whole, part);
        ViaSpans {
            lazy: false,
            raw: locate(via.raw),
            transport_name: locate(via.transport_name),
            host: locate(via.host),
            branch: if via.branch.is_empty() { Span::default() } else { locate(via.branch) },
            received: via
                .received
                .map(|value| if value.is_empty() { Span::default() } else { locate(value) }),
            maddr: via.maddr.map(locate),
            transport: via.transport,
            host_ip: via.host_ip,
            port: via.port,
            rport: via.rport,
            ttl: via.ttl,
        }
    }

    /// Keeps the value as it stands and its branch, of a Via that need not be looked at any closer.
    pub fn set_lazy(&mut self, whole: &[u8], raw: &[u8]) {
        let params = &raw[find(raw, |b| b.eq(b';'))..];
        let branch = match usual_branch(params) {
            Some(branch) => branch,
            None => Params::new(params).get(b"branch").unwrap_or(b""),
        };
        self.branch = if branch.is_empty() { Span::default() } else { Span::locate(whole, branch) };
        self.raw = Span::locate(whole, raw);
        self.lazy = true;
        self.host_ip = None;
    }

    /// The Via. Inlined, so that of one that is not kept only what is used gets made.
    #[inline(always)]
    pub fn of<'a>(&self, whole: &'a [u8]) -> Via<'a> {
        if self.lazy {
            return self.read(whole);
        }
        Via {
            transport: self.transport,
            transport_name: self.transport_name.of(whole),
            host: self.host.of(whole),
            host_ip: self.host_ip,
            port: self.port,
            branch: self.branch.of(whole),
            received: self.received.map(|s| s.of(whole)),
            rport: self.rport,
            maddr: self.maddr.map(|s| s.of(whole)),
            ttl: self.ttl,
            raw: self.raw.of(whole),
        }
    }

    #[cold]
    #[inline(never)]
    fn read<'a>(&self, whole: &'a [u8]) -> Via<'a> {
        Via::parse(self.raw.of(whole)).unwrap_or_default()
    }
}

/// The branch that is the first parameter, without white space and quotes; most are.
#[inline(always)]
fn usual_branch(params: &[u8]) -> Option<&[u8]> {
    if !begins_small!(word(params), b";branch=") {
        return None;
    }
    let value = &params[8..];
    let end = find(value, |b| blank_or_quote(b) | b.eq(b';'));
    value.get(end).is_none_or(|&b| b == b';').then(|| &value[..end])
}

/// Everything that was found in one message, as offsets.
#[derive(Debug)]
pub(crate) struct Spans {
    pub start: Start,
    /// The method of a request, or in a response's CSeq, if it is one we know.
    pub method: Option<Method<'static>>,
    pub headers: Vec<HeaderSpan>,
    pub first: [u16; COUNT],
    last: [u16; COUNT],
    pub body: Span,
    pub via: ViaSpans,
    pub call_id: Span,
    pub from_uri: Span,
    pub to_uri: Span,
    pub from_tag: Span,
    pub to_tag: Span,
    pub cseq: u32,
    pub cseq_method: Span,
    pub max_forwards: Option<u8>,
    pub vias: usize,
    /// Whether the first Via line holds one value only.
    pub via_alone: bool,
}

impl Spans {
    /// Of no message, with room for a usual one.
    pub fn new() -> Spans {
        Spans {
            start: Start::Response { status: 0, reason: Span::default() },
            method: None,
            headers: Vec::with_capacity(32),
            first: [NONE; COUNT],
            last: [NONE; COUNT],
            body: Span::default(),
            via: ViaSpans::default(),
            call_id: Span::default(),
            from_uri: Span::default(),
            to_uri: Span::default(),
            from_tag: Span::default(),
            to_tag: Span::default(),
            cseq: 0,
            cseq_method: Span::default(),
            max_forwards: None,
            vias: 0,
            via_alone: true,
        }
    }

    pub fn clear(&mut self) {
        self.start = Start::Response { status: 0, reason: Span::default() };
        self.method = None;
        self.headers.clear();
        self.first = [NONE; COUNT];
        self.body = Span::default();
        self.call_id = Span::default();
        self.from_uri = Span::default();
        self.to_uri = Span::default();
        self.from_tag = Span::default();
        self.to_tag = Span::default();
        self.cseq = 0;
        self.cseq_method = Span::default();
        self.max_forwards = None;
        self.vias = 0;
        self.via_alone = true;
    }

    /// Keeps method and Request-URI of a request line of `whole`.
    pub fn set_request(&mut self, whole: &[u8], method: &[u8], uri: &[u8]) {
        self.start = Start::Request {
            method: Span::locate(whole, method),
            uri: if uri.is_empty() { Span::default() } else { Span::locate(whole, uri) },
        };
        self.method = Method::known(method);
    }

    /// Adds a header field to the list and to the chain of its name.
    #[inline(always)]
    pub fn push(&mut self, header: HeaderSpan) {
        let at = self.headers.len() as u16;
        let name = header.name as usize;
        if self.first[name] == NONE {
            self.first[name] = at;
        } else if let Some(previous) = invariant::some!(
            self.headers.get_mut(usize::from(self.last[name])),
            "the last header field of each name is in the list"
        ) {
            previous.next = at;
        }
        self.last[name] = at;
        self.headers.push(header);
    }

    /// The only header field of this name; an error if there are several.
    pub fn single(&self, name: Name) -> Result<Option<&HeaderSpan>, Malformed> {
        match self.headers.get(usize::from(self.first[name as usize])) {
            None => Ok(None),
            Some(header) if header.next == NONE => Ok(Some(header)),
            Some(_) => Err(Malformed),
        }
    }
}
