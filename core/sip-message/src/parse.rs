//! One pass over a message.

use crate::block::{any, control, count, find};
use crate::chars::{TOKEN, is, is_space, is_token, trim};
use crate::index::Index;
use crate::name::{LONGEST_USUAL, hash_step, usual};
use crate::name_addr::{target_of, usual_with_tag};
use crate::number::{parse_u32, parse_u64};
use crate::spans::{HeaderSpan, NONE, Span, Spans, Start, ViaSpans};
use crate::values::{Values, end_of_value};
use crate::via::Via;
use crate::words::{begins, word};
use crate::{Limits, Message, Method, Name, NameAddr};

/// What is wrong with a message that can still be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// The status to answer a request with.
    pub status: u16,
    /// The reason phrase, naming what is wrong.
    pub reason: &'static str,
}

/// Outcome of [`parse`].
#[derive(Clone, Copy, Debug)]
pub enum Parsed<'a> {
    /// A message that meets the rules every element must enforce.
    Good(Message<'a>),
    /// A message with a fault. A request is answered with the flaw's status from what was found
    /// (never if its method is ACK); a response is dropped (RFC 3261 sections 8.1.3.1, 18.3).
    Bad(Message<'a>, Flaw),
    /// Nothing that can be answered: no SIP, or no usable Via. The text says why.
    Garbage(&'static str),
}

/// The flaw of a head with bytes that the next reader might take for the end of a line or of a text.
const SOILED: Flaw = flaw(400, "Lone CR or LF Or NUL In Header");

const fn flaw(status: u16, reason: &'static str) -> Flaw {
    Flaw { status, reason }
}

/// Indexes one whole message: a datagram, or what [`frame`](crate::frame) cut out of a stream.
///
/// Leading line ends are passed over (RFC 3261 section 7.5), folded headers unfolded, lone CR and LF
/// and NUL made spaces (which is a flaw), and bytes after Content-Length dropped (section 18.3). It checks
/// start line, header names, line ends, counts and sizes, and the presence and form of Via, From, To, Call-ID
/// and CSeq. None of these nor Max-Forwards and Content-Length may stand twice; the values of the latter two
/// are checked. Each Contact by which a dialog may be set up must be usable as a Request-URI.
pub fn parse<'a>(bytes: &'a [u8], index: &'a mut Index, limits: &Limits) -> Parsed<'a> {
    let mut bytes = bytes;
    while let [b'\r', b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    let Index { spans, unfolded } = index;
    let mut scan = Scan::new(bytes, limits);
    scan.run(spans);
    if scan.folded || scan.soiled {
        // The answer to a message with such bytes repeats parts of it, and must not repeat these.
        let soiled = mend(bytes, unfolded);
        bytes = &*unfolded;
        scan = Scan::new(bytes, limits);
        scan.run(spans);
        if soiled {
            scan.flaw = Some(SOILED);
        }
    }
    if let Some(why) = scan.garbage {
        return Parsed::Garbage(why);
    }
    if bytes.len() > limits.message {
        scan.note(flaw(513, "Message Too Large"));
    }
    if let Err(why) = essentials(bytes, spans, limits, &mut scan.flaw) {
        return Parsed::Garbage(why);
    }
    let message = Message::new(bytes, spans);
    match scan.flaw {
        None => Parsed::Good(message),
        Some(flaw) => Parsed::Bad(message, flaw),
    }
}

/// Replaces every fold of the head by spaces, and every byte that must not stand in a line; length
/// unchanged. Answers whether there was such a byte.
fn mend(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(bytes);
    let (mut i, mut line, mut soiled) = (0, 0, false);
    while let Some(&byte) = out.get(i) {
        match byte {
            b'\r' if out.get(i + 1) == Some(&b'\n') => {
                match out.get(i + 2) {
                    Some(b'\r') if out.get(i + 3) == Some(&b'\n') => return soiled,
                    Some(&next) if is_space(next) => out[i..i + 2].fill(b' '),
                    _ => line = i + 2,
                }
                i += 1;
            }
            b'\r' | b'\n' => {
                out[i] = b' ';
                soiled = true;
            }
            0 if !escaped(&out[line..i]) => {
                out[i] = b' ';
                soiled = true;
            }
            _ => {}
        }
        i += 1;
    }
    soiled
}

/// State of one pass.
struct Scan<'b, 'l> {
    bytes: &'b [u8],
    limits: &'l Limits,
    at: usize,
    folded: bool,
    /// There are bytes that must not stand in a line.
    soiled: bool,
    garbage: Option<&'static str>,
    flaw: Option<Flaw>,
}

impl<'b, 'l> Scan<'b, 'l> {
    fn new(bytes: &'b [u8], limits: &'l Limits) -> Scan<'b, 'l> {
        Scan { bytes, limits, at: 0, folded: false, soiled: false, garbage: None, flaw: None }
    }

    /// Keeps the first flaw.
    #[cold]
    fn note(&mut self, flaw: Flaw) {
        self.flaw.get_or_insert(flaw);
    }

    fn run(&mut self, spans: &mut Spans) {
        spans.clear();
        let Some(end) = self.line_end(0) else {
            self.garbage = Some("no start line");
            return;
        };
        if let Err(why) = self.start_line(end, spans) {
            self.garbage = Some(why);
            return;
        }
        self.at = end + 2;
        self.headers(spans);
        let head_end = self.at;
        if head_end > self.limits.head {
            self.note(flaw(513, "Message Head Too Large"));
        }
        self.body(head_end, spans);
    }

    /// The position of the CRLF that ends the line at `from`. A lone CR or LF is a flaw and counts as
    /// part of the line, so that what follows it is never read as a header of its own. NUL is legal
    /// only as a quoted pair (RFC 3261 section 25.1; RFC 4475 section 3.1.1.2 has one).
    fn line_end(&mut self, from: usize) -> Option<usize> {
        let at = control(self.bytes, from);
        match self.bytes.get(at..) {
            Some([b'\r', b'\n', ..]) => Some(at),
            _ => self.line_end_beyond(from, at),
        }
    }

    /// Same, for a line with a control character at `at`.
    #[cold]
    fn line_end_beyond(&mut self, from: usize, mut at: usize) -> Option<usize> {
        loop {
            match (*self.bytes.get(at)?, self.bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => return Some(at),
                (b'\r' | b'\n', _) => self.soiled = true,
                (0, _) => self.soiled |= !escaped(&self.bytes[from..at]),
                _ => {}
            }
            at = control(self.bytes, at + 1);
        }
    }

    fn start_line(&mut self, end: usize, spans: &mut Spans) -> Result<(), &'static str> {
        let line = &self.bytes[..end];
        if line.len() > 8 && (begins!(word(line), b"SIP/2.0 ") || line[..8].eq_ignore_ascii_case(b"SIP/2.0 "))
        {
            return self.status_line(line, spans);
        }
        match usual_request(line) {
            Some((method, uri)) if uri.len() <= self.limits.uri && method.len() <= self.limits.method => {
                spans.set_request(self.bytes, method, uri);
                Ok(())
            }
            _ => self.any_request(line, spans),
        }
    }

    fn any_request(&mut self, line: &[u8], spans: &mut Spans) -> Result<(), &'static str> {
        let trimmed = trim(line);
        let last = trimmed.iter().rposition(|&b| b == b' ').ok_or("not SIP")?;
        let version = &trimmed[last + 1..];
        if version.len() < 5 || !version[..4].eq_ignore_ascii_case(b"SIP/") {
            return Err("not SIP");
        }
        let first = trimmed.iter().position(|&b| b == b' ').ok_or("not SIP")?;
        let method = &trimmed[..first];
        let uri = trimmed.get(first + 1..last).unwrap_or(b"");
        if !is_token(method) {
            return Err("no method");
        }
        spans.set_request(self.bytes, method, uri);
        if method.len() > self.limits.method {
            self.note(flaw(400, "Method Too Long"));
        } else if !version.eq_ignore_ascii_case(b"SIP/2.0") {
            self.note(flaw(505, "Version Not Supported"));
        } else if uri.len() > self.limits.uri {
            self.note(flaw(414, "Request-URI Too Long"));
        } else if trimmed.len() != line.len()
            || uri.is_empty()
            || uri.iter().any(|&b| (b <= b' ') | (b == 0x7f))
        {
            // Exactly one space on either side of the Request-URI (RFC 3261 section 7.1).
            self.note(flaw(400, "Malformed Request-Line"));
        }
        Ok(())
    }

    fn status_line(&mut self, line: &[u8], spans: &mut Spans) -> Result<(), &'static str> {
        let code = line.get(8..11).and_then(parse_u32).ok_or("no status code")?;
        let status = u16::try_from(code).ok().filter(|s| (100..700).contains(s)).ok_or("no status code")?;
        let reason = match line.get(11..) {
            Some([]) | None => &line[11..],
            Some([b' ', ..]) => &line[12..],
            Some(_) => return Err("no status code"),
        };
        spans.start = Start::Response { status, reason: Span::locate(self.bytes, reason) };
        Ok(())
    }

    /// Indexes header lines up to and including the empty line.
    fn headers(&mut self, spans: &mut Spans) {
        let (bytes, longest) = (self.bytes, self.limits.header);
        let most = if self.limits.name < LONGEST_USUAL { 0 } else { self.limits.headers };
        let mut line = self.at;
        loop {
            // A line as nearly all are. What is special about any other is found out by the next reader.
            if let Some(rest) = bytes.get(line..)
                && let Some(start) = rest.first_chunk::<16>()
                && let Some((name, name_len)) = usual(start, rest)
                && spans.headers.len() < most
                && let end = control(rest, name_len)
                && end <= longest
                && rest.get(end..).and_then(|rest| rest.first_chunk()) == Some(b"\r\n")
                && let Some(text) = rest.get(name_len + 1..end)
            {
                let (start, end) = (line as u32, (line + end) as u32);
                let (value, usual) = match text {
                    [b' ', first, ..] if *first > b' ' && text.last().is_some_and(|&b| b > b' ') => {
                        (Span { start: start + name_len as u32 + 2, end }, true)
                    }
                    _ => (spaced(bytes, line + name_len + 1, end as usize), false),
                };
                let (name_len, line_end, next) = (name_len as u16, end + 2, NONE);
                spans.push(HeaderSpan { name, usual, next, line: start, name_len, value, line_end });
                line = line_end as usize;
            } else {
                self.at = line;
                if !self.any_header(spans) {
                    return;
                }
                line = self.at;
            }
        }
    }

    /// Indexes the line at `self.at`, whatever it is; `false` after the last one.
    #[inline(never)]
    fn any_header(&mut self, spans: &mut Spans) -> bool {
        match self.bytes.get(self.at..self.at + 2) {
            Some(b"\r\n") => {
                self.at += 2;
                return false;
            }
            Some([first, _]) if is_space(*first) => {
                self.folded = true;
                return false;
            }
            Some(_) => {}
            None => {
                self.unfinished();
                return false;
            }
        }
        if spans.headers.len() >= self.limits.headers {
            self.note(flaw(513, "Too Many Header Fields"));
            return false;
        }
        let ends = self.header(spans);
        if !ends {
            self.unfinished();
        }
        ends
    }

    #[cold]
    fn unfinished(&mut self) {
        self.at = self.bytes.len();
        self.note(flaw(400, "Head Not Finished"));
    }

    /// Indexes the line at `self.at`; `false` if it does not end.
    fn header(&mut self, spans: &mut Spans) -> bool {
        let line = self.at;
        let (name, name_len, colon) = self.name(line);
        let Some(end) = self.line_end(colon.unwrap_or(line)) else { return false };
        self.at = end + 2;
        let Some(colon) = colon.filter(|_| name_len > 0 && name_len <= self.limits.name) else {
            self.note(flaw(400, "Malformed Header Field"));
            return true;
        };
        if end - line > self.limits.header {
            self.note(flaw(513, "Header Field Too Large"));
        }
        let value = trimmed(self.bytes, colon + 1, end);
        let (line, line_end) = (line as u32, self.at as u32);
        let (name_len, next) = (name_len as u16, NONE);
        spans.push(HeaderSpan { name, usual: false, next, line, name_len, value, line_end });
        // A fold after this line joins the next one to it: seen by the caller's loop.
        true
    }

    /// Reads a name letter by letter: its kind, its length, and where its colon stands.
    fn name(&self, line: usize) -> (Name, usize, Option<usize>) {
        let mut at = line;
        let mut hash = 0;
        while let Some(&b) = self.bytes.get(at)
            && is(b, TOKEN)
        {
            hash = hash_step(hash, b);
            at += 1;
        }
        let name = &self.bytes[line..at];
        while self.bytes.get(at).is_some_and(|&b| is_space(b)) {
            at += 1;
        }
        let colon = (self.bytes.get(at) == Some(&b':')).then_some(at);
        (Name::from_hashed(name, hash), name.len(), colon)
    }

    /// Cuts the body by Content-Length (RFC 3261 sections 18.3 and 20.14).
    fn body(&mut self, head_end: usize, spans: &mut Spans) {
        let available = self.bytes.len() - head_end;
        let length = match spans.single(Name::ContentLength) {
            Ok(None) => available,
            Ok(Some(header)) => match parse_u64(header.value.of(self.bytes)) {
                Some(n) if n <= available as u64 => n as usize,
                Some(_) => {
                    self.note(flaw(400, "Body Shorter Than Content-Length"));
                    available
                }
                None => {
                    self.note(flaw(400, "Malformed Content-Length"));
                    0
                }
            },
            Err(_) => {
                self.note(flaw(400, "Two Content-Length Header Fields"));
                0
            }
        };
        spans.body = Span { start: head_end as u32, end: (head_end + length) as u32 };
        if length > self.limits.body {
            self.note(flaw(413, "Request Entity Too Large"));
        }
    }
}

