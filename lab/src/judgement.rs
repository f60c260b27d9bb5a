//! From the records of runs to the outcome of an experiment.

use std::collections::BTreeMap;

use crate::beside::beside;
use crate::experiment::{
    Claim, Combination, Measure, Plan, Quantity, Reference, Run, Setup, Statistic, Subject,
};
use crate::outcome::{Beside, ClaimOutcome, Control, Figure, Outcome, RunLine, VERSION};
use crate::record::RunRecord;
use crate::statistics::{
    self, Evidence, Failures, Floor, Interval, Latencies, Paired, Rule, Spread, Verdict, median,
    median_interval,
};
use crate::times::times;

/// Figures that every report has, beside those of the claims.
const USUAL: [(Measure, Option<Statistic>); 19] = [
    (Measure::Users, None),
    (Measure::UsersPerCore, None),
    (Measure::Registered, None),
    (Measure::Refresh, Some(Statistic::Percentile(99_000))),
    (Measure::Calls, None),
    (Measure::Success, None),
    (Measure::Setup, Some(Statistic::Percentile(50_000))),
    (Measure::Setup, Some(Statistic::Percentile(99_000))),
    (Measure::CpuPerCall, None),
    (Measure::InstructionsPerCall, None),
    (Measure::Cpu, None),
    (Measure::Memory, None),
    (Measure::Retransmissions, None),
    (Measure::Connect, Some(Statistic::Percentile(50_000))),
    (Measure::Exchange, Some(Statistic::Percentile(50_000))),
    (Measure::FirstAnswer, Some(Statistic::Percentile(50_000))),
    (Measure::Slab, None),
    (Measure::OwnMemory, None),
    (Measure::Associations, None),
];

/// Facts of the machine that runs of a block share: they are compared with each other.
const SAME_IN_A_BLOCK: [&str; 3] = ["processor", "kernel", "kernel build"];

/// Runs that a note names; of more it says how many.
const NAMED: usize = 5;

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The question in words.
    pub question: &'a str,
    /// The runs that were planned.
    pub plan: &'a Plan,
    /// Its combinations of factors.
    pub setups: &'a [Setup],
    /// The claims.
    pub claims: &'a [Claim],
    /// The paper that is repeated; empty if there is none.
    pub paper: &'a str,
    /// What the paper measured.
    pub references: &'a [Reference],
    /// How claims are judged. The rule is shared out among the claims.
    pub rule: Rule,
}

/// A run with the name of its archive.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// What is known of it.
    pub record: &'a RunRecord,
    /// The name of its file.
    pub archive: &'a str,
}

/// Where a value belongs: subject, combination.
type Place = (String, usize);

/// The valid runs by place and block.
struct Runs<'a> {
    blocks: usize,
    valid: BTreeMap<Place, BTreeMap<u32, &'a RunRecord>>,
}

