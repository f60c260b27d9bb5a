//! What a forwarded request looks like and what is not forwarded: RFC 3261 16.3 to 16.6, RFC 5393.

use super::*;

/// A lab with one phone of bob's, and what it gets when carol sends this.
fn forwarded(req: &Req) -> Sent {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    lab.send(CAROL, req.text());
    let sent = lab.sent();
    sent.into_iter().find(|s| s.status() == 0).expect("a forwarded request")
}

#[test]
fn a_forwarded_request_is_the_received_one_but_for_what_a_proxy_writes() {
    let mut req = Req::invite().line("X-Odd:  spaced   value").line("Subject: hi");
    req.body = "v=0\r\nbody".to_owned();
    let sent = forwarded(&req);
    assert_eq!(sent.to(), BOB);
    // 16.6 step 2: the Contact is the new Request-URI.
    assert_eq!(sent.start(), format!("INVITE sip:bob@{BOB} SIP/2.0"));
    assert_eq!(sent.all("Max-Forwards"), ["69"]);
    let vias = sent.all("Via");
    assert!(vias[0].starts_with("SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKs"), "{}", vias[0]);
    assert_eq!(vias[1], req.via);
    let record = sent.get("Record-Route").unwrap();
    assert!(record.starts_with("<sip:198.51.100.1:5060;lr;d="), "{record}");
    for same in ["From", "To", "Call-ID", "CSeq", "Contact", "X-Odd", "Subject"] {
        let received = Sent { text: req.text(), ..sent.clone() };
        assert_eq!(sent.all(same), received.all(same));
    }
    assert!(sent.text.ends_with("\r\n\r\nv=0\r\nbody"));
}

#[test]
fn max_forwards() {
    let with = |value: &str| Req { max_forwards: value.to_owned(), ..Req::invite() };
    // 16.6 step 3: added, and then not decremented.
    assert_eq!(forwarded(&with("")).all("Max-Forwards"), ["70"]);
    assert_eq!(forwarded(&with("1")).all("Max-Forwards"), ["0"]);
    assert_eq!(forwarded(&with("255")).all("Max-Forwards"), ["254"]);
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    assert_eq!(lab.ask(CAROL, with("0").text()).status(), 483);
    assert_eq!(lab.ask(CAROL, with("256").text()).status(), 400);
    assert_eq!(lab.ask(CAROL, with("-1").text()).status(), 400);
    // For whom it is meant itself, the server does not forward (16.3).
    let options = Req { max_forwards: "0".to_owned(), ..Req::new("OPTIONS", "sip:here.example") };
    assert_eq!(lab.ask(CAROL, options.text()).status(), 200);
    lab.rest();
}

#[test]
fn loops_are_refused_and_spirals_are_not() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    // It comes back as it was when it first came, with our Via on top.
    let vias: String = sent[0].all("Via").iter().map(|v| format!("Via: {v}\r\n")).collect();
    let round = |uri: &str| {
        let text = req.text().replacen("sip:bob@here.example", uri, 1);
        let via = "Via: SIP/2.0/UDP 192.0.2.50:5060;branch=z9hG4bKother\r\n";
        text.replacen(&format!("Via: {}\r\n", req.via), &format!("{via}{vias}"), 1)
    };
    assert_eq!(lab.ask("192.0.2.50:5060", round("sip:bob@here.example")).status(), 482);
    assert_eq!(lab.count(Counter::Loops), 1);
    // With another Request-URI it is a spiral (RFC 5393 section 4).
    lab.bind("dave", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let sent = lab.invite("192.0.2.50:5060", round("sip:dave@here.example"));
    assert_eq!(sent[0].uri(), "sip:dave@192.0.2.40");
}

