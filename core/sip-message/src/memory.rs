//! Messages that were read before, but for a few letters, digits and dashes.
//!
//! Most of what a server or a generator receives looks like something it received a moment ago: the same
//! phone, trunk or node sends the same lines, and only what names the call or the user is another, of the
//! same length. [`Memory`] keeps the index of such messages. One that comes is held against the kept one,
//! thirty-two bytes at a time; where they differ only in plain bytes (letters, digits, `-` and `_`) that
//! stand where any plain byte means the same to the parser, the kept index is the index of this one too.
//!
//! The answer never depends on what is remembered: a property test and a fuzz target hold every index found
//! so against one made anew.

use crate::block::Block;
use crate::number::parse_u32;
use crate::spans::{Span, Spans, Start};
use crate::values::end_of_value;
use crate::via::{Via, usual_sent_by};
use crate::{Limits, Name};

/// Messages remembered: two for each row. A row is chosen by length and start line.
const ROWS: usize = 64;
const WAYS: usize = 2;
/// Longer heads are read anew; they are rare, and what is kept of them would be large.
const LONGEST: usize = 4_096;
/// How often in vain a message is held against a kept one before it takes its place.
const PATIENCE: u8 = 3;
/// A recognition pays for a quarter of a keeping.
const COST: u32 = 4;
const MOST_SAVED: u32 = 64;
/// Where keeping does not pay, one message of so many is kept all the same, for times change.
const TRIAL: u32 = 64;

/// One message, as it is kept.
#[derive(Debug)]
pub(crate) struct Shape {
    pub spans: Spans,
    limits: Limits,
    /// Start line and headers, and the length of the whole.
    head: Vec<u8>,
    len: usize,
    /// For each thirty-two bytes of the head which of them may be another plain byte; the last is for the
    /// thirty-two at the very end, which overlap those before them.
    free: Vec<u32>,
    /// The digits of CSeq.
    number: Span,
    /// Host and port of the topmost Via of a request, as a rule; otherwise empty. What stands there in
    /// `head` is what `spans` have.
    sent_by: Span,
    credit: u8,
}

/// Messages that were read before.
#[derive(Debug)]
pub(crate) struct Memory {
    shapes: Vec<Option<Box<Shape>>>,
    /// What recognitions have saved, less what keepings have cost.
    saved: u32,
    /// Messages read anew since one was kept.
    since: u32,
    /// Messages that were ever kept.
    kept: u64,
}

/// Where a message is kept that was not recognized.
#[derive(Clone, Copy)]
pub(crate) struct Place(usize);

impl Memory {
    pub fn new() -> Memory {
        let mut shapes = Vec::new();
        shapes.resize_with(ROWS * WAYS, || None);
        Memory { shapes, saved: MOST_SAVED, since: 0, kept: 0 }
    }

    /// Where a message like this one is kept, its index now that of this one; otherwise where to keep this
    /// one, if it is worth it.
    #[inline]
    pub fn recall(&mut self, bytes: &[u8], limits: &Limits) -> Result<Place, Option<Place>> {
        let Some(row) = row(bytes) else { return Err(None) };
        let Some(ways) = self.shapes.get_mut(row..row + WAYS) else { return Err(None) };
        let found = ways.iter_mut().position(|shape| {
            shape.as_deref_mut().is_some_and(|shape| shape.len == bytes.len() && shape.fits(bytes, limits))
        });
        match found {
            Some(way) => {
                self.saved = (self.saved + 1).min(MOST_SAVED);
                Ok(Place(row + way))
            }
            None => Err(self.place(row)),
        }
    }

    /// The index kept there.
    #[inline]
    pub fn spans(&self, at: Place) -> Option<&Spans> {
        self.shapes.get(at.0)?.as_deref().map(|shape| &shape.spans)
    }

