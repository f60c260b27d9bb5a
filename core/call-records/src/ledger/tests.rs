use super::*;
use crate::event::{Answered, Began};
use proptest::prelude::*;

const LIMITS: Limits =
    Limits { calls: 1_000, setup: Duration::from_secs(300), session: Some(Duration::from_secs(3_600)) };
const SECOND: u64 = 1_000_000;

fn began(call_id: &[u8]) -> What<'_> {
    What::Began(Began {
        call_id,
        from: b"sip:ann@example.com",
        caller_tag: b"a",
        to: b"sip:bob@example.com",
        request_uri: b"sip:bob@example.com",
        asserted: b"",
        user: b"ann@example.com",
        trunk: b"",
        source: ([192, 0, 2, 1], 5060).into(),
        transport: b"UDP",
    })
}

fn answered(dialog: u64) -> What<'static> {
    let tag: &[u8] = if dialog == 1 { b"b1" } else { b"b" };
    let target = b"sip:bob@192.0.2.2";
    What::Answered(Answered { status: 200, dialog, callee_tag: tag, target, trunk: b"", codec: b"" })
}

/// A ledger that hears these events of one call, and the records that it gave.
fn heard(events: &[(u64, What<'_>)]) -> (Ledger, Vec<Record>) {
    let (mut ledger, mut done) = (Ledger::new(LIMITS), Vec::new());
    for (at, what) in events {
        ledger.apply(&Event { name: CallName::new(7), at: *at, what: *what }, &mut done);
    }
    (ledger, done)
}

#[test]
fn call_that_was_answered_has_all_its_times() {
    let (ledger, done) = heard(&[
        (1, began(b"c")),
        (2, What::Tried(b"sip:bob@192.0.2.2")),
        (3, What::Rang),
        (4, What::Rang),
        (5, answered(0)),
        (9, What::Ended(Party::Callee, 0)),
    ]);
    assert!(ledger.is_empty());
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.started, record.ringing, record.answered, record.ended), (1, Some(3), Some(5), 9));
    assert_eq!((record.status, record.ended_by, record.tried), (200, Party::Callee, 1));
    assert_eq!(record.callee.target, b"sip:bob@192.0.2.2");
}

#[test]
fn refused_and_cancelled_calls_have_their_status() {
    for (status, by) in [(486, Party::Callee), (487, Party::Caller), (480, Party::Server)] {
        let (_, done) = heard(&[(1, began(b"c")), (3, What::Failed(status, by))]);
        let [record] = &done[..] else { panic!("{done:?}") };
        assert_eq!((record.status, record.ended_by, record.answered, record.ended), (status, by, None, 3));
    }
}

#[test]
fn call_that_nobody_answered_may_be_answered_late() {
    let silent = [(SECOND, began(b"c")), (9 * SECOND, What::Failed(408, Party::Timeout))];
    let (mut ledger, mut done) = heard(&silent);
    ledger.expire(48 * SECOND, &mut done);
    assert!(done.is_empty(), "an answer may still come");
    ledger.expire(49 * SECOND, &mut done);
    assert_eq!(done.pop().map(|record| (record.status, record.ended)), Some((408, 9 * SECOND)));

    let (mut ledger, mut done) = heard(&silent);
    for (at, what) in [(10, answered(0)), (90, What::Ended(Party::Caller, 0))] {
        ledger.expire(at * SECOND, &mut done);
        ledger.apply(&Event { name: CallName::new(7), at: at * SECOND, what }, &mut done);
    }
    let record = done.pop().expect("it is over");
    assert_eq!((record.status, record.answered, record.ended), (200, Some(10 * SECOND), 90 * SECOND));

    let (ledger, done) = heard(&[silent[0], silent[1], (10 * SECOND, began(b"c"))]);
    assert_eq!((done.len(), ledger.len()), (1, 1), "a second attempt is a record of its own");
}

