//! Several targets: RFC 3261 16.6, 16.7 and 16.10, RFC 5626 section 7, redirection.

use super::*;

#[test]
fn equal_q_at_once_and_the_first_answer_ends_the_others() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent.len(), 2);
    assert_ne!(sent[0].get("Via"), sent[1].get("Via"), "each branch has its own");
    lab.send(BOB2, sent[1].reply(180, "c", ""));
    lab.sent();
    lab.send(BOB, sent[0].accept("b"));
    let after = lab.sent();
    assert_eq!(statuses(&after), [200]);
    let cancel = after.iter().find(|s| s.method() == "CANCEL").expect("16.7 step 10");
    assert_eq!((cancel.to().as_str(), cancel.uri()), (BOB2, sent[1].uri()));
    assert_eq!(cancel.get("Via"), sent[1].get("Via"));
    // RFC 3326 section 3.1: so that it is no missed call.
    assert!(cancel.get("Reason").unwrap().contains("cause=200"), "{}", cancel.text);
    lab.send(BOB2, cancel.reply(200, "c", ""));
    lab.send(BOB2, sent[1].reply(487, "c", ""));
    let end = lab.sent();
    assert_eq!((requests(&end), statuses(&end)), (vec![("ACK".to_owned(), BOB2.to_owned())], vec![]));
    lab.rest();
}

#[test]
fn both_of_two_answers_go_to_the_caller_and_each_ack_to_its_own() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    for s in &sent {
        lab.send(&s.to(), s.reply(180, "r", ""));
    }
    lab.sent();
    let one = lab.ask_first(BOB, sent[0].accept("one"));
    let two = lab.ask_first(BOB2, sent[1].accept("two"));
    assert_eq!((one.status(), two.status()), (200, 200));
    for (ok, phone) in [(&one, BOB), (&two, BOB2)] {
        let ack = lab.ask(CAROL, req.within("ACK", ok).text());
        assert_eq!((ack.method(), ack.to().as_str()), ("ACK", phone));
    }
    let bye = lab.ask(CAROL, req.within("BYE", &two).text());
    assert_eq!(bye.to(), BOB2);
}

impl Lab {
    /// The response among what this led to.
    fn ask_first(&mut self, from: &str, text: String) -> Sent {
        self.send(from, text);
        self.sent().into_iter().find(|s| s.status() > 0).expect("a response")
    }
}

#[test]
fn an_answer_repeated_while_others_are_being_cancelled_counts_once() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB2, sent[1].reply(180, "c", ""));
    lab.sent();
    for _ in 0..2 {
        assert_eq!(lab.ask_first(BOB, sent[0].accept("b")).status(), 200);
    }
    assert_eq!((lab.count(Counter::CallsAnswered), lab.count(Counter::Relayed)), (1, 3));
}

#[test]
fn redirections_to_what_is_no_place_to_call_are_passed_on() {
    for contact in ["<mailto:bob@x.example>", "<tel:+49123>", "<sip:x@203.0.113.9?Route=evil>", "broken<"] {
        let mut lab = Lab::with(|s| {
            s.proxy.recurse = true;
            s.auth.enabled = false;
        });
        lab.phones(&[BOB]);
        let sent = lab.invite(ALICE, Req::invite().alice().text());
        lab.send(BOB, sent[0].reply(302, "b", &format!("Contact: {contact}\r\n")));
        assert_eq!(statuses(&lab.sent()), [302], "{contact}");
        lab.rest();
    }
}

#[test]
fn falling_q_one_after_the_other() {
    let mut lab = Lab::with(|s| s.proxy.parallel = false);
    lab.bind("bob", &format!("<sip:bob@{BOB2}>;q=0.5"), udp(BOB2));
    lab.bind("bob", &format!("<sip:bob@{BOB3}>;q=0.1"), udp(BOB3));
    lab.bind("bob", &format!("<sip:bob@{BOB}>;q=1.0"), udp(BOB));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(requests(&sent), [("INVITE".to_owned(), BOB.to_owned())]);
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let next = lab.sent();
    assert_eq!(requests(&next)[..], [("ACK".to_owned(), BOB.to_owned()), ("INVITE".into(), BOB2.into())]);
    let second = next.iter().find(|s| s.method() == "INVITE").unwrap().clone();
    lab.send(BOB2, second.accept("c"));
    assert_eq!(statuses(&lab.sent()), [200]);
    lab.rest();
}

