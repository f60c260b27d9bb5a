use super::*;
use crate::metrics::{Began, Bye, CallEnd, Registering, Setup, Side, TransactionEnd, Window};

/// A run of 12 s with a ramp, a measured window of 8 s, one failure in a thousand calls and registrations.
pub(in crate::report) fn run(seed: u64) -> (Inputs, Metrics) {
    let window = Window { from: Time::from_secs(2), until: Time::from_secs(10) };
    let mut m = Metrics::new(&Setup { window, stopwatches: vec!["1".to_owned()], ..Setup::default() });
    let mut noise = seed | 1;
    let mut random = move |n: u64| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise % n
    };
    for i in 0..12_000_u64 {
        let intended = Time::from_micros(i * 1_000);
        let sent = Time::from_micros(i * 1_000 + random(80));
        let began = Began { intended, sent };
        let plus = |t: u64| Time::from_micros(sent.as_micros() + t);
        m.call_begun(Side::Caller, began);
        m.scheduled_send(sent, intended);
        m.request_sent(sent, Method::Invite);
        m.session_requested(began);
        let delay = 300 + random(400) + if random(100) == 0 { random(20_000) } else { 0 };
        if i % 1_000 == 999 {
            m.response_received(plus(delay), 503);
            m.session_refused(plus(delay), began, None, 503);
            m.call_ended(plus(delay), Side::Caller, began, CallEnd::Failed(Failure::Refused));
            continue;
        }
        m.response_received(plus(delay), 180);
        m.session_progress(plus(delay), began);
        m.response_received(plus(2 * delay), 200);
        m.session_established(plus(2 * delay), began, Some(plus(delay)), 200);
        m.stopwatch(0, plus(2 * delay), began);
        let bye = Began::at(plus(50_000));
        m.request_sent(bye.sent, Method::Bye);
        m.session_ended(plus(50_000 + delay), began, plus(2 * delay), Bye::Answered(bye));
        m.transaction_ended(plus(50_000 + delay), Method::Bye, bye, TransactionEnd::Success);
        m.call_ended(plus(50_000 + delay), Side::Caller, began, CallEnd::Success);
        if i % 6 == 0 {
            let kind = if i % 12 == 0 { Registering::First } else { Registering::Refresh };
            m.registration_begun(began, kind);
            m.registered(plus(delay), began, kind);
        }
    }
    let inputs = Inputs {
        program: "strowger 0.1.0".to_owned(),
        title: "proxy200 against 127.0.0.1:5060".to_owned(),
        workload: "scenario proxy200".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        began: 1_767_225_600.5,
        command: vec!["strowger".to_owned(), "load".to_owned(), "-r".to_owned(), "it's 1000".to_owned()],
        seed,
        compression: 1.0,
        windows: Windows { ramp: 1.0, warm_up: 1.0, measured: 8.0, cool_down: 2.0 },
        parameters: vec![Fact::new("rate", "1000/s")],
        machine: vec![Fact::new("cores", 2)],
        server: vec![Fact::new("processor time", "41 %")],
        server_cpu_percent: None,
        server_memory_mib: Some(48.25),
        health: Health { cpu_percent: Some(38.5), ..Health::default() },
        notes: vec!["A note.".to_owned()],
        stop: None,
        end: Time::from_secs(12),
    };
    (inputs, m)
}

#[test]
fn the_figures_are_those_of_the_measured_window() {
    let (inputs, m) = run(7);
    let r = Report::build(inputs, &m, &Rule::default(), &[]);
    assert_eq!(r.verdict.word, "FAIL");
    assert_eq!(r.verdict.why, ["successful calls: 99.9000 %, limit at least 99.9900 %"]);
    assert_eq!(r.metric("calls.begun"), Some(8_000.0));
    assert_eq!(r.metric("calls.rate"), Some(1_000.0));
    assert_eq!(r.metric("calls.failed"), Some(8.0));
    assert_eq!(r.metric("ser"), Some(99.9));
    assert_eq!(r.metric("isa"), Some(0.1));
    assert_eq!(r.metric("ira"), Some(0.0));
    assert_eq!(r.metric("cpu"), Some(38.5));
    assert_eq!(r.whole["calls.begun"], 12_000);
    assert_eq!(r.measured["calls.failed.refused by a final response"], 8);
    let srd = r.latency("srd").unwrap();
    assert_eq!(srd.sent.count, 7_992);
    assert_eq!(srd.sent.buckets.iter().map(|b| b.1).sum::<u64>(), 7_992);
    assert!(srd.sent.buckets.len() < 400, "{}", srd.sent.buckets.len());
    assert!(srd.sent.buckets.is_sorted());
    assert!(r.latency("rtd-1").is_some());
    assert!(r.notes.iter().any(|n| n.contains("8 of 8000 calls failed")), "{:?}", r.notes);
    assert_eq!(r.series.column("begun").len(), 13);
}

