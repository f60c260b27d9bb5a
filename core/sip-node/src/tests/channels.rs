//! Channels and calls a second of trunks, and targets with weights.

use super::emergency::{help, to};
use super::*;
use number_routes::{Builder, Digits, Way};
use sip_health::LineStanding;

const CARRIER: &str = "203.0.113.5:5060";
const BACKUP: &str = "203.0.113.6:5060";
const SECOND: &str = "198.18.0.7:5060";

/// A lab whose first trunk, of two targets, has these limits.
fn lab(channels: u32, calls_per_second: u32, change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        let limits = LineLimits { channels, calls_per_second };
        s.trunks.push(Trunk { limits, ..trunk(&["sip:203.0.113.5", "sip:203.0.113.6"], "+49") });
        change(s);
    });
    lab.phones(&[BOB]);
    lab
}

fn number_of(user: &str) -> Req {
    Req::new("INVITE", &format!("sip:{user}@here.example")).alice()
}

fn standing(lab: &Lab, at: usize) -> LineStanding {
    lab.settings.trunks[at].line.as_ref().unwrap().standing(lab.now)
}

fn in_use(lab: &Lab) -> u32 {
    standing(lab, 0).calls
}

/// A call of alice's to the carrier, which has got it.
#[track_caller]
fn begin(lab: &mut Lab) -> (Req, Sent) {
    let invite = number_of("+4940555");
    let got = lab.invite(ALICE, invite.text()).remove(0);
    assert_eq!(got.to(), CARRIER);
    (invite, got)
}

/// The same, answered by the carrier: the 200 that alice gets.
#[track_caller]
fn call(lab: &mut Lab) -> (Req, Sent, Sent) {
    let (invite, got) = begin(lab);
    lab.send(CARRIER, got.accept("b"));
    let ok = lab.one();
    assert_eq!(ok.status(), 200);
    (invite, got, ok)
}

/// The final response to a call of alice's, and its Warning.
fn refused(lab: &mut Lab) -> (u16, String) {
    lab.send(ALICE, number_of("+4940555").text());
    let sent = lab.sent();
    assert!(requests(&sent).is_empty(), "{sent:#?}");
    let last = sent.last().expect("an answer");
    (last.status(), last.get("Warning").unwrap_or("").to_owned())
}

#[test]
fn call_without_a_free_channel_is_503_with_a_warning() {
    let mut lab = lab(2, 0, |_| {});
    let (_, first) = begin(&mut lab);
    call(&mut lab);
    assert_eq!(in_use(&lab), 2);
    let warning = "399 proxy \"All channels of the trunk are in use\"".to_owned();
    assert_eq!(refused(&mut lab), (503, warning));
    assert_eq!(*lab.world.news.borrow(), ["full carrier Channels 2 0"]);
    assert_eq!((in_use(&lab), standing(&lab, 0).no_channel), (2, 1), "once for both targets");
    lab.send(CARRIER, first.reply(486, "b", ""));
    lab.sent();
    assert_eq!(in_use(&lab), 1);
    call(&mut lab);
    assert_eq!(in_use(&lab), 2);
    assert_eq!((standing(&lab, 0).attempts, standing(&lab, 0).answered), (3, 2));
}

#[test]
fn further_target_of_a_trunk_takes_no_second_channel() {
    let mut lab = lab(1, 0, |_| {});
    let (_, got) = begin(&mut lab);
    lab.send(CARRIER, got.reply(503, "b", ""));
    let sent = lab.sent();
    let second = sent.iter().find(|s| s.to() == BACKUP).expect("the second target is called");
    assert_eq!((in_use(&lab), standing(&lab, 0).attempts), (1, 1));
    lab.send(BACKUP, second.accept("b"));
    assert_eq!(statuses(&lab.sent()), [200]);
    assert_eq!((in_use(&lab), standing(&lab, 0).answered), (1, 1));
}

