//! Which node a request goes to, and what its response means: session-aware request assignment.
//!
//! Nothing here reads a message; a request is what [`Request`] says of it. The machine makes these from
//! bytes, simulations and property tests from nothing.

use crate::cluster::outliers::Outliers;
use crate::cluster::overload::Refused;
use crate::failover::budget::Budget;
use crate::sessions::table::{Place, Sessions, Txn, TxnPlace};
use crate::timers::{GIVE_UP, LATE};
use crate::{
    Algorithm, Answer, Assigned, CallKey, Chooser, Cluster, Costs, FailedDialogs, Kind, Load, MOST_NODES,
    NoWay, NodeIndex, NodeStats, Phase, Request, Rules, Seen, Tag, Why,
};
use core::net::SocketAddr;
use core::time::Duration;
use sip_proxy::feedback::Neighbours;
use std::sync::Arc;
use wire::Time;

/// A refusal counts as an answer that took so long at least, microseconds: T1.
const REFUSED: u32 = 500_000;
/// Longest rest that a Retry-After can ask for.
pub(crate) const LONGEST_REST: Duration = Duration::from_secs(600);

/// What happened, in numbers that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Happened {
    /// Transactions given to nodes.
    pub assigned: u64,
    /// Requests that had been forwarded before.
    pub repeated: u64,
    /// Transactions given to another node because theirs failed before it said anything.
    pub retried: u64,
    /// Calls given to another node because theirs failed.
    pub moved: u64,
    /// Transactions that were never finished.
    pub timed_out: u64,
    /// Calls whose end was never seen.
    pub lost_calls: u64,
    /// Requests for which there was no node.
    pub no_node: u64,
    /// Requests for which there was no room.
    pub full: u64,
    /// Requests of known calls that were forwarded without a record, because there was no room for one.
    pub unrecorded: u64,
    /// New requests that did not go to the node that they would have gone to, because it asks for less.
    pub held_back: u64,
}

/// One worker's dispatcher.
#[derive(Debug)]
pub struct Dispatcher {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) chooser: Chooser,
    pub(crate) sessions: Sessions,
    pub(crate) rules: Rules,
    stats: Vec<NodeStats>,
    /// The nodes' ids, as tokens have them.
    of: Vec<u32>,
    pub(crate) outliers: Outliers,
    /// Nodes that ask for less, by their addresses, and room to list them.
    pub(crate) neighbours: Neighbours,
    pub(crate) asking: Vec<NodeIndex>,
    pub(crate) refused: Refused,
    /// What may leave nodes that ignore it.
    pub(crate) budget: Budget,
    pub(crate) happened: Happened,
}

impl Dispatcher {
    /// A dispatcher for one worker of `cluster`, with room for `most` calls. `seed` spreads choices of workers.
    pub fn new(
        cluster: Arc<Cluster>,
        worker: u16,
        algorithm: Algorithm,
        rules: Rules,
        most: usize,
        seed: u64,
    ) -> Dispatcher {
        let mut chooser = Chooser::new(Arc::clone(&cluster), algorithm, Costs::default(), seed);
        chooser.set_ramp(rules.slow_start);
        Dispatcher {
            chooser,
            outliers: Outliers::default(),
            sessions: Sessions::new(Arc::clone(&cluster), worker, most),
            stats: Vec::new(),
            of: Vec::new(),
            rules,
            neighbours: Neighbours::default(),
            asking: Vec::new(),
            refused: Refused::default(),
            budget: Budget::default(),
            happened: Happened::default(),
            cluster,
        }
    }

    /// The nodes.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Changes the rules and the algorithm; calls that are there keep their nodes.
    pub fn set(&mut self, algorithm: Algorithm, rules: Rules) {
        self.chooser.set_algorithm(algorithm);
        self.chooser.set_ramp(rules.slow_start);
        self.rules = rules;
    }

    /// How nodes are chosen.
    pub fn chooser(&self) -> &Chooser {
        &self.chooser
    }

    /// What happened so far.
    pub fn happened(&self) -> Happened {
        self.happened
    }

