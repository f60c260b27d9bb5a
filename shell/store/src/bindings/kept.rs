//! Tests of what a worker promises with a 200: it outlives the process at once, and the machine after the
//! next round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use location::seen_in;
use location::testing::{Faults, TempDir, faults, log_dir, record};

use super::tests::*;
use super::*;

fn bench(temp: &TempDir) -> Bench {
    Bench::open(temp.path(), Hands::new(10, WALL))
}

fn keeper(bench: &Bench) -> Keeper {
    Keeper::new(Arc::clone(&bench.location), bench.writer.appender(), bench.hands.clock())
}

/// As a worker serves a REGISTER; the contact says which.
fn register(keeper: &Keeper, bench: &Bench, user: &str, seconds: u64) {
    let record = record(user, "sip:x@192.0.2.9", bench.hands.now() + Duration::from_secs(seconds));
    keeper.register(&record.aor, |table, changes| {
        table.restore(&record).unwrap();
        changes.push(Change::Put(record.clone()));
    });
}

fn remove(keeper: &Keeper, user: &str) {
    let aor = format!("{user}@example.com");
    keeper.register(aor.as_bytes(), |table, changes| table.remove(aor.as_bytes(), changes));
}

/// What a start finds after the process was killed now.
fn after_kill(temp: &TempDir, bench: &Bench) -> BTreeMap<String, Record> {
    let copy = copy_of(temp.path());
    Bench::open(copy.path(), bench.hands.clone()).all()
}

fn copy_of(dir: &Path) -> TempDir {
    let copy = TempDir::new();
    for file in std::fs::read_dir(dir).unwrap() {
        let name = file.unwrap().file_name();
        if !name.to_string_lossy().ends_with("-shm") {
            std::fs::copy(dir.join(&name), copy.path().join(&name)).unwrap();
        }
    }
    copy
}

fn log(temp: &TempDir, number: u64) -> PathBuf {
    temp.path().join(format!("location.{number}.log"))
}

#[test]
fn kept_changes_outlive_a_kill_without_the_writer() {
    let temp = TempDir::new();
    let bench = bench(&temp);
    let keepers = [keeper(&bench), keeper(&bench)];
    for round in 0..30 {
        for (number, keeper) in keepers.iter().enumerate() {
            register(keeper, &bench, &format!("own{number}-{round}"), 600);
            // The same binding by turns: the later word counts.
            register(keeper, &bench, "shared", 600 + round);
            if round % 3 == 2 {
                remove(keeper, &format!("own{number}-{}", round - 1));
            }
        }
        assert!(keepers.iter().all(Keeper::keep));
        assert_eq!(after_kill(&temp, &bench), bench.all(), "round {round}");
    }
    assert!(bench.location.pending() >= 60, "a power cut would lose it");
}

/// One of two workers writes what both changed in a part, and the other has nothing left to write.
#[test]
fn a_change_written_by_another_worker_is_kept() {
    let temp = TempDir::new();
    let bench = bench(&temp);
    let (one, other) = (keeper(&bench), keeper(&bench));
    register(&one, &bench, "a", 600);
    register(&other, &bench, "a", 700);
    assert!(one.keep());
    let length = bench.writer.length();
    assert!(other.keep() && one.keep());
    assert_eq!(bench.writer.length(), length, "nothing is written twice");
    assert_eq!(after_kill(&temp, &bench), bench.all());
}

#[test]
fn a_round_brings_to_the_disk_what_workers_wrote() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    let keeper = keeper(&bench);
    register(&keeper, &bench, "a", 600);
    assert_eq!((bench.location.pending(), keeper.keep(), bench.location.pending()), (1, true, 1));
    let length = bench.writer.length();
    bench.round();
    assert_eq!((bench.location.pending(), bench.writer.length()), (0, length));
}

