//! `--self-test`: how far this program is to be trusted on this machine.
//!
//! The testbed's own session establishment rate, without a server (RFC 7502 section 6.1): every worker calls
//! itself over loopback. First a bare thread shows how punctual the machine itself is, then rates are tried,
//! each by the majority of up to three runs, then half the rate that was found is run three times more, each
//! measured once its calls under way are as many as they will be; the run in the middle counts.
//!
//! A machine whose host takes its processors away for milliseconds fails a trial at any rate. Where threads
//! ahead of the workers can watch for that, a trial that its stalls alone made late is set aside and made
//! again, and the answer says how many were.

use super::args::LoadArgs;
use super::ending::{Ended, stopped};
use super::host::Floor;
use super::output::{deliver, unwritten};
use super::plan::Plan;
use super::search::{Conforming, first_rate, trial_length, trial_of};
use super::witness::{Stalls, Witness};
use super::{STOPPED, VOID, measure, say};
use control::signals::Signal;
use load::population::{Outcome, Peak, Search, Verdict};
use load::report::{Fact, Report, Trial};
use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;
use wire::Time;
use worker_runtime::monotonic_now;

/// How long the whole takes at most; what the machine itself does and the run at half the rate are in it.
const LONGEST: Duration = Duration::from_secs(300);
/// No trial begins that would end later than this after the first one began: the runs at half the rate come
/// then.
const SEARCH: Duration = Duration::from_secs(300 - 3 * (10 + 5 + 5));
/// Runs at half the rate. One hiccup of the machine decides about the 99.9th percentile of one run, as of one
/// trial.
const HALVES: usize = 3;
/// None of them is longer.
const HALF: Duration = Duration::from_secs(10);
/// What of a trial is not measured: the memory of the trial before goes back to the kernel a second after its
/// end, for which the allocator keeps a worker for some twenty milliseconds.
const SETTLING: Duration = Duration::from_secs(2);
/// What of a run at half the rate is not: calls that have ended are remembered for four seconds, and while
/// their number grows, so does the memory that the kernel has to find.
const GROWTH: Duration = Duration::from_secs(5);
/// What a run takes beyond that at most, until its last call has ended: where more calls begin than can be,
/// what is under way has no end, and has failed.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Calls of a trial at least, so that five of them are above the 99.9th percentile.
const CALLS: f64 = 5_000.0;
/// The lowest rate to be tried: who cannot offer it is kept from it, not at the limit.
const LOWEST: f64 = 100.0;
/// The highest.
const HIGHEST: f64 = 1e6;
/// How near the load that conforms and the one that does not come.
const RESOLUTION: f64 = 0.1;
/// How long a bare thread sleeps to given times, and how far these are apart.
const FLOOR: (Duration, Duration) = (Duration::from_secs(2), Duration::from_micros(250));

/// What the machine's stalls must have made late themselves, that they alone break a 99.9th percentile.
const SHARE: f64 = 0.001;
/// A trial whose busiest worker was busy for more than this percentage is not set aside: it had more to do
/// than it could, and where it runs before all others the kernel itself takes a twentieth of each second from
/// it.
const BUSY: f64 = 90.0;
/// Trials that are set aside between two that count: a machine that always stalls is what it is.
const ASIDE: u32 = 4;

/// The trials of a self-test.
struct Test<'a> {
    args: &'a LoadArgs,
    signals: &'a Receiver<Signal>,
    least: Duration,
    began: Time,
    /// The machine itself was late before the first call.
    late: bool,
    trials: Vec<Trial>,
    /// Runs made, those at half the rate as well.
    made: u64,
    /// Who sees whether the machine itself stalls.
    witness: Option<Witness>,
    /// Trials set aside for that: all of them, and since the last that counted.
    aside: (u32, u32),
    /// A file of a run that could not be written.
    trouble: Option<String>,
    /// Who stopped it, and when.
    stopped: String,
}

/// The answer, the best run, and what the smallest rate that failed broke.
type Answer = (Peak, Option<Report>, Vec<String>);

