//! What a driver tells a machine of the load on it.

use core::time::Duration;

/// How one worker kept up with what came, over a window of time. Everything in it is seen from how much there
/// was to do in each round of the worker's loop, so it needs no time stamps on messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Length of the window.
    pub window: Duration,
    /// How long there has been more to do than a worker that keeps up finds, up to now: since it last had
    /// nothing, or next to nothing, to take. Whatever waits now has waited no longer. A single round counts
    /// for [`Load::ROUND`] at most, so that a process that was stopped for a while is not taken for one that
    /// is short of time.
    pub behind: Duration,
    /// Whether it kept up at least once in the window.
    pub kept_up: bool,
    /// Datagrams that the kernel dropped in the window by what [`Machine::sieve`](crate::Machine::sieve)
    /// said; `None` where it drops none, whatever is said.
    pub sieved: Option<u64>,
    /// Bytes of datagrams that wait in the kernel at the end of the window, as it counts them. `None` where
    /// the worker is behind for less than [`Load::ROUND`], where nobody knows, or where datagrams were lost
    /// in the window for want of room.
    pub waiting: Option<u64>,
}

impl Load {
    /// How long a window is at least.
    pub const WINDOW: Duration = Duration::from_millis(50);
    /// What one round counts for at most.
    pub const ROUND: Duration = Duration::from_millis(50);
}
