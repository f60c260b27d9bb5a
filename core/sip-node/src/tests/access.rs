//! Who may reach what, on the wire: the rule itself has a test beside it.

use super::*;
use core::net::Ipv4Addr;
use sip_proxy::locate::Kind;

const GATEWAY: &str = "192.0.2.50:5072";
pub(super) const CARRIER: &str = "203.0.113.5:5060";
const FRONT: &str = "192.0.2.90:5060";

/// A gateway that registers as dave, a carrier for +49, voicemail and an emergency target.
pub(super) fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = Lab::with(|s| {
        let mut carrier = trunk(&["sip:203.0.113.5", "sip:sbc.carrier.example"], "+49");
        (carrier.strip, carrier.prepend) = (1, b"00".to_vec());
        s.trunks.push(carrier);
        s.emergency = Some(Emergency {
            targets: vec![b"sip:192.0.2.112".to_vec()],
            numbers: vec![b"112".to_vec()],
            ..Emergency::default()
        });
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@192.0.2.60".to_vec(),
            on: sip_proxy::context::Reroute::BUSY,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
        change(s);
    });
    lab.bind("dave", &format!("<sip:gw@{GATEWAY}>"), udp(GATEWAY));
    lab
}

/// Where a request led to: the URI and address, or the status.
pub(super) fn led(sent: &[Sent]) -> String {
    match sent.iter().find(|s| s.status() != 100) {
        Some(sent) if sent.status() > 0 => sent.status().to_string(),
        Some(sent) => format!("{} at {}", sent.uri(), sent.to()),
        None => "nothing".to_owned(),
    }
}

fn from(address: &str, uri: &str, lines: &[String]) -> Req {
    let mut req = Req::new("INVITE", uri).sent_by("UDP", address);
    req.lines.extend(lines.iter().cloned());
    req
}

#[test]
fn address_of_a_gateway_takes_its_contact_only() {
    for address in [CAROL, CARRIER] {
        for (uri, leads) in [
            (format!("sip:gw@{GATEWAY}"), format!("sip:gw@{GATEWAY} at {GATEWAY}")),
            (format!("sip:g%77@{GATEWAY}"), format!("sip:g%77@{GATEWAY} at {GATEWAY}")),
            (format!("sip:+19005551234@{GATEWAY}"), "403".to_owned()),
            (format!("sip:{GATEWAY}"), "403".to_owned()),
            (format!("sip:GW@{GATEWAY}"), "403".to_owned()),
            (format!("sip:gw@{GATEWAY};user=phone"), "403".to_owned()),
            (format!("sip:gw@{GATEWAY}?Route=%3Csip:x%3E"), "403".to_owned()),
        ] {
            let mut lab = lab(|_| {});
            lab.send(address, from(address, &uri, &[]).text());
            assert_eq!(led(&lab.sent()), leads, "{uri} from {address}");
        }
    }
    // A trunk whose calls may leave again, and a user, may call it as they may anywhere.
    let mut lab = lab(|s| s.trunks[0].may_transit = true);
    let uri = format!("sip:+19005551234@{GATEWAY}");
    lab.send(CARRIER, from(CARRIER, &uri, &[]).text());
    assert_eq!(led(&lab.sent()), format!("{uri} at {GATEWAY}"));
    let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", &uri).alice());
    assert_eq!(led(&sent), format!("{uri} at {GATEWAY}"));
}

/// Each question takes a lock or two that all workers share.
#[test]
fn unproven_request_asks_twice_at_most_what_is_at_an_address() {
    for (uri, leads, most) in [
        (format!("sip:gw@{GATEWAY}"), format!("sip:gw@{GATEWAY} at {GATEWAY}"), 1),
        (format!("sip:+1900@{GATEWAY}"), "403".to_owned(), 2),
        ("sip:x@192.0.2.99".to_owned(), "403".to_owned(), 2),
        ("sip:x@far.example".to_owned(), "403".to_owned(), 0),
    ] {
        let mut lab = lab(|_| {});
        lab.send(CAROL, from(CAROL, &uri, &[]).text());
        assert_eq!(led(&lab.sent()), leads, "{uri}");
        assert!(lab.world.looked.get() <= most, "{uri}: {}", lab.world.looked.get());
    }
}

