use proptest::prelude::*;

use super::*;
use crate::metrics::Failure;

fn us(t: u64) -> Time {
    Time::from_micros(t)
}

fn windowed(from: u64, until: u64) -> Metrics {
    Metrics::new(&Setup {
        window: Window { from: us(from), until: us(until) },
        stopwatches: vec!["1".to_owned(), "2".to_owned()],
        ..Setup::default()
    })
}

#[test]
fn a_call_belongs_to_the_window_in_which_it_was_meant_to_begin() {
    let mut m = windowed(1_000, 2_000);
    // Meant for 1,990, sent at 2,100, answered much later: measured, in every respect.
    let late = Began { intended: us(1_990), sent: us(2_100) };
    m.call_begun(Side::Caller, late);
    m.scheduled_send(late.sent, late.intended);
    m.session_requested(late);
    m.session_established(us(9_000), late, None, 200);
    m.call_ended(us(50_000), Side::Caller, late, CallEnd::Success);
    // Meant for the warm-up, answered in the window: not measured.
    let early = Began { intended: us(990), sent: us(1_100) };
    m.call_begun(Side::Caller, early);
    m.session_established(us(1_500), early, None, 200);
    m.call_ended(us(1_600), Side::Caller, early, CallEnd::Failed(Failure::Refused));
    assert_eq!((m.measured.sides[0].begun, m.all.sides[0].begun), (1, 2));
    assert_eq!((m.measured.sides[0].succeeded, m.measured.sides[0].failures()), (1, 0));
    assert_eq!(m.all.sides[0].failures(), 1);
    assert_eq!(m.measured.sessions_established, 1);
    assert_eq!(m.punctuality().lateness().max(), 110);
    let srd = m.latency(Measure::SrdSuccess);
    assert_eq!((srd.intended.count(), srd.intended.max(), srd.sent.max()), (1, 7_010, 6_900));
    assert_eq!(m.latency(Measure::CallLength).sent.max(), 47_900);
}

#[test]
fn a_stalled_server_shows_in_the_latency_from_the_intended_start() {
    // One call each millisecond; from 100 to 2,100 ms the generator cannot send (its window is full), and
    // then sends all that was due. The server answers in 1 ms. From the actual start nothing was slow.
    let mut m = Metrics::new(&Setup::default());
    for i in 0..3_000_u64 {
        let intended = Time::from_millis(i);
        let sent = if (100..2_100).contains(&i) { Time::from_millis(2_100) } else { intended };
        m.responded(us(sent.as_micros() + 1_000), Began { intended, sent });
    }
    let r = m.latency(Measure::Response);
    assert_eq!(r.sent.max(), 1_000);
    assert_eq!(r.intended.max(), 2_001_000);
    // Two thirds of the calls were meant for the stall and waited evenly from 0 to 2 s.
    let p50 = r.intended.percentile(50.0);
    assert!((490_000..=510_000).contains(&p50), "{p50}");
}

#[test]
fn messages_count_when_they_pass() {
    let mut m = windowed(1_000, 2_000);
    for at in [500, 1_500] {
        m.request_sent(us(at), Method::Invite);
        m.request_repeated(us(at), Method::Invite);
        m.response_received(us(at), 180);
        m.request_received(us(at), Method::Bye);
        m.response_sent(us(at));
        m.response_repeated(us(at));
        m.unexpected(us(at), Unexpected::NoCall);
        m.dead_call(us(at));
        m.challenged(us(at));
        m.lost(us(at), Lost { received: 1, crossing: 1, unsent: 0, unopened: 1 });
        m.send_failed(us(at));
        m.queue_depth(us(at), at as usize);
    }
    let c = &m.measured;
    assert_eq!((c.messages_sent(), c.messages_received(), c.retransmissions()), (4, 2, 1));
    assert_eq!((c.unexpected_messages(), c.dead_call_messages, c.challenges), (1, 1, 1));
    assert_eq!((c.lost().all(), c.undeliverable, m.all.lost().all()), (3, 1, 6));
    assert_eq!((m.punctuality().queue().count(), m.punctuality().queue().max()), (1, 1_500));
    let p = &m.series().points()[0];
    assert_eq!((p.sent, p.received, p.repeated, p.unexpected, p.drops, p.queue), (8, 4, 2, 2, 6, 1_500));
}

