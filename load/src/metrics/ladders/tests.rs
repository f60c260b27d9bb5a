use proptest::prelude::*;

use super::*;

fn here() -> SocketAddr {
    "127.0.0.1:5070".parse().unwrap()
}

fn there() -> SocketAddr {
    "127.0.0.1:5060".parse().unwrap()
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn offer(l: &mut Ladders, call: u64, t: u64, direction: Direction, bytes: &[u8]) {
    l.offer(call, at(t), direction, here(), there(), bytes);
}

#[test]
fn the_flow_of_a_failed_call_is_drawn() {
    let mut l = Ladders::new(2, 1 << 16);
    offer(&mut l, 1, 10, Direction::Sent, b"INVITE sip:bob@example.org SIP/2.0\r\nCall-ID: x\r\n\r\n");
    offer(&mut l, 2, 10, Direction::Sent, b"OPTIONS sip:other SIP/2.0\r\n\r\n");
    offer(&mut l, 1, 11, Direction::Received, b"SIP/2.0 180 Ringing\r\n\r\n");
    offer(&mut l, 1, 12, Direction::Received, b"SIP/2.0 503 Service Unavailable\r\n\r\n");
    l.failed(at(12), 1, at(10), b"abc@127.0.0.1", (b"", b""), "unexpected message");
    let [ladder] = l.kept() else { panic!("one was kept") };
    assert!(!ladder.incomplete);
    let expected = "\
Call-ID abc@127.0.0.1: unexpected message
                      127.0.0.1:5070                  127.0.0.1:5060
   +0.000000                 |----------- INVITE ----------->|
   +0.001000                 |<-------- 180 Ringing ---------|
   +0.002000                 |<-- 503 Service Unavailable ---|
   +0.002000  unexpected message
";
    assert_eq!(ladder.text(), expected);
}

#[test]
fn nothing_hostile_reaches_the_drawing() {
    let mut l = Ladders::new(1, 1 << 16);
    offer(&mut l, 1, 0, Direction::Received, b"\x1b[2J\xff\0 x\r\n\r\n");
    l.failed(at(1), 1, at(0), b"id\r\n\x1b[31m\xff", (b"", b""), "why");
    let text = l.kept()[0].text();
    assert!(text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{text:?}");
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn enough_is_enough_and_the_memory_is_given_back() {
    let mut l = Ladders::new(1, 1 << 16);
    l.failed(at(1), 1, at(0), b"a", (b"", b""), "why");
    assert_eq!(l.ring.capacity(), 0);
    offer(&mut l, 1, 0, Direction::Sent, b"x");
    l.failed(at(1), 2, at(0), b"b", (b"", b""), "why");
    assert_eq!((l.entries.len(), l.kept().len()), (0, 1));
    let mut off = Ladders::new(0, 1 << 30);
    assert!(off.is_full() && off.ring.is_empty());
    offer(&mut off, 1, 0, Direction::Sent, b"x");
    off.failed(at(1), 1, at(0), b"a", (b"", b""), "why");
    off.stray(at(1), here(), there(), b"x", "why");
    assert!(off.kept().is_empty());
}

#[test]
fn the_next_call_in_a_place_has_addresses_of_its_own() {
    let next = |call: u64| call + (1 << 32);
    for (first, second) in [(["a", "a"], ["a", "a"]), (["a", "b"], ["b", "a"]), (["a", "b"], ["a", "c"])] {
        let remote = |name: &str| SocketAddr::from(([192, 0, 2, name.as_bytes()[0]], 5_060));
        let mut l = Ladders::new(1, Ladders::SNAP);
        let mut send = |call: u64, remote: SocketAddr| {
            l.offer(call, at(1), Direction::Sent, here(), remote, b"BYE sip:x SIP/2.0\r\n\r\n")
        };
        first.iter().for_each(|name| send(7, remote(name)));
        second.iter().for_each(|name| send(next(7), remote(name)));
        // Nothing of it is held.
        offer(&mut l, 8, 1, Direction::Sent, &[b'x'; Ladders::SNAP]);
        l.failed(at(2), next(7), at(1), b"x", (b"", b""), "why");
        let shown: Vec<SocketAddr> = l.kept()[0].steps.iter().map(|step| step.remote).collect();
        assert_eq!(shown, second.map(remote));
        assert!(l.kept()[0].steps.iter().all(|step| !step.held && step.bytes == b"BYE" && step.length == 21));
    }
}

#[test]
fn what_was_pushed_out_is_drawn_all_the_same() {
    let mut l = Ladders::new(3, Ladders::SNAP);
    offer(&mut l, 1, 0, Direction::Sent, &[b'a'; 1_500]);
    offer(&mut l, 2, 5, Direction::Sent, &[b'b'; 1_500]);
    offer(&mut l, 1, 6, Direction::Sent, &[b'c'; 1_500]);
    l.failed(at(7), 1, at(0), b"one", (b"", b""), "why");
    l.failed(at(7), 2, at(5), b"two", (b"", b""), "why");
    let [one, two] = l.kept() else { panic!("two were kept") };
    assert!(!one.incomplete && one.steps.len() == 2 && one.steps[1].bytes[0] == b'c');
    assert!(one.steps[1].held && !one.steps[0].held && one.steps[0].length == 1_500);
    assert!(!two.incomplete && two.steps.len() == 1 && two.steps[0].bytes[0] == b'b');
}

#[test]
fn a_flow_is_whole_whatever_the_rate() {
    // A ring for a few messages, a thousand calls at a time, and the first one fails last.
    let mut l = Ladders::new(2, Ladders::SNAP);
    for call in 0..1_000 {
        offer(&mut l, call, call, Direction::Sent, b"INVITE sip:bob@example.org SIP/2.0\r\n\r\n");
    }
    for call in 0..1_000 {
        offer(&mut l, call, 1_000 + call, Direction::Received, b"SIP/2.0 180 Ringing\r\n\r\n");
    }
    l.failed(at(33_000), 0, at(0), b"first", (b"", b""), "waited in vain");
    let ladder = &l.kept()[0];
    assert!(!ladder.incomplete);
    let labels: Vec<String> = ladder.steps.iter().map(|s| s.label(60)).collect();
    assert_eq!(labels, ["INVITE", "180"]);
    assert!(ladder.steps.iter().all(|s| !s.held && s.local == here() && s.remote == there()));
    assert_eq!((ladder.steps[0].length, ladder.steps[1].at), (38, at(1_000)));
    assert!(ladder.text().contains("|<------------ 180 -------------|"), "{}", ladder.text());
    // The next call in its place begins anew; one beyond all places has what the ring has.
    let next = 1 << 32;
    offer(&mut l, next, 34_000, Direction::Sent, b"BYE sip:x SIP/2.0\r\n\r\n");
    let far = (1 << 20) + 5;
    offer(&mut l, far, 1, Direction::Sent, b"OPTIONS sip:x SIP/2.0\r\n\r\n");
    for i in 0..200 {
        offer(&mut l, 7, 34_000 + i, Direction::Sent, b"INFO sip:x SIP/2.0\r\n\r\n");
    }
    l.failed(at(34_500), far, at(1), b"far", (b"", b""), "why");
    let far = &l.kept()[1];
    assert!(far.incomplete && far.steps.is_empty() && far.text().contains("may be missing"));
    let mut l = Ladders::new(1, 1 << 16);
    offer(&mut l, 0, 1, Direction::Sent, b"INVITE sip:x SIP/2.0\r\n\r\n");
    offer(&mut l, next, 2, Direction::Sent, b"BYE sip:x SIP/2.0\r\n\r\n");
    l.failed(at(3), next, at(2), b"next", (b"", b""), "why");
    assert_eq!(l.kept()[0].steps.len(), 1);
}

#[test]
fn at_a_high_rate_some_calls_are_watched_and_the_last_messages_of_all_are_there() {
    let invite = |call: u64| format!("INVITE sip:{call:04}@example.org SIP/2.0\r\n\r\n").into_bytes();
    let no = |call: u64| format!("SIP/2.0 404 Not Found\r\nCall-ID: {call:04}\r\n\r\n").into_bytes();
    // Twenty calls a millisecond; the ring has room for a hundred messages.
    let mut l = Ladders::new(3_000, Ladders::SNAP);
    for call in 0..3_000 {
        offer(&mut l, call, call / 20, Direction::Sent, &invite(call));
        offer(&mut l, call, call / 20, Direction::Received, &no(call));
        l.failed(at(call / 20), call, at(call / 20), b"x", (&invite(call), b""), "404");
    }
    assert!(l.kept().iter().all(|ladder| ladder.steps.len() == 2 && !ladder.incomplete));
    for (call, ladder) in l.kept().iter().enumerate() {
        let texts: Vec<&[u8]> = ladder.steps.iter().map(|step| &step.bytes[..]).collect();
        assert_eq!(texts, [&invite(call as u64)[..], &no(call as u64)], "{call}");
    }
    let mut l = Ladders::new(10, Ladders::SNAP);
    let mut watched = 0;
    for call in 0..3_000 {
        let before = l.next;
        offer(&mut l, call, call / 20, Direction::Sent, &invite(call));
        watched += u64::from(l.next > before);
    }
    assert!((100..1_500).contains(&watched), "{watched} of 3000 within a tenth of a second");
    // One that is not watched, beyond the messages that have marks, has a flow that is not whole, later as
    // well.
    let unwatched = (3_000..4_000)
        .find(|&call| {
            let before = l.next;
            offer(&mut l, call, 200, Direction::Sent, &invite(call));
            l.next == before
        })
        .expect("one that is not watched");
    for _ in 0..100 {
        offer(&mut l, unwatched, 200, Direction::Sent, &invite(unwatched));
    }
    // Beyond the places there are calls that are watched, with all of their messages, and others.
    let mut kept = [0, 0];
    for call in 100_000..101_000 {
        let taken = [0, 1].map(|_| {
            let before = l.next;
            offer(&mut l, call, 201, Direction::Sent, &invite(call));
            l.next > before
        });
        assert_eq!(taken[0], taken[1]);
        kept[usize::from(taken[0])] += 1;
    }
    assert!(kept[1] > 0 && kept[0] > kept[1], "{kept:?}");
    // It becomes quiet, and within minutes all are watched again, few as they are.
    for call in 0..20 {
        offer(&mut l, call, 20_000 * (call + 1), Direction::Sent, &invite(call));
    }
    for call in 20..30 {
        let before = l.next;
        offer(&mut l, call, 500_000, Direction::Sent, &invite(call));
        assert!(l.next > before);
    }
    l.failed(at(500_000), unwatched, at(200), b"x", (&invite(unwatched), b""), "404");
    let ladder = &l.kept()[0];
    assert!(ladder.incomplete && ladder.steps.len() == 64 && ladder.steps[63].held);
}

#[test]
fn long_messages_are_cut_and_long_flows_too() {
    let mut l = Ladders::new(1, 1 << 20);
    offer(&mut l, 1, 0, Direction::Sent, &[b'a'; 60_000]);
    for i in 0..300 {
        offer(&mut l, 1, i, Direction::Sent, b"x");
    }
    l.failed(at(7), 1, at(0), &[b'i'; 5_000], (b"", b""), "why");
    let ladder = &l.kept()[0];
    assert_eq!((ladder.steps[0].bytes.len(), ladder.steps[0].length), (Ladders::SNAP, 60_000));
    assert_eq!((ladder.steps.len(), ladder.call_id.len()), (MAX_STEPS, 1_024));
    assert!(ladder.incomplete);
}

#[test]
fn more_addresses_than_lanes_share_the_last() {
    let mut l = Ladders::new(1, 1 << 16);
    for port in 1..10_u16 {
        let remote = SocketAddr::from(([10, 0, 0, 1], port));
        l.offer(1, at(0), Direction::Received, here(), remote, b"BYE sip:x SIP/2.0\r\n\r\n");
    }
    // One address talking to itself draws no arrow and does not break.
    l.offer(1, at(1), Direction::Sent, here(), here(), b"INFO sip:x SIP/2.0\r\n\r\n");
    l.failed(at(2), 1, at(0), b"a", (b"", b""), "why");
    let ladder = &l.kept()[0];
    assert_eq!(ladder.parties().len(), MAX_LANES);
    assert_eq!(ladder.text().matches("BYE").count(), 9);
    assert!(ladder.text().contains("| INFO"));
}

#[test]
fn the_first_of_all_workers() {
    let ladder = |t: u64, id: &str| Ladder {
        at: at(t),
        call_id: id.to_owned(),
        why: String::new(),
        steps: Vec::new(),
        incomplete: false,
    };
    let all = vec![ladder(5, "b"), ladder(9, "c"), ladder(5, "a")];
    let first: Vec<String> = Ladders::first(all, 2).into_iter().map(|l| l.call_id).collect();
    assert_eq!(first, ["a", "b"]);
}

proptest! {
    #[test]
    fn what_is_kept_is_what_was_offered(sizes in prop::collection::vec(0_usize..6_000, 1..80),
                                        ring in Ladders::SNAP..40_000) {
        let mut l = Ladders::new(1, ring);
        let message = |i: usize, size: usize| vec![i as u8; size];
        for (i, size) in sizes.iter().enumerate() {
            offer(&mut l, 1, i as u64, Direction::Sent, &message(i, *size));
        }
        l.failed(at(1_000), 1, at(0), b"a", (b"", b""), "why");
        let kept = &l.kept()[0];
        // The last ones, whole up to the limit, in order, and as many as fit with one gap at the end; before
        // them the marks of the first ones.
        let held: Vec<&Step> = kept.steps.iter().filter(|step| step.held).collect();
        let first = sizes.len() - held.len();
        prop_assert!(!held.is_empty());
        prop_assert_eq!(kept.steps.len() - held.len(), first.min(64));
        prop_assert_eq!(kept.incomplete, first > 64);
        for (step, size) in kept.steps.iter().zip(&sizes).take(first.min(64)) {
            prop_assert!(!step.held && step.length == *size);
        }
        for (step, (i, size)) in held.iter().zip(sizes.iter().enumerate().skip(first)) {
            prop_assert_eq!(step.length, *size);
            prop_assert_eq!(&step.bytes, &message(i, (*size).min(Ladders::SNAP)));
        }
    }
}

/// A message that no step took is shown until the call takes another.
#[test]
fn a_message_that_is_not_at_hand_is_set() {
    for forgotten in [false, true] {
        // Too small to hold any of these messages.
        let mut l = Ladders::new(1, 4_096);
        let pass = |l: &mut Ladders, call, direction, bytes: &[u8]| {
            l.pass(call, at(call), direction, (&here(), &there()), bytes)
        };
        // The first call is watched, and the ring goes round until not all of them are.
        assert!(pass(&mut l, 1, Direction::Sent, &[b'a'; 4_000]));
        let unwatched = (2..100).find(|&call| !pass(&mut l, call, Direction::Sent, &[b'b'; 4_000])).unwrap();
        let refused = b"SIP/2.0 503 Service Unavailable\r\n\r\n";
        assert!(!pass(&mut l, unwatched, Direction::Received, refused));
        l.set_latest(unwatched, refused);
        if forgotten {
            l.forget_latest(unwatched);
        }
        l.failed(at(100), unwatched, at(unwatched), b"x", (b"", b"SIP/2.0 180 Ringing\r\n\r\n"), "no");
        let shown = l.kept()[0].steps.last().unwrap();
        assert_eq!((shown.held, shown.bytes == refused), (!forgotten, !forgotten));
    }
}

#[test]
fn stray_messages_leave_room_for_calls() {
    let mut l = Ladders::new(3, 1 << 16);
    for n in 0..5 {
        l.stray(at(n), here(), there(), b"hello", "malformed");
    }
    for call in 1..5 {
        l.failed(at(9), call, at(0), b"call", (b"", b""), "why");
    }
    let why = |l: &Ladders| l.kept().iter().map(|flow| flow.why.clone()).collect::<Vec<_>>();
    assert_eq!(why(&l), ["malformed", "why", "why"]);
    let both = Ladders::first([l.kept(), l.kept()].concat(), 3);
    assert_eq!(both.iter().map(|flow| flow.why.as_str()).collect::<Vec<_>>(), ["malformed", "why", "why"]);
    let mut one = Ladders::new(1, 1 << 16);
    one.stray(at(1), here(), there(), b"hello", "malformed");
    one.failed(at(2), 1, at(0), b"call", (b"", b""), "why");
    assert_eq!(why(&one), ["why"]);
}
