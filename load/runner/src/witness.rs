//! Threads that do nothing but wake, ahead of the workers: what keeps even them waiting is the machine, or
//! its host.

use super::host::sleep_until;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::Time;
use worker_runtime::monotonic_now;

/// How far the times are apart at which they wake. Shorter would cost the workers something, longer miss
/// short stalls.
const INTERVAL: Duration = Duration::from_millis(1);
/// Their priority; the workers' own is [`worker_runtime::RUN_FIRST`] at most.
const PRIORITY: u8 = worker_runtime::RUN_FIRST + 1;

/// What they have seen, in microseconds, and when they are to look.
#[derive(Default)]
struct Shared {
    /// The longest that one of them was kept waiting.
    longest: AtomicU64,
    /// For how long, all of them together, what was due became later than it may.
    lost: AtomicU64,
    from: AtomicU64,
    until: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    /// Notes a wake that was due then. What was due just after the one before waited longer by an interval.
    fn note(&self, due: Time, late: Duration, limit: Duration) {
        let at = due.as_micros();
        if at < self.from.load(Ordering::Relaxed) || at >= self.until.load(Ordering::Relaxed) {
            return;
        }
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.longest.fetch_max(micros(late), Ordering::Relaxed);
        self.lost.fetch_add(micros((late + INTERVAL).saturating_sub(limit)), Ordering::Relaxed);
    }
}

/// What the machine itself did to a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stalls {
    /// The longest one.
    pub longest: Duration,
    /// The share of the time, of all processors, in which what was due became later than it may for that
    /// alone.
    pub share: f64,
}

/// A thread on each processor that this program may use.
pub struct Witness {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Witness {
    /// Starts them, for runs that may be late by `limit`; none without the right to run before the workers,
    /// for then a busy worker keeps them waiting and they say nothing of the machine, nor where workers share
    /// processors: then the kernel keeps a twentieth of each second from all that run first, and no single
    /// worker looks busy.
    pub fn start(workers: usize, limit: Duration) -> Option<Witness> {
        let cpus = worker_runtime::allowed_cpus();
        if workers > cpus.len() {
            return None;
        }
        Witness::on(cpus, limit, || worker_runtime::run_first(PRIORITY).is_ok())
    }

    fn on(cpus: Vec<usize>, limit: Duration, ahead: fn() -> bool) -> Option<Witness> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = std::sync::mpsc::channel();
        let start = |cpu: usize| {
            let (shared, tell) = (shared.clone(), tell.clone());
            let named = thread::Builder::new().name(format!("witness-{cpu}"));
            named
                .spawn(move || {
                    let ready = worker_runtime::pin_to_cpu(cpu).is_ok() && ahead();
                    let _ = tell.send(ready);
                    if ready {
                        watch(&shared, limit);
                    }
                })
                .ok()
        };
        let wanted = cpus.len();
        let threads: Vec<_> = cpus.into_iter().filter_map(start).collect();
        drop(tell);
        let ready = told.iter().take(threads.len()).filter(|&ready| ready).count();
        let witness = Witness { shared, threads };
        (wanted > 0 && ready == wanted).then_some(witness)
    }

    /// Forgets what was, and has them look from then until then.
    pub fn look(&self, from: Time, until: Time) {
        self.shared.until.store(0, Ordering::Relaxed);
        self.shared.longest.store(0, Ordering::Relaxed);
        self.shared.lost.store(0, Ordering::Relaxed);
        self.shared.from.store(from.as_micros(), Ordering::Relaxed);
        self.shared.until.store(until.as_micros(), Ordering::Relaxed);
    }

    /// What they have seen since.
    pub fn stalls(&self) -> Stalls {
        let [longest, lost, from, until] =
            [&self.shared.longest, &self.shared.lost, &self.shared.from, &self.shared.until]
                .map(|number| number.load(Ordering::Relaxed));
        let all = until.saturating_sub(from) as f64 * self.threads.len().max(1) as f64;
        let share = if all > 0.0 { lost as f64 / all } else { 0.0 };
        Stalls { longest: Duration::from_micros(longest), share }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Wakes, and notes how late. Without a timer it sees nothing, and so excuses nothing.
fn watch(shared: &Shared, limit: Duration) {
    let Ok(timer) = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC) else { return };
    while !shared.over.load(Ordering::Relaxed) {
        let due = monotonic_now() + INTERVAL;
        if sleep_until(&timer, due).is_none() {
            return;
        }
        shared.note(due, monotonic_now().since(due), limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(5);

    #[test]
    fn what_cannot_run_ahead_is_no_witness() {
        assert!(Witness::on(worker_runtime::allowed_cpus(), LIMIT, || false).is_none());
        assert!(Witness::on(Vec::new(), LIMIT, || true).is_none());
        assert!(Witness::start(worker_runtime::allowed_cpus().len() + 1, LIMIT).is_none());
    }

    #[test]
    fn threads_look_when_they_are_told() {
        let witness = Witness::on(worker_runtime::allowed_cpus(), LIMIT, || true).expect("threads");
        assert_eq!(witness.stalls(), Stalls::default());
        witness.look(Time::ZERO, Time::FAR);
        // Late by a microsecond at least, once in a thousand wakes.
        let (_keep, nothing) = std::sync::mpsc::channel::<()>();
        let seen = (0..1_000).any(|_| {
            let _ = nothing.recv_timeout(INTERVAL);
            !witness.stalls().longest.is_zero()
        });
        assert!(seen);
    }

    #[test]
    fn only_what_makes_times_late_is_lost() {
        let witness = Witness { shared: Arc::default(), threads: Vec::new() };
        let at = Time::from_millis;
        let note = |due, late| witness.shared.note(at(due), Duration::from_millis(late), LIMIT);
        witness.look(at(1_000), at(2_000));
        note(999, 500);
        note(2_000, 500);
        note(1_000, 4);
        assert_eq!(witness.stalls(), Stalls { longest: Duration::from_millis(4), share: 0.0 });
        // Times that were due in the first 3 ms of 8 were late.
        note(1_100, 7);
        note(1_999, 7);
        assert_eq!(witness.stalls(), Stalls { longest: Duration::from_millis(7), share: 0.006 });
        witness.look(at(3_000), at(4_000));
        assert_eq!(witness.stalls(), Stalls::default());
    }
}
