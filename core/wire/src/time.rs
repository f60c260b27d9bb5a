//! Monotonic time as a plain integer.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// Monotonic time: microseconds since an origin that the shell (or the simulator) chose.
///
/// It never goes back and has nothing to do with the wall clock, so that a clock set by hand or
/// by NTP moves no timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than every other time; used as "no deadline" where an `Option` costs too much.
    pub const FAR: Time = Time(u64::MAX);

    /// A time `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros)
    }

    /// A time `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000))
    }

    /// A time `secs` seconds after the origin.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole seconds since the origin.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time elapsed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::FAR`].
    fn add(self, d: Duration) -> Time {
        let micros = u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(micros))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;

    /// Same as [`Time::since`].
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_saturates_and_difference_never_goes_below_zero() {
        let t = Time::from_millis(1_500);
        assert_eq!(t + Duration::from_millis(500), Time::from_secs(2));
        assert_eq!(t + Duration::MAX, Time::FAR);
        assert_eq!(t - Time::from_secs(9), Duration::ZERO);
        assert_eq!(Time::from_secs(9) - t, Duration::from_millis(7_500));
    }
}
