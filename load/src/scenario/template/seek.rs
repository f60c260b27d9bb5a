//! Finds the headers that `[last_...]` asks for, all in one pass over the message.

use super::{NO_SKIP, Skip};
use memchr::memchr;
use sip_message::{Header, Message, Name};

/// A header that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sought {
    known: Name,
    /// Its name, as most write it.
    name: Box<[u8]>,
    /// The first eight bytes of the name, each with the bit set that makes letters lower-case.
    head: u64,
    /// Which of them there are.
    mask: u64,
    /// Its short form.
    short: Option<u8>,
}

/// Names of headers that `[last_...]` asks for: those of one template, or of a whole scenario.
#[derive(Clone, Debug, Default)]
pub struct Seeker {
    sought: Vec<Sought>,
    /// First letters of their names and short forms: bit 1 is A, as in ASCII.
    letters: u32,
}

const LOWER: u64 = 0x2020_2020_2020_2020;

/// The first eight bytes of a line in lower case.
fn head(line: &[u8]) -> u64 {
    match line.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes) | LOWER,
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(line).for_each(|(place, &byte)| *place = byte);
            u64::from_le_bytes(bytes) | LOWER
        }
    }
}

impl Sought {
    fn new(name: &[u8]) -> Sought {
        let known = Name::from_bytes(name);
        let name = if known == Name::Other { name } else { known.as_str().as_bytes() };
        let bytes = name.len().min(8) as u32;
        let mask = if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        let short = |letter: &u8| known != Name::Other && Name::from_bytes(&[*letter]) == known;
        Sought { known, name: name.into(), head: head(name) & mask, mask, short: (b'a'..=b'z').find(short) }
    }

    /// Whether a line is this header, given its first bytes.
    #[inline]
    fn is(&self, line: &[u8], head: u64) -> bool {
        if head & self.mask == self.head
            && let Some((name, rest)) = line.split_at_checked(self.name.len())
            && (name == &*self.name || name.eq_ignore_ascii_case(&self.name))
            && ends_name(rest)
        {
            return true;
        }
        match (line, self.short) {
            ([first, rest @ ..], Some(short)) => first.to_ascii_lowercase() == short && ends_name(rest),
            _ => false,
        }
    }
}

/// Whether a name ends here: a colon, perhaps after white space.
#[inline]
fn ends_name(rest: &[u8]) -> bool {
    rest.first() == Some(&b':') || rest.trim_ascii_start().first() == Some(&b':')
}

impl Seeker {
    /// Most different headers in one template.
    pub(super) const MOST: usize = 16;

    /// The number of a header, made at its first use; `None` if there are `most` already.
    pub(super) fn place(&mut self, name: &[u8], most: usize) -> Option<u16> {
        let new = Sought::new(name);
        if let Some(at) = self.sought.iter().position(|own| own.name.eq_ignore_ascii_case(&new.name)) {
            return Some(at as u16);
        }
        if self.sought.len() >= most {
            return None;
        }
        for letter in new.name.first().into_iter().chain(&new.short) {
            self.letters |= 1 << (letter & 31);
        }
        self.sought.push(new);
        Some(self.sought.len() as u16 - 1)
    }

    /// The name with a number.
    pub(super) fn name(&self, which: u16) -> &[u8] {
        self.sought.get(usize::from(which)).map_or(b"", |own| &own.name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sought.is_empty()
    }

    /// Finds them in a message.
    pub(super) fn find(&self, message: &[u8], found: &mut Found) {
        let mut at = memchr(b'\n', message).map_or(message.len(), |end| end + 1);
        while let Some(rest) = message.get(at..)
            && let Some(&first) = rest.first()
            && let Some(mut end) = memchr(b'\n', rest)
        {
            if end <= 1 && (end == 0 || first == b'\r') {
                return;
            }
            // Most lines are of no interest, which their first letter tells.
            if self.letters >> (first & 31) & 1 != 0 {
                let head = head(rest);
                if let Some(which) = self.sought.iter().position(|own| own.is(rest, head)) {
                    // A line that begins with white space goes on with this one (RFC 3261 section 7.3.1).
                    while let Some(b' ' | b'\t') = rest.get(end + 1)
                        && let Some(more) = rest.get(end + 1..).and_then(|rest| memchr(b'\n', rest))
                    {
                        end += 1 + more;
                    }
                    let line = end - usize::from(rest.get(..end).is_some_and(|line| line.ends_with(b"\r")));
                    found.add(which, at, at + line);
                }
            }
            at += end + 1;
        }
    }
}

/// A header in a message.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Span {
    /// Its number in a [`Seeker`].
    pub which: u16,
    /// Where its line begins, and ends without the line end.
    pub from: u16,
    pub to: u16,
    /// Where its value begins, if it ends with the line; otherwise 0.
    pub value: u16,
}

