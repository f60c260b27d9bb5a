//! Who may do what: registration (RFC 3261 section 10), digest (22), RFC 3325, and who is told what.

use super::*;

/// A REGISTER of alice's for a contact.
fn register(user: &str, contact: &str) -> Req {
    let mut req = Req::new("REGISTER", "sip:here.example").sent_by("UDP", ALICE);
    req.from = format!("<sip:{user}@here.example>;tag=r");
    req.to = format!("<sip:{user}@here.example>");
    req.lines = vec![format!("Contact: {contact}")];
    req
}

#[test]
fn a_registration_is_challenged_and_then_serves_calls() {
    let mut lab = Lab::new();
    let req = register("alice", "<sip:alice@192.0.2.30:5060>");
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(challenge.status(), 401);
    assert!(challenge.get("WWW-Authenticate").unwrap().contains("realm=\"here.example\""));
    assert_eq!(lab.report().transactions.server, 0);
    let again = req.answer("alice", &challenge);
    let ok = lab.ask(ALICE, again.text());
    assert_eq!(ok.status(), 200, "{}", ok.text);
    assert!(ok.get("Contact").unwrap().starts_with("<sip:alice@192.0.2.30:5060>;expires=3600"));
    // 10.3 step 8.
    assert_eq!(ok.get("Date"), Some("Sat, 13 Nov 2010 23:29:00 GMT"));
    // A retransmission gets the same answer, and is no second registration with an old CSeq.
    assert_eq!(lab.ask(ALICE, again.text()).text, ok.text);
    let sent = lab.invite(CAROL, Req::new("INVITE", "sip:alice@here.example").text());
    assert_eq!(sent[0].to(), ALICE);
}

#[test]
fn a_server_without_a_wall_clock_tells_no_date() {
    let mut lab = Lab::open();
    lab.world.wall_clock.set(None);
    let ok = lab.ask(ALICE, register("alice", "<sip:alice@192.0.2.30:5060>").text());
    assert_eq!((ok.status(), ok.get("Date")), (200, None));
}

#[test]
fn a_wrong_password_gets_another_challenge_and_a_replay_a_stale_one() {
    let mut lab = Lab::new();
    let req = register("alice", "<sip:alice@192.0.2.30>");
    let challenge = lab.ask(ALICE, req.text());
    let wrong = lab.ask(ALICE, req.answer_with("alice", "guess", &challenge).text());
    assert_eq!(wrong.status(), 401);
    assert!(!wrong.text.contains("stale=true"));
    assert_eq!(lab.count(Counter::WrongCredentials), 1);
    // The same answer for who does not exist.
    let nobody = register("nobody", "<sip:nobody@192.0.2.30>");
    let first = lab.ask("192.0.2.33:5060", nobody.text());
    let second = lab.ask("192.0.2.33:5060", nobody.answer_with("nobody", "guess", &first).text());
    assert_eq!((first.status(), second.status()), (401, 401));
    let right = req.answer("alice", &challenge);
    assert_eq!(lab.ask(ALICE, right.text()).status(), 200);
    let replay = Req { cseq: 9, ..right.clone() }.sent_by("UDP", ALICE);
    let stale = lab.ask(ALICE, replay.text());
    assert_eq!(stale.status(), 401);
    assert!(stale.get("WWW-Authenticate").unwrap().contains("stale=true"));
}

/// Guesses at alice's password from a user behind a proxy at PROXY, until an answer is not a challenge.
fn guess_until_held_off(lab: &mut Lab, received: &str) -> Sent {
    for n in 0..20 {
        let below = format!("Via: SIP/2.0/UDP 10.0.0.9:5060;received={received};branch=z9hG4bKb{n}");
        let behind = |mut req: Req| {
            req.lines.insert(0, below.clone());
            req
        };
        let req = behind(register("alice", "<sip:alice@192.0.2.30>")).sent_by("UDP", PROXY);
        let challenge = lab.ask(PROXY, req.text());
        assert_eq!(challenge.status(), 401, "{}", challenge.text);
        let answer = lab.ask(PROXY, req.answer_with("alice", "guess", &challenge).text());
        if answer.status() != 401 {
            return answer;
        }
    }
    panic!("all of 20 guesses were judged");
}

const PROXY: &str = "192.0.2.77:5060";

