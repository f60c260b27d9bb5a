//! The rates of RFC 7501 section 3.4, and the search for their maxima (RFC 7502 section 4.10).

use super::record::Metrics;

/// Attempts of one kind in the measured window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attempted {
    /// Begun.
    pub attempted: u64,
    /// Succeeded.
    pub succeeded: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
}

impl Attempted {
    /// Attempts per second (RFC 7501 sections 3.3.1 and 3.4.3); `None` without a window.
    pub fn attempt_rate(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.attempted as f64 / self.seconds)
    }

    /// Successes per second.
    pub fn rate(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.succeeded as f64 / self.seconds)
    }

    /// May this rate be a benchmark? RFC 7501 section 3.4 asks for zero failures.
    pub fn without_failure(self) -> bool {
        self.attempted > 0 && self.succeeded == self.attempted
    }
}

/// What the benchmarks of RFC 7502 are about, as they were in one run. The benchmark is the largest rate
/// without a failure, which [`MaxRate`] finds over several runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Sessions (RFC 7501 section 3.4.1): an attempt succeeds when the session is established; every other
    /// end is a Session Attempt Failure (section 3.1.8), a redirect that was followed excepted.
    pub sessions: Attempted,
    /// First registrations (section 3.4.2; RFC 7502 section 6.7); of a population, over its ramp.
    pub registrations: Attempted,
    /// Refreshes (RFC 7502 section 6.8).
    pub refreshes: Attempted,
}

impl Rates {
    /// From the measured window of `m`, which lasted `seconds`.
    pub fn of(m: &Metrics, seconds: f64) -> Rates {
        let c = &m.measured;
        let attempted = |attempted, succeeded| Attempted { attempted, succeeded, seconds };
        // A population registers in its ramp; what is left over from it is noise.
        let ramp = m.ramp().map(|ramp| ramp.until.since(ramp.from).as_secs_f64());
        let first = Attempted {
            attempted: c.registrations,
            succeeded: c.registrations_ok,
            seconds: ramp.unwrap_or(seconds),
        };
        Rates {
            sessions: attempted(c.sessions_requested, c.sessions_established),
            registrations: first,
            refreshes: attempted(c.refreshes, c.refreshes_ok),
        }
    }
}

/// What the search wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Offer this many attempts per second until [`MaxRate::attempts`] have been made.
    Try(u64),
    /// The largest rate without a failure.
    Found(u64),
    /// Not even one attempt per second went through, or the search does not come to an end: a device that
    /// passes and fails the same rate by turns has no such rate.
    None,
}

/// The iterative search of RFC 7502 section 4.10 for the largest rate that is free of failures.
///
/// Success raises the rate by the share `w`, failure lowers it by the share `d`; ten successes without a
/// new maximum end it. The weights start at 0.10 and, as the RFC has it, cannot become smaller, so the
/// answer is within 10 % of the true maximum from below, usually within 1 %.
#[derive(Clone, Debug)]
pub struct MaxRate {
    attempts: u64,
    increase: f64,
    decrease: f64,
    rate: u64,
    best: u64,
    without_gain: u32,
    runs: u32,
}

impl MaxRate {
    /// More runs than this are no convergence.
    const MAX_RUNS: u32 = 1_000;

    /// A search that makes `attempts` attempts at each rate (N; the RFC proposes 50,000) and begins with
    /// `initial` per second (r; the RFC proposes 100, and warns of less than 10).
    pub fn new(attempts: u64, initial: u64) -> MaxRate {
        MaxRate {
            attempts: attempts.max(1),
            increase: 0.10,
            decrease: 0.10,
            rate: initial.max(1),
            best: 0,
            without_gain: 0,
            runs: 0,
        }
    }

    /// Attempts to be made at each rate.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// The rate to be offered now, attempts per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The largest rate so far that had no failure; 0 if none.
    pub fn best(&self) -> u64 {
        self.best
    }

    /// A run at [`MaxRate::rate`] had this many successes of [`MaxRate::attempts`].
    pub fn report(&mut self, succeeded: u64) -> Next {
        self.runs += 1;
        let rate = self.rate as f64;
        if succeeded >= self.attempts {
            if self.rate > self.best {
                self.best = self.rate;
            } else {
                self.without_gain += 1;
                if self.without_gain >= 10 {
                    return Next::Found(self.best);
                }
            }
            self.rate = (rate + self.increase * rate).floor() as u64;
        } else {
            self.rate = (rate - self.decrease * rate).floor() as u64;
            self.decrease = (self.decrease / 2.0).max(0.10);
            self.increase = (self.increase / 2.0).max(0.10);
        }
        if self.rate == 0 || self.runs >= Self::MAX_RUNS { Next::None } else { Next::Try(self.rate) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::Time;

    use super::*;
    use crate::metrics::{Began, Registering, Setup};

    fn search(limit: u64, initial: u64) -> (Next, u32) {
        let mut s = MaxRate::new(50_000, initial);
        loop {
            let ok = s.rate() <= limit;
            match s.report(if ok { 50_000 } else { 49_999 }) {
                Next::Try(_) => {}
                end => return (end, s.runs),
            }
        }
    }

    #[test]
    fn the_example_of_appendix_a() {
        // A device of 460 sessions per second, searched from 100: 458.
        assert_eq!(search(460, 100).0, Next::Found(458));
    }

    #[test]
    fn a_device_that_does_nothing_has_no_rate() {
        assert_eq!(search(0, 100).0, Next::None);
    }

    #[test]
    fn rates_of_a_window() {
        let mut m = Metrics::new(&Setup::default());
        for i in 0..10 {
            let began = Began::at(Time::from_millis(i * 100));
            m.session_requested(began);
            m.registration_begun(began, Registering::First);
            m.registered(began.sent, began, Registering::First);
            if i > 0 {
                m.session_established(began.sent, began, None, 200);
            }
        }
        let r = Rates::of(&m, 2.0);
        assert_eq!(r.sessions.attempt_rate(), Some(5.0));
        assert_eq!(r.sessions.rate(), Some(4.5));
        assert!(!r.sessions.without_failure());
        assert!(r.registrations.without_failure());
        assert!(!r.refreshes.without_failure());
        assert_eq!(Rates::of(&m, 0.0).sessions.rate(), None);
    }

    proptest! {
        #[test]
        fn the_search_ends_near_the_limit_from_below(limit in 100_u64..2_000_000, initial in 10_u64..100_000) {
            match search(limit, initial) {
                (Next::Found(rate), runs) => {
                    prop_assert!(rate <= limit && rate as f64 >= limit as f64 * 0.89, "{rate} of {limit}");
                    prop_assert!(runs < 300);
                }
                (end, _) => prop_assert!(false, "{end:?}"),
            }
        }
    }
}
