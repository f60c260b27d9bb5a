use super::*;
use core::net::Ipv4Addr;
use sip_message::{Index, Limits, Parsed, parse};
use sip_proxy::token::{End, Role};
use wire::{Flow, ListenerId};

const PLACE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5060);

/// Shows `what` a request of the call with this number, with these tags, and its key.
fn with(
    calls: &mut Calls,
    id: usize,
    from: &str,
    to: &str,
    what: impl FnOnce(&mut Calls, &Message<'_>, &DialogKey),
) {
    let text = format!(
        "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag={from}\r\n\
         To: <sip:b@x>{to}\r\nCall-ID: {id}\r\nCSeq: 1 INVITE\r\n\r\n"
    );
    let mut index = Index::new();
    let Parsed::Good(invite) = parse(text.as_bytes(), &mut index, &Limits::default()) else { panic!() };
    let key = calls.key(Time::ZERO, PLACE, &invite, None, false);
    what(calls, &invite, &key);
}

fn begin(calls: &mut Calls, id: usize, from: &str) {
    with(calls, id, from, "", |calls, m, key| calls.begin(Time::ZERO, key, m, Payer::PROVEN));
}

/// A response with this To tag.
fn respond(calls: &mut Calls, id: usize, from: &str, to: &str, status: u16) {
    with(calls, id, from, to, |calls, m, key| {
        calls.responded(Time::ZERO, status, m, key, PLACE);
    });
}

fn conclude(calls: &mut Calls, part: Part, id: usize, tags: (&str, &str), status: u16) {
    with(calls, id, tags.0, tags.1, |calls, m, key| {
        let to = calls.hash(m.call_id(), m.to_tag());
        calls.concluded(status, &DialogKey { part, to, ..*key });
    });
}

#[test]
fn one_call_that_lasts_keeps_no_memory_of_those_behind_it() {
    for (first, status) in [(180, 486), (200, 486), (180, 200), (200, 200)] {
        let mut calls = Calls::new(10, [1, 2]);
        begin(&mut calls, 0, "1");
        if first == 200 {
            respond(&mut calls, 0, "1", "", first);
        }
        for id in 1..10_000 {
            begin(&mut calls, id, "1");
            respond(&mut calls, id, "1", "", status);
            conclude(&mut calls, Part::Invite, id, ("1", ""), status);
            conclude(&mut calls, Part::Bye, id, ("1", ""), 200);
        }
        assert_eq!(calls.table.len(), 1);
        assert!(calls.queue.len() < 100, "{}", calls.queue.len());
        assert!(calls.answered.len() < 100, "{}", calls.answered.len());
    }
}

#[test]
fn call_that_was_answered_first_makes_room() {
    let mut calls = Calls::new(3, [1, 2]);
    for id in 0..3 {
        assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_ok());
        begin(&mut calls, id, "1");
    }
    assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_err());
    for id in [2, 0] {
        respond(&mut calls, id, "1", "", 200);
    }
    let left = |calls: &Calls| {
        let mut left: Vec<String> =
            calls.list(Time::ZERO, 0, usize::MAX).into_iter().map(|c| c.call_id).collect();
        left.sort();
        left
    };
    assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_ok());
    assert_eq!(left(&calls), ["0", "1"]);
    begin(&mut calls, 3, "1");
    assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_ok());
    assert_eq!(left(&calls), ["1", "3"]);
    begin(&mut calls, 4, "1");
    assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_err(), "all ring");
    assert!(Calls::new(0, [1, 2]).make_room(Time::ZERO, Payer::PROVEN).is_err());
}

#[test]
fn calls_of_one_call_id_count_each_and_end_with_either_ends_bye() {
    let mut calls = Calls::new(10, [1, 2]);
    for bye in [("a", ";tag=x"), ("y", ";tag=b")] {
        for (tag, callee) in [("a", ";tag=x"), ("b", ";tag=y")] {
            begin(&mut calls, 1, tag);
            respond(&mut calls, 1, tag, callee, 200);
        }
        assert_eq!(calls.table.len(), 2);
        conclude(&mut calls, Part::Bye, 1, bye, 200);
        assert_eq!(calls.table.len(), 1);
    }
}

