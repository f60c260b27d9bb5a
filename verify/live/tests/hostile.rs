//! Hostile input from raw sockets, one test a row of the project's table of hostile inputs, over UDP
//! and TCP. Rows about TLS (9) and offered load (37) belong to later versions; slow senders (7) are
//! in `streams.rs`, faults of the machine (40) in `crash.rs`, name service (39) in `names.rs`.

use live::{Credentials, Link, Listener, Msg, Req, Server, Setup, Via, answer, run, unique};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(10);

/// A server that challenges nobody, with bob's phone registered at a listener.
fn open_with_bob() -> (Server, Listener) {
    let server = Setup::open().start();
    let mut bob = Listener::open(server.sip());
    bob.udp.register("bob");
    (server, bob)
}

/// A server with challenges on and two users.
fn closed() -> Server {
    Setup::new().user("alice", "secret-a").user("bob", "secret-b").start()
}

fn alice() -> Credentials<'static> {
    Credentials::new("alice", "secret-a")
}

/// Nothing may have reached the listener; the server has answered an OPTIONS sent later.
fn nothing_reached(listener: &mut Listener, what: &str) {
    if let Some((request, _)) = listener.request_within(SOON) {
        panic!("{what}: forwarded {}", String::from_utf8_lossy(&request.raw));
    }
}

/// Send raw bytes and expect one of these statuses, or silence when `silence` is allowed.
fn expect_refusal(server: &Server, via: Via, bytes: &[u8], statuses: &[u16], silence: bool, what: &str) {
    let mut link = server.link(via);
    link.send(bytes);
    server.assert_alive(what);
    let wait = if silence { SOON } else { LONG };
    match link.find_within(wait, |m| m.status().is_some_and(|s| s >= 200)) {
        Some(m) => assert!(statuses.contains(&m.status().unwrap()), "{what} over {via:?}: {}", m.start),
        None => assert!(silence || link.closed_within(LONG), "{what} over {via:?}: no answer"),
    }
}

/// The request with this text in place of Content-Length's value.
fn with_length(req: &Req, length_lines: &str, body: &[u8]) -> Vec<u8> {
    [format!("{}{length_lines}\r\n", req.head()).as_bytes(), body].concat()
}

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
    assert!(!link.rest().starts_with(b"HTTP/1.1 101"), "upgraded without WebSocket in this version");
    server.assert_alive("a WebSocket handshake");
}

#[test]
fn row_11_sctp_tls_and_websocket_are_refused_by_name() {
    for transport in ["sctp", "tls", "ws", "wss"] {
        let listen = format!("{transport}:127.0.0.1:5999");
        let out = run(["serve", "--listen", &listen, "--data-dir", "/nonexistent", "--admin", "off"]);
        let said = String::from_utf8_lossy(&out.stderr).to_lowercase();
        assert!(!out.status.success(), "{transport}: started");
        assert!(said.contains("not in this version"), "{transport}: {said}");
    }
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
    assert_eq!(phone.via(), Via::Tcp, "RFC 3261 section 18.1.1: beyond 1300 bytes by TCP");
    assert!(message.header("Via").unwrap().contains("/TCP"), "the Via must say so");
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

#[test]
fn row_13_space_in_header_names() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        // The space belongs to the separator, so this is Max-Forwards ...
        for name in ["Max-Forwards ", "Max-Forwards\t", "MAX-FORWARDS \t "] {
            let mut link = server.link(via);
            let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link).with(&format!("{name}: 0"));
            req.max_forwards = None;
            assert_eq!(link.status(&req), 483, "{name:?} over {via:?}");
        }
        // ... and this an identity that nobody here may claim.
        let mut link = server.link(via);
        let req = Req::new("MESSAGE", "sip:bob@example.com", &link)
            .with("P-Asserted-Identity : <sip:boss@example.com>")
            .with("P-Asserted-Identity\t: <tel:+100>");
        link.send(&req.bytes());
        let (message, phone) = bob.request_within(LONG).expect("forwarded");
        assert!(message.header("P-Asserted-Identity").is_none(), "smuggled past: {:?}", message.headers);
        phone.send(&message.reply(200, "b", &[]));
        assert_eq!(link.response(&req).status(), Some(200));
        for line in
            ["To\x01: <sip:eve@example.com>", "T o: <sip:eve@example.com>", ": nothing", "No-Colon", "(x): y"]
        {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link).with(line);
            expect_refusal(&server, via, &req.bytes(), &[400], true, line);
            link.drain();
            nothing_reached(&mut bob, line);
        }
    }
}

#[test]
fn row_14_bare_line_ends_and_nul() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        for (line, what) in [
            ("Subject: a\nRoute: <sip:eve@127.9.9.9;lr>", "bare LF"),
            ("Subject: a\rRoute: <sip:eve@127.9.9.9;lr>", "bare CR"),
            ("Subject: a\0b", "NUL in a header"),
            ("Subject: a\r", "CR CR LF"),
        ] {
            let link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link).with(line);
            drop(link);
            expect_refusal(&server, via, &req.bytes(), &[400], true, what);
            nothing_reached(&mut bob, what);
        }
        for start in ["MESSAGE sip:bob@example.com\0 SIP/2.0", "MESSAGE\nsip:bob@example.com SIP/2.0"] {
            let link = server.link(via);
            let bytes = Req::new("MESSAGE", "sip:bob@example.com", &link).bytes();
            let line_end = bytes.windows(2).position(|w| w == b"\r\n").unwrap();
            drop(link);
            expect_refusal(
                &server,
                via,
                &[start.as_bytes(), &bytes[line_end..]].concat(),
                &[400],
                true,
                start,
            );
            nothing_reached(&mut bob, start);
        }
    }
}