#[test]
fn full_trunk_is_skipped_for_the_next_of_the_route_table() {
    let mut lab = lab(1, 0, |s| {
        let second = trunk(&["sip:198.18.0.7"], "+");
        let sources = vec![("198.18.0.7".parse().unwrap(), 32)];
        s.trunks.push(Trunk { name: b"second".to_vec(), prefixes: Vec::new(), sources, ..second });
    });
    let mut builder = Builder::new(vec![b"carrier".to_vec(), b"second".to_vec()]);
    for trunk in 0..2 {
        let way = Way { trunk, priority: trunk, cost: 0, line: 2 + u32::from(trunk) };
        builder.add(Digits::parse(b"+4940").unwrap(), way).unwrap();
    }
    let table = Arc::new(builder.finish(1).unwrap());
    lab.notice(Notice::Renewed(Arc::new(lab.settings.clone()), table));
    let (_, first) = begin(&mut lab);
    let got = lab.invite(ALICE, number_of("+4940555").text()).remove(0);
    assert_eq!((got.to().as_str(), in_use(&lab), standing(&lab, 1).calls), (SECOND, 1, 1));
    // A trunk that was given up has its channel back before the call is over.
    lab.send(CARRIER, first.reply(503, "b", ""));
    let sent = lab.sent();
    let backup = sent.iter().find(|s| s.to() == BACKUP).expect("the second target is called").clone();
    lab.send(BACKUP, backup.reply(503, "b", ""));
    let sent = lab.sent();
    assert!(sent.iter().any(|s| s.to() == SECOND && s.method() == "INVITE"), "{sent:#?}");
    assert_eq!((in_use(&lab), standing(&lab, 1).calls), (0, 2));
}

/// Ends a call that alice has begun, or that was answered.
type Ending = fn(&mut Lab);

#[test]
fn channel_is_given_back_however_a_call_ends() {
    let endings: [(&str, Ending); 9] = [
        ("refused", |lab| {
            let (_, got) = begin(lab);
            lab.send(CARRIER, got.reply(486, "b", ""));
        }),
        ("cancelled", |lab| {
            let (invite, got) = begin(lab);
            lab.send(CARRIER, got.reply(180, "b", ""));
            lab.send(ALICE, invite.cancel().text());
            assert_eq!(in_use(lab), 1, "the carrier has not said so yet");
            lab.send(CARRIER, got.reply(487, "b", ""));
        }),
        ("silent", |lab| {
            begin(lab);
            lab.pass(60_000);
        }),
        ("unreachable", |lab| {
            let (_, got) = begin(lab);
            lab.undeliverable(&got);
            let sent = lab.sent();
            let second = sent.iter().find(|s| s.to() == BACKUP).expect("a second target").clone();
            lab.undeliverable(&second);
        }),
        ("rings for ever", |lab| {
            let (_, got) = begin(lab);
            lab.send(CARRIER, got.reply(180, "b", ""));
            lab.pass(300_000);
        }),
        ("ended by the caller", |lab| {
            let (invite, _, ok) = call(lab);
            let bye = lab.ask(ALICE, invite.within("BYE", &ok).text());
            lab.send(CARRIER, bye.reply(200, "", ""));
        }),
        ("ended by the carrier", |lab| {
            let (invite, got, _) = call(lab);
            let bye = lab.ask(CARRIER, from_callee(&got, "BYE", CARRIER, &invite.to).text());
            lab.send(ALICE, bye.reply(200, "", ""));
        }),
        ("its BYE is not answered", |lab| {
            let (invite, _, ok) = call(lab);
            lab.ask(ALICE, invite.within("BYE", &ok).text());
            lab.pass(60_000);
        }),
        ("forgotten", |lab| {
            call(lab);
            lab.pass(3 * 86_400_000);
        }),
    ];
    for (name, ending) in endings {
        let mut lab = lab(1, 0, |_| {});
        ending(&mut lab);
        lab.sent();
        assert_eq!(in_use(&lab), 0, "{name}");
        assert_eq!(lab.report().call_count, 0, "{name}");
        lab.rest();
    }
}

