//! Where messages come from and go to: RFC 3261 section 18, RFC 3581, ownership.

use super::*;

#[test]
fn a_request_is_answered_where_it_came_from() {
    let mut lab = Lab::new();
    let mut req = Req::new("OPTIONS", "sip:here.example");
    // rport: the port it came from (RFC 3581 section 4).
    req.via = "SIP/2.0/UDP 192.0.2.10:5060;rport;branch=z9hG4bKx1".to_owned();
    let answer = lab.ask("192.0.2.10:7777", req.text());
    assert_eq!(answer.flow, udp("192.0.2.10:7777"), "and from where it was received");
    assert_eq!(
        answer.get("Via").unwrap(),
        "SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bKx1;received=192.0.2.10;rport=7777"
    );
    // Without it: the port in sent-by, 5060 if there is none (18.2.2).
    req.via = "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bKx2".to_owned();
    let answer = lab.ask("192.0.2.10:7777", req.text());
    assert_eq!(answer.to(), "192.0.2.10:5060");
    assert_eq!(answer.get("Via").unwrap(), "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bKx2");
    req.via = "SIP/2.0/UDP 192.0.2.10:5070;branch=z9hG4bKx3".to_owned();
    assert_eq!(lab.ask("192.0.2.10:7777", req.text()).to(), "192.0.2.10:5070");
}

#[test]
fn an_answer_never_goes_to_an_address_that_the_request_names() {
    let mut lab = Lab::new();
    for via in [
        "SIP/2.0/UDP 203.0.113.9:53;branch=z9hG4bKv1",
        "SIP/2.0/UDP 192.0.2.10;maddr=203.0.113.9;branch=z9hG4bKv2",
        "SIP/2.0/UDP 192.0.2.10;received=203.0.113.9;branch=z9hG4bKv3",
        "SIP/2.0/UDP 255.255.255.255:5060;branch=z9hG4bKv4",
        "SIP/2.0/UDP 192.0.2.10;received=203.0.113.9;rport=53;branch=z9hG4bKv5",
        "SIP/2.0/UDP victim.example;branch=z9hG4bKv6",
    ] {
        let mut req = Req::new("OPTIONS", "sip:here.example");
        req.via = via.to_owned();
        let answer = lab.ask(CAROL, req.text());
        assert_eq!(answer.flow.remote.ip().to_string(), "192.0.2.10", "{via}");
        assert!(!answer.get("Via").unwrap().contains("received=203"), "{}", answer.text);
    }
}

#[test]
fn a_client_behind_address_translation_is_answered_through_the_hole_it_made() {
    let mut lab = Lab::new();
    let req = Req::new("OPTIONS", "sip:here.example").sent_by("UDP", "10.0.0.7:5060");
    let answer = lab.ask("192.0.2.10:40123", req.text());
    assert_eq!(answer.to(), "192.0.2.10:40123");
    assert!(answer.get("Via").unwrap().ends_with(";received=192.0.2.10;rport=40123"), "{}", answer.text);
}

#[test]
fn connection_matters_when_a_phone_registers_or_a_call_is_answered() {
    let mut lab = Lab::with(|s| s.auth.enabled = false);
    let flow = tcp("192.0.2.10:40000", 9);
    let kept = |lab: &mut Lab, text: String| {
        lab.send_on(flow, text);
        let kept = lab.kept();
        (kept, lab.sent())
    };
    let register = |lines: &[&str]| {
        let mut req = Req::new("REGISTER", "sip:here.example").sent_by("TCP", "192.0.2.10:5060");
        req.from = "<sip:alice@here.example>;tag=r".to_owned();
        req.to = "<sip:alice@here.example>".to_owned();
        req.lines = lines.iter().map(|line| (*line).to_owned()).collect();
        req.text()
    };
    let options = Req::new("OPTIONS", "sip:here.example").sent_by("TCP", "192.0.2.10:5060");
    assert_eq!(kept(&mut lab, options.text()).0, [0]);
    assert_eq!(kept(&mut lab, register(&[])).0, [0], "nothing is registered");
    assert_eq!(kept(&mut lab, register(&["Contact: <sip:alice@192.0.2.10>"])).0, [7_260]);
    assert_eq!(kept(&mut lab, register(&["Contact: *", "Expires: 0"])).0, [0]);
    lab.bind("bob", "<sip:bob@192.0.2.20:5060>", udp("192.0.2.20:5060"));
    let call = Req::new("INVITE", "sip:bob@here.example").sent_by("TCP", "192.0.2.10:5060");
    let (first, sent) = kept(&mut lab, call.text());
    assert_eq!(first, [0, 0]);
    let invite = sent.iter().find(|s| s.text.starts_with("INVITE")).unwrap();
    for (status, seconds) in [(180, 0), (200, 7_200)] {
        lab.send("192.0.2.20:5060", invite.reply(status, "t", "Contact: <sip:bob@192.0.2.20>\r\n"));
        assert_eq!(lab.kept(), [seconds], "{status}");
        lab.sent();
    }
}

