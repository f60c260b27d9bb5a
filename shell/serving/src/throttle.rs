//! Warnings that could come with every message: one now and then, and how many it stands for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wire::Time;

/// At least so much time lies between two warnings of a kind.
const PAUSE: Duration = Duration::from_secs(10);

/// When a warning was given last, and how often it was kept back since. For a `static`.
#[derive(Default)]
pub struct Throttle {
    /// Microseconds; zero: never.
    last: AtomicU64,
    kept_back: AtomicU64,
}

impl Throttle {
    /// One that lets the first warning through.
    pub const fn new() -> Throttle {
        Throttle { last: AtomicU64::new(0), kept_back: AtomicU64::new(0) }
    }

    /// Whether to warn at `now`: how many warnings were kept back since the last one, or `None` to keep
    /// this one back.
    pub fn pass(&self, now: Time) -> Option<u64> {
        let last = self.last.load(Ordering::Relaxed);
        let due = last == 0 || now.since(Time::from_micros(last)) >= PAUSE;
        let now = now.as_micros().max(1);
        // Of two threads at a time one warns.
        if due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(self.kept_back.swap(0, Ordering::Relaxed));
        }
        self.kept_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_while_passes_and_stands_for_the_others() {
        let throttle = Throttle::new();
        assert_eq!(throttle.pass(Time::ZERO), Some(0));
        assert_eq!(throttle.pass(Time::from_secs(1)), None);
        assert_eq!(throttle.pass(Time::from_secs(9)), None);
        assert_eq!(throttle.pass(Time::from_secs(11)), Some(2));
        assert_eq!(throttle.pass(Time::from_secs(12)), None);
        assert_eq!(throttle.pass(Time::from_secs(60)), Some(1));
    }
}
