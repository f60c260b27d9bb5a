//! Signals by system call: the program `kill` is not on every machine.

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal by its name, as `kill` knows it, to a child of this process.
///
/// # Panics
/// If it cannot be sent, or there is none of that name here.
pub fn signal(pid: u32, name: &str) {
    let signal = match name {
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "KILL" => Signal::KILL,
        "STOP" => Signal::STOP,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        other => panic!("add the signal {other} to {}", file!()),
    };
    let child = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the number of a process");
    kill_process(child, signal).unwrap_or_else(|error| panic!("cannot send {name} to {pid}: {error}"));
}
