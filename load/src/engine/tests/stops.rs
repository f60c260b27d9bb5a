//! Runs that their scenarios end, and calls that go where there is no step.

use super::ends::{request, response};
use super::*;
use crate::metrics::{Health, Rule, judge};

/// An OPTIONS and its answer, then these elements.
fn asks(then: &str) -> String {
    format!("<scenario name=\"x\">{}<recv response=\"200\"/>{then}</scenario>", request("OPTIONS", 1, ""))
}

fn answers() -> String {
    format!("<scenario name=\"y\"><recv request=\"OPTIONS\"/>{}</scenario>", response("200 OK"))
}

fn command(name: &str) -> String {
    format!("<nop><action><exec int_cmd=\"{name}\"/></action></nop>")
}

/// Twenty calls in two seconds, of which the first is at its end after three.
fn pair(then: &str) -> Pair {
    let hold = format!("<pause milliseconds=\"3000\"/>{then}");
    Pair::new(
        engine(CALLER, CALLEE, &[&asks(&hold)], nothing),
        engine(CALLEE, CALLER, &[&answers()], |settings, _| settings.conduct.defaults.abort = false),
    )
}

#[test]
fn the_call_that_stops_the_run_has_ended_well() {
    let mut pair = pair(&(request("INFO", 2, "") + &command("stop_now")));
    pair.pass(Time::from_millis(3_990));
    assert_eq!(pair.ends[0].1.progress(pair.now).stop, None);
    pair.pass(Time::from_millis(4_010));
    let progress = pair.ends[0].1.progress(pair.now);
    assert_eq!((progress.stop, progress.done, progress.calls), (Some(Stop::Now), true, 0));
    assert!(
        pair.log.iter().any(|line| line.starts_with("INFO ")),
        "what it said before is sent: {:?}",
        pair.log
    );
    let metrics = pair.ends[0].1.record(pair.now).metrics;
    let side = &metrics.all.sides[End::Caller as usize];
    assert_eq!((side.succeeded, side.failures(), side.unfinished(), side.open), (1, 0, 19, 0));
    assert_eq!(judge(&Rule::default(), &metrics, Health::default()).0.word(), "PASS");
}

#[test]
fn a_run_that_stops_gracefully_waits_for_its_calls() {
    let mut pair = pair(&command("stop_gracefully"));
    pair.pass(Time::from_millis(4_010));
    let progress = pair.ends[0].1.progress(pair.now);
    assert_eq!((progress.stop, progress.done, progress.beginning), (Some(Stop::Gracefully), false, false));
    pair.pass(Time::from_secs(10));
    let progress = pair.ends[0].1.progress(pair.now);
    assert_eq!(
        (progress.stop, progress.done, pair.ends_of(0, End::Caller)),
        (Some(Stop::Gracefully), true, (20, 0))
    );
}

#[test]
fn a_call_begins_to_wait_when_it_begins() {
    let mut pair = pair("");
    pair.pass(Time::from_secs(90));
    let mut out = Outbox::new();
    // No step takes it, and no call fails at what it does not expect.
    let message = "MESSAGE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\n\
                   To: <sip:b@x>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n";
    let now = pair.now;
    let callee = &mut pair.ends[1].1;
    callee
        .receive(Arrival::new(now, Flow::udp(ListenerId(0), address(CALLER)), message.as_bytes()), &mut out);
    let waits: Vec<_> = callee.player.calls.iter().map(|call| call.waiting.times()).collect();
    assert_eq!(waits, [(now, now)], "and not when the call before it in its place did");
}

#[test]
fn a_jump_to_a_step_that_is_not_there_fails_the_call() {
    let jump = |to: &str| {
        asks(&format!(
            "<nop><action><assign assign_to=\"v\" value=\"{to}\"/><jump variable=\"v\"/></action></nop><pause/>"
        ))
    };
    for (to, ends) in
        [("4", (20, 0)), ("3", (20, 0)), ("5", (0, 20)), ("99", (0, 20)), ("3.5", (0, 20)), ("-1", (0, 20))]
    {
        let mut pair = Pair::new(
            engine(CALLER, CALLEE, &[&jump(to)], nothing),
            engine(CALLEE, CALLER, &[&answers()], nothing),
        );
        pair.pass(Time::from_secs(10));
        assert_eq!(pair.ends_of(0, End::Caller), ends, "{to}");
    }
}

#[test]
fn a_step_may_lose_nothing_where_others_lose_all() {
    let asks = asks("").replace("<send>", "<send lost=\"0\">").replace("<recv ", "<recv lost=\"0\" ");
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&asks], |settings, _| settings.conduct.lost = 1.0),
        engine(CALLEE, CALLER, &[&answers()], nothing),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0));
}

/// As SIPp has it: what stands behind the slashes is the name of the call.
#[test]
fn a_text_may_stand_before_the_name_of_a_call() {
    let prefixed = |text: String| text.replace("Call-ID: [call_id]", "Call-ID: a/b///[call_id]");
    let asks = prefixed(asks(&format!("<recv request=\"BYE\"/>{}", response("200 OK"))));
    let hangs_up = answers().replace(
        "</scenario>",
        &format!(
            "<pause milliseconds=\"100\"/>{}<recv response=\"200\"/></scenario>",
            request("BYE", 7, ";tag=1")
        ),
    );
    let caller = engine(CALLER, CALLEE, &[&asks], nothing);
    let mut pair = Pair::new(caller, engine(CALLEE, CALLER, &[&hangs_up], nothing));
    pair.pass(Time::from_secs(10));
    assert_eq!(
        (pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)),
        ((20, 0), (20, 0)),
        "{:?}",
        pair.log
    );
    let first = pair.texts[0].as_bytes();
    assert!(pair.texts[0].contains("Call-ID: a/b///"), "{}", pair.texts[0]);
    assert_eq!(pair.ends[0].1.owner(first, 7), Some(0), "the worker whose call it is");
    // Both ends in one program.
    let asks = prefixed(self::asks(&request("INFO", 2, ";tag=2")))
        .replace("</scenario>", "<recv response=\"200\"/></scenario>");
    let twice = answers()
        .replace("</scenario>", &format!("<recv request=\"INFO\"/>{}</scenario>", response("200 OK")));
    let mut pair = Pair::new(
        engine(CALLER, CALLER, &[&asks, &twice], nothing),
        engine(CALLEE, CALLER, &[&answers()], nothing),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(0, End::Callee)), ((20, 0), (20, 0)));
    // A callee that calls on: its second call is of the same name.
    let on = prefixed(request("OPTIONS", 2, "").replace("sip:b@x SIP", "sip:c@x SIP"));
    let on = answers().replace("</scenario>", &format!("{on}<recv response=\"200\"/></scenario>"));
    let mut pair = Pair::new(
        engine(
            CALLER,
            CALLEE,
            &[&self::asks(&format!("<recv request=\"OPTIONS\"/>{}", response("200 OK")))],
            |s, _| {
                // It knows no call of that name but as SIPp does.
                s.client = s.client.take().map(|own| {
                    let mut own = Arc::into_inner(own).expect("the only one");
                    own.prefixes_call_ids = true;
                    Arc::new(own)
                });
            },
        ),
        engine(CALLEE, CALLER, &[&on], nothing),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!(
        (pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)),
        ((20, 0), (20, 0)),
        "{:?}",
        pair.log
    );
}
