//! What requests within a call say for its record, and whose: a request that its sender leads elsewhere says
//! nothing.

use super::records::{after, bye, lab, one, records, text, up};
use super::*;
use call_records::Party;

const CARRIER: &str = "203.0.113.5:5060";

/// A lab with a trunk of two targets for numbers that begin with +.
fn trunk_lab(change: impl FnOnce(&mut Settings)) -> Lab {
    lab(|s| {
        let sources = ["203.0.113.5", "203.0.113.6"].map(|ip| (ip.parse().unwrap(), 32));
        let sources = sources.to_vec();
        s.trunks = vec![Trunk { sources, ..trunk(&["sip:203.0.113.5", "sip:203.0.113.6"], "+") }];
        change(s);
    })
}

/// A call of alice's that the trunk has answered: the INVITE, and the 200 that alice has. `change`: what the
/// trunk makes of its 200.
fn over_trunk(lab: &mut Lab, contact: &str, change: impl FnOnce(String) -> String) -> (Req, Sent) {
    let call = Req::new("INVITE", "sip:+4930@here.example").alice();
    let sent = lab.as_user(ALICE, "alice", &call);
    let got = sent.into_iter().find(|s| s.to() == CARRIER && s.status() == 0).expect("an INVITE");
    lab.send(CARRIER, change(got.reply(200, "b", &format!("Contact: <{contact}>\r\n"))));
    let ok = lab.sent().into_iter().find(|s| s.status() == 200).expect("a 200");
    lab.pass(1_000);
    lab.sent();
    (call, ok)
}

/// Sends a request of alice's within her call, and returns it as it left.
fn leave(lab: &mut Lab, request: &Req) -> Sent {
    let sent = lab.as_user(ALICE, "alice", request);
    let out = sent.iter().find(|s| s.status() == 0);
    out.unwrap_or_else(|| panic!("{sent:?}")).clone()
}

#[test]
fn bye_to_this_server_ends_no_record() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    let (invite, _, ok) = up(&mut lab);
    lab.pass(1_000);
    let own = Req { uri: "sip:here.example".to_owned(), ..invite.within("BYE", &ok) };
    assert_eq!(lab.ask(CAROL, own.text()).status(), 481);
    lab.pass(1_000);
    let sent = bye(&mut lab, CAROL, &invite.within("BYE", &ok));
    lab.send(BOB, sent.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Caller, Some(2_000)));
}

#[test]
fn bye_that_its_sender_leads_elsewhere_ends_no_record() {
    const ELSEWHERE: &str = "203.0.113.9:5060";
    // Route, Request-URI, where it goes, and what it is answered; 0: nothing.
    for (route, uri, place, status) in [
        ("sip:203.0.113.9;lr", "", ELSEWHERE, 200),
        ("sip:203.0.113.9;lr", "", ELSEWHERE, 481),
        ("sip:203.0.113.9;lr", "", ELSEWHERE, 0),
        ("sip:203.0.113.6;lr", "", "203.0.113.6:5060", 481),
        ("sip:203.0.113.5:9999;lr", "", "203.0.113.5:9999", 0),
        ("sip:x.example;transport=sctp;lr", "", "", 500),
        ("", "sip:gw@203.0.113.9", ELSEWHERE, 200),
        ("", "sip:gw@203.0.113.5:9999", "203.0.113.5:9999", 0),
        // The trunk's first server takes them, and knows no such callee.
        ("", "sip:other@203.0.113.5", CARRIER, 481),
        ("", "sip:gw@10.9.9.9", CARRIER, 408),
    ] {
        let mut lab = trunk_lab(|_| {});
        let begun = lab.now;
        let (call, ok) = over_trunk(&mut lab, "sip:gw@203.0.113.5", |ok| ok);
        let mut astray = call.within("BYE", &ok);
        if !route.is_empty() {
            astray = astray.line(&format!("Route: <{route}>"));
        }
        if !uri.is_empty() {
            uri.clone_into(&mut astray.uri);
        }
        let sent = lab.as_user(ALICE, "alice", &astray);
        let out = sent.iter().find(|s| s.status() == 0);
        assert_eq!(out.map_or(String::new(), Sent::to), place, "{route} {uri}: {sent:?}");
        match (out, status) {
            (Some(_), 0) => lab.pass(40_000),
            (Some(out), _) => lab.send(place, out.reply(status, "", "")),
            (None, _) => assert_eq!(statuses(&sent), [status], "{route} {uri}"),
        }
        lab.pass(1_000);
        lab.sent();
        let came = u64::try_from(lab.now.since(begun).as_millis()).unwrap();
        let sent = leave(&mut lab, &call.within("BYE", &ok));
        assert_eq!(sent.to(), CARRIER);
        lab.send(CARRIER, sent.reply(200, "", ""));
        let record = one(&lab);
        let ended = (record.ended_by, after(&record, Some(record.ended)));
        assert_eq!(ended, (Party::Caller, Some(came)), "{route} {uri} {status}");
    }
}

