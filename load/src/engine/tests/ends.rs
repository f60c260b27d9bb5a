//! How a run ends that is ended: what has failed, what is unfinished, and what was never begun.

use super::*;
use crate::metrics::{Health, Rule, judge};

/// A callee that says this to an INVITE, and nothing more.
fn says(line: &str) -> String {
    format!(
        r#"<scenario name="callee">
  <recv request="INVITE"/>
  <send><![CDATA[

      SIP/2.0 {line}
      [last_Via:]
      [last_From:]
      [last_To:];tag=callee
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

  ]]></send>
  <recv request="BYE"/>
</scenario>"#
    )
}

/// Twenty calls in two seconds; the run is ended `after` so many seconds. Failed and unfinished calls, and
/// the verdict.
fn ended(caller: &str, callee: &str, after: u64) -> (u64, u64, &'static str) {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[caller], nothing), engine(CALLEE, CALLER, &[callee], nothing));
    pair.pass(Time::from_secs(1 + after));
    let now = pair.now;
    let record = pair.ends[0].1.record(now);
    let side = &record.metrics.all.sides[End::Caller as usize];
    let verdict = judge(&Rule::default(), &record.metrics, Health::default()).0;
    assert_eq!((side.begun, side.succeeded, pair.ends[0].1.calls()), (20, 0, 0));
    (side.failures(), side.unfinished(), verdict.word())
}

#[test]
fn a_call_that_waits_for_an_answer_has_failed() {
    assert_eq!(ended("uac", &says("100 Trying"), 10), (20, 0, "FAIL"));
    // The last nineteenth of a second may yet be answered.
    let (failed, unfinished, _) = ended("uac", &says("100 Trying"), 3);
    assert_eq!((failed, unfinished), (10, 10), "what has waited for less than 2 s is unfinished");
}

/// After how many seconds a run of twenty calls in two seconds is over by itself, and its verdict; none if it
/// was not within ten minutes.
fn over(
    caller: &str,
    callee: &str,
    change: impl FnOnce(&mut Settings, &mut Plan),
) -> Option<(u64, &'static str)> {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[caller], change), engine(CALLEE, CALLER, &[callee], nothing));
    let second = (1..600).find(|&second| {
        pair.pass(Time::from_secs(1 + second));
        let now = pair.now;
        pair.ends[0].1.progress(now).done
    })?;
    let now = pair.now;
    let record = pair.ends[0].1.record(now);
    Some((second, judge(&Rule::default(), &record.metrics, Health::default()).0.word()))
}

/// Nothing would ever end it otherwise: a provisional response ends the repetitions.
#[test]
fn a_run_does_not_wait_for_calls_that_the_other_side_has_left() {
    // The last INVITE leaves at 1.9 s.
    assert_eq!(over("uac", &says("100 Trying"), nothing), Some((182, "FAIL")));
    assert_eq!(over("uac", &says("180 Ringing"), nothing), Some((182, "FAIL")));
    // Where nothing is sent again, nothing has to have come.
    let once = |settings: &mut Settings, _: &mut Plan| settings.conduct.retransmission.on = false;
    let silent = "<scenario name=\"x\"><recv request=\"INVITE\"/><pause milliseconds=\"900000\"/></scenario>";
    assert_eq!(over("uac", silent, once), Some((34, "FAIL")));
    // Calls that are left may take all the room that there is, or all the users.
    let room = |settings: &mut Settings, _: &mut Plan| settings.most_calls = 2;
    assert_eq!(over("uac", &says("100 Trying"), room), Some((181, "VOID")), "others were left out");
    let users = |settings: &mut Settings, _: &mut Plan| {
        settings.users = Some(Users { numbers: (0, 1), count: 2, calls: Some(20) });
    };
    assert_eq!(over("uac", &says("100 Trying"), users), Some((181, "FAIL")));
}

