//! What strangers may send, and what is taken off it.

use super::access::{CARRIER, lab, led};
use super::*;

/// What a request led to: p the phone, e elsewhere, 3 403, 1 481, - nothing.
fn outcome(sent: &[Sent]) -> char {
    match sent.iter().find(|s| s.status() != 100) {
        None => '-',
        Some(sent) => match (sent.status(), sent.to() == BOB) {
            (0, true) => 'p',
            (0, false) => 'e',
            (403, _) => '3',
            (481, _) => '1',
            (status, _) => panic!("{status}"),
        },
    }
}

/// Who asks in the table of dialogs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Who {
    Stranger,
    Trunk,
    User,
}

impl Who {
    fn request(self, method: &str) -> Req {
        let req = Req::new(method, "sip:bob@here.example");
        match self {
            Who::Stranger => req,
            Who::Trunk => req.sent_by("UDP", CARRIER),
            Who::User => req.alice(),
        }
        .line("Event: x")
    }

    fn send(self, lab: &mut Lab, req: &Req) -> Vec<Sent> {
        match self {
            // Neither can be challenged.
            Who::User if !matches!(&*req.method, "ACK" | "CANCEL") => {
                return lab.as_user(ALICE, "alice", req);
            }
            Who::User => lab.send(ALICE, req.text()),
            Who::Trunk => lab.send(CARRIER, req.text()),
            Who::Stranger => lab.send(CAROL, req.text()),
        }
        lab.sent()
    }
}

/// Without a tag, with one that is made up, the same with a Route of somebody else, and in a call of its own.
fn outcomes(who: Who, method: &str, change: fn(&mut Settings)) -> String {
    let tagged = |mut req: Req| {
        req.to.push_str(";tag=made-up");
        req
    };
    let alone = [
        who.request(method),
        tagged(who.request(method)),
        tagged(who.request(method)).line("Route: <sip:192.0.2.99;lr>"),
    ];
    let mut cells: String = alone
        .iter()
        .map(|req| {
            let mut lab = lab(change);
            lab.phones(&[BOB]);
            outcome(&who.send(&mut lab, req))
        })
        .collect();
    let mut lab = lab(change);
    lab.phones(&[BOB]);
    let invite = who.request("INVITE");
    let sent = who.send(&mut lab, &invite);
    let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
    let ok = lab.ask(BOB, got.accept("b"));
    cells.push(outcome(&who.send(&mut lab, &invite.within(method, &ok).line("Event: x"))));
    cells
}

/// BYE, PRACK and UPDATE pass with any To tag, because no node knows every call. A phone answers 481 if the
/// tags are made up (RFC 3261 section 12.2.2). INFO does not, because some phones obey it outside of dialogs.
#[test]
fn tag_without_our_token_opens_no_dialog() {
    for (method, stranger, trunk, user) in [
        ("INVITE", "pp3p", "pp3p", "ppep"),
        ("ACK", "pp-p", "pp-p", "pp-p"),
        ("CANCEL", "1111", "1111", "1111"),
        ("BYE", "3p3p", "pp3p", "ppep"),
        ("PRACK", "3p3p", "pp3p", "ppep"),
        ("UPDATE", "3p3p", "pp3p", "ppep"),
        ("INFO", "311p", "pp3p", "ppep"),
        ("MESSAGE", "pp3p", "pp3p", "ppep"),
        ("OPTIONS", "pp3p", "pp3p", "ppep"),
        ("SUBSCRIBE", "3113", "pp3p", "ppep"),
        ("NOTIFY", "3113", "pp3p", "ppep"),
        ("REFER", "3113", "pp3p", "ppep"),
        ("PUBLISH", "3113", "pp3p", "ppep"),
        ("FROB", "3113", "pp3p", "ppep"),
    ] {
        for (who, cells) in [(Who::Stranger, stranger), (Who::Trunk, trunk), (Who::User, user)] {
            assert_eq!(outcomes(who, method, |_| {}), cells, "{method} of {who:?}");
        }
    }
    let mut lab = lab(|_| {});
    let mut info = Who::Stranger.request("INFO");
    info.to.push_str(";tag=made-up");
    assert_eq!(lab.ask(CAROL, info.text()).status(), 481);
    assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::NoDialog);
}

