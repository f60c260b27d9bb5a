//! All runs of an experiment, one after the other: kept as archives, resumed where they were interrupted,
//! judged at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::experiment::{CONFIDENCE, Claim, Plan, Reference, Run, Setup};
use lab::judgement::{Case, Kept, judge, settles};
use lab::outcome::{LookMade, Outcome};
use lab::record::RunRecord;
use lab::statistics::{Look, Rule, Schedule};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::archive::{Archive, EXTENSION, PARTIAL, hash_of_file};
use crate::emulated::is_inside;
use crate::process;
use crate::run::{Bench, Finished, GENERATOR, NoRun, Stop};

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
    /// The paper that it repeats, and what the paper measured.
    pub paper: (String, Vec<Reference>),
    /// After which blocks it is judged: it ends early when all claims are decided.
    pub schedule: Schedule,
    /// Looks under shorter plans, before it was extended.
    pub earlier: Vec<LookMade>,
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
    // Where `out` is of another machine, programs would wait for it.
    let scratch = if is_inside() { std::env::temp_dir().join("lab") } else { out.join("scratch") };
    remove_partial(out, &work.plan.experiment().to_string());
    let mut bench = Bench::new(own, scratch.clone(), stop)?;
    let done = of_today(kept(out, work, tell), &bench.generator, tell);
    let mut done = whole_blocks(work, done, tell);
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
        if block_ends && run.block() == 1 && done.values().all(|done| !done.record.screened.void.is_empty()) {
            tell(
                "every run of the first block is void: stop other programs on this machine or lower the rate; Ctrl-C ends \
                 the experiment",
            );
        }
        if block_ends && ending(work, &done).is_some_and(|look| !look.last) {
            tell("all claims are decided: no further block");
            break;
        }
    }
    let _ = fs::remove_dir(&scratch);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let outcome = concluded(work, &done);
    Ok((outcome, in_order(work, done)))
}

/// The outcome of the runs that are in `out`.
pub fn judge_kept(work: &Work, out: &Path, tell: &mut dyn FnMut(&str)) -> (Outcome, Vec<RunRecord>) {
    let done = kept(out, work, tell);
    let outcome = concluded(work, &done);
    (outcome, in_order(work, done))
}

/// The outcome at the look that ended the experiment. While runs are missing it says STOPPED.
fn concluded(work: &Work, done: &BTreeMap<String, Done>) -> Outcome {
    if let Some(look) = ending(work, done) {
        let mut outcome = judged(work, done, look);
        outcome.looks = looks(work, look.blocks);
        outcome.notes.extend(extended(work));
        outcome.notes.extend(after_void(&outcome));
        return outcome;
    }
    let blocks = done.values().map(|done| done.record.run.block).max().unwrap_or(0);
    let look = work.schedule.ended(usize::try_from(blocks).unwrap_or(usize::MAX));
    let mut outcome = judged(work, done, look);
    outcome.looks = looks(work, whole(work, done));
    outcome.notes.push(format!(
        "{} of {} runs are there: the same `lab run` goes on",
        outcome.runs.len(),
        outcome.planned
    ));
    outcome.reason = format!("stopped before its end; until then {}: {}", outcome.verdict, outcome.reason);
    outcome.verdict = "STOPPED".to_owned();
    outcome
}

/// What to do where too few runs count. The same command keeps void runs.
fn after_void(outcome: &Outcome) -> Option<String> {
    let void = outcome.runs.iter().filter(|run| !run.void.is_empty()).count();
    (outcome.verdict == "VOID" && void > 0).then(|| {
        format!(
            "{void} of {} runs are void and stay so: for new ones, run it with another --out; for more blocks, with \
             --set repetitions=N",
            outcome.runs.len()
        )
    })
}

/// Blocks of the plan that are there without a gap.
fn whole(work: &Work, done: &BTreeMap<String, Done>) -> usize {
    let missing = work.plan.runs().iter().find(|run| !done.contains_key(&run.id().to_string()));
    let blocks = missing.map_or(work.plan.blocks(), |run| run.block().saturating_sub(1));
    usize::try_from(blocks).unwrap_or(usize::MAX)
}

/// The looks that were made by now, those of shorter plans first.
fn looks(work: &Work, blocks: usize) -> Vec<LookMade> {
    let planned = usize::try_from(work.plan.blocks()).unwrap_or(usize::MAX);
    let own = work.schedule.looks().iter().filter(|look| look.blocks <= blocks);
    let own = own.map(|look| LookMade { blocks: look.blocks, confidence: look.confidence, planned });
    work.earlier.iter().copied().chain(own).collect()
}

