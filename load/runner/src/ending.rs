//! How a run comes to its end, and what is missing if it was stopped.

use super::args::LoadArgs;
use control::signals::Signal;
use load::metrics::{Missing, Stop};
use std::time::Duration;
use wire::Time;

/// How a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All calls were made.
    Done,
    /// `--timeout`.
    TimeOut,
    /// A signal stopped it.
    Asked(Signal),
}

/// The end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Why it ended.
    pub ended: Ended,
    /// From when on no more calls began, if it was told so from outside.
    pub quit: Option<Time>,
    /// The last signal, and when it came.
    signal: Option<(Signal, Time)>,
    /// Calls were to begin when the first signal came.
    begins: bool,
    /// Calls under way were cut off.
    cut: bool,
}

impl Ending {
    /// A run that has not been told to end.
    pub fn new() -> Ending {
        Ending { ended: Ended::Done, quit: None, signal: None, begins: false, cut: false }
    }

    /// It is told to end; `begins`: more calls were to begin. Whether it ends at once, as at a second signal.
    pub fn told(&mut self, now: Time, why: Ended, begins: bool) -> bool {
        let first = self.quit.is_none();
        if first {
            (self.ended, self.quit, self.begins) = (why, Some(now), begins);
        }
        let Ended::Asked(wish) = why else { return false };
        self.ended = why;
        self.signal = self.signal.or(Some((wish, now)));
        self.cut |= !first;
        !first
    }

    /// Its calls under way had no more time.
    pub fn given_up(&mut self) {
        self.cut = true;
    }

    /// Who stopped a run that began at `started`; `plan`: the end that it was to have.
    pub fn stop(&self, started: Time, plan: &Planned) -> Option<Stop> {
        let (wish, at) = self.signal?;
        let mut words = stopped(wish, at.since(started));
        // The end of `--timeout` was its plan, and came before the signal.
        let before =
            self.quit == Some(at) && self.begins && !matches!(plan, Planned::Never | Planned::Answers);
        let missing = match (before, self.cut && *plan != Planned::Answers) {
            (true, _) => Missing::Plan,
            (false, true) => Missing::Calls,
            (false, false) => Missing::Nothing,
        };
        if let (Missing::Plan, Planned::At(length)) = (missing, plan) {
            words += &format!("; planned: {}", time(*length));
        }
        Some(Stop { words, missing })
    }
}

/// The end that a run is to have without a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planned {
    /// So long after its beginning at the latest.
    At(Duration),
    /// When its calls have been made.
    Calls,
    /// None: it goes on until it is stopped.
    Never,
    /// None, and it answers calls of others, which may be cut off by its end.
    Answers,
}

impl Planned {
    /// The end of a run of scenarios; `begins`: calls begin here, `ends`: their arrivals end by themselves.
    pub fn of_calls(args: &LoadArgs, begins: bool, ends: bool) -> Planned {
        match (args.timeout.is_some() || args.most.is_some() || ends, begins) {
            (true, _) => Planned::Calls,
            (false, true) => Planned::Never,
            (false, false) => Planned::Answers,
        }
    }
}

/// Who stopped something, and when.
pub fn stopped(wish: Signal, after: Duration) -> String {
    let who = if wish == Signal::Stop { "SIGTERM" } else { "the user" };
    format!("{STOPPED}{who} after {}", time(after))
}

/// How [`stopped`] begins.
pub const STOPPED: &str = "stopped by ";

/// That `--timeout` came before this number of calls of `-m` had begun.
pub fn timed_out(args: &LoadArgs, ended: Ended, begun: u64) -> Option<String> {
    let most = args.most.filter(|&most| ended == Ended::TimeOut && begun < most)?;
    let limit = args.timeout.as_deref().unwrap_or_default();
    Some(format!("{TIMED_OUT} {limit}: {begun} of {most} calls (-m) had begun"))
}

/// How the note of [`timed_out`] begins.
pub const TIMED_OUT: &str = "ended by --timeout";

