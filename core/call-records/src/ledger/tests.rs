use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    calls: 1_000,
    setup: Duration::from_secs(300),
    session: Some(Duration::from_secs(3_600)),
    late: Duration::from_secs(72),
    repeated: Duration::from_secs(40),
};
const SECOND: u64 = 1_000_000;

const BEGAN: Began<'_> = Began {
    call_id: b"c",
    from: b"sip:ann@example.com",
    caller_tag: b"a",
    to: b"sip:bob@example.com",
    request_uri: b"sip:bob@example.com",
    asserted: b"",
    user: b"ann@example.com",
    trunk: b"",
    source: core::net::SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1)), 5060),
    transport: b"UDP",
    within: false,
};

fn began() -> What<'static> {
    What::Began(BEGAN)
}

fn tried(target: &[u8], branch: u16) -> What<'_> {
    What::Tried(Tried { target, trunk: b"carrier", branch })
}

fn answered(dialog: u64) -> What<'static> {
    let tag: &[u8] = if dialog == 1 { b"b1" } else { b"b" };
    let (target, trunk, codec) = (b"sip:bob@192.0.2.2", b"", b"");
    What::Answered(Answered { status: 200, dialog, branch: NO_BRANCH, callee_tag: tag, target, trunk, codec })
}

fn failed(status: u16, by: Party) -> What<'static> {
    What::Failed(Failed { status, by, late: by == Party::Timeout })
}

fn ended(by: Party, dialog: u64) -> What<'static> {
    What::Ended(Ended { by, dialog, ago: 0 })
}