#[test]
fn room_of_a_ringing_call_is_given_back_once() {
    let mut calls = Calls::new(1, [1, 2]);
    for _ in 0..3 {
        assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_ok());
        begin(&mut calls, 1, "a");
        let tags = [";tag=x", ";tag=y"];
        for (status, tag) in [183, 200, 200].into_iter().flat_map(|s| tags.map(|tag| (s, tag))) {
            let answered = calls.table.iter().any(|e| e.callees.is_answered());
            assert_eq!(calls.ringing.has_room(1), answered, "{status} {tag}");
            respond(&mut calls, 1, "a", tag, status);
        }
        for (tag, left) in tags.into_iter().zip([1, 0]) {
            conclude(&mut calls, Part::Bye, 1, ("a", tag), 200);
            assert_eq!((calls.table.len(), calls.ringing.has_room(1)), (left, true));
        }
    }
}

#[test]
fn each_attempt_of_a_ringing_call_counts() {
    for end in [486, 200] {
        let mut calls = Calls::new(3, [1, 2]);
        for _ in 0..3 {
            assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_ok());
            begin(&mut calls, 1, "a");
        }
        assert!(calls.make_room(Time::ZERO, Payer::PROVEN).is_err());
        conclude(&mut calls, Part::Invite, 1, ("a", ""), 486);
        assert!(calls.ringing.has_room(1) && !calls.ringing.has_room(2));
        if end == 200 {
            respond(&mut calls, 1, "a", ";tag=x", 200);
            assert!(calls.ringing.has_room(3));
            conclude(&mut calls, Part::Bye, 1, ("a", ";tag=x"), 200);
        } else {
            (0..2).for_each(|_| conclude(&mut calls, Part::Invite, 1, ("a", ""), 486));
        }
        assert!(calls.ringing.has_room(3) && calls.len() == 0);
    }
}

#[test]
fn response_with_another_tag_or_call_id_is_not_noted() {
    let mut calls = Calls::new(10, [1, 2]);
    let mut key = DialogKey::NONE;
    begin(&mut calls, 1, "a");
    begin(&mut calls, 2, "b");
    with(&mut calls, 1, "a", "", |_, _, of_first| key = *of_first);
    for (id, from) in [(1, "z"), (2, "a"), (2, "b")] {
        for status in [183, 200] {
            with(&mut calls, id, from, ";tag=x", |calls, m, _| {
                calls.responded(Time::ZERO, status, m, &key, PLACE);
                calls.answered_late(Time::ZERO, m, &key, PLACE, true);
            });
        }
        let noted = |e: &Entry| e.callees != Callees::default();
        assert!(!calls.table.iter().any(noted), "{id} {from}");
    }
    // What is concluded is the request's call, whatever the response said.
    calls.concluded(486, &key);
    assert_eq!(calls.list(Time::ZERO, 0, 9).into_iter().map(|c| c.call_id).collect::<Vec<_>>(), ["2"]);
}

/// A call from before a restart that passes this server twice: each pass has a token of its own.
#[test]
fn call_from_before_is_noted_at_each_place_of_its_callee() {
    let mut calls = Calls::new(10, [1, 2]);
    let places = ["192.0.2.1:5060", "192.0.2.2:5060"].map(|place| place.parse::<SocketAddr>().expect("one"));
    for (by_caller, part) in [(true, Part::Update), (false, Part::Update), (true, Part::Invite)] {
        for (unknown, at, noted) in [(false, 0, false), (true, 1, false), (true, 0, true)] {
            for callee in places {
                let within = Some(Within { by_caller, callee, unknown, call: true, trunks: (false, false) });
                let place = if at == 0 { callee } else { PLACE };
                with(&mut calls, 1, "a", ";tag=b", |calls, m, key| {
                    let key = DialogKey { part, within, ..*key };
                    calls.responded(Time::ZERO, 183, m, &key, place);
                    calls.responded(Time::ZERO, 200, m, &key, place);
                    let (caller, tag) = if by_caller { (key.from, key.to) } else { (key.to, key.from) };
                    let has = calls
                        .table
                        .find(caller, |e| e.hash == caller)
                        .is_some_and(|e| e.callees.has_at(tag, calls.place(callee), false));
                    // Of what the callee sent, the answer comes from the caller.
                    assert_eq!(has, noted || unknown && !by_caller, "{by_caller} {part:?} {unknown} {at}");
                });
            }
        }
        calls.concluded(200, &key_of(&calls, "a", "b"));
        calls.concluded(200, &key_of(&calls, "b", "a"));
        assert_eq!((calls.len(), calls.ringing.has_room(10)), (0, true));
    }
}

/// Of a BYE with these tags.
fn key_of(calls: &Calls, from: &str, to: &str) -> DialogKey {
    let hash = |tag: &str| calls.hash(b"1", tag.as_bytes());
    DialogKey { part: Part::Bye, from: hash(from), to: hash(to), within: None }
}

