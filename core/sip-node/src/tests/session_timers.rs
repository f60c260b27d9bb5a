//! Session timers as this server asks for them (RFC 4028 section 8).

use super::emergency::{help, to};
use super::*;

const SUPPORTED: &str = "Supported: timer";

fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = Lab::with(|s| {
        s.records = true;
        s.auth.in_dialog = false;
        s.proxy.session = Some(SessionPolicy { interval: 1_800, shortest: 120 });
        change(s);
    });
    lab.phones(&[BOB]);
    lab
}

/// An INVITE of carol's for bob with these lines, and no other Supported.
fn invite(lines: &[&str]) -> Req {
    let mut invite = Req::invite();
    invite.lines.retain(|line| !line.starts_with("Supported"));
    lines.iter().fold(invite, |invite, line| invite.line(line))
}

/// Bob's 200 with these lines.
fn ok(got: &Sent, lines: &str) -> String {
    got.reply(200, "b", &format!("Contact: <sip:bob@{BOB}>\r\n{lines}"))
}

/// A call that bob answers with these lines: what bob got, and the 200 that carol gets.
#[track_caller]
fn call(lab: &mut Lab, invite: &Req, answer: &str) -> (Sent, Sent) {
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let answer = lab.ask(BOB, ok(&got, answer));
    assert_eq!(answer.status(), 200);
    (got, answer)
}

/// Session-Expires, Min-SE and Require of a message.
fn timers(sent: &Sent) -> [Option<&str>; 3] {
    ["Session-Expires", "Min-SE", "Require"].map(|name| sent.get(name))
}

/// The session interval of the one call that is known, seconds, and what is known of it.
#[track_caller]
fn session(lab: &Lab) -> (u32, Life) {
    let report = lab.report();
    assert_eq!(report.calls.len(), 1);
    (report.calls[0].session, report.calls[0].life)
}

#[test]
fn caller_alone_with_timers_gets_the_interval_confirmed() {
    let mut lab = lab(|_| {});
    let (got, answer) = call(&mut lab, &invite(&[SUPPORTED]), "");
    assert_eq!(timers(&got), [Some("1800"), None, None], "no refresher, no Require");
    assert_eq!(timers(&answer), [Some("1800;refresher=uac"), None, Some("timer")]);
    assert_eq!(session(&lab), (1_800, Life::Live));
    // A 200 that comes again is completed likewise.
    let again = lab.ask(BOB, ok(&got, ""));
    assert_eq!(timers(&again), timers(&answer));
}

#[test]
fn interval_without_measure_of_a_callee_is_cut() {
    let mut lab = lab(|_| {});
    let (_, answer) = call(&mut lab, &invite(&[]), "Session-Expires: 4000000000;refresher=uas\r\n");
    assert_eq!(timers(&answer)[0], Some("4000000000;refresher=uas"));
    let most = call_records::SESSION_MAX;
    assert_eq!((session(&lab), said(&lab)[0].1), ((most, Life::Live), most));
}

#[test]
fn callee_alone_with_timers_refreshes() {
    let mut lab = lab(|_| {});
    let lines = "Session-Expires: 1800;refresher=uas\r\n";
    let (got, answer) = call(&mut lab, &invite(&[]), lines);
    assert_eq!(timers(&got), [Some("1800"), None, None]);
    assert_eq!(timers(&answer), [Some("1800;refresher=uas"), None, None], "it is as the callee has said");
    assert_eq!(session(&lab), (1_800, Life::Live));
}

#[test]
fn both_with_timers_agree_without_this_server() {
    let mut lab = lab(|_| {});
    let lines = "Session-Expires: 600;refresher=uas\r\nRequire: timer\r\n";
    let (got, answer) = call(&mut lab, &invite(&[SUPPORTED, "Session-Expires: 3600;refresher=uas"]), lines);
    assert_eq!(timers(&got), [Some("1800;refresher=uas"), None, None], "reduced, with its refresher");
    assert_eq!(timers(&answer), [Some("600;refresher=uas"), None, Some("timer")]);
    assert_eq!(session(&lab), (600, Life::Live));
}

#[test]
fn neither_with_timers_has_no_session_timer() {
    let mut lab = lab(|_| {});
    let (_, answer) = call(&mut lab, &invite(&[]), "");
    assert_eq!(timers(&answer), [None; 3]);
    assert_eq!(session(&lab), (0, Life::Unknown));
}

#[test]
fn without_an_interval_in_the_settings_nothing_is_asked_for() {
    let mut lab = lab(|s| s.proxy.session = None);
    let (got, answer) = call(&mut lab, &invite(&[SUPPORTED, "Session-Expires: 60"]), "");
    assert_eq!(timers(&got), [Some("60"), None, None]);
    assert_eq!((timers(&answer), session(&lab)), ([None; 3], (0, Life::Unknown)));
}