/// What is said of an experiment that was extended after a verdict.
fn extended(work: &Work) -> Option<String> {
    let plans = work.earlier.chunk_by(|one, other| one.planned == other.planned).count();
    let error = Schedule::error_of_all(CONFIDENCE, u32::try_from(plans).ok().filter(|plans| *plans > 0)?);
    Some(format!(
        "it was extended after its verdict (looks before: {}): with all looks together, a verdict is wrong in up to {:.1} \
         of 100 experiments",
        work.earlier.len(),
        100.0 * error
    ))
}

/// The look at which the experiment ends: the first at which all claims are decided, or the last. Nothing
/// while runs up to it are missing.
fn ending(work: &Work, done: &BTreeMap<String, Done>) -> Option<Look> {
    for look in work.schedule.looks() {
        let mut until = work.plan.runs().iter().filter(|run| is_until(run, *look));
        if until.any(|run| !done.contains_key(&run.id().to_string())) {
            return None;
        }
        if look.last || is_decided(&judged(work, done, *look)) {
            return Some(*look);
        }
    }
    None
}

/// Whether a run is of a block that a look judges.
fn is_until(run: &Run, look: Look) -> bool {
    usize::try_from(run.block()).is_ok_and(|block| block <= look.blocks)
}

fn in_order(work: &Work, mut done: BTreeMap<String, Done>) -> Vec<RunRecord> {
    let runs = work.plan.runs().iter();
    runs.filter_map(|run| done.remove(&run.id().to_string())).map(|done| done.record).collect()
}

/// Judges by the blocks up to a look. A session that went on may have later ones already.
fn judged(work: &Work, done: &BTreeMap<String, Done>, look: Look) -> Outcome {
    let of_run = |run: &Run| {
        let done = done.get(&run.id().to_string())?;
        Some(Kept { record: &done.record, archive: &done.archive })
    };
    let kept: Vec<Kept<'_>> =
        work.plan.runs().iter().filter(|run| is_until(run, look)).filter_map(of_run).collect();
    let rule = Rule::new(look.confidence, FEWEST_BLOCKS, work.seed);
    let (paper, references) = &work.paper;
    let case = Case {
        question: &work.question,
        plan: &work.plan,
        setups: &work.setups,
        claims: &work.claims,
        paper,
        references,
        rule,
    };
    judge(&case, &kept)
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
    let Finished { record, system_log, load_log, files } = bench.perform(run, setup, seed_of(work, run))?;
    let mut archive = Archive::default();
    archive.put(RECORD, record.to_json());
    archive.put(EXPERIMENT, setup.to_toml());
    archive.put("system.log", system_log);
    archive.put("load.log", load_log);
    for (name, bytes) in files {
        archive.put(&name, bytes);
    }
    let written = archive.write(out, &record.run.id);
    let path = written.map_err(|error| NoRun::Failed(format!("{}: {error}", out.display())))?;
    let archive = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Done { record, archive })
}

/// The runs of the plan that are in the folder; of two archives of a run the later one. A file that
/// cannot be read is said, and its run made again.
fn kept(out: &Path, work: &Work, tell: &mut dyn FnMut(&str)) -> BTreeMap<String, Done> {
    let planned: BTreeMap<String, &Run> =
        work.plan.runs().iter().map(|run| (run.id().to_string(), run)).collect();
    let mut done: BTreeMap<String, Done> = BTreeMap::new();
    let mut others = 0_usize;
    for path in archives(out, &work.plan.experiment().to_string()) {
        let archive = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let read = Archive::read(&path).map_err(|error| error.to_string());
        let record = match read.and_then(|archive| RunRecord::from_json(&archive.text(RECORD))) {
            Ok(record) => record,
            Err(why) => {
                tell(&format!("left out: {why}"));
                continue;
            }
        };
        match planned.get(&record.run.id) {
            None => others += 1,
            Some(run) if !settles(&record, run) => {
                tell(&format!("left out: {archive}: block, system or factors are not those of the plan"));
            }
            Some(_) => {
                if done.get(&record.run.id).is_none_or(|other| other.record.run.started <= record.run.started)
                {
                    done.insert(record.run.id.clone(), Done { record, archive });
                }
            }
        }
    }
    if others > 0 {
        tell(&format!("left out: {others} runs that the plan does not have"));
    }
    of_one_session(done)
}

