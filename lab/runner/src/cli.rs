//! What the commands of `strowger lab` do.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use control::say;
use lab::experiment::{ConfigError, Experiment, Plan, Sources, of_earlier_plans};
use lab::outcome::{LookMade, Outcome};
use lab::record::RunRecord;
use lab::report;
use lab::statistics::Spread;
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::args::{
    CompareArgs, ExperimentArgs, LabCommand, LabServer, Output, PlanArgs, ReportArgs, RunArgs,
};
use crate::associations::{NO_SCTP, kernel_has_sctp};
use crate::programs::located;
use crate::serve::{self, Role};
use crate::session::{self, Asked, Work};
use crate::{emulated, history, leftovers, lock, network, relay, reproduce, sink};

/// Wrong usage, or a part did not start.
const USAGE: u8 = 2;
/// The largest file that is read.
const LARGEST: u64 = 16 << 20;
/// The texts of an experiment, in its folder of results.
const TEXTS: &str = "experiment.json";
/// The outcome.
const OUTCOME: &str = "outcome.json";
/// The distributions of times, as a log of HdrHistogram.
const TIMES: &str = "times.hlog";
/// The page.
const PAGE: &str = "report.html";

/// Runs a command of `strowger lab`.
pub fn run(command: &LabCommand) -> ExitCode {
    let done = match command {
        LabCommand::Plan(args) => plan(args),
        LabCommand::Run(args) => run_experiment(args),
        LabCommand::Report(args) => report_again(args),
        LabCommand::Compare(args) => compare(args),
        LabCommand::Reproduce(args) => reproduce::run(args),
        LabCommand::History(args) => history::run(args),
        LabCommand::Serve { server } => serve_one(server),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(why) => {
            for line in why.lines() {
                say::err(format_args!("strowger lab: {line}"));
            }
            ExitCode::from(USAGE)
        }
    }
}

/// Runs a small server until it is ended.
fn serve_one(server: &LabServer) -> Result<u8, String> {
    let (name, own, done) = match server {
        LabServer::Echo(args) => return serve::run(args, Role::Echo).map(|()| 0),
        LabServer::FrontEnd(args) => return serve::run(args, Role::FrontEnd).map(|()| 0),
        LabServer::Relay { own, caller, callee } => {
            let ready = || say::err(format_args!("strowger lab ready: relay at {own}"));
            ("relay", own, relay::run(*own, *caller, *callee, ready))
        }
        LabServer::Sink { own, receive_buffer } => {
            let ready = || say::err(format_args!("strowger lab ready: sink at {own}"));
            ("sink", own, sink::run(*own, *receive_buffer, ready))
        }
    };
    done.map(|()| 0).map_err(|error| format!("{name} at {own}: {error}"))
}

/// The text of a file that an operator named.
pub(crate) fn text_of(path: &Path) -> Result<String, String> {
    let bytes = regular_file::read(path, LARGEST).map_err(|error| format!("{}: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8: is it the right file?", path.display()))
}

/// Reads an experiment with all its layers; the texts that it was read from.
fn read(args: &ExperimentArgs) -> Result<(Experiment, Texts), String> {
    let personal = personal(args).map(|path| Ok::<_, String>((path.display().to_string(), text_of(&path)?)));
    let seed = args.seed.map(|seed| format!("seed={seed}"));
    let mut texts = Texts {
        name: args.file.display().to_string(),
        text: text_of(&args.file)?,
        personal: personal.transpose()?,
        options: args.set.iter().cloned().chain(seed).collect(),
        files: BTreeMap::new(),
    };
    let opened = RefCell::new(BTreeMap::new());
    let experiment = texts.read(|path| {
        let text = text_of(path)?;
        opened.borrow_mut().insert(path.display().to_string(), text.clone());
        Ok(text)
    })?;
    texts.files = opened.into_inner();
    Ok((experiment, texts))
}

/// The texts of an experiment, kept beside its runs: to judge them again needs no other file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Texts {
    name: String,
    text: String,
    personal: Option<(String, String)>,
    options: Vec<String>,
    /// Files that it names.
    files: BTreeMap<String, String>,
}

