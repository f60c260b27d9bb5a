//! Tests of the log and the table together: moving one into the other, and what bad disks, full disks, locks
//! and people who replace files do to it.

use std::path::{Path, PathBuf};

use location::seen_in;
use location::testing::{Faults, TempDir, faults, log_dir};

use super::tests::*;
use super::*;
use crate::sqlite::bindings::LocationTable;

fn bench(temp: &TempDir) -> Bench {
    Bench::open(temp.path(), Hands::new(10, WALL))
}

fn small_bench(temp: &TempDir) -> Bench {
    Bench::open_small(temp.path(), Hands::new(10, WALL))
}

fn files(temp: &TempDir) -> Vec<u64> {
    list(temp.path()).unwrap().into_iter().map(|(number, _)| number).collect()
}

fn log(temp: &TempDir, number: u64) -> PathBuf {
    temp.path().join(format!("location.{number}.log"))
}

/// Registers users a round at a time until registrations are refused; answers how many.
fn fill(bench: &mut Bench) -> usize {
    let mut users = 0;
    while bench.location.accepting() {
        bench.put(&format!("user{users}"), 600);
        users += 1;
        bench.writer.round();
        assert!(users < 1_000);
    }
    users
}

/// Another program that keeps the database locked delays the table only, until the log has no room. What had
/// been accepted by then is written all the same, and none of the pauses gets longer.
#[test]
fn a_lock_held_too_long_stops_nothing_until_the_log_is_too_long() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    let sql = foreign(&temp);
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut users = fill(&mut bench);
    // Three files of 2,000 bytes, of 140 bytes each and the heads of their batches.
    assert!((20..60).contains(&users), "{users}");
    assert!(format!("{:?}", bench.location.health()).contains("not in the database"));
    for _ in 0..3 {
        bench.put(&format!("user{users}"), 600);
        users += 1;
        assert_eq!((bench.writer.round(), bench.location.pending()), (INTERVAL, 0), "durable though late");
        assert!(!bench.location.accepting());
    }
    let (expected, hands) = (bench.all(), bench.hands.clone());
    assert_eq!(number(&sql, "SELECT count(*) FROM location"), 0);
    drop(bench);
    let mut bench = Bench::open_small(temp.path(), hands);
    assert_eq!(bench.all(), expected);
    sql.execute_batch("ROLLBACK").unwrap();
    bench.settle();
    bench.move_all();
    assert_eq!((rows(&temp), bench.all().len()), (users as i64, users));
}

/// At last nothing is written any more; what waits is written when there is room again, also at the very end.
#[test]
fn a_log_without_room_is_written_again_as_soon_as_it_is_moved() {
    for at_the_end in [false, true] {
        let temp = TempDir::new();
        let mut bench = small_bench(&temp);
        let sql = foreign(&temp);
        sql.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut users = fill(&mut bench);
        while bench.location.pending() == 0 {
            bench.put(&format!("user{users}"), 600);
            users += 1;
            assert_eq!(bench.writer.round(), INTERVAL);
            assert!(users < 200);
        }
        let longest: u64 =
            list(temp.path()).unwrap().iter().map(|(_, path)| path.metadata().unwrap().len()).sum();
        assert!((7_500..9_000).contains(&longest), "{longest}");
        sql.execute_batch("ROLLBACK").unwrap();
        let expected = bench.all();
        if at_the_end {
            let clock = bench.hands.clock();
            finish(&mut bench.writer, &mut bench.mover, &bench.location, &clock);
            assert_eq!((bench.location.pending(), rows(&temp), files(&temp).len()), (0, users as i64, 1));
        } else {
            bench.settle();
            assert!(bench.location.accepting());
        }
        let hands = bench.hands.clone();
        drop(bench);
        assert_eq!(Bench::open(temp.path(), hands).all(), expected);
    }
}

/// A round with very much to write ends where there is no more room, and says nothing of removals.
#[test]
fn one_round_does_not_write_more_than_there_is_room_for() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    (0..400).for_each(|user| bench.put(&format!("user{user}"), 600));
    let removals = bench.writer.removals();
    removals.applied.store(3, Ordering::Relaxed);
    assert_eq!(bench.writer.round(), INTERVAL);
    assert!(bench.location.pending() > 100 && !bench.location.accepting());
    // One stripe is always written whole.
    assert!((8_000..20_000).contains(&bench.writer.length()));
    assert_eq!((bench.writer.seen(), removals.durable.load(Ordering::Relaxed)), (0, 0));
    let expected = bench.all();
    bench.settle();
    assert_eq!(removals.durable.load(Ordering::Relaxed), 3);
    let hands = bench.hands.clone();
    drop(bench);
    assert_eq!(Bench::open(temp.path(), hands).all(), expected);
}

