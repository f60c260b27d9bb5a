//! Looking after a run: how it goes, and when it ends.

use super::advice::{self, Silence};
use super::args::LoadArgs;
use super::ending::{Ended, Ending};
use super::schedule::Schedule;
use super::traces::{Traces, seconds};
use super::{connection_fault, say, selftest};
use control::signals::Signal;
use load::engine::{Notice, Progress, Stop};
use load::metrics::Pulse;
use load::report::Live;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use wire::Time;
use worker_runtime::{Counts, RuntimeHandle, monotonic_now};

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long calls under way may take to end after the first Ctrl-C.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long calls under way may take to end after the last one has begun.
pub fn patience(args: &LoadArgs) -> Result<Duration, String> {
    match &args.cool_down {
        Some(time) => duration(time),
        None if args.self_test => Ok(selftest::PATIENCE),
        None => Ok(PATIENCE),
    }
}

/// Shows a run until it ends; `each` is told the time at every look, and whether the last call has begun.
pub fn watch(
    args: &LoadArgs,
    (title, schedule): (&str, &Schedule),
    started: Time,
    handle: &RuntimeHandle<Notice>,
    (signals, traces): (&Receiver<Signal>, Traces),
    each: &mut dyn FnMut(Time, bool),
) -> Result<Ending, String> {
    let limit = args.timeout.as_deref().map(duration).transpose()?;
    let patience = patience(args)?;
    let every = seconds(args.sipp.traces.display.as_ref(), 1)?;
    let mut watch = Watch {
        args,
        handle,
        started,
        limit,
        patience,
        live: Live::new(title),
        shown: Shown { traces, every, ..Shown::default() },
        ending: Ending::new(),
        begun: false,
        told: false,
        idle: Idle::default(),
    };
    each(started, false);
    loop {
        let signal = match signals.recv_timeout(watch.wait()) {
            Ok(wish @ (Signal::Stop | Signal::Interrupt)) => Some(Ended::Asked(wish)),
            Ok(Signal::Reload) => None,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        };
        let now = monotonic_now();
        if watch.is_stopped(now, signal) {
            return Ok(watch.ending);
        }
        let all = ask(handle);
        if handle.live_workers() < usize::from(handle.workers()) {
            return Err("a worker failed; see the messages above".into());
        }
        let done = watch.look(now, &all);
        each(now, watch.begun);
        if watch.is_over(now, &all, schedule, done) {
            return Ok(watch.ending);
        }
    }
}

/// A run that is being looked after.
struct Watch<'a> {
    args: &'a LoadArgs,
    handle: &'a RuntimeHandle<Notice>,
    started: Time,
    /// After how long no more calls begin (`--timeout`).
    limit: Option<Duration>,
    /// How long calls under way may take to end then.
    patience: Duration,
    live: Live,
    shown: Shown,
    ending: Ending,
    /// The last call has begun.
    begun: bool,
    /// All workers have been told that a scenario wants the run to end.
    told: bool,
    idle: Idle,
}

impl Watch<'_> {
    /// How long until the next look. The end of `--timeout` is met, and not looked for some time later.
    fn wait(&self) -> Duration {
        let limit = self.limit.filter(|_| self.ending.quit.is_none());
        let left = limit.map(|limit| (self.started + limit).since(monotonic_now()));
        left.map_or(LOOK, |left| LOOK.min(left.max(Duration::from_millis(1))))
    }

    /// Ends the run if a signal or `--timeout` wants that. True if it is to end at once.
    fn is_stopped(&mut self, now: Time, signal: Option<Ended>) -> bool {
        let over = self.limit.is_some_and(|limit| now.since(self.started) >= limit);
        let over = over && self.ending.quit.is_none();
        let Some(why) = signal.or(over.then_some(Ended::TimeOut)) else { return false };
        if self.ending.told(now, why, !self.begun) {
            return true;
        }
        if why != Ended::TimeOut && !self.args.quiet {
            say::err(format_args!(
                "ending: no more calls begin, those under way have {} s; a second signal stops at once",
                self.patience.as_secs()
            ));
        }
        quit(self.handle);
        false
    }

    /// Looks at what the workers say. True if nothing more will happen.
    fn look(&mut self, now: Time, all: &[Progress]) -> bool {
        let workers = usize::from(self.handle.workers());
        let of_all = |what: fn(&Progress) -> bool| all.len() == workers && all.iter().all(what);
        // A scenario asks for the end on the worker of its call, and means the run.
        let stop = all.iter().filter_map(|p| p.stop).max();
        if stop == Some(Stop::Gracefully) && !std::mem::replace(&mut self.told, true) {
            quit(self.handle);
        }
        self.begun = stop == Some(Stop::Now) || of_all(|p| !p.beginning);
        // A trial of RFC 7502's search has no time of its own.
        let idle = self.args.sipp.rfc7502
            && self.idle.look(now, of_all(|p| p.done || p.idle), all.iter().map(|p| p.calls).sum());
        idle || stop == Some(Stop::Now) || of_all(|p| p.done)
    }

    /// Shows what there is. True if the run is over, or what is left of it is not awaited any more.
    fn is_over(&mut self, now: Time, all: &[Progress], schedule: &Schedule, done: bool) -> bool {
        let terminal = std::io::stderr().is_terminal() && !self.args.quiet;
        let phase = schedule.phase(now.since(self.started), self.ending.quit.is_some());
        let counts = self.handle.counts();
        self.shown.fault = connection_fault(self.args, self.handle);
        show(self.args, &mut self.live, (all, &counts), (terminal, done), &phase, &mut self.shown);
        let given_up = self.ending.quit.is_some_and(|since| now.since(since) > self.patience);
        self.shown.traces.look(now, all, done || given_up);
        if !done && given_up {
            self.ending.given_up();
        }
        done || given_up
    }
}

