//! Targets that leave requests without a response: the next one in time, marks, probes, and what is reported.

use super::*;
use sip_proxy::locate::Kind;

const FIRST: &str = "203.0.113.5:5060";
const SECOND: &str = "203.0.113.6:5060";

/// A lab with one trunk of two targets for numbers that begin with +49.
fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(trunk(&["sip:203.0.113.5", "sip:203.0.113.6"], "+49"));
        change(s);
    })
}

fn number() -> Req {
    Req::new("INVITE", "sip:+4940555@here.example").alice()
}

/// The addresses to which requests of this method went.
fn went(sent: &[Sent], method: &str) -> Vec<String> {
    requests(sent).into_iter().filter(|(m, _)| m == method).map(|(_, to)| to).collect()
}

impl Lab {
    /// What was reported about targets since the last call.
    fn news(&self) -> Vec<String> {
        std::mem::take(&mut *self.world.news.borrow_mut())
    }

    /// Lets time pass; answers no probe.
    fn later(&mut self, millis: u64) -> Vec<Sent> {
        self.pass(millis);
        self.sent()
    }

    /// A call that the first target leaves without a response, until the second one is tried.
    fn lost_call(&mut self) -> (Sent, Sent) {
        let first = self.invite(ALICE, number().text()).remove(0);
        assert_eq!(first.to(), FIRST);
        let sent = self.later(2_010);
        let second = sent.iter().find(|s| s.to() == SECOND).unwrap_or_else(|| panic!("{sent:?}")).clone();
        self.send(SECOND, second.reply(100, "", ""));
        (first, second)
    }
}

#[test]
fn silent_target_gives_way_after_silent_after() {
    let mut lab = lab(|_| {});
    let first = lab.invite(ALICE, number().text()).remove(0);
    assert_eq!(went(&lab.later(1_900), "INVITE"), [FIRST, FIRST], "repeated at 0.5 and 1.5 s only");
    let sent = lab.later(110);
    assert_eq!(went(&sent, "INVITE"), [SECOND]);
    assert!(statuses(&sent).is_empty());
    assert_eq!(lab.news(), ["lost sip:203.0.113.5 203.0.113.5:5060 Silent"]);
    assert_eq!(lab.count(Counter::TargetSilent), 1);
    // The following calls go to the second target at once.
    let second = sent.into_iter().find(|s| s.to() == SECOND).unwrap();
    lab.send(SECOND, second.accept("x"));
    assert_eq!(statuses(&lab.sent()), [200]);
    assert_eq!(lab.invite(ALICE, number().text())[0].to(), SECOND);
    let _ = first;
}

