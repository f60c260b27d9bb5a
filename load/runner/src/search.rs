//! `--find-peak`: runs at several rates until the highest that conforms is known.

use super::advice;
use super::args::LoadArgs;
use super::ending::{Ended, stopped};
use super::output::{deliver, unwritten};
use super::plan::{Plan, wall_micros};
use super::schedule;
use super::users::UsersPlan;
use super::watch::{PATIENCE, duration};
use super::{STOPPED, VOID, measure, measure_users, nothing_measured, say};
use control::signals::Signal;
use load::population::{Outcome, Peak, Search, SearchOptions, Verdict};
use load::report::{Report, Trial, VerdictReport};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use worker_runtime::monotonic_now;

/// Milliseconds that the 99th percentile of response times may be at most unless said otherwise: T1 of RFC
/// 3261, after which requests are sent again. A server that answers later is beyond its peak, though it may
/// work all of it off when the trial is over.
const SLOWEST: f64 = 500.0;

/// Of fewer calls than this in a trial it may be that none is in the measured window.
const FEW: f64 = 10.0;

/// No load conformed, or none surely did.
const NOT_FOUND: u8 = 1;

/// Searches, and reports the last run that conformed, with all trials.
pub fn search(args: &LoadArgs, signals: &Receiver<Signal>) -> Result<u8, String> {
    let length = trial_length(args)?;
    let users = args.people.users;
    let rfc7502 = args.sipp.rfc7502;
    let unit = match users {
        Some(_) => "users",
        None if rfc7502 => "attempts/s",
        None => "calls/s",
    };
    let mut search = prepared(args)?;
    // RFC 7502 asks for success alone.
    let limit = args.response.or_else(|| (!rfc7502).then_some(SLOWEST));
    let (mut trials, began) = (Trials::default(), monotonic_now());
    // Trials of RFC 7502 last as long as their attempts take.
    if !args.quiet && !rfc7502 {
        let each = if users.is_some() { args.people.length(length)? } else { length };
        say::err(format_args!("{}", schedule::search_text(each + PAUSE, wall_micros())));
    }
    let by = |wish| Halt { why: stopped(wish, monotonic_now().since(began)), code: STOPPED };
    let (peak, halted) = loop {
        let Some(trial) = search.next() else { return Err("the search ended without a result".into()) };
        if let Some(wish) = rest(trial.number, PAUSE, signals) {
            break (search.stop(), Some(by(wish)));
        }
        // Each trial has random numbers of its own; the search as a whole can be repeated.
        let seed = args.seed.map(|seed| seed.wrapping_add(u64::from(trial.number)));
        let args = LoadArgs { seed, quiet: true, rate_max: 0.0, response: limit, ..args.clone() };
        let report = match users {
            Some(_) => run_users(args.clone(), trial.load, length, signals),
            None => run_calls(args.clone(), &trial, length, signals),
        };
        let report = match report {
            Ok((_, Ended::Asked(wish))) => break (search.stop(), Some(by(wish))),
            Ok((report, _)) => report,
            // What is known is told all the same.
            Err(why) if !trials.told.is_empty() => {
                let why = format!("trial {} could not be made: {why}", trial.number);
                break (search.stop(), Some(Halt { why, code: VOID }));
            }
            Err(why) => return Err(why),
        };
        let unknown = users.and_then(|_| advice::unknown_users(&report, args.success));
        let empty = nothing_measured(&report.verdict).map(|why| format!("{why}. {}", mend(&args)));
        let verdict = verdict_of(&report.verdict);
        trials.note(&trial, (report, verdict), unit);
        let measured = length.as_secs_f64() - args.warm_up;
        let few = users.is_none() && !rfc7502 && trial.load * measured < FEW;
        if empty.is_some() && !few {
            // Nor would it be at another load, and the generator is not to blame. Of few calls there may be
            // none by chance.
            break (search.stop(), empty.map(|why| Halt { why, code: VOID }));
        }
        if unknown.is_some() {
            // It fails for who asks, at this load and any above it; what is found below would be their
            // number.
            break (search.stop(), unknown.map(|why| Halt { why, code: VOID }));
        }
        if let Some(peak) = search.result(&trial, verdict) {
            break (peak, None);
        }
    };
    answer(args, trials, (&peak, halted), unit)
}

/// Why a search ended before its answer.
struct Halt {
    why: String,
    /// The exit code of that.
    code: u8,
}

