//! Requests within dialogs: Record-Route, Route, tokens, and clients that ignore them. RFC 3261 16.4,
//! 16.6, 16.12, RFC 5658.

use super::*;

/// An answered call from carol to bob: the lab, the INVITE, what bob got, and the 200 as carol got it.
fn call() -> (Lab, Req, Sent, Sent) {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text()).remove(0);
    let ok = lab.ask(BOB, sent.accept("b"));
    (lab, req, sent, ok)
}

/// Carol's request, as far as dialogs need it, from what the called one got.
fn got_req(got: &Sent) -> Req {
    let mut req = Req::invite();
    (req.from, req.call_id) = (got.get("From").unwrap().to_owned(), got.get("Call-ID").unwrap().to_owned());
    req
}

#[test]
fn both_ends_reach_each_other_through_the_record_route() {
    let (mut lab, req, got, ok) = call();
    let bye = lab.ask(CAROL, req.within("BYE", &ok).text());
    assert_eq!((bye.to().as_str(), bye.uri()), (BOB, "sip:bob@192.0.2.20:5060"));
    assert!(bye.get("Route").is_none() && bye.get("Record-Route").is_none());
    // The other way the one who sends is a user of ours: challenged like everybody.
    let bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
    let challenge = lab.ask(BOB, bye.text());
    assert_eq!(challenge.status(), 407);
    lab.send(BOB, bye.answer("bob", &challenge).text());
    let sent = lab.one();
    assert_eq!((sent.to().as_str(), sent.uri()), (CAROL, "sip:carol@192.0.2.10:5060"));
    assert!(sent.get("Proxy-Authorization").is_none(), "our credentials stay here");
}

/// A network without names, and a gateway beside the server whose Contact has no user.
#[test]
fn a_contact_without_a_user_at_another_port_of_the_address_that_is_the_domain() {
    let (ip, _) = US.split_once(':').unwrap();
    let beside = format!("{ip}:5095");
    let mut lab = Lab::with(|s| s.domains.push(ip.as_bytes().to_vec()));
    lab.bind("bob", &format!("<sip:{beside}>"), udp(&beside));
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text()).remove(0);
    assert_eq!(sent.to(), beside);
    let ok = lab.ask(&beside, sent.reply(200, "b", &format!("Contact: <sip:{beside}>\r\n")));
    lab.send(CAROL, req.within("ACK", &ok).text());
    assert_eq!(lab.one().to(), beside);
    let bye = lab.ask(CAROL, req.within("BYE", &ok).text());
    assert_eq!((bye.method(), bye.to()), ("BYE", beside));
    // Our own port is ours.
    let mut own = Req::invite();
    own.uri = format!("sip:{US}");
    assert_eq!(lab.ask(CAROL, own.text()).status(), 484);
}

#[test]
fn the_token_leads_through_address_translation_both_ways() {
    let mut lab = Lab::open();
    lab.bind("bob", "<sip:bob@192.168.1.5>", udp("192.0.2.20:40222"));
    let mut req = Req::invite().alice().sent_by("UDP", "10.0.0.9:5060");
    req.lines = vec!["Contact: <sip:alice@10.0.0.9>".to_owned()];
    let got = lab.invite("192.0.2.30:31000", req.text()).remove(0);
    let reply = got.reply(200, "b", "Contact: <sip:bob@192.168.1.5>\r\n");
    let ok = lab.ask("192.0.2.20:40222", reply);
    assert_eq!(ok.to(), "192.0.2.30:31000");
    let ack = lab.ask("192.0.2.30:31000", req.within("ACK", &ok).text());
    assert_eq!((ack.to().as_str(), ack.uri()), ("192.0.2.20:40222", "sip:bob@192.168.1.5"));
    let bye = from_callee(&got, "BYE", "192.168.1.5:5060", "<sip:bob@here.example>");
    let sent = lab.ask("192.0.2.20:40222", bye.text());
    assert_eq!((sent.to().as_str(), sent.uri()), ("192.0.2.30:31000", "sip:alice@10.0.0.9"));
}

