//! Who may do what: rows 24, 25 and 28 to 35.

use super::*;

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