impl<'a> Runs<'a> {
    fn of(kept: &[Kept<'a>]) -> Runs<'a> {
        let mut valid: BTreeMap<Place, BTreeMap<u32, &RunRecord>> = BTreeMap::new();
        let mut blocks = 0;
        for record in kept.iter().map(|kept| kept.record) {
            blocks = blocks.max(record.run.block);
            if record.screened.void.is_empty() {
                valid
                    .entry((record.subject(), record.run.setup))
                    .or_default()
                    .insert(record.run.block, record);
            }
        }
        Runs { blocks: usize::try_from(blocks).unwrap_or(usize::MAX), valid }
    }

    /// Why a run of a system does not count for a claim: the first reason.
    fn first_against(&self, system: &str, setup: usize, claim: &Claim) -> Option<&'a str> {
        let of = self.valid.get(&(system.to_owned(), setup))?.values();
        let mut against = of.filter(|record| !record.counts_for(claim.quantity.measure));
        against.find_map(|record| record.against().next())
    }

    /// The figure in each block that was begun.
    fn values(&self, subject: &str, setup: usize, quantity: Quantity) -> Vec<Option<f64>> {
        let of = self.valid.get(&(subject.to_owned(), setup));
        let value = |block: usize| {
            let record = of?.get(&u32::try_from(block).ok()?)?;
            record.counts_for(quantity.measure).then(|| record.figure(quantity)).flatten()
        };
        (1..=self.blocks).map(value).collect()
    }
}

/// Whether a record says of its block, subject and combination what the plan has under its name.
pub fn settles(record: &RunRecord, run: &Run) -> bool {
    let subject = run.subject();
    record.run.id == run.id().to_string()
        && (record.run.block, record.run.setup) == (run.block(), run.setup())
        && (&record.run.system, record.run.twin) == (&subject.system, subject.twin)
}

/// Judges an experiment by the runs that there are. Records that the plan does not have count for nothing.
pub fn judge(case: &Case<'_>, kept: &[Kept<'_>]) -> Outcome {
    let planned: BTreeMap<String, &Run> =
        case.plan.runs().iter().map(|run| (run.id().to_string(), run)).collect();
    let is_planned =
        |kept: &&Kept<'_>| planned.get(&kept.record.run.id).is_some_and(|run| settles(kept.record, run));
    let kept: Vec<Kept<'_>> = kept.iter().filter(is_planned).copied().collect();
    let kept = kept.as_slice();
    let about = about(case);
    let runs = Runs::of(kept);
    let judged: usize =
        case.setups.iter().map(|setup| concerned(case.claims, &setup.combination).count()).sum();
    let rule = case.rule.among(judged);
    let mut claims = Vec::new();
    for (setup, at) in case.setups.iter().zip(0..) {
        let concerned = concerned(case.claims, &setup.combination);
        claims.extend(concerned.map(|claim| of_claim(claim, at, setup, case, &runs, &rule)));
    }
    let quantities = quantities(case);
    let (mut figures, mut controls, mut biased) = (Vec::new(), Vec::new(), Vec::new());
    for (setup, at) in case.setups.iter().zip(0..) {
        for quantity in &quantities {
            let of_subject = |subject: &Subject| figure(subject, at, setup, *quantity, &runs, &case.rule);
            figures
                .extend(case.plan.subjects().iter().map(of_subject).filter(|figure| figure.median.is_some()));
            let twins = || case.plan.subjects().iter().filter(|subject| subject.twin);
            controls
                .extend(twins().filter_map(|twin| control(twin, at, setup, *quantity, &runs, &case.rule)));
            biased.extend(twins().filter_map(|twin| bias(twin, at, setup, *quantity, &runs, &case.rule)));
        }
    }
    let (verdict, reason) = overall(&about, &claims, kept, case.plan.runs().len());
    Outcome {
        version: VERSION,
        experiment: case.plan.experiment().to_string(),
        question: case.question.to_owned(),
        verdict,
        reason,
        claims,
        controls,
        beside: Beside {
            paper: case.paper.to_owned(),
            references: beside(case.references, case.setups, &figures, case.rule.confidence()),
        },
        figures,
        times: times(kept.iter().map(|kept| kept.record)),
        runs: kept.iter().map(|kept| line(kept, &about)).collect(),
        planned: case.plan.runs().len(),
        looks: Vec::new(),
        notes: notes(kept, &about).into_iter().chain(unequal(kept)).chain(biased).collect(),
        machine: kept.last().map(|kept| kept.record.machine.clone()).unwrap_or_default(),
    }
}

fn concerned<'a>(claims: &'a [Claim], combination: &Combination) -> impl Iterator<Item = &'a Claim> {
    claims.iter().filter(|claim| claim.concerns(combination))
}

fn ends(interval: &Interval) -> (f64, f64) {
    (interval.low(), interval.high())
}

/// The figures that every report has.
pub fn usual() -> impl Iterator<Item = Quantity> {
    USUAL.iter().map(|(measure, statistic)| Quantity { measure: *measure, statistic: *statistic })
}

/// The quantities of claims and references and the usual ones, each once.
fn quantities(case: &Case<'_>) -> Vec<Quantity> {
    let mut all = Vec::new();
    let claimed = case.claims.iter().map(|claim| claim.quantity);
    let referred = case.references.iter().filter_map(|reference| Some(reference.what.as_ref()?.quantity));
    for quantity in claimed.chain(referred).chain(usual()) {
        if !all.contains(&quantity) {
            all.push(quantity);
        }
    }
    all
}