#[test]
fn too_short_interval_is_refused_and_the_retry_is_one_call() {
    let mut lab = lab(|_| {});
    let first = invite(&[SUPPORTED, "Session-Expires: 90"]);
    let refused = lab.ask(CAROL, first.text());
    assert_eq!((refused.status(), refused.get("Min-SE")), (422, Some("120")));
    assert_eq!(refused.start(), "SIP/2.0 422 Session Interval Too Small");
    let again = lab.ask(CAROL, first.text());
    assert_eq!(again.text, refused.text, "a retransmission gets the same");
    lab.send(CAROL, first.ack(&refused).text());
    lab.silent();
    // RFC 4028 section 7.3: the same Call-ID, a higher CSeq, the interval and the Min-SE of the 422.
    let mut retry = invite(&[SUPPORTED, "Session-Expires: 120", "Min-SE: 120"]).sent_by("UDP", CAROL);
    (retry.call_id, retry.from, retry.cseq) = (first.call_id.clone(), first.from.clone(), first.cseq + 1);
    let (got, answer) = call(&mut lab, &retry, "");
    assert_eq!(timers(&got), [Some("120"), Some("120"), None]);
    assert_eq!(timers(&answer), [Some("120;refresher=uac"), None, Some("timer")]);
    let began = lab.world.said.borrow();
    let mut rest = began.as_slice();
    let mut calls = 0;
    while let Ok((event, length)) = call_records::frame::read(rest) {
        calls += usize::from(matches!(event.what, What::Began(_)));
        rest = &rest[length..];
    }
    assert_eq!(calls, 1, "the refused INVITE was no attempt to call");
}

#[test]
fn refused_interval_of_a_user_uses_no_nonce_twice() {
    let mut lab = lab(|_| {});
    let mut first = Req::invite().alice().line(SUPPORTED).line("Session-Expires: 90");
    let challenge = lab.ask(ALICE, first.text());
    assert_eq!(challenge.status(), 407);
    first = first.answer("alice", &challenge);
    let refused = lab.ask(ALICE, first.text());
    assert_eq!(refused.status(), 422);
    assert_eq!(lab.ask(ALICE, first.text()).text, refused.text, "no second challenge");
}

#[test]
fn short_interval_of_a_caller_without_timers_is_raised() {
    let mut lab = lab(|_| {});
    let (got, answer) = call(&mut lab, &invite(&["Session-Expires: 60"]), "");
    assert_eq!(timers(&got), [Some("120"), Some("120"), None]);
    assert_eq!(timers(&answer), [None; 3]);
}

#[test]
fn emergency_call_is_never_refused_for_its_interval() {
    let mut lab = lab(|s| s.emergency = Some(Emergency { strangers: true, ..help() }));
    let call = to("INVITE", "urn:service:sos").line("Session-Expires: 60");
    let got = lab.invite(CAROL, call.text()).remove(0);
    assert_eq!(timers(&got), [Some("60"), None, None]);
}

#[test]
fn interval_that_a_callee_refuses_is_asked_for_again() {
    let mut lab = lab(|_| {});
    let first = invite(&[SUPPORTED]);
    let got = lab.invite(CAROL, first.text()).remove(0);
    lab.send(BOB, got.reply(422, "b", "Min-SE: 7200\r\n"));
    let refused = lab.sent().into_iter().find(|s| s.status() > 0).expect("a response");
    assert_eq!((refused.status(), refused.get("Min-SE")), (422, Some("7200")));
    lab.send(CAROL, first.ack(&refused).text());
    let mut retry = invite(&[SUPPORTED, "Session-Expires: 7200", "Min-SE: 7200"]).sent_by("UDP", CAROL);
    (retry.call_id, retry.from, retry.cseq) = (first.call_id.clone(), first.from.clone(), first.cseq + 1);
    let (got, _) = call(&mut lab, &retry, "Session-Expires: 7200;refresher=uac\r\nRequire: timer\r\n");
    assert_eq!(timers(&got), [Some("7200"), Some("7200"), None], "Min-SE is more than our interval");
    assert_eq!(session(&lab), (7_200, Life::Live));
}

#[test]
fn refreshes_of_both_ends_set_the_interval() {
    let mut lab = lab(|_| {});
    let invite = invite(&[SUPPORTED]);
    let (got, answer) = call(&mut lab, &invite, "");
    lab.send(CAROL, invite.within("ACK", &answer).text());
    lab.sent();
    // The caller refreshes by UPDATE; the callee, which has no timers, by a re-INVITE for a hold.
    let update = invite.within("UPDATE", &answer).line(SUPPORTED).line("Session-Expires: 1800;refresher=uac");
    lab.send(CAROL, update.text());
    let out = lab.sent().into_iter().find(|s| s.method() == "UPDATE" && s.status() == 0).expect("an UPDATE");
    let back = lab.ask(BOB, out.reply(200, "", ""));
    assert_eq!(timers(&back), [Some("1800;refresher=uac"), None, Some("timer")]);
    let hold = from_callee(&got, "INVITE", BOB, "<sip:bob@here.example>");
    lab.send(BOB, hold.text());
    let out = lab.sent().into_iter().find(|s| s.to() == CAROL).expect("the re-INVITE");
    assert_eq!(timers(&out), [Some("1800"), None, None]);
    lab.send(CAROL, out.reply(200, "", "Session-Expires: 900;refresher=uas\r\nRequire: timer\r\n"));
    assert_eq!(session(&lab), (900, Life::Live));
}

