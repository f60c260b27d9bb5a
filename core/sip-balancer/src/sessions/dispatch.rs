//! Which node a request goes to, and what its response means: session-aware request assignment.
//!
//! Nothing here reads a message; a request is what [`Request`] says of it. The machine makes these from
//! bytes, simulations and property tests from nothing.

use crate::cluster::outliers::Outliers;
use crate::cluster::rest::LONGEST_REST;
use crate::policy::candidates::is_secure;
use crate::policy::overload::Overload;
use crate::sessions::place::{Place, TxnPlace};
use crate::sessions::reply_credit::Replies;
use crate::sessions::retry_budget::RetryBudget;
use crate::sessions::transaction::Txn;
use crate::timers::{GIVE_UP, LATE, work};
use crate::{
    Algorithm, Answer, Assigned, CallKey, Calls, Chooser, Cluster, FailedDialogs, Kind, MOST_NODES,
    MethodClass, NodeIndex, NodeStats, NotAssigned, Phase, Request, Rules, Seen, Why,
};
use core::time::Duration;
use sip_proxy::feedback::{self, oc};
use std::sync::Arc;
use wire::Time;

/// A refusal counts as an answer that took so long at least, microseconds: T1.
const REFUSED: u32 = 500_000;

/// What happened, in numbers that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events {
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
    pub(super) cluster: Arc<Cluster>,
    pub(super) chooser: Chooser,
    pub(super) calls: Calls,
    pub(super) rules: Rules,
    stats: Vec<NodeStats>,
    /// The nodes' ids, as tokens have them.
    of: Vec<u32>,
    pub(super) outliers: Outliers,
    overload: Overload,
    /// What may leave nodes that ignore it.
    budget: RetryBudget,
    pub(super) events: Events,
}

