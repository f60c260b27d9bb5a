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
        assert!(answer.get("Supported").is_some() && answer.get("Accept").is_some());
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
