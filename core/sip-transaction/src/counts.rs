//! Counters and gauges of the layer.

/// Counters and gauges.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Server transactions now.
    pub server: usize,
    /// Client transactions now, reserved ones and CANCELs included.
    pub client: usize,
    /// Of the client transactions, the CANCELs.
    pub cancels: usize,
    /// Timers running now.
    pub timers: usize,
    /// Bytes in message buffers kept for later use.
    pub idle_bytes: usize,
    /// Bytes held.
    pub held_bytes: usize,
    /// Of these, those of unproven senders.
    pub unproven_bytes: usize,
    /// Bytes held besides by what gives way when memory is short.
    pub yielding_bytes: usize,
    /// Bytes that may be held.
    pub most_bytes: usize,
    /// Server transactions ever.
    pub servers_created: u64,
    /// Client transactions ever.
    pub clients_created: u64,
    /// Requests refused because there was no room, and reservations not given.
    pub refused: u64,
    /// Of these, those refused because of the bytes held.
    pub refused_bytes: u64,
    /// Of these, those of unproven senders who hold their share.
    pub refused_share: u64,
    /// Responses not sent because an unproven sender would get more than three times what it sent.
    pub withheld: u64,
    /// Retransmitted requests received.
    pub requests_absorbed: u64,
    /// Retransmitted responses received.
    pub responses_absorbed: u64,
    /// Responses received that belong to no transaction.
    pub responses_unknown: u64,
    /// ACKs for failures received.
    pub acks_absorbed: u64,
    /// Requests sent again.
    pub requests_resent: u64,
    /// Responses sent again, by timer G or for a retransmitted request.
    pub responses_resent: u64,
    /// ACKs for failures sent, repeated ones included.
    pub acks_sent: u64,
    /// CANCELs sent, repeated ones not included.
    pub cancels_sent: u64,
    /// Client transactions that got no final response.
    pub client_timeouts: u64,
    /// Failures that were not acknowledged.
    pub ack_timeouts: u64,
    /// Server transactions that the transaction user never answered.
    pub unanswered: u64,
    /// Transmits of ours that the transport could not deliver.
    pub undeliverable: u64,
}
