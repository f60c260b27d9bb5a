//! The search of RFC 7502 section 4.10, for session establishment, registration and re-registration rates.

use super::super::distribution::Impossible;
use super::{Outcome, Peak, Purpose, Trial, VOID_LIMIT, Verdict};

/// RFC 7502's algorithm as its pseudocode has it. A trial succeeds if none of its attempts failed.
///
/// Beyond the RFC, which does not say: no rate above the highest allowed is tried, and the search ends with a
/// success there; a void run is made again; after three in a row, or after [`Rfc7502::TRIALS`] trials without
/// convergence, the search ends and says so.
pub struct Rfc7502 {
    attempts: u64,
    rate: f64,
    /// No rate beyond it is tried.
    highest: f64,
    increase: f64,
    decrease: f64,
    /// `old_r`.
    best: f64,
    count: u32,
    trials: u32,
    voids: u32,
    /// A rate has failed.
    failed: bool,
    /// Verdicts at the best rate, and how many were good.
    at_best: (u32, u32),
    over: bool,
}

/// Successes without a new maximum after which the search has converged.
const CONVERGED: u32 = 10;

impl Rfc7502 {
    /// Trials at most.
    pub const TRIALS: u32 = 500;

    pub(super) fn new(rate: f64, attempts: u64, w: f64, highest: f64) -> Result<Rfc7502, Impossible> {
        if !(w > 0.0 && w <= 1.0) {
            return Err(Impossible::new(format!(
                "w={w} must be above 0 and at most 1 (RFC 7502 section 4.10)"
            )));
        }
        if !(rate.is_finite() && (rate + w * rate).floor() > rate.floor()) {
            return Err(Impossible::new(format!(
                "a first rate of {rate}/s does not grow by the weight {w}, as rates are whole numbers; begin \
                 with 100 (RFC 7502 section 4.10)"
            )));
        }
        if attempts == 0 {
            return Err(Impossible::new("a trial needs attempts; RFC 7502 section 4.10 has 50000"));
        }
        if rate.floor() > highest {
            return Err(Impossible::new(format!(
                "a first rate of {rate}/s is above the highest to be tried, {highest}/s; begin with a lower one"
            )));
        }
        Ok(Rfc7502 {
            attempts,
            rate: rate.floor(),
            highest,
            increase: w,
            decrease: f64::max(0.10, w / 2.0),
            best: 0.0,
            count: 0,
            trials: 0,
            voids: 0,
            failed: false,
            at_best: (0, 0),
            over: false,
        })
    }

    pub(super) fn next(&self) -> Option<Trial> {
        let purpose = if self.best == 0.0 { Purpose::Bracket } else { Purpose::Narrow };
        let attempts = Some(self.attempts);
        (!self.over).then_some(Trial { load: self.rate, number: self.trials + 1, purpose, attempts })
    }

    pub(super) fn result(&mut self, trial: &Trial, verdict: Verdict) -> Option<Peak> {
        if self.over || trial.load != self.rate || trial.number != self.trials + 1 {
            return None;
        }
        self.trials += 1;
        self.voids = if verdict == Verdict::Void { self.voids + 1 } else { 0 };
        match verdict {
            Verdict::Void if self.voids < VOID_LIMIT => {}
            // Where a rate has failed the generator could offer it, and is no limit.
            Verdict::Void if self.failed => return Some(self.end(Outcome::Disturbed)),
            Verdict::Void => return Some(self.end(Outcome::GeneratorLimit)),
            Verdict::Conforms => {
                if self.rate > self.best {
                    self.best = self.rate;
                    self.at_best = (1, 1);
                } else {
                    if self.rate == self.best {
                        self.at_best = (self.at_best.0 + 1, self.at_best.1 + 1);
                    }
                    self.count += 1;
                    if self.count >= CONVERGED {
                        return Some(self.end(Outcome::Found));
                    }
                }
                let next = (self.rate + self.increase * self.rate).floor().min(self.highest.floor());
                if next <= self.rate && self.rate >= self.highest.floor() {
                    return Some(self.end(Outcome::AtLeast));
                }
                self.rate = next;
            }
            Verdict::Fails => {
                self.failed = true;
                if self.rate == self.best {
                    self.at_best.0 += 1;
                }
                self.rate = (self.rate - self.decrease * self.rate).floor();
                self.decrease = f64::max(0.10, self.decrease / 2.0);
                self.increase = f64::max(0.10, self.increase / 2.0);
            }
        }
        if self.rate < 1.0 {
            return Some(self.end(Outcome::Nothing));
        }
        (self.trials >= Rfc7502::TRIALS).then(|| self.end(Outcome::OutOfTrials))
    }

    /// The answer when nobody waits for more.
    pub(super) fn stop(&mut self) -> Peak {
        self.end(Outcome::Stopped)
    }

    fn end(&mut self, outcome: Outcome) -> Peak {
        self.over = true;
        let outcome = match outcome {
            Outcome::GeneratorLimit | Outcome::Disturbed | Outcome::Stopped if self.best == 0.0 => {
                Outcome::Unknown
            }
            _ if self.best == 0.0 => Outcome::Nothing,
            outcome => outcome,
        };
        let load = if self.best == 0.0 { self.rate.max(1.0) } else { self.best };
        Peak { load, outcome, confidence: None, interval: None, runs: self.at_best, trials: self.trials }
    }
}
