use super::*;
use crate::Prepared;

#[test]
fn an_invite_is_new_once_and_its_retransmissions_get_the_last_provisional_response() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    assert_eq!((b.receive(&invite, udp(1)), b.sent()), (Inbound::Absorbed, vec![]));
    assert!(b.respond(id, &invite, 100) && b.respond(id, &invite, 180));
    assert_eq!(b.sent(), [("100".to_owned(), udp(1)), ("180".to_owned(), udp(1))]);
    assert_eq!(b.receive(&invite, udp(1)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(1, "180", udp(1)));
    assert_eq!(b.layer.is_answered(id), Some(false));
}

#[test]
fn a_retransmission_from_elsewhere_is_answered_to_the_first_flow() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    b.respond(id, &invite, 486);
    b.sent();
    assert_eq!(b.receive(&invite, udp(66)), Inbound::Absorbed);
    assert_eq!(b.receive(&invite, tcp(66)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(2, "486", udp(1)));
    assert_eq!(b.layer.reply_of(id), Some(udp(1)));
}

/// A receive buffer holds one message after the other at the same place.
#[test]
fn the_hash_of_a_request_that_nobody_asked_about_is_its_own() {
    let mut b = Bench::new();
    let (mut buffer, mut hashes) = (Vec::new(), Vec::new());
    for (method, branch) in [("INVITE", "z9hG4bKa"), ("INVITE", "z9hG4bKb"), ("INVITE", "z9hG4bKa")] {
        let text = Request::new(method, branch).text();
        buffer.clear();
        buffer.extend_from_slice(text.as_bytes());
        hashes.push(parsed(&buffer, |message| b.layer.hash_of(&Prepared::unread(message))));
    }
    assert!(hashes[0] == hashes[2] && hashes[0] != hashes[1]);
    // Its ACK and what was asked about have the same.
    let invite = Request::new("INVITE", "z9hG4bKa");
    let ack = invite.method("ACK").text();
    assert_eq!(parsed(ack.as_bytes(), |ack| b.layer.hash_of(&Prepared::unread(ack))), hashes[0]);
    b.new_server(&Request::new("INVITE", "z9hG4bKb"), udp(1));
    let now = b.now;
    let asked = parsed(invite.text().as_bytes(), |message| {
        let request = b.layer.prepare(message);
        assert_eq!(b.layer.absorb(now, &request, udp(1), &mut Outbox::new()), None);
        b.layer.hash_of(&request)
    });
    assert_eq!(asked, hashes[0]);
}

#[test]
fn a_failure_is_repeated_until_acknowledged_and_the_ack_ends_here() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    b.layer.set_user(id, 77);
    assert!(b.respond(id, &invite, 486));
    assert!(!b.respond(id, &invite, 486) && !b.respond(id, &invite, 200) && !b.respond(id, &invite, 180));
    b.pass(Duration::from_millis(1_600));
    assert_eq!(b.sent(), lines(3, "486", udp(1)), "at once, after T1, after 3*T1");
    assert_eq!(b.receive(&invite, udp(1)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(1, "486", udp(1)));
    assert_eq!(b.receive(&invite.method("ACK"), udp(1)), Inbound::Absorbed);
    b.pass(Duration::from_millis(4_900));
    assert_eq!(b.receive(&invite.method("ACK"), udp(1)), Inbound::Absorbed, "until timer I");
    assert_eq!((b.sent(), b.happened()), (vec![], vec![]));
    b.pass(Duration::from_millis(100) + TICK);
    assert_eq!(b.happened(), [Event::ServerGone { id, user: 77 }]);
    b.assert_empty();
}

