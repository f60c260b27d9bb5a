//! Writes values once more that no file sets at boot.

use crate::apply::{Applied, again, entry_for};
use crate::journal::{Entry, Journal, JournalError};
use crate::machine::Machine;
use std::collections::BTreeMap;
use tune_rules::{Reading, same_value};

/// What the journal says of one place.
struct Wanted {
    item: String,
    old: String,
    new: String,
    seen: Option<String>,
}

/// Writes the values of cards and of `/sys` again that were applied to last, after a boot has lost them. What
/// has them still is not touched.
///
/// # Errors
/// The journal cannot be written; nothing is changed then.
pub fn restore(machine: &Machine, journal: &mut Journal) -> Result<Vec<Applied>, JournalError> {
    let mut places: BTreeMap<String, Wanted> = BTreeMap::new();
    for entry in journal.entries() {
        match entry {
            Entry::Value { item, path, old, new, until_reboot, .. } => {
                places.remove(path);
                if !until_reboot && lost_at_boot(path) {
                    let (item, old, new) = (item.clone(), old.clone(), new.clone());
                    places.insert(path.clone(), Wanted { item, old, new, seen: None });
                }
            }
            Entry::Seen { path, text } => {
                if let Some(wanted) = places.get_mut(path) {
                    wanted.seen = Some(text.clone());
                }
            }
            Entry::File { .. } | Entry::Folder { .. } => {}
        }
    }
    let mut lost = Vec::new();
    for (path, wanted) in places {
        // A card that is gone, or a queue of it.
        let Reading::Text(now) = machine.read(&path) else { continue };
        if !same_value(&now, wanted.seen.as_deref().unwrap_or(&wanted.new)) {
            lost.push((path, wanted, now));
        }
    }
    // A boot may bring another value than the one before: then that one is what `undo` goes back to first.
    let other = |(_, wanted, now): &&(String, Wanted, String)| !same_value(now, &wanted.old);
    let entries: Vec<Entry> = lost
        .iter()
        .filter(other)
        .map(|(path, wanted, now)| entry_for(machine, &wanted.item, path, (now, &wanted.new), false))
        .collect();
    if !entries.is_empty() {
        journal.append(entries)?;
    }
    let write =
        |(path, wanted, now): &(String, Wanted, String)| again(machine, &wanted.item, path, now, &wanted.new);
    Ok(lost.iter().map(write).collect())
}

/// Whether no file sets a value at boot in time. Most settings of the kernel have one, but those of netfilter
/// exist only when its module is there, which may be later. Interrupts have other numbers after a boot.
pub(crate) fn lost_at_boot(path: &str) -> bool {
    !path.starts_with("/proc/") || path.starts_with("/proc/sys/net/netfilter/")
}
