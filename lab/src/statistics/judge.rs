//! Verdicts.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Kind, written};
use super::compare::{Paired, centre, pairs};
use super::floor::Floor;
use super::interval::{Estimate, Interval, NoInterval, least, median_interval, sound};
use super::sample::{median, usable};

/// What is said of a claim. The rules are those of the load generator (docs/design/load-verdicts.md), with
/// one verdict more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is on the side of the claim.
    Pass,
    /// The whole interval is on the other side.
    Fail,
    /// Neither. This says nothing for the claim, and nothing against it.
    NoDifferenceShown,
    /// Nothing can be said of the system: too few runs are valid, or there is no A/A control.
    Void,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::NoDifferenceShown => "NO DIFFERENCE SHOWN",
            Verdict::Void => "VOID",
        })
    }
}

/// How claims are judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    confidence: f64,
    fewest: usize,
    seed: u64,
}

impl Rule {
    /// With intervals of this confidence, such as 0.95. At least `fewest` blocks must be valid, and never
    /// fewer than an interval needs. `seed` is that of the bootstrap.
    pub fn new(confidence: f64, fewest: usize, seed: u64) -> Rule {
        Rule { confidence: sound(confidence), fewest, seed }
    }

    /// The rule for each of several claims, such that all verdicts together have the confidence of this one
    /// (Bonferroni).
    pub fn among(self, claims: usize) -> Rule {
        let each = (1.0 - self.confidence) / claims.max(1) as f64;
        Rule { confidence: sound(1.0 - each), ..self }
    }

    /// The confidence of its intervals, 0 to 1.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The blocks that must be valid.
    pub fn fewest(&self) -> usize {
        self.fewest.max(least(self.confidence))
    }
}

/// What was measured for a claim: one value for each block, `None` where the run is void.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Of the system that the claim is about.
    pub own: &'a [Option<f64>],
    /// Of the system that it is compared with; empty if the claim does not compare.
    pub other: &'a [Option<f64>],
    /// What the same system shows against itself; without it no claim that compares is judged.
    pub floor: Option<&'a Floor>,
}

/// A claim, judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// What was claimed.
    pub claim: Claim,
    /// What is said of it.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub reason: String,
    /// What was measured, on the scale of the limit: a value, or a factor. There may be one without a
    /// verdict.
    pub measured: Option<f64>,
    /// Where it lies.
    pub interval: Option<Interval>,
    /// The limit: a value, or a factor.
    pub limit: f64,
    /// The least factor above 1 that may be claimed; none if the claim does not compare.
    pub floor: Option<f64>,
    /// Blocks that count.
    pub blocks: usize,
    /// About how many more may decide; none if the claim is decided, or no number that can be run would.
    pub more: Option<usize>,
}

/// Judges a claim.
///
/// PASS and FAIL need the whole interval on one side of the limit, and, where systems are compared, a
/// distance from the limit that is no smaller than the A/A floor. Systems are compared within blocks.
pub fn judge(claim: &Claim, evidence: &Evidence<'_>, rule: &Rule) -> Judgement {
    match &claim.kind {
        Kind::AtMost { limit } => absolute(claim, *limit, true, evidence, rule),
        Kind::AtLeast { limit } => absolute(claim, *limit, false, evidence, rule),
        Kind::AtMostTimes { times, .. } => relative(claim, *times, true, evidence, rule),
        Kind::AtLeastTimes { times, .. } => relative(claim, *times, false, evidence, rule),
        Kind::Same { within, .. } => same(claim, *within, evidence, rule),
    }
}

/// A judgement without an interval.
fn void(
    claim: &Claim,
    reason: String,
    measured: Option<f64>,
    blocks: usize,
    more: Option<usize>,
) -> Judgement {
    Judgement {
        claim: claim.clone(),
        verdict: Verdict::Void,
        reason,
        measured,
        interval: None,
        limit: claim.kind.limit(),
        floor: None,
        blocks,
        more,
    }
}

/// VOID, if too few blocks are valid.
fn too_few(claim: &Claim, measured: &[f64], rule: &Rule) -> Option<Judgement> {
    let blocks = measured.len();
    let need = rule.fewest();
    (blocks < need).then(|| {
        let reason = format!("{blocks} blocks are valid, and {need} are needed for a verdict");
        void(claim, reason, median(measured), blocks, Some(need - blocks))
    })
}