#[test]
fn a_failure_without_ack_ends_with_timer_h() {
    for reply in [udp(1), tcp(1)] {
        let mut b = Bench::new();
        let invite = Request::new("INVITE", "z9hG4bKa");
        let id = b.new_server(&invite, reply);
        b.respond(id, &invite, 404);
        b.pass(T1_X64 - TICK);
        assert_eq!(b.happened(), []);
        b.pass(TICK * 2);
        assert_eq!(b.happened(), [Event::AckTimeout { id, user: 0 }, Event::ServerGone { id, user: 0 }]);
        let repeated = if reply == udp(1) { 11 } else { 1 };
        assert_eq!(b.sent(), lines(repeated, "404", reply));
        b.assert_empty();
    }
}

#[test]
fn over_tcp_an_acknowledged_failure_is_gone_at_once() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, tcp(1));
    b.respond(id, &invite, 404);
    assert_eq!(b.receive(&invite.method("ACK"), tcp(1)), Inbound::Absorbed);
    b.pass(TICK);
    assert_eq!(b.happened(), [Event::ServerGone { id, user: 0 }]);
}

#[test]
fn successes_are_forwarded_until_timer_l_and_acks_passed_on() {
    for reply in [udp(1), tcp(1)] {
        let mut b = Bench::new();
        let invite = Request::new("INVITE", "z9hG4bKa");
        let id = b.new_server(&invite, reply);
        assert!(b.respond(id, &invite, 200));
        b.pass(Duration::from_secs(20));
        assert_eq!(b.sent(), lines(1, "200", reply), "the transaction itself repeats no 2xx");
        assert!(b.respond(id, &invite, 200), "the transaction user may");
        assert!(!b.respond(id, &invite, 500) && !b.respond(id, &invite, 183));
        b.sent();
        assert_eq!(b.receive(&invite, reply), Inbound::Absorbed);
        assert_eq!(b.sent(), [], "the UAS repeats its 2xx, not we");
        // An ACK with the INVITE's own branch is wrong, but seen; RFC 6026 passes it on.
        assert_eq!(b.receive(&invite.method("ACK"), reply), Inbound::AckOutside);
        b.pass(Duration::from_secs(12) - TICK);
        assert_eq!(b.happened(), []);
        b.pass(SLACK);
        assert_eq!(b.happened(), [Event::ServerGone { id, user: 0 }]);
        assert!(!b.respond(id, &invite, 200), "the id is stale");
        b.assert_empty();
    }
}

#[test]
fn a_non_invite_request_is_answered_once_and_its_answer_repeated_until_timer_j() {
    let mut b = Bench::new();
    let bye = Request::new("BYE", "z9hG4bKb");
    let id = b.new_server(&bye, udp(1));
    assert_eq!((b.receive(&bye, udp(1)), b.sent()), (Inbound::Absorbed, vec![]));
    assert!(b.respond(id, &bye, 200) && !b.respond(id, &bye, 200) && !b.respond(id, &bye, 500));
    b.pass(T1_X64 - TICK);
    assert_eq!(b.receive(&bye, udp(1)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(2, "200", udp(1)));
    b.pass(SLACK);
    assert_eq!(b.happened(), [Event::ServerGone { id, user: 0 }]);
    assert!(matches!(b.receive(&bye, udp(1)), Inbound::New(_)), "after timer J it is a new request");
}

#[test]
fn over_tcp_timer_j_is_zero_and_nothing_is_kept() {
    let mut b = Bench::new();
    let bye = Request::new("BYE", "z9hG4bKb");
    let id = b.new_server(&bye, tcp(1));
    b.respond(id, &bye, 200);
    b.pass(TICK);
    assert_eq!(b.happened(), [Event::ServerGone { id, user: 0 }]);
    b.assert_empty();
}

#[test]
fn rfc_4320_is_kept_whatever_the_transaction_user_says() {
    let mut b = Bench::new();
    let options = Request::new("OPTIONS", "z9hG4bKo");
    let id = b.new_server(&options, udp(1));
    assert!(!b.respond(id, &options, 180) && !b.respond(id, &options, 408) && !b.respond(id, &options, 100));
    b.pass(Duration::from_millis(3_499));
    assert!(!b.respond(id, &options, 100), "before timer E comes to T2");
    b.pass(Duration::from_millis(1));
    assert!(b.respond(id, &options, 100));
    assert_eq!(b.receive(&options, udp(1)), Inbound::Absorbed);
    assert_eq!(b.sent(), lines(2, "100", udp(1)));
    let mut b = Bench::new();
    let id = b.new_server(&options, tcp(1));
    assert!(b.respond(id, &options, 100), "over TCP at any time");
    assert!(!b.respond(id, &options, 408) && b.respond(id, &options, 200));
}

#[test]
fn statuses_that_do_not_exist_are_not_sent() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    for status in [0, 99, 700, u16::MAX] {
        assert!(!b.layer.respond(b.now, id, status, &mut b.out, |_| panic!("{status} written")));
    }
}

