//! `strowger load`: the load generator, from the command line to the verdict.

mod advice;
mod args;
mod backend;
mod ending;
mod host;
mod injections;
mod known;
#[cfg(test)]
mod numbers;
mod output;
mod plan;
mod schedule;
mod scrape;
mod search;
mod secret;
mod secure;
mod selftest;
mod server;
mod sipp;
mod sipp_files;
mod sockets;
mod statistics;
mod target;
mod traces;
mod units;
mod unknown;
mod users;
mod watch;
mod ways;
mod witness;

pub use args::{CompareArgs, EXAMPLES, LoadArgs, Switch, translate};
use control::say;
use control::signals::{self, Signal};
use ending::{Ended, Ending};
use load::engine::{Notice, Record};
use load::metrics::{Health, Ladder, Ladders, LatencyLimit, Lost, Measure, Metrics, Rule};
use load::population::Phases;
use load::report::{Fact, Group, Inputs, Report, VerdictReport, Windows, plain};
use load::scenario::{Side, builtin_names, date_time};
use output::{apart, capture, deliver, trace_errors, try_file, unwritten, write};
use plan::Plan;
use schedule::Schedule;
use scrape::{Endpoint, Scrape};
use server::{Server, Watch};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Once;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use traces::Traces;
use users::UsersPlan;
use wire::{Generator, Time};
use worker_runtime::{Bound, Counts, Listener, RuntimeHandle, monotonic_now};

/// What was asked for did not come true.
const FAILED: u8 = 1;
/// Wrong usage, or something the run needs is not there.
const USAGE: u8 = 2;
/// Exit code where nothing can be said about the server.
const VOID: u8 = 3;
/// Exit code of what was stopped before its end.
const STOPPED: u8 = 4;
/// How long workers may take to hand over what they recorded.
const HAND_OVER: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(args: &LoadArgs) -> ExitCode {
    if args.sn.as_deref() == Some("list") {
        for (name, what) in builtin_names() {
            say::out(format_args!("{name:<16}{what}\n"));
        }
        return ExitCode::SUCCESS;
    }
    if let Some(name) = &args.sipp.sd {
        return match load::scenario::builtin(name) {
            Some(text) => {
                say::out(format_args!("{text}"));
                ExitCode::SUCCESS
            }
            None => {
                say::err(format_args!(
                    "strowger load: -sd {name}: no such scenario; `strowger load -sn list` shows them"
                ));
                ExitCode::from(USAGE)
            }
        };
    }
    let done = match &args.sipp.refused {
        Some(why) => Err(why.clone()),
        None => command(args),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            say::err(format_args!("strowger load: {message}"));
            ExitCode::from(USAGE)
        }
    }
}

/// Whether workers may run before all other programs. Only they do: who looks after them would wait for ever
/// behind one that has more to do than there is time. The kernel keeps a twentieth of each second for it, if
/// it is not told otherwise (sched(7), `sched_rt_runtime_us`).
fn may_run_first(workers: usize) -> std::io::Result<()> {
    const KEPT: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    let cpus = worker_runtime::allowed_cpus().len();
    let none_kept = std::fs::read_to_string(KEPT).is_ok_and(|kept| kept.trim() == "-1");
    if none_kept && (workers == 0 || workers >= cpus) {
        return Err(std::io::Error::other(format!(
            "{KEPT} is -1, so that {cpus} workers could stop this machine; set it to 950000, or leave a processor free \
             (--workers)"
        )));
    }
    let named = std::thread::Builder::new().name("first".to_owned());
    let tried = named.spawn(|| worker_runtime::run_first(worker_runtime::RUN_FIRST))?;
    tried.join().unwrap_or_else(|_| Err(std::io::Error::other("no thread could be made")))
}

