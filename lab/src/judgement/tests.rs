use std::time::Duration;

use load::report::Fact;

use super::*;
use crate::experiment::{Bound, ExperimentId, Hosts, Level, Limit, Measuring, Repetitions, System, Workload};
use crate::record::MadeRun;

fn setup() -> Setup {
    let systems = ["A", "B"].map(|name| (name.to_owned(), System::default()));
    Setup {
        combination: Combination::default(),
        measuring: Measuring { measure: Duration::from_secs(1), ..Measuring::default() },
        hosts: Hosts::default(),
        network: crate::experiment::Network::default(),
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
        limit: Limit::Ratio { times, of: "A".to_owned(), at: Vec::new() },
        at: Vec::new(),
    }
}

fn case<'a>(plan: &'a Plan, setups: &'a [Setup], claims: &'a [Claim]) -> Case<'a> {
    let rule = Rule::new(0.95, 6, 1);
    Case { question: "?", plan, setups, claims, paper: "", references: &[], rule }
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
    judge(&case(&plan, &setups, claims), &kept)
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
    assert_eq!((found.verdict.as_str(), found.exit_status()), ("NO DIFFERENCE SHOWN", 4), "{}", found.reason);
}

#[test]
fn void_runs_count_for_nothing() {
    let spoil = |record: &mut RunRecord| {
        if record.run.block > 2 && record.run.twin {
            record.screened.void.push("the system ended during the run".to_owned());
        }
    };
    let found = outcome(8, &[claim(1.0)], 1.05, spoil);
    assert_eq!((found.verdict.as_str(), found.exit_status()), ("VOID", 3), "{}", found.reason);
    let all = outcome(8, &[], 1.0, |record| record.screened.void.push("late".to_owned()));
    assert_eq!(all.verdict, "VOID");
    assert!(all.reason.contains("late"));
}

#[test]
fn failed_calls_count_only_where_they_are_claimed_about() {
    let success = Claim {
        quantity: Quantity { measure: Measure::Success, statistic: None },
        bound: Bound::AtLeast,
        limit: Limit::Value(10.0),
        ..claim(1.0)
    };
    let failing = |record: &mut RunRecord| {
        let (key, value) = ("calls.success".to_owned(), Some(50.0));
        record.load.metrics.push(load::report::MetricRow { key, value, ..Default::default() });
        record.screened.reserved = vec![crate::record::Reservation {
            why: "100 of 200 calls failed".to_owned(),
            only: vec![Measure::Success.name().to_owned()],
        }];
    };
    let found = outcome(8, &[success.clone(), claim(1.2)], 1.05, failing);
    let verdicts: Vec<&str> = found.claims.iter().map(|claim| claim.verdict.as_str()).collect();
    assert_eq!(verdicts, ["PASS", "VOID"], "{:?}", found.claims);
    assert!(found.claims[1].reason.contains("100 of 200 calls failed"), "{}", found.claims[1].reason);
    assert!(found.runs.iter().all(|run| run.void.is_empty() && run.notes[0].contains("only success")));
    assert!(found.figures.iter().all(|figure| figure.quantity == "success"), "{:?}", found.figures);
    // Where nothing is claimed about them, they make a run void.
    for claims in [&[][..], &[claim(1.2)]] {
        let found = outcome(8, claims, 1.05, failing);
        assert_eq!(found.verdict, "VOID", "{}", found.reason);
        assert!(found.runs.iter().all(|run| run.void == ["100 of 200 calls failed"]));
    }
    assert_eq!(outcome(8, &[success], 1.05, failing).verdict, "PASS");
}

/// What cpu/call costs in a run: the base is 100 us, times the number of the block.
fn two_levels(blocks: u32, claims: &[Claim], tls: f64, noise: impl Fn(&MadeRun) -> f64) -> Outcome {
    let level = |value: &str| Level { factor: "transport".to_owned(), value: value.to_owned() };
    let setups =
        ["udp", "tls"].map(|value| Setup { combination: Combination::new(vec![level(value)]), ..setup() });
    let subjects = [subject("A", false), subject("A", true), subject("B", false)];
    let plan = Plan::new(ExperimentId::of("x"), 1, Repetitions::Blocks(blocks), &subjects, &setups);
    let mut records = records(&plan, |_, _| 0.0);
    for record in &mut records {
        let own = if record.run.setup == 1 { tls } else { 1.0 };
        record.load.server_cpu_percent = Some(f64::from(record.run.block) * own * noise(&record.run));
    }
    let kept: Vec<Kept<'_>> = records.iter().map(|record| Kept { record, archive: "" }).collect();
    judge(&case(&plan, &setups, claims), &kept)
}

fn of_levels(times: f64) -> Claim {
    let level = |value: &str| Level { factor: "transport".to_owned(), value: value.to_owned() };
    Claim {
        system: "A".to_owned(),
        limit: Limit::Ratio { times, of: "A".to_owned(), at: vec![level("udp")] },
        at: vec![level("tls")],
        ..claim(times)
    }
}

