//! What is held of requests, who has a share of it, and how many bytes go to a sender who may not be there.

use super::*;

const DAN: &str = "192.0.2.11:5060";
const PHONES: [&str; 10] = [
    "192.0.2.20:5060",
    "192.0.2.21:5060",
    "192.0.2.22:5060",
    "192.0.2.23:5060",
    "192.0.2.24:5060",
    "192.0.2.25:5060",
    "192.0.2.26:5060",
    "192.0.2.27:5060",
    "192.0.2.28:5060",
    "192.0.2.29:5060",
];

fn lab(calls: usize, limits: Limits) -> Lab {
    let mut lab = Lab::limited(limits, |s| (s.calls, s.proxy.mtu) = (calls, 1 << 20));
    lab.phones(&[BOB]);
    lab
}

fn large() -> Req {
    Req { body: "x".repeat(60_000), ..Req::invite() }
}

/// Sends INVITEs from an address until one is refused; how many were not.
fn flood(lab: &mut Lab, from: &str, make: impl Fn() -> Req) -> usize {
    for taken in 0..1_000 {
        lab.send(from, make().text());
        let sent = lab.sent();
        if let Some(refused) = sent.iter().find(|s| s.status() == 503) {
            assert!(refused.get("Retry-After").is_some() && sent.len() == 1, "{sent:#?}");
            return taken;
        }
    }
    panic!("never refused");
}

#[test]
fn ringing_calls_of_a_stranger_leave_room_for_others() {
    let mut lab = lab(40, Limits { server: 1_000, client: 1_000, bytes: 64 << 20 });
    assert_eq!(flood(&mut lab, CAROL, Req::invite), 5, "an eighth");
    assert_eq!(lab.report().shortages, [(Shortage::Share, CAROL.parse::<SocketAddr>().unwrap().ip())]);
    assert_eq!(flood(&mut lab, DAN, Req::invite), 5);
    let strangers: usize =
        (30..90).map(|n| flood(&mut lab, &format!("203.0.113.{n}:5060"), Req::invite)).sum();
    assert_eq!(strangers, 10, "half of all, together");
    for _ in 0..20 {
        let sent = lab.as_user(ALICE, "alice", &Req::invite().alice());
        assert_eq!(requests(&sent).len(), 1, "{sent:#?}");
    }
    assert_eq!(flood(&mut lab, CAROL, Req::invite), 0);
    lab.rest();
    assert_eq!(flood(&mut lab, CAROL, Req::invite), 5, "it gets its share again");
}

#[test]
fn transactions_of_a_stranger_leave_room_for_others() {
    let mut lab = lab(1_000, Limits { server: 80, client: 1_000, bytes: 64 << 20 });
    assert_eq!(flood(&mut lab, CAROL, || Req::new("MESSAGE", "sip:bob@here.example")), 10);
    assert_eq!(requests(&lab.as_user(ALICE, "alice", &Req::invite().alice())).len(), 1);
    lab.rest();
}

#[test]
fn branches_of_a_stranger_leave_room_for_others() {
    let mut lab = lab(1_000, Limits { server: 1_000, client: 80, bytes: 64 << 20 });
    lab.phones(&PHONES);
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 10);
    lab.send(CAROL, Req::invite().text());
    assert_eq!(statuses(&lab.sent()), [100, 503]);
    let sent = lab.as_user(ALICE, "alice", &Req::invite().alice());
    assert_eq!(requests(&sent).len(), 10);
    lab.rest();
}

#[test]
fn bytes_of_a_stranger_leave_room_for_others() {
    let mut lab = lab(1_000, Limits { server: 1_000, client: 1_000, bytes: 2 << 20 });
    assert_eq!(flood(&mut lab, CAROL, large), 4, "an eighth of 2 MiB");
    assert_eq!(flood(&mut lab, DAN, large), 4);
    let strangers: usize = (30..90).map(|n| flood(&mut lab, &format!("203.0.113.{n}:5060"), large)).sum();
    assert!((6..=9).contains(&strangers), "half of all, together: {strangers}");
    let held = lab.report().transactions;
    assert!(held.unproven_bytes <= 1 << 20 && held.unproven_bytes == held.held_bytes, "{held:?}");
    for _ in 0..8 {
        let alice = Req { body: "x".repeat(60_000), ..Req::invite().alice() };
        assert_eq!(requests(&lab.as_user(ALICE, "alice", &alice)).len(), 1);
    }
    assert!(lab.report().transactions.held_bytes <= 2 << 20);
    lab.rest();
}

#[test]
fn proven_user_is_refused_when_all_bytes_are_held() {
    let mut lab = lab(1_000, Limits { server: 1_000, client: 1_000, bytes: 1 << 18 });
    let alice = || Req { body: "x".repeat(60_000), ..Req::invite().alice() };
    let fates: Vec<_> = (0..5).map(|_| lab.as_user(ALICE, "alice", &alice())[0].status()).collect();
    assert_eq!(fates, [100, 100, 100, 100, 503]);
    assert_eq!(lab.report().shortages[0].0, Shortage::Bytes);
    assert_eq!(lab.report().transactions.refused_bytes, 1);
    lab.pass(61_000);
    assert_eq!(lab.report().shortages, []);
    lab.rest();
}

