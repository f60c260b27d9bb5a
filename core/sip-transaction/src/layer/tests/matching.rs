//! Section 17.2.3: what is a retransmission, and what is not.

use super::*;

fn is_new(inbound: Inbound) -> bool {
    matches!(inbound, Inbound::New(_))
}

#[test]
fn case_of_branch_and_host_and_a_default_port_do_not_matter() {
    let mut b = Bench::new();
    let mut bye = Request::new("BYE", "z9hG4bKAbC");
    bye.via = "SIP/2.0/UDP PC33.example.com;branch=z9hG4bKAbC".to_owned();
    assert!(is_new(b.receive(&bye, udp(1))));
    bye.via = "SIP/2.0/UDP pc33.EXAMPLE.com:5060;branch=Z9HG4BKaBc;rport".to_owned();
    assert_eq!(b.receive(&bye, udp(1)), Inbound::Absorbed);
}

#[test]
fn another_branch_sender_method_call_or_number_is_another_transaction() {
    all_are_told_apart(Bench::new());
}

#[test]
fn keys_are_compared_in_full_where_hashes_are_equal() {
    let mut b = Bench::new();
    b.layer.keys.mask = 0;
    all_are_told_apart(b);
}

fn all_are_told_apart(mut b: Bench) {
    let bye = Request::new("BYE", "z9hG4bKa");
    assert!(is_new(b.receive(&bye, udp(1))));
    let via = |via: &str| Request { via: via.to_owned(), ..bye.clone() };
    let others = [
        via("SIP/2.0/UDP pc33.example.com:5062;branch=z9hG4bKb"),
        via("SIP/2.0/UDP pc33.example.com:5063;branch=z9hG4bKa"),
        via("SIP/2.0/UDP pc34.example.com:5062;branch=z9hG4bKa"),
        via("SIP/2.0/UDP pc33.example.co:5062;branch=z9hG4bKam"),
        bye.method("OPTIONS"),
        bye.method("FROB"),
        bye.method("FROBNICATE"),
        Request { call_id: "call-2@pc33".to_owned(), ..bye.clone() },
        Request { call_id: "CALL-1@pc33".to_owned(), ..bye.clone() },
        Request { cseq: 8, ..bye.clone() },
    ];
    for other in &others {
        assert!(is_new(b.receive(other, udp(1))), "{}", other.text());
    }
    for other in &others {
        assert_eq!(b.receive(other, udp(1)), Inbound::Absorbed, "{}", other.text());
    }
}

#[test]
fn same_branch_from_two_sources_does_not_cross_talk() {
    let mut b = Bench::new();
    let one = Request::new("INVITE", "z9hG4bK1");
    let two = Request { call_id: "other@pc33".to_owned(), ..one.clone() };
    let (first, second) = (b.new_server(&one, udp(1)), b.new_server(&two, udp(2)));
    b.respond(first, &one, 486);
    b.respond(second, &two, 404);
    b.sent();
    b.receive(&one, udp(1));
    b.receive(&two, udp(2));
    assert_eq!(b.sent(), [("486".to_owned(), udp(1)), ("404".to_owned(), udp(2))]);
    b.receive(&one.method("ACK"), udp(1));
    b.pass(Duration::from_millis(600));
    assert_eq!(b.sent(), lines(1, "404", udp(2)), "only one was acknowledged");
}

#[test]
fn a_request_may_be_accepted_after_others_were_looked_at() {
    let bye = Request::new("BYE", "z9hG4bKAbCdEfGhIj");
    let others = [
        Request { via: bye.via.replace("AbCdEfGhIj", "AbCdEfGhIk"), ..bye.clone() },
        Request { via: bye.via.replace("AbCdEfGhIj", "XbCdEfGhIj"), ..bye.clone() },
        Request { via: bye.via.replace("pc33", "pc34"), ..bye.clone() },
        Request { via: bye.via.replace("5062", "5063"), ..bye.clone() },
        Request { call_id: "call-2@pc33".to_owned(), ..bye.clone() },
        Request { cseq: 8, ..bye.clone() },
        bye.method("FROB"),
        old("BYE", ""),
        bye.clone(),
    ];
    for other in &others {
        let mut b = Bench::new();
        // Where there are no transactions, nothing is read of what may belong to one.
        b.new_server(&Request::new("BYE", "z9hG4bKbefore"), udp(3));
        parsed(bye.text().as_bytes(), |first| {
            let first = b.layer.prepare(first);
            assert_eq!(b.layer.absorb(b.now, &first, udp(1), &mut b.out), None);
            parsed(other.text().as_bytes(), |second| {
                let second = b.layer.prepare(second);
                b.layer.absorb(b.now, &second, udp(2), &mut b.out)
            });
            let id = b.layer.accept(b.now, &first, udp(1), Payer::PROVEN).expect("room");
            assert_eq!(b.layer.reply_of(id), Some(udp(1)));
        });
        assert_eq!(b.receive(&bye, udp(1)), Inbound::Absorbed, "accepted under the key of {}", other.text());
    }
}

