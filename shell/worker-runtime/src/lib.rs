//! The event loop under a protocol machine: one thread per worker, each with its own sockets,
//! buffers, connections and deadlines.
//!
//! A [`Machine`](wire::Machine) is given whole messages and the time, and says what it wants sent;
//! this crate does the rest and knows nothing of what the messages mean. Workers share their
//! listening ports by `SO_REUSEPORT`, and the kernel may be told which of them owns a datagram
//! ([`Bound::steer`]). A message that another worker owns makes one hop over a bounded ring; nothing
//! here ever waits for another thread.
//!
//! ```text
//!  epoll ─ datagrams ─┐              ┌─ sendmmsg
//!        ─ streams ───┤─ machine ────┤─ stream queues ─ send
//!   ring ─ hops ──────┤   (outbox)   └─ ring to the owner of a connection
//!  clock ─ deadlines ─┘
//! ```
//!
//! It is the only crate with sockets, threads and unsafe code, all of the latter below `sys`. Linux
//! only.

mod config;
mod counters;
mod handle;
mod listen;
mod shared;
mod sieve;
mod steering;
mod streams;
mod sys;
mod worker;

pub use config::{Listener, PanicHook, RuntimeConfig, StartError, StreamLimits, WorkerPanic};
pub use counters::Counts;
pub use handle::{PostError, Runtime, RuntimeHandle};
pub use listen::Bound;
pub use steering::SteerError;

/// The CPUs that this process may use, in order; none if the system does not say.
pub fn allowed_cpus() -> Vec<usize> {
    sys::allowed_cpus()
}

/// Open files that the process may have, raised as far as it is allowed to; none if the system does not say.
pub fn descriptors_allowed() -> Option<u64> {
    sys::raise_descriptor_limit()
}

/// Lets the calling thread, and those that it starts from now on, run before those of all other programs.
///
/// # Errors
/// `EPERM` without root, `CAP_SYS_NICE` or a limit (`RLIMIT_RTPRIO`) that allows it.
pub fn run_first() -> std::io::Result<()> {
    sys::run_first()
}

/// The time now: `CLOCK_MONOTONIC`, whose origin is the machine's start.
pub fn monotonic_now() -> wire::Time {
    wire::Time::from_micros(sys::monotonic_micros())
}
