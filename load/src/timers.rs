//! The timers of transactions (RFC 3261 sections 17.1 and 17.2), for all that the generator plays.
//!
//! `sip-transaction` has them for a proxy. A generator plays both ends, breaks the rules where a scenario
//! wants that, and counts each repetition, so of a transaction it needs the times alone.

use core::time::Duration;
use wire::Time;

/// T1, the round-trip estimate.
pub const T1: Duration = Duration::from_millis(500);
/// T2, the longest interval of requests other than INVITE and of responses to INVITE.
pub const T2: Duration = Duration::from_secs(4);
/// T4, the longest time that a message stays in the network.
pub const T4: Duration = Duration::from_secs(5);
/// Timers B, F and H: 64 * T1.
pub const GIVE_UP: Duration = Duration::from_secs(32);

/// A message that is sent again until something comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// When it is sent again, or given up.
    pub at: Time,
    interval: Duration,
    longest: Duration,
    give_up: Time,
}

/// What is to be done when the time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Send it again.
    Again,
    /// Nobody answers.
    Over,
}

impl Repeat {
    /// A message that goes out now; `longest` is the longest interval, none for an INVITE (timer A).
    /// On a reliable transport nothing is sent again, but it is given up.
    pub fn new(now: Time, longest: Option<Duration>, reliable: bool) -> Repeat {
        let give_up = now + GIVE_UP;
        let at = if reliable { give_up } else { now + T1 };
        Repeat { at, interval: T1, longest: longest.unwrap_or(GIVE_UP), give_up }
    }

    /// Whether its time has come, and for what; the next time is set.
    pub fn due(&mut self, now: Time) -> Option<Due> {
        if self.at > now {
            return None;
        }
        if now >= self.give_up {
            return Some(Due::Over);
        }
        self.interval = (self.interval * 2).min(self.longest);
        self.at = (now + self.interval).min(self.give_up);
        Some(Due::Again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(longest: Option<Duration>, reliable: bool) -> Vec<u64> {
        let mut repeat = Repeat::new(Time::ZERO, longest, reliable);
        let mut all = Vec::new();
        loop {
            let at = repeat.at;
            all.push(at.as_micros() / 1_000);
            match repeat.due(at) {
                Some(Due::Again) => {}
                Some(Due::Over) => return all,
                None => panic!("it was due"),
            }
        }
    }

    #[test]
    fn intervals_are_those_of_section_17() {
        assert_eq!(times(None, false), [500, 1_500, 3_500, 7_500, 15_500, 31_500, 32_000]);
        let other = times(Some(T2), false);
        assert_eq!(other, [500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500, 32_000]);
        assert_eq!(times(None, true), [32_000]);
        assert_eq!(Repeat::new(Time::ZERO, None, false).due(Time::from_millis(499)), None);
    }
}