#[test]
fn tag_is_enough_where_no_token_is_given_out() {
    let unrecorded: fn(&mut Settings) = |s| s.proxy.record_route = false;
    for method in ["BYE", "INFO", "UPDATE", "PRACK"] {
        assert_eq!(outcomes(Who::Stranger, method, unrecorded), "3p3p", "{method}");
    }
    for method in ["REFER", "NOTIFY", "SUBSCRIBE"] {
        assert_eq!(outcomes(Who::Stranger, method, unrecorded)[..3], *"311", "{method}");
    }
}

/// A request of a stranger's in a call: one that it began, or one of alice's with it.
fn in_call(lab: &mut Lab, by_stranger: bool) -> (Req, Sent) {
    lab.phones(&[BOB]);
    if by_stranger {
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        let ok = lab.ask(BOB, got.accept("b"));
        return (invite, ok);
    }
    let invite = Req::new("INVITE", &format!("sip:carol@{CAROL}")).alice();
    let sent = lab.as_user(ALICE, "alice", &invite);
    let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
    lab.ask(CAROL, got.accept("b"));
    (from_callee(&got, "INFO", CAROL, "<sip:carol@far.example>"), got)
}

#[test]
fn strangers_send_what_is_listed_and_what_belongs_to_it() {
    for (method, outside, theirs, ours) in [
        ("INVITE", true, true, true),
        ("MESSAGE", true, true, true),
        ("OPTIONS", true, true, true),
        ("BYE", false, true, true),
        ("INFO", false, true, true),
        ("UPDATE", false, true, true),
        ("PRACK", false, true, true),
        ("REFER", false, false, true),
        ("NOTIFY", false, false, true),
        ("SUBSCRIBE", false, false, false),
        ("PUBLISH", false, false, false),
        ("FROB", false, false, false),
    ] {
        let passes = |sent: &[Sent]| sent.iter().any(|s| s.status() == 0);
        let alone = Req::new(method, "sip:bob@here.example").line("Event: check-sync;reboot=true");
        let mut lab = Lab::new();
        lab.phones(&[BOB]);
        lab.send(CAROL, alone.text());
        assert_eq!(passes(&lab.sent()), outside, "{method}");
        if !outside {
            assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::Method, "{method}");
        }
        let mut lab = Lab::new();
        let (invite, ok) = in_call(&mut lab, true);
        lab.send(CAROL, invite.within(method, &ok).line("Event: check-sync").text());
        assert_eq!(passes(&lab.sent()), theirs, "{method} in a call of the stranger's");
        let mut lab = Lab::new();
        let (mut req, _) = in_call(&mut lab, false);
        req.method = method.to_owned();
        lab.send(CAROL, req.line("Event: x").text());
        assert_eq!(passes(&lab.sent()), ours, "{method} in a call of alice's");
    }
    // For a REFER that our user sent; and what the operator lists.
    let mut lab = Lab::new();
    let (invite, ok) = in_call(&mut lab, true);
    assert_eq!(lab.ask(CAROL, invite.within("NOTIFY", &ok).line("Event: refer;id=1").text()).to(), BOB);
    let two = invite.within("NOTIFY", &ok).line("Event: refer;id=1").line("Event: check-sync;reboot=true");
    assert_eq!(lab.ask(CAROL, two.text()).status(), 403);
    let list = invite.within("NOTIFY", &ok).line("Event: refer;x=1,check-sync");
    assert_eq!(lab.ask(CAROL, list.text()).status(), 403);
    // An emergency name opens nothing within a dialog.
    lab.reconfigure(|s| s.emergency = Some(emergency::help()));
    let refer = Req { uri: "urn:service:sos".to_owned(), ..invite.within("REFER", &ok) };
    assert_eq!(lab.ask(CAROL, refer.text()).status(), 403);
    lab.reconfigure(|s| s.proxy.strangers.methods = vec![b"SUBSCRIBE".to_vec()]);
    assert_eq!(lab.ask(CAROL, Req::new("SUBSCRIBE", "sip:bob@here.example").text()).to(), BOB);
    assert_eq!(lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text()).status(), 403);
}