impl Texts {
    fn read(&self, open: impl Fn(&Path) -> Result<String, String>) -> Result<Experiment, String> {
        let mut sources = Sources::new(&self.name, &self.text);
        if let Some((name, text)) = &self.personal {
            sources = sources.with_personal(name, text);
        }
        read_sources(sources.with_options(self.options.iter().map(String::as_str)).with_files(open))
    }

    /// Reads the experiment from these texts alone.
    fn read_again(&self) -> Result<Experiment, String> {
        self.read(|path| {
            self.files.get(&path.display().to_string()).cloned().ok_or_else(|| "not kept".to_owned())
        })
    }
}

/// Reads an experiment; all that is wrong, a line each.
pub(crate) fn read_sources(sources: Sources<'_>) -> Result<Experiment, String> {
    Experiment::read(&sources).map_err(lines)
}

fn lines(errors: Vec<ConfigError>) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The personal file: the one that was named, or else the usual one if it is there.
fn personal(args: &ExperimentArgs) -> Option<PathBuf> {
    let usual = || {
        let folder = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
        Some(folder.join("strowger/lab.toml")).filter(|file| file.is_file())
    };
    args.personal.clone().or_else(usual)
}

fn plan(args: &PlanArgs) -> Result<u8, String> {
    let (experiment, _) = read(&args.experiment)?;
    let plan = experiment.plan().map_err(lines)?;
    possible(&experiment)?;
    let spread = spread_in(&folder_of(&args.experiment.file), &experiment);
    match args.output {
        Output::Json => say::out(format_args!("{:#}\n", experiment.plan_json(&plan, spread))),
        Output::Text => say::out(format_args!("{}", experiment.plan_text(&plan, spread))),
    }
    if args.output == Output::Text && needs_sctp(&experiment) && !kernel_has_sctp() {
        say::out(format_args!("\nIt cannot be run here: {NO_SCTP}\n"));
    }
    if let Some(missing) = missing_programs(&experiment).filter(|_| args.output == Output::Text) {
        say::out(format_args!("\nIt cannot be run here:\n{missing}\n"));
    }
    if args.show_origin {
        say::out(format_args!("\n{}", experiment.settings_text()));
    }
    Ok(0)
}