#[test]
fn large_request_is_held_once_for_all_its_branches() {
    let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
    lab.phones(&PHONES);
    let invite = large();
    let sent = lab.invite(CAROL, invite.text());
    assert_eq!(sent.len(), 10);
    let held = lab.report().transactions.held_bytes;
    assert!(held < 75_000, "{held} bytes held of one request of 60,000");
    // Each is repeated as it was sent, and its ACK and CANCEL are made from it.
    lab.pass(600);
    let again = lab.sent();
    assert_eq!(again.len(), 10);
    for (first, second) in sent.iter().zip(&again) {
        assert_eq!((first.to(), &first.text), (second.to(), &second.text));
    }
    lab.send(&sent[0].to(), sent[0].reply(486, "b", ""));
    let ack = lab.one();
    assert_eq!(
        (ack.method(), ack.get("Via"), ack.get("Call-ID")),
        ("ACK", sent[0].get("Via"), sent[0].get("Call-ID"))
    );
    lab.send(&sent[1].to(), sent[1].reply(180, "c", ""));
    lab.sent();
    lab.send(CAROL, invite.cancel().text());
    let cancels: Vec<Sent> =
        lab.sent().into_iter().filter(|s| s.method() == "CANCEL" && s.status() == 0).collect();
    assert_eq!(cancels.len(), 1);
    assert_eq!((cancels[0].to(), cancels[0].get("Via")), (sent[1].to(), sent[1].get("Via")));
    lab.rest();
}