#[test]
fn strangers_refused_keep_their_calls_and_users_theirs() {
    let mut lab = lab(|_| {});
    let (invite, ok) = in_call(&mut lab, true);
    lab.reconfigure(|s| s.proxy.strangers.allowed = false);
    for uri in ["sip:bob@here.example".to_owned(), format!("sip:bob@{BOB}"), "tel:+4930".to_owned()] {
        assert_eq!(lab.ask(CAROL, Req::new("INVITE", &uri).text()).status(), 403, "{uri}");
    }
    assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::Stranger);
    let mut ack = Req::new("ACK", "sip:bob@here.example");
    ack.to.push_str(";tag=x");
    lab.send(CAROL, ack.text());
    lab.silent();
    // Questions about the server itself, users, trunks, and what goes on.
    assert_eq!(lab.ask(CAROL, Req::new("OPTIONS", "sip:here.example").text()).status(), 200);
    assert_eq!(lab.ask(CAROL, invite.within("BYE", &ok).text()).to(), BOB);
    assert_eq!(led(&lab.as_user(ALICE, "alice", &Req::invite().alice())), format!("sip:bob@{BOB} at {BOB}"));
    assert_eq!(lab.invite(CARRIER, Req::invite().sent_by("UDP", CARRIER).text())[0].to(), BOB);
    // Emergency calls have a key of their own.
    lab.reconfigure(|s| s.emergency.as_mut().unwrap().strangers = true);
    let help = lab.invite(CAROL, Req::new("INVITE", "urn:service:sos").text());
    assert_eq!(help[0].to(), "192.0.2.112:5060");
}

/// What alice's and a stranger's INVITE led to.
fn by_both(mode: Mode, change: impl Fn(Req) -> Req) -> [Sent; 2] {
    let mut lab = Lab::with(|s| s.proxy.mode = mode);
    lab.phones(&[BOB]);
    lab.send(CAROL, change(Req::invite()).text());
    let first = lab.sent();
    let second = lab.as_user(ALICE, "alice", &change(Req::invite().alice()));
    [first, second].map(|sent| sent.into_iter().find(|s| s.status() != 100).unwrap())
}

#[test]
fn commands_are_taken_off_a_strangers_request_only() {
    let lines = [
        "Alert-Info: <http://x>;info=alert-autoanswer",
        "Call-Info: <sip:x>;answer-after=0",
        "Answer-Mode: Auto",
        "X-AUTOANSWER: TRUE",
        "Replaces: a;to-tag=b;from-tag=c",
    ];
    let has = |sent: &Sent| lines.iter().filter(|line| sent.text.contains(*line)).count();
    for mode in [Mode::Stateful, Mode::Stateless] {
        let sent = by_both(mode, |mut req| {
            req.lines.extend(lines.map(str::to_owned));
            req
        });
        assert_eq!(sent.each_ref().map(has), [0, 5], "{mode:?}");
    }
}

/// Nor does a user's word count (RFC 3325 section 5).
#[test]
fn asserted_identity_passes_from_trunks_only() {
    let lines = [
        "P-Asserted-Identity: <sip:ceo@here.example>",
        "P-Preferred-Identity: <sip:ceo@here.example>",
        "Remote-Party-ID: <sip:ceo@here.example>",
        "P-Served-User: <sip:ceo@here.example>",
        "P-Asserted-Service: urn:urn-7:3gpp-service.x",
    ];
    let has = |sent: &Sent| lines.iter().filter(|line| sent.text.contains(*line)).count();
    for mode in [Mode::Stateful, Mode::Stateless] {
        let change = |mut req: Req| {
            req.lines.extend(lines.map(str::to_owned));
            req
        };
        assert_eq!(by_both(mode, change).each_ref().map(has), [0, 0], "{mode:?}");
        let mut lab = lab(|s| s.proxy.mode = mode);
        lab.phones(&[BOB]);
        lab.send(CARRIER, change(Req::invite().sent_by("UDP", CARRIER)).text());
        assert_eq!(has(lab.sent().last().unwrap()), 5, "{mode:?}");
    }
}