/// The room was made for the bindings that there were when the file was begun.
#[test]
fn a_log_does_not_become_too_long_because_bindings_end() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    bench.writer.set_limits(LogLimits { bytes: (1_000, 1 << 30), ..small() });
    let users = |bench: &Bench, range: std::ops::Range<u32>| {
        range.for_each(|user| bench.put(&format!("user{user}"), 60));
    };
    users(&bench, 0..300);
    bench.settle();
    // Full for the bindings that there are now.
    for _ in 0..2 {
        users(&bench, 0..300);
        bench.writer.round();
    }
    bench.round_and_table();
    users(&bench, 0..300);
    bench.round();
    bench.hands.pass(100);
    while bench.location.expire(bench.hands.now(), 1_000) {}
    assert_eq!(bench.location.size().1, 0);
    bench.round();
    assert!(bench.location.accepting() && bench.writer.length() > 30_000);
}

/// A lock that is kept is said after some time, once.
#[test]
fn a_lock_that_is_kept_is_said() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    bench.put("a", 600);
    bench.round();
    bench.writer.seal().unwrap();
    let sql = foreign(&temp);
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let said = |bench: &mut Bench| {
        (0..5).for_each(|_| _ = bench.mover.step());
        bench.sealed.trouble()
    };
    assert_eq!(said(&mut bench), None);
    bench.hands.pass(11);
    assert!(said(&mut bench).is_some_and(|error| error.contains("keeps it locked")));
    sql.execute_batch("ROLLBACK").unwrap();
    assert_eq!(said(&mut bench), None);
    // A little later another one: it has its own time.
    bench.put("b", 600);
    bench.round();
    bench.writer.seal().unwrap();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(said(&mut bench), None);
}

/// A table that cannot be written costs nothing yet, and is written when it can be.
#[test]
fn a_table_that_cannot_be_written_is_tried_again() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    bench.writer.set_limits(LogLimits { age: Duration::from_secs(60), ..small() });
    bench.put("a", 600);
    bench.round();
    bench.set_pragma("query_only", 1);
    let mut pauses = Vec::new();
    for _ in 0..30 {
        bench.hands.pass(10);
        bench.round();
        pauses.push(bench.mover.step());
    }
    assert!(pauses.contains(&Duration::from_secs(5)) && bench.sealed.trouble().is_some());
    assert!(bench.location.health() == Health::Good && rows(&temp) == 0);
    bench.set_pragma("query_only", 0);
    for _ in 0..4 {
        bench.mover.step();
    }
    assert_eq!((rows(&temp), bench.sealed.is_empty(), bench.sealed.trouble()), (1, true, None));
}

/// A little that nothing is added to reaches the table all the same; after a restart at once.
#[test]
fn the_table_is_never_older_than_promised() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    let moved = |bench: &mut Bench| {
        bench.round();
        (0..5).for_each(|_| _ = bench.mover.try_step().unwrap());
        rows(&temp)
    };
    bench.put("a", 9_000);
    bench.round();
    bench.hands.pass(3_500);
    assert_eq!(moved(&mut bench), 0);
    bench.hands.pass(200);
    assert_eq!(moved(&mut bench), 1);
    bench.put("b", 9_000);
    bench.round();
    let hands = bench.hands.clone();
    drop(bench);
    let mut bench = Bench::open(temp.path(), hands);
    assert_eq!((moved(&mut bench), files(&temp)), (2, vec![3]));
}

/// Moving keeps up with the log: it is done before the next file is full.
#[test]
fn a_full_file_is_moved_in_steps_while_the_next_one_fills() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    bench.writer.set_limits(LogLimits { bytes: (100_000, 100_000), ..small() });
    *bench.mover.steps() = Steps { read: 20_000, rows: 5 };
    let (mut longest, mut moves, mut busy) = (0, 0, false);
    for round in 0..600 {
        for user in 0..20 {
            bench.put(&format!("user{:04}", (round * 20 + user) * 7 % 1_000), 600);
        }
        bench.round();
        while bench.mover.step() == Duration::ZERO {}
        longest = longest.max(bench.writer.length());
        moves += usize::from(busy && bench.sealed.is_empty());
        busy = !bench.sealed.is_empty();
        assert!(files(&temp).len() <= 2);
    }
    assert!(longest < 110_000, "{longest}");
    assert!(moves >= 5, "{moves}");
    assert_eq!(rows(&temp), 1_000);
}