impl Dispatcher {
    /// A dispatcher for one worker of `cluster`, with room for `most` calls. `seed` spreads choices of
    /// workers.
    pub fn new(
        cluster: Arc<Cluster>,
        worker: u16,
        algorithm: Algorithm,
        rules: Rules,
        most: usize,
        seed: u64,
    ) -> Dispatcher {
        let mut chooser = Chooser::new(Arc::clone(&cluster), algorithm, seed);
        chooser.set_slow_start(rules.slow_start);
        Dispatcher {
            chooser,
            outliers: Outliers::default(),
            calls: Calls::new(Arc::clone(&cluster), worker, most, rules.session_timeout),
            stats: Vec::new(),
            of: Vec::new(),
            rules,
            overload: Overload::default(),
            budget: RetryBudget::default(),
            events: Events::default(),
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
        self.chooser.set_slow_start(rules.slow_start);
        self.calls.set_timeout(rules.session_timeout);
        self.rules = rules;
    }

    /// How nodes are chosen.
    pub fn chooser(&self) -> &Chooser {
        &self.chooser
    }

    /// The calls.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The calls, to tell what happens to them besides.
    pub fn calls_mut(&mut self) -> &mut Calls {
        &mut self.calls
    }

    /// What happened so far.
    pub fn events(&self) -> Events {
        Events { held_back: self.overload.held_back(), ..self.events }
    }

    /// A node has said how much less it wants. Only what was offered is listened to.
    pub fn told(&mut self, now: Time, node: NodeIndex, wish: &oc::Wish) {
        if wish.algorithm == feedback::Algorithm::Loss
            && let Some(node) = self.cluster.node(node)
        {
            self.overload.told(now, node.address, wish);
        }
    }

    /// Whether one more INVITE may leave a node that ignores it; then it does.
    pub(crate) fn may_move(&mut self, now: Time) -> bool {
        self.budget.spend(now)
    }

    /// What belongs to something that was begun goes to its node, and counts there.
    #[inline]
    fn goes_first(&mut self, now: Time, node: NodeIndex) -> NodeIndex {
        self.overload.goes_first(now, &self.cluster, node);
        node
    }

    /// Who gets something new that is to go to `node`, unless that asks for less.
    #[inline]
    fn held_back(&mut self, now: Time, r: &Request<'_>, node: NodeIndex) -> Result<NodeIndex, NotAssigned> {
        self.overload.redirect(now, r, node, (&self.cluster, &mut self.chooser))
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
        let stats = invariant::some!(self.stats.get_mut(at), "a node has a place")?;
        let (of, id) = (self.of.get_mut(at)?, self.cluster.id(node));
        if *of != id {
            // The place is another node's by now.
            *of = id;
            *stats = NodeStats::default();
            self.chooser.forget(node);
        }
        Some(stats)
    }

    /// Where a request goes.
    ///
    /// # Errors
    /// If it goes nowhere.
    pub fn request(&mut self, now: Time, r: &Request<'_>) -> Result<Assigned, NotAssigned> {
        let found = self.calls.sessions.find(r.call);
        if let Some(at) = found
            && let Some(txn) = self.calls.sessions.find_txn(at, r.id, r.class)
        {
            return self.repeated(now, r, at, txn);
        }
        let mut large = r.large;
        let node = match r.class {
            // It goes the way of its INVITE (RFC 3261 section 9.1).
            MethodClass::Cancel => match self.calls.cancel(now, r.id, found) {
                Some(txn) => {
                    large = txn.large;
                    Some(txn.node)
                }
                // Whoever has the call may know an INVITE that is not known here (16.10).
                None => r.token.or_else(|| found.map(|at| self.calls.sessions.node(at))),
            },
            _ if r.inside => {
                let node = self.node_of_dialog(now, r, found).inspect_err(|_| self.events.no_node += 1)?;
                Some(self.goes_first(now, node))
            }
            _ => Some(self.node_of_new(now, r, found).inspect_err(|why| {
                self.events.no_node += u64::from(*why == NotAssigned::NoNode);
            })?),
        };
        let node = node.ok_or(NotAssigned::NoCall)?;
        let r = &Request { large, ..*r };
        // What belongs to a known call is not refused because memory is short: its way is clear without a
        // record.
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
                self.events.full += 1;
                Err(NotAssigned::Full)
            }
        }
    }

    /// Where an ACK goes: to who has the INVITE it belongs to, or the dialog. `large`: it is too long for a
    /// datagram. `lost`: its Call-ID, if it may belong to a dialog that is known by its record alone, and
    /// there is none.
    pub fn ack(
        &mut self,
        now: Time,
        call: CallKey,
        id: u64,
        token: Option<NodeIndex>,
        (large, lost): (bool, Option<&[u8]>),
    ) -> Option<Assigned> {
        let at = self.calls.sessions.find(call);
        let invite = at.and_then(|at| self.calls.sessions.find_txn(at, id, MethodClass::Invite));
        if let Some(txn) = invite.and_then(|place| self.calls.sessions.txn(place)) {
            return Some(Assigned { node: txn.node, again: true, large: txn.large });
        }
        // After a 2xx it is a transaction of its own, which nothing answers.
        let usable = token.filter(|at| self.cluster.is_usable(now, *at));
        let known = usable.or(at.map(|at| self.calls.sessions.node(at))).or(token);
        // As with any other request of such a dialog.
        let node = known.or_else(|| self.chooser.choose(now, lost?, Kind::Other, None))?;
        self.goes_first(now, node);
        Some(Assigned { node, again: false, large })
    }

    /// The node of a dialog: as its token has it, for a call may have dialogs at two nodes, or its record.
    /// Without either it never was ours, or began before a restart in transparent mode; then the place of its
    /// Call-ID is as good a guess as any.
    pub(crate) fn node_of_dialog(
        &mut self,
        now: Time,
        r: &Request<'_>,
        found: Option<Place>,
    ) -> Result<NodeIndex, NotAssigned> {
        let owners = [r.token, found.map(|at| self.calls.sessions.node(at))];
        let Some(own) = owners.into_iter().flatten().next() else {
            return self.chooser.choose_for(now, r, &[]).ok_or(NotAssigned::NoNode);
        };
        if self.cluster.is_usable(now, own) {
            return Ok(own);
        }
        if self.rules.failed_dialogs == FailedDialogs::Refuse {
            return Err(NotAssigned::NoNode);
        }
        // It has been moved before, perhaps.
        if let Some(node) = owners.into_iter().flatten().find(|at| self.cluster.is_usable(now, *at)) {
            return Ok(node);
        }
        let other = self.chooser.choose_for(now, r, &[own]).ok_or(NotAssigned::NoNode)?;
        self.events.moved += 1;
        if let Some(at) = found {
            self.calls.sessions.move_to(at, other);
        }
        Ok(other)
    }

    /// The node of a request outside a dialog: where its call is known and alive, or its node asked for
    /// credentials, that one; one that refused or is over only where it takes calls; else a choice.
    fn node_of_new(
        &mut self,
        now: Time,
        r: &Request<'_>,
        found: Option<Place>,
    ) -> Result<NodeIndex, NotAssigned> {
        if let Some(home) = r.home {
            // Its credentials are for who asked for them.
            let asked =
                found.filter(|at| self.calls.sessions.is_asked(*at)).map(|at| self.calls.sessions.node(at));
            if let Some(node) = asked.filter(|at| self.cluster.is_usable(now, *at) && self.fits(r, *at)) {
                return Ok(self.goes_first(now, node));
            }
            let node = self.chooser.home(now, home, r.secure).ok_or(NotAssigned::NoNode)?;
            return self.held_back(now, r, node);
        }
        let known = found.map(|at| self.calls.sessions.node(at));
        let bound = found.is_some_and(|at| {
            self.calls.sessions.is_asked(at)
                || matches!(self.calls.sessions.phase(at), Phase::Setup | Phase::Up | Phase::Dialog)
        });
        let good = |at: &NodeIndex| match bound {
            true => self.cluster.is_usable(now, *at),
            false => self.cluster.gets_calls(now, *at),
        };
        match known.filter(|at| good(at) && self.fits(r, *at)) {
            // What was begun is to end well.
            Some(known) if bound => Ok(self.goes_first(now, known)),
            Some(known) => self.held_back(now, r, known),
            None => {
                let node = self.chooser.choose_for(now, r, known.as_slice()).ok_or(NotAssigned::NoNode)?;
                self.held_back(now, r, node)
            }
        }
    }

    /// Whether a request may go to this node: one for a `sips:` URI only over TLS.
    fn fits(&self, r: &Request<'_>, at: NodeIndex) -> bool {
        !r.secure || is_secure(&self.cluster, at)
    }

    /// The call's record, made or brought to where this request puts it.
    fn enter(&mut self, now: Time, r: &Request<'_>, found: Option<Place>, node: NodeIndex) -> Option<Place> {
        let phase = match (r.class, r.inside) {
            (MethodClass::Invite, false) => Phase::Setup,
            // Also an INVITE within a call that began before a restart: it is a call once a node says so.
            _ => Phase::Brief,
        };
        let Some(at) = found else {
            return self.calls.sessions.create(r.call, node, phase);
        };
        if !r.inside && r.home.is_none() {
            self.calls.keep_at(at, node);
        }
        match self.calls.sessions.phase(at) {
            Phase::Ended => {
                if !self.calls.sessions.has_room() {
                    return None;
                }
                // Of what is over nothing begins again but an INVITE.
                self.calls.sessions.move_to(at, node);
                self.calls.sessions.set_phase(at, phase, Time::FAR);
            }
            Phase::Brief => {
                self.calls.sessions.move_to(at, node);
                if phase != Phase::Brief {
                    self.calls.sessions.set_phase(at, phase, Time::FAR);
                }
            }
            Phase::Up => self.calls.renew(now, at),
            // A subscription lives as long as its node last said.
            Phase::Dialog | Phase::Setup => {}
        }
        Some(at)
    }

    fn begin(&mut self, now: Time, r: &Request<'_>, at: Place, node: NodeIndex) -> Option<Assigned> {
        let before = self.cluster.load(node);
        let mut txn = Txn::new(now, r.id, r.class, node, now + GIVE_UP);
        txn.fresh = r.class == MethodClass::Invite && !r.inside;
        if txn.fresh {
            self.budget.earn();
        }
        (txn.large, txn.secure, txn.back, txn.sealed) = (r.large, r.secure, r.back, r.sealed);
        txn.replies = Replies::of(r);
        if self.calls.sessions.open(at, txn).is_none() {
            self.calls.settle(now, at);
            self.calls.sessions.arm(now, at);
            return None;
        }
        if let Some(stats) = self.stats_of(node) {
            stats.assigned(before.transactions());
        }
        self.events.assigned += 1;
        self.calls.sessions.arm(now, at);
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
        class: MethodClass,
        node: NodeIndex,
        answer: &Answer,
    ) -> Seen {
        let &Answer { status, wait, .. } = answer;
        let Some(at) = self.calls.sessions.find(call) else { return Seen::Stray };
        let Some(place) = self.calls.sessions.find_txn(at, id, class) else { return Seen::Stray };
        let Some(&txn) = self.calls.sessions.txn(place) else { return Seen::Stray };
        if txn.node != node || !txn.open {
            return if txn.node == node { Seen::Stray } else { Seen::Replaced };
        }
        // Only what is owed says something of the node: of what is over, anybody along the way may have a
        // copy.
        self.weigh_answer(now, &txn, place, status, wait);
        if status < 200 {
            let rings = class == MethodClass::Invite && !txn.cancelled;
            let until = if rings { now + self.rules.ring_timeout } else { txn.until };
            self.calls
                .sessions
                .note(place, |txn| (txn.heard, txn.rang, txn.until) = (true, txn.fresh, until));
            self.calls.sessions.arm(now, at);
            return Seen::Counted;
        }
        self.calls.sessions.close(place, now + LATE);
        self.calls.sessions.set_asked(at, matches!(status, 401 | 407));
        self.calls.conclude(now, at, &txn, answer);
        self.calls.settle(now, at);
        self.calls.sessions.arm(now, at);
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
        // To whatever else it may be the answer to one sender, who need not even be a user; and what another
        // node has refused before says more of the call than of this one.
        let first = txn.fresh && txn.trail.barred().next().is_none();
        if first && status == 503 {
            self.overloaded(now, txn.node, wait);
        }
        match (status, wait) {
            (503, Some(time)) if first && !time.is_zero() => {
                if let Some(rest) = self.cluster.rest_of(txn.node) {
                    rest.refuses(now, time.min(LONGEST_REST));
                }
            }
            // Asked for credentials nobody has been taken; and what comes after the first is of a call taken
            // long ago.
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
        let kind = txn.class.kind();
        let worked = status >= 200 || (kind == Kind::Invite && status > 100);
        let first = worked && !txn.worked;
        if first {
            self.outliers.answered(txn.node, micros);
            self.calls.sessions.note(place, |txn| txn.worked = true);
            if let Some(stats) = self.stats_of(txn.node) {
                stats.took(now, kind, micros);
            }
        }
        if (500..600).contains(&status) {
            self.outliers.failed(txn.node, false);
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

    /// A request leaves without a record, so that nobody will see its answer. If it is a BYE its call ends by
    /// it: nothing else would end that for a long time.
    pub(crate) fn unrecorded(&mut self, now: Time, r: &Request<'_>, found: Option<Place>) {
        self.events.unrecorded += 1;
        if let Some(at) = found.filter(|_| r.class == MethodClass::Bye && r.sealed) {
            self.calls.ends_unrecorded(now, at);
        }
    }

    /// Gives up what waited too long and forgets what was remembered long enough.
    pub fn timeout(&mut self, now: Time) {
        for _ in 0..work(now, self.next_deadline()) {
            let Some(at) = self.calls.sessions.due(now) else { return };
            while let Some(place) = self.calls.sessions.overdue(now, at) {
                self.give_up(now, at, place);
            }
            self.calls.sessions.forget_done(now, at);
            self.calls.settle(now, at);
            match self.calls.sessions.phase(at) {
                Phase::Up | Phase::Dialog
                    if self.calls.sessions.until(at) <= now && !self.calls.sessions.is_busy(at) =>
                {
                    self.events.lost_calls += 1;
                    self.calls.end(now, at);
                }
                Phase::Ended
                    if self.calls.sessions.until(at) <= now
                        && self.calls.sessions.of(at).next().is_none() =>
                {
                    self.calls.sessions.remove(at);
                    continue;
                }
                Phase::Up | Phase::Dialog | Phase::Ended if self.calls.sessions.until(at) <= now => {
                    // Something of it is still under way.
                    let phase = self.calls.sessions.phase(at);
                    self.calls.sessions.set_phase(at, phase, now + LATE);
                }
                _ => {}
            }
            self.calls.sessions.arm(now, at);
        }
    }

    fn give_up(&mut self, now: Time, at: Place, place: TxnPlace) {
        let Some(&txn) = self.calls.sessions.txn(place) else { return };
        self.events.timed_out += 1;
        if !txn.heard && txn.fresh && !txn.delivery.missed {
            self.failed(now, txn.node, Why::Silent);
        }
        if !txn.heard {
            self.outliers.failed(txn.node, true);
            self.chooser.answered(txn.node, GIVE_UP.as_micros() as u32);
        }
        // Who has an INVITE may still say something.
        self.calls.sessions.close(place, if txn.fresh { now + LATE } else { now });
        // Whoever hung up is gone, answered or not (RFC 3261 section 15.1.1).
        if txn.class == MethodClass::Bye
            && txn.sealed
            && matches!(self.calls.sessions.phase(at), Phase::Setup | Phase::Up)
        {
            self.calls.end(now, at);
        }
    }

    /// When [`Dispatcher::timeout`] wants to be called next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.calls.sessions.next_deadline()
    }
}
