//! Turns with the workers, where the threads of the store share a processor with them.
//!
//! A kernel that does not interrupt itself, or a task before its next tick, leaves the processor to a thread
//! of the store for as long as 4 ms once that has it, though a worker waits and comes first by nice(2): at a
//! tick, or where both become ready at the same moment, whoever is behind in his share is taken, and nobody
//! looks again before the next tick. So what takes long offers the processor as it goes along.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Between two offers: less than anybody notices, and a hundred times what one costs.
const TURN: Duration = Duration::from_micros(100);
/// Small pieces of work, far below a microsecond each, between two looks at the clock.
const PIECES: u32 = 32;

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    static PIECES_DONE: Cell<u32> = const { Cell::new(0) };
}

/// Lets others have the processor, if the calling thread has had it for a while. To be called between pieces
/// of work of some microseconds, without a lock that a worker may want.
pub fn offer() {
    let now = clock();
    if LAST.get().is_some_and(|last| now.duration_since(last) < TURN) {
        return;
    }
    rustix::thread::sched_yield();
    LAST.set(Some(clock()));
}

/// Nothing that is done goes by it, only when the processor is offered.
#[allow(
    clippy::disallowed_methods,
    reason = "the shell reads clocks; how long a thread has run is nobody's argument"
)]
fn clock() -> Instant {
    Instant::now()
}

/// The same between pieces that are smaller than a look at the clock.
#[inline]
pub fn offer_often() {
    let done = PIECES_DONE.get().wrapping_add(1);
    PIECES_DONE.set(done);
    if done.is_multiple_of(PIECES) {
        offer();
    }
}
