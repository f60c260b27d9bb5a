//! What a call remembers of the messages it received.

use memchr::memchr;
use sip_message::{Message, Name, NameAddr};

/// The header lines of a raw message, unfolded neither in place nor on the way: a header that goes on in
/// further lines is one item. Total on any bytes.
#[derive(Clone)]
pub(crate) struct Lines<'a> {
    message: &'a [u8],
    at: usize,
}

/// One header: where its line begins and ends (without the line end), and where its colon is.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
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

/// Puts the value of the Route for later requests in place of `routes`: the Record-Route of `message`, in
/// reverse order if it is a response (RFC 3261 section 12.1.2). Without one, `routes` stays.
pub fn learn_routes(message: &Message<'_>, routes: &mut Vec<u8>) {
    let mut values = message.values(Name::RecordRoute);
    let Some(first) = values.next() else { return };
    routes.clear();
    let mut push = |value: &[u8]| {
        if !routes.is_empty() {
            routes.extend_from_slice(b", ");
        }
        routes.extend_from_slice(value.trim_ascii());
    };
    if message.is_request() {
        push(first);
        return values.for_each(push);
    }
    // Routes are few; the array spares the allocator the usual ones.
    let mut few: [&[u8]; 8] = [first; 8];
    let mut count = 1;
    for (place, value) in few.iter_mut().skip(1).zip(&mut values) {
        *place = value;
        count += 1;
    }
    if count == few.len() {
        let all: Vec<&[u8]> = message.values(Name::RecordRoute).collect();
        all.into_iter().rev().for_each(&mut push);
    } else {
        few.iter().take(count).rev().for_each(|value| push(value));
    }
}

/// Puts the URI of the first Contact in place of `url`: `[next_url]`. Without one, it stays.
pub fn learn_next_url(message: &Message<'_>, url: &mut Vec<u8>) {
    let contact = message.values(Name::Contact).next();
    if let Some(Ok(contact)) = contact.map(NameAddr::parse) {
        url.clear();
        url.extend_from_slice(contact.uri);
    }
}

/// Puts the tag of the To in place of `tag`: what `[peer_tag_param]` needs. Without one, it stays.
pub fn learn_peer_tag(message: &Message<'_>, tag: &mut Vec<u8>) {
    // Nearly always the one that is known.
    let to = message.header(Name::To).map_or(&b""[..], |to| to.value);
    let known = to.strip_suffix(tag.as_slice()).is_some_and(|rest| rest.ends_with(b">;tag="));
    if known && !tag.is_empty() {
        return;
    }
    let new = message.to_tag();
    if !new.is_empty() {
        tag.clear();
        tag.extend_from_slice(new);
    }
}

/// The number in the CSeq of a message.
pub fn request_cseq(message: &[u8]) -> Option<u32> {
    let value = headers(message, Name::CSeq).next()?;
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    sip_message::parse_u32(value.get(..digits)?)
}

