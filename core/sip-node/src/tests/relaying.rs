//! Responses on their way back: RFC 3261 16.7, RFC 6026, RFC 4320, and what comes late.

use super::*;

#[test]
fn a_call_from_beginning_to_end() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    lab.send(CAROL, req.text());
    let sent = lab.sent();
    // 16.2: the 100 at once, and without a tag.
    assert_eq!(sent[0].status(), 100);
    assert_eq!(sent[0].get("To"), Some("<sip:bob@here.example>"));
    // A 100 of the next hop goes no further (16.7 step 5).
    lab.send(BOB, sent[1].reply(100, "", ""));
    lab.silent();
    let ringing = lab.ask(BOB, sent[1].reply(180, "b", ""));
    assert_eq!((ringing.status(), ringing.to().as_str()), (180, CAROL));
    assert_eq!(ringing.all("Via"), [req.via.as_str()]);
    let ok = lab.ask(BOB, sent[1].accept("b"));
    assert_eq!((ok.status(), ok.all("Via")), (200, vec![req.via.as_str()]));
    let ack = lab.ask(CAROL, req.within("ACK", &ok).text());
    assert_eq!((ack.method(), ack.to().as_str()), ("ACK", BOB));
    assert_eq!(ack.all("Max-Forwards"), ["69"]);
    let calls = lab.report().calls;
    assert_eq!((calls.len(), calls[0].answered), (1, true));
    assert_eq!(calls[0].to, "sip:bob@here.example");
    let bye = req.within("BYE", &ok);
    let sent = lab.ask(CAROL, bye.text());
    assert_eq!((sent.method(), sent.to().as_str()), ("BYE", BOB));
    let done = lab.ask(BOB, sent.reply(200, "", ""));
    assert_eq!((done.status(), done.to().as_str()), (200, CAROL));
    assert!(lab.report().calls.is_empty());
    lab.rest();
}

/// RFC 3261 section 17.2.1: no 100 where the callee answers within 200 ms.
#[test]
fn a_100_may_wait_for_the_callee() {
    for status in [180, 200, 486] {
        let mut lab = Lab::with(|s| s.proxy.trying_ms = 200);
        lab.phones(&[BOB]);
        let sent = lab.ask(CAROL, Req::invite().text());
        assert_eq!((sent.method(), sent.to().as_str()), ("INVITE", BOB));
        lab.pass(190);
        lab.silent();
        lab.send(BOB, sent.reply(status, "b", ""));
        assert!(statuses(&lab.sent()).contains(&status));
        lab.pass(5_000);
        assert!(!statuses(&lab.sent()).contains(&100), "{status}");
    }
}

#[test]
fn whose_callee_is_slow_gets_a_100_in_time_and_timer_c_is_as_ever() {
    let mut lab = Lab::with(|s| s.proxy.trying_ms = 150);
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.ask(CAROL, req.text());
    lab.pass(140);
    lab.silent();
    // It is the same request, and there is nothing to say yet.
    lab.send(CAROL, req.text());
    lab.silent();
    lab.pass(20);
    assert_eq!(lab.one().status(), 100);
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100, "for a retransmission again");
    lab.send(BOB, sent.reply(180, "b", ""));
    assert_eq!(lab.one().status(), 180);
    lab.pass(184_500);
    lab.silent();
    lab.pass(1_000);
    assert_eq!(lab.one().method(), "CANCEL");
}

#[test]
fn a_call_that_rings_at_once_is_ended_by_timer_c_as_well() {
    let mut lab = Lab::with(|s| s.proxy.trying_ms = 200);
    lab.phones(&[BOB]);
    let sent = lab.ask(CAROL, Req::invite().text());
    assert_eq!(lab.ask(BOB, sent.reply(180, "b", "")).status(), 180);
    lab.pass(184_500);
    lab.silent();
    lab.pass(1_000);
    assert_eq!(lab.one().method(), "CANCEL");
}

#[test]
fn retransmissions_end_here() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100);
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    assert_eq!(lab.ask(CAROL, req.text()).status(), 180);
}

#[test]
fn a_2xx_is_passed_on_as_often_as_it_comes_and_an_answered_call_counts_once() {
    let mut lab = Lab::open();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    for _ in 0..3 {
        assert_eq!(lab.ask(BOB, sent[0].accept("b")).status(), 200);
    }
    assert_eq!(lab.count(Counter::CallsAnswered), 1);
    assert_eq!(lab.world.observed.borrow().len(), 1);
    // For 64*T1 (RFC 6026 section 7), no longer.
    lab.pass(31_000);
    assert_eq!(lab.ask(BOB, sent[0].accept("b")).status(), 200);
    lab.pass(10_000);
    lab.send(BOB, sent[0].accept("b"));
    lab.silent();
    lab.rest();
}