#[test]
fn dialog_token_opens_no_other_port_or_user() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    lab.bind("dave", "<sip:gw@192.0.2.20:5072>", udp("192.0.2.20:5072"));
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    for (uri, to) in [
        ("sip:gw@192.0.2.20:5072", "192.0.2.20:5072"),
        ("sip:+1900@192.0.2.20:5072", BOB),
        ("sip:+1900@203.0.113.5", BOB),
        ("sip:+1900@sbc.carrier.example", BOB),
    ] {
        let again = Req { uri: uri.to_owned(), ..invite.within("INFO", &ok) };
        assert_eq!(lab.ask(CAROL, again.text()).to(), to, "{uri}");
    }
}

#[test]
fn user_at_a_trunks_address_gets_what_its_rules_allow() {
    let over = "sip:004930@203.0.113.5 at 203.0.113.5:5060";
    for (uri, route, leads) in [
        ("sip:+4930@203.0.113.5", "", over),
        ("sip:+4930@203.0.113.5:5080;transport=tcp", "", over),
        ("sip:%2B4930@203.0.113.5", "", over),
        ("sip:+4930@sbc.carrier.example.", "", over),
        ("sip:+4930@far.example;maddr=203.0.113.5", "", over),
        ("sip:+1900@203.0.113.5", "", "403"),
        ("sip:+1900@203.0.113.5:5080", "", "403"),
        ("sip:+1900@SBC.carrier.example", "", "403"),
        ("sip:+1900@far.example;maddr=203.0.113.5", "", "403"),
        // Another host of the trunk's sources.
        ("sip:+1900@203.0.113.77", "", "403"),
        ("sip:203.0.113.5", "", "403"),
        ("sip:+4930@far.example", "<sip:203.0.113.5;lr>", over),
        ("tel:+4930", "<sip:203.0.113.5;lr>", over),
        ("sip:+4930@far.example", "<sip:203.0.113.5>", "403"),
        ("sip:+4930@far.example", "<sip:203.0.113.5:5080;lr>", "403"),
        ("sip:+4930@far.example", "<sip:203.0.113.5;lr>, <sip:203.0.113.7;lr>", "403"),
        ("sip:+1900@far.example", "<sip:203.0.113.5;lr>", "403"),
        ("sip:+1900@203.0.113.5", "<sip:203.0.113.5;lr>", "403"),
        ("sip:bob@here.example", "<sip:sbc.carrier.example;lr>", "403"),
    ] {
        let mut lab = lab(|_| {});
        let lines: Vec<String> = (!route.is_empty()).then(|| format!("Route: {route}")).into_iter().collect();
        let mut req = Req::new("INVITE", uri).alice();
        req.lines.extend(lines);
        let sent = lab.as_user(ALICE, "alice", &req);
        assert_eq!(led(&sent), leads, "{uri} by {route}");
    }
}

#[test]
fn name_that_leads_to_a_trunk_is_found_out() {
    for (address, leads) in [("203.0.113.5", "403"), ("203.0.113.99", "403"), ("192.0.2.60", "403")] {
        let mut lab = lab(|_| {});
        let req = Req::new("INVITE", "sip:+1900@gw.evil.example:5060").alice();
        lab.as_user(ALICE, "alice", &req);
        lab.resolve(address);
        assert_eq!(led(&lab.sent()), leads, "{address}");
    }
    let mut lab = lab(|_| {});
    lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:x@gw.far.example:5060").alice());
    lab.resolve("192.0.2.99");
    assert_eq!(led(&lab.sent()), "sip:x@gw.far.example:5060 at 192.0.2.99:5060");
}

/// Answers the questions for the addresses of targets.
fn find_targets(lab: &mut Lab, addresses: &[(&str, &str)]) {
    lab.pass(0);
    lab.resolve_with(|question| {
        let name = String::from_utf8_lossy(&question.name);
        let found = addresses.iter().filter(|(host, _)| question.kind == Kind::A && *host == name);
        let found: Vec<Ipv4Addr> = found.map(|(_, address)| address.parse().unwrap()).collect();
        if found.is_empty() { Answer::Nothing } else { Answer::A(found.into()) }
    });
}

