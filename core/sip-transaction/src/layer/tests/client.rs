use super::*;

#[test]
fn an_invite_over_udp_is_sent_seven_times_then_times_out() {
    let mut b = Bench::new();
    let (id, _) = b.send(Method::Invite, udp(9), 5);
    b.pass(T1_X64 - TICK);
    assert_eq!(b.sent(), lines(7, "INVITE", udp(9)));
    b.pass(TICK * 2);
    assert_eq!(b.happened(), [Event::ClientTimeout { id, user: 5 }]);
    assert_eq!((b.sent(), b.layer.counts().requests_resent), (vec![], 6));
    b.assert_empty();
}

#[test]
fn an_invite_over_tcp_is_sent_once_then_times_out() {
    let mut b = Bench::new();
    let (id, _) = b.send(Method::Invite, tcp(9), 5);
    b.pass(T1_X64 + TICK);
    assert_eq!(b.sent(), lines(1, "INVITE", tcp(9)));
    assert_eq!(b.happened(), [Event::ClientTimeout { id, user: 5 }]);
}

#[test]
fn a_call_that_is_answered_delivers_every_2xx_and_acknowledges_none() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.sent();
    let deliver = Outcome::Deliver { user: 5 };
    assert_eq!(b.hear(id, &invite, 100, "INVITE", ""), deliver);
    assert_eq!(b.hear(id, &invite, 180, "INVITE", "t"), deliver);
    b.pass(Duration::from_secs(60));
    assert_eq!(b.hear(id, &invite, 200, "INVITE", "t"), deliver);
    assert_eq!(b.hear(id, &invite, 200, "INVITE", "t"), deliver, "a retransmission");
    assert_eq!(b.hear(id, &invite, 200, "INVITE", "u"), deliver, "another branch");
    assert_eq!(b.hear(id, &invite, 486, "INVITE", "v"), Outcome::Absorbed);
    assert_eq!(b.hear(id, &invite, 180, "INVITE", "v"), Outcome::Absorbed);
    b.pass(T1_X64 - TICK);
    assert_eq!((b.sent(), b.happened()), (vec![], vec![]));
    b.pass(TICK * 2);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 5 }]);
    assert_eq!(b.hear(id, &invite, 200, "INVITE", "t"), Outcome::Unknown);
    b.assert_empty();
}

#[test]
fn a_failure_is_acknowledged_with_what_17_1_1_3_asks_for() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.sent();
    assert_eq!(b.hear(id, &invite, 486, "INVITE", "busy"), Outcome::Deliver { user: 5 });
    let expected = format!(
        "ACK sip:bob@192.0.2.9 SIP/2.0\r\n\
         Via: SIP/2.0/UDP proxy.example.com;branch=z9hG4bK{}\r\n\
         Route: <sip:one.example.com;lr>\r\nRoute: <sip:two.example.com;lr>\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=from1\r\nTo: <sip:bob@example.com>;tag=busy\r\n\
         Call-ID: call-1@pc33\r\nCSeq: 7 ACK\r\nContent-Length: 0\r\n\r\n",
        String::from_utf8_lossy(&id.encode())
    );
    assert_eq!(b.messages(), [(expected.clone(), udp(9))]);
    assert_eq!(b.hear(id, &invite, 486, "INVITE", "busy"), Outcome::Absorbed);
    assert_eq!(b.messages(), [(expected, udp(9))]);
    assert_eq!(b.hear(id, &invite, 200, "INVITE", "late"), Outcome::Absorbed);
    b.pass(T1_X64 + TICK);
    assert_eq!((b.sent(), b.happened()), (vec![], vec![Event::ClientGone { id, user: 5 }]));
    b.assert_empty();
}

#[test]
fn over_tcp_a_failure_is_acknowledged_once_and_timer_d_is_zero() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, tcp(9), 5);
    b.sent();
    assert_eq!(b.hear(id, &invite, 503, "INVITE", "t"), Outcome::Deliver { user: 5 });
    assert_eq!(b.sent(), lines(1, "ACK", tcp(9)));
    b.pass(TICK);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 5 }]);
    b.assert_empty();
}