#[test]
fn a_dialog_survives_a_restart_with_the_same_keys() {
    let (_, req, _, ok) = call();
    let mut reborn = Lab::new();
    let bye = reborn.ask(CAROL, req.within("BYE", &ok).text());
    assert_eq!(bye.to(), BOB);
}

#[test]
fn a_made_up_or_borrowed_token_opens_nothing() {
    let (mut lab, req, _, ok) = call();
    let honest = req.within("BYE", &ok);
    let forge = |change: &dyn Fn(&mut Req)| {
        let mut bye = honest.clone().sent_by("UDP", CAROL);
        bye.uri = "sip:victim@203.0.113.77".to_owned();
        change(&mut bye);
        bye.text()
    };
    // Another call, another tag, another text, none at all.
    for (text, status) in [
        (forge(&|bye| bye.call_id = "other".to_owned()), 403),
        (forge(&|bye| bye.from = "<sip:carol@far.example>;tag=other".to_owned()), 403),
        (forge(&|bye| bye.lines[0] = bye.lines[0].replace(";d=A", ";d=B")), 403),
        (forge(&|bye| bye.lines[0] = "Route: <sip:198.51.100.1;lr;d=x>".to_owned()), 403),
        (forge(&|bye| bye.lines.clear()), 403),
    ] {
        assert_eq!(lab.ask(CAROL, text).status(), status);
    }
    // A true token takes a stranger to the other end of his dialog and nowhere else.
    let sent = lab.ask(CAROL, forge(&|_| {}));
    assert_eq!(sent.to(), BOB);
    // Nor does it when he writes his own tag where the other end's belongs.
    for method in ["MESSAGE", "INVITE", "ACK"] {
        let text = forge(&|bye| {
            let tag = bye.from.split(";tag=").nth(1).unwrap_or("").to_owned();
            bye.method = method.to_owned();
            bye.to = format!("<sip:y@far.example>;tag={tag}");
            bye.from = "<sip:x@far.example>;tag=zz".to_owned();
        });
        lab.send(CAROL, text);
        let reached: Vec<String> = lab.sent().iter().map(|sent| sent.to()).collect();
        assert!(reached.iter().all(|to| to == CAROL), "{method}: {reached:?}");
    }
    // An INVITE without To tag is no request within a dialog.
    let text = forge(&|bye| {
        bye.method = "INVITE".to_owned();
        bye.to = "<sip:bob@here.example>".to_owned();
    });
    assert_eq!(lab.ask(CAROL, text).status(), 403);
}

#[test]
fn another_port_of_the_other_end_is_never_our_admin_api() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.admin = Some("192.0.2.20:8080".parse().unwrap());
    });
    lab.phones(&[BOB]);
    let req = Req::invite().alice();
    let sent = lab.invite(ALICE, req.text()).remove(0);
    let ok = lab.ask(BOB, sent.accept("b"));
    for (port, reached) in [("5070", "192.0.2.20:5070"), ("8080", BOB)] {
        let mut info = req.within("INFO", &ok);
        info.uri = format!("sip:bob@192.0.2.20:{port}");
        assert_eq!(lab.ask(ALICE, info.text()).to(), reached);
    }
}

#[test]
fn a_route_to_others_is_for_users_of_ours_only_and_not_to_everywhere() {
    for route in
        ["sip:203.0.113.9;lr", "sip:127.0.0.1:8080;lr", "sip:169.254.169.254;lr", "sip:other.example;lr"]
    {
        let mut lab = Lab::new();
        lab.phones(&[BOB]);
        let req = Req::invite().line(&format!("Route: <{route}>"));
        assert_eq!(lab.ask(CAROL, req.text()).status(), 403, "{route}");
        assert!(lab.world.questions.borrow().is_empty());
    }
    // A user may use another proxy, but not reach into our own network with it.
    let mut lab = Lab::new();
    let req = Req::new("INVITE", "sip:x@far.example").alice().line("Route: <sip:203.0.113.9;lr>");
    let sent = lab.as_user(ALICE, "alice", &req);
    assert_eq!((sent[1].to().as_str(), sent[1].uri()), ("203.0.113.9:5060", "sip:x@far.example"));
    assert_eq!(sent[1].all("Route"), ["<sip:203.0.113.9;lr>"]);
    for route in ["127.0.0.1:8080", "127.0.0.1", "169.254.169.254", "255.255.255.255", "0.0.0.0", "[::1]"] {
        let req = Req::new("INVITE", "sip:x@far.example").alice();
        let req = req.line(&format!("Route: <sip:{route};lr>"));
        let sent = lab.as_user(ALICE, "alice", &req);
        assert!(requests(&sent).is_empty() && sent.last().unwrap().status() >= 400, "{route}: {sent:?}");
    }
}