fn event(name: u64, at: u64, what: What<'_>) -> Event<'_> {
    Event { name: CallName::new(name.into()), at, ahead: 0, what }
}

/// A ledger that hears these events of one call, and the records that it gave.
fn heard(events: &[(u64, What<'_>)]) -> (Ledger, Vec<Record>) {
    let (mut ledger, mut done) = (Ledger::new(LIMITS), Vec::new());
    for (at, what) in events {
        ledger.apply(&event(7, *at, *what), &mut done);
    }
    (ledger, done)
}

#[test]
fn call_that_was_answered_has_all_its_times() {
    let (ledger, done) = heard(&[
        (1, began()),
        (2, tried(b"sip:bob@192.0.2.2", 0)),
        (3, What::Rang),
        (4, What::Rang),
        (5, answered(4)),
        (9, ended(Party::Callee, 4)),
    ]);
    assert!(ledger.is_empty());
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.started, record.ringing, record.answered, record.ended), (1, Some(3), Some(5), 9));
    assert_eq!((record.status, record.ended_by, record.tried), (200, Party::Callee, 1));
    assert_eq!(record.callee.target, b"sip:bob@192.0.2.2");
}

#[test]
fn call_ends_when_its_bye_came() {
    let bye = What::Ended(Ended { by: Party::Caller, dialog: 4, ago: 32 * SECOND });
    let (_, done) = heard(&[(1, began()), (5, answered(4)), (41 * SECOND, bye)]);
    assert_eq!(done[0].ended, 9 * SECOND);
    // Never before it was answered.
    let bye = What::Ended(Ended { by: Party::Caller, dialog: 4, ago: 90 * SECOND });
    let (_, done) = heard(&[(1, began()), (5, answered(4)), (41 * SECOND, bye)]);
    assert_eq!(done[0].ended, 5);
}

#[test]
fn clock_that_is_set_changes_no_duration() {
    let (mut ledger, mut done) = (Ledger::new(LIMITS), Vec::new());
    let events = [
        (SECOND, 500 * SECOND as i64, began()),
        (3 * SECOND, -7, answered(4)),
        (9 * SECOND, i64::MAX, ended(Party::Caller, 4)),
    ];
    for (at, ahead, what) in events {
        ledger.apply(&Event { ahead, ..event(7, at, what) }, &mut done);
    }
    let record = &done[0];
    assert_eq!(record.started, 501 * SECOND);
    assert_eq!((record.answered, record.ended), (Some(503 * SECOND), 509 * SECOND));
}

#[test]
fn refused_and_cancelled_calls_have_their_status() {
    for (status, by) in [(486, Party::Callee), (487, Party::Caller), (480, Party::Server)] {
        let (_, done) = heard(&[(1, began()), (3, failed(status, by))]);
        let [record] = &done[..] else { panic!("{done:?}") };
        assert_eq!((record.status, record.ended_by, record.answered, record.ended), (status, by, None, 3));
    }
}

#[test]
fn call_that_nobody_answered_may_be_answered_late() {
    let silent = [(SECOND, began()), (9 * SECOND, failed(408, Party::Timeout))];
    let (mut ledger, mut done) = heard(&silent);
    ledger.expire(80 * SECOND, &mut done);
    assert!(done.is_empty(), "an answer may still come");
    ledger.expire(81 * SECOND, &mut done);
    assert_eq!(done.pop().map(|record| (record.status, record.ended)), Some((408, 9 * SECOND)));

    // One of two phones was busy, the other one was silent.
    let late = What::Failed(Failed { status: 486, by: Party::Callee, late: true });
    for failed in [failed(408, Party::Timeout), late] {
        let (mut ledger, mut done) = heard(&[(SECOND, began()), (9 * SECOND, failed)]);
        // A CANCEL had waited for as long as the phone was silent.
        for (at, what) in [(72, answered(4)), (90, ended(Party::Caller, 4))] {
            ledger.expire(at * SECOND, &mut done);
            ledger.apply(&event(7, at * SECOND, what), &mut done);
        }
        let record = done.pop().expect("it is over");
        assert_eq!((record.status, record.answered, record.ended), (200, Some(72 * SECOND), 90 * SECOND));
    }

    let (ledger, done) = heard(&[silent[0], silent[1], (10 * SECOND, began())]);
    assert_eq!((done.len(), ledger.len()), (1, 1), "a second attempt is a record of its own");
}

#[test]
fn late_answer_has_the_target_of_its_branch() {
    let late = |branch| {
        let (callee_tag, target, trunk, codec) = (b"b", b"", b"", b"");
        What::Answered(Answered { status: 200, dialog: 4, branch, callee_tag, target, trunk, codec })
    };
    for (branch, target, trunk) in [(1, "sip:x", "carrier"), (2, "sip:y", "carrier"), (3, "", "")] {
        let (_, done) = heard(&[
            (1, began()),
            (1, tried(b"sip:x", 1)),
            (1, tried(b"sip:y", 2)),
            (3, late(branch)),
            (4, ended(Party::Caller, 4)),
        ]);
        let callee = &done[0].callee;
        assert_eq!((&callee.target[..], &callee.trunk[..]), (target.as_bytes(), trunk.as_bytes()));
    }
}

#[test]
fn failure_after_an_answer_changes_nothing() {
    let (ledger, done) = heard(&[(1, began()), (3, answered(4)), (4, failed(487, Party::Caller))]);
    assert!(done.is_empty() && ledger.len() == 1);
}

#[test]
fn invite_repeated_after_a_restart_makes_one_record() {
    let (ledger, done) = heard(&[(1, began()), (2, began()), (4, failed(480, Party::Callee))]);
    assert!(ledger.is_empty());
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.joined, record.status, record.ended), (1, 480, 4));
}

#[test]
fn invite_with_the_name_of_another_call_has_its_own_record() {
    let others = [
        Began { user: b"eve@example.com", ..BEGAN },
        Began { user: b"", ..BEGAN },
        Began { trunk: b"carrier", ..BEGAN },
        Began { to: b"sip:+900@example.com", ..BEGAN },
        Began { request_uri: b"sip:+900@example.com", ..BEGAN },
        Began { source: ([192, 0, 2, 9], 5060).into(), ..BEGAN },
    ];
    for other in others {
        let (mut ledger, mut done) = heard(&[(1, began()), (2, answered(4)), (3, What::Began(other))]);
        assert_eq!((ledger.len(), done.len()), (2, 0), "{other:?}");
        ledger.apply(&event(7, 4, failed(486, Party::Callee)), &mut done);
        assert_eq!((done[0].status, &done[0].source.user[..]), (486, other.user));
        ledger.apply(&event(0, 9, ended(Party::Callee, 4)), &mut done);
        assert_eq!((done[1].status, done[1].started, done[1].ended), (200, 1, 9));
    }
    // Nor is it the same one later than it could be repeated.
    let (ledger, _) = heard(&[(1, began()), (2, answered(4)), (41 * SECOND, began())]);
    assert_eq!(ledger.len(), 2);
}

