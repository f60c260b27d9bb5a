//! Limits log lines about events that any sender can cause.

use std::time::Duration;
use wire::Time;

/// Time between two lines about the same.
const INTERVAL: Duration = Duration::from_secs(10);

/// When something was logged last, and how often it has happened since.
pub struct Told {
    next: Time,
    times: u64,
}

impl Told {
    /// Nothing was logged yet.
    pub fn new() -> Told {
        Told { next: Time::ZERO, times: 0 }
    }

    /// It has happened again. Returns how often since the last line, if another line may be logged now.
    pub fn again(&mut self, now: Time) -> Option<u64> {
        self.times += 1;
        (now >= self.next).then(|| {
            self.next = now + INTERVAL;
            std::mem::take(&mut self.times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_says_how_often_since_the_one_before() {
        let mut told = Told::new();
        let at = |told: &mut Told, seconds| told.again(Time::from_secs(seconds));
        assert_eq!(at(&mut told, 1), Some(1));
        assert_eq!([2, 3, 4].map(|seconds| at(&mut told, seconds)), [None; 3]);
        assert_eq!(at(&mut told, 11), Some(4));
    }
}
