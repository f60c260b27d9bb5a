//! The clock of events: nobody sets it, so that the parts of a call are as long as they were.
//!
//! It goes on with the monotonic clock of the system, which is the same for all processes since the system
//! was started. What it was ahead of that clock is in the file `clock`, with the name of the start. After
//! another start it begins with the time of the day.

use std::fs;
use std::io;
use std::path::Path;

/// Where the time comes from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Microseconds since the system was started.
    pub steady: fn() -> u64,
    /// Microseconds since 1970.
    pub wall: fn() -> u64,
    /// Names the start of the system, without white space. Empty: not known.
    pub start: String,
}

/// The clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    steady: fn() -> u64,
    wall: fn() -> u64,
    offset: i64,
}

impl Clock {
    /// The clock of this folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(folder: &Path, sources: &Sources) -> io::Result<Clock> {
        let Sources { steady, wall, start } = sources;
        let path = folder.join("clock");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let offset = match text.split_once(' ') {
            Some((of, offset)) if of == start && !start.is_empty() => offset.trim().parse::<i64>().ok(),
            _ => None,
        };
        let offset = match offset {
            Some(offset) => offset,
            None => {
                let offset = difference(wall(), steady());
                let new = folder.join("clock.new");
                fs::write(&new, format!("{start} {offset}\n"))?;
                fs::rename(&new, &path)?;
                offset
            }
        };
        Ok(Clock { steady: *steady, wall: *wall, offset })
    }

    /// Microseconds.
    pub fn now(&self) -> u64 {
        (self.steady)().saturating_add_signed(self.offset)
    }

    /// By how much the time of the day is ahead of this time, which is now.
    pub fn ahead(&self, now: u64) -> i64 {
        difference((self.wall)(), now)
    }
}

fn difference(a: u64, b: u64) -> i64 {
    let number = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    number(a) - number(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(wall: fn() -> u64, start: &str) -> Sources {
        Sources { steady: || 1_000, wall, start: start.to_owned() }
    }

    #[test]
    fn clock_goes_on_until_the_system_starts_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |wall, start| Clock::open(folder.path(), &sources(wall, start)).expect("a clock");
        let clock = open(|| 50_000, "a");
        assert_eq!((clock.now(), clock.ahead(clock.now())), (50_000, 0));
        // The time of the day was set.
        let clock = open(|| 20_000, "a");
        assert_eq!((clock.now(), clock.ahead(clock.now())), (50_000, -30_000));
        let clock = open(|| 70_000, "b");
        assert_eq!((clock.now(), clock.ahead(clock.now())), (70_000, 0));
        // What is not known is taken for another start.
        fs::write(folder.path().join("clock"), "b x").expect("it is written");
        assert_eq!(open(|| 80_000, "b").now(), 80_000);
        assert_eq!(open(|| 90_000, "").now(), 90_000);
        assert_eq!(open(|| 95_000, "").now(), 95_000);
    }
}