impl Halt {
    /// The report of a run that stands for what is known: the search as a whole is no statement.
    fn mark(&self, report: &mut Report) {
        let verdict = &mut report.verdict;
        let word = if self.code == STOPPED { "STOPPED" } else { "VOID" };
        (verdict.word, verdict.exit_code) = (word.to_owned(), self.code);
        verdict.why = vec![self.why.clone()];
        report.notes.push(format!("{HALTED}{}", self.why));
    }
}

/// Tells the answer of a search, or what is known where it was `halted`, and why it was.
fn answer(
    args: &LoadArgs,
    trials: Trials,
    (peak, halted): (&Peak, Option<Halt>),
    unit: &str,
) -> Result<u8, String> {
    let Trials { told, conforming, lowest, trouble } = trials;
    if let Some(mut report) = conforming.of(peak, lowest.map(|(_, report)| report)) {
        halted.iter().for_each(|halt| halt.mark(&mut report));
        deliver(args, &report.searched(told, peak, unit))?;
    }
    say::out(format_args!("{}\n", peak.statement(unit)));
    if peak.outcome == Outcome::AtLeast {
        say::out(format_args!("limited by {}\n", limited_by(args, peak.load)));
    }
    let compress = args.people.compress;
    let none = matches!(peak.outcome, Outcome::Nothing | Outcome::Unknown);
    if args.people.users.is_some() && compress != 1.0 && !none {
        let in_life = peak.load * compress;
        say::out(format_args!("TIME COMPRESSED x{compress}: the load of {in_life:.0} users in life\n"));
    }
    if let Some(Halt { why, .. }) = &halted {
        say::err(format_args!("{HALTED}{why}"));
    }
    trouble.map_or(Ok(()), Err)?;
    Ok(halted.map_or_else(|| code(peak.outcome), |halt| halt.code))
}

/// How it is said that a search ended early, and why.
const HALTED: &str = "the search ended before its answer: ";

/// The exit code of a search that came to its end.
fn code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Found | Outcome::AtLeast | Outcome::GeneratorLimit => 0,
        Outcome::Nothing | Outcome::OutOfTrials | Outcome::Disturbed => NOT_FOUND,
        Outcome::Unknown | Outcome::Stopped => VOID,
    }
}

/// The search that is asked for.
fn prepared(args: &LoadArgs) -> Result<Search, String> {
    let users = args.people.users;
    if args.sipp.rfc7502 && users.is_some() {
        return Err(
            "--rfc7502 searches for a rate of a scenario's calls; without it --find-peak finds users".into(),
        );
    }
    let first = users.map_or(first_rate(args), |users| users as f64);
    if args.rate_max > 0.0 && args.rate_max < first {
        let begins = if users.is_some() { "--users" } else { "-r" };
        return Err(format!(
            "-rate_max {}: the search begins above that, at {first}; give a lower {begins}",
            args.rate_max
        ));
    }
    let highest = highest(args)?;
    let options = SearchOptions {
        start: first,
        // A caller and a callee.
        lowest: if users.is_some() { 2.0 } else { 1.0 },
        highest,
        resolution: args.resolution / 100.0,
        ..SearchOptions::default()
    };
    let search = match args.sipp.rfc7502 {
        true => Search::rfc7502(first_rate(args), args.sipp.attempts, WEIGHT, options.highest),
        false => Search::robust(options),
    };
    search.map_err(|error| error.to_string())
}

/// The highest load that can be tried: no more users than there are names for.
fn highest(args: &LoadArgs) -> Result<f64, String> {
    let most = if args.rate_max > 0.0 { args.rate_max } else { 1e9 };
    let Some(first) = args.people.users else { return Ok(most) };
    let names = args.people.most(args)?;
    if names < first {
        return Err(format!("--users {first}: -inf has names for {names}"));
    }
    Ok(most.min(names as f64))
}

/// What kept a search from higher loads than `load`, the highest that it may try.
fn limited_by(args: &LoadArgs, load: f64) -> String {
    // With as many names as that the names are no tighter, and the option is what was asked for.
    let asked = args.rate_max > 0.0 && args.rate_max < load + 1.0;
    match args.people.users {
        _ if asked => format!("-rate_max {}", args.rate_max),
        Some(_) if !args.inf.is_empty() => format!("-inf, which has names for {load} users"),
        Some(_) => format!("the number of users that there can be, {load}"),
        None => format!("the highest rate that there is to try, {load} calls/s"),
    }
}