#[test]
fn equal_q_one_after_the_other_if_the_operator_wants_it() {
    let mut lab = Lab::with(|s| s.proxy.parallel = false);
    lab.bind("bob", &format!("<sip:bob@{BOB3}>;q=0.5"), udp(BOB3));
    lab.phones(&[BOB, BOB2]);
    let mut sent = lab.invite(CAROL, Req::invite().text());
    for (at, next) in [(BOB, BOB2), (BOB2, BOB3)] {
        assert_eq!(requests(&sent), [("INVITE".to_owned(), at.to_owned())]);
        lab.send(at, sent[0].reply(486, "b", ""));
        sent = lab.sent().into_iter().filter(|s| s.method() == "INVITE").collect();
        assert_eq!(requests(&sent), [("INVITE".to_owned(), next.to_owned())]);
    }
    lab.send(BOB3, sent[0].accept("c"));
    assert_eq!(statuses(&lab.sent()), [200]);
    lab.rest();
}

#[test]
fn the_best_of_several_failures_goes_to_the_caller() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2, BOB3]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(503, "a", ""));
    lab.send(BOB2, sent[1].reply(404, "b", "X-Kept: yes\r\n"));
    assert!(statuses(&lab.sent()).is_empty());
    lab.send(BOB3, sent[2].reply(500, "c", ""));
    let end = lab.sent();
    let best = end.iter().find(|s| s.status() > 0).unwrap();
    assert_eq!((best.status(), best.get("X-Kept")), (404, Some("yes")));
    assert_eq!(best.all("Via").len(), 1);
    lab.rest();
}

#[test]
fn a_6xx_ends_everything() {
    let mut lab = Lab::new();
    lab.bind("bob", &format!("<sip:bob@{BOB3}>;q=0.1"), udp(BOB3));
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent.len(), 2);
    lab.send(BOB2, sent[1].reply(180, "c", ""));
    lab.sent();
    lab.send(BOB, sent[0].reply(603, "b", ""));
    let after = lab.sent();
    // It waits for the cancelled branch (16.7 step 5), and tries no other target.
    assert_eq!(requests(&after), [("ACK".to_owned(), BOB.to_owned()), ("CANCEL".into(), BOB2.into())]);
    assert!(statuses(&after).is_empty());
    lab.send(BOB2, sent[1].reply(487, "c", ""));
    assert_eq!(statuses(&lab.sent()), [603]);
    lab.rest();
}

#[test]
fn challenges_are_gathered_whichever_comes_last() {
    let challenge = |realm: &str| format!("Digest realm=\"{realm}\", nonce=\"n\"");
    for last in [0, 1, 2] {
        let mut lab = Lab::new();
        lab.phones(&[BOB, BOB2, BOB3]);
        let sent = lab.invite(CAROL, Req::invite().text());
        let answers = [
            sent[0].reply(407, "a", &format!("Proxy-Authenticate: {}\r\n", challenge("one"))),
            sent[1].reply(401, "b", &format!("WWW-Authenticate: {}\r\n", challenge("two"))),
            sent[2].reply(486, "c", ""),
        ];
        let order = [(last + 1) % 3, (last + 2) % 3, last];
        for at in order {
            lab.send(&sent[at].to(), &answers[at]);
        }
        let end = lab.sent();
        let best = end.iter().find(|s| s.status() > 0).unwrap();
        assert!(matches!(best.status(), 401 | 407), "{}", best.text);
        assert_eq!(best.all("Proxy-Authenticate"), [challenge("one")], "last {last}: {}", best.text);
        assert_eq!(best.all("WWW-Authenticate"), [challenge("two")], "last {last}: {}", best.text);
        lab.rest();
    }
}