/// Whether what follows `before` is the second half of a quoted pair: an odd number of backslashes
/// stands before it.
#[cold]
fn escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// The range `from..to` without white space at its ends; most values have one space in front.
#[inline(always)]
fn trimmed(bytes: &[u8], from: usize, to: usize) -> Span {
    let span = |from: usize, to: usize| Span { start: from as u32, end: to as u32 };
    match bytes.get(from..to) {
        Some([b' ', first, .., last]) if *first > b' ' && *last > b' ' => span(from + 1, to),
        Some(text) => {
            let value = trim(text);
            // What is trimmed away in front, and what is left.
            let lead = text.iter().take_while(|&&b| is_space(b)).count();
            span(from + lead, from + lead + value.len())
        }
        None => span(from, from),
    }
}

/// The same where there is more white space, or none.
#[cold]
#[inline(never)]
fn spaced(bytes: &[u8], from: usize, to: usize) -> Span {
    trimmed(bytes, from, to)
}

/// Method and Request-URI of a request line as it should be, `None` for any other line: one space on
/// either side of a URI without white space, a method that we know, version 2.0.
#[inline]
fn usual_request(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, version) = line.split_last_chunk::<8>()?;
    if version != b" SIP/2.0" {
        return None;
    }
    let first = find(head, |b| b.eq(b' '));
    let (method, uri) = (&head[..first], head.get(first + 1..)?);
    let clean = !any(uri, |b| b.at_most(b' ') | b.eq(0x7f));
    let known = !matches!(Method::from_bytes(method), Method::Other(_));
    (clean && known && !uri.is_empty()).then_some((method, uri))
}

