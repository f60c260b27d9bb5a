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
        if let Some(load) = self.loads.get_mut(usize::from(node.0)) {
            load.calls = if more { load.calls + 1 } else { load.calls - 1 };
        }
        self.publish(node);
    }

    /// One unfinished transaction more, or less.
    pub fn txn(&mut self, node: NodeIndex, kind: Kind, more: bool) {
        let load = self.loads.get_mut(usize::from(node.0));
        if let Some(open) = load.and_then(|load| load.open.get_mut(kind as usize)) {
            *open = if more { *open + 1 } else { *open - 1 };
        }
        self.publish(node);
    }

    /// One record more, or less, names a node.
    pub fn hold(&mut self, node: NodeIndex, more: bool) {
        if let Some(held) = self.held.get_mut(usize::from(node.0)) {
            *held = if more { *held + 1 } else { *held - 1 };
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
