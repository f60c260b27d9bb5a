//! Finds the headers that `[last_...]` asks for, all in one pass over the message.

use super::{NO_SKIP, Skip};
use core::num::NonZeroU64;
use core::ops::Range;
use memchr::memchr;
use sip_message::{Message, Name, NameAddr};

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

/// A header in a message: its number in a [`Seeker`], where its line begins and where it ends.
type Span = (u16, u16, u16);

/// Where the headers that a scenario asks for stand in a message that was parsed anyway. A call that
/// keeps it beside the message spares each text a reading of the message.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    spans: Vec<Span>,
    likeness: Option<NonZeroU64>,
    /// Where the URI of the first Contact stands, if that is known: in brackets, without a display name.
    url: Option<(u16, u16)>,
    /// Where the tag of the To stands, if it is the first parameter behind brackets.
    tag: Option<(u16, u16)>,
    /// At which step a call was that such a message came for last, and which step took it.
    taken: Option<(usize, usize)>,
}

impl Outline {
    /// Notes where the headers stand in [`Message::bytes`]. Keeps its memory.
    pub fn learn(&mut self, headers: &Seeker, message: &Message<'_>) {
        self.clear();
        self.likeness = message.likeness();
        for (which, own) in (0_u16..).zip(&headers.sought) {
            let mut add = |line: Range<usize>| {
                // The line is noted without its end. A message has at most 64 KiB.
                let to = line.end.saturating_sub(2).max(line.start);
                if let (Ok(from), Ok(to)) = (u16::try_from(line.start), u16::try_from(to)) {
                    self.spans.push((which, from, to));
                }
            };
            if own.known == Name::Other {
                let same = |raw: &[u8]| raw.eq_ignore_ascii_case(&own.name);
                message
                    .all_headers()
                    .filter(|header| same(header.raw_name))
                    .for_each(|header| add(header.line));
            } else {
                message.headers(own.known).for_each(|header| add(header.line));
            }
        }
    }

    /// Forgets the message.
    pub fn clear(&mut self) {
        self.spans.clear();
        (self.likeness, self.url, self.tag, self.taken) = (None, None, None, None);
    }

    /// What the message has in common with others ([`Message::likeness`]). In all of those everything noted
    /// here stands in the same place.
    pub fn likeness(&self) -> Option<NonZeroU64> {
        self.likeness
    }

    /// The URI of the first Contact of a message that this is the outline of, or of its like. `None` says
    /// nothing.
    pub fn next_url<'m>(&self, message: &Message<'m>) -> Option<&'m [u8]> {
        let (from, to) = self.url?;
        message.bytes().get(usize::from(from)..usize::from(to))
    }

    /// The step that took such a message last, if it came for a call at this step.
    #[inline]
    pub fn taken(&self, at: usize) -> Option<usize> {
        self.taken.filter(|taken| taken.0 == at).map(|taken| taken.1)
    }

    /// The same of the tag of the To.
    pub fn to_tag<'m>(&self, message: &Message<'m>) -> Option<&'m [u8]> {
        let tag = tag_at(message, self.tag?);
        debug_assert!(
            tag.is_none_or(|tag| tag == message.to_tag()),
            "what is alike has its tag in one place"
        );
        tag
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

/// Where the URI of the first Contact stands. In brackets that depends on no letter or digit.
fn bracketed(message: &Message<'_>) -> Option<(u16, u16)> {
    let value = message.values(Name::Contact).next().filter(|value| value.starts_with(b"<"))?;
    place(message.range_of(NameAddr::parse(value).ok()?.uri))
}

/// A message has at most 64 KiB.
fn place(range: Range<usize>) -> Option<(u16, u16)> {
    Some((range.start.try_into().ok()?, range.end.try_into().ok()?))
}

/// What stands in a message where the tag of the To stands in another of its like, if it is one: the name of
/// a parameter has letters.
#[inline]
fn tag_at<'m>(message: &Message<'m>, (from, to): (u16, u16)) -> Option<&'m [u8]> {
    const LEAD: &[u8] = b">;tag=";
    let text = message.bytes().get(usize::from(from).checked_sub(LEAD.len())?..usize::from(to))?;
    text.strip_prefix(LEAD)
}

/// The outlines of messages that were the like of others, so that each is found once.
#[derive(Clone, Debug)]
pub struct Outlines(Vec<Outline>);

impl Outlines {
    /// As many as an index remembers messages.
    const MOST: u64 = 128;

