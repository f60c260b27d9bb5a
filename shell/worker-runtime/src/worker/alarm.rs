//! What wakes a worker at its next deadline.

use crate::sys::{Interest, Poller, Timer};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use wire::Time;

/// How much later than its deadline a worker may wake where deadlines need not be exact.
const GRAIN_MICROS: u64 = 1_000;
const GRAIN: Duration = Duration::from_micros(GRAIN_MICROS);

/// A timer that stays set from one sleep to the next. A timeout of `epoll_wait` would be set and taken
/// back with each message that comes, which is dear where it is the next thing for the processor to do:
/// about a tenth of the time that a wake-up takes on a virtual machine.
pub struct Alarm {
    timer: Timer,
    /// When it rings, or rang.
    set: Time,
    exact: bool,
}

impl Alarm {
    /// One that `poller` reports as `data`; it rings to the microsecond if it is to be `exact`.
    pub fn new(exact: bool, poller: &Poller, data: u64) -> io::Result<Alarm> {
        let timer = Timer::new()?;
        poller.add(timer.as_fd(), Interest::EDGE, data)?;
        Ok(Alarm { timer, set: Time::ZERO, exact })
    }

    /// Sees to it that the worker is woken at `deadline`, which is later than `now`, or within a
    /// [`GRAIN`] after. It may be woken once before, for a deadline that has been put off since. `true`
    /// if that took a system call.
    pub fn cover(&mut self, now: Time, deadline: Time) -> io::Result<bool> {
        let grain = if self.exact { Duration::ZERO } else { GRAIN };
        if now < self.set && self.set <= deadline + grain {
            return Ok(false);
        }
        // In whole grains from now, so that near deadlines share a wake-up.
        let left = deadline.as_micros().saturating_sub(now.as_micros());
        let whole = if self.exact { None } else { left.checked_next_multiple_of(GRAIN_MICROS) };
        let after = Duration::from_micros(whole.unwrap_or(left));
        self.set = now + after;
        self.timer.set(after)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(exact: bool) -> Alarm {
        Alarm::new(exact, &Poller::new(1).unwrap(), 0).unwrap()
    }

    #[test]
    fn it_stays_set_while_it_serves() {
        let at = Time::from_micros;
        let mut alarm = alarm(false);
        let mut sets = |now, deadline| alarm.cover(at(now), at(deadline)).unwrap().then_some(alarm.set);
        assert_eq!(sets(1_000, 5_300), Some(at(6_000)));
        // Later ones find it set before them, one a little earlier is late by less than a grain.
        assert_eq!(sets(1_500, 9_000), None);
        assert_eq!(sets(1_500, 5_000), None);
        assert_eq!(sets(1_500, 4_999), Some(at(5_500)));
        // It has rung.
        assert_eq!(sets(5_500, 9_000), Some(at(9_500)));
    }

    #[test]
    fn an_exact_one_is_never_late() {
        let at = Time::from_micros;
        let mut alarm = alarm(true);
        let mut sets = |now, deadline| alarm.cover(at(now), at(deadline)).unwrap().then_some(alarm.set);
        assert_eq!(sets(1_000, 1_301), Some(at(1_301)));
        assert_eq!(sets(1_100, 1_301), None);
        assert_eq!(sets(1_100, 1_300), Some(at(1_300)));
        assert_eq!(sets(1_200, 9_000), None);
        assert_eq!(sets(1_300, 9_000), Some(at(9_000)));
    }
}