/// A stranger's call over a stream that was answered: the INVITE as sent, as received and the response.
fn stranger_calls(lab: &mut Lab, flow: Flow) -> (Req, Sent, Sent) {
    let req = Req::invite().sent_by("TCP", CAROL);
    lab.send_on(flow, req.text());
    let got = lab.sent().into_iter().find(|s| s.to() == BOB).expect("forwarded");
    lab.send(BOB, got.reply(180, "b", ""));
    assert_eq!(lab.used(), [false], "it only rings");
    lab.sent();
    lab.send(BOB, got.accept("b"));
    assert_eq!(lab.used(), [true]);
    let ok = lab.one();
    (req, got, ok)
}

#[test]
fn stranger_connection_is_in_use_while_its_call_lasts() {
    let flow = tcp("192.0.2.10:40000", 9);
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let (req, got, ok) = stranger_calls(&mut lab, flow);
    lab.send(BOB, got.accept("b"));
    assert_eq!(lab.used(), [false], "once for a call");
    lab.sent();
    lab.send_on(flow, req.within("ACK", &ok).text());
    lab.pass(600_000);
    assert_eq!(lab.out.releases(), []);
    lab.sent();
    lab.send_on(flow, req.within("BYE", &ok).text());
    let bye = lab.one();
    assert_eq!(lab.out.releases(), []);
    lab.send(BOB, bye.reply(200, "b", ""));
    assert_eq!(lab.out.releases(), [flow.conn.unwrap()]);
    lab.sent();
    lab.rest();
}

#[test]
fn stranger_connection_is_released_when_its_call_ends_unseen() {
    let flow = tcp("192.0.2.10:40000", 9);
    // The callee hangs up, and the caller does not answer.
    let mut lab = Lab::with(|s| s.auth.in_dialog = false);
    lab.phones(&[BOB]);
    let (_, got, _) = stranger_calls(&mut lab, flow);
    lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
    assert_eq!(lab.one().method(), "BYE");
    lab.pass(33_000);
    assert_eq!(lab.out.releases(), [flow.conn.unwrap()]);
    lab.sent();
    // Nobody ever hangs up.
    stranger_calls(&mut lab, flow);
    lab.pass(24 * 3_600_000);
    assert_eq!(lab.out.releases(), [flow.conn.unwrap()]);
    // The call takes another way than through this server.
    lab.reconfigure(|s| s.proxy.record_route = false);
    lab.phones(&[BOB]);
    lab.sent();
    let (.., ok) = stranger_calls(&mut lab, flow);
    assert_eq!((ok.status(), lab.report().call_count), (200, 0));
}

#[test]
fn stranger_call_that_changes_its_connection_uses_the_new_one() {
    let (old, new) = (tcp("192.0.2.10:40000", 9), tcp("192.0.2.10:40001", 10));
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let (req, _, ok) = stranger_calls(&mut lab, old);
    lab.send_on(old, req.within("ACK", &ok).text());
    lab.sent();
    lab.send_on(new, req.within("INVITE", &ok).text());
    let again = lab.sent().into_iter().find(|s| s.to() == BOB).expect("forwarded");
    lab.send(BOB, again.accept("b"));
    assert_eq!((lab.used(), lab.out.releases()), (vec![true], &[old.conn.unwrap()][..]));
}

