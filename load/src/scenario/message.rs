//! What a call remembers of the messages it received.

use memchr::memchr;
use sip_message::{Name, NameAddr, Values};

/// The header lines of a raw message, unfolded neither in place nor on the way: a header that goes on in
/// further lines is one item. Total on any bytes.
#[derive(Clone)]
pub(super) struct Lines<'a> {
    message: &'a [u8],
    at: usize,
}

/// One header: where its line begins and ends (without the line end), and where its colon is.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    whole: &'a [u8],
    colon: usize,
}

impl<'a> Line<'a> {
    pub fn name(&self) -> &'a [u8] {
        self.whole.get(..self.colon).unwrap_or_default().trim_ascii_end()
    }

    pub fn value(&self) -> &'a [u8] {
        self.whole.get(self.colon + 1..).unwrap_or_default().trim_ascii()
    }
}

impl<'a> Lines<'a> {
    /// The headers of `message`, which begins with its first line.
    pub fn of(message: &'a [u8]) -> Lines<'a> {
        Lines { message, at: memchr(b'\n', message).map_or(message.len(), |end| end + 1) }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        loop {
            let rest = self.message.get(self.at..)?;
            let mut end = memchr(b'\n', rest)?;
            if end <= 1 && (end == 0 || rest.first() == Some(&b'\r')) {
                return None;
            }
            // A line that begins with white space belongs to the one before (RFC 3261 section 7.3.1).
            while let Some(b' ' | b'\t') = rest.get(end + 1)
                && let Some(more) = rest.get(end + 1..).and_then(|rest| memchr(b'\n', rest))
            {
                end += 1 + more;
            }
            self.at += end + 1;
            let whole = rest.get(..end)?;
            let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
            if let Some(colon) = memchr(b':', whole) {
                return Some(Line { whole, colon });
            }
        }
    }
}

/// The values of the headers with this name, in either form.
pub(super) fn headers(message: &[u8], name: Name) -> impl Iterator<Item = &[u8]> + Clone {
    Lines::of(message).filter(move |line| Name::from_bytes(line.name()) == name).map(|line| line.value())
}

/// What follows the empty line of a message.
pub(super) fn body(message: &[u8]) -> &[u8] {
    memchr::memmem::find(message, b"\r\n\r\n").and_then(|at| message.get(at + 4..)).unwrap_or_default()
}

/// Writes the value of the Route for later requests: the Record-Route of `message`, in reverse order if
/// it is a response (RFC 3261 section 12.1.2). False, and nothing written, if it has none.
pub fn learn_routes(message: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut push = |value: &[u8]| {
        if out.len() > start {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value.trim_ascii());
    };
    let values = headers(message, Name::RecordRoute).flat_map(Values::new);
    if message.starts_with(b"SIP/2.0 ") {
        // Routes are few; the array spares the allocator the usual ones.
        let mut few: [&[u8]; 8] = [b""; 8];
        let mut count = 0;
        for (place, value) in few.iter_mut().zip(values.clone()) {
            *place = value;
            count += 1;
        }
        if count == few.len() {
            let all: Vec<&[u8]> = values.collect();
            all.into_iter().rev().for_each(&mut push);
        } else {
            few.iter().take(count).rev().for_each(|value| push(value));
        }
    } else {
        values.for_each(&mut push);
    }
    out.len() > start
}

/// Writes the URI of the first Contact: `[next_url]`. False, and nothing written, if there is none.
pub fn learn_next_url(message: &[u8], out: &mut Vec<u8>) -> bool {
    let contact = headers(message, Name::Contact).flat_map(Values::new).next();
    let Some(Ok(contact)) = contact.map(NameAddr::parse) else { return false };
    out.extend_from_slice(contact.uri);
    true
}

/// Writes the tag of the To: what `[peer_tag_param]` needs. False, and nothing written, if it has none.
pub fn learn_peer_tag(message: &[u8], out: &mut Vec<u8>) -> bool {
    let to = headers(message, Name::To).next().map(NameAddr::parse);
    let Some(tag) = to.and_then(|to| to.ok()?.param(b"tag")) else { return false };
    out.extend_from_slice(tag);
    true
}

/// The number in the CSeq of a message.
pub fn request_cseq(message: &[u8]) -> Option<u32> {
    let value = headers(message, Name::CSeq).next()?;
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    sip_message::parse_u32(value.get(..digits)?)
}

/// The URI of the To: what SIPp calls `[last_Request_URI]`.
pub(super) fn to_uri(message: &[u8]) -> &[u8] {
    headers(message, Name::To).next().and_then(|to| NameAddr::parse(to).ok()).map_or(b"", |to| to.uri)
}

/// The value of the first header called so.
pub(super) fn header(message: &[u8], name: Name) -> Option<&[u8]> {
    headers(message, name).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OK: &[u8] = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a\r\nRecord-Route: <sip:a;lr>\r\n\
        Record-Route: <sip:b;lr>,\r\n <sip:c;lr>\r\nt: \"x\" <sip:c@d>;tag=zz\r\n\
        m: \"C, c\" <sip:c@d:5;x=y>;q=1\r\nCSeq: 12 INVITE\r\nContent-Length: 2\r\n\r\nhi";

    fn text(learn: fn(&[u8], &mut Vec<u8>) -> bool, message: &[u8]) -> String {
        let mut out = Vec::new();
        assert_eq!(learn(message, &mut out), !out.is_empty());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn routes_next_url_tag_and_number_are_learnt() {
        assert_eq!(text(learn_routes, OK), "<sip:c;lr>, <sip:b;lr>, <sip:a;lr>");
        let request = [b"BYE sip:x ".as_slice(), OK.strip_prefix(b"SIP/2.0 200").unwrap()].concat();
        assert_eq!(text(learn_routes, &request), "<sip:a;lr>, <sip:b;lr>, <sip:c;lr>");
        assert_eq!(text(learn_next_url, OK), "sip:c@d:5;x=y");
        assert_eq!(text(learn_peer_tag, OK), "zz");
        assert_eq!((request_cseq(OK), to_uri(OK), body(OK)), (Some(12), &b"sip:c@d"[..], &b"hi"[..]));
    }

    #[test]
    fn many_routes_are_turned_round_too() {
        let mut message = b"SIP/2.0 200 OK\r\n".to_vec();
        (0..9).for_each(|i| message.extend(format!("Record-Route: <sip:{i}>\r\n").bytes()));
        assert_eq!(
            text(learn_routes, &message),
            [8, 7, 6, 5, 4, 3, 2, 1, 0].map(|i| format!("<sip:{i}>")).join(", ")
        );
    }

    #[test]
    fn what_is_not_there_is_not_written() {
        for message in [&b""[..], b"SIP/2.0 200 OK", b"SIP/2.0 200 OK\r\n\r\n", b"x\r\nTo: <sip:a@b>\r\n\r\n"]
        {
            for learn in [learn_routes, learn_next_url, learn_peer_tag] {
                assert_eq!(text(learn, message), "");
            }
            assert_eq!((request_cseq(message), body(message)), (None, &b""[..]));
        }
        assert!(header(b"x\r\n\r\nTo: body\r\n\r\n", Name::To).is_none(), "a body has no headers");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), lines in "([ a-zA-Z:,<>\";=\r\n]|To:|Contact:){0,60}") {
            for message in [bytes.as_slice(), lines.as_bytes()] {
                let mut out = Vec::new();
                learn_routes(message, &mut out);
                learn_next_url(message, &mut out);
                learn_peer_tag(message, &mut out);
                let _ = (request_cseq(message), to_uri(message), body(message));
            }
        }
    }
}
