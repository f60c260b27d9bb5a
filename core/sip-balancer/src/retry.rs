//! What the dispatcher knows of requests that have to be sent once more, and where they go then.

use crate::Tag;
use crate::cluster::NodeIndex;
use crate::dispatch::Dispatcher;
use crate::health::Why;
use crate::sessions::{CallKey, LATE, TxnPlace};
use wire::Time;

/// An unfinished transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Who has it.
    pub node: NodeIndex,
    /// Since when.
    pub since: Time,
    /// Something has come back for it.
    pub heard: bool,
}

impl Dispatcher {
    /// The transaction of a request, if it is unfinished.
    pub fn waiting(&self, call: CallKey, id: u64, tag: Tag) -> Option<Waiting> {
        let place = self.sessions.find_txn(self.sessions.find(call)?, id, tag)?;
        let txn = self.sessions.txn(place).filter(|txn| txn.open)?;
        Some(Waiting { node: txn.node, since: txn.began, heard: txn.heard })
    }

    /// Whether its sender has cancelled an INVITE.
    pub fn is_cancelled(&self, call: CallKey, id: u64) -> bool {
        self.sessions.find(call).is_some_and(|at| self.sessions.find_txn(at, id, Tag::Cancel).is_some())
    }

    /// An INVITE has waited for [`Rules::silent_after`] and its node has said nothing to anybody: the node is doubted,
    /// and the INVITE goes to another one when it is repeated. Says whether there may be one.
    pub fn silent(&mut self, now: Time, call: CallKey, id: u64) -> bool {
        let place = self.sessions.find(call).and_then(|at| self.sessions.find_txn(at, id, Tag::Invite));
        let Some(place) = place else { return false };
        let Some(&txn) = self.sessions.txn(place).filter(|txn| txn.open && !txn.heard) else { return false };
        if !txn.missed && !self.rules.probed {
            self.failed(now, txn.node, Why::Silent);
        }
        if self.rules.probed {
            self.cluster.suspect(now, txn.node);
        }
        self.sessions.note(place, |txn| (txn.returned, txn.missed) = (true, true));
        self.cluster.indexes().any(|other| other != txn.node && self.cluster.takes_calls(now, other))
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

    /// A node that had an INVITE before another one said yes first: it has it again. Who had it until now is told.
    pub fn win_back(&mut self, now: Time, call: CallKey, id: u64, node: NodeIndex) -> Option<NodeIndex> {
        let at = self.sessions.find(call)?;
        let place = self.sessions.find_txn(at, id, Tag::Invite)?;
        let before = self.sessions.txn(place).filter(|txn| txn.open)?.node;
        self.sessions.retarget(now, place, node);
        self.keep_at(at, node);
        self.sessions.arm(now, at);
        Some(before)
    }

    /// A request was refused here after all.
    pub fn abandon(&mut self, now: Time, call: CallKey, id: u64, tag: Tag) {
        let Some(at) = self.sessions.find(call) else { return };
        let Some(place) = self.sessions.find_txn(at, id, tag) else { return };
        self.sessions.close(place, now + LATE);
        self.settle(now, at);
        self.sessions.arm(now, at);
    }
}
