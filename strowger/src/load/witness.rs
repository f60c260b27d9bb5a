//! Threads that do nothing but wake, ahead of the workers: what keeps even them waiting is the machine, or its host.

use super::host::sleep_until;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use worker_runtime::monotonic_now;

/// How far the times are apart at which they wake. Shorter would cost the workers something, longer miss short stalls.
const INTERVAL: Duration = Duration::from_millis(1);
/// Their priority; the workers' own is [`worker_runtime::RUN_FIRST`] at most.
const PRIORITY: u8 = worker_runtime::RUN_FIRST + 10;

/// The longest that one of them was kept waiting, in microseconds, and whether they are to end.
#[derive(Default)]
struct Shared {
    longest: AtomicU64,
    over: AtomicBool,
}

/// A thread on each processor that this program may use.
pub struct Witness {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Witness {
    /// Starts them; none without the right to run before the workers, for then a busy worker keeps them waiting and
    /// they say nothing of the machine.
    pub fn start() -> Option<Witness> {
        Witness::on(worker_runtime::allowed_cpus(), || worker_runtime::run_first(PRIORITY).is_ok())
    }

    fn on(cpus: Vec<usize>, ahead: fn() -> bool) -> Option<Witness> {
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
                        watch(&shared);
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

    /// How long one of them was kept waiting at most, since the start or since this was last asked.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.shared.longest.swap(0, Ordering::Relaxed))
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
fn watch(shared: &Shared) {
    let Ok(timer) = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC) else { return };
    while !shared.over.load(Ordering::Relaxed) {
        let due = monotonic_now() + INTERVAL;
        if sleep_until(&timer, due).is_none() {
            return;
        }
        let late = monotonic_now().since(due).as_micros();
        shared.longest.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_ahead_is_no_witness() {
        assert!(Witness::on(worker_runtime::allowed_cpus(), || false).is_none());
        assert!(Witness::on(Vec::new(), || true).is_none());
    }

    #[test]
    fn the_longest_wait_is_told_once() {
        let witness = Witness::on(worker_runtime::allowed_cpus(), || true).expect("threads");
        let mut longest = Duration::ZERO;
        // Late by a microsecond at least, once in a thousand wakes.
        let (_keep, nothing) = std::sync::mpsc::channel::<()>();
        for _ in 0..1_000 {
            let _ = nothing.recv_timeout(INTERVAL);
            longest = longest.max(witness.longest());
            if !longest.is_zero() {
                break;
            }
        }
        assert!(!longest.is_zero());
        let shared = witness.shared.clone();
        drop(witness);
        shared.longest.store(7_000, Ordering::Relaxed);
        let witness = Witness { shared, threads: Vec::new() };
        assert_eq!(witness.longest(), Duration::from_millis(7));
        assert_eq!(witness.longest(), Duration::ZERO);
    }
}
