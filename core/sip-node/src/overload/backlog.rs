//! Whether a worker that is behind only catches up.
//!
//! A machine that stands still for a tenth of a second (its host has given the processor to somebody else) leaves a worker
//! behind for much longer than that: at four fifths of what it can do, for half a second. Nothing has to be refused then,
//! and what is refused is lost for nothing. An overload looks alike from within, but for one thing: what waits in the
//! kernel gets more, or stays as much as there is room for.

use core::time::Duration;
use wire::Load;

/// By so many times of its patience a worker may be behind while what waits gets less. Then it is an overload, whatever it
/// looks like.
const CATCHES_UP: u32 = 10;
/// Windows within which all that waits has to be gone, if it goes on getting less as it does, or else it is an overload: two
/// seconds. Above some 90 % of what the worker can do it takes longer, and there is no room for the next stall either.
const SOON: u64 = 40;
/// So much that waits is next to nothing, bytes as the kernel counts them: what has come since the worker looked last.
const LITTLE: u64 = 64 * 1024;
/// Windows in a row in which it does not get less, before that is believed: what is taken on brings more with it at first,
/// and a second stall may have come into the first one. In an overload they are over by the time that patience is.
const SURE: u32 = 4;
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
}

impl Backlog {
    /// A window is over. Whether a worker of such patience is behind for no other reason than that it catches up.
    pub fn excuses(&mut self, load: &Load, patience: Duration) -> bool {
        if load.behind < Load::ROUND {
            *self = Backlog::default();
            return false;
        }
        self.ebbs(load.waiting) && load.behind < CATCHES_UP * patience
    }

    /// A window is over in which the worker was behind; so many bytes wait. Whether it catches up. `None`: that is not known, or some
    /// of it was lost for want of room.
    fn ebbs(&mut self, waiting: Option<u64>) -> bool {
        let Some(bytes) = waiting else {
            *self = Backlog::default();
            return false;
        };
        if bytes < LITTLE {
            // All is done, or it is not there that it waits: bursts beside what waits elsewhere do not hide that.
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
        // The kernel counts what was taken in large steps (a quarter of the buffer), so one window says little.
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
