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

/// Twenty calls in two seconds; the run is ended `after` so many seconds. Failed and unfinished calls, and the verdict.
fn ended(caller: &str, callee: &str, after: u64) -> (u64, u64, &'static str) {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[caller], nothing), engine(CALLEE, CALLER, &[callee], nothing));
    pair.pass(Time::from_secs(1 + after));
    let now = pair.now;
    let record = pair.ends[0].1.record(now);
    let side = &record.metrics.all.sides[End::Caller as usize];
    let verdict = judge(&Rule::default(), &record.metrics, Health::default()).0;
    assert_eq!((side.begun, side.succeeded, pair.ends[0].1.calls.len()), (20, 0, 0));
    (side.failures(), side.unfinished(), verdict.word())
}

#[test]
fn a_call_that_waits_for_an_answer_has_failed() {
    assert_eq!(ended("uac", &says("100 Trying"), 10), (20, 0, "FAIL"));
    // The last nineteenth of a second may yet be answered.
    let (failed, unfinished, _) = ended("uac", &says("100 Trying"), 3);
    assert_eq!((failed, unfinished), (10, 10), "what has waited for less than 2 s is unfinished");
}

#[test]
fn a_call_that_rings_is_unfinished_until_nobody_would_wait_any_more() {
    assert_eq!(ended("uac", &says("180 Ringing"), 30), (0, 20, "VOID"));
    assert_eq!(ended("uac", &says("180 Ringing"), 63), (20, 0, "FAIL"));
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
    assert_eq!(metrics.lateness().max(), 1_800_000);
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
    assert_eq!(pair.caller().lateness().max(), 1_000_000, "T1 was over at 1.5 s");
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
    assert!((1_800_000..1_920_000).contains(&metrics.lateness().max()), "{}", metrics.lateness().max());
    let offered = metrics.offered(Time::from_secs(1)).unwrap_or_default();
    assert!((offered - 2.0).abs() < 1e-6, "{offered}");
    assert_eq!(judge(&Rule::default(), metrics, Health::default()).0.word(), "VOID");
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