#[test]
fn invite_that_commands_by_its_uris_is_refused() {
    type Change = fn(Req) -> Req;
    let changes: [(&str, Change); 4] = [
        ("Request-URI", |req| Req { uri: "sip:bob@here.example;intercom=true".to_owned(), ..req }),
        ("address", |req| Req { uri: format!("sip:bob@{BOB};Intercom=true"), ..req }),
        ("To", |req| Req { to: "<sip:bob@here.example;intercom=true>".to_owned(), ..req }),
        ("Require", |req| req.line("Replaces: a;to-tag=b;from-tag=c").line("Require: replaces")),
    ];
    for mode in [Mode::Stateful, Mode::Stateless] {
        for (what, change) in changes {
            let sent = by_both(mode, change);
            assert_eq!(sent.each_ref().map(Sent::status), [403, 0], "{what}");
        }
    }
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    assert_eq!(lab.ask(CAROL, changes[2].1(Req::invite()).text()).status(), 403);
    assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::Commands);
    // In a call as well, where a phone may take an unknown tag for a new call; but nothing else is refused
    // for it.
    let (invite, ok) = in_call(&mut lab, true);
    for (method, status) in [("INVITE", 403), ("UPDATE", 0), ("BYE", 0)] {
        let mut req = invite.within(method, &ok);
        req.uri.push_str(";intercom=true");
        let sent = {
            lab.send(CAROL, req.text());
            lab.sent()
        };
        assert_eq!(sent.iter().find(|s| s.status() != 100).unwrap().status(), status, "{method}");
    }
}

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

#[test]
fn token_of_a_call_to_voicemail_reaches_no_number_of_its_trunk() {
    let mut lab = lab(|s| {
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@203.0.113.5".to_vec(),
            on: sip_proxy::context::Reroute::ALWAYS,
            no_answer_ms: 0,
            silent_after_ms: 2_000,
        });
    });
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    assert_eq!(got.to(), CARRIER);
    let ok = lab.ask(CARRIER, got.accept("b"));
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
fn call_from_before_a_restart_goes_on_as_long_as_it_is_refreshed() {
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

/// The carrier writes the dialled number with its own domain into To.
#[test]
fn phone_that_bears_a_foreign_name_is_no_stranger_in_its_call() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let mut invite = Req::invite().sent_by("UDP", CARRIER);
    invite.to = "<sip:+4930@203.0.113.5>".to_owned();
    let got = lab.invite(CARRIER, invite.text()).remove(0);
    lab.ask(BOB, got.accept("b"));
    for (from, kept) in [(BOB, true), ("192.0.2.20:5999", true), ("192.0.2.66:5060", false)] {
        let again =
            from_callee(&got, "INVITE", BOB, "<sip:+4930@203.0.113.5>").line("Alert-Info: <http://x>");
        lab.send(from, Req { cseq: 10 + number(), ..again }.text());
        let sent = lab.sent();
        let passed = sent.iter().find(|s| s.to() == CARRIER);
        assert_eq!(passed.is_some_and(|s| s.text.contains("Alert-Info")), kept, "{from}: {sent:?}");
    }
}

/// The same, and the phone has another address now.
#[test]
fn phone_that_moved_ends_its_call_under_a_foreign_name() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let mut invite = Req::invite().sent_by("UDP", CARRIER);
    invite.to = "<sip:+4930@203.0.113.5>".to_owned();
    let got = lab.invite(CARRIER, invite.text()).remove(0);
    lab.ask(BOB, got.accept("b"));
    let bye = from_callee(&got, "BYE", "192.0.2.66:5060", "<sip:+4930@203.0.113.5>");
    let challenge = lab.ask("192.0.2.66:5060", bye.text());
    assert_eq!(challenge.status(), 407);
    lab.send("192.0.2.66:5060", bye.answer("bob", &challenge).text());
    assert!(lab.sent().iter().any(|s| s.method() == "BYE" && s.to() == CARRIER));
}

#[test]
fn notify_of_a_refer_has_no_other_event() {
    for (event, passes) in [("refer", true), ("refer;id=93", true), ("refer; ID=93", true)].into_iter().chain(
        ["refer;check-sync", "refer;id=1;reboot=true", "refer, check-sync", "check-sync"].map(|e| (e, false)),
    ) {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        let ok = lab.ask(BOB, got.accept("b"));
        let notify = invite.within("NOTIFY", &ok).line(&format!("Event: {event}"));
        // Who has only seen the token is at another address.
        assert_eq!(lab.ask("192.0.2.66:5060", notify.text()).status(), 481, "{event}");
        lab.send(CAROL, notify.text());
        let sent = lab.sent();
        assert_eq!(sent.iter().any(|s| s.to() == BOB), passes, "{event}: {sent:?}");
    }
}
