//! What the records of calls say of them.

use super::*;
use call_records::{Ledger, Party, Record, frame};

const MAILBOX: &str = "203.0.113.60:5060";
const SDP: &str = "v=0\r\nm=audio 4000 RTP/AVP 8 0\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n";

pub(super) fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.records = true;
        change(s);
    })
}

/// The records of all that was said, an hour later.
#[track_caller]
pub(super) fn records(lab: &Lab) -> Vec<Record> {
    let (strays, done) = said(lab);
    assert_eq!(strays, 0, "{done:#?}");
    done
}

/// The same, and how many events belong to no call.
fn said(lab: &Lab) -> (u64, Vec<Record>) {
    let limits = call_records::Limits {
        calls: 100,
        setup: Duration::from_secs(300),
        session: Some(Duration::from_secs(60)),
        late: Duration::from_secs(72),
        repeated: Duration::from_secs(40),
    };
    let (mut ledger, mut done) = (Ledger::new(limits), Vec::new());
    let said = lab.world.said.borrow();
    let mut rest = said.as_slice();
    while !rest.is_empty() {
        let (event, length) = frame::read(rest).expect("a frame");
        ledger.apply(&event, &mut done);
        rest = &rest[length..];
    }
    ledger.expire(u64::MAX, &mut done);
    assert!(ledger.is_empty());
    (ledger.strays(), done)
}

#[track_caller]
pub(super) fn one(lab: &Lab) -> Record {
    let mut all = records(lab);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

pub(super) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Milliseconds from the beginning until something.
pub(super) fn after(record: &Record, at: Option<u64>) -> Option<u64> {
    at.map(|at| (at - record.started) / 1_000)
}

#[test]
fn answered_call_is_recorded_whoever_ends_it() {
    for by in [Party::Caller, Party::Callee] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        lab.phones(&[BOB]);
        let invite = Req::invite();
        let sent = lab.invite(CAROL, invite.text());
        lab.pass(1_000);
        lab.send(BOB, sent[0].reply(180, "b", ""));
        lab.pass(2_000);
        let with_sdp = sent[0]
            .accept("b")
            .replace("Content-Length: 0\r\n\r\n", &format!("Content-Length: {}\r\n\r\n{SDP}", SDP.len()));
        lab.send(BOB, with_sdp);
        let ok = lab.sent().pop().expect("a 200");
        lab.send(CAROL, invite.within("ACK", &ok).text());
        lab.pass(5_000);
        lab.sent();
        match by {
            Party::Caller => {
                lab.send(CAROL, invite.within("BYE", &ok).text());
                let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
                lab.send(BOB, bye.reply(200, "", ""));
            }
            _ => {
                lab.send(BOB, from_callee(&sent[0], "BYE", BOB, "<sip:bob@here.example>").text());
                let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
                lab.send(CAROL, bye.reply(200, "", ""));
            }
        }
        let record = one(&lab);
        assert_eq!((record.status, record.ended_by, record.tried), (200, by, 1));
        assert_eq!(after(&record, record.ringing), Some(1_000));
        assert_eq!(after(&record, record.answered), Some(3_000));
        assert_eq!(after(&record, Some(record.ended)), Some(8_000));
        assert_eq!(text(&record.source.call_id), invite.call_id);
        assert_eq!(text(&record.source.from), "sip:carol@far.example");
        assert_eq!(text(&record.source.to), "sip:bob@here.example");
        assert_eq!((text(&record.source.user), text(&record.source.trunk)), ("", ""));
        assert_eq!(text(&record.callee.codec), "m=audio 4000 RTP/AVP 8 0 a=rtpmap:8 PCMA/8000");
        assert_eq!(text(&record.callee.target), format!("sip:bob@{BOB}"));
    }
}

#[test]
fn refused_calls_are_recorded_with_who_refused() {
    // A 503 of the callee says nothing of this server (RFC 3261 section 16.7 step 6).
    for (status, told, by) in [
        (486, 486, Party::Callee),
        (603, 603, Party::Callee),
        (503, 500, Party::Server),
        // Nobody has cancelled.
        (487, 487, Party::Callee),
    ] {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let sent = lab.invite(CAROL, Req::invite().text());
        lab.send(BOB, sent[0].reply(status, "b", ""));
        lab.sent();
        let record = one(&lab);
        assert_eq!((record.status, record.ended_by, record.answered), (told, by, None));
    }
}