/// For how long nothing has become of the calls under way.
#[derive(Default)]
struct Idle {
    since: Option<Time>,
    calls: usize,
}

impl Idle {
    /// How long callers may wait for what has no time where none of them pauses, and none of their calls
    /// ends: longer than a phone may ring (timer C, RFC 3261 section 16.6).
    const LIMIT: Duration = Duration::from_secs(190);

    /// Whether that is over. `idle`: no more begin, and all of these wait for the other side.
    fn look(&mut self, now: Time, idle: bool, calls: usize) -> bool {
        let goes_on = !idle || calls != self.calls;
        self.calls = calls;
        let since = *self.since.get_or_insert(now);
        if goes_on {
            self.since = Some(now);
        }
        !goes_on && now.since(since) > Idle::LIMIT
    }
}

/// What has been shown of a run.
#[derive(Default)]
struct Shown {
    /// Lines of the last frame on a terminal.
    lines: usize,
    /// When.
    at: Time,
    /// How often there is something new (`-f`).
    every: Duration,
    /// Whether anything has come back.
    silence: Silence,
    /// Why a connection over TLS failed.
    fault: Option<String>,
    /// Files that are written meanwhile.
    traces: Traces,
}

fn quit(handle: &RuntimeHandle<Notice>) {
    for worker in 0..handle.workers() {
        let _ = handle.post(worker, Notice::Quit);
    }
}

/// Asks all workers how it goes; those that do not answer at once are left out.
fn ask(handle: &RuntimeHandle<Notice>) -> Vec<Progress> {
    let (send, receive) = mpsc::channel();
    for worker in 0..handle.workers() {
        let send = send.clone();
        let show = Notice::Progress(Box::new(move |progress| {
            let _ = send.send(progress);
        }));
        let _ = handle.post(worker, show);
    }
    drop(send);
    let mut all = Vec::new();
    while let Ok(progress) = receive.recv_timeout(Duration::from_secs(1)) {
        all.push(progress);
        if all.len() == usize::from(handle.workers()) {
            break;
        }
    }
    all
}

fn show(
    args: &LoadArgs,
    live: &mut Live,
    (all, counts): (&[Progress], &Counts),
    (terminal, done): (bool, bool),
    phase: &str,
    shown: &mut Shown,
) {
    for (level, line) in all.iter().flat_map(|p| &p.lines) {
        if !shown.traces.line(*level, line) {
            say::err(format_args!("{}", load::report::plain(&String::from_utf8_lossy(line))));
        }
    }
    let mut pulses = all.iter().map(|p| p.pulse.clone());
    let Some(first) = pulses.next() else { return };
    let merged = pulses.fold(first, |mut all: Pulse, other| {
        all.merge(&other);
        all
    });
    let now = monotonic_now();
    // In a search too, where nothing else is shown of a trial.
    let target = advice::target(args);
    if let Some(text) =
        shown.silence.look(now, &merged.counters, counts, target.as_deref(), shown.fault.clone())
    {
        say::err(format_args!("{text}"));
        shown.lines = 0;
    }
    live.update(merged);
    // A terminal has every look, unless that is to be seldom.
    let seldom = !terminal || shown.every > Duration::from_secs(1);
    if args.quiet || (seldom && !done && now.since(shown.at) < shown.every) {
        return;
    }
    shown.at = now;
    if !terminal {
        say::err(format_args!("{}", live.line(phase)));
        return;
    }
    let frame = live.frame(phase, 100, true);
    let mut out = std::io::stderr().lock();
    // Over the frame before.
    if shown.lines > 0 {
        let _ = write!(out, "\x1b[{}A\x1b[J", shown.lines);
    }
    let _ = out.write_all(frame.as_bytes());
    shown.lines = frame.lines().count();
}

/// A time such as `90`, `90s`, `5m` or `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let scale = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(format!("{text}: a time is a number and ms, s, m or h, such as 90s")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("{text}: a time begins with a number, such as 90s"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|error| format!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_ever_ends() {
        let mut idle = Idle::default();
        let at = Time::from_secs;
        assert!(!idle.look(at(0), true, 5), "calls have ended since nothing was known");
        assert!(!idle.look(at(100), true, 5) && !idle.look(at(170), true, 4), "one of them ended");
        assert!(!idle.look(at(360), true, 4) && idle.look(at(361), true, 4));
        assert!(!idle.look(at(362), false, 4) && !idle.look(at(552), true, 4), "one of them paused");
        assert!(idle.look(at(553), true, 4));
    }

    #[test]
    fn times_have_units() {
        for (text, want) in
            [("90", 90_000), ("90s", 90_000), ("250ms", 250), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text).map(|d| d.as_millis()), Ok(want), "{text}");
        }
        for text in ["", "s", "5x", "-1", "1e400s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
