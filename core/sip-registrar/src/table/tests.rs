//! The table as a data structure: footprint, growth, expiry, iteration.

use super::*;
use core::time::Duration;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Flow, ListenerId};

/// A record of ordinary lengths: key 23 bytes, contact 36, Call-ID 32.
fn record(n: u32, expires: Time) -> Record {
    let [a, b, c, d] = n.to_be_bytes();
    let remote = ([100 | a, b, c, d], 5060).into();
    Record {
        aor: format!("user{n:07}@example.com").into_bytes().into(),
        contact: format!("sip:user{n:07}@{}.{b}.{c}.{d}:5060", 100 | a).into_bytes().into(),
        params: Box::default(),
        q: 1000,
        expires,
        call_id: format!("{n:016x}@client.local.").into_bytes().into(),
        cseq: n,
        flow: Flow::udp(ListenerId(0), remote),
        path: Box::default(),
        instance: Box::default(),
        reg_id: 0,
        user_agent: Box::from(&b"Phone/1.0"[..]),
    }
}

fn filled(count: u32, expires: impl Fn(u32) -> Time) -> Table {
    let mut table = Table::new([7, 8], usize::MAX, true);
    for n in 0..count {
        table.restore(&record(n, expires(n))).expect("room");
    }
    table
}

#[test]
fn an_ordinary_address_costs_less_than_200_bytes() {
    const COUNT: u32 = 100_000;
    let table = filled(COUNT, |_| Time::from_secs(3600));
    let each = table.bytes() as f64 / f64::from(COUNT);
    println!(
        "bytes per address of record: {each:.1} (cells {:.1}, buckets {:.1}, addresses {:.1})",
        table.slab.bytes() as f64 / f64::from(COUNT),
        table.index.bytes() as f64 / f64::from(COUNT),
        table.addresses.own().expect("its own").bytes() as f64 / f64::from(COUNT),
    );
    assert!(each < 180.0, "{each}");
}

/// What is expected is a hint, whatever becomes of the table meanwhile.
#[test]
fn what_is_expected_may_be_gone_or_elsewhere_when_it_is_fetched() {
    let aor = |n: u32| record(n, Time::ZERO).aor;
    let mut table = Table::new([7, 8], usize::MAX, true);
    let expected: Vec<u32> = (0..600).map(|n| table.expect(&aor(n))).collect();
    expected.iter().for_each(|&hash| table.fetch(hash));
    for n in 0..600 {
        // Some are longer than a page.
        let path = vec![b'p'; if n % 50 == 0 { 9_000 } else { 0 }].into();
        table.restore(&Record { path, ..record(n, Time::from_secs(9)) }).expect("room");
    }
    for (n, &hash) in (0..600).zip(&expected) {
        assert_eq!(table.expect(&aor(n)), hash, "however large the table is");
        table.fetch(hash);
        if n % 3 > 0 {
            table.remove(&aor(n), &mut Vec::new());
        }
    }
    for (n, &hash) in (0..600).zip(&expected) {
        table.fetch(hash);
        assert_eq!(table.bindings(&aor(n), Time::ZERO, |_| ()), usize::from(n % 3 == 0));
    }
}

#[test]
fn growth_never_looks_at_more_than_a_few_cells() {
    let table = filled(100_000, |_| Time::from_secs(3600));
    assert_eq!(table.index.buckets(), 100_000, "one bucket per address");
    let longest = table.longest_growth_step();
    println!("longest growth step: {longest} cells");
    assert!(longest <= 16, "{longest}");
    for n in [0, 1, 65_535, 65_536, 99_999] {
        assert_eq!(table.bindings(&record(n, Time::ZERO).aor, Time::ZERO, |b| assert_eq!(b.cseq, n)), 1);
    }
    assert_eq!(table.bindings(b"nobody@example.com", Time::ZERO, |_| panic!("nobody")), 0);
}

#[test]
fn memory_comes_back_when_bindings_go() {
    let mut table = filled(20_000, |_| Time::from_secs(3600));
    let full = table.slab.bytes();
    for n in 0..20_000 {
        assert_eq!(table.remove(&record(n, Time::ZERO).aor, &mut Vec::new()), 1);
    }
    assert!(table.is_empty() && table.slab.bytes() < full / 20, "{} of {full}", table.slab.bytes());
    assert_eq!((table.addresses.own().expect("its own").bytes(), table.agents.len()), (0, 0));
}

