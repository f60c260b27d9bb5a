//! Writes values once more that no file sets at boot.

use crate::apply::{Applied, again, entry_for};
use crate::journal::{Entry, Journal, JournalError};
use crate::latest::latest;
use crate::machine::Machine;
use tune_rules::{Reading, same_value};

/// Writes the values of cards and of `/sys` again that were applied to last and that a boot has lost, once
/// for each boot. What was changed since then, or within the boot of `apply`, is not touched.
///
/// # Errors
/// The journal cannot be written. A value whose entry is missing is not changed.
pub fn restore(machine: &Machine, journal: &mut Journal) -> Result<Vec<Applied>, JournalError> {
    let boot = machine.boot();
    let (mut lost, mut entries, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for (path, last) in latest(journal.entries()) {
        let this_boot = boot.is_empty() || last.boot == boot;
        if last.until_reboot || !lost_at_boot(path) || this_boot {
            continue;
        }
        // A card that is gone, or a queue of it, or a module that comes later.
        let Reading::Text(now) = machine.read(path) else { continue };
        let path = path.to_owned();
        after.push(Entry::Restored { path: path.clone(), boot: boot.clone() });
        if same_value(&now, last.text()) {
            continue;
        }
        // A boot may bring another value than the one before. Then `undo` goes back to that one first.
        let other = !same_value(&now, last.old);
        if other {
            entries.push(entry_for(machine, last.item, &path, (&now, last.new), false));
        }
        lost.push((path, last.item.to_owned(), last.new.to_owned(), now, other));
    }
    if !entries.is_empty() {
        journal.append(entries)?;
    }
    let mut results = Vec::new();
    for (path, item, new, now, other) in lost {
        let result = again(machine, &item, &path, &now, &new);
        if other && !result.made() {
            after.insert(0, Entry::NotMade { path });
        }
        results.push(result);
    }
    if !after.is_empty() {
        journal.append(after)?;
    }
    Ok(results)
}

/// Whether no file sets a value at boot in time. Most settings of the kernel have one, but those of netfilter
/// exist only when its module is there, which may be later. Interrupts have other numbers after a boot.
pub(crate) fn lost_at_boot(path: &str) -> bool {
    !path.starts_with("/proc/") || path.starts_with("/proc/sys/net/netfilter/")
}
