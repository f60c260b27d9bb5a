//! Tests of the location service and its writer. Clocks and rounds are moved by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use rusqlite::Connection;

use super::load::{LoadReport, Start, forget_removed, load};
use super::row::tests::record;
use super::writer::{LogLimits, Writer};
use super::*;
use crate::clock::Clock;
use crate::database::{Database, Patience};
use crate::testing::TempDir;

pub(super) const WALL: i64 = 1_700_000_000;
const HOUR: i64 = 3_600;

/// Both clocks, in seconds.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) monotonic: Arc<AtomicU64>,
    pub(super) wall: Arc<AtomicI64>,
}

impl Hands {
    pub(super) fn new(monotonic: u64, wall: i64) -> Hands {
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

    pub(super) fn pass(&self, seconds: u64) {
        self.monotonic.fetch_add(seconds, Ordering::Relaxed);
        self.wall.fetch_add(seconds.cast_signed(), Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Time {
        Time::from_secs(self.monotonic.load(Ordering::Relaxed))
    }
}

/// A location service with its writer, and no thread.
pub(super) struct Bench {
    pub(super) location: Arc<SharedLocation>,
    pub(super) writer: Writer,
    pub(super) loaded: LoadReport,
    pub(super) hands: Hands,
}

fn sockets() -> Vec<String> {
    ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"].map(str::to_owned).to_vec()
}

fn limits() -> LocationLimits {
    LocationLimits { stripes: 8, ..LocationLimits::default() }
}

/// A log that is moved all the time, in the smallest steps.
pub(super) fn small() -> LogLimits {
    LogLimits { bytes: (2_000, 2_000), age: Duration::from_secs(100_000), read: 300, rows: 1, steps: 3 }
}

impl Bench {
    pub(super) fn open(dir: &Path, hands: Hands) -> Bench {
        let location = Arc::new(SharedLocation::new([5; 16], limits(), OnFailure::Refuse));
        let mut database = Database::open(dir, Patience(Duration::from_millis(20))).unwrap();
        let (clock, pair) = (hands.clock(), hands.clock().pair());
        let start = load(dir, &mut database, &location, &sockets(), pair, [7; 16]).unwrap();
        let Start { report: loaded, log, .. } = start;
        let purge = loaded.expired != 0;
        let writer = Writer::new(Arc::clone(&location), database, log, sockets(), clock, pair, purge);
        Bench { location, writer: writer.unwrap(), loaded, hands }
    }

    /// Rounds until one succeeds: where the log is small, it may have to be moved first.
    pub(super) fn settle(&mut self) {
        assert!((0..500).any(|_| self.writer.round().is_ok()), "{:?}", self.location.health());
    }

    /// A round, and everything in the table.
    pub(super) fn round_and_table(&mut self) {
        self.writer.round().unwrap();
        self.writer.move_all_now();
    }

    pub(super) fn put(&self, user: &str, seconds: u64) {
        put(&self.location, user, "sip:x@192.0.2.9", self.hands.now() + Duration::from_secs(seconds));
    }

    pub(super) fn live(&self, user: &str) -> usize {
        self.location.lookup(format!("{user}@example.com").as_bytes(), self.hands.now(), |_| ())
    }

    /// Everything in memory, by its key.
    pub(super) fn all(&self) -> BTreeMap<String, Record> {
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

pub(super) fn put(location: &SharedLocation, user: &str, contact: &str, expires: Time) {
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
    bench.round_and_table();
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
    bench.round_and_table();
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
        bench.round_and_table();
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
    let file = bench.writer.log().divert(Path::new("/dev/full"));
    for user in 0..2_000 {
        bench.put(&format!("user{user}"), 600);
    }
    let mut pauses = vec![bench.writer.round().unwrap_err()];
    match bench.location.health() {
        Health::Failing { error, .. } => {
            assert!(error.contains("location.1.log") && error.contains("space"), "{error}");
        }
        Health::Good => panic!("failing"),
    }
    pauses.extend((0..7).map(|_| bench.writer.round().unwrap_err()));
    assert!(
        pauses.windows(2).all(|pair| pair[1] >= pair[0]) && pauses[7] == Duration::from_secs(5),
        "{pauses:?}"
    );
    assert!(!bench.location.accepting());
    assert_eq!((bench.location.pending(), bench.all().len()), (2_000, 2_001));
    // What changes meanwhile counts, not what failed before.
    bench.location.remove(b"user5@example.com");
    bench.put("user6", 900);
    assert_eq!(bench.location.pending(), 2_000);
    bench.writer.log().repair(file);
    bench.writer.round().unwrap();
    assert!(bench.location.accepting() && bench.location.health() == Health::Good);
    let expected = bench.all();
    assert_eq!((expected.len(), bench.location.pending()), (2_000, 0));
    drop(bench);
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!(bench.all(), expected);
}

/// Another program that keeps the database locked delays the table only, until the log has no room.
#[test]
fn a_lock_held_too_long_stops_nothing_until_the_log_is_too_long() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    *bench.writer.limits() = small();
    let sql = foreign(&temp);
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut users = 0;
    while bench.location.accepting() && users < 1_000 {
        bench.put(&format!("user{users}"), 600);
        users += 1;
        let _ = bench.writer.round();
    }
    // Two files of 2,000 bytes, the second one twice as long as it should be; 140 bytes each.
    assert!((20..80).contains(&users), "{users}");
    assert!(format!("{:?}", bench.location.health()).contains("cannot be moved into the database"));
    assert_eq!(number(&sql, "SELECT count(*) FROM location"), 0);
    sql.execute_batch("ROLLBACK").unwrap();
    bench.settle();
    assert!(bench.location.accepting() && bench.location.health() == Health::Good);
    while bench.writer.moving().0 != 0 {
        bench.settle();
    }
    assert!(number(&sql, "SELECT count(*) FROM location") > 10);
    assert_eq!(bench.all().len(), users);
}

/// A table that cannot be written costs nothing yet, and is written when it can be.
#[test]
fn a_table_that_cannot_be_written_is_tried_again() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    *bench.writer.limits() = LogLimits { age: Duration::from_secs(60), ..small() };
    bench.put("a", 600);
    bench.writer.round().unwrap();
    bench.writer.set_pragma("query_only", 1);
    let sql = foreign(&temp);
    let rows = || number(&sql, "SELECT count(*) FROM location");
    for _ in 0..30 {
        bench.hands.pass(10);
        bench.writer.round().unwrap();
    }
    assert!(bench.location.health() == Health::Good && rows() == 0);
    bench.writer.set_pragma("query_only", 0);
    bench.hands.pass(5);
    for _ in 0..4 {
        bench.writer.round().unwrap();
    }
    assert_eq!((rows(), bench.writer.moving()), (1, (0, false)));
}

/// A little that nothing is added to reaches the table all the same.
#[test]
fn the_table_is_never_older_than_promised() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    let sql = foreign(&temp);
    bench.put("a", 9_000);
    bench.writer.round().unwrap();
    bench.hands.pass(3_500);
    bench.writer.round().unwrap();
    assert_eq!(number(&sql, "SELECT count(*) FROM location"), 0);
    bench.hands.pass(200);
    bench.writer.round().unwrap();
    assert_eq!((number(&sql, "SELECT count(*) FROM location"), bench.writer.moving()), (1, (0, false)));
    // Also after a restart, for what the one before has written.
    bench.put("b", 9_000);
    bench.writer.round().unwrap();
    let hands = bench.hands.clone();
    drop(bench);
    let mut bench = Bench::open(temp.path(), hands);
    bench.hands.pass(3_700);
    bench.writer.round().unwrap();
    assert_eq!(number(&sql, "SELECT count(*) FROM location"), 2);
}

/// Moving keeps up with the log: it is done before the next file is full.
#[test]
fn a_full_file_is_moved_in_steps_while_the_next_one_fills() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    *bench.writer.limits() =
        LogLimits { bytes: (100_000, 100_000), rows: 5, steps: 50, read: 20_000, ..small() };
    let (mut longest, mut moves, mut busy) = (0, 0, false);
    for round in 0..600 {
        for user in 0..20 {
            bench.put(&format!("user{:04}", (round * 20 + user) * 7 % 1_000), 600);
        }
        bench.writer.round().unwrap();
        longest = longest.max(bench.writer.log().length());
        let (files, _) = bench.writer.moving();
        assert!(files <= 1);
        moves += usize::from(busy && files == 0);
        busy = files != 0;
    }
    assert!(longest < 110_000, "{longest}");
    assert!(moves >= 5, "{moves}");
    assert_eq!(number(&foreign(&temp), "SELECT count(*) FROM location"), 1_000);
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
    bench.round_and_table();
    drop(bench);
    let path = temp.path().join(crate::DATABASE_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..half + 20_000].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    let mut database = Database::open(temp.path(), Patience::SERVER).unwrap();
    let location = SharedLocation::new([5; 16], limits(), OnFailure::Refuse);
    let pair = Hands::new(10, WALL).clock().pair();
    let error = load(temp.path(), &mut database, &location, &sockets(), pair, [7; 16]).unwrap_err();
    assert_eq!(error.kind, crate::Kind::Corrupt);
    assert!(error.to_string().contains("strowger.db") && error.to_string().contains("backup"), "{error}");
}

/// A data directory of a version that had no log: the table is all there is.
#[test]
fn a_directory_without_a_log_is_taken_over() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    for user in 0..50 {
        bench.put(&format!("user{user}"), 600);
    }
    bench.round_and_table();
    drop(bench);
    std::fs::remove_file(temp.path().join("location.2.log")).unwrap();
    assert!(log::list(temp.path()).unwrap().is_empty());
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!(bench.loaded, LoadReport { live: 50, expired: 0, bad: 0 });
    bench.location.remove(b"user7@example.com");
    bench.put("user8", 900);
    bench.writer.round().unwrap();
    let expected = bench.all();
    drop(bench);
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!((bench.all(), bench.loaded.live), (expected, 49));
}