/// Runs the self-test, and reports the last run that conformed, with all trials.
pub fn self_test(args: &LoadArgs, signals: &Receiver<Signal>) -> Result<u8, String> {
    if args.warm_up > 0.0 {
        return Err(
            "--warm-up: what of a trial is not measured is given in a self-test; --trial is what is".into()
        );
    }
    let least = trial_length(args)?;
    let floor = floor(args);
    let highest = if args.rate_max > 0.0 { args.rate_max.clamp(LOWEST, HIGHEST) } else { HIGHEST };
    let start = first_rate(args).clamp(LOWEST, highest);
    say::err(format_args!(
        "rates from {start:.0} calls/s, doubled while two of three trials conform (lateness p99.9 within {} ms, no \
         call failed, no packet lost, no worker busy for more than 95 %), then narrowed to {:.0} %; this ends \
         within {} minutes",
        args.lateness,
        RESOLUTION * 100.0,
        LONGEST.as_secs() / 60,
    ));
    let late = floor.as_ref().is_some_and(|floor| is_late(args, floor));
    let mut test = Test::new(args, signals, least, late);
    let Some((peak, best, limits)) = test.search(start, highest)? else {
        say::out(format_args!("STOPPED\n  {}: no rate was found\n", test.stopped));
        return Ok(STOPPED);
    };
    let limited = limited(&peak, &limits);
    let Some(report) = best.filter(|_| peak.outcome != Outcome::Nothing) else {
        let why = format!("calls/s that conform in two of three trials were not found; limited by {limited}");
        return Ok(no_figure(&why, &test.aside_said()));
    };
    let half = (peak.load / 2.0).floor().max(1.0);
    let Some(at_half) = test.at_half(half)? else {
        let (load, by) = (peak.load, &test.stopped);
        say::out(format_args!(
            "STOPPED\n  {by}: {load:.0} calls/s conform, and half of that was not tried to its end\n"
        ));
        return Ok(STOPPED);
    };
    match at_half {
        Ok(lateness) => test.conclude(&peak, report, floor.as_ref(), (half, &lateness, &limited)),
        Err(why) => {
            let load = peak.load;
            let why = format!("{load} calls/s conform, and half of that, {half:.0} calls/s, does not: {why}");
            Ok(no_figure(&why, &test.aside_said()))
        }
    }
}

/// Says why nothing can be said; the exit code.
fn no_figure(why: &str, aside: &str) -> u8 {
    say::out(format_args!("no figure: {why}\n"));
    say::out(format_args!("trials set aside: {aside}\n"));
    say::out(format_args!(
        "what else runs on this machine, or on its host, is in the way; try again when it is quiet, or with --realtime\n"
    ));
    VOID
}

/// What the floor is called in reports.
const FLOOR_NAME: &str = "lateness of a bare thread on this machine";

/// Measures and shows how punctual the machine itself is.
fn floor(args: &LoadArgs) -> Option<Floor> {
    let floor = Floor::measure(workers(args), args.realtime, FLOOR.0, FLOOR.1)?;
    say::err(format_args!("{FLOOR_NAME}: {}", floor.text()));
    if is_late(args, &floor) {
        say::err(format_args!(
            "that is beyond --lateness {} ms before a single call is made: the machine, not this program, is late",
            args.lateness
        ));
    }
    Some(floor)
}

