//! The choice of a node for a new call.

use crate::hash::{fnv1a, openser_hash, scramble};
use crate::policy::maglev::Maglev;
use crate::policy::refusal_rate::Failing;
use crate::policy::times::Window;
use crate::timers::GIVE_UP;
use crate::{Algorithm, Cluster, Costs, Kind, Load, MOST_NODES, NodeIndex, UNIT};
use core::time::Duration;
use std::sync::Arc;
use wire::Time;

/// Places of a table that are looked at for another home than the first.
const PLACES_TRIED: u64 = 32;
/// In thousandths.
const HALF: u64 = 500;
/// The unit of a burden: this much for a thousandth of a node's load and a thousandth of its weight.
const BURDEN: u64 = 1 << 20;

/// One worker's way of choosing. Everything here is this worker's own; what others have given to the nodes
/// it reads from the [`Cluster`].
#[derive(Debug)]
pub struct Chooser {
    cluster: Arc<Cluster>,
    algorithm: Algorithm,
    costs: Costs,
    windows: Vec<Window>,
    maglev: Maglev,
    /// How far each node is behind its share, for taking turns by weight.
    credit: Vec<i64>,
    /// Where a search among equals begins, so that nobody is always first.
    turn: usize,
    random: u64,
    /// Nodes that take calls, of the choice being made, and when that is.
    open: Vec<NodeIndex>,
    now: Time,
    /// For how long the share of a node grows that has come up.
    ramp: Duration,
    /// How much of what nodes got lately they refused.
    failing: Failing,
    /// The same of what they refused with 503, which they say of themselves alone.
    full: Failing,
}

