//! A message as the plain walk finds it.

use super::values::{self, is_space, is_token, trim};
use crate::{Limits, Method, Name, Via};
use core::ops::Range;

/// Everything that reading a message gives.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Received, unfolded and mended.
    pub bytes: Vec<u8>,
    pub outcome: Outcome,
    /// Method and Request-URI.
    pub request: Option<(Vec<u8>, Vec<u8>)>,
    /// Status and reason.
    pub response: Option<(u16, Vec<u8>)>,
    pub headers: Vec<Field>,
    pub body: Range<usize>,
    pub call_id: Vec<u8>,
    pub from: (Vec<u8>, Vec<u8>),
    pub to: (Vec<u8>, Vec<u8>),
    pub cseq: u32,
    pub cseq_method: Vec<u8>,
    pub max_forwards: Option<u8>,
    pub vias: usize,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) enum Outcome {
    #[default]
    Good,
    Bad(u16, &'static str),
    Garbage(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub name: Name,
    pub raw_name: Range<usize>,
    pub value: Range<usize>,
    pub line: Range<usize>,
}

impl Reading {
    pub fn value(&self, field: &Field) -> &[u8] {
        &self.bytes[field.value.clone()]
    }

    pub fn all(&self, name: Name) -> impl Iterator<Item = &Field> {
        self.headers.iter().filter(move |h| h.name == name)
    }

    fn note(&mut self, status: u16, reason: &'static str) {
        if self.outcome == Outcome::Good {
            self.outcome = Outcome::Bad(status, reason);
        }
    }

    /// The only field of this name; `Err` if there are several.
    fn single(&self, name: Name) -> Result<Option<Field>, ()> {
        let mut all = self.all(name);
        match (all.next(), all.next()) {
            (_, Some(_)) => Err(()),
            (first, None) => Ok(first.cloned()),
        }
    }

    /// The first Via, which a message that is no garbage has.
    pub fn via(&self) -> Option<Via<'_>> {
        let value = self.value(self.all(Name::Via).next()?);
        let first = trim(&value[..values::end_of_value(value)]);
        values::via(first).ok()
    }
}

/// What the walk found besides the fields.
#[derive(Default)]
struct Odd {
    folded: bool,
    soiled: bool,
}

/// Reads a message.
pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Reading {
    let mut bytes = bytes;
    while let [b'\r', b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    let (mut reading, odd) = scan(bytes.to_vec(), limits);
    if odd.folded || odd.soiled {
        let (mended, soiled) = mend(bytes);
        reading = scan(mended, limits).0;
        if soiled && !matches!(reading.outcome, Outcome::Garbage(_)) {
            reading.outcome = Outcome::Bad(400, "Lone CR or LF Or NUL In Header");
        }
    }
    if matches!(reading.outcome, Outcome::Garbage(_)) {
        return reading;
    }
    if reading.bytes.len() > limits.message {
        reading.note(513, "Message Too Large");
    }
    if let Err(why) = essentials(&mut reading, limits) {
        reading.outcome = Outcome::Garbage(why);
    }
    reading
}

fn mend(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut out = bytes.to_vec();
    let (mut i, mut line, mut soiled) = (0, 0, false);
    while i < out.len() {
        match out[i] {
            b'\r' if out.get(i + 1) == Some(&b'\n') => {
                match out.get(i + 2) {
                    Some(b'\r') if out.get(i + 3) == Some(&b'\n') => return (out, soiled),
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
    (out, soiled)
}

fn escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// The CRLF that ends the line at `from`.
fn line_end(bytes: &[u8], from: usize, odd: &mut Odd) -> Option<usize> {
    for at in from..bytes.len() {
        match bytes[at] {
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => return Some(at),
            b'\r' | b'\n' => odd.soiled = true,
            0 => odd.soiled |= !escaped(&bytes[from..at]),
            _ => {}
        }
    }
    None
}

fn scan(bytes: Vec<u8>, limits: &Limits) -> (Reading, Odd) {
    let mut reading = Reading { bytes, ..Reading::default() };
    let mut odd = Odd::default();
    if let Err(why) = scan_into(&mut reading, &mut odd, limits) {
        reading.outcome = Outcome::Garbage(why);
    }
    (reading, odd)
}

fn scan_into(r: &mut Reading, odd: &mut Odd, limits: &Limits) -> Result<(), &'static str> {
    let bytes = r.bytes.clone();
    let end = line_end(&bytes, 0, odd).ok_or("no start line")?;
    start_line(r, &bytes[..end], limits)?;
    let mut at = end + 2;
    loop {
        match bytes.get(at..at + 2) {
            Some(b"\r\n") => {
                at += 2;
                break;
            }
            Some([first, _]) if is_space(*first) => {
                odd.folded = true;
                break;
            }
            Some(_) if r.headers.len() >= limits.headers => {
                r.note(513, "Too Many Header Fields");
                break;
            }
            Some(_) => match header(r, &bytes, at, odd, limits) {
                Some(next) => at = next,
                None => {
                    at = bytes.len();
                    r.note(400, "Head Not Finished");
                    break;
                }
            },
            None => {
                at = bytes.len();
                r.note(400, "Head Not Finished");
                break;
            }
        }
    }
    if at > limits.head {
        r.note(513, "Message Head Too Large");
    }
    body(r, at, limits);
    Ok(())
}

fn start_line(r: &mut Reading, line: &[u8], limits: &Limits) -> Result<(), &'static str> {
    if line.len() > 8 && line[..8].eq_ignore_ascii_case(b"SIP/2.0 ") {
        let code = line.get(8..11).and_then(values::number).ok_or("no status code")?;
        let status = u16::try_from(code).ok().filter(|s| (100..700).contains(s)).ok_or("no status code")?;
        let reason = match line.get(11..) {
            Some([]) | None => &line[11..],
            Some([b' ', ..]) => &line[12..],
            Some(_) => return Err("no status code"),
        };
        r.response = Some((status, reason.to_vec()));
        return Ok(());
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
    r.request = Some((method.to_vec(), uri.to_vec()));
    if method.len() > limits.method {
        r.note(400, "Method Too Long");
    } else if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        r.note(505, "Version Not Supported");
    } else if uri.len() > limits.uri {
        r.note(414, "Request-URI Too Long");
    } else if trimmed.len() != line.len() || uri.is_empty() || uri.iter().any(|&b| b <= b' ' || b == 0x7f) {
        r.note(400, "Malformed Request-Line");
    }
    Ok(())
}

/// Reads the line at `line`: where the next one starts, or nothing if it does not end.
fn header(r: &mut Reading, bytes: &[u8], line: usize, odd: &mut Odd, limits: &Limits) -> Option<usize> {
    let mut at = line;
    while bytes.get(at).is_some_and(|&b| values::token_char(b)) {
        at += 1;
    }
    let raw_name = line..at;
    while bytes.get(at).is_some_and(|&b| is_space(b)) {
        at += 1;
    }
    let colon = (bytes.get(at) == Some(&b':')).then_some(at);
    let end = line_end(bytes, colon.unwrap_or(line), odd)?;
    let Some(colon) = colon.filter(|_| !raw_name.is_empty() && raw_name.len() <= limits.name) else {
        r.note(400, "Malformed Header Field");
        return Some(end + 2);
    };
    if end - line > limits.header {
        r.note(513, "Header Field Too Large");
    }
    let (mut from, mut to) = (colon + 1, end);
    while from < to && is_space(bytes[from]) {
        from += 1;
    }
    while from < to && is_space(bytes[to - 1]) {
        to -= 1;
    }
    let name = Name::from_bytes(&bytes[raw_name.clone()]);
    if name == Name::Via {
        r.vias += 1;
        if r.vias == 1 {
            r.vias += bytes[from..to].iter().filter(|&&b| b == b',').count();
        }
    }
    r.headers.push(Field { name, raw_name, value: from..to, line: line..end + 2 });
    Some(end + 2)
}

fn body(r: &mut Reading, head: usize, limits: &Limits) {
    let available = r.bytes.len() - head;
    let length = match r.single(Name::ContentLength) {
        Ok(None) => available,
        Ok(Some(field)) => match values::number(r.value(&field)) {
            Some(n) if n <= available as u64 => n as usize,
            Some(_) => {
                r.note(400, "Body Shorter Than Content-Length");
                available
            }
            None => {
                r.note(400, "Malformed Content-Length");
                0
            }
        },
        Err(()) => {
            r.note(400, "Two Content-Length Header Fields");
            0
        }
    };
    r.body = head..head + length;
    if length > limits.body {
        r.note(413, "Request Entity Too Large");
    }
}

fn essentials(r: &mut Reading, limits: &Limits) -> Result<(), &'static str> {
    let is_request = r.request.is_some();
    let first = r.all(Name::Via).next().ok_or("no Via")?.clone();
    let value = r.value(&first).to_vec();
    let top = trim(&value[..values::end_of_value(&value)]);
    if is_request && values::via(top).is_err() {
        return Err("malformed Via");
    }
    if response_branch(top, is_request).len() > limits.token {
        r.note(400, "Branch Too Long");
    }
    if value.ends_with(b",") || value.ends_with(b";") {
        r.note(400, "Malformed Via");
    }
    if r.vias > limits.vias + usize::from(!is_request) {
        r.note(513, "Too Many Via Header Fields");
    }
    match r.single(Name::CallId) {
        Err(()) => r.note(400, "Two Call-ID Header Fields"),
        Ok(None) => r.note(400, "Missing Call-ID"),
        Ok(Some(field)) => {
            let value = r.value(&field).to_vec();
            if value.is_empty() || value.len() > limits.token || value.iter().any(|&b| b <= b' ') {
                r.note(400, "Malformed Call-ID");
            } else {
                r.call_id = value;
            }
        }
    }
    addresses(r, is_request, limits);
    cseq(r);
    match r.single(Name::MaxForwards) {
        Err(()) => r.note(400, "Two Max-Forwards Header Fields"),
        Ok(None) => {}
        Ok(Some(field)) => {
            r.max_forwards = values::number(r.value(&field)).and_then(|n| u8::try_from(n).ok());
            if r.max_forwards.is_none() {
                r.note(400, "Malformed Max-Forwards");
            }
        }
    }
    contacts(r, limits);
    Ok(())
}

/// The branch of the topmost Via; a response's is read by its parameters alone.
pub(crate) fn response_branch(top: &[u8], is_request: bool) -> &[u8] {
    if is_request {
        return values::via(top).map_or(b"", |via| via.branch);
    }
    let params = top.iter().position(|&b| b == b';').map_or(&b""[..], |at| &top[at..]);
    values::param(params, b"branch").unwrap_or(b"")
}

fn addresses(r: &mut Reading, is_request: bool, limits: &Limits) {
    if !is_request {
        let once = |name| matches!(r.single(name), Ok(Some(_)));
        if !(once(Name::From) && once(Name::To)) {
            r.note(400, "Missing Or Doubled From Or To");
        }
        // Their tags are read from the first of each, whatever there is.
        let read = |name| {
            let addr = values::name_addr(r.value(r.all(name).next()?)).ok()?;
            Some((addr.uri.to_vec(), values::param(addr.params, b"tag").unwrap_or(b"").to_vec()))
        };
        (r.from, r.to) = (read(Name::From).unwrap_or_default(), read(Name::To).unwrap_or_default());
        return;
    }
    let read = |name, says: [&'static str; 3]| {
        let field = r.single(name).map_err(|()| says[2])?.ok_or(says[0])?;
        let value = r.value(&field);
        let addr = values::name_addr(value).map_err(|_| says[1])?;
        let odd = addr.uri.contains(&b'"') || !addr.uri.contains(&b':');
        if odd || values::end_of_value(value) < value.len() {
            return Err(says[1]);
        }
        match values::param(addr.params, b"tag") {
            None => Ok((addr.uri.to_vec(), Vec::new())),
            Some(tag) if is_token(tag) && tag.len() <= limits.token => Ok((addr.uri.to_vec(), tag.to_vec())),
            Some(_) => Err(says[1]),
        }
    };
    let from = read(Name::From, ["Missing From", "Malformed From", "Two From Header Fields"]);
    let to = read(Name::To, ["Missing To", "Malformed To", "Two To Header Fields"]);
    if let Some(why) = from.as_ref().err().or(to.as_ref().err()) {
        r.note(400, why);
    }
    (r.from, r.to) = (from.unwrap_or_default(), to.unwrap_or_default());
}

fn cseq(r: &mut Reading) {
    let field = match r.single(Name::CSeq) {
        Err(()) => return r.note(400, "Two CSeq Header Fields"),
        Ok(None) => return r.note(400, "Missing CSeq"),
        Ok(Some(field)) => field,
    };
    let value = r.value(&field).to_vec();
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let method = trim(&value[digits..]);
    let number = values::number(&value[..digits]).filter(|&n| n < 1 << 31);
    let spaced = value.get(digits).is_some_and(|&b| is_space(b));
    let Some(number) = number.filter(|_| spaced && is_token(method)) else {
        return r.note(400, "Malformed CSeq");
    };
    r.cseq = number as u32;
    r.cseq_method = method.to_vec();
    if r.request.as_ref().is_some_and(|(own, _)| own != method) {
        let own = r.request.clone().unwrap_or_default().0;
        match Method::from_bytes(&own) {
            Method::Other(_) => r.note(501, "Not Implemented"),
            _ => r.note(400, "CSeq Method Mismatch"),
        }
    }
}

/// Each Contact that sets a dialog up must fit into a request line.
fn contacts(r: &mut Reading, limits: &Limits) {
    let method = r.request.as_ref().map_or(&r.cseq_method, |(method, _)| method);
    let status = r.response.as_ref().map_or(200, |(status, _)| *status);
    if method == b"REGISTER" || !(101..300).contains(&status) {
        return;
    }
    let all = r.all(Name::Contact).flat_map(|field| values::values(r.value(field)));
    let unfit = |value: &[u8]| values::target(value).is_none_or(|uri| uri.len() > limits.uri);
    if all.into_iter().any(unfit) {
        r.note(400, "Malformed Contact");
    }
}
