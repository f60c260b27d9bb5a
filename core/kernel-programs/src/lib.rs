//! The form of the eBPF programs that run before a datagram reaches a worker, and the layout of the maps
//! that they share with it. The crate that writes a program and the one that loads it agree by this one.
#![forbid(unsafe_code)]

use core::time::Duration;

/// A program that runs in the kernel for each datagram to a port that several workers share, and chooses
/// the worker whose socket gets it. It is eBPF of type `SK_REUSEPORT`, as numbers in the layout of
/// `struct bpf_insn` (`include/uapi/linux/bpf.h`) on a little-endian machine.
///
/// Where it chooses nobody, the kernel deals the datagram out by the addresses and ports in it. Either
/// way is right, because the worker that gets a message of another one hands it over; so the program
/// only has to agree with the machine's `owner` where it decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SteeringProgram {
    /// The instructions. Loads of a map name it by its number here; the loader of the program puts the
    /// map's descriptor there.
    pub code: Vec<u64>,
    /// Bytes of memory that each CPU needs for the program alone ([`SteeringProgram::SCRATCH`]).
    pub scratch: u32,
}

impl SteeringProgram {
    /// Number of the map with the workers' sockets, by number of the worker (`REUSEPORT_SOCKARRAY`).
    pub const SOCKETS: i32 = 0;
    /// Number of the map with one value of [`scratch`](SteeringProgram::scratch) bytes for each CPU
    /// (`PERCPU_ARRAY`).
    pub const SCRATCH: i32 = 1;
}

/// A program that runs in the kernel for each datagram to a socket of a worker that is overloaded, and drops
/// what the worker's machine would leave unanswered: eBPF of type `SOCKET_FILTER`, in the layout of
/// [`SteeringProgram`].
///
/// It reads a table with an entry for each worker. An entry has the time until which it is valid, the number
/// of datagrams dropped by it, and the numbers from the machine's `sieve`. The machine judges every datagram
/// that passes, so the program may pass any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SieveProgram {
    /// The instructions. Loads of a map name it by its number here.
    pub code: Vec<u64>,
    /// Bytes of memory that each CPU needs for the program alone ([`SieveProgram::SCRATCH`]).
    pub scratch: u32,
    /// Numbers of 32 bits in an entry of the table.
    pub words: u32,
    /// Bytes of a generation of memory ([`SieveProgram::MEMORY`]).
    pub memory: u32,
}

impl SieveProgram {
    /// Number of the map with one value of [`scratch`](SieveProgram::scratch) bytes for each CPU
    /// (`PERCPU_ARRAY`).
    pub const SCRATCH: i32 = 1;
    /// Number of the map with the table, by number of the worker (`ARRAY`).
    pub const TABLE: i32 = 2;
    /// Number of the map with [`GENERATIONS`](SieveProgram::GENERATIONS) of memory for each worker (`ARRAY`),
    /// as bits. In the first two the program remembers what it dropped: it looks into both and writes into
    /// the young one, and the worker clears the old one from time to time, which is the young one from then
    /// on. In the other two stands what the machine knows, which the worker writes and clears.
    pub const MEMORY: i32 = 3;
    /// Generations of memory that a worker has.
    pub const GENERATIONS: usize = 4;
    /// The first of what the machine knows.
    pub const KNOWN: usize = 2;
    /// Where in an entry it stands until when it is good: nanoseconds of the monotonic clock, 64 bits.
    pub const UNTIL: usize = 0;
    /// It is good for no longer than this: what says so is from another clock, and nothing is dropped by it.
    pub const LONGEST: Duration = Duration::from_secs(1);
    /// Where it stands how many datagrams were dropped by it: 64 bits.
    pub const DROPPED: usize = 8;
    /// Where it stands which generation of what was dropped is the young one, 0 or 1: 64 bits.
    pub const YOUNG: usize = 16;
    /// Where the numbers begin.
    pub const WORDS: usize = 64;

    /// Length of an entry, bytes: a whole number of cache lines.
    pub const fn entry(&self) -> usize {
        (SieveProgram::WORDS + 4 * self.words as usize).next_multiple_of(64)
    }
}
