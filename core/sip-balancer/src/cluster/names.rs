//! The names that nodes have to prove over TLS (RFC 5922 section 4).
//!
//! The names change while the balancer runs, and only messages to such nodes need them. So each worker keeps
//! a copy of the list, and compares a version number to see if there is a newer one.

use crate::Node;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names, by the ids of nodes in tokens.
type List = BTreeMap<u32, Box<[u8]>>;

/// The names that nodes over TLS have to prove, shared by all workers.
#[derive(Default, Debug)]
pub struct NodeNames {
    version: AtomicU32,
    list: Mutex<Arc<List>>,
}

impl NodeNames {
    fn lock(&self) -> MutexGuard<'_, Arc<List>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name that a node must prove; `None`: none is known.
    pub fn of(&self, node: &Node) -> Option<String> {
        self.lock().get(&node.id()).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Each of these nodes must prove its name from now on, a domain or an address. A node without a name is
    /// not reached over TLS. The thread that adds a node must call this first. Names of nodes that the
    /// cluster no longer has ([`Cluster::by_id`](crate::Cluster::by_id)) are removed.
    pub fn prove(&self, nodes: &[(Node, String)], is_known: impl Fn(u32) -> bool) {
        let mut list = self.lock();
        let known = list.iter().filter(|(id, _)| is_known(**id));
        let mut next: List = known.map(|(id, name)| (*id, name.clone())).collect();
        for (node, name) in nodes {
            match name.as_bytes() {
                b"" => next.remove(&node.id()),
                name => next.insert(node.id(), name.into()),
            };
        }
        if next != **list {
            *list = Arc::new(next);
            self.version.fetch_add(1, Release);
        }
    }
}

/// The copy of the list that a worker keeps.
#[derive(Default, Debug)]
pub(crate) struct KnownNames {
    version: u32,
    list: Arc<List>,
}

impl KnownNames {
    /// The name that a node must prove; empty: none is known.
    pub fn of(&mut self, names: &NodeNames, node: u32) -> &[u8] {
        let version = names.version.load(Acquire);
        if version != self.version {
            (self.version, self.list) = (version, Arc::clone(&names.lock()));
        }
        self.list.get(&node).map_or(b"", |name| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_node_is_the_last_one_said() {
        let [one, two] = [1, 2].map(|last| Node::new(([192, 0, 2, last], 5061).into()));
        let (names, mut known) = (NodeNames::default(), KnownNames::default());
        let is_known = |id| id == one.id();
        assert_eq!(known.of(&names, one.id()), b"");
        names.prove(&[(two, "two.example".into())], is_known);
        for name in ["one.example", "192.0.2.1", "", "one.example"] {
            names.prove(&[(one, name.into())], is_known);
            assert_eq!(known.of(&names, one.id()), name.as_bytes());
        }
        assert_eq!(known.list.len(), 1, "the other was never added");
    }
}