/// A carrier, voicemail and emergency targets by name, which the DNS has not answered yet.
fn unanswered_lab(change: impl FnOnce(&mut Settings)) -> Lab {
    lab(|s| {
        s.trunks[0].targets = vec![b"sip:sbc.carrier.example".to_vec()];
        s.trunks[0].sources.clear();
        s.emergency.as_mut().unwrap().targets = vec![b"sip:psap.example".to_vec()];
        s.voicemail.as_mut().unwrap().uri = b"sip:mailbox@voice.example".to_vec();
        change(s);
    })
}

/// Where the DNS says that they are: these addresses stand nowhere in the settings.
const NAMED: [(&str, &str); 4] = [
    ("sbc.carrier.example", "198.51.100.5"),
    ("sbc.carrier.example", "198.51.100.6"),
    ("psap.example", "198.51.100.112"),
    ("voice.example", "198.51.100.60"),
];

/// The same with the answers.
fn named_lab(change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = unanswered_lab(change);
    find_targets(&mut lab, &NAMED);
    lab
}

#[test]
fn address_of_a_trunk_given_by_name_takes_what_its_rules_allow() {
    let over = "sip:004930@sbc.carrier.example";
    for (uri, route, leads) in [
        ("sip:+4930@198.51.100.5", "", over),
        ("sip:+4930@198.51.100.6:5080;transport=tcp", "", over),
        ("sip:+4930@far.example;maddr=198.51.100.6", "", over),
        ("sip:+1900@198.51.100.5", "", "403"),
        ("sip:+1900@198.51.100.6:5080", "", "403"),
        ("sip:+1900@far.example;maddr=198.51.100.6", "", "403"),
        ("sip:+1900@far.example", "<sip:198.51.100.6;lr>", "403"),
        ("sip:x@198.51.100.60", "", "403"),
        ("sip:+1900@198.51.100.112", "", "403"),
        ("sip:+1900@198.51.100.7", "", "sip:+1900@198.51.100.7"),
    ] {
        let mut lab = named_lab(|_| {});
        let mut req = Req::new("INVITE", uri).alice();
        req.lines.extend((!route.is_empty()).then(|| format!("Route: {route}")));
        let sent = lab.as_user(ALICE, "alice", &req);
        assert_eq!(led(&sent).split(" at ").next(), Some(leads), "{uri} by {route}");
    }
    // Another name that leads there.
    let mut lab = named_lab(|_| {});
    lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:+1900@gw.evil.example:5060").alice());
    lab.resolve("198.51.100.6");
    assert_eq!(led(&lab.sent()), "403");
}

#[test]
fn contact_at_a_trunk_given_by_name_is_refused() {
    for (line, status) in [
        ("Contact: <sip:a@198.51.100.5>", 403),
        ("Contact: <sip:a@198.51.100.6:5080>", 403),
        ("Contact: <sip:a@sbc.carrier.example>", 403),
        ("Contact: <sip:a@198.51.100.60>", 403),
        ("Contact: <sip:a@192.0.2.30>\r\nPath: <sip:198.51.100.6;lr>\r\nSupported: path", 403),
        ("Contact: <sip:a@198.51.100.7>", 200),
    ] {
        let mut lab = named_lab(|_| {});
        assert_eq!(register(&mut lab, ALICE, &[line]).status(), status, "{line}");
    }
    // From there it may.
    let mut lab = named_lab(|_| {});
    let there = "198.51.100.5:5060";
    assert_eq!(register(&mut lab, there, &["Contact: <sip:a@198.51.100.5>"]).status(), 200);
    // The address of a proxy that it came through counts, not the one behind that.
    let mut lab = named_lab(|s| s.auth.fronts = vec![("192.0.2.90".parse().unwrap(), 32)]);
    let below = "Via: SIP/2.0/UDP 198.51.100.5:5060;branch=z9hG4bKb";
    assert_eq!(register(&mut lab, FRONT, &["Contact: <sip:a@198.51.100.5>", below]).status(), 403);
}