#[test]
fn a_run_waits_for_calls_that_go_on() {
    // They pause, or have a time of their own.
    let hold = scenario_with_pause(300_000);
    assert_eq!(over(&hold, "uas", nothing), Some((302, "PASS")));
    let patient = format!(
        "<scenario name=\"asks\">{}<recv response=\"200\" timeout=\"100000\"/></scenario>",
        request("OPTIONS", 1, "")
    );
    let silent =
        "<scenario name=\"x\"><recv request=\"OPTIONS\"/><pause milliseconds=\"900000\"/></scenario>";
    assert_eq!(over(&patient, silent, nothing), Some((102, "FAIL")));
    // What the other side begins by itself has no time; nobody knows when it would be too late.
    assert_eq!(over(&waiting(0.0), &writing(0.0, 0), nothing), None);
    let idle = |callee: &str| {
        let mut pair = Pair::new(
            engine(CALLER, CALLEE, &[&waiting(0.0)], nothing),
            engine(CALLEE, CALLER, &[callee], nothing),
        );
        pair.pass(Time::from_secs(20));
        let now = pair.now;
        pair.ends[0].1.progress(now).idle
    };
    assert!(idle(&writing(0.0, 0)), "but it is said");
    let hold = scenario_with_pause(300_000);
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[&hold], nothing), engine(CALLEE, CALLER, &["uas"], nothing));
    pair.pass(Time::from_secs(20));
    let now = pair.now;
    assert!(!pair.ends[0].1.progress(now).idle);
}

#[test]
fn a_call_that_rings_is_unfinished_until_nobody_would_wait_any_more() {
    assert_eq!(ended("uac", &says("180 Ringing"), 30), (0, 20, "VOID"));
    assert_eq!(ended("uac", &says("180 Ringing"), 170), (0, 20, "VOID"), "phones may ring for three minutes");
    assert_eq!(ended("uac", &says("180 Ringing"), 185), (20, 0, "FAIL"));
}

/// A scenario of an OPTIONS from one side or the other, or what answers a request: header lines of its own.
fn send(first: &str, to: &str, more: &str) -> String {
    format!(
        "<send><![CDATA[\n\n{first}\n{more}From: <sip:a@x>;tag=1\nTo: <sip:b@x>{to}\nCall-ID: [call_id]\n\
         Content-Length: 0\n\n]]></send>"
    )
}

/// A request of ours in a call.
pub(super) fn request(method: &str, cseq: u32, to: &str) -> String {
    let via = "Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\n";
    send(&format!("{method} sip:b@x SIP/2.0"), to, &format!("{via}CSeq: {cseq} {method}\n"))
}

/// A response to what came last.
pub(super) fn response(line: &str) -> String {
    send(&format!("SIP/2.0 {line}"), ";tag=2", "[last_Via:]\n[last_CSeq:]\n")
}

/// Callers who ask, and then wait for a MESSAGE, but for those who are content with their answer.
pub(super) fn waiting(content: f64) -> String {
    format!(
        "<scenario name=\"waits\">{}<recv response=\"200\" next=\"1\" chance=\"{content}\"/>\
         <recv request=\"MESSAGE\"/><label id=\"1\"/><nop/></scenario>",
        request("OPTIONS", 1, "")
    )
}

/// The other side of it: this share of the calls gets its MESSAGE, so many milliseconds later.
pub(super) fn writing(share: f64, after: u32) -> String {
    format!(
        "<scenario name=\"writes\"><recv request=\"OPTIONS\"/>{}<nop next=\"1\" chance=\"{}\"/>\
         <pause milliseconds=\"{after}\"/>{}<label id=\"1\"/><pause milliseconds=\"900000\"/></scenario>",
        response("200 OK"),
        1.0 - share,
        request("MESSAGE", 7, ";tag=2"),
    )
}

/// Twenty calls in two seconds, and the end of the run so many seconds after its beginning: calls that
/// succeeded, failed, and are unfinished, and the verdict.
pub(super) fn cut(caller: &str, callee: &str, after: u64) -> (u64, u64, u64, crate::metrics::Verdict) {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[caller], nothing), engine(CALLEE, CALLER, &[callee], nothing));
    pair.pass(Time::from_secs(1 + after));
    let record = pair.ends[0].1.record(pair.now);
    let side = &record.metrics.all.sides[End::Caller as usize];
    let verdict = judge(&Rule::default(), &record.metrics, Health::default()).0;
    assert_eq!(side.begun, 20, "{:?}", pair.log);
    (side.succeeded, side.failures(), side.unfinished(), verdict)
}