#[test]
fn over_a_stream_the_answer_goes_back_on_the_connection() {
    let mut lab = Lab::new();
    let flow = tcp("192.0.2.10:40000", 9);
    let req = Req::new("OPTIONS", "sip:here.example").sent_by("TCP", "192.0.2.10:5060");
    lab.send_on(flow, req.text());
    assert_eq!(lab.one().flow, flow);
}

#[test]
fn the_received_via_of_a_forwarded_request_says_where_it_came_from() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let mut req = Req::invite();
    req.via = "SIP/2.0/UDP 10.1.1.1:5060;rport;branch=z9hG4bKn1".to_owned();
    let sent = lab.invite("192.0.2.10:7000", req.text());
    let vias = sent[0].all("Via");
    assert_eq!(vias.len(), 2);
    assert_eq!(vias[1], "SIP/2.0/UDP 10.1.1.1:5060;branch=z9hG4bKn1;received=192.0.2.10;rport=7000");
    lab.send(BOB, sent[0].reply(180, "b", ""));
    assert_eq!(lab.one().to(), "192.0.2.10:7000");
    // 18.2.1: wherever sent-by is a name or another address, unasked; not where it is the same.
    for (sent_by, added) in [
        ("pc.far.example", ";received=192.0.2.10"),
        ("10.1.1.1", ";received=192.0.2.10;rport=5060"),
        ("192.0.2.10", ""),
    ] {
        let req = Req::invite().sent_by("UDP", sent_by);
        let sent = lab.invite(CAROL, req.text());
        assert_eq!(sent[0].all("Via")[1], format!("{}{added}", req.via));
        lab.send(BOB, sent[0].reply(486, "b", ""));
        lab.sent();
    }
}

#[test]
fn large_requests_go_over_tcp_and_then_over_udp_after_all() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    // Where a URI chooses: of a binding it is known how its phone is reached.
    let mut req = Req::new("INVITE", "sip:bob@192.0.2.20:5060");
    req.body = "x".repeat(1_300);
    let sent = lab.invite(CAROL, req.text());
    assert_eq!((sent[0].flow.transport, sent[0].to().as_str()), (Transport::Tcp, BOB));
    assert!(sent[0].get("Via").unwrap().starts_with("SIP/2.0/TCP 198.51.100.1:5060;"), "{}", sent[0].text);
    // 18.1.1: a peer without TCP gets it over UDP, and soon.
    assert!(sent[0].hurries);
    lab.undeliverable(&sent[0]);
    let again = lab.one();
    assert_eq!((again.flow.transport, again.to().as_str()), (Transport::Udp, BOB));
    assert!(again.get("Via").unwrap().starts_with("SIP/2.0/UDP 198.51.100.1:5060;") && !again.hurries);
    lab.send(BOB, again.accept("b"));
    assert_eq!(lab.one().status(), 200);
    lab.rest();
}