#[test]
fn a_request_uri_into_our_own_network_is_refused() {
    let mut lab = Lab::new();
    for uri in [
        "sip:x@127.0.0.1:8080",
        "sip:x@127.0.0.1",
        "sip:x@169.254.169.254",
        "sip:x@198.51.100.9;maddr=127.0.0.1",
        "sip:x@[::1]",
        "sip:x@[::ffff:127.0.0.1]",
        "sip:x@224.0.1.75",
    ] {
        assert_eq!(lab.ask(CAROL, Req::new("OPTIONS", uri).text()).status(), 403, "a stranger: {uri}");
        let sent = lab.as_user(ALICE, "alice", &Req::new("OPTIONS", uri).alice());
        assert!(requests(&sent).is_empty() && sent[0].status() >= 400, "{uri}: {sent:?}");
    }
    // Nor is the admin API, wherever it listens.
    lab.reconfigure(|s| s.admin = Some("198.51.100.1:8080".parse().unwrap()));
    let sent = lab.as_user(ALICE, "alice", &Req::new("OPTIONS", "sip:x@198.51.100.1:8080").alice());
    assert_eq!(statuses(&sent), [403]);
    // A name that resolves there is no way round.
    let sent = lab.as_user(ALICE, "alice", &Req::new("OPTIONS", "sip:x@rebound.example").alice());
    assert!(sent.is_empty());
    lab.resolve("127.0.0.1");
    assert_eq!(lab.one().status(), 403);
    // Nor is a maddr beside the address of a registered phone.
    lab.phones(&[BOB]);
    let uri = format!("sip:x@{BOB};maddr=127.0.0.1");
    assert_eq!(lab.ask(CAROL, Req::new("OPTIONS", &uri).text()).status(), 403);
    // For a server on loopback alone, loopback is the network.
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.listeners = vec![Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap(), None)];
    });
    let sent = lab.ask("127.0.0.1:6000", Req::new("OPTIONS", "sip:x@127.0.0.1:7000").alice().text());
    assert_eq!(sent.to(), "127.0.0.1:7000");
}

#[test]
fn two_record_routes_where_the_sides_differ() {
    // UDP and TCP.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.0.2.20;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let req = Req::invite();
    let got = lab.invite(CAROL, req.text()).remove(0);
    let routes = got.all("Record-Route");
    assert_eq!(routes.len(), 2);
    assert!(routes[0].starts_with("<sip:198.51.100.1:5060;transport=tcp;lr;d="), "towards bob: {routes:?}");
    assert!(routes[1].starts_with("<sip:198.51.100.1:5060;lr;d="), "towards carol: {routes:?}");
    lab.send_on(tcp("192.0.2.20:41000", 3), got.accept("b"));
    let ok = lab.one();
    let bye = lab.ask(CAROL, req.within("BYE", &ok).text());
    assert_eq!((bye.flow.transport, bye.to().as_str()), (Transport::Tcp, "192.0.2.20:41000"));
    assert!(bye.get("Route").is_none(), "both are taken off: {}", bye.text);
    let back =
        from_callee(&got, "BYE", "192.0.2.20:41000", "<sip:bob@other.example>").sent_by("TCP", "192.0.2.20");
    lab.send_on(tcp("192.0.2.20:41000", 3), back.text());
    let sent = lab.one();
    assert_eq!((sent.flow, sent.get("Route")), (udp(CAROL), None));
    // IPv6 and IPv4.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let mut req = Req::invite().sent_by("UDP", "[2001:db8::10]:5060");
    req.lines = vec!["Contact: <sip:carol@[2001:db8::10]:5060>".to_owned()];
    let got = lab.invite("[2001:db8::10]:5060", req.text()).remove(0);
    let routes = got.all("Record-Route");
    assert!(routes[0].starts_with("<sip:198.51.100.1:5060;lr"), "{routes:?}");
    assert!(routes[1].starts_with("<sip:[2001:db8::1]:5060;lr"), "{routes:?}");
    let ok = lab.ask(BOB, got.accept("b"));
    assert_eq!(lab.ask("[2001:db8::10]:5060", req.within("ACK", &ok).text()).flow, udp(BOB));
    let bye = from_callee(&got, "BYE", BOB, "<sip:bob@other.example>");
    assert_eq!(lab.ask(BOB, bye.text()).flow, udp("[2001:db8::10]:5060"));
}

