//! What may stand in a message: rows 13 to 21 and 38.

use super::*;

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
