//! Tests of what becomes of bindings when files of the log, or parts of them, are lost while the server runs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use location::testing::{Faults, TempDir, faults};

use super::tests::*;
use super::*;

fn log(temp: &TempDir, number: u64) -> PathBuf {
    temp.path().join(format!("location.{number}.log"))
}

fn files(temp: &TempDir) -> Vec<u64> {
    list(temp.path()).unwrap().into_iter().map(|(number, _)| number).collect()
}

/// Sixty bindings in a full file, a part of which cannot be read any more; one was removed in it.
fn hurt(temp: &TempDir) -> Bench {
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.writer.set_limits(LogLimits { bytes: (1 << 20, 1 << 20), ..small() });
    *bench.mover.steps() = Steps { read: 2_000, rows: 5 };
    bench.put("removed", 600);
    bench.round_and_table();
    bench.location.remove(b"removed@example.com");
    (0..60).for_each(|user| bench.put(&format!("user{user}"), 700));
    bench.round();
    faults::set(&log(temp, 2), Faults { unreadable: 300..4_500, ..Faults::default() });
    bench
}

/// The end finds damage with its last move: what only memory has is written before it goes.
#[test]
fn damage_found_by_the_last_move_is_made_good() {
    let temp = TempDir::new();
    let mut bench = hurt(&temp);
    let (expected, clock) = (bench.all(), bench.hands.clock());
    finish(&mut bench.writer, &mut bench.mover, &bench.location, &clock);
    assert!(temp.path().join(DAMAGED).exists() && files(&temp).len() == 1);
    let hands = bench.hands.clone();
    drop(bench);
    assert_eq!(Bench::open(temp.path(), hands).all(), expected);
}

/// The end comes while all bindings are being written anew.
#[test]
fn the_end_waits_for_all_that_is_written_anew() {
    [false, true].into_iter().for_each(ends_while_all_is_written_anew);
}

fn ends_while_all_is_written_anew(clock_set: bool) {
    let temp = TempDir::new();
    let mut bench = hurt(&temp);
    if clock_set {
        faults::clear(&log(&temp, 2));
    }
    // More than two rounds write.
    (0..45_000).for_each(|user| bench.put(&format!("many{user}"), 700));
    bench.writer.set_limits(LogLimits { bytes: (1 << 24, 1 << 24), batch: 32_000, ..small() });
    *bench.mover.steps() = Steps::default();
    bench.round();
    bench.writer.seal().unwrap();
    match clock_set {
        true => _ = bench.hands.wall.fetch_add(3_600, Ordering::Relaxed),
        false => {
            while !bench.sealed.needs_repair() {
                bench.mover.try_step().unwrap();
            }
        }
    }
    bench.round();
    assert!(bench.writer.rescanning());
    let (expected, clock) = (bench.all(), bench.hands.clock());
    finish(&mut bench.writer, &mut bench.mover, &bench.location, &clock);
    assert!(!bench.writer.rescanning() && !bench.sealed.needs_repair());
    let hands = bench.hands.clone();
    drop(bench);
    assert!(Bench::open(temp.path(), hands).all() == expected);
}

/// However much there is to write anew, the end is bounded; what waits is written in any case.
#[test]
fn the_end_does_not_wait_for_ever_for_all_that_is_written_anew() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    (0..90_000).for_each(|user| bench.put(&format!("user{user}"), 6_000));
    bench.round();
    bench.hands.wall.fetch_add(3_600, Ordering::Relaxed);
    bench.writer.round();
    assert!(bench.writer.rescanning());
    bench.put("new", 6_000);
    // Each look at it takes a minute.
    let looks = AtomicU64::new(0);
    let slow = Clock::new(move || Time::from_secs(60 * looks.fetch_add(1, Ordering::Relaxed)), || 0);
    finish(&mut bench.writer, &mut bench.mover, &bench.location, &slow);
    assert!(bench.writer.rescanning() && bench.location.pending() == 0);
    let hands = bench.hands.clone();
    drop(bench);
    let bench = Bench::open(temp.path(), hands);
    assert_eq!((bench.live("new"), bench.loaded.live), (1, 90_001));
}