#[test]
fn prepared_requests_have_a_key_each() {
    let (one, other) = (Request::new("INVITE", "z9hG4bKone"), Request::new("INVITE", "z9hG4bKother"));
    for (first, second) in [(&one, &other), (&other, &one), (&one, &one)] {
        let mut b = Bench::new();
        b.new_server(&one, udp(1));
        let texts = [first.text(), second.text()];
        parsed(texts[0].as_bytes(), |first| {
            let first = b.layer.prepare(first);
            parsed(texts[1].as_bytes(), |second| {
                let second = b.layer.prepare(second);
                for (request, text) in [&first, &second].into_iter().zip(&texts) {
                    let found = b.layer.absorb(b.now, request, udp(1), &mut b.out);
                    assert_eq!(found, (*text == one.text()).then_some(Inbound::Absorbed), "{text}");
                }
            });
        });
    }
}

/// One that was prepared when nothing could match it is found all the same.
#[test]
fn a_request_prepared_too_early_is_found() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    parsed(invite.text().as_bytes(), |message| {
        let early = b.layer.prepare(message);
        b.new_server(&invite, udp(1));
        assert_eq!(b.layer.absorb(b.now, &early, udp(1), &mut b.out), Some(Inbound::Absorbed));
    });
}

#[test]
fn an_ack_belongs_to_its_invite_only() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    assert_eq!(b.receive(&invite.method("ACK"), udp(1)), Inbound::Absorbed, "for nothing");
    assert_eq!(b.layer.is_answered(id), Some(false));
    b.respond(id, &invite, 486);
    let other = Request::new("ACK", "z9hG4bKother");
    assert_eq!(b.receive(&other, udp(1)), Inbound::AckOutside);
    let bye = Request::new("BYE", "z9hG4bKbye");
    b.new_server(&bye, udp(1));
    assert_eq!(b.receive(&bye.method("ACK"), udp(1)), Inbound::AckOutside, "a BYE has no ACK");
    b.sent();
    b.pass(Duration::from_millis(600));
    assert_eq!(b.sent(), lines(1, "486", udp(1)));
}