#[test]
fn row_15_folding_hides_nothing() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        let mut link = server.link(via);
        let req = Req::new("MESSAGE", "sip:bob@example.com", &link)
            .with("Subject: first\r\n Route: <sip:eve@127.9.9.9;lr>\r\n\tP-Asserted-Identity: <sip:boss@example.com>");
        link.send(&req.bytes());
        let (message, phone) = bob.request_within(LONG).expect("folding is allowed");
        let subject = message.header("Subject").unwrap();
        assert_eq!(
            subject.split_whitespace().collect::<Vec<_>>().join(" "),
            "first Route: <sip:eve@127.9.9.9;lr> P-Asserted-Identity: <sip:boss@example.com>"
        );
        assert!(!message.has("\r\n ") && !message.has("\r\n\t"), "emitted folded");
        phone.send(&message.reply(200, "b", &[]));
        assert_eq!(link.response(&req).status(), Some(200));
        // Folded before the colon: the name is then "Max-Forwards", as HCOLON allows white space.
        let link = server.link(via);
        let req = Req::new("MESSAGE", "sip:bob@example.com", &link).with("Subject\r\n : folded name");
        drop(link);
        expect_refusal(&server, via, &req.bytes(), &[200, 400, 408, 480], true, "fold before colon");
        if let Some((message, phone)) = bob.request_within(SOON) {
            assert!(!message.has("\r\n "), "emitted folded");
            phone.send(&message.reply(200, "b", &[]));
        }
    }
}

#[test]
fn row_16_headers_and_line_ends_hidden_in_uris() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        for uri in [
            "sip:bob@example.com?Route=%3Csip:eve@127.9.9.9%3Blr%3E",
            "sip:bob@example.com?Authorization=Digest",
            "sip:bob%0d%0aX-Injected:%20yes@example.com",
            "sip:bob@example.com;x=%0d%0aX-Injected:%20yes",
        ] {
            let mut link = server.link(via);
            let mut req = Req::new("MESSAGE", uri, &link);
            req.to = "<sip:bob@example.com>".into();
            link.send(&req.bytes());
            server.assert_alive(uri);
            if let Some((message, phone)) = bob.request_within(SOON) {
                assert!(!message.uri().contains('?'), "headers in a forwarded Request-URI");
                for name in ["Route", "Authorization", "X-Injected"] {
                    assert!(message.header(name).is_none(), "{name} came out of a URI");
                }
                phone.send(&message.reply(200, "b", &[]));
            }
            let answer = link.response(&req);
            assert!(answer.header("X-Injected").is_none());
            assert!(!server.log_text().contains("\nX-Injected"), "an escape was decoded into the log");
        }
    }
}

/// How the server may refuse what is too large: 400, 413, 414, 431-like, 483, 501 or 513, or close.
const TOO_LARGE: [u16; 10] = [400, 403, 404, 413, 414, 480, 483, 501, 513, 200];

#[test]
fn row_17_sizes_and_counts() {
    let server = Setup::open().start();
    let mut probe = server.link(Via::Udp);
    let sample = |link: &Link| Req::new("OPTIONS", "sip:nobody@example.com", link);
    for via in Via::BOTH {
        let link = server.link(via);
        let long = "a".repeat(8192);
        let mut cases: Vec<(&str, Req)> = vec![
            ("64 KiB header", sample(&link).with(&format!("Subject: {}", "s".repeat(60_000)))),
            ("300 byte name", sample(&link).with(&format!("{}: x", "N".repeat(300)))),
        ];
        let many = |n: usize, line: &str| (0..n).fold(sample(&link), |r, _| r.with(line));
        // 10,000 headers fit into a stream only; a datagram takes as many as it can.
        cases.push(("10k headers", many(if via == Via::Tcp { 10_000 } else { 8_000 }, "X-Y: z")));
        cases.push(("100 Vias", many(100, "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKx")));
        let mut register = Req::new("REGISTER", "sip:example.com", &link).user("many");
        register.to = "<sip:many@example.com>".into();
        cases.push((
            "500 Contacts",
            (0..500).fold(register, |r, i| r.with(&format!("m: <sip:many@192.0.2.1:{}>", 1000 + i))),
        ));
        let mut method = sample(&link);
        method.method = long.clone();
        cases.push(("8 KiB method", method));
        let mut uri = sample(&link);
        uri.uri = format!("sip:{long}@example.com");
        cases.push(("8 KiB URI", uri));
        let mut tag = sample(&link);
        tag.from = format!("<sip:caller@example.com>;tag={long}");
        cases.push(("8 KiB tag", tag));
        let mut branch = sample(&link);
        branch.via = branch.via.replace("z9hG4bK", &format!("z9hG4bK{long}"));
        cases.push(("8 KiB branch", branch));
        let mut call = sample(&link);
        call.call_id = long.clone();
        cases.push(("8 KiB Call-ID", call));
        let commas = format!("Accept: {}", ",".repeat(30_000));
        cases.push(("30k commas", sample(&link).with(&commas)));
        let quotes = format!("Contact: {}", "\"\\\"".repeat(15_000));
        cases.push(("15k quotes", sample(&link).with(&quotes)));
        for (what, req) in cases {
            let before = Instant::now();
            expect_refusal(&server, via, &req.bytes(), &TOO_LARGE, via == Via::Udp, what);
            // Linear work: even on a busy machine a debug build is far below this.
            let ping = Req::new("OPTIONS", "sip:example.com", &probe);
            probe.ask(&ping);
            assert!(before.elapsed() < LONG, "{what} took {:?}", before.elapsed());
        }
    }
}