#[test]
fn a_sweep_looks_at_no_more_than_it_was_told() {
    let mut table = filled(5000, |_| Time::from_secs(100));
    let mut changes = Vec::new();
    assert!(!table.expire(Time::from_secs(100), 5000, &mut changes), "the tick is not over");
    let late = Time::from_secs(102);
    for portion in 1..=50 {
        assert!(table.expire(late, 100, &mut changes) || portion == 50);
        assert_eq!((changes.len(), table.len()), (100 * portion, 5000 - 100 * portion));
    }
    assert!(table.next_expire().is_none());
}

#[test]
fn nothing_is_swept_early_and_nothing_stays_for_good() {
    let at = |n: u32| Time::from_secs(u64::from(n * 7919 % 20_000) + 1);
    let mut table = filled(3000, at);
    let mut changes = Vec::new();
    for second in (0..20_010).step_by(5) {
        let now = Time::from_secs(second);
        while table.expire(now, 10, &mut changes) {}
        let over = |t: u64| (0..3000).filter(|n| at(*n) <= Time::from_secs(t)).count();
        let swept = 3000 - table.len();
        assert!(swept <= over(second), "early at {second}");
        assert!(swept >= over(second.saturating_sub(3)), "late at {second}");
        assert_eq!(swept, changes.len());
    }
    assert!(table.is_empty());
}

/// The machine may have been up for a year when the first phone comes.
#[test]
fn an_empty_table_takes_up_any_time_in_one_step() {
    let year = Time::from_secs(365 * 86_400);
    let mut table = Table::new([1, 1], 10, true);
    assert!(!table.expire(year, 1, &mut Vec::new()));
    table.restore(&record(1, year + Duration::from_secs(60))).expect("room");
    let due = table.next_expire().expect("not empty");
    assert!(due > year && due <= year + Duration::from_secs(2), "{due:?}");
    let mut changes = Vec::new();
    assert!(!table.expire(year + Duration::from_secs(59), 10, &mut changes) && changes.is_empty());
    assert!(!table.expire(year + Duration::from_secs(63), 10, &mut changes) && changes.len() == 1);
    assert!(table.is_empty());
}

#[test]
fn a_refresh_moves_the_end_either_way() {
    let mut table = Table::new([1, 1], 10, true);
    let mut changes = Vec::new();
    let put = |table: &mut Table, seconds| {
        table.restore(&record(1, Time::from_secs(seconds))).expect("room");
    };
    put(&mut table, 1000);
    put(&mut table, 5000);
    while table.expire(Time::from_secs(1100), 1, &mut changes) {}
    assert_eq!(table.len(), 1);
    put(&mut table, 1200);
    while table.expire(Time::from_secs(1202), 1, &mut changes) {}
    assert!(table.is_empty());
    // Far beyond a turn of the wheel, and after a long silence.
    put(&mut table, 1_000_000);
    for day in 0..11 {
        while table.expire(Time::from_secs(day * 86_400 + 1202), 1, &mut changes) {}
        assert_eq!(table.len(), 1);
    }
    while table.expire(Time::from_secs(1_000_002), 1, &mut changes) {}
    assert!(table.is_empty());
    // The end of time itself is reached in one turn, not tick by tick.
    put(&mut table, 1_000_100);
    assert!(!table.expire(Time::FAR, 2, &mut changes) && table.is_empty());
    assert_eq!(table.bindings(b"user0000001@example.com", Time::FAR, |_| ()), 0);
}

#[test]
fn a_table_that_knows_the_time_files_what_it_restores() {
    let day = Time::from_secs(86_400);
    let mut table = Table::new([1, 1], usize::MAX, true);
    let mut changes = Vec::new();
    assert!(!table.expire(day, 1, &mut changes));
    for n in 0..1000 {
        table.restore(&record(n, day + Duration::from_secs(1000))).expect("room");
    }
    // Nothing to look at until then: one look would do, and none is needed.
    assert!(!table.expire(day + Duration::from_secs(990), 1, &mut changes));
    assert!(table.expire(day + Duration::from_secs(1002), 1, &mut changes));
    assert_eq!(changes.len(), 1);
}

#[test]
fn a_scan_in_portions_misses_nobody_while_the_table_grows() {
    let mut table = filled(1000, |_| Time::from_secs(3600));
    let (mut seen, mut from, mut n) = (BTreeSet::new(), Some(0), 1000);
    let mut portions = 0;
    while let Some(at) = from {
        let mut here = 0;
        from = table.scan(at, 50, Time::ZERO, |_, b| {
            seen.insert(b.cseq);
            here += 1;
        });
        assert!(here <= 50 + 16, "{here}");
        portions += 1;
        for _ in 0..10 {
            table.restore(&record(n, Time::from_secs(3600))).expect("room");
            n += 1;
        }
    }
    assert!(portions >= 20);
    assert!((0..1000).all(|n| seen.contains(&n)));
}