#[test]
fn invite_within_a_call_has_no_record() {
    let within = What::Began(Began { within: true, ..BEGAN });
    let (mut ledger, mut done) = (Ledger::new(LIMITS), Vec::new());
    let call = [event(1, 1, began()), event(1, 2, answered(4))];
    let accepted = [event(2, 5, within), event(2, 6, tried(b"sip:x", 1)), event(2, 7, answered(4))];
    let refused = [event(3, 10, within), event(3, 11, failed(488, Party::Callee))];
    call.iter().chain(&accepted).chain(&refused).for_each(|event| ledger.apply(event, &mut done));
    assert_eq!((ledger.len(), done.len()), (1, 0));
    // A tag that no call has is made up.
    for event in [event(4, 20, within), event(4, 21, answered(5)), event(0, 22, ended(Party::Caller, 5))] {
        ledger.apply(&event, &mut done);
    }
    assert_eq!(done.iter().map(|record| (record.started, record.ended)).collect::<Vec<_>>(), [(20, 22)]);
    ledger.apply(&event(0, 30, ended(Party::Caller, 4)), &mut done);
    assert!(ledger.is_empty() && done.len() == 2);
}

#[test]
fn bye_ends_no_other_call() {
    let (mut ledger, mut done) = (Ledger::new(LIMITS), Vec::new());
    for name in [1, 2] {
        ledger.apply(&event(name, name, began()), &mut done);
        ledger.apply(&event(name, 5, answered(10 + name)), &mut done);
    }
    ledger.apply(&event(1, 9, ended(Party::Caller, 12)), &mut done);
    assert_eq!(done.iter().map(|record| record.name.number()).collect::<Vec<_>>(), [2]);
    assert!(ledger.is_open(CallName::new(1)));
}

#[test]
fn call_with_two_answers_ends_with_the_last_dialog() {
    let (_, done) = heard(&[
        (1, began()),
        (2, answered(1)),
        (3, answered(2)),
        (4, ended(Party::Caller, 2)),
        (9, ended(Party::Callee, 1)),
    ]);
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.answered, record.ended, record.ended_by), (Some(2), 9, Party::Callee));
    assert_eq!(record.callee.tag, b"b1");
}

#[test]
fn repeated_answer_of_an_ended_dialog_opens_nothing() {
    let begun = [(1, began()), (2, answered(1)), (2, answered(2)), (4, ended(Party::Caller, 2))];
    let (mut told, _) = heard(&begun);
    for ledger in [&mut told.retold(), &mut told] {
        let mut done = Vec::new();
        ledger.apply(&event(7, 5, answered(2)), &mut done);
        ledger.apply(&event(7, 9, ended(Party::Callee, 1)), &mut done);
        let [record] = &done[..] else { panic!("{done:?}") };
        assert_eq!((record.ended, record.ended_by, &record.callee.tag[..]), (9, Party::Callee, &b"b1"[..]));
        assert!(ledger.is_empty() && ledger.dialogs.is_empty());
    }
}

#[test]
fn call_with_many_forks_ends_with_the_last_one() {
    let (mut ledger, mut done) = heard(&[(1, began()), (2, answered(1))]);
    for dialog in 2..20 {
        ledger.apply(&event(7, 2, answered(dialog)), &mut done);
        ledger.apply(&event(7, 3, ended(Party::Caller, dialog)), &mut done);
        ledger = ledger.retold();
        assert!(ledger.open.values().all(|open| open.ended.len() <= DIALOGS_MAX));
    }
    ledger.apply(&event(7, 9, ended(Party::Callee, 1)), &mut done);
    assert_eq!(done.iter().map(|record| record.ended).collect::<Vec<_>>(), [9]);
}

#[test]
fn session_interval_without_measure_is_cut() {
    let most = u64::from(SESSION_MAX);
    let (mut ledger, mut done) =
        heard(&[(SECOND, began()), (2 * SECOND, answered(1)), (2 * SECOND, What::Refreshed(1, u32::MAX))]);
    ledger.expire((2 + most + 31) * SECOND, &mut done);
    assert!(done.is_empty());
    ledger.expire((2 + most + 32) * SECOND, &mut done);
    assert_eq!(done.iter().map(|record| record.ended).collect::<Vec<_>>(), [(2 + most) * SECOND]);
}