#[test]
fn without_record_route_no_token() {
    let mut lab = Lab::with(|s| s.proxy.record_route = false);
    lab.phones(&[BOB]);
    assert!(lab.invite(CAROL, Req::invite().text())[0].get("Record-Route").is_none());
}

#[test]
fn clients_that_ignore_the_record_route_are_served_all_the_same() {
    let (mut lab, req, _, ok) = call();
    // To the address-of-record, as SIPp's built-in scenario does.
    for method in ["ACK", "BYE", "INFO"] {
        let mut stubborn = req.within(method, &ok);
        (stubborn.uri, stubborn.lines) = ("sip:bob@here.example".to_owned(), Vec::new());
        let sent = lab.ask(CAROL, stubborn.text());
        assert_eq!((sent.to().as_str(), sent.method()), (BOB, method));
    }
    // To the Contact.
    for method in ["ACK", "BYE"] {
        let mut stubborn = req.within(method, &ok).sent_by("UDP", CAROL);
        stubborn.lines = Vec::new();
        let sent = lab.ask(CAROL, stubborn.text());
        assert_eq!((sent.to().as_str(), sent.method(), sent.uri()), (BOB, method, "sip:bob@192.0.2.20:5060"));
    }
}

#[test]
fn info_without_route_passes_in_a_known_call_only() {
    let (mut lab, req, got, ok) = call();
    lab.bind("dave", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let bare = Req { uri: "sip:bob@here.example".to_owned(), lines: Vec::new(), ..req.within("INFO", &ok) };
    let to = |user: &str, tag: &str| format!("<sip:{user}@here.example>;tag={tag}");
    for (change, passes) in [
        (bare.clone(), true),
        (Req { call_id: "other".to_owned(), ..bare.clone() }, false),
        (Req { from: "<sip:carol@far.example>;tag=other".to_owned(), ..bare.clone() }, false),
        (Req { to: to("bob", "other"), ..bare.clone() }, false),
        // In another one's name, and to another one.
        (Req { to: to("dave", "b"), ..bare.clone() }, false),
        (Req { uri: "sip:dave@here.example".to_owned(), ..bare.clone() }, false),
        (Req { uri: "sip:dave@here.example".to_owned(), to: to("dave", "b"), ..bare.clone() }, false),
    ] {
        let change = change.sent_by("UDP", CAROL);
        assert_eq!(lab.ask(CAROL, change.text()).status(), if passes { 0 } else { 481 }, "{}", change.text());
    }
    // The other end's.
    let mut back = from_callee(&got, "INFO", BOB, "<sip:bob@far.example>");
    (back.uri, back.lines) = (format!("sip:carol@{CAROL}"), Vec::new());
    assert_eq!(lab.ask(BOB, back.text()).status(), 481, "under a name that it did not have");
    // Once it is over, it is no call any more.
    let bye = Req { method: "BYE".to_owned(), ..bare.clone() }.sent_by("UDP", CAROL);
    let at_phone = lab.ask(CAROL, bye.text());
    lab.ask(BOB, at_phone.reply(200, "", ""));
    assert_eq!(lab.ask(CAROL, bare.sent_by("UDP", CAROL).text()).status(), 481);
}

#[test]
fn a_strict_router_before_us_is_undone() {
    let (mut lab, req, _, ok) = call();
    // It put our Record-Route into the Request-URI and the Contact at the end of the Route.
    let mut bye = req.within("BYE", &ok);
    let ours = inside(bye.lines[0].strip_prefix("Route: ").unwrap()).to_owned();
    bye.lines = vec![format!("Route: <{}>", bye.uri)];
    bye.uri = ours;
    let sent = lab.ask(CAROL, bye.text());
    assert_eq!((sent.to().as_str(), sent.uri()), (BOB, "sip:bob@192.0.2.20:5060"));
    assert!(sent.get("Route").is_none());
}

#[test]
fn a_strict_router_after_us_gets_what_it_expects() {
    let mut lab = Lab::open();
    let req = Req::new("INVITE", "sip:x@far.example").alice();
    let req = req.line("Route: <sip:203.0.113.9>").line("Route: <sip:last.example;lr>");
    let sent = lab.invite(ALICE, req.text()).remove(0);
    // 16.6 step 6: its URI in the Request-URI, the real one last.
    assert_eq!((sent.to().as_str(), sent.uri()), ("203.0.113.9:5060", "sip:203.0.113.9"));
    assert_eq!(sent.all("Route"), ["<sip:last.example;lr>", "<sip:x@far.example>"]);
}

#[test]
fn a_proxy_between_us_and_the_phone_stays_in_the_way() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    lab.phones(&[BOB]);
    let req = Req::new("INVITE", "sip:+49123@here.example").alice();
    let sent = lab.as_user(ALICE, "alice", &req);
    let got = &sent[1];
    assert_eq!(got.to(), "203.0.113.5:5060");
    // The trunk is a proxy with a Record-Route; what is behind it has a Contact of its own.
    let mut answer = got.reply(200, "x", "Contact: <sip:gw@203.0.113.99:5080>\r\n");
    let at = answer.find("Record-Route").unwrap();
    answer.insert_str(at, "Record-Route: <sip:203.0.113.5;lr>\r\n");
    lab.send("203.0.113.5:5060", answer);
    let ok = lab.one();
    let mut ack = req.within("ACK", &ok);
    ack.cseq = 2;
    let sent = lab.ask(ALICE, ack.text());
    assert_eq!((sent.to().as_str(), sent.uri()), ("203.0.113.5:5060", "sip:gw@203.0.113.99:5080"));
    assert_eq!(sent.all("Route"), ["<sip:203.0.113.5;lr>"]);
}

