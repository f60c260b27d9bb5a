//! When one worker asks a server with OPTIONS (RFC 3261 section 11), and what the answers mean.
//!
//! The caller sends the message and reports the answer; one question is open at a time.

use core::time::Duration;
use wire::Time;

/// The questions of one worker to one server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    next: Time,
    serial: u32,
    /// When the last one was sent, and when its answer must be here, if it is not.
    sent: Time,
    due: Option<Time>,
    /// The network brought it back.
    returned: bool,
    good: u32,
    bad: u32,
    /// When the last of these bad ones was sent.
    bad_sent: Time,
    /// How often the server had gone down when these were last counted: any worker may find that it has.
    falls: u32,
}

/// A question that has no answer when it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overdue {
    /// When it was sent.
    pub sent: Time,
    /// The network says that nobody listens there.
    pub unreachable: bool,
}

impl Probe {
    /// Begins anew at `now`, with what is known.
    pub fn restart(&mut self, now: Time) {
        (self.next, self.due) = (now, None);
    }

    /// The next question is put at this time, whatever was planned.
    pub fn plan(&mut self, at: Time) {
        self.next = at;
    }

    /// When the next question is put.
    pub fn next(&self) -> Time {
        self.next
    }

    /// When the answer to the open question must be here.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether [`Probe::overdue`] has something to say at once.
    pub fn is_returned(&self) -> bool {
        self.returned
    }

    /// When something is to be done next.
    pub fn wakes(&self) -> Time {
        match self.returned {
            true => Time::ZERO,
            false => self.due.unwrap_or(Time::FAR).min(self.next),
        }
    }

    /// A question is put now, and its answer must be here after `timeout`; the next one comes after
    /// `interval`. Its number.
    pub fn ask(&mut self, now: Time, interval: Duration, timeout: Duration) -> u32 {
        self.next = self.next.max(now) + interval;
        self.serial = self.serial.wrapping_add(1);
        (self.sent, self.due) = (now, Some(now + timeout.min(interval)));
        self.serial
    }

    /// An answer to question `serial` came: when that was sent, if it was open and its time not over.
    pub fn answered(&mut self, now: Time, serial: u32) -> Option<Time> {
        (self.serial == serial && self.due.take().is_some_and(|due| due >= now)).then_some(self.sent)
    }

    /// The network brought question `serial` back.
    pub fn returned(&mut self, serial: u32) {
        self.returned |= self.serial == serial && self.due.is_some();
    }

    /// The open question, if its answer is not here in time or it was brought back. It is open no more.
    pub fn overdue(&mut self, now: Time) -> Option<Overdue> {
        let unreachable = core::mem::take(&mut self.returned) && self.due.is_some();
        let late = self.due.is_some_and(|due| due <= now);
        (unreachable || late).then(|| {
            self.due = None;
            Overdue { sent: self.sent, unreachable }
        })
    }

    /// A question failed. Whether that were `most` one after the other.
    pub fn failed(&mut self, most: u32) -> bool {
        (self.bad, self.good) = (self.bad.saturating_add(1), 0);
        self.bad_sent = self.sent;
        self.bad >= most
    }

    /// The server shows otherwise that it is there: what failed before does not count.
    pub fn excused(&mut self) {
        self.bad = 0;
    }

    /// The server was heard at this time. Questions that failed do not count if they were sent before.
    pub fn heard(&mut self, at: Time) {
        if at > self.bad_sent {
            self.bad = 0;
        }
    }

    /// A question was answered well, by a server that has gone down `falls` times. Whether that were `enough`
    /// one after the other since.
    pub fn succeeded(&mut self, falls: u32, enough: u32) -> bool {
        if falls != self.falls {
            (self.good, self.falls) = (0, falls);
        }
        (self.good, self.bad) = (self.good.saturating_add(1), 0);
        self.good >= enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(2);
    const TIMEOUT: Duration = Duration::from_millis(500);

    #[test]
    fn an_answer_counts_once_and_in_time_only() {
        let (mut probe, now) = (Probe::default(), Time::from_secs(10));
        let serial = probe.ask(now, INTERVAL, TIMEOUT);
        assert_eq!((probe.next(), probe.due()), (now + INTERVAL, Some(now + TIMEOUT)));
        assert_eq!(probe.answered(now, serial + 1), None);
        assert_eq!((probe.answered(now, serial), probe.answered(now, serial)), (Some(now), None));
        let serial = probe.ask(now, INTERVAL, TIMEOUT);
        assert_eq!(probe.answered(now + TIMEOUT + Duration::from_micros(1), serial), None);
    }

    #[test]
    fn a_question_is_overdue_when_late_or_returned() {
        let (mut probe, now) = (Probe::default(), Time::from_secs(10));
        let serial = probe.ask(now, INTERVAL, TIMEOUT);
        assert_eq!(probe.overdue(now), None);
        assert_eq!(probe.overdue(now + TIMEOUT), Some(Overdue { sent: now, unreachable: false }));
        assert_eq!(probe.overdue(now + TIMEOUT), None);
        probe.returned(serial);
        assert_eq!(probe.overdue(now + TIMEOUT), None, "it is open no more");
        let serial = probe.ask(now, INTERVAL, TIMEOUT);
        probe.returned(serial);
        assert_eq!(probe.wakes(), Time::ZERO);
        assert_eq!(probe.overdue(now), Some(Overdue { sent: now, unreachable: true }));
    }

    #[test]
    fn questions_that_failed_before_a_sign_of_life_do_not_count() {
        for (heard, falls) in [(0, true), (1, false)] {
            let (mut probe, now) = (Probe::default(), Time::ZERO + INTERVAL);
            probe.ask(now, INTERVAL, TIMEOUT);
            assert!(probe.overdue(now + TIMEOUT).is_some() && !probe.failed(2));
            let later = now + INTERVAL;
            probe.ask(later, INTERVAL, TIMEOUT);
            assert!(probe.overdue(later + TIMEOUT).is_some());
            probe.heard(now + Duration::from_micros(heard));
            assert_eq!(probe.failed(2), falls, "{heard}");
        }
    }

    #[test]
    fn good_answers_before_a_fall_do_not_count() {
        let mut probe = Probe::default();
        assert!(!probe.succeeded(0, 2) && !probe.succeeded(1, 2) && probe.succeeded(1, 2));
        assert!(!probe.failed(2) && probe.failed(2));
        probe.excused();
        assert!(!probe.failed(2));
    }
}
