//! The system calls, each behind a safe function. Everything unsafe in this crate is below here.

mod addr;
mod allocator;
mod association;
mod batch;
mod bpf;
mod errors;
mod mapping;
mod pinned;
mod poll;
mod sctp;
mod send;
mod socket;
mod thread;

pub use addr::RawAddr;
pub use allocator::give_back;
pub use association::{Arrival, Association, finish_peeled, recv_arrival};
pub use batch::RecvBatch;
pub use bpf::{
    Use, attach_filter, attach_reuseport_program, detach_filter, detach_reuseport_program, load_program,
    scratch_map, socket_map, table_map,
};
pub use errors::take_returned;
pub use mapping::Mapping;
pub use poll::{Event, Interest, Poller, Timer, WakeUp};
pub use sctp::{
    Record, SctpOptions, recv_record, sctp_connect, sctp_listen, sctp_probe, sctp_shared_buffers,
    stop_listening,
};
pub use send::SendBatch;
pub use socket::{
    SocketOptions, Traffic, accept, ask_for_stamps, ask_to_join, is_at_end, null_descriptor, receive_buffer,
    received, recv, recv_from, reset_on_close, send, send_in_fragments, send_to, set_receive_buffer,
    shutdown_write, take_error, tcp_connect, tcp_listen, tcp_probe, traffic, udp_bind, udp_connect,
    udp_probe,
};
pub use thread::{
    RUN_FIRST, TURN, allowed_cpus, monotonic_micros, pin_to_cpu, raise_descriptor_limit, run_first, sleep,
    sleep_exactly, small_pages, take_short_turns, wall_micros,
};

use std::io;

/// The result of a call that says -1 and sets `errno` when it fails.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`check`], for calls that answer with a length.
fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// As [`check`], for calls by number.
fn check_long(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The `errno` of an error, zero if it has none.
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Whether the same call may succeed later.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