/// Full files before the first one that is hurt go as soon as the table has them. Not so where that is hurt
/// only after it was read: words of the earlier ones were passed over for its own.
#[test]
fn whole_files_before_a_hurt_one_do_not_wait_for_it() {
    let (mut early, mut late) = (0, 0);
    for steps in 0..80 {
        let temp = TempDir::new();
        let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
        (0..60).for_each(|user| bench.put(&format!("user{user}"), 600));
        bench.round();
        let hands = bench.hands.clone();
        drop(bench);
        let mut bench = Bench::open(temp.path(), hands);
        *bench.mover.steps() = Steps { read: 2_000, rows: 5 };
        (0..60).for_each(|user| bench.put(&format!("user{user}"), 700));
        bench.round();
        bench.writer.seal().unwrap();
        (0..steps).for_each(|_| _ = bench.mover.try_step().unwrap());
        if !log(&temp, 2).exists() {
            break;
        }
        faults::set(&log(&temp, 2), Faults { unreadable: 300..4_500, ..Faults::default() });
        while !bench.sealed.needs_repair() && log(&temp, 2).exists() {
            bench.mover.try_step().unwrap();
        }
        bench.mover.try_step().unwrap();
        if bench.sealed.needs_repair() {
            assert!(log(&temp, 2).exists());
            *(if log(&temp, 1).exists() { &mut late } else { &mut early }) += 1;
        }
        // Somebody pulls the plug.
        let hands = bench.hands.clone();
        drop(bench);
        assert_eq!(Bench::open(temp.path(), hands).loaded.live, 60, "after {steps} steps");
    }
    assert!(early > 1 && late > 1, "{early} {late}");
}

/// A crash at any point between damage found and all of it made good: what the file still says, and says
/// again when the disk gives it, is not given up before.
#[test]
fn a_hurt_file_stays_until_all_is_written_anew() {
    let mut kept = 0;
    for steps in 0..200 {
        let temp = TempDir::new();
        let mut bench = hurt(&temp);
        let expected = bench.all();
        bench.writer.seal().unwrap();
        (0..steps).for_each(|_| _ = bench.mover.try_step().unwrap());
        let waits = bench.sealed.needs_repair();
        if waits {
            kept += 1;
            assert!(!bench.mover.try_step().unwrap() || kept < 4, "it waits for the writer");
        }
        let hands = bench.hands.clone();
        // The disk gives all of it again.
        faults::clear(&log(&temp, 2));
        std::mem::forget(bench);
        let mut bench = Bench::open(temp.path(), hands);
        assert_eq!(bench.all(), expected, "after {steps} steps");
        bench.round();
        if kept == 6 {
            return;
        }
    }
    panic!("never found");
}

/// There is room for writing all anew, however long the log is: else the file would wait for ever.
#[test]
fn a_log_without_room_is_made_good_too() {
    let temp = TempDir::new();
    let mut bench = hurt(&temp);
    bench.writer.seal().unwrap();
    (0..20).for_each(|user| bench.put(&format!("more{user}"), 700));
    bench.writer.round();
    bench.writer.set_limits(LogLimits { bytes: (300, 300), ..small() });
    bench.put("waits", 700);
    bench.writer.round();
    assert_eq!(bench.location.pending(), 1, "there is no room");
    bench.settle();
    (0..200).for_each(|_| {
        bench.writer.round();
        bench.mover.step();
    });
    assert!(!bench.sealed.needs_repair() && !log(&temp, 2).exists());
    let (expected, hands) = (bench.all(), bench.hands.clone());
    faults::clear(&log(&temp, 2));
    drop(bench);
    assert_eq!(Bench::open(temp.path(), hands).all(), expected);
}

