//! The largest load that a server carries (`--find-peak`): what to try next, and when enough is known.
//!
//! A pure state machine: it proposes a trial, somebody runs it and tells the verdict. Three searches:
//! RFC 7502's for rates, to the letter, one that expects verdicts to be wrong now and then, for
//! anything a run takes long for, and one by majority, for the generator's own rate.

mod belief;
mod majority;
mod rfc7502;

use super::distribution::Impossible;
use belief::Belief;
pub use majority::Majority;
pub use rfc7502::Rfc7502;

/// Why a trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To find a load that conforms and one that does not.
    Bracket,
    /// To narrow what lies between.
    Narrow,
    /// To see the result again.
    Confirm,
}

/// A run to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The load: users, or attempts a second.
    pub load: f64,
    /// From 1 on.
    pub number: u32,
    /// Why.
    pub purpose: Purpose,
    /// Attempts to be made at this load, if the search says so; otherwise the run's own length holds.
    pub attempts: Option<u64>,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server kept to its limits.
    Conforms,
    /// It did not.
    Fails,
    /// The load generator did not keep to its own: the run says nothing about the server.
    Void,
}

/// What the answer of a search is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The peak was found and confirmed.
    Found,
    /// The highest load to be tried conforms: the peak is at least there.
    AtLeast,
    /// The generator could not offer more, and no load failed: the peak is at least at this load.
    GeneratorLimit,
    /// Higher loads failed, and of those between nothing is known, for the generator was at fault there; the
    /// load is the largest that conformed, unconfirmed.
    Disturbed,
    /// Not even the lowest load conforms.
    Nothing,
    /// No trial conformed, and the lowest load has no verdict: nothing is known of the peak.
    Unknown,
    /// The allowed trials are used up; the load is the largest that conformed, unconfirmed.
    OutOfTrials,
    /// The search was ended from outside; the load is the largest that conformed, unconfirmed.
    Stopped,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The largest load that conforms.
    pub load: f64,
    /// What the answer is worth.
    pub outcome: Outcome,
    /// The probability, after all verdicts, that the true peak is not below `load`; none where the search
    /// does not say (RFC 7502). The true peak is the load at which half of the runs conform.
    pub confidence: Option<f64>,
    /// Where the true peak lies with a probability of 90 %.
    pub interval: Option<(f64, f64)>,
    /// Runs at this very load, and how many of them conformed.
    pub runs: (u32, u32),
    /// All trials, void ones included.
    pub trials: u32,
}

impl Peak {
    /// The answer in words, for the report.
    pub fn statement(&self, unit: &str) -> String {
        let Peak { load, trials, runs: (runs, conforming), .. } = self;
        let seen = format!("{conforming} of {runs} runs there conformed; {trials} trials");
        let unconfirmed =
            |why: &str| format!("peak NOT confirmed: {load} {unit} conformed, but {why} ({seen})");
        let mut text = match self.outcome {
            Outcome::Found => format!("peak: {load} {unit} ({seen})"),
            Outcome::AtLeast => format!("peak: at least {load} {unit}, the highest load tried ({seen})"),
            Outcome::GeneratorLimit => {
                format!("peak: at least {load} {unit}; the generator could not honestly offer more ({seen})")
            }
            Outcome::Nothing => format!("no peak: even {load} {unit} do not conform ({seen})"),
            Outcome::Unknown => format!(
                "no peak: no trial conformed, and of lower loads nothing is known, for the generator was at fault, \
                 the trials are used up or the search was stopped ({trials} trials)"
            ),
            Outcome::OutOfTrials => unconfirmed("the trials are used up"),
            Outcome::Disturbed => {
                unconfirmed("higher loads failed, and between them the generator was at fault")
            }
            Outcome::Stopped => unconfirmed("the search was stopped"),
        };
        if let (Some(confidence), Some((low, high))) = (self.confidence, self.interval) {
            let percent = 100.0 * confidence;
            text += &format!(
                "; with {percent:.0} % probability half or more of all runs conform at this load; that point \
                 lies between {low:.0} and {high:.0} with 90 %"
            );
        }
        text
    }
}

/// How the robust search goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The first load.
    pub start: f64,
    /// Never below this.
    pub lowest: f64,
    /// Never above this.
    pub highest: f64,
    /// Loads are multiples of this (1: whole users).
    pub unit: f64,
    /// The interval may be this share of the load, each way, when narrowing ends.
    pub resolution: f64,
    /// Runs in a row that must conform at the load that is reported.
    pub confirmations: u32,
    /// Trials at most, void ones included.
    pub trials: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            start: 10_000.0,
            lowest: 1.0,
            highest: 1e9,
            unit: 1.0,
            resolution: 0.01,
            confirmations: 3,
            trials: 60,
        }
    }
}