#[test]
fn row_18_fields_that_must_be_single() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        for line in [
            "To: <sip:other@example.com>",
            "t: <sip:other@example.com>",
            "From: <sip:other@example.com>;tag=2",
            "Call-ID: second",
            "CSeq: 2 MESSAGE",
            "Max-Forwards: 5",
        ] {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link).with(line);
            link.send(&req.bytes());
            let answer = link.response(&req);
            assert_eq!(answer.status(), Some(400), "second {line} over {via:?}");
            assert_eq!(answer.header("Call-ID"), Some(req.call_id.as_str()), "built from the first values");
            nothing_reached(&mut bob, line);
        }
        let mut link = server.link(via);
        let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link);
        req.to = "<sip:bob@example.com>;tag=".into();
        assert_eq!(link.status(&req), 400, "empty To tag over {via:?}");
    }
    server.assert_alive("duplicates");
}

/// The request without its header lines of this name.
fn without(req: &Req, name: &str) -> Vec<u8> {
    let text = String::from_utf8(req.bytes()).unwrap();
    let lines: Vec<&str> = text.split("\r\n").filter(|l| !l.starts_with(&format!("{name}:"))).collect();
    lines.join("\r\n").into_bytes()
}

#[test]
fn row_19_missing_fields() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        for name in ["From", "To", "Call-ID", "CSeq"] {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            link.send(&without(&req, name));
            let answer = link.find_within(LONG, |m| m.status().is_some_and(|s| s >= 200)).expect("a 400");
            assert_eq!(answer.status(), Some(400), "no {name} over {via:?}");
            assert!(
                answer.has(req.via.split_once("branch=").unwrap().1.split(';').next().unwrap()),
                "Via is echoed"
            );
        }
        let mut link = server.link(via);
        let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
        link.send(&without(&req, "Via"));
        server.assert_alive("no Via");
        assert!(link.drain().is_empty(), "no Via: there is nowhere to answer to");
        nothing_reached(&mut bob, "missing fields");
    }
}

#[test]
fn row_20_cseq() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        for (cseq, allowed) in [
            ("2147483648 MESSAGE", &[400][..]),
            ("4294967297 MESSAGE", &[400]),
            ("99999999999999999999 MESSAGE", &[400]),
            ("-1 MESSAGE", &[400]),
            ("one MESSAGE", &[400]),
            ("1", &[400]),
            ("1 INVITE", &[400]),
            ("1 NOSUCH", &[400, 501]),
        ] {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            let bytes =
                String::from_utf8(req.bytes()).unwrap().replace("CSeq: 1 MESSAGE", &format!("CSeq: {cseq}"));
            link.send(bytes.as_bytes());
            let answer = link.find_within(LONG, |m| m.status().is_some_and(|s| s >= 200)).expect("an answer");
            assert!(allowed.contains(&answer.status().unwrap()), "{cseq} over {via:?}: {}", answer.start);
            nothing_reached(&mut bob, cseq);
        }
    }
}

#[test]
fn row_21_max_forwards() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        for (hops, status) in [("0", 483), ("256", 400), ("99999999999", 400), ("-1", 400), ("x", 400)] {
            let mut link = server.link(via);
            let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            req.max_forwards = Some(hops.into());
            assert_eq!(link.status(&req), status, "Max-Forwards: {hops} over {via:?}");
            nothing_reached(&mut bob, hops);
        }
        for (hops, forwarded) in [(Some("70"), "69"), (Some("1"), "0"), (None, "70")] {
            let mut link = server.link(via);
            let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            req.max_forwards = hops.map(str::to_owned);
            link.send(&req.bytes());
            let (message, phone) = bob.request_within(LONG).expect("forwarded");
            assert_eq!(message.all("Max-Forwards"), [forwarded], "{hops:?} over {via:?}");
            phone.send(&message.reply(200, "b", &[]));
            link.response(&req);
        }
    }
}