/// Reads the header fields that every message must have (RFC 3261 section 8.1.1). The first flaw
/// is kept in `kept`; an error means that no answer is possible.
fn essentials(
    bytes: &[u8],
    spans: &mut Spans,
    limits: &Limits,
    kept: &mut Option<Flaw>,
) -> Result<(), &'static str> {
    let via_line = spans.headers.get(usize::from(spans.first[Name::Via as usize])).ok_or("no Via")?;
    let value = via_line.value.of(bytes);
    spans.via_alone = !any(value, |b| b.eq(b','));
    let first = if spans.via_alone { value } else { trim(&value[..end_of_value(value)]) };
    // Of a response only the branch is needed: its Via is ours, or the response is not.
    let is_request = matches!(spans.start, Start::Request { .. });
    if is_request {
        let via = Via::parse(first).map_err(|_| "malformed Via")?;
        spans.via = ViaSpans::new(bytes, &via);
    } else {
        spans.via.set_lazy(bytes, first);
    }
    count_vias(value, spans);
    if spans.via.branch.of(bytes).len() > limits.token {
        kept.get_or_insert(flaw(400, "Branch Too Long"));
    }
    // Empty elements and parameters are no Via (RFC 4475 section 3.1.2.1).
    if value.ends_with(b",") || value.ends_with(b";") {
        kept.get_or_insert(flaw(400, "Malformed Via"));
    }
    let mut note = |f: Option<Flaw>| {
        if let Some(f) = f {
            kept.get_or_insert(f);
        }
    };
    // A response still has ours.
    if spans.vias > limits.vias + usize::from(!is_request) {
        note(Some(flaw(513, "Too Many Via Header Fields")));
    }
    note(call_id(bytes, spans, limits));
    note(if is_request { tags(bytes, spans, limits) } else { addressed(spans) });
    note(cseq(bytes, spans));
    note(max_forwards(bytes, spans));
    note(contacts(bytes, spans, limits));
    Ok(())
}

