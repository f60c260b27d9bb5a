//! Which dialogs the table of calls knows, and what a token opens without one.

use super::access::{CARRIER, lab, led};
use super::*;

/// An answered call from carol to the gateway of dave: the INVITE, what the gateway got, the 200.
fn call_to_gateway(lab: &mut Lab) -> (Req, Sent, Sent) {
    let invite = Req::new("INVITE", "sip:dave@here.example");
    lab.send(CAROL, invite.text());
    let got = lab.sent().into_iter().find(|s| s.status() == 0).expect("the INVITE");
    let ok = lab.ask(&got.to(), got.accept("b"));
    (invite, got, ok)
}

/// What answers at the other end of a call may take a To tag that it does not know for a new call.
#[test]
fn token_begins_no_other_call_at_a_gateway() {
    let mut lab = lab(|_| {});
    let (invite, got, ok) = call_to_gateway(&mut lab);
    let gateway = got.to();
    let mut cseq = 10;
    let mut send = |lab: &mut Lab, method: &str, uri: &str, tag: &str, route: &str| {
        cseq += 1;
        let mut again = Req { uri: uri.to_owned(), cseq, ..invite.within(method, &ok) };
        again.to = format!("<sip:dave@here.example>;tag={tag}");
        if !route.is_empty() {
            again.lines.push(format!("Route: {route}"));
        }
        lab.send(CAROL, again.text());
        led(&lab.sent())
    };
    let contact = format!("sip:bob@{gateway}");
    for method in ["INVITE", "MESSAGE"] {
        assert_eq!(send(&mut lab, method, &contact, "b", ""), format!("{contact} at {gateway}"), "{method}");
        for (uri, route) in [
            (&contact[..], ""),
            (&format!("sip:gw@{gateway}")[..], ""),
            (&format!("sip:+1900@{gateway}"), ""),
            ("tel:+1900", ""),
            (&format!("sip:+1900@{gateway}"), &format!("<sip:{gateway};lr>")),
            (&contact, &format!("<sip:+1900@{gateway}>")),
        ] {
            assert_eq!(send(&mut lab, method, uri, "x", route), "403", "{method} {uri} {route}");
            assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::UnknownDialog);
        }
    }
    // The call is over: nothing of it is left but the token.
    lab.send(CAROL, Req { cseq: 90, ..invite.within("BYE", &ok) }.text());
    let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
    lab.send(&gateway, bye.reply(200, "b", ""));
    lab.sent();
    assert_eq!(send(&mut lab, "INVITE", &contact, "b", ""), "403");
}

#[test]
fn call_is_over_whatever_its_bye_is_answered() {
    for status in [200, 401, 407, 408, 481, 500] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        let (invite, got, ok) = call_to_gateway(&mut lab);
        let gateway = got.to();
        let bye = from_callee(&got, "BYE", &gateway, "<sip:dave@here.example>");
        lab.send(&gateway, bye.text());
        let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
        lab.send(CAROL, bye.reply(status, "", "Proxy-Authenticate: Digest realm=\"x\",nonce=\"1\"\r\n"));
        lab.sent();
        let again = Req { uri: format!("sip:+1900@{gateway}"), cseq: 90, ..invite.within("INVITE", &ok) };
        lab.send(CAROL, again.text());
        assert_eq!(led(&lab.sent()), "403", "{status}");
    }
}

#[test]
fn early_dialog_ends_with_the_refusal_of_its_target() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    lab.bind("bob", "<sip:gw@192.0.2.9>", udp("192.0.2.9:5060"));
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    let gateway = sent.iter().find(|s| s.to() == "192.0.2.9:5060").expect("the gateway").clone();
    let early = lab.ask(&gateway.to(), gateway.reply(183, "early", "Contact: <sip:gw@192.0.2.9>\r\n"));
    assert_eq!(early.status(), 183);
    let again =
        |cseq| Req { uri: "sip:+1900@192.0.2.9".to_owned(), cseq, ..invite.within("MESSAGE", &early) };
    lab.send(CAROL, again(10).text());
    assert_eq!(led(&lab.sent()), "sip:+1900@192.0.2.9 at 192.0.2.9:5060", "while it rings");
    lab.send(&gateway.to(), gateway.reply(486, "early", ""));
    lab.sent();
    lab.send(CAROL, again(11).text());
    assert_eq!(led(&lab.sent()), "403");
}