/// How long a trial is to last. Something of it is measured.
pub fn trial_length(args: &LoadArgs) -> Result<Duration, String> {
    let length = duration(&args.trial)?;
    // One of RFC 7502 lasts as long as its attempts take, and one of users begins after all that is not
    // measured.
    let fixed = !args.sipp.rfc7502 && args.people.users.is_none();
    match fixed && args.warm_up >= length.as_secs_f64() {
        true => Err(format!(
            "--warm-up {}: this part of each trial is not measured, which is all of it (--trial {}); give a \
             longer --trial",
            args.warm_up, args.trial
        )),
        false => Ok(length),
    }
}

/// What to change where trials measure nothing.
fn mend(args: &LoadArgs) -> String {
    if args.people.users.is_some() {
        return format!(
            "A trial measures for --trial {}: give more, or let the users live faster (--compress)",
            args.trial
        );
    }
    let length = match args.sipp.rfc7502 {
        true => format!("has --attempts {}", args.sipp.attempts),
        false => {
            format!("lasts --trial {}, after which calls have {} s to end", args.trial, PATIENCE.as_secs())
        }
    };
    format!(
        "A trial {length}, and the first {} s of it are not measured (--warm-up): give more, a shorter --warm-up, or \
         calls that are shorter (-d)",
        args.warm_up
    )
}

/// What is known of the runs of a search.
#[derive(Default)]
struct Trials {
    told: Vec<Trial>,
    conforming: Conforming<Report>,
    /// The run at the lowest load that did not conform.
    lowest: Option<(f64, Report)>,
    /// A file of a run that could not be written.
    trouble: Option<String>,
}

impl Trials {
    fn note(&mut self, trial: &load::population::Trial, (report, verdict): (Report, Verdict), unit: &str) {
        self.trouble = self.trouble.take().or(unwritten(&report).err());
        let (number, load) = (trial.number, trial.load);
        let told = trial_of(&report, load, unit);
        say::err(format_args!("trial {number:>2} {load:>10.0} {unit}  {}  {}", told.verdict, told.why));
        self.told.push(told);
        if verdict == Verdict::Conforms {
            self.conforming.note(load, report);
        } else if self.lowest.as_ref().is_none_or(|(lowest, _)| load <= *lowest) {
            self.lowest = Some((load, report));
        }
    }
}

/// The runs that conformed, each with its load: the answer's own report is among them, and a run above the
/// answer that conformed by luck must not stand for it.
pub struct Conforming<R>(Vec<(f64, R)>);

impl<R> Default for Conforming<R> {
    fn default() -> Self {
        Conforming(Vec::new())
    }
}

impl<R> Conforming<R> {
    /// One more run, in the place of an earlier one at the same load.
    pub fn note(&mut self, load: f64, report: R) {
        self.0.retain(|(other, _)| *other != load);
        self.0.push((load, report));
    }

    /// Whether no run conformed yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The run that stands for the answer of a search. Where nothing conformed, why it did not at the lowest
    /// load is what is asked; a run that conformed by luck says nothing of that.
    pub fn of(self, peak: &Peak, lowest: Option<R>) -> Option<R> {
        match peak.outcome {
            Outcome::Nothing => lowest,
            _ => self.at(peak.load).or(lowest),
        }
    }

    /// The run at this load; if there is none, that of the highest load below it.
    pub fn at(self, load: f64) -> Option<R> {
        let below = self.0.into_iter().filter(|(at, _)| *at <= load);
        below.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, report)| report)
    }
}

/// What a run says to a search. What waited for the server to the end of it, and decides, did not conform.
fn verdict_of(verdict: &VerdictReport) -> Verdict {
    match verdict.word.as_str() {
        "PASS" => Verdict::Conforms,
        "FAIL" => Verdict::Fails,
        _ if verdict.is_open() => Verdict::Fails,
        _ => Verdict::Void,
    }
}

/// A run of a search as its report says.
pub fn trial_of(report: &Report, load: f64, unit: &str) -> Trial {
    Trial {
        load,
        unit: unit.to_owned(),
        verdict: if report.verdict.is_open() { "FAIL".to_owned() } else { report.verdict.word.clone() },
        why: report.verdict.why.first().cloned().unwrap_or_default(),
        success_percent: report.metric("calls.success"),
        p99_ms: report.latency("response").map(|l| l.main().p99 as f64 / 1_000.0),
        server_cpu_percent: report.server_cpu_percent,
        server_memory_mib: report.server_memory_mib,
        lateness_p999_ms: report.metric("lateness.p999"),
        generator_cpu_percent: report.metric("cpu"),
    }
}

/// The increase of RFC 7502's search (`w`), as its section 4.10 has it.
const WEIGHT: f64 = 0.10;

