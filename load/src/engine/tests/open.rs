//! What the end of a run makes of calls that wait, where others did not or the scenario says how long they
//! do.

use super::ends::{cut, request, response, waiting, writing};
use super::*;

/// What is awaited has a time of its own.
fn patient(content: f64, own: &str) -> String {
    let patient = format!("<recv request=\"MESSAGE\" timeout=\"120000\" {own}/>");
    waiting(content).replace("<recv request=\"MESSAGE\"/>", &patient)
}

#[test]
fn to_pause_where_a_request_may_come_is_no_wait() {
    let (good, failed, unfinished, verdict) = cut(&patient(0.0, "ontimeout=\"1\""), &writing(0.5, 1_000), 80);
    assert!((3..17).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.word(), "PASS");
    let (good, failed, _, verdict) = cut(&patient(0.3, "ontimeout=\"1\""), &writing(0.0, 0), 80);
    assert!((2..15).contains(&good) && failed == 0, "{good} {failed}");
    assert_eq!(verdict.word(), "PASS");
}

#[test]
fn who_may_wait_for_longer_has_not_failed_yet() {
    let (good, failed, unfinished, verdict) = cut(&patient(0.0, ""), &writing(0.5, 1_000), 80);
    assert!((3..17).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.word(), "VOID");
    // The same for an answer, for as long as there may be one.
    let caller = format!(
        "<scenario name=\"asks\">{}<recv response=\"200\" timeout=\"50000\"/></scenario>",
        request("OPTIONS", 1, "")
    );
    let callee =
        "<scenario name=\"silent\"><recv request=\"OPTIONS\"/><pause milliseconds=\"900000\"/></scenario>";
    let ended = |after| {
        let (_, failed, unfinished, verdict) = cut(&caller, callee, after);
        (failed, unfinished, verdict.word())
    };
    assert_eq!(ended(20), (0, 20, "VOID"));
    assert_eq!(ended(40), (20, 0, "FAIL"));
}

#[test]
fn a_request_that_came_once_may_come_again_or_not() {
    let caller = waiting(0.3).replace(
        "<recv request=\"MESSAGE\"/>",
        "<label id=\"2\"/><recv request=\"MESSAGE\"/><nop next=\"2\"/>",
    );
    let (good, failed, unfinished, verdict) = cut(&caller, &writing(1.0, 5), 80);
    assert!((2..15).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.word(), "VOID");
}

#[test]
fn what_may_come_before_is_no_measure_of_what_has_to() {
    // Half of the calls get the one, none the other.
    let caller = waiting(0.3).replace(
        "<recv request=\"MESSAGE\"/>",
        "<recv request=\"MESSAGE\" optional=\"true\" next=\"1\"/><recv request=\"INFO\"/>",
    );
    let (good, failed, unfinished, verdict) = cut(&caller, &writing(0.5, 1_000), 80);
    assert!((5..19).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.word(), "VOID");
}

#[test]
fn what_comes_beside_does_not_begin_a_wait_anew() {
    let caller = waiting(0.3).replace(
        "<recv request=\"MESSAGE\"/>",
        "<recv request=\"INFO\" optional=\"true\"/><recv request=\"MESSAGE\"/>",
    );
    let info = |cseq| format!("{}<pause milliseconds=\"1000\"/>", request("INFO", cseq, ";tag=2"));
    let callee = format!(
        "<scenario name=\"writes\"><recv request=\"OPTIONS\"/>{}{}<pause milliseconds=\"900000\"/></scenario>",
        response("200 OK"),
        (1..=20).map(info).collect::<String>(),
    );
    let (good, failed, _, verdict) = cut(&caller, &callee, 10);
    assert!((2..15).contains(&good) && failed == 0, "{good} {failed}");
    assert_eq!(verdict.word(), "VOID");
}

/// A callee who answers this share of the calls, so many milliseconds after these responses; the others hear
/// those and no more.
fn rings(share: f64, after: u32, rings: &str, otherwise: &str) -> String {
    let ok = response("200 OK").replace("Content-Length", "Contact: <sip:b@192.0.2.2:5060>\nContent-Length");
    format!(
        "<scenario name=\"rings\"><recv request=\"INVITE\"/><nop next=\"1\" chance=\"{}\"/>{rings}\
         <pause milliseconds=\"{after}\"/>{ok}<recv request=\"ACK\"/><recv request=\"BYE\"/>{}<nop next=\"2\"/>\
         <label id=\"1\"/>{otherwise}<pause milliseconds=\"900000\"/><label id=\"2\"/></scenario>",
        1.0 - share,
        response("200 OK"),
    )
}

