//! When datagrams came, by the machines' clock.

use crate::{monotonic_now, sys};
use wire::Time;

/// Our time of what the kernel notes by the wall clock.
pub(super) struct Stamps {
    now: Time,
    /// The wall clock at `now`, microseconds.
    wall: u64,
}

impl Stamps {
    /// Stamps older than this were taken by another wall clock than the one that now is.
    const OLDEST: u64 = 10_000_000;

    pub fn new(now: Time) -> Stamps {
        // `now` is a little older than this moment.
        let wall = sys::wall_micros().saturating_sub(monotonic_now().since(now).as_micros() as u64);
        Stamps { now, wall }
    }

    /// Our time of a stamp; `None` if it cannot be right, because the clock was set since.
    pub fn time(&self, stamp: u64) -> Option<Time> {
        let age = self.wall.saturating_sub(stamp);
        let ahead = stamp.saturating_sub(self.wall);
        (age < Stamps::OLDEST && ahead < Stamps::OLDEST)
            .then(|| Time::from_micros(self.now.as_micros().saturating_sub(age) + ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_the_wall_clock_become_our_time() {
        let stamps = Stamps { now: Time::from_micros(5_000), wall: 1_000_000_000 };
        let time = |stamp| stamps.time(stamp).map(Time::as_micros);
        assert_eq!(time(1_000_000_000 - 700), Some(4_300));
        assert_eq!(time(1_000_000_000 + 700), Some(5_700), "since the round began");
        assert_eq!(time(1_000_000_000 - 10_000_000), None, "the clock was set");
        assert_eq!(time(1_000_000_000 + 10_000_000), None, "the clock was set back");
    }
}
