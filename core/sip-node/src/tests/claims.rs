//! Contacts that one account registers at the address of another one's phone or gateway.

use super::*;
use sip_registrar::elsewhere;

const GATEWAY: &str = "192.0.2.9:5060";
const CARRIER: &str = "198.51.100.200:5060";
const CLAIM: &str = "<sip:+4912345@192.0.2.9>";

/// How the gateway of dave registered.
fn gateway(lab: &mut Lab) {
    lab.bind("dave", "<sip:gw@192.0.2.9>", udp(GATEWAY));
}

fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.trunks.push(Trunk { sources: vec![("198.51.100.200".parse().unwrap(), 32)], ..trunk(&[], "+1") });
        change(s);
    })
}

/// Where a call to `uri` goes, or how it is refused.
#[track_caller]
fn call(lab: &mut Lab, from: &str, uri: &str) -> String {
    let req = Req::new("INVITE", uri).sent_by("UDP", from);
    lab.send(from, req.text());
    led(&lab.sent())
}

fn led(sent: &[Sent]) -> String {
    match sent.iter().find(|s| s.status() == 0) {
        Some(request) => format!("{} at {}", request.uri(), request.to()),
        None => statuses(sent).last().map_or("nothing".to_owned(), u16::to_string),
    }
}

#[test]
fn contact_at_another_ones_gateway_gets_no_strangers_calls() {
    type Register = fn(&mut Lab);
    let registered: [(&str, Register); 4] = [
        ("by UDP", gateway),
        ("by TCP", |lab| lab.bind("dave", "<sip:gw@192.0.2.9>", tcp("192.0.2.9:33000", 4))),
        ("behind address translation", |lab| lab.bind("dave", "<sip:gw@10.0.0.9:5060>", udp(GATEWAY))),
        ("one of many", |lab| {
            (0..80).for_each(|n| lab.bind("dave", &format!("<sip:gw{n}@192.0.2.9>"), udp(GATEWAY)));
        }),
    ];
    for (how, gateway) in registered {
        for first in [true, false] {
            let mut lab = lab(|s| s.registrar.max_bindings = 100);
            if first {
                gateway(&mut lab);
            }
            lab.bind("bob", CLAIM, elsewhere(udp(BOB)));
            if !first {
                gateway(&mut lab);
            }
            for uri in ["sip:bob@here.example", "sip:+4912345@192.0.2.9"] {
                assert_eq!(call(&mut lab, CAROL, uri), "403", "{how}: {uri}");
                assert_eq!(call(&mut lab, CARRIER, uri), "403", "{how}: {uri}");
                let user = Req::new("INVITE", uri).alice();
                let sent = lab.as_user(ALICE, "alice", &user);
                assert_eq!(led(&sent), format!("sip:+4912345@192.0.2.9 at {GATEWAY}"), "{how}: {uri}");
            }
        }
    }
}

#[test]
fn contact_by_name_or_path_at_a_gateway_gets_no_strangers_calls() {
    let mut by_name = lab(|_| {});
    gateway(&mut by_name);
    by_name.bind("bob", "<sip:+4912345@gw.far.example:5060>", elsewhere(udp(BOB)));
    by_name.send(CAROL, Req::invite().text());
    by_name.sent();
    by_name.resolve("192.0.2.9");
    assert_eq!(led(&by_name.sent()), "403");
    let mut by_path = lab(|_| {});
    gateway(&mut by_path);
    let path = "Supported: path\r\nPath: <sip:192.0.2.9;lr>\r\n";
    by_path.bind_with("bob", "<sip:+4912345@192.0.2.20>", udp(BOB), path);
    assert_eq!(call(&mut by_path, CAROL, "sip:bob@here.example"), "403");
    let mut stateless = lab(|s| s.proxy.mode = Mode::Stateless);
    gateway(&mut stateless);
    stateless.bind("bob", CLAIM, elsewhere(udp(BOB)));
    assert_eq!(call(&mut stateless, CAROL, "sip:bob@here.example"), "403");
}

