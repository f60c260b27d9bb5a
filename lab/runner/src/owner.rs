//! Which lab something is of: the mark in the environment of its processes, and the names of what no process
//! keeps, such as control groups.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that is the mark.
pub const MARK: &str = "STROWGER_LAB";
/// How the names of things begin that outlive a process.
const PREFIX: &str = "strowger-lab-";

/// A name for something of this lab that no process keeps: another one each time.
///
/// # Errors
/// If /proc is not there.
pub fn name(what: &str) -> Result<String, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = Lab::own().ok_or("/proc does not tell of this process: is it mounted?")?;
    Ok(own.name(NEXT.fetch_add(1, Ordering::Relaxed), what))
}

/// Marks a program that is to be started as one of this lab.
pub fn mark(command: &mut Command) {
    if let Some(own) = Lab::own() {
        command.env(MARK, own.to_string());
    }
}

/// A lab: the process, and when it began. Numbers of processes are given again, and count within a PID
/// namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lab {
    /// Of processes, `pid:[4026531836]`.
    pub namespace: String,
    pub pid: u32,
    /// Ticks since the boot.
    pub began: u64,
}

impl Lab {
    /// This one.
    pub fn own() -> Option<Lab> {
        let namespace = namespace()?;
        let pid = std::process::id();
        Some(Lab { namespace, pid, began: began(pid)? })
    }

    /// What the mark says.
    pub fn read(mark: &str) -> Option<Lab> {
        let mut parts = mark.split('/');
        let (namespace, pid, began) = (parts.next()?.to_owned(), parts.next()?, parts.next()?);
        Some(Lab { namespace, pid: pid.parse().ok()?, began: began.parse().ok()? })
    }

    /// A name that says of which lab it is: `strowger-lab-4026531836-1234-567890-0-data`.
    pub fn name(&self, number: u32, what: &str) -> String {
        let Lab { pid, began, .. } = self;
        format!("{PREFIX}{}-{pid}-{began}-{number}-{what}", self.number())
    }

    /// The number of the PID namespace.
    fn number(&self) -> &str {
        self.namespace.trim_start_matches("pid:[").trim_end_matches(']')
    }

    /// The lab of such a name, and what it is of.
    pub fn of_name(name: &str) -> Option<(Lab, &str)> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(5, '-');
        let namespace = format!("pid:[{}]", parts.next()?.parse::<u64>().ok()?);
        let (pid, began) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let _number: u32 = parts.next()?.parse().ok()?;
        Some((Lab { namespace, pid, began }, parts.next()?))
    }

    /// Whether it is known to have ended. Of another PID namespace nothing is known.
    pub fn has_ended(&self, here: &str) -> bool {
        self.namespace == here && began(self.pid) != Some(self.began)
    }
}

impl std::fmt::Display for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pid, self.began)
    }
}

/// The PID namespace, `pid:[4026531836]`.
pub fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/pid").ok()?.display().to_string())
}

/// When a process began, in ticks since the boot.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_reads_back_as_it_was_written() {
        let own = Lab::own().expect("of this process");
        assert_eq!(Lab::read(&own.to_string()), Some(own.clone()));
        assert!(!own.has_ended(&own.namespace));
        assert_eq!(Lab::read("1/2"), None);
    }

    #[test]
    fn name_says_of_which_lab_it_is() {
        let own = Lab::own().expect("of this process");
        let name = own.name(7, "wall-127.16.0.1");
        assert!(name.contains(&format!("-{}-{}-7-", own.pid, own.began)), "{name}");
        assert_eq!(Lab::of_name(&name), Some((own, "wall-127.16.0.1")));
        for other in ["strowger-lab-1-2", "strowger-lab-0123456789abcdef", "strowger-lab-a-1-2-3-x", "x"] {
            assert_eq!(Lab::of_name(other), None, "{other}");
        }
        assert_ne!(super::name("a"), super::name("a"));
    }

    #[test]
    fn lab_of_another_namespace_or_of_a_reused_number_is_told_apart() {
        let own = Lab::own().expect("of this process");
        let reused = Lab { began: own.began + 1, ..own.clone() };
        assert!(reused.has_ended(&own.namespace));
        assert!(!Lab { namespace: "pid:[1]".to_owned(), ..reused }.has_ended(&own.namespace));
    }
}
