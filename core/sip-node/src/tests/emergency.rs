//! Calls for help: where they go, who may call, and what does not touch them (RFC 5031).

use super::*;
use sip_proxy::context::Reroute;

const HELP: &str = "203.0.113.110:5060";
const SECOND: &str = "203.0.113.111:5060";
const CARRIER: &str = "198.51.100.200:5060";

/// Where the server of [`Lab`] sends calls for help.
pub(crate) fn help() -> Emergency {
    Emergency {
        targets: [&b"sip:203.0.113.110"[..], b"sip:203.0.113.111"].map(<[u8]>::to_vec).to_vec(),
        numbers: [&b"112"[..], b"+112"].map(<[u8]>::to_vec).to_vec(),
        ..Emergency::default()
    }
}

fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = Lab::with(|s| {
        s.emergency = Some(help());
        change(s);
    });
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    lab
}

/// A request to this URI, from nobody in particular.
pub(crate) fn to(method: &str, uri: &str) -> Req {
    let mut req = Req::new(method, "sip:x@here.example");
    (req.uri, req.to) = (uri.to_owned(), format!("<{uri}>"));
    req
}

/// The one request that left behind a 100.
#[track_caller]
fn left(lab: &mut Lab, from: &str, req: &Req) -> Sent {
    let mut sent = lab.invite(from, req.text());
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

#[test]
fn a_phone_of_ours_reaches_help_by_name_and_by_number_without_a_password() {
    let mut lab = lab(|_| {});
    for (uri, at_the_target) in [
        ("urn:service:sos", "urn:service:sos"),
        ("URN:service:SOS.police", "URN:service:SOS.police"),
        ("sip:112@here.example", "sip:112@203.0.113.110"),
        ("sip:112;phone-context=+49@here.example;user=dialstring", "sip:112@203.0.113.110"),
        ("sip:+112@198.51.100.1", "sip:+112@203.0.113.110"),
        ("tel:112;phone-context=+49", "sip:112@203.0.113.110"),
    ] {
        let call = to("INVITE", uri).alice();
        let got = left(&mut lab, ALICE, &call);
        assert_eq!((got.to().as_str(), got.uri()), (HELP, at_the_target));
        lab.send(HELP, got.accept("b"));
        let ok = lab.one();
        assert_eq!(ok.status(), 200);
        // The dialog is one like any other, from both ends.
        assert_eq!(lab.ask(ALICE, call.within("ACK", &ok).text()).to(), HELP);
        let sos = "<sip:psap@203.0.113.110>";
        let back = lab.ask(HELP, from_callee(&got, "INFO", HELP, sos).text());
        assert_eq!((back.method(), back.to().as_str()), ("INFO", ALICE));
        lab.send(ALICE, call.within("BYE", &ok).text());
        assert!(statuses(&lab.sent()).contains(&407), "what follows is proven as ever");
    }
    let text = to("MESSAGE", "urn:service:sos").alice();
    let got = lab.ask(ALICE, text.text());
    assert_eq!((got.to().as_str(), got.method()), (HELP, "MESSAGE"));
    lab.send(HELP, got.reply(200, "p", ""));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn phone_that_listens_at_another_port_calls_for_help() {
    let mut register = Req::new("REGISTER", "sip:here.example").sent_by("UDP", ALICE);
    register.from = "<sip:alice@here.example>;tag=r".to_owned();
    register.to = "<sip:alice@here.example>".to_owned();
    register.lines = vec!["Contact: <sip:alice@192.0.2.30:5070>".to_owned()];
    let registered = || {
        let mut lab = Lab::with(|s| s.emergency = Some(help()));
        assert_eq!(lab.as_user(ALICE, "alice", &register)[0].status(), 200);
        let place = lab.bindings_of("alice");
        assert_eq!(place, ["192.0.2.30:5070"], "its Contact is right about the port");
        lab
    };
    let call = to("INVITE", "urn:service:sos").alice();
    for (name, from, req, helped) in [
        ("as it registered", udp(ALICE), call.clone(), true),
        (
            "the port of its Contact",
            udp("192.0.2.30:5070"),
            call.clone().sent_by("UDP", "192.0.2.30:5070"),
            true,
        ),
        (
            "a connection of its own",
            tcp("192.0.2.30:40000", 9),
            call.clone().sent_by("TCP", "192.0.2.30:5060"),
            true,
        ),
        ("another address", udp("192.0.2.31:5060"), call.clone().sent_by("UDP", "192.0.2.31:5060"), false),
        ("behind a translation", udp(ALICE), call.clone().sent_by("UDP", "10.0.0.5:5060"), false),
        (
            "another user",
            udp(ALICE),
            Req { from: "<sip:bob@here.example>;tag=q".to_owned(), ..call.clone() },
            false,
        ),
        ("nobody", udp(ALICE), Req { from: "<sip:x@far.example>;tag=q".to_owned(), ..call.clone() }, false),
    ] {
        let mut lab = registered();
        lab.send_on(from, req.text());
        let sent = lab.sent();
        assert_eq!(requests(&sent).iter().any(|(_, to)| to == HELP), helped, "{name}: {sent:#?}");
    }
    // Behind her translation others can write its address into Via.
    let mut lab = Lab::with(|s| s.emergency = Some(help()));
    lab.bind("alice", "<sip:alice@10.0.0.5>", udp("192.0.2.30:41000"));
    assert_eq!(lab.ask(ALICE, call.text()).status(), 407);
}

/// The address is that of a phone, and what comes from it may not be from that phone.
#[test]
fn a_name_of_ours_and_credentials_are_looked_at() {
    let mut lab = lab(|_| {});
    // In the name of another user, who is not registered there.
    let mut bob = to("INVITE", "urn:service:sos").alice();
    bob.from = bob.from.replace("alice", "bob");
    assert_eq!(lab.ask(ALICE, bob.text()).status(), 407);
    // By way of a proxy: its address is that of all its phones.
    let call = to("INVITE", "urn:service:sos").alice().line("Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKq");
    assert_eq!(lab.ask(ALICE, call.text()).status(), 407);
    // Whoever brings credentials is judged by them.
    let call = to("INVITE", "urn:service:sos").alice().line("Proxy-Authorization: Digest username=\"alice\"");
    assert_ne!(lab.ask(ALICE, call.text()).to(), HELP);
    // What stands behind the number is no part of it.
    let more = to("INVITE", "sip:112?5551234@here.example").alice();
    assert_eq!(lab.ask(ALICE, more.text()).status(), 407);
}

#[test]
fn without_the_section_nothing_is_known_of_them() {
    let mut lab = lab(|s| (s.emergency, s.auth.enabled) = (None, false));
    assert_eq!(lab.ask(ALICE, to("INVITE", "urn:service:sos").alice().text()).status(), 416);
    assert_eq!(lab.ask(ALICE, to("INVITE", "sip:112@here.example").alice().text()).status(), 404);
    // A reload brings it, and takes it away.
    lab.reconfigure(|s| s.emergency = Some(help()));
    assert_eq!(left(&mut lab, ALICE, &to("INVITE", "urn:service:sos").alice()).to(), HELP);
    assert_eq!(left(&mut lab, ALICE, &to("INVITE", "sip:112@here.example").alice()).to(), HELP);
    lab.reconfigure(|s| s.emergency = None);
    assert_eq!(lab.ask(ALICE, to("INVITE", "urn:service:sos").alice().text()).status(), 416);
}

#[test]
fn what_is_no_call_for_help_goes_as_ever() {
    let mut lab = lab(|s| s.auth.enabled = false);
    for uri in ["urn:service:counseling", "urn:service:sosx", "urn:service:test.sos", "urn:isbn:1"] {
        assert_eq!(lab.ask(ALICE, to("INVITE", uri).alice().text()).status(), 416, "{uri}");
    }
    assert_eq!(lab.ask(ALICE, to("REGISTER", "urn:service:sos").alice().text()).status(), 416);
    for uri in ["sip:1120@here.example", "sip:11@here.example", "tel:0112"] {
        assert_eq!(lab.ask(ALICE, to("INVITE", uri).alice().text()).status(), 404, "{uri}");
    }
    // The number of somebody else is his.
    let other = left(&mut lab, ALICE, &to("INVITE", "sip:112@203.0.113.9").alice());
    assert_eq!((other.to().as_str(), other.uri()), ("203.0.113.9:5060", "sip:112@203.0.113.9"));
}

#[test]
fn who_is_not_registered_proves_who_he_is_and_strangers_call_if_they_may() {
    let elsewhere = "192.0.2.31:5060";
    let mut lab = lab(|_| {});
    let call = to("INVITE", "urn:service:sos").alice().sent_by("UDP", elsewhere);
    let sent = lab.as_user(elsewhere, "alice", &call);
    assert_eq!((statuses(&sent), requests(&sent)[0].1.as_str()), (vec![100], HELP));
    for uri in ["urn:service:sos", "sip:112@here.example", "tel:112"] {
        assert_eq!(lab.ask(CAROL, to("INVITE", uri).text()).status(), 403, "{uri}");
    }
    lab.reconfigure(|s| s.emergency.as_mut().unwrap().strangers = true);
    for uri in ["urn:service:sos", "sip:112@here.example", "tel:112"] {
        assert_eq!(left(&mut lab, CAROL, &to("INVITE", uri)).to(), HELP, "{uri}");
    }
    assert_eq!(left(&mut lab, elsewhere, &to("INVITE", "sip:112@here.example").alice()).to(), HELP);
    // And a trunk may in any case, without being one that may transit.
    let carrier = |s: &mut Settings| {
        s.trunks.push(Trunk { sources: vec![("198.51.100.200".parse().unwrap(), 32)], ..trunk(&[], "+49") });
    };
    lab.reconfigure(|s| {
        s.emergency = Some(help());
        carrier(s);
    });
    let call = to("INVITE", "urn:service:sos").sent_by("UDP", CARRIER);
    assert_eq!(left(&mut lab, CARRIER, &call).to(), HELP);
}

/// A name that opens the way to help opens no other.
#[test]
fn no_way_leads_elsewhere_by_such_a_name() {
    let mut lab = lab(|_| {});
    let asked = |lab: &mut Lab, req: &Req| lab.ask(ALICE, req.text()).status();
    let routed = to("INVITE", "urn:service:sos").alice().line("Route: <sip:203.0.113.9;lr>");
    assert_eq!(asked(&mut lab, &routed), 407);
    assert_eq!(asked(&mut lab, &to("INVITE", "sip:112@203.0.113.9").alice()), 407);
    assert_eq!(asked(&mut lab, &to("SUBSCRIBE", "urn:service:sos").alice()), 407);
    assert_eq!(asked(&mut lab, &to("INVITE", "sip:nobody@here.example").alice()), 407);
    // Our own Route on the way is none.
    let ours = to("INVITE", "urn:service:sos").alice().line(&format!("Route: <sip:{US};lr>"));
    assert_eq!(left(&mut lab, ALICE, &ours).to(), HELP);
}

#[test]
fn the_next_target_is_tried_and_no_mailbox_answers() {
    for how in ["503", "undeliverable", "silent"] {
        let mut lab = lab(|s| {
            s.auth.enabled = false;
            s.voicemail = Some(Voicemail {
                uri: b"sip:mailbox@203.0.113.60".to_vec(),
                on: Reroute::ALWAYS,
                ..Voicemail::default()
            });
        });
        lab.bind("112", &format!("<sip:112@{BOB}>"), udp(BOB));
        let call = to("INVITE", "sip:112@here.example").alice();
        let got = left(&mut lab, ALICE, &call);
        assert_eq!(got.to(), HELP, "before a user of that name");
        match how {
            "503" => lab.send(HELP, got.reply(503, "x", "")),
            "undeliverable" => lab.undeliverable(&got),
            _ => lab.pass(32_100),
        }
        let sent = lab.sent();
        let second =
            sent.iter().find(|s| s.to() == SECOND).unwrap_or_else(|| panic!("{how}: {sent:?}")).clone();
        assert_eq!(second.uri(), "sip:112@203.0.113.111");
        lab.send(SECOND, second.reply(486, "x", ""));
        let end = lab.sent();
        assert_eq!((statuses(&end), requests(&end).len()), (vec![486], 1), "{how}: {end:?}");
        lab.rest();
    }
}

/// Whatever the server does with other calls.
#[test]
fn help_is_called_in_every_mode() {
    for (mode, uri) in [
        (Mode::Stateless, "urn:service:sos"),
        (Mode::Stateless, "sip:112@here.example"),
        (Mode::Redirect, "urn:service:sos"),
    ] {
        let mut lab = lab(|s| s.proxy.mode = mode);
        let call = to("INVITE", uri).alice();
        lab.send(ALICE, call.text());
        let sent = lab.sent();
        let got = sent.iter().find(|s| s.status() == 0).unwrap_or_else(|| panic!("{uri}: {sent:?}")).clone();
        assert_eq!(got.to(), HELP, "{uri}");
        lab.send(HELP, got.reply(180, "p", ""));
        assert_eq!(statuses(&lab.sent()), [180]);
        lab.send(ALICE, call.cancel().text());
        let sent = lab.sent();
        assert!(requests(&sent).contains(&("CANCEL".to_owned(), HELP.to_owned())), "{uri}: {sent:?}");
    }
    let mut lab = lab(|s| s.proxy.mode = Mode::Redirect);
    let told = lab.ask_one(to("INVITE", "sip:112@here.example").alice());
    assert_eq!(
        (told.status(), told.get("Contact")),
        (302, Some("<sip:112@203.0.113.110>, <sip:112@203.0.113.111>"))
    );
}

/// What a trunk at the same address asks to be spared of is not help.
#[test]
fn no_trunk_holds_it_back() {
    let mut lab = lab(|s| {
        s.trunks.push(Trunk { overload_control: true, ..trunk(&["sip:203.0.113.110"], "+49") });
    });
    let got = left(&mut lab, ALICE, &to("INVITE", "urn:service:sos").alice());
    assert!(!got.text.contains(";oc"), "{}", got.text);
}

impl Lab {
    fn ask_one(&mut self, req: Req) -> Sent {
        self.send(ALICE, req.text());
        let sent = self.sent();
        sent.into_iter().find(|s| s.status() != 100).expect("an answer")
    }
}

/// A trunk with these targets, whose calls come from this address.
fn carrier(targets: &[&str], source: &str) -> Trunk {
    Trunk { sources: vec![(source.parse().unwrap(), 32)], ..trunk(targets, "+49") }
}

#[test]
fn call_from_a_trunk_goes_to_no_emergency_target_there() {
    let call = || to("INVITE", "sip:112@here.example");
    let led = |lab: &mut Lab, from: &str| {
        let sent = lab.invite(from, call().sent_by("UDP", from).text());
        (sent[0].to(), sent.len())
    };
    for (targets, at_first) in [
        (&["sip:203.0.113.110"][..], true),
        (&["sip:203.0.113.110:5060;transport=udp", "sip:198.51.100.7"], true),
        (&[], true),
        (&["sip:203.0.113.110:5070"], false),
    ] {
        let mut lab = lab(|s| s.trunks.push(carrier(targets, "203.0.113.110")));
        let other = if at_first { SECOND } else { HELP };
        assert_eq!(led(&mut lab, HELP), (other.to_owned(), 1), "{targets:?}");
        // Whoever else calls has both.
        assert_eq!(led(&mut lab, ALICE).0, HELP, "{targets:?}");
    }
    // An emergency gateway at another port of the trunk's address.
    let mut beside = lab(|s| {
        s.emergency.as_mut().unwrap().targets = vec![b"sip:203.0.113.110:5070".to_vec()];
        s.trunks.push(carrier(&[], "203.0.113.110"));
    });
    assert_eq!(led(&mut beside, HELP).0, "203.0.113.110:5070");
    // By name, and by the addresses of a name.
    for targets in [&["sip:help.example"][..], &["sip:203.0.113.110"]] {
        let mut lab = lab(|s| {
            s.emergency.as_mut().unwrap().targets =
                [&b"sip:help.example"[..], b"sip:203.0.113.111"].map(<[u8]>::to_vec).to_vec();
            s.trunks.push(carrier(targets, "203.0.113.110"));
        });
        lab.pass(10);
        lab.resolve("203.0.113.110");
        assert_eq!(led(&mut lab, HELP).0, SECOND, "{targets:?}");
    }
}

#[test]
fn call_back_to_its_trunk_is_not_found_by_number_or_service() {
    let mut lab = lab(|s| {
        s.emergency.as_mut().unwrap().targets.truncate(1);
        let trunk = carrier(&["sip:203.0.113.110"], "203.0.113.110");
        s.trunks.push(Trunk { may_transit: true, domains: vec![b"carrier.example".to_vec()], ..trunk });
    });
    let uris = [
        "sip:112@here.example",
        "urn:service:sos",
        "sip:+4930123@here.example",
        "tel:+4930123",
        "sip:x@carrier.example",
    ];
    for (n, uri) in uris.iter().enumerate() {
        let call = to("INVITE", uri).sent_by("UDP", HELP);
        assert_eq!(lab.ask(HELP, call.text()).status(), 404, "{uri}");
        let refused = lab.world.refused.borrow();
        assert_eq!(refused.last(), Some(&(Refusal::Loop, (*uri).to_owned())));
        assert_eq!(refused.len(), n + 1);
    }
    // A number that is nobody's is no loop.
    assert_eq!(lab.ask(HELP, to("INVITE", "sip:zoe@here.example").sent_by("UDP", HELP).text()).status(), 404);
    assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::NotFound);
}
