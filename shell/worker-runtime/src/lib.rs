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
mod sys;
mod transport;
mod worker;

pub use config::{
    Admission, GeneratorOptions, Listener, PanicHook, RuntimeConfig, SctpSettings, StartError, StreamLimits,
    WebSocket, WebSocketClient, WorkerPanic,
};
pub use counters::Counts;
pub use handle::{PostError, Runtime, RuntimeHandle};
pub use listen::Bound;
pub use steering::{Sifter, SteerError};
pub use transport::sctp::Missing;
pub use transport::stream::{Agreed, ConnectionView, Portion, Question, Wanted};

/// Has the calling thread run in turns twice as long as a worker's, for one beside the workers that offers
/// the processor (sched_yield(2)) more often than that: to the kernel, who offers it gives up the rest of his
/// turn, which is some milliseconds by itself, and would be left with a tenth of his share where a worker has
/// always something to do. Workers wake in the midst of it all the same, for theirs are shorter. Linux 6.12
/// and later; before it changes nothing.
pub fn take_turns_beside_workers() {
    if let Err(error) = sys::take_short_turns(2 * sys::TURN) {
        tracing::debug!(%error, "a thread beside the workers has turns of the usual length");
    }
}

/// The CPUs that this process may use, in order; none if the system does not say.
pub fn allowed_cpus() -> Vec<usize> {
    sys::allowed_cpus()
}

/// Open files that the process may have, raised as far as it is allowed to; none if the system does not say.
pub fn descriptors_allowed() -> Option<u64> {
    sys::raise_descriptor_limit()
}

/// The priority at which workers run before all other programs, where that is asked for; see [`run_first`].
pub const RUN_FIRST: u8 = sys::RUN_FIRST;

/// Lets the calling thread, and those that it starts from now on, run before those of all other programs; of
/// two that run so the one with the higher `priority`, from 1 to 99.
///
/// # Errors
/// `EPERM` without root, `CAP_SYS_NICE` or a limit (`RLIMIT_RTPRIO`) that allows it.
pub fn run_first(priority: u8) -> std::io::Result<()> {
    sys::run_first(priority)
}

/// Has the kernel give this program memory by pages of 4 KiB only, from now on. An allocator that asks for
/// pages of 2 MiB lets a worker stand still whenever one is cleared, for its memory grows in the midst of
/// messages: that takes the kernel 0.1 ms on bare metal and 5 ms and more below a host that has to find the
/// memory first.
///
/// # Errors
/// `EINVAL` where the kernel knows no larger pages.
pub fn small_pages() -> std::io::Result<()> {
    sys::small_pages()
}

/// Gives the kernel pages that are free, if mimalloc is the program's allocator and the first of them was
/// freed a second ago. By itself it does so when somebody needs pages: after a rush, as when all phones
/// connect anew, a server that has little to do would keep what only the rush needed. Costs next to nothing
/// where there is nothing to give; to be called every second or so by a thread that has no messages to
/// handle.
pub fn give_back_memory() {
    sys::give_back();
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// `EINVAL` if the CPU does not exist or is outside the process's allowed set.
pub fn pin_to_cpu(cpu: usize) -> std::io::Result<()> {
    sys::pin_to_cpu(cpu)
}

/// The time now: `CLOCK_MONOTONIC`, whose origin is the machine's start.
pub fn monotonic_now() -> wire::Time {
    wire::Time::from_micros(sys::monotonic_micros())
}