#[test]
fn a_call_forwarded_to_itself_ends_in_a_loop_and_not_in_a_storm() {
    // Bob's Contact leads back to the server.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@198.51.100.1;x=y>", sip_registrar::elsewhere(udp(CAROL)));
    let mut from = CAROL.to_owned();
    let mut text = Req::invite().text();
    for _ in 0..4 {
        lab.send(&from, &text);
        let sent = lab.sent();
        let Some(next) = sent.iter().find(|s| s.status() == 0) else {
            assert_eq!(statuses(&sent), [482]);
            return;
        };
        assert_eq!(next.to(), US);
        (from, text) = (US.to_owned(), next.text.clone());
    }
    panic!("still going round");
}

#[test]
fn max_breadth() {
    let sent = forwarded(&Req::invite());
    assert_eq!(sent.all("Max-Breadth"), ["60"]);
    assert_eq!(forwarded(&Req::invite().line("Max-Breadth: 5")).all("Max-Breadth"), ["5"]);
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2, BOB3]);
    let req = Req::invite().line("Max-Breadth: 4");
    let sent = lab.invite(CAROL, req.text());
    let shares: Vec<u32> = sent.iter().map(|s| s.get("Max-Breadth").unwrap().parse().unwrap()).collect();
    assert_eq!((shares.len(), shares.iter().sum::<u32>()), (3, 4));
    // With less breadth than targets, they are tried as others end.
    let sent = lab.invite(CAROL, Req::invite().line("Max-Breadth: 1").text());
    assert_eq!(requests(&sent), [("INVITE".to_owned(), BOB.to_owned())]);
    lab.send(BOB, sent[0].reply(486, "b", ""));
    assert!(requests(&lab.sent()).contains(&("INVITE".to_owned(), BOB2.to_owned())));
    // None at all: 440 (RFC 5393 section 5.3.3).
    for none in ["0", "-1", "x", "1;x", "99999999999"] {
        lab.send(CAROL, Req::invite().line(&format!("Max-Breadth: {none}")).text());
        assert_eq!(statuses(&lab.sent()), [100, 440], "{none}");
    }
    lab.rest();
}

#[test]
fn proxy_require_is_refused_with_what_is_not_known() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite().line("Proxy-Require: foo, bar");
    let answer = lab.ask(CAROL, req.text());
    assert_eq!(answer.status(), 420);
    assert_eq!(answer.all("Unsupported"), ["foo, bar"]);
    // Require is between the ends (8.2.2.3 is for a UAS): a proxy passes it on.
    let sent = forwarded(&Req::invite().line("Require: foo"));
    assert_eq!(sent.all("Require"), ["foo"]);
}

#[test]
fn schemes_that_are_not_known_or_not_possible() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req { to: "<sip:bob@here.example>".to_owned(), ..Req::new("INVITE", "http://here.example/") };
    assert_eq!(lab.ask(CAROL, req.text()).status(), 416);
    // Nothing here speaks TLS, and a sips request must not travel in the clear (26.2.2, RFC 5630 5.3).
    let sips = Req::new("INVITE", "sips:bob@here.example");
    assert_eq!(lab.ask(CAROL, sips.text()).status(), 416);
    let route = Req::invite().line("Route: <sips:198.51.100.1;lr>");
    let sent = lab.invite(CAROL, route.text());
    assert_eq!(sent.len(), 1, "a Route to ourselves is only taken off");
}

#[test]
fn unknown_methods_are_forwarded_like_others() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.as_user(ALICE, "alice", &Req::new("CHEER", "sip:bob@here.example").alice()).remove(0);
    assert_eq!((sent.method(), sent.to().as_str()), ("CHEER", BOB));
    assert!(sent.get("Record-Route").is_none(), "it sets up no dialog that we know of");
}

