//! The nodes as all workers see them: who they are, whether they take calls, and how much each of them
//! has to do.
//!
//! What is shared is atomics that are read far more often than written.

pub(crate) mod health;
mod last_resort;
pub(crate) mod loads;
pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod outliers;
pub(crate) mod probes;
pub(crate) mod proven_addresses;
mod removal;
pub(crate) mod rest;
pub(crate) mod stats;

use crate::cluster::health::{ORDERS, pick};
use crate::cluster::loads::Loads;
use crate::cluster::members::Members;
use crate::cluster::names::NodeNames;
use crate::cluster::proven_addresses::Proven;
use crate::cluster::rest::Rest;
use crate::{Health, Load, Node, NodeIndex, Order, Why};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use sip_health::Vital;
use std::sync::Arc;
use wire::Time;

/// Most nodes of one balancer, those that were removed and still have calls included.
pub const MOST_NODES: usize = 256;

/// The shared state of one node.
#[derive(Debug)]
struct State {
    order: AtomicU8,
    /// Whether it answers.
    vital: Vital,
    weight: AtomicU32,
    /// Nothing new goes to it while a node of a lower rank takes calls.
    rank: AtomicU32,
    /// Why it gets no new calls though it answers.
    rest: Rest,
    /// Microseconds at which it came up or was added; zero: it was there from the start.
    since: AtomicU64,
    /// It says by itself how overloaded it is (RFC 7339).
    speaks: AtomicBool,
    /// Microseconds at which it was removed.
    removed: AtomicU64,
}

/// All nodes; shared by all workers.
#[derive(Debug)]
pub struct Cluster {
    members: Members,
    names: NodeNames,
    states: Box<[State]>,
    loads: Loads,
    /// Changes whenever the set of nodes that take calls, or a weight, may have changed.
    generation: AtomicU32,
    /// Some node has had another rank than the lowest.
    ranked: AtomicBool,
    proven: Proven,
}

/// Why a node cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAdded {
    /// It is there.
    There,
    /// Another one, at this place, looks the same in tokens.
    Alike(NodeIndex),
    /// There are [`MOST_NODES`], counting those that were removed and still have calls.
    Full,
}

impl State {
    fn new() -> State {
        State {
            order: AtomicU8::new(Order::Serve as u8),
            vital: Vital::default(),
            weight: AtomicU32::new(1),
            rank: AtomicU32::new(0),
            rest: Rest::default(),
            since: AtomicU64::new(0),
            speaks: AtomicBool::new(false),
            removed: AtomicU64::new(0),
        }
    }

    /// As it was at first.
    fn reset(&self) {
        self.vital.reset();
        self.rest.reset();
        self.removed.store(0, Relaxed);
        self.speaks.store(false, Relaxed);
    }
}

impl Cluster {
    /// A cluster whose nodes nobody has tried yet. `nodes`: at most [`MOST_NODES`], and none twice; the
    /// others are left out.
    pub fn new(nodes: Vec<Node>, workers: u16) -> Arc<Cluster> {
        let cluster = Cluster {
            members: Members::new(MOST_NODES),
            names: NodeNames::default(),
            states: (0..MOST_NODES).map(|_| State::new()).collect(),
            loads: Loads::new(workers, MOST_NODES),
            generation: AtomicU32::new(1),
            ranked: AtomicBool::new(false),
            proven: Proven::default(),
        };
        for node in nodes {
            let _ = cluster.add(Time::ZERO, &node);
        }
        Arc::new(cluster)
    }