/// A phone and a gateway behind one address.
#[test]
fn tags_of_a_call_to_another_port_begin_none_at_a_gateway() {
    let mut lab = lab(|_| {});
    lab.bind("bob", "<sip:bob@192.0.2.50:5099>", udp("192.0.2.50:5099"));
    let (first, got, ok) = call_to_gateway(&mut lab);
    assert_eq!(got.to().split(':').next(), Some("192.0.2.50"));
    lab.send(CAROL, Req { cseq: 5, ..first.within("BYE", &ok) }.text());
    let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
    lab.send(&got.to(), bye.reply(200, "", ""));
    lab.sent();
    let mut second = Req::invite();
    (second.call_id, second.from) = (first.call_id.clone(), first.from.clone());
    let other = lab.invite(CAROL, second.text()).remove(0);
    lab.ask("192.0.2.50:5099", other.accept("btag"));
    let mut again = Req { uri: format!("sip:+1900@{}", got.to()), cseq: 90, ..first.within("INVITE", &ok) };
    again.to = "<sip:dave@here.example>;tag=btag".to_owned();
    lab.send(CAROL, again.text());
    assert_eq!(led(&lab.sent()), "403");
}

/// Two calls of one Call-ID, whose tags are mixed.
#[test]
fn tags_of_another_call_begin_none_at_a_gateway() {
    for same_tag in [false, true] {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let first = Req::invite();
        let got = lab.invite(CAROL, first.text()).remove(0);
        lab.ask(BOB, got.accept("b"));
        let mut second = Req::new("INVITE", "sip:dave@here.example");
        second.call_id.clone_from(&first.call_id);
        // The caller of the second call is the callee of the first, or the caller of both is one.
        let tag = if same_tag { tag_of(&first.from).to_owned() } else { "b".to_owned() };
        second.from = format!("<sip:carol@far.example>;tag={tag}");
        let got = lab.invite(CAROL, second.text()).remove(0);
        let ok = lab.ask(&got.to(), got.accept("g"));
        let to = if same_tag { "b" } else { tag_of(&first.from) };
        let mut again =
            Req { uri: format!("sip:+1900@{}", got.to()), cseq: 10, ..second.within("INVITE", &ok) };
        again.to = format!("<sip:dave@here.example>;tag={to}");
        lab.send(CAROL, again.text());
        assert_eq!(led(&lab.sent()), "403", "{same_tag}");
    }
}

#[test]
fn dialog_goes_on_where_no_table_knows_it() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        for fronts in [false, true] {
            let settings = |s: &mut Settings| {
                s.proxy.mode = mode;
                if fronts {
                    s.auth.fronts = vec![("198.51.100.200".parse().unwrap(), 32)];
                }
            };
            let mut lab = lab(settings);
            let (invite, got, ok) = call_to_gateway(&mut lab);
            lab.restart();
            call_to_gateway(&mut lab);
            let mut cseq = 10;
            let mut passes = |lab: &mut Lab| {
                cseq += 1;
                let uri = format!("sip:+4930@{}", got.to());
                lab.send(CAROL, Req { uri, cseq, ..invite.within("INVITE", &ok) }.text());
                lab.sent().iter().any(|s| s.to() == got.to())
            };
            assert!(passes(&mut lab), "{mode:?}");
            lab.pass(25 * 3_600_000);
            lab.sent();
            assert_eq!(passes(&mut lab), fronts || mode == Mode::Stateless, "{mode:?} {fronts}");
        }
    }
}

