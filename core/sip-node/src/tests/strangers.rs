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
        ("NOTIFY", false, false, false),
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
fn notify_passes_in_a_subscription_of_our_user() {
    let mut lab = Lab::new();
    let subscribe = Req::new("SUBSCRIBE", &format!("sip:carol@{CAROL}")).alice().line("Event: presence");
    let sent = lab.as_user(ALICE, "alice", &subscribe);
    let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
    lab.ask(CAROL, got.accept("b"));
    let notify = from_callee(&got, "NOTIFY", CAROL, "<sip:carol@far.example>").line("Event: presence");
    assert_eq!(lab.ask(CAROL, notify.text()).to(), ALICE);
}

/// Our phone reports on a REFER of the stranger's; its Record-Route is of a call all the same.
#[test]
fn notify_within_a_call_begins_no_subscription() {
    let mut lab = Lab::new();
    let (mut refer, got) = in_call(&mut lab, false);
    refer.method = "REFER".to_owned();
    assert_eq!(lab.ask(CAROL, refer.text()).to(), ALICE);
    let mut notify = Req::new("NOTIFY", &format!("sip:carol@{CAROL}")).alice();
    (notify.from, notify.call_id) = (refer.to.clone(), refer.call_id.clone());
    (notify.to, notify.cseq) = (refer.from.clone(), 20);
    notify.lines.extend(got.all("Record-Route").iter().map(|route| format!("Route: {route}")));
    let sent = lab.as_user(ALICE, "alice", &notify.line("Event: refer"));
    let report = sent.iter().find(|s| s.to() == CAROL).expect("a NOTIFY");
    let mut forged = Req { method: "NOTIFY".to_owned(), cseq: 30, ..refer };
    forged.lines = report.all("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    assert!(!forged.lines.is_empty());
    assert_eq!(lab.ask(CAROL, forged.line("Event: check-sync").text()).status(), 403);
}

#[test]
fn info_needs_the_call_that_its_token_is_of() {
    let mut lab = Lab::new();
    let (invite, ok) = in_call(&mut lab, true);
    let info = |cseq| Req { cseq, ..invite.within("INFO", &ok) };
    let mut made_up = info(5);
    made_up.to = "<sip:bob@here.example>;tag=x".to_owned();
    assert_eq!(lab.ask(CAROL, made_up.text()).status(), 403);
    assert_eq!(lab.ask(CAROL, info(6).text()).to(), BOB);
    let bye = lab.ask(CAROL, Req { cseq: 7, ..invite.within("BYE", &ok) }.text());
    lab.ask(BOB, bye.reply(200, "", ""));
    assert_eq!(lab.ask(CAROL, info(8).text()).status(), 403);
}

#[test]
fn register_in_an_unserved_domain_is_reported_as_such() {
    for allowed in [true, false] {
        let mut lab = Lab::with(|s| s.proxy.strangers.allowed = allowed);
        assert_eq!(lab.ask(CAROL, Req::new("REGISTER", "sip:other.example").text()).status(), 403);
        assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::NotOurs);
    }
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
