//! Counts the locks that a thread takes, and holds the index of addresses against a walk of all bindings.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use sip_message::Uri;
use sip_registrar::Record;

use std::net::SocketAddr;
use std::time::Duration;

use sip_registrar::ContactAt;
use wire::Time;

use crate::health::OnFailure;
use crate::service::{Cursor, LocationLimits, SharedLocation};
use crate::testing::record;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// A lock was taken.
pub(crate) fn note() {
    TAKEN.set(TAKEN.get() + 1);
}

fn taken<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = TAKEN.get();
    let result = f();
    (result, TAKEN.get() - before)
}

fn location(stripes: usize) -> SharedLocation {
    let limits = LocationLimits { stripes, ..LocationLimits::default() };
    SharedLocation::new([5; 16], limits, OnFailure::Refuse)
}

fn put(location: &SharedLocation, record: &Record) {
    location.register(&record.aor, |table, _| table.restore(record)).unwrap().unwrap();
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn is_contact(location: &SharedLocation, address: &str, uri: &str) -> bool {
    is_contact_now(location, at(address), uri, Time::ZERO)
}

fn is_contact_now(location: &SharedLocation, address: SocketAddr, uri: &str, now: Time) -> bool {
    let mut found = false;
    location.contacts(&ContactAt::new(address, &Uri::parse(uri.as_bytes()).unwrap(), now), &mut |_| {
        found = true;
        true
    });
    found
}

#[test]
fn a_question_about_an_address_takes_one_or_two_locks() {
    let location = location(256);
    for n in 0..500 {
        let contact = format!("sip:u{n}@192.0.2.9:{}", 5060 + n % 100);
        put(&location, &record(&format!("u{n}"), &contact, Time::from_secs(600)));
    }
    assert_eq!(taken(|| location.has_contact_address(at("192.0.2.9:5067"))), (true, 1));
    assert_eq!(taken(|| location.has_contact_address(at("192.0.2.8:5067"))), (false, 1));
    let (nobody, absent) = ("sip:+19005551234@192.0.2.9:5067", "sip:u7@192.0.2.8:5067");
    assert_eq!(taken(|| is_contact(&location, "192.0.2.9:5067", "sip:u7@192.0.2.9:5067")), (true, 2));
    assert_eq!(taken(|| is_contact(&location, "192.0.2.9:5067", nobody)), (false, 1));
    assert_eq!(taken(|| is_contact(&location, "192.0.2.8:5067", absent)), (false, 1));
}

#[test]
fn many_contacts_of_one_user_part_take_a_bounded_number_of_locks() {
    let location = location(256);
    for n in 0..500 {
        let contact = format!("sip:s@192.0.2.9;line={n}");
        put(&location, &record(&format!("u{n}"), &contact, Time::from_secs(600)));
    }
    let (found, locks) = taken(|| is_contact(&location, "192.0.2.9:5060", "sip:s@192.0.2.9;line=none"));
    assert!(!found && locks <= 1 + sip_registrar::MOST_CANDIDATES, "{locks}");
}

#[test]
fn location_tells_that_contacts_were_not_looked_at() {
    let location = location(256);
    for (n, more) in [(sip_registrar::MOST_CANDIDATES, false), (sip_registrar::MOST_CANDIDATES + 1, true)] {
        for user in 0..n {
            let contact = format!("sip:s@192.0.2.9;line={user}");
            put(&location, &record(&format!("u{user}"), &contact, Time::from_secs(600)));
        }
        let (mut seen, uri) = (0, Uri::parse(b"sip:s@192.0.2.9").unwrap());
        let left_out =
            location.contacts(&ContactAt::new(at("192.0.2.9:5060"), &uri, Time::ZERO), &mut |_| {
                seen += 1;
                false
            });
        assert_eq!((seen, left_out), (sip_registrar::MOST_CANDIDATES, more), "{n}");
    }
}

#[test]
fn a_refresh_that_changes_no_address_leaves_the_index_alone() {
    let location = location(8);
    let mut bound = record("u", "sip:u@192.0.2.9", Time::from_secs(600));
    let first = taken(|| put(&location, &bound)).1;
    bound.expires = Time::from_secs(900);
    let refresh = taken(|| put(&location, &bound)).1;
    bound.flow.remote = at("192.0.2.7:41000");
    let moved = taken(|| put(&location, &bound)).1;
    // The stripe, and what is added to and removed from the index: the address of the Contact and that of the
    // source.
    assert_eq!((first, refresh, moved), (1 + 2, 1, 1 + 4));
}

const HOSTS: [&str; 4] = ["192.0.2.9", "192.0.2.8", "[2001:db8::1]", "phone.example"];

/// One step: which user does what, with which Contact, for how long, from which port.
#[derive(Clone, Debug)]
enum Step {
    Put { user: u8, name: u8, host: usize, port: u16, seconds: u64 },
    Remove(u8),
    TakeBack { user: u8, name: u8, host: usize },
    Pass(u64),
    Sweep,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0u8..6, 0u8..3, 0..HOSTS.len(), 1u16..4, 1u64..300)
        .prop_map(|(user, name, host, port, seconds)| Step::Put { user, name, host, port, seconds });
    let take_back = (0u8..6, 0u8..3, 0..HOSTS.len());
    prop_oneof![
        12 => put,
        3 => (0u8..6).prop_map(Step::Remove),
        3 => take_back.prop_map(|(user, name, host)| Step::TakeBack { user, name, host }),
        3 => (1u64..200).prop_map(Step::Pass),
        3 => Just(Step::Sweep),
        1 => Just(Step::Clear),
    ]
}

