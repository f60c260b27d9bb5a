//! What the dispatcher knows of requests that have to be sent once more, and where they go then.

use crate::policy::candidates::is_secure;
use crate::sessions::place::{Place, TxnPlace};
use crate::sessions::transaction::{MOST_BARRED, Txn};
use crate::{Assigned, CallKey, Dispatcher, MethodClass, NodeIndex, NotAssigned, Request, Why};
use core::time::Duration;
use wire::Time;

/// A retransmission that comes sooner says nothing about the node: T1 is 500 ms (RFC 3261 17.1.1.1).
const SILENCE: Duration = Duration::from_millis(400);

/// Nodes of an INVITE that may go down before it has an answer. It may be what brings them down, so no other
/// gets it.
const MOST_FALLS: usize = 3;

impl Dispatcher {
    /// A request that was here before: it goes where it went, and changes no counter. But if nothing ever
    /// came back and its node has failed, another node gets it.
    pub(crate) fn repeated(
        &mut self,
        now: Time,
        r: &Request<'_>,
        at: Place,
        place: TxnPlace,
    ) -> Result<Assigned, NotAssigned> {
        self.events.repeated += 1;
        self.calls.sessions.note(place, |txn| txn.replies.received(r.bytes, r.proof));
        let Some(&txn) = self.calls.sessions.txn(place) else { return Err(NotAssigned::NoCall) };
        let mut node = txn.node;
        // One that rang and whose node is gone is rung for once more, by another.
        let lost = txn.fresh && txn.heard && !self.cluster.is_usable(now, node);
        if txn.open && (!txn.heard || lost) && r.class != MethodClass::Cancel {
            if txn.fresh && !txn.delivery.missed && now.since(txn.began) >= SILENCE {
                self.calls.sessions.note(place, |txn| txn.delivery.missed = true);
                self.failed(now, node, Why::Silent);
            }
            node = match r.inside {
                true => self.with_its_dialog(now, r, at, place, node)?,
                false => self.elsewhere(now, r, at, place, &txn)?,
            };
        }
        Ok(Assigned { node, again: true, large: txn.large })
    }

    /// A request of a dialog goes where that goes: nobody has seen it yet.
    fn with_its_dialog(
        &mut self,
        now: Time,
        r: &Request<'_>,
        at: Place,
        place: TxnPlace,
        node: NodeIndex,
    ) -> Result<NodeIndex, NotAssigned> {
        if self.cluster.is_usable(now, node) {
            return Ok(node);
        }
        let other = self.node_of_dialog(now, r, Some(at)).inspect_err(|_| self.events.no_node += 1)?;
        self.calls.sessions.retarget(now, place, other);
        self.events.retried += 1;
        Ok(other)
    }

    /// Who gets a request outside a dialog that nobody answers. An INVITE leaves a node that is only doubted,
    /// for what that says later is kept from the caller; others would be done twice.
    fn elsewhere(
        &mut self,
        now: Time,
        r: &Request<'_>,
        at: Place,
        place: TxnPlace,
        txn: &Txn,
    ) -> Result<NodeIndex, NotAssigned> {
        let (node, usable) = (txn.node, self.cluster.is_usable(now, txn.node));
        // Nobody wants it any more, or it may have been done there.
        let given_up = txn.cancelled || (txn.delivery.read && r.class != MethodClass::Register);
        let silent = txn.fresh && self.cluster.is_silent(node);
        if given_up || (usable && !txn.delivery.returned && !silent) {
            return Ok(node);
        }
        let spent = txn.fresh && self.is_spent(now, txn);
        let other = match r.home {
            _ if spent => None,
            Some(home) if txn.delivery.returned && usable => {
                self.chooser.home_but(now, home, &[node], r.secure)
            }
            Some(home) => self.chooser.home(now, home, r.secure),
            None => {
                let mut but = [node; MOST_BARRED + 1];
                but.iter_mut().skip(1).zip(txn.trail.barred()).for_each(|(at, barred)| *at = barred);
                self.chooser.choose_for(now, r, &but)
            }
        };
        match other.filter(|other| *other != node) {
            Some(other) => {
                self.calls.sessions.retarget(now, place, other);
                self.calls.sessions.note(place, |txn| txn.trail.leave(node, !usable));
                self.calls.keep_at(at, other);
                self.events.retried += 1;
                Ok(other)
            }
            // What has rung may be answered all the same.
            None if usable || txn.rang => Ok(node),
            None => Err(NotAssigned::NoNode),
        }
    }

    /// A request did not reach its node. That counts as one failure, if the request is still without any
    /// answer. `unseen`: the network says that the node has not got it, so whoever sends it again may have
    /// another one. Where a connection ended it may have been read before, and only an INVITE may go to two
    /// nodes.
    pub fn returned(
        &mut self,
        now: Time,
        call: CallKey,
        id: u64,
        class: MethodClass,
        node: NodeIndex,
        unseen: bool,
    ) {
        let Some(at) = self.calls.sessions.find(call) else { return };
        let Some(place) = self.calls.sessions.find_txn(at, id, class) else { return };
        let Some(&txn) = self.calls.sessions.txn(place) else { return };
        if !txn.open || txn.heard || txn.node != node || txn.delivery.returned {
            return;
        }
        // To register twice is to register once.
        let read = !txn.fresh && (txn.delivery.read || !unseen);
        let moves = txn.fresh || (unseen && (!read || class == MethodClass::Register));
        self.calls.sessions.note(place, |txn| {
            (txn.delivery.returned, txn.delivery.missed, txn.delivery.read) = (moves, true, read)
        });
        if !txn.delivery.read {
            self.failed(now, node, Why::Unreachable);
        }
    }