#[test]
fn call_is_known_as_long_as_it_is_refreshed() {
    for (method, from_gateway) in [("INVITE", false), ("UPDATE", false), ("INVITE", true), ("UPDATE", true)] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        let (invite, got, ok) = call_to_gateway(&mut lab);
        let gateway = got.to();
        for cseq in 10..40 {
            lab.pass(2 * 3_600_000);
            let (from, to) = if from_gateway { (&gateway[..], CAROL) } else { (CAROL, &gateway[..]) };
            let ask = match from_gateway {
                true => from_callee(&got, method, &gateway, "<sip:dave@here.example>"),
                false => invite.within(method, &ok),
            };
            lab.send(from, Req { cseq, ..ask }.text());
            let sent = lab.sent();
            let got = sent.iter().find(|s| s.status() == 0);
            let Some(sent) = got.filter(|s| s.to() == to) else { panic!("{method} {cseq}: {sent:?}") };
            lab.send(to, sent.reply(200, "", "Contact: <sip:new@192.0.2.99>\r\n"));
            lab.sent();
        }
        let again = Req { uri: format!("sip:other@{gateway}"), cseq: 50, ..invite.within("INVITE", &ok) };
        lab.send(CAROL, again.text());
        assert!(lab.sent().iter().any(|s| s.to() == gateway), "{method} {from_gateway}");
    }
}

/// An answered call of carol's to the voicemail of a trunk: the INVITE, what the trunk got, the 200.
fn call_to_voicemail() -> (Lab, Req, Sent, Sent) {
    let mut lab = lab(|s| {
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@203.0.113.5".to_vec(),
            on: sip_proxy::context::Reroute::ALWAYS,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
    });
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    assert_eq!(got.to(), CARRIER);
    let ok = lab.ask(CARRIER, got.accept("b"));
    (lab, invite, got, ok)
}

#[test]
fn token_of_a_call_to_voicemail_reaches_no_number_of_its_trunk() {
    let (mut lab, invite, _, ok) = call_to_voicemail();
    for (cseq, tag, leads) in [(10, "x", "403"), (11, "b", "sip:+4930@203.0.113.5 at 203.0.113.5:5060")] {
        let mut again = Req { uri: "sip:+4930@203.0.113.5".to_owned(), cseq, ..invite.within("INVITE", &ok) };
        again.to = format!("<sip:bob@here.example>;tag={tag}");
        lab.send(CAROL, again.text());
        assert_eq!(led(&lab.sent()), leads);
    }
}

#[test]
fn token_of_a_users_call_over_a_trunk_begins_no_other_call() {
    let mut lab = lab(|_| {});
    let invite = Req::new("INVITE", "sip:+4930@here.example").alice();
    let got = lab.as_user(ALICE, "alice", &invite).remove(1);
    assert_eq!(got.to(), CARRIER);
    let ok = lab.ask(CARRIER, got.accept("b"));
    for (cseq, uri, tag, leads) in [
        (10, "sip:+1900@203.0.113.5", "x", "403"),
        (20, "sip:+1-900@203.0.113.5;phone-context=x", "x", "403"),
        (30, "tel:+1(900)", "x", "403"),
        (40, "sip:bob@203.0.113.5:5060", "b", "sip:bob@203.0.113.5:5060 at 203.0.113.5:5060"),
        // A carrier's Contact may be any number.
        (50, "sip:+4915@203.0.113.5", "b", "sip:+4915@203.0.113.5 at 203.0.113.5:5060"),
    ] {
        let mut again = Req { uri: uri.to_owned(), cseq, ..invite.within("INVITE", &ok) };
        again.to = format!("<sip:+4930@here.example>;tag={tag}");
        let challenge = lab.ask(ALICE, again.text());
        lab.send(ALICE, again.answer("alice", &challenge).text());
        assert_eq!(led(&lab.sent()), leads, "{uri} {tag}");
    }
}

#[test]
fn who_has_seen_a_message_of_a_call_says_nothing_in_it() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let invite = Req::invite().alice();
    let got = lab.as_user(ALICE, "alice", &invite).remove(1);
    let ok = lab.ask(BOB, got.accept("b"));
    for method in ["INVITE", "MESSAGE", "BYE", "UPDATE", "INFO"] {
        for uri in ["sip:bob@here.example", "sip:bob@192.0.2.20:5060"] {
            let mut forged = Req { uri: uri.to_owned(), ..invite.within(method, &ok) };
            forged.lines.clear();
            forged.from = format!("<sip:evil@far.example>;tag={}", tag_of(&invite.from));
            assert_eq!(lab.ask(CAROL, forged.text()).status(), 481, "{method} {uri}");
        }
    }
}

