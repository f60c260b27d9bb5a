//! Random histories of a location service, with crashes anywhere: what was promised is back, what was
//! removed stays away.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use location::LOG_HEADER;
use location::testing::{Faults, TempDir, faults};

use super::tests::*;
use super::*;

/// Something that happens to a location service.
#[derive(Clone, Debug)]
enum Event {
    Put {
        user: u8,
        contact: u8,
        seconds: u64,
    },
    Remove {
        user: u8,
    },
    Pass {
        seconds: u64,
    },
    Expire,
    Round,
    /// Nothing, or some batches, are written before one fails.
    FailingRound {
        before: usize,
        kept: usize,
    },
    Step,
    Table,
    SetClock {
        seconds: i64,
    },
    Restart,
    Crash(Crash),
}

/// How a crash leaves the disk.
#[derive(Clone, Debug)]
struct Crash {
    /// Changes of the batch that was being written.
    changes: Vec<(u8, u8)>,
    /// How much of that batch is there, in 65,536ths, and whether what is missing reads as other bytes.
    kept: u16,
    junk: Option<u8>,
    /// Files deleted just before are still there.
    undeleted: bool,
    /// The batch is there, and the first bytes of the next file are.
    begun: Option<u8>,
}

fn any_crash() -> impl Strategy<Value = Crash> {
    let changes = proptest::collection::vec((0u8..12, 0u8..4), 0..6);
    let junk = proptest::option::of(prop_oneof![Just(0), any::<u8>()]);
    let begun = proptest::option::of(0u8..=LOG_HEADER as u8);
    (changes, any::<u16>(), junk, any::<bool>(), begun)
        .prop_map(|(changes, kept, junk, undeleted, begun)| Crash { changes, kept, junk, undeleted, begun })
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u8..12, 0u8..3, 60u64..900).prop_map(|(user, contact, seconds)| Event::Put { user, contact, seconds }),
        2 => (0u8..12).prop_map(|user| Event::Remove { user }),
        2 => (1u64..300).prop_map(|seconds| Event::Pass { seconds }),
        2 => Just(Event::Expire),
        4 => Just(Event::Round),
        2 => (0usize..4, 0usize..300).prop_map(|(before, kept)| Event::FailingRound { before, kept }),
        3 => Just(Event::Step),
        1 => Just(Event::Table),
        // Steps below five seconds are left to the rounding of whole seconds.
        1 => (-12i64..12).prop_map(|steps| Event::SetClock { seconds: steps * 600 }),
        1 => Just(Event::Restart),
        2 => any_crash().prop_map(Event::Crash),
    ]
}

fn happen(bench: &mut Bench, event: &Event) {
    match event {
        Event::Put { user, contact, seconds } => {
            let expires = bench.hands.now() + Duration::from_secs(*seconds);
            put(&bench.location, &format!("u{user}"), &format!("sip:c{contact}"), expires);
        }
        Event::Remove { user } => {
            bench.location.remove(format!("u{user}@example.com").as_bytes());
        }
        Event::Pass { seconds } => bench.hands.pass(*seconds),
        Event::Expire => {
            bench.location.expire(bench.hands.now(), 1_000);
        }
        Event::Round => bench.settle(),
        Event::FailingRound { before, kept } => {
            let path = bench.writer.path().to_path_buf();
            let fault =
                Faults { write: Some((*kept, libc::ENOSPC)), writes_before: *before, ..Faults::default() };
            faults::set(&path, fault);
            bench.writer.round();
            faults::clear(&path);
        }
        Event::Step => _ = bench.mover.try_step().unwrap(),
        Event::Table => {
            bench.settle();
            bench.move_all();
        }
        Event::SetClock { seconds } => {
            bench.hands.wall.fetch_add(*seconds, Ordering::Relaxed);
        }
        Event::Restart | Event::Crash(_) => {}
    }
}

type State = BTreeMap<String, Record>;

/// What may be found, for each address of record: as it was before a batch, or after it.
struct Expected {
    before: State,
    after: State,
}