#[test]
fn call_tried_again_after_a_failure_has_a_second_record() {
    let (_, done) = heard(&[
        (1, began()),
        (2, failed(503, Party::Callee)),
        (3, began()),
        (4, failed(486, Party::Callee)),
    ]);
    assert_eq!(
        done.iter().map(|record| (record.started, record.status)).collect::<Vec<_>>(),
        [(1, 503), (3, 486)]
    );
}

#[test]
fn refused_stranger_has_one_record() {
    let refused = |status| What::Refused(Began { user: b"", ..BEGAN }, status);
    let (ledger, done) =
        heard(&[(SECOND, refused(403)), (2 * SECOND, refused(403)), (41 * SECOND, refused(404))]);
    assert!(ledger.is_empty());
    let all: Vec<_> = done.iter().map(|record| (record.started, record.ended, record.status)).collect();
    assert_eq!(all, [(SECOND, SECOND, 403), (41 * SECOND, 41 * SECOND, 404)]);
    assert!(done.iter().all(|record| record.ended_by == Party::Server && record.answered.is_none()));
}

#[test]
fn events_of_an_unknown_call_are_counted() {
    let (ledger, done) = heard(&[(1, ended(Party::Caller, 4)), (2, failed(486, Party::Callee))]);
    assert!(done.is_empty());
    assert_eq!(ledger.strays(), 2);
}

#[test]
fn calls_without_an_end_are_closed_at_their_time() {
    let (mut ledger, mut done) = heard(&[(SECOND, began())]);
    ledger.expire(300 * SECOND, &mut done);
    assert!(done.is_empty());
    ledger.expire(301 * SECOND, &mut done);
    assert_eq!(done.pop().map(|record| (record.status, record.ended_by)), Some((408, Party::Timeout)));

    let (mut ledger, mut done) = heard(&[(SECOND, began()), (2 * SECOND, answered(4))]);
    for second in (0..3_602).step_by(10) {
        ledger.expire(second * SECOND, &mut done);
        assert!(done.is_empty(), "after {second} s");
    }
    ledger.expire(4_000 * SECOND, &mut done);
    let record = done.pop().expect("it is over");
    assert_eq!((record.status, record.ended_by, record.ended), (200, Party::Timeout, 4_000 * SECOND));
}

#[test]
fn call_that_is_refreshed_stays_open() {
    let (mut ledger, mut done) = heard(&[(SECOND, began()), (2 * SECOND, answered(4))]);
    for second in (0..50_000).step_by(100) {
        if second % 1_800 == 0 {
            ledger.apply(&event(0, second * SECOND, What::Lives(4)), &mut done);
        }
        ledger.expire(second * SECOND, &mut done);
    }
    assert!(done.is_empty());
    ledger.apply(&event(0, 50_000 * SECOND, ended(Party::Callee, 4)), &mut done);
    assert_eq!((done[0].ended, done[0].ended_by), (50_000 * SECOND, Party::Callee));
}

/// Looks at all seconds up to `until`; the records that this gives.
fn looked(ledger: &mut Ledger, until: u64) -> Vec<Record> {
    let mut done = Vec::new();
    for second in 0..=until {
        let due = ledger.is_due(second * SECOND);
        let before = done.len();
        while ledger.expire(second * SECOND, &mut done) {}
        assert!(due || done.len() == before, "closed at {second} s without being due");
    }
    done
}

#[test]
fn call_that_is_not_refreshed_ends_with_its_session() {
    let (mut ledger, _) = heard(&[
        (SECOND, began()),
        (2 * SECOND, answered(1)),
        (2 * SECOND, What::Refreshed(1, 100)),
        (50 * SECOND, What::Refreshed(1, 90)),
    ]);
    assert_eq!(looked(&mut ledger, 171), []);
    let done = looked(&mut ledger, 172);
    let [record] = &done[..] else { panic!("{done:?}") };
    assert_eq!((record.status, record.ended_by, record.ended), (200, Party::Timeout, 140 * SECOND));
    assert!(ledger.is_empty());
}