#[test]
fn peer_without_route_may_write_its_name_in_another_way() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    let mut bye = invite.within("BYE", &ok);
    bye.lines.clear();
    bye.from = format!("<sip:carol@FAR.example;user=phone>;tag={}", tag_of(&invite.from));
    lab.send(CAROL, bye.text());
    assert!(lab.sent().iter().any(|s| s.method() == "BYE" && s.to() == BOB));
}
/// Alice calls over a proxy that sends the call back to this server: it passes here twice.
#[test]
fn call_that_passes_twice_can_be_held() {
    let proxy = "192.0.2.77:5060";
    let mut lab = lab(|s| s.auth.enabled = false);
    lab.phones(&[BOB]);
    let invite = Req::new("INVITE", &format!("sip:bob@{proxy}")).alice();
    let out = lab.invite(ALICE, invite.text()).remove(0);
    assert_eq!(out.to(), proxy);
    // The proxy's own copy, with its Via and Record-Route.
    let vias: String = out.all("Via").iter().map(|via| format!("Via: {via}\r\n")).collect();
    let routes: String = out.all("Record-Route").iter().map(|r| format!("Record-Route: {r}\r\n")).collect();
    let back = format!(
        "INVITE sip:bob@here.example SIP/2.0\r\nVia: SIP/2.0/UDP {proxy};branch=z9hG4bKp1\r\n{vias}\
         Record-Route: <sip:{proxy};lr>\r\n{routes}Max-Forwards: 60\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:alice@{ALICE}>\r\nContent-Length: 0\r\n\r\n",
        out.get("From").unwrap(),
        out.get("To").unwrap(),
        out.get("Call-ID").unwrap(),
    );
    let inner = lab.invite(proxy, back).remove(0);
    assert_eq!(inner.to(), BOB);
    let ok = lab.ask(BOB, inner.accept("b"));
    assert_eq!(ok.to(), proxy);
    let mut lines: Vec<&str> = ok.text.split("\r\n").collect();
    lines.remove(1);
    let ok = lab.ask(proxy, lines.join("\r\n"));
    assert_eq!((ok.status(), ok.to().as_str()), (200, ALICE));
    let hold = Req { cseq: 10, ..invite.within("INVITE", &ok) };
    lab.send(ALICE, hold.text());
    let sent = lab.sent();
    assert!(sent.iter().all(|s| s.status() != 403) && sent.iter().any(|s| s.to() == proxy), "{sent:?}");
}

/// A proxy before this server sends one call to two users.
#[test]
fn second_target_of_a_proxy_is_known_after_the_first_refused() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    let first = Req::invite();
    let got = lab.invite(CAROL, first.text()).remove(0);
    let mut second = Req::new("INVITE", "sip:alice@here.example");
    (second.call_id, second.from) = (first.call_id.clone(), first.from.clone());
    let other = lab.invite(CAROL, second.text()).remove(0);
    assert_eq!((got.to().as_str(), other.to().as_str()), (BOB, ALICE));
    lab.send(BOB, got.reply(486, "b", ""));
    lab.sent();
    let ok = lab.ask(ALICE, other.accept("a"));
    lab.send(CAROL, Req { cseq: 10, ..second.within("INVITE", &ok) }.text());
    assert!(lab.sent().iter().any(|s| s.to() == ALICE));
}