#[test]
fn large_request_stays_charged_until_its_last_branch_is_over() {
    let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
    lab.phones(&[BOB, BOB2]);
    let sent = lab.invite(CAROL, large().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.send(BOB2, sent[1].reply(180, "c", ""));
    lab.send(BOB, sent[0].accept("b"));
    lab.sent();
    // The other phone ignores the CANCEL.
    assert!(lab.report().transactions.held_bytes > 60_000);
    lab.pass(40_000);
    assert!(lab.report().transactions.held_bytes < 10_000);
    lab.rest();
}

#[test]
fn large_responses_of_many_phones_are_not_held_beyond_the_limit() {
    let mut lab = lab(100, Limits { server: 1_000, client: 1_000, bytes: 1 << 18 });
    lab.phones(&PHONES);
    for _ in 0..5 {
        let sent = lab.as_user(ALICE, "alice", &Req::invite().alice());
        for invite in sent.iter().filter(|s| s.status() == 0).take(9) {
            lab.send(&invite.to(), large_refusal(invite));
        }
        assert!(lab.sent().iter().all(|s| s.method() == "ACK"), "one phone rings");
    }
    let held = lab.report().transactions.held_bytes;
    assert!(held < 2 << 18, "{held}");
    // The answers count all the same.
    lab.pass(200_000);
    assert!(lab.sent().iter().any(|s| s.status() == 486));
    lab.rest();
}

/// A final response of 56,000 bytes and more.
fn large_refusal(got: &Sent) -> String {
    let (empty, full) =
        ("Content-Length: 0\r\n\r\n", format!("Content-Length: 56000\r\n\r\n{}", "y".repeat(56_000)));
    got.reply(486, "b", "").replace(empty, &full)
}

/// Large responses on connections of their own; what was sent last.
fn answered_on_streams(lab: &mut Lab, count: u64) -> Sent {
    let mut last = None;
    for conn in 1..=count {
        let (caller, req) = (tcp("192.0.2.10:40000", conn), Req::invite().sent_by("TCP", CAROL));
        lab.send_on(caller, req.text());
        let got =
            lab.sent().into_iter().find(|s| s.method() == "INVITE" && s.status() == 0).expect("forwarded");
        lab.send(BOB, large_refusal(&got));
        let refusal = lab.sent().into_iter().find(|s| s.status() == 486).expect("it goes back");
        lab.send_on(caller, req.ack(&refusal).text());
        last = Some(refusal);
    }
    last.expect("more than none")
}

#[test]
fn responses_kept_for_streams_count_as_bytes_held() {
    let mut lab = lab(100, Limits { server: 1_000, client: 1_000, bytes: 1 << 20 });
    answered_on_streams(&mut lab, 3);
    let counts = lab.report().transactions;
    assert!((168_000..250_000).contains(&counts.yielding_bytes), "{counts:?}");
    // However many they are.
    answered_on_streams(&mut lab, 40);
    let counts = lab.report().transactions;
    assert!(counts.held_bytes + counts.yielding_bytes <= 1 << 20, "{counts:?}");
    assert!(counts.yielding_bytes > 500_000, "the latest stay: {counts:?}");
    lab.rest();
}

#[test]
fn responses_kept_for_streams_give_way_to_requests() {
    let mut lab = lab(100, Limits { server: 1_000, client: 1_000, bytes: 1 << 18 });
    let last = answered_on_streams(&mut lab, 4);
    assert!(lab.report().transactions.yielding_bytes > 150_000);
    lab.undeliverable(&last);
    assert_eq!(lab.one().to(), CAROL, "while there is room");
    let last = answered_on_streams(&mut lab, 1);
    let alice = || Req { body: "x".repeat(60_000), ..Req::invite().alice() };
    for _ in 0..4 {
        assert_eq!(statuses(&lab.as_user(ALICE, "alice", &alice()))[0], 100);
        let counts = lab.report().transactions;
        assert!(counts.held_bytes.max(1 << 18) >= counts.held_bytes + counts.yielding_bytes, "{counts:?}");
    }
    assert_eq!(lab.report().transactions.yielding_bytes, 0);
    lab.undeliverable(&last);
    lab.silent();
    lab.rest();
}

/// Bytes that went to an address.
fn to(sent: &[Sent], address: &str) -> usize {
    sent.iter().filter(|s| s.to() == address).map(|s| s.text.len()).sum()
}

#[test]
fn unproven_sender_gets_at_most_three_times_its_bytes() {
    let sdp = "v=0\r\n".repeat(120);
    for invite in
        [Req::invite(), Req { lines: Vec::new(), ..Req::invite() }, Req { body: sdp, ..Req::invite() }]
    {
        for (status, times) in [(486, 1), (200, 30), (183, 60), (603, 1)] {
            let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
            let text = invite.text();
            lab.send(CAROL, &text);
            let mut sent = lab.sent();
            let got = sent.iter().find(|s| s.to() == BOB).expect("the phone gets it").clone();
            for _ in 0..times {
                lab.send(
                    BOB,
                    got.reply(status, "b", "Contact: <sip:bob@192.0.2.20>\r\nX-Long: 0123456789\r\n"),
                );
                lab.pass(700);
                sent.extend(lab.sent());
            }
            lab.pass(40_000);
            sent.extend(lab.sent());
            let bytes = to(&sent, CAROL);
            assert!(bytes <= 3 * text.len(), "{status}: {bytes} for {}", text.len());
            let finals = sent.iter().filter(|s| s.to() == CAROL && s.status() == status).count();
            assert!(finals >= 1 || status == 183, "{status} has to arrive: {bytes} of {}", 3 * text.len());
            assert!(lab.report().transactions.withheld > 0 || (status > 400), "{status}");
        }
    }
}

#[test]
fn late_2xx_for_an_unproven_sender_pays_like_the_rest() {
    let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    lab.send(BOB, got.reply(180, "b", ""));
    lab.send(CAROL, invite.cancel().text());
    let mut bytes: usize =
        lab.sent().iter().filter(|s| s.to() == CAROL && s.method() == "INVITE").map(|s| s.text.len()).sum();
    // The phone ignores the CANCEL until it is given up, and answers then.
    for _ in 0..80 {
        lab.pass(500);
        lab.send(BOB, got.accept("b"));
        bytes += to(&lab.sent(), CAROL);
    }
    assert!(bytes <= 3 * invite.text().len(), "{bytes} for {}", invite.text().len());
    lab.rest();
}

#[test]
fn retransmission_of_an_unproven_sender_pays_for_more() {
    let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
    let invite = Req { lines: Vec::new(), ..Req::invite() };
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ring = got.reply(180, "b", "Contact: <sip:bob@192.0.2.20>\r\n");
    lab.send(BOB, &ring);
    assert_eq!(statuses(&lab.sent()), [0u16; 0], "it would leave too little for the answer");
    lab.send(CAROL, invite.text());
    assert_eq!(statuses(&lab.sent()), [180]);
}

#[test]
fn sender_who_has_shown_that_it_receives_is_not_bounded() {
    let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
    let sent = lab.as_user(ALICE, "alice", &Req::invite().alice());
    let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
    lab.send(BOB, got.reply(486, "b", ""));
    lab.sent();
    lab.pass(31_900);
    assert_eq!(statuses(&lab.sent()), [486; 10], "timer G");
}

#[test]
fn refusal_longer_than_three_requests_is_not_sent() {
    let mut lab = lab(10, Limits { server: 100, client: 100, bytes: 64 << 20 });
    let realm = "r".repeat(700);
    lab.reconfigure(|s| s.auth.realm = Some(realm.into_bytes()));
    let mut ask = Req { lines: Vec::new(), ..Req::new("OPTIONS", "sip:bob@here.example") }.alice();
    ask.lines.clear();
    lab.send(ALICE, ask.text());
    lab.silent();
    lab.send_on(tcp(ALICE, 1), ask.text());
    assert_eq!(lab.one().status(), 407, "a stream shows that its sender is there");
    assert_eq!(lab.report().transactions.withheld, 1);
}