/// The programs that an experiment names and that are not here, each with where it is named. Nothing if there
/// are none.
fn missing_programs(experiment: &Experiment) -> Option<String> {
    let systems = experiment.setups().iter().flat_map(|setup| &setup.systems);
    let named: BTreeMap<&String, PathBuf> =
        systems.filter_map(|(name, system)| Some((name, located(system.binary.as_deref()?)))).collect();
    let missing = named.iter().filter(|(_, program)| !program.is_file());
    let lines = missing.map(|(name, program)| {
        let key = format!("system.{name}.binary");
        let origin = experiment.settings().iter().find(|setting| setting.key == key);
        let place = origin.map(|setting| format!("{}: ", setting.origin)).unwrap_or_default();
        format!(
            "{place}there is no file {}: build it, or correct `binary` of [system.{name}]",
            program.display()
        )
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Whether a system has sockets of SCTP.
fn needs_sctp(experiment: &Experiment) -> bool {
    let systems = experiment.setups().iter().flat_map(|setup| setup.systems.values());
    systems.into_iter().any(|system| system.serves_associations() && system.sockets.need_sctp())
}

/// How much runs spread in the results of the same experiment, if they are in the usual folder: the most of
/// all figures that are claimed about.
fn spread_in(folder: &Path, experiment: &Experiment) -> Option<Spread> {
    let outcome =
        outcome_of(folder).ok().filter(|outcome| outcome.experiment == experiment.id().to_string())?;
    let claimed: BTreeSet<String> =
        experiment.claims().iter().map(|claim| claim.quantity.to_string()).collect();
    let controls = outcome.controls.iter().filter(|control| claimed.contains(&control.quantity));
    let percent = controls.filter_map(|control| control.spread_percent).max_by(f64::total_cmp)?;
    let blocks = outcome.looks.last().map_or(0, |look| look.blocks);
    Some(Spread::Measured { relative: percent / 100.0, blocks })
}

/// Whether this machine has the networks that the runs need.
fn possible(experiment: &Experiment) -> Result<(), String> {
    network::check(experiment.setups()).map_err(|why| {
        let written = experiment.settings().iter().find(|setting| setting.key == "network.kind");
        written.map_or_else(|| why.clone(), |setting| format!("{}: {why}", setting.origin))
    })
}

/// What is run. `made`: the looks of the outcome that is there.
fn work(experiment: &Experiment, plan: Plan, made: &[LookMade]) -> Work {
    let blocks = usize::try_from(plan.blocks()).unwrap_or(usize::MAX);
    Work {
        question: experiment.question().to_owned(),
        seed: experiment.seed(),
        plan,
        setups: experiment.setups().to_vec(),
        claims: experiment.claims().to_vec(),
        paper: (experiment.paper().to_owned(), experiment.references().to_vec()),
        schedule: experiment.schedule(made),
        earlier: of_earlier_plans(made, blocks).to_vec(),
    }
}

fn run_experiment(args: &RunArgs) -> Result<u8, String> {
    let (experiment, texts) = read(&args.experiment)?;
    // What cannot be run leaves no folder.
    let plan = experiment.plan().map_err(lines)?;
    if needs_sctp(&experiment) && !kernel_has_sctp() {
        return Err(format!("{}: {NO_SCTP}", args.experiment.file.display()));
    }
    if let Some(missing) = missing_programs(&experiment) {
        return Err(missing);
    }
    possible(&experiment)?;
    let out = args.out.clone().unwrap_or_else(|| folder_of(&args.experiment.file));
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let _in_use = (lock::folder(&out)?, lock::machine(args.share_machine)?);
    let mut tell = |line: &str| say::err(format_args!("{line}"));
    if let Some(line) = leftovers::end().line() {
        tell(&line);
    }
    keep_texts(&texts, &experiment, &out)?;
    let work = work(&experiment, plan, &looks_in(&out)?);
    let own = std::env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    let asked = Asked::listen().map_err(|error| format!("signals: {error}"))?;
    let emulated = experiment.setups().iter().any(|setup| setup.measuring.emulated);
    if emulated && !emulated::is_inside() {
        emulated::run(&own, &again(args, &out)?, &out, &asked, &mut tell)?;
        let (outcome, records) = session::judge_kept(&work, &out, &mut tell);
        return finish(&out, &outcome, &records, args.output);
    }
    let estimate = work.plan.estimate();
    let minutes = |time: Duration| time.as_secs().div_ceil(60);
    let (least, most) = (minutes(estimate.least), minutes(estimate.most));
    tell(&format!("{} runs, {least} to {most} min; results in {}", work.plan.runs().len(), out.display()));
    let (outcome, records) = session::run(&work, &own, &out, &asked, &mut tell)?;
    finish(&out, &outcome, &records, args.output)
}

/// The arguments of the same `lab run`, for a program in another working folder that has no personal file.
fn again(args: &RunArgs, out: &Path) -> Result<Vec<String>, String> {
    let whole = |path: &Path| {
        let path = fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path.display().to_string())
    };
    let experiment = &args.experiment;
    let mut words = ["lab", "run", "--share-machine", "--out"].map(str::to_owned).to_vec();
    words.push(whole(out)?);
    for value in &experiment.set {
        words.extend(["--set".to_owned(), value.clone()]);
    }
    if let Some(seed) = experiment.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if let Some(personal) = personal(experiment) {
        words.extend(["--personal".to_owned(), whole(&personal)?]);
    }
    words.push(experiment.file.display().to_string());
    Ok(words)
}

/// Keeps the texts of an experiment beside its runs. A folder has the runs of one experiment: those of
/// another could not be judged any more.
fn keep_texts(texts: &Texts, experiment: &Experiment, out: &Path) -> Result<(), String> {
    let file = out.join(TEXTS);
    if file.exists() {
        let other = texts_in(out)?.read_again().map_err(|why| {
            format!("{}: cannot be read any more: {why}\nname another folder (--out)", file.display())
        })?;
        if other.id() != experiment.id() {
            return Err(format!(
                "{}: results of another experiment ({}, and this is {}): its settings, seed or factors differ; name \
                 another folder (--out), or remove this one",
                out.display(),
                other.id(),
                experiment.id()
            ));
        }
    }
    write(&file, &serde_json::to_string_pretty(texts).unwrap_or_default())
}

/// The texts of the experiment in a folder of results.
fn texts_in(folder: &Path) -> Result<Texts, String> {
    let file = folder.join(TEXTS);
    let failed =
        |why: &dyn std::fmt::Display| format!("{}: {why}; name a folder of `lab run`", file.display());
    serde_json::from_str(&text_of(&file)?).map_err(|error| failed(&error))
}

/// `quick.lab` for `lab/quick.toml`, where the program runs.
fn folder_of(file: &Path) -> PathBuf {
    let stem = file.file_stem().map_or_else(|| "experiment".into(), |stem| stem.to_string_lossy());
    PathBuf::from(format!("{stem}.lab"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes outcome and report, and prints the essence.
fn finish(out: &Path, outcome: &Outcome, records: &[RunRecord], output: Output) -> Result<u8, String> {
    write(&out.join(OUTCOME), &outcome.to_json())?;
    write(&out.join("figures.csv"), &report::csv(outcome))?;
    write(&out.join(TIMES), &report::hlog(outcome, records))?;
    let page = out.join(PAGE);
    write(&page, &report::html(outcome, records))?;
    match output {
        Output::Json => say::out(format_args!("{}\n", outcome.to_json())),
        Output::Text => say::out(format_args!("{}\nreport: {}\n", report::text(outcome), page.display())),
    }
    Ok(outcome.exit_status())
}

fn report_again(args: &ReportArgs) -> Result<u8, String> {
    let texts = texts_in(&args.folder)?;
    let _in_use = lock::folder(&args.folder)?;
    let experiment = texts.read_again()?;
    let work = work(&experiment, experiment.plan_as_kept(), &looks_in(&args.folder)?);
    let mut tell = |line: &str| say::err(format_args!("{line}"));
    let (outcome, records) = session::judge_kept(&work, &args.folder, &mut tell);
    keeps_what_was_judged(&args.folder, &outcome)?;
    finish(&args.folder, &outcome, &records, args.output)
}

/// The looks of the outcome in a folder of results; none if it has not been judged.
fn looks_in(folder: &Path) -> Result<Vec<LookMade>, String> {
    if folder.join(OUTCOME).exists() { Ok(outcome_of(folder)?.looks) } else { Ok(Vec::new()) }
}

/// Refuses to replace an outcome by one of fewer runs, such as where archives were moved away.
fn keeps_what_was_judged(folder: &Path, outcome: &Outcome) -> Result<(), String> {
    let path = folder.join(OUTCOME);
    if !path.exists() {
        return Ok(());
    }
    let before = outcome_of(folder)?;
    let there: BTreeSet<&str> = outcome.runs.iter().map(|run| run.id.as_str()).collect();
    let gone = before.runs.iter().filter(|run| !there.contains(run.id.as_str()));
    let missing: Vec<&str> = gone.map(|run| run.archive.as_str()).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    Err(format!(
        "{}: it is from {} runs, and the archives of {} of them are not here, the first {first}: bring them back, or \
         remove the file to judge without them",
        path.display(),
        before.runs.len(),
        missing.len()
    ))
}

/// The outcome in a folder of results.
pub(crate) fn outcome_of(folder: &Path) -> Result<Outcome, String> {
    let path = folder.join(OUTCOME);
    Outcome::from_json(&text_of(&path)?).map_err(|why| format!("{}: {why}", path.display()))
}

fn compare(args: &CompareArgs) -> Result<u8, String> {
    let (first, second) = (outcome_of(&args.first)?, outcome_of(&args.second)?);
    let comparison = report::comparison(&first, &second);
    say::out(format_args!("{}", comparison.text()));
    if let Some(path) = &args.html {
        write(path, &comparison.html())?;
    }
    Ok(0)
}

/// The record in an archive.
pub(crate) fn record_of(archive: &Archive) -> Result<RunRecord, String> {
    RunRecord::from_json(&archive.text(session::RECORD))
}