/// Phones show 403 and stop. 503 would have a proxy send us nothing at all for so long, of anybody (section
/// 21.5.4): whoever guesses would decide about the others.
#[test]
fn guesser_alone_gets_403_with_retry_after() {
    let mut lab = Lab::with(|s| s.auth.fronts = vec![(PROXY.parse::<SocketAddr>().unwrap().ip(), 32)]);
    let held = guess_until_held_off(&mut lab, "203.0.113.66");
    assert_eq!(held.status(), 403, "{}", held.text);
    let told_of = |lab: &Lab| lab.world.refused_from.get().unwrap().to_string();
    assert_eq!(told_of(&lab), "203.0.113.66");
    assert!(held.get("Retry-After").is_some(), "{}", held.text);
    // Who sends by the same proxy from elsewhere may.
    let mut own = register("alice", "<sip:alice@192.0.2.30>");
    own.lines.insert(0, "Via: SIP/2.0/UDP 192.0.2.30:5060;branch=z9hG4bKown".to_owned());
    let own = own.sent_by("UDP", PROXY);
    let challenge = lab.ask(PROXY, own.text());
    let answer = lab.ask(PROXY, own.answer("alice", &challenge).text());
    assert_eq!(answer.status(), 200, "{}", answer.text);
    // Whom nobody vouches for writes what he likes into a second Via: he is where he sends from.
    let mut lab = Lab::new();
    guess_until_held_off(&mut lab, "203.0.113.66");
    assert_eq!(told_of(&lab), "192.0.2.77");
    let challenge = lab.ask(PROXY, own.text());
    assert_eq!(lab.ask(PROXY, own.answer("alice", &challenge).text()).status(), 403);
}

#[test]
fn fronts_one_behind_the_other_are_looked_beyond() {
    let auth = |fronts: &[&str]| {
        let mut auth = settings().auth;
        auth.fronts = fronts.iter().map(|ip| (ip.parse().unwrap(), 32)).collect();
        auth
    };
    let source = |auth: &Auth, from: &str, vias: &[&str]| {
        let mut text = Req::new("OPTIONS", "sip:here.example").text();
        let lines: String = vias.iter().map(|via| format!("Via: {via}\r\n")).collect();
        text = text.replacen("Via:", &format!("{lines}Via:"), 1);
        let mut index = Index::default();
        let parsed = parse(text.as_bytes(), &mut index, &MessageLimits::default());
        let Parsed::Good(request) = parsed else { panic!("{text}") };
        auth.source(from.parse().unwrap(), &request).to_string()
    };
    let two =
        ["SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1", "SIP/2.0/UDP a.example;received=192.0.2.2;branch=z9hG4bK2"];
    let three = [two[0], two[1], "SIP/2.0/TCP [2001:db8::5]:5060;branch=z9hG4bK3"];
    let both = auth(&["192.0.2.1", "192.0.2.2"]);
    assert_eq!(source(&both, "192.0.2.1", &three), "2001:db8::5");
    assert_eq!(source(&auth(&["192.0.2.1"]), "192.0.2.1", &three), "192.0.2.2");
    assert_eq!(source(&auth(&["192.0.2.1"]), "::ffff:192.0.2.1", &three), "192.0.2.2");
    assert_eq!(source(&auth(&[]), "192.0.2.1", &three), "192.0.2.1");
    assert_eq!(source(&both, "192.0.2.9", &three), "192.0.2.9");
    // One of two is what the client has written itself.
    let forged = [two[0], "SIP/2.0/UDP 10.0.0.9;received=198.51.100.1;branch=z9hG4bK2;received=203.0.113.9"];
    assert_eq!(source(&both, "192.0.2.1", &forged), "192.0.2.1");
    let nothing = [two[0], "SIP/2.0/UDP 198.51.100.1;received;branch=z9hG4bK2"];
    assert_eq!(source(&both, "192.0.2.1", &nothing), "192.0.2.1");
    // A name says nothing.
    let name = [two[0], "SIP/2.0/UDP a.example;branch=z9hG4bK2"];
    assert_eq!(source(&both, "192.0.2.1", &name), "192.0.2.1");
}

