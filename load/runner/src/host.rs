//! The machine that the generator runs on: what it is, what the run took of it, and how punctual it is.

use load::metrics::{Health, Hist};
use load::report::Fact;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;
use wire::Time;
use worker_runtime::monotonic_now;

/// What a worker thread has had so far, in seconds.
#[derive(Clone, Debug)]
struct Thread {
    name: String,
    /// On a processor.
    ran: f64,
    /// Ready to run, with another in its place.
    waited: f64,
}

/// What all processors of the machine have done so far, in ticks of the kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Ticks {
    all: u64,
    stolen: u64,
}

/// The generator's share of its machine at some moment.
struct Moment {
    at: Time,
    threads: Vec<Thread>,
    ticks: Option<Ticks>,
}

impl Moment {
    fn now(at: Time) -> Moment {
        let ticks = ticks(&std::fs::read_to_string("/proc/stat").unwrap_or_default());
        Moment { at, threads: threads(), ticks }
    }
}

/// How busy this program's own workers are in the measured window, and what was in their way.
pub struct Busy {
    window: (Time, Time),
    begin: Option<Moment>,
    end: Option<Moment>,
}

impl Busy {
    /// Of this window.
    pub fn new(window: (Time, Time)) -> Busy {
        Busy { window, begin: None, end: None }
    }

    /// To be called often.
    pub fn look(&mut self, now: Time) {
        if self.begin.is_none() && now >= self.window.0 {
            self.begin = Some(Moment::now(now));
        }
        if self.end.is_none() && now >= self.window.1 {
            self.end = Some(Moment::now(now));
        }
    }

    /// The window ends now, if it has not. One that has not begun yet has no early end.
    pub fn close(&mut self, now: Time) {
        if now > self.window.0 {
            self.window.1 = self.window.1.min(now);
        }
    }

    /// What the window shows; the run ends at `now`.
    pub fn health(&mut self, now: Time) -> Health {
        let Some(before) = &self.begin else { return Health::default() };
        let after = self.end.get_or_insert_with(|| Moment::now(now));
        let time = after.at.since(before.at);
        Health {
            cpu_percent: most(before, after, time, |thread| thread.ran),
            waited_percent: most(before, after, time, |thread| thread.waited),
            steal_percent: stolen(before.ticks, after.ticks),
        }
    }
}

/// Of all workers the largest share of `time` that one had of something, per cent.
fn most(before: &Moment, after: &Moment, time: Duration, of: impl Fn(&Thread) -> f64) -> Option<f64> {
    let share = |thread: &Thread| {
        let earlier = before.threads.iter().find(|other| other.name == thread.name).map_or(0.0, &of);
        (of(thread) - earlier) / time.as_secs_f64().max(1e-3) * 100.0
    };
    after.threads.iter().map(share).max_by(f64::total_cmp)
}

/// The share of all processors' time that the host took, per cent.
fn stolen(before: Option<Ticks>, after: Option<Ticks>) -> Option<f64> {
    let (before, after) = (before?, after?);
    let all = after.all.checked_sub(before.all).filter(|&all| all > 0)?;
    Some(after.stolen.saturating_sub(before.stolen) as f64 * 100.0 / all as f64)
}

/// The first line of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq and steal. What
/// follows, guests' time, is in user and nice already.
fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut numbers = [0_u64; 8];
    let mut words = line.split_whitespace();
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let [.., stolen] = numbers;
    Some(Ticks { all: numbers.iter().sum(), stolen })
}

/// All worker threads of this program. Empty where the system does not say.
fn threads() -> Vec<Thread> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let read = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?.trim().to_owned();
        // Nanoseconds on a processor, waiting for one, and how often.
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let mut seconds = text.split_whitespace().map(|word| word.parse::<f64>().map(|nanos| nanos / 1e9));
        let (ran, waited) = (seconds.next()?.ok()?, seconds.next()?.ok()?);
        name.starts_with("worker-").then_some(Thread { name, ran, waited })
    };
    tasks.flatten().filter_map(|task| read(task.path())).collect()
}

