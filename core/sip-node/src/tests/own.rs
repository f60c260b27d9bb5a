//! Requests for the server itself: RFC 3261 sections 8.2 and 11.

use super::*;

#[test]
fn options() {
    let mut lab = Lab::new();
    for uri in
        ["sip:here.example", "sip:198.51.100.1", "sip:198.51.100.1:5060;transport=udp", "sip:[2001:db8::1]"]
    {
        let answer = lab.ask(CAROL, Req::new("OPTIONS", uri).text());
        assert_eq!(answer.status(), 200, "{uri}");
        for name in ["Supported", "Accept", "Accept-Encoding", "Accept-Language"] {
            assert!(answer.get(name).is_some(), "{name}");
        }
        // 11.2: a proxy knows nothing of methods, so it leaves Allow out.
        assert_eq!(answer.get("Allow"), None);
        assert_ne!(tag_of(answer.get("To").unwrap()), "");
    }
    assert_eq!(lab.report().transactions.server, 0, "it needs no memory");
}

#[test]
fn what_the_server_does_not_do() {
    let mut lab = Lab::new();
    for (method, status) in
        [("INVITE", 484), ("MESSAGE", 405), ("SUBSCRIBE", 405), ("FOO", 501), ("PUBLISH", 405)]
    {
        let answer = lab.ask(CAROL, Req::new(method, "sip:here.example").text());
        assert_eq!(answer.status(), status, "{method}");
        // 21.4.6.
        assert_eq!(answer.get("Allow").is_some(), status == 405, "{method}");
    }
    // Within no dialog of ours.
    let bye = Req { to: "<sip:here.example>;tag=x".to_owned(), ..Req::new("BYE", "sip:here.example") };
    assert_eq!(lab.ask(CAROL, bye.text()).status(), 481);
}

#[test]
fn the_method_is_looked_at_before_what_it_requires() {
    // 8.2.1 before 8.2.2.3.
    let mut lab = Lab::new();
    let require = |method: &str| Req::new(method, "sip:here.example").line("Require: foo").text();
    let answer = lab.ask(CAROL, require("OPTIONS"));
    assert_eq!((answer.status(), answer.get("Unsupported")), (420, Some("foo")));
    assert_eq!(lab.ask(CAROL, require("FOO")).status(), 501);
    assert_eq!(lab.ask(CAROL, require("MESSAGE")).status(), 405);
}

#[test]
fn malformed_requests_are_answered_once_and_forgotten() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let text = Req::invite().text();
    for (broken, status) in [
        (text.replace("CSeq: 1 INVITE", "CSeq: 1 BYE"), 400),
        (text.replace("CSeq: 1 INVITE", "CSeq: 4294967299 INVITE"), 400),
        (text.replace("Content-Length: 0", "Content-Length: 5"), 400),
        (text.replace("Content-Length: 0", "Content-Length: -1"), 400),
        (text.replace("SIP/2.0\r\nVia", "SIP/7.0\r\nVia"), 505),
        (text.replace("INVITE sip:bob@here.example", "INVITE sip:bob@@here"), 400),
        (text.replace("Contact", "Route: <sip:x\r\nContact"), 400),
    ] {
        let answer = lab.ask(CAROL, &broken);
        assert_eq!(answer.status(), status, "{broken}");
    }
    assert_eq!(lab.report().transactions.server, 0);
    // Nothing comes back for what is no request at all.
    for garbage in ["", "\r\n\r\n", "hello", "INVITE sip:a SIP/2.0\r\n\r\n", "\0\0\0\0"] {
        lab.send(CAROL, garbage);
        lab.silent();
    }
    // Nor for a broken ACK or response.
    lab.send(CAROL, text.replace("INVITE", "ACK").replace("Content-Length: 0", "Content-Length: 5"));
    lab.silent();
}

#[test]
fn what_was_refused_without_memory_is_refused_alike_again() {
    // 8.2.7: the same To tag for a retransmission, another one for another request.
    let mut lab = Lab::new();
    let req = Req::new("MESSAGE", "sip:here.example");
    let first = lab.ask(CAROL, req.text());
    assert_eq!((first.status(), lab.report().transactions.server), (405, 0));
    assert_eq!(lab.ask(CAROL, req.text()).text, first.text);
    let tag = tag_of(first.get("To").unwrap());
    assert!(!tag.is_empty());
    let other = lab.ask(CAROL, Req::new("MESSAGE", "sip:here.example").text());
    assert_ne!(tag_of(other.get("To").unwrap()), tag);
    // 8.2.6.2: a tag that is there stays.
    let within =
        Req { to: "<sip:here.example>;tag=theirs".to_owned(), ..Req::new("BYE", "sip:here.example") };
    assert_eq!(lab.ask(CAROL, within.text()).get("To"), Some("<sip:here.example>;tag=theirs"));
}

#[test]
fn a_100_repeats_the_timestamp_of_its_request() {
    // 8.2.6.1. Other answers need not.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    lab.send(CAROL, Req::invite().line("Timestamp: 54.21").text());
    let sent = lab.sent();
    assert_eq!((sent[0].status(), sent[0].all("Timestamp")), (100, vec!["54.21"]));
    assert_eq!(sent[1].all("Timestamp"), ["54.21"], "and it goes on");
    assert_eq!(lab.ask(BOB, sent[1].reply(180, "b", "")).get("Timestamp"), None);
    lab.send(CAROL, Req::invite().text());
    assert_eq!(lab.sent()[0].get("Timestamp"), None);
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example").line("Timestamp: 7").text());
    lab.pass(3_600);
    let late = lab.sent().into_iter().find(|s| s.status() == 100).unwrap();
    assert_eq!(late.all("Timestamp"), ["7"]);
}

#[test]
fn what_an_ack_or_cancel_requires_is_not_looked_at() {
    // 8.2.2.3: they must not have these fields, and what stands in them is ignored.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let requires = |req: Req| req.line("Require: foo").line("Proxy-Require: foo");
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    lab.send(CAROL, requires(req.cancel()).text());
    let after = lab.sent();
    assert_eq!(
        (statuses(&after), requests(&after)),
        (vec![200], vec![("CANCEL".to_owned(), BOB.to_owned())])
    );
    let end = {
        lab.send(BOB, sent[0].reply(487, "b", ""));
        lab.sent()
    };
    let end = end.iter().find(|s| s.status() == 487).unwrap();
    lab.send(CAROL, requires(req.ack(end)).text());
    lab.pass(10_000);
    assert!(statuses(&lab.sent()).is_empty(), "the ACK has ended the repetitions");
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    let ok = lab.ask(BOB, sent[0].accept("b"));
    assert_eq!(lab.ask(CAROL, requires(req.within("ACK", &ok)).text()).to(), BOB);
    lab.rest();
}