#[test]
fn failure_after_an_answer_changes_nothing() {
    let (ledger, done) =
        heard(&[(1, began(b"c")), (2, began(b"c")), (3, answered(0)), (4, What::Failed(487, Party::Caller))]);
    assert!(done.is_empty() && ledger.len() == 1);
}

#[test]
fn invites_that_join_make_one_record() {
    let (ledger, done) = heard(&[
        (1, began(b"c")),
        (2, began(b"c")),
        (3, What::Failed(486, Party::Callee)),
        (4, What::Failed(480, Party::Callee)),
    ]);
    assert!(ledger.is_empty());
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.joined, record.status, record.ended), (1, 480, 4));
}

#[test]
fn call_with_two_answers_ends_with_the_last_dialog() {
    let (_, done) = heard(&[
        (1, began(b"c")),
        (2, answered(1)),
        (3, answered(2)),
        (4, What::Ended(Party::Caller, 2)),
        (9, What::Ended(Party::Callee, 1)),
    ]);
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.answered, record.ended, record.ended_by), (Some(2), 9, Party::Callee));
    assert_eq!(record.callee.tag, b"b1");
}

#[test]
fn call_tried_again_after_a_failure_has_a_second_record() {
    let (_, done) = heard(&[
        (1, began(b"c")),
        (2, What::Failed(503, Party::Callee)),
        (3, began(b"c")),
        (4, What::Failed(486, Party::Callee)),
    ]);
    assert_eq!(
        done.iter().map(|record| (record.started, record.status)).collect::<Vec<_>>(),
        [(1, 503), (3, 486)]
    );
}

#[test]
fn events_of_an_unknown_call_are_counted() {
    let (ledger, done) = heard(&[(1, What::Ended(Party::Caller, 0)), (2, What::Failed(486, Party::Callee))]);
    assert!(done.is_empty());
    assert_eq!(ledger.strays(), 2);
}

#[test]
fn calls_without_an_end_are_closed_at_their_time() {
    let (mut ledger, mut done) = heard(&[(SECOND, began(b"c"))]);
    ledger.expire(300 * SECOND, &mut done);
    assert!(done.is_empty());
    ledger.expire(301 * SECOND, &mut done);
    assert_eq!(done.pop().map(|record| (record.status, record.ended_by)), Some((408, Party::Timeout)));

    let (mut ledger, mut done) = heard(&[(SECOND, began(b"c")), (2 * SECOND, answered(0))]);
    for second in (0..3_602).step_by(10) {
        ledger.expire(second * SECOND, &mut done);
        assert!(done.is_empty(), "after {second} s");
    }
    ledger.expire(4_000 * SECOND, &mut done);
    let record = done.pop().expect("it is over");
    assert_eq!((record.status, record.ended_by, record.ended), (200, Party::Timeout, 4_000 * SECOND));
}

