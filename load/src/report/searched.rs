//! What a search for the largest load adds to the report of a run: its trials, and its own answer.

use serde::{Deserialize, Serialize};

use super::build::{OURS, Rows};
use super::format::{number, round};
use super::model::{Better, Report, Trial};
use crate::population::{Outcome, Peak};

/// The answer of a search. A trial above it that passed was luck, one below it that failed bad luck: the
/// search knows how often that happens.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Searched {
    /// "found", "at_least", "generator_limit", "disturbed", "out_of_trials", "stopped", "nothing" or
    /// "unknown".
    pub outcome: String,
    /// The largest load that conforms; nothing where none does.
    pub load: Option<f64>,
    /// "users", "calls/s".
    pub unit: String,
    /// The answer in words.
    pub statement: String,
    /// The probability that the true peak is not below `load`.
    pub confidence: Option<f64>,
    /// Where the true peak lies with a probability of 90 %.
    pub interval: Option<(f64, f64)>,
    /// Runs at this very load.
    pub runs: u32,
    /// Those of them that conformed.
    pub conforming: u32,
    /// All trials, void ones included.
    pub trials: u32,
}

impl Searched {
    fn new(peak: &Peak, unit: &str) -> Searched {
        let (outcome, found) = match peak.outcome {
            Outcome::Found => ("found", true),
            Outcome::AtLeast => ("at_least", true),
            Outcome::GeneratorLimit => ("generator_limit", true),
            Outcome::Disturbed => ("disturbed", true),
            Outcome::OutOfTrials => ("out_of_trials", true),
            Outcome::Stopped => ("stopped", true),
            Outcome::Nothing => ("nothing", false),
            Outcome::Unknown => ("unknown", false),
        };
        Searched {
            outcome: outcome.to_owned(),
            load: found.then(|| round(peak.load)),
            unit: unit.to_owned(),
            statement: peak.statement(unit),
            confidence: peak.confidence.map(round),
            interval: peak.interval.map(|(low, high)| (round(low), round(high))),
            runs: peak.runs.0,
            conforming: peak.runs.1,
            trials: peak.trials,
        }
    }

    /// The load for a table: "at least 400 calls/s".
    pub(super) fn words(&self) -> String {
        let Some(load) = self.load else { return "none".to_owned() };
        let load = format!("{} {}", number(load), self.unit);
        match self.outcome.as_str() {
            "found" => load,
            "disturbed" | "out_of_trials" | "stopped" => format!("{load}, not confirmed"),
            _ => format!("at least {load}"),
        }
    }
}

impl Report {
    /// The same report as that of a whole search: `self` is of the run that stands for its answer, `unit`
    /// that of the loads.
    #[must_use]
    pub fn searched(mut self, trials: Vec<Trial>, peak: &Peak, unit: &str) -> Report {
        let found = Searched::new(peak, unit);
        let mut rows = Rows(Vec::new());
        rows.add("peak", "Largest load", found.load, unit, Better::Higher).says(&found.statement, OURS);
        let ends = found.interval.map_or((None, None), |(low, high)| (Some(low), Some(high)));
        for (key, name, value) in [
            ("peak.low", "Largest load, lower end of the interval", ends.0),
            ("peak.high", "Largest load, upper end of the interval", ends.1),
        ] {
            rows.add(key, name, value, unit, Better::Higher).says(
                "The load at which half of all runs conform is in the interval with 90 % probability.",
                OURS,
            );
        }
        let above =
            trials.iter().filter(|t| t.verdict == "FAIL" && found.load.is_none_or(|load| t.load > load));
        let failed = above.map(|t| t.load).reduce(f64::min);
        rows.add("peak.failed", "Smallest load above it that failed", failed, unit, Better::Higher)
            .says("Of the loads that were tried.", OURS);
        rows.0.append(&mut self.metrics);
        (self.metrics, self.trials, self.peak) = (rows.0, trials, Some(found));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Rule;
    use crate::report::build::tests::run;

    fn trial(load: f64, verdict: &str) -> Trial {
        Trial { load, unit: "users".to_owned(), verdict: verdict.to_owned(), ..Trial::default() }
    }

    fn report(outcome: Outcome, load: f64) -> Report {
        let (inputs, m) = run(3);
        // 700 passed and 200 failed by chance.
        let trials = [(200.0, "FAIL"), (400.0, "PASS"), (600.0, "FAIL"), (700.0, "PASS"), (500.0, "VOID")];
        let trials = trials.iter().map(|(load, verdict)| trial(*load, verdict)).collect();
        let peak = Peak {
            load,
            outcome,
            confidence: Some(0.9),
            interval: Some((390.0, 410.0)),
            runs: (3, 3),
            trials: 5,
        };
        Report::build(inputs, &m, &Rule::default(), &[]).searched(trials, &peak, "users")
    }

    #[test]
    fn the_answer_is_the_searchs_own() {
        let r = report(Outcome::Found, 400.0);
        let of = |key: &str| r.metric(key);
        assert_eq!((of("peak"), of("peak.failed")), (Some(400.0), Some(600.0)));
        assert_eq!((of("peak.low"), of("peak.high")), (Some(390.0), Some(410.0)));
        assert_eq!(r.trials.len(), 5);
        let peak = r.peak.as_ref().expect("its answer");
        assert!(peak.statement.starts_with("peak: 400 users (3 of 3 runs"), "{}", peak.statement);
        assert_eq!((peak.words().as_str(), peak.runs, peak.conforming), ("400 users", 3, 3));
        assert_eq!(Report::from_json(&r.to_json()).as_ref(), Ok(&r));
        let page = crate::report::html(&r);
        assert!(page.contains("Largest load") && page.contains(&peak.statement), "the page says it");
    }

    #[test]
    fn a_search_without_an_answer_has_no_load() {
        for outcome in [Outcome::Nothing, Outcome::Unknown] {
            let r = report(outcome, 2.0);
            assert_eq!((r.metric("peak"), r.metric("peak.failed")), (None, Some(200.0)));
            assert_eq!(r.peak.map(|peak| peak.words()).as_deref(), Some("none"));
        }
        let words = |outcome| report(outcome, 400.0).peak.map(|peak| peak.words()).unwrap_or_default();
        assert_eq!(words(Outcome::AtLeast), "at least 400 users");
        for outcome in [Outcome::OutOfTrials, Outcome::Disturbed, Outcome::Stopped] {
            assert_eq!(words(outcome), "400 users, not confirmed");
        }
    }
}