    /// What this worker knows of each node, up to the last one it has met.
    pub fn stats(&self) -> &[NodeStats] {
        &self.stats
    }

    fn stats_of(&mut self, node: NodeIndex) -> Option<&mut NodeStats> {
        let at = usize::from(node.0);
        if at >= self.stats.len() && at < MOST_NODES {
            self.stats.resize_with(at + 1, NodeStats::default);
            self.of.resize(at + 1, 0);
        }
        let (stats, of, id) = (self.stats.get_mut(at)?, self.of.get_mut(at)?, self.cluster.id(node));
        if *of != id {
            // The place is another node's by now.
            *of = id;
            *stats = NodeStats::default();
            self.chooser.forget(node);
        }
        Some(stats)
    }

    /// What this worker has given to each node.
    pub fn loads(&self) -> &[Load] {
        self.sessions.loads()
    }

    /// The same counted anew from the records, all of which it looks at.
    pub fn recount(&self) -> Vec<Load> {
        self.sessions.recount()
    }

    /// Whether all counters are what the records say, of which it looks at all.
    pub fn is_exact(&self) -> bool {
        self.sessions.recount() == self.sessions.loads()
            && self.sessions.recount_held() == self.sessions.held()
    }

    /// Calls and dialogs alive, calls that are over and remembered, and transactions in memory.
    pub fn held(&self) -> (usize, usize, usize) {
        (self.sessions.alive(), self.sessions.ended(), self.sessions.transactions())
    }

    /// Whether something is known of a call, be it over.
    pub fn knows(&self, call: CallKey) -> bool {
        self.sessions.find(call).is_some()
    }

    /// Where a request goes.
    ///
    /// # Errors
    /// If it goes nowhere.
    pub fn request(&mut self, now: Time, r: &Request<'_>) -> Result<Assigned, NoWay> {
        let found = self.sessions.find(r.call);
        if let Some(at) = found
            && let Some(txn) = self.sessions.find_txn(at, r.id, r.tag)
        {
            return self.repeated(now, r, at, txn);
        }
        let mut large = r.large;
        let node = match r.tag {
            // It goes the way of its INVITE (RFC 3261 section 9.1).
            Tag::Cancel => match self.cancel(now, r, found) {
                Some(txn) => {
                    large = txn.large;
                    Some(txn.node)
                }
                // Whoever has the call may know an INVITE that is not known here (16.10).
                None => r.token.or_else(|| found.map(|at| self.sessions.node(at))),
            },
            _ if r.inside => {
                let node = self.node_of_dialog(now, r, found).inspect_err(|_| self.happened.no_node += 1)?;
                Some(self.goes_first(now, node))
            }
            _ => Some(self.node_of_new(now, r, found).inspect_err(|why| {
                self.happened.no_node += u64::from(*why == NoWay::NoNode);
            })?),
        };
        let node = node.ok_or(NoWay::NoCall)?;
        let r = &Request { large, ..*r };
        // What belongs to a known call is not refused because memory is short: its way is clear without a record.
        let (known, own) = (found.is_some(), r.inside && (found.is_some() || r.token.is_some()));
        let (begun, clear) = match self.enter(now, r, found, node) {
            Some(at) => (self.begin(now, r, at, node), known || own),
            None => (None, own),
        };
        match begun {
            Some(assigned) => Ok(assigned),
            None if clear => {
                self.unrecorded(now, r, found);
                Ok(Assigned { node, again: false, large })
            }
            None => {
                self.happened.full += 1;
                Err(NoWay::Full)
            }
        }
    }

