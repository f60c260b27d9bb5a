//! Users of ours that suppress their number (RFC 3323), in calls that need proof and in those that do not.

use super::emergency::{help, to};
use super::*;

const HELP: &str = "203.0.113.110:5060";
const NAMELESS: &str = "\"Anonymous\" <sip:anonymous@anonymous.invalid>";

/// A request without a name, from where no phone is registered.
fn nameless(method: &str, uri: &str) -> Req {
    let mut req = to(method, uri);
    req.from = format!("{NAMELESS};tag=n{}", number());
    req
}

fn realm_of(challenge: &Sent) -> &str {
    assert_eq!(challenge.status(), 407, "{}", challenge.text);
    let line = challenge.get("Proxy-Authenticate").unwrap();
    line.split("realm=\"").nth(1).unwrap().split('"').next().unwrap()
}

#[test]
fn anonymous_emergency_call_is_challenged_and_passes() {
    for uri in ["sip:112@here.example", "sip:112@198.51.100.1", "tel:112", "urn:service:sos"] {
        for lines in [&[][..], &["P-Preferred-Identity: <sip:alice@here.example>", "Privacy: id"]] {
            let mut lab = Lab::with(|s| s.emergency = Some(help()));
            let mut call = nameless("INVITE", uri);
            call.lines.extend(lines.iter().map(|line| (*line).to_owned()));
            let challenge = lab.ask(CAROL, call.text());
            assert_eq!(realm_of(&challenge), "here.example", "{uri}");
            let again = call.answer("alice", &challenge);
            let got = lab.invite(CAROL, again.text()).remove(0);
            assert_eq!(got.to(), HELP, "{uri}");
            assert!(got.get("From").unwrap().starts_with(NAMELESS));
            assert!(got.get("Proxy-Authorization").is_none() && got.get("P-Preferred-Identity").is_none());
            lab.send(HELP, got.accept("p"));
            let ok = lab.one();
            assert_eq!(lab.ask(CAROL, again.within("ACK", &ok).text()).to(), HELP);
            assert_eq!(lab.ask(CAROL, again.within("BYE", &ok).text()).to(), HELP);
        }
    }
    // A wrong password proves nothing, and a stranger with a name of its own cannot prove anything.
    let mut lab = Lab::with(|s| s.emergency = Some(help()));
    let call = nameless("INVITE", "sip:112@here.example");
    let challenge = lab.ask(CAROL, call.text());
    assert_eq!(lab.ask(CAROL, call.answer_with("alice", "guess", &challenge).text()).status(), 407);
    assert_eq!(lab.ask(CAROL, to("INVITE", "sip:112@here.example").text()).status(), 403);
    lab.reconfigure(|s| s.emergency.as_mut().unwrap().strangers = true);
    let sent = lab.invite(CAROL, nameless("INVITE", "sip:112@here.example").text());
    assert_eq!(sent[0].to(), HELP, "anybody may");
}

#[test]
fn anonymous_call_is_challenged_where_proof_opens_the_way() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:198.51.100.200"], "+49")));
    for (uri, goes_to) in [
        ("sip:+4930123@here.example", "198.51.100.200:5060"),
        ("tel:+4930123", "198.51.100.200:5060"),
        ("sip:x@192.0.2.99", "192.0.2.99:5060"),
    ] {
        let call = nameless("INVITE", uri);
        let challenge = lab.ask(CAROL, call.text());
        assert_eq!(realm_of(&challenge), "here.example", "{uri}");
        let got = lab.invite(CAROL, call.answer("bob", &challenge).text()).remove(0);
        assert_eq!(got.to(), goes_to, "{uri}");
        assert!(got.get("Proxy-Authorization").is_none(), "{}", got.text);
    }
    let mut named = nameless("INVITE", "sip:+4930123@here.example");
    named.from = format!("<sip:x@far.example>;tag={}", number());
    assert_eq!(lab.ask(CAROL, named.text()).status(), 403, "a name of another domain");
}