#[test]
fn the_other_end_of_a_dialog_may_be_a_name() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    let start = |lab: &mut Lab, contact: &str| {
        let req = Req::new("INVITE", "sip:+49123@here.example").alice();
        let sent = lab.as_user(ALICE, "alice", &req);
        lab.send("203.0.113.5:5060", sent[1].reply(200, "x", &format!("Contact: <{contact}>\r\n")));
        let ok = lab.one();
        (req, ok)
    };
    let (req, ok) = start(&mut lab, "sip:gw@gw.carrier.example:5062");
    let ack = Req { cseq: 2, ..req.within("ACK", &ok) };
    // The ACK of a name that is not known yet: its 2xx will come again, and by then it is.
    lab.send(ALICE, ack.text());
    lab.resolve("203.0.113.80");
    let first = lab.sent();
    lab.send(ALICE, ack.text());
    let again = lab.sent();
    let to: Vec<String> = first.iter().chain(&again).map(Sent::to).collect();
    assert!(to.contains(&"203.0.113.80:5062".to_owned()), "{to:?}");
    // A name that nobody knows: where the dialog was set up.
    let (req, ok) = start(&mut lab, "sip:gw@nowhere.invalid");
    let info = Req { cseq: 2, ..req.within("MESSAGE", &ok) };
    let challenge = lab.ask(ALICE, info.text());
    lab.send(ALICE, info.answer("alice", &challenge).text());
    lab.resolve_with(|_| Answer::Nothing);
    assert_eq!(lab.one().to(), "203.0.113.5:5060");
}

