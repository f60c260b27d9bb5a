//! The choice of a node for a new call: which nodes may get it, and which of them the algorithm takes.

use crate::hash::{fnv1a, openser_hash, scramble};
use crate::policy::candidates::{Candidates, is_secure};
use crate::policy::least_loaded::LeastLoaded;
use crate::policy::maglev::Maglev;
use crate::policy::refusal_rate::RefusalRates;
use crate::policy::round_robin::RoundRobin;
use crate::policy::rwma::Rwma;
use crate::{Algorithm, Cluster, Kind, Load, MOST_NODES, NodeIndex, Request};
use core::time::Duration;
use std::sync::Arc;
use wire::Time;

/// Places of a table that are looked at for another home than the first.
const PLACES_TRIED: u64 = 32;
/// In thousandths.
const HALF: u64 = 500;

/// One worker's way of choosing. Everything here is this worker's own; what others have given to the nodes
/// it reads from the [`Cluster`].
#[derive(Debug)]
pub struct Chooser {
    cluster: Arc<Cluster>,
    algorithm: Algorithm,
    least_loaded: LeastLoaded,
    round_robin: RoundRobin,
    rwma: Rwma,
    maglev: Maglev,
    random: u64,
    /// The candidates of the present choice, and its time.
    open: Vec<NodeIndex>,
    now: Time,
    /// How long the share of a node grows after it came up.
    slow_start: Duration,
    /// The part of recent requests that each node refused with 503, which concerns that node alone.
    full: RefusalRates,
}

impl Chooser {
    /// A chooser that has seen nothing. `seed` spreads the choices of several workers.
    pub fn new(cluster: Arc<Cluster>, algorithm: Algorithm, seed: u64) -> Chooser {
        let turn = scramble(seed) as usize % MOST_NODES;
        Chooser {
            algorithm,
            least_loaded: LeastLoaded::new(turn),
            round_robin: RoundRobin::default(),
            rwma: Rwma::new(turn),
            maglev: Maglev::default(),
            random: seed,
            open: Vec::with_capacity(MOST_NODES),
            now: Time::ZERO,
            slow_start: Duration::ZERO,
            full: RefusalRates::default(),
            cluster,
        }
    }

