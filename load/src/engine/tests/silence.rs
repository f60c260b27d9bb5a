//! Requests whose scenario goes on without an answer, or with one that it did not expect, as the record
//! counts them.

use super::ends::{request, response};
use super::*;
use crate::metrics::{Performance, Ratio};

const ALL: Ratio = Ratio { part: 20, of: 20 };
const NONE: Ratio = Ratio { part: 0, of: 20 };

fn scene(steps: &[&str]) -> String {
    format!("<scenario name=\"s\">{}</scenario>", steps.concat())
}

fn recv(what: &str) -> String {
    format!("<recv {what}/>")
}

/// Waits so many milliseconds for a 200, then goes on at a label.
fn patient(ms: u32, to: &str) -> String {
    recv(&format!("response=\"200\" timeout=\"{ms}\" ontimeout=\"{to}\""))
}

/// A label, and something to do behind it: to come to the end of the scenario in vain would be a failed call.
fn label(id: &str) -> String {
    format!("<label id=\"{id}\"/><nop/>")
}

const LONG: &str = "<pause milliseconds=\"900000\"/>";

/// Twenty calls in two seconds, and what becomes of them within two minutes; their caller's scenario is
/// content.
fn play(caller: &[&str], callee: &[&str]) -> Pair {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&scene(caller)], nothing),
        engine(CALLEE, CALLER, &[&scene(callee)], nothing),
    );
    pair.pass(Time::from_secs(120));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0), "{:?}", pair.log);
    pair
}

/// Transactions that succeeded, failed and had no answer.
fn transactions(pair: &Pair) -> (u64, u64, u64) {
    let all = &pair.caller().all;
    (all.transactions_succeeded, all.transactions_failed, all.transactions_timed_out)
}

#[test]
fn an_invite_that_is_given_up_has_timed_out() {
    let silent = [recv("request=\"INVITE\""), LONG.to_owned()].concat();
    let pair = play(&[&request("INVITE", 1, ""), &patient(200, "e"), &label("e")], &[&silent]);
    assert_eq!((Performance(pair.caller()).isa(), transactions(&pair)), (ALL, (0, 0, 20)));
    // Also where it is the <send> that goes on, and where the call goes on for a while.
    let send = request("INVITE", 1, "").replace("<send>", "<send retrans=\"500\" ontimeout=\"e\">");
    let after = [label("e"), "<pause milliseconds=\"5000\"/>".to_owned()].concat();
    let pair = play(&[&send, &recv("response=\"200\""), &after], &[&silent]);
    assert_eq!((Performance(pair.caller()).isa(), transactions(&pair)), (ALL, (0, 0, 20)));
}

#[test]
fn an_invite_that_is_answered_after_all_has_not_timed_out() {
    // It is cancelled.
    let cancels = [
        &label("c"),
        &request("CANCEL", 1, "")[..],
        &recv("response=\"200\""),
        &recv("response=\"487\""),
        &request("ACK", 1, ";tag=2"),
    ];
    let cancelled = [
        &recv("request=\"INVITE\""),
        &response("180 Ringing")[..],
        &recv("request=\"CANCEL\""),
        &response("200 OK"),
        &response("487 Request Terminated").replace("[last_CSeq:]", "CSeq: 1 INVITE"),
        &recv("request=\"ACK\""),
    ];
    let waits = [request("INVITE", 1, ""), recv("response=\"180\""), patient(200, "c")].concat();
    let pair = play(&[&waits, &cancels.concat()], &cancelled);
    let p = Performance(pair.caller());
    assert_eq!((p.isa(), p.ser(), transactions(&pair)), (NONE, NONE, (40, 0, 0)), "the CANCEL is one, too");
    assert_eq!(pair.caller().all.session_finals.of(487), 20);
    // It is answered while the call does something else.
    let late = [request("INVITE", 1, ""), patient(200, "w"), label("w"), request("OPTIONS", 2, "")].concat();
    let late =
        [late, recv("response=\"200\""), recv("response=\"200\""), request("ACK", 1, ";tag=2")].concat();
    let answers = [
        recv("request=\"INVITE\""),
        recv("request=\"OPTIONS\""),
        response("200 OK"),
        "<pause milliseconds=\"300\"/>".to_owned(),
        response("200 OK").replace("[last_CSeq:]", "CSeq: 1 INVITE"),
        recv("request=\"ACK\""),
    ];
    let pair = play(&[&late], &[&answers.concat()]);
    let p = Performance(pair.caller());
    assert_eq!((p.isa(), p.ser(), transactions(&pair)), (NONE, ALL, (40, 0, 0)));
}

#[test]
fn an_invite_that_follows_one_that_was_given_up_is_another_session() {
    let caller = [
        request("INVITE", 1, ""),
        patient(200, "again"),
        label("again"),
        request("INVITE", 2, ""),
        recv("response=\"200\""),
        request("ACK", 2, ";tag=2"),
    ];
    let second =
        [recv("request=\"INVITE\""), recv("request=\"INVITE\""), response("200 OK"), recv("request=\"ACK\"")];
    let pair = play(&[&caller.concat()], &[&second.concat()]);
    let p = Performance(pair.caller());
    assert_eq!((p.isa(), p.ser()), (Ratio { part: 20, of: 40 }, Ratio { part: 20, of: 40 }));
    assert_eq!(transactions(&pair), (20, 0, 20));
    assert!(p.srd_success().max() < 100_000, "from its own beginning");
}