/// Calls a second of the first trial.
pub fn first_rate(args: &LoadArgs) -> f64 {
    match (args.rate, args.self_test, args.sipp.rfc7502) {
        (None, true, _) => 1_000.0,
        (None, _, true) => 100.0,
        _ => args.rate().max(1.0) * 1_000.0 / args.rp.max(1.0),
    }
}

/// One trial of a rate of calls.
fn run_calls(
    mut args: LoadArgs,
    trial: &load::population::Trial,
    length: Duration,
    signals: &Receiver<Signal>,
) -> Result<(Report, Ended), String> {
    (args.rate, args.rp) = (Some(trial.load), 1_000.0);
    match trial.attempts {
        // "If all attempts succeed": RFC 7502 section 4.10.
        Some(attempts) => (args.most, args.success) = (Some(attempts), 100.0),
        None => args.timeout = Some(format!("{}s", length.as_secs_f64())),
    }
    let plan = Plan::new(&args)?;
    measure(&args, plan, signals)
}

/// Between trials, so that the server is done with what the one before has left.
const PAUSE: Duration = Duration::from_secs(2);

/// Lets that time pass before a trial that is not the first. The signal that stopped it, if one did.
fn rest(trial: u32, pause: Duration, signals: &Receiver<Signal>) -> Option<Signal> {
    let wish = signals.recv_timeout(if trial > 1 { pause } else { return None }).ok()?;
    (wish != Signal::Reload).then_some(wish)
}

/// One trial of a number of users.
fn run_users(
    mut args: LoadArgs,
    users: f64,
    length: Duration,
    signals: &Receiver<Signal>,
) -> Result<(Report, Ended), String> {
    args.people.users = Some(users as u64);
    let plan = UsersPlan::new(&args, Some(length))?;
    measure_users(&args, plan, signals)
}

