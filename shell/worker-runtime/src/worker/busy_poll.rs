//! Looking for more before going to sleep.

use std::time::Duration;
use wire::Time;

/// Waits longer than so many spans count as that many: after a silence a few messages tell that there is
/// traffic again.
const LONG: u32 = 4;

/// Whether a worker looks for more before it sleeps. To wake a sleeping processor takes tens of microseconds,
/// on a virtual machine more, which a message has to wait for; looking again and again takes a processor. So
/// a worker looks where the next message usually comes within the span that it may look for, and sleeps at
/// once where it does not: a quiet server is quiet.
pub struct BusyPoll {
    span: Duration,
    /// For how long it has waited of late; a moving average over about eight waits.
    usual: Duration,
}

impl BusyPoll {
    /// One that looks for `span` at most; zero for one that never does.
    pub fn new(span: Duration) -> BusyPoll {
        let span = span.min(Duration::from_secs(1));
        BusyPoll { span, usual: span * LONG }
    }

    /// Whether it ever looks.
    pub fn is_there(&self) -> bool {
        !self.span.is_zero()
    }

    /// Until when the worker, with nothing to do at `now`, looks for more. `None`: it does not.
    pub fn until(&self, now: Time) -> Option<Time> {
        (self.usual < self.span).then(|| now + self.span)
    }

    /// It had nothing to do for so long.
    pub fn waited(&mut self, time: Duration) {
        self.usual = (self.usual * 7 + time.min(self.span * LONG)) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_micros(1_000);

    fn after(span: u64, waits: impl IntoIterator<Item = u64>) -> Option<Time> {
        let mut busy_poll = BusyPoll::new(Duration::from_micros(span));
        waits.into_iter().for_each(|wait| busy_poll.waited(Duration::from_micros(wait)));
        busy_poll.until(AT)
    }

    #[test]
    fn it_looks_where_more_comes_soon() {
        assert_eq!(after(50, []), None, "nothing has come yet");
        assert_eq!(after(50, [20; 20]), Some(AT + Duration::from_micros(50)));
        assert_eq!(after(50, [60; 1_000]), None, "a little too late each time");
        // Most come soon: now and then it looks in vain.
        assert!(after(50, [20, 20, 20, 100].repeat(10)).is_some());
    }

    #[test]
    fn after_a_silence_it_sleeps_until_traffic_is_back() {
        let silence = [&[10; 100][..], &[10_000_000; 12]].concat();
        assert_eq!(after(50, silence.iter().copied()), None);
        let back = [&silence[..], &[10; 16]].concat();
        assert!(after(50, back).is_some());
    }

    #[test]
    fn one_without_a_span_never_looks() {
        assert!(!BusyPoll::new(Duration::ZERO).is_there());
        assert_eq!(after(0, [0; 100]), None);
    }
}
