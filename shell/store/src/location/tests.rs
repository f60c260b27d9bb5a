//! Tests of the location service and its writer. Clocks and rounds are moved by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use proptest::prelude::*;
use rusqlite::Connection;

use super::load::{LoadReport, load};
use super::row::tests::record;
use super::writer::Writer;
use super::*;
use crate::clock::Clock;
use crate::database::{Database, Patience};
use crate::testing::TempDir;

const WALL: i64 = 1_700_000_000;
const HOUR: i64 = 3_600;

/// Both clocks, in seconds.
#[derive(Clone)]
struct Hands {
    monotonic: Arc<AtomicU64>,
    wall: Arc<AtomicI64>,
}

impl Hands {
    fn new(monotonic: u64, wall: i64) -> Hands {
        Hands { monotonic: Arc::new(AtomicU64::new(monotonic)), wall: Arc::new(AtomicI64::new(wall)) }
    }

    fn clock(&self) -> Clock {
        let hands = self.clone();
        let wall = self.wall.clone();
        Clock::new(
            move || Time::from_secs(hands.monotonic.load(Ordering::Relaxed)),
            move || wall.load(Ordering::Relaxed) * 1_000_000,
        )
    }

    fn pass(&self, seconds: u64) {
        self.monotonic.fetch_add(seconds, Ordering::Relaxed);
        self.wall.fetch_add(seconds.cast_signed(), Ordering::Relaxed);
    }

    fn now(&self) -> Time {
        Time::from_secs(self.monotonic.load(Ordering::Relaxed))
    }
}

/// A location service with its writer, and no thread.
struct Bench {
    location: Arc<SharedLocation>,
    writer: Writer,
    loaded: LoadReport,
    hands: Hands,
}

fn sockets() -> Vec<String> {
    ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"].map(str::to_owned).to_vec()
}

fn limits() -> LocationLimits {
    LocationLimits { stripes: 8, ..LocationLimits::default() }
}

impl Bench {
    fn open(dir: &Path, hands: Hands) -> Bench {
        let location = Arc::new(SharedLocation::new([5; 16], limits(), OnFailure::Refuse));
        let database = Database::open(dir, Patience(Duration::from_millis(20))).unwrap();
        let clock = hands.clock();
        let loaded = load(&database, &location, &sockets(), clock.pair()).unwrap();
        let purge = loaded.expired != 0;
        let writer =
            Writer::new(Arc::clone(&location), database, sockets(), clock.clone(), clock.pair(), purge);
        Bench { location, writer: writer.unwrap(), loaded, hands }
    }

    fn put(&self, user: &str, seconds: u64) {
        put(&self.location, user, "sip:x@192.0.2.9", self.hands.now() + Duration::from_secs(seconds));
    }

    fn live(&self, user: &str) -> usize {
        self.location.lookup(format!("{user}@example.com").as_bytes(), self.hands.now(), |_| ())
    }

    /// Everything in memory, by its key.
    fn all(&self) -> BTreeMap<String, Record> {
        let mut all = BTreeMap::new();
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = self.location.list(from, 3, self.hands.now(), |aor, view| {
                let mut record = view.to_record(aor);
                record.flow.conn = None;
                let key = format!("{:?}", (&record.aor, &record.contact));
                assert!(all.insert(key, record).is_none(), "listed twice");
            });
        }
        all
    }
}

fn put(location: &SharedLocation, user: &str, contact: &str, expires: Time) {
    let record = record(user, contact, expires);
    location.register(&record.aor, |table, changes| {
        table.restore(&record).unwrap();
        changes.push(Change::Put(record.clone()));
    });
}