#[test]
fn late_provisional_of_a_left_target_is_cancelled() {
    let mut lab = lab(|_| {});
    let (first, second) = lab.lost_call();
    lab.send(FIRST, first.reply(180, "f", ""));
    let sent = lab.sent();
    assert_eq!(went(&sent, "CANCEL"), [FIRST]);
    assert!(statuses(&sent).is_empty(), "its ringing is not shown");
    lab.send(FIRST, first.reply(487, "f", ""));
    lab.send(SECOND, second.accept("s"));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn late_2xx_of_a_left_target_reaches_the_caller() {
    // While the second target is tried, when it has answered, and when it has failed.
    for when in ["during", "answered", "failed"] {
        let mut lab = lab(|_| {});
        let (first, second) = lab.lost_call();
        match when {
            "answered" => lab.send(SECOND, second.accept("s")),
            "failed" => lab.send(SECOND, second.reply(486, "s", "")),
            _ => {}
        }
        lab.sent();
        lab.send(FIRST, first.accept("f"));
        let sent = lab.sent();
        assert!(statuses(&sent).contains(&200), "{when}: {sent:?}");
    }
}

#[test]
fn a_100_is_a_response() {
    let mut lab = lab(|_| {});
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.send(FIRST, first.reply(100, "", ""));
    assert!(went(&lab.later(30_000), "INVITE").is_empty());
    assert!(lab.news().is_empty());
}

#[test]
fn marked_target_is_probed_until_it_answers() {
    let mut lab = lab(|_| {});
    lab.lost_call();
    lab.news();
    let sent = lab.later(6_000);
    let probes = went(&sent, "OPTIONS");
    assert!(probes.len() >= 3 && probes.iter().all(|to| to == FIRST), "{probes:?}");
    let probe = sent.iter().rev().find(|s| s.method() == "OPTIONS").unwrap();
    assert_eq!(probe.uri(), "sip:203.0.113.5");
    let gateway = lab.settings.gateways.get(b"sip:203.0.113.5").unwrap().standing();
    assert_eq!((gateway.why.text(), gateway.calls, gateway.failures), ("probes are not answered", 1, 1));
    let sent = lab.later(2_000);
    let probe = sent.iter().rev().find(|s| s.method() == "OPTIONS").unwrap().clone();
    // Whoever says no answers, too.
    lab.send(FIRST, probe.reply(404, "x", ""));
    assert_eq!(lab.news(), ["back sip:203.0.113.5 203.0.113.5:5060"]);
    assert!(went(&lab.later(10_000), "OPTIONS").is_empty());
    assert_eq!(lab.invite(ALICE, number().text())[0].to(), FIRST);
}

#[test]
fn unreachable_target_is_marked_and_tried_last() {
    let mut lab = lab(|_| {});
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.undeliverable(&first);
    assert_eq!(lab.one().to(), SECOND);
    assert_eq!(lab.news(), ["lost sip:203.0.113.5 203.0.113.5:5060 Unreachable"]);
    assert_eq!(lab.invite(ALICE, number().text())[0].to(), SECOND);
}

#[test]
fn lone_silent_target_has_the_time_of_timer_b_once() {
    let mut lab = lab(|s| s.trunks[0].targets.truncate(1));
    let first = lab.invite(ALICE, number().text()).remove(0);
    assert!(statuses(&lab.later(20_000)).is_empty());
    // It is slow, not dead.
    lab.send(FIRST, first.accept("x"));
    assert_eq!(statuses(&lab.sent()), [200]);
    lab.invite(ALICE, number().text());
    assert_eq!(statuses(&lab.later(32_300)), [408]);
    // Known not to answer: the caller waits for silent_after, not for timer B.
    lab.pass(40_000);
    lab.sent();
    lab.invite(ALICE, number().text());
    assert_eq!(statuses(&lab.later(2_010)), [408]);
}

#[test]
fn silent_emergency_target_gives_way_after_a_second() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.emergency = Some(Emergency { strangers: true, ..emergency::help() });
    });
    let call = || Req::new("INVITE", "sip:112@here.example").text();
    let first = lab.invite(CAROL, call()).remove(0);
    assert_eq!(first.to(), "203.0.113.110:5060");
    assert_eq!(went(&lab.later(1_010), "INVITE"), ["203.0.113.110:5060", "203.0.113.111:5060"]);
    assert_eq!(lab.invite(CAROL, call())[0].to(), "203.0.113.111:5060");
}

#[test]
fn silent_route_target_gives_way() {
    let route = Route {
        domain: None,
        prefix: Some(b"9".to_vec()),
        user: None,
        silent_after_ms: 700,
        action: RouteAction::Forward(
            [&b"sip:203.0.113.20"[..], b"sip:203.0.113.21"].map(<[u8]>::to_vec).to_vec(),
        ),
    };
    let mut lab = lab(|s| s.routes.push(route));
    let call = || Req::new("INVITE", "sip:9@here.example").alice().text();
    lab.invite(ALICE, call());
    assert!(went(&lab.later(710), "INVITE").contains(&"203.0.113.21:5060".to_owned()));
    assert_eq!(lab.invite(ALICE, call())[0].to(), "203.0.113.21:5060");
}