/// A binding may be older than the first answer of the DNS, or than the configuration.
#[test]
fn binding_older_than_a_holder_opens_nothing_at_its_address() {
    for (uri, leads) in [
        ("sip:+1900@198.51.100.5:5060", "403"),
        ("sip:+4930@198.51.100.6:5080", "sip:004930@sbc.carrier.example"),
        ("sip:x@198.51.100.60", "403"),
        ("sip:x@198.51.100.112:5080", "403"),
        ("sip:+1900@203.0.113.88", "403"),
    ] {
        for elsewhere in [true, false] {
            let mut lab = unanswered_lab(|_| {});
            match elsewhere {
                true => assert_eq!(register(&mut lab, ALICE, &[&format!("Contact: <{uri}>")]).status(), 200),
                false => lab.bind("bob", &format!("<{uri}>"), udp(BOB)),
            }
            find_targets(&mut lab, &NAMED);
            lab.reconfigure(|s| s.trunks.push(trunk(&["sip:203.0.113.88"], "+33")));
            lab.sent();
            lab.send(CAROL, from(CAROL, uri, &[]).text());
            assert_eq!(led(&lab.sent()), "403", "{uri} {elsewhere}");
            let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", uri).alice());
            assert_eq!(led(&sent).split(" at ").next(), Some(leads), "{uri} {elsewhere}");
        }
    }
}

#[test]
fn registered_pbx_that_is_also_a_trunk_is_called_by_its_contact() {
    let (there, uri) = ("198.51.100.5:5060", "sip:+1900@198.51.100.5:5060");
    let mut lab = unanswered_lab(|_| {});
    // A claim from elsewhere does not make the phone's own binding doubtful.
    lab.bind("dave", &format!("<{uri}>"), udp(BOB));
    lab.bind("bob", &format!("<{uri}>"), udp("198.51.100.5:41000"));
    find_targets(&mut lab, &NAMED);
    lab.sent();
    lab.send(CAROL, from(CAROL, uri, &[]).text());
    assert_eq!(led(&lab.sent()), format!("{uri} at 198.51.100.5:41000"));
    let mut lab = named_lab(|_| {});
    assert_eq!(register(&mut lab, there, &[&format!("Contact: <{uri}>")]).status(), 200);
    lab.send(CAROL, from(CAROL, uri, &[]).text());
    assert_eq!(led(&lab.sent()), format!("{uri} at {there}"));
}

#[test]
fn registered_pbx_at_a_trunk_is_called_where_it_registered_from() {
    let there = "198.51.100.5:5060";
    let mut lab = named_lab(|_| {});
    assert_eq!(register(&mut lab, there, &["Contact: <sip:pbx@pbx.example>"]).status(), 200);
    lab.send(CAROL, Req::new("INVITE", "sip:alice@here.example").text());
    assert_eq!(led(&lab.sent()), format!("sip:pbx@pbx.example at {there}"));
}

/// The other end is a registered PBX at a trunk's address.
#[test]
fn dialog_token_opens_no_port_of_a_trunk_by_a_binding_from_elsewhere() {
    for (claimed_from, to) in [(BOB, "198.51.100.5:5060"), ("198.51.100.5:5072", "198.51.100.5:5072")] {
        let mut lab = unanswered_lab(|_| {});
        lab.bind("bob", "<sip:bob@198.51.100.5>", udp("198.51.100.5:5060"));
        lab.bind("dave", "<sip:+1900@198.51.100.5:5072>", udp(claimed_from));
        find_targets(&mut lab, &NAMED);
        lab.sent();
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        let ok = lab.ask("198.51.100.5:5060", got.accept("b"));
        let again = Req { uri: "sip:+1900@198.51.100.5:5072".to_owned(), ..invite.within("INFO", &ok) };
        assert_eq!(lab.ask(CAROL, again.text()).to(), to, "{claimed_from}");
    }
}

#[test]
fn trunk_given_by_name_is_a_stranger_when_it_calls() {
    let mut lab = named_lab(|s| s.trunks[0].may_transit = true);
    lab.send("198.51.100.5:5060", from("198.51.100.5:5060", "sip:x@far.example", &[]).text());
    assert_eq!(led(&lab.sent()), "403");
}

