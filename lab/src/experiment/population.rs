//! The population of a workload: its numbers as the generator takes them, and how long its phases last.

use super::{Measuring, Setup, WarmUp, Workload};
use load::population::Parameters;
use std::time::Duration;

/// Numbers of a population that other keys set, with these keys.
const ELSEWHERE: [(&str, &str); 4] = [
    ("users", "users"),
    ("compression", "compress"),
    ("measure", "`measure` at the top"),
    ("warm_up", "`warm_up` at the top"),
];
/// A search makes many runs. Requests without an answer at the end have failed all the same.
const COOL_DOWN_OF_TRIAL: f64 = 10.0;
/// Between two trials.
const REST: Duration = Duration::from_secs(2);

/// A population as it is in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    parameters: Parameters,
    options: Vec<String>,
}

impl Population {
    /// The population of a setup; nothing where scenarios are played.
    ///
    /// # Errors
    /// A key of `[workload]` that the generator would refuse, and why.
    pub fn of(setup: &Setup) -> Result<Option<Population>, (&'static str, String)> {
        let Setup { workload, measuring, .. } = setup;
        if workload.users == 0 {
            return Ok(None);
        }
        let mut parameters =
            Parameters { users: workload.users, compression: workload.compress, ..Parameters::default() };
        if workload.find_peak {
            parameters.cool_down = COOL_DOWN_OF_TRIAL;
        }
        let mut options = Vec::new();
        for pair in numbers(workload)? {
            let (key, value) = pair.split_once('=').unwrap_or((&pair, ""));
            parameters.set(key, value).map_err(|error| ("with", error.to_string()))?;
            options.push(pair);
        }
        parameters.warm_up = warm_up(&parameters, measuring);
        parameters.measure = measuring.measure.as_secs_f64() * workload.compress;
        parameters.check().map_err(|error| ("users", error.to_string()))?;
        options.push(format!("warm_up={}", parameters.warm_up));
        Ok(Some(Population { parameters, options }))
    }

    /// The values of `--with`.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// From the beginning of the generator's run to that of the measurement.
    pub fn before(&self) -> Duration {
        let Parameters { ramp, warm_up, .. } = self.parameters;
        self.on_the_clock(ramp + warm_up)
    }

    /// From the beginning of the generator's run to its end.
    pub fn whole(&self) -> Duration {
        let Parameters { measure, cool_down, .. } = self.parameters;
        self.before() + self.on_the_clock(measure) + Duration::from_secs_f64(cool_down)
    }

    /// How long a trial of a search takes.
    pub fn trial(&self) -> Duration {
        self.whole() + REST
    }

    /// The users' time as that of the clock. The numbers were checked: it is finite, and days at most.
    fn on_the_clock(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.parameters.compression)
    }
}

/// The pairs of `with`, and that of `hold`.
fn numbers(workload: &Workload) -> Result<Vec<String>, (&'static str, String)> {
    let mut pairs = Vec::new();
    for pair in &workload.with {
        let Some((key, _)) = pair.split_once('=') else {
            return Err(("with", format!("\"{pair}\" is no KEY=VALUE such as \"think=30m\"")));
        };
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(name, _)| *name == key) {
            return Err(("with", format!("`{key}` has a key of its own: {instead}")));
        }
        if key == "hold" && !workload.hold.is_zero() {
            return Err(("with", "`hold` twice".to_owned()));
        }
        pairs.push(pair.clone());
    }
    if !workload.hold.is_zero() {
        // The shape is that of the generator's default.
        pairs.push(format!("hold=lognormal(mean_time={}ms,sigma=1)", workload.hold.as_millis()));
    }
    Ok(pairs)
}

/// Seconds of the users' time before the measurement. Until steady: ten minutes as in the paper, or the limit
/// on the clock if that is less.
fn warm_up(parameters: &Parameters, measuring: &Measuring) -> f64 {
    match measuring.warm_up {
        WarmUp::Fixed(length) => length.as_secs_f64() * parameters.compression,
        WarmUp::Steady => {
            parameters.warm_up.min(measuring.warm_up_limit.as_secs_f64() * parameters.compression)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(workload: Workload) -> Setup {
        Setup { workload, ..Setup::default() }
    }

    fn people() -> Workload {
        Workload { users: 100, compress: 60.0, ..Workload::default() }
    }

    #[test]
    fn phases_of_population_are_on_the_clock() {
        let population = Population::of(&setup(people())).expect("valid").expect("users");
        // Ramp and warm-up of ten minutes each, sixty times as fast; 10 s measured; 35 s until all has ended.
        assert_eq!(population.before(), Duration::from_secs(20));
        assert_eq!(population.whole(), Duration::from_secs(65));
        let mut fixed = setup(Workload { with: vec!["ramp=1200".to_owned()], ..people() });
        fixed.measuring.warm_up = WarmUp::Fixed(Duration::from_secs(3));
        let population = Population::of(&fixed).expect("valid").expect("users");
        assert_eq!(population.before(), Duration::from_secs(23));
        assert_eq!(population.options(), ["ramp=1200", "warm_up=180"]);
    }

    #[test]
    fn warm_up_of_population_keeps_its_limit() {
        let slow = setup(Workload { compress: 1.0, ..people() });
        let population = Population::of(&slow).expect("valid").expect("users");
        assert_eq!(population.before(), Duration::from_secs(600 + 30));
    }

    #[test]
    fn numbers_that_do_not_fit_are_named() {
        let wrong = |workload| Population::of(&setup(workload)).expect_err("refused");
        let with = |pair: &str| Workload { with: vec![pair.to_owned()], ..people() };
        assert_eq!(wrong(with("measure=1")).0, "with");
        assert!(wrong(with("thinking=1")).1.contains("think"));
        assert!(wrong(with("think")).1.contains("KEY=VALUE"));
        let twice = Workload { hold: Duration::from_secs(1), ..with("hold=1") };
        assert_eq!(wrong(twice), ("with", "`hold` twice".to_owned()));
        assert_eq!(wrong(Workload { users: 1, ..people() }).0, "users");
        assert_eq!(Population::of(&setup(Workload::default())), Ok(None));
    }

    #[test]
    fn search_of_users_knows_more_than_it_begins_with() {
        let search = Workload { find_peak: true, ..people() };
        assert_eq!((people().known_users(), search.known_users()), (100, 1_000));
        assert_eq!(Workload { most_users: 500, ..search }.known_users(), 500);
        assert_eq!(Workload::default().known_users(), 2_000);
    }
}