#[test]
fn cancelled_call_is_recorded_as_the_callers_end() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB, BOB2]);
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    for s in &sent {
        lab.send(&s.to(), s.reply(180, "r", ""));
    }
    lab.pass(4_000);
    lab.send(CAROL, invite.cancel().text());
    for s in &sent {
        lab.send(&s.to(), s.reply(487, "r", ""));
    }
    let record = one(&lab);
    assert_eq!((record.status, record.ended_by, record.tried), (487, Party::Caller, 2));
    assert_eq!((after(&record, record.ringing), after(&record, Some(record.ended))), (Some(0), Some(4_000)));
}

#[test]
fn call_that_rings_for_too_long_is_a_timeout() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    lab.pass(186_000);
    assert_eq!(requests(&lab.sent())[0], ("CANCEL".to_owned(), BOB.to_owned()));
    lab.send(BOB, sent[0].reply(487, "b", ""));
    assert_eq!(one(&lab).ended_by, Party::Timeout);
}

#[test]
fn answer_that_crosses_a_cancel_counts() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.send(CAROL, invite.cancel().text());
    lab.sent();
    lab.send(BOB, sent[0].accept("b"));
    let ok = lab.sent().into_iter().find(|s| s.status() == 200).expect("a 200");
    lab.send(CAROL, invite.within("BYE", &ok).text());
    let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
    lab.send(BOB, bye.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.status, record.ended_by), (200, Party::Caller));
    assert!(record.answered.is_some());
}

#[test]
fn forked_call_is_one_record() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB, BOB2, BOB3]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(&sent[0].to(), sent[0].reply(486, "x", ""));
    lab.send(&sent[1].to(), sent[1].accept("b"));
    lab.send(&sent[2].to(), sent[2].reply(487, "y", ""));
    lab.sent();
    let record = one(&lab);
    assert_eq!((record.status, record.tried, record.ended_by), (200, 3, Party::Timeout));
    assert_eq!(text(&record.callee.target), sent[1].uri());
    assert_eq!(record.targets.len(), 3);
}

