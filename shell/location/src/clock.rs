//! The border between the wall clock and monotonic time.
//!
//! Memory knows only [`Time`], so that no jump of the wall clock expires a binding. Files must
//! survive a restart, after which monotonic time has a new origin, so they hold wall-clock seconds.
//! The two meet here and nowhere else.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use wire::Time;

/// Where the store's threads read the time.
#[derive(Clone)]
pub struct Clock {
    monotonic: Arc<dyn Fn() -> Time + Send + Sync>,
    /// Microseconds since 1970.
    wall: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The system's clocks; monotonic time counts from `origin`, which must be the instant that the
    /// workers count from too.
    #[allow(clippy::disallowed_methods, reason = "the shell reads clocks; this is the store's only place")]
    pub fn system(origin: Instant) -> Clock {
        let monotonic =
            move || Time::from_micros(u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX));
        let wall = || match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        };
        Clock::new(monotonic, wall)
    }

    /// Clocks of the caller's choice, for tests: monotonic time, and microseconds since 1970.
    pub fn new(
        monotonic: impl Fn() -> Time + Send + Sync + 'static,
        wall: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Clock {
        Clock { monotonic: Arc::new(monotonic), wall: Arc::new(wall) }
    }

    /// Monotonic time.
    pub fn now(&self) -> Time {
        (self.monotonic)()
    }

    /// How the two clocks relate at this moment.
    pub fn pair(&self) -> ClockPair {
        ClockPair { monotonic: (self.monotonic)(), wall: (self.wall)() }
    }
}

/// One moment on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockPair {
    /// Monotonic time.
    pub monotonic: Time,
    /// Microseconds since 1970.
    pub wall: i64,
}

impl ClockPair {
    /// The wall-clock second in which `at` falls, rounded down so that nothing read back outlives
    /// its promise. [`Time::FAR`] becomes `i64::MAX`.
    pub fn to_wall_seconds(self, at: Time) -> i64 {
        if at == Time::FAR {
            return i64::MAX;
        }
        let ahead = i128::from(at.as_micros()) - i128::from(self.monotonic.as_micros());
        let micros = i128::from(self.wall).saturating_add(ahead);
        i64::try_from(micros.div_euclid(1_000_000)).unwrap_or(i64::MAX)
    }

    /// Seconds since 1970 at this moment.
    pub fn wall_seconds(self) -> i64 {
        self.wall.div_euclid(1_000_000)
    }

    /// The monotonic time of a binding that was stored at `written` to end at `expires` (both
    /// wall-clock seconds), or `None` if it has ended.
    ///
    /// What was left when it was written is an upper bound of what is left now: if the clock was set
    /// back in between, the binding must not live longer than the client asked for.
    pub fn revive(self, written: i64, expires: i64) -> Option<Time> {
        if expires == i64::MAX {
            return Some(Time::FAR);
        }
        let granted = i128::from(expires) - i128::from(written);
        let left = (i128::from(expires) * 1_000_000 - i128::from(self.wall)).min((granted + 1) * 1_000_000);
        if left <= 0 {
            return None;
        }
        let at = i128::from(self.monotonic.as_micros()) + left;
        Some(Time::from_micros(u64::try_from(at).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    fn pair(monotonic_s: u64, wall_s: i64) -> ClockPair {
        ClockPair { monotonic: Time::from_secs(monotonic_s), wall: wall_s * 1_000_000 }
    }

    #[test]
    fn a_binding_written_and_revived_keeps_what_is_left_of_it() {
        let before = pair(500, 1_700_000_000);
        let expires = before.to_wall_seconds(Time::from_secs(1_100));
        assert_eq!(expires, 1_700_000_600);
        // Ten seconds later a new process starts at monotonic second 1.
        let after = pair(1, 1_700_000_010);
        assert_eq!(after.revive(1_700_000_000, expires), Some(Time::from_secs(591)));
        assert_eq!(pair(1, 1_700_000_600).revive(1_700_000_000, expires), None);
    }

    #[test]
    fn a_clock_set_back_gives_no_binding_more_than_was_granted() {
        let written = 1_700_000_000;
        let back = pair(1, written - HOUR);
        let at = back.revive(written, written + 600);
        assert_eq!(at, Some(Time::from_secs(602)));
    }

    #[test]
    fn fractions_round_down_and_extremes_do_not_overflow() {
        let p = ClockPair { monotonic: Time::from_micros(10), wall: 1_999_999 };
        assert_eq!(p.to_wall_seconds(Time::from_micros(10)), 1);
        assert_eq!(p.to_wall_seconds(Time::ZERO), 1);
        assert_eq!(p.to_wall_seconds(Time::FAR), i64::MAX);
        assert_eq!(p.revive(0, i64::MAX), Some(Time::FAR));
        assert_eq!(p.revive(i64::MAX, i64::MIN), None);
        assert!(p.revive(i64::MIN, i64::MAX - 1).is_some());
    }
}
