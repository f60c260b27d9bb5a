//! How long a step waits, what becomes of its call then, what is lost on purpose, and stopwatches.

use super::ends::{request, response};
use super::*;
use crate::engine::directory::Whose;
use crate::scenario::Injection;

const LONG: &str = "<pause milliseconds=\"900000\"/>";
const END: &str = "<label id=\"e\"/>";

fn scene(steps: &[&str]) -> String {
    format!("<scenario name=\"s\">{}</scenario>", steps.concat())
}

fn pair(caller: &[&str], callee: &[&str], change: impl FnOnce(&mut Settings)) -> Pair {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&scene(caller)], |settings, plan| {
            plan.calls = 1;
            change(settings);
        }),
        engine(CALLEE, CALLER, &[&scene(callee)], nothing),
    );
    pair.pass(Time::from_secs(120));
    pair
}

fn why(pair: &Pair) -> String {
    pair.ends[0].1.ladders().kept().first().map_or_else(String::new, |ladder| ladder.why.clone())
}

/// As with SIPp, which counts it as FailedTimeoutOnRecv or FailedMaxUDPRetrans.
#[test]
fn a_call_that_waits_in_vain_and_has_nothing_left_to_do_has_failed() {
    let silent = ["<recv request=\"INVITE\"/>", LONG];
    let recv = "<recv response=\"200\" timeout=\"300\" ontimeout=\"e\"/>";
    let both = pair(&[&request("INVITE", 1, ""), recv, END], &silent, |_| {});
    assert_eq!((both.ends_of(0, End::Caller), why(&both).as_str()), ((0, 1), Failure::ReceiveTimeout.text()));
    let send = request("INVITE", 1, "").replace("<send>", "<send retrans=\"500\" ontimeout=\"e\">");
    let both = pair(&[&send, "<recv response=\"200\"/>", END], &silent, |_| {});
    assert_eq!(
        (both.ends_of(0, End::Caller), why(&both).as_str()),
        ((0, 1), Failure::Retransmissions.text())
    );
    // A step is something to do.
    let both = pair(&[&request("INVITE", 1, ""), recv, END, "<nop/>"], &silent, |_| {});
    assert_eq!(both.ends_of(0, End::Caller), (1, 0));
}

#[test]
fn it_takes_leave_of_the_other_side() {
    let ringing = [request("INVITE", 1, ""), "<recv response=\"180\"/>".to_owned()].concat();
    let recv = "<recv response=\"200\" timeout=\"300\" ontimeout=\"e\"/>";
    let callee = [
        "<recv request=\"INVITE\"/>",
        &response("180 Ringing")[..],
        "<recv request=\"CANCEL\"/>",
        &response("200 OK"),
        &response("487 Request Terminated").replace("[last_CSeq:]", "CSeq: 1 INVITE"),
        "<recv request=\"ACK\"/>",
    ];
    let both = pair(&[&ringing, recv, END], &callee, |_| {});
    assert_eq!((both.ends_of(0, End::Caller), both.ends_of(1, End::Callee)), ((0, 1), (1, 0)));
    let established = [&request("INVITE", 1, "")[..], "<recv response=\"200\"/>"].concat();
    let established = [established, request("ACK", 1, ";tag=2")].concat();
    let callee = [
        "<recv request=\"INVITE\"/>",
        &response("200 OK")[..],
        "<recv request=\"ACK\"/>",
        "<recv request=\"BYE\"/>",
        &response("200 OK"),
    ];
    let waits = "<recv request=\"INFO\" timeout=\"300\" ontimeout=\"e\"/>";
    let both = pair(&[&established, waits, END], &callee, |_| {});
    assert_eq!((both.ends_of(0, End::Caller), both.ends_of(1, End::Callee)), ((0, 1), (1, 0)));
}

/// When the step's limit is over, in milliseconds of the run, and whether the call has failed.
fn limit(recvs: &str, change: impl FnOnce(&mut Settings)) -> (Option<u64>, (u64, u64)) {
    let caller = [&request("OPTIONS", 1, "")[..], recvs, LONG, "<label id=\"b\"/>", "<nop/>"];
    let mut both = Pair::new(
        engine(CALLER, CALLEE, &[&scene(&caller)], |settings, plan| {
            plan.calls = 1;
            change(settings);
        }),
        engine(CALLEE, CALLER, &[&scene(&["<recv request=\"OPTIONS\"/>", LONG])], nothing),
    );
    let over = (1..3_000).find(|&ms| {
        both.pass(Time::from_millis(1_000 + ms));
        both.ends_of(0, End::Caller) != (0, 0)
    });
    (over, both.ends_of(0, End::Caller))
}