#[test]
fn a_failed_write_is_no_promise_unless_policy_says_so() {
    for (policy, promised) in [(OnFailure::Refuse, false), (OnFailure::Accept, true)] {
        let temp = TempDir::new();
        let mut bench = Bench::open_as(temp.path(), Hands::new(10, WALL), policy);
        let keeper = keeper(&bench);
        register(&keeper, &bench, "before", 600);
        assert!(keeper.keep());
        let length = bench.writer.length();
        faults::set(&log(&temp, 1), Faults { write: Some((20, libc::ENOSPC)), ..Faults::default() });
        register(&keeper, &bench, "full", 600);
        assert_eq!((keeper.keep(), bench.location.accepting()), (promised, promised));
        let Health::Failing { error, .. } = bench.location.health() else { panic!("it is failing") };
        assert!(error.contains("location.1.log") && error.contains("free some space"), "{error}");
        assert_eq!(std::fs::metadata(log(&temp, 1)).unwrap().len(), length, "taken back");
        // Who was let in by then gets the same, and writes nothing.
        faults::clear(&log(&temp, 1));
        register(&keeper, &bench, "late", 600);
        assert_eq!((keeper.keep(), bench.writer.length()), (promised, length));
        assert_eq!((after_kill(&temp, &bench).len(), bench.location.pending()), (1, 3));
        bench.round();
        assert!(bench.location.accepting() && after_kill(&temp, &bench) == bench.all());
        register(&keeper, &bench, "after", 600);
        assert!(keeper.keep() && after_kill(&temp, &bench).len() == 4);
    }
}

/// What was promised goes on being written where the disk fails later, and the machine stops.
#[test]
fn a_failed_sync_is_told_and_made_good() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    let keeper = keeper(&bench);
    register(&keeper, &bench, "a", 600);
    assert!(keeper.keep());
    let synced = std::fs::metadata(log(&temp, 1)).unwrap().len();
    bench.round();
    register(&keeper, &bench, "b", 600);
    assert!(keeper.keep());
    faults::set(&log(&temp, 1), Faults { sync: Some(libc::EIO), ..Faults::default() });
    bench.writer.round();
    assert_eq!((bench.location.accepting(), bench.location.pending()), (false, 1));
    // The system gave up on it.
    std::fs::OpenOptions::new().write(true).open(log(&temp, 1)).unwrap().set_len(synced).unwrap();
    faults::clear(&log(&temp, 1));
    bench.round();
    assert_eq!(after_kill(&temp, &bench), bench.all());
    assert!(!temp.path().join(DAMAGED).exists());
}

/// Removed, made anew and registered before the writer's next round: the next start must not take the removal
/// for a later one. Those that were removed with it may not come back either.
#[test]
fn who_registers_after_his_removal_outlives_a_kill() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    let keeper = keeper(&bench);
    for user in ["anew", "gone"] {
        bench.put(user, 600);
    }
    bench.round();
    let removals = bench.writer.removals();
    bench.location.remove(b"anew@example.com");
    bench.location.remove(b"gone@example.com");
    removals.applied.store(9, Ordering::Release);
    register(&keeper, &bench, "anew", 700);
    assert!(keeper.keep());
    let copy = copy_of(temp.path());
    let found = seen_in(&log_dir(copy.path())).unwrap();
    assert_eq!((found, removals.durable.load(Ordering::Acquire)), (Some(9), 0));
    assert_eq!((after_kill(&temp, &bench), bench.all().len()), (bench.all(), 1));
    bench.round();
    assert_eq!(removals.durable.load(Ordering::Acquire), 9);
}

/// Full files are left, and the next begun, while workers write.
#[test]
fn files_change_under_workers_without_a_loss() {
    let temp = TempDir::new();
    let mut bench = bench(&temp);
    bench.writer.set_limits(LogLimits { bytes: (4_000, 4_000), ..small() });
    let done = AtomicBool::new(false);
    let keepers = [keeper(&bench), keeper(&bench), keeper(&bench)];
    let now = bench.hands.now();
    let kept: u64 = std::thread::scope(|scope| {
        let workers = (0..).zip(keepers).map(|(number, keeper)| {
            let done = &done;
            scope.spawn(move || {
                let mut kept = 0;
                while !done.load(Ordering::Acquire) && kept < 3_000 {
                    let end = now + Duration::from_secs(600 + kept);
                    let record = record(&format!("user{number}-{}", kept % 40), "sip:x@192.0.2.9", end);
                    keeper.register(&record.aor, |table, changes| {
                        table.restore(&record).unwrap();
                        changes.push(Change::Put(record.clone()));
                    });
                    // Refused where the log is full, which the mover ends.
                    kept += u64::from(keeper.keep());
                }
                kept
            })
        });
        let workers: Vec<_> = workers.collect();
        while !log(&temp, 6).exists() {
            bench.writer.round();
            bench.mover.try_step().unwrap();
        }
        done.store(true, Ordering::Release);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(kept > 100);
    bench.settle();
    assert_eq!((after_kill(&temp, &bench), bench.location.pending()), (bench.all(), 0));
}