#[test]
fn who_rings_is_measured_by_those_who_rang() {
    let ring = response("180 Ringing");
    // Who is answered at once says nothing of that.
    let (good, failed, unfinished, verdict) = cut("uac", &rings(0.5, 1, "", &ring), 90);
    assert!((3..17).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.word(), "VOID");
    assert_eq!(cut("uac", &rings(0.5, 1, "", &ring), 190).3.word(), "FAIL");
    // Who is answered late, because something was lost, does not double the wait of all.
    let (good, failed, unfinished, verdict) = cut("uac", &rings(0.5, 15_500, &ring, &ring), 75);
    assert!((3..17).contains(&good) && (failed, unfinished) == (20 - good, 0), "{good} {failed}");
    assert_eq!(verdict.word(), "FAIL");
}

#[test]
fn an_invite_that_is_tried_again_and_not_heard_of_has_failed() {
    let caller = format!(
        "<scenario name=\"again\">{}<recv response=\"180\"/><recv response=\"486\"/>{}{}<recv response=\"200\"/>\
         </scenario>",
        request("INVITE", 1, ""),
        request("ACK", 1, ";tag=2"),
        request("INVITE", 2, "")
    );
    let callee = format!(
        "<scenario name=\"callee\"><recv request=\"INVITE\"/>{}{}<recv request=\"ACK\"/><recv request=\"INVITE\"/>\
         <pause milliseconds=\"900000\"/></scenario>",
        response("180 Ringing"),
        response("486 Busy Here")
    );
    let (_, failed, unfinished, verdict) = cut(&caller, &callee, 10);
    assert_eq!((failed, unfinished, verdict.word()), (20, 0, "FAIL"));
}

/// A call whose provisional response is acknowledged (RFC 3262).
#[test]
fn a_call_with_a_prack_is_up_when_its_invite_is_answered() {
    let caller = format!(
        "<scenario name=\"prack\">{}<recv response=\"183\"/>{}<recv response=\"200\"/><recv response=\"200\"/>{}\
         <recv request=\"BYE\"/></scenario>",
        request("INVITE", 1, ""),
        request("PRACK", 2, ";tag=2"),
        request("ACK", 1, ";tag=2")
    );
    let answer = response("200 OK").replace("[last_CSeq:]", "CSeq: 1 INVITE");
    let callee = format!(
        "<scenario name=\"callee\"><recv request=\"INVITE\"/>{}<recv request=\"PRACK\"/>{}<pause milliseconds=\"300\"/>\
         {answer}<recv request=\"ACK\"/><pause milliseconds=\"900000\"/></scenario>",
        response("183 Session Progress"),
        response("200 OK"),
    );
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[&caller], nothing), engine(CALLEE, CALLER, &[&callee], nothing));
    pair.pass(Time::from_secs(200));
    let now = pair.now;
    let metrics = &pair.ends[0].1.record(now).metrics;
    let setup = metrics.latency(Measure::Setup);
    assert_eq!((setup.sent.count(), setup.sent.max()), (20, 300_000));
    let side = &metrics.all.sides[End::Caller as usize];
    assert_eq!((side.failures(), side.open), (0, 20), "{:?}", pair.log);
}

#[test]
fn what_the_scenario_has_given_up_is_not_awaited_any_more() {
    let caller = format!(
        "<scenario name=\"goes on\">{}<recv response=\"200\" timeout=\"3000\" ontimeout=\"1\"/><label id=\"1\"/>{}\
         <recv response=\"180\"/><recv response=\"200\"/></scenario>",
        request("OPTIONS", 1, ""),
        request("INVITE", 2, ""),
    );
    let callee = format!(
        "<scenario name=\"rings\"><recv request=\"OPTIONS\"/><recv request=\"INVITE\"/>{}\
         <pause milliseconds=\"900000\"/></scenario>",
        response("180 Ringing"),
    );
    let (_, failed, unfinished, verdict) = cut(&caller, &callee, 20);
    assert_eq!((failed, unfinished, verdict.word()), (0, 20, "VOID"), "it rings");
    // Where nothing more is sent, what comes from the other side is awaited.
    let caller = format!(
        "<scenario name=\"waits\">{}<recv response=\"200\" timeout=\"3000\" ontimeout=\"1\"/><label id=\"1\"/>\
         <recv request=\"MESSAGE\"/></scenario>",
        request("OPTIONS", 1, ""),
    );
    let (_, failed, unfinished, _) = cut(&caller, &callee, 20);
    assert_eq!((failed, unfinished), (0, 20));
}