    /// None yet.
    pub fn new() -> Outlines {
        Outlines((0..Outlines::MOST).map(|_| Outline::default()).collect())
    }

    /// The outline of messages of this likeness, if it is known still.
    #[inline]
    pub fn get(&self, likeness: NonZeroU64) -> Option<&Outline> {
        let outline = self.0.get((likeness.get() % Outlines::MOST) as usize);
        outline.filter(|outline| outline.likeness == Some(likeness))
    }

    /// Notes which step took a message of this likeness that came for a call at another.
    pub fn set_taken(&mut self, likeness: NonZeroU64, at: usize, by: usize) {
        let outline = self.0.get_mut((likeness.get() % Outlines::MOST) as usize);
        if let Some(outline) = outline.filter(|outline| outline.likeness == Some(likeness)) {
            outline.taken = Some((at, by));
        }
    }

    /// The outline of a message that has a likeness; `None` if it has not. All headers must be those of one
    /// scenario, all messages read by one index.
    #[inline]
    pub fn of(&mut self, headers: &Seeker, message: &Message<'_>) -> Option<&Outline> {
        let likeness = message.likeness()?;
        let outline = self.0.get_mut((likeness.get() % Outlines::MOST) as usize)?;
        if outline.likeness != Some(likeness) {
            outline.learn(headers, message);
            outline.url = bracketed(message);
            outline.tag = place(message.range_of(message.to_tag()))
                .filter(|tag| tag.0 < tag.1 && tag_at(message, *tag).is_some());
        }
        Some(outline)
    }
}

impl Default for Outlines {
    fn default() -> Outlines {
        Outlines::new()
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
        Found { spans: [(0, 0, 0); Found::MOST], count: 0 }
    }

    fn add(&mut self, which: usize, from: usize, to: usize) {
        // A message has at most 64 KiB.
        if let (Some(place), Ok(from), Ok(to)) =
            (self.spans.get_mut(self.count), u16::try_from(from), u16::try_from(to))
        {
            *place = (which as u16, from, to);
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
    for &(own, from, to) in spans {
        if own != which {
            continue;
        }
        let line = message.get(usize::from(from)..usize::from(to)).unwrap_or_default();
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

    #[test]
    fn tag_and_contact_of_alike_messages_are_found_without_reading() {
        let ok = |tag: &str, url: &str| {
            format!(
                "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=x\r\nTo: <sip:b@c>;{tag}\r\n\
                Call-ID: i\r\nCSeq: 1 INVITE\r\nContact: {url}\r\n\r\n"
            )
        };
        let (seeker, mut index, mut outlines) =
            (Seeker::default(), sip_message::Index::with_memory(), Outlines::new());
        let mut found = |tag: &str, url: &str| {
            let text = ok(tag, url);
            let limits = sip_message::Limits::default();
            let sip_message::Parsed::Good(message) = sip_message::parse(text.as_bytes(), &mut index, &limits)
            else {
                panic!("a good message")
            };
            let outline = outlines.of(&seeker, &message).unwrap();
            let shown = [outline.to_tag(&message), outline.next_url(&message)];
            // Where something is said it is what reading finds.
            assert!(shown[0].is_none_or(|tag| tag == message.to_tag()));
            let contact = message.values(Name::Contact).next().and_then(|value| NameAddr::parse(value).ok());
            assert!(shown[1].is_none_or(|url| contact.is_some_and(|contact| contact.uri == url)));
            (
                outline.likeness(),
                shown.map(|text| text.map(|text| String::from_utf8_lossy(text).into_owned())),
            )
        };
        let both = |tag: &str, url: &str| [Some(tag.to_owned()), Some(url.to_owned())];
        let (first, shown) = found("tag=1-aa", "<sip:x@10.0.0.1;ob>;q=1");
        assert_eq!(shown, both("1-aa", "sip:x@10.0.0.1;ob"));
        assert_eq!(found("tag=2-bb", "<sip:y@10.0.0.9;ob>;q=1"), (first, both("2-bb", "sip:y@10.0.0.9;ob")));
        // Letters of a parameter's name may be others in a message that is alike.
        let (like, shown) = found("tga=2-bb", "<sip:y@10.0.0.9;ob>;q=1");
        assert_eq!((like, &shown[0]), (first, &None));
        assert_eq!(found("x=1;tag=1", "sip:y@10.0.0.9").1, [None, None], "neither is where most have it");
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