fn command(args: &LoadArgs) -> Result<u8, String> {
    if args.realtime {
        may_run_first(args.workers).map_err(|error| {
            format!("--realtime: {error}; run it as root, or leave it out: what else the machine does may then make it late")
        })?;
    }
    let signals = signals::listen().map_err(|error| format!("cannot listen to signals: {error}"))?;
    // Before anything is sent.
    let own = &args.sipp.traces;
    own.every()?;
    if own.skip_rlimit && !args.quiet {
        say::err(format_args!(
            "strowger load: -skip_rlimit: as many files may be open as the hard limit allows (ulimit -Hn)"
        ));
    }
    let live = [&own.stf, &own.log_file, &own.message_file];
    let files = [&args.json, &args.html, &args.csv, &args.pcap, &args.sipp.error_file];
    let files: Vec<&Path> = files.into_iter().chain(live).flatten().map(|path| path.as_path()).collect();
    apart(&files)?;
    files.iter().try_for_each(|path| try_file(path))?;
    if let Some(path) = &args.people.write_users {
        users::write_users(args, path)?;
        return Ok(0);
    }
    if let Some(url) = &args.people.server_metrics {
        // Before anything is sent.
        Endpoint::parse(url)?;
    }
    if args.backends.backend {
        return backend::serve(args, &signals);
    }
    if args.self_test {
        return selftest::self_test(args, &signals);
    }
    if args.find_peak {
        return search::search(args, &signals);
    }
    if args.people.users.is_some() {
        let (report, _) = measure_users(args, UsersPlan::new(args, None)?, &signals)?;
        deliver(args, &report)?;
        unwritten(&report)?;
        return Ok(report.verdict.exit_code);
    }
    let plan = Plan::new(args)?;
    let answers_only = plan.client.is_none();
    let (report, ended) = measure(args, plan, &signals)?;
    deliver(args, &report)?;
    if args.sipp.timeout_error && ended == Ended::TimeOut && report.verdict.exit_code == 0 {
        say::out(format_args!("  -timeout_error: the time was over before the calls were\n"));
        return Ok(FAILED);
    }
    unwritten(&report)?;
    Ok(if answers_only { code_of_callee(&report) } else { report.verdict.exit_code })
}

/// Whoever only answers has nothing to judge but what went wrong: whether anybody calls, and how the calls
/// end that have not ended, is the callers' business.
fn code_of_callee(report: &Report) -> u8 {
    match nothing_measured(&report.verdict).is_some() {
        true => 0,
        false => report.verdict.exit_code,
    }
}

/// Why nothing was measured, where that is all that is wrong with a run: neither the server nor the generator
/// was at fault, nothing was asked that could be.
fn nothing_measured(verdict: &VerdictReport) -> Option<&str> {
    let nothing = |why: &String| why.starts_with("nothing was measured");
    let alone = verdict.word == "VOID" && verdict.why.iter().all(nothing);
    verdict.why.first().filter(|_| alone).map(String::as_str)
}

/// `strowger load compare`. Where one side has only runs that are VOID the exit code is theirs.
pub fn compare(args: &CompareArgs) -> ExitCode {
    match comparison(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(VOID),
        Err(message) => {
            say::err(format_args!("strowger load compare: {message}"));
            ExitCode::from(USAGE)
        }
    }
}

fn comparison(args: &CompareArgs) -> Result<bool, String> {
    let group = |paths: &str| -> Result<Group, String> {
        let read = |path: &str| {
            let text = std::fs::read_to_string(path).map_err(|error| {
                format!("cannot read {path}: {error}; name a file that --json has written")
            })?;
            Report::from_json(&text).map_err(|error| format!("{path}: {error}"))
        };
        Ok(Group { name: paths.to_owned(), reports: paths.split(',').map(read).collect::<Result<_, _>>()? })
    };
    let comparison = load::report::compare(&group(&args.a)?, &group(&args.b)?, args.confidence / 100.0);
    if let Some(path) = &args.json {
        write(path, &comparison.to_json())?;
    }
    if let Some(path) = &args.html {
        write(path, &comparison.html(PROGRAM))?;
    }
    say::out(format_args!("{}", comparison.text()));
    Ok(comparison.runs_a > 0 && comparison.runs_b > 0)
}

/// What reports call this program.
const PROGRAM: &str = concat!("strowger ", env!("CARGO_PKG_VERSION"));

/// What the run was, for its report.
struct Story {
    title: String,
    workload: String,
    parameters: Vec<Fact>,
    seed: u64,
    compression: f64,
    /// The measured window on the clock; it ends sooner if no call begins any more.
    window: (Time, Time),
    /// It ends with the last call that begins.
    closes: bool,
    /// What it is going to do.
    schedule: Schedule,
    /// Its phases, from its course.
    windows: Box<dyn Fn(Course) -> Windows>,
    server: Option<Server>,
}

