//! Makes changes, with a journal of what was there.

use crate::journal::{Entry, Journal, JournalError};
use crate::machine::Machine;
use crate::own_files::{self, OwnFile};
use crate::plan::Plan;
use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};
use tune_rules::{Change, Reading, same_value, shown};

/// What came of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is made.
    Done,
    /// It is made, and the kernel rounded the value to this one.
    Rounded(String),
    /// It cannot be made from here: why.
    Obstacle(String),
    /// The card does not support it.
    Unsupported,
    /// It failed: why.
    Failed(String),
}

/// One change and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    item: String,
    name: String,
    old: Option<String>,
    new: String,
    outcome: Outcome,
}

impl Applied {
    /// The item that wanted it.
    pub fn item(&self) -> &str {
        &self.item
    }

    /// The setting or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was there.
    pub fn old(&self) -> Option<&str> {
        self.old.as_deref()
    }

    /// What was to be there.
    pub fn new_value(&self) -> &str {
        &self.new
    }

    /// What came of it.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Whether nothing went wrong: it was made, or the card does not support it.
    pub fn good(&self) -> bool {
        self.made() || self.outcome == Outcome::Unsupported
    }

    /// Whether it was made.
    pub fn made(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Rounded(_))
    }
}

/// How long changes last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// Until the next boot: no file is written.
    UntilReboot,
    /// Files set them at boot. Where no file can, the unit of the server does by this command at its start.
    Always {
        /// The command, with which [`crate::restore`] is called; `None` if root must not run a program.
        restore: Option<String>,
    },
}