#[test]
fn requests_that_never_come_leave_the_verdict_open() {
    let (good, failed, unfinished, verdict) = cut(&waiting(0.3), &writing(0.0, 0), 10);
    assert!((2..15).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.exit_code(), 3);
    assert!(verdict.why()[0].starts_with("calls that waited for the other side when the run ended: "));
    // As long as it goes on: nobody knows when they were to come.
    assert_eq!(cut(&waiting(0.3), &writing(0.0, 0), 600).3.word(), "VOID");
}

#[test]
fn requests_that_come_to_others_and_never_to_these_have_failed() {
    let (good, failed, unfinished, verdict) = cut(&waiting(0.0), &writing(0.5, 3_000), 80);
    assert!((3..17).contains(&good) && (failed, unfinished) == (20 - good, 0), "{good} {failed}");
    assert_eq!((verdict.word(), verdict.why().len()), ("FAIL", 1), "{verdict:?}");
    // They come after three minutes, and the run ends between the first and the last.
    let (good, failed, unfinished, verdict) = cut(&waiting(0.0), &writing(1.0, 180_000), 181);
    assert!((5..15).contains(&good) && (failed, unfinished) == (0, 20 - good), "{good} {failed}");
    assert_eq!(verdict.word(), "VOID");
    assert_eq!(cut(&waiting(0.0), &writing(1.0, 180_000), 183).3.word(), "PASS");
}

#[test]
fn a_failed_run_stays_one_whatever_waits() {
    // Two of three are refused, the others wait.
    let callee = writing(0.0, 0).replacen(
        "<send>",
        &format!(
            "<nop next=\"2\" chance=\"0.4\"/>{}<nop next=\"1\"/><label id=\"2\"/><send>",
            response("404 Not Found")
        ),
        1,
    );
    let (good, failed, unfinished, verdict) = cut(&waiting(0.0), &callee, 10);
    assert!(good == 0 && failed > 0 && unfinished > 0 && failed + unfinished == 20, "{failed} {unfinished}");
    assert_eq!(verdict.word(), "FAIL", "{verdict:?}");
}

#[test]
fn a_cancelled_invite_that_never_ends_has_failed() {
    let caller = format!(
        "<scenario name=\"cancels\">{}<recv response=\"180\"/>{}<recv response=\"200\"/><recv response=\"487\"/>\
         </scenario>",
        request("INVITE", 1, ""),
        request("CANCEL", 1, "")
    );
    let callee = format!(
        "<scenario name=\"callee\"><recv request=\"INVITE\"/>{}<recv request=\"CANCEL\"/>{}\
         <pause milliseconds=\"900000\"/></scenario>",
        response("180 Ringing"),
        response("200 OK")
    );
    let (_, failed, unfinished, verdict) = cut(&caller, &callee, 5);
    assert_eq!((failed, unfinished, verdict.word()), (20, 0, "FAIL"));
}

#[test]
fn an_invite_that_is_tried_again_may_ring() {
    let caller = format!(
        "<scenario name=\"again\">{}<recv response=\"180\"/><recv response=\"486\"/>{}{}\
         <recv response=\"180\"/><recv response=\"200\"/></scenario>",
        request("INVITE", 1, ""),
        request("ACK", 1, ";tag=2"),
        request("INVITE", 2, "")
    );
    let callee = format!(
        "<scenario name=\"callee\"><recv request=\"INVITE\"/>{0}{1}<recv request=\"ACK\"/><recv request=\"INVITE\"/>{0}\
         <pause milliseconds=\"900000\"/></scenario>",
        response("180 Ringing"),
        response("486 Busy Here")
    );
    let (_, failed, unfinished, verdict) = cut(&caller, &callee, 20);
    assert_eq!((failed, unfinished, verdict.word()), (0, 20, "VOID"));
}