#[test]
fn call_from_before_a_restart_goes_on_while_it_is_refreshed() {
    for (method, from_gateway) in [("INVITE", false), ("UPDATE", false), ("INVITE", true), ("UPDATE", true)] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        let (invite, got, ok) = call_to_gateway(&mut lab);
        let gateway = got.to();
        lab.restart();
        call_to_gateway(&mut lab);
        for cseq in 10..30 {
            lab.pass(2 * 3_600_000);
            lab.sent();
            let (from, to) = if from_gateway { (&gateway[..], CAROL) } else { (CAROL, &gateway[..]) };
            let ask = match from_gateway {
                true => from_callee(&got, method, &gateway, "<sip:dave@here.example>"),
                false => invite.within(method, &ok),
            };
            lab.send(from, Req { cseq, ..ask }.text());
            let sent = lab.sent();
            let got = sent.iter().find(|s| s.status() == 0);
            let Some(sent) = got.filter(|s| s.to() == to) else { panic!("{method} {cseq}: {sent:?}") };
            lab.send(to, sent.reply(200, "", "Contact: <sip:new@192.0.2.99>\r\n"));
            lab.sent();
        }
        // A made-up tag of the same call is none.
        let mut forged = Req { cseq: 90, ..invite.within("INVITE", &ok) };
        forged.to = "<sip:dave@here.example>;tag=x".to_owned();
        lab.send(CAROL, forged.text());
        assert_eq!(led(&lab.sent()), "403", "{method} {from_gateway}");
    }
}

/// Ends the call with the gateway.
fn hang_up(lab: &mut Lab, invite: &Req, got: &Sent, ok: &Sent) {
    lab.send(CAROL, Req { cseq: 90, ..invite.within("BYE", ok) }.text());
    let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
    lab.send(&got.to(), bye.reply(200, "", ""));
    lab.sent();
}

/// Carol writes her own tag where the callee's belongs, and answers her own request.
#[test]
fn caller_that_answers_itself_makes_no_dialog_of_a_gateway() {
    for (method, tag, over) in
        [("UPDATE", "x", true), ("UPDATE", "x", false), ("INVITE", "b", false), ("INVITE", "x", false)]
    {
        let (mut lab, invite, got, ok) = call_to_voicemail();
        if over {
            hang_up(&mut lab, &invite, &got, &ok);
        }
        let mut forged = from_callee(&got, method, CAROL, "<sip:x@far.example>");
        forged.from = format!("<sip:x@far.example>;tag={tag}");
        lab.send(CAROL, forged.text());
        for sent in lab.sent().iter().filter(|s| s.to() == CAROL && s.status() == 0) {
            let other = format!(";tag={tag}");
            lab.send(CAROL, sent.reply(200, "", "Contact: <sip:c@192.0.2.99>\r\n").replace(&other, ";tag=x"));
            lab.sent();
        }
        let mut again =
            Req { uri: format!("sip:+1900@{}", got.to()), cseq: 95, ..invite.within("INVITE", &ok) };
        again.to = "<sip:bob@here.example>;tag=x".to_owned();
        lab.send(CAROL, again.text());
        assert_eq!(led(&lab.sent()), "403", "{method} {tag} {over}");
    }
}

/// Alice sends a request of her call over a trunk to an accomplice, who answers under another tag.
#[test]
fn response_from_elsewhere_makes_no_dialog_of_a_trunk() {
    let mut lab = lab(|_| {});
    let invite = Req::new("INVITE", "sip:+4930@here.example").alice();
    let got = lab.as_user(ALICE, "alice", &invite).remove(1);
    let ok = lab.ask(CARRIER, got.accept("b"));
    let again = |uri: &str, cseq, tag: &str| {
        let mut again = Req { uri: uri.to_owned(), cseq, ..invite.within("INVITE", &ok) };
        again.to = format!("<sip:+4930@here.example>;tag={tag}");
        again
    };
    let sent = lab.as_user(ALICE, "alice", &again("sip:x@192.0.2.99", 10, "b"));
    let elsewhere = sent.iter().find(|s| s.to() == "192.0.2.99:5060").expect("an INVITE").clone();
    lab.send("192.0.2.99:5060", elsewhere.accept("").replace(";tag=b", ";tag=x"));
    lab.sent();
    let sent = lab.as_user(ALICE, "alice", &again("sip:+1900@203.0.113.5", 20, "x"));
    assert_eq!(led(&sent), "403");
}

/// A phone answers with the From tag of nobody.
#[test]
fn call_is_forgotten_whatever_tags_its_final_response_has() {
    for status in [200, 486] {
        let mut lab = Lab::new();
        lab.phones(&[BOB]);
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        lab.send(BOB, got.reply(status, "b", "").replace(&format!("tag={}", tag_of(&invite.from)), "tag=zz"));
        lab.sent();
        assert_eq!(lab.report().call_count, 0);
    }
}
