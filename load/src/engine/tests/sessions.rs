//! Sessions, disconnects and registrations as RFC 6076 counts them, from what scenarios play.

use super::ends::{request, response};
use super::*;
use crate::metrics::{Performance, Ratio};

const BOTH: Ratio = Ratio { part: 20, of: 20 };
const NONE: Ratio = Ratio { part: 0, of: 20 };

fn scene(steps: &[&str]) -> String {
    format!("<scenario name=\"s\">{}</scenario>", steps.concat())
}

fn pause(ms: u32) -> String {
    format!("<pause milliseconds=\"{ms}\"/>")
}

fn recv(what: &str) -> String {
    format!("<recv {what}/>")
}

/// A response that says where its sender is.
fn contact(line: &str) -> String {
    response(line).replace("Content-Length", "Contact: <sip:bob@192.0.2.2:5060>\nContent-Length")
}

fn ack(cseq: u32) -> String {
    request("ACK", cseq, ";tag=2")
}

/// Twenty calls in two seconds, and what becomes of them within two minutes.
fn play(caller: &str, callee: &str) -> Pair {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[caller], nothing), engine(CALLEE, CALLER, &[callee], nothing));
    pair.pass(Time::from_secs(120));
    pair
}

/// An INVITE, its 200 and the ACK, at the caller's end and at the callee's.
fn answered() -> (String, String) {
    let caller = [request("INVITE", 1, ""), recv("response=\"200\""), ack(1)].concat();
    let callee = [recv("request=\"INVITE\""), response("200 OK"), recv("request=\"ACK\"")].concat();
    (caller, callee)
}

/// The built-in scenario of this name with users.
fn with_users(name: &str) -> String {
    let text = builtin(name).unwrap();
    text.replace("[field0]", "ann").replace("[field2]", "bob").replace("[domain]", "example.com")
}

/// Sends the caller elsewhere, and is found there.
fn redirecting() -> String {
    scene(&[
        &recv("request=\"INVITE\""),
        &pause(30),
        &contact("302 Moved Temporarily"),
        &recv("request=\"ACK\""),
        &recv("request=\"INVITE\""),
        &pause(50),
        &response("180 Ringing"),
        &contact("200 OK"),
        &recv("request=\"ACK\""),
        &recv("request=\"BYE\""),
        &pause(10),
        &response("200 OK"),
    ])
}

#[test]
fn a_redirect_that_is_followed_leads_to_a_session() {
    let pair = play(&with_users("redirect"), &redirecting());
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0), "{:?}", pair.log);
    let metrics = pair.caller();
    let p = Performance(metrics);
    // RFC 6076 section 4.6, the second flow: of two INVITEs one is not counted.
    assert_eq!((metrics.all.invites, metrics.all.invites_redirected), (40, 20));
    assert_eq!((p.ser(), p.seer(), p.scr(), p.isa()), (BOTH, BOTH, BOTH, NONE));
    let delays = [p.srd_success(), p.sdd_success(), p.sdt_success()];
    assert_eq!(delays.map(|hist| hist.count()), [20; 3]);
    // From the first INVITE (section 4.3.1).
    assert!(p.srd_success().min() >= 80_000 && p.srd_failed().is_empty());
}

#[test]
fn a_redirect_that_is_not_followed_is_neither_success_nor_failure() {
    let moved = [request("INVITE", 1, ""), recv("response=\"302\""), ack(1)].concat();
    let pair = play(&scene(&[&moved]), &redirecting());
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0));
    let p = Performance(pair.caller());
    assert_eq!((p.ser(), p.scr()), (Ratio { part: 0, of: 0 }, NONE));
    assert!(p.srd_success().is_empty() && p.srd_failed().is_empty());
}

#[test]
fn a_call_that_fails_after_a_redirect_takes_leave() {
    let caller = with_users("redirect").replace("<pause/>", "<recv request=\"INFO\" timeout=\"1000\"/>");
    let pair = play(&caller, &redirecting());
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)), ((0, 20), (20, 0)));
    assert_eq!(pair.log.iter().filter(|line| line.starts_with("BYE ")).count(), 20);
}