    /// Whether another node than the one that has an INVITE may have it, to which there is a `way`.
    pub fn has_other(&self, now: Time, call: CallKey, id: u64, way: impl Fn(NodeIndex) -> bool) -> bool {
        let Some(txn) = self.calls.invite(call, id) else { return false };
        let free = |at: &NodeIndex| self.is_free(txn, *at);
        self.cluster.indexes().filter(free).any(|at| self.cluster.gets_calls(now, at) && way(at))
    }

    /// Whether an INVITE may go to this node, which does not have it.
    fn is_free(&self, txn: &Txn, at: NodeIndex) -> bool {
        at != txn.node && !txn.trail.is_barred(at) && (!txn.secure || is_secure(&self.cluster, at))
    }

    /// Whether the nodes that have gone down with an INVITE are too many to give it to another one.
    pub fn has_felled(&self, now: Time, call: CallKey, id: u64) -> bool {
        self.calls.invite(call, id).is_some_and(|txn| self.is_spent(now, txn))
    }

    /// The same of its record. Also those count that it left because they were silent, and that are known to
    /// be down by now.
    fn is_spent(&self, now: Time, txn: &Txn) -> bool {
        let down = |at: NodeIndex| !self.cluster.is_usable(now, at);
        txn.trail.fallen(txn.node, down) + usize::from(down(txn.node)) >= MOST_FALLS
    }

    /// An INVITE has waited for [`Rules::silent_after`](crate::Rules::silent_after) and its node has said
    /// nothing to anybody: the node is doubted, and the INVITE goes to another one when it is repeated. Says
    /// whether it does wait.
    pub fn silent(&mut self, now: Time, call: CallKey, id: u64) -> bool {
        let place = self.calls.invite_of(call, id);
        let Some(place) = place else { return false };
        let Some(&txn) = self.calls.sessions.txn(place).filter(|txn| txn.open && !txn.heard) else {
            return false;
        };
        if !txn.delivery.missed && !self.rules.probed {
            self.failed(now, txn.node, Why::Silent);
        }
        if self.rules.probed {
            self.cluster.suspect(now, txn.node);
        }
        self.calls.sessions.note(place, |txn| (txn.delivery.returned, txn.delivery.missed) = (true, true));
        true
    }

    /// An INVITE has waited for long and its node has said nothing to it, though it answers what came later:
    /// one of the node's threads may hang, or something on the way drops this one message. The INVITE goes to
    /// another one when it is repeated, and the node is worse than others by that, but not held to be silent.
    /// `moves`: it may. Says whether it does.
    pub fn ignored(&mut self, call: CallKey, id: u64, moves: bool) -> bool {
        let place = self.calls.invite_of(call, id);
        let waits =
            |place: &TxnPlace| self.calls.sessions.txn(*place).is_some_and(|txn| txn.open && !txn.heard);
        let Some(place) = place.filter(waits) else { return false };
        // Once for each node.
        if let Some(txn) = self.calls.sessions.txn(place).filter(|txn| !txn.delivery.missed) {
            self.outliers.failed(txn.node, true);
        }
        // Missed as well, or its move would count as a failure of a node that answers others.
        self.calls.sessions.note(place, |txn| {
            (txn.delivery.returned, txn.delivery.missed) = (txn.delivery.returned || moves, true)
        });
        moves
    }

    /// A node that had an INVITE before another one answers it first: it has it again. Who had it until now
    /// is told.
    pub fn win_back(&mut self, now: Time, call: CallKey, id: u64, node: NodeIndex) -> Option<NodeIndex> {
        let at = self.calls.sessions.find(call)?;
        let place = self.calls.sessions.find_txn(at, id, MethodClass::Invite)?;
        let &before = self.calls.sessions.txn(place).filter(|txn| txn.open)?;
        let down = !self.cluster.is_usable(now, before.node);
        self.calls.sessions.retarget(now, place, node);
        self.calls.sessions.note(place, |txn| txn.trail.leave(before.node, down));
        // It has had it for as long as the other one, and longer.
        self.calls.sessions.note(place, |txn| txn.began = before.began);
        self.calls.keep_at(at, node);
        self.calls.sessions.arm(now, at);
        Some(before.node)
    }

    /// Whether a node that has not had an INVITE, and has neither just refused another one with Retry-After
    /// nor lately refused most of what it got, takes calls.
    pub(crate) fn has_willing(&self, now: Time, call: CallKey, id: u64) -> bool {
        let Some(txn) = self.calls.invite(call, id) else { return false };
        let free = |at: &NodeIndex| self.is_free(txn, *at);
        self.cluster.willing(now).filter(free).any(|at| !self.chooser.refuses_most(now, at))
    }

    /// The node that has an INVITE has refused it with 503; `wait`: its Retry-After. Says whether another
    /// node may have it; then what the refusal says of the node is noted, and the INVITE is unfinished until
    /// it is given away.
    pub(crate) fn refused_by(
        &mut self,
        now: Time,
        call: CallKey,
        id: u64,
        node: NodeIndex,
        wait: Option<Duration>,
    ) -> bool {
        let place = self.calls.invite_of(call, id);
        let Some((place, &txn)) = place.and_then(|place| Some((place, self.calls.sessions.txn(place)?)))
        else {
            return false;
        };
        let refused = txn.trail.barred().count() + 1;
        let mine = txn.open && txn.fresh && txn.node == node && !txn.cancelled;
        if !mine || refused >= MOST_BARRED || self.has_felled(now, call, id) {
            return false;
        }
        self.weigh_answer(now, &txn, place, 503, wait);
        self.calls
            .sessions
            .note(place, |txn| (txn.heard, txn.delivery.returned, txn.delivery.missed) = (false, true, true));
        true
    }
}