    /// Where an ACK goes: to who has the INVITE it belongs to, or the dialog. `large`: it is too long for a datagram.
    /// `lost`: its Call-ID, if it may belong to a dialog that is known by its record alone, and there is none.
    pub fn ack(
        &mut self,
        now: Time,
        call: CallKey,
        id: u64,
        token: Option<NodeIndex>,
        (large, lost): (bool, Option<&[u8]>),
    ) -> Option<Assigned> {
        let at = self.sessions.find(call);
        let invite = at.and_then(|at| self.sessions.find_txn(at, id, Tag::Invite));
        if let Some(txn) = invite.and_then(|place| self.sessions.txn(place)) {
            return Some(Assigned { node: txn.node, again: true, large: txn.large });
        }
        // After a 2xx it is a transaction of its own, which nothing answers.
        let usable = token.filter(|at| self.cluster.is_usable(now, *at));
        let known = usable.or(at.map(|at| self.sessions.node(at))).or(token);
        // As with any other request of such a dialog.
        let node = known.or_else(|| self.chooser.choose(now, lost?, Kind::Other, None))?;
        self.goes_first(now, node);
        Some(Assigned { node, again: false, large })
    }

    /// The INVITE that a CANCEL is for. Its sender waits 64*T1 for its end, and no longer (RFC 3261 section 9.1).
    fn cancel(&mut self, now: Time, r: &Request<'_>, found: Option<Place>) -> Option<Txn> {
        let place = self.sessions.find_txn(found?, r.id, Tag::Invite)?;
        self.sessions.note(place, |txn| (txn.cancelled, txn.until) = (true, txn.until.min(now + LATE)));
        self.sessions.txn(place).copied()
    }

    /// The node of a dialog: as its token has it, for a call may have dialogs at two nodes, or its record. Without
    /// either it never was ours, or began before a restart in transparent mode; then the place of its Call-ID is
    /// as good a guess as any.
    pub(crate) fn node_of_dialog(
        &mut self,
        now: Time,
        r: &Request<'_>,
        found: Option<Place>,
    ) -> Result<NodeIndex, NoWay> {
        let owners = [r.token, found.map(|at| self.sessions.node(at))];
        let Some(own) = owners.into_iter().flatten().next() else {
            return self.chooser.choose(now, r.call_id, r.tag.kind(), None).ok_or(NoWay::NoNode);
        };
        if self.cluster.is_usable(now, own) {
            return Ok(own);
        }
        if self.rules.failed_dialogs == FailedDialogs::Refuse {
            return Err(NoWay::NoNode);
        }
        // It has been moved before, perhaps.
        if let Some(node) = owners.into_iter().flatten().find(|at| self.cluster.is_usable(now, *at)) {
            return Ok(node);
        }
        let other = self.chooser.choose(now, r.call_id, r.tag.kind(), Some(own)).ok_or(NoWay::NoNode)?;
        self.happened.moved += 1;
        if let Some(at) = found {
            self.sessions.move_to(at, other);
        }
        Ok(other)
    }

    /// The node of a request outside a dialog: where its call is known and alive, or its node asked for
    /// credentials, that one; one that refused or is over only where it takes calls; else a choice.
    fn node_of_new(&mut self, now: Time, r: &Request<'_>, found: Option<Place>) -> Result<NodeIndex, NoWay> {
        if let Some(home) = r.home {
            // Its credentials are for who asked for them.
            let asked = found.filter(|at| self.sessions.is_asked(*at)).map(|at| self.sessions.node(at));
            if let Some(node) = asked.filter(|at| self.cluster.is_usable(now, *at)) {
                return Ok(self.goes_first(now, node));
            }
            let node = self.chooser.home(now, home).ok_or(NoWay::NoNode)?;
            return self.held_back(now, r, node);
        }
        let known = found.map(|at| self.sessions.node(at));
        let bound = found.is_some_and(|at| {
            self.sessions.is_asked(at)
                || matches!(self.sessions.phase(at), Phase::Setup | Phase::Up | Phase::Dialog)
        });
        let good = |at: &NodeIndex| match bound {
            true => self.cluster.is_usable(now, *at),
            false => self.cluster.gets_calls(now, *at),
        };
        match known.filter(good) {
            // What was begun is to end well.
            Some(known) if bound => Ok(self.goes_first(now, known)),
            Some(known) => self.held_back(now, r, known),
            None => {
                let node = self.chooser.choose(now, r.call_id, r.tag.kind(), known).ok_or(NoWay::NoNode)?;
                self.held_back(now, r, node)
            }
        }
    }

