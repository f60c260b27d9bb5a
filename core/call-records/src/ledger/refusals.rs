//! Refused INVITEs of strangers: each has one record, however often it comes.

use crate::name::CallName;
use std::collections::{BTreeSet, VecDeque};

/// Names that are kept. Older ones are forgotten: their INVITE would be recorded again.
const NAMES_MAX: usize = 10_000;

/// The INVITEs that were refused lately.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    queue: VecDeque<(u64, CallName)>,
    names: BTreeSet<CallName>,
}

impl Refusals {
    /// Whether an INVITE that was refused at `at` is none of those that were refused less than `kept`
    /// microseconds before.
    pub fn is_new(&mut self, name: CallName, at: u64, kept: u64) -> bool {
        while let Some(&(before, old)) = self.queue.front() {
            if at < before.saturating_add(kept) && self.queue.len() < NAMES_MAX {
                break;
            }
            self.queue.pop_front();
            self.names.remove(&old);
        }
        let new = self.names.insert(name);
        if new {
            self.queue.push_back((at, name));
        }
        new
    }
}