#[test]
fn messages_are_counted_over_the_time_in_which_they_are() {
    let rate = |window: Window| {
        let mut m = Metrics::new(&Setup { window, ..Setup::default() });
        // Calls begin in two seconds, and end five seconds later.
        for second in [0, 1, 5, 6] {
            (0..50).for_each(|_| m.request_sent(Time::from_secs(second), Method::Invite));
        }
        let windows = Windows { measured: 2.0, cool_down: 5.0, ..Windows::default() };
        let inputs = Inputs { windows, ..Inputs::default() };
        Report::build(inputs, &m, &Rule::default(), &[]).metric("messages.rate")
    };
    assert_eq!(rate(Window::ALWAYS).map(|rate| (rate * 7.0).round()), Some(200.0));
    assert_eq!(rate(Window { from: Time::ZERO, until: Time::from_secs(2) }), Some(50.0));
}

#[test]
fn time_compression_and_unfinished_calls_are_stated() {
    let (mut inputs, mut m) = run(7);
    inputs.compression = 60.0;
    m.call_begun(Side::Caller, Began::at(Time::from_secs(9)));
    let r = Report::build(inputs, &m, &Rule::default(), &[]);
    assert!(r.notes.iter().any(|n| n.contains("compressed 60 times")));
    assert!(r.notes.iter().any(|n| n.starts_with("1 calls that began")));
}

#[test]
fn a_held_up_generator_is_stated() {
    let (inputs, mut m) = run(7);
    for _ in 0..1_000 {
        let began = Began { intended: Time::from_secs(3), sent: Time::from_secs(5) };
        m.responded(Time::from_millis(5_001), began);
    }
    let r = Report::build(inputs, &m, &Rule::default(), &[]);
    assert!(r.notes.iter().any(|n| n.contains("the generator was held up")), "{:?}", r.notes);
}

#[test]
fn json_comes_back_the_same() {
    let (inputs, m) = run(3);
    let r = Report::build(inputs, &m, &Rule::default(), &[]);
    let text = r.to_json();
    assert_eq!(Report::from_json(&text).unwrap(), r);
    let empty = Report::build(Inputs::default(), &Metrics::new(&Setup::default()), &Rule::default(), &[]);
    assert_eq!(Report::from_json(&empty.to_json()).unwrap(), empty);
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let says = |text: &str| Report::from_json(text).unwrap_err().to_string();
    assert!(says("<html>").starts_with("not a report: expected value"));
    assert!(says("{}").contains("no \"format\""));
    assert!(says("[]").starts_with("not a report"));
    let future = format!("{{\"format\":\"{FORMAT}\",\"version\":2}}");
    assert_eq!(
        says(&future),
        "a report of version 2; this program reads version 1: use the one that wrote it"
    );
    let broken = format!("{{\"format\":\"{FORMAT}\",\"version\":1,\"seed\":\"x\"}}");
    assert!(says(&broken).contains("invalid type"));
    // Fields of later writers are passed over, missing ones are empty.
    let other = format!("{{\"format\":\"{FORMAT}\",\"version\":1,\"tomorrow\":[1]}}");
    assert_eq!(Report::from_json(&other).unwrap().metrics, []);
}

#[test]
fn keys_of_figures_are_unique() {
    let (inputs, m) = run(3);
    let r = Report::build(inputs, &m, &Rule::default(), &[]);
    let mut keys: Vec<&str> = r.metrics.iter().map(|m| m.key.as_str()).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all);
    assert!(r.metrics.iter().all(|m| !m.definition.is_empty() && !m.source.is_empty()));
}

#[test]
fn what_there_was_no_room_for_is_told_by_its_kind() {
    let (inputs, mut m) = run(7);
    m.lost(Time::from_secs(5), Lost { unsent: 3, unopened: 1, ..Lost::default() });
    let r = Report::build(inputs, &m, &Rule::default(), &[]);
    assert_eq!(
        ["drops", "drops.unsent", "drops.unopened"].map(|key| r.metric(key)),
        [4.0, 3.0, 1.0].map(Some)
    );
    assert_eq!(r.metric("drops.received"), None, "there was none");
    let why = &r.verdict.why[0];
    assert!(r.verdict.word == "VOID" && why.contains("4 (3 to be sent, 1 connections)"), "{why}");
}