#[test]
fn call_whose_session_is_over_gives_its_channel_back() {
    let mut lab = lab(1, 0, |s| {
        s.proxy.session = Some(SessionPolicy { interval: 1_800, shortest: 120 });
        s.auth.in_dialog = false;
    });
    let invite = number_of("+4940555").line("Supported: timer");
    let got = lab.invite(ALICE, invite.text()).remove(0);
    lab.send(CARRIER, got.accept("b"));
    let ok = lab.one();
    lab.pass(1_700_000);
    assert_eq!(in_use(&lab), 1);
    lab.pass(110_000);
    assert_eq!((in_use(&lab), lab.report().call_count), (0, 1), "the call itself is known");
    // It was not lost after all: its refresh came late.
    lab.sent();
    let refresh = lab.ask(ALICE, invite.within("UPDATE", &ok).text());
    lab.send(CARRIER, refresh.reply(200, "", ""));
    assert_eq!(in_use(&lab), 1);
}

#[test]
fn call_from_before_a_restart_takes_its_channel_again() {
    let mut lab = lab(1, 0, |s| s.auth.in_dialog = false);
    let (invite, _, ok) = call(&mut lab);
    lab.restart();
    assert_eq!(in_use(&lab), 0, "what the process held is gone with it");
    let refresh = lab.ask(ALICE, invite.within("UPDATE", &ok).text());
    lab.send(CARRIER, refresh.reply(200, "", ""));
    lab.sent();
    assert_eq!(in_use(&lab), 1);
    let (status, _) = refused(&mut lab);
    assert_eq!(status, 503);
    let bye = Req { cseq: 9, ..invite.within("BYE", &ok) };
    let bye = lab.ask(ALICE, bye.text());
    lab.send(CARRIER, bye.reply(200, "", ""));
    assert_eq!(in_use(&lab), 0);
}

#[test]
fn call_of_a_trunk_without_a_free_channel_is_busy() {
    let mut lab = lab(1, 0, |_| {});
    let inbound = || Req::invite().sent_by("UDP", CARRIER);
    let first = inbound();
    let got = lab.invite(CARRIER, first.text()).remove(0);
    assert_eq!((got.to().as_str(), in_use(&lab)), (BOB, 1));
    let second = inbound();
    let busy = lab.ask(CARRIER, second.text());
    let warning = Some("399 proxy \"All channels of the trunk are in use\"");
    assert_eq!((busy.status(), busy.get("Warning")), (486, warning));
    lab.send(CARRIER, second.ack(&busy).text());
    lab.silent();
    // Nor does the trunk get a call.
    assert_eq!(refused(&mut lab).0, 503);
    lab.send(BOB, got.accept("b"));
    let ok = lab.one();
    assert_eq!(in_use(&lab), 1);
    let bye = lab.ask(CARRIER, first.within("BYE", &ok).text());
    lab.send(BOB, bye.reply(200, "", ""));
    assert_eq!((in_use(&lab), standing(&lab, 0).attempts), (0, 0), "what comes from it is no attempt");
    lab.sent();
    begin(&mut lab);
}

#[test]
fn emergency_calls_count_and_are_never_refused() {
    let mut lab = lab(1, 1, |s| {
        s.emergency = Some(Emergency { targets: vec![b"sip:203.0.113.5".to_vec()], ..help() });
        s.trunks.push(Trunk {
            name: b"pbx".to_vec(),
            sources: vec![("198.18.0.7".parse().unwrap(), 32)],
            limits: LineLimits { channels: 1, calls_per_second: 1 },
            prefixes: Vec::new(),
            ..trunk(&["sip:198.18.0.7"], "+")
        });
    });
    begin(&mut lab);
    for calls in 2..4 {
        let got = lab.invite(ALICE, to("INVITE", "sip:112@here.example").alice().text()).remove(0);
        assert_eq!((got.to().as_str(), in_use(&lab)), (CARRIER, calls));
    }
    // Likewise from a trunk that has no further channel.
    lab.invite(SECOND, Req::invite().sent_by("UDP", SECOND).text());
    assert_eq!(lab.ask(SECOND, Req::invite().sent_by("UDP", SECOND).text()).status(), 486);
    let got =
        lab.invite(SECOND, to("INVITE", "sip:112@here.example").sent_by("UDP", SECOND).text()).remove(0);
    assert_eq!((got.to().as_str(), standing(&lab, 1).calls), (CARRIER, 2));
    lab.rest();
}

