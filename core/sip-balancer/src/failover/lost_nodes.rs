//! INVITEs whose node has gone down while they rang.
//!
//! There may be as many of them as INVITEs are kept, and each is sent to another node. So they are looked for some at a
//! time, between which others are served.

use crate::Balancer;
use crate::timers::work;
use wire::{Outbox, Time};

/// Entries that need nothing and are looked at for each that may be sent: looking takes much less time.
const LOOKS: usize = 32;

/// How far the search is. It goes round and round, so that one that begins anew leaves nobody out.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    at: u32,
    /// Places to be looked at yet, and since when there are some.
    left: u32,
    since: Time,
}

impl Orphans {
    /// All `places` have to be looked at.
    fn begin(&mut self, now: Time, places: u32) {
        if self.left == 0 {
            self.since = now;
        }
        self.left = places;
    }

    fn next(&mut self, places: u32) -> Option<u32> {
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

impl Balancer {
    /// Looks for INVITEs that have lost their node, where nodes have changed since it was looked for them.
    pub(crate) fn save_orphans(&mut self, now: Time, out: &mut Outbox) {
        let (generation, places) = (self.cluster.generation(), self.kept.places().len() as u32);
        if generation != self.seen {
            self.seen = generation;
            let cluster = &self.cluster;
            let lost = cluster.indexes().any(|at| !cluster.is_usable(now, at));
            self.orphans.begin(now, if lost { places } else { 0 });
        }
        let mut sends = work(now, self.orphans.next_deadline());
        let looks = sends * LOOKS;
        for _ in 0..looks {
            let Some(at) = self.orphans.next(places) else { return };
            match self.rescue(now, at, out) {
                // What has not been heard of is looked at soon enough.
                Some(look) if look == Time::FAR => {}
                Some(look) => {
                    if let Some(entry) = self.kept.get(at) {
                        let due = entry.repeat.min(entry.until).min(look);
                        self.kept.arm(at, due);
                    }
                }
                None => sends -= 1,
            }
            if sends == 0 {
                return;
            }
        }
    }
}
