//! Ends processes of a lab that was killed and could not end them itself.
//!
//! Every process of a run has a mark in its environment: which lab started it. At the start of the next
//! lab, processes of a lab that runs no longer are ended.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that is the mark.
const MARK: &str = "STROWGER_LAB";

/// Marks a program that is to be started as one of this lab.
pub fn mark(command: &mut Command) {
    if let Some(own) = Lab::own() {
        command.env(MARK, own.to_string());
    }
}

/// A lab: the process, and when it began. Numbers of processes are given again, and count within a PID
/// namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Lab {
    namespace: String,
    pid: u32,
    began: u64,
}

impl Lab {
    fn own() -> Option<Lab> {
        let namespace = namespace()?;
        let pid = std::process::id();
        Some(Lab { namespace, pid, began: began(pid)? })
    }

    /// What the mark says.
    fn read(mark: &str) -> Option<Lab> {
        let mut parts = mark.split('/');
        let (namespace, pid, began) = (parts.next()?.to_owned(), parts.next()?, parts.next()?);
        Some(Lab { namespace, pid: pid.parse().ok()?, began: began.parse().ok()? })
    }

    /// Whether it is known to have ended. Of another PID namespace nothing is known.
    fn has_ended(&self, here: &str) -> bool {
        self.namespace == here && began(self.pid) != Some(self.began)
    }
}

impl std::fmt::Display for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pid, self.began)
    }
}

/// The PID namespace, `pid:[4026531836]`.
fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/pid").ok()?.display().to_string())
}

/// When a process began, in ticks since the boot.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Ends what is left of labs that were killed; how many processes.
pub fn end() -> usize {
    let Some(here) = namespace() else { return 0 };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| end_if_left(*pid, &here)).count()
}

fn end_if_left(pid: i32, here: &str) -> bool {
    // The descriptor stays with the process that is asked, so its number cannot go to another one in
    // between.
    let Some(process) = Pid::from_raw(pid) else { return false };
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut marks = environment.split(|byte| *byte == 0).filter_map(|variable| {
        let text = std::str::from_utf8(variable).ok()?;
        text.strip_prefix(MARK)?.strip_prefix('=').and_then(Lab::read)
    });
    let is_left = marks.next_back().is_some_and(|lab| lab.has_ended(here));
    is_left && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn mark_reads_back_as_it_was_written() {
        let own = Lab::own().expect("of this process");
        assert_eq!(Lab::read(&own.to_string()), Some(own.clone()));
        assert!(!own.has_ended(&own.namespace));
        assert_eq!(Lab::read("1/2"), None);
    }

    #[test]
    fn lab_of_another_namespace_or_of_a_reused_number_is_told_apart() {
        let own = Lab::own().expect("of this process");
        let reused = Lab { began: own.began + 1, ..own.clone() };
        assert!(reused.has_ended(&own.namespace));
        assert!(!Lab { namespace: "pid:[1]".to_owned(), ..reused }.has_ended(&own.namespace));
    }

    #[test]
    fn process_of_a_lab_that_ended_is_killed_and_others_stay() {
        let own = Lab::own().expect("of this process");
        let gone = Lab { began: own.began + 1, ..own.clone() };
        let sleeping = |mark: &Lab| {
            Command::new("sleep").arg("64").env(MARK, mark.to_string()).spawn().expect("sleep starts")
        };
        let (mut left, mut ours) = (sleeping(&gone), sleeping(&own));
        let until = Instant::now() + Duration::from_secs(20);
        // Until it has its own environment it has that of this process.
        let ended = loop {
            end();
            match left.try_wait().expect("a child") {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                ended => break ended,
            }
        };
        assert!(ended.is_some_and(|status| !status.success()));
        assert!(ours.try_wait().expect("a child").is_none(), "that of a running lab was killed");
        ours.kill().expect("a child");
        let _ = ours.wait();
    }
}
