//! What one worker has given to each node, as its records say, and as all workers see it.

use crate::{Cluster, Kind, Load, MOST_NODES, NodeIndex};
use std::sync::Arc;

/// The counters of one worker. The table of sessions alone changes them.
#[derive(Debug)]
pub(crate) struct Counters {
    cluster: Arc<Cluster>,
    worker: u16,
    loads: Vec<Load>,
    /// Records that name a node.
    held: Vec<u32>,
}

impl Counters {
    /// All are zero.
    pub fn new(cluster: Arc<Cluster>, worker: u16) -> Counters {
        let (loads, held) = (vec![Load::default(); MOST_NODES], vec![0; MOST_NODES]);
        Counters { cluster, worker, loads, held }
    }

    /// One call more, or less.
    pub fn call(&mut self, node: NodeIndex, more: bool) {
        if let Some(load) = invariant::some!(self.loads.get_mut(usize::from(node.0)), "a node has counters") {
            step(&mut load.calls, more);
        }
        self.publish(node);
    }

    /// One unfinished transaction more, or less.
    pub fn txn(&mut self, node: NodeIndex, kind: Kind, more: bool) {
        let load = invariant::some!(self.loads.get_mut(usize::from(node.0)), "a node has counters");
        if let Some(open) = load.and_then(|load| load.open.get_mut(kind as usize)) {
            step(open, more);
        }
        self.publish(node);
    }

    /// One record more, or less, names a node.
    pub fn hold(&mut self, node: NodeIndex, more: bool) {
        if let Some(held) = invariant::some!(self.held.get_mut(usize::from(node.0)), "a node has counters") {
            step(held, more);
            self.cluster.loads().publish_held(self.worker, node, *held);
        }
    }

    fn publish(&self, node: NodeIndex) {
        if let Some(load) = self.loads.get(usize::from(node.0)) {
            self.cluster.loads().publish(self.worker, node, load);
        }
    }

    /// What was given to each node.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// How many records name each node.
    pub fn held(&self) -> &[u32] {
        &self.held
    }
}

fn step(count: &mut u32, more: bool) {
    let changed = if more { count.checked_add(1) } else { count.checked_sub(1) };
    if let Some(changed) = invariant::some!(changed, "what is taken from a counter was added to it") {
        *count = changed;
    }
}