#[test]
fn whoever_answers_for_a_user_of_ours_may_speak_in_the_dialog() {
    // The mailbox hangs up: From is the callee's address, and it has no password of his.
    let mut lab = Lab::with(|s| {
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@203.0.113.60".to_vec(),
            on: sip_proxy::context::Reroute::ALWAYS,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
    });
    let got = lab.invite(CAROL, Req::invite().text()).remove(0);
    assert_eq!(got.to(), "203.0.113.60:5060");
    lab.ask("203.0.113.60:5060", got.accept("b"));
    let bye = from_callee(&got, "BYE", "203.0.113.60:5060", "<sip:bob@here.example>");
    let sent = lab.ask("203.0.113.60:5060", bye.text());
    assert_eq!((sent.method(), sent.to().as_str()), ("BYE", CAROL));
    // The caller, a stranger, reaches this mailbox with his token, and nobody else.
    let ok = Sent { text: got.accept("b"), ..got.clone() };
    for method in ["INFO", "MESSAGE"] {
        let mut elsewhere = got_req(&got).within(method, &ok);
        elsewhere.uri = "sip:victim@203.0.113.77".to_owned();
        assert_eq!(lab.ask(CAROL, elsewhere.text()).to(), "203.0.113.60:5060");
    }
    // From another address the token is not enough.
    let bye = from_callee(&got, "BYE", "192.0.2.66:5060", "<sip:bob@here.example>");
    assert_eq!(lab.ask("192.0.2.66:5060", bye.text()).status(), 407);
}

/// A call of alice's to bob with the server's default: the token proves alice.
fn proven_call() -> (Lab, Req, Sent, Sent) {
    let mut lab = Lab::with(|s| s.auth.in_dialog = false);
    lab.phones(&[BOB]);
    let req = Req::invite().alice();
    let got = lab.as_user(ALICE, "alice", &req).remove(1);
    let ok = lab.ask(BOB, got.accept("b"));
    (lab, req, got, ok)
}

#[test]
fn no_challenge_within_a_dialog_at_the_address_of_its_end() {
    for method in ["INVITE", "BYE", "INFO"] {
        let (mut lab, req, got, ok) = proven_call();
        let own = Req { cseq: 9, ..req.within(method, &ok) };
        lab.send(ALICE, own.text());
        let sent = lab.sent();
        assert!(sent.iter().any(|s| s.to() == BOB && s.text.starts_with(method)), "{method}: {sent:?}");
        let back = from_callee(&got, method, BOB, "<sip:bob@here.example>");
        lab.send(BOB, back.text());
        let sent = lab.sent();
        assert!(sent.iter().any(|s| s.to() == ALICE && s.text.starts_with(method)), "{method}: {sent:?}");
    }
}

#[test]
fn challenge_within_a_dialog_where_the_token_proves_too_little() {
    let (mut lab, req, got, ok) = proven_call();
    let bye = Req { cseq: 9, ..req.within("BYE", &ok) };
    let beside = ALICE.replace(":5060", ":5062");
    let elsewhere = "192.0.2.99:5060";
    for from in [beside.as_str(), elsewhere] {
        assert_eq!(lab.ask(from, bye.clone().sent_by("UDP", from).text()).status(), 407, "{from}");
    }
    // Under another name, or to another place than the other end.
    let mut info = Req { cseq: 10, ..req.within("INFO", &ok) };
    info.from = info.from.replace("alice@", "dave@");
    assert_eq!(lab.ask(ALICE, info.text()).status(), 407);
    let around = Req { cseq: 11, ..req.within("INFO", &ok) };
    let around = around.line("Route: <sip:203.0.113.9;lr>");
    assert_eq!(lab.ask(ALICE, around.text()).status(), 407);
    // A NOTIFY gets a token of its own.
    let notify = from_callee(&got, "NOTIFY", BOB, "<sip:bob@here.example>");
    assert_eq!(lab.ask(BOB, notify.text()).status(), 407);
    // A dialog that nobody set up here.
    let made_up = Req { call_id: "made-up".to_owned(), ..bye };
    assert_eq!(lab.ask(ALICE, made_up.sent_by("UDP", ALICE).text()).status(), 407);
}