#[test]
fn two_flows_of_one_phone_are_one_target() {
    // RFC 5626 section 7: never both at a time; the other after 430 or 408 only.
    let instance = "+sip.instance=\"<urn:uuid:1>\"";
    let lines = "Supported: path, outbound\r\n";
    let lab = || {
        let mut lab = Lab::new();
        lab.bind_with("bob", &format!("<sip:bob@{BOB2}>;{instance};reg-id=2"), tcp(BOB2, 2), lines);
        lab.bind_with("bob", &format!("<sip:bob@{BOB}>;{instance};reg-id=1"), tcp(BOB, 1), lines);
        lab.bind("bob", &format!("<sip:bob@{BOB3}>"), udp(BOB3));
        lab
    };
    let mut one = lab();
    let sent = one.invite(CAROL, Req::invite().text());
    let to = |sent: &[Sent]| requests(sent).into_iter().map(|r| r.1).collect::<Vec<_>>();
    let first: Vec<String> = to(&sent);
    assert_eq!(first.len(), 2, "one flow, and the other phone: {first:?}");
    let flow = sent.iter().find(|s| s.flow.transport == Transport::Tcp).unwrap();
    let other = if flow.to() == BOB { BOB2 } else { BOB };
    // 430 from further on: the other flow.
    one.send_on(flow.flow, flow.reply(430, "x", ""));
    assert!(requests(&one.sent()).contains(&("INVITE".to_owned(), other.to_owned())));
    // The connection is gone: likewise, and nothing is opened to the Contact.
    let mut two = lab();
    let sent = two.invite(CAROL, Req::invite().text());
    let flow = sent.iter().find(|s| s.flow.transport == Transport::Tcp).unwrap();
    two.undeliverable(flow);
    assert_eq!(requests(&two.sent()), [("INVITE".to_owned(), other.to_owned())]);
    // Busy: the phone has spoken.
    let mut three = lab();
    let sent = three.invite(CAROL, Req::invite().text());
    let flow = sent.iter().find(|s| s.flow.transport == Transport::Tcp).unwrap();
    three.send_on(flow.flow, flow.reply(486, "x", ""));
    assert_eq!(requests(&three.sent()), [("ACK".to_owned(), flow.to())]);
}

#[test]
fn a_phone_whose_only_flow_is_gone() {
    let mut lab = Lab::new();
    let contact = format!("<sip:bob@{BOB}>;+sip.instance=\"<urn:uuid:1>\";reg-id=1");
    lab.bind_with("bob", &contact, tcp("192.0.2.20:41000", 1), "Supported: path, outbound\r\n");
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.undeliverable(&sent[0]);
    // RFC 5626 section 11.6: 430 is not for callers.
    assert_eq!(statuses(&lab.sent()), [480]);
    lab.rest();
}

#[test]
fn caller_gets_480_when_an_edge_proxy_answers_430() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(430, "b", ""));
    assert_eq!(statuses(&lab.sent()), [480]);
    lab.rest();
}

#[test]
fn redirections_are_passed_on_or_followed() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(302, "b", "Contact: <sip:bob@192.0.2.99>\r\n"));
    let end = lab.sent();
    let moved = end.iter().find(|s| s.status() > 0).unwrap();
    assert_eq!((moved.status(), moved.get("Contact")), (302, Some("<sip:bob@192.0.2.99>")));
    // Followed (16.7 step 4) for a caller who may call there.
    let mut lab = Lab::with(|s| {
        s.proxy.recurse = true;
        s.auth.enabled = false;
    });
    lab.phones(&[BOB]);
    let sent = lab.invite(ALICE, Req::invite().alice().text());
    lab.send(BOB, sent[0].reply(302, "b", "Contact: <sip:bob@192.0.2.99>, <sip:bob@192.0.2.20:5060>\r\n"));
    let next = lab.sent();
    assert!(statuses(&next).is_empty(), "{next:?}");
    assert_eq!(requests(&next)[1..], [("INVITE".to_owned(), "192.0.2.99:5060".to_owned())]);
    // For a stranger it is passed on: he would get out of our domain on our word.
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(302, "b", "Contact: <sip:bob@192.0.2.99>\r\n"));
    assert_eq!(statuses(&lab.sent()), [302]);
    lab.rest();
}