#[test]
fn addresses_of_a_target_outlive_an_answer_and_a_reload() {
    let dials = |lab: &mut Lab| {
        let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:+1900@198.51.100.6").alice());
        led(&sent)
    };
    let mut lab = named_lab(|_| {});
    let moved = [("sbc.carrier.example", "198.51.100.99")];
    for _ in 0..59 {
        lab.pass(60_000);
        find_targets(&mut lab, &moved);
        lab.sent();
    }
    lab.reconfigure(|s| s.trunks[0].may_transit = true);
    assert_eq!(dials(&mut lab), "403");
    lab.pass(120_000);
    find_targets(&mut lab, &moved);
    lab.sent();
    assert_eq!(dials(&mut lab), "sip:+1900@198.51.100.6 at 198.51.100.6:5060");
}

#[test]
fn redirection_to_a_trunk_is_followed_from_that_trunk_only() {
    for (redirector, contact, leads) in [
        (BOB, "sip:+1900@203.0.113.5", "403"),
        (BOB, "sip:x@192.0.2.77", "sip:x@192.0.2.77 at 192.0.2.77:5060"),
        (CARRIER, "sip:+4930@203.0.113.6", "sip:+4930@203.0.113.6 at 203.0.113.6:5060"),
        (CARRIER, "sip:+1900@192.0.2.60", "403"),
    ] {
        let mut lab = lab(|s| s.proxy.recurse = true);
        lab.phones(&[BOB]);
        let called = if redirector == BOB { "sip:bob@here.example" } else { "sip:+4930@here.example" };
        let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", called).alice());
        let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
        lab.send(redirector, got.reply(302, "m", &format!("Contact: <{contact}>\r\n")));
        let sent: Vec<Sent> =
            lab.sent().into_iter().filter(|s| s.method() != "ACK" && !s.text.starts_with("ACK")).collect();
        assert_eq!(led(&sent), leads, "{contact} from {redirector}");
    }
}

#[test]
fn operators_services_are_called_by_their_own_uri_only() {
    for (uri, leads) in [
        ("sip:mailbox@192.0.2.60", "sip:mailbox@192.0.2.60 at 192.0.2.60:5060"),
        ("sip:1900@192.0.2.60", "403"),
        ("sip:1900@192.0.2.60:5080", "403"),
        ("sip:1900@192.0.2.112", "403"),
        ("sip:112@here.example", "sip:112@192.0.2.112 at 192.0.2.112:5060"),
    ] {
        let mut lab = lab(|_| {});
        let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", uri).alice());
        assert_eq!(led(&sent), leads, "{uri}");
        let mut lab = self::lab(|_| {});
        lab.send(CAROL, from(CAROL, uri, &[]).text());
        // The answer to an unknown caller's emergency call without credentials.
        assert_eq!(led(&lab.sent()), "403", "{uri}");
    }
}

/// A REGISTER of alice's from an address.
fn register(lab: &mut Lab, address: &str, lines: &[&str]) -> Sent {
    let mut req = Req::new("REGISTER", "sip:here.example").sent_by("UDP", address);
    req.from = format!("<sip:alice@here.example>;tag=r{}", number());
    req.to = "<sip:alice@here.example>".to_owned();
    req.lines = lines.iter().map(|line| (*line).to_owned()).collect();
    lab.as_user(address, "alice", &req).remove(0)
}