/// The file that is appended to is deleted, or replaced, while the server runs: everything goes on in the
/// next one.
#[test]
fn a_current_file_that_is_lost_is_made_good_from_memory() {
    for stranger in [None, Some(&b"no log of ours"[..]), Some(b"")] {
        for steps in 0..60 {
            let temp = TempDir::new();
            let mut bench = Bench::open_small(temp.path(), Hands::new(10, WALL));
            bench.put("row", 600);
            bench.round_and_table();
            // In a full file that still waits, and ended in the one that goes.
            bench.put("full", 600);
            bench.put("stays", 600);
            bench.round();
            bench.writer.seal().unwrap();
            bench.location.remove(b"row@example.com");
            bench.location.remove(b"full@example.com");
            bench.put("new", 600);
            bench.round();
            std::fs::remove_file(log(&temp, 3)).unwrap();
            if let Some(bytes) = stranger {
                std::fs::write(log(&temp, 3), bytes).unwrap();
            }
            bench.put("later", 600);
            bench.round();
            assert_eq!((bench.location.accepting(), bench.location.pending()), (true, 0));
            let expected = bench.all();
            (0..steps).for_each(|_| {
                bench.mover.try_step().unwrap();
                bench.writer.round();
            });
            let done = bench.sealed.is_empty();
            let hands = bench.hands.clone();
            drop(bench);
            let kept = std::fs::read(temp.path().join(DAMAGED)).ok();
            assert_eq!(kept.as_deref(), stranger, "a stranger is kept, under another name");
            let found = Bench::open(temp.path(), hands).all();
            // At any time all that live are there; those that ended are gone when the rows are.
            assert!(expected.iter().all(|(key, record)| found.get(key) == Some(record)), "{steps}");
            if done {
                assert_eq!(found, expected, "{steps}");
                break;
            }
            assert!(steps < 59);
        }
    }
}

/// What the lost file said of removals is not said before its words are made good.
#[test]
fn removals_in_a_lost_file_are_news_until_it_is_made_good() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("a", 600);
    bench.round_and_table();
    let removals = bench.writer.removals();
    bench.location.remove(b"a@example.com");
    removals.applied.store(7, Ordering::Relaxed);
    bench.round();
    std::fs::remove_file(log(&temp, 2)).unwrap();
    bench.round();
    assert_eq!(bench.writer.seen(), 0);
    bench.settle();
    bench.settle();
    while !bench.sealed.is_empty() {
        bench.round();
        bench.mover.try_step().unwrap();
    }
    bench.round();
    assert_eq!((bench.writer.seen(), removals.durable.load(Ordering::Relaxed)), (7, 7));
}

/// With the whole directory gone there is nowhere to go on.
#[test]
fn another_directory_in_the_place_is_none_of_ours() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("a", 600);
    bench.round();
    let aside = temp.path().with_extension("aside");
    std::fs::rename(temp.path(), &aside).unwrap();
    std::fs::create_dir(temp.path()).unwrap();
    bench.put("b", 600);
    bench.writer.round();
    assert!(!bench.location.accepting() && files(&temp).is_empty());
    std::fs::remove_dir(temp.path()).unwrap();
    std::fs::rename(&aside, temp.path()).unwrap();
    bench.round();
    assert!(bench.location.accepting() && files(&temp) == [1]);
}

/// A full file that is cut short, before it is opened, while it is read and after that, is no whole file:
/// what memory has of it is written anew, and moving goes on.
#[test]
fn a_full_file_that_is_cut_short_is_made_good() {
    for (steps, kept) in [(0, 0), (0, 20), (0, 4_000), (0, u64::MAX), (1, 4_500), (3, 100), (6, 3_000)] {
        let temp = TempDir::new();
        let mut bench = hurt(&temp);
        faults::clear(&log(&temp, 2));
        // The end of a batch: what is left of the file is whole.
        let whole = bench.writer.length();
        (0..60).for_each(|user| bench.put(&format!("other{user}"), 700));
        bench.round();
        bench.writer.seal().unwrap();
        (0..steps).for_each(|_| _ = bench.mover.try_step().unwrap());
        let file = std::fs::OpenOptions::new().write(true).open(log(&temp, 2)).unwrap();
        file.set_len(kept.min(whole)).unwrap();
        let expected = bench.all();
        for _ in 0..100 {
            bench.round();
            bench.mover.try_step().unwrap();
        }
        assert!(bench.sealed.is_empty(), "{steps} {kept}");
        let hands = bench.hands.clone();
        drop(bench);
        assert_eq!(Bench::open(temp.path(), hands).all(), expected, "{steps} {kept}");
    }
}