#[test]
fn whoever_reads_the_log_learns_why_somebody_was_refused() {
    let mut lab = Lab::new();
    let req = register("alice", "<sip:alice@192.0.2.30>");
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(*lab.world.refused.borrow(), [], "a first challenge is no refusal");
    lab.ask(ALICE, req.answer_with("alice", "guess", &challenge).text());
    let right = req.answer("alice", &challenge);
    assert_eq!(lab.ask(ALICE, right.text()).status(), 200);
    lab.ask(ALICE, Req { cseq: 9, ..right }.sent_by("UDP", ALICE).text());
    let other = register("bob", "<sip:alice@192.0.2.30>");
    let challenge = lab.ask(ALICE, other.text());
    assert_eq!(lab.ask(ALICE, other.answer("alice", &challenge).text()).status(), 403);
    let mut far = register("alice", "<sip:alice@192.0.2.30>");
    far.to = "<sip:alice@far.example>".to_owned();
    assert_eq!(lab.ask(ALICE, far.text()).status(), 404);
    assert_eq!(lab.ask(CAROL, Req::new("OPTIONS", "sip:dave@far.example").text()).status(), 403);
    let around = Req::new("OPTIONS", "sip:bob@here.example").line("Route: <sip:203.0.113.9;lr>");
    assert_eq!(lab.ask(CAROL, around.text()).status(), 403);
    let alice = "alice@here.example";
    let expected = [
        (Refusal::WrongCredentials, alice),
        (Refusal::Stale, alice),
        (Refusal::OtherUser, "bob@here.example"),
        (Refusal::NotOurs, "sip:alice@far.example"),
        (Refusal::Elsewhere, "sip:dave@far.example"),
        (Refusal::Target, "sip:bob@here.example"),
    ];
    assert_eq!(*lab.world.refused.borrow(), expected.map(|(why, about)| (why, about.to_owned())));
}

#[test]
fn nobody_registers_for_somebody_else() {
    for bind_from in [true, false] {
        let mut lab = Lab::with(|s| s.auth.bind_from = bind_from);
        let req = register("bob", "<sip:alice@192.0.2.30>");
        let challenge = lab.ask(ALICE, req.text());
        let answer = lab.ask(ALICE, req.answer("alice", &challenge).text());
        assert_eq!(answer.status(), 403, "bind_from {bind_from}");
        assert_eq!(lab.world.table.borrow().len(), 0);
    }
}

#[test]
fn refused_registrations_are_counted_by_reason() {
    let mut lab = Lab::new();
    let counted = |lab: &Lab, why| lab.count(why);
    let req = register("alice", "<sip:alice@192.0.2.30>");
    for n in 0..12 {
        let challenge = lab.ask(ALICE, req.clone().sent_by("UDP", ALICE).text());
        assert_eq!(challenge.status(), 401);
        let answer = lab.ask(ALICE, req.answer_with("alice", &format!("guess{n}"), &challenge).text());
        assert!([401, 403].contains(&answer.status()));
    }
    assert_eq!(counted(&lab, Counter::RegisterCredentials), 6);
    assert_eq!(counted(&lab, Counter::RegisterHeldOff), 6);
    let bob = register("bob", "<sip:bob@192.0.2.40>").sent_by("UDP", "192.0.2.40:5060");
    let challenge = lab.ask("192.0.2.40:5060", bob.text());
    assert_eq!(lab.ask("192.0.2.40:5060", bob.answer("alice", &challenge).text()).status(), 403);
    assert_eq!(counted(&lab, Counter::RegisterForbidden), 1);
    let brief = bob.clone().line("Expires: 1").sent_by("UDP", "192.0.2.40:5060");
    let challenge = lab.ask("192.0.2.40:5060", brief.text());
    assert_eq!(lab.ask("192.0.2.40:5060", brief.answer("bob", &challenge).text()).status(), 423);
    assert_eq!(counted(&lab, Counter::RegisterContacts), 1);
    assert_eq!(lab.count(Counter::Registered), 0);
}

#[test]
fn registrations_that_are_not_ours() {
    let mut lab = Lab::new();
    // Another domain in To: not found (10.3 step 5), and nothing to hijack.
    let mut req = register("alice", "<sip:alice@192.0.2.30>");
    req.to = "<sip:alice@far.example>".to_owned();
    assert_eq!(lab.ask(ALICE, req.text()).status(), 404);
    // Another domain in the Request-URI: not for a stranger to be passed on.
    let mut req = register("alice", "<sip:alice@192.0.2.30>");
    (req.uri, req.to) = ("sip:far.example".to_owned(), "<sip:carol@far.example>".to_owned());
    assert_eq!(lab.ask(ALICE, req.text()).status(), 403);
    // No user in To.
    let mut req = register("alice", "<sip:alice@192.0.2.30>");
    req.to = "<sip:here.example>".to_owned();
    let answer = lab.ask(ALICE, req.text());
    assert!(matches!(answer.status(), 401 | 404), "{}", answer.text);
    assert_eq!(lab.world.table.borrow().len(), 0);
    lab.rest();
}