/// What the report says about this machine.
pub fn machine() -> Vec<Fact> {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = file("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = file("/proc/sys/kernel/osrelease");
    let mut facts = vec![Fact::new("cores", cores)];
    facts.extend(model.map(|model| Fact::new("processor", model)));
    if !kernel.is_empty() {
        facts.push(Fact::new("kernel", kernel.trim()));
    }
    facts
}

/// How late a bare thread wakes that does nothing but sleep to given times.
pub struct Floor {
    /// Microseconds.
    pub lateness: Hist,
    /// Processor time that the host took meanwhile, per cent.
    pub steal_percent: Option<f64>,
}

impl Floor {
    /// Sleeps for `length` to times that are `interval` apart, on as many threads as there are workers,
    /// before all other programs if these run `first`. None: the system has no timers left, or does not
    /// permit them.
    pub fn measure(threads: usize, first: bool, length: Duration, interval: Duration) -> Option<Floor> {
        let before = Moment::now(monotonic_now()).ticks;
        let started = monotonic_now() + interval;
        let sleep = |_| {
            let named = thread::Builder::new().name("floor".to_owned());
            named
                .spawn(move || {
                    if first {
                        worker_runtime::run_first(worker_runtime::RUN_FIRST).ok()?;
                    }
                    sleeper(started, length, interval)
                })
                .ok()
        };
        let sleepers: Vec<_> = (0..threads).filter_map(sleep).collect();
        let mut lateness = Hist::new();
        for sleeper in sleepers {
            lateness.merge(&sleeper.join().ok()??);
        }
        let after = Moment::now(monotonic_now()).ticks;
        Some(Floor { lateness, steal_percent: stolen(before, after) })
    }

    /// In words.
    pub fn text(&self) -> String {
        let steal = self.steal_percent.map_or_else(String::new, |p| format!("; the host took {p:.1} %"));
        format!("{}{steal}", percentiles(&self.lateness))
    }
}

/// The percentiles of a lateness in words.
pub fn percentiles(lateness: &Hist) -> String {
    let ms = |percent: f64| lateness.percentile(percent) as f64 / 1_000.0;
    format!(
        "p50 {:.3} p90 {:.3} p99 {:.3} p99.9 {:.3} max {:.3} ms of {}",
        ms(50.0),
        ms(90.0),
        ms(99.0),
        ms(99.9),
        ms(100.0),
        lateness.count()
    )
}

/// Sleeps as the workers do: on a timer of the kernel that is set to an absolute time. Times that went by
/// while it slept count too, as calls do that should have begun then.
fn sleeper(started: Time, length: Duration, interval: Duration) -> Option<Hist> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok()?;
    let mut late = Hist::new();
    let mut due = started;
    while due < started + length {
        sleep_until(&timer, due)?;
        late.record_duration(monotonic_now().since(due));
        due = due + interval;
    }
    Some(late)
}

/// Sleeps on the kernel's timer until `due`, not at all if that has gone by. None: the system refuses.
pub fn sleep_until(timer: &OwnedFd, due: Time) -> Option<()> {
    if monotonic_now() >= due {
        return Some(());
    }
    let micros = due.as_micros();
    let it_value =
        Timespec { tv_sec: (micros / 1_000_000) as i64, tv_nsec: (micros % 1_000_000 * 1_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).ok()?;
    rustix::io::read(timer, &mut [0; 8]).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64, workers: &[(&str, f64, f64)]) -> Moment {
        let thread = |&(name, ran, waited): &(&str, f64, f64)| Thread { name: name.to_owned(), ran, waited };
        Moment { at: Time::from_secs(at), threads: workers.iter().map(thread).collect(), ticks: None }
    }

    #[test]
    fn the_busiest_worker_is_the_one_that_used_most() {
        let before = moment(0, &[("worker-0", 1.0, 0.0), ("worker-1", 1.0, 0.5)]);
        let after = moment(2, &[("worker-0", 1.5, 1.0), ("worker-1", 2.0, 0.5)]);
        let time = Duration::from_secs(2);
        assert_eq!(most(&before, &after, time, |thread| thread.ran), Some(50.0));
        assert_eq!(most(&before, &after, time, |thread| thread.waited), Some(50.0));
        assert_eq!(most(&before, &moment(2, &[]), time, |thread| thread.ran), None);
    }

    #[test]
    fn what_the_host_takes_is_a_share_of_all() {
        let before = ticks("cpu  100 0 50 800 10 0 0 40 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        assert_eq!(before, Some(Ticks { all: 1_000, stolen: 40 }));
        let after = ticks("cpu  150 0 60 900 10 0 0 80 7 0\n");
        assert_eq!(stolen(before, after), Some(20.0));
        assert_eq!(stolen(before, before), None, "no time has passed");
        for strange in ["", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1"] {
            assert_eq!(ticks(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_bare_thread_wakes_for_every_time() {
        let floor =
            Floor::measure(2, false, Duration::from_millis(20), Duration::from_millis(1)).expect("a timer");
        assert_eq!(floor.lateness.count(), 40);
        assert!(floor.text().contains("p99.9") && floor.text().contains("of 40"), "{}", floor.text());
    }
}
