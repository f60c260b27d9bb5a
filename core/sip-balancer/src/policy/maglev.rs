//! Maglev consistent hashing (Eisenbud and others, NSDI 2016, section 3.4), with weights.
//!
//! Each node walks the table in an order of its own and takes the next free place when it is its turn;
//! heavier nodes have more turns. When a node goes, its places are taken by the others and almost all
//! other places stay.

use crate::hash::scramble;
use crate::{Cluster, NodeIndex};

/// Primes for the size of the table: at least 100 places a node keep the shares within about 1 %.
const SIZES: [usize; 4] = [1_021, 4_093, 16_381, 65_521];

/// A table of places.
#[derive(Debug, Default)]
pub(crate) struct Maglev {
    places: Vec<NodeIndex>,
    /// Which nodes it was made of, with their weights.
    made_of: Vec<(NodeIndex, u32)>,
}

const NOBODY: NodeIndex = NodeIndex(u16::MAX);

impl Maglev {
    /// The node for a hash, out of `nodes`; the table is made anew where they are others than before.
    pub fn choose(&mut self, cluster: &Cluster, nodes: &[NodeIndex], hash: u64) -> Option<NodeIndex> {
        let same = self.made_of.len() == nodes.len()
            && self.made_of.iter().zip(nodes).all(|(made, at)| *made == (*at, cluster.weight(*at)));
        if !same {
            self.build(cluster, nodes);
        }
        let at = usize::try_from(hash % self.places.len().max(1) as u64).ok()?;
        self.places.get(at).copied()
    }

    fn build(&mut self, cluster: &Cluster, nodes: &[NodeIndex]) {
        self.made_of = nodes.iter().map(|at| (*at, cluster.weight(*at))).collect();
        let wanted = nodes.len() * 100;
        let size = SIZES.into_iter().find(|s| *s > wanted).unwrap_or(SIZES[3]);
        self.places.clear();
        if nodes.is_empty() {
            return;
        }
        self.places.resize(size, NOBODY);
        let heaviest = u64::from(self.made_of.iter().map(|(_, weight)| *weight).max().unwrap_or(1));
        let mut walks: Vec<Walk> = self.made_of.iter().map(|made| Walk::new(cluster, *made, size)).collect();
        // The same order of turns whatever the order of the list.
        walks.sort_by_key(|walk| walk.id);
        let mut left = size;
        while left > 0 {
            for walk in &mut walks {
                walk.saved += walk.weight;
                if walk.saved < heaviest || left == 0 {
                    continue;
                }
                walk.saved -= heaviest;
                // The size is prime, so that the walk comes by every place, and one of them is free.
                while self.places.get(walk.place).is_some_and(|taken| *taken != NOBODY) {
                    walk.place = (walk.place + walk.step) % size;
                }
                if let Some(free) = self.places.get_mut(walk.place) {
                    *free = walk.at;
                    left -= 1;
                }
            }
        }
    }
}

/// Where a node is on its way through the table.
struct Walk {
    at: NodeIndex,
    id: u64,
    weight: u64,
    /// The place it looks at next, and how far it goes from there.
    place: usize,
    step: usize,
    /// How much of a turn it has saved up.
    saved: u64,
}

impl Walk {
    fn new(cluster: &Cluster, (at, weight): (NodeIndex, u32), size: usize) -> Walk {
        let id = cluster.node(at).map_or(0, |node| u64::from(node.id()));
        let (a, b) = (scramble(id), scramble(id ^ 0x5bd1_e995_9e37_79b9));
        let place = (a % size as u64) as usize;
        let step = 1 + (b % (size as u64 - 1)) as usize;
        Walk { at, id, weight: weight.into(), place, step, saved: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::of;

    fn shares(maglev: &Maglev, nodes: usize) -> Vec<usize> {
        (0..nodes).map(|i| maglev.places.iter().filter(|at| usize::from(at.0) == i).count()).collect()
    }

    #[test]
    fn shares_are_even_and_follow_the_weights() {
        let cluster = of(8);
        let all: Vec<NodeIndex> = cluster.indexes().collect();
        let mut maglev = Maglev::default();
        maglev.choose(&cluster, &all, 0);
        assert!(shares(&maglev, 8).iter().all(|n| (126..=129).contains(n)), "{:?}", shares(&maglev, 8));
        cluster.set_weight(NodeIndex(0), 3);
        cluster.set_weight(NodeIndex(1), 2);
        maglev.choose(&cluster, &all, 0);
        let found = shares(&maglev, 8);
        // Eleven shares of 1,021 places.
        assert!((275..=283).contains(&found[0]) && (182..=190).contains(&found[1]), "{found:?}");
        assert!(found[2..].iter().all(|n| (90..=96).contains(n)), "{found:?}");
    }

    #[test]
    fn few_places_change_when_a_node_goes() {
        let cluster = of(10);
        let all: Vec<NodeIndex> = cluster.indexes().collect();
        let mut maglev = Maglev::default();
        maglev.choose(&cluster, &all, 0);
        let before = maglev.places.clone();
        maglev.choose(&cluster, &all[..9], 0);
        let moved = before.iter().zip(&maglev.places).filter(|(b, a)| b != a && b.0 != 9).count();
        assert!(moved * 100 < before.len() * 15, "{moved} of {} places of others moved", before.len());
        assert!(!maglev.places.contains(&NodeIndex(9)));
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let cluster = of(5);
        let mut all: Vec<NodeIndex> = cluster.indexes().collect();
        let (mut one, mut other) = (Maglev::default(), Maglev::default());
        one.choose(&cluster, &all, 0);
        all.reverse();
        other.choose(&cluster, &all, 0);
        assert_eq!(one.places, other.places);
    }

    #[test]
    fn no_node_is_no_choice() {
        assert_eq!(Maglev::default().choose(&of(1), &[], 7), None);
    }
}