#[test]
fn a_registration_with_a_user_in_the_request_uri_is_no_call_to_him() {
    // Against 10.2, and yet there are clients that do it.
    let mut lab = Lab::open();
    lab.phones(&[BOB]);
    let req = Req { uri: "sip:bob@here.example".to_owned(), ..register("bob", "<sip:bob@192.0.2.30>") };
    let answer = lab.ask(ALICE, req.text());
    assert_eq!((answer.status(), answer.all("Contact").len()), (200, 2));
}

#[test]
fn extensions_that_a_registration_requires() {
    let mut lab = Lab::open();
    let req = register("alice", "<sip:alice@192.0.2.30>");
    assert_eq!(lab.ask(ALICE, req.clone().line("Require: path").text()).status(), 200);
    let answer = lab.ask(ALICE, req.sent_by("UDP", ALICE).line("Require: path, foo").text());
    assert_eq!((answer.status(), answer.get("Unsupported")), (420, Some("foo")));
}

#[test]
fn a_store_that_fails_takes_no_registrations_but_still_tells_of_them() {
    let mut lab = Lab::open();
    lab.world.store_down.set(true);
    let answer = lab.ask(ALICE, register("alice", "<sip:alice@192.0.2.30>").text());
    assert_eq!((answer.status(), answer.get("Retry-After")), (503, Some("7")));
    let fetch = Req { lines: Vec::new(), ..register("alice", "") };
    assert_eq!(lab.ask(ALICE, fetch.text()).status(), 200);
}

#[test]
fn registrations_of_a_round_are_answered_after_one_write() {
    let mut lab = Lab::open();
    for (user, from) in [("alice", ALICE), ("bob", BOB), ("carol", BOB2)] {
        let text = register(user, &format!("<sip:{user}@{from}>")).sent_by("UDP", from).text();
        lab.hand_over(udp(from), &text);
        // A repetition within the round is no registration of its own.
        lab.hand_over(udp(from), &text);
    }
    lab.silent();
    // A fetch promises nothing.
    let fetch = Req { lines: Vec::new(), ..register("bob", "") };
    lab.hand_over(udp(BOB3), fetch.text());
    assert_eq!((lab.one().status(), lab.world.kept.get()), (200, 0));
    lab.node.round_ends(lab.now, &mut lab.out);
    let answers = lab.sent();
    let to: Vec<_> = answers.iter().map(|a| (a.status(), a.to(), a.all("Contact").len())).collect();
    assert_eq!(to, [(200, ALICE.into(), 1), (200, BOB.into(), 1), (200, BOB2.into(), 1)]);
    assert_eq!(lab.world.kept.get(), 1);
    lab.node.round_ends(lab.now, &mut lab.out);
    lab.silent();
    assert_eq!(lab.world.kept.get(), 1, "a round without a registration writes nothing");
}

#[test]
fn a_registration_that_cannot_be_written_gets_503_again_and_again() {
    let mut lab = Lab::open();
    lab.world.keeping_fails.set(true);
    let text = register("alice", "<sip:alice@192.0.2.30>").text();
    let answer = lab.ask(ALICE, &text);
    assert_eq!((answer.status(), answer.get("Retry-After")), (503, Some("7")));
    assert_eq!((answer.all("Contact").len(), answer.get("Content-Length")), (0, Some("0")));
    assert!(answer.text.starts_with("SIP/2.0 503 Service Unavailable\r\nVia: "), "{}", answer.text);
    assert!(answer.text.ends_with("\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"), "{}", answer.text);
    assert!(lab.world.counted.borrow().contains(&Counter::RegisterStore));
    assert!(!lab.world.counted.borrow().contains(&Counter::Registered));
    // What repeats the request gets the answer that it had, whatever has become of the disk.
    lab.world.keeping_fails.set(false);
    assert_eq!(lab.ask(ALICE, &text).text, answer.text);
}

#[test]
fn a_registration_without_room_for_a_transaction_waits_too() {
    let mut lab = Lab::limited(Limits { server: 0, client: 10, bytes: 1 << 20 }, |s| s.auth.enabled = false);
    lab.world.keeping_fails.set(true);
    lab.hand_over(udp(ALICE), register("alice", "<sip:alice@192.0.2.30>").text());
    lab.silent();
    lab.node.round_ends(lab.now, &mut lab.out);
    assert_eq!(lab.one().status(), 503);
}