    /// The call's record, made or brought to where this request puts it.
    fn enter(&mut self, now: Time, r: &Request<'_>, found: Option<Place>, node: NodeIndex) -> Option<Place> {
        let phase = match (r.tag, r.inside) {
            (Tag::Invite, false) => Phase::Setup,
            // Also an INVITE within a call that began before a restart: it is a call once a node says so.
            _ => Phase::Brief,
        };
        let Some(at) = found else {
            return self.sessions.create(r.call, node, phase);
        };
        if !r.inside && r.home.is_none() {
            self.keep_at(at, node);
        }
        match self.sessions.phase(at) {
            Phase::Ended => {
                if !self.sessions.has_room() {
                    return None;
                }
                // Of what is over nothing begins again but an INVITE.
                self.sessions.move_to(at, node);
                self.sessions.set_phase(at, phase, Time::FAR);
            }
            Phase::Brief => {
                self.sessions.move_to(at, node);
                if phase != Phase::Brief {
                    self.sessions.set_phase(at, phase, Time::FAR);
                }
            }
            Phase::Up => self.sessions.set_phase(at, Phase::Up, now + self.rules.session_timeout),
            // A subscription lives as long as its node last said.
            Phase::Dialog | Phase::Setup => {}
        }
        Some(at)
    }

    fn begin(&mut self, now: Time, r: &Request<'_>, at: Place, node: NodeIndex) -> Option<Assigned> {
        let before = self.cluster.load(node);
        let mut txn = Txn::new(now, r.id, r.tag, node, now + GIVE_UP);
        txn.fresh = r.tag == Tag::Invite && !r.inside;
        if txn.fresh {
            self.budget.earn();
        }
        (txn.large, txn.back, txn.sealed) = (r.large, r.back, r.sealed);
        txn.replies = Dispatcher::replies(r);
        let Some(place) = self.sessions.open(at, txn) else {
            self.settle(now, at);
            self.sessions.arm(now, at);
            return None;
        };
        if before.unanswered == 0 {
            let begun = self.cluster.loads().begun(node);
            self.sessions.note(place, |txn| txn.alone = Some(begun));
        }
        if let Some(stats) = self.stats_of(node) {
            stats.assigned(before.transactions());
        }
        self.happened.assigned += 1;
        self.sessions.arm(now, at);
        Some(Assigned { node, again: false, large: r.large })
    }

    /// Counts a response of `node`, whatever comes of it.
    pub fn count(&mut self, node: NodeIndex, status: u16) {
        if let Some(stats) = self.stats_of(node) {
            stats.answered(status);
        }
    }

    /// A response to a request that was given to `node`, and that comes from there.
    pub fn response(
        &mut self,
        now: Time,
        call: CallKey,
        id: u64,
        tag: Tag,
        node: NodeIndex,
        answer: &Answer,
    ) -> Seen {
        let &Answer { status, wait, .. } = answer;
        let Some(at) = self.sessions.find(call) else { return Seen::Stray };
        let Some(place) = self.sessions.find_txn(at, id, tag) else { return Seen::Stray };
        let Some(&txn) = self.sessions.txn(place) else { return Seen::Stray };
        if txn.node != node || !txn.open {
            return if txn.node == node { Seen::Stray } else { Seen::Replaced };
        }
        // Only what is owed says something of the node: of what is over, anybody along the way may have a copy.
        self.weigh_answer(now, &txn, place, status, wait);
        if status < 200 {
            let rings = tag == Tag::Invite && !txn.cancelled;
            let until = if rings { now + self.rules.ring_timeout } else { txn.until };
            self.sessions.note(place, |txn| (txn.heard, txn.rang, txn.until) = (true, txn.fresh, until));
            self.sessions.arm(now, at);
            return Seen::Counted;
        }
        self.sessions.close(place, now + LATE);
        self.sessions.set_asked(at, matches!(status, 401 | 407));
        self.conclude(now, at, &txn, answer);
        self.settle(now, at);
        self.sessions.arm(now, at);
        Seen::Counted
    }