#[test]
fn row_22_branches_do_not_mix_callers() {
    let (server, mut bob) = open_with_bob();
    for branch in
        ["", ";branch=", ";branch=z9hG4bK", ";branch=abc", ";branch=Z9HG4BKsame", ";branch=z9hG4bKsame"]
    {
        // Two callers use the same branch at once; each must get the answer to its own request.
        let mut callers: Vec<(Link, Req, u16)> = Vec::new();
        for status in [486, 480] {
            let mut link = server.link(Via::Udp);
            let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            req.via = format!("SIP/2.0/UDP {}{branch};rport", link.local());
            link.send(&req.bytes());
            callers.push((link, req, status));
        }
        let mut seen = 0;
        for _ in 0..2 {
            let Some((message, phone)) = bob.request_within(Duration::from_secs(3)) else { break };
            let whose =
                callers.iter().find(|c| Some(c.1.call_id.as_str()) == message.header("Call-ID")).unwrap();
            phone.send(&message.reply(whose.2, "b", &[]));
            seen += 1;
        }
        for (link, req, status) in &mut callers {
            let got = link.response(req).status().unwrap();
            assert!(got == *status || (seen == 0 && got == 400), "{branch:?}: {got} for {status}");
        }
        // A retransmission of the same request is answered from memory, not forwarded again.
        let (link, req, status) = &mut callers[0];
        if branch == ";branch=z9hG4bKsame" {
            link.send(&req.bytes());
            assert_eq!(link.response(req).status(), Some(*status));
            nothing_reached(&mut bob, "retransmission");
            // Same branch, other method: another transaction (RFC 3261 section 17.2.3).
            let mut other = req.clone();
            other.method = "INFO".into();
            other.cseq = 2;
            link.send(&other.bytes());
            let (message, phone) = bob.request_within(LONG).expect("another method is another transaction");
            phone.send(&message.reply(200, "b", &[]));
            assert_eq!(link.response(&other).status(), Some(200));
        }
    }
    server.assert_alive("branches");
}

#[test]
fn row_23_forged_and_late_responses() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        let mut link = server.link(via);
        let req = Req::invite("sip:bob@example.com", &link);
        link.send(&req.bytes());
        let (invite, phone) = bob.request_within(LONG).expect("forwarded");
        let contact = format!("Contact: <sip:bob@{}>", phone.local());
        // Not ours: another branch under our sent-by. And codes that do not exist.
        let good = invite.reply(486, "b", &[]);
        let text = String::from_utf8(good).unwrap();
        let forged = text.replacen("branch=z9hG4bK", "branch=z9hG4bKforged", 1);
        phone.send(forged.as_bytes());
        for code in ["4294967301", "099", "700", "9999", "-20"] {
            phone.send(text.replacen("SIP/2.0 486", &format!("SIP/2.0 {code}"), 1).as_bytes());
        }
        phone.send(text.replacen("CSeq: 1 INVITE", "CSeq: 1 BYE", 1).as_bytes());
        server.assert_alive("forged responses");
        assert!(
            link.find_within(SOON, |m| m.status().is_some_and(|s| s >= 180)).is_none(),
            "a forged response got through over {via:?}"
        );
        // Then the real one, and its retransmission in the Accepted state (RFC 6026).
        let ok = invite.reply(200, "b", &[&contact]);
        phone.send(&ok);
        assert_eq!(link.response(&req).status(), Some(200));
        phone.send(&ok);
        assert_eq!(link.response(&req).status(), Some(200), "a retransmitted 2xx is forwarded again");
        // A later 486 for the same branch is not.
        phone.send(text.as_bytes());
        server.assert_alive("late response");
        assert!(link.find_within(SOON, |m| m.status() == Some(486)).is_none(), "a final after the 2xx");
    }
}

#[test]
fn row_24_answers_go_to_the_source_only() {
    let server = closed();
    let mut victim = Listener::open(server.sip());
    let place = victim.udp.local();
    for via_value in [
        "SIP/2.0/UDP 255.255.255.255:5060;branch={B}".to_owned(),
        "SIP/2.0/UDP 224.0.0.1:5060;branch={B}".to_owned(),
        "SIP/2.0/UDP 192.0.2.1:5060;branch={B};received=192.0.2.7".to_owned(),
        format!("SIP/2.0/UDP {place};branch={{B}}"),
        format!("SIP/2.0/UDP {place};branch={{B}};rport"),
        format!("SIP/2.0/UDP {{L}};branch={{B}};rport={};received={}", place.port(), place.ip()),
        format!("SIP/2.0/UDP {{L}};branch={{B}};maddr={}", place.ip()),
    ] {
        let mut link = server.link(Via::Udp);
        let mut req = Req::new("INVITE", "sip:bob@example.com", &link);
        req.via = via_value.replace("{B}", &unique("z9hG4bK")).replace("{L}", &link.local().to_string());
        link.send(&req.bytes());
        server.assert_alive(&via_value);
        assert!(
            victim.request_within(SOON).is_none() && victim.udp.drain().is_empty(),
            "{via_value}: reached a third party"
        );
        // With maddr alone the RFC would answer there; refusing to is allowed, reaching it is not.
        link.drain();
    }
}

#[test]
fn row_25_no_amplifier() {
    let server = closed();
    let mut link = server.link(Via::Udp);
    let req = Req::invite("sip:bob@example.com", &link);
    link.send(&req.bytes());
    let first = link.response(&req);
    assert!(matches!(first.status(), Some(401 | 407)), "{}", first.start);
    // A stateful refusal would be sent again after 500 ms and 1 s.
    let end = Instant::now() + Duration::from_millis(1800);
    while Instant::now() < end {
        assert!(link.recv_raw(Duration::from_millis(100)).is_none(), "more than one answer to one request");
    }
}