#[test]
fn large_requests_within_a_dialog_go_over_tcp_too() {
    let trunk_at = "203.0.113.5:5060";
    let mut lab = Lab::open();
    lab.reconfigure(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    let req = Req::new("INVITE", "sip:+491@here.example").alice();
    let sent = lab.invite(ALICE, req.text());
    let ok = lab.ask(trunk_at, sent[0].accept("b"));
    let mut update = req.within("INFO", &ok);
    update.body = "x".repeat(1_300);
    let sent = lab.ask(ALICE, update.text());
    assert_eq!((sent.flow.transport, sent.to().as_str()), (Transport::Tcp, trunk_at));
    assert!(sent.hurries);
    lab.undeliverable(&sent);
    let sent = lab.one();
    assert_eq!((sent.flow.transport, sent.to().as_str()), (Transport::Udp, trunk_at));
}

#[test]
fn every_message_of_a_call_has_the_same_owner_however_it_is_spelled() {
    let lab = Lab::new();
    let owner = |head: &str| lab.node.owner(format!("{head}\r\n\r\n").as_bytes(), 64).expect("an owner");
    let start = "INVITE sip:bob@here.example SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1";
    let first = owner(&format!("{start}\r\nCall-ID: abc@x"));
    for spelling in [
        "call-id:abc@x",
        "CALL-ID : abc@x",
        "i: abc@x",
        "I\t:abc@x",
        "Call-ID:\r\n abc@x",
        "Call-ID: abc@x  ",
    ] {
        assert_eq!(owner(&format!("{start}\r\n{spelling}")), first, "{spelling}");
    }
    for other in ["SIP/2.0 200 OK", "ACK sip:x SIP/2.0", "CANCEL sip:x SIP/2.0", "BYE sip:x SIP/2.0"] {
        assert_eq!(owner(&format!("{other}\r\ni: abc@x")), first, "{other}");
    }
    let owners: Vec<u16> = (0..200).map(|n| owner(&format!("{start}\r\nCall-ID: {n}@x"))).collect();
    assert!(owners.iter().all(|o| *o < 64));
    assert!((0..64).filter(|o| owners.contains(o)).count() > 40, "spread over the workers");
}

#[test]
fn a_response_goes_through_what_both_sides_speak() {
    // UDP in, TCP out, and back.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.0.2.20:5060;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent[0].flow, tcp("192.0.2.20:41000", 3));
    lab.send_on(tcp("192.0.2.20:41000", 3), sent[0].accept("b"));
    let ok = lab.one();
    assert_eq!((ok.flow.transport, ok.to().as_str()), (Transport::Udp, CAROL));
    // IPv6 in, IPv4 out.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite().sent_by("UDP", "[2001:db8::10]:5060");
    let sent = lab.invite("[2001:db8::10]:5060", req.text());
    assert_eq!((sent[0].flow.listener, sent[0].to().as_str()), (ListenerId(0), BOB));
    assert!(sent[0].get("Via").unwrap().contains("198.51.100.1"));
    lab.send(BOB, sent[0].accept("b"));
    assert_eq!(lab.one().flow, udp("[2001:db8::10]:5060"));
}

#[test]
fn a_binding_whose_connection_is_gone_is_tried_at_its_contact() {
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.0.2.20:5080;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent[0].to(), "192.0.2.20:41000");
    lab.undeliverable(&sent[0]);
    let again = lab.one();
    assert_eq!((again.flow.transport, again.to().as_str()), (Transport::Tcp, "192.0.2.20:5080"));
    assert_eq!(again.flow.conn, None);
    // That fails as well: the end.
    lab.undeliverable(&again);
    assert_eq!(lab.one().status(), 480);
    lab.rest();
}

#[test]
fn caller_gets_480_when_a_phones_connection_is_gone() {
    for contact in ["<sip:bob@192.168.1.5:5080;transport=tcp>", "<sip:bob@192.0.2.20:41000;transport=tcp>"] {
        for method in ["INVITE", "MESSAGE"] {
            let mut lab = Lab::new();
            lab.bind("bob", contact, tcp("192.0.2.20:41000", 3));
            lab.send(CAROL, Req::new(method, "sip:bob@here.example").text());
            let mut sent = lab.sent();
            while let Some(way) = sent.iter().find(|sent| sent.status() == 0).cloned() {
                lab.undeliverable(&way);
                sent = lab.sent();
            }
            assert_eq!(statuses(&sent), [480], "{method} {contact}");
        }
    }
    // A phone that answers 503 is there.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.168.1.5:5080;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send_on(sent[0].flow, sent[0].reply(503, "b", ""));
    assert_eq!(statuses(&lab.sent()), [500]);
    // Even if nothing is at its other address.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.0.2.20:5080;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send_on(sent[0].flow, sent[0].reply(503, "b", ""));
    let again = lab.sent().into_iter().find(|sent| sent.method() == "INVITE").unwrap();
    assert_eq!(again.to(), "192.0.2.20:5080");
    lab.undeliverable(&again);
    assert_eq!(statuses(&lab.sent()), [500]);
}