#[test]
fn an_ack_that_cannot_be_sent_ends_the_transaction() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.hear(id, &invite, 486, "INVITE", "t");
    let token = b.last_token();
    b.layer.undeliverable(token, &mut b.events);
    assert_eq!(b.happened(), [Event::ClientUnreachable { id, user: 5 }]);
    b.assert_empty();
}

#[test]
fn a_late_transport_error_does_not_end_a_ringing_call() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    let token = b.last_token();
    b.hear(id, &invite, 180, "INVITE", "t");
    b.layer.undeliverable(token, &mut b.events);
    assert_eq!(b.happened(), []);
    assert!(b.layer.is_proceeding(id));
}

#[test]
fn a_bye_is_repeated_up_to_every_t2_and_its_answer_delivered_once() {
    let mut b = Bench::new();
    let (id, bye) = b.send(Method::Bye, udp(9), 6);
    b.pass(Duration::from_secs(8));
    assert_eq!(b.sent(), lines(5, "BYE", udp(9)), "0, 0.5, 1.5, 3.5, 7.5 s");
    assert_eq!(b.hear(id, &bye, 200, "BYE", "t"), Outcome::Deliver { user: 6 });
    assert_eq!(b.hear(id, &bye, 200, "BYE", "t"), Outcome::Absorbed);
    b.pass(Duration::from_secs(5) - TICK);
    assert_eq!((b.sent(), b.happened()), (vec![], vec![]));
    b.pass(TICK * 2);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 6 }], "timer K");
    b.assert_empty();
}

#[test]
fn a_bye_without_answer_times_out_and_over_tcp_it_is_gone_with_its_answer() {
    let mut b = Bench::new();
    let (id, _) = b.send(Method::Bye, udp(9), 6);
    b.pass(T1_X64 + TICK);
    assert_eq!(b.happened(), [Event::ClientTimeout { id, user: 6 }]);
    assert_eq!(b.sent(), lines(11, "BYE", udp(9)));
    let (id, bye) = b.send(Method::Bye, tcp(9), 6);
    assert_eq!(b.hear(id, &bye, 404, "BYE", "t"), Outcome::Deliver { user: 6 });
    b.pass(TICK);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 6 }]);
    b.assert_empty();
}

#[test]
fn a_response_must_have_the_requests_method_and_a_living_id() {
    let mut b = Bench::new();
    let (id, text) = b.send(Method::Other(b"FROB"), udp(9), 6);
    for method in ["INVITE", "BYE", "CANCEL", "FROBS"] {
        assert_eq!(b.hear(id, &text, 200, method, "t"), Outcome::Unknown, "{method}");
    }
    let stale = ClientId { generation: id.generation ^ 1, ..id };
    assert_eq!(b.hear(stale, &text, 200, "FROB", "t"), Outcome::Unknown);
    let nowhere = ClientId { slot: 9_999, ..id };
    assert_eq!(b.hear(nowhere, &text, 200, "FROB", "t"), Outcome::Unknown);
    assert_eq!(b.hear(id, &text, 200, "FROB", "t"), Outcome::Deliver { user: 6 });
    let reserved = b.layer.reserve_client(Payer::PROVEN).expect("room");
    assert_eq!(b.hear(reserved, &text, 200, "INVITE", "t"), Outcome::Unknown, "nothing was sent yet");
}

#[test]
fn a_cancel_waits_for_a_provisional_response() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.sent();
    b.layer.cancel(b.now, id, b"Reason: SIP;cause=200\r\n", &mut b.out);
    b.layer.cancel(b.now, id, b"Reason: SIP;cause=600\r\n", &mut b.out);
    assert_eq!(b.sent(), [], "9.1: not before a provisional response");
    assert_eq!(b.hear(id, &invite, 100, "INVITE", ""), Outcome::Deliver { user: 5 });
    let expected = format!(
        "CANCEL sip:bob@192.0.2.9 SIP/2.0\r\n\
         Via: SIP/2.0/UDP proxy.example.com;branch=z9hG4bK{}\r\n\
         Route: <sip:one.example.com;lr>\r\nRoute: <sip:two.example.com;lr>\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=from1\r\nTo: <sip:bob@example.com>\r\n\
         Call-ID: call-1@pc33\r\nCSeq: 7 CANCEL\r\nReason: SIP;cause=200\r\nContent-Length: 0\r\n\r\n",
        String::from_utf8_lossy(&id.encode())
    );
    assert_eq!(b.messages(), [(expected, udp(9))]);
    assert_eq!(b.layer.counts().cancels, 1);
    assert_eq!(b.hear(id, &invite, 180, "INVITE", "t"), Outcome::Deliver { user: 5 });
    assert_eq!(b.sent(), [], "once");
}

