//! `lab reproduce`: one archived run once more, beside what it was.

use std::path::Path;

use control::say;
use lab::experiment::{Quantity, Sources};
use lab::record::RunRecord;
use lab::statistics::median;
use serde::Serialize;

use crate::archive::Archive;
use crate::args::{Output, ReproduceArgs};
use crate::cli::{read_sources, record_of, text_of};
use crate::leftovers;
use crate::run::{Bench, NoRun};
use crate::session::{Asked, EXPERIMENT};
use crate::{lock, trust};

/// A figure then and now.
#[derive(Debug, Serialize)]
struct Compared {
    quantity: String,
    unit: String,
    then: Option<f64>,
    now: Vec<Option<f64>>,
    /// The median of now against then, percent.
    difference_percent: Option<f64>,
}

/// What `--output json` prints.
#[derive(Debug, Serialize)]
struct Reproduced {
    id: String,
    figures: Vec<Compared>,
    /// Facts of machine and program that differ.
    differs: Vec<String>,
    void: Vec<String>,
    /// A person asked to end before the last run.
    stopped: bool,
}

/// Runs it again.
///
/// # Errors
/// If the archive cannot be read, or a part does not start.
pub fn run(args: &ReproduceArgs) -> Result<u8, String> {
    let archive = Archive::read(&args.archive).map_err(|error| error.to_string())?;
    let then = record_of(&archive)?;
    let text = format!("seed = {}\n{}", then.run.seed, archive.text(EXPERIMENT));
    let experiment = read_sources(archived(&args.archive, &text).with_files(text_of))?;
    let plan = experiment.plan_as_kept();
    let run = plan.runs().iter().find(|run| run.subject().system == then.run.system);
    let run = run.ok_or_else(|| format!("{}: no system {}", args.archive.display(), then.run.system))?;
    let setup = experiment.setups().get(run.setup()).ok_or("the archive has no experiment")?;
    if !args.trust {
        trust::check(&args.archive, &then.run.system, setup)?;
    }
    let _in_use = lock::machine(args.share_machine)?;
    let asked = Asked::listen().map_err(|error| format!("signals: {error}"))?;
    let own = std::env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    if let Some(line) = leftovers::end().line() {
        say::err(format_args!("{line}"));
    }
    let folder = trust::private_folder(&std::env::temp_dir())?;
    let mut bench = Bench::new(&own, folder.clone(), &asked)?;
    let mut now = Vec::new();
    for time in 1..=args.times {
        say::err(format_args!("run {time} of {}", args.times));
        match bench.perform(run, setup, then.run.seed) {
            Ok(finished) => now.push(finished.record),
            Err(NoRun::Stopped) => break,
            Err(NoRun::Failed(why)) => return Err(format!("{why}; its files are in {}", folder.display())),
        }
    }
    let _ = std::fs::remove_dir(&folder);
    let found = Reproduced {
        id: then.run.id.clone(),
        figures: figures(&then, &now),
        differs: now.first().map(|now| differences(&then, now)).unwrap_or_default(),
        void: now.iter().flat_map(|record| against(&then, record)).collect(),
        stopped: now.len() < usize::try_from(args.times).unwrap_or(usize::MAX),
    };
    match args.output {
        Output::Json => {
            say::out(format_args!("{}\n", serde_json::to_string_pretty(&found).unwrap_or_default()))
        }
        Output::Text => print(&found),
    }
    Ok(found.exit_status())
}

impl Reproduced {
    /// 0, or 3 where a run says nothing or is missing.
    fn exit_status(&self) -> u8 {
        if self.void.is_empty() && !self.stopped { 0 } else { 3 }
    }
}

/// Why a run says nothing. Of what the archived run had too, such as failed calls in an overload, it says as
/// much as that one.
fn against(then: &RunRecord, now: &RunRecord) -> Vec<String> {
    let had = |only: &[String]| then.screened.reserved.iter().any(|reserved| reserved.only == only);
    let new = now
        .screened
        .reserved
        .iter()
        .filter(|reserved| !had(&reserved.only))
        .map(|reserved| reserved.why.clone());
    now.screened.void.iter().cloned().chain(new).collect()
}

/// The experiment of an archive. Its relative paths start where the program runs, as they did when it was
/// written: so its name has no folder.
fn archived<'s>(archive: &Path, text: &str) -> Sources<'s> {
    let file = archive.file_name().unwrap_or_default().to_string_lossy();
    Sources::new(&format!("{EXPERIMENT} of {file}"), text)
}

