//! epoll, and the eventfd and the timerfd that wake a sleeping worker.

use super::{check, check_len};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What a descriptor is watched for. Watches are level triggered, so that what one round leaves unread
/// is reported again by the next, except for those of the wake-up and of the alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest(u8);

impl Interest {
    /// Stands for `EPOLLET`, which has no room in a byte.
    const ONCE: u8 = 1 << 7;

    /// Errors and hang-ups only, which the kernel always reports.
    pub const NONE: Interest = Interest(0);
    /// Bytes to read, or a connection to accept.
    pub const READ: Interest = Interest(libc::EPOLLIN as u8);
    /// Each arrival, once: a write to an eventfd or the ring of a timer, without the need to read it.
    pub const EDGE: Interest = Interest(libc::EPOLLIN as u8 | Interest::ONCE);
    /// Room to write, or a finished connect.
    pub const WRITE: Interest = Interest(libc::EPOLLOUT as u8);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// As epoll has it.
    const fn flags(self) -> u32 {
        let edge = if self.0 & Interest::ONCE != 0 { libc::EPOLLET as u32 } else { 0 };
        (self.0 & !Interest::ONCE) as u32 | edge
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
}

impl Poller {
    /// A new instance that answers with at most `capacity` reports at a time.
    pub fn new(capacity: usize) -> io::Result<Poller> {
        // SAFETY: no pointers; the descriptor returned is ours alone.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Ok(Poller { epoll, events: vec![empty; capacity.clamp(1, 4096)], count: 0 })
    }

    fn control(&self, op: libc::c_int, fd: BorrowedFd<'_>, interest: Interest, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.flags(), u64: data };
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

    /// Stops watching `fd`.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        // Nothing is lost if it was not watched.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, Interest::NONE, 0);
    }

    /// Waits for reports: not at all for 0, for ever for -1, else so many milliseconds. An
    /// interrupted wait counts as one without reports.
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<usize> {
        let room = self.events.len() as libc::c_int;
        // SAFETY: the kernel writes at most `room` entries, which the vector has.
        let result =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, timeout_ms) };
        self.count = match check(result) {
            Ok(n) => usize::try_from(n).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        Ok(self.count)
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

/// A timerfd, which no setting of the wall clock moves.
pub struct Timer(OwnedFd);

impl Timer {
    /// A new one, not set.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: no pointers; the descriptor returned is ours alone.
        Ok(Timer(unsafe {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            OwnedFd::from_raw_fd(check(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?)
        }))
    }

    /// Becomes readable when this time has passed, at once if that is nothing, and not when it was to
    /// before. It need not be read. A time from now on, not a point of the clock: what pretends other
    /// times to a process (time namespaces, libfaketime) gets the latter wrong.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // Zero would mean never.
        let after = after.max(Duration::from_nanos(1));
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let at = libc::timespec {
            tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(after.subsec_nanos()),
        };
        let wanted = libc::itimerspec { it_interval: once, it_value: at };
        let (flags, old) = (0, std::ptr::null_mut());
        // SAFETY: `wanted` is readable during the call; a null pointer asks for no old value.
        check(unsafe { libc::timerfd_settime(self.0.as_raw_fd(), flags, &raw const wanted, old) })?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