#[test]
fn of_a_damaged_log_the_rest_is_kept_and_the_file_too() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    let mut ends = Vec::new();
    for batch in ["a", "b", "c"] {
        for user in 0..10 {
            bench.put(&format!("{batch}{user}"), 600);
        }
        bench.writer.round().unwrap();
        ends.push(usize::try_from(bench.writer.log().length()).unwrap());
    }
    drop(bench);
    let path = temp.path().join("location.1.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[ends[0] + 300] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!(bench.loaded.live, 20, "one frame is lost");
    assert_eq!(std::fs::read(temp.path().join("location.log.damaged")).unwrap(), bytes);
    assert_eq!(number(&foreign(&temp), "SELECT count(*) FROM location"), 20);
    // What goes on goes on in a file of its own.
    bench.put("d", 600);
    bench.writer.round().unwrap();
    drop(bench);
    assert_eq!(Bench::open(temp.path(), Hands::new(10, WALL)).loaded.live, 21);
}

/// A file that becomes bad while it waits to be moved is noticed then.
#[test]
fn damage_found_while_moving_keeps_the_file() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    for batch in ["a", "b"] {
        (0..10).for_each(|user| bench.put(&format!("{batch}{user}"), 600));
        bench.writer.round().unwrap();
    }
    let path = temp.path().join("location.1.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    bench.writer.move_all_now();
    assert!(temp.path().join("location.log.damaged").exists() && !path.exists());
    assert_eq!(number(&foreign(&temp), "SELECT count(*) FROM location"), 10);
}

