//! What failover remembers.

use crate::failover::fanout_limit::FanoutLimit;
use crate::failover::search::Search;
use crate::failover::store::MessageStore;
use crate::failover::stream_responses::StreamResponses;
use wire::Time;

/// Requests that may have to be sent once more. It decides and writes requests of its own; what is to be
/// received once more it hands to the machine as a [`Replay`](super::retransmission::Replay).
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

    /// What is kept.
    pub fn messages(&self) -> &MessageStore {
        &self.kept
    }

    /// What is kept.
    pub fn messages_mut(&mut self) -> &mut MessageStore {
        &mut self.kept
    }
}