fn of_claim(
    claim: &Claim,
    at: usize,
    setup: &Setup,
    case: &Case<'_>,
    runs: &Runs<'_>,
    rule: &Rule,
) -> ClaimOutcome {
    let unit = claim.quantity.measure.unit();
    let statement = statistics::Claim::from(claim);
    let own = runs.values(&claim.system, at, claim.quantity);
    let other_side = claim.other_side(&setup.combination).and_then(|(system, combination)| {
        let at = case.setups.iter().position(|setup| setup.combination == combination)?;
        Some((system, at))
    });
    let other = other_side.map(|(of, at)| runs.values(of, at, claim.quantity)).unwrap_or_default();
    let sides = [Some((claim.system.as_str(), at)), other_side];
    let floor = floor(sides.into_iter().flatten(), claim.quantity, case.plan, runs, rule);
    let judged =
        statistics::judge(&statement, &Evidence { own: &own, other: &other, floor: floor.as_ref() }, rule);
    let not_counted =
        (judged.verdict == Verdict::Void).then(|| runs.first_against(&claim.system, at, claim)).flatten();
    ClaimOutcome {
        claim: claim.to_string(),
        factors: setup.combination.facts(),
        verdict: judged.verdict.to_string(),
        reason: judged.reason + &not_counted.map(|why| format!("; a run says: {why}")).unwrap_or_default(),
        measured: judged.measured,
        interval: judged.interval.as_ref().map(ends),
        limit: judged.limit,
        unit: if statement.kind.other().is_some() { "x".to_owned() } else { unit.to_owned() },
        floor_percent: judged.floor.map(|factor| 100.0 * (factor - 1.0)),
        blocks: judged.blocks,
        more: judged.more,
    }
}

/// What the systems of a comparison show against themselves; nothing if neither runs twice. Where both do, at
/// their own factors, the larger difference counts.
fn floor<'s>(
    sides: impl Iterator<Item = (&'s str, usize)>,
    quantity: Quantity,
    plan: &Plan,
    runs: &Runs<'_>,
    rule: &Rule,
) -> Option<Floor> {
    let of_side = |(system, at): (&str, usize)| {
        let twin = plan.subjects().iter().find(|subject| subject.twin && subject.system == system)?;
        let (first, second) =
            (runs.values(system, at, quantity), runs.values(&twin.to_string(), at, quantity));
        Some(Floor::of(&first, &second, rule.confidence()).ok())
    };
    // A control with too few blocks leaves the noise unknown.
    let floors: Option<Vec<Floor>> = sides.filter_map(of_side).collect();
    floors?.into_iter().reduce(Floor::larger)
}

fn figure(
    subject: &Subject,
    at: usize,
    setup: &Setup,
    quantity: Quantity,
    runs: &Runs<'_>,
    rule: &Rule,
) -> Figure {
    let values = runs.values(&subject.to_string(), at, quantity);
    let known: Vec<f64> = values.iter().copied().flatten().collect();
    let estimate = median_interval(&known, rule.confidence(), 1).ok();
    let (pooled, pooled_interval) = pooled(subject, at, quantity, runs, rule).unzip();
    Figure {
        subject: subject.to_string(),
        quantity: quantity.to_string(),
        unit: quantity.measure.unit().to_owned(),
        factors: setup.combination.facts(),
        median: median(&known),
        interval: estimate.map(|estimate| ends(&estimate.interval)),
        values,
        pooled,
        pooled_interval: pooled_interval.flatten(),
    }
}

/// A percentile of all runs together, in milliseconds, with its interval where there are enough runs.
/// Percentiles of runs have no mean that is a percentile of anything.
fn pooled(
    subject: &Subject,
    at: usize,
    quantity: Quantity,
    runs: &Runs<'_>,
    rule: &Rule,
) -> Option<(f64, Option<(f64, f64)>)> {
    let Some(Statistic::Percentile(thousandths)) = quantity.statistic else { return None };
    let percent = f64::from(thousandths) / 1e3;
    let of = runs.valid.get(&(subject.to_string(), at))?.values();
    let counting = of.filter(|record| record.counts_for(quantity.measure));
    let of_runs: Vec<Latencies> = counting
        .filter_map(|record| record.load.latency(quantity.measure.name()))
        .map(|latency| Latencies::from_report(latency.main()))
        .collect();
    let milliseconds = |micros: f64| micros / 1e3;
    if let Ok(found) = Latencies::pooled(&of_runs, percent, rule.confidence(), 1) {
        let (low, high) = ends(&found.interval);
        return Some((milliseconds(found.value), Some((milliseconds(low), milliseconds(high)))));
    }
    let mut all = Latencies::new();
    of_runs.iter().for_each(|run| all.merge(run));
    Some((milliseconds(all.percentile(percent).value?), None))
}