#[test]
fn users_and_trunks_are_named() {
    let mut lab = lab(|s| {
        s.trunks = vec![trunk(&["sip:203.0.113.5"], "+")];
    });
    let call = Req::new("INVITE", "sip:+4930@here.example").alice();
    let sent = lab.as_user(ALICE, "alice", &call);
    let out = sent.into_iter().find(|s| s.status() == 0).expect("the INVITE");
    lab.send("203.0.113.5:5060", out.accept("b"));
    let record = one(&lab);
    assert_eq!(text(&record.source.user), "alice@here.example");
    assert_eq!((text(&record.callee.trunk), text(&record.source.trunk)), ("carrier", ""));

    lab.world.said.borrow_mut().clear();
    lab.phones(&[BOB]);
    let mut call = Req::invite().sent_by("UDP", "203.0.113.5").line("P-Asserted-Identity: \"x\" <tel:+4940>");
    call.from = "<sip:+4940@carrier.example>;tag=t".to_owned();
    lab.sent();
    let sent = lab.invite("203.0.113.5:5060", call.text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let record = one(&lab);
    assert_eq!((text(&record.source.trunk), text(&record.source.asserted)), ("carrier", "tel:+4940"));
    assert_eq!(record.status, 486);
}

#[test]
fn user_in_the_record_is_the_one_who_has_proven_itself() {
    let mut lab = lab(|s| {
        s.trunks = vec![trunk(&["sip:203.0.113.5"], "+")];
        s.auth.bind_from = false;
    });
    for from in ["dave@here.example", "anonymous@anonymous.invalid", "anonymous@here.example"] {
        let mut call = Req::new("INVITE", "sip:+4930@here.example").alice();
        call.from = format!("<sip:{from}>;tag=t");
        let sent = lab.as_user(ALICE, "alice", &call);
        let out = sent.into_iter().find(|s| s.status() == 0).expect("the INVITE");
        lab.send("203.0.113.5:5060", out.reply(486, "b", ""));
        lab.sent();
        assert_eq!(text(&one(&lab).source.user), "alice@here.example", "{from}");
        lab.world.said.borrow_mut().clear();
    }
}

#[test]
fn next_gateway_and_voicemail_are_attempts_of_one_call() {
    let mut lab = lab(|s| {
        s.voicemail = Some(Voicemail { uri: b"sip:mailbox@203.0.113.60".to_vec(), ..Voicemail::default() });
    });
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let mailbox = lab.sent().into_iter().find(|s| s.to() == MAILBOX).expect("the mailbox");
    lab.send(MAILBOX, mailbox.accept("m"));
    let record = one(&lab);
    assert_eq!((record.status, record.tried), (200, 2));
    assert!(text(&record.callee.target).starts_with("sip:mailbox@203.0.113.60"), "{record:?}");
}

#[test]
fn calls_to_nobody_are_recorded_once() {
    let mut lab = lab(|s| s.trunks = vec![trunk(&["sip:203.0.113.5"], "+")]);
    let call = Req::new("INVITE", "sip:nobody@here.example").alice();
    let sent = lab.as_user(ALICE, "alice", &call);
    let status = sent[0].status();
    assert!(status >= 400, "{sent:?}");
    let record = one(&lab);
    assert_eq!((record.status, record.ended_by), (status, Party::Server));

    // Without credentials nothing would be remembered of a refusal: a repeated INVITE is a second call.
    lab.world.said.borrow_mut().clear();
    let mut call = Req::new("INVITE", "sip:nobody@here.example").sent_by("UDP", "203.0.113.5");
    call.from = "<sip:+4940@carrier.example>;tag=t".to_owned();
    let first = lab.ask("203.0.113.5:5060", call.text());
    let again = lab.ask("203.0.113.5:5060", call.text());
    assert_eq!(first.text, again.text);
    assert_eq!(one(&lab).status, first.status());
}

#[test]
fn refused_stranger_has_one_record() {
    let mut lab = lab(|s| s.proxy.strangers.allowed = false);
    let invite = Req::invite();
    assert_eq!(lab.ask(CAROL, invite.text()).status(), 403);
    lab.pass(500);
    assert_eq!(lab.ask(CAROL, invite.text()).status(), 403);
    let record = one(&lab);
    assert_eq!((record.status, record.ended_by, record.tried), (403, Party::Server, 0));
    assert_eq!((text(&record.source.user), text(&record.source.trunk)), ("", ""));
    assert_eq!((record.ended, text(&record.source.call_id)), (record.started, &*invite.call_id));
}

#[test]
fn stranger_who_calls_nobody_has_one_record() {
    let mut lab = lab(|_| {});
    let status = lab.ask(CAROL, Req::new("INVITE", "sip:nobody@here.example").text()).status();
    assert!(status >= 400);
    assert_eq!(one(&lab).status, status);
}

#[test]
fn what_was_not_admitted_has_no_record() {
    let mut lab = lab(|_| {});
    assert_eq!(lab.ask(ALICE, Req::invite().alice().text()).status(), 407);
    assert_eq!(records(&lab), []);
    let off = |s: &mut Settings| s.records = false;
    lab.reconfigure(off);
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    lab.invite(CAROL, Req::invite().text());
    assert!(lab.world.said.borrow().is_empty());
}

#[test]
fn silent_callee_is_a_timeout() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    lab.invite(CAROL, Req::invite().text());
    lab.pass(60_000);
    let record = one(&lab);
    assert_eq!((record.status, record.ended_by), (408, Party::Timeout));
    assert!(
        after(&record, Some(record.ended)).is_some_and(|ms| (31_000..33_000).contains(&ms)),
        "{record:?}"
    );
}

#[test]
fn restart_between_begin_and_end_leaves_one_record() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let invite = Req::invite();
    lab.invite(CAROL, invite.text());
    lab.restart();
    // The caller repeats its INVITE.
    lab.pass(500);
    lab.sent();
    let sent = lab.invite(CAROL, invite.text());
    lab.send(BOB, sent[0].accept("b"));
    let ok = lab.sent().pop().expect("a 200");
    lab.restart();
    lab.pass(9_500);
    lab.send(CAROL, invite.within("BYE", &ok).text());
    let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
    lab.send(BOB, bye.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.status, record.ended_by, record.joined), (200, Party::Caller, 1));
    assert_eq!(
        (after(&record, record.answered), after(&record, Some(record.ended))),
        (Some(500), Some(10_000))
    );
}