/// Counts the Via fields, of which the first has the value `first`.
fn count_vias(first: &[u8], spans: &mut Spans) {
    let mut at = spans.first[Name::Via as usize];
    while let Some(field) = spans.headers.get(usize::from(at)) {
        spans.vias += 1;
        at = field.next;
    }
    if !spans.via_alone {
        spans.vias += count(first, |b| b.eq(b','));
    }
}

fn call_id(bytes: &[u8], spans: &mut Spans, limits: &Limits) -> Option<Flaw> {
    let header = match spans.single(Name::CallId) {
        Ok(Some(header)) => header,
        Ok(None) => return Some(flaw(400, "Missing Call-ID")),
        Err(_) => return Some(flaw(400, "Two Call-ID Header Fields")),
    };
    let value = header.value.of(bytes);
    if value.is_empty() || value.len() > limits.token || any(value, |b| b.at_most(b' ')) {
        return Some(flaw(400, "Malformed Call-ID"));
    }
    spans.call_id = header.value;
    None
}

/// Of a response, From and To must be there once; their tags are read when asked for.
fn addressed(spans: &Spans) -> Option<Flaw> {
    let once = |name| matches!(spans.single(name), Ok(Some(_)));
    (!(once(Name::From) && once(Name::To))).then_some(flaw(400, "Missing Or Doubled From Or To"))
}