#[test]
fn session_longer_than_the_limit_keeps_its_call_open() {
    let (mut ledger, _) = heard(&[(SECOND, began()), (2 * SECOND, answered(1))]);
    let mut done = Vec::new();
    for hour in 0..100 {
        let at = (2 * hour * 3_600 + 2) * SECOND;
        ledger.apply(&event(7, at, What::Refreshed(1, 14_400)), &mut done);
        for later in 0..7_200 {
            ledger.expire(at + later * SECOND, &mut done);
        }
    }
    assert!(done.is_empty(), "its time without a timer would be an hour: {done:?}");
    let at = 750_000 * SECOND;
    ledger.apply(&event(7, at, ended(Party::Callee, 1)), &mut done);
    assert_eq!(done.pop().map(|record| (record.ended, record.ended_by)), Some((at, Party::Callee)));
}

#[test]
fn call_whose_timer_is_taken_away_has_the_usual_time() {
    let (mut ledger, _) = heard(&[
        (SECOND, began()),
        (2 * SECOND, answered(1)),
        (2 * SECOND, What::Refreshed(1, 100)),
        (50 * SECOND, What::Refreshed(1, 0)),
    ]);
    assert_eq!(looked(&mut ledger, 3_649), []);
    let done = looked(&mut ledger, 4_000);
    assert_eq!(done.iter().map(|record| record.ended_by).collect::<Vec<_>>(), [Party::Timeout]);
}

#[test]
fn fork_without_timer_keeps_its_call_open() {
    let timed = [
        (SECOND, began()),
        (2 * SECOND, answered(1)),
        (2 * SECOND, What::Refreshed(1, 100)),
        (2 * SECOND, answered(2)),
    ];
    let (mut ledger, _) = heard(&timed);
    assert_eq!(looked(&mut ledger, 1_000), []);
    let over = (3 * SECOND, ended(Party::Caller, 2));
    let (mut ledger, _) = heard(&[&timed[..], &[over]].concat());
    assert_eq!(looked(&mut ledger, 1_000).len(), 1, "the other one has a timer");
}

#[test]
fn too_many_calls_leave_the_newest_out() {
    let (mut ledger, mut done) = (Ledger::new(Limits { calls: 4, ..LIMITS }), Vec::new());
    let stranger = What::Began(Began { user: b"", ..BEGAN });
    let calls = [began(), stranger, stranger, stranger, began(), began()];
    for (name, what) in (1..).zip(calls) {
        ledger.apply(&event(name, name, what), &mut done);
    }
    let open: Vec<u64> = (1..7).filter(|name| ledger.is_open(CallName::new(u128::from(*name)))).collect();
    // The fourth one is beyond the strangers' half.
    assert_eq!((open, ledger.untracked(), done.len()), (vec![1, 2, 3, 5], 2, 0));
    // A call that ends gives its room back.
    ledger.apply(&event(2, 9, failed(486, Party::Callee)), &mut done);
    ledger.apply(&event(8, 10, stranger), &mut done);
    assert!(ledger.is_open(CallName::new(8)));
}

#[test]
fn retold_ledger_knows_which_call_has_a_name() {
    let other = What::Began(Began { user: b"eve@example.com", ..BEGAN });
    let (mut ledger, mut done) = heard(&[(1, began()), (2, answered(4)), (3, other)]);
    // The first one is looked at later than the second one began.
    ledger.expire(300 * SECOND + 1, &mut done);
    let mut next = ledger.retold();
    assert_eq!((next.len(), done.len()), (2, 0));
    next.apply(&event(7, 301 * SECOND, failed(486, Party::Callee)), &mut done);
    next.apply(&event(7, 302 * SECOND, ended(Party::Caller, 4)), &mut done);
    let users: Vec<_> = done.iter().map(|record| (&record.source.user[..], record.status)).collect();
    assert_eq!(users, [(&b"eve@example.com"[..], 486), (b"ann@example.com", 200)]);
}

#[test]
fn retold_ledger_keeps_calls_beyond_a_lower_limit() {
    let (mut ledger, _) = heard(&[(1, began())]);
    ledger.apply(&event(8, 2, began()), &mut Vec::new());
    ledger.set_limits(Limits { calls: 1, ..LIMITS });
    assert_eq!(ledger.retold().len(), 2);
}