#[test]
fn anonymous_stranger_calls_our_user_without_challenge() {
    let mut lab = Lab::new();
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    for method in ["INVITE", "MESSAGE"] {
        lab.send(CAROL, nameless(method, "sip:bob@here.example").text());
        let sent = lab.sent();
        assert!(requests(&sent).contains(&(method.to_owned(), BOB.to_owned())), "{sent:#?}");
    }
    // Credentials are judged although none were needed, and they go no further.
    let outside = nameless("INVITE", "sip:x@192.0.2.99");
    let challenge = lab.ask(CAROL, outside.text());
    let mut call = nameless("INVITE", "sip:bob@here.example");
    let brought = |mut call: Req, password: &str| {
        call.uri = "sip:bob@here.example".to_owned();
        call.answer_with("alice", password, &challenge)
    };
    assert_eq!(lab.ask(CAROL, brought(call.clone(), "guess").text()).status(), 407);
    call.call_id += "2";
    let got = lab.invite(CAROL, brought(call, "secret-a").text()).remove(0);
    assert_eq!((got.to().as_str(), got.get("Proxy-Authorization")), (BOB, None));
    // What strangers may not send is open to who proves to be one of ours.
    lab.reconfigure(|s| s.proxy.strangers.allowed = false);
    let call = nameless("INVITE", "sip:bob@here.example");
    let challenge = lab.ask(CAROL, call.text());
    assert_eq!(lab.invite(CAROL, call.answer("alice", &challenge).text())[0].to(), BOB);
}

#[test]
fn realm_of_anonymous_call_is_of_the_domain_it_names() {
    let domains = |s: &mut Settings| {
        s.domains.push(b"second.example".to_vec());
        s.emergency = Some(help());
    };
    let mut lab = Lab::with(domains);
    lab.world.users.borrow_mut().push(("erin", "second.example", "secret-e"));
    for (uri, line, realm) in [
        ("sip:112@second.example", None, "second.example"),
        ("urn:service:sos", None, "here.example"),
        ("urn:service:sos", Some("P-Preferred-Identity: <sip:erin@second.example>"), "second.example"),
        ("urn:service:sos", Some("P-Preferred-Identity: <sip:erin@far.example>"), "here.example"),
        (
            "urn:service:sos",
            Some("Proxy-Authorization: Digest username=\"erin\", realm=\"second.example\", nonce=\"x\""),
            "second.example",
        ),
        (
            "urn:service:sos",
            Some("Proxy-Authorization: Digest username=\"erin\", realm=\"far.example\", nonce=\"x\""),
            "here.example",
        ),
    ] {
        let mut call = nameless("INVITE", uri);
        call.lines.extend(line.map(str::to_owned));
        let challenge = lab.ask(CAROL, call.text());
        assert_eq!(realm_of(&challenge), realm, "{uri} {line:?}");
        if realm == "second.example" {
            call.lines.retain(|line| !line.starts_with("Proxy-A"));
            let again = call.answer_with("erin", "secret-e", &challenge);
            assert_eq!(lab.invite(CAROL, again.text())[0].to(), HELP, "{uri} {line:?}");
        }
    }
    lab.reconfigure(|s| {
        domains(s);
        s.auth.realm = Some(b"one.example".to_vec());
    });
    let call = nameless("INVITE", "sip:112@second.example");
    let challenge = lab.ask(CAROL, call.text());
    assert_eq!(realm_of(&challenge), "one.example");
    assert_eq!(lab.invite(CAROL, call.answer_with("erin", "secret-e", &challenge).text())[0].to(), HELP);
}

#[test]
fn anonymous_in_our_domain_needs_credentials_of_any_user() {
    let mut lab = Lab::with(|s| s.emergency = Some(help()));
    for user in ["anonymous", "Anonymous"] {
        let mut call = to("INVITE", "sip:112@here.example");
        call.from = format!("<sip:{user}@here.example>;tag={}", number());
        let challenge = lab.ask(CAROL, call.text());
        assert_eq!(lab.invite(CAROL, call.answer("alice", &challenge).text())[0].to(), HELP, "{user}");
        call.from = format!("<sip:bob@here.example>;tag={}", number());
        let challenge = lab.ask(CAROL, call.text());
        assert_eq!(
            lab.ask(CAROL, call.answer("alice", &challenge).text()).status(),
            403,
            "a name of another"
        );
    }
}