/// The branch of the topmost Via of a message; empty if it has none (RFC 3261 section 8.1.1.7).
pub fn top_branch(message: &[u8]) -> &[u8] {
    let via = headers(message, Name::Via).next().unwrap_or_default();
    let first = via.split(|&b| b == b',').next().unwrap_or_default();
    let value = |text: &'_ [u8]| -> Option<usize> {
        let equals = memchr(b'=', text)?;
        text.get(..equals)?.trim_ascii().eq_ignore_ascii_case(b"branch").then_some(equals + 1)
    };
    let mut params = first.split(|&b| b == b';');
    params.find_map(|text| text.get(value(text)?..)).unwrap_or_default().trim_ascii()
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

    const OK: &[u8] = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a\r\nf: <sip:e@f>;tag=1\r\nCall-ID: x\r\nRecord-Route: <sip:a;lr>\r\n\
        Record-Route: <sip:b;lr>,\r\n <sip:c;lr>\r\nt: \"x\" <sip:c@d>;tag=zz\r\n\
        m: \"C, c\" <sip:c@d:5;x=y>;q=1\r\nCSeq: 12 INVITE\r\nContent-Length: 2\r\n\r\nhi";

    /// What is known after a message, of what was known before it.
    fn learnt(bytes: &[u8], before: [&str; 3]) -> [String; 3] {
        let mut index = sip_message::Index::new();
        let sip_message::Parsed::Good(message) =
            sip_message::parse(bytes, &mut index, &sip_message::Limits::default())
        else {
            panic!("a good message")
        };
        let [mut routes, mut url, mut tag] = before.map(|text| text.as_bytes().to_vec());
        learn_routes(&message, &mut routes);
        learn_next_url(&message, &mut url);
        learn_peer_tag(&message, &mut tag);
        [routes, url, tag].map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn routes_next_url_tag_and_number_are_learnt() {
        assert_eq!(
            learnt(OK, ["old", "old", "old"]),
            ["<sip:c;lr>, <sip:b;lr>, <sip:a;lr>", "sip:c@d:5;x=y", "zz"]
        );
        let request = [b"BYE sip:x SIP/2.0".as_slice(), OK.strip_prefix(b"SIP/2.0 200 OK").unwrap()].concat();
        let request = String::from_utf8(request).unwrap().replace("INVITE", "BYE");
        assert_eq!(learnt(request.as_bytes(), [""; 3])[0], "<sip:a;lr>, <sip:b;lr>, <sip:c;lr>");
        assert_eq!((request_cseq(OK), to_uri(OK), body(OK)), (Some(12), &b"sip:c@d"[..], &b"hi"[..]));
    }

    #[test]
    fn the_branch_is_that_of_the_topmost_via() {
        let of = |via: &str| {
            let text =
                format!("BYE sip:x SIP/2.0\r\nTo: x\r\n{via}\r\nVia: SIP/2.0/UDP y;branch=below\r\n\r\n");
            String::from_utf8(top_branch(text.as_bytes()).to_vec()).unwrap()
        };
        assert_eq!(of("Via: SIP/2.0/UDP a:1;branch=z9hG4bK-1"), "z9hG4bK-1");
        assert_eq!(of("v: SIP/2.0/UDP a;rport ; Branch = z9 ;x, SIP/2.0/UDP b;branch=c"), "z9");
        assert_eq!(of("Via: SIP/2.0/UDP a"), "", "no branch is not the next one's");
        assert_eq!(top_branch(b"x"), b"");
    }

    #[test]
    fn a_tag_is_not_taken_for_the_end_of_another() {
        let ok = |tag: &str| String::from_utf8(OK.to_vec()).unwrap().replace(";tag=zz", tag).into_bytes();
        assert_eq!(learnt(&ok(";tag=zz"), ["", "", "z"])[2], "zz");
        assert_eq!(learnt(&ok(";tag=zz"), ["", "", "zz"])[2], "zz");
        assert_eq!(learnt(&ok(";tag=y;x=\">;tag=zz\""), ["", "", "zz"])[2], "y");
        assert_eq!(learnt(&ok(""), ["", "", "zz"])[2], "zz", "a 100 has none");
    }

    #[test]
    fn many_routes_are_turned_round_too() {
        let mut lines = String::new();
        (0..9).for_each(|i| lines += &format!("Record-Route: <sip:{i}>\r\n"));
        let message = String::from_utf8(OK.to_vec()).unwrap().replace("Record-Route: <sip:a;lr>\r\n", &lines);
        let want = [8, 7, 6, 5, 4, 3, 2, 1, 0].map(|i| format!("<sip:{i}>")).join(", ");
        assert_eq!(learnt(message.as_bytes(), [""; 3])[0], format!("<sip:c;lr>, <sip:b;lr>, {want}"));
    }

    #[test]
    fn what_is_not_there_leaves_what_was_known() {
        let plain = b"SIP/2.0 100 Trying\r\nVia: SIP/2.0/UDP a\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\n\
            Call-ID: x\r\nCSeq: 1 INVITE\r\n\r\n";
        assert_eq!(learnt(plain, ["routes", "url", "tag"]), ["routes", "url", "tag"]);
        for message in [&b""[..], b"SIP/2.0 200 OK", b"SIP/2.0 200 OK\r\n\r\n", b"x\r\nTo: <sip:a@b>\r\n\r\n"]
        {
            assert_eq!((request_cseq(message), body(message)), (None, &b""[..]));
        }
        assert!(header(b"x\r\n\r\nTo: body\r\n\r\n", Name::To).is_none(), "a body has no headers");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), lines in "([ a-zA-Z:,<>\";=\r\n]|To:|Contact:){0,60}") {
            for message in [bytes.as_slice(), lines.as_bytes()] {
                let _ = (request_cseq(message), to_uri(message), body(message));
            }
        }
    }
}