#[test]
fn bye_to_where_the_other_end_says_it_is_ends_the_record() {
    let beyond = |ok: String| {
        ok.replacen("Record-Route:", "Record-Route: <sip:edge.carrier.example:5070;lr>\r\nRecord-Route:", 1)
    };
    for (contact, routed, place) in [
        ("sip:gw@203.0.113.77:5080", false, "203.0.113.77:5080"),
        ("sip:gw@gw.carrier.example:5080", false, "203.0.113.80:5080"),
        ("sip:gw@203.0.113.77:5080", true, "203.0.113.80:5070"),
    ] {
        for (status, restarts) in [(200, false), (481, false), (0, false), (200, true)] {
            let mut lab = trunk_lab(|_| {});
            let (call, ok) = over_trunk(&mut lab, contact, |ok| if routed { beyond(ok) } else { ok });
            if restarts {
                lab.restart();
            }
            let mut sent = lab.as_user(ALICE, "alice", &call.within("BYE", &ok));
            if sent.iter().all(|s| s.status() > 0) {
                lab.resolve("203.0.113.80");
                sent = lab.sent();
            }
            let out = sent.iter().find(|s| s.to() == place).unwrap_or_else(|| panic!("{sent:?}"));
            match status {
                0 => lab.pass(40_000),
                _ => lab.send(place, out.reply(status, "", "")),
            }
            let record = one(&lab);
            let ended = (record.ended_by, after(&record, Some(record.ended)));
            assert_eq!(ended, (Party::Caller, Some(1_000)), "{contact} {routed} {status} {restarts}");
        }
    }
}

#[test]
fn contact_of_an_end_is_the_one_of_its_last_refresh() {
    let mut lab = trunk_lab(|_| {});
    let (call, ok) = over_trunk(&mut lab, "sip:gw@203.0.113.77", |ok| ok);
    let again = call.within("INVITE", &ok).line(&format!("Contact: <sip:alice@{ALICE}>"));
    let sent = lab.as_user(ALICE, "alice", &again);
    let got = sent.into_iter().find(|s| s.status() == 0).expect("an INVITE");
    assert_eq!(got.to(), "203.0.113.77:5060");
    lab.send("203.0.113.77:5060", got.reply(200, "", "Contact: <sip:gw@203.0.113.78>\r\n"));
    lab.sent();
    lab.pass(1_000);
    lab.sent();
    let bye = Req { uri: "sip:gw@203.0.113.78".to_owned(), ..call.within("BYE", &ok) };
    let sent = leave(&mut lab, &bye);
    assert_eq!(sent.to(), "203.0.113.78:5060");
    lab.send("203.0.113.78:5060", sent.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Caller, Some(2_000)));
}

