//! Tests of the location service and its writer. Clocks and rounds are moved by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, MutexGuard};

use location::testing::{Faults, TempDir, faults, log_dir, record};
use location::{
    BindingTable, ClockPair, Filling, LoadOptions, LogDir, Result, RowSeen, Start, TableRead, Word,
    WriterOptions, load,
};
use rusqlite::Connection;

use super::*;
use crate::backend::ServerTable;
use crate::sqlite::bindings::LocationTable;
use crate::sqlite::watch::Watch;

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

    pub(super) fn clock(&self) -> Clock {
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

/// A location service with its writer and its mover, and no thread.
pub(super) struct Bench {
    pub(super) location: Arc<SharedLocation>,
    pub(super) writer: Writer,
    pub(super) mover: Mover,
    pub(super) sealed: Arc<Sealed>,
    pub(super) loaded: LoadReport,
    pub(super) hands: Hands,
    table: Handed,
}

/// The table that a mover has, for tests to reach.
struct Handed(Arc<Mutex<LocationTable>>);

impl Handed {
    fn table(&self) -> MutexGuard<'_, LocationTable> {
        self.0.lock().unwrap()
    }
}

impl BindingTable for Handed {
    fn check(&self) -> Result<()> {
        self.table().check()
    }

    fn read(&mut self, to: &Filling<'_>) -> Result<TableRead> {
        self.table().read(to)
    }

    fn write<'w>(&mut self, words: &mut dyn Iterator<Item = Word<'w>>) -> Result<()> {
        self.table().write(words)
    }

    fn pull_back(&mut self, clock: ClockPair) -> Result<()> {
        self.table().pull_back(clock)
    }

    fn begin_purge(&mut self) {
        self.table().begin_purge();
    }

    fn purge(&mut self, is_gone: &mut dyn FnMut(&RowSeen<'_>) -> bool) -> Result<bool> {
        self.table().purge(is_gone)
    }
}

/// The files of the log in a directory with their numbers, oldest first.
pub(super) fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    location::list(&log_dir(dir))
}

/// With little room, so that tests with some ten thousand bindings come to use it again and again.
fn loading<'a>(dir: &'a LogDir, sockets: &'a [String], pair: ClockPair) -> LoadOptions<'a> {
    LoadOptions { room: 8_192, ..LoadOptions::new(dir, sockets, pair, 0) }
}

fn sockets() -> Vec<String> {
    ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"].map(str::to_owned).to_vec()
}

fn limits() -> LocationLimits {
    LocationLimits { stripes: 8, ..LocationLimits::default() }
}

/// A log of small files and batches.
pub(super) fn small() -> LogLimits {
    LogLimits { bytes: (2_000, 2_000), age: Duration::from_secs(100_000), batch: 3 }
}

impl Bench {
    pub(super) fn open(dir: &Path, hands: Hands) -> Bench {
        let clock = hands.clock();
        Bench::open_with(dir, hands, clock)
    }

    /// With a clock that shows what `hands` show, and may do more.
    pub(super) fn open_with(dir: &Path, hands: Hands, clock: Clock) -> Bench {
        Bench::make(dir, hands, clock, OnFailure::Refuse)
    }

    /// With this policy while the disk fails.
    pub(super) fn open_as(dir: &Path, hands: Hands, policy: OnFailure) -> Bench {
        let clock = hands.clock();
        Bench::make(dir, hands, clock, policy)
    }

    fn make(dir: &Path, hands: Hands, clock: Clock, policy: OnFailure) -> Bench {
        let location = Arc::new(SharedLocation::new([5; 16], limits(), policy));
        let pair = hands.clock().pair();
        let database = Database::open(dir, Patience(Duration::from_millis(20))).unwrap();
        let mut table = LocationTable::new(database, dir).unwrap();
        let log_dir = log_dir(dir);
        let Start { report: loaded, log, sealed, .. } =
            load(loading(&log_dir, &sockets(), pair), &mut table, &location).unwrap();
        let writer = Writer::new(WriterOptions {
            location: Arc::clone(&location),
            log,
            sealed: Arc::clone(&sealed),
            sockets: sockets(),
            clock: clock.clone(),
            loaded: pair,
            table_there: table.watcher().unwrap(),
        });
        let expired = (loaded.expired != 0).then_some(pair);
        let table = Handed(Arc::new(Mutex::new(table)));
        let moves = Box::new(Handed(Arc::clone(&table.0)));
        let mover = Mover::new(Arc::clone(&location), moves, log_dir, Arc::clone(&sealed), clock, expired);
        Bench { location, writer, mover, sealed, loaded, hands, table }
    }

    /// With small files, and the smallest steps.
    pub(super) fn open_small(dir: &Path, hands: Hands) -> Bench {
        let mut bench = Bench::open(dir, hands);
        bench.writer.set_limits(small());
        *bench.mover.steps() = Steps { read: 300, rows: 1 };
        bench
    }

    /// A round that writes all that waits.
    pub(super) fn round(&mut self) {
        assert_eq!(self.writer.round(), INTERVAL);
        assert_eq!((self.location.health(), self.location.pending()), (Health::Good, 0));
    }

    /// A round that cannot write, and what that says.
    fn failing_round(&mut self) -> String {
        self.writer.round();
        match self.location.health() {
            Health::Failing { error, .. } => error,
            Health::Good => panic!("failing"),
        }
    }

