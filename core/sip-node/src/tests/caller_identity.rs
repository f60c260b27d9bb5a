//! Who calls, as trunks are told (RFC 3325, RFC 3323), and which numbers users may present.

use super::*;
use ::call_rules::{Callers, HeaderRules, Identity, Numbers};

const CARRIER: &str = "203.0.113.5:5060";
const OTHER: &str = "198.18.0.5:5060";
const MAIN: &str = "<sip:+493012345600@here.example>";
const NAMELESS: &str = "\"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=n1";

fn learns(identity: Identity) -> Option<Arc<HeaderRules>> {
    Some(Arc::new(HeaderRules::default().with_identity(identity, None)))
}

fn numbers(list: &[&str]) -> Numbers {
    Numbers::parse(list).expect("good numbers")
}

/// A server whose carrier learns in this way who calls. Alice has numbers, and others have one for all.
fn lab(identity: Identity) -> Lab {
    let mut lab = Lab::with(|s| {
        s.trunks.push(Trunk { headers: learns(identity), ..trunk(&["sip:203.0.113.5"], "+") });
        let mut callers = Callers::new(Some(numbers(&["+493012345699"])));
        callers.add(b"alice", numbers(&["+493012345600", "+493012345611", "+4930999*"]));
        let name = b"here.example".to_vec();
        s.domain_rules.push(Domain { name, callers, ..Domain::default() });
    });
    lab.phones(&[BOB]);
    lab
}

fn call() -> Req {
    Req::new("INVITE", "sip:+4940@here.example").alice()
}

/// The request that leaves for the carrier when this user has proven itself.
fn out(lab: &mut Lab, call: &Req, user: &str) -> Sent {
    let challenge = lab.ask(ALICE, call.text());
    lab.invite(ALICE, call.answer(user, &challenge).text()).remove(0)
}

#[test]
fn trunk_that_trusts_us_gets_the_number_as_asserted_identity() {
    let mut lab = lab(Identity::Asserted);
    for (wanted, number) in [
        (None, "+493012345600"),
        (Some("sip:+493012345611@here.example"), "+493012345611"),
        (Some("tel:+4930999123"), "+4930999123"),
        (Some("sip:+4911@here.example"), "+493012345600"),
        (Some("sip:+4930999\"@here.example"), "+493012345600"),
    ] {
        let mut call = call().line("P-Asserted-Identity: <sip:ceo@here.example>");
        call.lines.extend(wanted.map(|uri| format!("P-Preferred-Identity: <{uri}>")));
        let sent = out(&mut lab, &call, "alice");
        let asserted = format!("<sip:{number}@here.example>");
        assert_eq!(sent.all("P-Asserted-Identity"), [asserted.as_str()], "{wanted:?}");
        assert_eq!((sent.get("P-Preferred-Identity"), sent.get("Privacy")), (None, None));
        assert_eq!(sent.get("From"), Some(call.from.as_str()));
    }
    let mut other = call();
    other.from = "<sip:dave@here.example>;tag=d1".to_owned();
    let sent = out(&mut lab, &other, "dave");
    assert_eq!(sent.get("P-Asserted-Identity"), Some("<sip:+493012345699@here.example>"));
}

#[test]
fn credentials_that_were_not_accepted_name_nobody() {
    let mut lab = lab(Identity::Asserted);
    for (header, name) in [
        ("Proxy-Authorization", "dave"),
        ("Proxy-Authorization", "+15551234567@x>,<sip:y"),
        ("Authorization", "dave@here.example"),
    ] {
        let call = call();
        let challenge = lab.ask(ALICE, call.text());
        let mut proven = call.answer("alice", &challenge);
        let forged = format!(
            "{header}: Digest username=\"{name}\", realm=\"here.example\", nonce=\"x\", uri=\"{}\", \
             response=\"0\"",
            call.uri
        );
        proven.lines.insert(0, forged);
        let sent = lab.invite(ALICE, proven.text()).remove(0);
        assert_eq!(sent.all("P-Asserted-Identity"), [MAIN], "{header} {name}");
    }
}

#[test]
fn suppressed_number_is_asserted_with_privacy() {
    let mut lab = lab(Identity::Asserted);
    let mut nameless = call();
    nameless.from = NAMELESS.to_owned();
    let sent = out(&mut lab, &nameless, "alice");
    assert_eq!(sent.get("P-Asserted-Identity"), Some(MAIN));
    assert_eq!((sent.all("Privacy"), sent.get("From")), (vec!["id"], Some(NAMELESS)));
    let sent = out(&mut lab, &nameless.line("Privacy: id;critical"), "alice");
    assert_eq!((sent.get("P-Asserted-Identity"), sent.all("Privacy")), (Some(MAIN), vec!["id;critical"]));
    // To a phone nothing is asserted.
    let mut inside = Req::invite().alice();
    inside.from = NAMELESS.to_owned();
    let sent = lab.invite(ALICE, inside.text()).remove(0);
    assert_eq!((sent.to().as_str(), sent.get("P-Asserted-Identity"), sent.get("Privacy")), (BOB, None, None));
}