#[test]
fn a_cancel_is_a_transaction_of_its_own() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.hear(id, &invite, 180, "INVITE", "t");
    b.sent();
    b.layer.cancel(b.now, id, b"", &mut b.out);
    b.layer.cancel(b.now, id, b"", &mut b.out);
    b.pass(Duration::from_millis(1_600));
    assert_eq!(b.sent(), lines(3, "CANCEL", udp(9)), "timer E");
    assert_eq!(b.hear(id, &invite, 200, "CANCEL", "t"), Outcome::Absorbed);
    b.pass(Duration::from_secs(1));
    assert_eq!(b.sent(), []);
    assert_eq!(b.hear(id, &invite, 487, "INVITE", "t"), Outcome::Deliver { user: 5 });
    assert_eq!(b.sent(), lines(1, "ACK", udp(9)));
    b.pass(T1_X64 + TICK);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 5 }], "none for the CANCEL");
    b.assert_empty();
}

#[test]
fn a_cancelled_invite_without_final_response_ends_after_64_t1() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.hear(id, &invite, 180, "INVITE", "t");
    b.pass(Duration::from_secs(10));
    b.layer.cancel(b.now, id, b"", &mut b.out);
    b.hear(id, &invite, 200, "CANCEL", "t");
    b.pass(Duration::from_secs(20));
    b.hear(id, &invite, 180, "INVITE", "t");
    b.pass(Duration::from_secs(12) - TICK);
    assert_eq!(b.happened(), []);
    b.pass(TICK * 2);
    assert_eq!(b.happened(), [Event::ClientTimeout { id, user: 5 }]);
    b.assert_empty();
}

#[test]
fn a_success_may_cross_the_cancel() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.hear(id, &invite, 180, "INVITE", "t");
    b.layer.cancel(b.now, id, b"", &mut b.out);
    assert_eq!(b.hear(id, &invite, 200, "INVITE", "t"), Outcome::Deliver { user: 5 });
    assert_eq!(b.hear(id, &invite, 481, "CANCEL", "t"), Outcome::Absorbed);
    b.pass(T1_X64 + TICK);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 5 }]);
    b.assert_empty();
}

#[test]
fn a_final_response_makes_a_waiting_cancel_pointless() {
    for (status, method) in [(200, "INVITE"), (486, "INVITE")] {
        let mut b = Bench::new();
        let (id, invite) = b.send(Method::Invite, udp(9), 5);
        b.layer.cancel(b.now, id, b"", &mut b.out);
        b.hear(id, &invite, status, method, "t");
        b.layer.cancel(b.now, id, b"", &mut b.out);
        b.pass(Duration::from_secs(3));
        assert!(b.sent().iter().all(|(line, _)| line != "CANCEL"));
    }
}

#[test]
fn what_is_no_invite_is_not_cancelled() {
    let mut b = Bench::new();
    let (id, bye) = b.send(Method::Bye, udp(9), 5);
    b.hear(id, &bye, 100, "BYE", "");
    b.sent();
    b.layer.cancel(b.now, id, b"", &mut b.out);
    assert_eq!(b.sent(), []);
    assert_eq!(b.hear(id, &bye, 200, "CANCEL", "t"), Outcome::Unknown);
}

#[test]
fn cancels_over_tcp_end_with_their_invite() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, tcp(9), 5);
    b.hear(id, &invite, 180, "INVITE", "t");
    b.layer.cancel(b.now, id, b"", &mut b.out);
    b.hear(id, &invite, 487, "INVITE", "t");
    b.pass(TICK);
    assert_eq!(b.happened(), [Event::ClientGone { id, user: 5 }]);
    b.assert_empty();
}

