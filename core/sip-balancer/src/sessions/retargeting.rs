//! What the dispatcher knows of requests that have to be sent once more, and where they go then.

use crate::failover::store::RIVALS;
use crate::sessions::table::{Place, Txn, TxnPlace};
use crate::timers::LATE;
use crate::{Assigned, CallKey, Dispatcher, NoWay, NodeIndex, Phase, Request, Tag, Why};
use core::time::Duration;
use wire::Time;

/// A retransmission that comes sooner says nothing about the node: T1 is 500 ms (RFC 3261 17.1.1.1).
const SILENCE: Duration = Duration::from_millis(400);

/// Nodes of an INVITE that may go down before it has an answer. It may be what brings them down, so no other gets it.
const MOST_FALLS: usize = 3;

/// An unfinished transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Who has it.
    pub node: NodeIndex,
    /// Since when.
    pub since: Time,
    /// Something has come back for it from there.
    pub heard: bool,
    /// An INVITE outside a dialog of which some node has said something provisional.
    pub rang: bool,
    /// Its sender has cancelled it, and waits for its end.
    pub cancelled: bool,
}

impl Dispatcher {
    /// A request that was here before: it goes where it went, and changes no counter. But if nothing ever came
    /// back and its node has failed, another node gets it.
    pub(crate) fn repeated(
        &mut self,
        now: Time,
        r: &Request<'_>,
        at: Place,
        place: TxnPlace,
    ) -> Result<Assigned, NoWay> {
        self.happened.repeated += 1;
        self.sessions.note(place, |txn| txn.replies.received(r.bytes, r.proof));
        let Some(&txn) = self.sessions.txn(place) else { return Err(NoWay::NoCall) };
        let mut node = txn.node;
        // One that rang and whose node is gone is rung for once more, by another.
        let orphan = txn.fresh && txn.heard && !self.cluster.is_usable(now, node);
        if txn.open && (!txn.heard || orphan) && r.tag != Tag::Cancel {
            if txn.fresh && !txn.missed && now.since(txn.began) >= SILENCE {
                self.sessions.note(place, |txn| txn.missed = true);
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
    ) -> Result<NodeIndex, NoWay> {
        if self.cluster.is_usable(now, node) {
            return Ok(node);
        }
        let other = self.node_of_dialog(now, r, Some(at)).inspect_err(|_| self.happened.no_node += 1)?;
        self.sessions.retarget(now, place, other);
        self.happened.retried += 1;
        Ok(other)
    }

    /// Who gets a request outside a dialog that nobody answers. An INVITE leaves a node that is only doubted, for what
    /// that says later is kept from the caller; others would be done twice.
    fn elsewhere(
        &mut self,
        now: Time,
        r: &Request<'_>,
        at: Place,
        place: TxnPlace,
        txn: &Txn,
    ) -> Result<NodeIndex, NoWay> {
        let (node, usable) = (txn.node, self.cluster.is_usable(now, txn.node));
        // Nobody wants it any more, or it may have been done there.
        let given_up = txn.cancelled || (txn.read && r.tag != Tag::Register);
        let silent = txn.fresh && self.cluster.is_silent(node);
        if given_up || (usable && !txn.returned && !silent) {
            return Ok(node);
        }
        let spent = txn.fresh && self.is_spent(now, txn);
        let other = match r.home {
            _ if spent => None,
            Some(home) if txn.returned && usable => self.chooser.home_but(now, home, &[node]),
            Some(home) => self.chooser.home(now, home),
            None => {
                let mut but = [node; RIVALS + 1];
                but.iter_mut()
                    .skip(1)
                    .zip(txn.barred.iter().flatten())
                    .for_each(|(at, barred)| *at = *barred);
                self.chooser.choose_but(now, r.call_id, r.tag.kind(), &but)
            }
        };
        match other.filter(|other| *other != node) {
            Some(other) => {
                self.sessions.retarget(now, place, other);
                self.sessions.note(place, |txn| txn.leave(node, !usable));
                self.keep_at(at, other);
                self.happened.retried += 1;
                Ok(other)
            }
            // What has rung may be answered all the same.
            None if usable || txn.rang => Ok(node),
            None => Err(NoWay::NoNode),
        }
    }

    /// Gives a call to a node because of a request outside its dialog. One that is up stays where it is.
    pub(crate) fn keep_at(&mut self, at: Place, node: NodeIndex) {
        if !matches!(self.sessions.phase(at), Phase::Up | Phase::Dialog) {
            self.sessions.move_to(at, node);
        }
    }

    /// A request did not reach its node. That counts as one failure, if the request is still without any answer.
    /// `unseen`: the network says that the node has not got it, so whoever sends it again may have another one. Where a
    /// connection ended it may have been read before, and only an INVITE may go to two nodes.
    pub fn returned(&mut self, now: Time, call: CallKey, id: u64, tag: Tag, node: NodeIndex, unseen: bool) {
        let Some(at) = self.sessions.find(call) else { return };
        let Some(place) = self.sessions.find_txn(at, id, tag) else { return };
        let Some(&txn) = self.sessions.txn(place) else { return };
        if !txn.open || txn.heard || txn.node != node || txn.returned {
            return;
        }
        // To register twice is to register once.
        let read = !txn.fresh && (txn.read || !unseen);
        let moves = txn.fresh || (unseen && (!read || tag == Tag::Register));
        self.sessions.note(place, |txn| (txn.returned, txn.missed, txn.read) = (moves, true, read));
        if !txn.read {
            self.failed(now, node, Why::Unreachable);
        }
    }

    /// The record of an INVITE.
    pub(crate) fn invite_of(&self, call: CallKey, id: u64) -> Option<TxnPlace> {
        self.sessions.find_txn(self.sessions.find(call)?, id, Tag::Invite)
    }

    /// Whether another node than the one that has an INVITE may have it, to which there is a `way`.
    pub fn has_other(&self, now: Time, call: CallKey, id: u64, way: impl Fn(NodeIndex) -> bool) -> bool {
        let place = self.invite_of(call, id);
        let Some(txn) = place.and_then(|place| self.sessions.txn(place)) else { return false };
        let free = |at: &NodeIndex| *at != txn.node && !txn.barred.contains(&Some(*at));
        self.cluster.indexes().filter(free).any(|at| self.cluster.gets_calls(now, at) && way(at))
    }

    /// An INVITE was taken from a node with a CANCEL, or refused by it: it never goes there again.
    pub fn bar(&mut self, call: CallKey, id: u64, node: NodeIndex) {
        let place = self.invite_of(call, id);
        if let Some(place) = place.filter(|_| !self.is_barred(call, id, node)) {
            self.sessions.note(place, |txn| {
                txn.barred.rotate_right(1);
                txn.barred[0] = Some(node);
            });
        }
    }

    /// Whether an INVITE was taken from this node with a CANCEL, or refused by it.
    pub fn is_barred(&self, call: CallKey, id: u64, node: NodeIndex) -> bool {
        let place = self.invite_of(call, id);
        let txn = place.and_then(|place| self.sessions.txn(place));
        txn.is_some_and(|txn| txn.barred.contains(&Some(node)))
    }

    /// The transaction of a request, if it is unfinished.
    pub fn waiting(&self, call: CallKey, id: u64, tag: Tag) -> Option<Waiting> {
        let place = self.sessions.find_txn(self.sessions.find(call)?, id, tag)?;
        let txn = self.sessions.txn(place).filter(|txn| txn.open)?;
        let (node, since, cancelled) = (txn.node, txn.began, txn.cancelled);
        Some(Waiting { node, since, heard: txn.heard, rang: txn.rang, cancelled })
    }

    /// Whether the nodes that have gone down with an INVITE are too many to give it to another one.
    pub fn has_felled(&self, now: Time, call: CallKey, id: u64) -> bool {
        let place = self.invite_of(call, id);
        place.and_then(|place| self.sessions.txn(place)).is_some_and(|txn| self.is_spent(now, txn))
    }

    /// The same of its record. Also those count that it left because they were silent, and that are known to be down by
    /// now.
    fn is_spent(&self, now: Time, txn: &Txn) -> bool {
        let down = |at: NodeIndex| !self.cluster.is_usable(now, at);
        let left = txn.left.iter().flatten().filter(|left| left.node != txn.node);
        let fallen = left.filter(|left| left.down || down(left.node)).count();
        fallen + usize::from(down(txn.node)) >= MOST_FALLS
    }

    /// Whether its sender has cancelled an INVITE.
    pub fn is_cancelled(&self, call: CallKey, id: u64) -> bool {
        let place = self.invite_of(call, id);
        place.and_then(|place| self.sessions.txn(place)).is_some_and(|txn| txn.cancelled)
    }

    /// Whether its sender has cancelled an INVITE at this node.
    pub fn is_cancelled_at(&self, call: CallKey, id: u64, node: NodeIndex) -> bool {
        let place = self.sessions.find(call).and_then(|at| self.sessions.find_txn(at, id, Tag::Cancel));
        place.and_then(|place| self.sessions.txn(place)).is_some_and(|txn| txn.node == node)
    }

    /// An INVITE has waited for [`Rules::silent_after`] and its node has said nothing to anybody: the node is doubted,
    /// and the INVITE goes to another one when it is repeated. Says whether it does wait.
    pub fn silent(&mut self, now: Time, call: CallKey, id: u64) -> bool {
        let place = self.invite_of(call, id);
        let Some(place) = place else { return false };
        let Some(&txn) = self.sessions.txn(place).filter(|txn| txn.open && !txn.heard) else { return false };
        if !txn.missed && !self.rules.probed {
            self.failed(now, txn.node, Why::Silent);
        }
        if self.rules.probed {
            self.cluster.suspect(now, txn.node);
        }
        self.sessions.note(place, |txn| (txn.returned, txn.missed) = (true, true));
        true
    }

    /// An INVITE has waited for long and its node has said nothing to it, though it answers what came
    /// later: one of the node's threads may hang, or something on the way drops this one message. The INVITE goes to another one when it is
    /// repeated, and the node is worse than others by that, but not held to be silent.
    /// `moves`: it may. Says whether it does.
    pub fn ignored(&mut self, call: CallKey, id: u64, moves: bool) -> bool {
        let place = self.invite_of(call, id);
        let waits = |place: &TxnPlace| self.sessions.txn(*place).is_some_and(|txn| txn.open && !txn.heard);
        let Some(place) = place.filter(waits) else { return false };
        // Once for each node.
        if let Some(txn) = self.sessions.txn(place).filter(|txn| !txn.missed) {
            self.outliers.failed(txn.node, true);
        }
        // Missed as well, or its move would count as a failure of a node that answers others.
        self.sessions.note(place, |txn| (txn.returned, txn.missed) = (txn.returned || moves, true));
        moves
    }

    /// A request that went over a stream because it is long, and did not arrive, goes in a datagram all the same
    /// (RFC 3261 section 18.1.1). Says whether it was such a one.
    pub fn shrink(&mut self, call: CallKey, id: u64, tag: Tag) -> bool {
        let place = self.sessions.find(call).and_then(|at| self.sessions.find_txn(at, id, tag));
        let large = |place: &TxnPlace| self.sessions.txn(*place).is_some_and(|txn| txn.large && txn.open);
        let Some(place) = place.filter(large) else { return false };
        self.sessions.note(place, |txn| txn.large = false);
        true
    }

    /// A node that had an INVITE before another one answers it first: it has it again. Who had it until now is told.
    pub fn win_back(&mut self, now: Time, call: CallKey, id: u64, node: NodeIndex) -> Option<NodeIndex> {
        let at = self.sessions.find(call)?;
        let place = self.sessions.find_txn(at, id, Tag::Invite)?;
        let &before = self.sessions.txn(place).filter(|txn| txn.open)?;
        let down = !self.cluster.is_usable(now, before.node);
        self.sessions.retarget(now, place, node);
        self.sessions.note(place, |txn| txn.leave(before.node, down));
        // It has had it for as long as the other one, and longer.
        self.sessions.note(place, |txn| txn.began = before.began);
        self.keep_at(at, node);
        self.sessions.arm(now, at);
        Some(before.node)
    }

    /// A request was refused here after all. Whoever hung up is gone all the same (RFC 3261 section 15.1.1), if it shows
    /// that it is of the dialog (`sealed`), now or when it came.
    pub fn abandon(&mut self, now: Time, call: CallKey, id: u64, tag: Tag, sealed: bool) {
        let Some(at) = self.sessions.find(call) else { return };
        let place = self.sessions.find_txn(at, id, tag);
        let sealed = sealed || place.and_then(|at| self.sessions.txn(at)).is_some_and(|txn| txn.sealed);
        if let Some(place) = place {
            self.sessions.close(place, now + LATE);
        }
        if tag == Tag::Bye && sealed && matches!(self.sessions.phase(at), Phase::Setup | Phase::Up) {
            self.end(now, at);
        }
        self.settle(now, at);
        self.sessions.arm(now, at);
    }
}
