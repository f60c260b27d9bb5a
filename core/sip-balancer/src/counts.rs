//! What a worker counts.

/// What a worker counts. All of these only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests received.
    pub requests: u64,
    /// Responses received.
    pub responses: u64,
    /// Requests forwarded to nodes.
    pub forwarded: u64,
    /// Requests forwarded to callers.
    pub outward: u64,
    /// Responses forwarded.
    pub relayed: u64,
    /// What could be neither read nor answered.
    pub garbage: u64,
    /// Responses with a Via that we did not seal, and ACKs of nothing.
    pub stray: u64,
    /// Requests refused as malformed.
    pub malformed: u64,
    /// Requests refused because they go round and round, or have been forwarded too often.
    pub loops: u64,
    /// Requests refused because they may not go where they want.
    pub forbidden: u64,
    /// Requests refused with 503.
    pub unavailable: u64,
    /// Requests within a dialog whose token none of our keys has sealed.
    pub forged: u64,
    /// Answers of a node that were passed on as 500: 503 because other nodes take calls, 482 because another
    /// one had the INVITE before.
    pub softened: u64,
    /// Responses to datagrams not sent because they exceed three times what their sender sent.
    pub withheld: u64,
    /// Probes sent.
    pub probes: u64,
    /// Requests and refusals repeated here, because their sender's side is a stream and the other one loses
    /// datagrams.
    pub repeated: u64,
    /// INVITEs that were cancelled at a node, or ended with ACK and BYE, because another one has them.
    pub withdrawn: u64,
}
