//! All runs of an experiment, one after the other: kept as archives, resumed where they were interrupted,
//! judged at the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::experiment::{Claim, Measure, Plan, Run, Setup};
use lab::judgement::{Case, Kept, judge};
use lab::outcome::Outcome;
use lab::record::RunRecord;
use lab::statistics::{Rule, Schedule, Tolerance};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::addresses::Addresses;
use crate::archive::{Archive, EXTENSION, hash_of_file};
use crate::process;
use crate::run::{Bench, Finished, NoRun, Stop};

/// Blocks that must be valid; an interval may need more.
const FEWEST_BLOCKS: usize = 2;
/// The record in an archive.
pub const RECORD: &str = "record.json";
/// An experiment in an archive that has this combination of factors alone.
pub const EXPERIMENT: &str = "experiment.toml";

/// An experiment that is to be run.
#[derive(Debug)]
pub struct Work {
    /// The question in words.
    pub question: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Its runs.
    pub plan: Plan,
    /// Its combinations of factors.
    pub setups: Vec<Setup>,
    /// Its claims.
    pub claims: Vec<Claim>,
    /// After which blocks it is judged: it ends early when all claims are decided.
    pub schedule: Schedule,
}

/// A run that is kept.
#[derive(Debug)]
struct Done {
    record: RunRecord,
    archive: String,
}

/// The asking of a person to end: Ctrl-C, SIGTERM, SIGQUIT or SIGHUP.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Hears signals from now on. A second one kills all that was started, and ends the program at once.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub fn listen() -> io::Result<Asked> {
        let asked = Asked::default();
        let mut wanted = vec![SIGINT, SIGTERM, SIGQUIT];
        // `nohup` has it ignored: so it stays.
        if !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let mut signals = Signals::new(wanted)?;
        let flag = Arc::clone(&asked.0);
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in signals.forever() {
                if flag.swap(true, Ordering::Relaxed) {
                    process::end_all(130);
                }
            }
        })?;
        Ok(asked)
    }
}

/// Whether a signal is ignored since before this program began.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

impl Stop for Asked {
    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs what is missing of an experiment in `out`, and judges it.
///
/// # Errors
/// A sentence that says which part did not start, or which file could not be written.
pub fn run(
    work: &Work,
    own: &Path,
    out: &Path,
    stop: &Asked,
    tell: &mut dyn FnMut(&str),
) -> Result<(Outcome, Vec<RunRecord>), String> {
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut done = of_today(kept(out, work, tell), tell);
    let scratch = out.join("scratch");
    let addresses = Addresses::new(std::process::id());
    let tolerance = tolerance(work);
    let mut bench = Bench { own: own.to_owned(), scratch: scratch.clone(), addresses, stop, tolerance };
    let missing = work.plan.runs().iter().filter(|run| !done.contains_key(&run.id().to_string())).count();
    if missing < work.plan.runs().len() {
        tell(&format!(
            "resumed: {} of {} runs are there",
            work.plan.runs().len() - missing,
            work.plan.runs().len()
        ));
    }
    let (begun, mut made, mut failure) = (Instant::now(), 0_u32, None);
    let mut runs = work.plan.runs().iter().enumerate().peekable();
    while let Some((nth, run)) = runs.next() {
        if let std::collections::btree_map::Entry::Vacant(entry) = done.entry(run.id().to_string()) {
            match perform(&mut bench, work, run, out) {
                Ok(finished) => {
                    made += 1;
                    tell(&line(nth, work, run, &finished, left(begun, made, missing)));
                    entry.insert(finished);
                }
                Err(NoRun::Stopped) => break,
                Err(NoRun::Failed(why)) => {
                    failure = Some(format!("{}: {why}", run.id()));
                    break;
                }
            }
        }
        let block_ends = runs.peek().is_none_or(|(_, next)| next.block() != run.block());
        let look =
            work.schedule.after(usize::try_from(run.block()).unwrap_or(usize::MAX)).filter(|_| block_ends);
        if let Some(look) = look
            && !look.last
            && is_decided(&judged(work, &done, look.confidence))
        {
            tell("all claims are decided: no further block");
            break;
        }
    }
    let _ = fs::remove_dir(&scratch);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut outcome = judged(work, &done, confidence_after(work, &done));
    if stop.is_asked() {
        outcome.notes.push(format!(
            "stopped after {} of {} runs: the same command goes on",
            done.len(),
            outcome.planned
        ));
        outcome.reason =
            format!("stopped before its end; until then {}: {}", outcome.verdict, outcome.reason);
        outcome.verdict = "STOPPED".to_owned();
    }
    Ok((outcome, in_order(work, done)))
}

/// The outcome of the runs that are in `out`.
pub fn judge_kept(work: &Work, out: &Path, tell: &mut dyn FnMut(&str)) -> (Outcome, Vec<RunRecord>) {
    let done = kept(out, work, tell);
    let outcome = judged(work, &done, confidence_after(work, &done));
    (outcome, in_order(work, done))
}

/// The confidence of a judgement after the blocks that there are: that of a planned look, or what earlier
/// looks left.
fn confidence_after(work: &Work, done: &BTreeMap<String, Done>) -> f64 {
    let blocks = done.values().map(|done| done.record.block).max().unwrap_or(0);
    let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
    work.schedule.after(blocks).unwrap_or_else(|| work.schedule.ended(blocks)).confidence
}

fn in_order(work: &Work, mut done: BTreeMap<String, Done>) -> Vec<RunRecord> {
    let runs = work.plan.runs().iter();
    runs.filter_map(|run| done.remove(&run.id().to_string())).map(|done| done.record).collect()
}

fn judged(work: &Work, done: &BTreeMap<String, Done>, confidence: f64) -> Outcome {
    let of_run = |run: &Run| {
        let done = done.get(&run.id().to_string())?;
        Some(Kept { record: &done.record, archive: &done.archive })
    };
    let kept: Vec<Kept<'_>> = work.plan.runs().iter().filter_map(of_run).collect();
    let rule = Rule::new(confidence, FEWEST_BLOCKS, work.seed);
    let case =
        Case { question: &work.question, plan: &work.plan, setups: &work.setups, claims: &work.claims, rule };
    judge(&case, &kept)
}

/// Failed calls and repeated messages make no run void where a claim is about them.
pub(crate) fn tolerance(work: &Work) -> Tolerance {
    let about =
        |measures: &[Measure]| work.claims.iter().any(|claim| measures.contains(&claim.quantity.measure));
    let usual = Tolerance::default();
    let failing = about(&[Measure::Success, Measure::Failures, Measure::Peak]);
    let repeating = failing || about(&[Measure::Retransmissions]);
    Tolerance {
        errors: if failing { 1.0 } else { usual.errors },
        retransmissions: if repeating { 1.0 } else { usual.retransmissions },
        ..usual
    }
}

/// Whether no further block can change a verdict that was claimed for.
fn is_decided(outcome: &Outcome) -> bool {
    !outcome.claims.is_empty()
        && outcome.claims.iter().all(|claim| claim.verdict == "PASS" || claim.verdict == "FAIL")
}

/// A seed that the systems of a block share, so that they get the same calls at the same times.
fn seed_of(work: &Work, run: &Run) -> u64 {
    let place = u64::from(run.block()) << 32 | u64::try_from(run.setup()).unwrap_or(u64::MAX);
    load::population::Rng::new(work.seed, place).next_u64() >> 1
}

/// Performs one run and writes its archive.
fn perform(bench: &mut Bench<'_>, work: &Work, run: &Run, out: &Path) -> Result<Done, NoRun> {
    let setup = work.setups.get(run.setup()).ok_or_else(|| "there is no such combination".to_owned())?;
    let Finished { record, system_log, load_log } = bench.perform(run, setup, seed_of(work, run))?;
    let mut archive = Archive::default();
    archive.put(RECORD, record.to_json());
    archive.put(EXPERIMENT, setup.to_toml());
    archive.put("system.log", system_log);
    archive.put("load.log", load_log);
    let written = archive.write(out, &record.id);
    let path = written.map_err(|error| NoRun::Failed(format!("{}: {error}", out.display())))?;
    let archive = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Done { record, archive })
}

