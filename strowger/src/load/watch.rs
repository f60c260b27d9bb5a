//! Looking after a run: how it goes, when it ends, and what it costs this machine.

use super::args::LoadArgs;
use crate::signals::Wish;
use load::engine::{Notice, Progress};
use load::metrics::Pulse;
use load::report::{Fact, Live};
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use wire::Time;
use worker_runtime::{RuntimeHandle, monotonic_now};

/// How a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All calls were made.
    Done,
    /// `--timeout`.
    TimeOut,
    /// Somebody pressed Ctrl-C.
    Asked,
}

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long calls under way may take to end after the first Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shows a run until it ends; `each` is told the time at every look.
pub fn watch(
    args: &LoadArgs,
    title: &str,
    started: Time,
    handle: &RuntimeHandle<Notice>,
    signals: &Receiver<Wish>,
    each: &mut dyn FnMut(Time),
) -> Result<Ended, String> {
    let limit = args.timeout.as_deref().map(duration).transpose()?;
    let mut live = Live::new(title);
    let terminal = std::io::stderr().is_terminal() && !args.quiet;
    let mut shown = (0, Time::ZERO);
    let mut quitting: Option<(Time, Ended)> = None;
    loop {
        let stop = match signals.recv_timeout(LOOK) {
            Ok(Wish::Stop) => Some(Ended::Asked),
            Ok(Wish::Reload) => None,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        };
        let now = monotonic_now();
        each(now);
        let over = limit.is_some_and(|limit| now.since(started) >= limit).then_some(Ended::TimeOut);
        match (stop.or(over.filter(|_| quitting.is_none())), quitting) {
            (Some(Ended::Asked), Some(_)) => return Ok(Ended::Asked),
            (Some(why), None) => {
                quit(handle);
                quitting = Some((now, why));
            }
            _ => {}
        }
        let all = ask(handle);
        if handle.live_workers() < usize::from(handle.workers()) {
            return Err("a worker failed; see the messages above".into());
        }
        let done = all.len() == usize::from(handle.workers()) && all.iter().all(|p| p.done);
        show(args, &mut live, &all, (terminal, done), started, &mut shown);
        match quitting {
            _ if done => return Ok(quitting.map_or(Ended::Done, |(_, why)| why)),
            Some((since, why)) if now.since(since) > PATIENCE => return Ok(why),
            _ => {}
        }
    }
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
    all: &[Progress],
    (terminal, done): (bool, bool),
    started: Time,
    shown: &mut (usize, Time),
) {
    for (_, line) in all.iter().flat_map(|p| &p.lines) {
        eprintln!("{}", String::from_utf8_lossy(line));
    }
    let mut pulses = all.iter().map(|p| p.pulse.clone());
    let Some(first) = pulses.next() else { return };
    let merged = pulses.fold(first, |mut all: Pulse, other| {
        all.merge(&other);
        all
    });
    live.update(merged);
    let now = monotonic_now();
    let seconds = now.since(started).as_secs();
    if args.quiet || (!terminal && !done && now.since(shown.1) < Duration::from_secs(1)) {
        return;
    }
    shown.1 = now;
    let phase = format!("{seconds} s");
    if !terminal {
        eprintln!("{}", live.line(&phase));
        return;
    }
    let frame = live.frame(&phase, 100, true);
    let mut out = std::io::stderr().lock();
    // Over the frame before.
    if shown.0 > 0 {
        let _ = write!(out, "\x1b[{}A\x1b[J", shown.0);
    }
    let _ = out.write_all(frame.as_bytes());
    shown.0 = frame.lines().count();
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

/// How busy this program's own workers are in the measured window.
pub struct Busy {
    window: (Time, Time),
    begin: Option<(Time, Vec<(String, f64)>)>,
    end: Option<(Time, Vec<(String, f64)>)>,
}

impl Busy {
    /// Of this window.
    pub fn new(window: (Time, Time)) -> Busy {
        Busy { window, begin: None, end: None }
    }

    /// To be called often.
    pub fn look(&mut self, now: Time) {
        if self.begin.is_none() && now >= self.window.0 {
            self.begin = Some((now, cpu_seconds()));
        }
        if self.end.is_none() && now >= self.window.1 {
            self.end = Some((now, cpu_seconds()));
        }
    }

    /// The busiest worker, per cent of a processor; the run ends at `now`.
    pub fn busiest(&mut self, now: Time) -> Option<f64> {
        let (from, before) = self.begin.as_ref()?;
        let (until, after) = self.end.get_or_insert_with(|| (now, cpu_seconds()));
        busiest(before, after, until.since(*from))
    }
}

/// Processor time of each worker thread so far, seconds, by thread name. Empty where the system does not
/// say.
fn cpu_seconds() -> Vec<(String, f64)> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let read = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?.trim().to_owned();
        // Nanoseconds on a processor, waiting for one, and how often.
        let run = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let nanos: f64 = run.split_whitespace().next()?.parse().ok()?;
        name.starts_with("worker-").then_some((name, nanos / 1e9))
    };
    tasks.flatten().filter_map(|task| read(task.path())).collect()
}

/// How busy the busiest worker was, per cent of a processor.
fn busiest(before: &[(String, f64)], after: &[(String, f64)], time: Duration) -> Option<f64> {
    let used = |(name, seconds): &(String, f64)| {
        let earlier = before.iter().find(|(other, _)| other == name).map_or(0.0, |(_, s)| *s);
        (seconds - earlier) / time.as_secs_f64().max(1e-3) * 100.0
    };
    after.iter().map(used).max_by(f64::total_cmp)
}

/// What the report says about this machine.
pub fn machine() -> Vec<Fact> {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = file("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = file("/proc/sys/kernel/osrelease");
    let mut facts = vec![Fact::new("cores", cores)];
    facts.extend(model.map(|model| Fact::new("processor", model)));
    if !kernel.is_empty() {
        facts.push(Fact::new("kernel", kernel.trim()));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_busiest_worker_is_the_one_that_used_most() {
        let before = vec![("worker-0".to_owned(), 1.0), ("worker-1".to_owned(), 1.0)];
        let after = vec![("worker-0".to_owned(), 1.5), ("worker-1".to_owned(), 2.0)];
        assert_eq!(busiest(&before, &after, Duration::from_secs(2)), Some(50.0));
        assert_eq!(busiest(&before, &[], Duration::from_secs(2)), None);
    }
}
