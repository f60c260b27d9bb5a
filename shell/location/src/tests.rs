//! Tests of the location service with its log and a table in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sip_registrar::{Change, Record};
use wire::Time;

use crate::clock::Clock;
use crate::health::{Health, OnFailure};
use crate::journal::Journal;
use crate::load::{LoadOptions, load};
use crate::service::{Cursor, LocationLimits, SharedLocation, read};
use crate::testing::{MemoryTable, TempDir, log_dir, record};
use crate::writer::{INTERVAL, Writer, WriterOptions};

const NOW: Time = Time::from_secs(10);

/// A location service and its writer, and no thread.
struct Bench {
    location: Arc<SharedLocation>,
    writer: Writer,
}

fn limits() -> LocationLimits {
    LocationLimits { stripes: 8, ..LocationLimits::default() }
}

impl Bench {
    fn open(temp: &TempDir) -> Bench {
        let clock = Clock::new(|| NOW, || 1_700_000_000_000_000);
        let (dir, loaded) = (log_dir(temp.path()), clock.pair());
        let location = Arc::new(SharedLocation::new([5; 16], limits(), OnFailure::Refuse));
        let options = LoadOptions { side_by_side: false, ..LoadOptions::new(&dir, &[], loaded, 0) };
        let start = load(options, &mut MemoryTable::default(), &location).unwrap();
        let writer = Writer::new(WriterOptions {
            location: Arc::clone(&location),
            log: start.log,
            sealed: start.sealed,
            sockets: Vec::new(),
            clock,
            loaded,
            table_there: Box::new(|| Ok(())),
        });
        Bench { location, writer }
    }

    fn put(&self, user: &str, seconds: u64) {
        let record = record(user, "sip:x@192.0.2.9", NOW + Duration::from_secs(seconds));
        self.location.register(&record.aor, |table, changes| {
            table.restore(&record).unwrap();
            changes.push(Change::Put(record.clone()));
        });
    }

    fn round(&mut self) {
        assert_eq!(self.writer.round(), INTERVAL);
        assert_eq!((self.location.health(), self.location.pending()), (Health::Good, 0));
    }

    fn all(&self) -> Vec<Record> {
        let (mut all, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(from) = cursor {
            cursor = self.location.list(from, 3, NOW, |aor, view| all.push(view.to_record(aor)));
        }
        all.sort_unstable_by(|one, other| (&one.aor, &one.contact).cmp(&(&other.aor, &other.contact)));
        all
    }
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
fn few_threads_have_few_parts_and_many_have_many() {
    let parts = [0, 1, 2, 3, 4, 5, 8, 1_024].map(|threads| LocationLimits::for_threads(threads).stripes);
    assert_eq!(parts, [64, 64, 64, 128, 128, 256, 256, 256]);
}

/// After everybody has registered at once the journals give back the room that they took for it.
#[test]
fn journals_have_little_room_in_quiet_times() {
    let temp = TempDir::new();
    let mut bench = Bench::open(&temp);
    let room = |bench: &Bench| {
        let stripes = bench.location.stripes.iter();
        stripes.map(|stripe| read(stripe).journal.room()).max().unwrap_or(0)
    };
    (0..3_000).for_each(|n| bench.put(&n.to_string(), 600));
    assert!(room(&bench) > 100, "{}", room(&bench));
    (0..3).for_each(|_| bench.round());
    assert!(room(&bench) < 16, "{}", room(&bench));
    assert_eq!(bench.all().len(), 3_000);
}

/// The lock and, behind it, what a look-up needs of a table first.
#[test]
fn a_stripe_begins_with_its_lock_in_a_line_of_its_own() {
    let location = SharedLocation::new([7; 16], LocationLimits::default(), OnFailure::default());
    for stripe in &location.stripes[..8] {
        let lock = std::ptr::from_ref(stripe) as usize;
        let table = std::ptr::from_ref(&read(stripe).table) as usize;
        assert_eq!((lock % 64, table - lock), (0, 16));
    }
}

/// The same binding twice among what could not be written: the later word counts.
#[test]
fn what_is_given_back_twice_counts_once() {
    let temp = TempDir::new();
    let mut bench = Bench::open(&temp);
    let take = |bench: &Bench, seconds| {
        bench.put("a", seconds);
        (0..bench.location.stripes.len()).find_map(|index| {
            let mut journal = bench.location.take_journal(index, Journal::default()).ok()?;
            let mut all: Vec<Change> = Vec::new();
            journal.drain_into(&mut all);
            all.pop()
        })
    };
    let mut changes: Vec<Change> =
        [600, 700].into_iter().filter_map(|seconds| take(&bench, seconds)).collect();
    assert_eq!(changes.len(), 2);
    bench.location.put_back(&mut changes);
    assert_eq!(bench.location.pending(), 1);
    bench.round();
    // The listener is known by no name.
    let back = |mut record: Record| {
        record.flow.listener = wire::ListenerId(0);
        record
    };
    let expected: Vec<Record> = bench.all().into_iter().map(back).collect();
    drop(bench);
    assert_eq!(Bench::open(&temp).all(), expected);
}