#[test]
fn a_phone_on_the_host_of_a_trunk_may_register() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    let req = register("alice", "<sip:alice@203.0.113.5:6000>").sent_by("UDP", "203.0.113.5:6000");
    let challenge = lab.ask("203.0.113.5:6000", req.text());
    assert_eq!(challenge.status(), 401);
    assert_eq!(lab.ask("203.0.113.5:6000", req.answer("alice", &challenge).text()).status(), 200);
}

#[test]
fn a_contact_elsewhere_is_believed_where_it_may_be() {
    let mut lab = Lab::open();
    // A registration on behalf of another device, by a client that asks for no answer elsewhere (no rport).
    assert_eq!(lab.ask(ALICE, register("bob", "<sip:bob@192.0.2.99:5070>").text()).status(), 200);
    assert_eq!(lab.invite(CAROL, Req::invite().text())[0].to(), "192.0.2.99:5070");
    // Not into our own network: then to where it came from.
    for contact in ["<sip:dave@127.0.0.1:8080>", "<sip:dave@169.254.169.254>"] {
        let mut lab = Lab::open();
        assert_eq!(lab.ask(ALICE, register("dave", contact).text()).status(), 200);
        let sent = lab.invite(CAROL, Req::new("INVITE", "sip:dave@here.example").text());
        assert_eq!(sent[0].to(), ALICE, "{contact}");
    }
}

/// A balancer's connection to us is no way to the phones behind it.
#[test]
fn who_registers_by_a_front_over_a_stream_is_called_where_the_contact_says() {
    let front = PROXY.parse::<SocketAddr>().unwrap().ip();
    let by_front = || vec![(front, 32)];
    let (tcp_contact, contact) = ("<sip:bob@192.0.2.99:5070;transport=tcp>", "<sip:bob@192.0.2.99:5070>");
    let inside = "<sip:bob@169.254.169.254;transport=tcp>";
    let path = "Path: <sip:192.0.2.77;lr>";
    let phone = "192.0.2.99:5070";
    for (fronts, contact, via, path, expected) in [
        (by_front(), tcp_contact, "TCP", "", (Transport::Tcp, phone, false)),
        (by_front(), tcp_contact, "UDP", "", (Transport::Tcp, phone, false)),
        // A Contact without a transport: the one that the phone itself used.
        (by_front(), contact, "TCP", "", (Transport::Tcp, phone, false)),
        (by_front(), contact, "UDP", "", (Transport::Udp, phone, false)),
        // An address that nobody may register, or a Path: on the connection.
        (by_front(), inside, "TCP", "", (Transport::Tcp, PROXY, true)),
        (by_front(), contact, "TCP", path, (Transport::Tcp, PROXY, true)),
        // A phone on its own connection.
        (vec![], tcp_contact, "TCP", "", (Transport::Tcp, PROXY, true)),
    ] {
        let mut lab = Lab::open();
        lab.reconfigure(|s| s.auth.fronts = fronts);
        // The front may call itself otherwise than we see it.
        let mut req = register("bob", contact).sent_by("TCP", "edge.example");
        req.lines.insert(0, format!("Via: SIP/2.0/{via} 192.0.2.99:5070;branch=z9hG4bKphone"));
        if !path.is_empty() {
            req.lines.extend([path.to_owned(), "Supported: path".to_owned()]);
        }
        lab.send_on(tcp(PROXY, 7), req.text());
        assert_eq!(lab.one().status(), 200, "{contact}");
        let sent = lab.invite(CAROL, Req::invite().text());
        let (flow, to) = (sent[0].flow, sent[0].to());
        assert_eq!((flow.transport, to.as_str(), flow.conn.is_some()), expected, "{contact} {via} {path}");
    }
}

/// RFC 3327 section 5.3: only a trusted proxy may add a Path that the phone does not support.
#[test]
fn path_without_support_is_accepted_from_a_front_only() {
    let front = PROXY.parse::<SocketAddr>().unwrap().ip();
    for (fronts, status) in [(vec![(front, 32)], 200), (vec![], 420)] {
        let mut lab = Lab::open();
        lab.reconfigure(|s| s.auth.fronts = fronts);
        let mut req =
            register("bob", "<sip:bob@10.0.0.9:55555;transport=tls>").sent_by("TCP", "edge.example");
        req.lines.insert(0, "Via: SIP/2.0/TLS 10.0.0.9;branch=z9hG4bKphone;received=192.0.2.99".into());
        req.lines.push("Path: <sip:192.0.2.77;lr>".into());
        lab.send_on(tcp(PROXY, 7), req.text());
        assert_eq!(lab.one().status(), status);
    }
}