#[test]
fn too_many_calls_close_the_oldest() {
    let (mut ledger, mut done) = (Ledger::new(Limits { calls: 3, ..LIMITS }), Vec::new());
    for number in 0..10_u64 {
        let event = Event { name: CallName::new(number.into()), at: number, what: began(b"c") };
        ledger.apply(&event, &mut done);
    }
    assert_eq!((ledger.len(), ledger.closed_early()), (3, 7));
    assert_eq!(done.iter().map(|record| record.started).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
}

proptest! {
    /// A ledger that goes on as it is told again closes the same calls at the same looks.
    #[test]
    fn retold_ledger_expires_as_the_next_one(events in proptest::collection::vec((0_u8..6, 0_u8..4, 0_u64..3), 0..120), looks in proptest::collection::vec(0_u64..9_000, 1..20)) {
        let (mut first, mut done) = (Ledger::new(LIMITS), Vec::new());
        for (at, (kind, call, dialog)) in (0_u64..).zip(&events) {
            let what = match kind {
                0 => began(b"c"),
                1 => What::Tried(b"sip:x"),
                2 => What::Rang,
                3 => answered(dialog + 1),
                4 => What::Failed(408, Party::Timeout),
                _ => What::Ended(Party::Caller, dialog + 1),
            };
            first.apply(&Event { name: CallName::new(u128::from(*call)), at: at * SECOND, what }, &mut done);
            if at % 40 == 0 {
                first.expire(at * SECOND, &mut done);
            }
        }
        let mut live = first.retold();
        let mut next = Ledger::new(LIMITS);
        live.events(&mut |event| next.apply(event, &mut done));
        let (mut here, mut there) = (Vec::new(), Vec::new());
        let mut looks = looks;
        looks.sort_unstable();
        for look in looks {
            live.expire(look * SECOND, &mut here);
            next.expire(look * SECOND, &mut there);
        }
        prop_assert_eq!(here, there);
    }

    /// What a ledger says of its open calls makes another one that goes on as it does.
    #[test]
    fn open_calls_can_be_told_again(events in proptest::collection::vec((0_u8..6, 0_u8..4, 0_u64..3), 0..120), more in 0_usize..120) {
        let what = |kind: u8, dialog: u64| match kind {
            0 => began(b"c"),
            1 => What::Tried(b"sip:x"),
            2 => What::Rang,
            3 => answered(dialog + 1),
            4 => What::Failed(486, Party::Callee),
            _ => What::Ended(Party::Caller, dialog + 1),
        };
        let (mut first, mut done) = (Ledger::new(LIMITS), Vec::new());
        let cut = more.min(events.len());
        let all = || (0_u64..).zip(&events).map(|(at, (kind, call, dialog))| Event { name: CallName::new(u128::from(*call)), at, what: what(*kind, *dialog) });
        all().take(cut).for_each(|event| first.apply(&event, &mut done));
        let mut second = Ledger::new(LIMITS);
        first.events(&mut |event| second.apply(event, &mut done));
        prop_assert_eq!((first.len(), second.len()), (first.len(), first.len()));
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for event in all().skip(cut) {
            first.apply(&event, &mut here);
            second.apply(&event, &mut there);
        }
        let essence = |records: &[Record]| records.iter().map(|r| (r.name, r.started, r.ringing, r.answered, r.ended, r.status)).collect::<Vec<_>>();
        prop_assert_eq!(essence(&here), essence(&there));
    }

    /// Whatever comes: as many records as calls that began and are not open, none twice, and times in order.
    #[test]
    fn each_beginning_has_one_record(events in proptest::collection::vec((0_u8..6, 0_u8..5, 0_u8..3), 0..300)) {
        let (mut ledger, mut done) = (Ledger::new(Limits { calls: 4, ..LIMITS }), Vec::new());
        let mut begun = 0;
        for (at, (kind, call, tag)) in (0_u64..).zip(&events) {
            let what = match kind {
                0 => began(b"c"),
                1 => What::Tried(b"sip:x"),
                2 => What::Rang,
                3 => answered(u64::from(*tag)),
                4 => What::Failed(486, Party::Callee),
                _ => What::Ended(Party::Caller, u64::from(*tag)),
            };
            let name = CallName::new(u128::from(*call));
            begun += usize::from(*kind == 0 && !ledger.is_open(name));
            ledger.apply(&Event { name, at: at * SECOND, what }, &mut done);
            prop_assert!(ledger.len() <= 4);
        }
        prop_assert_eq!(begun, done.len() + ledger.len());
        for _ in 0..50 {
            ledger.expire(u64::MAX, &mut done);
        }
        prop_assert!(ledger.is_empty());
        for record in &done {
            let times = [Some(record.started), record.answered, Some(record.ended)];
            prop_assert!(times.iter().flatten().is_sorted(), "{:?}", record);
        }
        let mut names: Vec<_> = done.iter().map(|record| (record.name, record.started)).collect();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), done.len());
    }
}
