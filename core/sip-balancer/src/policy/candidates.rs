//! The nodes from which one is chosen.

use crate::{Cluster, NodeIndex};
use core::time::Duration;
use wire::{Time, Transport};

/// Nodes that may get a new call, and the inputs of their shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a> {
    pub cluster: &'a Cluster,
    pub nodes: &'a [NodeIndex],
    pub now: Time,
    /// How long the share of a node grows after it came up.
    pub slow_start: Duration,
}

impl<'a> Candidates<'a> {
    /// Each of them once, starting at number `turn`. With another turn each time, no node is always first
    /// among equals.
    #[inline]
    pub fn from(self, turn: usize) -> impl Iterator<Item = NodeIndex> + Clone + use<'a> {
        let (before, after) = self.nodes.split_at(turn.min(self.nodes.len()));
        after.iter().chain(before).copied()
    }

    /// The next turn.
    #[inline]
    pub fn next_turn(self, turn: usize) -> usize {
        (turn + 1) % self.nodes.len().max(1)
    }

    /// A thousand times the weight of a node, or less shortly after it came up.
    #[inline]
    pub fn share(self, at: NodeIndex) -> u64 {
        self.cluster.share(self.now, at, self.slow_start)
    }

    /// The node whose part of the total weight contains `hash`.
    pub fn by_hash(self, hash: u64) -> Option<NodeIndex> {
        let weight = |at: &NodeIndex| u64::from(self.cluster.weight(*at));
        let mut rest = hash % self.nodes.iter().map(weight).sum::<u64>().max(1);
        self.nodes.iter().copied().find(|at| {
            let weight = weight(at);
            let here = rest < weight;
            rest = rest.saturating_sub(weight);
            here
        })
    }
}

/// Whether a node is reached over TLS. Others get no request for a `sips:` URI (RFC 5630 section 5.3).
pub(crate) fn is_secure(cluster: &Cluster, at: NodeIndex) -> bool {
    cluster.node(at).and_then(|node| node.transport).is_some_and(Transport::is_secure)
}

/// Whether any node is, be it down.
pub(crate) fn has_secure(cluster: &Cluster) -> bool {
    cluster.members().any(|(at, _)| is_secure(cluster, at))
}
