//! Where a message ends: rows 1 to 8 and 10 to 12.

use super::*;

#[test]
fn row_01_content_length_beyond_every_integer() {
    let (server, mut bob) = open_with_bob();
    for length in ["2147483648", "4294967296", "4294967328", "999999999999999999999999999999"] {
        for via in Via::BOTH {
            let mut link = server.link(via);
            let smuggled = Req::invite("sip:bob@example.com", &link).bytes();
            let req = Req::new("OPTIONS", "sip:example.com", &link);
            link.send(&with_length(&req, &format!("Content-Length: {length}\r\n"), &smuggled));
            server.assert_alive(length);
            if let Some(m) =
                link.response_within(&req, if via == Via::Udp { LONG } else { Duration::from_secs(5) })
            {
                assert!(matches!(m.status(), Some(400 | 413 | 513)), "{length} over {via:?}: {}", m.start);
            }
            nothing_reached(&mut bob, length);
            if via == Via::Tcp {
                assert!(link.closed_within(LONG), "{length}: the stream has no framing left, yet stays open");
            }
        }
    }
}

#[test]
fn row_02_content_length_is_no_number() {
    let (server, mut bob) = open_with_bob();
    for length in ["-1", "+5", "0x10", "5 5", "", "5,5", "5a"] {
        for via in Via::BOTH {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            link.send(&with_length(&req, &format!("Content-Length: {length}\r\n"), b"12345"));
            assert_eq!(link.response(&req).status(), Some(400), "{length:?} over {via:?}");
            assert!(via == Via::Udp || link.closed_within(LONG), "{length:?}: stays open");
            nothing_reached(&mut bob, length);
        }
    }
    server.assert_alive("bad lengths");
}

#[test]
fn row_03_two_content_lengths() {
    let (server, mut bob) = open_with_bob();
    for lines in [
        "Content-Length: 5\r\nContent-Length: 0\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "l: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 0\r\nL: 5\r\n",
    ] {
        for via in Via::BOTH {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            link.send(&with_length(&req, lines, b"12345"));
            assert_eq!(link.response(&req).status(), Some(400), "{lines:?} over {via:?}");
            assert!(via == Via::Udp || link.closed_within(LONG), "{lines:?}: stays open");
            nothing_reached(&mut bob, lines);
        }
    }
    server.assert_alive("two lengths");
}

#[test]
fn row_04_no_content_length() {
    let (server, mut bob) = open_with_bob();
    let mut link = server.link(Via::Tcp);
    let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
    link.send(&with_length(&req, "", b"hello"));
    assert_eq!(link.response(&req).status(), Some(400));
    assert!(link.closed_within(LONG), "a stream without framing stays open");
    nothing_reached(&mut bob, "no length over TCP");
    // In a datagram the body simply ends with it (RFC 3261 section 18.3).
    let mut link = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
    link.send(&with_length(&req, "", b"hello"));
    let (message, _) = bob.request_within(LONG).expect("a datagram without Content-Length is well formed");
    assert_eq!(message.body, b"hello");
}

#[test]
fn row_05_datagram_and_content_length_disagree() {
    let (server, mut bob) = open_with_bob();
    let mut link = server.link(Via::Udp);
    let short = Req::new("MESSAGE", "sip:bob@example.com", &link);
    link.send(&with_length(&short, "Content-Length: 50\r\n", b"hello"));
    assert_eq!(link.response(&short).status(), Some(400), "a body shorter than announced");
    nothing_reached(&mut bob, "short body");
    let long = Req::new("MESSAGE", "sip:bob@example.com", &link);
    link.send(&with_length(
        &long,
        "Content-Length: 5\r\n",
        b"helloINVITE sip:bob@example.com SIP/2.0\r\n\r\n",
    ));
    let (message, phone) =
        bob.request_within(LONG).expect("the tail of a datagram is ignored, not the message");
    assert_eq!(message.body, b"hello", "the tail must not be forwarded");
    // A response that is shorter than it says is dropped: the caller sees only the good one.
    let cut = String::from_utf8(message.reply(488, "b", &[]))
        .unwrap()
        .replace("Content-Length: 0", "Content-Length: 9");
    phone.send(cut.as_bytes());
    phone.send(&message.reply(200, "b", &[]));
    assert_eq!(link.response(&long).status(), Some(200), "a cut response must be dropped");
    server.assert_alive("length mismatch");
}

/// A stream of `n` OPTIONS and the Call-IDs in order.
fn many_options(link: &Link, n: usize) -> (Vec<u8>, Vec<String>) {
    let requests: Vec<Req> = (0..n).map(|_| Req::new("OPTIONS", "sip:example.com", link)).collect();
    (requests.iter().flat_map(Req::bytes).collect(), requests.into_iter().map(|r| r.call_id).collect())
}