fn tags(bytes: &[u8], spans: &mut Spans, limits: &Limits) -> Option<Flaw> {
    let from = spans.single(Name::From).map(|header| header.map(|h| h.value));
    let to = spans.single(Name::To).map(|header| header.map(|h| h.value));
    let from = match from {
        Ok(Some(value)) => address(bytes, value, limits, (&mut spans.from_uri, &mut spans.from_tag))
            .then_some(flaw(400, "Malformed From")),
        Ok(None) => Some(flaw(400, "Missing From")),
        Err(_) => Some(flaw(400, "Two From Header Fields")),
    };
    let to = match to {
        Ok(Some(value)) => address(bytes, value, limits, (&mut spans.to_uri, &mut spans.to_tag))
            .then_some(flaw(400, "Malformed To")),
        Ok(None) => Some(flaw(400, "Missing To")),
        Err(_) => Some(flaw(400, "Two To Header Fields")),
    };
    from.or(to)
}

/// Reads the URI and the tag of From or To; whether they are malformed.
fn address(bytes: &[u8], value: Span, limits: &Limits, into: (&mut Span, &mut Span)) -> bool {
    let value = value.of(bytes);
    let Some((uri, tag)) = usual_with_tag(value).or_else(|| with_tag(value)) else { return true };
    // A display name that is no token may have been taken for it (RFC 4475 section 3.1.2.15).
    if tag.len() > limits.token || !any(uri, |b| b.eq(b':')) {
        return true;
    }
    *into.0 = Span::locate(bytes, uri);
    if !tag.is_empty() {
        *into.1 = Span::locate(bytes, tag);
    }
    false
}

