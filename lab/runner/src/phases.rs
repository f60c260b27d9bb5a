//! The phases of a run: what is left to the generator, how long it may take, and when its measurement was.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::experiment::{Population, SETTLE, Setup, WarmUp, search_limit};
use load::report::{Report, SeriesReport};

use crate::warm_up;

/// How long the generator may take beyond the time of its calls: calls under way end, the report is written.
const GENERATOR_ENDS: Duration = Duration::from_secs(90);

/// What is known of the phases before a run.
#[derive(Clone, Debug)]
pub struct Phases {
    /// The population, if there is one.
    pub population: Option<Population>,
    /// Whether a generator of its own makes calls until everything is steady.
    pub apart: bool,
    /// The warm-up of the generator that measures.
    pub warm_up: Duration,
    /// Whether that warm-up is to end steady.
    pub is_judged: bool,
    /// From the first message of that generator to the beginning of its measurement.
    before: Duration,
    /// From there until it is given up.
    limit: Duration,
}

impl Phases {
    /// The phases of the runs of a setup, which was checked.
    pub fn of(setup: &Setup) -> Phases {
        let (workload, measuring) = (&setup.workload, &setup.measuring);
        let population = Population::of(setup).ok().flatten();
        let is_steady = measuring.warm_up == WarmUp::Steady && !workload.find_peak;
        let is_long = population.is_none() && measuring.is_long(workload.hold);
        let apart = is_steady && population.is_none() && !is_long;
        let warm_up = match measuring.warm_up {
            WarmUp::Fixed(length) => length,
            WarmUp::Steady if is_long => workload.hold + SETTLE,
            WarmUp::Steady => SETTLE,
        };
        let before = population.as_ref().map_or(warm_up, Population::before);
        let limit = match &population {
            _ if workload.find_peak => search_limit(setup) + GENERATOR_ENDS,
            Some(population) => population.whole() + GENERATOR_ENDS,
            None => warm_up + measuring.measure + workload.hold + GENERATOR_ENDS,
        };
        Phases { population, apart, warm_up, is_judged: is_steady && !apart, before, limit }
    }

    /// Whether the warm-up before a measurement that begins at `from` ended steady, and what was not. Nothing
    /// if it was not to, or was too short to tell.
    pub fn judged(
        &self,
        report: &Report,
        samples: &SeriesReport,
        from: f64,
    ) -> Option<(bool, Option<String>)> {
        let warm_up = (from - report.windows.warm_up, from);
        self.is_judged.then(|| warm_up::was_steady(samples, warm_up)).flatten()
    }

    /// When the measurement begins, and until when the generator is waited for, of one that has its first
    /// message at `begins`.
    pub fn from(&self, begins: Instant) -> (Instant, Instant) {
        (begins + self.before, begins + self.limit)
    }
}

/// When the measurement of a report was, seconds since `origin`.
pub fn window(report: &Report, origin: Instant) -> (f64, f64) {
    // Both are read off the same clock, which may have been set meanwhile.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let from = report.began - (now.as_secs_f64() - origin.elapsed().as_secs_f64()) + report.windows.before();
    (from, from + report.windows.measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::Workload;
    use load::report::Windows;

    fn phases(workload: Workload) -> Phases {
        Phases::of(&Setup { workload, ..Setup::default() })
    }

    #[test]
    fn short_calls_are_warmed_up_by_a_generator_of_their_own() {
        let phases = phases(Workload::default());
        assert!(phases.apart && !phases.is_judged);
        assert_eq!(phases.warm_up, SETTLE);
    }

    #[test]
    fn long_calls_and_users_are_warmed_up_by_the_run_that_measures() {
        let long = phases(Workload { hold: Duration::from_secs(20), ..Workload::default() });
        assert!(!long.apart && long.is_judged);
        assert_eq!(
            (long.warm_up, long.limit),
            (Duration::from_secs(21), Duration::from_secs(21 + 10 + 20 + 90))
        );
        let people = phases(Workload { users: 100, compress: 60.0, ..Workload::default() });
        assert!(!people.apart && people.is_judged);
        let begins = Instant::now();
        assert_eq!(people.from(begins).0, begins + Duration::from_secs(20));
        let search = phases(Workload { users: 100, find_peak: true, ..Workload::default() });
        assert!(!search.apart && !search.is_judged);
    }

    #[test]
    fn long_search_is_not_ended_before_its_trials_are_over() {
        let mut setup =
            Setup { workload: Workload { find_peak: true, ..Workload::default() }, ..Setup::default() };
        setup.measuring.measure = Duration::from_secs(600);
        // Sixty trials of ten minutes.
        assert!(Phases::of(&setup).limit > Duration::from_secs(36_000));
    }

    #[test]
    fn window_is_that_of_the_report() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let windows = Windows { ramp: 3.0, warm_up: 2.0, measured: 7.0, ..Windows::default() };
        let report = Report { began: now + 1.5, windows, ..Report::default() };
        let (from, until) = window(&report, Instant::now());
        assert!((6.4..=6.6).contains(&from), "{from}");
        assert!((until - from - 7.0).abs() < 1e-9);
    }
}