impl Span {
    /// The line, without its end.
    #[inline]
    pub fn line<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        message.get(usize::from(self.from)..usize::from(self.to)).unwrap_or_default()
    }
}

/// Where the headers that a scenario asks for stand in a message that was parsed anyway. A call that
/// keeps it beside the message spares each text a reading of the message.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    spans: Vec<Span>,
}

impl Outline {
    /// Notes where the headers stand in [`Message::bytes`]. Keeps its memory.
    pub fn learn(&mut self, headers: &Seeker, message: &Message<'_>) {
        self.clear();
        for (which, own) in (0_u16..).zip(&headers.sought) {
            let mut add = |header: Header<'_>| {
                // The line is noted without its end. A message has at most 64 KiB.
                let line = header.line.clone();
                let to = line.end.saturating_sub(2).max(line.start);
                let value = message.range_of(header.value);
                let value = if value.end == to { value.start } else { 0 };
                if let (Ok(from), Ok(to), Ok(value)) =
                    (u16::try_from(line.start), u16::try_from(to), u16::try_from(value))
                {
                    self.spans.push(Span { which, from, to, value });
                }
            };
            if own.known == Name::Other {
                let same = |raw: &[u8]| raw.eq_ignore_ascii_case(&own.name);
                message.all_headers().filter(|header| same(header.raw_name)).for_each(&mut add);
            } else {
                message.headers(own.known).for_each(add);
            }
        }
    }

    /// Forgets the message.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

/// What [`Seeker::find`] found. Fixed in size, so that nothing is allocated.
pub(super) struct Found {
    spans: [Span; Found::MOST],
    count: usize,
}

impl Found {
    /// Most header lines that are copied; what is beyond is left out.
    const MOST: usize = 32;

    pub fn new() -> Found {
        Found { spans: [Span::default(); Found::MOST], count: 0 }
    }

    fn add(&mut self, which: usize, from: usize, to: usize) {
        // A message has at most 64 KiB.
        if let (Some(place), Ok(from), Ok(to)) =
            (self.spans.get_mut(self.count), u16::try_from(from), u16::try_from(to))
        {
            *place = Span { which: which as u16, from, to, value: 0 };
            self.count += 1;
        }
    }

    pub fn spans(&self) -> &[Span] {
        self.spans.get(..self.count).unwrap_or_default()
    }
}

/// What stands behind the name of a header line.
pub(super) fn value_of(line: &[u8]) -> &[u8] {
    let colon = memchr(b':', line).map_or(0, |at| at + 1);
    line.get(colon..).unwrap_or_default().trim_ascii()
}