#[test]
fn row_26_loops_end_and_spirals_pass() {
    let server = Setup::open().start();
    let bind = |user: &str, contact: String| {
        let mut link = server.link(Via::Udp);
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user);
        req.to = format!("<sip:{user}@example.com>");
        link.status(&req.with(&format!("Contact: <{contact}>")))
    };
    let here = server.sip();
    bind("self", format!("sip:self@{here}"));
    bind("domain", "sip:domain@example.com".into());
    bind("ping", format!("sip:pong@{here}"));
    bind("pong", format!("sip:ping@{here}"));
    for via in Via::BOTH {
        for user in ["self", "domain", "ping"] {
            let mut link = server.link(via);
            let req = Req::invite(&format!("sip:{user}@example.com"), &link);
            let status = link.status(&req);
            // 482 by loop detection; a registrar may refuse such a binding in the first place.
            assert!(matches!(status, 482 | 403 | 404 | 480), "{user} over {via:?}: {status}");
        }
    }
    // A spiral comes back with another Request-URI and goes on to a phone.
    let mut bob = Listener::open(server.sip());
    bob.udp.register("bob");
    if bind("spiral", format!("sip:bob@{here}")) == 200 {
        let mut link = server.link(Via::Udp);
        let req = Req::new("MESSAGE", "sip:spiral@example.com", &link);
        link.send(&req.bytes());
        let (message, phone) = bob.request_within(LONG).expect("a spiral is no loop");
        phone.send(&message.reply(200, "b", &[]));
        assert_eq!(link.response(&req).status(), Some(200));
    }
    server.assert_alive("loops");
}

#[test]
fn row_27_fork_bomb() {
    let server = Setup::open().start();
    let here = server.sip();
    // Two users whose 60 contacts lead to each other's.
    for (user, other) in [("a", "b"), ("b", "a")] {
        let mut link = server.link(Via::Udp);
        for i in 0..60 {
            let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user);
            req.to = format!("<sip:{user}@example.com>");
            req.call_id = format!("bomb-{user}");
            req.cseq = i + 1;
            link.ask(&req.with(&format!("Contact: <sip:{other}@{here};n={i}>")));
        }
    }
    let mut link = server.link(Via::Udp);
    let req = Req::invite("sip:a@example.com", &link);
    let before = Instant::now();
    let status = link.status(&req);
    assert!(matches!(status, 403 | 404 | 440 | 480 | 482 | 483 | 500 | 503), "{status}");
    assert!(before.elapsed() < LONG, "took {:?}", before.elapsed());
    server.assert_alive("a fork bomb");
}

#[test]
fn row_28_no_open_relay() {
    let server = closed();
    let mut victim = Listener::open(server.sip());
    let place = victim.udp.local();
    let admin = server.admin();
    for via in Via::BOTH {
        // Strangers: by Request-URI, by Route, with a made-up To tag.
        let stranger = |link: &Link, uri: &str| {
            let mut req = Req::new("INVITE", uri, link).contact(link);
            req.from = format!("<sip:eve@elsewhere.example>;tag={}", unique("f"));
            req
        };
        for (uri, route, tag) in [
            (format!("sip:x@{place}"), None, false),
            (format!("sip:x@{place}"), None, true),
            ("sip:bob@example.com".to_owned(), Some(format!("<sip:{place};lr>")), false),
            (
                "sip:bob@example.com".to_owned(),
                Some(format!("<sip:{};lr>, <sip:{place};lr>", server.sip())),
                true,
            ),
            (format!("sip:x@{place}"), Some(format!("<sip:{};lr>", server.sip())), true),
        ] {
            let mut link = server.link(via);
            let mut req = stranger(&link, &uri);
            if tag {
                req.to.push_str(";tag=made-up");
            }
            if let Some(route) = &route {
                req = req.with(&format!("Route: {route}"));
            }
            let status = link.status(&req);
            assert!(matches!(status, 401 | 403 | 404 | 407 | 481), "{uri} {route:?} over {via:?}: {status}");
            nothing_reached(&mut victim, &uri);
        }
        // Even alice may not reach link-local or multicast addresses or the admin port.
        for target in [
            "169.254.169.254".to_owned(),
            "[fe80::1]".to_owned(),
            "224.0.0.5".to_owned(),
            "0.0.0.0".to_owned(),
            admin.to_string(),
        ] {
            let mut link = server.link(via);
            let req = Req::invite(&format!("sip:x@{target}"), &link).user("alice");
            let answer = link.ask_as(&req, &alice());
            assert_eq!(answer.status(), Some(403), "{target} over {via:?}: {}", answer.start);
        }
    }
    server.assert_alive("relay attempts");
}

/// REGISTER as alice with these changes; answers the final status.
fn register_as_alice(server: &Server, change: impl Fn(Req) -> Req) -> u16 {
    let mut link = server.link(Via::Udp);
    let mut base = Req::new("REGISTER", "sip:example.com", &link).user("alice");
    base.to = "<sip:alice@example.com>".into();
    let req = change(base);
    link.ask_as(&req, &alice()).status().unwrap()
}

