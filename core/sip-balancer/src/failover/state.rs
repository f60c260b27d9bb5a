//! What failover remembers.

use crate::failover::fanout_limit::FanoutLimit;
use crate::failover::search::Search;
use crate::failover::store::{MessageStore, What};
use crate::failover::stream_responses::StreamResponses;
use crate::{NodeIndex, Tag};
use wire::{ConnId, Time};

/// Requests that may have to be sent once more. It decides and writes requests of its own; what is to be received once
/// more it hands to the machine as a [`Replay`](super::retransmission::Replay).
pub(crate) struct Failover {
    pub(super) kept: MessageStore,
    responses: StreamResponses,
    /// A message that was kept is received once more.
    pub(super) replaying: bool,
    /// The search for INVITEs that have lost their node, and the state of the cluster that it looked at last.
    pub(super) search: Search,
    pub(super) seen: u32,
    pub(super) fanout: FanoutLimit,
}

impl Failover {
    /// Nothing is kept; there is room for as many messages as `calls`, or as many as there may be.
    pub fn new(calls: usize, generation: u32) -> Failover {
        Failover {
            kept: MessageStore::new(calls),
            responses: StreamResponses::default(),
            replaying: false,
            search: Search::default(),
            seen: generation,
            fanout: FanoutLimit::default(),
        }
    }

    /// Messages kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Those for which there was no room.
    pub fn missed(&self) -> u64 {
        self.kept.missed
    }

    /// Responses to streams of callers.
    pub fn responses(&mut self) -> &mut StreamResponses {
        &mut self.responses
    }

    /// Whether what is being received is a message that was kept.
    pub fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// When something is due.
    pub fn next_due(&self) -> Option<Time> {
        self.kept.next()
    }

    /// When something is to be done.
    pub fn next_deadline(&self) -> Option<Time> {
        [self.kept.next(), self.search.next_deadline()].into_iter().flatten().min()
    }

    /// The connection that a request came on, if it is still kept.
    pub fn conn_of(&self, id: u64, tag: Tag, what: What) -> Option<ConnId> {
        self.kept.get(self.kept.find(id, tag, what)?)?.from.conn
    }

    /// How often the way of a request that is kept was found to lead nowhere.
    pub(crate) fn tries(&self, id: u64, tag: Tag, what: What) -> u8 {
        let at = self.kept.find(id, tag, what);
        at.and_then(|at| self.kept.get(at)).map_or(0, |entry| entry.tries)
    }

    /// Forgets what is kept under an id, if it is.
    pub(crate) fn forget(&mut self, id: u64, tag: Tag, what: What) {
        if let Some(at) = self.kept.find(id, tag, what) {
            self.kept.forget(at);
        }
    }

    /// With which status an INVITE was refused here after a node had it, if it was.
    pub(crate) fn refusal(&self, id: u64) -> Option<u16> {
        let at = self.kept.find(id, Tag::Invite, What::ToNode)?;
        self.kept.get(at)?.refused
    }

    /// The caller has got a refusal of ours: it is not repeated any more.
    pub(crate) fn refusal_acknowledged(&mut self, id: u64) {
        let Some(at) = self.kept.find(id, Tag::Invite, What::ToNode) else { return };
        if let Some(entry) = self.kept.get_mut(at).filter(|entry| entry.refused.is_some()) {
            entry.repeat = Time::FAR;
        }
    }

    /// Whether a node that answers an INVITE is another one than the one whose answer it is to have.
    pub(crate) fn has_left(&self, id: u64, node: NodeIndex) -> bool {
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        at.and_then(|at| self.kept.get(at)).is_some_and(|entry| entry.has_left(node))
    }
}