/// How many workers there are.
fn workers(args: &LoadArgs) -> usize {
    match args.workers {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// Whether a thread that does nothing is later than the run may be.
fn is_late(args: &LoadArgs, floor: &Floor) -> bool {
    floor.lateness.percentile(99.9) as f64 / 1_000.0 > args.lateness
}

impl<'a> Test<'a> {
    fn new(args: &'a LoadArgs, signals: &'a Receiver<Signal>, least: Duration, late: bool) -> Test<'a> {
        Test {
            args,
            signals,
            least,
            began: monotonic_now(),
            late,
            trials: Vec::new(),
            made: 0,
            witness: Witness::start(workers(args), Duration::from_secs_f64(args.lateness / 1_000.0)),
            aside: (0, 0),
            trouble: None,
            stopped: String::new(),
        }
    }

    /// Reports what was found: the best run, and how late this program was at half its rate.
    fn conclude(
        self,
        peak: &Peak,
        report: Report,
        floor: Option<&Floor>,
        (half, at_half, limited): (f64, &str, &str),
    ) -> Result<u8, String> {
        let args = self.args;
        let aside = self.aside_said();
        let is_aside = |t: &&Trial| t.load == peak.load && t.why.starts_with(ASIDE_NAME);
        let aside_there = self.trials.iter().filter(is_aside).count();
        let mut facts = vec![Fact::new("search", peak.statement("calls/s"))];
        facts.extend(floor.map(|floor| Fact::new(FLOOR_NAME, floor.text())));
        facts.push(Fact::new("limited by", limited));
        facts.push(Fact::new("trials set aside", &aside));
        facts
            .push(Fact::new(format!("lateness at half the rate, {half:.0} calls/s, in full swing"), at_half));
        facts.push(Fact::new("to be trusted up to", format!("{:.0} calls/s", peak.load)));
        let trouble = self.trouble;
        let mut report = report.searched(self.trials, peak, "calls/s");
        report.parameters.extend(facts);
        deliver(args, &report)?;
        say::out(format_args!(
            "this program on this machine is to be trusted up to {:.0} calls/s, both sides together, with a lateness \
             (p99.9) within {} ms ({} of {} trials there conformed, besides {aside_there} set aside; {} trials in all)\n",
            peak.load, args.lateness, peak.runs.1, peak.runs.0, peak.trials
        ));
        say::out(format_args!("limited by {limited}\n"));
        say::out(format_args!("trials set aside: {aside}\n"));
        say::out(format_args!(
            "lateness at half that rate ({half:.0} calls/s), the middle of {HALVES} runs: {at_half}\n"
        ));
        trouble.map_or(Ok(0), Err)
    }

    /// The answer; none if it was stopped.
    fn search(&mut self, start: f64, highest: f64) -> Result<Option<Answer>, String> {
        let impossible = |error: load::population::Impossible| error.to_string();
        let mut search = Search::majority(start, (LOWEST, highest), RESOLUTION).map_err(impossible)?;
        let mut conforming = Conforming::default();
        let mut limits = (f64::INFINITY, Vec::new());
        while let Some(trial) = search.next() {
            if monotonic_now().since(self.began) + self.length(trial.load) + SETTLING + PATIENCE > SEARCH {
                let peak = search.stop();
                let best = conforming.at(peak.load);
                return Ok(Some((peak, best, limits.1)));
            }
            let Some(report) = self.run(trial.load, self.length(trial.load))? else { return Ok(None) };
            let conforms = report.verdict.word == "PASS";
            if self.late && !conforms && conforming.is_empty() && self.trials.len() == 2 {
                // Two runs gone by. Where it still is there is nothing to be found, only time to be lost.
                self.late = floor(self.args).is_some_and(|floor| is_late(self.args, &floor));
                if self.late {
                    return Ok(Some((search.stop(), None, report.verdict.why)));
                }
            }
            if !conforms && let Some(why) = self.set_aside(&report) {
                if let Some(trial) = self.trials.last_mut() {
                    trial.why = format!("{why}; {}", trial.why);
                }
                continue;
            }
            self.aside.1 = 0;
            if conforms {
                conforming.note(trial.load, report);
            } else {
                if trial.load < limits.0 {
                    limits = (trial.load, Vec::new());
                }
                if trial.load <= limits.0 {
                    limits.1.extend(report.verdict.why.iter().cloned());
                }
            }
            let verdict = if conforms { Verdict::Conforms } else { Verdict::Fails };
            if let Some(peak) = search.result(&trial, verdict) {
                return Ok(Some((peak, conforming.at(peak.load), limits.1)));
            }
        }
        Err("the search ended without a result".into())
    }

    /// How many trials were set aside, in words.
    fn aside_said(&self) -> String {
        match (&self.witness, self.aside.0) {
            (None, _) => {
                "none; nobody watched for stalls of the machine, which needs a processor for each worker and the \
                 right to run before it (root or CAP_SYS_NICE)"
                    .to_owned()
            }
            (Some(_), 0) => "none".to_owned(),
            (Some(_), n) => {
                format!("{n}, in which the machine kept threads waiting that are ahead of the generator's")
            }
        }
    }

    /// Why the run that did not conform is to be made again, if it is.
    fn set_aside(&mut self, report: &Report) -> Option<String> {
        let stalls = self.witness.as_ref().map(Witness::stalls)?;
        if !is_excused(&report.verdict.why, report.metric("cpu"), stalls) || self.aside.1 == ASIDE {
            return None;
        }
        self.aside = (self.aside.0 + 1, self.aside.1 + 1);
        let why =
            format!("{ASIDE_NAME}: the machine stalled for {:.1} ms", stalls.longest.as_secs_f64() * 1_000.0);
        say::err(format_args!("{why}; made again"));
        Some(why)
    }

    fn length(&self, rate: f64) -> Duration {
        self.least.max(Duration::from_secs_f64(CALLS / rate.max(1.0)))
    }

    /// One trial; none if it was stopped.
    fn run(&mut self, rate: f64, length: Duration) -> Result<Option<Report>, String> {
        let run = self.measure(rate, (SETTLING, length + SETTLING), SEARCH)?;
        Ok(run.map(|(report, trial)| {
            self.trials.push(trial);
            report
        }))
    }

    /// Lateness at this rate, of the run in the middle, or why most runs do not conform; none if it was
    /// stopped.
    fn at_half(&mut self, rate: f64) -> Result<Option<Result<String, String>>, String> {
        let (mut runs, mut reasons) = (Vec::with_capacity(HALVES), Vec::new());
        while runs.len() + reasons.len() < HALVES {
            let number = runs.len() + reasons.len() + 1;
            let Some(report) = self.steady(rate, self.length(rate).min(HALF))? else { return Ok(None) };
            let to_come = (HALF + GROWTH + PATIENCE) * (HALVES + 1 - number) as u32;
            let time = monotonic_now().since(self.began) + to_come < LONGEST;
            if report.verdict.word != "PASS" && time && self.set_aside(&report).is_some() {
                continue;
            }
            self.aside.1 = 0;
            let (word, text) = (&report.verdict.word, lateness(&report));
            say::err(format_args!(
                "run {number} of {HALVES} at half the rate, {rate:.0} calls/s: {word}, lateness {text}"
            ));
            match report.verdict.why.first() {
                Some(why) => reasons.push(why.clone()),
                None => runs.push((report.lateness.p999, text)),
            }
        }
        Ok(Some(middle(runs, &reasons)))
    }

    /// One run that is measured once it is in full swing; none if it was stopped.
    fn steady(&mut self, rate: f64, length: Duration) -> Result<Option<Report>, String> {
        Ok(self.measure(rate, (GROWTH, length + GROWTH), LONGEST)?.map(|(report, _)| report))
    }

    fn measure(
        &mut self,
        rate: f64,
        (warm_up, length): (Duration, Duration),
        end: Duration,
    ) -> Result<Option<(Report, Trial)>, String> {
        self.made += 1;
        let number = self.made;
        let mut args = LoadArgs { quiet: true, json: None, html: None, csv: None, ..self.args.clone() };
        args.seed = args.seed.map(|seed| seed.wrapping_add(number));
        (args.rate, args.rp, args.rate_max, args.success) = (Some(rate), 1_000.0, 0.0, 100.0);
        args.warm_up = warm_up.as_secs_f64();
        args.timeout = Some(format!("{}s", length.as_secs_f64()));
        let plan = Plan::new(&args)?;
        if let Some(witness) = &self.witness {
            // To some hundredths of a second what is measured of the run.
            let now = monotonic_now();
            witness.look(now + warm_up, now + length);
        }
        let (report, ended) = measure(&args, plan, self.signals)?;
        if let Ended::Asked(wish) = ended {
            self.stopped = stopped(wish, monotonic_now().since(self.began));
            return Ok(None);
        }
        self.trouble = self.trouble.take().or(unwritten(&report).err());
        let trial = trial_of(&report, rate, "calls/s");
        let left = end.saturating_sub(monotonic_now().since(self.began)).as_secs();
        let (word, why) = (if trial.verdict == "PASS" { "conforms" } else { "does not" }, &trial.why);
        say::err(format_args!(
            "trial {number:>2} {rate:>8.0} calls/s  {word}  lateness p99.9 {:.3} ms, busiest worker {:.0} %, at most \
             {left} s to go; {why}",
            trial.lateness_p999_ms.unwrap_or_default(),
            trial.generator_cpu_percent.unwrap_or_default(),
        ));
        Ok(Some((report, trial)))
    }
}

/// What is said of a trial that was set aside.
const ASIDE_NAME: &str = "set aside";

/// Whether nothing else is wrong with a run than that it was late, and stalls of the machine suffice for
/// that. Workers that are busy themselves take longer to come to what has waited meanwhile, so less of a
/// stall suffices there.
fn is_excused(why: &[String], busy: Option<f64>, stalls: Stalls) -> bool {
    let busy = busy.unwrap_or_default();
    let late_alone = !why.is_empty() && why.iter().all(|why| why.starts_with("generator's lateness"));
    late_alone && busy <= BUSY && stalls.share >= SHARE * (1.0 - busy / 100.0)
}

/// What kept the rate from being higher, in words.
fn limited(peak: &Peak, limits: &[String]) -> String {
    match peak.outcome {
        Outcome::AtLeast => return "nothing up to the highest rate tried".to_owned(),
        Outcome::Stopped if limits.is_empty() => {
            return "the time of the self-test: no rate tried failed".to_owned();
        }
        _ => {}
    }
    // Once for each kind; runs of one load differ in their figures.
    let mut kinds = BTreeSet::new();
    let kind = |limit: &&String| kinds.insert(limit.split(':').next().unwrap_or_default().to_owned());
    let named: Vec<&str> = limits.iter().filter(kind).map(String::as_str).collect();
    match named.is_empty() {
        true => "nothing that was seen".to_owned(),
        false => named.join("; "),
    }
}

/// Of the runs that conform, with their 99.9th percentile and what is said of it, the one in the middle, the
/// later one of two; what was wrong with the others if that is most of them.
fn middle(mut runs: Vec<(u64, String)>, reasons: &[String]) -> Result<String, String> {
    if reasons.len() > runs.len() {
        return Err(reasons.join("; "));
    }
    runs.sort();
    let text = if runs.is_empty() { String::new() } else { runs.swap_remove(runs.len() / 2).1 };
    Ok(match reasons {
        [] => text,
        some => format!("{text}; another run did not conform: {}", some.join("; ")),
    })
}

/// How late a run was, and on how many values its 99.9th percentile stands.
fn lateness(report: &Report) -> String {
    let (d, ms) = (&report.lateness, |micros: u64| micros as f64 / 1_000.0);
    format!(
        "p50 {:.3} p90 {:.3} p99 {:.3} p99.9 {:.3} max {:.3} ms of {} values, {} of them above p99.9",
        ms(d.p50),
        ms(d.p90),
        ms(d.p99),
        ms(d.p999),
        ms(d.max),
        d.count,
        d.count / 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(outcome: Outcome) -> Peak {
        Peak { load: 1_000.0, outcome, confidence: None, interval: None, runs: (3, 2), trials: 9 }
    }

    #[test]
    fn half_the_rate_has_to_conform_too() {
        let run = |p999: u64| (p999, p999.to_string());
        assert_eq!(middle(vec![run(900), run(300), run(400)], &[]).as_deref(), Ok("400"));
        let late = || "late".to_owned();
        let one = middle(vec![run(900), run(300)], &[late()]);
        assert_eq!(one.as_deref(), Ok("900; another run did not conform: late"), "one hiccup");
        let why = [late(), "packets lost".to_owned()];
        assert_eq!(middle(vec![run(300)], &why), Err("late; packets lost".to_owned()));
    }

    #[test]
    fn only_what_stalls_of_the_machine_suffice_for_is_excused() {
        let late = || "generator's lateness, p99.9: 9.000 ms, limit 5.000 ms".to_owned();
        let share = |share| Stalls { longest: Duration::from_millis(9), share };
        assert!(is_excused(&[late()], None, share(0.001)));
        assert!(!is_excused(&[late()], None, share(0.0009)), "too short for a 99.9th percentile");
        assert!(is_excused(&[late()], Some(50.0), share(0.0005)), "what waited took as long again");
        assert!(!is_excused(&[late()], Some(91.0), share(0.5)), "too busy");
        assert!(
            !is_excused(&[late(), "successful calls: 99 %".to_owned()], None, share(0.5)),
            "a call failed"
        );
        assert!(!is_excused(&[], None, share(0.5)), "stopped");
    }

    #[test]
    fn the_limit_is_named_once_for_each_kind() {
        let limits = ["late: 9 ms, limit 5 ms", "late: 8 ms, limit 5 ms", "busy: 99 %, limit 95 %"];
        let limits = limits.map(str::to_owned);
        assert_eq!(limited(&peak(Outcome::Found), &limits), "late: 9 ms, limit 5 ms; busy: 99 %, limit 95 %");
        assert!(limited(&peak(Outcome::AtLeast), &limits).starts_with("nothing up to"));
        assert!(limited(&peak(Outcome::Stopped), &[]).contains("time"));
    }
}