#[test]
fn an_invite_within_a_session_says_nothing_of_its_beginning() {
    for line in ["491 Request Pending", "503 Service Unavailable", "302 Moved Temporarily"] {
        let (caller, callee) = answered();
        let status = format!("response=\"{}\"", &line[..3]);
        let again =
            [request("INVITE", 2, ";tag=2"), recv("response=\"180\""), recv(&status), ack(2)].concat();
        let bye = [request("BYE", 3, ";tag=2"), recv("response=\"200\"")].concat();
        let refuses = [
            &recv("request=\"INVITE\""),
            &pause(70)[..],
            &response("180 Ringing"),
            &response(line),
            &recv("request=\"ACK\""),
            &recv("request=\"BYE\""),
            &response("200 OK"),
        ];
        let pair = play(&scene(&[&caller, &again, &bye]), &scene(&[&callee, &refuses.concat()]));
        assert_eq!(pair.ends_of(0, End::Caller), (20, 0), "{line}: {:?}", pair.log);
        let metrics = pair.caller();
        let p = Performance(metrics);
        let finals: Vec<_> = metrics.all.session_finals.seen().collect();
        assert_eq!(finals, [(200, 20)], "{line}");
        assert_eq!((p.ser(), p.scr(), p.isa()), (BOTH, BOTH, NONE), "{line}");
        assert_eq!((metrics.all.invites, metrics.all.invites_redirected), (20, 0), "{line}");
        let counts = [p.srd_failed(), p.sdd_success(), p.sdt_success()].map(|hist| hist.count());
        assert_eq!(counts, [0, 20, 20], "{line}");
        let first = &metrics.latency(Measure::Response).sent;
        assert!(first.count() == 20 && first.max() < 70_000, "a later 180 is not the first response");
    }
}

#[test]
fn a_session_whose_next_invite_is_refused_is_ended_with_a_bye() {
    let (caller, callee) = answered();
    let again = [request("INVITE", 2, ";tag=2"), recv("response=\"200\"")].concat();
    let refuses = [
        recv("request=\"INVITE\""),
        response("491 Request Pending"),
        recv("request=\"ACK\""),
        recv("request=\"BYE\""),
        response("200 OK"),
    ];
    let pair = play(&scene(&[&caller, &again]), &scene(&[&callee, &refuses.concat()]));
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)), ((0, 20), (20, 0)));
    let bye = pair.texts.iter().find(|text| text.starts_with("BYE ")).expect("one");
    assert!(bye.contains("CSeq: 3 BYE"), "{bye}");
}

#[test]
fn a_session_whose_next_invite_is_not_answered_is_ended_with_a_bye() {
    let (caller, callee) = answered();
    let again = |rings: &str| {
        let waits = recv("response=\"200\" timeout=\"1000\"");
        scene(&[&caller, &request("INVITE", 2, ";tag=2"), rings, &waits])
    };
    let end = [recv("request=\"BYE\""), response("200 OK")].concat();
    let pair = play(&again(""), &scene(&[&callee, &recv("request=\"INVITE\""), &end]));
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)), ((0, 20), (20, 0)));
    // One that rings is cancelled before.
    let cancelled = [
        recv("request=\"INVITE\""),
        response("180 Ringing"),
        recv("request=\"CANCEL\""),
        response("200 OK"),
        response("487 Request Terminated").replace("[last_CSeq:]", "CSeq: 2 INVITE"),
        recv("request=\"ACK\""),
    ];
    let rings = recv("response=\"180\"");
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&again(&rings)], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[&scene(&[&callee, &cancelled.concat(), &end])], nothing),
    );
    // INVITE, 200, ACK, INVITE, 180, CANCEL, 200, 487, ACK: then the BYE, which is repeated.
    pair.lost = |n| n == 10;
    pair.pass(Time::from_secs(60));
    assert_eq!(
        (pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)),
        ((0, 1), (1, 0)),
        "{:?}",
        pair.log
    );
    assert_eq!(pair.passed, 12);
}

#[test]
fn a_second_attempt_of_a_call_is_another_session() {
    let first = [request("INVITE", 1, ""), recv("response=\"486\""), ack(1)].concat();
    let second = [request("INVITE", 2, ""), recv("response=\"200\""), ack(2)].concat();
    let busy = [recv("request=\"INVITE\""), response("486 Busy Here"), recv("request=\"ACK\"")].concat();
    let pair = play(&scene(&[&first, &second]), &scene(&[&busy, &answered().1]));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0));
    assert_eq!(Performance(pair.caller()).ser(), Ratio { part: 20, of: 40 });
}