#[test]
fn a_cancel_finds_its_invite_and_has_a_transaction_of_its_own() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let cancel = invite.method("CANCEL");
    let target = b.new_server(&invite, udp(1));
    let Inbound::Cancel { id, invite: found, matched } = b.receive(&cancel, udp(1)) else { panic!() };
    assert_eq!((found, matched), (Some(target), true));
    assert_ne!(id, target);
    assert!(b.respond(id, &cancel, 200) && b.respond(target, &invite, 487));
    b.sent();
    assert_eq!(b.receive(&cancel, udp(1)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(1, "200", udp(1)));
    assert_eq!(b.receive(&invite, udp(1)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(1, "487", udp(1)), "the INVITE is still found behind its CANCEL");
    assert_eq!(b.receive(&invite.method("ACK"), udp(1)), Inbound::Absorbed);
}

#[test]
fn a_cancel_of_nothing_or_of_another_method_cancels_no_invite() {
    let mut b = Bench::new();
    let stray = Request::new("CANCEL", "z9hG4bKnone");
    assert!(matches!(b.receive(&stray, udp(1)), Inbound::Cancel { invite: None, matched: false, .. }));
    let bye = Request::new("BYE", "z9hG4bKa");
    b.new_server(&bye, udp(1));
    let cancel = bye.method("CANCEL");
    assert!(matches!(b.receive(&cancel, udp(1)), Inbound::Cancel { invite: None, matched: true, .. }));
    let invite = Request::new("INVITE", "z9hG4bKb");
    b.new_server(&invite, udp(1));
    let foreign = Request { call_id: "guess@x".to_owned(), ..invite.method("CANCEL") };
    assert!(matches!(b.receive(&foreign, udp(6)), Inbound::Cancel { invite: None, matched: false, .. }));
}

/// A request of an RFC 2543 client: no branch, or one without the cookie, or nothing after it.
fn old(method: &'static str, via_param: &str) -> Request {
    let mut request = Request::new(method, "");
    request.via = format!("SIP/2.0/UDP old.example.com{via_param}");
    request
}

#[test]
fn rfc_2543_requests_match_by_what_they_have() {
    for param in ["", ";branch=1", ";branch=z9hG4bK", ";branch=Z9hg4bK"] {
        let mut b = Bench::new();
        let first = old("MESSAGE", param);
        assert!(is_new(b.receive(&first, udp(1))), "{param}");
        assert_eq!(b.receive(&first, udp(1)), Inbound::Absorbed, "{param}");
        let spaced = Request { via: first.via.replace("UDP old", "UDP   OLD"), ..first.clone() };
        assert_eq!(b.receive(&spaced, udp(1)), Inbound::Absorbed, "{param}");
        let others = [
            first.method("OPTIONS"),
            first.method("FROB"),
            Request { uri: "sip:carol@example.com", ..first.clone() },
            Request { to_tag: "x", ..first.clone() },
            Request { call_id: "call-2".to_owned(), ..first.clone() },
            Request { cseq: 8, ..first.clone() },
            Request { via: first.via.replace("old", "older"), ..first.clone() },
        ];
        for other in &others {
            assert!(is_new(b.receive(other, udp(1))), "{}", other.text());
        }
        let from = first.text().replace("tag=from1", "tag=from2");
        let inbound = parsed(from.as_bytes(), |m| b.layer.receive_request(b.now, m, udp(1), &mut b.out));
        assert!(is_new(inbound), "{from}");
    }
}

#[test]
fn an_rfc_2543_ack_is_for_a_failure_only_if_its_to_tag_says_so() {
    let mut b = Bench::new();
    let invite = old("INVITE", "");
    let id = b.new_server(&invite, udp(1));
    b.respond(id, &invite, 486);
    let ack = |to_tag| Request { to_tag, ..invite.method("ACK") };
    assert_eq!(b.receive(&ack("other"), udp(1)), Inbound::AckOutside);
    assert_eq!(b.receive(&ack(""), udp(1)), Inbound::AckOutside);
    assert_eq!(b.receive(&ack("TO1"), udp(1)), Inbound::Absorbed, "tags are tokens");
    b.sent();
    b.pass(Duration::from_millis(600));
    assert_eq!(b.sent(), [], "acknowledged");
    assert_eq!(b.receive(&ack("to1"), udp(1)), Inbound::Absorbed, "again");
}

#[test]
fn an_rfc_2543_ack_of_an_accepted_invite_goes_to_the_transaction_user() {
    let mut b = Bench::new();
    let invite = old("INVITE", ";branch=7");
    let id = b.new_server(&invite, udp(1));
    b.respond(id, &invite, 200);
    let ack = Request { to_tag: "to1", ..invite.method("ACK") };
    assert_eq!(b.receive(&ack, udp(1)), Inbound::AckOutside);
}

#[test]
fn an_rfc_2543_cancel_finds_its_invite() {
    let mut b = Bench::new();
    let invite = old("INVITE", "");
    let target = b.new_server(&invite, udp(1));
    let cancel = invite.method("CANCEL");
    assert!(matches!(b.receive(&cancel, udp(1)), Inbound::Cancel { invite: Some(id), .. } if id == target));
}

#[test]
fn enormous_fields_are_told_apart_and_take_little_room() {
    let mut b = Bench::new();
    let long = "x".repeat(1_000);
    let one = Request { call_id: format!("{long}1"), ..Request::new("BYE", "z9hG4bKa") };
    let two = Request { call_id: format!("{long}2"), ..one.clone() };
    let id = b.new_server(&one, udp(1));
    b.new_server(&two, udp(1));
    assert_eq!((b.receive(&one, udp(1)), b.receive(&two, udp(1))), (Inbound::Absorbed, Inbound::Absorbed));
    assert!((1..=64).contains(&b.layer.servers.kept_bytes(id)));
}

#[test]
fn fields_do_not_run_together() {
    let mut b = Bench::new();
    // Branch, host and Call-ID follow each other in the key; moving bytes between them must show.
    let make = |branch: &str, host: &str, call: &str| Request {
        via: format!("SIP/2.0/UDP {host};branch=z9hG4bK{branch}"),
        call_id: call.to_owned(),
        ..Request::new("BYE", "")
    };
    for request in
        [make("ab", "cd", "ef"), make("abc", "d", "ef"), make("ab", "cde", "f"), make("a", "bcd", "ef")]
    {
        assert!(is_new(b.receive(&request, udp(1))), "{}", request.text());
    }
}