#[test]
fn a_second_2xx_of_another_phone_behind_the_same_branch_goes_on_too() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(tag_of(lab.ask(BOB, sent[0].accept("one")).get("To").unwrap()), "one");
    assert_eq!(tag_of(lab.ask(BOB, sent[0].accept("two")).get("To").unwrap()), "two");
}

#[test]
fn provisional_responses_after_the_final_one_are_dropped() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB2, sent[1].reply(180, "c", ""));
    lab.send(BOB, sent[0].accept("b"));
    lab.sent();
    lab.send(BOB2, sent[1].reply(183, "c", ""));
    lab.silent();
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.silent();
}

#[test]
fn a_failure_is_acknowledged_here_and_repeated_until_the_caller_does() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let after = lab.sent();
    assert_eq!(requests(&after), [("ACK".to_owned(), BOB.to_owned())]);
    // 17.1.1.3: the ACK has the Request-URI, Via and tag that it must have.
    let ack = &after[0];
    assert_eq!((ack.uri(), ack.get("Via")), (sent[0].uri(), sent[0].get("Via")));
    assert_eq!(tag_of(ack.get("To").unwrap()), "b");
    let busy = after[1].clone();
    assert_eq!(busy.status(), 486);
    lab.send(BOB, sent[0].reply(486, "b", ""));
    assert_eq!(requests(&lab.sent()), [("ACK".to_owned(), BOB.to_owned())]);
    lab.pass(600);
    assert_eq!(statuses(&lab.sent()), [486]);
    lab.send(CAROL, req.ack(&busy).text());
    lab.silent();
    lab.pass(20_000);
    lab.silent();
    lab.rest();
}

#[test]
fn a_request_other_than_invite_that_nobody_answers_is_not_answered() {
    // RFC 4320 section 4.2: no 408; and its retransmissions are no new requests.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::new("MESSAGE", "sip:bob@here.example");
    lab.send(CAROL, req.text());
    assert_eq!(requests(&lab.sent()), [("MESSAGE".to_owned(), BOB.to_owned())]);
    lab.pass(32_100);
    assert_eq!(statuses(&lab.sent()), [100], "and retransmissions");
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100);
    lab.rest();
}

#[test]
fn a_slow_answer_to_another_request_is_announced_late() {
    // RFC 4320 section 4.1: a 100 when the client's timer E has come to T2, not before.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::new("MESSAGE", "sip:bob@here.example");
    let sent = lab.ask(CAROL, req.text());
    lab.pass(3_400);
    assert!(statuses(&lab.sent()).is_empty());
    lab.send(CAROL, req.text());
    lab.silent();
    lab.pass(200);
    assert_eq!(statuses(&lab.sent()), [100]);
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100, "for a retransmission again");
    assert_eq!(lab.ask(BOB, sent.reply(200, "b", "")).status(), 200);
    lab.pass(30_000);
    assert!(statuses(&lab.sent()).is_empty());
    lab.rest();
}

#[test]
fn provisional_responses_to_other_requests_end_here() {
    // RFC 4320 section 4.1.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text());
    lab.send(BOB, sent.reply(180, "b", ""));
    lab.silent();
    assert_eq!(lab.ask(BOB, sent.reply(202, "b", "")).status(), 202);
}

#[test]
fn responses_to_nothing_are_dropped() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    let ok = sent[0].accept("b");
    let branch = sent[0].get("Via").unwrap().split("branch=").nth(1).unwrap();
    let mut forged = branch.to_owned();
    forged.replace_range(8..9, if &branch[8..9] == "0" { "1" } else { "0" });
    lab.send(BOB, ok.replace(branch, &forged));
    lab.silent();
    // Another method in CSeq (17.1.3).
    lab.send(BOB, ok.replace("1 INVITE", "1 BYE"));
    lab.silent();
    // Without the caller's Via there is nobody to pass it on to.
    let alone = ok.replacen(&format!("Via: {}\r\n", sent[0].all("Via")[1]), "", 1);
    lab.send(BOB, alone);
    lab.silent();
    assert_eq!(lab.count(Counter::Stray), 3);
    // Status codes out of range are no responses (RFC 4475 bigcode).
    lab.send(BOB, ok.replace("200 Answer", "4294967301 Answer"));
    lab.silent();
}

#[test]
fn a_503_does_not_go_to_the_caller_as_it_is() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(503, "b", "Retry-After: 10\r\n"));
    assert_eq!(statuses(&lab.sent()), [500]);
    lab.rest();
}

#[test]
fn an_invite_that_nobody_answers_ends_with_408() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.pass(31_900);
    assert!(lab.sent().iter().all(|s| s.method() == "INVITE" && s.to() == BOB && s.status() == 0));
    lab.pass(300);
    let end = lab.sent();
    assert_eq!(statuses(&end), [408]);
    assert_ne!(tag_of(end[0].get("To").unwrap()), "");
    // Late: nothing.
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.silent();
    assert!(lab.report().calls.is_empty());
    lab.rest();
}

