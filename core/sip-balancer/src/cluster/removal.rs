//! Nodes that are taken out of the list: what they have goes on, and after that they are forgotten.

use super::{Cluster, NodeIndex};
use crate::Order;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use wire::Time;

/// How long a node that was removed keeps its place whatever happens: its last messages may be under way.
const REMOVED: Duration = Duration::from_secs(64);

impl Cluster {
    /// How many nodes may be added.
    pub fn room(&self, now: Time) -> usize {
        let unused = self.members.most() - self.members.used();
        unused + self.indexes().filter(|at| self.is_over(now, *at)).count()
    }

    /// Whether nothing names a node any more that was removed.
    fn is_over(&self, now: Time, at: NodeIndex) -> bool {
        let since = self.state(at).map_or(0, |s| s.removed.load(Relaxed));
        self.order(at) == Order::Removed
            && self.held(at) == 0
            && now.since(Time::from_micros(since)) >= REMOVED
    }

    /// Forgets the nodes that were removed so long ago that no dialog may be known by its token alone, and
    /// that nothing names any more: what comes from there comes from a stranger now. To be called by the
    /// thread that adds.
    pub fn forget_removed(&self, now: Time, after: Duration) {
        for at in self.indexes().filter(|at| self.is_over(now, *at)) {
            let since = self.state(at).map_or(0, |s| s.removed.load(Relaxed));
            if now.since(Time::from_micros(since)) >= after {
                self.members.take(at);
            }
        }
    }

    /// A place for another node: one that nobody had yet, or that of a removed one that nothing names any
    /// more.
    pub(super) fn free_place(&self, now: Time) -> Option<NodeIndex> {
        if self.members.used() < self.members.most() {
            return Some(NodeIndex(self.members.used() as u16));
        }
        self.indexes().find(|at| self.is_over(now, *at))
    }

    /// Takes a node out of the list: it gets no new calls, and those that it has go on.
    pub fn remove(&self, now: Time, at: NodeIndex) {
        if let Some(state) = self.state(at) {
            state.removed.store(now.as_micros(), Relaxed);
            state.order.store(Order::Removed as u8, Relaxed);
            self.changed();
        }
    }
}
