//! Strangers that ignore Record-Route: their requests have neither our Route nor our token.

use super::*;

/// A stranger's request within a dialog, to the Contact of this phone and without Route.
fn bare(invite: &Req, method: &str, tag: &str, phone: &str) -> Req {
    let mut req = invite.clone().sent_by("UDP", CAROL);
    (req.method, req.uri) = (method.to_owned(), format!("sip:bob@{phone}"));
    req.to = format!("<sip:bob@here.example>;tag={tag}");
    (req.cseq, req.lines) = (invite.cseq + number(), Vec::new());
    req
}

/// Where it goes, or the status that the sender gets.
fn outcome(lab: &mut Lab, req: &Req) -> String {
    let sent = lab.ask(CAROL, req.text());
    match sent.status() {
        0 => sent.to(),
        status => status.to_string(),
    }
}

/// The BYE of this dialog, answered with 200.
fn hang_up(lab: &mut Lab, invite: &Req, tag: &str, phone: &str) {
    let bye = lab.ask(CAROL, bare(invite, "BYE", tag, phone).text());
    assert_eq!(bye.to(), phone);
    assert_eq!(lab.ask(phone, bye.reply(200, "", "")).status(), 200);
}

/// A call that rings: the INVITE, and what the phone got.
fn ringing(lab: &mut Lab, tag: &str) -> (Req, Sent) {
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let reliable = got.reply(183, tag, "Require: 100rel\r\nRSeq: 1\r\n");
    assert_eq!(lab.ask(BOB, reliable).status(), 183);
    (invite, got)
}

/// A call that both phones have answered.
fn forked() -> (Lab, Req) {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text());
    for (got, phone, tag) in [(&got[0], BOB, "one"), (&got[1], BOB2, "two")] {
        lab.send(phone, got.accept(tag));
        assert!(statuses(&lab.sent()).contains(&200), "{phone}");
    }
    (lab, invite)
}

#[test]
fn request_without_route_passes_in_an_early_dialog() {
    let mut lab = Lab::new();
    let (invite, _) = ringing(&mut lab, "b");
    for method in ["PRACK", "UPDATE", "INFO", "BYE"] {
        let contact = bare(&invite, method, "b", BOB);
        let aor = Req { uri: "sip:bob@here.example".to_owned(), ..bare(&invite, method, "b", BOB) };
        assert_eq!([contact, aor].map(|req| outcome(&mut lab, &req)), [BOB, BOB], "{method}");
    }
    assert_eq!(outcome(&mut lab, &bare(&invite, "INFO", "other", BOB)), "481");
}

#[test]
fn bye_ends_only_its_own_dialog_of_a_forked_call() {
    let (mut lab, invite) = forked();
    hang_up(&mut lab, &invite, "one", BOB);
    assert_eq!(lab.report().calls.len(), 1);
    assert_eq!(outcome(&mut lab, &bare(&invite, "INFO", "one", BOB)), "481");
    assert_eq!(outcome(&mut lab, &bare(&invite, "INFO", "two", BOB2)), BOB2);
    // A BYE that is repeated, or of a made-up tag, ends no other dialog.
    for tag in ["one", "other"] {
        let bye = lab.ask(CAROL, bare(&invite, "BYE", tag, BOB).text());
        assert_eq!(lab.ask(BOB, bye.reply(481, "", "")).status(), 481);
        assert_eq!(lab.report().calls.len(), 1, "{tag}");
    }
    hang_up(&mut lab, &invite, "two", BOB2);
    assert!(lab.report().calls.is_empty());
}

#[test]
fn bye_of_an_early_dialog_leaves_the_call_that_rings() {
    let mut lab = Lab::new();
    let (invite, got) = ringing(&mut lab, "b");
    hang_up(&mut lab, &invite, "b", BOB);
    assert_eq!(lab.report().calls.len(), 1);
    assert_eq!(lab.ask(BOB, got.accept("c")).status(), 200);
    assert_eq!(outcome(&mut lab, &bare(&invite, "INFO", "c", BOB)), BOB);
    hang_up(&mut lab, &invite, "c", BOB);
    assert!(lab.report().calls.is_empty());
}

#[test]
fn early_dialog_ends_with_a_call_that_fails() {
    for (status, cancels) in [(486, false), (487, true)] {
        let mut lab = Lab::new();
        let (invite, got) = ringing(&mut lab, "b");
        if cancels {
            lab.send(CAROL, invite.cancel().text());
            lab.sent();
        }
        lab.send(BOB, got.reply(status, "b", ""));
        assert!(statuses(&lab.sent()).contains(&status));
        assert!(lab.report().calls.is_empty(), "{status}");
        assert_eq!(outcome(&mut lab, &bare(&invite, "INFO", "b", BOB)), "481", "{status}");
    }
}

/// The call began at another node, before a restart or without memory, or made room for another one.
#[test]
fn call_that_no_table_knows_can_be_ended() {
    let elsewhere = |change: fn(&mut Settings)| {
        let mut lab = Lab::with(change);
        lab.phones(&[BOB]);
        (lab, Req::invite())
    };
    let evicted = || {
        let mut lab = Lab::with(|s| s.calls = 1);
        let (invite, got) = ringing(&mut lab, "b");
        assert_eq!(lab.ask(BOB, got.accept("b")).status(), 200);
        lab.invite(CAROL, Req::invite().text());
        (lab, invite)
    };
    for (what, (mut lab, invite)) in [
        ("of another node", elsewhere(|_| {})),
        ("without memory", elsewhere(|s| s.proxy.mode = Mode::Stateless)),
        ("evicted", evicted()),
    ] {
        for method in ["BYE", "PRACK", "UPDATE"] {
            assert_eq!(outcome(&mut lab, &bare(&invite, method, "b", BOB)), BOB, "{method} {what}");
        }
        assert_eq!(outcome(&mut lab, &bare(&invite, "INFO", "b", BOB)), "481", "{what}");
    }
}

#[test]
fn strangers_refused_end_no_call_without_its_route() {
    let mut lab = Lab::new();
    let (invite, _) = ringing(&mut lab, "b");
    lab.reconfigure(|s| s.proxy.strangers.allowed = false);
    for (method, tag) in [("BYE", "b"), ("PRACK", "b"), ("UPDATE", "b"), ("INFO", "b"), ("BYE", "other")] {
        assert_eq!(outcome(&mut lab, &bare(&invite, method, tag, BOB)), "403", "{method} {tag}");
    }
}
