//! Header fields that the operator has removed, set and added.

use super::*;
use ::call_rules::HeaderRules;

const CARRIER: &str = "203.0.113.5:5060";
const NONE: [&str; 0] = [];

fn rules(remove: &[&str], set: &[&str]) -> HeaderRules {
    HeaderRules::parse(remove, set, &NONE).expect("good rules")
}

/// A server whose trunk and whose domain have rules.
fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.auth.enabled = false;
        let headers = rules(&["X-Internal"], &["X-Who: {user}@{domain} {number} {source} {trunk}"]);
        let headers = Some(Arc::new(headers.of_trunk(b"carrier")));
        s.trunks.push(Trunk { headers, ..trunk(&["sip:203.0.113.5", "sip:203.0.113.6"], "+49") });
        let headers = Some(Arc::new(rules(&["X-Carrier"], &["X-Trunk: from {trunk}"])));
        s.domain_rules.push(Domain { name: b"here.example".to_vec(), headers, ..Domain::default() });
        change(s);
    })
}

fn call_out() -> Req {
    Req::new("INVITE", "sip:+49301@here.example").alice().line("X-Internal: 1").line("X-Carrier: 2")
}

const OUT: &str = "alice@here.example +49301 192.0.2.30 carrier";

#[track_caller]
fn left_by_rules(sent: &Sent, who: &str) {
    assert_eq!((sent.get("X-Who"), sent.get("X-Internal")), (Some(who), None), "{}", sent.text);
}

#[test]
fn requests_to_a_trunk_leave_by_its_rules_within_a_dialog_too() {
    let mut lab = lab(|_| {});
    let call = call_out();
    let got = lab.invite(ALICE, call.text()).remove(0);
    left_by_rules(&got, OUT);
    assert_eq!((got.get("X-Carrier"), got.get("X-Trunk")), (Some("2"), None), "rules of the domain");
    lab.send(CARRIER, got.accept("x"));
    let ok = lab.one();
    for method in ["ACK", "BYE"] {
        let request = call.within(method, &ok).line("X-Internal: 1");
        lab.send(ALICE, request.text());
        let sent = lab.sent();
        let sent = sent.iter().find(|sent| sent.method() == method).expect("it goes on");
        let who = sent.get("X-Who").expect(method);
        assert!(who.starts_with("alice@here.example ") && who.ends_with(" 192.0.2.30 carrier"), "{who}");
        assert_eq!(sent.get("X-Internal"), None);
    }
}

#[test]
fn next_target_of_a_trunk_gets_the_same_header_fields() {
    let mut lab = lab(|_| {});
    let first = lab.invite(ALICE, call_out().text()).remove(0);
    lab.send(CARRIER, first.reply(503, "x", ""));
    let sent = lab.sent();
    let second = sent.iter().find(|sent| sent.to() == "203.0.113.6:5060").expect("the next target");
    left_by_rules(second, OUT);
}

#[test]
fn calls_to_phones_of_a_domain_leave_by_its_rules() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let call = || Req::invite().line("X-Internal: 1").line("X-Carrier: 2").line("X-Trunk: forged");
    let mut inbound = call().sent_by("UDP", CARRIER);
    inbound.lines[0] = format!("Contact: <sip:gw@{CARRIER}>");
    let got = lab.invite(CARRIER, inbound.text()).remove(0);
    assert_eq!((got.to().as_str(), got.all("X-Trunk")), (BOB, vec!["from carrier"]));
    assert_eq!((got.get("X-Carrier"), got.get("X-Internal")), (None, Some("1")));
    // The callee's BYE goes to the trunk.
    lab.send(BOB, got.accept("b"));
    lab.sent();
    let bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").line("X-Internal: 1");
    lab.send(BOB, bye.text());
    let sent = lab.sent();
    let bye = sent.iter().find(|sent| sent.method() == "BYE").expect("a BYE");
    assert_eq!((bye.to().as_str(), bye.get("X-Internal")), (CARRIER, None), "{}", bye.text);
    // From nobody's trunk the value is missing, and what the caller wrote goes all the same.
    let got = lab.invite(CAROL, call().text()).remove(0);
    assert_eq!((got.get("X-Trunk"), got.get("X-Carrier")), (None, None));
}

#[test]
fn route_to_the_address_of_a_trunk_follows_its_rules() {
    let mut lab = lab(|s| {
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"fax".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(vec![b"sip:203.0.113.5".to_vec()]),
        });
    });
    let call = Req::new("INVITE", "sip:fax@here.example").alice().line("X-Internal: 1");
    let sent = lab.invite(ALICE, call.text()).remove(0);
    left_by_rules(&sent, "alice@here.example fax 192.0.2.30 carrier");
}

#[test]
fn stateless_server_follows_the_rules() {
    let mut lab = lab(|s| s.proxy.mode = Mode::Stateless);
    let sent = lab.ask(ALICE, call_out().text());
    left_by_rules(&sent, OUT);
}

#[test]
fn header_that_two_edits_remove_is_removed_once() {
    let mut lab = lab(|s| {
        let all = rules(&["P-*", "X-*", "Alert-Info"], &["Subject: none"]);
        s.domain_rules[0].headers = Some(Arc::new(all));
    });
    lab.phones(&[BOB]);
    // A stranger's identity and commands go in any case.
    let lines = ["P-Asserted-Identity: <sip:ceo@here.example>", "Alert-Info: <http://x>", "X-Auto-Answer: 1"];
    let call = lines.iter().fold(Req::invite(), |call, line| call.line(line)).line("s: hello");
    let got = lab.invite(CAROL, call.text()).remove(0);
    assert_eq!(got.all("Subject"), ["none"]);
    assert!(!got.text.contains("ceo@") && !got.text.contains("http://x") && !got.text.contains("Auto"));
    assert!(got.text.contains("User-Agent: Softphone") && got.text.ends_with("\r\n\r\n"), "{}", got.text);
}

#[test]
fn request_that_rules_make_large_leaves_over_tcp() {
    let call = call_out().line(&format!("X-Fill: {}", "f".repeat(400)));
    for (len, transport) in [(10, Transport::Udp), (400, Transport::Tcp)] {
        let mut lab = lab(|s| {
            let long = rules(&[], &[&format!("X-Long: {}", "l".repeat(len))]);
            s.trunks[0].headers = Some(Arc::new(long));
        });
        let sent = lab.invite(ALICE, call.text()).remove(0);
        assert_eq!(sent.flow.transport, transport, "{} bytes", sent.text.len());
    }
}