/// A search for a peak, of whatever kind.
pub enum Search {
    /// RFC 7502 section 4.10.
    Rfc7502(Rfc7502),
    /// For noisy verdicts.
    Robust(Robust),
    /// For verdicts that a hiccup turns: the majority of three.
    Majority(Majority),
}

impl Search {
    /// RFC 7502's search from the session attempt rate `rate` on (the RFC says 100), with `attempts`
    /// (50,000) in each trial and the increase weight `w` (0.10). No rate above `highest` is tried.
    pub fn rfc7502(rate: f64, attempts: u64, w: f64, highest: f64) -> Result<Search, Impossible> {
        Rfc7502::new(rate, attempts, w, highest).map(Search::Rfc7502)
    }

    /// The robust search.
    pub fn robust(options: Options) -> Result<Search, Impossible> {
        Robust::new(options).map(Search::Robust)
    }

    /// The search by majority from `start` on, never below or above `range`, until the load that conforms
    /// and the one that does not are within `resolution` of each other (0.1: ten per cent).
    pub fn majority(start: f64, range: (f64, f64), resolution: f64) -> Result<Search, Impossible> {
        Majority::new(start, range, resolution).map(Search::Majority)
    }

    /// Ends the search with what is known: nobody waits for more.
    pub fn stop(&mut self) -> Peak {
        match self {
            Search::Rfc7502(search) => search.stop(),
            Search::Robust(search) => search.stop(),
            Search::Majority(search) => search.stop(),
        }
    }

    /// The next trial; the same again until its verdict is told. None when the search is over.
    pub fn next(&self) -> Option<Trial> {
        match self {
            Search::Majority(search) => search.next(),
            Search::Rfc7502(search) => search.next(),
            Search::Robust(search) => search.next(),
        }
    }

    /// The verdict on `trial`; the answer if that was the last one.
    pub fn result(&mut self, trial: &Trial, verdict: Verdict) -> Option<Peak> {
        match self {
            Search::Majority(search) => search.result(trial, verdict),
            Search::Rfc7502(search) => search.result(trial, verdict),
            Search::Robust(search) => search.result(trial, verdict),
        }
    }
}

/// Void runs in a row at one load before the generator counts as unable to offer it.
const VOID_LIMIT: u32 = 3;

/// Quantiles of the belief to which trials go in turn.
const SIDES: [f64; 4] = [0.5, 0.2, 0.5, 0.8];

/// The search for noisy verdicts.
///
/// First the load is doubled or halved until the verdict changes. Then a distribution over where the peak may
/// be (with unknown sharpness, and one verdict in fifty simply wrong) is updated with each verdict, and the
/// next trial goes to its middle: probabilistic bisection (Horstein, 1963). When the interval is narrow
/// enough, its lower end is run again: every run must conform, or the search goes on with what that has
/// taught. Where the highest load that may be tried conforms as often, and its belief is as sure, the peak is
/// at least there.
///
/// Against simulated servers with peaks from 2,000 to 800,000, begun at 10,000 (1,000 searches each; the
/// change from conforming to failing is `width` wide relative to the load):
///
/// | width | runs gone wrong | within 2 % of the peak | trials | RFC 7502: within 2 % | trials |
/// |---|---|---|---|---|---|
/// | 0.01 % | none | 100 % | 17 | 100 % | 86 |
/// | 0.2 % | none | 99.7 % | 19 | 100 % | 86 |
/// | 0.5 % | 1 % | 98 % | 29 | 88 % | 86 |
/// | 1 % | 2 % | 95 % | 44 | 70 % | 87 |
/// | 2 % | 5 % | 90 % | 53 | 39 % | 87 |
///
/// There the reported interval held the peak in 90 to 99 % of the searches, and the reported confidence
/// was on average within 3 % of how often it was right.
pub struct Robust {
    options: Options,
    /// All verdicts that count, in order.
    told: Vec<(f64, bool)>,
    belief: Option<Belief>,
    state: State,
    trials: u32,
    voids: u32,
    /// The generator, not the options, has set `highest`.
    limited: bool,
    next: Option<(f64, Purpose)>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Bracket,
    Narrow,
    /// The load, and the runs there that have conformed in a row.
    Confirm(f64, u32, Outcome),
}

