//! One pass over a message.

use crate::chars::{TOKEN, is, is_space, is_token, trim};
use crate::index::{HeaderSpan, Index, NONE, Span, Spans, Start, ViaSpans};
use crate::name::hash_step;
use crate::number::{parse_u32, parse_u64};
use crate::values::end_of_value;
use crate::via::Via;
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
/// and NUL made spaces (which is a flaw), and bytes after Content-Length dropped (section 18.3). Checked are: start line, header names, line ends,
/// counts and sizes, the presence and form of Via, From, To, Call-ID and CSeq, that none of these nor
/// Max-Forwards and Content-Length stands twice, and the values of the latter two.
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
    #[inline]
    fn line_end(&mut self, from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            at = control(self.bytes, at)?;
            match (self.bytes[at], self.bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => return Some(at),
                (b'\r' | b'\n', _) => self.soiled = true,
                (0, _) => self.soiled |= !escaped(&self.bytes[from..at]),
                _ => {}
            }
            at += 1;
        }
    }

    fn start_line(&mut self, end: usize, spans: &mut Spans) -> Result<(), &'static str> {
        let line = &self.bytes[..end];
        if line.len() > 8 && line[..8].eq_ignore_ascii_case(b"SIP/2.0 ") {
            return self.status_line(line, spans);
        }
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
        spans.start = Start::Request {
            method: Span::locate(self.bytes, method),
            uri: if uri.is_empty() { Span::default() } else { Span::locate(self.bytes, uri) },
        };
        if method.len() > self.limits.method {
            self.note(flaw(400, "Method Too Long"));
        } else if !version.eq_ignore_ascii_case(b"SIP/2.0") {
            self.note(flaw(505, "Version Not Supported"));
        } else if uri.len() > self.limits.uri {
            self.note(flaw(414, "Request-URI Too Long"));
        } else if trimmed.len() != line.len() || uri.is_empty() || uri.iter().any(|&b| b <= b' ' || b == 0x7f)
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
        loop {
            match self.bytes.get(self.at..self.at + 2) {
                Some(b"\r\n") => {
                    self.at += 2;
                    return;
                }
                Some([first, _]) if is_space(*first) => {
                    self.folded = true;
                    return;
                }
                Some(_) => {}
                None => return self.unfinished(),
            }
            if spans.headers.len() >= self.limits.headers {
                self.note(flaw(513, "Too Many Header Fields"));
                return;
            }
            if !self.header(spans) {
                return self.unfinished();
            }
        }
    }

    #[cold]
    fn unfinished(&mut self) {
        self.at = self.bytes.len();
        self.note(flaw(400, "Head Not Finished"));
    }

    /// Indexes the line at `self.at`; `false` if it does not end.
    fn header(&mut self, spans: &mut Spans) -> bool {
        let line = self.at;
        let bytes = self.bytes;
        let (name, name_len, colon) = match usual(&bytes[line..]) {
            Some((name, len)) => (name, len, Some(line + len)),
            None => self.unusual(line),
        };
        let Some(end) = self.line_end(colon.unwrap_or(line)) else { return false };
        self.at = end + 2;
        let Some(colon) = colon.filter(|_| name_len > 0 && name_len <= self.limits.name) else {
            self.note(flaw(400, "Malformed Header Field"));
            return true;
        };
        if end - line > self.limits.header {
            self.note(flaw(513, "Header Field Too Large"));
        }
        let value = trimmed(bytes, colon + 1, end);
        if name == Name::Via {
            self.count_via(value, spans);
        }
        let (line, line_end) = (line as u32, self.at as u32);
        spans.push(HeaderSpan { name, next: NONE, line, name_len: name_len as u16, value, line_end });
        // A fold after this line joins the next one to it: seen by the caller's loop.
        true
    }

    fn count_via(&self, value: Span, spans: &mut Spans) {
        spans.vias += 1;
        let value = value.of(self.bytes);
        if spans.vias == 1 && value.contains(&b',') {
            spans.via_alone = false;
            spans.vias += value.iter().filter(|&&b| b == b',').count();
        }
    }

    /// Reads a name letter by letter: its kind, its length, and where its colon stands.
    fn unusual(&self, line: usize) -> (Name, usize, Option<usize>) {
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
#[inline]
fn trimmed(bytes: &[u8], mut from: usize, mut to: usize) -> Span {
    while from < to && bytes.get(from).is_some_and(|&b| is_space(b)) {
        from += 1;
    }
    while from < to && bytes.get(to - 1).is_some_and(|&b| is_space(b)) {
        to -= 1;
    }
    Span { start: from as u32, end: to as u32 }
}

/// The position of the first control character (a byte below 0x20) at or after `from`. Eight bytes at
/// a time: lines are too short for a vector search to pay for its set-up.
#[inline]
fn control(bytes: &[u8], from: usize) -> Option<usize> {
    const LOW: u64 = 0x2020_2020_2020_2020;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // The high bit of each byte below 0x20. A borrow can only mark bytes after the first true hit.
        let hits = word.wrapping_sub(LOW) & !word & HIGH;
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|&b| b < b' ').map(|found| at + found)
}