#[test]
fn a_contact_in_our_own_network_is_not_tried_when_the_connection_is_gone() {
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@127.0.0.1:8080;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.undeliverable(&sent[0]);
    assert_eq!(requests(&lab.sent()), []);
}

#[test]
fn a_dialog_over_a_connection_goes_on_at_the_contact_when_that_is_gone() {
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.0.2.20:5080;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    let answer = sent[0].reply(200, "b", "Contact: <sip:bob@192.0.2.20:5080;transport=tcp>\r\n");
    lab.send_on(tcp("192.0.2.20:41000", 3), answer);
    let ok = lab.one();
    let first = lab.ask(CAROL, req.within("BYE", &ok).text());
    assert_eq!(first.to(), "192.0.2.20:41000");
    lab.undeliverable(&first);
    let second = lab.one();
    assert_eq!((second.flow.transport, second.to().as_str()), (Transport::Tcp, "192.0.2.20:5080"));
}

#[test]
fn phones_behind_address_translation_are_reached_through_it() {
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.168.1.5:5060>", udp("192.0.2.20:40222"));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent[0].to(), "192.0.2.20:40222");
    assert_eq!(sent[0].uri(), "sip:bob@192.168.1.5:5060");
}

/// RFC 3261 section 18.2.2.
#[test]
fn response_goes_over_a_new_connection_when_its_own_is_gone() {
    let gone = tcp("192.0.2.10:40000", 9);
    for (sent_by, status, to) in [
        ("192.0.2.10:5060", 200, Some("192.0.2.10:5060")),
        ("pc.far.example:5070", 200, Some("192.0.2.10:5070")),
        ("pc.far.example", 486, Some("192.0.2.10:5060")),
        // Never to an address that the request names.
        ("203.0.113.9:5080", 200, Some("192.0.2.10:5080")),
        ("192.0.2.10:8080", 200, None),
    ] {
        let mut lab = Lab::with(|s| s.admin = Some("192.0.2.10:8080".parse().unwrap()));
        lab.phones(&[BOB]);
        let invite = Req::invite().sent_by("TCP", sent_by);
        lab.send_on(gone, invite.text());
        let got = lab.sent().into_iter().find(|s| s.status() == 0).unwrap();
        lab.send(BOB, got.reply(180, "b", ""));
        let ringing = lab.one();
        assert_eq!((ringing.status(), ringing.flow), (180, gone));
        lab.undeliverable(&ringing);
        lab.silent();
        lab.send(BOB, got.reply(status, "b", &format!("Contact: <sip:bob@{BOB}>\r\n")));
        let answer = lab.sent().into_iter().find(|s| s.status() == status).unwrap();
        assert_eq!(answer.flow, gone, "{sent_by}");
        lab.undeliverable(&answer);
        let again = lab.sent();
        let expected: Vec<Flow> = to.iter().map(|to| Flow { conn: None, ..tcp(to, 9) }).collect();
        assert_eq!(again.iter().map(|s| s.flow).collect::<Vec<_>>(), expected, "{sent_by}");
        assert!(again.iter().all(|s| s.text == answer.text));
        // Nobody accepts there either: the end.
        again.iter().for_each(|s| lab.undeliverable(s));
        lab.silent();
        lab.rest();
    }
    // Without transactions, and what this server answers itself, as well.
    let mut lab = Lab::with(|s| s.proxy.mode = Mode::Stateless);
    lab.phones(&[BOB]);
    lab.send_on(gone, Req::invite().sent_by("TCP", "192.0.2.10:5060").text());
    let got = lab.one();
    let answer = lab.ask(BOB, got.accept("b"));
    lab.undeliverable(&answer);
    assert_eq!(lab.one().flow, Flow { conn: None, ..tcp("192.0.2.10:5060", 9) });
    let mut lab = Lab::open();
    let mut register = Req::new("REGISTER", "sip:here.example").sent_by("TCP", "192.0.2.10:5060");
    register.to = "<sip:bob@here.example>".to_owned();
    lab.send_on(gone, register.text());
    let answer = lab.one();
    // Not where it had left before the connection ended: it may have been read.
    lab.node.cut_off(lab.now, answer.token, &mut lab.out);
    lab.silent();
    lab.undeliverable(&answer);
    assert_eq!(lab.one().flow, Flow { conn: None, ..tcp("192.0.2.10:5060", 9) });
}