#[test]
fn trunk_gets_the_number_in_from_and_the_caller_its_own_from() {
    let mut lab = lab(Identity::From);
    let mut call = call();
    call.from = call.from.replacen('<', "\"Alice\" <", 1);
    let (own, tag) = (call.from.clone(), tag_of(&call.from).to_owned());
    let sent = out(&mut lab, &call, "alice");
    let number = format!("\"Alice\" {MAIN};tag={tag}");
    assert_eq!((sent.get("From"), sent.get("P-Asserted-Identity")), (Some(number.as_str()), None));
    let from = |lab: &mut Lab, reply: String| lab.ask(CARRIER, reply).get("From").map(str::to_owned);
    assert_eq!(from(&mut lab, sent.reply(180, "x", "")), Some(own.clone()));
    // The first answer, and the same again when only little is remembered.
    let ok = sent.accept("x");
    for _ in 0..3 {
        assert_eq!(from(&mut lab, ok.clone()), Some(own.clone()));
    }
    lab.rest();
    // A failure goes through the choice of the best response.
    let sent = out(&mut lab, &self::call(), "alice");
    lab.send(CARRIER, sent.reply(486, "x", ""));
    let all = lab.sent();
    let ack = all.iter().find(|sent| sent.method() == "ACK").expect("an ACK");
    assert_eq!(ack.get("From"), sent.get("From"), "of the same transaction");
    let failure = all.iter().find(|sent| sent.status() == 486).expect("a failure");
    assert!(failure.get("From").unwrap().starts_with("<sip:alice@here.example>"), "{}", failure.text);
}

#[test]
fn anonymous_from_stays() {
    let mut lab = lab(Identity::From);
    let mut nameless = call();
    nameless.from = NAMELESS.to_owned();
    let sent = out(&mut lab, &nameless, "alice");
    assert_eq!((sent.get("From"), sent.get("P-Asserted-Identity")), (Some(NAMELESS), None));
}

#[test]
fn requests_within_a_call_assert_nothing() {
    for identity in [Identity::Asserted, Identity::From] {
        let mut lab = lab(identity);
        lab.reconfigure(|s| s.auth.in_dialog = false);
        let call = call();
        let challenge = lab.ask(ALICE, call.text());
        let proven = call.answer("alice", &challenge);
        let sent = lab.invite(ALICE, proven.text()).remove(0);
        let ok = lab.ask(CARRIER, sent.accept("x"));
        lab.send(ALICE, proven.within("BYE", &ok).text());
        let all = lab.sent();
        let bye = all.iter().find(|sent| sent.method() == "BYE").unwrap_or_else(|| panic!("{all:?}"));
        assert_eq!((bye.get("P-Asserted-Identity"), bye.get("From")), (None, Some(call.from.as_str())));
    }
}

#[test]
fn trunk_outside_the_trust_domain_is_neither_told_nor_believed() {
    let mut lab = lab(Identity::Withheld);
    lab.reconfigure(|s| {
        let sources = vec![("198.18.0.0".parse().unwrap(), 15)];
        s.trunks.push(Trunk { sources, may_transit: true, ..trunk(&["sip:198.18.0.5"], "0") });
        s.trunks[0].may_transit = true;
    });
    let identity = "P-Asserted-Identity: <sip:+1@far.example>";
    let from = |trunk: &str, uri: &str| Req::new("INVITE", uri).sent_by("UDP", trunk).line(identity);
    // From a trusted trunk to it, from it to a trusted trunk, and from each to a phone.
    for (trunk, uri, passes) in [
        (OTHER, "sip:+4940@here.example", false),
        (CARRIER, "sip:0123@here.example", false),
        (CARRIER, "sip:bob@here.example", false),
        (OTHER, "sip:bob@here.example", true),
    ] {
        let sent = lab.invite(trunk, from(trunk, uri).text()).remove(0);
        assert_eq!(sent.get("P-Asserted-Identity").is_some(), passes, "{trunk} {uri}");
        // Who answered is told in the same way.
        let answer = sent.reply(180, "x", "P-Asserted-Identity: <sip:+2@far.example>\r\n");
        let told = lab.ask(&sent.to(), answer).get("P-Asserted-Identity").is_some();
        assert!(!told, "{trunk} {uri}");
    }
}
