//! Counters of the processor and of the scheduler for the threads of programs.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Instructions, those of the kernel included.
    Instructions,
    /// Cycles of the processor.
    Cycles,
    /// Misses of the last level of cache.
    CacheMisses,
    /// Changes from one thread to another.
    ContextSwitches,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 4] =
        [Event::Instructions, Event::Cycles, Event::CacheMisses, Event::ContextSwitches];

    /// Its name in columns and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Instructions => "instructions",
            Event::Cycles => "cycles",
            Event::CacheMisses => "cache_misses",
            Event::ContextSwitches => "switches",
        }
    }

    /// `type` and `config` of `struct perf_event_attr`.
    const fn kind(self) -> (u32, u64) {
        match self {
            Event::Cycles => (HARDWARE, 0),
            Event::Instructions => (HARDWARE, 1),
            Event::CacheMisses => (HARDWARE, 3),
            Event::ContextSwitches => (SOFTWARE, 3),
        }
    }
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// A value comes with how long its counter was enabled and how long it counted.
const TIMES: u64 = 1 | 2;
/// Threads and processes that a counted one starts are counted with it: the second bit of the flags.
const INHERIT: u64 = 1 << 1;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Threads of a program that are counted; those that they start are counted with them.
const THREADS_MAX: usize = 1_024;

/// The first version of `struct perf_event_attr` (`include/uapi/linux/perf_event.h`), which every kernel
/// takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// The counters of one event: one for each thread that was there when they were opened.
#[derive(Debug)]
pub struct ThreadCounters {
    event: Event,
    counters: Vec<OwnedFd>,
}

impl ThreadCounters {
    /// Begins to count an event in all threads of these processes.
    ///
    /// # Errors
    /// If the kernel or the processor has no such counter, or this program may not see it. No process left is
    /// no error.
    pub fn open(event: Event, pids: &[u32]) -> io::Result<ThreadCounters> {
        let mut counters = Vec::new();
        for thread in pids.iter().flat_map(|pid| threads(*pid)).take(THREADS_MAX) {
            match open(event, thread) {
                Ok(counter) => counters.push(counter),
                // It ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ThreadCounters { event, counters })
    }

    /// What is counted.
    pub fn event(&self) -> Event {
        self.event
    }

    /// The count since the beginning. Where a counter had to share the processor's registers with others, its
    /// value is scaled to the whole time.
    pub fn read(&self) -> f64 {
        self.counters.iter().map(scaled).sum()
    }
}

fn threads(pid: u32) -> Vec<libc::pid_t> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn open(event: Event, thread: libc::pid_t) -> io::Result<OwnedFd> {
    let (kind, config) = event.kind();
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: TIMES,
        flags: INHERIT,
        ..Attributes::default()
    };
    let (any_processor, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: the attributes are readable for the size that they name, during the call.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            any_processor,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let opened = super::check(opened as libc::c_int)?;
    // SAFETY: perf_event_open(2) has just given us this descriptor, and nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Value, time enabled, time counted.
fn scaled(counter: &OwnedFd) -> f64 {
    let mut words = [0_u64; 3];
    let length = size_of_val(&words);
    // SAFETY: the buffer is writable for its length.
    let read = unsafe { libc::read(counter.as_raw_fd(), words.as_mut_ptr().cast(), length) };
    let [value, enabled, counted] = words;
    if read != length as isize || counted == 0 {
        return 0.0;
    }
    value as f64 * (enabled as f64 / counted as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn context_switches_of_later_threads_are_counted() {
        let counters = ThreadCounters::open(Event::ContextSwitches, &[std::process::id()]);
        let Ok(counters) = counters else {
            // A container may forbid the call: its error is what a report shows.
            return;
        };
        let before = counters.read();
        let sleeper = thread::spawn(|| {
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(1));
            }
        });
        sleeper.join().expect("it sleeps");
        assert!(counters.read() >= before + 20.0, "{} after {before}", counters.read());
    }

    #[test]
    fn processes_that_are_gone_have_no_counters() {
        let counters = ThreadCounters::open(Event::ContextSwitches, &[u32::MAX]).expect("nothing to open");
        assert_eq!((counters.event(), counters.read()), (Event::ContextSwitches, 0.0));
    }
}
