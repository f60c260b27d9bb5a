//! `strowger load`: the load generator, from the command line to the verdict.

pub mod args;
mod plan;
mod watch;

use crate::signals;
use args::LoadArgs;
use load::engine::{Engine, Notice, Record};
use load::metrics::{Health, Ladder, Ladders, LatencyLimit, Metrics, Rule};
use load::report::{Fact, Inputs, Report, Windows};
use load::scenario::{Side, builtin_names};
use plan::Plan;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use watch::Ended;
use wire::Time;
use worker_runtime::{RuntimeHandle, monotonic_now};

/// Wrong usage, or something the run needs is not there.
const USAGE: u8 = 2;
/// How long workers may take to hand over what they recorded.
const HAND_OVER: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(args: &LoadArgs) -> ExitCode {
    if args.sn.as_deref() == Some("list") {
        for (name, what) in builtin_names() {
            println!("{name:<16}{what}");
        }
        return ExitCode::SUCCESS;
    }
    match Plan::new(args).and_then(|plan| generate(args, plan)) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("strowger load: {message}");
            ExitCode::from(USAGE)
        }
    }
}

/// What the run was, for its report.
struct Story {
    title: String,
    workload: String,
    parameters: Vec<Fact>,
    seed: u64,
    answers_only: bool,
}

fn generate(args: &LoadArgs, plan: Plan) -> Result<u8, String> {
    let signals = signals::listen().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let story = Story {
        title: plan.title.clone(),
        workload: plan.workload.clone(),
        parameters: plan.parameters.clone(),
        seed: plan.seed,
        answers_only: plan.client.is_none(),
    };
    let started = monotonic_now();
    let engines: Vec<Engine> = plan.engines(started)?;
    let runtime = plan.bound.start(engines).map_err(|error| error.to_string())?;
    let handle = runtime.handle();
    let workers: Vec<String> =
        handle.listeners().iter().map(|l| format!("{}:{}", l.transport, l.address)).collect();
    eprintln!("strowger load ready: {} from {}", story.title, workers.join(", "));
    let before = watch::cpu_seconds();
    let ended = watch::watch(args, &story.title, started, &handle, &signals)?;
    let end = monotonic_now();
    let cpu = watch::busiest(&before, &watch::cpu_seconds(), end.since(started));
    let mut records = collect(&handle)?;
    let counts = handle.counts();
    records.0.socket_drops(end, counts.udp_kernel_drops + counts.udp_send_drops + counts.ring_drops);
    handle.shutdown();
    runtime.join().map_err(|panics| format!("a worker failed: {panics:?}"))?;
    let report = report(args, &story, started, end, cpu, records);
    deliver(args, &report)?;
    // Whoever only answers has nothing to judge but what went wrong.
    let code = match ended {
        Ended::Done | Ended::Asked | Ended::TimeOut if story.answers_only => u8::from(failures(&report)),
        _ => report.verdict.exit_code,
    };
    Ok(code)
}

fn failures(report: &Report) -> bool {
    report.verdict.word == "FAIL"
}

/// Asks all workers for what they recorded.
fn collect(handle: &RuntimeHandle<Notice>) -> Result<(Metrics, Vec<Ladder>), String> {
    let (send, receive) = mpsc::channel();
    for worker in 0..handle.workers() {
        let send = send.clone();
        let take = Notice::Record(Box::new(move |record: Record| {
            let _ = send.send(record);
        }));
        handle.post(worker, take).map_err(|_| "a worker takes no more notices".to_owned())?;
    }
    drop(send);
    let mut all: Option<Metrics> = None;
    let mut flows = Vec::new();
    for _ in 0..handle.workers() {
        let record = receive.recv_timeout(HAND_OVER).map_err(|_| "a worker did not hand over its record")?;
        flows.extend(record.ladders);
        match &mut all {
            Some(all) => all.merge(&record.metrics),
            None => all = Some(*record.metrics),
        }
    }
    let metrics = all.ok_or("there is no worker")?;
    Ok((metrics, flows))
}

fn report(
    args: &LoadArgs,
    story: &Story,
    started: Time,
    end: Time,
    cpu: Option<f64>,
    (mut metrics, flows): (Metrics, Vec<Ladder>),
) -> Report {
    let seconds = end.since(started).as_secs_f64();
    let rule = Rule {
        success_percent: args.success,
        latency: Vec::<LatencyLimit>::new(),
        max_lateness_p999_micros: (args.lateness * 1_000.0) as u64,
        ..Rule::default()
    };
    let inputs = Inputs {
        program: format!("strowger {}", env!("CARGO_PKG_VERSION")),
        title: story.title.clone(),
        workload: story.workload.clone(),
        started: String::new(),
        command: std::env::args().collect(),
        seed: story.seed,
        compression: 1.0,
        windows: Windows {
            warm_up: args.warm_up.min(seconds),
            measured: (seconds - args.warm_up).max(0.0),
            ..Windows::default()
        },
        parameters: story.parameters.clone(),
        machine: watch::machine(),
        health: Health { cpu_percent: cpu },
        end,
        ..Inputs::default()
    };
    Report::build(inputs, &metrics, &rule, &Ladders::first(flows, args.ladders))
}

/// Writes what was asked for, and the essence to standard output.
fn deliver(args: &LoadArgs, report: &Report) -> Result<(), String> {
    let write = |path: &Path, text: &[u8]| {
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    if let Some(path) = &args.json {
        write(path, report.to_json().as_bytes())?;
    }
    if let Some(path) = &args.html {
        write(path, load::report::html(report).as_bytes())?;
    }
    if let Some(path) = &args.csv {
        write(path, load::report::csv(report).as_bytes())?;
    }
    print!("{}", essence(report));
    Ok(())
}

/// Figures that a person wants to know at once; the report has all.
const FIRST: [&str; 12] = [
    "calls.begun",
    "calls.failed",
    "calls.rate",
    "calls.success",
    "transactions.success",
    "retransmissions",
    "unexpected",
    "ser",
    "seer",
    "scr",
    "registrations",
    "generator.cpu",
];

/// The essence of a report as text.
fn essence(report: &Report) -> String {
    let mut out = String::new();
    for row in report.metrics.iter().filter(|row| FIRST.contains(&row.key.as_str())) {
        if let Some(value) = row.value {
            let _ = writeln!(out, "{:<46} {value:>12.3} {}", row.name, row.unit);
        }
    }
    let ms = |micros: u64| micros as f64 / 1_000.0;
    let _ = writeln!(
        out,
        "{:<14} {:>9} {:>9} {:>9} {:>9} {:>9}  of",
        "milliseconds", "p50", "p90", "p99", "p99.9", "max"
    );
    let latencies = report.latencies.iter().map(|l| (l.key.as_str(), l.main()));
    for (name, d) in latencies.chain([("lateness", &report.lateness)]).filter(|(_, d)| d.count > 0) {
        let _ = writeln!(
            out,
            "{name:<14} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}  {}",
            ms(d.p50),
            ms(d.p90),
            ms(d.p99),
            ms(d.p999),
            ms(d.max),
            d.count
        );
    }
    let _ = writeln!(out, "{}", report.verdict.word);
    for why in &report.verdict.why {
        let _ = writeln!(out, "  {why}");
    }
    out
}

/// Which side of a call a scenario is.
fn is_client(side: Side) -> bool {
    side == Side::Client
}
