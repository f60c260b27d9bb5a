//! CANCEL: RFC 3261 sections 9 and 16.10.

use super::*;

#[test]
fn a_cancel_is_answered_here_and_cancels_every_branch() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    for s in &sent {
        lab.send(&s.to(), s.reply(180, "r", ""));
    }
    lab.sent();
    let cancel = req.cancel().line("Reason: SIP;cause=600;text=\"x\"");
    lab.send(CAROL, cancel.text());
    let after = lab.sent();
    assert_eq!((after[0].status(), after[0].get("CSeq")), (200, Some("1 CANCEL")));
    let cancels: Vec<&Sent> = after.iter().filter(|s| s.status() == 0).collect();
    assert_eq!(cancels.len(), 2);
    for (cancel, invite) in cancels.iter().zip(&sent) {
        // 9.1: the same Request-URI, Via, Call-ID, From, To and CSeq number, and one Via only.
        assert_eq!((cancel.uri(), cancel.to()), (invite.uri(), invite.to()));
        assert_eq!(cancel.all("Via"), [invite.get("Via").unwrap()]);
        assert_eq!(cancel.get("To"), invite.get("To"));
        assert_eq!(cancel.get("CSeq"), Some("1 CANCEL"));
        // RFC 3326 section 2: copied.
        assert_eq!(cancel.get("Reason"), Some("SIP;cause=600;text=\"x\""));
    }
    // A retransmitted CANCEL gets the same answer and no more.
    assert_eq!(
        statuses(&{
            lab.send(CAROL, cancel.text());
            lab.sent()
        }),
        [200]
    );
    lab.send(BOB, sent[0].reply(487, "r", ""));
    assert!(statuses(&lab.sent()).is_empty(), "the other is still to answer");
    lab.send(BOB2, sent[1].reply(487, "r", ""));
    assert_eq!(statuses(&lab.sent()), [487]);
    lab.rest();
}

#[test]
fn a_cancel_waits_for_a_provisional_response() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(CAROL, req.cancel().text());
    assert_eq!(requests(&lab.sent()), []);
    // 9.1: now it may go.
    lab.send(BOB, sent[0].reply(100, "", ""));
    assert_eq!(requests(&lab.sent()), [("CANCEL".to_owned(), BOB.to_owned())]);
    lab.send(BOB, sent[0].reply(487, "b", ""));
    assert_eq!(statuses(&lab.sent()), [487]);
    lab.rest();
}

#[test]
fn a_cancel_for_nothing_gets_481() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let answer = lab.ask(CAROL, Req::new("CANCEL", "sip:bob@here.example").text());
    assert_eq!(answer.status(), 481);
    lab.rest();
}

#[test]
fn a_cancel_from_elsewhere_has_no_effect() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    lab.send("192.0.2.66:5060", req.cancel().text());
    assert_eq!(statuses(&lab.sent()), [481]);
    lab.send(BOB, sent[0].accept("b"));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn a_cancel_that_crosses_the_200_loses() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    // The phone answers while the CANCEL is on its way to it.
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.send(CAROL, req.cancel().text());
    lab.sent();
    lab.send(BOB, sent[0].accept("b"));
    assert_eq!(statuses(&lab.sent()), [200]);
    // The CANCEL comes after the 200 was passed on (9.2): it is answered, and that is all.
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].accept("b"));
    lab.sent();
    let after = lab.ask(CAROL, req.cancel().text());
    assert_eq!((after.status(), after.method()), (200, "CANCEL"));
    lab.rest();
}

#[test]
fn a_phone_that_ignores_the_cancel_does_not_hold_the_caller_up_for_ever() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.send(CAROL, req.cancel().text());
    lab.sent();
    lab.pass(33_000);
    assert!(statuses(&lab.sent()).contains(&487));
    lab.rest();
}

#[test]
fn a_cancel_ends_the_lookup_of_a_name() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:carrier.example"], "+49")));
    let req = Req::new("INVITE", "sip:+49123@here.example").alice();
    let sent = lab.as_user(ALICE, "alice", &req);
    assert_eq!(statuses(&sent), [100]);
    assert_eq!(lab.world.questions.borrow().len(), 1);
    let invite = sent[0].clone();
    // The second attempt's CANCEL.
    let mut cancel = req.cancel();
    (cancel.via, cancel.cseq) = (invite.get("Via").unwrap().to_owned(), 2);
    lab.send(ALICE, cancel.text());
    assert_eq!(statuses(&lab.sent()), [200, 487]);
    lab.resolve("203.0.113.5");
    lab.silent();
    lab.rest();
}

#[test]
fn other_requests_are_not_cancelled() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::new("MESSAGE", "sip:bob@here.example");
    let sent = lab.ask(CAROL, req.text());
    let after = lab.ask(CAROL, req.cancel().text());
    assert_eq!((after.status(), after.method()), (200, "CANCEL"));
    assert_eq!(lab.ask(BOB, sent.reply(200, "b", "")).status(), 200);
}