impl Robust {
    fn new(options: Options) -> Result<Robust, Impossible> {
        let Options { start, lowest, highest, unit, resolution, confirmations, trials } = options;
        let possible = unit > 0.0 && lowest >= unit && start >= lowest && highest >= start && highest <= 1e15;
        if !possible {
            return Err(Impossible::new(format!(
                "peak search: needs 0 < unit <= lowest <= start <= highest <= 1e15, not unit={unit} \
                 lowest={lowest} start={start} highest={highest}"
            )));
        }
        if !(0.001..=0.5).contains(&resolution) || confirmations == 0 || trials < confirmations + 2 {
            return Err(Impossible::new(format!(
                "peak search: resolution={resolution} must be from 0.001 to 0.5, confirmations={confirmations} \
                 at least 1, trials={trials} at least confirmations + 2"
            )));
        }
        Ok(Robust {
            options,
            told: Vec::new(),
            belief: None,
            state: State::Bracket,
            trials: 0,
            voids: 0,
            limited: false,
            next: Some((round(start, unit), Purpose::Bracket)),
        })
    }

    fn next(&self) -> Option<Trial> {
        let (load, purpose) = self.next?;
        Some(Trial { load, number: self.trials + 1, purpose, attempts: None })
    }

    fn result(&mut self, trial: &Trial, verdict: Verdict) -> Option<Peak> {
        let (load, _) = self.next?;
        if trial.load != load || trial.number != self.trials + 1 {
            // Of an older trial, or told twice.
            return None;
        }
        self.trials += 1;
        let end = if verdict == Verdict::Void {
            self.void(load)
        } else {
            self.voids = 0;
            let conforms = verdict == Verdict::Conforms;
            self.told.push((load, conforms));
            if let Some(belief) = &mut self.belief {
                belief.learn(load, conforms);
            }
            match self.state {
                State::Bracket => self.bracket(load, conforms),
                State::Narrow => self.narrow(),
                State::Confirm(at, runs, outcome) => self.confirm(at, runs, outcome, conforms),
            }
            .or_else(|| self.at_the_top(conforms))
        };
        let end =
            end.or_else(|| (self.trials >= self.options.trials).then(|| self.give_up(Outcome::OutOfTrials)));
        if end.is_some() {
            self.next = None;
        }
        end
    }

    /// The largest load that conformed and the smallest that failed.
    fn bounds(&self) -> (Option<f64>, Option<f64>) {
        let of = |which: bool| self.told.iter().filter(move |(_, ok)| *ok == which).map(|(load, _)| *load);
        (of(true).reduce(f64::max), of(false).reduce(f64::min))
    }

    fn bracket(&mut self, load: f64, conforms: bool) -> Option<Peak> {
        let Options { lowest, highest, unit, .. } = self.options;
        let (good, bad) = self.bounds();
        match (good, bad) {
            (Some(good), Some(bad)) => {
                // Twice as far each way, as either verdict may have been bad luck.
                self.believe((good.min(bad) / 2.0, good.max(bad) * 2.0));
                self.state = State::Narrow;
                self.narrow()
            }
            _ if conforms && load >= round(highest, unit) => {
                self.see_again(load, 1, self.outcome_at_the_top())
            }
            _ if !conforms && load <= lowest => self.see_again(load, 0, Outcome::Nothing),
            _ => {
                let load = if conforms { (load * 2.0).min(highest) } else { (load / 2.0).max(lowest) };
                self.next = Some((round(load, unit), Purpose::Bracket));
                None
            }
        }
    }

    /// Begins the belief again between these loads, with all verdicts so far.
    fn believe(&mut self, (low, high): (f64, f64)) {
        let belief = self.belief.insert(Belief::new(low, high));
        self.told.iter().for_each(|(load, ok)| belief.learn(*load, *ok));
    }

    fn narrow(&mut self) -> Option<Peak> {
        let Options { unit, resolution, lowest, highest, .. } = self.options;
        if let Some(wider) = self.belief.as_ref().and_then(Belief::at_edge) {
            // The verdicts that set the bounds were wrong.
            self.believe(wider);
        }
        let Some(belief) = &self.belief else { return None };
        let (low, middle, high) = (belief.quantile(0.05), belief.quantile(0.5), belief.quantile(0.95));
        if high - low <= (2.0 * resolution * middle).max(2.0 * unit) {
            let load = round(low.clamp(lowest, highest), unit);
            return self.see_again(load, 0, Outcome::Found);
        }
        self.state = State::Narrow;
        // Not always the median: verdicts beside it tell how sharp the peak is, which spares a third of the
        // trials.
        let p = SIDES.get(self.told.len() % SIDES.len()).copied().unwrap_or(0.5);
        let at = belief.quantile(p);
        self.next = Some((round(at.clamp(lowest, highest), unit), Purpose::Narrow));
        None
    }

    fn see_again(&mut self, load: f64, runs: u32, outcome: Outcome) -> Option<Peak> {
        if runs >= self.options.confirmations {
            return Some(self.peak(load, outcome));
        }
        self.state = State::Confirm(load, runs, outcome);
        self.next = Some((load, Purpose::Confirm));
        None
    }