/// Two phones registered through the edge proxy, so its address is the source of both.
#[test]
fn phone_behind_an_edge_that_has_a_name_gets_strangers_calls() {
    let edge = "192.0.2.50:5060";
    let path = "Supported: path\r\nPath: <sip:edge.far.example;lr>\r\n";
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut lab = lab(|s| s.proxy.mode = mode);
        lab.bind_with("bob", "<sip:bob@192.0.2.97:6001>", udp(edge), path);
        lab.bind_with("dave", "<sip:dave@192.0.2.98:6001>", udp(edge), path);
        let invite = Req::invite();
        for _ in 0..6 {
            // Without memory the call waits for its repetition.
            lab.send(CAROL, invite.text());
            lab.resolve("192.0.2.50");
        }
        let sent = lab.sent();
        assert!(sent.iter().any(|s| s.method() == "INVITE" && s.to() == edge), "{mode:?}: {sent:?}");
    }
}

/// Two Contacts that are reached in different ways leave the address in the URI.
#[test]
fn doubtful_contact_at_a_gateway_leads_no_stranger_there() {
    let mut lab = lab(|_| {});
    gateway(&mut lab);
    lab.bind("bob", CLAIM, udp(BOB));
    lab.bind("alice", CLAIM, udp(ALICE));
    assert_eq!(call(&mut lab, CAROL, "sip:+4912345@192.0.2.9"), "403");
    assert_eq!(call(&mut lab, CAROL, "sip:bob@here.example"), format!("sip:+4912345@192.0.2.9 at {BOB}"));
}

#[test]
fn contact_elsewhere_is_called_where_no_other_account_is() {
    let there = format!("sip:+4912345@192.0.2.9 at {GATEWAY}");
    for mode in [Mode::Stateful, Mode::Stateless] {
        // Nobody has registered from there.
        let mut lab = lab(|s| s.proxy.mode = mode);
        lab.bind("bob", CLAIM, elsewhere(udp(BOB)));
        lab.bind("dave", "<sip:gw@192.0.2.9>", elsewhere(udp(BOB2)));
        assert_eq!(call(&mut lab, CAROL, "sip:bob@here.example"), there);
        // At another port, such as that of another phone behind the same address translation.
        lab.bind("dave", "<sip:gw@192.0.2.9:5072>", udp("192.0.2.9:5072"));
        assert_eq!(call(&mut lab, CAROL, "sip:bob@here.example"), there);
    }
    // The same user has a phone there.
    let mut own = lab(|_| {});
    gateway(&mut own);
    own.bind("bob", "<sip:pbx@192.0.2.9>", udp(GATEWAY));
    own.bind("bob", CLAIM, elsewhere(udp(BOB)));
    own.send(CAROL, Req::invite().text());
    let sent = own.sent();
    let uris: Vec<&str> = sent.iter().filter(|s| s.status() == 0).map(|s| s.uri()).collect();
    assert!(uris.contains(&"sip:+4912345@192.0.2.9") && uris.len() == 2, "{uris:?}");
}

#[test]
fn two_accounts_of_one_phone_are_both_called() {
    let mut lab = lab(|_| {});
    gateway(&mut lab);
    lab.bind("bob", CLAIM, udp(GATEWAY));
    for (uri, leads) in [
        ("sip:bob@here.example", "sip:+4912345@192.0.2.9"),
        ("sip:+4912345@192.0.2.9", "sip:+4912345@192.0.2.9"),
        ("sip:dave@here.example", "sip:gw@192.0.2.9"),
        ("sip:gw@192.0.2.9", "sip:gw@192.0.2.9"),
    ] {
        assert_eq!(call(&mut lab, CAROL, uri), format!("{leads} at {GATEWAY}"), "{uri}");
    }
    // A claim from elsewhere beside it changes nothing.
    lab.bind("alice", CLAIM, elsewhere(udp(ALICE)));
    assert_eq!(
        call(&mut lab, CAROL, "sip:+4912345@192.0.2.9"),
        format!("sip:+4912345@192.0.2.9 at {GATEWAY}")
    );
    assert_eq!(call(&mut lab, CAROL, "sip:alice@here.example"), "403");
}