#[test]
fn anonymous_call_passes_where_no_user_is_asked() {
    let mut lab = Lab::with(|s| {
        s.emergency = Some(help());
        s.auth.enabled = false;
    });
    assert_eq!(lab.invite(CAROL, nameless("INVITE", "sip:112@here.example").text())[0].to(), HELP);
    // A method that is not asked for proves nothing, except at a registered phone.
    let mut lab = Lab::with(|s| s.auth.challenge = Challenge::Only(vec![b"REGISTER".to_vec()]));
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    let call = nameless("INVITE", "sip:x@192.0.2.99");
    assert_eq!(lab.ask(CAROL, call.text()).status(), 403);
    let call = nameless("INVITE", "sip:x@192.0.2.99").sent_by("UDP", ALICE);
    assert_eq!(lab.invite(ALICE, call.text())[0].to(), "192.0.2.99:5060");
}

#[test]
fn anonymous_caller_commands_within_its_own_call() {
    let mut lab = Lab::with(|s| {
        s.auth.in_dialog = false;
        s.trunks.push(trunk(&["sip:198.51.100.200"], "+49"));
    });
    let call = nameless("INVITE", "sip:+4930123@here.example");
    let challenge = lab.ask(CAROL, call.text());
    let call = call.answer("alice", &challenge);
    let got = lab.invite(CAROL, call.text()).remove(0);
    lab.send("198.51.100.200:5060", got.accept("p"));
    let ok = lab.one();
    let refer = call.within("REFER", &ok);
    assert_eq!(lab.ask(CAROL, refer.text()).to(), "198.51.100.200:5060");
    // From beside it with proof only; credentials are always judged and go no further.
    let beside = "192.0.2.10:5099";
    let challenge = lab.ask(beside, call.within("REFER", &ok).text());
    let refer = Req { cseq: 20, ..call.within("REFER", &ok) };
    assert_eq!(lab.ask(beside, refer.answer_with("alice", "guess", &challenge).text()).status(), 407);
    let passed = lab.ask(beside, refer.answer("alice", &challenge).text());
    assert_eq!((passed.to().as_str(), passed.get("Proxy-Authorization")), ("198.51.100.200:5060", None));
    for (cseq, password, reaches) in [(30, "guess", None), (40, "secret-a", Some("198.51.100.200:5060"))] {
        let challenge = lab.ask(beside, Req { cseq, ..call.within("REFER", &ok) }.text());
        let info = Req { cseq: cseq + 1, ..call.within("INFO", &ok) };
        let sent = lab.ask(CAROL, info.answer_with("alice", password, &challenge).text());
        assert_eq!((sent.status() == 0).then(|| sent.to()).as_deref(), reaches);
        assert_eq!(sent.get("Proxy-Authorization"), None);
    }
    // Under the name of a user.
    let mut named = call.within("REFER", &ok);
    named.from = format!("<sip:alice@here.example>;tag={}", tag_of(&call.from));
    assert_eq!(lab.ask(CAROL, named.text()).status(), 407);
}

/// A phone of the second domain took a call for a name of the carrier's, and has another address now.
#[test]
fn phone_proves_itself_in_the_domain_of_its_credentials() {
    let mut lab = Lab::with(|s| {
        s.domains.push(b"second.example".to_vec());
        s.trunks.push(trunk(&["sip:198.51.100.200"], "+49"));
    });
    lab.world.users.borrow_mut().push(("erin", "second.example", "secret-e"));
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    let mut invite = Req::invite().sent_by("UDP", "198.51.100.200:5060");
    invite.to = "<sip:+4930@carrier.example>".to_owned();
    let got = lab.invite("198.51.100.200:5060", invite.text()).remove(0);
    lab.ask(BOB, got.accept("b"));
    let moved = "192.0.2.66:5060";
    let bye = from_callee(&got, "BYE", moved, "<sip:+4930@carrier.example>");
    assert_eq!(realm_of(&lab.ask(moved, bye.text())), "here.example");
    let stale = "Proxy-Authorization: Digest username=\"erin\", realm=\"second.example\", nonce=\"x\"";
    let mut brought = Req { cseq: 10, ..bye.clone() };
    brought.lines.push(stale.to_owned());
    let challenge = lab.ask(moved, brought.text());
    assert_eq!(realm_of(&challenge), "second.example");
    let bye = Req { cseq: 11, ..bye }.answer_with("erin", "secret-e", &challenge);
    lab.send(moved, bye.text());
    assert!(lab.sent().iter().any(|s| s.to() == "198.51.100.200:5060"));
}