    /// The algorithm in force.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Changes the algorithm; the next call is chosen by it.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        self.algorithm = algorithm;
    }

    /// Changes for how long the share of a node grows that has come up. Hashes do not look at that: what they
    /// say is to stay the same.
    pub fn set_slow_start(&mut self, slow_start: Duration) {
        self.slow_start = slow_start;
    }

    /// A request was answered with a 2xx after `micros`, microseconds.
    pub fn answered(&mut self, at: NodeIndex, micros: u32) {
        self.rwma.answered(at, micros);
    }

    /// An INVITE outside a dialog has its final response; `refused`: one that says that the node is not well
    /// (5xx). `full`: 503.
    pub fn invited(&mut self, now: Time, at: NodeIndex, refused: bool, full: bool) {
        self.least_loaded.answered(now, at, refused);
        self.full.answered(now, at, full);
    }

    /// Whether a node has refused half of what it was given lately, or more, with 503.
    pub(crate) fn refuses_most(&self, now: Time, at: NodeIndex) -> bool {
        self.full.is_any(now) && self.full.part(now, at) >= HALF
    }

    /// What is known of a node was of another one that had its place.
    pub(crate) fn forget(&mut self, at: NodeIndex) {
        self.rwma.forget(at);
        self.least_loaded.forget(at);
        self.full.forget(at);
    }

    /// The node for a new call, out of those that take calls; `None`: there is none. `but`: not this one,
    /// unless there is no other.
    pub fn choose(
        &mut self,
        now: Time,
        call_id: &[u8],
        kind: Kind,
        but: Option<NodeIndex>,
    ) -> Option<NodeIndex> {
        self.choose_but(now, (call_id, kind, false), but.as_slice())
    }

    /// As [`Chooser::choose`], but none of these, unless there is no other than the first of them. What is
    /// `secure` goes to no node but those over TLS.
    pub(crate) fn choose_for(&mut self, now: Time, r: &Request<'_>, but: &[NodeIndex]) -> Option<NodeIndex> {
        self.choose_but(now, (r.call_id, r.class.kind(), r.secure), but)
    }

    fn choose_but(
        &mut self,
        now: Time,
        (call_id, kind, secure): (&[u8], Kind, bool),
        but: &[NodeIndex],
    ) -> Option<NodeIndex> {
        if secure && self.algorithm == Algorithm::Maglev {
            // A table of the nodes over TLS, made for this one and then made anew, would cost too much.
            let home = self.home_but(now, scramble(fnv1a(call_id)), but, true);
            return home.or_else(|| {
                self.look_around(now, but, true);
                self.open.first().copied()
            });
        }
        self.look_around(now, but, secure);
        if !but.is_empty() {
            self.spare_refusing();
        }
        let (cluster, nodes, slow_start) = (&*self.cluster, &*self.open, self.slow_start);
        let candidates = Candidates { cluster, nodes, now, slow_start };
        match self.algorithm {
            Algorithm::Cjsq => self.least_loaded.choose(candidates, |load| load.calls.into(), 1),
            Algorithm::Tjsq => self.least_loaded.choose(candidates, |load| load.transactions().into(), 1),
            Algorithm::Tlwl => self.least_loaded.choose(candidates, Load::work, kind.cost().into()),
            Algorithm::Hash => candidates.by_hash(openser_hash(call_id).into()),
            Algorithm::FnvHash => candidates.by_hash(fnv1a(call_id)),
            Algorithm::RoundRobin => self.round_robin.choose(candidates),
            Algorithm::Rwma => self.rwma.choose(candidates),
            Algorithm::Maglev => self.maglev.choose(cluster, nodes, scramble(fnv1a(call_id))),
        }
    }

    /// The node for something that has a home of its own by its `hash`, such as an address-of-record.
    /// `secure`: one over TLS, which is the same if that is one.
    pub fn home(&mut self, now: Time, hash: u64, secure: bool) -> Option<NodeIndex> {
        if secure {
            return self.home_but(now, hash, &[], true);
        }
        self.look_around(now, &[], false);
        self.place(hash)
    }

    /// Another home for the same than these, unless there is none: always the same one while the same nodes
    /// take calls. Where these are all of their rank, one of the next, as [`Chooser::choose_for`] has it.
    pub(crate) fn home_but(
        &mut self,
        now: Time,
        hash: u64,
        but: &[NodeIndex],
        secure: bool,
    ) -> Option<NodeIndex> {
        self.look_around(now, &[], false);
        // A table without those nodes, made for this one and then made anew, would cost too much.
        let others = (1..=PLACES_TRIED).map(|n| scramble(hash.wrapping_add(n)));
        for hash in core::iter::once(hash).chain(others) {
            let found = self.place(hash).filter(|at| !but.contains(at));
            if let Some(at) = found.filter(|at| !secure || is_secure(&self.cluster, *at)) {
                return Some(at);
            }
        }
        self.look_around(now, but, secure);
        self.open.retain(|at| !but.contains(at));
        let nth = scramble(hash) as usize % self.open.len().max(1);
        self.open.get(nth).copied()
    }

    /// A number at random.
    pub(crate) fn dice(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.random)
    }

    fn look_around(&mut self, now: Time, but: &[NodeIndex], secure: bool) {
        self.now = now;
        self.open.clear();
        let cluster = &self.cluster;
        self.open.extend(cluster.indexes().filter(|at| cluster.takes_calls(now, *at) && !but.contains(at)));
        if secure {
            self.open.retain(|at| is_secure(cluster, *at));
        }
        let fits = |at: &NodeIndex| cluster.takes_calls(now, *at) && (!secure || is_secure(cluster, *at));
        if self.open.is_empty()
            && let Some(only) = but.first().copied().filter(fits)
        {
            self.open.push(only);
        }
        if self.open.is_empty() {
            self.make_do(now, but, secure);
        }
        let cluster = &self.cluster;
        if cluster.is_ranked() {
            let best = self.open.iter().map(|at| cluster.rank(*at)).min();
            self.open.retain(|at| Some(cluster.rank(*at)) == best);
        }
    }

    /// Nobody takes calls: those who are left, if any, and of these none that another attempt is not to have.
    #[cold]
    fn make_do(&mut self, now: Time, but: &[NodeIndex], secure: bool) {
        let cluster = &self.cluster;
        let fits = |at: &NodeIndex| !secure || is_secure(cluster, *at);
        let standings = cluster.indexes().filter(fits).filter_map(|at| cluster.standing(now, at));
        let Some(best) = standings.min().filter(|best| *best > 0) else { return };
        let left = |at: &NodeIndex| fits(at) && cluster.standing(now, *at) == Some(best);
        self.open.extend(cluster.indexes().filter(|at| left(at) && !but.contains(at)));
        if self.open.is_empty() {
            self.open.extend(but.first().filter(|at| left(at)));
        }
    }

    /// Another attempt goes to no node that has just refused a call, as long as there are others.
    #[cold]
    fn spare_refusing(&mut self) {
        let (cluster, now) = (&self.cluster, self.now);
        let is_refusing = |at: NodeIndex| cluster.rest_of(at).is_some_and(|rest| rest.is_refusing(now));
        if self.open.iter().any(|at| !is_refusing(*at)) {
            self.open.retain(|at| !is_refusing(*at));
        }
    }

    fn place(&mut self, hash: u64) -> Option<NodeIndex> {
        self.maglev.choose(&self.cluster, &self.open, hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::health::{Order, Why};
    use crate::cluster::of;

    fn load(calls: u32, invites: u32, byes: u32) -> Load {
        Load { calls, open: [invites, byes, 0, 0] }
    }

    fn chooser(cluster: &Arc<Cluster>, algorithm: Algorithm) -> Chooser {
        Chooser::new(Arc::clone(cluster), algorithm, 7)
    }

    fn choice(chooser: &mut Chooser) -> u16 {
        chooser.choose(Time::ZERO, b"a@b", Kind::Invite, None).expect("a node").0
    }

    #[test]
    fn each_of_the_three_looks_at_its_own_measure() {
        let cluster = of(3);
        // Most calls and nothing to do; few calls and two BYEs; fewest calls and one INVITE.
        for (at, load) in [(0, load(9, 0, 0)), (1, load(5, 0, 2)), (2, load(1, 1, 0))] {
            cluster.loads().publish(0, NodeIndex(at), &load);
        }
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Cjsq)), 2);
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tjsq)), 0);
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tlwl)), 0);
        // One INVITE is less than two BYEs, and more than one.
        cluster.set_order(NodeIndex(0), Order::Drain);
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tlwl)), 2);
        cluster.loads().publish(0, NodeIndex(1), &load(5, 0, 1));
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tlwl)), 1);
    }

    #[test]
    fn what_all_of_one_rank_shed_goes_to_the_next_whatever_chooses() {
        let cluster = of(6);
        (3..6).for_each(|at| cluster.set_rank(NodeIndex(at), 1));
        let mut chooser = chooser(&cluster, Algorithm::Tlwl);
        let first = [0, 1, 2].map(NodeIndex);
        let (mut by_home, mut by_load) = ([0u32; 6], [0u32; 6]);
        for hash in 0..300 {
            let home = chooser.home_but(Time::ZERO, hash, &first, false).expect("a node");
            by_home[usize::from(home.0)] += 1;
            let least =
                chooser.choose_but(Time::ZERO, (b"a@b", Kind::Invite, false), &first).expect("a node");
            by_load[usize::from(least.0)] += 1;
            // One of three sheds: the others have it, and all of them.
            let other = chooser.home_but(Time::ZERO, hash, &first[..1], false).expect("a node");
            assert!((1..3).contains(&other.0), "{other:?}");
        }
        for found in [by_home, by_load] {
            assert!(found[..3] == [0; 3] && found[3..].iter().all(|n| *n > 60), "{found:?}");
        }
    }

    #[test]
    fn work_counts_as_the_weights_say() {
        let cluster = of(2);
        cluster.set_weight(NodeIndex(0), 4);
        cluster.loads().publish(0, NodeIndex(0), &load(6, 6, 0));
        cluster.loads().publish(0, NodeIndex(1), &load(1, 1, 0));
        // 7 for 4 against 2 for 1.
        for algorithm in [Algorithm::Cjsq, Algorithm::Tjsq, Algorithm::Tlwl] {
            assert_eq!(choice(&mut chooser(&cluster, algorithm)), 0, "{algorithm:?}");
        }
        cluster.loads().publish(0, NodeIndex(0), &load(8, 8, 0));
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tjsq)), 1);
    }

    #[test]
    fn turns_follow_the_weights_and_are_spread() {
        let cluster = of(3);
        cluster.set_weight(NodeIndex(1), 3);
        let mut chooser = chooser(&cluster, Algorithm::RoundRobin);
        let turns: Vec<u16> = (0..10).map(|_| choice(&mut chooser)).collect();
        let count = |node| turns.iter().filter(|at| **at == node).count();
        assert_eq!((count(0), count(1), count(2)), (2, 6, 2), "{turns:?}");
        assert!(turns.windows(3).all(|w| w != [1, 1, 1]), "{turns:?}");
    }

    #[test]
    fn among_equals_everybody_has_a_turn() {
        let cluster = of(4);
        for algorithm in [Algorithm::Cjsq, Algorithm::Tlwl, Algorithm::Rwma] {
            let mut chooser = chooser(&cluster, algorithm);
            let mut found: Vec<u16> = (0..4).map(|_| choice(&mut chooser)).collect();
            found.sort_unstable();
            assert_eq!(found, [0, 1, 2, 3], "{algorithm:?}");
        }
    }

    #[test]
    fn hashes_stay_where_they_are_and_spread() {
        let cluster = of(8);
        for algorithm in [Algorithm::Hash, Algorithm::FnvHash, Algorithm::Maglev] {
            let mut chooser = chooser(&cluster, algorithm);
            let mut counts = [0u32; 8];
            for call in 0..8_000u32 {
                let id = format!("{call}-{}@192.0.2.1", call.wrapping_mul(2_654_435_761));
                let mut one =
                    || chooser.choose(Time::ZERO, id.as_bytes(), Kind::Invite, None).expect("a node").0;
                let at = one();
                assert_eq!(at, one());
                counts[usize::from(at)] += 1;
            }
            assert!(counts.iter().all(|n| (800..1_200).contains(n)), "{algorithm:?} {counts:?}");
        }
    }

    /// How many of 10,000 calls change their node when one is removed: the mean over all nodes.
    fn moved(algorithm: Algorithm, count: u16) -> usize {
        let cluster = of(count);
        let mut chooser = chooser(&cluster, algorithm);
        let mut all = || -> Vec<NodeIndex> {
            let id = |call: u32| format!("{call}-{}@192.0.2.1", call.wrapping_mul(2_654_435_761));
            let mut one = |id: String| chooser.choose(Time::ZERO, id.as_bytes(), Kind::Invite, None);
            (0..10_000).map(|call| one(id(call)).expect("a node")).collect()
        };
        let before = all();
        let mut sum = 0;
        for gone in cluster.indexes() {
            cluster.set_order(gone, Order::Drain);
            sum += before.iter().zip(all()).filter(|(before, after)| *before != after).count();
            cluster.set_order(gone, Order::Serve);
        }
        sum / usize::from(count)
    }

    #[test]
    fn maglev_moves_few_calls_when_a_node_goes_or_comes() {
        for count in [4, 8, 16] {
            let [hash, fnv, maglev] =
                [Algorithm::Hash, Algorithm::FnvHash, Algorithm::Maglev].map(|a| moved(a, count));
            // The calls of the removed node have to move.
            let own = 10_000 / usize::from(count);
            assert!((own..own + 250).contains(&maglev), "{count}: {maglev}");
            let others = (10_000 - own) * 95 / 100;
            assert!(hash > others && fnv > others, "{count}: {hash} {fnv}");
        }
    }

    #[test]
    fn the_quick_one_is_taken() {
        let cluster = of(2);
        let mut chooser = chooser(&cluster, Algorithm::Rwma);
        chooser.answered(NodeIndex(0), 5_000);
        chooser.answered(NodeIndex(1), 4_000);
        assert_eq!(choice(&mut chooser), 1);
        (0..20).for_each(|_| chooser.answered(NodeIndex(1), 6_000));
        assert_eq!(choice(&mut chooser), 0);
    }

    #[test]
    fn the_quick_one_is_not_given_all_before_it_has_answered() {
        let cluster = of(3);
        let mut chooser = chooser(&cluster, Algorithm::Rwma);
        // What other workers have given it says nothing of how quick it is.
        cluster.loads().publish(0, NodeIndex(2), &load(1, 1, 0));
        (0..2).for_each(|at| chooser.answered(NodeIndex(at), 5_000 + 1_000 * u32::from(at)));
        assert_eq!(choice(&mut chooser), 2, "who was never tried is tried first");
        let found: Vec<u16> = (0..30).map(|_| choice(&mut chooser)).collect();
        assert!(found.iter().all(|at| *at == 0), "{found:?}");
        let later = chooser.choose(Time::from_secs(34), b"a@b", Kind::Invite, None);
        assert_eq!(later, Some(NodeIndex(2)), "who has not answered at all is tried again");
        chooser.answered(NodeIndex(2), 1_000);
        assert_eq!(choice(&mut chooser), 2);
    }

    #[test]
    fn who_came_up_just_now_gets_less() {
        for algorithm in [Algorithm::RoundRobin, Algorithm::Tlwl] {
            let cluster = of(3);
            let mut chooser = chooser(&cluster, algorithm);
            chooser.set_slow_start(Duration::from_secs(10));
            cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
            cluster.came_up(Time::from_secs(50), NodeIndex(0));
            let mut count = |seconds: u64| {
                let mut one = || chooser.choose(Time::from_secs(seconds), b"a@b", Kind::Invite, None);
                (0..300).filter(|_| one() == Some(NodeIndex(0))).count()
            };
            let (before, after) = (count(51), count(60));
            assert!(before * 3 < after, "{algorithm:?}: {before} {after}");
        }
    }

    #[test]
    fn another_home_is_the_one_that_all_have_where_the_first_takes_no_calls() {
        let cluster = of(5);
        let mut chooser = chooser(&cluster, Algorithm::Tlwl);
        for hash in 0..100 {
            let first = chooser.home(Time::ZERO, hash, false).expect("a home");
            assert_ne!(chooser.home_but(Time::ZERO, hash, &[first], false), Some(first));
            cluster.set_order(first, Order::Drain);
            let second = chooser.home(Time::ZERO, hash, false);
            assert_eq!(chooser.home_but(Time::ZERO, hash, &[first], false), second, "{hash}");
            cluster.set_order(first, Order::Serve);
        }
    }

    #[test]
    fn nodes_of_a_higher_rank_wait_until_nobody_of_a_lower_one_is_left() {
        for (_, algorithm) in Algorithm::ALL {
            let cluster = of(4);
            cluster.set_rank(NodeIndex(2), 1);
            cluster.set_rank(NodeIndex(3), 7);
            let mut chooser = chooser(&cluster, algorithm);
            let seen = |chooser: &mut Chooser| {
                let id = |n: u32| format!("{n}-{}@192.0.2.1", n.wrapping_mul(2_654_435_761));
                let mut one = |n| chooser.choose(Time::ZERO, id(n).as_bytes(), Kind::Invite, None).unwrap().0;
                let mut all: Vec<u16> = (0..100).map(&mut one).collect();
                all.sort_unstable();
                all.dedup();
                all
            };
            assert_eq!(seen(&mut chooser), [0, 1], "{algorithm:?}");
            cluster.set_down(NodeIndex(0), Why::Silent);
            assert_eq!(seen(&mut chooser), [1]);
            cluster.set_order(NodeIndex(1), Order::Drain);
            assert_eq!(seen(&mut chooser), [2]);
            cluster.set_down(NodeIndex(2), Why::Silent);
            assert_eq!(seen(&mut chooser), [3]);
            // One that has failed a request is not asked again while there is another one, of whatever rank.
            cluster.set_up(NodeIndex(2));
            let but = chooser.choose(Time::ZERO, b"x", Kind::Invite, Some(NodeIndex(2)));
            assert_eq!(but, Some(NodeIndex(3)));
        }
    }

    #[test]
    fn nodes_that_do_not_take_calls_get_none_whatever_the_algorithm() {
        for (_, algorithm) in Algorithm::ALL {
            let cluster = of(3);
            let mut chooser = chooser(&cluster, algorithm);
            cluster.set_down(NodeIndex(0), Why::Silent);
            cluster.set_order(NodeIndex(2), Order::Drain);
            (0..20).for_each(|_| assert_eq!(choice(&mut chooser), 1, "{algorithm:?}"));
            let but = chooser.choose(Time::ZERO, b"x", Kind::Invite, Some(NodeIndex(1)));
            assert_eq!(but, Some(NodeIndex(1)), "the only one");
            cluster.set_order(NodeIndex(1), Order::Maintenance);
            assert_eq!(chooser.choose(Time::ZERO, b"x", Kind::Invite, None), None, "{algorithm:?}");
            assert_eq!(chooser.home(Time::ZERO, 7, false), None);
        }
    }
}