#[test]
fn a_database_taken_away_or_replaced_is_noticed() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    let (path, aside) = (temp.path().join(crate::DATABASE_FILE), temp.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    bench.put("a", 600);
    bench.writer.round();
    assert!(!bench.location.accepting());
    assert_eq!(bench.location.pending(), 0, "what was accepted is in the log");
    std::fs::copy(&aside, &path).unwrap();
    bench.writer.round();
    assert!(format!("{:?}", bench.location.health()).contains("replaced"));
    std::fs::rename(&aside, &path).unwrap();
    bench.round();
    assert!(bench.location.accepting());
}

/// Whenever the database, or its write-ahead log, is replaced while a file is moved: it stays until all that
/// it says is in the files that the next start reads.
#[test]
fn nothing_is_deleted_while_another_database_is_in_the_place() {
    for name in [crate::DATABASE_FILE.to_owned(), format!("{}-wal", crate::DATABASE_FILE)] {
        // So many steps are done before: none, some of the rows, all of them.
        for steps in 0.. {
            let temp = TempDir::new();
            let mut bench = small_bench(&temp);
            (0..9).for_each(|user| bench.put(&format!("user{user}"), 600));
            bench.round();
            bench.writer.seal().unwrap();
            (0..steps).for_each(|_| assert!(bench.mover.try_step().unwrap()));
            if bench.sealed.is_empty() {
                assert!(steps > 9);
                break;
            }
            let expected = bench.all();
            let (path, aside) = (temp.path().join(&name), temp.path().join("aside"));
            std::fs::rename(&path, &aside).unwrap();
            std::fs::write(&path, b"").unwrap();
            let failed = (0..50).any(|_| bench.mover.try_step().is_err());
            assert!(failed, "after {steps} steps");
            assert!(bench.mover.try_step().unwrap_err().to_string().contains("replaced"));
            assert!(!bench.mover.run(Time::FAR).is_ok_and(|all| all));
            assert_eq!(files(&temp), [1, 2], "after {steps} steps");
            let hands = bench.hands.clone();
            std::mem::forget(bench);
            // A start that has only the log finds all.
            for name in [crate::DATABASE_FILE, "strowger.db-wal", "strowger.db-shm"] {
                let _ = std::fs::remove_file(temp.path().join(name));
            }
            assert_eq!(Bench::open(temp.path(), hands).all(), expected);
        }
    }
}

/// The old one put back, moving goes on where it was.
#[test]
fn a_database_that_comes_back_is_written_again() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    (0..9).for_each(|user| bench.put(&format!("user{user}"), 600));
    bench.round();
    bench.writer.seal().unwrap();
    while bench.mover.moving() != (true, false) || rows(&temp) < 4 {
        bench.mover.step();
    }
    let (path, aside) = (temp.path().join(crate::DATABASE_FILE), temp.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    bench.mover.try_step().unwrap_err();
    std::fs::rename(&aside, &path).unwrap();
    bench.move_all();
    assert_eq!((rows(&temp), files(&temp)), (9, vec![2]));
}

/// A round of several batches: what stands for removals goes out with the last one only.
#[test]
fn removals_are_not_said_before_the_last_batch_of_a_round_has_them() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    bench.writer.set_limits(LogLimits { bytes: (1 << 20, 1 << 20), ..small() });
    (0..40).for_each(|user| bench.put(&format!("user{user}"), 600));
    let seen = |bench: &mut Bench| seen_in(&log_dir(temp.path())).unwrap() == Some(bench.writer.seen());
    let removals = bench.writer.removals();
    removals.applied.store(5, Ordering::Relaxed);
    bench.round();
    assert_eq!((bench.writer.seen(), removals.durable.load(Ordering::Relaxed)), (5, 5));
    assert!(seen(&mut bench));
    for user in 0..40 {
        bench.location.remove(format!("user{user}@example.com").as_bytes());
    }
    removals.applied.store(45, Ordering::Relaxed);
    // The third batch fails.
    let path = bench.writer.path().to_path_buf();
    let fault = Faults { write: Some((10, libc::ENOSPC)), writes_before: 2, ..Faults::default() };
    faults::set(&path, fault);
    bench.writer.round();
    let left = bench.location.pending();
    assert!((1..40).contains(&left), "{left}");
    assert_eq!((bench.writer.seen(), removals.durable.load(Ordering::Relaxed)), (5, 5));
    assert!(seen(&mut bench));
    faults::clear(&path);
    bench.round();
    assert!(seen(&mut bench));
    assert_eq!(removals.durable.load(Ordering::Relaxed), 45);
    // And where there is nothing else to say.
    removals.applied.store(46, Ordering::Relaxed);
    bench.round();
    assert!(seen(&mut bench));
    assert_eq!(removals.durable.load(Ordering::Relaxed), 46);
    // It outlives the files that said it.
    let length = bench.writer.length();
    bench.round_and_table();
    assert_eq!(bench.writer.seen(), 46);
    assert!(bench.writer.length() < length && seen(&mut bench));
}