/// The usual figures that either has.
fn figures(then: &RunRecord, now: &[RunRecord]) -> Vec<Compared> {
    let mut all = Vec::new();
    for quantity in lab::judgement::usual() {
        let value = |record: &RunRecord, quantity: Quantity| record.figure(quantity);
        let first = value(then, quantity);
        let again: Vec<Option<f64>> = now.iter().map(|record| value(record, quantity)).collect();
        let known: Vec<f64> = again.iter().copied().flatten().collect();
        let middle = median(&known);
        if first.is_none() && middle.is_none() {
            continue;
        }
        let difference = first.zip(middle).filter(|(first, _)| *first != 0.0);
        all.push(Compared {
            quantity: quantity.to_string(),
            unit: quantity.measure.unit().to_owned(),
            then: first,
            now: again,
            difference_percent: difference.map(|(first, middle)| 100.0 * (middle / first - 1.0)),
        });
    }
    all
}

/// What of machine and program is not as it was.
fn differences(then: &RunRecord, now: &RunRecord) -> Vec<String> {
    let mut all = Vec::new();
    for (was, is) in [(&then.machine, &now.machine), (&then.program, &now.program)] {
        for fact in was.iter().filter(|fact| fact.name != "arguments") {
            let other = is.iter().find(|other| other.name == fact.name);
            let value = other.map_or("not known", |other| other.value.as_str());
            if value != fact.value {
                all.push(format!("{}: {} then, {value} now", fact.name, fact.value));
            }
        }
    }
    all
}

fn print(found: &Reproduced) {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    say::out(format_args!("{}\n", found.id));
    for figure in &found.figures {
        let now: Vec<String> = figure.now.iter().map(|value| number(*value)).collect();
        let difference =
            figure.difference_percent.map(|percent| format!("  {percent:+.1} %")).unwrap_or_default();
        let name = format!("{} {}", figure.quantity, figure.unit);
        say::out(format_args!(
            "  {name:<24} then {:>12}   now {}{difference}\n",
            number(figure.then),
            now.join(", ")
        ));
    }
    for line in &found.differs {
        say::out(format_args!("  differs: {line}\n"));
    }
    for why in &found.void {
        say::out(format_args!("  void: {why}\n"));
    }
    if found.stopped {
        say::out(format_args!("  STOPPED before its last run\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::Experiment;
    use lab::record::Reservation;

    #[test]
    fn reproduction_that_was_stopped_is_no_success() {
        let found = |void: &[&str], stopped: bool| {
            let void = void.iter().map(|why| (*why).to_owned()).collect();
            Reproduced { id: String::new(), figures: Vec::new(), differs: Vec::new(), void, stopped }
                .exit_status()
        };
        assert_eq!((found(&[], false), found(&[], true), found(&["late"], false)), (0, 3, 3));
    }

    #[test]
    fn failed_calls_are_no_news_where_the_archived_run_had_them() {
        let failing = |why: &str| {
            let mut record = RunRecord::default();
            let only = vec!["success".to_owned()];
            record.screened.reserved = vec![Reservation { why: why.to_owned(), only }];
            record
        };
        assert_eq!(against(&failing("9 of 10 calls failed"), &failing("8 of 10 calls failed")), [""; 0]);
        let new = against(&RunRecord::default(), &failing("8 of 10 calls failed"));
        assert_eq!(new, ["8 of 10 calls failed"]);
    }

    #[test]
    fn paths_of_an_archive_start_where_the_program_runs() {
        let text = "[workload]\nscenario = \"calls/one.xml\"\n[system.A]\nbinary = \"target/strowger\"\n";
        let sources = archived(Path::new("/results/one.run.tgz"), text);
        let open = |path: &Path| {
            if path == Path::new("calls/one.xml") {
                Ok("<scenario/>".to_owned())
            } else {
                Err("none".to_owned())
            }
        };
        let experiment = Experiment::read(&sources.with_files(open)).expect("its files are found");
        assert_eq!(experiment.setups()[0].workload.scenario, "calls/one.xml");
        let binary = experiment.setups()[0].systems["A"].binary.as_deref();
        assert_eq!(binary, Some(Path::new("target/strowger")));
    }
}