#[test]
fn overheard_token_opens_no_dialog_under_a_foreign_name() {
    let (mut lab, req, _, ok) = proven_call();
    for (n, method) in ["BYE", "INVITE", "INFO", "REFER", "NOTIFY"].into_iter().enumerate() {
        let mut forged = Req { cseq: 20 + n as u32, ..req.within(method, &ok) };
        forged.from = forged.from.replace("alice@here.example", "z@evil.test");
        let forged = forged.sent_by("UDP", "192.0.2.99:5060");
        assert_eq!(lab.ask("192.0.2.99:5060", forged.text()).status(), 403, "{method}");
    }
}

#[test]
fn credentials_within_a_dialog_are_good_once() {
    let (mut lab, req, _, ok) = proven_call();
    let challenge = lab.ask(ALICE, Req::new("MESSAGE", "sip:bob@here.example").alice().text());
    let bye = Req { cseq: 9, ..req.within("BYE", &ok) }.answer("alice", &challenge);
    let sent = lab.ask(ALICE, bye.text());
    assert!(sent.to() == BOB && sent.text.starts_with("BYE"), "{sent:?}");
    // An eavesdropper that adds its own Route gets nowhere.
    let elsewhere = "192.0.2.99:5060";
    let replayed = bye.line("Route: <sip:203.0.113.9;lr>").sent_by("UDP", elsewhere);
    assert_eq!(lab.ask(elsewhere, replayed.text()).status(), 407);
}

#[test]
fn callee_of_a_stranger_hangs_up_without_a_challenge() {
    let mut lab = Lab::with(|s| s.auth.in_dialog = false);
    lab.phones(&[BOB]);
    let got = lab.invite(CAROL, Req::invite().text()).remove(0);
    lab.ask(BOB, got.accept("b"));
    let bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
    assert_eq!(lab.ask(BOB, bye.text()).to(), CAROL);
    // Carol has seen the token and writes bob's address over hers: her request chooses no way.
    let mut relay = from_callee(&got, "INVITE", BOB, "<sip:bob@here.example>");
    relay.uri = "sip:+1900@203.0.113.9".to_owned();
    assert_eq!(lab.ask(BOB, relay.text()).status(), 407);
}

#[test]
fn a_stranger_takes_no_name_of_ours_in_his_own_dialog() {
    let (mut lab, req, _, ok) = call();
    let mut info = req.within("INFO", &ok);
    info.from = info.from.replace("carol@far.example", "alice@here.example");
    assert_eq!(lab.ask(CAROL, info.text()).status(), 407);
    // Nor a user of ours somebody else's, in a dialog that he set up.
    let req = Req::invite().alice();
    let got = lab.as_user(ALICE, "alice", &req).remove(1);
    let ok = lab.ask(BOB, got.accept("b"));
    let mut info = Req { cseq: 5, ..req.within("INFO", &ok) };
    info.from = info.from.replace("alice@", "dave@");
    let challenge = lab.ask(ALICE, info.text());
    assert_eq!(lab.ask(ALICE, info.answer("alice", &challenge).text()).status(), 403);
}

#[test]
fn a_call_passed_on_to_another_phone_of_ours_is_hung_up_by_it() {
    // To names bob, dave's phone took it: From is bob's, the credentials are dave's.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let got = lab.invite(CAROL, Req::invite().text()).remove(0);
    lab.ask("192.0.2.40:5060", got.accept("b"));
    let bye = from_callee(&got, "BYE", "192.0.2.40:5060", "<sip:bob@here.example>");
    let challenge = lab.ask("192.0.2.40:5060", bye.text());
    assert_eq!(lab.ask("192.0.2.40:5060", bye.answer("dave", &challenge).text()).to(), CAROL);
}

