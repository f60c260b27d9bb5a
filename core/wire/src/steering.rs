//! What the kernel is told of ownership.

/// A program that runs in the kernel for each datagram to a port that several workers share, and chooses
/// the worker whose socket gets it: eBPF of type `SK_REUSEPORT`, as numbers in the layout of
/// `struct bpf_insn` (`include/uapi/linux/bpf.h`) on a little-endian machine.
///
/// Where it chooses nobody, the kernel deals the datagram out by the addresses and ports in it. Either
/// way is right, because the worker that gets a message of another one hands it over; so the program
/// only has to agree with [`Machine::owner`](crate::Machine::owner) where it decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SteeringProgram {
    /// The instructions. Loads of a map name it by its number here; whoever loads the program puts the
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