#[test]
fn call_whose_answer_is_not_noted_is_no_call_being_set_up() {
    let mut calls = Calls::new(2, [1, 2]);
    begin(&mut calls, 1, "a");
    begin(&mut calls, 1, "a");
    for left in [1, 0] {
        // The 2xx had another From tag.
        conclude(&mut calls, Part::Invite, 1, ("a", ""), 200);
        assert_eq!((calls.len(), calls.ringing.has_room(2)), (left, left == 0));
    }
}

#[test]
fn early_dialog_ends_some_time_after_another_was_answered() {
    let mut calls = Calls::new(2, [1, 2]);
    begin(&mut calls, 1, "a");
    respond(&mut calls, 1, "a", ";tag=early", 183);
    respond(&mut calls, 1, "a", ";tag=x", 200);
    let end = End::new(Flow::udp(ListenerId(0), PLACE), Role::Stranger);
    let (keeper, by_caller) = (calls.keeper(), true);
    let dialog =
        Dialog { sender: end, peer: end, by_caller, called: 0, calling: 0, keeper, call: true, raised: 0 };
    for (tag, at, denied) in [("early", 31, false), ("early", 33, true), ("x", 33, false), ("y", 1, true)] {
        let now = Time::ZERO + Duration::from_secs(at);
        with(&mut calls, 1, "a", &format!(";tag={tag}"), |calls, m, _| {
            assert_eq!(calls.denies(now, m, &dialog, false), denied, "{tag} {at}");
        });
    }
}

/// While the table may not know all calls.
#[test]
fn update_in_an_early_dialog_answers_no_call() {
    let mut calls = Calls::new(2, [1, 2]);
    begin(&mut calls, 1, "a");
    respond(&mut calls, 1, "a", ";tag=x", 183);
    let within =
        Some(Within { by_caller: true, callee: PLACE, unknown: true, call: true, trunks: (false, false) });
    with(&mut calls, 1, "a", ";tag=x", |calls, m, key| {
        let key = DialogKey { part: Part::Update, within, ..*key };
        calls.responded(Time::ZERO, 200, m, &key, PLACE);
    });
    conclude(&mut calls, Part::Invite, 1, ("a", ""), 486);
    assert_eq!((calls.len(), calls.ringing.has_room(2)), (0, true));
}

#[test]
fn call_is_forgotten_after_the_time_that_was_set() {
    // Session interval, and whether the call may go on for all that is known.
    for (interval, may_go_on) in [(0, true), (30, false)] {
        let mut calls = Calls::new(10, [1, 2]);
        calls.set_forget(Duration::from_secs(60));
        begin(&mut calls, 0, "1");
        respond(&mut calls, 0, "1", "", 200);
        with(&mut calls, 0, "1", "", |calls, _, key| calls.set_session(key, interval));
        calls.expire(Time::from_secs(59));
        assert_eq!(calls.len(), 1);
        calls.expire(Time::from_secs(60));
        assert_eq!((calls.len(), calls.gaps_until > Time::from_secs(60)), (0, may_go_on), "{interval}");
    }
}

#[test]
fn live_session_keeps_a_call_longer_than_the_time_that_was_set() {
    let mut calls = Calls::new(10, [1, 2]);
    calls.set_forget(Duration::from_secs(60));
    begin(&mut calls, 0, "1");
    respond(&mut calls, 0, "1", "", 200);
    with(&mut calls, 0, "1", "", |calls, _, key| calls.set_session(key, 200));
    for second in (0..200).step_by(10) {
        calls.expire(Time::from_secs(second));
        assert_eq!(calls.len(), 1, "{second}");
    }
    calls.expire(Time::from_secs(300));
    assert_eq!(calls.len(), 0);
}

#[test]
fn refresh_keeps_a_call_that_is_older() {
    let mut calls = Calls::new(10, [1, 2]);
    calls.set_forget(Duration::from_secs(60));
    begin(&mut calls, 0, "1");
    respond(&mut calls, 0, "1", "", 200);
    with(&mut calls, 0, "1", "", |calls, m, key| {
        calls.responded(Time::from_secs(40), 200, m, key, PLACE);
    });
    calls.expire(Time::from_secs(61));
    calls.expire(Time::from_secs(99));
    assert_eq!(calls.len(), 1);
    calls.expire(Time::from_secs(101));
    assert_eq!(calls.len(), 0);
}