/// URI and tag of a From or To of any form; a tag must be a token. There must be one value only, and no
/// quote in its URI.
#[inline(never)]
fn with_tag(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let addr = NameAddr::parse(value).ok()?;
    if end_of_value(value) < value.len() || any(addr.uri, |b| b.eq(b'"')) {
        return None;
    }
    match addr.param(b"tag") {
        Some(tag) => is_token(tag).then_some((addr.uri, tag)),
        None => Some((addr.uri, b"")),
    }
}

fn cseq(bytes: &[u8], spans: &mut Spans) -> Option<Flaw> {
    let header = match spans.single(Name::CSeq) {
        Ok(Some(header)) => header,
        Ok(None) => return Some(flaw(400, "Missing CSeq")),
        Err(_) => return Some(flaw(400, "Two CSeq Header Fields")),
    };
    let value = header.value.of(bytes);
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let method = trim(&value[digits..]);
    // Less than 2**31 (section 8.1.1.5).
    let number = parse_u32(&value[..digits]).filter(|&n| n < 1 << 31);
    let spaced = value.get(digits).is_some_and(|&b| is_space(b));
    let own = match spans.start {
        Start::Request { method, .. } => Some(method.of(bytes)),
        Start::Response { .. } => None,
    };
    let same = own == Some(method);
    // The method of the start line is known to be a token.
    let Some(number) = number.filter(|_| spaced && (same || is_token(method))) else {
        return Some(flaw(400, "Malformed CSeq"));
    };
    spans.cseq = number;
    spans.cseq_method = Span::locate(bytes, method);
    if own.is_none() {
        spans.method = Method::known(method);
    }
    if same || own.is_none() {
        return None;
    }
    // RFC 4475 section 3.1.2.18: 501 where the method is unknown as well.
    Some(match spans.method {
        None => flaw(501, "Not Implemented"),
        Some(_) => flaw(400, "CSeq Method Mismatch"),
    })
}

fn max_forwards(bytes: &[u8], spans: &mut Spans) -> Option<Flaw> {
    let header = match spans.single(Name::MaxForwards) {
        Ok(None) => return None,
        Ok(Some(header)) => header,
        Err(_) => return Some(flaw(400, "Two Max-Forwards Header Fields")),
    };
    spans.max_forwards = parse_u32(header.value.of(bytes)).and_then(|n| u8::try_from(n).ok());
    match spans.max_forwards {
        Some(_) => None,
        None => Some(flaw(400, "Malformed Max-Forwards")),
    }
}

/// What a dialog's Contact names becomes a Request-URI. One that could not is refused while it can be, or the
/// call that it sets up could not be ended.
fn contacts(bytes: &[u8], spans: &Spans, limits: &Limits) -> Option<Flaw> {
    let sets_up = match spans.start {
        Start::Request { .. } => true,
        Start::Response { status, .. } => (101..300).contains(&status),
    };
    if !sets_up || spans.method == Some(Method::Register) {
        return None;
    }
    let mut at = spans.first[Name::Contact as usize];
    while let Some(field) = spans.headers.get(usize::from(at)) {
        at = field.next;
        let fits = |value| target_of(value).is_some_and(|uri| uri.len() <= limits.uri);
        if !Values::new(field.value.of(bytes)).all(fits) {
            return Some(flaw(400, "Malformed Contact"));
        }
    }
    None
}