#[test]
fn every_request_of_a_user_is_challenged_but_ack_and_cancel() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    for method in
        ["INVITE", "MESSAGE", "SUBSCRIBE", "NOTIFY", "PUBLISH", "REFER", "BYE", "INFO", "OPTIONS", "FOO"]
    {
        let answer = lab.ask(ALICE, Req::new(method, "sip:bob@here.example").alice().text());
        assert_eq!(answer.status(), 407, "{method}");
        assert!(answer.get("Proxy-Authenticate").is_some());
    }
    // Whoever sends it: a user's name in From is nobody else's to use.
    let spoofed = Req { from: "<sip:alice@here.example>;tag=x".to_owned(), ..Req::invite() };
    assert_eq!(lab.ask(CAROL, spoofed.text()).status(), 407);
    let through_address = Req { from: "<sip:alice@198.51.100.1>;tag=x".to_owned(), ..Req::invite() };
    assert_eq!(lab.ask(CAROL, through_address.text()).status(), 407);
    // 22.1: these cannot be sent again with credentials.
    let cancel = Req::invite().alice().cancel();
    assert_eq!(lab.ask(ALICE, cancel.text()).status(), 481, "of nothing");
    let call = || {
        let mut lab = Lab::new();
        lab.phones(&[BOB]);
        let req = Req::invite().alice();
        let challenge = lab.ask(ALICE, req.text());
        let req = req.answer("alice", &challenge);
        let sent = lab.invite(ALICE, req.text());
        lab.send(BOB, sent[0].reply(180, "b", ""));
        lab.sent();
        (lab, req, sent)
    };
    let (mut lab, req, _) = call();
    lab.send(ALICE, req.cancel().text());
    let after = lab.sent();
    let cancelled = (statuses(&after), requests(&after));
    assert_eq!(cancelled, (vec![200], vec![("CANCEL".to_owned(), BOB.to_owned())]));
    let (mut lab, req, sent) = call();
    let ok = lab.ask(BOB, sent[0].accept("b"));
    assert_eq!(lab.ask(ALICE, req.within("ACK", &ok).text()).to(), BOB);
}

#[test]
fn from_is_bound_to_the_credentials() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite().alice();
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(lab.ask(ALICE, req.answer("dave", &challenge).text()).status(), 403);
    let challenge = lab.ask(ALICE, Req::invite().alice().text());
    let sent = lab.invite(ALICE, req.answer("alice", &challenge).text());
    assert_eq!(sent[0].to(), BOB);
    assert!(sent[0].get("Proxy-Authorization").is_none());
    // If the operator wants it otherwise.
    let mut lab = Lab::with(|s| s.auth.bind_from = false);
    lab.phones(&[BOB]);
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(lab.invite(ALICE, req.answer("dave", &challenge).text())[0].to(), BOB);
}

#[test]
fn credentials_for_others_go_on() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite().alice();
    let challenge = lab.ask(ALICE, req.text());
    let theirs = "Proxy-Authorization: Digest realm=\"them\", username=\"a\", nonce=\"n\", uri=\"sip:x\", response=\"00\"";
    let sent = lab.invite(ALICE, req.answer("alice", &challenge).line(theirs).text());
    assert_eq!(sent[0].all("Proxy-Authorization"), [theirs.split_once(": ").unwrap().1]);
}

#[test]
fn methods_that_are_not_challenged_prove_nothing() {
    let mut lab = Lab::with(|s| s.auth.challenge = Challenge::Only(vec![b"REGISTER".to_vec()]));
    lab.phones(&[BOB]);
    // Into the domain it works.
    assert_eq!(lab.invite(ALICE, Req::invite().alice().text())[0].to(), BOB);
    // Out of it only from where one of our phones is registered.
    let out = Req::new("INVITE", "sip:x@203.0.113.9");
    assert_eq!(lab.ask(ALICE, out.clone().alice().text()).status(), 403);
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    assert_eq!(lab.invite(ALICE, out.alice().text())[0].to(), "203.0.113.9:5060");
}