#[test]
fn parameters_and_headers_of_the_request_uri_do_not_confuse_the_lookup() {
    for uri in [
        "sip:bob@here.example;user=phone;foo=bar",
        "sip:bob@HERE.example:5060",
        "sip:%62ob@here.example",
        "sip:bob@198.51.100.1",
        "sip:bob@198.51.100.1:5060;transport=udp",
        "sip:bob:password@here.example",
    ] {
        let sent = forwarded(&Req::new("INVITE", uri));
        assert_eq!(sent.to(), BOB, "{uri}");
    }
    // Headers in a Request-URI are against 19.1.1; they never reach anybody.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    lab.send(CAROL, Req::new("INVITE", "sip:bob@here.example?Route=%3Csip:evil%3E&X=1").text());
    for sent in lab.sent() {
        assert!(!sent.start().contains("evil"), "{}", sent.text);
        assert!(sent.get("Route").is_none());
    }
}

#[test]
fn a_contact_loses_its_headers_and_nothing_else() {
    for (contact, uri) in [
        ("<sip:bob@192.0.2.77?X=1>", "sip:bob@192.0.2.77"),
        ("<sip:bob@192.0.2.77;x=y?X=1&Y=2>", "sip:bob@192.0.2.77;x=y"),
        ("<sip:b?b@192.0.2.77>", "sip:b?b@192.0.2.77"),
        ("<sip:b?b@192.0.2.77?X=1>", "sip:b?b@192.0.2.77"),
    ] {
        let mut lab = Lab::new();
        lab.bind_with("bob", contact, udp("192.0.2.77:5060"), "");
        assert_eq!(lab.invite(CAROL, Req::invite().text())[0].uri(), uri);
    }
}

#[test]
fn a_method_parameter_stays_out_of_the_request_uri() {
    // 16.6 step 2 with table 1 of 19.1.1.
    let odd = "sip:bob@192.0.2.77;transport=udp;method=BYE;x=y";
    let want = "sip:bob@192.0.2.77;transport=udp;x=y";
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.proxy.recurse = true;
        let route = |user: &str, target: &str| Route {
            domain: None,
            prefix: None,
            user: Some(user.as_bytes().to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(vec![target.as_bytes().to_vec()]),
        };
        s.routes = vec![route("fax", odd)];
        s.trunks.push(trunk(&["sip:192.0.2.78;Method=BYE"], "+49"));
    });
    lab.bind("bob", &format!("<{odd}>"), udp("192.0.2.77:5060"));
    lab.bind("dave", &format!("<sip:dave@{BOB}>"), udp(BOB));
    let called =
        |lab: &mut Lab, uri: &str| lab.invite(ALICE, Req::new("INVITE", uri).alice().text()).remove(0);
    assert_eq!(called(&mut lab, "sip:bob@here.example").uri(), want);
    assert_eq!(called(&mut lab, "sip:fax@here.example").uri(), want);
    assert_eq!(called(&mut lab, "sip:+4912@here.example").uri(), "sip:+4912@192.0.2.78");
    assert_eq!(called(&mut lab, "sip:x@192.0.2.99;method=INVITE?Route=y").uri(), "sip:x@192.0.2.99");
    // A 302 that is followed.
    let sent = called(&mut lab, "sip:dave@here.example");
    lab.send(BOB, sent.reply(302, "d", &format!("Contact: <{odd}>\r\n")));
    assert!(lab.sent().iter().any(|s| s.status() == 0 && s.method() == "INVITE" && s.uri() == want));
    // A strict router's URI.
    let route = "Route: <sip:192.0.2.88;method=BYE>";
    let sent =
        lab.invite(ALICE, Req::new("INVITE", "sip:x@far.example").alice().line(route).text()).remove(0);
    assert_eq!(sent.uri(), "sip:192.0.2.88");
}