#[test]
fn a_bye_that_is_given_up_ends_its_session_then() {
    let caller = [
        request("INVITE", 1, ""),
        recv("response=\"200\""),
        request("ACK", 1, ";tag=2"),
        request("BYE", 2, ";tag=2"),
        patient(300, "e"),
        label("e"),
        "<pause milliseconds=\"3000\"/>".to_owned(),
    ];
    let callee = [
        recv("request=\"INVITE\""),
        response("200 OK"),
        recv("request=\"ACK\""),
        recv("request=\"BYE\""),
        LONG.to_owned(),
    ];
    let pair = play(&[&caller.concat()], &[&callee.concat()]);
    let p = Performance(pair.caller());
    assert_eq!((p.ser(), p.scr(), transactions(&pair)), (ALL, NONE, (20, 0, 20)));
    assert_eq!(
        (pair.caller().all.byes_timed_out, p.sdd_failed().count(), p.sdt_failed().count()),
        (20, 0, 20)
    );
    assert!((300_000..310_000).contains(&p.sdt_failed().max()), "{}", p.sdt_failed().max());
    // A second one may be answered.
    let again = caller.concat().replace(
        "<label",
        &format!("<label id=\"x\"/>{}<recv response=\"200\"/><label", request("BYE", 3, ";tag=2")),
    );
    let again = again.replace("ontimeout=\"e\"", "ontimeout=\"x\"");
    let answers = callee.concat().replace(LONG, &[recv("request=\"BYE\""), response("200 OK")].concat());
    let pair = play(&[&again], &[&answers]);
    assert_eq!((Performance(pair.caller()).scr(), transactions(&pair)), (ALL, (40, 0, 20)));
}

#[test]
fn an_answer_that_leads_to_unexp_main_is_one() {
    let caller = [
        request("INVITE", 1, "").replace("<send>", "<send retrans=\"500\">"),
        recv("response=\"200\""),
        label("_unexp.main"),
        "<pause milliseconds=\"5000\"/>".to_owned(),
    ];
    let pair =
        play(&[&caller.concat()], &[&recv("request=\"INVITE\""), &response("503 Service Unavailable"), LONG]);
    let p = Performance(pair.caller());
    assert_eq!((p.isa(), p.srd_failed().count(), transactions(&pair)), (ALL, 20, (0, 20, 0)));
    assert_eq!(pair.log.iter().filter(|line| line.starts_with("INVITE ")).count(), 20, "none is repeated");
}

#[test]
fn an_answer_that_is_passed_over_is_one() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |settings, _| settings.conduct.defaults.abort = false),
        engine(
            CALLEE,
            CALLER,
            &[&scene(&[&recv("request=\"INVITE\""), &response("486 Busy Here"), LONG])],
            nothing,
        ),
    );
    pair.pass(Time::from_secs(120));
    let record = pair.ends[0].1.record(pair.now).metrics;
    assert_eq!((record.all.transactions_failed, record.all.transactions_timed_out), (20, 0));
    assert_eq!(record.all.session_finals.of(486), 20);
}

#[test]
fn requests_that_are_open_at_the_same_time_all_count() {
    let both = [request("OPTIONS", 1, ""), request("INFO", 2, ""), recv("response=\"200\"")].concat();
    let answer = |method: &str| [recv(&format!("request=\"{method}\"")), response("200 OK")].concat();
    let pair = play(&[&both, &recv("response=\"200\"")], &[&answer("OPTIONS"), &answer("INFO")]);
    assert_eq!(transactions(&pair), (40, 0, 0));
    assert_eq!(pair.caller().latency(Measure::Transaction).sent.count(), 40);
    // One of them is never answered, whichever it is.
    for (first, second) in [("OPTIONS", "INFO"), ("INFO", "OPTIONS")] {
        let callee = [answer(first), recv(&format!("request=\"{second}\"")), LONG.to_owned()].concat();
        let caller = [
            request(first, 1, ""),
            request(second, 2, ""),
            recv("response=\"200\""),
            patient(500, "e"),
            label("e"),
        ];
        let pair = play(&[&caller.concat()], &[&callee]);
        assert_eq!(transactions(&pair), (20, 0, 20), "{second}");
    }
    let callee = [recv("request=\"OPTIONS\""), answer("INFO"), LONG.to_owned()].concat();
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&scene(&[&both, &recv("response=\"200\" timeout=\"500\"")])], nothing),
        engine(CALLEE, CALLER, &[&scene(&[&callee])], nothing),
    );
    pair.pass(Time::from_secs(120));
    assert_eq!((pair.ends_of(0, End::Caller), transactions(&pair)), ((0, 20), (20, 0, 20)));
    // Beyond some, the oldest has timed out.
    let many: String = (1..=20).map(|cseq| request("OPTIONS", cseq, "")).collect();
    let pair = play(&[&many], &[&recv("request=\"OPTIONS\""), LONG]);
    assert_eq!(transactions(&pair), (0, 0, 60));
}