/// Claims about a value.
fn absolute(claim: &Claim, limit: f64, at_most: bool, evidence: &Evidence<'_>, rule: &Rule) -> Judgement {
    let own: Vec<f64> = evidence.own.iter().copied().flatten().filter_map(usable).collect();
    if let Some(judged) = too_few(claim, &own, rule) {
        return judged;
    }
    let Some(limit) = usable(limit) else {
        return void(claim, "the limit is no number".to_owned(), None, own.len(), None);
    };
    match median_interval(&own, rule.confidence, rule.seed) {
        Ok(found) => {
            let side = Side::of(&found.interval, limit, at_most);
            let half = found.interval.half_width();
            let scale = Scale { limit, distance: (found.value - limit).abs(), floor: 0.0, half };
            decided(claim, &found, side, scale, own.len())
        }
        Err(why) => refused(claim, why, own.len()),
    }
}

fn refused(claim: &Claim, why: NoInterval, blocks: usize) -> Judgement {
    void(claim, format!("there is no interval: {why}"), None, blocks, None)
}

/// `(own, other)` of each block, and the floor.
type Compared<'a> = (Vec<(f64, f64)>, &'a Floor);

/// Blocks and floor of a claim that compares, or why there is no verdict.
fn compared<'a>(claim: &Claim, evidence: &Evidence<'a>, rule: &Rule) -> Result<Compared<'a>, Box<Judgement>> {
    let blocks = pairs(evidence.own, evidence.other);
    // A quotient by zero is not usable, so it is no part of the median.
    let ratios: Vec<f64> = blocks.iter().map(|(own, other)| own / other).collect();
    if let Some(judged) = too_few(claim, &ratios, rule) {
        return Err(Box::new(judged));
    }
    let Some(floor) = evidence.floor else {
        let reason = format!(
            "there is no A/A control of {} with at least {} valid blocks, so the noise is unknown",
            claim.metric,
            rule.fewest()
        );
        let measured = Paired::of(&blocks, rule.confidence).ok().and_then(|p| Some(p.ratio?.value));
        return Err(Box::new(void(claim, reason, measured, blocks.len(), None)));
    };
    Ok((blocks, floor))
}

/// Claims about a multiple of another system.
fn relative(claim: &Claim, times: f64, at_most: bool, evidence: &Evidence<'_>, rule: &Rule) -> Judgement {
    let (blocks, floor) = match compared(claim, evidence, rule) {
        Ok(found) => found,
        Err(judged) => return *judged,
    };
    let Some(times) = usable(times).filter(|t| *t > 0.0) else {
        return void(claim, "the factor is no positive number".to_owned(), None, blocks.len(), None);
    };
    let paired = match Paired::of(&blocks, rule.confidence) {
        Ok(paired) => paired,
        Err(why) => return refused(claim, why, blocks.len()),
    };
    if let (Some(found), Some(noise)) = (paired.ratio, floor.log_ratio()) {
        let side = Side::of(&found.interval, times, at_most);
        let distance = (found.value.ln() - times.ln()).abs();
        let half = half_of_factors(&found.interval);
        let scale = Scale { limit: times, distance, floor: noise, half };
        return decided(claim, &found, side, scale, blocks.len());
    }
    // Values of zero have no quotient: the differences from the multiple are judged, and given in the
    // metric's unit.
    let beyond: Vec<f64> = blocks.iter().map(|(own, other)| own - times * other).collect();
    match centre(&beyond, rule.confidence) {
        Ok(found) => {
            let side = Side::of(&found.interval, 0.0, at_most);
            let half = found.interval.half_width();
            let scale = Scale { limit: 0.0, distance: found.value.abs(), floor: floor.shift(), half };
            let mut judged = decided(claim, &found, side, scale, blocks.len());
            judged.reason = format!(
                "some values are zero, so differences are judged: {} minus {times} of the other is {}, interval {}, \
                 and the same build differs from itself by up to {}",
                claim.metric,
                written(found.value),
                claim.range(found.interval.low(), found.interval.high()),
                written(floor.shift())
            );
            (judged.measured, judged.interval, judged.floor) = (None, None, None);
            judged
        }
        Err(why) => refused(claim, why, blocks.len()),
    }
}

