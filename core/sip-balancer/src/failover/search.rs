//! How far the search for INVITEs is whose node has gone down.

use wire::Time;

/// How far the search is. It goes round and round, so that one that begins anew leaves nobody out.
#[derive(Debug, Default)]
pub(crate) struct Search {
    at: u32,
    /// Places to be looked at yet, and since when there are some.
    left: u32,
    since: Time,
}

impl Search {
    /// All `places` have to be looked at.
    pub fn begin(&mut self, now: Time, places: u32) {
        if self.left == 0 {
            self.since = now;
        }
        self.left = places;
    }

    /// The next place to be looked at.
    pub fn next(&mut self, places: u32) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = if self.at < places { self.at } else { 0 };
        self.at = at + 1;
        Some(at)
    }

    /// When to go on.
    pub fn next_deadline(&self) -> Option<Time> {
        (self.left > 0).then_some(self.since)
    }
}