/// Lets a call come to its `<timewait>`, does this to it there, and says what became of it.
fn lingering(scenario: &str, then: impl FnOnce(&mut Engine, Flow)) -> (u64, u64, bool) {
    let mut own = engine(CALLER, CALLEE, &[scenario], |_, plan| plan.calls = 1);
    let mut out = Outbox::new();
    own.timeout(Time::from_secs(1), &mut out);
    assert_eq!((own.lingering(), own.calling()), (1, 0));
    then(&mut own, Flow::udp(ListenerId(0), address(CALLEE)));
    while let Some(at) = own.next_deadline() {
        assert!(at < Time::from_secs(300));
        own.timeout(at, &mut out);
    }
    assert_eq!((own.lingering(), own.calls(), own.calling()), (0, 0, 0));
    let side = &own.metrics().all.sides[End::Caller as usize];
    (side.succeeded, side.failures(), own.is_done())
}

#[test]
fn a_call_that_lingers_ends_once_whatever_comes() {
    let scenario = format!(
        "<scenario name=\"lingers\">{}<recv request=\"MESSAGE\" optional=\"global\" next=\"e\"/>\
         <timewait milliseconds=\"4000\"/><label id=\"e\"/></scenario>",
        request("OPTIONS", 1, "")
    );
    let scenario = scenario.replace("<recv request", "<nop next=\"w\"/><recv request");
    let scenario = scenario.replace("<timewait", "<label id=\"w\"/><timewait");
    let mut call_id = Vec::new();
    CallName { worker: 0, slot: 0, generation: 0 }.write(0x1234_5678, &mut call_id);
    let message = format!(
        "MESSAGE sip:a@x SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2:5060;branch=z9hG4bK1\r\nFrom: <sip:b@x>;tag=2\r\n\
         To: <sip:a@x>;tag=1\r\nCall-ID: {}\r\nCSeq: 7 MESSAGE\r\nContent-Length: 0\r\n\r\n",
        String::from_utf8_lossy(&call_id)
    );
    let ended = lingering(&scenario, |own, flow| {
        own.receive(Arrival::new(Time::from_secs(2), flow, message.as_bytes()), &mut Outbox::new());
    });
    assert_eq!(ended, (1, 0, true));
}

#[test]
fn a_call_that_lingers_ends_once_though_nobody_answers_it() {
    let caller = format!(
        "<scenario name=\"lingers\">{}<recv response=\"200\"/>{}{}<timewait milliseconds=\"60000\"/></scenario>",
        request("INVITE", 1, ""),
        request("ACK", 1, ";tag=2"),
        request("INFO", 2, ";tag=2").replace("<send>", "<send retrans=\"500\">")
    );
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&caller], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[&says("200 OK")], nothing),
    );
    // The INFO, each time.
    pair.lost = |n| n >= 4;
    pair.pass(Time::from_secs(120));
    assert!(pair.passed > 8, "{}", pair.passed);
    let own = &pair.ends[0].1;
    assert_eq!((pair.ends_of(0, End::Caller), own.lingering(), own.calls()), ((1, 0), 0, 0));
    assert!(own.is_done());
}

#[test]
fn a_call_that_pauses_is_unfinished() {
    let (failed, unfinished, word) = ended(&scenario_with_pause(60_000), "uas", 10);
    // Nothing was seen of the server but that it answers.
    assert_eq!((failed, unfinished, word), (0, 20, "VOID"));
}

#[test]
fn an_answered_request_has_no_second_end() {
    // It waits in vain for a BYE, and not for the answer to its INVITE.
    let waits = builtin("uac").unwrap().replace("<pause/>", "<recv request=\"BYE\" timeout=\"3000\"/>");
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[&waits], nothing), engine(CALLEE, CALLER, &["uas"], nothing));
    pair.pass(Time::from_secs(60));
    let all = &pair.caller().all;
    assert_eq!(pair.ends_of(0, End::Caller), (0, 20));
    assert_eq!((all.transactions_succeeded, all.transactions_timed_out), (20, 0));
}