    /// Adds a node. One that was removed comes back to the place that it had. To be called by one thread at a
    /// time.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn add(&self, now: Time, node: &Node) -> Result<NodeIndex, NotAdded> {
        self.add_ranked(now, node, 0)
    }

    /// As [`Cluster::add`], with a rank: see [`Cluster::set_rank`].
    ///
    /// # Errors
    /// If that cannot be.
    pub fn add_ranked(&self, now: Time, node: &Node, rank: u16) -> Result<NodeIndex, NotAdded> {
        let at = match self.members.by_id(node.id()) {
            Some(at) if self.node(at).is_some_and(|n| !same_place(n.address, node.address)) => {
                return Err(NotAdded::Alike(at));
            }
            Some(at) if self.order(at) != Order::Removed => return Err(NotAdded::There),
            Some(at) => at,
            None => self.free_place(now).ok_or(NotAdded::Full)?,
        };
        self.members.put(at, node);
        self.set_rank(at, rank);
        if let Some(state) = self.state(at) {
            state.reset();
            state.weight.store(node.weight.clamp(1, 1_000), Relaxed);
            state.since.store(now.as_micros(), Relaxed);
            state.order.store(Order::Serve as u8, Relaxed);
        }
        self.changed();
        Ok(at)
    }

    /// The names that nodes over TLS must prove.
    pub fn names(&self) -> &NodeNames {
        &self.names
    }

    /// Changes how a node is reached, and its share. Its address is what it is.
    pub fn change(&self, at: NodeIndex, node: &Node) {
        self.members.change(at, node);
        self.set_weight(at, node.weight);
    }

    /// A node, with the share that it has now.
    pub fn node(&self, at: NodeIndex) -> Option<Node> {
        self.members.get(at).map(|node| Node { weight: self.weight(at), ..node })
    }

    /// The places of all nodes, those that were removed and still known included.
    pub fn indexes(&self) -> impl ExactSizeIterator<Item = NodeIndex> + use<> {
        (0..self.members.used() as u16).map(NodeIndex)
    }

    /// All nodes with their places, but those that were removed and have nothing left.
    pub fn members(&self) -> impl Iterator<Item = (NodeIndex, Node)> + '_ {
        let there = |at: &NodeIndex| self.order(*at) != Order::Removed || self.held(*at) > 0;
        self.indexes().filter(there).filter_map(|at| Some((at, self.node(at)?)))
    }

    /// What tokens call a node; zero: there is none.
    pub fn id(&self, at: NodeIndex) -> u32 {
        self.members.id(at)
    }

    /// The node that tokens call `id`.
    pub fn by_id(&self, id: u32) -> Option<NodeIndex> {
        self.members.by_id(id)
    }

    /// The node at an address, written in whatever form.
    pub fn at(&self, address: SocketAddr) -> Option<NodeIndex> {
        self.by_id(Node::new(address).id())
            .filter(|at| self.node(*at).is_some_and(|n| same_place(n.address, address)))
    }

    /// Whether some node has this IP address.
    pub fn is_node_ip(&self, ip: core::net::IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.indexes().any(|at| self.members.get(at).is_some_and(|n| n.address.ip() == ip))
    }

    /// Addresses that have shown that they receive.
    pub(crate) fn proven(&self) -> &Proven {
        &self.proven
    }

    fn state(&self, at: NodeIndex) -> Option<&State> {
        invariant::some!(self.states.get(usize::from(at.0)), "a node has a place")
    }

    /// What the operator wants of it.
    pub fn order(&self, at: NodeIndex) -> Order {
        self.state(at).map_or(Order::Maintenance, |s| pick(&ORDERS, s.order.load(Relaxed), Order::Serve))
    }

    /// Changes what the operator wants of it.
    pub fn set_order(&self, at: NodeIndex, order: Order) {
        if let Some(state) = self.state(at) {
            state.order.store(order as u8, Relaxed);
            self.changed();
        }
    }

    /// Its share, 1 to 1000.
    pub fn weight(&self, at: NodeIndex) -> u32 {
        self.state(at).map_or(1, |s| s.weight.load(Relaxed))
    }

    /// Changes its share; brought into 1 to 1000.
    pub fn set_weight(&self, at: NodeIndex, weight: u32) {
        if let Some(state) = self.state(at) {
            state.weight.store(weight.clamp(1, 1_000), Relaxed);
            self.changed();
        }
    }

    /// Its rank.
    pub fn rank(&self, at: NodeIndex) -> u32 {
        self.state(at).map_or(0, |s| s.rank.load(Relaxed))
    }

    /// Changes its rank: what is new goes to nodes of the lowest rank that has one which takes calls (the
    /// priorities of RFC 2782, counted from zero). What was begun stays where it is.
    pub fn set_rank(&self, at: NodeIndex, rank: u16) {
        if rank > 0 {
            self.ranked.store(true, Relaxed);
        }
        if let Some(state) = self.state(at).filter(|state| state.rank.load(Relaxed) != u32::from(rank)) {
            state.rank.store(rank.into(), Relaxed);
            self.changed();
        }
    }

    /// Whether ranks have to be looked at.
    pub(crate) fn is_ranked(&self) -> bool {
        self.ranked.load(Relaxed)
    }

    /// Whether it answers, and why that is believed.
    pub fn health(&self, at: NodeIndex) -> (Health, Why) {
        self.state(at).map_or((Health::Down, Why::Nothing), |s| s.vital.health())
    }

    /// Why it gets what it gets now, for people.
    pub fn reason(&self, now: Time, at: NodeIndex) -> Why {
        let (health, why) = self.health(at);
        let rests = |how: fn(&Rest, Time) -> bool| self.rest_of(at).is_some_and(|rest| how(rest, now));
        match health {
            Health::Down => why,
            _ if rests(Rest::is_out) || self.is_silent(at) => why,
            _ if rests(Rest::is_ejected) => Why::Outlier,
            _ if self.resting_until(now, at).is_some() => Why::Overloaded,
            Health::Unknown => Why::Nothing,
            Health::Up => Why::Answered,
        }
    }

    /// How often it has gone down.
    pub fn falls(&self, at: NodeIndex) -> u32 {
        self.state(at).map_or(0, |s| s.vital.falls())
    }

    /// Until when it rests, if it does.
    pub fn resting_until(&self, now: Time, at: NodeIndex) -> Option<Time> {
        self.state(at)?.rest.until(now)
    }

    /// Whether nobody else takes calls. What is left without such a one is worse than it is.
    pub(crate) fn is_last(&self, now: Time, at: NodeIndex) -> bool {
        !self.indexes().any(|other| other != at && self.takes_calls(now, other))
    }

    /// A thousand times its share, and less while it has not been up for as long as `ramp`: from a tenth on,
    /// so that whoever comes up cold is not given everything at once.
    pub(crate) fn share(&self, now: Time, at: NodeIndex, ramp: Duration) -> u64 {
        let whole = u64::from(self.weight(at)) * 1_000;
        let since = self.state(at).map_or(0, |s| s.since.load(Relaxed));
        let (up, ramp) = (now.as_micros().saturating_sub(since), ramp.as_micros() as u64);
        match since == 0 || up >= ramp {
            true => whole,
            false => (whole * up / ramp).max(whole / 10).max(1),
        }
    }

    /// Whether messages of calls it has may go there.
    pub fn is_usable(&self, now: Time, at: NodeIndex) -> bool {
        self.order(at) != Order::Maintenance
            && self.state(at).is_some_and(|s| s.vital.health().0 != Health::Down && !s.rest.is_out(now))
    }

    /// Why it gets no new calls though it answers.
    pub(crate) fn rest_of(&self, at: NodeIndex) -> Option<&Rest> {
        self.state(at).map(|state| &state.rest)
    }

    /// Whether it answers.
    pub(crate) fn vital(&self, at: NodeIndex) -> Option<&Vital> {
        self.state(at).map(|state| &state.vital)
    }

    /// Whether it left requests without an answer, and nothing has come from it since.
    pub fn is_silent(&self, at: NodeIndex) -> bool {
        self.state(at).is_some_and(|s| s.vital.is_silent())
    }

    /// Whether new calls may go there while other nodes are available: see [`Cluster::gets_calls`].
    pub fn takes_calls(&self, now: Time, at: NodeIndex) -> bool {
        self.order(at) == Order::Serve
            && self.state(at).is_some_and(|s| s.vital.takes_calls())
            && self.resting_until(now, at).is_none()
    }

    /// Something came from it that it owed: it lives.
    pub fn heard(&self, now: Time, at: NodeIndex) {
        let Some(state) = self.state(at) else { return };
        state.rest.heard();
        if state.vital.heard(now) {
            self.changed();
        }
    }

    /// A request to it was not answered: it is to be probed at once. After `most` of these with nothing heard
    /// in between it gets no new calls, until it is heard or a probe is answered. `rest`: nobody probes it,
    /// and it counts as failed for so long. Never the last one that takes calls: what is left without it is
    /// worse.
    pub fn failed(&self, now: Time, at: NodeIndex, why: Why, most: u32, rest: Option<Duration>) {
        let Some(state) = self.state(at) else { return };
        let failures = state.vital.failed();
        if failures < most || self.is_last(now, at) {
            return;
        }
        match rest {
            Some(time) => {
                state.vital.judged(why);
                state.rest.put_out(now + time);
                self.changed();
            }
            None if state.vital.set_silent(why) => self.changed(),
            None => {}
        }
    }

    /// It left a request without anything for so long that it is doubted: it is to be probed at once, and
    /// gets no new calls until it is heard or the probe answered; but never the last one that takes calls.
    /// Says whether it is.
    pub fn suspect(&self, now: Time, at: NodeIndex) -> bool {
        let Some(state) = self.state(at) else { return false };
        state.vital.want_probe();
        if self.is_last(now, at) {
            return false;
        }
        if state.vital.set_silent(Why::Silent) {
            self.changed();
        }
        true
    }

    /// Whether it has shown that it says by itself how overloaded it is (RFC 7339).
    pub fn speaks(&self, at: NodeIndex) -> bool {
        self.state(at).is_some_and(|s| s.speaks.load(Relaxed))
    }

    /// It has shown that, or the contrary.
    pub(crate) fn set_speaks(&self, at: NodeIndex, speaks: bool) {
        if let Some(state) = self.state(at).filter(|state| state.speaks.load(Relaxed) != speaks) {
            state.speaks.store(speaks, Relaxed);
        }
    }

    /// It is to be probed at once.
    pub(crate) fn want_probe(&self, at: NodeIndex) {
        if let Some(state) = self.state(at) {
            state.vital.want_probe();
        }
    }

    /// Nobody probes any more: what probes, or their absence, said of nodes no longer holds.
    pub fn forget_probes(&self) {
        for state in self.states.iter().take(self.members.used()) {
            state.vital.forget_probes();
            state.speaks.store(false, Relaxed);
            state.rest.forget_probes();
        }
        self.changed();
    }

    /// It answers again.
    pub fn set_up(&self, at: NodeIndex) {
        if self.state(at).is_some_and(|state| state.vital.set_up()) {
            self.changed();
        }
    }

    /// As [`Cluster::set_up`]; one that was down gets its share slowly from now on.
    pub(crate) fn came_up(&self, now: Time, at: NodeIndex) {
        if let Some(state) = self.state(at).filter(|_| self.health(at).0 == Health::Down) {
            state.since.store(now.as_micros(), Relaxed);
        }
        self.set_up(at);
    }

    /// It does not answer.
    pub fn set_down(&self, at: NodeIndex, why: Why) {
        if self.state(at).is_some_and(|state| state.vital.set_down(why)) {
            self.changed();
        }
    }

    /// It gets no new calls for a while, at its own wish or because it is far worse than the others; but
    /// never the last one that takes calls.
    pub fn rest(&self, now: Time, at: NodeIndex, time: Duration, why: Why) {
        let Some(state) = self.state(at).filter(|_| !time.is_zero() && !self.is_last(now, at)) else {
            return;
        };
        match why {
            Why::Outlier => state.rest.eject(now + time),
            _ => state.rest.after_refusal(now, time),
        }
    }

    /// The same, asked for in the answer to a probe: a good answer to a later one ends it.
    pub(crate) fn rest_by_probe(&self, now: Time, at: NodeIndex, time: Duration) {
        if let Some(state) = self.state(at).filter(|_| !self.is_last(now, at)) {
            state.rest.by_probe(now + time);
        }
    }

    /// A probe that was `sent` then has a good answer, which may end a rest: see [`Rest::probed_well`]. After
    /// that it gets its share slowly.
    pub(crate) fn has_rested(&self, now: Time, at: NodeIndex, sent: Time) {
        if let Some(state) = self.state(at)
            && let Some(over) = state.rest.probed_well(now, sent)
        {
            state.since.store(over.as_micros(), Relaxed);
        }
    }

    /// Counts changes of the set of nodes that take calls.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Relaxed);
    }

    /// What all workers have given to the nodes.
    pub(crate) fn loads(&self) -> &Loads {
        &self.loads
    }

    /// What a node has to do: the sum over all workers.
    pub fn load(&self, at: NodeIndex) -> Load {
        self.loads.of(at)
    }

    /// Records of all workers that name a node, calls and transactions that are over included.
    pub fn held(&self, at: NodeIndex) -> u32 {
        self.loads.held(at)
    }
}

fn same_place(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}

#[cfg(test)]
pub(crate) fn of(count: u16) -> Arc<Cluster> {
    let node = |i: u16| Node::new(SocketAddr::new([192, 0, 2, i as u8].into(), 5060));
    Cluster::new((1..=count).map(node).collect(), 1)
}

#[cfg(test)]
mod tests;