/// Writes a header as it stands in the message; further ones of the name as further values. Gives
/// `skip` if there is none.
#[inline]
pub(super) fn write_header(
    spans: &[Span],
    which: u16,
    message: &[u8],
    out: &mut Vec<u8>,
    skip: Skip,
) -> Skip {
    let mut result = skip;
    let mut first = true;
    for span in spans.iter().filter(|span| span.which == which) {
        let line = span.line(message);
        if first {
            out.extend_from_slice(line);
        } else {
            out.extend_from_slice(b", ");
            out.extend_from_slice(value_of(line));
        }
        (first, result) = (false, NO_SKIP);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    fn found(names: &[&str], message: &[u8]) -> Vec<Option<String>> {
        let mut seeker = Seeker::default();
        let places: Vec<u16> =
            names.iter().map(|name| seeker.place(name.as_bytes(), Seeker::MOST).unwrap()).collect();
        let mut found = Found::new();
        seeker.find(message, &mut found);
        let shown = places.into_iter().map(|which| {
            let mut out = Vec::new();
            let skip = write_header(found.spans(), which, message, &mut out, 7);
            (skip == NO_SKIP).then(|| String::from_utf8(out).unwrap())
        });
        shown.collect()
    }

    #[test]
    fn headers_are_found_in_every_spelling() {
        let message = b"x\r\nVIA: 1\r\nv :2\r\nVia:\r\n\t3\r\nTo-Do: no\r\nt:4\r\nX-Long-Header-Name: 5\r\nT\r\nCSeq: 6\r\n\r\nFrom: no\r\n";
        let names = ["via", "To", "x-long-header-name", "cseq", "From", "X-Long-Header-Nam", "C"];
        let want = [
            Some("VIA: 1, 2, 3"),
            Some("t:4"),
            Some("X-Long-Header-Name: 5"),
            Some("CSeq: 6"),
            None,
            None,
            None,
        ];
        assert_eq!(found(&names, message), want.map(|text| text.map(str::to_owned)));
        assert_eq!(found(&["via"], b"x\nVia: 1\n\nVia: 2\n"), [Some("Via: 1".to_owned())]);
    }

    #[test]
    fn there_are_bounds() {
        let mut seeker = Seeker::default();
        let place = |seeker: &mut Seeker, i: usize| seeker.place(format!("X-{i}").as_bytes(), Seeker::MOST);
        assert!((0..Seeker::MOST).all(|i| place(&mut seeker, i) == Some(i as u16)));
        assert_eq!((place(&mut seeker, 3), place(&mut seeker, 99)), (Some(3), None));
        let many = b"x\r\n".iter().chain(b"Via: 1\r\n".repeat(100).iter()).copied().collect::<Vec<u8>>();
        assert_eq!(found(&["Via"], &many)[0].as_ref().unwrap().matches('1').count(), Found::MOST);
    }

    /// What the parser found and what the pass over the message finds is the same.
    #[test]
    fn an_outline_is_what_reading_finds() {
        let message = b"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nv: SIP/2.0/UDP b;branch=z9hG4bK2\r\n\
            X-Own: 1\r\n 2\r\nf: <sip:a@b>;tag=x\r\nTo: <sip:b@c>\r\nCall-ID: i\r\nCSeq: 1 OPTIONS\r\nx-own: 3\r\n\r\n";
        let mut seeker = Seeker::default();
        let names = ["x-own", "From", "Via", "To", "Subject"];
        let places = names.map(|name| seeker.place(name.as_bytes(), 99).unwrap());
        let mut index = sip_message::Index::new();
        let sip_message::Parsed::Good(parsed) =
            sip_message::parse(message, &mut index, &sip_message::Limits::default())
        else {
            panic!("a good message")
        };
        let mut outline = Outline::default();
        outline.learn(&seeker, &parsed);
        let mut found = Found::new();
        // The parser has unfolded the message.
        seeker.find(parsed.bytes(), &mut found);
        for which in places {
            let shown = [outline.spans(), found.spans()].map(|spans| {
                let mut out = Vec::new();
                let skip = write_header(spans, which, parsed.bytes(), &mut out, 7);
                (skip, String::from_utf8(out).unwrap())
            });
            assert_eq!(shown[0], shown[1]);
            assert_eq!(shown[0].0 == 7, which == places[4]);
        }
        outline.clear();
        assert!(outline.spans().is_empty());
    }

    proptest! {
        /// Against the plain way of reading a message.
        #[test]
        fn the_same_is_found_by_plain_reading(text in "x\r\n((To|t|VIA|v|From|Fro|X-Abcdefghi|x-abcdefghj)( ?:[a-z]{0,3}|)\r\n(\t[a-z]\r\n)?){0,8}\r\n(To:x\r\n)?") {
            for name in ["To", "Via", "From", "X-Abcdefghi"] {
                let known = Name::from_bytes(name.as_bytes());
                let own = super::super::super::message::Lines::of(text.as_bytes()).filter(|line| {
                    let same = Name::from_bytes(line.name()) == known;
                    if known == Name::Other { line.name().eq_ignore_ascii_case(name.as_bytes()) } else { same }
                });
                let values: Vec<_> = own.map(|line| line.value().to_vec()).collect();
                let shown = found(&[name], text.as_bytes()).remove(0);
                let shown = shown.map(|text| text.split_once(':').unwrap().1.trim().to_owned());
                let want = (!values.is_empty()).then(|| String::from_utf8(values.join(&b", "[..])).unwrap().trim().to_owned());
                prop_assert_eq!(shown, want);
            }
        }
    }
}