#[test]
fn what_follows_a_pause_was_meant_for_its_end() {
    let hold = scenario_with_pause(2_000);
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&hold], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.pass(Time::from_millis(1_500));
    // The generator stands still; the BYE was due at 3 s.
    pair.now = Time::from_millis(4_800);
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (1, 0));
    assert_eq!(pair.log.len(), 6, "and nothing twice: {:?}", pair.log);
    let metrics = pair.caller();
    assert_eq!(metrics.punctuality().lateness().max(), 1_800_000);
    let (bye, talk) = (metrics.latency(Measure::SddSuccess), metrics.latency(Measure::SdtSuccess));
    assert_eq!((bye.intended.max(), bye.sent.max()), (1_800_000, 0));
    assert_eq!(talk.sent.max(), 3_800_000);
}

#[test]
fn what_is_sent_again_too_late_was_late() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.lost = |n| n == 1;
    pair.pass(Time::from_millis(1_100));
    pair.now = Time::from_millis(2_500);
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (1, 0));
    assert_eq!(pair.caller().punctuality().lateness().max(), 1_000_000, "T1 was over at 1.5 s");
}

#[test]
fn calls_that_never_had_room_are_said() {
    let hold = scenario_with_pause(10_000);
    let mut engine = engine(CALLER, CALLEE, &[&hold], |settings, plan| {
        settings.most_calls = 2;
        (plan.rate, plan.calls) = (20.0, 1_000);
    });
    let mut out = Outbox::new();
    for millis in 1_000..3_000 {
        engine.timeout(Time::from_millis(millis), &mut out);
    }
    engine.notice(Time::from_millis(2_999), Notice::Quit, &mut out);
    let metrics = &engine.record(Time::from_secs(9)).metrics;
    // Forty were due in two seconds.
    assert_eq!((metrics.all.sides[End::Caller as usize].begun, metrics.all.shed), (2, 38));
    assert!(
        (1_800_000..1_920_000).contains(&metrics.punctuality().lateness().max()),
        "{}",
        metrics.punctuality().lateness().max()
    );
    let offered = metrics.offered(Time::from_secs(1)).unwrap_or_default();
    assert!((offered - 2.0).abs() < 1e-6, "{offered}");
    assert_eq!(judge(&Rule::default(), metrics, Health::default()).0.word(), "VOID");
}

#[test]
fn a_crowd_that_never_had_room_is_counted_to_the_last() {
    let mut engine = engine(CALLER, CALLEE, &[&scenario_with_pause(60_000)], |settings, plan| {
        (settings.most_calls, plan.rate, plan.calls) = (1, 50_000.0, 200_000);
        settings.metrics.window.from = Time::from_micros(1_500_010);
    });
    let mut out = Outbox::new();
    engine.timeout(Time::from_secs(1), &mut out);
    engine.notice(Time::from_secs(2), Notice::Quit, &mut out);
    let metrics = &engine.record(Time::from_secs(2)).metrics;
    // From 0 to 1 s inclusive; half of them in the window but for the first, which was meant 10 us before it.
    assert_eq!((metrics.all.shed, metrics.measured.shed), (50_000, 25_000));
    assert_eq!(metrics.punctuality().lateness().count(), 25_000);
    assert!(
        metrics.punctuality().lateness().min() < 1_000 && metrics.punctuality().lateness().max() > 499_000
    );
}

#[test]
fn a_run_that_is_ended_begins_what_is_due_and_has_room() {
    let mut engine = engine(CALLER, CALLEE, &["uac"], |_, plan| plan.rate = 100.0);
    let mut out = Outbox::new();
    // The worker has slept since the first one.
    engine.timeout(Time::from_secs(1), &mut out);
    engine.notice(Time::from_millis(1_105), Notice::Quit, &mut out);
    let metrics = &engine.record(Time::from_millis(1_105)).metrics;
    assert_eq!((metrics.all.sides[End::Caller as usize].begun, metrics.all.shed), (11, 0));
}