#[test]
fn a_guesser_is_slowed_down() {
    let mut lab = Lab::new();
    let req = register("alice", "<sip:alice@192.0.2.30>");
    let mut seen = Vec::new();
    for n in 0..40 {
        let challenge = lab.ask(ALICE, req.clone().sent_by("UDP", ALICE).text());
        if challenge.status() != 401 {
            break;
        }
        let answer = lab.ask(ALICE, req.answer_with("alice", &format!("guess{n}"), &challenge).text());
        seen.push(answer.status());
        if answer.status() == 403 {
            assert_eq!(answer.get("Retry-After"), Some("1"));
            break;
        }
    }
    assert_eq!(seen, [401, 401, 401, 401, 401, 403]);
}

/// A call of alice's is refused the same way, and another account at her address is not.
#[test]
fn right_password_passes_at_an_address_that_guesses() {
    let mut lab = Lab::new();
    for n in 0..60 {
        let name = format!("guest{n}");
        let req = register(&name, "<sip:x@192.0.2.30>");
        let challenge = lab.ask(ALICE, req.text());
        let answer = lab.ask(ALICE, req.answer_with(&name, "guess", &challenge).text());
        assert_eq!(answer.status(), if n < 50 { 401 } else { 403 }, "{n}");
    }
    let call = Req::new("INVITE", "sip:bob@here.example").alice();
    let challenge = lab.ask(ALICE, call.text());
    let answer = lab.ask(ALICE, call.answer_with("alice", "guess", &challenge).text());
    assert_eq!((answer.status(), answer.get("Retry-After")), (403, Some("11")));
    let req = register("dave", "<sip:dave@192.0.2.30>");
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(lab.ask(ALICE, req.answer("dave", &challenge).text()).status(), 200);
    assert_eq!(lab.count(Counter::WrongCredentials), 61);
}

#[test]
fn unreadable_credentials() {
    let mut lab = Lab::new();
    let req = register("alice", "<sip:alice@192.0.2.30>");
    for (line, status) in [
        ("Authorization: Basic abc", 401),
        ("Authorization: Digest", 400),
        ("Authorization: Digest realm=\"other\", nonce=\"x\", username=\"a\"", 401),
        (
            "Authorization: Digest realm=\"here.example\", nonce=\"x\", username=\"a\", uri=\"sip:x\", response=\"0\"",
            401,
        ),
    ] {
        let answer = lab.ask(ALICE, req.clone().sent_by("UDP", ALICE).line(line).text());
        assert!(answer.status() == status || answer.status() == 401, "{line}: {}", answer.text);
    }
}

#[test]
fn an_open_server_asks_nobody() {
    let mut lab = Lab::open();
    assert_eq!(lab.ask(ALICE, register("zoe", "<sip:zoe@192.0.2.30>").text()).status(), 200);
    let sent = lab.invite(BOB, Req::new("INVITE", "sip:zoe@here.example").text());
    assert_eq!(sent[0].to(), ALICE);
    // Its own users may call out, strangers may not.
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:x@203.0.113.9").text()).status(), 403);
    assert_eq!(lab.invite(ALICE, Req::new("INVITE", "sip:x@203.0.113.9").alice().text()).len(), 1);
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:nobody@here.example").text()).status(), 404);
}

#[test]
fn strangers_learn_nothing_about_who_exists() {
    let mut lab = Lab::new();
    // Bob exists and is offline, nobody is nobody: the same answers, statelessly.
    for method in ["INVITE", "OPTIONS", "MESSAGE"] {
        let answers: Vec<Sent> = ["bob", "nobody"]
            .iter()
            .map(|user| lab.ask(CAROL, Req::new(method, &format!("sip:{user}@here.example")).text()))
            .collect();
        assert_eq!((answers[0].status(), answers[1].status()), (480, 480), "{method}");
        assert_eq!((answers[0].token, answers[1].token), (0, 0), "{method}");
    }
    assert_eq!(lab.report().transactions.server, 0);
    // A user of ours is told.
    let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:nobody@here.example").alice());
    assert_eq!(statuses(&sent), [404]);
    let sent = lab.as_user(ALICE, "alice", &Req::invite().alice());
    assert_eq!(statuses(&sent), [480]);
}

/// A user of another domain of ours, with the name of one of here.example.
fn two_domains(realm: &str) -> Lab {
    let lab = Lab::with(|s| {
        s.domains = vec![b"here.example".to_vec(), b"other.example".to_vec()];
        s.auth.realm = Some(realm.as_bytes().to_vec());
    });
    lab.world.users.borrow_mut().push(("alice", "other.example", "another secret"));
    lab
}