#[test]
fn row_29_registrations_cannot_be_hijacked() {
    let server = closed();
    let contact = "Contact: <sip:alice@192.0.2.9>";
    assert_eq!(register_as_alice(&server, |r| r.with(contact)), 200);
    let other = register_as_alice(&server, |mut r| {
        r.to = "<sip:bob@example.com>".into();
        r.with(contact)
    });
    assert_eq!(other, 403, "another user's address-of-record");
    assert_eq!(register_as_alice(&server, |r| r.with("Contact: *").with("Expires: 3600")), 400);
    assert_eq!(register_as_alice(&server, |r| r.with("Contact: *")), 400);
    assert_eq!(register_as_alice(&server, |r| r.with("Contact: *").with(contact).with("Expires: 0")), 400);
    assert_eq!(register_as_alice(&server, |r| r.with(contact).with("Expires: 1")), 423);
    assert_eq!(register_as_alice(&server, |r| r.with(&format!("{contact};expires=2"))), 423);
    for expires in ["-1", "4294967296", "99999999999999999999", "soon"] {
        let status = register_as_alice(&server, |r| r.with(contact).with(&format!("Expires: {expires}")));
        assert!(matches!(status, 200 | 400 | 423), "Expires: {expires}: {status}");
    }
    // The same Call-ID with a lower CSeq must change nothing (RFC 3261 section 10.3 step 7).
    let ordered = |cseq: u32, contact: &str| {
        register_as_alice(&server, |mut r| {
            r.call_id = "ordered".into();
            r.cseq = cseq;
            r.with(contact)
        })
    };
    assert_eq!(ordered(10, "Contact: <sip:alice@192.0.2.10>"), 200);
    let replayed = ordered(5, "Contact: <sip:alice@192.0.2.10>;expires=0");
    assert_eq!(replayed, 500, "an older request");
    server.assert_alive("hijack attempts");
}

#[test]
fn row_30_digest_cannot_be_replayed() {
    let server = closed();
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    let challenged = link.ask(&req);
    assert_eq!(challenged.status(), Some(401));
    let line = answer(&challenged, &alice(), "REGISTER", "sip:example.com");
    assert_eq!(link.status(&req.again(&link, &line)), 200);
    // The same nonce count again, a forged nonce, another method, another URI, another realm.
    let mut refused = |what: &str, line: &str, req: &Req| {
        let got = link.ask(&req.again(&link, line));
        // 400 is RFC 7616 section 3.4.6 for a uri that is not the request's.
        assert!(matches!(got.status(), Some(400 | 401 | 407)), "{what}: {}", got.start);
    };
    refused("replay", &line, &req);
    let fresh = |link: &mut Link| {
        let challenged = link.ask(&Req::register("alice", link));
        answer(&challenged, &alice(), "REGISTER", "sip:example.com")
    };
    let mut other = server.link(Via::Udp);
    let good = fresh(&mut other);
    let at = good.find("nonce=\"").unwrap() + 9;
    let mut forged = good.clone();
    let flipped = if &good[at..=at] == "0" { "1" } else { "0" };
    forged.replace_range(at..=at, flipped);
    refused("forged nonce", &forged, &req);
    refused("nonce of nobody", &good.replacen("nonce=\"", "nonce=\"AAAAAAAAAAAAAAAAAAAAAA", 1), &req);
    let message = Req::new("MESSAGE", "sip:bob@example.com", &other).user("alice");
    refused(
        "answer for another method",
        &fresh(&mut other).replacen("Authorization", "Proxy-Authorization", 1),
        &message,
    );
    refused(
        "another realm",
        &fresh(&mut other).replace("realm=\"example.com\"", "realm=\"evil.example\""),
        &req,
    );
    refused(
        "another uri",
        &fresh(&mut other).replace("uri=\"sip:example.com\"", "uri=\"sip:other.example\""),
        &req,
    );
    server.assert_alive("replays");
}

#[test]
fn row_31_strange_credentials() {
    let server = closed();
    let long = "x".repeat(8000);
    for via in Via::BOTH {
        for value in [
            "NoOneKnowsThisScheme opaque=here".to_owned(),
            "Digest".into(),
            "Digest ".into(),
            "Digest username=alice, realm=example.com, nonce=1, uri=sip:example.com, response=0".into(),
            "Digest username=\"alice\", realm=\"example.com\", algorithm=ROT13, nonce=\"1\", uri=\"sip:example.com\", response=\"0\"".into(),
            "Digest username=\"alice\", realm=\"never.example\", nonce=\"1\", uri=\"sip:example.com\", response=\"0\"".into(),
            "Digest username=\"alice, realm=\"example.com".into(),
            "Digest ,,,,=,=\"\",\"=".into(),
            "Digest username=\"\\\", nonce=\"\\".into(),
            format!("Digest username=\"{long}\", realm=\"example.com\", nonce=\"{long}\", uri=\"sip:example.com\", response=\"{long}\""),
            "Basic YWxpY2U6c2VjcmV0".into(),
        ] {
            let mut link = server.link(via);
            let req = Req::register("alice", &link).with(&format!("Authorization: {value}"));
            let status = link.status(&req);
            assert!(matches!(status, 401 | 400 | 403 | 513), "{value:.60} over {via:?}: {status}");
        }
        let mut link = server.link(via);
        let many = (0..20).fold(Req::register("alice", &link), |r, i| {
            r.with(&format!("Authorization: Digest username=\"alice\", realm=\"r{i}\", nonce=\"n\", uri=\"sip:example.com\", response=\"0\""))
        });
        assert!(matches!(link.status(&many), 401 | 400), "20 credentials");
    }
    server.assert_alive("strange credentials");
}