/// What a run was, in seconds from its beginning.
#[derive(Clone, Copy)]
struct Course {
    /// To its end.
    seconds: f64,
    /// In which calls were to begin; nothing where that cannot be said.
    offered: Option<f64>,
    /// Until it was told that no more calls are to begin, if it was.
    quit: Option<f64>,
}

impl Course {
    /// Until when calls may have begun.
    fn last(&self) -> f64 {
        self.quit.unwrap_or(self.seconds).min(self.seconds)
    }
}

/// Makes one run of scenarios and says how it went.
fn measure(args: &LoadArgs, plan: Plan, signals: &Receiver<Signal>) -> Result<(Report, Ended), String> {
    let warm_up = args.warm_up;
    let server = match plan.client.is_some() && !args.self_test {
        true => Server::find(args.people.server_pid, plan.remote),
        false => None,
    };
    let (started, engines) = prepared(monotonic_now, |started| plan.engines(started))?;
    let story = Story {
        title: plan.title.clone(),
        workload: plan.workload.clone(),
        parameters: plan.parameters.clone(),
        seed: plan.seed,
        compression: 1.0,
        window: (started + Duration::from_secs_f64(warm_up), Time::FAR),
        // Whoever only answers does not know which is the last.
        closes: plan.client.is_some(),
        schedule: plan.schedule(args)?,
        windows: Box::new(move |course| {
            // When no more begin, rates are over; what is under way ends.
            let last = course.last();
            let offered = course.offered.map_or(last, |offered| offered.min(last));
            Windows {
                warm_up: warm_up.min(offered),
                measured: (offered - warm_up).max(0.0),
                cool_down: course.seconds - offered,
                ..Windows::default()
            }
        }),
        server,
    };
    drive(args, story, plan.bound, engines, started, signals)
}

/// For the workers to begin, before the first call.
const LEAD: Duration = Duration::from_millis(30);

/// How often engines are made at most, to be ready in time.
const ATTEMPTS: usize = 4;

/// Makes what is to run, so that it is there when the run begins, and says when that is: what it took, or the
/// workers need before the first call, would be lateness of that call. Where it took longer than thought it
/// is made again for a later time, so that a small run need not wait as long as a large one.
fn prepared<T>(
    clock: impl Fn() -> Time,
    make: impl Fn(Time) -> Result<T, String>,
) -> Result<(Time, T), String> {
    let mut allowed = Duration::ZERO;
    for _ in 0..ATTEMPTS {
        let began = clock();
        let started = began + allowed + LEAD;
        let made = make(started)?;
        let took = clock().since(began);
        // Most of the lead is left.
        if took <= allowed + LEAD / 3 {
            return Ok((started, made));
        }
        allowed = took * 2;
    }
    Err("this machine is too slow, or too busy, to prepare so large a run; make it smaller".to_owned())
}

/// Makes one run with users and says how it went.
fn measure_users(
    args: &LoadArgs,
    plan: UsersPlan,
    signals: &Receiver<Signal>,
) -> Result<(Report, Ended), String> {
    let server = Server::find(args.people.server_pid, plan.remote);
    let started = monotonic_now() + plan.preparation();
    let people = plan.people(started)?;
    let late = monotonic_now();
    if late > started {
        return Err(format!("this machine is too slow for {} users", plan.parameters.users));
    }
    let mut parameters = plan.facts.clone();
    let bytes: usize = people.iter().map(load::engine::people::People::bytes_at_rest).sum();
    let each = bytes as f64 / plan.parameters.users as f64;
    parameters.push(Fact::new("memory of the generator for a user at rest", format!("{each:.0} bytes")));
    let story = Story {
        title: plan.title.clone(),
        workload: "population".to_owned(),
        parameters,
        seed: plan.seed,
        compression: plan.parameters.compression,
        window: Phases::of(&plan.parameters, started).window(),
        closes: true,
        schedule: plan.schedule(),
        windows: plan.windows(),
        server,
    };
    drive(args, story, plan.bound, people, started, signals)
}