#[test]
fn what_was_sent_with_a_small_version_leaves_with_capitals() {
    // 7.1: an INVITE, its ACK, its CANCEL, and what is answered.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let small = |req: &Req| req.text().replacen(" SIP/2.0\r\n", " sip/2.0\r\n", 1);
    let req = Req::invite();
    let mut seen = lab.invite(CAROL, small(&req));
    let invite = seen[0].clone();
    lab.send(BOB, invite.reply(180, "b", "").replacen("SIP/2.0", "sip/2.0", 1));
    lab.send(CAROL, small(&req.cancel()));
    seen.extend(lab.sent());
    lab.send(BOB, invite.reply(487, "b", "").replacen("SIP/2.0", "sip/2.0", 1));
    seen.extend(lab.sent());
    let methods: Vec<&str> = seen.iter().filter(|s| s.status() == 0).map(|s| s.method()).collect();
    assert_eq!(methods, ["INVITE", "CANCEL", "ACK"]);
    assert_eq!(statuses(&seen), [180, 200, 487]);
    assert!(seen.iter().all(|s| !s.text.contains("sip/2.0")));
}

#[test]
fn path_values_become_routes() {
    let mut lab = Lab::new();
    let lines = "Supported: path\r\nPath: <sip:192.0.2.77;lr>,<sip:inner.example;lr>\r\n";
    lab.bind_with("bob", "<sip:bob@10.0.0.1>", udp("192.0.2.77:5060"), lines);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent[0].to(), "192.0.2.77:5060");
    assert_eq!(sent[0].uri(), "sip:bob@10.0.0.1");
    assert_eq!(sent[0].all("Route"), ["<sip:192.0.2.77;lr>,<sip:inner.example;lr>"]);
}

#[test]
fn a_path_that_names_another_host_than_the_register_came_from() {
    let mut lab = Lab::new();
    let lines = "Supported: path\r\nPath: <sip:192.0.2.78:5070;lr>\r\n";
    lab.bind_with("bob", "<sip:bob@10.0.0.1>", udp("192.0.2.77:5060"), lines);
    assert_eq!(lab.invite(CAROL, Req::invite().text())[0].to(), "192.0.2.78:5070");
}

#[test]
fn a_route_to_ourselves_is_taken_off_and_the_next_one_is_not() {
    let sent = forwarded(&Req::invite().line("Route: <sip:198.51.100.1;lr>"));
    assert!(sent.get("Route").is_none());
    let sent = forwarded(&Req::invite().line("Route: <sip:here.example;lr>"));
    assert!(sent.get("Route").is_none());
}

#[test]
fn the_domains_of_subscribers_name_this_server_where_none_are_configured() {
    let mut lab = Lab::with(|s| s.domains.clear());
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().line("Route: <sip:here.example;lr>").text());
    assert_eq!(sent[0].to(), BOB);
    assert!(sent[0].get("Route").is_none());
}

#[test]
fn identity_claims_of_those_not_trusted_are_taken_off() {
    // RFC 3325 section 5, and P-Preferred-Identity by section 6.
    let claims = |req: Req| {
        req.line("P-Asserted-Identity: <sip:ceo@here.example>")
            .line("Remote-Party-ID: <sip:ceo@here.example>")
            .line("P-Preferred-Identity: <sip:ceo@here.example>")
    };
    let sent = forwarded(&claims(Req::invite()));
    for name in ["P-Asserted-Identity", "Remote-Party-ID", "P-Preferred-Identity"] {
        assert!(sent.get(name).is_none(), "{name}");
    }
    // A trunk is trusted.
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    lab.phones(&[BOB]);
    let req = claims(Req::invite()).sent_by("UDP", "203.0.113.5:5060");
    let sent = lab.invite("203.0.113.5:5060", req.text());
    assert_eq!(sent[0].get("P-Asserted-Identity"), Some("<sip:ceo@here.example>"));
    // But what its user wants kept private stays here (RFC 3323, `id`).
    let req = claims(Req::invite()).sent_by("UDP", "203.0.113.5:5060").line("Privacy: id");
    let sent = lab.invite("203.0.113.5:5060", req.text());
    assert_eq!(sent[0].get("P-Asserted-Identity"), None);
    // Responses are messages, too.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    let lines = "P-Asserted-Identity: <sip:ceo@here.example>\r\n";
    let ok = lab.ask(BOB, sent[0].reply(200, "b", lines));
    assert_eq!(ok.get("P-Asserted-Identity"), None);
}