#[test]
fn a_cancel_that_cannot_be_sent_leaves_the_invite_its_64_t1() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    b.hear(id, &invite, 180, "INVITE", "t");
    b.layer.cancel(b.now, id, b"", &mut b.out);
    let token = b.last_token();
    b.layer.undeliverable(token, &mut b.events);
    assert_eq!((b.happened(), b.layer.counts().cancels), (vec![], 0));
    b.pass(T1_X64 + TICK);
    assert_eq!(b.happened(), [Event::ClientTimeout { id, user: 5 }]);
    b.assert_empty();
}

#[test]
fn a_call_that_rings_for_ever_is_bounded_and_each_provisional_response_renews_it() {
    let mut b = Bench::new();
    let (id, invite) = b.send(Method::Invite, udp(9), 5);
    for _ in 0..10 {
        b.hear(id, &invite, 180, "INVITE", "t");
        b.pass(Duration::from_secs(60));
    }
    assert_eq!(b.happened(), []);
    b.pass(Duration::from_secs(180) + TICK);
    assert_eq!(b.happened(), [Event::ClientTimeout { id, user: 5 }]);
}

/// The peer opened the connection: no other leads to it (RFC 3261 sections 17.1.1.3 and 9.1).
#[test]
fn ack_and_cancel_go_over_the_connection_of_their_invite() {
    for existing in [true, false] {
        let delivery = wire::Delivery { existing, yields: true, ..wire::Delivery::default() };
        let mut b = Bench::new();
        let to = flow(Transport::Tls, "192.0.2.9:40000");
        let (id, invite) = b.deliver(Method::Invite, to, 5, (delivery, b"192.0.2.9"));
        b.hear(id, &invite, 180, "INVITE", "t");
        b.layer.cancel(b.now, id, b"", &mut b.out);
        b.hear(id, &invite, 487, "INVITE", "t");
        let ways = |t: &wire::Transmit| {
            let line = String::from_utf8_lossy(b.out.message(t));
            let method = line.split(' ').next().unwrap_or_default().to_owned();
            (method, t.existing, b.out.name(t).to_vec())
        };
        let name = b"192.0.2.9".to_vec();
        let expected = ["INVITE", "CANCEL", "ACK"].map(|m| (m.to_owned(), existing, name.clone()));
        assert_eq!(b.out.transmits().iter().map(ways).collect::<Vec<_>>(), expected);
        assert!(!b.out.transmits()[1..].iter().any(|t| t.yields), "neither begins anything");
    }
}

fn request(id: ClientId, method: Method<'_>) -> ClientRequest<'_> {
    ClientRequest { id, method, flow: udp(1), user: 0, delivery: wire::Delivery::default(), name: b"" }
}

#[test]
fn a_reservation_may_be_abandoned_or_forgotten() {
    let mut b = Bench::new();
    let id = b.layer.reserve_client(Payer::PROVEN).expect("room");
    b.layer.abandon(id);
    b.assert_empty();
    let write = |_: &mut Vec<u8>| panic!("sent");
    assert!(!b.layer.send_request(b.now, &request(id, Method::Bye), &mut b.out, write));
    b.layer.reserve_client(Payer::PROVEN).expect("room");
    b.pass(Duration::from_secs(1_100));
    assert_eq!(b.happened(), []);
    b.assert_empty();
}

#[test]
fn a_request_is_sent_once_and_an_ack_never() {
    let mut b = Bench::new();
    let (id, _) = b.send(Method::Bye, udp(9), 5);
    let never = |_: &mut Vec<u8>| panic!("sent");
    assert!(!b.layer.send_request(b.now, &request(id, Method::Bye), &mut b.out, never));
    let id = b.layer.reserve_client(Payer::PROVEN).expect("room");
    assert!(!b.layer.send_request(b.now, &request(id, Method::Ack), &mut b.out, never));
    assert_eq!(b.layer.user_of_client(id), Some(0));
}

#[test]
fn what_a_finished_transaction_kept_is_used_again() {
    let mut b = Bench::new();
    for _ in 0..3 {
        let (id, invite) = b.send(Method::Invite, udp(9), 5);
        b.hear(id, &invite, 200, "INVITE", "t");
        let (id, bye) = b.send(Method::Bye, udp(9), 5);
        b.hear(id, &bye, 200, "BYE", "t");
    }
    let idle = b.layer.counts().idle_bytes;
    assert!(idle > 0 && idle < 1_200, "one buffer serves all: {idle}");
}