/// Runs machines that are ready to their end.
fn drive<M: Generator<Notice = Notice> + Send + 'static>(
    args: &LoadArgs,
    mut story: Story,
    bound: Bound,
    machines: Vec<M>,
    started: Time,
    signals: &Receiver<Signal>,
) -> Result<(Report, Ended), String> {
    if !args.quiet {
        let to_come = started.since(monotonic_now()).as_micros() as u64;
        say::err(format_args!(
            "{}",
            plain(&story.schedule.text(&story.title, plan::wall_micros() + to_come))
        ));
    }
    let runtime = bound.start_generator(machines).map_err(|error| error.to_string())?;
    let handle = runtime.handle();
    // Scripts wait for this line. Of a search's trials the first one says it.
    static SAID: Once = Once::new();
    SAID.call_once(|| say::err(format_args!("{}", ready(&story.title, started, handle.listeners()))));
    let window = story.window;
    let mut server = Watch::new(story.server.take(), window);
    if window.0 == started {
        server.over_the_whole_run();
    }
    let endpoint = args.people.server_metrics.as_deref().map(Endpoint::parse).transpose()?;
    server.ask(endpoint.and_then(|endpoint| Scrape::new(endpoint, window)));
    let mut own = host::Busy::new(window);
    let traces = Traces::new(args, &story.workload, started)?;
    let ending = watch::watch(
        args,
        (&story.title, &story.schedule),
        started,
        &handle,
        (signals, traces),
        &mut |now, begun| {
            if begun && story.closes {
                server.close(now);
                own.close(now);
            }
            server.look(now);
            own.look(now);
        },
    )?;
    let end = monotonic_now();
    let health = own.health(end);
    server.finish();
    let mut records = collect(&handle)?;
    let counts = handle.counts();
    records.0.lost(end, lost(&counts));
    handle.shutdown();
    runtime.join().map_err(|panics| format!("a worker failed: {panics:?}"))?;
    records.1 = Ladders::first(records.1, args.ladders);
    let trouble = [trace_errors(args, &story.workload, &records.1), capture(args, end, &records.1)];
    let begun = records.0.all.sides.iter().map(|side| side.begun).max().unwrap_or_default();
    let mut report = report(args, &story, (started, end, ending), health, &server, records);
    report.notes.extend(ending::timed_out(args, ending.ended, begun));
    report.notes.extend(advice::exhausted(counts.tcp_exhausted));
    report.notes.extend(advice::congested(&counts));
    let target = advice::target(args).filter(|_| advice::is_silent(&report));
    let fault = connection_fault(args, &handle);
    let unconnected = || target.and_then(|target| advice::unconnected(&counts, &target));
    report.notes.extend(fault.or_else(unconnected));
    secure::counted(&mut report, args, &counts);
    report.notes.extend(trouble.into_iter().filter_map(Result::err));
    Ok((report, ending.ended))
}

/// The line that scripts wait for, of a run whose first message leaves at `started`.
fn ready(title: &str, started: Time, listeners: &[Listener]) -> String {
    let to_come = started.since(monotonic_now()).as_secs_f64();
    format!("strowger load ready: {title} from {}; begins in {to_come:.3} s", shown(listeners))
}

/// The reason of the first failed handshake, of TLS or WebSocket, and the mend.
fn connection_fault(args: &LoadArgs, handle: &RuntimeHandle<Notice>) -> Option<String> {
    let of_tls = handle.tls_fault().map(|why| secure::fault(args, why));
    of_tls.or_else(|| handle.websocket_fault().map(|why| ways::fault(args, why)))
}

/// Datagrams and connections that there was no room for, on the way in, between workers or on the way out.
fn lost(counts: &Counts) -> Lost {
    Lost {
        received: counts.udp_kernel_drops,
        crossing: counts.ring_drops,
        unsent: counts.udp_send_drops,
        unopened: counts.tcp_exhausted,
    }
}