    /// Where in a row there is room, or has been no use of late.
    fn place(&mut self, row: usize) -> Option<Place> {
        self.since += 1;
        if self.saved < COST && self.since < TRIAL {
            return None;
        }
        let ways = self.shapes.get_mut(row..row + WAYS)?;
        let free = ways.iter().position(|shape| shape.as_ref().is_none_or(|shape| shape.credit == 0));
        // Each time that nobody is recognized those kept lose credit.
        ways.iter_mut().flatten().for_each(|shape| shape.credit = shape.credit.saturating_sub(1));
        free.map(|way| Place(row + way))
    }

    /// Keeps a message without a flaw, of which nothing was unfolded. Takes its index, and leaves another one
    /// in its place to be used again. False if it is not kept.
    #[cold]
    #[inline(never)]
    pub fn keep(&mut self, at: Place, bytes: &[u8], spans: &mut Spans, limits: &Limits) -> bool {
        let head =
            bytes.get(..spans.body.start as usize).filter(|head| (PAIR..=LONGEST).contains(&head.len()));
        let (Some(head), Some(number)) = (head, digits_of_cseq(bytes, spans)) else { return false };
        let Some(kept) = self.shapes.get_mut(at.0) else { return false };
        self.since = 0;
        self.saved = self.saved.saturating_sub(COST);
        let kept = kept.get_or_insert_with(|| Box::new(Shape::new(limits)));
        core::mem::swap(&mut kept.spans, spans);
        self.kept += 1;
        kept.spans.likeness = self.kept;
        kept.learn(bytes, head, number, limits);
        true
    }
}