fn foreign(temp: &TempDir) -> Connection {
    Connection::open(temp.path().join(crate::DATABASE_FILE)).unwrap()
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn what_was_written_is_back_after_a_restart() {
    let temp = TempDir::new();
    let hands = Hands::new(1_000, WALL);
    let mut bench = Bench::open(temp.path(), hands);
    for user in 0..500 {
        bench.put(&format!("user{user}"), 600);
    }
    assert_eq!(bench.location.pending(), 500);
    bench.writer.round().unwrap();
    assert_eq!(bench.location.pending(), 0);
    let before = bench.all();
    drop(bench);
    // A new process has a new origin of monotonic time; ten seconds have gone.
    let bench = Bench::open(temp.path(), Hands::new(3, WALL + 10));
    assert_eq!(bench.loaded, LoadReport { live: 500, expired: 0, bad: 0 });
    let after = bench.all();
    assert_eq!(after.len(), 500);
    for (key, record) in &before {
        let back = &after[key];
        assert_eq!(back.expires, Time::from_secs(3 + 590));
        let mut expected = record.clone();
        expected.expires = back.expires;
        assert_eq!(*back, expected);
    }
    assert_eq!(bench.location.pending(), 0, "loading is no change");
}

#[test]
fn expiry_and_removal_reach_the_disk() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    for user in 0..100 {
        bench.put(&format!("short{user}"), 60);
        bench.put(&format!("long{user}"), 600);
    }
    bench.writer.round().unwrap();
    bench.hands.pass(70);
    assert_eq!((bench.live("short1"), bench.live("long1")), (0, 1), "seen as over before any sweep");
    while bench.location.expire(bench.hands.now(), 40) {}
    assert_eq!(bench.location.size().1, 100);
    assert_eq!(bench.location.remove(b"long7@example.com"), 1);
    assert_eq!(bench.location.remove(b"nobody@example.com"), 0);
    bench.writer.round().unwrap();
    let sql = foreign(&temp);
    assert_eq!(number(&sql, "SELECT count(*) FROM location"), 99);
    assert_eq!(number(&sql, "SELECT count(*) FROM location WHERE username GLOB 'short*'"), 0);
}

#[test]
fn expiry_keeps_to_its_budget() {
    let temp = TempDir::new();
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    for user in 0..1_000 {
        bench.put(&format!("user{user}"), 60);
    }
    bench.hands.pass(100);
    assert!(bench.location.expire(bench.hands.now(), 100));
    let left = bench.location.size().1;
    assert!((850..1_000).contains(&left), "{left}");
}

#[test]
fn rows_that_ended_while_nobody_ran_are_purged_in_steps() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    for user in 0..4_500 {
        bench.put(&format!("user{user:04}"), if user % 10 == 0 { 600 } else { 60 });
    }
    bench.writer.round().unwrap();
    drop(bench);
    let mut bench = Bench::open(temp.path(), Hands::new(1, WALL + 100));
    assert_eq!((bench.loaded.live, bench.loaded.expired), (450, 4_050));
    // One that had ended comes back before the purge gets to it.
    bench.put("user4499", 600);
    let sql = foreign(&temp);
    let rows = || number(&sql, "SELECT count(*) FROM location");
    bench.writer.round().unwrap();
    assert_eq!(rows(), 4_500 - 1_800);
    for _ in 0..4 {
        bench.writer.round().unwrap();
    }
    assert_eq!(rows(), 451);
}

#[test]
fn a_clock_set_by_an_hour_ends_no_binding_now_or_at_the_next_start() {
    for jump in [HOUR, -HOUR, 24 * HOUR] {
        let temp = TempDir::new();
        let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
        for user in 0..200 {
            bench.put(&format!("user{user}"), 600);
        }
        bench.writer.round().unwrap();
        bench.hands.wall.fetch_add(jump, Ordering::Relaxed);
        assert!(!bench.location.expire(bench.hands.now(), 10_000));
        assert_eq!(bench.all().len(), 200);
        bench.writer.round().unwrap();
        let sql = foreign(&temp);
        let expected = (WALL + jump + 600, WALL + jump + 600);
        let range = (
            number(&sql, "SELECT min(expires) FROM location"),
            number(&sql, "SELECT max(expires) FROM location"),
        );
        assert_eq!(range, expected);
        drop(bench);
        let bench = Bench::open(temp.path(), Hands::new(1, WALL + jump + 100));
        assert_eq!(bench.all().len(), 200);
        assert!(bench.all().values().all(|record| record.expires == Time::from_secs(501)));
    }
}