/// What a start finds over is deleted when there is nothing more urgent, and whatever another program wrote
/// into the key of a row: the log is moved before.
#[test]
fn the_log_is_moved_before_rows_that_are_over_are_deleted() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    (0..5_000).for_each(|user| bench.put(&format!("user{user}"), 60));
    bench.round_and_table();
    let sql = foreign(&temp);
    let row = |key: &str, expires: i64| {
        let values = format!("VALUES ({key}, '', 0, 'c', 1, {expires}, {WALL})");
        let columns = "username, domain, contact, instance, reg_id, callid, cseq, expires, last_modified";
        sql.execute_batch(&format!("INSERT INTO location ({columns}) {values}")).unwrap();
    };
    // No UTF-8, as text and as a blob; and no text at all.
    row("CAST(x'ff00' AS TEXT), CAST(x'fe' AS TEXT), 'sip:x'", WALL + 60);
    row("x'ff00', CAST(x'fe' AS TEXT), 'sip:x'", WALL + 60);
    row("1, 2.5, x'00'", WALL + 60);
    drop(bench);
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL + 100));
    // A text and a blob of the same bytes are one binding, and two rows.
    assert_eq!((bench.loaded.live, bench.loaded.expired), (0, 5_002));
    bench.put("new", 600);
    bench.round();
    bench.writer.seal().unwrap();
    let rows = || number(&sql, "SELECT count(*) FROM location");
    while !bench.sealed.is_empty() {
        bench.mover.try_step().unwrap();
        assert!(rows() >= 5_003);
    }
    assert_eq!(rows(), 5_004);
    // With nothing to do it rests between two steps, and not when the next file fills.
    bench.sealed.set_filled(0);
    assert_ne!(bench.mover.step(), Duration::ZERO);
    bench.sealed.set_filled(500);
    assert_eq!(bench.mover.step(), Duration::ZERO);
    while bench.mover.try_step().unwrap() {}
    assert_eq!(rows(), 1);
}

/// A start reads such rows in portions, and begins the next portion after any of them.
#[test]
fn a_start_reads_rows_with_any_key() {
    let temp = TempDir::new();
    drop(Bench::open(temp.path(), Hands::new(10, WALL)));
    foreign(&temp)
        .execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
             INSERT INTO location (username, domain, contact, received, callid, cseq, expires, last_modified)
             SELECT CAST(x'ff' || i AS TEXT), 'example.com', 'sip:x', 'sip:192.0.2.1:5060', 'c', 1,
             {WALL} + 600, {WALL} FROM n"
        ))
        .unwrap();
    assert_eq!(Bench::open(temp.path(), Hands::new(10, WALL)).loaded.live, 9_000);
}

/// Two threads read the table from both ends: each row counts once, wherever they meet.
#[test]
fn rows_that_make_no_sense_are_counted_once() {
    for rows in [0, 1, 3_999, 4_000, 4_001, 8_000, 12_001, 30_000] {
        let temp = TempDir::new();
        drop(Bench::open(temp.path(), Hands::new(10, WALL)));
        foreign(&temp)
            .execute_batch(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                 INSERT INTO location (username, domain, contact, received, callid, cseq, expires, last_modified)
                 SELECT 'user' || i, 'example.com', 'sip:x', 'sip:192.0.2.1:5060', 'c',
                 CASE i % 3 WHEN 0 THEN -1 ELSE 1 END, {WALL} + 600 * (i % 2), {WALL} - 1 FROM n WHERE i <= {rows}"
            ))
            .unwrap();
        let loaded = Bench::open(temp.path(), Hands::new(10, WALL)).loaded;
        let count = |wanted: fn(u64) -> bool| (1..=rows).filter(|row| wanted(*row)).count() as u64;
        let expired = count(|row| row % 2 == 0);
        let bad = count(|row| row % 2 != 0 && row % 3 == 0);
        assert_eq!((loaded.expired, loaded.bad, loaded.live), (expired, bad, rows - expired - bad), "{rows}");
    }
}