/// The first up to eight bytes of `text` as a word, and a mask of as many bytes.
const fn word(text: &[u8]) -> (u64, u64) {
    let (mut word, mut mask, mut i) = (0, 0, 0);
    while i < text.len() && i < 8 {
        word |= (text[i] as u64) << (8 * i);
        mask |= 0xff << (8 * i);
        i += 1;
    }
    (word, mask)
}

/// Whether `word` begins with the first eight bytes of `text`. Constant texts cost two instructions.
macro_rules! begins {
    ($word:expr, $text:literal) => {{
        const TEXT: (u64, u64) = word($text);
        $word & TEXT.1 == TEXT.0
    }};
}

/// The header names that make up nearly all of the traffic, in their usual spelling, with their colon:
/// a few comparisons of words instead of a walk over the letters. Answers the kind and the length of
/// the name.
#[inline]
fn usual(line: &[u8]) -> Option<(Name, usize)> {
    let head = u64::from_le_bytes(*line.first_chunk::<8>()?);
    let more =
        || line.get(8..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |c| u64::from_le_bytes(*c));
    match head as u8 {
        b'V' if begins!(head, b"Via:") => Some((Name::Via, 3)),
        b'F' if begins!(head, b"From:") => Some((Name::From, 4)),
        b'T' if begins!(head, b"To:") => Some((Name::To, 2)),
        b'C' if begins!(head, b"CSeq:") => Some((Name::CSeq, 4)),
        b'C' if begins!(head, b"Call-ID:") => Some((Name::CallId, 7)),
        b'C' if begins!(head, b"Contact:") => Some((Name::Contact, 7)),
        b'C' if begins!(head, b"Content-") => match more() {
            rest if begins!(rest, b"Length:") => Some((Name::ContentLength, 14)),
            rest if begins!(rest, b"Type:") => Some((Name::ContentType, 12)),
            _ => None,
        },
        b'M' if begins!(head, b"Max-Forw") && begins!(more(), b"ards:") => Some((Name::MaxForwards, 12)),
        b'R' if begins!(head, b"Route:") => Some((Name::Route, 5)),
        b'R' if begins!(head, b"Record-R") && begins!(more(), b"oute:") => Some((Name::RecordRoute, 12)),
        b'U' if begins!(head, b"User-Age") && begins!(more(), b"nt:") => Some((Name::UserAgent, 10)),
        b'E' if begins!(head, b"Expires:") => Some((Name::Expires, 7)),
        _ => None,
    }
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
    let first = if spans.via_alone { value } else { trim(&value[..end_of_value(value)]) };
    // Of a response only the branch is needed: its Via is ours, or the response is not.
    let is_request = matches!(spans.start, Start::Request { .. });
    spans.via = if is_request {
        let via = Via::parse(first).map_err(|_| "malformed Via")?;
        ViaSpans::new(bytes, &via)
    } else {
        ViaSpans::of_response(bytes, first)
    };
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
    Ok(())
}

fn call_id(bytes: &[u8], spans: &mut Spans, limits: &Limits) -> Option<Flaw> {
    let header = match spans.single(Name::CallId) {
        Ok(Some(header)) => header,
        Ok(None) => return Some(flaw(400, "Missing Call-ID")),
        Err(_) => return Some(flaw(400, "Two Call-ID Header Fields")),
    };
    let value = header.value.of(bytes);
    if value.is_empty() || value.len() > limits.token || value.iter().any(|&b| b <= b' ') {
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
    let from =
        tag(bytes, spans, Name::From, limits, ["Missing From", "Malformed From", "Two From Header Fields"]);
    let to = tag(bytes, spans, Name::To, limits, ["Missing To", "Malformed To", "Two To Header Fields"]);
    (spans.from_uri, spans.from_tag) = *from.as_ref().unwrap_or(&Default::default());
    (spans.to_uri, spans.to_tag) = *to.as_ref().unwrap_or(&Default::default());
    from.err().or(to.err())
}

fn tag(
    bytes: &[u8],
    spans: &Spans,
    name: Name,
    limits: &Limits,
    says: [&'static str; 3],
) -> Result<(Span, Span), Flaw> {
    let [missing, malformed, twice] = says;
    let header = spans.single(name).map_err(|_| flaw(400, twice))?.ok_or(flaw(400, missing))?;
    let addr = NameAddr::parse(header.value.of(bytes)).map_err(|_| flaw(400, malformed))?;
    let uri = Span::locate(bytes, addr.uri);
    match addr.param(b"tag") {
        None => Ok((uri, Span::default())),
        Some(tag) if is_token(tag) && tag.len() <= limits.token => Ok((uri, Span::locate(bytes, tag))),
        Some(_) => Err(flaw(400, malformed)),
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
    let Some(number) = number.filter(|_| spaced && is_token(method)) else {
        return Some(flaw(400, "Malformed CSeq"));
    };
    spans.cseq = number;
    spans.cseq_method = Span::locate(bytes, method);
    match spans.start {
        Start::Request { method: m, .. } if m.of(bytes) != method => {
            // RFC 4475 section 3.1.2.18: 501 where the method is unknown as well.
            let unknown = matches!(Method::from_bytes(m.of(bytes)), Method::Other(_));
            Some(if unknown { flaw(501, "Not Implemented") } else { flaw(400, "CSeq Method Mismatch") })
        }
        _ => None,
    }
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
