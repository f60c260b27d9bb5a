//! `--find-peak` and `--self-test`: runs at several rates until the highest that conforms is known.

use super::args::LoadArgs;
use super::plan::Plan;
use super::watch::{Ended, duration};
use super::{deliver, measure};
use crate::signals::Wish;
use load::population::{Outcome, Search, SearchOptions, Verdict};
use load::report::{Fact, Report, Trial};
use std::sync::mpsc::Receiver;

/// The search was stopped, or no load conformed.
const NOT_FOUND: u8 = 1;

/// Searches, and reports the last run that conformed, with all trials.
pub fn search(args: &LoadArgs, signals: &Receiver<Wish>) -> Result<u8, String> {
    let length = duration(&args.trial)?;
    let options = SearchOptions {
        start: args.rate.max(1.0) * 1_000.0 / args.rp.max(1.0),
        highest: 1e7,
        resolution: 0.02,
        ..SearchOptions::default()
    };
    let mut search = Search::robust(options).map_err(|error| error.to_string())?;
    let (mut trials, mut best): (Vec<Trial>, Option<(f64, Report)>) = (Vec::new(), None);
    let mut peak = None;
    while let Some(trial) = search.next() {
        let mut args = args.clone();
        (args.rate, args.rp) = (trial.load, 1_000.0);
        args.timeout = Some(format!("{}s", length.as_secs_f64()));
        // Each trial has random numbers of its own; the search as a whole can be repeated.
        args.seed = args.seed.map(|seed| seed.wrapping_add(u64::from(trial.number)));
        args.quiet = true;
        let (report, ended) = measure(&args, Plan::new(&args)?, signals)?;
        if ended == Ended::Asked {
            eprintln!("stopped; no peak was found");
            return Ok(NOT_FOUND);
        }
        let verdict = match report.verdict.word.as_str() {
            "PASS" => Verdict::Conforms,
            "FAIL" => Verdict::Fails,
            // Here the generator is what is tested.
            _ if args.self_test => Verdict::Fails,
            _ => Verdict::Void,
        };
        let why = report.verdict.why.first().cloned().unwrap_or_default();
        let word = &report.verdict.word;
        eprintln!("trial {:>2} {:>10.0} calls/s  {word}  {why}", trial.number, trial.load);
        trials.push(Trial {
            load: trial.load,
            unit: "calls/s".to_owned(),
            verdict: word.clone(),
            why,
            success_percent: report.metric("calls.success"),
            p99_ms: report.latency("response").map(|l| l.main().p99 as f64 / 1_000.0),
            server_cpu_percent: None,
        });
        if verdict == Verdict::Conforms && best.as_ref().is_none_or(|(load, _)| *load <= trial.load) {
            best = Some((trial.load, report));
        }
        peak = search.result(&trial, verdict);
        if peak.is_some() {
            break;
        }
    }
    let Some(peak) = peak else { return Err("the search ended without a result".into()) };
    let statement = peak.statement("calls/s");
    if let Some((_, mut report)) = best {
        report.trials = trials;
        report.parameters.push(Fact::new("search", &statement));
        deliver(args, &report)?;
    }
    println!("{statement}");
    if args.self_test {
        println!(
            "this program on this machine is to be trusted up to {:.0} calls/s, both sides together",
            peak.load
        );
    }
    Ok(match peak.outcome {
        Outcome::Found | Outcome::AtLeast | Outcome::GeneratorLimit if peak.load > 0.0 => 0,
        _ => NOT_FOUND,
    })
}
