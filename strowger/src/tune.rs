//! `strowger tune`: kernel and network card settings for SIP.

mod args;

pub use args::{EXAMPLES, TuneArgs};

use crate::cli::Output;
use crate::{fail, file};
use args::TuneCommand;
use control::config::{Overrides, Steering};
use control::say;
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use tune::{INSTALLED, Journal, JournalError, Lasting, Machine, Undone};
use tune_rules::{Expected, Finding, Level, Rights, Snapshot};

/// What went wrong before anything could be said.
enum Failure {
    /// The arguments: exit code 2.
    Usage(String),
    /// Anything else.
    Said(String),
    /// A configuration, whose errors are written out already.
    Config(ExitCode),
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        Failure::Said(error.to_string())
    }
}

pub fn run(args: &TuneArgs) -> ExitCode {
    let done = match &args.command {
        None if args.script => script(args),
        None => report(args),
        Some(TuneCommand::Explain { name }) => explain(args, name.as_deref()),
        Some(TuneCommand::Apply { names, until_reboot }) => apply(args, names, *until_reboot),
        Some(TuneCommand::Restore) => restore(args),
        Some(TuneCommand::Verify) => verify(args),
        Some(TuneCommand::Undo) => undo(args),
    };
    match done {
        Ok(code) => code,
        Err(Failure::Usage(what)) => {
            say::err(format_args!("strowger tune: {what}"));
            ExitCode::from(2)
        }
        Err(Failure::Said(what)) => fail(&format!("tune: {what}")),
        Err(Failure::Config(code)) => code,
    }
}

/// The machine that the options name.
fn machine(args: &TuneArgs) -> Machine {
    Machine::new(&args.root)
}

/// The load that the options and the configuration file describe.
fn expected(args: &TuneArgs) -> Result<Expected, Failure> {
    let mut expected = Expected::default();
    if args.config.is_some() {
        let loaded = file::load(args.config.as_deref(), &Overrides::default()).map_err(Failure::Config)?;
        let server = &loaded.config.server;
        let sctp = server.listen.iter().any(|listener| listener.transport == wire::Transport::Sctp);
        expected = expected
            .with_ports(
                server
                    .listen
                    .iter()
                    .map(|listener| listener.address.port())
                    .filter(|port| *port != 0)
                    .collect(),
            )
            .with_workers(server.workers as u64)
            .with_kernel_steering(server.steering != Steering::Ring)
            .with_connections(loaded.config.limits.connections as u64)
            .with_sctp(sctp);
    }
    if let Some(connections) = args.connections {
        expected = expected.with_connections(connections);
    }
    if let Some(rate) = args.rate {
        expected = expected.with_calls(rate);
    }
    Ok(expected)
}

/// What is read from the machine. Where that is nothing, an answer would look as if all was well.
fn snapshot(args: &TuneArgs, machine: &Machine) -> Result<Snapshot, Failure> {
    let snapshot = machine.snapshot();
    if snapshot.matching("/proc/sys/net/core/*").next().is_none() {
        let root = args.root.display();
        let mend = "mount proc there, or name the root of a machine with --root";
        return Err(Failure::Usage(format!("{root} has no proc/sys/net/core: {mend}")));
    }
    Ok(snapshot)
}

fn findings(args: &TuneArgs, machine: &Machine) -> Result<Vec<Finding>, Failure> {
    Ok(tune_rules::check(&snapshot(args, machine)?, &expected(args)?))
}

/// Writes a text for people, or JSON for programs.
fn out(args: &TuneArgs, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) {
    match args.output {
        Output::Table => say::out(format_args!("{}", text())),
        Output::Json => say::out(format_args!("{:#}\n", json())),
    }
}

fn code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let snapshot = snapshot(args, &machine(args))?;
    let rights = Rights::of(&snapshot);
    let findings = tune_rules::check(&snapshot, &expected(args)?);
    out(args, || tune::say::report(&findings, &rights), || tune::as_json::report(&findings, &rights));
    Ok(code(findings.iter().all(|finding| finding.level() != Level::Problem)))
}

fn script(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let machine = machine(args);
    let findings = findings(args, &machine)?;
    say::out(format_args!("{}", tune::script(&machine, &tune::select(&findings, &[]))));
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &TuneArgs, name: Option<&str>) -> Result<ExitCode, Failure> {
    let items = match name {
        None => tune_rules::ITEMS,
        Some(name) => std::slice::from_ref(tune_rules::item(name).ok_or_else(|| unknown(name))?),
    };
    let found = findings(args, &machine(args))?;
    let text = || match items {
        [item] => {
            let here: Vec<Finding> = found.iter().filter(|f| f.item() == item.name()).cloned().collect();
            format!("{}\n{}", tune::say::explanation(item), tune::say::here(&here))
        }
        _ => tune::say::items(),
    };
    out(args, text, || tune::as_json::explained(items, &found));
    Ok(ExitCode::SUCCESS)
}

