//! How often a request is sent to an address that an unproven sender chose, before anything came back from
//! there.

use super::*;

const VICTIM: &str = "203.0.113.77:5060";

/// How often each address gets a request of this method, from now on until its transaction is over.
fn sends(lab: &mut Lab, first: Vec<Sent>, method: &str) -> Vec<(String, usize)> {
    let mut all = first;
    lab.pass(32_100);
    all.extend(lab.sent());
    let mut to: Vec<(String, usize)> = Vec::new();
    for (_, address) in requests(&all).into_iter().filter(|(what, _)| what == method) {
        match to.iter_mut().find(|(known, _)| *known == address) {
            Some((_, count)) => *count += 1,
            None => to.push((address, 1)),
        }
    }
    to
}

/// What a request of `from` leads to, by addresses.
#[track_caller]
fn sent_by(lab: &mut Lab, from: &str, req: &Req) -> Vec<(String, usize)> {
    lab.send(from, req.text());
    let first = lab.sent();
    sends(lab, first, &req.method)
}

/// A call of the stranger carol to bob that bob has answered, and how bob writes within it.
fn called_by_carol(lab: &mut Lab, contact: &str) -> impl Fn(&str) -> Req + use<> {
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    let mut call = Req::invite();
    call.lines = vec![format!("Contact: <{contact}>")];
    let got = lab.invite(CAROL, call.text()).remove(0);
    lab.send(BOB, got.accept("b"));
    lab.sent();
    let contact = contact.to_owned();
    move |method| {
        let bob = "<sip:bob@here.example>";
        Req { uri: contact.clone(), cseq: number(), ..from_callee(&got, method, BOB, bob) }
    }
}

fn in_dialog(s: &mut Settings) {
    s.auth.in_dialog = false;
}

#[test]
fn stranger_in_a_dialog_gets_three_sends_until_it_answers() {
    for method in ["BYE", "MESSAGE", "INFO", "UPDATE"] {
        let mut lab = Lab::with(in_dialog);
        let bob = called_by_carol(&mut lab, &format!("sip:carol@{CAROL}"));
        assert_eq!(sent_by(&mut lab, BOB, &bob(method)), [(CAROL.to_owned(), 3)], "{method}");
        // An answer from there, and it is a peer like any other.
        let asked = lab.ask(BOB, bob("UPDATE").text());
        lab.send(CAROL, asked.reply(200, "", ""));
        lab.sent();
        assert_eq!(sent_by(&mut lab, BOB, &bob(method)), [(CAROL.to_owned(), 11)], "{method}");
    }
    let mut lab = Lab::with(in_dialog);
    let bob = called_by_carol(&mut lab, &format!("sip:carol@{CAROL}"));
    assert_eq!(sent_by(&mut lab, BOB, &bob("INVITE")), [(CAROL.to_owned(), 3)]);
}

#[test]
fn contact_of_a_stranger_gets_three_sends_until_it_answers() {
    // Who calls, and who sends then.
    let mut lab = Lab::with(|_| {});
    let bob = called_by_carol(&mut lab, &format!("sip:carol@{VICTIM}"));
    let challenge = lab.ask(BOB, bob("BYE").text());
    let got = sent_by(&mut lab, BOB, &bob("BYE").answer("bob", &challenge));
    assert!(got.contains(&(VICTIM.to_owned(), 3)), "{got:?}");
    assert!(got.iter().all(|(_, count)| *count <= 3), "{got:?}");
}