#[test]
fn call_is_lost_when_its_interval_is_over() {
    let mut lab = lab(|_| {});
    let invite = invite(&[SUPPORTED]);
    let (_, answer) = call(&mut lab, &invite, "");
    lab.send(CAROL, invite.within("ACK", &answer).text());
    let life = |lab: &Lab| (lab.report().calls[0].life, lab.report().calls[0].refreshed);
    lab.pass(1_799_000);
    assert_eq!(life(&lab), (Life::Live, 1_799));
    lab.pass(2_000);
    assert_eq!(life(&lab), (Life::Lost, 1_801));
    // It has not ended: a late refresh finds it.
    let update = invite.within("UPDATE", &answer).line(SUPPORTED);
    lab.sent();
    lab.send(CAROL, update.text());
    let out = lab.sent().into_iter().find(|s| s.method() == "UPDATE" && s.status() == 0).expect("an UPDATE");
    lab.send(BOB, out.reply(200, "", ""));
    assert_eq!(life(&lab), (Life::Live, 0));
}

#[test]
fn answer_after_our_487_is_completed_too() {
    let mut lab = lab(|_| {});
    let invite = invite(&[SUPPORTED]);
    let got = lab.invite(CAROL, invite.text()).remove(0);
    lab.send(CAROL, invite.cancel().text());
    lab.pass(5_000);
    let end = lab.sent().into_iter().find(|s| s.status() == 487).expect("our 487");
    lab.send(CAROL, invite.ack(&end).text());
    let answer = lab.ask(BOB, ok(&got, ""));
    assert_eq!(answer.status(), 200, "RFC 3261 section 16.7 step 5");
    assert_eq!(timers(&answer), [Some("1800;refresher=uac"), None, Some("timer")]);
    assert_eq!(session(&lab), (1_800, Life::Live));
}

#[test]
fn answer_of_a_second_fork_is_completed_too() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB2]);
    let sent = lab.invite(CAROL, invite(&[SUPPORTED]).text());
    let mut answers = Vec::new();
    for (phone, tag) in [(&sent[0], "x"), (&sent[1], "y")] {
        lab.send(&phone.to(), phone.accept(tag));
        answers.extend(lab.sent().into_iter().filter(|s| s.status() == 200));
    }
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        assert_eq!(timers(answer), [Some("1800;refresher=uac"), None, Some("timer")]);
    }
}

/// What was said of refreshes: dialog, seconds.
fn said(lab: &Lab) -> Vec<(u64, u32)> {
    let said = lab.world.said.borrow();
    let (mut rest, mut all) = (said.as_slice(), Vec::new());
    while let Ok((event, length)) = call_records::frame::read(rest) {
        if let What::Refreshed(dialog, seconds) = event.what {
            all.push((dialog, seconds));
        }
        rest = &rest[length..];
    }
    all
}

#[test]
fn refreshes_of_both_ends_are_recorded_for_one_dialog() {
    let mut lab = lab(|_| {});
    let invite = invite(&[SUPPORTED]);
    let (got, answer) = call(&mut lab, &invite, "");
    lab.send(CAROL, invite.within("ACK", &answer).text());
    lab.send(CAROL, invite.within("UPDATE", &answer).line("Session-Expires: 600").text());
    let out = lab.sent().into_iter().find(|s| s.method() == "UPDATE" && s.status() == 0).expect("an UPDATE");
    // A refresh that fails sets nothing.
    lab.send(BOB, out.reply(500, "", "Session-Expires: 700\r\n"));
    lab.send(BOB, from_callee(&got, "UPDATE", BOB, "<sip:bob@here.example>").text());
    let out = lab.sent().into_iter().find(|s| s.to() == CAROL && s.status() == 0).expect("an UPDATE");
    lab.send(CAROL, out.reply(200, "", "Session-Expires: 900;refresher=uas\r\n"));
    let said = said(&lab);
    assert_eq!(said, [(said[0].0, 1_800), (said[0].0, 900)]);
}

#[test]
fn second_fork_that_answers_has_a_session_of_its_own() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB2]);
    let sent = lab.invite(CAROL, invite(&[SUPPORTED]).text());
    lab.send(&sent[0].to(), sent[0].accept("x"));
    lab.send(&sent[1].to(), sent[1].accept("y"));
    let said = said(&lab);
    assert!(said.len() == 2 && said[0].0 != said[1].0, "{said:?}");
}

#[test]
fn nothing_is_recorded_where_no_timers_are_asked_for() {
    for (records, interval) in [(true, None), (false, Some(1_800))] {
        let mut lab = lab(|s| {
            s.records = records;
            s.proxy.session = interval.map(|interval| SessionPolicy { interval, shortest: 90 });
        });
        call(&mut lab, &invite(&[SUPPORTED]), "");
        assert!(said(&lab).is_empty());
    }
}