/// Callers whose first BYE is refused like this, and their second one answered; each after 40 ms.
fn second_bye(line: &str) -> Pair {
    let (caller, callee) = answered();
    let refused = format!("response=\"{}\"", &line[..3]);
    let byes = [
        pause(1_000),
        request("BYE", 2, ";tag=2"),
        recv(&refused),
        request("BYE", 3, ";tag=2"),
        recv("response=\"200\""),
    ];
    let answer = |line: &str| [recv("request=\"BYE\""), pause(40), response(line)].concat();
    play(&scene(&[&caller, &byes.concat()]), &scene(&[&callee, &answer(line), &answer("200 OK")]))
}

#[test]
fn a_disconnect_begins_with_the_first_bye() {
    for line in ["401 Unauthorized", "503 Service Unavailable"] {
        let pair = second_bye(line);
        assert_eq!(pair.ends_of(0, End::Caller), (20, 0), "{line}: {:?}", pair.log);
        let p = Performance(pair.caller());
        // RFC 6076 section 4.4: t4 is that of the 2xx of the recovery.
        let (ends, lasts) = (p.sdd_success(), p.sdt_success());
        assert_eq!(
            (ends.count(), lasts.count(), p.sdd_failed().count(), p.scr()),
            (20, 20, 0, BOTH),
            "{line}"
        );
        assert!((80_000..90_000).contains(&ends.min()), "{line}: {}", ends.min());
        assert!((1_000_000..1_040_000).contains(&lasts.max()), "{line}: {}", lasts.max());
    }
}

#[test]
fn a_bye_that_stays_refused_is_a_failed_disconnect() {
    for line in ["481 Call/Transaction Does Not Exist", "401 Unauthorized"] {
        let (caller, callee) = answered();
        let refused = format!("response=\"{}\"", &line[..3]);
        // The call goes on for a while.
        let bye = [request("BYE", 2, ";tag=2"), recv(&refused), pause(3_000)].concat();
        let refuses = [recv("request=\"BYE\""), pause(40), response(line)].concat();
        let pair = play(&scene(&[&caller, &bye]), &scene(&[&callee, &refuses]));
        assert_eq!(pair.ends_of(0, End::Caller), (20, 0));
        let metrics = pair.caller();
        let p = Performance(metrics);
        assert_eq!((p.sdd_success().count(), p.sdd_failed().count(), p.scr()), (0, 20, NONE), "{line}");
        assert_eq!(metrics.all.byes_refused, 20, "{line}");
        assert!((40_000..50_000).contains(&p.sdd_failed().max()), "{line}: {}", p.sdd_failed().max());
    }
}

/// A callee that hangs up after a second, and then this; a caller that answers the BYE with that.
fn callee_hangs_up(then: &str, answer: &str) -> Pair {
    let (caller, callee) = answered();
    let bye = request("BYE", 7, ";tag=1").replace("<send>", "<send retrans=\"500\">");
    play(
        &scene(&[&caller, &recv("request=\"BYE\""), &pause(40), answer]),
        &scene(&[&callee, &pause(1_000), &bye, then]),
    )
}

#[test]
fn the_bye_of_a_callee_is_measured_at_its_end() {
    let pair = callee_hangs_up(&recv("response=\"200\""), &response("200 OK"));
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)), ((20, 0), (20, 0)));
    assert_eq!(Performance(pair.caller()).scr(), BOTH, "the session is counted at the caller's");
    let metrics = pair.ends[1].1.metrics();
    let p = Performance(metrics);
    assert_eq!((metrics.all.transactions_succeeded, metrics.all.sessions_requested), (20, 0));
    assert!(p.sdd_success().count() == 20 && p.sdd_failed().is_empty() && p.sdt_success().is_empty());
    assert!((40_000..50_000).contains(&p.sdd_success().max()), "{}", p.sdd_success().max());
    assert!(
        metrics.latency(Measure::Response).sent.is_empty(),
        "a response time is the server's to a caller"
    );

    // Refused, as the scenario wants or not.
    for (then, good) in [(recv("response=\"481\""), (20, 0)), (recv("response=\"200\""), (0, 20))] {
        let pair = callee_hangs_up(&then, &response("481 Call/Transaction Does Not Exist"));
        let metrics = pair.ends[1].1.metrics();
        let p = Performance(metrics);
        assert_eq!((p.sdd_success().count(), p.sdd_failed().count()), (0, 20));
        assert_eq!((metrics.all.transactions_succeeded, metrics.all.transactions_failed), good);
    }
}