#[test]
fn silent_address_of_a_name_is_tried_last() {
    let mut lab = lab(|s| s.trunks[0].targets = vec![b"sip:carrier.example".to_vec()]);
    let resolve = |lab: &mut Lab| {
        lab.resolve_with(|q| match (q.kind, &*q.name) {
            (Kind::A, b"carrier.example") => {
                Answer::A(Box::new(["203.0.113.5".parse().unwrap(), "203.0.113.6".parse().unwrap()]))
            }
            _ => Answer::Nothing,
        });
    };
    lab.invite(ALICE, number().text());
    resolve(&mut lab);
    let first = lab.one();
    let sent = lab.later(2_010);
    let second = sent.iter().find(|s| s.method() == "INVITE" && s.to() != first.to()).unwrap();
    assert_eq!(went(&lab.invite(ALICE, number().text()), "INVITE"), [second.to()]);
}

#[test]
fn silent_request_other_than_invite_waits_for_five_seconds() {
    let mut lab = lab(|_| {});
    lab.send(ALICE, Req::new("MESSAGE", "sip:+4940555@here.example").alice().text());
    // RFC 4320: the target may say nothing for 4 s.
    assert!(went(&lab.later(4_900), "MESSAGE").iter().all(|to| to == FIRST));
    let sent = lab.later(110);
    assert!(went(&sent, "MESSAGE").contains(&SECOND.to_owned()), "{sent:?}");
    assert!(went(&sent, "CANCEL").is_empty());
    let second = sent.iter().find(|s| s.to() == SECOND).unwrap();
    lab.send(SECOND, second.reply(200, "x", ""));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn marks_survive_a_reload_and_go_with_their_target() {
    let mut lab = lab(|_| {});
    lab.lost_call();
    lab.reconfigure(|s| s.trunks[0].prefixes.push(b"+44".to_vec()));
    assert_eq!(lab.invite(ALICE, number().text())[0].to(), SECOND);
    lab.reconfigure(|s| s.trunks[0].targets = vec![b"sip:203.0.113.6".to_vec()]);
    assert!(!went(&lab.later(10_000), "OPTIONS").contains(&FIRST.to_owned()));
}

#[test]
fn all_targets_dead_is_500_with_a_warning_and_told() {
    let mut lab = lab(|_| {});
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.undeliverable(&first);
    let second = lab.one();
    lab.news();
    lab.send(SECOND, second.reply(503, "x", "Retry-After: 30\r\n"));
    let sent = lab.sent();
    let answer = sent.iter().find(|s| s.status() == 500).unwrap();
    assert_eq!(answer.get("Warning"), Some("399 proxy \"No target answered\""));
    assert!(answer.get("Retry-After").is_none() && !answer.text.contains("203.0.113"));
    assert_eq!(lab.news(), ["trunk carrier 500: sip:203.0.113.5 sip:203.0.113.6"]);
}

#[test]
fn a_call_that_rang_too_long_is_not_told_as_lost() {
    let mut lab = lab(|s| s.trunks[0].targets.truncate(1));
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.send(FIRST, first.reply(180, "x", ""));
    let sent = lab.later(300_000);
    assert!(sent.iter().all(|s| !s.text.contains("Warning")), "{sent:?}");
    assert!(lab.news().is_empty());
}

#[test]
fn a_call_keeps_the_trunk_it_began_with_over_a_reload() {
    let mut lab = lab(|s| s.trunks[0].retry_on = vec![486]);
    let first = lab.invite(ALICE, number().text()).remove(0);
    // Another trunk takes its place in the list.
    lab.reconfigure(|s| s.trunks.insert(0, trunk(&["sip:203.0.113.99"], "+1")));
    lab.send(FIRST, first.reply(486, "x", ""));
    assert_eq!(went(&lab.sent(), "INVITE"), [SECOND]);
    let mut lab =
        self::lab(|s| s.trunks.push(Trunk { retry_on: vec![486], ..trunk(&["sip:203.0.113.99"], "+1") }));
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.reconfigure(|s| s.trunks.swap(0, 1));
    lab.send(FIRST, first.reply(486, "x", ""));
    assert_eq!(statuses(&lab.sent()), [486], "the other trunk's reason does not count");
}
