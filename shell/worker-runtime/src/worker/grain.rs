//! Taking what comes in grains of time, for machines that know when it came.

use crate::monotonic_now;
use crate::sys;
use std::time::Duration;
use wire::Time;

/// Grains after which the traffic is judged anew.
const LOOK: u64 = 16;
/// Events in so many grains from which on a worker sleeps in grains: half as many wake-ups again as there
/// would be then.
const DENSE: u64 = LOOK * 3 / 2;
/// Events in so many grains below which it wakes for each again.
const SPARSE: u64 = LOOK * 3 / 4;
/// Grains of which one asks epoll what there is besides datagrams.
const ASK: u8 = 2;

/// How a worker sleeps between messages. Where there are few it wakes for each. Where there are many it
/// sleeps to the next multiple of the grain, undisturbed, and takes what has come in one go: a wake-up
/// costs as much as a message or two.
pub struct Grain {
    /// Microseconds; 0 for none.
    length: u64,
    dense: bool,
    since: Time,
    events: u64,
    /// Something is left that does not wait for the next grain.
    more: bool,
    /// Grains since epoll was asked.
    unasked: u8,
}

impl Grain {
    /// One of this length; zero for none.
    pub fn new(length: Duration, now: Time) -> Grain {
        let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX).min(1_000_000);
        Grain { length, dense: false, since: now, events: 0, more: false, unasked: 0 }
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.length > 0
    }

    /// Whether the worker sleeps in grains now.
    pub fn is_dense(&self) -> bool {
        self.dense
    }

    /// So many messages came, or deadlines, each of which would have woken the worker.
    pub fn note(&mut self, events: usize) {
        self.events += events as u64;
    }

    /// Not all that has come was taken: the worker does not sleep before it has gone round once more.
    pub fn more(&mut self) {
        self.more = true;
    }

    /// Whether epoll is to be asked at the end of this grain.
    pub fn asks(&mut self) -> bool {
        self.unasked = (self.unasked + 1) % ASK;
        self.unasked == 0
    }

    /// Sleeps to the next multiple of the grain after `now`, when this round began, if the traffic is dense.
    /// `false` if it is not.
    pub fn sleep(&mut self, now: Time) -> bool {
        let Some(until) = self.end(now) else { return false };
        let more = std::mem::take(&mut self.more);
        let rest = until.since(if more { until } else { monotonic_now() });
        if !rest.is_zero() {
            sys::sleep(rest);
        }
        true
    }

    /// The end of the grain that `now` is in, if the traffic is dense.
    fn end(&mut self, now: Time) -> Option<Time> {
        if self.length == 0 {
            return None;
        }
        let grains = now.since(self.since).as_micros() as u64 / self.length;
        if grains >= LOOK {
            let least = if self.dense { SPARSE } else { DENSE };
            self.dense = self.events * LOOK >= least * grains;
            (self.since, self.events) = (now, 0);
        }
        self.dense.then(|| Time::from_micros((now.as_micros() / self.length + 1) * self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn grains_begin_with_dense_traffic_and_end_with_it() {
        let mut grain = Grain::new(Duration::from_millis(1), at(0));
        grain.note(24);
        assert_eq!(grain.end(at(15_999)), None, "not judged yet");
        assert_eq!(grain.end(at(16_300)), Some(at(17_000)));
        assert!(grain.is_dense());
        // Half of that is enough to stay.
        grain.note(12);
        assert_eq!(grain.end(at(32_300)), Some(at(33_000)));
        grain.note(11);
        assert_eq!(grain.end(at(48_300)), None);
        // A long silence is no traffic.
        grain.note(24);
        assert_eq!(grain.end(at(99_000)), None);
        assert!(!grain.is_dense());
    }

    #[test]
    fn without_a_length_there_is_none() {
        let mut grain = Grain::new(Duration::ZERO, at(0));
        grain.note(1_000_000);
        assert_eq!(grain.end(at(1_000_000)), None);
        assert!(!grain.is_there());
    }
}
