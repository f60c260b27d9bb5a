//! A search for verdicts that a single hiccup of the machine can turn: each load is judged by the majority of
//! up to three runs.

use super::super::distribution::Impossible;
use super::{Outcome, Peak, Purpose, Trial, Verdict, round};

/// Verdicts of one kind that decide about a load, of at most three.
const MAJORITY: u32 = 2;

/// A geometric ramp by [`Majority::STEP`] until a load fails (or, downwards, until one conforms), then the
/// geometric middle between both, until they are within `resolution`. A load conforms if two of three runs
/// there do.
///
/// The testbed's own rate (RFC 7502 section 6.1) is found so: the RFC's own search asks for one flawless run
/// of 50,000 attempts at each rate, which on a machine that the host takes away now and then measures the
/// host. A run without a verdict counts as one that fails, as here the generator itself is on trial.
pub struct Majority {
    at: f64,
    lowest: f64,
    highest: f64,
    resolution: f64,
    good: Option<f64>,
    bad: Option<f64>,
    /// Runs at the load under trial, and how many of them conformed.
    runs: (u32, u32),
    /// The same of `good`, when it was decided.
    good_runs: (u32, u32),
    trials: u32,
    over: bool,
}

impl Majority {
    /// The factor of the ramp.
    pub const STEP: f64 = 2.0;

    pub(super) fn new(
        start: f64,
        (lowest, highest): (f64, f64),
        resolution: f64,
    ) -> Result<Majority, Impossible> {
        let possible = lowest >= 1.0 && start >= lowest && highest >= start && highest <= 1e15;
        if !possible || !(0.01..=1.0).contains(&resolution) {
            return Err(Impossible::new(format!(
                "search by majority: needs 1 <= lowest <= start <= highest <= 1e15 and a resolution from 0.01 \
                 to 1, not lowest={lowest} start={start} highest={highest} resolution={resolution}"
            )));
        }
        Ok(Majority {
            at: start.floor(),
            lowest,
            highest,
            resolution,
            good: None,
            bad: None,
            runs: (0, 0),
            good_runs: (0, 0),
            trials: 0,
            over: false,
        })
    }

    pub(super) fn next(&self) -> Option<Trial> {
        let purpose = match (self.runs.0, self.good, self.bad) {
            (1.., ..) => Purpose::Confirm,
            (0, Some(_), Some(_)) => Purpose::Narrow,
            (0, ..) => Purpose::Bracket,
        };
        (!self.over).then_some(Trial { load: self.at, number: self.trials + 1, purpose, attempts: None })
    }

    pub(super) fn result(&mut self, trial: &Trial, verdict: Verdict) -> Option<Peak> {
        if self.over || trial.load != self.at || trial.number != self.trials + 1 {
            return None;
        }
        self.trials += 1;
        self.runs.0 += 1;
        self.runs.1 += u32::from(verdict == Verdict::Conforms);
        let (runs, conforming) = self.runs;
        if conforming == MAJORITY {
            (self.good, self.good_runs) = (Some(self.at), self.runs);
        } else if runs - conforming == MAJORITY {
            self.bad = Some(self.at);
        } else {
            return None;
        }
        self.runs = (0, 0);
        self.at = match (self.good, self.bad) {
            (Some(good), Some(bad)) => {
                let middle = round((good * bad).sqrt(), 1.0);
                if bad / good <= 1.0 + self.resolution || middle <= good {
                    return Some(self.end(Outcome::Found));
                }
                middle
            }
            (Some(good), None) if good >= self.highest => return Some(self.end(Outcome::AtLeast)),
            (None, _) if self.at <= self.lowest => return Some(self.end(Outcome::Nothing)),
            (Some(good), None) => round((good * Self::STEP).min(self.highest), 1.0),
            (None, _) => round((self.at / Self::STEP).max(self.lowest), 1.0),
        };
        None
    }

    /// The answer when there is no time for more trials.
    pub(super) fn stop(&mut self) -> Peak {
        self.end(Outcome::Stopped)
    }

    fn end(&mut self, outcome: Outcome) -> Peak {
        self.over = true;
        let outcome = if self.good.is_none() { Outcome::Nothing } else { outcome };
        Peak {
            load: self.good.unwrap_or(self.lowest),
            outcome,
            confidence: None,
            interval: None,
            runs: self.good_runs,
            trials: self.trials,
        }
    }
}