#[test]
fn a_call_that_rings_for_ever_is_ended_by_timer_c() {
    let mut lab = Lab::open();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    lab.pass(184_000);
    lab.silent();
    // 16.7 step 2: another provisional response starts it again.
    lab.send(BOB, sent[0].reply(183, "b", ""));
    assert_eq!(lab.one().status(), 183);
    lab.pass(184_000);
    lab.silent();
    lab.pass(1_100);
    // 16.8: the branch is cancelled.
    let cancel = lab.one();
    assert_eq!((cancel.method(), cancel.uri()), ("CANCEL", sent[0].uri()));
    lab.send(BOB, cancel.reply(200, "b", ""));
    lab.silent();
    lab.send(BOB, sent[0].reply(487, "b", ""));
    let end = lab.sent();
    assert_eq!(requests(&end), [("ACK".to_owned(), BOB.to_owned())]);
    assert!(matches!(statuses(&end)[..], [487 | 408]), "{end:?}");
    lab.rest();
}

#[test]
fn an_ack_for_what_was_refused_without_memory_is_absorbed() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite().alice();
    let challenge = lab.ask(ALICE, req.text());
    assert_eq!(challenge.status(), 407);
    assert_eq!(lab.report().transactions.server, 0, "a challenge costs no memory");
    lab.send(ALICE, req.ack(&challenge).text());
    lab.silent();
    // The same request again gets the same tag.
    assert_eq!(lab.ask(ALICE, req.text()).get("To"), challenge.get("To"));
}

#[test]
fn an_ack_is_never_answered() {
    let mut lab = Lab::new();
    for uri in ["sip:nobody@here.example", "sip:x@far.example", "sip:here.example", "http://x/", "sip:bob@@x"]
    {
        let req = Req { to: "<sip:x@y>;tag=1".to_owned(), ..Req::new("ACK", uri) };
        lab.send(CAROL, req.text());
        lab.silent();
    }
    let req = Req { max_forwards: "0".to_owned(), ..Req::new("ACK", "sip:bob@here.example") };
    lab.phones(&[BOB]);
    lab.send(CAROL, req.text());
    lab.silent();
    lab.send(CAROL, Req::new("ACK", "sip:bob@here.example").line("Proxy-Require: x").text());
    assert!(statuses(&lab.sent()).is_empty());
}

#[test]
fn a_status_that_nobody_knows_counts_as_its_class() {
    // 8.1.3.2.
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(lab.ask(BOB, sent[0].reply(155, "b", "")).status(), 155, "as 183, not as 100");
    lab.send(BOB, sent[0].reply(499, "b", ""));
    let after = lab.sent();
    assert_eq!((statuses(&after), requests(&after)), (vec![], vec![("ACK".to_owned(), BOB.to_owned())]));
    lab.send(BOB2, sent[1].reply(177, "c", ""));
    lab.sent();
    lab.send(BOB2, sent[1].reply(488, "c", ""));
    assert_eq!(statuses(&lab.sent()).len(), 1);
    // As 600: the other is cancelled.
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB2, sent[1].reply(180, "c", ""));
    lab.send(BOB, sent[0].reply(666, "b", ""));
    assert!(requests(&lab.sent()).contains(&("CANCEL".to_owned(), BOB2.to_owned())));
    lab.send(BOB2, sent[1].reply(487, "c", ""));
    assert_eq!(statuses(&lab.sent()), [666]);
    // As 200: at once, and to an INVITE as often as it comes.
    let sent = lab.invite(CAROL, Req::invite().text());
    for _ in 0..2 {
        lab.send(BOB, sent[0].reply(299, "b", ""));
        assert_eq!(statuses(&lab.sent()), [299]);
    }
    lab.rest();
}

#[test]
fn a_response_for_another_sent_by_is_dropped() {
    // 18.1.2.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    let ok = sent[0].accept("b");
    let ours = "SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKs";
    assert!(ok.contains(ours));
    for theirs in ["198.51.100.2:5060", "198.51.100.1:5066", "proxy.example"] {
        lab.send(BOB, ok.replacen("198.51.100.1:5060", theirs, 1));
        lab.silent();
    }
    assert_eq!(lab.count(Counter::Stray), 3);
    // However it is written.
    assert_eq!(
        lab.ask(BOB, ok.replacen(ours, "SIP / 2.0 / UDP  198.51.100.1 : 5060 ;branch=z9hG4bKs", 1)).status(),
        200
    );
    assert_eq!(lab.ask(BOB, &ok).status(), 200);
    lab.rest();
}

#[test]
fn an_answer_to_another_request_that_comes_too_late_ends_here() {
    // RFC 4320 section 4.2: no server transaction, no response.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text());
    lab.pass(40_000);
    lab.sent();
    let stray = lab.count(Counter::Stray);
    lab.send(BOB, sent.reply(200, "b", ""));
    lab.silent();
    assert_eq!(lab.count(Counter::Stray), stray + 1);
}