#[test]
fn what_may_come_before_has_the_limit_of_what_has_to_come() {
    let default = |settings: &mut Settings| settings.conduct.recv_timeout = Some(Duration::from_millis(200));
    let optional = "<recv response=\"100\" optional=\"true\"/><recv response=\"180\" optional=\"global\"/>";
    let of = |recvs: &str| limit(recvs, |_| {});
    assert_eq!(of(&format!("{optional}<recv response=\"200\" timeout=\"500\"/>")), (Some(500), (0, 1)));
    let on = "timeout=\"500\" ontimeout=\"b\"";
    assert_eq!(of(&format!("{optional}<recv response=\"200\" {on}/>")), (Some(500), (1, 0)));
    assert_eq!(of(&format!("{optional}<recv response=\"200\"/>")), (None, (0, 0)));
    // Its own comes first.
    let own = "<recv response=\"100\" optional=\"true\" timeout=\"300\" ontimeout=\"b\"/>";
    assert_eq!(of(&format!("{own}<recv response=\"200\" timeout=\"500\"/>")), (Some(300), (1, 0)));
    // That of all steps leads where the step says.
    let on = "<recv response=\"200\" ontimeout=\"b\"/>";
    assert_eq!(limit(&format!("{optional}{on}"), default), (Some(200), (1, 0)));
    // Another block has its own.
    let other = format!("{}<recv response=\"200\"/><recv response=\"200\" timeout=\"300\"/>", optional);
    assert_eq!(of(&other), (None, (0, 0)));
}

#[test]
fn a_limit_runs_from_when_the_block_began() {
    let callee =
        ["<recv request=\"OPTIONS\"/>", "<pause milliseconds=\"400\"/>", &response("100 Trying")[..], LONG];
    let caller =
        ["<recv response=\"100\" optional=\"true\"/>", "<recv response=\"200\" timeout=\"500\"/>"].concat();
    let caller = scene(&[&request("OPTIONS", 1, ""), &caller]);
    let mut both = Pair::new(
        engine(CALLER, CALLEE, &[&caller], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[&scene(&callee)], nothing),
    );
    both.pass(Time::from_millis(1_499));
    assert_eq!(both.ends_of(0, End::Caller), (0, 0));
    both.pass(Time::from_millis(1_501));
    assert_eq!(both.ends_of(0, End::Caller), (0, 1));
}

#[test]
fn repetitions_are_lost_as_well() {
    let sent = |attributes: &str, lost: f64| {
        let options =
            request("OPTIONS", 1, "").replace("<send>", &format!("<send retrans=\"500\"{attributes}>"));
        let callee = ["<recv request=\"OPTIONS\"/>", LONG];
        let both =
            pair(&[&options, "<recv response=\"200\"/>"], &callee, |settings| settings.conduct.lost = lost);
        assert_eq!(both.caller().all.retransmissions(), 7, "each is counted");
        both.passed
    };
    assert_eq!((sent("", 0.0), sent("", 1.0), sent(" lost=\"100\"", 0.0)), (8, 0, 0));
    assert_eq!(sent(" lost=\"0\"", 1.0), 8, "the step comes first");
}

/// An answer that is asked for again, as well.
#[test]
fn repeated_answers_are_lost_with_the_chance_of_their_step() {
    let lossy = response("200 OK").replace("<send>", "<send lost=\"100\">");
    let options = request("OPTIONS", 1, "").replace("<send>", "<send retrans=\"500\">");
    let callee = ["<recv request=\"OPTIONS\"/>", &lossy, LONG];
    let both = pair(&[&options, "<recv response=\"200\"/>"], &callee, |_| {});
    assert_eq!((both.ends_of(0, End::Caller), both.passed), ((0, 1), 8), "{:?}", both.log);
}