/// The row of a message; `None` if it is too short to be one.
#[inline(always)]
fn row(bytes: &[u8]) -> Option<usize> {
    let start = bytes.first_chunk::<16>()?;
    let word =
        |at: usize| start.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
    // Of a status line the status tells; of a request line the method.
    let first = word(0);
    let tells = if first == u64::from_le_bytes(*b"SIP/2.0 ") { word(8) } else { first };
    let mixed = (tells ^ (bytes.len() as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some((mixed >> 58) as usize % ROWS * WAYS)
}

/// The digits that CSeq begins with.
fn digits_of_cseq(bytes: &[u8], spans: &Spans) -> Option<Span> {
    let value = spans.single(Name::CSeq).ok()??.value;
    let count = value.of(bytes).iter().take_while(|b| b.is_ascii_digit()).count();
    Some(Span { start: value.start, end: value.start + count as u32 })
}

/// Host and port of the topmost Via of a request, if it is one that [`Via::usual`] reads. Whether it is
/// depends, but for these two, on bytes that every message like this one has.
fn sent_by(bytes: &[u8], spans: &Spans) -> Option<Span> {
    let Start::Request { .. } = spans.start else { return None };
    let raw = spans.via.of(bytes).raw;
    let host = Span::locate(bytes, Via::usual(raw)?.host);
    let sent_by = Span { start: host.start, end: Span::locate(bytes, raw).end };
    let (.., rest) = usual_sent_by(sent_by.of(bytes))?;
    Some(Span { end: sent_by.end - rest.len() as u32, ..sent_by })
}

impl Shape {
    fn new(limits: &Limits) -> Shape {
        Shape {
            spans: Spans::new(),
            limits: *limits,
            head: Vec::new(),
            len: 0,
            free: Vec::new(),
            number: Span::default(),
            sent_by: Span::default(),
            credit: 0,
        }
    }

    /// Whether the kept index is that of `bytes`, which are as many. If so it has the number of its CSeq. Not
    /// inlined, so that its loop has all registers.
    #[inline(never)]
    fn fits(&mut self, bytes: &[u8], limits: &Limits) -> bool {
        if self.limits != *limits {
            return false;
        }
        let (Some(head), Some((last_free, free))) = (bytes.get(..self.head.len()), self.free.split_last())
        else {
            return false;
        };
        let (Some(last), Some(kept_last)) = (head.last_chunk(), self.head.last_chunk()) else {
            return false;
        };
        let pairs = head.as_chunks().0.iter().zip(self.head.as_chunks().0).zip(free);
        for ((own, kept), &free) in pairs {
            if !same(own, kept, free) {
                return false;
            }
        }
        if !same(last, kept_last, *last_free) {
            return false;
        }
        // Letters may stand there now.
        let digits = self.number.of(bytes);
        let number = match *digits {
            [digit @ b'0'..=b'9'] => Some(u32::from(digit - b'0')),
            _ => parse_u32(digits).filter(|&n| n < 1 << 31),
        };
        let Some(number) = number else { return false };
        if self.sent_by.of(bytes) != self.sent_by.of(&self.head) && !self.take_sender(bytes) {
            return false;
        }
        self.spans.cseq = number;
        self.credit = PATIENCE;
        true
    }

    /// Takes the sender's host and port from another message that is alike; `false` if they are not to be
    /// read in the usual way.
    fn take_sender(&mut self, bytes: &[u8]) -> bool {
        let (text, kept) = (self.sent_by.of(bytes), self.head.get_mut(self.sent_by.range()));
        let (Some((_, host_ip, port, [])), Some(kept)) = (usual_sent_by(text), kept) else { return false };
        kept.copy_from_slice(text);
        self.spans.via.host_ip = host_ip;
        self.spans.via.port = port;
        true
    }

    /// Notes what of a message may be another plain byte. `self.spans` are those of the message.
    fn learn(&mut self, bytes: &[u8], head: &[u8], number: Span, limits: &Limits) {
        self.limits = *limits;
        self.len = bytes.len();
        self.head.clear();
        self.head.extend_from_slice(head);
        self.number = number;
        self.sent_by = sent_by(bytes, &self.spans).unwrap_or_default();
        self.credit = 0;
        let pairs = head.len() / PAIR;
        self.free.clear();
        self.free.resize(pairs + 1, 0);
        let Shape { spans, free, head, sent_by, .. } = self;
        let mut allow = |span: Span| {
            for at in span.range() {
                if !head.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
                    continue;
                }
                if let Some(bits) = free.get_mut(..pairs).and_then(|free| free.get_mut(at / PAIR)) {
                    *bits |= 1 << (at % PAIR);
                }
                if let (Some(bits), Some(place)) = (free.get_mut(pairs), (at + PAIR).checked_sub(head.len()))
                {
                    *bits |= 1 << place;
                }
            }
        };
        // What of the start line, From, To and Via is kept as a range only.
        if let Start::Request { uri, .. } = spans.start {
            allow(uri);
        }
        allow(number);
        allow(*sent_by);
        allow(spans.via.branch);
        for own in [spans.from_uri, spans.to_uri, spans.from_tag, spans.to_tag] {
            allow(own);
        }
        for (at, header) in spans.headers.iter().enumerate() {
            match header.name {
                Name::CSeq | Name::MaxForwards | Name::ContentLength => {}
                // Those of a response are read when they are asked for.
                Name::From | Name::To if matches!(spans.start, Start::Request { .. }) => {}
                // Of the topmost one more than its branch is known; of others that stand in its line, that
                // they do.
                Name::Via if usize::from(spans.first[Name::Via as usize]) == at => {
                    let first = end_of_value(header.value.of(bytes)) as u32;
                    allow(Span { start: header.value.start + first, end: header.value.end });
                }
                // Nothing is known of what they hold, or only that it has no white space.
                _ => allow(header.value),
            }
        }
    }
}

/// Bytes that are held against kept ones at a time.
const PAIR: usize = 32;

/// Whether a pair of blocks is as the one kept, but for plain bytes where they are free.
#[inline(always)]
fn same(own: &[u8; PAIR], kept: &[u8; PAIR], free: u32) -> bool {
    // Most are the same.
    if own == kept {
        return true;
    }
    let ([first, second], [kept_first, kept_second]) = (halves(own), halves(kept));
    let (one, two) = (first.differing(kept_first), second.differing(kept_second));
    is_plain(first, one, free) && is_plain(second, two, free >> 16)
}

/// Whether the bytes of a block that differ are plain, and free.
#[inline(always)]
fn is_plain(block: Block, other: u32, free: u32) -> bool {
    if other == 0 || other & !(free & block.within(b'0', b'9').bits()) == 0 {
        return true;
    }
    let plain = block.within(b'0', b'9') | block.small().within(b'a', b'z') | block.eq(b'-') | block.eq(b'_');
    other & !(free & plain.bits()) == 0
}

#[inline(always)]
fn halves(pair: &[u8; PAIR]) -> [Block; 2] {
    let (first, second) = pair.split_at(PAIR / 2);
    [first, second].map(|half| half.first_chunk().map_or_else(|| Block::of_words(0, 0), Block::of))
}

#[cfg(test)]
mod tests {
    use crate::{Header, Index, Limits, Message, Name, Parsed, parse};
    use proptest::prelude::*;

    const INVITE: &str = "INVITE sip:bob1@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK776asdhds;rport;ttl=5\r\n\
        Via: SIP/2.0/TCP second;branch=z9hG4bK2\r\n\
        Max-Forwards: 70\r\nFrom: \"A b\" <sip:alice7@example.com;x=%41>;tag=1928301774\r\nTo: <sip:bob1@example.com>\r\n\
        Call-ID: a84b4c76e66710@192.0.2.1\r\nCSeq: 314 INVITE\r\nContact: <sip:a@192.0.2.1:5060;ob>\r\n\
        X-Other: a b\r\nContent-Length: 4\r\n\r\nbody";
    const RINGING: &str = "SIP/2.0 180 Ringing\r\nv: SIP/2.0/UDP a;received=192.0.2.7;branch=z9hG4bK1,SIP/2.0/UDP b\r\n\
        f: sip:alice@example.com;tag=77\r\nt: <sip:bob@example.com>;tag=88;y=z\r\ni: one\r\nCSeq:7 BYE\r\nl:0\r\n\r\n";
    const BARE: &str = "BYE tel:+4930123 SIP/2.0\r\nFrom: sip:a@b;tag=x1;tagged=y\r\nTo: sip:c1@d ;tag=y\r\nCSeq: 0012 BYE\r\n\
        Call-ID: 1\r\nVia: SIP/2.0/TLS [2001:db8::1]:99 ; branch = z9hG4bK5;maddr=1.2.3.4\r\nX:1\r\n x\r\n\r\n";
    const FLAWED: &str = "OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a>;tag=1\r\nTo: <sip:b>\r\n\
        Call-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n";

    /// All that a message says, read in every way.
    type Said<'a> = (Vec<Header<'a>>, Vec<Vec<&'a [u8]>>, String);

    fn said<'a>(m: &Message<'a>) -> Said<'a> {
        let numbers = (m.is_request(), m.status(), m.cseq(), m.max_forwards(), m.via_count(), m.head_len());
        let texts = (m.method(), m.request_uri(), m.reason(), m.call_id(), m.via(), m.via_branch());
        let tags = (m.from_uri(), m.from_tag(), m.to_uri(), m.to_tag(), m.body(), m.bytes());
        let names = [Name::Via, Name::From, Name::To, Name::CallId, Name::CSeq, Name::Contact, Name::Other];
        let values = names.map(|name| m.values(name).collect());
        (m.all_headers().collect(), values.into(), format!("{numbers:?} {texts:?} {tags:?}"))
    }

    fn assert_same(remembered: Parsed<'_>, anew: Parsed<'_>) {
        match (remembered, anew) {
            (Parsed::Good(a), Parsed::Good(b)) => assert_eq!(said(&a), said(&b)),
            (Parsed::Bad(a, x), Parsed::Bad(b, y)) => assert_eq!((said(&a), x), (said(&b), y)),
            (Parsed::Garbage(a), Parsed::Garbage(b)) => assert_eq!(a, b),
            (a, b) => panic!("{a:?} is not {b:?}"),
        }
    }

    /// Whether the index of a message is one that was kept before.
    fn is_remembered(index: &mut Index, text: &str) -> bool {
        let known = index.memory.as_mut().unwrap().recall(text.as_bytes(), &Limits::default()).is_ok();
        let _ = parse(text.as_bytes(), index, &Limits::default());
        known
    }

    #[test]
    fn what_names_a_call_or_a_user_may_differ() {
        let mut index = Index::with_memory();
        assert!(!is_remembered(&mut index, INVITE));
        let other = INVITE.replace("bob1", "bob2").replace("776asdhds", "123abcdef").replace("314", "999");
        let other =
            other.replace("192830", "aaaaaa").replace("a84b4c76", "b9999999").replace("alice7", "carol8");
        assert!(is_remembered(&mut index, &other));
        assert!(is_remembered(&mut index, &other.replace("body", "b\r\n\0")), "the body is not read");
        for (from, to) in [
            ("Max-Forwards: 70", "Max-Forwards: 69"),
            ("192.0.2.1:5060;b", "192.0.2.1:5o60;b"),
            ("192.0.2.1:5060;b", "192.0.2.1:0000;b"),
            ("192.0.2.1:5060;b", "192.0.2.1.5060;b"),
            ("ttl=5", "ttl=6"),
            ("CSeq: 314", "CSeq: 3a4"),
            ("776asd", "776;sd"),
            ("Contact", "Kontakt"),
            ("a84b4c", "a8\tb4c"),
            ("a b", "a\0b"),
            ("tag=1", "tga=1"),
        ] {
            let other = INVITE.replacen(from, to, 1);
            assert_eq!(other.len(), INVITE.len());
            for seen in [0, 1, 3] {
                let mut index = Index::with_memory();
                assert!(!is_remembered(&mut index, INVITE));
                // Whatever has changed before, in places near and far from this.
                for like in ["bob2", "bob3", "bob4"].iter().take(seen) {
                    let like = INVITE.replace("bob1", like).replace("a84b4c76", "b9999999");
                    assert!(is_remembered(&mut index, &like.replace("alice7", "carol8")));
                }
                assert!(!is_remembered(&mut index, &other), "{to} after {seen}");
            }
        }
        assert!(!is_remembered(&mut index, &INVITE.replace("bob1", "bob12")), "another length");
        assert!(!is_remembered(&mut index, RINGING));
        assert!(is_remembered(
            &mut index,
            &RINGING.replace("77", "6_").replace("88", "a-").replace("bK1", "bK2").replace("UDP b", "UDP c")
        ));
        assert!(!is_remembered(&mut index, &RINGING.replace("180", "181")));
    }

    #[test]
    fn who_sends_it_may_differ_and_is_read_anew() {
        let mut index = Index::with_memory();
        let of = |sender: &str| INVITE.replacen("192.0.2.1:5060", sender, 1);
        assert!(!is_remembered(&mut index, &of("198.51.100.7:25060")));
        for (sender, host_ip, port) in [
            ("203.0.113.254:5060", Some("203.0.113.254"), 5060),
            ("198.51.100.8:25060", Some("198.51.100.8"), 25_060),
            // No address, as it was read anew.
            ("198.51.100.a:25061", None, 25_061),
            ("198.51.1_0.8:00001", None, 1),
            ("198.51.100.7:25060", Some("198.51.100.7"), 25_060),
        ] {
            let text = of(sender);
            let alike = sender.find(':') == Some(12);
            assert_eq!(is_remembered(&mut index, &text), alike, "{sender}");
            let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
                panic!("{sender}")
            };
            let via = message.via();
            assert_eq!((via.host_ip, via.port), (host_ip.map(|ip| ip.parse().unwrap()), Some(port)));
            assert_eq!(via.host, sender.split(':').next().unwrap().as_bytes());
            if !alike {
                index = Index::with_memory();
                is_remembered(&mut index, &of("198.51.100.7:25060"));
            }
        }
        for none in ["198.51.100.8:65536", "198.51.100.8:00000", "198.51.100.8:506-0"] {
            assert!(!is_remembered(&mut index, &of(none)), "{none}");
        }
    }

    #[test]
    fn limits_count_as_ever() {
        let mut index = Index::with_memory();
        let narrow = Limits { headers: 3, ..Limits::default() };
        for _ in 0..3 {
            assert!(matches!(parse(INVITE.as_bytes(), &mut index, &Limits::default()), Parsed::Good(_)));
            assert!(matches!(parse(INVITE.as_bytes(), &mut index, &narrow), Parsed::Bad(..)));
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_no_number() {
        let mut index = Index::with_memory();
        let text = INVITE.replace("314 ", "1999999999 ");
        assert!(matches!(parse(text.as_bytes(), &mut index, &Limits::default()), Parsed::Good(_)));
        let text = text.replace("1999999999 ", "2147483648 ");
        assert!(matches!(parse(text.as_bytes(), &mut index, &Limits::default()), Parsed::Bad(..)));
    }

    #[test]
    fn what_pays_is_kept_and_what_does_not_is_given_up() {
        let mut index = Index::with_memory();
        // A thousand messages of which none is like another, and one that comes again and again.
        let mut known = 0;
        for i in 0..1_000 {
            let strange = INVITE.replace("X-Other", &format!("X-{i:05}"));
            assert!(!is_remembered(&mut index, &strange));
            known += usize::from(is_remembered(&mut index, RINGING));
        }
        assert!(known > 900, "{known}");
        let kept = index.memory.as_ref().unwrap().shapes.iter().flatten().count();
        assert!(kept <= 3, "{kept}");
    }

    proptest! {
        /// Whoever sent the one before.
        #[test]
        fn senders_change_nothing(
            senders in prop::collection::vec("[0-9a]{3}[.][0-9a-][.][0-9]{1,3}[.][0-9a]{3}(:[0-9a]{4}|:[0-9]{5})?", 1..20),
            (before, after) in ("SIP/2.0/UDP |SIP/2.0/TCP |SIP/2.0/X |SIP / 2.0 / UDP ", "|;ttl=5| ;x=\"y\"|,SIP/2.0/UDP b")
        ) {
            let (mut index, limits) = (Index::with_memory(), Limits::default());
            for sender in senders {
                let own = format!("{before}{sender};branch=z9hG4bK776asdhds{after}");
                let text = INVITE.replacen("SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK776asdhds;rport;ttl=5", &own, 1);
                let mut fresh = Index::new();
                let anew = parse(text.as_bytes(), &mut fresh, &limits);
                assert_same(parse(text.as_bytes(), &mut index, &limits), anew);
            }
        }

        /// Whatever was read before, a message is read as if it were the first.
        #[test]
        fn a_memory_changes_nothing(
            rounds in prop::collection::vec(
                (0..4_usize, prop::collection::vec((any::<prop::sample::Index>(), "[0-9a-zA-Z_-]|[0-9a-zA-Z_-]|.|[ \r\n\t,;:<>\"@%=]"), 0..4)),
                1..40,
            )
        ) {
            let (mut index, limits) = (Index::with_memory(), Limits::default());
            for (which, changes) in rounds {
                let mut text = [INVITE, RINGING, BARE, FLAWED][which].as_bytes().to_vec();
                for (at, new) in changes {
                    let at = at.index(text.len());
                    text[at] = new.as_bytes().first().copied().unwrap_or(b'\n');
                }
                let mut fresh = Index::new();
                let anew = parse(&text, &mut fresh, &limits);
                assert_same(parse(&text, &mut index, &limits), anew);
                // Again, so that it is read from memory if it can be.
                assert_same(parse(&text, &mut index, &limits), anew);
            }
        }
    }
}