#[test]
fn stopwatches_and_voicemail() {
    let mut m = windowed(0, 1_000_000);
    m.stopwatch(1, us(700), Began { intended: us(100), sent: us(200) });
    m.stopwatch(7, us(700), Began::at(us(0)));
    m.stopwatch(0, us(3_000_000), Began::at(us(2_000_000)));
    let [(one, first), (two, second)] = m.custom().stopwatches() else { panic!("two were announced") };
    assert_eq!((one.as_str(), first.sent.count()), ("1", 0));
    assert_eq!((two.as_str(), second.intended.max(), second.sent.max()), ("2", 600, 500));
    m.voicemail(Began::at(us(5)));
    assert_eq!(m.measured.voicemails, 1);
}

#[test]
fn a_timeout_has_no_latency() {
    let mut m = Metrics::new(&Setup::default());
    let began = Began::at(us(0));
    m.transaction_ended(us(5), Method::Options, began, TransactionEnd::Success);
    m.transaction_ended(us(9), Method::Options, began, TransactionEnd::Failed);
    m.transaction_ended(us(32_000_000), Method::Options, began, TransactionEnd::Timeout);
    m.transaction_ended(us(7), Method::Invite, began, TransactionEnd::Success);
    let t = m.latency(Measure::Transaction);
    assert_eq!((t.sent.count(), t.sent.max()), (2, 9));
    assert_eq!(m.measured.transactions_percent(), Some(50.0));
}

#[test]
fn pulses_of_workers_that_are_behind_are_left_out_of_the_interval() {
    let mut a = Metrics::new(&Setup::default());
    let mut b = Metrics::new(&Setup::default());
    for second in 0..3 {
        a.request_sent(Time::from_secs(second), Method::Invite);
        b.request_sent(Time::from_secs(second), Method::Invite);
    }
    b.request_sent(Time::from_secs(3), Method::Invite);
    let mut same = a.pulse();
    same.merge(&a.pulse());
    assert_eq!(same.last.as_ref().map(|(i, p)| (*i, p.sent)), Some((1, 2)));
    for (x, y) in [(&a, &b), (&b, &a)] {
        let mut pulse = x.pulse();
        pulse.merge(&y.pulse());
        assert_eq!(pulse.last.as_ref().map(|(i, p)| (*i, p.sent)), Some((2, 1)));
        assert_eq!(pulse.counters.requests_sent[Method::Invite as usize], 7);
    }
    let mut none = Metrics::new(&Setup::default()).pulse();
    assert!(none.last.is_none());
    none.merge(&a.pulse());
    assert!(none.last.is_some());
}

/// Does something that depends on `what`, for the merging test.
fn act(m: &mut Metrics, what: u64, at: u64, delay: u64) {
    let began = Began { intended: us(at), sent: us(at + delay / 10) };
    let now = us(at + delay);
    match what % 12 {
        0 => m.call_begun(Side::Caller, began),
        1 => m.call_ended(now, Side::Callee, began, CallEnd::Failed(Failure::Test)),
        2 => m.call_ended(now, Side::Caller, began, CallEnd::Success),
        3 => m.session_requested(began),
        4 => m.session_established(now, began, Some(began.sent), 200),
        5 => m.session_refused(now, began, None, 486),
        6 => m.session_ended(now, began, began.sent, Bye::Answered(began)),
        7 => m.registered(now, began, Registering::First),
        8 => m.registration_failed(now, began, Registering::Refresh),
        9 => m.scheduled_send(now, began.intended),
        10 => m.queue_depth(now, delay as usize),
        _ => m.stopwatch(0, now, began),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn merging_is_associative_and_commutative_and_as_if_recorded_by_one(
        events in prop::collection::vec((0_usize..3, 0_u64..12, 0_u64..10_000_000, 0_u64..3_000_000), 0..60)
    ) {
        let mut events = events;
        events.sort_by_key(|e| e.2 + e.3);
        let new = || windowed(1_000_000, 8_000_000);
        let (mut parts, mut one) = ([new(), new(), new()], new());
        for (worker, what, at, delay) in events {
            act(&mut parts[worker], what, at, delay);
            act(&mut one, what, at, delay);
        }
        let same = |x: &Metrics, y: &Metrics| {
            x.all == y.all
                && x.measured == y.measured
                && x.latencies == y.latencies
                && x.custom == y.custom
                && x.punctuality == y.punctuality
        };
        let [a, b, c] = parts;
        let mut left = a.clone();
        left.merge(&b);
        left.merge(&c);
        let mut right = c.clone();
        right.merge(&b);
        right.merge(&a);
        prop_assert!(same(&left, &right));
        prop_assert_eq!(left.series.points(), right.series.points());
        prop_assert!(same(&left, &one));
    }
}