fn any_event(kind: u8, dialog: u64) -> What<'static> {
    match kind {
        0 => began(),
        1 => tried(b"sip:x", 1),
        2 => What::Rang,
        3 => answered(dialog + 1),
        4 => failed(408, Party::Timeout),
        5 => failed(486, Party::Callee),
        6 => What::Lives(dialog + 1),
        7 => What::Began(Began { user: b"", ..BEGAN }),
        8 => What::Refreshed(dialog + 1, 40 * (dialog as u32 % 4)),
        _ => ended(Party::Caller, dialog + 1),
    }
}

proptest! {
    /// A ledger that goes on as it is told again closes the same calls at the same looks.
    #[test]
    fn retold_ledger_expires_as_the_next_one(events in proptest::collection::vec((0_u8..10, 0_u8..4, 0_u64..3), 0..120), looks in proptest::collection::vec(0_u64..9_000, 1..20)) {
        let (mut first, mut done) = (Ledger::new(LIMITS), Vec::new());
        for (at, (kind, call, dialog)) in (0_u64..).zip(&events) {
            let dialog = 10 * u64::from(*call) + dialog;
            first.apply(&event((*call).into(), at * SECOND, any_event(*kind, dialog)), &mut done);
            if at % 40 == 0 {
                first.expire(at * SECOND, &mut done);
            }
        }
        let mut live = first.retold();
        prop_assert_eq!(live.len(), first.len());
        let mut next = Ledger::new(LIMITS);
        live.events(&mut |event| next.adopt(event));
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
    fn open_calls_can_be_told_again(events in proptest::collection::vec((0_u8..10, 0_u8..4, 0_u64..3), 0..120), more in 0_usize..120) {
        let (mut first, mut done) = (Ledger::new(LIMITS), Vec::new());
        let cut = more.min(events.len());
        let all = || (0_u64..).zip(&events).map(|(at, (kind, call, dialog))| event((*call).into(), at, any_event(*kind, 10 * u64::from(*call) + dialog)));
        all().take(cut).for_each(|event| first.apply(&event, &mut done));
        let mut second = Ledger::new(LIMITS);
        first.events(&mut |event| second.adopt(event));
        prop_assert_eq!(first.len(), second.len());
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for event in all().skip(cut) {
            first.apply(&event, &mut here);
            second.apply(&event, &mut there);
        }
        let essence = |records: &[Record]| {
            let mut all: Vec<_> = records.iter().map(|r| (r.name, r.started, r.ringing, r.answered, r.ended, r.status, r.joined.min(JOINED_MAX))).collect();
            all.sort_unstable();
            all
        };
        prop_assert_eq!(essence(&here), essence(&there));
    }

    /// Whatever comes: as many records as calls that began and are not open, none twice, and times in order.
    #[test]
    fn each_beginning_has_one_record(events in proptest::collection::vec((0_u8..10, 0_u8..5, 0_u64..3), 0..300)) {
        let (mut ledger, mut done) = (Ledger::new(Limits { calls: 4, ..LIMITS }), Vec::new());
        let mut begun = 0;
        for (at, (kind, call, tag)) in (0_u64..).zip(&events) {
            let (open, left, closed) = (ledger.len(), ledger.untracked(), done.len());
            ledger.apply(&event((*call).into(), at * SECOND, any_event(*kind, *tag)), &mut done);
            prop_assert!(ledger.len() <= 4);
            let begins = matches!(kind, 0 | 7);
            begun += usize::from(begins && ledger.len() + done.len() > open + closed);
            // It was answered in the dialog of another call.
            begun -= usize::from(*kind == 3 && ledger.len() < open);
            prop_assert!(ledger.untracked() == left || begins);
        }
        prop_assert_eq!(begun, done.len() + ledger.len());
        for _ in 0..50 {
            ledger.expire(u64::MAX, &mut done);
        }
        prop_assert!(ledger.is_empty() && ledger.names.is_empty() && ledger.dialogs.is_empty());
        prop_assert!(ledger.timed.is_empty());
        prop_assert_eq!((ledger.strangers, ledger.bytes), (0, 0));
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
