//! Calls that nobody takes: rerouting with the cause of RFC 4458.

use super::*;
use sip_proxy::context::Reroute;

const MAILBOX: &str = "203.0.113.60:5060";

fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@203.0.113.60".to_vec(),
            on: Reroute::ALWAYS,
            ..Voicemail::default()
        });
        change(s);
    })
}

/// The request to the mailbox among what left.
#[track_caller]
fn to_mailbox(sent: &[Sent]) -> Sent {
    sent.iter().find(|s| s.to() == MAILBOX).unwrap_or_else(|| panic!("{sent:#?}")).clone()
}

#[test]
fn busy_rejected_and_not_registered() {
    for (status, rang, cause) in [
        (486, true, 486),
        (600, false, 486),
        (603, true, 487),
        (603, false, 480),
        (404, false, 404),
        (408, true, 408),
        (503, false, 503),
    ] {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let sent = lab.invite(CAROL, Req::invite().text());
        if rang {
            lab.send(BOB, sent[0].reply(180, "b", ""));
        }
        lab.send(BOB, sent[0].reply(status, "b", ""));
        let after = lab.sent();
        assert!(statuses(&after).iter().all(|s| *s < 200), "{status}");
        let mailbox = to_mailbox(&after);
        let uri = format!("sip:mailbox@203.0.113.60;target=sip:bob%40here.example;cause={cause}");
        assert_eq!(mailbox.uri(), uri, "{status}");
        lab.send(MAILBOX, mailbox.accept("m"));
        assert_eq!(statuses(&lab.sent()), [200]);
        assert_eq!(lab.count(Counter::Voicemail), 1);
        lab.rest();
    }
}

#[test]
fn a_callee_without_phone() {
    let mut lab = lab(|_| {});
    let sent = lab.invite(CAROL, Req::invite().text());
    assert!(to_mailbox(&sent).uri().ends_with(";cause=404"));
    // But only a subscriber has a mailbox.
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:nobody@here.example").text()).status(), 480);
    // And only for calls.
    assert_eq!(lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text()).status(), 480);
}

#[test]
fn nobody_answers() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, Req::invite().text());
    for s in &sent {
        lab.send(&s.to(), s.reply(180, "b", ""));
    }
    lab.pass(19_900);
    assert!(lab.sent().iter().all(|s| s.status() == 180));
    lab.pass(200);
    let after = lab.sent();
    let cancelled: Vec<String> = after.iter().filter(|s| s.method() == "CANCEL").map(Sent::to).collect();
    assert_eq!(cancelled, [BOB, BOB2]);
    assert!(to_mailbox(&after).uri().ends_with(";cause=408"));
    // The caller hears nothing of the phones any more.
    lab.send(BOB, sent[0].reply(487, "b", ""));
    lab.send(BOB2, sent[1].reply(487, "b", ""));
    assert!(statuses(&lab.sent()).is_empty());
    lab.send(MAILBOX, to_mailbox(&after).accept("m"));
    assert_eq!(statuses(&lab.sent()), [200]);
    lab.rest();
}

