//! The state of one server, in atomics that are read far more often than written.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::Time;

/// How far [`Vital::heard_at`] may be behind the truth, microseconds: it is written seldom, so it stays in
/// every cache.
pub const HEARD_GRAIN: u64 = 16_000;

/// Whether a server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Health {
    /// Not tried yet. It gets calls.
    Unknown = 0,
    /// It answers.
    Up = 1,
    /// It does not.
    Down = 2,
}

/// Why a server has the health it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Why {
    /// Nothing has happened yet.
    Nothing = 0,
    /// It answered.
    Answered = 1,
    /// Probes were not answered in time.
    ProbeTimeout = 2,
    /// A probe was answered with a status that does not count as good.
    ProbeRefused = 3,
    /// Requests were not answered.
    Silent = 4,
    /// The network says that nobody listens there.
    Unreachable = 5,
    /// It answered 503 with Retry-After and is left alone until then.
    Overloaded = 6,
    /// It refuses much more, or takes much longer, than the others do.
    Outlier = 7,
}

impl Why {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Why::Nothing => "not tried yet",
            Why::Answered => "answers",
            Why::ProbeTimeout => "probes are not answered",
            Why::ProbeRefused => "probes are refused",
            Why::Silent => "requests are not answered",
            Why::Unreachable => "the network cannot reach it",
            Why::Overloaded => "asked to be left alone for a while (503)",
            Why::Outlier => "far worse than the others: errors or response times",
        }
    }
}

const HEALTHS: [Health; 3] = [Health::Unknown, Health::Up, Health::Down];
const WHYS: [Why; 8] = [
    Why::Nothing,
    Why::Answered,
    Why::ProbeTimeout,
    Why::ProbeRefused,
    Why::Silent,
    Why::Unreachable,
    Why::Overloaded,
    Why::Outlier,
];

/// Whether one server answers, as all workers see it.
#[derive(Debug, Default)]
pub struct Vital {
    health: AtomicU8,
    why: AtomicU8,
    /// It left requests without an answer: nothing new until something comes from it or probes decide.
    silent: AtomicBool,
    /// It is to be probed at once.
    wanted: AtomicBool,
    /// Failures since something last came from it.
    failures: AtomicU32,
    /// How often it has gone down.
    falls: AtomicU32,
    /// Microseconds at which something last came from it that it owed.
    heard: AtomicU64,
    /// Microseconds at which the newest request was sent to it that it has answered.
    served: AtomicU64,
}

impl Vital {
    /// As it was at first.
    pub fn reset(&self) {
        self.health.store(Health::Unknown as u8, Relaxed);
        self.why.store(Why::Nothing as u8, Relaxed);
        for number in [&self.failures, &self.falls] {
            number.store(0, Relaxed);
        }
        for time in [&self.heard, &self.served] {
            time.store(0, Relaxed);
        }
        for flag in [&self.silent, &self.wanted] {
            flag.store(false, Relaxed);
        }
    }

    /// Whether it answers, and why that is believed.
    pub fn health(&self) -> (Health, Why) {
        let health = HEALTHS.get(usize::from(self.health.load(Relaxed))).copied().unwrap_or(Health::Unknown);
        let why = WHYS.get(usize::from(self.why.load(Relaxed))).copied().unwrap_or(Why::Nothing);
        (health, why)
    }

    /// Whether it left requests without an answer, and nothing has come from it since.
    pub fn is_silent(&self) -> bool {
        self.silent.load(Relaxed)
    }

    /// Whether something new may go there while others are available: it is not down, and not silent.
    pub fn takes_calls(&self) -> bool {
        self.health.load(Relaxed) != Health::Down as u8 && !self.is_silent()
    }

    /// How often it has gone down.
    pub fn falls(&self) -> u32 {
        self.falls.load(Relaxed)
    }

    /// When something last came from it that it owed; up to [`HEARD_GRAIN`] older than the truth.
    pub fn heard_at(&self) -> Time {
        Time::from_micros(self.heard.load(Relaxed))
    }

