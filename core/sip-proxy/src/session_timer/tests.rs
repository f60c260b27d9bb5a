use super::*;
use proptest::prelude::*;
use sip_message::{Index, Limits, Parsed, parse};

const POLICY: Policy = Policy { interval: 1_800, shortest: 120 };
const SUPPORTED: &str = "Supported: 100rel, timer\r\n";

/// Reads a message of these lines and shows it to `what`.
fn with<R>(start: &str, lines: &str, what: impl FnOnce(&Message<'_>) -> R) -> R {
    let text = format!(
        "{start}\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>;tag=2\r\n\
         Call-ID: c\r\nCSeq: 1 INVITE\r\n{lines}Content-Length: 0\r\n\r\n"
    );
    let mut index = Index::new();
    let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
        panic!("{text}")
    };
    what(&message)
}

fn judged(lines: &str) -> Decision {
    with("INVITE sip:b@x SIP/2.0", lines, |request| POLICY.judge(request))
}

/// The lines of session timers that the forwarded request has.
fn forwarded(lines: &str) -> Vec<String> {
    let Decision::Ask(asked) = judged(lines) else { panic!("it is refused") };
    let (mut splices, mut out) = (Splices::new(), Vec::new());
    with("INVITE sip:b@x SIP/2.0", lines, |request| {
        asked.edit(request, &mut splices);
        splices.apply(request.bytes(), &mut out);
    });
    timer_lines(out)
}

fn timer_lines(message: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(message).expect("text");
    assert!(text.ends_with("\r\n\r\n"), "{text}");
    let head = text.strip_suffix("\r\n\r\n").expect("an end");
    let ours = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default().to_lowercase();
        ["session-expires", "x", "min-se", "require"].contains(&&name[..])
    };
    head.split("\r\n").filter(ours).map(str::to_owned).collect()
}

/// A response, and what it is like when `to_confirm` seconds are confirmed in it.
fn confirmed(start: &str, lines: &str, to_confirm: u16) -> Vec<String> {
    let (mut splices, mut out) = (Splices::new(), Vec::new());
    with(start, lines, |response| {
        let seconds = missing(response, to_confirm);
        if seconds > 0 {
            confirm(response, seconds, &mut splices);
        }
        splices.apply(response.bytes(), &mut out);
    });
    timer_lines(out)
}

#[test]
fn interval_is_inserted_where_there_is_none() {
    // Without refresher in both cases (RFC 4028 section 8.1).
    assert_eq!(forwarded(""), ["Session-Expires: 1800"]);
    assert_eq!(forwarded(SUPPORTED), ["Session-Expires: 1800"]);
    assert_eq!(forwarded("Min-SE: 3600\r\n"), ["Min-SE: 3600", "Session-Expires: 3600"]);
}

#[test]
fn longer_interval_is_reduced_but_not_below_min_se() {
    assert_eq!(
        forwarded("Session-Expires: 7200 ;refresher=uac\r\n"),
        ["Session-Expires: 1800 ;refresher=uac"]
    );
    assert_eq!(forwarded("x: 7200\r\nMin-SE: 2000\r\n"), ["x: 2000", "Min-SE: 2000"]);
    assert_eq!(
        forwarded("Session-Expires: 4294967299\r\n"),
        ["Session-Expires: 1800"],
        "a number of more than 32 bits"
    );
}

#[test]
fn shorter_interval_stays_as_it_is() {
    for lines in ["Session-Expires: 600;refresher=uas", "x:120", "Session-Expires: 1800"] {
        assert_eq!(forwarded(&format!("{lines}\r\n")), [lines]);
        assert_eq!(forwarded(&format!("{lines}\r\n{SUPPORTED}")), [lines]);
    }
}

#[test]
fn interval_below_min_se_is_raised_to_it() {
    let lines = "Session-Expires: 300\r\nMin-SE: 400;x=y\r\n";
    assert_eq!(forwarded(lines), ["Session-Expires: 400", "Min-SE: 400;x=y"]);
}

#[test]
fn too_short_interval_is_refused_to_who_supports_timers() {
    assert_eq!(judged(&format!("Session-Expires: 119\r\n{SUPPORTED}")), Decision::TooShort);
    assert_eq!(judged("x: 90\r\nk: TIMER\r\n"), Decision::TooShort);
    assert_ne!(judged(&format!("Session-Expires: 120\r\n{SUPPORTED}")), Decision::TooShort);
}

