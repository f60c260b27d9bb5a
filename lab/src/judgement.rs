//! From the records of runs to the outcome of an experiment.

use std::collections::BTreeMap;

use crate::beside::beside;
use crate::experiment::{
    Claim, Combination, Measure, Plan, Quantity, Reference, Run, Setup, Statistic, Subject,
};
use crate::outcome::{ClaimOutcome, Control, Figure, Outcome, RunLine, VERSION};
use crate::record::RunRecord;
use crate::statistics::{self, Evidence, Floor, Interval, Paired, Rule, Verdict, median, median_interval};

/// Figures that every report has, beside those of the claims.
const USUAL: [(Measure, Option<Statistic>); 14] = [
    (Measure::Calls, None),
    (Measure::Success, None),
    (Measure::Setup, Some(Statistic::Percentile(50_000))),
    (Measure::Setup, Some(Statistic::Percentile(99_000))),
    (Measure::CpuPerCall, None),
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
            if record.void.is_empty() {
                valid
                    .entry((record.subject(), record.run.setup))
                    .or_default()
                    .insert(record.run.block, record);
            }
        }
        Runs { blocks: usize::try_from(blocks).unwrap_or(usize::MAX), valid }
    }

    /// The figure in each block that was begun.
    fn values(&self, subject: &str, setup: usize, quantity: Quantity) -> Vec<Option<f64>> {
        let of = self.valid.get(&(subject.to_owned(), setup));
        let value = |block: usize| of?.get(&u32::try_from(block).ok()?)?.figure(quantity);
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
    let (mut figures, mut controls) = (Vec::new(), Vec::new());
    for (setup, at) in case.setups.iter().zip(0..) {
        for quantity in &quantities {
            let of_subject = |subject: &Subject| figure(subject, at, setup, *quantity, &runs, &case.rule);
            figures
                .extend(case.plan.subjects().iter().map(of_subject).filter(|figure| figure.median.is_some()));
            let twins = case.plan.subjects().iter().filter(|subject| subject.twin);
            controls.extend(twins.filter_map(|twin| control(twin, at, setup, *quantity, &runs, &case.rule)));
        }
    }
    let (verdict, reason) = overall(&claims, kept, case.plan.runs().len());
    Outcome {
        version: VERSION,
        experiment: case.plan.experiment().to_string(),
        question: case.question.to_owned(),
        verdict,
        reason,
        claims,
        controls,
        paper: case.paper.to_owned(),
        references: beside(case.references, case.setups, &figures, case.rule.confidence()),
        figures,
        runs: kept.iter().map(line).collect(),
        planned: case.plan.runs().len(),
        notes: notes(kept),
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
    let other = statement.kind.other().map(|of| runs.values(of, at, claim.quantity)).unwrap_or_default();
    // The control of either side will do: the copies differ in nothing.
    let floor = case.plan.subjects().iter().filter(|subject| subject.twin).find_map(|twin| {
        let first = runs.values(&twin.system, at, claim.quantity);
        Floor::of(&first, &runs.values(&twin.to_string(), at, claim.quantity), rule.confidence()).ok()
    });
    let judged =
        statistics::judge(&statement, &Evidence { own: &own, other: &other, floor: floor.as_ref() }, rule);
    ClaimOutcome {
        claim: claim.to_string(),
        factors: setup.combination.facts(),
        verdict: judged.verdict.to_string(),
        reason: judged.reason,
        measured: judged.measured,
        interval: judged.interval.as_ref().map(ends),
        limit: judged.limit,
        unit: if statement.kind.other().is_some() { "x".to_owned() } else { unit.to_owned() },
        floor_percent: judged.floor.map(|factor| 100.0 * (factor - 1.0)),
        blocks: judged.blocks,
        more: judged.more,
    }
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
    Figure {
        subject: subject.to_string(),
        quantity: quantity.to_string(),
        unit: quantity.measure.unit().to_owned(),
        factors: setup.combination.facts(),
        median: median(&known),
        interval: estimate.map(|estimate| ends(&estimate.interval)),
        values,
    }
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
    let paired = Paired::of(&statistics::pairs(&second, &first), rule.confidence()).ok()?;
    let floor = Floor::of(&first, &second, rule.confidence()).ok()?;
    Some(Control {
        system: twin.system.clone(),
        quantity: quantity.to_string(),
        factors: setup.combination.facts(),
        ratio: Some(paired.ratio?.value),
        interval: paired.ratio.map(|ratio| ends(&ratio.interval)),
        floor_percent: floor.ratio().map(|factor| 100.0 * (factor - 1.0)),
    })
}

fn line(kept: &Kept<'_>) -> RunLine {
    let record = kept.record;
    RunLine {
        id: record.run.id.clone(),
        block: record.run.block,
        subject: record.subject(),
        factors: record.run.factors.clone(),
        archive: kept.archive.to_owned(),
        void: record.void.clone(),
        notes: record.notes.clone(),
    }
}

fn notes(kept: &[Kept<'_>]) -> Vec<String> {
    let void = kept.iter().filter(|kept| !kept.record.void.is_empty()).count();
    let mut notes = Vec::new();
    if void > 0 {
        notes.push(format!("{void} of {} runs are void and count for nothing", kept.len()));
    }
    let unsteady = kept.iter().filter(|kept| kept.record.steady == Some(false)).count();
    if unsteady > 0 {
        notes.push(format!("{unsteady} of {} runs were not steady when their measurement began", kept.len()));
    }
    notes
}

/// Why the runs of a system are not of one program, such as one that was built again before an experiment
/// went on.
fn mixed(kept: &[Kept<'_>]) -> Option<String> {
    // A factor may vary the program.
    let mut first: BTreeMap<(&str, usize), &str> = BTreeMap::new();
    for record in kept.iter().map(|kept| kept.record).filter(|record| record.void.is_empty()) {
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
    for record in kept.iter().map(|kept| kept.record).filter(|record| record.void.is_empty()) {
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
fn overall(claims: &[ClaimOutcome], kept: &[Kept<'_>], planned: usize) -> (String, String) {
    if let Some(why) = mixed(kept) {
        return (Verdict::Void.to_string(), why);
    }
    let valid = kept.iter().filter(|kept| kept.record.void.is_empty()).count();
    let of = |verdict: Verdict| {
        let word = verdict.to_string();
        claims.iter().filter(move |claim| claim.verdict == word)
    };
    let told = |claim: &ClaimOutcome| format!("{}: {}", claim.claim, claim.reason);
    if valid == 0 {
        let why = kept.iter().find_map(|kept| kept.record.void.first());
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
mod tests {
    use std::time::Duration;

    use load::report::Fact;

    use super::*;
    use crate::experiment::{Bound, ExperimentId, Hosts, Limit, Measuring, Repetitions, System, Workload};
    use crate::record::MadeRun;

    fn setup() -> Setup {
        let systems = ["A", "B"].map(|name| (name.to_owned(), System::default()));
        Setup {
            combination: Combination::default(),
            measuring: Measuring { measure: Duration::from_secs(1), ..Measuring::default() },
            hosts: Hosts::default(),
            systems: systems.into(),
            workload: Workload::default(),
            faults: Vec::new(),
            inputs: Vec::new(),
        }
    }

    fn subject(system: &str, twin: bool) -> Subject {
        Subject { system: system.to_owned(), twin }
    }

    /// Runs of 100 calls: processor time for each call, microseconds.
    fn records(plan: &Plan, cost: impl Fn(&Subject, u32) -> f64) -> Vec<RunRecord> {
        let record = |run: &Run| {
            let mut record = RunRecord { run: MadeRun::of(run), ..RunRecord::default() };
            record.load.windows.measured = 1.0;
            record.load.measured.insert("calls.succeeded".to_owned(), 100);
            record.load.server_cpu_percent = Some(cost(run.subject(), run.block()) / 100.0);
            record
        };
        plan.runs().iter().map(record).collect()
    }

    fn claim(times: f64) -> Claim {
        Claim {
            quantity: Quantity { measure: Measure::CpuPerCall, statistic: None },
            system: "B".to_owned(),
            bound: Bound::AtMost,
            limit: Limit::Ratio { times, of: "A".to_owned() },
            at: Vec::new(),
        }
    }

    fn outcome(blocks: u32, claims: &[Claim], slower: f64, spoil: impl Fn(&mut RunRecord)) -> Outcome {
        let subjects = [subject("A", false), subject("A", true), subject("B", false)];
        let setups = [setup()];
        let plan = Plan::new(ExperimentId::of("x"), 1, Repetitions::Blocks(blocks), &subjects, &setups);
        // Blocks differ by much, systems within a block by at most one percent.
        let cost = |subject: &Subject, block: u32| {
            let noise = f64::from((block * 7 + u32::from(subject.twin) * 3) % 5) / 500.0;
            let own = if subject.system == "B" { slower } else { 1.0 };
            100.0 * f64::from(block) * own * (1.0 + noise)
        };
        let mut records = records(&plan, cost);
        records.iter_mut().for_each(spoil);
        let kept: Vec<Kept<'_>> = records.iter().map(|record| Kept { record, archive: "" }).collect();
        let rule = Rule::new(0.95, 6, 1);
        let (question, paper, references) = ("?", "", &[]);
        judge(&Case { question, plan: &plan, setups: &setups, claims, paper, references, rule }, &kept)
    }

    #[test]
    fn slower_system_fails_its_claim() {
        let found = outcome(8, &[claim(1.0)], 1.05, |_| {});
        assert_eq!(found.verdict, "FAIL", "{}", found.reason);
        assert!(found.claims[0].measured.is_some_and(|ratio| (ratio - 1.05).abs() < 0.01));
        assert_eq!(found.exit_status(), 1);
    }

    #[test]
    fn system_within_its_claim_passes() {
        let found = outcome(8, &[claim(1.2)], 1.05, |_| {});
        assert_eq!((found.verdict.as_str(), found.exit_status()), ("PASS", 0), "{}", found.reason);
        assert!(found.controls.iter().any(|control| control.quantity == "cpu/call"));
    }

    #[test]
    fn equal_systems_show_no_difference() {
        let found = outcome(8, &[claim(1.0)], 1.0, |_| {});
        assert_eq!(
            (found.verdict.as_str(), found.exit_status()),
            ("NO DIFFERENCE SHOWN", 4),
            "{}",
            found.reason
        );
    }

    #[test]
    fn void_runs_count_for_nothing() {
        let spoil = |record: &mut RunRecord| {
            if record.run.block > 2 && record.run.twin {
                record.void.push("the system ended during the run".to_owned());
            }
        };
        let found = outcome(8, &[claim(1.0)], 1.05, spoil);
        assert_eq!((found.verdict.as_str(), found.exit_status()), ("VOID", 3), "{}", found.reason);
        let all = outcome(8, &[], 1.0, |record| record.void.push("late".to_owned()));
        assert_eq!(all.verdict, "VOID");
        assert!(all.reason.contains("late"));
    }

    #[test]
    fn runs_of_a_program_that_was_built_again_are_void() {
        let built = |from: u32| {
            move |record: &mut RunRecord| {
                let digest = if record.run.system == "B" && record.run.block >= from { "new" } else { "old" };
                record.program.push(Fact::new("sha256", digest));
            }
        };
        let found = outcome(8, &[claim(1.2)], 1.05, built(5));
        assert_eq!(found.verdict, "VOID");
        assert!(found.reason.starts_with("the runs of B are of different programs"), "{}", found.reason);
        // Systems may differ from each other.
        assert_eq!(outcome(8, &[claim(1.2)], 1.05, built(1)).verdict, "PASS");
    }

    #[test]
    fn block_of_two_kernels_processors_or_generators_is_void() {
        for (name, of_machine) in [("kernel", true), ("processor", true), ("generator", false)] {
            let changed = |within: bool| {
                move |record: &mut RunRecord| {
                    let new = if within { record.run.twin } else { record.run.block > 4 };
                    let fact = Fact::new(name, if new { "new" } else { "old" });
                    if of_machine { record.machine.push(fact) } else { record.program.push(fact) }
                }
            };
            let found = outcome(8, &[claim(1.2)], 1.05, changed(true));
            assert_eq!(found.verdict, "VOID");
            assert!(found.reason.contains(&format!("differ in {name}")), "{}", found.reason);
            assert_eq!(outcome(8, &[claim(1.2)], 1.05, changed(false)).verdict, "PASS");
        }
    }

    #[test]
    fn record_that_differs_from_its_plan_counts_for_nothing() {
        let spoil = |record: &mut RunRecord| {
            if record.run.block == 8 && record.run.twin {
                record.run.block = 40_000_000;
            }
            if record.run.block == 7 && !record.run.twin && record.run.system == "A" {
                record.run.setup = 3;
            }
        };
        let found = outcome(8, &[claim(1.2)], 1.05, spoil);
        assert_eq!(found.runs.len(), 8 * 3 - 2);
        assert!(found.figures.iter().all(|figure| figure.values.len() <= 8));
    }

    #[test]
    fn experiment_without_claims_is_measured() {
        let found = outcome(2, &[], 1.0, |_| {});
        assert_eq!((found.verdict.as_str(), found.exit_status()), ("MEASURED", 0));
        let of_b =
            found.figures.iter().find(|f| f.subject == "B" && f.quantity == "cpu/call").expect("measured");
        assert_eq!(of_b.values.len(), 2);
        assert!(found.claims.is_empty());
    }

    #[test]
    fn outcome_reads_back_as_it_was_written() {
        let found = outcome(8, &[claim(1.0)], 1.05, |_| {});
        let read = Outcome::from_json(&found.to_json()).expect("read");
        // The last digit of a number may differ.
        assert_eq!((read.verdict, read.reason, read.runs), (found.verdict, found.reason, found.runs));
        assert_eq!((read.figures.len(), read.claims.len()), (found.figures.len(), 1));
        assert!(Outcome::from_json("{}").is_err());
    }
}