fn answered(link: &mut Link, mut ids: Vec<String>) {
    while !ids.is_empty() {
        let answer = link.recv_within(LONG).unwrap_or_else(|| panic!("{} requests unanswered", ids.len()));
        assert_eq!(answer.status(), Some(200), "{}", answer.start);
        let id = answer.header("Call-ID").unwrap().to_owned();
        let at = ids.iter().position(|i| *i == id).expect("answered twice or never asked");
        ids.swap_remove(at);
    }
}

#[test]
fn row_06_a_stream_may_be_cut_anywhere() {
    let server = Setup::open().start();
    let mut link = server.link(Via::Tcp);
    let (bytes, ids) = many_options(&link, 3);
    for byte in &bytes {
        link.send(std::slice::from_ref(byte));
    }
    answered(&mut link, ids);
    // A thousand in one write.
    let mut link = server.link(Via::Tcp);
    let (bytes, ids) = many_options(&link, 1000);
    link.send(&bytes);
    answered(&mut link, ids);
    // Every place inside the empty line, and inside a UTF-8 character of a body.
    for cut in 1..4 {
        let mut link = server.link(Via::Tcp);
        let (bytes, ids) = many_options(&link, 1);
        let (front, back) = bytes.split_at(bytes.len() - 4 + cut);
        link.send(front);
        assert!(link.recv_within(Duration::from_millis(60)).is_none(), "answered before the end");
        link.send(back);
        answered(&mut link, ids);
    }
    server.assert_alive("cut streams");
}

#[test]
fn row_08_keepalives_and_their_floods() {
    let server = Setup::open().start();
    let mut link = server.link(Via::Tcp);
    link.send(b"\r\n\r\n");
    assert_eq!(link.bytes_within(LONG), b"\r\n", "RFC 5626 section 4.4.1: one CRLF answers two");
    let flood = b"\r\n".repeat(50_000);
    link.send(&flood);
    let (bytes, ids) = many_options(&link, 1);
    link.send(&bytes);
    answered(&mut link, ids);
    let mut udp = server.link(Via::Udp);
    for _ in 0..500 {
        for keepalive in [&b"\r\n"[..], b"\r\n\r\n", b"\0\0\0\0", b""] {
            udp.send(keepalive);
        }
    }
    server.assert_alive("UDP keepalives");
    for reply in udp.drain() {
        assert!(reply.iter().all(|b| matches!(b, b'\r' | b'\n')), "keepalives get no SIP answer");
    }
    // A request may follow empty lines (RFC 3261 section 7.5).
    let ping = Req::new("OPTIONS", "sip:example.com", &udp);
    udp.send(&[&b"\r\n\r\n"[..], &ping.bytes()].concat());
    assert_eq!(udp.response(&ping).status(), Some(200));
    assert!(server.log_text().lines().count() < 100, "a log line for each keepalive");
}

#[test]
fn row_10_a_websocket_handshake_gets_nothing() {
    let server = Setup::open().start();
    let mut link = server.link(Via::Tcp);
    link.send(
        b"GET / HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert!(link.closed_within(LONG), "HTTP on a SIP port: close");
    assert!(!link.rest().starts_with(b"HTTP/1.1 101"), "upgraded on a listener for SIP alone");
    server.assert_alive("a WebSocket handshake");
}

#[test]
fn row_12_large_datagrams() {
    let (server, mut bob) = open_with_bob();
    let mut link = server.link(Via::Udp);
    let body = vec![b'x'; 20_000];
    let req = Req::new("MESSAGE", "sip:bob@example.com", &link).body(&body);
    link.send(&req.bytes());
    let (message, phone) = bob.request_within(LONG).expect("a datagram of 20 kB is one message");
    assert_eq!(message.body, body);
    assert_eq!(phone.via(), Via::Udp, "a phone that registered over UDP may accept no connection");
    phone.send(&message.reply(200, "b", &[]));
    assert_eq!(link.response(&req).status(), Some(200));
    // The largest datagram there is: taken whole or refused, never cut.
    let empty = Req::new("MESSAGE", "sip:bob@example.com", &link);
    let room = 65_507 - empty.bytes().len() - 8;
    let req = empty.body(&vec![b'y'; room]);
    link.send(&req.bytes());
    match bob.request_within(Duration::from_secs(3)) {
        Some((message, phone)) => {
            assert_eq!(message.body.len(), room, "cut");
            phone.send(&message.reply(200, "b", &[]));
        }
        None => assert!(matches!(link.response(&req).status(), Some(413 | 513)), "neither taken nor refused"),
    }
    server.assert_alive("the largest datagram");
}
