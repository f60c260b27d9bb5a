//! Who gets new calls where nobody takes them.
//!
//! A node that rests, is ejected or is doubted was not the last one when that began. It may be by now: the
//! others have gone down since, or the operator has drained them. Then it has the calls all the same, for
//! nothing is worse than no node at all.

use crate::{Cluster, NodeIndex, Order};
use wire::Time;

impl Cluster {
    /// How far from taking calls it is that could be given some: zero, it does; one, it only rests or is
    /// ejected; two, it has left requests without an answer. `None`: it is down, out, or the operator wants
    /// no new ones there.
    pub(crate) fn standing(&self, now: Time, at: NodeIndex) -> Option<u8> {
        if self.order(at) != Order::Serve || !self.is_usable(now, at) {
            return None;
        }
        Some(match (self.is_silent(at), self.resting_until(now, at)) {
            (true, _) => 2,
            (false, Some(_)) => 1,
            (false, None) => 0,
        })
    }

    /// The best standing that a node has; `None`: none is left.
    pub(crate) fn best_standing(&self, now: Time) -> Option<u8> {
        self.indexes().filter_map(|at| self.standing(now, at)).min()
    }

    /// Whether new calls go there by now: it takes them, or nobody does, and of those that are left none is
    /// better.
    pub fn gets_calls(&self, now: Time, at: NodeIndex) -> bool {
        self.takes_calls(now, at)
            || self.standing(now, at).is_some_and(|own| self.best_standing(now) == Some(own))
    }

    /// Nodes that new calls go to and that have not refused the last one.
    pub(crate) fn willing(&self, now: Time) -> impl Iterator<Item = NodeIndex> + '_ {
        let best = self.best_standing(now);
        let gets_calls = move |at: &NodeIndex| best.is_some() && self.standing(now, *at) == best;
        self.indexes()
            .filter(gets_calls)
            .filter(move |at| !self.rest_of(*at).is_some_and(|rest| rest.is_refusing(now)))
    }

    /// Whether new calls go anywhere.
    pub fn is_open(&self, now: Time) -> bool {
        self.best_standing(now).is_some()
    }
}