/// Deleting a full file may fail at any point, for a while; it is tried again, and nothing else is done
/// again.
#[test]
fn a_file_that_cannot_be_deleted_is_deleted_later() {
    for fault in [
        Faults { remove: Some(libc::EIO), ..Faults::default() },
        Faults { sync: Some(libc::EIO), ..Faults::default() },
    ] {
        let temp = TempDir::new();
        let mut bench = small_bench(&temp);
        bench.put("a", 600);
        bench.round();
        bench.writer.seal().unwrap();
        let path = if fault.remove.is_some() { log(&temp, 1) } else { temp.path().to_path_buf() };
        faults::set(&path, fault);
        for _ in 0..9 {
            bench.mover.step();
        }
        assert_eq!((rows(&temp), bench.mover.moving(), bench.sealed.is_empty()), (1, (true, true), false));
        assert!(bench.sealed.trouble().is_some());
        // What comes meanwhile is not deleted with it.
        faults::clear(&path);
        bench.put("b", 600);
        bench.round();
        bench.writer.seal().unwrap();
        let expected = bench.all();
        bench.mover.try_step().unwrap();
        assert_eq!(files(&temp), [2, 3]);
        let hands = bench.hands.clone();
        drop(bench);
        let mut bench = Bench::open(temp.path(), hands);
        assert_eq!(bench.all(), expected);
        bench.move_all();
        assert_eq!((rows(&temp), files(&temp)), (2, vec![4]));
    }
}

/// A start after the clock was set back moves the log into the table. Where that cannot be deleted it is
/// there, and moved again.
#[test]
fn a_log_that_cannot_be_deleted_at_start_does_no_harm() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    bench.put("a", 600);
    bench.round();
    drop(bench);
    faults::set(&log(&temp, 1), Faults { remove: Some(libc::EACCES), ..Faults::default() });
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL - 3_600));
    assert_eq!((bench.all().len(), files(&temp), rows(&temp)), (1, vec![1, 2], 1));
    bench.location.remove(b"a@example.com");
    bench.round();
    faults::clear(&log(&temp, 1));
    bench.move_all();
    assert_eq!((rows(&temp), files(&temp)), (0, vec![3]));
}

/// Starts that fail further on, again and again, leave no more than one file that says nothing.
#[test]
fn failing_starts_do_not_pile_up_files() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    bench.put("a", 600);
    bench.round();
    let (hands, expected) = (bench.hands.clone(), bench.all());
    drop(bench);
    for start in 2..6 {
        drop(Bench::open(temp.path(), hands.clone()));
        assert_eq!(files(&temp), [1, start]);
    }
    assert_eq!(Bench::open(temp.path(), hands).all(), expected);
}

/// A full file that somebody deletes blocks nothing, and what memory has of it is written anew; what it has
/// not goes, though the words about that are lost.
#[test]
fn a_full_file_that_is_gone_is_made_good_from_memory() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    (0..9).for_each(|user| bench.put(&format!("user{user}"), 600));
    bench.round_and_table();
    bench.location.remove(b"user3@example.com");
    bench.put("new", 600);
    bench.round();
    bench.writer.seal().unwrap();
    std::fs::remove_file(log(&temp, 2)).unwrap();
    let expected = bench.all();
    for _ in 0..30 {
        bench.writer.round();
        bench.mover.step();
    }
    bench.settle();
    assert!(bench.sealed.is_empty() && !bench.writer.rescanning());
    let hands = bench.hands.clone();
    drop(bench);
    assert_eq!(Bench::open(temp.path(), hands).all(), expected);
}

/// The bytes of the file that become bad, by a bit or for the whole sector.
fn spoil(path: &Path, at: u64, sector: bool) {
    if sector {
        faults::set(path, Faults { unreadable: at..at + 1, ..Faults::default() });
        return;
    }
    let mut bytes = std::fs::read(path).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 1;
    std::fs::write(path, &bytes).unwrap();
}

