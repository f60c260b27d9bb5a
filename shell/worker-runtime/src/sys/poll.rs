//! epoll and the eventfd that wakes a sleeping worker.

use super::{check, check_len, check_long, errno};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What a descriptor is watched for. Watches are level triggered, so that what one round leaves unread
/// is reported again by the next, except for those of the wake-up and of datagram sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest(u32);

impl Interest {
    /// Errors and hang-ups only, which the kernel always reports.
    pub const NONE: Interest = Interest(0);
    /// Bytes to read, or a connection to accept.
    pub const READ: Interest = Interest(libc::EPOLLIN as u32);
    /// Each arrival, once: a write to an eventfd, without the need to read it, or datagrams, which
    /// must then be read to the last. It saves the kernel a second look before it lets us sleep.
    pub const EDGE: Interest = Interest((libc::EPOLLIN | libc::EPOLLET) as u32);
    /// Room to write, or a finished connect.
    pub const WRITE: Interest = Interest(libc::EPOLLOUT as u32);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
}

/// One report of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The number the descriptor was registered with.
    pub data: u64,
    /// Bytes, end of stream, or an error to be read.
    pub readable: bool,
    /// Room to write, or an error.
    pub writable: bool,
    /// The connection is reset or closed in both directions.
    pub dead: bool,
}

/// An epoll instance and room for its reports.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    count: usize,
    /// Waits are as long as asked for, not rounded up to whole milliseconds.
    exact: bool,
}

/// `struct __kernel_timespec`, the same on every architecture.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Poller {
    /// A new instance that answers with at most `capacity` reports at a time. An `exact` one waits as
    /// long as it is told where the kernel can (Linux 5.11), others round up to whole milliseconds.
    pub fn new(capacity: usize, exact: bool) -> io::Result<Poller> {
        // SAFETY: no pointers; the descriptor returned is ours alone.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Ok(Poller { epoll, events: vec![empty; capacity.clamp(1, 4096)], count: 0, exact })
    }

    fn control(&self, op: libc::c_int, fd: BorrowedFd<'_>, interest: Interest, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.0, u64: data };
        // SAFETY: both descriptors are open for the length of the call, `event` outlives it.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd.as_raw_fd(), &raw mut event) })?;
        Ok(())
    }

    /// Starts watching `fd`, to be reported with `data`. Closing it ends that.
    pub fn add(&self, fd: BorrowedFd<'_>, interest: Interest, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, data)
    }

    /// Changes what a watched `fd` is watched for.
    pub fn modify(&self, fd: BorrowedFd<'_>, interest: Interest, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, data)
    }

    /// Waits for reports, never shorter than `timeout` and for ever if there is none. An interrupted
    /// wait counts as one without reports.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let result = match timeout {
            Some(timeout) if self.exact && !timeout.is_zero() => match self.wait_exactly(timeout) {
                // No such call here, or none that a filter of system calls knows.
                Err(error) if matches!(errno(&error), libc::ENOSYS | libc::EPERM) => {
                    self.exact = false;
                    self.wait_millis(millis(timeout))
                }
                other => other,
            },
            Some(timeout) => self.wait_millis(millis(timeout)),
            None => self.wait_millis(-1),
        };
        self.count = match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        Ok(self.count)
    }

    fn wait_millis(&mut self, timeout: libc::c_int) -> io::Result<usize> {
        let room = self.events.len() as libc::c_int;
        // SAFETY: the kernel writes at most `room` entries, which the vector has.
        check_len(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, timeout) as isize
        })
    }

    /// By number, because C libraries have had this call for a short time only.
    fn wait_exactly(&mut self, timeout: Duration) -> io::Result<usize> {
        let room = self.events.len() as libc::c_int;
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { seconds, nanoseconds: i64::from(timeout.subsec_nanos()) };
        let no_signals = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the kernel writes at most `room` entries, which the vector has; `timeout` is readable;
        // a null set of signals leaves the mask alone. The arguments are those of epoll_pwait2(2).
        check_long(unsafe {
            let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
            let (number, size) = (libc::SYS_epoll_pwait2, 0usize);
            libc::syscall(number, epoll, events, room, &raw const timeout, no_signals, size)
        })
    }

    /// Report number `index` of the last wait.
    pub fn event(&self, index: usize) -> Option<Event> {
        let event = self.events[..self.count].get(index)?;
        let flags = event.events as i32;
        let broken = flags & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
        Some(Event {
            data: event.u64,
            readable: broken || flags & libc::EPOLLIN != 0,
            writable: broken || flags & libc::EPOLLOUT != 0,
            dead: broken,
        })
    }
}

/// For `epoll_wait`. Rounded up: a millisecond late is harmless, early is a busy loop.
fn millis(timeout: Duration) -> libc::c_int {
    libc::c_int::try_from(timeout.as_micros().div_ceil(1_000)).unwrap_or(libc::c_int::MAX)
}

/// An eventfd: any thread may ring, one poller listens.
pub struct WakeUp(OwnedFd);

impl WakeUp {
    /// A new one, silent.
    pub fn new() -> io::Result<WakeUp> {
        // SAFETY: no pointers; the descriptor returned is ours alone.
        let fd = unsafe { check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))? };
        // SAFETY: as above.
        Ok(WakeUp(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wakes the poller. It cannot fail in a way that matters: a full counter means that the poller
    /// has been rung already.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes, as an eventfd wants.
        let _ = check_len(unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) });
    }
}

impl AsFd for WakeUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monotonic_now;

    #[test]
    fn milliseconds_are_rounded_up_and_bounded() {
        let of = |micros| millis(Duration::from_micros(micros));
        assert_eq!([of(0), of(1), of(999), of(1_000), of(1_001), of(2_500_000)], [0, 1, 1, 1, 2, 2_500]);
        assert_eq!(millis(Duration::MAX), libc::c_int::MAX);
    }

    /// Makes the kernel answer `epoll_pwait2` with `code` on this thread.
    fn without_exact_waits(code: libc::c_int) {
        let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_epoll_pwait2 as u32),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | code as u32),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program and its filter outlive the calls; the others take numbers only.
        unsafe {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)).unwrap();
            check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)).unwrap();
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the filter is for one thread and cannot be taken off it")]
    fn a_kernel_without_exact_waits_waits_for_whole_milliseconds() {
        for code in [libc::ENOSYS, libc::EPERM] {
            let waiting = std::thread::spawn(move || {
                without_exact_waits(code);
                let mut poller = Poller::new(1, true).unwrap();
                let before = monotonic_now();
                assert_eq!(poller.wait(Some(Duration::from_micros(200))).unwrap(), 0);
                assert!(!poller.exact);
                assert!((monotonic_now() - before).as_micros() >= 1_000);
            });
            waiting.join().unwrap();
        }
    }

    #[test]
    fn an_exact_wait_reports_and_is_not_short() {
        let mut poller = Poller::new(1, true).unwrap();
        let before = monotonic_now();
        assert_eq!(poller.wait(Some(Duration::from_micros(1_300))).unwrap(), 0);
        assert!((monotonic_now() - before).as_micros() >= 1_300);
        let wake = WakeUp::new().unwrap();
        poller.add(wake.as_fd(), Interest::READ, 7).unwrap();
        wake.ring();
        assert_eq!(poller.wait(Some(Duration::from_secs(3_600))).unwrap(), 1);
        assert_eq!(poller.event(0).unwrap().data, 7);
        assert!(poller.exact);
    }
}
