//! Undoes what the journal has.

use crate::journal::{Entry, Journal, JournalError};
use crate::machine::Machine;
use std::collections::{BTreeMap, BTreeSet};
use tune_rules::{Reading, same_value, shown};

/// What came of undoing one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The old value is back.
    Restored {
        /// The setting or file.
        name: String,
        /// What is there again.
        old: String,
    },
    /// The old value was there already.
    WasBack {
        /// The setting or file.
        name: String,
    },
    /// Another value is there than we wrote: it stays.
    LeftAlone {
        /// The setting or file.
        name: String,
        /// What it was before we changed it.
        old: String,
        /// What we wrote.
        ours: String,
        /// What is there now.
        now: String,
        /// Whether the machine started anew since we wrote it.
        restarted: bool,
    },
    /// It no longer exists, or ended with the boot.
    Gone {
        /// The setting or file.
        name: String,
    },
    /// It could not be undone; the journal stays.
    Failed {
        /// The setting or file.
        name: String,
        /// Why.
        why: String,
    },
}

/// Undoes all entries, the newest first, and removes the journal if nothing failed.
///
/// # Errors
/// The journal cannot be removed.
pub fn undo(machine: &Machine, journal: Journal) -> Result<Vec<Undone>, JournalError> {
    let boot = machine.boot();
    let mut results = Vec::new();
    // What the kernel made of the value; it follows its entry, so it comes first here.
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut not_made = BTreeSet::new();
    for entry in journal.entries().iter().rev() {
        match entry {
            Entry::Seen { path, text } => {
                seen.insert(path, text);
            }
            Entry::NotMade { path } => {
                not_made.insert(path.as_str());
            }
            Entry::Value { path, new, .. } if not_made.remove(path.as_str()) && !has(machine, path, new) => {}
            Entry::Restored { .. } => {}
            Entry::Value { path, old, new, boot: then, .. } => {
                let ours = seen.remove(path.as_str()).unwrap_or(new);
                results.push(value(machine, path, old, ours, boot != *then));
            }
            Entry::File { path, old, new } => results.push(file(machine, path, old.as_deref(), new)),
            Entry::Folder { path } => {
                if let Err(error) = machine.remove_folder(path) {
                    results.push(Undone::Failed { name: path.clone(), why: error.to_string() });
                }
            }
        }
    }
    if !results.iter().any(|result| matches!(result, Undone::Failed { .. })) {
        journal.remove()?;
    }
    Ok(results)
}

/// Whether a place has a value.
fn has(machine: &Machine, path: &str, value: &str) -> bool {
    matches!(machine.read(path), Reading::Text(now) if same_value(&now, value))
}

fn value(machine: &Machine, path: &str, old: &str, ours: &str, restarted: bool) -> Undone {
    let name = shown(path);
    if restarted && path.starts_with("/proc/irq/") {
        // The number may be that of another device now.
        return Undone::Gone { name };
    }
    let now = match machine.read(path) {
        Reading::Text(text) => text,
        Reading::Absent => return Undone::Gone { name },
        Reading::Denied(why) => return Undone::Failed { name, why },
    };
    let short = |text: &str| text.trim().to_owned();
    if same_value(&now, old) {
        // The kernel writes values in one form; another program may have written the same one otherwise.
        return Undone::WasBack { name };
    }
    if !same_value(&now, ours) {
        return Undone::LeftAlone { name, old: short(old), ours: short(ours), now: short(&now), restarted };
    }
    match machine.write(path, old) {
        Ok(()) => Undone::Restored { name, old: short(old) },
        Err(error) => Undone::Failed { name, why: error.to_string() },
    }
}

fn file(machine: &Machine, path: &str, old: Option<&str>, ours: &str) -> Undone {
    let name = path.to_owned();
    machine.remove_draft(path);
    let now = match machine.read(path) {
        Reading::Text(text) => Some(text),
        Reading::Absent => None,
        Reading::Denied(why) => return Undone::Failed { name, why },
    };
    if now.as_deref() == old {
        return Undone::WasBack { name };
    }
    match now {
        Some(text) if text == ours => {
            let done = match old {
                Some(old) => machine.put(path, old),
                None => machine.remove(path),
            };
            let back = if old.is_some() { "its earlier content" } else { "no such file" };
            match done {
                Ok(()) => Undone::Restored { name, old: back.to_owned() },
                Err(error) => Undone::Failed { name, why: error.to_string() },
            }
        }
        Some(_) => Undone::LeftAlone {
            name,
            old: old.map_or_else(|| "no such file".to_owned(), |_| "an earlier one".to_owned()),
            ours: "what `strowger tune apply` wrote".to_owned(),
            now: "something else".to_owned(),
            restarted: false,
        },
        None => Undone::Gone { name },
    }
}
