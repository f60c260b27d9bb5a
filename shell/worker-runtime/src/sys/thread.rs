//! The clock, the placement of threads, and the limit on descriptors.

use super::{check, check_long};
use std::io;
use std::time::Duration;

/// `CLOCK_MONOTONIC` in microseconds.
pub fn monotonic_micros() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is writable; this clock always exists on Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut ts) };
    (ts.tv_sec as u64) * 1_000_000 + (ts.tv_nsec as u64) / 1_000
}

/// `CLOCK_REALTIME` in microseconds since 1970.
pub fn wall_micros() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut ts) };
    (ts.tv_sec as u64) * 1_000_000 + (ts.tv_nsec as u64) / 1_000
}

/// Sleeps so long, or until a signal.
pub fn sleep(rest: Duration) {
    let rest = libc::timespec {
        tv_sec: libc::time_t::try_from(rest.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(rest.subsec_nanos()),
    };
    // SAFETY: `rest` is readable; a null pointer asks for nothing back.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const rest, std::ptr::null_mut()) };
}

/// Lets the calling thread wake when it asked to: otherwise the kernel takes up to 50 us more, to wake
/// several threads at once (prctl(2), `PR_SET_TIMERSLACK`).
pub fn sleep_exactly() {
    // SAFETY: no pointers. A failure leaves the slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// The tenth of 99 priorities: behind what the kernel itself runs so.
pub const RUN_FIRST: u8 = 10;

/// Lets the calling thread, and those that it starts from now on, run before those of all other programs, and
/// of two that run so the one with the higher `priority` (1 to 99; sched(7), `SCHED_FIFO`).
///
/// # Errors
/// `EPERM` without root, `CAP_SYS_NICE` or a limit (`RLIMIT_RTPRIO`) that allows it.
pub fn run_first(priority: u8) -> io::Result<()> {
    // SAFETY: a zeroed sched_param is a valid one.
    let mut how: libc::sched_param = unsafe { std::mem::zeroed() };
    how.sched_priority = priority.into();
    // SAFETY: the kernel reads `how`; pid 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const how) }).map(drop)
}

/// How long a worker runs before the kernel looks whether others wait, nanoseconds: the least that it takes.
pub const TURN: u64 = 100_000;

/// Has the calling thread go on as soon as it has something to do, where a thread with longer turns has the
/// processor: to the kernel whoever wants a short turn is due sooner (sched(7), since Linux 6.12; before it
/// changes nothing). It gets no more of the processor for that. Otherwise it waits until the other's turn
/// ends, which is seen at a tick, 4 ms apart or 10.
///
/// # Errors
/// `ENOSYS`, `EPERM` where a sandbox forbids it.
pub fn take_short_turns(nanoseconds: u64) -> io::Result<()> {
    // SAFETY: a zeroed sched_attr is a valid one.
    let mut how: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: `how` is writable for `size` bytes; 0 is the calling thread.
    check_long(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut how, size, 0) })?;
    if how.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    how.size = size;
    how.sched_runtime = nanoseconds;
    // SAFETY: the kernel reads `how`, whose size it tells.
    check_long(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const how, 0) }).map(drop)
}

/// Has the kernel give this program memory by pages of 4 KiB only (prctl(2), `PR_SET_THP_DISABLE`).
///
/// # Errors
/// `EINVAL` where the kernel knows no others.
pub fn small_pages() -> io::Result<()> {
    const ON: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, ON, UNUSED, UNUSED, UNUSED) }).map(drop)
}

/// Whether that is so.
#[cfg(test)]
pub fn has_small_pages() -> bool {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, UNUSED, UNUSED, UNUSED, UNUSED) == 1 }
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// `EINVAL` if the CPU does not exist or is outside the process's allowed set.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a zeroed cpu_set_t is the empty set; `cpu` is inside it by the check above; pid 0 is
    // the calling thread.
    check(unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    })?;
    Ok(())
}

/// The CPUs that the process may use, in order; none if the system does not say.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a zeroed cpu_set_t is the empty set, writable for its size; pid 0 is the calling thread;
    // CPU_ISSET is asked for bits inside the set only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set)) {
            Ok(_) => (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect(),
            Err(_) => Vec::new(),
        }
    }
}

/// Raises the number of descriptors that the process may have as far as it is allowed to, and
/// answers it; `None` if the system does not say.
pub fn raise_descriptor_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }).ok()?;
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: `raised` is readable.
    match check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) }) {
        Ok(_) => Some(raised.rlim_cur),
        Err(_) => Some(limit.rlim_cur),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_takes_the_wish_for_short_turns() {
        super::take_short_turns(super::TURN).expect("Linux 3.14 and later");
    }

    #[test]
    fn the_kernel_takes_the_wish_for_small_pages() {
        super::small_pages().expect("Linux 3.15 and later");
        assert!(super::has_small_pages());
    }
}