fn unknown(name: &str) -> Failure {
    Failure::Usage(format!("there is no item {name:?}; `strowger tune explain` lists all"))
}

fn apply(args: &TuneArgs, names: &[String], until_reboot: bool) -> Result<ExitCode, Failure> {
    if let Some(name) = names.iter().find(|name| tune_rules::item(name).is_none()) {
        return Err(unknown(name));
    }
    let machine = machine(args);
    let snapshot = snapshot(args, &machine)?;
    let findings = tune_rules::check(&snapshot, &expected(args)?);
    let plans = tune::select(&findings, names);
    let no_boot = Rights::of(&snapshot).no_boot().filter(|_| !until_reboot && !plans.is_empty());
    if let Some(why) = no_boot {
        say::err(format_args!("note: no file is written: {why}"));
    }
    let lasting = match until_reboot || no_boot.is_some() {
        true => Lasting::UntilReboot,
        false => Lasting::Always { restore: restore_command(args, &machine) },
    };
    let possible = plans.iter().any(|plan| plan.obstacle().is_none());
    let results = if possible {
        let mut journal = Journal::open(args.journal())?;
        let done = tune::apply(&machine, &plans, &mut journal, &lasting);
        journal.remove_if_empty();
        done?
    } else {
        tune::refused(&plans)
    };
    if matches!(lasting, Lasting::Always { restore: None }) && tune::lost_at_boot(&plans, &results) {
        say::err(format_args!(
            "note: no unit writes settings of cards again after a boot: there is no program that only root may \
             change. Install it as {INSTALLED}, then run `strowger tune undo` and `apply`"
        ));
    }
    // What was written is looked at again, and what will undo it is named.
    let entries = Journal::entries_of(args.journal()).unwrap_or_default();
    let mut lost = tune::verify(&machine, &entries);
    lost.retain(|place| !place.kept());
    let steps = tune::steps(&findings, &results);
    let text = || tune::say::applied(&results) + &tune::say::verified(&lost) + &tune::say::steps(&steps);
    out(args, text, || tune::as_json::applied_then(&results, &lost, &steps));
    Ok(code(results.iter().all(tune::Applied::good)))
}

/// What the unit of the server runs at its start, as root; `None` if others may change the program.
fn restore_command(args: &TuneArgs, machine: &Machine) -> Option<String> {
    let running = std::env::current_exe().ok();
    let program = machine.safe_program(running.as_deref())?;
    let words = ["tune", "restore"].map(Path::new);
    if args.root != Path::new("/") {
        // An image has its journal elsewhere than this machine.
        return tune::unit_command(&program, &words);
    }
    let journal = serving::absolute(&args.journal().shown());
    tune::unit_command(&program, &[words[0], words[1], Path::new("--journal"), &journal])
}

fn restore(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let results = match Journal::existing(args.journal())? {
        Some(mut journal) => tune::restore(&machine(args), &mut journal)?,
        None => Vec::new(),
    };
    out(args, || tune::say::applied(&results), || tune::as_json::applied(&results));
    Ok(code(results.iter().all(tune::Applied::good)))
}

fn verify(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let entries = Journal::entries_of(args.journal())?;
    let results = tune::verify(&machine(args), &entries);
    let text = || match results.is_empty() {
        true => format!("nothing is applied: {} has no entries\n", args.journal().shown().display()),
        false => tune::say::verified(&results),
    };
    out(args, text, || tune::as_json::verified(&results));
    Ok(code(results.iter().all(tune::Verified::kept)))
}

fn undo(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let results = match Journal::existing(args.journal())? {
        Some(journal) => tune::undo(&machine(args), journal)?,
        None => Vec::new(),
    };
    let text = || match results.is_empty() {
        true => format!("nothing to undo: there is no journal {}\n", args.journal().shown().display()),
        false => tune::say::undone(&results),
    };
    out(args, text, || tune::as_json::undone(&results));
    let bad = |result: &Undone| matches!(result, Undone::LeftAlone { .. } | Undone::Failed { .. });
    Ok(code(!results.iter().any(bad)))
}
