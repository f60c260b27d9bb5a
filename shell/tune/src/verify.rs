//! Compares the machine with the journal.

use crate::journal::Entry;
use crate::latest::{Latest, latest};
use crate::machine::Machine;
use std::collections::BTreeMap;
use tune_rules::{OWN_SYSCTL_FILE, Reading, SysctlLine, lines_for, same_value, shown, sysctl_lines};

/// What has become of one setting or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    name: String,
    wanted: String,
    now: Option<String>,
    kept: bool,
    by: Option<String>,
}

impl Verified {
    /// The setting or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was written.
    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    /// What is there now; `None`: nothing.
    pub fn now(&self) -> Option<&str> {
        self.now.as_deref()
    }

    /// Whether it is still as applied, and will be after the next boot.
    pub fn kept(&self) -> bool {
        self.kept
    }

    /// Who undid it or will, as far as can be known.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }
}

/// Compares every setting and file of the journal with the machine.
pub fn verify(machine: &Machine, entries: &[Entry]) -> Vec<Verified> {
    let mut files = BTreeMap::new();
    for entry in entries {
        if let Entry::File { path, new, .. } = entry {
            files.insert(path.as_str(), new.as_str());
        }
    }
    let lines = sysctl_lines(&machine.snapshot());
    let mut results: Vec<Verified> =
        latest(entries).iter().map(|(path, last)| value(machine, path, last, &lines)).collect();
    for (path, text) in files {
        let now = match machine.read(path) {
            Reading::Text(now) => Some(now),
            Reading::Absent | Reading::Denied(_) => None,
        };
        let kept = now.as_deref() == Some(text);
        results.push(Verified {
            name: path.to_owned(),
            wanted: "as applied".to_owned(),
            now: now.map(|_| if kept { "as applied" } else { "something else" }.to_owned()),
            kept,
            by: None,
        });
    }
    results
}

fn value(machine: &Machine, path: &str, last: &Latest<'_>, lines: &[SysctlLine]) -> Verified {
    let name = shown(path);
    let now = match machine.read(path) {
        Reading::Text(text) => Some(text.trim().to_owned()),
        Reading::Absent | Reading::Denied(_) => None,
    };
    let kept = now.as_deref().is_some_and(|now| same_value(now, last.text()));
    // The line that counts at the next boot.
    let rival = lines_for(lines, &name).last().filter(|line| line.file() != OWN_SYSCTL_FILE);
    let rival = rival.filter(|line| !same_value(line.value(), last.text()));
    let by = match (&now, rival) {
        (Some(_), Some(line)) if kept && !last.until_reboot => {
            Some(format!("{} will set {} at the next boot", line.place(), line.value()))
        }
        _ if kept => None,
        (Some(now), Some(line)) if same_value(now, line.value()) => {
            Some(format!("{} sets this", line.place()))
        }
        (None, _) => Some("it no longer exists".to_owned()),
        _ => culprit(machine, path, last),
    };
    Verified { name, wanted: last.text().trim().to_owned(), now, kept: by.is_none() && kept, by }
}

/// Who is known to change such values.
fn culprit(machine: &Machine, path: &str, last: &Latest<'_>) -> Option<String> {
    if machine.boot() != last.boot {
        return Some(match last.until_reboot {
            true => "the machine started anew, and --until-reboot said so".to_owned(),
            false => "the machine started anew".to_owned(),
        });
    }
    if path.starts_with("/proc/irq/")
        && let Some(pid) = machine.process("irqbalance")
    {
        return Some(format!("irqbalance runs (process {pid}) and moves interrupts"));
    }
    let pid = machine.process("tuned")?;
    let profile = match machine.read("/etc/tuned/active_profile") {
        Reading::Text(text) => text.trim().to_owned(),
        Reading::Absent | Reading::Denied(_) => "unknown".to_owned(),
    };
    Some(format!("tuned runs (process {pid}) with the profile {profile}"))
}