#[test]
fn a_phone_that_cannot_be_reached() {
    let mut lab = lab(|_| {});
    lab.bind("bob", "<sip:bob@192.0.2.20:41000;transport=tcp>", tcp("192.0.2.20:41000", 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.undeliverable(&sent[0]);
    assert!(to_mailbox(&lab.sent()).uri().ends_with(";cause=503"));
    // The same for one whose only flow is gone.
    let mut lab = self::lab(|_| {});
    let contact = format!("<sip:bob@{BOB}>;+sip.instance=\"<urn:uuid:1>\";reg-id=1");
    lab.bind_with("bob", &contact, tcp("192.0.2.20:41000", 1), "Supported: path, outbound\r\n");
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.undeliverable(&sent[0]);
    assert!(to_mailbox(&lab.sent()).uri().ends_with(";cause=503"));
}

#[test]
fn only_for_the_reasons_that_the_operator_names() {
    let mut lab = lab(|s| s.voicemail.as_mut().unwrap().on = Reroute::BUSY);
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(603, "b", ""));
    assert_eq!(statuses(&lab.sent()), [603]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    to_mailbox(&lab.sent());
    lab.rest();
}

#[test]
fn only_a_call_that_is_being_set_up_and_only_of_our_own_users() {
    // A re-INVITE that is refused changes nothing.
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    let ok = lab.ask(BOB, sent[0].accept("b"));
    for uri in ["sip:bob@192.0.2.20:5060", "sip:bob@here.example"] {
        let again = Req { uri: uri.to_owned(), lines: Vec::new(), ..req.within("INVITE", &ok) };
        let sent = lab.invite(CAROL, again.text());
        lab.send(BOB, sent[0].reply(486, "b", ""));
        assert_eq!(statuses(&lab.sent()), [486], "{uri}");
    }
    // Somebody in another domain has a mailbox of his own.
    let mut lab = self::lab(|s| s.auth.enabled = false);
    let far = Req::new("INVITE", "sip:x@203.0.113.9").alice();
    let sent = lab.invite(ALICE, far.text());
    lab.send("203.0.113.9:5060", sent[0].reply(486, "b", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
    // So has a user of ours whose caller asked for another proxy.
    let sent = lab.invite(ALICE, Req::invite().alice().line("Route: <sip:203.0.113.9;lr>").text());
    lab.send("203.0.113.9:5060", sent[0].reply(486, "b", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
}

#[test]
fn a_cancelled_call_leaves_no_message() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.send(CAROL, req.cancel().text());
    lab.send(BOB, sent[0].reply(487, "b", ""));
    assert_eq!(statuses(&lab.sent()), [180, 200, 487]);
    lab.rest();
}

#[test]
fn a_mailbox_that_fails_too() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let mailbox = to_mailbox(&lab.sent());
    lab.send(MAILBOX, mailbox.reply(503, "m", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
    lab.rest();
}

#[test]
fn a_mailbox_that_registers_like_a_phone() {
    let mut lab = lab(|s| s.voicemail.as_mut().unwrap().uri = b"sip:dave@here.example".to_vec());
    lab.bind("dave", "<sip:dave@203.0.113.60:5060>", udp(MAILBOX));
    let sent = lab.invite(CAROL, Req::invite().text());
    let uri = to_mailbox(&sent).uri().to_owned();
    assert_eq!(uri, "sip:dave@203.0.113.60:5060;target=sip:bob%40here.example;cause=404");
    // If it is not there: 480, as if there were none.
    let mut lab = self::lab(|s| s.voicemail.as_mut().unwrap().uri = b"sip:dave@here.example".to_vec());
    lab.send(CAROL, Req::invite().text());
    assert_eq!(statuses(&lab.sent()).last(), Some(&480));
    lab.rest();
}

#[test]
fn a_callee_called_by_number() {
    let mut lab = lab(|_| {});
    lab.world.users.borrow_mut().push(("100", "here.example", "x"));
    let mut req = Req::new("INVITE", "tel:100;phone-context=here.example");
    req.to = "<tel:100;phone-context=here.example>".to_owned();
    let sent = lab.invite(CAROL, req.text());
    assert!(to_mailbox(&sent).uri().ends_with("target=tel:100%3Bphone-context%3Dhere.example;cause=404"));
    // But only a subscriber has a mailbox.
    let mut req = Req::new("INVITE", "tel:200");
    req.to = "<tel:200>".to_owned();
    assert_eq!(lab.ask(CAROL, req.text()).status(), 480);
}

/// A network without names: the domain is the server's address, and voicemail runs beside the server.
#[test]
fn a_mailbox_at_another_port_of_the_address_that_is_the_domain() {
    let (ip, _) = US.split_once(':').unwrap();
    let beside = format!("{ip}:5095");
    let mut lab = lab(|s| {
        s.domains.push(ip.as_bytes().to_vec());
        s.voicemail.as_mut().unwrap().uri = format!("sip:mailbox@{beside}").into_bytes();
    });
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    let mailbox = sent.iter().find(|s| s.to() == beside).unwrap_or_else(|| panic!("{sent:#?}")).clone();
    assert_eq!(mailbox.uri(), format!("sip:mailbox@{beside};target=sip:bob%40here.example;cause=404"));
    let ok = lab.ask(&beside, mailbox.accept("m"));
    assert_eq!(ok.status(), 200);
    lab.send(CAROL, req.within("ACK", &ok).text());
    assert_eq!(lab.sent()[0].to(), beside);
    lab.send(CAROL, req.within("BYE", &ok).text());
    let bye = lab.sent().remove(0);
    assert_eq!((bye.method(), bye.to()), ("BYE", beside.clone()));
    lab.send(&beside, bye.reply(200, "m", ""));
    assert_eq!(statuses(&lab.sent()), [200]);
    // Without a port it names a user, and so does the server's own port.
    for target in [format!("sip:dave@{ip}"), format!("sip:dave@{US}")] {
        let mut lab = self::lab(|s| {
            s.domains.push(ip.as_bytes().to_vec());
            s.voicemail.as_mut().unwrap().uri = target.clone().into_bytes();
        });
        lab.send(CAROL, Req::invite().text());
        assert_eq!(statuses(&lab.sent()).last(), Some(&480), "{target}");
    }
}
