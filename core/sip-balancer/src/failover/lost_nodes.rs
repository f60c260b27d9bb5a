//! INVITEs whose node has gone down while they rang.
//!
//! There may be as many of them as INVITEs are kept, and each is sent to another node. So they are looked for
//! some at a time, between which others are served.

use crate::Cluster;
use crate::failover::retransmission::Rescue;
use crate::failover::state::Failover;
use crate::forwarding::step::Step;
use crate::timers::work;
use wire::Time;

/// Entries that need nothing and are looked at for each that may be sent: looking takes much less time.
const LOOKS: usize = 32;

impl Failover {
    /// Begins to look for INVITEs that have lost their node, where nodes have changed since it was looked for
    /// them. Says how many may be sent now, and how many looked at.
    pub(crate) fn begin_search(&mut self, now: Time, cluster: &Cluster) -> (usize, usize) {
        let (generation, places) = (cluster.generation(), self.kept.places().len() as u32);
        if generation != self.seen {
            self.seen = generation;
            let lost = cluster.indexes().any(|at| !cluster.is_usable(now, at));
            self.search.begin(now, if lost { places } else { 0 });
        }
        let sends = work(now, self.search.next_deadline());
        (sends, sends * LOOKS)
    }

    /// Looks at the next one; `None`: there is no more.
    pub(crate) fn search(&mut self, step: &mut Step<'_>) -> Option<(u32, Rescue)> {
        let at = self.search.next(self.kept.places().len() as u32)?;
        let rescue = self.rescue(step, at);
        match &rescue {
            // What has not been heard of is looked at soon enough.
            Rescue::Wait(look) if *look != Time::FAR => self.kept.arm_or(at, *look),
            _ => {}
        }
        Some((at, rescue))
    }
}