/// Listeners for people to see: the first few of them.
fn shown(listeners: &[Listener]) -> String {
    const FEW: usize = 8;
    let few = listeners.iter().take(FEW).map(|l| format!("{}:{}", l.transport, l.address));
    let few = few.collect::<Vec<_>>().join(", ");
    match listeners.len().saturating_sub(FEW) {
        0 => few,
        more => format!("{few} and {more} more"),
    }
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
    (started, end, ending): (Time, Time, Ending),
    health: Health,
    server: &Watch,
    (metrics, flows): (Metrics, Vec<Ladder>),
) -> Report {
    let rule = Rule {
        success_percent: args.success,
        latency: args.response.filter(|&ms| ms > 0.0).map(slowest).into_iter().collect(),
        max_lateness_p999_micros: (args.lateness * 1_000.0) as u64,
        ..Rule::default()
    };
    let began = plan::wall_micros().saturating_sub(monotonic_now().since(started).as_micros() as u64);
    let inputs = Inputs {
        program: PROGRAM.to_owned(),
        title: story.title.clone(),
        workload: story.workload.clone(),
        started: date_time(began),
        began: began as f64 / 1e6,
        command: secret::masked(std::env::args_os().map(|arg| arg.to_string_lossy().into_owned())),
        seed: story.seed,
        compression: story.compression,
        windows: (story.windows)(Course {
            seconds: end.since(started).as_secs_f64(),
            offered: metrics.offered(started),
            quit: ending.quit.map(|at| at.since(started).as_secs_f64()),
        }),
        stop: ending.stop(started, &story.schedule.planned),
        parameters: story.parameters.clone(),
        machine: host::machine(),
        server: server.facts(end, metrics.measured.sides[0].begun),
        server_cpu_percent: server.cpu_percent(end),
        server_memory_mib: server.memory_mib(),
        health,
        end,
        ..Inputs::default()
    };
    Report::build(inputs, &metrics, &rule, &flows)
}

/// The limit of `--response`.
fn slowest(ms: f64) -> LatencyLimit {
    LatencyLimit { measure: Measure::Response, percentile: 99.0, max_micros: (ms * 1_000.0) as u64 }
}

/// Which side of a call a scenario is.
fn is_client(side: Side) -> bool {
    side == Side::Client
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::MetricRow;

    #[test]
    fn a_run_begins_when_everything_is_there() {
        // How long it takes each time, in milliseconds; when the run begins, and when everything was there.
        let of = |took: &[u64]| {
            let (now, nth) = (std::cell::Cell::new(1_000), std::cell::Cell::new(0));
            let made = prepared(
                || Time::from_millis(now.get()),
                |_| {
                    now.set(now.get() + took[nth.replace(nth.get() + 1)]);
                    Ok(())
                },
            );
            made.map(|(started, ())| (started.as_micros() / 1_000, now.get()))
        };
        assert_eq!(of(&[2]), Ok((1_030, 1_002)), "a small run begins at once");
        let (started, ready) = of(&[150, 150]).expect("made twice");
        assert!(ready + 10 <= started, "{ready} {started}");
        let (started, ready) = of(&[15, 60, 60]).expect("made three times");
        assert!(ready + 10 <= started, "{ready} {started}");
        assert!(of(&[100, 400, 1_600, 6_400]).is_err_and(|why| why.contains("too slow")));
        assert_eq!(prepared(monotonic_now, |_| Err::<(), _>("no".to_owned())), Err("no".to_owned()));
    }

    #[test]
    fn a_callee_is_forgiven_that_nobody_called_and_calls_that_have_not_ended_and_nothing_else() {
        let report = |calls: f64, word: &str, exit_code: u8, why: &[&str]| {
            let mut report = Report::default();
            let (key, value) = ("callee.begun".to_owned(), Some(calls));
            report.metrics.push(MetricRow { key, value, ..MetricRow::default() });
            (report.verdict.word, report.verdict.exit_code) = (word.to_owned(), exit_code);
            report.verdict.why = why.iter().map(|why| (*why).to_owned()).collect();
            code_of_callee(&report)
        };
        let nothing = "nothing was measured: no call that began in the measured window ended";
        assert_eq!(report(1.0, "VOID", VOID, &[nothing]), 0);
        assert_eq!(report(0.0, "VOID", VOID, &[nothing]), 0, "nobody called");
        assert_eq!(report(0.0, "VOID", VOID, &["generator's lateness: 9 ms, limit 5 ms", nothing]), VOID);
        assert_eq!(report(1.0, "VOID", VOID, &["packets lost: 3, limit 0", nothing]), VOID);
        assert_eq!((report(1.0, "FAIL", FAILED, &["x"]), report(1.0, "PASS", 0, &[])), (FAILED, 0));
    }
}