#[test]
fn cancels_of_nothing_leave_nothing_behind() {
    let mut lab = Lab::limited(Limits { server: 10, client: 10, bytes: 64 << 20 }, |_| {});
    lab.phones(&[BOB]);
    let stray = Req::invite().cancel();
    let first = lab.ask(CAROL, stray.text());
    assert_eq!(first.status(), 481);
    assert_eq!(lab.ask(CAROL, stray.text()).text, first.text, "one that comes again gets the same");
    for _ in 0..50 {
        lab.send(CAROL, Req::invite().cancel().text());
    }
    assert_eq!(lab.report().transactions.server, 0);
    lab.sent();
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 1, "there is room");
}

#[test]
fn a_2xx_that_comes_after_our_487_still_reaches_the_caller() {
    // Nothing was heard of the phone, so the caller got his 487; it was only slow.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let got = lab.invite(CAROL, req.text()).remove(0);
    lab.send(CAROL, req.cancel().text());
    lab.pass(5_000);
    let end = lab.sent().into_iter().find(|s| s.status() == 487).unwrap();
    lab.send(CAROL, req.ack(&end).text());
    lab.silent();
    let ok = lab.ask(BOB, got.accept("b"));
    assert_eq!((ok.status(), ok.to().as_str(), ok.all("Via").len()), (200, CAROL, 1));
    // So he can end the call.
    assert_eq!(lab.ask(CAROL, req.within("ACK", &ok).text()).to(), BOB);
    assert_eq!(lab.ask(CAROL, req.within("BYE", &ok).text()).to(), BOB);
    // A failure that comes late is nobody's.
    let req = Req::invite();
    let got = lab.invite(CAROL, req.text()).remove(0);
    lab.send(CAROL, req.cancel().text());
    lab.pass(5_000);
    lab.sent();
    lab.send(BOB, got.reply(486, "b", ""));
    assert!(statuses(&lab.sent()).is_empty());
    lab.rest();
}

#[test]
fn a_cancel_is_answered_with_the_tag_of_what_it_cancels() {
    // 9.2. The name of the callee is still being looked up, so the 487 is ours too.
    let mut lab = Lab::open();
    let req = Req::new("INVITE", "sip:x@far.example").alice();
    assert!(lab.invite(ALICE, req.text()).is_empty());
    lab.send(ALICE, req.cancel().text());
    let sent = lab.sent();
    assert_eq!(statuses(&sent), [200, 487]);
    assert_eq!(sent[0].get("To"), sent[1].get("To"));
    assert!(!tag_of(sent[0].get("To").unwrap()).is_empty());
}

#[test]
fn a_late_2xx_reaches_the_caller_when_his_transaction_is_over_too() {
    // Over TCP the ACK of the 487 ends it at once, over UDP five seconds later.
    let on_tcp = tcp("192.0.2.10:40000", 1);
    for flow in [on_tcp, udp(CAROL)] {
        let mut lab = Lab::open();
        lab.phones(&[BOB]);
        let req = match flow.transport {
            Transport::Tcp => Req::invite().sent_by("TCP", CAROL),
            _ => Req::invite(),
        };
        lab.send_on(flow, req.text());
        let got = lab.sent().into_iter().find(|s| s.method() == "INVITE" && s.to() == BOB).unwrap();
        lab.send_on(flow, req.cancel().text());
        lab.pass(5_000);
        let end = lab.sent().into_iter().find(|s| s.status() == 487).unwrap();
        lab.send_on(flow, req.ack(&end).text());
        lab.pass(6_000);
        lab.sent();
        for _ in 0..2 {
            lab.send(BOB, got.accept("b"));
            let ok = lab.one();
            assert_eq!((ok.status(), ok.flow, ok.all("Via").len()), (200, flow, 1));
        }
        lab.rest();
    }
}

#[test]
fn what_waits_for_a_late_2xx_goes_with_the_last_branch_that_may_bring_one() {
    // Or a caller and a phone of his could fill the memory with it, past the cap of transactions.
    let caller = tcp("192.0.2.10:40000", 1);
    for answer in [true, false] {
        let mut lab = Lab::new();
        lab.bind("bob", "<sip:bob@192.0.2.20;transport=tcp>", tcp(BOB, 2));
        let req = Req::invite().sent_by("TCP", CAROL);
        lab.send_on(caller, req.text());
        let got = lab.sent().into_iter().find(|s| s.method() == "INVITE" && s.to() == BOB).unwrap();
        lab.send_on(caller, req.cancel().text());
        lab.pass(5_000);
        let end = lab.sent().into_iter().find(|s| s.status() == 487).unwrap();
        lab.send_on(caller, req.ack(&end).text());
        assert_eq!((lab.report().transactions.server, lab.node.users().forwarder().proxied().len()), (1, 1));
        match answer {
            true => lab.send_on(got.flow, got.reply(487, "b", "")),
            false => lab.pass(32_000),
        }
        lab.pass(1);
        assert_eq!((lab.report().transactions.client, lab.node.users().forwarder().proxied().len()), (0, 0));
    }
}