#[test]
fn bye_that_is_refused_ends_no_record() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    lab.send(BOB, sent[0].accept("b"));
    let ok = lab.sent().pop().expect("a 200");
    let bye = |lab: &mut Lab, status: u16| {
        lab.pass(1_000);
        lab.send(CAROL, invite.within("BYE", &ok).text());
        let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
        lab.send(BOB, bye.reply(status, "", ""));
        lab.sent();
    };
    // An old sequence number (RFC 3261 section 12.2.2), and a challenge.
    bye(&mut lab, 500);
    bye(&mut lab, 401);
    bye(&mut lab, 200);
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Caller, Some(3_000)));
}

/// A call of carol's that bob has answered: the INVITE, as bob has it, and the answer.
pub(super) fn up(lab: &mut Lab) -> (Req, Sent, Sent) {
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    lab.send(BOB, got.accept("b"));
    let ok = lab.sent().pop().expect("a 200");
    lab.send(CAROL, invite.within("ACK", &ok).text());
    lab.sent();
    (invite, got, ok)
}

/// Sends a BYE and returns it as the other end has it.
pub(super) fn bye(lab: &mut Lab, from: &str, bye: &Req) -> Sent {
    lab.send(from, bye.text());
    lab.sent().into_iter().find(|s| s.method() == "BYE" && s.status() == 0).expect("a BYE")
}

#[test]
fn invite_with_the_ids_of_a_call_has_its_own_record() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    lab.bind("dave", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let (invite, _, ok) = up(&mut lab);
    let thief = "192.0.2.99:5060";
    let stolen = invite.clone().sent_by("UDP", thief);
    let mut other = invite.clone().sent_by("UDP", CAROL);
    other.uri = "sip:dave@here.example".to_owned();
    for (from, call) in [(thief, stolen), (CAROL, other)] {
        lab.pass(1_000);
        // Responses are repeated: nobody here sends an ACK.
        lab.sent();
        let sent = lab.invite(from, call.text());
        lab.send(&sent[0].to(), sent[0].reply(486, "x", ""));
        lab.sent();
    }
    lab.pass(1_000);
    lab.sent();
    let bye = bye(&mut lab, CAROL, &invite.within("BYE", &ok));
    lab.send(BOB, bye.reply(200, "", ""));
    let all = records(&lab);
    let seen: Vec<_> = all.iter().map(|r| (r.status, r.joined, after(r, Some(r.ended)))).collect();
    assert_eq!(seen, [(486, 0, Some(0)), (486, 0, Some(0)), (200, 0, Some(3_000))]);
    assert_eq!(text(&all[1].source.request_uri), "sip:dave@here.example");
}

#[test]
fn bye_to_another_callee_ends_no_record() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    lab.bind("dave", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let (invite, _, ok) = up(&mut lab);
    lab.pass(1_000);
    // Without our token; an accomplice takes it.
    let mut astray = invite.within("BYE", &ok);
    (astray.uri, astray.lines) = ("sip:dave@here.example".to_owned(), Vec::new());
    let taken = bye(&mut lab, CAROL, &astray);
    lab.send(&taken.to(), taken.reply(200, "", ""));
    lab.sent();
    lab.pass(1_000);
    let right = bye(&mut lab, CAROL, &invite.within("BYE", &ok));
    lab.send(BOB, right.reply(200, "", ""));
    let (strays, all) = said(&lab);
    assert_eq!((strays, all.len(), after(&all[0], Some(all[0].ended))), (1, 1, Some(2_000)));
}