fn aor(user: u8) -> Vec<u8> {
    format!("user{user}@example.com").into_bytes()
}

fn contact(name: u8, host: usize) -> String {
    format!("sip:n{name}@{}:5060", HOSTS[host])
}

fn all(location: &SharedLocation, now: Time) -> Vec<Record> {
    let (mut all, mut next) = (Vec::new(), Some(Cursor::default()));
    while let Some(from) = next {
        next = location.list(from, 3, now, |aor, view| all.push(view.to_record(aor)));
    }
    all
}

/// Whether the index says what a walk of all bindings does. Those that are over may still be there unless
/// `swept`.
fn check(location: &SharedLocation, now: Time, swept: bool) {
    let (mut addresses, mut contacts) = (BTreeSet::new(), BTreeSet::new());
    for record in all(location, now) {
        let text = String::from_utf8(record.contact.to_vec()).unwrap();
        addresses.insert(record.flow.remote);
        let spelled = text.split_once('@').and_then(|(_, host)| host.parse::<SocketAddr>().ok());
        addresses.extend(spelled);
        contacts.extend(spelled.map(|address| (address, text)));
    }
    let spelled = HOSTS.iter().filter_map(|host| format!("{host}:5060").parse().ok());
    let sources = (1..4).map(|port| SocketAddr::from(([198, 51, 100, 1], 40_000 + port)));
    for address in spelled.chain(sources) {
        let (found, walked) = (location.has_contact_address(address), addresses.contains(&address));
        assert!(found == walked || (found && !swept), "{address}: {found}");
        for name in 0..3 {
            let uri = format!("sip:n{name}@{address}");
            let found = is_contact_now(location, address, &uri, now);
            assert_eq!(found, contacts.contains(&(address, uri.clone())), "{uri}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_index_of_addresses_agrees_with_a_full_walk(steps in prop::collection::vec(step(), 1..80)) {
        let (location, mut now) = (location(4), Time::from_secs(50_000));
        let empty = location.addresses.bytes();
        location.tell_time(now);
        for step in &steps {
            let mut swept = false;
            match *step {
                Step::Put { user, name, host, port, seconds } => {
                    let expires = now + Duration::from_secs(seconds);
                    let mut bound = record(&format!("user{user}"), &contact(name, host), expires);
                    bound.flow.remote = ([198, 51, 100, 1], 40_000 + port).into();
                    put(&location, &bound);
                }
                Step::Remove(user) => { location.remove(&aor(user)); }
                Step::TakeBack { user, name, host } => {
                    let text = contact(name, host);
                    location.register(&aor(user), |table, _| table.take_back(&aor(user), text.as_bytes(), b"", 0));
                }
                Step::Pass(seconds) => now = now + Duration::from_secs(seconds),
                Step::Sweep => {
                    // Ahead of the time: what is over is swept when a tick of the wheel is.
                    while location.expire(now + Duration::from_secs(2), 1) {}
                    swept = true;
                }
                Step::Clear => { location.clear(); location.tell_time(now); }
            }
            check(&location, now, swept);
        }
        now = now + Duration::from_secs(1_000);
        while location.expire(now, 1) {}
        prop_assert_eq!((location.size().1, location.addresses.bytes()), (0, empty));
    }
}