#[test]
fn row_32_strangers_learn_nothing() {
    let server = closed();
    let shape = |m: &Msg| {
        let names: Vec<String> = m.headers.iter().map(|(n, _)| n.to_lowercase()).collect();
        (
            m.status(),
            names,
            m.header("WWW-Authenticate").map(str::len),
            m.header("Proxy-Authenticate").map(str::len),
        )
    };
    for method in ["REGISTER", "INVITE", "OPTIONS", "SUBSCRIBE"] {
        let mut shapes = Vec::new();
        for user in ["alice", "nobody"] {
            let mut link = server.link(Via::Udp);
            let mut req =
                Req::new(method, &format!("sip:{user}@example.com"), &link).user("alice").contact(&link);
            req.from = format!("<sip:{user}@example.com>;tag=t");
            shapes.push(shape(&link.ask(&req)));
        }
        assert_eq!(shapes[0], shapes[1], "{method}: a known and an unknown user look different");
    }
    // A wrong password for a known user looks like any password for an unknown one.
    let mut statuses = Vec::new();
    for user in ["alice", "nobody"] {
        let mut link = server.link(Via::Udp);
        let req = Req::register(user, &link);
        statuses.push(shape(&link.ask_as(&req, &Credentials::new(user, "wrong"))));
    }
    assert_eq!(statuses[0], statuses[1]);
    // Guessing from one place does not lock alice out elsewhere, and does not go on unhindered.
    let mut guesser = server.link(Via::Udp);
    let mut refused = 0;
    for i in 0..60 {
        let req = Req::register("alice", &guesser);
        guesser.send(&req.bytes());
        let Some(challenged) = guesser.response_within(&req, Duration::from_secs(1)) else { break };
        if !matches!(challenged.status(), Some(401 | 407)) {
            refused += 1;
            break;
        }
        let line = answer(
            &challenged,
            &Credentials::new("alice", &format!("guess{i}")),
            "REGISTER",
            "sip:example.com",
        );
        let again = req.again(&guesser, &line);
        guesser.send(&again.bytes());
        match guesser.response_within(&again, Duration::from_secs(1)) {
            Some(m) if m.status() == Some(401) => {}
            Some(m) => {
                assert_ne!(m.status(), Some(200), "guessed");
                refused += 1;
                break;
            }
            None => {
                refused += 1;
                break;
            }
        }
    }
    assert!(refused > 0, "60 wrong passwords in a row were all checked at full speed");
    let mut link = server.link(Via::Udp);
    let req = Req::register("bob", &link);
    assert_eq!(link.ask_as(&req, &Credentials::new("bob", "secret-b")).status(), Some(200), "others suffer");
}

#[test]
fn row_33_every_method_is_challenged() {
    let server = closed();
    for via in Via::BOTH {
        for method in [
            "INVITE",
            "MESSAGE",
            "SUBSCRIBE",
            "PUBLISH",
            "REFER",
            "NOTIFY",
            "INFO",
            "UPDATE",
            "PRACK",
            "BYE",
            "OPTIONS",
            "FROB",
        ] {
            let mut link = server.link(via);
            let req = Req::new(method, "sip:bob@example.com", &link).user("alice").contact(&link);
            let status = link.status(&req);
            assert!(matches!(status, 401 | 407), "{method} over {via:?}: {status}");
        }
        let mut link = server.link(via);
        let register = Req::register("alice", &link);
        assert_eq!(link.status(&register), 401);
    }
}

#[test]
fn row_34_a_callees_challenge_is_only_passed_on() {
    let (server, mut bob) = open_with_bob();
    let mut link = server.link(Via::Udp);
    let req = Req::invite("sip:bob@example.com", &link);
    link.send(&req.bytes());
    let (invite, phone) = bob.request_within(LONG).expect("forwarded");
    let challenge =
        "Proxy-Authenticate: Digest realm=\"evil.example\", nonce=\"n\", algorithm=MD5, qop=\"auth\"";
    phone.send(&invite.reply(407, "b", &[challenge]));
    let got = link.response(&req);
    assert_eq!(got.status(), Some(407));
    assert!(got.has("evil.example"), "the challenge is the caller's to answer");
    let (ack, _) = bob.request_within(LONG).expect("the ACK for the 407");
    assert_eq!(ack.method(), "ACK");
    assert!(!ack.has("Authorization") && !ack.has("response="));
    nothing_reached(&mut bob, "a second try with the server's own credentials");
}