    fn confirm(&mut self, load: f64, runs: u32, outcome: Outcome, conforms: bool) -> Option<Peak> {
        match (outcome, conforms) {
            // Where nothing conforms, two failures say so; a success says that the first one was bad luck.
            (Outcome::Nothing, false) => Some(self.peak(load, outcome)),
            (Outcome::Nothing, true) => {
                self.state = State::Bracket;
                self.bracket(load, true)
            }
            (_, true) => self.see_again(load, runs + 1, outcome),
            (Outcome::Found, false) => self.narrow(),
            (_, false) => {
                self.state = State::Bracket;
                self.bracket(load, false)
            }
        }
    }

    /// The answer where the highest load has conformed as often as a confirmation asks, and an early failure
    /// below it is no longer believed, as surely as narrowing has to be. Nothing above it is tried, so that a
    /// belief that reaches beyond never gets narrow.
    fn at_the_top(&self, conforms: bool) -> Option<Peak> {
        let top = round(self.options.highest, self.options.unit);
        let there = self.told.iter().rev().filter(|(load, _)| *load == top);
        let in_a_row = there.take_while(|(_, ok)| *ok).count() as u32;
        let sure = self.belief.as_ref().is_none_or(|belief| belief.quantile(0.05) >= top);
        (conforms && in_a_row >= self.options.confirmations && sure)
            .then(|| self.peak(top, self.outcome_at_the_top()))
    }

    fn outcome_at_the_top(&self) -> Outcome {
        if self.limited { Outcome::GeneratorLimit } else { Outcome::AtLeast }
    }

    /// A run that says nothing: once more, or less load.
    fn void(&mut self, load: f64) -> Option<Peak> {
        self.voids += 1;
        if self.voids < VOID_LIMIT {
            return None;
        }
        self.voids = 0;
        self.limited = true;
        let (good, bad) = self.bounds();
        let Options { lowest, unit, resolution, .. } = self.options;
        if bad.is_some() {
            // It could offer more than what conforms, so that it is no limit; only where the peak is, is not
            // known.
            return Some(self.give_up(Outcome::Disturbed));
        }
        if load <= lowest {
            return Some(self.give_up(Outcome::GeneratorLimit));
        }
        // Halfway down to what it could offer.
        let less = good.map_or(load / 2.0, |good| (good * load).sqrt()).max(lowest);
        self.options.highest = less;
        match good {
            Some(good) if less <= good * (1.0 + resolution) || less - good < unit => {
                self.options.highest = good;
                self.see_again(good, 1, Outcome::GeneratorLimit)
            }
            _ => {
                self.state = State::Bracket;
                self.next = Some((round(less, unit), Purpose::Bracket));
                None
            }
        }
    }

    /// The answer when nobody waits for more.
    fn stop(&mut self) -> Peak {
        self.next = None;
        self.give_up(Outcome::Stopped)
    }

    /// The end without confirmation: the largest load of which most runs conformed, if the belief does not
    /// hold that for luck.
    fn give_up(&self, outcome: Outcome) -> Peak {
        let likely = |load: f64| self.belief.as_ref().is_none_or(|belief| belief.at_least(load) >= 0.5);
        let most = |load: f64| {
            let (runs, good) = self.runs(load);
            2 * good > runs
        };
        let good = self.told.iter().map(|(load, _)| *load).filter(|load| most(*load) && likely(*load));
        match good.reduce(f64::max) {
            Some(load) => self.peak(load, outcome),
            None if self.runs(self.options.lowest).0 > 0 => self.peak(self.options.lowest, Outcome::Nothing),
            None => self.peak(0.0, Outcome::Unknown),
        }
    }

    fn runs(&self, load: f64) -> (u32, u32) {
        let at = self.told.iter().filter(|(other, _)| *other == load);
        at.fold((0, 0), |(runs, good), (_, ok)| (runs + 1, good + u32::from(*ok)))
    }

    fn peak(&self, load: f64, outcome: Outcome) -> Peak {
        // Where nothing has failed that counts, what is believed of higher loads comes from no trial.
        let lower_bound = matches!(outcome, Outcome::AtLeast | Outcome::GeneratorLimit);
        let belief = self.belief.as_ref().filter(|_| !lower_bound);
        Peak {
            load,
            outcome,
            confidence: belief.map(|belief| belief.at_least(load)),
            // Wider than the belief has it: a search that stops when its interval is narrow stops too soon
            // now and then.
            interval: belief.map(|belief| (belief.quantile(0.02), belief.quantile(0.98))),
            runs: self.runs(load),
            trials: self.trials,
        }
    }
}

/// The multiple of `unit` below `load`, at least one.
fn round(load: f64, unit: f64) -> f64 {
    ((load / unit).floor() * unit).max(unit)
}

#[cfg(test)]
mod tests;
