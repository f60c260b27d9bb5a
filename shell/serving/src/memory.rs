//! How much memory this process may use, and how it is divided: see `docs/design/memory.md`.

use control::config::Limits;
use control::memory;

/// A transaction whose answer may be asked for again takes about one KiB, and there are two kinds: so at most
/// a quarter of the memory is for them.
const EACH_TRANSACTION: u64 = 8 << 10;
/// Fewer calls than transactions are known at a time: one has four within the 32 s after it was set up and
/// ended, and lasts minutes.
const EACH_CALL: u64 = 16 << 10;
/// What there is room for at least: small machines have little else to do.
const LEAST: (usize, usize) = (1_000_000, 500_000);

/// A receive buffer gets this fraction of the memory, within these bounds (bytes).
const EACH_BUFFER: u64 = 64;
const BUFFER: (usize, usize) = (4 << 20, 64 << 20);

/// What the receive buffers of each of `workers` may be asked to hold, bytes, of which as much again may wait
/// in the kernel: a small part of the memory, for others want it too when all stand still.
pub fn buffer(limits: &Limits, workers: usize) -> usize {
    fitting(usable(limits), EACH_BUFFER * workers.max(1) as u64, BUFFER.0).min(BUFFER.1)
}

/// As many as there is memory for, `least` at least.
fn fitting(memory: Option<u64>, each: u64, least: usize) -> usize {
    usize::try_from(memory.unwrap_or(0) / each).unwrap_or(least).clamp(least, 1 << 30)
}

/// Of the memory, the part for what transactions hold of messages, and the part for what streams hold.
const HELD_PART: u64 = 2;
const STREAMS_PART: u64 = 8;
/// Where the memory is unknown.
const ASSUMED: u64 = 2 << 30;
/// What the streams of one worker may hold at most.
const STREAMS_MOST: u64 = 256 << 20;

/// What may be remembered at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Transactions of either kind.
    pub transactions: usize,
    pub calls: usize,
    /// Bytes that transactions hold of messages.
    pub held: usize,
    /// Bytes that streams hold of messages.
    pub streams: usize,
}

impl Room {
    /// What the configuration says, and where it leaves that open what this machine's memory, or that of the
    /// container, has room for.
    pub fn of(limits: &Limits) -> Room {
        let memory = usable(limits);
        let part = |part: u64| usize::try_from(memory.unwrap_or(ASSUMED) / part).unwrap_or(usize::MAX);
        Room {
            held: part(HELD_PART),
            streams: part(STREAMS_PART),
            transactions: limits.transactions.unwrap_or_else(|| fitting(memory, EACH_TRANSACTION, LEAST.0)),
            calls: limits.calls.unwrap_or_else(|| fitting(memory, EACH_CALL, LEAST.1)),
        }
    }

    /// Bytes that the streams of each of `workers` workers may hold, of which one needs at least `least`.
    pub fn streams_of_each(&self, workers: usize, least: usize) -> usize {
        let most = usize::try_from(STREAMS_MOST).unwrap_or(usize::MAX);
        (self.streams / workers.max(1)).min(most).max(least)
    }
}

/// Bytes of memory that this process may have: what the configuration says, or else the system.
fn usable(limits: &Limits) -> Option<u64> {
    limits.memory_mib.map(|mib| mib << 20).or_else(memory::usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_machines_have_room_for_more_and_small_ones_for_the_least() {
        assert_eq!(fitting(Some(32 << 30), EACH_TRANSACTION, 1_000_000), 4 << 20);
        assert_eq!(fitting(Some(1 << 30), EACH_TRANSACTION, 1_000_000), 1_000_000);
        assert_eq!(fitting(None, EACH_TRANSACTION, 1_000_000), 1_000_000);
        assert_eq!(fitting(Some(u64::MAX), EACH_TRANSACTION, 1_000_000), 1 << 30);
    }

    #[test]
    fn receive_buffers_are_a_small_part_of_memory() {
        let buffer = |workers| buffer(&Limits::default(), workers);
        assert!((BUFFER.0..=BUFFER.1).contains(&buffer(1)));
        assert_eq!(buffer(1_000_000), BUFFER.0);
        assert!(buffer(0) >= buffer(1) && buffer(1) >= buffer(64));
    }

    #[test]
    fn what_is_written_counts_and_small_machines_have_the_least() {
        let open = Limits { transactions: None, calls: None, ..Limits::default() };
        let room = Room::of(&open);
        assert!(room.transactions >= LEAST.0 && room.calls >= LEAST.1, "{room:?}");
        let written = Limits { transactions: Some(20), calls: Some(10), memory_mib: Some(512), ..open };
        let room = Room::of(&written);
        assert_eq!(room, Room { transactions: 20, calls: 10, held: 256 << 20, streams: 64 << 20 });
        assert_eq!(room.streams_of_each(4, 1 << 20), 16 << 20);
        assert_eq!(room.streams_of_each(1_000, 1 << 20), 1 << 20, "one message has to fit");
    }
}