#[test]
fn values_of_a_factor_are_compared_within_blocks() {
    let quiet = |run: &MadeRun| 1.0 + f64::from((run.block * 7 + u32::from(run.twin) * 3) % 5) / 500.0;
    let found = two_levels(8, &[of_levels(2.0), of_levels(1.5)], 1.8, quiet);
    let verdicts: Vec<&str> = found.claims.iter().map(|claim| claim.verdict.as_str()).collect();
    assert_eq!(verdicts, ["PASS", "FAIL"], "{:?}", found.claims);
    assert!(found.claims[0].measured.is_some_and(|ratio| (ratio - 1.8).abs() < 0.02));
    // It is judged once, where the claim is, and the noise is that of both values.
    assert_eq!(found.claims.len(), 2);
    let noisy_udp = |run: &MadeRun| quiet(run) * if run.setup == 0 && run.twin { 1.4 } else { 1.0 };
    let found = two_levels(8, &[of_levels(2.0)], 1.8, noisy_udp);
    assert_eq!(found.verdict, "NO DIFFERENCE SHOWN", "{}", found.reason);
}

#[test]
fn control_of_a_system_on_neither_side_is_no_control() {
    let b_of_c = Claim {
        system: "B".to_owned(),
        limit: Limit::Ratio { times: 1.2, of: "C".to_owned(), at: Vec::new() },
        ..claim(1.2)
    };
    let subjects = [subject("A", false), subject("A", true), subject("B", false), subject("C", false)];
    let setups = [setup()];
    let plan = Plan::new(ExperimentId::of("x"), 1, Repetitions::Blocks(8), &subjects, &setups);
    let records = records(&plan, |subject, block| {
        100.0 + f64::from(block % 3) + if subject.system == "C" { 20.0 } else { 0.0 }
    });
    let kept: Vec<Kept<'_>> = records.iter().map(|record| Kept { record, archive: "" }).collect();
    let found = judge(&case(&plan, &setups, &[b_of_c]), &kept);
    assert_eq!(found.verdict, "VOID");
    assert!(found.reason.contains("no A/A control"), "{}", found.reason);
}

#[test]
fn percentile_of_several_runs_is_that_of_their_merged_times() {
    // The p50 of the runs are 1 and 9 ms; of all values together most are of the slow runs.
    let spoil = |record: &mut RunRecord| {
        let (count, micros) = if record.run.block.is_multiple_of(2) { (10, 1_000) } else { (1_000, 9_000) };
        let intended = load::report::Distribution {
            count,
            p50: micros,
            max: micros,
            min: micros,
            buckets: vec![(micros, count)],
            ..load::report::Distribution::default()
        };
        let key = "setup".to_owned();
        record.load.latencies.push(load::report::Latency {
            key,
            intended,
            ..load::report::Latency::default()
        });
    };
    let found = outcome(8, &[], 1.0, spoil);
    let figure = |subject: &str, quantity: &str| {
        let is_it = |figure: &&Figure| figure.subject == subject && figure.quantity == quantity;
        found.figures.iter().find(is_it).cloned().expect("it is there")
    };
    let p50 = figure("B", "p50 of setup");
    assert_eq!((p50.median, p50.pooled), (Some(5.0), Some(9.0)));
    assert_eq!((figure("B", "cpu/call").pooled, p50.pooled_interval), (None, None));
    // Ten runs have an interval.
    let found = outcome(10, &[], 1.0, spoil);
    let is_it = |figure: &&Figure| figure.quantity == "p50 of setup";
    assert!(found.figures.iter().find(is_it).is_some_and(|figure| figure.pooled_interval.is_some()));
}

#[test]
fn unsteady_runs_biased_controls_and_failing_systems_are_named() {
    let found = outcome(12, &[claim(1.2)], 1.05, |record| {
        record.steady = Some(record.run.block != 3);
        if record.run.twin {
            record.load.server_cpu_percent = record.load.server_cpu_percent.map(|cpu| cpu * 1.3);
        }
        record.screened.of_system = record.run.system == "B" && record.run.block < 4;
    });
    let note = |words: &str| found.notes.iter().any(|note| note.contains(words));
    assert!(note("3 of 36 runs were never steady before their measurement: "), "{:?}", found.notes);
    assert!(note("cpu/call of A: the same build differs from itself by"), "{:?}", found.notes);
    assert!(note("3 of 12 runs of B are void because it failed calls or ended"), "{:?}", found.notes);
    let unsteady = found.runs.iter().filter(|run| run.steady == Some(false));
    assert!(unsteady.clone().count() == 3 && unsteady.clone().all(|run| run.block == 3));
    let spread = found.controls.iter().find(|control| control.quantity == "cpu/call");
    assert!(spread.and_then(|control| control.spread_percent).is_some_and(|percent| percent > 15.0));
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
    let of_b = found.figures.iter().find(|f| f.subject == "B" && f.quantity == "cpu/call").expect("measured");
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