#[test]
fn a_stopwatch_that_starts_with_the_call_runs_from_when_that_was_meant_to_begin() {
    let with = |first: &str, before: &str| {
        let options = request("OPTIONS", 1, "").replace("<send>", &format!("<send{first}>"));
        let caller = scene(&[before, &options, "<recv response=\"200\" rtd=\"x\"/>"]);
        let callee = ["<recv request=\"OPTIONS\"/>", "<pause milliseconds=\"20\"/>", &response("200 OK")[..]];
        let mut both = Pair::new(
            engine(CALLER, CALLEE, &[&caller], |settings, plan| {
                plan.calls = 1;
                settings.metrics.stopwatches = vec!["x".to_owned()];
            }),
            engine(CALLEE, CALLER, &[&scene(&callee)], nothing),
        );
        both.late = Duration::from_millis(7);
        both.pass(Time::from_secs(10));
        assert_eq!(both.ends_of(0, End::Caller), (1, 0), "{:?}", both.log);
        let (_, times) = &both.caller().custom().stopwatches()[0];
        let lead = times.intended.max() as i64 - times.sent.max() as i64;
        (times.intended.count(), (lead + 500) / 1_000)
    };
    let start = " start_rtd=\"x\"";
    assert_eq!(with("", ""), (1, 7), "that of the call");
    assert_eq!(with(start, ""), (1, 7));
    assert_eq!(with("", "<nop start_rtd=\"x\"/>"), (1, 7));
    assert_eq!(with(start, "<pause milliseconds=\"50\"/>"), (1, 0), "it starts later");
}

#[test]
fn every_message_is_kept_for_who_wants_it() {
    let mut both = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |settings, plan| {
            plan.calls = 1;
            settings.traces = true;
            settings.metrics.figures = true;
        }),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    both.pass(Time::from_secs(10));
    let now = both.now;
    let progress = both.ends[0].1.progress(now);
    let (all, missed) = progress.messages;
    let lines = |message: &Traced| {
        let line = message.bytes.split(|&b| b == b' ' || b == b'\r');
        let word = line.map(String::from_utf8_lossy).find(|word| word != "SIP/2.0").unwrap_or_default();
        format!("{}{word}", if message.sent { ">" } else { "<" })
    };
    let passed: Vec<String> = all.iter().map(lines).collect();
    assert_eq!((passed.join(" ").as_str(), missed), (">INVITE <180 <200 >ACK >BYE <200", 0));
    assert!(both.ends[0].1.progress(now).messages.0.is_empty(), "each once");
    let figures = progress.figures.expect("they are kept");
    assert_eq!((figures.lengths.count, both.ends[1].1.progress(now).figures), (1, None));
}

#[test]
fn a_call_id_may_have_another_end() {
    let mut both = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |settings, _| {
            settings.conduct.call_ids = CallIds::Named(vec![b"-x@".to_vec(), b".y".to_vec()]);
        }),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    both.pass(Time::from_secs(10));
    assert_eq!(both.ends_of(0, End::Caller), (20, 0));
    assert!(both.texts[0].contains("-x@192.0.2.1.y\r\n"), "{}", both.texts[0]);
}

/// An engine whose calls have the Call-IDs of these lines.
fn with_lines(lines: &str) -> Engine {
    let text = format!("SEQUENTIAL\n{lines}");
    let mut own = engine(CALLER, CALLEE, &["uac"], |settings, plan| {
        settings.conduct.call_ids = CallIds::Field(1);
        // The next call begins after 100 ms.
        settings.conduct.pause = Pause::Fixed(150);
        plan.calls = 3;
    });
    own.player
        .interpreter
        .desk()
        .injections
        .files
        .push(Injection::parse("ids.csv", text.as_bytes()).unwrap());
    own
}

#[test]
fn call_ids_of_any_shape_come_from_a_field() {
    let mut both = Pair::new(with_lines("a;x\nb;0_1@h\nc;///\n"), engine(CALLEE, CALLER, &["uas"], nothing));
    both.pass(Time::from_secs(10));
    assert_eq!(both.ends_of(0, End::Caller), (3, 0), "{:?}", both.log);
    for call_id in ["x", "0_1@h", "///"] {
        let line = format!("Call-ID: {call_id}\r\n");
        assert!(both.texts.iter().any(|text| text.contains(&line)), "{call_id}");
    }
    let left = |own: &Engine| {
        let directory = &own.player.directory;
        directory.find(Whose::Ours, directory.hash(b"0_1@h"), |_| true)
    };
    assert_eq!(left(&both.ends[0].1), None, "it is forgotten with its call");
}

#[test]
fn a_call_without_a_call_id_of_its_own_fails() {
    let failed = |lines: &str| {
        let mut both = Pair::new(with_lines(lines), engine(CALLEE, CALLER, &["uas"], nothing));
        both.pass(Time::from_secs(10));
        both.ends_of(0, End::Caller).1
    };
    assert_eq!(failed("a;x\nb;\nc\n"), 2, "an empty field, and none");
    assert_eq!(failed("a;x\nb;x\nc;y\n"), 1, "two calls under way with one Call-ID");
}