/// A time for people.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 1..600 => format!("{seconds} s"),
        seconds @ 600..36_000 => match (seconds / 60, seconds % 60) {
            (minutes, 0) => format!("{minutes} min"),
            (minutes, rest) => format!("{minutes} min {rest} s"),
        },
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(100);

    fn at(seconds: u64) -> Time {
        START + Duration::from_secs(seconds)
    }

    #[test]
    fn stopped_run_misses_its_plan_only_where_it_has_one() {
        let asked = |begins: bool, signals: u64, plan: Planned| {
            let mut ending = Ending::new();
            for n in 0..signals {
                assert_eq!(ending.told(at(10 + n), Ended::Asked(Signal::Interrupt), begins), n > 0);
            }
            assert_eq!((ending.ended, ending.quit), (Ended::Asked(Signal::Interrupt), Some(at(10))));
            ending.stop(START, &plan).map(|stop| stop.missing)
        };
        let length = Planned::At(Duration::from_secs(120));
        assert_eq!([1, 2].map(|n| asked(true, n, length)), [Some(Missing::Plan); 2]);
        assert_eq!(asked(true, 1, Planned::Calls), Some(Missing::Plan));
        assert_eq!(asked(false, 1, length), Some(Missing::Nothing), "all had begun, and all ended");
        assert_eq!(asked(false, 2, length), Some(Missing::Calls));
        assert_eq!(asked(true, 1, Planned::Never), Some(Missing::Nothing));
        assert_eq!(asked(true, 2, Planned::Never), Some(Missing::Calls));
        assert_eq!(asked(true, 2, Planned::Answers), Some(Missing::Nothing));
    }

    #[test]
    fn stopped_run_names_who_and_when() {
        let words = |wish: Signal, plan: Planned| {
            let mut ending = Ending::new();
            ending.told(at(10), Ended::Asked(wish), true);
            ending.stop(START, &plan).map(|stop| stop.words).unwrap_or_default()
        };
        assert_eq!(words(Signal::Interrupt, Planned::Calls), "stopped by the user after 10 s");
        assert_eq!(words(Signal::Stop, Planned::Never), "stopped by SIGTERM after 10 s");
        let length = Planned::At(Duration::from_secs(8_435));
        assert_eq!(words(Signal::Interrupt, length), "stopped by the user after 10 s; planned: 140 min 35 s");
    }

    #[test]
    fn signal_after_the_timeout_cuts_calls_off() {
        let mut ending = Ending::new();
        assert!(!ending.told(at(5), Ended::TimeOut, true));
        assert_eq!(ending.stop(START, &Planned::Calls), None, "nobody stopped it");
        assert!(ending.told(at(7), Ended::Asked(Signal::Interrupt), false));
        let stop = ending.stop(START, &Planned::Calls).expect("it was stopped");
        assert_eq!((stop.missing, stop.words.as_str()), (Missing::Calls, "stopped by the user after 7 s"));
        assert_eq!((ending.ended, ending.quit), (Ended::Asked(Signal::Interrupt), Some(at(5))));
    }

    #[test]
    fn timeout_before_the_last_call_is_told() {
        let of = |line: &str, ended, begun| timed_out(&LoadArgs::of(line.split(' ')), ended, begun);
        let said = of("h -m 100 --timeout 5s", Ended::TimeOut, 50);
        assert_eq!(said.as_deref(), Some("ended by --timeout 5s: 50 of 100 calls (-m) had begun"));
        assert_eq!(of("h -m 100 --timeout 5s", Ended::TimeOut, 100), None);
        assert_eq!(of("h -m 100 --timeout 5s", Ended::Done, 50), None);
        assert_eq!(of("h --timeout 5s", Ended::TimeOut, 50), None);
    }

    #[test]
    fn times_are_written_for_people() {
        let of = |seconds: f64| time(Duration::from_secs_f64(seconds));
        assert_eq!([0.25, 10.9, 599.0].map(of), ["0.2 s", "10 s", "599 s"]);
        assert_eq!([600.0, 8_435.0, 90_000.0].map(of), ["10 min", "140 min 35 s", "25 h 0 min"]);
    }
}