fn control(
    twin: &Subject,
    at: usize,
    setup: &Setup,
    quantity: Quantity,
    runs: &Runs<'_>,
    rule: &Rule,
) -> Option<Control> {
    let first = runs.values(&twin.system, at, quantity);
    let second = runs.values(&twin.to_string(), at, quantity);
    let pairs = statistics::pairs(&second, &first);
    let paired = Paired::of(&pairs, rule.confidence()).ok()?;
    let floor = Floor::of(&first, &second, rule.confidence()).ok()?;
    Some(Control {
        system: twin.system.clone(),
        quantity: quantity.to_string(),
        factors: setup.combination.facts(),
        ratio: Some(paired.ratio?.value),
        interval: paired.ratio.map(|ratio| ends(&ratio.interval)),
        floor_percent: floor.ratio().map(|factor| 100.0 * (factor - 1.0)),
        spread_percent: Spread::measured(&pairs).map(|spread| 100.0 * spread.relative()),
    })
}

/// The measures that the experiment is about: those of its claims and of the paper beside it.
fn about(case: &Case<'_>) -> Vec<Measure> {
    let referred = case.references.iter().filter_map(|reference| reference.what.as_ref());
    let quantities = case.claims.iter().map(|claim| claim.quantity);
    quantities.chain(referred.map(|what| what.quantity)).map(|quantity| quantity.measure).collect()
}

/// Whether a run says nothing: nothing at all, or nothing of what the experiment is about.
fn is_void(record: &RunRecord, about: &[Measure]) -> bool {
    let says_something = about.iter().any(|measure| record.counts_for(*measure));
    !record.screened.void.is_empty() || (!record.screened.reserved.is_empty() && !says_something)
}

/// A warning, if a system differs from itself by more than chance explains.
fn bias(
    twin: &Subject,
    at: usize,
    setup: &Setup,
    quantity: Quantity,
    runs: &Runs<'_>,
    rule: &Rule,
) -> Option<String> {
    let (first, second) =
        (runs.values(&twin.system, at, quantity), runs.values(&twin.to_string(), at, quantity));
    let why = Floor::of(&first, &second, rule.confidence()).ok()?.bias()?;
    let place = setup.combination.to_string();
    let place = if place.is_empty() { place } else { format!(" at {place}") };
    Some(format!("{quantity} of {}{place}: {why}", twin.system))
}