#[test]
fn the_contacts_of_a_redirection_are_tried_in_the_order_of_their_q() {
    for parallel in [true, false] {
        let mut lab = Lab::with(|s| {
            s.proxy.recurse = true;
            s.proxy.parallel = parallel;
            s.auth.enabled = false;
        });
        lab.phones(&[BOB]);
        let sent = lab.invite(ALICE, Req::invite().alice().text());
        let contacts = "<sip:bob@192.0.2.97>;q=0.1, <sip:bob@192.0.2.99>;q=0.9, <sip:bob@192.0.2.98>;q=0.9";
        lab.send(BOB, sent[0].reply(302, "b", &format!("Contact: {contacts}\r\n")));
        let to = |sent: &[Sent]| -> Vec<String> {
            requests(sent).into_iter().filter(|(m, _)| m == "INVITE").map(|(_, to)| to).collect()
        };
        let mut next = lab.sent();
        let (mut tried, mut rounds) = (Vec::new(), 0);
        while !to(&next).is_empty() {
            rounds += 1;
            tried.extend(to(&next));
            let mut after = Vec::new();
            for invite in next.iter().filter(|s| s.method() == "INVITE") {
                lab.send(invite.to().as_str(), invite.reply(486, "x", ""));
                after.extend(lab.sent());
            }
            next = after;
        }
        assert_eq!(tried, ["192.0.2.99:5060", "192.0.2.98:5060", "192.0.2.97:5060"]);
        assert_eq!(rounds, if parallel { 2 } else { 3 });
    }
}

#[test]
fn a_redirection_to_another_user_of_ours_rings_his_phones() {
    let mut lab = Lab::with(|s| {
        s.proxy.recurse = true;
        s.auth.enabled = false;
    });
    lab.phones(&[BOB]);
    lab.bind("dave", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let sent = lab.invite(ALICE, Req::invite().alice().text());
    lab.send(BOB, sent[0].reply(302, "b", "Contact: <sip:dave@here.example>\r\n"));
    let next = lab.sent();
    assert_eq!(requests(&next)[1..], [("INVITE".to_owned(), "192.0.2.40:5060".to_owned())]);
    assert!(lab.world.questions.borrow().is_empty());
}

#[test]
fn a_redirect_server_answers_with_the_target_set() {
    let mut lab = Lab::with(|s| s.proxy.mode = Mode::Redirect);
    lab.bind("bob", &format!("<sip:bob@{BOB2}>;q=0.5"), udp(BOB2));
    lab.phones(&[BOB]);
    let req = Req::invite();
    let moved = lab.ask(CAROL, req.text());
    assert_eq!(moved.status(), 302);
    assert_eq!(moved.get("Contact").unwrap(), format!("<sip:bob@{BOB}>, <sip:bob@{BOB2}>;q=0.500"));
    lab.send(CAROL, req.ack(&moved).text());
    lab.silent();
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:dave@here.example").text()).status(), 480);
    lab.rest();
}

#[test]
fn an_invite_gets_a_final_response_however_many_are_tried_in_turn() {
    let mut lab = Lab::new();
    for i in 1..=9 {
        let address = format!("192.0.2.{}:5060", 100 + i);
        lab.bind("bob", &format!("<sip:bob@{address}>;q=0.{i}"), udp(&address));
    }
    lab.invite(CAROL, Req::invite().text());
    lab.pass(400_000);
    let sent = lab.sent();
    assert_eq!(
        requests(&sent).iter().filter(|(method, to)| method == "INVITE" && to == "192.0.2.101:5060").count(),
        7
    );
    assert_eq!(statuses(&sent)[0], 408);
    lab.rest();
}

#[test]
fn nobody_is_redirected_to_what_was_asked_for() {
    // 8.3.
    let mut lab = Lab::with(|s| {
        s.proxy.mode = Mode::Redirect;
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"desk".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Redirect(vec![b"sip:desk@here.example".to_vec()]),
        });
    });
    // The registrar takes no address-of-record as its own contact; another name of it may do harm too.
    lab.bind("bob", "<sip:bob@198.51.100.1>", udp(BOB));
    let same = Req::new("INVITE", "sip:%62ob@198.51.100.1");
    assert_eq!(lab.ask(CAROL, same.text()).status(), 404);
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:desk@here.example").text()).status(), 404);
    lab.phones(&[BOB]);
    let moved = lab.ask(CAROL, same.sent_by("UDP", CAROL).text());
    assert_eq!((moved.status(), moved.get("Contact").unwrap()), (302, &*format!("<sip:bob@{BOB}>")));
    // What leads elsewhere is forwarded instead.
    let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:x@203.0.113.9").alice());
    assert_eq!(requests(&sent), [("INVITE".to_owned(), "203.0.113.9:5060".to_owned())]);
    lab.rest();
}