    /// Rounds until all is written: where the log is small, it may have to be moved first.
    pub(super) fn settle(&mut self) {
        let done = (0..500).any(|_| {
            self.writer.round();
            self.mover.try_step().unwrap();
            self.location.pending() == 0 && self.location.health() == Health::Good
        });
        assert!(done, "{:?}", self.location.health());
    }

    /// Everything in the table, and only the file that is appended to left of the log.
    pub(super) fn move_all(&mut self) {
        self.writer.seal().unwrap();
        // What is hurt waits for the writer.
        let done = (0..100).any(|_| {
            let all = self.mover.run(Time::FAR).unwrap();
            if !all {
                self.writer.round();
            }
            all
        });
        assert!(done);
        assert!(self.sealed.is_empty());
    }

    /// A round, and everything in the table.
    pub(super) fn round_and_table(&mut self) {
        self.round();
        self.move_all();
    }

    pub(super) fn put(&self, user: &str, seconds: u64) {
        put(&self.location, user, "sip:x@192.0.2.9", self.hands.now() + Duration::from_secs(seconds));
    }

    pub(super) fn set_pragma(&self, name: &str, value: i64) {
        self.table.table().database().connection.pragma_update(None, name, value).unwrap();
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

pub(super) fn foreign(temp: &TempDir) -> Connection {
    Connection::open(temp.path().join(crate::DATABASE_FILE)).unwrap()
}

pub(super) fn rows(temp: &TempDir) -> i64 {
    number(&foreign(temp), "SELECT count(*) FROM location")
}

pub(super) fn number(connection: &Connection, sql: &str) -> i64 {
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
    bench.round();
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
    bench.round();
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
    bench.round();
    bench.mover.step();
    assert_eq!(rows(), 4_500 - 1_800);
    bench.round_and_table();
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
        bench.round();
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
    bench.round();
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
    bench.round();
    let path = bench.writer.path().to_path_buf();
    faults::set(&path, Faults { write: Some((7_000, libc::ENOSPC)), ..Faults::default() });
    for user in 0..2_000 {
        bench.put(&format!("user{user}"), 600);
    }
    let mut pauses = vec![bench.writer.round()];
    let error = bench.failing_round();
    assert!(error.contains("location.1.log") && error.contains("space"), "{error}");
    pauses.extend((0..7).map(|_| bench.writer.round()));
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
    faults::clear(&path);
    bench.round();
    assert!(bench.location.accepting());
    let expected = bench.all();
    assert_eq!((expected.len(), bench.location.pending()), (2_000, 0));
    drop(bench);
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!(bench.all(), expected);
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
    let database = Database::open(temp.path(), Patience::SERVER).unwrap();
    let mut table = LocationTable::new(database, temp.path()).unwrap();
    let location = SharedLocation::new([5; 16], limits(), OnFailure::Refuse);
    let pair = Hands::new(10, WALL).clock().pair();
    let log_dir = log_dir(temp.path());
    let error = load(loading(&log_dir, &sockets(), pair), &mut table, &location).unwrap_err();
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
    assert!(list(temp.path()).unwrap().is_empty());
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!(bench.loaded, LoadReport { live: 50, expired: 0, bad: 0 });
    bench.location.remove(b"user7@example.com");
    bench.put("user8", 900);
    bench.round();
    let expected = bench.all();
    drop(bench);
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!((bench.all(), bench.loaded.live), (expected, 49));
}

/// The columns hold texts, and SQLite makes a number that it compares with them into one first: telephone
/// numbers with a plus come before its digits.
#[test]
fn users_whose_names_begin_with_any_letter_are_read() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    let users = [
        "",
        " ",
        "!x",
        "#31#",
        "%41",
        "'q",
        "(x",
        "*7",
        "+4930123",
        "-1",
        "-9223372036854775809",
        "0",
        "a",
        "~",
        "\u{e4}",
    ];
    users.iter().for_each(|user| bench.put(user, 600));
    bench.round_and_table();
    assert_eq!(usize::try_from(rows(&temp)).unwrap(), users.len());
    drop(bench);
    let mut bench = Bench::open(temp.path(), Hands::new(1, WALL + 100));
    assert_eq!(bench.loaded, LoadReport { live: users.len() as u64, expired: 0, bad: 0 });
    // Without a user the address is the domain alone.
    assert!(users.iter().skip(1).all(|user| bench.live(user) == 1));
    // And all of them go when they are over.
    drop(bench);
    bench = Bench::open(temp.path(), Hands::new(1, WALL + 1_000));
    assert_eq!(bench.loaded.expired, users.len() as u64);
    bench.settle();
    bench.move_all();
    assert_eq!(rows(&temp), 0);
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
    bench.round();
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
    sql.execute_batch(include_str!("../sqlite/schema/watch.sql")).unwrap();
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
    let source = Watch::open(temp.path()).unwrap();
    let newest = number(&sql, "SELECT max(id) FROM subscriber_change");
    forget_removed(&source, &bench.location, Some(seen), newest).unwrap();
    let live = ["early", "late", "stays", "again", "guest"].map(|user| bench.live(user));
    // The first registered anew since, as a guest.
    assert_eq!(live, [1, 0, 1, 1, 1]);
    // Without a log, only what happened while it was loaded is news.
    bench.put("late", 600);
    forget_removed(&source, &bench.location, None, newest).unwrap();
    assert_eq!(bench.live("late"), 1);
    // When the numbers have begun again, all that is known is news.
    forget_removed(&source, &bench.location, Some(newest + 1), newest).unwrap();
    assert_eq!((bench.live("late"), bench.live("early"), bench.live("again")), (0, 0, 1));
}