/// A warning, if one system fails more often than another. Its second copy is the same system.
fn unequal(kept: &[Kept<'_>]) -> Option<String> {
    let mut systems: BTreeMap<&str, Failures> = BTreeMap::new();
    for record in kept.iter().map(|kept| kept.record) {
        let failures = systems.entry(&record.run.system).or_insert_with(|| Failures {
            system: record.run.system.clone(),
            void: 0,
            runs: 0,
        });
        failures.runs += 1;
        failures.void += usize::from(record.screened.of_system);
    }
    statistics::unequal(&systems.into_values().collect::<Vec<_>>())
}

fn line(kept: &Kept<'_>, about: &[Measure]) -> RunLine {
    let record = kept.record;
    let reserved = record.screened.reserved.iter();
    let (mut void, mut notes) = (record.screened.void.clone(), record.notes.clone());
    if is_void(record, about) {
        void.extend(reserved.map(|reserved| reserved.why.clone()));
    } else {
        notes.extend(
            reserved.map(|reserved| format!("{}: only {} count", reserved.why, reserved.only.join(", "))),
        );
    }
    RunLine {
        id: record.run.id.clone(),
        block: record.run.block,
        subject: record.subject(),
        factors: record.run.factors.clone(),
        archive: kept.archive.to_owned(),
        void,
        notes,
        steady: record.steady,
    }
}

fn notes(kept: &[Kept<'_>], about: &[Measure]) -> Vec<String> {
    let void = kept.iter().filter(|kept| is_void(kept.record, about)).count();
    let mut notes = Vec::new();
    if void > 0 {
        notes.push(format!("{void} of {} runs are void and count for nothing", kept.len()));
    }
    let partly = || {
        let counts = kept.iter().map(|kept| kept.record).filter(|record| !is_void(record, about));
        counts.flat_map(|record| record.screened.reserved.first())
    };
    if let Some(first) = partly().next() {
        let (count, only) = (partly().count(), first.only.join(", "));
        notes.push(format!("in {count} of {} runs only {only} count, the first: {}", kept.len(), first.why));
    }
    let unsteady: Vec<&str> = kept
        .iter()
        .filter(|kept| kept.record.steady == Some(false))
        .map(|kept| kept.record.run.id.as_str())
        .collect();
    if !unsteady.is_empty() {
        let named = unsteady.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = unsteady.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (count, all) = (unsteady.len(), kept.len());
        notes
            .push(format!("{count} of {all} runs were never steady before their measurement: {named}{more}"));
    }
    notes
}

/// Why the runs of a system are not of one program, such as one that was built again before an experiment
/// went on.
fn mixed(kept: &[Kept<'_>]) -> Option<String> {
    // A factor may vary the program.
    let mut first: BTreeMap<(&str, usize), &str> = BTreeMap::new();
    for record in kept.iter().map(|kept| kept.record).filter(|record| record.screened.void.is_empty()) {
        let Some(digest) = record.program.iter().find(|fact| fact.name == "sha256") else { continue };
        let before = *first.entry((&record.run.system, record.run.setup)).or_insert(&digest.value);
        if before != digest.value {
            return Some(format!(
                "the runs of {} are of different programs: run it again in another folder (--out)",
                record.run.system
            ));
        }
    }
    changed_within_a_block(kept)
}

/// What of machine and generator is not the same in all runs of a block.
fn changed_within_a_block(kept: &[Kept<'_>]) -> Option<String> {
    let mut first: BTreeMap<(u32, &str), &str> = BTreeMap::new();
    for record in kept.iter().map(|kept| kept.record).filter(|record| record.screened.void.is_empty()) {
        let machine = record.machine.iter().filter(|fact| SAME_IN_A_BLOCK.contains(&fact.name.as_str()));
        let generator = record.program.iter().filter(|fact| fact.name == "generator");
        for fact in machine.chain(generator) {
            let before = *first.entry((record.run.block, &fact.name)).or_insert(&fact.value);
            if before != fact.value {
                return Some(format!(
                    "the runs of block {} differ in {}: \"{before}\" and \"{}\"; run it again in another folder (--out)",
                    record.run.block, fact.name, fact.value
                ));
            }
        }
    }
    None
}

/// The verdict about all claims, and why.
fn overall(
    about: &[Measure],
    claims: &[ClaimOutcome],
    kept: &[Kept<'_>],
    planned: usize,
) -> (String, String) {
    if let Some(why) = mixed(kept) {
        return (Verdict::Void.to_string(), why);
    }
    let valid = kept.iter().filter(|kept| !is_void(kept.record, about)).count();
    let of = |verdict: Verdict| {
        let word = verdict.to_string();
        claims.iter().filter(move |claim| claim.verdict == word)
    };
    let told = |claim: &ClaimOutcome| format!("{}: {}", claim.claim, claim.reason);
    if valid == 0 {
        let why = kept.iter().find_map(|kept| kept.record.against().next());
        let why = why.map_or_else(
            || "there are no runs".to_owned(),
            |why| format!("all runs are void, the first: {why}"),
        );
        return (Verdict::Void.to_string(), why);
    }
    for verdict in [Verdict::Fail, Verdict::Void, Verdict::NoDifferenceShown] {
        if let Some(first) = of(verdict).next() {
            let count = of(verdict).count();
            let more =
                if count > 1 { format!(" ({} of {} claims)", count, claims.len()) } else { String::new() };
            return (verdict.to_string(), format!("{}{more}", told(first)));
        }
    }
    match claims {
        [] => ("MEASURED".to_owned(), format!("{valid} of {planned} runs are valid; nothing was claimed")),
        [only] => (Verdict::Pass.to_string(), told(only)),
        all => (Verdict::Pass.to_string(), format!("all {} claims hold", all.len())),
    }
}

#[cfg(test)]
mod tests;
