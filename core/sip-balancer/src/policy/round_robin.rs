//! Each node in turn, by weight (paper III-B.2).

use crate::policy::candidates::Candidates;
use crate::{MOST_NODES, NodeIndex};

/// How far each node is behind its share.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    credit: Vec<i64>,
}

impl Default for RoundRobin {
    fn default() -> RoundRobin {
        RoundRobin { credit: vec![0; MOST_NODES] }
    }
}

impl RoundRobin {
    /// The node whose turn it is; one of weight three has three turns of a round, spread over it.
    pub fn choose(&mut self, candidates: Candidates<'_>) -> Option<NodeIndex> {
        let mut first: Option<(i64, NodeIndex)> = None;
        let total: u64 = candidates.nodes.iter().map(|at| candidates.share(*at)).sum();
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        for &at in candidates.nodes {
            let share = i64::try_from(candidates.share(at)).unwrap_or(i64::MAX);
            let credit = invariant::some!(self.credit.get_mut(usize::from(at.0)), "a node has credit");
            let Some(credit) = credit else { continue };
            // What a node saved up while others were away must not flood it now.
            *credit = (*credit + share).min(total);
            if first.is_none_or(|(most, _)| *credit > most) {
                first = Some((*credit, at));
            }
        }
        let (_, at) = first?;
        if let Some(credit) = self.credit.get_mut(usize::from(at.0)) {
            *credit -= total;
        }
        Some(at)
    }
}
