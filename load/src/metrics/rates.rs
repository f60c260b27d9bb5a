//! The rates of RFC 7501 section 3.4. The search for their maxima is [`crate::population::Search`].

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
/// without a failure, which a search finds over several runs.
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

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;
    use crate::metrics::{Began, Registering, Setup};

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
}