impl Expected {
    fn allows(&self, found: &State) -> bool {
        let of = |state: &State, aor: &[u8]| -> Vec<Record> {
            state.values().filter(|record| *record.aor == *aor).cloned().collect()
        };
        let all = self.before.values().chain(self.after.values()).chain(found.values());
        all.map(|record| &record.aor).all(|aor| {
            let there = of(found, aor);
            there == of(&self.before, aor) || there == of(&self.after, aor)
        })
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    list(dir).unwrap().into_iter().map(|(_, path)| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Ends the process in the midst of writing a batch; answers what may and what must be back.
fn crash(mut bench: Bench, dir: &Path, how: &Crash, before: &[(PathBuf, Vec<u8>)]) -> Expected {
    let promised = bench.all();
    let (path, length) = (bench.writer.path().to_path_buf(), bench.writer.length());
    for (user, what) in &how.changes {
        let (user, expires) = (format!("u{user}"), bench.hands.now() + Duration::from_secs(700));
        match what {
            0 => _ = bench.location.remove(format!("{user}@example.com").as_bytes()),
            contact => put(&bench.location, &user, &format!("sip:c{contact}"), expires),
        }
    }
    bench.writer.append_only().unwrap();
    let unpromised = bench.all();
    drop(bench);
    let mut bytes = std::fs::read(&path).unwrap();
    let batch = bytes.len() - usize::try_from(length).unwrap();
    let kept = match how.begun {
        Some(_) => batch,
        None => (batch + 1) * usize::from(how.kept) / 65_536,
    };
    let missing = batch - kept;
    bytes.truncate(bytes.len() - missing);
    if let (Some(junk), None) = (how.junk, how.begun) {
        bytes.resize(bytes.len() + missing.max(9), junk);
    }
    std::fs::write(&path, bytes).unwrap();
    if how.undeleted {
        for (path, bytes) in before.iter().filter(|(path, _)| !path.exists()) {
            std::fs::write(path, bytes).unwrap();
        }
    }
    if let Some(begun) = how.begun {
        let (last, _) = list(dir).unwrap().pop().unwrap();
        std::fs::write(dir.join(format!("location.{}.log", last + 1)), vec![0; begun.into()]).unwrap();
    }
    match (missing, how.junk) {
        (0, _) => Expected { before: unpromised.clone(), after: unpromised },
        (_, None) if kept == 0 => Expected { before: promised.clone(), after: promised },
        // Some batches of the round are there; and what reads as other bytes may by chance be the right ones.
        _ => Expected { before: promised, after: unpromised },
    }
}

/// Whatever happened, once a round succeeds a restart brings back exactly what memory held, and so does a
/// crash at any moment after it.
fn follows(events: &[Event]) {
    let temp = TempDir::new();
    let mut bench = Bench::open_small(temp.path(), Hands::new(1_000, WALL));
    for event in events.iter().chain([&Event::Restart]) {
        happen(&mut bench, event);
        if !matches!(event, Event::Restart | Event::Crash(_)) {
            continue;
        }
        // A binding leaves the table up to two seconds after its end. What ended in these could come
        // back if the clock is then set back, for no longer than it was granted.
        while bench.location.expire(bench.hands.now() + Duration::from_secs(2), 1_000) {}
        let before = files(temp.path());
        bench.settle();
        while bench.writer.rescanning() {
            bench.settle();
        }
        assert_eq!(bench.location.pending(), 0);
        let hands = bench.hands.clone();
        let expected = match event {
            Event::Crash(how) => crash(bench, temp.path(), how, &before),
            _ => {
                let all = bench.all();
                drop(bench);
                Expected { before: all.clone(), after: all }
            }
        };
        bench = Bench::open_small(temp.path(), hands);
        let found = bench.all();
        assert!(
            expected.allows(&found),
            "{event:?}\nbefore {:#?}\nafter {:#?}\nfound {found:#?}",
            expected.before,
            expected.after
        );
        assert_eq!(bench.loaded.bad, 0);
        assert!(!temp.path().join(DAMAGED).exists());
    }
    bench.settle();
    bench.move_all();
    assert_eq!(files(temp.path()).len(), 1);
    assert!(!temp.path().join(DAMAGED).exists());
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
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn disk_follows_memory(events in proptest::collection::vec(any_event(), 1..60)) {
        follows(&events);
    }
}