#[test]
fn the_bye_of_a_callee_that_nobody_answers_times_out() {
    let pair = callee_hangs_up(&recv("response=\"200\""), &pause(200_000));
    let metrics = pair.ends[1].1.metrics();
    assert_eq!((metrics.all.transactions_timed_out, pair.ends_of(1, End::Callee)), (20, (0, 20)));
    assert!(Performance(metrics).sdd_failed().is_empty(), "section 4.4 leaves it out");

    // Also where the run is ended before.
    let (caller, callee) = answered();
    let wait = recv("request=\"BYE\"");
    let bye = [request("BYE", 7, ";tag=1"), recv("response=\"200\"")].concat();
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&scene(&[&caller, &wait, &pause(60_000)])], nothing),
        engine(CALLEE, CALLER, &[&scene(&[&callee, &bye])], nothing),
    );
    pair.pass(Time::from_secs(10));
    let metrics = pair.ends[1].1.record(pair.now).metrics;
    let callee = &metrics.all.sides[End::Callee as usize];
    assert_eq!((metrics.all.transactions_timed_out, callee.failures(), callee.unfinished()), (20, 20, 0));
}

#[test]
fn a_registration_that_ends_with_a_challenge_has_failed() {
    let ask = |cseq, status: &str| {
        [request("REGISTER", cseq, ""), recv(&format!("response=\"{status}\""))].concat()
    };
    let say = |line: &str| [recv("request=\"REGISTER\""), response(line)].concat();
    let (tries, challenges) = (ask(1, "401"), say("401 Unauthorized"));
    let pair = play(&scene(&[&tries]), &scene(&[&challenges]));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0), "the scenario wants it so");
    let metrics = pair.caller();
    assert_eq!((metrics.all.registrations, metrics.all.registrations_failed), (20, 20));
    assert_eq!(Performance(metrics).ira(), BOTH);
    // In its <timewait> a call has ended.
    let waits = scene(&[&tries, "<timewait milliseconds=\"600000\"/>"]);
    assert_eq!(Performance(play(&waits, &scene(&[&challenges])).caller()).ira(), BOTH);
    // Unless it tries again.
    let pair = play(&scene(&[&tries, &ask(2, "200")]), &scene(&[&challenges, &say("200 OK")]));
    assert_eq!(Performance(pair.caller()).ira(), NONE);
}

/// A call with two INVITEs, at its end, and what it says to this response to the first one when it comes
/// again.
fn asked_again(caller: &str, callee: &str) -> String {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[caller], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[callee], nothing),
    );
    pair.pass(Time::from_secs(2));
    let first = pair
        .texts
        .iter()
        .find(|text| text.starts_with("SIP/2.0 ") && text.contains("\r\nCSeq: 1 INVITE\r\n"));
    let mut out = Outbox::new();
    let flow = Flow::udp(ListenerId(0), address(CALLEE));
    pair.ends[0].1.receive(Arrival::new(pair.now, flow, first.expect("one").as_bytes()), &mut out);
    let sent = out.transmits().iter().map(|t| String::from_utf8_lossy(out.message(t)).into_owned());
    sent.collect()
}

#[test]
fn a_response_that_comes_again_is_acknowledged_in_its_own_transaction() {
    for first in ["200 OK", "407 Proxy Authentication Required"] {
        let status = format!("response=\"{}\"", &first[..3]);
        let caller = [
            request("INVITE", 1, ""),
            recv(&status),
            ack(1),
            request("INVITE", 2, ""),
            recv("response=\"200\""),
            ack(2),
            recv("request=\"BYE\""),
        ];
        let say = |line: &str| [recv("request=\"INVITE\""), response(line), recv("request=\"ACK\"")].concat();
        let callee = scene(&[&say(first), &say("200 OK"), &pause(900_000)]);
        let said = asked_again(&scene(&[&caller.concat()]), &callee);
        assert!(said.starts_with("ACK ") && said.contains("CSeq: 1 ACK"), "{first}: {said}");
        // Named, with both answers to come.
        let named = |text: String, name: &str| text.replace("<send>", &format!("<send {name}>"));
        let caller = [
            named(request("INVITE", 1, ""), "start_txn=\"a\""),
            recv(&format!("{status} response_txn=\"a\"")),
            named(ack(1), "ack_txn=\"a\""),
            named(request("INVITE", 2, ""), "start_txn=\"b\""),
            recv("response=\"200\" response_txn=\"b\""),
            named(ack(2), "ack_txn=\"b\""),
            recv("request=\"BYE\""),
        ];
        let said = asked_again(&scene(&[&caller.concat()]), &callee);
        assert!(said.starts_with("ACK ") && said.contains("CSeq: 1 ACK"), "{first}: {said}");
    }
}
