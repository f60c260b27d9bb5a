//! Parsing, answering and forwarding: what leaves parses again, means the same, and carries the edits
//! that were asked for and nothing else.
#![no_main]

use fuzz::{Feed, check_head, check_output};
use libfuzzer_sys::fuzz_target;
use sip_message::{Index, Limits, Message, Name, Parsed, Response, Splices, parse};
use sip_proxy::rewrite::{self, Outgoing};
use std::net::SocketAddr;

/// Reads whatever can be read, for the sake of panics.
fn read_all(m: &Message<'_>) {
    for header in m.all_headers() {
        assert_eq!(m.bytes().get(header.line.clone()).map(<[u8]>::len), Some(header.line.len()));
        let start = m.offset_of(header.value);
        assert!(header.value.is_empty() || start >= header.line.start);
        for value in m.values(header.name) {
            let _ = sip_message::NameAddr::parse(value);
        }
    }
    let _ = (m.status(), m.reason(), m.cseq(), m.max_forwards(), m.via(), m.lists(Name::Require, b"x"));
    assert_eq!(m.head_len() + m.body().len(), m.bytes().len());
}

/// All that a message says, as text.
fn said(parsed: &Parsed<'_>) -> String {
    let (m, flaw) = match parsed {
        Parsed::Good(m) => (m, None),
        Parsed::Bad(m, flaw) => (m, Some(flaw)),
        Parsed::Garbage(why) => return format!("garbage: {why}"),
    };
    let headers: Vec<_> = m.all_headers().collect();
    let start = (m.method(), m.request_uri(), m.status(), m.reason(), m.body(), m.via_count());
    let ends = (m.from_uri(), m.from_tag(), m.to_uri(), m.to_tag(), m.call_id(), m.cseq(), m.max_forwards());
    format!("{flaw:?} {start:?} {ends:?} {:?} {:?} {headers:?}", m.via(), m.via_branch())
}

/// An index that was used before reads a message like a new one.
fn read_again(bytes: &[u8], index: &mut Index) {
    let limits = Limits::default();
    let anew = said(&parse(bytes, &mut Index::new(), &limits));
    assert_eq!(said(&parse(bytes, index, &limits)), anew);
}

fn forwarded(m: &Message<'_>, choice: u8, source: SocketAddr) {
    let bit = |n: u8| choice >> n & 1 == 1;
    let o = Outgoing {
        request_uri: b"sip:bob@192.0.2.9;x=y",
        via: b"Via: SIP/2.0/UDP us;branch=z9hG4bKs\r\n",
        record_routes: if bit(0) { b"Record-Route: <sip:us;lr>\r\n" } else { b"" },
        routes: if bit(1) { b"Route: <sip:edge;lr>\r\n" } else { b"" },
        drop_routes: usize::from(choice >> 2 & 3),
        drop_last_route: bit(4),
        last_route: if bit(5) { b"Route: <sip:last>\r\n" } else { b"" },
        max_forwards: 69,
        max_breadth: bit(6).then_some(7),
        source: Some((source, bit(7))),
        strip_identity: bit(2),
        strip_realm: bit(3).then_some(b"example.com"),
        strip_commands: bit(4),
    };
    let mut out = Vec::new();
    rewrite::write_request(m, &o, &mut Splices::new(), &mut out);
    check_output(&out, |n| {
        assert_eq!((n.request_uri(), n.method()), (o.request_uri, m.method()));
        assert_eq!((n.call_id(), n.from_tag(), n.to_tag()), (m.call_id(), m.from_tag(), m.to_tag()));
        assert_eq!((n.cseq(), n.body()), (m.cseq(), m.body()));
        assert_eq!(vias(n), vias(m) + 1);
        assert_eq!((n.via().branch, n.max_forwards()), (&b"z9hG4bKs"[..], Some(69)));
        let received = n.values(Name::Via).nth(1).map(sip_message::Via::parse);
        let Some(Ok(received)) = received else { panic!("the received Via is gone") };
        assert_eq!((received.branch, received.host), (m.via().branch, m.via().host));
    });
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    let (choice, peer) = (feed.byte(), feed.byte());
    let source = SocketAddr::from(([192, 0, 2, peer], 5060));
    let bytes = feed.rest();
    // The cheap look at any bytes must be as harmless as the whole parse.
    let call_id = sip_message::find_call_id(bytes);
    let mut index = Index::new();
    let (message, good) = match parse(bytes, &mut index, &Limits::default()) {
        Parsed::Good(m) => (m, true),
        Parsed::Bad(m, flaw) => {
            assert!((400..700).contains(&flaw.status) && !flaw.reason.is_empty());
            (m, false)
        }
        Parsed::Garbage(_) => return,
    };
    read_all(&message);
    if good {
        let mut other = bytes.to_vec();
        other.truncate(usize::from(choice) * bytes.len() / 255);
        let mut used = Index::new();
        let _ = parse(&other, &mut used, &Limits::default());
        read_again(bytes, &mut used);
        // Owners of calls are chosen by the cheap look.
        assert_eq!(call_id, Some(message.call_id()), "two readings of the Call-ID");
    }
    let mut out = Vec::new();
    if message.is_request() {
        let extra = b"X-Extra: 1\r\n";
        Response { tag: b"tag1", source: Some((source, true)), extra, ..Response::new(404) }
            .write(&message, &mut out);
        if good {
            check_output(&out, |n| {
                assert_eq!((n.status(), n.cseq(), n.call_id()), (404, message.cseq(), message.call_id()));
                assert_eq!((vias(n), n.via().branch), (vias(&message), message.via().branch));
                assert!(!n.to_tag().is_empty());
            });
            forwarded(&message, choice, source);
        } else {
            // An answer to a malformed request repeats some of it; its head must still be cut one way.
            let head = memchr_head(&out);
            check_head(&out[..head]);
        }
    } else if good && vias(&message) > 1 {
        rewrite::write_response(&message, choice & 1 == 1, &mut Splices::new(), &mut out);
        // Via values below ours are their writers' to read, and come back to them as the callee left them.
        // A line of theirs with an empty value or parameter at its end would be malformed as the topmost one.
        let ends_open =
            |line: sip_message::Header<'_>| line.value.ends_with(b",") || line.value.ends_with(b";");
        if message.headers(Name::Via).skip(1).any(ends_open)
            || message.values(Name::Via).skip(1).any(|v| sip_message::Via::parse(v).is_err())
        {
            return check_head(&out[..memchr_head(&out)]);
        }
        check_output(&out, |n| {
            assert_eq!((n.status(), vias(n)), (message.status(), vias(&message) - 1));
            assert_eq!((n.call_id(), n.body()), (message.call_id(), message.body()));
        });
    }
});

/// Via values, counted one by one; [`Message::via_count`] is an estimate for a cap.
fn vias(m: &Message<'_>) -> usize {
    m.values(Name::Via).count()
}

/// Length of the head, the empty line included.
fn memchr_head(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4)
}