#[test]
fn bye_without_a_token_ends_the_record_of_its_callee() {
    for by in [Party::Caller, Party::Callee] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        let (invite, got, ok) = up(&mut lab);
        lab.pass(1_000);
        let taken = match by {
            Party::Caller => bye(&mut lab, CAROL, &Req { lines: Vec::new(), ..invite.within("BYE", &ok) }),
            _ => {
                let stubborn = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
                let sent = lab.as_user(BOB, "bob", &Req { lines: Vec::new(), ..stubborn });
                sent.into_iter().find(|s| s.status() == 0).expect("a BYE")
            }
        };
        lab.send(&taken.to(), taken.reply(200, "", ""));
        let record = one(&lab);
        assert_eq!((record.ended_by, after(&record, Some(record.ended))), (by, Some(1_000)));
    }
}

#[test]
fn call_ends_when_its_bye_comes() {
    // The other end answers late, or not at all.
    for (answers, by) in [(true, Party::Caller), (false, Party::Caller), (false, Party::Callee)] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        let (invite, got, ok) = up(&mut lab);
        lab.pass(7_000);
        let sent = match by {
            Party::Caller => bye(&mut lab, CAROL, &invite.within("BYE", &ok)),
            _ => bye(&mut lab, BOB, &from_callee(&got, "BYE", BOB, "<sip:bob@here.example>")),
        };
        lab.pass(if answers { 5_000 } else { 40_000 });
        if answers {
            lab.send(&sent.to(), sent.reply(200, "", ""));
        }
        let record = one(&lab);
        assert_eq!((record.ended_by, after(&record, Some(record.ended))), (by, Some(7_000)), "{answers}");
    }
}

#[test]
fn bye_to_a_callee_that_is_gone_ends_the_record() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    let (invite, _, ok) = up(&mut lab);
    lab.pass(7_000);
    let sent = bye(&mut lab, CAROL, &invite.within("BYE", &ok));
    lab.give_back(&sent, 1_000);
    assert!(lab.one().status() >= 400, "nobody has taken it");
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Caller, Some(7_000)));
}

#[test]
fn answer_after_any_failure_belongs_to_the_record() {
    // Nothing was heard of the phone when the caller cancelled; it was only slow.
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    lab.send(CAROL, invite.cancel().text());
    lab.pass(5_000);
    let end = lab.sent().into_iter().find(|s| s.status() == 487).expect("a 487");
    lab.send(CAROL, invite.ack(&end).text());
    lab.silent();
    assert_eq!(lab.ask(BOB, got.accept("b")).status(), 200);
    let record = one(&lab);
    assert_eq!((record.status, after(&record, record.answered)), (200, Some(5_000)));
    assert_eq!(text(&record.callee.target), got.uri());
}

#[test]
fn invite_within_a_call_begins_no_record() {
    for token in [true, false] {
        let mut lab = lab(|s| s.auth.in_dialog = false);
        let (invite, _, ok) = up(&mut lab);
        for (status, cseq) in [(200, 2), (488, 3)] {
            lab.pass(1_000);
            let mut again = Req { cseq, ..invite.within("INVITE", &ok) };
            again.lines.push(format!("Contact: <sip:carol@{CAROL}>"));
            again.lines.retain(|line| token || !line.starts_with("Route"));
            lab.send(CAROL, again.text());
            let got = lab.sent().into_iter().find(|s| s.to() == BOB).expect("an INVITE");
            let answer = if status == 200 { got.accept("b") } else { got.reply(488, "b", "") };
            lab.send(BOB, answer);
            lab.sent();
        }
        lab.pass(1_000);
        let sent = bye(&mut lab, CAROL, &Req { cseq: 4, ..invite.within("BYE", &ok) });
        lab.send(BOB, sent.reply(200, "", ""));
        let record = one(&lab);
        assert_eq!((record.status, after(&record, Some(record.ended))), (200, Some(3_000)), "{token}");
    }
}

#[test]
fn forwarded_call_says_how_often_it_was() {
    use crate::call_forwarding::When;
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    lab.bind("dave", &format!("<sip:dave@{BOB2}>"), udp(BOB2));
    lab.rule("bob", |rules| rules.set_target(When::Busy, "dave").unwrap());
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let second = lab.sent().into_iter().find(|s| s.to() == BOB2).expect("it is forwarded");
    lab.send(BOB2, second.accept("d"));
    lab.sent();
    let record = one(&lab);
    assert_eq!((record.forwardings, record.tried, record.status), (1, 2, 200));
    assert_eq!(text(&record.callee.target), format!("sip:dave@{BOB2}"));
}
