//! Conditions that only a bug of this program can break.
//!
//! In a build with debug assertions (tests, simulator, fuzz targets), a broken condition panics. In
//! production it is counted, and the code goes on with the fallback beside it. The shell reads [`total`] and
//! [`broken`] and reports them. Counting takes no lock and allocates nothing.
//!
//! Never use this for conditions that input, another program, the kernel or the disk can break.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Places that are recorded. Further ones add to the total only.
pub const MOST_PLACES: usize = 32;

static RECORD: Record = Record::new();

/// How often a condition was found broken since the start.
pub fn total() -> u64 {
    RECORD.total()
}

/// The places whose conditions were broken, [`MOST_PLACES`] at most.
pub fn broken() -> impl Iterator<Item = Broken> {
    RECORD.broken()
}

/// A condition that was found broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The source file, as the compiler names it.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// The condition that should hold.
    pub message: &'static str,
    /// How often it did not hold.
    pub times: u64,
}

/// A place in the source that checks a condition. The macros declare one each.
#[derive(Debug)]
pub struct Place {
    file: &'static str,
    line: u32,
    message: &'static str,
    times: AtomicU64,
}

impl Place {
    /// A place whose condition has always held so far.
    pub const fn new(file: &'static str, line: u32, message: &'static str) -> Place {
        Place { file, line, message, times: AtomicU64::new(0) }
    }

    /// Its condition does not hold. Panics in a build with debug assertions, counts otherwise.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn is_broken(&'static self) {
        if cfg!(debug_assertions) {
            panic!("a bug of strowger: {}:{} {}", self.file, self.line, self.message);
        }
        RECORD.count(self);
    }
}

/// The conditions found broken.
struct Record {
    total: AtomicU64,
    used: AtomicUsize,
    places: [OnceLock<&'static Place>; MOST_PLACES],
}

impl Record {
    const fn new() -> Record {
        Record {
            total: AtomicU64::new(0),
            used: AtomicUsize::new(0),
            places: [const { OnceLock::new() }; MOST_PLACES],
        }
    }

    fn count(&self, place: &'static Place) {
        if place.times.fetch_add(1, Ordering::Relaxed) == 0 {
            // Each slot is filled by one thread, so no thread waits here.
            let slot = self.used.fetch_add(1, Ordering::Relaxed);
            if let Some(slot) = self.places.get(slot) {
                let _ = slot.set(place);
            }
        }
        // Last: a reader that sees the sum change finds the place.
        self.total.fetch_add(1, Ordering::Release);
    }

    fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    fn broken(&self) -> impl Iterator<Item = Broken> {
        self.places.iter().filter_map(OnceLock::get).map(|place| Broken {
            file: place.file,
            line: place.line,
            message: place.message,
            times: place.times.load(Ordering::Relaxed),
        })
    }
}

/// Reports that a condition does not hold, which only a bug can cause. The message states the condition.
#[macro_export]
macro_rules! broken {
    ($message:literal) => {{
        static PLACE: $crate::Place = $crate::Place::new(file!(), line!(), $message);
        PLACE.is_broken();
    }};
}

/// Whether a condition holds that only a bug can break; reports it if not. The message states the
/// condition.
#[macro_export]
macro_rules! holds {
    ($condition:expr, $message:literal) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::broken!($message);
        }
        holds
    }};
}

/// The option, unchanged; reports it if it is `None`, which only a bug can cause. The message states the
/// condition.
#[macro_export]
macro_rules! some {
    ($option:expr, $message:literal) => {{
        let option = $option;
        if option.is_none() {
            $crate::broken!($message);
        }
        option
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_that_holds_changes_nothing() {
        assert!(holds!(1 + 1 == 2, "sums are right"));
        assert_eq!(some!(Some(7), "there is a number"), Some(7));
        assert_eq!((total(), broken().count()), (0, 0));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn broken_condition_panics_with_place_and_message_in_tests() {
        let text = |body: fn()| {
            let panic = std::panic::catch_unwind(body).expect_err("a panic");
            panic.downcast_ref::<String>().expect("text").clone()
        };
        let line = line!() + 1;
        let shown = text(|| broken!("the sky is blue"));
        assert_eq!(shown, format!("a bug of strowger: core/invariant/src/lib.rs:{line} the sky is blue"));
        let holds = || assert!(holds!(1 > 2, "1 is more"));
        let some = || assert!(some!(None::<u8>, "an octet").is_some());
        assert!(text(holds).ends_with(" 1 is more"));
        assert!(text(some).ends_with(" an octet"));
    }

    #[test]
    fn broken_conditions_are_counted_by_place() {
        static FIRST: Place = Place::new("a.rs", 1, "first");
        static SECOND: Place = Place::new("b.rs", 2, "second");
        let record = Record::new();
        assert_eq!((record.total(), record.broken().count()), (0, 0));
        for place in [&FIRST, &SECOND, &FIRST] {
            record.count(place);
        }
        let found: Vec<Broken> = record.broken().collect();
        assert_eq!(record.total(), 3);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], Broken { file: "a.rs", line: 1, message: "first", times: 2 });
        assert_eq!((found[1].file, found[1].times), ("b.rs", 1));
    }

    #[test]
    fn places_beyond_the_cap_are_only_counted() {
        static PLACES: [Place; MOST_PLACES + 3] =
            [const { Place::new("c.rs", 3, "one of many") }; MOST_PLACES + 3];
        let record = Record::new();
        PLACES.iter().for_each(|place| record.count(place));
        assert_eq!(record.total(), MOST_PLACES as u64 + 3);
        assert_eq!(record.broken().count(), MOST_PLACES);
    }
}