#[test]
fn refresh_that_its_sender_leads_elsewhere_sets_no_interval() {
    let mut lab = trunk_lab(|s| s.proxy.session = Some(SessionPolicy { interval: 1_800, shortest: 120 }));
    let (call, ok) = over_trunk(&mut lab, "sip:gw@203.0.113.5", |ok| ok);
    let before = lab.report().calls[0].session;
    let again = call.within("INVITE", &ok).line(&format!("Contact: <sip:alice@{ALICE}>"));
    let sent = lab.as_user(ALICE, "alice", &again.line("Route: <sip:203.0.113.9;lr>"));
    let got = sent.into_iter().find(|s| s.status() == 0).expect("an INVITE");
    let lines = "Contact: <sip:gw@203.0.113.9>\r\nSession-Expires: 1\r\n";
    lab.send("203.0.113.9:5060", got.reply(200, "", lines));
    lab.pass(9_000);
    lab.sent();
    assert_eq!(lab.report().calls[0].session, before);
    // Nor is the accomplice the other end from here on.
    let astray = Req { uri: "sip:gw@203.0.113.9".to_owned(), ..call.within("BYE", &ok) };
    let sent = leave(&mut lab, &astray);
    lab.send("203.0.113.9:5060", sent.reply(200, "", ""));
    lab.pass(1_000);
    lab.sent();
    let sent = leave(&mut lab, &call.within("BYE", &ok));
    lab.send(CARRIER, sent.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Caller, Some(11_000)));
}

/// A request of bob's, who was called, without our token: as it left.
fn from_stubborn_bob(lab: &mut Lab, got: &Sent, method: &str, uri: Option<&str>) -> Sent {
    let mut request = from_callee(got, method, BOB, "<sip:bob@here.example>");
    request.lines = vec![format!("Contact: <sip:bob@{BOB}>")];
    if let Some(uri) = uri {
        uri.clone_into(&mut request.uri);
    }
    let sent = lab.as_user(BOB, "bob", &request);
    let out = sent.iter().find(|s| s.status() == 0);
    out.unwrap_or_else(|| panic!("{sent:?}")).clone()
}

#[test]
fn callee_that_ignores_record_route_begins_no_call() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    let (_, got, _) = up(&mut lab);
    lab.pass(1_000);
    let again = from_stubborn_bob(&mut lab, &got, "INVITE", None);
    assert_eq!(again.to(), CAROL);
    lab.send(CAROL, again.reply(200, "", &format!("Contact: <sip:carol@{CAROL}>\r\n")));
    lab.sent();
    assert_eq!(lab.report().calls.len(), 1);
    lab.pass(1_000);
    lab.sent();
    let bye = from_stubborn_bob(&mut lab, &got, "BYE", None);
    lab.send(CAROL, bye.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Callee, Some(2_000)));
    assert!(lab.report().calls.is_empty());
}

#[test]
fn callee_that_dials_within_a_call_has_a_record_of_that() {
    let mut lab = trunk_lab(|s| s.auth.in_dialog = false);
    let (invite, got, ok) = up(&mut lab);
    lab.pass(1_000);
    let other = from_stubborn_bob(&mut lab, &got, "INVITE", Some("sip:+4930@here.example"));
    assert_eq!(other.to(), CARRIER);
    lab.send(CARRIER, other.reply(200, "", "Contact: <sip:gw@203.0.113.5>\r\n"));
    lab.sent();
    lab.pass(1_000);
    lab.sent();
    let sent = bye(&mut lab, CAROL, &invite.within("BYE", &ok));
    lab.send(BOB, sent.reply(200, "", ""));
    let all = records(&lab);
    let trunks: Vec<_> = all.iter().map(|record| text(&record.callee.trunk)).collect();
    assert_eq!(trunks, ["", "carrier"]);
    assert_eq!(after(&all[0], Some(all[0].ended)), Some(2_000));
}

#[test]
fn bye_of_a_callee_to_another_user_ends_no_record() {
    let mut lab = lab(|s| s.auth.in_dialog = false);
    lab.bind("dave", "<sip:dave@192.0.2.40>", udp("192.0.2.40:5060"));
    let (invite, got, ok) = up(&mut lab);
    lab.pass(1_000);
    let astray = from_stubborn_bob(&mut lab, &got, "BYE", Some("sip:dave@here.example"));
    assert_eq!(astray.to(), "192.0.2.40:5060");
    lab.send("192.0.2.40:5060", astray.reply(200, "", ""));
    lab.sent();
    lab.pass(1_000);
    let sent = bye(&mut lab, CAROL, &invite.within("BYE", &ok));
    lab.send(BOB, sent.reply(200, "", ""));
    let record = one(&lab);
    assert_eq!((record.ended_by, after(&record, Some(record.ended))), (Party::Caller, Some(2_000)));
}