#[test]
fn a_transaction_that_nobody_answers_ends_and_says_so() {
    for (method, life) in [("INVITE", 240), ("MESSAGE", 37)] {
        let mut b = Bench::new();
        let request = Request::new(method, "z9hG4bKa");
        let id = b.new_server(&request, udp(1));
        b.pass(Duration::from_secs(life) - TICK);
        assert_eq!(b.happened(), [], "{method}");
        b.pass(TICK * 2);
        assert_eq!(b.happened(), [Event::ServerGone { id, user: 0 }], "{method}");
        assert_eq!(b.layer.counts().unanswered, 1);
        b.assert_empty();
    }
}

#[test]
fn a_full_layer_refuses_new_requests_and_still_knows_old_ones() {
    let mut b = Bench::with(Timers::default(), Limits { server: 1, client: 1, bytes: 1 << 20 });
    let first = Request::new("INVITE", "z9hG4bKa");
    b.new_server(&first, udp(1));
    for method in ["INVITE", "BYE", "CANCEL"] {
        assert_eq!(b.receive(&Request::new(method, "z9hG4bKb"), udp(1)), Inbound::Full(Short::Transactions));
    }
    assert_eq!(b.receive(&first, udp(1)), Inbound::Absorbed);
    assert_eq!(b.receive(&Request::new("ACK", "z9hG4bKb"), udp(1)), Inbound::AckOutside);
    assert!(
        b.layer.reserve_client(Payer::PROVEN).is_some() && b.layer.reserve_client(Payer::PROVEN).is_none()
    );
    assert_eq!(b.layer.counts().refused, 4);
}

#[test]
fn a_response_that_cannot_be_sent_is_reported_and_the_transaction_stays() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    b.layer.set_user(id, 3);
    b.respond(id, &invite, 486);
    let token = b.last_token();
    b.layer.undeliverable(token, &mut b.events);
    assert_eq!(b.happened(), [Event::ServerUnreachable { id, user: 3 }]);
    assert_eq!(b.receive(&invite, udp(1)), Inbound::Absorbed);
}

#[test]
fn an_abandoned_transaction_is_forgotten() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    b.layer.abandon_server(id);
    assert_eq!((b.layer.user_of(id), b.layer.is_answered(id), b.layer.reply_of(id)), (None, None, None));
    b.assert_empty();
    assert!(matches!(b.receive(&invite, udp(1)), Inbound::New(_)));
}

#[test]
fn finished_transactions_keep_little() {
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    let kept = |b: &Bench| b.layer.servers.kept_bytes(id);
    b.respond(id, &invite, 180);
    assert!(kept(&b) > 300);
    b.respond(id, &invite, 200);
    assert!(kept(&b) <= 128, "only the key of an accepted INVITE: {}", kept(&b));
    let bye = Request::new("BYE", "z9hG4bKb");
    let id = b.new_server(&bye, udp(1));
    b.respond(id, &bye, 200);
    let kept = b.layer.servers.kept_bytes(id);
    assert!(kept < 448 && kept > answer(&bye, 200, "to1").len(), "key and answer: {kept}");
}