/// The runs of this experiment that are in the folder; of two archives of a run the later one. A file that
/// cannot be read is said, and its run made again.
fn kept(out: &Path, work: &Work, tell: &mut dyn FnMut(&str)) -> BTreeMap<String, Done> {
    let mut done: BTreeMap<String, Done> = BTreeMap::new();
    for path in archives(out, &work.plan.experiment().to_string()) {
        let read = Archive::read(&path).map_err(|error| error.to_string());
        let record = read.and_then(|archive| RunRecord::from_json(&archive.text(RECORD)));
        match record {
            Ok(record) => {
                let archive =
                    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if done.get(&record.id).is_none_or(|other| other.record.started <= record.started) {
                    done.insert(record.id.clone(), Done { record, archive });
                }
            }
            Err(why) => tell(&format!("left out: {why}")),
        }
    }
    done
}

/// Leaves out the runs of programs that are not what they were: built again, or installed anew.
fn of_today(done: BTreeMap<String, Done>, tell: &mut dyn FnMut(&str)) -> BTreeMap<String, Done> {
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    let mut is_today = |record: &RunRecord| {
        let fact =
            |name: &str| record.program.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
        // Where there is no system, none has changed.
        let (Some(program), Some(hash)) = (fact("program"), fact("sha256")) else { return true };
        let now = hashes
            .entry(program)
            .or_insert_with_key(|path| hash_of_file(Path::new(path)).unwrap_or_default());
        *now == hash
    };
    let before = done.len();
    let done: BTreeMap<String, Done> = done.into_iter().filter(|(_, done)| is_today(&done.record)).collect();
    if done.len() < before {
        tell(&format!("left out: {} runs of a program that has changed since", before - done.len()));
    }
    done
}

/// The archives of an experiment in a folder, by name.
fn archives(out: &Path, experiment: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(experiment) && name.ends_with(&format!(".{EXTENSION}"))
    };
    let mut all: Vec<PathBuf> = entries.filter(is_ours).collect();
    all.sort();
    all
}

/// About how long the rest takes.
fn left(begun: Instant, made: u32, missing: usize) -> Duration {
    let each = begun.elapsed() / made.max(1);
    each.saturating_mul(u32::try_from(missing).unwrap_or(u32::MAX).saturating_sub(made))
}

/// What is said when a run is over.
fn line(nth: usize, work: &Work, run: &Run, done: &Done, left: Duration) -> String {
    let record = &done.record;
    let said = match record.void.first() {
        Some(why) => format!("VOID: {why}"),
        None => {
            let calls = record.load.metric("calls.begun").unwrap_or(0.0);
            let cpu = record.load.server_cpu_percent.map(|percent| format!(", {percent:.1} % of a core"));
            format!("{calls:.0} calls{}", cpu.unwrap_or_default())
        }
    };
    let factors = work.setups.get(run.setup()).map(|setup| setup.combination.to_string()).unwrap_or_default();
    let place = if factors.is_empty() { String::new() } else { format!(" at {factors}") };
    format!(
        "run {} of {}  block {}  {}{place}: {said}; about {} left",
        nth + 1,
        work.plan.runs().len(),
        run.block(),
        run.subject(),
        minutes(left)
    )
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}