#[test]
fn contact_at_a_trunk_is_refused_unless_sent_from_there() {
    for (address, contact, status) in [
        (ALICE, "sip:a@203.0.113.5", 403),
        (ALICE, "sip:a@203.0.113.5:5099;transport=tcp", 403),
        (ALICE, "sip:a@203.0.113.200", 403),
        (ALICE, "sip:a@[::ffff:203.0.113.5]", 403),
        (ALICE, "sip:a@x.example;maddr=203.0.113.5", 403),
        (ALICE, "sip:a@sbc.carrier.example:5070", 403),
        (ALICE, "sip:a@192.0.2.60", 403),
        (ALICE, "sip:a@192.0.2.112", 403),
        (ALICE, "sip:a@203.0.113.5>;expires=0;x=<", 400),
        (ALICE, "sip:a@192.0.2.30", 200),
        ("203.0.113.5:5060", "sip:a@203.0.113.5", 200),
        ("203.0.113.7:5062", "sip:a@203.0.113.7:5062", 200),
        ("203.0.113.7:5062", "sip:a@203.0.113.8", 200),
        ("203.0.113.7:5062", "sip:a@203.0.113.5", 403),
        ("192.0.2.60:5060", "sip:a@192.0.2.60", 200),
    ] {
        let mut lab = lab(|_| {});
        let refused = register(&mut lab, address, &[&format!("Contact: <{contact}>")]);
        assert_eq!(refused.status(), status, "{contact} from {address}");
        if status == 403 {
            assert_eq!(refused.start(), "SIP/2.0 403 Contact At A Trunk Or Service");
            assert_eq!(lab.world.refused.borrow().last().unwrap().0, Refusal::Claimed);
        }
    }
    // By a Path; beside a good Contact; and what is removed need not be there.
    for (lines, status) in [
        (&["Contact: <sip:a@192.0.2.30>", "Path: <sip:203.0.113.5;lr>", "Supported: path"][..], 403),
        (&["Contact: <sip:a@192.0.2.30>, <sip:a@203.0.113.5>"], 403),
        (&["Contact: <sip:a@203.0.113.5>;expires=0"], 200),
        (&["Contact: <sip:a@203.0.113.5>", "Expires: 0"], 200),
        (&["Contact: *", "Expires: 0"], 200),
    ] {
        let mut lab = lab(|_| {});
        assert_eq!(register(&mut lab, ALICE, lines).status(), status, "{lines:?}");
    }
    // A phone with such an address in a network of its own is no trunk.
    let mut lab = lab(|s| s.trunks[0].targets = vec![b"sip:192.168.1.10".to_vec()]);
    assert_eq!(register(&mut lab, ALICE, &["Contact: <sip:a@192.168.1.10>"]).status(), 200);
}

/// Its sender may have forged that address: where it hears us the nonce went.
#[test]
fn nonce_that_went_elsewhere_proves_no_place() {
    let mut lab = lab(|_| {});
    let mut req = Req::new("REGISTER", "sip:here.example").sent_by("UDP", ALICE);
    req.from = "<sip:alice@here.example>;tag=r".to_owned();
    req.to = "<sip:alice@here.example>".to_owned();
    req.lines = vec!["Contact: <sip:+1900@203.0.113.5:5060>".to_owned()];
    let challenge = lab.ask(ALICE, req.text());
    let forged = req.sent_by("UDP", CARRIER).answer("alice", &challenge);
    let refused = lab.ask(CARRIER, forged.text());
    assert_eq!(refused.status(), 401);
    assert!(refused.get("WWW-Authenticate").unwrap().contains("stale=true"), "{refused:?}");
}

#[test]
fn programs_beside_the_server_are_told_apart_by_port() {
    let beside = |port: u16| format!("sip:a@198.51.100.1:{port}");
    let mut lab = lab(|s| s.trunks[0].targets = vec![b"sip:198.51.100.1:5080".to_vec()]);
    let from_host = "198.51.100.1:6000";
    for (contact, status) in [(beside(6000), 200), (beside(5081), 200), (beside(5080), 403)] {
        let reply = register(&mut lab, from_host, &[&format!("Contact: <{contact}>")]);
        assert_eq!(reply.status(), status, "{contact}");
    }
    assert_eq!(
        register(&mut lab, "198.51.100.1:5080", &[&format!("Contact: <{}>", beside(5080))]).status(),
        200
    );
}

#[test]
fn phones_address_counts_with_one_via_and_no_front() {
    // A binding by name is filed at the address that its REGISTER came from: here the front's.
    let list = || Challenge::Only(vec![b"REGISTER".to_vec(), b"INVITE".to_vec()]);
    for (fronts, address, vias, status) in [
        (&[][..], FRONT, 1, "sip:x@192.0.2.99 at 192.0.2.99:5060"),
        (&[], FRONT, 2, "403"),
        (&[FRONT], FRONT, 1, "403"),
        (&[FRONT], FRONT, 2, "403"),
        (&[], ALICE, 1, "403"),
    ] {
        let mut lab = Lab::with(|s| {
            s.auth.challenge = list();
            s.auth.fronts = fronts.iter().map(|f| (f.parse::<SocketAddr>().unwrap().ip(), 32)).collect();
        });
        lab.bind("alice", "<sip:alice@phone.example>", udp(FRONT));
        let mut req = Req::new("MESSAGE", "sip:x@192.0.2.99").alice().sent_by("UDP", address);
        req.lines.extend((1..vias).map(|_| "Via: SIP/2.0/UDP 192.0.2.66;branch=z9hG4bKw".to_owned()));
        lab.send(address, req.text());
        assert_eq!(led(&lab.sent()), status, "{fronts:?} {address} {vias}");
        // An ACK proves nothing either.
        let mut ack = Req { method: "ACK".to_owned(), ..req };
        ack.call_id = format!("ack{}", number());
        lab.send(address, ack.text());
        let led = led(&lab.sent());
        assert_eq!(led == "nothing", status == "403", "{fronts:?} {address} {vias}: {led}");
    }
}