#[test]
fn too_short_interval_of_others_is_raised_with_min_se() {
    assert_eq!(forwarded("Session-Expires: 60\r\n"), ["Session-Expires: 120", "Min-SE: 120"]);
    assert_eq!(
        forwarded("Session-Expires: 60;refresher=uac\r\nMin-SE: 100\r\n"),
        ["Session-Expires: 120;refresher=uac", "Min-SE: 120"]
    );
    assert_eq!(
        forwarded("Session-Expires: 60\r\nMin-SE: 200\r\n"),
        ["Session-Expires: 200", "Min-SE: 200"],
        "it is not decreased"
    );
}

#[test]
fn malformed_and_huge_numbers_are_left_alone() {
    for lines in [
        "Session-Expires: soon",
        "Session-Expires:",
        "Session-Expires: -1",
        "Session-Expires: 60\r\nx: 70",
        "Min-SE: x",
        "Min-SE: 70000",
    ] {
        let lines = format!("{lines}\r\n");
        assert_eq!(forwarded(&lines), timer_lines(format!("y\r\n{lines}\r\n").into_bytes()));
        assert_eq!(judged(&lines), Decision::Ask(Asked::default()));
    }
}

#[test]
fn only_a_caller_with_timers_gets_a_confirmation() {
    let to_confirm = |lines: &str| match judged(lines) {
        Decision::Ask(asked) => asked.to_confirm(),
        Decision::TooShort => panic!("it is refused"),
    };
    assert_eq!(to_confirm(SUPPORTED), 1_800);
    assert_eq!(to_confirm(&format!("{SUPPORTED}x: 600\r\n")), 600);
    assert_eq!(to_confirm("x: 600\r\n"), 0);
}

#[test]
fn answer_without_interval_is_confirmed_for_the_uas() {
    let ours = "Session-Expires: 600;refresher=uac";
    assert_eq!(confirmed("SIP/2.0 200 OK", "", 600), [ours, "Require: timer"]);
    assert_eq!(confirmed("SIP/2.0 200 OK", "Require: 100rel\r\n", 600), ["Require: 100rel, timer", ours]);
    assert_eq!(confirmed("SIP/2.0 200 OK", "Require: timer\r\n", 600), ["Require: timer", ours]);
    assert_eq!(confirmed("SIP/2.0 200 OK", "", 0), [""; 0]);
}

#[test]
fn answer_with_interval_and_failures_stay_as_they_are() {
    let lines = "Session-Expires: 90;refresher=uas\r\nRequire: timer\r\n";
    assert_eq!(
        confirmed("SIP/2.0 200 OK", lines, 600),
        ["Session-Expires: 90;refresher=uas", "Require: timer"]
    );
    for start in ["SIP/2.0 180 Ringing", "SIP/2.0 302 Moved", "SIP/2.0 486 Busy"] {
        assert_eq!(confirmed(start, "", 600), [""; 0]);
    }
}

#[test]
fn agreed_interval_is_read_from_the_answer() {
    let agreed = |lines: &str| with("SIP/2.0 200 OK", lines, agreed);
    assert_eq!(agreed("Session-Expires: 600;refresher=uas\r\n"), Some(600));
    assert_eq!(agreed("x: 99\r\n"), Some(99));
    assert_eq!((agreed(""), agreed("x: y\r\n")), (None, None));
}

proptest! {
    /// RFC 4028 section 8.1: never below Min-SE, never raised without need, never above what is allowed.
    #[test]
    fn interval_keeps_the_bounds_of_section_8_1(
        interval in proptest::option::of(0_u32..100_000),
        floor in proptest::option::of(0_u32..60_000),
        supported: bool,
    ) {
        let line = |name: &str, value: Option<u32>| {
            value.map_or(String::new(), |value| format!("{name}: {value}\r\n"))
        };
        let lines = line("Session-Expires", interval) + &line("Min-SE", floor);
        let lines = lines + if supported { SUPPORTED } else { "" };
        match judged(&lines) {
            Decision::TooShort => prop_assert!(supported && interval.is_some_and(|there| there < 120)),
            Decision::Ask(asked) => {
                let (least, sent) = (floor.unwrap_or(0), u32::from(asked.interval));
                prop_assert!(sent >= least && sent >= 120);
                prop_assert!(sent <= least.max(1_800));
                prop_assert!(interval.is_none_or(|there| sent <= there.max(least).max(120)));
                prop_assert!(asked.floor == 0 || !supported);
            }
        }
    }
}
