//! The node with the least load for its weight: `cjsq`, `tjsq` and `tlwl` (paper III-A), each with its own
//! measure.

use crate::policy::candidates::Candidates;
use crate::policy::refusal_rate::RefusalRates;
use crate::{Load, NodeIndex};
use wire::Time;

/// The unit of a burden: this much for a thousandth of a node's load and a thousandth of its weight.
const BURDEN: u64 = 1 << 20;

/// Where the last search began, and which nodes refuse calls.
#[derive(Debug)]
pub(crate) struct LeastLoaded {
    turn: usize,
    refusals: RefusalRates,
}

impl LeastLoaded {
    /// Nothing was refused yet. `turn` spreads the choices of several workers.
    pub fn new(turn: usize) -> LeastLoaded {
        LeastLoaded { turn, refusals: RefusalRates::default() }
    }

    /// A node has answered a call, and refused it or not.
    pub fn answered(&mut self, now: Time, at: NodeIndex, refused: bool) {
        self.refusals.answered(now, at, refused);
    }

    /// Forgets a node's history, because its place belongs to a new node.
    pub fn forget(&mut self, at: NodeIndex) {
        self.refusals.forget(at);
    }

    /// The node that would be the least loaded for its weight with one more call, which adds `own`. Among
    /// equals the search begins with another one each time.
    #[inline]
    pub fn choose(
        &mut self,
        candidates: Candidates<'_>,
        measure: impl Fn(&Load) -> u64,
        own: u64,
    ) -> Option<NodeIndex> {
        self.turn = candidates.next_turn(self.turn);
        let load = |at| measure(&candidates.cluster.load(at)) + own;
        if self.refusals.is_any(candidates.now) {
            let burden = |at| load(at).saturating_mul(BURDEN) / candidates.share(at).max(1);
            return self.least_of_refusing(candidates, burden);
        }
        let mut best: Option<(u64, u64, NodeIndex)> = None;
        for at in candidates.from(self.turn) {
            let (load, weight) = (load(at), candidates.share(at));
            // load / weight < best / weight of best, without a division.
            let better = best.is_none_or(|(least, its_weight, _)| load * its_weight < least * weight);
            if better {
                best = Some((load, weight, at));
            }
        }
        best.map(|(_, _, at)| at)
    }

    /// The same where some nodes have refused calls lately. A node that refuses at once has no load and
    /// would get every call. So load is added in proportion to its refusals: at half of its responses, as
    /// much as the highest load of any node.
    #[cold]
    fn least_of_refusing(
        &self,
        candidates: Candidates<'_>,
        burden: impl Fn(NodeIndex) -> u64,
    ) -> Option<NodeIndex> {
        let nodes = candidates.from(self.turn);
        let most = nodes.clone().map(&burden).max()?;
        let refused = |at| (most / 1_000).saturating_mul(2 * self.refusals.part(candidates.now, at));
        nodes.min_by_key(|at| burden(*at).saturating_add(refused(*at)))
    }
}