/// Somebody is removed, made anew and registers in the midst of a round: where his new binding is on the
/// disk, so is that his removal was before it. And where that round fails, what is news counts.
#[test]
fn who_registers_after_his_removal_is_not_removed_by_the_next_start() {
    type Target = (Arc<SharedLocation>, String, Arc<AtomicI64>);
    for failing in [false, true] {
        for user in 0..30 {
            let temp = TempDir::new();
            let hands = Hands::new(10, WALL);
            let armed = Arc::new(Mutex::new(None::<Target>));
            // It is asked for the time after each batch.
            let clock = {
                let (armed, hands) = (Arc::clone(&armed), hands.clone());
                let asked = AtomicI64::new(0);
                Clock::new(
                    move || {
                        let mut armed = armed.lock().unwrap();
                        let third = armed.is_some() && asked.fetch_add(1, Ordering::Relaxed) == 3;
                        if let Some((location, user, applied)) = armed.take_if(|_| third) {
                            location.remove(format!("{user}@example.com").as_bytes());
                            applied.store(9, Ordering::Relaxed);
                            put(&location, &user, "sip:y@192.0.2.9", Time::from_secs(900));
                        }
                        hands.now()
                    },
                    || WALL * 1_000_000,
                )
            };
            let mut bench = Bench::open_with(temp.path(), hands.clone(), clock);
            bench.writer.set_limits(LogLimits { bytes: (1 << 20, 1 << 20), ..small() });
            (0..30).for_each(|user| bench.put(&format!("user{user}"), 600));
            bench.round();
            (0..30).for_each(|user| bench.put(&format!("user{user}"), 700));
            let applied = bench.writer.removals().applied;
            *armed.lock().unwrap() = Some((Arc::clone(&bench.location), format!("user{user}"), applied));
            if failing {
                let path = bench.writer.path().to_path_buf();
                let fault = Faults { write: Some((9, libc::ENOSPC)), writes_before: 3, ..Faults::default() };
                faults::set(&path, fault);
                bench.writer.round();
                faults::clear(&path);
            }
            bench.round();
            assert!(armed.lock().unwrap().is_none());
            assert_eq!(bench.writer.seen(), 9);
            let expected = bench.all();
            drop(bench);
            assert_eq!(Bench::open(temp.path(), hands).all(), expected);
        }
    }
}

/// Over at the start that finds it, it does not come back because the clock is set back before it is moved.
#[test]
fn what_was_over_at_start_stays_over_when_the_clock_is_set_back() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("over", 60);
    bench.put("lives", 6_000);
    bench.round();
    drop(bench);
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL + 100));
    assert_eq!((bench.loaded.live, bench.loaded.expired), (1, 1));
    bench.hands.wall.fetch_add(-3_600, Ordering::Relaxed);
    while !bench.sealed.is_empty() {
        bench.mover.try_step().unwrap();
    }
    // Before anything else is deleted.
    assert_eq!(number(&foreign(&temp), "SELECT count(*) FROM location"), 1);
    let hands = bench.hands.clone();
    drop(bench);
    let bench = Bench::open(temp.path(), hands);
    assert_eq!((bench.live("over"), bench.live("lives")), (0, 1));
}

/// A log that does not say any more up to where it knows of removals: all of them are news.
#[test]
fn a_log_that_lost_its_word_about_removals_knows_of_none() {
    let temp = TempDir::new();
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("a", 600);
    bench.round();
    let path = bench.writer.path().to_path_buf();
    drop(bench);
    let mut bytes = std::fs::read(&path).unwrap();
    // In the first frame, which says only that.
    bytes[83] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let bench = Bench::open(temp.path(), Hands::new(10, WALL));
    assert_eq!((bench.live("a"), bench.writer.seen()), (1, i64::MIN));
}

/// A stranger with the name of a full file, even one that reads as a log: nothing in it counts.
#[test]
fn a_stranger_in_the_place_of_a_full_file_is_not_moved() {
    let (temp, other) = (TempDir::new(), TempDir::new());
    let mut stranger = Bench::open(other.path(), Hands::new(10, WALL));
    (0..200).for_each(|user| stranger.put(&format!("stranger{user}"), 600));
    stranger.round();
    drop(stranger);
    let mut bench = Bench::open(temp.path(), Hands::new(10, WALL));
    bench.put("a", 600);
    bench.round();
    bench.writer.seal().unwrap();
    std::fs::remove_file(log(&temp, 1)).unwrap();
    std::fs::copy(log(&other, 1), log(&temp, 1)).unwrap();
    bench.put("b", 600);
    bench.round_and_table();
    assert!(temp.path().join(DAMAGED).exists() && !log(&temp, 1).exists());
    let (expected, hands) = (bench.all(), bench.hands.clone());
    drop(bench);
    assert_eq!(Bench::open(temp.path(), hands).all(), expected);
}
