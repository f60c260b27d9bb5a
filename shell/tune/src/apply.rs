//! Makes changes, with a journal of what was there.

use crate::journal::{Entry, Journal, JournalError};
use crate::machine::Machine;
use crate::own_files::{self, OwnFile};
use crate::plan::Plan;
use std::time::{SystemTime, UNIX_EPOCH};
use tune_rules::{Change, Reading, same_value};

/// What came of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is made.
    Done,
    /// It is made, and the kernel rounded the value to this one.
    Rounded(String),
    /// It cannot be made from here: why.
    Obstacle(String),
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

    /// Whether it was made.
    pub fn made(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Rounded(_))
    }
}

/// Makes the changes. Every old value is on the disk before the first one is changed. With `until_reboot` no
/// file is written that would set them at boot.
///
/// # Errors
/// The journal cannot be written; nothing was changed then.
pub fn apply(
    machine: &Machine,
    plans: &[Plan<'_>],
    journal: &mut Journal,
    until_reboot: bool,
) -> Result<Vec<Applied>, JournalError> {
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
    let files = match until_reboot {
        true => Vec::new(),
        false => own_files::wanted(machine, possible.iter().map(|(plan, _)| plan.change())),
    };
    let folders: Vec<String> = files.iter().flat_map(|file| missing_folders(machine, file.path())).collect();
    journal.append(entries(machine, &possible, &files, &folders, until_reboot))?;
    for (plan, old) in possible {
        if let Change::Value { path, value, .. } = plan.change() {
            let (outcome, seen) = set(machine, path, value);
            if let Some(text) = seen {
                journal.append(vec![Entry::Seen { path: path.clone(), text }])?;
            }
            results.push(result(plan, Some(old), outcome));
        }
    }
    results.extend(write_files(machine, &files, &folders));
    Ok(results)
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

/// The entries of the journal for what is about to be done.
fn entries(
    machine: &Machine,
    plans: &[(&Plan<'_>, String)],
    files: &[OwnFile],
    folders: &[String],
    until_reboot: bool,
) -> Vec<Entry> {
    let (boot, at) = (machine.boot(), now());
    let mut entries = Vec::new();
    for (plan, old) in plans {
        let Change::Value { path, value, .. } = plan.change() else { continue };
        entries.push(Entry::Value {
            item: plan.item().to_owned(),
            path: path.clone(),
            old: old.clone(),
            new: value.clone(),
            until_reboot,
            boot: boot.clone(),
            at,
        });
    }
    entries.extend(folders.iter().map(|path| Entry::Folder { path: path.clone() }));
    entries.extend(files.iter().map(|file| Entry::File {
        path: file.path().to_owned(),
        old: file.old().cloned(),
        new: file.new_text().to_owned(),
    }));
    entries
}

/// Writes a value and reads it back: what came of it, and what the kernel shows if that is something else.
fn set(machine: &Machine, path: &str, value: &str) -> (Outcome, Option<String>) {
    if let Err(error) = machine.write(path, &format!("{value}\n")) {
        return (Outcome::Failed(error.to_string()), None);
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