#[test]
fn subscriptions_are_dialogs_too() {
    for method in ["SUBSCRIBE", "REFER"] {
        let mut lab = Lab::with(|s| s.proxy.strangers.methods = vec![b"*".to_vec()]);
        lab.phones(&[BOB]);
        let req = Req::new(method, "sip:bob@here.example").line("Event: x");
        let got = lab.ask(CAROL, req.text());
        assert!(got.get("Record-Route").is_some(), "{method}");
        lab.ask(BOB, got.accept("b"));
        let notify = from_callee(&got, "NOTIFY", BOB, "<sip:bob@other.example>");
        let notify = lab.ask(BOB, notify.text());
        assert_eq!(notify.to(), CAROL);
        // It may set the dialog up before the 2xx does (RFC 6665 section 4.3): its route set is as good.
        let mut again = Req::new("SUBSCRIBE", "sip:bob@192.0.2.20:5060");
        (again.call_id, again.to) = (req.call_id.clone(), notify.get("From").unwrap().to_owned());
        again.from = notify.get("To").unwrap().to_owned();
        again.lines = vec![format!("Route: {}", notify.get("Record-Route").unwrap())];
        assert_eq!(lab.ask(CAROL, again.text()).to(), BOB);
    }
}

#[test]
fn a_token_registers_nobody() {
    // Who answers for bob may hang up as bob, and may not become bob.
    let mut lab = Lab::with(|s| {
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@203.0.113.60".to_vec(),
            on: sip_proxy::context::Reroute::ALWAYS,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
    });
    let got = lab.invite(CAROL, Req::invite().text()).remove(0);
    lab.ask("203.0.113.60:5060", got.accept("b"));
    let mut register = from_callee(&got, "REGISTER", "203.0.113.60:5060", "<sip:bob@here.example>");
    register.uri = "sip:here.example".to_owned();
    register.to = format!("<sip:bob@here.example>;tag={}", tag_of(got.get("From").unwrap()));
    register.lines.push("Contact: <sip:mailbox@203.0.113.60>".to_owned());
    let answer = lab.ask("203.0.113.60:5060", register.text());
    assert!(matches!(answer.status(), 401 | 403), "{}", answer.text);
    assert_eq!(lab.world.table.borrow().len(), 0);
}

#[test]
fn a_reinvite_may_be_challenged_only_for_the_sender_and_needs_no_new_record_route() {
    let (mut lab, req, _, ok) = call();
    let again = req.within("INVITE", &ok);
    lab.send(CAROL, again.text());
    let sent = lab.sent();
    assert_eq!((sent[0].status(), sent[1].to().as_str()), (100, BOB));
    assert!(sent[1].get("Record-Route").is_none());
    assert_eq!(lab.report().calls.len(), 1, "the same call");
    lab.send(BOB, sent[1].reply(488, "b", ""));
    lab.sent();
    assert_eq!(lab.report().calls.len(), 1, "a failed re-INVITE ends no call");
}

#[test]
fn a_phone_that_sends_from_another_port_than_it_listens_at_acknowledges_where_the_callee_is() {
    // The proxy of the callee stays out of the dialog, so the ACK goes to his Contact, like the BYE.
    const AWAY: &str = "192.0.2.30:51234";
    let mut lab = Lab::new();
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(AWAY));
    let invite = Req::new("INVITE", "sip:carol@192.0.2.50").alice();
    let got = lab.as_user(AWAY, "alice", &invite).remove(1);
    assert_eq!(got.to(), "192.0.2.50:5060");
    lab.send("192.0.2.50:5060", got.reply(200, "b", "Contact: <sip:carol@192.0.2.77>\r\n"));
    let ok = lab.one();
    assert_eq!(ok.to(), ALICE);
    let bye = lab.as_user(AWAY, "alice", &invite.within("BYE", &ok));
    assert!(bye.iter().any(|s| s.status() == 0 && s.to() == "192.0.2.77:5060"), "{bye:?}");
    assert_eq!(lab.ask(AWAY, invite.within("ACK", &ok).text()).to(), "192.0.2.77:5060");
    // Who is beside it and no phone of ours chooses no way.
    assert_eq!(lab.ask("192.0.2.30:51235", invite.within("ACK", &ok).text()).to(), "192.0.2.50:5060");
}