/// Claims that two systems do not differ by more than a factor.
fn same(claim: &Claim, within: f64, evidence: &Evidence<'_>, rule: &Rule) -> Judgement {
    let (blocks, floor) = match compared(claim, evidence, rule) {
        Ok(found) => found,
        Err(judged) => return *judged,
    };
    let Some(within) = usable(within).filter(|w| *w > 1.0) else {
        return void(claim, "the factor is not above 1".to_owned(), None, blocks.len(), None);
    };
    let paired = match Paired::of(&blocks, rule.confidence) {
        Ok(paired) => paired,
        Err(why) => return refused(claim, why, blocks.len()),
    };
    let (Some(found), Some(noise)) = (paired.ratio, floor.log_ratio()) else {
        let reason = "some values are zero, and a factor of zero is not defined".to_owned();
        return void(claim, reason, None, blocks.len(), None);
    };
    let (low, high) = (found.interval.low(), found.interval.high());
    let away = found.value.ln().abs();
    let (side, distance, limit) = if low >= 1.0 / within && high <= within {
        // Noise above the margin could hide a difference of the margin.
        (Side::Right, within.ln(), within)
    } else if low > within || high < 1.0 / within {
        (Side::Wrong, away, within)
    } else {
        (Side::Both, (within.ln() - away).abs(), if found.value < 1.0 { 1.0 / within } else { within })
    };
    let scale = Scale { limit, distance, floor: noise, half: half_of_factors(&found.interval) };
    decided(claim, &found, side, scale, blocks.len())
}

/// Where an interval lies.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Right,
    Wrong,
    Both,
}

impl Side {
    fn of(interval: &Interval, limit: f64, at_most: bool) -> Side {
        let (low, high) = (interval.low(), interval.high());
        let (keeps, breaks) =
            if at_most { (high <= limit, low > limit) } else { (low >= limit, high < limit) };
        match (keeps, breaks) {
            (true, _) => Side::Right,
            (_, true) => Side::Wrong,
            _ => Side::Both,
        }
    }
}

/// A limit, how far the figure is from it, how far it must be, and half of the interval. Distances of factors
/// are logarithms.
#[derive(Clone, Copy)]
struct Scale {
    limit: f64,
    distance: f64,
    floor: f64,
    half: f64,
}

/// Half of an interval of factors, as a logarithm.
fn half_of_factors(interval: &Interval) -> f64 {
    (interval.high().ln() - interval.low().ln()) / 2.0
}

/// The judgement where there is an interval.
fn decided(claim: &Claim, found: &Estimate, side: Side, scale: Scale, blocks: usize) -> Judgement {
    let Scale { limit, distance, floor, half } = scale;
    let compares = claim.kind.other().is_some();
    let interval = found.interval;
    let range = claim.range(interval.low(), interval.high());
    let below_floor = distance < floor;
    let (verdict, reason) = match side {
        Side::Both => (
            Verdict::NoDifferenceShown,
            format!("the interval {range} contains the limit of {}", claim.value(limit)),
        ),
        _ if below_floor => (
            Verdict::NoDifferenceShown,
            format!(
                "the interval {range} is on one side of the limit, but the same build differs from itself by up to {:.2} %",
                100.0 * (floor.exp() - 1.0)
            ),
        ),
        Side::Right => {
            (Verdict::Pass, format!("the whole interval {range} keeps the limit of {}", claim.value(limit)))
        }
        Side::Wrong => {
            (Verdict::Fail, format!("the whole interval {range} breaks the limit of {}", claim.value(limit)))
        }
    };
    let more =
        (verdict == Verdict::NoDifferenceShown).then(|| more(blocks, half.max(floor), distance)).flatten();
    let advice = match (verdict, more) {
        (Verdict::NoDifferenceShown, Some(more)) => format!("; about {more} more blocks may decide"),
        (Verdict::NoDifferenceShown, None) => {
            "; the figure is too near to the limit for any number of blocks".to_owned()
        }
        _ => String::new(),
    };
    Judgement {
        claim: claim.clone(),
        verdict,
        reason: reason + &advice,
        measured: Some(found.value),
        interval: Some(interval),
        limit: claim.kind.limit(),
        floor: compares.then(|| floor.exp()),
        blocks,
        more,
    }
}

/// More than this many blocks in addition are not proposed.
const MOST_MORE: f64 = 1_000.0;

/// Blocks until half of the interval is no wider than the distance. Widths fall with the root of the number
/// of blocks.
fn more(blocks: usize, half: f64, distance: f64) -> Option<usize> {
    let needed = blocks as f64 * (half / distance).powi(2);
    let more = (needed - blocks as f64).ceil().max(1.0);
    (more <= MOST_MORE).then_some(more as usize)
}

#[cfg(test)]
mod tests;