#[test]
fn restarts_after_a_clock_was_set_back_lengthen_no_binding() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(5, WALL));
    bench.put("alice", 600);
    bench.put("later", 2_700);
    bench.writer.round().unwrap();
    // Set back while nobody runs; the first start cannot know for how long nobody did.
    for (start, (alice, later)) in
        [(1, 1), (1, 1), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (0, 0)].into_iter().enumerate()
    {
        let hands = Hands::new(5, WALL - HOUR + 400 * i64::try_from(start).unwrap());
        // Killed before its writer does anything.
        bench = Bench::open(temp.path(), hands);
        assert_eq!((bench.live("alice"), bench.live("later")), (alice, later), "start {start}");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_says_so() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("first", 600);
    bench.writer.round().unwrap();
    let pages: i64 = bench.writer.pragma("page_count");
    bench.writer.set_pragma("max_page_count", pages);
    for user in 0..2_000 {
        bench.put(&format!("user{user}"), 600);
    }
    let pauses: Vec<Duration> = (0..8).map(|_| bench.writer.round().unwrap_err()).collect();
    assert!(
        pauses.windows(2).all(|pair| pair[1] >= pair[0]) && pauses[7] == Duration::from_secs(5),
        "{pauses:?}"
    );
    assert!(!bench.location.accepting());
    match bench.location.health() {
        Health::Failing { error, .. } => {
            assert!(
                error.contains("strowger.db") && error.contains("full") && error.contains("space"),
                "{error}"
            );
        }
        Health::Good => panic!("failing"),
    }
    assert_eq!((bench.location.pending(), bench.all().len()), (2_000, 2_001));
    // What changes meanwhile counts, not what failed before.
    bench.location.remove(b"user5@example.com");
    bench.put("user6", 900);
    assert_eq!(bench.location.pending(), 2_000);
    bench.writer.set_pragma("max_page_count", 1_000_000);
    bench.writer.round().unwrap();
    assert!(bench.location.accepting() && bench.location.health() == Health::Good);
    let expected = bench.all();
    assert_eq!((expected.len(), bench.location.pending()), (2_000, 0));
    drop(bench);
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!(bench.all(), expected);
}

#[test]
fn a_lock_held_too_long_is_a_failure_that_passes() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    let sql = foreign(&temp);
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    bench.put("a", 600);
    bench.writer.round().unwrap_err();
    assert!(!bench.location.accepting());
    sql.execute_batch("ROLLBACK").unwrap();
    bench.writer.round().unwrap();
    assert!(bench.location.accepting());
    assert_eq!(number(&sql, "SELECT count(*) FROM location"), 1);
}

#[test]
fn a_database_taken_away_or_replaced_is_noticed() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    let (path, aside) = (temp.path().join(crate::DATABASE_FILE), temp.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    bench.put("a", 600);
    bench.writer.round().unwrap_err();
    assert!(!bench.location.accepting());
    std::fs::copy(&aside, &path).unwrap();
    bench.writer.round().unwrap_err();
    assert!(format!("{:?}", bench.location.health()).contains("replaced"));
    std::fs::rename(&aside, &path).unwrap();
    bench.writer.round().unwrap();
    assert!(bench.location.accepting() && bench.location.pending() == 0);
}

#[test]
fn a_disk_that_does_not_answer_is_a_failure() {
    let location = SharedLocation::new([5; 16], limits(), OnFailure::Refuse);
    location.check_stall(Time::from_secs(100));
    assert!(location.accepting(), "no round is under way");
    location.round_began.store(Time::from_secs(100).as_micros(), Ordering::Relaxed);
    location.check_stall(Time::from_secs(101));
    assert!(location.accepting());
    location.check_stall(Time::from_secs(103));
    assert!(!location.accepting());
}

#[test]
fn the_journal_has_a_limit_whatever_the_policy() {
    let limits = LocationLimits { max_pending: 3, ..limits() };
    let location = SharedLocation::new([5; 16], limits, OnFailure::Accept);
    for user in ["a", "b", "b", "b"] {
        put(&location, user, "sip:x", Time::from_secs(60));
        assert!(location.accepting());
    }
    put(&location, "c", "sip:x", Time::from_secs(60));
    assert!(!location.accepting());
}