#[test]
fn callee_outside_that_answered_is_sent_to_in_full() {
    let outside = "203.0.113.50:5060";
    for (contact, count) in [(outside, 11), (VICTIM, 3)] {
        let mut lab = Lab::open();
        let call = Req::new("INVITE", &format!("sip:x@{outside}")).alice();
        let got = lab.invite(ALICE, call.text()).remove(0);
        assert_eq!(got.to(), outside);
        lab.send(outside, got.reply(200, "x", &format!("Contact: <sip:x@{contact}>\r\n")));
        let ok = lab.one();
        let bye = Req { uri: format!("sip:x@{contact}"), ..call.within("BYE", &ok) };
        let sent = sent_by(&mut lab, ALICE, &bye);
        assert!(sent.contains(&(contact.to_owned(), count)), "{contact}: {sent:?}");
    }
    // A first call to a host of the user's own choice is repeated as ever.
    let mut lab = Lab::open();
    let call = Req::new("INVITE", &format!("sip:x@{outside}")).alice();
    assert_eq!(sent_by(&mut lab, ALICE, &call), [(outside.to_owned(), 7)]);
    let text = Req::new("MESSAGE", &format!("sip:x@{outside}")).alice();
    assert_eq!(sent_by(&mut lab, ALICE, &text), [(outside.to_owned(), 11)]);
}

#[test]
fn redirect_by_a_phone_or_stranger_gets_three_sends() {
    let carrier = "198.51.100.200:5060";
    for (uri, from, count) in [
        ("sip:bob@here.example", BOB, 3),
        ("sip:x@203.0.113.50", "203.0.113.50:5060", 3),
        ("sip:+4930@here.example", carrier, 7),
    ] {
        let mut lab = Lab::with(|s| {
            (s.auth.enabled, s.proxy.recurse) = (false, true);
            s.trunks.push(Trunk { sources: Vec::new(), ..trunk(&["sip:198.51.100.200"], "+49") });
        });
        lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
        let got = lab.invite(ALICE, Req::new("INVITE", uri).alice().text()).remove(0);
        assert_eq!(got.to(), from);
        lab.send(from, got.reply(302, "r", &format!("Contact: <sip:y@{VICTIM}>\r\n")));
        let first = lab.sent();
        assert_eq!(sends(&mut lab, first, "INVITE"), [(VICTIM.to_owned(), count)], "{uri}");
    }
}

#[test]
fn target_of_a_dialog_without_our_route_gets_three_sends() {
    for route in [None, Some(format!("Route: <sip:{VICTIM};lr>"))] {
        let mut lab = Lab::open();
        let mut bye = Req::new("BYE", &format!("sip:carol@{VICTIM}")).alice();
        bye.to = "<sip:carol@far.example>;tag=c".to_owned();
        bye.lines.extend(route);
        assert_eq!(sent_by(&mut lab, ALICE, &bye), [(VICTIM.to_owned(), 3)]);
    }
}

/// What answers in a dialog says where it is, and nothing about the Contact that it gave.
#[test]
fn answer_in_a_dialog_proves_its_address_and_no_contact() {
    let mut lab = Lab::open();
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    // Behind address translation, by its Via.
    let mut call = Req::invite().sent_by("UDP", "10.0.0.5:5060;rport");
    call.lines = vec![format!("Contact: <sip:carol@{VICTIM}>")];
    let got = lab.invite(CAROL, call.text()).remove(0);
    lab.send(BOB, got.accept("b"));
    lab.sent();
    let mut info = from_callee(&got, "INFO", BOB, "<sip:bob@here.example>");
    info.uri = format!("sip:carol@{VICTIM}");
    let asked = lab.ask(BOB, info.text());
    assert_eq!(asked.to(), CAROL);
    lab.send(CAROL, asked.reply(200, "", ""));
    lab.sent();
    let mut register = Req::new("REGISTER", "sip:here.example").sent_by("UDP", ALICE);
    (register.from, register.to) =
        ("<sip:alice@here.example>;tag=r".to_owned(), "<sip:alice@here.example>".to_owned());
    register.lines = vec![format!("Contact: <sip:carol@{VICTIM}>, <sip:b@203.0.113.78>")];
    assert_eq!(lab.ask(ALICE, register.text()).status(), 403, "two elsewhere that are silent");
}