#[test]
fn what_the_network_gives_back_was_not_delivered() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    // Too little to be believed, or somebody else's.
    lab.give_back(&sent[0], 60);
    lab.node.returned(lab.now, sent[0].flow.remote, Req::invite().text().as_bytes(), &mut lab.out);
    lab.silent();
    lab.give_back(&sent[0], 548);
    assert_eq!(statuses(&lab.sent()), [500]);
    lab.give_back(&sent[0], 548);
    lab.silent();
    // Of a call that rings meanwhile, and of responses, nothing ends.
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    let ringing = lab.one();
    lab.give_back(&sent[0], 548);
    lab.give_back(&ringing, 548);
    lab.silent();
    lab.send(BOB, sent[0].accept("b"));
    assert_eq!(lab.one().status(), 200);
    lab.rest();
}

#[test]
fn no_request_leaves_in_a_datagram_that_is_too_large() {
    // 18.1.1: 1,300 bytes where the path MTU is not known, to where a URI chooses. What a proxy adds counts.
    let bob = "sip:bob@192.0.2.20:5060";
    let invite = || Req::new("INVITE", bob);
    for (from, req) in [
        (udp(CAROL), invite()),
        (tcp(CAROL, 9), invite()),
        (udp("192.0.2.10:40123"), invite().sent_by("UDP", "10.0.0.7:5060")),
        (udp("[2001:db8::10]:5060"), invite().sent_by("UDP", "[2001:db8::10]:5060")),
        (udp(CAROL), Req::new("MESSAGE", bob)),
    ] {
        let mut lab = Lab::open();
        lab.phones(&[BOB]);
        let mut seen = Vec::new();
        for size in 400..1_100 {
            let via = req.via.split(";branch").next().unwrap();
            let body = "x".repeat(size);
            let req = Req { via: format!("{via};branch=z9hG4bKs{size}"), body, ..req.clone() };
            lab.send_on(from, req.text());
            let sent = lab.sent().into_iter().find(|s| s.status() == 0).unwrap();
            if sent.flow.transport == Transport::Udp {
                let (came, left) = (req.text().len(), sent.text.len());
                assert!(left <= 1_300, "{left} bytes of {came} from {from:?}");
            }
            seen.push(sent.flow.transport);
            lab.send_on(sent.flow, sent.reply(486, "b", ""));
            lab.sent();
        }
        seen.dedup();
        assert_eq!(seen, [Transport::Udp, Transport::Tcp], "from {from:?}");
    }
}

#[test]
fn a_response_may_come_another_way_than_its_request_went() {
    // 18.1.1: on a new connection, where the old one is gone, or from another port.
    let mut lab = Lab::new();
    lab.bind("bob", "<sip:bob@192.0.2.20;transport=tcp>", tcp("192.0.2.20:41000", 3));
    for flow in [tcp("192.0.2.20:42000", 8), udp("192.0.2.20:5070")] {
        let sent = lab.invite(CAROL, Req::invite().text());
        assert_eq!(sent[0].flow, tcp("192.0.2.20:41000", 3));
        lab.send_on(flow, sent[0].accept("b"));
        let ok = lab.one();
        assert_eq!((ok.status(), ok.flow), (200, udp(CAROL)));
    }
}

#[test]
fn maddr_says_where_a_request_goes() {
    // RFC 3263 section 4; the URI stays as it is.
    let mut lab = Lab::open();
    let uri = "sip:x@far.example;maddr=203.0.113.9";
    let sent = lab.invite(ALICE, Req::new("INVITE", uri).alice().text());
    assert_eq!((sent[0].to().as_str(), sent[0].uri()), ("203.0.113.9:5060", uri));
}