#[test]
fn bindings_that_ended_while_nobody_ran_leave_the_table() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("short", 60);
    bench.put("back", 60);
    bench.put("long", 600);
    bench.round_and_table();
    // Once more, into the log.
    bench.put("short", 61);
    bench.put("back", 61);
    bench.put("logged", 60);
    bench.writer.round().unwrap();
    drop(bench);
    let mut bench = Bench::open(temp.path(), Hands::new(1, WALL + 100));
    assert_eq!(bench.loaded, LoadReport { live: 1, expired: 3, bad: 0 });
    // It comes back, and what the log says about it is from before.
    bench.put("back", 600);
    bench.round_and_table();
    let rows = "SELECT group_concat(username) FROM (SELECT username FROM location ORDER BY 1)";
    let rows: String = foreign(&temp).query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, "back,long");
}

#[test]
fn subscribers_removed_after_the_last_that_the_log_knows_of_are_forgotten() {
    let temp = TempDir::new();
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    let sql = foreign(&temp);
    sql.execute_batch(include_str!("../schema/watch.sql")).unwrap();
    for user in ["early", "late", "stays", "again"] {
        bench.put(user, 600);
        sql.execute("INSERT INTO subscriber (username, domain) VALUES (?1, 'Example.com')", [user]).unwrap();
    }
    bench.put("guest", 600);
    let remove = |user: &str| sql.execute("DELETE FROM subscriber WHERE username = ?1", [user]).unwrap();
    remove("early");
    let seen = number(&sql, "SELECT max(id) FROM subscriber_change");
    remove("late");
    remove("again");
    sql.execute("INSERT INTO subscriber (username, domain) VALUES ('again', 'example.com')", []).unwrap();
    let database = Database::open(temp.path(), Patience::SERVER).unwrap();
    forget_removed(&database, &bench.location, seen).unwrap();
    let live = ["early", "late", "stays", "again", "guest"].map(|user| bench.live(user));
    // The first registered anew since, as a guest.
    assert_eq!(live, [1, 0, 1, 1, 1]);
}
