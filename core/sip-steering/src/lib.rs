//! Who owns a message, as two functions that never disagree: one that a worker calls, and one that the
//! kernel runs before a datagram reaches a socket.
//!
//! The owner is a keyed hash of the Call-ID, which every message of a call carries (RFC 3261 section
//! 8.1.1.4), so request, response, ACK, CANCEL and BYE meet at one worker. [`Ownership::owner`] says it for
//! any bytes. [`Ownership::program`] is the same as a program in the kernel's own machine language (eBPF,
//! RFC 9669), assembled here when the server starts: nobody needs a compiler for it. The program either
//! gives the same answer or none, and gives none where the Call-ID is further inside than it looks
//! ([`REACH`]), is longer than it reads ([`LONGEST`]), or the head is made to tire it.
//!
//! | file | what |
//! |---|---|
//! | `hash.rs` | the hash, in user space, and what it has in common with the programs |
//! | `asm.rs` | the assembler |
//! | `program.rs` | the program, by means of the assembler |
//! | `sieve.rs` | another one, which drops what an overloaded worker would leave unanswered |
//! | `table.rs` | what it goes by |
//! | `memory.rs` | where calls are in what it remembers |
//! | `emulate.rs` | an interpreter for it, so that tests need no privilege |
#![forbid(unsafe_code)]

mod asm;
pub mod emulate;
mod hash;
mod memory;
mod program;
mod sieve;
#[cfg(test)]
mod sieve_tests;
mod table;
#[cfg(test)]
mod tests;

pub use hash::{LONGEST, Ownership};
pub use kernel_programs::{SieveProgram, SteeringProgram};
pub use memory::memory_bits;
pub use program::REACH;
pub use sieve::SIEVE_STEPS;
pub use table::{BUCKETS, ROWS, Table, Threshold, part, place};
