//! Tests of whole messages.

use crate::*;
use proptest::prelude::*;

const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bK776asdhds, SIP/2.0/TCP second;branch=z9hG4bK2\r\n\
v: SIP/2.0/UDP third\r\n\
Max-Forwards: 70\r\n\
To : Bob <sip:bob@biloxi.com>\r\n\
f: \"Alice ;tag=no\" <sip:alice@atlanta.com>;tag=1928301774\r\n\
Call-ID: a84b4c76e66710@pc33.atlanta.com\r\n\
CSeq: 314159 INVITE\r\n\
m: <sip:alice@pc33.atlanta.com>\r\n\
X-Other: 1\r\n\
x-other: 2\r\n\
Content-Length: 4\r\n\
\r\n\
bodyTAIL";

fn check(text: &str, test: impl FnOnce(Parsed<'_>)) {
    let mut index = Index::new();
    test(parse(text.as_bytes(), &mut index, &Limits::default()));
}

fn flaw_of(text: &str) -> (u16, &'static str) {
    let mut index = Index::new();
    match parse(text.as_bytes(), &mut index, &Limits::default()) {
        Parsed::Bad(_, flaw) => (flaw.status, flaw.reason),
        Parsed::Good(_) => (200, "good"),
        Parsed::Garbage(why) => (0, why),
    }
}

#[test]
fn a_message_is_indexed_in_place() {
    let text = INVITE.to_owned();
    check(&text, |parsed| {
        let Parsed::Good(m) = parsed else { panic!("{parsed:?}") };
        assert!(m.is_request());
        assert_eq!(m.method(), Method::Invite);
        assert_eq!(m.request_uri(), b"sip:bob@biloxi.com");
        assert_eq!(m.call_id(), b"a84b4c76e66710@pc33.atlanta.com");
        assert_eq!((m.from_tag(), m.to_tag()), (&b"1928301774"[..], &b""[..]));
        assert_eq!((m.cseq(), m.max_forwards()), (314_159, Some(70)));
        assert_eq!(m.via().branch, b"z9hG4bK776asdhds");
        assert_eq!(m.values(Name::Via).count(), 3);
        assert_eq!(m.via_count(), 3);
        assert_eq!(m.body(), b"body");
        assert!(m.bytes().ends_with(b"body"));
        assert_eq!(m.bytes().as_ptr(), text.as_ptr(), "nothing is copied");
        assert_eq!(m.header(Name::Contact).unwrap().value, b"<sip:alice@pc33.atlanta.com>");
        let others: Vec<_> = m.headers(Name::Other).map(|h| h.value).collect();
        assert_eq!(others, [b"1", b"2"]);
        assert_eq!(m.all_headers().count(), 11);
        let h = m.header(Name::MaxForwards).unwrap();
        assert_eq!(&m.bytes()[h.line.clone()], b"Max-Forwards: 70\r\n");
        assert_eq!(m.offset_of(h.value), h.line.start + 14);
        assert_eq!(m.headers_start(), 35);
    });
}

/// The fast way of reading usual names and the walk over letters must agree.
#[test]
fn usual_and_unusual_spellings_are_the_same_header() {
    let names = [
        "Via",
        "From",
        "To",
        "Call-ID",
        "CSeq",
        "Contact",
        "Content-Length",
        "Content-Type",
        "Max-Forwards",
        "Route",
        "Record-Route",
        "User-Agent",
        "Expires",
        "Content-Encoding",
        "Record-Routes",
        "Max-Forwar",
        "Tom",
        "Callid",
    ];
    for name in names {
        for spelled in [format!("{name}:"), format!("{name} :"), format!("{}:", name.to_lowercase())] {
            let text = format!("OPTIONS sip:a SIP/2.0\r\n{spelled} x\r\nVia: SIP/2.0/UDP h;branch=b\r\n\r\n");
            check(&text, |parsed| {
                let (Parsed::Good(m) | Parsed::Bad(m, _)) = parsed else {
                    assert_eq!(name, "Via", "the first Via is malformed here");
                    return;
                };
                let first = m.all_headers().next().unwrap();
                assert_eq!(first.name, Name::from_bytes(name.as_bytes()), "{spelled}");
                assert_eq!((first.raw_name.len(), first.value), (name.len(), &b"x"[..]), "{spelled}");
            });
        }
    }
}

#[test]
fn white_space_around_a_value_is_none_of_it() {
    for before in ["", " ", "   ", "\t", " \t "] {
        for after in ["", " ", "  ", "\t"] {
            let text = format!(
                "BYE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom:{before}<sip:a@b>;tag=1{after}\r\n\
                 To:{before}<sip:b@b>;tag=2{after}\r\nCall-ID:{before}x{after}\r\nCSeq:{before}1 BYE{after}\r\n\
                 Subject:{before}{after}\r\nContent-Length:{before}4{after}\r\n\r\nbody"
            );
            check(&text, |parsed| {
                let Parsed::Good(m) = parsed else { panic!("{text:?}: {parsed:?}") };
                assert_eq!(
                    (m.call_id(), m.from_tag(), m.to_tag(), m.cseq()),
                    (&b"x"[..], &b"1"[..], &b"2"[..], 1)
                );
                assert_eq!(m.header(Name::Subject).map(|h| h.value), Some(&b""[..]));
                assert_eq!(m.body(), b"body");
                let mut out = Vec::new();
                Response::new(200).write(&m, &mut out);
                let answer = String::from_utf8(out).unwrap();
                assert!(
                    answer.contains(
                        "\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:b@b>;tag=2\r\nCall-ID: x\r\nCSeq: 1 BYE\r\n"
                    ),
                    "{answer}"
                );
            });
        }
    }
}

#[test]
fn folds_become_spaces() {
    let text =
        INVITE.replace("Bob <sip", "Bob\r\n\t<sip").replace("X-Other: 1", "X-Other: 1\r\n To: <sip:evil@x>");
    check(&text, |parsed| {
        let Parsed::Good(m) = parsed else { panic!("{parsed:?}") };
        assert_eq!(m.header(Name::To).unwrap().value, b"Bob  \t<sip:bob@biloxi.com>");
        assert_eq!(m.header(Name::Other).unwrap().value, b"1   To: <sip:evil@x>");
        assert!(!m.bytes()[..m.head_len()].windows(3).any(|w| w == b"\r\n " || w == b"\r\n\t"));
        assert_eq!(m.body(), b"body");
    });
}

#[test]
fn responses_are_read() {
    let text = INVITE.replace("INVITE sip:bob@biloxi.com SIP/2.0", "SIP/2.0 180 Ringing a bell");
    check(&text, |parsed| {
        let Parsed::Good(m) = parsed else { panic!("{parsed:?}") };
        assert_eq!((m.status(), m.reason()), (180, &b"Ringing a bell"[..]));
        assert_eq!(m.method(), Method::Invite);
    });
    for (line, why) in [
        ("SIP/2.0 4294967301 better not", "no status code"),
        ("SIP/2.0 99 x", "no status code"),
        ("SIP/2.0 -1 x", "no status code"),
    ] {
        assert_eq!(flaw_of(&INVITE.replace("INVITE sip:bob@biloxi.com SIP/2.0", line)), (0, why));
    }
    check(&INVITE.replace("INVITE sip:bob@biloxi.com SIP/2.0", "SIP/2.0 200 "), |p| {
        assert!(matches!(p, Parsed::Good(m) if m.reason().is_empty()))
    });
}

#[test]
fn answers_do_not_repeat_stray_line_ends_or_nul() {
    for stray in ["\r", "\n", "\0", "\r\r", "\\\\\0", "\n\r\n "] {
        let text =
            INVITE.replace("\"Alice ;", &format!("\"A{stray}B ;")).replace("X-Other: 1", "X-Other: 1\r\n 2");
        check(&text, |p| {
            let Parsed::Bad(m, flaw) = p else { panic!("{stray:?} gave {p:?}") };
            assert_eq!(flaw.status, 400);
            let mut out = Vec::new();
            Response { tag: b"t", ..Response::new(400) }.write(&m, &mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains("From: \"A"), "{out}");
            assert!(!out.contains('\0') && !out.replace("\r\n", "").contains(['\r', '\n']), "{out:?}");
        });
    }
}

#[test]
fn a_quoted_pair_may_hold_nul() {
    check(&INVITE.replace("X-Other: 1", "X-Other: \"a\\\0b\""), |p| {
        assert!(matches!(p, Parsed::Good(m) if m.bytes().contains(&0)));
    });
}

#[test]
fn flaws_name_what_is_wrong() {
    let change = |from: &str, to: &str| flaw_of(&INVITE.replace(from, to));
    assert_eq!(change("SIP/2.0\r\nVia", "SIP/7.0\r\nVia"), (505, "Version Not Supported"));
    assert_eq!(change("INVITE sip", "INVITE  sip"), (400, "Malformed Request-Line"));
    assert_eq!(change("biloxi.com SIP", "biloxi.com; lr SIP"), (400, "Malformed Request-Line"));
    assert_eq!(change("SIP/2.0\r\nVia", "SIP/2.0 \r\nVia"), (400, "Malformed Request-Line"));
    assert_eq!(change("X-Other: 1", "X-Other"), (400, "Malformed Header Field"));
    assert_eq!(change("X-Other: 1", "X Other: 1"), (400, "Malformed Header Field"));
    assert_eq!(change("X-Other: 1", "To\x01: 1"), (400, "Malformed Header Field"));
    assert_eq!(change("X-Other: 1", ": 1"), (400, "Malformed Header Field"));
    assert_eq!(change("X-Other: 1\r\n", "X-Other: 1\n"), (400, "Lone CR or LF Or NUL In Header"));
    assert_eq!(change("X-Other: 1", "X-Other: 1\rTo: 2"), (400, "Lone CR or LF Or NUL In Header"));
    assert_eq!(change("X-Other: 1", "X-Other: \0"), (400, "Lone CR or LF Or NUL In Header"));
    assert_eq!(change("X-Other: 1", "X-Other: \"\\\\\0\""), (400, "Lone CR or LF Or NUL In Header"));
    assert_eq!(change("X-Other: 1", "t: <sip:second@x>"), (400, "Two To Header Fields"));
    assert_eq!(change("Call-ID", "X-Call-ID"), (400, "Missing Call-ID"));
    for bad in ["", "two words", "a\tb"] {
        assert_eq!(change("a84b4c76e66710@pc33.atlanta.com", bad), (400, "Malformed Call-ID"), "{bad:?}");
    }
    assert_eq!(change("CSeq: 314159", "CSeq: 2147483648"), (400, "Malformed CSeq"));
    assert_eq!(change("CSeq: 314159", "CSeq: 31x4159"), (400, "Malformed CSeq"));
    assert_eq!(change("314159 INVITE", "314159 OPTIONS"), (400, "CSeq Method Mismatch"));
    assert_eq!(change("INVITE sip", "NEWMETHOD sip"), (501, "Not Implemented"));
    for bad in ["256", "-1", "x", ""] {
        assert_eq!(
            change("Max-Forwards: 70", &format!("Max-Forwards: {bad}")),
            (400, "Malformed Max-Forwards")
        );
    }
    assert_eq!(change("Content-Length: 4", "Content-Length: 9"), (400, "Body Shorter Than Content-Length"));
    assert_eq!(change("Content-Length: 4", "Content-Length: -4"), (400, "Malformed Content-Length"));
    assert_eq!(change("X-Other: 1", "l: 4"), (400, "Two Content-Length Header Fields"));
    assert_eq!(
        change("X-Other: 1", &format!("X-Other: {}", "x".repeat(9_000))),
        (513, "Header Field Too Large")
    );
    assert_eq!(change("X-Other: 1", &"A: b\r\n".repeat(300)), (513, "Too Many Header Fields"));
    assert_eq!(
        change("X-Other: 1\r\n", &"Via: SIP/2.0/UDP x\r\n".repeat(100)),
        (513, "Too Many Via Header Fields")
    );
    assert_eq!(
        change("bob@biloxi.com SIP", &format!("{}@x SIP", "b".repeat(8_000))),
        (414, "Request-URI Too Long")
    );
    assert_eq!(change("tag=1928301774", "tag="), (400, "Malformed From"));
    assert_eq!(change("tag=1928301774", "tag"), (400, "Malformed From"));
    assert_eq!(flaw_of(&INVITE[..250]).0, 400);
}

#[test]
fn what_cannot_be_answered_is_garbage() {
    for text in [
        "",
        "\r\n\r\n",
        "\0\0\0\0",
        "GET / HTTP/1.1\r\n\r\n",
        "hello",
        "OPTIONS sip:a SIP/2.0\r\nTo: x\r\n\r\n",
    ] {
        assert_eq!(flaw_of(text).0, 0, "{text:?}");
    }
    assert_eq!(flaw_of(&INVITE.replace("SIP/2.0/UDP pc33", "SIP/2.0/UDP\tpc 33")), (0, "malformed Via"));
}

#[test]
fn responses_copy_what_they_must() {
    check(INVITE, |parsed| {
        let Parsed::Good(m) = parsed else { panic!("{parsed:?}") };
        let mut out = Vec::new();
        let source = "192.0.2.1:5062".parse().unwrap();
        Response { tag: b"tt", source: Some((source, false)), extra: b"Server: s\r\n", ..Response::new(486) }
            .write(&m, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "SIP/2.0 486 Busy Here\r\n\
             Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bK776asdhds;received=192.0.2.1, SIP/2.0/TCP second;branch=z9hG4bK2\r\n\
             Via: SIP/2.0/UDP third\r\n\
             From: \"Alice ;tag=no\" <sip:alice@atlanta.com>;tag=1928301774\r\n\
             To: Bob <sip:bob@biloxi.com>;tag=tt\r\n\
             Call-ID: a84b4c76e66710@pc33.atlanta.com\r\n\
             CSeq: 314159 INVITE\r\n\
             Server: s\r\n\
             Content-Length: 0\r\n\r\n"
        );
        let mut out = Vec::new();
        Response { tag: b"tt", ..Response::new(100) }.write(&m, &mut out);
        assert!(!String::from_utf8(out).unwrap().contains("tag=tt"));
    });
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut index = Index::new();
        let _ = parse(&bytes, &mut index, &Limits::default());
    }

    /// Damage a valid message anywhere: never a panic, and what is answered stays inside the bytes.
    #[test]
    fn damaged_messages_are_safe(at in 0usize..480, with in proptest::collection::vec(any::<u8>(), 0..4), cut in 0usize..3) {
        let mut bytes = INVITE.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with);
        let mut index = Index::new();
        if let Parsed::Good(m) | Parsed::Bad(m, _) = parse(&bytes, &mut index, &Limits::default()) {
            let mut out = Vec::new();
            Response { tag: b"t", source: Some(("1.2.3.4:5".parse().unwrap(), true)), ..Response::new(400) }.write(&m, &mut out);
            prop_assert!(out.starts_with(b"SIP/2.0 400"));
            let head = &out[..out.len() - 4];
            for name in [Name::Via, Name::From, Name::To, Name::CallId] {
                for v in m.values(name) {
                    prop_assert!(m.range_of(v).end <= m.bytes().len());
                }
            }
            prop_assert!(memchr::memmem::find(head, b"\r\n\r\n").is_none());
            if matches!(parse(&bytes, &mut Index::new(), &Limits::default()), Parsed::Good(_)) {
                prop_assert_eq!(find_call_id(m.bytes()), m.header(Name::CallId).map(|h| h.value));
            }
        }
    }

    #[test]
    fn uris_never_panic_and_equal_themselves(s in "[a-z:@;=?&%<>\\[\\]0-9. ]{0,60}") {
        if let Ok(uri) = Uri::parse(s.as_bytes()) {
            prop_assert!(uri.equivalent(&uri));
        }
        let _ = NameAddr::parse(s.as_bytes());
        let _ = AuthParams::parse(s.as_bytes());
        let _ = Via::parse(s.as_bytes());
    }
}