/// Whether it could begin.
#[cfg(test)]
pub(super) fn check(args: &LoadArgs) -> Result<(), String> {
    prepared(args).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::CheckReport;

    #[test]
    fn what_waits_for_the_server_is_no_limit_of_the_generator() {
        let said = |word: &str, broken: &[(&str, bool)]| {
            let check = |&(name, of_generator): &(&str, bool)| CheckReport {
                name: name.to_owned(),
                of_generator,
                ..CheckReport::default()
            };
            let checks = broken.iter().map(check).collect();
            verdict_of(&VerdictReport { word: word.to_owned(), checks, ..VerdictReport::default() })
        };
        let (open, late) = ((load::metrics::OPEN, false), ("generator's lateness, p99.9", true));
        assert_eq!(said("PASS", &[]), Verdict::Conforms);
        assert_eq!(said("FAIL", &[open]), Verdict::Fails);
        assert_eq!(said("VOID", &[open]), Verdict::Fails);
        assert_eq!(said("VOID", &[open, late]), Verdict::Void);
        assert_eq!(said("VOID", &[]), Verdict::Void);
    }

    fn given(line: &str) -> LoadArgs {
        LoadArgs::of(line.split(' ').skip(1))
    }

    #[test]
    fn a_trial_has_something_to_measure() {
        let length = |line: &str| trial_length(&given(line)).map(|length| length.as_secs());
        assert_eq!((length("load --find-peak"), length("load --find-peak --warm-up 4.9")), (Ok(5), Ok(5)));
        for line in [
            "load --find-peak --warm-up 10",
            "load --find-peak --trial 8s --warm-up 8",
            "load --self-test --warm-up 5",
        ] {
            assert!(length(line).is_err_and(|why| why.contains("--trial")), "{line}");
        }
        assert_eq!(length("load --find-peak --rfc7502 --warm-up 10"), Ok(5), "it has attempts");
        let said = mend(&given("load --find-peak -d 10m"));
        assert!(["--trial 5s", "--warm-up", "-d"].iter().all(|word| said.contains(word)), "{said}");
        assert!(mend(&given("load --find-peak --users 10")).contains("--compress"));
        assert!(mend(&given("load --find-peak --rfc7502")).contains("--attempts 50000"));
    }

    #[test]
    fn the_server_has_time_between_trials_and_not_before_the_first() {
        let (send, signals) = std::sync::mpsc::channel();
        let (pause, begun) = (Duration::from_millis(50), monotonic_now());
        let none = [rest(1, Duration::from_secs(60), &signals), rest(2, pause, &signals)];
        assert_eq!(none, [None; 2]);
        assert!(monotonic_now().since(begun) >= pause);
        send.send(Signal::Stop).expect("the receiver lives");
        assert_eq!(rest(3, Duration::from_secs(60), &signals), Some(Signal::Stop), "and is stopped in it");
    }

    #[test]
    fn no_more_users_are_tried_than_have_names() {
        let folder = std::env::temp_dir().join(format!("strowger-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("names.csv");
        std::fs::write(&file, "SEQUENTIAL\na;1\nb;2\nc;3\n").expect("a file");
        let of = |line: &str| {
            let load = given(&line.replace("FILE", &file.to_string_lossy()));
            highest(&load).map(|highest| (highest, prepared(&load).is_ok()))
        };
        assert_eq!(of("load --find-peak --users 2 --inf FILE"), Ok((3.0, true)));
        assert_eq!(of("load --find-peak --users 2 --inf FILE --rate-max 2"), Ok((2.0, true)));
        assert!(of("load --find-peak --users 4 --inf FILE").is_err_and(|why| why.contains("names for 3")));
        assert_eq!(of("load --find-peak --users 2"), Ok((super::super::users::MOST as f64, true)));
        assert_eq!(of("load --find-peak -r 2"), Ok((1e9, true)));
        std::fs::remove_dir_all(&folder).expect("it goes");
    }

    #[test]
    fn what_limits_a_search_is_named() {
        let of = |line: &str, load: f64| limited_by(&given(line), load);
        assert_eq!(of("load --find-peak -r 500 --rate-max 2000", 2_000.0), "-rate_max 2000");
        assert_eq!(of("load --find-peak -r 500 --rate-max 2000.5", 2_000.0), "-rate_max 2000.5");
        assert_eq!(of("load --find-peak --users 2 --rate-max 90 --inf x", 90.0), "-rate_max 90");
        let names = of("load --find-peak --users 2 --rate-max 90 --inf x", 30.0);
        assert_eq!(names, "-inf, which has names for 30 users");
        assert!(of("load --find-peak -r 5", 1e9).starts_with("the highest rate"));
    }

    #[test]
    fn only_what_is_confirmed_is_an_answer() {
        assert_eq!([Outcome::Found, Outcome::AtLeast, Outcome::GeneratorLimit].map(code), [0; 3]);
        assert_eq!([Outcome::Nothing, Outcome::OutOfTrials, Outcome::Disturbed].map(code), [1; 3]);
        assert_eq!([Outcome::Unknown, Outcome::Stopped].map(code), [3; 2]);
    }

    #[test]
    fn search_that_ends_early_is_no_pass() {
        for (code, word) in [(STOPPED, "STOPPED"), (VOID, "VOID")] {
            let mut report = Report::default();
            report.verdict.word = "PASS".to_owned();
            Halt { why: "why".to_owned(), code }.mark(&mut report);
            assert_eq!((report.verdict.word.as_str(), report.verdict.exit_code), (word, code));
            assert_eq!((report.verdict.why, report.notes.len()), (vec!["why".to_owned()], 1));
        }
    }

    #[test]
    fn a_rate_that_is_given_is_taken() {
        let of = |line: &str| first_rate(&given(line));
        assert_eq!((of("load --self-test -r 10"), of("load --self-test")), (10.0, 1_000.0));
        assert_eq!((of("load --find-peak --rfc7502 -r 10"), of("load --find-peak --rfc7502")), (10.0, 100.0));
        assert_eq!((of("load --find-peak"), of("load --find-peak -r 10 --rp 2000")), (10.0, 5.0));
    }

    #[test]
    fn a_lucky_run_above_the_answer_does_not_stand_for_it() {
        let mut runs = Conforming::default();
        assert!(runs.is_empty());
        for (load, name) in [(100.0, "low"), (400.0, "lucky"), (200.0, "first"), (200.0, "second")] {
            runs.note(load, name);
        }
        assert_eq!(runs.at(200.0), Some("second"));
        let mut runs = Conforming::default();
        runs.note(400.0, "lucky");
        assert_eq!(runs.at(200.0), None);
        let peak =
            |outcome| Peak { load: 1.0, outcome, confidence: None, interval: None, runs: (3, 1), trials: 9 };
        let runs = || {
            let mut runs = Conforming::default();
            runs.note(1.0, "lucky");
            runs
        };
        assert_eq!(runs().of(&peak(Outcome::Nothing), Some("failed")), Some("failed"));
        assert_eq!(runs().of(&peak(Outcome::Found), Some("failed")), Some("lucky"));
    }
}