#[test]
fn one_realm_for_all_makes_no_one_account_of_two_with_one_name() {
    let there = || {
        let mut req = register("alice", "<sip:alice@192.0.2.30>");
        req.from = "<sip:alice@other.example>;tag=r".to_owned();
        req.to = "<sip:alice@other.example>".to_owned();
        req.uri = "sip:other.example".to_owned();
        req
    };
    for realm in ["here.example", "pbx"] {
        let mut lab = two_domains(realm);
        let challenge = lab.ask(ALICE, there().text());
        let theft = there().answer_with("alice", "secret-a", &challenge);
        assert_eq!(lab.ask(ALICE, theft.text()).status(), 401, "{realm}");
        // Each of them gets in with the name alone.
        let owner = there().answer_with("alice", "another secret", &challenge);
        assert_eq!(lab.ask(ALICE, owner.text()).status(), 200, "{realm}");
        let here = register("alice", "<sip:alice@192.0.2.30>");
        let challenge = lab.ask(ALICE, here.text());
        assert_eq!(lab.ask(ALICE, here.answer("alice", &challenge).text()).status(), 200, "{realm}");
    }
}

#[test]
fn a_user_at_an_address_of_ours_is_one_of_the_realm() {
    // Without configured domains the address stands for none of them.
    let mut lab = Lab::with(|s| {
        s.domains = Vec::new();
        s.auth.realm = Some(b"here.example".to_vec());
    });
    let mut req = register("alice", "<sip:alice@192.0.2.30>");
    req.from = "<sip:alice@198.51.100.1>;tag=r".to_owned();
    req.to = "<sip:alice@198.51.100.1>".to_owned();
    req.uri = "sip:198.51.100.1".to_owned();
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(lab.ask(ALICE, req.answer("alice", &challenge).text()).status(), 200);
}

#[test]
fn a_dot_at_the_end_of_a_domain_makes_no_other_domain() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    // Not a stranger's right to a name of ours, nor a way past our users.
    let mut req = Req::invite();
    req.from = "<sip:alice@Here.example.>;tag=q".to_owned();
    assert_eq!(lab.ask(CAROL, req.text()).status(), 407);
    assert_eq!(lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example.").text()).to(), BOB);
    let mut req = register("alice", "<sip:alice@192.0.2.30>");
    req.to = "<sip:alice@here.example.>".to_owned();
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(lab.ask(ALICE, req.answer("alice", &challenge).text()).status(), 200);
    assert_eq!(lab.ask(CAROL, Req::new("MESSAGE", "sip:alice@here.example").text()).to(), "192.0.2.30:5060");
}

/// However an address-of-record is read, it is the same one, of the same domain.
#[test]
fn a_name_is_the_same_however_it_is_read() {
    let lab = Lab::with(|s| {
        s.domains = ["here.example", "example", "there.here.example", "192.0.2.1", "[2001:db8::5]"]
            .map(|domain| domain.as_bytes().to_vec())
            .to_vec();
    });
    let users =
        ["", "a@", "A.b-c_d@", "a:pw@", "a%41@", "%61@", "a;x=y@", "a/b@", "here.example@", "@", "a@b@"];
    let hosts =
        ["here.example", "Here.Example", "here.example.", "xhere.example", "example", "there.here.example"];
    let numeric = ["192.0.2.1", "198.51.100.1", "[2001:db8::5]", "[2001:DB8::5]", "far.example", ""];
    let mut ours = 0;
    for host in hosts.into_iter().chain(numeric) {
        for user in users {
            for scheme in ["sip:", "SIP:", "sips:", "tel:", ""] {
                for rest in ["", ":5060", ";lr", "?x=y", ">"] {
                    let text = format!("{scheme}{user}{host}{rest}").into_bytes();
                    let parts = |aor: &site::Aor<'_>| {
                        (aor.text().to_vec(), aor.user().to_vec(), aor.domain().to_vec())
                    };
                    // Without the text it is put together from the parts.
                    let uri = sip_message::Uri::parse(&text).ok();
                    let written =
                        uri.and_then(|uri| lab.node.site().local_aor(&uri, b"")).map(|aor| parts(&aor));
                    let read = lab.node.site().aor_of(&text).map(|aor| parts(&aor));
                    assert_eq!(read, written, "{}", String::from_utf8_lossy(&text));
                    ours += usize::from(read.is_some());
                }
            }
        }
    }
    assert!(ours > 100);
}