    /// Something came from it that it owed: it lives. Says whether that changes who takes calls. One that is
    /// down stays so until a probe is answered.
    pub fn heard(&self, now: Time) -> bool {
        if now.as_micros() >= self.heard.load(Relaxed) + HEARD_GRAIN {
            self.heard.store(now.as_micros(), Relaxed);
        }
        // Read first: the line stays shared by all workers while all is well.
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        let health = self.health.load(Relaxed);
        let doubted = self.is_silent() && health != Health::Down as u8;
        (doubted || health == Health::Unknown as u8) && self.set_up()
    }

    /// When the newest request was sent to it that it has answered; up to [`HEARD_GRAIN`] older than the
    /// truth.
    pub fn served_at(&self) -> Time {
        Time::from_micros(self.served.load(Relaxed))
    }

    /// It has answered a request that was sent to it then.
    pub fn served(&self, sent: Time) {
        if sent.as_micros() >= self.served.load(Relaxed) + HEARD_GRAIN {
            self.served.store(sent.as_micros(), Relaxed);
        }
    }

    /// A request to it failed: it is to be probed at once. How many have failed since something last came
    /// from it.
    pub fn failed(&self) -> u32 {
        self.want_probe();
        self.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// Its failures have had their effect, for this reason; counting begins anew.
    pub fn judged(&self, why: Why) {
        self.failures.store(0, Relaxed);
        self.why.store(why as u8, Relaxed);
    }

    /// It gets nothing new until it is heard, or a probe is answered. Says whether that is a change.
    pub fn set_silent(&self, why: Why) -> bool {
        let new = !self.silent.swap(true, Relaxed);
        if new {
            self.why.store(why as u8, Relaxed);
        }
        new
    }

    /// It answers. Says whether that is a change.
    pub fn set_up(&self) -> bool {
        self.judged(Why::Answered);
        let silent = self.silent.swap(false, Relaxed);
        self.health.swap(Health::Up as u8, Relaxed) != Health::Up as u8 || silent
    }

    /// It does not answer. Says whether that is a change.
    pub fn set_down(&self, why: Why) -> bool {
        let new = self.health.swap(Health::Down as u8, Relaxed) != Health::Down as u8;
        if new {
            self.why.store(why as u8, Relaxed);
            self.falls.fetch_add(1, Relaxed);
        }
        new
    }

    /// Probing has stopped: what probes, or their absence, said no longer holds.
    pub fn forget_probes(&self) {
        self.silent.store(false, Relaxed);
        self.failures.store(0, Relaxed);
        if self.health.swap(Health::Unknown as u8, Relaxed) != Health::Unknown as u8 {
            self.why.store(Why::Nothing as u8, Relaxed);
        }
    }

    /// It is to be probed at once.
    pub fn want_probe(&self) {
        self.wanted.store(true, Relaxed);
    }

    /// Whether it is to be probed at once.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Whether it is to be probed at once. Asked once, it is forgotten: one worker does it.
    pub fn take_wish(&self) -> bool {
        self.is_wanted() && self.wanted.swap(false, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_up_when_heard() {
        let vital = Vital::default();
        assert!(vital.takes_calls() && vital.set_silent(Why::Silent) && !vital.set_silent(Why::Unreachable));
        assert_eq!((vital.takes_calls(), vital.health()), (false, (Health::Unknown, Why::Silent)));
        assert!(vital.heard(Time::from_secs(1)) && !vital.heard(Time::from_secs(2)));
        assert_eq!((vital.takes_calls(), vital.health()), (true, (Health::Up, Why::Answered)));
        assert_eq!(vital.heard_at(), Time::from_secs(2));
    }

    #[test]
    fn a_server_that_is_down_stays_down_until_set_up() {
        let vital = Vital::default();
        assert!(vital.set_down(Why::ProbeTimeout) && !vital.set_down(Why::Unreachable));
        assert!(!vital.heard(Time::from_secs(1)));
        assert_eq!((vital.health(), vital.falls()), ((Health::Down, Why::ProbeTimeout), 1));
        assert!(vital.set_up() && vital.takes_calls());
    }

    #[test]
    fn failures_count_until_something_is_heard() {
        let vital = Vital::default();
        assert_eq!((vital.failed(), vital.failed()), (1, 2));
        assert_eq!((vital.take_wish(), vital.take_wish()), (true, false));
        vital.heard(Time::from_secs(1));
        assert_eq!(vital.failed(), 1);
    }
}
