//! Whether a worker that is behind only catches up.
//!
//! A machine that stands still for a tenth of a second (its host has given the processor to somebody else)
//! leaves a worker behind for much longer than that: at four fifths of what it can do, for half a second.
//! Nothing has to be refused then, and what is refused is lost for nothing. An overload looks alike from
//! within, but for one thing: what waits in the kernel gets more, or stays as much as there is room for.

use core::time::Duration;
use wire::Load;

/// By so many times of its patience a worker may be behind while what waits gets less. Then it is an
/// overload, whatever it looks like.
const CATCHES_UP: u32 = 10;
/// Windows within which all that waits has to be gone, if it goes on getting less as it does, or else it is
/// an overload: two seconds. Above some 90 % of what the worker can do it takes longer, and there is no room
/// for the next stall either.
const SOON: u64 = 40;
/// So much that waits is next to nothing, bytes as the kernel counts them: what has come since the worker
/// looked last.
const LITTLE: u64 = 64 * 1024;
/// Windows in a row in which it does not get less, before that is believed: what is taken on brings more with
/// it at first, and a second stall may have come into the first one. In an overload they are over by the time
/// that patience is.
const SURE: u32 = 4;
/// A window so long, of a worker that was not behind, is one in which the machine stood still (or nothing
/// came). Where much waits after that, it is too early to say whether it gets less, for as long as the window
/// lasted and for so long at most: it is counted in steps that take up to three windows.
const STANDSTILL: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_millis(400);
/// Windows with next to nothing, before it is believed that it waits elsewhere.
const ELSEWHERE: u32 = 3;

/// What has waited in the kernel since the worker fell behind.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// The most of it, and how many windows ago.
    most: u64,
    age: u64,
    /// Windows in which there was next to nothing.
    little: u32,
    /// Windows in a row in which it did not get less.
    stays: u32,
    /// The worker was behind at the end of the last window.
    late: bool,
    /// For so long it is too early to say.
    grace: Duration,
}

impl Backlog {
    /// A window is over. Whether a worker of such patience is behind for no other reason than that it catches
    /// up.
    pub fn excuses(&mut self, load: &Load, patience: Duration) -> bool {
        // A worker that is behind may stand still for a part of the time: its processor is shared out so.
        let was_late = core::mem::replace(&mut self.late, load.behind >= Load::ROUND);
        self.grace = match load.window {
            long if long >= STANDSTILL && !was_late => long.min(GRACE),
            window => self.grace.saturating_sub(window),
        };
        if !self.late {
            self.forget();
            return false;
        }
        let early = !self.grace.is_zero() && load.waiting.is_some_and(|bytes| bytes >= LITTLE);
        (self.ebbs(load.waiting) || early) && load.behind < CATCHES_UP * patience
    }

    /// What waits from now on is something else.
    pub fn forget(&mut self) {
        *self = Backlog { late: self.late, grace: self.grace, ..Backlog::default() };
    }

    /// A window is over in which the worker was behind; so many bytes wait. Whether it catches up. `None`:
    /// that is not known, or some of it was lost for want of room.
    fn ebbs(&mut self, waiting: Option<u64>) -> bool {
        let Some(bytes) = waiting else {
            self.forget();
            return false;
        };
        if bytes < LITTLE {
            // All is done, or it is not there that it waits: bursts beside what waits elsewhere do not hide
            // that.
            self.little += 1;
            return self.little < ELSEWHERE;
        }
        if self.falls(bytes) {
            self.stays = 0;
            return true;
        }
        self.stays += 1;
        self.stays < SURE
    }

    fn falls(&mut self, bytes: u64) -> bool {
        if bytes > self.most {
            (self.most, self.age) = (bytes, 0);
            return false;
        }
        // The kernel counts what was taken in large steps (a quarter of the buffer), so one window says
        // little.
        self.age += 1;
        (self.most - bytes) * SOON >= bytes * self.age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(windows: &[u64]) -> Vec<bool> {
        let mut backlog = Backlog::default();
        windows.iter().map(|kib| backlog.ebbs(Some(kib * 1024))).collect()
    }

    #[test]
    fn what_gets_less_ebbs_even_in_steps() {
        assert_eq!(all(&[8_000, 8_000, 6_000, 6_000, 4_000, 4_000, 2_000, 0]), [true; 8]);
        // A second stall.
        assert_eq!(all(&[8_000, 7_000, 6_000, 9_000, 8_000, 7_000]), [true; 6]);
    }

    /// As it was seen at 150,000 datagrams a second, after a third of a second.
    #[test]
    fn who_stood_still_for_long_is_not_judged_at_once() {
        let waits = [18_370, 32_233, 32_305, 38_582, 25_562, 19_043, 12_000, 4_000];
        let excused = |mut window: u64| {
            let mut backlog = Backlog::default();
            let mut behind = Duration::ZERO;
            waits.map(|kib: u64| {
                behind += Load::ROUND;
                let window = Duration::from_millis(std::mem::replace(&mut window, 50));
                let load = Load { window, behind, waiting: Some(kib * 1024), ..Load::default() };
                backlog.excuses(&load, Duration::from_millis(200))
            })
        };
        assert_eq!(excused(319), [true; 8]);
        // Without a standstill it is an overload until it gets less.
        assert_eq!(excused(50), [true, true, true, false, true, true, true, true]);
        // A processor that is given for half of each tenth of a second is no standstill.
        let mut backlog = Backlog::default();
        let half = |n: u32| Load {
            window: Duration::from_millis(if n.is_multiple_of(2) { 100 } else { 50 }),
            behind: Load::ROUND * n,
            waiting: Some(1 << 20),
            ..Load::default()
        };
        let excused: Vec<bool> =
            (1..12).map(|n| backlog.excuses(&half(n), Duration::from_millis(200))).collect();
        assert_eq!(excused.iter().filter(|excused| **excused).count(), 3, "{excused:?}");
        // A night in which nothing came is none for long, and none where nobody knows what waits.
        let after_a_night = |waiting: Option<u64>| {
            let mut backlog = Backlog::default();
            let night = Load { window: Duration::from_secs(9_999), ..Load::default() };
            assert!(!backlog.excuses(&night, Duration::from_millis(200)));
            let grows = |n| Load {
                window: Load::WINDOW,
                behind: Load::ROUND,
                waiting: waiting.map(|b| b * n),
                ..night
            };
            (1..20).filter(|n| backlog.excuses(&grows(*n), Duration::from_millis(200))).count()
        };
        assert_eq!((after_a_night(Some(1 << 20)), after_a_night(Some(0)), after_a_night(None)), (7, 2, 0));
    }

    #[test]
    fn what_stays_or_grows_does_not() {
        let soon = [true, true, true, false, false];
        assert_eq!(all(&[1_000, 2_000, 3_000, 4_000, 5_000]), soon);
        assert_eq!(all(&[4_000; 5]), soon);
        // So slowly that it would take four seconds.
        assert_eq!(all(&[4_000, 3_950, 3_900, 3_850, 3_800]), soon);
    }

    #[test]
    fn where_nothing_waits_it_waits_elsewhere() {
        assert_eq!(all(&[0; 4]), [true, true, false, false]);
        assert_eq!(all(&[0, 100, 0, 200, 0, 100]), [true, true, true, true, false, true]);
        let mut backlog = Backlog::default();
        assert!(!backlog.ebbs(None));
    }
}