#[test]
fn addresses_are_found_over_all_stripes() {
    let temp = TempDir::new();
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("a", 600);
    assert!(bench.location.has_contact_address("192.0.2.9:5060".parse().unwrap()));
    assert!(bench.location.has_contact_address("192.0.2.7:40000".parse().unwrap()), "where it came from");
    assert!(!bench.location.has_contact_address("192.0.2.9:5061".parse().unwrap()));
}

#[test]
fn a_damaged_page_is_an_error_with_a_name_not_a_crash() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    for user in 0..3_000 {
        bench.put(&format!("user{user}"), 600);
    }
    bench.writer.round().unwrap();
    drop(bench);
    let path = temp.path().join(crate::DATABASE_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..half + 20_000].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    let database = Database::open(temp.path(), Patience::SERVER).unwrap();
    let location = SharedLocation::new([5; 16], limits(), OnFailure::Refuse);
    let pair = Hands::new(10, WALL).clock().pair();
    let error = load(&database, &location, &sockets(), pair).unwrap_err();
    assert_eq!(error.kind, crate::Kind::Corrupt);
    assert!(error.to_string().contains("strowger.db") && error.to_string().contains("backup"), "{error}");
}

/// Something that happens to a location service.
#[derive(Clone, Debug)]
enum Event {
    Put { user: u8, contact: u8, seconds: u64 },
    Remove { user: u8 },
    Pass { seconds: u64 },
    Expire,
    Round,
    FailingRound,
    SetClock { seconds: i64 },
    Restart,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u8..12, 0u8..3, 60u64..900).prop_map(|(user, contact, seconds)| Event::Put { user, contact, seconds }),
        2 => (0u8..12).prop_map(|user| Event::Remove { user }),
        2 => (1u64..300).prop_map(|seconds| Event::Pass { seconds }),
        2 => Just(Event::Expire),
        3 => Just(Event::Round),
        2 => Just(Event::FailingRound),
        // Steps below five seconds are left to the rounding of whole seconds.
        1 => (-12i64..12).prop_map(|steps| Event::SetClock { seconds: steps * 600 }),
        1 => Just(Event::Restart),
    ]
}

fn happen(bench: &mut Bench, event: &Event) {
    match *event {
        Event::Put { user, contact, seconds } => {
            let expires = bench.hands.now() + Duration::from_secs(seconds);
            put(&bench.location, &format!("u{user}"), &format!("sip:c{contact}"), expires);
        }
        Event::Remove { user } => {
            bench.location.remove(format!("u{user}@example.com").as_bytes());
        }
        Event::Pass { seconds } => bench.hands.pass(seconds),
        Event::Expire => {
            bench.location.expire(bench.hands.now(), 1_000);
        }
        Event::Round => bench.writer.round().unwrap(),
        Event::FailingRound => {
            bench.writer.set_pragma("query_only", 1);
            let waiting = bench.location.pending();
            assert!(bench.writer.round().is_err() || waiting == 0);
            bench.writer.set_pragma("query_only", 0);
        }
        Event::SetClock { seconds } => {
            bench.hands.wall.fetch_add(seconds, Ordering::Relaxed);
        }
        Event::Restart => {}
    }
}

/// Whatever happened, once a round succeeds a restart brings back exactly what memory held.
fn follows(events: &[Event]) {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(1_000, WALL));
    for event in events.iter().chain([&Event::Restart]) {
        happen(&mut bench, event);
        if matches!(event, Event::Restart) {
            // A binding leaves the table up to two seconds after its end. What ended in these could come
            // back if the clock is then set back, for no longer than it was granted.
            while bench.location.expire(bench.hands.now() + Duration::from_secs(2), 1_000) {}
            bench.writer.round().unwrap();
            assert_eq!(bench.location.pending(), 0);
            let (expected, hands) = (bench.all(), bench.hands.clone());
            drop(bench);
            bench = Bench::open(temp.path(), hands);
            assert_eq!(bench.all(), expected);
        }
    }
}

#[test]
fn a_binding_that_ends_with_the_server_stays_ended_when_the_clock_is_set_back() {
    follows(&[
        Event::Put { user: 0, contact: 0, seconds: 826 },
        Event::Restart,
        Event::Pass { seconds: 826 },
        Event::SetClock { seconds: -600 },
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn disk_follows_memory(events in proptest::collection::vec(any_event(), 1..60)) {
        follows(&events);
    }
}