#[test]
fn a_redirect_server_ignores_what_it_does_not_know_and_answers_cancels() {
    // 8.3: header fields, option tags of Require, even methods.
    let mut lab = Lab::with(|s| {
        s.proxy.mode = Mode::Redirect;
        s.proxy.strangers.methods.push(b"FROB".to_vec());
    });
    lab.phones(&[BOB]);
    let odd = Req::new("FROB", "sip:bob@here.example").line("Require: foo").line("X-Odd: 1");
    assert_eq!(lab.ask(CAROL, odd.text()).status(), 302);
    let req = Req::invite();
    assert_eq!(lab.ask(CAROL, req.text()).status(), 302);
    assert_eq!(lab.ask(CAROL, req.cancel().text()).status(), 200);
    lab.rest();
}

#[test]
fn challenges_of_one_server_stay_in_its_order() {
    // RFC 8760 section 2.5: the first is what it likes best.
    for last in [0, 1] {
        let mut lab = Lab::new();
        lab.phones(&[BOB, BOB2]);
        let sent = lab.invite(CAROL, Req::invite().text());
        let challenges = |realm: &str| {
            ["SHA-512-256", "SHA-256", "MD5"]
                .map(|a| format!("Digest realm=\"{realm}\", nonce=\"n\", algorithm={a}"))
        };
        let (one, two) = (challenges("one"), challenges("two"));
        for (at, of) in [(1 - last, &one), (last, &two)] {
            let lines: String = of.iter().map(|c| format!("Proxy-Authenticate: {c}\r\n")).collect();
            lab.send(&sent[at].to(), sent[at].reply(407, "x", &lines));
        }
        let end = lab.sent();
        let best = end.iter().find(|s| s.status() == 407).unwrap();
        let all = best.all("Proxy-Authenticate");
        assert_eq!(all.len(), 6);
        for of in [&one, &two] {
            let places: Vec<_> = of.iter().map(|c| all.iter().position(|a| a == c).unwrap()).collect();
            assert!(places.is_sorted(), "{all:?}");
        }
        lab.rest();
    }
}

#[test]
fn serial_forking_stays_serial_after_a_redirection() {
    let mut lab = Lab::with(|s| {
        s.proxy.parallel = false;
        s.proxy.recurse = true;
        s.auth.enabled = false;
    });
    lab.phones(&[BOB, BOB2, BOB3]);
    let invite = Req::new("INVITE", "sip:bob@here.example").alice();
    let first = lab.invite(ALICE, invite.text()).remove(0);
    assert_eq!(first.to(), BOB);
    let contacts = "Contact: <sip:a@203.0.113.41>, <sip:b@203.0.113.42>, <sip:c@203.0.113.43>\r\n";
    lab.send(BOB, first.reply(302, "x", contacts));
    // One at a time: the contacts in their order, then the phones that were left.
    let mut order = Vec::new();
    loop {
        let sent = lab.sent();
        let rung: Vec<&Sent> = sent.iter().filter(|s| s.status() == 0 && s.method() == "INVITE").collect();
        let [one] = rung[..] else {
            assert!(rung.is_empty(), "{rung:?} at once");
            break;
        };
        order.push(one.to());
        lab.send(&one.to(), one.reply(486, "x", ""));
    }
    assert_eq!(order, ["203.0.113.41:5060", "203.0.113.42:5060", "203.0.113.43:5060", BOB2, BOB3]);
    lab.rest();
}