#[test]
fn route_to_a_target_of_a_trunk_takes_its_channel() {
    let mut lab = lab(1, 0, |s| {
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"frontdesk".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(vec![b"sip:100@203.0.113.5".to_vec()]),
        });
    });
    let got = lab.invite(ALICE, number_of("frontdesk").text()).remove(0);
    assert_eq!((got.to().as_str(), in_use(&lab)), (CARRIER, 1));
    lab.send(CARRIER, got.reply(404, "b", ""));
    lab.sent();
    assert_eq!(in_use(&lab), 0);
}

#[test]
fn calls_beyond_the_rate_are_503_until_the_next_token() {
    let mut lab = lab(0, 2, |_| {});
    begin(&mut lab);
    begin(&mut lab);
    let warning = "399 proxy \"The trunk gets no more calls in this second\"".to_owned();
    assert_eq!(refused(&mut lab), (503, warning));
    assert_eq!(*lab.world.news.borrow(), ["full carrier Rate 0 2"]);
    lab.pass(501);
    lab.sent();
    begin(&mut lab);
    assert_eq!(refused(&mut lab).0, 503);
    let standing = standing(&lab, 0);
    assert_eq!((standing.no_rate, standing.full.map(|(why, _)| why)), (2, Some(LineFull::Rate)));
}

#[test]
fn calls_within_a_dialog_take_no_channel_and_no_token() {
    let mut lab = lab(1, 1, |s| s.auth.in_dialog = false);
    let (invite, _, ok) = call(&mut lab);
    for cseq in 10..15 {
        let again = Req { cseq, ..invite.within("INVITE", &ok) };
        let got = lab.invite(ALICE, again.text()).remove(0);
        lab.send(CARRIER, got.reply(200, "", "Contact: <sip:bob@203.0.113.5:5060>\r\n"));
        assert_eq!(statuses(&lab.sent()), [200]);
    }
    assert_eq!((in_use(&lab), standing(&lab, 0).attempts), (1, 1));
}

#[test]
fn reload_keeps_the_calls_of_a_trunk() {
    let mut lab = lab(2, 0, |_| {});
    begin(&mut lab);
    lab.reconfigure(|s| s.trunks[0].limits.channels = 1);
    assert_eq!((in_use(&lab), refused(&mut lab).0), (1, 503));
    lab.reconfigure(|s| s.trunks[0].limits.channels = 0);
    begin(&mut lab);
    assert_eq!(in_use(&lab), 2);
}

/// The first targets of calls, to a trunk whose targets have these priorities and weights.
fn drawn(weights: &[(u16, u16)], calls: usize) -> Vec<usize> {
    let hosts: Vec<String> = (0..weights.len()).map(|n| format!("203.0.113.{}", 5 + n)).collect();
    let mut lab = lab(0, 0, |s| {
        s.trunks[0].targets = hosts.iter().map(|host| format!("sip:{host}").into_bytes()).collect();
        s.trunks[0].weights = weights.to_vec();
    });
    let mut first = Vec::new();
    for _ in 0..calls {
        let got = lab.invite(ALICE, number_of("+4940555").text()).remove(0);
        lab.send(&got.to(), got.reply(486, "b", ""));
        lab.sent();
        lab.pass(1_000);
        lab.sent();
        first.extend(hosts.iter().position(|host| got.to() == format!("{host}:5060")));
    }
    first
}

#[test]
fn weights_share_calls_among_targets_of_one_priority() {
    let first = drawn(&[(1, 30), (2, 100), (1, 70)], 500);
    let of = |target: usize| first.iter().filter(|first| **first == target).count();
    assert_eq!((first.len(), of(1)), (500, 0), "another priority");
    assert!((110..190).contains(&of(0)), "{}", of(0));
    assert_eq!(first, drawn(&[(1, 30), (2, 100), (1, 70)], 500), "the same seed gives the same order");
}

#[test]
fn targets_of_a_lower_priority_are_tried_when_others_fail() {
    let mut lab = lab(0, 0, |s| s.trunks[0].weights = vec![(2, 1), (1, 1)]);
    let got = lab.invite(ALICE, number_of("+4940555").text()).remove(0);
    assert_eq!(got.to(), BACKUP);
    lab.send(BACKUP, got.reply(503, "b", ""));
    let sent = lab.sent();
    assert!(sent.iter().any(|s| s.to() == CARRIER && s.method() == "INVITE"), "{sent:#?}");
}
