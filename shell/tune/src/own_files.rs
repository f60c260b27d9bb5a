//! The files that make settings last: one for the kernel's settings, one for the unit of the server.

use crate::machine::Machine;
use crate::restore::lost_at_boot;
use std::collections::BTreeMap;
use tune_rules::{Change, OWN_SYSCTL_FILE, OWN_UNIT_FILE, Reading, name_of};

const HEAD: &str = "# Written by `strowger tune apply`. `strowger tune undo` removes it.\n";

/// The units of the server that a drop-in can belong to.
const UNITS: [&str; 2] = ["/etc/systemd/system/strowger.service", "/usr/lib/systemd/system/strowger.service"];

/// What runs `restore`.
const RESTORE_KEY: &str = "ExecStartPre";

/// The files that the changes need, with what is in them now and what is to be in them. Where a value has no
/// file of its own, the unit of the server runs `restore` at its start, if there are both.
pub(crate) fn wanted(machine: &Machine, changes: &[&Change], restore: Option<&str>) -> Vec<OwnFile> {
    let (mut kernel, mut unit) = (BTreeMap::new(), BTreeMap::new());
    let has_unit = UNITS.iter().any(|path| matches!(machine.read(path), Reading::Text(_)));
    for change in changes {
        match change {
            Change::Value { path, value, .. } => {
                if let Some(name) = name_of(path) {
                    kernel.insert(name, value.clone());
                }
                if let Some(restore) = restore.filter(|_| has_unit && lost_at_boot(path)) {
                    // Its failure must not keep the server from starting, and it needs root.
                    unit.insert(RESTORE_KEY.to_owned(), format!("-+{restore}"));
                }
            }
            Change::UnitLine { key, value } => {
                unit.insert((*key).to_owned(), value.clone());
            }
        }
    }
    let kernel = OwnFile::new(machine, OWN_SYSCTL_FILE, HEAD, " = ", kernel);
    let unit = OwnFile::new(machine, OWN_UNIT_FILE, &format!("{HEAD}[Service]\n"), "=", unit);
    [kernel, unit].into_iter().flatten().collect()
}

/// A file of ours.
pub(crate) struct OwnFile {
    path: &'static str,
    old: Option<String>,
    new: String,
}

impl OwnFile {
    /// The file with these lines set; what it has already stays. `None` if nothing changes.
    fn new(
        machine: &Machine,
        path: &'static str,
        head: &str,
        sign: &str,
        mut lines: BTreeMap<String, String>,
    ) -> Option<OwnFile> {
        if lines.is_empty() {
            return None;
        }
        let old = match machine.read(path) {
            Reading::Text(text) => Some(text),
            Reading::Absent | Reading::Denied(_) => None,
        };
        let present = old.as_deref().unwrap_or_default().lines();
        for (name, value) in
            present.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='))
        {
            lines.entry(name.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
        }
        let mut new = head.to_owned();
        for (name, value) in lines {
            new.push_str(&format!("{name}{sign}{value}\n"));
        }
        (old.as_deref() != Some(&new)).then_some(OwnFile { path, old, new })
    }

    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    pub(crate) fn old(&self) -> Option<&String> {
        self.old.as_ref()
    }

    pub(crate) fn new_text(&self) -> &str {
        &self.new
    }
}
