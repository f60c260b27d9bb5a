//! What the journal says last of each value.

use crate::journal::Entry;
use std::collections::BTreeMap;

/// What was made last at one place.
#[derive(Clone)]
pub(crate) struct Latest<'a> {
    pub(crate) item: &'a str,
    pub(crate) old: &'a str,
    /// What was written.
    pub(crate) new: &'a str,
    /// What the kernel made of it, where that is something else.
    pub(crate) seen: Option<&'a str>,
    pub(crate) until_reboot: bool,
    /// The boot in which it was written last.
    pub(crate) boot: &'a str,
}

impl<'a> Latest<'a> {
    /// What is there if nothing else changed it.
    pub(crate) fn text(&self) -> &'a str {
        self.seen.unwrap_or(self.new)
    }
}

/// What was made last at each place. What was not made does not count.
pub(crate) fn latest(entries: &[Entry]) -> BTreeMap<&str, Latest<'_>> {
    let mut places: BTreeMap<&str, Vec<Latest<'_>>> = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Value { item, path, old, new, until_reboot, boot, .. } => {
                let value = Latest { item, old, new, seen: None, until_reboot: *until_reboot, boot };
                places.entry(path).or_default().push(value);
            }
            Entry::Seen { path, text } => {
                if let Some(last) = places.get_mut(path.as_str()).and_then(|all| all.last_mut()) {
                    last.seen = Some(text);
                }
            }
            Entry::NotMade { path } => {
                places.get_mut(path.as_str()).map(Vec::pop);
            }
            Entry::Restored { path, boot } => {
                if let Some(last) = places.get_mut(path.as_str()).and_then(|all| all.last_mut()) {
                    last.boot = boot;
                }
            }
            Entry::File { .. } | Entry::Folder { .. } => {}
        }
    }
    places.into_iter().filter_map(|(path, mut all)| Some((path, all.pop()?))).collect()
}