/// Leaves out the runs of programs that are not what they were: built again, or installed anew.
/// `generator`: the hash of the generator of today.
fn of_today(
    done: BTreeMap<String, Done>,
    generator: &str,
    tell: &mut dyn FnMut(&str),
) -> BTreeMap<String, Done> {
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    let mut is_today = |record: &RunRecord| {
        let fact =
            |name: &str| record.program.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
        if fact(GENERATOR).is_some_and(|hash| hash != generator) {
            return false;
        }
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

/// Of each block the runs of its latest session: systems are compared within a block, and the machine may
/// be another one after a pause.
fn of_one_session(done: BTreeMap<String, Done>) -> BTreeMap<String, Done> {
    let mut latest: BTreeMap<u32, u64> = BTreeMap::new();
    for record in done.values().map(|done| &done.record) {
        let session = latest.entry(record.run.block).or_default();
        *session = record.run.session.max(*session);
    }
    let is_latest = |record: &RunRecord| latest.get(&record.run.block) == Some(&record.run.session);
    done.into_iter().filter(|(_, done)| is_latest(&done.record)).collect()
}

/// Leaves out blocks that are not whole.
fn whole_blocks(
    work: &Work,
    done: BTreeMap<String, Done>,
    tell: &mut dyn FnMut(&str),
) -> BTreeMap<String, Done> {
    let missing = work.plan.runs().iter().filter(|run| !done.contains_key(&run.id().to_string()));
    let cut: BTreeSet<u32> = missing.map(Run::block).collect();
    let before = done.len();
    let done: BTreeMap<String, Done> =
        done.into_iter().filter(|(_, done)| !cut.contains(&done.record.run.block)).collect();
    if done.len() < before {
        tell(&format!(
            "left out: {} runs of blocks that were cut: they are made again whole",
            before - done.len()
        ));
    }
    done
}

/// Removes archives of an experiment that were never finished, because their session was killed. Nobody else
/// writes into the folder meanwhile.
fn remove_partial(out: &Path, experiment: &str) {
    for path in files(out, experiment, PARTIAL) {
        let _ = fs::remove_file(path);
    }
}

/// The archives of an experiment in a folder, by name.
fn archives(out: &Path, experiment: &str) -> Vec<PathBuf> {
    files(out, experiment, EXTENSION)
}

/// The files of an experiment with this extension, by name.
fn files(out: &Path, experiment: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(experiment) && name.ends_with(&format!(".{extension}"))
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
    let said = match (record.screened.void.first(), record.screened.reserved.first()) {
        (Some(why), _) => format!("VOID: {why}"),
        (None, Some(reserved)) => format!("{}: only {} count", reserved.why, reserved.only.join(", ")),
        (None, None) => {
            let calls = record.load.metric("calls.begun").unwrap_or(0.0);
            let cpu = record.cpu().map(|percent| format!(", {percent:.1} % of a core"));
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

#[cfg(test)]
mod tests {
    use lab::experiment::{Experiment, Sources, of_earlier_plans};
    use lab::record::MadeRun;
    use load::report::Fact;

    use super::*;

    const TEXT: &str = "question = '?'\nrepetitions = 20\n[system.A]\n[system.B]\n\
        [[claim]]\nthat = 'cpu/call of B at most 1.5 of A'\n";

    fn work(text: &str) -> Work {
        let experiment = Experiment::read(&Sources::new("x.toml", text)).expect("it is good");
        Work {
            question: String::new(),
            seed: 1,
            plan: experiment.plan().expect("it can be run"),
            setups: experiment.setups().to_vec(),
            claims: experiment.claims().to_vec(),
            paper: (experiment.paper().to_owned(), experiment.references().to_vec()),
            schedule: experiment.schedule(&[]),
            earlier: Vec::new(),
        }
    }

    /// All runs of a plan: B takes this part of what A takes, in each block.
    fn all(work: &Work, cost: impl Fn(u32) -> f64) -> BTreeMap<String, Done> {
        let done = |run: &Run| {
            let mut record =
                RunRecord { run: MadeRun { session: 1, ..MadeRun::of(run) }, ..RunRecord::default() };
            record.load.windows.measured = 1.0;
            record.load.measured.insert("calls.succeeded".to_owned(), 100);
            let noise = 1.0 + f64::from((run.block() * 7 + u32::from(run.subject().twin) * 3) % 5) / 500.0;
            let own = if run.subject().system == "B" { cost(run.block()) } else { 1.0 };
            record.load.server_cpu_percent = Some(own * noise);
            (record.run.id.clone(), Done { record, archive: String::new() })
        };
        work.plan.runs().iter().map(done).collect()
    }

    fn blocks(done: &BTreeMap<String, Done>) -> BTreeSet<u32> {
        done.values().map(|done| done.record.run.block).collect()
    }

    #[test]
    fn block_that_was_cut_is_left_out_whole() {
        let work = work(TEXT);
        let mut done = all(&work, |_| 1.0);
        done.remove(&work.plan.runs()[1].id().to_string());
        // Another block was made again in part, in a later session.
        let other = work.plan.runs().iter().find(|run| run.block() == 3).expect("there are 20");
        done.get_mut(&other.id().to_string()).expect("it is there").record.run.session = 2;
        let mut said = Vec::new();
        let done = of_one_session(done);
        assert_eq!(done.values().filter(|done| done.record.run.block == 3).count(), 1);
        let done = whole_blocks(&work, done, &mut |line| said.push(line.to_owned()));
        assert_eq!(blocks(&done), (1..=20).filter(|block| ![1, 3].contains(block)).collect());
        assert!(said[0].starts_with("left out: 3 runs of blocks that were cut"), "{said:?}");
    }

    #[test]
    fn archive_that_was_never_finished_is_removed() {
        let out = tempfile::tempdir().expect("a folder");
        for name in ["ab-b1-A-0.run.partial", "ab-b1-A-0.run.tgz", "cd-b1-A-0.run.partial", "ab.txt"] {
            fs::write(out.path().join(name), "").expect("written");
        }
        remove_partial(out.path(), "ab");
        let mut left: Vec<_> =
            fs::read_dir(out.path()).expect("listed").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["ab-b1-A-0.run.tgz", "ab.txt", "cd-b1-A-0.run.partial"]);
    }

    #[test]
    fn runs_of_another_generator_are_left_out() {
        let work = work(TEXT);
        let mut done = all(&work, |_| 1.0);
        for done in done.values_mut() {
            let hash = if done.record.run.block > 10 { "new" } else { "old" };
            done.record.program.push(Fact::new(GENERATOR, hash));
        }
        assert_eq!(blocks(&of_today(done, "new", &mut |_| {})), (11..=20).collect());
    }

    #[test]
    fn look_judges_only_the_blocks_up_to_it() {
        let work = work(TEXT);
        let first = work.schedule.looks()[0];
        assert!(!first.last, "an experiment of 20 blocks has earlier looks");
        // Good until the first look, bad after it.
        let done = all(&work, |block| if block as usize <= first.blocks { 1.0 } else { 9.0 });
        let outcome = concluded(&work, &done);
        assert_eq!(
            (ending(&work, &done), outcome.verdict.as_str()),
            (Some(first), "PASS"),
            "{}",
            outcome.reason
        );
        assert!(outcome.runs.iter().all(|run| run.block as usize <= first.blocks));
    }

    #[test]
    fn extension_counts_the_looks_before_it() {
        let short = work(&TEXT.replace("repetitions = 20", "repetitions = 8"));
        let first = concluded(&short, &all(&short, |_| 1.0));
        assert_eq!((first.verdict.as_str(), first.looks.len()), ("PASS", 1), "{}", first.reason);
        assert!(!first.notes.iter().any(|note| note.contains("extended")));
        let experiment = Experiment::read(&Sources::new("x.toml", TEXT)).expect("it is good");
        let mut long = work(TEXT);
        (long.schedule, long.earlier) = (experiment.schedule(&first.looks), first.looks.clone());
        assert!(long.schedule.last_confidence() > 0.97 && work(TEXT).schedule.looks()[0].blocks > 8);
        let second = concluded(&long, &all(&long, |_| 1.0));
        assert!(
            second.notes.iter().any(|note| note.contains("wrong in up to 7.5 of 100")),
            "{:?}",
            second.notes
        );
        // Judged again, it has the same looks: its own are no looks before it.
        let made = of_earlier_plans(&second.looks, 20);
        assert_eq!(made, first.looks);
        assert_eq!(experiment.schedule(&second.looks), long.schedule);
    }

    #[test]
    fn report_before_the_planned_end_says_stopped() {
        let work = work(TEXT);
        let mut done = all(&work, |_| 1.0);
        done.retain(|_, done| done.record.run.block <= 8);
        let outcome = concluded(&work, &done);
        assert_eq!((outcome.verdict.as_str(), outcome.exit_status()), ("STOPPED", 3), "{}", outcome.reason);
    }

    #[test]
    fn runs_outside_the_plan_and_records_that_differ_are_left_out() {
        let (long, short) = (work(TEXT), work(&TEXT.replace("repetitions = 20", "repetitions = 6")));
        let out = std::env::temp_dir().join(format!("lab-kept-{}", std::process::id()));
        fs::create_dir_all(&out).expect("a folder");
        for (id, done) in all(&long, |_| 1.0) {
            let mut record = done.record;
            record.version = lab::record::VERSION;
            if record.run.block == 2 {
                record.run.block = 40_000_000;
            }
            let mut archive = Archive::default();
            archive.put(RECORD, record.to_json());
            archive.write(&out, &id).expect("written");
        }
        let done = kept(&out, &short, &mut |_| {});
        let _ = fs::remove_dir_all(&out);
        assert_eq!(blocks(&done), BTreeSet::from([1, 3, 4, 5, 6]));
    }
}