#[test]
fn of_a_damaged_log_the_rest_is_kept_and_the_file_too() {
    for sector in [false, true] {
        let temp = TempDir::new();
        let mut bench = bench(&temp);
        let mut ends = Vec::new();
        for batch in ["a", "b", "c"] {
            (0..60).for_each(|user| bench.put(&format!("{batch}{user}"), 600));
            bench.round();
            ends.push(bench.writer.length());
        }
        let hands = bench.hands.clone();
        drop(bench);
        spoil(&log(&temp, 1), ends[1] - 10, sector);
        let mut bench = Bench::open(temp.path(), hands);
        let left = bench.loaded.live;
        assert!((120..180).contains(&left), "at most the frames of a page are lost: {left}");
        bench.put("d", 600);
        let expected = bench.all();
        bench.round_and_table();
        assert!(temp.path().join(DAMAGED).exists() && files(&temp) == [3]);
        let hands = bench.hands.clone();
        drop(bench);
        faults::clear(&log(&temp, 1));
        assert_eq!(Bench::open(temp.path(), hands).all(), expected);
    }
}

/// A file that becomes bad while it waits to be moved is noticed then, before all of it is read or after, and
/// memory has what it said.
#[test]
fn damage_found_while_moving_is_made_good_from_memory() {
    for sector in [false, true] {
        for steps in [0, 2, 40] {
            let temp = TempDir::new();
            let mut bench = small_bench(&temp);
            bench.writer.set_limits(LogLimits { bytes: (1 << 20, 1 << 20), ..small() });
            *bench.mover.steps() = Steps { read: 2_000, rows: 1 };
            (0..60).for_each(|user| bench.put(&format!("user{user}"), 600));
            bench.round_and_table();
            bench.location.remove(b"user3@example.com");
            (0..60).filter(|user| *user != 3).for_each(|user| bench.put(&format!("user{user}"), 700));
            bench.round();
            bench.writer.seal().unwrap();
            (0..steps).for_each(|_| _ = bench.mover.try_step().unwrap());
            let length = log(&temp, 2).metadata().unwrap().len();
            spoil(&log(&temp, 2), length - 300, sector);
            let expected = bench.all();
            for _ in 0..100 {
                bench.writer.round();
                bench.mover.step();
            }
            bench.settle();
            // A bit that turns after the checksum was looked at is the disk's secret.
            if steps == 0 || (sector && steps < 40) {
                assert!(temp.path().join(DAMAGED).exists() && !log(&temp, 2).exists(), "{steps}");
            }
            let hands = bench.hands.clone();
            drop(bench);
            faults::clear(&log(&temp, 2));
            let all = Bench::open(temp.path(), hands).all();
            if sector || steps == 0 {
                assert_eq!(all, expected, "{sector} {steps}");
            }
        }
    }
}

/// The end has its time. What is not done by then is done after the next start.
#[test]
fn the_last_move_ends_when_its_time_is_over() {
    let temp = TempDir::new();
    let mut bench = small_bench(&temp);
    bench.writer.set_limits(LogLimits { bytes: (1 << 20, 1 << 20), ..small() });
    (0..60).for_each(|user| bench.put(&format!("user{user}"), 600));
    bench.round();
    bench.writer.seal().unwrap();
    assert!(!bench.mover.run(bench.hands.now()).unwrap());
    assert_eq!(bench.mover.moving(), (false, false), "not even begun");
    // Each look at the clock takes a second: reading has steps too.
    let location = Arc::clone(&bench.location);
    let database = Database::open(temp.path(), Patience::SERVER).unwrap();
    let (hands, sealed) = (bench.hands.clone(), Arc::clone(&bench.sealed));
    let ticks = Clock::new(
        {
            let hands = hands.clone();
            move || {
                hands.pass(1);
                hands.now()
            }
        },
        || WALL * 1_000_000,
    );
    let table = Box::new(LocationTable::new(database, temp.path()).unwrap());
    let mut mover = Mover::new(location, table, log_dir(temp.path()), sealed, ticks, None);
    *mover.steps() = Steps { read: 300, rows: 1 };
    let until = hands.now() + Duration::from_secs(5);
    assert!(!mover.run(until).unwrap());
    assert_eq!((mover.moving(), rows(&temp)), ((true, false), 0));
    assert!(hands.now() <= until + Duration::from_secs(1));
    assert!(mover.run(Time::FAR).unwrap());
    assert_eq!(rows(&temp), 60);
}