    /// What an answer says of its node.
    pub(crate) fn weigh_answer(
        &mut self,
        now: Time,
        txn: &Txn,
        place: TxnPlace,
        status: u16,
        wait: Option<Duration>,
    ) {
        self.cluster.heard(now, txn.node);
        if let Some(vital) = self.cluster.vital(txn.node).filter(|_| !txn.heard) {
            vital.served(txn.began);
        }
        // To whatever else it may be the answer to one sender, who need not even be a user; and what another node has
        // refused before says more of the call than of this one.
        let first = txn.fresh && txn.barred.iter().all(Option::is_none);
        if first && status == 503 {
            self.overloaded(now, txn.node, wait);
        }
        match (status, wait) {
            (503, Some(time)) if first && !time.is_zero() => {
                if let Some(rest) = self.cluster.rest_of(txn.node) {
                    rest.refuses(now, time.min(LONGEST_REST));
                }
            }
            // Asked for credentials nobody has been taken; and what comes after the first is of a call taken long ago.
            (401 | 407, _) => {}
            (101..500, _) if txn.fresh && !txn.worked => {
                if let Some(rest) = self.cluster.rest_of(txn.node) {
                    rest.accepts(txn.began);
                }
            }
            _ => {}
        }
        if first && status >= 200 {
            // One that asks for rest has it.
            let refused = matches!(status, 500 | 502 | 504) || (status == 503 && wait.is_none());
            self.chooser.invited(now, txn.node, refused, status == 503);
        }
        let micros = u32::try_from(now.since(txn.began).as_micros()).unwrap_or(u32::MAX);
        self.measure(now, txn, place, status, micros);
        self.outliers.judge(now, &self.cluster, &self.rules);
    }

    fn measure(&mut self, now: Time, txn: &Txn, place: TxnPlace, status: u16, micros: u32) {
        let kind = txn.tag.kind();
        let worked = status >= 200 || (kind == Kind::Invite && status > 100);
        let first = worked && !txn.worked;
        if first {
            self.outliers.answered(txn.node, micros);
            self.sessions.worked(place, status >= 200);
            if let Some(stats) = self.stats_of(txn.node) {
                stats.took(now, kind, micros);
            }
        }
        if (500..600).contains(&status) {
            self.outliers.failed(txn.node, false);
        }
        if let Some(begun) = txn.alone.filter(|_| worked) {
            if self.cluster.loads().begun(txn.node) == begun {
                self.chooser.alone(kind, micros);
            }
            self.sessions.note(place, |txn| txn.alone = None);
        }
        match status {
            // What comes later is people.
            101..300 if first => self.chooser.answered(txn.node, micros),
            // Or who refuses everything at once would be the quickest of all.
            500..600 => self.chooser.answered(txn.node, micros.max(REFUSED)),
            _ => {}
        }
    }

    /// A node refuses a call with 503: it asks to be left alone for a while, or is asked at once how it is.
    pub(crate) fn overloaded(&mut self, now: Time, node: NodeIndex, wait: Option<Duration>) {
        if let Some(time) = wait {
            self.cluster.rest(now, node, time.min(LONGEST_REST), Why::Overloaded);
        }
        self.cluster.want_probe(node);
    }

    pub(crate) fn failed(&mut self, now: Time, node: NodeIndex, why: Why) {
        let rest = (!self.rules.probed).then_some(self.rules.rest);
        self.cluster.failed(now, node, why, self.rules.down_after, rest);
    }

    /// Where the responses to a request go, as its record has it.
    pub(crate) fn back(&self, call: CallKey, id: u64, tag: Tag) -> Option<SocketAddr> {
        Some(self.way_back(call, id, tag)?.0)
    }

    /// The same, and the place of the record.
    pub(crate) fn way_back(&self, call: CallKey, id: u64, tag: Tag) -> Option<(SocketAddr, TxnPlace)> {
        let place = self.sessions.find_txn(self.sessions.find(call)?, id, tag)?;
        Some((self.sessions.txn(place)?.back?, place))
    }
}
