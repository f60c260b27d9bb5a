//! Numbers as they are dialled, as they are looked up, and as a trunk gets them.

use super::*;
use ::call_rules::{NumberFormat, NumberPlan, PlanParts};

const CARRIER: &str = "203.0.113.5:5060";

fn plan(country: &str, area: &str, format: Option<NumberFormat>) -> Option<NumberPlan> {
    let national = ["0".to_owned()];
    let parts = PlanParts { country, national: &national, international: "00", area, short: 6, format };
    Some(NumberPlan::new(&parts).expect("a good plan"))
}

/// A server in Berlin, with a trunk for all numbers that writes them in this format.
fn lab(format: Option<NumberFormat>, change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.auth.enabled = false;
        let numbers = plan("49", "", format);
        s.trunks.push(Trunk { numbers, ..trunk(&["sip:203.0.113.5"], "+") });
        let name = b"here.example".to_vec();
        s.domain_rules.push(Domain { name, numbers: plan("49", "30", None), ..Domain::default() });
        change(s);
    })
}

fn dial(lab: &mut Lab, number: &str) -> String {
    let call = Req::new("INVITE", &format!("sip:{number}@here.example")).alice();
    lab.invite(ALICE, call.text()).remove(0).uri().to_owned()
}

#[test]
fn dialled_number_finds_the_trunk_in_its_format() {
    for (format, own, foreign) in [
        (None, "+493012345", "+43112345"),
        (Some(NumberFormat::E164Plus), "+493012345", "+43112345"),
        (Some(NumberFormat::E164), "493012345", "43112345"),
        (Some(NumberFormat::National), "03012345", "0043112345"),
        (Some(NumberFormat::International), "00493012345", "0043112345"),
    ] {
        let mut lab = lab(format, |_| {});
        for dialled in ["03012345", "00493012345", "+493012345"] {
            assert_eq!(dial(&mut lab, dialled), format!("sip:{own}@203.0.113.5"), "{dialled}");
        }
        assert_eq!(dial(&mut lab, "0043112345"), format!("sip:{foreign}@203.0.113.5"));
        let mut tel = Req::new("INVITE", "tel:x").alice();
        tel.uri = "tel:030-12-345".to_owned();
        assert_eq!(lab.invite(ALICE, tel.text())[0].uri(), format!("sip:{own}@203.0.113.5"));
        let call = Req::new("INVITE", "sip:116117@here.example").alice();
        assert_eq!(lab.ask(ALICE, call.text()).status(), 404, "no prefix of a trunk");
    }
    let mut lab = lab(Some(NumberFormat::National), |_| {});
    assert_eq!(dial(&mut lab, "1234567"), "sip:0301234567@203.0.113.5", "in the same area");
}

#[test]
fn number_of_our_own_user_is_found_however_it_is_dialled() {
    let mut lab = lab(Some(NumberFormat::E164), |s| {
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"+49301234500".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(vec![b"sip:bob@here.example".to_vec()]),
        });
    });
    lab.phones(&[BOB]);
    lab.bind("+49301234511", &format!("<sip:x@{BOB2}>"), udp(BOB2));
    for (dialled, phone) in
        [("0301234500", BOB), ("1234500", BOB), ("0301234511", BOB2), ("+49301234511", BOB2)]
    {
        let call = Req::new("INVITE", &format!("sip:{dialled}@here.example"));
        assert_eq!(lab.invite(ALICE, call.clone().alice().text())[0].to(), phone, "{dialled}");
    }
    // As the trunk writes them, and as it does not.
    for (dialled, status) in
        [("49301234500", 100), ("0301234511", 100), ("00493012345", 404), ("1234500", 404)]
    {
        let call = Req::new("INVITE", &format!("sip:{dialled}@here.example")).sent_by("UDP", CARRIER);
        lab.send(CARRIER, call.text());
        assert_eq!(statuses(&lab.sent()), [status], "{dialled}");
    }
}

#[test]
fn user_of_the_very_name_and_emergency_numbers_stay() {
    let mut lab = lab(None, |s| {
        let targets = vec![b"sip:203.0.113.110".to_vec()];
        let numbers = vec![b"1100000".to_vec()];
        s.emergency = Some(Emergency { targets, numbers, ..Emergency::default() });
    });
    assert_eq!(dial(&mut lab, "1100000"), "sip:1100000@203.0.113.110");
    assert_eq!(dial(&mut lab, "1100001"), "sip:+49301100001@203.0.113.5");
    lab.world.users.borrow_mut().push(("1100001", "here.example", "secret"));
    lab.bind("1100001", &format!("<sip:x@{BOB}>"), udp(BOB));
    assert_eq!(dial(&mut lab, "1100001"), format!("sip:x@{BOB}"));
}

#[test]
fn voicemail_is_that_of_the_user_who_is_meant() {
    let mut lab = lab(None, |s| {
        s.voicemail = Some(Voicemail { uri: b"sip:192.0.2.50".to_vec(), ..Voicemail::default() })
    });
    lab.reconfigure(|s| s.auth.enabled = true);
    lab.world.users.borrow_mut().push(("+49301234522", "here.example", "secret"));
    let call = Req::new("INVITE", "sip:0301234522@here.example");
    let sent = lab.invite(CAROL, call.text()).remove(0);
    assert_eq!(sent.to(), "192.0.2.50:5060", "{}", sent.text);
}

#[test]
fn digits_that_the_trunk_strips_are_gone_before_its_format() {
    let mut lab = lab(Some(NumberFormat::E164), |s| {
        (s.trunks[0].prefixes, s.trunks[0].strip) = (vec![b"9".to_vec()], 1);
        s.domain_rules.clear();
    });
    assert_eq!(dial(&mut lab, "903012345"), "sip:493012345@203.0.113.5");
    assert_eq!(dial(&mut lab, "9112"), "sip:112@203.0.113.5");
    let mut lab =
        self::lab(Some(NumberFormat::National), |s| s.trunks[0].domains = vec![b"carrier.example".to_vec()]);
    let call = Req::new("INVITE", "sip:+493012345@carrier.example").alice();
    assert_eq!(lab.invite(ALICE, call.text())[0].uri(), "sip:03012345@carrier.example");
}
