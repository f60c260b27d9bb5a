//! What the kernel counts for experiments: [`ThreadCounters`] of the processor (perf_event_open(2)), packets
//! between two hosts ([`PacketCounter`]) and packets themselves ([`Capture`], [`pcap`]). All of it needs
//! rights or a kernel that may be missing: then the errors say so, and an experiment goes on without.
#![allow(clippy::disallowed_methods, reason = "captures end at a time of the clock")]

mod bpf;
mod counters;
mod filter;
mod packets;
pub mod pcap;

pub use counters::{Event, ThreadCounters};
pub use packets::{Capture, PacketCounter, Protocol};

use std::io;

/// The value of a system call that returns -1 and sets errno if it fails.
fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