#[test]
fn row_35_identities_cannot_be_claimed() {
    let server = closed();
    let mut bob = Listener::open(server.sip());
    let req = Req::register("bob", &bob.udp);
    assert_eq!(bob.udp.ask_as(&req, &Credentials::new("bob", "secret-b")).status(), Some(200));
    for via in Via::BOTH {
        let mut link = server.link(via);
        let spoof = Req::new("MESSAGE", "sip:bob@example.com", &link).user("bob");
        let status = link.ask_as(&spoof, &alice()).status().unwrap();
        assert!(matches!(status, 403 | 401 | 407), "From of another user: {status}");
        nothing_reached(&mut bob, "spoofed From");
        let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link)
            .user("alice")
            .with("P-Asserted-Identity: <sip:boss@example.com>")
            .with("Remote-Party-ID: <sip:boss@example.com>;screen=yes");
        req.body = b"hi".to_vec();
        let challenged = link.ask(&req);
        let line = answer(&challenged, &alice(), "MESSAGE", "sip:bob@example.com");
        let again = req.again(&link, &line);
        link.send(&again.bytes());
        let (message, phone) = bob.request_within(LONG).expect("forwarded");
        assert!(!message.has("boss@example.com"), "an identity claimed by a phone got through");
        assert!(!message.has("Proxy-Authorization"), "credentials for this server go no further");
        phone.send(&message.reply(200, "b", &[]));
        assert_eq!(link.response(&again).status(), Some(200));
    }
}

#[test]
fn row_36_stray_ack_cancel_bye() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        let mut link = server.link(via);
        // ACK is never answered.
        for tag in ["", ";tag=unknown"] {
            let mut ack = Req::new("ACK", "sip:bob@example.com", &link);
            ack.to.push_str(tag);
            link.send(&ack.bytes());
        }
        let mut nobody = Req::new("ACK", "sip:nobody@example.com", &link);
        nobody.to.push_str(";tag=x");
        link.send(&nobody.bytes());
        server.assert_alive("stray ACKs");
        assert!(link.drain().is_empty(), "an ACK was answered");
        while bob.request_within(SOON).is_some() {}
        // CANCEL of nothing.
        let cancel = Req::new("CANCEL", "sip:bob@example.com", &link);
        assert_eq!(link.status(&cancel), 481);
        nothing_reached(&mut bob, "a CANCEL that matches nothing");
        // A call that rings; a third party's CANCEL does not end it, the caller's does.
        let req = Req::invite("sip:bob@example.com", &link);
        link.send(&req.bytes());
        let (invite, phone) = bob.request_within(LONG).expect("forwarded");
        phone.send(&invite.reply(180, "b", &[]));
        link.expect(&req, 180);
        let mut thief = server.link(Via::Udp);
        let mut forged = req.cancel();
        forged.via = format!("SIP/2.0/UDP {};branch={};rport", thief.local(), unique("z9hG4bK"));
        assert_eq!(thief.status(&forged), 481, "a CANCEL from elsewhere");
        nothing_reached(&mut bob, "a third party's CANCEL");
        let cancel = req.cancel();
        link.send(&cancel.bytes());
        assert_eq!(link.response(&cancel).status(), Some(200));
        // CANCEL and 200 cross: the 200 wins and is delivered (RFC 5407 section 3.1.2).
        let (cancelled, phone) = bob.request_within(LONG).expect("the CANCEL is passed on");
        assert_eq!(cancelled.method(), "CANCEL");
        phone.send(&cancelled.reply(200, "b", &[]));
        let contact = format!("Contact: <sip:bob@{}>", phone.local());
        phone.send(&invite.reply(200, "b", &[&contact]));
        assert_eq!(link.response(&req).status(), Some(200), "the 200 that crossed the CANCEL");
    }
}

#[test]
fn row_38_bodies_are_bytes() {
    let (server, mut bob) = open_with_bob();
    let deep = "[".repeat(1000);
    let bodies: [(&str, &[u8]); 7] = [
        ("multipart/mixed;boundary=x", b"--x\r\nContent-Type: text/plain\r\n\r\nno end"),
        ("multipart/mixed;boundary=\"\"", b"----\r\n\r\n--\r\n"),
        ("application/sdp", b"v=\r\no=\0\r\nb=\r\n=\r\n\r\n\r\nm=audio 99999999999 \xff"),
        ("application/pidf+xml", b"<!DOCTYPE a [<!ENTITY b \"&c;&c;\"><!ENTITY c \"&b;&b;\">]><a>&b;</a>"),
        ("application/json", deep.as_bytes()),
        ("application/gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x00\x00"),
        ("text/plain", b"INVITE sip:eve@example.com SIP/2.0\r\nVia: x\r\n\r\nSIP/2.0 200 OK\r\n\r\n"),
    ];
    for via in Via::BOTH {
        for (kind, body) in bodies {
            let mut link = server.link(via);
            let req = Req::new("MESSAGE", "sip:bob@example.com", &link)
                .with(&format!("Content-Type: {kind}"))
                .body(body);
            link.send(&req.bytes());
            let (message, phone) = bob.request_within(LONG).expect("forwarded");
            assert_eq!(message.body, body, "{kind} over {via:?}");
            phone.send(&message.reply_with_body(200, "b", &[], body));
            assert_eq!(link.response(&req).body, body, "{kind} back over {via:?}");
        }
    }
}
