//! The phases of a run.

use super::parameters::Parameters;
use core::time::Duration;
use wire::Time;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The first registrations.
    Ramp,
    /// Load as in the measured window, not counted.
    WarmUp,
    /// What the report is about.
    Measured,
    /// Nothing new begins.
    CoolDown,
    /// Past the end.
    Over,
}

/// When the phases of a run begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    starts: [Time; 5],
}

impl Phases {
    /// Phases of these lengths from `start` on, one after the other; lengths may be zero.
    pub fn new(
        start: Time,
        ramp: Duration,
        warm_up: Duration,
        measure: Duration,
        cool_down: Duration,
    ) -> Phases {
        let mut starts = [start; 5];
        let mut at = start;
        for (next, length) in starts.iter_mut().skip(1).zip([ramp, warm_up, measure, cool_down]) {
            at = at + length;
            *next = at;
        }
        Phases { starts }
    }

    /// The phases of a population run: times compressed, except the cool-down.
    pub fn of(parameters: &Parameters, start: Time) -> Phases {
        let human = |seconds: f64| seconds_of(seconds / parameters.compression);
        Phases::new(
            start,
            human(parameters.ramp),
            human(parameters.warm_up),
            human(parameters.measure),
            seconds_of(parameters.cool_down),
        )
    }

    /// The phase that `now` is in. Before the start it is the first one.
    pub fn phase_at(&self, now: Time) -> Phase {
        let [_, warm_up, measured, cool_down, over] = self.starts;
        match now {
            _ if now < warm_up => Phase::Ramp,
            _ if now < measured => Phase::WarmUp,
            _ if now < cool_down => Phase::Measured,
            _ if now < over => Phase::CoolDown,
            _ => Phase::Over,
        }
    }

    /// When `phase` begins (if it has no length, when it would).
    pub fn start_of(&self, phase: Phase) -> Time {
        let [ramp, warm_up, measured, cool_down, over] = self.starts;
        match phase {
            Phase::Ramp => ramp,
            Phase::WarmUp => warm_up,
            Phase::Measured => measured,
            Phase::CoolDown => cool_down,
            Phase::Over => over,
        }
    }

    /// The measured window, begin and end.
    pub fn window(&self) -> (Time, Time) {
        (self.start_of(Phase::Measured), self.start_of(Phase::CoolDown))
    }
}

fn seconds_of(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other() {
        let parameters = Parameters { compression: 60.0, ..Parameters::default() };
        let phases = Phases::of(&parameters, Time::from_secs(100));
        let at = |seconds| phases.phase_at(Time::from_secs(seconds));
        assert_eq!([at(0), at(100), at(109)], [Phase::Ramp; 3]);
        assert_eq!([at(110), at(119)], [Phase::WarmUp; 2]);
        assert_eq!([at(120), at(239)], [Phase::Measured; 2]);
        assert_eq!([at(240), at(274)], [Phase::CoolDown; 2]);
        assert_eq!([at(275), at(9_999)], [Phase::Over; 2]);
        assert_eq!(phases.window(), (Time::from_secs(120), Time::from_secs(240)));
        assert_eq!(phases.start_of(Phase::Over), Time::from_secs(275));
    }

    #[test]
    fn phases_without_length_do_not_occur() {
        let zero = Duration::ZERO;
        let phases = Phases::new(Time::ZERO, zero, zero, Duration::from_secs(1), zero);
        assert_eq!(phases.phase_at(Time::ZERO), Phase::Measured);
        assert_eq!(phases.phase_at(Time::from_secs(1)), Phase::Over);
    }
}