#[test]
fn expired_records_are_not_shown_after_restore() {
    let table = filled(10, |n| Time::from_secs(u64::from(n) * 10));
    let mut count = 0;
    table.scan(0, usize::MAX, Time::from_secs(45), |_, _| count += 1);
    assert_eq!(count, 5);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Cells move, split, chain and expire; what is found is what was put. The small key and hash
    /// space of a few addresses with bindings of very different lengths makes every path common.
    #[test]
    fn what_is_put_is_found(steps in prop::collection::vec((0u32..40, 0u32..4, 0usize..900, 0u64..200, any::<bool>()), 1..300)) {
        let mut table = Table::new([0, 0], usize::MAX, true);
        let mut model: BTreeMap<(u32, u32), Record> = BTreeMap::new();
        let mut now = Time::from_secs(5);
        let mut changes = Vec::new();
        for (who, which, length, seconds, remove) in steps {
            let aor: Box<[u8]> = format!("u{who}@x").into_bytes().into();
            if remove && length % 3 == 0 {
                table.remove(&aor, &mut changes);
                model.retain(|(w, _), _| *w != who);
            } else {
                let mut r = record(who, now + Duration::from_secs(seconds));
                r.aor = aor;
                r.contact = format!("sip:{which}@host").into_bytes().into();
                r.params = vec![b'p'; length].into();
                r.user_agent = format!("agent {}", length % 5).into_bytes().into();
                table.restore(&r).expect("room");
                model.insert((who, which), r);
            }
            now = now + Duration::from_secs(seconds % 7);
            if length % 2 == 0 {
                table.expire(now, 2, &mut changes);
            }
            model.retain(|_, r| r.expires > now);
            let mut got = BTreeMap::new();
            table.scan(0, usize::MAX, now, |aor, b| { got.insert((aor.to_vec(), b.contact.to_vec()), b.to_record(aor)); });
            let want: BTreeMap<_, _> =
                model.values().map(|r| ((r.aor.to_vec(), r.contact.to_vec()), r.clone())).collect();
            prop_assert_eq!(got, want);
        }
        while table.expire(now + Duration::from_secs(1000), 10, &mut changes) {}
        prop_assert_eq!((table.len(), table.agents.len()), (0, 0));
    }
}

/// What a store kept comes back in any order: the later word counts, whichever is put back first.
#[test]
fn older_words_do_not_count_and_later_ones_take_back() {
    let mut table = Table::new([1, 2], 100, true);
    let (mut new, old) = (record(1, Time::from_secs(600)), record(1, Time::from_secs(900)));
    new.cseq = old.cseq + 7;
    let found = |table: &Table, r: &Record| {
        let mut found = Vec::new();
        table.bindings(&r.aor, Time::ZERO, |view| found.push(view.to_record(&r.aor)));
        found
    };
    assert_eq!(table.restore_older(&old.aor, &old.view()), Ok(true));
    assert_eq!(table.restore_view(&new.aor, &new.view()), Ok(()));
    assert_eq!(table.restore_older(&old.aor, &old.view()), Ok(false));
    assert_eq!(found(&table, &new), [new.clone()]);
    let other = Record { contact: b"sip:other@192.0.2.77"[..].into(), ..new.clone() };
    assert_eq!(table.restore_older(&other.aor, &other.view()), Ok(true));
    assert_eq!(table.len(), 2);
    table.take_back(&new.aor, &new.contact, &new.instance, new.reg_id);
    table.take_back(&new.aor, &new.contact, &new.instance, new.reg_id);
    table.take_back(b"nobody@example.com", &new.contact, b"", 0);
    assert_eq!((table.len(), found(&table, &new)), (1, vec![other.clone()]));
    table.take_back(&other.aor, &other.contact, &other.instance, other.reg_id);
    assert!(table.is_empty() && !table.has_contact_address("192.0.2.77:5060".parse().expect("an address")));
}

/// What a look-up needs of a table is at its beginning, for there may be hundreds of tables, none of them in
/// the processor's cache: with a lock of 16 bytes before it, all that leads to a bucket is in one line.
#[test]
fn a_lookup_finds_what_it_needs_in_one_line() {
    let table = Table::new([1, 2], 10, true);
    let from = std::ptr::from_ref(&table) as usize;
    assert_eq!(std::ptr::from_ref(&table.index) as usize, from);
    assert_eq!(table.index.leads() - from, 48);
}