impl Chooser {
    /// A chooser that has seen nothing. `seed` spreads the choices of several workers.
    pub fn new(cluster: Arc<Cluster>, algorithm: Algorithm, costs: Costs, seed: u64) -> Chooser {
        let count = MOST_NODES;
        Chooser {
            algorithm,
            costs,
            windows: vec![Window::default(); count],
            maglev: Maglev::default(),
            credit: vec![0; count],
            turn: scramble(seed) as usize % count,
            random: seed,
            open: Vec::with_capacity(count),
            now: Time::ZERO,
            ramp: Duration::ZERO,
            failing: Failing::new(count),
            full: Failing::new(count),
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
    pub fn set_ramp(&mut self, ramp: Duration) {
        self.ramp = ramp;
    }

    /// Costs in thousandths of a BYE, as the algorithm in force counts them.
    pub fn costs(&self) -> [u32; Kind::COUNT] {
        self.costs.all(self.algorithm == Algorithm::TlwlAdaptive)
    }

    /// Costs as they were estimated, whatever the algorithm.
    pub fn estimated_costs(&self) -> [u32; Kind::COUNT] {
        self.costs.all(true)
    }

    /// A request was answered with a 2xx after `micros`, microseconds.
    pub fn answered(&mut self, at: NodeIndex, micros: u32) {
        if let Some(window) = self.windows.get_mut(usize::from(at.0)) {
            window.add(micros);
        }
    }

    /// An INVITE outside a dialog has its final response; `refused`: one that says that the node is not well
    /// (5xx). `full`: 503.
    pub fn invited(&mut self, now: Time, at: NodeIndex, refused: bool, full: bool) {
        self.failing.answered(now, at, refused);
        self.full.answered(now, at, full);
    }

    /// Whether a node has refused half of what it was given lately, or more, with 503.
    pub(crate) fn refuses_most(&self, now: Time, at: NodeIndex) -> bool {
        self.full.is_any(now) && self.full.part(now, at) >= HALF
    }

    /// What is known of a node was of another one that had its place.
    pub(crate) fn forget(&mut self, at: NodeIndex) {
        if let Some(window) = self.windows.get_mut(usize::from(at.0)) {
            *window = Window::default();
        }
        self.failing.forget(at);
        self.full.forget(at);
    }

    /// A request that had its node for itself was done after `micros`, microseconds.
    pub fn alone(&mut self, kind: Kind, micros: u32) {
        self.costs.sample(kind, micros);
    }

    /// The average response time that RWMA goes by, microseconds.
    pub fn average(&self, at: NodeIndex) -> u64 {
        self.windows.get(usize::from(at.0)).map_or(0, Window::average)
    }

    /// Work in thousandths of a BYE.
    pub fn work(&self, load: &Load) -> u64 {
        let costs = self.costs();
        load.open.iter().zip(costs).map(|(n, cost)| u64::from(*n) * u64::from(cost)).sum()
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
        self.choose_but(now, call_id, kind, but.as_slice())
    }

    /// As [`Chooser::choose`], but none of these, unless there is no other than the first of them.
    pub(crate) fn choose_but(
        &mut self,
        now: Time,
        call_id: &[u8],
        kind: Kind,
        but: &[NodeIndex],
    ) -> Option<NodeIndex> {
        self.look_around(now, but);
        if !but.is_empty() {
            self.spare_refusing();
        }
        match self.algorithm {
            Algorithm::Cjsq => self.least(|load, _| u64::from(load.calls), 1),
            Algorithm::Tjsq => self.least(|load, _| u64::from(load.transactions()), 1),
            Algorithm::Tlwl | Algorithm::TlwlAdaptive => {
                let costs = self.costs();
                let own = costs.get(kind as usize).copied().unwrap_or(UNIT);
                self.least(move |load, _| work(load, &costs), own.into())
            }
            Algorithm::Hash => self.by_hash(openser_hash(call_id).into()),
            Algorithm::FnvHash => self.by_hash(fnv1a(call_id)),
            Algorithm::RoundRobin => self.in_turn(),
            Algorithm::Rwma => self.fastest(),
            Algorithm::TwoChoices => self.of_two(kind),
            Algorithm::Maglev => self.place(scramble(fnv1a(call_id))),
        }
    }

    /// The node for something that has a home of its own by its `hash`, such as an address-of-record.
    pub fn home(&mut self, now: Time, hash: u64) -> Option<NodeIndex> {
        self.look_around(now, &[]);
        self.place(hash)
    }

    /// Another home for the same than these, unless there is none: always the same one while the same nodes
    /// take calls. Where these are all of their rank, one of the next, as [`Chooser::choose_but`] has it.
    pub(crate) fn home_but(&mut self, now: Time, hash: u64, but: &[NodeIndex]) -> Option<NodeIndex> {
        self.look_around(now, &[]);
        // A table without those nodes, made for this one and then made anew, would cost too much.
        let others = (1..=PLACES_TRIED).map(|n| scramble(hash.wrapping_add(n)));
        let hashes = core::iter::once(hash).chain(others);
        let other = hashes.filter_map(|hash| self.place(hash)).find(|at| !but.contains(at));
        let next = |this: &mut Chooser| {
            this.look_around(now, but);
            this.open.retain(|at| !but.contains(at));
            let nth = scramble(hash) as usize % this.open.len().max(1);
            this.open.get(nth).copied()
        };
        other.or_else(|| next(self))
    }

    /// A number at random.
    pub(crate) fn dice(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.random)
    }

    fn look_around(&mut self, now: Time, but: &[NodeIndex]) {
        self.now = now;
        self.open.clear();
        let cluster = &self.cluster;
        self.open.extend(cluster.indexes().filter(|at| cluster.takes_calls(now, *at) && !but.contains(at)));
        if self.open.is_empty()
            && let Some(only) = but.first().filter(|at| self.cluster.takes_calls(now, **at))
        {
            self.open.push(*only);
        }
        if self.open.is_empty() {
            self.make_do(now, but);
        }
        let cluster = &self.cluster;
        if cluster.is_ranked() {
            let best = self.open.iter().map(|at| cluster.rank(*at)).min();
            self.open.retain(|at| Some(cluster.rank(*at)) == best);
        }
    }

    /// Nobody takes calls: those who are left, if any, and of these none that another attempt is not to have.
    #[cold]
    fn make_do(&mut self, now: Time, but: &[NodeIndex]) {
        let cluster = &self.cluster;
        let Some(best) = cluster.best_standing(now).filter(|best| *best > 0) else { return };
        let left = |at: &NodeIndex| cluster.standing(now, *at) == Some(best);
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

    /// The node that would be the least loaded for its weight with one more call, which adds `own`. Among
    /// equals the search begins with another one each time.
    fn least(&mut self, measure: impl Fn(&Load, NodeIndex) -> u64, own: u64) -> Option<NodeIndex> {
        let count = self.open.len();
        self.turn = (self.turn + 1) % count.max(1);
        if self.failing.is_any(self.now) {
            let burden = |at| self.burden(measure(&self.cluster.load(at), at) + own, at);
            return self.least_of_failing(burden);
        }
        let mut best: Option<(u64, u64, NodeIndex)> = None;
        for step in 0..count {
            let Some(&at) = self.open.get((self.turn + step) % count) else { continue };
            let load = measure(&self.cluster.load(at), at) + own;
            let weight = self.share(at);
            // load / weight < best / weight of best, without a division.
            let better = best.is_none_or(|(least, its_weight, _)| load * its_weight < least * weight);
            if better {
                best = Some((load, weight, at));
            }
        }
        best.map(|(_, _, at)| at)
    }

    /// What a node has to do for its share, where that has to be added to.
    fn burden(&self, load: u64, at: NodeIndex) -> u64 {
        load.saturating_mul(BURDEN) / self.share(at).max(1)
    }

    /// The same where some have refused calls lately: who refuses at once has nothing to do, and would draw
    /// all of them. It counts as having as much more as it refuses: with half of its answers as much as who
    /// has the most.
    #[cold]
    fn least_of_failing(&self, burden: impl Fn(NodeIndex) -> u64) -> Option<NodeIndex> {
        let count = self.open.len();
        let nodes = (0..count).filter_map(|step| self.open.get((self.turn + step) % count).copied());
        let most = nodes.clone().map(&burden).max()?;
        nodes.min_by_key(|at| self.with_refusals(burden(*at), most, *at))
    }

    fn with_refusals(&self, burden: u64, most: u64, at: NodeIndex) -> u64 {
        burden.saturating_add((most / 1_000).saturating_mul(2 * self.failing.part(self.now, at)))
    }

    fn share(&self, at: NodeIndex) -> u64 {
        self.cluster.share(self.now, at, self.ramp)
    }

    /// The node whose part of the weights `hash` falls into.
    fn by_hash(&self, hash: u64) -> Option<NodeIndex> {
        self.part_of(hash, None, |at| u64::from(self.cluster.weight(at)))
    }

    /// The node whose part of such weights a number falls into, as if one of them were not there.
    fn part_of(
        &self,
        number: u64,
        but: Option<NodeIndex>,
        weight: impl Fn(NodeIndex) -> u64,
    ) -> Option<NodeIndex> {
        let all = || self.open.iter().copied().filter(move |at| Some(*at) != but);
        let mut rest = number % all().map(&weight).sum::<u64>().max(1);
        all().find(|at| {
            let weight = weight(*at);
            let here = rest < weight;
            rest = rest.saturating_sub(weight);
            here
        })
    }

    /// Each in turn; a node of weight three has three turns of a round, spread over it.
    fn in_turn(&mut self) -> Option<NodeIndex> {
        let mut first: Option<(i64, NodeIndex)> = None;
        let total: u64 = self.open.iter().map(|at| self.share(*at)).sum();
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        for &at in &self.open {
            let share = i64::try_from(self.cluster.share(self.now, at, self.ramp)).unwrap_or(i64::MAX);
            let Some(credit) = self.credit.get_mut(usize::from(at.0)) else { continue };
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

    /// The lowest average response time for its weight. Who has not answered anything yet has one request,
    /// and until that is answered counts as the mean of the others: or one that was just added would have all
    /// calls at once.
    fn fastest(&mut self) -> Option<NodeIndex> {
        let count = self.open.len();
        self.turn = (self.turn + 1) % count.max(1);
        let nodes = (0..count).filter_map(|step| self.open.get((self.turn + step) % count).copied());
        let known = nodes.clone().map(|at| self.average(at)).filter(|average| *average > 0);
        let mean = known.clone().sum::<u64>() / known.count().max(1) as u64;
        let tried = |at: NodeIndex| self.windows.get(usize::from(at.0)).is_some_and(|w| w.tried > self.now);
        let average = |at: NodeIndex| match self.average(at) {
            0 if tried(at) => mean,
            average => average,
        };
        let best = nodes.min_by_key(|at| average(*at) * 1_000 * u64::from(UNIT) / self.share(*at).max(1))?;
        if self.average(best) == 0
            && let Some(window) = self.windows.get_mut(usize::from(best.0))
        {
            window.tried = self.now + GIVE_UP;
        }
        Some(best)
    }

    fn of_two(&mut self, kind: Kind) -> Option<NodeIndex> {
        let one = self.drawn(None)?;
        let other = self.drawn(Some(one)).unwrap_or(one);
        let costs = self.costs();
        let own = u64::from(costs.get(kind as usize).copied().unwrap_or(UNIT));
        let load = |at| work(&self.cluster.load(at), &costs) + own;
        if self.failing.is_any(self.now) {
            let [a, b] = [one, other].map(|at| self.burden(load(at), at));
            let [a, b] = [(a, one), (b, other)].map(|(own, at)| self.with_refusals(own, a.max(b), at));
            return Some(if b < a { other } else { one });
        }
        let weight = |at| self.share(at);
        Some(if load(other) * weight(one) < load(one) * weight(other) { other } else { one })
    }

    /// One drawn by weight; `but`: not this one.
    fn drawn(&mut self, but: Option<NodeIndex>) -> Option<NodeIndex> {
        let number = self.dice();
        self.part_of(number, but, |at| self.share(at))
    }
}

fn work(load: &Load, costs: &[u32; Kind::COUNT]) -> u64 {
    load.open.iter().zip(costs).map(|(n, cost)| u64::from(*n) * u64::from(*cost)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::health::{Order, Why};
    use crate::cluster::of;

    fn load(calls: u32, invites: u32, byes: u32) -> Load {
        Load { calls, open: [invites, byes, 0, 0], unanswered: 0 }
    }

    fn chooser(cluster: &Arc<Cluster>, algorithm: Algorithm) -> Chooser {
        Chooser::new(Arc::clone(cluster), algorithm, Costs::default(), 7)
    }

    fn choice(chooser: &mut Chooser) -> u16 {
        chooser.choose(Time::ZERO, b"a@b", Kind::Invite, None).expect("a node").0
    }

    #[test]
    fn each_of_the_three_looks_at_its_own_measure() {
        let cluster = of(3);
        // Most calls and nothing to do; few calls and two BYEs; fewest calls and one INVITE.
        for (at, load) in [(0, load(9, 0, 0)), (1, load(5, 0, 2)), (2, load(1, 1, 0))] {
            cluster.loads().publish(0, NodeIndex(at), &load, 0);
        }
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Cjsq)), 2);
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tjsq)), 0);
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tlwl)), 0);
        // One INVITE is less than two BYEs, and more than one.
        cluster.set_order(NodeIndex(0), Order::Drain);
        assert_eq!(choice(&mut chooser(&cluster, Algorithm::Tlwl)), 2);
        cluster.loads().publish(0, NodeIndex(1), &load(5, 0, 1), 0);
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
            let home = chooser.home_but(Time::ZERO, hash, &first).expect("a node");
            by_home[usize::from(home.0)] += 1;
            let least = chooser.choose_but(Time::ZERO, b"a@b", Kind::Invite, &first).expect("a node");
            by_load[usize::from(least.0)] += 1;
            // One of three sheds: the others have it, and all of them.
            let other = chooser.home_but(Time::ZERO, hash, &first[..1]).expect("a node");
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
        cluster.loads().publish(0, NodeIndex(0), &load(6, 6, 0), 0);
        cluster.loads().publish(0, NodeIndex(1), &load(1, 1, 0), 0);
        // 7 for 4 against 2 for 1.
        for algorithm in [Algorithm::Cjsq, Algorithm::Tjsq, Algorithm::Tlwl] {
            assert_eq!(choice(&mut chooser(&cluster, algorithm)), 0, "{algorithm:?}");
        }
        cluster.loads().publish(0, NodeIndex(0), &load(8, 8, 0), 0);
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
        cluster.loads().publish(0, NodeIndex(2), &load(1, 1, 0), 1);
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
        for algorithm in [Algorithm::RoundRobin, Algorithm::TwoChoices] {
            let cluster = of(3);
            let mut chooser = chooser(&cluster, algorithm);
            chooser.set_ramp(Duration::from_secs(10));
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
    fn of_two_the_less_loaded_and_never_the_most_loaded() {
        let cluster = of(4);
        for at in 0..4 {
            cluster.loads().publish(0, NodeIndex(at), &load(0, u32::from(at), 0), 0);
        }
        let mut chooser = chooser(&cluster, Algorithm::TwoChoices);
        let mut counts = [0u32; 4];
        (0..1_600).for_each(|_| counts[usize::from(choice(&mut chooser))] += 1);
        // 3, 2, 1 and none of 6 pairs: never twice the same.
        assert!(counts.is_sorted_by(|a, b| a > b) && counts[3] == 0, "{counts:?}");
    }

    #[test]
    fn another_home_is_the_one_that_all_have_where_the_first_takes_no_calls() {
        let cluster = of(5);
        let mut chooser = chooser(&cluster, Algorithm::Tlwl);
        for hash in 0..100 {
            let first = chooser.home(Time::ZERO, hash).expect("a home");
            assert_ne!(chooser.home_but(Time::ZERO, hash, &[first]), Some(first));
            cluster.set_order(first, Order::Drain);
            let second = chooser.home(Time::ZERO, hash);
            assert_eq!(chooser.home_but(Time::ZERO, hash, &[first]), second, "{hash}");
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
            assert_eq!(chooser.home(Time::ZERO, 7), None);
        }
    }
}