#[test]
fn an_invite_lasts_longer_where_its_user_is_still_trying() {
    let lifetime = Timers::default().lifetime;
    let mut b = Bench::new();
    let invite = Request::new("INVITE", "z9hG4bKa");
    let id = b.new_server(&invite, udp(1));
    for _ in 0..3 {
        b.pass(lifetime - TICK);
        b.layer.renew(b.now, id);
        assert_eq!(b.happened(), []);
    }
    b.pass(lifetime + TICK);
    assert_eq!(b.happened(), [Event::ServerGone { id, user: 0 }]);
    b.assert_empty();
    // One that has its answer ends as it would have.
    let id = b.new_server(&Request::new("INVITE", "z9hG4bKb"), udp(1));
    b.respond(id, &Request::new("INVITE", "z9hG4bKb"), 404);
    b.layer.renew(b.now, id);
    b.pass(T1_X64 + TICK);
    assert_eq!(b.happened().len(), 2, "timer H, and gone");
}

/// Whatever happens, in whatever order.
#[test]
fn bounded_replies_never_exceed_three_times_what_came() {
    for seed in 1..200u64 {
        let mut random = seed;
        let mut roll = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        let method = if roll(3) == 0 { "MESSAGE" } else { "INVITE" };
        let mut b = Bench::new();
        let request = Request::new(method, "z9hG4bKbound");
        let id = b.new_server(&request, udp(1));
        let mut received = request.text().len();
        b.layer.bound_replies(id, received);
        let mut sent = 0;
        for _ in 0..60 {
            match roll(8) {
                0 => {
                    b.receive(&request, udp(1));
                    received += request.text().len();
                }
                1 => b.pass(Duration::from_millis(roll(9_000))),
                2 => drop(b.respond(id, &request, 486)),
                3 if roll(4) == 0 => drop(b.receive(&request.method("ACK"), udp(1))),
                n => drop(b.respond(id, &request, [100, 180, 200, 183][n as usize % 4])),
            }
            sent += b.messages().iter().map(|(text, _)| text.len()).sum::<usize>();
            assert!(sent <= 3 * received, "seed {seed}: {sent} bytes for {received}");
        }
    }
}

#[test]
fn limits_name_what_there_is_too_little_of() {
    let limits = Limits { server: 16, client: 16, bytes: 8_192 };
    let mut b = Bench::with(Timers::default(), limits);
    let mut accept = |n: u32, payer: Payer| {
        let request =
            Request { call_id: format!("call-{n}"), ..Request::new("INVITE", &format!("z9hG4bK{n}")) };
        parsed(request.text().as_bytes(), |message| {
            let request = b.layer.prepare(message);
            assert_eq!(b.layer.absorb(b.now, &request, udp(1), &mut b.out), None);
            b.layer.accept(b.now, &request, udp(1), payer).map(drop)
        })
    };
    let stranger = Payer::unproven(1);
    assert_eq!([1, 2, 3].map(|n| accept(n, stranger)), [Ok(()), Ok(()), Err(Short::Share)], "an eighth");
    let fates: Vec<_> = (4..30).map(|n| accept(n, Payer::PROVEN)).collect();
    assert!(fates.contains(&Ok(())) && fates.last() == Some(&Err(Short::Transactions)), "{fates:?}");
    let mut b = Bench::with(Timers::default(), Limits { bytes: 800, ..limits });
    let request = Request::new("INVITE", "z9hG4bK1");
    b.new_server(&request, udp(1));
    let other = Request::new("INVITE", "z9hG4bK2");
    assert_eq!(b.receive(&other, udp(1)), Inbound::Full(Short::Bytes));
    assert_eq!(b.layer.counts().refused_bytes, 1);
    b.pass(T1_X64 * 10);
    assert_eq!(b.layer.counts().held_bytes, 0);
}