/// Makes the changes. Every old value is on the disk before it is changed.
///
/// # Errors
/// The journal cannot be written; nothing more was changed then.
pub fn apply(
    machine: &Machine,
    plans: &[Plan<'_>],
    journal: &mut Journal,
    lasting: &Lasting,
) -> Result<Vec<Applied>, JournalError> {
    let until_reboot = *lasting == Lasting::UntilReboot;
    let mut results = Vec::new();
    let mut possible: Vec<(&Plan<'_>, String)> = Vec::new();
    for plan in plans {
        match old_value(machine, plan) {
            _ if until_reboot && matches!(plan.change(), Change::UnitLine { .. }) => {
                let why = "it is set by a file only, and none is written";
                results.push(result(plan, None, Outcome::Obstacle(why.to_owned())));
            }
            Ok(old) => possible.push((plan, old)),
            Err(outcome) => results.push(result(plan, None, outcome)),
        }
    }
    journal.append(values(machine, &possible, until_reboot))?;
    let mut made = Vec::new();
    for (plan, old) in possible {
        let outcome = match plan.change() {
            Change::Value { path, value, .. } => {
                let (outcome, seen) = set(machine, path, value);
                if let Some(text) = seen {
                    journal.append(vec![Entry::Seen { path: path.clone(), text }])?;
                }
                if !matches!(outcome, Outcome::Done | Outcome::Rounded(_)) {
                    journal.append(vec![Entry::NotMade { path: path.clone() }])?;
                }
                outcome
            }
            // The file below has it.
            Change::UnitLine { .. } => Outcome::Done,
        };
        if matches!(outcome, Outcome::Done | Outcome::Rounded(_)) {
            made.push(plan.change());
        }
        if matches!(plan.change(), Change::Value { .. }) {
            results.push(result(plan, Some(old), outcome));
        }
    }
    if let Lasting::Always { restore } = lasting {
        results.extend(make_last(machine, &made, journal, restore.as_deref())?);
    }
    Ok(results)
}

/// Writes the files that set at boot what was changed.
fn make_last(
    machine: &Machine,
    made: &[&Change],
    journal: &mut Journal,
    restore: Option<&str>,
) -> Result<Vec<Applied>, JournalError> {
    let files = own_files::wanted(machine, made, restore);
    let folders: Vec<String> = files.iter().flat_map(|file| missing_folders(machine, file.path())).collect();
    let file_entry = |file: &OwnFile| Entry::File {
        path: file.path().to_owned(),
        old: file.old().cloned(),
        new: file.new_text().to_owned(),
    };
    let folder_entries = folders.iter().map(|path| Entry::Folder { path: path.clone() });
    journal.append(folder_entries.chain(files.iter().map(file_entry)).collect())?;
    Ok(write_files(machine, &files, &folders))
}

/// Writes a value again, for [`crate::restore`].
pub(crate) fn again(machine: &Machine, item: &str, path: &str, now: &str, value: &str) -> Applied {
    Applied {
        item: item.to_owned(),
        name: shown(path),
        old: Some(now.trim().to_owned()),
        new: value.to_owned(),
        outcome: set(machine, path, value).0,
    }
}

/// What came of changes of which none can be made from here.
pub fn refused(plans: &[Plan<'_>]) -> Vec<Applied> {
    let why =
        |plan: &Plan<'_>| Outcome::Obstacle(plan.obstacle().unwrap_or("nothing could be changed").to_owned());
    plans.iter().map(|plan| result(plan, None, why(plan))).collect()
}

/// What is there now, or why it cannot be changed.
fn old_value(machine: &Machine, plan: &Plan<'_>) -> Result<String, Outcome> {
    if let Some(obstacle) = plan.obstacle() {
        return Err(Outcome::Obstacle(obstacle.to_owned()));
    }
    let Change::Value { path, .. } = plan.change() else { return Ok(String::new()) };
    match machine.read(path) {
        Reading::Text(text) => Ok(text),
        Reading::Absent => Err(Outcome::Obstacle("it is gone".to_owned())),
        Reading::Denied(why) => Err(Outcome::Failed(why)),
    }
}

fn result(plan: &Plan<'_>, old: Option<String>, outcome: Outcome) -> Applied {
    Applied {
        item: plan.item().to_owned(),
        name: plan.change().name(),
        old: old.map(|old| old.trim().to_owned()),
        new: plan.change().value().to_owned(),
        outcome,
    }
}

/// The entries of the journal for values that are about to be changed.
fn values(machine: &Machine, plans: &[(&Plan<'_>, String)], until_reboot: bool) -> Vec<Entry> {
    let entry = |(plan, old): &(&Plan<'_>, String)| match plan.change() {
        Change::Value { path, value, .. } => {
            Some(entry_for(machine, plan.item(), path, (old, value), until_reboot))
        }
        Change::UnitLine { .. } => None,
    };
    plans.iter().filter_map(entry).collect()
}

/// The entry for a value that is about to be changed from one to another.
pub(crate) fn entry_for(
    machine: &Machine,
    item: &str,
    path: &str,
    (old, new): (&str, &str),
    until_reboot: bool,
) -> Entry {
    Entry::Value {
        item: item.to_owned(),
        path: path.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
        until_reboot,
        boot: machine.boot(),
        at: now(),
    }
}

/// Writes a value and reads it back: what came of it, and what the kernel shows if that is something else.
fn set(machine: &Machine, path: &str, value: &str) -> (Outcome, Option<String>) {
    if let Err(error) = machine.write(path, &format!("{value}\n")) {
        // A card refuses with either error what its driver does not have.
        let refused = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput);
        let outcome = match refused && path.starts_with("/ethtool/") {
            true => Outcome::Unsupported,
            false => Outcome::Failed(error.to_string()),
        };
        return (outcome, None);
    }
    match machine.read(path) {
        Reading::Text(text) if same_value(&text, value) => (Outcome::Done, None),
        Reading::Text(text) => (Outcome::Rounded(text.trim().to_owned()), Some(text)),
        Reading::Absent | Reading::Denied(_) => (Outcome::Done, None),
    }
}

/// The folders of a file that do not exist, the outermost first.
fn missing_folders(machine: &Machine, path: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let mut rest = path;
    while let Some((folder, _)) = rest.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
        if machine.has_folder(folder) {
            break;
        }
        missing.insert(0, folder.to_owned());
        rest = folder;
    }
    missing
}

fn write_files(machine: &Machine, files: &[OwnFile], folders: &[String]) -> Vec<Applied> {
    let made = folders.iter().try_for_each(|folder| machine.make_folder(folder));
    let mut results = Vec::new();
    for file in files {
        let done = match &made {
            Ok(()) => machine.put(file.path(), file.new_text()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        results.push(Applied {
            item: "files".to_owned(),
            name: file.path().to_owned(),
            old: file.old().map(|_| "an earlier one of ours".to_owned()),
            new: "what sets these values at boot".to_owned(),
            outcome: done.map_or_else(Outcome::Failed, |()| Outcome::Done),
        });
    }
    results
}

#[allow(clippy::disallowed_methods, reason = "the journal says when")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