#[test]
fn route_that_nobody_recorded_reaches_nobody_else() {
    let other = "192.0.2.99";
    let extended = |invite: &Req, ok: &Sent, method: &str, route: &str| {
        let mut req = invite.within(method, ok);
        req.lines.push(format!("Route: {route}"));
        req
    };
    for (route, resolved, leads) in [
        (format!("<sip:{other};lr>"), None, "403"),
        (format!("<sip:{other}>"), None, "403"),
        ("<sip:10.0.0.9;lr>".to_owned(), None, "to the end"),
        (format!("<sip:{BOB};lr>"), None, "to the end"),
        ("<sip:proxy.far.example:5060;lr>".to_owned(), Some(other), "403"),
        ("<sip:proxy.far.example:5060;lr>".to_owned(), Some("192.0.2.20"), "to the end"),
    ] {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        let ok = lab.ask(BOB, got.accept("b"));
        for method in ["ACK", "BYE", "INVITE"] {
            lab.send(CAROL, extended(&invite, &ok, method, &route).text());
            if let Some(address) = resolved {
                lab.resolve(address);
                // An ACK waits for its repetition.
                if method == "ACK" {
                    lab.send(CAROL, extended(&invite, &ok, method, &route).text());
                }
            }
            let expected = match (leads, method) {
                ("403", "ACK") => "nothing".to_owned(),
                ("403", _) => "403".to_owned(),
                _ => format!("sip:bob@{BOB} at {BOB}"),
            };
            assert_eq!(led(&lab.sent()), expected, "{method} by {route}");
        }
    }
    // Who may relay is followed, to there and nowhere else.
    for (route, leads) in [
        (format!("<sip:{other};lr>"), format!("sip:bob@{BOB} at {other}:5060")),
        ("<sip:203.0.113.5;lr>".to_owned(), "403".to_owned()),
        ("<sip:127.0.0.1:8080;lr>".to_owned(), "403".to_owned()),
    ] {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let invite = Req::invite().alice();
        let sent = lab.as_user(ALICE, "alice", &invite);
        let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
        let ok = lab.ask(BOB, got.accept("b"));
        let sent = lab.as_user(ALICE, "alice", &extended(&invite, &ok, "INFO", &route));
        assert_eq!(led(&sent), leads, "{route}");
    }
}

#[test]
fn refused_trunk_call_names_the_missing_right() {
    for (uri, why) in [
        // Back over the trunk that it came from nobody goes.
        ("sip:+4930@here.example", Refusal::Loop),
        // The trunk serves numbers with a plus sign.
        ("sip:4930@here.example", Refusal::NotFound),
        ("sip:+1900@here.example", Refusal::Transit),
        ("sip:+1900@198.51.100.77", Refusal::Transit),
        ("sip:x@partner.example", Refusal::Transit),
        ("sip:x@192.0.2.99", Refusal::Elsewhere),
    ] {
        let mut lab = lab(|s| {
            let mut other = trunk(&["sip:198.51.100.77"], "+1");
            other.sources = vec![("198.51.100.77".parse().unwrap(), 32)];
            other.domains = vec![b"partner.example".to_vec()];
            s.trunks.push(other);
        });
        let status = if matches!(why, Refusal::Loop | Refusal::NotFound) { 404 } else { 403 };
        assert_eq!(lab.ask(CARRIER, from(CARRIER, uri, &[]).text()).status(), status, "{uri}");
        let (told, about) = lab.world.refused.borrow().last().unwrap().clone();
        assert_eq!((told, about.as_str()), (why, uri));
    }
}
